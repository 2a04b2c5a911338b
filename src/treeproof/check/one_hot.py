"""A question on the columns that proofs speak of: each one-hot group that relations declare is one column of codes.

The codes of a group are those of its members, in their order, then one for all zeros where that is valid, and then one
for what the members are in a row that breaks the group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, TypeAlias

from treeproof.check.attackers import accepts, purses_of
from treeproof.check.claims import Grid
from treeproof.check.columns import Column, Size
from treeproof.check.doubles import cells_between, ends_of
from treeproof.check.evidence import Around, Reach
from treeproof.check.model_file import Model, Node
from treeproof.check.named_groups import Seen, vectors
from treeproof.check.relation_texts import Relations, Span, Where
from treeproof.check.rules import Rejected

Vector: TypeAlias = "tuple[float, ...]"
"""What the members of a group are."""


@dataclass(frozen=True)
class View:
    """What is asked about rows: the model and the attacker on the columns of proofs."""

    model: Model
    columns: Sequence[Column]
    purses: Sequence[tuple[Fraction, frozenset[int]]]
    sizes: Sequence[Sequence[Size]]
    """For the row itself, and for each neighbourhood."""
    relations: Relations
    members: Mapping[int, tuple[int, tuple[float, ...]]]
    """Per column of the user its column here, and what it is for each code: nothing if it is no member of a group."""

    @cached_property
    def grid(self) -> Grid:
        """The cells of the model's own tests."""
        return Grid(self.model, {})

    def where(
        self, grid: Grid, cells: Sequence[int], spans: Sequence[tuple[float, float]], x: Sequence[float]
    ) -> Where:
        """What the columns of relations may be in rows of these cells, whose values lie in these spans around a row."""
        found: dict[int, tuple[int, Sequence[Span]]] = {}
        for f in self.relations.columns:
            place, values = self.members[f]
            runs = _runs(grid.cuts[place], cells[place], *spans[place])
            if values:
                codes = [code for low, high in runs if not math.isnan(low) for code in _codes(low, high, len(values))]
                found[f] = place, [None if math.isnan(values[code]) else (values[code],) * 2 for code in codes]
            else:
                points = self.columns[place].points(x[place])
                on_grid = runs if points is None else [points.between(*run) for run in runs]
                found[f] = place, [None if math.isnan(low) else (low, high) for low, high in on_grid if not low > high]
        return found


def _codes(low: float, high: float, n: int) -> range:
    return range(math.ceil(max(low, 0.0)), math.floor(min(high, n - 1.0)) + 1)


def _runs(cuts: Sequence[float], cells: int, low: float, high: float) -> list[tuple[float, float]]:
    """The ranges of doubles from low to high in these cells; NaN where a value is missing."""
    if not cells:
        return [(math.nan, math.nan)]
    found, missing = [], 2 << len(cuts)
    inside = cells & cells_between(cuts, low, high)
    while inside:
        first = (inside & -inside).bit_length() - 1
        after = (inside >> first) + 1
        last = first + (after & -after).bit_length() - 2
        inside &= ~((2 << last) - 1)
        found.append((ends_of(cuts, first, low, high)[0], ends_of(cuts, last, low, high)[1]))
    return found + ([(math.nan, math.nan)] if cells & missing else [])


