"""Plots show the numbers of the results they are given, and nothing else."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.hand_made import PURPOSES, asked, explanation
from treeproof.present.slices import cut_slice, frame_of
from treeproof.verification.witnesses import moved_features

mpl.use("Agg")

X, y = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X, y)
ATTACKER = tp.Attacker.linf(0.2)


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture(scope="module")
def result() -> tp.Verification:
    return tp.verify(FOREST, X, y, ATTACKER, epsilons=[0.05, 0.1])


def test_bars_are_the_measures(result: tp.Verification) -> None:
    ax = tp.plots.measures(result)
    wanted = [result.accuracy, result.robustness.lower, *(b.lower for b in result.resilience_at.values())]
    assert [bar.get_width() for bar in ax.patches] == [*wanted, *wanted]
    assert [label.get_text() for label in ax.get_yticklabels()][1:3] == ["robustness", "resilience, ε = 0.05"]


def test_undecided_shares_are_drawn_as_a_range() -> None:
    ax = tp.plots.measures(tp.verify(FOREST, X, y, ATTACKER, timeout=0))
    lower, upper = ax.patches[3].get_width(), ax.patches[1].get_width()
    assert (lower, upper) == (0.0, tp.from_model(FOREST).predict(X).__eq__(y).mean())
    assert "0.0% to" in ax.texts[1].get_text()


def test_the_resilience_curve_has_its_exact_steps() -> None:
    curve = tp.ResilienceCurve(np.array([0.0, 0.25, 0.5]), np.array([0.75, 0.5, 0.0]), undecided=2)
    ax = tp.plots.resilience_against_epsilon(curve)
    (line,) = ax.lines
    assert line.get_drawstyle() == "steps-post"
    assert line.get_xdata()[:3].tolist() == [0.0, 0.25, 0.5] and line.get_ydata()[:3].tolist() == [0.75, 0.5, 0.0]
    assert "2 rows undecided" in ax.get_title() and ax.get_xlabel() == "ε"
    units = tp.ResilienceCurve(curve.epsilons, curve.resilience, unit={"amount": 100.0, "age": 1.0})
    assert tp.plots.resilience_against_epsilon(units).get_xlabel() == "multiple of ε = amount 100, age 1"


def test_robustness_against_reach_counts_the_rows_beyond_each_level() -> None:
    radii = np.array([-math.inf, 0.5, 1.0, 1.0, math.inf, math.nan])
    ax = tp.plots.robustness_against_reach(radii, unit=0.1)
    (line,) = ax.lines
    assert line.get_xdata()[:3].tolist() == [0.0, 0.05, 0.1]
    assert line.get_ydata()[:3].tolist() == [4 / 6, 3 / 6, 1 / 6]
    assert ax.get_xlabel() == "δ" and "1 rows undecided" in ax.get_title()
    with pytest.raises(tp.InvalidInput, match="one number per row"):
        tp.plots.robustness_against_reach([])


def test_moved_features_are_those_of_the_counterexamples(result: tp.Verification) -> None:
    ax = tp.plots.moved_features(result, top=2)
    moved = moved_features(result)[:2]
    ups, downs = ax.patches[:2], ax.patches[2:]
    assert [bar.get_width() for bar in ups] == [one.up for one in moved]
    assert [bar.get_width() for bar in downs] == [one.count - one.up for one in moved]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"feature {one.feature}" for one in moved]


def test_nothing_moved_is_an_empty_picture() -> None:
    ax = tp.plots.moved_features(tp.verify(FOREST, X, y, tp.Attacker.linf(0.0)))
    assert not ax.patches


def test_slices_show_labels_and_hatch_exactly_the_unstable_squares() -> None:
    ax = tp.plots.slice(FOREST, ATTACKER, X, (2, 3), row=70, y=y, resolution=12)
    ensemble = tp.from_model(FOREST)
    (low_1, high_1), (low_2, high_2) = (frame_of(ensemble, ATTACKER, X, f) or (0, 0) for f in (2, 3))
    cut = cut_slice(ensemble, ATTACKER, X[70], (2, 3), (low_1, low_2), (high_1, high_2), resolution=12)
    assert (ax.images[0].get_array() == cut.labels).all()
    (hatched,) = ax.patches
    path = hatched.get_path()
    for i in range(12):
        for j in range(12):
            centre = low_1 + (j + 0.5) * (high_1 - low_1) / 12, low_2 + (i + 0.5) * (high_2 - low_2) / 12
            assert path.contains_point(centre) == (cut.status[i, j] == tp.Outcome.REFUTED)
    assert len(ax.collections[-2].get_offsets()) == len(X)


def test_slices_draw_on_the_axes_given_and_refuse_what_they_cannot_show() -> None:
    from matplotlib import pyplot

    ax = pyplot.subplots()[1]
    assert tp.plots.slice(FOREST, ATTACKER, X, (0, 1), resolution=1, ax=ax) is ax
    with pytest.raises(tp.InvalidInput, match="row 150 is not one of the 150 rows"):
        tp.plots.slice(FOREST, ATTACKER, X, (0, 1), row=150)
    with pytest.raises(tp.InvalidInput, match="has no slice"):
        tp.plots.slice(FOREST, tp.Attacker.linf(0.1, domain={0: (5.1, 5.1)}), X[:1], (0, 1))


def test_names_with_dollar_signs_are_no_mathematics() -> None:
    import io

    import pandas as pd

    frame = pd.DataFrame(X, columns=["$a", "b$_{x", "c", "d"])
    forest = RandomForestClassifier(7, max_depth=3, random_state=0).fit(frame, y)
    ax = tp.plots.slice(forest, ATTACKER, frame, ("$a", "b$_{x"), resolution=2)
    ax.figure.savefig(io.BytesIO())


def test_matplotlib_is_imported_by_the_first_plot_and_named_if_it_is_missing() -> None:
    code = (
        "import sys, treeproof as tp\n"
        "assert 'matplotlib' not in sys.modules and 'treeproof.present.plots' not in sys.modules\n"
        "tp.plots; assert 'matplotlib' not in sys.modules\n"
        "sys.modules['matplotlib'] = None\n"
        "try: tp.plots.robustness_against_reach([1.0])\n"
        "except tp.InvalidInput as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "plots need matplotlib; pip install 'treeproof[plots]'"


def test_a_slice_has_a_legend_and_no_slanted_boundary() -> None:
    from matplotlib.collections import LineCollection

    ax = tp.plots.slice(FOREST, tp.Attacker.linf(0.2), X, (2, 3), row=60, resolution=20)
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "an attack breaks it" in shown and any(text.startswith("label ") for text in shown)
    (boundary,) = (one for one in ax.collections if isinstance(one, LineCollection))
    ends = np.array(boundary.get_segments())
    assert len(ends) and ((ends[:, 0, 0] == ends[:, 1, 0]) | (ends[:, 0, 1] == ends[:, 1, 1])).all()


@pytest.fixture(scope="module")
def reasons() -> tp.Explanations:
    return tp.explain(FOREST, X[::10], domain=(0, 8))


def test_bars_count_the_columns_in_reasons(reasons: tp.Explanations) -> None:
    ax = tp.plots.columns_in_reasons(reasons, top=3)
    wanted = list(reasons.counts.items())[:3]
    assert [bar.get_width() for bar in ax.patches] == [n for _, n in wanted]
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"feature {f}" for f, _ in wanted]
    assert ax.get_xlabel() == "reasons with this column, of 15"


def texts(ax: Any, side: str) -> list[str]:
    """What is written above bars, which ends there ("bottom"), or below them ("top")."""
    return [text.get_text() for text in ax.texts if text.get_va() == side]


def test_a_reason_is_drawn_within_its_domain(reasons: tp.Explanations) -> None:
    one = next(one for one in reasons if len(one.columns) > 1)
    wide = {name: type(allowed)(allowed[0], 8.0) for name, allowed in one.ranges.items()}
    ax = tp.plots.reason(replace(one, ranges=wide))
    bars = [bar for bar in ax.patches if bar.get_alpha() is None]
    own = [X[::10][one.row, f] / 8 for f in one.columns]
    assert [bar.get_x() for bar in bars] == pytest.approx(own)
    assert [bar.get_x() + bar.get_width() for bar in bars] == pytest.approx([1.0] * len(own))
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx(own)
    assert ax.get_title() == f"row {one.index}: {one.label}"
    assert texts(ax, "top") == ["0", "8"] * len(own)
    assert str(replace(one, ranges=wide)).startswith(f"{one.label} because {' and '.join(texts(ax, 'bottom'))};")


def test_without_a_domain_a_reason_is_drawn_within_the_data() -> None:
    one = tp.explain(FOREST, X[:1])[0]
    ax = tp.plots.reason(one, X)
    ends = [[f"{X[:, f].min():,.6g}", f"{X[:, f].max():,.6g}"] for f in one.columns]
    assert texts(ax, "top") == [text for pair in ends for text in pair]


def test_values_of_categories_are_drawn_side_by_side() -> None:
    ax = tp.plots.reason(explanation({"purpose": ["car", "radio"], "home": ["flat"]}))
    dark = [bar.get_alpha() == 1.0 for bar in ax.patches]
    assert dark == [True, True, *[False] * 7, True, False, False]
    assert texts(ax, "top") == [*PURPOSES, "flat", "farm", "(none)"]
    assert texts(ax, "bottom") == ["purpose is car or radio", "home is flat"]
    assert len(ax.lines) == 2
    with pytest.raises(tp.InvalidInput, match="pick one"):
        tp.plots.reason(tp.explain(FOREST, X[:2]))  # type: ignore[arg-type]
    with pytest.raises(tp.InvalidInput, match="contrastive"):
        tp.plots.reason(explanation({}, asked(kind="contrastive")))


def test_what_has_no_room_beside_a_reason_is_cut_or_left_out() -> None:
    one = explanation({"purpose": ["car of the " + "very " * 40 + "first kind"], "home": ["flat"]})
    ax = tp.plots.reason(one)
    assert texts(ax, "bottom")[0].count("\n") == 1 and texts(ax, "bottom")[0].endswith(" …")
    ax.figure.canvas.draw()
    inside = ax.get_window_extent()
    for text in ax.texts:
        drawn = text.get_window_extent()
        assert inside.x0 <= drawn.x0 and drawn.x1 <= inside.x1, text.get_text()
    low = ax.figure.subfigures().add_axes((0, 0, 0.2, 0.1))
    assert not texts(tp.plots.reason(one, ax=low), "top")
    assert "\n" not in texts(low, "bottom")[0]


def test_protection_is_drawn_as_its_curve() -> None:
    protection = tp.protect(FOREST, X[::5], y[::5], ATTACKER, to=0.9)
    ax = tp.plots.share_against_protection(protection)
    curve, goal = ax.lines
    assert curve.get_ydata().tolist() == [at.share.lower for at in protection.curve]
    assert goal.get_ydata()[0] == 0.9 and ax.get_ylabel() == "robust share of rows"
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names[0] == "nothing" and len(names) == len(protection.curve)
    assert {name.removeprefix("+ ") for name in names[1:]} == {f"feature {f}" for f in protection.curve[-1].columns}
