"""Columns that never exceed another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations.expressions import Comparison, Key
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import SeenColumn, SeenTable
from treeproof.threat.suggest.phrases import total
from treeproof.threat.suggest.suggestions import Suggestion

FEW_ROWS = 200
"""Rows that all pairs of columns are compared in."""


@dataclass(frozen=True, eq=False)
class Order:
    """A column that is at most another one in every row."""

    lower: SeenColumn
    upper: SeenColumn
    rows: int
    likely: float

    def suggestion(self) -> Suggestion:
        """The order as a relation."""
        relation = Comparison(total({self.lower: 1}), "<=", total({self.upper: 1}))
        return Suggestion.of("order", [relation], self.rows, self.likely)


class Orders(NamedTuple):
    """What is said about orders, and what that implies."""

    told: list[Order]
    """The orders that do not follow from two others."""
    found: list[Order]


def orders(table: SeenTable, columns: list[SeenColumn], known: set[tuple[Key, Key]]) -> Orders:
    """The orders among these columns of numbers that neither ranges imply nor are known, as (lower, upper)."""
    found: dict[tuple[int, int], Order] = {}
    rows = table.sampled(columns)
    for a, lower in enumerate(columns):
        # Most pairs are done with after a few rows.
        likely_ones = np.flatnonzero(~(rows[:FEW_ROWS, a, None] > rows[:FEW_ROWS]).any(axis=0))
        holds = ~(rows[:, a, None] > rows[:, likely_ones]).any(axis=0)
        for b in likely_ones[holds].tolist():
            upper = columns[b]
            if a == b or lower.high <= upper.low or (lower.key, upper.key) in known:
                continue
            order = _checked(table, lower, upper, _likely(rows[:, a], rows[:, b]), len(columns) ** 2)
            if order is not None:
                found[a, b] = order
    below = np.zeros((len(columns), len(columns)), dtype=np.float32)
    for pair in found:
        below[pair] = 1
    chained = below @ below > 0
    return Orders([order for pair, order in found.items() if not chained[pair]], list(found.values()))


def _speaking(lower: FloatArray, upper: FloatArray) -> npt.NDArray[np.bool_]:
    """The rows that say something: that both are 0 at the same time is not an order, but an implication."""
    return np.asarray(~(np.isnan(lower) | np.isnan(upper) | ((lower == 0) & (upper == 0))))


def _likely(lower: FloatArray, upper: FloatArray) -> float:
    """How often a number of the one is at most one of the other, if they are drawn by themselves."""
    speaking = _speaking(lower, upper)
    if not speaking.any():
        return 1.0
    below = np.searchsorted(np.sort(upper[speaking]), lower[speaking], side="left")
    return float(1 - below.mean() / len(below))


def _checked(table: SeenTable, lower: SeenColumn, upper: SeenColumn, likely: float, candidates: int) -> Order | None:
    rows = _speaking(lower.numbers, upper.numbers)
    if not is_no_accident(rows, table.first_half, likely, candidates):
        return None
    if (lower.numbers[rows] > upper.numbers[rows]).any():
        return None
    return Order(lower, upper, int(rows.sum()), likely)
