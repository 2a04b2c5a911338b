"""Robust boosting by the protocol of Andriushchenko and Hein, and on random splits beside other training.

    TREEPROOF_DATA=folder python -m benchmarks.training --published [--seeds 10] [--splits 10]

Rows in file order, the first 80 % train, features scaled by the minimum and maximum of the training rows. Settings are
chosen by cross-validation on the training rows, by exact robustness. Errors are counts of test rows: wrong, and not
robust (exactly).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import ParameterGrid, StratifiedKFold

import treeproof as tp

GRID = {"max_depth": [1, 2, 4], "smoothing": [0.01, 0.05], "n_estimators": [50, 100, 200]}
FIXED = {"learning_rate": 0.1, "subsample": 0.5, "min_weight_fraction_leaf": 0.02}


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on, scaled by the former."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, order: np.ndarray) -> Split:
        """The first 80 % of an order of the rows, and the rest."""
        n = int(0.8 * len(X))
        train, test = X[order[:n]], X[order[n:]]
        low, width = train.min(axis=0), np.ptp(train, axis=0)
        width = np.where(width > 0, width, 1.0)
        return cls((train - low) / width, y[order[:n]], (test - low) / width, y[order[n:]])


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    """With its id column, without rows that have missing values."""
    lines = (folder() / "breast-cancer-wisconsin.data").read_text().split()
    values = np.array([line.split(",") for line in lines if "?" not in line], dtype=float)
    return values[:, :-1], (values[:, -1] == 4).astype(int)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    with (folder() / "diabetes.csv").open() as file:
        rows = [row for row in csv.reader(file) if row and row[0].replace(".", "").isdigit()]
    values = np.array(rows, dtype=float)
    return values[:, :-1], values[:, -1].astype(int)


def folder() -> Path:
    return Path(os.environ["TREEPROOF_DATA"])


DATA = {"breast-cancer": (breast_cancer, 0.3), "diabetes": (diabetes, 0.05)}


def errors(model: Any, X: np.ndarray, y: np.ndarray, attacker: tp.Attacker) -> np.ndarray:
    """How many rows are wrong, and how many are not robust."""
    result = tp.verify(model, X, y, attacker, n_jobs=2)
    assert result.robustness.exact
    return np.round(np.array([1 - result.accuracy, 1 - float(result.robustness)]) * len(y)).astype(int)


def chosen(X: np.ndarray, y: np.ndarray, attacker: tp.Attacker, seed: int) -> dict[str, Any]:
    """The settings with the fewest rows that are not robust in five-fold cross-validation, then the fewest wrong."""
    folds = list(StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y))
    found = []
    for number, settings in enumerate(ParameterGrid(GRID)):
        lost = np.zeros(2, dtype=int)
        for train, held in folds:
            model = boosting(attacker, seed, settings).fit(X[train], y[train])
            lost += errors(model, X[held], y[held], attacker)
        found.append((int(lost[1]), int(lost[0]), number, settings))
    return min(found)[-1]


def boosting(attacker: tp.Attacker, seed: int, settings: dict[str, Any]) -> tp.RobustBoostingClassifier:
    return tp.RobustBoostingClassifier(attacker, random_state=seed, **FIXED, **settings)


def others(attacker: tp.Attacker, seed: int) -> dict[str, Any]:
    """Models to compare with."""
    return {
        "plain boosting": GradientBoostingClassifier(n_estimators=100, max_depth=4, random_state=seed),
        "our forest": tp.RobustForestClassifier(
            attacker, n_estimators=50, max_depth=4, criterion="groot", random_state=seed, n_jobs=2
        ),
        "our stumps": tp.RobustBoostingClassifier(attacker, n_estimators=100, max_depth=1, random_state=seed, **FIXED),
    }


def published(n_seeds: int) -> Iterator[str]:
    """The protocol's own split, several seeds."""
    for name, (load, size) in DATA.items():
        X, y = load()
        split, attacker = Split.of(X, y, np.arange(len(X))), tp.Attacker.linf(size)
        lines = []
        for seed in range(n_seeds):
            settings = chosen(split.X_train, split.y_train, attacker, seed)
            model = boosting(attacker, seed, settings).fit(split.X_train, split.y_train)
            lines.append(errors(model, split.X_test, split.y_test, attacker))
            yield f"{name} {size}, seed {seed}: {lines[-1][0]} / {lines[-1][1]} of {len(split.y_test)}, {settings}"
        every = np.array(lines)
        spread = [f"{v.mean():.1f} ({v.min()} to {v.max()})" for v in every.T]
        yield f"{name} {size}: {spread[0]} wrong, {spread[1]} not robust, of {len(split.y_test)}"


def splits(n_splits: int) -> Iterator[str]:
    """Random 80/20 splits: gains in rows, paired."""
    for name, (load, size) in DATA.items():
        X, y = load()
        attacker = tp.Attacker.linf(size)
        rows: dict[str, list[np.ndarray]] = {}
        for seed in range(n_splits):
            split = Split.of(X, y, np.random.default_rng(seed).permutation(len(X)))
            settings = chosen(split.X_train, split.y_train, attacker, seed)
            models = {"robust boosting": boosting(attacker, seed, settings), **others(attacker, seed)}
            for kind, model in models.items():
                fitted = clone(model).fit(split.X_train, split.y_train)
                rows.setdefault(kind, []).append(errors(fitted, split.X_test, split.y_test, attacker))
        first = np.array(rows["robust boosting"])
        yield f"{name} {size}, {n_splits} splits: {_mean(first)}"
        for kind in list(rows)[1:]:
            gain = np.array(rows[kind]) - first
            better = " and ".join(map(_interval, gain.T))
            yield f"  {kind}: {_mean(np.array(rows[kind]))}; fewer by {better}"


def _mean(values: np.ndarray) -> str:
    return " / ".join(f"{v:.1f}" for v in values.mean(axis=0))


def _interval(gain: np.ndarray) -> str:
    """The mean and the 95 % interval of Student's t."""
    from scipy.stats import t

    half = t.ppf(0.975, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain))
    return f"{gain.mean():.1f} ± {half:.1f}"


def run(n_seeds: int, n_splits: int, say: Callable[[str], None]) -> None:
    """All of it, line by line."""
    for line in published(n_seeds):
        say(line)
    for line in splits(n_splits):
        say(line)
