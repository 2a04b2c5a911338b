"""Where attacks make a difference: the pairs of leaves of a tree of which z reaches one, and w the other.

Where a box of neighbours meets no such pair, attacks from there change nothing, however many labels the box holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
FEW_LEAVES = 64
"""Of a test with more pairs of leaves, one on each side, it is enough to know where it is."""
FEW_FORKS = 2**13
"""Rows with more forks are taken for rows that attacks can change everywhere."""
FEW_MEETINGS = 2**20
"""So many boxes and forks are compared at once."""


class Near(NamedTuple):
    """Boxes of neighbours with all that attacks reach: first and last cells, and what is moved (n, n_features)."""

    first: Cells
    last: Cells
    moved: Bools


class Forks:
    """For each row, where attacks on its neighbours, from `low` to `high`, may end in other leaves; only if `asked`.

    A fork is a pair of leaves with different scores below a test that attacks can turn, or just such a test. What is
    kept of it are the cells with which rows come there, of features that nobody moves: z and w share these.
    """

    def __init__(self, local: Local, low: FloatArray, high: FloatArray, asked: Bools) -> None:
        self._ensemble, self._threat, self._grid = local.ensemble, local.threat, local.ensemble.grid
        self._model = self._ensemble.compiled[0]
        # The further cuts of all tests, rising from node to node and from cell to cell.
        self._width = int(self._grid.n_cells.max()) + 1
        self._more = self._ensemble.more_node * self._width + self._model.more
        self._shared = np.flatnonzero(~self._threat.movable & (low < high).any(axis=0))
        self._parent = np.full(self._ensemble.n_nodes, -1)
        inner = np.flatnonzero(self._ensemble.feature >= 0)
        self._parent[self._ensemble.left[inner]] = self._parent[self._ensemble.right[inner]] = inner

        self._known = np.zeros(len(low), dtype=bool)
        nothing = np.empty((0, len(self._shared)), dtype=np.int32)
        found = [(np.empty(0, dtype=np.int64), nothing, nothing)]
        size = max(1, FEW_NODES // self._ensemble.n_nodes)
        todo = np.flatnonzero(asked)
        for rows in np.split(todo, range(size, len(todo), size)):
            if local.limits.is_over():
                break
            box, first, last = self._find(low[rows], high[rows])
            few = np.bincount(box, minlength=len(rows)) <= FEW_FORKS
            self._known[rows] = few
            found.append((rows[box[few[box]]], first[few[box]], last[few[box]]))
        row, first, last = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(row, kind="stable")
        self._start = np.searchsorted(row[order], np.arange(len(low) + 1))
        self._first, self._last = first[order], last[order]

    def shrink(self, row: Ints, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, Bools]:
        """Boxes of these rows without parts where attacks change nothing, and which boxes then have anything left."""
        low, high, some = low.copy(), high.copy(), ~self._known[row]
        lowest, highest = self._grid.cell_ends
        size = max(1, FEW_MEETINGS // max(1, int(np.diff(self._start).max())))
        known = np.flatnonzero(~some)
        for boxes in np.split(known, range(size, len(known), size)):
            box, fork = self._meetings(row[boxes], low[boxes], high[boxes])
            met, begin = np.unique(box, return_index=True)
            if not len(met):
                continue
            at = boxes[met]
            some[at] = True
            for k, f in enumerate(self._shared):
                start = self._grid.start[f]
                least = lowest[start + np.minimum.reduceat(self._first[fork, k], begin)]
                most = highest[start + np.maximum.reduceat(self._last[fork, k], begin)]
                low[at, f], high[at, f] = np.maximum(low[at, f], least), np.minimum(high[at, f], most)
        return low, high, some

    def _meetings(self, row: Ints, low: FloatArray, high: FloatArray) -> tuple[Ints, Ints]:
        """Pairs (box, fork) where rows of the box may come to a fork of the box's row; in the order of the boxes."""
        box, fork = _ranges(self._start[row], np.diff(self._start)[row])
        first, last = self._grid.cells(low), self._grid.cells(high)
        last[first < 0] = np.iinfo(np.int32).max
        for k, f in enumerate(self._shared):
            meets = (self._first[fork, k] <= last[box, f]) & (self._last[fork, k] >= first[box, f])
            box, fork = box[meets], fork[meets]
        return box, fork

    def _find(self, low: FloatArray, high: FloatArray) -> tuple[Ints, Cells, Cells]:
        """The forks of boxes [low, high] of neighbours: the box, and the first and last cells of shared features."""
        model, threat = self._ensemble, self._threat
        reach = threat.reach(low, high)
        moved = threat.movable & (reach[0] <= reach[1])
        ends = np.where(moved, np.minimum(low, reach[0]), low), np.where(moved, np.maximum(high, reach[1]), high)
        near = Near(self._grid.cells(ends[0]), self._grid.cells(ends[1]), moved)

        every_box = np.arange(len(low))
        box, node = self._walk(near, every_box, np.repeat(every_box, model.n_trees), np.tile(model.roots, len(low)))
        turned = model.feature[node] >= 0
        turned[turned] = moved[box[turned], model.feature[node[turned]]]
        turned[turned] = self._sides(near, box[turned], node[turned]).all(axis=0)
        box, test = box[turned], node[turned]

        # Below the left side of test i the leaves belong to 2 * i, and below its right side to 2 * i + 1.
        sides = np.stack((model.left[test], model.right[test]), axis=1).ravel()
        side, node = self._walk(near, np.repeat(box, 2), np.arange(len(sides)), sides)
        is_leaf = model.feature[node] < 0
        of, one, other = self._pairs(test, side[is_leaf], node[is_leaf])
        distinct, which = np.unique(np.concatenate((one, other)), return_inverse=True)
        first, last = (span[which.reshape(2, -1)] for span in self._spans(distinct))
        first, last = first.max(axis=0), last.min(axis=0)
        # Missing values go their own way at each test, whatever numbers come there.
        missing = near.first[np.ix_(box[of], self._shared)] < 0
        first, last = np.where(missing, 0, first), np.where(missing, self._grid.n_cells[self._shared] - 1, last)
        possible = (first <= last).all(axis=1)
        return box[of[possible]], first[possible], last[possible]

    def _pairs(self, test: Ints, side: Ints, leaf: Ints) -> tuple[Ints, Ints, Ints]:
        """Pairs of leaves on both sides of each test with different scores; or the test, twice, if they are many."""
        order = np.argsort(side, kind="stable")
        side, leaf = side[order], leaf[order]
        kind = self._model.kind[self._model.leaf[leaf]]
        start = np.searchsorted(side, np.arange(2 * len(test)))
        left, right = np.bincount(side, minlength=2 * len(test)).reshape(-1, 2).T
        few = left * right <= FEW_LEAVES
        of, number = _ranges(np.zeros_like(left), np.where(few, left * right, 0))
        one, other = start[2 * of] + number // right[of], start[2 * of + 1] + number % right[of]
        differ = kind[one] != kind[other]
        differs = np.minimum.reduceat(kind, start[::2]) != np.maximum.reduceat(kind, start[::2])
        many = np.flatnonzero(~few & differs)
        of = np.concatenate((of[differ], many))
        return of, np.concatenate((leaf[one[differ]], test[many])), np.concatenate((leaf[other[differ]], test[many]))

    def _walk(self, near: Near, box: Ints, owner: Ints, node: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
        """All nodes at and below these that rows come to: (owner, node); `box` has the box of each owner."""
        model = self._ensemble
        found = [(owner, node.astype(np.int64))]
        while len(found[-1][0]):
            owner, node = found[-1]
            inner = model.feature[node] >= 0
            owner, node = owner[inner], node[inner]
            left, right = self._sides(near, box[owner], node)
            below = np.concatenate((model.left[node[left]], model.right[node[right]]))
            found.append((np.concatenate((owner[left], owner[right])), below.astype(np.int64)))
        owners, nodes = zip(*found, strict=True)
        return np.concatenate(owners), np.concatenate(nodes)

    def _sides(self, near: Near, box: Ints, node: Ints) -> Bools:
        """Whether rows of a box can come to the left of a test, and to the right: (2, n)."""
        at = box, self._ensemble.feature[node]
        first, last = near.first[at], near.last[at]
        below = self._cuts_below(node, first)
        both = below != self._cuts_below(node, last)
        left = np.where(first < 0, self._ensemble.nan_left[node], below % 2 == 0)
        return np.stack((both | left, both | ~left))

    def _cuts_below(self, node: Ints, cell: Cells) -> Ints:
        """How many cuts of a test lie below a cell: the cell is on the left iff their number is even."""
        below: Ints = (cell > self._model.cut[node]).astype(np.int64)
        if len(self._more):
            begin = self._model.nodes["more"][node]
            below += np.searchsorted(self._more, node * self._width + np.maximum(cell, 0)) - begin
        return below

    def _spans(self, nodes: Ints) -> tuple[Cells, Cells]:
        """The first and the last cell of each shared feature with which rows can come to these nodes."""
        model = self._ensemble
        column = np.full(model.n_features, -1)
        column[self._shared] = np.arange(len(self._shared))
        first = np.zeros((len(nodes), len(self._shared)), dtype=np.int32)
        last = np.tile(self._grid.n_cells[self._shared].astype(np.int32) - 1, (len(nodes), 1))
        at, child = np.arange(len(nodes)), nodes
        while len(child):
            node = self._parent[child]
            shared = np.flatnonzero((node >= 0) & (column[model.feature[node]] >= 0))
            tests, place = node[shared], (at[shared], column[model.feature[node[shared]]])
            lowest, highest, is_odd = self._outer_cuts(tests)
            # The lowest cells are on the left, and the highest too if the number of cuts is even.
            is_left = model.left[tests] == child[shared]
            first[place] = np.where(is_left, first[place], np.maximum(first[place], lowest + 1))
            last[place] = np.where(is_left == is_odd, np.minimum(last[place], highest), last[place])
            at, child = at[node >= 0], node[node >= 0]
        return first, last

    def _outer_cuts(self, node: Ints) -> tuple[Cells, Cells, Bools]:
        """The lowest and the highest cut of each test, and whether the number of its cuts is odd."""
        model = self._model
        begin, end = model.nodes["more"][node], model.nodes["end"][node]
        lowest, highest, several = model.cut[node], model.cut[node], end > begin
        highest[several] = model.more[end[several] - 1]
        return lowest, highest, (end - begin) % 2 == 0


def _ranges(start: Ints, count: Ints) -> tuple[Ints, Ints]:
    """The numbers from each start on, as many as counted, one range after the other; and whose they are.

    >>> [part.tolist() for part in _ranges(np.array([5, 0, 7]), np.array([2, 0, 3]))]
    [[0, 0, 2, 2, 2], [5, 6, 7, 8, 9]]
    """
    owner = np.repeat(np.arange(len(start)), count)
    return owner, np.arange(len(owner)) + np.repeat(start - np.cumsum(count) + count, count)
