"""Cuts other than the library's own: thresholds, calibration, votes, isolation forests, each against its library.

The ground truth is always the library's own `predict`, or its own probabilities compared with the threshold here.
Thresholds are also taken from the probabilities of rows, and a step beside them, so that rows tie with the cut.
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.points import critical_rows
from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.model.agreement import check_agreement, probe_rows
from treeproof.model.score_rule import Decision

Predict = Callable[[np.ndarray], np.ndarray]


def grid_data(n_classes: int = 2, labels: tuple[Any, ...] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four small whole numbers: few cells, so that scores of different rows are often equal."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 5, size=(160, 4)).astype(float)
    signal = X[:, 0] + X[:, 1] - X[:, 2] + rng.normal(size=len(X)) * 1.5
    y = np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal)
    return X, (y if labels is None else np.asarray(labels)[y])


def forest(n: int = 4, **settings: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n, random_state=1, **settings)


def xgboost(**settings: Any) -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1, **settings)


def lightgbm(**settings: Any) -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(
        n_estimators=6, num_leaves=6, min_child_samples=5, learning_rate=0.4, n_jobs=1, verbose=-1, **settings
    )


def catboost(**settings: Any) -> Any:
    return pytest.importorskip("catboost").CatBoostClassifier(
        iterations=6, depth=3, learning_rate=0.4, verbose=0, thread_count=1, allow_writing_files=False, **settings
    )


MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": forest,
    "extra": lambda: ExtraTreesClassifier(4, max_depth=4, random_state=0),
    "bagging": lambda: BaggingClassifier(n_estimators=4, max_features=0.7, random_state=0),
    "adaboost": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0),
    "exponential": lambda: GradientBoostingClassifier(n_estimators=5, loss="exponential", random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5),
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "catboost": catboost,
}


def fit(name: str, X: np.ndarray, y: np.ndarray) -> Any:
    return MODELS[name]().fit(X, y)


def at_least(model: Any, threshold: float) -> Predict:
    """What FixedThresholdClassifier promises, from the library's own probabilities."""
    return lambda rows: np.asarray(model.classes_)[(model.predict_proba(rows)[:, 1] >= threshold).astype(int)]


def assert_same(ensemble: tp.Ensemble, predict: Predict, X: np.ndarray) -> None:
    """Zero differences on data, thresholds, steps beside them, and rows of all kinds; one row at a time too."""
    rng = np.random.default_rng(0)
    near = X[rng.integers(len(X), size=300)] + rng.integers(-1, 2, size=(300, X.shape[1])) / 2
    rows = np.concatenate((critical_rows(ensemble, np.concatenate((X, near))), probe_rows(ensemble, 1000)))
    expected = np.asarray(predict(rows)).reshape(-1)
    differ = np.flatnonzero(ensemble.predict(rows) != expected)
    assert len(differ) == 0, f"{len(differ)} rows differ, first {rows[differ[0]]!r}"
    for row in X[:5]:
        assert ensemble.predict(row.reshape(1, -1)) == predict(row.reshape(1, -1)).reshape(-1)
    check_agreement(ensemble, rows[:2000])


def assert_verdicts(ensemble: tp.Ensemble, predict: Predict, X: np.ndarray, step: float = 1.0) -> None:
    """Stability against the library's own labels of every cell within reach, and witnesses that it confirms."""
    labels = np.asarray(predict(X)).reshape(-1)
    result = tp.verify(ensemble, X, labels, tp.Attacker.linf(step))
    for i, x in enumerate(X):
        reach = []
        for f, value in enumerate(x):
            cuts = ensemble.grid.cuts_of(f)
            reach.append([*cuts[(cuts >= value - step) & (cuts < value + step)], value + step])
        stable = len(set(np.asarray(predict(np.array(list(itertools.product(*reach))))).reshape(-1).tolist())) == 1
        assert result.stability[i] == (tp.Outcome.PROVED if stable else tp.Outcome.REFUTED), f"row {i}"
    broken = result.has_witness
    assert broken.any(), "nothing to replay"
    assert (predict(result.attacked[broken]).reshape(-1) != labels[broken]).all()
    assert sum(tp.check.check_verification(ensemble, result).values()) > 0


