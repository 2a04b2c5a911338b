"""What no attack can take from rows when all trees are stumps: exactly."""

from __future__ import annotations

import numpy as np

from treeproof.importers import LEAF
from treeproof.numbers.doubles import FloatArray
from treeproof.training._grow import GrownTree
from treeproof.training._rows import TrainingSet

MOST_PRICES = 10_000
"""Budgets up to this are shared out exactly; with more, among the sets of columns that are told apart."""


class StumpMargins:
    """The least wants * score of each row under all attacks, for a sum of stumps.

    Stumps on one column add up to one function of it, so an attack that pays for the column puts it where that is
    least, and which columns are paid for is a knapsack. Exact where a column costs the same wherever it goes.
    """

    def __init__(self, data: TrainingSet, wants: FloatArray) -> None:
        n, n_features = len(wants), data.n_features
        self._data, self._wants = data, wants
        self._scores = [np.zeros(int(places)) for places in data.rows.n_places]
        self._free, self._paid = np.zeros((n_features, n)), np.zeros((n_features, n))

    def add(self, tree: GrownTree) -> None:
        """Adds a stump, or a leaf."""
        from treeproof._kernels.training.stumps import least_scores

        f = max(int(tree.feature[0]), 0)
        if tree.feature[0] == LEAF:
            self._scores[f] += tree.scores[0, 0]
        else:
            self._scores[f] += np.where(tree.lefts[0], tree.scores[tree.left[0], 0], tree.scores[tree.right[0], 0])
        least_scores(self._data.rows, np.int64(f), self._scores[f], self._wants, self._free[f], self._paid[f])

    def margins(self) -> FloatArray:
        """(n, n_sets): what attacks that pay for each set of columns leave to each row."""
        sets, bits = self._data.paid_sets, self._data.bits
        paid = (sets[None] & bits[:, None]) != 0 if len(sets) > 1 else np.ones((len(bits), 1))
        return np.asarray(self._free.sum(axis=0)[:, None] - (self._free - self._paid).T @ paid)

    def least(self) -> FloatArray:
        """(n,): what all attacks leave to each row."""
        from treeproof._kernels.training.stumps import best_bargains

        rows = self._data.rows
        gains = np.ascontiguousarray((self._free - self._paid).T)
        if rows.cost[gains.any(axis=0)].sum() <= rows.budget or rows.budget > MOST_PRICES:
            return np.asarray(self.margins().min(axis=1))
        lost, budget = np.empty(len(gains)), int(rows.budget)
        best_bargains(gains, rows.cost, budget, np.empty(budget + 1), lost)
        return np.asarray(self._free.sum(axis=0) - lost)
