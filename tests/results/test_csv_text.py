"""No cell of a CSV file becomes a formula or a line of its own."""

from __future__ import annotations

import csv
import io

import pytest

from treeproof.results.csv_text import as_csv


@pytest.mark.parametrize("cell", ["=1", "+x", "-x", "@x", "\tx", "\rx", "\nx", " =1", "＝1", "-1-1", "=-1.5"])
def test_no_text_is_a_formula(cell: str) -> None:
    assert next(csv.reader(io.StringIO(as_csv([[cell]]), newline=""))) == ["'" + cell]
    assert next(csv.reader(io.StringIO(as_csv([[cell]], raw=True), newline=""))) == [cell]


def test_no_character_in_a_cell_begins_a_new_line() -> None:
    cells = ["a\r=1", "b\n=1", 'c"\r\n=1', "d,=1"]
    assert list(csv.reader(io.StringIO(as_csv([cells, cells]), newline=""))) == [cells, cells]


@pytest.mark.parametrize("cell", ["-1.5", "+2e3", -1.5, -3, "a=b", "", "x-1", None])
def test_numbers_and_other_text_stay_as_they_are(cell: object) -> None:
    assert as_csv([[cell, 1]]) == as_csv([[cell, 1]], raw=True)
