"""Files of every format at every command: labels, verdicts and answers as the model's own library gives them."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

import treeproof as tp
from tests.support.fuzz import spellings, written
from tests.support.fuzz.asked_tables import (
    LABEL,
    Table,
    answers_of,
    ask,
    compare,
    known_classes,
    label_text,
    subject_of,
    table,
    write,
    write_pieces,
)
from tests.support.fuzz.spellings import Meant
from tests.support.fuzz.subjects import KINDS, Subject, Told
from tests.support.fuzz.tally import Difference, Part, Tally, ensure
from tests.support.fuzz.tally import told as telling
from tests.support.fuzz.written import ARRAYS, FORMATS, TEXT, File, decimal_of

COMMANDS = ("verify", "verify --out", "check", "guard", "guard --out/", "guard --map", "explain")
CELLS = tuple(
    # Arrays and Feather files are read whole.
    (form, command)
    for form, command in itertools.product(FORMATS, COMMANDS)
    if not ((form in ARRAYS or form.startswith("feather")) and "out" in command)
)
LABELLED = ("verify", "verify --out", "check")
"""Commands that need labels."""
ROWS, SPOILED, PER_SUBJECT = 100, 6, 6


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
    if command == "guard --map":
        made = made.unrelated
    related = [one.text for one in made.relations]
    with telling(f"{form} × {command}, {kind}, classes {known_classes(made)}, {made.columns}, relations {related}"):
        given = _table(command, made, ROWS, random, form)
        expected = made.predict(made.frame(given.rows))
        assert expected is not None, "the library refuses rows that were to be harmless"
        if _cannot_say(form, command, made):
            return
        in_pieces = command.endswith(("--out", "--out/")) and random.random() < 0.3
        file = (write_pieces if in_pieces else write)(folder, form, given, random)
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


def _table(command: str, made: Subject, n: int, random: Random, form: str) -> Table:
    """Rows that the command takes: with labels if it needs them, and possible ones for an explanation."""
    given = table(made, n, random, form, valid=command == "explain")
    while given.labels is None and (command in LABELLED or form == "libsvm"):
        given = table(made, n, random, form, valid=command == "explain")
    return given


def _cannot_say(form: str, command: str, made: Subject) -> bool:
    """Whether there are no words: LIBSVM has numbers only, and a guard needs a third value to abstain with."""
    first = known_classes(made)[0]
    return (form == "libsvm" and isinstance(first, str)) or (command.startswith("guard") and isinstance(first, bool))


def _kind_of(error: Exception) -> str:
    """What a refusal of a model is about, without its numbers."""
    return re.sub(r"[-+.\d]{2,}|'[^']*'", "…", str(error))[:60]


def spoil_text(command: str, folder: Path, form: str, made: Subject, random: Random, tally: Tally) -> None:
    """A short file with one hostile cell: refused by name, or taken for what its owner may mean by it."""
    given = _table(command, made, 4, random, form)
    row = random.randrange(4)
    text = "" if random.random() < 0.05 else random.choice(spellings.HOSTILE)
    if form != "csv-decimal" and random.random() < 0.3:
        text = _mutated(random.choice([str(v) for c in made.columns for v in c.known] or ["1.5"]), random)
    if text.startswith("\ufeff") or "\0" in text:
        return
    if given.labels is not None and given.label_texts is not None and random.random() < 0.2 and command in LABELLED:
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
        f" {text}", f"{text} ", f"0{text}", f"{text}.0", f"{text}0", f"+{text}", f"{text}e0", text.upper(),
        text.lower(),
        f"{text}\u00a0",
        f"{text[:1]}_{text[1:]}", text[:-1], text.translate({ord(str(d)): 0xFF10 + d for d in range(10)}), f"'{text}'",
        f"{text}.",
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
    others = made.predict(made.frame([own for k, own in enumerate(given.rows) if k != row])) if meant.values else []
    for value in meant.values:
        rows = [list(own) for own in given.rows]
        rows[row][f] = value
        labels = None if _impossible(command, made, rows) else made.predict(made.frame([rows[row]]))
        if labels is not None:
            assert others is not None
            allowed.append((rows, [*others[:row], *labels, *others[row:]]))
    with telling(f"column {name!r}, row {row}: {text!r}"):
        if said.refused:
            # A frame of categories makes what they do not list missing; of a file it is said that it is not known.
            is_unknown = "does not know the value" in said.message and text not in made.columns[f].known
            ensure(not (meant.sure and allowed) or is_unknown, f"refuses what is harmless: {said.message.strip()}")
            about = "breaks the relation" if "breaks the relation" in said.message else name
            said.check_refusal(f"row {row}", about)
            tally.refuse(
                made.columns[f].kind,
                "no value" if not meant.values else "model refuses" if not allowed else "ambiguous",
            )
            return
        ensure(said.code == 0, f"ends with {said.code}: {said.message}")
        ensure(bool(allowed), "is taken, though it is no value that the library takes")
        asked = [(replace(given, rows=rows), labels) for rows, labels in allowed]
        failed = [_difference(command, folder, file, one, form, labels) for one, labels in asked]
        if None not in failed:
            raise next(filter(None, failed))


def _impossible(command: str, made: Subject, rows: list[list[Any]]) -> bool:
    """Whether an explanation must be refused, since a row breaks relations: of such a row everything would be true."""
    return command == "explain" and any(map(made.breaks, rows))


def _difference(
    command: str, folder: Path, file: File, given: Table, form: str, labels: list[Any]
) -> Difference | None:
    """What differs if a table has these labels."""
    try:
        compare(command, folder, file, given, form, labels)
    except Difference as error:
        return error
    return None


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
        meant = [label for label in classes if label_text(label, point) == text or label in own or label in truth]
    sure = any(label_text(label, point) == text for label in classes)
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
    given = _table(command, made, 5, random, form)
    names, lines = given.names, given.text_lines()
    ways = ["open quote", "long line", "no column", *(["two names", "short line"] if len(names) > 1 else [])]
    way = random.choice(ways)
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
    ("datetime", [datetime.datetime(2024, 1, 31)] * 4), ("date", [datetime.date(2024, 1, 31)] * 4), ("bytes", [b"a",
    b"1", b"1234", b"1.5"]),
    ("decimal", [decimal.Decimal("1.10"), decimal.Decimal("1.00"), decimal.Decimal("100.00"), decimal.Decimal("0.00")]),
    ("large", [2**53 + 1, 2**53, 2**62 + 1, 1]), ("time", [datetime.time(1, 2)] * 4), ("lists", [[1], [2], [3], [4]]),
    ("text", None), ("categories", None), ("text", None), ("text", None), ("none", [None] * 4), ("uint64",
    [2**64 - 1, 2**63, 1, 0]),
)  # fmt: skip


def spoil_type(command: str, folder: Path, form: str, made: Subject, random: Random, tally: Tally) -> None:
    """A column of another type than the model's: refused, or taken for what the library takes it for."""
    given = _table(command, made, 4, random, form)
    f = random.randrange(len(made.columns))
    column = made.columns[f]
    # Numbers beyond int64 are numbers to some, and text or an error to others.
    kind, values = random.choice([one for one in TYPES if column.kind == "number" or one[0] != "uint64"])
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
    file = written.write_typed(folder, form, frame, random)
    if values is None:
        judge(command, folder, form, given, row, f, meant, own, file, random, tally)
        return
    _judge_column(command, folder, form, given, f, kind, values, file, random, tally)


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
        labels = None if _impossible(command, made, rows) else made.predict(made.frame(rows))
        if labels is None and kind == "none":  # to files there is one kind of nothing, to encoders two
            rows = [[*own[:f], math.nan, *own[f + 1 :]] for own in rows]
            labels = None if _impossible(command, made, rows) else made.predict(made.frame(rows))
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
