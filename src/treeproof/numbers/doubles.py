"""Exact steps and sums of doubles, the doubles next to a rational number, and the one interval convention: (lo, hi]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

LARGEST = float(np.finfo(np.float64).max)
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Interval:
    """Doubles x with lo < x <= hi: what `x <= e` splits leave behind.

    >>> 3.0 in Interval(2.0, 3.0), 2.0 in Interval(2.0, 3.0)
    (True, False)
    """

    lo: float = -math.inf
    hi: float = math.inf

    def __contains__(self, x: float) -> bool:
        return self.lo < x <= self.hi

    def nearest(self, x: float) -> float:
        """The double of the interval that is closest to x.

        >>> Interval(2.0, 3.0).nearest(7.5)
        3.0
        """
        if x > self.hi:
            return self.hi
        if x <= self.lo:
            return math.nextafter(self.lo, math.inf)
        return x


def next_up(x: npt.ArrayLike) -> FloatArray:
    """The smallest double above each x."""
    with np.errstate(over="ignore"):
        return np.nextafter(np.asarray(x, dtype=np.float64), np.inf)


def next_down(x: npt.ArrayLike) -> FloatArray:
    """The largest double below each x."""
    with np.errstate(over="ignore"):
        return np.nextafter(np.asarray(x, dtype=np.float64), -np.inf)


def _sum_and_error(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The rounded sum s of a and b, and e with s + e == a + b exactly (Knuth's and Dekker's two-sum).

    Where s is infinite, e says on which side of the largest double the true sum lies.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        s = np.asarray(a + b)
        # The shorter way: should any of its steps overflow, the error is not finite.
        rest = s - a
        error = np.asarray((a - (s - rest)) + (b - rest))
        known = np.isfinite(error)
        if known.all():
            return s, error
        # What is added to an infinite number, or to NaN, is not rounded.
        if (known | ~np.isfinite(a) | ~np.isfinite(b)).all():
            return s, np.where(known, error, 0.0)
        # With the larger number first, no step but the sum itself can overflow.
        swap = np.abs(a) < np.abs(b)
        large, small = np.where(swap, b, a), np.where(swap, a, b)
        error = np.asarray(small - (s - large))
    overflow = np.isinf(s) & np.isfinite(a) & np.isfinite(b)
    error = np.where(np.isinf(s), np.where(overflow, -s, 0.0), error)
    return s, error


def add_down(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """The largest double that is at most the real number a + b.

    >>> float(add_down(0.1, 0.2)) < 0.1 + 0.2
    True
    """
    s, error = _sum_and_error(a, b)
    return np.where(error < 0, next_down(s), s)


def add_up(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """The smallest double that is at least the real number a + b.

    >>> float(add_up(0.5, 0.25))
    0.75
    """
    s, error = _sum_and_error(a, b)
    return np.where(error > 0, next_up(s), s)


def float32_at_most(x: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """The largest float32 that is at most each double x (-inf below the float32 range)."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        nearest = x.astype(np.float32)
        return np.where(nearest.astype(np.float64) > x, np.nextafter(nearest, np.float32(-np.inf)), nearest)


def last_double_rounding_to(x: npt.ArrayLike) -> FloatArray:
    """The largest double that the cast to float32 rounds to x or below; x is float32.

    A library that casts its input and tests `float32(z) <= x` goes left exactly for the doubles
    `z <= last_double_rounding_to(x)`.

    >>> z = last_double_rounding_to(np.float32(1.0))
    >>> bool(np.float32(z) <= 1.0), bool(np.float32(np.nextafter(z, 2)) <= 1.0)
    (True, False)
    """
    x = np.asarray(x, dtype=np.float32)
    with np.errstate(over="ignore"):
        above = np.nextafter(x, np.float32(np.inf)).astype(np.float64)
    # Beyond the largest float32 the cast rounds as if the next float32 were 2**128.
    above = np.where(np.isinf(above), 2.0**128, above)
    lowest = np.isneginf(x)
    below = np.where(lowest, -(2.0**128), x.astype(np.float64))
    above = np.where(lowest, -LARGEST_FLOAT32, above)
    with np.errstate(invalid="ignore"):  # where x is +inf, which is answered below
        middle = below + (above - below) / 2
    # Ties go to the even neighbour: the middle rounds down exactly where x has an even last bit.
    tie_rounds_down = (x.view(np.uint32) & 1) == 0
    # -inf has an even bit pattern and is where the tie at the end of the range goes.
    return np.where(np.isposinf(x), np.inf, np.where(tie_rounds_down, middle, next_down(middle)))


def ordinal(x: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """A whole number for each double that grows by one from each double to the next; both zeros are 0.

    >>> int(ordinal(np.nextafter(1.0, 2.0)) - ordinal(1.0))
    1
    """
    bits = np.asarray(np.asarray(x, dtype=np.float64) + 0.0).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def from_ordinal(k: npt.ArrayLike) -> FloatArray:
    """The double with this ordinal: the inverse of `ordinal`."""
    k = np.asarray(k, dtype=np.int64)
    return np.where(k < 0, np.int64(-(2**63)) - k, k).view(np.float64)


def double_at_most(number: Fraction) -> float:
    """The largest double that is at most this number; -inf below all of them.

    >>> Fraction(double_at_most(Fraction(1, 10))) < Fraction(1, 10)
    True
    """
    try:
        near = number.numerator / number.denominator
    except OverflowError:
        return LARGEST if number > 0 else -math.inf
    return math.nextafter(near, -math.inf) if Fraction(near) > number else near


def double_at_least(number: Fraction) -> float:
    """The smallest double that is at least this number; inf above all of them."""
    return -double_at_most(-number)


def double_below(number: Fraction) -> float:
    """The largest double that is less than this number."""
    return math.nextafter(double_at_least(number), -math.inf)


def root_at_most(number: Fraction, power: int, unit: Fraction = Fraction(1)) -> float:
    """The largest double s >= 0 with `(s * unit) ** power <= number`.

    >>> root_at_most(Fraction(9), 2), root_at_most(Fraction(9), 2, Fraction(1, 2))
    (3.0, 6.0)
    """
    goal = number / unit**power
    if power == 1:
        return double_at_most(goal)

    def fits(k: int) -> bool:
        return Fraction(float(from_ordinal(k))) ** power <= goal

    # The rounded root is close; from there, in steps that grow, to where exact powers say.
    low = int(ordinal(min(double_at_most(goal) ** (1 / power), LARGEST)))
    high, step, end = low + 1, 1, int(ordinal(LARGEST)) + 1
    while not fits(low):
        low, high, step = max(low - step, 0), low, 2 * step
    while high < end and fits(high):
        low, high, step = high, min(high + step, end), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return float(from_ordinal(low))
