"""The part of the feature space where a model may be unstable: many boxes, asked fast."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof._kernels.symbolic.records import BRANCH
from treeproof.symbolic.shifted_grid import as_ranges

CHUNK = 50_000
"""Rows per task; a thread is not worth starting for fewer."""


class UnstableRegion:
    """A union of boxes of cells, with an index over them.

    >>> region = UnstableRegion(np.array([[[1, 2], [1, 2]]]))  # cells 1 to 2 of both features
    >>> region.meets(np.array([[2, 1], [3, 1]]), np.array([[2, 1], [4, 4]])).tolist()
    [True, False]
    """

    def __init__(self, boxes: npt.NDArray[Any]) -> None:
        """`boxes` (n, n_features, 2): per feature the first and the last cell."""
        from treeproof._kernels.symbolic.cover import build

        boxes, n = np.ascontiguousarray(boxes), len(boxes)
        order = np.empty(n, dtype=np.int32)
        branches = np.empty(max(1, n), dtype=BRANCH)
        bounds = np.empty((max(1, n), *boxes.shape[1:]), dtype=boxes.dtype)
        used = build(as_ranges(boxes), order, branches, as_ranges(bounds)) if n else 0
        self._boxes = as_ranges(boxes[order])
        self._branches, self._bounds = branches[:used].copy(), as_ranges(bounds[:used].copy())

    def __len__(self) -> int:
        return len(self._boxes)

    def meets(self, low: npt.NDArray[Any], high: npt.NDArray[Any], n_threads: int = 1) -> npt.NDArray[np.bool_]:
        """Per row (m, n_features): whether the cells from `low` to `high` meet the region."""
        from treeproof._kernels.symbolic.cover import meets_any

        out = np.empty(len(low), dtype=np.bool_)

        def ask(first: int) -> None:
            part = slice(first, first + CHUNK)
            rows = np.stack((low[part], high[part]), axis=-1).astype(self._boxes.dtype["low"], copy=False)
            meets_any(as_ranges(rows), self._branches, self._bounds, self._boxes, out[part])

        starts = range(0, len(low), CHUNK)
        if n_threads == 1 or len(starts) < 2:
            for first in starts:
                ask(first)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(ask, starts))
        return out
