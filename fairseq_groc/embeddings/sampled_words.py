"""Training steps that compose the words of the batch and a sample of the others, and keep the rest.

V: words; n: words composed in a step; d: embedding size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from fairseq_groc.embeddings.compositional import CompositionalEmbedding
from fairseq_groc.embeddings.sampled_updates import IN_TURN, Importance, Refreshed, Step, generator
from fairseq_groc.embeddings.vocabulary import Vocabulary

SHARE = 0.25  # chance of each use of a form, in relations and glosses, to have it encoded


class SampledWords:
    """Compose anew, with gradient, the batch's words and a sample of all others; the others' embeddings are kept.

    A word is composed with a chance of rho on average: a quarter of that evenly, the rest in proportion to the norms of the
    gradients that it had lately. Of the forms that the composed words' relations and glosses are made of a sample is encoded,
    the more surely the more often they are used; the others' encodings are kept. Gradients are divided by these chances, so
    their expectation over draws is that of a full update, at the embeddings at hand. Approximate: the embedding of a word that
    was not drawn is that of an earlier step, moved as those that were drawn have moved since (``DriftingRows``), and the encoding
    of a form that was not drawn is that of an earlier step. Every ``interval`` updates all is computed.

    A step costs nothing that grows with the forms of the vocabulary: less than ``SampledUpdates``, whose gradient of projection
    and composition is exact. It suits words that have corrections, to which their own gradient goes exactly. What is kept is not
    saved, and each worker has its own.

    Args:
        fraction: rho, in (0, 1)
        interval: updates between two complete refreshes
        seed: of the draws
        share: chance of each use of a form to have it encoded
    """

    def __init__(self, fraction: float, interval: int, seed: int, share: float = SHARE):
        self.fraction, self.seed, self.share = fraction, seed, share
        self.embeddings, self.importance = Refreshed(interval, seed), Importance()
        self._forms = torch.empty(0)  # (F, d)

    def chances(self, num_words: int, step: Step) -> Tensor:
        """Return the chance of each word to be composed in a step, (V)."""
        even = IN_TURN * self.fraction
        chance = even + (1 - even) * self.importance.chances(num_words, (self.fraction - even) / (1 - even))
        return chance.to(step.tokens.device).index_fill(0, step.tokens.flatten(), 1.0)

    def embed(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, step: Step) -> Tensor:
        """Return the embeddings of all words, (V, d), with gradient to those that are composed now."""
        kept = self.embeddings.at(step.number, lambda: self._compose(embedding, vocabulary))
        chance = self.chances(vocabulary.num_words, step)
        drawn = torch.rand(len(chance), generator=generator(self.seed, step.number)).to(chance.device) < chance
        chosen = drawn.nonzero().squeeze(1).to(embedding.surface.projection.weight.device)
        now = embedding.of_words(vocabulary, chosen, partial(self._encode, embedding, vocabulary, step.number))
        with torch.autocast(now.device.type, enabled=False):
            kept.renew(chosen, now.detach())
            rows = kept.all()
        return cast(Tensor, _Place.apply(now, chosen, 1 / chance.to(now.device)[chosen], rows, self.importance.watch))

    def _encode(
        self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, number: int, forms: Tensor, uses: Tensor
    ) -> Tensor:
        """Return the encodings of forms, (f, d), with gradient to a sample of them; ``CompositionalEmbedding.of_words`` asks."""
        chance = 1 - (1 - self.share) ** uses
        coin = torch.rand(len(forms), generator=generator(self.seed + 1, number)).to(chance.device)
        drawn = (coin < chance).nonzero().squeeze(1)
        chosen = forms[drawn]
        now = embedding.surface(vocabulary, chosen)
        with torch.autocast(now.device.type, enabled=False):
            self._forms.index_copy_(0, chosen, now.detach().to(self._forms.dtype))
            rows = self._forms.index_select(0, forms)
        return cast(Tensor, _Place.apply(now, drawn, 1 / chance[drawn], rows, None))

    def _compose(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary) -> Tensor:
        """Return the embeddings of all words, (V, d), and keep the encodings of all forms."""
        self._forms = embedding.surface(vocabulary)
        return embedding.combine(self._forms, vocabulary)


class _Place(torch.autograd.Function):
    """Return all rows; the gradient of the chosen ones, scaled, goes to what was composed."""

    @staticmethod
    def forward(
        ctx: Any, now: Tensor, chosen: Tensor, scale: Tensor, rows: Tensor, watch: Callable[[Tensor], None] | None
    ) -> Tensor:
        ctx.save_for_backward(chosen, scale)
        ctx.watch, ctx.dtype = watch, now.dtype
        return rows

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        chosen, scale = ctx.saved_tensors
        if ctx.watch is not None:
            ctx.watch(grad)
        return (grad[chosen] * scale.unsqueeze(1).to(grad)).to(ctx.dtype), None, None, None, None
