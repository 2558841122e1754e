"""Lexicons: where a word's relations and definition come from, and the tables made of them."""

import inspect
from collections.abc import Sequence
from pathlib import Path

from fairseq_groc.errors import LexiconError
from fairseq_groc.lexicon.base import LEXICONS, Entry, Lexicon, NoLexicon, Relation, gloss_words, register_lexicon
from fairseq_groc.lexicon.derived import PieceLexicon, RestrictedLexicon, SeveralLexicons, ThinnedLexicon
from fairseq_groc.lexicon.file import FileLexicon
from fairseq_groc.lexicon.lemmas import LemmaLexicon
from fairseq_groc.lexicon.omw import TabLexicon
from fairseq_groc.lexicon.senses import SenseLexicon
from fairseq_groc.lexicon.wn_library import WnLexicon
from fairseq_groc.lexicon.wordnet import NounsFirstLexicon, WordNetLexicon, find_wordnet

__all__ = [
    "LEXICONS",
    "Entry",
    "FileLexicon",
    "LemmaLexicon",
    "Lexicon",
    "NoLexicon",
    "NounsFirstLexicon",
    "PieceLexicon",
    "Relation",
    "RestrictedLexicon",
    "SenseLexicon",
    "SeveralLexicons",
    "TabLexicon",
    "ThinnedLexicon",
    "WnLexicon",
    "WordNetLexicon",
    "find_wordnet",
    "gloss_words",
    "open_lexicon",
    "open_lexicons",
    "register_lexicon",
    "sources_of",
]


def open_lexicon(path: str | None = None) -> Lexicon:
    """Open the lexicon at *path*: a file, a WordNet folder, a registered NAME or NAME:TEXT, or (no path) the machine's WordNet.

    Raises:
        LexiconError: there is none, or a registered one takes no text, or wants some.
    """
    _check(path or "wordnet")
    name, colon, text = (path or "").partition(":")
    if name in LEXICONS:
        return LEXICONS[name](*([text] if colon else []))
    if path and Path(path).is_file():
        return FileLexicon(Path(path))
    return WordNetLexicon(path)


def open_lexicons(paths: Sequence[str] | None = None) -> Lexicon:
    """Open lexicons of which the first that has a word wins; each is given as to ``open_lexicon``. None at all: WordNet."""
    lexicons = [open_lexicon(path) for path in paths or ["wordnet"]]
    return lexicons[0] if len(lexicons) == 1 else SeveralLexicons(lexicons)


def sources_of(paths: Sequence[str] | None = None) -> list[str]:
    """Return what opens the same lexicons from any folder: files by their absolute paths.

    Raises:
        LexiconError: one of them is none, as far as is seen without opening it.
    """
    return [_anywhere(path) for path in paths or ["wordnet"]]


def _anywhere(path: str) -> str:
    """Return a path as an absolute one, and NAME:TEXT with what TEXT names where the lexicon calls it ``path``."""
    _check(path)
    name, _, text = path.partition(":")
    if name not in LEXICONS:
        return str(Path(path).resolve())
    return f"{name}:{_anywhere(text)}" if text and "path" in inspect.signature(LEXICONS[name]).parameters else path


@register_lexicon("lemmas")
def _lemmas(path: str) -> Lexicon:
    """Open a lexicon in which inflected words have the entries of their dictionary forms."""
    return LemmaLexicon(open_lexicon(path))


def _check(path: str) -> None:
    """Refuse what can be seen to be no lexicon without opening it."""
    name, colon, text = path.partition(":")
    if name in LEXICONS:
        try:
            inspect.signature(LEXICONS[name]).bind(*([text] if colon else []))
        except TypeError as error:
            raise LexiconError(f"--lexicon-path {path}: {error}. The form is NAME or NAME:TEXT.") from None
    elif not Path(path).exists():
        raise LexiconError(
            f"--lexicon-path {path}: no such file or folder. Give a .tsv or .jsonl file or a WordNet folder, or the name "
            f"of a registered lexicon ({', '.join(LEXICONS)}; --user-dir registers others)."
        )
    elif Path(path).is_dir():
        find_wordnet(path)
