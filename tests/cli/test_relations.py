"""Relations on the command line: files, threat files, groups that options name, and rows that break them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import treeproof as tp
from tests.support.commands import run
from tests.support.loans import ATTACKER, RELATIONS, loans
from treeproof.threat.threat_file import write_threat

ATTACK = ("--any", "purpose", "--delta", "max_30d=2,max_12m=-1:3", "--step", "max_30d=1,max_12m=1")
PRICES = ("--cost", "purpose=2", "--budget", "3")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    given = loans()
    tp.save_model(given.forest, tmp_path / "model.json")
    given.X.assign(label=given.y).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "relations.txt").write_text("\n".join(map(str, RELATIONS)) + "\n")
    write_threat(tmp_path / "threat.json", ATTACKER, RELATIONS)
    return tmp_path


@pytest.mark.slow
def test_a_threat_file_and_options_with_relations_say_the_same(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("verify", files / "model.json", files / "rows.csv")
    code, out, err = run(capsys, *base, "--threat", files / "threat.json", "--json", files / "a.json")
    assert code == 0, err
    assert "relations  Neighbours and attacked rows keep 3 relations: one_of(" in out
    assert "purpose to any value, at a cost of" in out
    assert "invalid    3 of 60 rows break the relations themselves (row 3: one_of(" in out
    given = ("--relations", files / "relations.txt", "--json", files / "b.json")
    code, _, err = run(capsys, *base, *ATTACK, *PRICES, *given)
    assert code == 0, err
    first, second = (tp.Verification.from_json(files / name) for name in ("a.json", "b.json"))
    assert first.relations == second.relations and (first.stability == second.stability).all()
    theirs = tp.verify(loans().forest, loans().X, loans().y, ATTACKER, relations=RELATIONS)
    assert (first.stability == theirs.stability).all()
    code, out, err = run(capsys, "check", files / "model.json", files / "a.json", "--no-proofs")
    assert code == 0 and ", of 60 of 60 rows" in out, err


def test_one_reach_for_all_leaves_out_the_members_of_a_named_group(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--any", "purpose", "--delta", "1", "--relations", files / "relations.txt")
    code, out, err = run(capsys, "verify", files / "model.json", files / "rows.csv", *given)
    assert code == 0, err
    assert "max_12m, max_30d and loans by up to 1 either way and purpose to any value" in out


def test_results_are_resumed_only_with_the_same_relations(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("verify", files / "model.json", files / "rows.csv", "--delta", "1", "--json", files / "a.json")
    assert run(capsys, *base, "--relations", files / "relations.txt")[0] == 0
    code, _, err = run(capsys, *base, "--resume")
    assert code == 2 and "different set of relations" in err


@pytest.mark.slow
def test_parts_and_guards_take_relations(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threat = ("--threat", files / "threat.json")
    code, out, err = run(
        capsys,
        "verify",
        files / "model.json",
        files / "rows.csv",
        *threat,
        "--out",
        files / "parts",
        "--chunk-rows",
        20,
    )
    assert code == 0 and "invalid    3 of 60 rows break the relations themselves (1 of them one_of(" in out, err
    code, out, err = run(
        capsys, "guard", files / "model.json", files / "rows.csv", *threat, "--out", files / "guarded.csv"
    )
    assert code == 0 and "invalid    3 rows break the relations" in out, err
    answers = pd.read_csv(files / "guarded.csv")["prediction"]
    theirs = tp.verify(loans().forest, loans().X, loans().y, ATTACKER, relations=RELATIONS)
    assert ((answers != "abstain").to_numpy() == (theirs.stability == tp.Outcome.PROVED)).all()


def test_suggestions_are_verified_as_they_are(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = loans()
    valid = given.X.drop(index=[3, 5, 11]).assign(label=given.y[[i for i in range(60) if i not in (3, 5, 11)]])
    pd.concat([valid] * 4).to_csv(files / "valid.csv", index=False)
    assert run(capsys, "suggest", files / "valid.csv", "--out", files / "mine.json")[0] == 0
    assert any("one_of" in one for one in json.loads((files / "mine.json").read_text())["relations"])
    code, out, err = run(
        capsys, "verify", files / "model.json", files / "rows.csv", "--threat", files / "mine.json", "--timeout", "5"
    )
    assert code == 0 and "relations  Neighbours and attacked rows keep" in out, err


@pytest.mark.parametrize("command", ["map", "train"])
def test_maps_and_training_refuse_relations(command: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = files / ("model.json" if command == "map" else "rows.csv")
    out = files / ("model.tpm" if command == "map" else "out.json")
    code, _, err = run(capsys, command, first, "--threat", files / "threat.json", "--out", out)
    assert code == 2 and f"has relations, which {command} does not take" in err


def test_a_file_without_relations_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "none.txt").write_text("# amount <= max_30d\n\n")
    given = ("--delta", "1", "--relations", files / "none.txt")
    code, _, err = run(capsys, "verify", files / "model.json", files / "rows.csv", *given)
    assert code == 2 and "none.txt states no relations; write one per line, or leave it out" in err


def test_relations_that_most_rows_break_are_warned_about_and_close_a_strict_gate(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "wrong.txt").write_text("loans <= -1\n")
    wrong = ("--any", "max_30d", "--relations", files / "wrong.txt")
    said = "60 of 60 rows break the relations themselves (row 0: loans <= -1)"
    question = ("verify", files / "model.json", files / "rows.csv", *wrong, "--fail-under-robustness", "0")
    code, out, err = run(capsys, *question)
    assert code == 0 and f"WARNING    {said}" in out and f"WARNING    passed, but {said}" in out, err
    assert "so check the relations; --strict fails then" in out
    code, out, _ = run(capsys, *question, "--strict")
    assert code == 1 and f"FAILED     {said}" in out and "(--strict)" in out
    out_file = files / "out.csv"
    code, out, err = run(capsys, "guard", files / "model.json", files / "rows.csv", *wrong, "--out", out_file)
    assert code == 0 and "WARNING    60 rows break the relations; they are answered" in out, err
    code, out, err = run(
        capsys, "verify", files / "model.json", files / "rows.csv", *wrong, "--out", files / "parts", "--strict"
    )
    assert code == 1 and "FAILED     60 of 60 rows break the relations themselves" in out, err
