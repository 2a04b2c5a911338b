"""Changed model files: what treeproof and the library both accept, both must read alike.

    python -m tests.fuzz_files --cases 20000 --seed 0       # make fuzz-files
    python -m tests.fuzz_files --one xgboost-json-dart:123  # one file again, kept for a look at it

Files of every kind get one to three fields changed. treeproof must load each or refuse it in one line, in seconds and
within a gigabyte. What it loads, the library loads too, and labels, and scores where the library shows them, are
compared on thresholds, beside them and elsewhere. A case is a file that both accept. The library may crash or hang; it
is then started again. Ends with exit code 1 if there was any difference, or a failure of treeproof.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import random
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import clock
from tests.support.fuzz.formats import mutant
from tests.support.fuzz.samples import MAKERS, Sample, sample
from tests.support.fuzz.sides import MEMORY, Gone, Loaded, Side, contexts, library_side, treeproof_side

SECONDS, LIBRARY_SECONDS = 10.0, 3.0
"""For one file; a load takes milliseconds on either side."""

PER_TASK = 25
COUNTS = (
    "files",
    "refused",
    "refused by library",
    "cases",
    "differences",
    "failures",
    "crashes of library",
    "hangs of library",
)


@dataclass
class Tally:
    """What became of the files of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    """Differences and failures, each with what was changed and how to see it again."""
    memory: int = 0
    slowest: float = 0.0

    def add(self, other: Tally) -> None:
        self.counts += other.counts
        self.found += other.found
        self.memory, self.slowest = max(self.memory, other.memory), max(self.slowest, other.slowest)


class Pair:
    """treeproof and the library, each in a process of its own."""

    def __init__(self) -> None:
        fresh, copied = contexts()
        # Files of a moment, thousands of them.
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.ours = Side(fresh, treeproof_side, self._folder.name)
        self.library = Side(copied, library_side, self._folder.name)
        self._earlier: dict[str, Any] = {}

    def stop(self) -> None:
        self.ours.stop()
        self.library.stop()
        self._folder.cleanup()

    def rows_before(self, kind: str, given: Sample) -> Any:
        """Rows around the thresholds of the file before it is changed."""
        if kind not in self._earlier:
            loaded = self.read(given, given.content, None)
            assert loaded.status == "loaded", f"{kind}: {loaded.message}"
            self._earlier[kind] = loaded.rows
        return self._earlier[kind]

    def read(self, given: Sample, content: bytes, earlier: Any) -> Loaded:
        """What treeproof makes of a file; Gone if its process is."""
        exported = None
        if given.ending == "cbm":
            try:
                exported = self.library.ask(("export", given.module, content, None), LIBRARY_SECONDS)
            except Gone as gone:
                return Loaded("refused", f"CatBoost: {gone}")
            if not isinstance(exported, bytes):
                return Loaded("refused", exported.message)
        loaded: Loaded = self.ours.ask((given.ending, content, exported, earlier), SECONDS)
        if loaded.memory > MEMORY:
            self.ours.stop()
        return loaded

    def try_file(self, kind: str, given: Sample, content: bytes, what: str, tally: Tally) -> None:
        """Lets both sides read a file, and counts what comes of it."""
        tally.counts["files"] += 1
        try:
            ours = self.read(given, content, self.rows_before(kind, given))
        except Gone as gone:
            ours = Loaded("failed", "treeproof hangs" if gone.hangs else f"treeproof crashes: {gone}")
        tally.memory, tally.slowest = max(tally.memory, ours.memory), max(tally.slowest, ours.seconds)
        if ours.memory > MEMORY:
            ours = Loaded("failed", f"treeproof takes {ours.memory / 2**20:.0f} MB")
        if ours.status == "failed":
            tally.counts["failures"] += 1
            tally.found.append(f"FAILURE    {what}\n{ours.message.strip()}")
        elif ours.status == "refused":
            tally.counts["refused"] += 1
        else:
            self._compare(given, content, what, ours, tally)

    def _compare(self, given: Sample, content: bytes, what: str, ours: Loaded, tally: Tally) -> None:
        try:
            theirs = self._asked(given, content, ours.rows)
            said = "" if theirs.status == "refused" else difference(ours, theirs)
            if said:
                # What an earlier file did to the library's memory must not count against this one.
                self.library.stop()
                theirs = self._asked(given, content, ours.rows)
                said = "" if theirs.status == "refused" else difference(ours, theirs)
        except Gone as gone:
            tally.counts["hangs of library" if gone.hangs else "crashes of library"] += 1
            return
        if theirs.status == "refused":
            tally.counts["refused by library"] += 1
            return
        tally.counts["cases"] += 1
        if said:
            tally.counts["differences"] += 1
            tally.found.append(f"DIFFERENCE {what}\n{said}")

    def _asked(self, given: Sample, content: bytes, rows: Any) -> Loaded:
        loaded: Loaded = self.library.ask(("predict", given.module, content, rows), LIBRARY_SECONDS)
        return loaded


