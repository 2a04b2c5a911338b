"""CatBoost models: every class loss, tree shape, label type and door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import numpy as np

import treeproof as tp
from tests.support.zoo.case import Case


def fit(cls: type = catboost.CatBoostClassifier, **options: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    """Trains a small model, 25 trees of depth 3 unless told otherwise."""
    options = {
        "iterations": 25,
        "depth": 3,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
        "random_seed": 0,
    } | options

    def train(X: np.ndarray, y: np.ndarray) -> Any:
        model = cls(options) if cls is catboost.CatBoost else cls(**options)
        return model.fit(X, y)

    return train


def fit_best_iteration(X: np.ndarray, y: np.ndarray) -> Any:
    model = catboost.CatBoostClassifier(
        iterations=60,
        learning_rate=0.9,
        depth=3,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
        random_seed=0,
    )
    model.fit(X[::2], y[::2], eval_set=(X[1::2], y[1::2]), use_best_model=True)
    assert model.tree_count_ < 60, "the test wants a model that lost its last trees"
    return model


def fit_at_threshold(X: np.ndarray, y: np.ndarray) -> Any:
    model = fit()(X, y)
    model.set_probability_threshold(0.3)
    return model


def fit_on_skewed(X: np.ndarray, y: np.ndarray) -> Any:
    """One class is rarer, so that starting from the average gives a bias."""
    keep = (y == 1) | (np.arange(len(y)) % 3 == 0)
    model = fit(boost_from_average=True)(X[keep], y[keep])
    assert model.get_scale_and_bias()[1] != 0
    return model


def through(ending: str) -> Callable[[Any, Path], tp.Ensemble]:
    def load(model: Any, folder: Path) -> tp.Ensemble:
        file = folder / f"model.{ending}"
        model.save_model(str(file), format=ending)
        return tp.load_model(file)

    return load


def labels(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X, prediction_type="Class", thread_count=1).ravel()


def raw(model: Any, X: np.ndarray) -> np.ndarray:
    scores = model.predict(X, prediction_type="RawFormulaVal", thread_count=1).reshape(len(X), -1)
    # CatBoost shows -inf for classes it never saw in training; they have no trees.
    return scores[:, np.isfinite(scores).any(axis=0)]


def case(name: str, train: Callable[[np.ndarray, np.ndarray], Any], **more: Any) -> Case:
    return Case(name, train, predict=labels, scores=raw, **more)


CASES: list[Case] = [
    case("binary", fit()),
    case("binary-cbm", fit(), load=through("cbm")),
    case("binary-json", fit(), load=through("json")),
    case("cross-entropy", fit(loss_function="CrossEntropy")),
    case("focal", fit(loss_function="Focal:focal_alpha=0.5;focal_gamma=2.0")),
    case("three", fit(), n_classes=3),
    case("three-cbm", fit(grow_policy="Lossguide"), n_classes=3, load=through("cbm"), missing=True),
    case("three-json", fit(), n_classes=3, load=through("json"), labels=("low", "middle", "high")),
    case("two-scores", fit(loss_function="MultiClass")),
    case("one-vs-all", fit(loss_function="MultiClassOneVsAll"), n_classes=3),
    case("one-vs-all-two", fit(loss_function="MultiClassOneVsAll")),
    case("lossguide", fit(grow_policy="Lossguide", max_leaves=9, depth=5)),
    case("depthwise", fit(grow_policy="Depthwise")),
    case("lossguide-three", fit(grow_policy="Lossguide"), n_classes=3),
    case("depthwise-three-json", fit(grow_policy="Depthwise"), n_classes=3, load=through("json")),
    case("stumps", fit(depth=1)),
    case("deep", fit(iterations=3, depth=9)),
    case("mixed-depths", fit(depth=6, iterations=10, l2_leaf_reg=30)),
    case("missing-min", fit(nan_mode="Min"), missing=True),
    case("missing-max", fit(nan_mode="Max"), missing=True),
    case("missing-max-json", fit(nan_mode="Max", grow_policy="Depthwise"), missing=True, load=through("json")),
    case("missing-max-three", fit(nan_mode="Max"), n_classes=3, missing=True),
    case("strings", fit(), labels=("no", "yes")),
    case("negative-labels", fit(), labels=(-1, 1)),
    case("bools", fit(), labels=(False, True)),
    case("bools-json", fit(), labels=(False, True), load=through("json")),
    case("float-labels", fit(), labels=(0.5, 1.0)),
    case("reversed-names", fit(class_names=[1, 0])),
    case("unseen-classes", fit(loss_function="MultiClass", class_names=[9, 0, 1, 7, 2]), n_classes=3),
    case("unseen-classes-count", fit(loss_function="MultiClass", classes_count=6), n_classes=3, labels=(1, 2, 4)),
    case("class-weights", fit(auto_class_weights="Balanced")),
    case("bias", fit_on_skewed),
    case("bias-json", fit_on_skewed, load=through("json")),
    case("probability-threshold", fit_at_threshold),
    case("probability-threshold-cbm", fit_at_threshold, load=through("cbm")),
    case("best-iteration", fit_best_iteration),
    case("coarse-borders", fit(border_count=5)),
    case("plain-catboost", fit(catboost.CatBoost, loss_function="Logloss")),
    case("plain-catboost-three", fit(catboost.CatBoost, loss_function="MultiClass"), n_classes=3),
]