class Views:
    """The views of a question; most rows share one."""

    def __init__(
        self, model: Mapping[str, Any], parsed: Model, attacker: Mapping[str, Any], result: Mapping[str, Any]
    ) -> None:
        self._model, self._attacker, n = parsed, attacker, len(model["columns"])
        self.reach = Reach(model, attacker, result.get("relations") or ())
        self.around = [self.reach.around(each) for each in result["epsilons"]]
        self._groups, self._named = self.reach.relations.groups, _places(self.reach.seen, n)
        behind = {f: group.columns for group in self._groups for f in group.columns}
        if sum(len(group.columns) for group in self._groups) != len(behind):
            raise Rejected("a column is in two groups")
        self._columns = list(dict.fromkeys(behind.get(f, (f,)) for f in range(n)))
        nothing: list[Size] = [0.0] * len(self._columns)
        self.sizes = [nothing, *(self._sizes_of(each, n) for each in self.around)]
        self._usual = self._view(self._groups_with([()] * len(self._groups)))

    def accepts(self, x: Sequence[float]) -> bool:
        """Whether a row is one that somebody may ask about."""
        return accepts(self.reach.seen.model, self.reach.columns, x)

    def of(self, x: Sequence[float]) -> tuple[View, list[float]]:
        """The view for a row, and the row in it."""
        own = [tuple(x[f] for f in group.columns) for group in self._groups]
        broken = [() if vector in vectors(group) else vector for group, vector in zip(self._groups, own, strict=True)]
        view = self._view(self._groups_with(broken)) if any(broken) else self._usual
        row = [x[columns[0]] for columns in self._columns]
        for group, vector, odd in zip(self._groups, own, broken, strict=True):
            known = vectors(group)
            row[self._columns.index(group.columns)] = float(len(known) if odd else known.index(vector))
        return view, row

    def _groups_with(self, broken: Sequence[Vector]) -> dict[tuple[int, ...], list[Vector]]:
        """Per group, by its columns, what these are for each code."""
        return {
            group.columns: vectors(group) + [vector] * bool(vector)
            for group, vector in zip(self._groups, broken, strict=True)
        }

    def _view(self, groups: Mapping[tuple[int, ...], list[Vector]]) -> View:
        members: dict[int, tuple[int, tuple[float, ...]]] = {}
        columns = []
        for place, own in enumerate(self._columns):
            codes = groups.get(own)
            for at, f in enumerate(own):
                members[f] = place, () if codes is None else tuple(vector[at] for vector in codes)
            if codes is None:
                columns.append(self.reach.columns[own[0]])
            elif own in self._named:
                columns.append(self.reach.columns[self._named[own]])
            else:
                n = next(len(vectors(group)) for group in self._groups if group.columns == own)
                columns.append(_of_members([self.reach.columns[f] for f in own], codes, n))
        trees = [
            [_node(node, *members[node.feature]) if node.feature >= 0 else node for node in tree]
            for tree in self._model.trees
        ]
        model = replace(self._model, n_features=len(columns), trees=trees) if groups else self._model
        return View(model, columns, self._purses(columns), self.sizes, self.reach.relations, members)

    def _purses(self, columns: Sequence[Column]) -> list[tuple[Fraction, frozenset[int]]]:
        paying = columns if self._attacker["power"] is None else self.reach.columns
        (most, _), *groups = purses_of(self.reach.seen.model, self._attacker, paying)
        place_of = {f: place for place, own in enumerate(self._columns) for f in own}
        place_of |= {number: self._columns.index(own) for own, number in self._named.items()}
        for (_, own), group in product(groups, self._groups):
            if own & set(group.columns) and not own >= set(group.columns):
                raise Rejected("some members of a group share a budget that others do not")
        found = [(budget, frozenset(place_of[f] for f in own)) for budget, own in groups]
        return [(most, frozenset(range(len(columns)))), *found]

    def _sizes_of(self, around: Around, n: int) -> list[Size]:
        """ε of each column: neighbours share the values of groups that it does not name."""
        if not around.is_shared:
            raise Rejected("neighbours share the values of groups, and ε says something else")
        named = _places(around.seen, n)
        return [around.sizes[named.get(own, own[0])] for own in self._columns]


def _places(seen: Seen, n: int) -> dict[tuple[int, ...], int]:
    """The further columns of named groups, behind the n of the model, by the columns that these are."""
    return {group.columns: number for number, group in enumerate(seen.named, n)}


def _node(node: Node, place: int, values: tuple[float, ...]) -> Node:
    """A test on a member as one on codes."""
    if not values:
        return node._replace(feature=place)
    sides = [node.goes_left(value) for value in values]
    cuts = tuple(float(code) for code in range(len(sides) - 1) if sides[code] != sides[code + 1])
    left, right = (node.left, node.right) if sides[0] else (node.right, node.left)
    return Node(place, cuts, left, right, False, ())


def _of_members(members: Sequence[Column], codes: Sequence[Vector], n: int) -> Column:
    """A group for somebody who changes its members one by one, and pays for each; the first n codes are valid."""
    matrix: dict[tuple[float, float], Any] = {}
    least = lru_cache(None)(lambda f, *change: _least(members[f], *change))
    set_to = [{f: value for f, value in enumerate(vector) if value} for vector in codes]  # most members are 0
    for start, one in enumerate(set_to):
        for end, other in enumerate(set_to[:n]):
            changed = (f for f in {**one, **other} if one.get(f) != other.get(f))
            prices = [least(f, one.get(f, 0.0), other.get(f, 0.0)) for f in changed]
            if start != end and None not in prices:
                matrix[float(start), float(end)] = sum(price for price in prices if price is not None)
    return Column((0.0, len(codes) - 1.0), matrix=matrix, is_category=True)


def _least(column: Column, start: float, end: float) -> Fraction | None:
    """What it costs at least to bring a member from one value to another; it may be less than the price."""
    alone = [math.nextafter(end, -math.inf), end]
    return next((price for price, mask in column.cells(start, 0.0, None, alone) if mask & 2), None)
