"""The values that rows and their neighbours may have in one column, where moves start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.step_grid import FAR, BoolArray, Lines, StepGrid

S = TypeVar("S", bound="Starts")


@dataclass(frozen=True, eq=False)
class Starts:
    """All doubles from `low` to `high`, one range per row; `own` are the rows' own values."""

    own: FloatArray
    low: FloatArray
    high: FloatArray

    def take(self: S, rows: Any) -> S:
        """Those of some rows."""
        return replace(self, own=self.own[rows], low=self.low[rows], high=self.high[rows])

    @property
    def some(self) -> BoolArray:
        """Rows that have any."""
        return ~np.isnan(self.ends()[0])

    def within(self, first: FloatArray, last: FloatArray) -> BoolArray:
        """Whether each row has a start in each of some ranges: (n_rows, n_ranges)."""
        low, high = self.low[:, None], self.high[:, None]
        return np.asarray(np.maximum(low, first) <= np.minimum(high, last))

    def nearest(self, first: FloatArray, last: FloatArray) -> FloatArray:
        """The start of each row in its range that is nearest to its own value; NaN if there is none."""
        inside = replace(self, low=np.maximum(self.low, first), high=np.minimum(self.high, last))
        # The own value is one of them, if it lies between any two.
        return np.asarray(np.clip(self.own, *inside.ends()))

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest start of each row; NaN if it has none."""
        some = self.low <= self.high
        return np.where(some, self.low, np.nan), np.where(some, self.high, np.nan)


@dataclass(frozen=True, eq=False)
class ClassStarts(Starts):
    """Only those from `low` to `high` that may stand for each row's own value: the rest of its class, or itself."""

    classes: tuple[tuple[float, ...], ...]

    @cached_property
    def _of_rows(self) -> list[tuple[npt.NDArray[np.intp], FloatArray]]:
        """Rows that share their class, and its values, in rising order."""
        found = [(np.flatnonzero(np.isin(self.own, values)), np.array(values)) for values in self.classes]
        known = np.concatenate([values for _, values in found])
        rest = np.unique(self.own[~np.isin(self.own, known) & ~np.isnan(self.own)])
        return found + [(np.flatnonzero(self.own == own), np.array([own])) for own in rest]

    def within(self, first: FloatArray, last: FloatArray) -> BoolArray:
        """Whether each row has a start in each of some ranges: (n_rows, n_ranges)."""
        held = np.zeros((len(self.own), len(first)), dtype=bool)
        for rows, values in self._of_rows:
            low, high = np.maximum(self.low[rows, None], first), np.minimum(self.high[rows, None], last)
            held[rows] = np.searchsorted(values, low) < np.searchsorted(values, high, side="right")
        return held

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest start of each row; NaN if it has none."""
        low, high = np.full(len(self.own), np.nan), np.full(len(self.own), np.nan)
        for rows, values in self._of_rows:
            begin = np.searchsorted(values, self.low[rows])
            end = np.searchsorted(values, self.high[rows], side="right") - 1
            some = begin <= end
            low[rows[some]], high[rows[some]] = values[begin[some]], values[end[some]]
        return low, high


def nearest_one(values: FloatArray, near: FloatArray, first: FloatArray, last: FloatArray) -> FloatArray:
    """The one of these rising values in each cell that is nearest to where `near` is, NaN if there is none."""
    begin, end = np.searchsorted(values, first), np.searchsorted(values, last, side="right") - 1
    above = np.clip(np.searchsorted(values, near), begin, np.maximum(begin, end))
    below = np.clip(above - 1, begin, np.maximum(begin, end))
    padded = np.append(values, np.nan)
    with np.errstate(over="ignore"):
        lower = np.abs(padded[below] - near) <= np.abs(padded[above] - near)
    return np.where(begin <= end, np.where(lower, padded[below], padded[above]), np.nan)


@dataclass(frozen=True, eq=False)
class GridStarts(Starts):
    """Only the points from `low` to `high` of each row's grid."""

    grid: StepGrid

    @cached_property
    def lines(self) -> Lines:
        """The rows' grids."""
        return self.grid.lines(self.own)

    @cached_property
    def numbers(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The first and the last number of a start, inf and -inf if there is none, and whether they are sure."""
        first, last, sure = self.lines.numbers(self.lines.of_row, self.low, self.high)
        # A range that lies far away as a whole may hold a point or not.
        sure &= ~is_far(first, last)
        empty = first > last
        return np.where(empty, np.inf, first), np.where(empty, -np.inf, last), sure

    def cells(
        self, first: FloatArray, last: FloatArray, reach: float = 0.0
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The first and the last number of a point in each of some cells, inf and -inf if there is none, and doubt.

        A cell that lies far away as a whole may hold a point or not; there is no doubt if `reach` steps from the starts
        do not lead there.
        """
        begin, end, sure = self.lines.numbers_of_cells(first, last)
        far, empty = is_far(begin, end), begin > end
        begin[empty], end[empty] = np.inf, -np.inf
        row = self.lines.of_row
        doubt = ~sure[row]
        if far.any():
            span = np.maximum(np.abs(self.numbers[0]), np.abs(self.numbers[1]))
            doubt |= far[row] & (span + reach >= FAR)[:, None]
        return begin[row], end[row], doubt

    def exactly(self, first: FloatArray, last: FloatArray) -> tuple[Any, Any]:
        """The first and the last number of a point in each range, as whole numbers without limit, from `own` on."""
        numbers: Any = np.frompyfunc(self.grid.numbers, 3, 2)
        with np.errstate(over="ignore"):  # of the double after the largest
            begin, end = numbers(self.own, first, last)
        return begin, end

    def points(self, number: Any) -> FloatArray:
        """The points with such numbers."""
        return np.asarray(np.frompyfunc(self.grid.point, 2, 1)(self.own, number), dtype=np.float64)

    def ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest start of each row; NaN if it has none."""
        lines = self.lines
        first, last, sure = self.numbers
        (low, low_exact), (high, high_exact) = (lines.points(lines.of_row, number) for number in (first, last))
        none = first > last
        low[none], high[none] = np.nan, np.nan
        rows = np.flatnonzero(~sure | ~(none | low_exact & high_exact))
        if len(rows):
            few = self.take(rows)
            begin, end = few.exactly(few.low, few.high)
            some = (begin <= end).astype(bool)
            low[rows], high[rows] = (np.where(some, few.points(number), np.nan) for number in (begin, end))
        return low, high

    def within(self, first: FloatArray, last: FloatArray) -> BoolArray:
        """Whether each row has a start in each of some ranges: (n_rows, n_ranges)."""
        begin, end, doubt = self.cells(first, last)
        low, high, sure = self.numbers
        held = (begin <= end) & (begin <= high[:, None]) & (end >= low[:, None])
        row, cell = np.nonzero(doubt | ~sure[:, None])
        if len(row):
            few = self.take(row)
            begin, end = few.exactly(np.maximum(first[cell], few.low), np.minimum(last[cell], few.high))
            held[row, cell] = begin <= end
        return held


def is_far(first: FloatArray, last: FloatArray) -> BoolArray:
    """Whether a range of numbers has both ends on the same side far away, so that it may be empty or not."""
    return np.asarray(np.isinf(first) & (first == last))
