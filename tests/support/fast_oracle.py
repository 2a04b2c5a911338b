"""The truth of `oracles.py` at the speed that a million cases need: one model, many rows.

What a single feature can do, and at what cost, is asked of `oracles.moves`, which follows the definitions literally.
Here are only the sums over features, and the labels of all cells in one table. `tests/test_fuzz_local.py` holds both
oracles against each other. Like the other one it reads the plain arrays of an Ensemble and shares no code with engines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tests.support import oracles
from tests.support.oracles import OracleAttacker
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision

MAX_PAIRS = 400_000
"""Pairs of cell vectors that one question may have."""

CERTAIN = 2.0**-48
"""Shares of the budget are rounded once each and added up over a few features: sums are off by less than this."""


class TooManyPairs(Exception):
    """The question is too large for brute force."""


class _Options(NamedTuple):
    """The moves of one feature: the cells of z and w (NaN: the last one), and the cost as a share of the budget."""

    z: np.ndarray
    w: np.ndarray
    share: np.ndarray
    cost: list[Any]


def labels_of_cells(ensemble: Ensemble) -> np.ndarray:
    """The class index of every cell vector, with one more cell per feature, the last one, for NaN."""
    cuts = [oracles.thresholds(ensemble, f) for f in range(ensemble.n_features)]
    shape = tuple(len(row) + 2 for row in cuts)

    def leaves(node: int) -> Any:
        f = int(ensemble.feature[node])
        if f < 0:
            return int(ensemble.leaf[node])
        goes_left = np.ones(shape[f], dtype=bool)
        for cut in oracles.cuts_of_test(ensemble, node):
            goes_left ^= np.arange(shape[f]) > cuts[f].index(cut)
        goes_left[-1] = ensemble.nan_left[node]
        goes_left = goes_left.reshape([-1 if g == f else 1 for g in range(len(shape))])
        return np.where(goes_left, leaves(int(ensemble.left[node])), leaves(int(ensemble.right[node])))

    rule = ensemble.rule
    number = np.dtype(rule.precision).type
    scores = np.zeros((*shape, ensemble.n_scores), dtype=number)
    if not rule.base_last:
        scores += ensemble.base
    for root in ensemble.roots.tolist():
        scores = scores + ensemble.leaf_scores[np.broadcast_to(leaves(root), shape)]
    scores = scores / number(rule.divisor)
    if rule.base_last:
        scores = scores + ensemble.base
    assert scores.dtype == number
    return _decided(ensemble, scores.reshape(-1, ensemble.n_scores)).reshape(shape)


def _decided(ensemble: Ensemble, scores: np.ndarray) -> np.ndarray:
    if ensemble.rule.decision == Decision.ARGMAX:
        return scores.argmax(axis=1)
    if ensemble.rule.decision == Decision.CUT:
        return (scores[:, 0].astype(np.float64) > ensemble.rule.cut).astype(np.int64)
    # Probabilities: numpy's exp may round differently from the C library's, so each distinct row goes the plain way.
    rows, where = np.unique(scores, axis=0, return_inverse=True)
    return np.array([oracles._decide(ensemble, list(row)) for row in rows])[where.reshape(-1)]


class FastOracle:
    """Answers many questions about one model and one attacker."""

    def __init__(self, ensemble: Ensemble, attacker: OracleAttacker, labels: np.ndarray | None = None) -> None:
        self.ensemble = ensemble
        self.attacker = attacker
        self.labels = labels_of_cells(ensemble) if labels is None else labels
        self._options: dict[tuple[int, float, float], _Options] = {}

    def label(self, x: Sequence[float]) -> int:
        """The class index of x."""
        cells = []
        for f, value in enumerate(x):
            below = sum(e < value for e in oracles.thresholds(self.ensemble, f))
            cells.append(-1 if math.isnan(value) else below)
        return int(self.labels[tuple(cells)])

    def stable_around(self, x: Sequence[float], eps: Sequence[float]) -> bool:
        """T(w) = T(z) for all z in N(x) and w in A(z); NotImplementedError or TooManyPairs if it cannot tell."""
        options = [self._moves(f, float(x[f]), float(eps[f])) for f in range(len(x))]
        if math.prod(len(option.z) for option in options) > MAX_PAIRS:
            raise TooManyPairs
        z = w = np.zeros(1, dtype=np.int64)
        share = np.zeros(1)
        for option, size in zip(options, self.labels.shape, strict=True):
            share = np.add.outer(share, option.share).reshape(-1)
            keep = share <= 1.0 + CERTAIN
            share = share[keep]
            z = np.add.outer(z * size, option.z).reshape(-1)[keep]
            w = np.add.outer(w * size, option.w).reshape(-1)[keep]
        labels = self.labels.reshape(-1)
        differ = labels[z] != labels[w]
        if (differ & (share <= 1.0 - CERTAIN)).any():
            return False
        doubtful = np.flatnonzero(differ & (share > 1.0 - CERTAIN))
        return not any(self._affordable(options, int(z[i]), int(w[i])) for i in doubtful)

    def _affordable(self, options: list[_Options], z: int, w: int) -> bool:
        """Whether the moves between two cell vectors, given as flat indices, add up to at most the budget."""
        spent: Any = 0
        for option, a, b in zip(
            options, np.unravel_index(z, self.labels.shape), np.unravel_index(w, self.labels.shape), strict=True
        ):
            move = np.flatnonzero((option.z == a) & (option.w == b))
            spent += option.cost[int(move[0])]
        return bool(spent <= self.attacker.limit)

    def _moves(self, f: int, value: float, eps: float) -> _Options:
        key = (f, math.inf if math.isnan(value) else value, eps)
        if key not in self._options:
            x = [value if g == f else 0.0 for g in range(self.ensemble.n_features)]
            found = oracles.moves(self.ensemble, self.attacker, x, [eps] * len(x), f)
            limit = self.attacker.limit
            free = limit in (0, math.inf)  # no move that costs is left, or costs do not matter
            shares = [0.0 if free else float(Fraction(move.cost) / limit) for move in found]
            last = self.labels.shape[f] - 1
            self._options[key] = _Options(
                np.array([last if move.z == oracles.NAN_CELL else move.z for move in found], dtype=np.int64),
                np.array([last if move.w == oracles.NAN_CELL else move.w for move in found], dtype=np.int64),
                np.array(shares),
                [move.cost for move in found],
            )
        return self._options[key]
