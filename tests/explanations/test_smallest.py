"""Smallest reasons: the fewest columns that are enough, against all subsets and on models of real size."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from xgboost import XGBClassifier

import treeproof as tp
from tests.support import judged_reasons
from tests.support.enumerated import every_library, fewest_that_hit
from tests.support.golden import needs_golden
from tests.support.random_blocks import block
from tests.support.relation_questions import question


@pytest.mark.parametrize("library", every_library())
def test_as_few_columns_as_all_subsets_allow(library: str) -> None:
    small = every_library()[library]()
    some = small.some(12)
    found = tp.explain(small.model, small.table(some), kind="smallest")
    names = list(found.about.unit)
    for x, one in zip(some, found, strict=True):
        flips = small.flips(x)
        kept = frozenset(map(names.index, one.columns))
        assert all(kept & moved for moved in flips)
        assert one.minimal
        assert len(kept) == fewest_that_hit(flips, len(names))


@pytest.mark.parametrize("budget", [1, 2])
def test_columns_to_freeze_against_an_attacker_who_changes_few(budget: int) -> None:
    small = every_library()["lightgbm"]()
    some = small.some(12)
    found = tp.explain(small.model, small.table(some), kind="smallest", attacker=tp.Attacker.l0(budget))
    assert {len(one.columns) for one in found} != {0}
    for x, one in zip(some, found, strict=True):
        flips = small.flips(x, lambda moved: moved.sum() <= budget)
        assert all(set(one.columns) & moved for moved in flips)
        assert one.minimal and len(one.columns) == fewest_that_hit(flips, 5)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 5, 10, 15, 20, 25, 30, 35, 40, 50, 55])
def test_random_questions(number: int) -> None:
    """Every kind of attacker, relations and one-hot groups, categories and missing values."""
    random = Random(number)
    if number % 2:
        counts = judged_reasons.judge_question(question(number), random, ("smallest",))
    else:
        counts = judged_reasons.judge_block(block(0, number // 2), random, 4, ("smallest",))
    assert counts["OPEN"] == 0


@pytest.fixture(scope="module")
def cancer() -> tuple[XGBClassifier, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return XGBClassifier(n_estimators=40, max_depth=3, n_jobs=1).fit(X[::2], y[::2]), X[1::2]


def test_no_random_row_that_keeps_the_columns_has_another_label(cancer: tuple[XGBClassifier, np.ndarray]) -> None:
    clf, X = cancer
    random = np.random.default_rng(0)
    found = tp.explain(clf, X[:6], kind="smallest")
    reasons = tp.explain(clf, X[:6])
    assert sum(len(one.columns) for one in found) < sum(len(one.columns) for one in reasons)
    for x, one, reason in zip(X, found, reasons, strict=False):
        assert one.minimal and len(one.columns) <= len(reason.columns)
        others = X[random.integers(len(X), size=1000)].copy()
        for f in range(len(x)):
            random.shuffle(others[:, f])
        others[:, list(one.columns)] = x[list(one.columns)]
        assert (clf.predict(others) == one.label).all()


def test_when_time_is_up_what_is_known_is_enough_but_not_proved_smallest(
    cancer: tuple[XGBClassifier, np.ndarray],
) -> None:
    clf, X = cancer
    (one,) = tp.explain(clf, X[:1], kind="smallest", timeout=0)
    assert len(one.columns) == X.shape[1]
    assert not one.minimal


def test_nothing_is_needed_where_no_row_has_another_label() -> None:
    X = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    clf = XGBClassifier(n_estimators=2, max_depth=1, n_jobs=1).fit(X, np.arange(8) > 0)
    assert len(set(clf.predict(X))) == 1
    (one,) = tp.explain(clf, X[:1], kind="smallest")
    assert one.columns == () and one.minimal


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("name", ["wdbc", "vowel"])
def test_fewer_columns_than_in_published_reasons(name: str) -> None:
    folder = Path(os.environ["TREEPROOF_GOLDEN"], "models", "xreason")
    published = json.loads((folder / f"{name}.rows.json").read_text())
    model = tp.load_model(folder / f"{name}.json")
    found = tp.explain(model, np.array(published["rows"][:20], dtype=float), kind="smallest")
    sizes = [len(one.columns) for one in found]
    assert all(one.minimal for one in found)
    assert all(size <= other for size, other in zip(sizes, published["maxsat_size"], strict=False))
    assert sum(sizes) < sum(published["maxsat_size"][:20])
