"""What kernels need of an ensemble: its nodes on cells, its scores in whole units, and how the library adds them up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing, tiny
from treeproof._kernels.walk import decide

LEAF = -1

NODE = np.dtype(
    [
        ("feature", "i4"),  # LEAF for a leaf
        ("cut", "i4"),  # cells up to it go left
        ("more", "i4"),
        ("end", "i4"),  # its further cuts are those of the model's `more` in [more, end); the side changes at each
        ("left", "i4"),
        ("right", "i4"),
        ("leaf", "i4"),  # row of its scores, for a leaf
        ("nan_left", "?"),  # whether a NaN, cell -1, goes left
    ],
    align=True,
)
"""A node of a tree."""


class Model(NamedTuple):
    """An ensemble on cells: `nodes` (n_nodes,) are NODE records, `roots` (n_trees,) where the trees begin.

    `more` are further cuts of tests whose left side is not a single range, rising for each test.

    `value` (n_leaves, n_classes) are leaf scores in whole units and `offset` (n_classes,) what is added to them;
    of two classes whose sums differ by more than `slack` the one with the larger sum wins, and within it the exact
    scores must be asked. Leaves with the same exact scores have the same `kind`; `depth` is that of the deepest tree.

    Only the first `n_scored` trees give scores. The others say which rows are valid: where one of them leads to the
    leaf `forbidden` (-1: there are none), a row is not, and every class is behind by PENALTY there. Leaves after it
    only tell where a row is.
    """

    nodes: Any
    more: Any
    roots: Any
    value: Any
    offset: Any
    slack: Any
    kind: Any
    depth: Any
    n_scored: Any
    forbidden: Any

    @property
    def feature(self) -> Any:
        """Per node the feature that it tests."""
        return self.nodes["feature"]

    @property
    def cut(self) -> Any:
        """Per node the last cell that goes left."""
        return self.nodes["cut"]

    @property
    def left(self) -> Any:
        """Per node its left child."""
        return self.nodes["left"]

    @property
    def right(self) -> Any:
        """Per node its right child."""
        return self.nodes["right"]

    @property
    def leaf(self) -> Any:
        """Per leaf its row of scores."""
        return self.nodes["leaf"]


class Exact(NamedTuple):
    """What is needed to score a cell vector as the library does."""

    leaf_scores: Any
    base: Any
    base_last: Any
    divisor: Any
    decision: Any
    cut: Any
    steepness: Any
    part_divisor: Any
    """(n_trees,): at the last tree of each member what its sum is divided by, else 0; empty if there are no members."""
    part_weight: Any
    """(n_trees,): what it is multiplied by then"""


# What a test is, and the only place that says so: the cells up to its first cut go left, and the side changes at every
# further one. Most tests have one cut; those on categories, and some on numbers, have more.

LAST_CELL = np.int64(2**31 - 1)
PENALTY = np.int64(2**48)
"""More than all trees together can give where rows may not be valid."""
FIRST_CELL = np.int64(0)


@tiny
def is_simple(node):
    """Whether a test has one cut only."""
    return node.more == node.end


@borrowing
def _sides_changed(model, node, cell):
    """How many cuts of a test with several are below a cell above the first: they are searched by halving."""
    low, high = np.int64(node.more), np.int64(node.end)
    while low < high:
        middle = (low + high) >> 1
        if model.more[middle] < cell:
            low = middle + 1
        else:
            high = middle
    return low - np.int64(node.more) + 1


@tiny
def goes_left(model, node, cell):
    """Whether a test sends a cell (NaN: -1) to the left."""
    # In this form, tests with one cut need no jump.
    left = node.nan_left if cell < 0 else cell <= node.cut
    if node.more < node.end and cell > node.cut:
        left = (_sides_changed(model, node, cell) & 1) == 0
    return left


@tiny
def same_until(model, node, cell):
    """The last cell of those from `cell` on that all go the same way as it does."""
    last = np.int64(node.cut) if cell <= node.cut else LAST_CELL
    if node.more < node.end and cell > node.cut:
        at = node.more + _sides_changed(model, node, cell) - 1
        last = np.int64(model.more[at]) if at < node.end else LAST_CELL
    return last


@tiny
def same_since(model, node, cell):
    """The first cell of those up to `cell` that all go the same way as it does."""
    if cell <= node.cut:
        return FIRST_CELL
    at = node.more - 1
    if node.more < node.end:
        at += _sides_changed(model, node, cell) - 1
    return np.int64(node.cut if at < node.more else model.more[at]) + 1


@tiny
def span_of_side(model, node, low, high, left):
    """The first and the last cell of [low, high] on one side of a test that has cells on both sides there."""
    first = low if goes_left(model, node, low) == left else same_until(model, node, low) + 1
    last = high if goes_left(model, node, high) == left else same_since(model, node, high) - 1
    return np.int64(first), np.int64(last)


@borrowing
def leaf_of_cells(model, root, cells):
    """The leaf of a tree that cells lead to."""
    node = model.nodes[root]
    while node.feature != LEAF:
        node = model.nodes[node.left if goes_left(model, node, cells[node.feature]) else node.right]
    return node.leaf


@tiny
def lead_of_leaf(model, leaf, other, label):
    """By how much a leaf puts one class ahead of another."""
    return -PENALTY if leaf == model.forbidden else model.value[leaf, other] - model.value[leaf, label]


@borrowing
def is_valid(model, cells):
    """Whether rows with these cells are valid."""
    for t in range(model.n_scored, model.roots.shape[0]):
        if leaf_of_cells(model, model.roots[t], cells) == model.forbidden:
            return False
    return True


@borrowing
def _label_of_members(model, exact, cells, scores):
    """The same where several models vote; trees are walked once for each score, which takes no more room."""
    for k in range(scores.shape[0]):
        total = part = 0.0
        for t in range(model.n_scored):
            part += exact.leaf_scores[leaf_of_cells(model, model.roots[t], cells), k]
            if exact.part_divisor[t] != 0:
                total += part / exact.part_divisor[t] * exact.part_weight[t]
                part = 0.0
        scores[k] = total / exact.divisor
    return decide(scores, exact.decision, exact.cut, exact.steepness)


@borrowing
def label_of_cells(model, exact, cells, scores):
    """The class index of every row with these cells (NaN: -1); `scores` (n_scores,) is scratch in the right dtype."""
    n_scores = scores.shape[0]
    if exact.part_divisor.shape[0] > 0:
        return _label_of_members(model, exact, cells, scores)
    for k in range(n_scores):
        scores[k] = 0 if exact.base_last else exact.base[k]
    for t in range(model.n_scored):
        leaf = leaf_of_cells(model, model.roots[t], cells)
        for k in range(n_scores):
            scores[k] += exact.leaf_scores[leaf, k]
    for k in range(n_scores):
        scores[k] = scores[k] / exact.divisor
        if exact.base_last:
            scores[k] += exact.base[k]
    return decide(scores, exact.decision, exact.cut, exact.steepness)
