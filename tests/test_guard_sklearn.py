"""The guard among scikit-learn's tools: its own checks, pipelines, searches, data frames, metadata."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import treeproof as tp
from tests.support.toys import forest, sample
from treeproof.guard import GuardedClassifier

ATTACKER = tp.Attacker.linf(0.05)

SKIPPED = {
    "check_classifiers_train": "wants the class of highest probability in every row, and the guard abstains in some",
}


@parametrize_with_checks(
    [
        GuardedClassifier(DecisionTreeClassifier(random_state=0), tp.Attacker.linf(1e-6)),
        GuardedClassifier(forest(), tp.Attacker.linf(0.01), n_jobs=2),
        GuardedClassifier(forest(n_estimators=3), tp.Attacker((-0.01, 0.01), budget=1), mode="map", max_boxes=2000),
    ],
    # Where the attacker is too weak to matter for the rows of that check, nothing is skipped.
    expected_failed_checks=lambda guard: SKIPPED if isinstance(guard.estimator, RandomForestClassifier) else {},
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("mode", ["online", "map"])
def test_pickles_and_clones(mode: str) -> None:
    X, y = sample(3)
    guard = GuardedClassifier(forest(), ATTACKER, mode=mode).fit(X, y)
    again = pickle.loads(pickle.dumps(guard))
    np.testing.assert_array_equal(again.predict(X), guard.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), guard.predict_proba(X))
    assert again.attacker == ATTACKER
    fresh = clone(guard)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    np.testing.assert_array_equal(fresh.fit(X, y).predict(X), guard.predict(X))


def test_cross_validation_with_abstentions_right_or_wrong() -> None:
    X, y = sample(3)
    guard = GuardedClassifier(forest(), ATTACKER)
    answered = cross_val_score(guard, X, y, cv=3)
    robust = cross_val_score(guard, X, y, cv=3, scoring="accuracy")
    expected = cross_val_score(forest(), X, y, cv=3, scoring=tp.robust_accuracy_scorer(ATTACKER))
    assert (answered > robust).all()
    np.testing.assert_array_equal(robust, expected)
    assert set(cross_val_predict(guard, X, y, cv=3)) == {-1, 0, 1, 2}
    frozen = GuardedClassifier(FrozenEstimator(forest().fit(X, y)), ATTACKER)
    assert np.isfinite(cross_val_score(frozen, X, y, cv=3)).all()
    nothing = cross_val_score(clone(guard).set_params(timeout=0), X, y, cv=3)
    assert all(map(math.isnan, nothing))


def test_a_search_over_the_models_settings_and_the_guards() -> None:
    X, y = sample()
    search = GridSearchCV(
        GuardedClassifier(forest(), ATTACKER, max_boxes=2000),
        {"estimator__max_depth": [1, 3], "mode": ["online", "map"], "attacker": [ATTACKER, tp.Attacker.linf(0.01)]},
        scoring="accuracy",
        cv=3,
    ).fit(X, y)
    results = search.cv_results_
    assert np.isfinite(results["mean_test_score"]).all()
    assert search.best_params_["attacker"] == tp.Attacker.linf(0.01)
    assert search.best_estimator_.estimator_.max_depth == search.best_params_["estimator__max_depth"]
    # A search that was guarded, and a guard around a search.
    inner = GridSearchCV(forest(), {"max_depth": [1, 2]}, cv=3)
    guard = GuardedClassifier(inner, ATTACKER).fit(X, y)
    assert 0 < guard.coverage(X) < 1
    proved = guard.is_proved(X)
    assert (guard.predict(X)[proved] == guard.estimator_.predict(X)[proved]).all()


def test_before_a_scaler_the_attacker_has_the_users_units_and_after_it_scaled_ones() -> None:
    X, y = sample()
    wide = X * [1, 10, 100, 1000]
    around = GuardedClassifier(make_pipeline(StandardScaler(), forest()), tp.Attacker.linf(0.05)).fit(wide, y)
    inside = make_pipeline(StandardScaler(), GuardedClassifier(forest(), tp.Attacker.linf(0.05))).fit(wide, y)
    pipeline = make_pipeline(StandardScaler(), forest()).fit(wide, y)
    scaled = pipeline[0].transform(wide)
    proved = tp.Outcome.PROVED
    expected = tp.verify(pipeline, wide, y, tp.Attacker.linf(0.05)).stability == proved
    assert around.is_proved(wide).tolist() == expected.tolist()
    expected = tp.verify(pipeline[-1], scaled, y, tp.Attacker.linf(0.05)).stability == proved
    assert (inside.predict(wide) != -1).tolist() == expected.tolist()
    assert around.coverage(wide) != inside[-1].coverage(scaled)
    # The same attacker in both units gives the same answers.
    rescaled = [(-0.05 * s, 0.05 * s) for s in pipeline[0].scale_.tolist()]
    same = GuardedClassifier(FrozenEstimator(pipeline), tp.Attacker(rescaled)).fit()
    assert (same.predict(wide) == inside.predict(wide)).mean() > 0.99
    frozen_scaler = make_pipeline(FrozenEstimator(pipeline[0]), FrozenEstimator(pipeline[-1]))
    assert (GuardedClassifier(FrozenEstimator(frozen_scaler), tp.Attacker.linf(0.05)).fit().predict(wide)
            == around.predict(wide)).all()  # fmt: skip


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
@pytest.mark.parametrize("mode", ["online", "map"])
def test_data_frames_and_attackers_by_name(library: str, mode: str) -> None:
    import lightgbm
    import xgboost

    model = {
        "sklearn": forest(),
        "xgboost": xgboost.XGBClassifier(n_estimators=4, max_depth=2),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=4, max_depth=2, learning_rate=0.5, verbose=-1),
    }[library]
    X, y = sample()
    names = ["mean radius", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names)
    by_name = tp.Attacker({"mean radius": (-0.1, 0.1), "c": (0.0, 0.2)}, costs={"c": 2}, budget=2)
    by_index = tp.Attacker([(-0.1, 0.1), (0, 0), (0.0, 0.2), (0, 0)], costs=[1, 1, 2, 1], budget=2)
    plain = GuardedClassifier(model, by_index, mode=mode).fit(X, y)
    guard = GuardedClassifier(model, by_name, mode=mode).fit(frame, y)
    assert guard.feature_names_in_.tolist() == names
    frozen = GuardedClassifier(FrozenEstimator(guard.estimator_), by_name, mode=mode).fit()
    for one in (guard, frozen):
        assert (one.predict(frame) == plain.predict(X)).all() and 0 < one.coverage(frame) < 1
        with pytest.raises(ValueError, match="mean.radius|feature names should match"):
            one.predict(frame.rename(columns={"mean radius": "other"}))
        with pytest.raises(ValueError, match="order"):
            one.predict(frame[names[::-1]])
        with pytest.raises(ValueError, match="now missing|no column"):
            one.predict(frame[names[:3]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert (guard.predict(X) == plain.predict(X)).all()


def test_weights_reach_the_model() -> None:
    X, y = sample()
    weight = np.where(np.arange(len(y)) % 3 == 0, 5.0, 0.1)
    expected = forest().fit(X, y, sample_weight=weight).predict_proba(X)
    guard = GuardedClassifier(forest(), ATTACKER)
    np.testing.assert_array_equal(guard.fit(X, y, sample_weight=weight).predict_proba(X), expected)
    assert (guard.fit(X, y).predict_proba(X) != expected).any()
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GuardedClassifier(forest().set_fit_request(sample_weight=True), ATTACKER)
        np.testing.assert_array_equal(routed.fit(X, y, sample_weight=weight).predict_proba(X), expected)
        np.testing.assert_array_equal(routed.fit(X, y).predict_proba(X), forest().fit(X, y).predict_proba(X))
        scores = cross_val_score(
            routed.set_score_request(sample_weight=True), X, y, cv=3, params={"sample_weight": weight}
        )
        assert np.isfinite(scores).all()
        with pytest.raises(TypeError, match="unexpected argument|sample_weight"):
            GuardedClassifier(forest().set_fit_request(sample_weight=False), ATTACKER).fit(X, y, sample_weight=weight)


def test_data_is_refused_as_in_scikit_learn() -> None:
    X, y = sample()
    guard = GuardedClassifier(tp.RobustTreeClassifier(ATTACKER), ATTACKER)
    broken = X.copy()
    broken[3, 1] = math.nan
    with pytest.raises(ValueError, match="Input X contains infinity"):
        guard.fit(np.where(np.isnan(broken), math.inf, broken), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        guard.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        guard.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="requires y to be passed"):
        guard.fit(X)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        guard.fit(X, np.column_stack((y, y)))
    with pytest.raises(NotFittedError):
        guard.predict(X)
    guard.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but GuardedClassifier is expecting 4 features"):
        guard.predict(X[:, :3])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        guard.coverage(broken)
    with pytest.raises(tp.InvalidInput, match="row 0, column 0: 1e\\+39 is outside the range that the model accepts"):
        GuardedClassifier(FrozenEstimator(forest().fit(X, y)), ATTACKER).fit().predict([[1e39, 0, 0, 0]])
