"""Prices of cells, read from files alone: held against the engine's tables and against all pairs of values."""

from __future__ import annotations

import itertools
import json
import math
import sys
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.any_attacker import random_attacker as random_attacker_of_all
from tests.support.any_attacker import random_row
from tests.support.category_models import random_model
from tests.support.prices import price_table
from treeproof.check import chains
from treeproof.check.attackers import columns_of, is_affordable, purses_of, sizes_of
from treeproof.check.chains import MOST_RANGES
from treeproof.check.columns import Column
from treeproof.check.fields import ATTACKER, check
from treeproof.check.rules import Rejected
from treeproof.errors import InvalidInput
from treeproof.importers.native import as_text
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import NAN_CELL
from treeproof.results.verification_file import epsilon_to_json
from treeproof.threat import rule_chains, settings
from treeproof.threat.attacker_file import content_of
from treeproof.threat.epsilon import bind_around
from treeproof.threat.rule_chains import BoundRule

LARGEST = sys.float_info.max
NAN = math.nan
COLORS = ("red", "green", "blue", "grey", "black")
RATINGS = (0, 1, 2.5, 4, 7)
Expected = list[Fraction | None]


def some_model(names: list[str] | None = None) -> Ensemble:
    """A number, a category with codes, one whose numbers rows hold, and one that goes by text."""
    builder = EnsembleBuilder(
        n_features=4,
        classes=[0, 1],
        feature_names=names or ["x", "color", "rating", "code"],
        handles_missing=True,
        categories={
            1: Category(COLORS, unseen=True),
            2: Category(RATINGS, coded=False, unseen=True),
            3: Category(("5", "7", "x"), by_text=True),
        },
    )
    builder.add_tree(feature=[LEAF], threshold=[0.0], left=[LEAF], right=[LEAF], nan_left=[False], scores=[[1.0, 0.0]])
    return builder.build()


MODEL = some_model()
FILE = json.loads(as_text(MODEL))


def read(attacker: tp.Attacker) -> list[Column]:
    return columns_of(FILE, file_of(attacker))


def file_of(attacker: tp.Attacker) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(content_of(attacker)))
    return content


def sizes(epsilon: Any) -> list[Any]:
    return sizes_of(FILE, json.loads(json.dumps(epsilon_to_json(epsilon))))


def ulps(x: float, n: int) -> float:
    for _ in range(abs(n)):
        x = math.nextafter(x, math.copysign(math.inf, n))
    return x


def by_cell(column: Column, x: float, size: Any, part: tuple[float, float] | None, cuts: list[float]) -> Expected:
    """The price of each cell, and of missing."""
    prices: Expected = [None] * (len(cuts) + 2)
    before = Fraction(-1)
    for price, mask in column.cells(x, size, part, cuts):
        assert price > before
        before = price
        for cell in range(len(prices)):
            if mask >> cell & 1:
                assert prices[cell] is None
                prices[cell] = price
        assert mask > 0
        assert mask < 2 << (len(cuts) + 1)
    return prices


# --- the engine's tables ---------------------------------------------------------------------------------------------


def cells_of(cuts: list[float]) -> tuple[np.ndarray, np.ndarray]:
    rising = np.array(cuts)
    return np.append(-LARGEST, np.nextafter(rising, np.inf)), np.append(rising, LARGEST)


def check_against_engine(
    attacker: tp.Attacker, f: int, x: float, epsilon: Any, part: tuple[float, float] | None, cuts: list[float]
) -> int:
    """Compares one column of one row; returns how many cells have a price below the engine's."""
    around = bind_around(epsilon, MODEL)
    threat = attacker.bind(MODEL).with_alike(dict(around.alike))
    row = np.full((1, 4), NAN)
    row[0, f] = x
    low, high = (float(end[0, f]) for end in threat.neighbourhood(row, around.sizes))
    if part is not None and not math.isnan(x):
        low, high = max(low, part[0]), min(high, part[1])
    moves, cells = threat.moves_of(f), cells_of(cuts)
    column = read(attacker)[f]
    found = by_cell(column, x, sizes(epsilon)[f], part, cuts)
    if (math.isnan(x) and column.fill is None) or low > high:
        assert found == [None] * (len(cuts) + 2)
        return 0
    expected = moves.exact_prices(x, (low, high), *cells)
    limit = threat.limit
    expected = [None if price is None or price > limit else price for price in expected]
    n_lower = 0
    for price, right in zip(found, expected, strict=True):
        if price != right:
            assert price is not None and (right is None or price < right), (attacker, f, x, epsilon, part, cuts)
            n_lower += 1
    table = moves.table(np.array([x]), np.array([low]), np.array([high]), *cells, True)[0].tolist()
    for price, rounded in zip(found, table, strict=True):
        if price is not None and n_lower == 0:
            # The engine rounds prices down, tiny ones to 0, and stops at 1e299.
            assert Fraction(rounded) <= price
            assert price <= max(rounded * (1 + Fraction(2.0**-40)), Fraction(2.0**-990)) or price > 10**299
    return n_lower


