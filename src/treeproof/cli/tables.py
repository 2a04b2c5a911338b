"""Labelled rows from files: CSV, Parquet, LIBSVM and .npz."""

from __future__ import annotations

import csv
import math
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import as_path
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray

NUMBERED = re.compile(r"(f|x|column_?|feature_?)?\d+", re.IGNORECASE)
"""Names that libraries make up for features without names."""

BLOCK = 4096
"""The number of lines that are kept as text at a time."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""What stands for a missing value in a text file, in lower case."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file: as numbers if all values of a column are numbers, else as the file has them."""

    source: str
    columns: dict[str, npt.NDArray[Any]]
    named: bool
    """Whether the file names its columns; if not, they are "0", "1", …, and the label is "label"."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def features(self, leave_out: tuple[str, ...] = ()) -> tuple[FloatArray, list[str]]:
        """All columns except those to leave out, as doubles, and their names."""
        names = self._all_but(leave_out)
        if not names:
            raise InvalidInput(f"{self.source} has no feature columns besides {_listed(list(leave_out))}")
        return np.column_stack([self._numbers(name) for name in names]), names

    def rows(self, ensemble: Ensemble, leave_out: tuple[str, ...] = ()) -> FloatArray:
        """The model's features as doubles: by name if both have names, else all columns except those to leave out."""
        free = self._all_but(leave_out)
        wanted = self._by_name(ensemble, free) if ensemble.feature_names is not None and self.named else free
        if len(wanted) != ensemble.n_features:
            raise InvalidInput(
                f"{self.source} has {len(wanted)} feature columns, but the model takes {ensemble.n_features}; "
                "name the label with --label and columns that are not features with --drop"
            )
        return np.column_stack([self._numbers(name) for name in wanted]) if wanted else np.empty((len(self), 0))

    def _all_but(self, leave_out: tuple[str, ...]) -> list[str]:
        for name in leave_out:
            self._column(name)
        return [name for name in self.columns if name not in leave_out]

    def _by_name(self, ensemble: Ensemble, free: list[str]) -> list[str]:
        spelled = {name: name for name in free}
        if ensemble.origin.startswith("LightGBM"):  # which puts an underscore for each space
            spelled |= {name.replace(" ", "_"): name for name in free}
        names = ensemble.feature_names or ()
        missing = [name for name in names if name not in spelled]
        if len(missing) == len(names) and all(NUMBERED.fullmatch(name) for name in names):
            return free
        if missing:
            raise InvalidInput(f"{self.source} has no column {missing[0]!r}, which the model was trained with")
        return [spelled[name] for name in names]

    def labels(self, column: str, ensemble: Ensemble | None = None) -> npt.NDArray[Any]:
        """The labels; with a model, as that model writes them (1 for the text "1.0")."""
        values = self._column(column)
        if ensemble is None:
            return _plain_labels(values)
        known: dict[Any, Any] = {}
        for label in ensemble.classes.tolist():
            known |= {label: label, _as_written(label): label}
        out = []
        for row, value in enumerate(values.tolist()):
            label = known.get(value, known.get(_as_written(value)))
            if label is None and (value is None or str(value).strip().lower() in MISSING):
                raise InvalidInput(f"{self.source}, row {row}, column {column!r}: the label is missing")
            if label is None:
                raise InvalidInput(
                    f"{self.source}, row {row}, column {column!r}: the model does not know the label {value!r}; "
                    f"it predicts {', '.join(map(repr, ensemble.classes.tolist()))} (--classes renames them)"
                )
            out.append(label)
        return np.array(out, dtype=ensemble.classes.dtype)

    def _column(self, name: str) -> npt.NDArray[Any]:
        if name not in self.columns:
            raise InvalidInput(f"{self.source} has no column {name!r}; it has {_listed(list(self.columns))}")
        return self.columns[name]

    def _numbers(self, name: str) -> FloatArray:
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            return np.array([self._number(value, row, name) for row, value in enumerate(values.tolist())])

    def _number(self, value: Any, row: int, column: str) -> float:
        if value is None or str(value).strip().lower() in MISSING:
            return math.nan
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"{self.source}, row {row}, column {column!r}: {value!r} is not a number; encode it as the model was "
                "trained, or leave the column out with --drop"
            ) from None


