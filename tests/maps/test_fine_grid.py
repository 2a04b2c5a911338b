"""The fine grid against the definition: all doubles of a cell reach the same coarse cells, and no others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.oracles import OracleAttacker, Span
from tests.support.strategies import attackers, tiny_ensembles
from treeproof.errors import InvalidInput
from treeproof.maps.fine_grid import FineGrid
from treeproof.model.ensemble import Ensemble


def reached(ensemble: Ensemble, plain: OracleAttacker, f: int, z: float) -> set[int]:
    """The coarse cells that a move of feature f leads to from the double z, by the definition."""
    low, high = plain.intervals[f]
    within = oracles.shifted(Span(z, z), low, high).meet(oracles.taken(ensemble, f))
    if plain.domain is not None:
        within = within.meet(Span(*plain.domain[f]))
    return {c for c, cell in enumerate(oracles.cells_of(ensemble, f)) if not cell.meet(within).empty}


def some_doubles(first: float, last: float) -> list[float]:
    """A few doubles of a cell: those at its ends and some between."""
    middle = first / 2 + last / 2
    near = [first, math.nextafter(first, math.inf), middle, math.nextafter(last, -math.inf), last]
    return [z for z in near if first <= z <= last]


@pytest.mark.slow
@settings(max_examples=250, deadline=None, database=None)
@given(st.data())
def test_doubles_of_a_fine_cell_reach_the_same_coarse_cells(data: st.DataObject) -> None:
    ensemble = data.draw(tiny_ensembles())
    anchor = [float(np.clip(0.25, *ends)) for ends in zip(ensemble.value_low, ensemble.value_high, strict=True)]
    plain = data.draw(attackers(ensemble.n_features, anchor).filter(lambda one: one.p is None))
    threat = as_attacker(plain).bind(ensemble)
    grid = FineGrid.of(ensemble, threat, threat.domain_low, threat.domain_high)
    for f in range(ensemble.n_features):
        cuts = grid.bounds.cuts_of(f)
        ends = np.concatenate(([threat.domain_low[f]], np.nextafter(cuts, np.inf)))
        for k, (first, last) in enumerate(zip(ends, np.append(cuts, threat.domain_high[f]), strict=True)):
            assert first <= last
            at = grid.start[f] + k
            expected = set(range(grid.reach_low[at], grid.reach_high[at] + 1))
            for z in some_doubles(float(first), float(last)):
                assert [c for c, cell in enumerate(oracles.cells_of(ensemble, f)) if cell.first <= z <= cell.last] == [
                    grid.own[at]
                ]
                if threat.cost[f] > threat.budget or plain.intervals[f] == (0.0, 0.0):
                    assert expected == {grid.own[at]}
                elif grid.sure[at]:
                    # Where a move leads nowhere new, it does not matter whether there is one.
                    assert reached(ensemble, plain, f, z) | {grid.own[at]} == expected | {grid.own[at]}
                else:
                    assert reached(ensemble, plain, f, z) in (set(), expected)


def test_boundaries_are_the_last_doubles_before_a_threshold_is_passed() -> None:
    """0.1 and 0.3 are no sums of doubles: a rounded e - δ is one double off on one of the sides."""
    from treeproof.importers import LEAF, EnsembleBuilder

    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[0.3] * 3, left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
        scores=[[0, 0], [1, 0], [0, 1]],
    )  # fmt: skip
    ensemble = builder.build()
    for delta in (0.1, 0.2, 0.7, 1e-17, 1e16):
        plain = OracleAttacker(((-delta, delta),), (1,))
        threat = as_attacker(plain).bind(ensemble)
        grid = FineGrid.of(ensemble, threat, threat.domain_low, threat.domain_high)
        turns = set(grid.bounds.cuts_of(0).tolist())
        for near in (0.3 - delta, 0.3, 0.3 + delta):
            z = near
            for _ in range(6):
                z = math.nextafter(z, -math.inf)
            for _ in range(12):
                up = math.nextafter(z, math.inf)
                changes = reached(ensemble, plain, 0, z) != reached(ensemble, plain, 0, up) or z == 0.3
                assert (z in turns) == changes
                z = up


def test_lp_attackers_have_no_fine_grid() -> None:
    from sklearn.tree import DecisionTreeClassifier

    model = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    with pytest.raises(InvalidInput, match=r"use treeproof\.verify"):
        tp.StabilityMap.build(model, tp.Attacker.lp(2, 0.1))
