"""How much of a compositional embedding is computed anew in a training step: all, nothing at times, or a sample.

V: words; F: forms; d: embedding size. Which steps are frozen, and which forms have their turn, is a function of (seed, number of
the update) alone, so it is the same on every worker and after resuming.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_groc.embeddings.compositional import CompositionalEmbedding
from fairseq_groc.embeddings.vocabulary import Vocabulary
from fairseq_groc.modules.bags import Bags, pick
from fairseq_groc.modules.drift import DriftingRows

IN_TURN = 0.25  # of rho; the rest is drawn by gradients
PARTS = 3.0  # so many forms of the relations of each of the batch's words, and of its gloss, are drawn on average, besides rho
MEMORY = 0.9  # of the norms of gradients, a step
REFRESH_INTERVAL = 20  # updates; a complete pass without gradient has a third of the products of a full update


class Step(NamedTuple):
    """A training step: how many updates came before, and the tokens of its batch (inputs and targets, in any order)."""

    number: int
    tokens: Tensor


class Updates(NamedTuple):
    """How much of composed word embeddings the steps of training compute.

    Args:
        probability: of a step to compute them at all (GroC, appendix B.4)
        fraction: rho, of the others that are computed with a batch's words; 1: all
        interval: steps between two that compute all
        seed: of what is drawn
    """

    probability: float = 1.0
    fraction: float = 1.0
    interval: int = REFRESH_INTERVAL
    seed: int = 1


ALL_UPDATES = Updates()


def generator(seed: int, number: int) -> torch.Generator:
    """Return the random numbers of one update."""
    return torch.Generator().manual_seed((seed * 1_000_003 + number) % (1 << 63))


def is_frozen(probability: float, seed: int, number: int) -> bool:
    """Say whether an update leaves the embeddings as they are: so it does with 1 - *probability* (GroC, appendix A)."""
    return probability < 1 and torch.rand((), generator=generator(seed, number)).item() >= probability


class Importance:
    """Chances to be drawn in proportion to the norms of the gradients that rows had lately: the sum of draws is least noisy."""

    def __init__(self) -> None:
        self._norms: Tensor | None = None  # a moving average

    def chances(self, count: int, mean: float) -> Tensor:
        """Return a chance for each of so many rows, *mean* on average or less; equal ones while nothing is known."""
        if self._norms is None:
            return torch.full((count,), mean)
        return (mean * self._norms / self._norms.mean().clamp(min=torch.finfo(torch.float32).tiny)).clamp(max=1)

    def watch(self, gradients: Tensor) -> None:
        """Learn how large the gradient of each row is, (n, d)."""
        norms = gradients.float().norm(dim=1)  # in half precision sums of squares overflow
        known = norms.nan_to_num(0, 0, 0)
        if self._norms is None:
            self._norms = known
        else:  # a step that AMP gives up teaches nothing
            self._norms.lerp_(known, (1 - MEMORY) * norms.isfinite().all())


class Refreshed:
    """Rows that are kept from step to step, and all computed anew at times.

    Args:
        interval: updates between two complete refreshes
        seed: of the directions' first guess
    """

    def __init__(self, interval: int, seed: int):
        self.interval, self.seed = interval, seed
        self.rows: DriftingRows | None = None
        self._number = -1

    def at(self, number: int, compute: Callable[[], Tensor]) -> DriftingRows:
        """Return the rows at an update, by its number: computed anew if it is time, once for all batches of the update."""
        due = number % self.interval == 0 and number != self._number
        if self.rows is None or due:
            self.rows = None  # before the new ones: there are as many
            with torch.no_grad():
                rows = compute()
            with torch.autocast(rows.device.type, enabled=False):
                self.rows = DriftingRows(rows, generator(self.seed, number))
            self._number = number
        return self.rows


class SampledUpdates:
    """Compute anew, with gradient, the character features of the batch's words and of a sample of all other forms.

    A form's features are what the surface encoder's projection gets: all that is costly is below. They are kept from step to
    step (``DriftingRows``); projection and composition are computed for all words at every step, with the present parameters.

    Exact, at the features that are at hand: the gradient with respect to projection, composition and head, and that of the
    spellings of the batch's words. The gradient of any other form goes to the filters and the highway only when the form is
    drawn, divided by the chance of that, so its expectation over draws and over places in the cycle of turns is that of a full
    update.
    Approximate: the features of a form that was not drawn are those of an earlier step, moved as the forms that were drawn have
    moved since. Within a cycle turns are not independent: a form that has just had its turn does not have the next.

    A form is drawn with a chance of rho on average: a quarter of that in turn, evenly within ``interval`` updates, so that
    every form has a chance; the rest in proportion to the norms of the gradients that it had lately, which makes the sum over
    the draws less noisy than equal chances. Of the relations of each of the batch's words, and of its gloss, ``PARTS`` forms
    are drawn besides, on average: a form's gradient is the larger the fewer they are, and the more of them it is in. Every
    ``interval`` updates all features are computed. What is kept and learned between is not saved, and each worker has its own:
    a resumed run begins with fresh features and equal chances.

    Args:
        fraction: rho, in (0, 1)
        interval: updates between two complete refreshes (``REFRESH_INTERVAL``)
        seed: of the draws
    """

    def __init__(self, fraction: float, interval: int, seed: int):
        self.fraction, self.interval, self.seed = fraction, interval, seed
        self.features, self.importance = Refreshed(interval, seed), Importance()

    def draw(self, num_forms: int, number: int) -> Tensor:
        """Return which forms an update draws in their turn, a mask (F)."""
        place = torch.rand(num_forms, generator=generator(self.seed, number // self.interval))
        within, rate = number % self.interval, IN_TURN * self.fraction
        return ((within + 1) * rate + place).floor() > (within * rate + place).floor()

    def choose(self, vocabulary: Vocabulary, parts: Iterable[Bags], step: Step) -> tuple[Tensor, Tensor]:
        """Return the forms to compute, a mask (F), and the chance that each form had, (F)."""
        tokens, rate = step.tokens.unique(), IN_TURN * self.fraction
        turn = self.draw(vocabulary.num_forms, step.number).to(tokens.device)
        important = self.importance.chances(vocabulary.num_forms, (self.fraction - rate) / (1 - rate)).to(tokens.device)
        missed = (1 - chance_as_parts(vocabulary, parts, tokens)) * (1 - important)
        coin = torch.rand(vocabulary.num_forms, generator=generator(self.seed + 1, step.number)).to(tokens.device)
        mask, chance = turn | (coin >= missed), 1 - (1 - rate) * missed
        return mask.index_fill_(0, tokens, True), chance.index_fill_(0, tokens, 1.0)

    def embed(self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, step: Step) -> Tensor:
        """Return the embeddings of all words, (V, d), with gradient to what is computed now."""
        tokens = step.tokens.to(embedding.surface.projection.weight.device)
        mask, chance = self.choose(vocabulary, embedding.parts(vocabulary), Step(step.number, tokens))
        return self.embed_chosen(embedding, vocabulary, step.number, mask, chance)

    def embed_chosen(
        self, embedding: CompositionalEmbedding, vocabulary: Vocabulary, number: int, mask: Tensor, chance: Tensor
    ) -> Tensor:
        """The same for given forms, a mask (F), and the chance that each had, (F)."""
        kept = self.features.at(number, lambda: embedding.surface.features(vocabulary))
        chosen = mask.nonzero().squeeze(1)
        features = embedding.surface.features(vocabulary, chosen)
        with torch.autocast(features.device.type, enabled=False):
            kept.renew(chosen, features.detach())
        weight, watch = embedding.surface.projection.weight, self.importance.watch
        forms = _ProjectAll.apply(features, weight, chosen, 1 / chance[chosen], kept, watch)
        return embedding.combine(forms, vocabulary)


def chance_as_parts(vocabulary: Vocabulary, parts: Iterable[Bags], tokens: Tensor) -> Tensor:
    """Return the chance of each form to be drawn for the sake of some words' bags that it is in, (F)."""
    expected = torch.zeros(vocabulary.num_forms, device=tokens.device)
    for bags in parts:
        picked = pick(bags, tokens)
        sizes = picked.sizes().long()
        expected.index_add_(0, picked.items.long(), (PARTS / sizes).repeat_interleave(sizes))
    return expected.clamp(max=1)


class _ProjectAll(torch.autograd.Function):
    """Project all kept rows; the gradient of those that were renewed is scaled, the others get none."""

    @staticmethod
    def forward(
        ctx: Any,
        renewed: Tensor,
        weight: Tensor,
        which: Tensor,
        scale: Tensor,
        kept: DriftingRows,
        watch: Callable[[Tensor], None] | None,
    ) -> Tensor:
        ctx.save_for_backward(weight, which, scale)
        ctx.kept, ctx.watch, ctx.dtype = kept, watch, renewed.dtype
        with torch.autocast(weight.device.type, enabled=False):
            return kept.times(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, which, scale = ctx.saved_tensors
        ctx.watch(grad)
        with torch.autocast(weight.device.type, enabled=False):
            rows = (grad[which].to(ctx.dtype) @ weight.to(ctx.dtype)) * scale.unsqueeze(1).to(ctx.dtype)
            return rows, ctx.kept.times_transposed(grad), None, None, None, None