def read_table(path: Any) -> Table:
    """The table in a .csv, .tsv, .parquet, .libsvm (.svm, .svmlight, .txt) or .npz file.

    An .npz file holds the array `X`, and optionally `y` and `feature_names`.
    """
    file = as_path(path)
    readers = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".parquet": _read_parquet,
        ".npz": _read_npz,
        **dict.fromkeys((".libsvm", ".svm", ".svmlight", ".txt"), _read_libsvm),
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InvalidInput(f"{file} is not a data file that treeproof reads: {', '.join(readers)}")
    try:
        with open(file, "rb"):
            pass
        table = reader(file)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}") from None
    if len(table) == 0:
        raise InvalidInput(f"{file} has no rows")
    return table


def _read_csv(file: Path) -> Table:
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            lines = csv.reader(text, delimiter=delimiter)
            header = next(lines, [])
            blocks: list[list[npt.NDArray[Any]]] = [[] for _ in header]
            block = []
            for number, line in enumerate(lines, start=2):
                if not line:
                    continue
                if len(line) != len(header):
                    raise InvalidInput(f"{file}, line {number}: {len(line)} values in a table of {len(header)} columns")
                block.append(line)
                if len(block) == BLOCK:
                    _add_block(blocks, block)
                    block = []
            _add_block(blocks, block)
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text file in UTF-8") from None
    except csv.Error as error:
        raise InvalidInput(f"{file} is not a CSV file: {error}") from None
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise InvalidInput(f"{file} seems to be separated by semicolons or tabs; save it with commas, or tabs as .tsv")
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InvalidInput(f"{file} has two columns named {twice!r}; rename one")
    return Table(str(file), {name: _joined(parts) for name, parts in zip(header, blocks, strict=True)}, True)


def _add_block(blocks: list[list[npt.NDArray[Any]]], lines: list[list[str]]) -> None:
    """Adds lines to the columns, as numbers where possible: text takes ten times the memory."""
    for parts, values in zip(blocks, zip(*lines, strict=True), strict=False):
        try:
            parts.append(np.array(values, dtype=np.float64))
        except ValueError:  # noqa: PERF203 (once per block and column)
            parts.append(np.array(values, dtype=object))


def _joined(parts: Iterable[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(list(parts) or [np.empty(0)])


def _read_parquet(file: Path) -> Table:
    try:
        import pandas as pd

        frame = pd.read_parquet(file)
    except ImportError:
        raise InvalidInput(f"{file}: Parquet files need pandas and pyarrow: pip install 'treeproof[parquet]'") from None
    except OSError:
        raise
    except Exception as error:  # pyarrow has exceptions of its own
        raise InvalidInput(f"{file} is not a Parquet file: {str(error).splitlines()[0]}") from None
    return Table(str(file), {str(name): frame[name].to_numpy() for name in frame.columns}, True)


def _read_libsvm(file: Path) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(file))
    except ValueError as error:
        raise InvalidInput(f"{file} is not a LIBSVM file: {error}") from None
    dense = X.toarray()
    columns = {str(f): dense[:, f] for f in range(dense.shape[1])}
    return Table(str(file), columns | {"label": _plain_labels(y)}, False)


def _read_npz(file: Path) -> Table:
    try:
        with np.load(file, allow_pickle=False) as stored:
            content = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidInput(f"{file} is not an .npz file of plain arrays: {error}") from None
    X = content.get("X")
    if X is None or X.ndim != 2:
        raise InvalidInput(f"{file} must contain a two-dimensional array X; it has {_listed(list(content))}")
    names = content.get("feature_names")
    keys = [str(name) for name in names.tolist()] if names is not None else [str(f) for f in range(X.shape[1])]
    if len(keys) != X.shape[1]:
        raise InvalidInput(f"{file} has {len(keys)} feature names for {X.shape[1]} columns of X")
    columns = {name: X[:, f] for f, name in enumerate(keys)}
    if "y" in content:
        if content["y"].shape != (len(X),):
            raise InvalidInput(f"{file}: y has shape {content['y'].shape} for {len(X)} rows of X")
        columns["label"] = content["y"]
    return Table(str(file), columns, names is not None)


def _plain_labels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels that are whole numbers as integers, however they are written."""
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return values
    whole = np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all()
    return numbers.astype(np.int64) if whole else values


def _as_written(label: Any) -> Any:
    """A label in a form in which 1, 1.0 and "1" are the same."""
    text = str(label).strip()
    if isinstance(label, bool) or text in ("True", "False"):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return str(int(number)) if number == int(number) else str(number)


def _listed(names: list[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