def random_number(random: Random) -> float:
    kind = random.randrange(7)
    if kind == 0:
        return float(random.randint(-50, 50))
    if kind == 1:
        return random.randint(-5000, 5000) / 100
    if kind == 2:
        return random.gauss(0, 10.0 ** random.randint(-3, 6))
    if kind == 3:
        return random.randint(-9, 9) * 10.0 ** random.randint(14, 18) + random.randint(0, 100)
    if kind == 4:
        return ulps(random.randint(-3, 4) / 10, random.randint(-2, 2))
    return random.choice([0.0, -0.0, 1.0, 1024.0, 5e-324, -1e300])


def random_words(random: Random, column: str) -> dict[str, Any]:
    """What may be made missing or filled in, and what costs."""
    words: dict[str, Any] = {}
    for what in ("blank", "fill"):
        if random.random() < 0.3:
            words[what] = {column: random.randint(0, 4)}
    return words


def random_interval(random: Random, size: float) -> tuple[float, float]:
    low, high = sorted(random.choice([0, 0, 1, 0.3, 2, 2.5, random.random()]) * size for _ in range(2))
    kind = random.randrange(8)
    if kind == 0:
        return -math.inf, random.choice([high, 0.0, -low, math.inf])
    if kind == 1:
        return random.choice([-high, 0.0, low]), math.inf
    return [(-low, high), (-high, low), (low, high), (-high, -low)][kind % 4]


def random_domain(random: Random, x: float, size: float) -> Any:
    if random.random() < 0.4:
        return None
    low, high = (x + sign * random.choice([0.0, 1, 2, random.random(), math.inf]) * size for sign in (-1, 1))
    return {"x": (min(low, x), max(high, x))}


def random_question(random: Random) -> tuple[tp.Attacker, float, Any, tuple[float, float] | None, list[float]]:
    """An attacker of a number, a row's value, ε, a part of its neighbours, and cuts around it."""
    x = random_number(random)
    step = random.choice([1, 0.1, "0.25", 7, "0.003", 1e9, 1e-17, "0.1000000000000000000001"])
    size = float(step) if random.random() < 0.5 else random.choice([1.0, 0.1, abs(x) * 2.0**-50, 1e-3, abs(x) / 9])
    size = size or 1.0
    attacker = random_attacker(random, x, size, step)
    epsilon = random.choice([0.0, 0.0, size, 2.5 * size, 3 * size, 10 * size, math.inf])
    unit = random.choice([size, float(step)])
    points = [x + random.randint(-6, 6) * unit for _ in range(random.randint(1, 9))]
    points += [random.uniform(x - 9 * size, x + 9 * size) for _ in range(2)]
    cuts = sorted({ulps(point, random.randint(-1, 1)) for point in points if math.isfinite(point)})
    part = None
    if random.random() < 0.3:
        low, high = sorted(random.choice([*cuts, x, x - size, x + 3 * size]) for _ in range(2))
        part = (low if random.random() < 0.7 else -LARGEST, high if random.random() < 0.7 else LARGEST)
    return attacker, NAN if random.random() < 0.1 else x, {"x": epsilon}, part, cuts


