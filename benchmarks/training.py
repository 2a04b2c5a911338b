"""Robust training: exact robustness and resilience beside the paper's models, seconds, and growth.

    TREEPROOF_GOLDEN=folder TREEPROOF_DATA=folder python -m benchmarks.training [--seeds 10]
    python -m benchmarks.training --only growth (or size, table, speed)
    TREEPROOF_DATA=folder python -m benchmarks.training --published [--seeds 10] [--splits 10] [--data name]

The table uses the paper's data, splits and attackers: lower one feature by up to δ. `standard` are the
paper's scikit-learn forests, `paper` its robust models as published, `C++` forests trained with the authors' TREANT
and measured by treeproof. Ours vote as the paper's do. Growth and size need no folder.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import minmax_scale

import treeproof as tp
from benchmarks import published_training
from tests.support.golden import published, split

CRITERIA = ("treant", "groot")
VARIANTS = [(criterion, near) for near in (False, True) for criterion in CRITERIA]
"""Trained against the attacker, and with the neighbourhood of the data set on top."""
REPEATS = 3


def robust_model(
    trees: int, depth: int, attacker: tp.Attacker, criterion: str, seed: int, epsilon: float | None = None
) -> Any:
    """A single tree on all rows, or a forest that votes as those of the paper."""
    settings: dict[str, Any] = {"max_depth": depth, "criterion": criterion, "random_state": seed, "epsilon": epsilon}
    if trees == 1:
        return tp.RobustTreeClassifier(attacker, **settings)
    settings |= {"voting": "hard", "shared_budget": False, "max_features": None}
    return tp.RobustForestClassifier(attacker, n_estimators=trees, n_jobs=2, **settings)


def measures(model: Any, line: dict[str, Any], attacker: tp.Attacker, voting: Any = None) -> list[float]:
    """a, r and R on the test rows, all exact."""
    data = split(line["dataset"])
    result = tp.verify(model, data.X_test, data.y_test, attacker, epsilon=line["epsilon"], voting=voting, n_jobs=2)
    assert result.robustness.exact
    assert result.resilience is not None
    return [result.accuracy, float(result.robustness), float(result.resilience)]


def trained(line: dict[str, Any], attacker: tp.Attacker, variant: tuple[str, bool], seed: int) -> list[float]:
    """The measures of the robust model of one line of the paper's table."""
    data = split(line["dataset"])
    criterion, near = variant
    epsilon = line["epsilon"] if near else None
    model = robust_model(line["trees"], line["depth"], attacker, criterion, seed, epsilon)
    return measures(model.fit(data.X_train, data.y_train), line, attacker)


def table(n_seeds: int) -> None:
    tables = published("paper/tables.json")
    lines = tables["table_results"]
    attackers = [tp.Attacker((-tables["perturbation"][line["dataset"]], 0.0), budget=1) for line in lines]
    cpp = {Path(line["model"]).stem: line for line in published("models/measured.json")}
    names = ["standard", "paper", "C++ TREANT", *(f"{name}{', ε' if near else ''}" for name, near in VARIANTS)]
    print(f"{'data set':17s}" + "".join(f"{name:^17s}" for name in names))
    print(f"{'':17s}" + "   a    r    R    " * len(names))
    values = []
    for line, attacker in zip(lines, attackers, strict=True):
        data = split(line["dataset"])
        forest = RandomForestClassifier(line["trees"], max_depth=line["depth"], random_state=7)
        standard = measures(forest.fit(data.X_train, data.y_train), line, attacker, "hard")
        theirs = cpp.get(f"treant_{line['dataset']}_trees{line['trees']}_depth{line['depth']}", {})
        row = [standard, [line["robust"]["a"], line["robust"]["r"], np.nan], [theirs.get(k, np.nan) for k in "arR"]]
        row += [trained(line, attacker, variant, 7) for variant in VARIANTS]
        values.append(row)
        print(f"{line['dataset']:13s} {line['trees']}×{line['depth']} {'   '.join(map(short, row))}", flush=True)
    print(f"{'mean':17s} {'   '.join(map(short, np.mean(values, axis=0)))}")
    print(f"\nmean r and R over the 18 settings, seeds 0 to {n_seeds - 1}: mean (lowest to highest)")
    for name, variant in zip(names[3:], VARIANTS, strict=True):
        means = np.array(
            [
                np.mean([trained(line, who, variant, seed) for line, who in zip(lines, attackers, strict=True)], axis=0)
                for seed in range(n_seeds)
            ]
        )
        parts = [f"{k} {m.mean():.4f} ({m.min():.4f} to {m.max():.4f})" for k, m in zip("rR", means.T[1:], strict=True)]
        print(f"  {name:12s} {'   '.join(parts)}", flush=True)


