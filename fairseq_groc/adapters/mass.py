"""What a cache remembers at every position of a stream as a distribution, and its mixture with a model's.

T: positions; n: remembered entries; U: distinct words among them; V: vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

TINY = 1e-30  # smaller sums of probabilities have lost digits in float32, and are taken in logs


class Seen(NamedTuple):
    """What every position of one stream's block remembers: its distribution is the softmax of the scores.

    Args:
        scores: (T, n), -inf for an entry that a position does not see
        tokens: of the entries, (n), or (T, n) where every position has others
    """

    scores: Tensor
    tokens: Tensor

    def within(self, real: Tensor) -> Seen:
        """Return it as it is: what was said may be said again."""
        return self

    def beside(self, lprobs: Tensor, positions: slice) -> Seen:
        """Return what is remembered at some positions, whatever the model says there."""
        return Seen(self.scores[positions], self.tokens if self.tokens.dim() == 1 else self.tokens[positions])

    def present(self) -> Tensor:
        """Return where anything is remembered, (T)."""
        return self.scores.amax(dim=1) > -math.inf

    def weights(self) -> Tensor:
        """Return the probabilities of the entries, (T, n); zeros where nothing is remembered."""
        weights, present = torch.softmax(self.scores, dim=1), self.present()
        return weights if bool(present.all()) else weights.masked_fill_(~present.unsqueeze(1), 0)

    def mass_at(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log of the mass on one word a position, (T), -inf if it is not remembered, and where anything is, (T)."""
        weights, tokens = torch.softmax(self.scores, dim=1), self.tokens
        present = ~weights[:, 0].isnan()  # a row of -inf alone becomes NaN: no pass over the scores is needed
        scores = self.scores
        if tokens.dim() == 1:  # few of the entries are any target: only these are compared with each
            some = _any_of(tokens, targets)
            weights, tokens, scores = weights[:, some], tokens[some], scores[:, some]
        position, entry = ((tokens == targets.unsqueeze(1)) & (scores > -math.inf)).nonzero(as_tuple=True)
        logs = weights.new_zeros(len(targets)).index_add_(0, position, weights[position, entry]).log_()
        for t in position[logs[position] < math.log(TINY)].unique().tolist():
            logs[t] = self._exact_at(t, targets[t])
        return logs, present

    def _exact_at(self, t: int, target: Tensor) -> Tensor:
        """Return the log of the mass on one word at one position, relative to its own largest term."""
        tokens = self.tokens if self.tokens.dim() == 1 else self.tokens[t]
        seen = (tokens == target) & (self.scores[t] > -math.inf)
        return torch.logsumexp(torch.log_softmax(self.scores[t], dim=0)[seen], dim=0)  # -inf if there is none

    def mass_by_word(self) -> tuple[Tensor, Tensor]:
        """Return the distinct words, (U), and the log of the mass on each, (T, U)."""
        distinct, places = torch.unique(self.tokens, return_inverse=True)
        weights = self.weights()
        if places.dim() == 1:  # whole rows of T numbers are added: many times faster than single numbers
            sums = weights.new_zeros(len(distinct), len(weights)).index_add_(0, places, weights.t().contiguous()).t()
        else:
            sums = weights.new_zeros(len(weights), len(distinct)).scatter_add_(1, places, weights)
        logs, small = sums.log(), (sums < TINY).any(0)
        if bool(small.any()):
            logs[:, small] = self._exact(places.expand(len(weights), -1), small)
        return distinct, logs

    def _exact(self, places: Tensor, small: Tensor) -> Tensor:
        """Return the logs of the mass on some words, (T, their number), each sum relative to its own largest term.

        Args:
            places: for every entry its word's number, (T, n)
            small: which words, a mask (U)
        """
        present, entries = self.present(), small[places].any(0)
        weights = torch.full_like(self.scores[:, entries], -math.inf)
        weights[present] = torch.log_softmax(self.scores[present], dim=1)[:, entries]
        number = torch.where(small, small.cumsum(0) - 1, int(small.sum()))[places[:, entries]]  # the others: one beyond
        largest = weights.new_full((len(weights), int(small.sum()) + 1), -math.inf).scatter_reduce_(1, number, weights, "amax")
        shift = largest.masked_fill(largest == -math.inf, 0)
        sums = torch.zeros_like(largest).scatter_add_(1, number, (weights - shift.gather(1, number)).exp())
        return (sums.log() + shift)[:, :-1]


class Distribution:
    """What something beside the model says at every position of one stream's block: a distribution q over words that it knows.

    In a mixture it shares out what the model gives to these words together, and what it gives to each of the others stays:
    (1 - weight) p(x) + weight p(known) q(x) for a word x that is known, p(x) for another.

    Args:
        known: the words, a mask (V), or (T, V) where each position has a vocabulary of its own
    """

    known: Tensor

    def within(self, real: Tensor) -> Distribution:
        """Return it over those words alone that may be predicted; *real* is as the adapter has it."""
        raise NotImplementedError

    def mass_at(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return log q of one word a position, (T), -inf if it is not known, and where it is, (T)."""
        raise NotImplementedError

    def whole(self, positions: slice) -> Tensor:
        """Return log q of all words at some positions, (n, V), -inf if one is not known."""
        raise NotImplementedError

    def beside(self, lprobs: Tensor, positions: slice) -> Tensor:
        """Return the log of what is mixed into the log-probabilities of the model at some positions, (n, V)."""
        known = (self.known if self.known.dim() == 1 else self.known[positions]).to(lprobs.device)
        mass = lprobs.masked_fill(~known, -math.inf).logsumexp(-1, keepdim=True)
        return torch.where(known, self.whole(positions).to(lprobs) + mass, lprobs)


def _any_of(tokens: Tensor, targets: Tensor) -> Tensor:
    """Return the places of words that are any of the targets, by a table of all words: faster than sorting.

    The table has a place more than there are words, which is that of -1.
    """
    wanted = torch.zeros(int(torch.maximum(tokens.max(), targets.max())) + 2, dtype=torch.bool, device=tokens.device)
    wanted[targets] = True
    return wanted[tokens].nonzero().squeeze(1)


def add_mass(lprobs: Tensor, weight: float, seen: Seen) -> None:
    """Mix a cache into the log-probabilities of one stream, (T, V), in place: (1 - weight) p + weight p_cache.

    Where nothing is remembered yet, p stays as it is.

    Args:
        weight: of the cache, in (0, 1)
    """
    distinct, logs = seen.mass_by_word()
    lprobs += torch.where(seen.present(), math.log1p(-weight), 0.0).unsqueeze(1)
    real = distinct >= 0
    distinct, logs = distinct[real], logs[:, real]
    lprobs[:, distinct] = torch.logaddexp(lprobs[:, distinct], logs + math.log(weight))


def mix(lprobs: Tensor, weight: float, mass: Tensor, present: Tensor) -> Tensor:
    """Return the mixture from the log of a cache's mass on each target and from where it remembers anything, all (...)."""
    return torch.logaddexp(torch.where(present, lprobs + math.log1p(-weight), lprobs), mass + math.log(weight))
