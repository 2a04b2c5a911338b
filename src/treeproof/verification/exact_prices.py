"""The exact prices of the cells around one row, as whole numbers of a common unit, for an Lp attacker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray, double_at_most
from treeproof.threat.threat import Threat
from treeproof.verification.space import Space

MOST_BITS = 1000
"""Longer numbers are cut off: prices are rounded down, and the limit is not."""
SURE = 1.0 - 2.0**-36
"""A sum of rounded prices below this share of the limit is within it."""

Price = tuple[int, int, Fraction | None]
"""The first cell of some, the end of these, and their price; None: more than the limit."""


def exact_prices(
    threat: Threat, space: Space, x: FloatArray, box: tuple[FloatArray, FloatArray], limit: Fraction, strictly: bool
) -> Any:
    """What cells cost exactly from a box of neighbours of x, and the limit of their sums, or what is just below it."""
    from treeproof._kernels.search.exact import BITS, ExactPrices

    found = [price for f in range(len(x)) for price in _prices_of(threat, space, f, x, box, limit)]
    scale = Fraction(math.lcm(limit.denominator, *(price.denominator for *_, price in found if price is not None)))
    if (limit * scale).numerator.bit_length() > MOST_BITS:
        scale = Fraction(2) ** MOST_BITS / limit
    most = max(math.ceil(limit * scale) - 1 if strictly else math.floor(limit * scale), 0)
    dear, n = most + 1, (most + 1).bit_length() // BITS + 1

    def digits(number: int) -> list[int]:
        return [number >> BITS * d & (1 << BITS) - 1 for d in reversed(range(n))]

    table: npt.NDArray[np.int64] = np.zeros((space.start[-1], n), dtype=np.int64)
    for first, end, price in found:
        table[first:end] = digits(dear if price is None else min(math.floor(price * scale), dear))
    sure = np.array([double_at_most(limit) * SURE])
    return ExactPrices(table, np.array(digits(most), dtype=np.int64), sure, np.zeros(n, dtype=np.int64))


def no_exact_prices() -> Any:
    """Nothing is known, and every sum is taken as it is."""
    from treeproof._kernels.search.exact import ExactPrices

    none: npt.NDArray[np.int64] = np.zeros((1, 1), dtype=np.int64)
    return ExactPrices(none, none[0], np.array([math.inf]), none[0])


def _prices_of(
    threat: Threat, space: Space, f: int, x: FloatArray, box: tuple[FloatArray, FloatArray], limit: Fraction
) -> Iterator[Price]:
    """The prices of the cells of one feature; those that are free, or that cannot be had, may be left out."""
    start, (lowest, highest) = int(space.start[f]), space.ends_of(f)
    low, high = float(box[0][f]), float(box[1][f])
    if f in dict(threat.columns):
        n = len(lowest) - (f in space.blanks)
        exact = threat.moves_of(f).exact_prices(float(x[f]), (low, high), lowest[:n], highest[:n])[: len(lowest)]
        priced = [(c, price) for c, price in enumerate(exact) if price is not None]
        yield from ((start + c, start + c + 1, price if price <= limit else None) for c, price in priced)
    elif not math.isnan(low):
        first, last = np.searchsorted(highest, (low, high)).tolist()
        above, below = np.maximum(lowest, threat.domain_low[f]), np.minimum(highest, threat.domain_high[f])
        sides = (range(last + 1, len(lowest)), high, above), (range(first)[::-1], low, below)
        for cells, begin, ends in sides:
            for k, c in enumerate(cells):
                # A cell above the largest double, or below the lowest, holds nothing.
                price = None if math.isinf(ends[c]) else threat.price(f, begin, float(ends[c]))
                if price is None or price > limit:
                    yield start + min(cells[k:]), start + max(cells[k:]) + 1, None
                    break
                yield start + c, start + c + 1, price
