"""A test and a range of cells: which part of it goes to a side, and where to cut it."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.model import goes_left, is_simple, same_since, same_until, span_of_side


@borrowing
def part_on_side(model, node, low, high, left):
    """The first and the last cell of [low, high] on one side of a test; the first behind the last if there is none.

    With several cuts, cells of the other side may lie in between.
    """
    low, high, cut = np.int64(low), np.int64(high), np.int64(node.cut)
    if is_simple(node):
        return (low, min(high, cut)) if left else (max(low, cut + 1), high)
    if same_until(model, node, low) < high:
        return span_of_side(model, node, low, high, left)
    return (low, high) if goes_left(model, node, low) == left else (low, low - 1)


@borrowing
def cut_between(model, node, low, high):
    """The cell behind which a test cuts [low, high], near the middle if it has several cuts there.

    Where it has none, another cut of the test, or -1.
    """
    if is_simple(node):
        return np.int64(node.cut)
    middle = (np.int64(low) + high) >> 1
    cut = same_until(model, node, middle)
    return cut if cut < high else same_since(model, node, middle) - 1
