"""The encoder's gathers and scatters on CPUs, compiled by numba: an extra, several times faster than PyTorch's own.

Every kernel works in one fixed order, so results do not depend on the number of threads but for ``convolve_backward``.
"""

from typing import Any

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Array = NDArray[Any]


@njit(parallel=True, cache=True)
def convolve(
    tables: Array, symbols: Array, items: Array, starts: Array, forms: Array, bias: Array, out: Array, column: int, winners: Array
) -> None:  # pragma: no cover (compiled)
    """out[f, column:] = bias + maximum over the n-grams g of bag forms[f] of the sum over k of tables[k, symbols[g, k]].

    winners: which n-gram had the maximum. A NaN wins.
    """
    width = tables.shape[2]
    for f in prange(len(forms)):
        best, winner = out[f, column : column + width], winners[f]  # views, so that the inner loops are vectorised
        response = np.empty(width, tables.dtype)
        first = starts[forms[f]]
        for i in range(first, starts[forms[f] + 1]):
            g = items[i]
            s = symbols[g, 0]
            for c in range(width):
                response[c] = tables[0, s, c]
            for k in range(1, symbols.shape[1]):
                s = symbols[g, k]
                for c in range(width):
                    response[c] += tables[k, s, c]
            for c in range(width):
                wins = i == first or (best[c] == best[c] and not response[c] <= best[c])
                best[c] = response[c] if wins else best[c]
                winner[c] = g if wins else winner[c]
        for c in range(width):
            best[c] += bias[c]


@njit(parallel=True, cache=True)
def convolve_backward(grad: Array, winners: Array, symbols: Array, out: Array) -> None:  # pragma: no cover
    """out[t, k, s] = sum of grad[f] over thread t's share of the forms f whose winner has symbol s at position k."""
    threads, width = len(out), grad.shape[1]
    for t in prange(threads):
        for f in range(len(grad) * t // threads, len(grad) * (t + 1) // threads):
            for k in range(symbols.shape[1]):
                for c in range(width):
                    out[t, k, symbols[winners[f, c], k], c] += grad[f, c]


@njit(parallel=True, cache=True)
def total(rows: Array, items: Array, starts: Array, out: Array) -> None:  # pragma: no cover
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


def use_threads(number: int) -> int:
    """Set and return the number of threads."""
    numba.set_num_threads(max(1, min(number, numba.config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
    return numba.get_num_threads()
