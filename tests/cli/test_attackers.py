"""Options that describe attackers, and the attackers that they make."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.commands import run
from treeproof.cli.attackers import AttackerChoice
from treeproof.importers import EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.pieces import Pieces
from treeproof.threat.threat_file import write_threat

NOTHING = {field.name: {"bool": False, "str": ""}.get(str(field.type)) for field in dataclasses.fields(AttackerChoice)}


def loans() -> tp.Ensemble:
    """Columns amount, age and income are numbers, purpose is a category."""
    builder = EnsembleBuilder(
        n_features=4,
        classes=("bad", "good"),
        feature_names=("amount", "age", "income", "purpose"),
        handles_missing=True,
        categories={3: Category(("car", "radio", "tv"), unseen=False)},
    )
    for f in range(4):
        builder.add_tree(
            feature=[f, -1, -1],
            threshold=[1.0, 0, 0],
            left=[1, -1, -1],
            right=[2, -1, -1],
            scores=[(0, 0), (1, 0), (0, 1)],
            nan_left=[True] * 3,
            pieces={0: Pieces.of_codes([True, False, True])} if f == 3 else {},
        )
    return builder.build()


def chosen(**given: Any) -> tp.Attacker:
    return AttackerChoice(**{**NOTHING, **given}).attacker(loans(), None)


CHOICES: list[tuple[dict[str, Any], tp.Attacker]] = [
    ({"delta": "amount=0:500,age=-1:1"}, tp.Attacker({"amount": (0, 500), "age": (-1, 1)})),
    ({"delta": "amount=any,purpose=any"}, tp.Attacker({"amount": tp.ANY, "purpose": tp.ANY})),
    (
        {"delta": "amount=any,purpose=any", "one_sided": True},
        tp.Attacker({"amount": (-np.inf, 0), "purpose": tp.ANY}),
    ),
    ({"delta": "0:2"}, tp.Attacker((0, 2))),
    ({"delta": "any"}, tp.Attacker(tp.ANY)),
    (
        {"delta": "1", "any_value": "purpose"},
        tp.Attacker({0: (-1, 1), 1: (-1, 1), 2: (-1, 1), "purpose": tp.ANY}),
    ),
    (
        {"delta": "age=2", "any_value": "income,3", "budget": 1},
        tp.Attacker({"age": (-2, 2), "income": tp.ANY, 3: tp.ANY}, budget=1),
    ),
    ({"delta": "age=5", "step": "age=1"}, tp.Attacker({"age": (-5, 5)}, step={"age": 1})),
    ({"delta": "amount=5", "step": "0.01"}, tp.Attacker({"amount": (-5, 5)}, step="0.01")),
    ({"blank": "income"}, tp.Attacker(None, blank=["income"])),
    ({"blank": "income=2,age", "budget": 2}, tp.Attacker(None, blank={"income": 2, "age": 1}, budget=2)),
    (
        {"delta": "amount=9", "fill": "income", "goal": "good", "cost": "amount=3"},
        tp.Attacker({"amount": (-9, 9)}, fill=["income"], goal="good", costs={"amount": 3}),
    ),
    (
        {"delta": "1", "domain": "age=18:120,amount=0:inf"},
        tp.Attacker((-1, 1), domain={"age": (18, 120), "amount": (0, np.inf)}),
    ),
    ({"l0": 2, "goal": "good,bad", "step": "1"}, tp.Attacker.l0(2, goal=["bad", "good"], step=1)),
    (
        {"norm": 1.0, "radius": 2.0, "scale": "age=10", "domain": "0:9"},
        tp.Attacker.lp(1, 2, scale={"age": 10}, domain=(0, 9)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "attacker"), CHOICES, ids=[str(case[0]) for case in CHOICES])
def test_options_make_the_attacker_that_they_say(given: dict[str, Any], attacker: tp.Attacker) -> None:
    assert chosen(**given) == attacker


def test_fractions_of_ranges_go_with_all_that_is_no_distance() -> None:
    X = np.array([[0.0, 20.0, 1.0, 0.0], [1000.0, 70.0, np.nan, 0.0]])
    choice = AttackerChoice(
        **{**NOTHING, "delta": "amount=0:0.1", "any_value": "purpose", "blank": "income", "relative": True}
    )
    expected = tp.Attacker([(0.0, 100.0), (0.0, 0.0), (0.0, 0.0), tp.ANY], blank=["income"])
    assert choice.attacker(loans(), X) == expected


def test_a_threat_file_says_everything_itself(tmp_path: Path) -> None:
    attacker = tp.Attacker({"age": (0, 5), "purpose": tp.ANY}, step={"age": 1}, budget=1)
    write_threat(tmp_path / "threat.json", attacker)
    assert chosen(threat_file=str(tmp_path / "threat.json")) == attacker
    with pytest.raises(tp.InvalidInput, match=r"--budget goes with .*, not with --threat"):
        chosen(threat_file=str(tmp_path / "threat.json"), budget=2)


def test_files_that_know_no_budget_and_no_steps_are_given_them(tmp_path: Path) -> None:
    rule = {"pre": "(0, np.inf)", "post": 500, "cost": 10, "is_numerical": True}
    file = tmp_path / "attacks.json"
    file.write_text(json.dumps({"attacks": [{"amount": [rule]}]}))
    assert chosen(attacker_file=str(file), budget=30) == tp.Attacker.from_json(file, budget=30)
    whole = chosen(attacker_file=str(file), budget=30, step="amount=100")
    assert whole == tp.Attacker.from_json(file, budget=30, step={"amount": 100})
    assert whole.bind(loans()).moves_of(0).step == 100
    tp.Attacker((-1, 1), budget=1).to_json(file)
    with pytest.raises(tp.InvalidInput, match="states its own step"):
        chosen(attacker_file=str(file), step="1")
    with pytest.raises(tp.InvalidInput, match="states its own budget"):
        chosen(attacker_file=str(file), budget=30)


def test_verify_takes_a_threat_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensemble = loans()
    tp.save_model(ensemble, tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("amount,age,income,purpose,label\n0.5,3,0,car,bad\n9,9,9,radio,good\n")
    attacker = tp.Attacker({"amount": (0, 1), "purpose": tp.ANY})
    write_threat(tmp_path / "threat.json", attacker)
    question = ["verify", tmp_path / "model.json", tmp_path / "rows.csv", "--threat", tmp_path / "threat.json"]
    code, out, err = run(capsys, *question, "--json", tmp_path / "r.json")
    assert code == 0, err
    assert tp.Verification.from_json(tmp_path / "r.json").attacker == attacker
    assert "may move amount up by at most 1" in out
    (tmp_path / "rules.txt").write_text("amount <= age  # of course\npurpose == 'car'\n")
    code, out, err = run(capsys, *question, "--relations", tmp_path / "rules.txt", "--json", tmp_path / "r.json")
    assert code == 0 and "relations  Neighbours and attacked rows keep 2 relations: amount <= age; " in out, err
    rows = tp.Verification.from_json(tmp_path / "r.json")
    truth = tp.verify(ensemble, rows.X, rows.y, attacker, relations=["amount <= age", "purpose == 'car'"])
    assert rows.stability.tolist() == truth.stability.tolist()
    write_threat(tmp_path / "related.json", attacker, ["amount <= age"])
    code, out, _ = run(capsys, *question[:-1], tmp_path / "related.json")
    assert code == 0 and "keep 1 relation: amount <= age\n" in out
    code, _, err = run(capsys, *question, "--json", tmp_path / "threat.json")
    assert code == 2 and "threat.json" in err, "what is read is not written to"


@pytest.mark.parametrize(
    ("options", "attacker"),
    [
        (["--delta", "age=2", "--step", "age=1"], tp.Attacker({"age": (-2, 2)}, step={"age": 1})),
        (["--blank", "income", "--any", "purpose"], tp.Attacker({"purpose": tp.ANY}, blank=["income"])),
        (["--delta", "9", "--goal", "good"], tp.Attacker((-9, 9), goal="good")),
    ],
)
def test_verify_asks_what_the_options_say(
    options: list[str], attacker: tp.Attacker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tp.save_model(loans(), tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("amount,age,income,purpose,label\n0.5,0,0,car,bad\n9,2,9,radio,good\n")
    code, _, err = run(
        capsys, "verify", tmp_path / "model.json", tmp_path / "rows.csv", *options, "--json", tmp_path / "r.json"
    )
    assert code == 0, err
    found = tp.Verification.from_json(tmp_path / "r.json")
    assert found.attacker == attacker
    assert found.stability.tolist() == tp.verify(loans(), found.X, found.y, attacker).stability.tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delta": "age=1x"}, "got '1x', in 'age=1x'"),
        ({"delta": "age=1:2:3"}, "got '2:3', in 'age=1:2:3'"),
        ({"delta": "age:1"}, "got 'age'; did you mean age=1\\?"),
        ({"radius": 2.0}, "--norm and --radius go together"),
        ({"threat_file": "threat.json", "goal": "good"}, r'not with --threat; put "goal": \["good"\] into the file'),
        ({"threat_file": "t.json", "step": "1"}, r'not with --threat; put "step": .* into the file'),
    ],
)
def test_options_that_mean_nothing_are_refused_with_a_way_out(given: dict[str, Any], message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        chosen(**given)


def test_files_of_others_say_where_a_budget_goes(tmp_path: Path) -> None:
    rule = {"pre": "(0, np.inf)", "post": -0.5, "cost": 1, "is_numerical": True}
    file = tmp_path / "attacks.json"
    file.write_text(json.dumps({"attacks": [{"amount": [rule]}]}))
    with pytest.raises(tp.InvalidInput, match="--budget, since files of TREANT state none"):
        tp.verify(loans(), [[1e9, 0, 0, "car"]], ["bad"], chosen(attacker_file=str(file)))


def test_a_distance_for_a_category_in_a_file_says_what_the_file_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tp.save_model(loans(), tmp_path / "model.json")
    (tmp_path / "rows.csv").write_text("amount,age,income,purpose,label\n0.5,3,0,car,bad\n")
    tp.Attacker({"purpose": (0, 1)}).to_json(tmp_path / "a.json")
    question = ("verify", tmp_path / "model.json", tmp_path / "rows.csv", "--attacker", tmp_path / "a.json")
    code, _, err = run(capsys, *question)
    assert code == 2 and 'column=any (in a file ["column", [null, null]]) lets the attacker' in err
