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
from scipy.sparse import csr_array

import treeproof as tp
from tests.support.any_attacker import VALUES, random_attacker
from tests.support.golden import needs_golden
from treeproof.check.objects import Reach
from treeproof.model.builder import blank_ensemble
from treeproof.training._columns import coded_frame

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
            column.prices |= dict.fromkeys(pairs, cost)


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
    assert found.exact or found.left_out


@pytest.mark.parametrize("seed", range(40))
def test_more_classes_are_bounded_from_above(seed: int) -> None:
    check(made_up(seed, 3, with_epsilon=seed % 2 == 1), 3)


@pytest.mark.long
@pytest.mark.slow
def test_all_of_this_on_more_cases() -> None:
    exact = 0
    for seed in range(2000, 2600):
        exact += check(made_up(seed, 2, with_epsilon=seed % 2 == 1), 2).exact
        if seed % 4 == 0:
            check(made_up(seed, 3, with_epsilon=seed % 8 == 0), 3)
    assert exact > 300


def largest(conflicts: set[tuple[int, int]], n: int) -> int:
    """The most rows of which no two are in conflict, by trying all sets of rows."""
    masks = np.arange(2**n)
    fine = np.ones(2**n, dtype=bool)
    for i, j in conflicts:
        fine &= ~((masks >> i & 1 == 1) & (masks >> j & 1 == 1))
    return int(sum(masks[fine] >> k & 1 for k in range(n)).max())


def test_chains_of_rules() -> None:
    """Rules on whole numbers and on words, one after the other."""
    random = Random(5)
    for _ in range(60):
        known, budget = [float(k) for k in range(6)], random.randint(1, 4)
        rules, moves = [], []
        for _ in range(random.randint(1, 3)):
            low, high = sorted(random.sample(known, 2))
            by, cost = random.choice([-2, -1, 1, 2]), random.randint(1, 2)
            rules.append(tp.Rule("n", when=(low, high), change=by, cost=cost))
            moves += [(a, a + by, cost) for a in known if low <= a <= high and a + by in known]
        attacker = tp.Attacker.rules(rules, budget=budget, domain={"n": (0, 5)})
        column = Asked(known, chains(known, moves, budget))
        rows = [random.choice(known) for _ in range(7)]
        label = [0, 1, *(random.randrange(2) for _ in range(5))]
        reach = [{b for b in known if a == b or (a, b) in column.prices} for a in rows]
        pairs = itertools.combinations(range(7), 2)
        conflicts = {(i, j) for i, j in pairs if label[i] != label[j] and reach[i] & reach[j]}
        found = tp.ceiling(pd.DataFrame({"n": rows}), label, attacker)
        assert found.exact and found.conflicts == len(conflicts)
        assert round(found.accuracy * 7) == largest(conflicts, 7)


def rows_that_meet(frame: pd.DataFrame, label: np.ndarray, attacker: tp.Attacker) -> set[tuple[int, int]]:
    """Pairs of rows of different classes that attacks make alike, by the definitions of the independent checker."""
    coded, known = coded_frame(frame)
    model = blank_ensemble(4, np.unique(label), list(frame.columns), categories=known, handles_missing=True)
    reach, X = Reach(model, attacker), np.asarray(coded, dtype=float).tolist()

    def ways(f: int, i: int, j: int) -> set[tuple[Fraction, Fraction]]:
        column, found = reach.columns[f], set()
        for value in {*_values_that_matter(column, X[i][f]), *_values_that_matter(column, X[j][f])}:
            prices = [_price_of_checker(column, X[k][f], value, label[k] in attacker.goal) for k in (i, j)]
            if None not in prices:
                found.add(tuple(prices))
        return {one for one in found if not any(other != one and _all_at_most(other, one) for other in found)}

    meets = set()
    for i, j in itertools.combinations(range(len(X)), 2):
        if label[i] == label[j]:
            continue
        for chosen in itertools.product(*(ways(f, i, j) for f in range(4))):
            if all(reach.plain.can_pay({f: pair[k] for f, pair in enumerate(chosen)}) for k in (0, 1)):
                meets.add((i, j))
                break
    return meets


def _price_of_checker(column: Any, x: float, value: float, still: bool) -> Fraction | None:
    if still:
        return Fraction(0) if x == value or (math.isnan(x) and math.isnan(value)) else None
    return column.price(x, x, value)


