"""The exact prices of the cells around one row, as whole numbers of a common unit, for an Lp attacker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import LARGEST, FloatArray, double_at_least, double_at_most
from treeproof.threat.threat import Threat
from treeproof.verification.space import Space

MOST_BITS = 1000
"""Longer numbers are cut off: prices are rounded down, and the limit is not."""
SURE = 1.0 - 2.0**-36
"""A sum of rounded prices below this share of the limit is within it."""


def exact_prices(
    threat: Threat, space: Space, x: FloatArray, box: tuple[FloatArray, FloatArray], limit: Fraction, strictly: bool
) -> Any:
    """What cells cost exactly from a box of neighbours of x, and the limit of their sums, or what is just below it."""
    from treeproof._kernels.search.exact import BITS, ExactPrices

    found = [price for f in range(len(x)) for price in _prices_of(threat, space, f, x, box, limit)]
    scale = Fraction(math.lcm(limit.denominator, *(price.denominator for _, price in found)))
    if (limit * scale).numerator.bit_length() > MOST_BITS:
        scale = Fraction(2) ** MOST_BITS / limit
    most = max(math.ceil(limit * scale) - 1 if strictly else math.floor(limit * scale), 0)
    dear, n = most + 1, (most + 1).bit_length() // BITS + 1

    def digits(number: int) -> list[int]:
        return [number >> BITS * d & (1 << BITS) - 1 for d in reversed(range(n))]

    table: npt.NDArray[np.int64] = np.tile(np.array(digits(dear), dtype=np.int64), (int(space.start[-1]), 1))
    for cell, price in found:
        table[cell] = digits(min(math.floor(price * scale), dear))
    sure = np.array([double_at_most(limit) * SURE])
    return ExactPrices(table, np.array(digits(most), dtype=np.int64), sure, np.zeros(n, dtype=np.int64))


def no_exact_prices() -> Any:
    """Nothing is known, and every sum is taken as it is."""
    from treeproof._kernels.search.exact import ExactPrices

    none: npt.NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
    return ExactPrices(none, none[0], np.array([math.inf]), none[0])


def _prices_of(
    threat: Threat, space: Space, f: int, x: FloatArray, box: tuple[FloatArray, FloatArray], limit: Fraction
) -> Iterator[tuple[int, Fraction]]:
    """The cells of one feature that cost no more than the limit, and their prices."""
    ends, moves = space.ends_of(f), threat.moves_of(f)
    rounded = moves.table(x[[f]], box[0][[f]], box[1][[f]], *ends, False)[0]
    near = np.flatnonzero(rounded <= min(double_at_least(limit), LARGEST))
    cells = (each[near] for each in ends)
    *exact, _ = moves.exact_prices(float(x[f]), (float(box[0][f]), float(box[1][f])), *cells)
    for cell, price in zip(near.tolist(), exact, strict=True):
        if price is not None and price <= limit:
            yield int(space.start[f]) + cell, price
