"""Data and models small enough for any engine, and not trivial."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier


def sample(classes: int = 2, seed: int = 0, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the unit cube; the label is the sum of the features, with noise, in equal steps."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4))
    return X, np.digitize(X.sum(axis=1) + rng.normal(size=n) * 0.2, np.linspace(1.5, 2.5, classes - 1))


def forest(**settings: Any) -> RandomForestClassifier:
    """Five trees of depth 3, to be fitted; settings replace these."""
    return RandomForestClassifier(**{"n_estimators": 5, "max_depth": 3, "random_state": 0, **settings})


def blobs(n_classes: int, n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes that overlap, apart in two of four features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, 4))
    X[:, 0] += y
    X[:, 1] -= 1.5 * y
    return X, y
