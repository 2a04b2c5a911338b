"""Files of every format at every command: labels, verdicts and answers as the model's own library gives them."""

from __future__ import annotations

import datetime
import decimal
import functools
import itertools
import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from tests.support.fuzz import spellings, told, written
from tests.support.fuzz.spellings import Meant
from tests.support.fuzz.subjects import KINDS, Subject, Told, subject
from tests.support.fuzz.tally import Difference, Part, Tally, ensure, told as telling
from tests.support.fuzz.told import Answers, Said, fresh
from tests.support.fuzz.written import ARRAYS, FORMATS, TEXT, File, decimal_of

COMMANDS = ("verify", "verify --out", "guard", "guard --out/", "guard --map", "explain")
CELLS = tuple(
    # Arrays are read whole.
    (form, command)
    for form, command in itertools.product(FORMATS, COMMANDS)
    if not (form in ARRAYS and "out" in command)
)
ROWS, SPOILED, PER_SUBJECT = 100, 6, 6
LABEL, EXTRA = "the label", "not a feature"


@functools.lru_cache(maxsize=4)
def subject_of(kind: str, seed: int) -> tuple[Subject, Path]:
    """A model and the folder with its file, its attacker's and its map's."""
    made = subject(kind, Random(f"{kind} {seed}"))
    folder = Path(_FOLDERS.name) / f"{kind}-{seed}"
    folder.mkdir(exist_ok=True)
    tp.save_model(made.ensemble, folder / "model.json")
    (folder / "attacker.json").write_text(made.attacker.to_json(), "utf-8")
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
    """The order of the columns in the file, with the label and one more that is no feature behind them."""

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
    " padded ",
    "-0",
    "NaN",
    "1,5",
    "é",
)


def table(made: Subject, n: int, random: Random, form: str) -> Table:
    """Rows that nobody may refuse, and their text."""
    point = decimal_of(form)
    rows, lines = [], []
    for _ in range(n):
        cells = [_cell(made, column, random, point, form) for column in made.columns]
        rows.append([value for value, _ in cells])
        lines.append([text for _, text in cells])
    labels = [random.choice(known_classes(made)) for _ in range(n)]
    texts = [label_text(label) for label in labels]
    with_label = random.random() < 0.8
    order = list(range(len(made.columns) + 2))
    if random.random() < 0.5:
        random.shuffle(order)
    if not with_label:
        order.remove(len(made.columns))
    return Table(made, rows, lines, labels if with_label else None, texts if with_label else None, tuple(order))


def known_classes(made: Subject) -> list[Any]:
    return np.unique(made.y).tolist()


def label_text(label: Any) -> str:
    return str(label)


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
        if random.random() < 0.08 and takes(made, column.name, "blank"):
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


def ask(command: str, folder: Path, file: File, given: Table, form: str, random: Random) -> Said:
    """Runs the command on the file."""
    of_array = form in ARRAYS
    label = "label" if of_array else LABEL
    options = ["--label", label, *([] if of_array else ["--drop", EXTRA]), *file.options, "--jobs", "1"]
    attacker = ["--attacker", folder / "attacker.json"]
    chunks = ["--chunk-rows", random.choice([7, 33, 1000])]
    model = folder / "model.json"
    if command == "verify":
        fresh(folder / "v.csv"), fresh(folder / "v.json")
        return told.run(
            "verify",
            model,
            file.path,
            *attacker,
            *options,
            "--csv",
            folder / "v.csv",
            "--raw-csv",
            "--json",
            folder / "v.json",
        )
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


def _ending(form: str) -> str:
    return ".parquet" if form.startswith("parquet") else ".tsv" if form == "tsv" else ".csv"


def _map(made: Subject, folder: Path) -> Path:
    path = folder / "model.tpm"
    if not path.exists():
        tp.StabilityMap.build(made.ensemble, made.attacker, max_boxes=3000).save(path)
    return path


