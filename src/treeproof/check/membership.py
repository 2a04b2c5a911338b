"""Which neighbours a row has and what an attacker may make of them: the definitions, in rational numbers.

Nothing here is shared with the engines, or with what they make of an attacker: only its own fields are read.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.threat.attacker import Attacker
from treeproof.threat.moves import ANY, CostMatrix, Move, Rule, Steps, Values

LARGEST = sys.float_info.max
MOST_CHAINS = 100_000
"""Rules are applied no more often than that while the cheapest chain is looked for."""


@dataclass(frozen=True)
class Column:
    """What an attacker says about one column of a model."""

    move: Move
    cost: int | CostMatrix
    step: Fraction | None
    blank: int | None
    fill: int | None
    unseen: bool
    rules: tuple[Rule, ...]
    power: int | None
    unit: float
    domain: tuple[float, float]
    budget: int | None
    category: Category | None

    def is_near(self, x: float, near: float, size: Any) -> bool:
        """Whether a neighbour of a row with the value x may have this value, where ε is `size`."""
        if x == near or (math.isnan(x) and math.isnan(near)):
            return True
        if math.isnan(x) or math.isnan(near):
            return False
        if self.category is not None:
            return may_stand_for(self.category, size, x, near)
        size = math.inf if size == ANY else size
        if self.step is None:
            return math.isinf(size) or abs(Fraction(near) - Fraction(x)) <= Fraction(size)
        first, last = _numbers_of_steps(x, near, self.step)
        fewest = max(first, -last, 0)
        return first <= last and (math.isinf(size) or fewest * self.step <= _printed(size))

    def price(self, x: float, start: float, end: float) -> Fraction | None:
        """The least price of a change, in a row with the value x; None if the attacker cannot make it."""
        if start == end or (math.isnan(start) and math.isnan(end)):
            return Fraction(0)
        if math.isnan(end):
            return _whole(self.blank)
        if math.isnan(start):
            on_grid = self.step is None or isinstance(self.move, Values) or _is_multiple(end, self.step)
            return _whole(self.fill) if self._may_hold(end) and on_grid else None
        ways = [self._price_of_move(x, start, end), self._price_of_chain(x, start, end)]
        return min((way for way in ways if way is not None), default=None)

    def _price_of_move(self, x: float, start: float, end: float) -> Fraction | None:
        if isinstance(self.cost, CostMatrix):
            costs = [cost for a, b, cost in self.cost.entries if (self._double(a), self._double(b)) == (start, end)]
            return _whole(costs[0]) if costs and (self._may_hold(end) or not isinstance(self.move, Values)) else None
        if isinstance(self.move, Values) or self.category is not None:
            may_move = self._is_anything or isinstance(self.move, Values)
            return Fraction(self.cost) if may_move and self._may_hold(end) else None
        low, high = (self.move.low, self.move.high) if isinstance(self.move, Steps) else self.move
        if low == high == 0:
            return None
        if self.step is not None:
            return self._price_of_steps(x, (start, end), (low, high))
        moved = Fraction(end) - Fraction(start)
        if self.power is not None:
            goes = high > 0 if moved > 0 else low < 0
            return abs(moved / Fraction(self.unit)) ** self.power if goes else None
        inside = (math.isinf(low) or moved >= Fraction(low)) and (math.isinf(high) or moved <= Fraction(high))
        return Fraction(self.cost) if inside else None

    def _price_of_steps(self, x: float, ends: tuple[float, float], reach: tuple[float, float]) -> Fraction | None:
        """The price of going from one point of the row's grid to another. A double may be several points at once."""
        assert self.step is not None
        assert isinstance(self.cost, int)
        starts, goals = (_numbers_of_steps(x, end, self.step) for end in ends)
        if starts[0] > starts[1] or goals[0] > goals[1]:
            return None
        least, most = goals[0] - starts[1], goals[1] - starts[0]
        low, high = reach
        if self.power is not None:
            least, most = least if low < 0 else max(least, 0), most if high > 0 else min(most, 0)
            away = max(least, -most, 0) * self.step
            return (away / _printed(self.unit)) ** self.power if least <= most else None
        least = least if math.isinf(low) else max(least, math.ceil(_printed(low) / self.step))
        most = most if math.isinf(high) else min(most, math.floor(_printed(high) / self.step))
        return Fraction(self.cost) if least <= most else None

    @property
    def _is_anything(self) -> bool:
        return self.power is None and self.move == (-math.inf, math.inf)

    def _may_hold(self, number: float) -> bool:
        """Whether the attacker may write this value, as rows hold it."""
        if isinstance(self.move, Values):
            return number in [self._double(value) for value in self.move.values]
        if self.category is None:
            return True
        if not self.category.coded:
            return number in self.category.values
        n_known = len(self.category.values)
        most = n_known + (self.unseen and self.category.unseen and self._is_anything)
        return number.is_integer() and 0 <= number < most

    def _double(self, value: Any) -> float | None:
        """What rows hold for a value; None for one that the column cannot have."""
        if self.category is not None and self.category.coded:
            return _code(self.category, value)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def _price_of_chain(self, x: float, start: float, end: float) -> Fraction | None:
        """The cheapest chain of rules from one value to another; on a grid, from point to point."""
        if not self.rules:
            return None
        if self.step is None:
            # Rounding keeps the order, so some number of a range is nearest to `end` iff it lies between their doubles.
            own = _printed(start)
            return self._cheapest((own, own), lambda low, high: _nearest(low) <= end <= _nearest(high), self._rewritten)
        starts, goals = (_numbers_of_steps(x, each, self.step) for each in (start, end))
        if starts[0] > starts[1] or goals[0] > goals[1]:
            return None
        rewritten = partial(self._rewritten_on_grid, x)
        start_numbers = Fraction(starts[0]), Fraction(starts[1])
        return self._cheapest(start_numbers, lambda low, high: low <= goals[1] and goals[0] <= high, rewritten)

    def _cheapest(
        self,
        start: tuple[Fraction, Fraction],
        leads_to: Callable[[Fraction, Fraction], bool],
        rewritten: Callable[[Rule, Fraction, Fraction], tuple[Fraction, Fraction] | None],
    ) -> Fraction | None:
        """The price of the cheapest chain from a range of numbers, by trying all in the order of their prices."""
        queue = [(0, *start)]
        seen: list[tuple[Fraction, Fraction]] = []
        for _ in range(MOST_CHAINS):
            if not queue:
                return None
            spent, low, high = heapq.heappop(queue)
            if leads_to(low, high):
                return Fraction(spent)
            if any(a <= low and high <= b for a, b in seen):
                continue
            seen.append((low, high))
            for rule in self.rules:
                after = rewritten(rule, low, high)
                if after is not None and (self.budget is None or spent + rule.cost <= self.budget):
                    heapq.heappush(queue, (spent + rule.cost, *after))
        return None

    def _rewritten(self, rule: Rule, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction] | None:
        """What a rule makes of the numbers from low to high, as far as it applies and the domain goes."""
        if rule.change is None:
            to = self._double(rule.to)
            if self.category is None or to is None:
                return None
            named = rule.when.values if isinstance(rule.when, Values) else self.category.values
            applies = _nearest(low) in [self._double(value) for value in named]
            return (_printed(to), _printed(to)) if applies else None
        if isinstance(rule.when, tuple):
            low, high = _cut(low, high, rule.when)
        if low > high:
            return None
        after = _cut(low + rule.change[0], high + rule.change[1], self.domain)
        return after if after[0] <= after[1] else None

    def _rewritten_on_grid(
        self, x: float, rule: Rule, low: Fraction, high: Fraction
    ) -> tuple[Fraction, Fraction] | None:
        """What a rule makes of the points from number low to high of the grid of x: whole numbers of steps on."""
        assert self.step is not None
        if rule.change is None:
            return None
        if isinstance(rule.when, tuple):
            first, last = _points_between(x, rule.when, self.step)
            low, high = max(low, first), min(high, last)
        least, most = math.ceil(rule.change[0] / self.step), math.floor(rule.change[1] / self.step)
        if low > high or least > most:
            return None
        first, last = _points_between(x, self.domain, self.step)
        low, high = max(low + least, first), min(high + most, last)
        return (low, high) if low <= high else None


