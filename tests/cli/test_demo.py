"""What the demo says is true of its models."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from treeproof.cli.commands import demo
from treeproof.results.markup import change


@pytest.fixture(scope="module")
def setting() -> demo.Setting:
    return demo.Setting.load()


@pytest.fixture(scope="module")
def forest(setting: demo.Setting) -> RandomForestClassifier:
    return RandomForestClassifier(100, max_depth=8, random_state=7).fit(setting.X, setting.y)


def test_the_example_is_a_row_that_is_right_until_it_is_attacked(
    setting: demo.Setting, forest: RandomForestClassifier
) -> None:
    result = demo._verified(forest, setting)
    said = demo._example(forest, result, setting)
    found = re.search(r"row (\d+): move (\d+) .* says (\d) instead of (\d)", said)
    assert found is not None
    row, moves, after, before = map(int, found.groups())
    attacked = np.array(result.attacked[row])
    assert forest.predict(setting.X_test[row : row + 1]) == before == setting.y_test[row]
    assert forest.predict(attacked[None]) == after != before
    moved = np.flatnonzero(attacked != setting.X_test[row])
    assert len(moved) == moves
    assert (np.abs(attacked - setting.X_test[row]) <= 0.25 * setting.spread + 1e-12).all()
    assert any(change(float(setting.X_test[row, f]), float(attacked[f])) in said for f in moved)
    assert row in result.broken.index


def test_trained_trees_withstand_more_than_the_forest_for_little_accuracy(
    setting: demo.Setting, forest: RandomForestClassifier
) -> None:
    trained = demo._robust(setting)
    (was, robust_was), (now, robust_now) = (_shares(model, setting) for model in (forest, trained))
    assert robust_now >= robust_was + 0.04 and now >= was - 0.03


def _shares(model: object, setting: demo.Setting) -> tuple[float, float]:
    """Accuracy by `predict`, and robustness, which random moves never fall below."""
    result = demo._verified(model, setting)
    right = model.predict(setting.X_test) == setting.y_test  # type: ignore[attr-defined]
    proved = result.robustness_outcomes == 0
    draw, reach = np.random.default_rng(0), 0.25 * setting.spread
    for _ in range(20):
        moved = setting.X_test + draw.choice([-0.999, 0.999], setting.X_test.shape) * reach
        assert (model.predict(moved) == setting.y_test)[proved].all()  # type: ignore[attr-defined]
    assert result.accuracy == right.mean()
    return float(right.mean()), float(result.robustness)
