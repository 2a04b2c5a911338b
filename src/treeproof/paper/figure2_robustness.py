"""Figure 2: two close test sets with very different robustness and equal resilience, on the tree of Figure 1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.paper.style import BLUE, RED
from treeproof.paper.workbench import Cell, Workbench, finished, markdown, share

NAME = "figure-robustness"
REACH, EPSILON = 0.75, 0.5
"""How far the attacker moves points, in the L1 norm; and the size of the neighbourhood."""

# [number of features, labels, trees]; a tree is feature (from 1; 0 in a leaf), threshold, children (from 1), label.
TREE = [
    2,
    [-1, 1],
    [
        [
            [1, 2, 0, 0, 2, 0, 0],
            [10.0, 5.0, 0.0, 0.0, 8.0, 0.0, 0.0],
            [2, 3, 0, 0, 6, 0, 0],
            [5, 4, 0, 0, 7, 0, 0],
            [0, 0, 1, -1, 0, 1, -1],
        ]
    ],
]
TEST_SET = (
    *((6.5, 3.2), (8.6, 9.0), (13.4, 5.2), (12.6, 10.1)),
    *((7.6, 4.0), (8.9, 6.9), (12.2, 9.1)),
    *((6.2, 5.5), (10.5, 6.3), (13.8, 7.5)),
)
"""Resilient instances, then robust ones with unstable neighbours, then unstable ones."""
CLOSE_TEST_SET = (
    *((6.3, 3.4), (8.4, 8.8), (13.5, 5.4), (12.8, 10.3)),
    *((7.7, 4.4), (9.35, 6.7), (12.0, 8.6)),
    *((6.0, 5.6), (10.6, 6.5), (14.0, 7.6)),
)
"""Every instance is moved by at most ε; the three in the middle are unlucky."""
SPACE = ((5.0, 15.0), (2.5, 11.0))
PER_INSTANCE = ("points", "labels", "robust", "resilient")
SHADE = "#e3e3e3"


def run(bench: Workbench) -> None:
    """Decides both test sets and the points of a fine grid, and draws them."""
    bench.write(f"{NAME}-tree.json", json.dumps(TREE))
    model = tp.load_model(bench.out / f"{NAME}-tree.json")
    attacker = tp.Attacker.lp(1, REACH)
    labels = model.predict(TEST_SET)

    def measure(_: Workbench, cell: Cell) -> Cell:
        points = TEST_SET if cell["test_set"] == "D" else CLOSE_TEST_SET
        result = finished(tp.verify(model, points, labels, attacker, epsilon=EPSILON, n_jobs=bench.jobs))
        return {
            "a": result.accuracy,
            "r": float(result.robustness),
            "R": float(result.resilience),
            "points": [list(point) for point in points],
            "labels": labels.tolist(),
            "robust": (result.robustness_outcomes == tp.Outcome.PROVED).tolist(),
            "resilient": (result.resilience_by_epsilon[0] == tp.Outcome.PROVED).tolist(),
        }

    rows = bench.rows(NAME, [{"test_set": "D"}, {"test_set": "D'"}], measure)
    (step,) = bench.rows(
        f"{NAME}-area", [{"step": 0.1 if bench.quick else 0.025}], lambda _, cell: _area(model, attacker, cell)
    )
    instances = [
        {"test_set": row["test_set"], "x1": x, "x2": y, "label": label, "robust": robust, "resilient": resilient}
        for row in rows
        for (x, y), label, robust, resilient in zip(*(row[name] for name in PER_INSTANCE), strict=True)
    ]
    moved = float(np.abs(np.subtract(TEST_SET, CLOSE_TEST_SET)).max())
    text = (
        f"The tree of the paper's Figure 1, an attacker who moves points by up to {REACH} in the L1 norm, and N(x) = "
        f"all points within {EPSILON} of x in each coordinate. No instance of D' is farther than {moved:.2f} from D's. "
        "The paper does not list its points; ours are chosen so that both test sets have the robustness and resilience "
        "that it reports: 0.7 and 0.4 for D, 0.4 and 0.4 for D'."
    )
    columns: dict[str, Any] = {"test set": lambda row: row["test_set"]}
    columns |= {name: (lambda row, name=name: share(row[name])) for name in ("a", "r", "R")}
    parts = [text, markdown(columns, rows)]
    bench.publish(
        NAME, "Figure 2: robustness is not robust", instances, lambda pyplot: _draw(pyplot, rows, step), parts
    )


def _grid(step: float) -> tuple[Any, Any]:
    axes = [np.arange(low, high + step / 2, step) for low, high in SPACE]
    return np.meshgrid(*axes)


def _area(model: tp.Ensemble, attacker: tp.Attacker, cell: Cell) -> Cell:
    """Which points of a grid are unstable, each decided exactly, as runs of equal values."""
    first, second = _grid(cell["step"])
    points = np.column_stack((first.ravel(), second.ravel()))
    result = finished(tp.verify(model, points, model.predict(points), attacker))
    unstable = result.stability == tp.Outcome.REFUTED
    changes = np.flatnonzero(np.diff(unstable.astype(int))) + 1
    return {"starts": bool(unstable[0]), "changes": changes.tolist()}


def _draw(pyplot: Any, rows: list[Cell], area: Cell) -> Any:
    first, second = _grid(area["step"])
    flips = np.zeros(first.size, dtype=int)
    flips[area["changes"]] = 1
    unstable = ((np.cumsum(flips) + area["starts"]) % 2).reshape(first.shape)
    figure, panels = pyplot.subplots(1, 2, figsize=(6.8, 3.3), sharey=True)
    for panel, row in zip(panels, rows, strict=True):
        panel.grid(visible=False)
        panel.contourf(first, second, unstable, levels=(0.5, 1.5), colors=[SHADE])
        panel.plot([5, 10, 10, 15], [5, 5, 8, 8], color="black", linewidth=1.2)
        panel.text(13.0, 2.8, "class +1", color="#444444")
        panel.text(5.2, 10.6, "class −1", color="#444444")
        _draw_instances(pyplot, panel, row)
        name = "D" if row["test_set"] == "D" else "D′"
        panel.set_title(f"test set {name}: robustness {row['r']:.1f}, resilience {row['R']:.1f}")
        panel.set(xlabel="feature $x_1$", xlim=SPACE[0], ylim=SPACE[1], aspect="equal")
    panels[0].set_ylabel("feature $x_2$")
    figure.legend(handles=_keys(pyplot), loc="outside lower center", ncols=2)
    return figure


def _draw_instances(pyplot: Any, panel: Any, row: Cell) -> None:
    """Draws a plus or a minus for each instance, and the neighbourhoods of those in D that are not resilient."""
    for (x, y), label, robust, resilient in zip(*(row[name] for name in PER_INSTANCE), strict=True):
        color = BLUE if robust else RED
        shape = ("P", 8, 0.5) if label > 0 else ("_", 9, 2.6)
        panel.plot(x, y, color=color, **dict(zip(("marker", "markersize", "markeredgewidth"), shape, strict=True)))
        if row["test_set"] == "D" and not resilient:
            look = {"fill": False, "color": color, "linewidth": 0.9, "linestyle": "-" if robust else ":"}
            panel.add_patch(pyplot.Rectangle((x - EPSILON, y - EPSILON), 2 * EPSILON, 2 * EPSILON, **look))


def _keys(pyplot: Any) -> list[Any]:
    """The entries of the legend."""
    point = {"marker": "P", "linestyle": ""}
    frame = {"marker": "s", "markersize": 8, "fillstyle": "none", "linestyle": ""}
    unstable = f"unstable: a move of up to {REACH} (L1) changes the label"
    near = f"N(x), ±{EPSILON}, where it meets the unstable area (D only)"
    return [
        pyplot.Rectangle((0, 0), 1, 1, color=SHADE, label=unstable),
        pyplot.Line2D([], [], color="black", label="decision boundary"),
        pyplot.Line2D([], [], color=BLUE, label="robust instance (+ or −: its class)", **point),
        pyplot.Line2D([], [], color=RED, label="instance that is not robust", **point),
        pyplot.Line2D([], [], color=BLUE, label=near, **frame),
    ]
