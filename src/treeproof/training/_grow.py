"""Growing one tree: the best split under attack, node after node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.importers import LEAF
from treeproof.model.pieces import Pieces
from treeproof.numbers.doubles import LARGEST, FloatArray
from treeproof.training._rows import BoolArray, IntArray, TrainingSet

MIN_GAIN = 1e-12
"""A split must lower the loss by this share of the weight at least; less can be rounding."""
GRAIN = 2.0**-36
"""Losses of splits that differ by less than this share of all weight are equal."""
PARALLEL = 200_000
"""Rows times features from which on threads are worth their trouble."""


@dataclass(frozen=True)
class GrowthLimits:
    """Where a tree stops growing, and what a split may look at."""

    max_depth: int | None
    min_samples_split: int
    min_samples_leaf: int
    min_weight: float
    """What either side of a split weighs at least, as a share of all weight."""
    max_features: int
    invariants: bool = False
    """Whether attack invariants are kept (criterion "treant") or not ("groot")."""
    powers: bool = False
    """Whether the loss is exp(-score) and exp(score), as in boosting, and not squares."""
    smoothing: float = 0.0
    """The weight that either target has in every leaf on top of its rows, as a share of all weight."""
    cap: float = 1.0
    """Scores of powers are at most that large."""

    def terms(self, weight: float) -> Any:
        """The same as kernels know it, for rows of this weight."""
        from treeproof._kernels.training.scores import POWERS, SQUARES
        from treeproof._kernels.training.splits import Terms

        low, high = (-self.cap, self.cap) if self.powers else (0.0, 1.0)
        loss, least = POWERS if self.powers else SQUARES, self.min_weight * weight
        features, rows = self.max_features, self.min_samples_leaf
        grain = GRAIN * weight
        return Terms(loss, self.smoothing * weight, low, high, features, rows, least, self.invariants, grain)


@dataclass(frozen=True, eq=False)
class GrownTree:
    """One tree, an entry per node: left iff `x[feature] <= threshold`; a leaf has feature -1.

    Where a test is on a category, `pieces` of its codes go left; missing values do where `nan_left` says so.
    """

    feature: IntArray
    threshold: FloatArray
    nan_left: BoolArray
    pieces: dict[int, Pieces]
    lefts: dict[int, BoolArray] = field(repr=False)
    """Which places of its column each test sends left."""
    left: IntArray
    right: IntArray
    scores: FloatArray
    """(n_nodes, heads): per head the score that training gave the node."""
    n_node_samples: IntArray
    """How many training rows the attacker assigned to the node."""
    loss: float
    """The loss under attack of all rows, as training counted it: the sum over leaves."""
    walked: Any = field(repr=False)
    """The Tree of the kernels."""

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"walked": None}

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

    def apply(self, X: FloatArray) -> IntArray:
        """The number of the leaf of each row (n, n_features)."""
        found = np.zeros(len(X), dtype=np.int64)
        rows_of = {0: np.arange(len(X))}
        for node in range(len(self.feature)):  # children stand behind their parents
            rows = rows_of.pop(node)
            found[rows] = node
            if self.feature[node] == LEAF:
                continue
            values = X[rows, self.feature[node]]
            pieces = self.pieces.get(node)
            goes_left = values <= self.threshold[node]
            if pieces is not None:
                goes_left = np.array(pieces.lefts)[np.searchsorted(np.array(pieces.cuts), values)]
            goes_left = np.where(np.isnan(values), self.nan_left[node], goes_left)
            rows_of[int(self.left[node])], rows_of[int(self.right[node])] = rows[goes_left], rows[~goes_left]
        return found


def _narrowed(before: npt.NDArray[Any], lefts: BoolArray, side: int) -> npt.NDArray[Any]:
    """What a side of a test leaves of a column of ranges; `lefts` says which places go left."""
    extent, last = before.copy(), int(lefts[:-1].sum()) - 1
    if side:
        extent["low"] = max(before["low"][0], last + 1)
    else:
        extent["high"] = min(before["high"][0], last)
    extent["missing"] = before["missing"] & (lefts[-1] != bool(side))
    return np.asarray(extent)


@dataclass(eq=False)
class _Candidate:
    """A node that may still be split."""

    number: int
    depth: int
    node: Any
    """A Node of the kernels: its extents, and what can arrive there."""
    loss: float


class _Found(NamedTuple):
    """A split: its feature (-1: none gains), the cuts that split alike, and the scores of both sides."""

    feature: int
    first: int
    last: int
    loss: float
    scores: FloatArray
    position: IntArray
    """Where each place of the feature stands in the order that is cut."""


class Grower:
    """Grows one tree on weighted rows; rows of weight 0 are not seen."""

    def __init__(
        self,
        data: TrainingSet,
        weight: FloatArray,
        limits: GrowthLimits,
        random: np.random.RandomState,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        """With a `pool`, the features of a large node are looked at in parallel; the tree is the same."""
        self._data, self._weight, self._limits, self._random, self._pool = data, weight, limits, random, pool
        self._terms = limits.terms(float(weight.sum()))
        self._feature: list[int] = []
        self._threshold: list[float] = []
        self._nan_left: list[bool] = []
        self._pieces: dict[int, Pieces] = {}
        self._lefts: dict[int, BoolArray] = {}
        self._children: list[list[int]] = []
        self._scores: list[FloatArray] = []
        self._n_samples: list[int] = []
        self._leaf_losses: list[float] = []
        self._edges: list[Any] = []
        self._prices: list[IntArray] = [np.zeros(1, dtype=np.int64)]
        self._n_prices = 1

    def grow(self) -> GrownTree:
        """The tree, depth first, left before right."""
        from treeproof._kernels.training.leaves import Tree

        todo = [self._root()]
        while todo:
            todo += reversed(self._split(todo.pop()))
        children = np.array(self._children, dtype=np.int64)
        feature = np.array(self._feature, dtype=np.int64)
        left, right = children[:, 0].copy(), children[:, 1].copy()
        return GrownTree(
            feature=feature,
            threshold=np.array(self._threshold, dtype=np.float64),
            nan_left=np.array(self._nan_left, dtype=bool),
            pieces=self._pieces,
            lefts=self._lefts,
            left=left,
            right=right,
            scores=np.array(self._scores),
            n_node_samples=np.array(self._n_samples, dtype=np.int64),
            loss=float(np.sum(self._leaf_losses)),
            walked=Tree(feature, left, right, np.concatenate(self._edges), np.concatenate(self._prices)),
        )

    @cached_property
    def _scratch(self) -> list[Any]:
        """Room for one feature, for each thread."""
        return [self._room() for _ in range(1 if self._pool is None else self._pool._max_workers)]

    def _room(self) -> Any:
        from treeproof._kernels.training.splits import BOUNDS, KEPT, TALLY, Scratch

        n, heads = int(self._data.rows.n_places.max()), self._data.target.shape[1]
        m, n_kinds = len(self._weight), int(self._data.rows.n_kinds.max())
        return Scratch(
            np.empty(m, dtype=np.int64),
            np.empty(m, dtype=np.int64),
            np.empty((n, heads, 2), dtype=TALLY),
            np.empty((n, heads, 2), dtype=TALLY),
            np.empty((n, heads), dtype=BOUNDS),
            np.empty((n, heads), dtype=BOUNDS),
            np.empty(n, dtype=bool),
            np.empty(n, dtype=np.int64),
            np.empty((n, 2)),
            np.empty((n_kinds, 2)),
            np.empty(n_kinds, dtype=KEPT),
            np.empty((2, heads)),
        )

    def _root(self) -> _Candidate:
        from treeproof._kernels.training.reach import EXTENT
        from treeproof._kernels.training.splits import ARRIVAL, CLAIM, Node

        data, terms = self._data, self._terms
        rows = np.flatnonzero(self._weight > 0)
        weight, target = self._weight[rows], data.target[rows]
        arrivals = np.zeros(len(rows), dtype=ARRIVAL)
        arrivals["row"], arrivals["weight"], arrivals["own"] = rows, weight, data.own[rows]
        arrivals["one"] = np.where(target.any(axis=1), np.argmax(target, axis=1), -1)
        claims = np.zeros(target.shape, dtype=CLAIM)
        claims["low"], claims["high"], claims["assigned"] = terms.low, terms.high, True
        extents = np.zeros(data.n_features, dtype=EXTENT)
        extents["high"], extents["missing"] = data.rows.n_places - 2, True
        every = np.ones(data.masks[-1], dtype=bool)
        ones, all_weight = weight @ target, weight.sum()
        score = ones / all_weight
        if self._limits.powers:
            more = max(terms.smoothing, 1e-300)
            score = np.clip(0.5 * np.log((ones + more) / (all_weight - ones + more)), terms.low, terms.high)
        return self._candidate(0, score, Node(extents, every, arrivals, claims), self._edge())

    def _edge(self) -> Any:
        """An edge, yet to be filled in."""
        from treeproof._kernels.training.reach import EDGE

        return np.zeros(1, dtype=EDGE)

    def _candidate(self, depth: int, score: FloatArray, node: Any, edge: Any) -> _Candidate:
        """Adds a node to the tree, a leaf for the time being."""
        rows, assigned = node.arrivals["row"], node.claims["assigned"]
        target, more = self._data.target[rows], self._terms.smoothing
        if self._limits.powers:
            lost = np.exp(np.where(target == 1, -score, score))
            on_top = float(more * (np.exp(score) + np.exp(-score) - 2.0).sum())
        else:
            lost, on_top = (target - score) ** 2, 0.0
        self._feature.append(LEAF)
        self._threshold.append(0.0)
        self._nan_left.append(False)
        self._children.append([LEAF, LEAF])
        self._scores.append(score)
        self._n_samples.append(int(assigned[np.arange(len(rows)), self._data.own[rows]].sum()))
        self._edges.append(edge)
        loss = float(node.arrivals["weight"] @ np.where(assigned, lost, 0.0).sum(axis=1)) + on_top
        return _Candidate(len(self._feature) - 1, depth, node, loss)

    def _split(self, candidate: _Candidate) -> list[_Candidate]:
        """The two children of a node, or none where it stays a leaf."""
        found = self._best(candidate) if self._may_split(candidate) else None
        if found is None or found.feature < 0:
            self._leaf_losses.append(candidate.loss)
            return []
        f, position = found.feature, found.position
        cut = found.first
        if f not in self._data.categories:
            cut = self._middle(f, found.first, found.last, int(position[0]))
        lefts = position[: self._data.rows.n_places[f]] <= cut
        self._note_test(candidate.number, f, lefts)
        return self._children_of(candidate, f, lefts, found.scores)

    def _best(self, candidate: _Candidate) -> _Found:
        """The best split of a node."""
        features, work = self._features(), len(candidate.node.arrivals) * self._data.n_features
        to_beat = candidate.loss - max(MIN_GAIN * float(candidate.node.arrivals["weight"].sum()), self._terms.grain)
        if self._pool is None or work < PARALLEL or self._limits.max_features < len(features):
            return self._best_of(features, candidate.node, to_beat, self._scratch[0])
        parts = np.array_split(features, len(self._scratch))
        found = self._pool.map(
            lambda part, scratch: self._best_of(part, candidate.node, to_beat, scratch), parts, self._scratch
        )
        return min(found, key=lambda one: one.loss)  # of equals the first

    def _best_of(self, features: IntArray, node: Any, to_beat: float, scratch: Any) -> _Found:
        """The best split on some of the features."""
        from treeproof._kernels.training.splits import best_split

        data = self._data
        scores = np.empty((2, data.target.shape[1]))
        position = np.empty(int(data.rows.n_places.max()), dtype=np.int64)
        f, first, last, loss = best_split(
            features, data.rows, data.masks, data.ordered, node, self._terms, to_beat, scores, position, scratch
        )
        return _Found(int(f), int(first), int(last), float(loss), scores, position)

    def _middle(self, f: int, first: int, last: int, shift: int) -> int:
        """The cut of a column of numbers, out of those that split alike, that lies in the middle of them."""
        own = self._data.thresholds[f]
        last = min(last - shift, len(own) - 1) + shift
        if last <= first:
            return first
        values = own[first - shift : last - shift + 1]
        middle = values[0] * 0.5 + values[-1] * 0.5
        return first + int(np.argmin(np.abs(values - middle)))

    def _note_test(self, number: int, f: int, lefts: BoolArray) -> None:
        """Makes a leaf a test; `lefts` says which places go left, the last one is for missing values."""
        self._feature[number], self._nan_left[number], self._lefts[number] = f, bool(lefts[-1]), lefts
        if f in self._data.categories:
            self._pieces[number] = Pieces.of_codes(lefts[:-1])
            return
        last = int(lefts[:-1].sum()) - 1
        thresholds = self._data.thresholds[f]
        self._threshold[number] = float(thresholds[last]) if last < len(thresholds) else LARGEST

    def _children_of(self, candidate: _Candidate, f: int, lefts: BoolArray, scores: FloatArray) -> list[_Candidate]:
        """The children of a node by a test on feature f."""
        from treeproof._kernels.training.splits import Node, partition

        data, node, start = self._data, candidate.node, int(self._data.masks[f])
        places = slice(start, start + len(lefts) if data.rows.listed[f] >= 0 else start)
        extents = [_narrowed(node.extents[f : f + 1], lefts, side) for side in (0, 1)]
        open_before = node.open[places]
        masks = [open_before & (lefts != bool(side))[: len(open_before)] for side in (0, 1)]
        prices = [self._prices_of(f, mask) for mask in (open_before, *masks)]
        priced = [self._keep(some) for some in prices]
        children = []
        for side in (0, 1):
            arrivals, claims = np.empty_like(node.arrivals), np.empty_like(node.claims)
            every = np.concatenate((prices[0], prices[1 + side], prices[2 - side]))
            n = partition(
                data.rows, np.int64(f), node, extents[side][0], extents[1 - side][0], every, scores, np.int64(side),
                self._terms, arrivals, claims,
            )  # fmt: skip
            child_extents, child_open = node.extents.copy(), node.open.copy()
            child_extents[f] = extents[side][0]
            child_open[places] = masks[side]
            edge = self._edge()
            edge["feature"], edge["extent"], edge["before"] = f, extents[side], node.extents[f : f + 1]
            edge["priced"], edge["priced_before"] = priced[1 + side], priced[0]
            below = Node(child_extents, child_open, arrivals[:n].copy(), claims[:n].copy())
            child = self._candidate(candidate.depth + 1, scores[side].copy(), below, edge)
            self._children[candidate.number][side] = child.number
            children.append(child)
        return children

    def _prices_of(self, f: int, mask: BoolArray) -> IntArray:
        """What it costs each kind of row to have a listed column at a place of a mask; nothing of other columns."""
        from treeproof._kernels.training.reach import NEVER

        if self._data.rows.listed[f] < 0:
            return np.empty(0, dtype=np.int64)
        return np.asarray(self._data.prices_of(f)[:, mask].min(axis=1, initial=NEVER))

    def _keep(self, prices: IntArray) -> int:
        """Keeps prices of kinds of rows for the tree; where they begin."""
        begin = self._n_prices
        self._prices.append(prices)
        self._n_prices += len(prices)
        return begin

    def _may_split(self, candidate: _Candidate) -> bool:
        limits = self._limits
        deep = limits.max_depth is not None and candidate.depth >= limits.max_depth
        return not deep and self._n_samples[candidate.number] >= limits.min_samples_split and candidate.loss > 0

    def _features(self) -> IntArray:
        n = self._data.n_features
        if self._limits.max_features == n:
            return np.arange(n)
        return self._random.permutation(n).astype(np.int64)
