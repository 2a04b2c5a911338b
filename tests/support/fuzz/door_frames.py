"""Frames, arrays and lists of every type, given in Python: the model's own `predict` of the same object decides."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import itertools
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import treeproof as tp
from tests.support.fuzz import spellings
from tests.support.fuzz.answers import REFUSED, each
from tests.support.fuzz.asked_tables import subject_of, table
from tests.support.fuzz.subjects import KINDS, Subject
from tests.support.fuzz.tally import Part, Tally, ensure
from tests.support.fuzz.tally import told as telling

ROWS = 50


def _own(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    return frame


def _shuffled(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    return frame[random.sample(list(frame), len(list(frame)))]


def _more(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    wide = frame.copy()
    wide.insert(random.randrange(len(list(frame)) + 1), "more", "x")
    return wide


def _twice(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    name = random.choice(list(frame))
    return pd.concat([frame, frame[[name]]], axis=1)


def _fewer(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    return frame.drop(columns=random.choice(list(frame)))


def _typed(*dtypes: str) -> Callable[[Subject, pd.DataFrame, Random], Any]:
    def given(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
        changed = frame.copy()
        some = random.sample(list(frame), random.randint(1, len(list(frame))))
        for name in some:
            with contextlib.suppress(Exception):  # not each column can be of each type
                changed[name] = frame[name].astype(random.choice(dtypes))
        return changed

    return given


def _values(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    """Columns of values that are no number and no text of the model's."""
    odd: list[Any] = [
        decimal.Decimal("1.10"), datetime.datetime(2024, 1, 31), datetime.date(2024, 1, 31), b"a", b"1", True, False,
        2**53 + 1, 10**400,
        float("inf"), -0.0, 5e-324, "1_0", " 1", "1", "１", "1e400", None, pd.NA, pd.NaT, np.float32(0.1), np.int8(1),
        np.bool_(True),
        np.str_("a"), 1 + 0j, (1,), pd.Timedelta(1), np.datetime64("2024-01-31"), "", "nan", "NaN", float("nan"),
        *spellings.HOSTILE[:20],
    ]  # fmt: skip
    changed = frame.copy()
    name = random.choice(list(frame))
    column = frame[name].astype(object)
    for k in range(len(column)):
        if random.random() < 0.5:
            column.iloc[k] = random.choice(odd)
    changed[name] = column
    return changed


def _array(dtype: Any) -> Callable[[Subject, pd.DataFrame, Random], Any]:
    def given(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
        try:
            return frame.astype(object).to_numpy().astype(dtype)
        except (TypeError, ValueError, OverflowError):
            return frame.astype(object).to_numpy()

    return given


def _list(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    return frame.astype(object).to_numpy().tolist()


CONTAINERS: dict[str, Callable[[Subject, pd.DataFrame, Random], Any]] = {
    "frame": _own,
    "shuffled": _shuffled,
    "more columns": _more,
    "a name twice": _twice,
    "fewer columns": _fewer,
    "object": _typed("object"),
    "string": _typed("string", "string[pyarrow]", "str"),
    "category": _typed("category"),
    "nullable": _typed("Int64", "Float64", "boolean", "Int8"),
    "arrow": _typed("double[pyarrow]", "int64[pyarrow]", "bool[pyarrow]"),
    "small numbers": _typed("float32", "float16", "int8", "bool", "uint8"),
    "odd values": _values,
    "array of objects": _array(object),
    "array of doubles": _array(np.float64),
    "array of float32": _array(np.float32),
    "array of integers": _array(np.int64),
    "lists": _list,
}
HARMLESS = ("frame", "object")
"""What the library takes of these must be taken."""

DOORS = ("predict", "verify", "guard", "explain")
CELLS = tuple(itertools.product(CONTAINERS, DOORS))


def ask(door: str, made: Subject, given: Any, labels: list[Any], split: bool) -> list[Any]:
    """The labels that a door gives the rows; None where the guard has no answer."""
    guard = tp.GuardedClassifier(made.ensemble, made.attacker, n_jobs=1).fit() if door == "guard" else None

    def answers(rows: Any) -> Any:
        if door == "predict":
            return made.ensemble.predict(rows)
        if door == "verify":
            return tp.verify(made.ensemble, rows, labels[: len(rows)], made.attacker, n_jobs=1).predicted
        if guard is None:
            return [one.label for one in tp.explain(made.ensemble, rows, attacker=made.attacker, n_jobs=1)]
        said = np.asarray(guard.predict(rows)).astype(object)
        said[~np.asarray(guard.is_proved(rows))] = None
        return said

    return each(answers, given, ours=True, split=split)


def check(random: Random, number: int, tally: Tally) -> None:
    """One container at one door."""
    container, door = CELLS[number % len(CELLS)]
    kind = KINDS[(number // 4) % len(KINDS)]
    with telling(f"{container} × {door}, {kind}"):
        try:
            made, _ = subject_of(kind, number // 40 + 500_000)
        except (tp.InvalidInput, tp.UnsupportedModel) as error:
            tally.refuse("model", " ".join(str(error).split()[:6]))
            return
        drawn = table(made, ROWS, random, "parquet")
        own = made.as_given(made.frame(drawn.rows))
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            given = CONTAINERS[container](made, own, random)
        odd = container == "odd values"
        theirs = each(made.model.predict, given, ours=False, split=odd)
        canonical = each(made.model.predict, own, ours=False, split=False)
        labels = [made.y.tolist()[k % 7] for k in range(ROWS)]
        if door == "guard" and isinstance(labels[0], bool):
            return
        ours = ask(door, made, given, labels, odd)
        for row, (a, b, plain) in enumerate(zip(ours, theirs, canonical, strict=True)):
            shown = given.iloc[row].tolist() if hasattr(given, "iloc") else given[row]
            if a == REFUSED:
                tally.refuse(container, "both" if b == REFUSED else "here only")
                ensure(b == REFUSED or container not in HARMLESS, f"refuses row {shown!r}, which is harmless")
                continue
            if door == "guard" and a is None:
                continue
            # Where the library takes no such container, treeproof may, if the values are the same.
            if b == REFUSED:
                ensure(container not in ("odd values", "fewer columns"), f"row {shown!r}: {a!r} here, refused there")
            ensure(a == (plain if b == REFUSED else b), f"row {shown!r} ({_types(given)}): {a!r} here, {b!r} there")
        tally.count(container, door, ROWS)


def _types(given: Any) -> str:
    return (
        str([str(dtype) for dtype in given.dtypes])
        if hasattr(given, "dtypes")
        else str(getattr(given, "dtype", "lists"))
    )


PART = Part("frames", CELLS, check)
