"""Moves by distances that are closer together than doubles, against all pairs of doubles."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest

from tests.support import oracles
from treeproof.check.columns import Column
from treeproof.check.doubles import cell_of, some_move

TINY = math.ulp(0.0)
SPECIAL = (0.0, TINY, -TINY, 2.0**-1022, -(2.0**-1022), 2.0**-1021, 1.0, -1.0, 2.0**53, -(2.0**53), 1e308, 0.1, 0.3)


def ulps(x: float, n: int) -> float:
    for _ in range(n):
        x = math.nextafter(x, math.inf)
    return x


def doubles(low: float, high: float) -> list[float]:
    found = [low]
    while found[-1] < high:
        found.append(math.nextafter(found[-1], math.inf))
    return found


def some_double(random: Random) -> float:
    kind = random.randrange(4)
    if kind == 0:
        return random.choice(SPECIAL)
    if kind == 1:
        return random.uniform(-4, 4)
    if kind == 2:
        return math.ldexp(random.uniform(-1, 1), random.randint(-1070, 1020))
    return math.ldexp(random.randint(-20, 20), random.choice([-1074, -1070, -3, 0, 52, 53]))


def is_move(z: float, w: float, least: float, most: float) -> bool:
    return Fraction(least) <= Fraction(w) - Fraction(z) <= Fraction(most)


@pytest.mark.parametrize("seed", range(4))
def test_moves_between_small_ranges_are_those_of_all_pairs(seed: int) -> None:
    random, met = Random(seed), [0, 0]
    for _ in range(400):
        low, least = some_double(random), some_double(random)
        high = ulps(low, random.choice([0, 1, 3, 20]))
        most = least + random.choice([0, 0, 1e-17, 1e-16, 3e-16]) * abs(least)
        first = ulps(low + least if random.random() < 0.8 else some_double(random), random.randrange(3))
        last = ulps(first, random.choice([0, 1, 2, 10]))
        if least <= 0 <= most or math.isinf(last) or math.isinf(high) or math.isinf(first):
            continue
        expected = any(is_move(z, w, least, most) for z in doubles(low, high) for w in doubles(first, last))
        assert some_move((low, high), (first, last), (least, most)) == expected, (low, high, first, last, least, most)
        met[expected] += 1
    assert min(met) > 40


@pytest.mark.parametrize("seed", range(20))
def test_cells_are_those_where_moves_of_all_neighbours_end(seed: int) -> None:
    random = Random(seed)
    x = random.choice([0.3, 1.0, 3.0, 2.0**53, -1.0])
    least = random.choice([0.1, 0.7, 3e-16, 1.0, -0.3])
    column = Column(
        (-1e300, 1e300), (least, least * random.choice([1.0, 1.0 + 1e-15])) if least > 0 else (least, least)
    )
    part = x, ulps(x, 300)
    cuts = sorted({ulps(x + least, random.randrange(320)) for _ in range(40)})
    expected = 0
    for z in doubles(*part):
        expected |= 1 << cell_of(cuts, z)
        first, last = (Fraction(z) + Fraction(end) for end in column.reach)
        ends = oracles.double_at_least(first), oracles.double_at_most(last)
        if ends[0] <= ends[1]:
            expected |= sum(1 << cell for cell in range(cell_of(cuts, ends[0]), cell_of(cuts, ends[1]) + 1))
    found = column.cells(x, math.inf, part, cuts)
    assert sum(mask for _, mask in found) == expected
