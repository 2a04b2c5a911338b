"""Facts about columns as relations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from treeproof.numbers.decimals import decimal_of
from treeproof.threat.relations.expressions import AllOf, AnyOf, Member, Not, Relation, Sum, Value, key_text
from treeproof.threat.suggest.columns import SeenColumn


def name(column: SeenColumn) -> str:
    """The column as relations spell it."""
    return key_text(column.key)


def equals(column: SeenColumn, number: float) -> Relation:
    """The column has the value that this number stands for."""
    return among(column, [number])


def among(column: SeenColumn, numbers: Sequence[float]) -> Relation:
    """The column has one of the values that these numbers stand for."""
    values = [column.value_of(number) for number in numbers]
    if not column.is_group:
        return Member(column.key, tuple(map(_exact, values)))
    return _joined([Member(key, (Fraction(1),)) for key in values], AnyOf)


def not_among(column: SeenColumn, numbers: Sequence[float]) -> Relation:
    """The column has none of the values that these numbers stand for."""
    if not column.is_group:
        return Not(among(column, numbers))
    return _joined([Member(column.value_of(number), (Fraction(0),)) for number in numbers], AllOf)


def _joined(parts: Sequence[Relation], kind: type[AllOf] | type[AnyOf]) -> Relation:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def _exact(value: str | bool | float) -> Value:
    return value if isinstance(value, (str, bool)) else decimal_of(value)


def total(factors: Mapping[SeenColumn, int], constant: Fraction = Fraction(0)) -> Sum:
    """Columns times factors, plus a constant."""
    return Sum(tuple((column.key, Fraction(factor)) for column, factor in factors.items()), constant)


def rounded_up(size: float) -> Fraction:
    """A decimal of one digit that is at least this size, which is above 0.

    >>> rounded_up(0.00231), rounded_up(0.1)
    (Fraction(3, 1000), Fraction(1, 10))
    """
    places = math.floor(math.log10(size))
    digit = math.ceil(decimal_of(size) / Fraction(10) ** places)
    return digit * Fraction(10) ** places
