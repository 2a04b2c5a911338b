"""Relations that hold in every row of a table, proposed for a person to accept."""

from __future__ import annotations

import itertools
from typing import Any

from treeproof.errors import InvalidInput
from treeproof.threat.relations.expressions import Comparison, Implies, Key, Relation
from treeproof.threat.suggest import phrases
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import SeenColumn, SeenTable, read_columns
from treeproof.threat.suggest.dependencies import dependencies
from treeproof.threat.suggest.exclusions import exclusions
from treeproof.threat.suggest.implications import implications
from treeproof.threat.suggest.kept import Keeping, steps_of
from treeproof.threat.suggest.one_hot import OneHotGroup, one_hot_groups, without_members
from treeproof.threat.suggest.orders import orders
from treeproof.threat.suggest.suggestions import Suggestion, Suggestions
from treeproof.threat.suggest.sums import Equation, equations

KINDS = ("one-hot group", "copy", "sum", "dependency", "order", "implication")
"""In the order in which they are shown."""


def suggest_relations(X: Any, *, limit: int = 20) -> Suggestions:
    """Relations between the columns of `X` that hold in every row, and not by accident, for a person to accept.

    `X` is a data frame, an array, or `{name: values}`. Found are one-hot groups, copies of columns, sums, columns that
    decide others, columns that never exceed another, and implications between simple facts; each must hold in all
    rows, as `verify` reads it with the attacker of `suggest_attacker`, and in each of two random halves it must be
    unlikely that it does so by accident. Of each kind but groups, the best `limit` are returned; none is used unless it
    is given to `relations=`.

    `==` between sums is proposed only for columns that are decimals on a grid. It means decimals if the attacker gives
    these columns a step, as `suggest_attacker` does.

    >>> import numpy as np
    >>> paid = np.random.default_rng(0).integers(0, 100, (200, 2))
    >>> found = suggest_relations({"rent": paid[:, 0], "food": paid[:, 1], "total": paid.sum(axis=1)})
    >>> found.accept(0)
    ['rent + food == total']
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InvalidInput(f"limit must be a whole number of at least 1, got {limit!r}")
    table = read_columns(X)
    groups = one_hot_groups(table)
    found = sorted(_found(table, groups), key=lambda one: -one.expected)
    rows = Keeping(table, steps_of(without_members(table, groups)))
    best: list[Suggestion] = []
    left_out = 0
    for kind in KINDS:
        of_kind = iter([one for one in found if one.kind == kind])
        kept = (one for one in of_kind if rows.keep(one.relations))
        best += kept if kind == KINDS[0] else itertools.islice(kept, limit)
        left_out += len(list(of_kind))
    return Suggestions(best, table.n_rows, left_out, tuple(table.unread))


def _found(table: SeenTable, groups: list[OneHotGroup]) -> list[Suggestion]:
    columns, copies = _without_copies(table)
    numbers = [column for column in columns if not (column.is_category or column.is_binary or column.is_constant)]
    sums = equations(table, numbers)
    settled = _settled(sums)
    added = {pair for one in sums for pair in one.orders()}
    below = orders(table, numbers, settled | added)
    # From here on, a group is one category.
    grouped = {column.key for group in groups for column in group.columns}
    columns = [column for column in columns if column.key not in grouped]
    columns += [group.as_category() for group in groups]
    decided = dependencies(table, [column for column in columns if not column.is_constant], settled)
    settled |= {pair for one in decided for pair in itertools.permutations((one.cause.key, one.effect.key), 2)}
    # Where a column that is never negative is at most one that is 0, it is 0.
    natural = {column.key for column in numbers if column.low >= 0}
    all_orders = added | {(one.lower.key, one.upper.key) for one in below.found}
    zeros = {(upper, lower) for lower, upper in all_orders if lower in natural}
    return [
        *copies,
        *(group.suggestion() for group in groups),
        *(one.suggestion() for one in sums),
        *(one.suggestion() for one in below.told),
        *(one.suggestion() for one in decided),
        *exclusions(table, columns, settled),
        *implications(table, columns, settled, zeros),
    ]


def _settled(sums: list[Equation]) -> set[tuple[Key, Key]]:
    """The pairs of columns of which equations say all, since each decides the other."""
    together: list[set[Key]] = []
    for one in sums:
        if len(one.columns) == 2:
            joined = {column.key for column in one.columns}
            joined = joined.union(*(each for each in together if each & joined))
            together = [*(each for each in together if not each & joined), joined]
    return {pair for each in together for pair in itertools.permutations(each, 2)}


def _without_copies(table: SeenTable) -> tuple[list[SeenColumn], list[Suggestion]]:
    """The columns that are neither ids nor copies of one before, and what is said about copies."""
    kept: dict[tuple[bytes, bool], SeenColumn] = {}
    copies = []
    for column in table.columns:
        if column.is_id:
            continue
        first = kept.setdefault(((column.numbers + 0.0).tobytes(), column.is_category), column)
        if first is column or column.is_constant:
            continue
        likely = float(((column.counts / column.n_present) ** 2).sum())
        same_values = first.values == column.values
        if same_values and is_no_accident(column.present, table.first_half, likely, len(table.columns)):
            copies.append(Suggestion.of("copy", _equal(first, column), column.n_present, likely))
    return list(kept.values()), copies


def _equal(one: SeenColumn, other: SeenColumn) -> list[Relation]:
    """That two columns are equal; categories are compared value by value."""
    if not one.is_category:
        return [Comparison(phrases.total({one: 1}), "==", phrases.total({other: 1}))]
    return [Implies(phrases.equals(one, value), phrases.equals(other, value)) for value in one.levels.tolist()]
