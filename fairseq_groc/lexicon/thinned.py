"""A lexicon with a share of its entries, to see what its coverage is worth."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import replace

from fairseq_groc.lexicon.base import Entry, Lexicon


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
        drawn = hashlib.sha256(f"{self.seed} {part} {word}".encode("utf-8", "surrogateescape")).digest()
        return int.from_bytes(drawn[:8], "big") < self.share * 2.0**64
