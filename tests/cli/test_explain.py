"""`treeproof explain`: what the library says, in files and on the screen, with and without a label column."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from tests.support.commands import run

DOMAIN = {"months": (1.0, 72.0), "rate": (0.0, 1.0)}
ON_DOMAIN = ("--domain", "months=1:72,rate=0:1")


def rows(n: int = 200) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {
            "months": rng.integers(6, 60, n),
            "rate": rng.uniform(0, 1, n).round(3),
            "purpose": pd.Categorical(rng.choice(["car", "radio", "tv"], n)),
        }
    )
    y = np.where((X.months > 30) & (X.purpose != "tv") | (X.rate > 0.7), "bad", "good")
    X.loc[X.index[::11], "rate"] = math.nan
    return X, y


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    X, y = rows()
    model = lgb.LGBMClassifier(n_estimators=10, num_leaves=5, min_child_samples=5, verbose=-1, random_state=0).fit(X, y)
    tp.save_model(model, folder / "model.json")
    X[:8].to_csv(folder / "rows.csv", index=False)
    X[:8].assign(label=y[:8]).to_csv(folder / "labelled.csv", index=False)
    (folder / "relations.txt").write_text("implies(purpose == 'tv', months <= 60)\n")
    tp.Attacker({"months": (-6, 6)}).to_json(folder / "attacker.json")
    return folder


@pytest.fixture(scope="module")
def model(files: Path) -> tp.Ensemble:
    return tp.load_model(files / "model.json")


def explain(capsys: pytest.CaptureFixture[str], files: Path, *more: Any, rows: str = "rows.csv") -> str:
    code, out, err = run(capsys, "explain", files / "model.json", files / rows, *more)
    assert code == 0, err
    return out


def test_reasons_are_those_of_the_library(
    files: Path, model: tp.Ensemble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = explain(capsys, files, *ON_DOMAIN, "--json", tmp_path / "a.json", "--csv", tmp_path / "a.csv")
    theirs = tp.explain(model, rows()[0][:8], domain=DOMAIN)
    content = json.loads((tmp_path / "a.json").read_text())
    assert [one["columns"] for one in content["explanations"]] == [list(one.columns) for one in theirs]
    with open(tmp_path / "a.csv", newline="") as file:
        sentences = [line["explanation"] for line in csv.DictReader(file)]
    assert sentences == [one["sentence"] for one in content["explanations"]]
    for row, sentence in enumerate(sentences):
        assert f"row {row}      {sentence}" in out
    assert "assumed    Values that are there do not become missing." in out
    assert "in the domain of months (1 to 72) and rate (0 to 1)" in out
    assert f"wrote      {tmp_path / 'a.json'}" in out


def test_a_label_column_changes_nothing(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_labels = explain(capsys, files, *ON_DOMAIN, rows="labelled.csv")
    without = explain(capsys, files, *ON_DOMAIN)
    assert [line for line in with_labels.splitlines() if line.startswith("row ")] == [
        line for line in without.splitlines() if line.startswith("row ")
    ]


@pytest.mark.parametrize("kind", ["smallest", "contrastive"])
def test_kinds(kind: Any, files: Path, model: tp.Ensemble, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explain(capsys, files, *ON_DOMAIN, "--kind", kind, "--json", tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    theirs = tp.explain(model, rows()[0][:8], domain=DOMAIN, kind=kind)
    assert content["kind"] == kind
    assert [len(one["columns"]) for one in content["explanations"]] == [len(one.columns) for one in theirs]


def test_ranges_order_and_missing(
    files: Path, model: tp.Ensemble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--inflate", "--order", "rate,purpose", "--missing", "rate", "--json", tmp_path / "a.json")
    out = explain(capsys, files, *ON_DOMAIN, *given)
    assert "assumed    Values may become missing in rate." in out
    theirs = tp.explain(model, rows()[0][:8], domain=DOMAIN, inflate=True, order=["rate", "purpose"], missing=["rate"])
    said = [one["ranges"] for one in json.loads((tmp_path / "a.json").read_text())["explanations"]]
    assert said == [one["ranges"] for one in json.loads(theirs.to_json())["explanations"]]


def test_against_an_attacker(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = explain(capsys, files, "--attacker", files / "attacker.json", "--relations", files / "relations.txt")
    assert "attacker   may move months by up to 6 either way" in out
    assert "whatever the attacker does" in out
    assert "Only rows that keep 1 relation count: implies(" in out


def test_cheapest_changes_stand_below_reasons(
    files: Path, model: tp.Ensemble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--counterfactual", "good", "--any", "purpose", "--delta", "months=-60:0", "--cost", "purpose=3,months=1")
    written = ("--changes", tmp_path / "c.json", "--report", tmp_path / "why.html")
    out = explain(capsys, files, *given, *ON_DOMAIN, *written)
    whoever = tp.Attacker({"months": (-60, 0), "purpose": tp.ANY}, costs={"purpose": 3, "months": 1}, domain=DOMAIN)
    theirs = tp.counterfactual(model, rows()[0][:8], to="good", attacker=whoever)
    content = json.loads((tmp_path / "c.json").read_text())
    assert [one["price"] for one in content["counterfactuals"]] == [
        None if math.isinf(one.price) else one.price for one in theirs
    ]
    for one in theirs:
        needs_none = one.price == 0  # it has the label already, as the line above says
        assert (f"           {one}" in out) != needs_none
    assert "explanations are not against him" in out
    assert "Cheapest change" in (tmp_path / "why.html").read_text()


def test_what_is_known_after_ctrl_c_is_written(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tp.explain

    def stopped(*given: Any, **more: Any) -> tp.Explanations:
        found = whole(*given, **more)
        return tp.Explanations(list(found), found.about, seconds=found.seconds, interrupted=True)

    monkeypatch.setattr(tp, "explain", stopped)
    given = (*ON_DOMAIN, "--counterfactual", "good", "--json", tmp_path / "a.json", "--changes", tmp_path / "c.json")
    code, out, err = run(capsys, "explain", files / "model.json", files / "rows.csv", *given)
    assert code == 130 and "interrupted" in err and "stopped    before everything was found" in out
    assert json.loads((tmp_path / "a.json").read_text())["interrupted"]
    assert not (tmp_path / "c.json").exists()


def test_a_deadline_leaves_reasons_that_are_enough(
    files: Path, model: tp.Ensemble, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = explain(capsys, files, *ON_DOMAIN, "--max-seconds", "0", "--json", tmp_path / "a.json")
    said = json.loads((tmp_path / "a.json").read_text())["explanations"]
    assert all(one["columns"] == ["months", "rate", "purpose"] and not one["minimal"] for one in said)
    assert "enough, maybe without some of it, too" in out
    assert [one["label"] for one in said] == model.predict(rows()[0][:8]).tolist()


@pytest.mark.parametrize("moves", [(), ("--any", "purpose", "--delta", "months=-60:0", "--step", "months=1")])
def test_without_costs_every_column_costs_1(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], moves: tuple[str, ...]
) -> None:
    out = explain(capsys, files, "--counterfactual", "bad", *ON_DOMAIN, *moves, "--changes", tmp_path / "c.json")
    assert "changes    Each changed column costs 1." in out
    found = json.loads((tmp_path / "c.json").read_text())["counterfactuals"]
    prices = [(one["price"], len(one["changes"])) for one in found if one["price"] is not None]
    assert prices and all(price == n for price, n in prices)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--changes", "c.json"), "--changes goes with --counterfactual"),
        (("--goal", "good"), "--goal is an attacker's"),
        (("--counterfactual", "great"), "the model has no class 'great'"),
        (("--order", "nothing"), "nothing"),
        (("--report", "why.json"), "--report does not write .json files"),
        (("--kind", "cause"), "'cause' is not one of"),
        (("--inflate", "--delta", "months=3"), "--inflate goes without an attacker"),
        (("--inflate", "--kind", "contrastive"), "--inflate is for reasons"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    options: tuple[str, ...],
    message: str,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "explain", files / "model.json", files / "rows.csv", *options)
    assert code == 2 and message in err and len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
