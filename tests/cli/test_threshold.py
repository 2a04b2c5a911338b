"""`--threshold` on every command that loads a model, and what they say about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treeproof as tp
from tests.support.commands import run

TEXT = "label 'good' where its probability is at least 0.3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, size=(200, 3)).astype(float)
    y = (X[:, 0] + rng.normal(size=200) > 3).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1, n_jobs=1).fit(X, y)
    model.booster_.save_model(tmp_path / "model.txt")
    lines = [f"{a},{b},{c},{'good' if label else 'bad'}" for (a, b, c), label in zip(X[:20], y[:20], strict=True)]
    (tmp_path / "test.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    return tmp_path


OPTIONS = ("--threshold", "0.3", "--classes", "bad,good")


def test_inspect_shows_the_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "inspect", folder / "model.txt", *OPTIONS)
    assert code == 0 and f"\n{'label':16}{TEXT.removeprefix('label ')}\n" in out
    code, out, _ = run(capsys, "inspect", folder / "model.txt")
    assert code == 0 and f"\n{'label':16}as the library decides\n" in out


def test_verify_guard_map_and_check_use_the_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, rows, result = folder / "model.txt", folder / "test.csv", folder / "result.json"
    attack = ("--delta", "1", "--jobs", "1")
    code, out, _ = run(capsys, "verify", model, rows, *OPTIONS, *attack, "--json", result)
    assert code == 0 and TEXT in out
    found = tp.Verification.from_json(result)
    assert found.decision == TEXT
    expected = tp.load_model(model, threshold=0.3, classes=["bad", "good"])
    assert (found.predicted == expected.predict(found.X)).all()
    assert run(capsys, "check", model, result, *OPTIONS, "--no-proofs")[0] == 0
    code, _, err = run(capsys, "check", model, result, "--classes", "bad,good")
    assert code == 2 and "with other --voting, --threshold or --classes" in err
    code, out, _ = run(capsys, "map", model, *OPTIONS, *attack, "--out", folder / "model.tpm")
    assert code == 0 and TEXT in out
    code, out, _ = run(capsys, "guard", model, rows, *OPTIONS, *attack, "--out", folder / "labels.csv")
    assert code == 0 and TEXT in out


def test_a_wrong_threshold_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "inspect", folder / "model.txt", "--threshold", "1.5")
    assert code == 2 and out == "" and err.count("\n") == 1
    assert "threshold must be a probability from 0 to 1, got 1.5" in err
