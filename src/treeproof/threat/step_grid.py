"""Grids: the doubles nearest to a row's own value plus whole numbers of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.decimals import MOST_DIGITS, decimal_of, decimals_of, nearest_double, rounding_to
from treeproof.numbers.doubles import LARGEST, FloatArray, next_down

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

FAR = 2.0**49
"""Numbers of steps beyond it are infinite, where doubles count them."""
FEW, MOST_KNOWN = 256, 16
"""The lines of so many rows are kept, and of so many sets of rows."""
WHOLE = 2.0**53
"""Whole numbers below it are doubles."""


@dataclass(frozen=True)
class StepGrid(FieldsOnly):
    """The points of a row: the doubles nearest to x + k·step, k whole, where x is the decimal that its value prints as.

    A row whose value is missing has the points k·step.
    """

    step: Fraction

    def numbers(self, x: float, low: float, high: float) -> tuple[int, int]:
        """The first and the last k whose point lies in [low, high], exactly; the first is above the last if none does.

        >>> StepGrid(Fraction(1, 10)).numbers(0.1, 0.3, 0.55)
        (2, 4)
        """
        return self.numbers_from(origin_of(x), low, high)

    def numbers_from(self, origin: Fraction, low: float, high: float) -> tuple[int, int]:
        """The same for the doubles nearest to origin + k·step."""
        if low == high and self.step > 2 * Fraction(math.ulp(low)):
            # Points this far apart are different doubles: there is no other, if one prints as this double.
            number = (decimal_of(low) - origin) / self.step
            if number.denominator == 1:
                return number.numerator, number.numerator
        low, high = max(low, -LARGEST), min(high, LARGEST)  # no point is infinite
        if low > high:
            return 1, 0
        begin, with_begin, end, with_end = rounding_to(low, high)
        first, last = (begin - origin) / self.step, (end - origin) / self.step
        return (
            math.ceil(first) + (not with_begin and first.denominator == 1),
            math.floor(last) - (not with_end and last.denominator == 1),
        )

    def point(self, x: float, k: int) -> float:
        """The k-th point of a row.

        >>> StepGrid(Fraction(1, 10)).point(0.1, 2)
        0.3
        """
        return nearest_double(origin_of(x) + k * self.step)

    def points_from(self, X: FloatArray, number: int) -> FloatArray:
        """The point with this number in each row, but no infinite one."""
        lines = self.lines(X)
        points, exact = lines.points(lines.of_row, lines.own + float(max(min(number, 2**60), -(2**60))))
        rows = np.flatnonzero(~exact)
        points[rows] = [self.point(x, number) for x in X[rows].tolist()]
        return np.clip(points, -LARGEST, LARGEST)

    @cached_property
    def decimal(self) -> tuple[int, int] | None:
        """The step as a whole number over a power of ten, and the power; None if they are large or there is no such."""
        for digits in range(MOST_DIGITS + 1):
            whole = self.step * 10**digits
            if whole.denominator == 1:
                return (whole.numerator, digits) if whole < WHOLE else None
        return None

    def lines(self, X: FloatArray) -> Lines:
        """The grids of rows with these values; NaN: missing ones."""
        if len(X) > FEW:
            return self._lines(X)
        # The same few rows are asked about again and again.
        key, known = X.tobytes(), self._known
        found = known.get(key)
        if found is None:
            found = self._lines(X)
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[key] = found
        return found

    @cached_property
    def _known(self) -> dict[bytes, Lines]:
        """Threads share it, and may clear it at any time: nobody goes through it, or looks up what he has put in."""
        return {}

    def _lines(self, X: FloatArray) -> Lines:
        values = np.where(np.isnan(X), 0.0, X)
        stride, digits = self.decimal or (1, 0)
        number, power = decimals_of(values)
        if self.decimal is None:
            number[:] = np.nan
        more = np.maximum(power, digits)
        scale = 10.0**more
        with np.errstate(over="ignore"):
            number, strides = number * 10.0 ** (more - power), stride * 10.0 ** (more - digits)
        exact = (np.abs(number) < WHOLE) & (strides < WHOLE)
        number, strides = np.where(exact, number, 0.0), np.where(exact, strides, 1.0)
        # Rows that differ by whole numbers of steps have the same points.
        rest = np.mod(number, strides)
        key = np.where(exact, more + 1j * rest, -1.0 + 1j * values)
        _, one, line = np.unique(key, return_index=True, return_inverse=True)
        return Lines(
            nearest_double(self.step),
            np.where(exact, rest / scale, values)[one],
            np.where(exact, rest, np.nan)[one],
            strides[one],
            scale[one],
            line.reshape(-1),
            (number - rest) / strides,
        )


def origin_of(x: float) -> Fraction:
    """What the steps of a row are counted from."""
    return Fraction(0) if math.isnan(x) else decimal_of(x)


@dataclass(frozen=True, eq=False)
class Lines:
    """Different grids. Point k of a line is the double nearest to `(number + k * stride) / scale`.

    `number` is NaN where these are not all whole numbers that doubles hold; `base` is always point 0.
    """

    step: float
    base: FloatArray
    number: FloatArray
    stride: FloatArray
    scale: FloatArray
    of_row: IntArray
    """The line of each row."""
    own: FloatArray
    """The number of the point that is the row's own value."""

    def points(self, line: Any, k: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Points of lines, and whether they are exact."""
        with np.errstate(over="ignore", invalid="ignore"):
            moved = k * self.stride[line]
            whole = self.number[line] + moved
            # One division of exact numbers is rounded to the nearest double, and point 0 is known anyway.
            points = np.where(k == 0, self.base[line], whole / self.scale[line])
            return points, (k == 0) | ((np.abs(moved) < WHOLE) & (np.abs(whole) < WHOLE))

    def last_at_most(self, line: Any, limit: FloatArray) -> tuple[FloatArray, BoolArray]:
        """The number of the last point of a line that is at most `limit`, and whether that is sure; far away: ±inf."""
        base = self.base[line]
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            about = (limit - base) / self.step
            # Five roundings, and the half step between doubles that a point is rounded by: each 2**-53 of this.
            error = (np.abs(limit) + np.abs(base)) * 2.0**-50 / self.step + 1e-300
            least, most = np.floor(about - error), np.floor(about + error)
            far = np.isinf(limit) | (np.abs(about) - error >= FAR)
        sure = far | (least == most)
        number = np.where(far, np.copysign(np.inf, about), most)
        close = np.nonzero(~sure & (least + 1 == most))
        lines = np.broadcast_to(line, sure.shape)[close]
        point, exact = self.points(lines, number[close])
        number[close] -= point > np.broadcast_to(limit, sure.shape)[close]
        sure[close] = exact
        return number, sure

    def numbers(self, line: Any, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The first and the last k whose points lie in [low, high], entry by entry, and whether they are sure."""
        before, sure_low = self.last_at_most(line, next_down(low))
        last, sure_high = self.last_at_most(line, high)
        return before + 1, last, sure_low & sure_high

    def numbers_of_cells(self, lowest: FloatArray, highest: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """The same for every line and each of some cells (n_lines, n_cells)."""
        # Most cells begin where another one ends.
        cuts, at = np.unique(np.concatenate((next_down(lowest), highest)), return_inverse=True)
        last, sure = self.last_at_most(np.arange(len(self.base))[:, None], cuts[None])
        before, after = at.reshape(-1)[: len(lowest)], at.reshape(-1)[len(lowest) :]
        return last[:, before] + 1, last[:, after], sure[:, before] & sure[:, after]
