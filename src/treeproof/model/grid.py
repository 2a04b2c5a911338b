"""From thresholds to integer cells, and back to the doubles inside a cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import LARGEST, FloatArray, Interval, next_up

NAN_CELL = -1


@dataclass(frozen=True, eq=False)
class Grid:
    """The sorted distinct thresholds e of each feature; the cell of x is the number of e < x.

    Cell c of feature f holds the doubles of `interval(f, c)`, and a split at `e = cuts[c]` goes left
    exactly for cells <= c.

    >>> grid = Grid.from_thresholds(np.array([0, 0, 1]), np.array([2.0, 5.0, 0.5]), n_features=2)
    >>> grid.cells(np.array([[2.0, 0.5], [2.1, 0.6], [9.0, np.nan]])).tolist()
    [[0, 0], [1, 1], [2, -1]]
    >>> grid.interval(0, 1)
    Interval(lo=2.0, hi=5.0)
    """

    cuts: FloatArray
    offsets: npt.NDArray[np.int64]

    @classmethod
    def from_thresholds(cls, feature: npt.NDArray[np.integer], threshold: FloatArray, n_features: int) -> Grid:
        """The grid of the splits `x[feature] <= threshold`."""
        order = np.lexsort((threshold, feature))
        f, e = feature[order], threshold[order]
        new = np.ones(len(e), dtype=bool)
        new[1:] = (f[1:] != f[:-1]) | (e[1:] != e[:-1])
        f, e = f[new], e[new]
        offsets = np.searchsorted(f, np.arange(n_features + 1)).astype(np.int64)
        return cls(frozen(e), frozen(offsets))

    def with_cuts(self, cuts: Iterable[tuple[int, float]]) -> Grid:
        """The same with more thresholds: (feature, threshold)."""
        added: dict[int, list[float]] = {}
        for f, cut in cuts:
            added.setdefault(f, []).append(cut)
        of = [self.cuts_of(f) for f in range(self.n_features)]
        for f, some in added.items():
            of[f] = np.union1d(of[f], some)
        offsets = np.concatenate(([0], np.cumsum([len(some) for some in of]))).astype(np.int64)
        return Grid(frozen(np.concatenate(of)), frozen(offsets))

    @property
    def n_features(self) -> int:
        """The number of features, split or not."""
        return len(self.offsets) - 1

    @property
    def n_cells(self) -> npt.NDArray[np.int64]:
        """The number of cells of each feature."""
        return np.diff(self.offsets) + 1

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """Where each feature's cells begin if those of all features are laid out in one row; and how many there are."""
        return np.concatenate(([0], np.cumsum(self.n_cells))).astype(np.int64)

    @cached_property
    def cell_ends(self) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest double of every cell of every feature, in one row."""
        cuts = [self.cuts_of(f) for f in range(self.n_features)]
        lowest = [np.concatenate(([-LARGEST], next_up(one))) for one in cuts]
        highest = [np.concatenate((one, [LARGEST])) for one in cuts]
        return np.concatenate(lowest), np.concatenate(highest)

    def cuts_of(self, feature: int) -> FloatArray:
        """The sorted distinct thresholds of one feature."""
        return self.cuts[self.offsets[feature] : self.offsets[feature + 1]]

    def cells_of(self, feature: int, x: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The cell of each value of one feature; NaN has cell -1."""
        x = np.asarray(x, dtype=np.float64)
        cells = np.searchsorted(self.cuts_of(feature), x, side="left").astype(np.int32)
        return np.where(np.isnan(x), np.int32(NAN_CELL), cells)

    def cells(self, X: FloatArray) -> npt.NDArray[np.int32]:
        """X (n, n_features) as integer cells."""
        from treeproof._kernels.cells import cells_of_rows

        out = np.empty(X.shape, dtype=np.int32)
        cells_of_rows(frozen(X, np.float64), *self._frozen, out)
        return out

    @cached_property
    def _frozen(self) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        return frozen(self.cuts), frozen(self.offsets)

    def cell_of_cut(self, feature: npt.NDArray[np.integer], threshold: FloatArray) -> npt.NDArray[np.int32]:
        """The index of each split's threshold among its feature's cuts: cells up to it go left."""
        out = np.empty(len(feature), dtype=np.int32)
        for f in range(self.n_features):
            mine = feature == f
            out[mine] = np.searchsorted(self.cuts_of(f), threshold[mine])
        return out

    def interval(self, feature: int, cell: int) -> Interval:
        """The doubles that make up one cell."""
        cuts = self.cuts_of(feature)
        return Interval(
            float(cuts[cell - 1]) if cell > 0 else -np.inf,
            float(cuts[cell]) if cell < len(cuts) else np.inf,
        )


def frozen(array: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """The same memory, if possible, as kernels are compiled for it: in one piece, and not to be written here."""
    own: npt.NDArray[Any] = np.ascontiguousarray(array, dtype=dtype)
    if own.flags.writeable:
        own = own.view()
        own.flags.writeable = False
    return own
