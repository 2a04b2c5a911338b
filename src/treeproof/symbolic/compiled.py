"""A model and an attacker as the symbolic kernels want them: everything on fine cells, leaves as bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof._kernels.symbolic.records import FEATURE, SPAN, TEST, TREE, VOTE
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.symbolic.shifted_grid import MISSING_CELL, ShiftedGrid
from treeproof.threat.threat import Threat

LARGEST_TABLE = 64 * 2**20
"""Bytes of leaf tables above which trees are walked instead."""

Boxes = npt.NDArray[Any]
"""Symbolic attacks (n, 2, n_features, 2): of the pre-image and the post-image, per feature, the first and last cell."""


@dataclass(frozen=True, eq=False)
class CompiledAnalysis:
    """What the kernels of one analysis share."""

    ensemble: Ensemble
    threat: Threat
    grid: ShiftedGrid
    model: Any
    rules: Any
    n_words: int
    n_classes: int
    cell_type: type[np.signedinteger[Any]]
    missing: bool
    """Whether instances with missing values are analyzed too."""

    @classmethod
    def build(cls, ensemble: Ensemble, threat: Threat, missing: bool) -> CompiledAnalysis:
        """Puts thresholds, moves, leaf scores and tables together."""
        from treeproof._kernels.symbolic.trees import Rules

        grid = ShiftedGrid.build(ensemble, threat)
        n_words, model = _model(ensemble, grid)
        return cls(
            ensemble=ensemble,
            threat=threat,
            grid=grid,
            model=model,
            rules=Rules(features=_features(grid, threat), moves=grid.moves, budget=np.int64(threat.budget)),
            n_words=n_words,
            n_classes=ensemble.n_classes,
            cell_type=np.int16 if int(grid.last.max()) < 2**15 - 2 else np.int32,
            missing=missing and bool(ensemble.may_be_missing.any()),
        )

    def everything(self) -> Boxes:
        """The attack of a root: any instance, unchanged or not (1, 2, n_features, 2)."""
        box = np.empty((1, 2, self.ensemble.n_features, 2), dtype=self.cell_type)
        box[..., 0] = MISSING_CELL if self.missing else MISSING_CELL + 1
        box[..., 1] = self.grid.last
        return box

    def is_left_out(self, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """Which rows the analysis says nothing about: those with missing values, unless it was told to."""
        if self.missing or not self.ensemble.may_be_missing.any():
            return np.zeros(len(rows), dtype=np.bool_)
        return np.asarray(np.isnan(rows).any(axis=1))

    def scratch(self) -> Any:
        """Room for one thread."""
        from treeproof._kernels.symbolic.refinement import Scratch

        n_trees, n_pairs, n_nodes = self.ensemble.n_trees, len(self.model.base_gap), self.ensemble.n_nodes
        return Scratch(
            live=np.zeros((2, self.n_words), dtype=np.uint64),
            spans=np.zeros((2, n_trees, n_pairs), dtype=SPAN),
            sums=np.zeros((2, n_pairs), dtype=SPAN),
            possible=np.zeros((2, self.n_classes), dtype=np.bool_),
            movable=np.zeros(self.model.uses.shape[1], dtype=np.uint64),
            stack=np.zeros(n_nodes + 1, dtype=np.int32),
            votes=np.zeros(max(1, len(self.model.split_at)), dtype=np.int32),
            touched=np.zeros(n_nodes + 1, dtype=VOTE),
            scores=np.zeros(len(self.ensemble.base), dtype=self.ensemble.leaf_scores.dtype),
        )


def _features(grid: ShiftedGrid, threat: Threat) -> npt.NDArray[Any]:
    features = np.zeros(grid.n_features, dtype=FEATURE)
    features["start"], features["last"] = grid.start[:-1], grid.last
    features["cost"], features["gaps"] = threat.cost, grid.gaps
    features["away"] = threat.away | grid.gaps
    return features


def _model(ensemble: Ensemble, grid: ShiftedGrid) -> tuple[int, Any]:
    """How many words the leaves take as bits, and the ensemble on fine cells."""
    from treeproof._kernels.symbolic.refinement import SymbolicModel

    search_model, exact = ensemble.compiled
    tests, split_at = _tests(ensemble, grid)
    trees, n_words = _trees(ensemble)
    rows = ensemble.leaf[_leaves(ensemble)]
    value, offset = search_model.value[rows], search_model.offset
    a, b = np.triu_indices(value.shape[1], 1)
    keep_low = keep_high = np.empty((0, n_words), dtype=np.uint64)
    # The tables know prefixes only: what tests with several cuts leave is found by walking.
    if 16 * int(grid.start[-1]) * n_words <= LARGEST_TABLE and not len(ensemble.more):
        keep_low, keep_high = _tables(ensemble, grid, tests.nodes, trees, n_words)
    model = SymbolicModel(
        tests=tests,
        trees=trees,
        uses=_uses(ensemble),
        kinds=search_model.kind[rows].astype(np.int64),
        worth=np.ascontiguousarray(value[:, b] - value[:, a]),
        base_gap=offset[b] - offset[a],
        slack=np.int64(search_model.slack),
        keep_low=keep_low,
        keep_high=keep_high,
        exact=exact._replace(leaf_scores=exact.leaf_scores[rows]),
        split_at=split_at,
    )
    return n_words, model


def _leaves(ensemble: Ensemble) -> npt.NDArray[np.int64]:
    """The nodes that are leaves; nodes stand tree after tree."""
    return np.flatnonzero(ensemble.feature < 0)


def _tree_of(ensemble: Ensemble) -> npt.NDArray[np.int64]:
    return np.searchsorted(ensemble.roots, np.arange(ensemble.n_nodes), side="right") - 1


def _tests(ensemble: Ensemble, grid: ShiftedGrid) -> tuple[Any, npt.NDArray[np.int32]]:
    """The nodes on fine cells, and per cell that ends at a threshold v the cells after which a split at v cuts.

    In the pre-image these are v itself and the last instances that can end at v or below, or cannot end above it:
    v - low and v - high.
    The paper writes v + low and v + high, the same for intervals that are as long to both sides; for others only
    these three separate instances that can cross v from those that cannot.
    """
    from treeproof._kernels.symbolic.trees import Tests

    nodes, more = np.zeros(ensemble.n_nodes, dtype=TEST), np.zeros(len(ensemble.more), dtype=np.int32)
    for name in ("feature", "left", "right", "nan_left"):
        nodes[name] = getattr(ensemble, name)
    nodes["more"], nodes["end"] = ensemble.more_start[:-1], ensemble.more_start[1:]
    leaves = _leaves(ensemble)
    nodes["leaf"][leaves] = np.arange(len(leaves))
    feature_of_more = ensemble.feature[ensemble.more_node]
    split_at: list[npt.NDArray[np.int32]] = []
    for f in range(ensemble.n_features):
        mine, mine_too = np.flatnonzero(ensemble.feature == f), np.flatnonzero(feature_of_more == f)
        nodes["cut"][mine] = grid.cell_of_threshold(f, ensemble.threshold[mine])
        more[mine_too] = grid.cell_of_threshold(f, ensemble.more[mine_too])
        cells = np.arange(grid.last[f] + 1)
        moves = grid.moves[grid.start[f] : grid.start[f + 1]]
        above = np.minimum(cells + 1, grid.last[f])
        split_at.append(np.column_stack((moves["back_high"], cells, moves["back_low"][above] - 1)))
    return Tests(nodes, more), np.sort(np.concatenate(split_at), axis=1).astype(np.int32)


def _trees(ensemble: Ensemble) -> tuple[npt.NDArray[Any], int]:
    """Per tree its root and the place of its leaves in words of 64 bits; and the number of words."""
    tree_of_leaf = _tree_of(ensemble)[_leaves(ensemble)]
    first = np.searchsorted(tree_of_leaf, np.arange(ensemble.n_trees + 1))
    trees = np.zeros(ensemble.n_trees, dtype=TREE)
    trees["root"], trees["first_leaf"], trees["n_leaves"] = ensemble.roots, first[:-1], np.diff(first)
    word = used = 0
    for tree in trees:
        n_leaves = int(tree["n_leaves"])
        if used + n_leaves > 64 and used > 0:
            word, used = word + 1, 0
        tree["word"], tree["shift"] = word, used
        # A tree with more leaves than bits has words of its own.
        word, used = (word, used + n_leaves) if n_leaves <= 64 else (word + -(-n_leaves // 64), 0)
    return trees, word + (used > 0)


def _uses(ensemble: Ensemble) -> npt.NDArray[np.uint64]:
    """Per tree the features that it tests, as bits."""
    uses = np.zeros((ensemble.n_trees, -(-ensemble.n_features // 64)), dtype=np.uint64)
    inner = np.flatnonzero(ensemble.feature >= 0)
    f = ensemble.feature[inner]
    np.bitwise_or.at(uses, (_tree_of(ensemble)[inner], f // 64), np.uint64(1) << (f % 64).astype(np.uint64))
    return uses


def _tables(
    ensemble: Ensemble, grid: ShiftedGrid, tests: npt.NDArray[Any], trees: npt.NDArray[Any], n_words: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Per feature and cell the leaves that stay reachable from this cell on, and up to it (0: a missing value)."""
    below = _leaves_below(ensemble, tests, trees, n_words)
    keep_low = np.full((int(grid.start[-1]), n_words), ~np.uint64(0))
    keep_high = keep_low.copy()
    inner = tests[["feature", "cut", "left", "right", "nan_left"]][ensemble.feature >= 0]
    for f, cut, left, right, nan_left in inner.tolist():
        first, end = int(grid.start[f]), int(grid.start[f + 1])
        not_left, not_right = ~below[left], ~below[right]
        keep_low[first + cut + 1 : end] &= not_left
        keep_high[first + 1 : first + cut + 1] &= not_right
        keep_high[first] &= not_right if nan_left else not_left
    return keep_low, keep_high


def _leaves_below(
    ensemble: Ensemble, tests: npt.NDArray[Any], trees: npt.NDArray[Any], n_words: int
) -> npt.NDArray[np.uint64]:
    """Per node the leaves at or below it, as bits of all words."""
    below = np.zeros((ensemble.n_nodes, n_words), dtype=np.uint64)
    leaves = _leaves(ensemble)
    tree = trees[_tree_of(ensemble)[leaves]]
    bit = tests["leaf"][leaves] - tree["first_leaf"]
    below[leaves, tree["word"] + bit // 64] = np.uint64(1) << (tree["shift"] + bit % 64).astype(np.uint64)
    # Children stand behind their parents, so that a walk from the end meets them first.
    for node in np.flatnonzero(ensemble.feature >= 0)[::-1].tolist():
        below[node] = below[ensemble.left[node]] | below[ensemble.right[node]]
    return below
