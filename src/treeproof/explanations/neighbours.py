"""The neighbours of changed rows: one that misses the wanted labels, and boxes of rows around it that all do.

Everything here is on the columns of a search: the user's own, with each one-hot group as one category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import LARGEST, FloatArray, add_down, add_up
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.relations import ColumnLiteral
from treeproof.threat.step_grid import StepGrid
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local
from treeproof.verification.row_question import FREE, outside
from treeproof.verification.space import Clause, Space
from treeproof.verification.valid_rows import Columns

EXACT_DIGITS = 15
"""A decimal of so many digits is what the double nearest to it prints as."""
FARTHER = (1.05, 1.3, 2.0)
"""What may be paid, as multiples of a price, for rows that boxes should rule out first."""


@dataclass(frozen=True, eq=False)
class WrongBox:
    """Rows from `low` to `high` (NaN: missing), of which the valid ones in the domain all miss the wanted labels."""

    low: FloatArray
    high: FloatArray


class Neighbours:
    """The valid rows within ε of rows, on the columns of a search: are there any without a wanted label?"""

    def __init__(self, ensemble: Ensemble, threat: Threat, sizes: FloatArray, x: FloatArray) -> None:
        self._own, self._sizes = threat, sizes
        self.columns = Columns.of(ensemble, threat, x[None])
        self.idle = self.columns.threat.idle(ensemble.n_classes)
        self.space = Space(self.columns.ensemble, self.columns.clauses, forbids=bool(self.columns.clauses))

    @cached_property
    def sizes(self) -> FloatArray:
        """ε for each column of the search; inf where values may stand for each other."""
        grouped = self.columns.grouped
        return self._sizes if grouped is None else self._sizes[[features[0] for features in grouped.columns]]

    def of(self, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The first and the last neighbour of a row of the search's columns, per column."""
        own = self.columns.own(row[None])
        low, high = self.columns.boxes(own, *self._own.neighbourhood(own, self._sizes))
        return low[0], high[0]

    def wrong_neighbour(self, row: FloatArray, limits: Limits) -> tuple[Outcome, FloatArray]:
        """Whether all valid neighbours of a row have wanted labels, and else one that has not; in own columns."""
        rows = self.columns.rows(row[None])
        outcome, z = self.wrong(rows[0], limits)
        return outcome, self.columns.own(z[None])[0]

    def wrong(self, row: FloatArray, limits: Limits) -> tuple[Outcome, FloatArray]:
        """The same for rows of the search's columns."""
        low, high = self.of(row)
        if int(self.columns.ensemble.predict_index(row[None])[0]) not in self.columns.threat.goal:
            return Outcome.REFUTED, row
        found = Local(self.columns.ensemble, self.idle, limits, self.space).one_label(row[None], low[None], high[None])
        return Outcome(int(found.outcome[0])), found.neighbour[0]

    @cached_property
    def uses(self) -> npt.NDArray[np.bool_]:
        """Per column and tree whether the tree tests the column."""
        from treeproof._kernels.explanations.wrong_boxes import uses_of

        uses: npt.NDArray[np.bool_] = uses_of(self.space.compiled[0], self.columns.ensemble.n_features)
        return uses

    @cached_property
    def _order(self) -> npt.NDArray[np.int64]:
        """The columns that few trees test come first: they are likely not to matter at all."""
        return np.argsort(self.uses.sum(axis=1), kind="stable").astype(np.int64)

    def box(self, x: FloatArray, row: FloatArray, z: FloatArray, price: float) -> WrongBox:
        """A box of rows that all miss the wanted labels, with a neighbour of `row` in it; `z` is such a neighbour.

        It is made so wide first that x cannot leave those who have neighbours in it for little more than a price.
        """
        from treeproof._kernels.explanations.wrong_boxes import walls_for, widen

        model, space, threat = self.space.compiled[0], self.space, self.columns.threat
        label = int(self.columns.ensemble.predict_index(z[None])[0])
        near = space.cells(np.stack((*self.of(row), z))).astype(np.int64)
        still = [f for f, moves in threat.columns if moves.has_points]
        near[0][still] = near[1][still] = near[2][still]
        goals = [
            *(self._within_reach(x, z, price * factor) for factor in FARTHER),
            (threat.domain_low, threat.domain_high),
        ]
        first, last = (space.cells(np.stack(ends)).astype(np.int64) for ends in zip(*goals, strict=True))
        wanted = np.array(threat.goal, dtype=np.int64)
        walls = walls_for(model, self.uses, near[2], len(wanted))
        widen(model, walls, wanted, np.int64(label), near[0], near[1], first, last, self._order)
        start, (lowest, highest) = space.start[:-1], space.cell_ends
        missing = walls.low < 0
        low = np.where(missing, np.nan, lowest[start + np.maximum(walls.low, 0)])
        high = np.where(missing, np.nan, highest[start + np.maximum(walls.high, 0)])
        return WrongBox(low, high)

    def _within_reach(self, x: FloatArray, z: FloatArray, price: float) -> tuple[FloatArray, FloatArray]:
        """What a box must reach to, so that whatever x becomes for at most a price has a neighbour in it; z is in it.

        Where that is not easy to say, it is all of the domain.
        """
        threat = self.columns.threat
        # What is too far for a double is beyond the domain, or not known and then all of it.
        with np.errstate(over="ignore", invalid="ignore"):
            if threat.power is None:
                low, high = threat.reach(x[None], x[None])
                far, moves = (low[0], high[0]), threat.movable & (threat.cost <= price)
            else:
                below, above = (np.where(way, price * threat.unit, 0) for way in (threat.low < 0, threat.high > 0))
                far, moves = (x - below, x + above), threat.movable
            first, last = far[0] + self.sizes, far[1] - self.sizes
        free = [f for f, _ in threat.columns if moves[f]]
        first[free], last[free] = threat.domain_low[free], threat.domain_high[free]
        gone = ~moves | np.isnan(x) | np.isnan(first) | np.isnan(last)
        first, last = np.where(gone, z, np.fmin(first, z)), np.where(gone, z, np.fmax(last, z))
        return np.maximum(first, threat.domain_low), np.minimum(last, threat.domain_high)

    def condition(self, x: FloatArray, w: FloatArray, box: WrongBox) -> Clause | None:
        """What a row that x can become meets unless it has a neighbour in the box; None if w has none there."""
        if not self._has_points(w, box):
            return None
        literals = []
        for f in range(len(x)):
            literal = self._literal(f, float(x[f]), float(w[f]), float(box.low[f]), float(box.high[f]))
            if literal is not None:
                literals.append(literal)
        if any(one.contains(w[[one.feature]])[0] for one in literals):
            return None
        # What cannot be moved has a neighbour there, whatever the row becomes.
        threat = self.columns.threat
        return tuple(one for one in literals if threat.movable[one.feature] or one.feature in threat.blanks)

    def _has_points(self, w: FloatArray, box: WrongBox) -> bool:
        """Whether the box has a neighbour of w in columns with steps: that of another row may lie between points."""
        near = self.of(w)
        for f, moves in self.columns.threat.columns:
            if moves.step is not None and not math.isnan(w[f]):
                ends = np.fmax(near[0][[f]], box.low[[f]]), np.fmin(near[1][[f]], box.high[[f]])
                first, last = moves.points_between(w[[f]], *ends)
                if first[0] > last[0]:
                    return False
        return True

    def _literal(self, f: int, x: float, w: float, low: float, high: float) -> ColumnLiteral | None:
        """Which values of a column have no neighbour from `low` to `high`; None: all that it can be have one."""
        threat = self.columns.threat
        may_be_missing = f in threat.blanks or math.isnan(x)
        if math.isnan(low):
            return outside(f, math.nan, math.nan) if f in threat.blanks or not math.isnan(x) else None
        first, last = float(threat.domain_low[f]), float(threat.domain_high[f])
        if low <= first and high >= last and dict(threat.columns).get(f, _PLAIN).step is None:
            return outside(f, *FREE) if may_be_missing else None
        moves = dict(threat.columns).get(f)
        if moves is not None and moves.step is not None:
            return outside(f, *_on_grid(moves, x, w, max(low, first), min(high, last), float(self.sizes[f])))
        if moves is not None and moves.alike:
            literal = outside(f, low, high)
            for values in moves.alike:
                if any(max(low, first) <= value <= min(high, last) for value in values) and self.sizes[f] > 0:
                    for value in values:
                        literal = literal.intersected(outside(f, value, value))
            return literal
        size = 0.0 if f in dict(self.columns.ensemble.categories) else float(self.sizes[f])
        # Neighbours stay in the domain: beyond its ends there is nothing that ε could add.
        begin = -math.inf if low <= first else float(add_up(low, -size))
        end = math.inf if high >= last else float(add_down(high, size))
        return outside(f, max(begin, -LARGEST), min(end, LARGEST))


_PLAIN = ColumnMoves((-LARGEST, LARGEST))
"""A column of which nothing is known."""


def _on_grid(moves: ColumnMoves, x: float, w: float, low: float, high: float, size: float) -> tuple[float, float]:
    """A range around w, all points of x's grid in which have a neighbour from `low` to `high`."""
    assert moves.step is not None
    grid = StepGrid(moves.step)
    first, last = grid.numbers(x, low, high)
    own = grid.numbers(x, w, w)
    # Listed values need not be on the grid, and what prints with too many digits has another one.
    if first > last or own[0] != own[1] or moves.ends is not None or moves.costs is not None:
        return w, w
    origin = Fraction(0) if math.isnan(x) else decimal_of(x)
    unit = math.lcm(origin.denominator, moves.step.denominator)
    most = Fraction(10**EXACT_DIGITS, unit * 10)
    if not -most <= decimal_of(w) <= most:
        return w, w
    if math.isinf(size):
        return float(-most), float(most)
    number = math.floor(decimal_of(size) / moves.step)
    ends = origin + (first - number) * moves.step, origin + (last + number) * moves.step
    return float(max(ends[0], -most)), float(min(ends[1], most))
