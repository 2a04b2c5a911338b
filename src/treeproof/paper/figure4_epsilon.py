"""Figure 4: resilience as the neighbourhood grows: the bounds R̂ and r̄, and the exact R between them."""

from __future__ import annotations

from typing import Any

import treeproof as tp
from treeproof.paper import published
from treeproof.paper.models import KINDS, attacker, cells_of, model_of, reachable, split
from treeproof.paper.neighbours import Sampled
from treeproof.paper.style import BLUE, ORANGE, RED
from treeproof.paper.workbench import Cell, Workbench, finished, markdown, share

NAME = "epsilon"
EPSILONS = (0.01, 0.02, 0.03, 0.04, 0.05)
FEW_ITERATIONS = 10
"""After this many iterations the analysis has not converged, and R̂ is a bound as in the paper."""


def run(bench: Workbench) -> None:
    """Measures R̂, r̄ and R on diabetes for every ε, and the curve of R over all ε."""
    reachable(bench, ["diabetes"])
    kinds = KINDS[:2] if bench.quick else KINDS
    cells = [
        cell | {"epsilons": list(EPSILONS[::2] if bench.quick else EPSILONS), "samples": 20 if bench.quick else 100}
        for cell in cells_of(bench, "diabetes", 5 if bench.quick else 9, 3, kinds)
    ]
    models = bench.rows(NAME, cells, _measure)
    rows = [
        {name: model[name] for name in ("dataset", "trees", "depth", "model", "samples")} | point
        for model in models
        for point in model["points"]
    ]
    widest = max(row["r_bar"] - row["R_hat"] for row in rows)
    text = (
        f"Diabetes, {rows[0]['trees']} trees of depth 3, budget 1. The paper: {published.SAYS[NAME]}. Ours: at most "
        f"{widest:.3f} apart, and the exact R, from `resilience_curve`, is known for every ε. `R̂ early` is from an "
        f"analysis stopped after {FEW_ITERATIONS} iterations, `R̂` from one stopped after at most 400."
    )
    columns: dict[str, Any] = {"model": lambda row: row["model"], "ε": lambda row: str(row["epsilon"])}
    heads = {"R_early": "R̂ early", "R_hat": "R̂", "R": "**R**", "r_bar": "r̄", "r": "r"}
    columns |= {head: (lambda row, name=name: share(row[name])) for name, head in heads.items()}
    parts = [text, markdown(columns, rows)]
    bench.publish(NAME, "Figure 4: resilience for different ε", rows, lambda pyplot: _draw(pyplot, models), parts)


def _measure(bench: Workbench, cell: Cell) -> Cell:
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"])
    X, y = data.X_test, data.y_test
    model = model_of(bench, cell)
    curve = tp.resilience_curve(model, X, y, against, n_jobs=bench.jobs)
    whole = finished(tp.analyze(model, against, n_jobs=bench.jobs))
    early = finished(tp.analyze(model, against, max_iterations=FEW_ITERATIONS, n_jobs=bench.jobs))
    smap = finished(tp.StabilityMap.build(model, against, n_jobs=bench.jobs))
    points = [
        {
            "epsilon": epsilon,
            "r": curve(0.0),
            "R_early": early.resilience(X, y, epsilon),
            "R_hat": whole.resilience(X, y, epsilon),
            "R": curve(epsilon),
            "r_bar": Sampled.of(smap, X, y, epsilon, cell["samples"]).unluckiest,
        }
        for epsilon in cell["epsilons"]
    ]
    return {"points": points, "steps": [curve.epsilons.tolist(), curve.resilience.tolist()]}


def _draw(pyplot: Any, models: list[Cell]) -> Any:
    figure, panels = pyplot.subplots(
        1, len(models), figsize=(1.75 * len(models) + 0.6, 2.6), sharey=True, squeeze=False
    )
    end = models[0]["epsilons"][-1] * 1.15
    for panel, model in zip(panels[0], models, strict=True):
        steps = [step for step in zip(*model["steps"], strict=True) if step[0] < end]
        epsilons, resilience = zip(*steps, (end, steps[-1][1]), strict=True)
        panel.step(epsilons, resilience, where="post", color=RED, label="R, exact")
        at = [point["epsilon"] for point in model["points"]]
        for name, marker, color, label in (
            ("r_bar", "v", ORANGE, "r̄, sampled, from above"),
            ("R_hat", "^", BLUE, "R̂, analysis, from below"),
        ):
            panel.plot(at, [point[name] for point in model["points"]], marker, color=color, label=label)
        panel.set_title(f"{model['model']}, {model['trees']} × {model['depth']}")
        panel.set_xlim(0, end)
        panel.set_xlabel("neighbourhood ε")
    panels[0][0].set_ylabel("share of test instances")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure
