"""Cross-entropy of softmax(h E^T + b) without the logits of all words: exact, with memory flat in V.

N: positions; V: words; d: size of h.

Considered instead: ``torch.nn.functional.linear_cross_entropy`` (PyTorch 2.13 and later, this package runs from 2.6; it goes over
positions in chunks, and on CPUs it is slower: benchmarks/losses.py), and the Triton kernels of Liger and cut-cross-entropy, which
are for GPUs and could not be run.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

DEFAULT_CHUNK = 40_000  # words at a time: most vocabularies are one chunk; 112 MB of logits at 700 positions


def chunked_cross_entropy(
    features: Tensor, embeddings: Tensor, bias: Tensor, targets: Tensor, ignore_index: int, chunk: int = DEFAULT_CHUNK
) -> Tensor:
    """Return -log p(target), (N) in float32; 0 where the target is ``ignore_index``.

    Forward and backward go over the vocabulary in chunks, with a running log-sum-exp. The backward pass computes the logits
    again, but not those of the last chunk, with which it begins: a vocabulary of one chunk costs what a plain loss costs.
    The result is that of ``cross_entropy(linear(h, E, b))`` up to rounding.

    Args:
        features: h, (N, d)
        embeddings: E, (V, d)
        bias: b, (V); -inf makes a word impossible
        targets: (N), words or ``ignore_index``
        ignore_index: a target that costs nothing and has no gradient
        chunk: words at a time, at most
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):  # as linear() would
        dtype = torch.get_autocast_dtype(device)
        features, embeddings = features.to(dtype), embeddings.to(dtype)
    with torch.autocast(device, enabled=False):
        return _ChunkedCrossEntropy.apply(features, embeddings.to(features.dtype), bias, targets, ignore_index, chunk)


def _chunks(embeddings: Tensor, bias: Tensor, chunk: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    size = math.ceil(len(embeddings) / math.ceil(len(embeddings) / chunk))  # about alike: none too small for a fast product
    for begin in range(0, len(embeddings), size):
        part = slice(begin, begin + size)
        yield part, embeddings[part], bias[part]


def _logits(features: Tensor, rows: Tensor, offsets: Tensor, dtype: torch.dtype) -> Tensor:
    return F.linear(features, rows).to(dtype).add_(offsets)  # (N, chunk)


def _within(part: slice, rows: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return which words are in a chunk, (N), and their places there, (N, 1)."""
    here = (tokens >= part.start) & (tokens < part.start + len(rows))
    return here, (tokens - part.start).clamp(0, len(rows) - 1).unsqueeze(1)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, embeddings: Tensor, bias: Tensor, targets: Tensor, ignore_index: int, chunk: int
    ) -> Tensor:
        wide = torch.promote_types(features.dtype, torch.float32)
        total = features.new_full((len(features),), float("-inf"), dtype=wide)
        right = torch.zeros_like(total)
        counted = targets != ignore_index
        tokens = targets.masked_fill(~counted, 0)
        for part, rows, offsets in _chunks(embeddings, bias, chunk):
            shares = total.new_empty(0)  # a chunk goes before the next is made
            shares = _logits(features, rows, offsets, wide)
            here, places = _within(part, rows, tokens)
            right = torch.where(here, shares.gather(1, places).squeeze(1), right)  # rounded as those in the sum are
            largest = shares.amax(1, keepdim=True).clamp_(min=torch.finfo(wide).min)  # all may be impossible
            shares.sub_(largest).exp_()  # of what they sum to
            total = torch.logaddexp(total, shares.sum(1).log_().add_(largest.squeeze(1)))
        ctx.save_for_backward(features, embeddings, bias, tokens, counted, total, largest.squeeze(1))
        ctx.chunk, ctx.shares = chunk, shares
        return (total - right).masked_fill(~counted, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, embeddings, bias, tokens, counted, total, largest = ctx.saved_tensors
        shares, ctx.shares = ctx.shares, None  # used up in place: a second backward pass computes them again
        grad = (grad * counted).to(total.dtype)
        grad_features = torch.zeros_like(features, dtype=total.dtype)
        grad_embeddings, grad_bias = torch.empty_like(embeddings), torch.empty_like(bias)
        for part, rows, offsets in reversed([*_chunks(embeddings, bias, ctx.chunk)]):
            if shares is None:
                shares = _logits(features, rows, offsets, total.dtype).sub_(largest.unsqueeze(1)).exp_()
            errors = shares.mul_(((largest - total).exp() * grad).unsqueeze(1))  # p, then p - 1 at the target
            largest, shares = total, None
            here, places = _within(part, rows, tokens)
            errors.scatter_add_(1, places, -(grad * here).unsqueeze(1))
            grad_bias[part] = errors.sum(0)
            errors = errors.to(features.dtype)
            grad_features += errors @ rows
            torch.mm(errors.t(), features, out=grad_embeddings[part])
            del errors  # before the next chunk is made
        return grad_features.to(features.dtype), grad_embeddings, grad_bias, None, None, None
