"""What an attacker can do to one column of a model: the definitions, and what the cells of the column cost by them.

Values are doubles as rows hold them, with codes for categories; NaN is a missing value. A price that is lower than the
true one is safe where something is proved, since then more can be paid for; a higher one never is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, TypeAlias

from treeproof.check.chains import MOST_SPENT, Leap, Rule, chains, chains_on, leaps
from treeproof.check.doubles import (
    Grid,
    at_least,
    at_most,
    cell_of,
    cells_between,
    cells_of,
    ends_of,
    nearest,
    printed,
    some_move,
)

Size: TypeAlias = "float | tuple[frozenset[float], ...]"
"""ε of a column: a distance, or sets of values of a category that may stand for each other."""
Prices: TypeAlias = "list[tuple[Fraction, int]]"
"""Prices, rising, and masks of the cells that cost so much; cells in no mask cannot be had."""
ANY = (-math.inf, math.inf)
FEW = 64
"""So many doubles are tried one by one."""


class Near(NamedTuple):
    """Doubles from low to high, or of these only some values, or only points of a grid."""

    low: float
    high: float
    values: tuple[float, ...] | None = None
    grid: Grid | None = None
    numbers: tuple[int, int] = (0, 0)
    """Of the first and the last point."""
    meets: Callable[[float, float], bool] | None = None
    """Whether one of them lies in a range, if not all of the doubles are meant."""

    def holds(self, value: float) -> bool:
        """Whether a double is one of them."""
        if self.values is not None:
            return value in self.values
        first, last = (0, 0) if self.grid is None else self.grid.numbers(value, value)
        return self.low <= value <= self.high and first <= last

    def cells(self, cuts: Sequence[float]) -> int:
        """The mask of cells that hold one."""
        if self.values is not None:
            return cells_of(cuts, self.values)
        if self.grid is not None:
            return self.grid.cells(cuts, *self.numbers)
        mask = cells_between(cuts, self.low, self.high)
        if self.meets is not None:
            for cell in range(cell_of(cuts, self.low), mask.bit_length()):
                if not self.meets(*ends_of(cuts, cell, self.low, self.high)):
                    mask &= ~(1 << cell)
        return mask

    def singly(self) -> list[float] | None:
        """All doubles from low to high, or the values; None if there are many."""
        if self.values is not None:
            return list(self.values)
        found = [self.low]
        while found[-1] < self.high:
            found.append(math.nextafter(found[-1], math.inf))
            if len(found) > FEW:
                return None
        return found


NOTHING = Near(math.inf, -math.inf, ())


def _only(values: Sequence[float]) -> Near:
    """Some values, rising."""
    return Near(values[0], values[-1], tuple(values)) if values else NOTHING


def _on(grid: Grid, first: int, last: int) -> Near:
    """The points of a grid from one number to another."""
    return Near(grid.point(first), grid.point(last), None, grid, (first, last)) if first <= last else NOTHING


@dataclass(frozen=True)
class Column:
    """What an attacker can do to one column of a model."""

    domain: tuple[float, float]
    reach: tuple[float, float] = (0.0, 0.0)
    """The distances of moves; (0, 0): there are none. With a power only their signs count, and with ends nothing."""
    cost: int = 1
    matrix: Mapping[tuple[float, float], int] | None = None
    """The costs of all moves from one value to another; None: each one costs `cost`."""
    ends: tuple[float, ...] | None = None
    """The only values that moves, and filled-in values, may be; None: any number."""
    step: Fraction | None = None
    """Neighbours and moves of numbers are points of a grid."""
    blank: int | None = None
    fill: int | None = None
    rules: tuple[Rule | Leap, ...] = ()
    """All of numbers, or all of categories."""
    power: int | None = None
    """A move costs (distance / unit) ** power."""
    unit: Fraction = Fraction(1)
    is_category: bool = False
    budget: Fraction | None = None
    """What costs more than that need not be known."""

    @property
    def fees(self) -> list[int]:
        """What a change costs, where it is no rule that makes it, and there is no power."""
        moved = [self.cost] * (self.reach != (0.0, 0.0)) if self.matrix is None else self.matrix.values()
        return [cost for cost in (self.blank, self.fill, *moved) if cost is not None]

    @property
    def dearest(self) -> int:
        """What a move costs at most, where there is no power."""
        chained = MOST_SPENT if self.budget is None else int(self.budget)
        return max([*self.fees, *[chained] * bool(self.rules)], default=0)

    @property
    def may_move(self) -> bool:
        """Whether somebody can pay for any change at all."""
        if self.power is not None:
            return self.reach != (0.0, 0.0)
        costs = [*self.fees, *(rule.cost for rule in self.rules)]
        return bool(costs) and (self.budget is None or min(costs) <= self.budget)

    # --- the definitions ---------------------------------------------------------------------------------------------

    def is_near(self, x: float, near: float, size: Size) -> bool:
        """Whether a neighbour of a row with the value x may have this value of the domain, where ε is `size`."""
        if math.isnan(x) or math.isnan(near):
            return math.isnan(x) and math.isnan(near)
        found = self.neighbours(x, size, None)
        return found is not None and found.holds(near)

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The least price of a change to a value of the domain, in a row with the value x; None: it is impossible."""
        if start == end or (math.isnan(start) and math.isnan(end)):
            return Fraction(0)
        if math.isnan(end):
            return _whole(self.blank)
        if math.isnan(start):
            return _whole(self.fill) if self._filled.holds(end) else None
        if self.matrix is not None and not self.rules:
            return _whole(self.matrix.get((start, end)))
        near, alone = self._at(x, start), (math.nextafter(end, -math.inf), end)
        moves = () if near is NOTHING else self.moves(near, alone, is_sure=True)
        return next((Fraction(price) for price, where in moves if where.cells(alone) & 2), None)

    def _at(self, x: float, start: float) -> Near:
        """A double, or what points it is in a row with the value x."""
        grid = None if self.step is None else Grid(x, self.step)
        return _only((start,)) if grid is None else _on(grid, *grid.numbers(start, start))

    @cached_property
    def _steps(self) -> tuple[int, int]:
        """The least and the greatest number of steps of a move."""
        assert self.step is not None
        low, high = self.reach
        far = math.ceil(2**1026 / self.step)  # no two doubles are so far apart
        return (
            -far if math.isinf(low) else math.ceil(printed(low) / self.step),
            far if math.isinf(high) else math.floor(printed(high) / self.step),
        )

    def _fee(self, away: Fraction) -> Fraction:
        assert self.power is not None
        return (away / self.unit) ** self.power

    @cached_property
    def at_rest(self) -> Column:
        """The same column with the same neighbours, where nothing is ever changed."""
        return replace(self, reach=(0.0, 0.0), matrix=None, rules=(), blank=None, fill=None)

    def is_still(self, x: float, size: Size, part: tuple[float, float] | None, cuts: Sequence[float]) -> bool:
        """Whether nobody can pay for any change of a neighbour in `part`."""
        if math.isnan(x) or self.blank is not None:
            return math.isnan(x) and self.fill is None
        if self.power is not None and self.reach != (0.0, 0.0):
            return False
        near = self.neighbours(x, size, part)
        moves = [] if near is None or self.rules else self.moves(near, cuts)
        costs: list[Fraction | int] = [rule.cost for rule in self.rules] or [
            price for price, where in moves if where.cells(cuts)
        ]
        return not any(self.budget is None or price <= self.budget for price in costs)

    def points(self, x: float) -> Grid | None:
        """The grid that all values of the column are on, where it has the value x; None: there is none."""
        is_free = self.step is None or self.is_category or self.ends is not None or self.matrix is not None
        return None if self.step is None or is_free else Grid(x, self.step)

    # --- cells -------------------------------------------------------------------------------------------------------

    def cells(self, x: float, size: Size, part: tuple[float, float] | None, cuts: Sequence[float]) -> Prices:
        """What it costs at least to bring the column of a row with the value x from a neighbour into each cell.

        Neighbours lie in `part`, if there is one. Missing is the cell after the last. A value that is missing and stays
        so has no cells, and neither have neighbours of which there are none. What nobody can pay for is left out.
        """
        missing = 2 << len(cuts)
        if math.isnan(x):
            return self._rising([] if self.fill is None else [(0, missing), (self.fill, self._filled.cells(cuts))])
        near = self.neighbours(x, size, part)
        return [] if near is None else self.cells_from(near, cuts)

    def cells_from(self, near: Near, cuts: Sequence[float]) -> Prices:
        """What it costs at least to bring the column from one of these numbers into each cell."""
        blanked = [] if self.blank is None else [(self.blank, 2 << len(cuts))]
        moved = [(price, where.cells(cuts)) for price, where in self.moves(near, cuts)]
        return self._rising([(0, near.cells(cuts)), *blanked, *moved])

    def _rising(self, found: Sequence[tuple[Fraction | int, int]]) -> Prices:
        """Each cell at its least price."""
        prices: Prices = []
        known = 0
        for price, mask in sorted(found):
            new = mask & ~known
            known |= mask
            if not new or (self.budget is not None and price > self.budget):
                continue
            if prices and prices[-1][0] == price:
                prices[-1] = prices[-1][0], prices[-1][1] | new
            else:
                prices.append((Fraction(price), new))
        return prices

    def neighbours(self, x: float, size: Size, part: tuple[float, float] | None) -> Near | None:
        """The neighbours of a row with the value x that lie in `part`; None: there are none."""
        # Rows outside of the domain are refused before anything is proved of them; here they are their own neighbours.
        low, high = min(self.domain[0], x), max(self.domain[1], x)
        if part is not None:
            low, high = max(low, part[0]), min(high, part[1])
        if self.is_category or isinstance(size, tuple):
            alike = {x}.union(*(values for values in size if x in values)) if isinstance(size, tuple) else {x}
            values = sorted(value for value in alike if low <= value <= high)
            return _only(values) if values else None
        if self.step is not None:
            grid = Grid(x, self.step)
            if not math.isinf(size):
                most = math.floor(printed(size) / self.step)
                low, high = max(low, grid.point(-most)), min(high, grid.point(most))
            first, last = grid.numbers(low, high) if low <= high else (1, 0)
            return Near(grid.point(first), grid.point(last), None, grid, (first, last)) if first <= last else None
        if size == 0:
            low, high = max(low, x), min(high, x)
        elif not math.isinf(size):
            away = Fraction(size)
            low, high = max(low, at_least(Fraction(x) - away)), min(high, at_most(Fraction(x) + away))
        return Near(low, high) if low <= high else None

    def span(self, x: float, size: Size, part: tuple[float, float] | None) -> tuple[float, float]:
        """Ends between which the column of a row with the value x is after moves from neighbours in `part`."""
        near = None if math.isnan(x) else self.neighbours(x, size, part)
        if near is None:
            return self.domain
        low, high = self.domain
        if self.rules:
            found = [near, Near(low, high)]
        elif self.power is not None and self.matrix is None and self.ends is None:
            least, most = self._farthest(near)
            down, up = self.reach[0] < 0, self.reach[1] > 0
            found = [near, Near(max(low, least) if down else near.low, min(high, most) if up else near.high)]
        else:
            found = [near, *(where for _, where in self.moves(near, ()))]
        return min(where.low for where in found), max(where.high for where in found)

    def _farthest(self, near: Near) -> tuple[float, float]:
        """Ends beyond which nobody can pay for the distance to neighbours."""
        assert self.power is not None
        if self.budget is None or not 2**-900 < self.budget < 2**900:
            return self.domain
        root = nearest(self.budget) ** (1 / self.power)
        while Fraction(root) ** self.power < self.budget:
            root = math.nextafter(root, math.inf)
        away = Fraction(root) * self.unit
        if near.grid is None:
            return at_least(Fraction(near.low) - away), at_most(Fraction(near.high) + away)
        assert self.step is not None
        steps, (first, last) = math.floor(away / self.step), near.numbers
        return near.grid.point(first - steps), near.grid.point(last + steps)

    @property
    def _filled(self) -> Near:
        """What missing values can be filled in with."""
        if self.ends is not None:
            return _only(self.ends)
        grid = None if self.step is None else Grid(math.nan, self.step)
        return Near(*self.domain) if grid is None else _on(grid, *grid.numbers(*self.domain))

    def moves(self, near: Near, cuts: Sequence[float], is_sure: bool = False) -> Iterator[tuple[Fraction | int, Near]]:
        """Prices of moves, and where they end: as far as it tells cells apart, if that depends on the price.

        Nothing that is cheaper is left out, and of what `is_sure` nothing but what there is, if there is one start.
        """
        if self.rules:
            yield from self._chained(near, cuts, is_sure)
        elif self.matrix is not None:
            yield from ((cost, _only((end,))) for (start, end), cost in self.matrix.items() if near.holds(start))
        elif self.reach == (0.0, 0.0):
            return
        elif self.ends is not None:
            yield self.cost, _only(self.ends)
        elif self.power is not None:
            yield from self._away(near, cuts, None if is_sure else self.budget)
        elif near.grid is not None:
            # Two ranges of whole numbers differ by all whole numbers between what their ends differ by.
            (first, last), (begin, end), (least, most) = near.numbers, near.grid.numbers(*self.domain), self._steps
            if least <= most:
                yield self.cost, _on(near.grid, max(begin, first + least), min(end, last + most))
        else:
            yield self.cost, self._by_distance(near)

    def _chained(self, near: Near, cuts: Sequence[float], is_sure: bool) -> Iterator[tuple[int, Near]]:
        """What chains of rules cost, and where they end."""
        grid, ends = near.grid, self.domain
        numbers = [rule for rule in self.rules if isinstance(rule, Rule)]
        values = [rule for rule in self.rules if isinstance(rule, Leap)]
        if values:
            assert near.values is not None
            found = leaps(values, self.domain, self.budget, near.values)
        elif grid is not None:
            ends = grid.numbers(*self.domain)
            found = chains_on(grid, numbers, self.domain, self.budget, near.numbers)
        else:
            # All numbers between many neighbours are taken for neighbours, which makes no cell dearer.
            starts = [(near.low, near.high)] if (singly := near.singly()) is None else [(one, one) for one in singly]
            found = chains(numbers, self.domain, self.budget, starts)
        left = cells_between(cuts, *self.domain)
        for price, first, last in found:
            if is_sure and math.isinf(first):
                return  # nobody looked farther
            low, high = max(first, ends[0]), min(last, ends[1])
            where = Near(low, high) if grid is None else _on(grid, int(low), int(high))
            yield price, where
            left &= ~where.cells(cuts)
            if not left:
                return

    def _by_distance(self, near: Near) -> Near:
        """Where moves by a distance of the interval end, between doubles."""
        (least, most), (low, high) = self.reach, self.domain
        if not math.isinf(least):
            low = max(low, at_least(Fraction(near.low) + Fraction(least)))
        if not math.isinf(most):
            high = min(high, at_most(Fraction(near.high) + Fraction(most)))
        if low > high:
            return NOTHING
        if least <= 0 <= most or math.isinf(most - least):
            return Near(low, high)
        # Where doubles are farther apart than the interval is wide, not all between the ends can be had.
        is_narrow = Fraction(most) - Fraction(least) < max(math.ulp(near.low), math.ulp(near.high))
        start = near.low, near.high
        return Near(low, high, meets=(lambda *ends: some_move(start, ends, self.reach)) if is_narrow else None)

    def _away(self, near: Near, cuts: Sequence[float], most: Fraction | None) -> Iterator[tuple[Fraction, Near]]:
        """What cells beside the neighbours cost by their distance, on either side from the nearest one on."""
        low, high = self.domain
        above = range(cell_of(cuts, near.high) + 1, cell_of(cuts, high) + 1 if self.reach[1] > 0 else 0)
        below = range(cell_of(cuts, near.low) - 1, cell_of(cuts, low) - 1 if self.reach[0] < 0 else len(cuts), -1)
        for cells in (above, below):
            for cell in cells:
                first, last = ends_of(cuts, cell, low, high)
                away = self._distance(near, first, last) if first <= last else None
                if away is None:
                    continue
                if most is not None and self._fee(away) > most:
                    break
                yield self._fee(away), Near(first, last)

    def _distance(self, near: Near, first: float, last: float) -> Fraction | None:
        """How far the neighbours are from a range beside them; None if it holds no point."""
        if near.grid is None:
            return Fraction(first) - Fraction(near.high) if first > near.high else Fraction(near.low) - Fraction(last)
        assert self.step is not None
        begin, end = near.grid.numbers(first, last)
        return max(begin - near.numbers[1], near.numbers[0] - end) * self.step if begin <= end else None


def _whole(cost: int | None) -> Fraction | None:
    return None if cost is None else Fraction(cost)
