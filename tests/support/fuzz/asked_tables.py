"""Tables for a model as files, each command asked about them, and what it must answer."""

from __future__ import annotations

import functools
import json
import math
import tempfile
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from tests.support.fuzz import spellings, told, written
from tests.support.fuzz.related import blank
from tests.support.fuzz.subjects import Subject, Told, subject
from tests.support.fuzz.tally import Difference, ensure
from tests.support.fuzz.told import Answers, Said, fresh
from tests.support.fuzz.written import ARRAYS, TEXT, TYPED, File, decimal_of
from treeproof.threat.threat_file import write_threat

LABEL, EXTRA = "the label", "not a feature"


@functools.lru_cache(maxsize=4)
def subject_of(kind: str, seed: int) -> tuple[Subject, Path]:
    """A model and the folder with its file, its attacker's and its map's."""
    made = subject(kind, Random(f"{kind} {seed}"))
    folder = Path(_FOLDERS.name) / f"{kind}-{seed}"
    folder.mkdir(exist_ok=True)
    tp.save_model(made.ensemble, folder / "model.json")
    (folder / "attacker.json").write_text(made.attacker.to_json(), "utf-8")
    write_threat(folder / "threat.json", made.attacker, [one.text for one in made.relations])
    stated = {"format": "treeproof-relations", "version": 1, "relations": [one.text for one in made.relations]}
    (folder / "relations.json").write_text(json.dumps(stated), "utf-8")
    return made, folder


_FOLDERS = tempfile.TemporaryDirectory()


@dataclass(frozen=True)
class Table:
    """A table for a subject: the cells of its columns, what they mean, and true labels."""

    subject: Subject
    rows: list[list[Any]]
    lines: list[list[str]]
    """The same as text; a cell may be spoiled."""
    labels: list[Any] | None
    label_texts: list[str] | None
    order: tuple[int, ...]
    """The order of the columns in the file; behind the features are the label and one more that is none, if there."""

    @property
    def names(self) -> list[str]:
        names = [*(c.name for c in self.subject.columns), LABEL, EXTRA]
        return [names[k] for k in self.order]

    def text_lines(self) -> list[list[str]]:
        labels = self.label_texts or [""] * len(self.lines)
        whole = [
            [*line, label, EXTRAS[k % len(EXTRAS)]]
            for k, (line, label) in enumerate(zip(self.lines, labels, strict=True))
        ]
        return [[line[k] for k in self.order] for line in whole]

    def frame(self) -> pd.DataFrame:
        made = self.subject.frame(self.rows)
        made[LABEL] = [""] * len(made) if self.labels is None else self.labels
        made[EXTRA] = [EXTRAS[k % len(EXTRAS)] for k in range(len(made))]
        return made[self.names]


EXTRAS = (
    "1234567890123456789",
    "1.10",
    "007",
    'a "quoted" text',
    "x,y;z",
    "",
    "1e5",
    "two\nlines",
    "two\r\nlines",
    "a\rb",
    " padded ",
    "-0",
    "NaN",
    "1,5",
    "é",
)


def table(made: Subject, n: int, random: Random, form: str, valid: bool = False) -> Table:
    """Rows that nobody may refuse, and their text; if `valid`, none breaks relations."""
    point = decimal_of(form)
    rows, lines = [], []
    while len(rows) < n:
        cells = [_cell(made, column, random, point, form) for column in made.columns]
        if valid and made.breaks([value for value, _ in cells]):
            continue
        rows.append([value for value, _ in cells])
        lines.append([text for _, text in cells])
    labels = [random.choice(known_classes(made)) for _ in range(n)]
    texts = [label_text(label, point) for label in labels]
    with_label = random.random() < 0.8
    order = list(range(len(made.columns) + 2))
    if random.random() < 0.5:
        random.shuffle(order)
    if not with_label:
        order.remove(len(made.columns))
    if random.random() < (0.7 if len(made.columns) == 1 else 0.2):
        order.remove(len(made.columns) + 1)
    return Table(made, rows, lines, labels if with_label else None, texts if with_label else None, tuple(order))


def known_classes(made: Subject) -> list[Any]:
    return np.unique(made.y).tolist()


