"""What an attacker can do to one column of a model: the definitions, and what the cells of the column cost by them.

Values are doubles as rows hold them, with codes for categories; NaN is a missing value. A price that is lower than the
true one is safe where something is proved, since then more can be paid for; a higher one never is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
    """Neighbours: the doubles from low to high, or of these only some values, or only points of a grid."""

    low: float
    high: float
    values: tuple[float, ...] | None = None
    grid: Grid | None = None
    numbers: tuple[int, int] = (0, 0)
    """Of the first and the last point."""

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
        return cells_between(cuts, self.low, self.high)

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
    def dearest(self) -> int:
        """What a move costs at most, where there is no power."""
        costs = [cost for cost in (self.blank, self.fill) if cost is not None]
        costs += [] if self.matrix is None else self.matrix.values()
        costs += [self.cost] if self.matrix is None and self.reach != (0.0, 0.0) else []
        costs += [MOST_SPENT if self.budget is None else int(self.budget)] if self.rules else []
        return max(costs, default=0)

    # --- the definitions ---------------------------------------------------------------------------------------------

    def is_near(self, x: float, near: float, size: Size) -> bool:
        """Whether a neighbour of a row with the value x may have this value of the domain, where ε is `size`."""
        if x == near or (math.isnan(x) and math.isnan(near)):
            return True
        if math.isnan(x) or math.isnan(near):
            return False
        if self.is_category or isinstance(size, tuple):
            return isinstance(size, tuple) and any(x in values and near in values for values in size)
        if self.step is None:
            return math.isinf(size) or abs(Fraction(near) - Fraction(x)) <= Fraction(size)
        first, last = Grid(x, self.step).numbers(near, near)
        fewest = max(first, -last, 0)
        return first <= last and (math.isinf(size) or fewest * self.step <= printed(size))

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The least price of a change to a value of the domain, in a row with the value x; None: it is impossible."""
        if start == end or (math.isnan(start) and math.isnan(end)):
            return Fraction(0)
        if math.isnan(end):
            return _whole(self.blank)
        if math.isnan(start):
            return _whole(self.fill) if self._may_be_filled_with(end) else None
        if self.rules:
            return self._price_of_chain(x, start, end)
        if self.matrix is not None:
            return _whole(self.matrix.get((start, end)))
        if self.reach == (0.0, 0.0):
            return None
        if self.ends is not None:
            return Fraction(self.cost) if end in self.ends else None
        if self.step is not None:
            return self._price_of_steps(Grid(x, self.step), start, end)
        moved = Fraction(end) - Fraction(start)
        low, high = self.reach
        if self.power is not None:
            return self._fee(abs(moved)) if (high > 0 if moved > 0 else low < 0) else None
        inside = (math.isinf(low) or moved >= Fraction(low)) and (math.isinf(high) or moved <= Fraction(high))
        return Fraction(self.cost) if inside else None

    def _may_be_filled_with(self, end: float) -> bool:
        if self.ends is not None:
            return end in self.ends
        first, last = (0, 0) if self.step is None else Grid(math.nan, self.step).numbers(end, end)
        return first <= last

    def _price_of_chain(self, x: float, start: float, end: float) -> Fraction | None:
        """The price of the cheapest chain of rules; on a grid, a double may be several points at once."""
        if self.step is None:
            first, last = end, end
            found = self._led_to([(start, start)])
        else:
            grid = Grid(x, self.step)
            first, last = grid.numbers(end, end)
            found = chains_on(grid, self._of_numbers, self.domain, self.budget, grid.numbers(start, start))
        for price, low, high in found:
            if first <= last and low <= last and first <= high:
                return None if math.isinf(low) else Fraction(price)  # nobody looked farther
        return None

    @property
    def _of_numbers(self) -> list[Rule]:
        return [rule for rule in self.rules if isinstance(rule, Rule)]

    def _led_to(self, starts: Sequence[tuple[float, float]]) -> Iterator[tuple[int, float, float]]:
        """What chains of rules lead to from numbers of some ranges, or from values of a category."""
        values = [rule for rule in self.rules if isinstance(rule, Leap)]
        if values:
            return leaps(values, self.domain, self.budget, [value for value, _ in starts])
        return chains(self._of_numbers, self.domain, self.budget, starts)

    def _price_of_steps(self, grid: Grid, start: float, end: float) -> Fraction | None:
        """The price of going from one point to another. A double may be several points at once."""
        assert self.step is not None
        (first, last), (begin, stop) = grid.numbers(start, start), grid.numbers(end, end)
        if first > last or begin > stop:
            return None
        if self.power is not None:
            goes = self.reach[0] < 0 if end < start else self.reach[1] > 0
            return self._fee(max(begin - last, first - stop) * self.step) if goes else None
        least, most = self._steps
        fits = least <= most and stop - first >= least and begin - last <= most
        return Fraction(self.cost) if fits else None

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
        moves = [(rule.cost, 1) for rule in self.rules] or ([] if near is None else self._moved(near, cuts))
        return not any(mask and (self.budget is None or price <= self.budget) for price, mask in moves)

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
            return self._rising([] if self.fill is None else [(0, missing), (self.fill, self._filled(cuts))])
        near = self.neighbours(x, size, part)
        return [] if near is None else self.cells_from(near, cuts)

    def cells_from(self, near: Near, cuts: Sequence[float]) -> Prices:
        """What it costs at least to bring the column from one of these numbers into each cell."""
        blanked = [] if self.blank is None else [(self.blank, 2 << len(cuts))]
        return self._rising([(0, near.cells(cuts)), *blanked, *self._moved(near, cuts)])

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
            values = tuple(sorted(value for value in alike if low <= value <= high))
            return Near(values[0], values[-1], values) if values else None
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
        found = [near.low, near.high]
        low, high = self.domain
        if self.rules:
            found += [low, high]
        elif self.matrix is not None:
            found += [end for start, end in self.matrix if near.holds(start)]
        elif self.ends is not None and self.reach != (0.0, 0.0):
            found += self.ends
        elif self.power is not None:
            least, most = self._farthest(near)
            found += [max(low, least)] * (self.reach[0] < 0) + [min(high, most)] * (self.reach[1] > 0)
        elif near.grid is not None and self.reach != (0.0, 0.0):
            (begin, end), (fewest, steps) = near.grid.numbers(*self.domain), self._steps
            first, last = max(begin, near.numbers[0] + fewest), min(end, near.numbers[1] + steps)
            found += [near.grid.point(first), near.grid.point(last)] if first <= last else []
        elif self.reach != (0.0, 0.0):
            least, most = self._ends_of_moves(near)
            found += [least, most] if least <= most else []
        return min(found), max(found)

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

    def _filled(self, cuts: Sequence[float]) -> int:
        """The cells that a missing value can be brought into."""
        if self.ends is not None:
            return cells_of(cuts, self.ends)
        if self.step is None:
            return cells_between(cuts, *self.domain)
        grid = Grid(math.nan, self.step)
        return grid.cells(cuts, *grid.numbers(*self.domain))

    def _moved(self, near: Near, cuts: Sequence[float]) -> Iterator[tuple[Fraction | int, int]]:
        """Prices of moves, and the cells where they end."""
        if self.rules:
            yield from self._chained(near, cuts)
        elif self.matrix is not None:
            for (start, end), cost in self.matrix.items():
                if near.holds(start):
                    yield cost, 1 << cell_of(cuts, end)
        elif self.reach == (0.0, 0.0):
            return
        elif self.ends is not None:
            yield self.cost, cells_of(cuts, self.ends)
        elif self.power is not None:
            yield from self._away(near, cuts)
        elif near.grid is not None:
            # Two ranges of whole numbers differ by all whole numbers between what their ends differ by.
            (first, last), (begin, end), (least, most) = near.numbers, near.grid.numbers(*self.domain), self._steps
            if least <= most:
                yield self.cost, near.grid.cells(cuts, max(begin, first + least), min(end, last + most))
        else:
            yield self.cost, self._moved_by_distance(near, cuts)

    def _chained(self, near: Near, cuts: Sequence[float]) -> Iterator[tuple[int, int]]:
        """What chains of rules cost, and the cells where they end."""
        if near.grid is not None:
            begin, end = near.grid.numbers(*self.domain)
            for price, first, last in chains_on(near.grid, self._of_numbers, self.domain, self.budget, near.numbers):
                yield price, near.grid.cells(cuts, int(max(first, begin)), int(min(last, end)))
            return
        low, high = self.domain
        singly = near.singly()
        # All numbers between many neighbours are taken for neighbours, which makes no cell dearer.
        starts = [(near.low, near.high)] if singly is None else [(value, value) for value in singly]
        left = cells_between(cuts, low, high)
        for price, first, last in self._led_to(starts):
            cells = cells_between(cuts, max(first, low), min(last, high))
            yield price, cells
            left &= ~cells
            if not left:
                return

    def _ends_of_moves(self, near: Near) -> tuple[float, float]:
        """The least and the largest double where moves by a distance of the interval may end."""
        (least, most), (low, high) = self.reach, self.domain
        if not math.isinf(least):
            low = max(low, at_least(Fraction(near.low) + Fraction(least)))
        if not math.isinf(most):
            high = min(high, at_most(Fraction(near.high) + Fraction(most)))
        return low, high

    def _moved_by_distance(self, near: Near, cuts: Sequence[float]) -> int:
        """The cells where moves by a distance of the interval end, between doubles."""
        (least, most), (low, high) = self.reach, self._ends_of_moves(near)
        mask = cells_between(cuts, low, high)
        if least <= 0 <= most or math.isinf(most - least):
            return mask
        # Where doubles are farther apart than the interval is wide, not all between the ends can be had.
        if Fraction(most) - Fraction(least) < max(math.ulp(near.low), math.ulp(near.high)):
            for cell in range(cell_of(cuts, low), mask.bit_length()):
                first = max(low, math.nextafter(cuts[cell - 1], math.inf)) if cell else low
                last = min(high, cuts[cell]) if cell < len(cuts) else high
                if not some_move((near.low, near.high), (first, last), self.reach):
                    mask &= ~(1 << cell)
        return mask

    def _away(self, near: Near, cuts: Sequence[float]) -> Iterator[tuple[Fraction, int]]:
        """What cells beside the neighbours cost by their distance, on either side from the nearest one on."""
        low, high = self.domain
        above = range(cell_of(cuts, near.high) + 1, cell_of(cuts, high) + 1 if self.reach[1] > 0 else 0)
        below = range(cell_of(cuts, near.low) - 1, cell_of(cuts, low) - 1 if self.reach[0] < 0 else len(cuts), -1)
        for cells in (above, below):
            for cell in cells:
                first = max(low, math.nextafter(cuts[cell - 1], math.inf)) if cell else low
                last = min(high, cuts[cell]) if cell < len(cuts) else high
                away = self._distance(near, first, last) if first <= last else None
                price = None if away is None else self._fee(away)
                if price is not None and self.budget is not None and price > self.budget:
                    break
                if price is not None:
                    yield price, 1 << cell

    def _distance(self, near: Near, first: float, last: float) -> Fraction | None:
        """How far the neighbours are from a range beside them; None if it holds no point."""
        if near.grid is None:
            return Fraction(first) - Fraction(near.high) if first > near.high else Fraction(near.low) - Fraction(last)
        assert self.step is not None
        begin, end = near.grid.numbers(first, last)
        return max(begin - near.numbers[1], near.numbers[0] - end) * self.step if begin <= end else None


def _whole(cost: int | None) -> Fraction | None:
    return None if cost is None else Fraction(cost)
