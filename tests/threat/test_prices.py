"""Price tables of attackers that do more to a column than move it by an interval."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.applicants import NAMES, applicants
from tests.support.prices import price_table
from treeproof.check.objects import columns_of

MODEL = applicants()
X = np.array([2.0, 12.0, 0.0, 40.0, 1.0])
NAN = math.nan
CAR, RADIO, TV, UNSEEN = 0.0, 1.0, 2.0, 3.0

ATTACKERS = {
    "steps": tp.Attacker({"income": tp.steps(-1, 2, 0.5)}, costs=2, domain={"income": (0, 3)}),
    "lp": tp.Attacker.lp(2, 1.5, features=["income"], step={"income": 0.1}, scale={"income": 0.3}),
    "values": tp.Attacker({"income": tp.values(1, 3.5), "purpose": tp.values("radio")}, costs={"purpose": 4}),
    "any": tp.Attacker({"purpose": tp.ANY, "rating": tp.ANY}, unseen=True, fill=["purpose"]),
    "matrix": tp.Attacker({"purpose": tp.ANY}, costs={"purpose": {("car", "tv"): 3, ("radio", "car"): 0}}),
    "blanks": tp.Attacker(
        {"income": (-1, 1)}, blank={"income": 2, "purpose": 1}, fill={"income": 3}, step={"income": 0.5}
    ),
    "rules": tp.Attacker.rules(
        [
            tp.Rule("income", when=(0, 3), change=(0.1, 0.25), cost=1),
            tp.Rule("income", when=(2.2, 4), change=-1.5, cost=3),
            tp.Rule("purpose", when={"car"}, to="radio", cost=2),
            tp.Rule("purpose", when={"radio"}, to="tv", cost=1),
        ],
        budget=5,
        blank={"purpose": 4},
        domain={"income": (0, 10)},
    ),
}
VALUES = {
    "income": [2.0, 0.5, 1.0, 1.5, 2.5, 2.1, 2.25, 2.2, 3.0, 3.5, 4.0, 0.7, 1.3, 2.3000000000000003, 2.3, 10.5, NAN],
    "purpose": [CAR, RADIO, TV, UNSEEN, NAN],
    "rating": [1.0, 2.0, 5.0, 3.0, NAN],
}


@pytest.mark.parametrize("name", ATTACKERS)
def test_prices_are_those_that_are_checked(name: str) -> None:
    """What engines use and what checks use share no code, and give each move the same price."""
    attacker = ATTACKERS[name]
    threat, checked = attacker.bind(MODEL), columns_of(MODEL, attacker)
    possible = 0
    for column, values in VALUES.items():
        f = NAMES.index(column)
        low, high = threat.domain_low[f], threat.domain_high[f]
        inside = [value for value in values if not (value < low or value > high)]
        for start in inside:
            for end in inside:
                price = threat.moves_of(f).price(start, start, end)
                assert price == checked[f].price(start, start, end), (column, start, end)
                possible += price is not None and price > 0
    assert possible


def prices_of(attacker: tp.Attacker, x: Any = X, epsilon: Any = 0.0) -> dict[str, dict[int, Fraction]]:
    """The prices of the cells of each column that has more than one."""
    exact = price_table(attacker.bind(MODEL), MODEL, x, epsilon).exact
    return {NAMES[f]: {cell: price for (g, cell), price in exact.items() if g == f} for f in (0, 2)}


def test_price_tables_know_every_kind_of_column() -> None:
    # Income has the cells up to -1e300, up to 2.5 and above; purpose those of cars and of all else; -1 is missing.
    assert prices_of(ATTACKERS["steps"])["income"] == {1: 0, 2: 2}
    assert prices_of(ATTACKERS["lp"])["income"][2] == 4  # 2.6 is the next point, two units of 0.3 away
    assert prices_of(ATTACKERS["values"]) == {"income": {1: 0, 2: 1}, "purpose": {0: 0, 1: 4}}
    assert prices_of(ATTACKERS["any"])["purpose"] == {0: 0, 1: 1}
    assert prices_of(ATTACKERS["matrix"])["purpose"] == {0: 0, 1: 3}
    assert prices_of(ATTACKERS["blanks"]) == {"income": {1: 0, 2: 1, -1: 2}, "purpose": {0: 0, -1: 1}}
    assert prices_of(ATTACKERS["rules"]) == {"income": {1: 0, 2: 3}, "purpose": {0: 0, 1: 2, -1: 4}}
    missing = np.where(np.arange(5) == 0, NAN, X)
    assert prices_of(ATTACKERS["blanks"], missing)["income"] == {0: 3, 1: 3, 2: 3, -1: 0}


def test_neighbours_with_a_step_are_decimals_away() -> None:
    attacker = tp.Attacker({"income": tp.steps(-1, 1, 0.1)})
    near = np.where(np.arange(5) == 0, 2.3, X)
    # As doubles, 2.3 + 0.3 is less than 2.6.
    assert prices_of(attacker, near, {"income": 0.3})["income"] == {1: 0, 2: 0}
    assert prices_of(attacker, near, {"income": 0.29})["income"] == {1: 0, 2: 1}
    low, high = attacker.bind(MODEL).neighbourhood(near[None], np.array([0.3, 0, 0, 0, 0]))
    assert (low[0, 0], high[0, 0]) == (2.0, 2.6)


def test_groups_bound_what_is_affordable() -> None:
    words: Any = {"groups": {"all of it": ["income", "purpose"]}, "budgets": {"all of it": 1}}
    attacker = tp.Attacker({"income": (0, 1), "purpose": tp.ANY}, budget=2, **words)
    prices = price_table(attacker.bind(MODEL), MODEL, X)
    assert prices.affordable([2, 0, 0, 0, 0]) and prices.affordable([1, 0, 1, 0, 0])
    assert not prices.affordable([2, 0, 1, 0, 0])
