"""A lexicon of whole words, for a vocabulary of pieces of words."""

from dataclasses import replace

from fairseq_groc.lexicon.base import Entry, Lexicon
from fairseq_groc.pieces import piece_of, word_of


class PieceLexicon:
    """Look up the pieces that are words in another lexicon; what it says of them is written as pieces, too.

    Then a related word is the same form as the piece that is this word. Pieces that are but parts of words have no entries.

    Args:
        lexicon: the other one
        mark: one of ``pieces.MARKS``
    """

    def __init__(self, lexicon: Lexicon, mark: str):
        self._lexicon, self._mark = lexicon, mark
        self.name = f"{lexicon.name}, for pieces marked {mark}"

    def fingerprint(self) -> str:
        return f"{self._lexicon.fingerprint()}-pieces-{self._mark}"

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        whole = word_of(word, self._mark)
        if whole is None:
            return Entry()
        entry = self._lexicon.lookup(whole, max_relations, max_definition)
        relations = tuple(replace(relation, word=piece_of(relation.word, self._mark)) for relation in entry.relations)
        return replace(entry, relations=relations, definition=tuple(piece_of(part, self._mark) for part in entry.definition))
