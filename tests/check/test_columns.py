"""Membership by definition, held against brute force over grid points, chains of rules, categories and blanks."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.applicants import applicants
from treeproof.check.columns import Column
from treeproof.check.objects import columns_of, is_within_reach, is_witness
from treeproof.model.builder import blank_ensemble
from treeproof.results.verdicts import Witness

ONE = blank_ensemble(1, [0, 1], ["x"])
MODEL = applicants()
STEPS = ("1", "0.1", "0.25", "0.3", "1e-17", "3e15")


def column(attacker: tp.Attacker) -> Column:
    return columns_of(ONE, attacker)[0]


def points(x: float, step: Fraction, most: int = 40) -> dict[int, float]:
    return {k: float(Fraction(repr(x)) + k * step) for k in range(-most, most + 1)}


def beside(values: Any) -> set[float]:
    """These doubles, and those next to them."""
    return {float(near) for value in values for near in (value, *np.nextafter(value, [-np.inf, np.inf]))}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("x", [0.0, 0.1, 0.7, 1e16, -0.35, 123456.78])
def test_neighbours_are_grid_points_within_epsilon(x: float, step: str) -> None:
    size = Fraction(step)
    grid, where = points(x, size), column(tp.Attacker(tp.ANY, step=step))
    for count in (0, 1, 3):
        epsilon = float(count * size)
        near = {point for k, point in grid.items() if abs(k) * size <= Fraction(repr(epsilon))}
        assert {point for point in beside(grid.values()) if where.is_near(x, point, epsilon)} == near
    between = {point for point in beside(grid.values()) if grid[-40] <= point <= grid[40]}
    assert {point for point in between if where.is_near(x, point, math.inf)} == set(grid.values())


@pytest.mark.parametrize("step", STEPS[:4])
@pytest.mark.parametrize("x", [0.0, 0.1, 0.7, -0.35, 1e16])
def test_moves_go_from_grid_points_to_grid_points(x: float, step: str) -> None:
    size = Fraction(step)
    grid = points(x, size, 12)
    low, high = float(-3 * size), float(2 * size)
    where = column(tp.Attacker({"x": tp.steps(low, high, step)}, costs=5))
    inner = [point for k, point in grid.items() if abs(k) <= 6]
    for start, end in itertools.product(beside(inner), repeat=2):
        numbers = itertools.product(*([k for k, point in grid.items() if point == value] for value in (start, end)))
        moves = any(-3 <= b - a <= 2 for a, b in numbers)
        assert where.price(x, start, end) == (0 if start == end else 5 if moves else None)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_steps_of_lp_attackers_cost_their_distance(power: int) -> None:
    attacker = tp.Attacker.lp(power, 0.3, step=0.1, scale=0.3)
    grid, where = points(0.7, Fraction(1, 10), 10), column(attacker)
    for (a, start), (b, end) in itertools.product(grid.items(), repeat=2):
        assert where.price(0.7, start, end) == Fraction(abs(b - a), 3) ** power
    assert where.price(0.7, 0.7, 0.75) is None


def test_a_missing_value_is_filled_with_multiples_of_the_step() -> None:
    model = applicants()
    attacker = tp.Attacker({}, fill={"income": 3, "months": 1}, step={"income": 0.1})
    income, months = columns_of(model, attacker)[:2]
    ends = beside([k / 10 for k in range(-9, 10)])
    grid = {float(Fraction(k, 10)) for k in range(-9, 10)}
    assert {end for end in ends if income.price(math.nan, math.nan, end) == 3} == grid
    assert months.price(math.nan, math.nan, 0.123) == 1
    assert income.price(1.0, 1.0, math.nan) is None


@st.composite
def rule_sets(draw: st.DrawFn) -> tuple[list[tuple[int, int, int, int, int]], int, tuple[int, int]]:
    """Rules (when, when, change, change, cost), a budget and a domain, in tenths."""
    tenths = st.integers(-10, 10)
    rules = []
    for _ in range(draw(st.integers(1, 3))):
        low, high = sorted((draw(tenths), draw(tenths)))
        least, most = sorted((draw(st.integers(-4, 4)), draw(st.integers(-4, 4))))
        if least or most:
            rules.append((low, high, least, most, draw(st.integers(1, 3))))
    return rules or [(-5, 5, 1, 1, 1)], draw(st.integers(1, 6)), (draw(st.integers(-9, -3)), draw(st.integers(3, 9)))


@settings(max_examples=40, deadline=None)
@given(rule_sets(), st.integers(-3, 3))
def test_chains_cost_what_a_simulation_finds(
    case: tuple[list[tuple[int, int, int, int, int]], int, tuple[int, int]], start: int
) -> None:
    """On a lattice of twentieths: limits are tenths, so where there is a chain there is one on the lattice."""
    rules, budget, (low, high) = case
    attacker = tp.Attacker.rules(
        [tp.Rule("x", when=(a / 10, b / 10), change=(f"{c}e-1", f"{d}e-1"), cost=cost) for a, b, c, d, cost in rules],
        budget=budget,
        domain={"x": (low / 10, high / 10)},
    )
    cheapest: dict[int, int] = {}
    queue = [(0, 2 * start)]
    while queue:
        spent, place = heapq.heappop(queue)
        if place in cheapest or spent > budget:
            continue
        cheapest[place] = spent
        for a, b, c, d, cost in rules:
            if 2 * a <= place <= 2 * b:
                ends = range(max(place + 2 * c, 2 * low), min(place + 2 * d, 2 * high) + 1)
                for end in ends:
                    heapq.heappush(queue, (spent + cost, end))
    where = column(attacker)
    for place in range(2 * low, 2 * high + 1):
        assert where.price(start / 10, start / 10, place / 20) == cheapest.get(place)


@settings(max_examples=40, deadline=None)
@given(rule_sets(), st.integers(-3, 3), st.sampled_from([1, 2, 3, 4, 6]), st.integers(-1, 1))
def test_chains_on_a_grid_cost_what_a_simulation_finds(
    case: tuple[list[tuple[int, int, int, int, int]], int, tuple[int, int]], x: int, step: int, away: int
) -> None:
    """In twentieths: from point to point of the row's grid, some of whose steps are not what rules add."""
    rules, budget, (low, high) = case
    attacker = tp.Attacker.rules(
        [tp.Rule("x", when=(a / 10, b / 10), change=(f"{c}e-1", f"{d}e-1"), cost=cost) for a, b, c, d, cost in rules],
        budget=budget,
        domain={"x": (low / 10, high / 10)},
        step=step / 20,
    )
    start = 2 * x + away * step
    cheapest: dict[int, int] = {}
    queue = [(0, start)]
    while queue:
        spent, place = heapq.heappop(queue)
        if place in cheapest or spent > budget:
            continue
        cheapest[place] = spent
        for a, b, c, d, cost in rules:
            for end in range(2 * low, 2 * high + 1):
                is_point = (end - 2 * x) % step == 0
                if 2 * a <= place <= 2 * b and 2 * c <= end - place <= 2 * d and is_point:
                    heapq.heappush(queue, (spent + cost, end))
    where = column(attacker)
    for place in range(2 * low, 2 * high + 1):
        assert where.price(x / 10, start / 20, place / 20) == cheapest.get(place)


