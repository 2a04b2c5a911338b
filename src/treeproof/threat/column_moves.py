"""What an attacker may do to one column of a model, where that is more than an interval and a cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import LARGEST, FloatArray
from treeproof.threat.category_chains import ByCategoryRules
from treeproof.threat.distance_ways import ByDistance, BySteps, Fee
from treeproof.threat.rule_chains import BoundRule, RuleChains
from treeproof.threat.starts import ClassStarts, GridStarts, Starts, nearest_one
from treeproof.threat.step_grid import StepGrid
from treeproof.threat.ways import ByMatrix, ByRules, ToEnds, Way


@dataclass(frozen=True)
class ColumnMoves(FieldsOnly):
    """Every way to change one column, and its price.

    In a column with a `step`, values, the ends of `interval` and `unit` stand for the decimals that they print as.
    """

    domain: tuple[float, float]
    """What values stay inside of, as rows hold them."""
    interval: tuple[float, float] | None = None
    """Moves by a distance; None: there are none. Any distance, where only `ends` or `costs` say what moves do."""
    step: Fraction | None = None
    ends: tuple[float, ...] | None = None
    """The only doubles that moves, and filled-in values, may be, in rising order; None: any number."""
    costs: Mapping[tuple[float, float], int | Fraction] | None = None
    """The cost of each move that is possible, by what it starts and ends at; None: every move costs `cost`."""
    cost: int = 1
    rules: tuple[BoundRule, ...] = ()
    blank: int | None = None
    """The cost of making a present value missing; None: that is not possible."""
    fill: int | None = None
    """The cost of making a missing value a present one; None: that is not possible."""
    power: int | None = None
    """Where it is given, a move costs (distance / unit) ** power, and may be of any distance."""
    unit: float = 1.0
    budget: int | None = None
    """What chains of rules may cost at most; None: anything."""
    alike: tuple[tuple[float, ...], ...] = ()
    """Sets of values, in rising order, that neighbours may have for each other; nothing else is near to a category."""

    @property
    def kind(self) -> str:
        """What makes the column more than an interval and a cost, in a word."""
        if self.rules:
            return "rules"
        if self.step is not None:
            return "steps"
        if self.costs is not None:
            return "a cost matrix"
        return "values to blank or fill" if self.blank is not None or self.fill is not None else "a list of values"

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """What it costs to change `start` to `end` (NaN: missing) in a row whose own value is x; None: impossible.

        >>> hours = ColumnMoves(domain=(0.0, 99.0), interval=(-5.0, 5.0), step=Fraction(1), cost=2)
        >>> hours.price(40.0, 40.0, 43.0), hours.price(40.0, 40.0, 42.5)
        (Fraction(2, 1), None)
        """
        if start == end or (math.isnan(start) and math.isnan(end)):
            return Fraction(0)
        if math.isnan(end):
            return _fraction(self.blank if self._is_point(x, start) else None)
        if not self.domain[0] <= end <= self.domain[1]:
            return None
        if math.isnan(start):
            fits = self._is_point(x, end) if self.ends is None else end in self.ends
            return _fraction(self.fill if fits else None)
        return self._way.price(x, start, end) if self._is_point(x, start) else None

    def table(
        self,
        X: FloatArray,
        low: FloatArray,
        high: FloatArray,
        lowest: FloatArray,
        highest: FloatArray,
        blank_cell: bool,
    ) -> FloatArray:
        """The least price to bring rows into cells [lowest, highest] (n_rows, n_cells), and to missing, if asked for.

        X (n_rows,) are the rows' own values, `low` and `high` the ends of their neighbours, inside the domain; NaN is
        missing. Cells that hold a neighbour cost 0. Prices are whole numbers, or rounded down; inf: there is no way.
        """
        missing = np.isnan(low)
        starts = self._starts(X, low, high).take(~missing)
        prices = np.full((len(X), len(lowest) + blank_cell), np.inf)
        cells = prices[:, : len(lowest)]
        cells[~missing] = self._way.table(starts, *self._inside(lowest, highest))
        if self.fill is not None:
            cells[missing] = np.where(np.isnan(self._filled(lowest, highest)), np.inf, float(self.fill))
        if blank_cell:
            prices[missing, -1] = 0.0
            if self.blank is not None:
                prices[~missing, -1] = np.where(starts.some, float(self.blank), np.inf)
        return prices

    def exact_prices(
        self, x: float, box: tuple[float, float], lowest: FloatArray, highest: FloatArray
    ) -> list[Fraction | None]:
        """The row of `table` for one row, with missing as the last entry, as exact numbers; None: there is no way."""
        row = np.array([x]), np.array([box[0]]), np.array([box[1]])
        prices = self.table(*row, lowest, highest, True)[0].tolist()
        exact = [None if math.isinf(price) else Fraction(price) for price in prices]
        if not math.isnan(box[0]):
            exact[:-1] = self._way.exact(self._starts(*row), *self._inside(lowest, highest))
        return exact

    def move(
        self, X: FloatArray, low: FloatArray, high: FloatArray, first: FloatArray, last: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """A cheapest move of each row into its cell [first, last] (NaN: missing): where it starts, and where it ends.

        It starts at the neighbour nearest to X that such a move may start at. Each row must have one.
        """
        missing, to_missing = np.isnan(low), np.isnan(first)
        z, w = np.full(len(X), np.nan), np.full(len(X), np.nan)
        filled = missing & ~to_missing
        if filled.any():
            w[filled] = self._filled(first[filled], last[filled])
        starts = self._starts(X, low, high)
        blanked = np.flatnonzero(~missing & to_missing)
        if len(blanked):
            z[blanked] = starts.take(blanked).nearest(low[blanked], high[blanked])
        rows = np.flatnonzero(~missing & ~to_missing)
        first, last = self._inside(first[rows], last[rows])
        z[rows] = w[rows] = starts.take(rows).nearest(first, last)
        moved = np.isnan(z[rows])
        rows = rows[moved]
        z[rows], w[rows] = self._way.move(starts.take(rows), first[moved], last[moved])
        return z, w

    def reached(self, x: float, start: float) -> tuple[FloatArray, FloatArray]:
        """Where chains of rules from `start` end, in a row whose own value is x: ranges whose values cost the same."""
        return self._way.reached(x, start)

    @property
    def has_points(self) -> bool:
        """Whether neighbours are single points: those of a grid, or the values of a class."""
        return self.step is not None or bool(self.alike)

    def neighbours(self, X: FloatArray, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """The first and the last neighbour of rows with these values, inside the domain, in a column with points.

        Points of a grid are at most `epsilon` away, as decimals; those of a class are neighbours unless it is 0. NaN
        stays NaN.
        """
        if self._grid is not None:
            number = None if math.isinf(epsilon) else math.floor(decimal_of(epsilon) / self._grid.step)
            return self.points_around(X, number)
        if epsilon == 0:
            return X, X
        return self.points_between(X, np.full(len(X), -LARGEST), np.full(len(X), LARGEST))

    def points_around(self, X: FloatArray, number: int | None) -> tuple[FloatArray, FloatArray]:
        """The same for neighbours at most so many steps away; None: however far."""
        assert self._grid is not None
        low, high, present = X.copy(), X.copy(), ~np.isnan(X)
        own = X[present]
        if number == 0:
            inside = np.where((own >= self.domain[0]) & (own <= self.domain[1]), own, np.nan)
            low[present], high[present] = inside, inside
            return low, high
        if number is None:
            limits = np.full(len(own), -LARGEST), np.full(len(own), LARGEST)
        else:
            limits = self._grid.points_from(own, -number), self._grid.points_from(own, number)
        low[present], high[present] = GridStarts(own, *self._inside(*limits), self._grid).ends()
        return low, high

    def steps_to(self, x: float, point: float) -> int:
        """How many steps a point of the grid of x is away from x, in a column with a step."""
        assert self._grid is not None
        first, last = self._grid.numbers(x, point, point)
        return min(abs(first), abs(last)) if first * last > 0 else 0

    def points_between(self, X: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The first and the last point of each row in [low, high], in a column with points; NaN stays NaN.

        Where there is none, the first is above the last.
        """
        first, last, present = X.copy(), X.copy(), ~np.isnan(X)
        ends = self._starts(X[present], *self._inside(low[present], high[present])).ends()
        none = np.isnan(ends[0])
        first[present], last[present] = np.where(none, 1.0, ends[0]), np.where(none, 0.0, ends[1])
        return first, last

    def values_between(self, x: float, low: float, high: float) -> list[float]:
        """The values of the class of x from `low` to `high`."""
        own = next((values for values in self.alike if x in values), (x,))
        return [value for value in own if low <= value <= high]

    def _is_point(self, x: float, value: float) -> bool:
        """Whether a row may hold this value at all: with a step, only points of its grid."""
        if self._grid is None or x == value:
            return True
        first, last = self._grid.numbers(x, value, value)
        return first <= last

    def _starts(self, X: FloatArray, low: FloatArray, high: FloatArray) -> Starts:
        if self.alike:
            return ClassStarts(X, low, high, self.alike)
        return Starts(X, low, high) if self._grid is None else GridStarts(X, low, high, self._grid)

    def _inside(self, lowest: FloatArray, highest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What the domain leaves of cells."""
        return np.maximum(lowest, self.domain[0]), np.minimum(highest, self.domain[1])

    def _filled(self, first: FloatArray, last: FloatArray) -> FloatArray:
        """For each cell, what a missing value may become there: the value nearest to 0; NaN: nothing."""
        first, last = self._inside(first, last)
        if self.ends is not None:
            return nearest_one(np.array(self.ends), np.zeros(len(first)), first, last)
        return self._starts(np.zeros(len(first)), first, last).nearest(first, last)

    @cached_property
    def _grid(self) -> StepGrid | None:
        return None if self.step is None else StepGrid(self.step)

    @cached_property
    def _way(self) -> Way:
        """How present values change."""
        exactly = Fraction if self.step is None else decimal_of
        fee = Fee(self.cost, self.power, exactly(self.unit))
        if self.rules:
            if self.rules[0].to is not None:
                return ByCategoryRules(self.rules, self.domain, self.budget)
            return ByRules(RuleChains(self.rules, self.domain, self.budget, self._grid))
        if self.interval is None:
            return Way()
        if self.costs is not None:
            ends = self.ends
            return ByMatrix({pair: cost for pair, cost in self.costs.items() if ends is None or pair[1] in ends})
        if self.ends is not None:
            return ToEnds(np.array(self.ends), self.cost)
        if self._grid is None:
            return ByDistance(self.interval, fee)
        by_steps = BySteps(self._grid, self.interval, fee)
        return by_steps if by_steps.has_some else Way()


def _fraction(cost: int | None) -> Fraction | None:
    return None if cost is None else Fraction(cost)
