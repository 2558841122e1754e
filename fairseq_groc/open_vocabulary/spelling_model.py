"""A distribution over spellings: what a word costs that no vocabulary has.

A plain n-gram model over bytes, since ``nltk.lm`` gives a byte that its training words lack probability 0.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairseq_groc.embeddings.vocabulary import BEGIN, END, spell

# all bytes but the blanks that end a word; those above 127 are parts of characters
WORD_BYTES = bytes(b for b in range(256) if b > 127 or not chr(b).isspace())
BASE = END + 1  # of the numbers that n-grams are written as: 6 symbols fit into int64
MAX_ORDER = 6


class _Level(NamedTuple):
    """Counts of the n-grams of one length, contexts and n-grams as sorted numbers.

    Args:
        contexts: what was seen before a symbol
        totals: how often
        types: by how many different symbols it was followed
        grams: a context and the symbol after it
        counts: how often
    """

    contexts: NDArray[Any]
    totals: NDArray[Any]
    types: NDArray[Any]
    grams: NDArray[Any]
    counts: NDArray[Any]


class SpellingModel:
    """A byte n-gram model with interpolated Witten-Bell smoothing (Chen and Goodman 1999, section 2.5).

    p(x | c) = (N(c x) + T(c) p(x | c')) / (N(c) + T(c)): N counts, T(c) is the number of different symbols after the context c,
    c' is c without its first symbol; below the empty context p is uniform over the alphabet and END. A context never reaches
    beyond the word's beginning.

    It is a distribution over all non-empty strings of the alphabet: at every place the probabilities of the alphabet and END sum
    to 1 (at the first one END is left out and the others are divided by the rest), and END has a chance in every one of the
    finitely many contexts, so that a string ends with probability 1.

    Args:
        spellings: of words to learn from, each counted once; those with other bytes than the alphabet's are left out
        order: n
        alphabet: the bytes that a word may have
    """

    def __init__(self, spellings: Sequence[bytes], order: int = 5, alphabet: bytes = WORD_BYTES):
        assert 1 <= order <= MAX_ORDER
        self.order = order
        self._allowed = np.isin(np.arange(BASE), [*alphabet, END])
        symbols, contexts, place, _ = self._windows([word for word in spellings if self._spells(word)])
        self._levels: list[_Level] = []
        for length in range(order):
            here = place >= length
            if here.any():
                self._levels.append(_count(contexts[length][here], symbols[here]))
        first = self._probabilities(np.array([END]), [np.array([BEGIN * (n > 0)]) for n in range(order)], np.array([1]))
        self._log_not_empty = float(np.log1p(-first[0]))

    def log_probability(self, spellings: Sequence[bytes]) -> NDArray[Any]:
        """Return the natural logarithm of every word's probability, (n); -inf where there is none."""
        possible = np.array([len(word) > 0 and self._spells(word) for word in spellings], dtype=bool)
        result = np.full(len(spellings), -np.inf)
        symbols, contexts, place, word = self._windows([w for w, ok in zip(spellings, possible, strict=True) if ok])
        logs = np.log(self._probabilities(symbols, contexts, place))
        result[possible] = np.bincount(word, logs, minlength=int(possible.sum())) - self._log_not_empty
        return result

    def _spells(self, word: bytes) -> bool:
        return bool(self._allowed[np.frombuffer(word, dtype=np.uint8)].all())

    def _windows(self, spellings: Sequence[bytes]) -> tuple[NDArray[Any], list[NDArray[Any]], NDArray[Any], NDArray[Any]]:
        """Return all symbols that follow something, for each length what they follow, their place and their word's number."""
        if not spellings:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, [nothing] * self.order, nothing, nothing
        symbols, offsets = spell(spellings, num_special=0)
        word = np.repeat(np.arange(len(spellings)), np.diff(offsets))
        place = np.arange(len(symbols)) - offsets[word]
        contexts = [np.zeros(len(symbols), dtype=np.int64)]
        for n in range(1, self.order):
            before = np.where(place >= n, np.roll(symbols, n), 0)  # beyond the beginning: of no use, see the place
            contexts.append(contexts[-1] + before * BASE ** (n - 1))
        follows = place > 0
        return symbols[follows], [context[follows] for context in contexts], place[follows], word[follows]

    def _probabilities(self, symbols: NDArray[Any], contexts: Sequence[NDArray[Any]], place: NDArray[Any]) -> NDArray[Any]:
        p = np.full(len(symbols), 1 / self._allowed.sum())
        for length, level in enumerate(self._levels):
            totals, types = _look_up(contexts[length], level.contexts, level.totals, level.types)
            (counts,) = _look_up(contexts[length] * BASE + symbols, level.grams, level.counts)
            seen = (place >= length) & (totals > 0)
            p = np.where(seen, (counts + types * p) / np.maximum(totals + types, 1), p)
        return p


def _count(contexts: NDArray[Any], symbols: NDArray[Any]) -> _Level:
    grams, counts = np.unique(contexts * BASE + symbols, return_counts=True)
    found, starts, types = np.unique(grams // BASE, return_index=True, return_counts=True)
    return _Level(found, np.add.reduceat(counts, starts), types, grams, counts)


def _look_up(keys: NDArray[Any], known: NDArray[Any], *values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return for every key its values, 0 where it is not known."""
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    there = known[places] == keys
    return [np.where(there, value[places], 0) for value in values]
