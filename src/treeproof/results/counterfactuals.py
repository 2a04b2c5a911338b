"""What is known about changes that give rows a wanted label."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from treeproof.files import as_json
from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.doubles import FloatArray
from treeproof.results.explanation_file import counterfactuals_content
from treeproof.results.explanation_words import columns_in_words, counterfactual_in_words, wanted_in_words
from treeproof.results.markup import escape
from treeproof.results.measures import prices_in_short
from treeproof.results.tabled import RowByRow
from treeproof.results.verdicts import Outcome
from treeproof.threat.attacker import Attacker
from treeproof.threat.reached import InVain
from treeproof.threat.relations import Relation


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """The cheapest change of one row to a wanted label.

    PROVED: nothing is cheaper, or if the price is inf, there is no such change at all. UNKNOWN: time was up before, and
    this is the best that was found, if the price is finite.
    """

    place: int
    """The row's number in X."""
    row: Any
    """The row after the change, in the user's own values: one row of X, or of a data frame a frame with one row.

    It is unchanged where there is no change to a wanted label, and where none is needed.
    """
    price: float
    """The Lp norm, or the sum of costs; 0: the row has a wanted label already; inf: nothing was found."""
    outcome: Outcome
    least: float
    """It is proved that nothing costs less."""
    label: Any
    """What the model predicts for the row after the change."""
    changes: Mapping[str | int, tuple[Any, Any]]
    """Per column that changes, or one-hot group, by name or position: its value before and after."""
    others: tuple[Counterfactual, ...] = ()
    """The next ones, if asked for: each the cheapest that needs other columns than all before it.

    That is: it does not change all columns that one before it changes. If there are fewer than asked for, the last has
    the price inf, and says whether it is proved that there are no more.
    """
    holds: bool = False
    """Whether a change must hold within ε: only such changes are found, and only among them nothing is cheaper."""

    @property
    def found(self) -> bool:
        """Whether there is a row with a wanted label."""
        return not math.isinf(self.price)

    def __str__(self) -> str:
        """The cheapest change in a sentence."""
        return counterfactual_in_words(self)

    def __repr__(self) -> str:
        if not self.found:
            none = "none exists, proved" if self.outcome == Outcome.PROVED else "none found in time"
            return f"Counterfactual({none})"
        what = ", ".join(f"{column}: {before!r} to {after!r}" for column, (before, after) in self.changes.items())
        proved = "proved cheapest" if self.outcome == Outcome.PROVED else f"at least {self.least:.6g} is needed"
        more = f", {len(self.others)} more" if self.others else ""
        return f"Counterfactual({self.label!r} for {self.price:.6g}, {proved}: {what or 'no change'}{more})"


class Wanted(NamedTuple):
    """What was asked: changes by whom, of which model, to which labels."""

    model: str
    fingerprint: str
    feature_names: tuple[str, ...] | None
    to: tuple[Any, ...]
    attacker: Attacker
    """As the user describes who changes rows and how; its budget or radius binds only if `within`."""
    within: bool
    epsilon: Any
    """The neighbours that must have wanted labels, too; None: that was not asked for."""
    relations: tuple[Relation, ...]
    k: int
    attacker_words: str = ""
    """What may be changed, in sentences."""


@dataclass(frozen=True, eq=False)
class Counterfactuals(FieldsOnly, RowByRow, Sequence[Counterfactual]):
    """One counterfactual per row, in the order of X."""

    each: tuple[Counterfactual, ...]
    rows: Any
    """All rows after their changes, like X; a row without a change to a wanted label is unchanged."""
    about: Wanted
    missing: npt.NDArray[np.int64]
    """(n,) how many values of the row are missing and stay so: the attacker cannot fill them in."""
    in_vain: InVain
    """The columns that no move brings to a threshold of the model, from any row."""
    seconds: float
    interrupted: bool
    """Whether Ctrl-C ended the search early."""

    @overload
    def __getitem__(self, at: int) -> Counterfactual: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Counterfactual]: ...
    def __getitem__(self, at: int | slice) -> Counterfactual | Sequence[Counterfactual]:
        return self.each[at]

    @cached_property
    def price(self) -> FloatArray:
        """(n,) the price of each row's change; inf: none was found."""
        return np.array([one.price for one in self.each], dtype=np.float64)

    @cached_property
    def exact(self) -> npt.NDArray[np.bool_]:
        """(n,) whether it is proved that nothing is cheaper, or that there is nothing."""
        return np.array([one.outcome == Outcome.PROVED for one in self.each], dtype=np.bool_)

    @property
    def row_names(self) -> Sequence[Any]:
        """What each row is called in the data frame; its place if there is none."""
        return self.rows.index.tolist() if hasattr(self.rows, "index") else range(len(self))

    @property
    def assumptions(self) -> list[str]:
        """What a reader must know to judge the changes, in sentences."""
        return wanted_in_words(self)

    def to_columns(self) -> dict[str, list[Any]]:
        """The columns of a table with one line per row, without pandas."""
        return {
            "label": [one.label for one in self.each],
            "change": [str(one) for one in self.each],
            "columns": [columns_in_words(list(one.changes)) for one in self.each],
            "price": self.price.tolist(),
            "outcome": [str(one.outcome) for one in self.each],
        }

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Everything as JSON text, also written to `path` if given."""
        return as_json(counterfactuals_content(self), path)

    def _repr_html_(self) -> str:
        return self._in_html(f"<p><b>Counterfactuals</b> of {escape(self.about.model)}</p>", "change")

    def __repr__(self) -> str:
        found = np.isfinite(self.price)
        text = f"{len(self)} rows, {int(found.sum())} with a change to {' or '.join(map(repr, self.about.to))}"
        text += f", {int((self.exact & ~found).sum())} proved to have none, {int((~self.exact).sum())} open"
        return f"Counterfactuals({text}{prices_in_short(self.price, self.missing, self.in_vain)})"
