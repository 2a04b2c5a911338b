"""Exact steps and sums, against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from treeproof.numbers.doubles import (
    LARGEST,
    Interval,
    add_down,
    add_up,
    float32_at_most,
    from_ordinal,
    last_double_rounding_to,
    ordinal,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)
# Of like size, so that sums round in interesting ways.
close = st.floats(-4, 4) | st.sampled_from([0.1, 0.2, 0.3, 1.0, 2.0**-53, 2.0**-54, 5e-324, -5e-324, -0.0])


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(finite | close, finite | close)
@example(LARGEST, LARGEST)
@example(LARGEST, 2.0**969)
@example(-LARGEST, -(2.0**970))
@example(8.988465674311575e307, -LARGEST)
def test_sums_are_rounded_down_and_up_exactly(a: float, b: float) -> None:
    true = Fraction(a) + Fraction(b)
    down, up = float(add_down(a, b)), float(add_up(a, b))
    assert down == -math.inf or Fraction(down) <= true
    assert up == math.inf or Fraction(up) >= true
    # Nothing lies between them: the next double is already on the other side.
    after = math.nextafter(down, math.inf)
    before = math.nextafter(up, -math.inf)
    assert after == math.inf or Fraction(after) > true
    assert before == -math.inf or Fraction(before) < true


def test_sums_do_not_depend_on_what_else_is_added_at_the_same_time() -> None:
    """Ordinary numbers, infinite ones and those whose sum overflows take ways of their own."""
    pool = [0.1, 0.7, -0.3, -0.0, 5e-324, LARGEST, -LARGEST, 2.0**970, math.inf, -math.inf, math.nan]
    a, b = (one.ravel() for one in np.meshgrid(pool, pool))
    with np.errstate(all="ignore"):
        plain = a + b
    alone = [[float(add(x, y)) for x, y in zip(a, b, strict=True)] for add in (add_down, add_up)]
    for some in (slice(None), np.isfinite(a) & np.isfinite(b), ~np.isnan(plain), np.abs(plain) < 1):
        for add, expected in zip((add_down, add_up), alone, strict=True):
            assert np.array_equal(add(a[some], b[some]), np.array(expected)[some], equal_nan=True)
    for x, y, rounded, down, up in zip(a, b, plain, *alone, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            true = Fraction(x) + Fraction(y)
            assert down == -math.inf or Fraction(down) <= true
            assert up == math.inf or Fraction(up) >= true
            assert math.nextafter(down, math.inf) >= up, "nothing lies between them"
        else:
            assert np.array_equal([down, up], [rounded] * 2, equal_nan=True)


@pytest.mark.parametrize("end", [math.inf, -math.inf])
def test_sums_with_an_infinite_end_are_that_end(end: float) -> None:
    assert float(add_down(3.0, end)) == end
    assert float(add_up(3.0, end)) == end


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(float32s)
@example(float(np.finfo(np.float32).max))
@example(-float(np.finfo(np.float32).max))
@example(0.0)
@example(-0.0)
@example(1e-45)
@example(-1e-45)
def test_last_double_rounding_to_is_the_last(x: float) -> None:
    e = last_double_rounding_to(np.float32(x))
    with np.errstate(over="ignore"):
        assert np.float32(e) <= np.float32(x)
        assert np.float32(np.nextafter(e, np.inf)) > np.float32(x)


def test_below_every_float32_only_what_overflows_goes_left() -> None:
    e = last_double_rounding_to(np.float32(-np.inf))
    with np.errstate(over="ignore"):
        assert np.float32(e) == -np.inf
        assert np.isfinite(np.float32(np.nextafter(e, np.inf)))


@settings(max_examples=2000, deadline=None)
@given(finite)
def test_float32_at_most_is_the_largest_below(x: float) -> None:
    narrow = float32_at_most(x)
    # As doubles: numpy would round a Python number to float32 before it compares.
    assert float(narrow) <= x
    with np.errstate(over="ignore"):
        assert float(np.nextafter(narrow, np.float32(np.inf))) > x


@settings(max_examples=1000, deadline=None)
@given(finite)
def test_ordinals_count_doubles(x: float) -> None:
    assert float(from_ordinal(ordinal(x))) == x
    if x < LARGEST:
        assert int(ordinal(math.nextafter(x, math.inf))) == int(ordinal(x)) + 1


@given(finite, finite, finite)
def test_nearest_is_inside_and_no_double_inside_is_nearer(a: float, b: float, x: float) -> None:
    lo, hi = min(a, b), max(a, b)
    if lo == hi:
        return
    interval = Interval(lo, hi)
    near = interval.nearest(x)
    assert near in interval
    for other in (hi, math.nextafter(lo, math.inf), *((x,) if x in interval else ())):
        assert abs(Fraction(near) - Fraction(x)) <= abs(Fraction(other) - Fraction(x))
