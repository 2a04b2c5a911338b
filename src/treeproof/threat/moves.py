"""What attackers may do to one column, as users describe it: values, steps, cost matrices and rewriting rules."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import is_missing
from treeproof.model.per_feature import as_key, as_number, as_pair
from treeproof.numbers.decimals import decimal_of, parse_decimal, plain_decimal

MAX_COST = 2**40
ANY = (-math.inf, math.inf)
"""What an attacker may do to a column that he can change to anything: any number, any value that the model knows. In ε,
neighbours may have any of these."""


@dataclass(frozen=True)
class Values:
    """The only values that a column may be changed to; see `values`."""

    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"values({', '.join(map(repr, self.values))})"


@dataclass(frozen=True)
class Steps:
    """Moves by whole numbers of steps; see `steps`."""

    low: float
    high: float
    step: Fraction

    def __repr__(self) -> str:
        return f"steps({self.low!r}, {self.high!r}, {plain_decimal(self.step)!r})"


@dataclass(frozen=True)
class CostMatrix:
    """What each change of one value to another costs; changes that are not listed are impossible."""

    entries: tuple[tuple[Any, Any, int], ...]

    def __repr__(self) -> str:
        return repr({(start, end): cost for start, end, cost in self.entries})


Move: TypeAlias = "tuple[float, float] | Values | Steps"
"""What an attacker may do to a column: an interval of distances, or one of the others."""


def values(*given: Any) -> Values:
    """The values that an attacker may change a column to: numbers, or categories.

    In ε, they are categories that neighbours may have for each other: `epsilon={"job": tp.values("A173", "A174")}`.

    >>> values("A173", "A174")
    values('A173', 'A174')
    """
    return as_values(given, "values")


def steps(low: float, high: float, step: Any) -> Steps:
    """Moves from `low` to `high` by whole numbers of steps: months, cents, quarters.

    `step` is a decimal: a number, a Decimal or text. The column's values, `low` and `high` stand for the decimals that
    they print as, so that 0.3 is three steps of 0.1 away from 0. Neighbours lie on the same grid.

    >>> steps(-6, 6, 1)
    steps(-6.0, 6.0, 1)
    """
    ends = as_interval((low, high), "steps")
    size = as_step(step, "step")
    if not reaches_step(*ends, size):
        way_out = "give a wider range or a smaller step"
        if ends == (0.0, 0.0):
            way_out = "the step of a column that does not move goes into step="
        between = f"between {ends[0]!r} and {ends[1]!r}"
        raise InvalidInput(f"no whole number of steps of {plain_decimal(size)} lies {between}, but 0; {way_out}")
    return Steps(*ends, size)


@dataclass(frozen=True, init=False)
class Rule:
    """Rewrites the value of a column, for a cost, where it fits `when`; an attacker may do so again and again.

    A number in the closed range `when` (any number, if it is left out) is changed by adding `change`: one number, or
    anything in a range. A category in the set `when` (any that the model knows) becomes the category `to`. Numbers are
    the decimals that they print as.

    >>> Rule("hours", when=(0, 40), change=(0, 5), cost=2)
    Rule('hours', when=(0.0, 40.0), change=(0, 5), cost=2)
    >>> Rule("job", when={"clerk", "cook"}, to="none")
    Rule('job', when=('clerk', 'cook'), to='none', cost=1)
    """

    column: int | str
    when: tuple[float, float] | Values | None
    change: tuple[Fraction, Fraction] | None
    to: Any
    cost: int

    def __init__(self, column: Any, *, when: Any = None, change: Any = None, to: Any = None, cost: Any = 1) -> None:
        column = as_key(column, "rule")
        where = f"the rule of column {column!r}"
        if (change is None) == (to is None):
            raise InvalidInput(f"{where} needs one of change=, for numbers, and to=, for categories")
        if change is not None:
            if isinstance(when, (set, frozenset, Values, str)):
                raise InvalidInput(f"{where} adds to numbers, so when= is a range (low, high), got {when!r}")
            when = None if when is None else as_interval(when, f"{where}: when")
            change = _as_change(change, where)
        else:
            to = as_value(to, f"{where}: to")
            if when is not None and not isinstance(when, (set, frozenset, list, Values)):
                raise InvalidInput(f"{where} leads to a category, so when= is a set of categories, got {when!r}")
            when = None if when is None else as_values(in_order(when), f"{where}: when")
        number = as_cost(cost, f"{where}: cost")
        if number < 1:
            raise InvalidInput(f"{where}: cost must be at least 1, since it can be applied again, got {cost!r}")
        parts = {"column": column, "when": when, "change": change, "to": to, "cost": number}
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        parts = [repr(self.column)]
        if self.when is not None:
            parts.append(f"when={self.when.values if isinstance(self.when, Values) else self.when!r}")
        if self.change is not None:
            low, high = map(plain_decimal, self.change)
            parts.append(f"change={low!r}" if low == high else f"change=({low!r}, {high!r})")
        else:
            parts.append(f"to={self.to!r}")
        return f"Rule({', '.join(parts)}, cost={self.cost})"


def _as_change(given: Any, where: str) -> tuple[Fraction, Fraction]:
    low, high = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, given)
    change = parse_decimal(low, f"{where}: change"), parse_decimal(high, f"{where}: change")
    if change[0] > change[1]:
        raise InvalidInput(f"{where}: change {given!r} is empty: its low end is above its high end")
    if not any(change):
        raise InvalidInput(f"{where} adds 0, which changes nothing")
    return change


def in_order(given: Any) -> Iterable[Any]:
    """Sets have no order of their own, and files and messages need one."""
    if isinstance(given, Values):
        return given.values
    return given if isinstance(given, list) else sorted(given, key=lambda value: (type(value).__name__, str(value)))


def as_move(value: Any, where: str) -> Move:
    """What an attacker may do to a column: `(low, high)`, `ANY`, `values(…)`, `steps(…)` or a list of values."""
    if isinstance(value, (Values, Steps)):
        return value
    if isinstance(value, (set, frozenset)) or (isinstance(value, list) and _lists_values(value)):
        return as_values(in_order(value), where)
    return as_interval(value, where)


def _lists_values(given: list[Any]) -> bool:
    return len(given) != 2 or any(isinstance(value, str) for value in given)


def as_named_move(value: Any, where: str) -> Move:
    """The same for a column that is named: there, a list of two numbers might be either."""
    if isinstance(value, list) and len(value) == 2 and not _lists_values(value):
        raise InvalidInput(
            f"{where}: {value!r} could be a range or two values; write ({value[0]!r}, {value[1]!r}) for a range of "
            f"distances, or tp.values({value[0]!r}, {value[1]!r})"
        )
    return as_move(value, where)


def as_interval(value: Any, where: str) -> tuple[float, float]:
    """`(low, high)`, two numbers."""
    if isinstance(value, str) or (isinstance(value, (list, tuple)) and any(isinstance(one, str) for one in value)):
        raise InvalidInput(
            f"{where}: {value!r} is text; tp.ANY lets the attacker change a category to any value that the model "
            "knows, tp.values(…) to some, and (low, high) moves a number"
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value):
        size = abs(value)
        raise InvalidInput(
            f"{where} must be a pair (low, high), got {value!r}; write ({-size!r}, {size!r}) for either way"
        )
    low, high = as_pair(value, where)
    if low == math.inf or high == -math.inf:
        raise InvalidInput(f"{where} {value!r} contains no finite move")
    return low, high


def as_values(given: Iterable[Any], where: str) -> Values:
    """Each value once, in the given order."""
    found = tuple(dict.fromkeys(as_value(value, where) for value in given))
    if not found:
        raise InvalidInput(f"{where}: there are no values; leave the column out if it cannot be changed")
    return Values(found)


def as_value(value: Any, where: str) -> Any:
    """A value that a column may hold: a finite number, text, or any other category; not a missing one."""
    if isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        raise InvalidInput(f"{where}: a missing value is not one to change to; blank= makes values missing")
    if isinstance(value, float) and math.isinf(value):
        raise InvalidInput(f"{where}: {value!r} is not a value of any row")
    if not isinstance(value, Hashable) or isinstance(value, Rule):
        way_out = "; put a star before the list" if isinstance(value, (list, set)) else ""
        way_out = "; give rules to tp.Attacker.rules" if isinstance(value, Rule) else way_out
        raise InvalidInput(f"{where}: {value!r} is not a value of a column{way_out}")
    return value


def as_step(value: Any, where: str) -> Fraction:
    """A decimal above 0."""
    step = parse_decimal(value, where)
    if step <= 0:
        raise InvalidInput(f"{where} must be above 0, got {value!r}")
    return step


def reaches_step(low: float, high: float, step: Fraction) -> bool:
    """Whether some number of steps but 0 lies from low to high."""
    down = math.isinf(low) or (low < 0 and -decimal_of(low) >= step)
    up = math.isinf(high) or (high > 0 and decimal_of(high) >= step)
    if low <= 0 <= high or not (up or down):
        return up or down
    near, far = sorted((abs(low), abs(high)))
    return math.isinf(far) or decimal_of(far) // step >= -(-decimal_of(near) // step)


def as_cost(value: Any, where: str) -> int:
    """A whole number that attackers pay."""
    number = as_number(value, where)
    if not 0 <= number <= MAX_COST or number != int(number):
        way_out = "; scale fractions up" if 0 <= number <= MAX_COST else ""
        raise InvalidInput(f"{where} must be a whole number from 0 to {MAX_COST}, got {value!r}{way_out}")
    return int(number)


def as_column_cost(value: Any, where: str) -> int | CostMatrix:
    """One cost, or a matrix: {(from, to): cost}, or a data frame whose index is `from` and whose columns are `to`."""
    if isinstance(value, CostMatrix):
        return value
    if hasattr(value, "columns") and hasattr(value, "index") and hasattr(value, "to_numpy"):
        table = zip(value.index.tolist(), value.to_numpy().tolist(), strict=True)
        ends = value.columns.tolist()
        listed = {
            (start, end): cost
            for start, row in table
            for end, cost in zip(ends, row, strict=True)
            if start != end and not is_missing(cost)
        }
        return _as_matrix(listed, where)
    return _as_matrix(value, where) if isinstance(value, Mapping) else as_cost(value, where)


def _as_matrix(given: Mapping[Any, Any], where: str) -> CostMatrix:
    entries = []
    for pair, cost in given.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInput(f"{where}: a matrix is {{(from, to): cost}}, got the key {pair!r}")
        start, end = (as_value(value, where) for value in pair)
        if start == end:
            raise InvalidInput(f"{where}: {start!r} to {end!r} is no change; leave it out")
        entries.append((start, end, as_cost(cost, f"{where}, {start!r} to {end!r},")))
    if not entries:
        raise InvalidInput(f"{where}: the matrix allows no change; leave the column out if it cannot be changed")
    return CostMatrix(tuple(entries))
