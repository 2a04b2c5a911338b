"""Which columns an attacker moves in vain: those that it brings to no threshold of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import LARGEST, FloatArray
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.threat import Threat

FIRST_ROWS, MOST_ROWS = 64, 4096
"""Rows that are looked at first, which most often reach a threshold of every column, and then together."""


class InVain(NamedTuple):
    """Columns, by position, that the attacker can move, and whose moves change nothing."""

    unreached: tuple[int, ...] = ()
    """Those that the model tests, but that no row, nor any neighbour of one, brings to another cell."""
    untested: tuple[int, ...] = ()
    """Those that the model never tests."""

    def counts(self, rows: int) -> dict[str, int]:
        """The columns as counts of so many rows: sums over several sets of rows say what is in vain in all of them."""
        return {f"{kind} {f}": rows for kind, columns in self._asdict().items() for f in columns}

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], rows: int, movable: Iterable[int]) -> InVain:
        """The columns, out of the movable ones, that are in vain in all of so many rows, by such sums."""
        found = [[f for f in movable if rows and counts.get(f"{kind} {f}") == rows] for kind in cls._fields]
        return cls(*map(tuple, found))


def moved_in_vain(threat: Threat, ensemble: Ensemble, X: FloatArray, epsilons: Iterable[FloatArray] = ()) -> InVain:
    """The columns that the attacker moves in vain from all rows of X, and from all their neighbours."""
    tested = ensemble.grid.n_cells > 1
    unreached = threat.movable & tested
    widest = np.max([np.zeros(ensemble.n_features), *epsilons], axis=0)
    _strike_out(unreached, threat, ensemble.grid, X[:FIRST_ROWS], widest)
    rest = _distinct(X[FIRST_ROWS:], unreached)
    for start in range(0, len(rest), MOST_ROWS):
        _strike_out(unreached, threat, ensemble.grid, rest[start : start + MOST_ROWS], widest)
    return InVain(_places(unreached), _places(threat.movable & ~tested))


def _distinct(X: FloatArray, columns: npt.NDArray[np.bool_]) -> FloatArray:
    """The distinct values of these columns, the first of them again and again at the end; NaN in other columns.

    Columns out of reach often have few, such as 0 and 1.
    """
    values = {f: np.unique(X[:, f]) for f in _places(columns)}
    rows = np.full((max(map(len, values.values()), default=0), X.shape[1]), np.nan)
    for f, some in values.items():
        rows[:, f] = some[0] if len(some) else np.nan
        rows[: len(some), f] = some
    return rows


def _strike_out(
    unreached: npt.NDArray[np.bool_], threat: Threat, grid: Grid, X: FloatArray, epsilon: FloatArray
) -> None:
    """Strikes out the columns that some move takes from one cell to another."""
    low, high = threat.neighbourhood(X, epsilon)
    below, above = threat.reach(low, high)
    # A move that must be large may have nowhere to go.
    moves = below <= above
    first, last = np.where(moves, np.minimum(low, below), low), np.where(moves, np.maximum(high, above), high)
    columns = dict(threat.columns)
    for f in _places(unreached):
        # Without limits, an Lp attacker keeps its radius, but reaches everything.
        anywhere = threat.power is not None and bool(np.isinf([threat.low[f], threat.high[f]]).any())
        if anywhere and f in columns and _steps_beyond(columns[f], grid.cuts_of(f), X[:, f]):
            unreached[f] = False
        elif f in columns:
            table = columns[f].table(X[:, f], low[:, f], high[:, f], *_cells_of(grid, f), True)
            limit = LARGEST if anywhere else float(threat.limit)
            unreached[f] = ((table <= limit).sum(axis=1) < 2).all()
        else:
            # Cells have no gaps: what spans two of them crosses a threshold, or ends beyond it.
            cells = grid.cells_of(f, np.stack((first[:, f], last[:, f])))
            unreached[f] = (cells[0] == cells[1]).all()


def _steps_beyond(moves: ColumnMoves, cuts: FloatArray, x: FloatArray) -> bool:
    """Whether some row surely has points of its grid beyond the first or the last cut, on the other side of its own."""
    if moves.step is None or moves.interval is None or not len(cuts):
        return False
    room = 2 * float(moves.step)
    below = moves.interval[0] < 0 and cuts[0] - moves.domain[0] > room and bool((x > cuts[0]).any())
    above = moves.interval[1] > 0 and moves.domain[1] - cuts[-1] > room and bool((x <= cuts[-1]).any())
    return below or above


def _cells_of(grid: Grid, f: int) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest double of each cell of a feature."""
    cells = slice(*grid.start[f : f + 2].tolist())
    lowest, highest = grid.cell_ends
    return lowest[cells], highest[cells]


def _places(which: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(which).tolist())
