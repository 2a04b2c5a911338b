"""Fine cells against the definition: what is within reach of each double, in rational arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.oracles import OracleAttacker, Span, shifted
from tests.support.strategies import attackers, points, threshold_distances, tiny_ensembles
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.symbolic.shifted_grid import MISSING_CELL, ShiftedGrid


def stump(threshold: float) -> Ensemble:
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[threshold, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
        scores=[[0, 0], [1, 0], [0, 1]],
    )  # fmt: skip
    return builder.build()


def grid_of(ensemble: Ensemble, plain: OracleAttacker) -> ShiftedGrid:
    return ShiftedGrid.build(ensemble, as_attacker(plain).bind(ensemble))


def cell_of(grid: ShiftedGrid, f: int, value: float) -> int:
    """The cell of one value, by looking at every cell."""
    tops = grid.top[grid.start[f] + 1 : grid.start[f + 1]]
    return 1 + int(sum(top < value for top in tops))


@pytest.mark.slow
@settings(max_examples=400, deadline=None, database=None)
@given(st.data())
def test_cells_know_exactly_what_is_within_reach(data: st.DataObject) -> None:
    ensemble = data.draw(tiny_ensembles(max_features=2))
    x = data.draw(points(ensemble))
    plain = data.draw(attackers(ensemble.n_features, x, threshold_distances(ensemble, x)).filter(lambda a: a.p is None))
    grid = grid_of(ensemble, plain)
    for f in range(ensemble.n_features):
        domain = oracles._domain(plain, f).meet(oracles.taken(ensemble, f))
        n = int(grid.last[f])
        tops = grid.top[grid.start[f] + 1 : grid.start[f + 1]].tolist()
        bottoms = [domain.first, *(math.nextafter(top, math.inf) for top in tops[:-1])]
        assert tops[-1] == domain.last
        assert all(a <= b for a, b in zip(bottoms, tops, strict=True)), "an empty cell"
        cells = range(1, n + 1)
        moves = grid.moves[grid.start[f] + 1 : grid.start[f + 1]]
        reach_low, reach_high = moves["reach_low"].tolist(), moves["reach_high"].tolist()
        back_low, back_high = moves["back_low"].tolist(), moves["back_high"].tolist()
        for bottom, top, low, high in zip(bottoms, tops, reach_low, reach_high, strict=True):
            reach = shifted(Span(bottom, top), *plain.intervals[f])
            if reach.first > domain.last or reach.last < domain.first:
                assert low > high
            else:
                reach = reach.meet(domain)
                assert (low, high) == (cell_of(grid, f, reach.first), cell_of(grid, f, reach.last))
        for cell, first, last in zip(cells, back_low, back_high, strict=True):
            assert first == next((c for c in cells if reach_high[c - 1] >= cell), n + 1)
            assert last == max((c for c in cells if reach_low[c - 1] <= cell), default=0)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, database=None)
@given(st.data())
def test_all_doubles_of_a_cell_agree_on_which_thresholds_an_attack_can_pass(data: st.DataObject) -> None:
    """The ends of a cell, and so everything between them, can end at or below a threshold, or above it, alike."""
    ensemble = data.draw(tiny_ensembles(max_features=2))
    x = data.draw(points(ensemble))
    plain = data.draw(attackers(ensemble.n_features, x, threshold_distances(ensemble, x)).filter(lambda a: a.p is None))
    grid = grid_of(ensemble, plain)
    for f in range(ensemble.n_features):
        domain = oracles._domain(plain, f).meet(oracles.taken(ensemble, f))
        tops = grid.top[grid.start[f] + 1 : grid.start[f + 1]].tolist()
        bottoms = [domain.first, *(math.nextafter(top, math.inf) for top in tops[:-1])]
        for e in oracles.thresholds(ensemble, f):
            if not domain.first <= e < domain.last:
                continue
            for bottom, top in zip(bottoms, tops, strict=True):
                ends = [shifted(Span(z, z), *plain.intervals[f]) for z in (bottom, top)]
                assert len({reach.first <= e for reach in ends}) == 1
                assert len({reach.last > e for reach in ends}) == 1


def test_rounded_shifts_are_not_enough() -> None:
    """From the double above 7 no double above 8 is within reach of 1: the cut is that double, not 7."""
    grid = ShiftedGrid.build(stump(8.0), as_attacker(OracleAttacker(((-1.0, 1.0),), (1,))).bind(stump(8.0)))
    above_seven = math.nextafter(7.0, 8.0)
    assert grid.cuts_of(0).tolist() == [above_seven, 8.0, 9.0]
    assert grid.shown[2:4].tolist() == [8.0, 9.0]
    assert grid.shown[1] == 7.0
    assert grid.cells(np.array([[7.0], [above_seven], [7.5], [8.5], [9.5], [math.nan]])).tolist() == [
        [1], [1], [2], [3], [4], [MISSING_CELL],
    ]  # fmt: skip


def test_thresholds_outside_the_domain_send_everything_to_one_side() -> None:
    plain = OracleAttacker(((-1.0, 1.0),), (1,), domain=((0.0, 5.0),))
    ensemble = stump(8.0)
    grid = grid_of(ensemble, plain)
    assert grid.cell_of_threshold(0, np.array([-1.0, 8.0])).tolist() == [0, int(grid.last[0])]
