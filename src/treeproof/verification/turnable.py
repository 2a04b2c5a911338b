"""The tests that an attack can turn: only there z and w can part ways in a tree.

Where a box of neighbours meets none of them, attacks from there change nothing, however many labels the box holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray

if TYPE_CHECKING:
    from treeproof.verification.local_search import Local

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.int32]

FEW_NODES = 2**21
"""So many nodes are walked at once, at most, but for models with more."""
FEW_TESTS = 2**13
"""Rows with more such tests are taken for rows that attacks can change everywhere."""
FEW_MEETINGS = 2**20
"""So many pairs of boxes and tests are compared at once."""


class Turnable:
    """For each row the tests that attacks on its neighbours, from `low` to `high`, can turn; only where `asked`."""

    def __init__(self, local: Local, low: FloatArray, high: FloatArray, asked: Bools) -> None:
        self._ensemble, self._threat, self._grid = local.ensemble, local.threat, local.ensemble.grid
        self._model = self._ensemble.compiled[0]
        # The further cuts of all tests, rising from node to node and from cell to cell.
        self._width = int(self._grid.n_cells.max()) + 1
        self._more = self._ensemble.more_node * self._width + self._model.more
        # Only here w is what z is.
        self._shared = np.flatnonzero(~self._threat.movable & (low < high).any(axis=0))
        self._known = np.zeros(len(low), dtype=bool)
        size = max(1, FEW_NODES // self._ensemble.n_nodes)
        rows, nodes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        todo = np.flatnonzero(asked)
        for some in np.split(todo, range(size, len(todo), size)):
            if local.limits.is_over():
                break
            box, node = self._met(low[some], high[some])
            few = np.bincount(box, minlength=len(some)) <= FEW_TESTS
            self._known[some] = few
            rows.append(some[box[few[box]]])
            nodes.append(node[few[box]])
        row, node = np.concatenate(rows), np.concatenate(nodes)
        order = np.argsort(row, kind="stable")
        self._start = np.searchsorted(row[order], np.arange(len(low) + 1))
        distinct, self._test = np.unique(node[order], return_inverse=True)
        self._first, self._last = self._spans(distinct)

    def shrink(self, row: Ints, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, Bools]:
        """Boxes of these rows without parts where attacks change nothing, and which boxes then have anything left."""
        low, high, some = low.copy(), high.copy(), ~self._known[row]
        size = max(1, FEW_MEETINGS // max(1, int(np.diff(self._start).max())))
        known = np.flatnonzero(~some)
        for boxes in np.split(known, range(size, len(known), size)):
            box, test = self._meetings(row[boxes], low[boxes], high[boxes])
            met, first = np.unique(box, return_index=True)
            if not len(met):
                continue
            at = boxes[met]
            some[at] = True
            lowest, highest = self._grid.cell_ends
            for f in self._shared:
                start = self._grid.start[f]
                from_ = lowest[start + np.minimum.reduceat(self._first[test, f], first)]
                to = highest[start + np.maximum.reduceat(self._last[test, f], first)]
                low[at, f], high[at, f] = np.maximum(low[at, f], from_), np.minimum(high[at, f], to)
        return low, high, some

    def _meetings(self, row: Ints, low: FloatArray, high: FloatArray) -> tuple[Ints, Ints]:
        """Pairs (box, test) where rows of the box may come to one of the row's tests; in the order of the boxes."""
        count = np.diff(self._start)[row]
        box = np.repeat(np.arange(len(row)), count)
        test = self._test[np.arange(len(box)) + np.repeat(self._start[row] - np.cumsum(count) + count, count)]
        first, last = self._grid.cells(low), self._grid.cells(high)
        missing = first < 0
        last[missing] = np.iinfo(last.dtype).max
        for f in self._shared:
            meets = (self._first[test, f] <= last[box, f]) & (self._last[test, f] >= first[box, f])
            box, test = box[meets], test[meets]
        return box, test

    def _cuts_below(self, node: Ints, cell: Cells) -> Ints:
        """How many cuts of a test lie below a cell: the cell is on the left iff their number is even."""
        below: Ints = (cell > self._model.cut[node]).astype(np.int64)
        if len(self._more):
            nodes = self._model.nodes
            below += np.searchsorted(self._more, node * self._width + np.maximum(cell, 0)) - nodes["more"][node]
        return below

    def _met(self, low: FloatArray, high: FloatArray) -> tuple[Ints, Ints]:
        """Pairs (box, node): tests that neighbours from `low` to `high` come to, and that attacks on them can turn."""
        model, threat = self._ensemble, self._threat
        reach = threat.reach(low, high)
        moved = threat.movable & (reach[0] <= reach[1])
        first = self._grid.cells(np.where(moved, np.minimum(low, reach[0]), low))
        last = self._grid.cells(np.where(moved, np.maximum(high, reach[1]), high))
        found = []
        box = np.repeat(np.arange(len(low)), model.n_trees)
        node = np.tile(model.roots.astype(np.int64), len(low))
        while len(node):
            inner = model.feature[node] >= 0
            box, node = box[inner], node[inner]
            f = model.feature[node]
            below = self._cuts_below(node, first[box, f])
            both = below != self._cuts_below(node, last[box, f])
            turned = both & moved[box, f]
            found.append((box[turned], node[turned]))
            left = np.where(first[box, f] < 0, model.nan_left[node], below % 2 == 0)
            to_left, to_right = both | left, both | ~left
            box = np.concatenate((box[to_left], box[to_right]))
            node = np.concatenate((model.left[node[to_left]], model.right[node[to_right]])).astype(np.int64)
        boxes, nodes = zip(*found, strict=True)
        return np.concatenate(boxes), np.concatenate(nodes)

    def _spans(self, nodes: Ints) -> tuple[Cells, Cells]:
        """The first and the last cell (n_nodes, n_features) of each feature with which rows can come to a node."""
        model = self._ensemble
        parent = np.full(model.n_nodes, -1)
        inner = np.flatnonzero(model.feature >= 0)
        parent[model.left[inner]] = parent[model.right[inner]] = inner
        first = np.zeros((len(nodes), model.n_features), dtype=np.int32)
        last = np.tile((self._grid.n_cells - 1).astype(np.int32), (len(nodes), 1))
        at, child = np.arange(len(nodes)), nodes
        while len(child):
            node = parent[child]
            above = node >= 0
            at, child, node = at[above], child[above], node[above]
            f = model.feature[node]
            lowest, highest, is_odd = self._outer_cuts(node)
            # The lowest cells are on the left, and the highest too if the number of cuts is even.
            is_left = model.left[node] == child
            first[at, f] = np.where(is_left, first[at, f], np.maximum(first[at, f], lowest + 1))
            last[at, f] = np.where(is_left == is_odd, np.minimum(last[at, f], highest), last[at, f])
            child = node
        return first, last

    def _outer_cuts(self, node: Ints) -> tuple[Cells, Cells, Bools]:
        """The lowest and the highest cut of each test, and whether the number of its cuts is odd."""
        model = self._model
        begin, end = model.nodes["more"][node], model.nodes["end"][node]
        highest = model.cut[node]
        several = end > begin
        highest[several] = model.more[end[several] - 1]
        return model.cut[node], highest, (end - begin) % 2 == 0