def _all_at_most(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def _values_that_matter(column: Any, x: float) -> list[float]:
    """Codes, hundredths, and the doubles beside the ends of intervals."""
    found = {float(code) for code in range(6)} | {k / 100 for k in range(101)}
    if not math.isnan(x):
        found.add(x)
        for end in column.reach or ():
            near = x + end
            found |= {near, math.nextafter(near, -math.inf), math.nextafter(near, math.inf)}
    return [*filter(math.isfinite, found), math.nan]


def any_case(seed: int) -> tuple[pd.DataFrame, np.ndarray, tp.Attacker]:
    random = Random(seed)
    attacker = random_attacker(random)
    numbers = [0.1, 0.2, 0.25, 0.3, 0.5, 0.55, 0.7, 0.75, 0.9, 0.1 + 0.2, math.nan]
    drawn = {
        name: [random.choice([*VALUES[name], None] if name in "ac" else numbers) for _ in range(8)] for name in "abcd"
    }
    label = np.array(["no", "yes", *(random.choice(["no", "yes"]) for _ in range(6))])
    frame = pd.DataFrame(
        {
            name: pd.Categorical(column, categories=VALUES[name]) if name in "ac" else np.array(column)
            for name, column in drawn.items()
        }
    )
    return frame, label, attacker


def check_any(seed: int) -> bool:
    frame, label, attacker = any_case(seed)
    found, meets = tp.ceiling(frame, label, attacker), rows_that_meet(frame, label, attacker)
    assert found.conflicts == len(meets) or (not found.exact and found.conflicts < len(meets)), (seed, found, meets)
    assert round(found.accuracy * 8) == largest(meets, 8) or not found.exact
    return found.exact


@pytest.mark.parametrize("seed", range(40))
def test_every_kind_of_attacker(seed: int) -> None:
    check_any(seed)


@pytest.mark.long
@pytest.mark.slow
def test_every_kind_of_attacker_on_more_cases() -> None:
    assert sum(check_any(seed) for seed in range(1000, 1400)) > 200


QUARTERS = [k / 4 for k in range(-4, 5)]
EIGHTHS = [k / 8 for k in range(-24, 25)]


def test_ranges_with_costs_domains_and_neighbourhoods() -> None:
    """All ends are quarters, so ranges that meet do so at one."""
    random, bound = Random(1), 0
    for _ in range(250):
        width = random.randint(1, 3)
        moves = [random.choice([(-0.25, 0.25), (0, 0.5), (-0.75, 0), (0.25, 0.5), (-0.5, -0.25)]) for _ in range(width)]
        costs, budget = [random.randint(0, 3) for _ in range(width)], random.choice([None, 1, 2, 3, 4])
        domain = random.choice([(-5, 5), (-1, 1), (-1, 1.25)])
        eps = random.choice([0, 0, 0.25, 0.5])
        X = np.array([[random.choice(QUARTERS) for _ in range(width)] for _ in range(8)])
        label = [0, 1, *(random.randrange(2) for _ in range(6))]
        found = tp.ceiling(X, label, tp.Attacker(moves, costs=costs, budget=budget, domain=domain), eps)
        points = [k / 4 for k in range(-12, 13) if domain[0] <= k / 4 <= domain[1]]
        # Neighbours only in columns that small moves lead through.
        small = [low <= 0 <= high and cost <= (budget or 3) for (low, high), cost in zip(moves, costs, strict=True)]
        free = [eps * each for each in small]
        prices = [
            [[_price(*each, w, points) for w in points] for each in zip(row, free, moves, costs, strict=True)]
            for row in X.tolist()
        ]
        conflicts = {
            (i, j)
            for i, j in itertools.combinations(range(8), 2)
            if label[i] != label[j] and _meet(prices[i], prices[j], 99 if budget is None else budget)
        }
        assert found.conflicts == len(conflicts)
        assert round(found.accuracy * 8) == largest(conflicts, 8)
        assert found.exact or found.left_out
        assert bool(found.left_out) == (free != [eps] * width)
        bound += not found.exact
    assert 0 < bound < 100


def _price(x: float, eps: float, move: tuple[float, float], cost: int, w: float, points: list[float]) -> float:
    """What it costs to be at w, from the cheapest neighbour of x."""
    near = [z for z in points if abs(z - x) <= eps]
    return 0 if w in near else cost if any(move[0] <= w - z <= move[1] for z in near) else math.inf


def _meet(one: list[list[float]], other: list[list[float]], budget: float) -> bool:
    """Whether there is a value in each column such that neither row pays more than the budget."""
    spent = {(0.0, 0.0)}
    for mine, its in zip(one, other, strict=True):
        ways = {pair for pair in zip(mine, its, strict=True) if max(pair) <= budget}
        spent = {(a + c, b + d) for a, b in spent for c, d in ways if max(a + c, b + d) <= budget}
    return bool(spent)


def test_doubles_that_are_far_apart_or_very_small() -> None:
    """Whether ranges of doubles share one, in rational arithmetic."""
    values = [0.0, 5e-324, 0.1, 0.3, 0.1 + 0.2, 0.7, 1e16, 1e16 + 2, 1e16 + 4, -0.7]
    moves = [(-0.1, 0.1), (0.1, 0.2), (-0.3, 0.0), (1.5, 2.5), (0.5, 1.0), (5e-324, 5e-324), (0.0, 0.1)]
    for (low, high), (x, z) in itertools.product(moves, itertools.combinations(values, 2)):
        first = max(Fraction(x), Fraction(z)) + Fraction(low)
        last = min(Fraction(x), Fraction(z)) + Fraction(high)
        near = float(first)
        some = [math.nextafter(near, -math.inf), near, math.nextafter(near, math.inf)]
        moved = any(first <= Fraction(w) <= last for w in some)
        one = any(Fraction(low) <= Fraction(b) - Fraction(a) <= Fraction(high) for a, b in [(x, z), (z, x)])
        assert tp.ceiling([[x], [z]], [0, 1], tp.Attacker((low, high))).conflicts == (moved or one), (low, high, x, z)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_balls_that_meet(power: int) -> None:
    """Two balls of the same radius meet iff their centres are at most twice the radius apart."""
    random = Random(power)
    for _ in range(40):
        X = np.array([[random.choice(QUARTERS) for _ in range(3)] for _ in range(9)])
        label, radius = [0, 1, *(random.randrange(2) for _ in range(7))], random.choice([0.25, 0.5, 0.75, 1.0])
        units = [random.choice([1.0, 0.5, 2.0]) for _ in range(3)]
        found = tp.ceiling(X, label, tp.Attacker.lp(power, radius, scale=units))
        conflicts = set()
        for i, j in itertools.combinations(range(9), 2):
            distance = sum(Fraction(abs(a - b) / unit) ** power for a, b, unit in zip(X[i], X[j], units, strict=True))
            if label[i] != label[j] and distance <= (2 * Fraction(radius)) ** power:
                conflicts.add((i, j))
        assert found.exact and found.conflicts == len(conflicts)
        assert round(found.accuracy * 9) == largest(conflicts, 9)


def test_balls_with_one_way_columns_goals_and_neighbourhoods() -> None:
    """L1 in quarters: the cheapest way is one of quarters."""
    random = Random(8)
    for _ in range(25):
        X = np.array([[random.choice(QUARTERS) for _ in range(2)] for _ in range(7)])
        label, radius = [0, 1, *(random.randrange(2) for _ in range(5))], random.choice([0.25, 0.5, 0.75])
        ways = [random.choice(["", "up", "down"]) for _ in range(2)]
        words = {way: [f for f in range(2) if ways[f] == way] for way in set(ways) - {""}}
        goal, eps = random.choice([None, 1]), random.choice([0, 0.25])
        found = tp.ceiling(X, label, tp.Attacker.lp(1, radius, goal=goal, **words), eps)
        free = [0 if goal is not None and way else eps for way in ways]

        most = [0 if goal is not None and each == goal else radius for each in label]
        points = list(itertools.product(EIGHTHS, repeat=2))
        reached = [{w for w in points if _away(X[i], w, free, ways) <= most[i]} for i in range(7)]
        pairs = itertools.combinations(range(7), 2)
        conflicts = {(i, j) for i, j in pairs if label[i] != label[j] and reached[i] & reached[j]}
        assert found.conflicts == len(conflicts)
        assert found.exact or found.left_out


def _away(x: np.ndarray, w: tuple[float, float], eps: list[float], ways: list[str]) -> float:
    """What a row at w is away from the nearest neighbour of x, or inf if the way there is closed."""
    total = 0.0
    for a, b, e, way in zip(x.tolist(), w, eps, ways, strict=True):
        gap = max(abs(b - a) - e, 0.0)
        closed = gap > 0 and way == ("down" if b > a else "up")
        total += math.inf if closed else gap
    return total


def test_balls_never_meet_by_rounding() -> None:
    """With a radius next to half the distance, rational arithmetic decides."""
    random = np.random.default_rng(0)
    claimed = 0
    for _ in range(200):
        X = random.uniform(size=(2, 3))
        distance = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in X.T.tolist())
        radius = math.sqrt(distance) / 2
        for _ in range(random.integers(0, 4)):
            radius = math.nextafter(radius, random.choice([0.0, 1.0]))
        conflicts = tp.ceiling(X, [0, 1], tp.Attacker.lp(2, radius)).conflicts
        assert conflicts == 0 or distance <= (2 * Fraction(radius)) ** 2
        claimed += conflicts
    assert claimed > 20


