"""Groups of one-hot columns as the category columns that they stand for.

A declared group, such as p_car, p_radio, p_other of which exactly one is 1, becomes one category column of a rewritten
ensemble with the values p_car, p_radio and p_other. The trees stay the same: a test of a member is a set of values of
its group. So engines never see rows that set two members at once. What users see has their own columns again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.columns import Category, Column, renamed
from treeproof.model.ensemble import Ensemble
from treeproof.model.fields_only import FieldsOnly
from treeproof.model.kept import Kept
from treeproof.model.other_tests import Bools, Tests, with_tests
from treeproof.numbers.doubles import FloatArray

_REWRITTEN: Kept[Ensemble] = Kept()

NONE = "(none)"
"""The value of a group in a row where all of its members are 0."""


@dataclass(frozen=True)
class Group(FieldsOnly):
    """Columns of which one is 1 and the others are 0; if not `exactly` one, all of them may be 0."""

    features: tuple[int, ...]
    name: str
    exactly: bool = True

    @cached_property
    def vectors(self) -> FloatArray:
        """The members of valid rows, one row per code."""
        rows = np.eye(len(self.features))
        return rows if self.exactly else np.vstack((rows, np.zeros(len(self.features))))


@dataclass(frozen=True, eq=False)
class Grouped:
    """A model on the user's own columns, and the same trees on columns where each group is one category.

    Rows that break a group have codes above those of its values, one for each way to break it. No move ends there: a
    broken row may stay as it is, or be moved to one of the values.
    """

    own: Ensemble
    ensemble: Ensemble
    groups: tuple[Group, ...]
    columns: tuple[tuple[int, ...], ...]
    """The user's columns behind each column of `ensemble`."""
    vectors: tuple[FloatArray, ...]
    """For each group, what its members are for each code: those of the values, then those of broken rows."""

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The column of each group in `ensemble`."""
        return tuple(self.columns.index(group.features) for group in self.groups)

    def broken(self, X: FloatArray) -> Bools:
        """Which rows of the user's columns break a group."""
        broken = np.zeros(len(X), dtype=bool)
        for group in self.groups:
            broken |= _codes(group, X) < 0
        return broken

    def rows(self, X: FloatArray) -> FloatArray:
        """Rows of the user's columns in those of `ensemble`; InvalidInput for a broken row that has no code."""
        rows = np.array(X[:, [columns[0] for columns in self.columns]], dtype=np.float64, order="C")
        for group, place, vectors in zip(self.groups, self.places, self.vectors, strict=True):
            codes = _codes(group, X)
            n_values = len(group.vectors)
            known = {_key(vector): code for code, vector in enumerate(vectors[n_values:], start=n_values)}
            for row in np.flatnonzero(codes < 0).tolist():
                vector = X[row, group.features]
                code = known.get(_key(vector))
                if code is None:
                    raise InvalidInput(f"row {row} breaks the group {group.name!r}: its members are {vector.tolist()}")
                codes[row] = code
            rows[:, place] = codes
        return rows

    def ungroup(self, rows: FloatArray) -> FloatArray:
        """Rows (…, columns of `ensemble`) in the user's own columns: the inverse of `rows`."""
        X = np.empty((*rows.shape[:-1], self.own.n_features))
        for place, columns in enumerate(self.columns):
            X[..., columns[0]] = rows[..., place]
        for group, place, vectors in zip(self.groups, self.places, self.vectors, strict=True):
            X[..., list(group.features)] = vectors[rows[..., place].astype(np.intp)]
        return X


def group_columns(ensemble: Ensemble, groups: Sequence[Group], X: FloatArray | None = None) -> Grouped:
    """The ensemble with one category column for each group, in the place of its first member.

    With rows X of the user's columns, there are codes for those of them that break a group.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from treeproof import from_model
    >>> model = from_model(DecisionTreeClassifier().fit([[1, 0], [0, 1]], ["a", "b"]))
    >>> grouped = group_columns(model, [Group((0, 1), "purpose")])
    >>> [(column.name, column.values) for column in grouped.ensemble.columns]
    [('purpose', (0, 1))]
    >>> grouped.ungroup(np.array([[1.0]])).tolist()
    [[0.0, 1.0]]
    """
    _check(ensemble, groups)
    behind = {f: group.features for group in groups for f in group.features}
    columns = tuple(dict.fromkeys(behind.get(f, (f,)) for f in range(ensemble.n_features)))
    vectors = tuple(_vectors(group, X) for group in groups)
    key = tuple(groups), tuple(tuple(map(_key, own)) for own in vectors)
    rewritten = _REWRITTEN.get(ensemble, key, lambda: _rewritten(ensemble, groups, columns, vectors))
    return Grouped(ensemble, rewritten, tuple(groups), columns, vectors)