def may_stand_for(category: Category, size: Any, x: float, near: float) -> bool:
    """Whether ε names both of two values of a category, as rows hold them, in one set; a distance names none."""
    if isinstance(size, float):
        return False
    if size == ANY:
        sets: tuple[Values, ...] = (Values(category.values),)
    else:
        sets = (size,) if isinstance(size, Values) else size
    spelled = [[_code(category, value) if category.coded else value for value in one.values] for one in sets]
    return any(x in one and near in one for one in spelled)


def _code(category: Category, value: Any) -> float | None:
    """The code of a value that a model knows; None for any other."""
    code = category.code_of(value)
    return code if 0 <= code < len(category.values) else None


def columns_of(ensemble: Ensemble, attacker: Attacker) -> list[Column]:
    """What the attacker says about each column of a model."""

    def each(given: Any) -> list[Any]:
        return [None] * ensemble.n_features if given is None else given.bind(ensemble, None)

    moves = attacker.intervals.bind(ensemble, (0.0, 0.0))
    costs, units = attacker.costs.bind(ensemble, 1), attacker.scale.bind(ensemble, 1.0)
    steps, blank, fill, domain = map(each, (attacker.step, attacker.blank, attacker.fill, attacker.domain))
    for ways, ends in ((attacker.up, (0.0, math.inf)), (attacker.down, (-math.inf, 0.0))):
        for f in map(ensemble.feature_index, ways):
            moves[f] = ends
    categories = dict(ensemble.categories)
    found = []
    for f in range(ensemble.n_features):
        move, category = moves[f], categories.get(f)
        step = None if category is not None else move.step if isinstance(move, Steps) else steps[f]
        low, high = float(ensemble.value_low[f]), float(ensemble.value_high[f])
        if domain[f] is not None and not (category is not None and category.coded):
            low, high = max(low, domain[f][0]), min(high, domain[f][1])
        found.append(
            Column(
                move=move,
                cost=costs[f],
                step=step,
                blank=blank[f],
                fill=fill[f],
                unseen=attacker.unseen,
                rules=tuple(rule for rule in attacker.rewrites if ensemble.feature_index(rule.column) == f),
                power=attacker.power,
                unit=units[f],
                domain=(low, high),
                budget=attacker.budget,
                category=category,
            )
        )
    return found


