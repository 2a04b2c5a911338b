"""Decimals: what doubles print as, and the doubles that decimals are rounded to, exactly."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.numbers.doubles import FloatArray, ordinal

MAX_DIGITS, MAX_EXPONENT_DIGITS = 3000, 6
"""Of a number that users write out, on either side of its point; no double needs so many."""
MOST_SHOWN = 40
"""Characters of a number that a message repeats."""
FEWER = f"written out, it may have {MAX_DIGITS:,} on either side of its point"
_WRITTEN = re.compile(r"[+-]?(?=\.?\d)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)
MOST_DIGITS = 22
"""Powers of ten up to this one are doubles."""


def decimal_of(number: float) -> Fraction:
    """The decimal that a finite double prints as.

    >>> decimal_of(0.1), decimal_of(0.1) + decimal_of(0.2) == decimal_of(0.3)
    (Fraction(1, 10), True)
    """
    return Fraction(repr(float(number)))


def parse_decimal(value: Any, where: str) -> Fraction:
    """A finite decimal that users give as a whole number, a float, a Decimal or text such as "0.05"."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**MAX_DIGITS:
            raise InvalidInput(f"{where} has too many digits", way_out=FEWER)
        return Fraction(value)
    if isinstance(value, (float, Decimal, str)):
        number = written_decimal(str(value), where)
        if number is not None:
            return number
    raise InvalidInput(f"{where} must be a finite number, got {value!r}")


def written_decimal(text: str, where: str) -> Fraction | None:
    """The number that is written as a decimal, such as "-1.5e-3"; None for other text.

    One with more digits than anybody needs is refused before it is calculated with.

    >>> written_decimal("-1.5e-3", "step"), written_decimal("1_000", "step")
    (Fraction(-3, 2000), None)
    """
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        return None
    whole, places, exponent = (part or "" for part in found.groups())
    up = int(exponent or 0) if len(exponent) <= MAX_EXPONENT_DIGITS else MAX_DIGITS + 1
    if max(len(whole), len(places)) + abs(up) > MAX_DIGITS:
        raise InvalidInput(f"{where} {text[:MOST_SHOWN]!r} has too many digits", way_out=FEWER)
    return Fraction(text.strip())


def plain_decimal(value: Fraction) -> int | float | str:
    """A decimal as the number that stands for it, or as text where no number does.

    >>> plain_decimal(Fraction(2)), plain_decimal(Fraction(1, 4)), plain_decimal(Fraction(10**17 + 1, 10))
    (2, 0.25, '10000000000000000.1')
    """
    if value.denominator == 1:
        return value.numerator
    try:
        near = float(value)
    except OverflowError:
        near = math.inf
    if math.isfinite(near) and decimal_of(near) == value:
        return near
    twos = (value.denominator & -value.denominator).bit_length() - 1
    fives, rest = 0, value.denominator >> twos
    while rest > 1:
        fives, rest = fives + 1, rest // 5
    digits = max(twos, fives)
    whole, rest = divmod(abs(value.numerator) * 10**digits // value.denominator, 10**digits)
    return f"{'-' * (value < 0)}{whole}.{rest:0{digits}}"


def nearest_double(number: Fraction) -> float:
    """The double that a number is rounded to; infinite beyond all of them."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def rounding_to(low: float, high: float) -> tuple[Fraction, bool, Fraction, bool]:
    """The numbers whose nearest double lies in [low, high]: where they begin and end, and whether with that number.

    >>> rounding_to(1.0, 2.0) == (1 - Fraction(1, 2**54), True, 2 + Fraction(1, 2**52), True)
    True
    """
    # Halfway between two doubles, the even one is nearest.
    first, last = (int(ordinal(end)) % 2 == 0 for end in (low, high))
    return _half_way(low, -math.inf), first, _half_way(high, math.inf), last


def _half_way(number: float, toward: float) -> Fraction:
    """The number half way to the next double; beyond the last one, as if doubles went on."""
    after = math.nextafter(number, toward)
    if math.isinf(after):
        return Fraction(number) + (Fraction(number) - Fraction(math.nextafter(number, -toward))) / 2
    return (Fraction(number) + Fraction(after)) / 2


def first_printed_from(number: Fraction, closed: bool) -> float:
    """The lowest double that prints as this number (if that is `closed`) or more; infinite if there is none."""
    near = nearest_double(number)
    if math.isinf(near):
        return near if near > 0 else math.nextafter(near, 0.0)
    printed = decimal_of(near)
    return near if printed > number or (closed and printed == number) else math.nextafter(near, math.inf)


def decimals_of(X: FloatArray) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Each number as a whole number over a power of ten, what it prints as, and the power; NaN if it has many digits.

    >>> decimals_of(np.array([0.25, 3.0, 1 / 3]))
    (array([25.,  3., nan]), array([2, 0, 0]))
    """
    whole, digits = np.full(X.shape, np.nan), np.zeros(X.shape, dtype=np.int64)
    left = np.flatnonzero(np.isfinite(X))
    for power in range(MOST_DIGITS + 1):
        scale = 10.0**power
        with np.errstate(over="ignore"):
            number = np.rint(X[left] * scale)
        # Below 2**50 no two whole numbers over this scale are rounded to the same double, and the quotient of two
        # exact doubles is rounded once: what comes back as X has the fewest digits, and so it is what X prints as.
        small = np.abs(number) < 2.0**50
        found = small & (number / scale == X[left])
        whole[left[found]], digits[left[found]] = number[found], power
        left = left[small & ~found]
        if not len(left):
            break
    return whole, digits
