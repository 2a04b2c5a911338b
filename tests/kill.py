"""Kills verify, map and reproduce at random moments, and looks at what is left: `python -m tests.kill`, or `make kill`.

Every run is a fork of this process, so that nothing is imported or compiled again. It ends by a signal after so many
answers; then its output must be the old file or a whole one, hold all that was known (after SIGKILL: at the last
checkpoint), and lead with `--resume` to the result of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.clock import until
from treeproof.cli.main import main as treeproof_main
from treeproof.maps.partition import Partition
from treeproof.paper import datasets
from treeproof.results.row_table import RowTable
from treeproof.run import checkpoints

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
EVERY = 0.1
"""Seconds between checkpoints here, instead of 8."""
COPIED, SAVED = "copied", "saved"
"""What a run writes down when it has copied what it knows for a checkpoint, and when that is in a file."""


@dataclass
class Case:
    """A command, and what its output says."""

    name: str
    arguments: list[str]
    resume: list[str]
    output: str
    known: Callable[[Path], int]
    """How much is known according to the output; ValueError if it is not whole."""
    result: Callable[[Path], Any]
    """The result to compare, without times."""
    says_when: bool = True
    """Whether it writes down when it learned what, in the units of its output."""


@dataclass
class Tally:
    """What was seen."""

    runs: int = 0
    ended_before: int = 0
    resumed: int = 0
    left_behind: int = 0
    """Hidden files that SIGKILL left: beginnings of files that never took their place."""
    most_lost: int = 0
    """How much less is left than was known, at the most: nothing but by SIGKILL, or before signals are handled."""
    failures: list[str] = field(default_factory=list)


# --- what is run -----------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Models and data for all cases."""
    X, y = make_classification(1500, 12, n_informative=8, random_state=0)
    forest = RandomForestClassifier(40, max_depth=7, random_state=0).fit(X, y)
    tp.save_model(tp.from_model(forest), folder / "large.json")
    lines = [",".join([*(repr(float(value)) for value in row), str(label)]) for row, label in zip(X, y, strict=True)]
    head = ",".join([*(f"f{i}" for i in range(X.shape[1])), "label"])
    (folder / "rows.csv").write_text("\n".join([head, *lines]))
    small = RandomForestClassifier(11, max_depth=5, random_state=0).fit(X[:, :5], y)
    tp.save_model(tp.from_model(small, voting="hard"), folder / "small.json")
    # Loads compiled code, which forks need not do again.
    tp.verify(forest, X[:20], y[:20], tp.Attacker.linf(0.4), epsilon=0.05)
    tp.StabilityMap.build(small, tp.Attacker.linf(0.2), max_boxes=50)
    (folder / "data").mkdir()
    X, y = make_classification(400, 8, n_informative=5, random_state=3)
    lines = [",".join(f"{value:.3f}" for value in row) + f",{label}" for row, label in zip(X, y, strict=True)]
    (folder / "data" / "diabetes.csv").write_text("\n".join(["head", *lines]))


def _known_rows(file: Path) -> int:
    return int((tp.Verification.from_json(file).stability != tp.Outcome.UNKNOWN).sum())


def _verdicts(file: Path) -> Any:
    content = json.loads(file.read_text())
    return {name: value for name, value in content.items() if name not in ("seconds", "boxes")}


def _cells(file: Path) -> int:
    stored = list(file.parent.glob("cells/*/*.json"))
    for one in stored:
        json.loads(one.read_text())
    if file.exists():
        _rows(file)
    return sum(one.name.count(".") == 1 for one in stored)


def _rows(file: Path) -> Any:
    with file.open(newline="") as source:
        found = list(csv.reader(source))
    if not found or len({len(row) for row in found}) != 1:
        raise ValueError(f"{file} is not a whole table")
    return found


def _parts(file: Path) -> int:
    return int(json.loads(file.read_text())["counts"].get("rows", 0)) if file.exists() else 0


def _verdicts_in_parts(file: Path) -> Any:
    parts = sorted(file.parent.glob("part-*.csv"))
    return json.loads(file.read_text())["counts"], [_rows(part) for part in parts]


def cases(inputs: Path) -> list[Case]:
    """The kinds of long work; outputs are relative to the folder of a run."""
    verify = f"verify {inputs}/large.json {inputs}/rows.csv --delta 0.4 --epsilon 0.05 --jobs 2 --json out.json"
    build = f"map {inputs}/small.json --delta 0.2 --budget 1 --jobs 2 --out out.tpm"
    stream = (
        f"verify {inputs}/large.json {inputs}/rows.csv --delta 0.4 --epsilon 0.05 --jobs 2 --out out --chunk-rows 9"
    )
    reproduce = f"reproduce results --quick --data {inputs}/data --out out"
    return [
        Case("verify", verify.split(), ["--resume"], "out.json", _known_rows, _verdicts),
        Case(
            "map", build.split(), ["--resume"], "out.tpm",
            lambda file: tp.StabilityMap.load(file).n_boxes,
            lambda file: tp.StabilityMap.load(file).nodes.tolist(),
        ),
        Case("reproduce", reproduce.split(), [], "out/results.csv", _cells, _rows, says_when=False),
        Case(
            "stream", stream.split(), ["--resume"], "out/manifest.json", _parts, _verdicts_in_parts, says_when=False
        ),
    ]  # fmt: skip


# --- one run ---------------------------------------------------------------------------------------------------------


