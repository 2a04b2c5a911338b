"""Choosing the trees of a forest, and their votes, by exact verdicts about the whole forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treeproof.model.ensemble import Ensemble
from treeproof.training.scorers import ExactScorer

PASSES = 2
"""How often each tree can lose a vote or get one."""


def chosen_votes(
    n_trees: int,
    ensemble_of: Callable[[Sequence[int]], Ensemble],
    scorer: ExactScorer,
    held_out: tuple[Any, Any, Any],
    random: np.random.RandomState,
) -> tuple[np.ndarray, float]:
    """How many votes each of some trees has, and the share of held-out rows that the forest is proved right about.

    All begin with one vote. Tree after tree loses it, or gets another, if more rows are proved then, or as many are and
    more are predicted right. So few rows change little: a forest that is put together from nothing by so few rows fits
    these rows, and is worse than one that was left alone.
    """
    votes = np.ones(n_trees, dtype=np.int64)
    X, y, weight = held_out

    def found(votes: np.ndarray, to_beat: float) -> tuple[float, float]:
        ensemble = ensemble_of(votes.tolist())
        right = float(np.average(ensemble.predict(X) == np.asarray(y), weights=weight))
        # Nobody is robust who is not right.
        return (scorer(ensemble, X, y, weight), right) if right >= to_beat else (-1.0, right)

    best = found(votes, 0.0)
    for _ in range(PASSES):
        before = votes
        for tree in random.permutation(n_trees).tolist():
            for more in (-1, 1):
                tried = votes.copy()
                tried[tree] += more
                if tried[tree] < 0 or not tried.any():
                    continue
                score = found(tried, best[0])
                if score > best:
                    best, votes = score, tried
                    break
        if votes is before:
            break
    return votes, best[0]
