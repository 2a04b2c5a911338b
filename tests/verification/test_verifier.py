"""One row at a time: the verdicts of `verify`, refusals of what is not a row, and threads that share a Verifier."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.strategies import Case, cases
from treeproof import check
from treeproof.errors import InvalidInput

P, R, U = tp.Outcome.PROVED, tp.Outcome.REFUTED, tp.Outcome.UNKNOWN

ATTACKERS = {
    "linf": tp.Attacker.linf(0.03),
    "left": tp.Attacker((-0.25, 0.0), budget=2),
    "l0": tp.Attacker.l0(1),
    "away": tp.Attacker((0.05, 0.2), budget=3),
    "l1": tp.Attacker.lp(1, 0.1),
}
LINF = ATTACKERS["linf"]


@cache
def trained() -> tuple[Any, np.ndarray, np.ndarray]:
    """A forest, and rows that it has not seen."""
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X)
    return RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[::2], y[::2]), X[1:200:5], y[1:200:5]


def in_full(verdict: tp.Verdict) -> tuple[Any, ...]:
    """All that a verdict says, to be compared."""
    witness = verdict.witness
    moves = None if witness is None else [getattr(witness, one.name) for one in dataclasses.fields(witness)]
    shown = None if moves is None else [one.tolist() if isinstance(one, np.ndarray) else one for one in moves]
    return verdict.stability, verdict.robustness, verdict.resilience, shown


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [None, 0.01])
@pytest.mark.parametrize("name", ATTACKERS)
def test_verdicts_are_those_of_verify(name: str, epsilon: float | None) -> None:
    clf, X, y = trained()
    verifier = tp.Verifier(clf, ATTACKERS[name], epsilon=epsilon)
    expected = [in_full(one) for one in tp.verify(clf, X, y, ATTACKERS[name], epsilon=epsilon).verdicts]
    # Rows of one call share counterexamples, so that one of another row may stand in place of a row's own.
    assert [in_full(one)[:3] for one in verifier.verdicts(X, y)] == [one[:3] for one in expected]
    alone = [verifier.verdict(x, label) for x, label in zip(X, y.tolist(), strict=True)]
    assert [in_full(one)[:3] for one in alone] == [one[:3] for one in expected]
    assert {one.stability for one in alone} == {P, R}
    for one in alone:
        assert (one.witness is not None) >= (one.stability == R)
        if one.witness is not None:
            assert check.is_witness(clf, ATTACKERS[name], epsilon, one.witness)
            assert clf.predict([one.witness.attacked])[0] == one.witness.attacked_label != one.witness.label


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=150, deadline=None, database=None)
@given(cases())
def test_a_verdict_equals_brute_force(case: Case) -> None:
    ensemble, plain, x, y, epsilon = case
    verifier = tp.Verifier(ensemble, as_attacker(plain), epsilon=list(epsilon))
    for label in (oracles.predict(ensemble, x), y):
        verdict = verifier.verdict(x, label)
        assert verdict.stability == (P if oracles.stable(ensemble, plain, x) else R)
        assert verdict.robustness == (P if oracles.robust(ensemble, plain, x, label) else R)
        assert verdict.resilience == (P if oracles.resilient(ensemble, plain, x, label, epsilon) else R)


def test_without_a_label_that_of_the_model_counts_as_right() -> None:
    clf, X, _ = trained()
    verifier = tp.Verifier(clf, LINF, epsilon=0.001)
    stable = next(x for x in X if verifier.verdict(x).resilience == P)
    own = clf.predict([stable])[0].item()
    assert verifier.verdict(stable).robustness == verifier.verdict(stable, own).robustness == P
    wrong = verifier.verdict(stable, 1 - own)
    assert (wrong.stability, wrong.robustness, wrong.resilience) == (P, R, R)
    assert tp.Verifier(clf, LINF).verdict(stable).resilience is None


def test_missing_values_are_answered_where_the_model_takes_them() -> None:
    _, X, y = trained()
    clf = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(X, y)
    holes = X.copy()
    holes[:, ::3] = np.nan
    verifier = tp.Verifier(clf, LINF)
    expected = tp.verify(clf, holes, y, LINF).stability.tolist()
    assert [int(verifier.verdict(x).stability) for x in holes] == expected


def test_missing_values_are_refused_where_the_model_does_not_take_them() -> None:
    _, X, y = trained()
    verifier = tp.Verifier(GradientBoostingClassifier(n_estimators=2, random_state=0).fit(X, y), LINF)
    with pytest.raises(tp.InvalidInput, match="row 0, column 3 is NaN, but the model does not accept missing values"):
        verifier.verdict([0.5] * 3 + [np.nan] + [0.5] * 26)


def test_time_leaves_rows_open() -> None:
    clf, X, _ = trained()
    assert tp.Verifier(clf, LINF, epsilon=0.01, timeout=0).verdict(X[0]) == tp.Verdict(U, U, U, None)


def test_no_rows_have_no_verdicts() -> None:
    clf, X, y = trained()
    assert len(tp.Verifier(clf, LINF, epsilon=0.1).verdicts(X[:0], y[:0])) == 0


def test_a_witness_does_not_change_with_the_callers_array() -> None:
    clf, X, _ = trained()
    verifier = tp.Verifier(clf, tp.Attacker.linf(0.3))
    row = X[0].copy()
    witness = verifier.verdict(row).witness
    row[:] = 9.0
    assert witness is not None and witness.x.tolist() == X[0].tolist()


# --- soundness -------------------------------------------------------------------------------------------------------


class Whimsical:
    """A library's model that gives all rows of a call the label of the first, once it is told to."""

    def __init__(self, model: Any) -> None:
        self.model, self.whims = model, False

    def predict(self, X: np.ndarray) -> np.ndarray:
        labels = self.model.predict(X)
        return np.repeat(labels[:1], len(labels)) if self.whims else labels


