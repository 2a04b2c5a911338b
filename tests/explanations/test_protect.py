"""What to protect: against all sets of columns, labels from the library's own predict."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support import judged_protection
from tests.support.clock import press_ctrl_c, until
from tests.support.enumerated import VALUES, Enumerated, every_library, of_numbers, subsets
from tests.support.random_blocks import block
from tests.support.relation_questions import question
from treeproof.explanations import protect


class Judged:
    """Rows of a small model with labels, one in eight of them wrong, and what an attacker of few columns flips."""

    def __init__(self, small: Enumerated, budget: int, n: int = 24) -> None:
        self.small, self.places = small, small.some(n)
        self.X, own = small.table(self.places), np.array([small.label_of(x) for x in self.places])
        other = np.array([next(label for label in np.unique(small.labels) if label != one) for one in own])
        self.right = np.arange(n) % 8 != 3
        self.y = np.where(self.right, own, other)
        self.flips = [small.flips(x, lambda moved: moved.sum() <= budget) for x in self.places]

    def share(self, protected: frozenset[int]) -> Fraction:
        """Of rows that are right and cannot be flipped without what is protected."""
        hold = [
            right and all(moved & protected for moved in flips)
            for right, flips in zip(self.right, self.flips, strict=True)
        ]
        return Fraction(sum(hold), len(hold))

    def least(self, to: float, costs: list[Fraction]) -> Fraction:
        """What it costs to reach a share, by all sets of columns."""
        n = len(self.small.values)
        enough = [some for some in subsets(n) if self.share(some) >= Fraction(str(to))]
        return min(sum((costs[f] for f in some), Fraction(0)) for some in enough)


def check(judged: Judged, found: tp.Protection, names: list[Any], costs: list[Fraction], to: float) -> None:
    protected = frozenset(map(names.index, found.columns))
    assert found.exact
    assert Fraction(str(found.cost)) == Fraction(str(found.least)) == judged.least(to, costs)
    assert sum(costs[f] for f in protected) == judged.least(to, costs)
    assert float(found.share) == float(judged.share(protected)) >= to
    for columns, share in found.curve:
        assert float(share) == float(judged.share(frozenset(map(names.index, columns))))
    assert found.curve[0].columns == ()
    assert float(found.curve[-1].share) >= to


@pytest.mark.parametrize("library", ["lightgbm", "lightgbm of words", "scikit-learn of words", "xgboost", "catboost"])
def test_as_few_columns_as_all_sets_allow(library: str) -> None:
    small = every_library()[library]()
    judged = Judged(small, budget=2)
    names = list(judged.X.columns) if hasattr(judged.X, "columns") else list(range(5))
    sizes = set()
    for to in (0.1, 0.3, 0.5, 0.7, 0.875):
        found = tp.protect(small.model, judged.X, judged.y, tp.Attacker.l0(2), to=to)
        check(judged, found, names, [Fraction(1)] * 5, to)
        sizes.add(len(found.columns))
    assert len(sizes) >= 2


def test_costs_that_are_not_whole() -> None:
    small = every_library()["lightgbm"]()
    judged, costs = Judged(small, budget=5), {0: 0.1, 1: 0.25, 3: 7}
    prices = [Fraction(str(costs.get(f, 1))) for f in range(5)]
    for to in (0.2, 0.4, 0.6, 0.875):
        found = tp.protect(small.model, judged.X, judged.y, tp.Attacker(tp.ANY), to=to, costs=costs)
        check(judged, found, list(range(5)), prices, to)


def test_two_workers_find_what_one_does() -> None:
    small = every_library()["lightgbm"]()
    judged = Judged(small, budget=2, n=200)
    asked = {"model": small.model, "X": judged.X, "y": judged.y, "attacker": tp.Attacker.l0(2), "to": 0.6}
    one, two = tp.protect(**asked), tp.protect(**asked, n_jobs=2)
    assert two.exact and (one.cost, one.columns) == (two.cost, two.columns)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(24))
def test_random_questions(number: int) -> None:
    """Every kind of attacker, neighbours, relations and one-hot groups, categories and missing values."""
    if number % 2:
        judged_protection.judge_question(question(number), Random(number))
    else:
        judged_protection.judge_block(block(0, number // 2), Random(number))


def test_a_one_hot_group_is_one_column() -> None:
    random = np.random.default_rng(0)
    codes, amount = random.integers(0, 3, 400), random.integers(0, 4, 400).astype(float)
    X = np.column_stack([codes == 0, codes == 1, codes == 2, amount]).astype(float)
    clf = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, (codes == 1) ^ (amount > 2))
    one = tp.one_of(0, 1, 2, name="purpose")
    y = clf.predict(X)
    attacker = tp.Attacker({0: tp.steps(-1, 1, 1), 1: tp.steps(-1, 1, 1), 2: tp.steps(-1, 1, 1), 3: (-3, 3)})
    found = tp.protect(clf, X[:60], y[:60], attacker, to=1.0, relations=[one])
    assert found.columns == ("purpose", 3)
    assert "purpose" in found.in_words()[0]
    with pytest.raises(tp.InvalidInput, match="name that group"):
        tp.protect(clf, X[:60], y[:60], attacker, relations=[one], costs={1: 3})
    cheap = tp.protect(clf, X[:60], y[:60], attacker, to=1.0, relations=[one], costs={"purpose": 3})
    assert cheap.cost == 4


@pytest.fixture(scope="module")
def cancer() -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return RandomForestClassifier(15, max_depth=4, random_state=0).fit(X[::2], y[::2]), X[1::2][:60], y[1::2][:60]


@pytest.mark.parametrize("epsilon", [None, 0.01])
def test_what_is_protected_is_what_verify_finds_without_these_columns(
    cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray], epsilon: float | None
) -> None:
    """An attacker of the other columns only is one who must not touch those that are protected."""
    clf, X, y = cancer
    found = tp.protect(clf, X, y, tp.Attacker.linf(0.1), epsilon=epsilon, to=0.7)
    others = {f: (-0.1, 0.1) for f in range(X.shape[1]) if f not in found.columns}
    result = tp.verify(clf, X, y, tp.Attacker(others), epsilon=epsilon)
    share = result.robustness if epsilon is None else result.resilience
    assert found.exact and found.columns
    assert share == found.share and float(found.share) >= 0.7
    assert found.accuracy == result.accuracy


def test_nothing_needs_protection_from_a_weak_attacker(
    cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray],
) -> None:
    clf, X, y = cancer
    found = tp.protect(clf, X, y, tp.Attacker.linf(1e-9), to=0.85)
    assert (found.columns, found.cost, found.least, found.exact) == ((), 0, 0, True)
    assert found.in_words()[0].startswith("Nothing needs protection")


@pytest.mark.parametrize("key", [True, 1.0])
def test_what_only_equals_the_number_of_a_column_names_none(
    key: Any, cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray]
) -> None:
    clf, X, y = cancer
    with pytest.raises(tp.InvalidInput, match=f"features are given by name or index, got {key!r}"):
        tp.protect(clf, X, y, tp.Attacker.linf(0.1), to=0.1, costs={key: 2})


def test_a_goal_above_the_accuracy_is_refused(cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray]) -> None:
    clf, X, y = cancer
    right = int((clf.predict(X) == y).sum())
    assert right < 60
    with pytest.raises(tp.InvalidInput, match=f"right about {right} of 60 rows"):
        tp.protect(clf, X, y, tp.Attacker.linf(0.1), to=1.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"to": 1.5}, "from 0 to 1, got 1.5"),
        ({"to": math.nan}, "to must be a finite number"),
        ({"costs": {0: 0}}, "the cost of 0 must be more than 0"),
        ({"costs": [1, 2]}, "costs is a mapping"),
        ({"costs": {0: 1e-300}}, "round them"),
        ({"costs": {99: 1}}, "99"),
    ],
)
def test_what_cannot_be_asked(
    cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray], words: dict[str, Any], message: str
) -> None:
    clf, X, y = cancer
    with pytest.raises(tp.InvalidInput, match=message):
        tp.protect(clf, X, y, tp.Attacker.linf(0.1), **({"to": 0.8} | words))


def test_when_time_is_up_all_columns_are_named_and_nothing_is_proved(
    cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray],
) -> None:
    clf, X, y = cancer
    attacker = tp.Attacker({0: (-0.1, 0.1), 7: (0.0, 0.5)})
    found = tp.protect(clf, X, y, attacker, to=0.85, max_seconds=0)
    assert found.columns == (0, 7)
    assert found.least == 0 and not found.exact
    assert float(found.share) == found.accuracy
    assert "at least 0 columns" in found.in_words()[1]


def test_rows_without_time_leave_the_proof_open(cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray]) -> None:
    clf, X, y = cancer
    found = tp.protect(clf, X, y, tp.Attacker.linf(0.1), to=0.85, timeout=0)
    assert not found.exact and found.least == 0
    assert len(found.columns) == X.shape[1] and float(found.share) == found.accuracy
    assert found.curve[0].share.lower == 0.0 and found.curve[-1].columns == found.columns


def test_ctrl_c_keeps_what_is_known(
    cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    clf, X, y = cancer
    prove = protect._Search._prove

    def interrupted(search: Any) -> None:
        press_ctrl_c()
        until(search.limits.is_over)
        prove(search)

    monkeypatch.setattr(protect._Search, "_prove", interrupted)
    found = tp.protect(clf, X, y, tp.Attacker.linf(0.25), epsilon=0.01, to=0.85)
    assert found.interrupted
    assert found.least <= found.cost
    assert found.share.lower >= 0.85


def test_its_json_has_all_of_it(cancer: tuple[RandomForestClassifier, np.ndarray, np.ndarray], tmp_path: Any) -> None:
    clf, X, y = cancer
    found = tp.protect(clf, X, y, tp.Attacker.linf(0.1), to=0.7)
    content = json.loads(found.to_json(tmp_path / "protection.json"))
    assert json.loads((tmp_path / "protection.json").read_text()) == content
    assert content["columns"] == list(found.columns)
    assert content["share"] == [found.share.lower, found.share.upper]
    assert (content["cost"], content["least"], content["exact"]) == (found.cost, found.least, True)
    assert [step["columns"] for step in content["curve"]] == [list(step.columns) for step in found.curve]


def test_rows_with_missing_values_are_named() -> None:
    from xgboost import XGBClassifier

    small = of_numbers(XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1), 1)
    X = np.array(small.table(small.some(20)))
    y = small.model.predict(X)
    X[::5, 0] = np.nan
    y = small.model.predict(X)
    found = tp.protect(small.model, X, y, tp.Attacker(dict.fromkeys(range(5), (0, VALUES[-1]))), to=0.8)
    assert found.rows_with_missing == 4
    assert "missing" in found.in_words()[-1]
