"""Splits that are not a single threshold (category sets, "zero is missing"), rewritten as threshold splits."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.model.builder import EnsembleBuilder
from treeproof.numbers.doubles import FloatArray

MAX_NODES = 100_000
"""A rewritten tree has at most this many nodes: each extra piece of the number line copies a subtree."""


class TreeArrays(NamedTuple):
    """One tree, one entry per node: left iff `x[feature] <= threshold`; a leaf has feature -1."""

    feature: npt.NDArray[np.int64]
    threshold: FloatArray
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    nan_left: npt.NDArray[np.bool_]
    scores: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Pieces:
    """A split of the number line: the doubles of (cuts[i-1], cuts[i]] go left iff `lefts[i]`.

    >>> Pieces.of([(1.0, True), (2.0, True), (3.0, False)], last=True)
    Pieces(cuts=(2.0, 3.0), lefts=(True, False, True))
    """

    cuts: tuple[float, ...]
    lefts: tuple[bool, ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[float, bool]], *, last: bool) -> Pieces:
        """From parts (upper end, goes left) in rising order; `last` for the rest. Merges empty and equal neighbours."""
        cuts: list[float] = []
        lefts: list[bool] = []
        for cut, left in parts:
            if cuts and cut <= cuts[-1]:
                continue
            if lefts and lefts[-1] == left:
                cuts[-1] = cut
            else:
                cuts.append(cut)
                lefts.append(left)
        if lefts and lefts[-1] == last:
            cuts.pop()
        else:
            lefts.append(last)
        return cls(tuple(cuts), tuple(lefts))

    @property
    def threshold(self) -> float | None:
        """The e of an equivalent split `x <= e`, if there is one."""
        return self.cuts[0] if self.lefts == (True, False) else None

    def within(self, lo: float, hi: float) -> Pieces:
        """The same split of the numbers in (lo, hi] only."""
        first, end = bisect.bisect_right(self.cuts, lo), bisect.bisect_left(self.cuts, hi)
        return Pieces(self.cuts[first:end], self.lefts[first : end + 1])


class _Reach(NamedTuple):
    """What can arrive at a node in one feature: numbers in (lo, hi], and NaN or not."""

    lo: float = -math.inf
    hi: float = math.inf
    nan: bool = True


_ANYTHING = _Reach()


def rewritten(tree: TreeArrays, special: Mapping[int, Pieces], *, number: int, what: str) -> TreeArrays:
    """The tree whose `special` nodes split by pieces, as a tree of thresholds that sends every row to an equal leaf.

    Subtrees are copied, one for each piece; branches that no row can reach are left out. The direction of NaN
    at a special node must be the direction of one of its pieces. `number` and `what` name the tree and the kind of
    split in refusals.
    """
    if not special:
        return tree
    _check_before_copying(tree, number)
    return _Rewriter(tree, special, f"tree {number} has {what}").run()


def _check_before_copying(tree: TreeArrays, number: int) -> None:
    """Refuses what is not one tree: a cycle must not be walked, and copying would hide an orphan."""
    n = len(tree.feature)
    scratch = EnsembleBuilder(n_features=max(1, int(tree.feature.max(initial=0)) + 1), classes=[0])
    try:
        scratch.add_tree(
            feature=tree.feature, threshold=tree.threshold, left=tree.left, right=tree.right, scores=np.zeros((n, 1))
        )
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("tree 0", f"tree {number}", 1)) from None


def _reached(pieces: Pieces, here: _Reach, nan_side: bool) -> Pieces:
    """The pieces that matter for what arrives; where only NaN goes another way, a split of NaN from all numbers."""
    if not here.lo < here.hi:
        return Pieces((), (nan_side,))
    met = pieces.within(here.lo, here.hi)
    if not here.nan or nan_side in met.lefts:
        return met
    # The whole line has a piece on NaN's side and (lo, hi] has none, so one of its ends is finite.
    if here.hi < math.inf:
        return Pieces((here.hi,), (not nan_side, nan_side))
    return Pieces((here.lo,), (nan_side, not nan_side))


@dataclass
class _Rewriter:
    tree: TreeArrays
    special: Mapping[int, Pieces]
    what: str
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)
    nan_left: list[bool] = field(default_factory=list)
    source: list[int] = field(default_factory=list)

    def run(self) -> TreeArrays:
        # Each job: an old node, what reaches it, and where its copy is to be hooked in.
        jobs: list[tuple[int, dict[int, _Reach], tuple[int, int]]] = [(0, {}, (-1, 0))]
        while jobs:
            node, reach, hook = jobs.pop()
            f = int(self.tree.feature[node])
            if f < 0:
                self._hook(hook, self._new_node(node, -1, 0.0, nan_left=False))
                continue
            here = reach.get(f, _ANYTHING)
            pieces = self.special.get(node) or Pieces((float(self.tree.threshold[node]),), (True, False))
            jobs += self._split(node, f, here, pieces, reach, hook)
        feature = np.array(self.feature, dtype=np.int64)
        return TreeArrays(
            feature,
            np.array(self.threshold, dtype=np.float64),
            np.array([pair[0] for pair in self.children], dtype=np.int64),
            np.array([pair[1] for pair in self.children], dtype=np.int64),
            np.array(self.nan_left, dtype=bool),
            self.tree.scores[self.source],
        )

    def _split(
        self, node: int, f: int, here: _Reach, pieces: Pieces, reach: dict[int, _Reach], hook: tuple[int, int]
    ) -> list[tuple[int, dict[int, _Reach], tuple[int, int]]]:
        """Adds the threshold nodes that stand for one old node; returns the jobs for its children."""
        nan_side = bool(self.tree.nan_left[node])
        pieces = _reached(pieces, here, nan_side)
        target = pieces.lefts.index(nan_side) if here.nan else -1
        jobs = []
        # A balanced search over the pieces; NaN is led to piece `target`.
        todo = [(0, len(pieces.lefts), here, hook)]
        while todo:
            start, stop, part, place = todo.pop()
            if stop - start == 1:
                child = self.tree.left[node] if pieces.lefts[start] else self.tree.right[node]
                jobs.append((int(child), {**reach, f: part}, place))
                continue
            middle = (start + stop) // 2
            nan_goes_left = start <= target < middle
            e = pieces.cuts[middle - 1]
            new = self._new_node(node, f, e, nan_left=nan_goes_left)
            self._hook(place, new)
            low = _Reach(part.lo, min(part.hi, e), part.nan and nan_goes_left)
            high = _Reach(max(part.lo, e), part.hi, part.nan and not nan_goes_left)
            todo += [(start, middle, low, (new, 0)), (middle, stop, high, (new, 1))]
        return jobs

    def _new_node(self, source: int, feature: int, threshold: float, *, nan_left: bool) -> int:
        if len(self.feature) >= MAX_NODES:
            raise UnsupportedModel(
                f"{self.what}: rewriting them as threshold splits takes more than {MAX_NODES} nodes in one tree; "
                "train shallower trees"
            )
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.children.append([-1, -1])
        self.nan_left.append(nan_left)
        self.source.append(source)
        return len(self.feature) - 1

    def _hook(self, hook: tuple[int, int], node: int) -> None:
        parent, side = hook
        if parent >= 0:
            self.children[parent][side] = node
