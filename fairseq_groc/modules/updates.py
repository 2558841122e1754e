"""How much of a compositional embedding is computed anew in a training step: all, nothing at times, or a sample.

V: words; F: forms; d: embedding size. Which steps and which words is a function of (seed, number of the update) alone,
so it is the same on every worker and after resuming.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from fairseq_groc.modules.bags import Bags, average
from fairseq_groc.modules.compositional import CompositionalEmbedding
from fairseq_groc.modules.vocabulary import Vocabulary, pick


class Step(NamedTuple):
    """A training step: how many updates came before, and the words of its batch (inputs and targets, in any order)."""

    number: int
    words: Tensor


def generator(seed: int, number: int) -> torch.Generator:
    """Return the random numbers of one update."""
    return torch.Generator().manual_seed((seed * 1_000_003 + number) % (1 << 63))


def is_frozen(probability: float, seed: int, number: int) -> bool:
    """Say whether an update leaves the embeddings as they are: so it does with 1 - *probability* (GroC, appendix A)."""
    return probability < 1 and torch.rand((), generator=generator(seed, number)).item() >= probability


class SampledUpdates:
    """Compute anew, with gradient, the words of the batch, all that they are made of, and a random fraction of all other forms.

    Exact: the embeddings of the batch's words and their gradient, through spelling, relations and gloss. The gradient of all
    others is scaled by 1/rho, forms drawn independently, so its expectation over the draws is the gradient of a full
    update at the same embeddings. Approximate: rows that were not drawn are those of an earlier step, and so are the
    related and gloss words of a drawn row that were not drawn themselves. Draws are systematic: a form comes once in every
    1/rho updates, at a random place, so no row is older; every ``interval`` updates all are encoded. Where a draw or a
    refresh falls depends on the update's number alone, but the rows kept between refreshes are not saved: a resumed run begins
    with fresh ones.

    Args:
        fraction: rho, in (0, 1)
        interval: updates between two complete refreshes
        seed: of the draws
    """

    def __init__(self, fraction: float, interval: int, seed: int):
        self.fraction, self.interval, self.seed = fraction, interval, seed
        self._forms: Optional[Tensor] = None  # (F, d)
        self._words: Optional[Tensor] = None  # (V, d)
        self._refreshed = -1

    def draw(self, num_forms: int, number: int) -> Tensor:
        """Return which forms an update draws, a mask (F)."""
        place = torch.rand(num_forms, generator=generator(self.seed, number // self.interval))
        within = number % self.interval
        return ((within + 1) * self.fraction + place).floor() > (within * self.fraction + place).floor()

    def embed(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, step: Step) -> Tensor:
        """Return the embeddings of all words, (V, d), with gradient to those computed now."""
        return self.embed_drawn(embedding, vocabulary, step, self.draw(vocabulary.num_forms, step.number))

    def embed_drawn(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, step: Step, drawn: Tensor) -> Tensor:
        """The same for given draws, a mask (F)."""
        self._refresh(embedding, vocabulary, step.number)
        assert self._forms is not None and self._words is not None
        certain = self._parts(vocabulary, step.words.to(self._forms.device))
        chosen = (drawn.to(certain.device) | certain).nonzero().squeeze(1)  # words come before the other forms
        words = chosen[chosen < vocabulary.num_words]
        scale = self._forms.new_ones(len(chosen)).masked_fill_(~certain[chosen], 1 / self.fraction)
        encoded = embedding.surface(vocabulary.subset(chosen))
        fresh = _Chosen(chosen, _ScaledGradient.apply(encoded, scale), self._forms)
        own = encoded[: len(words)]
        relational = fresh.average(vocabulary.relations(), words)
        definitional = fresh.average(vocabulary.definitions(), words)
        rows = embedding.compose(torch.cat([own, relational, definitional], dim=1))
        self._forms[chosen] = encoded.detach()
        return _Renewed.apply(_ScaledGradient.apply(rows, scale[: len(words)]), words, self._words)

    @staticmethod
    def _parts(vocabulary: Vocabulary, words: Tensor) -> Tensor:
        """Return which forms some words are made of, a mask (F)."""
        parts = torch.zeros(vocabulary.num_forms, dtype=torch.bool, device=words.device)
        words = words.unique()
        parts[words] = True
        for bags in (vocabulary.relations(), vocabulary.definitions()):
            parts[pick(bags, words)[0].long()] = True
        return parts

    def _refresh(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, number: int) -> None:
        stale = self._forms is None or len(self._forms) != vocabulary.num_forms
        if stale or (number % self.interval == 0 and number != self._refreshed):
            with torch.no_grad():
                self._forms = embedding.surface(vocabulary)
                self._words = embedding.combine(self._forms, vocabulary)
            self._refreshed = number


class _Chosen:
    """The encodings of all forms: the chosen ones computed now, the others as they are kept."""

    def __init__(self, chosen: Tensor, encoded: Tensor, kept: Tensor):
        self.encoded, self.kept = encoded, kept
        self.place = torch.full((len(kept),), -1, dtype=torch.int32, device=chosen.device)
        self.place[chosen] = torch.arange(len(chosen), dtype=torch.int32, device=chosen.device)

    def average(self, bags: Bags, which: Tensor) -> Tensor:
        """Return the averages of some of the bags of forms."""
        items, runs = pick(bags, which)
        places = self.place[items.long()]
        others = places < 0
        rows = torch.cat([self.encoded, self.kept[items[others].long()]])
        numbers = len(self.encoded) + others.cumsum(0, dtype=torch.int32) - 1
        return average(rows, torch.where(others, numbers, places), runs.starts)


class _ScaledGradient(torch.autograd.Function):
    """Rows as they are; their gradient times a number a row."""

    @staticmethod
    def forward(ctx, rows: Tensor, scale: Tensor) -> Tensor:
        ctx.scale = scale
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        return grad * ctx.scale.unsqueeze(1), None


class _Renewed(torch.autograd.Function):
    """Write rows into a kept matrix, in place, and return it; only these rows get a gradient."""

    @staticmethod
    def forward(ctx, rows: Tensor, which: Tensor, kept: Tensor) -> Tensor:
        ctx.which = which
        kept[which] = rows
        return kept.detach()

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        return grad[ctx.which], None, None
