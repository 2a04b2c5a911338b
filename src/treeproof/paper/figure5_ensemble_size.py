"""Figure 5: the time of the analysis as ensembles grow: up to 17 trees in the paper, up to 51 here."""

from __future__ import annotations

from typing import Any

from treeproof.paper import published
from treeproof.paper.models import attacker, cells_of, model_of, reachable, split
from treeproof.paper.timing import (
    draw_paper,
    draw_times,
    machine,
    paper_seconds,
    seconds,
    time_analysis,
    time_map,
    time_verify,
)
from treeproof.paper.workbench import Cell, Workbench, markdown, share

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
    rows = bench.rows(NAME, cells, _measure)
    bench.table(NAME, rows)
    bench.picture(NAME, lambda pyplot: _draw(pyplot, rows))
    text = (
        f"Diabetes, depth 3, budget 1, ε = {published.EPSILON['diabetes']}. The paper, on TREANT forests: "
        f"{published.SAYS[NAME]}. *analysis* is the paper's, until it converges; *map* is the exact stability map of "
        "the whole space; *verify* is the exact r and R of the test set, without either."
    )
    columns: dict[str, Any] = {
        "model": lambda row: row["model"],
        "trees": lambda row: str(row["trees"]),
        "paper, s": lambda row: paper_seconds(row, PAPER_SECONDS, "trees"),
        "analysis, s": lambda row: seconds(row, "analysis_seconds", "converged"),
        "CPU, s": lambda row: seconds(row, "analysis_cpu", "converged"),
        "iterations": lambda row: str(row["iterations"]),
        "symbolic attacks": lambda row: f"{row['attacks']:,}",
        "map, s": lambda row: seconds(row, "map_seconds", "complete"),
        "boxes": lambda row: f"{row['boxes']:,}",
        "verify, s": lambda row: seconds(row, "verify_seconds", ""),
        "r": lambda row: share(row["r"]),
        "R": lambda row: share(row["R"]),
    }
    bench.page(NAME, "Figure 5: time and size of the ensemble", [text, machine(bench.jobs), markdown(columns, rows)])


def _measure(bench: Workbench, cell: Cell) -> Cell:
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"])
    model = model_of(bench, cell)
    epsilon = published.EPSILON[cell["dataset"]]
    rows = data.X_test, data.y_test
    return (
        bench.step("verify", lambda: time_verify(model, against, *rows, epsilon, bench.jobs))
        | bench.step("analysis", lambda: time_analysis(model, against, bench.jobs))
        | bench.step("map", lambda: time_map(model, against, bench.jobs))
    )


def _draw(pyplot: Any, rows: list[Cell]) -> Any:
    figure, panels = pyplot.subplots(1, 2, figsize=(6.6, 3.1), sharey=True)
    for panel, name, done, title in (
        (panels[0], "analysis_cpu", "converged", "the paper's analysis, to convergence"),
        (panels[1], "map_cpu", "complete", "stability map, complete"),
    ):
        draw_times(panel, rows, "trees", name, done)
        panel.set_title(title)
        panel.set_xlabel("trees of depth 3")
    draw_paper(panels[0], PAPER_SECONDS)
    panels[0].set_ylabel("CPU seconds, all threads")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure
