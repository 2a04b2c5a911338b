"""A strict reader of UBJSON, the binary JSON that XGBoost writes; made for files that may be damaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeproof.errors import InvalidInput

MAX_DEPTH = 64

# The fixed-size numbers: marker -> dtype, big-endian as the format demands.
_NUMBERS: dict[bytes, np.dtype[Any]] = {
    b"i": np.dtype(">i1"),
    b"U": np.dtype(">u1"),
    b"I": np.dtype(">i2"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"),
    b"D": np.dtype(">f8"),
}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}


def parse(data: bytes) -> Any:
    """The document as dicts, lists, strings and numbers; typed arrays as NumPy arrays. InvalidInput if damaged.

    Memory stays in proportion to the file: no count is believed before the bytes for it are seen.

    >>> parse(b'{U\\x01aU\\x07U\\x01b[$U#U\\x02\\x01\\x02}')
    {'a': 7, 'b': array([1, 2], dtype=uint8)}
    """
    reader = _Reader(data)
    value = reader.value(reader.marker(), 0)
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

    def marker(self) -> bytes:
        """The next marker that is not a no-op."""
        marker = self.take(1)
        while marker == b"N":
            marker = self.take(1)
        return marker

    def value(self, marker: bytes, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise InvalidInput(f"byte {self.at}: nested deeper than {MAX_DEPTH} levels")
        if marker in _NUMBERS:
            return self.number(marker)
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("ascii")
        if marker == b"[":
            return self.array(depth)
        if marker == b"{":
            return self.object(depth)
        raise InvalidInput(f"byte {self.at - 1}: {marker!r} does not start a UBJSON value")

    def number(self, marker: bytes) -> int | float:
        dtype = _NUMBERS[marker]
        value: int | float = np.frombuffer(self.take(dtype.itemsize), dtype=dtype)[0].item()
        return value

    def length(self) -> int:
        marker = self.marker()
        if marker not in _NUMBERS or _NUMBERS[marker].kind == "f":
            raise InvalidInput(f"byte {self.at - 1}: a length must be a whole number, got {marker!r}")
        length = int(self.number(marker))
        # Every item takes a byte or more, so a larger count is a lie and must not be acted on.
        if not 0 <= length <= len(self.data) - self.at:
            raise InvalidInput(f"byte {self.at}: length {length}, but {len(self.data) - self.at} bytes are left")
        return length

    def text(self) -> str:
        return self.take(self.length()).decode("utf-8")

    def header(self) -> tuple[bytes | None, int | None]:
        """The item type and the count that a container may announce."""
        kind = None
        if self.peek() == b"$":
            self.take(1)
            kind = self.take(1)
            if kind in _CONSTANTS or kind == b"N":
                raise InvalidInput(f"byte {self.at - 1}: a container of {kind!r} has items without content")
        if self.peek() == b"#":
            self.take(1)
            return kind, self.length()
        if kind is not None:
            raise InvalidInput(f"byte {self.at}: a container with an item type must have a count")
        return None, None

    def array(self, depth: int) -> Any:
        kind, count = self.header()
        if kind is not None and kind in _NUMBERS and count is not None:
            dtype = _NUMBERS[kind]
            return np.frombuffer(self.take(count * dtype.itemsize), dtype=dtype).astype(dtype.newbyteorder("="))
        items: list[Any] = []
        while len(items) != count:
            marker = kind or self.marker()
            if count is None and marker == b"]":
                break
            items.append(self.value(marker, depth + 1))
        return items

    def object(self, depth: int) -> dict[str, Any]:
        kind, count = self.header()
        result: dict[str, Any] = {}
        while len(result) != count:
            while self.peek() == b"N":
                self.take(1)
            if count is None and self.peek() == b"}":
                self.take(1)
                break
            key = self.text()
            if key in result:
                raise InvalidInput(f"byte {self.at}: key {key!r} occurs twice")
            result[key] = self.value(kind or self.marker(), depth + 1)
        return result