# --- threshold= ---


@pytest.mark.parametrize("name", MODELS)
def test_a_threshold_decides_as_the_librarys_own_probabilities_do(name: str) -> None:
    labels = (0, 1) if name == "xgboost" else ("bad", "good")
    X, y = grid_data(labels=labels)
    model = fit(name, X, y)
    some = np.sort(np.unique(model.predict_proba(X)[:, 1]))[[3, -3]].tolist()
    beside = [float(np.nextafter(p, end)) for p in some for end in (0.0, 1.0)]
    seen = set()
    for threshold in (0.2, 0.25, 0.5, *some, *beside):
        ensemble = tp.from_model(model, threshold=threshold)
        assert ensemble.rule.decision == Decision.CUT
        assert ensemble.decision_text == f"label {labels[1]!r} where its probability is at least {threshold!r}"
        assert_same(ensemble, at_least(model, threshold), X)
        seen |= set(ensemble.predict(X).tolist())
    assert seen == set(labels)
    tied = model.predict_proba(X)[:, 1] == some[0]
    assert tied.any() and (tp.from_model(model, threshold=some[0]).predict(X[tied]) == labels[1]).all()


@pytest.mark.parametrize("threshold", [0.0, 1.0, 1e-300, 1 - 2**-53])
@pytest.mark.parametrize("name", MODELS)
def test_thresholds_at_the_ends_may_leave_one_label(name: str, threshold: float) -> None:
    X, y = grid_data()
    model = fit(name, X, y)
    assert_same(tp.from_model(model, threshold=threshold), at_least(model, threshold), X)


@pytest.mark.parametrize("name", ["forest", "boosting", "xgboost", "lightgbm", "catboost"])
def test_verdicts_under_a_threshold_equal_brute_force_with_the_librarys_labels(name: str) -> None:
    X, y = grid_data()
    model = fit(name, X, y)
    threshold = float(np.sort(model.predict_proba(X)[:, 1])[60])
    assert_verdicts(tp.from_model(model, threshold=threshold), at_least(model, threshold), X[:25])


def test_a_forests_tie_goes_to_the_second_class_only_at_a_threshold() -> None:
    X, y = grid_data()
    model = forest().fit(X, y)
    rows = np.array(list(itertools.product(range(5), repeat=4)), dtype=float)
    tied = rows[model.predict_proba(rows)[:, 1] == 0.5]
    assert len(tied) > 10
    assert (tp.from_model(model).predict(tied) == 0).all()
    assert (tp.from_model(model, threshold=0.5).predict(tied) == 1).all()


def test_robust_forests_are_cut_by_their_share_of_votes() -> None:
    X, y = grid_data()
    settings = {"n_estimators": 10, "max_depth": 3, "random_state": 0}
    soft = tp.RobustForestClassifier(tp.Attacker.linf(0.25), **settings).fit(X, y)
    for threshold in np.unique(soft.predict_proba(X)[:, 1])[::7].tolist():
        assert_same(tp.from_model(soft, threshold=threshold), at_least(soft, threshold), X)
    model = tp.RobustForestClassifier(tp.Attacker.linf(0.25), voting="hard", max_features=None, **settings).fit(X, y)
    for threshold in (0.1, 0.3, 0.7):
        assert (model.predict_proba(X)[:, 1] == threshold).any()
        assert_same(tp.from_model(model, threshold=threshold), at_least(model, threshold), X)
        wrapped = FixedThresholdClassifier(FrozenEstimator(model), threshold=threshold, pos_label=0).fit(X, y)
        assert_same(tp.from_model(wrapped), wrapped.predict, X)
    with pytest.raises(UnsupportedModel, match="'r' of the VotingClassifier is a treeproof RobustForestClassifier"):
        tp.from_model(VotingClassifier([("r", model), ("t", DecisionTreeClassifier())], voting="soft").fit(X, y))
    with pytest.raises(InvalidInput, match="treeproof RobustTreeClassifier gives no probabilities"):
        tp.from_model(tp.RobustTreeClassifier(tp.Attacker.linf(0.25), max_depth=2).fit(X, y), threshold=0.3)


