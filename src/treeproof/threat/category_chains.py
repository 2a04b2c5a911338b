"""Chains of rewriting rules in a column of categories: any value of a set becomes any of another set."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from operator import or_
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

Set: TypeAlias = int
"""Values, as bits, by their places among all that rules name."""


class Step(NamedTuple):
    """What values become for a cost: each one any of a set, and sets of values that become the same."""

    cost: int
    each: list[Set]
    pairs: list[tuple[Set, Set]]

    def after(self, values: Set) -> Set:
        """What any of these values can become."""
        if len(self.pairs) <= values.bit_count():
            return reduce(or_, (after for before, after in self.pairs if before & values), 0)
        return reduce(or_, (self.each[place] for place in _bits(values)), 0)


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
    def _steps(self) -> tuple[list[Step], list[Step]]:
        """Where rules lead, and whence."""
        bit = {value: 1 << place for place, value in enumerate(self._values.tolist())}
        sets = {codes: sum(bit[code] for code in codes) for codes in {rule.codes or () for rule in self.rules}}
        links: dict[int, dict[Set, Set]] = defaultdict(lambda: defaultdict(int))
        for rule in self.rules:
            if rule.to is not None and self.domain[0] <= rule.to <= self.domain[1]:
                before, after = sets[rule.codes or ()], bit[rule.to]
                # From all others is as good as from all: then rules of an exchange are one.
                all_of_them = before | after == (1 << len(bit)) - 1
                links[rule.cost][before | after if all_of_them else before] |= after
        there = [_step(cost, pairs.items(), len(bit)) for cost, pairs in links.items()]
        back = [_step(cost, [(end, start) for start, end in pairs.items()], len(bit)) for cost, pairs in links.items()]
        return there, back

    @cached_property
    def _known(self) -> dict[tuple[Set, bool], FloatArray]:
        """What was asked before."""
        return {}

    def _prices(self, begin: Set, back: bool = False) -> FloatArray:
        """What chains from some of these values to each value cost, or `back`: from each value to some of them."""
        prices = self._known.get((begin, back))
        if prices is None:
            prices = np.full(len(self._values), np.inf)
            for price, values in self._spread(begin, self._steps[back]):
                prices[_places(values)] = price
            if len(self._known) * len(prices) >= MOST_KEPT:
                self._known.clear()
            self._known[begin, back] = prices
        return prices

    def _spread(self, begin: Set, steps: list[Step]) -> Iterator[tuple[int, Set]]:
        """What steps lead to from these values, at rising prices."""
        left = reduce(or_, (after for step in steps for _, after in step.pairs), begin)
        prices, waiting = [0], {0: begin}
        while prices and left:
            look()
            price = heapq.heappop(prices)
            new = waiting.pop(price) & left
            left &= ~new
            if new:
                yield price, new
            for step in steps if new and left else ():
                after, total = step.after(new) & left, price + step.cost
                if after and (self.budget is None or total <= self.budget):
                    if total not in waiting:
                        heapq.heappush(prices, total)
                    waiting[total] = waiting.get(total, 0) | after

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The cost of the cheapest chain."""
        del x
        begin, there = self._set(start, start), self._between(np.array([end]), np.array([end]))
        price = _least(self._prices(begin), *there)[0] if begin else np.inf
        return None if price == np.inf else Fraction(int(price))

    def _between(self, first: FloatArray, last: FloatArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the values of cells begin and end."""
        return np.searchsorted(self._values, first), np.searchsorted(self._values, last, side="right")

    def _set(self, first: float, last: float) -> Set:
        """The values of a cell."""
        begin, end = (int(ends[0]) for ends in self._between(np.array([first]), np.array([last])))
        return (1 << end) - (1 << begin) if begin < end else 0

    def paid(self, starts: Starts, first: FloatArray, last: FloatArray) -> FloatArray:
        """The least cost of chains that start where the row may."""
        paid, cells = np.empty((len(starts.own), len(first))), self._between(first, last)
        size = max(1, MOST_AT_ONCE // len(self._values))
        for row in range(0, len(paid), size):
            some = slice(row, row + size)
            held = np.packbits(starts.take(some).within(self._values, self._values), axis=1, bitorder="little")
            kinds, kind = np.unique(held, axis=0, return_inverse=True)
            begun = [int.from_bytes(one.tobytes(), "little") for one in kinds]
            paid[some] = np.array([_least(self._prices(begin), *cells) for begin in begun])[kind.reshape(-1)]
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
        ends = self._values[self._prices(begin) < np.inf] if begin else np.array([start])
        return ends, ends


def _step(cost: int, pairs: Iterable[tuple[Set, Set]], n: int) -> Step:
    """A step of these sets to others, whose values may be in several of them."""
    each = [0] * n
    for before, after in pairs:
        for place in _bits(before):
            each[place] |= after
    sets: dict[Set, Set] = defaultdict(int)
    for place, after in enumerate(each):
        if after:
            sets[after] |= 1 << place
    return Step(cost, each, [(before, after) for after, before in sets.items()])


def _bits(values: Set) -> Iterator[int]:
    return iter(_places(values).tolist())


def _places(values: Set) -> npt.NDArray[np.intp]:
    held = np.frombuffer(values.to_bytes(values.bit_length() // 8 + 1, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(held, bitorder="little"))


def _least(prices: FloatArray, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> FloatArray:
    """The least price in each cell; inf in one without values."""
    ends = np.stack((begin, end), axis=1).reshape(-1)
    return np.where(begin < end, np.minimum.reduceat(np.append(prices, np.inf), ends)[::2], np.inf)


def _nearest(values: FloatArray, near: float) -> float:
    return float(values[np.argmin(np.abs(values - near))])
