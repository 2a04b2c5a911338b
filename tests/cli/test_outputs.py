"""Where results of commands go: what is refused before the work, what happens if writing fails after it, and pipes."""

from __future__ import annotations

import errno
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.commands import run
from treeproof import files
from treeproof.cli.commands.verify import ENDINGS
from treeproof.cli.outputs import Outputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model, rows and an attacker."""
    monkeypatch.chdir(tmp_path)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    y = (X["a"] > 0).astype(int)
    tp.save_model(DecisionTreeClassifier(random_state=0).fit(X, y), "model.json")
    X.assign(label=y).to_csv("data.csv", index=False)
    tp.Attacker.linf(0.1).to_json("attacker.json")
    return tmp_path


def start(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "treeproof", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **more)


VERIFY = ["verify", "model.json", "data.csv", "--attacker", "attacker.json", "--jobs", "1"]
GUARD = ["guard", "model.json", "data.csv", "--delta", "0.1"]
SAME: list[tuple[list[str], str]] = [
    ([*VERIFY, "--json", "model.json"], "--json and MODEL are the same file, model.json; choose another for --json"),
    ([*VERIFY, "--csv", "folder/../data.csv"], "--csv and DATA"),
    ([*VERIFY, "--report", "attacker.json"], "--report and --attacker"),
    ([*VERIFY, "--json", "r", "--csv", "./r"], "--csv and --json"),
    ([*VERIFY, "--json", "link", "--csv", "target"], "--csv and --json"),
    ([*VERIFY, "--csv", "hard.csv"], "--csv and DATA"),
    (["map", "model.json", "--delta", "0.1", "--out", "model.json"], "--out and MODEL"),
    (["map", "model.json", "--delta", "0.1", "--data", "data.csv", "--out", "data.csv"], "--out and --data"),
    ([*GUARD, "--out", "data.csv"], "--out and DATA"),
    ([*GUARD, "--relative", "--ranges", "hard.csv", "--out", "hard.csv"], "--out and DATA"),
    (["train", "data.csv", "--delta", "0.1", "--out", "data.csv"], "--out and DATA"),
]


@pytest.mark.parametrize(("arguments", "message"), SAME, ids=[" ".join(case[0]) for case in SAME])
def test_no_file_is_read_and_written_or_written_twice(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("link").symlink_to("target")
    os.link("data.csv", "hard.csv")
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    code, _, err = run(capsys, *arguments)
    assert code == 2 and message in err
    assert before == {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_several_outputs_may_go_to_a_device(folder: Path) -> None:
    # A terminal, as a test that fails must not replace /dev/null.
    master, slave = pty.openpty()
    terminal = os.ttyname(slave)
    outputs = Outputs({"--json": terminal, "--csv": terminal}, {"DATA": "data.csv"}, ENDINGS)
    outputs.save(terminal, lambda file: None)
    assert Path(terminal).is_char_device()
    os.close(master)
    os.close(slave)


WRITERS = [
    [*VERIFY, "--json", "none/x"],
    [*VERIFY, "--csv", "none/x"],
    [*VERIFY, "--report", "none/x"],
    ["map", "model.json", "--delta", "0.1", "--out", "none/x"],
    [*GUARD, "--out", "none/x"],
    ["train", "data.csv", "--delta", "0.1", "--out", "none/x"],
    ["demo", "--out", "none/x"],
]


@pytest.mark.parametrize("arguments", WRITERS, ids=[f"{case[0]} {case[-2]}" for case in WRITERS])
@pytest.mark.parametrize("name", ["none/x", ".", "x" * 300])
def test_what_cannot_be_written_ends_before_the_work(
    arguments: list[str], name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments[:-1], name)
    assert (code, out) == (2, "") and err.startswith(f"treeproof: cannot write {name}: ")
    assert len(err.splitlines()) == 1


def test_reproduce_needs_a_folder_that_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("treeproof.paper.workbench.obstacle", lambda _: "Permission denied")
    code, _, err = run(capsys, "reproduce", "results", "--quick", "--out", "out")
    assert code == 2 and "cannot write to out: Permission denied" in err


@pytest.mark.parametrize("beside", [True, False])
def test_a_result_that_cannot_be_written_is_put_elsewhere(
    beside: bool, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    real = os.replace

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == "r.json" or not (beside or Path(target).parent == temporary or "r.csv" in str(target)):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(files.os, "replace", replace)
    code, out, err = run(capsys, *VERIFY, "--json", "r.json", "--csv", "r.csv")
    where = folder if beside else temporary
    (found,) = where.glob("r.*.json")
    assert code == 2 and "robust" in out and "wrote      r.csv" in out
    said = err.splitlines()[-1]
    assert said.startswith("treeproof: cannot write r.json: No space left on device; it is in ")
    assert Path(said.removesuffix(" instead").split("it is in ")[1]).resolve() == found
    assert len(tp.Verification.from_json(found)) == len(pd.read_csv("r.csv")) == 20


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("arguments", [["inspect", "model.json"], ["--help"]], ids=" ".join)
def test_a_closed_pipe_is_no_error(arguments: list[str], folder: Path, closed_pipe: int) -> None:
    done = start(*arguments, stdout=closed_pipe)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_closed_pipe_ends_nothing_but_the_printing(folder: Path, closed_pipe: int) -> None:
    done = start(*VERIFY, "--json", "r.json", stdout=closed_pipe)
    assert done.returncode == 0 and "Error" not in done.stderr
    assert len(tp.Verification.from_json("r.json")) == 20
    missed = start(
        "verify", "model.json", "data.csv", "--delta", "9", "--fail-under-robustness", "1", stdout=closed_pipe
    )
    assert missed.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["inspect", "model.json"], ["--help"], []], ids=" ".join)
def test_a_full_standard_output_is_one_line(arguments: list[str], folder: Path) -> None:
    with open("/dev/full", "w") as full:
        done = start(*arguments, stdout=full)
    message = "treeproof: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_closed_streams_and_few_letters_are_no_errors(folder: Path) -> None:
    done = subprocess.run(f"{sys.executable} -m treeproof inspect model.json >&- 2>&-", shell=True, check=False)
    assert done.returncode == 0
    tp.save_model(tp.load_model("model.json").with_classes(["ε", "δ"]), "greek.json")
    done = start("inspect", "greek.json", stdout=subprocess.PIPE, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and "\\u03b5, \\u03b4" in done.stdout


def test_no_text_begins_a_line_of_a_terminal_by_its_length(folder: Path) -> None:
    model = tp.load_model("model.json").with_classes(["x" * 60 + " robust 1.000" * 20, "other"])
    tp.save_model(model, "model.json")
    master, slave = pty.openpty()
    done = start("inspect", "model.json", stdout=slave, env=os.environ | {"COLUMNS": "80"})
    os.close(slave)
    out = re.sub(r"\x1b\[[\d;]*m", "", os.read(master, 2**16).decode())
    os.close(master)
    assert done.returncode == 0, done.stderr
    assert out.count("robust 1.000") > 10
    assert not any(line.startswith("robust") for line in out.splitlines())
    assert all(len(line) <= 80 for line in out.splitlines())
