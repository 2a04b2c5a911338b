"""Groups of one-hot columns that an attacker or ε names: columns of categories beside those of the model.

What members are and what the group is are the same thing, so a change of members is paid for once, by the group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.groups import NONE, Group
from treeproof.numbers.doubles import FloatArray


@dataclass(frozen=True)
class Seen:
    """A model as somebody sees it who names groups."""

    ensemble: Ensemble
    """With a further column for each of these groups."""
    named: tuple[Group, ...]

    @classmethod
    def by(cls, keys: Iterable[int | str], ensemble: Ensemble, groups: Sequence[Group]) -> Seen:
        """The model with the groups that are among these names."""
        spelled = {ensemble.own_spelling(key) for key in keys if isinstance(key, str)}
        named = tuple(group for group in groups if ensemble.own_spelling(group.name) in spelled)
        if not named:
            return cls(ensemble, ())
        n, names = ensemble.n_features, ensemble.feature_names or tuple(map(str, range(ensemble.n_features)))
        categories = []
        for number, group in enumerate(named):
            members: Sequence[object] = ensemble.feature_names or range(n)
            values = (*(members[f] for f in group.features), *(() if group.exactly else (NONE,)))
            categories.append((n + number, Category(values)))
        seen = dataclasses.replace(
            ensemble,
            n_features=n + len(named),
            feature_names=(*names, *(ensemble.own_spelling(group.name) for group in named)),
            value_low=np.append(ensemble.value_low, np.zeros(len(named))),
            value_high=np.append(ensemble.value_high, np.full(len(named), np.inf)),
            categories=(*ensemble.categories, *categories),
        )
        return cls(seen, named)

    @cached_property
    def members(self) -> set[int]:
        """The columns of the model for which these groups speak."""
        return {f for group in self.named for f in group.features}

    def rows(self, rows: Sequence[FloatArray]) -> list[FloatArray]:
        """Rows with the value of each group; those that are none are told apart by higher codes."""
        codes: list[list[float]] = [[] for _ in rows]
        for group in self.named:
            n = len(group.features)
            known = [tuple(float(i == j) for j in range(n)) for i in range(n)]
            known += [] if group.exactly else [(0.0,) * n]
            for row, own in zip(rows, codes, strict=True):
                members = tuple(row[list(group.features)].tolist())
                if members not in known:
                    known.append(members)
                own.append(float(known.index(members)))
        return [np.append(row, own) for row, own in zip(rows, codes, strict=True)]
