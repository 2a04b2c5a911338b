"""One row, however users have it, as a table of one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.columns import is_missing
from treeproof.model.ensemble import Ensemble


def one_row(x: Any, ensemble: Ensemble) -> Any:
    """A list, an array, a dict by the names of columns, a row of a data frame, or a data frame of one row."""
    if isinstance(x, Mapping):
        return _as_frame(list(x.values()), list(x), ensemble)
    if not hasattr(x, "iloc"):
        return _as_array(x, ensemble.n_features, bool(ensemble.categories))
    if np.ndim(x) == 1:
        # It keeps the names of the columns, which are compared with those of the model.
        return _as_frame(x.tolist(), list(x.index), ensemble)
    if len(x) != 1:
        raise InvalidInput(f"this takes one row, got {len(x)}")
    return x


def _as_frame(values: list[Any], names: list[Any], ensemble: Ensemble) -> Any:
    import pandas as pd

    # A missing value of a category is no number.
    known = {column.name for column in ensemble.columns if column.category and column.category.coded}
    is_text = [isinstance(v, str) or (str(f) in known and is_missing(v)) for f, v in zip(names, values, strict=True)]
    columns = [
        pd.Series([value], dtype=object) if own else pd.Series([math.nan if value is None else value])
        for value, own in zip(values, is_text, strict=True)
    ]
    frame = pd.DataFrame(dict(enumerate(columns)))
    frame.columns = pd.Index(names)
    return frame


def _as_array(x: Any, n_features: int, holds_values: bool) -> Any:
    try:
        # Of text and numbers, NumPy would make text.
        row = np.asarray(x, dtype=object if holds_values and not hasattr(x, "dtype") else None)
    except ValueError as error:
        raise InvalidInput(f"a row must be a list of {n_features} values: {error}") from None
    if row.shape != (n_features,):
        raise InvalidInput(
            f"a row must be a list of {n_features} values, one per feature of the model, got shape {row.shape}; "
            "for several rows, ask for several"
        )
    return row[None]
