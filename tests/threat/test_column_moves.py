"""Prices of one column against the definitions, enumerated: grid points, listed values, chains of rules, blanks."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from treeproof.errors import InvalidInput
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.rule_chains import BoundRule

LARGEST = float(np.finfo(np.float64).max)
NAN = math.nan
ANY = (-math.inf, math.inf)
EVERYWHERE = (-LARGEST, LARGEST)
WINDOW = 36
"""How many steps around a row's own value are enumerated; intervals and cuts of the cases stay well inside."""

Oracle = dict[tuple[float, float], Fraction]
"""What each move costs, from a start to an end; what is not there is impossible."""


def printed(x: float) -> Fraction:
    return Fraction(str(float(x)))


def ulps(x: float, n: int) -> float:
    for _ in range(abs(n)):
        x = math.nextafter(x, math.copysign(math.inf, n))
    return x


def doubles(low: float, high: float) -> list[float]:
    """All doubles from low to high; only for ranges that hold few of them."""
    found = []
    while low <= high:
        found.append(low)
        low = math.nextafter(low, math.inf)
        assert len(found) < 1000
    return found


def grid_around(x: float, step: Fraction) -> list[tuple[int, float]]:
    origin = Fraction(0) if math.isnan(x) else printed(x)
    return [(k, float(origin + k * step)) for k in range(-WINDOW, WINDOW + 1)]


def moves_on_grid(moves: ColumnMoves, x: float) -> Oracle:
    """Every pair of points of the row's grid, by their numbers, as the definition says."""
    prices: Oracle = {}
    points = grid_around(x, moves.step)
    assert moves.interval is not None
    low, high = (end if math.isinf(end) else printed(end) for end in moves.interval)
    fee: dict[int, Fraction] = {}
    for k in range(-2 * WINDOW, 2 * WINDOW + 1):
        if moves.power is not None:
            # Only the side of 0 matters.
            if k == 0 or (low < 0 if k < 0 else high > 0):
                fee[k] = abs(k * moves.step / printed(moves.unit)) ** moves.power
        elif low <= k * moves.step <= high:
            fee[k] = Fraction(moves.cost)
    for (k1, start), (k2, end) in itertools.product(points, points):
        if k2 - k1 in fee and moves.domain[0] <= end <= moves.domain[1]:
            price = fee[k2 - k1]
            prices[start, end] = min(price, prices.get((start, end), price))
    return prices


def cells_of(cuts: list[float]) -> tuple[np.ndarray, np.ndarray]:
    rising = np.unique(np.array(cuts))
    return (
        np.concatenate(([-LARGEST], np.nextafter(rising, np.inf))),
        np.concatenate((rising, [LARGEST])),
    )


def least(prices: Oracle, starts: list[float], first: float, last: float) -> Fraction | None:
    """The least price from these starts into a cell."""
    if any(first <= start <= last for start in starts):
        return Fraction(0)
    among = set(starts)
    return min(
        (price for (start, end), price in prices.items() if first <= end <= last and start in among), default=None
    )


def table_of(moves: ColumnMoves, x: float, box: tuple[float, float], cells: Any, blank: bool = False) -> list[float]:
    low, high = box
    return moves.table(np.array([x]), np.array([low]), np.array([high]), *cells, blank)[0].tolist()


def check_cells(
    moves: ColumnMoves, x: float, starts: list[float], cells: Any, price_from: Callable[..., Fraction | None]
) -> None:
    """The table, the exact prices and the moves of one row, against the least price from some starts into a cell."""
    box = (min(starts), max(starts)) if starts else (x, ulps(x, -1))
    expected = [price_from(starts, *cell) for cell in zip(*cells, strict=True)]
    prices = table_of(moves, x, box, cells)
    assert moves.exact_prices(x, box, *cells) == [*expected, None]
    for price, first, last, right in zip(prices, *cells, expected, strict=True):
        if right is None:
            assert price == math.inf
            continue
        if moves.power is None:
            assert price == right
        else:
            assert Fraction(price) <= right <= Fraction(price) * (1 + Fraction(1, 2**40))
        ends = np.array([first]), np.array([last])
        ((z,), (w,)) = moves.move(np.array([x]), np.array([box[0]]), np.array([box[1]]), *ends)
        assert z in starts
        assert first <= w <= last
        assert moves.price(x, z, w) == right
        inside = [start for start in starts if first <= start <= last]
        nearer = [start for start in inside or starts if abs(start - x) < abs(z - x)]
        assert (z == w) == bool(inside)
        assert not nearer or price_from(nearer, first, last) != right


