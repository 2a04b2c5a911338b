"""Splits that minimise the loss under attack: all thresholds of a feature in one pass over sorted values.

A node holds the rows that some attack can bring there, its arrivals, and per arrival and head a claim: whether the
attacker sends the row here for good, and the scores that the leaves it reaches may have (attack invariants). A head is
one score with targets 0 and 1: the second class of two, or one head per class. docs/training.md has the mathematics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import entry, inner, merged

# What an attack makes of one row's value of one feature: near_low to near_high, the row's own or those of its
# neighbourhood, cost nothing; low to high cost what the feature does.
REACH = np.dtype([("near_low", "f8"), ("near_high", "f8"), ("low", "f8"), ("high", "f8")], align=True)

# One feature of a node: its values there, and what an attack pays to move it.
EXTENT = np.dtype([("low", "f8"), ("high", "f8"), ("cost", "i8")], align=True)

# A row in a node: its number, the cost of the cheapest attack that brings it there, its weight, the head with target 1
# (-1: none has), and the head whose side is taken when rows are counted.
ARRIVAL = np.dtype([("row", "i8"), ("spent", "i8"), ("weight", "f8"), ("one", "i4"), ("own", "i4")], align=True)

# An arrival and a head: the scores from low to high that are still possible, and whether the attacker sends it here.
CLAIM = np.dtype([("low", "f8"), ("high", "f8"), ("assigned", "?")], align=True)

# Rows that were counted, and their weight.
TALLY = np.dtype([("weight", "f8"), ("n_rows", "i8")], align=True)

# The scores from low to high that a side may have.
BOUNDS = np.dtype([("low", "f8"), ("high", "f8")], align=True)


class Terms(NamedTuple):
    """What holds for every node: the attacker's budget, and what a split must look like."""

    budget: Any
    max_features: Any  # features that are tried before the first gain is enough
    min_leaf: Any  # rows on either side
    keep_visitors: Any  # whether there are invariants


class Node(NamedTuple):
    """What a split is chosen from."""

    extents: Any  # (n_features,) of EXTENT
    arrivals: Any  # (m,) of ARRIVAL
    claims: Any  # (m, heads) of CLAIM


class Split(NamedTuple):
    """Left iff `value <= threshold`; feature -1 where no split gains."""

    feature: Any
    threshold: Any
    loss: Any


class Side(NamedTuple):
    """Weights of targets 1 and 0 on one side of a split, and the bounds of its score."""

    ones: Any
    zeros: Any
    low: Any
    high: Any


@inner
def clip(value, low, high):
    """The number of [low, high] closest to `value`."""
    return min(max(value, low), high)


@inner
def squares(ones, zeros, score):
    """The loss of a score on targets 1 and 0 with these weights."""
    return ones * (1.0 - score) ** 2 + zeros * score**2


@inner
def separate_scores(left, right):
    """The best score of each side on its own, within its bounds; a side without weight copies the other."""
    in_left, in_right = left.ones + left.zeros, right.ones + right.zeros
    a = clip(left.ones / in_left, left.low, left.high) if in_left > 0.0 else 0.0
    b = clip(right.ones / in_right, right.low, right.high) if in_right > 0.0 else clip(a, right.low, right.high)
    if in_left <= 0.0:
        a = clip(b, left.low, left.high)
    return a, b


@entry
def solve_scores(left, right, ones, zeros):
    """The scores (a, b) of least loss, where the attacker picks the side of the weights ones and zeros; and that loss.

    Where a <= b, the attacker sends target 1 left and target 0 right, and the loss falls apart into one quadratic per
    score. That quadratic is nowhere above the loss, so its minimum, if it has a <= b, is the minimum. Likewise for
    a >= b. If neither lies on its own side, the minimum of the convex loss lies between them, on a = b.
    """
    more_left = Side(left.ones + ones, left.zeros, left.low, left.high)
    more_right = Side(right.ones, right.zeros + zeros, right.low, right.high)
    a, b = separate_scores(more_left, more_right)
    if a <= b:
        return a, b, squares(more_left.ones, more_left.zeros, a) + squares(more_right.ones, more_right.zeros, b)
    more_left = Side(left.ones, left.zeros + zeros, left.low, left.high)
    more_right = Side(right.ones + ones, right.zeros, right.low, right.high)
    a, b = separate_scores(more_left, more_right)
    if a >= b:
        return a, b, squares(more_left.ones, more_left.zeros, a) + squares(more_right.ones, more_right.zeros, b)
    ones, zeros = left.ones + right.ones + ones, left.zeros + right.zeros + zeros
    score = clip(ones / (ones + zeros), max(left.low, right.low), min(left.high, right.high))
    return score, score, squares(ones, zeros, score)


