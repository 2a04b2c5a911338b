"""CSV that spreadsheets show and do not run."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

FORMULA = tuple("=+-@＝＋－＠")
"""What begins a formula in one spreadsheet or another."""


def as_csv(lines: Iterable[Sequence[Any]], raw: bool = False, separator: str = ",", decimal: str = ".") -> str:
    """The lines as CSV text. Unless `raw`, text that a spreadsheet would take for a formula has an apostrophe in front.

    >>> print(as_csv([["=1+1", "-x", "-1.5", -1.5, "1-1"]]), end="")
    '=1+1,'-x,-1.5,-1.5,1-1
    >>> print(as_csv([["=1+1", "-1,5", -1.5]], separator=";", decimal=","), end="")
    '=1+1;-1,5;-1,5
    """
    written: list[str] = []
    # Only characters that end a line are put in quotes, so both must; ours then end with one of them.
    ends = "\r\n"
    sink = SimpleNamespace(write=lambda line: written.append(line.removesuffix(ends) + "\n"))
    writer = csv.writer(sink, delimiter=separator, lineterminator=ends)
    for line in lines:
        cells = line if raw else [_no_formula(cell, decimal) for cell in line]
        writer.writerow(cells if decimal == "." else [_with_decimal(cell, decimal) for cell in cells])
    return "".join(written)


def _with_decimal(cell: Any, decimal: str) -> Any:
    return str(cell).replace(".", decimal) if isinstance(cell, float) else cell


def _no_formula(cell: Any, decimal: str) -> Any:
    if not isinstance(cell, str) or not (cell.lstrip().startswith(FORMULA) or cell.startswith(("\t", "\r", "\n"))):
        return cell
    try:
        float(cell.replace(decimal, "."))
    except ValueError:
        return f"'{cell}"
    return cell
