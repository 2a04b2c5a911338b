"""Commands on files larger than memory: what they write to a folder is what they write to a file, in parts."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeproof as tp
from tests.support.commands import run
from treeproof.run.parts import Parts

pytest.importorskip("pyarrow")

NAMES = ["age", "income", "debt", "years"]
VERIFY = ["verify", "model.json", "--label", "y", "--delta", "0.3", "--jobs", "1"]
GUARD = ["guard", "model.json", "--label", "y", "--delta", "0.3", "--jobs", "1", "--drop", "id"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, and its rows as one CSV file and as two Parquet files."""
    monkeypatch.chdir(tmp_path)
    X, y = make_classification(150, 4, n_informative=4, n_redundant=0, random_state=0)
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y, id=[f"=row {i}" for i in range(150)])
    tp.save_model(RandomForestClassifier(5, max_depth=4, random_state=0).fit(frame[NAMES], y), "model.json")
    frame.to_csv("rows.csv", index=False)
    Path("rows").mkdir()
    # Whole numbers that are missing now and then must not change the type of a column.
    typed = frame.assign(when=pd.Timestamp("2024-01-01"), count=pd.array([1, None, 3] * 50, dtype="Int64"))
    typed[:60].to_parquet("rows/a.parquet", row_group_size=50)
    typed[60:].set_index("when").to_parquet("rows/b.parquet")
    return tmp_path


def read(file: str | Path) -> pd.DataFrame:
    return pd.read_csv(file, float_precision="round_trip")


def parts(out: str) -> pd.DataFrame:
    files = sorted(Path(out).glob("part-*"))
    frames = [pd.read_parquet(file) if file.suffix == ".parquet" else read(file) for file in files]
    return pd.concat(frames, ignore_index=True)


