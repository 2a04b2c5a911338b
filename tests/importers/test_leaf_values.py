"""Scores that are written into a library's model arrive at the leaves that they are for, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.toys import blobs, forest
from treeproof.importers.leaf_values import LeafWriter
from treeproof.model.agreement import check_agreement, probe_rows


def _xgboost(**more: Any) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(**{"n_estimators": 5, "max_depth": 3, "n_jobs": 1, **more})


def _stopped_xgboost() -> Any:
    """Of its trees, only those up to the best iteration predict."""
    model = _xgboost(n_estimators=30, early_stopping_rounds=2, learning_rate=1.0)
    fit = model.fit
    model.fit = lambda X, y: (fit(X, y, eval_set=[(X[::3] + 0.5, y[::3])], verbose=False), vars(model).pop("fit"))[0]
    return model


def _lightgbm(**more: Any) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=5, num_leaves=6, min_child_samples=5, verbose=-1, n_jobs=1, **more)


def _catboost(**more: Any) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(iterations=5, depth=3, verbose=0, allow_writing_files=False, **more)


MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": forest,
    "extra trees": lambda: ExtraTreesClassifier(5, max_depth=4, random_state=0),
    "bagging": lambda: BaggingClassifier(n_estimators=5, max_features=0.6, max_samples=0.1, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=5, learning_rate=0.3, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5, random_state=0),
    "xgboost": _xgboost,
    "stopped xgboost": _stopped_xgboost,
    "xgboost's dart": lambda: _xgboost(booster="dart", rate_drop=0.5),
    "xgboost's forest": lambda: _xgboost(n_estimators=1, num_parallel_tree=4, subsample=0.5),
    "lightgbm": _lightgbm,
    "lightgbm's forest": lambda: _lightgbm(boosting_type="rf", bagging_fraction=0.5, bagging_freq=1),
    "catboost": _catboost,
    "catboost's leafwise": lambda: _catboost(grow_policy="Lossguide"),
    "scaled": lambda: make_pipeline(StandardScaler(), forest()),
    "binned": lambda: make_pipeline(KBinsDiscretizer(4, encode="ordinal", subsample=None), forest()),
    "search": lambda: GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [2, 3]}, cv=2),
    "votes": lambda: VotingClassifier(
        [("a", forest()), ("b", DecisionTreeClassifier(max_depth=3))], voting="soft", weights=[1, 2]
    ),
}
BINARY: dict[str, Callable[[], Any]] = {
    "cut of a forest": lambda: FixedThresholdClassifier(forest(), threshold=0.3, response_method="predict_proba"),
    "cut of boosting": lambda: FixedThresholdClassifier(_xgboost(), threshold=0.3, response_method="predict_proba"),
    "tuned": lambda: TunedThresholdClassifierCV(forest(), cv=2),
}
CHOICES = [*((name, 2) for name in (*MODELS, *BINARY)), *((name, 3) for name in MODELS)]


def random_scores(writer: LeafWriter, seed: int = 0) -> np.ndarray:
    """Other scores for all leaves, as the library keeps them."""
    ensemble, rng = writer.ensemble, np.random.default_rng(seed)
    scores = np.where(writer.factor != 0, rng.random(ensemble.leaf_scores.shape), 0.0)
    if writer.are_shares and ensemble.n_scores > 1:
        scores /= scores.sum(axis=1, keepdims=True)
    return scores.astype(ensemble.leaf_scores.dtype).astype(np.float64)


@pytest.mark.parametrize(("name", "n_classes"), CHOICES, ids=lambda value: str(value))
def test_every_score_arrives(name: str, n_classes: int) -> None:
    X, y = blobs(n_classes)
    model = (MODELS | BINARY)[name]().fit(X, y)
    ensemble = tp.from_model(model)
    writer = LeafWriter.of(model, ensemble)
    scores = random_scores(writer)
    other = writer.written(scores)
    assert type(other) is type(model)
    assert tp.from_model(model).fingerprint == ensemble.fingerprint, "the model itself was changed"
    arrived = tp.from_model(other)
    np.testing.assert_allclose(arrived.leaf_scores, scores, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(arrived.threshold, ensemble.threshold)
    # The library itself computes with them.
    check_agreement(arrived, probe_rows(arrived, 400))
    assert (np.asarray(other.predict(X)).reshape(-1) != np.asarray(model.predict(X)).reshape(-1)).any()
    again = LeafWriter.of(other, arrived).written(ensemble.leaf_scores.astype(np.float64))
    np.testing.assert_allclose(tp.from_model(again).leaf_scores, ensemble.leaf_scores, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_native_boosters() -> None:
    import lightgbm
    import xgboost

    X, y = blobs(2)
    boosters = [
        xgboost.train({"objective": "binary:logistic", "max_depth": 3}, xgboost.DMatrix(X, y), 4),
        lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(X, y), 4),
    ]
    for booster in boosters:
        writer = LeafWriter.of(booster, tp.from_model(booster))
        scores = random_scores(writer)
        other = writer.written(scores)
        assert type(other) is type(booster)
        np.testing.assert_allclose(tp.from_model(other).leaf_scores, scores, rtol=1e-6)


def test_frozen_models() -> None:
    X, y = blobs(2)
    model = FrozenEstimator(forest().fit(X, y))
    writer = LeafWriter.of(model, tp.from_model(model))
    scores = random_scores(writer)
    np.testing.assert_allclose(tp.from_model(writer.written(scores)).leaf_scores, scores)


def test_models_whose_leaves_are_not_written() -> None:
    X, y = blobs(2)
    voting = AdaBoostClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(tp.UnsupportedModel, match="leaves of AdaBoostClassifier are not written"):
        LeafWriter.of(voting, tp.from_model(voting))
    robust = tp.RobustTreeClassifier(tp.Attacker.linf(0.1)).fit(X, y)
    with pytest.raises(tp.UnsupportedModel, match="leaves of RobustTreeClassifier are not written"):
        LeafWriter.of(robust, tp.from_model(robust))
    model = forest().fit(X, y)
    other = tp.from_model(RandomForestClassifier(5, max_depth=2, random_state=1).fit(X, y))
    with pytest.raises(tp.UnsupportedModel, match="changes tests"):
        LeafWriter.of(model, other)


def test_what_a_library_makes_of_scores_is_looked_at() -> None:
    """XGBoost keeps float32; what it cannot hold is not taken for written."""
    X, y = blobs(2)
    model = _xgboost().fit(X, y)
    writer = LeafWriter.of(model, tp.from_model(model))
    scores = random_scores(writer)
    scores[0] = 1e300
    with pytest.raises(tp.UnsupportedModel):
        writer.written(scores)