def _log(file: Path) -> None:
    """Lets the process write down how much it knows with each answer, and its checkpoints."""
    out = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(known: int | str) -> None:
        os.write(out, f"{known}\n".encode())

    take_rows, take_piece, make = RowTable.take, Partition.take, checkpoints.Checkpoint.__init__

    def made(self: Any, copy: Callable[[], Any], save: Callable[[Any], Any]) -> None:
        make(self, lambda: (copy(), note(COPIED))[0], lambda known: (save(known), note(SAVED)))

    def rows(self: RowTable, *answer: Any) -> None:
        take_rows(self, *answer)
        note(int((self.stability != tp.Outcome.UNKNOWN).sum()))

    def piece(self: Partition, *answer: Any) -> None:
        take_piece(self, *answer)
        note(self.n_boxes)

    RowTable.take, Partition.take = rows, piece  # type: ignore[method-assign]
    checkpoints.Checkpoint.__init__ = made  # type: ignore[method-assign]


def _said(folder: Path) -> list[str]:
    """What a run has written down so far, in whole lines."""
    log = folder / "log"
    return log.read_text().split("\n")[:-1] if log.exists() else []


def _counts(lines: list[str]) -> list[int]:
    return [int(line) for line in lines if line not in (COPIED, SAVED)]


def _saved(lines: list[str]) -> list[int]:
    """The last checkpoint that is in a file: the number that was known then, if there is one."""
    copied = [at for at, line in enumerate(lines) if line == COPIED][: lines.count(SAVED)]
    return _counts(lines[: copied[-1]])[-1:] if copied else []


def start(arguments: list[str], folder: Path) -> int:
    """Runs a command in a process of its own; returns its number."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        for target in (1, 2):
            os.dup2(os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), target)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        checkpoints.EVERY = EVERY
        datasets._difference = lambda *_: ""  # type: ignore[assignment]
        _log(folder / "log")
        treeproof_main(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def _ended(process: int) -> bool:
    """Whether a process has come to an end, which `finish` has still to look at."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def finish(process: int) -> int:
    """The exit code of a process, or minus the signal that ended it."""
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def undisturbed(case: Case, folder: Path) -> tuple[Any, int]:
    """The result of a run that nobody disturbs, and how many answers it takes."""
    folder.mkdir()
    code = finish(start(case.arguments, folder))
    assert code == 0, (folder / "said").read_text()
    return case.result(folder / case.output), len(_counts(_said(folder)))


def disturb(case: Case, number: int, moment: int, folder: Path, expected: Any, tally: Tally) -> None:
    """One run that a signal ends after so many answers, what it leaves behind, and the run that goes on from there."""
    folder.mkdir()
    output = folder / case.output
    old = b"old"
    if output.parent == folder:
        output.write_bytes(old)
    process = start(case.arguments, folder)
    until(lambda: len(_counts(_said(folder))) >= moment or _ended(process))
    sent = _said(folder)
    os.kill(process, number)
    code = finish(process)
    tally.runs += 1
    tally.ended_before += code == 0
    if code not in (0, -number if number == signal.SIGKILL or code < 0 else 128 + number):
        tally.failures.append(f"exit code {code}: {(folder / 'said').read_text()[-500:]}")
    is_old = output.exists() and output.read_bytes() == old
    known = 0 if is_old or (case.says_when and not output.exists()) else case.known(output)
    due = _saved(sent) if number == signal.SIGKILL or code < 0 else _counts(sent)[-1:]
    if case.says_when and code != 0 and due:
        tally.most_lost = max(tally.most_lost, _counts(sent)[-1] - known)
        if due[0] > known:
            tally.failures.append(f"{due[0]} was known, and {known} is left")
    hidden = [path.name for path in output.parent.glob(".*")] if output.parent.exists() else []
    tally.left_behind += len(hidden)
    if hidden and number != signal.SIGKILL:
        tally.failures.append(f"left behind: {hidden}")
    if is_old:
        output.unlink()
    code = finish(start([*case.arguments, *case.resume], folder))
    tally.resumed += 1
    if code != 0:
        tally.failures.append(f"resuming ended with {code}: {(folder / 'said').read_text()[-500:]}")
    elif case.result(output) != expected:
        tally.failures.append("the result is another one")


def run(names: list[str], moments: int, seed: int, say: Callable[[str], None]) -> dict[str, Tally]:
    """Every signal at this many random moments of every case."""
    chance = random.Random(seed)
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        prepare(base)
        for case in (one for one in cases(base) if one.name in names):
            finish(start(case.arguments, _made(base / f"{case.name} compiled")))
            expected, answers = undisturbed(case, base / f"{case.name} undisturbed")
            say(f"{case.name}: {answers} answers if nobody disturbs it")
            for number in SIGNALS:
                key = f"{case.name} {signal.Signals(number).name}"
                tally = tallies[key] = Tally()
                for i in range(moments):
                    moment = chance.randint(0, answers)
                    folder = base / f"{case.name} {int(number)} {i}"
                    before = len(tally.failures)
                    disturb(case, number, moment, folder, expected, tally)
                    tally.failures[before:] = [
                        f"{key} after {moment} answers: {one}" for one in tally.failures[before:]
                    ]
                say(f"{key}: {tally}")
    return tallies


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def main() -> None:
    """Prints what was seen; exits with 1 if anything was lost or differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=["verify", "map", "reproduce", "stream"])
    given = parser.parse_args()
    tallies = run(given.only, given.moments, given.seed, lambda text: print(text, flush=True))  # noqa: T201
    failures = [one for tally in tallies.values() for one in tally.failures]
    print(f"{sum(tally.runs for tally in tallies.values())} runs, {len(failures)} failures")  # noqa: T201
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
