"""scikit-learn models for the importer table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from skops.io import dump as skops_dump

import treeproof as tp
from tests.support.zoo.case import Case

Fit = Callable[[np.ndarray, np.ndarray], Any]


def fitted(model: Any) -> Fit:
    return lambda X, y: model.fit(X, y)


def majority(model: Any, X: np.ndarray) -> np.ndarray:
    """The paper's hard vote, from each tree's own predict; ties to the lowest class."""
    members = model.estimators_ if hasattr(model, "estimators_") else [model]
    votes = np.array([tree.predict(X) for tree in members]).astype(int)
    counts = np.array([(votes == k).sum(axis=0) for k in range(len(model.classes_))])
    return model.classes_[np.argmax(counts, axis=0)]


def hard(model: Any, folder: Any) -> tp.Ensemble:
    return tp.from_model(model, voting="hard")


def through_skops(model: Any, folder: Any) -> tp.Ensemble:
    skops_dump(model, folder / "model.skops")
    return tp.load_model(folder / "model.skops")


def through_own_format(model: Any, folder: Any) -> tp.Ensemble:
    tp.save_model(model, folder / "model.json")
    return tp.load_model(folder / "model.json")


def raw(model: Any, X: np.ndarray) -> np.ndarray:
    return model.decision_function(X)


def probabilities(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict_proba(X)


TREE = DecisionTreeClassifier(max_depth=4, random_state=0)
WORDS = ("benign", "malware", "unknown")

KINDS: dict[str, tuple[Any, Any]] = {
    "tree": (TREE, probabilities),
    "deep tree": (DecisionTreeClassifier(random_state=0), probabilities),
    "stump of one leaf": (DecisionTreeClassifier(max_depth=1, random_state=0), probabilities),
    "extra tree": (ExtraTreeClassifier(max_depth=6, random_state=0), probabilities),
    "forest": (RandomForestClassifier(25, max_depth=5, random_state=0), probabilities),
    "forest, even and shallow": (RandomForestClassifier(4, max_depth=2, random_state=1), probabilities),
    "extra trees": (ExtraTreesClassifier(20, max_depth=5, random_state=0), probabilities),
    "bagging": (BaggingClassifier(TREE, 15, random_state=0), probabilities),
    "bagging of some features and rows": (
        BaggingClassifier(TREE, 15, max_features=3, max_samples=6, random_state=0),
        probabilities,
    ),
    "adaboost": (AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=15, random_state=0), None),
    "gradient boosting": (GradientBoostingClassifier(n_estimators=15, random_state=0), raw),
    "gradient boosting from zero": (GradientBoostingClassifier(n_estimators=9, init="zero", random_state=0), raw),
    "histogram boosting": (HistGradientBoostingClassifier(max_iter=15, random_state=0), raw),
}
TAKES_MISSING = ("tree", "deep tree", "extra tree", "forest", "extra trees", "bagging", "histogram boosting")

CASES = [
    Case(f"{name}, {n} classes", fitted(model), n_classes=n, scores=scores)
    for name, (model, scores) in KINDS.items()
    for n in (2, 3)
    if (name, n) != ("stump of one leaf", 3)
]
CASES += [
    Case(
        f"{name}, missing values, {n} classes", fitted(KINDS[name][0]), n_classes=n, scores=KINDS[name][1], missing=True
    )
    for name in TAKES_MISSING
    for n in (2, 3)
]
CASES += [
    Case(f"{name}, words as labels", fitted(KINDS[name][0]), n_classes=3, labels=WORDS)
    for name in ("tree", "forest", "bagging", "adaboost", "gradient boosting", "histogram boosting")
]
CASES += [
    Case(f"{name}, hard vote, {n} classes", fitted(KINDS[name][0]), n_classes=n, load=hard, predict=majority)
    for name in ("tree", "forest", "forest, even and shallow", "extra trees")
    for n in (2, 3)
]
CASES += [
    Case(f"{name} through skops", fitted(KINDS[name][0]), n_classes=3, load=through_skops)
    for name in (
        "tree",
        "extra tree",
        "forest",
        "extra trees",
        "bagging",
        "adaboost",
        "gradient boosting",
        "histogram boosting",
    )
]
CASES += [
    Case(
        f"{name} through treeproof's format, {n} classes",
        fitted(KINDS[name][0]),
        n_classes=n,
        load=through_own_format,
        scores=KINDS[name][1],
    )
    for name in ("tree", "forest", "adaboost", "gradient boosting", "histogram boosting")
    for n in (2, 3)
]
CASES += [
    Case(
        f"{name} after {type(scaler).__name__}",
        fitted(make_pipeline(scaler, KINDS[name][0])),
        n_classes=3,
        missing=name in ("forest", "histogram boosting"),
    )
    for name in ("tree", "forest", "gradient boosting", "histogram boosting")
    for scaler in (MinMaxScaler(), MinMaxScaler((-3, 7), clip=True), StandardScaler(), RobustScaler(), MaxAbsScaler())
]
CASES += [
    Case("two scalers and a forest", fitted(make_pipeline(RobustScaler(), MinMaxScaler(), KINDS["forest"][0]))),
    Case(
        "scaled forest through skops", fitted(make_pipeline(StandardScaler(), KINDS["forest"][0])), load=through_skops
    ),
    Case(
        "exponential loss",
        fitted(GradientBoostingClassifier(n_estimators=9, loss="exponential", random_state=0)),
        scores=raw,
    ),
    Case("grid search over trees", fitted(GridSearchCV(TREE, {"max_depth": [2, 4]}, cv=2))),
]
