"""Proposed columns hit what is known, and nothing cheaper does: against all subsets."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeproof.explanations.hitting import HittingSets


def never() -> bool:
    return False


def mask(columns: frozenset[int], n: int) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(n), list(columns))


def cost_of(columns: frozenset[int], costs: list[int]) -> int:
    return sum(costs[column] for column in columns)


def misses(columns: frozenset[int], sets: list[tuple[frozenset[int], int]]) -> set[int]:
    """The rows with a set that is not hit."""
    return {row for some, row in sets if not some & columns}


def least_by_all_subsets(sets: list[tuple[frozenset[int], int]], costs: list[int], may_miss: int) -> int:
    every = itertools.chain.from_iterable(
        itertools.combinations(range(len(costs)), size) for size in range(len(costs) + 1)
    )
    return min(cost_of(frozenset(some), costs) for some in every if len(misses(frozenset(some), sets)) <= may_miss)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[tuple[frozenset[int], int]], list[int], int, int]:
    """Sets of rows, costs of columns, the number of rows, and how many of them may be missed."""
    n = draw(st.integers(1, 7))
    n_rows = draw(st.integers(1, 5))
    some = st.frozensets(st.integers(0, n - 1), min_size=1, max_size=n)
    sets = draw(st.lists(st.tuples(some, st.integers(0, n_rows - 1)), min_size=1, max_size=14))
    costs = draw(st.one_of(st.just([1] * n), st.lists(st.integers(1, 9), min_size=n, max_size=n)))
    return sets, costs, n_rows, draw(st.integers(0, n_rows))


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(problems())
def test_the_first_columns_that_miss_nothing_are_the_cheapest(
    problem: tuple[list[tuple[frozenset[int], int]], list[int], int, int],
) -> None:
    sets, costs, n_rows, may_miss = problem
    hitting = HittingSets(np.array(costs, dtype=np.int64), n_rows, may_miss)
    for _ in range(len(sets) + 1):
        proposed = hitting.propose(never)
        assert proposed is not None
        columns = frozenset(np.flatnonzero(proposed).tolist())
        assert cost_of(columns, costs) <= hitting.least
        missed = misses(columns, sets)
        if len(missed) <= may_miss:
            assert cost_of(columns, costs) == hitting.least == least_by_all_subsets(sets, costs, may_miss)
            return
        # As in use: one set of each row that is missed becomes known; those that were known are hit.
        for row in missed:
            some = next(some for some, own in sets if own == row and not some & columns)
            hitting.add(mask(some, len(costs)), row)
    raise AssertionError("a set was missed that had been named")


def test_more_columns_than_bits_in_a_word() -> None:
    hitting = HittingSets(np.ones(200, dtype=np.int64))
    pairs = [frozenset({column, 199 - column}) for column in range(0, 100, 7)]
    for pair in pairs:
        hitting.add(mask(pair, 200))
    proposed = hitting.propose(never)
    assert proposed is not None
    assert all(proposed[list(pair)].any() for pair in pairs)
    assert proposed.sum() == hitting.least == len(pairs)


@pytest.mark.parametrize("below", [0, 1, 3])
def test_nothing_is_proposed_at_or_above_a_cost(below: int) -> None:
    hitting = HittingSets(np.array([3, 4], dtype=np.int64))
    hitting.add(np.array([True, True]))
    assert hitting.propose(never, below=below) is None
    assert hitting.least == (0 if below == 0 else 3)


def test_nothing_is_proposed_when_time_is_up() -> None:
    assert HittingSets(np.ones(2, dtype=np.int64)).propose(lambda: True) is None
