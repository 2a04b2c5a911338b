"""Counterfactuals beside treecf's exact search (a Rust core), and resilient ones, which nobody else has.

    pip install treecf
    python -m benchmarks.counterfactual [--rows 12] [--relations | --resilient]

The cheapest L1 change to the other label, for rows that were not trained on: XGBoost models on breast cancer (min-max
scaled), adult, german credit (its numbers) and diabetes; with `--relations` under each kind of treecf's constraints
(`cheapest_relations.py`). Both run one after the other in the same run, in CPU seconds; reading the model is not
counted on either side. With `--resilient`, changes that hold for all rows within ε, and what that costs.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from benchmarks import cheapest_relations as related
from benchmarks.cheapest_relations import Answers, Said, Table

SECONDS = 60.0
"""What both have for a row."""
SIZES = ((30, 3), (100, 4), (100, 6), (300, 6))
"""Trees, and their depth."""


def cancer(features: int) -> Table:
    """Breast cancer, min-max scaled."""
    X, y = load_breast_cancer(return_X_y=True)
    return Table(pd.DataFrame(minmax_scale(X)[:, :features]).add_prefix("f"), y)


def numbers(table: Table) -> Table:
    """The columns of a table that are in no one-hot group, min-max scaled."""
    members = {c for some in table.groups.values() for c in some}
    X = table.X[[c for c in table.X if c not in members]]
    return Table(pd.DataFrame(minmax_scale(X), columns=X.columns), table.y)


def tables() -> dict[str, Table]:
    """All data sets."""
    others = {name: numbers(getattr(related, name)()) for name in ("adult", "german", "diabetes")}
    return {"breast cancer, 8": cancer(8), "breast cancer, 30": cancer(30)} | others


def ours(ensemble: tp.Ensemble, rows: pd.DataFrame, words: dict[str, Any], **more: Any) -> Answers:
    """What treeproof finds: the change of each row to the other label."""
    values, labels = rows.to_numpy(), ensemble.predict(rows.to_numpy())
    prices, proved = np.full(len(rows), np.inf), np.zeros(len(rows), dtype=bool)
    start = time.process_time()
    for label in np.unique(labels).tolist():
        some = labels == label
        found = tp.counterfactual(ensemble, values[some], to=1 - label, **words, **more)
        prices[some], proved[some] = found.price, found.exact
    return Answers(time.process_time() - start, prices, proved)


def theirs(model: Any, rows: pd.DataFrame, warm: bool) -> Answers:
    """What treecf finds, with or without its genetic search before the exact one."""
    import treecf

    explainer = treecf.Explainer(model, normalizers=np.ones(rows.shape[1]))
    prices, proved = np.full(len(rows), np.inf), np.zeros(len(rows), dtype=bool)
    labels = model.predict(rows)
    start = time.process_time()
    for i, (row, label) in enumerate(zip(rows.to_numpy(), labels, strict=True)):
        goal = treecf.Target.probability(op="<=" if label == 1 else ">=", value=0.5)
        words = {"backend": "exact", "time_budget_s": SECONDS, "node_budget": 10**9, "seed": 0, "warm_start": warm}
        found = explainer.explain(row, goal, **words)
        prices[i] = getattr(found, "distance", np.inf)
        proved[i] = found.proof in ("optimal", "certified")
    return Answers(time.process_time() - start, prices, proved)


def _trained(table: Table, trees: int, depth: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1).fit(table.X[::2].to_numpy(), table.y[::2])


def compare(n_rows: int) -> Iterator[str]:
    """A head, and one line per data set and size of the model; treecf as it is, and without its genetic search."""
    head = f"{'rows of':20} {'model':8} {'cold treecf':>11} {'ratio':>7} {'treecf':>9} {'treeproof':>10} {'ratio':>8}"
    yield f"{head}  equal, proved, treecf proved"
    for name, table in tables().items():
        for trees, depth in SIZES:
            model, rows = _trained(table, trees, depth), table.X[1::2].head(n_rows)
            ensemble, words = tp.from_model(model), {"attacker": tp.Attacker.lp(1, 1.0), "timeout": SECONDS}
            ours(ensemble, rows, words)  # compiles
            mine = ours(ensemble, rows, words)
            other, cold = theirs(model, rows, True), theirs(model, rows, False)
            without = f"{cold.seconds:10.3f}s {cold.seconds / mine.seconds:6.1f}×"
            yield f"{name:20} {f'{trees} × {depth}':8} {without} {_line(mine, other)}"


def _line(mine: Answers, other: Answers) -> str:
    both = mine.proved & other.proved
    equal = np.isclose(mine.prices, other.prices, **related.CLOSE) | (mine.prices == other.prices)
    apart = "".join(f"  ours {mine.prices[i]!r}, treecf {other.prices[i]!r}" for i in np.flatnonzero(both & ~equal))
    counts = f"{int((equal & both).sum())} of {int(both.sum())}, {int(mine.proved.sum())}, {int(other.proved.sum())}"
    return f"{other.seconds:8.3f}s {mine.seconds:9.4f}s {other.seconds / mine.seconds:7.1f}×  {counts}{apart}"


def compare_related(n_rows: int) -> Iterator[str]:
    """The same under each kind of constraint."""
    # treecf warns of rows that break constraints, and of time that is up, which the lines say.
    warnings.filterwarnings("ignore", module=related.__name__)
    yield f"{'constraints':24} {'rows of':13} {'model':8} {'treecf':>9} {'treeproof':>10} {'ratio':>8}  as above"
    for kind in related.KINDS:
        table = kind.table()
        said = kind.said(table)
        rows = _valid(related._asked(table, said, 4 * n_rows), said, table).head(n_rows)
        for trees, depth in related.SIZES:
            model = _trained(table, trees, depth)
            model.get_booster().feature_names = list(table.X)
            ensemble, words = tp.from_model(model), {**said.to_treeproof(table), "timeout": related.SECONDS}
            ours(ensemble, rows, words)  # compiles
            mine, other = ours(ensemble, rows, words), related.theirs(model, table, said, rows)
            line = f"refused {mine.seconds:9.4f}s {other}" if isinstance(other, str) else _line(mine, other)
            yield f"{kind.name:24} {kind.table.__name__:13} {f'{trees} × {depth}':8} {line}"


def _valid(rows: pd.DataFrame, said: Said, table: Table) -> pd.DataFrame:
    """The rows that keep the relations: treeproof explains no others."""
    keeps = np.ones(len(rows), dtype=bool)
    for a, b in said.implies:
        keeps &= ~((rows[a] == 1) & (rows[b] != 1)).to_numpy()
    for a, b in said.orders:
        keeps &= (rows[a] <= rows[b]).to_numpy()
    for factors, operator, bound in said.sums:
        total = sum(rows[c] * factor for c, factor in factors.items())
        keeps &= np.asarray(np.isclose(total, bound) if operator == "==" else total <= bound)
    del table
    return rows[keeps]


def resilient(n_rows: int, seconds: float) -> Iterator[str]:
    """A head, and one line per data set, model and ε: what resilience costs."""
    head = f"{'rows of':20} {'model':16} {'ε':>5} {'plain':>9} {'resilient':>10} {'dearer':>7}"
    yield f"{head}  proved, none, open (with a change)"
    for name, table in tables().items():
        rows = table.X[1::2].head(n_rows)
        models = {f"XGBoost {trees} × {depth}": _trained(table, trees, depth) for trees, depth in SIZES[1:]}
        forest = RandomForestClassifier(100, max_depth=6, random_state=0)
        models["forest 100 × 6"] = forest.fit(table.X[::2].to_numpy(), table.y[::2])
        for kind, model in models.items():
            ensemble = tp.from_model(model)
            for size in (0.01, 0.05):
                words = {"attacker": tp.Attacker.lp(1, 1.0, domain=(0.0, 1.0)), "timeout": seconds}
                ours(ensemble, rows.head(2), {**words, "timeout": None})  # compiles
                plain, held = ours(ensemble, rows, words), ours(ensemble, rows, words, epsilon=size)
                both = plain.proved & held.proved & np.isfinite(held.prices) & (plain.prices > 0)
                dearer = f"{np.median(held.prices[both] / plain.prices[both]):6.2f}×" if both.any() else f"{'-':>7}"
                none, left = int((held.proved & np.isinf(held.prices)).sum()), int((~held.proved).sum())
                best = int((~held.proved & np.isfinite(held.prices)).sum())
                yield (
                    f"{name:20} {kind:16} {size:5} {plain.seconds:8.3f}s {held.seconds:9.3f}s {dearer}  "
                    f"{int(held.proved.sum())} of {len(rows)}, {none}, {left} ({best})"
                )


def main() -> None:
    """Prints one line per case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=10.0, help="for a row, with --resilient")
    parser.add_argument("--relations", action="store_true", help="under treecf's kinds of constraints")
    parser.add_argument("--resilient", action="store_true", help="changes that hold within ε; treecf has none")
    options = parser.parse_args()
    lines = resilient(options.rows, options.seconds) if options.resilient else compare(options.rows)
    for line in compare_related(options.rows) if options.relations else lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
