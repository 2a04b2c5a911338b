"""Ways to change a present value by a distance: any, or a whole number of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from treeproof.numbers.decimals import decimal_of, nearest_double
from treeproof.numbers.doubles import LARGEST, FloatArray, add_down, add_up, double_at_most
from treeproof.numbers.moves import shortest_moves
from treeproof.threat.starts import GridStarts, Starts, is_far
from treeproof.threat.step_grid import FAR, BoolArray, StepGrid
from treeproof.threat.ways import Way

MAX_PRICE = 1e299
"""What is too large for a double is not out of reach, and sums of prices must not be either."""
TINY_PRICE = 2.0**-1000
"""Below it, products of doubles may be rounded by more than a share of themselves."""


@dataclass(frozen=True, eq=False)
class Fee:
    """What a distance costs: `cost`, or, with a `power`, the power of the distance in its `unit`."""

    cost: int
    power: int | None
    unit: Fraction

    def exact(self, distance: Fraction) -> Fraction:
        """The price of a distance above 0."""
        return Fraction(self.cost) if self.power is None else (distance / self.unit) ** self.power

    def rounded_down(self, distance: FloatArray) -> FloatArray:
        """Prices of distances, each of which was rounded at most twice, that are never too high."""
        assert self.power is not None
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # With the unit and the division, a factor carries at most four roundings, of at most 2**-53 of the value.
            factor = np.minimum(distance, LARGEST) / float(self.unit) * (1.0 - 2.0**-50)
            price = factor
            for _ in range(self.power - 1):
                price = price * factor * (1.0 - 2.0**-51)
        return np.where(price < TINY_PRICE, 0.0, np.minimum(price, MAX_PRICE))


@dataclass(frozen=True, eq=False)
class ByDistance(Way):
    """By a distance in `interval`, or with a power any on its side of 0, between doubles."""

    interval: tuple[float, float]
    fee: Fee

    def _is_wrong_way(self, low: Any, high: Any, first: Any, last: Any) -> Any:
        """Whether moves from [low, high] to [first, last] go down or up where that is not possible, with a power."""
        return ((last < low) & (self.interval[0] >= 0)) | ((first > high) & (self.interval[1] <= 0))

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The fee, if the distance is in the interval."""
        del x
        low, high = self.interval
        if self.fee.power is not None:
            fits = low < 0 if end < start else high > 0
        else:
            fits = float(add_up(start, low)) <= end <= float(add_down(start, high))
        return self.fee.exact(abs(Fraction(end) - Fraction(start))) if fits else None

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The fee for the least distance."""
        low, high = starts.low[:, None], starts.high[:, None]
        some = (first <= last) & (low <= high)
        if self.fee.power is not None:
            some &= ~self._is_wrong_way(low, high, first, last)
            with np.errstate(over="ignore", invalid="ignore"):
                return np.where(some, self.fee.rounded_down(np.maximum(first - high, low - last)), np.inf)
        # Where a cell holds a neighbour nothing is paid, and whether there are moves as well need not be known.
        held = (first <= high) & (low <= last)
        begin, end = np.where(held, 1.0, first), np.where(held, 0.0, last)
        fits = held | ~np.isnan(shortest_moves(low, low, high, begin, end, *self.interval)[0])
        return np.where(some & fits, float(self.fee.cost), np.inf)

    def exact(self, starts: Starts, first: FloatArray, last: FloatArray) -> list[Fraction | None]:
        """The same for a single row, exactly; None: impossible."""
        if self.fee.power is None:
            return super().exact(starts, first, last)
        low, high = float(starts.low[0]), float(starts.high[0])
        away = (
            max(Fraction(begin) - Fraction(high), Fraction(low) - Fraction(end), Fraction(0))
            if begin <= end and low <= high and not self._is_wrong_way(low, high, begin, end)
            else None
            for begin, end in zip(first.tolist(), last.tolist(), strict=True)
        )
        return [distance if not distance else self.fee.exact(distance) for distance in away]

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """To the nearest end of the cell, from as near to the row's own value as its price allows."""
        low, high = starts.low, starts.high
        if self.fee.power is not None:
            w = np.where(first > high, first, last)
            return np.clip(w, low, high), w
        return shortest_moves(np.clip(starts.own, low, high), low, high, first, last, *self.interval)


