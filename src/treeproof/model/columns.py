"""The columns of the rows that a model takes, and rows in the user's own values.

Engines work on doubles only. A category column whose values are text, or anything but numbers that the model compares
itself, is coded: 0, 1, 2, … for its values in their order, one more for a value that the model never saw in training,
NaN for a missing one. Where a model compares the numbers of a category column itself, rows hold these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.fields_only import FieldsOnly
from treeproof.numbers.doubles import LARGEST, FloatArray


class CodedRows(npt.NDArray[np.float64] if TYPE_CHECKING else np.ndarray):  # type: ignore[misc]
    """Rows as a model has them, with codes for categories: what files and other rows of a model are made into.

    An array of a user holds what the source model takes for it: values. Objects are values, whoever made them.
    """


UNSEEN = "(never seen)"
"""How a value that the model never saw in training is shown."""

MOST_NAMED = 8
"""The number of values that a message names."""


@dataclass(frozen=True)
class Category(FieldsOnly):
    """The values of a category column that a model knows, and how rows spell them."""

    values: tuple[Any, ...]
    coded: bool = True
    """Whether rows hold codes; otherwise the values are numbers, and rows hold these."""
    unseen: bool = False
    """Whether the model takes values that it never saw in training."""
    dtype: str = "object"
    """Of the column in a data frame that the model takes: "object", "category", "bool" or another name of pandas.

    "category of int8" is one of categories that have a type of their own, where the model insists on it.
    """
    by_text: bool = False
    """Whether the model goes by the text of a value, so that 5 is "5"."""
    missing: tuple[str, ...] = ("none", "nan", "na")
    """The kinds of missing values that are one: None, NaN, pandas' NA. Another is like a value never seen before."""
    numbers: Literal["codes", "values", "refused"] = "codes"
    """What the model takes numbers of an array for: codes, as libraries do for categories of pandas, or values.

    An encoder that knows text only fails at a column of numbers, in frames, too.
    """

    def __post_init__(self) -> None:
        # Text and numbers of NumPy are equal to Python's, but look otherwise.
        object.__setattr__(self, "values", tuple(map(_plain, self.values)))

    @property
    def blank(self) -> float | None:
        """What a table has for a missing value."""
        return None if "none" in self.missing[:1] else math.nan

    @property
    def n_codes(self) -> int:
        """The number of codes."""
        return len(self.values) + self.unseen

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {text_of(value) if self.by_text else value: code for code, value in enumerate(self.values)}

    def code_of(self, value: Any) -> float:
        """The code of a value: NaN for a missing one, -1 for one that the model does not take."""
        kind = _kind_of_missing(value)
        if kind in self.missing:
            return math.nan
        if kind in ("na", "nat"):
            return -1.0  # nobody knows what the model makes of it
        try:
            code = self._codes.get(text_of(value) if self.by_text else value)
        except TypeError:  # something that has no hash is nothing that a model was trained on
            code = None
        if code is not None:
            return float(code)
        if self.by_text and not (isinstance(value, (str, int, np.integer)) and text_of(value) is not None):
            return -1.0  # which text it would have been in training is anyone's guess
        return float(len(self.values)) if self.unseen else -1.0

    def known_double(self, value: Any) -> float | None:
        """What rows hold for a value that the model knows; None for any other."""
        if not self.coded:
            return float(value) if value in self.values else None
        code = self.code_of(value)
        return code if 0 <= code < len(self.values) else None

    def double_of(self, value: Any, name: str) -> float:
        """What rows hold for a value of the column `name`; InvalidInput if the model does not know it."""
        number = self.known_double(value)
        if number is None:
            raise InvalidInput(f"column {name}: {unknown_value(self, value)}")
        return number

    def value_of(self, number: float) -> Any:
        """The value that a double of a row stands for; None for a missing one."""
        if math.isnan(number):
            return None
        if not self.coded:
            return number
        return self.values[int(number)] if number < len(self.values) else UNSEEN

    def known(self) -> FloatArray:
        """What rows hold for the values that the model knows, in rising order."""
        return np.arange(len(self.values), dtype=np.float64) if self.coded else np.sort(np.array(self.values, float))


