"""Chains of rewriting rules in a column with a step: every value on the way is a point of the row's grid."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.decimals import nearest_double
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.rule_chains import MOST_CELLS, Arrow, RuleChains, spread
from treeproof.threat.starts import GridStarts, Starts
from treeproof.threat.step_grid import StepGrid, origin_of
from treeproof.threat.ways import Way

MOST_GRIDS = 256
"""Whose starts are kept for all cells at once."""
SMALL = 2**62
"""Whole numbers below it are counted by the machine."""


class Points(NamedTuple):
    """Points of a grid from one number to another, and the price of the chains between them and what was asked for."""

    price: int
    first: int
    last: int


@dataclass(frozen=True)
class GridChains(FieldsOnly):
    """Chains of rules whose values are points of a grid: a `base` below the step, plus whole numbers of steps.

    What a rule adds is a whole number of steps then, so that chains are about numbers of points.
    """

    chains: RuleChains
    grid: StepGrid

    @cached_property
    def _arrows(self) -> dict[Fraction, list[Arrow]]:
        """Threads share this and what follows, and may clear it: nobody looks up again what he has put in."""
        return {}

    @cached_property
    def _known(self) -> dict[tuple[Fraction, int, int], list[Points]]:
        """The starts of cells. Rows come and go, and most cells stay the same."""
        return {}

    @cached_property
    def _latest(self) -> dict[tuple[Fraction, bytes, bytes], tuple[Any, list[int]]]:
        """Those of the latest cells, one after the other, on different grids."""
        return {}

    def place(self, x: float) -> tuple[Fraction, int]:
        """The base of a row's grid, and the number of its own value there."""
        number, base = divmod(origin_of(x), self.grid.step)
        return base, number

    def ends(self, base: Fraction, first: int, last: int) -> list[Points]:
        """What chains from these points lead to, cheapest first."""
        return self._spread(first, last, self._on_grid(base))

    def starts(self, base: Fraction, first: int, last: int) -> list[Points]:
        """Where chains start that lead to these points, cheapest first."""
        found = self._known.get((base, first, last))
        if found is None:
            found = self._spread(first, last, [arrow.back() for arrow in self._on_grid(base)]) if first <= last else []
            if len(self._known) >= MOST_CELLS:
                self._known.clear()
            self._known[base, first, last] = found
        return found

    def starts_of_cells(self, base: Fraction, first: FloatArray, last: FloatArray) -> tuple[Any, list[int]]:
        """The same for many cells, ranges of doubles: prices, first and last numbers, and where those of each begin."""
        key = base, first.tobytes(), last.tobytes()
        known = self._latest.get(key)
        if known is None:
            found: list[tuple[float, int, int]] = []
            begin = []
            for cell in zip(first.tolist(), last.tolist(), strict=True):
                begin.append(len(found))
                found += self.starts(base, *self.grid.numbers_from(base, *cell)) or [(math.inf, 1, 0)]
            price, *numbers = zip(*found, strict=True)
            kind = np.int64 if all(abs(number) < SMALL for ends in numbers for number in ends) else object
            reached = (np.array(price, dtype=np.float64), *(np.array(ends, dtype=kind) for ends in numbers))
            known = reached, begin
            if len(self._latest) >= MOST_GRIDS:
                self._latest.clear()
            self._latest[key] = known
        return known

    def _spread(self, first: int, last: int, arrows: list[Arrow]) -> list[Points]:
        pieces = spread((Fraction(first), True, Fraction(last), True), arrows, self.chains.budget)
        return [Points(price, int(begin), int(end)) for price, begin, _, end, _ in pieces]

    def _on_grid(self, base: Fraction) -> list[Arrow]:
        """The arrows from number to number, for the points of one grid."""
        known = self._arrows.get(base)
        if known is None:
            drawn_in = [
                Arrow(self._inside(before, base), self._whole(shift), self._inside(after, base), cost)
                for before, shift, after, cost in self.chains.arrows
            ]
            known = [arrow for arrow in drawn_in if all(low <= high for low, high in arrow[:3])]
            if len(self._arrows) >= MOST_CELLS:
                self._arrows.clear()
            self._arrows[base] = known
        return known

    def _inside(self, ends: tuple[Fraction, Fraction], base: Fraction) -> tuple[Fraction, Fraction]:
        """The first and the last number of a point in a range, whose ends are doubles."""
        first, last = self.grid.numbers_from(base, *map(nearest_double, ends))
        return Fraction(first), Fraction(last)

    def _whole(self, shift: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
        """The least and the greatest number of steps in a change."""
        least, most = (end / self.grid.step for end in shift)
        return Fraction(math.ceil(least)), Fraction(math.floor(most))


@dataclass(frozen=True, eq=False)
class ByRulesOnGrid(Way):
    """By the cheapest chain of rewriting rules from point to point of the row's grid."""

    chains: GridChains

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The cost of the cheapest chain."""
        own, near, there = (np.array([value]) for value in (x, start, end))
        return self.exact(GridStarts(own, near, near, self.chains.grid), there, there)[0]

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The least cost of chains that start where the row may."""
        rows, place = np.unique(np.stack((starts.own, starts.low, starts.high)), axis=1, return_inverse=True)
        paid = np.empty((rows.shape[1], len(first)))
        lines: dict[Fraction, list[int]] = defaultdict(list)
        for row, x in enumerate(rows[0].tolist()):
            lines[self.chains.place(x)[0]].append(row)
        for base, some in lines.items():
            reached, begin = self.chains.starts_of_cells(base, first, last)
            for row in some:
                low, high = self._numbers(*rows[:, row].tolist())
                held = (reached[1] <= high) & (reached[2] >= low)
                paid[row] = np.minimum.reduceat(np.where(held.astype(bool), reached[0], np.inf), begin)
        return np.asarray(paid[place.reshape(-1)])

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The cheapest chain, of several one that starts nearest to the row's own value."""
        z, w = super().move(starts, first, last)
        rows = np.stack((starts.own, starts.low, starts.high, first, last), axis=1).tolist()
        for row, (x, low, high, begin, end) in enumerate(rows):
            found = self._chain(x, self._numbers(x, low, high), self._numbers(x, begin, end))
            if found is not None:
                z[row], w[row] = (self._point(x, number) for number in found)
        return z, w

    def reached(self, x: float, start: float) -> tuple[FloatArray, FloatArray]:
        """The ranges that chains of rules lead to, each from a point to a point."""
        ends = self.chains.ends(self.chains.place(x)[0], *self._numbers(x, start, start))
        first, last = ([self._point(x, number) for number in numbers] for numbers in list(zip(*ends, strict=True))[1:])
        return np.array(first), np.array(last)

    def _numbers(self, x: float, low: float, high: float) -> tuple[int, int]:
        """The first and the last number of a point of the row's grid in [low, high]."""
        own = self.chains.place(x)[1]
        first, last = self.chains.grid.numbers(x, low, high)
        return first + own, last + own

    def _point(self, x: float, number: int) -> float:
        return self.chains.grid.point(x, number - self.chains.place(x)[1])

    def _chain(self, x: float, near: tuple[int, int], cell: tuple[int, int]) -> tuple[int, int] | None:
        """The numbers of the start and the end of a row's cheapest chain from points that are near into a cell."""
        base, own = self.chains.place(x)
        ways = []
        for price, first, last in self.chains.starts(base, *cell):
            if max(first, near[0]) <= min(last, near[1]):
                start = min(max(own, first, near[0]), last, near[1])
                ways.append((price, abs(start - own), start))
        if not ways:
            return None
        least, _, start = min(ways)
        ends = [
            min(max(start, first, cell[0]), last, cell[1])
            for price, first, last in self.chains.ends(base, start, start)
            if price <= least and max(first, cell[0]) <= min(last, cell[1])
        ]
        return start, min(ends, key=lambda end: abs(end - start))
