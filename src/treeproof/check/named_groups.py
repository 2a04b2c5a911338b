"""Groups of one-hot columns that an attacker or ε names: columns of categories beside those of the model.

What members are and what the group is are the same thing, so a change of members is paid for once, by the group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

NONE = "(none)"
"""The value of a group in a row where all of its members are 0."""


class Group(NamedTuple):
    """Columns of which one is 1 and the others are 0; if not `exactly` one, all of them may be 0."""

    name: str
    features: tuple[int, ...]
    exactly: bool


class Seen:
    """The content of a model file as somebody sees it who names groups: with a further column for each of them."""

    def __init__(self, keys: Collection[Any], model: Mapping[str, Any], groups: Sequence[Group]) -> None:
        blank = "_" if model.get("blanks_underscored") else " "
        spelled = {key.replace(" ", blank) for key in keys if isinstance(key, str)}
        self.model = model
        self.named = [group for group in groups if group.name.replace(" ", blank) in spelled]
        self.members = {f for group in self.named for f in group.features}
        """The columns of the model for which these groups speak."""
        if not self.named:
            return
        n, members = model["n_features"], model["feature_names"] or range(model["n_features"])
        categories = [
            {
                "feature": n + number,
                "values": [*(members[f] for f in group.features), *([] if group.exactly else [NONE])],
                **{"coded": True, "by_text": False, "unseen": False},
            }
            for number, group in enumerate(self.named)
        ]
        self.model = {
            **model,
            "n_features": n + len(self.named),
            "feature_names": [*map(str, members), *(group.name.replace(" ", blank) for group in self.named)],
            "value_low": [*model["value_low"], *(0.0 for _ in self.named)],
            "value_high": [*model["value_high"], *(math.inf for _ in self.named)],
            "categories": [*model.get("categories", ()), *categories],
        }

    def rows(self, rows: Sequence[Sequence[float]]) -> list[list[float]]:
        """Rows with the value of each group; those that are none are told apart by higher codes."""
        found = [list(row) for row in rows]
        for group in self.named:
            n = len(group.features)
            known = [tuple(float(i == j) for j in range(n)) for i in range(n)]
            known += [] if group.exactly else [(0.0,) * n]
            for row in found:
                members = tuple(row[f] for f in group.features)
                if members not in known:
                    known.append(members)
                row.append(float(known.index(members)))
        return found
