"""Whether something that holds in every row could do so by accident."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

LIKELY = 0.95
"""What would hold in more of the rows if columns had nothing to do with each other says too little to be proposed."""
ACCIDENT = 7.0
"""In each half of the rows, the logarithm of the chance of an accident must be below the negative of this, with all the
candidates that were looked at taken into account: one in a thousand."""
FEWEST = 10
"""Rows that must speak for something in each half."""


def is_no_accident(
    rows: npt.NDArray[np.bool_],
    first_half: npt.NDArray[np.bool_],
    likely: float,
    candidates: int,
    most_likely: float = LIKELY,
) -> bool:
    """Whether these rows speak, in both halves, for what would hold in each of them with the chance `likely`."""
    if likely > most_likely:
        return False
    each = -math.log(max(likely, 1e-9))
    in_first = int(np.count_nonzero(rows & first_half))
    fewest = min(in_first, int(np.count_nonzero(rows)) - in_first)
    return fewest >= FEWEST and fewest * each >= ACCIDENT + math.log(max(candidates, 1))
