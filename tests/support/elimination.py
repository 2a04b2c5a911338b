"""Linear inequalities over real numbers, decided by Fourier-Motzkin elimination in rational numbers."""

from __future__ import annotations

import itertools
from fractions import Fraction

Rows = dict[tuple[Fraction, ...], tuple[Fraction, bool]]
"""factors · x <= bound, or < where the flag is False; the largest factor is 1 or -1."""


def add_row(rows: Rows, factors: tuple[Fraction, ...], bound: Fraction, closed: bool) -> None:
    size = max(map(abs, factors)) or Fraction(1)
    factors, row = tuple(x / size for x in factors), (bound / size, closed)
    rows[factors] = min(rows.get(factors, row), row)


def has_real_solution(rows: Rows, n: int) -> bool:
    """Fourier-Motzkin: combine every upper bound of a variable with every lower one, and forget the variable."""
    left = set(range(n))
    while left:
        j = min(left, key=lambda j: sum(row[j] > 0 for row in rows) * sum(row[j] < 0 for row in rows))
        left.remove(j)
        others = {row: end for row, end in rows.items() if row[j] == 0}
        above = [(row, *end) for row, end in rows.items() if row[j] > 0]
        below = [(row, *end) for row, end in rows.items() if row[j] < 0]
        for (a, a_bound, a_closed), (b, b_bound, b_closed) in itertools.product(above, below):
            p, q = -b[j], a[j]
            factors = tuple(p * x + q * y for x, y in zip(a, b, strict=True))
            add_row(others, factors, p * a_bound + q * b_bound, a_closed and b_closed)
        rows = others
    return all(bound > 0 or (bound == 0 and closed) for bound, closed in rows.values())
