"""Exact prices, for what prices that are rounded down leave open: whether a sum of them is within a limit.

They are whole numbers of a common unit, in digits of `BITS` bits, the highest first, so that digits add up one by one.
A rounded sum that is not near to the limit decides as it is; only where it is near, exact prices are looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing

BITS = 40
"""So that differences of a million digits, and another digit, fit a word."""
DECIDED = np.int64(2**21)
"""What is ahead by so much in some digit stays ahead."""
NEARLY = 1.0 + 2.0**-36
"""Two prices whose exact ones are in the other order differ by a smaller factor."""


class ExactPrices(NamedTuple):
    """The digits of the exact `price` (n_cells, n) of each cell, and of the `limit` (n,) of their sums.

    Sums up to `sure` (1,) are surely affordable: all are, where nothing is known. `total` (n,) is scratch.
    """

    price: Any
    limit: Any
    sure: Any
    total: Any


@borrowing
def _is_less(price, k, other):
    """Whether one cell has a lower price than another."""
    for d in range(price.shape[1]):
        if price[k, d] != price[other, d]:
            return price[k, d] < price[other, d]
    return False


@borrowing
def _add(region, f, paid, sign):
    """Adds the least exact price of the cells of a feature that cost `paid` or more, if rounded; or takes it away."""
    cells, exact, best = region.ranges[f], region.exact, np.int64(-1)
    for k in range(cells.start + cells.low, cells.start + cells.high + 1 if paid > 0 else 0):
        near = paid <= region.price[k] <= paid * NEARLY
        if near and (best < 0 or _is_less(exact.price, k, best)):
            best = np.int64(k)
    for d in range(exact.total.shape[0] if best >= 0 else 0):
        exact.total[d] += sign * exact.price[best, d]


@borrowing
def _add_box(region):
    """Makes the total what the box under way costs at least, by what is `paid` for features."""
    for d in range(region.exact.total.shape[0]):
        region.exact.total[d] = 0
    for f in range(region.ranges.shape[0]):
        _add(region, f, region.ranges[f].paid, 1)


@borrowing
def _is_beyond(exact):
    """Whether the total is above the limit."""
    ahead = np.int64(0)
    for d in range(exact.limit.shape[0]):
        ahead = (ahead << BITS) + exact.total[d] - exact.limit[d]
        if abs(ahead) > DECIDED:
            break
    return ahead > 0


@borrowing
def box_is_dear(region, spent):
    """Whether the box under way, for which `spent` is paid in all, if rounded, exactly costs more than the limit."""
    if spent <= region.exact.sure[0]:
        return False
    _add_box(region)
    return _is_beyond(region.exact)


@borrowing
def leaf_is_dear(region, part, node, cost):
    """The same of a leaf in the box under way; its `cost` is rounded."""
    if cost <= region.exact.sure[0]:
        return False
    _add_box(region)
    for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
        f, price = np.int64(part.costs[c].feature), part.costs[c].price
        if price > region.ranges[f].paid:
            _add(region, f, region.ranges[f].paid, -1)
            _add(region, f, price, 1)
    return _is_beyond(region.exact)


@borrowing
def point_is_dear(region, cells, spent):
    """The same of a point."""
    exact = region.exact
    if spent <= exact.sure[0]:
        return False
    for d in range(exact.total.shape[0]):
        exact.total[d] = 0
        for f in range(cells.shape[0]):
            if cells[f] >= 0:
                exact.total[d] += exact.price[region.ranges[f].start + cells[f], d]
    return _is_beyond(exact)
