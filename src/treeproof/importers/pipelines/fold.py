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
    cuts = np.concatenate([one.cuts for one in sides])[np.argsort(owner, kind="stable")] if sides else np.zeros(0)
    first_cut = np.cumsum(n_cuts) - n_cuts
    # A test without a cut sends all numbers one way.
    threshold = np.full(len(tests), LARGEST)
    threshold[n_cuts > 0] = cuts[first_cut[n_cuts > 0]]

    of_node = tests.of_node
    inner = of_node >= 0
    swapped = np.zeros(model.n_nodes, dtype=bool)
    swapped[inner] = ~starts_left[of_node[inner]]
    order = _order(model, swapped)
    place = np.empty(model.n_nodes, dtype=np.int64)
    place[order] = np.arange(model.n_nodes)
    of_node, inner, swapped = of_node[order], inner[order], swapped[order]
    # The two children lie side by side; the one that is now the left one comes first.
    left = np.full(model.n_nodes, -1, dtype=np.int64)
    old = np.where(swapped, model.right[order], model.left[order])
    left[inner] = place[old[inner]]
    n_more = np.zeros(model.n_nodes, dtype=np.int64)
    n_more[inner] = np.maximum(n_cuts[of_node[inner]] - 1, 0)
    start = np.concatenate(([0], np.cumsum(n_more)))
    which = np.arange(start[-1]) - np.repeat(start[:-1] - _of(first_cut + 1, of_node, inner), n_more)
    leaf = np.cumsum(~inner) - 1
    return dataclasses.replace(
        model,
        feature=_frozen(_of(np.asarray(columns, dtype=np.int64)[tests.column], of_node, inner, -1), np.int32),
        threshold=_frozen(_of(threshold, of_node, inner) + 0.0, np.float64),
        left=_frozen(left, np.int32),
        right=_frozen(np.where(inner, left + 1, -1), np.int32),
        nan_left=_frozen((_of(missing_left, of_node, inner) != swapped) & inner, np.bool_),
        more_start=_frozen(start, np.int32),
        more=_frozen(cuts[which] + 0.0, np.float64),
        leaf=_frozen(np.where(inner, -1, leaf), np.int32),
        leaf_scores=_frozen(model.leaf_scores[model.leaf[order][~inner]], model.leaf_scores.dtype),
        **changes,
    )


def _of(values: npt.NDArray[Any], of_node: npt.NDArray[np.int64], inner: Bools, other: int = 0) -> npt.NDArray[Any]:
    """What each node has, from what its test has; leaves have something else."""
    out = np.full(len(of_node), other, dtype=values.dtype)
    out[inner] = values[of_node[inner]]
    return out


def _order(model: Ensemble, swapped: Bools) -> npt.NDArray[np.int64]:
    """The nodes tree by tree and level by level, with children in their new order."""
    tree = np.repeat(np.arange(model.n_trees), np.diff(np.append(model.roots, model.n_nodes)))
    levels = [model.roots.astype(np.int64)]
    while len(levels[-1]):
        split = levels[-1][model.feature[levels[-1]] >= 0]
        pair = np.column_stack((model.left[split], model.right[split]))
        pair[swapped[split]] = pair[swapped[split]][:, ::-1]
        levels.append(pair.reshape(-1).astype(np.int64))
    order = np.concatenate(levels)
    return np.asarray(order[np.argsort(tree[order], kind="stable")])


def _frozen(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    result = np.array(array, dtype=dtype, order="C")
    result.flags.writeable = False
    return result
