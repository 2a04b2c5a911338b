"""Runs cases on whatever treeproof is imported; as a program, one side of a comparison of two commits.

    python -m benchmarks.regression.measure SOURCE OUT [--only TEXT] [--repeats N]

SOURCE is the folder that treeproof must come from, OUT the file for what was counted and how long it took.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import treeproof
from benchmarks.regression.cases import CASES, Case
from benchmarks.regression.counts import Counts

REPEATS = 2
"""Runs of a case in one process of which the fastest counts; the first one, which loads compiled code, does not."""


@dataclass(frozen=True)
class Measured:
    """CPU seconds of all threads: of the first run, compilation included, and of the fastest one after it."""

    counts: Counts
    first: float
    best: float
    failure: str = ""
    """Why nothing was counted: another commit may not know all that is asked here."""


def why_skipped(case: Case) -> str:
    """What a case needs and does not find; empty if it can run."""
    missing = case.needs and importlib.util.find_spec(case.needs) is None
    return f"{case.needs} is not installed" if missing else ""


def measure(case: Case, jobs: int = 1, repeats: int = 0) -> Measured:
    """Runs a case once, and then `repeats` times."""
    times = []
    for _ in range(1 + repeats):
        start = time.process_time()
        counts = case.run(jobs)
        times.append(time.process_time() - start)
    return Measured(counts, times[0], min(times[1:], default=math.nan))


def measure_or_fail(case: Case, repeats: int) -> Measured:
    """The same for a commit that may lack what a case uses."""
    try:
        return measure(case, repeats=repeats)
    except Exception as error:
        return Measured({}, math.nan, math.nan, f"{type(error).__name__}: {error}".splitlines()[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    found = Path(treeproof.__file__).resolve()
    if options.source.resolve() not in found.parents:
        raise SystemExit(f"treeproof comes from {found.parent}, not from {options.source}; nothing is measured")
    chosen = [case for case in CASES if options.only in case.name and not why_skipped(case)]
    measured = {case.name: dataclasses.asdict(measure_or_fail(case, options.repeats)) for case in chosen}
    options.out.write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
