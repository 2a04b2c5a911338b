"""What users may say about one column: values, steps, matrices and rules, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treeproof as tp
from treeproof.threat.moves import CostMatrix, as_column_cost, reaches_step


def test_values_keep_their_order_and_come_once() -> None:
    assert tp.values("b", "a", "b").values == ("b", "a")
    assert repr(tp.values(np.int64(3), 1.5)) == "values(3, 1.5)"


@pytest.mark.parametrize("step", [0.1, "0.1", Decimal("0.1"), np.float64(0.1)])
def test_steps_are_decimals_however_they_are_given(step: Any) -> None:
    moves = tp.steps(-0.3, 0.3, step)
    assert moves.step == Fraction(1, 10)
    assert repr(moves) == "steps(-0.3, 0.3, 0.1)"


@given(st.integers(-60, 60), st.integers(-60, 60), st.integers(1, 70))
def test_a_step_is_reached_if_some_whole_number_of_steps_lies_in_the_range(a: int, b: int, step: int) -> None:
    low, high = sorted((a / 10, b / 10))
    size = Fraction(step, 10)
    reached = any(k and round(low * 10) <= k * step <= round(high * 10) for k in range(-70, 71))
    assert reaches_step(low, high, size) == reached


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.steps(-6, 6, 0), "step must be above 0, got 0"),
        (lambda: tp.steps(-6, 6, -1), "step must be above 0, got -1"),
        (lambda: tp.steps(-6, 6, "1/3"), "step must be a finite number, got '1/3'"),
        (lambda: tp.steps(-6, 6, math.nan), "step must be a finite number, got nan"),
        (lambda: tp.steps(-2, 2, 5), "no whole number of steps of 5 lies between -2.0 and 2.0, but 0"),
        (lambda: tp.steps(0.1, 0.2, 0.3), "no whole number of steps of 0.3 lies between"),
        (lambda: tp.steps(2, -2, 1), "is empty: its low end is above its high end"),
        (lambda: tp.values(), "there are no values"),
        (lambda: tp.values("a", None), "a missing value is not one to change to; blank= makes values missing"),
        (lambda: tp.values(math.nan), "a missing value is not one to change to"),
        (lambda: tp.values(math.inf), "inf is not a value of any row"),
        (lambda: tp.values([1, 2]), r"\[1, 2\] is not a value of a column"),
        (lambda: tp.Rule("age"), "the rule of column 'age' needs one of change=, for numbers, and to="),
        (lambda: tp.Rule("age", change=1, to="x"), "needs one of change="),
        (lambda: tp.Rule(1.5, change=1), "features are given by name or index, got 1.5"),
        (lambda: tp.Rule("age", change=0), "adds 0, which changes nothing"),
        (lambda: tp.Rule("age", change=(2, 1)), r"change \(2, 1\) is empty"),
        (lambda: tp.Rule("age", change=math.inf), "change must be a finite number, got inf"),
        (lambda: tp.Rule("age", change="more"), "change must be a finite number, got 'more'"),
        (lambda: tp.Rule("age", when={"a"}, change=1), r"adds to numbers, so when= is a range \(low, high\)"),
        (lambda: tp.Rule("age", when=(5, 4), change=1), "when .* is empty"),
        (lambda: tp.Rule("job", when=(0, 1), to="x"), "leads to a category, so when= is a set of categories"),
        (lambda: tp.Rule("job", when="cook", to="x"), "leads to a category, so when= is a set of categories"),
        (lambda: tp.Rule("job", when=set(), to="x"), "there are no values"),
        (lambda: tp.Rule("job", to="x", cost=0), "cost must be at least 1, since it can be applied again, got 0"),
        (lambda: tp.Rule("job", to="x", cost=0.5), "cost must be a whole number from 0 to"),
        (lambda: as_column_cost({"car": 1}, "cost"), r"a matrix is \{\(from, to\): cost\}, got the key 'car'"),
        (lambda: as_column_cost({("car", "car"): 1}, "cost"), "'car' to 'car' is no change; leave it out"),
        (lambda: as_column_cost({}, "cost"), "the matrix allows no change"),
        (lambda: as_column_cost({("a", "b"): 0.5}, "cost"), "'a' to 'b', must be a whole number"),
    ],
)
def test_what_means_nothing_is_refused(make: Any, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        make()


def test_rules_say_what_they_are() -> None:
    assert repr(tp.Rule("age", change=-2)) == "Rule('age', change=-2, cost=1)"
    assert repr(tp.Rule(3, when={"b", "a"}, to="c", cost=2)) == "Rule(3, when=('a', 'b'), to='c', cost=2)"
    assert tp.Rule("a", change=(0.1, "0.2")).change == (Fraction(1, 10), Fraction(1, 5))


def test_a_matrix_may_be_a_data_frame() -> None:
    frame = pd.DataFrame([[0, 1, np.nan], [3, 0, 2]], index=["car", "radio"], columns=["car", "radio", "tv"])
    expected = CostMatrix((("car", "radio", 1), ("radio", "car", 3), ("radio", "tv", 2)))
    assert as_column_cost(frame, "cost") == expected
    assert as_column_cost({("car", "radio"): 1, ("radio", "car"): 3, ("radio", "tv"): 2}, "cost") == expected


def test_rules_are_no_values_of_columns() -> None:
    rule = tp.Rule("job", when={"clerk"}, to="none")
    for moves in ([rule], {"job": [rule]}):
        with pytest.raises(tp.InvalidInput, match=r"give rules to tp\.Attacker\.rules"):
            tp.Attacker(moves)
