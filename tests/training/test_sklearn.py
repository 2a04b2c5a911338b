"""Robust models as scikit-learn estimators: its own checks, searches, pickles, and clear refusals."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import treeproof as tp
from tests.support.toys import blobs
from treeproof.training import (
    RobustBoostingClassifier,
    RobustForestClassifier,
    RobustTreeClassifier,
    resilience_scorer,
    robust_accuracy_scorer,
)

ATTACKER = tp.Attacker.linf(0.1)
MODELS = [
    RobustTreeClassifier(ATTACKER),
    RobustForestClassifier(ATTACKER, n_estimators=3, random_state=0),
    RobustBoostingClassifier(ATTACKER, n_estimators=5, random_state=0),
]
NAMES = ["tree", "forest", "boosting"]

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
DRAWN_ROWS = "other rows are drawn from weighted than from repeated ones, as in scikit-learn's own forests"
DRAWN_SETS = "under a budget, the columns by which each row is attacked in a round are drawn, for repeated rows anew"


def skipped(model: Any) -> dict[str, str]:
    """The checks that a model does not pass, and why."""
    if getattr(model, "bootstrap", False) or getattr(model, "subsample", 1.0) < 1:
        return {WEIGHTS: DRAWN_ROWS}
    is_boosted = isinstance(model, RobustBoostingClassifier)
    return {WEIGHTS: DRAWN_SETS} if is_boosted and model.attacker.budget is not None else {}


@parametrize_with_checks(
    [
        RobustTreeClassifier(tp.Attacker.linf(0.01)),
        RobustTreeClassifier(tp.Attacker((-0.05, 0.0), budget=1), criterion="groot", max_features="sqrt"),
        RobustForestClassifier(tp.Attacker.linf(0.01), n_estimators=3, random_state=0),
        RobustForestClassifier(tp.Attacker.linf(0.01), n_estimators=3, bootstrap=False),
        RobustBoostingClassifier(tp.Attacker.linf(0.01), n_estimators=10, subsample=1.0),
        RobustBoostingClassifier(tp.Attacker((-0.05, 0.0), budget=1), n_estimators=10, max_depth=1, learning_rate=0.5),
        RobustBoostingClassifier(tp.Attacker((-0.05, 0.0), budget=1), n_estimators=10, subsample=1.0),
    ],
    expected_failed_checks=skipped,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# --- manners -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_pickles_and_clones(model: Any) -> None:
    X, y = blobs(3)
    model = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.attacker == ATTACKER
    assert (tp.from_model(again).predict(X) == model.predict(X)).all()
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_data_frames_and_labels_of_any_kind(model: Any) -> None:
    import pandas as pd

    X, y = blobs(2)
    frame = pd.DataFrame(X, columns=["age", "income", "c", "d"])
    labels = np.where(y == 1, "yes", "no")
    by_name = tp.Attacker({"age": (-0.5, 0.5), "income": (0.0, 1.0)}, costs={"income": 2}, budget=2)
    model = clone(model).set_params(attacker=by_name, max_depth=3).fit(frame, labels)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.classes_.tolist() == ["no", "yes"]
    ensemble = tp.from_model(model)
    assert ensemble.feature_names == tuple(frame.columns)
    assert (ensemble.predict(frame) == model.predict(frame)).all()
    result = tp.verify(model, frame, labels, by_name)
    by_index = tp.Attacker([(-0.5, 0.5), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0)], costs=[1, 2, 1, 1], budget=2)
    same = clone(model).set_params(attacker=by_index).fit(X, labels)
    np.testing.assert_array_equal(same.predict(X), model.predict(frame))
    assert float(result.robustness) == float(tp.verify(same, X, labels, by_index).robustness)


def test_weights_count_rows() -> None:
    X, y = blobs(3)
    counts = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = RobustTreeClassifier(ATTACKER, max_depth=4).fit(X, y, counts)
    repeated = RobustTreeClassifier(ATTACKER, max_depth=4).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_array_equal(weighted.tree_.threshold, repeated.tree_.threshold)
    np.testing.assert_array_equal(weighted.tree_.scores, repeated.tree_.scores)
    assert weighted.loss_under_attack_ == pytest.approx(repeated.loss_under_attack_)


def test_weights_count_rows_of_boosting() -> None:
    X, y = blobs(3)
    counts = np.random.default_rng(0).integers(0, 4, size=len(X))
    models = [RobustBoostingClassifier(ATTACKER, n_estimators=5, max_depth=3, subsample=1.0) for _ in range(2)]
    weighted = models[0].fit(X, y, counts)
    repeated = models[1].fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-9)
    assert weighted.proved_robust_ == pytest.approx(repeated.proved_robust_)
    assert weighted.loss_under_attack_ == pytest.approx(repeated.loss_under_attack_)


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_weights_of_classes_are_weights_of_their_rows(model: Any) -> None:
    X, y = blobs(2)
    by_class = clone(model).set_params(class_weight={0: 5.0, 1: 1.0}).fit(X, y)
    by_row = clone(model).fit(X, y, np.where(y == 0, 5.0, 1.0))
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    balanced = clone(model).set_params(class_weight="balanced").fit(X[20:], y[20:])
    share = len(y[20:]) / (2 * np.bincount(y[20:]))
    np.testing.assert_array_equal(
        balanced.predict_proba(X), clone(model).fit(X[20:], y[20:], share[y[20:]]).predict_proba(X)
    )
    assert (by_class.predict(X) == 0).sum() >= (clone(model).fit(X, y).predict(X) == 0).sum()


@pytest.mark.parametrize("settings", [{}, {"subsample": 0.5}, {"attacker": tp.Attacker((-0.1, 0.1), budget=1)}])
def test_boosting_is_the_same_for_every_number_of_jobs(settings: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treeproof.training._grow.PARALLEL", 0)
    X, y = blobs(3)
    model = RobustBoostingClassifier(ATTACKER, n_estimators=5, max_depth=3, random_state=5).set_params(**settings)
    scores = [clone(model).set_params(n_jobs=jobs).fit(X, y).decision_function(X) for jobs in (1, 2, 4)]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    if settings:
        assert (clone(model).set_params(random_state=6).fit(X, y).decision_function(X) != scores[0]).any()


@pytest.mark.parametrize("max_bins", [2, 3, 8])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_few_bins_mean_few_thresholds(model: Any, max_bins: int) -> None:
    X, y = blobs(2)
    model = clone(model).set_params(max_bins=max_bins).fit(X, y)
    grid = tp.from_model(model).grid
    assert all(len(grid.cuts_of(f)) <= max_bins - 1 for f in range(4))
    assert max_bins < 8 or model.score(X, y) > 0.7


def test_early_stopping_keeps_the_trees_that_hold_best() -> None:
    X, y = blobs(2)
    settings = {"n_estimators": 60, "learning_rate": 0.5, "max_depth": 3, "random_state": 0}
    model = RobustBoostingClassifier(ATTACKER, early_stopping=True, n_iter_no_change=10, **settings).fit(X, y)
    numbers, scores = zip(*model.validation_scores_, strict=True)
    assert all(number % 5 == 0 for number in numbers) and list(numbers) == sorted(set(numbers))
    assert model.n_estimators_ == numbers[int(np.argmax(scores))]
    assert numbers[-1] < 60 and numbers[-1] - model.n_estimators_ >= 10
    assert tp.from_model(model).n_trees == model.n_estimators_
    everything = RobustBoostingClassifier(ATTACKER, **settings).fit(X, y)
    assert everything.n_estimators_ == 60 and everything.validation_scores_ == []


def test_early_stopping_keeps_the_model_that_it_measured_though_a_class_skipped_a_round() -> None:
    """Training that ends with the best round keeps all of its trees, and must be the same model."""
    rng = np.random.default_rng(9)
    X = rng.integers(0, 3, (60, 2)) / 2
    y = np.digitize(X.sum(axis=1) + rng.normal(size=60) * 0.4, [0.6, 1.5])
    settings = {"learning_rate": 0.9, "max_depth": 1, "subsample": 0.1, "loss": "exponential", "smoothing": 0.0}
    until = {"early_stopping": True, "n_iter_no_change": 30, "random_state": 9, **settings}
    longer = RobustBoostingClassifier(tp.Attacker.linf(1.1), n_estimators=40, **until).fit(X, y)
    numbers, scores = zip(*longer.validation_scores_, strict=True)
    best = numbers[int(np.argmax(scores))]
    shorter = RobustBoostingClassifier(tp.Attacker.linf(1.1), n_estimators=best, **until).fit(X, y)
    assert best < numbers[-1] and shorter.ensemble_.n_trees < 3 * best, "a class skipped a round"
    assert longer.ensemble_.fingerprint == shorter.ensemble_.fingerprint
    np.testing.assert_array_equal(longer.decision_function(X), shorter.decision_function(X))
    assert longer.loss_under_attack_ == shorter.loss_under_attack_


def test_missing_values_and_categories_may_be_held_out() -> None:
    """Which rows are held out is not for users to know, so what they hold must not matter."""
    import pandas as pd

    X, y = blobs(2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["e"] = np.where(np.arange(len(y)) % 2, "x", "y").astype(object)
    attacker = tp.Attacker({"a": (-0.1, 0.1), "e": tp.values("x", "rare")})
    for seed in range(3):
        odd = frame.copy()
        odd.loc[seed, "e"] = "rare"
        odd.loc[seed, "b"] = np.nan
        for model in HOLDING_OUT:
            found = clone(model).set_params(attacker=attacker, random_state=seed, validation_fraction=0.4).fit(odd, y)
            assert len(found.predict(odd)) == len(y)


def test_a_bootstrap_draws_from_rows_that_have_weight() -> None:
    X, y = blobs(2)
    weight = np.zeros(len(X))
    weight[[0, 1]] = 1.0
    forest = RobustForestClassifier(tp.Attacker((0.0, 0.0)), n_estimators=20, random_state=0).fit(X, y, weight)
    assert all(member.tree_.n_node_samples[0] > 0 for member in forest.estimators_)
    assert any(member.get_n_leaves() == 2 for member in forest.estimators_)


def test_limits_on_trees() -> None:
    X, y = blobs(2)
    deep = RobustTreeClassifier(tp.Attacker.linf(0.01)).fit(X, y)
    assert RobustTreeClassifier(tp.Attacker.linf(0.01), max_depth=2).fit(X, y).get_depth() == 2 < deep.get_depth()
    for leaf in (7, 0.1):
        tree = RobustTreeClassifier(tp.Attacker.linf(0.01), min_samples_leaf=leaf).fit(X, y).tree_
        assert tree.n_node_samples[tree.feature < 0].min() >= (7 if leaf == 7 else 12)
    for split in (30, 0.25):
        tree = RobustTreeClassifier(tp.Attacker.linf(0.01), min_samples_split=split).fit(X, y).tree_
        assert tree.n_node_samples[tree.feature >= 0].min() >= 30
    assert deep.tree_.n_node_samples[0] == len(X)


@pytest.mark.parametrize("loss", ["bounded", "logistic", "exponential"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_of_boosting_go_with_its_labels(n_classes: int, loss: str) -> None:
    X, y = blobs(n_classes)
    model = RobustBoostingClassifier(ATTACKER, n_estimators=8, loss=loss).fit(X, y)
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), model.classes_[shares.argmax(axis=1)])
    scores = model.decision_function(X)
    assert scores.shape == ((len(X),) if n_classes == 2 else (len(X), 3))
    np.testing.assert_array_equal(tp.from_model(model).predict(X), model.predict(X))
    if n_classes == 2:
        values = np.unique(shares[:, 1])
        for threshold in [0.3, 0.7, *(values[:-1] + np.diff(values) / 2)[::3].tolist()]:
            cut = tp.from_model(model, threshold=threshold).predict(X)
            np.testing.assert_array_equal(cut, (shares[:, 1] > threshold).astype(int))
    else:
        with pytest.raises(tp.InvalidInput, match="threshold=0.3 decides between 2 classes, but the model has 3"):
            tp.from_model(model, threshold=0.3)


def test_a_pipeline_with_a_scaler_verifies_in_the_users_units() -> None:
    X, y = blobs(2)
    pipe = make_pipeline(StandardScaler(), RobustTreeClassifier(ATTACKER, max_depth=3)).fit(X * 10, y)
    assert (tp.from_model(pipe).predict(X * 10) == pipe.predict(X * 10)).all()
    assert tp.verify(pipe, X * 10, y, tp.Attacker.linf(0.5)).robustness.exact


# --- searches and scorers ----------------------------------------------------------------------------------------


def test_a_search_selects_for_exact_robustness_and_resilience() -> None:
    X, y = blobs(2)
    attacker = tp.Attacker((-0.5, 0.0), budget=1)
    search = GridSearchCV(
        RobustTreeClassifier(attacker, max_depth=3),
        {"attacker": [tp.Attacker((0.0, 0.0)), attacker], "criterion": ["treant", "groot"]},
        scoring={"r": robust_accuracy_scorer(attacker), "R": resilience_scorer(attacker, 0.1)},
        refit="r",
        cv=3,
    ).fit(X, y)
    results = search.cv_results_
    assert np.isfinite(results["mean_test_r"]).all()
    assert (results["mean_test_R"] <= results["mean_test_r"]).all()
    assert search.best_params_["attacker"] == attacker
    assert (tp.from_model(search).predict(X) == search.predict(X)).all()


@pytest.mark.parametrize("voting", [None, "hard"])
def test_scorers_say_what_verify_says(voting: str | None) -> None:
    X, y = blobs(3)
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    attacker = tp.Attacker.linf(0.2)
    result = tp.verify(forest, X, y, attacker, epsilon=0.1, voting=voting)
    robust, resilient = robust_accuracy_scorer(attacker, voting=voting), resilience_scorer(attacker, 0.1, voting=voting)
    assert robust(forest, X, y) == float(result.robustness)
    assert resilient(forest, X, y) == float(result.resilience)
    weight = np.arange(len(X))
    proved = result.robustness_outcomes == tp.Outcome.PROVED
    assert robust(forest, X, y, sample_weight=weight) == pytest.approx(np.average(proved, weights=weight))
    again = pickle.loads(pickle.dumps(robust))
    assert again(forest, X, y) == robust(forest, X, y)
    assert np.isfinite(cross_val_score(forest, X, y, scoring=robust, cv=3)).all()


def test_a_row_without_proof_does_not_count() -> None:
    X, y = blobs(2)
    tree = RobustTreeClassifier(ATTACKER).fit(X, y)
    assert robust_accuracy_scorer(ATTACKER, timeout=0)(tree, X, y) == 0
    strange = np.where(np.arange(len(y)) < 60, y, 7)
    score = robust_accuracy_scorer(ATTACKER)
    assert score(tree, X, strange) == score(tree, X[:60], y[:60]) / 2


def test_scorers_refuse_what_they_cannot_use() -> None:
    X, y = blobs(2)
    tree = RobustTreeClassifier(ATTACKER).fit(X, y)
    with pytest.raises(tp.InvalidInput, match="attacker must be a treeproof.Attacker, got float"):
        robust_accuracy_scorer(0.1)  # type: ignore[arg-type]
    with pytest.raises(tp.InvalidInput, match="epsilon is None; give the size"):
        resilience_scorer(ATTACKER, None)
    with pytest.raises(tp.InvalidInput, match="X has 120 rows, y has 3 labels and there are 3 weights"):
        robust_accuracy_scorer(ATTACKER)(tree, X, y[:3])
    with pytest.raises(tp.InvalidInput, match="X has no rows to score"):
        robust_accuracy_scorer(ATTACKER)(tree, X[:0], y[:0])


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attacker": 0.1}, "attacker must be a treeproof.Attacker, got float"),
        ({"attacker": tp.Attacker([(0, 1), (0, 1)])}, "attacker has 2 features, model has 4"),
        ({"attacker": tp.Attacker({"age": (0, 1)})}, "the model has no feature names; give an index instead of 'age'"),
        ({"attacker": tp.Attacker({9: (0, 1)})}, "feature 9 is out of range"),
        ({"attacker": tp.Attacker.lp(2, 0.1)}, r"not Attacker.lp\(2, 0.1\); Attacker.linf\(0.1\) is the nearest"),
        ({"epsilon": -0.1}, "epsilon must be at least 0, got -0.1"),
        ({"epsilon": [0.1, 0.2]}, "epsilon has 2 entries, but the model has 4 features"),
        ({"max_bins": 1}, "max_bins must be a whole number of at least 2, got 1"),
        ({"max_bins": 10**5}, "max_bins must be at most 65534, got 100000"),
        ({"min_weight_fraction_leaf": 0.6}, "min_weight_fraction_leaf must be a number from 0 to 0.5, got 0.6"),
        ({"class_weight": {0: -1.0, 1: 2.0}}, "class_weight has a weight of -1.0; weights must be"),
        ({"max_depth": 0}, "max_depth must be a whole number of at least 1, got 0; None means no limit"),
        ({"max_depth": 2.5}, "max_depth must be a whole number"),
        ({"max_depth": True}, "max_depth must be a whole number"),
        ({"min_samples_split": 1}, "min_samples_split must be a whole number of at least 2"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be a whole number of at least 1"),
        ({"min_samples_leaf": 1.5}, "min_samples_leaf must be .* got 1.5; or give a share of the rows between 0 and 1"),
        ({"max_features": 5}, "max_features must be .* from 1 to 4, got 5"),
        ({"max_features": "all"}, "max_features must be .* got 'all'"),
        ({"max_features": 0.0}, "max_features must be .* got 0.0"),
    ],
)
def test_settings_are_refused_in_one_line(model: Any, settings: dict, message: str) -> None:
    X, y = blobs(2)
    with pytest.raises(tp.InvalidInput, match=message) as refusal:
        clone(model).set_params(**settings).fit(X, y)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
        ({"bootstrap": "yes"}, "bootstrap must be True or False, got 'yes'"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers"),
        ({"criterion": "gini"}, "criterion must be one of 'treant', 'groot', got 'gini'"),
        ({"select": "votes"}, "select must be None or one of 'robustness', 'resilience', got 'votes'"),
        ({"select": 1}, "select must be None or one of 'robustness', 'resilience', got 1"),
        ({"select": "resilience"}, "select='resilience' needs epsilon, the size of neighbourhoods"),
        ({"select": "robustness", "validation_fraction": 0}, "validation_fraction must lie between 0 and 1"),
    ],
)
def test_settings_of_forests_are_refused(settings: dict, message: str) -> None:
    X, y = blobs(2)
    with pytest.raises(tp.InvalidInput, match=message) as refusal:
        RobustForestClassifier(ATTACKER, **settings).fit(X, y)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"learning_rate": 1.5}, "learning_rate must be a number from 0 to 1, got 1.5"),
        ({"learning_rate": "fast"}, "learning_rate must be a number from 0 to 1, got 'fast'"),
        (
            {"class_weight": [1, 2]},
            "class_weight must be None, 'balanced' or a dict of weights by class, got .1",
        ),
        ({"loss": "hinge"}, "loss must be one of 'bounded', 'logistic', 'exponential', got 'hinge'"),
        ({"subsample": 0.0}, "subsample must be above 0"),
        ({"smoothing": -0.1}, "smoothing must be a number from 0 to 1, got -0.1"),
        ({"early_stopping": 1}, "early_stopping must be True or False, got 1"),
        ({"early_stopping": True, "validation_fraction": 1.0}, "validation_fraction must lie between 0 and 1, got 1"),
        ({"early_stopping": True, "validation_fraction": 0.001}, "validation_fraction=0.001 cannot hold out rows"),
        ({"early_stopping": True, "validation_fraction": 2}, "validation_fraction must be a number from 0 to 1, got 2"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number of at least 1, got 0"),
    ],
)
def test_settings_of_boosting_are_refused(settings: dict, message: str) -> None:
    X, y = blobs(2)
    with pytest.raises(tp.InvalidInput, match=message) as refusal:
        RobustBoostingClassifier(ATTACKER).set_params(**settings).fit(X, y)
    assert "\n" not in str(refusal.value)


HOLDING_OUT = [
    RobustForestClassifier(ATTACKER, n_estimators=3, select="robustness", random_state=0),
    RobustBoostingClassifier(ATTACKER, n_estimators=5, early_stopping=True, random_state=0),
]


@pytest.mark.parametrize("model", MODELS + HOLDING_OUT, ids=[*NAMES, "forest, chosen", "boosting, stopped early"])
def test_data_is_refused_as_in_scikit_learn(model: Any) -> None:
    X, y = blobs(2)
    model = clone(model)
    broken, endless = X.copy(), X.copy()
    broken[3, 1], endless[3, 1] = math.nan, math.inf
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.fit(endless, y)
    with pytest.raises(ValueError, match="y has only one class, 1; training needs at least two"):
        model.fit(X, np.ones(len(X), dtype=int))
    with pytest.raises(ValueError, match="sample_weight of row 0 is -1.0; weights must be at least 0"):
        model.fit(X, y, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="every row has a weight of 0|at least one non-zero"):
        model.fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="add up to inf; scale them down"):
        model.fit(X, y, sample_weight=np.full(len(X), 1e308))
    with pytest.raises(ValueError, match="add up to .*e-31[0-9]; scale them up"):
        model.fit(X, y, sample_weight=np.full(len(X), 1e-320))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, y + 0.5 * X[:, 0])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(tp.InvalidInput, match="is not fitted; call fit first"):
        tp.from_model(model)
    model.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but .* is expecting 4 features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.predict(endless)
    # A model that was trained without missing values does not know where they go.
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(broken)
    assert len(model.fit(broken, y).predict(broken)) == len(X)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.predict(endless)


def test_a_subclass_with_a_predict_of_its_own_is_refused() -> None:
    class Contrary(RobustTreeClassifier):
        def predict(self, X: Any) -> Any:
            return 1 - super().predict(X)

    X, y = blobs(2)
    with pytest.raises(tp.UnsupportedModel, match="Contrary has a predict of its own"):
        tp.from_model(Contrary(ATTACKER).fit(X, y))


def test_other_classes_of_treeproof_are_not_models() -> None:
    with pytest.raises(tp.UnsupportedModel, match="Attacker is not a tree model"):
        tp.from_model(ATTACKER)
