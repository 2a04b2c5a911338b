"""Groups of one-hot columns that an attacker or ε names: columns of categories beside those of the model.

What members are and what the group is are the same thing, so a change of members is paid for once, by the group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from treeproof.check.attackers import Names
from treeproof.check.model_file import names_of, renamed
from treeproof.check.relation_texts import OneHot
from treeproof.check.rules import Rejected

NONE = "(none)"
"""The value of a group in a row where all of its members are 0."""


class Seen:
    """The content of a model file as somebody sees it who names groups: with a further column for each of them."""

    def __init__(self, keys: Collection[Any], model: Mapping[str, Any], groups: Sequence[OneHot]) -> None:
        own_names, blank = names_of(model), "_" if model.get("blanks_underscored") else " "
        spelled = {key.replace(" ", blank) for key in keys if isinstance(key, str)}
        self.model = model
        self.named = [group for group in groups if group.name is not None and group.name.replace(" ", blank) in spelled]
        self.members = {f for group in self.named for f in group.columns}
        """The columns of the model for which these groups speak."""
        if not self.named:
            return
        taken = {*own_names}
        position = Names(model).position
        own = {position(key) for key in keys if not isinstance(key, str) or key.replace(" ", blank) in taken}
        called = [str(group.name).replace(" ", blank) for group in self.named]
        if len({*called, *taken}) < len(called) + len(taken) or own & self.members:
            raise Rejected("a group is named as something else is, or together with its members")
        members: Sequence[Any] = own_names or range(len(model["columns"]))
        values = [[members[f] for f in group.columns] + [NONE] * (not group.exactly) for group in self.named]
        coded = {"coded": True, "by_text": False, "unseen": False}
        groups_as_columns = [
            {"name": name, "low": 0.0, "high": len(each) - 1.0, "missing": False, "category": {"values": each, **coded}}
            for name, each in zip(called, values, strict=True)
        ]
        own_columns = renamed(model["columns"], [*map(str, members)])
        self.model = {**model, "columns": [*own_columns, *groups_as_columns]}

    def rows(self, rows: Sequence[Sequence[float]]) -> list[list[float]]:
        """Rows with the value of each group; those that are none are told apart by higher codes."""
        found = [list(row) for row in rows]
        for group in self.named:
            known = vectors(group)
            for row in found:
                members = tuple(row[f] for f in group.columns)
                if members not in known:
                    known.append(members)
                row.append(float(known.index(members)))
        return found


def vectors(group: OneHot) -> list[tuple[float, ...]]:
    """What the members of a group are in valid rows, in the order of its codes."""
    n = len(group.columns)
    found = [tuple(float(i == j) for j in range(n)) for i in range(n)]
    return found if group.exactly else [*found, (0.0,) * n]
