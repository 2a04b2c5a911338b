"""The cells that a search works on, if those of the model's own tests are not enough.

Values share a cell if no test tells them apart: no test of the model, and none of a condition that rows must meet. Where
a value can become missing, or a missing one be filled in, "missing" is a cell, too, the last of its feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.model.compiled import compile_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.model.pieces import Pieces
from treeproof.numbers.doubles import FloatArray


@dataclass(frozen=True, slots=True)
class Literal:
    """What one value of a row may be: `Pieces` that hold on the left; `missing`: whether it holds of a missing one."""

    feature: int
    pieces: Pieces
    missing: bool = True


Clause: TypeAlias = tuple[Literal, ...]
"""Conditions of which a row meets at least one."""


@dataclass(frozen=True, eq=False)
class Space:
    """A model on the cells of a question."""

    ensemble: Ensemble
    clauses: tuple[Clause, ...] = ()
    """What valid rows meet."""
    blanks: tuple[int, ...] = ()
    """Features of which "missing" is a cell."""

    @cached_property
    def grid(self) -> Grid:
        """The cuts of all tests."""
        own = self.ensemble.grid
        cuts = [(one.feature, cut) for clause in self.clauses for one in clause for cut in one.pieces.cuts]
        if not cuts:
            return own
        feature = np.repeat(np.arange(own.n_features), np.diff(own.offsets))
        return Grid.from_thresholds(
            np.append(feature, np.array([f for f, _ in cuts], dtype=feature.dtype)),
            np.append(own.cuts, [cut for _, cut in cuts]),
            own.n_features,
        )

    @cached_property
    def _blank(self) -> npt.NDArray[np.int64]:
        """Per feature the cell of missing values, or -1."""
        blank = np.full(self.grid.n_features, -1)
        features = list(self.blanks)
        blank[features] = self.grid.n_cells[features]
        return blank

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """Where each feature's cells begin if those of all features are laid out in one row; and how many there are."""
        n_cells = self.grid.n_cells + (self._blank >= 0)
        return np.concatenate(([0], np.cumsum(n_cells))).astype(np.int64)

    @cached_property
    def cell_ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest double of every cell of every feature, in one row; NaN for missing values."""
        if not self.blanks:
            return self.grid.cell_ends
        at = self.grid.start[1:][self._blank >= 0]
        lowest, highest = (np.insert(ends, at, np.nan) for ends in self.grid.cell_ends)
        return lowest, highest

    def ends_of(self, feature: int) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest double of each cell of one feature, NaN for missing values."""
        cells = slice(self.start[feature], self.start[feature + 1])
        return self.cell_ends[0][cells], self.cell_ends[1][cells]

    def cells(self, X: FloatArray) -> npt.NDArray[np.int32]:
        """X (n, n_features) as cells; a missing value is -1, unless it has a cell."""
        cells = self.grid.cells(X)
        return np.where(cells < 0, self._blank, cells).astype(np.int32) if self.blanks else cells

    @cached_property
    def compiled(self) -> tuple[Any, Any]:
        """The model as kernels work on it, with a tree for each clause; and how to score exactly."""
        if not self.clauses and not self.blanks:
            return self.ensemble.compiled
        model, exact = compile_ensemble(self.ensemble, self.grid, forbids=bool(self.clauses))
        nodes, more = model.nodes, model.more
        if self.clauses:
            trees = [_tree_of(clause, self.grid, len(model.value) - 2) for clause in self.clauses]
            model = _with_trees(model, trees)
            nodes, more = model.nodes, model.more
        if self.blanks:
            nodes, more = _with_missing_cells(nodes, more, self._blank)
        return model._replace(nodes=nodes, more=more), exact


def _tree_of(clause: Clause, grid: Grid, allowed: int) -> tuple[npt.NDArray[Any], list[list[int]]]:
    """A chain of tests, and their further cuts: a row that meets a condition is `allowed`, a leaf; else forbidden."""
    from treeproof._kernels.model import LEAF, NODE

    n = len(clause)
    nodes = np.zeros(2 * n + 1, dtype=NODE)
    more: list[list[int]] = []
    for i, literal in enumerate(clause):
        node, here = nodes[2 * i], 2 * i
        cuts = np.array(literal.pieces.cuts)
        cells = grid.cell_of_cut(np.full(len(cuts), literal.feature), cuts).tolist()
        # A condition that holds everywhere, or nowhere, has no cuts: its test is beyond the last cell.
        first = cells[0] if cells else 2**31 - 1
        left = bool(literal.pieces.lefts[0])
        node["feature"], node["cut"], node["nan_left"] = literal.feature, first, literal.missing == left
        node["left"], node["right"] = (here + 1, here + 2) if left else (here + 2, here + 1)
        nodes[here + 1]["feature"], nodes[here + 1]["leaf"] = LEAF, allowed
        more += [cells[1:], []]
    nodes[2 * n]["feature"], nodes[2 * n]["leaf"] = LEAF, allowed + 1
    more.append([])
    return nodes, more


def _with_trees(model: Any, trees: list[tuple[npt.NDArray[Any], list[list[int]]]]) -> Any:
    """The model with more trees, which give no scores."""
    nodes, more, roots = [model.nodes], [model.more], [model.roots]
    n_nodes, n_more, depth = len(model.nodes), len(model.more), model.depth
    for tree, cuts in trees:
        ends = n_more + np.cumsum([len(some) for some in cuts])
        tree["end"] = ends
        tree["more"] = np.concatenate(([n_more], ends[:-1]))
        inner = tree["feature"] >= 0
        tree["left"][inner] += n_nodes
        tree["right"][inner] += n_nodes
        nodes.append(tree)
        more.append(np.array([cut for some in cuts for cut in some], dtype=model.more.dtype))
        roots.append(np.array([n_nodes], dtype=model.roots.dtype))
        n_nodes, n_more, depth = n_nodes + len(tree), int(ends[-1]), max(depth, len(tree) // 2)
    return model._replace(
        nodes=np.concatenate(nodes), more=np.concatenate(more), roots=np.concatenate(roots), depth=depth
    )


def _with_missing_cells(
    nodes: npt.NDArray[Any], more: npt.NDArray[np.int32], blank: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Tests that send the cell of a missing value where they send missing values, by one more cut where it takes one."""
    nodes = nodes.copy()
    last = np.where(nodes["feature"] >= 0, blank[np.maximum(nodes["feature"], 0)], -1)
    n_more = nodes["end"] - nodes["more"]
    # A cut beyond all cells is none: it is drawn in where missing values go the other way.
    beyond = (last >= 0) & (nodes["cut"] >= last)
    apart = beyond & ~nodes["nan_left"]
    nodes["cut"][apart] = last[apart] - 1
    # After an even number of further cuts, the last cells go right.
    added = (last >= 0) & ~beyond & ((n_more % 2 == 1) != nodes["nan_left"])
    at = nodes["end"][added]
    extended = np.insert(more, at, (last[added] - 1).astype(more.dtype))
    counts = n_more + added
    nodes["end"] = np.cumsum(counts)
    nodes["more"] = nodes["end"] - counts
    return nodes, extended
