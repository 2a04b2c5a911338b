"""The door to explanations: names, values, limits, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.applicants import applicants
from tests.support.clock import Clock
from tests.support.loans import RELATIONS, is_valid, loans
from treeproof._kernels import compiling
from treeproof.explanations.bound import Bound
from treeproof.results.asked import OneOf, Range
from treeproof.results.verdicts import Outcome


def rows(*given: list[Any]) -> np.ndarray:
    return np.array(given, dtype=np.float64)


GOOD = [5.0, 12.0, 1.0, 30.0, 2.0]
"""A high income, and a radio."""


def test_names_values_and_labels_are_the_users() -> None:
    one = tp.explain(applicants(), rows(GOOD))[0]
    assert (one.columns, one.label, one.outcome, one.minimal) == (("income", "purpose"), "good", Outcome.PROVED, True)
    assert one.ranges == {"income": Range(5.0, 5.0), "purpose": OneOf(["radio"])}


def test_positions_stand_for_names() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], ["no", "yes"])
    assert tp.explain(clf, [[0.25, 3.0]])[0].columns == (0,)


def test_a_domain_that_decides_leaves_nothing_to_say() -> None:
    domain = {"income": (3.0, 9.0)}
    assert tp.explain(applicants(), rows(GOOD), domain=domain)[0].columns == ("purpose",)


def test_present_values_become_missing_only_where_that_is_said() -> None:
    low = [1.0, 12.0, 0.0, 30.0, 2.0]
    # A car is refused whatever the income, unless that may be missing.
    words: dict[str, Any] = {"order": ["purpose"], "domain": {"income": (0.0, 9.0)}}
    assert tp.explain(applicants(), rows(low), **words)[0].columns == ("purpose",)
    found = tp.explain(applicants(), rows(low), missing=["income"], **words)
    assert found[0].columns == ("income",) and found.about.missing == ("income",)


def test_what_is_missing_may_become_anything() -> None:
    one = tp.explain(applicants(), rows([math.nan, 12.0, 1.0, 30.0, 2.0]))[0]
    assert (one.label, one.columns) == ("unclear", ("income",))
    assert math.isnan(one.ranges["income"][0])


def test_order_says_what_is_wanted_most() -> None:
    data = loans()
    X = data.X[:3]
    wanted = ["max_30d", "max_12m", "loans", "p_other", "p_radio", "p_car"]
    for kept, other in zip(tp.explain(data.forest, X, order=wanted), tp.explain(data.forest, X), strict=True):
        assert kept.minimal and other.minimal
    # A column alone in the order is dropped last.
    for name in data.X.columns:
        assert all(one.minimal for one in tp.explain(data.forest, X, order=[name]))


def test_groups_are_one_column_and_relations_bind() -> None:
    data = loans()
    X = data.X[[row not in (3, 5, 11) for row in range(len(data.X))]][:12]
    free, bound = tp.explain(data.forest, X), tp.explain(data.forest, X, relations=RELATIONS)
    names = {"purpose", "max_12m", "max_30d", "loans"}
    assert all(set(one.columns) <= names for one in bound)
    assert sum(len(one.columns) for one in bound) < sum(len(one.columns) for one in free)
    rng = np.random.default_rng(0)
    for place, one in enumerate(bound):
        own = X.iloc[place].to_numpy()
        others = np.column_stack((np.eye(3)[rng.integers(3, size=3000)], rng.integers(-1, 10, (3000, 3))))
        for f, name in enumerate(["purpose", None, None, "max_12m", "max_30d", "loans"]):
            if name in one.columns:
                others[:, f : f + 3 if f == 0 else f + 1] = own[f : f + 3 if f == 0 else f + 1]
        valid = others[[is_valid(row) for row in others]]
        assert (data.forest.predict(pd.DataFrame(valid, columns=X.columns)) == one.label).all()


def test_a_frame_keeps_its_index_and_workers_change_nothing() -> None:
    data = loans()
    X = data.X[:40].set_axis([f"applicant {n}" for n in range(40)])
    alone, two = tp.explain(data.forest, X, n_jobs=1), tp.explain(data.forest, X, n_jobs=2)
    assert [one.columns for one in alone] == [one.columns for one in two]
    assert alone[7].index == "applicant 7" and alone[7].row == 7
    assert alone.counts == two.counts and sum(alone.counts.values()) == sum(len(one.columns) for one in alone)


def test_without_time_all_columns_are_enough_and_nothing_more_is_said() -> None:
    data = loans()
    for words in ({"timeout": 0.0}, {"max_seconds": 0.0}):
        found = tp.explain(data.forest, data.X[:30], inflate=True, **words)
        assert all(one.outcome == Outcome.PROVED and not one.minimal for one in found)
        assert all(one.columns == tuple(data.X.columns) for one in found)
        for one in found:
            # No test tells a value from others of its cell, so much is known without any search.
            own = data.X.iloc[one.row]
            assert all(ends[0] <= own[name] <= ends[1] for name, ends in one.ranges.items())


def test_some_time_leaves_sufficient_sets(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    from treeproof.verification.local_search import Local

    X = np.random.default_rng(0).normal(size=(300, 12))
    forest = RandomForestClassifier(60, random_state=0).fit(X, X[:, :4].sum(axis=1) > 0)
    monkeypatch.setattr(Local, "patience", 1)
    full = tp.explain(forest, X[:2])
    clock.per_look = 0.01
    cut = tp.explain(forest, X[:2], timeout=0.05)
    for one, less in zip(full, cut, strict=True):
        assert one.minimal and (set(one.columns) == set(less.columns) if less.minimal else len(less.columns) > 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"kind": "why"}, "kind is one of 'reason', 'smallest', 'contrastive', got 'why'"),
        ({"inflate": True, "attacker": tp.Attacker.linf(1)}, "an attacker says how far values go"),
        ({"domain": (0, 1), "attacker": tp.Attacker.linf(1)}, "domain= is for explanations without an attacker"),
        ({"missing": ["income"], "attacker": tp.Attacker.linf(1)}, "missing= is for explanations without"),
        ({"domain": {"income": (6, 9)}}, "lies outside the domain"),
        ({"domain": "wide"}, r"domain is a pair of numbers, \(low, high\), got 'wide'"),
        ({"domain": {"income": (0, "a")}}, "domain of 'income' is a pair of numbers"),
        ({"missing": ["age"]}, "missing names column 'age', where the model takes no missing values"),
        ({"order": "income"}, "order is a list of columns"),
        ({"order": ["income", "income"]}, "order names 'income' twice"),
        ({"order": ["incme"]}, "incme"),
        ({"relations": ["income <= 3"]}, "row 0 breaks the relation 'income <= 3'"),
        ({"order": ["income"], "kind": "contrastive"}, "order says which columns are wanted in a reason"),
        ({"inflate": "yes"}, "inflate is True or False, got 'yes'"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers"),
        ({"timeout": -1}, "timeout must be at least 0"),
    ],
)
def test_what_makes_no_sense_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.explain(applicants(), rows(GOOD), **words)


@pytest.mark.parametrize("X", [None, "income", {"income": 5.0}])
def test_what_is_no_table_is_refused(X: Any) -> None:
    with pytest.raises(
        tp.InvalidInput, match=f"X is a table of rows, an array or a data frame, got {type(X).__name__};"
    ):
        tp.explain(applicants(), X)


def test_no_rows_are_refused() -> None:
    with pytest.raises(tp.InvalidInput, match="X has no rows"):
        tp.explain(applicants(), np.empty((0, 5)))


@pytest.mark.parametrize("kind", ["reason", "smallest"])
def test_compiling_takes_nothing_of_the_time_of_a_row(kind: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, X = RandomForestClassifier(5, max_depth=4, random_state=0), np.random.default_rng(0).normal(size=(60, 4))
    clf.fit(X, X[:, 0] * X[:, 1] > 0)
    known = tp.explain(clf, X[:3], kind=kind)
    asked = []

    def after_compiling(loop: Any) -> Any:
        def run(*given: Any) -> Any:
            asked.append(1)
            for change in (1, -1):
                for watcher in compiling.watchers:
                    watcher(change)
                clock.add(30.0 if change == 1 else 0.0)
            return loop(*given)

        return run

    for name in ("_ask", "drop"):
        monkeypatch.setattr(Bound, name, after_compiling(getattr(Bound, name)))
    found = tp.explain(clf, X[:3], kind=kind, timeout=2)
    assert asked
    assert [(one.columns, one.outcome, one.minimal) for one in found] == [
        (one.columns, one.outcome, one.minimal) for one in known
    ]
