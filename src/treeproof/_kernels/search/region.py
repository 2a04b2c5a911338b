"""A region of cells, what it costs to be there, and the part of an ensemble that the region leaves open."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.model import LEAF, goes_left, is_simple, same_until, span_of_side
from treeproof._kernels.search.stop import is_over

INFINITE = np.inf

ONE_CUT = -1

RANGE = np.dtype(
    [
        ("low", "i4"),
        ("high", "i4"),  # the cells in question: [low, high]
        ("near_low", "i4"),
        ("near_high", "i4"),  # those of N(x)
        ("own", "i4"),  # that of x itself, -1 for NaN
        ("group", "i4"),  # of those with a budget of their own, -1: none
        ("growing", "?"),  # whether N(x) is free and prices only grow away from it
        ("start", "i8"),  # where the feature's prices begin
        ("paid", "f8"),  # what the box under way costs there at least
    ],
    align=True,
)
"""The cells of one feature."""

GROUP = np.dtype([("budget", "f8"), ("spent", "f8")], align=True)
"""What features together may cost, and what the box under way costs there at least."""

CELLS = np.dtype([("low", "i4"), ("high", "i4")], align=True)
"""The cells of a feature in a region that waits to be searched."""

OPEN_NODE = np.dtype(
    [
        ("feature", "i4"),  # LEAF for a leaf
        ("cut", "i4"),
        ("node", "i4"),  # in the model, of a test with several cuts; else ONE_CUT
        ("left", "i4"),
        ("right", "i4"),
        ("row", "i4"),  # of the leaf values, for a leaf
        ("cost", "i4"),  # the first COST of its path, for a leaf; they end where those of the next node begin
    ],
    align=True,
)
"""A node of a part, in preorder."""
COST = np.dtype([("feature", "i4"), ("price", "f8")], align=True)
"""What the path to a leaf costs on one feature."""

FRAME = np.dtype(
    [
        ("node", "i4"),  # in the model
        ("here", "i4"),  # in the part
        ("stage", "i4"),
        ("low", "i4"),
        ("high", "i4"),  # the range of its feature before it
        ("price", "f8"),  # of that range
        ("path_price", "f8"),  # of all ranges before it
    ],
    align=True,
)
"""An open test on the way down a tree."""
# Stages of a frame: its left side under way, or its right side after a left one that holds something, or nothing.
ON_THE_LEFT, LEFT_HOLDS, LEFT_IS_EMPTY = 0, 1, 2


class Region(NamedTuple):
    """Per feature its RANGE, and in `price` (n_cells,) what a cell costs at least: of feature f from its `start` on.

    `budget` (1,) may fall while cheaper counterexamples are found. Where `limited` is false no price matters; where
    `flat` is true a feature costs the same wherever it goes, and where `whole` is true prices are whole numbers.
    Features of a group have a budget of their own, too: `groups` are GROUP records. Where sums of rounded prices are
    too close to the limit, `exact` ones tell, if they are known.
    """

    ranges: Any
    price: Any
    budget: Any
    limited: Any
    flat: Any
    whole: Any
    groups: Any
    exact: Any


class Part(NamedTuple):
    """The reachable, affordable part of the ensemble: `nodes` are OPEN_NODE records in preorder, tree after tree.

    `roots` (n_trees + 1,) are where trees begin, and the end of the last; `costs` are COST records, only filled where
    prices matter. `frames` (depth + 1,) is scratch.
    """

    nodes: Any
    roots: Any
    costs: Any
    frames: Any


@borrowing
def copy_cells(source, target):
    """Copies the cells of all features."""
    for f in range(source.shape[0]):
        target[f].low, target[f].high = source[f].low, source[f].high


@borrowing
def least_price(region, cells, low, high):
    """The least price of the cells [low, high] of the feature with the RANGE `cells`; infinite if none can be had."""
    if low > high:
        return INFINITE
    if not cells.growing:
        least = INFINITE
        for c in range(low, high + 1):
            least = min(least, region.price[cells.start + c])
        return least
    if low > cells.near_high:
        # Away from N(x) prices only grow, but cells that no move ends in may lie in between.
        for c in range(low, high + 1):
            if region.price[cells.start + c] < INFINITE:
                return region.price[cells.start + c]
        return INFINITE
    if high < cells.near_low:
        for c in range(high, low - 1, -1):
            if region.price[cells.start + c] < INFINITE:
                return region.price[cells.start + c]
        return INFINITE
    return 0.0


@borrowing
def price_ranges(region):
    """Notes what the region costs at least on every feature, where prices matter; a missing value costs nothing."""
    for f in range(region.ranges.shape[0]):
        cells = region.ranges[f]
        cells.paid = 0.0 if cells.own < 0 else least_price(region, cells, cells.low, cells.high)


@borrowing
def groups_can_pay(region):
    """Notes what the box under way costs each group at least; whether all can pay for that."""
    for g in range(region.groups.shape[0]):
        region.groups[g].spent = 0.0
    enough = True
    for f in range(region.ranges.shape[0] if region.groups.shape[0] > 0 else 0):
        g = region.ranges[f].group
        if g >= 0:
            region.groups[g].spent += region.ranges[f].paid
            enough &= region.groups[g].spent <= region.groups[g].budget
    return enough


@borrowing
def _cheapest_of_all(region, cells, low, high):
    """The same where prices are what they are."""
    best = low
    for c in range(low, high + 1):
        price, least = region.price[cells.start + c], region.price[cells.start + best]
        if price < least or (price == least and abs(c - cells.own) < abs(best - cells.own)):
            best = c
    return np.int32(best)


@borrowing
def cheapest_cell(region, cells, low, high):
    """A cell of [low, high] with the least price, as near to x's own cell as that allows."""
    if not cells.growing:
        return _cheapest_of_all(region, cells, low, high)
    if low > cells.near_high:
        if region.limited:
            for c in range(low, high + 1):
                if region.price[cells.start + c] < INFINITE:
                    return np.int32(c)
        return np.int32(low)
    if high < cells.near_low:
        if region.limited:
            for c in range(high, low - 1, -1):
                if region.price[cells.start + c] < INFINITE:
                    return np.int32(c)
        return np.int32(high)
    return np.int32(min(max(cells.own, low, cells.near_low), high, cells.near_high))


