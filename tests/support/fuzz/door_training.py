"""`suggest` and `train`, which know no model: a file says about its columns what a frame of these values says."""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from tests.support.fuzz import spellings, told, written
from tests.support.fuzz.tally import Part, Tally, ensure
from tests.support.fuzz.tally import told as telling
from tests.support.fuzz.written import ARRAYS, FORMATS, TEXT, File, decimal_of

COMMANDS = ("suggest", "train")
CELLS = tuple((form, command) for form, command in itertools.product(FORMATS, COMMANDS) if form != "libsvm")
ROWS, SPOILED = 60, 6
LABELS = (
    ("0", "1"),
    ("no", "yes"),
    ("a", "a "),
    ("1", "2", "3"),
    ("none", "some"),
    ("x,y", 'q"q'),
    ("-1", "1"),
    ("red", "01x"),
)
WORDS = (
    ("a", "b"),
    ("none", "car", "tv"),
    ("1.1", "1.10", "x"),
    ("01234", "1234", "zip"),
    ("yes", "no"),
    ("a", "a ", "A"),
    ("1e2", "100", "x"),
)


def check(random: Random, number: int, tally: Tally) -> None:
    """One clean file, then some with one spoiled number."""
    form, command = CELLS[number % len(CELLS)]
    with telling(f"{form} × {command}"), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = _table(random, form, command)
        _judge(command, folder, form, drawn, random)
        tally.count(form, command, ROWS)
        for _ in range(SPOILED if form in TEXT and command == "train" else 0):
            _spoil(folder, form, random, tally)


Drawn = tuple[dict[str, list[Any]], dict[str, list[str]], list[str]]
"""The values of columns, their text, and labels."""


def _table(random: Random, form: str, command: str, n: int = ROWS) -> Drawn:
    point = decimal_of(form)
    values: dict[str, list[Any]] = {
        "amount": [round(random.gauss(0, 2), 2) for _ in range(n)],
        "rate": [float(random.randint(-3, 4)) for _ in range(n)],
        "huge": [random.choice([1e300, -1e-300, 123456789012345.0, 2.0**53, 0.1]) for _ in range(n)],
    }
    texts = {name: [spellings.spelled(value, random, point) for value in column] for name, column in values.items()}
    if command == "suggest":
        blank = random.random() < 0.5
        if form not in ARRAYS:
            words = random.choice(WORDS)
            # Each is there; else a column could be one of numbers only.
            column: list[Any] = [*words, *(random.choice(words) for _ in range(n - len(words)))]
            column = [None if blank and k > 5 and random.random() < 0.2 else value for k, value in enumerate(column)]
            values["word"], texts["word"] = column, ["" if value is None else value for value in column]
        if random.random() < 0.5:
            for k in range(0, n, 7):
                values["rate"][k], texts["rate"][k] = math.nan, ""
    classes = random.choice([labels for labels in LABELS if form != "npz" or labels[0].lstrip("-").isdigit()])
    labels = [
        classes[k % len(classes)] if k < 6 else classes[(values["amount"][k] > 0) % len(classes)] for k in range(n)
    ]
    return values, texts, labels


def _file(folder: Path, form: str, drawn: Drawn, random: Random) -> File:
    values, texts, labels = drawn
    if form in TEXT:
        lines = [[*(texts[name][k] for name in texts), label] for k, label in enumerate(labels)]
        return written.write_text(folder, form, [*texts, "y"], lines, random)
    if form in ARRAYS:
        X = np.column_stack([np.array(column, dtype=float) for column in values.values()])
        return written.write_array(folder, form, list(values), X, [int(label) for label in labels])
    whole = all(label.lstrip("-").isdigit() for label in labels) and random.random() < 0.5
    frame = written.retyped(
        _frame(values).assign(y=[int(label) for label in labels] if whole else labels), form, random
    )
    return written.write_typed(folder, form, frame, random)


def _frame(values: dict[str, list[Any]]) -> pd.DataFrame:
    made = {name: pd.Series(column, dtype=object if name == "word" else np.float64) for name, column in values.items()}
    return pd.DataFrame(made)