# --- verify ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["rows.csv", "rows/*.parquet"])
def test_verify_prints_and_writes_what_it_does_without_parts(
    data: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, whole, _ = run(capsys, *VERIFY, "rows.csv", "--epsilon", "0.1,0.2", "--csv", "whole.csv")
    assert code == 0
    code, out, err = run(
        capsys, *VERIFY, data, "--epsilon", "0.1,0.2", "--out", "out", "--chunk-rows", 40, "--witnesses"
    )
    assert code == 0 and "wrote      out" in out and err.startswith("verifying")
    measures = ("accurate", "robust", "resilient")
    lines = [[line for line in text.splitlines() if line.strip().startswith(measures)] for text in (whole, out)]
    assert lines[0] == lines[1] and len(lines[0]) == 4
    by_class = [re.findall(r"^ *[01] .*", text, re.MULTILINE) for text in (whole, out)]
    assert by_class[0] == by_class[1] and len(by_class[0]) == 2
    found, expected = parts("out"), read("whole.csv")
    # Which of several counterexamples is found may depend on the rows that come together.
    assert (found.pop("moved").fillna("") == "").tolist() == (expected.pop("moved").fillna("") == "").tolist()
    pd.testing.assert_frame_equal(found[[*expected.columns]], expected)
    assert len(list(Path("out").glob("part-*"))) == (4 if data == "rows.csv" else 6)


def test_each_part_has_proofs_that_the_program_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = run(capsys, *VERIFY, "rows/*.parquet", "--out", "out", "--part-proofs")
    assert code == 0
    for part in sorted(Path("out").glob("part-*")):
        result = Path("out/proofs", f"{part.stem}.json")
        code, out, _ = run(capsys, "check", "model.json", result, "--proofs", result.with_suffix(".tpp"), "--jobs", 1)
        assert code == 0 and "proved rows (100%)" in out


def test_verify_goes_on_after_time_is_up_and_fails_a_gate_until_then(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = [*VERIFY, "rows.csv", "--out", "out", "--format", "parquet", "--fail-under-robustness", "0.1"]
    code, out, _ = run(capsys, *question, "--max-seconds", 0)
    assert code == 1 and "go on with the same command and --resume" in out
    assert "FAILED     robustness 0.000 to 1.000 is not proved" in out
    code, _, err = run(capsys, *question)
    assert code == 2 and err == "treeproof: out already holds results; --resume goes on from them\n"
    code, _, err = run(capsys, *question[:-4], "--resume")
    assert code == 2 and "out holds results for a different format" in err
    code, out, _ = run(capsys, *question, "--resume")
    assert code == 0 and len(parts("out")) == 150


def test_a_gate_for_each_class_in_parts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = read("rows.csv")
    truth = tp.verify(tp.load_model("model.json"), frame[NAMES], frame["y"], tp.Attacker.linf(0.3)).by_class
    gate = [*VERIFY, "rows.csv", "--resume", "--out", "out", "--chunk-rows", "40", "--fail-under-robustness"]
    for label, one in truth.items():
        least = one.robustness.lower
        assert run(capsys, *gate, f"{label}={least}")[0] == 0
        code, out, _ = run(capsys, *gate, f"{label}={least + 0.001}")
        assert code == 1 and f"FAILED     robustness of class {label} {least:.3f} is not proved" in out
    code, _, err = run(capsys, *gate, "good=1")
    assert code == 2 and "the model has no class 'good'; it has 0, 1" in err


def test_missing_cells_are_counted_and_what_is_assumed_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = read("rows.csv").drop(columns="id")
    holed = frame.assign(age=frame.age.mask(frame.index < 12))
    holed.to_csv("holed.csv", index=False)
    clf = HistGradientBoostingClassifier(max_iter=3).fit(holed[NAMES], holed.y)
    tp.save_model(clf, "model.json")
    said = "missing    12 of 150 rows have missing cells in columns that the attacker may touch; missing cells stay"
    for more in ([*VERIFY], [*VERIFY, "--out", "out"], [*GUARD[:-2], "--out", "o.csv"], [*GUARD[:-2], "--out", "o/"]):
        code, out, err = run(capsys, more[0], "model.json", "holed.csv", *more[2:])
        assert code == 0 and said in out and "Warning" not in err, err
        at = more.index("--delta") + 1
        code, out, _ = run(
            capsys, more[0], "model.json", "holed.csv", *more[2:at], "income=1", *more[at + 1 : -1], f"2{more[-1]}"
        )
        assert code == 0 and "missing" not in out
    run(capsys, "map", "model.json", "--delta", "0.3", "--budget", "1", "--out", "m.tpm", "--max-boxes", "9")
    code, out, _ = run(capsys, "guard", "model.json", "holed.csv", "--label", "y", "--map", "m.tpm", "--out", "3.csv")
    assert code == 0 and "may touch; a map has no answer for them" in out


def test_neighbourhoods_relative_to_ranges_of_other_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = [*VERIFY, "rows.csv", "--relative", "--epsilon", "0.01,0.02", "--out", "out"]
    code, _, err = run(capsys, *question)
    assert code == 2 and "--relative needs data to take the ranges from; name them with --ranges" in err
    code, out, _ = run(capsys, *question, "--ranges", "rows.csv")
    assert code == 0 and "ε = 0.02 of the range" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["rows.csv", "--out", "out", "--json", "r.json"], "--json needs all rows at once; leave it or --out out"),
        (["rows.csv", "--out", "out", "--report", "r.html"], "--report needs all rows at once"),
        (["rows.csv", "--out", "out", "--proofs", "r.tpp"], "with --out, --part-proofs writes one for each part"),
        (["rows.csv", "--part-proofs"], "--part-proofs goes with --out"),
        (["rows.csv", "--out", "out", "--proof-limit", "5"], "--proof-limit goes with --proofs, or with --part-proofs"),
        (["rows.csv", "--chunk-rows", "5"], "--chunk-rows goes with --out"),
        (["rows.csv", "--witnesses"], "--witnesses goes with --out"),
        (["rows.csv", "--format", "csv"], "--format goes with --out"),
        (["*.npz", "--out", "out"], "no file matches *.npz"),
        (["model.json", "--out", "out"], "model.json cannot be read in chunks"),
        (["rows.csv", "--out", "rows"], "rows is not an empty folder, and has no manifest.json"),
        (["rows.csv", "--out", "out", "--chunk-rows", "0"], "Invalid value for '--chunk-rows'"),
        (["rows.csv", "--out", "out", "--label", "z"], "rows.csv has no column 'z'"),
        (["rows.csv", "--out", "out", "--max-bytes", "5000"], "--max-bytes is 5,000, but"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(
    more: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *VERIFY, *more)
    assert code == 2 and message in err and len(err.splitlines()) == 1
    assert not Path("out").exists()


# --- guard -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["rows.csv", "rows/*.parquet"])
def test_guard_answers_in_parts_what_it_answers_at_once(
    data: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, whole, _ = run(capsys, *GUARD, "rows.csv", "--out", "whole.csv")
    assert code == 0
    code, out, _ = run(capsys, *GUARD, data, "--out", "out/", "--chunk-rows", 40)
    assert code == 0
    assert [line for line in whole.splitlines() if not line.startswith("wrote")] == [
        line for line in out.splitlines() if not line.startswith("wrote")
    ]
    found, expected = parts("out"), read("whole.csv")
    assert found.prediction.astype(str).tolist() == expected.prediction.astype(str).tolist()
    if data == "rows.csv":
        pd.testing.assert_frame_equal(found, expected)
    else:
        assert found[NAMES].to_numpy().tolist() == expected[NAMES].to_numpy().tolist()
        assert found["count"].dtype == "Int64" and found.id[0] == "=row 0"


def test_a_guard_without_labels_and_with_a_map(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "map", "model.json", "--delta", "0.3", "--out", "model.tpm", "--jobs", "1")[0] == 0
    pd.read_csv("rows.csv").drop(columns="y").to_csv("new.csv", index=False)
    question = ["guard", "model.json", "new.csv", "--map", "model.tpm", "--drop", "id", "--out", "out/"]
    code, out, _ = run(capsys, *question)
    assert code == 0 and "answered" in out and "accuracy" not in out
    os.utime("model.tpm", (0, 0))
    code, _, err = run(capsys, *question, "--resume")
    assert code == 2 and "out holds results for a different map" in err


def test_an_interrupted_guard_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ctrl_c: None
) -> None:
    question = [*GUARD, "rows.csv", "--out", "out/", "--chunk-rows", 20]
    add = Parts.add

    def add_and_stop(self: Parts, *part: Any) -> None:
        add(self, *part)
        if self.counts["rows"] == 60:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Parts, "add", add_and_stop)
        code, out, _ = run(capsys, *question)
    assert code == 130 and "stopped    after 60 rows; go on with the same command and --resume" in out
    assert not json.loads(Path("out/manifest.json").read_text())["complete"]
    code, out, _ = run(capsys, *question, "--resume")
    assert code == 0 and "of 150 rows" in out
    assert run(capsys, *GUARD, "rows.csv", "--out", "whole.csv")[0] == 0
    pd.testing.assert_frame_equal(parts("out"), read("whole.csv"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["rows.csv", "--out", "g.csv", "--resume"], "--chunk-rows and --resume need a folder as --out"),
        (["rows.csv", "--out", "out/", "--column", "age"], "rows.csv already has a column 'age'"),
        (["none*.csv", "--out", "out/"], "no file matches none*.csv"),
        (["rows.csv", "--out", "rows/"], "rows/ is not an empty folder"),
    ],
)
def test_what_a_guard_cannot_do_is_refused_in_one_line(
    more: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *GUARD, *more)
    assert code == 2 and message in err and len(err.splitlines()) == 1


def test_a_row_that_the_model_does_not_take_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv("rows.csv")
    frame.loc[33, "debt"] = np.inf
    frame.to_csv("bad.csv", index=False)
    code, _, err = run(capsys, *GUARD, "bad.csv", "--out", "out/", "--chunk-rows", 30)
    assert code == 2 and "bad.csv, counted from row 30: row 3, column 'debt': inf is outside" in err
