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
    more are predicted right. If all of that gains no more than chance would, every tree keeps its vote: a few rows are
    soon fitted, and a forest that is put together for them can be worse on others than one that was left alone.
    """
    X, y, weight = held_out

    def found(votes: np.ndarray, to_beat: float) -> tuple[tuple[float, float], np.ndarray]:
        ensemble = ensemble_of(votes.tolist())
        right = float(np.average(ensemble.classes[ensemble.predict_index(X)] == np.asarray(y), weights=weight))
        if right < to_beat:  # nobody is robust who is not right
            return (-1.0, right), np.zeros(len(weight), dtype=bool)
        proved = scorer.proved(ensemble, X, y, weight)
        return (float(np.average(proved, weights=weight)), right), proved

    first = votes = np.ones(n_trees, dtype=np.int64)
    first_score, first_proved = best, proved = found(first, 0.0)
    for _ in range(PASSES):
        before = votes
        for tree in random.permutation(n_trees).tolist():
            for more in (-1, 1):
                tried = votes.copy()
                tried[tree] += more
                if tried[tree] < 0 or not tried.any():
                    continue
                score, its_proved = found(tried, best[0])
                if score > best:
                    best, proved, votes = score, its_proved, tried
                    break
        if votes is before:
            break
    return (votes, best[0]) if is_more(proved, first_proved) else (first, first_score[0])


def is_more(proved: np.ndarray, before: np.ndarray) -> bool:
    """Whether more rows were gained than lost, by more than chance.

    If either were as likely, the difference would have a standard deviation of the root of their sum.
    """
    gained, lost = int((proved & ~before).sum()), int((before & ~proved).sum())
    return gained > lost and (gained - lost) ** 2 > gained + lost
