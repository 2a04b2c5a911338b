"""Groups of 0/1 columns of which exactly one, or at most one, is 1 in every row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations.expressions import Group, value_text
from treeproof.threat.suggest import phrases
from treeproof.threat.suggest.chance import LIKELY, is_no_accident
from treeproof.threat.suggest.columns import SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion

JOINT = re.compile(r"[_=.:|/ \-\[<]+")
"""What stands between the name of a category and one of its values in the name of a column."""
BLOCK = 2**16
"""Rows that are counted at a time."""


@dataclass(frozen=True, eq=False)
class OneHotGroup:
    """Columns that stand for one category."""

    columns: list[SeenColumn]
    exactly: bool
    """Whether one of them is 1 in every row; otherwise all may be 0, as where the first was dropped."""
    name: str
    likely: float
    """The share of rows in which it would be so by chance."""

    def suggestion(self) -> Suggestion:
        """The group as a relation."""
        relation = Group(tuple(column.key for column in self.columns), self.exactly, self.name)
        names = [phrases.name(column) for column in self.columns]
        short = f"{relation.kind}({names[0]}, …, {names[-1]}, name={value_text(self.name)}), {len(names)} columns"
        n_rows = len(self.columns[0].numbers)
        return Suggestion.of("one-hot group", [relation], n_rows, self.likely, short if len(names) > 3 else "")

    def as_category(self) -> SeenColumn:
        """The group as one column."""
        ones = np.stack([column.numbers == 1 for column in self.columns], axis=1)
        numbers = np.where(ones.any(axis=1), ones.argmax(axis=1), len(self.columns)).astype(np.float64)
        keys = tuple(column.key for column in self.columns)
        return SeenColumn(self.name, numbers, keys, is_group=True)


def one_hot_groups(table: SeenTable) -> list[OneHotGroup]:
    """The groups among the columns, each column in one group at most."""
    columns = [column for column in table.columns if column.is_binary and not column.n_missing]
    if len(columns) < 2:
        return []
    search = _Search(table, columns, _counted_together(columns))
    taken: set[int] = set()
    groups: list[OneHotGroup] = []
    for exactly in (True, False):
        for members in [*search.by_name(), *search.side_by_side()]:
            group = None if taken & set(members) else search.group(members, exactly)
            if group is not None:
                taken |= set(members)
                groups.append(group)
    groups.sort(key=lambda group: table.columns.index(group.columns[0]))
    return _named(groups, {str(column.key) for column in table.columns})


def without_members(table: SeenTable, groups: list[OneHotGroup]) -> Iterator[SeenColumn]:
    """The columns that are in no group."""
    members = {column.key for group in groups for column in group.columns}
    return (column for column in table.columns if column.key not in members)


def _named(groups: list[OneHotGroup], taken: set[str]) -> list[OneHotGroup]:
    """The groups, each with a name that no column and no other group has."""
    named = []
    for number, group in enumerate(groups, start=1):
        name = group.name or f"group {number}"
        while name in taken:
            name += " group"
        taken.add(name)
        named.append(replace(group, name=name))
    return named


def _counted_together(columns: list[SeenColumn]) -> npt.NDArray[np.int64]:
    """(n, n) in how many rows two columns are 1."""
    counts = np.zeros((len(columns), len(columns)), dtype=np.int64)
    for first in range(0, len(columns[0].numbers), BLOCK):
        # Whole numbers up to the size of a block are exact.
        ones = np.stack([column.numbers[first : first + BLOCK] for column in columns], axis=1).astype(np.float32)
        counts += np.rint(ones.T @ ones).astype(np.int64)
    return counts


class _Search:
    """Sets of columns that could be groups: those whose names begin alike, and neighbours that are never 1 together."""

    def __init__(self, table: SeenTable, columns: list[SeenColumn], together: npt.NDArray[np.int64]) -> None:
        self.table, self.columns, self.together = table, columns, together
        self.share: FloatArray = np.diag(together) / table.n_rows
        self.exclusive = together == 0
        np.fill_diagonal(self.exclusive, True)

    def by_name(self) -> Iterator[list[int]]:
        """Columns whose names begin alike, shortest beginnings first: what is no group may consist of some."""
        found: dict[str, list[int]] = {}
        for f, column in enumerate(self.columns):
            for joint in JOINT.finditer(str(column.key)):
                found.setdefault(str(column.key)[: joint.start()], []).append(f)
        yield from (found[start] for start in sorted(found, key=len) if len(found[start]) > 1)

    def side_by_side(self) -> Iterator[list[int]]:
        """Neighbours of which each is never 1 together with those before, until one of them always is."""
        n, first = len(self.columns), 0
        while first < n:
            members, count = [first], int(self.together[first, first])
            for f in range(first + 1, n):
                if not self.exclusive[f, members].all() or count == self.table.n_rows:
                    break
                members.append(f)
                count += int(self.together[f, f])
            if len(members) > 1:
                yield members
            first = members[-1] + 1

    def group(self, members: Sequence[int], exactly: bool) -> OneHotGroup | None:
        """The group that these columns are, unless one row says otherwise or it may be an accident."""
        if len(members) < 2 or not self.exclusive[np.ix_(members, members)].all():
            return None
        if (int(np.diag(self.together)[members].sum()) == self.table.n_rows) != exactly:
            return None
        share = self.share[members]
        none = float(np.prod(1 - share))
        one = float((none / (1 - share) * share).sum())
        likely = one if exactly else one + none
        columns = [self.columns[f] for f in members]
        name = _beginning(columns)
        every = np.ones(self.table.n_rows, dtype=bool)
        # Names that begin alike speak for themselves.
        candidates, most = (1, 1.0) if name else (len(self.columns) ** 2, LIKELY)
        if not is_no_accident(every, self.table.first_half, likely, candidates, most):
            return None
        return OneHotGroup(columns, exactly, name, likely)


def _beginning(columns: list[SeenColumn]) -> str:
    """What the names of the columns have in common before a joint; "" if there is nothing."""
    names = [str(column.key) for column in columns]
    for joint in reversed(list(JOINT.finditer(names[0]))):
        if all(name.startswith(names[0][: joint.end()]) for name in names):
            return names[0][: joint.start()]
    return ""
