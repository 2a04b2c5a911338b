"""Explanations equal their definitions: all subsets of columns of tiny models, everything that rows can become.

`python -m tests.fuzz_explanations` asks the same of many more questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import treeproof as tp
from tests.fuzz_explanations import KINDS, check, counted
from tests.support import judged_changes, judged_protection, judged_reasons
from tests.support.adapters import as_attacker
from tests.support.fast_oracle import TooManyPairs
from tests.support.made_rows import Anybody, Labels, plain_rows
from tests.support.random_blocks import Block, block
from tests.support.strategies import Case, cases

SEED = 77


def _plain(judge: Callable[[Block, Random], Counter[str]], numbers: range) -> Counter[str]:
    """What is counted over blocks; those with too many rows are left out."""
    counts: Counter[str] = Counter()
    for number in numbers:
        counts += counted(lambda number=number: judge(block(SEED, number), Random(number)))
    assert not counts["OPEN"], counts
    assert counts["too many rows"] < len(numbers) / 2
    return counts


@pytest.mark.slow
def test_reasons_ranges_smallest_reasons_and_contrastive_sets() -> None:
    counts = _plain(lambda asked, random: judged_reasons.judge_block(asked, random, 3, KINDS), range(40))
    assert min(counts[kind] for kind in ("reason", "ranges", "smallest", "contrastive")) > 50


@pytest.mark.slow
def test_cheapest_changes_and_those_that_need_other_columns() -> None:
    counts = _plain(lambda asked, random: judged_changes.judge_block(asked, random, 4, epsilon=False), range(60))
    assert min(counts["found"], counts["impossible"]) > 30


@pytest.mark.slow
def test_cheapest_changes_that_hold_in_a_neighbourhood() -> None:
    counts = _plain(lambda asked, random: judged_changes.judge_block(asked, random, 2, epsilon=True), range(40))
    assert min(counts["found"], counts["impossible"]) > 10


@pytest.mark.slow
def test_the_cheapest_columns_to_protect() -> None:
    counts = _plain(judged_protection.judge_block, range(40))
    assert counts["protections that need columns"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("number", range(77_000_001, 77_000_041, 2))
def test_categories_relations_groups_missing_values_and_attackers_of_every_kind(number: int) -> None:
    counts = check(number)
    assert not counts["OPEN"], counts


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_a_reason_is_sufficient_and_minimal_whatever_the_model(case: Case) -> None:
    ensemble, x = case.ensemble, case.x
    columns, labels = judged_reasons.Columns.of(ensemble), Labels(ensemble)
    worlds = [
        (Anybody(ensemble, x, {}).explained, {}),
        (plain_rows(ensemble, case.attacker, x, labels), {"attacker": as_attacker(case.attacker)}),
    ]
    for world, words in worlds:
        for kind in ("reason", "smallest", "contrastive"):
            one = tp.explain(ensemble, np.array([x]), kind=kind, **words)[0]
            judged_reasons.Judge(columns, labels, x, world, complete=True).judge(kind, one, None, Counter())


def test_the_definitions_can_be_broken() -> None:
    """A reason too large, one too small, and a price too high are found out: the judges are not asleep."""
    number = next(n for n in range(100) if _has_reason(block(SEED, n)))
    asked = block(SEED, number)
    x = next(row for row in asked.rows if _reason(asked, row))
    columns, labels = judged_reasons.Columns.of(asked.ensemble), Labels(asked.ensemble)
    judge = judged_reasons.Judge(columns, labels, x, Anybody(asked.ensemble, x, {}).explained, complete=True)
    right = tp.explain(asked.ensemble, np.array([x]))[0]
    judge.judge("reason", right, None, Counter())
    for wrong, message in (((), "not sufficient"), (tuple(columns.names), "expected")):
        with pytest.raises(AssertionError, match=message):
            judge.judge("reason", _with_columns(right, wrong), None, Counter())


def _reason(asked: Block, x: tuple[float, ...]) -> bool:
    """Whether some columns, but not all, are the reason of a row without missing values."""
    if any(map(math.isnan, x)):
        return False
    try:
        found = Anybody(asked.ensemble, x, {}).explained
    except TooManyPairs:
        return False
    return all(0 < len(kept) < found.n_units for kept in found.reasons)


def _has_reason(asked: Block) -> bool:
    return any(_reason(asked, x) for x in asked.rows)


def _with_columns(one: tp.Explanation, columns: tuple[object, ...]) -> tp.Explanation:
    return replace(one, columns=columns)  # type: ignore[arg-type]
