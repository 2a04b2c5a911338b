"""Growing one tree: the best split under attack, node after node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.importers import LEAF
from treeproof.numbers.doubles import FloatArray, next_up
from treeproof.threat.threat import Threat

IntArray = npt.NDArray[np.int64]

LEAST_GAIN = 1e-12
"""A split must lower the loss by this share of the weight at least; less can be rounding."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows that the attacker is bound to, feature by feature: what every tree of a forest shares.

    `target` (n, heads) holds 0 and 1: with two classes one head, the second class; else one head per class.
    """

    near: FloatArray
    """(n_features, 2, n): the lowest and highest value of a row's neighbourhood; its own twice where there is none."""
    reach: FloatArray
    """(n_features, 2, n): the lowest and highest value that the attacker can move a neighbour to."""
    cost: IntArray
    budget: int
    label: IntArray
    target: npt.NDArray[np.uint8]
    own: IntArray
    """Per row the head that says where it is when rows are counted."""

    @classmethod
    def of(cls, X: FloatArray, label: IntArray, n_classes: int, threat: Threat, epsilon: FloatArray) -> TrainingSet:
        """The rows X (n, n_features) with class numbers `label`, and neighbourhoods of size `epsilon` (n_features,)."""
        label = label.astype(np.int64)
        near = threat.neighbourhood(X, epsilon)
        if n_classes == 2:
            target, own = label.reshape(-1, 1), np.zeros(len(X), dtype=np.int64)
        else:
            target, own = (label[:, None] == np.arange(n_classes)).astype(np.int64), label
        return cls(
            near=_by_feature(near),
            reach=_by_feature(threat.reach(*near)),
            cost=threat.cost,
            budget=threat.budget,
            label=label,
            target=np.ascontiguousarray(target, dtype=np.uint8),
            own=own,
        )

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.near)


