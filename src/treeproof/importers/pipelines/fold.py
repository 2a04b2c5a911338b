"""An ensemble on the user's columns, from one on the columns that steps make of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.importers.pipelines.intake import Bools, Tests
from treeproof.importers.pipelines.lines import Sides
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import LARGEST


def with_tests(
    model: Ensemble, tests: Tests, sides: Sequence[Sides], columns: Sequence[int], missing_left: Bools, **changes: Any
) -> Ensemble:
    """The same trees with other tests: `columns` has the user's column behind each of the model's."""
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

    column = np.asarray(columns, dtype=np.int64)[tests.column]
    order, of_node, left, swapped = _renumbered(model, tests.of_node, starts_left)
    inner = of_node >= 0
    n_more = _of(np.maximum(n_cuts - 1, 0), of_node, inner)
    start = np.concatenate(([0], np.cumsum(n_more)))
    which = np.arange(start[-1]) + np.repeat(_of(first_cut + 1, of_node, inner) - start[:-1], n_more)
    folded = dataclasses.replace(
        model,
        feature=_frozen(_of(column.astype(np.int32), of_node, inner, -1), np.int32),
        threshold=_frozen(_of(threshold + 0.0, of_node, inner), np.float64),
        left=_frozen(left, np.int32),
        right=_frozen(np.where(inner, left + 1, -1), np.int32),
        nan_left=_frozen((_of(missing_left, of_node, inner) != swapped) & inner, np.bool_),
        more_start=_frozen(start, np.int32),
        more=_frozen(cuts[which] + 0.0, np.float64),
        leaf=_frozen(np.where(inner, -1, np.cumsum(~inner) - 1), np.int32),
        leaf_scores=_frozen(model.leaf_scores[model.leaf[order[~inner]]], model.leaf_scores.dtype),
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


def _frozen(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    result = np.array(array, dtype=dtype, order="C")
    result.flags.writeable = False
    return result
