"""Where attacks bring rows, column by column: in places, the parts that the thresholds of a column leave.

A column of numbers has the places 0, 1, … in rising order and one more for missing values, a category one for each
value and one for missing ones. What an attack can do to a number is a range of places and a cost; where more is to be
said, the column is listed: for each kind of row there is the price of every place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing

NEVER = 2**62
"""The price of a place that no attack reaches, above all budgets."""

# A row's value of a column: near_low to near_high, its own place or those of its neighbourhood, cost nothing; low to
# high cost what the column does (low > high: nothing). In a listed column, near_low is the kind of the row, and high is
# 1 if it may be attacked.
RANGE = np.dtype([("near_low", "u2"), ("near_high", "u2"), ("low", "u2"), ("high", "u2")])

# A column of numbers in a node: its places there, and whether missing values go there.
EXTENT = np.dtype([("low", "i4"), ("high", "i4"), ("missing", "?")], align=True)

# The edge into a node, by the column that is tested before it: what it leaves of the column, and what was there before.
# In a listed column, `priced` and `priced_before` are where the prices of all kinds of rows begin.
EDGE = np.dtype([("feature", "i4"), ("extent", EXTENT), ("before", EXTENT), ("priced", "i8"), ("priced_before", "i8")])


class Rows(NamedTuple):
    """What every tree shares: what attacks make of each row, and what that costs."""

    ranges: Any  # (n_features, n) of RANGE
    listed: Any  # (n_features,): where the prices of a listed column begin, or -1
    n_places: Any  # (n_features,)
    n_kinds: Any  # (n_features,): of rows, in listed columns
    prices: Any  # of listed columns, for each kind of row and each place
    cost: Any  # (n_features,)
    may_miss: Any  # (n_features,): whether there are missing values, or attacks make them
    budget: Any


@borrowing
def price_of_range(values, extent, missing, cost):
    """What it costs to have a number in a node; `missing` is the place of missing values."""
    if values.near_low == missing:
        return 0 if extent.missing else NEVER
    if max(np.int64(values.near_low), extent.low) <= min(np.int64(values.near_high), extent.high):
        return 0
    if max(np.int64(values.low), extent.low) <= min(np.int64(values.high), extent.high):
        return cost
    return NEVER


@borrowing
def price_at(rows, f, i, extent, prices, start):
    """What column f of row i costs in a node.

    There, `extent` is left of f, or in a listed column what the prices of all kinds from `start` on say.
    """
    values = rows.ranges[f, i]
    if rows.listed[f] < 0:
        return price_of_range(values, extent, rows.n_places[f] - 1, rows.cost[f])
    price = prices[start + values.near_low]
    return price if values.high == 1 or price == 0 else np.int64(NEVER)


@borrowing
def price_in_list(rows, f, kind, mask, start):
    """What it costs a kind of row to have a listed column at a place that is open from `start` on in a mask."""
    n, best = rows.n_places[f], np.int64(NEVER)
    begin = rows.listed[f] + kind * n
    for place in range(n):
        if mask[start + place]:
            best = min(best, rows.prices[begin + place])
    return best
