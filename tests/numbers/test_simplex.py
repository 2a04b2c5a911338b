"""The simplex method in whole numbers, against elimination."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from tests.support.elimination import Rows, add_row, has_real_solution
from treeproof.numbers.simplex import Bounds, Simplex, Terms


def inequalities(n: int, rows: list[Terms], bounds: Bounds, why: int = -1) -> Rows:
    """All bounds whose reasons are among `why`."""
    demanded: Rows = {}
    for j in range(n + len(rows)):
        terms = dict(rows[j - n]) if j >= n else {j: 1}
        factors = tuple(Fraction(terms.get(k, 0)) for k in range(n))
        if bounds.high[j] is not None and bounds.high_why[j] & why:
            add_row(demanded, factors, Fraction(bounds.high[j]), True)
        if bounds.low[j] is not None and bounds.low_why[j] & why:
            add_row(demanded, tuple(-x for x in factors), -Fraction(bounds.low[j]), True)
    return demanded


def random_bounds(rng: random.Random, n: int, size: int) -> Bounds:
    bounds = Bounds.none(size)
    for j in range(size):
        low = rng.randint(-4, 4)
        bounds.raise_low(j, low, 1 << (2 * j))
        bounds.lower_high(j, low + rng.randint(0, 4), 1 << (2 * j + 1))
        if j >= n and rng.random() < 0.5:
            bounds.low[j] = None
        elif j >= n and rng.random() < 0.5:
            bounds.high[j] = None
    return bounds


@pytest.mark.parametrize("seed", range(6))
def test_values_conflicts_and_extremes(seed: int) -> None:
    rng, conflicts = random.Random(seed), 0
    for _ in range(25):
        n, m = rng.randint(1, 3), rng.randint(1, 4)
        rows = [tuple((j, rng.choice([-3, -2, -1, 1, 2])) for j in range(n) if rng.random() < 0.8) for _ in range(m)]
        simplex = Simplex([0] * n, rows)
        # The same table for other bounds: it begins where the last question ended.
        for _ in range(4):
            bounds = random_bounds(rng, n, n + m)
            why = simplex.conflict(bounds)
            if why is not None:
                conflicts += 1
                assert not has_real_solution(inequalities(n, rows, bounds, why), n)
                continue
            values = simplex.values()
            values += [sum((a * values[j] for j, a in row), start=Fraction(0)) for row in rows]
            for low, value, high in zip(bounds.low, values, bounds.high, strict=True):
                assert (low is None or low <= value) and (high is None or value <= high)
            j, up = rng.randrange(n), rng.random() < 0.5
            end, why = simplex.extreme(j, up, bounds)
            demanded, side = (
                inequalities(n, rows, bounds),
                tuple(Fraction((k == j) * (-1 if up else 1)) for k in range(n)),
            )
            beyond = inequalities(n, rows, bounds, why)
            add_row(demanded, side, -end if up else end, True)
            add_row(beyond, side, -end if up else end, False)
            assert has_real_solution(demanded, n)
            assert not has_real_solution(beyond, n)
    assert 10 < conflicts < 90


def test_parity() -> None:
    """2 x + 2 y == 1 has real solutions, but none in whole numbers."""
    simplex = Simplex([0, 0], [((0, 2), (1, 2))])
    bounds = Bounds([-9, -9, 1], [9, 9, 1], [1, 2, 4], [8, 16, 32])
    assert simplex.conflict(bounds) is None
    assert simplex.parity_conflict(bounds, [True] * 3, [64, 128, 192]) == 4 | 32 | 64 | 128
    assert simplex.parity_conflict(bounds, [True, False, False], [64, 0, 0]) is None
