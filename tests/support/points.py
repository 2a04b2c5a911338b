"""Where exactness is decided: points on every threshold, and one step of a double or a float32 beside it."""

from __future__ import annotations

import numpy as np

import treeproof as tp


def beside(ensemble: tp.Ensemble, feature: int) -> np.ndarray:
    """Each threshold of a feature, one double up and down, and one float32 up and down from it and its rounding."""
    with np.errstate(over="ignore"):
        values = _steps(ensemble.grid.cuts_of(feature))
    return values[(values >= ensemble.value_low[feature]) & (values <= ensemble.value_high[feature])]


def _steps(values: np.ndarray) -> np.ndarray:
    narrow = values.astype(np.float32)
    up, down = np.nextafter(narrow, np.float32(np.inf)), np.nextafter(narrow, np.float32(-np.inf))
    exact = np.concatenate((values, narrow, up, down)).astype(np.float64)
    step = np.spacing(np.abs(narrow)).astype(np.float64)
    exact = np.concatenate((exact, values + step, values - step))
    return np.unique(np.concatenate((exact, np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf))))


def critical_rows(ensemble: tp.Ensemble, X: np.ndarray, seed: int = 0) -> np.ndarray:
    """Rows of X with one feature put on, or a step beside, each threshold of the model; all thresholds occur."""
    rng = np.random.default_rng(seed)
    rows = [X]
    for f in range(ensemble.n_features):
        values = beside(ensemble, f)
        if len(values):
            block = X[rng.integers(len(X), size=len(values))].copy()
            block[:, f] = values
            rows.append(block)
    rows.append(every_feature_on_a_threshold(ensemble, 2000, rng))
    return np.concatenate(rows)


def every_feature_on_a_threshold(ensemble: tp.Ensemble, n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows in which each feature stands on or a step beside one of its thresholds."""
    rows = np.zeros((n, ensemble.n_features))
    for f in range(ensemble.n_features):
        values = beside(ensemble, f)
        if len(values):
            rows[:, f] = rng.choice(values, size=n)
    return rows
