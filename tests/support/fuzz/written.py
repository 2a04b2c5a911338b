"""Tables as files: cells of text, or columns with types, in every format that treeproof reads."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

TEXT = (
    "csv",
    "csv-quoted",
    "csv-semicolon",
    "csv-decimal",
    "csv-bar",
    "csv-crlf",
    "tsv",
    "csv.gz",
    "csv.bz2",
    "csv.xz",
)
TYPED = ("parquet", "parquet-dictionary", "parquet-groups", "feather", "feather-dictionary")
ARRAYS = ("npz", "libsvm")
FORMATS = (*TEXT, *TYPED, *ARRAYS)

PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


@dataclass(frozen=True)
class File:
    """A file and the options with which commands read it."""

    path: Path
    """Or a pattern, where the table is in several files."""
    options: list[str] = field(default_factory=list)
    content: str = ""
    """The text of a text file."""
    separator: str = ","
    records: list[str] = field(default_factory=list)
    """The text of each row, the names of columns first."""


def record(row: list[str], separator: str, quoting: Any = csv.QUOTE_MINIMAL, end: str = "\n") -> str:
    """A row as a line of a text file."""
    sink = io.StringIO()
    # Python quotes the ends of lines that it writes itself, and lets others stand as they are.
    csv.writer(sink, delimiter=separator, quoting=quoting, lineterminator="\r\n").writerow(row)
    return sink.getvalue().removesuffix("\r\n") + end


def decimal_of(form: str) -> str:
    return "," if form == "csv-decimal" else "."


def write_text(folder: Path, form: str, names: list[str], lines: list[list[str]], random: Random) -> File:
    """Cells of text as one of the text formats."""
    separator = {"csv-semicolon": ";", "csv-decimal": ";", "csv-bar": "|", "tsv": "\t"}.get(form, ",")
    quoting = csv.QUOTE_ALL if form == "csv-quoted" or random.random() < 0.2 else csv.QUOTE_MINIMAL
    end = "\r\n" if form == "csv-crlf" else "\n"
    records = [record(row, separator, quoting, end) for row in [names, *lines]]
    if (
        len(names) == 1 and random.random() < 0.5
    ):  # a missing value of an only column is written as quotes, or as nothing
        records = [end if line == f'""{end}' else line for line in records]
    content = "".join(records)
    if random.random() < 0.2 and records[-1] != end:
        content = content.removesuffix("\n").removesuffix("\r")
    data = (b"\xef\xbb\xbf" if random.random() < 0.1 else b"") + content.encode("utf-8")
    ending = form.partition("-")[0]
    path = folder / f"rows.{ending}"
    path.write_bytes(PACKED[path.suffix](data) if path.suffix in PACKED else data)
    options = ["--decimal", ","] if form == "csv-decimal" else []
    if form in ("csv-semicolon", "csv-bar"):
        options = ["--separator", separator]
    return File(path, options, content, separator, records)


def write_typed(folder: Path, form: str, frame: pd.DataFrame, random: Random) -> File:
    """A frame as Parquet or Feather."""
    path = folder / f"rows.{form.partition('-')[0]}"
    if path.suffix == ".feather":
        frame.reset_index(drop=True).to_feather(path, compression=random.choice(["lz4", "zstd", "uncompressed"]))
    else:
        frame.to_parquet(path, row_group_size=random.choice([7, 40]) if form == "parquet-groups" else None, index=False)
    return File(path)


def read_typed(path: Path) -> pd.DataFrame:
    """What such a file, or what all files of a pattern hold."""
    found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    read = pd.read_feather if path.suffix == ".feather" else pd.read_parquet
    return pd.concat([read(one) for one in found], ignore_index=True)


def in_pieces(folder: Path, n: int, write: Callable[[Path, slice], File], random: Random) -> File:
    """n rows in one to three files, which a pattern names."""
    cuts = sorted(random.sample(range(1, n), random.choice([0, 1, 2])))
    for old in folder.glob("piece-*/*"):
        old.unlink()
    for k, (start, stop) in enumerate(zip([0, *cuts], [*cuts, n], strict=True)):
        (folder / f"piece-{k}").mkdir(exist_ok=True)
        file = write(folder / f"piece-{k}", slice(start, stop))
    return replace(file, path=folder / "piece-*" / file.path.name)


LARGE = pd.ArrowDtype(pa.large_string())


def retyped(frame: pd.DataFrame, form: str, random: Random) -> pd.DataFrame:
    """The frame with other types that hold the same values."""
    return pd.DataFrame({name: _retyped(frame[name], form, random) for name in frame})


def _retyped(column: Any, form: str, random: Random) -> Any:
    values = column.tolist()
    words = bool(values) and all(isinstance(value, str) or value is None or value != value for value in values)
    if words and any(isinstance(value, str) for value in values):
        column = pd.Series([value if isinstance(value, str) else None for value in values], dtype=object)
        if form.endswith("-dictionary"):
            return column.astype("category")
        return column.astype(random.choice(["object", "string", "string[pyarrow]", LARGE]))
    if column.dtype == np.float64:
        choices = ["float64", "Float64", "double[pyarrow]"]
        there = column.dropna()
        if len(there) == len(column) and (there == there.round()).all() and (there.abs() < 100).all():
            choices += ["int8", "int64", "Int64", "int32[pyarrow]"]
            choices += ["uint8", "UInt16"] if (there >= 0).all() else []
        if (there.astype("float32").astype("float64") == there).all():
            choices += ["float32", "Float32"]
        return column.astype(random.choice(choices))
    if column.dtype == np.int64:
        small = (column.abs() < 100).all()
        return column.astype(random.choice(["int64", "Int64", "int64[pyarrow]", *(["int8"] if small else [])]))
    if column.dtype == bool:
        return column.astype(random.choice(["bool", "boolean", "bool[pyarrow]"]))
    return column


def write_array(folder: Path, form: str, names: list[str], X: np.ndarray[Any, Any], y: Any) -> File:
    """Numbers and labels as .npz or LIBSVM."""
    if form == "npz":
        np.savez(folder / "rows.npz", X=X, feature_names=np.array(names), **({} if y is None else {"y": np.array(y)}))
        return File(folder / "rows.npz")
    # scikit-learn's own writer rounds to 16 digits.
    lines = [
        f"{label} " + " ".join(f"{f}:{value!r}" for f, value in enumerate(row, 1))
        for label, row in zip([0.0] * len(X) if y is None else map(float, y), X.tolist(), strict=True)
    ]
    (folder / "rows.libsvm").write_text("\n".join(lines) + "\n", "utf-8")
    return File(folder / "rows.libsvm")
