"""What to protect: columns to put out of the attacker's reach, and what that costs at least."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from treeproof.files import as_json
from treeproof.results.asked import ColumnName
from treeproof.results.column_words import joined, quantity
from treeproof.results.explanation_words import column_in_words
from treeproof.results.markup import escape, table
from treeproof.results.measures import missing_in_words
from treeproof.results.relation_words import broken_in_short, kept_in_words
from treeproof.results.verdicts import Bounds, short
from treeproof.results.verification import names_of
from treeproof.results.verification_file import epsilon_to_json
from treeproof.threat.attacker import Attacker
from treeproof.threat.relations import Relation


class Step(NamedTuple):
    """A point of the curve: what is protected, and the share of rows that hold then."""

    columns: tuple[ColumnName, ...]
    share: Bounds


@dataclass(frozen=True, eq=False)
class Protection:
    """The cheapest columns to put out of the attacker's reach so that a share of rows holds.

    A row holds if the model is right about it and no attack changes that; with ε, if no attack on a neighbour changes
    its label, either.
    """

    columns: tuple[ColumnName, ...]
    """What to protect, in the model's order; a one-hot group counts as one column, by its name."""
    share: Bounds
    """The share of rows that hold then."""
    goal: float
    """The share that was asked for."""
    cost: float
    """What these columns cost together; unless costs were given, their number."""
    least: float
    """It is proved that nothing which costs less reaches the goal."""
    curve: tuple[Step, ...]
    """The share against columns protected: one column after another, each the one that seems to help most."""
    rows: int
    accuracy: float
    """The share of rows that the model is right about; no protection reaches more."""
    attacker: Attacker
    epsilon: Any = None
    has_costs: bool = False
    model: str = ""
    relations: tuple[Relation, ...] = ()
    rows_with_missing: int = 0
    """Rows with missing values in columns that the attacker can move; these values stay missing."""
    rows_that_break: int = 0
    """Rows that break the relations themselves."""
    seconds: float = 0.0
    interrupted: bool = False
    attacker_words: str = ""
    """What the attacker may do, in sentences."""

    @property
    def exact(self) -> bool:
        """Whether it is proved that nothing cheaper reaches the goal."""
        return self.least >= self.cost

    @property
    def holds(self) -> str:
        """What rows are that hold."""
        return "robust" if self.epsilon is None else "resilient"

    @property
    def names(self) -> str:
        """The columns in words; "" for none."""
        return joined([column_in_words(name) for name in self.columns]) if self.columns else ""

    def in_words(self) -> list[str]:
        """What to do, what that brings, and what was assumed, in sentences."""
        hold = self.holds
        before = f", {short(self.curve[0].share)} if nothing is protected" if self.curve else ""
        if not self.columns:
            said = [f"Nothing needs protection: {short(self.share)} of {self.rows:,} rows are {hold} as it is."]
        else:
            said = [
                f"Protect {self.names}: then {short(self.share)} of {self.rows:,} rows are {hold}{before}.",
                self._how_sure(),
            ]
        said += [self.attacker_words] * bool(self.attacker_words)
        if self.epsilon is not None:
            said.append(f"Neighbours of a row are within {names_of((self.epsilon,), None)[0]}.")
        said += [kept_in_words(self.relations)] * bool(self.relations)
        said += [f"{broken_in_short(self.rows_that_break)}."] * (self.rows_that_break > 0)
        said += [f"{missing_in_words(self.rows_with_missing, self.rows)}."] * (self.rows_with_missing > 0)
        return said + ["It was interrupted."] * self.interrupted

    def _how_sure(self) -> str:
        what = f"a cost of {quantity(self.cost)}" if self.has_costs else f"{_columns(self.cost)}"
        if self.exact:
            return f"That is {what}, and it is proved that nothing less reaches {quantity(self.goal)}."
        least = f"a cost of {quantity(self.least)}" if self.has_costs else f"{_columns(self.least)}"
        return f"That is {what}; it is proved that it takes at least {least}, and open whether more is needed."

    def __str__(self) -> str:
        """What to do, what that brings, and what was assumed."""
        return "\n".join(self.in_words())

    def _repr_html_(self) -> str:
        """What a notebook shows: the sentences, and the share against columns protected."""
        lines, before = [], set[ColumnName]()
        for at in self.curve:
            new = [column_in_words(name) for name in at.columns if name not in before]
            lines.append((joined(new) if new else "nothing", len(at.columns), short(at.share)))
            before = set(at.columns)
        said = "".join(f"<p>{escape(one)}</p>" for one in self.in_words())
        return said + table(["protected, too", "columns", "share of rows that hold"], lines)

    def __repr__(self) -> str:
        sure = "exact" if self.exact else f"at least {quantity(self.least)}"
        parts = [
            f"{self.names or 'nothing'} at a cost of {quantity(self.cost)}, {sure}",
            f"share {short(self.share)} for a goal of {quantity(self.goal)}",
            f"{self.rows} rows",
        ]
        parts += [broken_in_short(self.rows_that_break)] * (self.rows_that_break > 0)
        parts += [f"{self.rows_with_missing} with missing cells"] * (self.rows_with_missing > 0)
        return f"Protection({'; '.join(parts + ['interrupted'] * self.interrupted)})"

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """All of this as JSON text, also written to `path` if given."""
        content = {
            "format": "treeproof-protection",
            "version": 1,
            "model": self.model,
            "attacker": json.loads(self.attacker.to_json()),
            "epsilon": None if self.epsilon is None else epsilon_to_json(self.epsilon),
            "relations": list(map(str, self.relations)),
            "rows": self.rows,
            "accuracy": self.accuracy,
            "goal": self.goal,
            "columns": list(self.columns),
            "share": [self.share.lower, self.share.upper],
            "cost": self.cost,
            "least": self.least,
            "exact": self.exact,
            "curve": [{"columns": list(at.columns), "share": [at.share.lower, at.share.upper]} for at in self.curve],
            "rows_with_missing": self.rows_with_missing,
            "rows_that_break": self.rows_that_break,
            "interrupted": self.interrupted,
        }
        return as_json(content, path)


def _columns(number: float) -> str:
    """So many columns."""
    return "one column" if number == 1 else f"{quantity(number)} columns"
