"""Attackers on a model: every column becomes what engines and words make use of, and misfits are refused in a line."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.applicants import NAMES, applicants
from treeproof.check.objects import columns_of
from treeproof.model.builder import blank_ensemble
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.rule_chains import BoundRule
from treeproof.threat.threat import Threat

MODEL = applicants()
REALS = (float(MODEL.value_low[0]), float(MODEL.value_high[0]))


def bound(*args: Any, **words: Any) -> dict[str, ColumnMoves]:
    return {NAMES[f]: moves for f, moves in tp.Attacker(*args, **words).bind(MODEL).columns}


def test_plain_attackers_have_no_columns_of_their_own() -> None:
    for attacker in (tp.Attacker((-1, 1), budget=2), tp.Attacker.l0(2), tp.Attacker.lp(2, 1), tp.Attacker.linf(1)):
        threat = attacker.bind(MODEL)
        assert (threat.columns, threat.groups, threat.goal, threat.beyond_plain) == ((), (), (), None)


def test_steps_bind_to_numbers_with_their_ends() -> None:
    columns = bound({"months": tp.steps(-6, 6, 1), "income": (0, 5)}, costs={"months": 2})
    assert columns == {"months": ColumnMoves(domain=REALS, interval=(-6.0, 6.0), step=Fraction(1), cost=2)}


def test_a_step_for_all_is_for_numbers_movable_or_not() -> None:
    threat = tp.Attacker({"income": (0, 5), "purpose": tp.ANY}, step=0.5).bind(MODEL)
    columns = {NAMES[f]: (moves.interval, moves.step) for f, moves in threat.columns}
    half = Fraction(1, 2)
    assert columns == {"income": ((0.0, 5.0), half), "months": (None, half), "age": (None, half)}
    assert threat.movable.tolist() == [True, False, True, False, False]
    assert [(f, ends.tolist()) for f, ends in threat.ends] == [(2, [0.0, 1.0, 2.0])]


def test_values_bind_to_what_rows_hold() -> None:
    columns = bound({"income": [3, 1, 2], "purpose": tp.values("tv", "car"), "rating": {5, 1}})
    assert {name: moves.ends for name, moves in columns.items()} == {
        "income": (1.0, 2.0, 3.0),
        "purpose": (0.0, 2.0),
        "rating": (1.0, 5.0),
    }
    assert all(moves.interval == tp.ANY for moves in columns.values())


def test_values_for_all_columns_are_for_those_that_can_have_them() -> None:
    attacker = tp.Attacker(tp.values(1, "car"), domain={"age": (18, 99)}, budget=1)
    columns = {NAMES[f]: moves.ends for f, moves in attacker.bind(MODEL).columns if moves.interval is not None}
    assert columns == {"income": (1.0,), "months": (1.0,), "purpose": (0.0,), "rating": (1.0,)}
    assert attacker.bind(MODEL).movable.tolist() == [True, True, True, False, True]


def test_values_outside_the_domain_are_none() -> None:
    assert bound({"age": [10, 20, 30]}, domain={"age": (18, 99)})["age"].ends == (20.0, 30.0)


def test_matrices_bind_to_codes() -> None:
    costs = {"purpose": {("car", "radio"): 1, ("radio", "car"): 3}, "rating": {(1, 5): 2}}
    columns = bound({}, costs=costs)
    assert columns["purpose"].costs == {(0.0, 1.0): 1, (1.0, 0.0): 3}
    assert columns["rating"].costs == {(1.0, 5.0): 2}
    threat = tp.Attacker(None, costs=costs).bind(MODEL)
    assert threat.cost.tolist() == [0, 0, 1, 0, 2]
    assert threat.budget == 5
    assert threat.movable.tolist() == [False, False, True, False, True]


def test_blanks_and_fills_need_no_interval() -> None:
    columns = bound({}, blank={"income": 2}, fill=["purpose", "income"])
    assert (columns["income"].blank, columns["income"].fill, columns["income"].interval) == (2, 1, None)
    assert (columns["purpose"].fill, columns["purpose"].ends) == (1, (0.0, 1.0, 2.0))
    free = tp.Attacker({}, blank={"income": 0}, budget=0).bind(MODEL)
    assert free.movable.tolist() == [True, False, False, False, False]


def test_unseen_values_are_for_columns_that_may_become_anything() -> None:
    attacker = tp.Attacker({"purpose": tp.ANY}, unseen=True)
    assert [ends.tolist() for _, ends in attacker.bind(MODEL).ends] == [[0.0, 1.0, 2.0, 3.0]]
    assert bound({"purpose": tp.values("tv")}, unseen=True)["purpose"].ends == (2.0,)
    assert bound({}, fill=["purpose"], unseen=True)["purpose"].ends == (0.0, 1.0, 2.0)


def test_rules_bind_to_decimals_and_codes() -> None:
    rules = [
        tp.Rule("income", when=(0.25, math.inf), change=-0.1, cost=3),
        tp.Rule("purpose", when={"car", "submarine"}, to="tv"),
        tp.Rule("rating", to=5, cost=2),
    ]
    threat = tp.Attacker.rules(rules, budget=7).bind(MODEL)
    columns = {NAMES[f]: moves.rules for f, moves in threat.columns}
    tenth = Fraction(-1, 10)
    assert columns == {
        "income": (BoundRule(3, low=Fraction(1, 4), change=(tenth, tenth)),),
        # No row has a value that the model does not know.
        "purpose": (BoundRule(1, codes=(0.0,), to=2.0),),
        "rating": (BoundRule(2, codes=(1.0, 2.0, 5.0), to=5.0),),
    }
    assert threat.budget == 7
    assert (threat.low[0], threat.high[0]) == (-math.inf, 0.0)
    assert tp.Attacker.rules(rules).bind(MODEL).budget >= 2**51


def test_groups_and_goals_bind_to_positions() -> None:
    attacker = tp.Attacker(
        tp.ANY, groups={"finances": ["rating", "income"], "rest": [3]}, budgets={"finances": 1, "rest": 0},
        goal=["unclear", "bad"],
    )  # fmt: skip
    threat = attacker.bind(MODEL)
    assert (threat.groups, threat.group_budgets, threat.goal) == (((0, 4), (3,)), (1, 0), (0, 2))
    assert tp.Attacker.l0(2, goal="good").bind(MODEL).goal == (1,)
    assert tp.Attacker.linf(1, goal=["good"]).bind(MODEL).goal == (1,)
    assert tp.Attacker.lp(2, 1, goal="good").bind(MODEL).goal == (1,)


def test_lp_attackers_may_only_raise_or_lower_some_columns() -> None:
    attacker = tp.Attacker.lp(1, 2, up=["income"], down="months", step={"months": 1}, scale={"income": 3})
    assert repr(attacker).startswith("Attacker.lp(1, 2.0, scale={'income': 3.0}, up=['income'], down=['months'], step")
    assert tp.Attacker.from_json(attacker.to_json()) == attacker == attacker.with_radius(2.0)
    threat = attacker.bind(MODEL)
    income, months = MODEL.feature_index("income"), MODEL.feature_index("months")
    assert (threat.low[income], threat.high[months]) == (0, 0) and threat.low[months] == -2 and threat.high[income] > 6
    for each in (threat, threat.without_limits()):
        assert each.moves_of(income).price(1.0, 1.0, 4.0) == 1 and each.moves_of(income).price(1.0, 1.0, 0.5) is None
        assert each.moves_of(months).price(4.0, 4.0, 3.0) == 1 and each.moves_of(months).price(4.0, 4.0, 5.0) is None
        assert each.moves_of(months).price(4.0, 4.0, 3.5) is None
    for f, start, ends in ((income, 1.0, (4.0, 0.5)), (months, 4.0, (3.0, 5.0))):
        prices = [columns_of(MODEL, attacker)[f].price(start, start, end) for end in ends]
        assert prices == [1, None]


def test_lp_attackers_with_steps_pay_by_distance() -> None:
    threat = tp.Attacker.lp(2, 0.3, scale={"income": 2}, step={"income": 0.1}).bind(MODEL)
    ((f, moves),) = threat.columns
    assert (f, moves.power, moves.unit, moves.step) == (0, 2, 2.0, Fraction(1, 10))
    # Three steps of a tenth are 0.3, as it prints.
    assert threat.limit == Fraction(9, 100)
    assert tp.Attacker.lp(2, 0.3).bind(MODEL).limit == Fraction(0.3) ** 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tp.Attacker({"purpose": tp.values("car", "boat")}),
            "'purpose': the model does not know the value 'boat'; it knows 'car', 'radio', 'tv'",
        ),
        (
            lambda: tp.Attacker({"rating": [1, 2, 3]}),
            "column 'rating': the model does not know the value 3; it knows 1, 2, 5",
        ),
        (lambda: tp.Attacker({"income": tp.values("a lot")}), "column 'income' holds numbers, and 'a lot' is none"),
        (lambda: tp.Attacker({"income": tp.values(True)}), "column 'income' holds numbers, and True is none; write 1"),
        (
            lambda: tp.Attacker({"purpose": tp.steps(-1, 1, 1)}),
            "column 'purpose' is a category, and nothing is a distance",
        ),
        (lambda: tp.Attacker(tp.ANY, step={"purpose": 1}), "column 'purpose' is a category, which has no steps"),
        (lambda: tp.Attacker.lp(1, 1, up=["purpose"]), "up names column 'purpose', a category, which neither rises"),
        (lambda: tp.Attacker.lp(1, 1, up=["age"], down=["age"]), "'age' is in up and in down, and could not move"),
        (lambda: tp.Attacker.lp(1, 1, features=["age"], up=["income"]), "up names 'income', which is not in features"),
        (lambda: tp.Attacker.lp(np.inf, 1, up=["age"]), "up= and down= go with a finite p; give intervals instead"),
        (
            lambda: tp.Attacker({"months": tp.steps(-6, 6, 1)}, step=2),
            "column 'months' has steps of 1 and step=2; give one",
        ),
        (
            lambda: tp.Attacker({"age": [1, 2, 3]}, domain={"age": (18, 99)}),
            r"none of values\(1, 2, 3\) is inside the domain",
        ),
        (lambda: tp.Attacker({}, costs={"purpose": {("car", "boat"): 1}}), "the model does not know the value 'boat'"),
        (
            lambda: tp.Attacker({"income": (0, 1)}, costs={"income": {(1, 2): 1}}),
            "has an interval and a matrix of costs",
        ),
        (
            lambda: tp.Attacker({}, blank=["age"]),
            "column 'age' cannot become missing: the model takes no missing values there",
        ),
        (
            lambda: tp.Attacker({}, fill=["age"]),
            "column 'age' has nothing to fill in: the model takes no missing values there",
        ),
        (lambda: tp.Attacker({"job": tp.ANY}), "the model has no feature 'job'"),
        (lambda: tp.Attacker.rules([tp.Rule("job", change=1)]), "the model has no feature 'job'"),
        (
            lambda: tp.Attacker.rules([tp.Rule("purpose", change=1)]),
            "column 'purpose' holds categories, so a rule needs to=",
        ),
        (
            lambda: tp.Attacker.rules([tp.Rule("income", to=3)]),
            "column 'income' holds numbers, so a rule needs change=",
        ),
        (
            lambda: tp.Attacker.rules([tp.Rule("income", change=0.25)], step=0.1),
            "column 'income': a rule adds 0.25, which holds no whole number of steps of 0.1 but 0; give a smaller step",
        ),
        (
            lambda: tp.Attacker.rules([tp.Rule("income", change=(-0.05, 0))], step=0.1),
            "column 'income': a rule adds -0.05 to 0, which holds no whole number of steps of 0.1 but 0",
        ),
        (lambda: tp.Attacker.rules([tp.Rule("purpose", to="boat")]), "the model does not know the value 'boat'"),
        (lambda: tp.Attacker(tp.ANY, groups={"a": ["job"]}, budgets={"a": 1}), "the model has no feature 'job'"),
        (
            lambda: tp.Attacker(tp.ANY, groups={"a": ["income"], "b": [0]}, budgets={"a": 1, "b": 1}),
            "column 'income' is named twice in groups",
        ),
        (
            lambda: tp.Attacker(tp.ANY, goal="great"),
            "names 'great', which is no label of the model; it has 'bad', 'good', 'unclear'",
        ),
        (lambda: tp.Attacker(tp.ANY, goal=["bad", "good", "unclear"]), "goal names every label of the model"),
        (lambda: tp.Attacker([tp.ANY] * 4, step=1), "attacker has 4 features, model has 5"),
    ],
)
def test_misfits_are_refused(make: Any, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        make().bind(MODEL)


def test_unseen_values_need_a_column_that_takes_them() -> None:
    with pytest.raises(tp.InvalidInput, match="no column of the model takes values that it never saw"):
        tp.Attacker(tp.ANY, unseen=True).bind(blank_ensemble(2, [0, 1], None))


def test_threats_are_equal_if_they_can_do_the_same() -> None:
    def threat(**words: Any) -> Threat:
        return tp.Attacker({"months": tp.steps(-6, 6, 1), "purpose": tp.ANY}, **words).bind(MODEL)

    assert threat().equals(threat())
    for other in ({"goal": "bad"}, {"blank": ["income"]}, {"groups": {"a": ["months"]}, "budgets": {"a": 1}}):
        assert not threat().equals(threat(**other))


NOT_PLAIN = {
    "steps": tp.Attacker((-1, 1), step=0.1),
    "a list of values": tp.Attacker({0: [0.1, 0.5, 0.9]}),
    "a cost matrix": tp.Attacker({}, costs={0: {(0, 1): 1}}),
    "rules": tp.Attacker.rules([tp.Rule(0, change=0.1)]),
    "groups with budgets": tp.Attacker.l0(2, groups={"a": [0]}, budgets={"a": 1}),
    "a goal": tp.Attacker.linf(0.1, goal=1),
}


@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_engines_that_know_intervals_only_refuse_other_attackers(kind: str) -> None:
    from tests.support.toys import forest, sample

    X, y = sample()
    model, attacker = forest(n_estimators=2).fit(X, y), NOT_PLAIN[kind]
    for engine in (
        lambda: tp.StabilityMap.build(model, attacker, domain=(0, 1), max_boxes=1),
        lambda: tp.analyze(model, attacker),
    ):
        with pytest.raises(tp.InvalidInput, match=f"and this one has {kind}; treeproof.verify takes it") as refused:
            engine()
        assert str(refused.value).startswith(("a map knows", "the symbolic analysis knows"))


def test_a_column_of_blanks_is_not_plain() -> None:
    assert tp.Attacker({}, blank=["income"]).bind(MODEL).beyond_plain == "values to blank or fill"
    assert np.isinf(tp.Attacker({}, blank=["income"]).bind(MODEL).low[0])


def test_of_many_columns_the_nearest_are_named_and_one_hot_groups_are_hinted_at() -> None:
    names = ["pay_card", "pay_cash", *(f"col{i}" for i in range(400))]
    ensemble = blank_ensemble(len(names), [0, 1], names)
    with pytest.raises(tp.InvalidInput, match=r"no feature 'colx'; it has 'col\d+', .* and 399 more") as caught:
        tp.Attacker({"colx": (0, 1)}).bind(ensemble)
    assert len(str(caught.value)) < 200
    with pytest.raises(
        tp.InvalidInput,
        match="it has 'pay_card', 'pay_cash' and 400 more; attackers may name a one-hot group if relations name it",
    ):
        tp.Attacker({"pay": tp.ANY}).bind(ensemble)
