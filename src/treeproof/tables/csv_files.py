"""CSV files, packed or not: whole, or a number of rows at a time."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import check_bytes
from treeproof.tables.table import Table, check_names, check_shape, with_point

PADDED = re.compile(r"^(?:[ \t]|0\d)|[ \t]$", re.MULTILINE)
"""What a number would lose, as in post codes; where a column really is one of numbers, these are made of text later."""

BLOCK = 4096
"""The number of lines that are kept as text at a time, where nobody asks for another number."""

PACKED: dict[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""What text files may be packed with, and what opens them."""

Lines = list[list[str]]

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What separates the values of files that people have, and what messages call it."""


def ending_of(file: Path) -> str:
    """What the name of a file ends in, whatever it is packed with: `.csv` for `test.csv.bz2`."""
    name = file.with_suffix("") if file.suffix.lower() in PACKED else file
    return name.suffix.lower()


class CsvStyle(NamedTuple):
    """How text is to be read: what separates values, and what stands before decimals."""

    separator: str | None = None
    """None: tabs in .tsv files, semicolons where decimals have commas, else commas."""
    decimal: str = "."

    @classmethod
    def of(cls, separator: Any, decimal: Any) -> CsvStyle:
        """The style as users give it, or InvalidInput; `tab` and `\\t` are a tab."""
        if separator in ("tab", "\\t"):
            separator = "\t"
        if separator is not None and (not isinstance(separator, str) or len(separator) != 1 or separator in '"\r\n'):
            raise InvalidInput(f"what separates values must be one character, such as ';' or tab, got {separator!r}")
        if decimal not in (".", ","):
            raise InvalidInput(f"what stands before decimals must be a point or a comma, got {decimal!r}")
        if separator == decimal:
            raise InvalidInput(f"{decimal!r} cannot both separate values and stand before decimals")
        return cls(separator, decimal)

    def separator_of(self, file: Path) -> str:
        """What separates the values of a file of this name."""
        if self.separator is not None:
            return self.separator
        return "\t" if ending_of(file) == ".tsv" else ";" if self.decimal == "," else ","


PLAIN = CsvStyle()


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
            check_shape(self.file, 1, self.columns, self.max_bytes)
            yield line


class CsvFile:
    """An open CSV file: the names of its columns, and then its rows, once."""

    def __init__(self, file: Path, text: IO[str], max_bytes: int, style: CsvStyle) -> None:
        self.file, self.max_bytes, self.decimal = file, max_bytes, style.decimal
        delimiter = style.separator_of(file)
        self._source = _Lines(file, text, delimiter, max_bytes)
        self._lines = csv.reader(self._source, delimiter=delimiter)
        self.names: list[str] = next(self._lines, [])
        self._source.columns = 0
        check_names(file, self.names)
        for other, called in SEPARATORS.items():
            if len(self.names) == 1 and other != delimiter and other in self.names[0]:
                raise InvalidInput(
                    f"{file} was read with {SEPARATORS.get(delimiter, repr(delimiter))} between values, but seems to "
                    f"have {called}",
                    argument="separator",
                    way_out=f"say so with separator={other!r}",
                )

    def blocks(self, size: int) -> Iterator[Lines]:
        """The rows as text, so many at a time; the last block may be smaller."""
        block: Lines = []
        for number, line in enumerate(self._lines, start=2):
            self._source.columns = 0
            if not line:
                continue
            if len(line) != len(self.names):
                raise InvalidInput(
                    f"{self.file}, line {number}: {len(line)} values in a table of {len(self.names)} columns"
                )
            block.append(line)
            if len(block) == size:
                yield block
                block = []
        if block:
            yield block

    def table(self, lines: Lines, first_row: int) -> Table:
        """These lines as columns."""
        columns = dict(zip(self.names, self.columns(lines), strict=True))
        return Table(str(self.file), columns, True, first_row, self.decimal)

    def columns(self, lines: Lines) -> Iterator[npt.NDArray[Any]]:
        """The columns of some lines, as numbers where possible: text takes ten times the memory."""
        for values in zip(*lines, strict=True):
            if PADDED.search("\n".join(values)):
                yield np.array(values, dtype=object)
                continue
            try:
                plain = values if self.decimal == "." else [with_point(value, self.decimal) for value in values]
                yield np.array(plain, dtype=np.float64)
            except ValueError:
                yield np.array(values, dtype=object)


@contextmanager
def open_csv(file: Path, max_bytes: int, style: CsvStyle = PLAIN) -> Iterator[CsvFile]:
    """The file, open inside `with`; what is wrong with its text is InvalidInput there."""
    try:
        with PACKED.get(file.suffix.lower(), open)(file, "rt", newline="", encoding="utf-8-sig") as text:
            yield CsvFile(file, text, max_bytes, style)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{file} cannot be unpacked: {error}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text file in UTF-8; save it as one") from None
    except csv.Error as error:
        raise InvalidInput(f"{file} is not a CSV file: {error}") from None


def read_csv(file: Path, max_bytes: int, style: CsvStyle = PLAIN) -> Table:
    """The whole table of a CSV file."""
    with open_csv(file, max_bytes, style) as opened:
        blocks: list[list[npt.NDArray[Any]]] = [[np.empty(0)] for _ in opened.names]
        n_rows = 0
        for lines in opened.blocks(BLOCK):
            n_rows += len(lines)
            check_shape(file, n_rows, len(opened.names), max_bytes)
            for parts, column in zip(blocks, opened.columns(lines), strict=True):
                parts.append(column)
        columns = {name: np.concatenate(parts) for name, parts in zip(opened.names, blocks, strict=True)}
        return Table(str(file), columns, True, decimal=style.decimal)
