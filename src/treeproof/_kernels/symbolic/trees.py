"""Symbolic attacks on fine cells: Algorithms 1 to 3 of the paper, one tree at a time.

An attack is a (2, n_features) box of ranges of cells: per feature the pre-image box[PRE, f] and the post-image
box[POST, f]. A feature was attacked for sure iff the two share no cell; the cost of the attack is that of these
features. Cell 0 is a missing value: a range that holds it and numbers too is always the whole feature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing, entry
from treeproof._kernels.model import goes_left, is_simple, same_until
from treeproof._kernels.sides import part_on_side
from treeproof._kernels.symbolic.records import LEAF, POST, PRE

# Instead of a number of attacks: the arrays were too small, or there was a call to stop.
FULL, STOPPED = -1, -2


class Tests(NamedTuple):
    """The nodes of all trees on fine cells."""

    nodes: Any  # (n_nodes,) of TEST
    more: Any  # their further cuts


class Rules(NamedTuple):
    """The attacker on fine cells."""

    features: Any  # (n_features,) of FEATURE
    moves: Any  # (n_cells,) of MOVE, the cells of all features
    budget: Any


@borrowing
def copy_box(source, target):
    """Copies an attack; loops compile much faster than assignments of slices."""
    for image in range(2):
        for f in range(source.shape[1]):
            target[image, f].low = source[image, f].low
            target[image, f].high = source[image, f].high


@borrowing
def apart(box, f):
    """Whether pre-image and post-image share no cell of feature f: it was attacked."""
    pre, post = box[PRE, f], box[POST, f]
    return post.low > pre.high or pre.low > post.high


@borrowing
def paid_for(box, features):
    """The cost of the attack."""
    paid = np.int64(0)
    for f in range(box.shape[1]):
        if apart(box, f):
            paid += features[f].cost
    return paid


@borrowing
def _meet_attacked(box, f, rules):
    """Keeps what can be reached by moving feature f, and from where; false if nothing is left."""
    pre, post = box[PRE, f], box[POST, f]
    at, moves = rules.features[f].start, rules.moves
    post_low = max(post.low, moves[at + pre.low].reach_low)
    post_high = min(post.high, moves[at + pre.high].reach_high)
    if post_low <= post_high and rules.features[f].gaps:
        post_low, post_high = moves[at + post_low].next_end, moves[at + post_high].last_end
    if post_low > post_high:
        return False
    low, high = max(pre.low, moves[at + post_low].back_low), min(pre.high, moves[at + post_high].back_high)
    pre.low, pre.high = low, high
    post.low, post.high = post_low, post_high
    return low <= high


@borrowing
def sharpen(box, rules):
    """Takes out of both images what no attack within the budget connects; false if nothing is left.

    The post-image stays within the largest move out of the pre-image (Alg. 3, line 11), and so does the pre-image seen
    from the post-image. A feature that was not attacked may also stay where it is, even if 0 is no allowed move. Once
    the rest of the budget cannot pay for it, it must.
    """
    features, moves = rules.features, rules.moves
    rest = rules.budget - paid_for(box, features)
    if rest < 0:
        return False
    for f in range(box.shape[1]):
        if apart(box, f):
            if not _meet_attacked(box, f, rules):
                return False
            continue
        pre, post, at = box[PRE, f], box[POST, f], features[f].start
        if features[f].cost > rest:
            low, high = max(pre.low, post.low), min(pre.high, post.high)
            pre.low, pre.high = low, high
            post.low, post.high = low, high
            continue
        low, high = pre.low, pre.high
        post_low = max(post.low, min(low, moves[at + low].reach_low))
        post_high = min(post.high, max(high, moves[at + high].reach_high))
        low = max(low, min(post_low, moves[at + post_low].back_low))
        high = min(high, max(post_high, moves[at + post_high].back_high))
        pre.low, pre.high = low, high
        post.low, post.high = post_low, post_high
    return True


@borrowing
def _refine(box, f, low, high, rules, out, n):
    """Appends to out[n:] what of the attack can end in the cells [low, high] of feature f; returns the new n.

    [low, high] is one side of a test, in numbers or the missing value alone.
    """
    pre, post = box[PRE, f], box[POST, f]
    post_low, post_high = max(post.low, low), min(post.high, high)
    if post_low > post_high:
        return n
    # Alg. 2, lines 7-13: no budget is spent on this test.
    copy_box(box, out[n])
    out[n, POST, f].low, out[n, POST, f].high = post_low, post_high
    if apart(box, f):
        return n + _meet_attacked(out[n], f, rules)
    out[n, PRE, f].low, out[n, PRE, f].high = post_low, post_high
    n += 1
    if paid_for(box, rules.features) + rules.features[f].cost > rules.budget:
        return n
    # Alg. 2, lines 14-17: instances above and below this side of the test, close enough to be pushed into it.
    for above in (True, False):
        pre_low = max(pre.low, high + 1 if above else 1)
        pre_high = pre.high if above else min(pre.high, low - 1)
        if pre_low <= pre_high:
            copy_box(box, out[n])
            out[n, PRE, f].low, out[n, PRE, f].high = pre_low, pre_high
            out[n, POST, f].low, out[n, POST, f].high = post_low, post_high
            n += _meet_attacked(out[n], f, rules)
    return n


@borrowing
def refine_side(box, test, left, tests, rules, out):
    """Fills `out` with the attacks on one child of a test; returns how many (Alg. 2).

    Where the cells of this side have others in between, because the test has several cuts, the attacks hold those too:
    too many instances, which Algorithm 4 splits off, rather than an attack for each range of cells.
    """
    n, f = 0, test.feature
    post = box[POST, f]
    low, high = part_on_side(tests, test, max(post.low, 1), post.high, left)
    if low <= high:
        n = _refine(box, f, low, high, rules, out, n)
    if test.nan_left == left and post.low == 0:
        n = _refine(box, f, 0, 0, rules, out, n)
    return n


@entry
def annotate(tests, root, rules, top, nodes, boxes, stop):
    """Algorithm 1: fills nodes and boxes with the symbolic attacks of every node of the tree at `root`, root first.

    `top` (2, n_features) is the attack of the root. Returns how many there are, or FULL or STOPPED.
    """
    children = np.empty((5, 2, boxes.shape[2]), boxes.dtype)
    nodes[0] = root
    copy_box(top, boxes[0])
    n, i = 1, 0
    while i < n:
        test = tests.nodes[nodes[i]]
        if test.feature != LEAF:
            if stop[0] != 0:
                return STOPPED
            if n + 8 > nodes.shape[0]:
                return FULL
            for left in (True, False):
                for c in range(refine_side(boxes[i], test, left, tests, rules, children)):
                    nodes[n] = test.left if left else test.right
                    copy_box(children[c], boxes[n])
                    n += 1
        i += 1
    return n


@borrowing
def _any_apart(box):
    for f in range(box.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if apart(box, f):
            return True
    return False


@borrowing
def _meet_images(free, attacked, out):
    """The instances of `free` that the attack takes to its post-image; false if there are none."""
    for f in range(free.shape[1]):
        low = max(free[PRE, f].low, attacked[PRE, f].low)
        high = min(free[PRE, f].high, attacked[PRE, f].high)
        if low > high:
            return False
        out[PRE, f].low, out[PRE, f].high = low, high
        out[POST, f].low, out[POST, f].high = attacked[POST, f].low, attacked[POST, f].high
    return True


@borrowing
def sides(cells, test, tests):
    """Whether a range of cells can go left and right at a test."""
    if cells.low == 0:
        if cells.high == 0:
            return test.nan_left, not test.nan_left
        return True, True
    if is_simple(test):
        return cells.low <= test.cut, cells.high > test.cut
    if same_until(tests, test, cells.low) < cells.high:
        return True, True
    left = goes_left(tests, test, cells.low)
    return left, not left


@borrowing
def push_children(image, test, tests, stack, top):
    """Puts the children of a test that `image` (n_features,) can reach on the stack, left on top.

    Returns the new height of the stack.
    """
    goes_left, goes_right = sides(image[test.feature], test, tests)
    if goes_right:
        stack[top] = test.right
        top += 1
    if goes_left:
        stack[top] = test.left
        top += 1
    return top


@entry
def analyze_tree(tests, kinds, rules, nodes, boxes, attacks, stop):
    """Algorithm 3: fills `attacks` with the symbolic attacks under which a tree's prediction may change.

    nodes and boxes come from `annotate`; leaves of the same kind predict the same. Returns how many there are, or FULL
    or STOPPED. The leaves where instances of an attack can start are found by walking down with its pre-image. Where
    tests have several cuts these may be others than the attack's own, even if nothing was moved for sure.
    """
    n = nodes.shape[0]
    # The attacks of cost 0 (nothing moved) of each leaf, as linked lists.
    first, following = np.full(kinds.shape[0], -1, np.int64), np.full(n, -1, np.int64)
    for i in range(n):
        test = tests.nodes[nodes[i]]
        if test.feature == LEAF and not _any_apart(boxes[i]):
            following[i], first[test.leaf] = first[test.leaf], i
    stack = np.empty(tests.nodes.shape[0] + 1, np.int32)
    found = 0
    for j in range(n):
        end = tests.nodes[nodes[j]]
        if end.feature != LEAF:
            continue
        if stop[0] != 0:
            return STOPPED
        stack[0] = nodes[0]
        top = 1
        while top > 0:
            top -= 1
            test = tests.nodes[stack[top]]
            if test.feature != LEAF:
                top = push_children(boxes[j, PRE], test, tests, stack, top)
                continue
            i = first[test.leaf] if kinds[test.leaf] != kinds[end.leaf] else -1
            while i >= 0:
                if found == attacks.shape[0]:
                    return FULL
                if _meet_images(boxes[i], boxes[j], attacks[found]):
                    found += sharpen(attacks[found], rules)
                i = following[i]
    return found