@pytest.mark.parametrize("name", ["forest", "xgboost", "lightgbm", "catboost"])
def test_a_pipeline_takes_a_threshold_in_the_users_own_units(name: str) -> None:
    X, y = grid_data()
    model = make_pipeline(StandardScaler(), MODELS[name]()).fit(X, y)
    threshold = float(np.median(model.predict_proba(X)[:, 1]))
    assert_same(tp.from_model(model, threshold=threshold), at_least(model, threshold), X)


def test_a_guard_keeps_the_probabilities_of_a_model_with_a_threshold() -> None:
    X, y = grid_data()
    model = forest().fit(X, y)
    guard = tp.GuardedClassifier(tp.from_model(model, threshold=0.25), tp.Attacker.linf(0.25)).fit()
    assert (guard.predict_proba(X) == model.predict_proba(X)).all()
    answered = guard.is_proved(X)
    assert answered.any() and (guard.predict(X[answered]) == at_least(model, 0.25)(X[answered])).all()


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_boosters_take_a_threshold_too(name: str) -> None:
    X, y = grid_data()
    model = fit(name, X, y)
    booster = model.get_booster() if name == "xgboost" else model.booster_
    ensemble = tp.from_model(booster, threshold=0.3)
    assert_same(ensemble, lambda rows: ensemble.source_labels(rows), X)
    assert (ensemble.predict(X) == at_least(model, 0.3)(X)).all()


def saved(name: str, model: Any, folder: Path) -> Path:
    file = folder / {"xgboost": "model.ubj", "lightgbm": "model.txt", "catboost": "model.json"}[name]
    if name == "catboost":
        model.save_model(str(file), format="json")
    else:
        (model.booster_ if name == "lightgbm" else model).save_model(file)
    return file


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost"])
def test_files_follow_the_librarys_formula_without_the_library(name: str, tmp_path: Path) -> None:
    X, y = grid_data()
    model = fit(name, X, y)
    file = saved(name, model, tmp_path)
    for threshold in (0.2, float(model.predict_proba(X)[7, 1])):
        ensemble = tp.load_model(file, threshold=threshold)
        assert ensemble.source is None
        assert ensemble.fingerprint == tp.from_model(model, threshold=threshold).fingerprint
        assert_same(ensemble, at_least(model, threshold), X)
    named = tp.load_model(file, threshold=0.2, classes=["bad", "good"])
    assert named.decision_text == "label 'good' where its probability is at least 0.2"
    again = tmp_path / "again.json"
    tp.save_model(named, again)
    assert tp.load_model(again).decision_text == named.decision_text
    assert tp.load_model(again).fingerprint == named.fingerprint


@pytest.mark.slow
@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost", "forest"])
def test_a_file_is_confirmed_under_its_threshold(name: str, tmp_path: Path) -> None:
    X, y = grid_data()
    model = fit(name, X, y)
    if name == "forest":
        file = tmp_path / "model.pkl"
        file.write_bytes(pickle.dumps(model))
    else:
        file = saved(name, model, tmp_path)
    tp.load_model(file, threshold=0.3, allow_pickle=True, confirm=True)


def test_catboosts_own_threshold_is_told_and_can_be_replaced() -> None:
    X, y = grid_data()
    model = catboost().fit(X, y)
    assert tp.from_model(model).decision_text == ""
    model.set_probability_threshold(0.3)
    ensemble = tp.from_model(model)
    assert ensemble.decision_text == "label 1 where its probability is above 0.3"
    assert_same(ensemble, model.predict, X)
    assert_same(tp.from_model(model, threshold=0.6), at_least(model, 0.6), X)


