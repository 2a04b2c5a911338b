"""A region of cells, what it costs to be there, and the part of an ensemble that the region leaves open."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import inner

INFINITE = np.inf
LEAF = -1


class Model(NamedTuple):
    """An ensemble on cells: left iff `cell <= cut`, a NaN (cell -1) iff `nan_left`. Arrays over nodes or leaves.

    `value` (n_leaves, n_classes) are leaf scores in whole units and `offset` (n_classes,) what is added to them;
    of two classes whose sums differ by more than `slack` the one with the larger sum wins, and within it the exact
    scores must be asked. Leaves with the same exact scores have the same `kind`; `depth` is that of the deepest tree.
    """

    feature: Any
    cut: Any
    left: Any
    right: Any
    nan_left: Any
    leaf: Any
    roots: Any
    value: Any
    offset: Any
    slack: Any
    kind: Any
    depth: Any


class Region(NamedTuple):
    """Per feature the cells [low, high] in question, those of N(x) [near_low, near_high] and the cell of x itself.

    `price[price_start[f] + c]` is what cell c of feature f costs at least. Where `limited` is false no price matters;
    where `flat` is true a feature costs the same wherever it goes.
    """

    low: Any
    high: Any
    near_low: Any
    near_high: Any
    own: Any
    price: Any
    price_start: Any
    budget: Any
    limited: Any
    flat: Any


class Part(NamedTuple):
    """The reachable, affordable part of the ensemble: nodes in preorder, tree after tree.

    Inner nodes test `feature` at `cut`; leaves have feature -1 and `row` into the leaf values. `cost_start[i]` to
    `cost_start[i + 1]` are the (feature, price) pairs of a leaf that costs something; only filled where prices matter.
    """

    feature: Any
    cut: Any
    left: Any
    right: Any
    row: Any
    roots: Any
    cost_start: Any
    cost_feature: Any
    cost_price: Any


@inner
def least_price(price, start, near_low, near_high, low, high):
    """The least price of the cells [low, high] of the feature at price[start]; infinite if none can be had."""
    if low > high:
        return INFINITE
    if low > near_high:
        # Away from N(x) prices only grow, but cells that no move ends in may lie in between.
        for c in range(low, high + 1):
            if price[start + c] < INFINITE:
                return price[start + c]
        return INFINITE
    if high < near_low:
        for c in range(high, low - 1, -1):
            if price[start + c] < INFINITE:
                return price[start + c]
        return INFINITE
    return 0.0


@inner
def least_of_region(region, f):
    """What the region costs at least on feature f, where prices matter; a missing value costs nothing."""
    if region.own[f] < 0:
        return 0.0
    return least_price(
        region.price, region.price_start[f], region.near_low[f], region.near_high[f], region.low[f], region.high[f]
    )


@inner
def cheapest_cell(price, start, near_low, near_high, own, low, high, limited):
    """A cell of [low, high] with the least price, as near to x's own cell as that allows."""
    if low > near_high:
        if limited:
            for c in range(low, high + 1):
                if price[start + c] < INFINITE:
                    return np.int32(c)
        return np.int32(low)
    if high < near_low:
        if limited:
            for c in range(high, low - 1, -1):
                if price[start + c] < INFINITE:
                    return np.int32(c)
        return np.int32(high)
    return np.int32(min(max(own, low, near_low), high, near_high))


@inner
def _open_node(feature, cut, left, right, nan_left, own, low, high, node):
    """The first node at or below `node` that is a leaf or that the box [low, high] does not settle."""
    while feature[node] != LEAF:
        f = feature[node]
        if own[f] < 0:
            node = left[node] if nan_left[node] else right[node]
        elif high[f] <= cut[node]:
            node = left[node]
        elif low[f] > cut[node]:
            node = right[node]
        else:
            break
    return node


@inner
def _move_up(feature, cut, left, right, row, cost_start, start, stop):
    """Moves the nodes [start, stop) of a part one place up: the test before them turned out to be settled."""
    for i in range(start, stop):
        feature[i - 1] = feature[i]
        cut[i - 1] = cut[i]
        left[i - 1] = left[i] - 1
        right[i - 1] = right[i] - 1
        row[i - 1] = row[i]
        cost_start[i - 1] = cost_start[i]


