"""Products of positions with matrices of which each has one of its own. T: time; B: streams; C: matrices; r: rank."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def products_at(x: Tensor, matrices: Tensor, index: Tensor) -> Tensor:
    """Return each x times the matrix that it has, (T, B, r).

    Args:
        x: (T, B, size)
        matrices: (C, size, r)
        index: of the matrix of each stream, (B), or of each position, (T, B)
    """
    if index.dim() == 1:
        return torch.bmm(x.transpose(0, 1), matrices[index]).transpose(0, 1)
    products = torch.cat([rows @ matrix for (rows,), matrix in zip(by_matrix(index, len(matrices), x), matrices, strict=True)])
    place = index.flatten().argsort(stable=True).argsort()
    return products.index_select(0, place).unflatten(0, index.shape)


def by_matrix(index: Tensor, count: int, *values: Tensor) -> list[tuple[Tensor, ...]]:
    """Return for each matrix the rows of each of *values* (T, B, ...) that have it.

    Args:
        index: of the matrix of each position, (T, B)
        count: C
    """
    order, counts = index.flatten().argsort(stable=True), torch.bincount(index.flatten(), minlength=count).tolist()
    return list(zip(*(value.flatten(0, 1).index_select(0, order).split(counts) for value in values), strict=True))


def sums_at(a: Tensor, b: Tensor, index: Tensor, count: int) -> Tensor:
    """Return for each matrix the sum of a^T b over the positions that have it, (C, p, q).

    Args:
        a: (T, B, p)
        b: (T, B, q)
        index: of the matrix of each stream, (B), or of each position, (T, B)
        count: C
    """
    if index.dim() == 1:
        products = torch.bmm(a.permute(1, 2, 0), b.transpose(0, 1))
        return a.new_zeros(count, *products.shape[1:]).index_add_(0, index, products)
    return torch.stack([rows.t() @ others for rows, others in by_matrix(index, count, a, b)])


def factors_of(index: Tensor, left: Tensor, right: Tensor) -> Constant | Varying:
    """Return the factors (C, size, r) and (C, r, size) of streams with one index each, or of streams whose index changes."""
    left = left.mT.contiguous()  # a row for each of the rank is read faster than a column
    return Constant(left[index], right[index]) if index.dim() == 1 else Varying(index, left, right)


class Constant(NamedTuple):
    """Factors that are the same at all steps."""

    left: Tensor  # transposed, (B, r, size)
    right: Tensor  # (B, r, size)

    def move(self, t: int) -> None:
        """Go to step t."""


class Varying:
    """The factors of every stream at one step; going to the step beside it changes those of streams whose index changes.

    Args:
        index: (T, B)
        left: transposed, (C, r, size)
        right: (C, r, size)
    """

    def __init__(self, index: Tensor, left: Tensor, right: Tensor):
        self._index, self._left, self._right, self._step = index, left, right, -1
        changed = index[1:] != index[:-1]
        self._changed = changed.nonzero()[:, 1].split(changed.sum(1).tolist())  # between steps t and t + 1

    def move(self, t: int) -> None:
        """Set ``left`` and ``right``, (B, r, size), to those of step t, which is beside that of the last call."""
        own = self._index[t]
        if self._step < 0:
            self.left, self.right = self._left[own], self._right[own]
        elif len(streams := self._changed[min(t, self._step)]):
            self.left[streams], self.right[streams] = self._left[own[streams]], self._right[own[streams]]
        self._step = t
