"""Rows of a file as columns: which of them a model takes, as doubles, and which holds the labels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import check_bytes
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray

NUMBERED = re.compile(r"(f|x|column_?|feature_?)?\d+", re.IGNORECASE)
"""Names that libraries make up for features without names."""

DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
"""What looks like a number with a decimal comma."""

LEADING_ZERO = re.compile(r"\s*0\d")
"""How a code begins that is no number."""

TRUTH = {"true": 1.0, "false": 0.0}
"""The numbers for what Python and others write for yes and no, in lower case."""

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "<na>"})
"""What stands for a missing value in a text file, in lower case."""

NOT_FEATURES = "name the label with label= and columns that are not features with drop="

COLUMN_BYTES = 1024
"""What a column takes beside its values: its name, and its arrays while they are read."""


class Matched(NamedTuple):
    """What a model makes of the columns of a file."""

    columns: list[str]
    """The columns in the order of the model's features."""
    ensemble: Ensemble
    """The model, with the names of the columns if they go by position."""
    by_position: bool
    """Whether the file names its columns and the model does not, so that their order is all there is to go by."""
    by_number: bool = False
    """Whether it is so, but their names are numbers, which say what their order is."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file: as numbers if all values of a column are numbers, else as the file has them."""

    source: str
    columns: dict[str, npt.NDArray[Any]]
    named: bool
    """Whether the file names its columns; if not, they are "0", "1", …, and the label is "label"."""
    first_row: int = 0
    """The number in the file of the first row here."""
    decimal: str = "."
    """What stands before the decimals of numbers that are text."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def features(self, leave_out: tuple[str, ...] = ()) -> tuple[FloatArray, list[str]]:
        """All columns except those to leave out, as doubles, and their names."""
        names = self._all_but(leave_out)
        if not names:
            raise InvalidInput(f"{self.source} has no feature columns besides {listed(list(leave_out))}")
        try:
            rows = self.numbers(names)
        except InvalidInput as error:
            if error.argument != "values":
                raise
            raise InvalidInput(error.message, argument="drop", way_out=NOT_FEATURES) from None
        for row, f in np.argwhere(~np.isfinite(rows))[:1].tolist():
            raise InvalidInput(
                f"{self._place(row, names[f])}: {rows[row, f]} cannot be trained on; leave the row out, "
                "or train in Python, where missing values are taken"
            )
        return rows, names

    def rows(self, ensemble: Ensemble, leave_out: tuple[str, ...] = ()) -> FloatArray:
        """The model's features as doubles: by name if both have names, else all columns except those to leave out."""
        columns, _ = self._columns_of(ensemble, leave_out)
        return self.model_rows(ensemble, columns)

    def model_rows(self, ensemble: Ensemble, columns: list[str]) -> FloatArray:
        """The rows as the model takes them, from these columns: the one place where a file's values become features."""
        coded = {f: category for f, category in ensemble.categories if category.coded}
        rows = np.empty((len(self), len(columns)))
        for f, name in enumerate(columns):
            rows[:, f] = self._codes(name, coded[f]) if f in coded else self._numbers(name)
        with self.counted_here():
            return ensemble.check_rows(rows)

    def _codes(self, name: str, category: Category) -> FloatArray:
        """A column of categories as codes; a file may write a value in another way than the model does: 1.0 for 1."""
        written: dict[Any, list[Any]] = {}
        for value in category.values:
            written.setdefault(_as_written(value), []).append(value)

        def code(value: Any) -> float:
            if value in exact:
                return category.code_of(value)
            if value is None or str(value).strip().lower() in MISSING:
                return math.nan
            meant = written.get(_as_written(value), [])
            return category.code_of(meant[0] if len(meant) == 1 else value)

        exact = set(category.values)

        values = self.columns[name].tolist()
        codes = {value: code(value) for value in dict.fromkeys(values)}
        for row, value in enumerate(values if -1.0 in codes.values() else ()):
            if codes[value] == -1.0:
                raise InvalidInput(
                    f"{self._place(row, name)}: the model does not know the value {value!r}; it knows "
                    f"{listed(list(category.values))}"
                )
        return np.array([codes[value] for value in values])

    def own_columns(self, leave_out: tuple[str, ...] = ()) -> dict[str, npt.NDArray[Any]]:
        """All columns except those to leave out as a data frame would have them: numbers, or text and None."""
        return {name: self._own(name) for name in self._all_but(leave_out)}

    def _own(self, name: str) -> npt.NDArray[Any]:
        values = self.columns[name]
        # A number has no zeros in front; codes and post codes do.
        is_code = values.dtype.kind in "OUS" and any(LEADING_ZERO.match(str(value)) for value in values.tolist())
        if not is_code:
            with suppress(InvalidInput):
                return self._numbers(name)
        blank = [value is None or str(value).strip().lower() in MISSING for value in values.tolist()]
        own = values.astype(object)
        own[np.array(blank)] = None
        return own

    def numbers(self, columns: list[str]) -> FloatArray:
        """These columns as doubles, side by side."""
        return np.column_stack([self._numbers(name) for name in columns]) if columns else np.empty((len(self), 0))

    def matched(self, ensemble: Ensemble, label: str, drop: tuple[str, ...] = ()) -> Matched:
        """The columns for a model, besides the label, which need not be there, and those to drop, which must."""
        leave_out = (*drop, label) if label in self.columns else drop
        columns, known = self._columns_of(ensemble, leave_out)
        if known or not self.named:
            return Matched(columns, ensemble, False)
        in_order = _by_number(columns)
        named = replace(ensemble, feature_names=tuple(in_order or columns))
        return Matched(in_order or columns, named, True, in_order is not None)

    def _columns_of(self, ensemble: Ensemble, leave_out: tuple[str, ...]) -> tuple[list[str], bool]:
        """The columns in the order of the model's features, and whether names told which is which."""
        free = self._all_but(leave_out)
        known = ensemble.feature_names is not None and self.named and not self._numbers_only(ensemble, free)
        columns = self._by_name(ensemble, free) if known else free
        if len(columns) < ensemble.n_features:
            besides = f" besides {listed(list(leave_out))}" if leave_out else ""
            raise InvalidInput(
                f"{self.source} has {len(columns)} columns{besides}, but the model takes {ensemble.n_features}; "
                "give the columns that it was trained with"
            )
        if len(columns) > ensemble.n_features:
            raise InvalidInput(
                f"{self.source} has {len(columns)} feature columns, but the model takes {ensemble.n_features}",
                argument="drop",
                way_out=NOT_FEATURES,
            )
        return columns, known

    def _all_but(self, leave_out: tuple[str, ...]) -> list[str]:
        for name in leave_out:
            self.column(name)
        return [name for name in self.columns if name not in leave_out]

    def _numbers_only(self, ensemble: Ensemble, free: list[str]) -> bool:
        """Whether the model's names are made up for columns without one, and say nothing about the file's."""
        names = ensemble.feature_names or ()
        return all(NUMBERED.fullmatch(name) for name in names) and not set(names) & set(free)

    def _by_name(self, ensemble: Ensemble, free: list[str]) -> list[str]:
        spelled = {ensemble.own_spelling(name): name for name in free} | {name: name for name in free}
        for name in ensemble.feature_names or ():
            if name in self.columns and name not in spelled:
                raise InvalidInput(
                    f"{self.source}: the model was trained with {name!r}, which can be neither the label nor dropped"
                )
            if name not in spelled:
                raise InvalidInput(
                    f"{self.source} has no column {name!r}, which the model was trained with; it has {listed(free)}"
                )
        return [spelled[name] for name in ensemble.feature_names or ()]

    def labels(self, column: str, ensemble: Ensemble | None = None) -> npt.NDArray[Any]:
        """The labels; with a model, as that model writes them (1 for the text "1.0")."""
        values = self.column(column, "label")
        if values.dtype.kind not in "biufOU":
            raise InvalidInput(f"{self.source}, column {column!r}: {values.dtype} is not a type of labels")
        for row, value in enumerate(values.tolist() if values.dtype.kind == "O" else ()):
            if not isinstance(value, Hashable):
                raise InvalidInput(f"{self._place(row, column)}: {value!r} is not a label")
        if ensemble is None:
            return self._new_labels(column, plain_labels(values))
        known: dict[Any, Any] = {}
        for label in ensemble.classes.tolist():
            known |= {label: label, _as_written(label): label}
        for truth, number in (("True", 1), ("False", 0)):
            if truth not in known and number in known:
                known[truth] = known[number]
        out = []
        for row, value in enumerate(values.tolist()):
            label = known[value] if value in known else known.get(_as_written(value))
            if label is None and (value is None or str(value).strip().lower() in MISSING):
                raise InvalidInput(f"{self._place(row, column)}: the label is missing")
            if label is None:
                raise InvalidInput(
                    f"{self._place(row, column)}: the model does not know the label {value!r}; "
                    f"it predicts {', '.join(map(repr, ensemble.classes.tolist()))}",
                    argument="labels",
                    way_out="with_classes renames them",
                )
            out.append(label)
        return np.array(out, dtype=ensemble.classes.dtype)

    def _new_labels(self, column: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels that no model knows yet: whole numbers or text, and none of them missing."""
        if values.dtype.kind in "biu":
            return values
        for row, value in enumerate(values.tolist()):
            if value == "" if isinstance(value, str) else str(value).lower() in MISSING:
                raise InvalidInput(f"{self._place(row, column)}: the label is missing")
            if values.dtype.kind == "f":
                raise InvalidInput(
                    f"{self._place(row, column)}: {value!r} is not a label where labels are not all "
                    "whole numbers; name the classes"
                )
        return np.array([_as_written(value) for value in values.tolist()])

    @contextmanager
    def counted_here(self) -> Iterator[None]:
        """Inside `with`, a message that counts rows from the first one here says so."""
        try:
            yield
        except InvalidInput as error:
            where = f"{self.source}, counted from row {self.first_row}" if self.first_row else self.source
            raise InvalidInput(f"{where}: {error.message}", argument=error.argument, way_out=error.way_out) from None

    def _place(self, row: int, column: str) -> str:
        """Where a value stands, for messages."""
        return f"{self.source}, row {self.first_row + row}, column {column!r}"

    def column(self, name: str, argument: str = "drop") -> npt.NDArray[Any]:
        """The values of a column that an argument names, or InvalidInput with the columns that there are."""
        if name not in self.columns:
            raise InvalidInput(
                f"{self.source} has no column {name!r}; it has {listed(list(self.columns))}",
                argument=argument,
                way_out=f"name one of them with {argument}=",
            )
        return self.columns[name]

    def _numbers(self, name: str) -> FloatArray:
        values = self.columns[name]
        if values.dtype.kind in "biuf":
            return values.astype(np.float64)
        if values.dtype.kind not in "OUS":
            raise InvalidInput(f"{self.source}, column {name!r}: {values.dtype} is not a type of numbers")
        if self.decimal == ".":
            with suppress(TypeError, ValueError, OverflowError):
                return values.astype(np.float64)
        return np.array([self._number(value, row, name) for row, value in enumerate(values.tolist())])

    def _number(self, value: Any, row: int, column: str) -> float:
        plain = str(value).strip().lower()
        if value is None or plain in MISSING:
            return math.nan
        if plain in TRUTH:
            return TRUTH[plain]
        try:
            return float(with_point(value, self.decimal) if isinstance(value, str) else value)
        except (TypeError, ValueError, OverflowError):
            what = f"{self._place(row, column)}: {value!r} is not a number"
            if self.decimal == "." and isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
                way_out = 'if it is one with a decimal comma, say so with decimal=","'
                raise InvalidInput(what, argument="decimal", way_out=way_out) from None
            raise InvalidInput(
                what, argument="values", way_out="give the numbers that the model was trained on"
            ) from None


def with_point(text: str, decimal: str) -> str:
    """A number's text as Python reads it; with decimal commas, a point is no part of a number.

    >>> with_point("1,5", ","), with_point("1.5", ".")
    ('1.5', '1.5')
    """
    if decimal == ".":
        return text
    if "." in text:
        raise ValueError(f"{text!r} has a point where decimals have commas")
    return text.replace(",", ".")


def _by_number(columns: list[str]) -> list[str] | None:
    """The columns in the order of their numbers, if they are numbered alike without gaps, from 0 or 1 on."""
    parts = [re.fullmatch(r"(\D*)(0|[1-9]\d{0,8})", name) for name in columns]
    numbers = {int(part[2]): part[0] for part in parts if part is not None}
    alike = len({part[1] for part in parts if part is not None}) == 1 and len(numbers) == len(columns)
    if not alike or sorted(numbers) not in ([*range(len(columns))], [*range(1, len(columns) + 1)]):
        return None
    return [numbers[k] for k in sorted(numbers)]


def check_shape(file: Path, n_rows: int, n_columns: int, max_bytes: int) -> None:
    """Refuses a table of this size, which may be large although it has no rows."""
    size = n_columns * (8 * n_rows + COLUMN_BYTES)
    check_bytes(f"{file}, with {n_rows:,} rows and {n_columns:,} columns,", size, max_bytes)


def check_names(file: Path, names: list[str]) -> None:
    """Refuses a table with two columns of the same name."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InvalidInput(f"{file} has two columns named {name!r}; rename one")


def plain_labels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels that are whole numbers as integers, however they are written."""
    if values.dtype.kind in "iu":
        return values
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return values
    whole = (np.abs(numbers) < 2**53).all() and (numbers == np.rint(numbers)).all()
    return numbers.astype(np.int64) if whole else values


def _as_written(label: Any) -> Any:
    """A label in a form in which 1, 1.0 and "1" are the same."""
    text = str(label).strip()
    if isinstance(label, bool) or text in ("True", "False"):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return str(int(number)) if number == int(number) else str(number)


def listed(names: list[str], most: int = 12) -> str:
    """The first few names, for messages."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