# Steps


STEPS = [
    Fraction(1),
    Fraction(1, 10),
    Fraction(1, 100),
    Fraction(1, 4),
    Fraction(7),
    Fraction(3, 1000),
    Fraction(10**9),
]
ODD_STEPS = [Fraction(1, 3), Fraction(1, 10**30), Fraction(10**17 + 1, 10**3), Fraction(1, 2**60)]


def random_value(rng: np.random.Generator) -> float:
    kind = rng.integers(6)
    if kind == 0:
        return float(rng.integers(-50, 50))
    if kind == 1:
        return float(rng.integers(-5000, 5000)) / 100
    if kind == 2:
        return float(rng.normal(0, 10.0 ** rng.integers(-3, 6)))
    if kind == 3:
        return float(rng.integers(-9, 9)) * 10.0 ** rng.integers(14, 18) + float(rng.integers(0, 100))
    if kind == 4:
        return ulps(float(rng.integers(-3, 4)) / 10, int(rng.integers(-2, 3)))
    return 0.0


def random_grid_case(rng: np.random.Generator, step: Fraction) -> tuple[ColumnMoves, float, tuple[float, float], Any]:
    x = random_value(rng)
    while WINDOW * step < 8 * np.spacing(abs(x)):  # many points are the same double, and too few are enumerated
        x = random_value(rng) * float(step)
    points = [point for k, point in grid_around(x, step) if abs(k) <= 20]
    cuts = [ulps(float(rng.choice(points)), int(rng.integers(-1, 2))) for _ in range(rng.integers(1, 12))]
    cuts += rng.uniform(points[0], points[-1], 2).tolist()
    low, high = sorted(int(k) for k in rng.integers(-9, 10, 2))
    interval = (float(low * step), float(high * step))
    if rng.integers(4) == 0:
        interval = (interval[0], math.inf)
    domain = EVERYWHERE
    if rng.integers(2):
        ends = sorted(ulps(float(rng.choice(points)), int(rng.integers(-1, 2))) for _ in range(2))
        domain = min(ends[0], x), max(ends[1], x)
    power = int(rng.integers(1, 4)) if rng.integers(3) == 0 else None
    unit = float(rng.choice([1.0, 0.3, 10.0]))
    moves = ColumnMoves(domain, interval, step, cost=int(rng.integers(0, 5)), power=power, unit=unit)
    near = [point for k, point in grid_around(x, step) if abs(k) <= rng.integers(0, 6)]
    box = max(min(near), domain[0]), min(max(near), domain[1])
    if rng.integers(5) == 0:  # a part of the neighbours, as it is when they are split
        box = (float(rng.uniform(*box)) if box[0] < box[1] and rng.integers(2) else box[0], box[1])
    return moves, x, box, cells_of(cuts)


def check_grid_case(rng: np.random.Generator, step: Fraction) -> None:
    moves, x, box, cells = random_grid_case(rng, step)
    prices = moves_on_grid(moves, x)
    starts = [point for _, point in grid_around(x, step) if box[0] <= point <= box[1]]
    check_cells(moves, x, starts, cells, partial(least, prices))
    every = sorted({point for _, point in grid_around(x, step)})
    points = every[5:-5]
    for start, end in zip(rng.choice(points, 20), rng.choice(points, 20), strict=True):
        expected = Fraction(0) if start == end else prices.get((start, end))
        assert moves.price(x, float(start), float(end)) == expected
        beside = ulps(float(end), 1)
        if beside not in every:
            assert moves.price(x, float(start), beside) is None


