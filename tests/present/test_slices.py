"""Slices speak of every point of a square: compared with brute force, and with geometry done by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.category_models import random_model
from tests.support.oracles import OracleAttacker
from tests.support.strategies import tiny_ensembles
from treeproof.importers import EnsembleBuilder
from treeproof.present.slices import OVERLAP, cut_slice, frame_of

P, R, U = tp.Outcome.PROVED, tp.Outcome.REFUTED, tp.Outcome.UNKNOWN


def stump(threshold: float, n_features: int = 2) -> tp.Ensemble:
    builder = EnsembleBuilder(n_features=n_features, classes=("no", "yes"))
    builder.add_tree(
        feature=[0, -1, -1],
        threshold=[threshold, 0, 0],
        left=[1, -1, -1],
        right=[2, -1, -1],
        scores=[(0, 0), (1, 0), (0, 1)],
    )
    return builder.build()


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.floats(0.05, 0.95), st.sampled_from([0.0, 0.01, 0.1, 0.3]), st.sampled_from([0.0, 0.02, 0.2]), st.integers(1, 30)
)
def test_squares_of_a_stump_are_where_geometry_says(threshold: float, down: float, up: float, n: int) -> None:
    cut = cut_slice(
        stump(threshold), tp.Attacker((-down, up)), [9.0, 9.0], (0, 1), (0.0, 0.0), (1.0, 1.0), resolution=n
    )
    assert (cut.status == cut.status[0]).all(), "the second feature does not matter"
    for j in range(n):
        left, right = j / n, (j + 1) / n
        # Unstable are the points from which a move crosses: (threshold - up, threshold + down].
        some = left < threshold + down and right > threshold - up and (down > 0 or up > 0)
        if min(abs(left - threshold - down), abs(right - threshold + up)) > 1e-6:
            assert cut.status[0, j] == (R if some else P)
        if abs((j + 0.5) / n - threshold) > 1e-9:
            assert cut.labels[0, j] == int((j + 0.5) / n > threshold)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_squares_equal_brute_force_over_their_points(data: st.DataObject) -> None:
    ensemble = data.draw(tiny_ensembles(thresholds=(0.0, 0.25, 0.5, 0.6, 1.0)))
    if ensemble.n_features < 2:
        return
    ends = st.sampled_from([0.0, 0.1, 0.25, 0.3])
    plain = OracleAttacker(
        tuple((-data.draw(ends), data.draw(ends)) for _ in range(ensemble.n_features)),
        (1,) * ensemble.n_features,
        budget=data.draw(st.integers(0, ensemble.n_features)),
    )
    row = [data.draw(st.sampled_from([0.0, 0.3, 0.5, 0.9])) for _ in range(ensemble.n_features)]
    n = 4
    cut = cut_slice(ensemble, as_attacker(plain), row, (1, 0), (-0.2, -0.1), (1.3, 1.1), resolution=n)
    pitch = (1.5 / n, 1.2 / n)
    for i in range(n):
        for j in range(n):
            centre = list(row)
            centre[1], centre[0] = -0.2 + (j + 0.5) * pitch[0], -0.1 + (i + 0.5) * pitch[1]
            half = [0.0] * len(row)
            half[1], half[0] = pitch[0] / 2 * (1 + OVERLAP), pitch[1] / 2 * (1 + OVERLAP)
            stable = oracles.stable(ensemble, plain, centre) and oracles.stable_around(ensemble, plain, centre, half)
            assert cut.status[i, j] == (P if stable else R)
            assert ensemble.classes[cut.labels[i, j]] == oracles.predict(ensemble, centre)


def test_squares_leave_no_gap_and_end_where_asked() -> None:
    """Neighbouring squares share their edge, exactly, also where the pitch is no double."""
    low, high, n = 0.1, 0.8, 7
    pitch = (high - low) / n
    half = Fraction(pitch / 2 * (1 + OVERLAP))
    centres = [Fraction(float(low + (j + 0.5) * pitch)) for j in range(n)]
    assert all(b - a <= 2 * half for a, b in pairwise(centres))
    assert centres[0] - half <= Fraction(low) and centres[-1] + half >= Fraction(high)


def test_running_out_of_time_leaves_squares_open() -> None:
    cut = cut_slice(stump(0.5), tp.Attacker.linf(0.1), [0, 0], (0, 1), (0, 0), (1, 1), resolution=4, max_seconds=0)
    assert (cut.status == U).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": (0, 0)}, "a slice needs two features, got 0 twice"),
        ({"features": (0, 9)}, "feature 9 is out of range"),
        ({"resolution": 0}, "resolution must be a whole number of squares from 1 to 512, got 0"),
        ({"resolution": 2.5}, "resolution must be a whole number of squares"),
        ({"low": (1.0, 0.0)}, "has no area"),
        ({"high": (math.inf, 1.0)}, "has no area"),
        ({"row": [0.0]}, "the model takes rows of 2 features"),
    ],
)
def test_wrong_slices_are_refused(changed: dict, message: str) -> None:
    asked = {"row": [0.0, 0.0], "features": (0, 1), "low": (0.0, 0.0), "high": (1.0, 1.0), "resolution": 2}
    with pytest.raises(tp.InvalidInput, match=message):
        cut_slice(stump(0.5), tp.Attacker.linf(0.1), **(asked | changed))


def test_frames_stay_inside_the_domain_and_need_room() -> None:
    X, y = load_iris(return_X_y=True)
    ensemble = tp.from_model(RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, y))
    low, high = frame_of(ensemble, tp.Attacker.linf(0.1), X, 2) or (0, 0)
    assert low < X[:, 2].min() and X[:, 2].max() < high
    inside = tp.Attacker.linf(0.1, domain={2: (1.0, 6.9)})
    assert frame_of(ensemble, inside, X, 2) == (1.0, 6.9)
    assert frame_of(ensemble, tp.Attacker.linf(0.1, domain={2: (1.0, 1.0)}), X, 2) is None
    assert frame_of(ensemble, tp.Attacker.linf(0.1), X[:1], 2) is not None
    assert frame_of(ensemble, tp.Attacker.linf(0.1), np.full((2, 4), math.nan), 2) is None


def test_slices_go_along_numbers_only() -> None:
    model = random_model(Random(0))  # columns a and c are categories
    attacker, rows = tp.Attacker.linf(0.1), np.array([[0.0, 0.2, 1.0, 0.3], [2.0, 0.6, 4.0, 0.9]])
    assert [frame_of(model, attacker, rows, f) is None for f in range(4)] == [True, False, True, False]
    cut = cut_slice(model, attacker, rows[0], ("b", "d"), (0.0, 0.0), (1.0, 1.0), resolution=3)
    assert set(np.unique(cut.status)) <= {P, R}
    with pytest.raises(tp.InvalidInput, match="column 'c' is a category, and a slice goes along two columns"):
        cut_slice(model, attacker, rows[0], ("b", "c"), (0.0, 0.0), (1.0, 1.0), resolution=3)
    with pytest.raises(tp.InvalidInput, match="column 'a' is a category, and a slice goes along two columns"):
        tp.plots.slice(model, attacker, rows, ("a", "b"))
