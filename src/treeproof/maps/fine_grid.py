"""The fine grid of a model and an attacker: cells whose doubles all have the same reach in the model's own cells.

A *coarse* cell is one of the model's (`ensemble.grid`). A fine cell lies in one coarse cell, and a move of its feature
leads from each of its doubles into the same coarse cells. Its ends are therefore thresholds, or the last double from
which a threshold cannot (or can still) be passed; these are found exactly, not by rounding `e - δ`.

The symbolic analysis has a grid of its own (`symbolic/shifted_grid.py`): it also cuts where moves end, and its cell 0
is a missing value. A map speaks of numbers only, so its cells are numbers from 0 on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import FloatArray, add_down, add_up, next_down, next_up
from treeproof.numbers.moves import some_move
from treeproof.threat.threat import Threat

IntArray = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class FineGrid:
    """Per feature sorted doubles that cut the space into fine cells `(lower, upper]`, and what each cell reaches.

    Cells of all features stand in one row, those of feature f from `start[f]` on; `own`, `reach_low` and `reach_high`
    are coarse cells, with `reach_low > reach_high` where no move is possible. Where `sure` is false an interval without
    0 is so narrow that some doubles of the cell reach [reach_low, reach_high] and others nothing.
    """

    bounds: Grid
    start: npt.NDArray[np.int64]
    own: IntArray
    reach_low: IntArray
    reach_high: IntArray
    sure: npt.NDArray[np.bool_]
    away: npt.NDArray[np.bool_]
    """Features that can be moved, but not by a little: their interval excludes 0."""
    gaps: npt.NDArray[np.bool_]
    """Features whose moves end in some of the cells from `reach_low` to `reach_high` only: those of certain values."""
    low: FloatArray
    high: FloatArray
    """The lowest and highest double of the space that is mapped."""

    @classmethod
    def of(cls, ensemble: Ensemble, threat: Threat, low: FloatArray, high: FloatArray) -> FineGrid:
        """The fine grid of the rows from `low` to `high`, which lie inside the attacker's domain."""
        if threat.power is not None:
            raise InvalidInput(
                "a stability map is made for an attacker with intervals, costs and a budget, not for an Lp ball",
                argument="attacker",
                way_out="for an Lp attacker use treeproof.verify",
            )
        movable = (threat.cost <= threat.budget) & ((threat.low != 0) | (threat.high != 0))
        features = [
            _FineFeature.of(ensemble, threat, f, bool(movable[f]), float(low[f]), float(high[f]))
            for f in range(ensemble.n_features)
        ]
        begin = np.cumsum([0, *(len(one.bounds) for one in features)], dtype=np.int64)
        bounds, own, first, last, sure = (np.concatenate(parts) for parts in zip(*features, strict=True))
        start = begin + np.arange(len(begin))  # there is one cell more than there are bounds
        away, gaps = movable & threat.away, _gaps(ensemble, threat)
        return cls(Grid(bounds, begin), start, own, first, last, sure, away, gaps, low, high)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return self.bounds.n_features

    @property
    def n_cells(self) -> npt.NDArray[np.int64]:
        """Per feature the number of fine cells."""
        return self.bounds.n_cells


class _FineFeature(NamedTuple):
    """One feature's part of a FineGrid."""

    bounds: FloatArray
    own: IntArray
    reach_low: IntArray
    reach_high: IntArray
    sure: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, ensemble: Ensemble, threat: Threat, f: int, movable: bool, low: float, high: float) -> _FineFeature:
        cuts = ensemble.grid.cuts_of(f)
        interval = (float(threat.low[f]), float(threat.high[f]))
        domain = (float(threat.end_low[f]), float(threat.end_high[f]))
        ends = [cuts, *_turns(cuts, interval, domain)] if movable else [cuts]
        bounds = np.unique(np.concatenate(ends) + 0.0)  # -0.0 and 0.0 are one number
        bounds = bounds[(bounds >= low) & (bounds < high)]
        first = np.concatenate(([low], next_up(bounds)))
        last = np.concatenate((bounds, [high]))
        own = ensemble.grid.cells_of(f, last)
        if not movable:
            return cls(bounds, own, own, own, np.ones(len(own), dtype=bool))
        below = np.maximum(add_up(last, interval[0]), domain[0])
        above = np.minimum(add_down(last, interval[1]), domain[1])
        reach_low, reach_high = ensemble.grid.cells_of(f, below), ensemble.grid.cells_of(f, above)
        sure = np.ones(len(own), dtype=bool)
        if not interval[0] <= 0 <= interval[1]:
            for k in range(len(own)):
                if reach_low[k] == own[k] == reach_high[k]:
                    continue  # whether there is a move or not, it leads nowhere new
                state = _reach_state((float(first[k]), float(last[k])), interval, domain)
                sure[k] = state is not None
                if state is False:
                    reach_low[k], reach_high[k] = 1, 0
        return cls(bounds, own, reach_low, reach_high, sure)


def _gaps(ensemble: Ensemble, threat: Threat) -> npt.NDArray[np.bool_]:
    """Per feature whether moves cannot end in some cell between others that they can end in."""
    gaps = np.zeros(ensemble.n_features, dtype=bool)
    for f, ends in threat.ends:
        gaps[f] = (np.diff(ensemble.grid.cells_of(f, ends)) > 1).any()
    return gaps


def _turns(cuts: FloatArray, interval: tuple[float, float], domain: tuple[float, float]) -> list[FloatArray]:
    """The last doubles before the coarse cell of the lowest, or of the highest, reachable double changes.

    The highest double within reach of z passes e iff `next_up(e) <= z + high`, the lowest one iff `e < z + low`.
    """
    cuts = cuts[(cuts >= domain[0]) & (cuts < domain[1])]
    turns = []
    if np.isfinite(interval[1]):
        turns.append(next_down(add_up(next_up(cuts), -interval[1])))
    if np.isfinite(interval[0]):
        turns.append(add_down(cuts, -interval[0]))
    if interval[0] > 0:  # no move from where even the least one leaves the domain
        turns.append(np.atleast_1d(add_down(domain[1], -interval[0])))
    if interval[1] < 0:
        turns.append(np.atleast_1d(next_down(add_up(domain[0], -interval[1]))))
    return turns


def _reach_state(cell: tuple[float, float], interval: tuple[float, float], domain: tuple[float, float]) -> bool | None:
    """Whether every double of the cell can be moved (True), none can (False), or some can and some may not (None)."""
    # Where no move stays inside the domain, that holds for all of the cell: its ends were chosen so.
    lowest, highest = float(add_up(cell[0], interval[0])), float(add_down(cell[1], interval[1]))
    if lowest > domain[1] or highest < domain[0]:
        return False
    # A real interval that is as wide as the step between doubles holds one; where the domain cuts it off, the domain's
    # end is within it.
    widest = math.ulp(max(abs(max(lowest, domain[0])), abs(min(highest, domain[1]))))
    if float(add_down(interval[1], -interval[0])) >= widest:
        return True
    if some_move(cell, domain, interval) is None:
        return False
    return True if cell[0] == cell[1] else None
