"""The command line as people call it: what it prints, writes, and how it ends."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support.columns import with_names
from tests.support.commands import run
from tests.support.proof_files import read_proofs
from tests.support.results import changed
from treeproof.present.report import curves, planes

PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
"""Where other processes find what tests share."""
COLUMNS = ["mean radius", "mean texture", "worst area", "worst concavity"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of four features, and rows it has not seen, as files."""
    where = tmp_path_factory.mktemp("cli")
    data = load_breast_cancer(as_frame=True)
    X, y = data.data[COLUMNS], data.target
    clf = RandomForestClassifier(7, max_depth=4, random_state=0).fit(X[::2], y[::2])
    tp.save_model(tp.from_model(clf), where / "model.json")
    X[1:160:2].assign(y=y[1:160:2]).to_csv(where / "test.csv", index=False)
    X[::2].assign(y=y[::2]).to_csv(where / "train.csv", index=False)
    (where / "model.pkl").write_bytes(pickle.dumps(clf))
    return where


def expected(folder: Path, attacker: tp.Attacker, **more: Any) -> tp.Verification:
    frame = pd.read_csv(folder / "test.csv")
    return tp.verify(tp.load_model(folder / "model.json"), frame[COLUMNS], frame["y"], attacker, **more)


def test_verify_writes_proofs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.5", "--jobs", "1",
        "--proofs", tmp_path / "proofs.tpp", "--proof-limit", "10000",
    )  # fmt: skip
    truth = expected(folder, tp.Attacker.linf(0.5))
    assert code == 0 and f"wrote      {tmp_path / 'proofs.tpp'}" in out
    _, proofs, without = read_proofs(tmp_path / "proofs.tpp")
    assert list(proofs) == np.flatnonzero(truth.stability == tp.Outcome.PROVED).tolist() and not without


def test_verify_prints_and_writes_what_the_library_says(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(
        capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.5", "--epsilon",
        "0.1,0.2", "--json", tmp_path / "r.json", "--csv", tmp_path / "r.csv", "--jobs", "1",
    )  # fmt: skip
    truth = expected(folder, tp.Attacker.linf(0.5), epsilons=[0.1, 0.2])
    assert code == 0
    for share in (truth.accuracy, float(truth.robustness), *map(float, truth.resilience_at.values())):
        assert f"{share:.3f}" in out
    assert "turns" in out and "mean texture" in out
    written = tp.Verification.from_json(tmp_path / "r.json")
    np.testing.assert_array_equal(written.stability, truth.stability)
    assert len(pd.read_csv(tmp_path / "r.csv")) == len(truth)


@pytest.mark.slow
def test_confirm_says_which_library_agreed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "inspect", folder / "model.pkl", "--allow-pickle", "--confirm")
    assert code == 0, err
    assert re.search(r"^confirmed  labels of \d+ rows equal those of the pickled model", out, re.MULTILINE)


