"""Labels of many rows where some may be refused: asked together, and one by one where that fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import treeproof as tp
from tests.support.fuzz.tally import Difference

REFUSED = "(refused)"


def each(predict: Callable[[Any], Any], rows: Any, *, ours: bool, split: bool = True) -> list[Any]:
    """The label of each row, or REFUSED; whatever treeproof raises besides its own refusal is a Difference.

    Unless `split`, all rows are refused if one is.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = np.asarray(predict(rows)).reshape(-1).tolist()
        except (tp.InvalidInput, tp.UnsupportedModel):
            found = None
        except Exception as error:
            if ours:
                raise Difference(f"raises {type(error).__name__}: {error}, not a refusal") from error
            found = None
        if found is not None:
            if len(found) != len(rows):
                raise Difference(f"{len(found)} labels for {len(rows)} rows")
            return found
        if len(rows) == 1 or not split:
            return [REFUSED] * len(rows)
    half = len(rows) // 2
    first, second = (rows.iloc[:half], rows.iloc[half:]) if hasattr(rows, "iloc") else (rows[:half], rows[half:])
    return each(predict, first, ours=ours) + each(predict, second, ours=ours)
