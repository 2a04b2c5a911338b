"""Moves between ranges of doubles, against trying every pair."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeproof.numbers.moves import some_move

CORNERS = [
    0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    0.1,
    -0.3,
    4.0,
    2.0**52,
    -(2.0**53),
    5e-324,
    2.0**-1022,
    -(2.0**-1022),
    3e-310,
]


def doubles(start: float, count: int) -> list[float]:
    out = [start]
    for _ in range(count):
        out.append(math.nextafter(out[-1], math.inf))
    return out


def move_by_trying(zs: list[float], ws: list[float], low: float, high: float) -> bool:
    return any(low <= Fraction(w) - Fraction(z) <= high for z in zs for w in ws)


@st.composite
def ranges(draw: st.DrawFn) -> list[float]:
    start = draw(st.sampled_from(CORNERS))
    for _ in range(draw(st.integers(0, 12))):
        start = math.nextafter(start, -math.inf)
    return doubles(start, draw(st.integers(0, 12)))


@pytest.mark.slow
@settings(max_examples=1200, deadline=None, derandomize=True)
@given(ranges(), ranges(), st.data())
def test_a_move_is_found_exactly_when_trying_all_pairs_finds_one(
    zs: list[float], ws: list[float], data: st.DataObject
) -> None:
    # Intervals about the differences that occur, so that both answers are common, and often narrower than a step.
    middle = float(Fraction(data.draw(st.sampled_from(ws))) - Fraction(data.draw(st.sampled_from(zs))))
    step = data.draw(st.sampled_from([0.0, 5e-324, 2.0**-60, 2.0**-53, 2.0**-52, 0.3, 1.0]))
    low = middle + data.draw(st.sampled_from([-3, -1, 0, 1])) * step
    high = max(low, middle + data.draw(st.sampled_from([-1, 0, 1, 3])) * step)
    move = some_move((zs[0], zs[-1]), (ws[0], ws[-1]), (low, high))
    assert (move is not None) == move_by_trying(zs, ws, Fraction(low), Fraction(high))
    if move is not None:
        z, w = move
        assert zs[0] <= z <= zs[-1] and ws[0] <= w <= ws[-1]
        assert Fraction(low) <= Fraction(w) - Fraction(z) <= Fraction(high)


@pytest.mark.parametrize(
    ("box", "cell", "interval", "possible"),
    [
        ((0.0, 1.0), (1.0, 2.0), (1.0, 1.0), True),
        # Neighbours of 1e16 are 2 apart: nothing lies half a step away from anything.
        ((1e16, 1e16 + 40), (1e16, 1e16 + 80), (0.5, 0.75), False),
        ((1e16, 1e16 + 40), (1e16, 1e16 + 80), (-math.inf, math.inf), True),
        # From 2 to 4 doubles are 2**-51 apart, so a shift by 1 and half of that leads to none; below 2 it does.
        ((3.0, 3.5), (2.0, 2.5), (-1.0 - 2.0**-52, -1.0 - 2.0**-52), False),
        ((3.0, 3.5), (1.9, 2.5), (-1.0 - 2.0**-52, -1.0 - 2.0**-52), True),
        ((-1.0, 1.0), (3.0, 5.0), (2.5, 2.5), True),
        ((-1.0, 1.0), (3.0, 5.0), (-2.5, 1.5), False),
    ],
)
def test_moves_of_wide_ranges(box: tuple, cell: tuple, interval: tuple, possible: bool) -> None:
    assert (some_move(box, cell, interval) is not None) == possible
