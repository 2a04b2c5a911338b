"""Ways to change a present value into another one: to certain values, by a matrix of costs, by chains of rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray, double_at_most
from treeproof.threat.rule_chains import RuleChains
from treeproof.threat.starts import Starts, nearest_one
from treeproof.threat.step_grid import BoolArray

MOST_AT_ONCE = 10**6


class Way:
    """One way to change values, and its price. This one changes nothing.

    Cells are ranges of doubles inside the domain, empty if their first is above their last double, and so are the
    starts of rows.
    """

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The price of changing `start` to another double, in a row whose own value is x; None: impossible."""
        del x, start, end
        return None

    def table(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The least price from the starts of each row into each cell (n_rows, n_cells), never more; inf: impossible."""
        return np.where(starts.within(first, last), 0.0, self.paid(starts, first, last))

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The same where no start lies in the cell."""
        del last
        return np.full((len(starts.own), len(first)), np.inf)

    def exact(self, starts: Starts, first: FloatArray, last: FloatArray) -> list[Fraction | None]:
        """The same for a single row, exactly; None: impossible."""
        prices = self.table(starts, first, last)[0].tolist()
        return [None if price == np.inf else Fraction(price) for price in prices]

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A cheapest move of each row into its cell, in which it has no start: where it starts, and where it ends.

        It starts as near to the row's own value as can be. NaN: there is none.
        """
        del first, last
        return np.full(len(starts.own), np.nan), np.full(len(starts.own), np.nan)

    def reached(self, x: float, start: float) -> tuple[FloatArray, FloatArray]:
        """Where chains from `start` end, as ranges of doubles whose values cost the same: their firsts and lasts."""
        del x, start
        return np.empty(0), np.empty(0)


@dataclass(frozen=True, eq=False)
class ToEnds(Way):
    """To one of certain doubles, rising ones, for a cost."""

    ends: FloatArray
    cost: int

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The cost, if `end` is one of them."""
        del x, start
        return Fraction(self.cost) if end in self.ends else None

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The cost, wherever there is a start and an end."""
        return np.where(starts.some[:, None] & holds_one(self.ends, first, last), float(self.cost), np.inf)

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From the start that is nearest to the row's own value to the nearest end."""
        start = starts.nearest(starts.low, starts.high)
        return start, nearest_one(self.ends, start, first, last)


def holds_one(values: FloatArray, first: FloatArray, last: FloatArray) -> BoolArray:
    """Whether each cell holds one of these rising values."""
    return np.asarray(np.searchsorted(values, first) < np.searchsorted(values, last, side="right"))


@dataclass(frozen=True, eq=False)
class ByMatrix(Way):
    """From certain doubles to others, each for its own cost; those of distances over several columns are fractions."""

    costs: Mapping[tuple[float, float], int | Fraction]

    @cached_property
    def _from(self) -> list[tuple[float, FloatArray, FloatArray]]:
        """Each double that moves start at, where they end, and their costs, cheapest first."""
        # There are many pairs and few costs, mostly the same objects, and fractions are slow to compare and to hash.
        objects = {id(cost): cost for cost in self.costs.values()}
        costs = sorted(set(objects.values()))
        rank = {key: costs.index(cost) for key, cost in objects.items()}
        doubles = [double_at_most(Fraction(cost)) for cost in costs]
        moves: dict[float, list[tuple[int, float]]] = {}
        for (start, end), cost in self.costs.items():
            moves.setdefault(start, []).append((rank[id(cost)], end))
        return [
            (start, np.array([end for _, end in pairs]), np.array([doubles[number] for number, _ in pairs]))
            for start, pairs in sorted((start, sorted(pairs)) for start, pairs in moves.items())
        ]

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The entry of the matrix."""
        del x
        cost = self.costs.get((start, end))
        return None if cost is None else Fraction(cost)

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The least cost from a start that has one."""
        paid = super().paid(starts, first, last)
        for start, ends, costs in self._from:
            if not ((starts.low <= start) & (start <= starts.high)).any():
                continue
            rows = starts.within(np.array([start]), np.array([start]))[:, 0]
            inside = (ends[:, None] >= first) & (ends[:, None] <= last)
            least = np.where(inside, costs[:, None], np.inf).min(axis=0)
            paid[rows] = np.minimum(paid[rows], least)
        return paid

    def exact(self, starts: Starts, first: FloatArray, last: FloatArray) -> list[Fraction | None]:
        """The least cost, which need not be a double."""
        held = [
            (end, cost) for (start, end), cost in self.costs.items() if starts.within(*np.full((2, 1), start))[0, 0]
        ]
        found: list[Fraction | None] = []
        for low, high, free in zip(first.tolist(), last.tolist(), starts.within(first, last)[0], strict=True):
            paid = [Fraction(cost) for end, cost in held if low <= end <= high]
            found.append(Fraction(0) if free else min(paid, default=None))
        return found

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The cheapest entry, of several the one that starts nearest to the row's own value."""
        z, w = super().move(starts, first, last)
        best, nearest = np.full(len(first), np.inf), np.full(len(first), np.inf)
        for start, ends, costs in self._from:
            rows = starts.within(np.array([start]), np.array([start]))[:, 0]
            inside = (ends[:, None] >= first) & (ends[:, None] <= last)
            at = inside.argmax(axis=0)
            cost = np.where(inside.any(axis=0), costs[at], np.inf)
            away = np.abs(starts.own - start)
            better = rows & ((cost < best) | ((cost == best) & (cost < np.inf) & (away < nearest)))
            z[better], w[better], best[better], nearest[better] = start, ends[at][better], cost[better], away[better]
        return z, w


@dataclass(frozen=True, eq=False)
class ByRules(Way):
    """By the cheapest chain of rewriting rules."""

    chains: RuleChains

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The cost of the cheapest chain."""
        base = self.chains.base(x)
        reached = self.chains.ends(base, start)
        prices = reached.price[(reached.first <= end) & (end <= reached.last)]
        return Fraction(int(prices[0])) if len(prices) and self.chains.is_point(base, end) else None

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The least cost of chains that start where the row may."""
        starts = Starts(starts.own, *starts.ends())
        begun, of_row = np.unique(starts.low, return_inverse=True)
        few = self.chains.grid is None and len(begun) < len(first) - self.chains.n_known(first, last)
        if few and (starts.low == starts.high).all():
            each = [self._paid_from(start, first, last) for start in begun.tolist()]
            return np.array(each)[of_row] if each else np.empty((0, len(first)))
        paid = np.empty((len(starts.own), len(first)))
        for base, rows in self._by_base(starts):
            reached, begin = self.chains.starts_of_cells(base, first, last)
            # So many rows at once that memory is no matter.
            size = max(1, MOST_AT_ONCE // len(reached.price))
            for row in range(0, len(rows), size):
                some = rows[row : row + size]
                held = starts.take(some).within(reached.first, reached.last)
                paid[some] = np.minimum.reduceat(np.where(held, reached.price, np.inf), begin, axis=1)
        return paid

    def _by_base(self, starts: Starts) -> Iterator[tuple[Fraction, npt.NDArray[np.intp]]]:
        """The bases of the rows' grids, and the rows of each."""
        own, of_row = np.unique(starts.own, return_inverse=True)
        bases: dict[Fraction, list[int]] = defaultdict(list)
        for place, base in enumerate([self.chains.base(x) for x in own.tolist()]):
            bases[base].append(place)
        return ((base, np.flatnonzero(np.isin(of_row.reshape(-1), places))) for base, places in bases.items())

    def _paid_from(self, start: float, first: FloatArray, last: FloatArray) -> FloatArray:
        """The same from one value without a grid, which takes less than what leads to each of many cells."""
        reached, paid = self.chains.ends(Fraction(0), start), np.full(len(first), np.inf)
        for cell in np.flatnonzero(first <= last):
            held = (reached.first <= last[cell]) & (reached.last >= first[cell])
            paid[cell] = reached.price[held.argmax()] if held.any() else np.inf
        return paid

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The cheapest chain, of several one that starts nearest to the row's own value."""
        z, w = super().move(starts, first, last)
        # Between points of a grid, all ranges of points are like those of doubles.
        first, last = replace(starts, low=first, high=last).ends()
        starts = Starts(starts.own, *starts.ends())
        for base, some in self._by_base(starts):
            cells, at = np.unique(np.stack((first[some], last[some])), axis=1, return_inverse=True)
            for cell in np.flatnonzero(cells[0] <= cells[1]):
                rows, ends = some[at.reshape(-1) == cell], cells[:, cell].tolist()
                z[rows], price = self._start(base, starts.take(rows), *ends)
                for value, cost in set(zip(z[rows].tolist(), price.tolist(), strict=True)):
                    if cost < np.inf:
                        w[rows[z[rows] == value]] = self._end(base, value, cost, *ends)
        return z, w

    def reached(self, x: float, start: float) -> tuple[FloatArray, FloatArray]:
        """The ranges that chains of rules lead to, on a grid each from a point to a point."""
        reached = self.chains.ends(self.chains.base(x), start)
        return reached.first, reached.last

    def _start(self, base: Fraction, starts: Starts, first: float, last: float) -> tuple[FloatArray, FloatArray]:
        """Where the rows' cheapest chains into one cell start, and their costs."""
        reached = self.chains.starts(base, first, last)
        near = (reached.first <= np.fmax.reduce(starts.high)) & (np.fmin.reduce(starts.low) <= reached.last)
        z, nearest, best = (np.full(len(starts.own), value) for value in (np.nan, np.inf, np.inf))
        for price, begin, end in np.stack(reached, axis=1)[near].tolist():
            if price > best.max():
                break
            start = starts.nearest(np.full(len(z), begin), np.full(len(z), end))
            away = np.abs(start - starts.own)
            better = ~np.isnan(start) & ((price < best) | ((price == best) & (away < nearest)))
            z[better], nearest[better], best[better] = start[better], away[better], price
        return z, best

    def _end(self, base: Fraction, start: float, price: float, first: float, last: float) -> float:
        """The double of a cell, nearest to `start`, that chains lead to at this price."""
        reached = self.chains.ends(base, start)
        begin, end = np.maximum(reached.first, first), np.minimum(reached.last, last)
        found = np.clip(start, begin, end)[(reached.price <= price) & (begin <= end)]
        return float(found[np.argmin(np.abs(found - start))])