def test_chains_of_categories_are_followed() -> None:
    rules = [tp.Rule("purpose", when={"car"}, to="radio", cost=2), tp.Rule("purpose", when={"radio"}, to="tv", cost=2)]
    where = columns_of(MODEL, tp.Attacker.rules([*rules, tp.Rule("purpose", to="tv", cost=5)], budget=5))[2]
    assert [[where.price(a, a, b) for b in (0.0, 1.0, 2.0)] for a in (0.0, 1.0, 2.0)] == [
        [0, 2, 4],
        [None, 0, 2],
        [None, None, 0],
    ]
    assert where.price(3.0, 3.0, 2.0) is None  # a value never seen is none that a rule is for
    assert where.price(math.nan, math.nan, 2.0) is None


def test_rules_without_a_budget_end() -> None:
    where = column(tp.Attacker.rules([tp.Rule("x", when=(0, math.inf), change=1)]))
    assert where.price(0.0, 0.0, 100.0) == 100
    bounded = column(tp.Attacker.rules([tp.Rule("x", change=1)], domain={"x": (0, 50)}))
    assert bounded.price(0.0, 0.0, 0.5) is None


COLUMNS = ("income", "purpose", "rating")
Price = Callable[[float, float], "int | None"]
INCOMES = [*(quarter / 4 for quarter in range(17)), math.nan]
PURPOSES = [0.0, 1.0, 2.0, 3.0, math.nan]
RATINGS = [1.0, 2.0, 5.0, math.nan]


