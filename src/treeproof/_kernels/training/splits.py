"""Splits that minimise the loss under attack: all thresholds of a column in one pass over its places.

A node holds the rows that some attack can bring there, its arrivals, and per arrival and head a claim: whether the
attacker sends the row here for good, and the scores that the leaves it reaches may have (attack invariants). A head is
one score with targets 0 and 1: the second class of two, or one head per class. docs/training.md has the mathematics.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing, door, entry, inner, merged
from treeproof._kernels.training.reach import NEVER, price_at, price_in_list
from treeproof._kernels.training.scores import Side, solve_scores

# A row in a node: its number, the price of the cheapest attack that brings it there, its weight, the head with target 1
# (-1: none has), and the head whose side is taken when rows are counted.
ARRIVAL = np.dtype([("weight", "f8"), ("spent", "i8"), ("row", "i4"), ("one", "i2"), ("own", "i2")], align=True)

# An arrival and a head: the scores from low to high that are still possible, and whether the attacker sends it here.
CLAIM = np.dtype([("low", "f8"), ("high", "f8"), ("assigned", "?")], align=True)

# Rows that were counted, and their weight.
TALLY = np.dtype([("weight", "f8"), ("n_rows", "i8")], align=True)

# The scores from low to high that a side may have.
BOUNDS = np.dtype([("low", "f8"), ("high", "f8")], align=True)

# A kind of row in a node: what a listed column costs it, and its first and last position with so much left for it.
KEPT = np.dtype([("price", "i8"), ("left", "i8"), ("first", "i8"), ("last", "i8")], align=True)


class Terms(NamedTuple):
    """What holds for every node: the loss, and what a split must look like."""

    loss: Any
    smoothing: Any  # weight that either target has in every leaf on top of its rows
    low: Any  # scores lie between
    high: Any
    max_features: Any  # features that are tried before the first gain is enough
    min_leaf: Any  # rows on either side
    min_weight: Any  # their weight
    keep_visitors: Any  # whether there are invariants
    grain: Any  # losses are rounded to multiples of it: of equals the first is taken, however sums are rounded


class Node(NamedTuple):
    """What a split is chosen from."""

    extents: Any  # (n_features,) of EXTENT, for columns of ranges
    open: Any  # which places of listed columns are left, one column after the other
    arrivals: Any  # (m,) of ARRIVAL
    claims: Any  # (m, heads) of CLAIM


class Scratch(NamedTuple):
    """Room for one feature: places up to the most that any has."""

    first: Any  # (m,): where a row is if it is as far left as an attack can bring it
    last: Any  # (m,)
    starts: Any  # (n_places, heads, 2) of TALLY: rows by their first position, head and target
    stops: Any  # the same by their last position
    left: Any  # (n_places, heads) of BOUNDS: of the rows whose first position is this one or before it
    right: Any  # (n_places, heads) of BOUNDS: of the rows whose last position is this one or behind it
    met: Any  # (n_places,): whether the span of any row begins or ends there
    position: Any  # (n_places,): where each place stands in the order that is tried
    mean: Any  # (n_places, 2): the weight of target 1, and of all rows
    weights: Any  # (n_kinds, 2): the same for each kind of row in a listed column
    kept: Any  # (n_kinds,) of KEPT
    scores: Any  # (2, heads)


@borrowing
def _list_spans(rows, node, f, start, scratch):
    """Fills the first and last positions of a listed column that attacks on rows can have in the node.

    They depend on the kind of a row and on what is left to pay for the column, and most rows of a kind have as much.
    """
    n = rows.n_places[f]
    for kind in range(rows.n_kinds[f]):
        scratch.kept[kind].left = -1
        scratch.kept[kind].price = price_in_list(rows, f, kind, node.open, start)
    for i in range(node.arrivals.shape[0]):
        values = rows.ranges[f, node.arrivals[i].row]
        kept = scratch.kept[values.near_low]
        left = rows.budget - node.arrivals[i].spent + kept.price if values.high == 1 else np.int64(0)
        if kept.left != left:
            begin = rows.listed[f] + values.near_low * n
            kept.left, kept.first, kept.last = left, n, -1
            for place in range(n):
                if node.open[start + place] and rows.prices[begin + place] <= left:
                    kept.first = min(kept.first, scratch.position[place])
                    kept.last = max(kept.last, scratch.position[place])
        scratch.first[i], scratch.last[i] = kept.first, kept.last


@borrowing
def _range_span(rows, node, f, arrival, position):
    """The same for a column of ranges: it is paid for once, and moving it elsewhere then costs nothing more."""
    values, extent, missing = rows.ranges[f, arrival.row], node.extents[f], rows.n_places[f] - 1
    if values.near_low == missing:
        return position[missing], position[missing]
    low, high = max(np.int64(values.near_low), extent.low), min(np.int64(values.near_high), extent.high)
    paid_for_others = arrival.spent
    if low > high:
        low, high = missing, np.int64(-1)
        paid_for_others -= rows.cost[f]
    if paid_for_others + rows.cost[f] <= rows.budget:
        reached_low, reached_high = max(np.int64(values.low), extent.low), min(np.int64(values.high), extent.high)
        if reached_low <= reached_high:
            low, high = min(low, reached_low), max(high, reached_high)
    return position[low], position[high]


@borrowing
def _fill_spans(rows, node, f, start, scratch):
    """Fills the first and last positions of column f; `start` is where the open places of a listed one begin."""
    if rows.listed[f] >= 0:
        _list_spans(rows, node, f, start, scratch)
        return
    for i in range(node.arrivals.shape[0]):
        scratch.first[i], scratch.last[i] = _range_span(rows, node, f, node.arrivals[i], scratch.position)


@borrowing
def _clear(tallies, bounds, n, terms):
    """Nothing at any position."""
    for place in range(n):
        for h in range(tallies.shape[1]):
            bounds[place, h].low, bounds[place, h].high = terms.low, terms.high
            for target in range(2):
                tallies[place, h, target].weight, tallies[place, h, target].n_rows = 0.0, 0


@borrowing
def _count(node, terms, n, scratch):
    """Counts arrivals by their first and last positions, and draws in the bounds of both sides."""
    _clear(scratch.starts, scratch.left, n, terms)
    _clear(scratch.stops, scratch.right, n, terms)
    for place in range(n):
        scratch.met[place] = False
    for i in range(node.arrivals.shape[0]):
        arrival, first, last = node.arrivals[i], scratch.first[i], scratch.last[i]
        scratch.met[first] = scratch.met[last] = True
        for h in range(node.claims.shape[1]):
            claim, target = node.claims[i, h], np.int64(arrival.one == h)
            if claim.assigned:
                at_first, at_last = scratch.starts[first, h, target], scratch.stops[last, h, target]
                at_first.weight += arrival.weight
                at_last.weight += arrival.weight
                at_first.n_rows += arrival.own == h
                at_last.n_rows += arrival.own == h
            if terms.keep_visitors:
                left, right = scratch.left[first, h], scratch.right[last, h]
                left.low, left.high = max(left.low, claim.low), min(left.high, claim.high)
                right.low, right.high = max(right.low, claim.low), min(right.high, claim.high)
    if terms.keep_visitors:
        for h in range(node.claims.shape[1]):
            for place in range(1, n):
                here, before = scratch.left[place, h], scratch.left[place - 1, h]
                here.low, here.high = max(here.low, before.low), min(here.high, before.high)
            for place in range(n - 2, -1, -1):
                here, behind = scratch.right[place, h], scratch.right[place + 1, h]
                here.low, here.high = max(here.low, behind.low), min(here.high, behind.high)


@borrowing
def _count_at_once(rows, node, f, terms, n, scratch):
    """The same for a column of ranges where nobody visits and there is one head: one pass over the arrivals."""
    _clear(scratch.starts, scratch.left, n, terms)
    _clear(scratch.stops, scratch.right, n, terms)
    for i in range(node.arrivals.shape[0]):
        arrival = node.arrivals[i]
        first, last = _range_span(rows, node, f, arrival, scratch.position)
        target = np.int64(arrival.one == 0)
        at_first, at_last = scratch.starts[first, 0, target], scratch.stops[last, 0, target]
        at_first.weight += arrival.weight
        at_last.weight += arrival.weight
        at_first.n_rows += 1
        at_last.n_rows += 1
    for place in range(n):
        some = scratch.starts[place, 0, 0].n_rows + scratch.starts[place, 0, 1].n_rows
        some += scratch.stops[place, 0, 0].n_rows + scratch.stops[place, 0, 1].n_rows
        scratch.met[place] = some > 0


@borrowing
def _best_scores(terms, total, reached, sure, scratch, cut):
    """The loss of a split, the rows assigned to its left side and their weight; `scratch.scores` gets the scores.

    Tallies (heads, 2) by target: of all rows, of those that can go left, and of those that surely do.
    """
    loss, n_left, in_left, more = 0.0, 0, 0.0, terms.smoothing
    for h in range(total.shape[0]):
        left, right = scratch.left[cut, h], scratch.right[cut + 1, h]
        right1 = max(total[h, 1].weight - reached[h, 1].weight, 0.0)
        right0 = max(total[h, 0].weight - reached[h, 0].weight, 0.0)
        a, b, part = solve_scores(
            terms.loss,
            Side(sure[h, 1].weight + more, sure[h, 0].weight + more, left.low, left.high),
            Side(right1 + more, right0 + more, right.low, right.high),
            max(reached[h, 1].weight - sure[h, 1].weight, 0.0),
            max(reached[h, 0].weight - sure[h, 0].weight, 0.0),
        )
        scratch.scores[0, h], scratch.scores[1, h] = a, b
        # What smoothing adds to a leaf with a score of 0 is not counted.
        loss += part - 4.0 * more
        # Of the attacker's choice, one target joins the left side: see `partition`.
        joins = 1 if a <= b else 0
        n_left += sure[h, 1 - joins].n_rows + reached[h, joins].n_rows
        in_left += sure[h, 1 - joins].weight + reached[h, joins].weight
    return loss, n_left, in_left / total.shape[0]


@borrowing
def _add(tallies, more):
    """Adds tallies (heads, 2) of one position."""
    for h in range(tallies.shape[0]):
        for target in range(2):
            tallies[h, target].weight += more[h, target].weight
            tallies[h, target].n_rows += more[h, target].n_rows


@merged
def _nothing(n_heads):
    """Tallies (heads, 2) of no rows."""
    tallies = np.empty((n_heads, 2), TALLY)
    for h in range(n_heads):
        for target in range(2):
            tallies[h, target].weight, tallies[h, target].n_rows = 0.0, 0
    return tallies


@inner
def _scan(node, terms, n, begin, to_beat, best_scores, scratch):
    """The best cut of the positions of one feature: (loss, from, to), where all cuts from..to split alike.

    Left is what stands at or before a cut. A row is surely left where its last position is, surely right where its
    first is not, else the attacker's choice; so all sums of a cut are prefixes. `best_scores` (2, heads) gets the
    scores. Returns the loss `to_beat` where no cut is better.
    """
    n_heads = node.claims.shape[1]
    total, reached, sure = _nothing(n_heads), _nothing(n_heads), _nothing(n_heads)
    n_all, in_all = 0, 0.0
    for place in range(n):
        _add(total, scratch.starts[place])
    for h in range(n_heads):
        n_all += total[h, 0].n_rows + total[h, 1].n_rows
        in_all += (total[h, 0].weight + total[h, 1].weight) / n_heads
    first_cut, last_cut, follows = -1, -1, False
    for cut in range(n - 1):
        if scratch.met[cut]:
            _add(reached, scratch.starts[cut])
            _add(sure, scratch.stops[cut])
        if cut < begin:
            continue
        if not scratch.met[cut] and cut > begin:
            # Nothing starts or ends here, so this cut splits like the one before it.
            if follows:
                last_cut = cut
            continue
        follows = False
        loss, n_left, in_left = _best_scores(terms, total, reached, sure, scratch, cut)
        loss = math.floor(loss / terms.grain + 0.5) * terms.grain
        enough = min(n_left, n_all - n_left) >= terms.min_leaf and min(in_left, in_all - in_left) >= terms.min_weight
        if loss < to_beat and enough:
            to_beat, first_cut, last_cut, follows = loss, cut, cut, True
            for h in range(n_heads):
                best_scores[0, h], best_scores[1, h] = scratch.scores[0, h], scratch.scores[1, h]
    return to_beat, first_cut, last_cut


@borrowing
def _order_by_target(rows, node, f, start, head, position, mean, weights):
    """Puts the places of a category into the order of the mean target of one head among those that are there."""
    n, total, ones = rows.n_places[f], 0.0, 0.0
    for kind in range(rows.n_kinds[f]):
        weights[kind, 0] = weights[kind, 1] = 0.0
    for i in range(node.arrivals.shape[0]):
        if node.claims[i, head].assigned:
            arrival = node.arrivals[i]
            kind = rows.ranges[f, arrival.row].near_low
            weights[kind, 0] += arrival.weight if arrival.one == head else 0.0
            weights[kind, 1] += arrival.weight
    for place in range(n):
        mean[place, 0] = mean[place, 1] = 0.0
    for kind in range(rows.n_kinds[f]):
        begin = rows.listed[f] + kind * n
        for place in range(n):
            if rows.prices[begin + place] == 0 and node.open[start + place]:
                mean[place, 0] += weights[kind, 0]
                mean[place, 1] += weights[kind, 1]
        ones += weights[kind, 0]
        total += weights[kind, 1]
    for place in range(n):
        # Places that nobody has are like all rows together.
        mean[place, 0] = mean[place, 0] / mean[place, 1] if mean[place, 1] > 0.0 else ones / max(total, 1e-300)
    for place in range(n):
        rank = 0
        for other in range(n):
            lower = mean[other, 0] < mean[place, 0] or (mean[other, 0] == mean[place, 0] and other < place)
            rank += 1 if lower else 0
        position[place] = rank


@entry
def best_split(features, rows, masks, ordered, node, terms, to_beat, best_scores, best_position, scratch):
    """The feature and the cuts (from, to) of least loss under attack that is below `to_beat`; feature -1 if none is.

    Features are tried in the order of `features`, at least `max_features` of them and on until one gains. `masks`
    (n_features,) is where open places of listed columns begin; `ordered` says which features have places in rising
    order. `best_scores` (2, heads) gets the scores of the two sides, `best_position` where each place stands.
    """
    found, from_cut, to_cut = -1, -1, -1
    n_heads = node.claims.shape[1]
    for tried in range(len(features)):
        if tried >= terms.max_features and found >= 0:
            break
        f = features[tried]
        n = rows.n_places[f]
        # Missing values go right, and then left; a category is tried in the order of each head.
        n_orders = n_heads if not ordered[f] else 2 if rows.may_miss[f] else 1
        for order in range(n_orders):
            begin = 0
            if not ordered[f]:
                _order_by_target(rows, node, f, masks[f], order, scratch.position, scratch.mean, scratch.weights)
            else:
                begin = order
                for place in range(n - 1):
                    scratch.position[place] = place + order
                scratch.position[n - 1] = 0 if order == 1 else n - 1
            if n_heads == 1 and rows.listed[f] < 0 and not terms.keep_visitors:
                _count_at_once(rows, node, f, terms, n, scratch)
            else:
                _fill_spans(rows, node, f, masks[f], scratch)
                _count(node, terms, n, scratch)
            loss, first_cut, last_cut = _scan(node, terms, n, begin, to_beat, best_scores, scratch)
            if first_cut >= 0:
                to_beat, found, from_cut, to_cut = loss, f, first_cut, last_cut
                for place in range(n):
                    best_position[place] = scratch.position[place]
    return found, from_cut, to_cut, to_beat


@door
def partition(rows, f, node, extent, other, prices, scores, side, terms, new_arrivals, new_claims):
    """Fills the arrivals and claims of one child (`side` 0 left, 1 right) of a split with these `scores` (2, heads).

    The child is what `extent` leaves of feature f, the other child what `other` does; of a listed column, `prices` are
    those of all kinds of rows in the node, then in the child, then in the other one.
    Where the attacker can choose, a row is assigned to the side of larger loss. The loss at the other side's score then
    parts the two: on the side it joined its loss stays at least that, on the other at most that, so whatever grows
    below, the choice stays the attacker's best. A row that is assigned elsewhere visits: its bounds matter, its loss is
    counted there. Without `keep_visitors` neither bounds nor visitors are kept. Returns how many there are.
    """
    arrivals, claims, n_kinds, n = node.arrivals, node.claims, rows.n_kinds[f], 0
    for i in range(arrivals.shape[0]):
        row = arrivals[i].row
        others = arrivals[i].spent - price_at(rows, f, row, node.extents[f], prices, 0)
        here_price = price_at(rows, f, row, extent, prices, n_kinds)
        if here_price == NEVER or others + here_price > rows.budget:
            continue
        there_price = price_at(rows, f, row, other, prices, 2 * n_kinds)
        both = there_price != NEVER and others + there_price <= rows.budget
        out = new_arrivals[n]
        out.row, out.spent, out.weight = row, others + here_price, arrivals[i].weight
        out.one, out.own = arrivals[i].one, arrivals[i].own
        any_assigned = False
        for h in range(claims.shape[1]):
            claim = new_claims[n, h]
            claim.low, claim.high = claims[i, h].low, claims[i, h].high
            here = claims[i, h].assigned
            if here and both:
                is_one = arrivals[i].one == h
                # Target 1 loses more at the lower score, target 0 at the higher one.
                joined = np.int64(is_one != (scores[0, h] <= scores[1, h]))
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
    return n
