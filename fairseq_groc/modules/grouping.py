"""Rows that share a matrix, put together in groups of one size, so that a batched product reads the matrix once a group."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

READING = 8  # reading a group's two factors takes as long as multiplying so many rows with them: measured on one CPU thread


class Groups(NamedTuple):
    """g groups of up to n of B rows, all rows of a group with the same matrix."""

    matrix: Tensor  # of each group, (g)
    rows: Tensor  # of all groups, (g n); what fills a group is any row
    place: Tensor  # of each row in the groups, (B), as a number below g n


def grouped(index: Tensor, count: int) -> Groups | None:
    """Return groups of rows, or None where each row had better be a group of its own.

    Args:
        index: of the matrix that each row is multiplied by, (B)
        count: of matrices
    """
    counts = torch.bincount(index, minlength=count).cpu()
    size = _best_size(counts)
    if size == 1:
        return None
    groups = _groups_of(counts, torch.tensor(size))
    rows, slots = _slots(index, counts.to(index.device), groups.to(index.device), size)
    total = int(groups.sum())
    matrix = torch.repeat_interleave(torch.arange(count), groups).to(index.device)
    filled, place = index.new_zeros(total * size), torch.empty_like(index)
    filled[slots], place[rows] = rows, slots
    return Groups(matrix, filled, place)


def _best_size(counts: Tensor) -> int:
    """Return the size n for which g groups of n rows and g times the reading are the least work."""
    sizes = torch.arange(1, int(counts.max()) + 1)
    work = _groups_of(counts.unsqueeze(1), sizes).sum(0) * (sizes + READING)
    return int(work.argmin()) + 1


def _groups_of(counts: Tensor, size: Tensor) -> Tensor:
    return (counts + size - 1) // size


def _slots(index: Tensor, counts: Tensor, groups: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return all rows in order of their matrices, and the slot of each: those of a matrix fill its groups in turn."""
    rows = index.argsort(stable=True)
    own = index[rows]
    number = torch.arange(len(rows), device=index.device) - (counts.cumsum(0) - counts)[own]  # among the rows of its matrix
    return rows, (groups.cumsum(0) - groups)[own] * size + number
