"""Counterfactuals, against all changes there are, and as users ask for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.changes import least_price
from tests.support.people import trained
from tests.support.random_changes import Asked, with_categories, with_groups, with_numbers


def check(asked: Asked, k: int) -> list[float]:
    """Holds the k first changes of the row against all there are; their prices."""
    found = tp.counterfactual(
        asked.model,
        asked.X,
        to=asked.to,
        attacker=asked.attacker,
        relations=asked.relations,
        epsilon=asked.epsilon,
        k=k,
    )[0]
    truth, earlier = asked.truth(), []
    names = [column.features for column in asked.columns]
    known = {2: ["b", "d"], 3: ["purpose", "rate", "years"], 4: ["a", "b", "c", "d"]}[len(names)]
    for one in (found, *found.others):
        least = asked.price(least_price(truth, earlier))
        assert one.outcome == tp.Outcome.PROVED
        assert one.price == (pytest.approx(least, rel=1e-9) if math.isfinite(least) else least)
        if one.found:
            assert one.label in asked.to and one.label == asked.model.predict(one.row)[0]
        earlier.append(frozenset(known.index(str(column)) for column in one.changes))
    if found.found and found.price > 0 and len(found.others) < k - 1:
        assert math.isinf(found.others[-1].price)
    return [one.price for one in (found, *found.others)]


@pytest.mark.parametrize("question", [with_categories, with_groups, with_numbers])
def test_prices_are_those_of_the_cheapest_of_all_changes(question: Callable[[Random, bool], Asked]) -> None:
    prices = [check(question(Random(seed), False), k=1 + 2 * (seed % 2)) for seed in range(40)]
    firsts = [one[0] for one in prices]
    assert sum(math.isinf(price) for price in firsts) >= 3 or question is with_numbers
    assert sum(0 < price < math.inf for price in firsts) >= 7
    assert sum(len(one) > 1 and math.isfinite(one[1]) for one in prices) >= 1


def loan() -> tp.Attacker:
    """Somebody who can get older, earn more, and take another job."""
    return tp.Attacker(
        {"age": (0, 10), "income": (0, 3000), "job": tp.values("clerk", "nurse", "teacher")},
        costs={"age": 4, "income": 1, "job": 2}, domain={"age": (18, 90), "income": (0, 9000)}, fill={"income": 1},
        step={"age": 1},
    )  # fmt: skip


@pytest.mark.parametrize("library", ["XGBoost", "LightGBM", "CatBoost", "HistGradientBoosting", "forest"])
def test_changes_of_frames_are_frames_that_the_library_itself_labels_as_wanted(library: str) -> None:
    model, ensemble, frame = trained(library)
    labels = np.asarray(model.predict(frame)).ravel()
    wanted = sorted(set(labels.tolist()))[-1]
    asked = frame[labels != wanted].iloc[3:15]
    found = tp.counterfactual(ensemble, asked, to=wanted, attacker=loan(), k=3)
    assert found.exact.all() and len(found) == len(asked) and sum(one.found for one in found) >= 6
    assert list(found.rows.index) == list(asked.index) and list(found.rows.columns) == list(asked.columns)
    for number, one in enumerate(found):
        own, earlier = asked.iloc[number], []
        for change in (one, *one.others):
            if not change.found:
                continue
            assert list(change.row.index) == [asked.index[number]]
            assert np.asarray(model.predict(change.row)).ravel()[0] == wanted == change.label
            after = change.row.iloc[0]
            differs = {c for c in asked if not (own[c] == after[c] or (pd.isna(own[c]) and pd.isna(after[c])))}
            assert set(change.changes) == differs
            assert all(change.changes[c][1] == after[c] for c in differs)
            assert change.price == sum({"age": 4, "income": 1, "job": 2}[c] for c in differs)
            assert not any(some <= differs for some in earlier)
            earlier.append(differs)


def test_a_row_with_the_label_needs_no_change_and_none_may_exist() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 0, 1])
    found = tp.counterfactual(
        clf, [[1.0, 1.0], [0.0, 0.0]], to=1, attacker=tp.Attacker({0: (-1, 1)}, costs={0: 2}), k=2
    )
    assert found.price.tolist() == [0.0, math.inf] and found.exact.all()
    assert found.rows.tolist() == [[1.0, 1.0], [0.0, 0.0]] and found[0].changes == found[1].changes == {}
    assert found[0].others == found[1].others == () and found[1].least == math.inf
    assert "none exists, proved" in repr(found[1]) and "1 proved to have none" in repr(found)


def test_budgets_bind_only_within() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 0, 1])
    attacker = tp.Attacker({0: (-2, 2), 1: (-2, 2)}, costs={0: 3, 1: 4}, budget=5)
    rows = [[0.0, 0.0], [0.0, 1.0]]
    assert tp.counterfactual(clf, rows, to=1, attacker=attacker).price.tolist() == [7.0, 3.0]
    assert tp.counterfactual(clf, rows, to=1, attacker=attacker, within=True).price.tolist() == [math.inf, 3.0]
    for epsilon in (0.0, 0.1):
        held = tp.counterfactual(clf, rows, to=1, attacker=attacker, within=True, epsilon=epsilon)
        assert held.price.tolist() == [math.inf, 3.0] and held.exact.all()


def test_a_wanted_probability_is_a_model_with_that_threshold() -> None:
    model, _, frame = trained("XGBoost")
    asked = frame[model.predict_proba(frame)[:, 1] < 0.5].head(6)
    sure = tp.counterfactual(tp.from_model(model, threshold=0.8), asked, to=1, attacker=loan())
    for one in sure:
        assert not one.found or model.predict_proba(one.row)[0, 1] >= 0.8


def test_free_changes_that_are_not_needed_are_left_out() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 1, 1])
    found = tp.counterfactual(clf, [[0.0, 0.0]], to=1, attacker=tp.Attacker((-2, 2), costs=0, budget=1))
    assert found.price.tolist() == [0.0] and list(found[0].changes) == [1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"to": 2}, "to names 2, which is no label of the model; it has 0, 1"),
        ({"to": [0, 1]}, "to names every label"),
        ({"to": []}, "to names no label"),
        ({"attacker": tp.Attacker.lp(1, 1.0, goal=1)}, "leave goal= out"),
        ({"attacker": tp.Attacker.linf(0.5)}, "all its moves are free, and none is the cheapest; give it costs="),
        ({"k": 0}, "k is how many changes of a row are wanted, a whole number of at least 1, got 0; k=1 asks"),
        ({"X": None}, r"X must be a data frame or an array of shape \(n_rows, 2\), got None"),
        ({"X": {"a": [1.0]}}, r"got \{'a': \[1.0\]\}; pandas.DataFrame\(X\) makes one"),
        ({"X": "rows.csv"}, "got 'rows.csv'"),
        ({"attacker": tp.Attacker.lp(1, 1.0, domain=(0.5, 1))}, "row 0, column 'b': 0.0 lies outside the domain"),
        ({"k": None}, "k is how many changes"),
        ({"relations": ["a <= b"]}, r"row 0 breaks the relation 'a <= b' itself"),
        ({"relations": ["b <= a"], "epsilon": 0.1}, "compares columns with each other; leave epsilon"),
    ],
)
def test_refusals_name_the_way_out(words: dict[str, Any], message: str) -> None:
    frame = pd.DataFrame({"a": [1.0, 0.0], "b": [0.0, 0.0]})
    clf = DecisionTreeClassifier().fit(frame, [0, 1])
    with pytest.raises(tp.InvalidInput, match=message):
        tp.counterfactual(clf, **{"X": frame, "to": 1, "attacker": tp.Attacker.lp(1, 1.0)} | words)


def test_what_time_does_not_allow_is_unknown() -> None:
    model, _, frame = trained("XGBoost")
    asked = frame[model.predict(frame) == 0].head(3)
    for epsilon in (None, 0.5):
        found = tp.counterfactual(model, asked, to=1, attacker=loan(), timeout=0, epsilon=epsilon)
        assert not found.exact.any() and np.isinf(found.price).all() and [one.least for one in found] == [0.0] * 3


def test_a_row_with_the_label_needs_no_time() -> None:
    model, _, frame = trained("XGBoost")
    asked = frame[model.predict(frame) == 1].head(70)
    for limit in ({"timeout": 0}, {"max_seconds": 0}):
        found = tp.counterfactual(model, asked, to=1, attacker=loan(), **limit)
        assert found.exact.all() and not found.price.any() and str(found[0]) == "is 1 already"
    # Its neighbours may have another label: that takes a search.
    held = tp.counterfactual(model, asked.head(2), to=1, attacker=loan(), timeout=0, epsilon=0.5)
    assert not held.exact.any() and str(held[0]) == "1; no change that holds within epsilon was found in time"


def test_numbers_go_no_farther_than_their_price_needs() -> None:
    X = pd.DataFrame({"a": np.arange(12), "b": np.arange(12)[::-1], "c": np.zeros(12)})
    model = RandomForestClassifier(8, random_state=0).fit(X, np.arange(12) > 5)
    attacker = tp.Attacker({"a": (-12, 12), "b": (-12, 12)}, costs=2, step={"b": 1}, domain=(-20, 20))
    words = {"to": True, "attacker": attacker}
    asked = X[~model.predict(X)]
    near = [(da, db) for da in (-0.25, 0, 0.25) for db in (-1, 0, 1)]
    for relations in (None, ["a <= 0 or a >= 9"]):

        def is_good(rows: pd.DataFrame, da: float = 0, db: float = 0, related: bool = bool(relations)) -> Any:
            return model.predict(rows.assign(a=rows.a + da, b=rows.b + db)) | (related & ~is_valid(rows.a + da))

        kept = asked[: None if relations is None else 1]
        found = tp.counterfactual(model, kept, relations=relations, **words)
        held = tp.counterfactual(model, kept, relations=relations, epsilon={"a": 0.25, "b": 1}, **words)
        for one in (*found, *held):
            assert one.outcome == tp.Outcome.PROVED and one.found
            for name, (before, after) in one.changes.items():
                nearer = np.arange(after, before) if name == "b" else np.linspace(after, before, 400)[:-1]
                rows = one.row.loc[one.row.index.repeat(len(nearer))].assign(**{name: nearer})
                # The first one is what was found.
                good = np.all([is_good(rows, *by) for by in (near if one.holds else [(0, 0)])], axis=0)
                assert np.flatnonzero(good & (is_valid(rows.a) if relations else True)).tolist() == [0]


def is_valid(a: pd.Series) -> Any:
    """Where a <= 0 or a >= 9."""
    return ((a <= 0) | (a >= 9)).to_numpy()


def test_whole_numbers_stay_whole_where_they_can() -> None:
    X = pd.DataFrame({"a": np.arange(12), "b": np.arange(12, dtype=np.float32), "c": np.arange(12)})
    model = DecisionTreeClassifier(random_state=0, max_depth=1).fit(X[["a", "b", "c"]], X.a > 5)
    for column in X:
        kinds = tp.counterfactual(
            model, X, to=True, attacker=tp.Attacker({column: (-20, 20)}, costs=1, budget=1, step=1)
        ).rows.dtypes
        assert kinds.tolist() == X.dtypes.tolist()
    assert (tp.counterfactual(model, X, to=True, attacker=tp.Attacker.lp(1, 1.0)).rows.dtypes == np.float64).any()
