"""Mixture of softmaxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_groc.heads.base import register_head
from fairseq_groc.heads.table import BiasedOutput
from fairseq_groc.modules.chunked_loss import DEFAULT_CHUNK, chunked_cross_entropy
from fairseq_groc.registry import Option


@register_head("mixture_of_softmaxes", num_softmaxes=Option(15, "softmaxes of mixture_of_softmaxes", "count"))
class MixtureOfSoftmaxes(BiasedOutput):
    """p = sum over k of pi_k softmax(E_in tanh(W_k h + w_k) + b), pi = softmax(P h) (Yang et al. 2018). K softmaxes.

    Parameters: K (d^2 + d) + K d + V.

    Args:
        words: of the vocabulary
        dim: d, of embeddings and of h
        softmaxes: K
    """

    computes = False
    plain_softmax = False

    def __init__(self, words: Sequence[str], dim: int, softmaxes: int):
        super().__init__(words)
        self.softmaxes = softmaxes
        self.contexts = nn.Linear(dim, softmaxes * dim)
        self.prior = nn.Linear(dim, softmaxes, bias=False)

    @classmethod
    def from_settings(cls, words: Sequence[str], dim: int, settings: dict[str, Any]) -> MixtureOfSoftmaxes:
        return cls(words, dim, settings["num_softmaxes"])

    def query(self, h: Tensor) -> Tensor:
        """Return the K contexts, (..., K, d)."""
        return torch.tanh(self.contexts(h)).unflatten(-1, (self.softmaxes, -1))

    def log_scores(self, h: Tensor, outputs: Tensor, bias: Tensor) -> Tensor:
        """Return log-probabilities, (..., V): one softmax at a time is held beside their sum."""
        weights, contexts = self.prior(h).float().log_softmax(-1), self.query(h)
        own = ((contexts[..., k, :], weights[..., k : k + 1]) for k in range(self.softmaxes))
        return reduce(_log_add, (F.linear(h, outputs, bias).float().log_softmax(-1) + weight for h, weight in own))

    def losses(
        self, h: Tensor, outputs: Tensor, bias: Tensor, targets: Tensor, ignore_index: int, chunk: int = DEFAULT_CHUNK
    ) -> Tensor:
        weights, contexts = self.prior(h).float().log_softmax(-1), self.query(h)  # (N, K), (N, K, d)
        repeated = targets.repeat_interleave(self.softmaxes)
        each = chunked_cross_entropy(
            contexts.flatten(0, 1), outputs, bias, repeated, ignore_index, max(1, chunk // self.softmaxes)
        )
        losses = -(weights - each.view_as(weights)).logsumexp(-1)
        return losses.masked_fill(targets == ignore_index, 0)


def _log_add(a: Tensor, b: Tensor) -> Tensor:
    """logaddexp whose gradient is 0, not NaN, where both are -inf (impossible words)."""
    impossible = (a == float("-inf")) & (b == float("-inf"))
    return torch.logaddexp(a.masked_fill(impossible, 0), b.masked_fill(impossible, 0)).masked_fill(impossible, float("-inf"))
