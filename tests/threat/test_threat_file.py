"""Threat files are read back as they were written, and what is wrong with one is said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import treeproof as tp
from treeproof.model.builder import blank_ensemble
from treeproof.threat.relations import bind_relations
from treeproof.threat.threat_file import read_threat, write_threat

ATTACKER = tp.Attacker({f"column {i}": (-i, tp.ANY[1]) for i in range(20)}, costs={"column 3": 4}, budget=3)


def test_a_threat_file_holds_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "threat.json"
    relations = [tp.one_of("p_car", "p_radio"), "`größe in m` == 'é'"]
    write_threat(file, ATTACKER, relations, ["said of nothing"])
    attacker, read = read_threat(file)
    assert attacker == ATTACKER
    assert list(map(str, read)) == list(map(str, relations))


def test_a_person_finds_one_line_for_each_column(tmp_path: Path) -> None:
    file = tmp_path / "threat.json"
    write_threat(file, ATTACKER, [f"a <= {i}" for i in range(40)])
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    assert '["column 7", [-7.0, null]],' in lines
    assert '"a <= 7",' in lines


GOOD = {"format": "treeproof-threat", "version": 1, "attacker": json.loads(ATTACKER.to_json()), "relations": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "is not JSON"),
        ("[]", "is not a threat file"),
        (json.dumps(GOOD | {"format": "treeproof-attacker"}), "is not a threat file"),
        (json.dumps(GOOD | {"version": 2}), "has version 2; this treeproof reads version 1"),
        (json.dumps(GOOD | {"relation": []}), "has the unknown fields relation$"),
        (json.dumps(GOOD | {"relations": "a <= b"}), "relations must be a list of texts"),
        (json.dumps(GOOD | {"relations": [1]}), "relations must be a list of texts"),
        (json.dumps(GOOD | {"relations": ["a <"]}), "threat.json: relation 'a <'"),
        (json.dumps(GOOD | {"attacker": {}}), "threat.json.*is not an attacker"),
        (json.dumps(GOOD | {"attacker": GOOD["attacker"] | {"fill": {"all": 1}}}), "threat.json: fill takes columns"),
        (json.dumps(GOOD)[:-1] + ', "relations": []}', "occurs twice"),
    ],
)
def test_what_is_wrong_with_a_threat_file_is_said(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "threat.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(tp.InvalidInput, match=message):
        read_threat(file)


def test_values_of_a_column_stay_on_its_line(tmp_path: Path) -> None:
    many = {f"column {i}": tp.values(*(f"value {k}" for k in range(30))) for i in range(3)}
    write_threat(tmp_path / "threat.json", tp.Attacker(many))
    lines = (tmp_path / "threat.json").read_text(encoding="utf-8").splitlines()
    assert sum('"value 7"' in line and '"value 29"' in line for line in lines) == 3


def test_relations_that_do_not_fit_the_model_name_the_file(tmp_path: Path) -> None:
    write_threat(tmp_path / "threat.json", ATTACKER, ["nobody <= 1"])
    with pytest.raises(tp.InvalidInput, match=r"threat.json: relation 'nobody <= 1': the model has no column 'nobody'"):
        bind_relations(read_threat(tmp_path / "threat.json").relations, blank_ensemble(1, [0, 1], ["age"]))
