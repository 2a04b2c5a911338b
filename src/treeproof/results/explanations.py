"""Why rows have their labels: reasons, smallest reasons and contrastive sets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from treeproof.files import as_json
from treeproof.model.columns import Category, changed_frame, in_own_values
from treeproof.numbers.doubles import FloatArray
from treeproof.results.asked import Asked, ColumnName, Kind, OneOf, Range
from treeproof.results.explanation_file import explanations_content
from treeproof.results.explanation_words import (
    assumptions_in_words,
    column_in_words,
    columns_in_words,
    explanation_in_words,
)
from treeproof.results.markup import escape, table
from treeproof.results.relation_words import count_in_words
from treeproof.results.tabled import RowByRow
from treeproof.results.verdicts import Outcome, differ

MOST_COLUMNS = 12
"""The most columns that are shown of many."""

NAMES: dict[Kind, tuple[str, str]] = {
    "reason": ("reason", "reasons"),
    "smallest": ("smallest reason", "smallest reasons"),
    "contrastive": ("contrastive set", "contrastive sets"),
}
"""What one and several of each kind are called."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why one row has its label: columns that are enough for it, or columns whose change is enough for another."""

    row: int
    """The place of the row among those asked about."""
    columns: tuple[ColumnName, ...]
    """In the model's order. A contrastive set is empty if nothing flips the label, and then that is proved."""
    label: Any
    """What the model predicts for the row."""
    outcome: Outcome
    """PROVED: the columns are enough for the label or, in a contrastive set, to change it. UNKNOWN: none were found."""
    minimal: bool
    """Whether it is proved that no column can be dropped (reason), or that no smaller set exists (others)."""
    ranges: Mapping[ColumnName, Range | OneOf]
    """What each column of a reason may be: its own value unless it was widened. A contrastive set has none."""
    about: Asked
    other: FloatArray | None = None
    """For a contrastive set, a row of another label with changes in these columns only, as doubles; see `changed`."""
    changed_label: Any = None
    """What the model predicts for that row."""

    @property
    def index(self) -> Any:
        """What the row is called in the data frame; its place if there is none."""
        return self.about.index_of(self.row)

    @property
    def changed(self) -> Any:
        """The row that a contrastive set leads to, in the user's own values; None if there is none.

        A data frame with one row where a data frame was given, else an array.
        """
        if self.other is None:
            return None
        known = [(unit.features[0], unit.category) for unit in self.about.units if not unit.is_group]
        categories = [(f, category) for f, category in known if isinstance(category, Category)]
        if self.about.given is None:
            return in_own_values(self.other, categories)
        moved = differ(self.other, self.about.X[self.row])
        own = self.about.given.iloc[[self.row]]
        return changed_frame(own, self.other[np.newaxis], moved[np.newaxis], categories)

    @property
    def changes(self) -> dict[ColumnName, tuple[Any, Any]]:
        """What each column of a contrastive set is in the row, and in `changed`."""
        if self.other is None:
            return {}
        asked = self.about
        return {name: (asked.value(self.row, name), asked.unit[name].value_in(self.other)) for name in self.columns}

    def __str__(self) -> str:
        """The explanation in a sentence."""
        return explanation_in_words(self)

    def __repr__(self) -> str:
        return f"Explanation({self})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the sentence, and what it assumes."""
        parts = [f"<b>{escape(self)}</b>", *map(escape, assumptions_in_words(self.about))]
        return "".join(f"<p>{part}</p>" for part in parts)


class Explanations(RowByRow, Sequence[Explanation]):
    """Explanations of several rows, in the order of the rows."""

    each: tuple[Explanation, ...]

    def __init__(
        self, explanations: Sequence[Explanation], about: Asked, *, seconds: float, interrupted: bool = False
    ) -> None:
        self.each = tuple(explanations)
        self.about = about
        self.seconds = seconds
        self.interrupted = interrupted
        """Whether Ctrl-C ended the work early; rows that were not explained by then say so."""

    @property
    def kind(self) -> Kind:
        """What was looked for."""
        return self.about.kind

    @overload
    def __getitem__(self, which: int) -> Explanation: ...
    @overload
    def __getitem__(self, which: slice) -> Explanations: ...
    def __getitem__(self, which: int | slice) -> Explanation | Explanations:
        if not isinstance(which, slice):
            return self.each[which]
        return Explanations(self.each[which], self.about, seconds=self.seconds, interrupted=self.interrupted)

    @property
    def row_names(self) -> list[Any]:
        """What each row is called in the data frame; its place if there is none."""
        return [one.index for one in self.each]

    @property
    def counts(self) -> dict[ColumnName, int]:
        """How many rows have each column in their explanation, the most common first."""
        return dict(Counter(column for one in self.each for column in one.columns).most_common())

    @property
    def assumptions(self) -> list[str]:
        """What a reader must know to judge the explanations, in sentences."""
        return assumptions_in_words(self.about)

    @property
    def n_minimal(self) -> int:
        """The number of explanations from which it is proved that nothing can be left out."""
        return sum(one.minimal for one in self.each)

    def to_columns(self) -> dict[str, list[Any]]:
        """The columns of a table with one line per row, without pandas."""
        columns: dict[str, list[Any]] = {
            "label": [one.label for one in self.each],
            "explanation": [str(one) for one in self.each],
            "columns": [columns_in_words(one.columns) for one in self.each],
            "size": [len(one.columns) for one in self.each],
            "outcome": [str(one.outcome) for one in self.each],
            "minimal": [one.minimal for one in self.each],
        }
        if self.kind == "contrastive":
            columns["changed_label"] = [one.changed_label for one in self.each]
        return columns

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Everything as JSON text, also written to `path` if given."""
        return as_json(explanations_content(self), path)

    def __repr__(self) -> str:
        return f"Explanations({self.in_short})"

    @property
    def in_short(self) -> str:
        """How many there are, of what size, and what is known of them, in one line."""
        parts = [f"{len(self):,} {NAMES[self.kind][len(self) != 1]}"]
        sizes = [len(one.columns) for one in self.each if one.outcome == Outcome.PROVED]
        if sizes:
            least, most = min(sizes), max(sizes)
            parts.append(f"{least if least == most else f'{least} to {most}'} of {len(self.about.units)} columns")
            parts.append(f"{self.n_minimal:,} proved minimal")
        unknown = len(self) - len(sizes)
        parts += [f"{unknown:,} not found in time"] * (unknown > 0)
        parts += ["against an attacker"] * self.about.against
        parts += ["no domain"] * (self.about.attacker.domain is None and not self.about.against)
        parts += [count_in_words(self.about.relations)] * bool(self.about.relations)
        return ", ".join(parts + ["interrupted"] * self.interrupted)

    def _repr_html_(self) -> str:
        """What a notebook shows: the sentences, how often each column occurs, and what is assumed."""
        besides = ""
        if self.counts:
            lines = [(column_in_words(name), f"{n:,}") for name, n in self.counts.items()]
            besides = table(["column", f"{NAMES[self.kind][1]} with it, of {len(self):,}"], lines[:MOST_COLUMNS])
        title = f"<p><b>Explanations</b> of {escape(f'{self.about.model}: {self.in_short}')}</p>"
        return self._in_html(title, "why", besides)
