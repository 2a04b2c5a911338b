"""Labelled rows from files: CSV, Parquet, LIBSVM and .npz."""

from __future__ import annotations

import csv
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES, as_path, check_bytes
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray

NUMBERED = re.compile(r"(f|x|column_?|feature_?)?\d+", re.IGNORECASE)
"""Names that libraries make up for features without names."""

BLOCK = 4096
"""The number of lines that are kept as text at a time."""

NPZ_ARRAYS = ("X", "y", "feature_names")
"""What is read of an .npz file."""

COLUMN_BYTES = 1024
"""What a column takes beside its values: its name, and its arrays while they are read."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "<na>"})
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
        rows = np.column_stack([self._numbers(name) for name in names])
        for row, f in np.argwhere(~np.isfinite(rows))[:1].tolist():
            raise InvalidInput(
                f"{self.source}, row {row}, column {names[f]!r}: {rows[row, f]} cannot be trained on; leave the row out"
            )
        return rows, names

    def rows(self, ensemble: Ensemble, leave_out: tuple[str, ...] = ()) -> FloatArray:
        """The model's features as doubles: by name if both have names, else all columns except those to leave out."""
        columns, _ = self.columns_of(ensemble, leave_out)
        return np.column_stack([self._numbers(name) for name in columns]) if columns else np.empty((len(self), 0))

    def columns_of(self, ensemble: Ensemble, leave_out: tuple[str, ...] = ()) -> tuple[list[str], bool]:
        """The columns in the order of the model's features, and whether names told which is which."""
        free = self._all_but(leave_out)
        known = ensemble.feature_names is not None and self.named and not self._numbers_only(ensemble, free)
        columns = self._by_name(ensemble, free) if known else free
        if len(columns) != ensemble.n_features:
            raise InvalidInput(
                f"{self.source} has {len(columns)} feature columns, but the model takes {ensemble.n_features}; "
                "name the label with --label and columns that are not features with --drop"
            )
        return columns, known

    def _all_but(self, leave_out: tuple[str, ...]) -> list[str]:
        for name in leave_out:
            self._column(name)
        return [name for name in self.columns if name not in leave_out]

    def _numbers_only(self, ensemble: Ensemble, free: list[str]) -> bool:
        """Whether the model's names are made up for columns without one, and say nothing about the file's."""
        names = ensemble.feature_names or ()
        return all(NUMBERED.fullmatch(name) for name in names) and not set(names) & set(free)

    def _by_name(self, ensemble: Ensemble, free: list[str]) -> list[str]:
        spelled = {ensemble.own_spelling(name): name for name in free} | {name: name for name in free}
        for name in ensemble.feature_names or ():
            if name not in spelled:
                raise InvalidInput(f"{self.source} has no column {name!r}, which the model was trained with")
        return [spelled[name] for name in ensemble.feature_names or ()]

    def labels(self, column: str, ensemble: Ensemble | None = None) -> npt.NDArray[Any]:
        """The labels; with a model, as that model writes them (1 for the text "1.0")."""
        values = self._column(column)
        if values.dtype.kind not in "biufOU":
            raise InvalidInput(f"{self.source}, column {column!r}: {values.dtype} is not a type of labels")
        for row, value in enumerate(values.tolist() if values.dtype.kind == "O" else ()):
            if not isinstance(value, Hashable):
                raise InvalidInput(f"{self.source}, row {row}, column {column!r}: {value!r} is not a label")
        if ensemble is None:
            return self._new_labels(column, _plain_labels(values))
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

    def _new_labels(self, column: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels that no model knows yet: whole numbers or text, and none of them missing."""
        if values.dtype.kind in "biu":
            return values
        for row, value in enumerate(values.tolist()):
            if value == "" if isinstance(value, str) else str(value).lower() in MISSING:
                raise InvalidInput(f"{self.source}, row {row}, column {column!r}: the label is missing")
            if values.dtype.kind == "f":
                raise InvalidInput(
                    f"{self.source}, row {row}, column {column!r}: {value!r} is not a label where labels are not all "
                    "whole numbers; name the classes"
                )
        return np.array([_as_written(value) for value in values.tolist()])

    def _column(self, name: str) -> npt.NDArray[Any]:
        if name not in self.columns:
            raise InvalidInput(f"{self.source} has no column {name!r}; it has {_listed(list(self.columns))}")
        return self.columns[name]

    def _numbers(self, name: str) -> FloatArray:
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        if values.dtype.kind not in "OUS":
            raise InvalidInput(f"{self.source}, column {name!r}: {values.dtype} is not a type of numbers")
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            return np.array([self._number(value, row, name) for row, value in enumerate(values.tolist())])

    def _number(self, value: Any, row: int, column: str) -> float:
        if value is None or str(value).strip().lower() in MISSING:
            return math.nan
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(
                f"{self.source}, row {row}, column {column!r}: {value!r} is not a number; encode it as the model was "
                "trained, or leave the column out with --drop"
            ) from None


def read_table(path: Any, max_bytes: int = MAX_BYTES) -> Table:
    """The table in a .csv, .tsv, .parquet, .libsvm (.svm, .svmlight, .txt) or .npz file.

    An .npz file holds the array `X`, and optionally `y` and `feature_names`. What a file says about its size is checked
    before it is believed: rows and columns must fit into `max_bytes` as doubles.
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
        table = reader(file, max_bytes)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}") from None
    if len(table) == 0:
        raise InvalidInput(f"{file} has no rows")
    return table


def _check_shape(file: Path, n_rows: int, n_columns: int, max_bytes: int) -> None:
    """Refuses a table of this size, which may be large although it has no rows."""
    size = n_columns * (8 * n_rows + COLUMN_BYTES)
    check_bytes(f"{file}, with {n_rows:,} rows and {n_columns:,} columns,", size, max_bytes)


