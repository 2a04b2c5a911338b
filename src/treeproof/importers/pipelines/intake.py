"""What a model makes of the columns that steps give it: the double it compares, and the side on which a test sends it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Intake:
    """The columns of a model behind steps."""

    model: Ensemble
    zeros_missing: bool
    """Whether a zero is no number for the model: XGBoost takes what a sparse matrix leaves out as missing."""

    def doubles(self, column: int, values: FloatArray) -> tuple[FloatArray, Bools]:
        """What the model compares for each value of a column, and which values it refuses."""
        model = self.model
        given = np.where(values == 0, np.nan, values) if self.zeros_missing else values
        missing = np.isnan(given)
        refused = ~missing & ~((given >= model.value_low[column]) & (given <= model.value_high[column]))
        if not model.handles_missing or column in model.no_missing:
            refused |= missing
        return given, refused


class Tests:
    """The distinct tests of a model, and which of them each node has."""

    def __init__(self, model: Ensemble) -> None:
        self._grid = model.grid
        inner = np.flatnonzero(model.feature >= 0)
        n_more = np.diff(model.more_start)[inner]
        column = model.feature[inner].astype(np.int64)
        first = model.grid.cell_of_cut(column, model.threshold[inner]).astype(np.int64)
        missing_left = model.nan_left[inner]
        sets: dict[bytes, int] = {}
        tables = []
        # 0 for a test with one cut, else 1 + the number of its set of cells.
        table = np.zeros(len(inner), dtype=np.int64)
        for place in np.flatnonzero(n_more).tolist():
            node = inner[place]
            cuts = [model.threshold[node], *model.more[model.more_start[node] : model.more_start[node + 1]]]
            cells = np.arange(model.grid.n_cells[column[place]])
            lefts = np.searchsorted(model.grid.cells_of(int(column[place]), cuts), cells) % 2 == 0
            number = sets.setdefault(bytes(lefts), len(sets))
            if number == len(tables):
                tables.append(lefts)
            table[place] = number + 1
        key = np.column_stack((column, first, table, missing_left))
        order = np.lexsort(key.T[::-1])
        new = np.ones(len(order), dtype=bool)
        new[1:] = (key[order][1:] != key[order][:-1]).any(axis=1)
        self.of_node = np.full(model.n_nodes, -1, dtype=np.int64)
        self.of_node[inner[order]] = np.cumsum(new) - 1
        self.column, self._first, self._table, missing = key[order][new].T
        self._missing_left = missing.astype(bool)
        self._tables = tables
        self._starts = np.searchsorted(self.column, np.arange(model.n_features + 1))

    def __len__(self) -> int:
        return len(self.column)

    def on(self, column: int) -> Indices:
        """The numbers of the tests on one column."""
        return np.arange(self._starts[column], self._starts[column + 1])

    def sides(self, column: int, tests: Indices, doubles: FloatArray) -> Bools:
        """Whether tests on a column send doubles left; both arrays are broadcast against each other."""
        tests, cells = np.broadcast_arrays(tests, self._grid.cells_of(column, doubles))
        left = cells <= self._first[tests]
        by_set = self._table[tests] > 0
        for number in np.unique(self._table[tests[by_set]]).tolist():
            mine = self._table[tests] == number
            left[mine] = self._tables[number - 1][cells[mine]]
        missing = cells < 0
        left[missing] = self._missing_left[tests[missing]]
        return np.asarray(left)
