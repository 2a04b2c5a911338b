"""Thresholds and their exact shifts by an attacker: cells from which every double reaches the same cells.

Per feature the cuts are the thresholds v, the last doubles from which an attack can end at v or below (v - low in
real numbers) or cannot end above v (v - high), and the ends of what attacks across v can reach (v + low, v + high).
Over doubles these are not the rounded sums: from 7.000000000000001 no double above 8 is within a reach of 1.

The fine grid of a stability map (`maps/fine_grid.py`) has other cells: it cuts only where the reach changes in cells of
the model, and numbers its cells from 0 on. Here both images of an attack are boxes of the same cells, so that cuts also
stand where moves end, and a missing value is cell 0, because an image may hold it beside numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof._kernels.symbolic.records import MOVE, range_type
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray, add_down, add_up, next_down, next_up
from treeproof.threat.threat import Threat

Cells = npt.NDArray[np.int32]

MISSING_CELL = 0
"""The cell of a missing value; numbers have cells from 1 on."""


def as_ranges(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(…, 2), the first and last cells of ranges, as the records (low, high) of the kernels, without a copy.

    NumPy copies records field by field, which takes many times as long: so Python passes ranges on as plain numbers.

    >>> as_ranges(np.array([[1, 3], [2, 4]]))["high"].tolist()
    [3, 4]
    """
    return cells.view(range_type(cells.dtype))[..., 0]


def as_cells(ranges: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Records (low, high) as plain numbers again, without a copy."""
    return ranges[..., None].view(ranges.dtype["low"])


@dataclass(frozen=True, eq=False)
class ShiftedGrid:
    """Per feature the doubles of the attacker's domain in cells 1, 2, …, and what is within reach of each cell.

    `start[f]` is where the entries of feature f begin in the arrays over cells: entry `start[f] + c` is cell c. A move
    out of cell c ends in the cells `reach_low` to `reach_high` (of the doubles that go farthest), and a move that ends
    in cell c can begin in the cells `back_low` to `back_high`. A range that is out of the domain is empty.
    """

    start: npt.NDArray[np.int64]
    top: FloatArray
    """The highest double of each cell."""
    shown: FloatArray
    """The same as the real number it stands for, v or v plus or minus an end of the interval, rounded."""
    moves: npt.NDArray[Any]
    """Per cell a record (reach_low, reach_high, back_low, back_high, next_end, last_end)."""
    gaps: npt.NDArray[np.bool_]
    """Per feature whether moves cannot end in some cells between others: it becomes certain values only."""
    open_ended: npt.NDArray[np.bool_]
    """Per feature (low, high): whether the grid ends there only because the model takes no number beyond."""
    bottom: FloatArray
    """Per feature the lowest double of the domain."""

    @classmethod
    def build(cls, ensemble: Ensemble, threat: Threat) -> ShiftedGrid:
        """The grid of one model and one attacker with intervals."""
        parts = [_Feature.build(ensemble, threat, f) for f in range(ensemble.n_features)]
        start = np.cumsum([0, *(len(part.top) for part in parts)], dtype=np.int64)
        top, shown, moves = (np.concatenate([part[k] for part in parts]) for k in range(3))
        gaps = np.array([part.gaps for part in parts])
        open_ended = np.column_stack(
            (threat.domain_low <= ensemble.value_low, threat.domain_high >= ensemble.value_high)
        )
        return cls(start, top, shown, moves, gaps, open_ended, threat.domain_low.copy())

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.start) - 1

    @property
    def last(self) -> Cells:
        """Per feature the number of its highest cell."""
        return (np.diff(self.start) - 1).astype(np.int32)

    def cuts_of(self, feature: int) -> FloatArray:
        """The doubles at which the cells of one feature end, but for the last."""
        return self.top[self.start[feature] + 1 : self.start[feature + 1] - 1]

    def cells(self, X: FloatArray) -> Cells:
        """X (n, n_features), inside the domain, as cells; NaN has cell 0."""
        out = np.empty(X.shape, dtype=np.int32)
        for f in range(self.n_features):
            column = X[:, f]
            cells = 1 + np.searchsorted(self.cuts_of(f), column, side="left")
            out[:, f] = np.where(np.isnan(column), MISSING_CELL, cells)
        return out

    def cell_of_threshold(self, feature: int, threshold: FloatArray) -> Cells:
        """The last cell that goes left at each threshold: 0 where no number of the domain does."""
        cuts = self.top[self.start[feature] + 1 : self.start[feature + 1]]
        return np.searchsorted(cuts, threshold, side="right").astype(np.int32)


class _Feature(NamedTuple):
    top: FloatArray
    shown: FloatArray
    moves: npt.NDArray[Any]
    gaps: bool

    @classmethod
    def build(cls, ensemble: Ensemble, threat: Threat, f: int) -> _Feature:
        low, high = float(threat.low[f]), float(threat.high[f])
        first, last = float(threat.domain_low[f]), float(threat.domain_high[f])
        cuts, shown = _cuts(ensemble.grid.cuts_of(f), low, high, first, last)
        bottom, top = np.concatenate(([first], next_up(cuts))), np.concatenate((cuts, [last]))
        lowest, highest = add_up(bottom, low), add_down(top, high)
        end_low, end_high = threat.end_low[f], threat.end_high[f]
        n = len(top)
        # Cells from 1 on; a reach that begins above where moves can end, or ends below it, is empty.
        moves = np.empty(n + 1, dtype=MOVE)
        moves[0] = MISSING_CELL  # a missing value stays one
        reach_low = np.where(lowest > end_high, n + 1, 1 + np.searchsorted(cuts, np.maximum(lowest, end_low)))
        reach_high = np.where(highest < end_low, 0, 1 + np.searchsorted(cuts, np.minimum(highest, end_high)))
        cells = np.arange(1, n + 1)
        moves["reach_low"][1:], moves["reach_high"][1:] = reach_low, reach_high
        moves["back_low"][1:] = 1 + np.searchsorted(reach_high, cells, side="left")
        moves["back_high"][1:] = np.searchsorted(reach_low, cells, side="right")
        known = dict(threat.ends).get(f)
        ends = cells if known is None else np.unique(1 + np.searchsorted(cuts, known))
        moves["next_end"][1:] = np.append(ends, n + 1)[np.searchsorted(ends, cells)]
        moves["last_end"][1:] = np.append(0, ends)[np.searchsorted(ends, cells, side="right")]
        gaps = bool((np.diff(ends) > 1).any())
        return cls(np.concatenate(([math.nan], top)), np.concatenate(([math.nan], shown, [last])), moves, gaps)


def _cuts(thresholds: FloatArray, low: float, high: float, first: float, last: float) -> tuple[FloatArray, FloatArray]:
    """The sorted cuts inside the domain [first, last], and the real numbers they stand for."""
    base = np.concatenate(([next_down(first)], thresholds, [last])).astype(np.float64)
    above = next_up(base)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = np.concatenate(
            (
                thresholds,
                add_down(base, -low),  # the last double that can end at v or below
                next_down(add_up(above, -high)),  # the last one that cannot end above v
                next_down(add_up(above, low)),  # below it nothing from above v ends
                add_down(base, high),  # above it nothing from v or below ends
            )
        )
        shown = np.concatenate((thresholds, base - low, base - high, base + low, base + high))
    inside = (exact >= first) & (exact < last)
    # Of equal cuts the first one counts, so that a threshold is shown as such.
    cuts, index = np.unique(exact[inside] + 0.0, return_index=True)
    return cuts, shown[inside][index] + 0.0
