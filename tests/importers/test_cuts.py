"""The exact cut on a score: found to the last bit, rising or falling, and refused where there is none."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import treeproof as tp
from treeproof.errors import UnsupportedModel
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.importers._cuts import checked_cut, exact_cut
from treeproof.importers._responses import Bends, Responses, same
from treeproof.model.score_rule import Decision, ScoreRule


def model(precision: Any = "float64", largest: float = 4.0) -> tp.Ensemble:
    """Scores from -largest to largest."""
    rule = ScoreRule(decision=Decision.CUT, precision=precision)
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=rule)
    builder.add_tree(
        feature=[0, LEAF, LEAF],
        threshold=[0.5, 0, 0],
        left=[1, LEAF, LEAF],
        right=[2, LEAF, LEAF],
        scores=[0, -largest, largest],
    )
    return builder.build()


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("at", [-3.0, -1e-30, 0.0, 1e-300, 0.1, 1.0, 3.9])
def test_a_cut_is_found_to_the_last_bit(precision: Any, at: float) -> None:
    kind = np.dtype(precision).type
    least = kind(at)
    rising = exact_cut(lambda s: s >= least, model(precision), "test")
    assert not rising.falling and kind(rising.value) == np.nextafter(least, kind(-np.inf))
    rising = exact_cut(lambda s: s > least, model(precision), "test")
    assert not rising.falling and rising.value == least
    falling = exact_cut(lambda s: s < least, model(precision), "test")
    assert falling.falling and falling.value == -least
    scores = np.array([np.nextafter(least, kind(-np.inf)), least, np.nextafter(least, kind(np.inf))])
    assert ((-scores > falling.value) == (scores < least)).all()


@pytest.mark.parametrize("second", [True, False])
def test_one_label_for_all_scores_leaves_the_cut_beyond_them(second: bool) -> None:
    cut = exact_cut(lambda s: np.full(len(s), second), model(), "test")
    assert not cut.falling and (cut.value < -4 if second else cut.value > 4)


@pytest.mark.parametrize("where", [0.0, 1.0, -2.5])
@pytest.mark.parametrize("width", [2.0**-48, 1e-9, 1e-3, 0.5])
def test_a_label_that_changes_more_than_once_is_refused(where: float, width: float) -> None:
    """Wrong between a half and the whole of a width above the cut, as rounding might make it."""

    def wiggly(scores: np.ndarray) -> np.ndarray:
        return (scores > where) & ~((scores >= where + width / 2) & (scores <= where + width))

    with pytest.raises(UnsupportedModel, match="test: by rounding, the label changes more than once"):
        exact_cut(wiggly, model(), "test")


def test_a_label_that_changes_and_changes_back_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="more than once"):
        exact_cut(lambda s: np.abs(s) < 1, model(), "test")


def test_a_bend_far_from_the_cut_is_seen() -> None:
    """Just below a point of an isotonic calibrator, rounding lifts the line above it: at that point alone it falls."""
    points = np.array([-10.0, 1e-14, 1.12e-14])
    heights = next(
        (low, high)
        for low, high in np.random.default_rng(0).uniform(0, 0.4, (999, 2)).cumsum(axis=1).tolist()
        if (high - low) / (1e-14 + 10.0) * (1e-14 + 10.0) + low > high
    )
    calibrator = IsotonicRegression(out_of_bounds="clip").fit(points, [*heights, 0.9])
    assert calibrator.X_thresholds_.tolist() == points.tolist()
    least = np.nextafter(heights[1], 1)

    def is_second(scores: np.ndarray) -> np.ndarray:
        return np.asarray(calibrator.predict(scores) >= least)

    below = np.nextafter(points[1], 0)
    assert is_second(np.array([-5.0, below, points[1], points[2]])).tolist() == [False, True, False, True]
    bends = (Bends(same, calibrator.X_thresholds_),)
    bent = dataclasses.replace(model(), responses=Responses(bends=bends))
    with pytest.raises(UnsupportedModel, match="test: by rounding, the label changes more than once"):
        exact_cut(is_second, bent, "test")
    turned = dataclasses.replace(model(), responses=Responses(is_second, bends=bends).after_negation())
    with pytest.raises(UnsupportedModel, match="test: by rounding, the label changes more than once"):
        exact_cut(lambda scores: is_second(-scores), turned, "test")


def test_a_function_that_is_flat_for_long_has_its_cut_at_the_end() -> None:
    cut = exact_cut(lambda s: np.maximum(s, 0.25) > 0.25, model(), "test")
    assert cut.value == 0.25
    cut = exact_cut(lambda s: np.array([1 / (1 + math.exp(-x)) for x in s]) >= 0.5, model(), "test")
    assert -(2.0**-51) < cut.value < 0


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_sigmoid_that_falls_somewhere_is_refused(dtype: str) -> None:
    """As LightGBM's and XGBoost's own cuts are searched: over all numbers of a type."""
    reach = float(np.finfo(dtype).max)
    cut = checked_cut(lambda s: s > 1e-16, np.dtype(dtype), reach, "sigmoid")
    assert cut.value == np.dtype(dtype).type(1e-16)
    for far in (1e-30, 1e-3, 1e30):
        with pytest.raises(UnsupportedModel, match="sigmoid: by rounding"):
            checked_cut(lambda s, far=far: (s > 1e-16) ^ (np.abs(s - far) < far / 4), np.dtype(dtype), reach, "sigmoid")
