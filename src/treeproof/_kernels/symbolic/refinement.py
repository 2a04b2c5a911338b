"""Algorithm 4 of the paper on fine cells: which symbolic attacks can change the label of an ensemble, split by split.

The leaves that a box can reach are bits, tree after tree. Putting a box on cells is a bitwise `and` of two table rows
per feature; T(H) follows from the largest and smallest lead of each class over each other one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import borrowing, entry
from treeproof._kernels.sides import cut_between
from treeproof._kernels.symbolic.records import LEAF, POST, PRE
from treeproof._kernels.symbolic.trees import apart, copy_box, paid_for, push_children, sharpen
from treeproof._kernels.walk import decide

# What becomes of an attack: stable, unstable, or to be split at a threshold in the pre-image, at one in the
# post-image, or where instances of the pre-image begin to cost something.
STABLE, ENDED, SPLIT_PRE, SPLIT_POST, SPLIT_PRICE = 0, 1, 2, 3, 4

# How `refine` ends: nothing left to split, iteration reached, arrays too small, told to stop.
DONE, PAUSED, GROW, HALTED = 0, 1, 2, 3

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)
UNDECIDED = -1

MAX_PARTS = 5  # four, and a missing value
MIN_SPLITS = 10
SHARE = 20  # one in so many attacks is split per iteration


class SymbolicModel(NamedTuple):
    """An ensemble on fine cells, as Algorithm 4 wants it.

    `keep_low[start + c]` and `keep_high[start + c]` are the leaves that cells from c on, or up to c, can reach; where
    these tables would be too large they have no rows, and trees are walked instead. Leads up to `slack` are settled by
    `exact` (the search's, with leaf scores in the order of the leaves here).
    """

    tests: Any  # the Tests of all trees
    trees: Any  # (n_trees,) of TREE
    uses: Any  # (n_trees, n_feature_words): the features a tree tests, as bits
    kinds: Any  # (n_leaves,): leaves of the same kind have the same scores
    worth: Any  # (n_leaves, n_pairs): per pair of classes a < b the value of b less that of a
    base_gap: Any  # (n_pairs,): added to sums of worth
    slack: Any
    keep_low: Any  # (n_cells, n_words)
    keep_high: Any
    exact: Any
    split_at: Any  # (n_cells, 3): the sorted cells after which a split at a threshold, the end of this cell, cuts


class Scratch(NamedTuple):
    """Room for judging one attack. Axis 0 of the first four: the pre-image and the post-image."""

    live: Any  # (2, n_words): the leaves within reach, as bits
    spans: Any  # (2, n_trees, n_pairs) of SPAN, over the leaves within reach
    sums: Any  # (2, n_pairs) of SPAN: the leads of the ensemble
    possible: Any  # (2, n_classes): the labels
    movable: Any  # features that may differ between pre-image and post-image, as bits
    stack: Any  # (n_nodes,)
    votes: Any  # (n_cells,)
    touched: Any  # (n_nodes,) of VOTE
    scores: Any  # (n_scores,) in the precision of the library


class Queue(NamedTuple):
    """The candidates C of one lane and its ended attacks E. Slots are linked lists, one per (n_c, n_u)."""

    boxes: Any  # (n_slots, 2, n_features) of ranges
    slots: Any  # (n_slots,) of SLOT
    lists: Any  # (n_levels, n_trees + 1) of LIST
    ended: Any  # (n, 2, n_features) of ranges
    picked: Any
    state: Any  # (1,) of STATE


@borrowing
def _reach(image, features, model, stack, live):
    """Fills `live` with the leaves that `image` (n_features,) can reach."""
    keep_low, keep_high = model.keep_low, model.keep_high
    n_words = live.shape[0]
    if keep_low.shape[0] > 0:
        for w in range(n_words):
            live[w] = ALL
        for f in range(image.shape[0]):
            cells = image[f]
            if cells.low == 0 and cells.high > 0:
                continue  # any number, or none
            a, b = features[f].start + cells.low, features[f].start + cells.high
            for w in range(n_words):
                live[w] &= keep_low[a, w] & keep_high[b, w]
        return
    tests, trees = model.tests, model.trees
    for w in range(n_words):
        live[w] = np.uint64(0)
    for t in range(trees.shape[0]):
        tree = trees[t]
        top = 1
        stack[0] = tree.root
        while top > 0:
            top -= 1
            test = tests.nodes[stack[top]]
            if test.feature == LEAF:
                b = test.leaf - tree.first_leaf
                live[tree.word + b // 64] |= ONE << np.uint64(tree.shift + b % 64)
            else:
                top = push_children(image, test, tests, stack, top)


@borrowing
def _span(live, tree, kinds, worth, spans):
    """The largest and smallest worth per pair of classes of the live leaves of a tree; their kind, or UNDECIDED."""
    n_pairs = worth.shape[1]
    at, left, leaf = tree.word, tree.n_leaves, np.int64(tree.first_leaf)
    kind = np.int64(-2)
    while left > 0:
        bits = live[at] >> np.uint64(tree.shift)
        if left < 64:
            bits &= (ONE << np.uint64(left)) - ONE
        while bits != 0:
            row = leaf + lowest_bit(bits)
            bits &= bits - ONE
            if kind == -2:
                kind = kinds[row]
                for p in range(n_pairs):
                    spans[p].largest = spans[p].smallest = worth[row, p]
            elif kinds[row] != kind:
                kind = np.int64(UNDECIDED)
                for p in range(n_pairs):
                    spans[p].largest = max(spans[p].largest, worth[row, p])
                    spans[p].smallest = min(spans[p].smallest, worth[row, p])
        left -= 64
        leaf += 64
        at += 1
    return kind


@borrowing
def _live_leaf(live, tree):
    """The one leaf that is left of a tree."""
    b = 0
    while not (live[tree.word + b // 64] >> np.uint64(tree.shift + b % 64)) & ONE:
        b += 1
    return tree.first_leaf + b


@borrowing
def _label_of_members(live, trees, exact, scores):
    """The same as below where several models vote."""
    for k in range(scores.shape[0]):
        total = part = 0.0
        for t in range(trees.shape[0]):
            part += exact.leaf_scores[_live_leaf(live, trees[t]), k]
            if exact.part_divisor[t] != 0:
                total += part / exact.part_divisor[t] * exact.part_weight[t]
                part = 0.0
        scores[k] = total / exact.divisor
    return decide(scores, exact.decision, exact.cut, exact.steepness)


@borrowing
def _exact_label(live, trees, exact, scores):
    """The label where every tree is decided, added up as the library does it."""
    leaf_scores, base = exact.leaf_scores, exact.base
    if exact.part_divisor.shape[0] > 0:
        return _label_of_members(live, trees, exact, scores)
    for k in range(scores.shape[0]):
        scores[k] = 0 if exact.base_last else base[k]
    for t in range(trees.shape[0]):
        leaf = _live_leaf(live, trees[t])
        for k in range(scores.shape[0]):
            scores[k] += leaf_scores[leaf, k]
    for k in range(scores.shape[0]):
        scores[k] = scores[k] / exact.divisor
        if exact.base_last:
            scores[k] += base[k]
    return decide(scores, exact.decision, exact.cut, exact.steepness)


@borrowing
def _labels(sums, undecided, live, model, possible, scores):
    """T(H): fills `possible` with the classes that may win, by score differences; returns how many they are."""
    n_classes, slack = possible.shape[0], model.slack
    for k in range(n_classes):
        possible[k] = True
    p = 0
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            # A tie goes to the lower class a.
            if sums[p].largest < (-slack if slack > 0 else 1):
                possible[b] = False
            if sums[p].smallest > slack:
                possible[a] = False
            p += 1
    count = 0
    for k in range(n_classes):
        count += possible[k]
    if count != 1 and undecided == 0:
        for k in range(n_classes):
            possible[k] = False
        possible[_exact_label(live, model.trees, model.exact, scores)] = True
        count = 1
    return count


@borrowing
def _fill_movable(box, rules, movable):
    """Marks the features that an attack may have moved: the others are the same before and after, point by point."""
    features = rules.features
    for w in range(movable.shape[0]):
        movable[w] = np.uint64(0)
    rest = rules.budget - paid_for(box, features)
    for f in range(box.shape[1]):
        if apart(box, f) or features[f].cost <= rest:
            movable[f // 64] |= ONE << np.uint64(f % 64)


@borrowing
def _is_moved(uses, t, movable):
    for w in range(movable.shape[0]):  # noqa: SIM110 (numba knows no generators)
        if uses[t, w] & movable[w]:
            return True
    return False


@borrowing
def _judge(box, origin, model, rules, scratch):
    """What becomes of a symbolic attack (Alg. 4, lines 8-15), and n_u, the undecided trees on its pre-image."""
    live, spans, sums, possible = scratch.live, scratch.spans, scratch.sums, scratch.possible
    trees, kinds, worth = model.trees, model.kinds, model.worth
    n_pairs = worth.shape[1]
    _reach(box[PRE], rules.features, model, scratch.stack, live[PRE])
    _reach(box[POST], rules.features, model, scratch.stack, live[POST])
    _fill_movable(box, rules, scratch.movable)
    for image in range(2):
        for p in range(n_pairs):
            sums[image, p].largest = sums[image, p].smallest = model.base_gap[p]
    undecided, undecided_after = 0, 0
    for t in range(trees.shape[0]):
        before = after = _span(live[PRE], trees[t], kinds, worth, spans[PRE, t])
        image = PRE
        if _is_moved(model.uses, t, scratch.movable):
            after = _span(live[POST], trees[t], kinds, worth, spans[POST, t])
            image = POST
            # What surely changes an earlier tree as well is among that tree's attacks already.
            if t < origin and before >= 0 and after >= 0 and before != after:
                return STABLE, 0
        undecided += before == UNDECIDED
        undecided_after += after == UNDECIDED
        for p in range(n_pairs):
            sums[PRE, p].largest += spans[PRE, t, p].largest
            sums[PRE, p].smallest += spans[PRE, t, p].smallest
            sums[POST, p].largest += spans[image, t, p].largest
            sums[POST, p].smallest += spans[image, t, p].smallest
    n_before = _labels(sums[PRE], undecided, live[PRE], model, possible[PRE], scratch.scores)
    n_after = _labels(sums[POST], undecided_after, live[POST], model, possible[POST], scratch.scores)
    for k in range(possible.shape[1]):
        if possible[PRE, k] and possible[POST, k]:
            if n_before == 1 and n_after == 1:
                return STABLE, 0
            return (SPLIT_PRE if n_before > 1 else SPLIT_POST), undecided
    return (ENDED if _all_can_pay(box, rules) else SPLIT_PRICE), undecided


@borrowing
def _sticks_out(box, f):
    """Whether some instances of the pre-image, but not all, are outside the post-image in feature f."""
    pre, post = box[PRE, f], box[POST, f]
    return not apart(box, f) and (pre.low < post.low or pre.high > post.high)


@borrowing
def _all_can_pay(box, rules):
    """Whether the attack takes every instance of the pre-image into the post-image.

    Those outside the post-image in a feature must move it. They can if 0 is an allowed move, since the nearest place is
    within reach; else they may only be able to leap over it.
    """
    features = rules.features
    paid = paid_for(box, features)
    for f in range(box.shape[1]):
        if _sticks_out(box, f):
            if features[f].away:
                return False
            paid += features[f].cost
    return paid <= rules.budget


@entry
def judge_all(boxes, origin, model, rules, scratch, what, undecided):
    """Judges each of `boxes` (n, 2, n_features): fills `what` and `undecided`."""
    for i in range(boxes.shape[0]):
        what[i], undecided[i] = _judge(boxes[i], origin[i], model, rules, scratch)


@borrowing
def _cut_at(image, test, tests):
    """The last cell before a cut of a test that is inside the image, if one is."""
    cells = image[test.feature]
    return max(cut_between(tests, test, max(cells.low, 1), cells.high), 0)


@borrowing
def _elect(image, features, model, scratch):
    """(feature, last cell before the cut) where most tests of undecided trees are open, the first one among equals."""
    tests, trees = model.tests, model.trees
    stack, votes, touched = scratch.stack, scratch.votes, scratch.touched
    n = 0
    for t in range(trees.shape[0]):
        if _span(scratch.live[0], trees[t], model.kinds, model.worth, scratch.spans[0, t]) != UNDECIDED:
            continue
        top = 1
        stack[0] = trees[t].root
        while top > 0:
            top -= 1
            test = tests.nodes[stack[top]]
            if test.feature == LEAF:
                continue
            height = push_children(image, test, tests, stack, top)
            if height == top + 2:
                touched[n].feature = test.feature
                touched[n].cell = features[test.feature].start + _cut_at(image, test, tests)
                votes[touched[n].cell] += 1
                n += 1
            top = height
    best = 0
    for i in range(1, n):
        if votes[touched[i].cell] > votes[touched[best].cell]:
            best = i
    for i in range(n):
        votes[touched[i].cell] = 0
    f = np.int64(touched[best].feature)
    return f, touched[best].cell - features[f].start


@borrowing
def _choose(box, why, model, rules, scratch, cuts):
    """Where to split: fills `cuts` (3,), sorted, and returns the image (PRE or POST) and the feature."""
    features = rules.features
    if why == SPLIT_PRICE:
        for f in range(box.shape[1]):
            if _sticks_out(box, f) and (features[f].cost > 0 or features[f].away):
                post = box[POST, f]
                cuts[0], cuts[1], cuts[2] = post.low - 1, post.high, post.high
                return PRE, f
    image = PRE if why == SPLIT_PRE else POST
    _reach(box[image], features, model, scratch.stack, scratch.live[0])
    f, cut = _elect(box[image], features, model, scratch)
    moves = apart(box, f) or features[f].cost <= rules.budget - paid_for(box, features)
    for i in range(3):
        cuts[i] = model.split_at[features[f].start + cut, i] if moves and image == PRE else cut
    return image, f


@borrowing
def _parts(cells, cuts, parts):
    """Cuts a range of cells after each of the sorted `cuts` that lies inside; returns the number of parts."""
    n, low, high = 0, cells.low, cells.high
    if low == 0 and high > 0:
        parts[n].low = parts[n].high = 0
        n += 1
        low = 1
    for cut in cuts:
        if low <= cut < high:
            parts[n].low, parts[n].high = low, cut
            n += 1
            low = cut + 1
    parts[n].low, parts[n].high = low, high
    return n + 1


@borrowing
def push(slot, level, undecided, queue):
    """Puts an attack at the end of its list."""
    slots, state, waiting = queue.slots, queue.state[0], queue.lists[level, undecided]
    slots[slot].level = level
    slots[slot].following = -1
    if waiting.last < 0:
        waiting.first = slot
    else:
        slots[waiting.last].following = slot
    waiting.last = slot
    state.first_level = min(state.first_level, level)
    state.n_open += 1


@entry
def push_all(undecided, queue):
    """Puts the first attacks of a queue, one per entry of `undecided`, on its lists."""
    for slot in range(undecided.shape[0]):
        push(slot, 0, undecided[slot], queue)


@borrowing
def _pop(queue):
    """Takes the first attack off the queue, which is not empty: fewest splits n_c, then fewest undecided trees n_u."""
    slots, lists, state = queue.slots, queue.lists, queue.state[0]
    state.n_open -= 1
    while True:
        for u in range(lists.shape[1]):
            waiting = lists[state.first_level, u]
            slot = waiting.first
            if slot >= 0:
                waiting.first = slots[slot].following
                if waiting.first < 0:
                    waiting.last = -1
                return slot
        state.first_level += 1


@borrowing
def _take_slot(queue):
    state = queue.state[0]
    slot = state.free
    if slot < 0:
        state.n_slots += 1
        return state.n_slots - 1
    state.free = queue.slots[slot].following
    return slot


@borrowing
def _give_back(slot, queue):
    state = queue.state[0]
    queue.slots[slot].level = -1
    queue.slots[slot].following = state.free
    state.free = slot


@borrowing
def _pick(queue):
    """Takes the attacks of one iteration off the queue; returns how many, 0 if there may be too little room for it."""
    picked, state = queue.picked, queue.state[0]
    n = min(max(MIN_SPLITS, state.n_open // SHARE), state.n_open)
    room = MAX_PARTS * n
    if state.n_slots + room > queue.boxes.shape[0] or state.n_ended + room > queue.ended.shape[0]:
        return 0
    if n > picked.shape[0] or state.iteration + 2 > queue.lists.shape[0]:
        return 0
    for i in range(n):
        picked[i] = _pop(queue)
    return n


@entry
def refine(model, rules, scratch, queue, until, stop):
    """Iterates Algorithm 4 on one queue until iteration `until`; returns DONE, PAUSED, GROW or HALTED."""
    boxes, slots, state = queue.boxes, queue.slots, queue.state[0]
    parent, parts = np.empty((2, boxes.shape[2]), boxes.dtype), np.empty(MAX_PARTS, boxes.dtype)
    cuts = np.empty(3, np.int32)
    while state.iteration < until:
        if state.n_open == 0:
            return DONE
        n_picked = _pick(queue)
        if n_picked == 0:
            return GROW
        for i in range(n_picked):
            slot = np.int64(queue.picked[i])
            level, origin = slots[slot].level, slots[slot].origin
            if stop[0] != 0:
                push(slot, level, 0, queue)
                continue
            copy_box(boxes[slot], parent)
            image, f = _choose(parent, slots[slot].why, model, rules, scratch, cuts)
            _give_back(slot, queue)
            state.n_splits += 1
            for k in range(_parts(parent[image, f], cuts, parts)):
                slot = _take_slot(queue)
                child = boxes[slot]
                copy_box(parent, child)
                child[image, f].low, child[image, f].high = parts[k].low, parts[k].high
                what, undecided = STABLE, 0
                if sharpen(child, rules):
                    what, undecided = _judge(child, origin, model, rules, scratch)
                if what >= SPLIT_PRE:
                    slots[slot].origin, slots[slot].why = origin, what
                    push(slot, level + 1, undecided, queue)
                    continue
                if what == ENDED:
                    copy_box(child, queue.ended[state.n_ended])
                    state.n_ended += 1
                _give_back(slot, queue)
        if stop[0] != 0:
            return HALTED
        state.iteration += 1
    return PAUSED
