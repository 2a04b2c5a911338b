"""Data frames with category columns, and the rows where an importer of categories would go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from tests.support.points import beside

NEW = "a value that training never saw"
NEW_NUMBER = 999.0


def credit(n: int = 240, *, missing: float = 0.1, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers and text in mixed order, learnable labels 0, 1 and 2, and some cells missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "amount": rng.exponential(size=n) * 1e3,
            "purpose": rng.choice(["car", "radio", "tv", "études", "house", "boat", "other"], n).astype(object),
            "months": rng.integers(1, 60, n).astype(float),
            "job": rng.choice(["none", "skilled", "boss"], n).astype(object),
            "rate": rng.normal(size=n).round(1),
        }
    )
    signal = (
        frame["amount"] / 1e3
        + frame["purpose"].isin(["radio", "études", "boat"])
        - frame["job"].eq("boss")
        + frame["rate"] * 0.5
        + (frame["months"] % 7 > 3)
        + rng.normal(size=n) * 0.2
    )
    labels = np.searchsorted(np.quantile(signal, [1 / 3, 2 / 3]), signal)
    if missing:
        for name in frame:
            # Not None, which is no number, and which scikit-learn tells apart from NaN.
            frame.loc[rng.random(n) < missing, name] = np.nan
    return frame, labels


def revealing(ensemble: tp.Ensemble, frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The frame's rows; each value, none and a new one in each column alone; all of that mixed.

    Numbers stand on every threshold, and one step of a double or a float32 beside it.
    """
    rng = np.random.default_rng(seed)
    choices = [_choices(ensemble, frame, f) for f in range(frame.shape[1])]
    blocks = [[frame.iloc[:, f].tolist() for f in range(frame.shape[1])]]
    for f, values in enumerate(choices):
        picked = rng.integers(len(frame), size=len(values))
        blocks.append([values if g == f else frame.iloc[picked, g].tolist() for g in range(frame.shape[1])])
    mixed = 400
    blocks.append([[values[i] for i in rng.integers(len(values), size=mixed)] for values in choices])
    columns = [[value for block in blocks for value in block[f]] for f in range(frame.shape[1])]
    series = [_like(frame.iloc[:, f], column) for f, column in enumerate(columns)]
    return pd.DataFrame(dict(enumerate(series))).set_axis(frame.columns, axis=1)


def _choices(ensemble: tp.Ensemble, frame: pd.DataFrame, f: int) -> list[Any]:
    column = frame.iloc[:, f]
    if is_number(column):
        return [*beside(ensemble, f).tolist(), *column.dropna().astype(float).tolist()[:5], -1.0, 2.5, 1e6, np.nan]
    return [*column.dropna().unique().tolist(), new_value(column), np.nan]


def _like(column: pd.Series, values: list[Any]) -> Any:
    if is_number(column):
        return pd.Series(values, dtype=np.float64)
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column.cat.categories.tolist()
        return pd.Series(pd.Categorical(values, categories=[*known[::-1], new_value(column)]))
    return pd.Series(values, dtype=object)


def new_value(column: pd.Series) -> Any:
    """A value that a category column does not have, and of the kind that it has."""
    known = column.dropna().tolist()
    return NEW_NUMBER if known and isinstance(known[0], (int, float)) else NEW


def is_number(column: pd.Series) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub"
