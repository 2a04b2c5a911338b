"""Rows of a file as columns: which of them a model takes, as doubles, and which holds the labels."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.files import check_bytes
from treeproof.model.columns import CodedRows, is_missing, renamed, some_of
from treeproof.model.ensemble import Ensemble
from treeproof.model.written import MISSING_TEXT, NO_NUMBER, Known, number_of_text
from treeproof.numbers.doubles import FloatArray
from treeproof.tables.cells import FileCells
from treeproof.tables.text import Text

NUMBERED = re.compile(r"(f|x|column_?|feature_?)?\d+", re.IGNORECASE)
"""Names that libraries make up for features without names."""

WHOLE = re.compile(r"-?(?:0|[1-9]\d*)(?:\.0*)?", re.ASCII)
"""A whole number as labels write it."""

LEADING_ZERO = re.compile(r"\s*0\d")
"""How a code begins that is no number."""

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


class Raw(NamedTuple):
    """A CSV file as it is."""

    head: str
    records: list[str]
    """The text of each row, with what ends its line."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file as it has them: text stays text until a column of a model says what it means."""

    source: str
    columns: Mapping[str, Text | npt.NDArray[Any]]
    named: bool
    """Whether the file names its columns; if not, they are "0", "1", …, and the label is "label"."""
    first_row: int = 0
    """The number in the file of the first row here."""
    decimal: str = "."
    """What stands before the decimals of numbers that are text."""
    raw: Raw | None = None
    """The lines of the file, if they were kept."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def features(self, leave_out: tuple[str, ...] = ()) -> tuple[FloatArray, list[str]]:
        """All columns except those to leave out, as doubles, and their names."""
        names = self._all_but(leave_out)
        if not names:
            raise InvalidInput(f"{self.source} has no feature columns besides {some_of(list(leave_out))}")
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
        made = [column.doubles(self.cells(name)) for column, name in zip(ensemble.columns, columns, strict=True)]
        with self.counted_here():
            return ensemble.check_rows(np.column_stack(made), coded=True).view(CodedRows)

    def cells(self, name: str) -> FileCells:
        """One column, to be taken for something."""
        return FileCells(self.columns[name], repr(name), self.source, self.first_row, self.decimal)

    def plain_columns(self) -> dict[str, list[Any]]:
        """All columns as lists: of numbers where text is written as they are, so that nothing is lost."""
        return {
            name: _plain(column.tolist(), self.decimal) if isinstance(column, Text) else column.tolist()
            for name, column in self.columns.items()
        }

    def own_columns(self, leave_out: tuple[str, ...] = ()) -> dict[str, npt.NDArray[Any]]:
        """All columns except those to leave out as a data frame would have them: numbers, or text and None."""
        return {name: self._own(name) for name in self._all_but(leave_out)}

    def _own(self, name: str) -> npt.NDArray[Any]:
        column = self.columns[name]
        if not isinstance(column, Text) and column.dtype.kind in "biuf":
            return self.cells(name).numbers()
        texts = {value for value in column.tolist() if isinstance(value, str)} - MISSING_TEXT
        # A number has no zeros in front; codes and post codes do. Other words for what is missing may be values.
        is_text = any(LEADING_ZERO.match(value) or value.strip().lower() in NO_NUMBER - {"?"} for value in texts)
        if not (is_text or texts == {"?"}):
            with suppress(InvalidInput):
                return self.cells(name).numbers()
        # Arrow's lists are arrays, which no set has.
        values = (None if is_missing(one) or (isinstance(one, str) and one in MISSING_TEXT) else one for one in column)
        return np.fromiter(values, dtype=object, count=len(column))

    def numbers(self, columns: list[str]) -> FloatArray:
        """These columns as doubles, side by side."""
        return (
            np.column_stack([self.cells(name).numbers() for name in columns]) if columns else np.empty((len(self), 0))
        )

    def matched(self, ensemble: Ensemble, label: str, drop: tuple[str, ...] = ()) -> Matched:
        """The columns for a model, besides the label, which need not be there, and those to drop, which must."""
        leave_out = (*drop, label) if label in self.columns else drop
        columns, known = self._columns_of(ensemble, leave_out)
        if known or not self.named:
            return Matched(columns, ensemble, False)
        in_order = _by_number(columns)
        named = replace(ensemble, columns=renamed(ensemble.columns, in_order or columns))
        return Matched(in_order or columns, named, True, in_order is not None)

    def _columns_of(self, ensemble: Ensemble, leave_out: tuple[str, ...]) -> tuple[list[str], bool]:
        """The columns in the order of the model's features, and whether names told which is which."""
        free = self._all_but(leave_out)
        known = ensemble.feature_names is not None and self.named and not self._numbers_only(ensemble, free)
        columns = self._by_name(ensemble, free) if known else free
        if len(columns) < ensemble.n_features:
            besides = f" besides {some_of(list(leave_out))}" if leave_out else ""
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
                    f"{self.source} has no column {name!r}, which the model was trained with; it has {some_of(free)}"
                )
        return [spelled[name] for name in ensemble.feature_names or ()]

    def labels(self, column: str, ensemble: Ensemble | None = None) -> npt.NDArray[Any]:
        """The labels; with a model, as that model writes them (1 for the text "1.0")."""
        values = self.column(column, "label")
        self.cells(column).check_kind("biufOU", "labels")
        for row, value in enumerate(() if isinstance(values, Text) or values.dtype.kind != "O" else values.tolist()):
            if not (is_missing(value) or isinstance(value, (str, int, float, np.generic, Decimal))):
                raise InvalidInput(f"{self._place(row, column)}: {value!r} is not a label")
        if ensemble is None:
            return self._new_labels(column)
        known = Known(ensemble.classes.tolist(), self.decimal)

        def place(value: Any) -> float:
            found = known.place_of(value)
            return -1.0 if found is None else float(found)

        places = self.cells(column).by_value(place).astype(np.int64)
        for row in np.flatnonzero(places < 0)[:1].tolist():
            value = self.cells(column).value(row)
            if is_missing(value) or (isinstance(value, str) and value.strip().lower() in NO_NUMBER):
                raise InvalidInput(f"{self._place(row, column)}: the label is missing")
            raise InvalidInput(
                f"{self._place(row, column)}: the model does not know the label {value!r}; "
                f"it predicts {', '.join(map(repr, ensemble.classes.tolist()))}",
                argument="labels",
                way_out="with_classes renames them",
            )
        return np.asarray(ensemble.classes[places])

    def _new_labels(self, column: str) -> npt.NDArray[Any]:
        """Labels that no model knows yet: whole numbers or text, and none of them missing."""
        values = self.columns[column]
        if not isinstance(values, Text) and values.dtype.kind in "biu":
            return values
        given = values.tolist()
        texts = [_as_label(value) for value in given]
        numbers = {text: number_of_text(text, self.decimal) for text in dict.fromkeys(texts)}
        all_numbers = None not in numbers.values()
        for row, (value, text) in enumerate(zip(given, texts, strict=True)):
            if is_missing(value) or text == "" or (all_numbers and math.isnan(numbers[text] or 0.0)):
                raise InvalidInput(f"{self._place(row, column)}: the label is missing")
        whole = {text: int(text.partition(".")[0]) for text in numbers if WHOLE.fullmatch(text) and len(text) < 1000}
        first: dict[int, str] = {}
        for text, number in whole.items():
            alike = first.setdefault(number, text)
            if alike != text:
                where = self._place(texts.index(text), column)
                raise InvalidInput(f"{where}: the labels {alike!r} and {text!r} are one number; name the classes")
        if len(whole) == len(numbers) and all(abs(number) < 2**63 for number in whole.values()):
            return np.array([whole[text] for text in texts])
        if all_numbers and len(whole) < len(numbers) and not any(map(LEADING_ZERO.match, numbers)):
            row = next(row for row, text in enumerate(texts) if text not in whole)
            raise InvalidInput(
                f"{self._place(row, column)}: {given[row]!r} is not a label where labels are not all "
                "whole numbers; name the classes"
            )
        return np.array(texts)

    @contextmanager
    def counted_here(self) -> Iterator[None]:
        """Inside `with`, a message that counts rows from the first one here says so."""
        try:
            yield
        except InvalidInput as error:
            where = f"{self.source}, counted from row {self.first_row}" if self.first_row else self.source
            raise InvalidInput(f"{where}: {error.message}", argument=error.argument, way_out=error.way_out) from None

    def _place(self, row: int, column: str) -> str:
        return self.cells(column).place(row)

    def column(self, name: str, argument: str = "drop") -> Text | npt.NDArray[Any]:
        """The values of a column that an argument names, or InvalidInput with the columns that there are."""
        if name not in self.columns:
            raise InvalidInput(
                f"{self.source} has no column {name!r}; it has {some_of(list(self.columns))}",
                argument=argument,
                way_out=f"name one of them with {argument}=",
            )
        return self.columns[name]


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
    """Labels that are whole numbers as integers, if they are kept as doubles."""
    whole = (np.abs(values) < 2**53).all() and (values == np.rint(values)).all()
    return values.astype(np.int64) if whole else values


def _plain(values: list[str], decimal: str) -> list[Any]:
    """Text as numbers, if all of it is written as they are; empty cells are missing then."""
    texts = values if decimal == "." else [value.translate({ord(","): ".", ord("."): ","}) for value in values]
    kinds: tuple[Callable[[str], Any], ...] = (int, float)
    for kind in kinds:
        with suppress(ValueError):
            numbers = [kind(text) if text else None for text in texts]
            if all(
                text in (str(number), "") or f"{text}.0" == str(number)
                for text, number in zip(texts, numbers, strict=True)
            ):
                small = all(number is None or abs(number) < 2**63 for number in numbers) or kind is float
                return numbers if small else values
    return list(values)


def _as_label(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else str(value)
