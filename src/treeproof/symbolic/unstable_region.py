"""The part of the feature space where a model may be unstable: many boxes, asked fast."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

CHUNK = 50_000
"""Rows per task; a thread is not worth starting for fewer."""


class UnstableRegion:
    """A union of boxes of cells, with an index over them.

    >>> region = UnstableRegion(np.array([[[1, 1], [2, 2]]]))  # cells 1 to 2 of both features
    >>> region.meets(np.array([[2, 1], [3, 1]]), np.array([[2, 1], [4, 4]])).tolist()
    [True, False]
    """

    def __init__(self, boxes: npt.NDArray[Any]) -> None:
        """`boxes` (n, 2, n_features): the first and the last cell of each."""
        from treeproof._kernels.symbolic.cover import build

        low, high = np.ascontiguousarray(boxes[:, 0]), np.ascontiguousarray(boxes[:, 1])
        n = len(boxes)
        order = np.empty(n, dtype=np.int32)
        nodes = np.empty((max(1, n), 4), dtype=np.int32)
        bounds = np.empty((2, max(1, n), low.shape[1]), dtype=low.dtype)
        used = build(low, high, order, nodes, bounds[0], bounds[1]) if n else 0
        self._boxes = low[order], high[order]
        self._nodes = nodes[:used].copy()
        self._bounds = bounds[0, :used].copy(), bounds[1, :used].copy()

    def __len__(self) -> int:
        return len(self._boxes[0])

    def meets(self, low: npt.NDArray[Any], high: npt.NDArray[Any], n_threads: int = 1) -> npt.NDArray[np.bool_]:
        """Per row (m, n_features): whether the cells from `low` to `high` meet the region."""
        from treeproof._kernels.symbolic.cover import meets_any

        cell_type = self._boxes[0].dtype
        low, high = np.ascontiguousarray(low, dtype=cell_type), np.ascontiguousarray(high, dtype=cell_type)
        out = np.empty(len(low), dtype=np.bool_)

        def ask(first: int) -> None:
            part = slice(first, first + CHUNK)
            meets_any(low[part], high[part], self._nodes, *self._bounds, *self._boxes, out[part])

        starts = range(0, len(low), CHUNK)
        if n_threads == 1 or len(starts) < 2:
            for first in starts:
                ask(first)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(ask, starts))
        return out
