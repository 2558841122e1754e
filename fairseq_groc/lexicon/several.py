"""Several lexicons as one."""

from collections.abc import Sequence

from fairseq_groc.lexicon.base import Entry, Lexicon


class SeveralLexicons:
    """The first of several lexicons that has a word says what it is made of.

    A file has a word also where both its fields are empty: none of the lexicons behind it is asked then.

    Args:
        lexicons: in the order in which they are asked
    """

    def __init__(self, lexicons: Sequence[Lexicon]):
        self.lexicons = list(lexicons)
        self.name = ", then ".join(lexicon.name for lexicon in self.lexicons)

    def fingerprint(self) -> str:
        return "+".join(lexicon.fingerprint() for lexicon in self.lexicons)

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        entries = (lexicon.lookup(word, max_relations, max_definition) for lexicon in self.lexicons)
        return next((entry for entry in entries if entry != Entry()), Entry())
