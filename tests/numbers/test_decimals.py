"""Doubles as the decimals that they print as."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeproof as tp
from treeproof.numbers.decimals import (
    decimal_of,
    decimals_of,
    first_printed_from,
    nearest_double,
    parse_decimal,
    plain_decimal,
    rounding_to,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_nearest_to_the_decimal_that_it_prints_as(number: float) -> None:
    assert float(decimal_of(number)) == number
    assert decimal_of(number) == Fraction(Decimal(repr(number)))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_decimals_are_written_without_loss(number: Decimal) -> None:
    value = Fraction(number)
    assert parse_decimal(plain_decimal(value), "step") == value
    assert parse_decimal(number, "step") == parse_decimal(str(number), "step") == value


@pytest.mark.parametrize("given", [5, np.int64(5), 5.0, np.float32(5), "5", "5.0", Decimal(5)])
def test_decimals_may_be_given_in_many_ways(given: Any) -> None:
    assert parse_decimal(given, "step") == 5


@pytest.mark.parametrize("given", [True, None, "1/3", "five", float("inf"), float("nan"), Decimal("inf"), [1], "nan"])
def test_what_is_no_finite_decimal_is_refused(given: Any) -> None:
    with pytest.raises(tp.InvalidInput, match="step must be a finite number, got"):
        parse_decimal(given, "step")


FEW_DIGITS = st.builds(lambda whole, digits: whole / 10**digits, st.integers(-(10**16), 10**16), st.integers(0, 22))
DOUBLES = st.one_of(FEW_DIGITS, st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(DOUBLES, min_size=1))
def test_decimals_of_many_numbers_are_what_each_prints_as(numbers: list[float]) -> None:
    whole, digits = decimals_of(np.array(numbers))
    for number, n, power in zip(numbers, whole.tolist(), digits.tolist(), strict=True):
        if math.isnan(n):
            assert len(repr(abs(number)).replace(".", "").lstrip("0")) > 14 or abs(number) > 2**50 or abs(number) < 1e-7
        else:
            assert Fraction(int(n), 10**power) == decimal_of(number)


@given(DOUBLES, st.integers(0, 5))
def test_what_is_rounded_to_doubles_ends_half_way_to_the_next(low: float, more: int) -> None:
    high = low
    for _ in range(more):
        high = math.nextafter(high, math.inf)
    if math.isinf(high):
        return
    begin, with_begin, end, with_end = rounding_to(low, high)
    tiny = (end - begin) / 1000
    for number, inside in (
        (begin, with_begin), (begin - tiny, False), (begin + tiny, True),
        (end, with_end), (end + tiny, False), (end - tiny, True),
    ):  # fmt: skip
        assert (low <= nearest_double(number) <= high) == inside


@given(DOUBLES, st.fractions(min_value=-2, max_value=2), st.booleans())
def test_the_first_double_that_prints_as_a_number_or_more(near: float, aside: Fraction, closed: bool) -> None:
    number = decimal_of(near) + aside * Fraction(float(np.spacing(min(abs(near), 1e307))))
    first = first_printed_from(number, closed)
    before = math.nextafter(first, -math.inf)
    if math.isfinite(first):
        assert decimal_of(first) > number or (closed and decimal_of(first) == number)
    if math.isfinite(before):
        assert decimal_of(before) < number or (not closed and decimal_of(before) == number)
