"""Reasons of boosted trees, beside those of XReason's MaxSAT engine on the same models and rows.

    python -m benchmarks.explain [--models DIR] [--data wdbc spambase vowel texture] [--inflate | --smallest]
        [--timeout SECONDS] [--unchecked] [--cpu]

The models and rows are those of `models/xreason` in the folder of reference values (TREEPROOF_GOLDEN), with the sizes
and times that XReason had there; a reason of either is a set of columns from which none can be dropped. One process,
one row per call of the loop, times without the first row, which loads compiled code. Unless it is told not to, every
reason is then checked with `treeproof.verify`: against somebody who changes all other columns the row must be stable,
and against somebody who changes one more, whichever, it must not be. With `--cpu` times are CPU times of the process,
which do not depend on what else the machine does. With `--smallest`, reasons of the fewest columns are looked for, and
"open" counts those that are not proved to be so after `--timeout` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import treeproof as tp
from treeproof.explanations.inflate import inflate
from treeproof.explanations.questions import Questions
from treeproof.explanations.reasons import dropping_order, reason
from treeproof.explanations.smallest import smallest
from treeproof.results.asked import units_of
from treeproof.run.limits import Limits
from treeproof.threat.relations import Relations

DATA = ("wdbc", "spambase", "vowel", "texture")


def measure(model: Any, X: Any, options: Any) -> tuple[Any, list[Any]]:
    """Milliseconds per row, and what is found out about the rows."""
    clock = time.process_time if options.cpu else time.perf_counter
    order = dropping_order(model, units_of(model, Relations()))
    threat, limits = tp.Attacker(tp.ANY).bind(model), Limits.of(timeout=options.timeout)
    find = smallest if options.smallest else reason
    warm = Questions(model, threat, X[:1], Limits.of(timeout=1))
    inflate(warm, 0, find(warm, 0, order).units)
    questions = Questions(model, threat, X, limits)
    spent, found = [], []
    for row in range(len(X)):
        began = clock()
        found.append(find(questions, row, order))
        if options.inflate:
            inflate(questions, row, found[-1].units)
        spent.append(clock() - began)
    return np.array(spent) * 1e3, found


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
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--inflate", action="store_true", help="widen values to ranges, too")
    what.add_argument("--smallest", action="store_true", help="as few columns as are enough")
    parser.add_argument("--timeout", type=float, help="seconds a row")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    folder = options.models or Path(os.environ.get("TREEPROOF_GOLDEN", "../shared")) / "models" / "xreason"
    print("data      rows  mean ms  median     max   size  XReason's  its ms    open  wrong")
    for name in options.data:
        model = tp.load_model(folder / f"{name}.json")
        given = json.loads((folder / f"{name}.rows.json").read_text())
        X = np.array(given["rows"], dtype=np.float64)
        spent, found = measure(model, X, options)
        size, theirs = (np.mean(sizes) for sizes in ([one.units.sum() for one in found], given["maxsat_size"]))
        problems = (
            []
            if options.unchecked
            else [
                why
                for x, one in zip(X, found, strict=True)
                for why in wrong(model, x, tuple(np.flatnonzero(one.units).tolist()))
            ]
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
