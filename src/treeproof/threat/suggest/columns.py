"""What the columns of a table hold: numbers, on which grid and in which range, or categories; and which are ids."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.columns import as_doubles, is_missing
from treeproof.numbers.doubles import FloatArray

MAX_PLACES = 4
"""Decimals of a grid; what has more is taken for measured."""
FEW_ROWS = 20
"""With fewer, numbers of a column of floats may be whole by accident."""
FEW_VALUES = 50
"""Columns with no more values can be told value by value."""
CALLED_ID = re.compile(r"(?:^|[\W_])(?:id|ID|Id|key|uuid)$|[a-z](?:ID|Id)$")
"""How the names of ids end."""
MOSTLY = 0.9
"""The share of different values that ids have at least."""
SAMPLE_ROWS = 4000
"""Rows in which candidates are looked for; what is found is counted in all rows."""
ACCIDENT = 14.0
"""An accident is ruled out if the logarithm of its chance is below the negative of this: one in a million."""


@dataclass(frozen=True, eq=False)
class SeenColumn:
    """A column of a table, as numbers: of a category, the positions in `values`; NaN where it is missing."""

    key: str | int
    """Its name, or its position if it has none."""
    numbers: FloatArray
    values: tuple[Any, ...] | None = None
    """Those of a category, in order; None for a column of numbers."""
    whole_type: bool = False
    """Whether its type holds whole numbers only."""
    is_group: bool = False
    """Whether it stands for a one-hot group, whose columns are the values; one number more stands for none of them."""

    @property
    def is_category(self) -> bool:
        """Whether it is a category."""
        return self.values is not None

    @cached_property
    def present(self) -> npt.NDArray[np.bool_]:
        """(n_rows,) whether there is a value."""
        return ~np.isnan(self.numbers)

    @cached_property
    def n_present(self) -> int:
        """The number of rows with a value."""
        return int(self.present.sum())

    @property
    def n_missing(self) -> int:
        """The number of rows without one."""
        return len(self.numbers) - self.n_present

    @cached_property
    def _distinct(self) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        levels, counts = np.unique(self.numbers[self.present], return_counts=True)
        return levels, counts

    @property
    def levels(self) -> FloatArray:
        """The different numbers, rising."""
        return self._distinct[0]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often each of the levels occurs."""
        return self._distinct[1]

    @cached_property
    def level(self) -> npt.NDArray[np.intp]:
        """(n_rows,) the position of each number among the levels; where it is missing, the number of levels."""
        return np.searchsorted(self.levels, self.numbers)

    @property
    def is_constant(self) -> bool:
        """Whether there are no two different values."""
        return len(self.levels) < 2

    @property
    def low(self) -> float:
        """The least number."""
        return float(self.levels[0]) if len(self.levels) else math.nan

    @property
    def high(self) -> float:
        """The largest number."""
        return float(self.levels[-1]) if len(self.levels) else math.nan

    @property
    def is_binary(self) -> bool:
        """Whether it is a column of numbers that holds 0 and 1, and nothing else."""
        return not self.is_category and self.levels.tolist() == [0.0, 1.0]

    @cached_property
    def _grid(self) -> tuple[Fraction, int] | None:
        trusted = not self.is_category and (self.whole_type or self.n_present >= FEW_ROWS)
        return _grid_of(self.levels) if trusted else None

    @property
    def step(self) -> Fraction | None:
        """The distance of the grid on which all numbers lie, if they do and it is no accident."""
        return None if self._grid is None else self._grid[0]

    @property
    def places(self) -> int:
        """The decimals of the numbers of a column with a step."""
        return 0 if self._grid is None else self._grid[1]

    @cached_property
    def is_id(self) -> bool:
        """Whether it seems to tell rows apart and nothing else: no value occurs twice where some should.

        Of a column that is called so, some may.
        """
        n = self.n_present
        if n < FEW_ROWS or len(self.levels) < n * MOSTLY:
            return False
        if CALLED_ID.search(str(self.key)) and (self.is_category or self.step is not None):
            return True
        if len(self.levels) < n:
            return False
        if self.is_category:
            return True
        # Among so many numbers drawn from so few, some would be equal.
        return self.step is not None and n * (n - 1) / 2 * float(self.step) / (self.high - self.low) >= ACCIDENT

    def value_of(self, number: float) -> Any:
        """What the number stands for; None where it is none of the columns of a group."""
        if self.values is None:
            return number
        return self.values[int(number)] if number < len(self.values) else None


