"""A file of proofs: one record per row, an index at the end; see docs/proof_format.md."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from treeproof.check.fields import HEADER, check, parse
from treeproof.check.rules import Rejected

HEAD, TAIL = b"TPP1\n", b"TPPEND\n\0"
LARGEST = 2**30
"""No record is larger when it is unpacked."""
SMALL, MOST_TIMES = 2**24, 64
"""An index is no larger than one or the other, as times of the file: each of its rows has a record there."""


@dataclass(frozen=True)
class ProofFile:
    """Where proofs are in a file, and what they are about."""

    path: Path
    header: dict[str, Any]
    rows: dict[int, tuple[int, int]]
    without: dict[int, str]
    """Rows that are proved, but without a proof here, and why."""

    @classmethod
    def open(cls, path: Path) -> ProofFile:
        """The index of a file; Rejected if it is not whole."""
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            if file.read(len(HEAD)) != HEAD:
                raise Rejected(f"{path.name} is no file of proofs")
            file.seek(max(size - 24, 0))
            tail = file.read(24)
            if tail[16:] != TAIL:
                raise Rejected(f"{path.name} was not written to its end")
            most = min(LARGEST, max(SMALL, MOST_TIMES * size))
            index = parse(_unpacked(_read(file, *struct.unpack("<QQ", tail[:16])), most), f"the index of {path.name}")
        try:
            check(index["header"], HEADER, "the header of proofs")
            rows, without = ({_row(row): value for row, value in index[name].items()} for name in ("rows", "without"))
            check(list(rows.values()), [["count", "count"]], "a place of a record")
            check(list(without.values()), ["text"], "a reason")
            if index.keys() != {"header", "rows", "without"}:
                raise Rejected(f"the index of {path.name} has other fields than it must have")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise Rejected(f"the index of {path.name} cannot be read: {error!r}") from None
        return cls(path, index["header"], {row: (at, long) for row, (at, long) in rows.items()}, without)

    def payload(self, row: int) -> bytes:
        """The steps of the proof of one row."""
        with self.path.open("rb") as file:
            return _unpacked(_read(file, *self.rows[row]))


def _read(file: BinaryIO, offset: int, length: int) -> bytes:
    """A part of a file."""
    size = file.seek(0, 2)
    if not (0 <= offset <= size and 0 <= length <= size - offset):
        raise Rejected("a record lies beyond the end of the file")
    file.seek(offset)
    return file.read(length)


def _row(text: str) -> int:
    """The number of a row, written in one way only."""
    if len(text) > 19 or str(int(text)) != text:
        raise ValueError(f"{text[:40]!r} is the number of no row")
    return int(text)


def _unpacked(data: bytes, most: int = LARGEST) -> bytes:
    """What was packed, unless it is broken or too large."""
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, most)
    except zlib.error as error:
        raise Rejected(f"a record cannot be unpacked: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise Rejected("a record is cut off, too large, or followed by more")
    return unpacked
