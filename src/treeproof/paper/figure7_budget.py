"""Figure 7: the time of the analysis for attackers who may change one to five features."""

from __future__ import annotations

from typing import Any

from treeproof.paper import published
from treeproof.paper.models import attacker, cells_of, model_of, reachable, split
from treeproof.paper.timing import draw_paper, draw_times, machine, paper_seconds, seconds, time_analysis, time_verify
from treeproof.paper.workbench import Cell, Workbench, markdown, share

NAME = "budget"
MAX_BUDGET, TREES = 5, 11
PAPER_SECONDS = {1: 12, MAX_BUDGET: 40}


def run(bench: Workbench) -> None:
    """Times the analysis on diabetes for budgets 1 to 5; robust models are trained for budget 5, as in the paper."""
    reachable(bench, ["diabetes"])
    cells = [
        cell | {"budget": budget}
        for cell in cells_of(bench, "diabetes", 5 if bench.quick else TREES, 3, ("standard", "robust", "TREANT"))
        for budget in ((1, 2) if bench.quick else range(1, MAX_BUDGET + 1))
    ]
    rows = bench.rows(NAME, cells, _measure)
    bench.table(NAME, rows)
    bench.picture(NAME, lambda pyplot: _draw(pyplot, rows))
    text = (
        f"Diabetes, {rows[0]['trees']} trees of depth 3, ε = {published.EPSILON['diabetes']}. The paper, on a TREANT "
        f"forest trained for budget 5: {published.SAYS[NAME]}. Our robust forest is also trained for budget 5; the "
        "available TREANT forest was trained for budget 1. *analysis* is the paper's, until it converges; *verify* is "
        "the exact r and R of the test set."
    )
    columns: dict[str, Any] = {
        "model": lambda row: row["model"],
        "budget": lambda row: str(row["budget"]),
        "paper, s": lambda row: "–" if bench.quick else paper_seconds(row, PAPER_SECONDS, "budget"),
        "analysis, s": lambda row: seconds(row, "analysis_seconds", "converged"),
        "CPU, s": lambda row: seconds(row, "analysis_cpu", "converged"),
        "iterations": lambda row: str(row["iterations"]),
        "symbolic attacks": lambda row: f"{row['attacks']:,}",
        "verify, s": lambda row: seconds(row, "verify_seconds", ""),
        "r": lambda row: share(row["r"]),
        "R": lambda row: share(row["R"]),
    }
    bench.page(NAME, "Figure 7: time and budget", [text, machine(bench.jobs), markdown(columns, rows)])


def _measure(bench: Workbench, cell: Cell) -> Cell:
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"], cell["budget"])
    model = model_of(bench, cell, budget=MAX_BUDGET)
    epsilon = published.EPSILON[cell["dataset"]]
    rows = data.X_test, data.y_test
    return bench.step("verify", lambda: time_verify(model, against, *rows, epsilon, bench.jobs)) | bench.step(
        "analysis", lambda: time_analysis(model, against, bench.jobs)
    )


def _draw(pyplot: Any, rows: list[Cell]) -> Any:
    figure, panel = pyplot.subplots(figsize=(4.2, 3.1))
    draw_times(panel, rows, "budget", "analysis_cpu", "converged")
    if rows[0]["trees"] == TREES:
        draw_paper(panel, PAPER_SECONDS)
    panel.set_xticks(sorted({row["budget"] for row in rows}))
    panel.set_xlabel("budget b (features the attacker may change)")
    panel.set_ylabel("CPU seconds, all threads")
    figure.legend(loc="outside upper center", ncols=2)
    return figure
