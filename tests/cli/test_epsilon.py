"""`--epsilon` by name: numbers, any value of a category, some, and those of groups that relations declare."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import treeproof as tp
from tests.support.commands import run

ATTACKER = tp.Attacker({"amount": (-200, 200)})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model of categories and the same trees on one-hot columns, with their rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    n = 60
    frame = pd.DataFrame(
        {
            "amount": rng.integers(1, 20, n) * 100.0,
            "purpose": rng.choice(["car", "radio", "school"], n),
            "rooms": rng.choice([1, 2, 3], n),
        }
    )
    y = np.where(frame.amount / 500 + (frame.purpose == "car") + frame.rooms / 4 > 2.8, "bad", "good")
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["purpose", "rooms"]),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(encoder, RandomForestClassifier(5, max_depth=4, random_state=0)).fit(frame, y)
    tp.save_model(pipeline, "model.json")
    tp.save_model(pipeline[-1], "forest.json")
    frame.assign(y=y).to_csv("rows.csv", index=False)
    encoder.transform(frame).assign(y=y).to_csv("dummies.csv", index=False)
    Path("relations.txt").write_text("one_of(purpose_car, purpose_radio, purpose_school, name='purpose')\n")
    return tmp_path


def asked(
    capsys: pytest.CaptureFixture[str], *epsilon: str, files: tuple[str, str] = ("model.json", "rows.csv")
) -> tuple[str, tp.Verification]:
    base = ("verify", *files, "--label", "y", "--delta", "amount=200", "--json", "r.json", "--jobs", "1")
    code, out, err = run(capsys, *base, "--epsilon", *epsilon)
    assert code == 0, err
    return out, tp.Verification.from_json("r.json")


def test_sets_by_name_are_those_of_python(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.read_csv("rows.csv")
    for text, epsilon, called, said in (
        (
            "amount=50,purpose=car,radio,rooms=any",
            {"amount": 50.0, "purpose": tp.values("car", "radio"), "rooms": tp.ANY},
            "amount 50, purpose car/radio, rooms any",
            "amount by up to 50; neighbours may have the purpose car/radio for each other and any rooms",
        ),
        ("rooms=1,3", {"rooms": tp.values(1, 3)}, "rooms 1/3", "neighbours may have the rooms 1/3 for each other"),
    ):
        out, found = asked(capsys, text)
        theirs = tp.verify(tp.load_model("model.json"), rows.drop(columns="y"), rows.y, ATTACKER, epsilon=epsilon)
        assert np.array_equal(found.resilience_by_epsilon[0], theirs.resilience_by_epsilon[0])
        assert found.epsilons == theirs.epsilons
        assert f"near       ε = {called}: {said}" in out


def test_fractions_of_ranges_leave_sets_alone(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ("verify", "model.json", "rows.csv", "--label", "y", "--delta", "amount=0.1", "--relative")
    code, out, err = run(capsys, *base, "--epsilon", "purpose=any,amount=0.1")
    assert code == 0, err
    assert "ε = amount 0.1 of the range, purpose any: amount by up to 1" in out


@pytest.mark.slow
def test_groups_that_relations_declare_have_sets(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_hot = ("forest.json", "dummies.csv")
    out, found = asked(capsys, "purpose=any,amount=50", "--relations", "relations.txt", files=one_hot)
    assert "neighbours may have any purpose" in out
    _, theirs = asked(capsys, "purpose=any,amount=50")
    assert np.array_equal(found.resilience_by_epsilon[0], theirs.resilience_by_epsilon[0])
    some = "purpose=purpose_car,purpose_radio"
    out, _ = asked(capsys, some, "--relations", "relations.txt", files=one_hot)
    assert "neighbours may have the purpose purpose_car/purpose_radio for each other" in out


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        ("purpose=car,boat", "column 'purpose': the model does not know the value 'boat'; it knows 'car', 'radio'"),
        ("amount=1,2", "--epsilon has '2' beside names; give one number for all, or name=number,…"),
        ("3,amount=1", "--epsilon has '3' beside names"),
        ("purpose=any,purpose=car", "--epsilon names purpose twice"),
        ("amount=-1", "--epsilon must be at least 0, got amount=-1"),
        ("boat=any", "the model has no feature 'boat'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    epsilon: str, message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--label", "y", "--delta", "amount=200", "--epsilon", epsilon)
    code, _, err = run(capsys, "verify", "model.json", "rows.csv", *given)
    assert code == 2 and message in err, err
