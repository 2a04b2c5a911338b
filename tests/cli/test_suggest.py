"""`treeproof suggest`: what it prints and writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from tests.support.commands import run
from treeproof.threat.threat_file import read_threat


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 600
    rent, food = rng.integers(0, 90_000, (2, n)) / 100
    return pd.DataFrame(
        {
            "rent": rent,
            "food": food,
            "total paid": np.round(rent + food, 2),
            "job": np.where(rng.random(n) < 0.1, None, rng.choice(["a", "b b"], n)),  # type: ignore[call-overload]
            "post code": [f"0{k}" for k in rng.integers(1000, 1009, n)],
            "score": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 9, n)),
            "label": rng.integers(0, 2, n),
        }
    )


def test_suggest_writes_what_python_proposes(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.to_csv(tmp_path / "data.csv", index=False, na_rep="NA")
    code, out, err = run(capsys, "suggest", tmp_path / "data.csv", "--out", tmp_path / "threat.json")
    assert (code, err) == (0, "")
    features = frame.drop(columns="label")
    attacker, relations = read_threat(tmp_path / "threat.json")
    assert attacker == tp.suggest_attacker(features).attacker
    assert list(map(str, relations)) == tp.suggest_relations(features).relations == ["rent + food == `total paid`"]
    assert "600 rows, 6 columns, without label" in out
    assert "steps of 0.01 from" in out and "one of 9 values: 01000," in out
    assert "rent + food == `total paid`" in out and "Only you know" in out


def test_columns_are_dropped_and_files_without_names_go_by_position(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame.to_csv(tmp_path / "data.csv", index=False)
    code, out, _ = run(capsys, "suggest", tmp_path / "data.csv", "--drop", "total paid,job")
    assert code == 0 and "without label, total paid, job" in out and "wrote" not in out
    assert "Nothing holds in all of 600 rows" in out
    np.savez(tmp_path / "data.npz", X=frame[["rent", "food", "total paid"]].to_numpy(), y=frame["label"])
    code, out, _ = run(capsys, "suggest", tmp_path / "data.npz")
    assert code == 0 and "[0] + [1] == [2]" in out


def test_what_cannot_be_is_refused(frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame.to_csv(tmp_path / "data.csv", index=False)
    for arguments, message in (
        (["--drop", "nobody"], "has no column 'nobody'"),
        (["--label", "Y"], "has no column 'Y'"),
        (["--out", tmp_path / "data.csv"], "--out and DATA are the same file"),
        (["--out", tmp_path / "threat.csv"], "--out does not write .csv files"),
        (["--limit", "0"], "--limit"),
    ):
        code, _, err = run(capsys, "suggest", tmp_path / "data.csv", *arguments)
        assert code == 2 and message in err


def test_lists_in_a_parquet_file_are_left_out_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lists = [[1, 2], [3]] * 10
    pd.DataFrame({"a": lists, "s": [{"x": 1}] * 20, "b": range(20)}).to_parquet(tmp_path / "l.parquet")
    code, out, err = run(capsys, "suggest", tmp_path / "l.parquet")
    assert code == 0
    for name in "as":
        assert f"column {name} holds neither numbers nor categories, and is left out\n" in out + err
