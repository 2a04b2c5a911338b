"""One column of a file, as columns of a model take it: by what it writes, and by what pandas would read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import islice
from typing import Any, NoReturn

import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.columns import Category, Cells, as_double, is_missing
from treeproof.model.written import Known, number_of_text
from treeproof.numbers.doubles import FloatArray
from treeproof.tables.text import Text

DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
"""What looks like a number with a decimal comma."""

WHOLE_TEXT = re.compile(r"[+-]?\d+", re.ASCII)
"""What a data frame reads as a whole number."""


class FileCells(Cells):
    """The values of a column of a file: text, of which a model's column says what it means, or values with a type."""

    def __init__(self, values: Text | npt.NDArray[Any], called: str, source: str, first_row: int, decimal: str) -> None:
        """`first_row` is the number in the file of the first one here."""
        super().__init__(values, called)
        self.column, self.in_array = f"{source}, column {called}", False  # files never hold codes
        self._source, self._first_row, self._decimal = source, first_row, decimal

    @property
    def dtype(self) -> str:
        """What a data frame that was read from the file would have as the type of the column."""
        values = self.values.tolist()
        if isinstance(self.values, Text):
            is_bool = all(value in ("True", "TRUE", "true", "False", "FALSE", "false") for value in values)
            return "bool" if is_bool else "int64" if all(map(WHOLE_TEXT.fullmatch, values)) else "float64"
        is_gap = self.values.dtype.kind == "O" and all(value is None or type(value) in (int, float) for value in values)
        return "float64" if is_gap else str(self.values.dtype)

    def place(self, row: int) -> str:
        """Where a value stands in the file."""
        return f"{self._source}, row {self._first_row + row}, column {self.called}"

    def value(self, row: int) -> Any:
        """One of the values."""
        return next(islice(self.values, row, None))

    def split(self) -> Iterable[list[Any]]:
        """The values, block by block."""
        return self.values.split() if isinstance(self.values, Text) else super().split()

    def check_kind(self, kinds: str, what: str) -> None:
        """Refuses values of a type that is none of these."""
        if not isinstance(self.values, Text) and self.values.dtype.kind not in kinds:
            raise InvalidInput(f"{self.column}: {self.values.dtype} is not a type of {what}")

    def by_value(self, code: Callable[[Any], float]) -> FloatArray:
        """A number for each value, asked once for each that is different."""
        self.check_kind("biufOU", "categories")
        return super().by_value(code)

    def coder(self, category: Category) -> Callable[[Any], float]:
        """What rows hold for a value: of text, what it writes; of other values, what a frame's do."""
        known, of_frames = Known(category.values, self._decimal), super().coder(category)

        def code(value: Any) -> float:
            if is_missing(value):
                return self._code_of_gap(of_frames)
            if not isinstance(value, str):
                return of_frames(value)
            place = known.place(value)
            if place is not None:
                return float(place)
            if isinstance(self.values, Text) and known.is_missing(value):  # only a text file has words for that
                return of_frames(math.nan)
            return category.code_of(value) if known.may_be(value) else -1.0

        return code

    def _code_of_gap(self, of_frames: Callable[[Any], float]) -> float:
        is_blank = not isinstance(self.values, Text) and all(map(is_missing, self.values))
        if is_blank and len({of_frames(None), of_frames(math.nan)}) > 1:
            raise InvalidInput("nothing but missing values, and the model tells None from NaN; pass a data frame")
        return of_frames(self._missing)

    @cached_property
    def _missing(self) -> float | None:
        """What pandas has for a missing value: None beside truth values and, before version 3, beside text."""
        if any(isinstance(value, bool) for value in self.values):
            return None
        try:
            import pandas as pd
        except ImportError:
            return math.nan
        old = int(pd.__version__.partition(".")[0]) < 3
        return None if old and any(isinstance(value, str) for value in self.values) else math.nan

    def is_exactly(self, value: Any, number: float) -> bool:
        """Whether a value is a number, and not another one that is rounded to it."""
        return Known([number], self._decimal).place_of(value) == 0

    def numbers(self) -> FloatArray:
        """The numbers that are written, missing ones as NaN."""
        if isinstance(self.values, Text):
            doubles = self.values.doubles(self._decimal)
            if isinstance(doubles, int):
                self.refuse_number(doubles)
            return doubles
        self.check_kind("biufOU", "numbers")
        return super().numbers()

    def number(self, value: Any) -> float | None:
        """The double of one of them, None if it is no number."""
        return number_of_text(value, self._decimal) if isinstance(value, str) else as_double(value)

    def refuse_number(self, row: int) -> NoReturn:
        """Raises InvalidInput for the value of a row."""
        value = self.value(row)
        what = f"{self.place(row)}: {value!r} is not a number"
        if self._decimal == "." and isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
            way_out = 'if it is one with a decimal comma, say so with decimal=","'
            raise InvalidInput(what, argument="decimal", way_out=way_out)
        raise InvalidInput(what, argument="values", way_out="give the numbers that the model was trained on")
