"""CSV files, packed or not: whole, or a number of rows at a time."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from treeproof.errors import InvalidInput
from treeproof.files import check_bytes
from treeproof.tables.table import COLUMN_BYTES, Raw, Table, check_names, check_shape
from treeproof.tables.text import Text, joined

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
        self.kept: list[str] | None = []
        """The lines since this was last emptied, if they are kept."""

    def __iter__(self) -> Iterator[str]:
        readline, delimiter, most = self.text.readline, self.delimiter, self.max_bytes
        while line := readline(most + 1):
            self.columns += 1 + line.count(delimiter)
            if len(line) > most or self.columns * COLUMN_BYTES > most // 2:
                check_bytes(f"one line of {self.file}", len(line), most)
                check_shape(self.file, 1, self.columns, most)
            if self.kept is not None:
                self.kept.append(line)
            yield line

    def taken(self) -> str:
        """The lines since this was last asked, together."""
        lines, self.kept = self.kept or [], []
        self.columns = 0
        return "".join(lines)


class CsvFile:
    """An open CSV file: the names of its columns, and then its rows, once."""

    def __init__(self, file: Path, text: IO[str], max_bytes: int, style: CsvStyle) -> None:
        self.file, self.max_bytes, self.decimal = file, max_bytes, style.decimal
        delimiter = style.separator_of(file)
        self._source = _Lines(file, text, delimiter, max_bytes)
        # Without strict, a quote that is never closed swallows all rows behind it.
        self._lines = csv.reader(self._source, delimiter=delimiter, strict=True)
        self.names: list[str] = next(self._lines, [])
        self.head = self._source.taken()
        """The first line, as the file has it."""
        check_names(file, self.names)
        for other, called in SEPARATORS.items():
            if len(self.names) == 1 and other != delimiter and other in self.names[0]:
                raise InvalidInput(
                    f"{file} was read with {SEPARATORS.get(delimiter, repr(delimiter))} between values, but seems to "
                    f"have {called}",
                    argument="separator",
                    way_out=f"say so with separator={other!r}",
                )

    def blocks(self, size: int, keep: bool = False) -> Iterator[tuple[Lines, list[str]]]:
        """The rows as values and, to `keep`, as the file has them, so many at a time; the last block may be smaller."""
        block: Lines = []
        records: list[str] = []
        width, source = len(self.names), self._source
        source.kept = [] if keep else None
        for line in self._lines:
            source.columns = 0
            record = source.taken() if keep else ""
            if len(line) != width:
                if not line and width > 1:
                    continue
                # In a file of one column, an empty line is a row whose cell is empty.
                line = line or [""]
                self._check_width(line)
            block.append(line)
            if keep:
                records.append(record)
            if len(block) == size:
                yield block, records
                block, records = [], []
        if block:
            yield block, records

    def _check_width(self, line: list[str]) -> None:
        if len(line) != len(self.names):
            where = f"{self.file}, line {self._lines.line_num}"
            raise InvalidInput(f"{where}: {len(line)} values in a table of {len(self.names)} columns")

    def table(self, lines: Lines, first_row: int, raw: Raw | None) -> Table:
        """These lines as columns."""
        columns = {name: Text.of([values]) for name, values in zip(self.names, zip(*lines, strict=True), strict=True)}
        return Table(str(self.file), columns, True, first_row, self.decimal, raw)


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
        said = "a quote is never closed" if "end of data" in str(error) else error
        said = f"{said}; is a quote never closed?" if "field limit" in str(error) else said
        raise InvalidInput(f"{file} is not a CSV file: {said}") from None


def read_csv(file: Path, max_bytes: int, style: CsvStyle = PLAIN, keep: bool = False) -> Table:
    """The whole table of a CSV file; `keep` its lines, too, as they are."""
    with open_csv(file, max_bytes, style) as opened:
        blocks: list[list[str]] = [[] for _ in opened.names]
        sizes: list[int] = []
        records: list[str] = []
        n_bytes = 0
        for lines, own in opened.blocks(BLOCK, keep):
            sizes.append(len(lines))
            check_shape(file, sum(sizes), len(opened.names), max_bytes)
            for parts, values in zip(blocks, zip(*lines, strict=True), strict=True):
                parts.append(joined(values))
                n_bytes += len(parts[-1])
            check_bytes(f"the text of {file}", n_bytes, max_bytes)
            records += own
        columns = {name: Text(tuple(parts), tuple(sizes)) for name, parts in zip(opened.names, blocks, strict=True)}
        return Table(str(file), columns, True, decimal=style.decimal, raw=Raw(opened.head, records) if keep else None)
