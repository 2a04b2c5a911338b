"""The computed pictures of the pages: two test sets that differ by less than ε, with what treeproof says; and a report.

python docs/pictures.py           writes docs/two_test_sets.svg; needs matplotlib
python docs/pictures.py report    writes docs/report.png; needs Chromium, its driver, selenium and pandas
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp

FILE = Path(__file__).parent / "two_test_sets.svg"
DELTA, EPSILON = 0.04, 0.05
FRAGILE, SAFE = 12, 8
TRIES = 400
COLOURS = ("#3b7dd8", "#e0862b")


def two_test_sets() -> tuple[Any, tp.Verification, tp.Verification]:
    """A forest, and the verdicts on two test sets: B is A with some rows moved by less than ε.

    Rows of A are robust, and chosen for the picture: some are resilient, more are not. Rows of B are moved to where
    they are still correct but an attack succeeds, if there is such a place.
    """
    X, y = make_moons(4000, noise=0.14, random_state=3)
    X = minmax_scale(X)
    forest = RandomForestClassifier(5, max_depth=4, random_state=1).fit(X[:1000], y[:1000])
    attacker = tp.Attacker.linf(DELTA)
    rest = tp.verify(forest, X[1000:], y[1000:], attacker, epsilon=EPSILON)
    robust = rest.robustness_outcomes == tp.Outcome.PROVED
    resilient = rest.resilience_by_epsilon[0] == tp.Outcome.PROVED
    A = np.concatenate((_spread(rest.X, robust & ~resilient, FRAGILE), _spread(rest.X, resilient, SAFE)))
    labels = forest.predict(A)
    rng = np.random.default_rng(0)
    moved = np.repeat(A, TRIES, axis=0) + rng.uniform(-EPSILON, EPSILON, size=(TRIES * len(A), 2))
    tried = tp.verify(forest, moved, np.repeat(labels, TRIES), attacker)
    breakable = (tried.correct & (tried.stability == tp.Outcome.REFUTED)).reshape(len(A), TRIES)
    worst = moved[TRIES * np.arange(len(A)) + np.argmax(breakable, axis=1)]
    B = np.where(breakable.any(axis=1)[:, None], worst, A)
    return (
        forest,
        tp.verify(forest, A, labels, attacker, epsilon=EPSILON),
        tp.verify(forest, B, labels, attacker, epsilon=EPSILON),
    )


def _spread(X: Any, wanted: Any, count: int) -> Any:
    """The first rows among the wanted ones that lie apart from each other."""
    chosen: list[Any] = []
    for x in X[wanted]:
        if len(chosen) < count and all(np.abs(x - other).max() > 2 * EPSILON for other in chosen):
            chosen.append(x)
    return np.array(chosen)


def draw() -> None:
    """Writes the picture."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "treeproof", "hatch.linewidth": 0.6, "font.size": 9})
    from matplotlib import pyplot as plt

    forest, *results = two_test_sets()
    smap = tp.StabilityMap.build(forest, tp.Attacker.linf(DELTA))
    edges = [_edges(smap, forest, f) for f in (0, 1)]
    middle = [(axis[1:] + axis[:-1]) / 2 for axis in edges]
    grid = np.stack(np.meshgrid(*middle), axis=-1).reshape(-1, 2)
    shape = (len(middle[1]), len(middle[0]))
    label = forest.predict(grid).reshape(shape)
    unstable = (smap.status(grid) == tp.Status.UNSTABLE).reshape(shape)
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 5.1), sharey=True, layout="constrained")
    figure.patch.set_facecolor("white")
    figure.get_layout_engine().set(h_pad=0.15, w_pad=0.1)
    layers = ((np.ones(shape, dtype=bool), "#dbe8f8"), (label == 1, "#fbe6d0"), (unstable, "#a9a9a9"))
    for ax, result, name in zip(axes, results, "AB", strict=True):
        for mask, colour in layers:
            for box in _rectangles(mask, *edges):
                ax.add_patch(matplotlib.patches.Rectangle(*box, fc=colour, ec=colour, lw=0.5, antialiased=False))
        safe = result.robustness_outcomes == tp.Outcome.PROVED
        for (x, y), truth, robust in zip(result.X, result.y, safe, strict=True):
            corner = (x - EPSILON, y - EPSILON)
            ax.add_patch(matplotlib.patches.Rectangle(corner, 2 * EPSILON, 2 * EPSILON, fill=False, ec="#555", lw=0.5))
            ax.plot(x, y, "o" if robust else "X", ms=6 if robust else 7.5, c=COLOURS[truth], mec="black", mew=0.7)
        assert result.resilience is not None
        ax.set_title(
            f"Test set {name}\naccuracy {result.accuracy:.2f}   robustness {float(result.robustness):.2f}   "
            f"resilience {float(result.resilience):.2f}",
            fontsize=10.5,
        )
        ax.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), aspect="equal", xticks=[], yticks=[])
    figure.supxlabel(
        "grey: from here an attack changes the label;  blue and orange: the label is stable\n"
        "● robust row   ✖ row that an attack breaks   □ everything within ε of a row",
        fontsize=9,
    )
    figure.savefig(FILE, metadata={"Date": None})


