"""Attackers on groups of one-hot columns: what they can do to valid rows is what they can do to the columns."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.columns import with_columns
from treeproof.check.objects import Reach
from treeproof.errors import InvalidInput
from treeproof.model.builder import blank_ensemble
from treeproof.model.groups import Group, Grouped, group_columns
from treeproof.threat.one_hot import ValidAround, bind_grouped, bind_neighbours, bind_valid, bind_valid_epsilon
from treeproof.threat.relations import bind_relations
from treeproof.threat.threat import Threat

NAMES = ["amount", "p_car", "h_rent", "p_radio", "h_own", "p_other"]
PURPOSE, HOUSING = Group((1, 3, 5), "purpose"), Group((2, 4), "housing", exactly=False)
PURPOSES, HOUSINGS = np.eye(3), np.vstack((np.eye(2), np.zeros(2)))
BROKEN = np.array([[5.0, 1, 0, 1, 0, 0], [5.0, 0.5, 1, 0, 1, 0]])


def model(names: list[str] | None = NAMES) -> tp.Ensemble:
    return blank_ensemble(len(NAMES), ["a"], names)


def grouped(names: list[str] | None = NAMES) -> Grouped:
    return group_columns(model(names), [PURPOSE, HOUSING], BROKEN)


def rows() -> np.ndarray:
    """All valid rows with one of three amounts."""
    found = []
    for amount, purpose, housing in itertools.product((5.0, 5.5, 8.0), PURPOSES, HOUSINGS):
        row = np.zeros(6)
        row[0], row[[1, 3, 5]], row[[2, 4]] = amount, purpose, housing
        found.append(row)
    return np.array(found)


def grouped_price(threat: Threat, start: np.ndarray, end: np.ndarray) -> Fraction | None:
    """What a move costs an attacker that is bound to groups, read off its arrays column by column."""
    prices: dict[int, Fraction] = {}
    for f, (a, b) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if a == b:
            continue
        moves = dict(threat.columns).get(f)
        ends = dict(threat.ends).get(f)
        if moves is not None:
            price = moves.price(a, a, b)
            if price is None:
                return None
        elif not threat.low[f] <= b - a <= threat.high[f] or (ends is not None and b not in ends):
            return None
        elif threat.power is None:
            price = Fraction(int(threat.cost[f]))
        else:
            price = abs(Fraction(b) - Fraction(a)) ** threat.power
        prices[f] = price
    shared = zip(threat.groups, threat.group_budgets, strict=True)
    if any(sum(prices.get(f, 0) for f in features) > budget for features, budget in shared):
        return None
    total = sum(prices.values(), Fraction(0))
    return total if total <= threat.limit else None


def own_price(given: dict[str, Any], start: np.ndarray, end: np.ndarray) -> Fraction | None:
    """What a move costs by the description of the attacker on the user's columns: (low, high, cost) by name."""
    total = Fraction(0)
    for name, a, b in zip(NAMES, start.tolist(), end.tolist(), strict=True):
        low, high, cost = given.get(name, (0, 0, 0))
        if a != b and not low <= b - a <= high:
            return None
        total += cost if a != b else 0
    return total if total <= given["budget"] else None