@pytest.mark.parametrize("step", [*STEPS, *ODD_STEPS], ids=str)
def test_prices_of_steps_are_those_of_enumerated_grid_points(step: Fraction) -> None:
    for seed in range(4):
        check_grid_case(np.random.default_rng(seed), step)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("step", [*STEPS, *ODD_STEPS], ids=str)
def test_prices_of_steps_in_hundreds_of_cases(step: Fraction) -> None:
    for seed in range(100, 120):
        check_grid_case(np.random.default_rng(seed), step)


def test_steps_of_decimals_are_not_lost_to_rounding() -> None:
    moves = ColumnMoves(EVERYWHERE, (-0.3, 0.3), Fraction(1, 10))
    assert moves.price(0.3, 0.3, 0.6) == 1
    assert moves.price(0.3, 0.3, 0.0) == 1
    assert moves.price(0.3, 0.3, 0.7) is None
    # 0.1 + 0.2 is no point of the grid of 0.1, and the double that 0.3 is read as is one.
    assert moves.price(0.1, 0.1, 0.1 + 0.2) is None
    assert moves.price(0.1, 0.1, 0.3) == 1


def test_a_table_of_many_rows_is_made_of_the_tables_of_each() -> None:
    rng = np.random.default_rng(7)
    X = np.concatenate((rng.integers(0, 90, 20), rng.integers(0, 900, 10) / 10, rng.normal(40, 9, 10), [NAN, 1e17]))
    cells = cells_of([*rng.integers(0, 90, 15).tolist(), *ulps_below(rng.integers(0, 90, 15)), 1e16, 1e20])
    for moves in (
        ColumnMoves(EVERYWHERE, (-5.0, 9.0), Fraction(1), cost=3, blank=2, fill=4),
        ColumnMoves((0.0, LARGEST), (-1.0, 1.0), Fraction(1, 2), power=2, blank=1),
    ):
        low, high = moves.neighbours(X, 1.0)
        table = moves.table(X, low, high, *cells, True)
        for row in range(len(X)):
            one = slice(row, row + 1)
            assert np.array_equal(table[one], moves.table(X[one], low[one], high[one], *cells, True))


def test_cells_between_two_points_are_out_of_reach_of_any_number_of_steps() -> None:
    moves = ColumnMoves(EVERYWHERE, ANY, Fraction(1))
    own, lowest, highest = np.array([0.0]), np.array([1.25, 1.5]), np.array([1.5, 2.5])
    assert moves.table(own, own, own, lowest, highest, False).tolist() == [[math.inf, 1.0]]


@pytest.mark.parametrize("power", [None, 2])
def test_cells_between_two_points_hold_no_neighbour_however_far_these_are(power: int | None) -> None:
    cells = cells_of([0.25, 0.5, 1.0])
    free = (-LARGEST, LARGEST)
    for words in ({"interval": ANY, "power": power}, {"ends": (0.375, 2.0), "interval": ANY, "cost": 3}):
        moves = ColumnMoves(EVERYWHERE, step=Fraction(1), **words)
        between = 3.0 if "ends" in words else math.inf
        assert table_of(moves, 0.0, free, cells) == [0, between, 0, 0]


def test_cells_far_away_are_reached_only_by_as_many_steps() -> None:
    cells = cells_of([2.0**51, 2.0**51 + 0.5, 2.0**60])  # the second holds one double, and that is no whole number
    for x, interval, expected in (
        (3.0, (-5.0, 5.0), [0, math.inf, math.inf, math.inf]),
        (3.0, (-5.0, 1e17), [0, math.inf, 1, math.inf]),
        (3.0, ANY, [0, math.inf, 1, 1]),
        (2.0**55, (-math.inf, 5.0), [1, math.inf, 0, math.inf]),
    ):
        moves = ColumnMoves(EVERYWHERE, interval, Fraction(1))
        assert table_of(moves, x, (x, x), cells) == expected
        wide = ColumnMoves(EVERYWHERE, interval, Fraction(1), blank=1)
        assert table_of(wide, x, (-LARGEST, LARGEST), cells, True) == [0, math.inf, 0, 0, 1]