@dataclass(frozen=True)
class Column:
    """A column of the rows that a model takes: how it is called, and what it may hold."""

    name: str | None = None
    """None where the model has no names."""
    low: float = -LARGEST
    high: float = LARGEST
    """What rows hold lies between; beyond it, the library's cast would overflow."""
    missing: bool = False
    """Whether it may be missing."""
    category: Category | None = None
    """Its values, if it is no column of numbers."""
    refused: tuple[str, ...] = ()
    """The types of columns for which the source model computes otherwise than for doubles."""

    @property
    def kind(self) -> Literal["number", "category"]:
        """What it holds."""
        return "category" if self.category else "number"

    @property
    def values(self) -> tuple[Any, ...]:
        """Those of a category that the model knows."""
        return self.category.values if self.category else ()

    def doubles(self, cells: Cells) -> FloatArray:
        """What rows hold for the values that a door hands over; InvalidInput names the first that is not taken."""
        if self.refused and not {cells.dtype, cells.dtype.lower()}.isdisjoint(self.refused):
            raise InvalidInput(
                f"{cells.column} is of type {cells.dtype}, and the steps before the model would compute with that; "
                "pass doubles, X.astype(float), to the pipeline and to treeproof"
            )
        category = self.category
        if category is None:
            return cells.numbers()
        if not category.coded:
            numbers = cells.exact_numbers()
            known = category.unseen | np.isin(numbers, category.values) | np.isnan(numbers)
            for row in np.flatnonzero(~known)[:1].tolist():
                raise InvalidInput(f"{cells.place(row)}: {unknown_value(category, float(numbers[row]))}")
            return numbers
        if cells.are_numbers and category.numbers == "refused":
            raise InvalidInput(f"{cells.column} holds numbers, and the model knows text there: {some_of(self.values)}")
        # Libraries that have categories of pandas make numbers of whatever an array of objects holds.
        if cells.in_array and category.numbers == "codes" and (cells.are_numbers or category.dtype[:8] == "category"):
            return cells.numbers()
        codes = cells.by_value(cells.coder(category))
        for row in np.flatnonzero(codes == -1.0)[:1].tolist():
            raise InvalidInput(f"{cells.place(row)}: {unknown_value(category, cells.value(row))}")
        return codes


class Cells:
    """The values of one column as somebody hands them over: here, of a frame, an array or a list."""

    def __init__(self, values: Any, called: str, dtype: Any = None) -> None:
        """`called` is the column's name, or its position; `dtype` its type if the values do not say."""
        self.values, self.called, self._dtype = values, called, dtype
        self.column, self.in_array = f"column {called}", isinstance(values, np.ndarray)
        # What treeproof hands out as objects are values, and no codes.
        self.in_array &= not (isinstance(values, CodedRows) and values.dtype == object)

    @property
    def dtype(self) -> str:
        """The type that the source model would see."""
        return str(getattr(self.values, "dtype", "object") if self._dtype is None else self._dtype)

    @property
    def are_numbers(self) -> bool:
        """Whether it is a column of nothing but numbers."""
        return getattr(getattr(self.values, "dtype", None), "kind", "O") in "fiub"

    def place(self, row: int) -> str:
        """Where a value stands, for messages."""
        return f"row {row}, {self.column}"

    def value(self, row: int) -> Any:
        """One of the values."""
        return _plain(self.values.iloc[row] if hasattr(self.values, "iloc") else self.values[row])

    def coder(self, category: Category) -> Callable[[Any], float]:
        """What rows hold for a value of a category, -1 for one that the model does not take."""
        # CatBoost makes text of whole numbers, and takes no others.
        numbers = (float,) if category.by_text else ()
        return lambda value: -1.0 if isinstance(value, numbers) and value == value else category.code_of(value)

    def is_exactly(self, value: Any, number: float) -> bool:
        """Whether a value is a number, and not another one that is rounded to it."""
        return isinstance(value, (float, np.floating)) or int(value) == int(number)

    def number(self, value: Any) -> float | None:
        """The double of one of them, None if it is no number."""
        return as_double(value)

    def refuse_number(self, row: int) -> NoReturn:
        """Raises InvalidInput for the value of a row."""
        raise InvalidInput(f"{self.place(row)}: {self.value(row)!r} is not a number, and the model takes numbers there")

    def numbers(self) -> FloatArray:
        """The numbers that they are, missing ones as NaN."""
        values, dtype = self.values, getattr(self.values, "dtype", None)
        kind = getattr(dtype, "kind", "O")
        if kind in "mM" and len(values):
            self.refuse_number(0)
        if kind in "fiub" and isinstance(dtype, np.dtype):
            return np.asarray(values, dtype=np.float64)
        if kind in "fiub" and getattr(dtype, "_is_numeric", False):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=math.nan))
        given = values.tolist() if hasattr(values, "tolist") else list(values)
        if set(map(type, given)) <= {float, int, bool}:
            with suppress(OverflowError):
                return np.array(given, dtype=np.float64)
        numbers = [self.number(value) for value in given]
        if None in numbers:
            self.refuse_number(numbers.index(None))
        return np.array(numbers, dtype=np.float64)

    def exact_numbers(self) -> FloatArray:
        """Those of a category that is compared by them: whole ones that are no doubles would be taken for others."""
        numbers = self.numbers()
        for row in np.flatnonzero(np.abs(numbers) >= 2**53).tolist():
            value = self.value(row)
            if not self.is_exactly(value, numbers[row]):
                raise InvalidInput(f"{self.place(row)}: {value!r} is a category, but no double; encode it as text")
        return numbers

    def split(self) -> Iterable[list[Any]]:
        """The values, some after the other."""
        return [self.values.tolist() if hasattr(self.values, "tolist") else list(self.values)]

    def by_value(self, code: Callable[[Any], float]) -> FloatArray:
        """A number for each value, asked once for each that is different."""
        own: Any = getattr(self.values, "cat", None)
        if hasattr(own, "codes"):
            found = np.array([code(value) for value in (*own.categories.tolist(), math.nan)])
            return np.asarray(found[np.asarray(own.codes)], dtype=np.float64)
        codes: dict[Any, float] = {}
        parts = [np.empty(0)]
        for values in self.split():
            # True and 1 are equal, and yet two values.
            keys = [value if isinstance(value, str) else (type(value), value) for value in values]
            key = None
            try:
                for key, value in dict(zip(keys, values, strict=True)).items():
                    if key not in codes:
                        codes[key] = code(value)
            except (InvalidInput, TypeError) as error:
                row = sum(map(len, parts)) + (keys.index(key) if key in keys else 0)
                raise InvalidInput(f"{self.place(row)}: {error}") from None
            parts.append(np.fromiter(map(codes.__getitem__, keys), np.float64, len(values)))
        return np.concatenate(parts)


