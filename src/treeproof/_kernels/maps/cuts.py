"""Where to cut a box: where most trees ask for it."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import borrowing, merged, tiny
from treeproof._kernels.maps.attacks import bottom_lead, top_lead, use_sets
from treeproof._kernels.model import LAST_CELL, same_since, same_until
from treeproof._kernels.sides import cut_between

HALF = 0.5
"""What a test counts for the choice of a cut, relative to the test above it."""
MIN_WEIGHT = 0.1
"""Tests below one that counts for no more are not asked."""
REACH = 0.1
"""What the end of a cell's reach counts, relative to how far apart the leads of its box are."""


@merged
def choose_cut(target, now, space, boxed, part, scratch):
    """(feature, fine cell before the cut); feature -1 if all points of the box are alike. `now` is new for each box."""
    use_sets(target.attack, boxed, part, scratch.leads)
    best, f, k = _vote(target, now, space, boxed, part, scratch)
    if target.pin >= 0:
        at = _reach_cut(target.pin, target.cell, space, part.box)
        # One side cannot reach the cell; on the other one all can.
        if at >= 0 and REACH * target.spread >= best:
            f, k = target.pin, at
    if f < 0:
        f, k = _any_cut(space, boxed, part)
    return f, k


@borrowing
def _reach_cut(f, cell, space, box):
    """The fine cell behind which feature f's reach of a coarse cell outside the box ends or begins; -1 if nowhere."""
    cells, start, low, high = space.cells, space.features[f].start, np.int64(box[f].low), np.int64(box[f].high)
    if cell < cells[start + low].own:
        k = high
        while k >= low and cells[start + k].hull_low > cell:
            k -= 1
        return k if low <= k < high else -1
    k = low
    while k <= high and cells[start + k].hull_high < cell:
        k += 1
    return k - 1 if low < k <= high else -1


@tiny
def _vote(target, now, space, boxed, part, scratch):
    """(votes, feature, fine cell before the cut) of the cut that most trees ask for; feature -1 if none asks.

    A tree asks for its topmost test that is still undecided, because that one matters everywhere in the box, and
    with weights halved at each step for the undecided tests below it.
    """
    trees, leaves, value, tests = boxed.trees, boxed.leaves, boxed.value, boxed.tests
    race, votes, waiting = target.race, scratch.votes, scratch.waiting
    best, best_f, best_k = 0.0, np.int64(-1), np.int64(-1)
    for q in range(part.trees.shape[0]):
        t = part.trees[q]
        tree = trees[t]
        word = part.words[scratch.leads[q].set]
        if target.pin >= 0 and boxed.place[t, target.pin] >= 0:
            mask = boxed.masks[boxed.pairs[tree.pair + boxed.place[t, target.pin]].table + target.cell]
            word &= mask.at_least & mask.at_most
        waiting[0].word, waiting[0].test, waiting[0].weight = word, tree.test, 1.0
        n = 1
        while n > 0:
            n -= 1
            word, k, weight = waiting[n].word, waiting[n].test, waiting[n].weight
            if word & (word - np.uint64(1)) == 0:
                continue
            spread = top_lead(word, tree.leaf, leaves, value, race) - bottom_lead(word, tree.leaf, leaves, value, race)
            if spread == 0:
                continue
            test = tests[k]
            left, right = word & test.left, word & test.right
            while left == 0 or right == 0:
                k = k + 1 if right == 0 else np.int64(test.right_test)
                test = tests[k]
                left, right = word & test.left, word & test.right
            f, at = np.int64(test.feature), _cut_for(test, space, part.box)
            if at >= 0:
                vote = votes[space.features[f].start - f + at]
                if vote.stamp != now:
                    vote.stamp = now
                    vote.weight = 0.0
                vote.weight += weight * spread
                if vote.weight > best:
                    best, best_f, best_k = vote.weight, f, at
            if weight > MIN_WEIGHT:
                waiting[n].word, waiting[n].test, waiting[n].weight = left, k + 1, weight * HALF
                n += 1
                waiting[n].word, waiting[n].test, waiting[n].weight = right, test.right_test, weight * HALF
                n += 1
    return best, best_f, best_k


@borrowing
def _cut_for(test, space, box):
    """The fine cell behind which a cut helps to decide a test; -1 if nowhere."""
    f, c = np.int64(test.feature), np.int64(test.cut)
    start = space.features[f].start
    first, last = np.int64(space.cells[start + box[f].low].own), np.int64(space.cells[start + box[f].high].own)
    if test.fine_cut < 0:
        return _cut_for_several(space.nodes[-1 - test.fine_cut], first, last, space, box)
    # Outside the box a test matters because its feature is moved: cut where the reach of it ends.
    if c < first:
        return _reach_cut(f, c, space, box)
    if c >= last:
        return _reach_cut(f, c + 1, space, box)
    return np.int64(test.fine_cut)


@borrowing
def _cut_for_several(node, first, last, space, box):
    """The same for a test with several cuts, where a box has the coarse cells from `first` to `last`."""
    f = np.int64(node.feature)
    cut = cut_between(space, node, first, last)
    if first <= cut < last:
        return np.int64(space.fine_cuts[space.features[f].coarse_start + cut])
    below, above = same_since(space, node, first) - 1, same_until(space, node, last)
    at = _reach_cut(f, below, space, box) if below >= 0 else np.int64(-1)
    return _reach_cut(f, above + 1, space, box) if at < 0 and above < LAST_CELL else at


@borrowing
def _any_cut(space, boxed, part):
    """A cut that makes any difference to any attack, or feature -1: then all points of the box are alike."""
    for q in range(part.trees.shape[0]):
        tree = boxed.trees[part.trees[q]]
        word = part.words[tree.set + 1]
        for i in range(tree.pair, tree.pair_end):
            f = np.int64(boxed.pairs[i].feature)
            low, high = np.int64(part.box[f].low), np.int64(part.box[f].high)
            if low == high:
                continue
            middle = (low + high) // 2
            # Two ranges that hold cells of the same leaves, one per tree, may differ in whether they hold one of all
            # these leaves together, unless the cells of each leaf are a range too.
            if space.features[f].away or boxed.pairs[i].ragged != 0:
                return f, middle
            for step in range(high - low):
                k = low + (middle - low + step) % (high - low)
                if _tells_apart(k, word, boxed.pairs[i], space, boxed.masks, part.box):
                    return f, k
    return np.int64(-1), np.int64(-1)


@borrowing
def _tells_apart(k, word, pair, space, masks, box):
    """Whether a cut behind fine cell k takes live leaves of a tree away, with attacks or without; none is ragged."""
    cells, its, table = space.cells, box[pair.feature], pair.table
    start = space.features[pair.feature].start
    first, last, left, right = cells[start + its.low], cells[start + its.high], cells[start + k], cells[start + k + 1]
    plain = word & masks[table + first.own].at_least & masks[table + last.own].at_most
    return (
        word & masks[table + first.hull_low].at_least & masks[table + left.hull_high].at_most != word
        or word & masks[table + right.hull_low].at_least & masks[table + last.hull_high].at_most != word
        or plain & masks[table + left.own].at_most != plain
        or plain & masks[table + right.own].at_least != plain
    )
