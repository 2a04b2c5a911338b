"""The data sets of the paper, read from a folder and prepared as the paper did.

The folder is named by the environment variable TREEPROOF_DATA, or given. It holds `diabetes.csv`,
`breast-cancer.libsvm` and `cod-rna.libsvm.xz`.
"""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import as_path
from treeproof.intervals import FloatArray

FILES = {"diabetes": "diabetes.csv", "breast-cancer": "breast-cancer.libsvm", "cod-rna": "cod-rna.libsvm.xz"}
SEED = 7
"""The paper's seed, for the choice of rows and the split."""


class Split(NamedTuple):
    """Rows and labels to train on, and those to test on."""

    X_train: FloatArray
    X_test: FloatArray
    y_train: npt.NDArray[np.int64]
    y_test: npt.NDArray[np.int64]


def read(dataset: str, folder: str | os.PathLike[str] | None = None) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """The rows and their labels, -1 and 1, as the files have them; of cod-rna the paper's 10,000 rows."""
    from sklearn.datasets import load_svmlight_file
    from sklearn.model_selection import train_test_split

    file = _file(dataset, folder)
    if dataset == "diabetes":
        table = np.loadtxt(file, delimiter=",", skiprows=1)
        return table[:, :-1], np.where(table[:, -1] == 0, -1, 1)
    if dataset == "breast-cancer":
        # The first column is the number of the sample; the paper kept it.
        X, y = load_svmlight_file(str(file), n_features=10)
        return X.toarray(), np.where(y == 2, 1, -1)
    with lzma.open(file) as stream:
        X, y = load_svmlight_file(stream, n_features=8)
    X, _, y, _ = train_test_split(X.toarray(), y.astype(int), train_size=10000, random_state=SEED)
    return X, y


def split(dataset: str, folder: str | os.PathLike[str] | None = None) -> Split:
    """The paper's preprocessing: no duplicate rows, every feature in [0, 1], 80 % for training."""
    from sklearn.model_selection import train_test_split

    X, y = read(dataset, folder)
    _, first = np.unique(X, axis=0, return_index=True)
    parts: list[Any] = train_test_split(unit(X[first]), y[first], train_size=0.8, random_state=SEED)
    return Split(*parts)


def unit(X: FloatArray) -> FloatArray:
    """Every feature scaled to [0, 1]; one that never changes becomes 0.

    >>> unit(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    reach = X.max(axis=0) - X.min(axis=0)
    return np.asarray((X - X.min(axis=0)) / np.where(reach > 0, reach, 1.0))


def _file(dataset: str, folder: str | os.PathLike[str] | None) -> Path:
    if dataset not in FILES:
        raise InvalidInput(f"no data set is called {dataset!r}; there are {', '.join(FILES)}")
    where = folder or os.environ.get("TREEPROOF_DATA")
    if not where:
        raise InvalidInput("set TREEPROOF_DATA to the folder of data sets, or give the folder")
    file = as_path(where) / FILES[dataset]
    if not file.is_file():
        raise InvalidInput(f"{where} has no file {FILES[dataset]}")
    return file
