"""How the cost of a verdict grows with trees, depth, reach, features and budget: a table, and a plot of it.

python -m benchmarks.local --growth [--timeout SECONDS] [--plot FILE]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import treeproof as tp
from benchmarks.cases import Data, digits, forest, keel, warm
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local

ROWS = 20
TREES, DEPTH = 100, 10

ROBUST, RESILIENT, EUCLIDEAN = "robust, L∞", "resilient, L∞", "robust, L2"
BUDGETED, BUDGETED_RESILIENT = "robust, budget", "resilient, budget"


@dataclass(frozen=True)
class Setting:
    """A data set, and what stays fixed while something else grows: reach δ, ε, and the radius of an L2 attacker."""

    name: str
    data: Data
    delta: float
    epsilon: float
    radius: float
    deltas: tuple[float, ...]
    features: tuple[int, ...]


SETTINGS = [
    Setting("digits ≥ 5", digits, 0.1, 0.06, 0.1, (0.01, 0.02, 0.05, 0.1, 0.2), (4, 8, 16, 32, 64)),
    Setting("magic", keel("magic"), 0.02, 0.005, 0.04, (0.0025, 0.005, 0.01, 0.02, 0.04), (2, 4, 6, 8, 10)),
    Setting("spambase", keel("spambase"), 0.002, 0.0005, 0.004, (0.0005, 0.001, 0.002, 0.004, 0.008), (8, 16, 32, 57)),
]
TREE_COUNTS = (10, 20, 50, 100, 200, 500)
DEPTHS = (4, 6, 8, 10, 12, 14)
BUDGETS = (1, 2, 3, 4, 5, 6)


@dataclass(frozen=True)
class Point:
    """One measurement: what grows, its value, what was asked, and what came out."""

    data: str
    axis: str
    value: float
    question: str
    n_nodes: int
    outcome: np.ndarray
    milliseconds: np.ndarray
    boxes: int

    @property
    def n_open(self) -> int:
        """Rows without an answer when time was up."""
        return int((self.outcome == Outcome.UNKNOWN).sum())

    def line(self) -> str:
        """The line of the table."""
        proved, refuted = ((self.outcome == outcome).sum() for outcome in (Outcome.PROVED, Outcome.REFUTED))
        ms = self.milliseconds
        return (
            f"{self.data:10} {self.axis:9} {self.value:6g} {self.question:18} {self.n_nodes:7} {proved:6} {refuted:7} "
            f"{self.n_open:4} {np.median(ms):9.2f} {ms.mean():9.2f} {ms.max():9.1f} {self.boxes:9}"
        )


HEADER = (
    f"{'data':10} {'grows':9} {'to':>6} {'question':18} {'nodes':>7} {'proved':>6} {'refuted':>7} "
    f"{'open':>4} {'median ms':>9} {'mean ms':>9} {'worst ms':>9} {'boxes':>9}"
)


def measure(
    setting: Setting, timeout: float, *, trees: int = TREES, depth: int = DEPTH, n_features: int | None = None
) -> Callable[[str, float, str, tp.Attacker, float], Point]:
    """A function that times one question, row by row, on a forest of this size."""
    ensemble, X = _trained(setting, trees, depth, n_features or setting.features[-1])

    def run(axis: str, value: float, question: str, attacker: tp.Attacker, epsilon: float) -> Point:
        warm(ensemble, attacker, X, epsilon)
        local = Local(ensemble, attacker.bind(ensemble), Limits(timeout=timeout))
        eps = np.full(ensemble.n_features, epsilon)
        outcome, seconds = [], []
        for row in range(len(X)):
            start = time.process_time()
            outcome.append(local.decide(X[row : row + 1], eps).outcome[0])
            seconds.append(time.process_time() - start)
        return Point(
            setting.name, axis, value, question, ensemble.n_nodes, np.array(outcome), 1000 * np.array(seconds),
            local.boxes,
        )  # fmt: skip

    return run


@cache
def _trained(setting: Setting, trees: int, depth: int, n_features: int) -> tuple[tp.Ensemble, np.ndarray]:
    X, y = setting.data()
    # The features that vary most: in digits the border is empty.
    X = X[:, np.sort(np.argsort(-X.var(axis=0))[:n_features])]
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=7)
    return tp.from_model(forest(trees, depth)(X_train, y_train)), np.ascontiguousarray(X_test[:ROWS])


def points(setting: Setting, timeout: float) -> Iterator[Point]:
    """Every measurement of one data set."""
    for n in TREE_COUNTS:
        yield from _three(setting, measure(setting, timeout, trees=n), "trees", n, 1.0)
    for depth in DEPTHS:
        yield from _three(setting, measure(setting, timeout, depth=depth), "depth", depth, 1.0)
    for delta in setting.deltas:
        yield from _three(setting, measure(setting, timeout), "δ", delta, delta / setting.delta)
    for n in setting.features:
        yield from _three(setting, measure(setting, timeout, n_features=n), "features", n, 1.0)
    run = measure(setting, timeout)
    for budget in BUDGETS:
        # Twice the reach: with few features to move, the usual one breaks nothing.
        attacker = tp.Attacker((-2 * setting.delta, 2 * setting.delta), budget=budget)
        yield run("budget", budget, BUDGETED, attacker, 0.0)
        yield run("budget", budget, BUDGETED_RESILIENT, attacker, setting.epsilon)


def _three(setting: Setting, run: Any, axis: str, value: float, scale: float) -> Iterator[Point]:
    linf = tp.Attacker.linf(setting.delta * scale)
    yield run(axis, value, ROBUST, linf, 0.0)
    yield run(axis, value, RESILIENT, linf, setting.epsilon * scale)
    yield run(axis, value, EUCLIDEAN, tp.Attacker.lp(2, setting.radius * scale), 0.0)


# Okabe and Ito's colours can be told apart by the colour-blind; shapes and dashes make the same distinction.
STYLES = {
    ROBUST: ("#0072B2", "o", "-"),
    RESILIENT: ("#D55E00", "s", "--"),
    EUCLIDEAN: ("#009E73", "^", ":"),
    BUDGETED: ("#0072B2", "o", "-"),
    BUDGETED_RESILIENT: ("#D55E00", "s", "--"),
}
AXES = {
    "trees": "trees (depth 10)",
    "depth": "depth (100 trees)",
    "δ": "reach δ (features span 0 to 1)",
    "features": "features (100 trees of depth 10)",
    "budget": "budget (features to move, by up to 2δ)",
}


def draw(measured: list[Point], timeout: float, file: Path) -> None:
    """One panel per data set and axis: mean CPU time per row; hollow where some rows were left open."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(point.data for point in measured))
    figure, panels = plt.subplots(
        len(names), len(AXES), figsize=(17, 3.4 * len(names) + 0.8), sharey=True, squeeze=False, layout="constrained"
    )
    for row, name in zip(panels, names, strict=True):
        for panel, axis in zip(row, AXES, strict=True):
            _draw_panel(panel, [point for point in measured if (point.data, point.axis) == (name, axis)], axis)
        row[0].set_ylabel(f"{name}\nCPU time per row (ms, mean)")
    keys = [
        plt.Line2D([], [], color=colour, marker=marker, linestyle=dash, label=label)
        for label, (colour, marker, dash) in list(STYLES.items())[:3]
    ]
    hollow = f"some of {ROWS} rows open after {timeout:g} s (how many)"
    keys.append(plt.Line2D([], [], color="#555555", marker="o", linestyle="", markerfacecolor="white", label=hollow))
    figure.legend(handles=keys, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw_panel(panel: Any, measured: list[Point], axis: str) -> None:
    for question in dict.fromkeys(point.question for point in measured):
        line = [point for point in measured if point.question == question]
        colour, marker, dash = STYLES[question]
        offset = {ROBUST: (-10, 0), RESILIENT: (10, 0)}.get(question, (0, 10))  # so that counts do not collide
        means = [point.milliseconds.mean() for point in line]
        panel.plot([point.value for point in line], means, color=colour, linestyle=dash, linewidth=1.8)
        for point, mean in zip(line, means, strict=True):
            face = "white" if point.n_open else colour
            panel.plot(point.value, mean, marker=marker, color=colour, markerfacecolor=face, markersize=6)
            if point.n_open:
                panel.annotate(
                    f"{point.n_open}", (point.value, mean), textcoords="offset points", xytext=offset, ha="center",
                    va="center", color=colour, fontsize=9,
                )  # fmt: skip
    panel.set_yscale("log")
    panel.margins(x=0.1)
    if axis != "budget" and axis != "depth":
        panel.set_xscale("log")
    ticks = sorted({point.value for point in measured})
    panel.set_xticks(ticks, [f"{value:g}" for value in ticks])
    panel.minorticks_off()
    panel.set_xlabel(AXES[axis])
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def main(timeout: float, file: Path, only: str) -> None:
    """Prints the table line by line and draws the plot."""
    print(f"{ROWS} rows each, CPU time, one thread; rows left open after {timeout:g} s by the clock are in the means")
    print(HEADER)
    measured = []
    for setting in SETTINGS:
        if only not in setting.name:
            continue
        for point in points(setting, timeout):
            measured.append(point)
            print(point.line(), flush=True)
        _trained.cache_clear()
    draw(measured, timeout, file)
    print(f"plot: {file}")
