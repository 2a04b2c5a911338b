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


LONG = ["1e-16000", "1e-100000000", "1e100000000", "1e" + "9" * 5000, "0." + "0" * 3000 + "1", "7" * 3001]


@pytest.mark.parametrize("given", [*LONG, Decimal("1e-100000000"), 10**3000, 10**5000], ids=range(9))
def test_what_has_more_digits_than_anybody_needs_is_refused_before_it_is_calculated_with(given: Any) -> None:
    for make in (
        lambda: parse_decimal(given, "step"),
        lambda: tp.Attacker((-0.1, 0.1), step=given),
        lambda: tp.steps(-1, 1, given),
        lambda: tp.Rule("hours", change=given),
        lambda: tp.Rule("hours", change=(0, given)),
    ):
        with pytest.raises(tp.InvalidInput, match="too many digits; written out, it may have 3,000"):
            make()


@pytest.mark.parametrize(
    "given", ["1e-2999", "-1e2999", "9" * 3000, "0." + "1" * 3000, "1.5e-2998", 10**3000 - 1], ids=range(6)
)
def test_what_has_just_few_enough_is_written_and_read_again(given: Any) -> None:
    value = parse_decimal(given, "step")
    assert value == Fraction(given)
    assert parse_decimal(plain_decimal(value), "step") == value


@pytest.mark.parametrize("given", ["1_000", "１", "0x10", "1e1_0", "1 0", ".", "", "e5", "+-1", "1e", "--1", "1__0"])
def test_decimals_are_written_in_one_way(given: str) -> None:
    with pytest.raises(tp.InvalidInput, match="must be a finite number"):
        parse_decimal(given, "step")


@pytest.mark.parametrize("given", ["1.", ".5", "+1", " 2 ", "-0", "00.10", "1E+2"])
def test_decimals_need_no_zeros(given: str) -> None:
    assert parse_decimal(given, "step") == Fraction(given)


def test_numbers_that_are_too_long_to_be_shown_are_refused_by_name() -> None:
    with pytest.raises(tp.InvalidInput, match=r"budget of about 2\*\*16610 is too large"):
        tp.Attacker((-0.1, 0.1), budget=10**5000)