def test_what_a_threshold_does_not_fit_is_refused_by_name() -> None:
    X, y = grid_data()
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
    for wrong in (-0.1, 1.1, float("nan"), "0.2", True, [0.2]):
        with pytest.raises(InvalidInput, match="threshold must be a probability from 0 to 1") as caught:
            tp.from_model(tree, threshold=wrong)
        assert caught.value.argument == "threshold"
    with pytest.raises(InvalidInput, match="decides between 2 classes, but the model has 3"):
        tp.from_model(forest().fit(*grid_data(3)), threshold=0.2)
    with pytest.raises(InvalidInput, match="RandomForestClassifier gives no probabilities"):
        tp.from_model(forest().fit(X, y), voting="hard", threshold=0.2)
    with pytest.raises(InvalidInput, match="chosen when a model is imported"):
        tp.from_model(tp.from_model(tree), threshold=0.2)
    own = FixedThresholdClassifier(FrozenEstimator(tree), threshold=0.3).fit(X, y)
    with pytest.raises(InvalidInput, match="already decides in its own way .label 1 where its proba.* 0.3"):
        tp.from_model(own, threshold=0.2)
    with pytest.raises(InvalidInput, match="XGBClassifier gives no probabilities"):
        tp.from_model(xgboost(objective="binary:hinge").fit(X, y), threshold=0.2)


def test_a_saved_model_has_its_threshold_already(tmp_path: Path) -> None:
    X, y = grid_data()
    file = tmp_path / "model.json"
    tp.save_model(tp.from_model(forest().fit(X, y), threshold=0.25), file)
    with pytest.raises(InvalidInput, match="chosen when a model is imported"):
        tp.load_model(file, threshold=0.2)
    text = file.read_text().replace('"class": 1', '"class": 2')
    file.write_text(text)
    with pytest.raises(InvalidInput, match="the class of decided must be a whole number from 0 to 1, got 2"):
        tp.load_model(file)


# --- scikit-learn's wrappers ---


@dataclass(frozen=True)
class Wrapped:
    """A model around models of scikit-learn; `predict` is its own."""

    name: str
    model: Callable[[], Any]
    n_classes: int = 2
    verified: bool = True
    decision: str = ""
    labels: tuple[Any, ...] | None = field(default=None)


def frozen(model: Callable[[], Any], y: Any = None) -> FrozenEstimator:
    X, own = grid_data()
    return FrozenEstimator(model().fit(X, own if y is None else y))


def fixed(name: str, **settings: Any) -> Callable[[], Any]:
    return lambda: FixedThresholdClassifier(MODELS[name](), **settings)


def calibrated(name: str, method: str) -> Callable[[], Any]:
    return lambda: CalibratedClassifierCV(frozen(MODELS[name]), method=method)


def soft(*names: str, weights: Any = None) -> Callable[[], Any]:
    members = [(f"m{i}", name) for i, name in enumerate(names)]
    return lambda: VotingClassifier([(key, MODELS[name]()) for key, name in members], voting="soft", weights=weights)


def several_trees(voting: str, weights: Any = None) -> VotingClassifier:
    trees = [(f"t{i}", DecisionTreeClassifier(max_depth=3, max_features=2, random_state=i)) for i in range(4)]
    return VotingClassifier(trees, voting=voting, weights=weights)