def renamed(columns: Sequence[Column], names: Sequence[str] | None) -> tuple[Column, ...]:
    """The columns with other names, or without."""
    called: Sequence[str | None] = [None] * len(columns) if names is None else names
    return tuple(replace(column, name=name) for column, name in zip(columns, called, strict=True))


Categories: TypeAlias = Sequence[tuple[int, Category]]
"""The features that are categories."""

_NUMBERS = ("codes", "values", "refused")
_FLAGS = ("coded", "unseen", "by_text")
_FIELDS = {"values": list, **dict.fromkeys(_FLAGS, bool), "dtype": str, "missing": list}


def plain_category(value: Any, feature: int) -> Any:
    """The value of a category, or InvalidInput if JSON lacks its type."""
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (str, bool, int, float)):
        raise InvalidInput(f"feature {feature} has the category {value!r}, a {type(value).__name__}, which JSON lacks")
    return plain


def category_to_json(
    category: Category, feature: int, plain: Callable[[Any, int], Any] = plain_category
) -> dict[str, Any]:
    """A category as files hold it; `plain` is what JSON has for a value."""
    said = {name: kind(getattr(category, name)) for name, kind in _FIELDS.items()}
    takes = {} if category.numbers == "codes" else {"numbers": category.numbers}
    return said | {"values": [plain(value, feature) for value in category.values]} | takes


def category_from_json(content: Any, feature: Any) -> Category:
    """The inverse, or InvalidInput."""
    if not isinstance(content, dict) or set(content) - {"numbers"} != set(_FIELDS):
        raise InvalidInput(f"a category must be an object with {', '.join(_FIELDS)}")
    wrong = any(type(content[name]) is not kind for name, kind in _FIELDS.items())
    values, missing = content["values"], content["missing"]
    if wrong or not all(isinstance(k, str) for k in missing) or content.get("numbers", "codes") not in _NUMBERS:
        raise InvalidInput(f"the category of feature {feature} has a field of the wrong type")
    if not all(isinstance(value, (str, bool, int, float)) for value in values):
        raise InvalidInput(f"feature {feature} has a category that is neither text nor a number nor true nor false")
    if not content["coded"] and any(isinstance(value, (str, bool)) for value in values):
        raise InvalidInput(f"feature {feature} has no codes, so its categories must be numbers")
    return Category(**content | {"missing": tuple(missing)})


def _plain(value: Any) -> Any:
    is_plain = isinstance(value, (np.str_, np.number, np.bool_)) and not isinstance(value, np.timedelta64)
    return value.item() if is_plain else value


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or one of pandas' own kinds of missing."""
    return _kind_of_missing(value) is not None


def _kind_of_missing(value: Any) -> str | None:
    if value is None:
        return "none"
    if type(value).__name__ in ("NaTType", "datetime64", "timedelta64"):
        return "nat" if bool(value != value) else None  # no model takes it for a number that is missing
    try:
        return "nan" if bool(value != value) else None
    except (TypeError, ValueError):  # pandas' NA, which is neither equal nor different; arrays
        return "na" if type(value).__name__ == "NAType" else None