def ulps_below(values: Any) -> list[float]:
    return [ulps(float(value), -1) for value in values]


def test_neighbours_are_points_at_most_epsilon_away_as_decimals() -> None:
    moves = ColumnMoves((0.0, 0.35), (-1.0, 1.0), Fraction(1, 10))
    low, high = moves.neighbours(np.array([0.3, 0.1, NAN]), 0.1)
    assert low[:2].tolist() == [0.2, 0.0] and math.isnan(low[2])
    assert high[:2].tolist() == [0.3, 0.2] and math.isnan(high[2])
    # 0.3 + 0.1 is less than 0.4, as doubles.
    wide = ColumnMoves(EVERYWHERE, (-1.0, 1.0), Fraction(1, 10))
    assert wide.neighbours(np.array([0.3]), 0.1)[1] == [0.4]
    assert wide.neighbours(np.array([0.3]), 0.05) == ([0.3], [0.3])
    assert wide.neighbours(np.array([0.3]), math.inf) == ([-LARGEST], [LARGEST])
    coarse = ColumnMoves((-10.0, 10.0), (-1.0, 1.0), Fraction(3))
    assert coarse.neighbours(np.array([0.5]), math.inf) == ([-8.5], [9.5])


# Distances without steps


@pytest.mark.parametrize("power", [None, 1, 2])
def test_prices_of_distances_are_those_of_enumerated_doubles(power: int | None) -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        x = float(rng.choice([1.0, 0.1, 3.0, 1024.0, -1.0, 0.0]))
        box = ulps(x, -int(rng.integers(0, 4))), ulps(x, int(rng.integers(0, 4)))
        middle = ulps(float(rng.choice([1.0, 0.1, 3.0, 1025.0, -1.0])), int(rng.integers(-3, 4)))
        cell = ulps(middle, -int(rng.integers(0, 4))), ulps(middle, int(rng.integers(0, 4)))
        distance = float(middle - x)
        low, high = sorted((ulps(distance, int(rng.integers(-3, 4))), ulps(distance, int(rng.integers(-3, 4)))))
        domain = (-LARGEST, ulps(middle, 1)) if middle > x and rng.integers(2) else EVERYWHERE
        moves = ColumnMoves(domain, (low, high), cost=2, power=power, unit=0.7)
        prices: Oracle = {}
        starts = doubles(*box)
        for start, end in itertools.product(starts, doubles(*cell)):
            away = Fraction(end) - Fraction(start)
            # With a power, only the side of 0 matters.
            fits = Fraction(low) <= away <= Fraction(high) if power is None else not away or (low, -high)[away > 0] < 0
            if end <= domain[1] and fits:
                prices[start, end] = Fraction(2) if power is None else abs(away / Fraction(0.7)) ** power
                assert start == end or moves.price(x, start, end) == prices[start, end]
        check_cells(moves, x, starts, (np.array([cell[0]]), np.array([cell[1]])), partial(least, prices))


# Listed values


def test_values_may_become_listed_ones_and_stay_what_they_are() -> None:
    moves = ColumnMoves((-10.0, 10.0), ANY, ends=(-20.0, 1.0, 2.5, 7.0), cost=3)
    cells = cells_of([-5.0, 0.0, 1.0, 2.0, 3.0, 6.0, 6.5])
    # 6.2 is none of the listed values; -20 lies outside the domain.
    assert table_of(moves, 6.2, (6.2, 6.2), cells) == [math.inf, math.inf, 3, math.inf, 3, math.inf, 0, 3]
    assert table_of(moves, 6.2, (5.9, 6.6), cells) == [math.inf, math.inf, 3, math.inf, 3, 0, 0, 0]
    assert moves.price(6.2, 6.2, 2.5) == 3 and moves.price(6.2, 6.2, 2.0) is None
    assert moves.price(6.2, 6.2, -20.0) is None and moves.price(6.2, 6.2, 6.2) == 0
    cell = np.array([1.5]), np.array([6.9])
    assert moves.move(np.array([8.0]), np.array([7.5]), np.array([9.0]), *cell) == ([8.0], [2.5])


