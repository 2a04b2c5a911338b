"""Relations bound to a model: clauses over its columns as doubles, and exactly which rows break them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.model.fields_only import FieldsOnly
from treeproof.model.pieces import Pieces
from treeproof.numbers.decimals import decimal_of, nearest_double
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations.expressions import Relation

Flags: TypeAlias = npt.NDArray[np.bool_]
MAX_PLACES = 9
"""Decimal places up to which sums of decimals are added as whole numbers."""


@dataclass(frozen=True, slots=True)
class ColumnLiteral:
    """True for the doubles of one column that `where` has on its left; NaN is true iff `missing`.

    A comparison with a missing value is unknown, and only what is false breaks a relation: that counts as true.
    """

    feature: int
    where: Pieces
    missing: bool = True

    def united(self, other: ColumnLiteral) -> ColumnLiteral:
        """True where one of the two is."""
        return ColumnLiteral(
            self.feature, _combined(self.where, other.where, either=True), self.missing or other.missing
        )

    def intersected(self, other: ColumnLiteral) -> ColumnLiteral:
        """True where both are."""
        return ColumnLiteral(
            self.feature, _combined(self.where, other.where, either=False), self.missing and other.missing
        )

    @property
    def is_certain(self) -> bool:
        """Whether it is true for every value."""
        return self.missing and all(self.where.lefts)

    @property
    def takes_values(self) -> bool:
        """Whether it is true for any double at all."""
        return any(self.where.lefts)

    def contains(self, values: FloatArray) -> Flags:
        """For each double whether it is true there."""
        sides = np.array(self.where.lefts)[np.searchsorted(self.where.cuts, values)]
        return np.where(np.isnan(values), self.missing, sides)


def _combined(a: Pieces, b: Pieces, *, either: bool) -> Pieces:
    cuts = np.union1d(a.cuts, b.cuts).astype(np.float64)
    points = np.append(cuts, np.inf)
    one, two = (np.array(each.lefts)[np.searchsorted(each.cuts, points)] for each in (a, b))
    return Pieces.between(cuts, one | two if either else one & two)


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum of factor * column <= bound` (`<` if strict), over two columns or more, exactly; true if one is missing.

    Factors are whole numbers without a common divisor, and features rise.
    """

    terms: tuple[tuple[int, Fraction], ...]
    bound: Fraction
    strict: bool = False

    @classmethod
    def of(cls, terms: Mapping[int, Fraction], bound: Fraction, *, strict: bool = False) -> Linear:
        """The same comparison with factors that have no common divisor."""
        shared = math.lcm(*(factor.denominator for factor in terms.values()))
        divisor = math.gcd(*(int(factor * shared) for factor in terms.values()))
        scale = Fraction(shared, divisor)
        return cls(tuple((f, terms[f] * scale) for f in sorted(terms)), bound * scale, strict)

    def holds_at(self, total: Fraction) -> bool:
        """Whether a sum is small enough."""
        return total < self.bound if self.strict else total <= self.bound


Literal: TypeAlias = ColumnLiteral | Linear
Clause: TypeAlias = tuple[Literal, ...]
"""True where one of its literals is; each column has at most one literal of its own."""


_BELOW_0, _BELOW_1 = (math.nextafter(number, -math.inf) for number in (0.0, 1.0))
_ON_OR_OFF = Pieces((_BELOW_0, 0.0, _BELOW_1, 1.0), (False, True, False, True, False))


@dataclass(frozen=True)
class OneHot(FieldsOnly):
    """Columns of 0 and 1, never missing, of which exactly one, or at most one, is 1."""

    features: tuple[int, ...]
    exactly: bool
    name: str | None = None

    @property
    def own_values(self) -> tuple[Clause, ...]:
        """The clauses that each column is 0 or 1, and not missing."""
        return tuple((ColumnLiteral(f, _ON_OR_OFF, missing=False),) for f in self.features)

    def broken(self, X: FloatArray) -> Flags:
        """Which rows have another value than 0 and 1, a missing one too, or not the right number of ones."""
        columns = X[:, self.features]
        on = columns == 1
        ones = on.sum(axis=1)
        other = ~(on | (columns == 0))
        return np.asarray(other.any(axis=1) | ((ones != 1) if self.exactly else (ones > 1)))