def random_attacker(random: Random) -> tuple[tp.Attacker, dict[str, Price], Any, dict[str, int]]:
    """An attacker and, in the test's own words: the price of each move, the budget, and groups."""
    moves: dict[str, Any] = {}
    costs: dict[str, Any] = {}
    prices: dict[str, Price] = {}
    names = {"purpose": dict(enumerate(("car", "radio", "tv"))), "rating": {1: 1, 2: 2, 5: 5}}
    unseen = random.random() < 0.3

    def choose(name: str, kind: str, cost: int) -> None:
        known = names.get(name, {quarter / 4: quarter / 4 for quarter in range(17)})
        listed = random.sample(list(known), 2)
        if kind == "any":
            most = [*known, 3] if unseen and name == "purpose" else list(known)
            moves[name], prices[name] = tp.ANY, lambda _, end: cost if end in most else None
        elif kind == "values":
            moves[name] = tp.values(*(known[value] for value in listed))
            prices[name] = lambda _, end: cost if end in listed else None
        elif kind == "matrix":
            pairs = {(random.choice(list(known)), end): random.randint(0, 3) for end in listed}
            pairs = {pair: price for pair, price in pairs.items() if pair[0] != pair[1]} or {(1, 2): 1}
            costs[name] = {(known[a], known[b]): price for (a, b), price in pairs.items()}
            prices[name] = lambda start, end: pairs.get((start, end))
        if kind in ("any", "values"):
            costs[name] = cost

    for name in names:
        choose(name, random.choice(("any", "values", "matrix", "still")), random.randint(0, 2))
    kind = random.choice(("any", "values", "matrix", "still", "interval", "steps"))
    cost = random.randint(0, 2)
    choose("income", kind, cost)
    if kind in ("interval", "steps"):
        low, high = -random.randint(0, 6) / 4, random.randint(2, 6) / 4
        step = random.choice((0.25, 0.5)) if kind == "steps" else 0.25
        moves["income"] = (low, high) if kind == "interval" else tp.steps(low, high, step)
        costs["income"] = cost
        prices["income"] = lambda a, b: cost if low <= b - a <= high and (b - a) % step == 0 else None
    steps = step if kind == "steps" else None
    blank = {name: random.randint(0, 2) for name in COLUMNS if random.random() < 0.4}
    fill = {name: random.randint(0, 2) for name in COLUMNS if random.random() < 0.4}
    for name in COLUMNS:
        prices[name] = with_missing(prices.get(name), blank.get(name), fill.get(name), moves.get(name), names.get(name))
    if steps == 0.5 and "income" in fill:
        inner = prices["income"]
        prices["income"] = lambda a, b: None if math.isnan(a) and (b * 2) % 1 > 0 else inner(a, b)
    grouped = random.sample(["income", "purpose", "rating"], 2)
    group_budget = random.randint(0, 3)
    budget = random.choice((None, 0, 1, 2, 3))
    attacker = tp.Attacker(
        moves or None, costs=costs or 1, budget=budget, domain={"income": (0, 4)}, blank=blank or {"income": 9},
        fill=fill or None, unseen=unseen, groups={"some": grouped}, budgets={"some": group_budget},
    )  # fmt: skip
    if not blank:
        prices["income"] = blank_at(9, prices["income"])
    limits = dict.fromkeys(grouped, group_budget)
    return attacker, prices, budget, limits


def blank_at(cost: int, price: Price) -> Price:
    return lambda a, b: cost if math.isnan(b) and not math.isnan(a) else price(a, b)


def with_missing(price: Price | None, blank: int | None, fill: int | None, move: Any, known: Any) -> Price:
    def found(a: float, b: float) -> int | None:
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0
        if math.isnan(b):
            return blank
        if math.isnan(a):
            if price is None or (known is None and not hasattr(move, "values")):
                return fill if known is None or b in known else None
            is_matrix = move is None
            return fill if (is_matrix and b in known) or (not is_matrix and price(a, b) is not None) else None
        return None if price is None else price(a, b)

    return found


def row(income: float, purpose: float, rating: float) -> np.ndarray:
    return np.array([income, 7.0, purpose, 30.0, rating])


def witness(x: np.ndarray, neighbour: np.ndarray, attacked: np.ndarray) -> Witness:
    return Witness(x, neighbour, attacked, "bad", "good")  # labels are looked up by the check itself


def check_random_cases(seeds: range) -> int:
    n_reached = 0
    for seed in seeds:
        random = Random(seed)
        attacker, prices, budget, limits = random_attacker(random)
        for _ in range(25):
            x, w = (tuple(random.choice(each) for each in (INCOMES, PURPOSES, RATINGS)) for _ in range(2))
            w = tuple(a if random.random() < 0.4 else b for a, b in zip(x, w, strict=True))
            paid = [price(a, b) for price, a, b in zip(prices_in_order(prices), x, w, strict=True)]
            expected = None not in paid
            if expected:
                total = sum(each for each in paid if each is not None)
                in_group = sum(
                    p or 0 for p, name in zip(paid, ("income", "purpose", "rating"), strict=True) if name in limits
                )
                expected = (budget is None or total <= budget) and in_group <= next(iter(limits.values()))
            found = is_within_reach(MODEL, attacker, 0.0, witness(row(*x), row(*x), row(*w)))
            assert found == expected, (seed, attacker, x, w, paid)
            n_reached += found and x != w
    return n_reached


