"""The part of an ensemble that a box of fine cells and all attacks on it leave open, as bits and masks.

Of each open tree the leaves are bits of a word. For a feature the tree tests and a coarse cell c, `at_least[c]` holds
the leaves that some cell >= c leads to, `at_most[c]` those that some cell <= c leads to; the leaves of a range of cells
are the bitwise `and` of two words, and those of a box the `and` over features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import entry, inner
from treeproof._kernels.model import LEAF

MOST_LEAVES = 64
MIXED, UNREACHED = -1, -2


class Boxed(NamedTuple):
    """Open trees of a box; built by `boxed_model`.

    Trees: `leaf_first` (n + 1,) into the leaf arrays, `local_first` (n + 1,) into the arrays over (tree, feature),
    `set_first` (n + 1,) into the arrays over (tree, attacked set), `use_first` (n + 1,) into the arrays over (tree,
    attack). Leaves: `lead` of class 1 over class 0, from high to low within a tree, `value` (leaves, classes), `group`
    equal where nothing tells leaves apart. (Tree, feature): `local_feature`, and `table`, the place of cell 0 in
    `at_least` and `at_most`. `place` (n, n_features) is the way back, -1 where a tree does not test a feature.
    (Tree, attacked set): `members`, a bit per feature of the tree that the attack moves; the first set is empty and
    the second has every feature that can be moved. (Tree, attack): `use_attack` and `use_set`, for the attacks that
    move a feature of the tree. Tests, in preorder, those of tree t from `leaf_first[t] - t` on: `test_cut` (n, 4) with
    feature, coarse cut and the tests that its sides begin with (-1: a leaf), `test_mask` (n, 2) each side's leaves.
    """

    leaf_first: Any
    local_first: Any
    set_first: Any
    use_first: Any
    lead: Any
    value: Any
    group: Any
    local_feature: Any
    table: Any
    at_least: Any
    at_most: Any
    place: Any
    members: Any
    use_attack: Any
    use_set: Any
    test_cut: Any
    test_mask: Any


@inner
def _scan(feature, cut, left, right, root, leaf_group, leaf, low, high, depth, group, row):
    """Per reachable node of a tree its leaves' common group or MIXED, and one of their rows; others are UNREACHED."""
    frame = np.empty(depth + 1, np.int32)
    stage = np.empty(depth + 1, np.int8)
    old_low, old_high = np.empty(depth + 1, np.int32), np.empty(depth + 1, np.int32)
    frame[0], stage[0], level = root, 0, 0
    while level >= 0:
        node = frame[level]
        f = feature[node]
        if f == LEAF:
            group[node], row[node] = leaf_group[leaf[node]], leaf[node]
            level -= 1
            continue
        if stage[level] == 0:
            old_low[level], old_high[level] = low[f], high[f]
            group[left[node]] = group[right[node]] = UNREACHED
            stage[level] = 1
            if low[f] <= cut[node]:
                high[f] = min(high[f], cut[node])
                level += 1
                frame[level], stage[level] = left[node], 0
                continue
        if stage[level] == 1:
            low[f], high[f] = old_low[level], old_high[level]
            stage[level] = 2
            if high[f] > cut[node]:
                low[f] = max(low[f], cut[node] + 1)
                level += 1
                frame[level], stage[level] = right[node], 0
                continue
        low[f], high[f] = old_low[level], old_high[level]
        a, b = group[left[node]], group[right[node]]
        row[node] = row[left[node]] if a != UNREACHED else row[right[node]]
        if a == UNREACHED:
            group[node] = b
        else:
            group[node] = a if b == UNREACHED or b == a else MIXED  # noqa: SIM109 (numba wants one type)
        level -= 1


