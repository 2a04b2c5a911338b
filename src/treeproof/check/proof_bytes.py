"""Steps of a proof as bytes: whole numbers in groups of seven bits, doubles as they are; see docs/proof_format.md."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate, pairwise

from treeproof.check.rules import MOST_CELLS, Box, Rejected, Weights

MOST_BITS, MOST_OF_MASKS = 4096, 2**32
"""No number of a proof has more; nor have all masks of cells that stand together."""


class Reader:
    """Reads one number after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._bits = data, 0, 0
        self.columns = self.trees = self.cells = MOST_CELLS
        """There are no more of them, and few bytes are not believed that they are about more."""

    @property
    def is_done(self) -> bool:
        """Whether everything was read."""
        return self._at == len(self._data)

    def number(self) -> int:
        """The next whole number from 0 on."""
        number = shift = 0
        while True:
            if self._at >= len(self._data) or shift > MOST_BITS:
                raise Rejected("the proof ends within a number")
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def signed(self) -> int:
        """The next whole number of either sign."""
        number = self.number()
        return -(number >> 1) - 1 if number & 1 else number >> 1

    def double(self) -> float:
        """The next double; a number, not infinite."""
        number = float(struct.unpack("<d", self._bytes(8))[0])
        if not math.isfinite(number):
            raise Rejected(f"{number} is no number of a proof")
        return number

    def begin(self, which: int) -> None:
        """Is told which neighbourhood comes next, for whoever shows a proof."""

    def part(self) -> int:
        """What is said about the next part of a neighbourhood."""
        self._bits = 0
        return self.number()

    # Steps of a tree.

    def at(self, box: Box, weights: Weights | None) -> None:
        """Is told which box comes next, for whoever shows a proof."""

    def op(self) -> int:
        """What is done with the next box."""
        return self.number()

    def cut(self) -> tuple[int, int]:
        """A column, and the last cell on the left of a cut."""
        return self.number(), self.number()

    def rate(self) -> Fraction:
        """What money is worth."""
        return Fraction(self.double())

    def piece(self) -> bytes:
        """The next bytes, as many as the number before them says."""
        return self._bytes(self.number())

    def _bytes(self, n: int) -> bytes:
        start, self._at = self._at, self._at + n
        if self._at > len(self._data):
            raise Rejected("the proof ends within a part of it")
        return self._data[start : self._at]

    def chain(self) -> tuple[bytes | None, list[tuple[int, int, bool]]]:
        """Why rows that pass none of some tests are forbidden (None: they are not), and the tests.

        Each is a column, the cells that pass, and whether a missing value does.
        """
        forbids, tests = self.number(), []
        if forbids > 2:
            raise Rejected(f"there is no condition {forbids}")
        for _ in range(self.number()):
            f, sides, passes = self.number(), self.number(), 0
            for segment in self._between(self._rising(self.number())):
                passes |= segment if sides & 1 else 0
                sides ^= 1
            tests.append((f, passes, sides & 2 == 2))
        return (self.piece() if forbids == 2 else b"\0" if forbids else None), tests

    def weights(self) -> Weights:
        """Weights: per column its cuts, levels of the segments between them, and what trees reach there."""
        exponent, rate, rounds = self.signed(), self.rate(), self.number()
        if abs(exponent) > MOST_BITS or rate < 0:
            raise Rejected(f"there is no scale 2^{exponent} with the rate {float(rate)}")
        self._bits, segments = 0, dict[int, list[int]]()
        shares: dict[int, dict[int, list[int]]] = {}
        f = -1
        for _ in range(self.number()):
            f += 1 + self.number()
            cuts = self._rising(self.number())
            levels = self._running(len(cuts) + 1)
            if f >= self.columns:
                raise Rejected("weights are given to a column without cells, or to no tree")
            segments[f] = self._between(cuts)
            tree = -1
            for _ in range(self.number()):
                tree += 1 + self.number()
                if tree >= self.trees:
                    raise Rejected("weights are given to a column without cells, or to no tree")
                ends = self._rising(self.number())
                reached = self._running(len(ends) + 1)
                piece, own = 0, []
                for s, level in enumerate(levels):
                    piece += piece < len(ends) and s > ends[piece]
                    own.append(level - reached[piece])
                shares.setdefault(tree, {})[f] = own
        scale = Fraction(2) ** exponent
        return Weights(scale, rate, segments, shares, rounds, self._bits // 64)

    def _rising(self, n: int) -> list[int]:
        """Numbers that rise, as what each is more than one above the last."""
        return self._sums(n, -1, lambda: 1 + self.number())

    def _running(self, n: int) -> list[int]:
        """Numbers, as what each is more than the last."""
        return self._sums(n, 0, self.signed)

    def _sums(self, n: int, start: int, more: Callable[[], int]) -> list[int]:
        if n > min(len(self._data), self.cells + 2):
            raise Rejected(f"there are no {n} numbers left")
        return list(accumulate((more() for _ in range(n)), initial=start))[1:]

    def _between(self, cuts: list[int]) -> list[int]:
        """Masks of the cells up to the first cut, up to the next, and above the last: of them there is no end."""
        self._bits += (1 + len(cuts)) * max(cuts, default=0)
        if max(cuts, default=0) > self.cells or self._bits > MOST_OF_MASKS:
            raise Rejected(f"there is no cell {max(cuts)}, or there are too many sets of cells")
        below = [0, *((2 << cut) - 1 for cut in cuts)]
        return [*(upto & ~one for one, upto in pairwise(below)), ~below[-1]]