def _judge(command: str, folder: Path, form: str, drawn: Drawn, random: Random) -> None:
    file = _file(folder, form, drawn, random)
    out = folder / "out.json"
    options = ["--label", "label" if form in ARRAYS else "y", *file.options, "--out", out]
    if command == "suggest":
        said = told.run("suggest", file.path, *options)
        ensure(said.code == 0, f"refuses what is harmless: {said.message.strip()}")
        _compare_proposal(json.loads(out.read_text("utf-8")), drawn[0])
        return
    said = told.run("train", file.path, *options, *TRAIN)
    ensure(said.code == 0, f"refuses what is harmless: {said.message.strip()}")
    _compare_model(out, drawn)


TRAIN = ("--delta", "0.1", "--trees", "2", "--depth", "2", "--seed", "0", "--jobs", "1")


def _compare_proposal(threat: dict[str, Any], values: dict[str, list[Any]]) -> None:
    """Ranges, words and blanks are those that are there; the rest is what the same values in a frame lead to."""
    attacker = threat["attacker"]
    moves, blanks = dict(attacker["intervals"]["by_feature"]), dict((attacker.get("blank") or {}).get("by_feature", []))
    ranges = dict((attacker["domain"] or {"by_feature": []})["by_feature"])
    for name, column in values.items():
        there = [value for value in column if value is not None and value == value]
        ensure((name in blanks) == (len(there) < len(column)), f"column {name!r} may be blanked: {name in blanks}")
        if name == "word":
            ensure(
                sorted(moves[name]["values"]) == sorted(set(there)),
                f"column {name!r}: {moves[name]} for {sorted(set(there))}",
            )
        elif name in ranges:
            ensure(
                ranges[name] == [min(there), max(there)],
                f"column {name!r}: {ranges[name]} for {[min(there), max(there)]}",
            )
    own = json.loads(tp.suggest_attacker(_frame(values)).attacker.to_json())
    ensure(own == attacker, f"a frame leads to {own}, the file to {attacker}")
    relations = [str(one) for one in tp.suggest_relations(_frame(values), limit=20).relations]
    ensure(
        len(threat["relations"]) == len(relations), f"a frame leads to {relations}, the file to {threat['relations']}"
    )


def _compare_model(out: Path, drawn: Drawn) -> None:
    """The model in the file says what one says that was trained on the same numbers and labels in Python."""
    values, _, labels = drawn
    X = np.column_stack([np.array(column, dtype=float) for column in values.values()])
    whole = all(label.lstrip("-").isdigit() for label in labels)
    y = np.array([int(label) for label in labels] if whole else labels)
    model = tp.RobustBoostingClassifier(
        tp.Attacker((-0.1, 0.1)), n_estimators=2, max_depth=2, random_state=0, n_jobs=1
    ).fit(X, y)
    loaded = tp.load_model(out)
    ensure(
        loaded.classes.tolist() == np.unique(y).tolist(),
        f"classes {loaded.classes.tolist()} of {np.unique(y).tolist()}",
    )
    found, wanted = loaded.predict(X).tolist(), model.predict(X).tolist()
    ensure(found == wanted, f"predicts {found}, not {wanted}")
    ensure(
        np.array_equal(loaded.scores(X), tp.from_model(model).scores(X)),
        "has other scores than one that was trained on the numbers",
    )


def _spoil(folder: Path, form: str, random: Random, tally: Tally) -> None:
    """One number in another spelling: that number, or refused by name."""
    values, texts, labels = _table(random, form, "train", 12)
    name, row, text = random.choice(list(values)), random.randrange(12), random.choice(spellings.HOSTILE)
    if text.startswith("\ufeff"):
        return
    texts[name][row] = text
    meant = spellings.number(text, decimal_of(form))
    file = _file(folder, form, (values, texts, labels), random)
    out = told.fresh(folder / "out.json")
    said = told.run("train", file.path, "--label", "y", *file.options, "--out", out, *TRAIN)
    tally.count(form, "train")
    with telling(f"column {name!r}, row {row}: {text!r}"):
        finite = [value for value in meant.values if math.isfinite(value)]
        if said.refused:
            ensure(not (meant.sure and finite), f"refuses what is harmless: {said.message.strip()}")
            said.check_refusal(f"row {row}", name)
            tally.refuse("train", "ambiguous" if finite else "no number")
            return
        ensure(said.code == 0 and bool(finite), "is taken, though it is no number to train on")
        values[name][row] = finite[0]
        _compare_model(out, (values, texts, labels))


PART = Part("training", CELLS, check)
