"""Questions to a tree of cuts: which part holds a point, which parts a box meets, where parts lie.

A tree is an array of NODE, and its cuts, numbered over all features, one of CUT: at a cut a point goes left iff
`x[feature] <= value`.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import entry
from treeproof._kernels.maps.status import OPEN, STABLE, UNSTABLE
from treeproof._kernels.maps.tables import NODE, RANGE

BLOCK = 16

MOVED = np.dtype([("old", "i8"), ("new", "i8")], align=True)
"""A node's number before and after."""


@entry
def locate(X, nodes, cuts, out):
    """X (n, n_features): fills out (n,) with the leaf that holds each row.

    Rows go down the tree in blocks, side by side, so that their waits for memory overlap.
    """
    n = X.shape[0]
    at = np.empty(BLOCK, np.int64)
    for start in range(0, n, BLOCK):
        size = min(BLOCK, n - start)
        for r in range(size):
            at[r] = 0
        moving = True
        while moving:
            moving = False
            for r in range(size):
                node = nodes[at[r]]
                if node.cut >= 0:
                    cut = cuts[node.cut]
                    at[r] = node.child + (X[start + r, cut.feature] > cut.value)
                    moving = True
        for r in range(size):
            out[start + r] = at[r]


@entry
def meet(low, high, nodes, cuts, out):
    """Boxes [low, high] (n, n_features): fills out (n,) with UNSTABLE if they meet such a part, else OPEN or STABLE."""
    waiting = np.empty(1024, np.int64)
    for r in range(low.shape[0]):
        waiting[0], n, worst = 0, 1, STABLE
        while n > 0:
            n -= 1
            node = nodes[waiting[n]]
            while node.cut >= 0:
                cut, child = cuts[node.cut], np.int64(node.child)
                if low[r, cut.feature] > cut.value:
                    child += 1
                elif high[r, cut.feature] > cut.value:
                    if n == waiting.shape[0]:
                        waiting = doubled(waiting)
                    waiting[n] = child + 1
                    n += 1
                node = nodes[child]
            status = -1 - node.child
            if status == UNSTABLE:
                worst = UNSTABLE
                break
            if status == OPEN:
                worst = OPEN
        out[r] = worst


@entry
def compact(nodes):
    """The same tree without cuts between two parts of the same known status, each part's nodes close together."""
    n = nodes.shape[0]
    for i in range(n - 1, -1, -1):  # parts have higher numbers than the whole
        at = nodes[i].child
        if at < 0:
            continue
        status = nodes[at].child
        if status == nodes[at + 1].child and -1 - UNSTABLE <= status <= -1 - STABLE:
            nodes[i].cut, nodes[i].child = -1, status
    out = np.empty(n, NODE)
    waiting = np.empty(64, MOVED)
    waiting[0].old, waiting[0].new = 0, 0
    top, used = 1, 1
    while top > 0:
        top -= 1
        node, moved = nodes[waiting[top].old], out[waiting[top].new]
        moved.cut, moved.child = node.cut, node.child
        if node.child < 0:
            continue
        moved.child = used
        if top + 2 > waiting.shape[0]:
            waiting = doubled(waiting)
        waiting[top].old, waiting[top].new = node.child + 1, used + 1
        waiting[top + 1].old, waiting[top + 1].new = node.child, used
        top += 2
        used += 2
    return out[:used].copy()


@entry
def list_parts(nodes, cuts, space, wanted, out_node, out_box):
    """Lists the leaves of one status (-1: any) with their boxes of fine cells; returns how many there are.

    `space` (n_features,) RANGE is the box that the tree cuts. Fills `out_node` (m,) and `out_box` (m, n_features) RANGE
    as far as they go, in the order of the tree.
    """
    n_features = space.shape[0]
    boxes = np.empty((64, n_features), RANGE)
    waiting = np.empty(64, np.int64)
    for f in range(n_features):
        boxes[0, f] = space[f]
    waiting[0], top, found = 0, 1, 0
    while top > 0:
        top -= 1
        at = waiting[top]
        node = nodes[at]
        if node.cut < 0:
            if wanted < 0 or node.child == -1 - wanted:
                if found < out_node.shape[0]:
                    out_node[found] = at
                    for f in range(n_features):
                        out_box[found, f] = boxes[top, f]
                found += 1
            continue
        if top + 2 > waiting.shape[0]:
            waiting, boxes = doubled(waiting), doubled(boxes)
        cut = cuts[node.cut]
        for f in range(n_features):
            boxes[top + 1, f] = boxes[top, f]
        # The left part is looked at first, so it stands on top.
        boxes[top, cut.feature].low, boxes[top + 1, cut.feature].high = cut.place + 1, cut.place
        waiting[top], waiting[top + 1] = node.child + 1, node.child
        top += 2
    return found
