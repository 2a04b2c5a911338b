"""A model and an attacker as the symbolic kernels want them: everything on fine cells, leaves as bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.symbolic.shifted_grid import MISSING_CELL, ShiftedGrid
from treeproof.threat.threat import Threat

LARGEST_TABLE = 64 * 2**20
"""Bytes of leaf tables above which trees are walked instead."""

Boxes = npt.NDArray[Any]
"""Symbolic attacks (n, 4, n_features): the first and last cell of the pre-image, and of the post-image."""


@dataclass(frozen=True, eq=False)
class CompiledAnalysis:
    """What the kernels of one analysis share."""

    ensemble: Ensemble
    threat: Threat
    grid: ShiftedGrid
    model: Any
    rules: Any
    kind: npt.NDArray[np.int64]
    n_words: int
    n_classes: int
    cell_type: type[np.signedinteger[Any]]
    missing: bool
    """Whether instances with missing values are analyzed too."""

    @classmethod
    def build(cls, ensemble: Ensemble, threat: Threat, missing: bool) -> CompiledAnalysis:
        """Puts thresholds, moves, leaf scores and tables together."""
        from treeproof._kernels.symbolic.refinement import SymbolicModel
        from treeproof._kernels.symbolic.trees import Rules

        grid = ShiftedGrid.build(ensemble, threat)
        search_model, exact = ensemble.compiled
        tests, split_at = _tests(ensemble, grid)
        forest, n_words = _forest(ensemble)
        leaves = _leaves(ensemble)
        value, offset = search_model.value, search_model.offset
        a, b = np.triu_indices(value.shape[1], 1)
        rows = ensemble.leaf[leaves]
        kind = search_model.kind[rows].astype(np.int64)
        worth = np.column_stack((value[rows][:, b] - value[rows][:, a], kind))
        keep_low = keep_high = np.empty((0, n_words), dtype=np.uint64)
        if 16 * int(grid.start[-1]) * n_words <= LARGEST_TABLE:
            keep_low, keep_high = _tables(ensemble, grid, tests, forest, n_words)
        model = SymbolicModel(
            tests,
            forest,
            _uses(ensemble),
            worth,
            offset[b] - offset[a],
            np.int64(search_model.slack),
            keep_low,
            keep_high,
            rows.astype(np.int32),
            exact,
            split_at,
        )
        rules = Rules(grid.start, grid.moves, threat.cost, np.int64(threat.budget), threat.away)
        cell_type = np.int16 if int(grid.last.max()) < 2**15 - 2 else np.int32
        return cls(
            ensemble,
            threat,
            grid,
            model,
            rules,
            kind,
            n_words,
            value.shape[1],
            cell_type,
            missing and ensemble.handles_missing,
        )

    def everything(self) -> Boxes:
        """The attack of a root: any instance, unchanged or not (1, 4, n_features)."""
        box = np.empty((1, 4, self.ensemble.n_features), dtype=self.cell_type)
        box[:, [0, 2]] = MISSING_CELL if self.missing else MISSING_CELL + 1
        box[:, [1, 3]] = self.grid.last
        return box

    def is_left_out(self, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """Which rows the analysis says nothing about: those with missing values, unless it was told to."""
        if self.missing or not self.ensemble.handles_missing:
            return np.zeros(len(rows), dtype=np.bool_)
        return np.asarray(np.isnan(rows).any(axis=1))

    def scratch(self) -> Any:
        """Room for one thread."""
        from treeproof._kernels.symbolic.refinement import Scratch

        n_trees, n_pairs, n_nodes = self.ensemble.n_trees, len(self.model.base_gap), self.ensemble.n_nodes
        return Scratch(
            np.zeros((2, self.n_words), dtype=np.uint64),
            np.zeros((2, n_trees, 2, n_pairs), dtype=np.int64),
            np.zeros((2, self.n_classes), dtype=np.bool_),
            np.zeros((4, n_pairs), dtype=np.int64),
            np.zeros(self.model.uses.shape[1], dtype=np.uint64),
            np.zeros(n_nodes + 1, dtype=np.int32),
            np.zeros(max(1, len(self.model.split_at)), dtype=np.int32),
            np.zeros(n_nodes + 1, dtype=np.int32),
        )


def _leaves(ensemble: Ensemble) -> npt.NDArray[np.int64]:
    """The nodes that are leaves; nodes stand tree after tree."""
    return np.flatnonzero(ensemble.feature < 0)


def _tree_of(ensemble: Ensemble) -> npt.NDArray[np.int64]:
    return np.searchsorted(ensemble.roots, np.arange(ensemble.n_nodes), side="right") - 1


def _tests(ensemble: Ensemble, grid: ShiftedGrid) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The nodes on fine cells, and per threshold v the cells after which a split at v cuts the pre-image.

    These are v itself and the last instances that can end at v or below, or cannot end above it: v - low and v - high.
    The paper writes v + low and v + high, the same for intervals that are as long to both sides; for others only
    these three separate instances that can cross v from those that cannot.
    """
    from treeproof._kernels.symbolic.trees import BACK_HIGH, BACK_LOW

    tests = np.zeros((ensemble.n_nodes, 7), dtype=np.int32)
    tests[:, 0], tests[:, 2], tests[:, 3] = ensemble.feature, ensemble.left, ensemble.right
    tests[:, 4] = ensemble.nan_left
    leaves = _leaves(ensemble)
    tests[leaves, 6] = np.arange(len(leaves))
    split_at: list[npt.NDArray[np.int32]] = []
    n_thresholds = 0
    for f in range(ensemble.n_features):
        mine = np.flatnonzero(ensemble.feature == f)
        tests[mine, 1] = grid.cell_of_threshold(f, ensemble.threshold[mine])
        cuts, number = np.unique(tests[mine, 1], return_inverse=True)
        tests[mine, 5] = n_thresholds + number.reshape(-1)
        n_thresholds += len(cuts)
        moves = grid.moves[grid.start[f] : grid.start[f + 1]]
        above = np.minimum(cuts + 1, grid.last[f])
        split_at.append(np.column_stack((moves[cuts, BACK_HIGH], cuts, moves[above, BACK_LOW] - 1)))
    return tests, np.sort(np.concatenate(split_at), axis=1).astype(np.int32)


