"""The open trees of a region as a race of one class against another: leaves as bits, tests as masks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import sort_down
from treeproof._kernels.jit import borrowing, inner
from treeproof._kernels.model import LAST_CELL, LEAF, lead_of_leaf
from treeproof._kernels.search.region import ONE_CUT
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import FULL

TEST = np.dtype(
    [
        ("cut", "i4"),
        ("tree", "u4"),
        ("feature", "u4"),  # among those that are tested
        ("masks", "i4"),  # where the masks of other words begin, left before right
        ("left", "u8"),
        ("right", "u8"),  # what stays alive of the first word of leaves on either side
    ],
    align=True,
)
"""A cut of a test: half a cache line. Left and right are the sides of the cells up to the cut, and above it."""

TREE = np.dtype(
    [
        ("live", "u8"),  # the first word of leaves that the box under way leaves
        ("best", "i8"),  # the lead that the best of these gives
        ("trial", "u8"),
        ("trial_best", "i8"),  # the same for a copy, to try cuts on
        ("stamp", "i8"),  # of the trial that the copy was made for
        ("point", "i8"),  # the lead at a single point
        ("leaf", "i4"),  # its first leaf
        ("test", "i4"),  # its first test, in the order of trees
        ("words", "i4"),  # where its other words begin
        ("extra", "i4"),  # how many these are
    ],
    align=True,
)
"""An open tree, and what is left of it: one cache line."""

RUN = np.dtype([("before", "i4"), ("after", "i4")], align=True)
"""The cuts of the same test before and after a cut, -1 and LAST_CELL if there is none within the region.