@dataclass(frozen=True)
class Relations(FieldsOnly):
    """Relations bound to a model: a row is valid iff every clause is true and every group is kept.

    Rows are doubles, with codes for categories, as `Ensemble.check_rows` gives them.
    """

    given: tuple[Relation, ...] = ()
    """As they were stated."""
    clauses: tuple[Clause, ...] = ()
    """All but the groups."""
    groups: tuple[OneHot, ...] = ()
    clause_origin: tuple[int, ...] = ()
    """For each clause the number of the relation that it is part of."""
    group_origin: tuple[int, ...] = ()
    steps: tuple[tuple[int, Fraction], ...] = ()
    """Columns that stand for the decimals that they print as, and their steps."""

    @cached_property
    def features(self) -> tuple[int, ...]:
        """The columns that the relations are about, in rising order."""
        found = {f for group in self.groups for f in group.features}
        for literal in itertools.chain.from_iterable(self.clauses):
            found |= {literal.feature} if isinstance(literal, ColumnLiteral) else {f for f, _ in literal.terms}
        return tuple(sorted(found))

    def __bool__(self) -> bool:
        return bool(self.given)

    def broken(self, X: FloatArray) -> Flags:
        """Which rows break a relation, exactly."""
        return np.asarray(self._broken_by(X).any(axis=0))

    def which_broken(self, X: FloatArray) -> list[tuple[int, Relation]]:
        """Each row with each relation that it breaks."""
        return [(row, self.given[number]) for row, number in np.argwhere(self._broken_by(X).T).tolist()]

    def breakers(self, X: FloatArray) -> tuple[tuple[int, ...], ...]:
        """For each relation the rows that break it, in order."""
        return tuple(tuple(np.flatnonzero(rows).tolist()) for rows in self._broken_by(X))

    def holds(self, row: FloatArray) -> bool:
        """Whether one row is valid."""
        return not self.broken(np.asarray(row, dtype=np.float64)[None])[0]

    def _broken_by(self, X: FloatArray) -> Flags:
        """For each relation and row whether the row breaks it."""
        broken = np.zeros((len(self.given), len(X)), dtype=bool)
        known: dict[Literal, Flags] = {}
        for number, clause in zip(self.clause_origin, self.clauses, strict=True):
            for literal in clause:
                if literal not in known:
                    known[literal] = self._true(literal, X)
            broken[number] |= ~np.logical_or.reduce([known[literal] for literal in clause])
        for number, group in zip(self.group_origin, self.groups, strict=True):
            broken[number] |= group.broken(X)
        return broken

    def _true(self, literal: Literal, X: FloatArray) -> Flags:
        if isinstance(literal, ColumnLiteral):
            return literal.contains(X[:, literal.feature])
        return linear_holds(literal, X, dict(self.steps))


def linear_holds(literal: Linear, X: FloatArray, steps: Mapping[int, Fraction]) -> Flags:
    """For each row whether the comparison is true, or unknown since a value is missing; exactly.

    Floating point with an error bound decides most rows, whole numbers those of decimals and of whole numbers, and
    rational arithmetic the rest.
    """
    features = [f for f, _ in literal.terms]
    columns = X[:, features]
    missing = np.isnan(columns).any(axis=1)
    if _is_order(literal, steps):
        small, large = columns.T if literal.terms[0][1] > 0 else columns.T[::-1]
        return np.asarray(missing | (small < large if literal.strict else small <= large))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        products = columns * np.array([nearest_double(factor) for _, factor in literal.terms])
        total, size = products.sum(axis=1), np.abs(products).sum(axis=1)
        bound = nearest_double(literal.bound)
        # Each factor, product, sum and printed decimal is off by at most half a unit in the last place.
        error = (len(features) + 6) * 2.0**-52 * (size + abs(bound)) + 1e-300
        distance = total - bound
        holds = distance < 0
        decided = missing | ((np.abs(distance) > error) & np.isfinite(size) & math.isfinite(bound))
    holds |= missing
    left = np.flatnonzero(~decided)
    if len(left):
        found, known = _holds_in_whole_numbers(literal, columns[left], steps)
        holds[left] = found
        for row in left[~known].tolist():
            holds[row] = _holds_exactly(literal, X[row], steps)
    return np.asarray(holds)


def _is_order(literal: Linear, steps: Mapping[int, Fraction]) -> bool:
    """Whether one column is just compared with another: decimals have the order of the doubles that print as them."""
    return (
        sorted(factor for _, factor in literal.terms) == [-1, 1]
        and literal.bound == 0
        and len({f in steps for f, _ in literal.terms}) == 1
    )


def _holds_in_whole_numbers(literal: Linear, columns: FloatArray, steps: Mapping[int, Fraction]) -> tuple[Flags, Flags]:
    """(Whether the comparison is true, whether that is known) for rows that are whole numbers of a decimal unit.

    A double that is the nearest one to a decimal of at most 15 digits prints as that decimal.
    """
    n_rows = len(columns)
    unknown = np.zeros(n_rows, dtype=bool)
    places = max((_places(steps[f]) for f, _ in literal.terms if f in steps), default=0)
    unit = 10**places
    factors = [int(factor) for _, factor in literal.terms]
    bound = literal.bound * unit
    if places > MAX_PLACES or max(map(abs, factors)) * len(factors) >= 8000 or abs(bound) >= 2**62:
        return unknown, unknown
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = np.rint(columns * float(unit))
        small = np.abs(numbers) < 1e15
        stepped = np.array([f in steps for f, _ in literal.terms])
        # The exact value of a column without a step is its double: a whole number of units only if it is whole itself.
        same = (numbers / unit == columns) & (stepped | (np.rint(columns) == columns))
        whole = np.where(small, numbers, 0.0).astype(np.int64)
    # Below 8,000 times 10**15, which 64 bits hold.
    total = whole @ np.array(factors, dtype=np.int64)
    last = math.ceil(bound) - 1 if literal.strict else math.floor(bound)
    return np.asarray(total <= last), np.asarray((small & same).all(axis=1))


def _places(step: Fraction) -> int:
    """The decimal places of a step."""
    places = 0
    while places <= MAX_PLACES and (step * 10**places).denominator != 1:
        places += 1
    return places


def _holds_exactly(literal: Linear, row: FloatArray, steps: Mapping[int, Fraction]) -> bool:
    """The comparison in rational arithmetic, for a row without missing values."""
    parts = (factor * exact(float(row[f]), f in steps) for f, factor in literal.terms)
    return literal.holds_at(sum(parts, Fraction(0)))


def exact(number: float, stepped: bool) -> Fraction:
    """What a double stands for: the decimal that it prints as in a column with a step, else its own value."""
    return decimal_of(number) if stepped else Fraction(number)