def random_attacker(random: Random, x: float, size: float, step: Any) -> tp.Attacker:
    domain, words = random_domain(random, x, size), random_words(random, "x")
    kind = random.choice(["interval", "steps", "step", "lp", "lp", "lp step", "values", "matrix", "still"])
    budget = random.choice([None, None, 1, 3])
    words |= {"domain": domain, "budget": budget}
    costs = {"x": random.randint(0, 4)}
    interval = random_interval(random, size)
    try:
        if kind.startswith("lp"):
            way = {random.choice(["up", "down"]): ["x"]} if random.random() < 0.4 else {}
            scale = random.choice([None, {"x": random.choice([0.3, 10.0, 7])}])
            by = step if kind == "lp step" else None
            radius = size * random.choice([0, 1, 3, 10, 1e6])
            return tp.Attacker.lp(
                random.randint(1, 3), radius, features=["x"], domain=domain, step=by, scale=scale, **way
            )
        if kind == "steps":
            return tp.Attacker({"x": tp.steps(*interval, step)}, costs=costs, **words)
        if kind in ("interval", "step"):
            words |= {"step": step} if kind == "step" else {}
            return tp.Attacker({"x": interval}, costs=costs, **words)
        places = [x + random.randint(-4, 4) * size for _ in range(6)] + [x]
        places = [place for place in dict.fromkeys(places) if math.isfinite(place)]
        words |= {"step": {"x": step}} if random.random() < 0.3 else {}
        if kind == "values":
            return tp.Attacker({"x": tp.values(*places)}, costs=costs, **words)
        if kind == "matrix":
            pairs = [pair for pair in itertools.permutations(places, 2) if random.random() < 0.5]
            return tp.Attacker({}, costs={"x": {pair: random.randint(0, 5) for pair in pairs}}, **words)
        return tp.Attacker({}, **words)
    except tp.InvalidInput:
        return tp.Attacker({"x": (-size, size)}, costs=costs, domain=domain)


def check_numbers(seeds: range) -> tuple[int, int]:
    n_lower = n = 0
    for seed in seeds:
        attacker, x, epsilon, part, cuts = random_question(Random(seed))
        try:
            attacker.bind(MODEL)
        except tp.InvalidInput:
            continue
        n_lower += check_against_engine(attacker, 0, x, epsilon, part, cuts)
        n += 1
    return n, n_lower


def test_prices_of_numbers_are_the_engines() -> None:
    n, n_lower = check_numbers(range(400))
    assert n > 300
    assert n_lower <= 2  # intervals without 0 that are narrower than the doubles of many neighbours are apart


@pytest.mark.long
@pytest.mark.slow
def test_prices_of_numbers_are_the_engines_in_thousands_of_cases() -> None:
    n, n_lower = check_numbers(range(10_000, 14_000))
    assert n > 3000
    assert n_lower <= n // 100


def random_category_question(random: Random) -> tuple[tp.Attacker, int, float, Any]:
    """An attacker of a category, which one it is, a row's value, and ε."""
    f = random.choice([1, 2, 3])
    column, values = MODEL.feature_names[f], [COLORS, RATINGS, (5, "7", "x")][f - 1]  # type: ignore[index]
    codes = [map(float, range(6)), map(float, RATINGS), map(float, range(3))][f - 1]
    x = random.choice([*codes, NAN])
    words, cost = random_words(random, column), {column: random.randint(0, 4)}
    kind = random.choice(["any", "values", "matrix", "still", "rules", "all", "all values"])
    if kind == "rules":
        rules = [
            tp.Rule(
                column,
                when=set(random.sample(values, 2)) if random.random() < 0.8 else None,
                to=random.choice(values),
                cost=random.randint(1, 3),
            )
            for _ in range(random.randint(1, 5))
        ]
        attacker = tp.Attacker.rules(rules, budget=random.choice([None, 2, 5]), **words)
    elif kind == "matrix":
        pairs = random.sample(list(itertools.permutations(values, 2)), 4)
        attacker = tp.Attacker({}, costs={column: {pair: random.randint(0, 4) for pair in pairs}}, **words)
    else:
        moves: dict[str, Any] = {
            "any": {column: tp.ANY},
            "values": {column: tp.values(*random.sample(values, 2))},
            "still": {"x": (-1, 1)},
            "all": random.choice([tp.ANY, (-1, 1)]),
            "all values": tp.values(1, "x", "red", 7, 2.5, "nothing"),
        }
        unseen = kind in ("any", "all") and random.random() < 0.5
        words["domain"] = {"rating": (0, 4)} if f == 2 and random.random() < 0.3 and not x > 4 else None
        attacker = tp.Attacker(moves[kind], costs=cost, unseen=unseen, **words)
    first, second, third = random.sample(values, 3)
    epsilon = random.choice([0.0, 1.5, {column: tp.ANY}, {column: tp.values(first, second)}])
    if random.random() < 0.2:
        epsilon = {column: [tp.values(first), tp.values(second, third)]}
    return attacker, f, x, epsilon