def test_a_column_that_only_rises_is_paid_for_by_the_lower_row() -> None:
    attacker = tp.Attacker.lp(2, 1.0, up=[1])
    assert tp.ceiling([[0.0, 0.0], [1.5, -1.0]], [0, 1], attacker).conflicts == 0
    assert tp.ceiling([[0.0, 0.0], [1.0, -1.0]], [0, 1], attacker).conflicts == 1
    assert tp.ceiling([[0.0, -1.0], [1.5, 0.0]], [0, 1], attacker).conflicts == 0


def test_groups_of_columns_keep_their_own_budgets() -> None:
    X, words = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], {"groups": {"g": [0, 1]}}
    for budget, group, meet in ((9, 0, 0), (9, 1, 1), (2, 2, 1), (1, 1, 0), (9, 2, 1)):
        attacker = tp.Attacker((-1, 1), budget=budget, budgets={"g": group}, **words)
        assert tp.ceiling(X, [0, 1], attacker).conflicts == meet
    for group, meet in ((2, 0), (3, 1)):
        attacker = tp.Attacker((-1, 1), costs=[2, 3, 1], budget=9, budgets={"g": group}, **words)
        assert tp.ceiling(X, [0, 1], attacker).conflicts == meet
    # Half and half, two columns of the group each cost both rows one of two.
    attacker = tp.Attacker((-0.5, 0.5), budget=9, budgets={"g": 1}, **words)
    assert tp.ceiling(X, [0, 1], attacker).conflicts == 0


