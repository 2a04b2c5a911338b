"""Whether a row satisfies relations, by their definition: each is walked as it was stated, with rational numbers.

Nothing here uses clauses or sets of doubles. A comparison with a missing value is unknown (None), "not", "and" and "or"
follow Kleene's tables, and a row is valid unless a relation is false for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any

from treeproof.model.columns import Category, text_of
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations.expressions import (
    AllOf,
    AnyOf,
    Comparison,
    Group,
    Implies,
    Key,
    Member,
    Missing,
    Not,
    Relation,
    Value,
)


def satisfies(
    ensemble: Ensemble, relations: Iterable[Relation], row: FloatArray, stepped: Collection[int] = ()
) -> bool:
    """Whether no relation is false for a row of doubles; `stepped` columns stand for the decimals they print as."""
    judge = _Judge(ensemble, row, stepped)
    return all(judge.truth(relation) is not False for relation in relations)


def truth_of(ensemble: Ensemble, relation: Relation, row: FloatArray, stepped: Collection[int] = ()) -> bool | None:
    """Whether a relation is true or false for a row of doubles, or None: unknown."""
    return _Judge(ensemble, row, stepped).truth(relation)


class _Judge:
    """Judges one row."""

    def __init__(self, ensemble: Ensemble, row: FloatArray, stepped: Collection[int]) -> None:
        self._ensemble, self._row, self._stepped = ensemble, row, stepped
        self._categories = dict(ensemble.categories)

    def truth(self, relation: Relation) -> bool | None:
        """True, False, or None where it is unknown."""
        match relation:
            case Not(inner):
                return _opposite(self.truth(inner))
            case AllOf(parts):
                return _all(self.truth(part) for part in parts)
            case AnyOf(parts):
                return _opposite(_all(_opposite(self.truth(part)) for part in parts))
            case Implies(condition, conclusion):
                return _opposite(_all((self.truth(condition), _opposite(self.truth(conclusion)))))
            case Group(columns, exactly):
                return _group([self._value(column)[1] for column in columns], exactly)
            case Missing(column):
                return math.isnan(self._value(column)[1])
            case Member(column, values):
                return self._is_one_of(column, values)
            case Comparison():
                return self._compare(relation)
        raise TypeError(f"no relation: {relation!r}")

    def _value(self, key: Key) -> tuple[int, float]:
        f = self._ensemble.feature_index(key)
        return f, float(self._row[f])

    def _is_one_of(self, column: Key, values: Iterable[Value]) -> bool | None:
        f, value = self._value(column)
        if math.isnan(value):
            return None
        category = self._categories.get(f)
        if category is not None and category.coded:
            return value < len(category.values) and any(_is_value(category, int(value), each) for each in values)
        return any(_ordered(value, "==", Fraction(each), f in self._stepped) for each in values)

    def _compare(self, relation: Comparison) -> bool | None:
        difference = relation.difference
        if len(difference.terms) == 1:
            ((key, factor),) = difference.terms
            constant = -difference.constant / factor
            operator = relation.operator
            if factor < 0:
                operator = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator)
            f, value = self._value(key)
            category = self._categories.get(f)
            if category is not None and category.coded:
                equal = self._is_one_of(key, (constant,))
                return equal if operator == "==" else _opposite(equal)
            return None if math.isnan(value) else _ordered(value, operator, constant, f in self._stepped)
        total = difference.constant
        for key, factor in difference.terms:
            f, value = self._value(key)
            if math.isnan(value):
                return None
            total += factor * (Fraction(repr(value)) if f in self._stepped else Fraction(value))
        return _compared(total, relation.operator, Fraction(0))


def _ordered(value: float, operator: str, constant: Fraction, stepped: bool) -> bool:
    """A comparison of one column with a constant: as decimals, or as Python compares doubles."""
    if stepped:
        return _compared(Fraction(repr(value)), operator, constant)
    return _compared(value, operator, constant.numerator / constant.denominator)


def _compared(left: Any, operator: str, right: Any) -> bool:
    return bool(
        {
            "<=": left <= right,
            "<": left < right,
            ">=": left >= right,
            ">": left > right,
            "==": left == right,
            "!=": left != right,
        }[operator]
    )


def _is_value(category: Category, code: int, value: Value) -> bool:
    """Whether a code of a category stands for this value."""
    known: Any = category.values[code]
    plain: Any = value
    if isinstance(value, Fraction):
        plain = int(value) if value.denominator == 1 else float(value)
    return bool(text_of(known) == text_of(plain) if category.by_text else known == plain)


def _opposite(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _all(truths: Iterable[bool | None]) -> bool | None:
    found = set(truths)
    return False if False in found else None if None in found else True


def _group(values: list[float], exactly: bool) -> bool:
    """Whether columns are 0 and 1, with the right number of ones; a missing one is neither."""
    ones = values.count(1.0)
    return ones + values.count(0.0) == len(values) and (ones == 1 if exactly else ones <= 1)
