"""`treeproof inspect`: shows what was imported."""

from __future__ import annotations

from typing import Any

import click

from treeproof.cli import screen
from treeproof.cli.options import ModelFile, takes
from treeproof.results.markup import number

MOST_VALUES = 6
"""Values of a category that are shown."""


@click.command()
@takes(ModelFile)
@click.option("--features", "all_features", is_flag=True, help="Every feature, not only the most tested ones.")
def inspect(model: ModelFile, all_features: bool) -> None:
    """What is in MODEL: trees, features, classes, and how scores become a label."""
    import numpy as np

    ensemble = model.load()
    rule = ensemble.rule
    inner = ensemble.feature >= 0
    depths = ensemble.depths
    low, high = ensemble.value_low, ensemble.value_high
    lines = [
        ("imported from", ensemble.origin or "treeproof"),
        ("trees", ensemble.n_trees),
        ("nodes", f"{ensemble.n_nodes}, of which {int((~inner).sum())} are leaves"),
        ("depth", f"{int(depths.min())} to {int(depths.max())}, {float(depths.mean()):.1f} on average"),
        ("features", f"{ensemble.n_features}, of which {len(np.unique(ensemble.feature[inner]))} are tested"),
        ("thresholds", f"{int((ensemble.grid.n_cells - 1).sum())}, all different"),
        ("classes", ", ".join(map(str, ensemble.classes.tolist()))),
        ("scores", f"{ensemble.n_scores} per row in {rule.precision}, decided by {rule.decision.name.lower()}"),
        ("label", ensemble.decision_text.removeprefix("label ") or "as the library decides"),
        ("base score", ", ".join(number(float(b)) for b in ensemble.base)),
        ("missing values", "accepted" if ensemble.may_be_missing.any() else "refused"),
        ("numbers", f"from {number(float(low.min()))} to {number(float(high.max()))}"),
    ]
    for name, value in lines:
        screen.say(f"{name:16}{value}")
    screen.say()
    counts = np.bincount(ensemble.feature[inner], minlength=ensemble.n_features)
    order = np.argsort(-counts, kind="stable")[: None if all_features else 10]
    rows = []
    for f in order:
        cuts = ensemble.grid.cuts_of(int(f))
        if len(cuts) or all_features:
            rows.append((_name(ensemble, int(f)), int(counts[f]), *_values(ensemble, int(f))))
    screen.table("features by tests", ("feature", "tests", "thresholds", "values"), rows)
    if len(rows) < int((counts > 0).sum()):
        screen.say(f"and {int((counts > 0).sum()) - len(rows)} more features; --features shows all")


def _values(ensemble: Any, f: int) -> tuple[int | str, str]:
    """How many thresholds a feature has, and where they lie; of a category, the values that the model knows."""
    column, cuts = ensemble.columns[f], ensemble.grid.cuts_of(f)
    if column.kind == "category":
        shown = ", ".join(str(value) for value in column.values[:MOST_VALUES])
        return "", f"{len(column.values)} known: {shown}{', …' if len(column.values) > MOST_VALUES else ''}"
    return len(cuts), f"{number(float(cuts[0]))} to {number(float(cuts[-1]))}" if len(cuts) else ""


def _name(ensemble: Any, f: int) -> str:
    return str(f) if ensemble.feature_names is None else str(ensemble.feature_names[f])
