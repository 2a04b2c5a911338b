"""Attackers in words: every column that can be moved is named with its reach, as long as that fits in a sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest

import treeproof as tp
from tests.support import applicants
from treeproof.model.builder import blank_ensemble
from treeproof.results.attacker_words import attacker_in_words, attacker_on_model, sizes_in_words
from treeproof.threat.relations import bind_relations

NAMES = ["amount", "duration", "rate", "age"]
WIDE = [f"c{i}" for i in range(20)]


def words(attacker: tp.Attacker, names: list[str] | None = None) -> str:
    names = names or NAMES
    return attacker_in_words(attacker, attacker.bind(blank_ensemble(len(names), [0, 1], names)), names)


@pytest.mark.parametrize(
    ("attacker", "sentence"),
    [
        (tp.Attacker.linf(0.05), "may move any feature by up to 0.05 either way, any number of them at once."),
        (tp.Attacker((-0.03, 0), budget=1), "may move any feature down by at most 0.03, one of them at a time."),
        (tp.Attacker.l0(2), "may move any feature to any value, at most 2 of them at once."),
        (
            tp.Attacker.lp(2, 0.1),
            "may move any feature; all moves together cover at most 0.1 in Euclidean (L2) distance.",
        ),
        (
            tp.Attacker.lp(2, 0.1).without_limits,
            "may move any feature; all moves together cover any Euclidean (L2) distance.",
        ),
        (tp.Attacker({"amount": (-5000, 5000)}), "may move amount by up to 5,000 either way."),
        (tp.Attacker({1: (0, math.inf)}), "may move duration up to any value above."),
        (
            tp.Attacker.linf({"amount": 5000, "age": 2, "rate": 2}),
            "may move amount by up to 5,000 and rate and age by up to 2 either way, any number of them at once.",
        ),
        (
            tp.Attacker({"amount": (-5000, 5000), "age": (0, 2), "rate": (0, 2)}),
            "may move amount by up to 5,000 either way and rate and age up by at most 2, any number of them at once.",
        ),
        (
            tp.Attacker({"amount": (0, 2), "rate": (-1, 1)}, costs={"rate": 3}, budget=3, domain={0: (0, 9)}),
            "may move amount up by at most 2 and rate by up to 1 either way, at a cost of 1 for amount and 3 for rate, "
            "within a budget of 3. Values stay inside their given domain.",
        ),
        (
            tp.Attacker({"amount": (0, 2), "rate": (-1, 1)}, costs={"rate": 3}, budget=2),
            "may move amount up by at most 2. Moving rate costs more than the budget.",
        ),
        (
            tp.Attacker.lp(1, 2, features=["age", "rate"], scale={"age": 10}),
            "may move rate and age; all moves together cover at most 2 in L1 (sum of moves) distance, in units of "
            "1 for rate and 10 for age.",
        ),
        (tp.Attacker.l0(0), "cannot change anything."),
        (tp.Attacker((-1, 1), costs=5, budget=4), "cannot change anything."),
        (tp.Attacker.linf(0), "cannot change anything."),
    ],
    ids=repr,
)
def test_attackers_in_words(attacker: tp.Attacker, sentence: str) -> None:
    assert words(attacker) == f"The attacker {sentence}"


MODEL = applicants.applicants()


@pytest.mark.parametrize(
    ("attacker", "sentences"),
    [
        (
            tp.Attacker(
                {"months": tp.steps(-6, 6, 1), "income": (0, 500), "purpose": tp.ANY},
                costs={"purpose": 2},
                budget=3,
                blank={"income": 1},
                fill={"income": 1, "rating": 9},
                goal="good",
            ),
            "may move income up by at most 500, months by up to 6 either way in steps of 1 and purpose to any value, "
            "at a cost of 1 for income, 1 for months and 2 for purpose. It may make values of income (cost 1) missing. "
            "It may fill in missing values of income (cost 1). Moving rating costs more than the budget. All changes "
            "together cost at most 3. Only a change to good is an attack.",
        ),
        (
            tp.Attacker({"months": tp.steps(0, 6, 0.5), "income": tp.steps(0, 6, "0.5")}, budget=1),
            "may move income and months up by at most 6 in steps of 0.5, one of them at a time.",
        ),
        (
            tp.Attacker({"purpose": tp.values("car", "tv"), "rating": [1, 2, 5], "income": list(range(10))}),
            "may move income to one of 10 values, purpose to car or tv and rating to any value, any number of them at "
            "once.",
        ),
        (
            tp.Attacker({}, costs={"purpose": {("car", "radio"): 1, ("radio", "car"): 3}}, budget=2),
            "may move purpose from car to radio (cost 1) or from radio to car (cost 3). All changes together cost at "
            "most 2.",
        ),
        (
            tp.Attacker.rules(
                [
                    tp.Rule("income", when=(0, 40), change=(0, 5)),
                    tp.Rule("months", when=(2, math.inf), change=-1),
                    tp.Rule("purpose", when={"car", "tv"}, to="radio", cost=2),
                    tp.Rule("rating", to=5),
                ],
                budget=4,
            ),
            "may move income by 0 to 5 where it is 0 to 40 (cost 1), months by -1 where it is at least 2 (cost 1), "
            "purpose from car or tv to radio (cost 2) and rating to 5 (cost 1). A rule may be applied again and again, "
            "while it fits. All changes together cost at most 4.",
        ),
        (
            tp.Attacker.rules([tp.Rule("income", change=(-0.25, 0.5), cost=2)], step={"income": 0.2}),
            "may move income by -0.2 to 0.4 (cost 2). Values of income go in steps of 0.2. A rule may be applied again "
            "and again, while it fits.",
        ),
        (
            tp.Attacker.rules([tp.Rule("purpose", when={"boat"}, to="tv")]),
            "may move purpose from no value that the model knows to tv (cost 1). A rule may be applied again and "
            "again, while it fits.",
        ),
        (tp.Attacker({}, blank=["income"]), "may make values of income (cost 1) missing."),
        (
            tp.Attacker.lp(1, 0.5, features=["income", "months"], up=["income"], down=["months"]),
            "may move income and months; all moves together cover at most 0.5 in L1 (sum of moves) distance. Values of "
            "income only rise. Values of months only fall.",
        ),
        (
            tp.Attacker.lp(2, 0.5, step={"months": 0.1}, features=["income", "months"]),
            "may move income and months; all moves together cover at most 0.5 in Euclidean (L2) distance. Values of "
            "months go in steps of 0.1.",
        ),
        (
            tp.Attacker(tp.ANY, budget=3, unseen=True, groups={"money": ["income", "rating"]}, budgets={"money": 1}),
            "may move any feature to any value, at most 3 of them at once. Changes of income and rating (money) cost "
            "at most 1 together. Categories may become values that the model never saw.",
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_all_that_attackers_may_do_is_said(attacker: tp.Attacker, sentences: str) -> None:
    said = attacker_in_words(attacker, attacker.bind(MODEL), applicants.NAMES, MODEL.categories)
    assert said == f"The attacker {sentences}"


def test_many_columns_are_counted() -> None:
    some = dict.fromkeys(WIDE[:9], (0, 1))
    assert words(tp.Attacker(some), WIDE).startswith("The attacker may move 9 of the 20 features up by at most 1, any")
    each = tp.Attacker([(0, i + 1) for i in range(20)], budget=1)
    assert words(tp.Attacker.linf(3), ["age"]) == "The attacker may move age by up to 3 either way."
    assert words(each, WIDE).endswith("may move any feature, each in its own way, one of them at a time.")
    alike = tp.Attacker(dict.fromkeys(WIDE[:9], (0, 1)), costs=2, budget=3)
    assert words(alike, WIDE).endswith("up by at most 1, at a cost of 2 each, within a budget of 3.")


def test_groups_are_not_counted_as_columns_of_the_model() -> None:
    names = ["p_car", "p_radio", *WIDE]
    ensemble = blank_ensemble(len(names), [0, 1], names)
    relations = bind_relations(tp.one_of("p_car", "p_radio", name="purpose"), ensemble)
    attacker = tp.Attacker({**dict.fromkeys(WIDE[:9], (0, 1)), "purpose": tp.ANY}, budget=2)
    said = attacker_on_model(attacker, ensemble, relations, names)
    assert said.startswith("The attacker may move 9 of the 22 features and 1 one-hot group, each in its own way")


def test_sizes_name_their_columns_unless_they_are_many() -> None:
    assert (
        sizes_in_words(np.array([5000, 0, 0.25, 0.25]), NAMES) == "amount by up to 5,000 and rate and age by up to 0.25"
    )
    assert sizes_in_words(np.full(4, 50), NAMES) == "any feature by up to 50"
    assert sizes_in_words(np.arange(20), WIDE) == "19 of the 20 features, each by its own"
    assert sizes_in_words(np.zeros(4), NAMES) == "nothing moves"
