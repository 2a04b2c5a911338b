"""Gradient boosting with the robust splits of Chen et al. (2019), to compare with.

The gain of a split is that of XGBoost in the worst of four cases: rows within the attack's reach of the threshold stay
on their own sides, are all on the left, are all on the right, or change sides. Scores of leaves are XGBoost's, by where
rows are when nobody attacks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from sklearn.base import BaseEstimator, ClassifierMixin

import treeproof as tp
from treeproof.model.builder import EnsembleBuilder
from treeproof.model.score_rule import Decision, ScoreRule

L2 = 1.0
"""XGBoost's `reg_lambda`."""
LEAST = 1.0
"""XGBoost's `min_child_weight`."""
NO_GAIN = 1e-6


@njit(cache=True)
def part(g: float, h: float) -> float:
    return g * g / (h + L2)


@njit(cache=True)
def best_cut(values, slope, curve, size):
    """values, slope, curve (n,) of the rows of a node, values ascending: the best worst-case gain and its threshold."""
    n = len(values)
    g, h = np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        g[i + 1], h[i + 1] = g[i] + slope[i], h[i] + curve[i]
    best, threshold, low, high = NO_GAIN, np.nan, 0, 0
    whole = part(g[n], h[n])
    for k in range(1, n):
        if values[k - 1] == values[k]:
            continue
        cut = values[k - 1] * 0.5 + values[k] * 0.5
        if not values[k - 1] <= cut < values[k]:
            cut = values[k - 1]
        while values[low] + size <= cut:
            low += 1
        while high < n and values[high] - size <= cut:
            high += 1
        if h[k] < LEAST or h[n] - h[k] < LEAST:
            continue
        left, right = min(low, k), max(high, k)
        gain = part(g[k], h[k]) + part(g[n] - g[k], h[n] - h[k])
        gain = min(gain, part(g[right], h[right]) + part(g[n] - g[right], h[n] - h[right]))
        gain = min(gain, part(g[left], h[left]) + part(g[n] - g[left], h[n] - h[left]))
        crossed_g, crossed_h = g[left] + g[right] - g[k], h[left] + h[right] - h[k]
        gain = min(gain, part(crossed_g, crossed_h) + part(g[n] - crossed_g, h[n] - crossed_h)) - whole
        if gain > best:
            best, threshold = gain, cut
    return best, threshold


@njit(cache=True)
def grow(X, order, slope, curve, size, max_depth):
    """X (n, n_features), order (n_features, n) sorts each column and is reordered: nodes, and the leaf of each row."""
    n_features, n = order.shape
    room = 2 ** (max_depth + 1) - 1
    feature, threshold = np.full(room, -1), np.zeros(room)
    children, score = np.full((room, 2), -1), np.zeros(room)
    spans, depth = np.zeros((room, 2), dtype=np.int64), np.zeros(room, dtype=np.int64)
    leaf, lefts, spare = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_), np.empty(n, dtype=order.dtype)
    spans[0, 1], n_nodes, node = n, 1, 0
    while node < n_nodes:
        start, end = spans[node]
        best = NO_GAIN
        if depth[node] < max_depth:
            for f in range(n_features):
                rows = order[f, start:end]
                gain, cut = best_cut(X[rows, f], slope[rows], curve[rows], size)
                if gain > best:
                    best, feature[node], threshold[node] = gain, f, cut
        rows = order[0, start:end]
        if feature[node] < 0:
            score[node] = -slope[rows].sum() / (curve[rows].sum() + L2)
            leaf[rows] = node
        else:
            lefts[rows] = X[rows, feature[node]] <= threshold[node]
            middle = start
            for f in range(n_features):
                middle = divide(order[f, start:end], lefts, spare) + start
            for side in range(2):
                children[node, side], depth[n_nodes] = n_nodes, depth[node] + 1
                spans[n_nodes] = (start, middle) if side == 0 else (middle, end)
                n_nodes += 1
        node += 1
    return feature[:n_nodes], threshold[:n_nodes], children[:n_nodes], score[:n_nodes], leaf


@njit(cache=True)
def divide(rows, lefts, spare):
    """Moves rows that go left before the others, each in their order; how many do."""
    n_left, n_right = 0, 0
    for row in rows:
        if lefts[row]:
            rows[n_left] = row
            n_left += 1
        else:
            spare[n_right] = row
            n_right += 1
    rows[n_left:] = spare[:n_right]
    return n_left


class ChenBoosting(ClassifierMixin, BaseEstimator):
    """Boosted trees for two classes, logistic loss, with splits that are good in the worst of the four cases."""

    ensemble_: tp.Ensemble

    def __init__(
        self,
        size: float,
        *,
        n_estimators: int = 50,
        learning_rate: float = 0.2,
        max_depth: int = 4,
        subsample: float = 1.0,
        random_state: int = 0,
    ) -> None:
        """`size` is how far each feature can be moved."""
        self.size = size
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.subsample = subsample
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ChenBoosting:
        """Trains on rows X with labels y."""
        rows = np.asarray(X, dtype=np.float64)
        self.classes_, label = np.unique(y, return_inverse=True)
        random = np.random.default_rng(self.random_state)
        sorted_rows = np.argsort(rows, axis=0, kind="stable").T
        builder = EnsembleBuilder(
            n_features=rows.shape[1], classes=self.classes_, rule=ScoreRule(decision=Decision.CUT), base=[0.0]
        )
        scores = np.zeros(len(rows))
        for _ in range(self.n_estimators):
            share = 1 / (1 + np.exp(-scores))
            seen = random.random(len(rows)) < self.subsample
            slope, curve = np.where(seen, share - label, 0.0), np.where(seen, share * (1 - share), 0.0)
            nodes = grow(rows, sorted_rows.copy(), slope, curve, float(self.size), self.max_depth)
            feature, threshold, children, score, leaf = nodes
            score *= self.learning_rate
            scores += score[leaf]
            left, right = np.ascontiguousarray(children.T)
            builder.add_tree(feature=feature, threshold=threshold, left=left, right=right, scores=score)
        self.ensemble_ = builder.build()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The labels of rows."""
        return np.asarray(self.ensemble_.predict(X))
