"""Why rows have their labels: reasons, smallest reasons, contrastive sets, and what was asked about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, overload

from treeproof.model.columns import Categories
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.threat.attacker import Attacker
from treeproof.threat.relations import Relation

Kind: TypeAlias = Literal["reason", "smallest", "contrastive"]
"""What is looked for: a set of columns that is enough for the label, a smallest one, or a smallest one to change it."""

ColumnName: TypeAlias = "str | int"
"""The name of a column or a one-hot group; the position of a column that has no name."""


class Range(NamedTuple):
    """The doubles from `low` to `high`, both included; a missing value has NaN for both."""

    low: float
    high: float


class OneOf(tuple[Any, ...]):
    """The values that a category may have; None stands for a missing one.

    >>> OneOf(["car", "radio"]), OneOf(["car"]) == ("car",)
    (OneOf('car', 'radio'), True)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"OneOf({', '.join(map(repr, self))})"


@dataclass(frozen=True, eq=False)
class Asked:
    """What was asked: about which rows of which model, and what else these rows could be."""

    kind: Kind
    attacker: Attacker
    """Who changes columns; unless `against` is set, somebody who may change all of them to anything in the domain."""
    X: FloatArray
    model: str
    """Where the model comes from, for people to read."""
    decision: str
    """The cut that decides, in words; "" where it is the library's own."""
    fingerprint: str
    feature_names: tuple[str, ...] | None = None
    categories: Categories = ()
    inflate: bool = False
    """Whether values of a reason were widened to ranges and sets."""
    against: bool = False
    """Whether the attacker is one that the user gave."""
    missing: tuple[ColumnName, ...] = ()
    """The columns where a value may become missing, if nobody gave an attacker."""
    relations: tuple[Relation, ...] = ()
    given: Any = None
    """The data frame of these rows, if it is one of pandas."""

    @classmethod
    def of(cls, ensemble: Ensemble, kind: Kind, attacker: Attacker, X: FloatArray, **more: Any) -> Asked:
        """The question about rows of a model; `more` are the fields that neither of them knows."""
        return cls(
            kind,
            attacker,
            X,
            model=ensemble.origin,
            decision=ensemble.decision_text,
            fingerprint=ensemble.fingerprint.hex(),
            feature_names=ensemble.feature_names,
            categories=ensemble.categories,
            **more,
        )


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
    index: Any = None
    """The row's label in the index of the data frame; its place if there is none."""
    changed: Any = None
    """For a contrastive set, a row of another label with changes in these columns only, in the user's own values."""
    changed_label: Any = None
    """What the model predicts for that row."""


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
