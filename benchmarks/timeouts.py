"""How long a row takes beyond its `timeout`, on a model of a million nodes and 26 classes.

    python -m benchmarks.timeouts [--rows 4] [--seconds 1]

ExtraTrees on letter, each attacker of the frontier, without and with neighbourhoods, by the clock. Rows that end before
their time is up say nothing; "late" is the most that any other took beyond it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

import treeproof as tp
from benchmarks.frontier import EPSILON, PRICES, load
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local


def lines(rows: int, seconds: float) -> Iterator[str]:
    X, y = load("letter")
    train, test, labels, _ = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    ensemble = tp.from_model(ExtraTreesClassifier(130, n_jobs=2, random_state=0).fit(train, labels))
    yield f"{ensemble.n_nodes} nodes, {ensemble.n_classes} classes, {rows} rows, timeout {seconds:g} s"
    yield f"{'attacker':14} {'ε':>5} {'timed out':>10} {'late':>8}"
    worst = 0.0
    for prices in PRICES:
        for epsilon in (0.0, EPSILON, 10 * EPSILON):
            local = Local(ensemble, prices.attacker.bind(ensemble), Limits(timeout=seconds))
            size = np.full(ensemble.n_features, epsilon)
            local.decide(test[-1:], size)  # compiled, or read from the cache
            late = []
            for x in test[:rows]:
                start = time.perf_counter()
                local.decide(x[None], size)
                late.append(time.perf_counter() - start - seconds)
            over = [each for each in late if each > 0]
            worst = max([worst, *over])
            yield f"{prices.name:14} {epsilon:5g} {len(over):10} {max(over, default=0.0):7.3f}s"
    yield f"worst: {worst:.3f} s beyond the timeout"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    for line in lines(options.rows, options.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
