"""What is asked where labels are explained: rows of a model, its columns, and what else these rows could be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from treeproof.model.columns import Category, is_missing
from treeproof.model.ensemble import Ensemble
from treeproof.model.fields_only import FieldsOnly
from treeproof.model.groups import NONE, category_of
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker
from treeproof.threat.relations import Relation, Relations
from treeproof.threat.relations.grouping import groups_of

Kind: TypeAlias = Literal["reason", "smallest", "contrastive"]
"""What is looked for: a set of columns that is enough for the label, a smallest one, or a smallest one to change it."""

ColumnName: TypeAlias = "str | int"
"""The name of a column or a one-hot group; the position of a column that has no name."""


class Range(NamedTuple):
    """The doubles from `low` to `high`, both included; a missing value has NaN for both."""

    low: float
    high: float


class OneOf(tuple[Any, ...]):
    """The values that a category may have; None stands for a missing one.

    >>> OneOf(["car", "radio"]), OneOf(["car"]) == ("car",)
    (OneOf('car', 'radio'), True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self))})"


@dataclass(frozen=True)
class Unit:
    """What is in an explanation or not as a whole: a column, or a group of one-hot columns."""

    name: ColumnName
    features: tuple[int, ...]
    category: Category | None = None
    """The values of a category or a group; None for numbers."""
    is_group: bool = False

    def value_in(self, row: FloatArray) -> Any:
        """What a row has here, in the user's own values; None for a missing category."""
        if not self.is_group:
            number = float(row[self.features[0]])
            return number if self.category is None else self.category.value_of(number)
        assert self.category is not None
        ones = np.flatnonzero(row[list(self.features)] == 1)
        return self.category.values[int(ones[0])] if len(ones) else NONE


@dataclass(frozen=True, eq=False)
class Asked(FieldsOnly):
    """What was asked: about which rows of which model, and what else these rows could be."""

    kind: Kind
    attacker: Attacker
    """Who changes columns; unless `against` is set, somebody who may change all of them to anything in the domain."""
    X: FloatArray
    model: str
    """Where the model comes from, for people to read."""
    decision: str
    """The cut that decides, in words; "" where it is the library's own."""
    fingerprint: str
    feature_names: tuple[str, ...] | None
    units: tuple[Unit, ...]
    """The columns, in the model's order, each one-hot group in the place of its first member."""
    domain: tuple[tuple[float, float], ...]
    """The values that each feature may have; infinite ends where the user gave none."""
    relations: tuple[Relation, ...] = ()
    inflate: bool = False
    """Whether values of a reason were widened to ranges and sets."""
    against: bool = False
    """Whether the attacker is one that the user gave."""
    attacker_words: str = ""
    """What such an attacker may do."""
    missing: tuple[ColumnName, ...] = ()
    """The columns where a value may become missing, if nobody gave an attacker."""
    given: Any = None
    """The data frame of these rows, if it is one of pandas."""

    @classmethod
    def of(
        cls,
        ensemble: Ensemble,
        kind: Kind,
        attacker: Attacker,
        X: FloatArray,
        relations: Relations | None = None,
        **more: Any,
    ) -> Asked:
        """The question about rows of a model, with relations bound to it; `more` are the other fields."""
        bound = relations or Relations()
        anything = (-math.inf, math.inf)
        domain = [anything] * ensemble.n_features
        if attacker.domain is not None:
            domain = attacker.domain.bind(ensemble, anything)
        return cls(
            kind,
            attacker,
            X,
            model=ensemble.origin,
            decision=ensemble.decision_text if ensemble.decided else "",
            fingerprint=ensemble.fingerprint.hex(),
            feature_names=ensemble.feature_names,
            units=units_of(ensemble, bound),
            domain=tuple(domain),
            relations=bound.given,
            **more,
        )

    @cached_property
    def unit(self) -> dict[ColumnName, Unit]:
        """The columns and groups by their names."""
        return {unit.name: unit for unit in self.units}

    def value(self, row: int, name: ColumnName) -> Any:
        """What one of the rows has in a column, in the user's own values; None for a missing category."""
        unit = self.unit[name]
        if self.given is not None and not unit.is_group and unit.category is not None and unit.category.coded:
            own = self.given.iat[row, unit.features[0]]  # a value that the model never saw has a name, too
            return None if is_missing(own) else own
        return unit.value_in(self.X[row])

    def index_of(self, row: int) -> Any:
        """What the row is called in the data frame; its place if there is none."""
        return row if self.given is None else self.given.index[row]

    @cached_property
    def whole(self) -> frozenset[ColumnName]:
        """The columns of numbers that are all whole: by their type in the data frame, or two different ones at least.

        Sentences say ranges of these in whole numbers, which a range of doubles always contains.
        """
        return frozenset(unit.name for unit in self.units if unit.category is None and self._is_whole(unit.features[0]))

    def _is_whole(self, f: int) -> bool:
        if self.given is not None and getattr(self.given.dtypes.iloc[f], "kind", "O") in "biu":
            return True
        present = self.X[np.isfinite(self.X[:, f]), f]
        return bool((present == np.rint(present)).all()) and len(np.unique(present)) > 1


def units_of(ensemble: Ensemble, relations: Relations) -> tuple[Unit, ...]:
    """The columns of a model, in its order, each one-hot group in the place of its first member."""
    behind = {f: group for group in groups_of(relations, ensemble) for f in group.features}
    names: Sequence[ColumnName] = ensemble.feature_names or range(ensemble.n_features)
    units: dict[ColumnName, Unit] = {}
    for f, name in enumerate(names):
        group = behind.get(f)
        if group is None:
            units[name] = Unit(name, (f,), ensemble.columns[f].category)
        else:
            units[group.name] = Unit(group.name, group.features, category_of(group, ensemble), is_group=True)
    return tuple(units.values())


def unit_number(units: Sequence[Unit], ensemble: Ensemble, key: Any) -> int:
    """The number of the unit that a user calls by its name, or by the name or position of one of its columns."""
    name = key.item() if isinstance(key, np.generic) else key
    is_name = isinstance(name, (str, int)) and not isinstance(name, bool)
    named = [number for number, unit in enumerate(units) if is_name and unit.name == name]
    if named:
        return named[0]
    f = ensemble.feature_index(name)
    return next(number for number, unit in enumerate(units) if f in unit.features)
