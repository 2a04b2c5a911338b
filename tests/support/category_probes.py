"""Rows that show whether a model with category columns is imported exactly, and the comparison with its library."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeproof.model.agreement import probe_rows
from treeproof.model.columns import CodedRows
from treeproof.model.ensemble import Ensemble


def category_rows(ensemble: Ensemble, data: np.ndarray, n_random: int = 400) -> np.ndarray:
    """Codes: the data; every category, the unseen one and missing of every column alone; thresholds; mixtures."""
    missing = np.flatnonzero(ensemble.may_be_missing).tolist()
    blocks = [data]
    for f, category in ensemble.categories:
        values = np.arange(category.n_codes) if category.coded else beside_codes(category.known())
        for row in data[:3]:
            block = np.repeat(row[None], len(values), axis=0)
            block[:, f] = values
            blocks.append(block)
    for f in missing:
        block = data[:20].copy()
        block[:, f] = np.nan
        blocks.append(block)
    blocks.append(probe_rows(ensemble, n_random))
    return np.vstack(blocks).view(CodedRows)


def beside_codes(codes: np.ndarray) -> np.ndarray:
    """Codes that a library compares itself: these, one step beside them, between them, and codes beyond."""
    values = [codes, codes + 0.5, -codes - 1, codes + 40.0]
    for end in (-np.inf, np.inf):
        values += [np.nextafter(codes, end), np.nextafter(codes.astype(np.float32), np.float32(end)).astype(float)]
    return np.concatenate(values)


def assert_equal_to_library(ensemble: Ensemble, rows: np.ndarray, score: Any) -> None:
    """Labels and scores of the rows, as the user gives them, are those of the library; `score` computes its scores."""
    rows = rows.view(CodedRows)
    given = ensemble.as_given(rows)
    np.testing.assert_array_equal(ensemble.predict(rows), ensemble.source_labels(rows))
    np.testing.assert_array_equal(ensemble.predict(given), ensemble.source_labels(rows))
    np.testing.assert_array_equal(ensemble.scores(rows), score(given).reshape(len(rows), -1))
