"""Data and trees that are the same everywhere: grown here, with exactly rounded sums.

Libraries change how they train, and numpy may change its generators; `random.Random.random` never changes, and neither
do the four operations on doubles. Trees are extremely randomised ones: of a few random cuts the purest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

CUTS = 4
"""Random cuts that are tried at every node."""
RATE = 0.25
"""How much of what is left to explain a boosted tree explains."""
LEAF = -1

Tree = dict[str, list[Any]]
"""The six lists of docs/format.md; a node stands before its children."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows to train with and rows to ask about; labels are 0, 1, 2…"""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def n_classes(self) -> int:
        """How many labels there are."""
        return int(self.y.max()) + 1


# --- data --------------------------------------------------------------------------------------------------------


def _halves(X: np.ndarray, y: np.ndarray, n: int) -> Data:
    """Every other row, n of each."""
    return Data(X[0::2][:n], y[0::2][:n], X[1::2][:n], y[1::2][:n])


def _unit(X: np.ndarray) -> np.ndarray:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - low) / np.where(high > low, high - low, 1.0)


@cache
def cancer() -> Data:
    X, y = load_breast_cancer(return_X_y=True)
    return _halves(_unit(X), y, 280)


@cache
def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return _halves(X / 16, y, 500)  # exact: whole numbers up to 16


@cache
def wine() -> Data:
    X, y = load_wine(return_X_y=True)
    return _halves(_unit(X), y, 89)


def _made_up(n_features: int, n: int, missing: float = 0.0) -> Data:
    """Rows in the unit cube whose labels follow the first three features, one label in twenty at random."""
    random = Random(n_features)
    X = np.array([[random.random() for _ in range(n_features)] for _ in range(2 * n)])
    tilt = X[:, 0] + 0.5 * X[:, 1] + np.where(X[:, 2] > 0.6, 0.5, 0.0)
    flipped = np.array([random.random() < 0.05 for _ in X])
    y = ((tilt >= 1.0) ^ flipped).astype(np.int64)
    gaps = np.array([[random.random() < missing for _ in row] for row in X])
    return _halves(np.where(gaps, np.nan, X), y, n)


@cache
def cube() -> Data:
    return _made_up(8, 400)


@cache
def crowded_cube() -> Data:
    return _made_up(8, 1500)


@cache
def gappy_cube() -> Data:
    return _made_up(10, 400, missing=0.15)


@cache
def small_gappy_cube() -> Data:
    return _made_up(4, 400, missing=0.15)


@cache
def coarse() -> Data:
    """Four features among doubles that lie 2 apart."""
    plain = _made_up(4, 400)
    X, X_test = (2.0**53 + 2.0 * np.floor(32 * part) for part in (plain.X, plain.X_test))
    return Data(X, plain.y, X_test, plain.y_test)


# --- trees -------------------------------------------------------------------------------------------------------


class _Grower:
    """Grows one tree on rows X; `leaf` gives the scores of a leaf from the numbers of its rows."""

    def __init__(
        self, random: Random, X: np.ndarray, y: np.ndarray, depth: int, leaf: Callable[[np.ndarray], list[float]]
    ) -> None:
        self.random, self.X, self.y, self.depth, self.leaf = random, X, y, depth, leaf
        self.tree: Tree = {name: [] for name in ("feature", "threshold", "left", "right", "nan_left", "scores")}

    def grow(self) -> Tree:
        self._node(np.arange(len(self.X)), 0)
        return self.tree

    def _node(self, rows: np.ndarray, level: int) -> int:
        cut = self._best_cut(rows) if level < self.depth else None
        if cut is None:
            self.tree["scores"].append(self.leaf(rows))
            return self._add(LEAF, 0.0, False)
        f, threshold, nan_left, left = cut
        number = self._add(f, threshold, nan_left)
        self.tree["left"][number] = self._node(rows[left], level + 1)
        self.tree["right"][number] = self._node(rows[~left], level + 1)
        return number

    def _add(self, feature: int, threshold: float, nan_left: bool) -> int:
        node = {"feature": feature, "threshold": threshold, "left": LEAF, "right": LEAF, "nan_left": nan_left}
        for name, value in node.items():
            self.tree[name].append(value)
        return len(self.tree["feature"]) - 1

    def _best_cut(self, rows: np.ndarray) -> tuple[int, float, bool, np.ndarray] | None:
        best, cut = math.inf, None
        if len(rows) < 2 or (self.y[rows] == self.y[rows[0]]).all():
            return None
        for _ in range(CUTS):
            f, share = int(self.random.random() * self.X.shape[1]), self.random.random()
            nan_left = self.random.random() < 0.5
            values = self.X[rows, f]
            known = values[~np.isnan(values)]
            if not len(known) or known.min() == known.max():
                continue
            threshold = float(known.min() + (known.max() - known.min()) * share)
            left = np.where(np.isnan(values), nan_left, values <= threshold)
            impurity = self._impurity(rows[left]) + self._impurity(rows[~left])
            if left.any() and not left.all() and impurity < best:
                best, cut = impurity, (f, threshold, nan_left, left)
        return cut

    def _impurity(self, rows: np.ndarray) -> float:
        counts = np.bincount(self.y[rows]).tolist()
        return len(rows) - sum(count * count for count in counts) / max(len(rows), 1)


def forest_trees(data: Data, n_trees: int, depth: int, seed: int, hard: bool = False) -> list[Tree]:
    """Trees on random samples of the rows; leaves hold shares of classes, or one vote."""
    random = Random(seed)

    def leaf(rows: np.ndarray) -> list[float]:
        counts = np.bincount(y[rows], minlength=data.n_classes).tolist()
        if hard:
            return [float(k == counts.index(max(counts))) for k in range(len(counts))]
        return [count / len(rows) for count in counts]

    trees = []
    for _ in range(n_trees):
        drawn = np.array([int(random.random() * len(data.X)) for _ in data.X])
        X, y = data.X[drawn], data.y[drawn]
        trees.append(_Grower(random, X, y, depth, leaf).grow())
    return trees


def boosted_trees(data: Data, n_rounds: int, depth: int, seed: int, one_score: bool, single: bool) -> list[Tree]:
    """Rounds of one tree per score, each fitted to what those before it leave of 1 and -1; `single`: float32 leaves."""
    random = Random(seed)
    n_scores = 1 if one_score else data.n_classes
    targets = [data.y == (1 if one_score else k) for k in range(n_scores)]
    rests = [np.where(target, 1.0, -1.0) for target in targets]
    trees = []
    for _ in range(n_rounds):
        for k in range(n_scores):

            def leaf(rows: np.ndarray, k: int = k) -> list[float]:
                value = RATE * (math.fsum(rests[k][rows].tolist()) / len(rows))
                value = float(np.float32(value)) if single else value
                rests[k][rows] -= value
                return [value if j == k else 0.0 for j in range(n_scores)]

            trees.append(_Grower(random, data.X, targets[k].astype(np.int64), depth, leaf).grow())
    return trees
