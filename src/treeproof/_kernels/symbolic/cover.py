"""Does a box meet one of many boxes? A tree of bounding boxes over cells, built once and asked millions of times."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import entry, inner

LEAF_SIZE = 8
LEFT, RIGHT = 0, 1  # columns of `nodes`; a leaf has its boxes [nodes[i, 2], nodes[i, 3]) and no children
FIRST, END = 2, 3


@inner
def _bound(low, high, order, first, end, bound_low, bound_high):
    """The bounding box of the boxes order[first:end]; returns the axis along which their middles lie farthest apart."""
    n_features = low.shape[1]
    axis, widest = 0, -1
    for f in range(n_features):
        least, most = low[order[first], f], high[order[first], f]
        nearest = farthest = np.int64(low[order[first], f]) + high[order[first], f]
        for i in range(first + 1, end):
            a, b = low[order[i], f], high[order[i], f]
            least, most = min(least, a), max(most, b)
            middle = np.int64(a) + b
            nearest, farthest = min(nearest, middle), max(farthest, middle)
        bound_low[f], bound_high[f] = least, most
        if farthest - nearest > widest:
            axis, widest = f, farthest - nearest
    return axis


@inner
def _halve(low, high, order, first, end, axis):
    """Puts the boxes with lower middles along the axis into the first half of order[first:end] (quickselect)."""
    middle = (first + end) // 2
    while end - first > 1:
        at = order[(first + end) // 2]
        pivot = np.int64(low[at, axis]) + high[at, axis]
        i, j = first, end - 1
        while i <= j:
            while np.int64(low[order[i], axis]) + high[order[i], axis] < pivot:
                i += 1
            while np.int64(low[order[j], axis]) + high[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            end = j + 1
        elif middle >= i:
            first = i
        else:
            return


@entry
def build(low, high, order, nodes, bound_low, bound_high):
    """Fills the tree over the boxes low, high (n, n_features); returns the number of its nodes, root first.

    `order` (n,) becomes the order of boxes in leaves. `nodes` (m, 4) and bounds (m, n_features) need m >= 2 * n.
    """
    for i in range(order.shape[0]):
        order[i] = i
    nodes[0, FIRST], nodes[0, END] = 0, order.shape[0]
    n, i = 1, 0
    while i < n:
        first, end = nodes[i, FIRST], nodes[i, END]
        axis = _bound(low, high, order, first, end, bound_low[i], bound_high[i])
        nodes[i, LEFT] = nodes[i, RIGHT] = -1
        if end - first > LEAF_SIZE:
            _halve(low, high, order, first, end, axis)
            middle = (first + end) // 2
            nodes[i, LEFT], nodes[i, RIGHT] = n, n + 1
            nodes[n, FIRST], nodes[n, END] = first, middle
            nodes[n + 1, FIRST], nodes[n + 1, END] = middle, end
            n += 2
        i += 1
    return n


@inner
def _meet(low, high, row, other_low, other_high, i):
    for f in range(low.shape[1]):  # noqa: SIM110 (numba knows no generators)
        if low[row, f] > other_high[i, f] or high[row, f] < other_low[i, f]:
            return False
    return True


@entry
def meets_any(low, high, nodes, bound_low, bound_high, box_low, box_high, out):
    """Per query [low, high] (m, n_features): whether it meets a box; the boxes stand in the order of `build`."""
    stack = np.empty(128, np.int32)
    for row in range(low.shape[0]):
        out[row] = False
        top = 0
        if nodes.shape[0] > 0 and _meet(low, high, row, bound_low, bound_high, 0):
            stack[0] = 0
            top = 1
        while top > 0 and not out[row]:
            top -= 1
            node = stack[top]
            if nodes[node, LEFT] < 0:
                for i in range(nodes[node, FIRST], nodes[node, END]):
                    if _meet(low, high, row, box_low, box_high, i):
                        out[row] = True
                        break
                continue
            for side in range(2):
                child = nodes[node, side]
                if _meet(low, high, row, bound_low, bound_high, child):
                    stack[top] = child
                    top += 1


COVERED, FREED = -1, -2


@entry
def still_covered(low, high, boxes, level, n_slots, ended, first_new, n_ended, witness):
    """Follows which rows [low, high] (m, n_features) the attacks of a queue still meet.

    `witness` (m,) is the slot of an attack that met the row last, COVERED where one that has ended does, FREED where
    none is left: regions only shrink. `ended[first_new:n_ended]` are new since the last call.
    """
    for row in range(low.shape[0]):
        if witness[row] < 0:
            continue
        for i in range(first_new, n_ended):
            if _meets_pre(low, high, row, ended, i):
                witness[row] = COVERED
                break
        slot = witness[row]
        if slot < 0 or (slot < n_slots and level[slot] >= 0 and _meets_pre(low, high, row, boxes, slot)):
            continue
        witness[row] = FREED
        for slot in range(n_slots):
            if level[slot] >= 0 and _meets_pre(low, high, row, boxes, slot):
                witness[row] = slot
                break


@inner
def _meets_pre(low, high, row, boxes, i):
    for f in range(low.shape[1]):  # noqa: SIM110
        if low[row, f] > boxes[i, 1, f] or high[row, f] < boxes[i, 0, f]:
            return False
    return True
