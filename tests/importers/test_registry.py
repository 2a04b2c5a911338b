"""from_model, load_model and save_model: what they find, and how they refuse."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import treeproof as tp

X, y = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)


class Homemade:
    """A class of no library."""


class MyForest(RandomForestClassifier):
    """A user's subclass of a library's class."""


def test_unknown_classes_are_refused_by_name() -> None:
    with pytest.raises(tp.UnsupportedModel, match="no importer for Homemade; known: catboost, lightgbm, onnx, sklearn"):
        tp.from_model(Homemade())


def test_subclasses_of_known_classes_import() -> None:
    model = MyForest(3, max_depth=2, random_state=0).fit(X, y)
    assert (tp.from_model(model).predict(X) == model.predict(X)).all()


def test_a_path_given_as_a_model_is_refused_with_the_way_out() -> None:
    with pytest.raises(tp.InvalidInput, match=r"'model.json' is a path; use load_model"):
        tp.from_model("model.json")


def test_classes_and_ensembles_given_as_models() -> None:
    with pytest.raises(tp.InvalidInput, match="RandomForestClassifier is a class; pass a trained instance of it"):
        tp.from_model(RandomForestClassifier)
    ensemble = tp.from_model(FOREST)
    assert tp.from_model(ensemble) is ensemble


def test_voting_is_checked() -> None:
    with pytest.raises(tp.InvalidInput, match="voting must be 'soft' or 'hard', got 'loud'"):
        tp.from_model(FOREST, voting="loud")


@pytest.mark.slow
def test_from_model_imports_no_library_that_the_model_does_not_need() -> None:
    code = (
        "import sys, treeproof as tp; from sklearn.tree import DecisionTreeClassifier as D\n"
        "tp.from_model(D().fit([[0.0], [1.0]], [0, 1])).predict([[0.5]])\n"
        "print(*[m for m in ('xgboost', 'lightgbm', 'catboost', 'onnx', 'skops') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"{", "is not a valid JSON file"),
        (b"{}", "is JSON, but not a model that treeproof knows"),
        (b"3.5 apples", "is not a model file that treeproof reads"),
        (b"[" * 100_000, "is not a valid JSON file"),
        (bytes(range(256)), "is not a model file that treeproof reads"),
        (b"PK\x03\x04schema.json", "is not a valid skops file"),
        (b"tree\nversion=v4\n", "is not a valid LightGBM text file"),
        (b"CBM1" + bytes(40), "is not a valid CatBoost model"),
        (b"{L\x00\x00\x00\x00\x00\x00\x00\x07learner{", "is not a valid XGBoost UBJSON file"),
    ],
)
def test_files_that_are_not_models_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(content)
    with pytest.raises(tp.InvalidInput, match=message):
        tp.load_model(file)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match="cannot read .*nowhere.json: No such file"):
        tp.load_model(tmp_path / "nowhere.json")
    with pytest.raises(tp.InvalidInput, match="cannot read .*: Is a directory"):
        tp.load_model(tmp_path)


class Bomb:
    def __reduce__(self) -> tuple:
        return (open, ("pickle-was-run", "w"))


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model"])
def test_pickles_are_never_run_unless_allowed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / name
    file.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(tp.InvalidInput, match="loading one runs whatever code .* skops.io.dump .* allow_pickle=True"):
        tp.load_model(file)
    assert not (tmp_path / "pickle-was-run").exists()


@pytest.mark.parametrize("write", [joblib.dump, lambda m, f: f.write_bytes(pickle.dumps(m))])
def test_allowed_pickles_load(write: object, tmp_path: Path) -> None:
    write(FOREST, tmp_path / "model.joblib")
    assert (tp.load_model(tmp_path / "model.joblib", allow_pickle=True).predict(X) == FOREST.predict(X)).all()


def test_a_damaged_allowed_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(FOREST)[:200])
    with pytest.raises(tp.InvalidInput, match="is not a valid pickle"):
        tp.load_model(tmp_path / "model.pkl", allow_pickle=True)


def test_saving_replaces_whole_files_only(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    tp.save_model(FOREST, file)
    before = file.read_bytes()
    mixed = DecisionTreeClassifier().fit(X, y)
    mixed.classes_ = np.array([0, "a", None], dtype=object)
    with pytest.raises(tp.InvalidInput, match="must be all numbers, all text"):
        tp.save_model(mixed, file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]
    for place in (tmp_path / "no folder" / "model.json", tmp_path):
        with pytest.raises(tp.InvalidInput, match="cannot write"):
            tp.save_model(FOREST, place)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [-1, 0, 1], [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("voting", [None, "hard"])
def test_own_format_round_trips_every_array(labels: list, voting: str | None, tmp_path: Path) -> None:
    model = tp.from_model(RandomForestClassifier(4, random_state=0).fit(X, np.array(labels)[y]), voting=voting)
    tp.save_model(model, tmp_path / "model.json")
    again = tp.load_model(tmp_path / "model.json")
    for name in (
        "feature",
        "threshold",
        "left",
        "right",
        "nan_left",
        "leaf",
        "roots",
        "leaf_scores",
        "base",
        "classes",
    ):
        before, after = getattr(model, name), getattr(again, name)
        assert before.dtype == after.dtype, name
        np.testing.assert_array_equal(before, after)
    assert (model.rule, model.columns, model.origin) == (again.rule, again.columns, again.origin)


def own_format() -> dict:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        tp.save_model(FOREST, Path(folder) / "model.json")
        return json.loads((Path(folder) / "model.json").read_text())


PLAIN = {"low": 0.0, "high": 1.0, "missing": False}


def columns(**changes: Any) -> dict:
    """The field of a file with four columns."""
    return {"columns": [{**PLAIN, "name": name, **changes} for name in "abcd"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "its version is 2; this treeproof reads version 3"),
        ({"format": "other"}, "its format is 'other'"),
        ({"extra": 1}, "the model has a field 'extra', which treeproof does not know"),
        ({"columns": "four"}, "columns must be a list, got 'four'"),
        ({"columns": []}, "n_features must be a whole number of at least 1, got 0"),
        (columns(missing=1), "missing of column 0 must be true or false"),
        (columns(other=1), "column 0 has a field 'other', which treeproof does not know"),
        (columns(refused="x"), "refused of column 0 must be a list, got 'x'"),
        (columns(category=1), "a category must be an object with values, coded, unseen, by_text, dtype, missing"),
        ({"class_dtype": "complex"}, "class_dtype must be one of"),
        ({"classes": [0, 1, "2"]}, "class label '2' is not of type int64"),
        ({"trees": []}, "the model has no trees"),
        ({"trees": [7]}, "tree 0 must be an object, got int"),
        (columns(low="big"), "low of column 0 must be a number, got .big"),
        (columns(low=2, high=1), "feature 0 takes no values: its range is 2.0 to 1.0"),
        ({"version": True}, "its version is True"),
        ({"origin": 3}, "origin must be a string, got 3"),
        (columns(name=3), "a feature name must be a string, got 3"),
        ({"rule": {"decision": "argmax"}}, "the rule has no 'precision'"),
        ({"columns": [{**PLAIN, "name": "a"}, *[PLAIN] * 3]}, "names 1 features but takes 4"),
        (columns(name="\ud800"), "a feature name has a character that is not text"),
        ({"origin": "\ud800"}, "origin has a character that is not text"),
        ({"classes": ["a", "b", "c\0"], "class_dtype": "str"}, "a class label has a character that is not text"),
        ({"base": [True, 0, 0]}, "base must be a number, got True"),
    ],
)
def test_own_format_refuses_what_it_does_not_know(change: dict, message: str, tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    file.write_text(json.dumps(own_format() | change))
    with pytest.raises((tp.InvalidInput, tp.UnsupportedModel), match=message):
        tp.load_model(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": "treeproof-ensemble", "format": "treeproof-ensemble"}', "'format' occurs twice"),
        ('{"format": "treeproof-ensemble", "version": NaN}', "NaN is not a JSON number"),
    ],
)
def test_own_format_is_strict_json(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(tp.InvalidInput, match=message):
        tp.load_model(tmp_path / "model.json")


@pytest.mark.parametrize("path", [None, 123, b"model", ["a"], "a\0b", ""])
def test_anything_but_a_path_is_refused(path: object) -> None:
    for call in (tp.load_model, lambda given: tp.save_model(FOREST, given)):
        with pytest.raises(tp.InvalidInput, match="expected a path"):
            call(path)


def test_own_format_refuses_a_missing_field(tmp_path: Path) -> None:
    content = own_format()
    del content["base"]
    (tmp_path / "model.json").write_text(json.dumps(content))
    with pytest.raises(tp.InvalidInput, match="the model has no 'base'"):
        tp.load_model(tmp_path / "model.json")


def test_voting_of_saved_models_is_fixed(tmp_path: Path) -> None:
    tp.save_model(FOREST, tmp_path / "model.json")
    with pytest.raises(tp.InvalidInput, match="voting was chosen when the model was saved"):
        tp.load_model(tmp_path / "model.json", voting="hard")


def test_regressors_are_refused() -> None:
    with pytest.raises(tp.UnsupportedModel, match="no importer for scikit-learn's DecisionTreeRegressor"):
        tp.from_model(DecisionTreeRegressor().fit(X, y))


def test_files_of_models_without_labels_get_them(tmp_path: Path) -> None:
    clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    tp.save_model(clf, tmp_path / "model.json")
    ensemble = tp.load_model(tmp_path / "model.json", classes=["good", "bad"])
    assert ensemble.predict([[0.2], [0.7]]).tolist() == ["good", "bad"]
    with pytest.raises(tp.InvalidInput, match="must name the model's 2 classes"):
        tp.load_model(tmp_path / "model.json", classes=["good", "bad", "ugly"])


def test_files_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.json"
    with open(file, "wb") as out:
        out.truncate(2**40)  # a file with holes: it takes no space
    with pytest.raises(tp.InvalidInput, match=r"max_bytes is 1,073,741,824, but .*huge.json takes 1,099,511,627,776"):
        tp.load_model(file)
    with pytest.raises(tp.InvalidInput, match="max_bytes is 1,000"):
        tp.load_model("/dev/zero", max_bytes=1000)
