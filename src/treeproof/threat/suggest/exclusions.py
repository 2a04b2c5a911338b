"""Values of two categories that never occur together."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from treeproof.threat.relations.expressions import Implies, Key, Relation
from treeproof.threat.suggest import phrases
from treeproof.threat.suggest.chance import ACCIDENT
from treeproof.threat.suggest.columns import FEW_VALUES, SeenColumn, SeenTable
from treeproof.threat.suggest.dependencies import pair_counts
from treeproof.threat.suggest.suggestions import Suggestion


def exclusions(table: SeenTable, columns: list[SeenColumn], settled: set[tuple[Key, Key]]) -> list[Suggestion]:
    """For each two categories, the values that never occur together, although they would by chance."""
    few = [column for column in columns if column.is_category and 2 <= len(column.levels) <= FEW_VALUES]
    cells = sum(len(column.levels) for column in few) ** 2
    told = []
    for a, one in enumerate(few):
        for other in few[a + 1 :]:
            if (one.key, other.key) not in settled:
                told += _between(table, one, other, cells)
    return told


def _between(table: SeenTable, one: SeenColumn, other: SeenColumn, cells: int) -> list[Suggestion]:
    halves = [pair_counts(one, other, half) for half in (table.first_half, ~table.first_half)]
    counts = halves[0] + halves[1]
    least = ACCIDENT + math.log(cells)
    excluded = (counts == 0) & np.logical_and.reduce([_expected(half) >= least for half in halves])
    excluded &= _sayable(one)[:, None] & _sayable(other)[None, :]
    if not excluded.any():
        return []
    expected = float(_expected(counts)[excluded].sum())
    if excluded.any(axis=1).sum() > excluded.any(axis=0).sum():
        one, other, counts, excluded = other, one, counts.T, excluded.T
    relations = tuple(
        Implies(phrases.equals(one, one.levels[v]), _left(other, counts[v], excluded[v]))
        for v in np.flatnonzero(excluded.any(axis=1))
    )
    n_cells = int(excluded.sum())
    names = f"{phrases.name(one)} and {phrases.name(other)}"
    summary = f"{relations[0]}; {n_cells} combinations of {names} never occur"
    speaking = int(counts[excluded.any(axis=1)].sum())
    return [Suggestion("implication", tuple(map(str, relations)), speaking, expected, summary if n_cells > 1 else "")]


def _expected(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """How often values would occur together if they had nothing to do with each other."""
    return np.asarray(np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(counts.sum(), 1))


def _sayable(column: SeenColumn) -> npt.NDArray[np.bool_]:
    return np.array([column.value_of(level) is not None for level in column.levels])


def _left(column: SeenColumn, counts: npt.NDArray[np.int64], excluded: npt.NDArray[np.bool_]) -> Relation:
    """That the column has none of the excluded values, or one of the others, if these all occur and are fewer."""
    left = ~excluded
    if counts[left].all() and left.sum() < excluded.sum() and _sayable(column)[left].all():
        return phrases.among(column, column.levels[left].tolist())
    return phrases.not_among(column, column.levels[excluded].tolist())