@dataclass(frozen=True, eq=False)
class BySteps(Way):
    """By whole numbers of steps in `interval`, or with a power any on its side of 0, between points of a row's grid."""

    grid: StepGrid
    interval: tuple[float, float]
    fee: Fee

    @cached_property
    def _steps(self) -> tuple[int, int]:
        """The least and the greatest number of steps."""
        most = math.ceil(Fraction(2) ** 1026 / self.grid.step)
        low, high = self.interval
        if self.fee.power is not None:
            return (-most if low < 0 else 0), (most if high > 0 else 0)
        return (
            -most if low == -math.inf else math.ceil(decimal_of(low) / self.grid.step),
            most if high == math.inf else math.floor(decimal_of(high) / self.grid.step),
        )

    @property
    def has_some(self) -> bool:
        """Whether any whole number of steps lies in the interval."""
        return self._steps[0] <= self._steps[1]

    @cached_property
    def _rounded_steps(self) -> tuple[float, float]:
        """The same as doubles, infinite where numbers of points are never that far apart."""
        low, high = ((math.inf if n > 0 else -math.inf) if abs(n) >= 4 * FAR else float(n) for n in self._steps)
        return low, high

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The fee for the least number of steps between them."""
        (low, high), (first, last) = (self.grid.numbers(x, value, value) for value in (start, end))
        if low > high or first > last:
            return None
        if first <= high and low <= last:
            return Fraction(0)
        fits = first - high <= self._steps[1] and last - low >= self._steps[0]
        return self.fee.exact(max(first - high, low - last) * self.grid.step) if fits else None

    def table(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The fee for the least number of steps, counted by doubles where that is sure."""
        assert isinstance(starts, GridStarts)
        low, high = (number[:, None] for number in starts.numbers[:2])
        least, most = self._rounded_steps
        begin, end, doubt = starts.cells(first, last, max(abs(least), abs(most)))
        some = begin <= end
        with np.errstate(invalid="ignore"):
            if self.fee.power is None:
                near = some & (begin <= high) & (end >= low)
                reached = some & (begin <= high + most) & (end >= low + least)
                prices = np.where(near, 0.0, np.where(reached, float(self.fee.cost), np.inf))
            else:
                number = np.maximum(np.maximum(begin - high, low - end), 0.0)
                away = self.fee.rounded_down(number * nearest_double(self.grid.step))
                one_way = ((least == 0) & (end < low)) | ((most == 0) & (begin > high))
                prices = np.where(~some | np.isinf(number) | one_way, np.inf, away)
        prices[starts.numbers[0] > starts.numbers[1]] = np.inf
        rows, cells = np.nonzero(doubt | ~starts.numbers[2][:, None])
        for row in np.unique(rows):
            mine = cells[rows == row]
            exact = self.exact(starts.take(slice(row, row + 1)), first[mine], last[mine])
            prices[row, mine] = [np.inf if one is None else min(double_at_most(one), MAX_PRICE) for one in exact]
        return prices

    def exact(self, starts: Starts, first: FloatArray, last: FloatArray) -> list[Fraction | None]:
        """The same for a single row, exactly; None: impossible."""
        assert isinstance(starts, GridStarts)
        numbers = _least_number(
            *starts.exactly(starts.low, starts.high), *starts.exactly(first, last), self._steps
        ).tolist()
        return [
            None if number == math.inf else Fraction(0) if not number else self.fee.exact(number * self.grid.step)
            for number in numbers
        ]

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By the least price, from as near to the row's own value as that allows, by as few steps as can be."""
        assert isinstance(starts, GridStarts)
        lines, line = starts.lines, starts.lines.of_row
        low, high, certain = starts.numbers
        begin, end, sure = lines.numbers(line, first, last)
        with np.errstate(invalid="ignore"):
            start, stop, possible = self._choose(lines.own, (low, high), (begin, end), self._rounded_steps)
            (z, z_exact), (w, w_exact) = lines.points(line, start), lines.points(line, stop)
        z[~possible], w[~possible] = np.nan, np.nan
        plain = sure & certain & ~is_far(begin, end) & (z_exact & w_exact | ~possible)
        rows = np.flatnonzero(~plain)
        if len(rows):
            few = starts.take(rows)
            box, cell = few.exactly(few.low, few.high), few.exactly(first[rows], last[rows])
            start, stop, possible = self._choose(np.zeros(len(rows), dtype=object), box, cell, self._steps)
            z[rows] = np.where(possible, few.points(np.where(possible, start, 0)), np.nan)
            w[rows] = np.where(possible, few.points(np.where(possible, stop, 0)), np.nan)
        return z, w

    def _choose(
        self, own: Any, box: tuple[Any, Any], cell: tuple[Any, Any], steps: tuple[Any, Any]
    ) -> tuple[Any, Any, BoolArray]:
        """The numbers of a start in `box` and an end in `cell`, and whether there are any."""
        (low, high), (first, last) = box, cell
        possible = _least_number(low, high, first, last, steps) != np.inf
        if self.fee.power is not None:
            up = (first > high).astype(bool)
            return np.where(up, high, low), np.where(up, first, last), possible
        start = _clip(own, np.maximum(low, first - steps[1]), np.minimum(high, last - steps[0]))
        return start, _clip(start, np.maximum(first, start + steps[0]), np.minimum(last, start + steps[1])), possible


def _clip(number: Any, low: Any, high: Any) -> Any:
    """`np.clip` for whole numbers without limit, too."""
    return np.minimum(np.maximum(number, low), high)


def _least_number(low: Any, high: Any, first: Any, last: Any, steps: tuple[Any, Any]) -> Any:
    """The least number of steps from [low, high] to [first, last], which may be doubles or whole numbers without limit.

    Infinite: there is no number in one of them, or none is from `steps[0]` to `steps[1]` away. From a number to itself
    there is always a way.
    """
    some = (low <= high) & (first <= last)
    shared = (first <= high) & (low <= last)
    fits = (first - high <= steps[1]) & (last - low >= steps[0])
    number = np.maximum(np.maximum(first - high, low - last), 0)
    return np.where((some & (shared | fits)).astype(bool), number, np.inf)
