"""The command line as somebody with credit data meets it: files as they are, and messages that lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeproof as tp
from tests.support.commands import run

NAMES = ["duration", "amount", "rate", "telephone", "foreign"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models with and without names, and their rows in several spellings; they are in `frame.pkl` as they were."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "duration": rng.integers(4, 60, n),
            "amount": rng.integers(250, 18_000, n),
            "rate": rng.integers(2, 9, n) / 2,
            "telephone": rng.random(n) < 0.4,
            "foreign": rng.random(n) < 0.9,
        }
    )
    score = frame.amount / 200 + frame.duration + 10 * frame.telephone + rng.normal(0, 9, n)
    risk = np.where(score > 90, "bad", "good")
    numbers = frame.astype(float)
    forest = RandomForestClassifier(7, max_depth=4, random_state=0)
    tp.save_model(forest.fit(numbers, risk), "named.json")
    tp.save_model(forest.fit(numbers.to_numpy(), risk), "nameless.json")
    labelled = frame.assign(risk=risk)
    labelled.to_csv("rows.csv", index=False)
    labelled[["risk", *NAMES[::-1]]].to_csv("other_order.csv", index=False)
    labelled.to_csv("german.csv", index=False, sep=";", decimal=",")
    labelled.to_csv("rows.tsv", index=False, sep="\t")
    return tmp_path


def verify(
    capsys: pytest.CaptureFixture[str], *arguments: Any, model: str = "named.json"
) -> tuple[str, tp.Verification]:
    """What is printed, and the result."""
    code, out, err = run(capsys, "verify", model, *arguments, "--label", "risk", "--jobs", "1", "--json", "r.json")
    assert code == 0, err
    return out, tp.Verification.from_json("r.json")


def truth(attacker: tp.Attacker, **more: Any) -> tp.Verification:
    rows = pd.read_csv("rows.csv")
    return tp.verify(tp.load_model("named.json"), rows[NAMES].astype(float), rows.risk, attacker, **more)


AMOUNT = tp.Attacker.linf(2000, features=["amount"])


@pytest.mark.parametrize(
    "data",
    [
        ["rows.csv"],
        ["rows.tsv"],
        ["other_order.csv"],
        ["german.csv", "--separator", ";", "--decimal", ","],
        ["german.csv", "--decimal", ","],
    ],
    ids=" ".join,
)
def test_the_same_rows_however_they_are_written(
    data: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, found = verify(capsys, *data, "--delta", "amount=2000")
    np.testing.assert_array_equal(found.X, truth(AMOUNT).X)
    np.testing.assert_array_equal(found.stability, truth(AMOUNT).stability)
    assert "attacker   may move amount by up to 2,000 either way\n" in out and "by position" not in out
    code, _, err = run(
        capsys, "verify", "named.json", *data, "--label", "risk", "--delta", "amount=2000", "--out", "o", "--jobs", "1"
    )
    assert code == 0, err
    parts = pd.concat(pd.read_csv(part) for part in sorted(Path("o").glob("part-*.csv")))
    assert parts.stability.tolist() == truth(AMOUNT).to_frame().stability.tolist()


@pytest.mark.parametrize("feature", ["amount", "1"])
def test_features_by_name_and_by_position(feature: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("named.json", "nameless.json"):
        attack = ["--delta", f"{feature}=2000", "--epsilon", f"{feature}=50"]
        out, found = verify(capsys, "rows.csv", *attack, model=model)
        expected = truth(AMOUNT, epsilon={"amount": 50.0})
        np.testing.assert_array_equal(found.stability, expected.stability)
        np.testing.assert_array_equal(found.resilience_by_epsilon, expected.resilience_by_epsilon)
        assert "may move amount by up to 2,000 either way" in out and "resilient, ε = amount 50 " in out
        said = (
            "columns    by position: the model does not name its features; the first is 'duration', the last 'foreign'"
        )
        assert (said in out) == (model == "nameless.json")
        _, found = verify(capsys, "rows.csv", "--delta", "2000", "--only", feature, model=model)
        np.testing.assert_array_equal(found.stability, expected.stability)
        _, found = verify(capsys, "rows.csv", "--norm", "1", "--radius", "1", "--scale", f"{feature}=9", model=model)
        assert found.attacker == tp.Attacker.lp(1, 1, scale={1 if feature == "1" else "amount": 9})


def test_a_column_whose_name_is_a_number_goes_by_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.read_csv("rows.csv").rename(columns={"foreign": "1"})
    rows.to_csv("numbered.csv", index=False)
    out, _ = verify(capsys, "numbered.csv", "--delta", "1=0.25", model="nameless.json")
    assert "may move 1 by up to 0.25 either way" in out


def test_numbered_columns_are_found_whatever_their_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.read_csv("rows.csv").rename(columns={name: f"f{i}" for i, name in enumerate(NAMES)})
    rows[["f4", "f1", "risk", "f0", "f3", "f2"]].to_csv("numbered.csv", index=False)
    out, found = verify(capsys, "numbered.csv", "--delta", "f1=2000", model="nameless.json")
    assert "columns    by their numbers: the model does not name its features" in out
    np.testing.assert_array_equal(found.stability, truth(AMOUNT).stability)


def test_fractions_are_said_in_the_units_of_each_column(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.read_csv("rows.csv")
    wide = rows.amount.max() - rows.amount.min()
    out, _ = verify(capsys, "rows.csv", "--delta", "amount=0.5,foreign=0.25", "--relative", "--epsilon", "amount=0.125")
    assert f"attacker   may move amount by up to {wide / 2:,.6g} and foreign by up to 0.25 either way" in out
    assert "(--delta amount=0.5,foreign=0.25 of each feature's range)" in out
    assert f"near       ε = amount 0.125 of the range: amount by up to {wide / 8:,.6g}\n" in out
    out, _ = verify(capsys, "rows.csv", "--delta", "1", "--epsilon", "0.5")
    assert "near       ε = 0.5: any feature by up to 0.5\n" in out


def test_a_map_of_rows_with_missing_cells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.read_csv("rows.csv")
    holed = rows.assign(amount=rows.amount.mask(rows.index < 4))
    model = HistGradientBoostingClassifier(max_iter=2, max_depth=2).fit(rows[NAMES].astype(float), rows.risk)
    tp.save_model(model, "missing.json")
    holed.to_csv("holed.csv", index=False)
    attack = ["--delta", "amount=200", "--data", "holed.csv", "--label", "risk", "--out", "m.tpm", "--jobs", "1"]
    code, out, err = run(capsys, "map", "missing.json", *attack)
    assert code == 0 and "missing    4 of 120 rows have missing cells; a map has no answer for them" in out, err
    assert "attacker   may move amount by up to 200 either way\n" in out and "stable     " in out
    for value in (np.nan, 7):
        holed.assign(rate=value).to_csv("holed.csv", index=False)
        code, out, err = run(capsys, "map", "missing.json", *attack)
        assert code == 0 and "stable     no rules: rate has no range in the data, and a box of it no volume" in out, err


@pytest.mark.parametrize("data", ["rows.csv", "german.csv"])
def test_a_guard_writes_what_the_name_says(data: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    style = ["--decimal", ","] if data == "german.csv" else []
    question = [
        "guard",
        "named.json",
        data,
        *style,
        "--label",
        "risk",
        "--delta",
        "amount=2000",
        "--jobs",
        "1",
        "--out",
    ]
    for out in ("g.csv", "g.tsv", "g.parquet", "parts/", "g"):
        code, printed, err = run(capsys, *question, out)
        assert code == 0 and "may move amount by up to 2,000 either way" in printed, err
    text = {"sep": ";", "decimal": ","} if style else {}
    tabs = {"sep": "\t"} | ({"decimal": ","} if style else {})
    part = str(next(Path("parts").glob("part-*.csv")))
    written = [
        pd.read_csv("g.csv", **text),
        pd.read_csv("g.tsv", **tabs),
        pd.read_csv(part, **text),
        pd.read_csv("g", **text),
    ]
    packed = pd.read_parquet("g.parquet")
    assert packed.telephone.tolist() == [str(one) for one in written[0].telephone]
    written.append(packed.assign(telephone=packed.telephone == "True", foreign=packed.foreign == "True"))
    proved = truth(AMOUNT).stability == tp.Outcome.PROVED
    for frame in written:
        pd.testing.assert_frame_equal(frame[[*NAMES, "risk"]], pd.read_csv("rows.csv"))
        assert (frame.prediction != "abstain").tolist() == proved.tolist()


def test_a_guard_keeps_the_types_of_parquet_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    rows = pd.read_csv("rows.csv").assign(since=pd.Timestamp("2020-02-02"))
    rows.to_parquet("rows.parquet")
    code, _, err = run(
        capsys, "guard", "named.json", "rows.parquet", "--label", "risk", "--delta", "amount=9", "--out", "g.parquet"
    )
    assert code == 0, err
    guarded = pd.read_parquet("g.parquet").drop(columns="prediction")
    pd.testing.assert_frame_equal(guarded, pd.read_parquet("rows.parquet"))


@pytest.mark.parametrize("command", ["verify", "guard", "map", "inspect", "check"])
def test_classes_are_renamed_wherever_a_model_is_loaded(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = ["--classes", "evil,fine"]
    rows = pd.read_csv("rows.csv").replace({"risk": {"bad": "evil", "good": "fine"}})
    rows.to_csv("renamed.csv", index=False)
    attack = ["--delta", "amount=2000", "--jobs", "1"]
    more = {
        "verify": ["renamed.csv", "--label", "risk", *attack, "--json", "r.json"],
        "guard": ["renamed.csv", "--label", "risk", *attack, "--out", "g.csv"],
        "map": [*attack, "--out", "m.tpm", "--max-boxes", "50"],
        "inspect": [],
        "check": ["r.json", "--sample", "5", "--no-proofs"],
    }
    if command == "check":
        assert run(capsys, "verify", "named.json", *renamed, *more["verify"])[0] == 0
    code, out, err = run(capsys, command, "named.json", *renamed, *more[command])
    assert code == 0, err
    if command in ("verify", "inspect"):
        assert "evil" in out and "bad" not in out
    if command == "guard":
        assert set(pd.read_csv("g.csv").prediction) <= {"evil", "fine", "abstain"}


ASK = ["verify", "named.json", "rows.csv", "--label", "risk"]
HINTS: list[tuple[str, list[str], str]] = [
    (
        "semicolons",
        ["verify", "named.json", "german.csv", "--label", "risk", "--delta", "1"],
        "german.csv was read with commas between values, but seems to have semicolons; say so with --separator",
    ),
    (
        "decimal commas",
        ["verify", "named.json", "german.csv", "--label", "risk", "--delta", "1", "--separator", ";"],
        r"column 'rate': '\d,\d' is not a number; if it is one with a decimal comma, say so with --decimal ,$",
    ),
    ("separator", [*ASK, "--delta", "1", "--separator", ";"], "read with semicolons between values, but .* commas"),
    ("no separator", [*ASK, "--delta", "1", "--separator", ""], "must be one character, such as ';' or tab, got ''"),
    (
        "label",
        ["verify", "named.json", "rows.csv", "--delta", "1"],
        "no column 'label'; .*; name one of them with --label",
    ),
    (
        "a column that the model needs",
        [*ASK, "--delta", "1", "--drop", "rate"],
        "rows.csv: the model was trained with 'rate', which can be neither the label nor dropped$",
    ),
    (
        "too few columns",
        ["verify", "nameless.json", "rows.csv", "--label", "risk", "--delta", "1", "--drop", "rate"],
        "rows.csv has 4 columns besides 'rate', 'risk', but the model takes 5; give the columns that it was",
    ),
    (
        "too many columns",
        ["verify", "nameless.json", "rows.csv", "--delta", "1"],
        "has 6 feature columns, but the model takes 5; name the label with --label and columns .* with --drop$",
    ),
    (
        "another spelling",
        ["verify", "named.json", "capital.csv", "--label", "risk", "--delta", "1"],
        "capital.csv has no column 'rate', which the model was trained with; it has 'duration', 'amount', 'Rate', ",
    ),
    (
        "text that the model needs",
        ["verify", "named.json", "text.csv", "--label", "risk", "--delta", "1"],
        "text.csv, row 3, column 'rate': 'low' is not a number; give the numbers that the model was trained on$",
    ),
    (
        "the same for a guard",
        ["guard", "named.json", "text.csv", "--label", "risk", "--delta", "1", "--out", "g.csv"],
        "^treeproof: text.csv, row 3, column 'rate': 'low' is not a number; give the numbers that",
    ),
    (
        "text to train on",
        ["train", "text.csv", "--label", "risk", "--delta", "1", "--out", "t.json"],
        "row 3, column 'rate': 'low' is not a number; name the label with --label and .* not features with --drop$",
    ),
    (
        "missing values",
        ["verify", "trained.json", "holed.csv", "--label", "risk", "--delta", "1"],
        "holed.csv: row 5, column 'rate' is NaN, but",
    ),
    ("a feature twice", [*ASK, "--delta", "amount=1,amount=2"], "--delta names amount twice; name it once"),
    ("two names", [*ASK, "--delta", "1=1,amount=2"], "features 1 and 'amount' are the same"),
    (
        "beside names",
        [*ASK, "--delta", "amount=1,2"],
        "--delta has '2' beside names; give one number for all, or name=",
    ),
    ("a position", [*ASK, "--delta", "5=1"], "feature 5 is out of range; the model has features 0 to 4"),
    (
        "csv",
        [*ASK, "--delta", "1", "--csv", "r.parquet"],
        "--csv does not write .parquet files, got r.parquet; end it in .csv",
    ),
    ("json", [*ASK, "--delta", "1", "--json", "r.csv"], "--json does not write .csv files"),
    ("proofs", [*ASK, "--delta", "1", "--proofs", "r.json"], "--proofs does not write .json files, .* end it in .tpp"),
    ("limit", [*ASK, "--delta", "1", "--proof-limit", "9"], "--proof-limit goes with --proofs, or with --part-proofs"),
    (
        "report",
        [*ASK, "--delta", "1", "--report", "r.pdf"],
        "--report does not write .pdf files, .* end it in .html or .htm",
    ),
    (
        "guard",
        ["guard", *ASK[1:], "--delta", "1", "--out", "g.xlsx"],
        "--out does not write .xlsx files, .*.csv or .tsv or .parquet",
    ),
    (
        "map",
        ["map", "named.json", "--delta", "1", "--out", "m.json"],
        "--out does not write .json files, .* end it in .tpm",
    ),
    (
        "train",
        ["train", "rows.csv", "--label", "risk", "--delta", "1", "--out", "m.onnx"],
        "--out does not write .onnx files",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), [case[1:] for case in HINTS], ids=[case[0] for case in HINTS])
def test_messages_lead_somewhere(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.read_csv("rows.csv")
    rows.assign(rate=rows.rate.astype(object).where(rows.index != 3, "low")).to_csv("text.csv", index=False)
    rows.assign(rate=rows.rate.mask(rows.index == 5)).to_csv("holed.csv", index=False)
    rows.rename(columns={"rate": "Rate"}).to_csv("capital.csv", index=False)
    content = json.loads(Path("named.json").read_text())
    Path("trained.json").write_text(
        json.dumps(content | {"columns": [column | {"missing": False} for column in content["columns"]]})
    )
    code, _, err = run(capsys, *arguments)
    said = [line for line in err.splitlines() if line.startswith("treeproof: ")]
    assert code == 2 and len(said) == 1
    assert re.search(message, said[0]), said[0]
