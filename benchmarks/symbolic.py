"""The paper's analysis against its authors' own: same models, same attacker, estimates next to the exact values.

    TREEPROOF_GOLDEN=… TREEPROOF_DATA=… python -m benchmarks.symbolic [--threads N]

The authors' C++ (2 threads, same kind of machine) is quoted, not run: 57 s, more than 500 s and 111 s for the three
models it was run on. CPU seconds are those of all threads.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.golden import split

REPEATS = 3
ROWS = 1_000_000


class Case(NamedTuple):
    """One line of the table; `authors` are the seconds of their program, where it was run."""

    name: str
    dataset: str
    delta: float
    epsilon: float
    load: Callable[[], Any]
    authors: float | None = None
    max_iterations: int = 400


def standard(dataset: str, n_trees: int) -> Callable[[], Any]:
    def fit() -> Any:
        data = split(dataset)
        model = RandomForestClassifier(n_trees, max_depth=3, random_state=7)
        return tp.from_model(model.fit(data.X_train, data.y_train), voting="hard")

    return fit


def treant(n_trees: int) -> Callable[[], Any]:
    return lambda: tp.load_model(
        Path(os.environ["TREEPROOF_GOLDEN"], f"models/treant_diabetes_trees{n_trees}_depth3.json")
    )


CASES = [
    Case("diabetes, forest 5 × 3", "diabetes", 0.03, 0.01, standard("diabetes", 5), 57.0),
    Case("diabetes, forest 7 × 3", "diabetes", 0.03, 0.01, standard("diabetes", 7), 500.0),
    Case("diabetes, TREANT 9 × 3", "diabetes", 0.03, 0.01, treant(9), 111.0),
    Case("diabetes, TREANT 17 × 3", "diabetes", 0.03, 0.01, treant(17)),
    Case("diabetes, forest 9 × 3", "diabetes", 0.03, 0.01, standard("diabetes", 9)),
    Case("diabetes, forest 13 × 3", "diabetes", 0.03, 0.01, standard("diabetes", 13), None, 1000),
    Case("cod-rna, forest 9 × 3", "cod-rna", 0.07, 0.01, standard("cod-rna", 9)),
    Case("breast-cancer, forest 9 × 3", "breast-cancer", 0.15, 0.05, standard("breast-cancer", 9)),
]


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """The result, and the wall and CPU seconds of the fastest of a few runs: the others were disturbed."""
    best = (None, np.inf, np.inf)
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if wall < best[1]:
            best = (result, wall, cpu)
    return best


def line(case: Case, threads: int) -> str:
    model, data = case.load(), split(case.dataset)
    attacker = tp.Attacker((-case.delta, 0.0), budget=1)
    analysis, wall, cpu = timed(lambda: tp.analyze(model, attacker, case.max_iterations, threads))
    exact = tp.verify(model, data.X_test, data.y_test, attacker, epsilon=case.epsilon)
    r_hat = analysis.robustness(data.X_test, data.y_test)
    resilience_hat = analysis.resilience(data.X_test, data.y_test, case.epsilon)
    rows = np.random.default_rng(0).random((ROWS, data.X_test.shape[1]))
    _, query, _ = timed(lambda: analysis.is_stable(rows))
    ratio = "" if case.authors is None else f"{case.authors / wall:.0f}"
    return (
        f"{case.name:28} {analysis.stopped:10} {analysis.iterations:5d} {analysis.splits:9d} {len(analysis):8d}"
        f" {wall:7.2f}s {cpu:7.2f}s {ratio:>6}  {r_hat:.4f} {float(exact.robustness):.4f}"
        f"  {resilience_hat:.4f} {float(exact.resilience):.4f} {ROWS / query / 1e6:7.2f}M/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a name")
    arguments = parser.parse_args()
    print(
        f"{'model':28} {'ended':10} {'iter.':>5} {'splits':>9} {'attacks':>8} {'wall':>8} {'CPU':>8} {'ratio':>6}"
        f"  {'r̂':6} {'r':6}  {'R̂':6} {'R':6} {'rows asked':>10}"
    )
    for case in CASES:
        if arguments.only in case.name:
            print(line(case, arguments.threads), flush=True)


if __name__ == "__main__":
    main()
