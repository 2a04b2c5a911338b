"""Columns whose value decides that of another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.suggest import texts
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import FEW_VALUES, SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion


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
        relations = tuple(
            texts.implies(texts.equals(self.cause, value), texts.equals(self.effect, decided))
            for value, decided in self.pairs
        )
        summary = f"{texts.name(self.cause)} decides {texts.name(self.effect)}, as in {relations[0]}"
        return Suggestion("dependency", relations, self.rows, self.rows * (1 - self.likely), summary)


def dependencies(table: SeenTable, columns: list[SeenColumn]) -> list[Dependency]:
    """The dependencies between columns of three to `FEW_VALUES` values; of two that decide each other, one."""
    few = [column for column in columns if 2 <= len(column.levels) <= FEW_VALUES]
    rows = table.sampled(few)
    found: dict[tuple[int, int], Dependency] = {}
    for a, cause in enumerate(few):
        for b, effect in enumerate(few):
            # What two values decide, is told by implications.
            if a == b or len(cause.levels) < max(3, len(effect.levels)) or not _decides(rows[:, a], rows[:, b]):
                continue
            one = _checked(table, cause, effect, len(few) ** 2)
            if one is not None:
                found[a, b] = one
    return _without_repeats(found, len(few))


def _coded(column: SeenColumn, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    return np.searchsorted(column.levels, column.numbers[rows])


def _decides(cause: FloatArray, effect: FloatArray) -> bool:
    """Whether no value of the one goes with two of the other, in these rows."""
    both = ~(np.isnan(cause) | np.isnan(effect))
    pairs = np.unique(np.stack((cause[both], effect[both])), axis=1)
    return len(np.unique(pairs[0])) == pairs.shape[1]


def _checked(table: SeenTable, cause: SeenColumn, effect: SeenColumn, candidates: int) -> Dependency | None:
    rows = cause.present & effect.present
    of_cause, of_effect = _coded(cause, rows), _coded(effect, rows)
    counts = np.zeros((len(cause.levels), len(effect.levels)), dtype=np.int64)
    np.add.at(counts, (of_cause, of_effect), 1)
    seen = counts.any(axis=1)
    if ((counts > 0).sum(axis=1) > 1).any() or (counts > 0).any(axis=0).sum() < 2:
        return None
    decided = counts.argmax(axis=1)
    share = counts.sum(axis=0) / counts.sum()
    likely = float((counts.sum(axis=1) / counts.sum() * share[decided]).sum())
    # The first row with a value says nothing.
    again = np.zeros(len(of_cause), dtype=bool)
    again[np.unique(of_cause, return_index=True)[1]] = True
    speaking = rows.copy()
    speaking[np.flatnonzero(rows)[again]] = False
    if not is_no_accident(speaking, table.first_half, likely, candidates):
        return None
    pairs = [(float(cause.levels[v]), float(effect.levels[decided[v]])) for v in np.flatnonzero(seen)]
    return Dependency(cause, effect, pairs, int(rows.sum()), likely)


def _without_repeats(found: dict[tuple[int, int], Dependency], n: int) -> list[Dependency]:
    """Of two columns that decide each other, the category or the first decides; what follows from two others is left out."""
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
