"""Times of another commit and of the code here: the same cases, by turns, each time in a fresh process.

The other commit is checked out in a git worktree of its own, which is removed whatever happens. Both sides run the
cases of this folder, on public names only; compiled code is cached apart, and compiled once before anything is timed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.regression.counts import changes
from benchmarks.regression.measure import REPEATS, Measured

ROOT = Path(__file__).resolve().parents[2]
COMPILED = 0.5
"""CPU seconds from which on a first run is worth a ratio: below, hardly anything was compiled."""

Run = dict[str, Measured]


class CannotCompare(Exception):
    """There is no such commit, or it cannot run the cases."""


class Side:
    """One of the two: where its sources are, and what was measured of it."""

    def __init__(self, name: str, checkout: Path, folder: Path) -> None:
        self.name, self.source = name, checkout / "src"
        self._folder = folder
        self.cold: list[Run] = []
        self.warm: list[Run] = []

    def use_first(self, only: str) -> None:
        """A run with nothing compiled; what it compiles is there for the next ones."""
        self._cache = self._folder / f"numba {len(self.cold)}"
        self.cold.append(self._run(only, 0))

    def use_again(self, only: str) -> None:
        """A run with everything compiled."""
        self.warm.append(self._run(only, REPEATS))

    def _run(self, only: str, repeats: int) -> Run:
        """All cases in a fresh process."""
        self._folder.mkdir(exist_ok=True)
        out = self._folder / "measured.json"
        path = os.pathsep.join(filter(None, (str(self.source), str(ROOT), os.environ.get("PYTHONPATH"))))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.regression.measure", self.source, out),
                *("--only", only, "--repeats", str(repeats)),
            ],
            env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(self._cache)},
            cwd=ROOT,
            check=False,
            # Ctrl-C is ours alone, which ends the process; it has nothing to say about it.
            start_new_session=True,
        )
        if done.returncode:
            raise CannotCompare(f"{self.name} cannot run the cases, as it says above")
        return {name: Measured(**one) for name, one in json.loads(out.read_text(encoding="utf-8")).items()}

    def best(self, case: str) -> float:
        """The least CPU seconds of a case in any round."""
        return min(run[case].best for run in self.warm)

    def first(self, case: str) -> float:
        """The least CPU seconds of a case with nothing compiled, or with what the cases before it compiled."""
        return min(run[case].first for run in self.cold)

    def unsteady(self, case: str) -> list[str]:
        """How the counts of a later run differ from those of the first one, which they never should."""
        for run in [*self.cold, *self.warm]:
            if differ := changes(self.cold[0][case].counts, run[case].counts):
                return [f"{self.name}, from run to run: {one}" for one in differ]
        return []


def commit_of(revision: str) -> str:
    """The full name of a commit, or CannotCompare."""
    if shutil.which("git") is None:
        raise CannotCompare("git is not installed, and other commits cannot be had without it")
    asked = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if asked.returncode:
        raise CannotCompare(f"git knows no commit {revision!r} here{_said(asked)}")
    return asked.stdout.strip()


def compare_times(revision: str, only: str, first_uses: int, rounds: int) -> int:
    """Prints a line per case; 0 if both sides counted the same, else 1."""
    commit = commit_of(revision)
    with checked_out(commit) as checkout:
        there = Side(commit[:7], checkout, checkout.parent / "there")
        here = Side("here", ROOT, checkout.parent / "here")
        for number in range(first_uses + rounds):
            first = number < first_uses
            _say(f"first use {number + 1} of {first_uses}" if first else f"round {number - first_uses + 1} of {rounds}")
            # Whoever comes first may find a cooler machine.
            for side in (there, here) if number % 2 == 0 else (here, there):
                side.use_first(only) if first else side.use_again(only)
    same = True
    for line, agree in lines(there, here):
        same &= agree
        print(line)
    return 0 if same else 1


def lines(there: Side, here: Side) -> Iterator[tuple[str, bool]]:
    """Lines to print, and whether both sides agree in what they counted."""
    best = f"best of {len(here.warm)}, first use: best of {len(here.cold)}"
    yield f"CPU seconds of {there.name} and here, {best}; ratios below 1: faster here", True
    yield f"{'':38} {there.name:>8} {'here':>8} {'ratio':>6}   {'first use':>9} {'here':>6} {'ratio':>6}  counts", True
    ratios, firsts = [], []
    for case, now in here.cold[0].items():
        before = there.cold[0][case]
        failed = [f"{side.name}: {one.failure}" for side, one in ((there, before), (here, now)) if one.failure]
        if failed:
            yield f"{case:38} {'; '.join(failed)}", False
            continue
        differ = changes(before.counts, now.counts) or [*there.unsteady(case), *here.unsteady(case)]
        ratios.append(here.best(case) / there.best(case))
        firsts.append((there.first(case), here.first(case)))
        line = f"{case:38} {there.best(case):8.3f} {here.best(case):8.3f} {ratios[-1]:6.2f}   {_first_use(*firsts[-1])}"
        yield f"{line}  {'; '.join(differ) or 'same'}", not differ
    if ratios:
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
        total = _first_use(*map(math.fsum, zip(*firsts, strict=True)))
        yield f"{'geometric mean; first use of all':38} {'':8} {'':8} {mean:6.2f}   {total}", True


def _first_use(before: float, now: float) -> str:
    if max(before, now) < COMPILED:
        return f"{'':9} {'':6} {'':6}"
    return f"{before:9.1f} {now:6.1f} {now / before:6.2f}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A worktree of a commit in a temporary folder, gone afterwards; so it is after Ctrl-C and when told to end."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with tempfile.TemporaryDirectory(prefix="treeproof-") as folder:
            checkout = Path(folder, "checkout")
            try:
                made = _git("worktree", "add", "--detach", "--quiet", str(checkout), commit)
                if made.returncode:
                    raise CannotCompare(f"git cannot check out {commit}{_said(made)}")
                yield checkout
            finally:
                _git("worktree", "remove", "--force", str(checkout))
    finally:
        signal.signal(signal.SIGTERM, before)


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return "".join(f": {line}" for line in done.stderr.splitlines()[:1])
