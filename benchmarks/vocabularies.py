"""Lexicon tables of large vocabularies, made from WordNet alone, for measuring speed: no text is needed.

Or those of binarised text.
"""

from pathlib import Path

from fairseq_groc.dictionary import SPECIAL, load_dictionary
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.lexicon import WordNetLexicon, find_wordnet
from fairseq_groc.lexicon.tables import build_tables
from fairseq_groc.lexicon.tables_file import load_tables, save_tables

SUFFIXES = ("", "s", "ed", "ing", "ly", "ness")


def words_of(wordnet: WordNetLexicon, size: int):
    """Return *size* dictionary entries: WordNet's single words, then these with common endings."""
    names = sorted({name for name in wordnet.database.all_lemma_names() if "_" not in name})
    words = list(SPECIAL)
    for suffix in SUFFIXES:
        words += [name + suffix for name in names]
    words = list(dict.fromkeys(words))
    if len(words) < size:
        raise SystemExit(f"only {len(words):,} words can be made, {size:,} are wanted")
    return words[:size]


def take(data: Path, folder: Path) -> int:
    """Keep the vocabulary of binarised text in *folder*, in the place of a made-up one of its size, which is returned."""
    words = load_dictionary(data / "dict.txt").symbols
    place = folder / f"tables-{len(words)}"
    place.mkdir(parents=True, exist_ok=True)
    save_tables(place, load_tables(data, words), words)
    (place / "words.txt").write_text("\n".join(words), encoding="utf-8")
    return len(words)


def vocabulary_of(size: int, widths, folder: Path) -> Vocabulary:
    """Return the vocabulary of that size; its tables are kept in *folder*."""
    place = folder / f"tables-{size}"
    list_of_words = place / "words.txt"
    if not list_of_words.exists():
        wordnet = WordNetLexicon(find_wordnet())
        words = words_of(wordnet, size)
        place.mkdir(parents=True, exist_ok=True)
        save_tables(place, build_tables(words, wordnet), words)
        list_of_words.write_text("\n".join(words), encoding="utf-8")
    words = list_of_words.read_text(encoding="utf-8").split("\n")
    tables = load_tables(place, words)
    return Vocabulary(tables, widths)