WORDS = ("low", "high")
WRAPPED = [
    *(Wrapped(f"fixed {name}", fixed(name, threshold=0.45), verified=name == "forest") for name in MODELS),
    *(Wrapped(f"calibrated {name} {how}", calibrated(name, how), verified=name in ("forest", "boosting"))
      for name in MODELS for how in ("sigmoid", "isotonic")),
    Wrapped("fixed auto", fixed("forest")),
    Wrapped("fixed first class", fixed("forest", threshold=0.25, pos_label="high"), labels=WORDS,
            decision="label 'high' where its probability is at least 0.25"),
    Wrapped("fixed first class of boosting", fixed("boosting", threshold=0.4, pos_label="high"), labels=WORDS),
    Wrapped("fixed second class", fixed("forest", threshold=0.75, pos_label="low"), labels=WORDS),
    Wrapped("fixed decision", fixed("boosting", threshold=0.1, response_method="decision_function"),
            decision="label 1 where its decision function is at least 0.1"),
    Wrapped("fixed decision of first class",
            fixed("histogram", threshold=0.1, pos_label=0, response_method="decision_function")),
    Wrapped("fixed decision auto", fixed("adaboost", response_method="decision_function")),
    Wrapped("tuned", lambda: TunedThresholdClassifierCV(forest(), scoring="balanced_accuracy", cv=2, thresholds=9)),
    Wrapped("tuned f1", lambda: TunedThresholdClassifierCV(MODELS["boosting"](), scoring="f1", cv=2, thresholds=9)),
    Wrapped("tuned xgboost", lambda: TunedThresholdClassifierCV(xgboost(), scoring="f1", cv=2, thresholds=9)),
    Wrapped("tuned decision", lambda: TunedThresholdClassifierCV(
        MODELS["boosting"](), scoring="balanced_accuracy", response_method="decision_function", cv=2, thresholds=9),
        verified=False),
    Wrapped("calibrated without ensemble", lambda: CalibratedClassifierCV(forest(), ensemble=False, cv=3)),
    Wrapped("calibrated against the score", lambda: CalibratedClassifierCV(frozen(forest, 1 - grid_data()[1]))),
    Wrapped("fixed calibrated", lambda: FixedThresholdClassifier(
        CalibratedClassifierCV(frozen(MODELS["boosting"])), threshold=0.3),
        decision="label 1 where its calibrated probability is at least 0.3"),
    Wrapped("fixed calibrated against the score", lambda: FixedThresholdClassifier(
        CalibratedClassifierCV(frozen(MODELS["boosting"], 1 - grid_data()[1])), threshold=0.3)),
    Wrapped("fixed pipeline", lambda: FixedThresholdClassifier(
        make_pipeline(StandardScaler(), forest()), threshold=0.3)),
    Wrapped("pipeline with fixed", lambda: make_pipeline(MinMaxScaler(), fixed("forest", threshold=0.25)())),
    Wrapped("pipeline with calibrated", lambda: make_pipeline(
        MinMaxScaler(), CalibratedClassifierCV(forest(), ensemble=False, cv=3))),
    Wrapped("search of fixed", lambda: GridSearchCV(fixed("forest")(), {"threshold": [0.25, 0.3]}, cv=2)),
    Wrapped("fixed search", lambda: FixedThresholdClassifier(
        GridSearchCV(forest(), {"max_depth": [2, None]}, cv=2), threshold=0.5)),
    Wrapped("soft trees", lambda: several_trees("soft")),
    Wrapped("soft trees weighted", lambda: several_trees("soft", [0.3, 0.1, 0.7, 0.1]), n_classes=3),
    Wrapped("hard trees", lambda: several_trees("hard"), n_classes=3),
    Wrapped("hard trees weighted", lambda: several_trees("hard", [0.1, 0.2, 0.3, 0.6])),
    Wrapped("soft forests", soft("forest", "extra", "bagging")),
    Wrapped("soft forests of three classes", soft("forest", "extra", "tree"), n_classes=3),
    Wrapped("soft forests weighted", soft("forest", "extra", "bagging", "tree", weights=[0.1, 0.2, 0.7, 0.3])),
    Wrapped("soft forests, one of no weight", soft("forest", "extra", "tree", weights=[1, 0, 2]), n_classes=3),
    Wrapped("soft many", soft(*["forest", "tree", "extra"] * 4), labels=WORDS),
    Wrapped("soft with a pipeline", lambda: VotingClassifier(
        [("a", make_pipeline(MinMaxScaler(), forest())), ("b", forest(3)), ("c", "drop")], voting="soft")),
    Wrapped("fixed soft", lambda: FixedThresholdClassifier(
        soft("forest", "extra", weights=[0.3, 0.4])(), threshold=0.5)),
    Wrapped("fixed soft first class", lambda: FixedThresholdClassifier(
        soft("forest", "bagging")(), threshold=0.5, pos_label=0)),
    Wrapped("calibrated soft", lambda: CalibratedClassifierCV(FrozenEstimator(
        soft("forest", "tree")().fit(*grid_data())))),
    *(Wrapped(f"one against rest {name}", lambda name=name: OneVsRestClassifier(MODELS[name]()), n_classes=3,
              verified=name == "forest") for name in ("tree", "forest", "bagging", "boosting", "histogram")),
    *(Wrapped(f"one against another {name}", lambda name=name: OneVsRestClassifier(MODELS[name]()),
              verified=name == "adaboost") for name in ("forest", "adaboost", "boosting", "xgboost", "catboost")),
]  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in WRAPPED])
def test_wrappers_predict_what_scikit_learn_predicts(case: Wrapped, tmp_path: Path) -> None:
    X, y = grid_data(case.n_classes, case.labels)
    model = case.model().fit(X, y)
    ensemble = tp.from_model(model)
    assert_same(ensemble, model.predict, X)
    assert len(np.unique(ensemble.predict(X))) == case.n_classes
    if case.decision:
        assert ensemble.decision_text == case.decision and case.decision in repr(ensemble)
    tp.save_model(ensemble, tmp_path / "model.json")
    again = tp.load_model(tmp_path / "model.json")
    assert again.fingerprint == ensemble.fingerprint and again.decision_text == ensemble.decision_text
    assert (pickle.loads(pickle.dumps(ensemble)).predict(X) == again.predict(X)).all()
    if case.verified:
        assert_verdicts(ensemble, model.predict, X[:12])


