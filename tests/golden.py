"""The published numbers and the data they were measured on, from the folders TREEPROOF_GOLDEN and TREEPROOF_DATA."""

from __future__ import annotations

import functools
import json
import lzma
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

needs_golden = pytest.mark.skipif(
    not (os.environ.get("TREEPROOF_GOLDEN") and os.environ.get("TREEPROOF_DATA")),
    reason="set TREEPROOF_GOLDEN and TREEPROOF_DATA to compare with published numbers",
)


class Split(NamedTuple):
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray


def published(name: str) -> Any:
    """A JSON file of the golden folder."""
    return json.loads(Path(os.environ["TREEPROOF_GOLDEN"], name).read_text())


@functools.cache
def split(dataset: str) -> Split:
    """The paper's preprocessing: no duplicate rows, every feature in [0, 1], 80 % for training."""
    X, y = _read(dataset)
    _, first = np.unique(X, axis=0, return_index=True)
    X, y = X[first], y[first]
    reach = X.max(axis=0) - X.min(axis=0)
    X = np.where(reach > 0, (X - X.min(axis=0)) / np.where(reach > 0, reach, 1), 0.0)
    return Split(*train_test_split(X, y, train_size=0.8, random_state=7))


def _read(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    folder = Path(os.environ["TREEPROOF_DATA"])
    if dataset == "diabetes":
        table = np.loadtxt(folder / "diabetes.csv", delimiter=",", skiprows=1)
        return table[:, :-1], np.where(table[:, -1] == 0, -1, 1)
    if dataset == "breast-cancer":
        X, y = load_svmlight_file(str(folder / "breast-cancer.libsvm"), n_features=10)
        return X.toarray(), np.where(y == 2, 1, -1)
    with lzma.open(folder / "cod-rna.libsvm.xz") as file:
        X, y = load_svmlight_file(file, n_features=8)
    X, _, y, _ = train_test_split(X.toarray(), y.astype(int), train_size=10000, random_state=7)
    return X, y
