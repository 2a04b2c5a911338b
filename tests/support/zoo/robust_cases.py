"""treeproof's own robust models for the importer table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp
from tests.support.zoo.case import Case
from treeproof.training import RobustForestClassifier, RobustTreeClassifier

ATTACKER = tp.Attacker([(-0.1, 0.1), (-0.1, 0.1), (0, 0), (-1e4, 0), (0, 1e-8)], budget=2)


def fitted(model: Any) -> Callable[[np.ndarray, np.ndarray], Any]:
    return lambda X, y: model.fit(X, y)


def walked(model: Any, X: np.ndarray) -> np.ndarray:
    """The majority of the members, each walked node by node through `apply`."""
    members, soft = getattr(model, "estimators_", [model]), getattr(model, "voting", "hard") == "soft"
    votes = sum((m.tree_.probabilities if soft else m.tree_.votes)[m.apply(X)] for m in members)
    return model.classes_[np.argmax(votes, axis=1)]


def through_a_file(model: Any, folder: Path) -> tp.Ensemble:
    tp.save_model(model, folder / "robust.json")
    return tp.load_model(folder / "robust.json")


def forest(**settings: Any) -> RobustForestClassifier:
    return RobustForestClassifier(ATTACKER, max_depth=5, random_state=0, **settings)


CASES = [
    Case("tree", fitted(RobustTreeClassifier(ATTACKER)), predict=walked),
    Case("tree, 3 classes", fitted(RobustTreeClassifier(ATTACKER, criterion="groot")), n_classes=3, predict=walked),
    Case("tree of words", fitted(RobustTreeClassifier(ATTACKER)), labels=("no", "yes")),
    Case("forest", fitted(forest(n_estimators=7)), predict=walked),
    Case("forest of hard votes", fitted(forest(n_estimators=7, voting="hard")), predict=walked),
    Case("even forest, 3 classes", fitted(forest(n_estimators=6, voting="hard")), n_classes=3, predict=walked),
    Case("forest in a file", fitted(forest(n_estimators=4, max_features=2)), load=through_a_file),
]
