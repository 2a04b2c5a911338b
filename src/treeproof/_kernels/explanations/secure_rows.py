"""Steepest ascent to a row all of whose neighbours have a wanted label, as far as sums of leaves can tell."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.explanations.wrong_boxes import best_lead, keep, worst
from treeproof._kernels.jit import borrowing, door


class Places(NamedTuple):
    """What each column may become: the numbers `start` (n_features + 1,) of its places, the first is where it is.

    `low` and `high` are the cells of the neighbours of each place, `price` what it costs; `at` (n_features,) is where
    the row is now.
    """

    start: Any
    low: Any
    high: Any
    price: Any
    at: Any


@borrowing
def _measure(model, walls, others, label, f):
    """By how much the best of the other classes can be ahead of the label among neighbours (f < 0: all are new)."""
    for k in range(others.shape[0]):
        walls.sums[k] = model.offset[others[k]] - model.offset[label] if f < 0 else walls.total[k]
        for t in range(model.n_scored):
            if f < 0 or walls.uses[f, t]:
                walls.trial[k, t] = best_lead(model, walls, t, others[k], label)
                walls.sums[k] += walls.trial[k, t] - (0 if f < 0 else walls.best[k, t])
    return worst(walls)


@borrowing
def _put(walls, places, f, place):
    """Moves a column to a place."""
    walls.low[f], walls.high[f] = places.low[place], places.high[place]


@borrowing
def _climb(model, walls, places, others, label, now):
    """The best move by gain per price: the column and the place; -1 if none gains."""
    best, column, to = 0.0, np.int64(-1), np.int64(-1)
    for f in range(places.at.shape[0]):
        here = places.at[f]
        for place in range(places.start[f], places.start[f + 1]):
            if place == here:
                continue
            _put(walls, places, f, place)
            after = _measure(model, walls, others, label, np.int64(f))
            gain = float(now - min(after, -model.slack - 1))
            more = max(places.price[place] - places.price[here], 0.0)
            if after < now and gain / (more + 1e-12) > best:
                best, column, to = gain / (more + 1e-12), np.int64(f), np.int64(place)
        _put(walls, places, f, here)
    return column, to


@door
def secure(model, walls, places, others, label, max_steps):
    """Moves a row to where no other class wins among its neighbours; whether that could be done.

    Each step takes the place of a column that gains most for its price. In the end columns go back where they need not
    be so far.
    """
    now = _measure(model, walls, others, label, np.int64(-1))
    keep(walls, np.int64(-1))
    steps = 0
    while now >= -model.slack:
        column, place = _climb(model, walls, places, others, label, now)
        steps += 1
        if column < 0 or steps > max_steps:
            return False
        _put(walls, places, column, place)
        now = _measure(model, walls, others, label, column)
        keep(walls, column)
        places.at[column] = place
    for f in range(places.at.shape[0]):
        here = places.at[f]
        best = here
        for place in range(places.start[f], places.start[f + 1]):
            if places.price[place] < places.price[best]:
                _put(walls, places, f, place)
                if _measure(model, walls, others, label, np.int64(f)) < -model.slack:
                    best = np.int64(place)
        _put(walls, places, f, best)
        _measure(model, walls, others, label, np.int64(f))
        keep(walls, np.int64(f))
        places.at[f] = best
    return True