def test_listed_values_that_are_only_for_filling_are_no_moves() -> None:
    moves = ColumnMoves((0.0, 3.0), ends=(0.0, 1.0, 2.0), fill=2)
    cells = cells_of([0.0, 1.0])
    assert table_of(moves, 1.0, (1.0, 1.0), cells, True) == [math.inf, 0, math.inf, math.inf]
    assert table_of(moves, NAN, (NAN, NAN), cells, True) == [2, 2, 2, 0]


def test_matrices_price_each_pair() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        codes = [float(code) for code in range(6)]
        costs = {
            (start, end): int(rng.integers(0, 9)) for start, end in itertools.permutations(codes, 2) if rng.integers(2)
        }
        costs[0.0, 1.0] = 1
        moves = ColumnMoves(EVERYWHERE, ANY, Fraction(1), costs=costs)
        low, high = sorted(rng.integers(0, 6, 2).tolist())
        x = float(rng.integers(low, high + 1))
        cells = cells_of([0.0, 2.0, 3.0])
        prices = {pair: Fraction(cost) for pair, cost in costs.items()}
        starts = [code for code in codes if low <= code <= high]
        check_cells(moves, x, starts, cells, partial(least, prices))
        assert moves.price(x, 0.0, 1.0) == 1 and moves.price(x, 0.0, 6.0) is None


# Rules


def chains_from(moves: ColumnMoves, start: float) -> list[tuple[int, Fraction, Fraction]]:
    """The cost and the values of every sequence of rules that the budget allows, one rule after the other."""
    low, high = printed(moves.domain[0]), printed(moves.domain[1])
    found = [(0, printed(start), printed(start))]
    for cost, first, last in found:
        for rule in moves.rules:
            if cost + rule.cost > moves.budget:
                continue
            if rule.to is not None:
                if any(first <= Fraction(code) <= last for code in rule.codes):
                    found.append((cost + rule.cost, Fraction(rule.to), Fraction(rule.to)))
                continue
            begin = first if rule.low is None else max(first, rule.low)
            end = last if rule.high is None else min(last, rule.high)
            if begin <= end:
                begin, end = max(begin + rule.change[0], low), min(end + rule.change[1], high)
                if begin <= end:
                    found.append((cost + rule.cost, begin, end))
    return found


def random_rules(rng: np.random.Generator) -> tuple[BoundRule, ...]:
    rules = []
    for _ in range(rng.integers(1, 4)):
        low, high = sorted(Fraction(int(n), 10) for n in rng.integers(-40, 60, 2))
        change = sorted(Fraction(int(n), int(rng.choice([1, 10, 100, 8]))) for n in rng.integers(-30, 31, 2))
        if rng.integers(2):
            change[1] = change[0]
        rules.append(
            BoundRule(
                int(rng.integers(1, 4)),
                None if rng.integers(4) == 0 else low,
                None if rng.integers(4) == 0 else high,
                (change[0], change[1]),
            )
        )
    return tuple(rules)


def check_rules_case(rng: np.random.Generator) -> None:
    domain = (-7.0, 8.1) if rng.integers(2) else (-1e6, 1e6)
    moves = ColumnMoves(domain, rules=random_rules(rng), budget=int(rng.integers(1, 7)))
    x = float(rng.integers(-60, 80)) / 10 if rng.integers(3) else float(rng.uniform(-6, 8))
    box = (x, x) if rng.integers(2) else (ulps(x, -int(rng.integers(0, 6))), ulps(x, int(rng.integers(0, 6))))
    starts = doubles(*box)
    chains = {start: chains_from(moves, start) for start in starts}

    def cheapest(among: list[float], first: float, last: float) -> Fraction | None:
        found = [chain for start in among for chain in chains[start]]
        costs = [Fraction(cost) for cost, begin, end in found if float(begin) <= last and float(end) >= first]
        return min(costs, default=None)

    ends = [float(end) for found in chains.values() for _, first, last in found for end in (first, last)]
    cuts = [ulps(float(rng.choice(ends)), int(rng.integers(-3, 3))) for _ in range(12)]
    cells = cells_of([*cuts, *rng.uniform(-7, 8, 4).tolist()])
    check_cells(moves, x, starts, cells, cheapest)
    for end in [*cuts, *rng.choice(ends, 5).tolist()]:
        assert moves.price(x, x, float(end)) == cheapest([x], end, end)


