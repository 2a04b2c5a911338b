"""Leaf scores of a trained ensemble, changed so that rows lose less when each is attacked in the worst way.

The lead of a row over a class, under attacks that pay for a set of columns, is at least the sum over trees of the least
lead among the leaves that such attacks reach. Scores of one tree after the other are moved so that these sums rise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from treeproof._kernels.jit import borrowing, door
from treeproof._kernels.model import LEAF
from treeproof._kernels.search.asked import fill_region
from treeproof._kernels.search.region import restrict

# Scores of a leaf may be anything, or must be at least 0: and add up to a total, or be no larger than that, each.
ANY_SCORE, SHARES, CAPPED = 0, 1, 2


class Listed(NamedTuple):
    """The leaves that rows can be brought to: of row i in tree t from start[i, t] to start[i, t + 1]."""

    start: Any  # (n, n_trees + 1)
    leaves: Any
    paid: Any  # with each of these the columns that an attack that leads there pays for, as bits


class Rivals(NamedTuple):
    """Room for the leaves of one row in one tree: the leads there, and the columns that are paid for, as bits."""

    lead: Any
    paid: Any


class Attacked(NamedTuple):
    """Rows that are attacked: their classes, and those that attacks may lead to."""

    label: Any  # (n,)
    wanted: Any  # (n, n_classes)
    sets: Any  # of columns that attacks pay for, as bits
    scale: Any  # what leads are multiplied by


class Scores(NamedTuple):
    """Leaf scores, and what they may be."""

    values: Any  # (n_leaves, n_classes)
    free: Any  # the same: which of them may change
    kind: Any  # ANY_SCORE, SHARES or CAPPED
    total: Any  # (n_leaves,): what shares add up to, and the largest score that is capped


@borrowing
def _columns_paid(part, bits, at):
    """The columns that the path to a leaf of the part pays for, as bits."""
    paid = bits[0] & 0
    for c in range(part.nodes[at].cost, part.nodes[at + 1].cost):
        paid |= bits[part.costs[c].feature]
    return paid


@door
def list_leaves(watch, model, asked, never, room, bits, first, listed):
    """Fills `listed` for the rows from `first` on, as long as there is room; returns the row that is next.

    `never` (n,) are infinite prices, `bits` (n_features,) those of columns in sets.
    """
    region, part = room.region, room.part
    n = listed.start[first, 0]
    for row in range(first, listed.start.shape[0]):
        fill_region(asked, never, row, region)
        restrict(watch, model, region, part)
        listed.start[row, 0] = n
        for t in range(model.roots.shape[0]):
            for at in range(part.roots[t], part.roots[t + 1]):
                if part.nodes[at].feature == LEAF:
                    if n == listed.leaves.shape[0]:
                        return row
                    listed.leaves[n] = part.nodes[at].row
                    listed.paid[n] = _columns_paid(part, bits, at) if region.limited else 0
                    n += 1
            listed.start[row, t + 1] = n
        if row + 1 < listed.start.shape[0]:
            listed.start[row + 1, 0] = n
    return listed.start.shape[0]


@borrowing
def _worst_leaf(listed, values, i, t, own, other, paid):
    """The leaf of tree t where row i, of class `own`, leads another class least, if these columns are paid for."""
    best, least = -1, math.inf
    for k in range(listed.start[i, t], listed.start[i, t + 1]):
        if listed.paid[k] & ~paid == 0:
            leaf = listed.leaves[k]
            lead = values[leaf, own] - values[leaf, other]
            if best < 0 or lead < least:
                best, least = leaf, lead
    return best


@borrowing
def _rivals(listed, values, i, t, own, other, room):
    """Fills the room with the leads at leaves that cost something, if they are less than at all that cost nothing.

    Returns the least lead at leaves that cost nothing, and how many there are in the room.
    """
    free, n = math.inf, 0
    for k in range(listed.start[i, t], listed.start[i, t + 1]):
        if listed.paid[k] == 0:
            free = min(free, values[listed.leaves[k], own] - values[listed.leaves[k], other])
    for k in range(listed.start[i, t], listed.start[i, t + 1]):
        lead = values[listed.leaves[k], own] - values[listed.leaves[k], other]
        if lead < free:
            room.lead[n], room.paid[n] = lead, listed.paid[k]
            n += 1
    return free, n


@borrowing
def _add_worst(listed, values, rows, t, sign, leads, room):
    """Adds what tree t gives at worst to the leads of all rows, or takes it away."""
    for i in range(rows.label.shape[0]):
        own = rows.label[i]
        for other in range(leads.shape[1]):
            if other == own or not rows.wanted[i, other]:
                continue
            free, n = _rivals(listed, values, i, t, own, other, room)
            for s in range(rows.sets.shape[0]):
                least = free
                for k in range(n):
                    if room.lead[k] < least and room.paid[k] & ~rows.sets[s] == 0:
                        least = room.lead[k]
                leads[i, other, s] += sign * least


@door
def add_all_worst(listed, values, rows, leads, room):
    """Adds what all trees give at worst to `leads` (n, n_classes, n_sets)."""
    for t in range(listed.start.shape[1] - 1):
        _add_worst(listed, values, rows, t, 1.0, leads, room)


@borrowing
def _pull(listed, values, rows, t, leads, slope, bend):
    """Adds up for each leaf of tree t how the loss of rows falls with its scores, and in `bend` how that changes.

    A row loses log(1 + exp(-scale * lead)), with its least lead.
    """
    scale = rows.scale
    for i in range(rows.label.shape[0]):
        own = rows.label[i]
        least, against, paid = math.inf, -1, rows.sets[0]
        for other in range(leads.shape[1]):
            if other == own or not rows.wanted[i, other]:
                continue
            for s in range(rows.sets.shape[0]):
                if leads[i, other, s] < least:
                    least, against, paid = leads[i, other, s], other, rows.sets[s]
        if against < 0:
            continue
        lost = 1.0 / (1.0 + math.exp(min(scale * least, 500.0)))
        leaf = _worst_leaf(listed, values, i, t, own, against, paid)
        slope[leaf, own] += scale * lost
        slope[leaf, against] -= scale * lost
        bend[leaf] += scale * scale * lost * (1.0 - lost)


@borrowing
def _to_shares(values, leaf, total):
    """Makes scores of a leaf be at least 0 and add up to `total`: the same is taken off all that stay above 0."""
    n, again, first = values.shape[1], True, 0
    for c in range(n):
        if values[leaf, c] > values[leaf, first]:
            first = c
    values[leaf, first] = max(values[leaf, first], total / n)
    while again:
        added, positive = 0.0, 0
        for c in range(n):
            if values[leaf, c] > 0.0:
                added += values[leaf, c]
                positive += 1
        again = False
        for c in range(n):
            if values[leaf, c] > 0.0:
                values[leaf, c] -= (added - total) / positive
                again |= values[leaf, c] < 0.0
            values[leaf, c] = max(values[leaf, c], 0.0)


@borrowing
def _move(scores, leaf, rate, smoothing, slope, bend):
    """Moves the scores of a leaf to where rows lose less, and keeps them what they must be."""
    values = scores.values
    step = rate / (bend[leaf] + smoothing)
    for c in range(values.shape[1]):
        if scores.free[leaf, c]:
            values[leaf, c] += step * slope[leaf, c]
            if scores.kind == CAPPED:
                values[leaf, c] = min(max(values[leaf, c], 0.0), scores.total[leaf])
        slope[leaf, c] = 0.0
    bend[leaf] = 0.0
    if scores.kind == SHARES:
        _to_shares(values, leaf, scores.total[leaf])


@door
def improve(listed, scores, rows, order, rate, smoothing, leads, slope, bend, room):
    """Moves the scores of the trees in `order`, one after the other; `leads` are kept.

    A step is `rate` times what Newton's method takes, with `smoothing` added to the curvature. `slope` (n_leaves,
    n_classes) and `bend` (n_leaves,) are scratch, 0 before and after.
    """
    for t in order:
        _pull(listed, scores.values, rows, t, leads, slope, bend)
        _add_worst(listed, scores.values, rows, t, -1.0, leads, room)
        for i in range(rows.label.shape[0]):
            for k in range(listed.start[i, t], listed.start[i, t + 1]):
                if bend[listed.leaves[k]] > 0.0:
                    _move(scores, listed.leaves[k], rate, smoothing, slope, bend)
        _add_worst(listed, scores.values, rows, t, 1.0, leads, room)
