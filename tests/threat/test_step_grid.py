"""Grids that threads share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.support.at_once import at_once
from treeproof.threat import step_grid
from treeproof.threat.step_grid import StepGrid

N_THREADS = 8


def test_threads_that_share_a_grid_find_what_one_alone_finds() -> None:
    rng = np.random.default_rng(0)
    rows = [np.round(rng.uniform(-5, 5, 3), 2) for _ in range(40)]
    ends = [(X - 1, X + 1) for X in rows]
    shared = StepGrid(Fraction(1, 8))

    def points(grid: StepGrid, i: int) -> list[list[float]]:
        lines = grid.lines(rows[i])
        first, last, _ = lines.numbers(lines.of_row, *ends[i])
        return [first.tolist(), last.tolist()]

    alone = [points(StepGrid(Fraction(1, 8)), i) for i in range(len(rows))]
    every = range(2 * len(rows))
    for found in at_once(N_THREADS, lambda k: [points(shared, (i + 7 * k) % len(rows)) for i in every], step_grid):
        assert sorted(map(str, found)) == sorted(map(str, alone * 2))
