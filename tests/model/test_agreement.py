"""A verdict is about the library's own model: where that says something else, there is none."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.model.agreement import EVERY, FIRST, SOME, SpotCheck, check_agreement, probe_rows

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
y = np.array([0, 0, 1, 1])
ATTACKER = tp.Attacker.linf(0.1)


WHOSE = (
    r"^(of treeproof's own rows beside thresholds, )?row \d+: the library's own model predicts [01] and treeproof [01]"
)


class Counted:
    """A model of the library that counts the rows it is asked about."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.asked: list[int] = []

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.asked.append(len(X))
        return self.model.predict(X)


@pytest.fixture
def clf() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=0).fit(X, y)


@pytest.fixture
def changed(clf: DecisionTreeClassifier) -> tp.Ensemble:
    """An ensemble whose library model was trained again after it was imported, and now says something else."""
    ensemble = tp.from_model(clf)
    clf.fit(X, 1 - y)
    return ensemble


ASKED: dict[str, Callable[[tp.Ensemble], Any]] = {
    "verify": lambda e: tp.verify(e, X, y, ATTACKER),
    "robustness_radius": lambda e: tp.robustness_radius(e, X, y, ATTACKER),
    "resilience_radius": lambda e: tp.resilience_radius(e, X, y, ATTACKER),
    "resilience_curve": lambda e: tp.resilience_curve(e, X, y, ATTACKER),
    "map in the order of rows": lambda e: tp.StabilityMap.build(e, ATTACKER, order=X),
    "status in a map": lambda e: tp.StabilityMap.build(e, ATTACKER).status(X),
    "resilience in a map": lambda e: tp.StabilityMap.build(e, ATTACKER).resilience(X, y, 0.1),
    "map": lambda e: tp.StabilityMap.build(e, ATTACKER),
    "analyze": lambda e: tp.analyze(e, ATTACKER),
    "cheapest_attack": lambda e: tp.cheapest_attack(e, X, tp.Attacker.lp(1, 1)),
    "counterfactual": lambda e: tp.counterfactual(e, X, to=1, attacker=tp.Attacker.lp(1, 1)),
    "explain": lambda e: tp.explain(e, X),
    "protect": lambda e: tp.protect(e, X, y, ATTACKER),
    "Verifier": lambda e: tp.Verifier(e, ATTACKER),
    "guard": lambda e: tp.GuardedClassifier(e, ATTACKER).fit(),
    "guard with a map": lambda e: tp.GuardedClassifier(e, ATTACKER, mode="map").fit(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_no_verdict_about_a_model_that_says_something_else(ask: Callable, changed: tp.Ensemble) -> None:
    with pytest.raises(tp.SoundnessError, match=WHOSE):
        ask(changed)


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_the_same_model_is_answered_for(ask: Callable, clf: DecisionTreeClassifier) -> None:
    ask(tp.from_model(clf))


def test_message_names_row_values_both_labels_and_what_to_do(changed: tp.Ensemble) -> None:
    with pytest.raises(tp.SoundnessError) as raised:
        check_agreement(changed, X[2:])
    said = str(raised.value)
    assert "row 0: the library's own model predicts 0 and treeproof 1 for [2.0, 1.0] (2 of 2 rows differ)" in said
    assert "import it again" in said


def test_verify_asks_the_library_once_about_the_rows(clf: DecisionTreeClassifier) -> None:
    source = Counted(clf)
    ensemble = tp.from_model(clf)._with(source=source)
    tp.verify(ensemble, X, y, tp.Attacker.linf(0.001))
    assert source.asked == [4]


def test_labels_that_are_not_one_per_row_are_no_agreement(clf: DecisionTreeClassifier) -> None:
    class Columns:
        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.zeros((len(X), 2))

    ensemble = tp.from_model(clf)._with(source=Columns())
    with pytest.raises(tp.SoundnessError, match="cannot be compared"):
        tp.verify(ensemble, X, y, ATTACKER)


def test_forest_with_many_jobs_is_asked_for_sums_in_the_order_of_its_trees() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    labels = rng.integers(2, size=300)
    clf = RandomForestClassifier(40, max_depth=3, random_state=0, n_jobs=4).fit(rows, labels)
    check_agreement(tp.from_model(clf), rng.normal(size=(2000, 4)))


def test_spot_check_asks_about_the_first_rows_and_then_rarely(clf: DecisionTreeClassifier) -> None:
    source = Counted(clf)
    ensemble = tp.from_model(clf)._with(source=source)
    spot = SpotCheck()
    for _ in range(EVERY + FIRST):
        spot.check(ensemble, X[:1])
    assert sum(source.asked) == FIRST + 1
    for _ in range(3):
        spot.check(ensemble, np.repeat(X, EVERY // 2, axis=0))
    assert sum(source.asked) == FIRST + 1 + 3 * SOME


@pytest.mark.parametrize("mode", ["online", "map"])
def test_guard_finds_out_later_that_the_model_was_changed(mode: str, clf: DecisionTreeClassifier) -> None:
    guard = tp.GuardedClassifier(FrozenEstimator(clf), ATTACKER, mode=mode).fit()
    guard.predict(np.repeat(X, FIRST, axis=0))
    clf.fit(X, 1 - y)
    guard.predict(X)
    with pytest.raises(tp.SoundnessError, match="predicts"):
        guard.predict(np.repeat(X, EVERY, axis=0))


def test_guard_without_the_library_compares_nothing(changed: tp.Ensemble) -> None:
    guard = tp.GuardedClassifier(changed.without_source(), ATTACKER).fit()
    assert guard.predict(X).tolist() == y.tolist()


def test_probe_rows_hold_thresholds_their_neighbours_and_missing_values(clf: DecisionTreeClassifier) -> None:
    ensemble = tp.from_model(clf)
    rows = probe_rows(ensemble, 400)
    f = int(ensemble.feature[0])
    cut = ensemble.threshold[0]
    for value in (cut, np.nextafter(cut, 9), np.nextafter(cut, -9), np.nextafter(np.float32(cut), np.float32(9))):
        assert (rows[:, f] == value).any(), value
    assert len(np.unique(rows[:, 1 - f])) > 5, "an untested feature varies too"
    assert np.isnan(rows).any() == ensemble.may_be_missing.any()
    assert np.array_equal(rows, probe_rows(ensemble, 400), equal_nan=True)
    assert len(ensemble.check_rows(rows)) == 400
    assert not np.array_equal(rows, probe_rows(copy.copy(ensemble), 400, seed=1), equal_nan=True)


@pytest.mark.filterwarnings("error")
def test_frames_with_names_and_missing_values_are_compared_without_a_word() -> None:
    frame = pd.DataFrame(X, columns=["a b", "c"])
    frame.iloc[0, 0] = np.nan
    clf = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=1).fit(frame, y)
    result = tp.verify(clf, frame, clf.predict(frame), ATTACKER)
    assert result.accuracy == 1.0
    with pytest.warns(UserWarning, match="1 of 4 row has missing cells"):
        assert len(tp.GuardedClassifier(FrozenEstimator(clf), ATTACKER).fit().predict(frame)) == 4