def check(random: Random, number: int, tally: Tally) -> None:
    """One clean file, then some with one spoiled cell, all for one command."""
    form, command = CELLS[number % len(CELLS)]
    turn = number // len(CELLS)
    kinds = [kind for kind in KINDS if kind.startswith("numbers")] if form in ARRAYS else list(KINDS)
    kind = kinds[(number // PER_SUBJECT) % len(kinds)]
    with telling(f"{form} × {command}, {kind}"):
        try:
            made, folder = subject_of(kind, turn * 1000 + number // PER_SUBJECT)
        except (tp.InvalidInput, tp.UnsupportedModel) as error:
            tally.refuse("model", _kind_of(error))
            return
    with telling(f"{form} × {command}, {kind} with classes {known_classes(made)}, columns {made.columns}"):
        given = table(made, ROWS, random, form)
        if command.startswith("verify") or (form in ARRAYS and form == "libsvm"):
            while given.labels is None:
                given = table(made, ROWS, random, form)
        expected = made.predict(made.frame(given.rows))
        assert expected is not None, "the library refuses rows that were to be harmless"
        if _cannot_say(form, command, made):
            return
        file = write(folder, form, given, random)
        said = ask(command, folder, file, given, form, random)
        ensure(said.code == 0, f"refuses what is harmless: {said.message.strip()}")
        compare(command, folder, file, given, form, expected)
        tally.count(form, command, ROWS)
        if form in TEXT:
            for _ in range(SPOILED):
                spoil_text(command, folder, form, made, random, tally)
            spoil_shape(command, folder, form, made, random, tally)
        elif form not in ARRAYS:
            for _ in range(SPOILED):
                spoil_type(command, folder, form, made, random, tally)


def _cannot_say(form: str, command: str, made: Subject) -> bool:
    """Whether there are no words: LIBSVM has numbers only, and a guard needs a third value to abstain with."""
    first = known_classes(made)[0]
    return (form == "libsvm" and isinstance(first, str)) or (command.startswith("guard") and isinstance(first, bool))


def _kind_of(error: Exception) -> str:
    """What a refusal of a model is about, without its numbers."""
    return re.sub(r"[-+.\d]{2,}|'[^']*'", "…", str(error))[:60]


def answers_of(command: str, folder: Path, file: File, given: Table, form: str) -> Answers:
    """What the command wrote."""
    if command == "verify":
        return told.of_verify(folder / "v.csv", folder / "v.json")
    if command == "verify --out":
        return told.of_parts(folder / "parts")
    if command == "explain":
        return told.of_explain(folder / "e.json")
    where = folder / ("guarded" if command == "guard --out/" else f"g{_ending(form)}")
    if form in TEXT:
        # Parts are .csv files, which have commas where DATA has tabs.
        heads, lines = told.of_guard(where, "," if form == "tsv" and where.is_dir() else file.separator)
        ensure(all(head == [*given.names, "prediction"] for head in heads), f"the guard's heads are {heads[:1]}")
        kept = [line[:-1] for line in lines]
        for row, (own, out) in enumerate(zip(given.text_lines(), kept, strict=True)):
            ensure(own == out, f"the guard changes row {row}: {own} to {out}")
        return Answers(answered=[line[-1] for line in lines])
    if form in ARRAYS:
        _, lines = told.of_guard(where, ",")
        return Answers(answered=[line[-1] for line in lines])
    parts = sorted(where.glob("part-*")) if where.is_dir() else [where]
    frame = pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)
    own = pd.read_parquet(file.path)
    try:
        pd.testing.assert_frame_equal(frame[list(own)].astype(object), own.astype(object))
    except AssertionError as error:
        raise Difference(f"the guard changes the table: {error}") from None
    return Answers(answered=frame["prediction"].tolist())


def compare(command: str, folder: Path, file: File, given: Table, form: str, expected: list[Any]) -> None:
    """The command's answers against the library's labels and all that the attacker can do."""
    made = given.subject
    found = answers_of(command, folder, file, given, form)
    stable = made.stable(given.rows, expected)
    labels = [label_text(label) for label in expected]
    if found.labels is not None:
        _all_equal("predicts", found.labels, labels, given)
    if found.true is not None and given.labels is not None:
        _all_equal("reads the label", found.true, [label_text(label) for label in given.labels], given)
    for what, outcomes in (("stable", found.stable), ("robust", found.robust)):
        if outcomes is None:
            continue
        right = (
            [True] * len(labels)
            if what == "stable"
            else [a == b for a, b in zip(expected, given.labels or [], strict=True)]
        )
        if stable is not None:
            _all_equal(f"says {what}:", outcomes, [a and b for a, b in zip(stable, right, strict=True)], given)
        else:
            sampled(made, [row for row, ok in zip(given.rows, outcomes, strict=True) if ok], what)
            wrong = [row for row, (ok, hit) in enumerate(zip(outcomes, right, strict=True)) if ok and not hit]
            ensure(not wrong, f"calls rows {wrong[:3]} {what}, which are wrong")
    if found.answered is not None:
        _check_guard(command, given, found.answered, labels, stable)


def _check_guard(command: str, given: Table, answered: list[str], labels: list[str], stable: list[bool] | None) -> None:
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
        ensure(keeps or answer == "abstain", f"the guard answers row {k}, which is unstable: {given.lines[k]}")
        ensure(
            not keeps or answer != "abstain" or command == "guard --map",
            f"the guard abstains on stable row {k}: {given.lines[k]}",
        )


def sampled(made: Subject, rows: list[list[Any]], what: str) -> None:
    """No sampled move of the number that the attacker has may change the label of rows that are called safe."""
    if not rows or made.attacked:
        return
    f = 0
    base = made.predict(made.frame(rows))
    for move in (-0.25, -0.2, -0.1, -0.03, -1e-9, 1e-9, 0.07, 0.2, 0.33, 0.45, 0.5):
        moved = [[*row[:f], row[f] + move, *row[f + 1 :]] for row in rows]
        wrong = [
            k for k, (a, b) in enumerate(zip(base or [], made.predict(made.frame(moved)) or [], strict=True)) if a != b
        ]
        ensure(not wrong, f"{what} row {rows[wrong[0]] if wrong else None} changes its label if moved by {move}")


def _all_equal(what: str, found: list[Any], wanted: list[Any], given: Table) -> None:
    ensure(len(found) == len(wanted), f"{what} {len(found)} rows of {len(wanted)}")
    for row, (a, b) in enumerate(zip(found, wanted, strict=True)):
        ensure(a == b, f"row {row}: {what} {a!r}, not {b!r}: {given.lines[row]} (values {given.rows[row]})")


def spoil_text(command: str, folder: Path, form: str, made: Subject, random: Random, tally: Tally) -> None:
    """A short file with one hostile cell: refused by name, or taken for what its owner may mean by it."""
    given = table(made, 4, random, form)
    if command.startswith("verify"):
        while given.labels is None:
            given = table(made, 4, random, form)
    row = random.randrange(4)
    text = random.choice(spellings.HOSTILE)
    if form != "csv-decimal" and random.random() < 0.3:
        text = _mutated(random.choice([str(v) for c in made.columns for v in c.known] or ["1.5"]), random)
    if text.startswith("\ufeff") or "\0" in text:
        return
    if (
        given.labels is not None
        and given.label_texts is not None
        and random.random() < 0.2
        and command.startswith("verify")
    ):
        given.label_texts[row] = text
        spoil_label(command, folder, form, given, row, text, random, tally)
        return
    f = random.randrange(len(made.columns))
    column = made.columns[f]
    given.lines[row][f] = text
    judge(
        command,
        folder,
        form,
        given,
        row,
        f,
        column.meant(text, decimal_of(form)),
        text,
        write(folder, form, given, random),
        random,
        tally,
    )


def _mutated(text: str, random: Random) -> str:
    """The text of a known value, a little different."""
    ways = (
        f" {text}", f"{text} ", f"0{text}", f"{text}.0", f"{text}0", f"+{text}", f"{text}e0", text.upper(), text.lower(), f"{text}\u00a0",
        f"{text[:1]}_{text[1:]}", text[:-1], text.translate({ord(str(d)): 0xFF10 + d for d in range(10)}), f"'{text}'", f"{text}.",
        f"\t{text}", f"{text}\n", text.title(), f'"{text}"',
    )  # fmt: skip
    return random.choice(ways)


def judge(
    command: str,
    folder: Path,
    form: str,
    given: Table,
    row: int,
    f: int,
    meant: Meant,
    text: Any,
    file: File,
    random: Random,
    tally: Tally,
) -> None:
    """The answer to a table with one spoiled cell."""
    made, name = given.subject, given.subject.columns[f].name
    tally.count(form, command)
    said = ask(command, folder, file, given, form, random)
    allowed: list[tuple[list[list[Any]], list[Any]]] = []
    for value in meant.values:
        rows = [list(own) for own in given.rows]
        rows[row][f] = value
        labels = made.predict(made.frame([rows[row]]))
        if labels is not None:
            others = made.predict(made.frame([own for k, own in enumerate(rows) if k != row]))
            assert others is not None
            allowed.append((rows, [*others[:row], *labels, *others[row:]]))
    with telling(f"column {name!r}, row {row}: {text!r}"):
        if said.refused:
            ensure(not (meant.sure and allowed), f"refuses what is harmless: {said.message.strip()}")
            said.check_refusal(f"row {row}", name)
            tally.refuse(
                made.columns[f].kind,
                "no value" if not meant.values else "model refuses" if not allowed else "ambiguous",
            )
            return
        ensure(said.code == 0, f"ends with {said.code}: {said.message}")
        ensure(bool(allowed), "is taken, though it is no value that the library takes")
        failed: list[Difference] = []
        for rows, labels in allowed:
            try:
                compare(
                    command,
                    folder,
                    file,
                    Table(made, rows, given.lines, given.labels, given.label_texts, given.order),
                    form,
                    labels,
                )
            except Difference as error:
                failed.append(error)
            else:
                return
        raise failed[0]


def spoil_label(
    command: str, folder: Path, form: str, given: Table, row: int, text: str, random: Random, tally: Tally
) -> None:
    """A true label that is spelled in another way: the class of that very text, the number that it is, or none."""
    classes = known_classes(given.subject)
    point = decimal_of(form)
    if isinstance(classes[0], str):
        meant = [label for label in classes if label == text]
    else:
        own = spellings.number(text, point).values
        truth = [text.strip().lower() == "true"] if text.strip().lower() in ("true", "false") else []
        meant = [label for label in classes if label_text(label) == text or label in own or label in truth]
    sure = any(label_text(label) == text for label in classes)
    tally.count(form, command)
    said = ask(command, folder, write(folder, form, given, random), given, form, random)
    with telling(f"label {text!r} of classes {classes}"):
        if said.refused:
            ensure(not sure, f"refuses a label that it knows: {said.message}")
            said.check_refusal(f"row {row}", LABEL)
            tally.refuse("label", "ambiguous" if meant else "no class")
            return
        ensure(bool(meant), "is taken for a class")
        found = answers_of(command, folder, File(folder), given, form).true or []
        ensure(found[row] in map(label_text, meant), f"is taken for {found[row]!r}")


def spoil_shape(command: str, folder: Path, form: str, made: Subject, random: Random, tally: Tally) -> None:
    """A file with an open quote, two columns of one name, or a line of another length: never rows that disappear."""
    given = table(made, 5, random, form)
    names, lines = given.names, given.text_lines()
    way = random.choice(["open quote", "two names", "short line", "long line", "no column"])
    if way == "two names":
        names[0] = names[-1]
    if way == "short line":
        lines[2] = lines[2][:-1]
    if way == "long line":
        lines[3] = [*lines[3], "1"]
    if way == "no column":
        names[given.order.index(0)] = "unknown"
    file = written.write_text(folder, form, names, lines, random)
    if way == "open quote":
        body = file.content.rstrip("\r\n") + "\n" + file.separator.join(['"open', *["1"] * (len(names) - 1)]) + "\n"
        data = body.encode()
        file.path.write_bytes(written.PACKED[file.path.suffix](data) if file.path.suffix in written.PACKED else data)
    said = ask(command, folder, file, given, form, random)
    tally.count(form, command)
    with telling(way):
        ensure(said.refused, f"is taken: {said.message}")
        said.check_refusal()
        tally.refuse("shape", way)


TYPES: tuple[tuple[str, Any], ...] = (
    ("int64", [1234, 1, 0, 100]), ("float64", [1234.0, 1.0, 1.1, 0.0]), ("bool", [True, False, True, False]),
    ("datetime", [datetime.datetime(2024, 1, 31)] * 4), ("date", [datetime.date(2024, 1, 31)] * 4), ("bytes", [b"a", b"1", b"1234", b"1.5"]),
    ("decimal", [decimal.Decimal("1.10"), decimal.Decimal("1.00"), decimal.Decimal("100.00"), decimal.Decimal("0.00")]),
    ("large", [2**53 + 1, 2**53, 2**62 + 1, 1]), ("time", [datetime.time(1, 2)] * 4), ("lists", [[1], [2], [3], [4]]),
    ("text", None), ("categories", None), ("text", None), ("text", None), ("none", [None] * 4), ("uint64", [2**64 - 1, 2**63, 1, 0]),
)  # fmt: skip


def spoil_type(command: str, folder: Path, form: str, made: Subject, random: Random, tally: Tally) -> None:
    """A column of another type than the model's: refused, or taken for what the library takes it for."""
    given = table(made, 4, random, form)
    while given.labels is None and command.startswith("verify"):
        given = table(made, 4, random, form)
    f = random.randrange(len(made.columns))
    column = made.columns[f]
    kind, values = random.choice(TYPES)
    if values is None:
        row = random.randrange(4)
        text = random.choice((*spellings.HOSTILE, *map(str, column.known), *map(str, column.known)))
        own = [text if k == row else str(given.rows[k][f]) for k in range(4)]
        meant = column.meant(text)
        meant = Meant(
            meant.values if column.kind != "word" else (*meant.values, text),
            meant.sure and column.kind == "word" and text != "",
        )
    else:
        values = list(values)
        random.shuffle(values)
        row, own = 0, values
        text = values
        meant = Meant(tuple(_as_column(column, value, kind) for value in values), False)
    frame = given.frame()
    frame[column.name] = pd.Series(
        own,
        dtype="category"
        if kind == "categories"
        else None
        if kind in ("int64", "float64", "bool")
        else kind
        if kind == "uint64"
        else object,
    )
    path = folder / "rows.parquet"
    frame.to_parquet(path, index=False)
    if values is None:
        judge(command, folder, form, given, row, f, meant, own, File(path), random, tally)
        return
    _judge_column(command, folder, form, given, f, kind, values, File(path), random, tally)


def _as_column(column: Told, value: Any, kind: str) -> Any:
    """The value as the owner's frame would have it: decimals are numbers where numbers are wanted."""
    if column.kind == "number" and kind in ("int64", "float64", "bool", "decimal", "large", "uint64"):
        return float(value)
    return value


def _judge_column(
    command: str,
    folder: Path,
    form: str,
    given: Table,
    f: int,
    kind: str,
    values: list[Any],
    file: File,
    random: Random,
    tally: Tally,
) -> None:
    made, column = given.subject, given.subject.columns[f]
    tally.count(form, command)
    said = ask(command, folder, file, given, form, random)
    with telling(f"column {column.name!r} of {column.kind} given as {kind}: {values}"):
        if said.refused:
            said.check_refusal()
            tally.refuse(column.kind, f"type {kind}")
            return
        ensure(said.code == 0, f"ends with {said.code}: {said.message}")
        rows = [
            [*own[:f], _as_column(column, value, kind), *own[f + 1 :]]
            for own, value in zip(given.rows, values, strict=True)
        ]
        if column.kind == "number":
            ensure(kind in ("int64", "float64", "bool", "decimal", "large", "uint64", "none"), "is taken for numbers")
            rows = [[math.nan if value is None else value for value in own] for own in rows]
        labels = made.predict(made.frame(rows))
        ensure(labels is not None, "is taken, though the library refuses it")
        compare(
            command,
            folder,
            file,
            Table(made, rows, given.lines, given.labels, given.label_texts, given.order),
            form,
            labels or [],
        )


PART = Part("tables", CELLS, check)
