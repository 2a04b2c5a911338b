"""The leaves of a tree that a range of cells of one feature leads to, as bits.

Where every test of the feature sends one range of cells to each side, the cells of a leaf are a range too. Then two
words tell its place: the leaves that some cell at or above a cell leads to, and those that some cell at or below it
does; the leaves of a range of cells are the bitwise `and` of two words.

Where a test has several cuts, a leaf may have cells here and there. Then the words are the leaves of 1, 2, 4, … cells
from a cell on, and up to it; the leaves of a range are the `or` of two such words that overlap. For a single cell the
two kinds are the same thing.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.bits import highest_bit
from treeproof._kernels.jit import borrowing, tiny
from treeproof._kernels.model import goes_left, same_until
from treeproof._kernels.sides import part_on_side

MAX_LEVEL = 4
"""Unions are kept of up to 2 ** MAX_LEVEL cells; longer ranges are put together of these."""


@borrowing
def is_ragged(model, node, low, high):
    """Whether a side of a test has other cells in between, out of [low, high]."""
    first, last = part_on_side(model, node, low, high, True)
    other_first, other_last = part_on_side(model, node, low, high, False)
    return first <= last and other_first <= other_last and max(first, other_first) <= min(last, other_last)


@borrowing
def n_masks(size, ragged):
    """How many masks a feature with so many cells has."""
    return size * (min(highest_bit(np.uint64(size)), MAX_LEVEL) + 1) if ragged else size


@tiny
def leaves_between(masks, pair, first, last):
    """The leaves that the cells from `first` to `last` lead to."""
    if pair.ragged == 0:
        return masks[pair.table + first].at_least & masks[pair.table + last].at_most
    return _union(masks, pair, np.int64(first), np.int64(last))


@borrowing
def _union(masks, pair, first, last):
    level = min(highest_bit(np.uint64(last - first + 1)), MAX_LEVEL)
    at, width = pair.table + level * pair.ragged, 1 << level
    word = masks[at + first].at_least | masks[at + last].at_most
    cell = first + width
    while cell + width <= last:
        word |= masks[at + cell].at_least
        cell += width
    return word


@borrowing
def fill_ranges(pair, its, place, rank, ranges, masks):
    """Fills in the masks where each leaf has one range: `ranges[i, place]` for the leaf with bit `rank[i]`."""
    table = pair.table
    for i in range(rank.shape[0]):
        bit, leads_here = np.uint64(1) << np.uint64(rank[i]), ranges[i, place]
        masks[table + leads_here.low].at_most |= bit
        masks[table + leads_here.high].at_least |= bit
    for c in range(its.low + 1, its.high + 1):
        masks[table + c].at_most |= masks[table + c - 1].at_most
    for c in range(its.high - 1, its.low - 1, -1):
        masks[table + c].at_least |= masks[table + c + 1].at_least


@borrowing
def fill_unions(pair, its, n_leaves, model, splits, tests, masks):
    """Fills in the masks where leaves have cells here and there; `splits` and `tests` are those of the tree."""
    table, low, high = pair.table, np.int64(its.low), np.int64(its.high)
    for c in range(low, high + 1):
        masks[table + c].at_least = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - n_leaves)
    for k in range(n_leaves - 1):
        if tests[k].feature == pair.feature:
            _take_away(model, model.nodes[splits[k].node], tests[k], table, low, high, masks)
    for c in range(low, high + 1):
        masks[table + c].at_most = masks[table + c].at_least
    width, level = 1, 0
    while level < MAX_LEVEL and 2 * width <= high - low + 1:
        above = table + pair.ragged
        for c in range(low, high + 2 - 2 * width):
            union = masks[table + c].at_least | masks[table + c + width].at_least
            masks[above + c].at_least = union
            masks[above + c + 2 * width - 1].at_most = union
        table, width, level = above, 2 * width, level + 1


@borrowing
def _take_away(model, node, test, table, low, high, masks):
    """Takes the leaves on the other side of a test away from each cell."""
    left, cell = goes_left(model, node, low), low
    while cell <= high:
        end = min(same_until(model, node, cell), high) + 1
        kept = ~(test.right if left else test.left)
        for c in range(cell, end):
            masks[table + c].at_least &= kept
        left, cell = not left, end
