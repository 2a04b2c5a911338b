"""The ceiling against its definition: the best of all classifiers on small sets of rows, tried one by one."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from tests.support.golden import needs_golden

Value = Any
Prices = dict[tuple[Value, Value], int]
"""What it costs to turn one value into another one; what is not there is impossible."""
NAMES = ("n", "c")


@dataclass
class Asked:
    """A column in plain words: all values it can have, what changes cost, and which values are near to each other."""

    values: list[Value]
    prices: Prices = field(default_factory=dict)
    near: dict[Value, set[Value]] = field(default_factory=dict)
    words: dict[str, Any] = field(default_factory=dict)
    """What `Attacker` is told about it."""
    epsilon: Any = None


def chains(values: list[Value], moves: list[tuple[Value, Value, int]], most: int) -> Prices:
    """The cheapest chains of single moves, by Dijkstra's algorithm."""
    prices: Prices = {}
    for start in values:
        todo: list[tuple[int, int, Value]] = [(0, 0, start)]
        seen: dict[Value, int] = {}
        while todo:
            price, _, value = heapq.heappop(todo)
            if value in seen:
                continue
            seen[value] = price
            for number, (one, other, cost) in enumerate(moves):
                if one == value and price + cost <= most:
                    heapq.heappush(todo, (price + cost, number, other))
        prices |= {(start, end): price for end, price in seen.items() if end != start}
    return prices


def with_missing(random: Random, column: Asked, ends: list[Value]) -> None:
    """Lets values become missing, and missing ones be filled in."""
    present = list(column.values)
    column.values.append(None)
    for what in ("blank", "fill"):
        if random.random() < 0.5:
            cost = random.randint(0, 2)
            column.words[what] = cost
            pairs = [(value, None) for value in present] if what == "blank" else [(None, value) for value in ends]
            column.prices |= {pair: cost for pair in pairs}


def numbers(random: Random, eps: int, size: int) -> Asked:
    """Whole numbers from 0 on."""
    column = Asked([float(k) for k in range(size)])
    low, high = random.choice([(-1, 1), (0, 1), (-1, 0), (1, 2), (0, 2), (-2, -1), (0, 0)])
    cost = random.randint(0, 2)
    if (low, high) != (0, 0):
        column.words |= {"move": (low, high), "costs": cost}
        pairs = itertools.permutations(column.values, 2)
        column.prices = {(a, b): cost for a, b in pairs if low <= b - a <= high}
    column.near = {a: {b for b in column.values if abs(a - b) <= eps} for a in column.values}
    column.epsilon = float(eps)
    if random.random() < 0.4:
        with_missing(random, column, column.values[:])
    return column


def categories(random: Random, near: bool) -> Asked:
    """Three words."""
    words = ["a", "b", "d"]
    column, cost = Asked(words[:]), random.randint(0, 2)
    kind, ends = random.choice(["any", "values", "matrix", "still"]), words
    pairs = list(itertools.permutations(words, 2))
    if kind == "any":
        column.words |= {"move": tp.ANY, "costs": cost}
        column.prices = dict.fromkeys(pairs, cost)
    elif kind == "values":
        ends = random.sample(words, 2)
        column.words |= {"move": tp.values(*ends), "costs": cost}
        column.prices = {pair: cost for pair in pairs if pair[1] in ends}
    elif kind == "matrix":
        column.prices = {pair: random.randint(0, 3) for pair in random.sample(pairs, 4)}
        column.words["costs"] = dict(column.prices)
    if near:
        alike = set(random.sample(words, random.choice([2, 3])))
        column.near = {value: alike if value in alike else {value} for value in words}
        column.epsilon = tp.values(*sorted(alike))
    if random.random() < 0.3:
        with_missing(random, column, list(ends))
    return column


@dataclass
class Case:
    """Rows of two columns with labels, an attacker in plain words, and as treeproof takes it."""

    columns: dict[str, Asked]
    budget: int | None
    group: int | None
    goal: tuple[int, ...]
    rows: list[tuple[Value, ...]]
    label: list[int]
    epsilon: Any
    attacker: tp.Attacker

    @property
    def frame(self) -> pd.DataFrame:
        known = [value for value in self.columns["c"].values if value is not None]
        n, c = zip(*self.rows, strict=True)
        return pd.DataFrame({"n": np.array(n, dtype=float), "c": pd.Categorical(c, categories=known)})

    def reach(self, z: tuple[Value, ...]) -> set[tuple[Value, ...]]:
        """A(z), point by point."""
        found = set()
        for w in itertools.product(*(column.values for column in self.columns.values())):
            price = [0 if a == b else self.columns[f].prices.get((a, b)) for f, a, b in zip(NAMES, z, w, strict=True)]
            paid = [one for one in price if one is not None]
            if len(paid) < len(price) or (self.budget is not None and sum(paid) > self.budget):
                continue
            if self.group is None or paid[0] <= self.group:
                found.add(w)
        return found

    def near(self, x: tuple[Value, ...]) -> set[tuple[Value, ...]]:
        """N(x), point by point."""
        return set(itertools.product(*(self.columns[f].near.get(a, {a}) for f, a in zip(NAMES, x, strict=True))))


