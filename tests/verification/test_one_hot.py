"""A model of one-hot columns, with its groups declared, is the model of the categories: verdict by verdict."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeproof as tp
from treeproof.model.columns import CodedRows
from treeproof.model.groups import Group, Grouped, group_columns
from treeproof.results.verdicts import Outcome

FOLDER = os.environ.get("TREEPROOF_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="german_credit.csv is found through TREEPROOF_DATA")

ATTACKED = ("Purpose", "Housing", "Job")
ATTACKERS = {
    "two categories": tp.Attacker(dict.fromkeys(ATTACKED, tp.ANY), budget=2),
    "numbers too": tp.Attacker(
        {"Purpose": tp.ANY, "Savings": tp.ANY, "CreditAmount": (-800, 800), "Duration": (-3, 3)},
        costs={"Purpose": 2},
        budget=3,
    ),
}
EPSILON = {"CreditAmount": 100.0, "Age": 1.0}


class Credit(NamedTuple):
    """German credit: rows as text and as zeros and ones, and the same trees on both."""

    frame: pd.DataFrame
    labels: np.ndarray
    dummies: pd.DataFrame
    members: dict[str, list[str]]
    pipeline: Any
    forest: Any


@cache
def credit() -> Credit:
    table = pd.read_csv(Path(FOLDER or "", "german_credit.csv"))
    frame, labels = table.drop(columns="label"), table["label"].to_numpy()
    texts = [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), texts), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    forest = RandomForestClassifier(15, max_depth=7, random_state=0)
    pipeline = make_pipeline(encoder, forest).fit(frame[300:], labels[300:])
    dummies = encoder.transform(frame)
    # The same columns as those of get_dummies, in another order.
    theirs = pd.get_dummies(frame, columns=texts, dtype=float)
    assert dummies.astype(float).equals(theirs[list(dummies)].astype(float))
    members = {name: [column for column in dummies if column.startswith(f"{name}_")] for name in texts}
    return Credit(frame, labels, dummies, members, pipeline, forest)


@cache
def grouped() -> Grouped:
    model = tp.from_model(credit().forest)
    groups = [Group(tuple(map(model.feature_index, own)), name) for name, own in credit().members.items()]
    return group_columns(model, groups)


def outcomes(result: tp.Verification) -> list[tuple[Outcome, Outcome | None]]:
    return [(verdict.robustness, verdict.resilience) for verdict in result.verdicts]


def test_the_grouped_forest_is_the_folded_pipeline() -> None:
    given, native = credit(), tp.from_model(credit().pipeline)
    groups = grouped()
    rows = groups.rows(given.dummies.to_numpy(dtype=float))
    assert groups.ensemble.n_nodes == native.n_nodes
    # The pipeline's columns are in the order of the frame.
    names = [column.name for column in groups.ensemble.columns]
    order = [names.index(column.name) for column in native.columns]
    theirs = native.check_rows(given.frame)
    assert np.array_equal(rows[:, order], theirs)
    rng = np.random.default_rng(0)
    mixed = np.column_stack([rng.permutation(column) for column in theirs.T]).view(CodedRows)
    assert np.array_equal(native.scores(mixed), groups.ensemble.scores(mixed[:, np.argsort(order)]))
    own = groups.ungroup(mixed[:, np.argsort(order)])
    assert np.array_equal(native.predict(mixed), given.forest.predict(pd.DataFrame(own, columns=list(given.dummies))))


@pytest.mark.parametrize("name", ATTACKERS)
def test_engines_answer_alike_on_groups_and_categories(name: str) -> None:
    given, groups, n = credit(), grouped(), 40
    rows = groups.rows(given.dummies.to_numpy(dtype=float)[:n])
    ours = tp.verify(groups.ensemble, rows, given.labels[:n], ATTACKERS[name], epsilon=EPSILON)
    theirs = tp.verify(given.pipeline, given.frame[:n], given.labels[:n], ATTACKERS[name], epsilon=EPSILON)
    assert outcomes(ours) == outcomes(theirs)
    assert {Outcome.PROVED, Outcome.REFUTED} <= {verdict.robustness for verdict in ours.verdicts}


def test_brute_force_over_valid_rows_agrees() -> None:
    given, groups, n = credit(), grouped(), 25
    X = given.dummies.to_numpy(dtype=float)[:n]
    result = tp.verify(groups.ensemble, groups.rows(X), given.labels[:n], ATTACKERS["two categories"])
    names = list(given.dummies)
    members = {name: [names.index(column) for column in given.members[name]] for name in ATTACKED}
    for row, label, verdict in zip(X, given.labels[:n], result.verdicts, strict=True):
        found = [row]
        for first, second in itertools.combinations(ATTACKED, 2):
            for one, two in itertools.product(members[first], members[second]):
                changed = row.copy()
                changed[members[first] + members[second]] = 0.0
                changed[[one, two]] = 1.0
                found.append(changed)
        robust = bool((given.forest.predict(pd.DataFrame(np.array(found), columns=names)) == label).all())
        assert verdict.robustness == (Outcome.PROVED if robust else Outcome.REFUTED)


def test_rows_that_break_a_group_may_stay_or_become_valid() -> None:
    given, groups, n = credit(), grouped(), 25
    names = list(given.dummies)
    members = [names.index(column) for column in given.members["Purpose"]]
    X = given.dummies.to_numpy(dtype=float)[:n]
    rng = np.random.default_rng(0)
    X[:, members] = rng.choice([0.0, 1.0], (n, len(members)))
    groups = group_columns(groups.own, groups.groups, X)
    assert groups.broken(X).sum() > 20
    result = tp.verify(groups.ensemble, groups.rows(X), given.labels[:n], tp.Attacker({"Purpose": tp.ANY}))
    for row, label, verdict in zip(X, given.labels[:n], result.verdicts, strict=True):
        found = np.vstack((row, np.repeat(row[None], len(members), axis=0)))
        found[1:, members] = np.eye(len(members))
        robust = bool((given.forest.predict(pd.DataFrame(found, columns=names)) == label).all())
        assert verdict.robustness == (Outcome.PROVED if robust else Outcome.REFUTED)


def relations() -> list[Any]:
    return [tp.one_of(*own, name=group) for group, own in credit().members.items()]


@pytest.mark.parametrize("name", ATTACKERS)
def test_declared_groups_give_the_verdicts_of_the_categories(name: str) -> None:
    given, n = credit(), 40
    ours = tp.verify(
        given.forest, given.dummies[:n], given.labels[:n], ATTACKERS[name], epsilon=EPSILON, relations=relations()
    )
    theirs = tp.verify(given.pipeline, given.frame[:n], given.labels[:n], ATTACKERS[name], epsilon=EPSILON)
    assert outcomes(ours) == outcomes(theirs)
    for verdict in ours.verdicts:
        if verdict.witness is None:
            continue
        for row in (verdict.witness.neighbour, verdict.witness.attacked):
            own = pd.Series(row, index=list(given.dummies))
            assert all(sorted(own[members]) == [0.0] * (len(members) - 1) + [1.0] for members in given.members.values())


CHOICES = ("Purpose", "Housing")
MEMBERS = [f"Purpose_A{code}" for code in (40, 41, 42, 43)]


MORE: dict[str, Callable[[pd.Series], bool]] = {
    "Purpose_A43 + Housing_A151 <= 1": lambda row: row["Purpose_A43"] + row["Housing_A151"] <= 1,
    "Duration >= 12*Purpose_A40 + 6*Housing_A153": lambda row: (
        row["Duration"] >= 12 * row["Purpose_A40"] + 6 * row["Housing_A153"]
    ),
    "Purpose_A49 <= Job_A174": lambda row: row["Purpose_A49"] <= row["Job_A174"],
    "implies(Purpose_A41 == 1, Age >= 30)": lambda row: row["Purpose_A41"] == 0 or row["Age"] >= 30,
}


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("name", ["by name", "some members"])
@pytest.mark.parametrize("more", [{}, MORE], ids=["groups", "sums"])
def test_brute_force_over_valid_rows_agrees_with_declared_groups(name: str, broken: bool, more: dict[str, Any]) -> None:
    given, n = credit(), 12
    X = given.dummies[:n].astype(float)
    if broken:
        X[given.members["Purpose"]] = np.random.default_rng(0).choice([0.0, 1.0], (n, len(given.members["Purpose"])))
    costs: dict[str, int] = {MEMBERS[0]: 3, **dict.fromkeys(MEMBERS[1:], 1)}
    if name == "by name":
        attacker = tp.Attacker(dict.fromkeys(CHOICES, tp.ANY), costs={"Purpose": 2}, budget=3)
    else:
        attacker = tp.Attacker(dict.fromkeys(MEMBERS, (-1, 1)), costs=costs, budget=4)

    def price(start: pd.Series, end: pd.Series) -> float:
        if name == "by name":
            return sum(cost * (start[own] != end[own]).any() for cost, own in zip((2, 1), members, strict=True))
        return sum(costs.get(column, np.inf) for column in X if start[column] != end[column])

    members = [given.members[group] for group in CHOICES]
    result = tp.verify(given.forest, X, given.labels[:n], attacker, relations=[*relations(), *more])
    for (_, row), label, verdict in zip(X.iterrows(), given.labels[:n], result.verdicts, strict=True):
        found = [row]
        for purpose, housing in itertools.product(*members):
            end = row.copy()
            end[members[0] + members[1]] = 0.0
            end[[purpose, housing]] = 1.0
            valid = all(holds(end) for holds in more.values())
            found += [end] * bool(valid and price(row, end) <= attacker.budget)
        robust = bool((given.forest.predict(pd.DataFrame(found)) == label).all())
        assert verdict.robustness == (Outcome.PROVED if robust else Outcome.REFUTED)


@pytest.mark.slow
def test_a_missing_member_breaks_its_group() -> None:
    given, n = credit(), 20
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    rng = np.random.default_rng(0)
    train = given.dummies[300:].astype(float)
    model.fit(train.mask(rng.random(train.shape) < 0.2), given.labels[300:])
    X = given.dummies[:n].astype(float)
    purposes = given.members["Purpose"]
    X.loc[: n // 2, purposes[:3]] = np.nan
    attacker = tp.Attacker({"Housing": tp.ANY, "Status": tp.ANY, "CreditAmount": (-5000, 5000)})
    result = tp.verify(model, X, given.labels[:n], attacker, relations=relations())
    for verdict in result.verdicts[: n // 2 + 1]:
        assert verdict.stability == Outcome.PROVED  # there is no way to make its purpose valid
    assert Outcome.REFUTED in [verdict.stability for verdict in result.verdicts[n // 2 + 1 :]]
