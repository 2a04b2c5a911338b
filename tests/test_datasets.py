"""The paper's data: what comes out of the files, and one clear line where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.golden import needs_golden
from treeproof import datasets
from treeproof.errors import InvalidInput


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


def test_libsvm_labels_of_breast_cancer(tmp_path: Path) -> None:
    (tmp_path / "breast-cancer.libsvm").write_text("2 1:5 10:1\n4 1:3 2:8\n")
    X, y = datasets.read("breast-cancer", tmp_path)
    assert X.shape == (2, 10) and X[1, :2].tolist() == [3, 8]
    assert y.tolist() == [1, -1]


@needs_golden
@pytest.mark.parametrize(("name", "rows"), [("diabetes", 768), ("breast-cancer", 683), ("cod-rna", 10000)])
def test_data_sets_have_the_sizes_of_the_paper(name: str, rows: int) -> None:
    X, y = datasets.read(name)
    assert len(X) == len(y) == rows
    assert np.unique(y).tolist() == [-1, 1]


def test_errors_name_the_value_and_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TREEPROOF_DATA", raising=False)
    with pytest.raises(InvalidInput, match="no data set is called 'iris'; there are diabetes"):
        datasets.read("iris")
    with pytest.raises(InvalidInput, match="set TREEPROOF_DATA"):
        datasets.read("diabetes")
    with pytest.raises(InvalidInput, match="has no file diabetes.csv"):
        datasets.read("diabetes", tmp_path)
