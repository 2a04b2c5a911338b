"""Counts of fixed cases against those stored in benchmarks/regression.json, and times against another commit.

    python -m benchmarks.regression                 # exit code 1 if a count is not as stored
    python -m benchmarks.regression --update        # store what is counted now
    python -m benchmarks.regression --against REV   # ratios of CPU times between REV and the code as it is here

`--only TEXT` chooses cases by name. CONTRIBUTING.md says when to run it and how to read it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.regression import counts
from benchmarks.regression.against import CannotCompare, compare_times
from benchmarks.regression.cases import CASES, Case
from benchmarks.regression.measure import measure, why_skipped


def table(cases: Sequence[Case], jobs: int) -> dict[str, counts.Counts]:
    """Runs the cases, prints a line each, and returns what was counted."""
    found = {}
    for case in cases:
        if why := why_skipped(case):
            print(f"{case.name:38} skipped: {why}", flush=True)
            continue
        measured = measure(case, jobs)
        found[case.name] = measured.counts
        numbers = ", ".join(
            f"{value:,} {name}" for name, value in measured.counts.items() if type(value) is int and value
        )
        print(f"{case.name:38} {measured.first:7.2f} s  {numbers}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None, cases: Sequence[Case] = CASES, path: Path = counts.STORED) -> int:
    options = _parser().parse_args(arguments)
    stored = counts.read(path)
    known = [case.name for case in cases]
    chosen = [case for case in cases if options.only in case.name]
    expected = [name for name in [*known, *stored] if options.only in name]
    if not expected:
        return _refused(f"no case has {options.only!r} in its name")
    if options.against is not None:
        return _against(options)
    found = table(chosen, options.jobs)
    if options.update:
        counts.write(counts.updated(stored, found, known), path)
        print(f"stored in {path.name}")
        return 0
    skipped = [case.name for case in chosen if case.name not in found]
    lines = counts.differences(stored, found, [name for name in expected if name not in skipped])
    for line in lines or [f"{len(found)} cases, all counts as in {path.name}"]:
        print(line)
    return 1 if lines else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.regression", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds this text")
    parser.add_argument("--jobs", type=int, default=1, help="threads; counts are the same for any number")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--update", action="store_true", help="store what is counted now")
    mode.add_argument("--against", metavar="REV", help="compare times with this commit, in fresh processes by turns")
    parser.add_argument("--rounds", type=int, default=5, help="for --against: the best of so many rounds counts")
    parser.add_argument("--first-uses", type=int, default=1, help="for --against: how often each side compiles all")
    return parser


def _against(options: argparse.Namespace) -> int:
    if min(options.rounds, options.first_uses) < 1:
        return _refused("--rounds and --first-uses must be at least 1")
    try:
        return compare_times(options.against, options.only, options.first_uses, options.rounds)
    except CannotCompare as error:
        return _refused(str(error))
    except KeyboardInterrupt:
        print("stopped; the worktree of the other commit is removed", file=sys.stderr)
        return 130


def _refused(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