def check_categories(seeds: range) -> int:
    n = 0
    for seed in seeds:
        random = Random(seed)
        attacker, f, x, epsilon = random_category_question(random)
        cuts = sorted(random.sample([-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.5, 4.0, 4.5, 6.5], random.randint(1, 6)))
        low, high = sorted(random.choice([-1.0, 0.0, 1.0, 2.0, 4.0, 9.0]) for _ in range(2))
        part = (low, high) if random.random() < 0.3 else None
        try:
            attacker.bind(MODEL)
        except tp.InvalidInput:
            continue
        assert check_against_engine(attacker, f, x, epsilon, part, cuts) == 0, seed
        n += 1
    return n


def test_prices_of_categories_are_the_engines() -> None:
    assert check_categories(range(300)) > 250


@pytest.mark.long
@pytest.mark.slow
def test_prices_of_categories_are_the_engines_in_thousands_of_cases() -> None:
    assert check_categories(range(1000, 3500)) > 2000


def random_rules(random: Random) -> list[tp.Rule]:
    rules = []
    for _ in range(random.randint(1, 4)):
        low, high = sorted(random.randint(-40, 60) / 10 for _ in range(2))
        least, most = sorted(random.randint(-30, 30) / random.choice([1, 10, 100, 8]) for _ in range(2))
        least = least if random.random() < 0.5 else most
        when = (low if random.random() < 0.8 else -math.inf, high if random.random() < 0.8 else math.inf)
        if least or most:
            rules.append(tp.Rule("x", when=when, change=(least, most), cost=random.randint(1, 3)))
    return rules or [tp.Rule("x", change=0.5)]


def check_rules(seeds: range) -> tuple[int, int]:
    n = n_lower = 0
    for seed in seeds:
        random = Random(seed)
        domain = random.choice([{"x": (-7.0, 8.1)}, {"x": (-1e6, 1e6)}])
        words = random_words(random, "x")
        attacker = tp.Attacker.rules(random_rules(random), budget=random.randint(1, 7), domain=domain, **words)
        x = random.choice([random.randint(-60, 80) / 10, random.uniform(-6, 8)])
        epsilon = random.choice([0.0, 0.0, 0.1, 1.0, 4 * math.ulp(x)])
        cuts = {random.choice([random.randint(-70, 80) / 10, random.uniform(-7, 8)]) for _ in range(8)}
        cuts = sorted(ulps(cut, random.randint(-2, 2)) for cut in cuts)
        n_lower += check_against_engine(attacker, 0, x, {"x": epsilon}, None, cuts)
        n += len(cuts) + 1
    return n, n_lower


def test_prices_of_rules_are_the_engines() -> None:
    n, n_lower = check_rules(range(60))
    assert n_lower <= n // 100  # cells of a few doubles, where all numbers between neighbours were taken for such


@pytest.mark.long
@pytest.mark.slow
def test_prices_of_rules_are_the_engines_in_many_cases() -> None:
    n, n_lower = check_rules(range(100, 1500))
    assert n_lower <= n // 100


def check_tables(seeds: range) -> int:
    """Whole rows of random models, as the engine prices them; returns the number of prices."""
    n = 0
    for seed in seeds:
        random = Random(seed)
        model, attacker = random_model(random), random_attacker_of_all(random)
        try:
            threat = attacker.bind(model)
        except tp.InvalidInput:
            continue
        model_file = json.loads(as_text(model))
        columns = columns_of(model_file, file_of(attacker))
        epsilon = random.choice([0.0, 0.1, {"b": 0.2}, [0.0, 0.3, 0.0, 0.05]])
        own = sizes_of(model_file, json.loads(json.dumps(epsilon_to_json(epsilon))))
        x = random_row(random)
        prices = price_table(threat, model, x, epsilon).exact
        for f, column in enumerate(columns):
            found = by_cell(column, x[f], own[f], None, model.grid.cuts_of(f).tolist())
            if math.isnan(x[f]) and column.fill is None:
                assert not any(found)
                continue
            cells = [*range(len(found) - 1), NAN_CELL]
            expected = [prices.get((f, cell)) for cell in cells]
            assert found == [None if one is not None and one > threat.limit else one for one in expected], (seed, f)
            n += len(found)
    return n


def test_rows_of_random_models_cost_what_the_engine_says() -> None:
    assert check_tables(range(40)) > 500


@pytest.mark.long
@pytest.mark.slow
def test_rows_of_many_random_models_cost_what_the_engine_says() -> None:
    assert check_tables(range(100, 1100)) > 10_000


# --- all pairs of values ---------------------------------------------------------------------------------------------


def doubles(low: float, high: float) -> list[float]:
    found = [low]
    while found[-1] < high:
        found.append(math.nextafter(found[-1], math.inf))
        assert len(found) < 200
    return found


