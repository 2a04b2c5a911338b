"""The slow truth about counterfactuals: all changes of a row, and all neighbours of each, one by one.

A change picks a value for every column. What it costs and which neighbours it has depends on each column alone, so
values of a column with the same neighbours (up to cells of the model and of the relations) are one choice, at the least
of their prices. Every choice of one for each column is then judged: is the row valid, and have all valid rows around it
a wanted label? Prices and distances are rational numbers; labels come from `predict`. Nothing here is treeproof's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Value = tuple[float, ...]
"""What the features of one column, or one-hot group, are."""


@dataclass(frozen=True)
class Choice:
    """One value of a column: what it costs, the places of itself and of its neighbours in the column's cells."""

    price: Fraction
    changed: bool
    cell: int
    near: frozenset[int]


@dataclass
class Column:
    """The features of one column, a value for each of its cells, and all that it may become."""

    features: tuple[int, ...]
    cells: list[Value]
    choices: list[Choice]


def doubles_around(value: float) -> list[float]:
    """A double, and two on each side of it."""
    below, above = math.nextafter(value, -math.inf), math.nextafter(value, math.inf)
    return [math.nextafter(below, -math.inf), below, value, above, math.nextafter(above, math.inf)]


def _distinct(choices: Iterable[Choice]) -> list[Choice]:
    """The cheapest of those with the same neighbours."""
    best: dict[tuple[bool, int, frozenset[int]], Choice] = {}
    for one in choices:
        key = one.changed, one.cell, one.near
        if key not in best or one.price < best[key].price:
            best[key] = one
    return list(best.values())


def number_column(
    f: int,
    x: float,
    cuts: Sequence[float],
    epsilon: float,
    domain: tuple[float, float],
    price: Callable[[float], Fraction | None],
    more: Sequence[tuple[float, Fraction]] = (),
) -> Column:
    """A column of doubles; `price` is None where a value is out of reach, NaN is reached at the prices of `more`."""
    ends = sorted(set(cuts))
    cells: list[Value] = [(domain[0],), *((math.nextafter(cut, math.inf),) for cut in ends), (math.nan,)]

    def cell(value: float) -> int:
        return len(ends) + 1 if math.isnan(value) else sum(cut < value for cut in ends)

    def near(value: float) -> frozenset[int]:
        if math.isnan(value):
            return frozenset([cell(value)])
        low, high = Fraction(value) - Fraction(epsilon), Fraction(value) + Fraction(epsilon)
        low, high = max(low, Fraction(domain[0])), min(high, Fraction(domain[1]))
        # A cell (a, b] meets [low, high] iff a double does: the next one after a, b, or the value itself.
        firsts = [-math.inf, *ends]
        found = {cell(value)}
        for at, begin in enumerate(firsts):
            first = domain[0] if math.isinf(begin) else math.nextafter(begin, math.inf)
            last = ends[at] if at < len(ends) else domain[1]
            if first <= last and Fraction(first) <= high and Fraction(last) >= low and _holds(low, high, first, last):
                found.add(at)
        return frozenset(found)

    values = {x, *domain} if not math.isnan(x) else {*domain, 0.0}
    for cut in ends:
        for shifted in (cut, float(cut + epsilon), float(cut - epsilon)):
            values.update(doubles_around(shifted))
    values = {value for value in values if domain[0] <= value <= domain[1]}
    choices = [] if math.isnan(x) else [Choice(Fraction(0), False, cell(x), near(x))]
    for value in values - {x}:
        its = price(value)
        if its is not None:
            choices.append(Choice(its, True, cell(value), near(value)))
    choices += [Choice(cost, not math.isnan(x), cell(value), near(value)) for value, cost in more]
    if math.isnan(x):
        choices.append(Choice(Fraction(0), False, cell(x), near(x)))
    return Column((f,), cells, _distinct(choices))


def _holds(low: Fraction, high: Fraction, first: float, last: float) -> bool:
    """Whether a double lies in [low, high] and in [first, last], one of which begins or ends inside the other."""
    for end in (max(low, Fraction(first)), min(high, Fraction(last))):
        near = float(end)
        for value in doubles_around(near):
            if first <= value <= last and low <= Fraction(value) <= high:
                return True
    return False


def listed_column(
    features: tuple[int, ...], x: Value, values: Sequence[Value], near: Callable[[Value], Sequence[Value]],
    price: Callable[[Value], Fraction | None],
) -> Column:  # fmt: skip
    """A column with so few values that each is a cell: categories, groups, points of a grid."""
    place = {value: at for at, value in enumerate(values)}
    choices = []
    for value in values:
        its = Fraction(0) if value == x else price(value)
        if its is not None:
            choices.append(
                Choice(its, value != x, place[value], frozenset(place[one] for one in near(value) if one in place))
            )
    return Column(features, list(values), choices)


@dataclass
class Judged:
    """A change that gives a wanted label: what it costs, and the numbers of the columns that it changes."""

    price: Fraction
    changed: frozenset[int]


def all_changes(
    columns: Sequence[Column],
    n_features: int,
    wanted: Callable[[np.ndarray], np.ndarray],
    valid: Callable[[np.ndarray], bool] = lambda _: True,
) -> list[Judged]:
    """Every choice of values, one for each column, that is valid and has only wanted neighbours."""
    rows = []
    for values in itertools.product(*(column.cells for column in columns)):
        row = np.zeros(n_features)
        for column, value in zip(columns, values, strict=True):
            row[list(column.features)] = value
        rows.append(row)
    shape = tuple(len(column.cells) for column in columns)
    is_valid = np.array([valid(row) for row in rows]).reshape(shape)
    wrong = is_valid & ~np.asarray(wanted(np.array(rows))).reshape(shape)
    found = []
    for choices in itertools.product(*(column.choices for column in columns)):
        if not is_valid[tuple(one.cell for one in choices)] or wrong[tuple(one.cell for one in choices)]:
            continue
        if not wrong[np.ix_(*(sorted(one.near) for one in choices))].any():
            changed = frozenset(at for at, one in enumerate(choices) if one.changed)
            found.append(Judged(sum((one.price for one in choices), Fraction(0)), changed))
    return found


def least_price(found: Sequence[Judged], earlier: Sequence[frozenset[int]] = ()) -> Any:
    """The least price of those that do not change all columns of an earlier one; inf if there is none."""
    left = [one.price for one in found if not any(some <= one.changed for some in earlier)]
    return min(left, default=math.inf)
