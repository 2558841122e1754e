"""Training steps that compose the words of the batch and a sample of the others, and keep the rest.

V: words; n: words composed in a step; d: embedding size.
"""

from __future__ import annotations

from typing import Callable, Optional, cast

import torch
from torch import Tensor

from fairseq_groc.modules.compositional import CompositionalEmbedding
from fairseq_groc.modules.drift import DriftingRows
from fairseq_groc.modules.updates import IN_TURN, Importance, Step, generator
from fairseq_groc.modules.vocabulary import Vocabulary


class SampledWords:
    """Compose anew, with gradient, the batch's words and a sample of all others; the others' embeddings are kept.

    A word is composed with a chance of rho on average: a quarter of that evenly, the rest in proportion to the norms of the
    gradients that it had lately. Its gradient is divided by its chance, so its expectation over draws is that of a full update,
    at the embeddings at hand. Approximate: the embedding of a word that was not drawn is that of an earlier step, moved as those
    that were drawn have moved since (``DriftingRows``). Every ``interval`` updates all words are composed.

    A step encodes the forms of the drawn words alone, and costs nothing that grows with those of the vocabulary: less than
    ``SampledUpdates``, whose gradient of projection and composition is exact. It suits words that have corrections, to which
    their own gradient goes exactly. What is kept is not saved, and each worker has its own.

    Args:
        fraction: rho, in (0, 1)
        interval: updates between two complete refreshes
        seed: of the draws
    """

    def __init__(self, fraction: float, interval: int, seed: int):
        self.fraction, self.interval, self.seed = fraction, interval, seed
        self.importance = Importance()
        self._kept: Optional[DriftingRows] = None  # (V, d)
        self._refreshed = -1

    def chances(self, num_words: int, step: Step) -> Tensor:
        """Return the chance of each word to be composed in a step, (V)."""
        even = IN_TURN * self.fraction
        chance = even + (1 - even) * self.importance.chances(num_words, (self.fraction - even) / (1 - even))
        return chance.to(step.words.device).index_fill(0, step.words.flatten(), 1.0)

    def embed(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, step: Step) -> Tensor:
        """Return the embeddings of all words, (V, d), with gradient to those that are composed now."""
        kept = self._refresh(embedding, vocabulary, step.number)
        chance = self.chances(vocabulary.num_words, step)
        drawn = torch.rand(len(chance), generator=generator(self.seed, step.number)).to(chance.device) < chance
        chosen = drawn.nonzero().squeeze(1).to(embedding.surface.projection.weight.device)
        now = embedding.of_words(vocabulary, chosen)
        with torch.autocast(now.device.type, enabled=False):
            kept.renew(chosen, now.detach())
            rows = kept.all()
        return cast(Tensor, _Place.apply(now, chosen, 1 / chance.to(now.device)[chosen], rows, self.importance.watch))

    def _refresh(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, number: int) -> DriftingRows:
        """Return the embeddings of all words, composed anew if it is time."""
        stale = self._kept is None or len(self._kept.rows) != vocabulary.num_words
        if stale or (number % self.interval == 0 and number != self._refreshed):
            with torch.no_grad():
                embeddings = embedding(vocabulary)
            with torch.autocast(embeddings.device.type, enabled=False):
                self._kept = DriftingRows(embeddings, generator(self.seed, number))
            self._refreshed = number
        return cast(DriftingRows, self._kept)


class _Place(torch.autograd.Function):
    """Return all rows; the gradient of the chosen ones, scaled, goes to what was composed."""

    @staticmethod
    def forward(ctx, now: Tensor, chosen: Tensor, scale: Tensor, rows: Tensor, watch: Callable[[Tensor], None]) -> Tensor:
        ctx.save_for_backward(chosen, scale)
        ctx.watch, ctx.dtype = watch, now.dtype
        return rows

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        chosen, scale = ctx.saved_tensors
        ctx.watch(grad)
        return (grad[chosen] * scale.unsqueeze(1).to(grad)).to(ctx.dtype), None, None, None, None