@pytest.mark.parametrize("command", [["inspect"], ["check", "r.json"], ["map", "--l0", "1", "--out", "m.tpm"]])
def test_confirm_has_nothing_to_say_about_our_own_format(
    command: list[str],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *rest = command
    code, _, err = run(capsys, name, folder / "model.json", *rest, "--confirm")
    assert code == 2 and "nothing to confirm" in err and err.endswith("leave --confirm out\n")


def test_a_difference_ends_the_command_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(data: bytes, module: str, title: str, voting: Any, rows: np.ndarray, cut: Any) -> tuple[np.ndarray, str]:
        return np.full(len(rows), 7), "1.0"

    monkeypatch.setattr("treeproof.importers.confirm._ask", other)
    for command in (["inspect"], ["verify", folder / "test.csv", "--label", "y", "--delta", "0.5"]):
        name, *rest = command
        code, out, err = run(capsys, name, folder / "model.pkl", *rest, "--allow-pickle", "--confirm")
        assert code == 3 and out == "" and err.count("\n") == 1
        assert "predicts 7 and treeproof" in err


ATTACKS: list[tuple[list[str], tp.Attacker]] = [
    (["--delta", "0.5", "--one-sided", "--budget", "1"], tp.Attacker((-0.5, 0.0), budget=1)),
    (["--delta", "0.5", "--only", "mean radius"], tp.Attacker({"mean radius": (-0.5, 0.5)})),
    (["--delta", "mean radius=0.5,worst area=9"], tp.Attacker({"mean radius": (-0.5, 0.5), "worst area": (-9, 9)})),
    (
        ["--delta", "mean radius=0:0.5,worst area=-9:9"],
        tp.Attacker({"mean radius": (0, 0.5), "worst area": (-9, 9)}),
    ),
    (["--delta", "-0.5:0.25", "--domain", "0:5000"], tp.Attacker((-0.5, 0.25), domain=(0, 5000))),
    (
        ["--any", "mean radius", "--domain", "mean radius=5:30"],
        tp.Attacker({"mean radius": tp.ANY}, domain={"mean radius": (5, 30)}),
    ),
    (
        ["--delta", "mean texture=1", "--any", "mean radius", "--cost", "mean radius=2", "--budget", "2"],
        tp.Attacker({"mean texture": (-1, 1), "mean radius": tp.ANY}, costs={"mean radius": 2}, budget=2),
    ),
    (
        ["--delta", "0.5", "--any", "worst area", "--budget", "1"],
        tp.Attacker({0: (-0.5, 0.5), 1: (-0.5, 0.5), 3: (-0.5, 0.5), "worst area": tp.ANY}, budget=1),
    ),
    (["--l0", "1", "--domain", "0:5000"], tp.Attacker.l0(1, domain=(0, 5000))),
    (["--l0", "1"], tp.Attacker.l0(1)),
    (["--norm", "2", "--radius", "0.5"], tp.Attacker.lp(2, 0.5)),
    (["--norm", "1", "--radius", "2", "--scale", "mean radius=2.5"], tp.Attacker.lp(1, 2, scale={"mean radius": 2.5})),
    (["--norm", "inf", "--radius", "0.5"], tp.Attacker.linf(0.5)),
]


@pytest.mark.parametrize(("options", "attacker"), ATTACKS, ids=[" ".join(options) for options, _ in ATTACKS])
def test_every_way_to_describe_an_attacker(
    options: list[str], attacker: tp.Attacker, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attacker.to_json(tmp_path / "attacker.json")
    for i, way in enumerate((options, ["--attacker", str(tmp_path / "attacker.json")])):
        code, _, err = run(
            capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", *way, "--json",
            tmp_path / f"{i}.json",
        )  # fmt: skip
        assert code == 0, err
        written = tp.Verification.from_json(tmp_path / f"{i}.json")
        np.testing.assert_array_equal(written.stability, expected(folder, attacker).stability)


def test_relative_sizes_are_fractions_of_the_range(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, _ = run(
        capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.05", "--relative",
        "--epsilon", "0.01", "--json", tmp_path / "r.json",
    )  # fmt: skip
    frame = pd.read_csv(folder / "test.csv")[COLUMNS]
    size = (frame.max() - frame.min()).to_numpy()
    truth = expected(folder, tp.Attacker([(-0.05 * s, 0.05 * s) for s in size]), epsilon=(0.01 * size).tolist())
    written = tp.Verification.from_json(tmp_path / "r.json")
    assert code == 0
    np.testing.assert_array_equal(written.stability, truth.stability)
    np.testing.assert_array_equal(written.resilience_by_epsilon[0], truth.resilience_by_epsilon[0])


@pytest.mark.parametrize("relative", [False, True])
def test_a_neighbourhood_by_name(
    relative: bool, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(folder / "test.csv")[COLUMNS]
    size = (frame.max() - frame.min()) if relative else pd.Series(1.0, COLUMNS)
    question = ["verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.05"]
    code, out, err = run(
        capsys, *question, "--epsilon", "mean radius=0.02,worst area=0.1", "--json", tmp_path / "r.json",
        *(["--relative"] if relative else []),
    )  # fmt: skip
    assert code == 0, err
    attacker = tp.Attacker([(-0.05 * s, 0.05 * s) for s in size])
    epsilon = {"mean radius": 0.02 * size["mean radius"], "worst area": 0.1 * size["worst area"]}
    truth = expected(folder, attacker, epsilon=epsilon)
    written = tp.Verification.from_json(tmp_path / "r.json")
    np.testing.assert_array_equal(written.resilience_by_epsilon[0], truth.resilience_by_epsilon[0])
    assert "resilient, ε = mean radius 0.02, worst area 0.1" in out


def test_a_gate_for_ci(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = [
        "verify",
        folder / "model.json",
        folder / "test.csv",
        "--label",
        "y",
        "--delta",
        "0.5",
        "--epsilon",
        "0.1",
    ]
    truth = expected(folder, tp.Attacker.linf(0.5), epsilon=0.1)
    r, resilience = float(truth.robustness), float(truth.resilience or 0)
    assert run(capsys, *question, "--fail-under-robustness", r, "--fail-under-resilience", resilience)[0] == 0
    code, out, _ = run(capsys, *question, "--fail-under-robustness", r + 0.001)
    assert code == 1 and "FAILED" in out and "robustness" in out
    assert run(capsys, *question, "--fail-under-resilience", resilience + 0.001)[0] == 1
    # What is not decided is not proved.
    assert run(capsys, *question, "--max-seconds", "0", "--fail-under-robustness", "0.01")[0] == 1


def test_a_gate_for_each_class(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["verify", folder / "model.json", folder / "test.csv", "--label", "y", "--classes", "bad,good"]
    frame = pd.read_csv(folder / "test.csv").replace({"y": {0: "bad", 1: "good"}})
    frame.to_csv(folder / "named.csv", index=False)
    question[2] = folder / "named.csv"
    question += ["--delta", "0.5", "--epsilon", "0.1"]
    truth = expected(folder, tp.Attacker.linf(0.5), epsilon=0.1).by_class
    bad, good = truth[0].robustness.lower, truth[1].robustness.lower
    assert bad != good
    code, out, _ = run(capsys, *question, "--fail-under-robustness", f"{min(bad, good) - 0.1},bad={bad},good={good}")
    assert code == 0
    line = next(line.split() for line in out.splitlines() if line.strip().startswith("bad"))
    assert line == [
        "bad",
        str(len(truth[0])),
        *(f"{one:.3f}" for one in (truth[0].accuracy, bad, float(truth[0].resilience or 0))),
        "0",
    ]
    for option, share in (("robustness", bad), ("resilience", truth[0].resilience.lower)):  # type: ignore[union-attr]
        gate = f"--fail-under-{option}"
        assert run(capsys, *question, gate, f"bad={share}", gate, "0")[0] == 0
        code, out, _ = run(capsys, *question, gate, f"bad={share + 0.001}", gate, "0")
        assert code == 1 and re.search(f"FAILED     {option}.* of class bad {share:.3f} is not proved", out)
    frame[frame["y"] == "good"].to_csv(folder / "good.csv", index=False)
    question[2] = folder / "good.csv"
    code, out, _ = run(capsys, *question, "--fail-under-robustness", "bad=0")
    assert code == 1 and "no row has this label" in out


def test_only_rows_of_actors_are_attacked(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.5"]
    code, out, _ = run(capsys, *question, "--actors", "0", "--json", tmp_path / "r.json")
    truth = expected(folder, tp.Attacker.linf(0.5), actors=[0])
    assert code == 0 and f"{float(truth.robustness):.3f}" in out
    assert "actors     only rows of class 0 are attacked; the others count by accuracy alone\n" in out
    assert tp.Verification.from_json(tmp_path / "r.json").actors == (0,)
    code, parts, _ = run(capsys, *question, "--actors", "0", "--out", tmp_path / "out")
    assert code == 0 and "only rows of class 0" in parts and f"{float(truth.robustness):.3f}" in parts


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_gate_is_not_silent_about_columns_out_of_reach(
    in_parts: bool, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["verify", folder / "model.json", folder / "test.csv", "--label", "y"]
    question += ["--out", tmp_path / "out", "--chunk-rows", "30"] if in_parts else []
    said = "2 of the 4 columns that the attacker may move reach no threshold of the model from any row: "
    said += "mean radius, worst area"
    delta = ["--delta", "mean radius=1e-9,mean texture=9,worst area=1e-9,worst concavity=9"]
    code, out, _ = run(capsys, *question, *delta, "--fail-under-robustness", "0")
    assert code == 0 and f"in vain    {said}\n" in out
    assert f"WARNING    passed, but {said}; --strict fails then\n" in out
    question += ["--resume"] if in_parts else []
    code, out, _ = run(capsys, *question, *delta, "--strict")
    assert code == 1 and f"FAILED     {said} (--strict)\n" in out and "WARNING" not in out
    code, out, _ = run(capsys, *question, *delta)
    assert code == 0 and "in vain" in out and "WARNING" not in out, "where there is no gate, the line above is enough"


def test_all_columns_within_reach_need_no_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "50"]
    code, out, _ = run(capsys, *question, "--strict", "--fail-under-robustness", "0")
    assert code == 0 and "in vain" not in out and "WARNING" not in out


@pytest.mark.parametrize("out_name", ["g.csv", "parts/"])
def test_guards_say_what_is_moved_in_vain(
    out_name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["guard", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "mean radius=1e-9"]
    code, out, _ = run(capsys, *question, "--out", f"{tmp_path}/{out_name}")
    assert code == 0
    assert "in vain    1 of the 1 columns that the attacker may move reaches no threshold of the model" in out


def test_inspect_says_what_was_imported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", folder / "model.json")
    assert code == 0
    for word in ("7", "mean texture", "float64", "argmax", "thresholds"):
        assert word in out


def test_a_map_is_built_checked_and_resumed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = ["map", folder / "model.json", "--delta", "0.5", "--budget", "1", "--out", tmp_path / "m.tpm"]
    code, out, _ = run(capsys, *build, "--data", folder / "test.csv", "--label", "y", "--max-boxes", "50")
    assert code == 0 and "--resume" in out and not tp.StabilityMap.load(tmp_path / "m.tpm").complete
    code, out, _ = run(capsys, *build, "--resume", "--proofs", tmp_path / "m.tpp")
    assert code == 0 and tp.StabilityMap.load(tmp_path / "m.tpm").complete and "complete" in out
    check = ["check", folder / "model.json", tmp_path / "m.tpm", "--sample", "20"]
    code, out, _ = run(capsys, *check, "--proofs", tmp_path / "m.tpp")
    assert code == 0 and "all boxes tile the space" in out and "20 of" in out
    code, out, _ = run(capsys, *check)
    assert code == 1 and "proofs     0 of" in out and "--proofs FILE" in out and "FAILED" in out
    code, out, _ = run(capsys, *check, "--no-proofs")
    assert code == 0 and "they may be wrong" in out


@pytest.mark.parametrize("mode", ["online", "map"])
def test_guard_labels_rows_or_abstains(
    mode: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attack = ["--delta", "0.5", "--budget", "1"]
    if mode == "map":
        run(capsys, "map", folder / "model.json", *attack, "--out", tmp_path / "m.tpm")
        attack = ["--map", str(tmp_path / "m.tpm")]
    question = ["guard", folder / "model.json", folder / "test.csv", "--label", "y", "--out", tmp_path / "o.csv"]
    code, out, err = run(capsys, *question, *attack)
    assert code == 0, err
    before, after = pd.read_csv(folder / "test.csv"), pd.read_csv(tmp_path / "o.csv", dtype={"prediction": str})
    pd.testing.assert_frame_equal(after[before.columns], before)
    truth = expected(folder, tp.Attacker((-0.5, 0.5), budget=1))
    stable = truth.stability == tp.Outcome.PROVED
    assert (after["prediction"] != "abstain").tolist() == stable.tolist() and 0 < stable.sum() < len(stable)
    assert after["prediction"][stable].tolist() == [str(label) for label in truth.predicted[stable].tolist()]
    assert f"{int(stable.sum())} of {len(stable)} rows" in out
    if mode == "map":
        code, _, err = run(capsys, *question, *attack, "--delta", "1")
        assert code == 2 and "a map comes with its attacker" in err


def test_a_guard_protects_what_the_attacker_wants(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tp.load_model(folder / "model.json")
    goal = model.classes.tolist()[0]
    attacker = tp.Attacker((-0.5, 0.2), budget=1, goal=goal)
    X = pd.read_csv(folder / "test.csv")[COLUMNS].to_numpy()
    result = tp.verify(model, X, model.predict(X), attacker)
    made = [result.witness(int(row)).attacked for row in np.flatnonzero(result.stability == tp.Outcome.REFUTED)]
    pd.DataFrame(np.array(made), columns=COLUMNS).to_csv(tmp_path / "made.csv", index=False)
    question = ["guard", folder / "model.json", tmp_path / "made.csv", "--delta=-0.5:0.2", "--budget", "1"]
    question += ["--goal", str(goal), "--out", tmp_path / "o.csv"]
    code, out, err = run(capsys, *question)
    assert code == 0 and made, err
    assert f"answered   0 of {len(made)} rows" in out
    assert f"promise    genuine: no row that is answered {goal!r} can have been made, by an attack, of one with" in out
    code, out, _ = run(capsys, *question, "--promise", "stable")
    assert code == 0 and f"answered   {len(made)} of {len(made)} rows" in out
    assert f"promise    stable: no attack on a row that is answered turns the answer into {goal!r}" in out
    code, _, err = run(capsys, *question, "--promise", "kept")
    assert code == 2 and "promise must be one of 'genuine', 'stable', got 'kept'" in err


@pytest.mark.parametrize("kind", [["boosting"], ["forest"], ["forest", "--criterion", "treant"]])
def test_train_writes_a_model_that_verify_reads(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: list[str]
) -> None:
    code, out, err = run(
        capsys, "train", folder / "train.csv", "--label", "y", "--delta", "0.02", "--relative", "--trees", "3",
        "--depth", "3", "--out", tmp_path / "robust.json", "--kind", *kind,
    )  # fmt: skip
    assert code == 0, err
    assert ("RobustForest" if kind[0] == "forest" else "RobustBoosting") in out
    rows = pd.read_csv(folder / "train.csv")
    X, y = rows[COLUMNS].to_numpy(), rows["y"]
    best = tp.ceiling(X, y, tp.Attacker.linf(0.02 * np.ptp(X, axis=0))).accuracy
    said = re.search(r"No classifier is robust at more than ([\d.]+) % of them", out)
    assert said is not None and best <= float(said[1]) / 100 + 1e-12 <= best + 0.001
    assert tp.load_model(tmp_path / "robust.json").feature_names == tuple(COLUMNS)
    code, out, err = run(
        capsys, "verify", tmp_path / "robust.json", folder / "test.csv", "--label", "y", "--delta", "mean radius=0.5"
    )  # fmt: skip
    assert code == 0 and "robust" in out, err


def test_train_finds_the_ceiling_of_some_rows_where_there_are_many(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from treeproof.cli.commands import train as command

    rows = pd.read_csv(folder / "train.csv")
    monkeypatch.setattr(command, "MOST_BOUNDED", len(rows) // 2)
    question = ["--label", "y", "--delta", "0.5", "--trees", "1", "--epsilon", "0.1", "--out", tmp_path / "o.json"]
    code, out, err = run(capsys, "train", folder / "train.csv", *question)
    some = rows[:: -(-len(rows) // (len(rows) // 2))]
    best = tp.ceiling(some[COLUMNS].to_numpy(), some["y"], tp.Attacker.linf(0.5), 0.1).accuracy
    assert code == 0, err
    said = re.search(rf"No classifier is resilient at more than ([\d.]+) % of {len(some)} of them", out)
    assert said is not None and best <= float(said[1]) / 100 + 1e-12 <= best + 0.001


def test_train_says_that_boosting_has_no_criterion(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["--label", "y", "--delta", "0.5", "--criterion", "groot", "--out", tmp_path / "o.json"]
    code, _, err = run(capsys, "train", folder / "train.csv", *question)
    assert code == 2 and "--criterion is for forests; add --kind forest" in err


def test_check_accepts_a_result_and_refuses_a_false_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.json"
    run(
        capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.5", "--json", file
    )  # fmt: skip
    code, out, _ = run(capsys, "check", folder / "model.json", file)
    assert code == 1 and "holds" in out and "FAILED     not everything that is called proved was checked" in out
    code, out, _ = run(capsys, "check", folder / "model.json", file, "--no-proofs")
    assert code == 0 and "rows that are called proved: they may be wrong" in out
    code, _, err = run(capsys, "check", folder / "model.json", file, "--no-proofs", "--proofs", "p.tpp")
    assert code == 2 and "are opposites" in err
    result = tp.Verification.from_json(file)
    changed(result, stability=np.zeros_like(result.stability)).to_json(file)
    code, _, err = run(capsys, "check", folder / "model.json", file)
    assert code == 2 and err.startswith("treeproof: row")


VERIFY = ["verify", "model.json", "test.csv", "--label", "y"]
WRONG: list[tuple[str, list[str], str]] = [
    ("missing model", ["verify", "no.json", "test.csv", "--delta", "1"], "cannot read no.json: No such file"),
    ("missing data", ["verify", "model.json", "no.csv", "--delta", "1"], "cannot read no.csv: No such file"),
    ("label column", ["verify", "model.json", "test.csv", "--label", "z", "--delta", "1"], "no column 'z'; it has"),
    (
        "text",
        ["verify", "model.json", "text.csv", "--label", "y", "--delta", "1"],
        "row 1, column 'mean radius': 'big'",
    ),
    ("width", ["verify", "model.json", "narrow.csv", "--label", "y", "--delta", "1"], "no column 'worst concavity'"),
    ("pickle", ["verify", "model.pkl", "test.csv", "--delta", "1"], "--allow-pickle"),
    ("corrupt model", ["verify", "corrupt.json", "test.csv", "--delta", "1"], "corrupt.json"),
    ("epsilon", [*VERIFY, "--delta", "1", "--epsilon", "-1"], "--epsilon must be at least 0, got -1"),
    ("epsilon by an unknown name", [*VERIFY, "--delta", "1", "--epsilon", "age=1"], "no feature 'age'"),
    ("empty", ["verify", "model.json", "empty.csv", "--label", "y", "--delta", "1"], "empty.csv has no rows"),
    ("unknown option", [*VERIFY, "--detla", "1"], "--detla"),
    ("a folder", ["verify", "model.json", ".", "--delta", "1"], "is not a data file that treeproof reads"),
    ("no attacker", VERIFY, "--attacker, --threat, --l0, --norm to say what the attacker can do; got none"),
    ("two attackers", [*VERIFY, "--delta", "1", "--l0", "1"], "got --delta and --l0"),
    ("delta", [*VERIFY, "--delta", "much"], "--delta must be a number.*'much'"),
    ("negative delta", [*VERIFY, "--delta", "-1"], "--delta must be at least 0"),
    ("feature name", [*VERIFY, "--delta", "mean radios=1"], "no feature 'mean radios'"),
    ("an empty range", [*VERIFY, "--delta", "mean radius=5:1"], "--delta 5:1 is empty"),
    ("half a range", [*VERIFY, "--delta", "mean radius=5:"], "--delta must be low:high, or name=low:high,…; got ''"),
    ("a range to one side", [*VERIFY, "--delta", "-1:1", "--one-sided"], "--delta -1:1 says itself how far"),
    (
        "named twice",
        [*VERIFY, "--delta", "mean radius=1", "--any", "mean radius"],
        "--any and --delta both name mean r",
    ),
    ("no domain", [*VERIFY, "--delta", "1", "--domain", "5"], "--domain must be low:high, or name=low:high,…; got '5'"),
    ("a step of words", [*VERIFY, "--delta", "1", "--step", "big"], "step"),
    ("a cost of words", [*VERIFY, "--delta", "1", "--cost", "much"], "--cost must be a number"),
    ("blanks", [*VERIFY, "--blank", "mean radius=x"], "--blank and --fill must be columns, as in income or .* got 'x'"),
    ("a goal", [*VERIFY, "--delta", "1", "--goal", "bad"], "--goal: the model has no class 'bad'; it has 0, 1"),
    (
        "l0 and cost",
        [*VERIFY, "--l0", "1", "--cost", "2"],
        "--cost goes with --delta, --any, --blank, --fill, not with --l0",
    ),
    (
        "a file and domain",
        [*VERIFY, "--attacker", "a.json", "--domain", "0:1"],
        "--domain goes with .*, not with --attac",
    ),
    ("blank and l0", [*VERIFY, "--l0", "1", "--blank", "mean radius"], "got --blank and --l0"),
    ("no threat", [*VERIFY, "--threat", "test.csv"], "test.csv is not JSON"),
    (
        "train for a goal",
        ["train", "test.csv", "--label", "y", "--delta", "1", "--goal", "1", "--out", "o.json"],
        "training on the command line knows no goal",
    ),
    (
        "train in steps",
        ["train", "test.csv", "--label", "y", "--delta", "1", "--step", "1", "--out", "o.json"],
        "training on the command line knows attackers with intervals",
    ),
    ("scale alone", [*VERIFY, "--delta", "1", "--scale", "2"], "--scale goes with --norm, not with --delta"),
    ("norm alone", [*VERIFY, "--norm", "2"], "--norm and --radius go together"),
    ("gate without epsilon", [*VERIFY, "--delta", "1", "--fail-under-resilience", "0.9"], "needs --epsilon"),
    (
        "a gate for no class",
        [*VERIFY, "--delta", "1", "--fail-under-robustness", "bad=0.9"],
        "no class 'bad'; it has 0",
    ),
    ("actors", [*VERIFY, "--delta", "1", "--actors", "bad"], "--actors: the model has no class 'bad'; it has 0, 1"),
    ("no actors", [*VERIFY, "--delta", "1", "--actors", ","], "--actors must name classes"),
    ("two gates", [*VERIFY, "--delta", "1", "--fail-under-robustness", "1=0,1=1"], "two shares for 1; give one"),
    ("a gate of words", [*VERIFY, "--delta", "1", "--fail-under-robustness", "high"], "such as 0.9, or .* got 'high'"),
    ("gate above 1", [*VERIFY, "--delta", "1", "--fail-under-robustness", "90"], "between 0 and 1, got 90"),
    ("classes", [*VERIFY, "--delta", "1", "--classes", "a,b,c"], "must name the model's 2 classes"),
    ("unknown command", ["verfy"], "verfy"),
    ("attacker file", [*VERIFY, "--attacker", "test.csv"], "test.csv is not JSON"),
    ("unwritable", [*VERIFY, "--delta", "1", "--json", "no/r.json"], "cannot write no/r.json: no is not a folder"),
    ("a folder to write", [*VERIFY, "--delta", "1", "--csv", "."], "cannot write .: it is a folder"),
    ("jobs", [*VERIFY, "--delta", "1", "--jobs", "0"], "--jobs must be a number of workers, or -1 for all, got 0"),
    ("ranges alone", [*VERIFY, "--delta", "1", "--ranges", "test.csv"], "--ranges needs --relative"),
    ("map of a ball", ["map", "model.json", "--norm", "2", "--radius", "1", "--out", "m.tpm"], "interval"),
    (
        "train on text",
        ["train", "text.csv", "--label", "y", "--delta", "1", "--out", "o.json"],
        "'big' is not a number",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_wrong_input_ends_with_one_line_and_2(
    arguments: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:

    monkeypatch.chdir(folder)
    lines = Path("test.csv").read_text().splitlines()
    Path("empty.csv").write_text(lines[0] + "\n")
    Path("text.csv").write_text("\n".join([*lines[:2], "big," + lines[2].partition(",")[2], *lines[3:9]]) + "\n")
    Path("narrow.csv").write_text("\n".join(",".join((*line.split(",")[:3], line.split(",")[4])) for line in lines))
    Path("corrupt.json").write_bytes(Path("model.json").read_bytes()[:500])
    code, _, err = run(capsys, *arguments)
    said = [line for line in err.splitlines() if line.startswith("treeproof: ")]
    assert code == 2 and len(said) == 1 and "Traceback" not in err
    assert re.search(message, said[0]), said[0]


def test_fractions_can_be_of_other_data(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_row = pd.read_csv(folder / "test.csv")[:1]
    one_row.to_csv(tmp_path / "one.csv", index=False)
    question = ["verify", folder / "model.json", tmp_path / "one.csv", "--label", "y", "--delta", "0.05", "--relative"]
    code, _, err = run(capsys, *question)
    assert code == 2 and "no feature varies" in err and "--ranges" in err
    code, _, err = run(capsys, *question, "--ranges", folder / "train.csv", "--json", tmp_path / "r.json")
    assert code == 0, err
    train = pd.read_csv(folder / "train.csv")[COLUMNS]
    size = (train.max() - train.min()).tolist()
    assert tp.Verification.from_json(tmp_path / "r.json").attacker == tp.Attacker([(-0.05 * s, 0.05 * s) for s in size])


def test_a_guard_never_takes_ranges_from_the_rows_it_labels(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = [
        "guard", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.02", "--relative", "--out",
        tmp_path / "o.csv",
    ]  # fmt: skip
    code, _, err = run(capsys, *question)
    assert code == 2 and "--ranges FILE" in err
    assert run(capsys, *question, "--ranges", folder / "train.csv")[0] == 0


def test_numbers_on_the_screen_do_what_they_say(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shown moves are rounded; the rounded numbers still turn the label."""
    _, out, _ = run(capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.5")
    ensemble, X = tp.load_model(folder / "model.json"), pd.read_csv(folder / "test.csv")[COLUMNS].to_numpy()
    shown = re.findall(r"broken     row (\d+): (.*) turns (\d) into (\d)", out)
    assert shown
    for row, moves, before, after in shown:
        x = X[int(row)].copy()
        for name, _, to in re.findall(r"([a-z ]+?) (-?[\d.e+-]+) → (-?[\d.e+-]+)", moves.replace(", ", ",")):
            x[COLUMNS.index(name.strip(" ,"))] = float(to)
        assert (str(ensemble.predict([X[int(row)]])[0]), str(ensemble.predict([x])[0])) == (before, after)


def test_check_refuses_the_result_of_another_model(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ["--label", "y", "--delta", "0.5", "--json", tmp_path / "r.json"]
    run(capsys, "verify", folder / "model.json", folder / "test.csv", *question)
    run(
        capsys, "train", folder / "train.csv", "--label", "y", "--delta", "0.5", "--trees", "1", "--out", tmp_path / "o"
    )
    code, _, err = run(capsys, "check", tmp_path / "o", tmp_path / "r.json", "--sample", "1")
    assert code == 2 and "was made for another model" in err


def test_resume_says_what_it_takes_over(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    question = ["verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.5", "--json", file]
    _, out, _ = run(capsys, *question, "--resume")
    assert f"there is no {file} yet" in out
    _, out, _ = run(capsys, *question, "--resume")
    assert "80 of 80 rows taken over" in out


def test_neighbourhoods_keep_the_names_they_were_given(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(
        capsys, "verify", folder / "model.json", folder / "test.csv", "--label", "y", "--delta", "0.02", "--relative",
        "--epsilon", "0.005,0.01", "--csv", tmp_path / "r.csv", "--json", tmp_path / "r.json",
    )  # fmt: skip
    assert "resilient, ε = 0.005 of the range" in out
    assert "resilience at 0.01 of the range" in pd.read_csv(tmp_path / "r.csv").columns
    assert "at ε = 0.01 of the range" in repr(tp.Verification.from_json(tmp_path / "r.json"))


def test_a_pickle_is_read_when_it_is_allowed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", folder / "model.pkl", "--allow-pickle")
    assert code == 0 and "RandomForestClassifier" in out


def test_classes_can_be_renamed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(folder / "test.csv")
    frame["y"] = np.where(frame["y"] == 1, "benign", "malignant")
    frame.to_csv(tmp_path / "named.csv", index=False)
    question = ["verify", folder / "model.json", tmp_path / "named.csv", "--label", "y", "--delta", "0.5"]
    code, _, err = run(capsys, *question)
    assert code == 2 and "--classes" in err
    code, out, _ = run(capsys, *question, "--classes", "malignant,benign")
    assert code == 0 and f"{float(expected(folder, tp.Attacker.linf(0.5)).robustness):.3f}" in out


def start(*arguments: Any, by: tuple[str, str] = ("-m", "treeproof"), **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *by, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
        # Whoever started the tests may have told them to ignore Ctrl-C, as a shell does for work in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


STOPPED = """
import sys, threading
from tests.support.clock import main_thread_waits, until
from treeproof.cli.main import main
from treeproof.results.row_table import RowTable
from treeproof.run.limits import Limits
take, interrupt, stopped = RowTable.take, Limits.interrupt, threading.Event()

def wait_after_the_first(self, *answer):
    RowTable.take = take
    take(self, *answer)
    until(main_thread_waits)
    print("the first answer is here", file=sys.stderr, flush=True)
    stopped.wait()

RowTable.take = wait_after_the_first
Limits.interrupt = lambda self: (interrupt(self), stopped.set())
main(sys.argv[1:])
"""
"""The command line, which goes on after its first answer only when it is stopped."""


def started_to_stop(*arguments: Any, **more: Any) -> subprocess.Popen[str]:
    """A command that has one answer, and waits for a signal."""
    process = start(*arguments, by=("-c", STOPPED), env=os.environ | {"PYTHONPATH": PYTHONPATH}, **more)
    assert process.stderr is not None
    while process.stderr.readline() not in ("the first answer is here\n", ""):
        pass
    return process


@pytest.mark.slow
def test_ctrl_c_saves_what_was_decided_and_resume_goes_on(tmp_path: Path) -> None:
    data = load_breast_cancer(as_frame=True)
    clf = RandomForestClassifier(60, max_depth=8, random_state=0).fit(data.data.to_numpy(), data.target)
    tp.save_model(tp.from_model(clf), tmp_path / "model.json")
    rows = pd.concat([data.data] * 15, ignore_index=True)
    rows.assign(label=np.tile(data.target, 15)).to_csv(tmp_path / "many.csv", index=False)
    question = [
        "verify", tmp_path / "model.json", tmp_path / "many.csv", "--delta", "0.03", "--relative", "--json",
        tmp_path / "r.json", "--jobs", "1",
    ]  # fmt: skip
    process = started_to_stop(*question)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert "undecided" in out and "--resume" in out
    part = tp.Verification.from_json(tmp_path / "r.json")
    decided = int((part.stability != tp.Outcome.UNKNOWN).sum())
    assert 0 < decided < len(part) and part.interrupted
    process = start(*question, "--resume")
    out, err = process.communicate()
    assert process.returncode == 0, err
    whole = tp.Verification.from_json(tmp_path / "r.json")
    assert (whole.stability != tp.Outcome.UNKNOWN).all()
    known = part.stability != tp.Outcome.UNKNOWN
    np.testing.assert_array_equal(whole.stability[known], part.stability[known])


WITH_A_QUICK_REPORT = """
import sys
from treeproof.cli.main import main
from treeproof.present.report import curves, planes
curves.MAX_ROWS, planes.RESOLUTIONS = 20, (8,)
main(sys.argv[1:])
"""


@pytest.mark.slow
def test_sigterm_ends_at_once_without_the_report_and_resuming_writes_it(tmp_path: Path) -> None:
    data = load_breast_cancer(as_frame=True)
    clf = RandomForestClassifier(60, max_depth=8, random_state=0).fit(data.data.to_numpy(), data.target)
    tp.save_model(tp.from_model(clf), tmp_path / "model.json")
    rows = pd.concat([data.data] * 6, ignore_index=True)
    rows.assign(label=np.tile(data.target, 6)).to_csv(tmp_path / "many.csv", index=False)
    question = [
        "verify",
        "model.json",
        "many.csv",
        "--delta",
        "0.03",
        "--relative",
        "--report",
        "r.html",
        "--jobs",
        "1",
    ]
    process = started_to_stop(*question, cwd=tmp_path)
    process.terminate()
    out, err = process.communicate()
    assert process.returncode == 143, err
    assert "r.html is not written" in out and not (tmp_path / "r.html").exists()
    part = tp.Verification.from_json(tmp_path / "many.partial.json")
    assert part.interrupted and 0 < (part.stability != tp.Outcome.UNKNOWN).sum() < len(part)
    process = start(*question, "--resume", by=("-c", WITH_A_QUICK_REPORT), cwd=tmp_path)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert (tmp_path / "r.html").exists() and not (tmp_path / "many.partial.json").exists()


@pytest.mark.slow
def test_the_demo_tells_the_whole_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "MAX_ROWS", 20)
    monkeypatch.setattr(planes, "RESOLUTIONS", (8,))
    code, out, err = run(capsys, "demo", "--out", tmp_path / "demo.html")
    assert code == 0, err
    shares = [float(share) for share in re.findall(r"(?:accurate|robust|resilient) (0\.\d+)", out)]
    assert len(shares) == 6
    for accuracy, robustness, resilience in (shares[:3], shares[3:]):
        assert accuracy >= robustness >= resilience > 0.7
    assert "instead of" in out and "boxes" in out and str(tmp_path / "demo.html") in out
    assert 10_000 < (tmp_path / "demo.html").stat().st_size < 3_000_000


MODULES = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from treeproof.cli.main import main
main(["--help"])
"""


def test_help_is_quick() -> None:
    """What takes long to import is not."""
    done = subprocess.run([sys.executable, "-c", MODULES], check=True, capture_output=True, text=True)
    slow = {"numba", "sklearn", "scipy", "pandas", "joblib", "xgboost", "lightgbm", "catboost", "onnx", "matplotlib"}
    assert "Usage" in done.stdout and slow.isdisjoint(done.stderr.split())


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for name in ("demo", "verify", "inspect", "map", "guard", "train", "check"):
        assert name in out
        assert run(capsys, name, "--help")[0] == 0


@pytest.mark.parametrize("names", [None, ("f0", "f1", "f2", "f3")])
def test_columns_go_by_position_where_the_model_does_not_name_them_and_the_command_says_so(
    names: tuple[str, ...] | None, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = with_names(tp.load_model(folder / "model.json"), names)
    tp.save_model(model, tmp_path / "model.json")
    attack = ["--label", "y", "--delta", "mean radius=0.5,worst area=9", "--jobs", "1"]
    code, out, err = run(
        capsys, "verify", tmp_path / "model.json", folder / "test.csv", *attack, "--json", tmp_path / "r.json"
    )
    truth = expected(folder, tp.Attacker({"mean radius": (-0.5, 0.5), "worst area": (-9, 9)}))
    assert code == 0, err
    assert "columns    by position: the model does not name its features" in out
    written = tp.Verification.from_json(tmp_path / "r.json")
    assert written.feature_names == tuple(COLUMNS)
    np.testing.assert_array_equal(written.stability, truth.stability)
    code, out, _ = run(
        capsys, "guard", tmp_path / "model.json", folder / "test.csv", *attack, "--out", tmp_path / "labelled.csv"
    )
    assert code == 0 and "by position" in out
    _, out, _ = run(capsys, "verify", folder / "model.json", folder / "test.csv", *attack)
    assert "by position" not in out
