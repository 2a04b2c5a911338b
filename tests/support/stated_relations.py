"""Relations that are stated twice: to treeproof, and to a tiny judge of its own, which knows nothing but fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any, TypeAlias

import treeproof as tp
from treeproof.model.groups import NONE

Truth: TypeAlias = "bool | None"
"""None: nobody knows, since a value is missing."""
Row: TypeAlias = "Mapping[str, Any]"
"""The values of a row by the names of its columns: doubles or texts; None is missing."""

ORDERS = ("<=", "<", ">=", ">", "==", "!=")


class Stated:
    """A relation."""

    def given(self) -> Any:
        """As treeproof takes it."""
        raise NotImplementedError

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        """What it is for a row; `stepped` columns stand for the decimals that they print as."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sums(Stated):
    """A sum of columns, compared with a decimal."""

    terms: tuple[tuple[int, str], ...]
    order: str
    bound: str

    def given(self) -> str:
        return f"{' + '.join(f'{factor} * {name}' for factor, name in self.terms)} {self.order} {self.bound}"

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        if any(row[name] is None for _, name in self.terms):
            return None
        total, bound = Fraction(0), Fraction(self.bound)
        for factor, name in self.terms:
            total += factor * Fraction(repr(row[name]) if name in stepped else row[name])
        if len(self.terms) == 1 and self.terms[0][1] not in stepped:
            # Python would compare the double with the one nearest to the constant.
            factor = self.terms[0][0]
            bound = factor * Fraction(float(bound / factor))
        return holds(total, self.order, bound)


@dataclass(frozen=True)
class Among(Stated):
    """The value of a column is one of these, or none of them."""

    name: str
    values: tuple[Any, ...]
    inside: bool

    def given(self) -> str:
        if len(self.values) == 1:
            return f"{self.name} {'==' if self.inside else '!='} {self.values[0]!r}"
        return f"{self.name} {'' if self.inside else 'not '}in ({', '.join(map(repr, self.values))})"

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        value = row[self.name]
        return None if value is None else (value in self.values) == self.inside


@dataclass(frozen=True)
class Blank(Stated):
    """A value is missing, or is there."""

    name: str
    missing: bool

    def given(self) -> str:
        return f"{self.name} is {'missing' if self.missing else 'present'}"

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        return (row[self.name] is None) == self.missing


@dataclass(frozen=True)
class Negated(Stated):
    """Not."""

    part: Stated

    def given(self) -> Any:
        return tp.not_(self.part.given())

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        return opposite(self.part.truth(row, stepped))


@dataclass(frozen=True)
class Several(Stated):
    """Any of these, or all of them."""

    parts: tuple[Stated, ...]
    any: bool

    def given(self) -> Any:
        return (tp.any_of if self.any else tp.all_of)(*(part.given() for part in self.parts))

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        truths = [part.truth(row, stepped) for part in self.parts]
        if self.any in truths:
            return self.any
        return None if None in truths else not self.any


@dataclass(frozen=True)
class If(Stated):
    """If this, then that."""

    condition: Stated
    conclusion: Stated

    def given(self) -> Any:
        return tp.implies(self.condition.given(), self.conclusion.given())

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        truths = opposite(self.condition.truth(row, stepped)), self.conclusion.truth(row, stepped)
        return True if True in truths else None if None in truths else False


@dataclass(frozen=True)
class OneHot(Stated):
    """One of the columns is 1, or none, and the others are 0."""

    names: tuple[str, ...]
    exactly: bool
    group: str | None

    @property
    def values(self) -> list[str]:
        """What the group may be, as an attacker names it."""
        return [*self.names, *(() if self.exactly else (NONE,))]

    @property
    def vectors(self) -> list[tuple[float, ...]]:
        """What its columns are for each of these values."""
        return [tuple(float(name == value) for name in self.names) for value in self.values]

    def given(self) -> Any:
        return (tp.one_of if self.exactly else tp.at_most_one)(*self.names, name=self.group)

    def truth(self, row: Row, stepped: frozenset[str]) -> Truth:
        values = [row[name] for name in self.names]
        return all(value in (0, 1) for value in values) and (
            values.count(1) == 1 or (not self.exactly and 1 not in values)
        )


def opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


def holds(left: Fraction, order: str, right: Fraction) -> bool:
    """A comparison of two numbers."""
    less, same = left < right, left == right
    return {"<=": less or same, "<": less, ">=": not less, ">": not less and not same, "==": same, "!=": not same}[
        order
    ]


def is_valid(relations: Iterable[Stated], row: Row, stepped: frozenset[str]) -> bool:
    """Whether no relation is false for a row."""
    return all(relation.truth(row, stepped) is not False for relation in relations)


def row_of(values: Iterable[float], names: list[str], texts: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """A row of doubles by names; codes of categories become their texts, or a text that no relation names."""
    row: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        if math.isnan(value):
            row[name] = None
        elif name in texts:
            code = int(value)
            row[name] = texts[name][code] if code < len(texts[name]) else "never seen"
        else:
            row[name] = float(value)
    return row


@dataclass(frozen=True)
class Words:
    """What random relations are made of."""

    numbers: tuple[str, ...]
    """Columns of numbers, with values that are whole numbers of units."""
    unit: Fraction
    most: int
    """Values are about 0 to this many units."""
    listed: Mapping[str, tuple[Any, ...]]
    """Columns of categories, with their values."""
    missing: tuple[str, ...] = ()
    """Columns with missing values."""

    def relation(self, random: Random, depth: int = 2) -> Stated:
        """One that some rows keep and some break, most of the time."""
        kind = random.random()
        if not depth or kind < 0.5:
            return self._atom(random)
        if kind < 0.7:
            return If(self.relation(random, depth - 1), self.relation(random, depth - 1))
        if kind < 0.8:
            return Negated(self.relation(random, depth - 1))
        parts = tuple(self.relation(random, depth - 1) for _ in range(random.randint(2, 3)))
        return Several(parts, any=kind < 0.93)

    def _atom(self, random: Random) -> Stated:
        if self.missing and random.random() < 0.15:
            return Blank(random.choice(self.missing), random.random() < 0.5)
        if self.listed and (not self.numbers or random.random() < 0.3):
            name = random.choice(list(self.listed))
            values = tuple(random.sample(self.listed[name], random.randint(1, len(self.listed[name]) - 1)))
            return Among(name, values, random.random() < 0.6)
        n = min(random.choice((1, 2, 2, 2, 3, 3)), len(self.numbers))
        names = random.sample(self.numbers, n)
        if n == 1:
            terms: tuple[tuple[int, str], ...] = ((random.choice((1, 1, 2, -1)), names[0]),)
        else:
            terms = ((1, names[0]), *((random.choice((-1, -1, 1, 2, -2)), name) for name in names[1:]))
        low = sum(min(factor, 0) for factor, _ in terms) * self.most
        high = sum(max(factor, 0) for factor, _ in terms) * self.most
        middle = random.randint(low, high)
        if n > 1 and random.random() < 0.5:
            middle = 0 if low <= 0 <= high else middle
        weights = (4, 2, 4, 2, 2, 1) if n > 1 else (4, 2, 4, 2, 1, 2)
        order = random.choices(ORDERS, weights)[0]
        return Sums(terms, order, _decimal(middle * self.unit * Fraction(random.choice((2, 2, 2, 1, 3)), 2)))


def _decimal(number: Fraction) -> str:
    """A number as a decimal; the numbers here have few digits."""
    text = f"{float(number):.6f}".rstrip("0").rstrip(".")
    assert Fraction(text) == number
    return text