def test_prices_of_rules_are_those_of_simulated_chains() -> None:
    for seed in range(15):
        check_rules_case(np.random.default_rng(seed))


@pytest.mark.long
@pytest.mark.slow
def test_prices_of_rules_in_hundreds_of_cases() -> None:
    for seed in range(100, 160):
        check_rules_case(np.random.default_rng(seed))


def points_from(moves: ColumnMoves, x: float, start: float) -> dict[float, int]:
    """What chains of rules from point to point of the row's grid lead to, by their least cost, one after the other."""
    low, high = moves.domain
    points = [(printed(x) + k * moves.step, point) for k, point in grid_around(x, moves.step)]
    queue = [(0, number) for number, point in points if point == start]
    cheapest: dict[Fraction, int] = {}
    while queue:
        cost, number = heapq.heappop(queue)
        if number in cheapest or cost > moves.budget:
            continue
        cheapest[number] = cost
        for rule in moves.rules:
            point = float(number)
            if (rule.low is None or point >= float(rule.low)) and (rule.high is None or point <= float(rule.high)):
                for end, there in points:
                    if rule.change[0] <= end - number <= rule.change[1] and low <= there <= high:
                        heapq.heappush(queue, (cost + rule.cost, end))
    found: dict[float, int] = {}
    for number, point in points:
        if number in cheapest:
            found[point] = min(cheapest[number], found.get(point, cheapest[number]))
    return found


def check_rules_on_grid(rng: np.random.Generator) -> None:
    step = [Fraction(1, 2), Fraction(1), Fraction(7, 10), Fraction(3, 2)][rng.integers(4)]
    moves = ColumnMoves((-7.0, 8.1), step=step, rules=random_rules(rng), budget=int(rng.integers(1, 7)))
    x = float(rng.integers(-60, 80)) / 10 if rng.integers(3) else float(rng.uniform(-6, 8))
    near = grid_around(x, step)[WINDOW - int(rng.integers(3)) : WINDOW + 1 + int(rng.integers(3))]
    starts = [point for _, point in near if -7 <= point <= 8.1]
    prices: Oracle = {
        (start, end): Fraction(cost) for start in starts for end, cost in points_from(moves, x, start).items()
    }
    cuts = [ulps(float(rng.choice([end for _, end in prices])), int(rng.integers(-3, 3))) for _ in range(8)]
    check_cells(moves, x, starts, cells_of([*cuts, *rng.uniform(-7, 8, 4).tolist()]), partial(least, prices))
    for start, end in itertools.product(starts, [*cuts, *(point for _, point in grid_around(x, step))]):
        assert start == end or moves.price(x, start, end) == prices.get((start, end))
    first, last = moves.reached(x, starts[0])
    for end in {end for _, end in prices}:
        assert ((first <= end) & (end <= last)).any() == ((starts[0], end) in prices)


def test_prices_of_rules_on_a_grid_are_those_of_simulated_chains() -> None:
    for seed in range(4):
        check_rules_on_grid(np.random.default_rng(seed))


@pytest.mark.long
@pytest.mark.slow
def test_prices_of_rules_on_a_grid_in_hundreds_of_cases() -> None:
    for seed in range(100, 300):
        check_rules_on_grid(np.random.default_rng(seed))


def test_tables_of_rules_on_a_grid_are_those_of_single_rows() -> None:
    rules = (
        BoundRule(1, None, Fraction(5), (Fraction(1, 10), Fraction(3, 10))),
        BoundRule(2, change=(Fraction(-1),) * 2),
    )
    moves = ColumnMoves((0.0, 9.0), step=Fraction(1, 10), rules=rules, budget=9)
    X = np.array([1.0, 1.1, 1.1, 1.15, 4.95, 1.0])
    low, high = X - np.array([0, 0.1, 0, 0.1, 0, 0]), X
    cells = cells_of([0.05, 0.9, 1.3, 1.7, 5.0, 5.2])
    each = [table_of(moves, x, box, cells) for x, *box in zip(X.tolist(), low.tolist(), high.tolist(), strict=True)]
    assert moves.table(X, low, high, *cells, False).tolist() == each


