"""Whole tables from files: CSV, Parquet, Feather, LIBSVM and .npz."""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES, as_path, check_bytes, read_bytes
from treeproof.model.columns import some_of
from treeproof.tables.csv_files import PACKED, PLAIN, CsvStyle, ending_of, read_csv
from treeproof.tables.parquet_files import ARROW, read_arrow
from treeproof.tables.table import Table, check_names, check_shape, plain_labels

NPZ_ARRAYS = ("X", "y", "feature_names")
"""What is read of an .npz file."""


def read_table(path: Any, max_bytes: int = MAX_BYTES, style: CsvStyle = PLAIN, keep: bool = False) -> Table:
    """The table in a .csv, .tsv, .parquet, .feather, .libsvm (.svm, .svmlight, .txt) or .npz file.

    `style` says how text files are written, and `keep` keeps their lines as they are; they may be packed, as
    `test.csv.bz2` is (.gz, .bz2, .xz). An .npz file holds the array `X`, and optionally `y` and `feature_names`. What a
    file says about its size is checked before it is believed: rows and columns must fit into `max_bytes` as doubles.
    """
    file = as_path(path)
    text = partial(read_csv, style=style, keep=keep)
    readers: dict[str, Callable[[Path, int], Table]] = {
        ".csv": text,
        ".tsv": text,
        **dict.fromkeys(ARROW, read_arrow),
        ".npz": _read_npz,
        **dict.fromkeys((".libsvm", ".svm", ".svmlight", ".txt"), _read_libsvm),
    }
    reader = readers.get(ending_of(file))
    if reader is None or (reader is not text and file.suffix.lower() in PACKED):
        raise InvalidInput(
            f"{file} is not a data file that treeproof reads: {', '.join(readers)}, or .csv and .tsv packed as "
            f"{', '.join(PACKED)}"
        )
    try:
        with open(file, "rb"):
            pass
        table = reader(file, max_bytes)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}") from None
    if len(table) == 0:
        raise InvalidInput(f"{file} has no rows")
    return table


def _read_libsvm(file: Path, max_bytes: int) -> Table:
    from sklearn.datasets import load_svmlight_file

    content = read_bytes(file, max_bytes)
    try:
        # Python's own numbers may have underscores.
        if re.search(rb"(?m)^[^#\r\n]*_", content):
            raise ValueError("a number has an underscore")
        X, y = load_svmlight_file(io.BytesIO(content))
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{file} is not a LIBSVM file: {error}") from None
    check_shape(file, X.shape[0], X.shape[1], max_bytes)
    dense = X.toarray()
    columns = {str(f): dense[:, f] for f in range(dense.shape[1])}
    return Table(str(file), columns | {"label": plain_labels(y)}, False)


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
        raise InvalidInput(f"{file} must contain a two-dimensional array X; it has {some_of(list(stored))}")
    check_shape(file, X.shape[0], X.shape[1], max_bytes)
    names = content.get("feature_names")
    keys = [str(name) for name in (range(X.shape[1]) if names is None else np.atleast_1d(names).tolist())]
    if len(keys) != X.shape[1]:
        raise InvalidInput(f"{file} has {len(keys)} feature names for {X.shape[1]} columns of X")
    check_names(file, keys + ["label"] * ("y" in content))
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
