"""Cells: an integer comparison says what the threshold says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeproof.model.grid import Grid

pool = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 5e-324, 1.0, float(np.nextafter(1.0, 2.0)), 1e300])


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), pool), min_size=1, max_size=12))
def test_going_left_is_a_comparison_of_cells(splits: list[tuple[int, float]]) -> None:
    feature = np.array([f for f, _ in splits])
    threshold = np.array([e for _, e in splits]) + 0.0
    grid = Grid.from_thresholds(feature, threshold, n_features=3)
    values = np.unique(np.concatenate((threshold, np.nextafter(threshold, -np.inf), np.nextafter(threshold, np.inf))))
    cut = grid.cell_of_cut(feature, threshold)
    for f, e, c in zip(feature, threshold, cut, strict=True):
        assert ((grid.cells_of(int(f), values) <= c) == (values <= e)).all()
    for f in range(3):
        for x, cell in zip(values, grid.cells_of(f, values), strict=True):
            assert x in grid.interval(f, int(cell))
        assert (np.diff(grid.cuts_of(f)) > 0).all()
