"""What is to be proved of a row, as the rules take it: cells of columns and their prices, and leaves on these cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from treeproof.check.model_file import Model, Node
from treeproof.check.rules import Box, Claim, Leaf, Purse

NO_SCORES = -1
"""The kind of leaves that add nothing."""
FINEST = 2**60
"""Prices that are no whole numbers become parts of the budget, so many of them, rounded down."""


class Grid:
    """The cells of a model's columns, and which of them tests send to the left."""

    def __init__(self, model: Model, extra: dict[int, list[float]]) -> None:
        self.model = model
        self.cuts = [sorted({*own, *extra.get(f, ())}) for f, own in enumerate(model.cuts)]
        self._place = [{cut: i for i, cut in enumerate(cuts)} for cuts in self.cuts]
        self.lefts = [_Lefts(self, tree) for tree in model.trees]
        """Per tree and node the mask of cells that go to the left."""
        self._known: dict[tuple[int, tuple[float, ...], bool], int] = {}

    def left(self, node: Node) -> int:
        """The mask of cells that a test sends to the left."""
        key = node.feature, node.cuts, node.nan_left
        if key not in self._known:
            self._known[key] = self._left(node)
        return self._known[key]

    def _left(self, node: Node) -> int:
        place, turned = self._place[node.feature], 0
        for cut in node.cuts:
            turned ^= (2 << place[cut]) - 1
        # Between the first cut and the second numbers go right; so they do above the last one if cuts are odd.
        left = turned if len(node.cuts) % 2 else ~turned
        missing = 1 << (len(self.cuts[node.feature]) + 1)
        return left | missing if node.nan_left else left & ~missing


class _Lefts(dict[int, int]):
    """For each test of a tree that was come to the mask of cells that go to the left."""

    def __init__(self, grid: Grid, tree: list[Node]) -> None:
        super().__init__()
        self._grid, self._tree = grid, tree

    def __missing__(self, number: int) -> int:
        self[number] = mask = self._grid.left(self._tree[number])
        return mask


@dataclass(frozen=True)
class Region:
    """Where rows can be: per column prices, rising, and the masks of cells that cost so much; none if it is missing."""

    prices: Sequence[Sequence[tuple[Fraction, int]]]
    purses: Sequence[tuple[Fraction, frozenset[int]]]

    @cached_property
    def cells(self) -> list[int]:
        """Per column all cells that can be had."""
        return [_union(mask for _, mask in prices) for prices in self.prices]

    @cached_property
    def is_whole(self) -> bool:
        """Whether all prices are whole numbers."""
        numbers = [price for prices in self.prices for price, _ in prices] + [budget for budget, _ in self.purses]
        return all(number.denominator == 1 for number in numbers)

    @cached_property
    def price_unit(self) -> Fraction:
        """What costs 1 becomes this whole number, or nearly so."""
        budget = self.purses[0][0] if self.purses else Fraction(0)
        # Without any money, what costs anything costs too much.
        return Fraction(1) if self.is_whole else FINEST / budget if budget else Fraction(FINEST) ** 20

    @cached_property
    def whole_prices(self) -> list[list[tuple[int, int]]]:
        """Prices as whole numbers, none of them more than it is."""
        unit = self.price_unit
        return [[(math.floor(price * unit), mask) for price, mask in prices] for prices in self.prices]

    @cached_property
    def whole_purses(self) -> list[Purse]:
        """Budgets in the same units."""
        return [Purse(math.ceil(budget * self.price_unit), columns) for budget, columns in self.purses]

    def least(self, cells: Sequence[int]) -> list[Fraction | None]:
        """Per column the least price of these cells; None if none of them can be had."""
        return [
            next((price for price, mask in prices if mask & here), None) if prices else Fraction(0)
            for prices, here in zip(self.prices, cells, strict=True)
        ]

    def is_too_dear(self, cells: Sequence[int]) -> bool:
        """Whether no row of these cells can be paid for."""
        least = self.least(cells)
        if any(price is None for price in least):
            return True
        return any(sum(least[f] or 0 for f in columns) > budget for budget, columns in self.purses)


def _union(masks: Iterator[int]) -> int:
    cells = 0
    for mask in masks:
        cells |= mask
    return cells


