"""Doubles and the rational numbers beside them, exactly, and grids of decimals."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache


@lru_cache(maxsize=4096)
def printed(number: float) -> Fraction:
    """The decimal that a double prints as."""
    return Fraction(repr(number))


def nearest(number: Fraction) -> float:
    """The double nearest to a number; infinite beyond all of them."""
    return quotient(number.numerator, number.denominator)


def quotient(a: float, b: int) -> float:
    """The double nearest to a / b, b above 0, which is how Python divides whole numbers."""
    try:
        return a / b
    except OverflowError:
        return math.inf if a > 0 else -math.inf


def at_most(number: Fraction) -> float:
    """The largest double that is at most a number."""
    near = nearest(number)
    return math.nextafter(near, -math.inf) if near == math.inf or (near > -math.inf and near > number) else near


def at_least(number: Fraction) -> float:
    """The least double that is at least a number."""
    return -at_most(-number)


def _runs(low: float, high: float) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
    """The doubles from low to high in ranges of all multiples of a number; the ends of each range, and the number."""
    while low <= high:
        step = math.ulp(low)
        # From one power of two to the next, doubles are 2**52 multiples; those below the least power are as far apart.
        end = (2**53 - 1) * step if low >= 0 else -(2.0**52) * step if step > math.ulp(0.0) else 0.0
        yield Fraction(low), Fraction(min(end, high)), Fraction(step)
        low = math.nextafter(end, math.inf)


def some_move(start: tuple[float, float], end: tuple[float, float], reach: tuple[float, float]) -> bool:
    """Whether doubles of two ranges are as far apart as an interval says, which has ends."""
    least, most = map(Fraction, reach)
    starts = max(start[0], at_least(Fraction(end[0]) - most)), min(start[1], at_most(Fraction(end[1]) - least))
    if starts[0] <= starts[1] and any(least <= Fraction(w) - Fraction(z) <= most for z in starts for w in end):
        return True
    for low, high, step in _runs(*starts):
        for first, last, other in _runs(max(end[0], at_least(low + least)), min(end[1], at_most(high + most))):
            # Differences are multiples of the smaller step; a number of the larger one is left to be found.
            small, large = min(step, other), max(step, other)
            shortest, longest = math.ceil(least / small) * small, math.floor(most / small) * small
            if step <= other:
                begin, stop = max(first, low + shortest), min(last, high + longest)
            else:
                begin, stop = max(low, first - longest), min(high, last - shortest)
            if shortest <= longest and math.ceil(begin / large) <= math.floor(stop / large):
                return True
    return False


@lru_cache(maxsize=1 << 16)
def _half_way_up(number: float) -> tuple[int, int]:
    """Half way from a double to the next one, as if they went on beyond the last; up to there numbers round to it."""
    if number == -math.inf:
        a, b = _half_way_up(-math.nextafter(number, 0.0))
        return -a, b
    after = math.nextafter(number, math.inf)
    step = math.ulp(number) if math.isinf(after) else Fraction(after) - Fraction(number)
    return (Fraction(number) + Fraction(step) / 2).as_integer_ratio()


def cell_of(cuts: Sequence[float], value: float) -> int:
    """The cell that holds a double: cell c has those above cut c - 1 and up to cut c."""
    return bisect_left(cuts, value)


def ends_of(cuts: Sequence[float], cell: int, low: float, high: float) -> tuple[float, float]:
    """The least and the largest double of a cell from low to high."""
    return (
        max(low, math.nextafter(cuts[cell - 1], math.inf)) if cell else low,
        min(high, cuts[cell]) if cell < len(cuts) else high,
    )


def parted(ends: tuple[float, float], cut: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """The doubles between ends up to a cut, and above it; one end is beyond the other where there are none."""
    return (ends[0], min(ends[1], cut)), (max(ends[0], math.nextafter(cut, math.inf)), ends[1])


def cells_between(cuts: Sequence[float], low: float, high: float) -> int:
    """The mask of cells that hold a double from low to high."""
    return (2 << bisect_left(cuts, high)) - (1 << bisect_left(cuts, low)) if low <= high else 0


def cells_of(cuts: Sequence[float], values: Iterable[float]) -> int:
    """The mask of cells that hold one of some doubles."""
    return sum({1 << bisect_left(cuts, value) for value in values})


class Grid:
    """The points of a row: the doubles nearest to x + k·step, k whole, x the decimal that its value prints as.

    A row whose value is missing has the points k·step. Rounding keeps the order of numbers.
    """

    def __init__(self, x: float, step: Fraction) -> None:
        self.step, origin = step, Fraction(0) if math.isnan(x) else printed(x)
        self._parts = math.lcm(origin.denominator, step.denominator)
        self._origin, self._step = int(origin * self._parts), int(step * self._parts)

    def point(self, k: int) -> float:
        """The k-th point."""
        return quotient(self._origin + k * self._step, self._parts)

    def last(self, limit: float) -> int:
        """The largest k whose point is at most a double."""
        a, b = _half_way_up(limit)
        k = (a * self._parts - b * self._origin) // (b * self._step)
        return k - 1 if self.point(k) > limit else k  # half way, numbers round to the even double

    def numbers(self, low: float, high: float) -> tuple[int, int]:
        """The first and the last k whose points lie from low to high; the first is above the last if none do."""
        return self.last(math.nextafter(low, -math.inf)) + 1, self.last(high)

    def between(self, low: float, high: float) -> tuple[float, float]:
        """The first and the last point from low to high, where these are finite; none: the first is above the last."""
        return (
            self.point(self.last(math.nextafter(low, -math.inf)) + 1) if math.isfinite(low) else low,
            self.point(self.last(high)) if math.isfinite(high) else high,
        )

    def prints(self, low: float, high: float) -> bool:
        """Whether the points from low to high print as the numbers that they stand for: 14 digits always do."""
        unit = next((10**places for places in range(16) if 10**places % self._parts == 0), None)
        return unit is not None and max(abs(low), abs(high)) < quotient(10**14, unit)

    def cells(self, cuts: Sequence[float], first: int, last: int) -> int:
        """The mask of cells that hold a point from number `first` to `last`."""
        mask = 0
        while first <= last:
            cell = bisect_left(cuts, self.point(first))
            mask |= 1 << cell
            if cell == len(cuts):
                break
            first = self.last(cuts[cell]) + 1
        return mask