def made_up(seed: int, n_classes: int, with_epsilon: bool) -> Case:
    random = Random(seed)
    eps = random.choice([1, 1, 2]) if with_epsilon else 0
    near = with_epsilon and random.random() < 0.5
    columns = {"n": numbers(random, eps, 3 if n_classes == 2 else 2), "c": categories(random, near)}
    budget, group = random.choice([None, 0, 1, 2, 3]), random.choice([None, None, 0, 1])
    n_goals = random.randint(1, n_classes - 1) if random.random() < 0.4 else 0
    goal = tuple(random.sample(range(n_classes), n_goals))
    every = list(itertools.product(*(column.values for column in columns.values())))
    label = [*range(n_classes), *(random.randrange(n_classes) for _ in range(random.randint(1, 4)))]
    rows = [random.choice(every) for _ in label]
    told: dict[str, dict[str, Any]] = {"move": {}, "costs": {}, "blank": {}, "fill": {}}
    for name, column in columns.items():
        for what, words in column.words.items():
            told[what][name] = words
    moves = told.pop("move")
    words = {what: given for what, given in told.items() if given}
    if group is not None:
        words |= {"groups": {"g": ["n"]}, "budgets": {"g": group}}
    if not moves and not (words.keys() - {"groups", "budgets"}):
        return made_up(seed + 100_000, n_classes, with_epsilon)
    last = max(value for value in columns["n"].values if value is not None)
    attacker = tp.Attacker(moves, budget=budget, step={"n": 1}, domain={"n": (0, last)}, goal=goal or None, **words)
    epsilon = {name: column.epsilon for name, column in columns.items() if column.epsilon is not None}
    return Case(columns, budget, group, goal, rows, label, epsilon if with_epsilon else None, attacker)


def best(case: Case, n_classes: int) -> int:
    """The most rows at which any of all classifiers is robust, or resilient, by the definitions."""
    every = list(itertools.product(*(column.values for column in case.columns.values())))
    place = {point: k for k, point in enumerate(every)}
    label = np.array(list(itertools.product(range(n_classes), repeat=len(every))), dtype=np.int8)
    wanted = np.isin(label, case.goal)

    def stable(z: tuple[Value, ...]) -> np.ndarray:
        here, there = place[z], [place[w] for w in case.reach(z)]
        if case.goal:
            return wanted[:, here] | ~wanted[:, there].any(axis=1)
        return (label[:, there] == label[:, [here]]).all(axis=1)

    kept = np.zeros(len(label), dtype=int)
    for x, y in zip(case.rows, case.label, strict=True):
        holds = (label[:, place[x]] == y) & stable(x)
        for z in case.near(x) if case.epsilon is not None else ():
            holds &= stable(z)
        kept += holds
    return int(kept.max())


def check(case: Case, n_classes: int) -> tp.Ceiling:
    """Holds one case against all classifiers."""
    found = tp.ceiling(case.frame, case.label, case.attacker, case.epsilon)
    most = best(case, n_classes)
    kept = round(found.accuracy * len(case.rows))
    assert kept >= most, case
    assert kept == most or not found.exact, case
    rows = found.pairs.reshape(-1).tolist()
    assert len(set(rows)) == len(rows)
    assert all(case.label[i] != case.label[j] for i, j in found.pairs.tolist())
    if n_classes == 2:
        assert len(found.pairs) == found.lost
    return found


@pytest.mark.parametrize("seed", range(60))
def test_two_classes_reach_what_the_best_of_all_classifiers_does(seed: int) -> None:
    assert check(made_up(seed, 2, with_epsilon=False), 2).exact


@pytest.mark.parametrize("seed", range(60))
def test_no_classifier_is_resilient_at_more_rows(seed: int) -> None:
    found = check(made_up(seed, 2, with_epsilon=True), 2)
    assert found.exact == (not found.left_out)


@pytest.mark.parametrize("seed", range(40))
def test_more_classes_are_bounded_from_above(seed: int) -> None:
    check(made_up(seed, 3, with_epsilon=seed % 2 == 1), 3)


@pytest.mark.slow
def test_all_of_this_on_more_cases() -> None:
    exact = 0
    for seed in range(1000, 2500):
        exact += check(made_up(seed, 2, with_epsilon=seed % 2 == 1), 2).exact
        check(made_up(seed, 3, with_epsilon=seed % 2 == 0), 3)
    assert exact > 900