@borrowing
def _open_node(model, region, at):
    """The first node at or below `at` that is a leaf or that the ranges do not settle."""
    while model.nodes[at].feature != LEAF:
        node = model.nodes[at]
        cells = region.ranges[node.feature]
        if cells.own < 0:
            at = node.left if node.nan_left else node.right
        elif cells.high <= node.cut:
            at = node.left
        elif is_simple(node):
            if cells.low <= node.cut:
                break
            at = node.right
        elif same_until(model, node, cells.low) < cells.high:
            break
        else:
            at = node.left if goes_left(model, node, cells.low) else node.right
    return at


@borrowing
def _price_of_side(model, region, cells, node, left):
    """What the cells of a feature that go to one side of a test with several cuts cost at least."""
    price, low, high = INFINITE, np.int64(cells.low), np.int64(cells.high)
    while low <= high:
        last = min(same_until(model, node, low), high)
        if goes_left(model, node, low) == left:
            price = min(price, least_price(region, cells, low, last))
        low = last + 1
    return price


@borrowing
def _add_costs(model, region, part, level, n_costs):
    """Notes what the features on the path to a leaf cost, each once; returns the number of costs."""
    first = n_costs
    for j in range(level):
        f = model.nodes[part.frames[j].node].feature
        price = region.ranges[f].paid
        seen = price == 0
        for c in range(first, n_costs):
            seen |= part.costs[c].feature == f
        if not seen:
            part.costs[n_costs].feature, part.costs[n_costs].price = f, price
            n_costs += 1
    return n_costs


