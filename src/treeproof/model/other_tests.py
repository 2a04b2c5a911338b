"""The same trees with other tests, for rows with other columns: what steps make of columns, or groups of columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import LARGEST, FloatArray

Bools = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Sides:
    """Tests as sets of doubles: `cuts` are sorted by test, and the side changes at each of them."""

    tests: Indices
    starts_left: Bools
    """Whether the lowest double goes left, for each of `tests`."""
    owner: Indices
    """The test of each cut."""
    cuts: FloatArray


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
        key = distinct // 2
        self.missing_left = np.asarray(distinct % 2 == 1)
        """Whether each test sends a missing value left."""
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

    def unchanged(self, columns: Sequence[int]) -> Sides:
        """The tests on some columns as they are."""
        own = np.flatnonzero(np.isin(self.column, columns))
        cuts = [(self._threshold[test], *self._further[self._more[test]]) for test in own.tolist()]
        owner = np.repeat(own, np.array([len(one) for one in cuts], dtype=np.intp))
        return Sides(own, np.ones(len(own), dtype=bool), owner, np.array([cut for one in cuts for cut in one]))

    def on_values(self, column: int, doubles: FloatArray, rows: FloatArray) -> Sides:
        """The tests on one column where rows hold the rising `rows` for its values `doubles`."""
        own = self.on(column)
        left = self.sides(own[:, None], doubles[None, :])
        test, code = np.nonzero(left[:, 1:] != left[:, :-1])
        return Sides(own, left[:, 0], own[test], rows[code])

    def several_cuts(self, column: int) -> FloatArray:
        """All cuts of the tests on one column that have more than one, in rising order."""
        own = self.on(column)
        own = own[self._more[own] > 0]
        further = [self._further[number] for number in np.unique(self._more[own]).tolist()]
        return np.unique(np.concatenate((self._threshold[own], *further)))

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
        left[missing] = self.missing_left[tests[missing]]
        return np.asarray(left)


def with_tests(
    model: Ensemble, tests: Tests, sides: Sequence[Sides], places: Sequence[int], missing_left: Bools, **changes: Any
) -> Ensemble:
    """The same trees with other tests: `places` has the new column behind each of the model's.

    `missing_left` says of each test whether a missing value goes left.
    """
    starts_left = np.ones(len(tests), dtype=bool)
    n_cuts = np.zeros(len(tests), dtype=np.int64)
    for one in sides:
        starts_left[one.tests] = one.starts_left
        n_cuts += np.bincount(one.owner, minlength=len(tests))
    owner = np.concatenate([one.owner for one in sides]) if sides else np.zeros(0, dtype=np.int64)
    cuts = np.concatenate([one.cuts for one in sides]) if sides else np.zeros(0)
    by_owner = np.argsort(owner, kind="stable")
    owner, cuts = owner[by_owner], cuts[by_owner]
    first_cut = np.cumsum(n_cuts) - n_cuts
    # A test without a cut sends all numbers one way.
    threshold = np.full(len(tests), LARGEST)
    threshold[n_cuts > 0] = cuts[first_cut[n_cuts > 0]]

    column = np.asarray(places, dtype=np.int64)[tests.column]
    order, of_node, left, swapped = _renumbered(model, tests.of_node, starts_left)
    inner = of_node >= 0
    n_more = _of(np.maximum(n_cuts - 1, 0), of_node, inner)
    start = np.concatenate(([0], np.cumsum(n_more)))
    which = np.arange(start[-1]) + np.repeat(_of(first_cut + 1, of_node, inner) - start[:-1], n_more)
    folded = dataclasses.replace(
        model,
        feature=_of(column, of_node, inner, -1),
        threshold=_of(threshold + 0.0, of_node, inner),
        left=left,
        nan_left=(_of(missing_left, of_node, inner) != swapped) & inner,
        more_start=start,
        more=cuts[which] + 0.0,
        leaf_scores=model.leaf_scores[model.leaf[order[~inner]]],
        **changes,
    )
    # The grid is that of the distinct tests, which are few.
    feature = np.concatenate((column[owner], column[n_cuts == 0]))
    every = np.concatenate((cuts, threshold[n_cuts == 0]))
    folded.__dict__["grid"] = Grid.from_thresholds(feature, every + 0.0, folded.n_features)
    return folded


def _renumbered(
    model: Ensemble, of_node: npt.NDArray[np.int32], starts_left: Bools
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32], Bools]:
    """(The old number, the test, the left child, whether children are swapped) for each node in its new place.

    Nodes go tree by tree and level by level, siblings side by side, as the builder lays them out.
    """
    swapped = np.zeros(model.n_nodes, dtype=bool)
    swapped[of_node >= 0] = ~starts_left[of_node[of_node >= 0]]
    # The two children lie side by side; the one that is now the left one comes first.
    first = np.where(swapped, model.right, model.left)
    tree = np.repeat(np.arange(model.n_trees), np.diff(np.append(model.roots, model.n_nodes)))
    levels = [model.roots]
    while len(levels[-1]):
        split = levels[-1][of_node[levels[-1]] >= 0]
        pairs = np.empty((len(split), 2), dtype=np.int32)
        pairs[:, 0] = first[split]
        pairs[:, 1] = np.where(swapped[split], pairs[:, 0] - 1, pairs[:, 0] + 1)
        levels.append(pairs.reshape(-1))
    order = np.concatenate(levels)
    # A stable sort of short numbers is quick.
    number = tree.astype(np.uint16) if model.n_trees <= 2**16 else tree
    order = order[np.argsort(number[order], kind="stable")]
    place = np.empty(model.n_nodes, dtype=np.int32)
    place[order] = np.arange(model.n_nodes, dtype=np.int32)
    inner = of_node[order] >= 0
    return order, of_node[order], np.where(inner, place[first[order]], -1), swapped[order]


def _of(values: npt.NDArray[Any], of_node: npt.NDArray[np.int32], inner: Bools, other: int = 0) -> npt.NDArray[Any]:
    """What each node has, from what its test has; leaves have something else."""
    out = np.full(len(of_node), other, dtype=values.dtype)
    out[inner] = values[of_node[inner]]
    return out


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
