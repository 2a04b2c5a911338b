"""Every kind of attacker on small models with categories and missing values, against brute force by definition."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import treeproof as tp
from tests.support.any_attacker import (
    alike_rows,
    is_unstable,
    random_attacker,
    random_row,
    random_sets,
    some_neighbours,
)
from tests.support.category_models import random_model
from treeproof.results.verdicts import Outcome

SIZES = [0.0, 0.1, 0.0, 0.05]
"""ε of each column: in one of them, it may be below the step of the attacker."""


def check_stability(seeds: range) -> set[int]:
    found = set()
    for seed in seeds:
        random = Random(seed)
        model, attacker = random_model(random), random_attacker(random)
        X = [random_row(random) for _ in range(3)]
        result = tp.verify(model, np.array(X), model.predict(np.array(X)), attacker)
        for x, outcome in zip(X, result.stability.tolist(), strict=True):
            expected = Outcome.REFUTED if is_unstable(model, attacker, x, x) else Outcome.PROVED
            assert outcome == expected, (seed, x, attacker)
            found.add(outcome)
    return found


@pytest.mark.slow
def test_stability_is_that_of_brute_force() -> None:
    assert check_stability(range(80)) == {Outcome.PROVED, Outcome.REFUTED}


def test_stability_is_that_of_brute_force_in_a_few_cases() -> None:
    check_stability(range(1000, 1008))


@pytest.mark.long
@pytest.mark.slow
def test_no_neighbour_of_a_resilient_row_is_unstable() -> None:
    for seed in range(20):
        random = Random(seed)
        model, attacker = random_model(random), random_attacker(random)
        X = [random_row(random) for _ in range(2)]
        result = tp.verify(model, np.array(X), model.predict(np.array(X)), attacker, epsilon=SIZES)
        for x, outcome in zip(X, result.resilience_by_epsilon[0].tolist(), strict=True):
            if outcome == Outcome.PROVED:
                neighbours = some_neighbours(model, attacker, x, SIZES, random)
                assert not any(is_unstable(model, attacker, x, near) for near in neighbours), (seed, x, attacker)


def check_sets(seeds: range) -> set[int]:
    found = set()
    for seed in seeds:
        random = Random(seed)
        model, attacker, sets = random_model(random), random_attacker(random), random_sets(random)
        X = np.array([random_row(random) for _ in range(3)])
        result = tp.verify(model, X, model.predict(X), attacker, epsilon=sets)
        for x, stability, outcome in zip(
            X.tolist(), result.stability.tolist(), result.resilience_by_epsilon[0].tolist(), strict=True
        ):
            unstable = any(is_unstable(model, attacker, near, near) for near in alike_rows(x, sets))
            assert outcome == (Outcome.REFUTED if unstable else Outcome.PROVED), (seed, x, attacker, sets)
            found.add((stability, outcome))
        tp.check.check_verification(model, result)
    return found


@pytest.mark.long
@pytest.mark.slow
def test_resilience_among_values_that_stand_for_each_other_is_that_of_brute_force() -> None:
    proved, refuted = Outcome.PROVED, Outcome.REFUTED
    assert check_sets(range(80)) == {(proved, proved), (proved, refuted), (refuted, refuted)}


def test_resilience_among_values_is_that_of_brute_force_in_a_few_cases() -> None:
    check_sets(range(1000, 1006))


@pytest.mark.slow
def test_no_neighbour_of_a_row_that_is_resilient_among_values_is_unstable() -> None:
    for seed in range(20):
        random = Random(seed)
        model, attacker, sets = random_model(random), random_attacker(random), random_sets(random)
        X = [random_row(random) for _ in range(2)]
        epsilon = {"b": 0.1, "d": 0.3} | sets
        result = tp.verify(model, np.array(X), model.predict(np.array(X)), attacker, epsilon=epsilon)
        for x, outcome in zip(X, result.resilience_by_epsilon[0].tolist(), strict=True):
            for other in alike_rows(x, sets) if outcome == Outcome.PROVED else ():
                neighbours = some_neighbours(model, attacker, other, [0.0, 0.1, 0.0, 0.3], random)[:10]
                assert not any(is_unstable(model, attacker, x, near) for near in neighbours), (seed, x, attacker)