def test_every_counterexample_is_replayed_on_the_librarys_model() -> None:
    clf, X, _ = trained()
    source = Whimsical(clf)
    verifier = tp.Verifier(dataclasses.replace(tp.from_model(clf), source=source), tp.Attacker.linf(0.3))
    assert verifier.verdict(X[0]).stability == R
    source.whims = True
    with pytest.raises(tp.SoundnessError, match="row 0: the search found a counterexample that does not change the"):
        verifier.verdict(X[0])


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5] * 29, r"a row must be a list of 30 values, one per feature of the model, got shape \(29,\)"),
        ([[0.5] * 30], r"got shape \(1, 30\); for several rows, ask for several"),
        (0.5, r"got shape \(\)"),
        (None, r"got shape \(\)"),
        ("text", r"got shape \(\)"),
        ([[0.5], [0.5, 0.5]], "a row must be a list of 30 values: .*inhomogeneous"),
        (["text"] * 30, "row 0, column 0: 'text' is not a number"),
        ([1j] * 30, "X must contain only numbers: complex numbers have no order"),
        ([np.inf] + [0.5] * 29, "row 0, column 0: inf is outside the range that the model accepts"),
        ([2.0] + [0.5] * 29, "row 0, column 0: 2.0 lies outside the domain"),
    ],
)
def test_what_is_not_a_row_is_refused_in_one_line(row: Any, message: str) -> None:
    verifier = tp.Verifier(trained()[0], tp.Attacker.linf(0.1, domain=(0, 1)))
    with pytest.raises(tp.InvalidInput, match=message) as error:
        verifier.verdict(row)
    assert "\n" not in str(error.value)


def test_labels_are_checked() -> None:
    clf, X, y = trained()
    verifier = tp.Verifier(clf, LINF)
    with pytest.raises(tp.InvalidInput, match="the model does not know the label 'benign'; it predicts"):
        verifier.verdict(X[0], "benign")
    with pytest.raises(tp.InvalidInput, match="X has 3 rows and y has 2 labels; give one label per row"):
        verifier.verdicts(X[:3], y[:2])


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"attacker": 0.1}, "attacker must be a treeproof.Attacker, got float"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": [0.1, 0.1]}, "epsilon has 2 entries, but the model has 30 features"),
        ({"timeout": -1}, "timeout must be at least 0, got -1"),
        ({"voting": "loud"}, "voting"),
    ],
)
def test_settings_are_refused_before_any_row(given_settings: dict[str, Any], message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.Verifier(trained()[0], **{"attacker": LINF, **given_settings})


def test_rows_of_frames_have_their_columns_compared() -> None:
    _, X, y = trained()
    frame = pd.DataFrame(X, columns=[f"c{f}" for f in range(30)])
    clf = RandomForestClassifier(5, max_depth=3, random_state=0).fit(frame, y)
    verifier = tp.Verifier(clf, tp.Attacker.linf(0.3, features=["c7"]))
    assert in_full(verifier.verdict(frame.iloc[3])) == in_full(verifier.verdict(X[3]))
    with pytest.raises(tp.InvalidInput, match="the columns of X are not in the model's order"):
        verifier.verdict(frame[frame.columns[::-1]].iloc[3])


# --- threads ---------------------------------------------------------------------------------------------------------


def test_threads_may_share_a_verifier() -> None:
    clf, X, _ = trained()
    verifier = tp.Verifier(clf, LINF, epsilon=0.01)
    expected = [in_full(verifier.verdict(x)) for x in X]
    assert {one[0] for one in expected} == {P, R}
    filters = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: in_full(verifier.verdict(X[i % len(X)])), range(5 * len(X))))
    assert found == 5 * expected
    assert list(warnings.filters) == filters, "replays change the warnings of the process for a while, in turn"


def test_a_quick_row_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clf, X, _ = trained()
    verifier = tp.Verifier(clf, LINF, epsilon=0.001)
    guard = tp.GuardedClassifier(tp.from_model(clf), LINF).fit()
    quick = next(x for x in X if verifier.verdict(x).resilience == P)
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    assert verifier.verdict(quick).resilience == P
    assert guard.is_proved([quick])[0]


def test_it_says_what_it_is_bound_to() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    clf = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y)
    said = repr(tp.Verifier(clf, tp.Attacker.linf(0.2), epsilon=0.1))
    assert said.startswith("Verifier(Ensemble(") and "Attacker((-0.2, 0.2)), epsilon=0.1)" in said


def test_a_row_is_a_list_a_series_or_a_frame_of_one_row() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    verifier = tp.Verifier(RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y), tp.Attacker.linf(0.2))
    said = {verifier.verdict(row).stability for row in (X.iloc[:1], X.iloc[0], X.iloc[0].tolist())}
    assert len(said) == 1
    with pytest.raises(InvalidInput, match="this takes one row, got 2"):
        verifier.verdict(X.iloc[:2])
