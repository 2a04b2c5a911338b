"""A strict reader of UBJSON, the binary JSON that XGBoost writes; made for files that may be damaged.

Only the part of the format is read that XGBoost itself reads and writes: every length is a 64-bit number, arrays have
counts, there are no no-ops. XGBoost takes a character for a number; here it is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeproof.errors import InvalidInput

MAX_DEPTH = 64

# The fixed-size numbers: marker -> dtype, big-endian as the format demands.
_ITEMS: dict[bytes, np.dtype[Any]] = {
    b"i": np.dtype(">i1"),
    b"U": np.dtype(">u1"),
    b"I": np.dtype(">i2"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"),
    b"D": np.dtype(">f8"),
}
_NUMBERS = b"iIlLd"  # outside typed arrays
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def parse(data: bytes) -> Any:
    """The document as dicts, lists, strings and numbers; typed arrays as NumPy arrays. InvalidInput if damaged.

    Memory stays in proportion to the file: no count is believed before the bytes for it are seen.

    >>> seven = bytes(7)
    >>> parse(b"{L" + seven + b"\\x01ai\\x07L" + seven + b"\\x01b[$U#L" + seven + b"\\x02\\x01\\x02}")
    {'a': 7, 'b': array([1, 2], dtype=uint8)}
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise InvalidInput(f"{len(data) - reader.at} bytes follow the end of the document")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        left = len(self.data) - self.at
        if not 0 <= count <= left:
            raise InvalidInput(f"byte {self.at}: {count} bytes are announced, but {left} are left")
        self.at += count
        return self.data[self.at - count : self.at]

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"byte {self.at}: nested deeper than {MAX_DEPTH} levels")
        marker = self.take(1)
        if marker in _NUMBERS:
            return self.number(marker)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker == b"[":
            return self.array(depth)
        if marker == b"{":
            return self.object(depth)
        raise InvalidInput(f"byte {self.at - 1}: {marker!r} does not start a value that XGBoost writes")

    def number(self, marker: bytes) -> int | float:
        dtype = _ITEMS[marker]
        value: int | float = np.frombuffer(self.take(dtype.itemsize), dtype=dtype)[0].item()
        return value

    def length(self) -> int:
        marker = self.take(1)
        if marker != b"L":
            raise InvalidInput(f"byte {self.at - 1}: a length must be a 64-bit whole number, got {marker!r}")
        length = int(self.number(marker))
        # Every item takes a byte or more, so a larger count is a lie and must not be acted on.
        if not 0 <= length <= len(self.data) - self.at:
            raise InvalidInput(f"byte {self.at}: length {length}, but {len(self.data) - self.at} bytes are left")
        return length

    def text(self) -> str:
        return self.take(self.length()).decode("utf-8")

    def array(self, depth: int) -> Any:
        kind = None
        if self.peek() == b"$":
            self.take(1)
            kind = self.take(1)
            if kind not in _ITEMS:
                raise InvalidInput(f"byte {self.at - 1}: {kind!r} is no type for the items of an array")
        if self.take(1) != b"#":
            raise InvalidInput(f"byte {self.at - 1}: an array must have a count")
        count = self.length()
        if kind is None:
            return [self.value(depth + 1) for _ in range(count)]
        dtype = _ITEMS[kind]
        return np.frombuffer(self.take(count * dtype.itemsize), dtype=dtype).astype(dtype.newbyteorder("="))

    def object(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while self.peek() != b"}":
            key = self.text()
            if key in result:
                raise InvalidInput(f"byte {self.at}: key {key!r} occurs twice")
            result[key] = self.value(depth + 1)
        self.take(1)
        return result
