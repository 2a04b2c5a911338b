"""Reasons against their definition, and on models of real libraries."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.judged_reasons import judge_block
from tests.support.random_blocks import block


def test_reasons_of_tiny_models_are_those_of_the_definition() -> None:
    random, counts = Random(11), 0
    for number in range(40):
        counts += judge_block(block(11, number), random, 3, ("reason",))["reason"]
    assert counts > 200


def stable(model: Any, x: np.ndarray, columns: set[int]) -> bool:
    """Whether the label holds, says `verify`, if these columns may be anything."""
    if not columns:
        return True
    attacker = tp.Attacker(dict.fromkeys(sorted(columns), tp.ANY))
    outcome = tp.verify(model, x[None], model.predict(x[None]), attacker, n_jobs=1).stability[0]
    assert outcome != tp.Outcome.UNKNOWN
    return bool(outcome == tp.Outcome.PROVED)


def assert_reasons(model: Any, X: np.ndarray, dropped: list[int] | None = None) -> None:
    """Every reason is what `verify` leaves, if it goes through the columns in this order."""
    ensemble = model if isinstance(model, tp.Ensemble) else tp.from_model(model)
    uses = [int((ensemble.feature == f).sum()) for f in range(ensemble.n_features)]
    default = sorted(range(ensemble.n_features), key=lambda f: (uses[f], -f))
    for x, one in zip(X, tp.explain(model, X, order=None if dropped is None else dropped[::-1]), strict=True):
        free: set[int] = set()
        for f in default if dropped is None else dropped:
            free |= {f} if stable(model, x, free | {f}) else set()
        assert one.minimal and set(one.columns) == set(range(ensemble.n_features)) - free
        assert one.label == model.predict(x[None])[0]


@pytest.mark.slow
def test_many_classes_of_a_forest() -> None:
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(30, max_depth=5, random_state=1).fit(X, y)
    assert_reasons(forest, X[::30])
    assert_reasons(forest, X[7::60], list(range(13)))


@pytest.mark.slow
def test_many_classes_of_boosting_in_single_precision() -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y = load_wine(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1, random_state=0).fit(X, y)
    assert_reasons(model, X[3::40])


def test_a_vote_of_trees() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(15, max_depth=3, random_state=2).fit(X, y)
    votes = tp.from_model(forest, voting="hard")
    assert_reasons(votes, X[::29])
    columns = [one.columns for one in tp.explain(votes, X)]
    assert columns == [one.columns for one in tp.explain(forest, X, voting="hard")]
    assert columns != [one.columns for one in tp.explain(forest, X)]


def test_a_threshold_changes_reasons() -> None:
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(15, max_depth=4, random_state=0).fit(X, y == 0)
    usual, strict = tp.from_model(forest), tp.from_model(forest, threshold=0.9)
    x = X[[int(np.flatnonzero(usual.predict(X) & ~strict.predict(X))[0])]]
    first, second = (tp.explain(model, x)[0] for model in (usual, strict))
    assert (first.label, second.label) == (True, False)
    for model, one in ((usual, first), (strict, second)):
        others = set(range(13)) - set(one.columns)
        assert stable(model, x[0], others)
        assert not any(stable(model, x[0], others | {column}) for column in one.columns)


def test_with_a_budget_the_reason_is_what_makes_the_row_robust() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(9, max_depth=4, random_state=3).fit(X, y)
    found = tp.explain(forest, X[::19], attacker=tp.Attacker.l0(1))
    for x, one in zip(X[::19], found, strict=True):
        # One column at a time: exactly those whose change flips the label are in it.
        flips = [f for f in range(4) if not stable(forest, x, {f})]
        assert one.minimal and list(one.columns) == flips


def test_frozen_columns_make_the_row_robust_against_a_distance() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(9, max_depth=4, random_state=3).fit(X, y)
    for attacker in (tp.Attacker.linf(0.6), tp.Attacker.lp(1, 0.8)):
        for x, one in zip(X[60:100:5], tp.explain(forest, X[60:100:5], attacker=attacker), strict=True):

            def holds(free: Any, attacker: Any = attacker, x: Any = x) -> bool:
                if not free:
                    return True
                less = (
                    tp.Attacker.linf(0.6, features=sorted(free))
                    if attacker.power is None
                    else tp.Attacker.lp(1, 0.8, features=sorted(free))
                )
                return bool(tp.verify(forest, x[None], forest.predict(x[None]), less).stability[0] == tp.Outcome.PROVED)

            others = set(range(4)) - set(one.columns)
            assert one.minimal and holds(others)
            assert not any(holds(others | {column}) for column in one.columns)


def test_a_tie_of_tests_drops_later_columns_first() -> None:
    X = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    y = X.sum(axis=1) > 1
    model = tp.from_model(RandomForestClassifier(1, bootstrap=False, max_features=None, random_state=0).fit(X, y))
    one = tp.explain(model, [[1.0, 1.0, 1.0]])[0]
    assert len(one.columns) == 2
    assert tp.explain(model, [[1.0, 1.0, 1.0]], order=[2, 1])[0].columns == (1, 2)
    assert tp.explain(model, [[1.0, 1.0, 1.0]], order=[0, 2])[0].columns == (0, 2)
