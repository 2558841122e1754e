"""Lexicons made of others: several as one, one for pieces of words, one within a vocabulary, a share of one's entries."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairseq_groc.dictionary import spelling, words_fingerprint
from fairseq_groc.lexicon.base import Entry, Lexicon
from fairseq_groc.pieces import piece_of, word_of


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


class ThinnedLexicon:
    """Keep a share of another lexicon's relations and, drawn independently, of its definitions (GroC, section 4.3, Table 4).

    Whether a word keeps them is a function of the word and the seed alone. What is kept at a share is kept at every larger one.

    Args:
        lexicon: the other one
        share: of the words that keep their relations, and of those that keep their definition, in [0, 1]
        seed: of the draws
    """

    def __init__(self, lexicon: Lexicon, share: float, seed: int = 1):
        self._lexicon, self.share, self.seed = lexicon, share, seed
        self._lookup = functools.cache(lexicon.lookup)
        self.name = f"{lexicon.name}, {share:.0%} of the entries"

    def with_share(self, share: float) -> ThinnedLexicon:
        """Return one of another share; what this one has looked up is not looked up again."""
        other = ThinnedLexicon(self._lexicon, share, self.seed)
        other._lookup = self._lookup
        return other

    def fingerprint(self) -> str:
        return f"{self._lexicon.fingerprint()}-keep{self.share:g}-seed{self.seed}"

    def lookup(self, word: str, max_relations: int, max_definition: int) -> Entry:
        entry = self._lookup(word, max_relations, max_definition)
        if not self._keeps(word, "relations"):
            entry = replace(entry, relations=())
        if not self._keeps(word, "definition"):
            entry = replace(entry, definition=(), definition_source="")
        return entry

    def _keeps(self, word: str, part: str) -> bool:
        drawn = hashlib.sha256(spelling(f"{self.seed} {part} {word}")).digest()
        return int.from_bytes(drawn[:8], "big") < self.share * 2.0**64
