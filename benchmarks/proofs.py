"""Proofs: how many bytes they take, how long it takes to write them, and how long to check them.

    python -m benchmarks.proofs [--only TEXT] [--together]     # needs what benchmarks.local needs
    python -m benchmarks.proofs --of paper                     # TREEPROOF_GOLDEN and TREEPROOF_DATA
    python -m benchmarks.proofs --of deployed --rows 100       # adult and german: categories, Lp, missing values
    python -m benchmarks.proofs --of relations --rows 100      # the same with relations between columns
    python -m benchmarks.proofs --of frontier --questions 900 --seed 0     # drawn from those of benchmarks.frontier

A line has the rows that are proved; how many of them have proofs that check, have one that does not hold, or have none;
bytes of a proof (median, worst); CPU seconds of the search for these rows, and how many times as long it takes with
proofs; seconds to check a row (median, worst) and all of them, and how many times the search that is. All times are CPU
seconds of one thread, warm, the best of up to three. What is computed once for a model is not counted. With --together,
all proofs of a line are checked once more by two processes, and seconds are by the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import treeproof as tp
from benchmarks.proof_tasks import SETS, Task
from treeproof.check.model_file import Model
from treeproof.check.proof_file import ProofFile
from treeproof.check.rows import Question, check_header, check_rows
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.proofs import LIMIT, RowProofs
from treeproof.verification.request import Request
from treeproof.verification.rows import Rows, decide_rows
from treeproof.verification.verify import neighbourhoods

TRIES, ENOUGH = 3, 2.0
"""How often times are taken, unless that takes so many seconds."""


@dataclass
class Line:
    """What was found out about some rows that are proved."""

    proved: int = 0
    found: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    search: float = 1e-9
    writing: float = 0.0
    checks: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    """Of each search, how many times as long it takes to check what it proved."""
    together: float = 0.0

    def add(self, other: Line) -> None:
        """What was found out about other rows, too."""
        self.proved += other.proved
        self.found += other.found
        self.reasons += other.reasons
        self.sizes += other.sizes
        self.search += other.search
        self.writing += other.writing
        self.checks += other.checks
        self.ratios += other.ratios
        self.together += other.together

    def __str__(self) -> str:
        if not self.proved:
            return f"{0:6}"
        checks, sizes = self.checks or [0.0], self.sizes or [0]
        search = f"{self.search:9.3f} {self.writing / self.search:5.2f}" if self.writing else f"{'':15}"
        line = (
            f"{self.proved:6} {self.found['checked']:7} {self.found['rejected']:8} {self.found['without']:7} "
            f"{statistics.median(sizes):8.0f} {max(sizes):9} {search} "
            f"{statistics.median(checks):8.4f} {max(checks):8.3f} {sum(checks):8.2f} "
            + (f"{sum(checks) / self.search:6.1f}" if self.writing else "")
        ).rstrip()
        return f"{line} {self.together:8.2f}" if self.together else line


HEAD = (
    f"{'proved':>6} {'checked':>7} {'rejected':>8} {'without':>7} {'bytes':>8} {'worst':>9} {'search':>9} {'write':>5} "
    f"{'check':>8} {'worst':>8} {'all':>8} {'ratio':>6}"
)


class Searches:
    """The search for some rows as verify does it, without proofs or with them."""

    def __init__(self, task: Task, proved: np.ndarray) -> None:
        X = task.X.iloc[proved] if hasattr(task.X, "iloc") else task.X[proved]
        y, relations = task.ensemble.predict(X), list(task.relations) or None
        asked = Request.of(task.ensemble, X, y, task.attacker, relations=relations)
        given = () if task.epsilon is None else neighbourhoods(task.epsilon, None)
        self._asked, self._bound = asked.with_neighbours(given)
        self._labels, self._seconds = asked.ensemble.predict_index(asked.X), task.seconds

    def measured(self) -> tuple[float, float]:
        """Seconds without proofs and with them, in turns, the best of some."""
        times: dict[int, list[float]] = {0: [], LIMIT: []}
        for limit in times:
            self._search(limit)
        began = time.process_time()
        for _ in range(TRIES):
            for limit, some in times.items():
                start = time.process_time()
                self._search(limit)
                some.append(time.process_time() - start)
            if time.process_time() - began > ENOUGH:
                break
        return min(times[0]), min(times[LIMIT])

    def _search(self, limit: int) -> None:
        asked, proofs = self._asked, RowProofs()
        rows, limits = np.arange(len(asked.X)), Limits(timeout=self._seconds)
        every = Rows(
            asked.threat, limits, rows, asked.X, asked.y, asked.attacker, self._labels, self._bound, limit
        )  # fmt: skip
        decide_rows(asked.ensemble, every, proofs)
        assert len(proofs.rows) == (len(rows) if limit else 0)


def checked(question: Question, proofs: ProofFile, proved: list[int], line: Line) -> None:
    """Checks all that is proved, and takes the time of each row."""
    check_header(question, proofs)
    list(check_rows(question, proofs, proved[:1]))  # what is computed once for a model
    best = [np.inf] * len(proved)
    began = time.process_time()
    for again in range(TRIES):
        start = time.process_time()
        for i, (_, one) in enumerate(check_rows(question, proofs, proved)):
            now = time.process_time()
            best[i], start = min(best[i], now - start), now
            if not again:
                line.found.update(checked=len(one.checked), rejected=len(one.rejected), without=len(one.unchecked))
                line.reasons.update([*one.unchecked.values(), *(f"rejected: {why}" for why in one.rejected.values())])
        if time.process_time() - began > ENOUGH:
            break
    line.checks += best


def line_of(tasks: Iterable[Task], options: Any) -> Line:
    """A line of the table."""
    line, model = Line(), None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for task in tasks:
            if model is None:
                tp.save_model(task.ensemble, folder / "model.json")
                content = json.loads((folder / "model.json").read_text())
                model = Model.of(content)
            y = task.ensemble.predict(task.X)
            result = tp.verify(task.ensemble, task.X, y, task.attacker, proofs=folder / "proofs.tpp", **task.words)
            outcomes = result.resilience_by_epsilon[0] if task.all_of_it and task.epsilon else result.stability
            proved = np.flatnonzero(outcomes == Outcome.PROVED)
            if not len(proved):
                continue
            one = Line(len(proved))
            # A process reads a model once, however many questions there are.
            with mock.patch.object(Model, "of", lambda _, model=model: model):
                question = Question(content, json.loads(result.to_json()))
            proofs = ProofFile.open(folder / "proofs.tpp")
            checked(question, proofs, proved.tolist(), one)
            if not options.no_times:
                one.search, one.writing = Searches(task, proved).measured()
                one.ratios.append(sum(one.checks) / one.search)
            one.sizes = [length for row, (_, length) in proofs.rows.items() if row in proved]
            if options.together:
                start = time.perf_counter()
                tp.check_proofs(task.ensemble, result, folder / "proofs.tpp", n_jobs=2, progress=False)
                one.together = time.perf_counter() - start
            line.add(one)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=SETS, default="local", help="what is proved")
    parser.add_argument("--only", default="", help="lines with this in their name")
    parser.add_argument("--rows", type=int, help="the first rows, for each model of paper, deployed and relations")
    parser.add_argument("--questions", type=int, default=900, help="of the frontier, proved or not")
    parser.add_argument("--seed", type=int, default=0, help="by which they are drawn")
    parser.add_argument("--together", action="store_true", help="check all once more, in two processes")
    parser.add_argument("--no-times", action="store_true", help="check only")
    options: Any = parser.parse_args()
    print(f"{'':38} {HEAD}{'   2 jobs' if options.together else ''}")
    every = Line()
    for name, tasks in SETS[options.of](options):
        if options.only in name:
            line = line_of(tasks(), options)
            every.add(line)
            print(f"{name:38} {line}", flush=True)
            for why, n in line.reasons.most_common():
                print(f"    {n} × {why}", flush=True)
    print(f"{'all':38} {every}")
    if every.ratios:
        print(f"how many times the search, per search: median {statistics.median(every.ratios):.1f}")


if __name__ == "__main__":
    main()
