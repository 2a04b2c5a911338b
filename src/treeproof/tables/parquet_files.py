"""Parquet files, whole or by row groups, and Feather files; the only module that knows pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import check_bytes
from treeproof.tables.table import Table, check_names, check_shape

ARROW = (".parquet", ".feather")
"""Files of columns that have types."""

BUFFER = 2**18
"""Bytes of each column that are read at a time."""


def need_pyarrow(what: object) -> None:
    """Refuses what needs pyarrow, if there is none."""
    if find_spec("pyarrow") is None:
        raise _no_pyarrow(what)


def _no_pyarrow(what: object) -> InvalidInput:
    return InvalidInput(f"{what}: Parquet and Feather files need pyarrow: pip install 'treeproof[parquet]'")


@contextmanager
def _in_one_line(file: Path) -> Iterator[None]:
    """Inside `with`, what pyarrow says about a file is InvalidInput."""
    try:
        yield
    except ImportError:
        raise _no_pyarrow(file) from None
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # pyarrow has exceptions of its own
        if isinstance(error, OSError) and error.errno is not None:
            raise
        kind = "Feather" if file.suffix.lower() == ".feather" else "Parquet"
        raise InvalidInput(f"{file} is not a {kind} file: {str(error).partition(chr(10))[0]}") from None


class ParquetFile:
    """A Parquet file: the names of its columns, the sizes of its row groups, and their rows."""

    def __init__(self, file: Path, max_bytes: int) -> None:
        self.file, self.max_bytes = file, max_bytes
        with _in_one_line(file):
            from pyarrow import parquet

            with open(file, "rb"):  # says in fewer words why it cannot be read
                pass
            # A row group may be large, and is not to be in memory before its rows are wanted.
            self._open = parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER)
            about = self._open.metadata
            schema = self._open.schema_arrow
            self.names = _names_of(schema)
            self.sizes = [int(about.row_group(i).num_rows) for i in range(about.num_row_groups)]
            self._n_columns = int(about.num_columns)
            self._bytes = [int(about.row_group(i).total_byte_size) for i in range(about.num_row_groups)]
        check_shape(file, 0, self._n_columns, max_bytes)
        check_names(file, self.names)

    def group(self, number: int, columns: list[str] | None = None) -> Any:
        """These columns of one row group, or all, as pyarrow has them."""
        self._check([number])
        with _in_one_line(self.file):
            return self._open.read_row_group(number, columns=columns, use_threads=False)

    def batches(self, number: int, size: int, columns: list[str] | None = None) -> Iterator[Any]:
        """The same, so many rows at a time."""
        check_shape(self.file, size, self._n_columns, self.max_bytes)
        with _in_one_line(self.file):
            import pyarrow as pa

            rest = None
            for batch in self._open.iter_batches(size, row_groups=[number], columns=columns, use_threads=False):
                rows = pa.Table.from_batches([batch])
                rest = rows if rest is None else pa.concat_tables([rest, rows])
                # pyarrow may give fewer rows at a time than were asked for.
                while rest.num_rows >= size:
                    yield rest.slice(0, size)
                    rest = rest.slice(size)
            if rest is not None and rest.num_rows:
                yield rest

    def whole(self) -> Any:
        """All rows, as pyarrow has them."""
        self._check(list(range(len(self.sizes))))
        with _in_one_line(self.file):
            return self._open.read(columns=self.names, use_threads=False)

    def _check(self, groups: list[int]) -> None:
        """Refuses row groups that take too much memory."""
        check_shape(self.file, sum(self.sizes[i] for i in groups), self._n_columns, self.max_bytes)
        check_bytes(f"{self.file}, once it is unpacked,", sum(self._bytes[i] for i in groups), self.max_bytes)

    def table(self, rows: Any, first_row: int = 0) -> Table:
        """Rows that pyarrow has, as columns of arrays."""
        return _table(self.file, rows, self.names, first_row)


def _names_of(schema: Any) -> list[str]:
    """The names of the columns; pandas keeps the index of a frame as one more column."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _table(file: Path, rows: Any, names: list[str], first_row: int = 0) -> Table:
    with _in_one_line(file):
        columns = {name: _values(rows.column(name)) for name in names if name in rows.column_names}
    return Table(str(file), columns, True, first_row)


def read_arrow(file: Path, max_bytes: int) -> Table:
    """The whole table of a Parquet or Feather file."""
    rows = arrow_rows(file, max_bytes)
    return _table(file, rows, rows.column_names)


def arrow_rows(file: Path, max_bytes: int) -> Any:
    """The same as pyarrow has it, with the types of its columns."""
    if file.suffix.lower() == ".parquet":
        return ParquetFile(file, max_bytes).whole()
    with _in_one_line(file):
        import pyarrow as pa

        with pa.OSFile(str(file)) as stream:
            opened = pa.ipc.open_file(stream)
            names, batches = _names_of(opened.schema), []
            check_names(file, names)
            for i in range(opened.num_record_batches):
                batches.append(opened.get_batch(i))
                check_shape(file, sum(batch.num_rows for batch in batches), len(names), max_bytes)
                check_bytes(f"{file}, once it is unpacked,", sum(batch.nbytes for batch in batches), max_bytes)
            return pa.Table.from_batches(batches, opened.schema).select(names)


def _values(column: Any) -> npt.NDArray[Any]:
    import pyarrow as pa

    # What is missing among categories would come out as the last of them.
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    if pa.types.is_integer(plain.type) and plain.null_count:
        values = np.empty(len(plain), dtype=object)  # as doubles, large numbers would be rounded
        values[:] = plain.to_pylist()
        return values
    return np.asarray(plain.to_numpy())


def as_parquet(columns: dict[str, npt.NDArray[Any] | list[Any]], beside: Any = None) -> bytes:
    """The content of a Parquet file with these columns, after those of a table that pyarrow has, if one is given."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({name: _array(name, values) for name, values in columns.items()})
    if beside is not None:
        for name in columns:
            beside = beside.append_column(name, table.column(name))
        table = beside
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _array(name: str, values: npt.NDArray[Any] | list[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InvalidInput(f"column {name!r} has values of several types, which Parquet cannot hold; use CSV") from None
