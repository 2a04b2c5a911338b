"""Shortened counterexamples hold by the definitions, and need every move that is left."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.adapters import as_attacker
from tests.strategies import Case, cases
from treeproof import check
from treeproof.witnesses import moved_features, shorten_witnesses


def differs(a: float, b: float) -> bool:
    return not (a == b or (math.isnan(a) and math.isnan(b)))


@settings(max_examples=300, deadline=None)
@given(cases())
def test_shortened_witnesses_hold_and_need_all_their_moves(case: Case) -> None:
    attacker = as_attacker(case.attacker)
    long = tp.verify(case.ensemble, [case.x], [case.y], attacker, epsilon=list(case.eps))
    short = shorten_witnesses(case.ensemble, long)
    before, after = long.witness(0), short.witness(0)
    assert (before is None) == (after is None)
    if before is None or after is None:
        return
    epsilon = None if long.stability[0] == tp.Outcome.REFUTED else list(case.eps)
    assert check.is_witness(case.ensemble, attacker, epsilon, after)
    assert case.ensemble.predict([after.neighbour])[0] == after.label
    assert case.ensemble.predict([after.attacked])[0] == after.attacked_label
    # Moves are taken back, never changed.
    assert all(before.moved.get(f) == ends for f, ends in after.moved.items())
    for f in after.moved:
        less = after.attacked.copy()
        less[f] = after.neighbour[f]
        assert case.ensemble.predict([less])[0] == after.label, "a move was left that is not needed"
    for f in range(len(case.x)):
        if differs(after.x[f], after.neighbour[f]):
            near, far = after.neighbour.copy(), after.attacked.copy()
            near[f] = far[f] = after.x[f]
            assert case.ensemble.predict([near])[0] == case.ensemble.predict([far])[0], "a step was left in vain"


def test_everything_else_of_the_result_stays() -> None:
    X, y = load_iris(return_X_y=True)
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
    long = tp.verify(clf, X, y, tp.Attacker.linf(0.3), epsilons=[0.1, 0.2])
    short = shorten_witnesses(clf, long)
    assert repr(short) == repr(long)
    for name in ("X", "y", "predicted", "stability", "has_witness"):
        assert (getattr(short, name) == getattr(long, name)).all()
    assert sum(one.count for one in moved_features(short)) < sum(one.count for one in moved_features(long))
    assert (clf.predict(short.neighbour) == short.neighbour_label).all()
    assert (clf.predict(short.attacked) == short.attacked_label).all()


def test_a_result_without_witnesses_is_returned_as_it_is() -> None:
    X, y = load_iris(return_X_y=True)
    clf = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    result = tp.verify(clf, X, y, tp.Attacker.linf(0.0))
    assert shorten_witnesses(clf, result) is result


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_another_model_is_refused(load: object) -> None:
    X, y = load_iris(return_X_y=True)
    clf = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y)
    result = tp.verify(clf, X, y, tp.Attacker.linf(1.0))
    X, y = load(return_X_y=True)
    other = RandomForestClassifier(3, max_depth=2, random_state=1).fit(X, y)
    with pytest.raises(tp.InvalidInput, match="the result is not of this model"):
        shorten_witnesses(other, result)


def test_moved_features_are_counted_by_hand() -> None:
    X, y = load_iris(return_X_y=True)
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
    result = shorten_witnesses(clf, tp.verify(clf, X, y, tp.Attacker.linf(0.4)))
    counted = moved_features(result)
    assert counted == sorted(counted, key=lambda one: -one.count)
    for one in counted:
        moves = [
            v.witness.moved[one.feature][1] - v.witness.moved[one.feature][0]
            for v in result.verdicts
            if v.witness is not None and one.feature in v.witness.moved
        ]
        assert one.count == len(moves) > 0
        assert one.up == sum(move > 0 for move in moves)
        assert one.median == np.median(np.abs(moves))
        assert one.largest == max(map(abs, moves)) <= 0.4 + 1e-12
