"""Robust trees and forests as scikit-learn estimators: its own checks, searches, pickles, and clear refusals."""

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
from treeproof.training import RobustForestClassifier, RobustTreeClassifier, resilience_scorer, robust_accuracy_scorer

ATTACKER = tp.Attacker.linf(0.1)
MODELS = [
    RobustTreeClassifier(ATTACKER),
    RobustForestClassifier(ATTACKER, n_estimators=3, random_state=0),
]
NAMES = ["tree", "forest"]

SKIPPED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a bootstrap draws other rows from weighted than from repeated ones, as in scikit-learn's own forests"
    ),
}


@parametrize_with_checks(
    [
        RobustTreeClassifier(tp.Attacker.linf(0.01)),
        RobustTreeClassifier(tp.Attacker((-0.05, 0.0), budget=1), criterion="groot", max_features="sqrt"),
        RobustForestClassifier(tp.Attacker.linf(0.01), n_estimators=3, random_state=0),
        RobustForestClassifier(tp.Attacker.linf(0.01), n_estimators=3, bootstrap=False),
    ],
    expected_failed_checks=lambda model: SKIPPED if getattr(model, "bootstrap", False) else {},
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
        ({"criterion": "gini"}, "criterion must be one of 'treant', 'groot', got 'gini'"),
        ({"max_depth": 0}, "max_depth must be a whole number of at least 1, or None for no limit, got 0"),
        ({"max_depth": 2.5}, "max_depth must be a whole number"),
        ({"max_depth": True}, "max_depth must be a whole number"),
        ({"min_samples_split": 1}, "min_samples_split must be a whole number of at least 2"),
        ({"min_samples_leaf": 0}, "min_samples_leaf must be a whole number of at least 1"),
        ({"min_samples_leaf": 1.5}, "min_samples_leaf must be .* or a share of the rows between 0 and 1, got 1.5"),
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
    ],
)
def test_settings_of_forests_are_refused(settings: dict, message: str) -> None:
    X, y = blobs(2)
    with pytest.raises(tp.InvalidInput, match=message):
        RobustForestClassifier(ATTACKER, **settings).fit(X, y)


@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_data_is_refused_as_in_scikit_learn(model: Any) -> None:
    X, y = blobs(2)
    model = clone(model)
    broken = X.copy()
    broken[3, 1] = math.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.fit(broken, y)
    with pytest.raises(ValueError, match="y has only one class, 1; training needs at least two"):
        model.fit(X, np.ones(len(X), dtype=int))
    with pytest.raises(ValueError, match="sample_weight of row 0 is -1.0; weights must be at least 0"):
        model.fit(X, y, sample_weight=-np.ones(len(X)))
    with pytest.raises(ValueError, match="sample_weight is 0 for every row|at least one non-zero"):
        model.fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="sample_weight adds up to inf"):
        model.fit(X, y, sample_weight=np.full(len(X), 1e308))
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
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(broken)


def test_a_subclass_with_a_predict_of_its_own_is_refused() -> None:
    class Contrary(RobustTreeClassifier):
        def predict(self, X: Any) -> Any:
            return 1 - super().predict(X)

    X, y = blobs(2)
    with pytest.raises(tp.UnsupportedModel, match="Contrary has a predict of its own"):
        tp.from_model(Contrary(ATTACKER).fit(X, y))


def test_other_classes_of_treeproof_are_no_models() -> None:
    with pytest.raises(tp.UnsupportedModel, match="Attacker is not a tree model"):
        tp.from_model(ATTACKER)