Cells above a cut are on one side of its test if they end before the next cut, those up to it if they begin after the
one before. Then, and only then, its masks apply.
"""

WORD = np.dtype([("live", "u8"), ("trial", "u8")], align=True)
"""A word of leaves after the first of a tree, likewise."""

BOUND = np.dtype([("left", "i8"), ("right", "i8")], align=True)
"""What the bound of the box under way becomes on either side of a test."""

RANKED_LEAF = np.dtype([("lead", "i8"), ("node", "i4")], align=True)
"""A leaf and its node in the part. Those of a tree are sorted from the largest lead down."""

FEATURE = np.dtype(
    [
        ("feature", "i4"),  # among all
        ("first_test", "i4"),
        ("end_test", "i4"),  # its tests: [first_test, end_test)
        ("low", "i4"),
        ("high", "i4"),  # the cells of the box under way: [low, high]
        ("first", "i4"),
        ("end", "i4"),  # the tests open in it: [first, end)
        ("cell", "i4"),  # of a single point
        ("mixed", "?"),  # whether any of its tests has several cuts: only then RUN records matter
    ],
    align=True,
)
"""A feature that is tested, and the box under way."""

SUBTREE = np.dtype(
    [
        ("lead", "i8"),  # of one of its leaves
        ("kind", "i4"),  # of its leaves if there is no choice between them, else -1
        ("size", "i4"),
        ("n_leaves", "i4"),
        ("n_tests", "i4"),  # cuts of tests between these
    ],
    align=True,
)
"""What is known of the nodes from one on downwards."""
LISTED_TEST = np.dtype(
    [
        ("cell", "i8"),  # its cut, among the cells of all features
        ("cut", "i4"),  # and among those of its own
        ("before", "i4"),
        ("after", "i4"),  # as in RUN
        ("tree", "u4"),
        ("node", "i4"),  # in the part
        ("leaf", "i4"),  # the leftmost one below it
        ("flipped", "?"),  # whether the cells up to the cut go to the right child
    ],
    align=True,
)
"""A cut of a test, in the order of trees."""


MOST_MASKS = np.int64(2**31 - 1)
"""More than this, 17 GB, and their places would not be numbers of 32 bits."""


class Race(NamedTuple):
    """The open trees as a race of one class against another; built by `build_race`.

    `trees` (n_trees + 1,) are TREE records, the last one an end; `leaves` RANKED_LEAF; `tests` TEST, sorted by feature
    and cut, and `bounds` a BOUND and `runs` a RUN for each; `features` FEATURE. `tree_tests` are the numbers of tests
    in the order of trees. Trees of more than 64 leaves have WORD records in `words`, and their tests masks (uint64) in
    `masks`.
    """

    trees: Any
    leaves: Any
    tests: Any
    bounds: Any
    runs: Any
    features: Any
    words: Any
    masks: Any
    tree_tests: Any


class Draft(NamedTuple):
    """What is needed to build races, of the last one: SUBTREE records of nodes, LISTED_TEST of tests, and in `rank` the
    place of each leaf among those of its tree; here leaves stand from left to right.

    `leads`, `nodes` and `order` are scratch for the leaves of one tree; `by_cell` are the numbers of listed tests,
    sorted with the help of `place` (n_cells + 1,).
    """

    subtrees: Any
    tests: Any
    rank: Any
    leads: Any
    nodes: Any
    order: Any
    by_cell: Any
    place: Any


def draft_for(model, n_cells):
    """Room for any race of a model; made in Python."""
    n_nodes, n_tests = len(model.nodes), len(model.nodes) + len(model.more)
    return Draft(
        np.empty(n_nodes, SUBTREE),
        np.empty(n_tests, LISTED_TEST),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int32),
        np.empty(n_nodes, np.int32),
        np.empty(n_tests, np.int32),
        np.empty(n_cells + 1, np.int32),
    )


@borrowing
def _count_cuts(model, node, cells):
    """How many cuts of an open test, a node of the part, are within the cells in question."""
    if node.node == ONE_CUT:
        return 1
    test = model.nodes[node.node]
    n = np.int64(cells.low <= test.cut < cells.high)
    for j in range(test.more, test.end):
        n += cells.low <= model.more[j] < cells.high
    return n


@borrowing
def _list_cuts(model, part, cells, tests, n, tree, at, leaf):
    """Lists the cuts of the open test `at` that are within the cells in question after the n first; how many there are.

    `leaf` is the first one below it.
    """
    node = part.nodes[at]
    if node.node == ONE_CUT:
        test = tests[n]
        test.cell, test.cut, test.before, test.after = cells.start + node.cut, node.cut, -1, LAST_CELL
        test.tree, test.node, test.leaf, test.flipped = tree, at, leaf, False
        return n + 1
    whole, first, last = model.nodes[node.node], n, np.int64(-1)
    for j in range(whole.more - 1, whole.end):
        cut = np.int64(whole.cut if j < whole.more else model.more[j])
        if cells.low <= cut < cells.high:
            test = tests[n]
            test.cell, test.cut, test.before, test.after = cells.start + cut, cut, last, LAST_CELL
            test.tree, test.node, test.leaf, test.flipped = tree, at, leaf, (j - whole.more + 1) & 1 == 1
            if n > first:
                tests[n - 1].after = cut
            last = cut
            n += 1
    return n


@borrowing
def root_lead(part, model, other, label):
    """The greatest lead of `other` over `label` that the trees could give one by one."""
    total = 0
    for t in range(part.roots.shape[0] - 1):
        best = np.int64(-(2**62))
        for i in range(part.roots[t], part.roots[t + 1]):
            node = part.nodes[i]
            if node.feature == LEAF:
                best = max(best, lead_of_leaf(model, node.row, other, label))
        total += best
    return total


@borrowing
def _weigh_subtrees(part, model, region, search, close, subtrees):
    """Fills per node of the part its SUBTREE; returns how many trees offer a choice.

    There is no choice between leaves that give the same lead or, if the race is `close`, even the same scores. A node
    with such leaves only counts as one leaf, unless these may differ in price.
    """
    other, label = search.other, search.label
    for i in range(part.roots[part.roots.shape[0] - 1] - 1, -1, -1):
        node, subtree = part.nodes[i], subtrees[i]
        if node.feature == LEAF:
            subtree.lead = lead_of_leaf(model, node.row, other, label)
            apart = close or node.row > model.forbidden >= 0
            subtree.kind = model.kind[node.row] if apart else 0
            subtree.size = 1
            subtree.n_leaves = 1
            subtree.n_tests = 0
        else:
            a, b = subtrees[node.left], subtrees[node.right]
            same = a.kind >= 0 and a.kind == b.kind and a.lead == b.lead
            subtree.lead = a.lead
            subtree.kind = a.kind if same else -1
            subtree.size = 1 + a.size + b.size
            subtree.n_leaves = 1 if same and not region.limited else a.n_leaves + b.n_leaves
            subtree.n_tests = 0
            if subtree.n_leaves > 1:
                cuts = _count_cuts(model, node, region.ranges[node.feature])
                subtree.n_tests = a.n_tests + b.n_tests + cuts
    n_open = 0
    for t in range(part.roots.shape[0] - 1):
        n_open += subtrees[part.roots[t]].kind < 0
    return n_open


@borrowing
def _measure_trees(roots, subtrees, trees):
    """Fills where the leaves, tests and words of trees with a choice begin; returns (the lead of the others, masks)."""
    constant, n_masks, at = np.int64(0), np.int64(0), 0
    trees[0].leaf, trees[0].test, trees[0].words = 0, 0, 0
    for t in range(roots.shape[0] - 1):
        subtree = subtrees[roots[t]]
        if subtree.kind >= 0:
            constant += subtree.lead
            continue
        n_tests = subtree.n_tests
        tree, after = trees[at], trees[at + 1]
        tree.extra = (subtree.n_leaves - 1) >> 6
        after.leaf = tree.leaf + subtree.n_leaves
        after.test = tree.test + n_tests
        after.words = tree.words + tree.extra
        n_masks += 2 * np.int64(tree.extra) * n_tests
        at += 1
    return constant, n_masks


@borrowing
def _rank_leaves(watch, model, part, region, trees, leaves, draft):
    """Fills the leaves of all trees, and lists their tests, unless told to stop.

    `rank` is the place of a leaf, from left to right.
    """
    t, n_tests = 0, 0
    for number in range(part.roots.shape[0] - 1):
        root = part.roots[number]
        if draft.subtrees[root].kind >= 0:
            continue
        if is_over(watch):
            return
        first, n = np.int64(trees[t].leaf), 0
        i, end = np.int64(root), np.int64(root) + draft.subtrees[root].size
        while i < end:
            subtree = draft.subtrees[i]
            if subtree.n_leaves == 1:
                draft.leads[n], draft.nodes[n] = subtree.lead, i
                n += 1
                i += subtree.size
                continue
            cells = region.ranges[part.nodes[i].feature]
            n_tests = _list_cuts(model, part, cells, draft.tests, np.int64(n_tests), t, i, first + n)
            i += 1
        sort_down(draft.leads, n, draft.order)
        for r in range(n):
            at = draft.order[r]
            leaf = leaves[first + r]
            leaf.lead, leaf.node = draft.leads[at], draft.nodes[at]
            draft.rank[first + at] = r
        t += 1


@borrowing
def _sort_up(draft, n):
    """Sorts the numbers of the first n listed tests from the lowest cell to the highest, by counting."""
    tests, place = draft.tests, draft.place
    place[:] = 0
    for k in range(n):
        place[tests[k].cell + 1] += 1
    for j in range(place.shape[0] - 1):
        place[j + 1] += place[j]
    for k in range(n):
        draft.by_cell[place[tests[k].cell]] = k
        place[tests[k].cell] += 1


@borrowing
def _count_features(part, draft, n_tests):
    """How many features are tested."""
    n, last = 0, -1
    for k in range(n_tests):
        f = part.nodes[draft.tests[draft.by_cell[k]].node].feature
        n += f != last
        last = f
    return n


@borrowing
def _fill_features(part, race, draft):
    """Fills the features that are tested, with their tests."""
    n, last = 0, -1
    for k in range(race.tests.shape[0]):
        f = part.nodes[draft.tests[draft.by_cell[k]].node].feature
        if f != last:
            race.features[n].feature, race.features[n].first_test, race.features[n].mixed = f, k, False
            n += 1
        race.features[n - 1].end_test = k + 1
        last = f


@borrowing
def _all_but(rank, start, count, masks, at, extra):
    """All bits but those of the leaves [start, start + count): the first word, and `extra` others into masks[at:]."""
    head = FULL
    for w in range(extra):
        masks[at + w] = FULL
    for j in range(start, start + count):
        bit = np.uint64(1) << np.uint64(rank[j] & 63)
        w = rank[j] >> 6
        if w == 0:
            head &= ~bit
        else:
            masks[at + w - 1] &= ~bit
    return head


@borrowing
def _fill_tests(race, draft):
    """Fills the tests of the race, but for their masks."""
    at = np.int64(0)
    for i in range(race.features.shape[0]):
        for k in range(race.features[i].first_test, race.features[i].end_test):
            number = draft.by_cell[k]
            listed, test = draft.tests[number], race.tests[k]
            test.cut, test.tree, test.feature, test.masks = listed.cut, listed.tree, i, at
            race.runs[k].before, race.runs[k].after = listed.before, listed.after
            race.features[i].mixed |= listed.before >= 0 or listed.after != LAST_CELL
            race.tree_tests[number] = k
            at += 2 * np.int64(race.trees[listed.tree].extra)


@borrowing
def leaves_of_test(part, draft, k):
    """The first leaf on the left of test k of a race, and how many are there; the same for its right; see `Draft`."""
    listed = draft.tests[draft.by_cell[k]]
    node = part.nodes[listed.node]
    n_left, n_right = np.int64(draft.subtrees[node.left].n_leaves), np.int64(draft.subtrees[node.right].n_leaves)
    leaf = np.int64(listed.leaf)
    return (leaf + n_left, n_right, leaf, n_left) if listed.flipped else (leaf, n_left, leaf + n_left, n_right)


@borrowing
def fill_masks(watch, race, part, draft):
    """Fills the masks of all tests for leaves in the order of their ranks, unless told to stop."""
    for k in range(race.tests.shape[0]):
        if is_over(watch):
            return
        test = race.tests[k]
        left, n_left, right, n_right = leaves_of_test(part, draft, k)
        at, extra = np.int64(test.masks), np.int64(race.trees[test.tree].extra)
        # Left of the test the leaves on its right are out, and the other way round.
        test.left = _all_but(draft.rank, right, n_right, race.masks, at, extra)
        test.right = _all_but(draft.rank, left, n_left, race.masks, at + extra, extra)


@inner
def build_race(search, watch, model, part, region, draft, close):
    """The race of class `search.other` against `search.label`; notes the lead that does not depend on the open trees.

    `close` keeps leaves apart that give the same lead by different scores: within the slack these may round
    differently. If told to stop, the race is not fit for use.
    """
    trees = np.empty(_weigh_subtrees(part, model, region, search, close, draft.subtrees) + 1, TREE)
    constant, n_masks = _measure_trees(part.roots, draft.subtrees, trees)
    search.constant = constant + model.offset[search.other] - model.offset[search.label]
    end = trees[trees.shape[0] - 1]
    leaves, n_tests = np.empty(end.leaf, RANKED_LEAF), end.test
    if n_masks > MOST_MASKS:
        watch.stop[0] = watch.progress[0]  # the row is given up
        n_masks = np.int64(0)
    _rank_leaves(watch, model, part, region, trees, leaves, draft)
    if is_over(watch):
        n_tests = n_tests - n_tests  # what was not listed must not be read
    _sort_up(draft, n_tests)
    race = Race(
        trees,
        leaves,
        np.empty(n_tests, TEST),
        np.empty(n_tests, BOUND),
        np.empty(n_tests, RUN),
        np.empty(_count_features(part, draft, n_tests), FEATURE),
        np.empty(end.words, WORD),
        np.empty(n_masks, np.uint64),
        np.empty(n_tests, np.uint32),
    )
    _fill_features(part, race, draft)
    _fill_tests(race, draft)
    fill_masks(watch, race, part, draft)
    return race
