"""Choosing the trees of a forest, and their votes, by exact verdicts about the whole forest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treeproof.model.ensemble import Ensemble
from treeproof.training.scorers import ExactScorer

TRIED = 8
"""Trees that are tried for each place in the forest."""


def chosen_votes(
    n_trees: int,
    n_places: int,
    ensemble_of: Callable[[Sequence[int]], Ensemble],
    scorer: ExactScorer,
    held_out: tuple[Any, Any, Any],
    random: np.random.RandomState,
) -> tuple[np.ndarray, float]:
    """How many votes each of some trees has in a forest of `n_places` votes, and the share of rows it is right about.

    Place after place goes to the tree, out of a few that are drawn, with which most held-out rows are proved; among
    equals, to the one with which most are predicted right, as they are. The best of all these forests is taken.
    """
    votes, best, best_votes = np.zeros(n_trees, dtype=np.int64), (-1.0, -1.0), np.zeros(n_trees, dtype=np.int64)
    X, y, weight = held_out
    for _ in range(n_places):
        found = (-1.0, -1.0)
        for tree in random.permutation(n_trees)[:TRIED].tolist():
            tried = votes.copy()
            tried[tree] += 1
            ensemble = ensemble_of(tried.tolist())
            right = float(np.average(ensemble.predict(X) == np.asarray(y), weights=weight))
            # Nobody is robust who is not right, so most trees need no proofs.
            proved = scorer(ensemble, X, y, weight) if right >= found[0] else -1.0
            if (proved, right) > found:
                found, chosen = (proved, right), tried
        votes = chosen
        if found > best:
            best, best_votes = found, votes
    return best_votes, best[0]
