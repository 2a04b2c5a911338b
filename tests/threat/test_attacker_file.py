"""Attackers on disk: what is written is read back, TREANT's rules reach what its authors enumerated, misfits fail."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.applicants import applicants
from treeproof.check.objects import columns_of
from treeproof.model.builder import blank_ensemble

COLUMNS = ["income", "months", "purpose", "age", "rating"]
DATA = os.environ.get("TREEPROOF_DATA")

numbers = st.floats(-1e6, 1e6, allow_nan=False)
texts = st.text(max_size=5)
plain_values = numbers | st.integers(-9, 9) | texts
decimals = st.decimals(min_value="0.001", max_value="99", places=3)
whole = st.integers(0, 50)
some_columns = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4, unique=True)
by_name: Callable[[Any], Any] = lambda values: st.dictionaries(st.sampled_from(COLUMNS), values, min_size=1)  # noqa: E731


@st.composite
def intervals(draw: st.DrawFn) -> tuple[float, float]:
    low, high = sorted((draw(numbers), draw(numbers)))
    return draw(st.sampled_from([-math.inf, low])), draw(st.sampled_from([math.inf, high]))


@st.composite
def steps(draw: st.DrawFn) -> Any:
    low, high = draw(st.integers(-9, 0)), draw(st.integers(1, 9))
    return tp.steps(low, high, draw(st.decimals(min_value="0.01", max_value="1", places=2)))


@st.composite
def rules(draw: st.DrawFn) -> tp.Rule:
    column, cost = draw(st.sampled_from(COLUMNS)), draw(st.integers(1, 9))
    if draw(st.booleans()):
        low, high = sorted((draw(decimals), draw(decimals)))
        return tp.Rule(column, when=draw(st.none() | intervals()), change=(low, high), cost=cost)
    when = draw(st.none() | st.sets(plain_values, min_size=1, max_size=3))
    return tp.Rule(column, when=when, to=draw(plain_values), cost=cost)


@st.composite
def attackers(draw: st.DrawFn) -> tp.Attacker:
    matrix = st.dictionaries(st.tuples(texts, texts).filter(lambda pair: pair[0] != pair[1]), whole, min_size=1)
    listed = st.lists(plain_values, min_size=1, max_size=3).map(lambda found: tp.values(*found))
    columns = draw(st.lists(st.sampled_from(COLUMNS), unique=True, max_size=4))
    half = draw(st.integers(0, len(columns)))
    groups = {name: group for name, group in (("one", columns[:half]), ("two", columns[half:])) if group}
    words = {
        "budget": draw(st.none() | whole),
        "domain": draw(st.none() | by_name(intervals())),
        "blank": draw(st.none() | some_columns | by_name(whole)),
        "fill": draw(st.none() | by_name(whole)),
        "groups": groups,
        "budgets": {name: draw(whole) for name in groups},
        "goal": draw(st.none() | texts | st.lists(st.integers(0, 5), min_size=1)),
    }
    if draw(st.booleans()):
        step = draw(st.none() | st.decimals(min_value="0.01", max_value="1", places=2) | by_name(st.just("0.1")))
        return tp.Attacker.rules(draw(st.lists(rules(), min_size=1, max_size=4)), step=step, **words)
    return tp.Attacker(
        draw(by_name(intervals() | listed | steps())),
        costs=draw(whole | by_name(whole | matrix)),
        step=draw(st.none() | by_name(decimals).map(lambda given: {f"other {name}": given[name] for name in given})),
        unseen=draw(st.booleans()),
        **words,
    )


@settings(max_examples=30, deadline=None)
@given(attackers())
def test_files_hold_all_of_an_attacker(attacker: tp.Attacker) -> None:
    text = attacker.to_json()
    again = tp.Attacker.from_json(text)
    assert again == attacker
    assert again.to_json() == text
    assert repr(again) == repr(attacker)
    assert json.loads(text)["version"] == 2


def test_attackers_are_readable() -> None:
    attacker = tp.Attacker(
        {"months": tp.steps(-6, 6, 1), "job": tp.values("A173"), "age": tp.ANY}, costs={"job": {("a", "b"): 2}},
        step={"income": "0.5"}, blank=["income"], fill={"income": 3}, unseen=True, groups={"g": ["age"]},
        budgets={"g": 1}, goal="bad",
    )  # fmt: skip
    assert repr(attacker) == (
        "Attacker({'months': steps(-6.0, 6.0, 1), 'job': values('A173'), 'age': (-inf, inf)}, "
        "costs={'job': {('a', 'b'): 2}}, step={'income': 0.5}, blank={'income': 1}, fill={'income': 3}, unseen=True, "
        "groups={'g': ['age']}, budgets={'g': 1}, goal=['bad'])"
    )
    assert repr(tp.Attacker({}, blank=["a"])) == "Attacker({}, blank={'a': 1})"
    assert repr(tp.Attacker.lp(1, 2, step=1)) == "Attacker.lp(1, 2.0, step=1)"


@pytest.mark.parametrize(
    "attacker",
    [
        tp.Attacker.lp(2, 0.5, step={"age": "0.25"}, goal="bad", scale={"age": 3}),
        tp.Attacker.l0(2, groups={"a": ["age"]}, budgets={"a": 1}, step=1),
        tp.Attacker.linf({"age": 3}, step={"age": 1}, goal=[1, 2]),
        tp.Attacker([tp.values(1, 2), (0, 1), tp.steps(0, 9, "0.1")]),
        tp.Attacker({"age": (0, 1)}, step={"income": Fraction(10**17 + 1, 10).__float__()}),
    ],
    ids=repr,
)
def test_every_way_to_make_one_is_kept(attacker: tp.Attacker, tmp_path: Path) -> None:
    attacker.to_json(tmp_path / "attacker.json")
    assert tp.Attacker.from_json(tmp_path / "attacker.json") == attacker


@pytest.mark.parametrize("version", [1, 3, True, 2.0, "2", None])
def test_other_versions_are_refused(version: Any) -> None:
    with pytest.raises(tp.InvalidInput, match="this treeproof reads version 2: write it again"):
        tp.Attacker.from_json(changed(version=version))


def changed(**fields: Any) -> str:
    return json.dumps(json.loads(tp.Attacker({"age": (0, 1)}).to_json()) | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"steps": 1}, "the attacker has the unknown fields steps"),
        ({"budget": 1.5}, "budget must be a whole number, got 1.5"),
        ({"intervals": {"by_feature": []}}, r'intervals names no columns; .* write \{"all": \[0, 0\]\}'),
        ({"step": {"all": 0}}, "step must be above 0, got 0"),
        ({"step": 1}, "step must be one of"),
        ({"intervals": {"all": {"values": []}}}, "there are no values"),
        ({"intervals": {"all": {"values": [[1]]}}}, r"\[1\] is not a value of a column"),
        ({"intervals": {"all": {"steps": [0, 1], "step": 5}}}, "no whole number of steps of 5"),
        ({"intervals": {"all": {"value": [1]}}}, r"interval must be \[low, high\]"),
        ({"costs": {"all": {"matrix": [["a", "b", 1], ["a", "b", 2]]}}}, "the matrix names a change twice"),
        ({"costs": {"all": {"matrix": [["a", "b"]]}}}, "cost must be a number"),
        ({"groups": {"a": 1}}, "groups must be a list"),
        ({"groups": [{"name": "a", "columns": ["age"]}]}, "a group is an object with name, columns and budget"),
        ({"groups": [{"name": "a", "columns": "age", "budget": 1}]}, "columns of 'a' must be a list"),
        ({"rules": [{"column": "age", "cost": 1}]}, "needs one of change="),
        ({"rules": [{"column": "age"}]}, "a rule is an object with"),
        ({"rules": [{"column": "age", "change": 1, "cost": 1}]}, "has rules beside intervals or costs"),
        ({"goal": "bad"}, "goal must be a list"),
        ({"goal": []}, "goal names labels that the attacker wants"),
        ({"goal": [[1]]}, "goal names labels that the attacker wants"),
        ({"goal": [{"a": 1}]}, "goal names labels that the attacker wants"),
        ({"fill": {"all": 1}}, r"fill takes columns, as in fill=\['income'\]"),
        ({"blank": {"each": [1]}}, r"blank takes columns, as in blank=\['income'\]"),
        ({"intervals": None}, "interval must be one of"),
        ({"costs": None}, "cost must be one of"),
        ({"radius": None}, "radius must be a number, got None"),
        ({"up": ["age"]}, "p must be a whole number from 1"),
        ({"down": [["age"]]}, "p must be a whole number from 1"),
        ({"power": 0}, "p must be a whole number from 1"),
        ({"power": False}, "p must be a whole number from 1"),
        ({"unseen": "yes"}, "unseen is True or False"),
        ({"power": 2, "radius": 1}, "is an Lp attacker with intervals, costs or a budget that do not fit its radius"),
    ],
)
def test_files_that_mean_nothing_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.Attacker.from_json(changed(**fields))


def test_values_that_json_lacks_are_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="is a complex, which JSON lacks"):
        tp.Attacker({"age": tp.values(1j)}).to_json()


def treant(pre: Any, post: Any = -1.0, cost: Any = 10, is_numerical: Any = True, column: str = "age") -> str:
    rule = {"pre": pre, "post": post, "cost": cost, "is_numerical": is_numerical}
    return json.dumps({"attacks": [{column: [rule]}]})


@pytest.mark.parametrize(
    ("pre", "when"),
    [
        ("(0, np.inf)", (0, math.inf)),
        ("(-np.inf, -1.5e3)", (-math.inf, -1500)),
        (" ( .5 ,inf ) ", (0.5, math.inf)),
    ],
)
def test_treants_numbers_get_anything_between_nothing_and_post(pre: str, when: tuple[float, float]) -> None:
    expected = tp.Attacker.rules([tp.Rule("age", when=when, change=(-1, 0), cost=10)], budget=30)
    assert tp.Attacker.from_json(treant(pre), budget=30) == expected


@pytest.mark.parametrize(
    ("pre", "when"),
    [
        ("('Never-worked')", {"Never-worked"}),
        ("('a', \"b's\",)", {"a", "b's"}),
        ("('np.inf', 'x)')", {"np.inf", "x)"}),
    ],
)
def test_treants_categories_become_post(pre: str, when: set[str]) -> None:
    expected = tp.Attacker.rules([tp.Rule("age", when=when, to="c", cost=2)])
    assert tp.Attacker.from_json(treant(pre, "c", 2, False)) == expected


@pytest.mark.parametrize(
    "pre",
    [
        "__import__('os')", "(1, 2", "(1 2)", "()", "(1, 2)(3, 4)", "(1, x)", "('a' 'b')", "(1+1, 2)", "('\\x41')",
        "(1e, 2)", "(1, [2])", "(lambda: 0, 1)", 5, "(1,, 2)",
    ],
)  # fmt: skip
def test_nothing_in_treants_files_is_evaluated(pre: Any) -> None:
    with pytest.raises(tp.InvalidInput, match="column 'age': pre must be a pair of numbers or a tuple of words"):
        tp.Attacker.from_json(treant(pre))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (treant("(1, 2, 3)"), r"when must be a pair \(low, high\)"),
        (treant("(1, 2)", "more"), "post must be a finite number, got 'more'"),
        (treant("(1, 2)", cost=0), "cost must be at least 1"),
        (treant("('a', 1)"), "is text"),
        ('{"attacks": 1}', "attacks must be a list"),
        ('{"attacks": [1]}', "an attack is an object"),
        ('{"attacks": [{"age": [{"pre": "(1, 2)"}]}]}', "a rule is an object with cost, is_numerical, post, pre"),
        ('{"attacks": []}', "there are no rules"),
    ],
)
def test_treants_files_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.Attacker.from_json(text)


@pytest.mark.skipif(DATA is None, reason="TREEPROOF_DATA is not set")
@pytest.mark.parametrize("name", ["census", "credit", "wine"])
def test_treants_own_files_are_read_unchanged(name: str) -> None:
    path = Path(str(DATA)) / "treant" / name / "attacks.json"
    attacker = tp.Attacker.from_json(path, budget=15)
    rules = [rule for attack in json.loads(path.read_text())["attacks"] for rules in attack.values() for rule in rules]
    assert len(attacker.rewrites) == len(rules)
    assert [rule.cost for rule in attacker.rewrites] == [rule["cost"] for rule in rules]


def test_a_rule_for_values_that_the_model_does_not_know_never_applies() -> None:
    text = treant("('boat')", "tv", 1, False, "purpose")
    ((_, moves),) = tp.Attacker.from_json(text).bind(applicants()).columns
    assert moves.rules[0].codes == ()


# The file that belongs to the enumerated attacks is older than the one that TREANT ships beside them.
OLDER_RULES = {
    "PAY_0": ("(2, 9)", -1),
    "BILL_AMT1": ("(60000, 80000)", -10000),
    "PAY_2": ("(2, 9)", -1),
    "LIMIT_BAL": ("(150000, 250000)", 20000),
}


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="TREEPROOF_DATA is not set")
def test_rules_reach_what_treants_authors_enumerated() -> None:
    """For each row, they list all values of the test set (and ends of `pre`) that one rule leads to, and `post` itself.

    Rows at the ends of `pre` are attacked, those beyond are not: it is closed. Values between 0 and `post` are there.
    """
    import pandas as pd

    table = pd.read_csv(Path(str(DATA)) / "treant" / "credit" / "test_B15.atks.csv.bz2")
    names = list(table.columns[1:-1])
    rules = [
        {name: [{"pre": pre, "post": post, "cost": 10, "is_numerical": True}]}
        for name, (pre, post) in OLDER_RULES.items()
    ]
    attacker = tp.Attacker.from_json(json.dumps({"attacks": rules}), budget=15)
    columns = columns_of(blank_ensemble(len(names), [0, 1], names), attacker)
    ids, rows = table["instance_id"].to_numpy(), table[names].to_numpy()
    first = np.flatnonzero(np.diff(ids, prepend=-1))
    assert len(first) == 6000
    # Budget 15 pays for one rule: what is enumerated differs from its row in one column.
    differing = rows != rows[first][np.searchsorted(ids[first], ids)]
    assert set(differing.sum(axis=1).tolist()) == {0, 1}
    for name, (pre, post) in OLDER_RULES.items():
        f = names.index(name)
        own = rows[first][:, f]
        listed = sorted({*own.tolist(), *map(float, pre.strip("()").split(","))})
        enumerated: dict[float, set[float]] = {}
        for at in np.flatnonzero(differing[:, f]).tolist():
            enumerated.setdefault(float(own[np.searchsorted(ids[first], ids[at])]), set()).add(float(rows[at, f]))
        for x in sorted(set(own.tolist())):
            place = listed.index(x)
            # Where nothing is enumerated, the values next to x would be the first.
            around = (
                listed[max(place - 300, 0) : place + 300] if x in enumerated else listed[max(place - 1, 0) : place + 2]
            )
            reached = {value for value in {*around, x + post} - {x} if columns[f].price(x, x, value) is not None}
            assert reached == enumerated.get(x, set()), (name, x)
    assert not differing[:, [f for f, name in enumerate(names) if name not in OLDER_RULES]].any()
