"""Chunks: together they are the table, each row once, wherever it is read and whatever was done before."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from treeproof.tables.chunks import Chunk, Place, RowFiles

pytest.importorskip("pyarrow")

FRAME = pd.DataFrame({"a.b": np.arange(50.0), "a": np.arange(50) * 2, "text": [f"row {i}" for i in range(50)]})


def written(folder: Path, ending: str, group: int = 7) -> str:
    path = folder / f"d.{ending}"
    if ending == "parquet":
        FRAME.to_parquet(path, row_group_size=group)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if "tsv" in ending else ",")
    return str(path)


def rows_of(chunk: Chunk) -> list[float]:
    table, _ = pickle.loads(pickle.dumps(chunk)).load()
    numbers: list[float] = table.numbers(["a.b"])[:, 0].tolist()
    assert table.first_row == chunk.first_row == numbers[0]
    return numbers


@pytest.mark.parametrize("ending", ["csv", "tsv", "tsv.gz", "parquet"])
@pytest.mark.parametrize("size", [1, 5, 7, 8, 50, 51])
def test_every_row_is_in_one_chunk(ending: str, size: int, tmp_path: Path) -> None:
    files = RowFiles(written(tmp_path, ending), size)
    chunks = list(files.chunks(lambda _: False))
    assert [value for chunk in chunks for value in rows_of(chunk)] == FRAME["a.b"].tolist()
    assert [chunk.place for chunk in chunks] == [Place(0, i) for i in range(len(chunks))]
    assert all(len(rows_of(chunk)) <= size for chunk in chunks)
    # Where a row group is one chunk, whoever needs it reads it.
    assert all((chunk.rows is None) == (ending == "parquet" and (size >= 7 or chunk.group == 7)) for chunk in chunks)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("size", [3, 7])
def test_chunks_that_are_done_are_left_out_and_the_others_stay_as_they_are(
    ending: str, size: int, tmp_path: Path
) -> None:
    files = RowFiles(written(tmp_path, ending), size)
    every = {chunk.place: rows_of(chunk) for chunk in files.chunks(lambda _: False)}
    done = {place for place in every if place.chunk % 3 == 1 or place.chunk < 4}
    left = {chunk.place: rows_of(chunk) for chunk in files.chunks(done.__contains__)}
    assert left == {place: rows for place, rows in every.items() if place not in done}


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    files = RowFiles(written(tmp_path, "parquet"), 7)
    files.columns = ("a.b",)
    table, rows = next(files.chunks(lambda _: False)).load()
    assert list(table.columns) == ["a.b"] and rows.column_names == ["a.b"]


def test_a_file_that_goes_away_is_one_line(tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        path = written(tmp_path, ending)
        files = RowFiles(path, 7)
        chunk = next(files.chunks(lambda _: False))
        Path(path).unlink()
        with pytest.raises(tp.InvalidInput, match=f"cannot read .*d.{ending}: No such file"):
            list(files.chunks(lambda _: False))
        if ending == "parquet":
            with pytest.raises(tp.InvalidInput, match="cannot read .*d.parquet: No such file"):
                chunk.load()


def test_a_name_with_brackets_is_a_file_before_it_is_a_pattern(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "d[1].csv", index=False)
    FRAME.to_csv(tmp_path / "d1.csv", index=False)
    assert RowFiles(tmp_path / "d[1].csv").names == [str(tmp_path / "d[1].csv")]
    assert RowFiles(str(tmp_path / "*1*.csv")).names == [str(tmp_path / "d1.csv"), str(tmp_path / "d[1].csv")]
