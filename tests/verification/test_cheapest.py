"""The cheapest attack, against all attacks there are, and as users ask for it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.fuzz_local import check_block
from tests.support.random_blocks import block


@pytest.mark.slow
def test_prices_are_those_of_the_cheapest_of_all_attacks() -> None:
    counts = sum(
        (check_block(block(15, number), through_verify=False) for number in range(40)), start=check_block(block(15, 40))
    )
    assert counts["cheapest attacks"] >= 60


def iris() -> tuple[RandomForestClassifier, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return RandomForestClassifier(15, random_state=0).fit(X, y), X[::15]


@pytest.mark.parametrize(
    "attacker",
    [tp.Attacker.lp(1, 1.0), tp.Attacker.lp(2, 1.0), tp.Attacker.lp(3, 1.0, features=[1, 2], domain=[(-9, 9)] * 4)],
)
def test_lp_prices_are_robustness_radii(attacker: tp.Attacker) -> None:
    model, rows = iris()
    found = tp.cheapest_attack(model, rows, attacker)
    radii = tp.robustness_radius(model, rows, model.predict(rows), attacker)
    assert found.exact.all()
    np.testing.assert_allclose(found.price, radii, rtol=1e-12)
    flipped = np.isfinite(found.price)
    assert (model.predict(found.rows[flipped]) != model.predict(rows[flipped])).all()
    assert (found.label[flipped] == model.predict(found.rows[flipped])).all()


def test_budgets_bind_only_within() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 0, 1])
    attacker = tp.Attacker({0: (-2, 2), 1: (-2, 2)}, costs={0: 3, 1: 4}, budget=5)
    beyond = tp.cheapest_attack(clf, [[0.0, 0.0], [0.0, 1.0]], attacker)
    assert beyond.price.tolist() == [7.0, 3.0] and beyond.exact.all()
    within = tp.cheapest_attack(clf, [[0.0, 0.0], [0.0, 1.0]], attacker, within=True)
    assert within.price.tolist() == [math.inf, 3.0] and within.exact.all()
    assert within.rows[0].tolist() == [0.0, 0.0]
    near = tp.cheapest_attack(clf, [[0.0, 1.0]], tp.Attacker.lp(1, 0.4), within=True)
    assert near.price.tolist() == [math.inf] and near.exact.all()


def test_frames_come_back_as_frames() -> None:
    data = load_breast_cancer(as_frame=True)
    model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(data.data, data.target)
    rows = data.data.iloc[[3, 30, 300]]
    found = tp.cheapest_attack(model, rows, tp.Attacker.l0(1))
    assert isinstance(found.rows, pd.DataFrame) and found.rows.index.equals(rows.index)
    changed = (found.rows != rows).sum(axis=1).to_numpy()
    assert (changed == found.price).all() and (model.predict(found.rows) != model.predict(rows)).all()
    assert "3 rows, 3 with an attack, 3 proved, median price" in repr(found)


def test_what_is_refused() -> None:
    model, rows = iris()
    with pytest.raises(tp.InvalidInput, match="all its moves are free.*robustness_radius"):
        tp.cheapest_attack(model, rows, tp.Attacker.linf(0.1))
    with pytest.raises(tp.InvalidInput, match="must be a treeproof.Attacker"):
        tp.cheapest_attack(model, rows, "l1")


def test_without_time_nothing_is_claimed() -> None:
    model, rows = iris()
    found = tp.cheapest_attack(model, rows, tp.Attacker.lp(1, 1.0), timeout=0)
    assert not found.exact.any() and np.isinf(found.price).all() and (found.rows == rows).all()
