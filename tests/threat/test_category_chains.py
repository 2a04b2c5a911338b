"""Chains of rules between categories, against all chains of single changes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from treeproof.numbers.patience import TimeIsUpError, until
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.rule_chains import BoundRule, RuleChains

ANYWHERE = (-math.inf, math.inf)


def chains(rules: list[BoundRule], values: list[float], budget: int | None) -> dict[tuple[float, float], float]:
    """What the cheapest chain from each value to each other one costs, one change after another."""
    price = {(start, end): 0.0 if start == end else math.inf for start in values for end in values}
    for _ in values:
        for rule in rules:
            for start in values:
                for via in rule.codes or ():
                    paid = price.get((start, via), math.inf) + rule.cost
                    if rule.to is not None and paid < price[start, rule.to]:
                        price[start, rule.to] = paid
    return {pair: paid if budget is None or paid <= budget else math.inf for pair, paid in price.items()}


def some_rules(rng: np.random.Generator, values: list[float]) -> list[BoundRule]:
    kind = rng.integers(4)
    others = [tuple(value for value in values if kind == 1 or value != end) for end in values]
    if kind <= 1:
        return [BoundRule(2, codes=codes, to=end) for codes, end in zip(others, values, strict=True) if codes]
    return [
        BoundRule(
            int(rng.integers(1, 4)),
            codes=tuple(value for value in values if rng.random() < 0.3),
            to=float(rng.choice(values)),
        )
        for _ in range(rng.integers(1, 12))
    ]


@pytest.mark.parametrize("seed", range(150))
def test_prices_and_moves_are_those_of_the_cheapest_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = sorted(map(float, rng.choice(20, rng.integers(1, 9), replace=False)))
    rules, budget = some_rules(rng, values), [None, 3, 5][int(rng.integers(3))]
    alike = (tuple(values[:2]),) if rng.random() < 0.4 and len(values) > 1 else ()
    column = ColumnMoves(ANYWHERE, rules=tuple(rules), budget=budget, alike=alike)
    price = chains(rules, values, budget)
    X = rng.choice([*values, 30.0], 12)
    cuts = np.sort(rng.choice(np.arange(-0.5, 21), 4, replace=False))
    lowest, highest = np.append(-math.inf, np.nextafter(cuts, math.inf)), np.append(cuts, math.inf)
    low = np.where(np.isin(X, alike), alike[0][0], X) if alike else X
    high = np.where(np.isin(X, alike), alike[0][1], X) if alike else X
    table = column.table(X, low, high, lowest, highest, False)
    for row, x in enumerate(X.tolist()):
        starts = alike[0] if alike and x in alike[0] else (x,)
        for cell in range(len(lowest)):
            ends = [end for end in {*values, x} if lowest[cell] <= end <= highest[cell]]
            known = [0.0 if start == end else price.get((start, end), math.inf) for start in starts for end in ends]
            assert table[row, cell] == min(known, default=math.inf)
            if 0 < table[row, cell] < math.inf:
                one = slice(row, row + 1)
                (z,), (w,) = column.move(X[one], low[one], high[one], lowest[[cell]], highest[[cell]])
                assert z in starts and w in ends and price[z, w] == table[row, cell] == column.price(x, z, w)
        first, last = column.reached(x, x)
        assert {x, *first} == {x, *(end for end in values if price.get((x, end), math.inf) < math.inf)}
        assert first.tolist() == last.tolist()


@pytest.mark.parametrize("others", [False, True])
def test_an_exchange_is_one_step_from_a_set_to_a_set(others: bool) -> None:
    n = 1000
    every = tuple(map(float, range(n)))
    rules = tuple(BoundRule(1, codes=every[:i] + every[i + 1 :] if others else every, to=every[i]) for i in range(n))
    looks: list[int] = []
    with until(lambda: bool(looks.append(1))):
        cells = np.array(every)
        column = ColumnMoves(ANYWHERE, rules=rules)
        table = column.table(cells[:5], cells[:5], cells[:5], cells, cells, False)
    assert (table == (cells != cells[:5, None])).all()
    assert len(looks) == 2 * 5, "one for the values that rows have, and one for all others"


def test_all_different_costs_take_no_more_looks_than_there_are_values() -> None:
    """Prices that were never the least to any value are not looked at."""
    n = 60
    costs = np.random.default_rng(0).permutation(10**6)[: n * n].reshape(n, n).tolist()
    every = list(map(float, range(n)))
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    rules = [BoundRule(costs[a][b], codes=(every[a],), to=every[b]) for a, b in pairs]
    looks: list[int] = []
    with until(lambda: bool(looks.append(1))):
        cells = np.array(every)
        table = ColumnMoves(ANYWHERE, rules=tuple(rules)).table(cells, cells, cells, cells, cells, False)
    least = np.array(costs, dtype=float)
    np.fill_diagonal(least, 0.0)
    for via in range(n):  # Floyd and Warshall
        least = np.minimum(least, least[:, [via]] + least[[via]])
    assert (table == least).all() and len(looks) <= 2 * n * n


def test_a_value_outside_of_the_domain_is_not_passed_through() -> None:
    rules = (BoundRule(1, codes=(0.0,), to=5.0), BoundRule(1, codes=(5.0,), to=1.0))
    assert ColumnMoves(ANYWHERE, rules=rules).price(0.0, 0.0, 1.0) == 2
    assert ColumnMoves((0.0, 4.0), rules=rules).price(0.0, 0.0, 1.0) is None


def test_chains_of_any_kind_end_when_time_is_up() -> None:
    by_little = RuleChains((BoundRule(1, change=(1, 1)),), (0.0, 1e9))  # type: ignore[arg-type]
    in_a_ring = tuple(BoundRule(1, codes=(float(i),), to=float((i + 1) % 900)) for i in range(900))
    for begin in (
        lambda: by_little.ends(Fraction(0), 0.0),
        lambda: by_little.starts(Fraction(0), 5e8, 6e8),
        lambda: ColumnMoves(ANYWHERE, rules=in_a_ring).price(0.0, 0.0, 899.0),
    ):
        looks: list[int] = []
        with pytest.raises(TimeIsUpError), until(lambda looks=looks: len(looks) > 100 or bool(looks.append(1))):
            begin()
