"""The data and the models of the experiments: scikit-learn's, treeproof's own robust ones, and the authors' TREANT."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import treeproof as tp
from treeproof.paper import datasets
from treeproof.paper.published import EPSILON, PERTURBATION
from treeproof.paper.workbench import Cell, Workbench

KINDS = ("standard", "robust", "resilient", "TREANT")
"""scikit-learn's models; treeproof's, robust, and robust in the whole neighbourhood; and the authors' forests."""

SEED = 7
"""The paper's seed."""

split = cache(datasets.split)


def attacker(dataset: str, budget: int = 1) -> tp.Attacker:
    """The attacker of the published experiments, who lowers features by up to δ, as many as the budget allows."""
    return tp.Attacker((-PERTURBATION[dataset], 0.0), budget=budget)


def reachable(bench: Workbench, wanted: Sequence[str]) -> list[str]:
    """Those of the data sets that are available; says which are left out, and refuses if none is left."""
    found, reasons = [], []
    for dataset in wanted:
        try:
            split(dataset, bench.data)
            found.append(dataset)
        except tp.InvalidInput as error:  # noqa: PERF203 (three data sets at most)
            reasons.append(str(error))
    if not found:
        raise tp.InvalidInput("; ".join(reasons))
    for reason in reasons:
        bench.say(f"left out: {reason}")
    return found


def cells_of(bench: Workbench, dataset: str, trees: int, depth: int, kinds: Sequence[str] = KINDS) -> list[Cell]:
    """The available models of one size, with one cell each."""
    cells: list[Cell] = []
    for kind in kinds:
        cell: Cell = {"dataset": dataset, "trees": trees, "depth": depth, "model": kind}
        if kind == "TREANT":
            file = _treant_file(bench, cell)
            if file is None:
                continue
            cell["file"] = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        cells.append(cell)
    return cells


def model_of(bench: Workbench, cell: Cell, budget: int = 1) -> tp.Ensemble:
    """The model of a cell, trained on the training rows of its data set or read from its file."""
    if cell["model"] == "TREANT":
        file = _treant_file(bench, cell)
        if file is None:
            raise tp.InvalidInput(f"{bench.models} has no TREANT forest for {cell}")
        return tp.load_model(file)
    data = split(cell["dataset"], bench.data)
    if cell["model"] == "standard":
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(cell["trees"], max_depth=cell["depth"], random_state=SEED)
        return tp.from_model(forest.fit(data.X_train, data.y_train), voting="hard")
    against = attacker(cell["dataset"], budget)
    epsilon = EPSILON[cell["dataset"]] if cell["model"] == "resilient" else None
    if cell["trees"] == 1:
        robust = tp.RobustTreeClassifier(against, max_depth=cell["depth"], epsilon=epsilon, random_state=SEED)
    else:
        robust = tp.RobustForestClassifier(
            against,
            n_estimators=cell["trees"],
            max_depth=cell["depth"],
            epsilon=epsilon,
            criterion="treant",
            voting="hard",
            shared_budget=False,
            max_features=None,
            random_state=SEED,
        )
    return tp.from_model(robust.fit(data.X_train, data.y_train))


def _treant_file(bench: Workbench, cell: Cell) -> Path | None:
    if bench.models is None:
        return None
    file = bench.models / f"treant_{cell['dataset']}_trees{cell['trees']}_depth{cell['depth']}.json"
    return file if file.is_file() else None
