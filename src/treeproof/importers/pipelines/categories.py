"""Columns of categories: every value that the steps know, a missing one and an unseen one go through them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeproof.errors import UnsupportedModel
from treeproof.importers.pipelines.given import Given, as_objects
from treeproof.importers.pipelines.intake import Intake
from treeproof.importers.pipelines.plan import Values
from treeproof.model.columns import UNSEEN, Category
from treeproof.model.other_tests import Sides, Tests
from treeproof.numbers.doubles import FloatArray

WHOLE = 2.0**53
"""Whole numbers from there on stay the doubles that they are, as a column of a data frame has them."""


@dataclass(frozen=True)
class Listed:
    """A category column: what it is, and what the model compares for each of its codes and for a missing value."""

    category: Category
    rows: FloatArray
    """What rows hold for each code."""
    made: dict[int, FloatArray]
    """For each column of the model that depends on it, the double for each code, and at last for a missing value."""
    takes_missing: bool

    def sides(self, tests: Tests) -> list[Sides]:
        """The tests on its columns, as sets of what rows hold."""
        return [tests.on_values(column, doubles[:-1], self.rows) for column, doubles in self.made.items()]


def listed_columns(intake: Intake, columns: Mapping[int, Given], *, frame: bool) -> dict[int, Listed]:
    """Runs the values of all category columns through the steps at once."""
    if not columns:
        return {}
    probes = {f: [*column.values, *_special(column)] for f, column in columns.items()}
    n = max(len(own) for own in probes.values())
    inputs = {f: _as_column(own + own[:1] * (n - len(own)), columns[f]) for f, own in probes.items()}
    run = intake.plan.run(inputs)
    numbers = [f for f, column in columns.items() if not column.coded]
    twofold = intake.twofold_zeros(numbers) if numbers else []
    found = {}
    for f in columns:
        taken = ~intake.refused(run, f)[: len(probes[f])]
        if f in twofold:
            taken &= np.array(probes[f]) != 0
        made = {column: own[: len(taken)] for column, own in intake.made(run, f).items()}
        found[f] = _listed(columns[f], taken, made, frame=frame)
    return found


def _special(column: Given) -> list[Any]:
    """An unseen value, NaN and None; a column of numbers has but one kind of missing values."""
    return [UNSEEN, np.nan, None] if column.coded else [np.nan]


def _as_column(values: Sequence[Any], column: Given) -> Values:
    return as_objects(values) if column.coded else np.array(values, dtype=np.float64)


def _listed(column: Given, taken: Any, made: dict[int, FloatArray], *, frame: bool) -> Listed:
    n = len(column.values)
    codes = np.flatnonzero(taken[:n])
    values = tuple(column.values[code] for code in codes)
    if not column.coded:
        doubles = {number: own[np.append(codes, n)] for number, own in made.items()}
        return _listed_numbers(values, doubles, bool(taken[n]), frame=frame)
    is_bool = values == (False, True) and all(isinstance(value, bool) for value in values) and frame
    # A column of truth values has no others.
    unseen = bool(taken[n]) and not is_bool
    spellings = _spellings(taken[n:], np.array([own[n:] for own in made.values()]).T, unseen)
    blank = n + 2 if spellings[:1] == ("none",) else n + 1
    last = [n, blank] if unseen else [blank]
    if column.own is not None:
        category = dataclasses.replace(
            column.own, values=values, unseen=unseen, missing=spellings or ("nan",), numbers=column.numbers
        )
    else:
        dtype = "bool" if is_bool and not spellings else "object"
        missing = spellings or ("nan",)
        category = Category(values, unseen=unseen, dtype=dtype, missing=missing, numbers=column.numbers)
    return Listed(
        category,
        np.arange(category.n_codes, dtype=np.float64),
        {number: own[np.append(codes, last)] for number, own in made.items()},
        bool(spellings),
    )


def _listed_numbers(values: tuple[Any, ...], made: dict[int, FloatArray], missing: bool, *, frame: bool) -> Listed:
    """Numbers of which an encoder refuses all others: in a table they are values like any, in an array themselves."""
    if not frame:
        return Listed(Category(values, coded=False, dtype="float64"), np.array(values), made, missing)
    whole = all(value.is_integer() and abs(value) < WHOLE for value in values)
    category = Category(
        tuple(int(value) for value in values) if whole else values,
        dtype="int64" if whole and not missing else "float64",
        missing=("nan",),
        numbers="values",
    )
    return Listed(category, np.arange(len(values), dtype=np.float64), made, missing)


def _spellings(taken: Any, made: FloatArray, unseen: bool) -> tuple[str, ...]:
    """Which of NaN and None are missing values; the other is refused, or like a value that was never seen."""

    def same(one: int, other: int) -> bool:
        return not len(made) or bool(np.array_equal(made[one], made[other], equal_nan=True))

    nan, none = bool(taken[1]), bool(taken[2])
    if nan and none and not same(1, 2):
        if unseen and same(0, 2):
            return ("nan",)
        if unseen and same(0, 1):
            return ("none",)
        raise UnsupportedModel(
            "the pipeline tells None from NaN in a column of categories; use one of them for what is missing and fit"
        )
    return tuple(name for name, takes in (("nan", nan), ("none", none)) if takes)