def decimal(number: float) -> str:
    return f"{number:.3g}"


def tiny_question(random: Random) -> tuple[tp.Attacker, float, float]:
    """An attacker on a domain of a few doubles, a row's value in it, and ε."""
    middle = random.choice([1.0, 0.1, 0.3, 1e16, 0.0, -2.0, 1024.0, 3e-300, 123456.78])
    x = ulps(middle, random.randint(-4, 4))
    domain = {"x": (ulps(x, -random.randint(0, 9)), ulps(x, random.randint(0, 9)))}
    unit = math.ulp(middle)
    far = [0, 0.5, 1, 1.5, 2, 2.25, 2.5, 3, 5, 7.5]
    low, high = sorted(random.choice(far) * unit for _ in range(2))
    interval = random.choice([(-low, high), (-high, low), (low, high), (-high, -low), (low, math.inf)])
    step = decimal(max(random.choice([0.3, 0.5, 1, 1.7, 2, 3.1]) * unit, 5e-324))
    epsilon = random.choice([0, 0, 1, 1.5, 2, 4, 9]) * unit
    words = random_words(random, "x") | {"domain": domain}
    kind = random.choice(["interval", "interval", "step", "lp", "lp step", "rules", "matrix"])
    try:
        if kind == "rules":
            changes = [sorted(random.choice([-1, 1]) * random.choice(far) * unit for _ in range(2)) for _ in range(3)]
            rules = [
                tp.Rule("x", when=domain["x"] if random.random() < 0.3 else None, change=tuple(change), cost=1 + number)
                for number, change in enumerate(changes)
                if any(change)
            ]
            return tp.Attacker.rules(rules, budget=random.randint(1, 5), **words), x, epsilon
        if kind.startswith("lp"):
            way = {random.choice(["up", "down"]): ["x"]} if random.random() < 0.4 else {}
            by = step if kind == "lp step" else None
            lp = tp.Attacker.lp(
                random.randint(1, 3), 6 * unit, features=["x"], domain=domain, step=by, scale={"x": 0.3}, **way
            )
            return lp, x, epsilon
        if kind == "matrix":
            values = random.sample(doubles(*domain["x"]), min(4, len(doubles(*domain["x"]))))
            costs = {pair: random.randint(0, 3) for pair in itertools.permutations(values, 2)}
            return tp.Attacker({}, costs={"x": costs}, step=random.choice([None, step]), **words), x, epsilon
        words |= {"step": step} if kind == "step" else {}
        return tp.Attacker({"x": interval}, costs=random.randint(0, 3), **words), x, epsilon
    except tp.InvalidInput:
        return tp.Attacker({"x": tp.ANY}, costs=2, **words), x, epsilon


def check_all_pairs(seeds: range) -> None:
    for seed in seeds:
        random = Random(seed)
        attacker, x, epsilon = tiny_question(random)
        column, (size, *_) = read(attacker)[0], sizes({"x": epsilon})
        values = doubles(*column.domain)
        cuts = sorted(random.sample(values, random.randint(1, len(values))))
        low, high = sorted(random.choice(values) for _ in range(2))
        part = (low, high) if random.random() < 0.3 else None
        x = NAN if random.random() < 0.1 else x
        near = [NAN] if math.isnan(x) else [z for z in values if column.is_near(x, z, size)]
        starts = [z for z in near if part is None or math.isnan(z) or part[0] <= z <= part[1]]
        expected: Expected = [None] * (len(cuts) + 2)
        for z, w in itertools.product(starts, [*values, NAN]):
            price = column.price(x, z, w)
            cell = len(cuts) + 1 if math.isnan(w) else sum(cut < w for cut in cuts)
            known = expected[cell]
            if price is not None and (column.budget is None or price <= column.budget):
                expected[cell] = price if known is None else min(price, known)
        if math.isnan(x) and column.fill is None:
            expected = [None] * (len(cuts) + 2)  # no cells
        assert by_cell(column, x, size, part, cuts) == expected, (seed, attacker, x, size, part, cuts)


def test_prices_are_the_least_of_all_pairs() -> None:
    check_all_pairs(range(150))


@pytest.mark.long
@pytest.mark.slow
def test_prices_are_the_least_of_all_pairs_in_thousands_of_cases() -> None:
    check_all_pairs(range(1000, 4000))


