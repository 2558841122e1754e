"""Lexicons: where a word's relations and definition come from, and the tables made of them."""

from pathlib import Path
from typing import Optional

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.base import Entry, Lexicon, NoLexicon, Relation
from fairseq_groc.lexicon.file import FileLexicon
from fairseq_groc.lexicon.thinned import ThinnedLexicon
from fairseq_groc.lexicon.wordnet import WordNetLexicon, find_wordnet

__all__ = [
    "Entry",
    "FileLexicon",
    "Lexicon",
    "NoLexicon",
    "Relation",
    "ThinnedLexicon",
    "WordNetLexicon",
    "find_wordnet",
    "open_lexicon",
]


def open_lexicon(path: Optional[str] = None) -> Lexicon:
    """Open the lexicon at *path*: a file, a WordNet folder, ``none``, or (no path) the machine's WordNet."""
    if path == "none":
        return NoLexicon()
    if path and not Path(path).exists():
        raise LexiconError(f"--lexicon-path {path}: no such file or folder. Give a .tsv or .jsonl file or a WordNet folder.")
    if path and Path(path).is_file():
        return FileLexicon(Path(path))
    return WordNetLexicon(find_wordnet(path))
