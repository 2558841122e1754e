"""Bags of rows and n-gram look-ups: the gathers and scatters of the encoder, on any device.

On CPUs they run in compiled kernels where numba is installed, elsewhere in PyTorch's own; the results are the same.
B: bags; R: rows; C: features; G: n-grams; w: symbols of an n-gram; S: symbols there are; e: size of their embeddings.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

KERNELS: ModuleType | None = None
try:
    from fairseq_groc.modules import kernels as KERNELS
except Exception as error:  # not installed, or no folder to keep what it compiles
    logging.getLogger(__name__).info(f"encoding on CPUs is slower without numba (pip install numba): {error}")


class Bags(NamedTuple):
    """Bags of rows of a matrix (R, C), as integers.

    Args:
        items: the rows of all bags, one bag after the other
        starts: where each bag begins and the last ends, B + 1
        holders: for every row the bags that hold it, R bags of bags; None: means take PyTorch's slower way
    """

    items: Tensor
    starts: Tensor
    holders: Bags | None = None

    @classmethod
    def from_lists(cls, items: NDArray[Any], starts: NDArray[Any], num_rows: int | None = None) -> Bags:
        """Build from items and starts, and with a number of rows the other way round, too."""
        if num_rows is None:
            return cls(torch.from_numpy(np.array(items, dtype=np.int32)), torch.from_numpy(np.array(starts, dtype=np.int32)))
        sizes = np.diff(starts)
        holders = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(items, kind="stable")]
        ends = np.cumsum(np.bincount(items, minlength=num_rows))
        return cls(*cls.from_lists(items, starts)[:2], cls.from_lists(holders, np.concatenate([[0], ends])))

    def sizes(self) -> Tensor:
        """Return how many items each bag has, (B)."""
        return self.starts.diff()

    def mean(self, rows: Tensor) -> Tensor:
        """Return each bag's average of its rows, (B, C); zero for an empty bag."""
        compiled = self.holders is not None and has_kernels(rows)
        return _Mean.apply(rows, self) if compiled else average(rows, self.items, self.starts)


def pick(bags: Bags, which: Tensor) -> Bags:
    """Return some bags."""
    sizes = bags.sizes()[which]
    starts = F.pad(sizes.cumsum(0), (1, 0)).int()
    shift = (bags.starts[which] - starts[:-1]).repeat_interleave(sizes)
    return Bags(bags.items[torch.arange(len(shift), device=shift.device) + shift], starts)


