"""Rows of files that need not fit into memory, some at a time."""

from __future__ import annotations

import glob
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES, as_path, file_stamp
from treeproof.model.ensemble import Ensemble
from treeproof.tables.csv_files import PLAIN, CsvStyle, ending_of, open_csv
from treeproof.tables.parquet_files import ParquetFile
from treeproof.tables.table import Matched, Raw, Table, check_shape

CHUNK_ROWS = 10_000
"""The number of rows in a chunk, unless somebody chooses another."""

ENDINGS = (".csv", ".tsv", ".parquet")


class Place(NamedTuple):
    """Which chunk of all: the number of its file, and its number there."""

    file: int
    chunk: int


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a file, or the row group that holds them, for whoever needs them to read."""

    place: Place
    name: str
    """The file as the user named it."""
    path: Path
    first_row: int
    rows: Any
    """The rows, as a Table or as pyarrow has them; None if they are to be read."""
    group: int = -1
    columns: tuple[str, ...] | None = None
    max_bytes: int = MAX_BYTES

    def load(self) -> tuple[Table, Any]:
        """The rows as a table, and as pyarrow has them if the file is a Parquet file."""
        if isinstance(self.rows, Table):
            return self.rows, None
        with _readable(self.path):
            opened = ParquetFile(self.path, self.max_bytes)
            rows = self.rows
            if rows is None:
                rows = opened.group(self.group, None if self.columns is None else list(self.columns))
        return opened.table(rows, self.first_row), rows


class RowFiles:
    """CSV and Parquet files that are read in chunks, in the order of their names, or as a list gives them.

    A row group of at most `chunk_rows` rows is a chunk that is read where it is needed; larger ones and CSV files are
    read here, from beginning to end.
    """

    def __init__(
        self,
        given: Any,
        chunk_rows: int = CHUNK_ROWS,
        max_bytes: int = MAX_BYTES,
        style: CsvStyle = PLAIN,
        keep: bool = False,
    ) -> None:
        self.names = _file_names(given)
        # Workers may have another current folder.
        self.paths = [Path(os.path.abspath(name)) for name in self.names]
        self.chunk_rows, self.max_bytes, self.style = chunk_rows, max_bytes, style
        self.columns: tuple[str, ...] | None = None
        """The columns that are read of Parquet files; None means all."""
        self.keep = keep
        """Whether lines of CSV files are kept as they are."""
        heads = [self._head(path) for path in self.paths]
        self.sources = [[name, *file_stamp(path)] for name, path in zip(self.names, self.paths, strict=True)]
        """What tells these files from others, or from themselves after a change: names, sizes and times."""
        self.heads = [head for head, _ in heads]
        if not any(has_rows for _, has_rows in heads):
            raise InvalidInput(f"{self.names[0]} has no rows{' and neither have the others' * (len(heads) > 1)}")

    def check_unchanged(self) -> None:
        """Refuses files that are not what they were at the beginning."""
        for path, (_, *stamp) in zip(self.paths, self.sources, strict=True):
            if not path.exists() or file_stamp(path) != stamp:
                raise InvalidInput(f"{path} has changed while it was read; start again with another folder")

    @property
    def is_parquet(self) -> bool:
        """Whether the first file is a Parquet file."""
        return _is_parquet(self.paths[0])

    def matched(self, ensemble: Ensemble, label: str, drop: tuple[str, ...]) -> Matched:
        """The columns that a model takes; every file must have them."""
        first = self.heads[0].matched(ensemble, label, drop)
        for head in self.heads[1:]:
            columns = head.matched(first.ensemble, label, drop).columns
            # Without names of the model's own, those of the first file count.
            if columns != first.columns:
                raise InvalidInput(f"{head.source} has other columns than {self.heads[0].source}; name them alike")
        return first

    def need_column(self, name: str) -> None:
        """Refuses the files if one of them has no such column."""
        for head in self.heads:
            head.column(name, "label")

    def chunks(self, is_done: Callable[[Place], bool]) -> Iterator[Chunk]:
        """The chunks that are not done yet, in order."""
        for number, path in enumerate(self.paths):
            with _readable(path):
                yield from self._of_parquet(number, is_done) if _is_parquet(path) else self._of_csv(number, is_done)

    def _chunk(self, place: Place, first_row: int, rows: Any, group: int = -1) -> Chunk:
        path, name = self.paths[place.file], self.names[place.file]
        return Chunk(place, name, path, first_row, rows, group, self.columns, self.max_bytes)

    def _of_csv(self, number: int, is_done: Callable[[Place], bool]) -> Iterator[Chunk]:
        with open_csv(self.paths[number], self.max_bytes, self.style) as opened:
            for i, (lines, records) in enumerate(opened.blocks(self.chunk_rows, self.keep)):
                place, first_row = Place(number, i), i * self.chunk_rows
                check_shape(self.paths[number], len(lines), len(opened.names), self.max_bytes)
                if not is_done(place):
                    raw = Raw(opened.head, records) if self.keep else None
                    yield self._chunk(place, first_row, opened.table(lines, first_row, raw))

    def _of_parquet(self, number: int, is_done: Callable[[Place], bool]) -> Iterator[Chunk]:
        opened = ParquetFile(self.paths[number], self.max_bytes)
        columns = None if self.columns is None else list(self.columns)
        first_row = at = 0
        for group, n_rows in enumerate(opened.sizes):
            places = [Place(number, at + i) for i in range(math.ceil(n_rows / self.chunk_rows))]
            left = [place for place in places if not is_done(place)]
            if len(places) == 1 and left:
                yield self._chunk(places[0], first_row, None, group)
            elif left:
                batches = opened.batches(group, self.chunk_rows, columns)
                for i, (place, rows) in enumerate(zip(places, batches, strict=True)):
                    if place in left:
                        yield self._chunk(place, first_row + i * self.chunk_rows, rows)
            first_row, at = first_row + n_rows, at + len(places)

    def _head(self, path: Path) -> tuple[Table, bool]:
        """The columns of a file without their values, and whether there are rows."""
        with _readable(path):
            if _is_parquet(path):
                opened = ParquetFile(path, self.max_bytes)
                names, has_rows = opened.names, any(opened.sizes)
            else:
                with open_csv(path, self.max_bytes, self.style) as text:
                    names, has_rows = text.names, next(text.blocks(1), None) is not None
        return Table(str(path), {name: np.empty(0) for name in names}, True), has_rows


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Inside `with`, a file that cannot be read is InvalidInput."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _file_names(given: Any) -> list[str]:
    """The files that a path, a pattern or a list of them names."""
    names: list[str] = []
    for one in given if isinstance(given, (list, tuple)) else [given]:
        path = str(as_path(one))
        found = [path] if os.path.exists(path) or not glob.has_magic(path) else sorted(glob.glob(path))
        if not found:
            raise InvalidInput(f"no file matches {path}")
        names += found
    if not names:
        raise InvalidInput("the list of files is empty; give at least one")
    for name in names:
        if ending_of(Path(name)) not in ENDINGS or _is_parquet(Path(name).with_suffix("")):
            raise InvalidInput(f"{name} cannot be read in chunks; give a file that ends in {', '.join(ENDINGS)}")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InvalidInput(f"{name} is given twice; give every file once")
    return names
