"""Actors: only rows of their classes are attacked, and the others count by accuracy alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from tests.support.results import changed
from treeproof.check.objects import check_verification

P, R = tp.Outcome.PROVED, tp.Outcome.REFUTED
ATTACKER = tp.Attacker.linf(0.05)


@pytest.fixture(scope="module")
def question() -> tuple[Any, np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    X, names = minmax_scale(X)[:, :6], np.array(["bad", "good"])
    clf = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X[::2], names[y[::2]])
    return clf, X[1:120:2], names[y[1:120:2]]


def test_others_count_by_accuracy_alone(question: Any) -> None:
    clf, X, y = question
    everyone = tp.verify(clf, X, y, ATTACKER, epsilons=[0.01, 0.05])
    some = tp.verify(clf, X, y, ATTACKER, epsilons=[0.01, 0.05], actors=["bad"])
    bad = y == "bad"
    assert some.actors == ("bad",) and (some.is_attacked == bad).all()
    assert (some.robustness_outcomes[bad] == everyone.robustness_outcomes[bad]).all()
    assert (some.robustness_outcomes[~bad] == np.where(some.correct[~bad], P, R)).all()
    for mine, theirs in zip(some.resilience_by_epsilon, everyone.resilience_by_epsilon, strict=True):
        assert (mine[bad] == theirs[bad]).all() and (mine[~bad] == np.where(some.correct[~bad], P, R)).all()
    assert not some.has_witness[~bad].any() and some.has_witness[bad].any()
    good, before = some.by_class["good"], everyone.by_class["good"]
    assert good.accuracy == float(good.robustness) == float(good.resilience or 0) > float(before.robustness)
    assert some.by_class["bad"].to_json() == everyone.by_class["bad"].to_json()


def test_the_result_says_so_in_words_and_files(question: Any, tmp_path: Path) -> None:
    clf, X, y = question
    result = tp.verify(clf, X, y, ATTACKER, epsilon=0.01, actors="bad")
    assert "only bad attacked" in repr(result)
    said = "Only rows of class bad are attacked; the others count by accuracy alone."
    assert said in result.assumptions and said in result._repr_html_()
    assert said in tp.report_html(clf, result, max_seconds=1)
    again = tp.Verification.from_json(result.to_json(tmp_path / "result.json"))
    assert again.actors == ("bad",) and repr(again) == repr(result)
    assert json.loads(result.to_json())["actors"] == ["bad"]
    with pytest.raises(tp.InvalidInput, match="different choice of actors"):
        tp.verify(clf, X, y, ATTACKER, epsilon=0.01, resume=again)
    assert tp.verify(clf, X, y, ATTACKER, epsilon=0.01, actors="bad", resume=again).seconds >= again.seconds


def test_missing_cells_and_columns_in_vain_are_those_of_attacked_rows() -> None:
    X = np.array([[0.0], [0.5], [np.nan]])
    clf = RandomForestClassifier(1, bootstrap=False, random_state=0).fit([[0.0], [1.0], [np.nan]], [0, 1, 1])
    result = tp.verify(clf, X, [0, 1, 1], ATTACKER, actors=[0])
    assert result.rows_with_missing == 0 and result.in_vain == ((0,), ())
    everyone = tp.verify(clf, X, [0, 1, 1], ATTACKER)
    assert everyone.rows_with_missing == 1 and everyone.in_vain == ((), ())
    assert "1 of 1 movable columns reaches no threshold" in repr(result)
    assert result.assumptions[1].endswith("reaches no threshold of the model from any row: feature 0.")


def test_radii_and_curves_know_them(question: Any) -> None:
    clf, X, y = question
    bad, right = y == "bad", tp.from_model(clf).predict(X) == y
    for radius in (tp.robustness_radius, tp.resilience_radius):
        everyone, some = radius(clf, X, y, ATTACKER), radius(clf, X, y, ATTACKER, actors=["bad"])
        assert (some[bad] == everyone[bad]).all()
        assert (some[~bad] == np.where(right[~bad], math.inf, -math.inf)).all()
    curve = tp.resilience_curve(clf, X, y, ATTACKER, actors="bad")
    for epsilon in (0.0, 0.01, 0.1):
        assert curve(epsilon) == float(tp.verify(clf, X, y, ATTACKER, epsilon=epsilon, actors="bad").resilience or 0)


def test_a_report_draws_their_curves(question: Any) -> None:
    from treeproof.present.report import curves

    clf, X, y = question
    result = tp.verify(clf, X, y, ATTACKER, epsilon=0.02, actors="bad")
    ensemble = tp.from_model(clf)
    robust = curves.measured_robustness(ensemble, ATTACKER, result, 20.0, None)
    resilient = curves.measured_resilience(ensemble, ATTACKER, result, 20.0, None)
    assert isinstance(robust, curves.Curve) and isinstance(resilient, curves.Curve)
    assert robust.at(robust.asked) == (result.robustness.lower,) * 2
    assert resilient.at(resilient.asked)[0] == pytest.approx(float(result.resilience or 0))
    others = float((result.correct & (y == "good")).mean())
    assert robust.lower.min() >= others and resilient.lower.min() >= others


def test_check_holds_others_to_their_labels(question: Any) -> None:
    clf, X, y = question
    result = tp.verify(clf, X, y, ATTACKER, epsilon=0.01, actors="bad")
    counts = check_verification(clf, result)
    assert counts["labels"] == len(X) and counts["proofs"] <= 2 * (y == "bad").sum()
    other = int(np.argmax((y == "good") & result.correct))
    claimed = result.rows.resilience.copy()
    claimed[0, other] = R
    with pytest.raises(tp.SoundnessError, match=f"row {other}: it is not attacked, but does not count by its label"):
        check_verification(clf, changed(result, resilience=claimed))
    with pytest.raises(tp.SoundnessError, match="unreached of the result is not what follows"):
        check_verification(clf, changed(result, in_vain=type(result.in_vain)((0,), ())))


def test_tables_in_parts(question: Any, tmp_path: Path) -> None:
    clf, X, y = question
    frame = pd.DataFrame(X, columns=[f"c{f}" for f in range(6)]).assign(y=y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    ask = {"out": tmp_path / "out", "label": "y", "chunk_rows": 16, "epsilon": 0.01}
    summary = tp.verify_table(clf, tmp_path / "rows.csv", ATTACKER, actors=["bad"], **ask)
    whole = tp.verify(clf, X, y, ATTACKER, epsilon=0.01, actors=["bad"])
    assert summary.counts == {**summary.counts, **whole.measures.counts}
    assert summary.actors == ("bad",) and "only bad attacked" in repr(summary)
    assert summary.in_vain == whole.in_vain and summary.movable == whole.movable
    with pytest.raises(tp.InvalidInput, match="different choice of actors"):
        tp.verify_table(clf, tmp_path / "rows.csv", ATTACKER, resume=True, **ask)


@pytest.mark.parametrize(
    ("actors", "message"),
    [
        (["ugly"], r"^actors: the model has no class 'ugly'; it has 'bad', 'good'$"),
        (3, r"^actors: the model has no class 3; it has 'bad', 'good'$"),
        ([], "^actors is empty: nobody would attack; "),
    ],
)
def test_unknown_classes_are_refused_in_one_line(question: Any, actors: Any, message: str) -> None:
    clf, X, y = question
    for function in (tp.verify, tp.robustness_radius, tp.resilience_radius):
        with pytest.raises(tp.InvalidInput, match=message):
            function(clf, X, y, ATTACKER, actors=actors)
