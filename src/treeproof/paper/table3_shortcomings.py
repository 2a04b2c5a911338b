"""Table III: how much accuracy and robustness change between close test sets, sampled and over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import treeproof as tp
from treeproof.paper import published
from treeproof.paper.models import KINDS, attacker, cells_of, model_of, reachable, split
from treeproof.paper.neighbours import Sampled, extremes
from treeproof.paper.style import BLUE, GREY, ORANGE, panels_of
from treeproof.paper.workbench import Cell, Workbench, between, finished, markdown, share

NAME = "shortcomings"
MEASURES = ("a", "a_min", "a_max", "r", "r_min", "r_max")
EXPLANATION = """\
Each instance of the test set is replaced by a neighbour from N(x). *sampled*: the lowest and highest robustness over
{sets} random test sets, and the accuracy of these two sets (the paper's `a_min`, `a_max`: its text can also be read as
lowest and highest accuracy, which the CSV has as `a_lowest`, `a_highest`; it left out sets whose accuracy differed a
lot, we leave out none). *all*: over **all** neighbouring test sets. Their extremes are shares of instances, since each
is replaced independently, and are decided as follows.

- lowest accuracy: instances for which all of N(x) has the right label (`verify` with an attacker who moves every
  feature by up to ε). Exact.
- highest accuracy: instances for which some of N(x) has it. Exact.
- lowest robustness: instances for which all of N(x) is robust. This is the resilience R. Exact.
- highest robustness: instances for which some of N(x) is robust: the instance itself, a sampled neighbour, or a point
  in a stability map of N(x) alone. {highest}"""


def run(bench: Workbench) -> None:
    """Samples test sets around the given ones, finds the extremes over all, and writes both next to the paper's."""
    wanted = ["diabetes"] if bench.quick else list(published.EPSILONS)
    cells = [
        cell | {"epsilon": epsilon, "sets": 10 if bench.quick else 100}
        for dataset in reachable(bench, wanted)
        for epsilon in published.EPSILONS[dataset][: 2 if bench.quick else None]
        for cell in cells_of(bench, dataset, published.TREES_OF_TABLE_III, 3, ("standard", "robust", "TREANT"))
    ]
    lines = published.table_iii()
    rows = [row | published.beside(row, lines, MEASURES) for row in bench.rows(NAME, cells, _measure)]
    title, parts = "Table III: close test sets, different robustness", [_explanation(rows), *_tables(rows)]
    bench.publish(NAME, title, rows, lambda pyplot: _draw(pyplot, rows), parts)


def _measure(bench: Workbench, cell: Cell) -> Cell:
    data, against = split(cell["dataset"], bench.data), attacker(cell["dataset"])
    X, y, epsilon = data.X_test, data.y_test, cell["epsilon"]
    model = model_of(bench, cell)
    smap = finished(tp.StabilityMap.build(model, against, n_jobs=bench.jobs))
    seen = Sampled.of(smap, X, y, epsilon, cell["sets"])
    a, r = seen.correct.mean(axis=1), seen.robust.mean(axis=1)
    over_all = extremes(model, against, X, y, epsilon, np.asarray(seen.robust.any(axis=0)), bench.jobs)
    return {
        "a": float((model.predict(X) == y).mean()),
        "r": float(smap.robustness(X, y)),
        "a_min": float(a[r.argmin()]),
        "a_max": float(a[r.argmax()]),
        "r_min": float(r.min()),
        "r_max": float(r.max()),
        "a_lowest": float(a.min()),
        "a_highest": float(a.max()),
        "all_a_min": over_all.a_min,
        "all_a_max": over_all.a_max,
        "all_r_min": over_all.r_min,
        "all_r_max": over_all.r_max.lower,
        "all_r_max_upper": over_all.r_max.upper,
    }


def _explanation(rows: list[Cell]) -> str:
    loose = [row for row in rows if row["all_r_max"] != row["all_r_max_upper"]]
    if loose:
        highest = (
            f"Exact in {len(rows) - len(loose)} of {len(rows)} rows; in the others, it is at least the number shown."
        )
    else:
        highest = "Exact: every search came to an end."
    return EXPLANATION.format(sets=rows[0]["sets"], highest=highest)


def _tables(rows: list[Cell]) -> list[str]:
    columns: dict[str, Any] = {
        "data set": lambda row: row["dataset"],
        "ε": lambda row: str(row["epsilon"]),
        "paper a": lambda row: share(row["paper_a"]),
        "a": lambda row: share(row["a"]),
        "paper r": lambda row: share(row["paper_r"]),
        "r": lambda row: share(row["r"]),
        "r, sampled (paper)": lambda row: between(row["paper_r_min"], row["paper_r_max"]),
        "r, sampled": lambda row: between(row["r_min"], row["r_max"]),
        "**r, all**": lambda row: between(row["all_r_min"], row["all_r_max"]),
        "a, sampled (paper)": lambda row: between(row["paper_a_min"], row["paper_a_max"]),
        "a, sampled": lambda row: between(row["a_min"], row["a_max"]),
        "**a, all**": lambda row: between(row["all_a_min"], row["all_a_max"]),
    }
    parts = []
    for kind in KINDS:
        chosen = [row for row in rows if row["model"] == kind]
        if chosen:
            title = "" if kind == "standard" else " (the paper's columns are its TREANT models)"
            parts += [f"## 7 trees of depth 3, {kind}{title}", markdown(columns, chosen)]
    return parts


def _draw(pyplot: Any, rows: list[Cell]) -> Any:
    figure, panels = panels_of(pyplot, rows, ("standard", "robust"), 4.2, sharey="col")
    for panel, kind, dataset, chosen in panels:
        places = range(len(chosen))
        for shift, name, look in _BARS:
            low, high = ([row[f"{name}r_{end}"] for row in chosen] for end in ("min", "max"))
            height = [b - a for a, b in zip(low, high, strict=True)]
            at = [place + shift for place in places]
            panel.bar(at, height, bottom=low, width=0.24, **look)
        panel.plot(places, [row["r"] for row in chosen], "k_", markersize=16, label="r on the given test set")
        panel.set_xticks(places, [str(row["epsilon"]) for row in chosen])
        panel.grid(axis="x", visible=False)
        panel.use_sticky_edges = False  # bars hang in the air, so both of their ends need a margin
        panel.autoscale_view()
        if kind == "standard":
            panel.set_title(dataset)
        else:
            panel.set_xlabel("neighbourhood ε")
        if dataset == rows[0]["dataset"]:
            panel.set_ylabel(kind)
    figure.supylabel("robustness r, share of instances", fontsize=8)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


_BARS: tuple[tuple[float, str, dict[str, Any]], ...] = (
    (-0.26, "paper_", {"color": GREY, "label": "sampled test sets, paper", "hatch": "....", "edgecolor": "white"}),
    (0.0, "", {"color": BLUE, "label": "sampled test sets, treeproof"}),
    (
        0.26,
        "all_",
        {"color": ORANGE, "label": "all neighbouring test sets, exact", "hatch": "////", "edgecolor": "white"},
    ),
)
