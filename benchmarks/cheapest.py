"""The cheapest L1 attack, against treecf's exact search (a Rust core).

    pip install -e '.[bench]'
    python -m benchmarks.cheapest [--rows 12] [--relations]

Breast cancer, min-max scaled, XGBoost trained on the even rows; both search for the cheapest change of the label of the
same odd rows, one after the other in the same run. Reading the model is not counted on either side; treecf has its own
settings, but as many nodes as it needs within 60 s a row. With `--relations`, under each kind of constraint
(`cheapest_relations.py`).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from benchmarks import cheapest_relations

CASES = ((30, 3, 8), (100, 4, 8), (100, 6, 30), (300, 6, 30))
"""Trees, depth, features."""


def theirs(model: Any, rows: np.ndarray) -> tuple[float, list[float]]:
    """Seconds, and the prices."""
    import treecf

    explainer = treecf.Explainer(model, normalizers=np.ones(rows.shape[1]))
    labels = model.predict(rows)
    start = time.perf_counter()
    prices = []
    for row, label in zip(rows, labels, strict=True):
        goal = treecf.Target.probability(op="<=" if label == 1 else ">=", value=0.5)
        found = explainer.explain(row, goal, backend="exact", time_budget_s=60.0, node_budget=10**9, seed=0)
        prices.append(float(getattr(found, "distance", np.nan)))
    return time.perf_counter() - start, prices


def ours(model: Any, rows: np.ndarray) -> tuple[float, tp.CheapestAttacks]:
    """Seconds, and the attacks."""
    ensemble = tp.from_model(model)
    start = time.perf_counter()
    found = tp.cheapest_attack(ensemble, rows, tp.Attacker.lp(1, 1.0))
    return time.perf_counter() - start, found


def main() -> None:
    """Prints one line per case."""
    from xgboost import XGBClassifier

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--relations", action="store_true", help="the same under treecf's kinds of constraints")
    options = parser.parse_args()
    if options.relations:
        for line in cheapest_relations.compare(options.rows):
            print(line, flush=True)
        return
    X, y = load_breast_cancer(return_X_y=True)
    X = minmax_scale(X)
    print(f"{'model':24} {'treecf':>9} {'treeproof':>10} {'ratio':>7}  prices equal to 1e-5, proved")
    for trees, depth, features in CASES:
        data = np.ascontiguousarray(X[:, :features])
        model = XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1).fit(data[::2], y[::2])
        rows = data[1::2][: options.rows]
        ours(model, rows)  # compiles
        seconds, found = ours(model, rows)
        their_seconds, prices = theirs(model, rows)
        equal = int(np.isclose(found.price, prices, rtol=1e-5, atol=1e-9).sum())
        print(
            f"{f'{trees} × {depth}, {features} features':24} {their_seconds:8.3f}s {seconds:9.3f}s "
            f"{their_seconds / seconds:6.1f}×  {equal} of {len(rows)}, {int(found.exact.sum())}",
            flush=True,
        )


if __name__ == "__main__":
    main()
