"""Small frames, attackers of every kind on them, and all that matters of what these attackers do: one by one.

Shares no code with treeproof's training. Prices are those of the checker, by the definitions, in rational numbers. All
numbers are multiples of 1/32 and all thresholds of 1/64, so where an attack gets a number into a cell between two
thresholds at all, it also gets it to such a multiple there, or to the upper threshold itself.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import treeproof as tp
from treeproof.check.columns import Column
from treeproof.check.objects import Reach
from treeproof.model.ensemble import Ensemble

NUMBERS = [0.0, 0.25, 0.375, 0.5, 0.625, 0.75, 1.0]
WORDS = ["blue", "green", "red"]
ALIKE = WORDS[:2]
"""Values that may stand for each other in some neighbourhoods."""
DOMAIN = {"n": (0, 1), "m": (0, 1)}
FINE = np.arange(33) / 32
INTERVALS = [(-0.125, 0.125), (-0.25, 0.0), (0.0, 0.375), (0.125, 0.25), (-0.375, -0.25)]


class Small(NamedTuple):
    """A few rows of two numbers and a text, with values that are missing."""

    X: pd.DataFrame
    y: np.ndarray
    attacker: tp.Attacker
    epsilon: Any


def random_small(random: Random, n_rows: int = 9, n_classes: int = 2, **wanted: bool) -> Small:
    """Rows, labels of which all occur, an attacker of any kind, and a neighbourhood; see `random_attacker`."""
    missing = random.choice([0.0, 0.0, 0.2])

    def column(values: list[Any]) -> list[Any]:
        return [math.nan if random.random() < missing else random.choice(values) for _ in range(n_rows)]

    words = pd.Series(column(WORDS)[: n_rows - 3] + WORDS, dtype=object)
    frame = pd.DataFrame({"n": column(NUMBERS), "c": words, "m": column(NUMBERS)})
    y = np.array([*range(n_classes), *(random.randrange(n_classes) for _ in range(n_rows - n_classes))])
    attacker = random_attacker(random, n_classes, **wanted)
    has_rules = "Rule" in repr(attacker)
    sizes = [None] if has_rules else [None, None, 0.03125, {"n": 0.0625}, {"n": 0.03125, "c": tp.values(*ALIKE)}]
    return Small(frame, y, attacker, random.choice(sizes))


def random_attacker(
    random: Random,
    n_classes: int = 2,
    *,
    flat: bool = False,
    goal: bool = False,
    groups: bool = False,
    never_free: bool = False,
) -> tp.Attacker:
    """Moves, costs, steps, values, matrices, blanks and fills, or rules.

    With `flat`, a column costs the same wherever it goes; with `goal` and `groups` there may be those as well. With
    `never_free`, nothing costs 0.
    """
    words: dict[str, Any] = {}
    least = int(never_free)
    costs: dict[str, Any] = {name: random.choice([1, 1, 1, 2, 3, least]) for name in "ncm"}
    for what in ("blank", "fill"):
        if columns := [name for name in "ncm" if random.random() < 0.2]:
            words[what] = {name: costs[name] if flat else random.randint(least, 2) for name in columns}
    if groups and random.random() < 0.5:
        words |= {"groups": {"g": random.sample("ncm", 2)}, "budgets": {"g": random.randint(0, 2)}}
    if goal and random.random() < 0.4:
        words["goal"] = random.randrange(n_classes)
    budget = random.choice([None, 0, 1, 1, 2, 3])
    if not flat and random.random() < 0.2:
        rules = [_rule(random) for _ in range(random.randint(1, 3))]
        return tp.Attacker.rules(rules, budget=3 if budget is None else budget, domain=DOMAIN, **words)
    moves: dict[str, Any] = {"n": random.choice(INTERVALS)}
    for name in "cm":
        values: list[Any] = list(WORDS if name == "c" else NUMBERS)
        kind = random.choice(["still", "any", "values", "matrix", "interval", "steps"])
        if kind == "any":
            moves[name] = tp.ANY
        elif kind == "values":
            moves[name] = tp.values(*random.sample(values, 2))
        elif kind == "matrix" and not flat:
            pairs = list(itertools.permutations(values, 2))
            costs[name] = {pair: random.randint(least, 3) for pair in random.sample(pairs, 4)}
        elif kind == "interval" and name == "m":
            moves[name] = random.choice(INTERVALS)
        elif kind == "steps" and name == "m":
            moves[name] = tp.steps(-0.25, random.choice([0.125, 0.25]), random.choice(["0.125", "0.0625"]))
    return tp.Attacker(moves, costs=costs, budget=budget, domain=DOMAIN, **words)


def _rule(random: Random) -> tp.Rule:
    name, cost = random.choice("ncm"), random.randint(1, 2)
    if name == "c":
        return tp.Rule(name, when=set(random.sample(WORDS, 2)), to=random.choice(WORDS), cost=cost)
    change = random.choice([(-0.125, 0.125), (0.0, 0.25), (-0.25, -0.125)])
    return tp.Rule(name, when=random.choice([(0, 1), (0, 0.5), (0.375, 1)]), change=change, cost=cost)


class Attack(NamedTuple):
    """What a row becomes, and what each column costs."""

    row: tuple[float, ...]
    prices: tuple[Fraction, ...]


class Attacks:
    """All attacks that matter to tests at some thresholds, on rows in codes.

    `sizes` has one ε per column, for categories the sets of codes that may stand for each other.
    """

    def __init__(
        self, model: Ensemble, attacker: tp.Attacker, sizes: Sequence[Any], cuts: Sequence[Sequence[float]]
    ) -> None:
        self._model, self._attacker, self._sizes, self._cuts = model, attacker, sizes, cuts
        self._options = lru_cache(None)(self._find_options)

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self._model, self._attacker)

    def options(self, f: int, x: float) -> list[tuple[float, Fraction]]:
        """A value of every cell of a column that x can get to, and the least price of that."""
        return list(self._options(f, None if math.isnan(x) else x))

    def of(self, x: Sequence[float], label: Any = None) -> Iterator[Attack]:
        """All attacks on a row that can be paid for."""
        is_left_alone = label in self._attacker.goal
        for chosen in itertools.product(*(self.options(f, value) for f, value in enumerate(x))):
            prices = tuple(price for _, price in chosen)
            if self._reach.plain.can_pay(dict(enumerate(prices))) and not (is_left_alone and any(prices)):
                yield Attack(tuple(value for value, _ in chosen), prices)

    def _find_options(self, f: int, x: float | None) -> tuple[tuple[float, Fraction], ...]:
        own = math.nan if x is None else x
        column, cheapest = self._reach.columns[f], dict[Any, tuple[Fraction, float]]()
        for start, end in self._changes(column, f, own):
            price = column.price(own, start, end)
            cell = "missing" if math.isnan(end) else end if self._is_category(f) else self._cell(f, end)
            if price is not None and (cell not in cheapest or price < cheapest[cell][0]):
                cheapest[cell] = price, end
        return tuple((value, price) for price, value in cheapest.values())

    def _is_category(self, f: int) -> bool:
        return f in dict(self._model.categories)

    def _cell(self, f: int, value: float) -> int:
        return bisect.bisect_left(self._cuts[f], value)

    def _changes(self, column: Column, f: int, x: float) -> Iterator[tuple[float, float]]:
        """Pairs of a neighbour's value and what an attack makes of it."""
        if self._is_category(f):
            codes = [*map(float, range(dict(self._model.categories)[f].n_codes)), math.nan]
            starts = [code for code in codes if column.is_near(x, code, self._sizes[f])]
            yield from itertools.product(starts, codes)
            return
        low, high = column.domain
        cuts = list(self._cuts[f])
        every = {*FINE.tolist(), *cuts, *(math.nextafter(cut, math.inf) for cut in cuts), x}
        inside = [value for value in every if low <= value <= high]
        starts = [x]
        if self._sizes[f] and not math.isnan(x):
            some = {*inside, *(cut - end for cut in cuts for end in column.reach if math.isfinite(end))}
            starts = [s for s in some if low <= s <= high and column.is_near(x, s, self._sizes[f])]
        yield from itertools.product(starts, [*inside, math.nan])


def walk(tree: Any, row: Sequence[float]) -> int:
    """The number of the leaf of a row in codes."""
    node = 0
    while tree.feature[node] >= 0:
        value, pieces = row[tree.feature[node]], tree.pieces.get(node)
        if math.isnan(value):
            goes_left = tree.nan_left[node]
        elif pieces is not None:
            goes_left = pieces.lefts[bisect.bisect_left(pieces.cuts, value)]
        else:
            goes_left = value <= tree.threshold[node]
        node = int(tree.left[node] if goes_left else tree.right[node])
    return node


def cuts_of(trees: Sequence[Any], n_features: int) -> list[list[float]]:
    """The thresholds on each column, in rising order."""
    cuts: list[set[float]] = [set() for _ in range(n_features)]
    for tree in trees:
        for node, f in enumerate(tree.feature.tolist()):
            if f >= 0 and node not in tree.pieces:
                cuts[f].add(float(tree.threshold[node]))
    return [sorted(some) for some in cuts]