def text_of(value: Any) -> str | None:
    """The text of a value that a model knows by its text: that of whole numbers has no point; None for other things."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):  # CatBoost fails at others
        return str(int(value)) if -(2**63) <= value < 2**63 else None
    whole = isinstance(value, (np.integer, np.bool_)) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if whole else None


def unknown_value(category: Category, value: Any) -> str:
    """What is said of a value that the model does not know."""
    return f"the model does not know the value {value!r}; it knows {some_of(category.values)}"


def some_of(known: Sequence[Any], near: Sequence[Any] = ()) -> str:
    """The names or values that are near, or else the first ones, and how many more there are, for messages."""
    shown = near or known[:MOST_NAMED]
    more = f" and {len(known) - len(shown)} more" if len(known) > len(shown) else ""
    return ", ".join(map(repr, shown)) + more


def in_own_values(rows: FloatArray, categories: Categories) -> npt.NDArray[Any]:
    """Rows (…, n_features) in the user's own values: the same array where nothing is coded, else one of objects."""
    if not any(category.coded for _, category in categories):
        return rows
    own = rows.astype(object)
    for f, category in categories:
        if category.coded:
            own[..., f] = given_values(category, rows[..., f])
    return own.view(CodedRows)


def given_values(category: Category, numbers: FloatArray) -> npt.NDArray[Any]:
    """The values that doubles of rows stand for, as objects, with the missing ones as the model takes them."""
    values, flat = np.empty(numbers.shape, dtype=object), numbers.reshape(-1).tolist()
    values.reshape(-1)[:] = [category.blank if math.isnan(number) else category.value_of(number) for number in flat]
    return values


def as_frame(rows: FloatArray, names: Sequence[Any], categories: Categories) -> Any:
    """The pandas data frame with these rows that a model takes: numbers as doubles, categories as they were."""
    import pandas as pd

    columns: dict[int, Any] = {f: rows[:, f] for f in range(rows.shape[1])}
    for f, category in categories:
        values = given_values(category, rows[:, f]).tolist()
        if category.dtype.startswith("category"):
            # A value never seen is one of the column's own categories, but none that the model knows.
            own = list(category.values) + ([UNSEEN] if UNSEEN in values else [])
            own_type = category.dtype.partition(" of ")[2] or None
            columns[f] = pd.Categorical(values, categories=pd.Index(own, dtype=own_type))
        elif category.dtype == "bool" and np.isnan(rows[:, f]).any():
            columns[f] = pd.array(values, dtype="boolean")
        elif UNSEEN in values:
            # No column of dates, say, can hold it.
            columns[f] = pd.Series(values, dtype=object)
        else:
            columns[f] = pd.Series(values, dtype=category.dtype)
    frame = pd.DataFrame(columns)
    frame.columns = pd.Index(list(names))
    return frame


def changed_frame(given: Any, rows: FloatArray, moved: npt.NDArray[np.bool_], categories: Categories) -> Any:
    """A user's data frame with what these rows have where they `moved`; everything else stays as it was given."""
    import pandas as pd

    frame, known = given.copy(), dict(categories)
    for f in np.flatnonzero(moved.any(axis=0)).tolist():
        column, there = given.iloc[:, f], moved[:, f]
        if f not in known:
            frame.isetitem(f, pd.Series(_changed_numbers(column, there, rows[there, f], str(f)), index=given.index))
            continue
        own = given_values(known[f], rows[there, f]).tolist()
        there_are = [value for value in own if not is_missing(value)]
        changed = column.astype(object)
        changed[there] = own
        if isinstance(column.dtype, pd.CategoricalDtype):
            all_values = list(dict.fromkeys([*column.cat.categories, *there_are]))
            changed = changed.astype(pd.CategoricalDtype(all_values, ordered=column.cat.ordered))
        elif column.dtype == bool:
            changed = changed.astype(bool if len(there_are) == len(own) else "boolean")
        frame.isetitem(f, changed)
    return frame


def _changed_numbers(column: Any, there: npt.NDArray[np.bool_], new: FloatArray, name: str) -> npt.NDArray[Any]:
    """A column with new numbers in some places: of its own type if that holds them all exactly, else of doubles."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "fiu":
        with np.errstate(over="ignore", invalid="ignore"):
            own = new.astype(dtype)
        if np.array_equal(own.astype(np.float64), new, equal_nan=True):
            values: npt.NDArray[Any] = np.array(column)  # never the user's own memory
            values[there] = own
            return values
    doubles: FloatArray = as_doubles(column, name).copy()
    doubles[there] = new
    return doubles


def check_names_differ(names: Sequence[str]) -> None:
    """Refuses columns of one name: moves and reports could mean either."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidInput(f"two features are named {twice!r}; rename one")


def as_double(value: Any) -> float | None:
    """The double of a number, NaN of None; None of anything else: text, bytes, dates, pandas' NA, what overflows."""
    if value is None:
        return math.nan
    if isinstance(value, np.timedelta64) or not isinstance(value, (Real, np.bool_, Decimal)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def as_doubles(column: Any, name: str) -> FloatArray:
    """A column of numbers, missing ones as NaN; InvalidInput names the first value that is none."""
    return Cells(column, name).numbers()
