"""Robust training: random sub-vocabularies, and words that the lexicon seems to lack.

V: words. What is left out in a training step is a function of (seed, number of the update) alone: the same on every worker and
after resuming. Evaluation leaves out nothing.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fairseq_groc.modules.updates import Step, generator

NUM_SPECIAL = 4  # <s>, <pad>, </s>, <unk> begin every dictionary
# each kind of choice has numbers of its own; sampled updates draw from seed and seed + 1
VOCABULARY, LEXICON = 2, 3


class VocabularyDropout:
    """Leave every word that is not in the batch out of a step's softmax with chance P; the others stand for it.

    The words of the batch and the special entries always stay. A left-out word has probability 0 for this step, and the score of
    a word that stayed by chance gets + log 1/(1 - P): it counts for the 1/(1 - P) words that it was drawn from. So the sum that
    normalises the softmax is, over the draws, that of the whole vocabulary, and for a step's vocabulary V' the target's
    probability is the one that it has given that it is in V' ("positive conditioning", McFadden 1978, "Modelling the choice of
    residential location"; as in sampled softmaxes, Jean et al. 2015, section 3.1). Without the correction a step would show
    the model a text in which words outside the batch are 1 - P times as many as they are: all rare words, and words that come
    later, would end up up to 1/(1 - P) times too probable.

    What this may do for a vocabulary of another size: no score is fitted against one fixed set of competitors, but against sets
    that change at every step, so scores have to be right as a measure that any vocabulary can be normalised with. It shows
    the model no word that it does not know. Measured, it did not pay: docs/robust_training.md.

    The loss of a step is that of a smaller vocabulary, at most the whole one's in expectation (the logarithm is concave), so
    training perplexities with different P cannot be compared; validation always has all words. With several workers the
    coins are the same, the words of the batch each worker's own.

    Args:
        p: P, in (0, 1)
        seed: of the draws
    """

    def __init__(self, p: float, seed: int):
        self.p, self.seed = p, seed

    def coins(self, num_words: int, number: int) -> Tensor:
        """Return which words an update leaves out unless they are to stay, a mask (V)."""
        return torch.rand(num_words, generator=generator(self.seed + VOCABULARY, number)) < self.p

    def __call__(self, bias: Tensor, step: Step) -> Tensor:
        """Return the biases of a step, (V): -inf for the words left out, corrected for those that stayed by chance."""
        coins = self.coins(len(bias), step.number).to(bias.device)
        stays = torch.arange(len(bias), device=bias.device) < NUM_SPECIAL
        stays[step.words.to(bias.device).flatten()] = True
        corrected = torch.where(stays, bias, bias - math.log1p(-self.p))
        return corrected.masked_fill(coins & ~stays, float("-inf"))


class LexiconDropout:
    """Leave out a word's relations with chance P in a training step, and independently its definition.

    The word is then what a word without that entry is: its part of the composition is zero, and what is kept is not scaled up
    (as dropout would), because a word with an entry is composed of just that in evaluation. A form in other words'
    entries stays there: it is the word's own look-up that fails.

    Args:
        p: P, in (0, 1)
        seed: of the draws
    """

    def __init__(self, p: float, seed: int):
        self.p, self.seed = p, seed

    def lacking(self, num_words: int, number: int) -> Tensor:
        """Return which words lack their relations, and which their definition, in an update: masks (2, V)."""
        return torch.rand(2, num_words, generator=generator(self.seed + LEXICON, number)) < self.p