def test_definitions_are_the_engines() -> None:
    n = 0
    for seed in range(200):
        random = Random(seed)
        attacker, x, epsilon = tiny_question(random)
        column, moves = read(attacker)[0], attacker.bind(MODEL).moves_of(0)
        values = doubles(*column.domain)
        near = [z for z in values if column.is_near(x, z, epsilon)]
        ends = attacker.bind(MODEL).neighbourhood(np.array([[x, 0.0, 0.0, 0.0]]), np.array([epsilon, 0.0, 0.0, 0.0]))
        assert (near[0], near[-1]) == tuple(float(end[0, 0]) for end in ends)
        for _ in range(20):
            z, w = random.choice([*near, NAN]), random.choice([*values, NAN])
            own = NAN if math.isnan(z) else x
            assert column.price(own, z, w) == moves.price(own, z, w), (seed, attacker, x, z, w)
            n += 1
    assert n == 4000


# --- files -----------------------------------------------------------------------------------------------------------


def back_and_forth(domain: tuple[int, int]) -> tp.Attacker:
    rules = [tp.Rule("x", when=(-99, 99), change=change) for change in (5, -6)]
    return tp.Attacker.rules(rules, domain={"x": domain}, budget=9)


@pytest.mark.parametrize(
    ("attacker", "x", "epsilon", "cuts", "expected"),
    [
        # 0.3 are three steps of 0.1, and 0.1 + 0.2 is no point.
        (tp.Attacker({}, step=0.1, blank=["x"]), 0.0, 0.3, [0.25, 0.3, 0.35], [0, 0, None, None, 1]),
        (tp.Attacker({"x": tp.steps(0, 0.2, 0.1)}), 0.1, 0.0, [0.1, 0.2, 0.3], [0, 1, 1, None, None]),
        # Every second whole number is a double there, and none is 4.5 to 5 away from another one.
        (tp.Attacker({"x": (4.5, 5)}), 1e16, 2.0, [1e16 + 2, 1e16 + 4, 1e16 + 6], [0, None, None, None, None]),
        (tp.Attacker({"x": (4.5, 6)}), 1e16, 2.0, [1e16 + 2, 1e16 + 4, 1e16 + 6], [0, 1, 1, 1, None]),
        # 0.5 lies between two neighbours, and is none.
        (tp.Attacker({}, costs={"x": {(0.5, 5): 1, (1, 6): 2}}, step=1), 0.0, 1.0, [2.0, 5.5], [0, None, 2, None]),
        # Of a matrix, only what leads to listed values, if some are.
        (
            tp.Attacker({"x": tp.values(5)}, costs={"x": {(0, 5): 1, (0, 6): 2}}),
            0.0,
            0.0,
            [4.5, 5.5, 6.5],
            [0, 1, None, None],
        ),
        # All values on the way stay in the domain.
        (back_and_forth((0, 8)), 7.0, 0.0, [0.5, 1.5, 6.5, 7.5], [3, 1, 2, 0, None]),
        (back_and_forth((5, 8)), 7.0, 0.0, [0.5, 1.5, 6.5, 7.5], [None, None, None, 0, None]),
        (tp.Attacker({}, fill=["x"], step=0.5, domain={"x": (0, 1)}), NAN, 0.0, [0.0, 0.1, 0.4], [1, None, None, 1, 0]),
        (tp.Attacker({}, fill=["x"], step=0.5, domain={"x": (0, 1)}), 0.1, 0.0, [0.0, 0.2], [None, 0, None, None]),
    ],
)
def test_prices_in_plain_numbers(
    attacker: tp.Attacker, x: float, epsilon: float, cuts: list[float], expected: Expected
) -> None:
    found = by_cell(read(attacker)[0], x, epsilon, None, cuts)
    assert found[: len(expected)] == expected
    assert not any(found[len(expected) :])
    assert check_against_engine(attacker, 0, x, {"x": epsilon}, None, cuts) == 0


def test_domains_of_all_columns_are_not_for_codes() -> None:
    attacker = tp.Attacker(tp.ANY, domain=(0, 1.5))
    assert [column.ends for column in read(attacker)] == [None, (0, 1, 2, 3, 4), (0, 1), (0, 1, 2)]
    for f in range(4):
        assert check_against_engine(attacker, f, 1.0, 0.0, None, [-0.5, 0.5, 1.5, 2.5]) == 0


