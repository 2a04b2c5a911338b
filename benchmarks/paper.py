"""The paper's 18 standard models: accuracy, robustness and exact resilience of all test rows, timed together.

python -m benchmarks.local --paper      # needs TREEPROOF_GOLDEN and TREEPROOF_DATA
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path

from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from treeproof.paper import datasets


def main() -> None:
    """Trains first, then verifies all models twice and times both rounds, the second of them warm."""
    table = json.loads(Path(os.environ["TREEPROOF_GOLDEN"], "paper/tables.json").read_text())
    split = cache(datasets.split)
    tasks = []
    for line in table["table_results"]:
        data = split(line["dataset"])
        forest = RandomForestClassifier(line["trees"], max_depth=line["depth"], random_state=7)
        forest.fit(data.X_train, data.y_train)
        attacker = tp.Attacker((-table["perturbation"][line["dataset"]], 0.0), budget=1)
        tasks.append((line, data, forest, attacker))
    rounds = {}
    for name in ("first", "warm"):
        wall, cpu, results = time.perf_counter(), time.process_time(), []
        for line, data, forest, attacker in tasks:
            start = time.perf_counter()
            result = tp.verify(forest, data.X_test, data.y_test, attacker, epsilon=line["epsilon"], voting="hard")
            results.append((result, time.perf_counter() - start))
        rounds[name] = (time.perf_counter() - wall, time.process_time() - cpu)
    print(
        f"{'data':14} {'trees':>5} {'depth':>5} {'rows':>5} {'a':>6} {'r':>6} {'R':>6} {'paper a':>8} {'r':>6} {'s':>7}"
    )
    for (line, _, _, _), (result, seconds) in zip(tasks, results, strict=True):
        print(
            f"{line['dataset']:14} {line['trees']:5} {line['depth']:5} {len(result):5} {result.accuracy:6.3f} "
            f"{float(result.robustness):6.3f} {float(result.resilience):6.3f} {line['standard']['a']:8.3f} "
            f"{line['standard']['r']:6.3f} {seconds:7.3f}"
        )
    for name, (wall, cpu) in rounds.items():
        print(
            f"all {len(tasks)}, {name} round: {wall:.2f} s, CPU {cpu:.2f} s (import of the model and replay included)"
        )
