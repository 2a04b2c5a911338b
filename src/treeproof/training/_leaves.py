"""The leaves that attacks bring rows to: what each row can be made to lose, and scores under which that is least."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.importers import LEAF
from treeproof.numbers.doubles import FloatArray
from treeproof.training._grow import GrownTree
from treeproof.training._rows import IntArray, TrainingSet

REFITS = 2
"""How often the scores of all leaves are improved, one after the other."""


class Leaves:
    """The leaves of one tree, and which of them each row of a training set can be brought to."""

    def __init__(self, tree: GrownTree, data: TrainingSet) -> None:
        self.nodes: IntArray = np.flatnonzero(tree.feature == LEAF)
        self._data = data
        self._reached = _reached(tree, data, self.nodes)

    def worst(self, scores: FloatArray, wants: FloatArray) -> FloatArray:
        """(n, n_sets): the least of wants * score over the leaves of each row that each set of columns pays for.

        `scores` (n_leaves,), `wants` (n,) of 1 and -1.
        """
        from treeproof._kernels.training.leaves import worst_scores

        sets = self._data.paid_sets
        worst = np.empty((len(wants), len(sets)))
        worst_scores(self._reached, sets, np.ascontiguousarray(scores), wants, worst)
        return worst

    def refitted(self, scores: FloatArray, wants: FloatArray, weight: FloatArray, terms: Any) -> FloatArray:
        """Scores of leaves with at most as much loss under attack; see `refit_leaves` of the kernels."""
        from treeproof._kernels.training.leaves import refit_leaves

        n, better = len(scores), np.array(scores)
        room = [np.empty(n, dtype=np.int64) for _ in range(3)]
        refit_leaves(self._reached, better, wants, weight, terms, REFITS, *room, np.empty((2, n + 1)))
        return np.asarray(better)

    def loss_under_attack(self, scores: FloatArray, weight: FloatArray) -> float:
        """The weighted sum over rows of the largest squared loss at a leaf; `scores` (n_leaves, heads)."""
        start, leaves = self._reached.start, self._reached.leaves
        row = np.repeat(np.arange(len(weight)), np.diff(start))
        lost = ((self._data.target[row] - scores[leaves]) ** 2).sum(axis=1)
        return float(weight @ np.maximum.reduceat(lost, start[:-1]))


def _reached(tree: GrownTree, data: TrainingSet, nodes: IntArray) -> Any:
    """The leaves of each row, in a list that grows as long as it must."""
    from treeproof._kernels.training.leaves import Reached, reached_leaves

    n = len(data.label)
    numbers = np.full(len(tree.feature), -1)
    numbers[nodes] = np.arange(len(nodes))
    start = np.zeros(n + 1, dtype=np.int64)
    found, paid = (np.empty(4 * n, dtype=np.int64) for _ in range(2))
    scratch = [np.empty(tree.depth + 2, dtype=np.int64) for _ in range(3)]
    row = 0
    while (end := reached_leaves(data.rows, data.bits, tree.walked, numbers, row, n, start, found, paid, *scratch)) < 0:
        row = -end - 1
        found, paid = (np.concatenate((some, np.empty_like(some))) for some in (found, paid))
    leaves = found[:end]
    order = np.argsort(leaves, kind="stable")
    rows: npt.NDArray[np.int64] = np.repeat(np.arange(n), np.diff(start))
    row_start = np.concatenate(([0], np.cumsum(np.bincount(leaves, minlength=len(nodes))))).astype(np.int64)
    return Reached(start, leaves, paid[:end], row_start, rows[order])