def test_columns_are_found_by_name_and_by_position() -> None:
    underscored = json.loads(as_text(some_model(["my_x", "color", "rating", "code"]))) | {"blanks_underscored": True}
    given = file_of(tp.Attacker({"my x": (-1, 2)}, costs={"my_x": 3}, blank={"my x": 2}))
    for content in (given, given | {"intervals": {"by_feature": [[0, [-1, 2]]]}}):
        column = columns_of(underscored, content)[0]
        assert (column.reach, column.cost, column.blank, column.fill) == ((-1.0, 2.0), 3, 2, None)
        assert sizes_of(underscored, {"by_feature": [["my x", 0.5]]}) == [0.5, 0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="no column 'my x'"):
        columns_of(FILE, given)
    with pytest.raises(ValueError, match="no column 4"):
        columns_of(FILE, given | {"intervals": {"by_feature": [[4, [0, 1]]]}})


def test_what_is_given_for_each_column_fits_their_number() -> None:
    given = file_of(tp.Attacker([(0, 1), (-math.inf, math.inf), (0, 0), (0, 0)], costs=[1, 2, 3, 4], budget=3))
    columns = columns_of(FILE, given)
    assert [column.cost for column in columns] == [1, 2, 3, 4]
    assert [column.reach for column in columns] == [(0.0, 1.0), (-math.inf, math.inf), (0.0, 0.0), (0.0, 0.0)]
    assert columns[1].ends == (0.0, 1.0, 2.0, 3.0, 4.0)
    with pytest.raises(ValueError, match="given for 4 columns"):
        columns_of(FILE, given | {"costs": {"each": [1, 2]}})


@pytest.mark.parametrize(
    "change",
    [
        {"step": {"all": 0}},
        {"costs": {"all": -1}},
        {"blank": {"all": 0.5}},
        {"power": 2, "scale": {"all": -1}},
        {"power": 2.0},
        {"rules": [{"column": "x", "change": 3, "cost": 1}]},
        {"rules": [{"column": "x", "change": 3, "cost": -1}], "intervals": {"all": [0, 0]}},
        {"rules": [{"column": "x", "to": 3, "cost": 1}], "intervals": {"all": [0, 0]}},
    ],
)
def test_what_nobody_knows_is_refused(change: dict[str, Any]) -> None:
    content = file_of(tp.Attacker({"x": (-1, 1)}))
    assert checked_columns(content)
    with pytest.raises((Rejected, ValueError), match="must not be|no distances|above 0|cannot have|beside"):
        checked_columns(content | change)


def checked_columns(content: dict[str, Any]) -> list[Column]:
    check(content, ATTACKER, "the attacker")
    return columns_of(FILE, content)


def test_values_are_known_by_their_text_only_where_the_model_goes_by_it() -> None:
    color, rating, code = read(tp.Attacker(tp.values("red", 5, "5", 7, 2.5, True)))[1:]
    assert (color.ends, rating.ends, code.ends) == ((0.0,), (1.0, 2.5, 7.0), (0.0, 1.0))
    assert sizes({"code": tp.values(7, "x")})[3] == (frozenset((1.0, 2.0)),)
    assert sizes({"rating": tp.ANY, "x": tp.ANY}) == [math.inf, 0.0, (frozenset(map(float, RATINGS)),), 0.0]


def random_group_attacker(random: Random) -> tp.Attacker:
    names = ["x", "color", "rating", "code"]
    words: dict[str, Any] = {"budget": random.choice([None, 0, 2, 50])}
    if random.random() < 0.5:
        words |= {"groups": {"g": random.sample(names, 2)}, "budgets": {"g": random.randint(0, 3)}}
    if random.random() < 0.3:
        words |= {"blank": {name: random.randint(0, 9) for name in random.sample(names, 2)}}
    if random.random() < 0.3:
        rules = [tp.Rule("x", change=1), tp.Rule("color", to="red", cost=2)]
        return tp.Attacker.rules(rules[: random.randint(1, 2)], domain={"x": (0, 9)}, **words)
    moves = {"x": (-1, 1), "color": tp.ANY, "rating": tp.values(1, 4), "code": tp.ANY}
    costs = {name: random.randint(0, 7) for name in random.sample(names, 3)}
    kept = random.sample(names, 3)
    matrix = {"rating": {(1, 4): 3, (0, 1): 5}} if "rating" in kept and random.random() < 0.4 else {}
    return tp.Attacker({name: moves[name] for name in kept}, costs=costs | matrix, **words)


