"""Algorithm 4 of the paper on fine cells: which symbolic attacks can change the label of an ensemble, split by split.

The leaves that a box can reach are bits, tree after tree. Putting a box on cells is a bitwise `and` of two table rows
per feature; T(H) follows from the largest and smallest lead of each class over each other one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import entry, inner
from treeproof._kernels.symbolic.trees import (
    CUT,
    FEATURE,
    LEAF,
    LEAF_NUMBER,
    POST_HIGH,
    POST_LOW,
    PRE_HIGH,
    PRE_LOW,
    THRESHOLD,
    apart,
    copy_box,
    paid_for,
    push_children,
    sharpen,
)
from treeproof._kernels.walk import decide

# What becomes of an attack: stable, unstable, or to be split at a threshold in the pre-image, at one in the
# post-image, or where instances of the pre-image begin to cost something.
STABLE, ENDED, SPLIT_PRE, SPLIT_POST, SPLIT_PRICE = 0, 1, 2, 3, 4

# How `refine` ends: nothing left to split, iteration reached, arrays too small, told to stop.
DONE, PAUSED, GROW, HALTED = 0, 1, 2, 3

ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)
UNDECIDED = -1

MOST_PARTS = 5  # four, and a missing value
LEAST_SPLITS = 10
SHARE = 20  # one in so many attacks is split per iteration


class SymbolicModel(NamedTuple):
    """An ensemble on fine cells, as Algorithm 4 wants it.

    `tests` are the nodes (see symbolic.py). `forest` (n_trees, 5): ROOT, and the leaves as bits: FIRST leaf and their
    number LEAVES, from bit SHIFT of word WORD on. `uses` (n_trees, n_words): the features a tree tests, as bits.
    `worth` (n_leaves, n_pairs + 1): per pair of classes a < b the value of b less that of a, and the kind of the leaf.
    `base_gap` (n_pairs,) is added to sums; leads up to `slack` are settled by `exact` (see search.py), where leaf i has
    row `leaf_row[i]`. `keep_low[start[f] + c]` and `keep_high[start[f] + c]` are the leaves that cells from c on, or up
    to c, can reach; where these tables would be too large they have no rows, and trees are walked instead.
    `split_at` (n_thresholds, 3): the sorted cells after which a split at this threshold cuts.
    """

    tests: Any
    forest: Any
    uses: Any
    worth: Any
    base_gap: Any
    slack: Any
    keep_low: Any
    keep_high: Any
    leaf_row: Any
    exact: Any
    split_at: Any


ROOT, WORD, SHIFT, FIRST, LEAVES = 0, 1, 2, 3, 4


class Scratch(NamedTuple):
    """Room for judging one attack. Axis 0 of the first three: the pre-image and the post-image."""

    live: Any  # (2, n_words)
    span: Any  # (2, n_trees, 2, n_pairs): the largest and smallest worth of the leaves within reach
    possible: Any  # (2, n_classes)
    sums: Any  # (4, n_pairs): the largest and smallest lead before, and after
    movable: Any  # features that may differ between pre-image and post-image, as bits
    stack: Any  # (n_nodes,)
    votes: Any  # (n_thresholds,)
    touched: Any  # (n_nodes,)


class Queue(NamedTuple):
    """The candidates C of one lane and its ended attacks E. Slots of `boxes` are linked lists, one per (n_c, n_u).

    `level` is n_c, how many splits led to the attack, and -1 for an unused slot; `why` how it is to be split.
    """

    boxes: Any  # (n_slots, 4, n_features)
    origin: Any
    level: Any
    why: Any
    following: Any
    heads: Any  # (n_levels, n_trees + 1)
    tails: Any
    ended: Any  # (n, 4, n_features)
    picked: Any
    state: Any


# Entries of `state`.
N_OPEN, N_ENDED, N_SLOTS, FREE, ITERATION, FIRST_LEVEL, N_SPLITS = 0, 1, 2, 3, 4, 5, 6


@inner
def _reach(low, high, start, keep_low, keep_high, tests, forest, stack, live):
    """Fills `live` with the leaves that the box [low, high] can reach."""
    n_words = live.shape[0]
    if keep_low.shape[0] > 0:
        for w in range(n_words):
            live[w] = ALL
        for f in range(low.shape[0]):
            if low[f] == 0 and high[f] > 0:
                continue  # any number, or none
            a, b = start[f] + low[f], start[f] + high[f]
            for w in range(n_words):
                live[w] &= keep_low[a, w] & keep_high[b, w]
        return
    for w in range(n_words):
        live[w] = np.uint64(0)
    for t in range(forest.shape[0]):
        top = 1
        stack[0] = forest[t, ROOT]
        while top > 0:
            top -= 1
            node = stack[top]
            if tests[node, FEATURE] == LEAF:
                b = tests[node, LEAF_NUMBER] - forest[t, FIRST]
                live[forest[t, WORD] + b // 64] |= ONE << np.uint64(forest[t, SHIFT] + b % 64)
            else:
                top = push_children(low, high, tests, node, stack, top)


@inner
def _span(live, forest, t, worth, span):
    """The largest and smallest worth per pair of classes of the live leaves of tree t; their kind, or UNDECIDED."""
    n_pairs = worth.shape[1] - 1
    at, left, leaf = forest[t, WORD], forest[t, LEAVES], np.int64(forest[t, FIRST])
    kind = np.int64(-2)
    while left > 0:
        bits = live[at] >> np.uint64(forest[t, SHIFT])
        if left < 64:
            bits &= (ONE << np.uint64(left)) - ONE
        while bits != 0:
            row = leaf + lowest_bit(bits)
            bits &= bits - ONE
            if kind == -2:
                kind = worth[row, n_pairs]
                for p in range(n_pairs):
                    span[0, p] = worth[row, p]
                    span[1, p] = worth[row, p]
            elif worth[row, n_pairs] != kind:
                kind = np.int64(UNDECIDED)
                for p in range(n_pairs):
                    span[0, p] = max(span[0, p], worth[row, p])
                    span[1, p] = min(span[1, p], worth[row, p])
        left -= 64
        leaf += 64
        at += 1
    return kind


@inner
def _exact_label(live, forest, leaf_row, exact):
    """The label where every tree is decided, added up as the library does it."""
    leaf_scores, base = exact.leaf_scores, exact.base
    scores = np.zeros(base.shape[0], leaf_scores.dtype)
    for k in range(scores.shape[0]):
        scores[k] = 0 if exact.base_last else base[k]
    for t in range(forest.shape[0]):
        b = 0
        while not (live[forest[t, WORD] + b // 64] >> np.uint64(forest[t, SHIFT] + b % 64)) & ONE:
            b += 1
        row = leaf_row[forest[t, FIRST] + b]
        for k in range(scores.shape[0]):
            scores[k] += leaf_scores[row, k]
    for k in range(scores.shape[0]):
        scores[k] = scores[k] / exact.divisor
        if exact.base_last:
            scores[k] += base[k]
    return decide(scores, exact.decision, exact.cut, exact.steepness)


@inner
def _labels(largest, smallest, slack, undecided, live, forest, leaf_row, exact, possible):
    """T(H): fills `possible` with the classes that may win, by score differences; returns how many they are."""
    n_classes = possible.shape[0]
    for k in range(n_classes):
        possible[k] = True
    p = 0
    for a in range(n_classes):
        for b in range(a + 1, n_classes):
            # A tie goes to the lower class a.
            if largest[p] < (-slack if slack > 0 else 1):
                possible[b] = False
            if smallest[p] > slack:
                possible[a] = False
            p += 1
    count = 0
    for k in range(n_classes):
        count += possible[k]
    if count != 1 and undecided == 0:
        for k in range(n_classes):
            possible[k] = False
        possible[_exact_label(live, forest, leaf_row, exact)] = True
        count = 1
    return count


@inner
def _fill_movable(box, cost, budget, movable):
    """Marks the features that an attack may have moved: the others are the same before and after, point by point."""
    for w in range(movable.shape[0]):
        movable[w] = np.uint64(0)
    rest = budget - paid_for(box, cost)
    for f in range(box.shape[1]):
        if apart(box, f) or cost[f] <= rest:
            movable[f // 64] |= ONE << np.uint64(f % 64)


@inner
def _is_moved(uses, t, movable):
    for w in range(movable.shape[0]):  # noqa: SIM110 (numba knows no generators)
        if uses[t, w] & movable[w]:
            return True
    return False


@inner
def _judge(
    box, origin, start, cost, budget, away, tests, forest, uses, worth, base_gap, slack, keep_low, keep_high, leaf_row,
    exact, live, span, possible, sums, movable, stack,
):  # fmt: skip
    """What becomes of a symbolic attack (Alg. 4, lines 8-15), and n_u, the undecided trees on its pre-image."""
    n_trees, n_pairs = forest.shape[0], base_gap.shape[0]
    _reach(box[PRE_LOW], box[PRE_HIGH], start, keep_low, keep_high, tests, forest, stack, live[0])
    _reach(box[POST_LOW], box[POST_HIGH], start, keep_low, keep_high, tests, forest, stack, live[1])
    _fill_movable(box, cost, budget, movable)
    for p in range(n_pairs):
        sums[0, p] = sums[1, p] = sums[2, p] = sums[3, p] = base_gap[p]
    undecided, undecided_after = 0, 0
    for t in range(n_trees):
        before = after = _span(live[0], forest, t, worth, span[0, t])
        image = 0
        if _is_moved(uses, t, movable):
            after = _span(live[1], forest, t, worth, span[1, t])
            image = 1
            # What surely changes an earlier tree as well is among that tree's attacks already.
            if t < origin and before >= 0 and after >= 0 and before != after:
                return STABLE, 0
        undecided += before == UNDECIDED
        undecided_after += after == UNDECIDED
        for p in range(n_pairs):
            sums[0, p] += span[0, t, 0, p]
            sums[1, p] += span[0, t, 1, p]
            sums[2, p] += span[image, t, 0, p]
            sums[3, p] += span[image, t, 1, p]
    n_before = _labels(sums[0], sums[1], slack, undecided, live[0], forest, leaf_row, exact, possible[0])
    n_after = _labels(sums[2], sums[3], slack, undecided_after, live[1], forest, leaf_row, exact, possible[1])
    for k in range(possible.shape[1]):
        if possible[0, k] and possible[1, k]:
            if n_before == 1 and n_after == 1:
                return STABLE, 0
            return (SPLIT_PRE if n_before > 1 else SPLIT_POST), undecided
    return (ENDED if _all_can_pay(box, cost, budget, away) else SPLIT_PRICE), undecided


@inner
def _sticks_out(box, f):
    """Whether some instances of the pre-image, but not all, are outside the post-image in feature f."""
    return not apart(box, f) and (box[PRE_LOW, f] < box[POST_LOW, f] or box[PRE_HIGH, f] > box[POST_HIGH, f])


@inner
def _all_can_pay(box, cost, budget, away):
    """Whether the attack takes every instance of the pre-image into the post-image.

    Those outside the post-image in a feature must move it. They can if 0 is an allowed move, since the nearest place is
    within reach; else they may only be able to leap over it.
    """
    paid = paid_for(box, cost)
    for f in range(box.shape[1]):
        if _sticks_out(box, f):
            if away[f]:
                return False
            paid += cost[f]
    return paid <= budget


@entry
def judge_all(boxes, origin, model, rules, scratch, what, undecided):
    """Judges each of `boxes` (n, 4, n_features): fills `what` and `undecided`."""
    for i in range(boxes.shape[0]):
        what[i], undecided[i] = _judge(
            boxes[i], origin[i], rules.start, rules.cost, rules.budget, rules.away, model.tests, model.forest,
            model.uses, model.worth, model.base_gap, model.slack, model.keep_low, model.keep_high, model.leaf_row,
            model.exact, scratch.live, scratch.span, scratch.possible, scratch.sums, scratch.movable, scratch.stack,
        )  # fmt: skip


@inner
def _elect(low, high, tests, forest, worth, live, span, stack, votes, touched):
    """The test that the box leaves open in most undecided trees, the first one among equals."""
    n = 0
    for t in range(forest.shape[0]):
        if _span(live, forest, t, worth, span[t]) != UNDECIDED:
            continue
        top = 1
        stack[0] = forest[t, ROOT]
        while top > 0:
            top -= 1
            node = stack[top]
            if tests[node, FEATURE] == LEAF:
                continue
            height = push_children(low, high, tests, node, stack, top)
            if height == top + 2:
                votes[tests[node, THRESHOLD]] += 1
                touched[n] = node
                n += 1
            top = height
    best = touched[0]
    for i in range(1, n):
        if votes[tests[touched[i], THRESHOLD]] > votes[tests[best, THRESHOLD]]:
            best = touched[i]
    for i in range(n):
        votes[tests[touched[i], THRESHOLD]] = 0
    return best


@inner
def _choose(
    box, why, start, cost, budget, away, tests, forest, worth, keep_low, keep_high, split_at, live, span, stack, votes,
    touched, cuts,
):  # fmt: skip
    """Where to split: fills `cuts` (3,), sorted, and returns the image (PRE_LOW or POST_LOW) and the feature."""
    if why == SPLIT_PRICE:
        for f in range(box.shape[1]):
            if _sticks_out(box, f) and (cost[f] > 0 or away[f]):
                cuts[0], cuts[1], cuts[2] = box[POST_LOW, f] - 1, box[POST_HIGH, f], box[POST_HIGH, f]
                return PRE_LOW, f
    image = PRE_LOW if why == SPLIT_PRE else POST_LOW
    _reach(box[image], box[image + 1], start, keep_low, keep_high, tests, forest, stack, live[0])
    node = _elect(box[image], box[image + 1], tests, forest, worth, live[0], span[0], stack, votes, touched)
    f, cut = tests[node, FEATURE], tests[node, CUT]
    moves = apart(box, f) or cost[f] <= budget - paid_for(box, cost)
    for i in range(3):
        cuts[i] = split_at[tests[node, THRESHOLD], i] if moves and image == PRE_LOW else cut
    return image, f


@inner
def _parts(low, high, cuts, parts):
    """Cuts the cells [low, high] after each of the sorted `cuts` that lies inside; returns the number of parts."""
    n = 0
    if low == 0 and high > 0:
        parts[n, 0], parts[n, 1] = 0, 0
        n += 1
        low = 1
    for cut in cuts:
        if low <= cut < high:
            parts[n, 0], parts[n, 1] = low, cut
            n += 1
            low = cut + 1
    parts[n, 0], parts[n, 1] = low, high
    return n + 1


@inner
def push(slot, level, undecided, state, levels, following, heads, tails):
    """Puts an attack at the end of its list."""
    levels[slot] = level
    following[slot] = -1
    last = tails[level, undecided]
    if last < 0:
        heads[level, undecided] = slot
    else:
        following[last] = slot
    tails[level, undecided] = slot
    state[FIRST_LEVEL] = min(state[FIRST_LEVEL], level)
    state[N_OPEN] += 1


@entry
def push_all(undecided, queue):
    """Puts the first attacks of a queue, one per entry of `undecided`, on its lists."""
    for slot in range(undecided.shape[0]):
        push(slot, 0, undecided[slot], queue.state, queue.level, queue.following, queue.heads, queue.tails)


@inner
def _pop(state, following, heads, tails):
    """Takes the first attack off the queue, which is not empty: fewest splits n_c, then fewest undecided trees n_u."""
    state[N_OPEN] -= 1
    while True:
        level = state[FIRST_LEVEL]
        for u in range(heads.shape[1]):
            slot = heads[level, u]
            if slot >= 0:
                heads[level, u] = following[slot]
                if following[slot] < 0:
                    tails[level, u] = -1
                return slot
        state[FIRST_LEVEL] += 1


@inner
def _take_slot(state, following):
    slot = state[FREE]
    if slot < 0:
        state[N_SLOTS] += 1
        return state[N_SLOTS] - 1
    state[FREE] = following[slot]
    return slot


@inner
def _give_back(slot, state, levels, following):
    levels[slot] = -1
    following[slot] = state[FREE]
    state[FREE] = slot


@inner
def _pick(state, boxes, following, heads, tails, ended, picked):
    """Takes the attacks of one iteration off the queue; returns how many, 0 if there may be too little room for it."""
    n = min(max(LEAST_SPLITS, state[N_OPEN] // SHARE), state[N_OPEN])
    room = MOST_PARTS * n
    if state[N_SLOTS] + room > boxes.shape[0] or state[N_ENDED] + room > ended.shape[0]:
        return 0
    if n > picked.shape[0] or state[ITERATION] + 2 > heads.shape[0]:
        return 0
    for i in range(n):
        picked[i] = _pop(state, following, heads, tails)
    return n


@entry
def refine(model, rules, scratch, queue, until, stop):
    """Iterates Algorithm 4 on one queue until iteration `until`; returns DONE, PAUSED, GROW or HALTED."""
    start, moves, cost, budget, away = rules.start, rules.moves, rules.cost, rules.budget, rules.away
    tests, forest, uses, worth = model.tests, model.forest, model.uses, model.worth
    base_gap, slack, leaf_row, exact = model.base_gap, model.slack, model.leaf_row, model.exact
    keep_low, keep_high, split_at = model.keep_low, model.keep_high, model.split_at
    live, span, possible, sums = scratch.live, scratch.span, scratch.possible, scratch.sums
    movable, stack, votes, touched = scratch.movable, scratch.stack, scratch.votes, scratch.touched
    boxes, origins, levels, whys, following = queue.boxes, queue.origin, queue.level, queue.why, queue.following
    heads, tails, ended, picked, state = queue.heads, queue.tails, queue.ended, queue.picked, queue.state
    parent = np.empty((4, boxes.shape[2]), boxes.dtype)
    parts, cuts = np.empty((MOST_PARTS, 2), np.int32), np.empty(3, np.int32)
    while state[ITERATION] < until:
        if state[N_OPEN] == 0:
            return DONE
        n_picked = _pick(state, boxes, following, heads, tails, ended, picked)
        if n_picked == 0:
            return GROW
        for i in range(n_picked):
            slot, level, origin = picked[i], levels[picked[i]], origins[picked[i]]
            if stop[0] != 0:
                push(slot, level, 0, state, levels, following, heads, tails)
                continue
            copy_box(boxes[slot], parent)
            image, f = _choose(
                parent, whys[slot], start, cost, budget, away, tests, forest, worth, keep_low, keep_high, split_at,
                live, span, stack, votes, touched, cuts,
            )  # fmt: skip
            _give_back(slot, state, levels, following)
            state[N_SPLITS] += 1
            for k in range(_parts(parent[image, f], parent[image + 1, f], cuts, parts)):
                slot = _take_slot(state, following)
                child = boxes[slot]
                copy_box(parent, child)
                child[image, f], child[image + 1, f] = parts[k, 0], parts[k, 1]
                what, undecided = STABLE, 0
                if sharpen(child, start, moves, cost, budget):
                    what, undecided = _judge(
                        child, origin, start, cost, budget, away, tests, forest, uses, worth, base_gap, slack, keep_low,
                        keep_high, leaf_row, exact, live, span, possible, sums, movable, stack,
                    )  # fmt: skip
                if what >= SPLIT_PRE:
                    origins[slot], whys[slot] = origin, what
                    push(slot, level + 1, undecided, state, levels, following, heads, tails)
                    continue
                if what == ENDED:
                    copy_box(child, ended[state[N_ENDED]])
                    state[N_ENDED] += 1
                _give_back(slot, state, levels, following)
        if stop[0] != 0:
            return HALTED
        state[ITERATION] += 1
    return PAUSED
