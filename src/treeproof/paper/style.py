"""How pictures look: colours that colour-blind readers can tell apart, shapes that survive printing in black."""

from __future__ import annotations

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
