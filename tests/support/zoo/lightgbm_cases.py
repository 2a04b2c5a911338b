"""LightGBM models of every kind that treeproof reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np

import treeproof as tp
from tests.support.zoo.case import Case, _import_object

_TINY = {"num_leaves": 12, "min_child_samples": 5, "verbose": -1}


def noisy(y: np.ndarray) -> np.ndarray:
    """Labels that training fits for a while and then fits too well."""
    return np.where(np.arange(len(y)) % 4 == 0, y[::-1], y)


def classifier(*, early: bool = False, **settings: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        chosen = {"n_estimators": 25, "n_jobs": 1, "random_state": 0, **_TINY, **settings}
        extra: dict[str, Any] = {}
        if early:
            extra = {"eval_set": [(X, noisy(y))], "callbacks": [lgb.early_stopping(4, verbose=False)]}
        return lgb.LGBMClassifier(**chosen).fit(X, y, **extra)

    return fit


def booster(*, early: bool = False, rounds: int = 25, **settings: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        params = {"num_threads": 1, "seed": 0, **_TINY, **settings}
        if settings["objective"] != "binary":
            params["num_class"] = len(np.unique(y))
        train = lgb.Dataset(X, y)
        extra: dict[str, Any] = {}
        if early:
            valid = lgb.Dataset(X, noisy(y), reference=train)
            extra = {"valid_sets": [valid], "callbacks": [lgb.early_stopping(4, verbose=False)]}
        return lgb.train(params, train, rounds, **extra)

    return fit


def categorical(**settings: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Feature 2 as a category, its numbers shifted to start at 0."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        codes = np.column_stack((X[:, :2], X[:, 2] + 3, X[:, 3:]))
        params = {"min_data_per_group": 2, "cat_smooth": 0.5, "max_cat_to_onehot": 2, **_TINY, **settings}
        model = lgb.LGBMClassifier(n_estimators=20, n_jobs=1, random_state=0, **params)
        return model.fit(codes, y, categorical_feature=[2])

    return fit


def raw_scores(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X, raw_score=True)


def averaged_scores(model: Any, X: np.ndarray) -> np.ndarray:
    """A random forest decides on the average; `raw_score` shows the sum."""
    return model.predict(X, raw_score=True) / getattr(model, "booster_", model).current_iteration()


def booster_labels(model: Any, X: np.ndarray) -> np.ndarray:
    predicted = model.predict(X)
    return predicted.argmax(axis=1) if predicted.ndim == 2 else (predicted > 0.5).astype(int)


def through_file(model: Any, folder: Path) -> tp.Ensemble:
    path = folder / "model.txt"
    getattr(model, "booster_", model).save_model(path)
    return tp.load_model(path)


def _case(name: str, fit: Any, n_classes: int = 2, load: Any = _import_object, **rest: Any) -> Case:
    return Case(name, fit, n_classes, load, **{"scores": raw_scores, **rest})


def _booster_case(name: str, fit: Any, n_classes: int = 2, load: Any = _import_object, **rest: Any) -> Case:
    return _case(name, fit, n_classes, load, predict=booster_labels, **rest)


_RF = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}
_OVA = {"objective": "multiclassova"}

CASES: list[Case] = [
    _case("binary", classifier()),
    _case("binary-missing", classifier(), missing=True),
    _case("binary-sigmoid", classifier(sigmoid=2.5)),
    _case("binary-unbalanced", classifier(is_unbalance=True, boost_from_average=False)),
    _case("binary-strings", classifier(), labels=("benign", "malicious")),
    _case("binary-dart", classifier(boosting_type="dart", drop_rate=0.4), missing=True),
    _case("binary-rf", classifier(**_RF), scores=averaged_scores),
    _case("binary-rf-missing", classifier(**_RF, sigmoid=0.7), missing=True, scores=averaged_scores),
    _case("binary-goss", classifier(data_sample_strategy="goss", learning_rate=0.3)),
    _case("binary-early", classifier(early=True, n_estimators=80, learning_rate=0.1)),
    _case("binary-extra-trees", classifier(extra_trees=True)),
    _case("binary-no-missing", classifier(use_missing=False), missing=True),
    _case("binary-zero-missing", classifier(zero_as_missing=True), missing=True),
    _case("three", classifier(), 3),
    _case("three-missing", classifier(), 3, missing=True),
    _case("three-strings", classifier(), 3, labels=("a", "b", "c")),
    _case("three-negative-labels", classifier(), 3, labels=(-7, 0, 12)),
    _case("three-ova", classifier(**_OVA), 3),
    _case("three-ova-sigmoid", classifier(**_OVA, sigmoid=1.7), 3, missing=True),
    _case("three-dart", classifier(boosting_type="dart", drop_rate=0.4), 3),
    _case("three-rf", classifier(**_RF), 3, scores=averaged_scores),
    _case("three-goss", classifier(data_sample_strategy="goss", learning_rate=0.3), 3),
    _case("three-early", classifier(early=True, n_estimators=80, learning_rate=0.1), 3),
    _case("three-zero-missing", classifier(zero_as_missing=True), 3, missing=True),
    _case("two-multiclass", classifier(objective="multiclass", num_class=2)),
    _case("categorical", categorical()),
    _case("categorical-missing", categorical(), 3, missing=True),
    _case("categorical-zero-missing", categorical(zero_as_missing=True), missing=True),
    _case("file", classifier(), load=through_file, missing=True),
    _case("file-three", classifier(), 3, load=through_file),
    _case("file-ova", classifier(**_OVA), 3, load=through_file),
    _case("file-rf", classifier(**_RF), load=through_file, scores=averaged_scores),
    _case("file-dart", classifier(boosting_type="dart", drop_rate=0.4), load=through_file),
    _case("file-early", classifier(early=True, n_estimators=80, learning_rate=0.1), load=through_file),
    _case("file-categorical", categorical(), load=through_file, missing=True),
    _booster_case("booster", booster(objective="binary"), missing=True),
    _booster_case(
        "booster-rf",
        booster(objective="binary", boosting="rf", bagging_fraction=0.6, bagging_freq=1),
        scores=averaged_scores,
    ),
    _booster_case("booster-three", booster(objective="multiclass"), 3),
    _booster_case("booster-ova", booster(objective="multiclassova"), 3),
    _booster_case("booster-early", booster(objective="binary", early=True, rounds=80, learning_rate=0.1)),
    _booster_case("booster-file", booster(objective="multiclass", early=True, rounds=80), 3, load=through_file),
]