def is_affordable(
    ensemble: Ensemble, attacker: Attacker, columns: list[Column], prices: Mapping[int, Fraction]
) -> bool:
    """Whether the attacker can pay these prices of columns."""
    for group in attacker.groups:
        if sum(prices.get(f, 0) for f in {ensemble.feature_index(key) for key in group.columns}) > group.budget:
            return False
    spent = sum(prices.values(), Fraction(0))
    if attacker.power is not None:
        in_decimals = any(column.step is not None for column in columns)
        radius = _printed(attacker.radius) if in_decimals else Fraction(attacker.radius)
        return spent <= radius**attacker.power
    return attacker.budget is None or spent <= attacker.budget


def _whole(cost: int | None) -> Fraction | None:
    return None if cost is None else Fraction(cost)


@lru_cache(maxsize=4096)
def _printed(number: float) -> Fraction:
    """The decimal that a double prints as."""
    return Fraction(repr(number))


def _nearest(number: Fraction) -> float:
    """The double nearest to a number."""
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.copysign(math.inf, number)


def _cut(low: Fraction, high: Fraction, limits: tuple[float, float]) -> tuple[Fraction, Fraction]:
    """The part of a range inside limits, which are the decimals that they print as."""
    return (
        low if math.isinf(limits[0]) else max(low, _printed(limits[0])),
        high if math.isinf(limits[1]) else min(high, _printed(limits[1])),
    )


def _is_multiple(number: float, step: Fraction) -> bool:
    """Whether a double is the one nearest to a whole number of steps."""
    below = math.floor(Fraction(number) / step)
    return number in (_nearest(below * step), _nearest((below + 1) * step))


def _numbers_of_steps(x: float, number: float, step: Fraction) -> tuple[int, int]:
    """The least and the largest k for which the double nearest to x + k·step is `number`; least > largest if none is.

    Rounding keeps the order of numbers, so these k are neighbours of each other, and one of them is beside `number`.
    """
    origin = _printed(x)
    below = math.floor((Fraction(number) - origin) / step)
    hits = [k for k in (below, below + 1) if _nearest(origin + k * step) == number]
    if not hits:
        return 1, 0
    return _farthest(origin, number, -step, -hits[0]) * -1, _farthest(origin, number, step, hits[-1])


def _points_between(x: float, limits: tuple[float, float], step: Fraction) -> tuple[Fraction, Fraction]:
    """The least and the largest k for which the double nearest to x + k·step lies inside limits; least > largest: none.

    Most often, that is where x + k·step lies, but others may be rounded to the limits themselves.
    """
    low, high = (min(max(end, -LARGEST), LARGEST) for end in limits)
    least, most = _numbers_of_steps(x, low, step), _numbers_of_steps(x, high, step)
    first = least[0] if least[0] <= least[1] else math.ceil((Fraction(low) - _printed(x)) / step)
    last = most[1] if most[0] <= most[1] else math.floor((Fraction(high) - _printed(x)) / step)
    return Fraction(first), Fraction(last)


def _farthest(origin: Fraction, number: float, step: Fraction, k: int) -> int:
    """The largest number of steps, from k on, whose point is nearest to `number`: twice as far, and half of it back."""
    size = 1
    while _nearest(origin + (k + size) * step) == number:
        k, size = k + size, 2 * size
    while size > 1:
        size //= 2
        if _nearest(origin + (k + size) * step) == number:
            k += size
    return k
