"""Frames, arrays and lists of every type, given in Python: the model's own `predict` of the same object decides."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import itertools
import math
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import treeproof as tp
from tests.support.fuzz import spellings
from tests.support.fuzz.answers import REFUSED, each
from tests.support.fuzz.asked_tables import subject_of, table
from tests.support.fuzz.related import blank
from tests.support.fuzz.subjects import KINDS, Subject, Told
from tests.support.fuzz.tally import Part, Tally, ensure
from tests.support.fuzz.tally import told as telling

ROWS = 50
ARROW_TEXT = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))


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


def _typed(*dtypes: Any) -> Callable[[Subject, pd.DataFrame, Random], Any]:
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


def _array_of_text(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    return frame.astype(object).to_numpy().astype(str)


def _array_laid_out(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    """The same array in another order of bytes or of cells."""
    array = _array(np.float64)(made, frame, random)
    some: Any = [np.asfortranarray(array), array[::-1][::-1]]
    if array.dtype == np.float64:
        some += [array.astype(">f8"), array.astype(np.longdouble)]
    return random.choice(some)


def _indexed(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    return frame.set_axis(random.choice([[7] * len(frame), [f"r{k}" for k in range(len(frame))]]), axis=0)


def _missing(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    """Cells of one column without a value, of all the kinds of nothing that there are."""
    name = random.choice(list(frame))
    kinds = random.choice([[None], [np.nan], [pd.NA], [pd.NaT], [None, np.nan], [np.nan, pd.NA], [pd.NaT, None]])
    column = frame[name].astype(object)
    for k in random.sample(range(len(column)), len(column) // 3):
        column.iloc[k] = random.choice(kinds)
    changed = frame.copy()
    changed[name] = column
    dtypes = ("object", "string", "string[pyarrow]", "category", "Float64", "double[pyarrow]", str(frame[name].dtype))
    with contextlib.suppress(Exception):  # not each column can be of each type
        changed[name] = column.astype(random.choice(dtypes))
    return changed


def _other_categories(made: Subject, frame: pd.DataFrame, random: Random) -> Any:
    """The same values by other codes: in another order, with ones that are not there."""
    changed = frame.copy()
    for column in made.columns:
        if column.kind != "number":
            values = [v for v in dict.fromkeys(frame[column.name]) if not blank(v)]
            own = [*dict.fromkeys([*values, *column.known]), *random.choice([[], ["unused"]])]
            random.shuffle(own)
            changed[column.name] = pd.Categorical(frame[column.name], categories=own, ordered=random.random() < 0.3)
    return changed


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
    "other categories": _other_categories,
    "missing": _missing,
    "another index": _indexed,
    "nullable": _typed("Int64", "Float64", "Float32", "boolean", "Int8", "UInt64"),
    "arrow": _typed("double[pyarrow]", "float[pyarrow]", "int64[pyarrow]", "bool[pyarrow]"),
    "arrow text": _typed(*(pd.ArrowDtype(one) for one in ARROW_TEXT)),
    "arrow decimals": _typed(pd.ArrowDtype(pa.decimal128(38, 18)), pd.ArrowDtype(pa.decimal128(9, 2))),
    "sparse": _typed(pd.SparseDtype("float64", np.nan), pd.SparseDtype("float64", 0.0)),
    "small numbers": _typed("float32", "float16", "int8", "bool", "uint8"),
    "odd values": _values,
    "array of objects": _array(object),
    "array of doubles": _array(np.float64),
    "array of float32": _array(np.float32),
    "array of float16": _array(np.float16),
    "array of integers": _array(np.int64),
    "array of text": _array_of_text,
    "array laid out": _array_laid_out,
    "lists": _list,
}
HARMLESS = ("frame", "object", "another index")
"""What the library takes of these must be taken."""
ODD = ("odd values", "missing")
"""Each row is another question: one may be refused, and others not."""

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
    with telling(f"{container} × {door}, {kind}"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made, _ = subject_of(kind, number // 40 + 500_000)
        except (tp.InvalidInput, tp.UnsupportedModel) as error:
            tally.refuse("model", " ".join(str(error).split()[:6]))
            return
        drawn = table(made, ROWS, random, "parquet")
        own = made.as_given(made.frame(drawn.rows))
        with contextlib.redirect_stderr(io.StringIO()):
            given = CONTAINERS[container](made, own, random)
        odd = container in ODD
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
                ensure(container != "fewer columns", f"row {shown!r}: {a!r} here, refused there")
                if container in (*ODD, "small numbers", "arrow"):
                    other = plainly(made, list(shown))
                    # A number of Arrow may be the truth value that it was made of.
                    plain = plain if container == "arrow" and other == REFUSED else other
            ensure(a == (plain if b == REFUSED else b), f"row {shown!r} ({_types(given)}): {a!r} here, {b!r} there")
        tally.count(container, door, ROWS)


def plainly(made: Subject, row: list[Any]) -> Any:
    """What the library says of these values in columns of its own types, if they are values of such columns."""
    values = [_own_value(column, value) for column, value in zip(made.columns, row, strict=True)]
    labels = None if any(value is REFUSED for value in values) else made.predict(made.frame([values]))
    return REFUSED if labels is None else labels[0]


def _own_value(column: Told, value: Any) -> Any:
    if blank(value):
        return math.nan if column.kind in ("number", "whole") else None
    if column.kind == "word":
        return str(value) if isinstance(value, str) else value
    if column.kind == "truth":
        return bool(value) if isinstance(value, (bool, np.bool_)) else REFUSED
    if not isinstance(value, (int, float, np.number, np.bool_, decimal.Decimal)):
        return REFUSED
    whole = column.kind == "whole" and not isinstance(value, (bool, np.bool_)) and value == int(value)
    return int(value) if whole else float(value)


def _types(given: Any) -> str:
    return (
        str([str(dtype) for dtype in given.dtypes])
        if hasattr(given, "dtypes")
        else str(getattr(given, "dtype", "lists"))
    )


PART = Part("frames", CELLS, check)