def distinct(numbers: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Return the distinct ones of some numbers below a limit, sorted, and the place of each number among them.

    As ``unique``, but in time that grows with the limit and not by sorting.
    """
    there = torch.zeros(limit, dtype=torch.bool, device=numbers.device).index_fill_(0, numbers, True)
    return there.nonzero().squeeze(1), (there.cumsum(0) - 1)[numbers]


def has_kernels(rows: Tensor) -> bool:
    """Say whether the compiled kernels take these rows."""
    return KERNELS is not None and rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)


def average(rows: Tensor, items: Tensor, starts: Tensor) -> Tensor:
    """Return the average of each bag of rows, (B, C), for bags that are used once."""
    return _embedding_bag(rows, items, starts, "mean")


def _embedding_bag(rows: Tensor, items: Tensor, starts: Tensor, mode: str) -> Tensor:
    # embedding_bag has no kernel for half precision on CPUs; the maximum is exact either way
    wide = rows.float() if rows.device.type == "cpu" and rows.dtype in (torch.float16, torch.bfloat16) else rows
    return F.embedding_bag(items, wide, starts, mode=mode, include_last_offset=True).to(rows.dtype)


class _Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, bags: Bags) -> Tensor:
        ctx.bags, ctx.num_rows = bags, len(rows)
        out = rows.new_empty(len(bags.starts) - 1, rows.size(1))
        _run("total", rows, bags.items, bags.starts, out)
        return out.div_(_divisors(bags, rows))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        out = grad.new_empty(ctx.num_rows, grad.size(1))
        _run("total", grad / _divisors(ctx.bags, grad), ctx.bags.holders.items, ctx.bags.holders.starts, out)
        return out, None


def _divisors(bags: Bags, like: Tensor) -> Tensor:
    return bags.sizes().clamp(min=1).to(like.dtype).unsqueeze(1)


def convolve_and_pool(
    ngrams: Sequence[Tensor],
    windows: Sequence[Bags],
    characters: Tensor,
    weights: Sequence[Tensor],
    biases: Sequence[Tensor],
    forms: Tensor | None = None,
) -> Tensor:
    """Return the maximum over each form's windows of the responses of filters of several widths, (f, sum of C).

    With kernels a filter's response is looked up: at each of its w positions there are only S symbols, whose contributions are
    computed first. That is the same sum in another order, with 16 times fewer multiplications, and no responses are held.

    Args:
        ngrams: for each width w the symbols of its n-grams, (G, w)
        windows: for each width the n-grams of every form, none of them empty
        characters: embeddings of the symbols, (S, e)
        weights: for each width the filters, (C, w * e), position by position
        biases: for each width, (C)
        forms: which ones, (f); None: all
    """
    if not has_kernels(characters):
        if forms is not None:  # every window is an n-gram of its own: to find equal ones would cost more than it saves
            picked = [pick(bags, forms) for bags in windows]
            ngrams = [g[bags.items.long()] for g, bags in zip(ngrams, picked, strict=True)]
            windows = [bags._replace(items=torch.arange(len(bags.items)).to(bags.items)) for bags in picked]
        responses = [
            F.linear(F.embedding(g, characters).flatten(1), w, b) for g, w, b in zip(ngrams, weights, biases, strict=True)
        ]
        return torch.cat(
            [_embedding_bag(r, bags.items, bags.starts, "max") for r, bags in zip(responses, windows, strict=True)], dim=1
        )
    chosen = torch.arange(len(windows[0].starts) - 1) if forms is None else forms
    positions = [w.view(len(w), g.size(1), -1).permute(1, 2, 0) for g, w in zip(ngrams, weights, strict=True)]  # (w, e, C)
    with torch.autocast("cpu", enabled=False):  # the kernels know no bfloat16
        tables = [torch.matmul(characters, p) for p in positions]  # (w, S, C)
    return _ConvolveAndPool.apply(ngrams, windows, chosen, *tables, *biases)


class _ConvolveAndPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ngrams: Sequence[Tensor], windows: Sequence[Bags], forms: Tensor, *parameters: Tensor) -> Tensor:
        tables, biases = parameters[: len(ngrams)], parameters[len(ngrams) :]
        out, column = tables[0].new_empty(len(forms), sum(len(b) for b in biases)), 0
        winners: list[Tensor] = []
        for grams, bags, table, bias in zip(ngrams, windows, tables, biases, strict=True):
            winners.append(torch.empty(len(forms), len(bias), dtype=torch.int32))
            _run("convolve", table, grams, bags.items, bags.starts, forms, bias, out, column, winners[-1])
            column += len(bias)
        # all of it as saved tensors: what is kept on ctx would outlive a checkpoint, which lets go of nothing else
        ctx.save_for_backward(*ngrams, *winners)
        ctx.shapes = [t.shape for t in tables]
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        assert KERNELS is not None
        tables, biases = [], []
        widths, saved = len(ctx.shapes), ctx.saved_tensors  # once: a checkpoint gives them once
        ngrams, winners = saved[:widths], saved[widths:]
        for part, shape, grams, won in zip(
            grad.split([s[2] for s in ctx.shapes], dim=1), ctx.shapes, ngrams, winners, strict=True
        ):
            sums = grad.new_zeros(KERNELS.use_threads(torch.get_num_threads()), *shape)
            _run("convolve_backward", part, won, grams, sums)
            tables.append(sums.sum(0))
            biases.append(part.sum(0))
        return (None, None, None, *tables, *biases)


def _run(kernel: str, *arguments: Tensor | int) -> None:
    assert KERNELS is not None
    threads = torch.get_num_threads()
    KERNELS.use_threads(threads)
    if torch.get_num_threads() != threads:  # numba's start sets OpenMP's number of threads for everybody
        torch.set_num_threads(threads)
    getattr(KERNELS, kernel)(*(a if isinstance(a, int) else a.detach().contiguous().numpy() for a in arguments))