def _grid_of(levels: FloatArray) -> tuple[Fraction, int] | None:
    """The step of the grid that these numbers lie on, and their decimals."""
    if len(levels) < 2 or not np.isfinite(levels).all():
        return None
    for places in range(MAX_PLACES + 1):
        unit = 10**places
        counted = np.rint(levels * unit)
        if np.abs(counted).max() >= 2**53:
            return None
        # The quotient is rounded correctly, so it is the double that the decimal reads as.
        if (counted / unit == levels).all():
            apart = int(np.gcd.reduce(np.diff(counted).astype(np.int64)))
            # By accident, each further value is a multiple of `apart` once in so many times.
            if (len(levels) - 1) * math.log(apart) < ACCIDENT:
                apart = 1
            return Fraction(apart, unit), places
    return None


@dataclass(frozen=True, eq=False)
class SeenTable:
    """The columns of a table, and which rows are in which half."""

    columns: list[SeenColumn]
    unread: list[str]
    """Columns that hold neither numbers nor categories, in words."""
    n_rows: int

    @cached_property
    def first_half(self) -> npt.NDArray[np.bool_]:
        """(n_rows,) a random half of the rows, always the same one."""
        order = np.random.default_rng(0).permutation(self.n_rows)
        return order < self.n_rows // 2

    @cached_property
    def sample(self) -> npt.NDArray[np.intp]:
        """Rows of the first half in which candidates are looked for."""
        rows = np.flatnonzero(self.first_half)
        if len(rows) > SAMPLE_ROWS:
            rows = np.sort(np.random.default_rng(1).choice(rows, SAMPLE_ROWS, replace=False))
        return rows

    def sampled(self, columns: Iterable[SeenColumn]) -> FloatArray:
        """The sampled rows of these columns, side by side."""
        parts = [column.numbers[self.sample] for column in columns]
        return np.stack(parts, axis=1) if parts else np.empty((len(self.sample), 0))


def read_columns(X: Any) -> SeenTable:
    """The columns of a data frame, of an array, or of `{name: values}`."""
    named = list(_columns_of(X))
    keys = [key for key, _ in named]
    for key in keys:
        if keys.count(key) > 1:
            raise InvalidInput(f"two columns are named {key!r}; rename one")
    lengths = {len(column) for _, column in named}
    if len(lengths) != 1 or not max(lengths):
        raise InvalidInput("expected a table with rows and columns; there is nothing to learn from an empty one")
    columns, unread = [], []
    for key, column in named:
        seen = _read(key, column)
        if seen is None:
            unread.append(f"column {key} holds neither numbers nor categories, and is left out")
        else:
            columns.append(seen)
    return SeenTable(columns, unread, lengths.pop())


def _columns_of(X: Any) -> Iterable[tuple[str | int, Any]]:
    if isinstance(X, Mapping):
        columns = [column if hasattr(column, "dtype") else np.asarray(column) for column in X.values()]
        return list(zip(_keys(X), columns, strict=True))
    if hasattr(X, "columns"):
        columns = [X.iloc[:, f] if hasattr(X, "iloc") else X[name] for f, name in enumerate(X.columns)]
        return list(zip(_keys(X.columns), columns, strict=True))
    rows = X if hasattr(X, "ndim") else np.asarray(X)
    if rows.ndim != 2:
        raise InvalidInput(
            f"expected rows and columns, got {rows.ndim} dimension{'s' * (rows.ndim != 1)}; give a data frame"
        )
    return [(f, rows[:, f]) for f in range(rows.shape[1])]


def _keys(names: Iterable[Any]) -> list[str | int]:
    return [name if isinstance(name, str) else f for f, name in enumerate(names)]


def _read(key: str | int, column: Any) -> SeenColumn | None:
    """The column, or None if it holds something else than numbers and categories."""
    try:
        return _as_seen(key, column)
    except (InvalidInput, TypeError, ValueError, OverflowError):
        return None


def _as_seen(key: str | int, column: Any) -> SeenColumn:
    dtype = getattr(column, "dtype", None)
    kind = dtype.kind if isinstance(dtype, np.dtype) else ""
    if kind in "biuf" and kind:
        return SeenColumn(key, np.asarray(column, dtype=np.float64), whole_type=kind in "biu")
    if kind and kind not in "OUS":
        raise TypeError
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    is_category = getattr(column, "cat", None) is not None or any(isinstance(value, str) for value in values)
    if not is_category:
        whole = all(isinstance(value, (int, np.integer)) or is_missing(value) for value in values)
        numbers = as_doubles([None if is_missing(value) else value for value in values], str(key))
        return SeenColumn(key, numbers, whole_type=whole)
    seen: dict[Any, int] = {}
    codes = np.array([seen.setdefault(value, len(seen)) for value in values], dtype=np.intp)
    known = [value for value in seen if not is_missing(value)]
    if not all(isinstance(value, (str, bool, int, float)) for value in known):
        raise TypeError
    known.sort(key=lambda value: (type(value).__name__, value))
    place = {value: float(i) for i, value in enumerate(known)}
    numbers = np.array([math.nan if is_missing(value) else place[value] for value in seen])
    return SeenColumn(key, numbers[codes], tuple(known))
