"""Chains of rewriting rules in a column of categories: any value of a set becomes any of another set."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.patience import look
from treeproof.threat.rule_chains import BoundRule
from treeproof.threat.starts import Starts
from treeproof.threat.ways import Way

MOST_AT_ONCE, MOST_KEPT = 10**6, 10**7
"""Prices that are made together, and that are kept."""

Places: TypeAlias = "npt.NDArray[np.intp]"
"""Values, by their places among all that rules name."""


class Links(NamedTuple):
    """What leads from each node to which others, and at what cost: those from `start[node]` on, one to each of them."""

    start: Places
    end: Places
    cost: FloatArray

    @classmethod
    def of(cls, n: int, start: Places, end: Places, cost: FloatArray) -> Links:
        """The cheapest of links between n nodes."""
        order = np.lexsort((cost, end, start))
        start, end, cost = start[order], end[order], cost[order]
        first = np.append(True, (start[1:] != start[:-1]) | (end[1:] != end[:-1]))[: len(start)]
        return cls(np.searchsorted(start[first], np.arange(n + 1)), end[first], cost[first])

    def prices(self, begin: Places, n_values: int, budget: float) -> FloatArray:
        """What the cheapest ways from some nodes to each of the first ones cost."""
        prices = np.full(len(self.start) - 1, np.inf)
        prices[begin] = 0.0
        todo, latest, done = [(0.0, node) for node in begin.tolist()], -1.0, 0
        while todo and done < n_values:
            price, node = heapq.heappop(todo)
            if price > latest:
                look()
            latest, done = price, done + (price == prices[node] and node < n_values)
            if price > prices[node] or done == n_values:
                continue
            links = slice(self.start[node], self.start[node + 1])
            end, total = self.end[links], price + self.cost[links]
            better = (total < prices[end]) & (total <= budget)
            prices[end[better]] = total[better]
            for pair in zip(total[better].tolist(), end[better].tolist(), strict=True):
                heapq.heappush(todo, pair)
        return prices[:n_values]


@dataclass(frozen=True, eq=False)
class ByCategoryRules(Way):
    """By the cheapest chain of rules whose values stay in `domain`, and whose costs add up to at most `budget`."""

    rules: tuple[BoundRule, ...]
    domain: tuple[float, float]
    budget: int | None = None

    @cached_property
    def _values(self) -> FloatArray:
        """What rows hold for the values that rules name, in rising order."""
        sets = {rule.codes or () for rule in self.rules}
        return np.array(sorted({rule.to for rule in self.rules if rule.to is not None}.union(*sets)), dtype=np.float64)

    @cached_property
    def _links(self) -> tuple[Links, Links]:
        """Where rules lead, and whence: from values to the sets that rules are for, and from these to values."""
        values = self._values.tolist()
        place, n = {value: k for k, value in enumerate(values)}, len(values)
        numbers: dict[tuple[float, ...], int] = {}
        rules = [rule for rule in self.rules if rule.to is not None and self.domain[0] <= rule.to <= self.domain[1]]
        sets = [rule.codes or () for rule in rules]
        # From all others is as good as from all: then rules of an exchange are for one set.
        for k, (rule, codes) in enumerate(zip(rules, sets, strict=True)):
            if len(codes) >= n - 1 and len({*codes, rule.to}) == n:
                sets[k] = tuple(values)
        through = [numbers.setdefault(codes, n + len(numbers)) for codes in sets]
        members = [(place[code], number) for codes, number in numbers.items() for code in codes]
        start = np.array([one for one, _ in members] + through, dtype=np.intp)
        end = np.array([one for _, one in members] + [place[rule.to] for rule in rules if rule.to is not None], np.intp)
        cost = np.array([0.0] * len(members) + [float(rule.cost) for rule in rules])
        nodes = n + len(numbers)
        return Links.of(nodes, start, end, cost), Links.of(nodes, end, start, cost)

    @cached_property
    def _known(self) -> dict[tuple[bytes, bool], FloatArray]:
        """What was asked before."""
        return {}

    def _prices(self, begin: Places, back: bool = False) -> FloatArray:
        """What chains from some of these values to each value cost, or `back`: from each value to some of them."""
        key = begin.tobytes(), back
        prices = self._known.get(key)
        if prices is None:
            budget = math.inf if self.budget is None else self.budget
            prices = self._links[back].prices(begin, len(self._values), budget)
            if len(self._known) * len(prices) >= MOST_KEPT:
                self._known.clear()
            self._known[key] = prices
        return prices

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The cost of the cheapest chain."""
        del x
        begin, there = self._set(start, start), self._between(np.array([end]), np.array([end]))
        price = _least(self._prices(begin), *there)[0] if len(begin) else np.inf
        return None if price == np.inf else Fraction(int(price))

    def _between(self, first: FloatArray, last: FloatArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the values of cells begin and end."""
        return np.searchsorted(self._values, first), np.searchsorted(self._values, last, side="right")

    def _set(self, first: float, last: float) -> Places:
        """The values of a cell."""
        begin, end = (int(ends[0]) for ends in self._between(np.array([first]), np.array([last])))
        return np.arange(begin, end)

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The least cost of chains that start where the row may."""
        paid, cells = np.empty((len(starts.own), len(first))), self._between(first, last)
        size = max(1, MOST_AT_ONCE // len(self._values))
        for row in range(0, len(paid), size):
            some = slice(row, row + size)
            held = starts.take(some).within(self._values, self._values)
            kinds, kind = np.unique(held, axis=0, return_inverse=True)
            begun = np.array([_least(self._prices(np.flatnonzero(one)), *cells) for one in kinds])
            paid[some] = begun[kind.reshape(-1)]
        return paid

    def move(self, starts: Starts, first: FloatArray, last: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The cheapest chain, of several one that starts nearest to the row's own value."""
        z, w = super().move(starts, first, last)
        for row, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            one = starts.take(slice(row, row + 1))
            held = one.within(self._values, self._values)[0]
            price = np.where(held, self._prices(self._set(begin, end), back=True), np.inf)
            best = price.min()
            if best < np.inf:
                z[row] = _nearest(self._values[price == best], float(one.own[0]))
                there = self._prices(self._set(z[row], z[row])) <= best
                inside = there & (begin <= self._values) & (self._values <= end)
                w[row] = _nearest(self._values[inside], z[row])
        return z, w

    def reached(self, x: float, start: float) -> tuple[FloatArray, FloatArray]:
        """The values that chains of rules lead to."""
        del x
        begin = self._set(start, start)
        ends = self._values[self._prices(begin) < np.inf] if len(begin) else np.array([start])
        return ends, ends


def _least(prices: FloatArray, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> FloatArray:
    """The least price in each cell; inf in one without values."""
    ends = np.stack((begin, end), axis=1).reshape(-1)
    return np.where(begin < end, np.minimum.reduceat(np.append(prices, np.inf), ends)[::2], np.inf)


def _nearest(values: FloatArray, near: float) -> float:
    return float(values[np.argmin(np.abs(values - near))])