@pytest.mark.parametrize("weights", [None, [0.3, 0.3, 0.1]])
def test_a_vote_that_ties_is_rounded_as_numpy_rounds_it(weights: Any) -> None:
    X, y = grid_data()
    model = soft("forest", "extra", "tree", weights=weights)().fit(X, y)
    rows = np.array(list(itertools.product(range(5), repeat=4)), dtype=float)
    p = model.predict_proba(rows)
    assert (tp.from_model(model).predict(rows) == model.predict(rows)).all()
    np.testing.assert_array_equal(tp.from_model(model).scores(rows), p)
    np.testing.assert_array_equal(np.concatenate([tp.from_model(model).scores(row[None]) for row in rows[:9]]), p[:9])
    for threshold in np.unique(p[:, 1])[::20]:
        assert_same(tp.from_model(model, threshold=threshold), at_least(model, threshold), X)


def test_a_calibrator_may_be_flat_where_it_decides() -> None:
    # Three scores; at the middle one, half of the labels are 1, so that both classes have probability 0.5 there.
    X = np.repeat([[0.0], [1.0], [2.0]], 4, axis=0)
    tree = DecisionTreeClassifier().fit(X, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    model = CalibratedClassifierCV(FrozenEstimator(tree), method="isotonic")
    model.fit(X, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    assert (model.predict_proba([[1.0]]) == 0.5).all()
    assert tp.from_model(model).predict([[0.0], [1.0], [2.0]]).tolist() == [0, 0, 1]
    assert tp.from_model(model, threshold=0.5).predict([[0.0], [1.0], [2.0]]).tolist() == [0, 1, 1]
    assert_same(tp.from_model(model), model.predict, X)


def test_an_unfitted_threshold_around_a_fitted_model_predicts() -> None:
    X, y = grid_data()
    model = FixedThresholdClassifier(forest().fit(X, y), threshold=0.25)
    assert_same(tp.from_model(model), model.predict, X)
    with pytest.raises(InvalidInput, match="RandomForestClassifier is not fitted"):
        tp.from_model(FixedThresholdClassifier(forest()))


THROUGH_SKOPS = ["fixed forest", "calibrated forest sigmoid", "calibrated boosting isotonic", "soft forests",
                 "hard trees", "one against rest forest"]  # fmt: skip


@pytest.mark.parametrize("name", [*THROUGH_SKOPS, "isolation forest"])
def test_wrappers_come_through_skops_files(name: str, tmp_path: Path) -> None:
    dump = pytest.importorskip("skops.io").dump
    case = next((case for case in WRAPPED if case.name == name), Wrapped(name, IsolationForest))
    X, y = grid_data(case.n_classes, case.labels)
    model = case.model().fit(X, y)
    dump(model, tmp_path / "model.skops")
    assert_same(tp.load_model(tmp_path / "model.skops"), model.predict, X)


def calibrator(model: CalibratedClassifierCV) -> Any:
    return model.calibrated_classifiers_[0].calibrators[0]


CHANGED: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "calibrator": ("calibrated forest sigmoid", lambda m: setattr(calibrator(m), "a_", float("nan")), "no sigmoid"),
    "points": ("calibrated forest isotonic",
               lambda m: setattr(calibrator(m), "y_thresholds_", np.array([0.0, 1.0, 0.0])), "no isotonic function"),
    "classes": ("calibrated forest sigmoid", lambda m: setattr(m, "classes_", np.array([1, 0])), "predicts .0, 1."),
    "threshold": ("fixed forest", lambda m: setattr(m, "threshold", float("nan")), "must be a finite number"),
    "positive": ("fixed forest", lambda m: setattr(m, "pos_label", 7), "pos_label=7"),
    "members": ("one against rest forest", lambda m: m.estimators_.pop(), "2 members"),
    "labels": ("soft forests", lambda m: setattr(m.le_, "classes_", np.array([1, 0])), "names its classes"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_fields_that_contradict_each_other_are_refused(name: str) -> None:
    of, change, message = CHANGED[name]
    case = next(case for case in WRAPPED if case.name == of)
    model = case.model().fit(*grid_data(case.n_classes))
    change(model)
    with pytest.raises(InvalidInput, match=message):
        tp.from_model(model)


# --- isolation forests ---

ISOLATION = {
    "auto": {},
    "contamination": {"contamination": 0.1},
    "some columns": {"max_features": 2, "contamination": 0.2},
    "few samples": {"max_samples": 16, "contamination": 0.1},
    "one sample": {"max_samples": 1},
}


@pytest.mark.parametrize("name", ISOLATION)
def test_isolation_forests_add_up_path_lengths(name: str, tmp_path: Path) -> None:
    X, _ = grid_data()
    model = IsolationForest(n_estimators=7, random_state=0, **ISOLATION[name]).fit(X)
    ensemble = tp.from_model(model)
    assert ensemble.classes.tolist() == [-1, 1]
    assert ensemble.decision_text == f"label -1 where its anomaly score is above {-float(model.offset_)!r}"
    assert_same(ensemble, model.predict, X)
    tp.save_model(ensemble, tmp_path / "model.json")
    assert (tp.load_model(tmp_path / "model.json").predict(X) == model.predict(X)).all()


def test_a_row_that_ties_with_the_offset_is_no_outlier() -> None:
    X, _ = grid_data()
    model = IsolationForest(n_estimators=5, random_state=0).fit(X)
    for score in np.unique(model.score_samples(X))[5:60:18]:
        for offset in (score, np.nextafter(score, -1), np.nextafter(score, 0)):
            model.offset_ = offset
            assert offset != score or (model.decision_function(X) == 0).any()
            assert_same(tp.from_model(model), model.predict, X)


def test_an_isolation_forest_is_verified_with_missing_values_and_by_brute_force() -> None:
    X, _ = grid_data()
    model = IsolationForest(n_estimators=5, max_samples=32, contamination=0.2, random_state=0).fit(X)
    assert_verdicts(tp.from_model(model), model.predict, X[:20])
    blank = X.copy()
    blank[::3, 1] = np.nan
    ensemble = tp.from_model(IsolationForest(n_estimators=5, random_state=0).fit(X))
    if ensemble.may_be_missing.any():
        model = IsolationForest(n_estimators=5, contamination=0.2, random_state=0).fit(blank)
        assert_same(tp.from_model(model), model.predict, blank)


# --- refusals ---

REFUSED: dict[str, tuple[Callable[[], Any], int, str]] = {
    "several calibrators": (lambda: CalibratedClassifierCV(forest(), cv=3), 2, "averages 3 models.*ensemble=False"),
    "three classes": (lambda: CalibratedClassifierCV(forest(), cv=3, ensemble=False), 3, "of 3 classes mixes"),
    "boosted vote": (soft("forest", "boosting"), 2, "'m1'.*GradientBoostingClassifier, whose probabilities are no sum"),
    "calibrated vote": (
        lambda: VotingClassifier([("c", CalibratedClassifierCV(forest(), ensemble=False, cv=2))], voting="soft"),
        2, "'c'.*CalibratedClassifierCV"),
    "hard vote of forests": (lambda: VotingClassifier([("f", forest())]), 2, "voting='hard'.*'f' is a RandomForest"),
    "vote of votes": (
        lambda: VotingClassifier([("v", soft("forest", "tree")()), ("t", MODELS["tree"]())], voting="soft"),
        2, "'v' is a VotingClassifier itself"),
    "negative weights": (soft("tree", "forest", weights=[-1, 2]), 2, "weights must be at least 0"),
    "one against rest, boosted": (lambda: OneVsRestClassifier(xgboost()), 3, "not sums over trees of one kind"),
    "one against rest, weighted": (lambda: OneVsRestClassifier(MODELS["adaboost"]()), 3, "not sums over trees"),
    "no decision function": (fixed("forest", threshold=0.1, response_method="decision_function"), 2,
                             "RandomForestClassifier has no decision_function"),
    "one threshold against the rest": (lambda: OneVsRestClassifier(fixed("forest")()), 3, "no predict_proba that"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_function_of_one_sum_is_refused_by_name(name: str) -> None:
    make, n_classes, message = REFUSED[name]
    model = make().fit(*grid_data(n_classes))
    with pytest.raises(UnsupportedModel, match=message) as caught:
        tp.from_model(model)
    assert "\n" not in str(caught.value)


def test_votes_and_isolation_forests_take_no_voting() -> None:
    X, y = grid_data()
    with pytest.raises(InvalidInput, match="leave voting out"):
        tp.from_model(soft("tree")().fit(X, y), voting="hard")
    with pytest.raises(InvalidInput, match="not for IsolationForest"):
        tp.from_model(IsolationForest(n_estimators=2).fit(X), voting="soft")


# --- what people see ---


def test_the_cut_is_shown_wherever_a_result_is() -> None:
    X, y = grid_data(labels=WORDS)
    ensemble = tp.from_model(forest().fit(X, y), threshold=0.2)
    result = tp.verify(ensemble, X[:10], y[:10], tp.Attacker.linf(1.0))
    text = "label 'low' where its probability is at least 0.2"
    assert text in repr(ensemble) and text in repr(result)
    again = tp.Verification.from_json(result.to_json())
    assert again.decision == text and text in repr(again)
    assert "where its probability is at least 0.2" in result._repr_html_()
    wrong = result.to_json().replace(json.dumps(text), "1")
    with pytest.raises(InvalidInput, match="decision has the wrong type: 1"):
        tp.Verification.from_json(wrong)
    plain = tp.verify(tp.from_model(forest().fit(X, y)), X[:10], y[:10], tp.Attacker.linf(1.0))
    assert plain.decision == "" and '"decision": ""' in plain.to_json()


@pytest.mark.slow
def test_the_report_names_the_cut() -> None:
    X, y = grid_data(labels=WORDS)
    ensemble = tp.from_model(forest().fit(X, y), threshold=0.2)
    result = tp.verify(ensemble, X[:10], y[:10], tp.Attacker.linf(1.0))
    assert "where its probability is at least 0.2" in tp.report_html(ensemble, result, max_seconds=1)