def test_odd_circles_of_three_classes_are_no_more_than_a_bound() -> None:
    """Two circles of five rows: two of each can be kept, linear programming says two and a half."""
    angles = 2 * np.pi * np.arange(5) / 5
    circle = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    found = tp.ceiling(np.concatenate((circle, circle + 9)), [0, 1, 0, 1, 2] * 2, tp.Attacker.lp(2, 0.6))
    assert (found.conflicts, found.accuracy, found.exact) == (10, 0.5, False)
    assert tp.ceiling(circle, [0, 1, 0, 1, 2], tp.Attacker.lp(2, 0.6)).accuracy == 0.4


def test_a_row_between_two_others_costs_one_row() -> None:
    found = tp.ceiling([[0.0], [1.0], [2.0]], ["a", "b", "c"], tp.Attacker.linf(0.5))
    assert (found.accuracy, found.exact, len(found.pairs)) == (2 / 3, True, 1)


def test_a_third_class_that_meets_nobody_changes_nothing() -> None:
    """Only two classes meet, and the smallest of the three is neither of them."""
    X, y = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [20.0]]), np.array([0, 1, 0, 1, 1, 2])
    found = tp.ceiling(X, y, tp.Attacker.linf(0.5))
    assert (found.accuracy, found.exact, found.conflicts, len(found.pairs)) == (5 / 6, True, 2, 1)
    assert tp.ceiling(X[:5], y[:5], tp.Attacker.linf(0.5)).lost == 1


def test_classes_that_all_meet_keep_one_of_them() -> None:
    X, y = np.arange(9.0)[:, None], [0, 0, 1, 1, 1, 1, 2, 2, 2]
    found = tp.ceiling(X, y, tp.Attacker.linf(9))
    assert (found.accuracy, found.exact) == (4 / 9, True)


def test_grids_that_do_not_fit_each_other_never_meet() -> None:
    attacker = tp.Attacker((-2, 2), step=1)
    assert tp.ceiling([[0.0], [0.5]], [0, 1], attacker).accuracy == 1.0
    assert tp.ceiling([[0.0], [3.0]], [0, 1], attacker).accuracy == 0.5


def test_what_is_left_out_is_said() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 5.0, 9.0], "b": [0.0, 0.0, 0.0, 0.0]})
    found = tp.ceiling(frame, [0, 1, 0, 1], tp.Attacker({"a": (-0.25, 0.25)}), 0.25)
    assert (found.accuracy, found.exact, found.reach, found.left_out) == (0.75, False, "M(x)", ("b",))
    assert "ε is left out" in str(found) and "resilient" in str(found) and "bound" in repr(found)
    assert tp.ceiling(frame, [0, 1, 0, 1], tp.Attacker({"a": (-0.25, 0.25)})).accuracy == 1.0
    assert found._repr_html_().startswith("<p>No classifier is resilient at more than 75.0 %")


