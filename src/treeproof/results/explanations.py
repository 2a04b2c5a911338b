"""Why rows have their labels: reasons, smallest reasons and contrastive sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from treeproof.model.columns import Category, changed_frame, in_own_values
from treeproof.numbers.doubles import FloatArray
from treeproof.results.asked import Asked, ColumnName, Kind, OneOf, Range
from treeproof.results.verdicts import Outcome, differ


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


class Explanations(Sequence[Explanation]):
    """Explanations of several rows, in the order of the rows."""

    def __init__(
        self, explanations: Sequence[Explanation], about: Asked, *, seconds: float, interrupted: bool = False
    ) -> None:
        self._all = tuple(explanations)
        self.about = about
        self.seconds = seconds
        self.interrupted = interrupted
        """Whether the work ended early; rows that were not explained are UNKNOWN."""

    @property
    def kind(self) -> Kind:
        """What was looked for."""
        return self.about.kind

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self._all)

    @overload
    def __getitem__(self, which: int) -> Explanation: ...
    @overload
    def __getitem__(self, which: slice) -> Explanations: ...
    def __getitem__(self, which: int | slice) -> Explanation | Explanations:
        if not isinstance(which, slice):
            return self._all[which]
        return Explanations(self._all[which], self.about, seconds=self.seconds, interrupted=self.interrupted)

    @property
    def counts(self) -> dict[ColumnName, int]:
        """How many rows have each column in their explanation, the most common first."""
        return dict(Counter(column for one in self._all for column in one.columns).most_common())