CASES: dict[str, dict[str, Any]] = {
    "both ways": {"p_car": (-1, 1, 1), "p_radio": (-1, 1, 1), "p_other": (-1, 1, 1), "amount": (0, 1, 1), "budget": 3},
    "costs differ": {"p_car": (-1, 1, 1), "p_radio": (-1, 1, 5), "h_own": (-1, 2, 3), "budget": 9},
    "one way": {"p_car": (-1, 0, 1), "p_radio": (0, 1, 2), "h_own": (-9, 0, 1), "h_rent": (0, 1, 1), "budget": 6},
    "too short": {"p_car": (-0.9, 0.9, 1), "p_radio": (-1, 1, 1), "amount": (0, 3, 1), "budget": 3},
    "too dear": {"p_car": (-1, 1, 2), "p_radio": (-1, 1, 2), "amount": (-3, 3, 0), "budget": 3},
    "half a value": {"p_car": (-0.5, 0.5, 1), "p_radio": (-1, 0, 1), "budget": 3},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("by_position", [False, True])
def test_moves_of_members_are_those_of_the_users_columns(name: str, by_position: bool) -> None:
    case = CASES[name]
    moves = {NAMES.index(key) if by_position else key: value for key, value in case.items() if key != "budget"}
    attacker = tp.Attacker(
        {key: value[:2] for key, value in moves.items()},
        costs={key: value[2] for key, value in moves.items()},
        budget=case["budget"],
    )
    groups = grouped(None if by_position else NAMES)
    threat = bind_grouped(attacker, groups)
    possible = 0
    for start in (*rows(), *BROKEN):
        for end in rows():
            price = own_price(case, start, end)
            assert grouped_price(threat, *groups.rows(np.array([start, end]))) == price
            possible += price is not None
    assert possible > len(rows())


MEMBERS = ("p_car", "p_radio", "p_other", "h_rent", "h_own")
SPECIAL = {
    "steps": tp.Attacker({"p_car": tp.steps(-1, 1, 1), "p_other": tp.steps(0, 1, "0.5"), "h_own": (-1, 1)}, budget=4),
    "one step for all": tp.Attacker.l0(3, step="0.5"),
    "a step that misses": tp.Attacker.l0(4, step="0.3"),
    "some values": tp.Attacker({"p_car": tp.values(0), "p_radio": tp.values(0.5, 1), "p_other": tp.values(1, 0)}),
    "a matrix": tp.Attacker({}, costs={"p_car": {(1, 0): 3, (1, 0.5): 1}, "p_radio": {(0, 1): 4}}, budget=9),
    "rules": tp.Attacker.rules(
        [
            tp.Rule("p_car", when=(0.4, 1), change=-0.5, cost=2),
            tp.Rule("p_radio", when=(0, 0.5), change=(0.3, 0.6), cost=1),
            tp.Rule("h_own", change=1, cost=1),
        ],
        budget=9,
    ),
    "missing members": tp.Attacker(dict.fromkeys(MEMBERS, (-1, 1)), fill={"p_car": 2, "h_own": 3}, budget=7),
    "shared budgets": tp.Attacker.l0(
        9, groups={"a": MEMBERS[:3], "b": ["amount", *MEMBERS[3:]]}, budgets={"a": 1, "b": 2}
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_prices_are_those_of_the_definition(name: str) -> None:
    attacker = SPECIAL[name]
    own = with_columns(model(), missing=True)
    blank = np.array([[5.0, np.nan, 1, 0, 0, 0], [5.0, 0, np.nan, 1, np.nan, 0], [5.0, 1, 0.5, 1, np.nan, 0]])
    starts = np.vstack((rows()[:9], BROKEN, blank))
    groups = group_columns(own, [PURPOSE, HOUSING], starts)
    threat, reach = bind_grouped(attacker, groups), Reach(own, attacker)
    possible = 0
    for start in starts:
        for end in rows():
            ends = zip(reach.columns, start.tolist(), end.tolist(), strict=True)
            prices = [column.price(a, a, b) for column, a, b in ends]
            paid = [price for price in prices if price is not None]
            expected = None
            if len(paid) == len(prices) and reach.plain.can_pay(dict(enumerate(paid))):
                expected = sum(paid, Fraction(0))
            assert grouped_price(threat, *groups.rows(np.array([start, end]))) == expected
            possible += expected is not None and not np.array_equal(start, end)
    assert possible or name == "a step that misses"


@pytest.mark.parametrize("power", [1, 2])
def test_distances_go_over_both_columns(power: int) -> None:
    units = {"p_car": 2.0, "amount": 3.0}
    groups = grouped()
    threat = bind_grouped(tp.Attacker.lp(power, 1.3, scale=units), groups)
    reached = 0
    for start, end in itertools.product((*rows(), *BROKEN), rows()):
        distance = sum(
            (abs(Fraction(b) - Fraction(a)) / Fraction(units.get(name, 1.0))) ** power
            for name, a, b in zip(NAMES, start.tolist(), end.tolist(), strict=True)
        )
        if start[0] != end[0]:  # distances of numbers are those of any attacker
            continue
        inside = distance <= Fraction(1.3) ** power
        assert grouped_price(threat, *groups.rows(np.array([start, end]))) == (distance if inside else None)
        reached += inside and bool((start != end).any())
    assert reached


def test_distances_over_two_columns_are_never_rounded_up() -> None:
    groups = grouped()
    threat = bind_grouped(tp.Attacker.lp(2, 9.0, scale=dict.fromkeys(NAMES[1:], 0.3)), groups)
    codes = np.arange(len(groups.vectors[0]), dtype=float)
    moves = dict(threat.columns)[1]
    exact = Fraction(1) / Fraction(0.3) ** 2
    assert moves.price(0.0, 0.0, 1.0) == 2 * exact
    table = moves.table(codes, codes, codes, codes[:3], codes[:3], False)
    for start in codes.tolist():
        prices = moves.exact_prices(start, (start, start), codes[:3], codes[:3])
        assert prices[:3] == [moves.price(start, start, end) for end in codes[:3].tolist()]
        assert [
            Fraction(price) <= paid for price, paid in zip(table[int(start)].tolist(), prices[:3], strict=True)
        ] == [True] * 3
    # A cell of several codes costs what the cheapest does; the broken row 0.5, 0, 0 is nearest to p_car.
    assert moves.exact_prices(4.0, (4.0, 4.0), codes[:1], codes[2:3])[:1] == [exact / 4]
    assert Fraction(float(2 * exact)) > 2 * exact or Fraction(float(exact)) > exact


def test_an_attacker_of_all_columns_pays_for_both() -> None:
    threat = bind_grouped(tp.Attacker.l0(2), group_columns(model(), [PURPOSE, HOUSING]))
    assert dict(threat.ends)[1].tolist() == [0, 1, 2] and threat.cost.tolist() == [1, 2, 1]
    ((place, moves),) = threat.columns
    assert place == 2 and moves.costs == {(0, 1): 2, (1, 0): 2, (0, 2): 1, (1, 2): 1, (2, 0): 1, (2, 1): 1}
    listed = bind_grouped(tp.Attacker([(-np.inf, np.inf)] * 6, budget=2), group_columns(model(), [PURPOSE, HOUSING]))
    assert listed.equals(threat)


def test_an_attacker_of_a_group_by_its_name() -> None:
    groups = grouped()
    threat = bind_grouped(tp.Attacker({"purpose": tp.ANY, "amount": (0, 5)}, costs={"purpose": 2}, budget=2), groups)
    ((place, ends),) = threat.ends
    assert place == 1 and ends.tolist() == [0, 1, 2]
    assert threat.cost.tolist() == [1, 2, 0] and threat.high.tolist() == [5, np.inf, 0]
    # Codes of broken rows are inside the domain, but no ends.
    assert threat.domain_high[1] == 4 and not threat.columns


def test_an_attacker_that_cannot_set_a_member() -> None:
    threat = bind_grouped(tp.Attacker.linf(0.5), group_columns(model(), [PURPOSE, HOUSING]))
    assert threat.movable.tolist() == [True, False, False] and not threat.columns


@pytest.mark.parametrize(
    ("attacker", "words"),
    [
        (tp.Attacker({"purpose": tp.ANY, "p_car": (-1, 1)}), "column 'p_car' belongs to the group 'purpose'"),
        (tp.Attacker({"purpose": tp.ANY}, costs={"p_car": 2, "purpose": 1}), "column 'p_car' belongs to the group"),
        (tp.Attacker({"purpose": (-1, 1)}), "column 'purpose' is a category, and nothing is a distance there"),
        (tp.Attacker({"purpos": (-1, 1)}), "the model has no feature 'purpos'"),
        (tp.Attacker({6: (-1, 1)}), "feature 6 is out of range; the model has features 0 to 5"),
        (
            tp.Attacker.l0(1, domain=(0, 0.5)),
            r"column 'p_car' of the group 'purpose' is 0 or 1, and the domain \(0, 0.5\)",
        ),
    ],
)
def test_attackers_that_make_no_sense_are_refused(attacker: tp.Attacker, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        bind_grouped(attacker, grouped())


RELATIONS = [
    tp.one_of("p_car", "p_radio", "p_other", name="purpose"),
    tp.at_most_one("h_rent", "h_own", name="housing"),
]


def bound_epsilon(epsilon: Any) -> ValidAround:
    return bind_valid_epsilon(epsilon, model(), bind_relations(RELATIONS, model()))


def test_neighbours_share_the_values_of_groups() -> None:
    for epsilon in (0.5, [0.5] * 6, {"amount": 0.5, "p_car": 0.9}):
        assert bound_epsilon(epsilon).sizes.tolist() == [0.5, 0, 0, 0, 0, 0]
    assert bound_epsilon({"amount": 7}).sizes.tolist() == [7, 0, 0, 0, 0, 0]
    for epsilon in (1, {"p_car": 1.5}):
        with pytest.raises(InvalidInput, match="column 'p_car', but neighbours share the value of the group 'purpose'"):
            bound_epsilon(epsilon)


def test_neighbours_have_the_values_of_a_group_that_epsilon_names() -> None:
    around = bound_epsilon({"amount": 7, "housing": tp.ANY, "purpose": tp.values("p_other", "p_car")})
    assert around.groups == ((PURPOSE, ((0, 2),)), (HOUSING, ((0, 1, 2),))) and around.alike == ()
    threat, _ = bind_neighbours([around.given], model(), bind_valid(tp.Attacker.l0(1), model(), RELATIONS))
    low, high = threat.neighbourhood(np.array([[5.0, 1, 1, 0, 0, 0], [5.0, 0, 1, 1, 1, 0]]), around.sizes)
    assert low.tolist() == [[-2, 0, 0, 0, 0, 0], [-2, 0, 1, 1, 1, 0]]
    # p_radio is in no set, and a row with two housings has none.
    assert high.tolist() == [[12, 1, 1, 0, 1, 1], [12, 0, 1, 1, 1, 0]]
    assert [ends.tolist() for ends in threat.neighbourhood(rows(), np.zeros(6))] == [rows().tolist()] * 2


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        ({"purpose": 1}, "column 'purpose' is a category, and nothing is a distance there"),
        ({"purpose": tp.ANY, "p_car": 0.5}, "column 'p_car' belongs to the group 'purpose', which is named too"),
        ({"purpose": tp.values("p_bus")}, "column 'purpose': the model does not know the value 'p_bus'"),
        ({6: tp.ANY}, "feature 6 is out of range"),
        ({"amount": tp.values(1, 2)}, "column 'amount' holds numbers, so ε is a distance there"),
    ],
)
def test_neighbours_that_make_no_sense_are_refused(epsilon: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        bound_epsilon(epsilon)