def test_doubles_that_are_many_points_start_and_end_chains_at_all_of_them() -> None:
    # 1.0 is all points from 0.56e-16 below 1 to 1.11e-16 above it, and the next double ends 3.33e-16 above it.
    step = Fraction(1, 10**20)
    for size, price in ((Fraction(6, 10**17), 1), (Fraction(4, 10**16), None)):
        rules = (BoundRule(1, high=Fraction(1), change=(size, size)),)
        moves = ColumnMoves((0.0, 9.0), step=step, rules=rules, budget=1)
        assert moves.price(1.0, 1.0, ulps(1.0, 1)) == price
    large = (BoundRule(1, None, None, (Fraction(10**25), Fraction(10**25))),)
    assert ColumnMoves((0.0, 1e30), step=Fraction(1), rules=large, budget=3).price(0.0, 0.0, 3e25) == 3


def test_rules_of_categories_chain() -> None:
    rules = (
        BoundRule(2, codes=(0.0, 1.0), to=2.0),
        BoundRule(1, codes=(2.0,), to=3.0),
        BoundRule(5, codes=(0.0,), to=3.0),
    )
    moves = ColumnMoves(EVERYWHERE, ends=(0.0, 1.0, 2.0, 3.0), rules=rules, blank=1)
    cells = cells_of([0.0, 1.0, 2.0])
    assert table_of(moves, 0.0, (0.0, 0.0), cells, True) == [0, math.inf, 2, 3, 1]
    assert table_of(moves, 3.0, (3.0, 3.0), cells, True) == [math.inf, math.inf, math.inf, 0, 1]
    assert moves.price(0.0, 0.0, 3.0) == 3 and moves.price(3.0, 3.0, 0.0) is None
    assert table_of(moves, NAN, (NAN, NAN), cells, True) == [math.inf] * 4 + [0]


def test_rules_are_applied_while_they_fit_and_values_stay_in_the_domain() -> None:
    more = BoundRule(1, Fraction(0), Fraction(40), (Fraction(0), Fraction(5)))
    moves = ColumnMoves((0.0, 43.0), rules=(more,))
    cells = cells_of([30.0, 35.0, 40.0, 43.0, 45.0])
    assert table_of(moves, 32.0, (32.0, 32.0), cells) == [math.inf, 0, 1, 2, math.inf, math.inf]
    assert table_of(moves, 41.0, (41.0, 41.0), cells) == [math.inf, math.inf, math.inf, 0, math.inf, math.inf]


def test_chains_without_end_are_refused() -> None:
    moves = ColumnMoves(EVERYWHERE, rules=(BoundRule(1, None, None, (Fraction(1), Fraction(1))),))
    with pytest.raises(InvalidInput, match="give the attacker a domain, fewer rules, or a budget"):
        moves.price(0.0, 0.0, 0.5)


# Missing values


def test_blanks_and_filled_values_do_not_chain() -> None:
    moves = ColumnMoves((0.0, 10.0), (-2.0, 2.0), Fraction(2), cost=1, blank=3, fill=5)
    cells = cells_of([-1.0, 0.5, 1.5, 2.5])
    assert table_of(moves, 1.0, (1.0, 1.0), cells, True) == [math.inf, math.inf, 0, math.inf, 1, 3]
    # A missing value is filled with even numbers, the points of k·step, whatever the other rows hold.
    assert table_of(moves, NAN, (NAN, NAN), cells, True) == [math.inf, 5, math.inf, 5, 5, 0]
    assert moves.price(1.0, 1.0, NAN) == 3 and moves.price(NAN, NAN, NAN) == 0
    assert moves.price(NAN, NAN, 4.0) == 5
    assert moves.price(NAN, NAN, 3.0) is None and moves.price(NAN, NAN, 12.0) is None
    only = ColumnMoves(EVERYWHERE, blank=0)
    assert table_of(only, 1.0, (1.0, 1.0), cells, True) == [math.inf, math.inf, 0, math.inf, math.inf, 0]
    assert only.price(NAN, NAN, 1.0) is None


