"""Chains of rewriting rules: what they lead to, and at what price."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from treeproof.check.doubles import Grid, nearest, printed, quotient

MOST_RULES, MOST_RANGES, MOST_STEPS = 10_000, 50_000, 1_000_000
"""Of an attacker; of what chains lead to; of these times rules. The search follows as many, and refuses more."""
MOST_SPENT = 2**40 + 1
"""What chains cost at most, if there is no budget: more than any budget of a group."""


class Rule(NamedTuple):
    """Adds something from `least` to `most` to numbers from `low` to `high`.

    All are the decimals that doubles print as.
    """

    low: Fraction
    high: Fraction
    least: Fraction
    most: Fraction
    cost: int


class Leap(NamedTuple):
    """Makes one value of a category out of some others."""

    starts: frozenset[float]
    to: float
    cost: int


def leaps(
    rules: Sequence[Leap], domain: tuple[float, float], budget: Fraction | None, starts: Sequence[float]
) -> Iterator[tuple[int, float, float]]:
    """What rules make of values of a category, again and again: prices, rising, and each value as a range."""
    queue, reached = [(0, value) for value in starts], set()
    left = [rule for rule in rules if domain[0] <= rule.to <= domain[1]]
    while queue:
        price, value = heapq.heappop(queue)
        if value in reached:
            continue
        reached.add(value)
        yield price, value, value
        # Whatever a rule is applied to first is the cheapest; later it leads to the same at a higher price.
        for rule in left:
            spent = min(price + rule.cost, MOST_SPENT) if budget is None else price + rule.cost
            if value in rule.starts and (budget is None or spent <= budget):
                heapq.heappush(queue, (spent, rule.to))
        left = [rule for rule in left if value not in rule.starts]


def chains(
    rules: Sequence[Rule],
    domain: tuple[float, float],
    budget: Fraction | None,
    starts: Sequence[tuple[float, float]],
) -> Iterator[tuple[int, float, float]]:
    """What rules make of all numbers of some ranges, again and again: prices, rising, and ranges of doubles.

    Rules go from numbers to numbers; what they lead to is rounded at the end. If there are too many ranges, the last
    one is infinite: all that is still to come costs at least so much.
    """
    ends = [(printed(low), printed(high)) for low, high in (domain, *starts)]
    parts = math.lcm(*(end.denominator for some in (*ends, *(rule[:4] for rule in rules)) for end in some))
    inside, *todo = [(int(low * parts), int(high * parts)) for low, high in ends]
    ways = [(*(int(end * parts) for end in rule[:4]), rule.cost) for rule in rules]
    for price, low, high in _spread(ways, inside, budget, todo):
        yield price, quotient(low, parts), quotient(high, parts)


def chains_on(
    grid: Grid,
    rules: Sequence[Rule],
    domain: tuple[float, float],
    budget: Fraction | None,
    numbers: tuple[int, int],
) -> Iterator[tuple[int, float, float]]:
    """The same from points of a grid to others, by their numbers: rules go whole numbers of steps."""
    ways = [
        (
            *grid.numbers(nearest(rule.low), nearest(rule.high)),
            math.ceil(rule.least / grid.step),
            math.floor(rule.most / grid.step),
            rule.cost,
        )
        for rule in rules
    ]
    ways = [way for way in ways if way[0] <= way[1] and way[2] <= way[3]]
    yield from _spread(ways, grid.numbers(*domain), budget, [numbers])


def _spread(
    ways: Sequence[tuple[int, ...]], inside: tuple[int, int], budget: Fraction | None, starts: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, float, float]]:
    """What rules make of ranges of whole numbers; the last range may be infinite."""
    queue, reached = [(0, low, high) for low, high in starts if low <= high], _Ranges()
    left = min(MOST_RANGES, MOST_STEPS // max(1, len(ways)))
    while queue:
        price, low, high = heapq.heappop(queue)
        if not reached.add(low, high):
            continue  # all of it was reached for no more
        if left == 0:
            yield price, -math.inf, math.inf
            return
        left -= 1
        yield price, low, high
        for begin, end, less, more, cost in ways:
            begin, end = max(low, begin), min(high, end)
            after = max(begin + less, inside[0]), min(end + more, inside[1])
            spent = min(price + cost, MOST_SPENT) if budget is None else price + cost
            if begin <= end and after[0] <= after[1] and (budget is None or spent <= budget):
                heapq.heappush(queue, (spent, *after))


class _Ranges:
    """A set of numbers: closed ranges that do not meet, rising."""

    def __init__(self) -> None:
        self._first: list[int] = []
        self._last: list[int] = []

    def add(self, first: int, last: int) -> bool:
        """Adds a range; False if all of it was there."""
        begin, end = bisect_left(self._last, first), bisect_right(self._first, last)
        if begin < end:
            if self._first[begin] <= first and last <= self._last[begin]:
                return False
            first, last = min(first, self._first[begin]), max(last, self._last[end - 1])
        self._first[begin:end], self._last[begin:end] = [first], [last]
        return True