@inner
def _list_leaves(feature, cut, left, right, root, group, depth, low, high, local, n_local, first, last, nodes, tests):
    """Lists the leaves of a scanned tree as nodes, with their cells per feature of the tree; returns their number.

    Where `nodes` is empty, only counts, and numbers the features that are tested in `local` (n_features,). Otherwise
    fills `tests` (n, 6) in preorder: feature, cut, the first leaf on the left, the first on the right, the end of
    those, and the number of the test that the right side begins with.
    """
    counting = nodes.shape[0] == 0
    frame = np.empty(depth + 1, np.int32)
    stage = np.empty(depth + 1, np.int8)
    old_low, old_high = np.empty(depth + 1, np.int32), np.empty(depth + 1, np.int32)
    test = np.empty(depth + 1, np.int32)
    frame[0], stage[0], level, n, n_tests = root, 0, 0, 0, 0
    while level >= 0:
        node = frame[level]
        if group[node] != MIXED:
            if not counting:
                nodes[n] = node
                for f in range(local.shape[0]):
                    if local[f] >= 0:
                        first[n, local[f]], last[n, local[f]] = low[f], high[f]
            n += 1
            level -= 1
            continue
        f = np.int64(feature[node])
        if group[left[node]] == UNREACHED or group[right[node]] == UNREACHED:
            frame[level] = right[node] if group[left[node]] == UNREACHED else left[node]
            stage[level] = 0
            continue
        if stage[level] == 0:
            if counting and local[f] < 0:
                local[f] = n_local
                n_local += 1
            old_low[level], old_high[level] = low[f], high[f]
            high[f] = cut[node]
            side = left[node]
            if not counting:
                test[level] = n_tests
                tests[n_tests, 0], tests[n_tests, 1], tests[n_tests, 2] = f, cut[node], n
                n_tests += 1
        elif stage[level] == 1:
            if not counting:
                tests[test[level], 3], tests[test[level], 5] = n, n_tests
            low[f], high[f] = cut[node] + 1, old_high[level]
            side = right[node]
        else:
            if not counting:
                tests[test[level], 4] = n
            low[f], high[f] = old_low[level], old_high[level]
            level -= 1
            continue
        stage[level] += 1
        level += 1
        frame[level], stage[level] = side, 0
    return n, n_local


@entry
def scan_trees(feature, cut, left, right, leaf, roots, leaf_group, depth, low, high, group, row):
    """Scans all trees for the coarse cells [low, high] (n_features,): fills `group` and `row` (n_nodes,)."""
    for t in range(roots.shape[0]):
        _scan(feature, cut, left, right, roots[t], leaf_group, leaf, low, high, depth, group, row)


@inner
def _sort_down(values, n, order):
    """Fills order[:n] with the positions of values[:n] from the largest to the smallest."""
    for i in range(n):
        j = i
        while j > 0 and values[order[j - 1]] < values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@entry
