"""The part of an ensemble that a box of fine cells and all attacks on it leave open, as bits and masks.

Of each open tree the leaves are bits of a word. The leaves of a range of cells of one feature follow from two words
(`masks.py`), and those of a box are the `and` over features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import sort_down
from treeproof._kernels.jit import entry, inner
from treeproof._kernels.maps.masks import fill_ranges, fill_unions, is_ragged, n_masks
from treeproof._kernels.maps.tables import LEAF, MASK, MAX_LEAVES, MIXED, PAIR, RANGE, TEST, TREE, UNREACHED, USE, Boxed
from treeproof._kernels.model import is_simple
from treeproof._kernels.sides import part_on_side

STEP = np.dtype([("node", "i4"), ("stage", "i4"), ("low", "i4"), ("high", "i4"), ("split", "i4")], align=True)
"""A node on the way from the root: how many of its sides were looked at, and the cells of its feature before that."""

SPLIT = np.dtype(
    [("node", "i4"), ("begin", "i4"), ("middle", "i4"), ("end", "i4"), ("right_test", "i4")],
    align=True,
)
"""An undecided test of a tree: its node, its first leaf on the left, the first one on the right, the end of those, and
the number of the test that the right side begins with."""


class Listed(NamedTuple):
    """What is open of one tree, in preorder."""

    nodes: Any
    """(MAX_LEAVES,): leaves, or nodes whose leaves nothing tells apart"""
    ranges: Any
    """(MAX_LEAVES, features of the tree) RANGE: the cells that lead to each of them"""
    splits: Any
    """(MAX_LEAVES,) SPLIT"""


@entry
def scan_trees(model, leaf_group, reach, marks):
    """Fills `marks` (n_nodes,) MARK for the coarse cells `reach` (n_features,) RANGE."""
    steps = np.empty(model.depth + 1, STEP)
    for t in range(model.roots.shape[0]):
        _scan(model, model.roots[t], leaf_group, reach, marks, steps)


@inner
def _scan(model, root, leaf_group, reach, marks, steps):
    """Marks the nodes of a tree: those that `reach` leads to, and what their leaves have in common."""
    nodes = model.nodes
    steps[0].node, steps[0].stage, level = root, 0, 0
    while level >= 0:
        step = steps[level]
        node = step.node
        if nodes[node].feature < 0:
            marks[node].group, marks[node].row = leaf_group[nodes[node].leaf], nodes[node].leaf
            level -= 1
            continue
        its = reach[nodes[node].feature]
        if step.stage == 0:
            step.low, step.high = its.low, its.high
            marks[nodes[node].left].group = marks[nodes[node].right].group = UNREACHED
        if step.stage < 2:
            left = step.stage == 0
            step.stage += 1
            low, high = part_on_side(model, nodes[node], step.low, step.high, left)
            if low <= high:
                its.low, its.high = low, high
                level += 1
                steps[level].node, steps[level].stage = nodes[node].left if left else nodes[node].right, 0
            continue
        its.low, its.high = step.low, step.high
        _mark(marks[node], marks[nodes[node].left], marks[nodes[node].right])
        level -= 1


@inner
def _mark(whole, left, right):
    """What a node's leaves have in common, from its two sides."""
    if left.group == UNREACHED:
        whole.group, whole.row = right.group, right.row
    else:
        whole.group, whole.row = left.group, left.row
        if right.group != UNREACHED and right.group != left.group:
            whole.group = MIXED


