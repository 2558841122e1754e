"""A distribution over all words, from one over a vocabulary and one over spellings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fairseq_groc.dictionary import spelling
from fairseq_groc.open_vocabulary.spelling_model import SpellingModel

PRIOR = 100  # k: tokens that the training text's rate of new words counts for


class NewWords:
    """Share the mass of "a word that is not in the vocabulary yet" among the words that are not in it.

    With V the vocabulary at this place of the text, m the mass of new words there, and q a distribution over spellings,

        p(w | h) = (1 - m) p(w | h, V)        for w in V
                 = m q(w) / (1 - q(V))        for w not in V,    q(V) = sum of q(v) over v in V.

    The first line sums to 1 - m over V, since p(. | h, V) sums to 1. q sums to 1 over all spellings, so to 1 - q(V) over those
    not in V, and the second line to m. Hence p sums to 1 at every place, whatever m in (0, 1), as long as m, V and q are chosen
    before w is seen: a word enters V, and q(w) enters q(V), only after it was paid for. With m = p(<unk> | h, V), and <unk> no
    word of V, the first line is p(w | h, V) as it is, and sums to 1 - m as well.

    q is a distribution over strings of bytes. What it gives to strings that no text can hold as a word, such as bytes that are
    not UTF-8, is lost: p sums to less than 1 over texts by that much, never to more.

    Args:
        spellings: q
        vocabulary: the entries of V, and others that no text has as a word
    """

    def __init__(self, spellings: SpellingModel, vocabulary: Iterable[str]):
        self._spellings = spellings
        probabilities = spellings.log_probability([spelling(word) for word in vocabulary])
        self._known = math.fsum(math.exp(log) for log in probabilities.tolist())  # q(V)

    def log_share(self, word: str) -> float:
        """Return log q(w) / (1 - q(V)) of a word that is not in V."""
        return self._log_q(word) - math.log1p(-self._known)

    def add(self, word: str) -> None:
        """Put a word into V."""
        self._known += math.exp(self._log_q(word))

    def _log_q(self, word: str) -> float:
        return float(self._spellings.log_probability([spelling(word)])[0])


class NewWordMass:
    """m, the mass of new words at the next place of a text.

    A fixed number; or the rate at which new words have come so far, (k r + n) / (k + t) after t tokens of which n were new
    words, as if k tokens with a rate of r had come before: the mean of the posterior from the prior Beta(k r, k (1 - r)).

    Args:
        rate: r, in (0, 1)
        fixed: whether m is r throughout
    """

    def __init__(self, rate: float, fixed: bool = False):
        self._rate, self._fixed = rate, fixed
        self._tokens = self._new = 0

    def anew(self) -> NewWordMass:
        """Return the mass at the beginning of another text."""
        return NewWordMass(self._rate, self._fixed)

    def now(self) -> float:
        """Return m."""
        if self._fixed:
            return self._rate
        return (PRIOR * self._rate + self._new) / (PRIOR + self._tokens)

    def saw(self, new: bool) -> None:
        """Go on by a token."""
        self._tokens += 1
        self._new += new


def rate_of_new_words(counts: Sequence[int]) -> float:
    """Return Good's (1953) estimate of the mass of all words that a text lacks, kept from 0 and 1.

    It is (words seen once + 1) / (words + 2).

    Args:
        counts: of the text's words
    """
    return (sum(count == 1 for count in counts) + 1) / (sum(counts) + 2)
