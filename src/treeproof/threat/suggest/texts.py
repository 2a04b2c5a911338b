"""Relations as the texts that every function with `relations=` takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from treeproof.threat.relations.expressions import key_text, number_text, value_text
from treeproof.threat.suggest.columns import SeenColumn


def name(column: SeenColumn) -> str:
    """The column."""
    return key_text(column.key)


def decimal(number: float) -> str:
    """A double, as the decimal that it prints as."""
    return number_text(Fraction(repr(float(number))))


def equals(column: SeenColumn, number: float) -> str:
    """The column has the value that this number stands for."""
    return among(column, [number])


def among(column: SeenColumn, numbers: Sequence[float], holds: bool = True) -> str:
    """The column has one of the values that these numbers stand for, or none of them."""
    values = [column.value_of(number) for number in numbers]
    if column.is_group:
        return (" or " if holds else " and ").join(f"{key_text(one)} == {int(holds)}" for one in values)
    shown = [value_text(one) if isinstance(one, (str, bool)) else decimal(one) for one in values]
    if len(shown) == 1:
        return f"{name(column)} {'==' if holds else '!='} {shown[0]}"
    return f"{name(column)} {'in' if holds else 'not in'} ({', '.join(shown)})"


def implies(condition: str, conclusion: str) -> str:
    """If the one, then the other."""
    return f"implies({condition}, {conclusion})"


def total(columns: Sequence[SeenColumn]) -> str:
    """The sum of columns."""
    return " + ".join(map(name, columns))


def rounded_up(size: float) -> float:
    """A decimal of one digit that is at least this size."""
    if size <= 0:
        return 0.0
    places = math.floor(math.log10(size))
    digit = math.ceil(size / 10.0**places * (1 - 1e-12))
    return float(f"{digit}e{places}")