def _forest(ensemble: Ensemble) -> tuple[npt.NDArray[np.int32], int]:
    """Per tree its root and the place of its leaves in words of 64 bits; and the number of words."""
    trees = _tree_of(ensemble)[_leaves(ensemble)]
    first = np.searchsorted(trees, np.arange(ensemble.n_trees + 1))
    forest = np.zeros((ensemble.n_trees, 5), dtype=np.int32)
    forest[:, 0], forest[:, 3], forest[:, 4] = ensemble.roots, first[:-1], np.diff(first)
    word = used = 0
    for t, n_leaves in enumerate(forest[:, 4].tolist()):
        if used + n_leaves > 64 and used > 0:
            word, used = word + 1, 0
        forest[t, 1], forest[t, 2] = word, used
        # A tree with more leaves than bits has words of its own.
        word, used = (word, used + n_leaves) if n_leaves <= 64 else (word + -(-n_leaves // 64), 0)
    return forest, word + (used > 0)


def _uses(ensemble: Ensemble) -> npt.NDArray[np.uint64]:
    """Per tree the features that it tests, as bits."""
    uses = np.zeros((ensemble.n_trees, -(-ensemble.n_features // 64)), dtype=np.uint64)
    inner = np.flatnonzero(ensemble.feature >= 0)
    f = ensemble.feature[inner]
    np.bitwise_or.at(uses, (_tree_of(ensemble)[inner], f // 64), np.uint64(1) << (f % 64).astype(np.uint64))
    return uses


def _tables(
    ensemble: Ensemble,
    grid: ShiftedGrid,
    tests: npt.NDArray[np.int32],
    forest: npt.NDArray[np.int32],
    n_words: int,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Per feature and cell the leaves that stay reachable from this cell on, and up to it (0: a missing value)."""
    below = _leaves_below(ensemble, tests, forest, n_words)
    keep_low = np.full((int(grid.start[-1]), n_words), ~np.uint64(0))
    keep_high = keep_low.copy()
    for node in np.flatnonzero(ensemble.feature >= 0).tolist():
        f, cut = int(tests[node, 0]), int(tests[node, 1])
        first, end = int(grid.start[f]), int(grid.start[f + 1])
        not_left, not_right = ~below[tests[node, 2]], ~below[tests[node, 3]]
        keep_low[first + cut + 1 : end] &= not_left
        keep_high[first + 1 : first + cut + 1] &= not_right
        keep_high[first] &= not_right if tests[node, 4] else not_left
    return keep_low, keep_high


def _leaves_below(
    ensemble: Ensemble, tests: npt.NDArray[np.int32], forest: npt.NDArray[np.int32], n_words: int
) -> npt.NDArray[np.uint64]:
    """Per node the leaves at or below it, as bits of all words."""
    below = np.zeros((ensemble.n_nodes, n_words), dtype=np.uint64)
    leaves = _leaves(ensemble)
    tree = _tree_of(ensemble)[leaves]
    bit = tests[leaves, 6] - forest[tree, 3]
    below[leaves, forest[tree, 1] + bit // 64] = np.uint64(1) << (forest[tree, 2] + bit % 64).astype(np.uint64)
    # Children stand behind their parents, so that a walk from the end meets them first.
    for node in np.flatnonzero(ensemble.feature >= 0)[::-1].tolist():
        below[node] = below[tests[node, 2]] | below[tests[node, 3]]
    return below