def _check_names(file: Path, names: list[str]) -> None:
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InvalidInput(f"{file} has two columns named {name!r}; rename one")


class _Lines:
    """The lines of a text file; one that could have more columns than fit is refused before it is taken apart."""

    def __init__(self, file: Path, text: IO[str], delimiter: str, max_bytes: int) -> None:
        self.file, self.text, self.delimiter, self.max_bytes = file, text, delimiter, max_bytes
        self.columns = 0
        """What the record being read can have; it may go over several lines. Whoever has read it sets this to 0."""

    def __iter__(self) -> Iterator[str]:
        while line := self.text.readline(self.max_bytes + 1):
            check_bytes(f"one line of {self.file}", len(line), self.max_bytes)
            self.columns += 1 + line.count(self.delimiter)
            _check_shape(self.file, 1, self.columns, self.max_bytes)
            yield line


def _read_csv(file: Path, max_bytes: int) -> Table:
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            source = _Lines(file, text, delimiter, max_bytes)
            lines = csv.reader(source, delimiter=delimiter)
            header = next(lines, [])
            _check_names(file, header)
            blocks: list[list[npt.NDArray[Any]]] = [[] for _ in header]
            block: list[list[str]] = []
            n_rows = 0
            for number, line in enumerate(lines, start=2):
                source.columns = 0
                if not line:
                    continue
                if len(line) != len(header):
                    raise InvalidInput(f"{file}, line {number}: {len(line)} values in a table of {len(header)} columns")
                block.append(line)
                if len(block) == BLOCK:
                    n_rows += BLOCK
                    _check_shape(file, n_rows, len(header), max_bytes)
                    _add_block(blocks, block)
                    block = []
            _add_block(blocks, block)
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text file in UTF-8") from None
    except csv.Error as error:
        raise InvalidInput(f"{file} is not a CSV file: {error}") from None
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise InvalidInput(f"{file} seems to be separated by semicolons or tabs; save it with commas, or tabs as .tsv")
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


def _read_parquet(file: Path, max_bytes: int) -> Table:
    try:
        import pandas as pd
        from pyarrow import parquet

        about = parquet.read_metadata(file)
        unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        _check_shape(file, about.num_rows, about.num_columns, max_bytes)
        check_bytes(f"{file}, once it is unpacked,", unpacked, max_bytes)
        frame = pd.read_parquet(file)
    except ImportError:
        raise InvalidInput(f"{file}: Parquet files need pandas and pyarrow: pip install 'treeproof[parquet]'") from None
    except (OSError, InvalidInput, MemoryError):
        raise
    except Exception as error:  # pyarrow has exceptions of its own
        raise InvalidInput(f"{file} is not a Parquet file: {str(error).partition(chr(10))[0]}") from None
    names = [str(name) for name in frame.columns]
    _check_names(file, names)
    return Table(str(file), {name: frame.iloc[:, i].to_numpy() for i, name in enumerate(names)}, True)


def _read_libsvm(file: Path, max_bytes: int) -> Table:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(file))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{file} is not a LIBSVM file: {error}") from None
    _check_shape(file, X.shape[0], X.shape[1], max_bytes)
    dense = X.toarray()
    columns = {str(f): dense[:, f] for f in range(dense.shape[1])}
    return Table(str(file), columns | {"label": _plain_labels(y)}, False)


# What zipfile, zlib and NumPy raise for damaged files.
_DAMAGED = (ValueError, TypeError, EOFError, OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError)


def _read_npz(file: Path, max_bytes: int) -> Table:
    try:
        with zipfile.ZipFile(file) as packed:
            stored = {name.removesuffix(".npy"): name for name in packed.namelist()}
            content = {name: _array(file, packed, stored[name], max_bytes) for name in NPZ_ARRAYS if name in stored}
    except InvalidInput:
        raise
    except _DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidInput(f"{file} is not an .npz file of plain arrays: {error}") from None
    X = content.get("X")
    if X is None or X.ndim != 2:
        raise InvalidInput(f"{file} must contain a two-dimensional array X; it has {_listed(list(stored))}")
    _check_shape(file, X.shape[0], X.shape[1], max_bytes)
    names = content.get("feature_names")
    keys = [str(name) for name in (range(X.shape[1]) if names is None else np.atleast_1d(names).tolist())]
    if len(keys) != X.shape[1]:
        raise InvalidInput(f"{file} has {len(keys)} feature names for {X.shape[1]} columns of X")
    _check_names(file, keys + ["label"] * ("y" in content))
    columns = {name: X[:, f] for f, name in enumerate(keys)}
    if "y" in content:
        if content["y"].shape != (len(X),):
            raise InvalidInput(f"{file}: y has shape {content['y'].shape} for {len(X)} rows of X")
        columns["label"] = content["y"]
    return Table(str(file), columns, names is not None)


def _array(file: Path, packed: zipfile.ZipFile, name: str, max_bytes: int) -> npt.NDArray[Any]:
    """An array of a zip file, if neither it nor what is packed takes too much; Python objects are refused."""
    what = f"{name} in {file}"
    check_bytes(what, packed.getinfo(name).file_size, max_bytes)
    with packed.open(name) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        check_bytes(what, math.prod(shape) * dtype.itemsize, max_bytes)
    with packed.open(name) as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return array


def _plain_labels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels that are whole numbers as integers, however they are written."""
    if values.dtype.kind in "iu":
        return values
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return values
    whole = (np.abs(numbers) < 2**53).all() and (numbers == np.rint(numbers)).all()
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
