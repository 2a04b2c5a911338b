"""Table IV: accuracy, robustness and resilience of all models, with exact resilience next to the paper's bounds."""

from __future__ import annotations

from typing import Any

import treeproof as tp
from treeproof.paper import published
from treeproof.paper.models import KINDS, attacker, cells_of, model_of, reachable, split
from treeproof.paper.neighbours import Sampled
from treeproof.paper.style import BLUE, GREY, LOOKS, ORANGE, RED, panels_of
from treeproof.paper.workbench import Cell, Workbench, finished, markdown, share

NAME = "results"
MEASURES = ("a", "r", "r_hat", "r_bar", "R_hat")
HEADS = {"a": "a", "r": "r", "r_hat": "r̂", "r_bar": "r̄", "R_hat": "R̂", "R": "R"}
TITLES = {
    "standard": "Standard models (scikit-learn)",
    "robust": "Robust models (treeproof's trainer; the paper's are TREANT's)",
    "resilient": "Models trained for resilience (treeproof; not in the paper)",
    "TREANT": "TREANT forests trained with the authors' code (measured by treeproof)",
}


def run(bench: Workbench) -> None:
    """Measures every model of the table and writes our numbers next to the paper's."""
    lines = published.table_iv()
    sizes = sorted({(line["dataset"], line["trees"], line["depth"]) for line in lines}, key=_order)
    if bench.quick:
        sizes = [size for size in sizes if size[0] == "diabetes" and size[1:] in ((1, 3), (5, 3))]
    here = reachable(bench, list(dict.fromkeys(dataset for dataset, _, _ in sizes)))
    cells = [cell for size in sizes if size[0] in here for cell in cells_of(bench, *size)]
    rows = bench.rows(NAME, [cell | {"samples": 20 if bench.quick else 100} for cell in cells], _measure)
    rows = [row | published.beside(row, lines, MEASURES) for row in rows]
    title, parts = "Table IV: robustness and resilience, budget 1", [_explanation(rows), *_tables(rows)]
    bench.publish(NAME, title, rows, lambda pyplot: _draw(pyplot, rows), parts)


def _order(size: tuple[str, int, int]) -> tuple[int, int, int]:
    return list(published.EPSILON).index(size[0]), size[1], size[2]


def _measure(bench: Workbench, cell: Cell) -> Cell:
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"])
    X, y, epsilon = data.X_test, data.y_test, published.EPSILON[cell["dataset"]]
    model = model_of(bench, cell)

    def search() -> Cell:
        exact = finished(tp.verify(model, X, y, against, epsilon=epsilon, n_jobs=bench.jobs))
        return {"a": exact.accuracy, "r": float(exact.robustness), "R": float(exact.resilience)}

    def analysis() -> Cell:
        found = finished(tp.analyze(model, against, n_jobs=bench.jobs))
        return {
            "r_hat": found.robustness(X, y),
            "R_hat": found.resilience(X, y, epsilon),
            "iterations": found.iterations,
            "converged": found.complete,
        }

    def mapped() -> Cell:
        smap = finished(tp.StabilityMap.build(model, against, n_jobs=bench.jobs))
        return {
            "r": float(smap.robustness(X, y)),
            "R": float(smap.resilience(X, y, epsilon)),
            "r_bar": Sampled.of(smap, X, y, epsilon, cell["samples"]).unluckiest,
        }

    exact, bounds, around = bench.step("search", search), bench.step("analysis", analysis), bench.step("map", mapped)
    if (around["r"], around["R"]) != (exact["r"], exact["R"]):
        raise tp.SoundnessError(f"the map and the search disagree on {cell}; please report this")
    found = {"epsilon": epsilon, "instances": len(y)} | exact | bounds | around
    return {name: found[name] for name in ("epsilon", "instances", *MEASURES, "R", "iterations", "converged")}