def label_text(label: Any, point: str = ".") -> str:
    """A label as it is written in files; labels that are numbers have the decimals of the file."""
    return str(label).replace(".", point) if isinstance(label, float) else str(label)


def _cell(made: Subject, column: Told, random: Random, point: str, form: str) -> tuple[Any, str]:
    """A value that the model takes, and a text that can mean nothing else."""
    if column.kind == "number":
        drawn = made.train[column.name].iloc[random.randrange(len(made.train))]
        value = random.choice(
            [
                float(drawn),
                round(random.gauss(0, 1), 2),
                float(drawn) + 0.1,
                random.gauss(0, 10),
                float(random.randint(-4, 4)),
            ]
        )
        if random.random() < 0.08 and form != "libsvm" and takes(made, column.name, "blank"):
            return math.nan, ""
        return value, spellings.spelled(value, random, point)
    if column.kind == "word" and random.random() < 0.1 and takes(made, column.name, "unseen"):
        return "zebra", "zebra"
    value = column.known[random.randrange(len(column.known))]
    return value, str(value)


@functools.lru_cache(maxsize=512)
def takes(made: Subject, name: str, what: str) -> bool:
    """Whether the library predicts a row with a missing or new value there."""
    row = [_first(made, column) for column in made.columns]
    f = [column.name for column in made.columns].index(name)
    row[f] = math.nan if what == "blank" else "zebra"
    return made.predict(made.frame([row])) is not None


def _first(made: Subject, column: Told) -> Any:
    return column.known[0] if column.known else float(made.train[column.name].iloc[0])


def write(folder: Path, form: str, given: Table, random: Random) -> File:
    """The table as a file."""
    if form in TEXT:
        return written.write_text(folder, form, given.names, given.text_lines(), random)
    if form in ARRAYS:
        X = np.array(given.rows, dtype=np.float64)
        return written.write_array(folder, form, [c.name for c in given.subject.columns], X, given.labels)
    frame = written.retyped(given.frame(), form, random)
    return written.write_typed(folder, form, frame, random)


def write_pieces(folder: Path, form: str, given: Table, random: Random) -> File:
    """The table in several files."""
    lines, frame = given.text_lines(), written.retyped(given.frame(), form, random)

    def some(folder: Path, part: slice) -> File:
        if form in TEXT:
            return written.write_text(folder, form, given.names, lines[part], random)
        return written.write_typed(folder, form, frame[part], random)

    return written.in_pieces(folder, len(lines), some, random)


def ask(command: str, folder: Path, file: File, given: Table, form: str, random: Random) -> Said:
    """Runs the command on the file."""
    of_array = form in ARRAYS
    label = "label" if of_array else LABEL
    options = [
        "--label",
        label,
        *(["--drop", EXTRA] if EXTRA in given.names and not of_array else []),
        *file.options,
        "--jobs",
        "1",
    ]
    attacker = ["--attacker", folder / "attacker.json"]
    if given.subject.relations:
        attacker += ["--relations", folder / "relations.json"]
        attacker = random.choice([attacker, ["--threat", folder / "threat.json"]])
    chunks = ["--chunk-rows", random.choice([7, 33, 1000])]
    model = folder / "model.json"
    if command in ("verify", "check"):
        wanted = [part for name in ("csv", "json", "proofs") for part in (f"--{name}", fresh(folder / f"v.{name}"))]
        if command == "verify":
            return told.run("verify", model, file.path, *attacker, *options, *wanted[:-2], "--raw-csv")
        said = told.run("verify", model, file.path, *attacker, *options, *wanted, "--raw-csv")
        evidence = (folder / "v.json", "--proofs", folder / "v.proofs", "--jobs", "1")
        return said if said.code else _all_checked(told.run("check", model, *evidence), given)
    if command == "verify --out":
        return told.run(
            "verify",
            model,
            file.path,
            *attacker,
            *options,
            "--out",
            f"{fresh(folder / 'parts')}/",
            "--raw-csv",
            *chunks,
        )
    if command == "explain":
        fresh(folder / "e.json")
        return told.run("explain", model, file.path, *attacker, *options, "--json", folder / "e.json")
    out: Any = fresh(folder / f"g{_ending(form)}")
    if command == "guard --out/":
        out = f"{fresh(folder / 'guarded')}/"
        attacker += chunks
    if command == "guard --map":
        attacker = ["--map", _map(given.subject, folder)]
    return told.run("guard", model, file.path, *attacker, *options, "--out", out, "--raw-csv")


