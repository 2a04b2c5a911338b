"""Data files: the same rows from every format, and one line for everything that is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.tables import csv_files
from treeproof.tables.csv_files import CsvStyle
from treeproof.tables.readers import read_table
from treeproof.tables.table import Table

X = np.array([[0.1, 2.0], [np.nextafter(0.1, 1), -3.5], [1e-300, 7.0], [0.25, 0.0]])
Y = np.array([0, 1, 1, 0])


def model(names: list[str] | None = None, labels: np.ndarray = Y) -> tp.Ensemble:
    rows = X if names is None else pd.DataFrame(X, columns=names)
    return tp.from_model(DecisionTreeClassifier(random_state=0).fit(rows, labels))


def write(path: Path) -> Path:
    frame = pd.DataFrame(X, columns=["age", "income"]).assign(label=Y)
    if path.suffix == ".npz":
        np.savez(path, X=X, y=Y, feature_names=np.array(["age", "income"]))
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".libsvm":
        dump_svmlight_file(X, Y, str(path), zero_based=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npz", ".parquet", ".libsvm"])
def test_every_format_gives_the_same_doubles(suffix: str, tmp_path: Path) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    table = read_table(write(tmp_path / f"data{suffix}"))
    rows = table.rows(model(), leave_out=("label",))
    # LIBSVM files written by scikit-learn have 16 digits.
    np.testing.assert_array_equal(rows, X) if suffix != ".libsvm" else np.testing.assert_allclose(rows, X, rtol=1e-15)
    assert table.labels("label", model()).tolist() == Y.tolist()


def test_columns_are_found_by_name_in_any_order_among_others(tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": list("abcd"), "income": X[:, 1], "label": Y, "age": X[:, 0]})
    frame.to_csv(tmp_path / "d.csv", index=False)
    table = read_table(tmp_path / "d.csv")
    np.testing.assert_array_equal(table.rows(model(["age", "income"]), ("label",)), X)
    with pytest.raises(tp.InvalidInput, match="3 feature columns, but the model takes 2.*drop="):
        table.rows(model(), ("label",))
    np.testing.assert_array_equal(table.rows(model(), ("label", "id")), X[:, ::-1])


def test_names_that_a_library_made_up_are_places(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "d.csv"))
    np.testing.assert_array_equal(table.rows(model(["f0", "f1"]), ("label",)), X)
    with pytest.raises(tp.InvalidInput, match="no column 'height', which the model was trained with"):
        table.rows(model(["height", "width"]), ("label",))


def test_labels_are_those_of_the_model_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,y\n0,0,1.0\n0,0, 0\n")
    assert read_table(tmp_path / "d.csv").labels("y", model()).tolist() == [1, 0]
    (tmp_path / "t.csv").write_text("a,b,y\n0,0,good\n0,0,bad\n")
    table = read_table(tmp_path / "t.csv")
    assert table.labels("y", model(labels=np.array(["bad", "good", "bad", "bad"]))).tolist() == ["good", "bad"]
    with pytest.raises(tp.InvalidInput, match=r"row 0, column 'y'.*'good'.*predicts 0, 1"):
        table.labels("y", model())


def test_labels_that_are_true_or_false(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,y\n0,0,True\n0,0,False\n")
    table = read_table(tmp_path / "d.csv")
    assert table.labels("y", model()).tolist() == [1, 0]
    assert table.labels("y", model(labels=Y == 1)).tolist() == [True, False]
    with pytest.raises(tp.InvalidInput, match="does not know the label 'True'; it predicts 2, 3"):
        table.labels("y", model(labels=Y + 2))


def test_a_row_without_a_label(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,y\n0,0,1\n0,0,\n")
    with pytest.raises(tp.InvalidInput, match=r"row 1, column 'y': the label is missing"):
        read_table(tmp_path / "d.csv").labels("y", model())


def test_missing_values_become_nan(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\n1,\nNA,2\n?,3\n")
    rows = read_table(tmp_path / "d.csv").rows(model())
    np.testing.assert_array_equal(rows, [[1, np.nan], [np.nan, 2], [np.nan, 3]])


def test_truth_is_one_and_zero(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b\nTrue,true\nFalse,\n1,FALSE\n")
    np.testing.assert_array_equal(read_table(tmp_path / "d.csv").rows(model()), [[1, 1], [0, np.nan], [1, 0]])


@pytest.mark.parametrize("separator", [";", "|", "tab", "\\t"])
def test_separators_and_decimal_commas(separator: str, tmp_path: Path) -> None:
    written = "\t" if separator in ("tab", "\\t") else separator
    text = written.join("ab") + "\n" + "".join(f"{one}{written}-2,5\n" for one in ("0,1", "1e-3", "NA", "True"))
    (tmp_path / "d.csv").write_text(text)
    rows = read_table(tmp_path / "d.csv", style=CsvStyle.of(separator, ",")).rows(model())
    np.testing.assert_array_equal(rows, [[0.1, -2.5], [1e-3, -2.5], [np.nan, -2.5], [1, -2.5]])


def test_decimal_commas_go_with_semicolons_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a;b\n0,1;2\n")
    (tmp_path / "d.tsv").write_text("a\tb\n0,1\t2\n")
    for name in ("d.csv", "d.tsv"):
        assert read_table(tmp_path / name, style=CsvStyle.of(None, ",")).rows(model()).tolist() == [[0.1, 2]]


def test_a_point_is_no_part_of_a_number_with_decimal_commas(tmp_path: Path) -> None:
    """1.234 may be one thousand two hundred and thirty-four."""
    for values in ("1.234\n5.678", "1.234\nNA"):
        (tmp_path / "d.csv").write_text("a;b\n" + "".join(f"{value};1\n" for value in values.split("\n")))
        with pytest.raises(tp.InvalidInput, match=r"row 0, column 'a': '1.234' is not a number"):
            read_table(tmp_path / "d.csv", style=CsvStyle.of(None, ",")).rows(model())


@pytest.mark.parametrize(
    ("separator", "decimal", "message"),
    [
        ("", ".", "must be one character, such as ';' or tab, got ''"),
        (";;", ".", "must be one character, such as ';' or tab, got ';;'"),
        ("\n", ".", "must be one character"),
        (3, ".", "must be one character, .* got 3"),
        (";", ":", "must be a point or a comma, got ':'"),
        (",", ",", "',' cannot both separate values and stand before decimals"),
    ],
)
def test_styles_that_nobody_can_read_are_refused(separator: Any, decimal: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        CsvStyle.of(separator, decimal)


@pytest.mark.parametrize("first", [0, 1])
def test_numbered_columns_go_by_their_numbers(first: int, tmp_path: Path) -> None:
    names = [f"x{i + first}" for i in range(12)]
    frame = pd.DataFrame([range(12)], columns=names).assign(label=0)
    clf = DecisionTreeClassifier(random_state=0).fit(np.arange(48).reshape(4, 12), Y)
    frame[["label", *sorted(names)]].to_csv(tmp_path / "d.csv", index=False)  # x10 comes before x2
    matched = read_table(tmp_path / "d.csv").matched(tp.from_model(clf), "label")
    assert matched.by_number and matched.columns == names and matched.ensemble.feature_names == tuple(names)
    frame.rename(columns={names[3]: "x99"}).to_csv(tmp_path / "d.csv", index=False)
    matched = read_table(tmp_path / "d.csv").matched(tp.from_model(clf), "label")
    assert matched.by_position and not matched.by_number and matched.columns[3] == "x99"


def test_the_way_out_of_text_depends_on_who_needs_the_column(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("age,income,label\n1,low,0\n")
    table = read_table(tmp_path / "d.csv")
    with pytest.raises(tp.InvalidInput, match="'low' is not a number; give the numbers that the model was trained on$"):
        table.model_rows(model(["age", "income"]), ["age", "income"])
    with pytest.raises(tp.InvalidInput, match="'low' is not a number; name the label .* not features with drop=$"):
        table.features(("label",))


def test_long_files_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", 3)
    values = np.random.default_rng(0).normal(size=(10, 2))
    pd.DataFrame(values, columns=["a", "b"]).to_csv(tmp_path / "d.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "d.csv").rows(model()), values)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 5 + "x,2\n")
    with pytest.raises(tp.InvalidInput, match=r"row 5, column 'a': 'x' is not a number"):
        read_table(tmp_path / "t.csv").rows(model())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "cannot read .*missing.csv: No such file"),
        ("data.xls", b"a", "not a data file that treeproof reads: .csv"),
        ("empty.csv", b"", "has no rows"),
        ("head.csv", b"a,b\n", "has no rows"),
        ("ragged.csv", b"a,b\n1,2\n3\n", "line 3: 1 values in a table of 2 columns"),
        (
            "semicolons.csv",
            b"a;b\n1;2\n",
            "commas between values, but seems to have semicolons; say so with separator=';'",
        ),
        ("tabs.csv", b"a\tb\n1\t2\n", r"seems to have tabs; say so with separator='\\t'"),
        ("commas.tsv", b"a,b\n1,2\n", "was read with tabs between values, but seems to have commas"),
        (
            "decimals.csv",
            b'a,b\n1,"2,5"\n',
            "row 0, column 'b': '2,5' is not a number; if .* decimal comma, .*decimal=",
        ),
        ("twice.csv", b"a,a\n1,2\n", "two columns named 'a'; rename one"),
        ("binary.csv", b"\xff\xfe\x00\x01", "not a text file in UTF-8"),
        ("nul.csv", b"a,b\n1,\0\n", "CSV|not a number"),
        ("bad.npz", b"PK\x03\x04", "not an .npz file"),
        ("text.csv.gz", b"a,b\n1,2\n", "text.csv.gz cannot be unpacked: Not a gzipped file"),
        ("text.csv.xz", b"a,b\n1,2\n", "text.csv.xz cannot be unpacked"),
        ("text.csv.bz2", b"a,b\n1,2\n", "cannot read .*text.csv.bz2: Invalid data stream"),
        ("cut.csv.bz2", bz2.compress(b"a,b\n1,2\n")[:20], "cut.csv.bz2 cannot be unpacked: .* ended before"),
        ("packed.npz.gz", b"", "not a data file that treeproof reads: .*, or .csv and .tsv packed as .gz, .bz2, .xz"),
        ("bad.parquet", b"PAR1", "Parquet"),
        ("bad.libsvm", b"a b c", "not a LIBSVM file"),
    ],
)
def test_bad_files_are_refused_in_one_line(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(tp.InvalidInput, match=message) as caught:
        read_table(tmp_path / name).rows(model())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("pack", [gzip, bz2, lzma])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_packed_text_is_read_as_if_it_were_not(pack: Any, ending: str, tmp_path: Path) -> None:
    text = b"a,b\n" + b"1,2.5\n" * 100
    packed = tmp_path / f"d.{ending}.{ {gzip: 'gz', bz2: 'bz2', lzma: 'xz'}[pack] }"
    packed.write_bytes(pack.compress(text if ending == "csv" else text.replace(b",", b"\t")))
    np.testing.assert_array_equal(read_table(packed).rows(model()), [[1, 2.5]] * 100)
    with pytest.raises(tp.InvalidInput, match="max_bytes"):
        read_table(packed, max_bytes=800)


def test_types_of_parquet_columns(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "narrow": np.array([0.1, 2, np.nan], dtype=np.float32),
            "truth": pd.array([True, None, False], dtype="boolean"),
            "category": pd.Categorical(["b", None, "a"]),
            "date": pd.to_datetime(["2024-01-01"] * 3),
        },
        index=pd.Index([5, 6, 7], name="key"),
    )
    frame.to_parquet(tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet")
    assert list(table.columns) == list(frame.columns)
    numbers = table.numbers(["whole", "narrow", "truth"])
    np.testing.assert_array_equal(numbers, [[1, np.float32(0.1), 1], [np.nan, 2, np.nan], [3, np.nan, 0]])
    assert table.columns["category"].tolist() == ["b", None, "a"]
    with pytest.raises(tp.InvalidInput, match=r"row 1, column 'category': the label is missing"):
        table.labels("category")
    with pytest.raises(tp.InvalidInput, match="column 'date': datetime64.* is not a type of numbers"):
        table.numbers(["date"])


def test_a_label_column_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match=r"no column 'class'; it has 'age', 'income', 'label'"):
        read_table(write(tmp_path / "d.csv")).labels("class", model())


def test_labels_of_mixed_types_are_text_in_training_and_lists_are_none() -> None:
    def labels(*values: object) -> np.ndarray:
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return Table("d.parquet", {"y": column}, True).labels("y")

    assert labels("a", 1.0, 2, True).tolist() == ["a", "1", "2", "True"]
    assert labels(1, 2.0, "3").tolist() == [1, 2, 3]
    for missing in (None, np.nan, "", pd.NA):
        with pytest.raises(tp.InvalidInput, match="d.parquet, row 1, column 'y': the label is missing"):
            labels("a", missing)
    with pytest.raises(tp.InvalidInput, match=r"row 1, column 'y': \[1\] is not a label"):
        labels("a", [1])


def test_arrays_with_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.array([[object()]]))
    with pytest.raises(tp.InvalidInput, match="plain arrays"):
        read_table(tmp_path / "d.npz")


def test_columns_are_those_of_a_data_frame(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,b,c,d,e\n1,x,007, 2,True\n?,NA,010,3,False\n")
    own = read_table(tmp_path / "d.csv").own_columns(("e",))
    assert {name: column.tolist() for name, column in own.items() if name != "a"} == {
        "b": ["x", None],
        "c": ["007", "010"],
        "d": [2.0, 3.0],
    }
    np.testing.assert_array_equal(own["a"], [1.0, np.nan])
    assert read_table(tmp_path / "d.csv").own_columns()["e"].tolist() == [1.0, 0.0]
