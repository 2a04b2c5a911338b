"""What robust training is compared with: Chen-style trees, GROOT's files, and the choice of settings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.chen import ChenBoosting, best_cut
from benchmarks.groot_peer import read
from benchmarks.published_training import nearly_best


def gain(left: list[int], slope: np.ndarray, curve: np.ndarray) -> float:
    """XGBoost's gain of a split, with `reg_lambda` 1."""
    right = [i for i in range(len(slope)) if i not in left]
    parts = [slope[rows].sum() ** 2 / (curve[rows].sum() + 1) for rows in (left, right)]
    return float(sum(parts) - slope.sum() ** 2 / (curve.sum() + 1))


def worst_gain(cut: float, values: np.ndarray, slope: np.ndarray, curve: np.ndarray, size: float) -> float:
    rows = range(len(values))
    own = [i for i in rows if values[i] <= cut]
    moved = [i for i in rows if values[i] - size <= cut < values[i] + size]
    left = [i for i in rows if i in own or i in moved]
    right = [i for i in own if i not in moved]
    crossed = right + [i for i in moved if i not in own]
    return min(gain(side, slope, curve) for side in (own, left, right, crossed))


@pytest.mark.parametrize("seed", range(30))
def test_chen_cut_has_the_best_gain_in_the_worst_of_four_cases(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 12))
    values = np.sort(random.integers(0, 8, n) / 8)
    slope, curve, size = random.normal(size=n) * 3, random.uniform(1, 2, n), float(random.choice([0.0, 0.1, 0.2]))
    found, cut = best_cut(values, slope, curve, size)
    cuts = [(a + b) / 2 for a, b in itertools.pairwise(np.unique(values))]
    gains = [worst_gain(one, values, slope, curve, size) for one in cuts]
    best = max([0.0, *gains])
    assert found == pytest.approx(best, abs=1e-5)
    if best > 1e-5:
        assert worst_gain(cut, values, slope, curve, size) == pytest.approx(best)


@pytest.mark.long
@pytest.mark.slow
def test_chen_without_attacks_is_xgboost() -> None:
    xgboost = pytest.importorskip("xgboost")
    random = np.random.default_rng(0)
    X = random.random((300, 4)).astype(np.float32).astype(np.float64)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * random.random(300) > 0.9).astype(int)
    settings = {"n_estimators": 10, "learning_rate": 0.2, "max_depth": 3}
    theirs = xgboost.XGBClassifier(tree_method="exact", base_score=0.5, n_jobs=1, **settings).fit(X, y)
    ours = ChenBoosting(0.0, **settings).fit(X, y)
    scores = np.ravel(ours.ensemble_.scores(X))
    assert scores == pytest.approx(theirs.predict(X, output_margin=True), abs=1e-4)


def test_chen_rows_are_where_training_left_them() -> None:
    """With attacks, the scores of leaves are means of the rows that are there."""
    random = np.random.default_rng(1)
    X, y = random.random((200, 3)), random.integers(0, 2, 200)
    y = np.where(X[:, 0] > 0.5, 1, y)
    model = ChenBoosting(0.05, n_estimators=1, learning_rate=1.0, max_depth=3).fit(X, y)
    scores = np.ravel(model.ensemble_.scores(X))
    assert len(np.unique(scores)) > 2
    for score in np.unique(scores):
        labels = y[scores == score]
        assert score == pytest.approx((labels - 0.5).sum() / (len(labels) / 4 + 1))


def test_groot_trees_add_up_their_shares_and_ties_are_class_0() -> None:
    leaves = [{"value": [0.75, 0.25]}, {"value": [0.25, 0.75]}]
    one = {"feature": 1, "threshold": 0.5, "left_child": leaves[0], "right_child": leaves[1]}
    two = {"feature": 0, "threshold": 0.25, "left_child": leaves[1], "right_child": leaves[0]}
    forest = read([one, two, two], 2)
    assert forest.predict([[0.25, 0.5], [0.25, 0.6], [0.3, 0.5], [0.3, 0.6]]).tolist() == [1, 1, 0, 0]
    assert read([one, two], 2).predict([[0.25, 0.5]]).tolist() == [0]


def test_of_settings_nearly_as_robust_as_the_best_the_one_with_fewest_wrong_is_chosen() -> None:
    found = np.zeros((3, 100, 2), dtype=bool)
    found[0, :20] = True  # the most robust
    found[1, 2:20] = found[1, 20:24] = True  # 2 more on 2 and 4 other rows: within a standard error, fewer wrong
    found[1, 2:16, 0] = found[1, 20:24, 0] = False
    found[2, 15:60, 1] = True  # right about all rows, but robust at far fewer
    assert nearly_best(found) == 1
    found[1, :, 0] = True
    assert nearly_best(found) == 0
