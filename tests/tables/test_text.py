"""Text of files: what it means is what the model's own library makes of it, or a refusal by name."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.commands import run
from treeproof.model.written import Known
from treeproof.tables.csv_files import CsvStyle
from treeproof.tables.readers import read_table
from treeproof.tables.table import Table

pd = pytest.importorskip("pandas")

HOSTILE = [
    "1234", "01234", " 1234", "1234 ", "1234.0", "12_34", "1.234e3", "+1234", "１２３４", "1.1", "1.10", "1.100",
    "12345678901234567", "12345678901234568", "1e400", "-0", "0x10", "a", "a ", " a", "A", "none", "True", "x,y",
    'say "x"', "two\nlines", "2024-01-31", "=1+1", "0", "é",
]  # fmt: skip
NUMBERS = ["1", " 2", "3.5 ", "-.5", "1.", "1e3", "1E-3", "+4", "007", "9007199254740993", "inf", "-Infinity", "1e400"]
NO_NUMBERS = ["1_0", "１", "0x10", "1e", "--1", "1 2", "1,5", "١", "2024-01-31", "b'1'", "1d3", "infin", "1\u00a0", "."]


def text_model(known: list[str]) -> Any:
    """A tree that tells all of these words apart, and from all others."""
    frame = pd.DataFrame({"code": known * 2}, dtype=object)
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(encoder, DecisionTreeClassifier(random_state=0)).fit(frame, [f"={word}" for word in known] * 2)


def written(frame: Any, path: Path) -> Path:
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        getattr(frame, "to_parquet" if path.suffix == ".parquet" else "to_feather")(path)
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
@pytest.mark.parametrize("known", [["1234", "a", "1.1"], ["12345678901234567", "none", "1.10"], HOSTILE])
def test_text_is_never_taken_for_other_text(ending: str, known: list[str], tmp_path: Path) -> None:
    model = text_model(known)
    frame = pd.DataFrame({"code": HOSTILE}, dtype=object)
    table = read_table(written(frame, tmp_path / f"d.{ending}"))
    ensemble = tp.from_model(model)
    rows = table.rows(ensemble)
    assert ensemble.classes[ensemble.predict_index(rows)].tolist() == model.predict(frame).tolist()
    assert ensemble.predict(frame).tolist() == model.predict(frame).tolist()


def test_whole_numbers_of_any_size_are_categories_exactly() -> None:
    known = [1, 2, 2**53, 2**53 + 1, 10**30]
    place = Known(known).place
    assert [place(str(number)) for number in known] == [0, 1, 2, 3, 4]
    assert [place(text) for text in ("1.0", "01", " 2 ", "2e0", "1e30")] == [0, 0, 1, 1, 4]
    assert [place(text) for text in (str(2**53 + 2), "1_0", "1.5", "one", "", "1e100000000")] == [None] * 6
    assert Known([float(2**53)]).place(str(2**53 + 1)) is None
    assert [Known([False, True]).place(text) for text in ("True", "FALSE", "1", "0.0", "2", "NA")] == [
        1,
        0,
        1,
        0,
        None,
        None,
    ]
    with pytest.raises(tp.InvalidInput, match="'1' may mean '1' or 1"):
        Known(["1", 1]).place("1")


def test_a_category_of_numbers_takes_numbers_only(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2, 3] * 4})
    model = make_pipeline(OneHotEncoder(), DecisionTreeClassifier(random_state=0)).fit(frame, ["a", "b", "c"] * 4)
    ensemble = tp.from_model(model)
    (tmp_path / "d.csv").write_text("n\n1\n2.0\n 3\n")
    assert read_table(tmp_path / "d.csv").rows(ensemble)[:, 0].tolist() == [0, 1, 2]
    for text in ("4", "1_0", "one", "1.5"):
        (tmp_path / "d.csv").write_text(f"n\n1\n{text}\n")
        with pytest.raises(tp.InvalidInput, match=rf"row 1, column 'n'.* '{text}'; it knows 1, 2, 3"):
            read_table(tmp_path / "d.csv").rows(ensemble)


def test_numbers_have_one_grammar(tmp_path: Path) -> None:
    model = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))

    def doubles(texts: list[str]) -> list[float]:
        (tmp_path / "d.csv").write_text("v\n" + "".join(f'"{text}"\n' for text in texts), encoding="utf-8")
        return read_table(tmp_path / "d.csv").numbers(["v"])[:, 0].tolist()

    assert doubles(NUMBERS) == [float(text) for text in NUMBERS]
    for text in NO_NUMBERS:
        assert pd.to_numeric(pd.Series([text]), errors="coerce").isna().all() or text in ("1_0", "1\u00a0")
        with pytest.raises(tp.InvalidInput, match="row 2, column 'v': .* is not a number"):
            doubles(["1", "2", text])
    for value in ("1_0", b"1", pd.Timestamp("2024-01-31"), np.datetime64("2024-01-31"), np.timedelta64(1), [1], "1"):
        column = np.empty(2, dtype=object)
        column[:] = [1.0, value]
        for rows in (pd.DataFrame({"v": column}), column[:, None], [[1.0], [value]]):
            with pytest.raises(tp.InvalidInput, match="row 1, column 0: .* is not a number|X has shape|only numbers"):
                model.predict(rows)
    for rows in (np.array([["1"], ["0"]]), np.array([[b"1"]]), pd.DataFrame({"v": pd.to_datetime(["2024-01-31"])})):
        with pytest.raises(tp.InvalidInput, match="row 0, column 0: .* is not a number"):
            model.predict(rows)
    assert model.predict(pd.DataFrame({"v": [Decimal("0.7"), True]}, dtype=object)).tolist() == [1, 1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("classes", [["1e2", "100"], ["1", "1.0"], ["1.1", "1.10"], ["True", "1"], ["none", "nan"]])
def test_classes_that_look_alike_are_told_apart(ending: str, classes: list[str], tmp_path: Path) -> None:
    ensemble = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], classes))
    frame = pd.DataFrame({"x": [0.0, 1.0, 0.0], "label": [*classes, classes[0]]})
    labels = read_table(written(frame, tmp_path / f"d.{ending}")).labels("label", ensemble)
    assert labels.tolist() == frame["label"].tolist()


def test_labels_that_are_one_number_are_no_two_classes(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x,label\n0,1\n1,1.0\n")
    with pytest.raises(tp.InvalidInput, match=r"row 1, column 'label': the labels '1' and '1.0' are one number"):
        read_table(tmp_path / "d.csv").labels("label")
    (tmp_path / "d.csv").write_text("x,label\n0,01\n1,1x\n")
    assert read_table(tmp_path / "d.csv").labels("label").tolist() == ["01", "1x"]
    (tmp_path / "d.csv").write_text(f"x,label\n0,{2**70}\n1,2\n")
    assert read_table(tmp_path / "d.csv").labels("label").tolist() == [str(2**70), "2"]


def test_an_open_quote_is_refused_by_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tp.save_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]), "m.json")
    Path("good.csv").write_text("x,label\n" + "0,0\n1,1\n" * 20)
    Path("open.csv").write_text("x,label\n0,0\n" + '1,"1\n' + "0,0\n" * 500)
    for command in (
        ["verify", "m.json", "open.csv", "--delta", "0.1"],
        ["verify", "m.json", "open.csv", "--delta", "0.1", "--out", "parts", "--chunk-rows", "1"],
        ["verify", "m.json", "good.csv", "--delta", "0.1", "--relative", "--ranges", "open.csv"],
        ["guard", "m.json", "open.csv", "--delta", "0.1", "--out", "o.csv"],
        ["guard", "m.json", "open.csv", "--delta", "0.1", "--out", "o/", "--chunk-rows", "1"],
        ["explain", "m.json", "open.csv", "--domain", "0:1"],
        ["map", "m.json", "--delta", "0.1", "--out", "m.tpm", "--data", "open.csv"],
        ["suggest", "open.csv"],
        ["train", "open.csv", "--delta", "0.1", "--out", "t.json"],
    ):
        code, _, err = run(capsys, *command)
        assert code == 2 and "open.csv is not a CSV file: a quote is never closed" in err, command
    assert not Path("o.csv").exists()


def test_empty_cells_of_one_column_are_rows(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("v\n1\n\n2\n\n")
    np.testing.assert_array_equal(read_table(tmp_path / "d.csv").numbers(["v"])[:, 0], [1, np.nan, 2, np.nan])
    (tmp_path / "d.csv").write_text("v,w\n1,2\n\n3,4\n\n")
    assert read_table(tmp_path / "d.csv").numbers(["v", "w"]).tolist() == [[1, 2], [3, 4]]


def test_parquet_keeps_whole_numbers_beside_missing_ones(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    large = pd.DataFrame({"n": pd.array([2**53 + 1, None], dtype="Int64"), "d": [Decimal("1.5"), None]})
    table = read_table(written(large, tmp_path / "d.parquet"))
    assert table.columns["n"].tolist() == [2**53 + 1, None]
    np.testing.assert_array_equal(table.numbers(["n", "d"]), [[2**53, 1.5], [np.nan, np.nan]])


def test_what_is_missing_in_a_file(tmp_path: Path) -> None:
    words = ["", "NA", "NaN", "None", "null", "none", "?", "na", "Null"]
    known, knows_none = (tp.from_model(text_model([*more, np.nan])) for more in (["a"], ["a", "none", "None"]))  # type: ignore[list-item]
    (tmp_path / "d.csv").write_text("code\n" + "".join(f'"{word}"\n' for word in words))
    table = read_table(tmp_path / "d.csv")
    # What pandas reads as missing is; other text is a value that was never seen.
    assert np.isnan(table.rows(known)[:, 0]).tolist() == pd.read_csv(tmp_path / "d.csv").code.isna().tolist()
    assert np.isnan(table.rows(knows_none)[:, 0]).tolist() == [word in ("", "NA", "NaN", "null") for word in words]
    assert table.own_columns()["code"].tolist() == [None] * 5 + ["none", "?", "na", "Null"]


def guarded(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, *more: str) -> bytes:
    tp.save_model(DecisionTreeClassifier().fit(pd.DataFrame({"x": [0.0, 1.0]}), ["no", "yes"]), tmp_path / "m.json")
    (tmp_path / "d.csv").write_bytes(content)
    out = tmp_path / "o.csv"
    files = [str(tmp_path / "m.json"), str(tmp_path / "d.csv"), "--out", str(out)]
    assert run(capsys, "guard", *files, "--delta", "x=0.1", *more)[0] == 0
    return out.read_bytes()


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_the_guard_adds_a_column_to_untouched_text(
    ends: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['id,"version",x,note', '1234567890123456789,1.10,0,"a"', "007, 1.0 ,1.0,é", '+1,"x""y",1,"two\nlines"']
    text = ends.join([*lines, ""]).encode()
    answers = ["prediction", "no", "yes", "yes"]
    wanted = ends.join([f"{line},{answer}" for line, answer in zip(lines, answers, strict=True)] + [""]).encode()
    assert guarded(tmp_path, capsys, text) == wanted
    assert guarded(tmp_path, capsys, text.removesuffix(ends.encode())) == wanted
    # Only a record that a spreadsheet would run is written anew.
    formula = text.replace(b"007", b"=1+1")
    assert guarded(tmp_path, capsys, formula).count(b"'=1+1") == 1
    assert guarded(tmp_path, capsys, formula, "--raw-csv") == wanted.replace(b"007", b"=1+1")


def test_guards_write_the_same_with_other_styles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = b"x;price\n0;1,10\n1;2,50\n"
    assert guarded(tmp_path, capsys, text, "--decimal", ",") == b"x;price;prediction\n0;1,10;no\n1;2,50;yes\n"
    assert guarded(tmp_path, capsys, b"x\n0\n1\n") == b"x,prediction\n0,no\n1,yes\n"


def test_decimal_commas_have_the_same_grammar() -> None:
    from treeproof.tables.text import Text

    table = Table("d.csv", {"v": Text.of([["1,5", "1.5"], ["1_0"]])}, True, decimal=CsvStyle.of(";", ",").decimal)
    with pytest.raises(tp.InvalidInput, match=r"row 1, column 'v': '1.5' is not a number"):
        table.numbers(["v"])


def test_libsvm_has_the_same_numbers(tmp_path: Path) -> None:
    (tmp_path / "d.libsvm").write_text("1 1:1.5 # a_comment\n0 1:10\n")
    assert read_table(tmp_path / "d.libsvm").numbers(["0"])[:, 0].tolist() == [1.5, 10.0]
    for line in ("1 1:1_0\n", "1_0 1:1\n"):
        (tmp_path / "d.libsvm").write_text(f"1 1:1.5\n{line}")
        with pytest.raises(tp.InvalidInput, match="not a LIBSVM file: a number has an underscore"):
            read_table(tmp_path / "d.libsvm")


def test_dates_and_bytes_are_no_numbers_and_no_categories(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    ensemble = tp.from_model(text_model(["a", "b"]))
    numbers = tp.from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]))
    for column in (
        pd.to_datetime(["2024-01-31"]),
        pd.Series([b"a"]),
        pd.Series([["a"]]),
        pd.to_timedelta([1], unit="s"),
    ):
        table = read_table(written(pd.DataFrame({"code": column}), tmp_path / "d.parquet"))
        with pytest.raises(tp.InvalidInput, match="is not a (type of )?numbers?"):
            table.rows(numbers)
        if column.dtype != object or not isinstance(column[0], bytes):
            with pytest.raises(tp.InvalidInput, match="column 'code'.*(not a type of categories|unhashable)"):
                table.rows(ensemble)


def test_a_large_exponent_takes_no_time() -> None:
    assert Known([1, 2]).place("1e100000000") is None
    assert Known([1, 2]).place("1e-99999999999999999999") is None


def test_classes_are_named_as_labels_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tp.save_model(DecisionTreeClassifier().fit([[0.0], [1.0]], ["1.1", "1.10"]), "m.json")
    Path("d.csv").write_text("x,label\n0,1.1\n1,1.10\n")
    for goal, said in (("1.10", "'1.10'"), ("1.1", "'1.1'")):
        code, out, _ = run(capsys, "verify", "m.json", "d.csv", "--delta", "0.6", "--goal", goal, "--json", "r.json")
        assert code == 0 and tp.Verification.from_json("r.json").attacker.goal == (goal,), (said, out)
    code, _, err = run(capsys, "verify", "m.json", "d.csv", "--delta", "0.6", "--goal", "1.100")
    assert code == 2 and "the model has no class '1.100'; it has 1.1, 1.10" in err
