"""A search may be ended at any moment: it then says nothing, and never anything else than a search with time."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier

import treeproof as tp
from treeproof.results.verdicts import Outcome
from treeproof.verification.local_search import Local

ATTACKERS = {
    "linf": tp.Attacker.linf(1.5),
    "l0": tp.Attacker.l0(3),
    "l1": tp.Attacker.lp(1, 4.0),
    "l2": tp.Attacker.lp(2, 2.0),
    "budget": tp.Attacker((-3, 3), budget=3),
}


@cache
def forest() -> tuple[tp.Ensemble, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return tp.from_model(ExtraTreesClassifier(30, random_state=0).fit(X[300:], y[300:])), X[:6]


def decide(name: str, epsilon: float, max_looks: int | None = None) -> tuple[list[int], int]:
    ensemble, rows = forest()
    local = Local(ensemble, ATTACKERS[name].bind(ensemble))
    local.patience = 12  # so that every stage is reached
    if max_looks is not None:
        local.max_looks = max_looks
    return local.decide(rows, np.full(rows.shape[1], epsilon)).outcome.tolist(), local.looks


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize("name", ATTACKERS)
def test_a_search_that_is_ended_anywhere_says_unknown_or_the_same(name: str, epsilon: float) -> None:
    whole, n_looks = decide(name, epsilon)
    assert Outcome.UNKNOWN not in whole
    rng = np.random.default_rng(0)
    for most in {1, 2, 3, 5, 8, *rng.integers(1, n_looks, 40).tolist(), n_looks - 1}:
        ended, _ = decide(name, epsilon, most)
        for one, expected in zip(ended, whole, strict=True):
            assert one in (Outcome.UNKNOWN, expected)
    assert decide(name, epsilon, n_looks)[0] == whole


def test_looks_are_frequent() -> None:
    """About one look per tree in the quickest stages: what lies between two looks does not grow with the forest."""
    ensemble, rows = forest()
    for name in ATTACKERS:
        _, n_looks = decide(name, 0.0)
        assert n_looks >= ensemble.n_trees * len(rows)
