"""`load_model(…, confirm=True)`: the library itself reads the file, and must say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.fuzz.samples import Sample, sample
from tests.support.zoo.case import data
from treeproof.files import read_bytes
from treeproof.importers import _child, confirm, registry
from treeproof.importers.registry import load_and_confirm
from treeproof.model.agreement import probe_rows

KINDS = {
    "xgboost-json-three": "XGBoost",
    "xgboost-ubj-dart": "XGBoost",
    "lightgbm-categories": "LightGBM",
    "catboost-json-three": "CatBoost",
    "catboost-cbm-binary": "CatBoost",
    "onnx-forest": "onnxruntime",
    "skops-pipeline": "scikit-learn",
}


def write(given: Sample, folder: Path) -> Path:
    file = folder / f"model.{given.ending}"
    file.write_bytes(given.content)
    return file


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_library_confirms_its_files(kind: str, tmp_path: Path) -> None:
    ensemble, confirmation = load_and_confirm(write(sample(kind), tmp_path))
    assert confirmation is not None and confirmation.n_rows >= 1000
    assert confirmation.library.startswith(KINDS[kind]), "with its name and version"
    assert confirmation.library[-1].isdigit()
    assert str(confirmation) == f"labels of {confirmation.n_rows} rows equal those of {confirmation.library}"
    assert ensemble.n_trees > 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_labels_of_the_library_are_those_of_the_ensemble(kind: str, tmp_path: Path) -> None:
    given = sample(kind)
    if given.ending == "cbm":
        pytest.skip("a .cbm file is read in another process, which takes a second")
    ensemble = tp.load_model(write(given, tmp_path))
    rows = probe_rows(ensemble, 300)
    labels = confirm.library_labels(given.module, given.content, rows)
    assert labels.tolist() == ensemble.predict(rows).tolist()
    assert len(set(labels.tolist())) > 1


@pytest.fixture
def answered_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child's work done in this process, which saves seconds."""

    def ask(data: bytes, module: str, title: str, voting: Any, rows: np.ndarray, cut: Any) -> tuple[np.ndarray, str]:
        return confirm.library_labels(module, data, rows, voting, cut), "1.0"

    monkeypatch.setattr(confirm, "_ask", ask)


@pytest.mark.usefixtures("answered_here")
def test_a_difference_is_no_model_but_an_error_with_row_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(sample("xgboost-json-three"), tmp_path)
    assert tp.load_model(file, confirm=True).n_classes == 3
    right = confirm.library_labels
    monkeypatch.setattr(confirm, "library_labels", lambda *given: 2 - right(*given))
    with pytest.raises(
        tp.SoundnessError,
        match=r"^of treeproof's own rows beside thresholds, row \d+: XGBoost 1.0 predicts [02] and treeproof",
    ):
        tp.load_model(file, confirm=True)
    tp.load_model(file)


@pytest.mark.usefixtures("answered_here")
def test_pickles_and_votes_are_confirmed_and_classes_renamed_afterwards(tmp_path: Path) -> None:
    X, y = data(2)
    file = tmp_path / "model.pkl"
    joblib.dump(DecisionTreeClassifier(max_depth=3).fit(X, y), file)
    ensemble = tp.load_model(file, allow_pickle=True, voting="hard", classes=["no", "yes"], confirm=True)
    assert ensemble.classes.tolist() == ["no", "yes"]


@pytest.mark.usefixtures("answered_here")
@pytest.mark.parametrize("kind", ["pickle", *KINDS])
def test_what_is_confirmed_is_what_was_imported_even_if_the_file_is_replaced(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is gone as soon as it was read, so nothing can come from a second look at it."""
    if kind == "pickle":
        tree, file = DecisionTreeClassifier(max_depth=3).fit(*data(2)), tmp_path / "model.joblib"
        joblib.dump(tree, file, compress=3)
    else:
        file = write(sample(kind), tmp_path)
    if file.suffix == ".cbm":
        pytest.skip("a .cbm file is read in another process, which takes a second")

    def read_once(path: Path, *limit: int) -> bytes:
        content = read_bytes(path, *limit)
        path.unlink()
        return content

    monkeypatch.setattr(registry, "read_bytes", read_once)
    ensemble, confirmation = load_and_confirm(file, allow_pickle=True)
    assert confirmation is not None and not file.exists()
    if kind == "pickle":
        assert (ensemble.predict(data(2)[0]) == tree.predict(data(2)[0])).all()


def test_formats_without_a_library_have_nothing_to_confirm(tmp_path: Path) -> None:
    X, y = data(2)
    tp.save_model(DecisionTreeClassifier(max_depth=2).fit(X, y), tmp_path / "model.json")
    with pytest.raises(tp.InvalidInput, match="nothing to confirm.*leave confirm out"):
        tp.load_model(tmp_path / "model.json", confirm=True)


def test_a_library_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(sample("lightgbm-binary"), tmp_path)
    monkeypatch.setattr(confirm.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(tp.InvalidInput, match=r"needs lightgbm; pip install 'treeproof\[lightgbm\]'"):
        tp.load_model(file, confirm=True)


FAILURES = {
    "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)": r"XGBoost crashes on it \(signal 11\)",
    "raise ValueError('first\\nsecond')": "ValueError: first second",
    "import signal; signal.pause()": "XGBoost did not read it within",
    "x = bytearray(2**44)": "MemoryError",
    "import os; os._exit(3)": "XGBoost failed with exit code 3",
}


@pytest.mark.parametrize("code", FAILURES)
def test_a_library_that_fails_in_the_child_confirms_nothing(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(sample("xgboost-json-three"), tmp_path)
    monkeypatch.setattr(confirm, "_ANSWER", code)
    if "pause" in code:
        monkeypatch.setattr(_child, "PATIENCE", 0.5)
    with pytest.raises(tp.InvalidInput, match=f"XGBoost does not confirm it: {FAILURES[code]}") as raised:
        tp.load_model(file, confirm=True)
    assert "\n" not in str(raised.value)