def _explanation(rows: list[Cell]) -> str:
    standard = [row for row in rows if row["model"] == "standard"]
    same = sum(all(round(row[name], 3) == row[f"paper_{name}"] for name in ("a", "r")) for row in standard)
    inside = sum(row["R_hat"] <= row["R"] <= row["r_bar"] for row in rows)
    bounded = sum(row["paper_R_hat"] <= round(row["R"], 3) <= row["paper_r_bar"] for row in standard)
    return (
        f"Our `a` and `r` equal the paper's to three decimals in {same} of {len(standard)} standard rows. "
        f"`R̂ ≤ R ≤ r̄` holds in {inside} of {len(rows)} of our rows, and the exact `R` lies between the paper's `R̂` "
        f"and `r̄` in {bounded} of {len(standard)} standard rows. "
        f"The analysis converged for {sum(row['converged'] for row in rows)} of {len(rows)} models; where it did, "
        f"`r̂ = r` and `R̂ = R`. For each instance, `r̄` takes the worst of {rows[0]['samples']} neighbours drawn from "
        "N(x)."
    )


def _tables(rows: list[Cell]) -> list[str]:
    parts = []
    for kind in KINDS:
        chosen = [row for row in rows if row["model"] == kind]
        if not chosen:
            continue
        columns: dict[str, Any] = {
            "data set": lambda row: row["dataset"],
            "ε": lambda row: str(row["epsilon"]),
            "trees × depth": lambda row: f"{row['trees']} × {row['depth']}",
        }
        if kind != "resilient":
            columns |= {f"paper {HEADS[name]}": _show(f"paper_{name}") for name in MEASURES}
        columns |= {f"**{HEADS[name]}**" if name == "R" else HEADS[name]: _show(name) for name in (*MEASURES, "R")}
        parts += [f"## {TITLES[kind]}", markdown(columns, chosen)]
    return parts


def _show(name: str) -> Any:
    return lambda row: share(row[name])


def _draw(pyplot: Any, rows: list[Cell]) -> Any:
    kinds = [kind for kind in ("standard", "robust", "resilient") if any(row["model"] == kind for row in rows)]
    figure, panels = panels_of(pyplot, rows, kinds, 1.7 * len(kinds) + 0.6, sharex="col")
    for panel, kind, dataset, downward in panels:
        chosen = downward[::-1]
        for place, row in enumerate(chosen):
            panel.plot([row["R"], row["r"]], [place, place], color="#bbbbbb", linewidth=2.5, zorder=1)
        for name, look in _MARKS.items():
            shown = [row.get(name) if kind != "resilient" or "paper" not in name else None for row in chosen]
            points = [(x, place) for place, x in enumerate(shown) if x is not None]
            if points:
                panel.scatter(*zip(*points, strict=True), **look)
        panel.set_yticks(range(len(chosen)), [f"{row['trees']} × {row['depth']}" for row in chosen])
        panel.set_ylim(-0.6, len(chosen) - 0.4)
        if kind == kinds[0]:
            panel.set_title(f"{dataset}, ε = {published.EPSILON[dataset]}")
        if kind == kinds[-1]:
            panel.set_xlabel("share of test instances")
        if dataset == rows[0]["dataset"]:
            panel.set_ylabel(f"{kind}\ntrees × depth", color=LOOKS[kind]["color"])
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=len(_MARKS))
    return figure


_MARKS: dict[str, dict[str, Any]] = {
    "r": {"label": "robustness r", "marker": "o", "facecolor": "white", "edgecolor": BLUE, "s": 28, "zorder": 3},
    "r_bar": {"label": "r̄, unluckiest samples", "marker": "|", "color": ORANGE, "s": 70, "zorder": 4},
    "R": {"label": "resilience R, exact", "marker": "D", "color": RED, "s": 14, "zorder": 3},
    "paper_R_hat": {"label": "R̂ of the paper", "marker": "x", "color": GREY, "s": 22, "zorder": 2},
}
