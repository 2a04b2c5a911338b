"""Proofs by plain branch and bound, for tests of the checker: nothing of the engines is used."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

from treeproof.check.rules import CLOSED, CUT_LEFT, DECIDED, Box, Claim


def number(value: int) -> bytes:
    """A whole number in groups of seven bits."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 127
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def signed(value: int) -> bytes:
    """A whole number of either sign."""
    return number(2 * value if value >= 0 else -2 * value - 1)


def double(value: float) -> bytes:
    """A double."""
    return struct.pack("<d", value)


def naive_proof(claim: Claim) -> bytes | None:
    """A tree of boxes that proves a claim; None if it is false."""
    parts: list[bytes] = []
    waiting = [Box(claim)]
    while waiting:
        box = waiting.pop()
        if box.is_closed:
            parts.append(number(CLOSED))
            continue
        cut = _cut(box)
        if cut is None:
            if not claim.keeps_label([leaves[0] for leaves in box.trees]):
                return None
            parts.append(number(DECIDED))
            continue
        f, cell = cut
        parts.append(number(CUT_LEFT) + number(f) + number(cell))
        left = box.copy()
        left.keep(f, (2 << cell) - 1)
        box.keep(f, ~((2 << cell) - 1))
        waiting += [box, left]
    return b"".join(parts)


def _cut(box: Box) -> tuple[int, int] | None:
    """A cut between cells of a column that some tree still tells apart."""
    for leaves in box.trees:
        if any(leaf.kind != leaves[0].kind for leaf in leaves):
            for f, mask in leaves[0].cells.items():
                here = box.cells[f]
                if mask & here != here:
                    return f, next(_changes(mask, here))
            for leaf in leaves:
                for f, mask in leaf.cells.items():
                    if mask & box.cells[f] != box.cells[f]:
                        return f, next(_changes(mask, box.cells[f]))
    return None


def _changes(mask: int, here: int) -> Iterator[int]:
    """Cells of a box after which the side changes."""
    cells = [c for c in range(here.bit_length()) if here >> c & 1]
    for a, b in itertools.pairwise(cells):
        if (mask >> a & 1) != (mask >> b & 1):
            yield a
