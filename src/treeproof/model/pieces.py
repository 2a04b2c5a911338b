"""Tests that no single threshold can say: sets of categories, zeros that count as missing, bins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray


@dataclass(frozen=True, slots=True)
class Pieces:
    """A test on the number line: the doubles of (cuts[i-1], cuts[i]] go left iff `lefts[i]`.

    >>> Pieces.of([(1.0, True), (2.0, True), (3.0, False)], last=True)
    Pieces(cuts=(2.0, 3.0), lefts=(True, False, True))
    """

    cuts: tuple[float, ...]
    lefts: tuple[bool, ...]

    @classmethod
    def of(cls, parts: Iterable[tuple[float, bool]], *, last: bool) -> Pieces:
        """From parts (upper end, goes left) in rising order; `last` for the rest. Merges empty and equal neighbours."""
        cuts: list[float] = []
        lefts: list[bool] = []
        for cut, left in parts:
            if cuts and cut <= cuts[-1]:
                continue
            if lefts and lefts[-1] == left:
                cuts[-1] = cut
            else:
                cuts.append(cut)
                lefts.append(left)
        if lefts and lefts[-1] == last:
            cuts.pop()
        else:
            lefts.append(last)
        return cls(tuple(cuts), tuple(lefts))

    @classmethod
    def between(cls, cuts: FloatArray, lefts: npt.NDArray[np.bool_]) -> Pieces:
        """From cuts in rising order, some of which may be equal, and the sides below, between and above them.

        >>> Pieces.between(np.array([1.0, 2.0, 2.0]), np.array([True, True, False, True]))
        Pieces(cuts=(), lefts=(True,))
        """
        apart = np.concatenate(([True], np.diff(cuts) > 0))[: len(cuts)]
        cuts, lefts = cuts[apart], lefts[np.append(apart, True)]
        changes = np.flatnonzero(lefts[1:] != lefts[:-1])
        return cls(tuple(cuts[changes].tolist()), tuple(lefts[np.append(changes, len(cuts))].tolist()))

    @classmethod
    def of_codes(cls, lefts: npt.ArrayLike) -> Pieces:
        """From which of the codes 0, 1, 2, … go left.

        >>> Pieces.of_codes([True, False, False, True])
        Pieces(cuts=(0.0, 2.0), lefts=(True, False, True))
        """
        sides = np.asarray(lefts, dtype=bool)
        return cls.between(np.arange(len(sides) - 1.0), sides)
