"""A ceiling: the share of rows that any classifier can have right under every attack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.results.asked import ColumnName
from treeproof.results.explanation_words import column_in_words
from treeproof.results.markup import at_most, escape, percent
from treeproof.results.sentences import NO_CLASSIFIER

MOST_NAMED = 5
"""Columns that a sentence names."""


@dataclass(frozen=True, eq=False)
class Ceiling:
    """What no classifier can pass on some rows: a share of them, and pairs of rows that show it."""

    accuracy: float
    """No classifier, of whatever kind, is robust (resilient, with ε) at a larger share of the rows."""
    exact: bool
    """Whether some classifier reaches it; if not, it is a bound from above."""
    n_rows: int
    n_classes: int
    conflicts: int
    """Pairs of rows of which a classifier can have only one."""
    pairs: npt.NDArray[np.int64]
    """Some of these pairs (n, 2), by row number, in which no row is twice: each costs every classifier one row.

    With two classes there are as many of them as rows that must be lost.
    """
    reach: str
    """Where rows must not meet: "A(x)", what attacks reach, or "M(x)", what they reach from neighbours."""
    left_out: tuple[ColumnName, ...] = ()
    """Columns in which ε was left out, since single moves of the attacker do not connect all neighbours there."""

    @property
    def lost(self) -> int:
        """So many rows at least are lost by every classifier."""
        return self.n_rows - round(self.accuracy * self.n_rows)

    @property
    def holds(self) -> str:
        """What rows are that hold."""
        return "resilient" if self.reach == "M(x)" or self.left_out else "robust"

    def in_words(self) -> str:
        """What it says and assumes, in a line."""
        best = "and one is at so many" if self.exact else "which is a bound from above"
        most = f"{percent(float(at_most(self.accuracy)))} of these {self.n_rows:,} rows"
        where = "from neighbours" if self.reach == "M(x)" else "by attacks"
        said = (
            f"{NO_CLASSIFIER.format(holds=self.holds, most=most)}, {best}. "
            f"Pairs of rows of different classes that can be made alike {where}, in {self.reach}: {self.conflicts:,}; "
            f"rows lost to them: {self.lost:,}."
        )
        if self.left_out:
            some = [*map(column_in_words, self.left_out[:MOST_NAMED]), *["…"] * (len(self.left_out) > MOST_NAMED)]
            said += f" ε is left out where no single moves lead from neighbour to neighbour: {', '.join(some)}."
        return said

    def __str__(self) -> str:
        return self.in_words()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<p>{escape(self.in_words())}</p>"

    def __repr__(self) -> str:
        sure = "exact" if self.exact else "bound from above"
        parts = [f"{self.accuracy:.4f}, {sure}", f"{self.n_rows} rows", f"{self.conflicts} conflicts by {self.reach}"]
        return f"Ceiling({'; '.join(parts)})"
