"""Results with one entry per row: tables of them for other programs, and their first lines for people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeproof.files import as_path, write_whole
from treeproof.results.csv_text import as_csv
from treeproof.results.markup import escape, table
from treeproof.visible import visible

MOST_LINES = 20
"""The most rows that are shown of many."""


def frame_or_rows(columns: dict[str, Any], index: Any = None) -> Any:
    """The columns as a pandas frame if pandas is there, else a list of rows, each a mapping."""
    try:
        import pandas as pd
    except ImportError:
        values = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns.values())
        return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
    return pd.DataFrame(columns, index=index)


class Tabled:
    """A result that is a table, too: `to_columns` says which."""

    def to_columns(self) -> dict[str, Any]:
        """The columns of a table with one line per row, without pandas."""
        raise NotImplementedError

    @property
    def row_names(self) -> Sequence[Any]:
        """What each row is called in the data frame; its place if there is none."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """A pandas data frame with one line per row, indexed like the frame that was given."""
        import pandas as pd

        return pd.DataFrame(self.to_columns(), index=self.row_names)

    def to_csv(self, path: str | os.PathLike[str], *, raw: bool = False) -> None:
        """Writes the same table as a CSV file, without pandas.

        Text that a spreadsheet would take for a formula has an apostrophe in front, unless `raw`.
        """
        columns = self._columns_of_files()
        write_whole(as_path(path), as_csv([list(columns), *zip(*columns.values(), strict=True)], raw))

    def _columns_of_files(self) -> dict[str, Any]:
        return self.to_columns()


class RowByRow(Tabled):
    """A result with something to say of each row, under the row's name."""

    each: tuple[Any, ...]

    @property
    def assumptions(self) -> list[str]:
        """What a reader must know to judge what is said, in sentences."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.each)

    def _columns_of_files(self) -> dict[str, Any]:
        return {"row": list(self.row_names), **self.to_columns()}

    def _first_rows(self) -> tuple[list[tuple[Any, Any]], str]:
        """The names of the first rows with what is said of them, and how many more there are."""
        shown = list(zip(self.row_names, self.each, strict=True))[:MOST_LINES]
        rest = len(self) - len(shown)
        return shown, f"and {rest:,} more rows" if rest else ""

    def __str__(self) -> str:
        """One line per row, and what they assume."""
        shown, rest = self._first_rows()
        lines = [f"row {visible(name)}: {one}" for name, one in shown]
        return "\n".join([*lines, *[rest] * bool(rest), *self.assumptions])

    def _in_html(self, title: str, what: str, besides: str = "") -> str:
        """What a notebook shows: a title, the sentences under the word for them, and what is assumed."""
        shown, rest = self._first_rows()
        lines = [title, table(["row", what], shown), f"<p>{rest}</p>" * bool(rest), besides]
        return "".join([*lines, *(f"<p>{escape(one)}</p>" for one in self.assumptions)])
