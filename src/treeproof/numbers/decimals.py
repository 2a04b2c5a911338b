"""Decimals: what doubles print as, exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput


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
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and math.isfinite(value):
        return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    if isinstance(value, str) and "/" not in value:
        try:
            return Fraction(value)
        except ValueError:
            pass
    raise InvalidInput(f"{where} must be a finite number, got {value!r}")


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
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    whole, rest = divmod(abs(value.numerator) * 10**digits // value.denominator, 10**digits)
    return f"{'-' * (value < 0)}{whole}.{rest:0{digits}}"
