"""What a table of any size adds up to: counts of rows, and the measures they make."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treeproof.results.verdicts import Bounds, Outcome, short
from treeproof.results.verification import Verification, names_of
from treeproof.visible import visible

FORMATS = ("parquet", "csv")
"""What the files of a table's verdicts can be."""


@dataclass(frozen=True, eq=False)
class TableSummary:
    """What `verify_table` returns: the measures over all rows whose verdicts are in `out`, not the rows themselves."""

    out: Path
    """The folder with the verdicts."""
    counts: Mapping[str, int]
    """Numbers of rows, in all and of each kind."""
    epsilons: tuple[Any, ...]
    seconds: float
    """How long it took, earlier runs included."""
    complete: bool = True
    """Whether every row has a verdict in `out`; if not, `resume=True` goes on."""
    interrupted: bool = False
    """Whether Ctrl-C ended the work."""
    epsilon_names: tuple[str, ...] | None = None
    """Names for the neighbourhoods, if their numbers alone say too little."""

    @property
    def rows(self) -> int:
        """The number of rows with a verdict."""
        return self.counts.get("rows", 0)

    def __len__(self) -> int:
        return self.rows

    @property
    def n_correct(self) -> int:
        """The number of rows that the model labels correctly."""
        return self.counts.get("correct", 0)

    @property
    def accuracy(self) -> float:
        """The share of rows with the right label."""
        return self.n_correct / self.rows if self.rows else math.nan

    @property
    def robustness(self) -> Bounds:
        """The share of rows that are correct and stay so under every attack."""
        return self._bounds("robustness")

    @property
    def resilience(self) -> Bounds | None:
        """The share of rows that are robust and stable in their whole neighbourhood, the first of several; or None."""
        return self.resilience_by_epsilon[0] if self.epsilons else None

    @property
    def resilience_by_epsilon(self) -> tuple[Bounds, ...]:
        """Resilience for each of `epsilons`, in that order."""
        return tuple(self._bounds(f"resilience {k}") for k in range(len(self.epsilons)))

    @property
    def names_of_epsilons(self) -> list[str]:
        """Short names of the neighbourhoods, as `Verification` has them."""
        return names_of(self.epsilons, self.epsilon_names)

    def _bounds(self, what: str) -> Bounds:
        proved, refuted = (self.counts.get(f"{what} {outcome}", 0) for outcome in (Outcome.PROVED, Outcome.REFUTED))
        return Bounds.of_counts(self.rows, proved, refuted)

    def __repr__(self) -> str:
        parts = [f"{self.rows} rows", f"accuracy {self.accuracy:.3f}", f"robustness {short(self.robustness)}"]
        for name, bounds in zip(self.names_of_epsilons, self.resilience_by_epsilon, strict=True):
            parts.append(f"resilience {short(bounds)} at {visible(name)}")
        parts += ["interrupted"] * self.interrupted + ["not complete"] * (not self.complete)
        return f"TableSummary({', '.join(parts)})"


def counts_of(result: Verification) -> dict[str, int]:
    """What is counted of some rows; the counts of several results add up."""
    found = {"rows": len(result), "correct": int(result.correct.sum())}
    outcomes = {"robustness": result.robustness_outcomes}
    outcomes |= {f"resilience {k}": one for k, one in enumerate(result.resilience_by_epsilon)}
    for what, each in outcomes.items():
        for outcome in (Outcome.PROVED, Outcome.REFUTED):
            found[f"{what} {outcome}"] = int(np.count_nonzero(each == outcome))
    return found
