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


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), pool), max_size=12),
    st.lists(st.tuples(*[st.one_of(pool, st.sampled_from([np.nan, np.inf, -np.inf]))] * 3), max_size=5),
)
def test_rows_have_the_cells_of_their_values(
    splits: list[tuple[int, float]], given_rows: list[tuple[float, ...]]
) -> None:
    feature, threshold = np.array([f for f, _ in splits], dtype=int), np.array([e for _, e in splits]) + 0.0
    grid = Grid.from_thresholds(feature, threshold, n_features=3)
    rows = np.array(given_rows, dtype=float).reshape(-1, 3)
    expected = np.column_stack([grid.cells_of(f, rows[:, f]) for f in range(3)])
    frozen = rows.copy()
    frozen.flags.writeable = False
    for same in (rows, frozen, np.asfortranarray(rows), rows[::-1][::-1]):
        cells = grid.cells(same)
        assert cells.dtype == np.int32
        assert (cells == expected).all()


def test_cells_are_found_by_one_compiled_function() -> None:
    """Arrays that can be written and others do not each have it compiled."""
    from treeproof._kernels.cells import cells_of_rows

    grid = Grid(np.array([1.0, 2.0]), np.array([0, 2]))
    rows = np.array([[0.5], [1.5], [2.5]])
    frozen = rows.copy()
    frozen.flags.writeable = False
    for same in (rows, frozen, rows[::2]):
        grid.cells(same)
    Grid.from_thresholds(np.array([0]), np.array([1.0]), 1).cells(rows)
    assert len(cells_of_rows.signatures) == 1
