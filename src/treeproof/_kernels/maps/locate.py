"""Questions to a tree of cuts: which part holds a point, which parts a box meets, how large parts are.

A tree is `nodes` (n, 2): a cut and the node of its left part, with that of the right part behind it; for a leaf -1
and -1 - status. Cuts of all features are numbered in one row; at cut k a point goes left iff
`x[feature[k]] <= value[k]`.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import entry

STABLE, UNSTABLE, OPEN = 0, 1, 2
BLOCK = 16


@entry
def locate(X, nodes, feature, value, out):
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
                node = at[r]
                cut = nodes[node, 0]
                if cut >= 0:
                    at[r] = nodes[node, 1] + (X[start + r, feature[cut]] > value[cut])
                    moving = True
        for r in range(size):
            out[start + r] = at[r]


@entry
def meet(low, high, nodes, feature, value, out):
    """Boxes [low, high] (n, n_features): fills out (n,) with UNSTABLE if they meet such a part, else OPEN or STABLE."""
    waiting = np.empty(1024, np.int64)
    for r in range(low.shape[0]):
        waiting[0], n, worst = 0, 1, STABLE
        while n > 0:
            n -= 1
            node = waiting[n]
            cut = nodes[node, 0]
            while cut >= 0:
                f, v = feature[cut], value[cut]
                node = nodes[node, 1]
                if low[r, f] > v:
                    node += 1
                elif high[r, f] > v:
                    if n == waiting.shape[0]:
                        bigger = np.empty(2 * n, np.int64)
                        bigger[:n] = waiting
                        waiting = bigger
                    waiting[n] = node + 1
                    n += 1
                cut = nodes[node, 0]
            status = -1 - nodes[node, 1]
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
        at = nodes[i, 1]
        if at >= 0 and nodes[at, 1] == nodes[at + 1, 1] and -1 - UNSTABLE <= nodes[at, 1] <= -1 - STABLE:
            nodes[i, 0], nodes[i, 1] = -1, nodes[at, 1]
    out = np.empty((n, 2), np.int32)
    waiting = np.empty((64, 2), np.int64)
    waiting[0, 0], waiting[0, 1] = 0, 0
    top, used = 1, 1
    while top > 0:
        top -= 1
        old, new = waiting[top, 0], waiting[top, 1]
        out[new, 0] = nodes[old, 0]
        at = nodes[old, 1]
        if at < 0:
            out[new, 1] = at
            continue
        out[new, 1] = used
        if top + 2 > waiting.shape[0]:
            bigger = np.empty((2 * waiting.shape[0], 2), np.int64)
            for j in range(top):
                bigger[j, 0], bigger[j, 1] = waiting[j, 0], waiting[j, 1]
            waiting = bigger
        waiting[top, 0], waiting[top, 1] = at + 1, used + 1
        waiting[top + 1, 0], waiting[top + 1, 1] = at, used
        top += 2
        used += 2
    return out[:used].copy()


@entry
def list_parts(nodes, cut_feature, cut_place, n_cells, wanted, out_node, out_box):
    """Lists the leaves of one status (-1: any) with their boxes of fine cells; returns how many there are.

    `cut_place` numbers a feature's cuts from 0. Fills `out_node` (m,) and `out_box` (m, 2 * n_features) as far as they
    go, in the order of the tree.
    """
    n_features = n_cells.shape[0]
    box = np.empty((64, 2 * n_features), np.int32)
    waiting = np.empty(64, np.int64)
    for f in range(n_features):
        box[0, f], box[0, n_features + f] = 0, n_cells[f] - 1
    waiting[0], top, found = 0, 1, 0
    while top > 0:
        top -= 1
        node = waiting[top]
        cut = nodes[node, 0]
        if cut < 0:
            if wanted < 0 or nodes[node, 1] == -1 - wanted:
                if found < out_node.shape[0]:
                    out_node[found] = node
                    for j in range(2 * n_features):
                        out_box[found, j] = box[top, j]
                found += 1
            continue
        if top + 2 > waiting.shape[0]:
            bigger = np.empty(2 * waiting.shape[0], np.int64)
            bigger_box = np.empty((2 * box.shape[0], box.shape[1]), np.int32)
            for i in range(top + 1):
                bigger[i] = waiting[i]
                for j in range(box.shape[1]):
                    bigger_box[i, j] = box[i, j]
            waiting, box = bigger, bigger_box
        f = cut_feature[cut]
        for j in range(box.shape[1]):
            box[top + 1, j] = box[top, j]
        # The left part is looked at first, so it stands on top.
        box[top, f], box[top + 1, n_features + f] = cut_place[cut] + 1, cut_place[cut]
        waiting[top], waiting[top + 1] = nodes[node, 1] + 1, nodes[node, 1]
        top += 2
    return found
