"""A lexicon that knows no other words than a vocabulary's, to see what the others are worth."""

import sys
from collections.abc import Iterable

from fairseq_groc.dictionary import words_fingerprint
from fairseq_groc.lexicon.base import Entry, Lexicon


class RestrictedLexicon:
    """Keep those relations and gloss words of another lexicon that are words of a vocabulary, as released GroC models do.

    What a word is made of then depends on the vocabulary: another one is another lexicon.

    Args:
        lexicon: the other one
        words: the vocabulary
    """

    def __init__(self, lexicon: Lexicon, words: Iterable[str]):
        self._lexicon, self._words = lexicon, frozenset(words)
        self.name = f"{lexicon.name}, within {len(self._words):,} words"

    def fingerprint(self) -> str:
        return f"{self._lexicon.fingerprint()}-within-{words_fingerprint(sorted(self._words))}"

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        entry = self._lexicon.lookup(word, sys.maxsize, sys.maxsize)
        relations = tuple(relation for relation in entry.relations if relation.word in self._words)[:max_relations]
        definition = tuple(part for part in entry.definition if part in self._words)[:max_definition]
        return Entry(relations, definition, entry.definition_source if definition else "")