def test_moves_from_and_to_missing_values() -> None:
    moves = ColumnMoves((0.0, 10.0), (-2.0, 2.0), Fraction(2), blank=3, fill=5)
    X, low, high = np.array([NAN, 1.0, 1.0, NAN]), np.array([NAN, 1.0, 1.0, NAN]), np.array([NAN, 5.0, 1.0, NAN])
    first, last = np.array([2.5, NAN, 2.5, NAN]), np.array([10.0, NAN, 9.0, NAN])
    z, w = moves.move(X, low, high, first, last)
    assert np.array_equal(z, [NAN, 1.0, 1.0, NAN], equal_nan=True)
    assert np.array_equal(w, [4.0, NAN, 3.0, NAN], equal_nan=True)


def test_neighbours_without_a_grid_point_start_nothing() -> None:
    moves = ColumnMoves(EVERYWHERE, (-2.0, 2.0), Fraction(1), blank=1)
    assert table_of(moves, 1.0, (1.25, 1.75), cells_of([1.5]), True) == [math.inf] * 3


# Values that stand for each other


@pytest.mark.parametrize(
    "way",
    [
        {},
        {"interval": EVERYWHERE, "ends": (0.0, 3.0, 4.0), "cost": 2},
        {"interval": EVERYWHERE, "costs": {(0.0, 1.0): 3, (2.0, 1.0): 1, (4.0, 5.0): 1, (5.0, 0.0): 2}},
        {"rules": (BoundRule(1, codes=(0.0, 2.0), to=3.0), BoundRule(2, codes=(3.0,), to=5.0)), "ends": (3.0, 5.0)},
    ],
    ids=["nothing", "ends", "matrix", "rules"],
)
def test_prices_are_the_least_from_any_value_that_stands_for_ones_own(way: dict[str, Any]) -> None:
    moves = ColumnMoves((0.0, 5.0), alike=((0.0, 2.0, 4.0), (1.0, 5.0)), blank=7, **way)
    cells = cells_of([0.0, 1.0, 3.0, 4.0])
    starts = {0.0: (0.0, 2.0, 4.0), 1.0: (1.0, 5.0), 3.0: (3.0,)}
    for x, own in starts.items():
        low, high = moves.neighbours(np.array([x]), math.inf)
        assert (low.tolist(), high.tolist()) == ([own[0]], [own[-1]])
        assert [one.tolist() for one in moves.neighbours(np.array([x]), 0.0)] == [[x], [x]]
        each = [table_of(moves, start, (start, start), cells, True) for start in own]
        prices = table_of(moves, x, (own[0], own[-1]), cells, True)
        assert prices == np.min(each, axis=0).tolist()
        for first, last, price in zip(*(ends.tolist() for ends in cells), prices, strict=False):
            if price < math.inf:
                z, w = moves.move(*(np.array([one]) for one in (x, own[0], own[-1], first, last)))
                assert z[0] in own and first <= w[0] <= last
                assert moves.price(x, float(z[0]), float(w[0])) == price


def test_a_missing_value_stands_for_nothing() -> None:
    moves = ColumnMoves((0.0, 5.0), alike=((0.0, 2.0),))
    low, high = moves.neighbours(np.array([NAN, 2.0, 3.0]), math.inf)
    assert np.array_equal(low, [NAN, 0.0, 3.0], equal_nan=True) and np.array_equal(high, [NAN, 2, 3], equal_nan=True)
    ends = moves.points_between(np.array([0.0, 0.0]), np.array([0.5, 0.5]), np.array([1.5, 5.0]))
    assert (ends[0] <= ends[1]).tolist() == [False, True] and ends[0][1] == 2.0
