"""Chains of rewriting rules of numbers: what can become what, and what the cheapest chain costs.

In a column with a step every value on the way is a point of the row's grid.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.decimals import decimal_of, first_printed_from, nearest_double, rounding_to
from treeproof.numbers.doubles import LARGEST, FloatArray
from treeproof.numbers.patience import look
from treeproof.threat.step_grid import StepGrid, origin_of

MOST_PIECES, MOST_STEPS = 50_000, 1_000_000
"""Of what chains reach, and pieces times rules; there may be no end of them. `check/chains.py` follows as many."""
LOOK_EVERY = 64
"""Pieces from one look at the time to the next."""
MOST_CELLS = 20_000
"""Of those whose starts are kept."""
MOST_STARTS = 256
"""Of which it is kept what they lead to."""
MOST_GRIDS = 256
"""Whose starts are kept for all cells at once."""

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
class RuleChains(FieldsOnly):
    """Chains of rules whose values stay in `domain` and whose costs add up to at most `budget` (None: no limit).

    With a `grid`, all values are points of the row's grid: a `base` below the step, plus whole numbers of steps. What a
    rule adds is a whole number of steps then, so that chains are about numbers of points. Without one, all rows have
    the base 0.
    """

    rules: tuple[BoundRule, ...]
    domain: tuple[float, float]
    budget: int | None = None
    grid: StepGrid | None = None

    @cached_property
    def _known(self) -> dict[tuple[Fraction, float, float], Reached]:
        """The starts of cells. Rows come and go, and most cells stay the same.

        Threads share this and what follows, and may clear it: nobody looks up again what he has put in.
        """
        return {}

    @cached_property
    def _ends(self) -> dict[tuple[Fraction, float], Reached]:
        """What chains from values lead to."""
        return {}

    @cached_property
    def _latest(self) -> dict[tuple[Fraction, bytes, bytes], tuple[Reached, npt.NDArray[np.int64]]]:
        """The starts of the latest cells, one after the other, on different grids."""
        return {}

    @cached_property
    def _arrows_on(self) -> dict[Fraction, list[Arrow]]:
        """What the rules lead to, on different grids."""
        return {}

    def base(self, x: float) -> Fraction:
        """The base of a row's grid."""
        return Fraction(0) if self.grid is None else origin_of(x) % self.grid.step

    def is_point(self, base: Fraction, value: float) -> bool:
        """Whether chains may lead to a value at all."""
        return self._numbers(base, value, value) is not None

    def ends(self, base: Fraction, start: float) -> Reached:
        """What the chains from a value lead to: ranges of the doubles nearest to what they reach."""
        found = self._ends.get((base, start))
        if found is None:
            origin = decimal_of(start)
            begin = self._numbers(base, start, start) if self.grid else (origin, True, origin, True)
            pieces = spread(begin, self.arrows(base), self.budget) if begin else []
            found = _reached((price, *self._doubles(base, first, last)) for price, first, _, last, _ in pieces)
            _keep(self._ends, (base, start), found, MOST_STARTS)
        return found

    def n_known(self, first: FloatArray, last: FloatArray) -> int:
        """How many of these cells have known starts, where there is no grid."""
        return sum((Fraction(0), *cell) in self._known for cell in zip(first.tolist(), last.tolist(), strict=True))

    def starts(self, base: Fraction, first: float, last: float) -> Reached:
        """Where chains start that lead into the cell [first, last]: ranges of doubles, by what these print as."""
        found = self._known.get((base, first, last))
        if found is None:
            end = self._numbers(base, first, last) if first <= last else None
            pieces = spread(end, [arrow.back() for arrow in self.arrows(base)], self.budget) if end else []
            found = _reached(
                (price, *self._doubles(base, low, high))
                if self.grid
                else (price, first_printed_from(low, with_low), -first_printed_from(-high, with_high))
                for price, low, with_low, high, with_high in pieces
            )
            _keep(self._known, (base, first, last), found, MOST_CELLS)
        return found

    def starts_of_cells(
        self, base: Fraction, first: FloatArray, last: FloatArray
    ) -> tuple[Reached, npt.NDArray[np.int64]]:
        """The same for many cells, one after the other, and where the ranges of each begin; at least one per cell."""
        key = base, first.tobytes(), last.tobytes()
        found = self._latest.get(key)
        if found is None:
            each = [self.starts(base, begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True)]
            sizes = [0] + [len(reached.price) for reached in each[:-1]]
            parts = (np.concatenate(part) for part in zip(*each, strict=True))
            found = Reached(*parts), np.cumsum(sizes)
            _keep(self._latest, key, found, MOST_GRIDS if self.grid else 1)
        return found

    def arrows(self, base: Fraction) -> list[Arrow]:
        """What the rules lead to: from number to number, or on a grid from number to number of points."""
        known = self._arrows_on.get(base)
        if known is None:
            low, high = (decimal_of(min(max(end, -LARGEST), LARGEST)) for end in self.domain)
            known = []
            for rule in self.rules:
                if rule.change is not None:
                    when = low if rule.low is None else rule.low, high if rule.high is None else rule.high
                    known.append(Arrow(when, rule.change, (low, high), rule.cost))
            if self.grid is not None:
                known = [arrow for one in known if (arrow := self._drawn_in(base, one)) is not None]
            _keep(self._arrows_on, base, known, MOST_CELLS)
        return known

    def _drawn_in(self, base: Fraction, arrow: Arrow) -> Arrow | None:
        """An arrow from number to number of points; None if it is for none, or leads to none."""
        assert self.grid is not None
        before, after = (self._numbers(base, *map(nearest_double, ends)) for ends in (arrow.before, arrow.after))
        least, most = (end / self.grid.step for end in arrow.shift)
        shift = Fraction(math.ceil(least)), Fraction(math.floor(most))
        if before is None or after is None or shift[0] > shift[1]:
            return None
        return Arrow(before[::2], shift, after[::2], arrow.cost)

    def _numbers(self, base: Fraction, first: float, last: float) -> Range | None:
        """What doubles of a range stand for, numbers or numbers of points; None: nothing."""
        if self.grid is None:
            return rounding_to(first, last)
        begin, end = self.grid.numbers_from(base, first, last)
        return (Fraction(begin), True, Fraction(end), True) if begin <= end else None

    def _doubles(self, base: Fraction, *numbers: Fraction) -> Iterator[float]:
        """The doubles nearest to numbers, or to points with these numbers."""
        return (nearest_double(base + number * self.grid.step if self.grid else number) for number in numbers)


def _reached(pieces: Iterable[tuple[float, ...]]) -> Reached:
    """Prices and ranges, one if there is none."""
    return Reached(*np.array(list(pieces) or [(np.inf, np.inf, -np.inf)], dtype=np.float64).T)


def _keep(known: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    if len(known) >= most:
        known.clear()
    known[key] = value


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
    reached, allowed = _Ranges(), min(MOST_PIECES, MOST_STEPS // max(1, len(arrows)))
    found = []
    todo = [(0, whole(low) + (not with_low), whole(high) - (not with_high))]
    while todo:
        price, first, last = heapq.heappop(todo)
        if not reached.add(first, last):
            continue
        found.append((price, first, last))
        if len(found) % LOOK_EVERY == 0:
            look()
        if len(found) > allowed:
            raise InvalidInput(
                f"chains of rules lead to more than {allowed} values; give the attacker a domain, fewer rules, or a "
                "budget: budget= or --budget, since files of TREANT state none (it binds the cheapest attack with "
                "within=True only)"
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
