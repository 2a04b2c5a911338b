"""The open trees of a region as a race of one class against another: leaves as bits, tests as masks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import inner, merged
from treeproof._kernels.search.region import LEAF


class Race(NamedTuple):
    """The open trees as a race of one class against another; built by `build_race`.

    Trees: `word` (n + 1,) first word of the live-leaf bits, `first` (n + 1,) first leaf. Leaves: `value`, sorted
    from high to low within a tree, and their node in the part. Tests, sorted by feature and cut: `test_cut`,
    `test_tree`, and the first word of what stays alive on the left and on the right of them, `keep_left` and
    `keep_right`; where a tree has more than one word, the others are in `more` from `test_more` on, left before right.
    Features that are tested: `feature`, with tests `feature_first[i]` to `feature_first[i + 1]`; `test_feature` is the
    way back. The tests of tree t are `tree_test[tree_first[t]:tree_first[t + 1]]`.
    """

    word: Any
    first: Any
    value: Any
    leaf_node: Any
    test_cut: Any
    test_tree: Any
    keep_left: Any
    keep_right: Any
    test_more: Any
    more: Any
    feature: Any
    feature_first: Any
    test_feature: Any
    tree_first: Any
    tree_test: Any


@merged
def _node_values(part, n_nodes, value, kind, other, label, limited, close, lead, one, size, n_leaves):
    """Per node a lead of `other` over `label` below it, and the size and leaves of its subtree.

    `one[i]` tells whether node i offers no choice: its leaves give the same lead or, if the race is `close`, even the
    same scores. Such a node counts as a leaf, unless its leaves may differ in price.
    """
    for i in range(n_nodes - 1, -1, -1):
        if part.feature[i] == LEAF:
            row = part.row[i]
            lead[i] = value[row, other] - value[row, label]
            one[i] = kind[row] if close else 0
            size[i] = 1
            n_leaves[i] = 1
        else:
            a, b = part.left[i], part.right[i]
            same = one[a] >= 0 and one[a] == one[b] and lead[a] == lead[b]
            lead[i] = lead[a]
            one[i] = one[a] if same else -1
            size[i] = 1 + size[a] + size[b]
            n_leaves[i] = 1 if same and not limited else n_leaves[a] + n_leaves[b]


@inner
def root_lead(part, n_trees, value, other, label):
    """The greatest lead of `other` over `label` that the trees could give one by one."""
    total = 0
    for t in range(n_trees):
        best = np.int64(-(2**62))
        for i in range(part.roots[t], part.roots[t + 1]):
            if part.feature[i] == LEAF:
                best = max(best, value[part.row[i], other] - value[part.row[i], label])
        total += best
    return total


@inner
def sort_down(values, n, order):
    """Fills order[:n] with the positions of values[:n] from the largest to the smallest."""
    # Shell's sort: short, and quick enough for leaves; numpy's argsort would take seconds to compile.
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    for i in range(n):
        order[i] = i
    while gap > 0:
        for i in range(gap, n):
            moved = order[i]
            j = i
            while j >= gap and values[order[j - gap]] < values[moved]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = moved
        gap //= 3
    return order


@inner
def _sort_up(key, n_keys):
    """The positions of whole numbers below n_keys from the smallest to the largest, by counting."""
    place = np.zeros(n_keys + 1, np.int32)
    for k in range(key.shape[0]):
        place[key[k] + 1] += 1
    for j in range(n_keys):
        place[j + 1] += place[j]
    order = np.empty(key.shape[0], np.int32)
    for k in range(key.shape[0]):
        order[place[key[k]]] = k
        place[key[k]] += 1
    return order


@inner
def build_race(part, n_nodes, n_trees, value, kind, other, label, limited, close, cell_start):
    """The race of class `other` against `label`, and the lead that trees without a choice contribute.

    `close` keeps leaves apart that give the same lead by different scores: within the slack these may round
    differently. `cell_start` (n_features + 1,): where a feature's cells start if all cells are numbered in one row.
    """
    lead = np.empty(n_nodes, np.int64)
    one = np.empty(n_nodes, np.int32)
    size = np.empty(n_nodes, np.int32)
    n_leaves = np.empty(n_nodes, np.int32)
    _node_values(part, n_nodes, value, kind, other, label, limited, close, lead, one, size, n_leaves)
    constant = np.int64(0)
    n_open, n_words, total_leaves, n_tests, n_more, most = 0, 0, 0, 0, 0, 1
    for t in range(n_trees):
        root = part.roots[t]
        if one[root] >= 0:
            constant += lead[root]
            continue
        n = n_leaves[root]
        words = (n + 63) // 64
        n_open += 1
        n_words += words
        total_leaves += n
        n_tests += n - 1
        n_more += 2 * (words - 1) * (n - 1)
        most = max(most, n)
    word = np.empty(n_open + 1, np.uint32)
    first = np.empty(n_open + 1, np.uint32)
    tree_first = np.empty(n_open + 1, np.int32)
    leaf_value = np.empty(total_leaves, np.int64)
    leaf_node = np.empty(total_leaves, np.int32)
    tree_of = np.empty(n_tests, np.uint32)
    node_of = np.empty(n_tests, np.int32)
    leaf_of = np.empty(n_tests, np.int32)
    key = np.empty(n_tests, np.int64)
    values = np.empty(most, np.int64)
    nodes = np.empty(most, np.int32)
    order = np.empty(most, np.int32)
    rank = np.empty(total_leaves, np.int32)
    tree, at_word, at_leaf, at_test = 0, 0, 0, 0
    for t in range(n_trees):
        root = part.roots[t]
        if one[root] >= 0:
            continue
        word[tree] = at_word
        first[tree] = at_leaf
        tree_first[tree] = at_test
        j = 0
        i = root
        end = root + size[root]
        while i < end:
            if n_leaves[i] == 1:
                values[j] = lead[i]
                nodes[j] = i
                j += 1
                i += size[i]
                continue
            tree_of[at_test] = tree
            node_of[at_test] = i
            leaf_of[at_test] = at_leaf + j
            key[at_test] = cell_start[part.feature[i]] + part.cut[i]
            at_test += 1
            i += 1
        sort_down(values, j, order)
        for r in range(j):
            rank[at_leaf + order[r]] = r
            leaf_value[at_leaf + r] = values[order[r]]
            leaf_node[at_leaf + r] = nodes[order[r]]
        at_word += (j + 63) // 64
        at_leaf += j
        tree += 1
    word[tree] = at_word
    first[tree] = at_leaf
    tree_first[tree] = at_test
    order = _sort_up(key, cell_start[cell_start.shape[0] - 1])
    n_features = 0
    last = -1
    for k in range(n_tests):
        f = part.feature[node_of[order[k]]]
        n_features += f != last
        last = f
    feature = np.empty(n_features, np.int32)
    feature_first = np.empty(n_features + 1, np.int32)
    test_cut = np.empty(n_tests, np.int32)
    test_tree = np.empty(n_tests, np.uint32)
    keep_left = np.empty(n_tests, np.uint64)
    keep_right = np.empty(n_tests, np.uint64)
    test_more = np.empty(n_tests, np.int32)
    test_feature = np.empty(n_tests, np.int32)
    tree_test = np.empty(n_tests, np.int32)
    more = np.empty(n_more, np.uint64)
    i = -1
    at_more = np.int64(0)
    for k in range(n_tests):
        source = order[k]
        tree = tree_of[source]
        node = node_of[source]
        if i < 0 or part.feature[node] != feature[i]:
            i += 1
            feature[i] = part.feature[node]
            feature_first[i] = k
        n_left = np.int64(n_leaves[part.left[node]])
        n_right = np.int64(n_leaves[part.right[node]])
        leaf = np.int64(leaf_of[source])
        extra = np.int64(word[tree + 1]) - np.int64(word[tree]) - 1
        test_cut[k] = part.cut[node]
        test_tree[k] = tree
        test_more[k] = at_more
        test_feature[k] = i
        tree_test[source] = k
        # Left of the test the leaves of its right child are out, and the other way round.
        keep_left[k] = _all_but(rank, leaf + n_left, n_right, more, at_more, extra)
        keep_right[k] = _all_but(rank, leaf, n_left, more, at_more + extra, extra)
        at_more += 2 * extra
    feature_first[n_features] = n_tests
    race = Race(
        word,
        first,
        leaf_value,
        leaf_node,
        test_cut,
        test_tree,
        keep_left,
        keep_right,
        test_more,
        more,
        feature,
        feature_first,
        test_feature,
        tree_first,
        tree_test,
    )
    return race, constant


@inner
def _all_but(rank, start, count, more, at, extra):
    """All bits but those of the leaves [start, start + count): the first word, and `extra` others into more[at:]."""
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    head = full
    for w in range(extra):
        more[at + w] = full
    for j in range(start, start + count):
        bit = np.uint64(1) << np.uint64(rank[j] & 63)
        w = rank[j] >> 6
        if w == 0:
            head &= ~bit
        else:
            more[at + w - 1] &= ~bit
    return head