@inner
def restrict(model, region, part, depth):
    """Fills `part` with what the region leaves open of each tree; returns the number of its nodes.

    Walks each tree with one frame per open test. A frame's stage says what is known: 0 left side under way, 1 right
    side under way after a left side that holds something, 2 right side under way after one that cannot be paid for.
    """
    feature, cut, left, right, nan_left = model.feature, model.cut, model.left, model.right, model.nan_left
    leaf, roots = model.leaf, model.roots
    own, near_low, near_high = region.own, region.near_low, region.near_high
    prices, price_start, budget, limited = region.price, region.price_start, region.budget, region.limited
    p_feature, p_cut, p_left, p_right, p_row = part.feature, part.cut, part.left, part.right, part.row
    cost_start, cost_feature, cost_price = part.cost_start, part.cost_feature, part.cost_price
    low, high = region.low.copy(), region.high.copy()
    price = np.zeros(low.shape[0])
    frame_node, frame_here = np.empty(depth, np.int32), np.empty(depth, np.int32)
    old_low, old_high = np.empty(depth, np.int32), np.empty(depth, np.int32)
    old_price, paid = np.empty(depth), np.zeros(depth + 1)
    stage = np.empty(depth, np.int8)
    if limited:
        for f in range(low.shape[0]):
            price[f] = least_of_region(region, f)
            paid[0] += price[f]
    n, n_costs = np.int64(0), np.int64(0)
    for t in range(roots.shape[0]):
        part.roots[t] = n
        level = 0
        node = _open_node(feature, cut, left, right, nan_left, own, low, high, roots[t])
        descend = True
        holds = False
        while descend or level > 0:
            if descend and feature[node] == LEAF:
                p_feature[n] = LEAF
                p_row[n] = leaf[node]
                cost_start[n] = n_costs
                first = n_costs
                for j in range(level if limited else 0):
                    f = feature[frame_node[j]]
                    seen = price[f] == 0
                    for c in range(first, n_costs):
                        seen |= cost_feature[c] == f
                    if not seen:
                        cost_feature[n_costs] = f
                        cost_price[n_costs] = price[f]
                        n_costs += 1
                n += 1
                holds = True
                descend = False
                continue
            if descend:
                f = feature[node]
                frame_node[level], frame_here[level], stage[level] = node, n, 0
                old_low[level], old_high[level], old_price[level] = low[f], high[f], price[f]
                p_feature[n], p_cut[n], p_left[n] = f, cut[node], n + 1
                cost_start[n] = n_costs
                n += 1
                level += 1
                go_right = False
            else:
                f = feature[frame_node[level - 1]]
                if stage[level - 1] > 0:
                    # Both sides are done: leave the test, or take it out if it turned out to be settled.
                    low[f], high[f], price[f] = old_low[level - 1], old_high[level - 1], old_price[level - 1]
                    here = frame_here[level - 1]
                    left_holds = stage[level - 1] == 1
                    if left_holds != holds:
                        _move_up(p_feature, p_cut, p_left, p_right, p_row, cost_start, here + 1, n)
                        n -= 1
                    elif not holds:
                        n = here
                    holds = left_holds or holds
                    level -= 1
                    continue
                stage[level - 1] = 1 if holds else 2
                p_right[frame_here[level - 1]] = n
                go_right = True
            at = level - 1
            node = frame_node[at]
            low[f] = cut[node] + 1 if go_right else old_low[at]
            high[f] = old_high[at] if go_right else cut[node]
            paid[level] = paid[at]
            descend = True
            if limited:
                price[f] = least_price(prices, price_start[f], near_low[f], near_high[f], low[f], high[f])
                paid[level] = paid[at] - old_price[at] + price[f]
                descend = paid[level] <= budget
            holds = False
            if descend:
                below = right[node] if go_right else left[node]
                node = _open_node(feature, cut, left, right, nan_left, own, low, high, below)
    part.roots[roots.shape[0]] = n
    cost_start[n] = n_costs
    return n