def difference(ours: Loaded, theirs: Loaded) -> str:
    """The first row with another label or score; nothing if there is none."""
    if ours.labels.shape != theirs.labels.shape:
        return f"labels of shape {ours.labels.shape} here and {theirs.labels.shape} there"
    differ = np.flatnonzero(np.asarray(ours.labels != theirs.labels))
    if len(differ):
        row = differ[0]
        return (
            f"{len(differ)} of {len(ours.rows)} rows differ, first {ours.rows[row].tolist()}: "
            f"{ours.labels[row]!r} here, {theirs.labels[row]!r} there"
        )
    if theirs.scores is None or theirs.scores.size != ours.scores.size:
        return ""
    scores = theirs.scores.reshape(ours.scores.shape)
    unequal = np.flatnonzero(~((ours.scores == scores) | np.isnan(scores)).all(axis=1))
    if len(unequal):
        row = unequal[0]
        return (
            f"scores of {len(unequal)} rows differ, first {ours.rows[row].tolist()}: "
            f"{ours.scores[row].tolist()} here, {scores[row].tolist()} there"
        )
    return ""


def changed_file(kind: str, seed: int, number: int) -> tuple[bytes, str]:
    """The changed file of this number, the same each time, and what was changed."""
    return mutant(kind, sample(kind), random.Random(f"{seed} {kind} {number}"))


def try_numbers(pair: Pair, kind: str, seed: int, numbers: range) -> Tally:
    """The changed files of these numbers, one after another."""
    tally = Tally()
    given = sample(kind)
    for number in numbers:
        content, what = changed_file(kind, seed, number)
        again = f"python -m tests.fuzz_files --seed {seed} --one {kind}:{number}"
        pair.try_file(kind, given, content, f"{kind}:{number}: {what}\nagain: {again}", tally)
    return tally


def _tasks(kinds: list[str]) -> Iterator[tuple[str, range]]:
    """A few numbers of every kind, then the next few of every kind, without end."""
    first = 0
    while True:
        for kind in kinds:
            yield kind, range(first, first + PER_TASK)
        first += PER_TASK


def run(cases: int, seed: int, n_jobs: int, kinds: list[str], talk: bool = True) -> dict[str, Tally]:
    """Files of these kinds until there are enough cases; the same files each time, however many jobs there are."""
    totals: dict[str, Tally] = defaultdict(Tally)
    pairs = [Pair() for _ in range(n_jobs)]
    free = threading.local()
    waiting = list(pairs)
    began = said = clock.now()

    def work(kind: str, numbers: range) -> Tally:
        if not hasattr(free, "pair"):
            free.pair = waiting.pop()
        return try_numbers(free.pair, kind, seed, numbers)

    for kind in kinds:
        sample(kind)  # libraries train one at a time
    pool = ThreadPoolExecutor(n_jobs)
    todo = _tasks(kinds)
    running: list[tuple[str, Future[Tally]]] = []
    try:
        while sum(tally.counts["cases"] for tally in totals.values()) < cases:
            while len(running) < 2 * n_jobs:
                kind, numbers = next(todo)
                running.append((kind, pool.submit(work, kind, numbers)))
            kind, answer = running.pop(0)
            totals[kind].add(answer.result())
            if talk and clock.now() - said > 10:
                said = clock.now()
                done = sum(tally.counts["cases"] for tally in totals.values())
                print(f"{done:,} cases, {done / (said - began):,.0f} a second", flush=True)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for pair in pairs:
            pair.stop()
    return dict(totals)


def table(totals: dict[str, Tally]) -> str:
    """The counts of each kind, and of all."""
    everything = Tally()
    for tally in totals.values():
        everything.add(Tally(tally.counts, [], tally.memory, tally.slowest))
    lines = [f"{'':28}" + "".join(f"{name:>20}" for name in (*COUNTS, "MB", "slowest, s"))]
    for kind, tally in (*sorted(totals.items()), ("all", everything)):
        numbers = [f"{tally.counts[name]:,}" for name in COUNTS]
        numbers += [f"{tally.memory / 2**20:,.0f}", f"{tally.slowest:.2f}"]
        lines.append(f"{kind:28}" + "".join(f"{number:>20}" for number in numbers))
    return "\n".join(lines)


def _one(kind: str, seed: int, number: int) -> dict[str, Tally]:
    """One file again, kept beside."""
    content, what = changed_file(kind, seed, number)
    kept = Path(f"{kind}-{number}.{sample(kind).ending}")
    kept.write_bytes(content)
    print(f"{what}\nkept as {kept}")
    pair = Pair()
    try:
        return {kind: try_numbers(pair, kind, seed, range(number, number + 1))}
    finally:
        pair.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kinds", default="*", help=f"a pattern for {', '.join(MAKERS)}")
    parser.add_argument("--one", metavar="KIND:NUMBER", help="only this file")
    options = parser.parse_args()
    began = clock.now()
    if options.one:
        kind, _, number = options.one.rpartition(":")
        totals = _one(kind, options.seed, int(number))
    else:
        kinds = fnmatch.filter(MAKERS, options.kinds)
        totals = run(options.cases, options.seed, options.jobs, kinds)
    found = [one for tally in totals.values() for one in tally.found]
    for one in found:
        print(one)
    print(table(totals))
    cases = sum(tally.counts["cases"] for tally in totals.values())
    seconds = clock.now() - began
    print(f"{cases:,} cases in {seconds:.0f} s, {cases / seconds:,.0f} a second; {len(found)} differences and failures")
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())