@entry
def boxed_model(model, space, reach, marks):
    """(whether each open tree fits a word; the fields of a Boxed: what marked trees leave open on the coarse cells).

    Where some tree does not fit, its leaves and tests are not filled in.
    """
    open_roots, settled = _open_trees(model, marks)
    n, n_features = open_roots.shape[0], reach.shape[0]
    trees, place = np.empty(n, TREE), np.full((n, n_features), -1, np.int16)
    ragged = np.zeros((n, n_features), np.bool_)
    n_leaves, n_pairs, fits, max_pairs = np.int64(0), np.int64(0), True, 1
    for i in range(n):
        count, n_tested = _measure(model, open_roots[i], marks, reach, place[i], ragged[i])
        trees[i].leaf, trees[i].test, trees[i].pair, trees[i].pair_end = (
            n_leaves,
            n_leaves - i,
            n_pairs,
            n_pairs + n_tested,
        )
        n_leaves += count
        n_pairs += n_tested
        fits &= count <= MAX_LEAVES
        max_pairs = max(max_pairs, n_tested)
    pairs, size = _pairs(trees, place, ragged, reach, n_pairs)
    leaves, tests = np.empty(n_leaves, LEAF), np.empty(n_leaves - n, TEST)  # a tree has one test less than leaves
    value = np.empty((n_leaves, model.value.shape[1]), np.int64)
    masks = np.zeros(size if fits else 0, MASK)
    # A tree that fits has fewer features than leaves, so that they are bits of a word, too.
    members, uses = _attacked_sets(trees[: n if fits else 0], pairs, place, space)
    boxed = Boxed(trees, leaves, value, pairs, masks, place, members, uses, tests, settled)
    if fits:
        listed = Listed(
            np.empty(MAX_LEAVES, np.int32), np.empty((MAX_LEAVES, max_pairs), RANGE), np.empty(MAX_LEAVES, SPLIT)
        )
        steps, leads = np.empty(model.depth + 1, STEP), np.empty(MAX_LEAVES, np.int64)
        order, rank = np.empty(MAX_LEAVES, np.int32), np.empty(MAX_LEAVES, np.int32)
        for i in range(n):
            count = _list_leaves(model, open_roots[i], marks, reach, place[i], steps, listed)
            for j in range(count):
                at = marks[listed.nodes[j]].row
                leads[j] = model.value[at, 1] - model.value[at, 0]
            sort_down(leads, count, order)
            for r in range(count):
                rank[order[r]] = r
            _fill_leaves(trees[i], order[:count], listed.nodes, leads, model.value, marks, boxed)
            _fill_tests(trees[i], rank[:count], listed.splits, space, boxed)
            _fill_masks(trees[i], rank[:count], listed, reach, model, boxed)
    return fits, (trees, leaves, value, pairs, masks, place, members, uses, tests, settled)


@inner
def _open_trees(model, marks):
    """(roots of the trees that are undecided, what all others contribute to each class)."""
    roots, settled = np.empty(model.roots.shape[0], np.int32), np.zeros(model.value.shape[1], np.int64)
    n = 0
    for t in range(model.roots.shape[0]):
        mark = marks[model.roots[t]]
        if mark.group == MIXED:
            roots[n] = model.roots[t]
            n += 1
        else:
            for c in range(settled.shape[0]):
                settled[c] += model.value[mark.row, c]
    return roots[:n], settled


@inner
def _undecided(node, nodes, marks):
    """The first test at or below a node with mixed leaves that has live leaves on both sides."""
    while marks[nodes[node].left].group == UNREACHED or marks[nodes[node].right].group == UNREACHED:
        node = nodes[node].right if marks[nodes[node].left].group == UNREACHED else nodes[node].left
    return node


@inner
def _measure(model, root, marks, reach, place, ragged):
    """(leaves, features) of a marked tree; numbers the features in `place` (n_features,), which holds -1.

    Sets `ragged` (n_features,) where a side of a test has other cells in between.
    """
    nodes = model.nodes
    waiting = np.empty(model.depth + 1, np.int32)
    waiting[0], n, n_leaves, n_tested = root, 1, 0, 0
    while n > 0:
        n -= 1
        node = waiting[n]
        if marks[node].group != MIXED:
            n_leaves += 1
            continue
        node = _undecided(node, nodes, marks)
        if place[nodes[node].feature] < 0:
            place[nodes[node].feature] = n_tested
            n_tested += 1
        its = reach[nodes[node].feature]
        ragged[nodes[node].feature] |= is_ragged(model, nodes[node], its.low, its.high)
        waiting[n], waiting[n + 1] = nodes[node].right, nodes[node].left
        n += 2
    return n_leaves, n_tested


@inner
def _pairs(trees, place, ragged, reach, n_pairs):
    """(per tree and feature where its masks begin, how many masks there are)."""
    pairs, size = np.empty(n_pairs, PAIR), np.int64(0)
    for i in range(trees.shape[0]):
        for f in range(reach.shape[0]):
            if place[i, f] >= 0:
                pair = pairs[trees[i].pair + place[i, f]]
                n_cells = np.int64(reach[f].high) - reach[f].low + 1
                pair.feature, pair.table, pair.ragged = f, size - reach[f].low, n_cells if ragged[i, f] else 0
                size += n_masks(n_cells, ragged[i, f])
    return pairs, size


