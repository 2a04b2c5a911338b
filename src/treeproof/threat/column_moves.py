"""What an attacker may do to one column of a model, where that is more than an interval and a cost."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class BoundRule:
    """A rewriting rule of one column. Numbers are the decimals that they print as, and ranges are closed."""

    cost: int
    low: Fraction | None = None
    high: Fraction | None = None
    """It applies to numbers of this range; None: no limit on that side."""
    change: tuple[Fraction, Fraction] | None = None
    """The range of what may be added to a number."""
    codes: tuple[float, ...] | None = None
    """For a category: it applies to the values that rows hold as these doubles."""
    to: float | None = None
    """What rows hold for the value that a category becomes."""


@dataclass(frozen=True)
class ColumnMoves:
    """Every way to change one column, and its price.

    In a column with a `step`, values, the ends of `interval` and `unit` stand for the decimals that they print as.
    """

    domain: tuple[float, float]
    """What values stay inside of, as rows hold them."""
    interval: tuple[float, float] | None = None
    """Moves by a distance; None: there are none. Any distance, where only `ends` or `costs` say what moves do."""
    step: Fraction | None = None
    ends: tuple[float, ...] | None = None
    """The only doubles that moves, and filled-in values, may be, in rising order; None: any number."""
    costs: dict[tuple[float, float], int] | None = None
    """The cost of each move that is possible, by what it starts and ends at; None: every move costs `cost`."""
    cost: int = 1
    rules: tuple[BoundRule, ...] = ()
    blank: int | None = None
    """The cost of making a present value missing; None: that is not possible."""
    fill: int | None = None
    """The cost of making a missing value a present one; None: that is not possible."""
    power: int | None = None
    unit: float = 1.0
    """Where `power` is given, a move costs (distance / unit) ** power."""
    budget: int | None = None
    """What chains of rules may cost at most; None: anything."""

    @property
    def kind(self) -> str:
        """What makes the column more than an interval and a cost, in a word."""
        if self.rules:
            return "rules"
        if self.step is not None:
            return "steps"
        if self.costs is not None:
            return "a cost matrix"
        return "values to blank or fill" if self.blank is not None or self.fill is not None else "a list of values"
