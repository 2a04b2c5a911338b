"""Does a box meet one of many boxes? A tree of bounding boxes over cells, built once and asked millions of times."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import borrowing, entry
from treeproof._kernels.symbolic.records import PRE

LEAF_SIZE = 8


@borrowing
def _middle(cells):
    """Twice the middle of a range."""
    return np.int64(cells.low) + cells.high


@borrowing
def _bound(boxes, order, first, end, bound):
    """The bounding box of the boxes order[first:end]; returns the axis along which their middles lie farthest apart."""
    axis, widest = 0, -1
    for f in range(boxes.shape[1]):
        cells = boxes[order[first], f]
        low, high = cells.low, cells.high
        nearest = farthest = _middle(cells)
        for i in range(first + 1, end):
            cells = boxes[order[i], f]
            low, high = min(low, cells.low), max(high, cells.high)
            middle = _middle(cells)
            nearest, farthest = min(nearest, middle), max(farthest, middle)
        bound[f].low, bound[f].high = low, high
        if farthest - nearest > widest:
            axis, widest = f, farthest - nearest
    return axis


@borrowing
def _halve(boxes, order, first, end, axis):
    """Puts the boxes with lower middles along the axis into the first half of order[first:end] (quickselect)."""
    middle = (first + end) // 2
    while end - first > 1:
        pivot = _middle(boxes[order[(first + end) // 2], axis])
        i, j = first, end - 1
        while i <= j:
            while _middle(boxes[order[i], axis]) < pivot:
                i += 1
            while _middle(boxes[order[j], axis]) > pivot:
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
def build(boxes, order, branches, bounds):
    """Fills the tree over `boxes` (n, n_features); returns the number of its nodes, root first.

    `order` (n,) becomes the order of boxes in leaves. `branches` (m,) of BRANCH and their `bounds` (m, n_features) need
    m >= max(1, n).
    """
    for i in range(order.shape[0]):
        order[i] = i
    branches[0].first, branches[0].end = 0, order.shape[0]
    n, i = 1, 0
    while i < n:
        branch = branches[i]
        first, end = branch.first, branch.end
        axis = _bound(boxes, order, first, end, bounds[i])
        branch.left = branch.right = -1
        if end - first > LEAF_SIZE:
            _halve(boxes, order, first, end, axis)
            middle = (first + end) // 2
            branch.left, branch.right = n, n + 1
            branches[n].first, branches[n].end = first, middle
            branches[n + 1].first, branches[n + 1].end = middle, end
            n += 2
        i += 1
    return n


@borrowing
def _meet(box, other):
    """Whether two boxes (n_features,) share a cell in every feature."""
    for f in range(box.shape[0]):  # noqa: SIM110 (numba knows no generators)
        if box[f].low > other[f].high or box[f].high < other[f].low:
            return False
    return True


@entry
def meets_any(rows, branches, bounds, boxes, out):
    """Per row (m, n_features): whether it meets a box; the boxes stand in the order of `build`."""
    stack = np.empty(128, np.int32)
    for row in range(rows.shape[0]):
        out[row] = False
        top = 0
        if branches.shape[0] > 0 and _meet(rows[row], bounds[0]):
            stack[0] = 0
            top = 1
        while top > 0 and not out[row]:
            top -= 1
            branch = branches[stack[top]]
            if branch.left < 0:
                for i in range(branch.first, branch.end):
                    if _meet(rows[row], boxes[i]):
                        out[row] = True
                        break
                continue
            for child in (branch.left, branch.right):
                if _meet(rows[row], bounds[child]):
                    stack[top] = child
                    top += 1


COVERED, FREED = -1, -2


@entry
def still_covered(rows, queue, first_new, witness):
    """Follows which rows (m, n_features) the attacks of a queue still meet.

    `witness` (m,) is the slot of an attack that met the row last, COVERED where one that has ended does, FREED where
    none is left: regions only shrink. The ended attacks from `first_new` on are new since the last call.
    """
    boxes, slots, ended, state = queue.boxes, queue.slots, queue.ended, queue.state[0]
    for row in range(rows.shape[0]):
        if witness[row] < 0:
            continue
        for i in range(first_new, state.n_ended):
            if _meet(rows[row], ended[i, PRE]):
                witness[row] = COVERED
                break
        slot = witness[row]
        if slot < 0 or (slot < state.n_slots and slots[slot].level >= 0 and _meet(rows[row], boxes[slot, PRE])):
            continue
        witness[row] = FREED
        for slot in range(state.n_slots):
            if slots[slot].level >= 0 and _meet(rows[row], boxes[slot, PRE]):
                witness[row] = slot
                break
