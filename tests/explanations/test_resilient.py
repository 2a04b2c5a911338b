"""Resilient counterfactuals, against all changes and all their neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.changes import least_price
from tests.support.people import trained
from tests.support.random_changes import Asked, with_categories, with_groups, with_numbers
from treeproof.explanations import resilient


@pytest.mark.parametrize("question", [with_categories, with_groups, with_numbers])
def test_prices_are_those_of_the_cheapest_change_that_holds_around(question: Callable[[Random, bool], Asked]) -> None:
    counts = {"none": 0, "some": 0, "dearer": 0}
    for seed in range(30):
        asked = question(Random(seed), True)
        ask = {"to": asked.to, "attacker": asked.attacker, "relations": asked.relations}
        plain = tp.counterfactual(asked.model, asked.X, **ask)[0]
        found = tp.counterfactual(asked.model, asked.X, epsilon=asked.epsilon, **ask)[0]
        least = asked.price(least_price(asked.truth()))
        assert found.outcome == tp.Outcome.PROVED
        assert found.price == (pytest.approx(least, rel=1e-9) if math.isfinite(least) else least), seed
        counts["none"] += math.isinf(found.price)
        counts["some"] += 0 < found.price < math.inf
        counts["dearer"] += plain.price < found.price < math.inf
    assert counts["none"] >= 3 and counts["some"] >= 5 and counts["dearer"] >= 1


@pytest.mark.parametrize("library", ["XGBoost", "LightGBM", "CatBoost", "HistGradientBoosting", "forest"])
def test_no_neighbour_of_a_resilient_change_loses_the_label(library: str) -> None:
    model, ensemble, frame = trained(library)
    labels = np.asarray(model.predict(frame)).ravel()
    wanted, random = sorted(set(labels.tolist()))[-1], np.random.default_rng(3)
    asked = frame[labels != wanted].iloc[3:11]
    attacker = tp.Attacker(
        {"age": (-9, 9), "income": (-2500, 2500), "job": tp.ANY}, costs={"age": 2, "income": 1, "job": 2},
        domain={"age": (18, 90), "income": (0, 9000)}, step={"age": 1},
    )  # fmt: skip
    epsilon = {"age": 2, "income": 40.0, "job": tp.values("nurse", "teacher")}
    plain = tp.counterfactual(ensemble, asked, to=wanted, attacker=attacker)
    found = tp.counterfactual(ensemble, asked, to=wanted, attacker=attacker, epsilon=epsilon)
    assert found.exact.all() and (found.price >= plain.price).all()
    assert sum(one.found for one in found) >= 4
    for one in found:
        if one.found:
            near = one.row.loc[one.row.index.repeat(1000)]
            near["age"] = np.clip(near["age"] + random.integers(-2, 3, 1000), 18, 90)
            near["income"] = np.clip(near["income"] + random.uniform(-40, 40, 1000), 0, 9000)
            if one.row["job"].iloc[0] in ("nurse", "teacher"):
                near["job"] = random.choice(["nurse", "teacher"], 1000)
                if isinstance(frame["job"].dtype, pd.CategoricalDtype):
                    near["job"] = near["job"].astype(frame["job"].dtype)
            assert (np.asarray(model.predict(near)).ravel() == wanted).all()


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
def test_resilient_changes_of_several_classes_hold_at_random_neighbours(p: int) -> None:
    X, y = load_iris(return_X_y=True)
    model, random = RandomForestClassifier(12, max_depth=4, random_state=0).fit(X, y), np.random.default_rng(0)
    rows, size = X[::13], 0.2
    found = tp.counterfactual(model, rows, to=[1, 2], attacker=tp.Attacker.lp(p, 1.0), epsilon=size)
    plain = tp.counterfactual(model, rows, to=[1, 2], attacker=tp.Attacker.lp(p, 1.0))
    assert found.exact.all() and (found.price >= plain.price).all() and (found.price > plain.price).any()
    for one in found:
        near = one.row + random.choice([-size, size, 0.0], (1000, 4)) * random.choice([1.0, 0.999, 0.5], (1000, 4))
        assert np.isin(model.predict(near), [1, 2]).all()


@pytest.mark.parametrize("question", [with_categories, with_groups, with_numbers])
def test_with_a_bound_from_the_start_prices_are_the_same(
    question: Callable[[Random, bool], Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resilient, "EASY_ROUNDS", 1)
    for seed in range(100, 115):
        asked = question(Random(seed), True)
        ask = {"to": asked.to, "attacker": asked.attacker, "relations": asked.relations, "epsilon": asked.epsilon}
        least = asked.price(least_price(asked.truth()))
        found = tp.counterfactual(asked.model, asked.X, **ask)[0]
        assert found.outcome == tp.Outcome.PROVED and found.price == pytest.approx(least, rel=1e-9), seed


def test_what_is_found_before_time_is_up_is_resilient_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_iris(return_X_y=True)
    model, random, size = (
        RandomForestClassifier(12, max_depth=4, random_state=0).fit(X, y),
        np.random.default_rng(0),
        0.1,
    )
    rows, ask = X[::19], {"to": 1, "attacker": tp.Attacker.lp(1, 1.0, domain=(0.0, 9.0)), "epsilon": size}
    exact = tp.counterfactual(model, rows, **ask)
    monkeypatch.setattr(resilient, "EASY_ROUNDS", 1)
    monkeypatch.setattr(resilient._OneRow, "_cheapest", lambda self, _: (tp.Outcome.UNKNOWN, self._row, math.inf))
    found = tp.counterfactual(model, rows, **ask)
    needed = exact.price > 0
    assert exact.exact.all() and not found.exact[needed].any() and np.isfinite(found.price).sum() >= 4
    assert (found.price >= exact.price).all() and all(
        one.least <= price for one, price in zip(found, exact.price, strict=True)
    )
    for one in found:
        near = np.clip(one.row + random.choice([-size, size, 0.0, 0.09], (1000, 4)), 0.0, 9.0)
        assert not one.found or (model.predict(near) == 1).all()


def test_boxes_of_other_rows_rule_nothing_out_between_the_points_of_a_row() -> None:
    # From 0.5 on, 1.5 is wrong, and so is 2.5 beside it; from 0 on, nobody comes to 1.5.
    X = np.linspace(0.0, 5.0, 501)[:, None]
    clf = DecisionTreeClassifier(random_state=0).fit(X, ((X > 0.9) & (X <= 1.2) | (X > 1.8)).ravel())
    ask = {"to": True, "attacker": tp.Attacker.lp(1, 1.0, step=1, domain=(-5.0, 9.0)), "epsilon": 1}
    found = tp.counterfactual(clf, [[0.5], [0.0]], **ask)
    assert found.price.tolist() == [3.0, 2.0] and found.exact.all()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("flat", [False, True])
def test_rows_have_the_same_prices_alone_and_with_others(flat: bool) -> None:
    random = np.random.default_rng(5)
    for seed in range(2):
        X = random.random((60, 3)).round(2)
        model = RandomForestClassifier(6, max_depth=4, random_state=seed).fit(X, X.sum(axis=1) > 1.6)
        words = {"step": {0: 0.1, 1: 0.25}, "domain": (0.0, 1.0)}
        attacker = tp.Attacker((-1, 1), costs=[1, 2, 3], **words) if flat else tp.Attacker.lp(1, 1.0, **words)
        ask = {"to": True, "attacker": attacker, "epsilon": {0: 0.1, 1: 0.25, 2: 0.05}}
        found = tp.counterfactual(model, X[:6], **ask)
        alone = [tp.counterfactual(model, x[None], **ask).price[0] for x in X[:6]]
        assert found.exact.all() and found.price.tolist() == alone


def test_neighbours_that_are_not_valid_need_no_wanted_label() -> None:
    # Below 0.75, b is at most 0.1: a row just beyond that has no valid neighbour on the other side of a's cut at 0.7.
    X = pd.DataFrame([[a, b] for a in (0.0, 1.4) for b in (0.0, 0.6)], columns=["a", "b"])
    model = DecisionTreeClassifier(random_state=0).fit(X, (X > 0.2).all(axis=1))
    ask = {"to": True, "attacker": tp.Attacker.lp(1, 1.0, domain=(0.0, 1.4)), "epsilon": {"a": 0.1}}
    free = tp.counterfactual(model, X[:1], **ask)[0]
    found = tp.counterfactual(model, X[:1], relations=["a > 0.75 or b <= 0.1"], **ask)[0]
    assert free.price == pytest.approx(1.1) and found.price == pytest.approx(1.05)
    assert free.outcome == found.outcome == tp.Outcome.PROVED
