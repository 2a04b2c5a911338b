"""Results that say something else than verify did."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.results.row_table import Refuted, RowTable

OF_ROWS = {field.name for field in dataclasses.fields(RowTable)}


def changed(result: tp.Verification, **changes: Any) -> tp.Verification:
    """The result with other arrays: those of its table of rows, `has_witness`, or its own."""
    if "has_witness" in changes:
        kept = np.where(result.rows.refuted == Refuted.NOTHING, Refuted.RESILIENCE, result.rows.refuted)
        changes["refuted"] = np.where(changes.pop("has_witness"), kept, Refuted.NOTHING).astype(np.int8)
    rows = dataclasses.replace(result.rows, **{name: changes.pop(name) for name in OF_ROWS & changes.keys()})
    return dataclasses.replace(result, rows=rows, **changes)


def tiled(result: tp.Verification, times: int) -> tp.Verification:
    """The same rows over and over, as one large result."""

    def long(of: Any) -> dict[str, Any]:
        arrays = {field.name: getattr(of, field.name) for field in dataclasses.fields(of)}
        arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
        return {name: np.concatenate([array] * times, axis=int(name == "resilience")) for name, array in arrays.items()}

    return changed(result, **long(result.rows), **long(result))