@inner
def _list_leaves(model, root, marks, reach, place, steps, listed):
    """Lists what is open of a marked tree in `listed`; returns the number of leaves."""
    nodes, ranges, splits = model.nodes, listed.ranges, listed.splits
    steps[0].node, steps[0].stage, level, n, n_splits = root, 0, 0, 0, 0
    while level >= 0:
        step = steps[level]
        if marks[step.node].group != MIXED:
            listed.nodes[n] = step.node
            for f in range(place.shape[0]):
                if place[f] >= 0:
                    ranges[n, place[f]] = reach[f]
            n += 1
            level -= 1
            continue
        if step.stage == 0:
            step.node = _undecided(step.node, nodes, marks)
        node = step.node
        its = reach[nodes[node].feature]
        if step.stage == 0:
            step.low, step.high, step.split = its.low, its.high, n_splits
            splits[n_splits].node, splits[n_splits].begin = node, n
            n_splits += 1
        elif step.stage == 1:
            splits[step.split].middle, splits[step.split].right_test = n, n_splits
        else:
            splits[step.split].end = n
            its.low, its.high = step.low, step.high
            level -= 1
            continue
        left = step.stage == 0
        its.low, its.high = part_on_side(model, nodes[node], step.low, step.high, left)
        step.stage += 1
        level += 1
        steps[level].node, steps[level].stage = nodes[node].left if left else nodes[node].right, 0
    return n


@inner
def _fill_leaves(tree, order, nodes, leads, value, marks, boxed):
    """Fills in the leaves of a tree, from the largest lead to the smallest."""
    for r in range(order.shape[0]):
        leaf, mark = boxed.leaves[tree.leaf + r], marks[nodes[order[r]]]
        leaf.lead, leaf.group = leads[order[r]], mark.group
        for c in range(value.shape[1]):
            boxed.value[tree.leaf + r, c] = value[mark.row, c]


@inner
def _fill_tests(tree, rank, splits, space, boxed):
    """Fills in the tests of a tree."""
    for k in range(rank.shape[0] - 1):
        split, test = splits[k], boxed.tests[tree.test + k]
        node = space.nodes[split.node]
        test.feature, test.cut, test.right_test = node.feature, node.cut, tree.test + split.right_test
        test.fine_cut = -1 - split.node
        if is_simple(node):
            test.fine_cut = space.fine_cuts[space.features[node.feature].coarse_start + node.cut]
        test.left, test.right = np.uint64(0), np.uint64(0)
        for j in range(split.begin, split.middle):
            test.left |= np.uint64(1) << np.uint64(rank[j])
        for j in range(split.middle, split.end):
            test.right |= np.uint64(1) << np.uint64(rank[j])


@inner
def _fill_masks(tree, rank, listed, reach, model, boxed):
    """Fills in the masks of a tree."""
    for j in range(tree.pair, tree.pair_end):
        pair = boxed.pairs[j]
        if pair.ragged == 0:
            fill_ranges(pair, reach[pair.feature], j - tree.pair, rank, listed.ranges, boxed.masks)
        else:
            tests = boxed.tests[tree.test : tree.test + rank.shape[0] - 1]
            fill_unions(pair, reach[pair.feature], rank.shape[0], model, listed.splits, tests, boxed.masks)


@inner
def _attacked_sets(trees, pairs, place, space):
    """(per tree the different sets of its features that attacks move, which attack moves which); fills in `trees`."""
    n, n_attacks = trees.shape[0], space.attacks.shape[0]
    members, uses = np.empty(n * (n_attacks + 2), np.uint64), np.empty(n * n_attacks, USE)
    n_sets, n_uses = 0, 0
    for i in range(n):
        tree = trees[i]
        tree.set, tree.use = n_sets, n_uses
        members[n_sets], members[n_sets + 1] = np.uint64(0), np.uint64(0)
        for j in range(tree.pair, tree.pair_end):
            if space.features[pairs[j].feature].movable:
                members[n_sets + 1] |= np.uint64(1) << np.uint64(j - tree.pair)
        n_sets += 2
        for a in range(n_attacks):
            bits = np.uint64(0)
            for j in range(space.attacks[a].first, space.attacks[a].end):
                p = place[i, space.attacked[j]]
                if p >= 0:
                    bits |= np.uint64(1) << np.uint64(p)
            if bits == 0:
                continue
            k = tree.set + 1
            while k < n_sets and members[k] != bits:
                k += 1
            if k == n_sets:
                members[k] = bits
                n_sets += 1
            uses[n_uses].attack, uses[n_uses].set = a, k
            n_uses += 1
        tree.set_end, tree.use_end = n_sets, n_uses
    return members[:n_sets], uses[:n_uses]
