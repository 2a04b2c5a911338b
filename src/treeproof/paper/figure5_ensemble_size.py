"""Figure 5: the time of the analysis as ensembles grow: up to 17 trees in the paper, up to 51 here."""

from __future__ import annotations

from functools import partial
from typing import Any

from treeproof.paper import published, timing
from treeproof.paper.models import cells_of, reachable
from treeproof.paper.workbench import Cell, Workbench, markdown

NAME = "ensemble-size"
PAPER_SECONDS = {17: 16 * 60}
SIZES = {
    "standard": (9, 11, 13, 15, 17, 25),
    "robust": (9, 11, 13, 15, 17, 25, 35, 51),
    "TREANT": (9, 11, 13, 15, 17),
}


def run(bench: Workbench) -> None:
    """Times analysis, map and verification on diabetes, budget 1."""
    reachable(bench, ["diabetes"])
    cells = [
        cell
        for kind, sizes in SIZES.items()
        for trees in ((3, 5) if bench.quick else sizes)
        for cell in cells_of(bench, "diabetes", trees, 3, (kind,))
    ]
    rows = bench.rows(NAME, cells, partial(timing.measured, mapped=True))
    text = (
        f"Diabetes, depth 3, budget 1, ε = {published.EPSILON['diabetes']}. The paper, on TREANT forests: "
        f"{published.SAYS[NAME]}. *analysis* is the paper's, until it converges; *map* is the exact stability map of "
        "the whole space; *verify* is the exact r and R of the test set, without either."
    )
    columns: dict[str, Any] = {
        "model": lambda row: row["model"],
        "trees": lambda row: str(row["trees"]),
        "paper, s": lambda row: timing.paper_seconds(row, PAPER_SECONDS, "trees"),
        **timing.OF_ANALYSIS,
        **timing.OF_MAP,
        **timing.OF_VERIFY,
    }
    parts = [text, timing.machine(bench.jobs), markdown(columns, rows)]
    bench.publish(NAME, "Figure 5: time and size of the ensemble", rows, lambda pyplot: _draw(pyplot, rows), parts)


def _draw(pyplot: Any, rows: list[Cell]) -> Any:
    figure, panels = pyplot.subplots(1, 2, figsize=(6.6, 3.1), sharey=True)
    for panel, name, done, title in (
        (panels[0], "analysis_cpu", "converged", "the paper's analysis, to convergence"),
        (panels[1], "map_cpu", "complete", "stability map, complete"),
    ):
        timing.draw_times(panel, rows, "trees", name, done)
        panel.set_title(title)
        panel.set_xlabel("trees of depth 3")
    timing.draw_paper(panels[0], PAPER_SECONDS)
    panels[0].set_ylabel("CPU seconds, all threads")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure
