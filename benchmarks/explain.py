"""Reasons of boosted trees, beside those of XReason's MaxSAT engine on the same models and rows.

    python -m benchmarks.explain [--models DIR] [--data wdbc spambase vowel texture] [--inflate] [--unchecked] [--cpu]

The models and rows are those of `models/xreason` in the folder of reference values (TREEPROOF_GOLDEN), with the sizes
and times that XReason had there; a reason of either is a set of columns from which none can be dropped. One process,
one row per call of the loop, times without the first row, which loads compiled code. Unless it is told not to, every
reason is then checked with `treeproof.verify`: against somebody who changes all other columns the row must be stable,
and against somebody who changes one more, whichever, it must not be. With `--cpu` times are CPU times of the process,
which do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.explanations.inflate import inflate
from treeproof.explanations.questions import Questions
from treeproof.explanations.reasons import dropping_order, reason
from treeproof.results.asked import units_of
from treeproof.threat.relations import Relations

DATA = ("wdbc", "spambase", "vowel", "texture")


def measure(model: Any, X: Any, wide: bool, clock: Callable[[], float]) -> tuple[Any, list[Any]]:
    """Milliseconds per row, and what `tp.explain` says about the rows."""
    order = dropping_order(model, units_of(model, Relations()))
    threat = tp.Attacker(tp.ANY).bind(model)
    inflate(warm := Questions(model, threat, X[:1]), 0, reason(warm, 0, order).units)
    questions = Questions(model, threat, X)
    spent = []
    for row in range(len(X)):
        began = clock()
        found = reason(questions, row, order)
        if wide:
            inflate(questions, row, found.units)
        spent.append(clock() - began)
    return np.array(spent) * 1e3, list(tp.explain(model, X, n_jobs=1, inflate=wide))


def wrong(model: Any, x: Any, kept: tuple[Any, ...]) -> list[str]:
    """What `treeproof.verify` says against a reason."""

    def keeps(columns: set[int]) -> bool:
        if not columns:
            return True
        attacker = tp.Attacker(dict.fromkeys(sorted(columns), tp.ANY))
        outcome = tp.verify(model, x[None], model.predict(x[None]), attacker, n_jobs=1).stability[0]
        assert outcome != tp.Outcome.UNKNOWN
        return bool(outcome == tp.Outcome.PROVED)

    others = set(range(model.n_features)) - set(kept)
    problems = [] if keeps(others) else ["not sufficient"]
    return problems + [f"column {column} can be dropped" for column in kept if keeps(others | {column})]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--inflate", action="store_true", help="widen values to ranges, too")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    folder = options.models or Path(os.environ.get("TREEPROOF_GOLDEN", "../shared")) / "models" / "xreason"
    print("data      rows  mean ms  median     max   size  XReason's  its ms    open  wrong")
    for name in options.data:
        model = tp.load_model(folder / f"{name}.json")
        given = json.loads((folder / f"{name}.rows.json").read_text())
        X = np.array(given["rows"], dtype=np.float64)
        spent, found = measure(model, X, options.inflate, clock)
        size, theirs = (np.mean(sizes) for sizes in ([len(one.columns) for one in found], given["maxsat_size"]))
        problems = (
            []
            if options.unchecked
            else [why for x, one in zip(X, found, strict=True) for why in wrong(model, x, one.columns)]
        )
        print(
            f"{name:9} {len(X):4} {spent.mean():8.2f} {np.median(spent):7.2f} {spent.max():7.2f} {size:6.2f} "
            f"{theirs:10.2f} {1e3 * np.mean(given['maxsat_seconds']):7.0f} {sum(not one.minimal for one in found):7} "
            f"{'-' if options.unchecked else len(problems):>6}",
            flush=True,
        )
        for problem in problems:
            print(problem)


if __name__ == "__main__":
    main()
