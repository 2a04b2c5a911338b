"""From doubles to the integer cells that thresholds cut each feature into."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import entry


@entry
def cells_of_rows(X, cuts, offsets, out):
    """X (n, n_features): fills out with the number of cuts below each value, or -1 for NaN.

    The cuts of feature f are sorted and stand from `offsets[f]` to `offsets[f + 1]`.
    """
    for r in range(X.shape[0]):
        for f in range(X.shape[1]):
            x = X[r, f]
            low, high = offsets[f], offsets[f + 1]
            while low < high:
                middle = (low + high) >> 1
                if cuts[middle] < x:
                    low = middle + 1
                else:
                    high = middle
            out[r, f] = np.int32(low - offsets[f]) if x == x else np.int32(-1)