def test_large_costs_are_rounded_soundly() -> None:
    X = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    for budget, meet in ((1_000_003, True), (1_000_002, False), (2_000_005, True)):
        attacker = tp.Attacker((-1, 1), costs=[1_000_003, 1_000_003, 0], budget=budget)
        found = tp.ceiling(X, [0, 1], attacker)
        assert found.conflicts <= meet
        assert found.exact or found.accuracy == 1.0
    odd = tp.ceiling(X, [0, 1], tp.Attacker((-1, 1), costs=[1_000_003, 999_983, 7]))
    assert (odd.conflicts, odd.exact) == (1, True)


def test_missing_values_meet_missing_values_only() -> None:
    X = [[math.nan], [math.nan], [0.0]]
    assert tp.ceiling(X, [0, 1, 1], tp.Attacker(tp.ANY)).conflicts == 1
    assert tp.ceiling(X, [0, 1, 1], tp.Attacker(tp.ANY, blank=[0], fill=[0])).conflicts == 2


def test_one_class_alone_has_no_ceiling() -> None:
    found = tp.ceiling([[0.0], [1.0]], ["a", "a"], tp.Attacker.linf(5))
    assert (found.accuracy, found.exact, len(found.pairs)) == (1.0, True, 0)


@pytest.mark.parametrize(
    ("X", "y", "attacker", "words"),
    [
        ([[0.0]], [0, 1], tp.Attacker.linf(1), "one label per row"),
        ([0.0], [0], tp.Attacker.linf(1), "table"),
        ([[0.0], [1.0]], [0.5, 0.7], tp.Attacker.linf(1), "y: Unknown label type"),
        ([[0.0], [1.0]], [0, 1], tp.Attacker.lp(2, 1, step=0.5), "has steps"),
        ([[0.0], [1.0]], [0, 1], tp.Attacker.linf(1, domain=(0, 0.5)), "outside the domain"),
        ([[0.0], [1.0]], [0, 1], "me", "must be a treeproof.Attacker"),
        (csr_array(np.eye(2)), [0, 1], tp.Attacker.linf(1), r"X is a sparse matrix; pass X\.toarray\(\)"),
        ([[1.0], [2.0]], [None, "a"], tp.Attacker.linf(1), "y: .*; give one label per row, all of them text or all"),
    ],
)
def test_what_cannot_be_asked_is_refused(X: Any, y: Any, attacker: Any, words: str) -> None:
    with pytest.raises(tp.InvalidInput, match=words):
        tp.ceiling(X, y, attacker)


def test_pairs_are_left_out_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from treeproof.training import ceilings

    X, y = np.arange(400.0)[:, None], np.concatenate((np.zeros(350), np.ones(50)))
    every = tp.ceiling(X, y, tp.Attacker.linf(150))
    for name, number in (("MOST_PAIRS", 400), ("AT_ONCE", 1000), ("LEAST_PER_ROW", 5)):
        monkeypatch.setattr(ceilings, name, number)
    found = tp.ceiling(X, y, tp.Attacker.linf(150))
    assert (every.exact, found.exact) == (True, False)
    assert found.conflicts == every.conflicts
    assert found.accuracy >= every.accuracy


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("name", ["diabetes", "breast-cancer"])
def test_no_trained_model_is_above_the_ceiling(name: str) -> None:
    """Exact robustness and resilience of models that saw the very rows they are asked about."""
    from sklearn.ensemble import RandomForestClassifier

    from treeproof.paper.datasets import split

    data = split(name)
    X, y = data.X_test, data.y_test
    for attacker in (tp.Attacker.linf(0.05), tp.Attacker.l0(1), tp.Attacker((-0.2, 0.1), budget=3)):
        robust, resilient = tp.ceiling(X, y, attacker), tp.ceiling(X, y, attacker, 0.02)
        assert robust.exact and resilient.accuracy <= robust.accuracy
        models = [
            RandomForestClassifier(3, max_depth=5, random_state=0),
            tp.RobustTreeClassifier(attacker, max_depth=8),
            tp.RobustBoostingClassifier(attacker, n_estimators=5, epsilon=0.02),
        ]
        for model in models:
            result = tp.verify(model.fit(X, y), X, y, attacker, epsilon=0.02)
            assert result.robustness.lower <= robust.accuracy
            assert result.resilience.lower <= resilient.accuracy