def _rewritten(
    ensemble: Ensemble,
    groups: Sequence[Group],
    columns: tuple[tuple[int, ...], ...],
    vectors: tuple[FloatArray, ...],
) -> Ensemble:
    """The trees on the columns of groups, each of which has a code for each of its vectors."""
    behind = {f for group in groups for f in group.features}
    tests = Tests(ensemble)
    sides = [tests.unchanged([f for f in range(ensemble.n_features) if f not in behind])]
    for group, own in zip(groups, vectors, strict=True):
        codes = np.arange(len(own), dtype=np.float64)
        sides += [tests.on_values(f, own[:, member], codes) for member, f in enumerate(group.features)]
    place_of = {f: place for place, own in enumerate(columns) for f in own}
    return with_tests(
        ensemble,
        tests,
        sides,
        [place_of[f] for f in range(ensemble.n_features)],
        tests.missing_left,
        blanks_underscored=False,
        takes_frames=False,
        takes_arrays=True,
        source=None,
        columns=_described(ensemble, groups, columns, [len(own) for own in vectors]),
    )


def _described(
    ensemble: Ensemble, groups: Sequence[Group], columns: Sequence[tuple[int, ...]], n_codes: Sequence[int]
) -> tuple[Column, ...]:
    """What an ensemble says of its columns, after some became groups."""
    named = renamed(ensemble.columns, names_of(ensemble))
    made: dict[tuple[int, ...], Column] = {(f,): replace(column, refused=()) for f, column in enumerate(named)}
    # Codes of broken rows are no values of the category, but rows may hold them.
    made |= {group.features: column_of(group, ensemble, codes) for group, codes in zip(groups, n_codes, strict=True)}
    return tuple(made[own] for own in columns)


def column_of(group: Group, ensemble: Ensemble, n_codes: int | None = None) -> Column:
    """The column that a group is, with so many codes, or those of its values."""
    category = category_of(group, ensemble)
    return Column(group.name, 0.0, (n_codes or category.n_codes) - 1.0, category=category)


def category_of(group: Group, ensemble: Ensemble) -> Category:
    """The values of a group: the names of its members, and one for all zeros where that is valid."""
    names: Sequence[Any] = ensemble.feature_names or range(ensemble.n_features)
    return Category(tuple(names[f] for f in group.features) + (() if group.exactly else (NONE,)), dtype="category")


def names_of(ensemble: Ensemble) -> list[str]:
    """A name for each feature: its own, or its position."""
    return list(ensemble.feature_names or map(str, range(ensemble.n_features)))


def _check(ensemble: Ensemble, groups: Sequence[Group]) -> None:
    """Refuses groups that share columns or names, and columns that cannot be 0 or 1."""
    names = names_of(ensemble)
    seen: dict[int, str] = {}
    taken = set(names) - {names[f] for group in groups for f in group.features}
    for group in groups:
        if not group.features:
            raise InvalidInput(f"the group {group.name!r} has no columns; name at least one")
        if group.name in taken:
            raise InvalidInput(f"the name {group.name!r} is taken; give the group another, name=…")
        taken.add(group.name)
        for f in group.features:
            shown = ensemble.feature_name(f)
            if f in seen:
                raise InvalidInput(f"column {shown} is in the groups {seen[f]!r} and {group.name!r}; it can be in one")
            seen[f] = group.name
            category = ensemble.columns[f].category
            if category is not None and category.coded and category.values != (0, 1):
                raise InvalidInput(
                    f"column {shown} of the group {group.name!r} is a category, and not a column of 0 and 1"
                )
            if not ensemble.value_low[f] <= 0 < 1 <= ensemble.value_high[f]:
                raise InvalidInput(
                    f"column {shown} of the group {group.name!r} must take 0 and 1; the model takes "
                    f"{ensemble.value_low[f]:.6g} to {ensemble.value_high[f]:.6g}"
                )


def _codes(group: Group, X: FloatArray) -> npt.NDArray[np.int64]:
    """The code of each row's value, -1 where the row breaks the group."""
    members = X[:, group.features]
    ones = members == 1
    n_ones = ones.sum(axis=1)
    codes = np.where(n_ones == 1, ones.argmax(axis=1), len(group.features))
    valid = (ones | (members == 0)).all(axis=1) & ((n_ones == 1) | ((n_ones == 0) & (not group.exactly)))
    return np.where(valid, codes, -1).astype(np.int64)


def _vectors(group: Group, X: FloatArray | None) -> FloatArray:
    """What the members are for each code: those of the values, then the ways in which rows of X break the group."""
    if X is None:
        return group.vectors
    broken = X[_codes(group, X) < 0][:, group.features]
    return np.vstack((group.vectors, *{_key(vector): vector for vector in broken}.values()))


def _key(vector: FloatArray) -> tuple[float | None, ...]:
    """Equal for members that are equal; None where one is missing."""
    return tuple(None if value != value else value for value in vector.tolist())