@borrowing
def _close_test(part, frame, cells, n, holds):
    """Both sides of a test are done: keeps it, or takes it out if it turned out to be settled; returns (n, holds)."""
    cells.low, cells.high, cells.paid = frame.low, frame.high, frame.price
    left_holds = frame.stage == LEFT_HOLDS
    if left_holds != holds:
        for i in range(frame.here + 1, n):
            part.nodes[i].left -= 1
            part.nodes[i].right -= 1
            part.nodes[i - 1] = part.nodes[i]
        n -= 1
    elif not holds:
        n = np.int64(frame.here)
    return n, left_holds or holds


@borrowing
def _restrict_tree(model, region, part, root, n, n_costs, paid):
    """Adds what the region leaves open of one tree to the n nodes of the part; returns (nodes, costs) after that.

    `paid` is what the whole region costs at least.
    """
    level = 0
    at = _open_node(model, region, root)
    descend, holds = True, False
    while descend or level > 0:
        if descend:
            node, new = model.nodes[at], part.nodes[n]
            new.feature, new.cost = node.feature, n_costs
            n += 1
            if node.feature == LEAF:
                new.row = node.leaf
                if region.limited:
                    n_costs = _add_costs(model, region, part, level, n_costs)
                descend, holds = False, True
                continue
            cells, frame = region.ranges[node.feature], part.frames[level]
            new.cut, new.node, new.left = node.cut, ONE_CUT if is_simple(node) else at, n
            frame.node, frame.here, frame.stage = at, n - 1, ON_THE_LEFT
            frame.low, frame.high, frame.price, frame.path_price = cells.low, cells.high, cells.paid, paid
            level += 1
            if is_simple(node):
                cells.high = node.cut
            else:
                cells.low, cells.high = span_of_side(model, node, np.int64(cells.low), np.int64(cells.high), True)
        else:
            frame = part.frames[level - 1]
            node = model.nodes[frame.node]
            cells = region.ranges[node.feature]
            if frame.stage != ON_THE_LEFT:
                n, holds = _close_test(part, frame, cells, n, holds)
                level -= 1
                continue
            frame.stage = LEFT_HOLDS if holds else LEFT_IS_EMPTY
            part.nodes[frame.here].right = n
            if is_simple(node):
                cells.low, cells.high = node.cut + 1, frame.high
            else:
                cells.low, cells.high = span_of_side(model, node, np.int64(frame.low), np.int64(frame.high), False)
        descend, holds = True, False
        if region.limited:
            if is_simple(node):
                cells.paid = least_price(region, cells, cells.low, cells.high)
            else:
                cells.paid = _price_of_side(model, region, cells, node, frame.stage == ON_THE_LEFT)
            # Where a side is no range, tests before may have said more than its ends do.
            cells.paid = max(cells.paid, frame.price)
            paid = frame.path_price - frame.price + cells.paid
            descend = paid <= region.budget[0]
        if descend:
            at = _open_node(model, region, node.left if frame.stage == ON_THE_LEFT else node.right)
    return n, n_costs


@borrowing
def restrict(watch, model, region, part):
    """Fills `part` with what the region leaves open of each tree, unless it is told to stop.

    Each tree is walked with one frame per open test. On the way the ranges of the region are narrowed, and when a tree
    is done they are what they were.
    """
    paid = 0.0
    if region.limited:
        price_ranges(region)
        for f in range(region.ranges.shape[0]):
            paid += region.ranges[f].paid
    n, n_costs = np.int64(0), np.int64(0)
    for t in range(model.roots.shape[0]):
        if is_over(watch):
            return
        part.roots[t] = n
        n, n_costs = _restrict_tree(model, region, part, model.roots[t], n, n_costs, paid)
    part.roots[model.roots.shape[0]] = n
    part.nodes[n].cost = n_costs
