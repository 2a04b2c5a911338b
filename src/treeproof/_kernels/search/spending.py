"""What can be gained by paying: a bound for all that a budget may be spent on, feature by feature.

Some leaves of a tree cost no more than the region costs anyway; the best of them gives what the tree gives for free. A
leaf that gives more is worth that gain, and the gain is shared out over the features it needs to pay for, in
proportion to the squares of what it pays there (any proportion is right; of those tried this bounds best). With so much
spent on a feature, a tree gains at most the best share that this pays for, and all trees together their sum. So the
most that a budget can gain is a knapsack, with a step function of money per feature; any price of money (`rate`) bounds
it.

A region that this does not close is divided by what is paid for the feature that promises most: less than the price in
question, or at least that, on either side of N(x).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.model import LEAF, lead_of_leaf
from treeproof._kernels.search.record import emit_parts
from treeproof._kernels.search.region import copy_cells, least_price
from treeproof._kernels.search.stop import is_over

NOTHING = np.int64(-(2**62))
"""What a tree gives that has no leaf left."""

LEVELS = 32
"""Steps of the money spent on one feature."""
RATES = 24
"""Rates that are tried for a bound."""
SURE = 1.0 + 2.0**-30
"""Far more than all roundings of a sum of shares."""


class Purse(NamedTuple):
    """Scratch. Per feature and level (n_features, LEVELS): the most that is gained, the least price, one tree's shares.

    In the end only the first `levels` (n_features,) of each feature count: those where there is something to gain.
    `touched` (n_features,) are the features of one tree with shares, and `stamp` tells which of them are.
    """

    worth: Any
    price: Any
    share: Any
    levels: Any
    touched: Any
    stamp: Any


class Spending(NamedTuple):
    """What trees give for `free`, what can be gained at most by paying, and the `feature` that promises most.

    Half of what that feature promises needs at least `price` on top of what it costs anyway. `most` is what trees would
    gain if each could spend the budget on its own; `rate` is what money is worth.
    """

    free: Any
    gain: Any
    most: Any
    feature: Any
    price: Any
    rate: Any


def purse_for(n_features):
    """An empty purse; made in Python."""
    return Purse(
        np.zeros((n_features, LEVELS)),
        np.empty((n_features, LEVELS)),
        np.zeros((n_features, LEVELS)),
        np.empty(n_features, np.int64),
        np.empty(n_features, np.int32),
        np.full(n_features, -1, np.int64),
    )


@borrowing
def _extra(region, part, node):
    """What a leaf costs beyond what the region costs, and the most of it for one feature."""
    extra, most = 0.0, 0.0
    for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
        price = part.costs[c].price - region.ranges[part.costs[c].feature].paid
        if price > 0:
            extra += price
            most = max(most, price)
    return extra, most


@borrowing
def _share_leaf(region, part, purse, node, gain, most, left, t, n):
    """Shares out the gain of a leaf; returns the number of features touched."""
    squares = 0.0
    for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
        price = part.costs[c].price - region.ranges[part.costs[c].feature].paid
        if price > 0:
            squares += (price / most) * (price / most)
    for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
        f = np.int64(part.costs[c].feature)
        price = part.costs[c].price - region.ranges[f].paid
        if price > 0:
            level = min(np.int64(LEVELS * (price / left)), LEVELS - 1)
            share = gain * ((price / most) * (price / most) / squares)
            purse.share[f, level] = max(purse.share[f, level], share)
            purse.price[f, level] = min(purse.price[f, level], price)
            if purse.stamp[f] != t:
                purse.stamp[f] = t
                purse.touched[n] = f
                n += 1
    return n


@borrowing
def _weigh_tree(model, region, part, purse, other, label, left, t):
    """Adds what paying gains in one tree to the purse; returns (what the tree gives for free, what it can gain)."""
    free = NOTHING
    first, end = np.int64(part.roots[t]), np.int64(part.roots[t + 1])
    for i in range(first, end):
        node = part.nodes[i]
        if node.feature == LEAF:
            lead = lead_of_leaf(model, node.row, other, label)
            if lead > free and _extra(region, part, i)[0] == 0:
                free = lead
    n, top = np.int64(0), free
    for i in range(first, end):
        node = part.nodes[i]
        if node.feature == LEAF:
            lead = lead_of_leaf(model, node.row, other, label)
            if lead > free:
                extra, most = _extra(region, part, i)
                if extra <= left:
                    top = max(top, lead)
                    n = _share_leaf(region, part, purse, i, np.float64(lead - free), most, left, t, n)
    for k in range(n):
        f, run = purse.touched[k], 0.0
        for level in range(LEVELS):
            share = purse.share[f, level]
            purse.share[f, level] = 0.0
            if share > run:
                purse.worth[f, level] += share - run
                run = share
    return free, top - free


@borrowing
def _best_level(purse, f, rate):
    """The level of a feature that is worth most at this rate, -1 for none."""
    best, at = 0.0, np.int64(-1)
    for level in range(purse.levels[f]):
        surplus = purse.worth[f, level] - rate * purse.price[f, level]
        if surplus > best:
            best, at = surplus, np.int64(level)
    return at


@borrowing
def _gain_at(purse, left, rate):
    """(a bound on what can be gained, what would be spent for it) at a rate."""
    gain, spent = rate * left, 0.0
    for f in range(purse.worth.shape[0]):
        level = _best_level(purse, f, rate)
        if level >= 0:
            gain += purse.worth[f, level] - rate * purse.price[f, level]
            spent += purse.price[f, level]
    return gain, spent


@borrowing
def _best_rate(purse, left, enough):
    """(the lowest bound found, its rate); a bound below `enough` will do."""
    low, high = 0.0, 0.0
    for f in range(purse.worth.shape[0]):
        for level in range(purse.levels[f]):
            high = max(high, purse.worth[f, level] / purse.price[f, level])
    best, best_rate = _gain_at(purse, left, 0.0)[0], 0.0
    if left > 0:
        # Above it, the budget alone is worth more than everything. Without this, no rate was low enough where a
        # threshold is next to the row, and its price next to nothing.
        high = min(high, best / left)
    for _ in range(RATES):
        if best < enough:
            break
        rate = (low + high) / 2
        gain, spent = _gain_at(purse, left, rate)
        if gain < best:
            best, best_rate = gain, rate
        if spent > left:
            low = rate
        else:
            high = rate
    return best, best_rate


@borrowing
def spending(watch, model, region, part, purse, search):
    """What can be gained in the region, of which `part` is what is open; of no use if told to stop."""
    other, label, left = search.other, search.label, region.budget[0]
    for f in range(region.ranges.shape[0]):
        left -= region.ranges[f].paid
        for level in range(LEVELS):
            purse.worth[f, level], purse.price[f, level] = 0.0, np.inf
        purse.stamp[f] = -1
    # What is left may be rounded down; so that everything affordable stays in, it is a little more.
    left = max(left, 0.0) + region.budget[0] * 2.0**-40
    free, most = model.offset[other] - model.offset[label], np.int64(0)
    for t in range(model.roots.shape[0]):
        if is_over(watch):
            return Spending(free, 0.0, np.int64(0), np.int64(-1), 0.0, 0.0)
        of_tree, gained = _weigh_tree(model, region, part, purse, other, label, left, np.int64(t))
        if of_tree == NOTHING:
            # Not even the cheapest point can be paid for.
            return Spending(NOTHING, 0.0, np.int64(0), np.int64(-1), 0.0, 0.0)
        free += of_tree
        most += gained
    for f in range(region.ranges.shape[0]):
        run, n = 0.0, np.int64(0)
        for level in range(LEVELS):
            if purse.worth[f, level] > 0:
                run += purse.worth[f, level]
                purse.worth[f, n], purse.price[f, n] = run, purse.price[f, level]
                n += 1
        purse.levels[f] = n
    gain, rate = _best_rate(purse, left, np.float64(search.needed - free) / SURE)
    feature, best, at = np.int64(-1), 0.0, np.int64(-1)
    for f in range(region.ranges.shape[0]):
        level = _best_level(purse, f, rate)
        if level >= 0 and purse.worth[f, level] > best:
            feature, best, at = np.int64(f), purse.worth[f, level], level
    price = 0.0
    for level in range(at, -1, -1):
        if 2 * purse.worth[feature, level] >= best:
            price = purse.price[feature, level]
    return Spending(free, gain * SURE, most, feature, price, rate)


@borrowing
def is_too_dear(spent, needed):
    """Whether nothing that can be bought in the region is enough."""
    return spent.free + min(spent.gain, np.float64(spent.most)) < needed


@borrowing
def is_divided_by_price(region, spent, needed):
    """Whether something must be bought, and it is the budget that matters: each tree on its own could gain more.

    Where a feature costs the same wherever it goes, there are only so many sets of features to buy.
    """
    return spent.free < needed and spent.feature >= 0 and (region.flat or spent.gain < spent.most)


@borrowing
def divide_by_price(region, spent, todo, n, proof):
    """Adds the parts of a region to the n that wait, by what is paid for a feature; returns their number.

    There is room for three more. Each is smaller than the region: its cheapest cell costs less than `most`, and the
    price in question is that of a cell. What is `paid` may be that of a box that a race came to since.
    """
    span = region.ranges[spent.feature]
    paid = least_price(region, span, np.int64(span.low), np.int64(span.high))
    most = paid + spent.price * (1.0 - 2.0**-40)
    first, last = np.int64(span.low), np.int64(span.high)
    if span.growing:
        # Away from N(x) prices only grow, once past a gap that no move ends in.
        while last > span.near_high and last > first and region.price[span.start + last] >= most:
            last -= 1
        while first < span.near_low and first < last and region.price[span.start + first] >= most:
            first += 1
    else:
        # The first cells that cost less; there are some, and others.
        while first < last and region.price[span.start + first] >= most:
            first += 1
        last = first
        while last < span.high and region.price[span.start + last + 1] < most:
            last += 1
    low, high = np.int64(span.low), np.int64(span.high)
    emit_parts(proof, spent, region, first, last, n)
    n = _add_part(region, todo, n, spent.feature, first, last)
    if low < first:
        n = _add_part(region, todo, n, spent.feature, low, first - 1)
    if last < high:
        n = _add_part(region, todo, n, spent.feature, last + 1, high)
    return n


@borrowing
def _add_part(region, todo, n, feature, low, high):
    copy_cells(region.ranges, todo[n])
    todo[n, feature].low, todo[n, feature].high = low, high
    return n + 1
