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


def appended(
    records: Iterable[str], lines: Iterable[Sequence[str]], raw: bool = False, separator: str = ",", decimal: str = "."
) -> str:
    """Records of a CSV file as they are, but for one more cell: the last one of each of these lines.

    Unless `raw`, a record with text that a spreadsheet would take for a formula is written anew.

    >>> appended(["id,v\\r\\n", '"01",1.10'], [("id", "v", "label"), ("01", "1.10", "=yes")])
    'id,v,label\\r\\n"01",1.10,\\'=yes\\r\\n'
    """
    written: list[str] = []
    ends, cells = "", {}
    for record, line in zip(records, lines, strict=True):
        body = record.removesuffix("\n").removesuffix("\r")
        ends = record[len(body) :] or ends or "\n"
        last = line[-1]
        if last not in cells:
            cells[last] = as_csv([[last]], raw, separator, decimal)[:-1]
        if not raw and any(_no_formula(cell, decimal) is not cell for cell in line[:-1]):
            written.append(as_csv([line], raw, separator, decimal)[:-1] + ends)
        else:
            written.append(f"{body}{separator}{cells[last]}{ends}")
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