NO_PROOF = "it must keep relations over sums of columns, and no proof was found of what follows from several of them"


def _all_checked(said: Said, given: Table) -> Said:
    """What `treeproof check` says of a result; to name rows without a proof under relations is no failure."""
    n = len(given.rows)
    ensure(f", of {n} of {n} rows" in said.printed, f"check says {said.printed!r}")
    unchecked = [line for line in said.printed.splitlines() if line.startswith("unchecked")]
    if given.subject.relations and unchecked and all(NO_PROOF in line for line in unchecked):
        return replace(said, code=0)
    ensure(said.code == 0, f"check says {said.printed!r} and {said.message!r}")
    return said


def _ending(form: str) -> str:
    return ".parquet" if form in TYPED else ".tsv" if form == "tsv" else ".csv"


def _map(made: Subject, folder: Path) -> Path:
    path = folder / "model.tpm"
    if not path.exists():
        tp.StabilityMap.build(made.ensemble, made.attacker, max_boxes=3000).save(path)
    return path


def answers_of(command: str, folder: Path, file: File, given: Table, form: str) -> Answers:
    """What the command wrote."""
    if command in ("verify", "check"):
        return told.of_verify(folder / "v.csv", folder / "v.json")
    if command == "verify --out":
        return told.of_parts(folder / "parts")
    if command == "explain":
        return told.of_explain(folder / "e.json")
    where = folder / ("guarded" if command == "guard --out/" else f"g{_ending(form)}")
    if form in TEXT:
        # What DATA has tabs for has commas where it goes to a .csv file.
        heads, lines = told.of_guard(where, "," if form == "tsv" else file.separator)
        ensure(all(head == [*given.names, "prediction"] for head in heads), f"the guard's heads are {heads[:1]}")
        kept = [line[:-1] for line in lines]
        for row, (own, out) in enumerate(zip(given.text_lines(), kept, strict=True)):
            ensure(own == out, f"the guard changes row {row}: {own} to {out}")
        if where.is_file():
            _check_untouched(where, file, ["prediction", *(line[-1] for line in lines)])
        return Answers(answered=[line[-1] for line in lines])
    if form in ARRAYS:
        _, lines = told.of_guard(where, ",")
        return Answers(answered=[line[-1] for line in lines])
    parts = sorted(where.glob("part-*")) if where.is_dir() else [where]
    frame = pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)
    own = written.read_typed(file.path)
    try:
        pd.testing.assert_frame_equal(frame[list(own)].astype(object), own.astype(object))
    except AssertionError as error:
        raise Difference(f"the guard changes the table: {error}") from None
    return Answers(answered=frame["prediction"].tolist())


def _check_untouched(out: Path, file: File, column: list[str]) -> None:
    """Each record of the file is as it was, quotes and all, with one value more; only ends of lines may differ."""
    wanted = "".join(
        record.rstrip("\r\n") + file.separator + written.record([value], file.separator)
        for record, value in zip(file.records, column, strict=True)
    ).replace("\r\n", "\n")
    text = out.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    ensure(text.rstrip("\n") == wanted.rstrip("\n"), f"the guard writes {text[:200]!r}… for {wanted[:200]!r}…")


