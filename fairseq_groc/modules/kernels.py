"""The encoder's gathers and scatters on CPUs, compiled by numba: an extra, several times faster than PyTorch's own.

Every kernel works in one fixed order, so results do not depend on the number of threads but for ``accumulate``.
"""

from __future__ import annotations

import logging

import numba
from numba import njit, prange

logging.getLogger("numba").setLevel(logging.WARNING)  # fairseq's root logger lets debugging through


@njit(parallel=True, cache=True)
def maximum(rows, items, starts, out, column, winners):  # pragma: no cover (compiled)
    """out[f, column:] = maximum of rows[i] over the items i of bag f; winners: which item had it. A NaN wins."""
    width = rows.shape[1]
    for f in prange(len(starts) - 1):
        best, winner = out[f, column : column + width], winners[f]  # views, so that the inner loops are vectorised
        first = items[starts[f]]
        for c in range(width):
            best[c] = rows[first, c]
            winner[c] = first
        for k in range(starts[f] + 1, starts[f + 1]):
            i = items[k]
            for c in range(width):
                value = rows[i, c]
                if value > best[c] or value != value:
                    best[c] = value
                    winner[c] = i


@njit(parallel=True, cache=True)
def maximum_backward(grad, winners, bags, bag_starts, out):  # pragma: no cover
    """out[i] = sum of grad[f] over the bags f that hold item i, where i won."""
    width = out.shape[1]
    zero = out.dtype.type(0)
    for i in prange(len(bag_starts) - 1):
        for c in range(width):
            out[i, c] = zero
        for k in range(bag_starts[i], bag_starts[i + 1]):
            f = bags[k]
            if k > bag_starts[i] and bags[k - 1] == f:
                continue  # an item twice in one bag
            for c in range(width):
                out[i, c] += grad[f, c] if winners[f, c] == i else zero


@njit(parallel=True, cache=True)
def total(rows, items, starts, out):  # pragma: no cover
    """out[f] = sum of rows[i] over the items i of bag f."""
    width = rows.shape[1]
    zero = out.dtype.type(0)
    for f in prange(len(starts) - 1):
        for c in range(width):
            out[f, c] = zero
        for k in range(starts[f], starts[f + 1]):
            i = items[k]
            for c in range(width):
                out[f, c] += rows[i, c]


@njit(parallel=True, cache=True)
def look_up(tables, symbols, bias, out):  # pragma: no cover
    """out[g] = bias + sum over positions k of tables[k, symbols[g, k]]."""
    width = tables.shape[2]
    for g in prange(len(symbols)):
        for c in range(width):
            out[g, c] = bias[c]
        for k in range(symbols.shape[1]):
            s = symbols[g, k]
            for c in range(width):
                out[g, c] += tables[k, s, c]


@njit(parallel=True, cache=True)
def accumulate(grad, symbols, out):  # pragma: no cover
    """out[t, k, s] = sum of grad[g] over thread t's share of the n-grams g with symbol s at position k."""
    threads, width = len(out), grad.shape[1]
    for t in prange(threads):
        for g in range(len(symbols) * t // threads, len(symbols) * (t + 1) // threads):
            for k in range(symbols.shape[1]):
                s = symbols[g, k]
                for c in range(width):
                    out[t, k, s, c] += grad[g, c]


def use_threads(number: int) -> int:
    """Set and return the number of threads."""
    numba.set_num_threads(max(1, min(number, numba.config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
    return numba.get_num_threads()
