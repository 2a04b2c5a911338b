"""A model of one-hot columns, with its groups declared, is the model of the categories: verdict by verdict."""

from __future__ import annotations

import inspect
import itertools
import os
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeproof as tp
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
    mixed = np.column_stack([rng.permutation(column) for column in theirs.T])
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


@pytest.mark.skipif("relations" not in inspect.signature(tp.verify).parameters, reason="verify takes no relations yet")
@pytest.mark.parametrize("name", ATTACKERS)
def test_declared_groups_give_the_verdicts_of_the_categories(name: str) -> None:
    given, n = credit(), 40
    one_of = getattr(tp, "one_of")  # noqa: B009
    relations = [one_of(*own, name=group) for group, own in given.members.items()]
    ours: tp.Verification = tp.verify(
        given.forest, given.dummies[:n], given.labels[:n], ATTACKERS[name], epsilon=EPSILON, relations=relations
    )
    theirs = tp.verify(given.pipeline, given.frame[:n], given.labels[:n], ATTACKERS[name], epsilon=EPSILON)
    assert outcomes(ours) == outcomes(theirs)
    for verdict in ours.verdicts:
        if verdict.witness is None:
            continue
        for row in (verdict.witness.neighbour, verdict.witness.attacked):
            own = pd.Series(row, index=list(given.dummies))
            assert all(sorted(own[members]) == [0.0] * (len(members) - 1) + [1.0] for members in given.members.values())