def prices_in_order(prices: dict[str, Price]) -> list[Price]:
    return [prices[name] for name in COLUMNS]


def test_reach_is_what_the_words_say() -> None:
    assert check_random_cases(range(40)) > 20


@pytest.mark.long
@pytest.mark.slow
def test_reach_is_what_the_words_say_in_many_cases() -> None:
    assert check_random_cases(range(1000, 1300)) > 150


@pytest.mark.parametrize(
    "attacker",
    [
        tp.Attacker({"income": tp.steps(-1, 0.6, 0.2), "months": (-3, 3)}, step={"months": 2}, fill=["months"]),
        tp.Attacker({"income": tp.values(0, 1.5), "purpose": tp.values("tv"), "rating": [1, 5, 2]}, step=0.5, costs=3),
        tp.Attacker({"purpose": tp.ANY}, unseen=True, blank={"purpose": 2, "income": 1}, fill=["purpose", "income"]),
        tp.Attacker({}, costs={"purpose": {("car", "tv"): 4}, "income": {(0, 1): 2}}, fill=["purpose"], step=0.25),
        tp.Attacker.rules(
            [
                tp.Rule("income", when=(0, 3), change=(0.1, 0.7), cost=2),
                tp.Rule("income", when=(1, 2), change=-0.3),
                tp.Rule("months", when=(0.5, math.inf), change=-0.5),
                tp.Rule("purpose", when={"car"}, to="tv"),
                tp.Rule("purpose", to="radio", cost=3),
                tp.Rule("rating", when={2, 7}, to=5),
            ],
            budget=6,
            domain={"income": (0, 3.4)},
            blank=["income"],
        ),
        tp.Attacker.rules(
            [tp.Rule("income", when=(0, 3), change=(0.1, 0.7), cost=2), tp.Rule("income", change=-0.4)],
            budget=6,
            domain={"income": (0, 3.4)},
            step={"income": 0.2, "months": 1},
            fill=["income"],
        ),
        tp.Attacker.lp(2, 0.5, step=0.1, scale={"income": 0.3}),
    ],
    ids=lambda attacker: repr(attacker)[:50],
)
def test_engines_are_told_prices_by_definition(attacker: tp.Attacker) -> None:
    numbers = [*sorted(beside((0.0, 0.6, 1.4))), 0.2, 0.5, 1.0, 1.1, 1.5, 1.7, 2.2, 2.25, 3.0, 3.4, math.nan]
    candidates = [numbers, numbers, PURPOSES, numbers, RATINGS]
    columns = columns_of(MODEL, attacker)
    for f, moves in attacker.bind(MODEL).columns:
        for x in candidates[f][:: max(len(candidates[f]) // 5, 1)]:
            grid = [value for value in candidates[f] if columns[f].is_near(x, value, math.inf)]
            for start, end in itertools.product(grid, candidates[f]):
                low, high = columns[f].domain
                if math.isnan(end) or low <= end <= high:
                    assert moves.price(x, start, end) == columns[f].price(x, start, end), (f, x, start, end)


def label(income: float, purpose: float) -> str:
    return "unclear" if math.isnan(income) else "good" if income > 2.5 and purpose != 0 else "bad"


@pytest.mark.parametrize("goal", [None, ["good"], ["bad", "unclear"], ["unclear"]])
def test_with_a_goal_labels_must_change_into_it(goal: list[str] | None) -> None:
    attacker = tp.Attacker({"income": tp.ANY, "purpose": tp.ANY}, blank=["income"], goal=goal)
    for start, end in itertools.product(itertools.product((1.0, 3.0), (0.0, 1.0)), repeat=2):
        for income in (end[0], math.nan):
            before, after = label(*start), label(income, end[1])
            expected = before != after if goal is None else before not in goal and after in goal
            found = witness(row(*start, 1.0), row(*start, 1.0), row(income, end[1], 1.0))
            assert is_witness(MODEL, attacker, None, found) == expected


def test_neighbours_of_witnesses_lie_on_the_grid() -> None:
    attacker = tp.Attacker({"income": tp.steps(-1, 1, 1)})
    x, end = row(2.25, 1.0, 1.0), row(3.25, 1.0, 1.0)
    assert is_witness(MODEL, attacker, None, witness(x, x, end))
    assert not is_witness(MODEL, attacker, None, witness(x, x, row(3.0, 1.0, 1.0)))
    assert is_witness(MODEL, attacker, 1.0, witness(row(1.25, 1.0, 1.0), x, end))
    assert not is_witness(MODEL, attacker, 1.0, witness(row(1.5, 1.0, 1.0), x, end))
