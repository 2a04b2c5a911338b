"""The cells that a search works on, if those of the model's own tests are not enough.

Values share a cell if no test tells them apart: no test of the model, and none of a condition that rows must meet.
Where a value can become missing, or a missing one be filled in, "missing" is a cell, too, the last of its feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations import ColumnLiteral
from treeproof.verification.proofs import BY_ONE, BY_SEVERAL, NOT, Chain, frame_of

NO_CUT = 2**31 - 1
"""Beyond all cells."""

Clause: TypeAlias = tuple[ColumnLiteral, ...]
"""Conditions on single values, of which a row meets at least one."""


MOST_CLAUSES = 2**14
"""Each that is broken is a PENALTY of 2**48, and together they must stay far within a word."""

_LAST: WeakKeyDictionary[Ensemble, tuple[Any, tuple[Any, Any]]] = WeakKeyDictionary()
"""Per model what was compiled last, and for which clauses: rows come a few at a time, with the same relations."""


@dataclass(frozen=True, eq=False)
class Space:
    """A model on the cells of a question."""

    ensemble: Ensemble
    clauses: tuple[Clause, ...] = ()
    """What valid rows meet."""
    blanks: tuple[int, ...] = ()
    """Features of which "missing" is a cell."""
    coarse: Space | None = None
    """The same with fewer clauses and cuts, from which this one is made in less time."""
    cuts: tuple[tuple[int, FloatArray], ...] = ()
    """Further cuts of features, in rising order."""
    watched: bool = False
    """Whether a search must tell on which side of the further cuts it is, even if nothing else depends on that."""
    forbids: bool = False
    """Whether clauses may be added to it later."""
    reasons: tuple[bytes, ...] = ()
    """For the last clauses why they follow from several relations, as proofs say it; the others are parts of one."""

    def refined(
        self,
        clauses: tuple[Clause, ...],
        cuts: tuple[tuple[int, FloatArray], ...] = (),
        watched: bool = False,
        reasons: tuple[bytes, ...] = (),
    ) -> Space:
        """The same with more clauses and cuts."""
        return Space(self.ensemble, clauses, self.blanks, self, cuts, watched, reasons=reasons)

    @cached_property
    def grid(self) -> Grid:
        """The cuts of all tests."""
        own = self.ensemble.grid if self.coarse is None else self.coarse.grid
        cuts = [(one.feature, cut) for clause in self.clauses for one in clause for cut in one.where.cuts]
        cuts += [(f, cut) for f, some in self.cuts for cut in some.tolist()]
        return own.with_cuts(cuts) if cuts else own

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
        forbids = self.forbids or bool(self.clauses)
        if self.coarse is None and not forbids and not self.blanks:
            return self.ensemble.compiled
        if self.coarse is not None:
            model, exact = self.coarse.compiled
            model = _on_finer_grid(model, self.coarse.grid, self.grid)
            return _with_trees(model, self._trees(model.forbidden)), exact
        asked, (before, kept) = (self.clauses, self.blanks, forbids), _LAST.get(self.ensemble, (None, None))
        if kept is None or asked != before:
            model, exact = self.ensemble.compiled_to_forbid if forbids else self.ensemble.compiled
            model = _on_finer_grid(model, self.ensemble.grid, self.grid)
            nodes, more = _with_missing_cells(model.nodes, model.more, self._blank)
            model = model._replace(nodes=nodes, more=more)
            kept = _with_trees(model, self._trees(model.forbidden)), exact
            _LAST[self.ensemble] = asked, kept
        return kept

    @cached_property
    def frame(self) -> bytes | None:
        """What proofs say of the cells and of the trees beside those of the model; None if there are none."""
        own, grid = self.ensemble.grid, self.grid
        if not (self.forbids or self.clauses or self.coarse is not None):
            return None
        more = [(f, cut) for f in range(grid.n_features) for cut in np.setdiff1d(grid.cuts_of(f), own.cuts_of(f))]
        return frame_of([(f, float(cut)) for f, cut in more], self._chains(grid))

    def _chains(self, grid: Grid) -> list[Chain]:
        """The trees beside those of the model, in their order, on a grid."""

        def cells(f: int, cuts: Any) -> list[int]:
            return [int(cell) for cell in grid.cell_of_cut(np.full(len(cuts), f), np.asarray(cuts, dtype=np.float64))]

        found: list[Chain] = [] if self.coarse is None else self.coarse._chains(grid)
        n_plain = len(self.clauses) - len(self.reasons)
        for k, clause in enumerate(self.clauses):
            tests = [
                (one.feature, cells(one.feature, one.where.cuts), bool(one.where.lefts[0]), one.missing)
                for one in clause
            ]
            found.append((BY_ONE, b"", tests) if k < n_plain else (BY_SEVERAL, self.reasons[k - n_plain], tests))
        for f, cuts in self.cuts if self.watched else ():
            found += [(NOT, b"", [(f, [cell], True, True) for cell in cells(f, cuts)])] if len(cuts) else []
        return found

    def _trees(self, forbidden: int) -> list[_Tree]:
        """A tree for each clause, and where cuts are watched one for each of these features."""
        trees = [_tree_of(clause, self.grid, forbidden) for clause in self.clauses]
        if self.watched:
            trees += [
                _tree_of_cuts(f, self.grid.cell_of_cut(np.full(len(cuts), f), cuts), forbidden)
                for f, cuts in self.cuts
                if len(cuts)
            ]
        return [_with_missing_cells(nodes, more, self._blank) for nodes, more in trees]


_Tree: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.int32]]
"""Nodes, and their further cuts."""


def _on_finer_grid(model: Any, before: Grid, after: Grid) -> Any:
    """The model with the same tests among more cuts."""
    if after is before:
        return model
    # Per feature and cut its number; one more for the end of all cells, before that of missing values.
    numbers = [
        np.append(np.searchsorted(after.cuts_of(f), before.cuts_of(f)), len(after.cuts_of(f)))
        for f in range(before.n_features)
    ]
    number, start = np.concatenate(numbers).astype(np.int32), before.start
    nodes = model.nodes.copy()
    tests = np.flatnonzero((nodes["feature"] >= 0) & (nodes["cut"] < NO_CUT))
    nodes["cut"][tests] = number[start[nodes["feature"][tests]] + nodes["cut"][tests]]
    feature = np.repeat(nodes["feature"], nodes["end"] - nodes["more"])
    return model._replace(nodes=nodes, more=number[start[feature] + model.more])


def _tree_of(clause: Clause, grid: Grid, forbidden: int) -> _Tree:
    """A chain of tests: a row that meets none of the conditions is forbidden."""
    from treeproof._kernels.model import LEAF, NODE

    n = len(clause)
    nodes = np.zeros(2 * n + 1, dtype=NODE)
    more: list[int] = []
    for i, literal in enumerate(clause):
        here, node, leaf = 2 * i, nodes[2 * i], nodes[2 * i + 1]
        cuts = np.array(literal.where.cuts)
        cells = grid.cell_of_cut(np.full(len(cuts), literal.feature), cuts).tolist()
        # A condition that holds everywhere, or nowhere, has no cuts.
        left = bool(literal.where.lefts[0])
        node["feature"], node["cut"], node["nan_left"] = (
            literal.feature,
            (cells or [NO_CUT])[0],
            literal.missing == left,
        )
        node["left"], node["right"] = (here + 1, here + 2) if left else (here + 2, here + 1)
        node["more"], node["end"] = len(more), len(more) + max(len(cells) - 1, 0)
        more += cells[1:]
        leaf["feature"], leaf["leaf"] = LEAF, forbidden - 1
        leaf["more"] = leaf["end"] = len(more)
    nodes[-1]["feature"], nodes[-1]["leaf"] = LEAF, forbidden
    nodes[-1]["more"] = nodes[-1]["end"] = len(more)
    return nodes, np.array(more, dtype=np.int32)


def _tree_of_cuts(feature: int, cuts: npt.NDArray[np.int32], forbidden: int) -> _Tree:
    """A chain of tests that tells where between these cuts a row is; it forbids nothing."""
    from treeproof._kernels.model import LEAF, NODE

    nodes = np.zeros(2 * len(cuts) + 1, dtype=NODE)
    tests, leaves = nodes[0:-1:2], np.append(nodes[1::2], nodes[-1:])
    tests["feature"], tests["cut"], tests["nan_left"] = feature, cuts, True
    tests["left"], tests["right"] = np.arange(1, len(nodes), 2), np.arange(2, len(nodes), 2)
    leaves["feature"], leaves["leaf"] = LEAF, forbidden + 1 + np.arange(len(leaves))
    nodes[1::2], nodes[-1] = leaves[:-1], leaves[-1]
    return nodes, np.empty(0, dtype=np.int32)


def _with_trees(model: Any, trees: list[_Tree]) -> Any:
    """The model with more trees, which give no scores."""
    if len(model.roots) + len(trees) - model.n_scored > MOST_CLAUSES:
        raise InvalidInput(
            f"the relations come to more than {MOST_CLAUSES:,} conditions on single columns",
            argument="relations",
            way_out="leave some out",
        )
    nodes, more, roots = [model.nodes], [model.more], [model.roots]
    n_nodes, n_more, depth = len(model.nodes), len(model.more), model.depth
    for tree, cuts in trees:
        inner = tree["feature"] >= 0
        tree["left"][inner] += n_nodes
        tree["right"][inner] += n_nodes
        tree["more"] += n_more
        tree["end"] += n_more
        nodes.append(tree)
        more.append(cuts)
        roots.append(np.array([n_nodes], dtype=model.roots.dtype))
        n_nodes, n_more, depth = n_nodes + len(tree), n_more + len(cuts), max(depth, len(tree) // 2)
    last = max((int(tree["leaf"].max()) for tree, _ in trees), default=-1)
    missing = max(last + 1 - len(model.value), 0)
    value = np.zeros((missing, model.value.shape[1]), dtype=model.value.dtype)
    arrays = {
        "nodes": np.concatenate(nodes),
        "more": np.concatenate(more),
        "roots": np.concatenate(roots),
        "value": np.concatenate((model.value, value)),
        "kind": np.append(model.kind, model.kind[-1] + 1 + np.arange(missing)).astype(model.kind.dtype),
    }
    for name, array in arrays.items():
        # Kernels are compiled once for arrays that can be written, and once for others.
        array.flags.writeable = getattr(model, name).flags.writeable
    return model._replace(depth=depth, **arrays)


def _with_missing_cells(
    nodes: npt.NDArray[Any], more: npt.NDArray[np.int32], blank: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Tests that send the cell of a missing value where they send missing values, by one more cut if it takes one."""
    if (blank < 0).all():
        return nodes, more
    nodes = nodes.copy()
    last = np.where(nodes["feature"] >= 0, blank[np.maximum(nodes["feature"], 0)], -1)
    n_more = nodes["end"] - nodes["more"]
    # A cut beyond all cells is none: it is drawn in where missing values go the other way.
    beyond = (last >= 0) & (nodes["cut"] == NO_CUT)
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
