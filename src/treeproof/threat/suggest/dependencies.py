"""Columns whose value decides that of another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations.expressions import Implies, Key
from treeproof.threat.suggest import phrases
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import FEW_VALUES, SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion

FEW_ROWS = 200
"""Rows that all pairs of columns are compared in."""
Rows = npt.NDArray[np.bool_] | npt.NDArray[np.intp] | slice


@dataclass(frozen=True, eq=False)
class Dependency:
    """A column of few values, each of which goes with one value of another column."""

    cause: SeenColumn
    effect: SeenColumn
    pairs: list[tuple[float, float]]
    """Values of the one, and what the other is there."""
    rows: int
    likely: float

    def suggestion(self) -> Suggestion:
        """One implication for each value."""
        relations = [
            Implies(phrases.equals(self.cause, value), phrases.equals(self.effect, decided))
            for value, decided in self.pairs
        ]
        summary = f"{phrases.name(self.cause)} decides {phrases.name(self.effect)}, as in {relations[0]}"
        return Suggestion.of("dependency", relations, self.rows, self.likely, summary)


def dependencies(table: SeenTable, columns: list[SeenColumn], settled: set[tuple[Key, Key]]) -> list[Dependency]:
    """The dependencies of columns on those of three to `FEW_VALUES` values; of two that decide each other, one."""
    few = [column for column in columns if 2 <= len(column.levels) <= FEW_VALUES]
    found: dict[tuple[int, int], Dependency] = {}
    rows = table.sampled(few)[:FEW_ROWS]
    for a, cause in enumerate(few):
        # What two values decide, is told by implications.
        for b in _perhaps_decided(rows, a) if len(cause.levels) > 2 else []:
            effect = few[b]
            if a == b or len(cause.levels) < len(effect.levels) or (cause.key, effect.key) in settled:
                continue
            one = _checked(table, cause, effect, len(few) ** 2)
            if one is not None:
                found[a, b] = one
    return _without_repeats(found, len(few))


def pair_counts(one: SeenColumn, other: SeenColumn, rows: Rows = slice(None)) -> npt.NDArray[np.int64]:
    """(levels of the one, levels of the other) in how many of these rows both are present and have them."""
    shape = len(one.levels) + 1, len(other.levels) + 1
    counts = np.bincount(one.level[rows] * shape[1] + other.level[rows], minlength=shape[0] * shape[1])
    return counts.reshape(shape)[:-1, :-1]


def _perhaps_decided(rows: FloatArray, cause: int) -> list[int]:
    """The columns that a column could decide: no two of these rows that are neighbours by its values deny it."""
    rows = rows[np.argsort(rows[:, cause], kind="stable")]
    alike = rows[1:, cause] == rows[:-1, cause]
    # A missing value is neither below nor above another.
    differ = (rows[1:] < rows[:-1]) | (rows[1:] > rows[:-1])
    return [int(effect) for effect in np.flatnonzero(~differ[alike].any(axis=0))]


def _decides(counts: npt.NDArray[np.int64]) -> bool:
    """Whether no value of the first column goes with two of the second."""
    return bool(((counts > 0).sum(axis=1) <= 1).all())


def _checked(table: SeenTable, cause: SeenColumn, effect: SeenColumn, candidates: int) -> Dependency | None:
    rows = cause.present & effect.present
    counts = pair_counts(cause, effect)
    if not _decides(counts) or (counts > 0).any(axis=0).sum() < 2:
        return None
    decided = counts.argmax(axis=1)
    share = counts.sum(axis=0) / counts.sum()
    likely = float((counts.sum(axis=1) / counts.sum() * share[decided]).sum())
    # Where every row has another value, any column is decided.
    repeated = rows & np.isin(cause.numbers, cause.levels[counts.sum(axis=1) > 1])
    if not is_no_accident(repeated, table.first_half, likely, candidates):
        return None
    pairs = [
        (float(cause.levels[v]), float(effect.levels[decided[v]]))
        for v in np.flatnonzero(counts.any(axis=1))
        if cause.value_of(cause.levels[v]) is not None
    ]
    if any(effect.value_of(value) is None for _, value in pairs):
        return None
    return Dependency(cause, effect, pairs, int(rows.sum()), likely)


def _without_repeats(found: dict[tuple[int, int], Dependency], n: int) -> list[Dependency]:
    """Of two columns that decide each other, the category or the first decides; what follows from others is dropped."""
    kept = {
        (a, b): one
        for (a, b), one in found.items()
        if (b, a) not in found or (one.effect.is_category, a) < (one.cause.is_category, b)
    }
    decides = np.zeros((n, n), dtype=np.float32)
    for pair in kept:
        decides[pair] = 1
    chained = decides @ decides > 0
    return [one for pair, one in kept.items() if not chained[pair]]
