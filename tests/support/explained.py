"""Explanations by their definitions: every row that can become of one, every subset of columns.

Nothing here comes from treeproof's engines. A *unit* is a column, or the columns of a one-hot group, by its number.
What can become of a row is a list of `Made`; where it comes from is the business of `tests/support/made_rows.py`.

- *sufficient*: a set of units such that nothing which leaves them as they are has a label that counts as a flip;
- *reason*: what is left of all units when each is dropped, in an order, if the rest is sufficient without it;
- *contrastive*: a set of units such that a change of no others can flip the label;
- *protected*: the units that nobody may change, in all rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from treeproof.model.ensemble import Ensemble

Units: TypeAlias = "frozenset[int]"
Price: TypeAlias = "Fraction | int"


class Made(NamedTuple):
    """A valid row that can become of another: the units that differ, what that costs, and its label."""

    moved: Units
    price: Price
    label: Any
    row: tuple[float, ...] = ()


def subsets(n_units: int) -> Iterator[Units]:
    """All sets of units, smaller ones first."""
    for size in range(n_units + 1):
        yield from map(frozenset, itertools.combinations(range(n_units), size))


def minimal_of(sets: Iterable[Units]) -> set[Units]:
    """Those of the sets that contain no other."""
    distinct = set(sets)
    return {one for one in distinct if not any(other < one for other in distinct)}


def hitting_sets(sets: Collection[Units], n_units: int) -> set[Units]:
    """The minimal sets that share a unit with each of these."""
    return minimal_of(each for each in subsets(n_units) if all(each & one for one in sets))


@dataclass(frozen=True)
class Explained:
    """One row: its label, and all that can become of it; a flip is a label of the goal, or without one any other."""

    n_units: int
    label: Any
    made: Sequence[Made]
    goal: frozenset[Any] = frozenset()

    def is_flip(self, label: Any) -> bool:
        """Whether it is a change for the worse to get this label."""
        return label in self.goal and self.label not in self.goal if self.goal else bool(label != self.label)

    @cached_property
    def flips(self) -> set[Units]:
        """What changes where the label flips."""
        return {one.moved for one in self.made if self.is_flip(one.label)}

    # --- reasons ---------------------------------------------------------------------------------------------------

    def is_sufficient(self, kept: Collection[int]) -> bool:
        """Whether nothing that leaves these units as they are flips the label."""
        return all(moved & frozenset(kept) for moved in self.flips)

    def reason(self, dropped: Sequence[int]) -> Units:
        """What is left when units are dropped in this order, the first one first, if the rest is enough."""
        kept = frozenset(range(self.n_units))
        for unit in dropped:
            if self.is_sufficient(kept - {unit}):
                kept -= {unit}
        return kept

    def is_reason(self, kept: Units) -> bool:
        """Whether they are sufficient and none of them can be dropped."""
        return self.is_sufficient(kept) and not any(self.is_sufficient(kept - {unit}) for unit in kept)

    @cached_property
    def sufficient_sets(self) -> list[Units]:
        """All of them, smaller ones first."""
        return [kept for kept in subsets(self.n_units) if self.is_sufficient(kept)]

    @cached_property
    def reasons(self) -> set[Units]:
        """All reasons, by the definition."""
        return {kept for kept in self.sufficient_sets if self.is_reason(kept)}

    @property
    def smallest(self) -> int:
        """The fewest units that are sufficient."""
        return len(self.sufficient_sets[0])

    # --- contrastive sets ------------------------------------------------------------------------------------------

    def can_flip(self, changed: Collection[int]) -> bool:
        """Whether a change of these units, and of no others, can flip the label."""
        return any(moved <= frozenset(changed) for moved in self.flips)

    @cached_property
    def contrastive_sets(self) -> set[Units]:
        """The minimal ones, by all subsets."""
        return minimal_of(changed for changed in subsets(self.n_units) if self.can_flip(changed))

    @property
    def fewest_changes(self) -> int | None:
        """The size of the smallest contrastive set; None if nothing flips the label."""
        return min(map(len, self.contrastive_sets), default=None)

    # --- counterfactuals -------------------------------------------------------------------------------------------

    def cheapest(
        self, to: Collection[Any], earlier: Iterable[Units] = (), holds: Callable[[Made], bool] = lambda _: True
    ) -> Price | float:
        """The least price of a label of `to`; infinite if there is none.

        What contains all changed units of an earlier one does not count, and neither does what does not hold.
        """
        before = list(earlier)
        candidates = (
            one for one in self.made if one.label in to and not any(changed <= one.moved for changed in before)
        )
        for one in sorted(candidates, key=lambda one: one.price):
            if holds(one):
                return one.price
        return math.inf


# --- the order in which units are dropped ----------------------------------------------------------------------------


def drop_order(ensemble: Ensemble, units: Sequence[Sequence[int]], wanted: Sequence[int] = ()) -> list[int]:
    """The units, the first one dropped first.

    `wanted` are the most wanted ones in order, which are dropped last. Of the others, the one that fewest tests use
    comes first, and of these the last.
    """
    tests = [sum(int(np.count_nonzero(ensemble.feature == f)) for f in unit) for unit in units]
    others = [unit for unit in range(len(units)) if unit not in wanted]
    return [*sorted(others, key=lambda unit: (tests[unit], -unit)), *reversed(wanted)]


# --- ranges ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inflation:
    """What units may be if they are free, their own value in a row, and whether rows flip the label.

    `values` of a unit in `numbers` are in order; of others, in that of the values that the model knows.
    """

    own: Sequence[tuple[float, ...]]
    values: Sequence[Sequence[tuple[float, ...]]]
    numbers: Collection[int]
    flips: Callable[[Sequence[Sequence[tuple[float, ...]]]], bool]
    """Whether any valid row with one of these values in each unit flips the label."""
    missing: Collection[int] = field(default=())
    """Units that are missing in the row: these are kept as they are."""

    def is_sufficient(self, kept: Mapping[int, Sequence[tuple[float, ...]]]) -> bool:
        """Whether all valid rows with these values have the label, whatever the other units are."""
        return not self.flips([kept.get(unit, self.values[unit]) for unit in range(len(self.own))])

    def ranges(self, reason: Units) -> dict[int, list[tuple[float, ...]]]:
        """Each unit of a reason after the other as wide as can be: numbers upwards, then downwards; values in order."""
        kept = {unit: [self.own[unit]] for unit in sorted(reason)}
        for unit in kept:
            if unit in self.missing:
                continue
            if unit not in self.numbers:
                for value in self.values[unit]:
                    wider = [*kept[unit], value]
                    if (
                        value not in kept[unit]
                        and not math.isnan(value[0])
                        and self.is_sufficient({**kept, unit: wider})
                    ):
                        kept[unit] = wider
                continue
            numbers = [value for value in self.values[unit] if not math.isnan(value[0])]
            for way in (
                sorted(value for value in numbers if value > self.own[unit]),
                sorted((value for value in numbers if value < self.own[unit]), reverse=True),
            ):
                for value in way:
                    if not self.is_sufficient({**kept, unit: [*kept[unit], value]}):
                        break
                    kept[unit] = [*kept[unit], value]
        return kept


# --- what to protect -------------------------------------------------------------------------------------------------


def holding(rows: Sequence[tuple[bool, Collection[Units]]], protected: Units) -> int:
    """How many rows are right and not flipped by anything that leaves the protected units alone.

    A row is whether it is right, and what changes where it flips.
    """
    return sum(right and all(moved & protected for moved in flips) for right, flips in rows)


def least_cost(
    rows: Sequence[tuple[bool, Collection[Units]]], costs: Sequence[int], share: Fraction
) -> tuple[int, Units] | None:
    """The cheapest units to protect so that this share of the rows holds, and their cost; None if none do."""
    enough = [units for units in subsets(len(costs)) if Fraction(holding(rows, units), len(rows)) >= share]
    priced = [(sum(costs[unit] for unit in units), units) for units in enough]
    return min(priced, key=lambda one: one[0], default=None)
