"""Three engines, one truth: the local search and the map say the same of every row, the symbolic analysis no more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.golden import needs_golden, standard_row
from tests.support.small_maps import blurred, cell_corners, drawn, in_domain
from tests.support.strategies import points
from treeproof.maps.stability_map import StabilityMap
from treeproof.results.verdicts import Status


def rows_beside_cuts(smap: StabilityMap, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows on the cuts of the map and one double above, where statuses change."""
    columns = []
    for f in range(smap.grid.n_features):
        cuts = smap.grid.bounds.cuts_of(f)
        ends = np.concatenate((cuts, np.nextafter(cuts, np.inf), [0.5]))
        columns.append(rng.choice(ends, n))
    return np.column_stack(columns)


# Four tests of the same promise, so that they can run side by side.
@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_symbolic_within_map_and_local_equal_to_it(part: int) -> None:
    @settings(max_examples=75, deadline=None, database=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        ensemble, plain, smap = drawn(data)
        rows = cell_corners(smap, most=200)
        more = [data.draw(points(ensemble)) for _ in range(3)]
        rows += [x for x in more if not any(map(math.isnan, x)) and in_domain(plain, x)]
        status = smap.status(rows)
        assert all(blurred(smap, rows[i]) for i in np.flatnonzero(status == Status.OPEN))
        known = status != Status.OPEN
        local = tp.verify(ensemble, rows, ensemble.predict(rows), smap.attacker).stability
        assert status[known].tolist() == local[known].tolist()
        analysis = tp.analyze(ensemble, smap.attacker, max_iterations=data.draw(st.sampled_from([0, 1, 400])), n_jobs=1)
        proved = analysis.is_stable(rows)
        assert (status[proved & known] == Status.STABLE).all()
        assert (local[proved] == tp.Outcome.PROVED).all()
        # An interval that excludes 0 may be narrower than the steps between doubles: symbolic attacks are too many.
        if analysis.complete and smap.grid.sure.all() and all(low <= 0 <= high for low, high in plain.intervals):
            assert (proved == (status == Status.STABLE)).all()

    check()


@needs_golden
@pytest.mark.parametrize("row", range(18))
def test_engines_agree_on_the_standard_models(row: int) -> None:
    _, data, forest, attacker = standard_row(row)
    model = tp.from_model(forest, voting="hard")
    smap = StabilityMap.build(model, attacker, n_jobs=1)
    assert smap.complete
    rng = np.random.default_rng(row)
    near = rows_beside_cuts(smap, 3000, rng)
    rows = np.concatenate((data.X_test, rng.random((1000, near.shape[1])), near))
    stable = smap.is_stable(rows)
    local = tp.verify(model, rows, model.predict(rows), attacker).stability
    assert ((local == tp.Outcome.PROVED) == stable).all() and (local != tp.Outcome.UNKNOWN).all()
    few = tp.analyze(model, attacker, max_iterations=2, n_jobs=1).is_stable(rows)
    more = tp.analyze(model, attacker, max_iterations=60, n_jobs=1)
    assert (few <= more.is_stable(rows)).all() and (more.is_stable(rows) <= stable).all()
    if more.complete:
        assert (more.is_stable(rows) == stable).all()
