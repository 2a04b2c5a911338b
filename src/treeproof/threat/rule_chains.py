"""Chains of rewriting rules of numbers: what can become what, and what the cheapest chain costs."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.numbers.decimals import decimal_of, first_printed_from, nearest_double, rounding_to
from treeproof.numbers.doubles import LARGEST, FloatArray
from treeproof.numbers.patience import look

MOST_PIECES = 50_000
"""Of what chains reach; more are refused, since there may be no end of them. `check/chains.py` follows as many."""
LOOK_EVERY = 64
"""Pieces from one look at the time to the next."""
MOST_CELLS = 20_000
"""Of those whose starts are kept."""
MOST_STARTS = 256
"""Of which it is kept what they lead to."""


Range = tuple[Fraction, bool, Fraction, bool]
"""The numbers from one to another, each with or without the end itself."""


@dataclass(frozen=True)
class BoundRule:
    """A rewriting rule of one column. Numbers are the decimals that they print as, and ranges are closed."""

    cost: int
    low: Fraction | None = None
    high: Fraction | None = None
    """It applies to numbers of this range; None: no limit on that side."""
    change: tuple[Fraction, Fraction] | None = None
    """The range of what may be added to a number."""
    codes: tuple[float, ...] | None = None
    """For a category: it applies to the values that rows hold as these doubles."""
    to: float | None = None
    """What rows hold for the value that a category becomes."""


class Arrow(NamedTuple):
    """From numbers of the range `before`, to these plus anything in `shift` that lies in `after`."""

    before: tuple[Fraction, Fraction]
    shift: tuple[Fraction, Fraction]
    after: tuple[Fraction, Fraction]
    cost: int

    def back(self) -> Arrow:
        """From where it leads to where it starts."""
        return Arrow(self.after, (-self.shift[1], -self.shift[0]), self.before, self.cost)


class Reached(NamedTuple):
    """Ranges of doubles, each with the price of the chains between it and what was asked about, cheapest first."""

    price: FloatArray
    first: FloatArray
    last: FloatArray


@dataclass(frozen=True)
class RuleChains:
    """Chains of rules whose values stay in `domain` and whose costs add up to at most `budget` (None: no limit)."""

    rules: tuple[BoundRule, ...]
    domain: tuple[float, float]
    budget: int | None = None

    @cached_property
    def arrows(self) -> list[Arrow]:
        """What the rules lead to."""
        low, high = (decimal_of(min(max(end, -LARGEST), LARGEST)) for end in self.domain)
        arrows = []
        for rule in self.rules:
            if rule.change is not None:
                when = low if rule.low is None else rule.low, high if rule.high is None else rule.high
                arrows.append(Arrow(when, rule.change, (low, high), rule.cost))
        return arrows

    @cached_property
    def _known(self) -> dict[tuple[float, float], Reached]:
        """The starts of cells. Rows come and go, and most cells stay the same."""
        return {}

    @cached_property
    def _ends(self) -> dict[float, Reached]:
        """What chains from values lead to."""
        return {}

    @cached_property
    def _latest(self) -> dict[bytes, tuple[Reached, npt.NDArray[np.int64]]]:
        """Those of the latest cells, one after the other."""
        return {}

    def ends(self, start: float) -> Reached:
        """What the chains from a value lead to: ranges of the doubles nearest to what they reach."""
        found = self._ends.get(start)
        if found is None:
            origin = decimal_of(start)
            pieces = spread((origin, True, origin, True), self.arrows, self.budget)
            found = Reached(
                np.array([price for price, *_ in pieces], dtype=np.float64),
                np.array([nearest_double(first) for _, first, _, _, _ in pieces]),
                np.array([nearest_double(last) for _, _, _, last, _ in pieces]),
            )
            if len(self._ends) >= MOST_STARTS:
                self._ends.clear()
            self._ends[start] = found
        return found

    def n_known(self, first: FloatArray, last: FloatArray) -> int:
        """How many of these cells have known starts."""
        return sum(cell in self._known for cell in zip(first.tolist(), last.tolist(), strict=True))

    def starts(self, first: float, last: float) -> Reached:
        """Where chains start that lead into the cell [first, last]: ranges of doubles, by what these print as."""
        if first > last:
            return Reached(np.array([np.inf]), np.array([np.inf]), np.array([-np.inf]))
        found = self._known.get((first, last))
        if found is None:
            pieces = spread(rounding_to(first, last), [arrow.back() for arrow in self.arrows], self.budget)
            found = Reached(
                np.array([price for price, *_ in pieces], dtype=np.float64),
                np.array([first_printed_from(low, closed) for _, low, closed, _, _ in pieces]),
                np.array([-first_printed_from(-high, closed) for _, _, _, high, closed in pieces]),
            )
            if len(self._known) >= MOST_CELLS:
                self._known.clear()
            self._known[first, last] = found
        return found

    def starts_of_cells(self, first: FloatArray, last: FloatArray) -> tuple[Reached, npt.NDArray[np.int64]]:
        """The same for many cells, one after the other, and where the ranges of each begin; at least one per cell."""
        key = first.tobytes() + last.tobytes()
        found = self._latest.get(key)
        if found is None:
            each = [self.starts(begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True)]
            sizes = [0] + [len(reached.price) for reached in each[:-1]]
            parts = (np.concatenate(part) for part in zip(*each, strict=True))
            found = Reached(*parts), np.cumsum(sizes)
            self._latest.clear()
            self._latest[key] = found
        return found


def spread(start: Range, arrows: list[Arrow], budget: int | None) -> list[tuple[int, Fraction, bool, Fraction, bool]]:
    """The ranges (price, first, closed, last, closed) that arrows lead to from `start`, cheapest first.

    All numbers are brought to one denominator, and doubled: then a range without its end `n` is one that ends
    beside `2 n`, and whole numbers tell all ranges apart.
    """
    low, with_low, high, with_high = start
    parts = [end for arrow in arrows for pair in arrow[:3] for end in pair]
    scale = math.lcm(*(end.denominator for end in (low, high, *parts)))

    def whole(end: Fraction) -> int:
        return 2 * end.numerator * (scale // end.denominator)

    ways = [(*map(whole, (*before, *shift, *after)), cost) for before, shift, after, cost in arrows]
    reached = _Ranges()
    found = []
    todo = [(0, whole(low) + (not with_low), whole(high) - (not with_high))]
    while todo:
        price, first, last = heapq.heappop(todo)
        if not reached.add(first, last):
            continue
        found.append((price, first, last))
        if len(found) % LOOK_EVERY == 0:
            look()
        if len(found) > MOST_PIECES:
            raise InvalidInput(
                f"chains of rules lead to more than {MOST_PIECES} values; give the attacker a domain, or a budget: "
                "budget= or --budget, since files of TREANT state none (it binds the cheapest attack with within=True "
                "only)"
            )
        for begin, end, least, most, after, before, cost in ways:
            to_first = max(max(first, begin) + least, after)
            to_last = min(min(last, end) + most, before)
            affordable = budget is None or price + cost <= budget
            if affordable and max(first, begin) <= min(last, end) and to_first <= to_last:
                heapq.heappush(todo, (price + cost, to_first, to_last))
    unit = 2 * scale
    return [
        (price, Fraction(first - first % 2, unit), first % 2 == 0, Fraction(last + last % 2, unit), last % 2 == 0)
        for price, first, last in found
    ]


class _Ranges:
    """A set of whole numbers: ranges that do not touch, in rising order."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.last: list[int] = []

    def add(self, first: int, last: int) -> bool:
        """Adds a range; False if all of it was there."""
        at = bisect_right(self.first, first)
        if at and self.last[at - 1] >= last:
            return False
        begin = at - (at > 0 and self.last[at - 1] >= first - 1)
        end = bisect_right(self.first, last + 1)
        if begin < end:
            first, last = min(first, self.first[begin]), max(last, self.last[end - 1])
        self.first[begin:end], self.last[begin:end] = [first], [last]
        return True
