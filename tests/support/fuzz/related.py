"""Relations on the columns of a frame, and what they say of its own values: their documented meaning, written anew."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

Row = dict[str, Any]
"""The values of a row by the names of their columns."""
Truth = bool | None
"""None is unknown: what is missing is neither below nor above anything."""

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Related:
    """A relation as text, and whether it holds for a row; a row breaks it if it is false."""

    text: str
    holds: Callable[[Row], Truth]


def blank(value: Any) -> bool:
    """Whether a value is missing."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def relation(columns: Sequence[Any], random: Random) -> Related:
    """A relation on columns of a subject, of one or two conditions."""
    p = _condition(columns, random)
    if random.random() < 0.3:
        return p
    q = _condition(columns, random)
    return random.choice([_implies, _or, _neither])(p, q)


def _implies(p: Related, q: Related) -> Related:
    return Related(f"implies({p.text}, {q.text})", lambda row: _any(_not(p.holds(row)), q.holds(row)))


def _or(p: Related, q: Related) -> Related:
    return Related(f"{p.text} or {q.text}", lambda row: _any(p.holds(row), q.holds(row)))


def _neither(p: Related, q: Related) -> Related:
    both = f"not ({p.text} and {q.text})"
    return Related(both, lambda row: _any(_not(p.holds(row)), _not(q.holds(row))))


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _any(*truths: Truth) -> Truth:
    return True if True in truths else None if None in truths else False


def _condition(columns: Sequence[Any], random: Random) -> Related:
    column = random.choice(columns)
    if column.kind == "number":
        others = [other for other in columns if other.kind == "number" and other is not column]
        return (
            _sum(column, random.choice(others), random) if others and random.random() < 0.5 else _bound(column, random)
        )
    if random.random() < 0.5:
        return _one_of(column, random)
    value, way = random.choice(column.known), random.choice(["==", "!="])
    return Related(
        f"{column.name} {way} {_written(value)}",
        lambda row: None if blank(row[column.name]) else _same(row[column.name], value) == (way == "=="),
    )


def _one_of(column: Any, random: Random) -> Related:
    some = random.sample(column.known, random.randint(1, len(column.known)))
    return Related(
        f"{column.name} in ({', '.join(map(_written, some))})",
        lambda row: None if blank(row[column.name]) else any(_same(row[column.name], value) for value in some),
    )


def _bound(column: Any, random: Random) -> Related:
    """One column and a number are compared as Python compares doubles."""
    way, text = random.choice([*OPERATORS]), random.choice(["0.1", "-2", "1.5", "0", "-0.3", "3"])
    return Related(
        f"{column.name} {way} {text}",
        lambda row: None if blank(row[column.name]) else OPERATORS[way](row[column.name], float(text)),
    )


def _sum(a: Any, b: Any, random: Random) -> Related:
    """Sums of columns are exact, and 0.1 beside them is one tenth."""
    way, text, times = random.choice([*OPERATORS]), random.choice(["0.1", "0", "2", "1.5"]), random.choice([1, 2, -1])

    def holds(row: Row) -> Truth:
        if blank(row[a.name]) or blank(row[b.name]):
            return None
        pair = (row[a.name], row[b.name])
        if not all(map(math.isfinite, pair)):
            right = times * pair[1] + float(text)
            return OPERATORS[way](pair[0], right)
        return OPERATORS[way](Fraction(pair[0]), times * Fraction(pair[1]) + Fraction(text))

    return Related(f"{a.name} {way} {times}*{b.name} + {text}", holds)


def _same(value: Any, known: Any) -> bool:
    """A known value, as the owner's frame has it: text is no number."""
    return isinstance(value, str) == isinstance(known, str) and bool(value == known)


def _written(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
