"""What users say about an attacker as a whole: every way to say it, and one line for what means nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from treeproof.threat.moves import Values


def test_a_list_is_a_list_of_values_and_a_pair_a_range() -> None:
    attacker = tp.Attacker({"rooms": [1, 2, 3], "job": ["a", "b"], "floor": {5}, "age": (1, 2)})
    assert attacker.intervals.values == (Values((1, 2, 3)), Values(("a", "b")), Values((5,)), (1.0, 2.0))
    each = tp.Attacker([(0, 1), tp.values(1), [4, 5, 6]])
    assert each.intervals.values == ((0.0, 1.0), Values((1,)), Values((4, 5, 6)))
    assert tp.Attacker([tp.values(1), tp.steps(0, 1, 1)]).n_features == 2
    assert tp.Attacker(tp.values(0, 1)).intervals.shared
    assert tp.Attacker(np.array([[0, 1], [0, 2]])).intervals.values == ((0.0, 1.0), (0.0, 2.0))
    assert tp.Attacker([[0, 1], [0, 2]]) == tp.Attacker([(0, 1), (0, 2)])


def test_settings_may_be_given_in_many_ways() -> None:
    assert tp.Attacker({}, blank="age") == tp.Attacker({}, blank={"age": 1}) == tp.Attacker(None, blank=["age"])
    assert tp.Attacker({}, blank=pd.Series({"age": 2})) == tp.Attacker({}, blank={"age": 2})
    assert tp.Attacker.l0(1, goal="bad").goal == tp.Attacker.l0(1, goal=np.array(["bad"])).goal == ("bad",)
    assert tp.Attacker.l0(1, goal=np.int64(3)).goal == (3,)
    assert tp.Attacker.l0(1, goal=[1, 1]).goal == (1,)
    assert tp.Attacker.rules(tp.Rule("a", change=1)) == tp.Attacker.rules([tp.Rule("a", change=1)])
    assert tp.Attacker.lp(math.inf, 2, step=1, goal=1) == tp.Attacker.linf(2, step=1, goal=1)
    group = tp.Attacker.l0(1, groups={"g": "age"}, budgets={"g": 2}).groups[0]
    assert (group.name, group.columns, group.budget) == ("g", ("age",), 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tp.Attacker({"rooms": [1, 2]}),
            r"\[1, 2\] could be a range or two values; write \(1, 2\) for a range",
        ),
        (lambda: tp.Attacker({"job": ("a", "b")}), r"tp.values\(…\) to some"),
        (lambda: tp.Attacker({"rooms": []}), "there are no values"),
        (lambda: tp.Attacker({}), "no columns are named, so the attacker could do nothing"),
        (lambda: tp.Attacker(None, step=1), "no columns are named, so the attacker could do nothing"),
        (lambda: tp.Attacker((-1, 1), step=0), "step must be above 0, got 0"),
        (lambda: tp.Attacker((-1, 1), step=[1, -1]), "step of feature 1 must be above 0, got -1"),
        (lambda: tp.Attacker((-1, 1), step=2), "no whole number of steps of 2 but 0 lies between -1.0 and 1.0"),
        (lambda: tp.Attacker.linf(0.5, step=1), "no whole number of steps of 1 but 0 lies between -0.5 and 0.5"),
        (
            lambda: tp.Attacker({"a": (0, 1), "b": (0, 3)}, step={"a": 1, "b": 4}),
            "column 'b': no whole number of steps of 4",
        ),
        (lambda: tp.steps(0, 0, 0.01), "the step of a column that does not move goes into step="),
        (lambda: tp.values(["pro", "basic"]), "is not a value of a column; put a star before the list"),
        (lambda: tp.Attacker({}, blank=3), r"blank takes columns, as in blank=\['income'\]"),
        (lambda: tp.Attacker({}, fill={"age": -1}), "fill of feature 'age' must be a whole number"),
        (lambda: tp.Attacker({}, fill={"age": 0.5}), "fill of feature 'age' must be a whole number"),
        (lambda: tp.Attacker({}, blank=[]), "blank: the mapping names no features"),
        (lambda: tp.Attacker(tp.ANY, unseen=1), "unseen is True or False, got 1"),
        (lambda: tp.Attacker.l0(1, budgets={"a": 1}), "budgets names the group 'a', but no groups are given"),
        (lambda: tp.Attacker.l0(1, groups={"b": ["x"]}, budgets={"a": 1, "b": 1}), "group 'a', but there are 'b'"),
        (lambda: tp.Attacker.l0(1, groups={"b": ["x"]}), "the group 'b' has no budget; give budgets="),
        (lambda: tp.Attacker.l0(1, groups={"b": []}, budgets={"b": 1}), "the group 'b' has no columns"),
        (lambda: tp.Attacker.l0(1, groups={"b": ["x"]}, budgets={"b": -1}), "the budget of group 'b' must be"),
        (lambda: tp.Attacker.l0(1, groups=["x"], budgets={"b": 1}), "is a mapping, got"),
        (lambda: tp.Attacker.l0(1, groups={1: ["x"]}, budgets={1: 1}), "groups have names, got 1"),
        (lambda: tp.Attacker.l0(1, groups={"a": ["x"], "b": ["x"]}, budgets={"a": 1, "b": 1}), "'x' is in the groups"),
        (lambda: tp.Attacker.lp(1, 2, features={"a": (0, 1)}), "features= lists columns, got {'a'"),
        (lambda: tp.Attacker.l0(1, goal=[]), "goal names labels that the attacker wants"),
        (lambda: tp.Attacker.l0(1, goal=[None]), "goal names labels that the attacker wants"),
        (lambda: tp.Attacker.rules([]), "there are no rules"),
        (lambda: tp.Attacker.rules(["a"]), r"rules are a list of tp.Rule, got \['a'\]"),
        (lambda: tp.Attacker.rules(5), "rules are a list of tp.Rule, got 5"),
        (lambda: tp.Attacker.rules([tp.Rule("a", change=1)], budget=-1), "budget must be at least 0"),
        (lambda: tp.Attacker((0, 1), costs={"a": {"b": 1}}), r"a matrix is \{\(from, to\): cost\}"),
        (lambda: tp.Attacker([(0, 1)] * 2, step=[1] * 3), "the attacker's lists have different lengths: 2, 3"),
    ],
)
def test_what_means_nothing_is_refused(make: Any, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_distances_scale_and_the_rest_stays() -> None:
    attacker = tp.Attacker(
        {"a": (-1, 2), "b": tp.steps(-4, 4, 1), "c": tp.values(1, 2)}, costs={"a": 3}, budget=2, blank=["c"], goal="x"
    )
    half = tp.Attacker(
        {"a": (-0.5, 1), "b": tp.steps(-2, 2, 1), "c": tp.values(1, 2)}, costs={"a": 3}, budget=2, blank=["c"], goal="x"
    )
    assert attacker.scaled(0.5) == half
    assert tp.Attacker.lp(2, 3, step=1, goal="x").scaled(0.5) == tp.Attacker.lp(2, 1.5, step=1, goal="x")
    # Scaled below a step there is no move left, and nobody asked for one.
    assert tp.Attacker((-1, 1), step=1).scaled(0.5).intervals.values == ((-0.5, 0.5),)


def test_an_infinite_budget_is_no_limit() -> None:
    assert tp.Attacker((0, 1), budget=math.inf) == tp.Attacker((0, 1))
