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

MIN_GAIN = 1e-12
"""A split must lower the loss by this share of the weight at least; less can be rounding."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows that the attacker is bound to, feature by feature: what every tree of a forest shares.

    `target` (n, heads) holds 0 and 1: with two classes one head, the second class; else one head per class.
    """

    reach: npt.NDArray[Any]
    """(n_features, n) of REACH: the values of a row's neighbourhood, its own twice where there is none, and the values
    that the attacker can move a neighbour to."""
    cost: IntArray
    budget: int
    label: IntArray
    target: npt.NDArray[np.uint8]
    own: IntArray
    """Per row the head that says where it is when rows are counted."""

    @classmethod
    def of(cls, X: FloatArray, label: IntArray, n_classes: int, threat: Threat, epsilon: FloatArray) -> TrainingSet:
        """The rows X (n, n_features) with class numbers `label`, and neighbourhoods of size `epsilon` (n_features,)."""
        from treeproof._kernels.training import REACH

        label = label.astype(np.int64)
        near = threat.neighbourhood(X, epsilon)
        reach = np.empty(X.T.shape, dtype=REACH)
        for name, values in zip(("near_low", "near_high", "low", "high"), (*near, *threat.reach(*near)), strict=True):
            reach[name] = values.T
        if n_classes == 2:
            target, own = label.reshape(-1, 1), np.zeros(len(X), dtype=np.int64)
        else:
            target, own = (label[:, None] == np.arange(n_classes)).astype(np.int64), label
        return cls(
            reach=reach,
            cost=threat.cost,
            budget=threat.budget,
            label=label,
            target=np.ascontiguousarray(target, dtype=np.uint8),
            own=own,
        )

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.reach)


@dataclass(frozen=True)
class GrowthLimits:
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
class _Candidate:
    """A node that may still be split."""

    number: int
    depth: int
    node: Any
    """A Node of the kernels: its extents, and what can arrive there."""
    loss: float


class Grower:
    """Grows one tree on weighted rows; rows of weight 0 are not seen."""

    def __init__(
        self, data: TrainingSet, weight: FloatArray, limits: GrowthLimits, random: np.random.RandomState, threat: Threat
    ) -> None:
        from treeproof._kernels.training import Terms

        self.data, self.weight, self.limits, self.random, self.threat = data, weight, limits, random, threat
        self.terms = Terms(data.budget, limits.max_features, limits.min_samples_leaf, limits.invariants)
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

    def _root(self) -> _Candidate:
        from treeproof._kernels.training import ARRIVAL, CLAIM, EXTENT, Node

        data = self.data
        rows = np.flatnonzero(self.weight > 0)
        weight, target = self.weight[rows], data.target[rows]
        arrivals = np.zeros(len(rows), dtype=ARRIVAL)
        arrivals["row"], arrivals["weight"], arrivals["own"] = rows, weight, data.own[rows]
        arrivals["one"] = np.where(target.any(axis=1), np.argmax(target, axis=1), -1)
        claims = np.zeros(target.shape, dtype=CLAIM)
        claims["high"], claims["assigned"] = 1.0, True
        extents = np.zeros(data.n_features, dtype=EXTENT)
        extents["low"], extents["high"], extents["cost"] = self.threat.domain_low, self.threat.domain_high, data.cost
        return self._candidate(0, (weight @ target) / weight.sum(), Node(extents, arrivals, claims))

    def _candidate(self, depth: int, score: FloatArray, node: Any) -> _Candidate:
        """Adds a node to the tree, a leaf for the time being."""
        rows, assigned = node.arrivals["row"], node.claims["assigned"]
        lost = np.where(assigned, (self.data.target[rows] - score) ** 2, 0.0)
        self.feature.append(LEAF)
        self.threshold.append(0.0)
        self.children.append([LEAF, LEAF])
        self.scores.append(score)
        self.n_samples.append(int(assigned[np.arange(len(rows)), self.data.own[rows]].sum()))
        return _Candidate(len(self.feature) - 1, depth, node, float(self.weight[rows] @ lost.sum(axis=1)))

    def _split(self, candidate: _Candidate) -> list[_Candidate]:
        """The two children of a node, or none where it stays a leaf."""
        from treeproof._kernels.training import Node, Split, best_split, partition

        data, node, number = self.data, candidate.node, candidate.number
        scores = np.empty((2, data.target.shape[1]))
        split = None
        if self._may_split(candidate):
            to_beat = candidate.loss - MIN_GAIN * float(self.weight[node.arrivals["row"]].sum())
            split = Split(*best_split(self._features(), data.reach, node, self.terms, to_beat, scores))
        if split is None or split.feature < 0:
            self.leaf_losses.append(candidate.loss)
            return []
        self.feature[number], self.threshold[number] = split.feature, split.threshold
        children = []
        for side in (0, 1):
            arrived = partition(split, scores, side, data.reach, node, self.terms)
            extents = node.extents.copy()
            if side:
                extents["low"][split.feature] = next_up(split.threshold)
            else:
                extents["high"][split.feature] = split.threshold
            child = self._candidate(candidate.depth + 1, scores[side].copy(), Node(extents, *arrived))
            self.children[number][side] = child.number
            children.append(child)
        return children

    def _may_split(self, candidate: _Candidate) -> bool:
        limits = self.limits
        deep = limits.max_depth is not None and candidate.depth >= limits.max_depth
        return not deep and self.n_samples[candidate.number] >= limits.min_samples_split and candidate.loss > 0

    def _features(self) -> IntArray:
        n = self.data.n_features
        if self.limits.max_features == n:
            return np.arange(n)
        return self.random.permutation(n).astype(np.int64)