@inner
def reach_in_node(reach, extent, budget, arrivals, first, last):
    """Fills first and last (m,): the lowest and highest value of a feature that an attack can have in the node.

    `reach` (n,) belongs to the feature, `extent` to the feature in the node. A feature is paid for once: where none of
    its free values lies in the node, it already is, and moving it elsewhere inside its reach costs nothing more.
    """
    for i in range(arrivals.shape[0]):
        values = reach[arrivals[i].row]
        low, high = max(values.near_low, extent.low), min(values.near_high, extent.high)
        paid_for_others = arrivals[i].spent
        if low > high:
            low, high = np.inf, -np.inf
            paid_for_others -= extent.cost
        if paid_for_others + extent.cost <= budget:
            reached_low, reached_high = max(values.low, extent.low), min(values.high, extent.high)
            if reached_low <= reached_high:
                low, high = min(low, reached_low), max(high, reached_high)
        first[i], last[i] = low, high


@inner
def between(low, high):
    """A double t with low <= t < high, about in the middle; low < high."""
    middle = low * 0.5 + high * 0.5
    return middle if low <= middle < high else low


@merged  # a call takes longer than its work
def count_in(arrival, claims, i, tallies):
    """Counts arrival i in `tallies` (heads, 2), by target; only its own head counts it as a row."""
    for h in range(claims.shape[1]):
        if claims[i, h].assigned:
            tally = tallies[h, np.int64(arrival.one == h)]
            tally.weight += arrival.weight
            tally.n_rows += arrival.own == h


@inner
def suffix_bounds(order, claims):
    """Bounds on a score that hold for all arrivals from each position of `order` on: (m + 1, heads)."""
    m, n_heads = claims.shape
    bounds = np.empty((m + 1, n_heads), BOUNDS)
    for h in range(n_heads):
        bounds[m, h].low, bounds[m, h].high = 0.0, 1.0
    for position in range(m - 1, -1, -1):
        for h in range(n_heads):
            claim, after = claims[order[position], h], bounds[position + 1, h]
            bounds[position, h].low = max(after.low, claim.low)
            bounds[position, h].high = min(after.high, claim.high)
    return bounds


@merged
def best_scores_of(total, reached, sure, left, right, q, scores):
    """The loss of a split and how many rows are assigned to its left side; `scores` (2, heads) gets the scores.

    Tallies (heads, 2) by target: of all rows, of those that can go left, and of those that surely do. `left` (heads,)
    are the bounds of the left side, line q of `right` those of the right one.
    """
    loss, n_left = 0.0, 0
    for h in range(total.shape[0]):
        both1 = max(reached[h, 1].weight - sure[h, 1].weight, 0.0)
        both0 = max(reached[h, 0].weight - sure[h, 0].weight, 0.0)
        right1 = max(total[h, 1].weight - reached[h, 1].weight, 0.0)
        right0 = max(total[h, 0].weight - reached[h, 0].weight, 0.0)
        a, b, part = solve_scores(
            Side(sure[h, 1].weight, sure[h, 0].weight, left[h].low, left[h].high),
            Side(right1, right0, right[q, h].low, right[q, h].high),
            both1,
            both0,
        )
        scores[0, h], scores[1, h] = a, b
        loss += part
        # Of the attacker's choice, one target joins the left side: see `partition`.
        joins = 1 if a <= b else 0
        n_left += sure[h, 1 - joins].n_rows + reached[h, joins].n_rows
    return loss, n_left


@inner
def no_rows(n_heads):
    """Tallies (heads, 2) of nothing."""
    tallies = np.empty((n_heads, 2), TALLY)
    for h in range(n_heads):
        for target in range(2):
            tallies[h, target].weight, tallies[h, target].n_rows = 0.0, 0
    return tallies


@inner
def scan_feature(first, last, node, min_leaf, to_beat, best_scores, scores):
    """The best threshold of one feature: (loss, low, high), where every t with low <= t < high splits alike.

    A row is surely left where `last <= t`, surely right where `first > t`, else the attacker's choice; so all sums and
    bounds of a threshold are prefixes and suffixes of the rows sorted by `first` and by `last`. `best_scores`
    (2, heads) gets the scores. Returns the loss `to_beat` where no threshold is better. `scores` (2, heads) is scratch.
    """
    arrivals, claims = node.arrivals, node.claims
    m, n_heads = claims.shape
    by_first, by_last = np.argsort(first), np.argsort(last)
    right = suffix_bounds(by_last, claims)
    left = np.empty(n_heads, BOUNDS)
    total, reached, sure = no_rows(n_heads), no_rows(n_heads), no_rows(n_heads)
    for i in range(m):
        count_in(arrivals[i], claims, i, total)
    n_all = 0
    for h in range(n_heads):
        left[h].low, left[h].high = 0.0, 1.0
        n_all += total[h, 0].n_rows + total[h, 1].n_rows
    found_low, found_high = 0.0, 0.0
    p, q = 0, 0
    here = min(first[by_first[0]], last[by_last[0]])
    while True:
        while p < m and first[by_first[p]] == here:
            i = by_first[p]
            count_in(arrivals[i], claims, i, reached)
            for h in range(n_heads):
                left[h].low, left[h].high = max(left[h].low, claims[i, h].low), min(left[h].high, claims[i, h].high)
            p += 1
        while q < m and last[by_last[q]] == here:
            count_in(arrivals[by_last[q]], claims, by_last[q], sure)
            q += 1
        if q == m:
            return to_beat, found_low, found_high
        after = last[by_last[q]] if p == m else min(last[by_last[q]], first[by_first[p]])
        loss, n_left = best_scores_of(total, reached, sure, left, right, q, scores)
        if loss < to_beat and n_left >= min_leaf and n_all - n_left >= min_leaf:
            to_beat, found_low, found_high = loss, here, after
            for h in range(n_heads):
                best_scores[0, h], best_scores[1, h] = scores[0, h], scores[1, h]
        here = after


