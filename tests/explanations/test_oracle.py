"""The oracle of explanations itself: cases that can be checked by hand, and the duality of reasons and contrasts."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from tests.support.explained import Explained, Made, drop_order, hitting_sets, least_cost
from tests.support.fast_oracle import TooManyPairs
from tests.support.made_rows import AllPairs, Anybody, Labels, plain_flips, plain_resilient, plain_rows
from tests.support.oracles import OracleAttacker
from tests.support.random_blocks import block
from tests.support.relation_questions import question
from tests.support.stated_relations import OneHot, Sums
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces

ANY = (-math.inf, math.inf)


def stumps(*tests: tuple[int, float], n_features: int = 3, needed: int | None = None) -> Ensemble:
    """Label 1 where at least `needed` of the columns (all of them, by default) are above their thresholds."""
    needed = len(tests) if needed is None else needed
    names = list("abc")[:n_features]
    # Class 0 has needed - 0.5 votes, class 1 one for each column.
    builder = EnsembleBuilder(n_features=n_features, classes=[0, 1], base=[needed - 0.5, 0.0], feature_names=names)
    for f, cut in tests:
        builder.add_tree(
            feature=[f, LEAF, LEAF], threshold=[cut, 0.0, 0.0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
            scores=[[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]], nan_left=[True, True, True],
        )  # fmt: skip
    return builder.build()


def colours() -> Ensemble:
    """Label "yes" for green and blue, and for red above 0.5."""
    builder = EnsembleBuilder(
        n_features=2, classes=["no", "yes"], feature_names=["colour", "b"],
        categories={0: Category(("red", "green", "blue", "grey"))},
    )  # fmt: skip
    is_grey, is_red = (Pieces.of_codes([code in left for code in range(4)]) for left in ((3,), (0,)))
    builder.add_tree(
        feature=[0, LEAF, 0, 1, LEAF, LEAF, LEAF], threshold=[0.5, 0, 0.5, 0.5, 0, 0, 0],
        left=[1, LEAF, 3, 4, LEAF, LEAF, LEAF], right=[2, LEAF, 6, 5, LEAF, LEAF, LEAF],
        scores=[[1, 0], [1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1]], nan_left=[False] * 7,
        pieces={0: is_grey, 2: is_red},
    )  # fmt: skip
    return builder.build()


def test_two_of_three_columns_are_a_reason_and_any_two_flip() -> None:
    votes = Anybody(stumps((0, 0.5), (1, 1.5), (2, 2.5), needed=2), (1.0, 2.0, 3.0), {})
    pairs = {frozenset(pair) for pair in ((0, 1), (0, 2), (1, 2))}
    assert votes.label == 1
    assert votes.explained.reasons == votes.explained.contrastive_sets == pairs
    assert votes.explained.smallest == votes.explained.fewest_changes == 2
    assert votes.explained.reason([0, 1, 2]) == {1, 2}
    assert votes.explained.reason([2, 1, 0]) == {0, 1}


def test_a_domain_may_leave_no_need_for_any_column() -> None:
    model = stumps((0, 0.5), n_features=1)
    assert Anybody(model, (1.0,), {0: (0.6, 2.0)}).explained.reasons == {frozenset()}
    assert Anybody(model, (1.0,), {0: (0.5, 2.0)}).explained.reasons == {frozenset({0})}


def test_columns_with_few_tests_are_dropped_first_and_wanted_ones_last() -> None:
    model = stumps((0, 0.5), (0, 0.7), (1, 1.5))
    units = [(0,), (1,), (2,)]
    assert drop_order(model, units) == [2, 1, 0]
    assert drop_order(model, units, wanted=[2, 1]) == [0, 1, 2]
    assert drop_order(stumps((1, 0.5)), units) == [2, 0, 1]


def test_ranges_end_at_the_double_beside_the_threshold() -> None:
    model = stumps((0, 0.1), (1, 1.5))
    found = Anybody(model, (1.0, 2.0, 0.0), {0: (-5.0, 5.0)})
    ranges = found.inflation.ranges(frozenset({0, 1}))
    assert min(ranges[0]) == (math.nextafter(0.1, 1),)
    assert max(ranges[0]) == (5.0,)
    assert min(ranges[1]) == (math.nextafter(1.5, 2),)


def test_the_first_column_is_widened_at_the_cost_of_the_second() -> None:
    """Two of three votes, all of them there: the first two may not both go, but neither is needed while c is kept."""
    found = Anybody(stumps((0, 0.5), (1, 1.5), (2, 2.5), needed=2), (1.0, 2.0, 3.0), {0: (0, 9), 1: (0, 9), 2: (0, 9)})
    ranges = found.inflation.ranges(frozenset({0, 1, 2}))
    assert [min(ranges[unit])[0] for unit in range(3)] == [0.0, math.nextafter(1.5, 2), math.nextafter(2.5, 3)]


def test_values_are_added_in_their_order() -> None:
    found = Anybody(colours(), (1.0, 0.7), {})
    assert found.explained.reasons == {frozenset({0})}
    assert [value for (value,) in found.inflation.ranges(frozenset({0}))[0]] == [1.0, 2.0]
    red = Anybody(colours(), (0.0, 0.7), {})
    assert red.explained.reasons == {frozenset({0, 1})}
    ranges = red.inflation.ranges(frozenset({0, 1}))
    assert [value for (value,) in ranges[0]] == [0.0, 1.0, 2.0]
    assert min(ranges[1]) == (math.nextafter(0.5, 1),)


def test_a_relation_leaves_less_that_can_change() -> None:
    model, x = stumps((0, 1.0), (1, 1.0), n_features=2), (2.0, 3.0)
    below = Sums(((1, "a"), (-1, "b")), "<=", "0")
    assert Anybody(model, x, {}).explained.reasons == {frozenset({0, 1})}
    assert Anybody(model, x, {}, relations=[below]).explained.reasons == {frozenset({0})}


def test_a_group_is_one_unit() -> None:
    group = OneHot(("a", "b"), True, "kind")
    found = Anybody(stumps((1, 0.5)), (0.0, 1.0, 0.0), {}, relations=[group])
    assert found.units == ((0, 1), (2,))
    assert found.explained.reasons == {frozenset({0})}
    assert found.inflation.ranges(frozenset({0})) == {0: [(0.0, 1.0)]}


def test_the_cheapest_row_and_the_next_that_does_something_else() -> None:
    model = stumps((0, 0.5), (1, 1.5), (2, 2.5), needed=2)
    attacker = OracleAttacker((ANY,) * 3, (1, 2, 4))
    found = plain_rows(model, attacker, (0.0, 0.0, 0.0), Labels(model))
    assert found.cheapest([1]) == 3
    assert found.cheapest([1], [frozenset({0, 1})]) == 5
    assert found.cheapest([1], [frozenset({0, 1}), frozenset({0, 2})]) == 6
    assert found.cheapest([1], [frozenset({0}), frozenset({1})]) == math.inf
    assert found.cheapest([0]) == 0


def test_resilience_costs_epsilon_more() -> None:
    model = stumps((0, 0.5), n_features=1)
    attacker = OracleAttacker((ANY,), (1,), p=1, radius=math.inf)
    rows = plain_resilient(model, attacker, (0.0,), (0.25,), Labels(model))
    first = min((made for made, labels in rows if labels == [1]), key=lambda made: made.price)
    assert first.row == (0.75,) or first.row == (math.nextafter(0.75, 1),)
    assert Fraction(first.row[0]) - Fraction(1, 4) > Fraction(0.5)
    narrow = OracleAttacker((ANY,), (1,), p=1, radius=math.inf, domain=((0.0, 0.5),))
    assert {tuple(labels) for _, labels in plain_resilient(model, narrow, (0.0,), (0.25,), Labels(model))} == {(0,)}


def test_what_to_protect() -> None:
    flips = [(True, [frozenset({0})]), (True, [frozenset({1}), frozenset({0, 2})]), (False, []), (True, [])]
    assert least_cost(flips, [1, 1, 1], Fraction(1, 4)) == (0, frozenset())
    assert least_cost(flips, [1, 1, 1], Fraction(1, 2)) == (1, frozenset({0}))
    assert least_cost(flips, [9, 1, 1], Fraction(1, 2)) == (2, frozenset({1, 2}))
    assert least_cost(flips, [1, 1, 1], Fraction(3, 4)) == (2, frozenset({0, 1}))
    assert least_cost(flips, [1, 1, 1], Fraction(1)) is None


def test_a_goal_counts_only_its_labels() -> None:
    made = [Made(frozenset({0}), 1, "b"), Made(frozenset({1}), 1, "c")]
    assert Explained(2, "a", made).reasons == {frozenset({0, 1})}
    assert Explained(2, "a", made, frozenset({"c"})).reasons == {frozenset({1})}
    assert Explained(2, "c", made, frozenset({"c"})).reasons == {frozenset()}


@pytest.mark.parametrize("number", range(40))
def test_reasons_hit_all_contrastive_sets(number: int) -> None:
    asked = block(1, number)
    labels = Labels(asked.ensemble)
    for x in asked.rows[:3]:
        try:
            several = [
                Anybody(asked.ensemble, x, {}).explained,
                plain_rows(asked.ensemble, asked.attacker, x, labels),
            ]
            flips = plain_flips(asked.ensemble, asked.attacker, x, (0.0,) * len(x), labels)
        except (TooManyPairs, NotImplementedError):
            continue
        assert flips == several[1].flips
        for found in several:
            assert found.reasons == hitting_sets(found.contrastive_sets, found.n_units)
            assert found.contrastive_sets == hitting_sets(found.reasons, found.n_units)
            assert found.smallest == min(map(len, found.reasons))
            assert found.reason(range(found.n_units)) in found.reasons


@pytest.mark.parametrize("number", range(0, 60, 2))
def test_the_attacker_of_a_question_agrees_with_pairs_of_rows(number: int) -> None:
    """Robust by the older oracle, wherever both have enumerated everything: the empty set is sufficient."""
    asked = question(number)
    for x in asked.X:
        try:
            pairs = AllPairs(asked, x)
            found = pairs.explained()
        except TooManyPairs:
            continue
        attack = pairs.attack((0,) * len(pairs.slots))
        assert (attack is None) == found.is_sufficient(())
        cheapest = pairs.cheapest(within=True)
        flips = [one.price for one in found.made if found.is_flip(one.label)]
        assert cheapest == min(flips, default=None)