def _by_feature(ends: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Two arrays (n, n_features) as one of (n_features, 2, n)."""
    return np.ascontiguousarray(np.stack(ends).transpose(2, 0, 1))


@dataclass(frozen=True)
class Limits:
    """Where a tree stops growing, and what a split may look at."""

    max_depth: int | None
    min_samples_split: int
    min_samples_leaf: int
    max_features: int
    invariants: bool
    """Whether attack invariants are kept (criterion "treant") or not ("groot")."""


@dataclass(frozen=True, eq=False)
class GrownTree:
    """One tree, an entry per node: left iff `x[feature] <= threshold`; a leaf has feature -1."""

    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    scores: FloatArray
    """(n_nodes, heads): per head the score that training gave the node."""
    n_node_samples: IntArray
    """How many training rows the attacker assigned to the node."""
    loss: float
    """The loss under attack of all rows, as training counted it: the sum over leaves."""

    @property
    def probabilities(self) -> FloatArray:
        """(n_nodes, n_classes): scores as shares that add up to 1."""
        if self.scores.shape[1] == 1:
            return np.hstack((1.0 - self.scores, self.scores))
        total = self.scores.sum(axis=1, keepdims=True)
        n_classes = self.scores.shape[1]
        return np.where(total > 0, self.scores / np.where(total > 0, total, 1.0), 1.0 / n_classes)

    @property
    def votes(self) -> FloatArray:
        """(n_nodes, n_classes): 1 for the likeliest class, the lowest of equals."""
        shares = self.probabilities
        votes: FloatArray = np.eye(shares.shape[1])[np.argmax(shares, axis=1)]
        return votes

    @property
    def depth(self) -> int:
        """The longest path in edges."""
        level = np.zeros(len(self.feature), dtype=np.int64)
        for node in range(len(level)):  # children stand behind their parents
            if self.feature[node] != LEAF:
                level[[self.left[node], self.right[node]]] = level[node] + 1
        return int(level.max())


@dataclass(eq=False)
class _Node:
    """A node that may still be split: what can arrive there, and its score and loss."""

    number: int
    depth: int
    box_low: FloatArray
    box_high: FloatArray
    arrived: tuple[IntArray, IntArray, npt.NDArray[np.bool_], FloatArray, FloatArray]
    loss: float


class Grower:
    """Grows one tree on weighted rows; rows of weight 0 are not seen."""

    def __init__(
        self, data: TrainingSet, weight: FloatArray, limits: Limits, random: np.random.RandomState, threat: Threat
    ) -> None:
        self.data, self.weight, self.limits, self.random, self.threat = data, weight, limits, random, threat
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.children: list[list[int]] = []
        self.scores: list[FloatArray] = []
        self.n_samples: list[int] = []
        self.leaf_losses: list[float] = []

    def grow(self) -> GrownTree:
        """The tree, depth first, left before right."""
        todo = [self._root()]
        while todo:
            todo += reversed(self._split(todo.pop()))
        children = np.array(self.children, dtype=np.int64)
        return GrownTree(
            feature=np.array(self.feature, dtype=np.int64),
            threshold=np.array(self.threshold, dtype=np.float64),
            left=children[:, 0].copy(),
            right=children[:, 1].copy(),
            scores=np.array(self.scores),
            n_node_samples=np.array(self.n_samples, dtype=np.int64),
            loss=float(np.sum(self.leaf_losses)),
        )

    def _root(self) -> _Node:
        data = self.data
        rows = np.flatnonzero(self.weight > 0)
        shape = (len(rows), data.target.shape[1])
        weight = self.weight[rows]
        score = (weight @ data.target[rows]) / weight.sum()
        arrived = (
            rows,
            np.zeros(len(rows), dtype=np.int64),
            np.ones(shape, dtype=bool),
            np.zeros(shape),
            np.ones(shape),
        )
        return self._new_node(0, score, (self.threat.domain_low, self.threat.domain_high), arrived)

    def _new_node(self, depth: int, score: FloatArray, box: tuple[FloatArray, FloatArray], arrived: Any) -> _Node:
        rows, _, assigned, _, _ = arrived
        target = self.data.target[rows]
        weight = self.weight[rows]
        lost = np.where(assigned, (target - score) ** 2, 0.0)
        self.feature.append(LEAF)
        self.threshold.append(0.0)
        self.children.append([LEAF, LEAF])
        self.scores.append(score)
        self.n_samples.append(int(assigned[np.arange(len(rows)), self.data.own[rows]].sum()))
        return _Node(len(self.feature) - 1, depth, *box, arrived, float(weight @ lost.sum(axis=1)))

    def _split(self, node: _Node) -> list[_Node]:
        """The two children of a node, or none where it stays a leaf."""
        from treeproof._kernels.training import best_split, partition

        data, limits = self.data, self.limits
        scores = np.empty((2, data.target.shape[1]))
        f, threshold = -1, 0.0
        if self._may_split(node):
            to_beat = node.loss - LEAST_GAIN * float(self.weight[node.arrived[0]].sum())
            f, threshold, _ = best_split(
                self._features(), limits.max_features, data.near, data.reach, data.cost,
                data.budget, node.box_low, node.box_high, self.weight, data.target, data.own, *node.arrived,
                limits.min_samples_leaf, to_beat, scores,
            )  # fmt: skip
        if f < 0:
            self.leaf_losses.append(node.loss)
            return []
        self.feature[node.number], self.threshold[node.number] = f, threshold
        children = []
        for side in (0, 1):
            arrived = partition(
                data.near[f], data.reach[f], data.cost[f], data.budget, node.box_low[f],
                node.box_high[f], threshold, scores, data.target, *node.arrived, side, limits.invariants,
            )  # fmt: skip
            low, high = node.box_low.copy(), node.box_high.copy()
            if side:
                low[f] = next_up(threshold)
            else:
                high[f] = threshold
            child = self._new_node(node.depth + 1, scores[side].copy(), (low, high), arrived)
            self.children[node.number][side] = child.number
            children.append(child)
        return children

    def _may_split(self, node: _Node) -> bool:
        limits = self.limits
        deep = limits.max_depth is not None and node.depth >= limits.max_depth
        return not deep and self.n_samples[node.number] >= limits.min_samples_split and node.loss > 0

    def _features(self) -> IntArray:
        n = self.data.n_features
        if self.limits.max_features == n:
            return np.arange(n)
        return self.random.permutation(n).astype(np.int64)