class Place:
    """A model in a region: of each tree the leaves that rows there can come to, and with which cells."""

    def __init__(
        self,
        grid: Grid,
        region: Region,
        chains: Sequence[list[Leaf]] = (),
        is_ruled_out: Callable[[Sequence[int]], bool] = lambda _: False,
    ) -> None:
        """Rows come to a leaf of each chain, too, and those of cells that are ruled out do not count."""
        self._grid, self._model, self._region = grid, grid.model, region
        self._chains, self._is_ruled_out = chains, is_ruled_out
        kinds: dict[tuple[float, ...], int] = {}
        self._leaves = [
            [(scores, kinds.setdefault(scores, len(kinds)), own) for scores, own in _leaves(tree, lefts, region.cells)]
            for tree, lefts in zip(grid.model.trees, grid.lefts, strict=True)
        ]
        self._scores = list(kinds)
        # What nobody can pay for is the same for all classes.
        self._can_pay: list[list[bool]] | None = None
        claim = self._claim([[Leaf(0, *leaf[1:]) for leaf in leaves] for leaves in self._leaves], 0, 0)
        live = [set(map(id, leaves)) for leaves in Box(claim).trees]
        self._can_pay = [[id(leaf) in own for leaf in tree] for tree, own in zip(claim.trees, live, strict=True)]

    def claim(self, label: int, other: int, wanted: frozenset[int]) -> Claim:
        """That a class never wins against the label, and that ties lead to no label that the attacker wants."""
        model = self._model
        trees = [
            [Leaf(model.lead(t, scores, other, label), kind, cells) for scores, kind, cells in leaves]
            for t, leaves in enumerate(self._leaves)
        ]
        constant, needed = model.constant(other, label), model.needed(other, label)

        def keeps_label(leaves: Sequence[Leaf]) -> bool:
            return model.label_of([self._scores[leaf.kind] for leaf in leaves[: len(trees)]]) not in wanted

        return self._claim(trees, constant, needed, keeps_label, (self._grid, label, other))

    def _claim(
        self, trees: list[list[Leaf]], constant: int, needed: int, keeps_label: Any = None, about: Any = None
    ) -> Claim:
        region = self._region
        return Claim(
            [*trees, *self._chains],
            region.cells,
            region.whole_prices,
            region.whole_purses,
            constant,
            needed,
            self._model.unit,
            region.price_unit,
            keeps_label,
            lambda cells: region.is_too_dear(cells) or self._is_ruled_out(cells),
            about,
            self._can_pay,
        )


def _leaves(
    tree: list[Node], lefts: Mapping[int, int], cells: Sequence[int]
) -> Iterator[tuple[tuple[float, ...], dict[int, int]]]:
    """The scores of the leaves of a tree that rows of a region can come to, and with which cells."""
    waiting: list[tuple[int, dict[int, int]]] = [(0, {})]
    while waiting:
        number, here = waiting.pop()
        f, _, left, right, nan_left, scores = tree[number]
        while f >= 0:
            own = here.get(f) or cells[f]
            inside = own & lefts[number]
            if not own:
                # The value is missing, and stays so.
                number = left if nan_left else right
            elif not inside:
                number = right
            elif inside == own:
                number = left
            else:
                waiting.append((right, {**here, f: own ^ inside}))
                number, here = left, {**here, f: inside}
            f, _, left, right, nan_left, scores = tree[number]
        yield scores, here


def chain_leaves(
    tests: Sequence[tuple[int, int, bool]], cells: Sequence[int]
) -> tuple[list[Leaf], dict[int, int] | None]:
    """The leaves of tests one after another, for rows that pass one; and the cells of rows that pass none, if any."""
    leaves: list[Leaf] = []
    left: dict[int, int] = {}
    for f, passes, with_missing in tests:
        own = left.get(f, cells[f])
        inside = own & passes
        if inside or (not own and with_missing):
            leaves.append(Leaf(0, NO_SCORES, {**left, f: inside} if own else left))
        if inside == own and (own or with_missing):
            return leaves, None
        if own:
            left = {**left, f: own & ~passes}
    return leaves, left


def is_idle(grid: Grid, region: Region, still: frozenset[int]) -> bool:
    """Whether an attack never changes a label, as it leaves the columns `still` alone.

    Follows a row before and after it through each tree at once. Both have the same cells of these columns, and maybe
    others of the rest; wherever the two come to, the scores must be the same.
    """
    for tree, lefts in zip(grid.model.trees, grid.lefts, strict=True):
        waiting: list[tuple[int, int, dict[int, int]]] = [(0, 0, {})]
        while waiting:
            first, second, shared = waiting.pop()
            # First the one goes on to its leaf, and then the other.
            number = second if tree[first].feature < 0 else first
            node = tree[number]
            f = node.feature
            if f < 0:
                if node.scores != tree[first].scores:
                    return False
                continue
            here = shared.get(f, region.cells[f])
            sides = [(node.left, here & lefts[number]), (node.right, here & ~lefts[number])]
            if not here:
                # The value is missing, and stays so.
                sides = [(node.left if node.nan_left else node.right, -1)]
            for child, side in sides:
                if side:
                    then = {**shared, f: side} if f in still else shared
                    waiting.append((first, child, then) if tree[first].feature < 0 else (child, second, then))
    return True
