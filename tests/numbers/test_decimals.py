"""Doubles as the decimals that they print as."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeproof as tp
from treeproof.numbers.decimals import decimal_of, parse_decimal, plain_decimal


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
