"""Contrastive sets: the fewest columns whose change can give another label, against all subsets."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import treeproof as tp
from tests.support import judged_reasons
from tests.support.enumerated import Enumerated, every_library
from tests.support.random_blocks import block
from tests.support.relation_questions import question
from treeproof.explanations.questions import Found, Questions
from treeproof.explanations.smallest import contrastive
from treeproof.results.verdicts import Outcome


@pytest.mark.parametrize("library", every_library())
def test_as_few_changes_as_all_subsets_allow(library: str) -> None:
    small = every_library()[library]()
    some = small.some(12)
    table = small.table(some)
    found = tp.explain(small.model, table, kind="contrastive")
    names = list(found.about.unit)
    for x, one in zip(some, found, strict=True):
        changed = frozenset(map(names.index, one.columns))
        assert one.minimal
        assert changed in small.flips(x)
        assert len(changed) == min(map(len, small.flips(x)))
        assert one.changed_label != one.label


def priced(small: Enumerated, x: np.ndarray, costs: list[int], budget: int) -> set[frozenset[int]]:
    """What changes in rows with another label that the attacker can pay for."""
    return small.flips(x, lambda moved: int(np.array(costs)[moved].sum()) <= budget)


def test_columns_that_cost_more_than_others() -> None:
    """There, the cheapest attack need not be the one with the fewest columns."""
    small = every_library()["lightgbm"]()
    some, costs = small.some(25), [3, 1, 1, 2, 1]
    attacker = tp.Attacker(tp.ANY, costs=dict(enumerate(costs)), budget=3)
    found = tp.explain(small.model, small.table(some), kind="contrastive", attacker=attacker)
    sizes = []
    for x, one in zip(some, found, strict=True):
        flips = priced(small, x, costs, 3)
        assert one.minimal
        assert len(one.columns) == min(map(len, flips), default=0)
        assert not flips or frozenset(one.columns) in flips
        sizes.append(len(one.columns))
    assert {1, 2} <= set(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 6, 11, 16, 26, 31, 36, 41, 46, 56])
def test_random_questions(number: int) -> None:
    """Every kind of attacker, relations and one-hot groups, categories and missing values."""
    random = Random(number)
    if number % 2:
        counts = judged_reasons.judge_question(question(number), random, ("contrastive",))
    else:
        counts = judged_reasons.judge_block(block(0, number // 2), random, 4, ("contrastive",))
    assert counts["OPEN"] == 0


def asked_in_no_time(attacker: tp.Attacker) -> Found:
    """A contrastive set of a row when time is up before anything is asked."""
    from treeproof.run.limits import Limits

    small = every_library()["xgboost"]()
    model = tp.from_model(small.model)
    X = np.asarray(small.table(small.places[:1]))
    questions = Questions(model, attacker.bind(model), X, Limits.of(max_seconds=0))
    return contrastive(questions, np.arange(5))[0]


@pytest.mark.parametrize("attacker", [tp.Attacker(tp.ANY), tp.Attacker(tp.ANY, costs={0: 3}, budget=4)])
def test_nothing_is_said_when_there_was_no_time(attacker: tp.Attacker) -> None:
    found = asked_in_no_time(attacker)
    assert found.outcome == Outcome.UNKNOWN
    assert not found.minimal and not found.units.any() and found.other is None


def test_none_where_no_change_flips() -> None:
    small = every_library()["xgboost"]()
    (one,) = tp.explain(
        small.model, small.table(small.places[:1]), kind="contrastive", attacker=tp.Attacker({0: (0.0, 0.25)})
    )
    assert one.columns == () and one.minimal and one.changed is None
