"""A training step that composes the words of its batch and a sample of the others anew, and keeps the rest.

V: words; n: words composed anew; d: embedding size.
"""

from __future__ import annotations

from typing import Optional, cast

import torch
from torch import Tensor

from fairseq_groc.modules.compositional import CompositionalEmbedding
from fairseq_groc.modules.drift import DriftingRows
from fairseq_groc.modules.updates import Step, generator
from fairseq_groc.modules.vocabulary import Vocabulary


class SampledWords:
    """Compose the batch's words and a sample of the others with gradient; the others' embeddings are kept, and follow.

    The gradient of every word that is composed is exact for the embeddings at hand, divided by the chance that it had, so that
    its expectation is that of a full update. Approximate: the embedding of a word that was not drawn is that of an earlier
    step, moved as those that were drawn have moved since (``DriftingRows``). All are composed anew every ``interval`` steps.
    A step costs nothing that grows with the vocabulary's forms, and with V only the copy of its embeddings.

    Args:
        fraction: of the words that are not in the batch
        interval: updates between two complete refreshes
        seed: of the draws
    """

    def __init__(self, fraction: float, interval: int, seed: int):
        self.fraction, self.interval, self.seed = fraction, interval, seed
        self._kept: Optional[DriftingRows] = None  # (V, d)
        self._refreshed = -1

    def embed(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, step: Step) -> Tensor:
        """Return the embeddings of all words, (V, d), with gradient to those that are composed now."""
        kept = self._refresh(embedding, vocabulary, step.number)
        words = step.words.to(embedding.surface.projection.weight.device)
        chance = torch.full((vocabulary.num_words,), self.fraction).index_fill_(0, words, 1.0)
        chosen = (torch.rand(len(chance), generator=generator(self.seed, step.number)) < chance).nonzero().squeeze(1)
        now = embedding.of_words(vocabulary, chosen)
        kept.renew(chosen, now.detach())
        return cast(Tensor, _Place.apply(now, chosen, 1 / chance[chosen], kept.all()))

    def _refresh(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, number: int) -> DriftingRows:
        stale = self._kept is None or len(self._kept.rows) != vocabulary.num_words
        if stale or (number % self.interval == 0 and number != self._refreshed):
            with torch.no_grad():
                self._kept = DriftingRows(embedding(vocabulary), generator(self.seed, number))
            self._refreshed = number
        return cast(DriftingRows, self._kept)


class _Place(torch.autograd.Function):
    """Return all rows, and give the gradient of the chosen ones, scaled, to what was composed."""

    @staticmethod
    def forward(ctx, now: Tensor, chosen: Tensor, scale: Tensor, everything: Tensor) -> Tensor:
        ctx.save_for_backward(chosen, scale)
        return everything

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        chosen, scale = ctx.saved_tensors
        return grad[chosen] * scale.unsqueeze(1).to(grad), None, None, None
