"""Batch prediction against scikit-learn's own: 100 trees of depth 8, a million rows, one thread.

python -m benchmarks.predict [rows]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

import treeproof as tp

REPEATS = 3


def best_of(call: Callable[[], object]) -> float:
    """The fastest of a few runs, in seconds: the others were disturbed."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main(n_rows: int) -> None:
    X, y = make_classification(20_000, 20, n_informative=10, random_state=0)
    rows = np.random.default_rng(0).normal(scale=2, size=(n_rows, 20))
    X3, y3 = make_classification(20_000, 20, n_informative=10, n_classes=3, random_state=0)
    models = {
        "forest 100 × depth 8": RandomForestClassifier(100, max_depth=8, random_state=0).fit(X, y),
        "forest 100 × depth 8, 3 classes": RandomForestClassifier(100, max_depth=8, random_state=0).fit(X3, y3),
        "histogram boosting 100 × depth 8": HistGradientBoostingClassifier(max_depth=8, random_state=0).fit(X, y),
    }
    start = time.perf_counter()
    for model in models.values():
        tp.from_model(model).predict(rows[:10])
    seconds = time.perf_counter() - start
    print(f"import of {len(models)} models and first call, compilation or its cache included: {seconds:.2f} s")
    print(f"{'model':34} {'treeproof':>14} {'scikit-learn':>14} {'ratio':>6} {'differ':>7}")
    with threadpool_limits(1):
        for name, model in models.items():
            ensemble = tp.from_model(model)
            ours, theirs = best_of(partial(ensemble.predict, rows)), best_of(partial(model.predict, rows))
            differ = int((ensemble.predict(rows) != model.predict(rows)).sum())
            print(
                f"{name:34} {n_rows / ours:10,.0f} r/s {n_rows / theirs:10,.0f} r/s {theirs / ours:6.2f} {differ:7d}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
