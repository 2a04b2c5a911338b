"""One row of the table: how to train a model, import it, and ask the library what it predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp


def _import_object(model: Any, folder: Path) -> tp.Ensemble:
    return tp.from_model(model)


def _predict(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X)


@dataclass(frozen=True)
class Case:
    """`fit` trains a plain model; `load` imports it (through a file if that is what is tested)."""

    name: str
    fit: Callable[[np.ndarray, np.ndarray], Any]
    n_classes: int = 2
    load: Callable[[Any, Path], tp.Ensemble] = _import_object
    predict: Callable[[Any, np.ndarray], np.ndarray] = _predict
    """The library's own labels: the ground truth."""
    scores: Callable[[Any, np.ndarray], np.ndarray] | None = None
    """The library's own scores, where it shows them; compared bit for bit with Ensemble.scores."""
    missing: bool = False
    """Train and predict with NaN in the data."""
    labels: tuple[Any, ...] | None = field(default=None)
    """Class labels to use in place of 0, 1, 2…"""
    skipped: str = ""
    """Why the version of the library that is installed cannot train this."""


def data(
    n_classes: int, *, missing: bool = False, labels: tuple[Any, ...] | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """240 rows, 5 features of very different scale and grain, learnable but noisy labels."""
    rng = np.random.default_rng(seed)
    n = 240
    X = np.column_stack(
        (
            rng.normal(size=n),
            rng.normal(size=n).round(1),
            rng.integers(-3, 4, size=n).astype(float),
            rng.normal(size=n) * 1e6,
            rng.exponential(size=n) * 1e-6,
        )
    )
    signal = X[:, 0] + X[:, 1] - 0.4 * X[:, 2] + X[:, 3] / 1e6 + X[:, 4] * 1e6 + rng.normal(size=n) * 0.5
    y = np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    return X, (y if labels is None else np.asarray(labels)[y])
