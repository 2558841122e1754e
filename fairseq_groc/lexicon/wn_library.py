"""A lexicon in any language from the database of the package wn (https://pypi.org/project/wn)."""

import warnings
from collections.abc import Sequence
from typing import Any

from fairseq_groc.errors import LexiconError, imported
from fairseq_groc.lexicon.base import register_lexicon
from fairseq_groc.lexicon.senses import SenseLexicon


@register_lexicon("wn")
class WnLexicon(SenseLexicon):
    """Read a lexicon that was downloaded or added with wn.

    Entries and their senses come in the lexicon's order. Inflected words are found where the lexicon lists them as forms.
    Hyponyms of a lexicon without relations come from the lexicon that it says it needs, such as omw-en for omw-fr.

    Args:
        lexicon: ID:VERSION, or ID where the database has one version

    Raises:
        LexiconError: the package is missing, or the lexicon, or one that it needs.
    """

    def __init__(self, lexicon: str):
        path = f"--lexicon-path wn:{lexicon}"
        library = imported("wn", LexiconError(f"{path}: the package wn reads it: pip install wn"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is asked for below
            present = library.lexicons()
        found = [one for one in present if lexicon in (one.id, one.specifier())]
        if len(found) != 1:
            listed = ", ".join(one.specifier() for one in found or present) or "none"
            raise LexiconError(
                f"{path}: {len(found)} of the lexicons in {library.config.database_path} have this name; there "
                f"{'are' if found or present else 'is'} {listed}. Give ID:VERSION of one, or run python -m wn download {lexicon}"
            )
        self.name, self.language = found[0].specifier(), found[0].language
        if lacking := _lacking(found[0]):
            raise LexiconError(
                f"{path}: it has its relations from {lacking}, which {library.config.database_path} lacks. "
                f"Run python -m wn download {lacking}"
            )
        self._wordnet = library.Wordnet(self.name)

    def fingerprint(self) -> str:
        """Return the names of the lexicons that answers come from: wn takes ID:VERSION to be always the same lexicon."""
        return "-".join(["wn", self.name, *(one.specifier() for one in self._wordnet.expanded_lexicons())])

    def _senses(self, word: str) -> Sequence[Any]:
        # wn finds words also without regard to accents, which make other words
        spelled = {one: set(one.forms()) for one in self._wordnet.words(word)}
        spelled = {one: forms for one, forms in spelled.items() if word.lower() in map(str.lower, forms)}
        for written in (word, word.lower()):
            if exact := [one for one in spelled if written in spelled[one]]:
                return [sense.synset() for one in exact for sense in one.senses()]
        return [sense.synset() for one in spelled for sense in one.senses()]

    def _label(self, sense: Any) -> str:
        return sense.id

    def _lemmas(self, sense: Any) -> Sequence[str]:
        return [lemma.replace("_", " ") for lemma in sense.lemmas()]

    def _hyponyms(self, sense: Any) -> Sequence[Any]:
        return sorted(sense.hyponyms(), key=lambda below: (below.id, below.ili or ""))

    def _definition(self, sense: Any) -> str:
        return sense.definition() or ""


def _lacking(lexicon: Any) -> str | None:
    """Return the name of a lexicon that one needs and the database lacks; None: there is none."""
    try:
        return next((name for name, there in lexicon.requires().items() if there is None), None)
    except LookupError as removed:  # which was there once
        return str(removed.args[0])
