"""What some rows add up to: counts, and the measures they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.results.markup import first_few
from treeproof.results.verdicts import Bounds, Outcome, short
from treeproof.threat.reached import InVain
from treeproof.visible import visible

MAX_CLASSES = 5
"""The most classes that one line speaks of."""

MISSING_STAYS = "missing cells stay missing: the attacker does not fill them"
"""What every answer assumes."""


@dataclass(frozen=True, eq=False)
class Measures:
    """The measures over some rows: all of them, or those of one class."""

    counts: Mapping[str, int]
    """Numbers of rows, in all and of each kind."""
    epsilons: tuple[Any, ...]
    """The neighbourhoods of resilience."""

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
    def open_rows(self) -> int:
        """The number of rows whose robustness or resilience was not decided in time."""
        return self.counts.get("open", 0)

    @property
    def rows_with_missing(self) -> int:
        """The number of rows with missing values in columns that the attacker can move; these values stay missing."""
        return self.counts.get("missing", 0)

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

    def _bounds(self, what: str) -> Bounds:
        proved, refuted = (self.counts.get(f"{what} {outcome}", 0) for outcome in (Outcome.PROVED, Outcome.REFUTED))
        return Bounds.of_counts(self.rows, proved, refuted)

    def to_json(self) -> dict[str, Any]:
        """The measures as JSON has them, a share that may be open as `[lower, upper]`."""
        return {
            "rows": self.rows,
            "accuracy": self.accuracy,
            "robustness": [self.robustness.lower, self.robustness.upper],
            "resilience": [[one.lower, one.upper] for one in self.resilience_by_epsilon],
            "open_rows": self.open_rows,
            "rows_with_missing": self.rows_with_missing,
        }

    def in_words(self) -> str:
        """The measures in one line, without the names of neighbourhoods."""
        parts = [f"{self.rows} rows", f"accuracy {self.accuracy:.3f}", f"robustness {short(self.robustness)}"]
        if self.epsilons:
            parts.append(f"resilience {', '.join(map(short, self.resilience_by_epsilon))}")
        parts += [f"{self.open_rows} open"] * (self.open_rows > 0)
        return ", ".join(parts + [f"{self.rows_with_missing} with missing cells"] * (self.rows_with_missing > 0))

    def __repr__(self) -> str:
        return f"Measures({self.in_words()})"


def measures_in_short(measures: Measures, names: Sequence[str]) -> list[str]:
    """The measures one by one in a few words; `names` are those of neighbourhoods."""
    parts = [f"{measures.rows} rows", f"accuracy {measures.accuracy:.3f}", f"robustness {short(measures.robustness)}"]
    resilience = zip(names, measures.resilience_by_epsilon, strict=True)
    return parts + [f"resilience {short(bounds)} at {visible(name)}" for name, bounds in resilience]


def missing_in_short(rows: int) -> str:
    """What is assumed about so many rows, in a few words."""
    return f"missing cells in {rows} {'row' if rows == 1 else 'rows'} stay missing"


def missing_in_words(rows: int, of: int, assumed: str = MISSING_STAYS) -> str:
    """How many rows have missing values where it matters, and what was assumed about them."""
    have = "row has" if rows == 1 else "rows have"
    return f"{rows:,} of {of:,} {have} missing cells in columns that the attacker may touch; {assumed}"


def prices_in_short(price: FloatArray, missing: npt.NDArray[np.int64], in_vain: InVain) -> str:
    """What rows pay for their changes, inf for none, and what was assumed, to follow how many there are."""
    found = np.isfinite(price)
    said = f", median price {np.median(price[found]):.6g}" if found.any() else ""
    said += f"; {missing_in_short(int((missing > 0).sum()))}" if missing.any() else ""
    unreached = len(in_vain.unreached) if len(price) else 0
    return said + f"; {unreached} movable columns reach no threshold" * (unreached > 0)


def count(
    correct: npt.NDArray[np.bool_],
    has_missing: npt.NDArray[np.bool_],
    robustness: npt.NDArray[np.int8],
    resilience: npt.NDArray[np.int8],
) -> dict[str, int]:
    """What is counted of some rows, from what is known of each; the counts of several sets of rows add up.

    `resilience` is (n_epsilons, n_rows).
    """
    undecided = (robustness == Outcome.UNKNOWN) | (resilience == Outcome.UNKNOWN).any(axis=0)
    kinds = {"correct": correct, "open": undecided, "missing": has_missing}
    found = {"rows": len(correct), **{kind: int(np.count_nonzero(each)) for kind, each in kinds.items()}}
    outcomes = {"robustness": robustness, **{f"resilience {k}": one for k, one in enumerate(resilience)}}
    for what, each in outcomes.items():
        for outcome in (Outcome.PROVED, Outcome.REFUTED):
            found[f"{what} {outcome}"] = int(np.count_nonzero(each == outcome))
    return found


def classes_in_words(by_class: Mapping[Any, Measures]) -> str:
    """The measures of each class in one line; nothing where there is but one class."""
    if len(by_class) < 2:
        return ""
    said = [f"; {visible(label)}: {one.in_words()}" for label, one in by_class.items()]
    return first_few(said, MAX_CLASSES, "", "; and ", "more classes")
