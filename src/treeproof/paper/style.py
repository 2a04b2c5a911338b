"""How pictures look: colours that colour-blind readers can tell apart, shapes that survive printing in black."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#666666",
)  # fmt: skip

LOOKS: dict[str, dict[str, Any]] = {
    "standard": {"color": BLUE, "marker": "o", "linestyle": "-"},
    "robust": {"color": RED, "marker": "s", "linestyle": "--"},
    "resilient": {"color": GREEN, "marker": "^", "linestyle": "-."},
    "TREANT": {"color": PURPLE, "marker": "D", "linestyle": ":"},
}
"""The colour, marker and line of each kind of model."""

STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "treeproof",
    "svg.fonttype": "path",
}


def panels_of(
    pyplot: Any, rows: Sequence[dict[str, Any]], kinds: Sequence[str], height: float, **shared: Any
) -> tuple[Any, list[tuple[Any, str, str, list[dict[str, Any]]]]]:
    """A figure with a line for each kind of model and a column for each data set: each panel, with what it shows."""
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    size = 2.4 * len(datasets) + 0.7, height
    figure, panels = pyplot.subplots(len(kinds), len(datasets), figsize=size, squeeze=False, **shared)
    places = zip(panels.ravel(), product(kinds, datasets), strict=True)
    return figure, [
        (panel, *place, [row for row in rows if (row["model"], row["dataset"]) == place]) for panel, place in places
    ]
