"""Counterexamples hold by the definitions, and need every move that is left."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.applicants import applicants
from tests.support.strategies import Case, cases
from treeproof import check
from treeproof.verification import local_search as local
from treeproof.verification.witnesses import moved_features


def differs(a: float, b: float) -> bool:
    return not (a == b or (math.isnan(a) and math.isnan(b)))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(cases())
def test_witnesses_hold_and_need_all_their_moves(case: Case) -> None:
    attacker = as_attacker(case.attacker)
    result = tp.verify(case.ensemble, [case.x], [case.y], attacker, epsilon=list(case.eps))
    witness = result.witness(0)
    if witness is None:
        return
    epsilon = None if result.stability[0] == tp.Outcome.REFUTED else list(case.eps)
    assert check.is_witness(case.ensemble, attacker, epsilon, witness)
    for f in witness.moved:
        less = witness.attacked.copy()
        less[f] = witness.neighbour[f]
        assert case.ensemble.predict([less])[0] == witness.label, "a move was left that is not needed"
    for f in range(len(case.x)):
        if differs(witness.x[f], witness.neighbour[f]):
            near, far = witness.neighbour.copy(), witness.attacked.copy()
            near[f] = far[f] = witness.x[f]
            assert case.ensemble.predict([near])[0] == case.ensemble.predict([far])[0], "a step was left in vain"


def test_a_neighbour_that_is_not_needed_refutes_the_row_itself() -> None:
    """Where the search of the row itself ran out of time, but that of its neighbourhood finds an attack on it."""
    X, y = load_iris(return_X_y=True)
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
    whole = tp.verify(clf, X, y, tp.Attacker.linf(0.3), epsilon=0.1)
    decide = local.Local.decide

    def without_time_for_rows(
        self: local.Local, rows: np.ndarray, epsilon: np.ndarray, labels: np.ndarray
    ) -> local.Decisions:
        decided = decide(self, rows, epsilon, labels)
        if not epsilon.any():
            decided.outcome[:] = tp.Outcome.UNKNOWN
        return decided

    with mock.patch.object(local.Local, "decide", without_time_for_rows):
        result = tp.verify(clf, X, y, tp.Attacker.linf(0.3), epsilon=0.1)
    found = result.stability == tp.Outcome.REFUTED
    assert found.any() and (whole.stability[found] == tp.Outcome.REFUTED).all()
    assert (result.resilience_by_epsilon[0] == whole.resilience_by_epsilon[0]).all()
    check.check_verification(clf, result)


def test_moved_features_are_counted_by_hand() -> None:
    X, y = load_iris(return_X_y=True)
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
    result = tp.verify(clf, X, y, tp.Attacker.linf(0.4))
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


def test_values_that_are_filled_in_or_made_missing_have_no_distance() -> None:
    ensemble = applicants()
    rows = [[np.nan, 1, "tv", 1, 1], [3.0, 1, "tv", 1, 1]]
    filled = tp.verify(ensemble, rows[:1], ["unclear"], tp.Attacker({}, fill=["income"]))
    assert [one.most_often for one in moved_features(filled)] == ["filled in"]
    both = tp.verify(ensemble, rows, ["unclear", "good"], tp.Attacker({}, fill=["income"], blank=["income"]))
    assert [one.most_often for one in moved_features(both)] == ["filled in, 1 of 2"]
    either = tp.verify(ensemble, [rows[1]] * 2, ["good"] * 2, tp.Attacker({}, blank=["income"]))
    assert [one.most_often for one in moved_features(either)] == ["made missing"]