@entry
def best_split(features, reach, node, terms, to_beat, best_scores):
    """The fields of the Split of least loss under attack that is below `to_beat`; feature -1 if none is.

    `reach` (n_features, n); features are tried in the order of `features`, at least `max_features` of them and on until
    one gains. `best_scores` (2, heads) gets the scores of the two sides.
    """
    m = node.arrivals.shape[0]
    first, last = np.empty(m), np.empty(m)
    scores = np.empty_like(best_scores)
    found, low, high = -1, 0.0, 0.0
    for position in range(len(features)):
        if position >= terms.max_features and found >= 0:
            break
        f = features[position]
        reach_in_node(reach[f], node.extents[f], terms.budget, node.arrivals, first, last)
        loss, from_low, to_high = scan_feature(first, last, node, terms.min_leaf, to_beat, best_scores, scores)
        if loss < to_beat:
            to_beat, found, low, high = loss, f, from_low, to_high
    return found, between(low, high) if found >= 0 else 0.0, to_beat


@inner
def arrive(arrival, values, extent, threshold, side, out):
    """Fills `out`: the arrival in a child; `values` and `extent` are those of the feature that was split."""
    # The cheapest attack that ends on this side pays for the feature unless a free value does, too.
    low, high = max(values.near_low, extent.low), min(values.near_high, extent.high)
    inside = low <= high
    stays = inside and (high > threshold if side else low <= threshold)
    out.spent = (arrival.spent if inside else arrival.spent - extent.cost) + (0 if stays else extent.cost)
    out.row, out.weight, out.one, out.own = arrival.row, arrival.weight, arrival.one, arrival.own


@entry
def partition(split, scores, side, reach, node, terms):
    """The arrivals and claims of one child (`side` 0 left, 1 right) of a split with these `scores` (2, heads).

    Where the attacker can choose, a row is assigned to the side of larger loss. The loss at the other side's score then
    parts the two: on the side it joined its loss stays at least that, on the other at most that, so whatever grows
    below, the choice stays the attacker's best. A row that is assigned elsewhere visits: its bounds matter, its loss is
    counted there. Without `keep_visitors` neither bounds nor visitors are kept.
    """
    threshold, extent = split.threshold, node.extents[split.feature]
    arrivals, claims, values = node.arrivals, node.claims, reach[split.feature]
    m, n_heads = claims.shape
    first, last = np.empty(m), np.empty(m)
    reach_in_node(values, extent, terms.budget, arrivals, first, last)
    new_arrivals, new_claims = np.empty(m, ARRIVAL), np.empty((m, n_heads), CLAIM)
    n = 0
    for i in range(m):
        goes_left, goes_right = first[i] <= threshold, last[i] > threshold
        if not (goes_right if side else goes_left):
            continue
        arrive(arrivals[i], values[arrivals[i].row], extent, threshold, side, new_arrivals[n])
        any_assigned = False
        for h in range(n_heads):
            claim = new_claims[n, h]
            claim.low, claim.high = claims[i, h].low, claims[i, h].high
            here = claims[i, h].assigned
            if here and goes_left and goes_right:
                is_one = arrivals[i].one == h
                # Target 1 loses more at the lower score, target 0 at the higher one.
                joined = int(is_one != (scores[0, h] <= scores[1, h]))
                here = joined == side
                if terms.keep_visitors:
                    parting = scores[1 - joined, h]
                    # More loss than at `parting`, on the side joined, is a lower score for target 1.
                    if is_one == here:
                        claim.high = min(claim.high, parting)
                    else:
                        claim.low = max(claim.low, parting)
            claim.assigned = here
            any_assigned |= here
        if any_assigned or terms.keep_visitors:
            n += 1
    return new_arrivals[:n].copy(), new_claims[:n].copy()
