"""Boxes of rows that all miss the wanted labels: around a row that does, as large as sums of leaves can tell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing, door
from treeproof._kernels.model import LEAF, PENALTY, goes_left, lead_of_leaf, same_until


class Walls(NamedTuple):
    """A box of cells from `low` to `high` (n_features,), and what its trees give at best.

    `best` (n_wanted, n_trees) is by how much each tree puts a wanted class ahead of the label at most, where 1 for a
    tree of conditions says that some rows of the box are not valid; `total` (n_wanted,) are their sums. `trial` and
    `sums` are the same for a box that is tried; `uses` (n_features, n_trees) says which trees test what; `stack` is
    scratch.
    """

    low: Any
    high: Any
    best: Any
    total: Any
    trial: Any
    sums: Any
    uses: Any
    stack: Any


def uses_of(model, n_features):
    """Per feature and tree whether the tree tests the feature."""
    uses = np.zeros((n_features, len(model.roots)), dtype=np.bool_)
    tested = np.flatnonzero(model.nodes["feature"] >= 0)
    uses[model.nodes["feature"][tested], np.searchsorted(model.roots, tested, side="right") - 1] = True
    return uses


def walls_for(model, uses, cells, n_wanted):
    """The box of one row's cells; made in Python."""
    best, total = np.zeros((n_wanted, len(model.roots)), dtype=np.int64), np.zeros(n_wanted, dtype=np.int64)
    low, stack = cells.astype(np.int64), np.empty(model.depth + 2, dtype=np.int32)
    return Walls(low, low.copy(), best, total, best.copy(), total.copy(), uses, stack)


@borrowing
def best_lead(model, walls, t, other, label):
    """By how much a tree puts a class ahead of the label at most, in the box; of one of conditions, 1 if it forbids."""
    scores = t < model.n_scored
    best = -PENALTY - PENALTY if scores else np.int64(0)
    walls.stack[0] = model.roots[t]
    n = 1
    while n > 0:
        n -= 1
        node = model.nodes[walls.stack[n]]
        while node.feature != LEAF:
            low, high = walls.low[node.feature], walls.high[node.feature]
            left = goes_left(model, node, low)
            if low >= 0 and same_until(model, node, low) < high:
                walls.stack[n] = node.right if left else node.left
                n += 1
            node = model.nodes[node.left if left else node.right]
        if scores:
            best = max(best, lead_of_leaf(model, node.leaf, other, label))
        elif node.leaf == model.forbidden:
            best = np.int64(1)
    return best


@borrowing
def _try(model, walls, wanted, label, f):
    """Whether all rows of the box miss the wanted classes, after feature f changed (-1: all are new); fills `trial`."""
    for k in range(wanted.shape[0]):
        walls.sums[k] = model.offset[wanted[k]] - model.offset[label] if f < 0 else walls.total[k]
        for t in range(model.roots.shape[0]):
            if f >= 0 and not walls.uses[f, t]:
                continue
            walls.trial[k, t] = best_lead(model, walls, t, wanted[k], label)
            if t >= model.n_scored:
                if walls.trial[k, t] > 0:
                    return False
            else:
                walls.sums[k] += walls.trial[k, t] - (0 if f < 0 else walls.best[k, t])
        if walls.sums[k] >= -model.slack:
            return False
    return True


@borrowing
def keep(walls, f):
    """Takes what was tried last as the box."""
    for k in range(walls.total.shape[0]):
        walls.total[k] = walls.sums[k]
        for t in range(walls.best.shape[1]):
            if f < 0 or walls.uses[f, t]:
                walls.best[k, t] = walls.trial[k, t]


@borrowing
def _stretch(model, walls, wanted, label, f, end, upward):
    """Moves one wall as far toward `end` as sums of leaves allow."""
    near = walls.high[f] if upward else walls.low[f]
    far, ahead = end, end
    while near != far:
        if upward:
            walls.high[f] = ahead
        else:
            walls.low[f] = ahead
        if _try(model, walls, wanted, label, f):
            keep(walls, f)
            near = ahead
        else:
            far = ahead - 1 if upward else ahead + 1
        # Rounded away from where it is known to hold.
        ahead = (near + far + 1) // 2 if upward else (near + far) // 2
    if upward:
        walls.high[f] = near
    else:
        walls.low[f] = near


@borrowing
def worst(walls):
    """The largest of the sums that were tried."""
    worst = walls.sums[0]
    for k in range(1, walls.sums.shape[0]):
        worst = max(worst, walls.sums[k])
    return worst


@borrowing
def _worsen(model, walls, wanted, label, near_low, near_high):
    """Moves the row, one cell after another, to where the wanted classes are farthest behind; how often it moved."""
    moved = 0
    for f in range(walls.low.shape[0]):
        best, cell, own = np.int64(0), walls.low[f], walls.low[f]
        for k in range(walls.total.shape[0]):
            best = walls.total[k] if k == 0 else max(best, walls.total[k])
        for c in range(near_low[f], near_high[f] + 1):
            walls.low[f] = walls.high[f] = c
            if c != own and _try(model, walls, wanted, label, f) and worst(walls) < best:
                best, cell = worst(walls), np.int64(c)
        walls.low[f] = walls.high[f] = cell
        if cell != own:
            moved += 1
            _try(model, walls, wanted, label, f)
            keep(walls, f)
    return moved


@door
def widen(model, walls, wanted, label, near_low, near_high, first, last, order):
    """Widens the box of a row with a label to one of which all valid rows miss the `wanted` classes; whether it could.

    The row itself is first moved within the cells from `near_low` to `near_high`. Then walls go as far as the first of
    `first` and `last` (n_goals, n_features), those of the features that come first in `order` before others; then as
    far as the next. Missing values (cells below 0) stay so.
    """
    if not _try(model, walls, wanted, label, np.int64(-1)):
        return False
    keep(walls, np.int64(-1))
    for _ in range(3):
        if _worsen(model, walls, wanted, label, near_low, near_high) == 0:
            break
    for goal in range(first.shape[0]):
        for f in order:
            low, high = walls.low[f], walls.high[f]
            begin, end = min(low, first[goal, f]), max(high, last[goal, f])
            if low < 0 or (begin == low and end == high):
                continue
            walls.low[f], walls.high[f] = begin, end
            if _try(model, walls, wanted, label, f):
                keep(walls, f)
                continue
            walls.low[f], walls.high[f] = low, high
            _stretch(model, walls, wanted, label, f, end, True)
            _stretch(model, walls, wanted, label, f, begin, False)
    return True