def test_budgets_are_the_engines() -> None:
    for seed in range(200):
        random = Random(seed)
        attacker = random_group_attacker(random)
        threat = attacker.bind(MODEL)
        columns, content = read(attacker), file_of(attacker)
        (most, everything), *groups = purses = purses_of(FILE, content, columns)
        assert everything == frozenset(range(4))
        if attacker.rewrites and attacker.budget is None:
            assert most > 2**40  # more than any group may spend
        else:
            assert most == threat.limit
        assert groups == [
            (group.budget, frozenset(features)) for group, features in zip(attacker.groups, threat.groups, strict=True)
        ]
        for _ in range(10):
            prices = {f: Fraction(random.randint(0, column.dearest)) for f, column in enumerate(columns)}
            prices = {f: min(price, Fraction(60)) for f, price in prices.items()}
            assert is_affordable(purses, prices) == threat.can_pay(prices)


@pytest.mark.parametrize("step", [None, 0.1])
def test_a_radius_is_a_decimal_where_columns_have_steps(step: float | None) -> None:
    attacker = tp.Attacker.lp(2, 0.3, features=["x"], step=step)
    columns = read(attacker)
    ((limit, _),) = purses_of(FILE, file_of(attacker), columns)
    assert (
        limit
        == attacker.bind(MODEL).limit
        == columns[0].budget
        == (Fraction(0.3) if step is None else Fraction("0.3")) ** 2
    )


def test_rules_without_an_end_make_no_cell_dearer() -> None:
    column = read(tp.Attacker.rules([tp.Rule("x", when=(0, math.inf), change=1, cost=3)]))[0]
    assert column.price(0.0, 0.0, 100.0) == 300 and column.price(0.0, 0.0, 0.5) is None
    prices = by_cell(column, 0.0, 0.0, None, [-1.0, 0.5, 99.5, 1e9])
    assert prices[1:4] == [0, 3, 300]
    # After many tries nobody knows what can be had at all, but all of it costs as much as what was tried last.
    assert prices[4] == prices[0] == 3 * MOST_RANGES


def test_search_and_checker_follow_chains_equally_far() -> None:
    assert (chains.MOST_RULES, chains.MOST_RANGES, chains.MOST_STEPS) == (
        settings.MOST_RULES,
        rule_chains.MOST_PIECES,
        rule_chains.MOST_STEPS,
    )


def test_more_rules_than_anybody_follows_are_refused_before_any_of_them_is_followed() -> None:
    rule = tp.Rule("x", change=1)
    with pytest.raises(InvalidInput, match="at most 10,000 rules, got 10,001; let one say more: a range"):
        tp.Attacker.rules([rule] * 10_001)
    content = file_of(tp.Attacker.rules([rule]))
    with pytest.raises(Rejected, match="more than 10,000 rules; let one say more: a range"):
        columns_of(FILE, {**content, "rules": content["rules"] * 10_001})


def test_the_more_rules_the_fewer_ranges_they_are_followed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what waits is never more than steps, and both end where the other does."""
    monkeypatch.setattr(chains, "MOST_STEPS", 600)
    monkeypatch.setattr(rule_chains, "MOST_STEPS", 600)
    for n in (1, 3, 20):
        rules = [tp.Rule("x", change=7**k) for k in range(n)]
        attacker = tp.Attacker.rules(rules, domain={"x": (0, 1e300)})
        bound = tuple(BoundRule(1, change=(Fraction(7**k), Fraction(7**k))) for k in range(n))
        ways = rule_chains.RuleChains(bound, (0.0, 1e300))
        with pytest.raises(InvalidInput, match=f"more than {600 // n} values; give the attacker a domain, fewer rules"):
            ways.ends(Fraction(0), 0.0)
        *found, last = chains.chains(read(attacker)[0].rules, (0.0, 1e300), None, [(0.0, 0.0)])  # type: ignore[arg-type]
        assert len(found) == 600 // n and last[1:] == (-math.inf, math.inf)


def test_a_row_outside_of_the_domain_is_its_own_neighbour() -> None:
    column = read(tp.Attacker({"x": (-1, 1)}, domain={"x": (0, 5)}))[0]
    assert by_cell(column, 7.0, 0.0, None, [0.0, 4.0, 6.0]) == [None, None, None, 0, None]
    assert by_cell(column, 5.5, 0.0, None, [0.0, 4.0, 5.25]) == [None, None, 1, 0, None]


def test_the_checker_follows_chains_as_far_as_the_search() -> None:
    model = DecisionTreeClassifier().fit([[0.0], [40.0]], [0, 1])
    little = [tp.Rule(0, change=by) for by in ("0.001", "-0.001")]
    result = tp.verify(model, [[40.0]], [1], tp.Attacker.rules(little, domain=(0, 45)))
    assert result.has_witness.all() and model.predict([result.witness(0).attacked]).tolist() == [0]
