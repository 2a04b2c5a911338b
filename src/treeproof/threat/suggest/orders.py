"""Columns that never exceed another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.suggest import texts
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion


@dataclass(frozen=True, eq=False)
class Order:
    """A column that is at most another one in every row."""

    lower: SeenColumn
    upper: SeenColumn
    rows: int
    likely: float

    def suggestion(self) -> Suggestion:
        """The order as a relation."""
        relation = f"{texts.name(self.lower)} <= {texts.name(self.upper)}"
        return Suggestion("order", (relation,), self.rows, self.rows * (1 - self.likely))


def orders(table: SeenTable, columns: list[SeenColumn], settled: set[frozenset[str | int]]) -> list[Order]:
    """The orders among these columns of numbers that ranges do not imply, nor others, nor what is settled."""
    found: dict[tuple[int, int], Order] = {}
    rows = table.sampled(columns)
    ranked = np.sort(rows, axis=0)  # missing ones last
    for a, lower in enumerate(columns):
        with np.errstate(invalid="ignore"):
            holds = ~(rows[:, a, None] > rows).any(axis=0)
        for b in np.flatnonzero(holds).tolist():
            upper = columns[b]
            if a == b or lower.high <= upper.low or frozenset((lower.key, upper.key)) in settled:
                continue
            order = _checked(table, lower, upper, _likely(ranked[:, a], ranked[:, b]), len(columns) ** 2)
            if order is not None:
                found[a, b] = order
    return _without_chains(found, len(columns))


def _likely(lower: FloatArray, upper: FloatArray) -> float:
    """How often a number of the one is at most one of the other, if they are drawn by themselves; both rise."""
    lower, upper = lower[~np.isnan(lower)], upper[~np.isnan(upper)]
    below = np.searchsorted(upper, lower, side="left")
    return float(1 - below.mean() / len(upper)) if len(upper) and len(lower) else 1.0


def _checked(table: SeenTable, lower: SeenColumn, upper: SeenColumn, likely: float, candidates: int) -> Order | None:
    rows = lower.present & upper.present
    if not is_no_accident(rows, table.first_half, likely, candidates):
        return None
    if (lower.numbers[rows] > upper.numbers[rows]).any():
        return None
    return Order(lower, upper, int(rows.sum()), likely)


def _without_chains(found: dict[tuple[int, int], Order], n_columns: int) -> list[Order]:
    """The orders that do not follow from two others."""
    below: npt.NDArray[np.bool_] = np.zeros((n_columns, n_columns), dtype=bool)
    for pair in found:
        below[pair] = True
    chained = below.astype(np.float32) @ below.astype(np.float32) > 0
    return [order for pair, order in found.items() if not chained[pair]]
