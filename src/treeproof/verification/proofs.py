"""Proofs as a search records them, and the claims that they are part of; docs/proof_format.md says what bytes mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from treeproof.model.compiled import unit_exponent
from treeproof.model.ensemble import Ensemble

SPARE = 2**20
"""Bytes on top of the limit of one row, so that many short proofs are taken out at once."""

CLAIM = 0
"""A part of a proof that is a claim about all of a neighbourhood."""
CLOSED = b"\0"
"""A tree of one box, whose bound is enough."""


class Recorder:
    """What a search of n rows writes: one tree per row and class; nothing if the limit is 0."""

    def __init__(self, limit: int, ensemble: Ensemble, n_rows: int) -> None:
        from treeproof._kernels.search.record import proof_for

        self.is_on, self._limit = limit > 0, limit
        exponent = (unit_exponent(ensemble) or 0) if self.is_on else 0
        size = limit + SPARE if self.is_on else 0
        self.proof = proof_for(size, n_rows, ensemble.n_classes, limit, exponent)
        self._trees: dict[tuple[int, int], bytes | None] = {}

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

    def claim(self, row: int, label: int, wanted: Iterable[int]) -> bytes | None:
        """The claim that a row keeps its label, with a tree for each other class that is wanted; None: too long.

        Classes without a tree are closed by the bound of the whole region.
        """
        trees = [self._trees.get((row, other), CLOSED) for other in wanted if other != label]
        if any(tree is None for tree in trees) or sum(len(tree or b"") for tree in trees) > self._limit:
            return None
        return claim_of(label, *(tree for tree in trees if tree is not None))


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


def claim_of(label: int, *trees: bytes) -> bytes:
    """A claim on the cells of the model itself. One without trees: the label is one that the attacker wants."""
    return number(CLAIM) + number(label) + number(0) + b"".join(trees)
