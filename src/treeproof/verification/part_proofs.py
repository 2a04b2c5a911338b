"""Proofs of neighbourhoods that are cut into parts: where they are cut, and what proves each part.

Parts are decided in any order; what proves a row is put together at the end. docs/proof_format.md says what bytes mean.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.verification.proofs import CLAIM, PAIRS, TOO_LONG, VALID, Proof, number

Ints = npt.NDArray[np.int64]

SPLIT, IDLE, CONTENT = 1, 2, 3  # and 5 for valid rows, see VALID
"""Parts that are no claims: one that is cut in two, one where attacks change nothing, one with wanted labels only."""
DECIDED = b"\x08"
"""A tree of one box, with one leaf per tree."""


class _Cut(NamedTuple):
    """Neighbours up to a double of a column are in part `below`, others in the next one."""

    feature: int
    double: float
    below: int


class PartProofs:
    """For each of n rows the parts of its neighbourhood, which begins as part i of row i."""

    def __init__(self, n_rows: int, limit: int) -> None:
        """Proofs of up to `limit` bytes are kept; 0: none are."""
        self._limit = limit
        self._parts: list[_Cut | Proof] = [PAIRS] * n_rows

    def split(self, parts: Ints, features: Ints, cuts: FloatArray) -> tuple[Ints, Ints]:
        """Cuts each of some parts in two; which parts are below its cut and above it."""
        if not self._limit:
            return parts, parts
        below = len(self._parts) + 2 * np.arange(len(parts))
        for part, *cut in zip(parts.tolist(), features.tolist(), cuts.tolist(), below.tolist(), strict=True):
            self._parts[part] = _Cut(*cut)
            self._parts += [PAIRS, PAIRS]
        return below, below + 1

    def prove(self, parts: Ints, proofs: Sequence[Proof]) -> None:
        """Notes what proves each of some parts."""
        if self._limit:
            for part, proof in zip(parts.tolist(), proofs, strict=True):
                self._parts[part] = proof

    def leave_idle(self, parts: Ints) -> None:
        """Notes that attacks change nothing in these parts, or that no neighbour is there."""
        self.prove(parts, [number(IDLE)] * len(parts))

    def shrink(self, parts: Ints, before: tuple[FloatArray, FloatArray], after: tuple[FloatArray, FloatArray]) -> Ints:
        """Cuts off from boxes of these parts what is not in smaller boxes; attacks change nothing there.

        Returns the parts that are left.
        """
        parts = parts.copy()
        for side, smaller in enumerate((after[0] > before[0], after[1] < before[1])):
            for f in np.flatnonzero(smaller.any(axis=0)).tolist():
                some = smaller[:, f]
                cuts = after[1][some, f] if side else np.nextafter(after[0][some, f], -np.inf)
                below, above = self.split(parts[some], np.full(len(cuts), f), cuts)
                self.leave_idle(above if side else below)
                parts[some] = below if side else above
        return parts

    def proof(self, row: int) -> Proof:
        """What proves a row, if it is not too long and each part has a proof."""
        found, waiting, length = [], [row], 0
        while waiting:
            part = self._parts[waiting.pop()]
            if isinstance(part, str):
                return part
            if isinstance(part, _Cut):
                waiting += [part.below + 1, part.below]
                part = number(SPLIT) + number(part.feature) + struct.pack("<d", part.double)
            found.append(part)
            length += len(part)
            if length > self._limit:
                return TOO_LONG
        return b"".join(found)


def content(claim: Proof) -> Proof:
    """What proves that neighbours have labels that the attacker wants, from the claim of one who wants the others."""
    return claim if isinstance(claim, str) else {CLAIM: number(CONTENT), VALID: number(VALID + 1)}[claim[0]] + claim[1:]


def content_row(label: int, goal: Any, n_classes: int) -> bytes:
    """The same for a row without other neighbours."""
    return number(CONTENT) + number(label) + number(0) + DECIDED * (n_classes - len(goal))