def compare(command: str, folder: Path, file: File, given: Table, form: str, expected: list[Any]) -> None:
    """The command's answers against the library's labels and all that the attacker can do."""
    made = given.subject
    found = answers_of(command, folder, file, given, form)
    stable = _stable(made, given.rows, expected)
    labels = [label_text(label) for label in expected]
    if found.labels is not None:
        _all_equal("predicts", found.labels, labels, given)
    if found.true is not None and given.labels is not None:
        _all_equal("reads the label", found.true, [label_text(label) for label in given.labels], given)
    if found.stable is not None:
        breaks = [made.breaks(row) for row in given.rows] if made.relations else None
        ensure((found.breaks is None) == (breaks is None), f"says of relations {found.breaks}, not {breaks}")
        _all_equal("breaks relations:", found.breaks or [], breaks or [], given)
    for what, outcomes in (("stable", found.stable), ("robust", found.robust)):
        if outcomes is None:
            continue
        right = (
            [True] * len(labels)
            if what == "stable"
            else [a == b for a, b in zip(expected, given.labels or [], strict=True)]
        )
        if stable is not None:
            wanted = [b and (said if a is None else a) for a, b, said in zip(stable, right, outcomes, strict=True)]
            _all_equal(f"says {what}:", outcomes, wanted, given)
        else:
            sampled(made, [row for row, ok in zip(given.rows, outcomes, strict=True) if ok], what)
            wrong = [row for row, (ok, hit) in enumerate(zip(outcomes, right, strict=True)) if ok and not hit]
            ensure(not wrong, f"calls rows {wrong[:3]} {what}, which are wrong")
    if found.answered is not None:
        _check_guard(command, given, found.answered, labels, stable)


def _stable(made: Subject, rows: list[list[Any]], labels: list[Any]) -> list[bool | None] | None:
    """Whether rows are stable; None for those that a missing value of another kind than in training leaves open.

    To the model it is a value never seen, which the attacker may change, and to the owner it may be missing.
    """
    kept, filled = (made.stable(rows, labels, fills=fills) for fills in (False, True))
    if kept is None or filled is None:
        return None
    seen = {repr(value) for column in made.attacked for value in made.train[column.name] if blank(value)}
    gaps = [
        [repr(row[made.columns.index(c)]) for c in made.attacked if blank(row[made.columns.index(c)])] for row in rows
    ]
    return [a if a == b or set(own) <= seen else None for a, b, own in zip(kept, filled, gaps, strict=True)]


def _check_guard(
    command: str, given: Table, answered: list[str], labels: list[str], stable: list[bool | None] | None
) -> None:
    there = [k for k, answer in enumerate(answered) if answer != "abstain"]
    ensure(len(answered) == len(labels), f"the guard answers {len(answered)} of {len(labels)} rows")
    for k in there:
        ensure(
            answered[k] == labels[k], f"the guard says {answered[k]!r} for {labels[k]!r} in row {k}: {given.lines[k]}"
        )
    if stable is None:
        sampled(given.subject, [given.rows[k] for k in there], "answered")
        return
    for k, (answer, keeps) in enumerate(zip(answered, stable, strict=True)):
        ensure(
            keeps is not False or answer == "abstain", f"the guard answers row {k}, which is unstable: {given.lines[k]}"
        )
        ensure(
            not keeps or answer != "abstain" or command == "guard --map",
            f"the guard abstains on stable row {k}: {given.lines[k]}",
        )


def sampled(made: Subject, rows: list[list[Any]], what: str) -> None:
    """No sampled move of the number that the attacker has may change the label of rows that are called safe."""
    if not rows or made.attacked:
        return
    moves = (0.0, -0.25, -0.2, -0.1, -0.03, -1e-9, 1e-9, 0.07, 0.2, 0.33, 0.45, 0.5)
    moved = [[row[0] + move, *row[1:]] for move in moves for row in rows]
    found = made.predict(made.frame(moved))
    assert found is not None, "moved numbers are refused"
    for k, (row, label) in enumerate(zip(moved, found, strict=True)):
        own = rows[k % len(rows)]
        if own[0] == own[0] and not -0.25 <= Fraction(row[0]) - Fraction(own[0]) <= 0.5:
            continue  # the sum was rounded out of reach
        holds = label == found[k % len(rows)] or made.breaks(row)
        ensure(holds, f"{what} row {own} changes its label if its first value is {row[0]!r}")


def _all_equal(what: str, found: list[Any], wanted: list[Any], given: Table) -> None:
    ensure(len(found) == len(wanted), f"{what} {len(found)} rows of {len(wanted)}")
    for row, (a, b) in enumerate(zip(found, wanted, strict=True)):
        ensure(a == b, f"row {row}: {what} {a!r}, not {b!r}: {given.lines[row]} (values {given.rows[row]})")
