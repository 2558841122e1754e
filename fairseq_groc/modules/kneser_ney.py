"""Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1999, section 3) as arrays.

With c(h w) the count of a word w after a history h, and h' the history without its first word,

    p(w | h) = (c(h w) - D(c(h w))) / sum_x c(h x) + gamma(h) p(w | h')
    gamma(h) = (D1 N1(h .) + D2 N2(h .) + D3+ N3+(h .)) / sum_x c(h x)

where Nk(h .) is the number of words that were seen k times after h, and D(c) is 0, D1, D2 or D3+ for a count of 0, 1, 2 or more.
Below the words alone is the uniform distribution. Counts of the longest n-grams are how often they occur, those of shorter ones
by how many different words they are preceded. The discounts of a length follow from n1 to n4, how many of its n-grams have the
counts 1 to 4: with Y = n1 / (n1 + 2 n2), D1 = 1 - 2 Y n2 / n1, D2 = 2 - 3 Y n3 / n2, D3+ = 3 - 4 Y n4 / n3.

A line is a text by itself: what precedes its first word is the end of a line, and nothing before that is seen. N-grams that begin
so have nothing before them: their counts are how often they occur. So a running text and its lines by themselves have the same
probabilities.

N: tokens; V: words; T: positions; n: the order. An n-gram is known by its place among those of its length, which are sorted by
the place of all its words but the last, then by the last; a single word by its number. -1 is none.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FALLBACK = (0.5, 1.0, 1.5)  # discounts of counts that are too few to say


class Level(NamedTuple):
    """The n-grams of one length above 1.

    Args:
        keys: V times the place of the first words, plus the last word; sorted
        shares: (c - D(c)) / the sum of counts after the first words, of each n-gram
        gammas: gamma of each n-gram of one word less, as a history; 1 where nothing was seen after it
    """

    keys: NDArray[np.int64]
    shares: NDArray[np.float32]
    gammas: NDArray[np.float32]


class NGrams(NamedTuple):
    """A language model.

    Args:
        shares: (c - D(c)) / the sum of all counts, of each word, (V)
        floor: gamma of no history: the mass of the uniform distribution
        levels: of two words, of three, ...
    """

    shares: NDArray[np.float64]
    floor: float
    levels: Sequence[Level]

    @property
    def order(self) -> int:
        return len(self.levels) + 1

    @property
    def size(self) -> int:
        return len(self.shares)

    def histories(self, numbers: NDArray[Any], before: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the history after each word of a text, (n - 1, T): of each length the place of the n-gram that ends there.

        Args:
            numbers: of its words, (T)
            before: the history of the first, (n - 1)
        """
        found = [np.asarray(numbers, dtype=np.int64)]
        for length in range(1, self.order - 1):
            first = np.concatenate([before[length - 1 : length], found[-1][:-1]])
            found.append(self.place(length - 1, first, found[0]))
        return np.stack(found)[: self.order - 1]

    def place(self, level: int, first: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of the n-grams of a level, -1 where there is none."""
        keys = self.levels[level].keys
        if not len(keys):
            return np.full(len(numbers), -1)
        wanted = first * self.size + numbers
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((first >= 0) & (numbers >= 0) & (keys[places] == wanted), places, -1)

    def _gammas(self, level: int, first: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return gamma of histories, 1 where one was not seen."""
        gammas = self.levels[level].gammas
        return np.where(first >= 0, gammas[np.maximum(first, 0)], 1.0) if len(gammas) else np.ones(len(first))

    def probabilities(self, histories: NDArray[np.int64], numbers: NDArray[Any], spread: int = 0) -> NDArray[np.float64]:
        """Return p(word | history) of one word a position, (T).

        Args:
            histories: (n - 1, T)
            numbers: (T), -1 for a word that training lacks
            spread: how many words the uniform distribution has, those that training lacks among them; 0: those of training
        """
        numbers = np.asarray(numbers, dtype=np.int64)
        uniform = self.floor / spread if spread else np.where(numbers >= 0, self.floor / self.size, 0)
        p = np.where(numbers >= 0, self.shares[np.maximum(numbers, 0)], 0) + uniform
        for level, first in enumerate(histories):
            places = self.place(level, first, numbers)
            p *= self._gammas(level, first)
            there = places >= 0
            p[there] += self.levels[level].shares[places[there]]
        return p

    def distributions(self, histories: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return p(. | history) over the words of training, (T, V)."""
        size = self.size
        p = np.repeat((self.shares + self.floor / size)[None], histories.shape[1], axis=0)
        for level, first in enumerate(histories):
            p *= self._gammas(level, first)[:, None]
            keys = self.levels[level].keys
            begins, ends = np.searchsorted(keys, np.stack([first, first + 1]) * size)
            counts = np.where(first >= 0, ends - begins, 0)
            rows = np.repeat(np.arange(len(first)), counts)
            places = np.arange(len(rows)) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
            p[rows, keys[places] - first[rows] * size] += self.levels[level].shares[places]
        return p


class _Counts(NamedTuple):
    """How the n-grams of one length occur in a text.

    Args:
        places: of the n-gram that ends at each token, -1 where the line has too few words, (N + 1)
        keys: of each n-gram
        examples: a token where each ends
        counts: how often each occurs
    """

    places: NDArray[np.int64]
    keys: NDArray[np.int64]
    examples: NDArray[np.int64]
    counts: NDArray[np.int64]


def train(text: NDArray[Any], size: int, end: int, order: int) -> tuple[NGrams, list[int]]:
    """Return the model of a text, and the lengths of n-grams that got the discounts ``FALLBACK``, since none could be estimated.

    Args:
        text: (N), each a number below V; every number occurs
        size: V
        end: the number that ends each line
        order: the most words of an n-gram
    """
    read = np.concatenate([[end], text]).astype(np.int64)
    tokens = np.arange(len(read))
    lines = np.maximum.accumulate(np.where(read == end, tokens, 0))
    # how many words of its line precede a token, the end of the last one too
    before = np.concatenate([[0], tokens[1:] - lines[:-1]])
    found = [_Counts(read, np.arange(size), tokens[:0], np.bincount(text, minlength=size))]
    for length in range(2, order + 1):
        found.append(_count(read, found[-1].places, before >= length - 1, size))
    counts = [found[-1].counts]
    for number in range(order - 1, 0, -1):  # of a length: by how many words its n-grams are preceded
        places = found[number - 1].places
        preceded = np.bincount(places[found[number].examples], minlength=len(found[number - 1].keys))
        begins_line = places[(before == number - 1) & (tokens > 0)]
        counts.insert(0, preceded + np.bincount(begins_line, minlength=len(preceded)))
    discounts = [_discounts(count) for count in counts]
    shares, floor = _smoothed(counts[0], np.zeros_like(counts[0]), 1, discounts[0] or FALLBACK)
    levels = []
    for number in range(1, order):
        keys, histories = found[number].keys, len(found[number - 1].keys)
        smoothed = _smoothed(counts[number], keys // size, histories, discounts[number] or FALLBACK)
        levels.append(Level(keys, *(part.astype(np.float32) for part in smoothed)))
    return NGrams(shares, float(floor[0]), levels), [n for n, known in enumerate(discounts, start=1) if known is None]


def _count(read: NDArray[np.int64], shorter: NDArray[np.int64], there: NDArray[np.bool_], size: int) -> _Counts:
    """Count the n-grams that are one word longer than others.

    Args:
        shorter: places of the others that end at each token
        there: where one ends
    """
    ends = np.flatnonzero(there)
    keys, examples, inverse, counts = np.unique(
        shorter[ends - 1] * size + read[ends], return_index=True, return_inverse=True, return_counts=True
    )
    places = np.full(len(read), -1)
    places[ends] = inverse
    return _Counts(places, keys, ends[examples], counts)


def _discounts(counts: NDArray[np.int64]) -> tuple[float, float, float] | None:
    """Return D1, D2 and D3+; None where the counts are too few, or make a discount of nothing, or of more than a count."""
    n1, n2, n3, n4 = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].tolist()
    if not (n1 and n2 and n3 and n4):
        return None
    y = n1 / (n1 + 2 * n2)
    found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
    return found if all(0 < discount <= k for k, discount in enumerate(found, start=1)) else None


def _smoothed(
    counts: NDArray[np.int64], first: NDArray[np.int64], histories: int, discounts: Sequence[float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of each n-gram, and gamma of each history.

    Args:
        first: the history of each n-gram
        histories: how many there are
    """
    taken = np.array([0.0, *discounts])[np.minimum(counts, 3)]
    totals = np.bincount(first, weights=counts, minlength=histories)
    left = np.bincount(first, weights=taken, minlength=histories)
    gammas = np.divide(left, totals, out=np.ones(histories), where=totals > 0)
    return (counts - taken) / totals[first], gammas