def boxed_model(
    feature, cut, left, right, roots, value, depth, low, high, group, row, attacks, moves, constant
):  # fmt: skip
    """What scanned trees leave open on the coarse cells [low, high], and whether each tree fits a word.

    `attacks` (n, n_features) are the sets of features that attacks move, `moves` (n_features,) those that any moves.
    Adds what settled trees contribute to `constant` (n_classes,).
    """
    n_features = low.shape[0]
    trees = np.empty(roots.shape[0], np.int32)
    n = np.int64(0)
    for t in range(roots.shape[0]):
        if group[roots[t]] == MIXED:
            trees[n] = t
            n += 1
        else:
            for c in range(constant.shape[0]):
                constant[c] += value[row[roots[t]], c]
    place = np.full((n, n_features), -1, np.int16)
    leaf_first, local_first = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    no_nodes, no_cells = np.empty(0, np.int32), np.empty((0, 0), np.int32)
    fits, most_local = True, 1
    for i in range(n):
        count, n_local = _list_leaves(
            feature, cut, left, right, roots[trees[i]], group, depth, low, high, place[i], 0, no_cells, no_cells,
            no_nodes, no_cells,
        )  # fmt: skip
        fits &= count <= MOST_LEAVES
        most_local = max(most_local, n_local)
        leaf_first[i + 1] = leaf_first[i] + count
        local_first[i + 1] = local_first[i] + n_local
    local_feature = np.empty(local_first[n], np.int32)
    table = np.empty(local_first[n], np.int64)
    size = 0
    for i in range(n):
        for f in range(n_features):
            if place[i, f] >= 0:
                at = local_first[i] + place[i, f]
                local_feature[at] = f
                table[at] = size - low[f]
                size += high[f] - low[f] + 1
    if not fits:
        size = 0
    at_least, at_most = np.zeros(size, np.uint64), np.zeros(size, np.uint64)
    # A tree has one test less than leaves.
    test_cut = np.empty((leaf_first[n] - n, 4), np.int32)
    test_mask = np.empty((leaf_first[n] - n, 2), np.uint64)
    lead = np.empty(leaf_first[n], np.int64)
    leaf_value = np.empty((leaf_first[n], value.shape[1]), np.int64)
    leaf_group = np.empty(leaf_first[n], np.int32)
    if fits:
        nodes = np.empty(MOST_LEAVES, np.int32)
        first, last = np.empty((MOST_LEAVES, most_local), np.int32), np.empty((MOST_LEAVES, most_local), np.int32)
        leads, order = np.empty(MOST_LEAVES, np.int64), np.empty(MOST_LEAVES, np.int32)
        rank = np.empty(MOST_LEAVES, np.int32)
        tests = np.empty((MOST_LEAVES, 6), np.int32)
        for i in range(n):
            count, _ = _list_leaves(
                feature, cut, left, right, roots[trees[i]], group, depth, low, high, place[i], 0, first, last, nodes,
                tests,
            )  # fmt: skip
            for j in range(count):
                at = row[nodes[j]]
                leads[j] = value[at, 1] - value[at, 0]
            _sort_down(leads, count, order)
            for r in range(count):
                at, node = leaf_first[i] + r, nodes[order[r]]
                lead[at] = leads[order[r]]
                for c in range(constant.shape[0]):
                    leaf_value[at, c] = value[row[node], c]
                leaf_group[at] = group[node]
                rank[order[r]] = r
            for k in range(count - 1):
                at = leaf_first[i] - i + k
                begin, middle, end = tests[k, 2], tests[k, 3], tests[k, 4]
                test_cut[at, 0], test_cut[at, 1] = tests[k, 0], tests[k, 1]
                test_cut[at, 2] = at + 1 if middle - begin > 1 else -1
                test_cut[at, 3] = at - k + tests[k, 5] if end - middle > 1 else -1
                test_mask[at, 0], test_mask[at, 1] = np.uint64(0), np.uint64(0)
                for j in range(begin, end):
                    test_mask[at, np.int64(j >= middle)] |= np.uint64(1) << np.uint64(rank[j])
            for j in range(local_first[i], local_first[i + 1]):
                f = local_feature[j]
                for r in range(count):
                    bit = np.uint64(1) << np.uint64(r)
                    at_most[table[j] + first[order[r], j - local_first[i]]] |= bit
                    at_least[table[j] + last[order[r], j - local_first[i]]] |= bit
                for c in range(low[f] + 1, high[f] + 1):
                    at_most[table[j] + c] |= at_most[table[j] + c - 1]
                for c in range(high[f] - 1, low[f] - 1, -1):
                    at_least[table[j] + c] |= at_least[table[j] + c + 1]
    set_first, use_first, members, use_attack, use_set = _attacked_sets(n, local_first, local_feature, attacks, moves)
    boxed = Boxed(
        leaf_first, local_first, set_first, use_first, lead, leaf_value, leaf_group, local_feature, table, at_least,
        at_most, place, members, use_attack, use_set, test_cut, test_mask,
    )  # fmt: skip
    return fits, boxed


@inner
def _attacked_sets(n, local_first, local_feature, attacks, moves):
    """Per tree the different sets of its features that attacks move, and which attack moves which."""
    n_attacks = attacks.shape[0]
    set_first, use_first = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    members = np.empty(n * (n_attacks + 2), np.uint64)
    use_attack, use_set = np.empty(n * n_attacks, np.int32), np.empty(n * n_attacks, np.int32)
    n_sets, n_uses = 0, 0
    for i in range(n):
        every = np.uint64(0)
        for j in range(local_first[i], local_first[i + 1]):
            if moves[local_feature[j]]:
                every |= np.uint64(1) << np.uint64(j - local_first[i])
        members[n_sets], members[n_sets + 1] = np.uint64(0), every
        count = 2
        for a in range(n_attacks):
            bits = np.uint64(0)
            for j in range(local_first[i], local_first[i + 1]):
                if attacks[a, local_feature[j]]:
                    bits |= np.uint64(1) << np.uint64(j - local_first[i])
            if bits == 0:
                continue
            k = 1
            while k < count and members[n_sets + k] != bits:
                k += 1
            if k == count:
                members[n_sets + k] = bits
                count += 1
            use_attack[n_uses], use_set[n_uses] = a, n_sets + k
            n_uses += 1
        n_sets += count
        set_first[i + 1], use_first[i + 1] = n_sets, n_uses
    return set_first, use_first, members[:n_sets], use_attack[:n_uses], use_set[:n_uses]
