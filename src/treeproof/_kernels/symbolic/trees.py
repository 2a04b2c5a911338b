"""Symbolic attacks on fine cells: Algorithms 1 to 3 of the paper, one tree at a time.

An attack is a (4, n_features) block of cells: per feature the pre-image [PRE_LOW, PRE_HIGH] and the post-image
[POST_LOW, POST_HIGH]. A feature was attacked for sure iff the two share no cell; the cost of the attack is that of
these features. Cell 0 is a missing value: a range that holds it and numbers too is always the whole feature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import entry, inner

PRE_LOW, PRE_HIGH, POST_LOW, POST_HIGH = 0, 1, 2, 3

# Columns of `moves` (n_cells, 4): where moves out of a cell end, and where moves into it begin (see symbolic/grid.py).
REACH_LOW, REACH_HIGH, BACK_LOW, BACK_HIGH = 0, 1, 2, 3

# Columns of `tests` (n_nodes, 7). Left iff `cell <= CUT`, a missing value iff NAN_LEFT. THRESHOLD numbers the distinct
# (feature, cut) of the ensemble, LEAF_NUMBER the leaves, tree after tree; a leaf has feature -1.
FEATURE, CUT, LEFT, RIGHT, NAN_LEFT, THRESHOLD, LEAF_NUMBER = 0, 1, 2, 3, 4, 5, 6
LEAF = -1

# Instead of a number of attacks: the arrays were too small, or there was a call to stop.
FULL, STOPPED = -1, -2


class Rules(NamedTuple):
    """The attacker on fine cells: `start` and `moves` as in symbolic/grid.py, `cost` per feature, and the budget.

    `away` marks features whose interval excludes 0: a move may lead over the place where one would like to end.
    """

    start: Any
    moves: Any
    cost: Any
    budget: Any
    away: Any


@inner
def copy_box(source, target):
    """Copies an attack; loops compile much faster than assignments of slices."""
    for row in range(4):
        for f in range(source.shape[1]):
            target[row, f] = source[row, f]


@inner
def apart(box, f):
    """Whether pre-image and post-image share no cell of feature f: it was attacked."""
    return box[POST_LOW, f] > box[PRE_HIGH, f] or box[PRE_LOW, f] > box[POST_HIGH, f]


@inner
def paid_for(box, cost):
    """The cost of the attack."""
    paid = np.int64(0)
    for f in range(box.shape[1]):
        if apart(box, f):
            paid += cost[f]
    return paid


@inner
def _meet_attacked(box, f, at, moves):
    """Keeps what can be reached by moving feature f, and from where; false if nothing is left."""
    low, high = box[PRE_LOW, f], box[PRE_HIGH, f]
    post_low = max(box[POST_LOW, f], moves[at + low, REACH_LOW])
    post_high = min(box[POST_HIGH, f], moves[at + high, REACH_HIGH])
    if post_low > post_high:
        return False
    low, high = max(low, moves[at + post_low, BACK_LOW]), min(high, moves[at + post_high, BACK_HIGH])
    box[PRE_LOW, f], box[PRE_HIGH, f], box[POST_LOW, f], box[POST_HIGH, f] = low, high, post_low, post_high
    return low <= high


@inner
def sharpen(box, start, moves, cost, budget):
    """Takes out of both images what no attack within the budget connects; false if nothing is left.

    The post-image stays within the largest move out of the pre-image (Alg. 3, line 11), and so does the pre-image seen
    from the post-image. A feature that was not attacked may also stay where it is, even if 0 is no allowed move. Once
    the rest of the budget cannot pay for it, it must.
    """
    rest = budget - paid_for(box, cost)
    if rest < 0:
        return False
    for f in range(box.shape[1]):
        at = start[f]
        if apart(box, f):
            if not _meet_attacked(box, f, at, moves):
                return False
            continue
        low, high, post_low, post_high = box[PRE_LOW, f], box[PRE_HIGH, f], box[POST_LOW, f], box[POST_HIGH, f]
        if cost[f] > rest:
            low = post_low = max(low, post_low)
            high = post_high = min(high, post_high)
        else:
            post_low = max(post_low, min(low, moves[at + low, REACH_LOW]))
            post_high = min(post_high, max(high, moves[at + high, REACH_HIGH]))
            low = max(low, min(post_low, moves[at + post_low, BACK_LOW]))
            high = min(high, max(post_high, moves[at + post_high, BACK_HIGH]))
        box[PRE_LOW, f], box[PRE_HIGH, f], box[POST_LOW, f], box[POST_HIGH, f] = low, high, post_low, post_high
    return True


@inner
def _refine(box, f, low, high, start, moves, cost, budget, out, n):
    """Appends to out[n:] what of the attack can end in the cells [low, high] of feature f; returns the new n.

    [low, high] is one side of a test, in numbers or the missing value alone.
    """
    post_low, post_high = max(box[POST_LOW, f], low), min(box[POST_HIGH, f], high)
    if post_low > post_high:
        return n
    # Alg. 2, lines 7-13: no budget is spent on this test.
    copy_box(box, out[n])
    out[n, POST_LOW, f], out[n, POST_HIGH, f] = post_low, post_high
    if apart(box, f):
        return n + _meet_attacked(out[n], f, start[f], moves)
    out[n, PRE_LOW, f], out[n, PRE_HIGH, f] = post_low, post_high
    n += 1
    if paid_for(box, cost) + cost[f] > budget:
        return n
    # Alg. 2, lines 14-17: instances above and below this side of the test, close enough to be pushed into it.
    for above in (True, False):
        pre_low = max(box[PRE_LOW, f], high + 1 if above else 1)
        pre_high = box[PRE_HIGH, f] if above else min(box[PRE_HIGH, f], low - 1)
        if pre_low <= pre_high:
            copy_box(box, out[n])
            out[n, PRE_LOW, f], out[n, PRE_HIGH, f] = pre_low, pre_high
            out[n, POST_LOW, f], out[n, POST_HIGH, f] = post_low, post_high
            n += _meet_attacked(out[n], f, start[f], moves)
    return n


@inner
def refine_left(box, f, cut, nan_left, start, moves, cost, budget, out):
    """Fills `out` with the attacks on the left child of a test; returns how many (Alg. 2)."""
    n = 0
    if cut >= 1:
        n = _refine(box, f, 1, cut, start, moves, cost, budget, out, n)
    if nan_left and box[POST_LOW, f] == 0:
        n = _refine(box, f, 0, 0, start, moves, cost, budget, out, n)
    return n


@inner
def refine_right(box, f, cut, nan_left, start, moves, cost, budget, out):
    """Fills `out` with the attacks on the right child of a test; returns how many (Alg. 2)."""
    n = 0
    last = start[f + 1] - start[f] - 1
    if cut < last:
        n = _refine(box, f, cut + 1, last, start, moves, cost, budget, out, n)
    if not nan_left and box[POST_LOW, f] == 0:
        n = _refine(box, f, 0, 0, start, moves, cost, budget, out, n)
    return n


@entry
def annotate(tests, root, rules, top, nodes, boxes, stop):
    """Algorithm 1: fills nodes and boxes with the symbolic attacks of every node of the tree at `root`, root first.

    `top` (4, n_features) is the attack of the root. Returns how many there are, or FULL or STOPPED.
    """
    start, moves, cost, budget = rules.start, rules.moves, rules.cost, rules.budget
    children = np.empty((4, 4, boxes.shape[2]), boxes.dtype)
    nodes[0] = root
    copy_box(top, boxes[0])
    n, i = 1, 0
    while i < n:
        node = nodes[i]
        f, cut, nan_left = tests[node, FEATURE], tests[node, CUT], tests[node, NAN_LEFT] != 0
        if f != LEAF:
            if stop[0] != 0:
                return STOPPED
            if n + 8 > nodes.shape[0]:
                return FULL
            for side in (LEFT, RIGHT):
                if side == LEFT:
                    found = refine_left(boxes[i], f, cut, nan_left, start, moves, cost, budget, children)
                else:
                    found = refine_right(boxes[i], f, cut, nan_left, start, moves, cost, budget, children)
                for c in range(found):
                    nodes[n] = tests[node, side]
                    copy_box(children[c], boxes[n])
                    n += 1
        i += 1
    return n


@inner
def _any_apart(box):
    for f in range(box.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if apart(box, f):
            return True
    return False


@inner
def _meet_images(free, attacked, out):
    """The instances of `free` that the attack takes to its post-image; false if there are none."""
    for f in range(free.shape[1]):
        low = max(free[PRE_LOW, f], attacked[PRE_LOW, f])
        high = min(free[PRE_HIGH, f], attacked[PRE_HIGH, f])
        if low > high:
            return False
        out[PRE_LOW, f], out[PRE_HIGH, f] = low, high
        out[POST_LOW, f], out[POST_HIGH, f] = attacked[POST_LOW, f], attacked[POST_HIGH, f]
    return True


@inner
def sides(low, high, cut, nan_left):
    """Whether cells [low, high] can go left and right at a test."""
    if low == 0:
        if high == 0:
            return nan_left != 0, nan_left == 0
        return True, True
    return low <= cut, high > cut


@inner
def push_children(low, high, tests, node, stack, top):
    """Puts the children that a box [low, high] can reach on the stack, left on top; returns its new height."""
    f = tests[node, FEATURE]
    goes_left, goes_right = sides(low[f], high[f], tests[node, CUT], tests[node, NAN_LEFT])
    if goes_right:
        stack[top] = tests[node, RIGHT]
        top += 1
    if goes_left:
        stack[top] = tests[node, LEFT]
        top += 1
    return top


@entry
def analyze_tree(tests, kind, rules, nodes, boxes, n, attacks, stop):
    """Algorithm 3: fills `attacks` with the symbolic attacks under which a tree's prediction may change.

    nodes, boxes and n come from `annotate`; leaves of the same `kind` predict the same. Returns how many there are, or
    FULL or STOPPED. The leaves where instances of an attack can start are found by walking down with its pre-image.
    """
    start, moves, cost, budget = rules.start, rules.moves, rules.cost, rules.budget
    # The attacks of cost 0 (nothing moved) of each leaf, as linked lists.
    first, following = np.full(kind.shape[0], -1, np.int64), np.full(n, -1, np.int64)
    for i in range(n):
        if tests[nodes[i], FEATURE] == LEAF and not _any_apart(boxes[i]):
            leaf = tests[nodes[i], LEAF_NUMBER]
            following[i], first[leaf] = first[leaf], i
    stack = np.empty(tests.shape[0] + 1, np.int32)
    found = 0
    for j in range(n):
        if tests[nodes[j], FEATURE] != LEAF or not _any_apart(boxes[j]):
            continue
        if stop[0] != 0:
            return STOPPED
        stack[0] = nodes[0]
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            if tests[node, FEATURE] != LEAF:
                top = push_children(boxes[j, PRE_LOW], boxes[j, PRE_HIGH], tests, node, stack, top)
                continue
            leaf = tests[node, LEAF_NUMBER]
            i = first[leaf] if kind[leaf] != kind[tests[nodes[j], LEAF_NUMBER]] else -1
            while i >= 0:
                if found == attacks.shape[0]:
                    return FULL
                if _meet_images(boxes[i], boxes[j], attacks[found]):
                    found += sharpen(attacks[found], start, moves, cost, budget)
                i = following[i]
    return found
