"""What a model makes of the columns that steps give it: the double it compares, and the side where a test sends it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import LARGEST, FloatArray

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Intake:
    """The columns of a model behind steps."""

    model: Ensemble
    blank_zeros: bool
    """Whether zeros that a sparse matrix leaves out are missing, as they are for XGBoost."""
    stored: tuple[bool, ...]
    """For each column, whether a negative zero stands for one that the matrix stores."""
    takes_infinite: bool
    """Whether the model takes infinite numbers; it then sends them where it sends the largest ones."""

    @cached_property
    def _coded(self) -> dict[int, Category]:
        return {f: category for f, category in self.model.categories if category.coded}

    def compared(self, column: int, values: npt.NDArray[Any] | None) -> FloatArray:
        """What the model compares for each value of a column: its own codes of categories, -1 for one it refuses."""
        assert values is not None
        category = self._coded.get(column)
        if category is not None:
            return np.array([category.code_of(value) for value in values.tolist()], dtype=np.float64)
        values = values.astype(np.float64, copy=False)
        if self.blank_zeros:
            blank = (values == 0) & ~np.signbit(values) if self.stored[column] else values == 0
            values = np.where(blank, np.nan, values)
        return np.clip(values, -LARGEST, LARGEST) if self.takes_infinite else values

    def refuses(self, column: int, compared: FloatArray) -> Bools:
        """Which of the numbers that it would compare the model refuses."""
        model = self.model
        refused = ~((compared >= model.value_low[column]) & (compared <= model.value_high[column]))
        if model.handles_missing and column not in model.no_missing:
            refused &= ~np.isnan(compared)
        return np.asarray(refused)


class Tests:
    """The distinct tests of a model, and which of them each node has. They are sorted by column."""

    def __init__(self, model: Ensemble) -> None:
        inner = np.flatnonzero(model.feature >= 0)
        thresholds, threshold = np.unique(model.threshold[inner], return_inverse=True)
        # A few tests have more than one cut; these are told apart by the cuts above the first.
        further: dict[tuple[float, ...], int] = {(): 0}
        more = np.zeros(len(inner), dtype=np.int64)
        for place in np.flatnonzero(np.diff(model.more_start)[inner]).tolist():
            node = inner[place]
            own = tuple(model.more[model.more_start[node] : model.more_start[node + 1]].tolist())
            more[place] = further.setdefault(own, len(further))
        key = (model.feature[inner].astype(np.int64) * len(thresholds) + threshold) * len(further) + more
        distinct, number = _numbered(key * 2 + model.nan_left[inner])
        self.of_node = np.full(model.n_nodes, -1, dtype=np.int32)
        self.of_node[inner] = number
        key, self._missing_left = distinct // 2, distinct % 2 == 1
        self._further = list(further)
        self._more = key % len(further)
        self._threshold = thresholds[key // len(further) % len(thresholds)] if len(key) else np.zeros(0)
        self.column = key // len(further) // max(len(thresholds), 1)
        self._starts = np.searchsorted(self.column, np.arange(model.n_features + 1))

    def __len__(self) -> int:
        return len(self.column)

    def on(self, column: int) -> Indices:
        """The numbers of the tests on one column."""
        return np.arange(self._starts[column], self._starts[column + 1])

    def threshold(self, tests: Indices) -> FloatArray:
        """The first cut of each test."""
        return np.asarray(self._threshold[tests])

    def sides(self, tests: Indices, doubles: FloatArray) -> Bools:
        """Whether tests send doubles left; both arrays are broadcast against each other."""
        tests, doubles = np.broadcast_arrays(tests, doubles)
        left = doubles <= self._threshold[tests]
        more = self._more[tests]
        for number in np.unique(more[more > 0]).tolist():
            mine = more == number
            # The side changes at each further cut.
            left[mine] ^= np.searchsorted(self._further[number], doubles[mine]) % 2 == 1
        missing = np.isnan(doubles)
        left[missing] = self._missing_left[tests[missing]]
        return np.asarray(left)


def _numbered(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """(The distinct keys in rising order, the position of each key among them); keys are not negative."""
    n = int(keys.max(initial=-1)) + 1
    if n > 16 * len(keys) + 1024:
        distinct, number = np.unique(keys, return_inverse=True)
        return distinct, number
    # Two passes instead of a sort.
    there = np.zeros(n, dtype=bool)
    there[keys] = True
    distinct = np.flatnonzero(there)
    position = np.empty(n, dtype=np.int32)
    position[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, position[keys]
