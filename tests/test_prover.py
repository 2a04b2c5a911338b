"""The prover against the definitions, on models whose tests have several cuts, and on categories."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.category_models import is_stable, random_model, random_moves, random_row
from tests.support.prover import _Prover
from tests.support.strategies import Case, cases
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.pieces import Pieces


def several_cuts() -> st.SearchStrategy[Case]:
    """Cases for an attacker with intervals that are quick to prove: no search through all binades."""

    def is_quick(case: Case) -> bool:
        narrow = any(high - low < 0.05 and not low <= 0 <= high for low, high in case.attacker.intervals)
        return case.attacker.p is None and not any(map(math.isnan, case.x)) and not narrow

    return cases(several=True).filter(is_quick)


def assert_as_defined(case: Case) -> None:
    ensemble, plain, x, _, eps = case
    huge = np.abs(ensemble.grid.cuts).max(initial=0.0) > 1e6
    assume(not (huge and any(not low <= 0 <= high for low, high in plain.intervals)))
    attacker = as_attacker(plain)
    prover = _Prover(ensemble, attacker)
    low, high = attacker.bind(ensemble).neighbourhood(np.array([x]), np.array(eps))
    around = list(zip(low[0].tolist(), high[0].tolist(), strict=True))
    assert prover.is_stable(around) == oracles.stable_around(ensemble, plain, x, eps)
    assert prover.is_unstable([(value, value) for value in x]) != oracles.stable(ensemble, plain, x)


@settings(max_examples=30, deadline=None, database=None)
@given(several_cuts())
def test_proofs_are_what_the_definitions_say(case: Case) -> None:
    assert_as_defined(case)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=150, deadline=None, database=None)
@given(several_cuts())
def test_proofs_are_what_the_definitions_say_in_many_cases(case: Case) -> None:
    assert_as_defined(case)


def test_a_gap_in_the_middle_is_seen() -> None:
    """Label 1 for (1, 2] and above 5: stable where a step of 1 leads over no cut, and unstable beside each of them."""
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=[0, LEAF, LEAF],
        threshold=[0.0, 0, 0],
        left=[1, LEAF, LEAF],
        right=[2, LEAF, LEAF],
        scores=[[0, 0], [1, 0], [0, 1]],
        pieces={0: Pieces((1.0, 2.0, 5.0), (True, False, True, False))},
    )
    prover = _Prover(builder.build(), tp.Attacker.linf(1.0))
    assert prover.is_stable([(3.0 + 1e-9, 4.0)]) and prover.is_stable([(6.0 + 1e-9, 99.0)])
    assert prover.is_unstable([(1.0 + 1e-9, 2.0)]) and prover.is_unstable([(0.1, 3.0)])
    assert not prover.is_stable([(3.0, 4.0 + 1e-9)]) and not prover.is_unstable([(2.5, 3.5)])


@pytest.mark.parametrize("seed", range(4))
def test_categories_become_what_the_model_knows_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    for _ in range(6):
        model, moves, budget = random_model(random), random_moves(random), random.choice((None, 1, 2))
        prover = _Prover(model, tp.Attacker(moves, budget=budget))
        for _ in range(6):
            row = random_row(random)
            stable = is_stable(model, row, moves, budget, oracles.predict(model, row))
            assert prover.is_stable([(value, value) for value in row]) == stable
            assert prover.is_unstable([(value, value) for value in row]) != stable
