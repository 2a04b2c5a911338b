"""Three-valued outcomes, their evidence, and measures as bounds."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.results.markup import at_least, at_most, change, first_few, percent, plain
from treeproof.threat.relations import Relation
from treeproof.visible import visible


class Outcome(enum.IntEnum):
    """The answer to "does it hold?": proved, refuted, or open since time ran out or relations were too hard.

    What is refuted has a counterexample, unless the label was wrong before any attack.
    """

    PROVED = 0
    REFUTED = 1
    UNKNOWN = 2

    def __str__(self) -> str:
        return self.name.lower()


class Status(enum.IntEnum):
    """What is known about a point: no attack changes its label, some attack does, or neither is proved."""

    STABLE = 0
    UNSTABLE = 1
    OPEN = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Bounds:
    """A share of rows that is certainly at least `lower` and at most `upper`; equal if every row was decided.

    >>> Bounds(0.75, 0.75), Bounds(0.5, 0.75)
    (Bounds(0.75), Bounds(0.5 … 0.75))
    """

    lower: float
    upper: float

    @classmethod
    def of(cls, outcomes: npt.NDArray[np.int8]) -> Bounds:
        """The share of proved rows; open ones may go either way. Like a mean, it is NaN for no rows."""
        proved, refuted = (int((outcomes == outcome).sum()) for outcome in (Outcome.PROVED, Outcome.REFUTED))
        return cls.of_counts(len(outcomes), proved, refuted)

    @classmethod
    def of_counts(cls, n: int, proved: int, refuted: int) -> Bounds:
        """The same, from the numbers of all rows, of those proved and of those refuted."""
        return cls(proved / n, (n - refuted) / n) if n else cls(math.nan, math.nan)

    @property
    def exact(self) -> bool:
        """Whether every row was decided."""
        return self.lower == self.upper or math.isnan(self.lower)

    def __float__(self) -> float:
        if not self.exact:
            raise ValueError(f"undecided: between {self.lower} and {self.upper}; use .lower or .upper")
        return self.lower

    def __repr__(self) -> str:
        return f"Bounds({self.lower})" if self.exact else f"Bounds({self.lower} … {self.upper})"


@dataclass(frozen=True, eq=False)
class Witness:
    """A counterexample: the row x, a neighbour of it, and that neighbour after an attack, with another label.

    For a row that is not even stable the neighbour is x itself. Rows are in the user's own values: doubles, or objects
    where some columns are categories.
    """

    x: npt.NDArray[Any]
    neighbour: npt.NDArray[Any]
    attacked: npt.NDArray[Any]
    label: Any
    """The label of the neighbour."""
    attacked_label: Any
    """The label after the attack."""
    feature_names: tuple[str, ...] | None = None

    @property
    def is_nearby(self) -> bool:
        """Whether the attack starts at a neighbour, not at the row itself."""
        return bool(differ(self.x, self.neighbour).any())

    @property
    def moved(self) -> dict[int | str, tuple[Any, Any]]:
        """The value before and after of each column that the attacker changed, by name if columns have names."""
        names: Any = range(len(self.x)) if self.feature_names is None else self.feature_names
        return {names[f]: ends for f, ends in self.moved_by_position.items()}

    @property
    def moved_by_position(self) -> dict[int, tuple[Any, Any]]:
        """The same by the positions of the columns."""
        before, after = self.neighbour.tolist(), self.attacked.tolist()
        return {f: (before[f], after[f]) for f in np.flatnonzero(differ(self.neighbour, self.attacked)).tolist()}

    def in_words(self, most: int = 4) -> str:
        """The first few moves, for display: `income 3 → 2.5, age 30 → 31 and 2 more`.

        What a neighbour has elsewhere instead of the row follows: `income 3 → 2.5, of a neighbour with purpose car`.
        """
        moved = self.moved_by_position
        said = self._listed([(f, change(*ends)) for f, ends in moved.items()], most)
        stepped = np.flatnonzero(differ(self.x, self.neighbour)).tolist()
        near = [(f, plain(self.neighbour[f])) for f in stepped if f not in moved]
        return f"{said}, of a neighbour with {self._listed(near, most)}" if near else said

    def _listed(self, said: list[tuple[int, str]], most: int) -> str:
        """What is said of columns, the first few of them."""
        names = [f"feature {f}" if self.feature_names is None else visible(self.feature_names[f]) for f, _ in said]
        parts = [f"{name} {what}" for name, (_, what) in zip(names, said, strict=True)]
        return first_few(parts, most)


def differ(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where two values differ; two missing ones do not."""
    return np.asarray((a != b) & ~((a != a) & (b != b)), dtype=np.bool_)


@dataclass(frozen=True)
class Verdict:
    """What is known about one row."""

    stability: Outcome
    robustness: Outcome
    resilience: Outcome | None
    """None if no neighbourhood was asked for."""
    witness: Witness | None
    """The counterexample to stability if there is one, else to resilience, in the smallest neighbourhood refuted."""
    has_missing: bool = False
    """Whether a value in a column that the attacker can move is missing, and stays so, since he cannot fill it in."""
    breaks: tuple[Relation, ...] = ()
    """The relations that the row itself breaks."""


def short(bounds: Bounds) -> str:
    """`0.912`, or `0.900 to 0.930` where rows are open: what is true lies between these, too."""
    return f"{bounds.lower:.3f}" if bounds.exact else f"{at_least(bounds.lower)} to {at_most(bounds.upper)}"


def in_percent(bounds: Bounds) -> str:
    """A share in percent, or the range that it lies in."""
    return percent(bounds.lower) if bounds.exact else f"{percent(bounds.lower)} to {percent(bounds.upper)}"
