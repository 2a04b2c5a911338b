"""The guard's throughput: rows per second of `predict`, online and by map, beside the plain model's.

    TREEPROOF_GOLDEN=… TREEPROOF_DATA=… python -m benchmarks.guard

One thread, warm, CPU seconds of the process: they do not depend on what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from benchmarks.cases import breast_cancer
from benchmarks.map import LEFT, forest
from tests.support.golden import split


def rate(ask: Callable[[Any], Any], rows: Any) -> float:
    """Rows per CPU second."""
    ask(rows[:50])
    cpu = time.process_time()
    ask(rows)
    return len(rows) / (time.process_time() - cpu)


def online() -> Iterator[str]:
    X, y = breast_cancer()
    X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=7)
    model = tp.from_model(RandomForestClassifier(100, max_depth=8, random_state=7).fit(X_train, y_train))
    rows = np.tile(X_test, (20, 1))
    plain = rate(model.predict, rows)
    for delta in (0.01, 0.05, 0.1):
        guard = tp.GuardedClassifier(model, tp.Attacker.linf(delta)).fit()
        one = rate(lambda some, guard=guard: [guard.predict(row[None]) for row in some], X_test)
        yield (
            f"online, breast cancer 100 × 8, L∞ {delta:<5} answered {guard.coverage(X_test):6.1%}  "
            f"{rate(guard.predict, rows):>10,.0f} rows/s, one by one {one:,.0f} rows/s, plain {plain:,.0f} rows/s"
        )


def by_map() -> Iterator[str]:
    model = forest(17, 3)
    test = np.ascontiguousarray(split("diabetes").X_test)
    rows = np.tile(test, (2000, 1))
    plain = rate(model.predict, rows)
    for mode in ("map", "online"):
        guard = tp.GuardedClassifier(model, LEFT, mode=mode, n_jobs=1).fit()
        some = rows if mode == "map" else rows[: 20 * len(test)]
        yield (
            f"{mode + ', diabetes 17 × 3, left 0.03':40} answered {guard.coverage(test):6.1%}  "
            f"{rate(guard.predict, some):>10,.0f} rows/s, plain {plain:,.0f} rows/s"
        )


if __name__ == "__main__":
    for part in (online, by_map):
        for text in part():
            print(text, flush=True)
