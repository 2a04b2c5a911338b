"""Figure 6: how the estimates r̂ and R̂ grow with the iterations of the analysis, on 17 trees."""

from __future__ import annotations

from typing import Any

import treeproof as tp
from treeproof.paper import published
from treeproof.paper.models import attacker, cells_of, model_of, reachable, split
from treeproof.paper.style import BLUE, RED
from treeproof.paper.workbench import Cell, Workbench, finished, markdown, share

NAME = "iterations"
SHOWN = (0, 5, 10, 20, 50, 100, 120, 200, 300, 400, 500)
"""The iterations in the Markdown table; the CSV has all."""


def run(bench: Workbench) -> None:
    """Follows the estimates on the test set of diabetes until the analysis converges."""
    reachable(bench, ["diabetes"])
    cells = cells_of(bench, "diabetes", 5 if bench.quick else 17, 3, ("standard", "robust", "TREANT"))
    models = bench.rows(NAME, cells, _measure)
    rows = [
        {name: model[name] for name in ("dataset", "trees", "depth", "model")}
        | {"iteration": i, "r_hat": r, "R_hat": R, "candidates": candidates}
        for model in models
        for i, (r, R, candidates) in enumerate(zip(model["r_hat"], model["R_hat"], model["candidates"], strict=True))
    ]
    text = (
        f"Diabetes, {models[0]['trees']} trees of depth 3, budget 1, ε = {published.EPSILON['diabetes']}, {bench.jobs} "
        f"threads. The paper, on TREANT forests: {published.SAYS[NAME]}. Once the analysis has converged, r̂ = r and "
        "R̂ = R."
    )
    last = {(model["model"], len(model["r_hat"]) - 1) for model in models}
    chosen = [row for row in rows if row["iteration"] in SHOWN or (row["model"], row["iteration"]) in last]
    columns: dict[str, Any] = {
        "model": lambda row: row["model"],
        "iteration": lambda row: (
            f"{row['iteration']}{' (converged)' if (row['model'], row['iteration']) in last else ''}"
        ),
        "r̂": lambda row: share(row["r_hat"]),
        "R̂": lambda row: share(row["R_hat"]),
        "candidates": lambda row: f"{row['candidates']:,}",
    }
    parts = [text, markdown(columns, chosen)]
    bench.publish(NAME, "Figure 6: estimates per iteration", rows, lambda pyplot: _draw(pyplot, models), parts)


def _measure(bench: Workbench, cell: Cell) -> Cell:
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"])
    epsilon = published.EPSILON[cell["dataset"]]
    model = model_of(bench, cell)
    track = (data.X_test, data.y_test, [epsilon])
    history = finished(tp.analyze(model, against, max_iterations=None, n_jobs=bench.jobs, track=track)).history
    exact = finished(tp.verify(model, data.X_test, data.y_test, against, epsilon=epsilon, n_jobs=bench.jobs))
    return {
        "r": float(exact.robustness),
        "R": float(exact.resilience),
        "r_hat": history.robustness.tolist(),
        "R_hat": history.resilience[epsilon].tolist(),
        "candidates": history.candidates.tolist(),
    }


def _draw(pyplot: Any, models: list[Cell]) -> Any:
    figure, panels = pyplot.subplots(1, len(models), figsize=(2.2 * len(models), 2.7), sharey=True, squeeze=False)
    for panel, model in zip(panels[0], models, strict=True):
        for name, color, line, label in (("r", BLUE, "-", "r̂"), ("R", RED, "--", "R̂")):
            panel.axhline(model[name], color=color, linewidth=0.8, linestyle=":")
            panel.plot(model[f"{name}_hat"], color=color, linestyle=line, label=f"{label} (dotted: exact {name})")
        panel.axvline(120, color="#999999", linewidth=0.8)
        panel.set_title(f"{model['model']}, {model['trees']} × {model['depth']}")
        panel.set_xlabel("iterations")
        panel.set_ylim(0, 1)
    panels[0][0].annotate("paper: plateau\nfrom 120 on", (120, 0.06), (4, 0), textcoords="offset points", fontsize=6.5)
    panels[0][0].set_ylabel("share of test instances")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure
