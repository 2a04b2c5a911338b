"""Checks counterexamples: neighbours and attacks by the definitions, with rational numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from treeproof.check.attackers import accepts, columns_of, is_affordable, names_in, purses_of, sizes_of
from treeproof.check.columns import ANY, Column
from treeproof.check.named_groups import Seen
from treeproof.check.relation_texts import OneHot, Relations

Row: TypeAlias = "Sequence[float]"
_GROUP = Column(ANY, is_category=True)
"""What can be said of a group as a column."""


def is_same(one: Row, other: Row) -> bool:
    """Whether two rows have the same values, or none, everywhere."""
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))


class Reach:
    """Which rows are neighbours and what an attacker can make of them, on the model of a file."""

    def __init__(
        self,
        model: Mapping[str, Any],
        attacker: Mapping[str, Any],
        relations: Sequence[str] = (),
    ) -> None:
        self._model, self.relations = model, Relations(model, relations)
        self.seen = Seen(names_in(attacker), model, self.relations.groups)
        self.columns = columns_of(self.seen.model, attacker)
        own = enumerate(self.columns[: len(model["columns"])])
        self.relations.steps = {f for f, column in own if column.step is not None}
        self._purses = purses_of(self.seen.model, attacker, self.columns)

    def around(self, epsilon: Any) -> Around:
        """The neighbourhood that a result file says."""
        return Around(self._model, self.relations.groups, self.columns, epsilon)

    def holds(self, around: Around, x: Row, near: Row, attacked: Row) -> bool:
        """Whether a row is a neighbour of x, and the attacker can make of it what it is after the attack.

        With relations, both must be valid rows, but for a neighbour that is the row itself.
        """
        if any(len(row) != len(self._model["columns"]) for row in (x, near, attacked)):
            return False
        valid = [attacked] if is_same(x, near) else [near, attacked]
        if any(map(self.relations.broken, valid)) or not around.holds(x, near):
            return False
        if not all(accepts(self._model, self.columns, row) for row in (x, near, attacked)):
            return False
        rows, prices = self.seen.rows([x, near, attacked]), {}
        for f, (own, start, end) in enumerate(zip(*rows, strict=True)):
            if start != end and f not in self.seen.members:
                price = self.columns[f].price(own, start, end)
                if price is None:
                    return False
                prices[f] = price
        return self.can_pay(prices)

    def can_pay(self, prices: Mapping[int, Fraction]) -> bool:
        """Whether the attacker can pay these prices of columns."""
        return is_affordable(self._purses, prices)

    @cached_property
    def fillable(self) -> set[int]:
        """The columns whose missing values can be filled in."""
        known = enumerate(self.columns[: len(self._model["columns"])])
        return {f for f, one in known if one.fill is not None and (one.budget is None or one.fill <= one.budget)}

    def may_move(self, f: int) -> bool:
        """Whether a column, or its group if the attacker names that, can be changed at all for what he can pay."""
        groups = (number for number, group in enumerate(self.seen.named) if f in group.columns)
        return self.columns[next((len(self._model["columns"]) + number for number in groups), f)].may_move

    def is_named(self, f: int, around: Sequence[Around]) -> bool:
        """Whether a column is a member of a group that the attacker or a neighbourhood names."""
        return any(f in seen.members for seen in (self.seen, *(one.seen for one in around)))

    def spans_a_cut(self, f: int, x: Row, cuts: Sequence[float], around: Sequence[Around]) -> bool:
        """Whether neighbours of a row, and what can be made of them, have more than one cell of a column."""
        column, found = self.columns[f], 0
        for size in (0.0, *(one.sizes[f] for one in around)):
            for price, mask in column.cells(x[f], size, None, cuts):
                found |= mask if column.budget is None or price <= column.budget else 0
        return found.bit_count() > 1


class Around:
    """Which rows are neighbours."""

    def __init__(
        self, model: Mapping[str, Any], groups: Sequence[OneHot], columns: Sequence[Column], epsilon: Any
    ) -> None:
        self.seen = Seen([key for key, _ in epsilon.get("by_feature", ())], model, groups)
        grouped = {f for group in groups for f in group.columns}
        # Neighbours share the values of groups, unless ε names these.
        said = list(enumerate(sizes_of(self.seen.model, epsilon)))
        self.sizes = [0.0 if f in grouped else size for f, size in said]
        self.is_shared = all(isinstance(size, tuple) or size < 1 for f, size in said if f in grouped)
        """Whether ε does not say anything else of their members."""
        self._columns = [*columns[: len(model["columns"])], *(_GROUP for _ in self.seen.named)]

    def holds(self, x: Row, near: Row) -> bool:
        """Whether a row is a neighbour of x."""
        pairs = zip(self._columns, self.sizes, *self.seen.rows([x, near]), strict=True)
        return all(
            own == other or f in self.seen.members or column.is_near(own, other, size)
            for f, (column, size, own, other) in enumerate(pairs)
        )
