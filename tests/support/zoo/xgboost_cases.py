"""XGBoost models of every kind that treeproof reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xgboost as xgb

import treeproof as tp
from tests.support.versions import version_of
from tests.support.zoo.case import Case, _import_object


def noisy(y: np.ndarray) -> np.ndarray:
    """Labels that training fits for a while and then fits too well."""
    return np.where(np.arange(len(y)) % 4 == 0, y[::-1], y)


def classifier(**settings: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        chosen = {"n_estimators": 25, "max_depth": 4, "n_jobs": 1, "random_state": 0, **settings}
        fit_settings = {}
        if "early_stopping_rounds" in chosen:
            fit_settings = {"eval_set": [(X, noisy(y))], "verbose": False}
        return xgb.XGBClassifier(**chosen).fit(X, y, **fit_settings)

    return fit


def forest(X: np.ndarray, y: np.ndarray) -> Any:
    return xgb.XGBRFClassifier(n_estimators=20, max_depth=4, n_jobs=1, random_state=0).fit(X, y)


def booster(**settings: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    rounds = settings.pop("rounds", 25)

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        n_classes = {"num_class": len(np.unique(y))} if settings.get("objective", "").startswith("multi") else {}
        data = xgb.DMatrix(X, y)
        stopping: dict[str, Any] = {}
        if settings.get("early_stop"):
            stopping = {"evals": [(xgb.DMatrix(X, noisy(y)), "e")], "early_stopping_rounds": 5}
        params = {"max_depth": 4, "nthread": 1, "seed": 0, **n_classes, **settings}
        params.pop("early_stop", None)
        return xgb.train(params, data, rounds, verbose_eval=False, **stopping)

    return fit


def categorical(X: np.ndarray, y: np.ndarray) -> Any:
    """Feature 2 as a category, its numbers shifted to start at 0."""
    types = ["q", "q", "c", "q", "q"]
    codes = np.column_stack((X[:, :2], X[:, 2] + 3, X[:, 3:]))
    model = xgb.XGBClassifier(
        n_estimators=20, max_depth=4, n_jobs=1, feature_types=types, enable_categorical=True, max_cat_to_onehot=3
    )
    return model.fit(codes, y)


def margins(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X, output_margin=True)


def booster_margins(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(xgb.DMatrix(X), output_margin=True)


def booster_labels(model: Any, X: np.ndarray) -> np.ndarray:
    """The labels that XGBClassifier would make of this prediction, over all trees."""
    predicted = model.predict(xgb.DMatrix(X))
    if predicted.ndim == 2:
        return predicted.argmax(axis=1)
    return (predicted > 0.5).astype(int)


def softmax_labels(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(xgb.DMatrix(X)).astype(int)


def through_file(ending: str) -> Callable[[Any, Path], tp.Ensemble]:
    def load(model: Any, folder: Path) -> tp.Ensemble:
        model.save_model(folder / f"model{ending}")
        return tp.load_model(folder / f"model{ending}")

    return load


def _case(name: str, fit: Any, n_classes: int = 2, load: Any = _import_object, **rest: Any) -> Case:
    return Case(name, fit, n_classes, load, scores=margins, **rest)


def _booster_case(name: str, fit: Any, n_classes: int = 2, predict: Any = booster_labels, **rest: Any) -> Case:
    return Case(name, fit, n_classes, predict=predict, scores=booster_margins, **rest)


_ONE_BASE = "" if version_of(xgb) >= (3, 1) else "XGBoost before 3.1 has one base score for all classes"
_DART = {"booster": "dart", "rate_drop": 0.3, "skip_drop": 0.2}

CASES: list[Case] = [
    _case("binary", classifier()),
    _case("binary-missing", classifier(), missing=True),
    _case("binary-base", classifier(base_score=0.3)),
    _case("binary-weighted", classifier(scale_pos_weight=3.0, learning_rate=0.05)),
    _case("binary-pruned", classifier(tree_method="exact", gamma=3.0)),
    _case("binary-lossguide", classifier(tree_method="approx", grow_policy="lossguide", max_leaves=12)),
    _case("binary-parallel", classifier(num_parallel_tree=3, subsample=0.7, n_estimators=8)),
    _case("binary-early", classifier(early_stopping_rounds=4, n_estimators=60, learning_rate=0.2)),
    _case("binary-dart", classifier(**_DART, base_score=0.3)),
    _case("binary-dart-missing", classifier(**_DART), missing=True),
    _case("binary-forest", forest),
    _case("logitraw", classifier(objective="binary:logitraw")),
    _case("hinge", classifier(objective="binary:hinge")),
    _case("hinge-missing", classifier(objective="binary:hinge", base_score=0.25), missing=True),
    _case("three", classifier(), 3),
    _case("three-missing", classifier(), 3, missing=True),
    _case("three-base", classifier(base_score=[0.1, -0.2, 0.7]), 3, skipped=_ONE_BASE),
    _case("three-softmax", classifier(objective="multi:softmax"), 3),
    _case("three-dart", classifier(**_DART, base_score=[0.1, -0.2, 0.7], n_estimators=12), 3, skipped=_ONE_BASE),
    _case("three-parallel", classifier(num_parallel_tree=2, subsample=0.7, n_estimators=8), 3),
    _case("three-early", classifier(early_stopping_rounds=4, n_estimators=60, learning_rate=0.2), 3),
    _case("three-forest", forest, 3),
    _case("two-softmax", classifier(objective="multi:softmax", num_class=2)),
    _case("categorical", categorical),
    _case("categorical-missing", categorical, 3, missing=True),
    _case("file-json", classifier(base_score=0.6), load=through_file(".json"), missing=True),
    _case("file-ubj", classifier(base_score=0.6), load=through_file(".ubj"), missing=True),
    _case("file-json-three", classifier(), 3, load=through_file(".json")),
    _case("file-ubj-three", classifier(), 3, load=through_file(".ubj")),
    _case(
        "file-early",
        classifier(early_stopping_rounds=4, n_estimators=60, learning_rate=0.2),
        load=through_file(".json"),
    ),
    _case("file-dart", classifier(**_DART, base_score=0.3), load=through_file(".ubj")),
    _case("file-forest", forest, 3, load=through_file(".json")),
    _case("file-pruned", classifier(tree_method="exact", gamma=3.0), load=through_file(".ubj")),
    _case("file-categorical", categorical, load=through_file(".json")),
    _booster_case("booster", booster(objective="binary:logistic"), missing=True),
    _booster_case("booster-logitraw", booster(objective="binary:logitraw")),
    _booster_case("booster-hinge", booster(objective="binary:hinge")),
    _booster_case("booster-dart", booster(objective="binary:logistic", base_score=0.3, **_DART)),
    _booster_case("booster-three", booster(objective="multi:softprob"), 3),
    _booster_case("booster-two-softprob", booster(objective="multi:softprob")),
    _booster_case("booster-softmax", booster(objective="multi:softmax"), 3, predict=softmax_labels),
    _booster_case("booster-early-uses-all", booster(objective="binary:logistic", early_stop=True, rounds=40, eta=0.2)),
]
