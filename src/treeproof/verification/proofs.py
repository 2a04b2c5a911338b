"""Proofs as a search records them, and the claims that they are part of; docs/proof_format.md says what bytes mean."""

from __future__ import annotations

import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.compiled import MOST_UNITS, MOST_WITH_PENALTY, unit_exponent
from treeproof.model.ensemble import Ensemble
from treeproof.model.kept import Kept

SPARE = 2**20
"""Bytes on top of the limit of one row, so that many short proofs are taken out at once."""

LIMIT = 2**24
"""Bytes of a proof, unless somebody says how many."""

TOO_LONG = "a proof is longer than the limit"
PAIRS = "its neighbours have several labels, and a part of them has no proof"
RELATIONS = "it must keep relations, of which no proof is written"
CONFLICTS = "it must keep relations over sums of columns, and no proof was found of what follows from several of them"
LEFT_ALONE = "nobody attacks it"
"""Why there is no proof."""

Chain: TypeAlias = "tuple[int, bytes, Sequence[tuple[int, Sequence[int], bool, bool]]]"
"""Whether rows that pass no test are forbidden (as below), the reason if by several relations, and tests: a column, the
last cells before sides change, whether the first cells pass, and whether missing values do."""
NOT, BY_ONE, BY_SEVERAL = range(3)

Proof: TypeAlias = "bytes | str"
"""A claim with what proves it, or why there is none."""

CLAIM, VALID = 0, 4
"""A part of a neighbourhood that is proved by a claim about all that is reached from it, or about valid rows."""
CLOSED = b"\0"
"""A tree of one box, whose bound is enough."""


_EXPONENTS: Kept[int] = Kept()


class Recorder:
    """What a search of n rows writes: one tree per row and class; nothing if the limit is 0."""

    def __init__(self, limit: int, ensemble: Ensemble, n_rows: int, frame: bytes | None = None) -> None:
        """`frame` is what claims say of cells and valid rows, if these are not those of the model itself."""
        from treeproof._kernels.search.record import proof_for

        self.is_on, self._limit = limit > 0, limit
        most = MOST_UNITS if frame is None else MOST_WITH_PENALTY
        exponent = _EXPONENTS.get(ensemble, most, lambda: unit_exponent(ensemble, most) or 0) if self.is_on else 0
        size = limit + SPARE if self.is_on else 0
        self.proof = proof_for(size, n_rows, ensemble.n_classes, limit, exponent)
        self._trees: dict[tuple[int, int], bytes | None] = {}
        self._frame = frame

    def in_turns(self, kernel: Callable[[npt.NDArray[np.int64]], None], rows: npt.NDArray[np.int64]) -> None:
        """Has a kernel search rows, as many at a time as there is room for what it writes."""
        from treeproof._kernels.search.record import DONE

        while len(rows):
            self.proof.count[DONE] = 0
            kernel(rows)
            done = int(self.proof.count[DONE])
            if not self.is_on or not done:  # it was told to stop
                return
            self._take_out(rows[:done])
            rows = rows[done:]

    def _take_out(self, rows: npt.NDArray[np.int64]) -> None:
        """Takes out what was written about these rows."""
        from treeproof._kernels.search.record import LENGTH, LOST

        places = self.proof.places
        for i, other in np.argwhere(places[rows, :, 1] != 0).tolist():
            start, end = places[rows[i], other].tolist()
            self._trees[int(rows[i]), other] = None if end == LOST else self.proof.code[start:end].tobytes()
        places[rows] = 0
        self.proof.count[LENGTH] = 0

    def claim(self, row: int, label: int, wanted: Iterable[int]) -> Proof:
        """The claim that a row keeps its label, with a tree for each other class that is wanted, if it is not too long.

        Classes without a tree are closed by the bound of the whole region.
        """
        trees = [self._trees.get((row, other), CLOSED) for other in wanted if other != label]
        if any(tree is None for tree in trees) or sum(len(tree or b"") for tree in trees) > self._limit:
            return TOO_LONG
        return claim_of(label, *(tree for tree in trees if tree is not None), frame=self._frame)


def number(value: int) -> bytes:
    """A whole number from 0 on, in groups of seven bits.

    >>> number(300).hex()
    'ac02'
    """
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def signed(value: int) -> bytes:
    """A whole number of either sign.

    >>> signed(-3).hex()
    '05'
    """
    return number(-2 * value - 1 if value < 0 else 2 * value)


def claim_of(label: int, *trees: bytes, frame: bytes | None = None) -> bytes:
    """A claim on the cells of the model itself, or of a frame."""
    start = number(CLAIM) + number(label) + number(0) if frame is None else number(VALID) + number(label) + frame
    return start + b"".join(trees)


def frame_of(cuts: Sequence[tuple[int, float]], chains: Sequence[Chain]) -> bytes:
    """Cuts beside those of the model's tests, and conditions of valid rows."""
    found = number(len(cuts)) + b"".join(number(f) + struct.pack("<d", cut) for f, cut in cuts) + number(len(chains))
    for forbids, reason, tests in chains:
        found += number(forbids) + number(len(tests))
        for f, cells, first, missing in tests:
            gaps = np.diff([-1, *cells]) - 1
            found += number(f) + number(first + 2 * missing) + number(len(cells)) + b"".join(map(number, gaps.tolist()))
        found += number(len(reason)) + reason if forbids == BY_SEVERAL else b""
    return found


class RowProofs:
    """What proves rows: per row the claims about itself and about its neighbourhoods."""

    def __init__(self) -> None:
        self._claims: defaultdict[int, list[bytes]] = defaultdict(list)
        self._reasons: dict[int, str] = {}

    def add(self, which: int, rows: Sequence[int], proofs: Sequence[Proof]) -> None:
        """Adds what proves rows (0), or their k-th neighbourhoods, counted from 1."""
        for row, proof in zip(rows, proofs, strict=True):
            if isinstance(proof, str):
                self._reasons[row] = proof
            else:
                self._claims[row].append(number(which) + proof)

    @property
    def rows(self) -> dict[int, tuple[bytes | None, str | None]]:
        """Per row its claims, compressed, and why some are missing."""
        return {
            row: (_compressed(self._claims[row]) if row in self._claims else None, self._reasons.get(row))
            for row in sorted(self._claims.keys() | self._reasons.keys())
        }


def _compressed(claims: list[bytes]) -> bytes:
    return zlib.compress(number(len(claims)) + b"".join(claims))


def check_limit(proofs: Any, limit: Any) -> int:
    """The most bytes of a proof, 0 if none are to be written; InvalidInput if they go nowhere."""
    if limit is None:
        return LIMIT if proofs is not None else 0
    if proofs is None:
        raise InvalidInput(
            f"proof_limit is {limit!r}, but no proofs are written",
            argument="proof_limit",
            way_out="name the file that they go to, proofs=…, or leave it out",
        )
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InvalidInput(f"proof_limit must be a number of bytes from 1 on, got {limit!r}", argument="proof_limit")
    return int(limit)