def short(values: Any, digits: int = 3) -> str:
    return " ".join(" " * (digits + 1) if np.isnan(v) else f"{v:.{digits}f}"[1:] for v in values)


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The fastest of a few runs, with compiled code already loaded."""
    times = []
    for _ in range(REPEATS + 1):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times[1:])


def speed() -> None:
    print("\n9 trees of depth 3, n_jobs=2, warm, best of 3: seconds on the clock, CPU seconds of all threads")
    for dataset, delta in (("diabetes", 0.03), ("cod-rna", 0.07)):
        data = split(dataset)
        X, y = data.X_train, data.y_train
        if dataset == "cod-rna":  # made up to 8,000 rows with some of the test rows
            X, y = (np.concatenate(pair)[:8000] for pair in ((X, data.X_test), (y, data.y_test)))
        for name, attacker in (
            (f"[-{delta}, 0], budget 1", tp.Attacker((-delta, 0.0), budget=1)),
            (f"L∞ {delta}", tp.Attacker.linf(delta)),
        ):
            for criterion in CRITERIA:
                fit = robust_fit(9, 3, attacker, criterion, X, y)
                spent = [seconds(fit), seconds(fit, time.process_time)]
                size = f"{X.shape[0]:5d} × {X.shape[1]}"
                print(f"  {dataset:9s} {size}  {name:22s} {criterion:7s} {spent[0]:7.3f} s {spent[1]:7.3f} s")


def robust_fit(
    trees: int, depth: int, attacker: tp.Attacker, criterion: str, X: np.ndarray, y: np.ndarray
) -> Callable[[], object]:
    return lambda: robust_model(trees, depth, attacker, criterion, 7).fit(X, y)


def growth() -> None:
    print("\ngrowth: one tree of depth 6, L∞ 0.02, made-up data in [0, 1], one thread, CPU seconds, warm, best of 3")
    print("     rows  features   treant  seconds per row·feature    groot")
    for rows, features in [(1000 * 2**k, 10) for k in range(7)] + [(4000, 5 * 2**k) for k in range(6)]:
        X, y = make_classification(rows, features, n_informative=5, n_redundant=0, random_state=0)
        fits = [robust_fit(1, 6, tp.Attacker.linf(0.02), criterion, minmax_scale(X), y) for criterion in CRITERIA]
        spent = [seconds(fit, time.process_time) for fit in fits]
        print(f"{rows:9d} {features:9d} {spent[0]:8.3f} {spent[0] / rows / features:24.1e} {spent[1]:8.3f}", flush=True)


def size() -> None:
    print("\n100 trees of depth 6 on 100,000 × 50 made-up rows in [0, 1], n_jobs=2, warm; memory is the most so far")
    X, y = make_classification(100_000, 50, n_informative=10, random_state=0)
    X = minmax_scale(X)
    attackers = {"L∞ 0.02": tp.Attacker.linf(0.02), "[-0.1, 0], budget 1": tp.Attacker((-0.1, 0.0), budget=1)}
    for name, attacker in attackers.items():
        for make, epsilon in (
            (tp.RobustForestClassifier, None),
            (tp.RobustBoostingClassifier, None),
            (tp.RobustBoostingClassifier, 0.005),
        ):
            settings: dict[str, Any] = {"epsilon": epsilon, "n_jobs": 2, "random_state": 0}
            make(attacker, n_estimators=2, max_depth=3, **settings).fit(X[:2000], y[:2000])
            start, begun = time.perf_counter(), time.process_time()
            make(attacker, n_estimators=100, max_depth=6, **settings).fit(X, y)
            spent = time.perf_counter() - start, time.process_time() - begun
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            said = f"{make.__name__}{'' if epsilon is None else f', ε {epsilon}'}"
            print(f"  {name:20s} {said:34s} {spent[0]:6.1f} s {spent[1]:6.1f} CPU s {most:5.2f} GB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=("table", "speed", "growth", "size"))
    parser.add_argument("--published", action="store_true", help="the protocol of Andriushchenko and Hein")
    parser.add_argument("--splits", type=int, default=10, help="random splits of --published")
    parser.add_argument("--data", nargs="+", choices=published_training.DATA, help="data sets of --published")
    parser.add_argument("--groot", metavar="PYTHON", help="of an environment with GROOT, for --published")
    arguments = parser.parse_args()
    if arguments.published and "TREEPROOF_DATA" not in os.environ:
        parser.error("set TREEPROOF_DATA to the folder of data")
    if arguments.published:
        names = arguments.data or list(published_training.DATA)
        say = partial(print, flush=True)
        published_training.run(names, arguments.seeds, arguments.splits, arguments.groot, say)
        return
    if arguments.only not in ("growth", "size") and not {"TREEPROOF_GOLDEN", "TREEPROOF_DATA"} <= os.environ.keys():
        parser.error(
            "set TREEPROOF_GOLDEN and TREEPROOF_DATA to the folders of tables and data, or use --only growth or size"
        )
    if arguments.only in (None, "table"):
        table(arguments.seeds)
    if arguments.only in (None, "speed"):
        speed()
    if arguments.only in (None, "growth"):
        growth()
    if arguments.only in (None, "size"):
        size()


if __name__ == "__main__":
    main()
