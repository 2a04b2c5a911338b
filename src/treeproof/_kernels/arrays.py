"""What loops need of arrays and numba does not have, or has only at the price of seconds to compile."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import borrowing, inner


@inner
def doubled(array):
    """The same rows in an array with room for twice as many."""
    bigger = np.empty((2 * array.shape[0], *array.shape[1:]), array.dtype)
    for at, value in np.ndenumerate(array):
        bigger[at] = value
    return bigger


@borrowing
def sort_down(values, n, order):
    """Fills order[:n] with the positions of values[:n] from the largest to the smallest."""
    # Shell's sort: short, and quick enough for leaves; numpy's argsort would take seconds to compile.
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    for i in range(n):
        order[i] = i
    while gap > 0:
        for i in range(gap, n):
            moved = order[i]
            j = i
            while j >= gap and values[order[j - gap]] < values[moved]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = moved
        gap //= 3
