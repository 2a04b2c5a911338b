"""The command line, run in this process, and what its files say."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tests.support.fuzz.tally import Difference, ensure
from treeproof.cli import main as command_line


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    message: str
    printed: str
    arguments: tuple[str, ...]

    @property
    def refused(self) -> bool:
        return self.code == 2

    def check_refusal(self, *wanted: str) -> None:
        """A refusal is one line that names what it is about, and no failure."""
        lines = [line for line in self.message.splitlines() if line.startswith("treeproof: ")]
        ensure(len(lines) == 1 and "Traceback" not in self.message, f"no refusal in one line: {self.message!r}")
        ensure("this is a bug" not in lines[0], lines[0])
        for want in wanted:
            ensure(want in lines[0], f"the refusal does not name {want}: {lines[0]}")


def run(*arguments: object) -> Said:
    """A command as `treeproof` runs it, without a new process; warnings are part of what it says."""
    out, complaints = io.StringIO(), io.StringIO()
    given = tuple(map(str, arguments))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaints), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            command_line.main(list(given))
        except SystemExit as ended:
            code = ended.code
    if not isinstance(code, int) or code not in (0, 1, 2):
        raise Difference(f"exit code {code!r} of {' '.join(given)}")
    return Said(code, complaints.getvalue(), out.getvalue(), given)


def fresh(path: Path) -> Path:
    """The same path, with nothing there."""
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    return path


@dataclass(frozen=True)
class Answers:
    """What a command says about each row; None where it says nothing of that kind."""

    labels: list[str] | None = None
    true: list[str] | None = None
    stable: list[bool | None] | None = None
    robust: list[bool | None] | None = None
    breaks: list[bool] | None = None
    """Whether a row breaks relations; None where there are none."""
    answered: list[str] | None = None
    """What the guard says: a label, or that it abstains."""


OUTCOME = {"proved": True, "refuted": False, "unknown": None}


def of_verify(table: Path, result: Path | None = None) -> Answers:
    """The answers in verify's --csv, and in its --json, which must agree."""
    rows = list(csv.DictReader(io.StringIO(table.read_text("utf-8", "strict"), newline="")))
    answers = _of_lines(rows)
    if result is not None:
        whole = json.loads(result.read_text("utf-8"))
        ensure([str(label) for label in whole["predicted"]] == answers.labels, "--json and --csv predict differently")
        ensure([str(label) for label in whole["y"]] == answers.true, "--json and --csv have other true labels")
    return answers


def of_parts(folder: Path) -> Answers:
    """The answers in the parts that verify --out wrote."""
    rows: list[dict[str, Any]] = []
    for part in sorted(folder.glob("part-*")):
        if part.suffix == ".parquet":
            rows += pd.read_parquet(part).to_dict("records")
        else:
            rows += list(csv.DictReader(io.StringIO(part.read_text("utf-8"), newline="")))
    for name, file in itertools.groupby(rows, lambda row: row["file"]):
        own = [int(row["row"]) for row in file]
        ensure(own == list(range(len(own))), f"the rows of {name} are not 0, 1, 2, …, but {own}")
    return _of_lines(rows)


def _of_lines(rows: list[dict[str, Any]]) -> Answers:
    return Answers(
        labels=[str(row["predicted"]) for row in rows],
        true=[str(row["label"]) for row in rows],
        stable=[OUTCOME[row["stability"]] for row in rows],
        robust=[OUTCOME[row["robustness"]] for row in rows],
        breaks=[bool(row["breaks"]) for row in rows] if "breaks" in rows[0] else None,
    )


def of_guard(path: Path, separator: str) -> tuple[list[list[str]], list[list[str]]]:
    """The heads and the lines of text files that guard wrote, in order."""
    parts = sorted(path.glob("part-*")) if path.is_dir() else [path]
    heads, lines = [], []
    for part in parts:
        text = part.read_bytes().decode("utf-8-sig")
        own = "\t" if part.suffix == ".tsv" else separator
        head, *rest = csv.reader(io.StringIO(text, newline=""), delimiter=own, strict=True)
        heads.append(head)
        lines += rest
    return heads, lines


def of_explain(path: Path) -> Answers:
    """The labels that explain explains."""
    whole = json.loads(path.read_text("utf-8"))
    return Answers(labels=[str(one["label"]) for one in whole["explanations"]])