def _edges(smap: tp.StabilityMap, forest: Any, f: int) -> Any:
    """Where label or status can change along a feature, within the picture."""
    cuts = np.concatenate((smap.grid.bounds.cuts_of(f), tp.from_model(forest).grid.cuts_of(f)))
    inside = np.unique(cuts[(cuts > -0.05) & (cuts < 1.05)])
    return np.concatenate(([-0.05], inside, [1.05]))


def _rectangles(mask: Any, x: Any, y: Any) -> list[tuple[tuple[float, float], float, float]]:
    """The marked cells of a grid as (corner, width, height): runs along x, equal ones above each other joined."""
    done: list[tuple[tuple[float, float], float, float]] = []
    growing: dict[tuple[int, int], int] = {}
    for j in range(len(mask) + 1):
        here = _runs(mask[j]) if j < len(mask) else []
        for run in [run for run in growing if run not in here]:
            start = growing.pop(run)
            done.append(((x[run[0]], y[start]), x[run[1]] - x[run[0]], y[j] - y[start]))
        for run in here:
            growing.setdefault(run, j)
    return done


def _runs(row: Any) -> list[tuple[int, int]]:
    steps = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(int), [0]))))
    return list(zip(steps[::2].tolist(), steps[1::2].tolist(), strict=True))


def photograph() -> None:
    """Writes the picture of a report: the head of its page, and from its slices on, side by side."""
    from PIL import Image
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(100, max_depth=8, random_state=7).fit(X[::2], y[::2])
    attacker = tp.Attacker({name: (-0.02 * size, 0.02 * size) for name, size in (X.max() - X.min()).items()})
    epsilon = {name: 0.01 * size for name, size in (X.max() - X.min()).items()}
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars", "window-size=760,980"):
        options.add_argument(f"--{flag}")
    service = Service(shutil.which("chromedriver"))
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options, service) as chrome:
        page = Path(folder, "report.html")
        result = tp.verify(forest, X[1::2], y[1::2], attacker, epsilon=epsilon)
        tp.write_report(page, forest, result, title="Breast cancer forest", max_seconds=60)
        chrome.get(page.as_uri())
        shots = [Image.open(io.BytesIO(chrome.get_screenshot_as_png()))]
        chrome.execute_script("document.getElementById('slices').scrollIntoView()")
        shots.append(Image.open(io.BytesIO(chrome.get_screenshot_as_png())))
    both = Image.new("RGB", (sum(shot.width for shot in shots) + 15, shots[0].height), "#c8c8c8")
    both.paste(shots[0], (0, 0))
    both.paste(shots[1], (shots[0].width + 15, 0))
    both.save(Path(__file__).parent / "report.png", optimize=True)


if __name__ == "__main__":
    photograph() if sys.argv[1:] == ["report"] else draw()
