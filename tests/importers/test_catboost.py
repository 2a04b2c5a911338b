"""CatBoost models that treeproof refuses, damaged files, and decisions on the very edge."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.zoo.case import data
from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers import _child
from treeproof.importers import catboost as importer

catboost = pytest.importorskip("catboost")

from tests.support.zoo import catboost_cases as zoo  # noqa: E402


@pytest.fixture(scope="module")
def model() -> Any:
    return zoo.fit(iterations=4, depth=2)(*data(2))


@pytest.fixture(scope="module")
def content(model: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return exported(model, tmp_path_factory.mktemp("model"))


def exported(model: Any, folder: Path) -> dict[str, Any]:
    file = folder / "model.json"
    model.save_model(str(file), format="json")
    return json.loads(file.read_bytes())


def read(content: dict[str, Any]) -> tp.Ensemble:
    return importer.load_bytes(json.dumps(content).encode(), voting=None)


def test_voting_is_refused(model: Any) -> None:
    with pytest.raises(InvalidInput, match="is for forests that vote"):
        tp.from_model(model, voting="hard")
    with pytest.raises(InvalidInput, match="is for forests that vote"):
        importer.load_bytes(b"{}", voting="soft")


def test_json_is_read_without_catboost_and_cbm_says_what_to_install(
    model: Any, content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save_model(str(tmp_path / "model.cbm"))
    monkeypatch.setitem(sys.modules, "catboost", None)
    assert read(content).n_trees == 4
    with pytest.raises(UnsupportedModel, match=r"pip install 'treeproof\[catboost\]"):
        tp.load_model(tmp_path / "model.cbm")


def test_untrained_model_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not trained"):
        tp.from_model(catboost.CatBoostClassifier())


def test_anything_but_a_model_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="Pool is not a model"):
        importer.import_model(catboost.Pool([[1.0]], [0]), voting=None)


@pytest.mark.parametrize("loss", ["RMSE", "Quantile", "Poisson"])
def test_regression_is_refused(loss: str) -> None:
    model = zoo.fit(catboost.CatBoostRegressor, iterations=2, loss_function=loss)(*data(2))
    with pytest.raises(UnsupportedModel, match=f"trained on {loss} does not predict classes"):
        tp.from_model(model)


def test_ranking_is_refused() -> None:
    X, y = data(2)
    model = catboost.CatBoostRanker(iterations=2, depth=2, thread_count=1, verbose=False, allow_writing_files=False)
    model.fit(catboost.Pool(X, y, group_id=np.arange(len(y)) // 10))
    with pytest.raises(UnsupportedModel, match="YetiRank does not predict classes"):
        tp.from_model(model)


def test_several_labels_per_row_are_refused() -> None:
    X, y = data(2)
    model = zoo.fit(iterations=2, loss_function="MultiLogloss")(X, np.column_stack((y, 1 - y)))
    with pytest.raises(UnsupportedModel, match="several labels at once"):
        tp.from_model(model)


def test_text_features_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data(2)
    words = np.array(["good day", "bad day here", "good luck"])[(y + np.arange(len(y)) % 2)]
    model = zoo.fit(iterations=3, text_features=["words"])(pandas.DataFrame(X).assign(words=words), y)
    with pytest.raises(UnsupportedModel, match="text features"):
        tp.from_model(model)


def test_embedding_features_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data(2)
    frame = pandas.DataFrame({"v": list(X[:, :3]), "x": X[:, 0]})
    model = zoo.fit(iterations=3, embedding_features=["v"])(frame, y)
    with pytest.raises(UnsupportedModel, match="embedding features"):
        tp.from_model(model)


def test_scaled_scores_are_refused() -> None:
    model = zoo.fit(iterations=2)(*data(2))
    model.set_scale_and_bias(2.0, [0.5])
    with pytest.raises(UnsupportedModel, match="scales its scores by 2"):
        tp.from_model(model)


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_threshold_that_leaves_one_class_is_refused(threshold: float) -> None:
    model = zoo.fit(iterations=2)(*data(2))
    model.set_probability_threshold(threshold)
    with pytest.raises(UnsupportedModel, match="always predicts the same class"):
        tp.from_model(model)


@pytest.mark.parametrize("threshold", [0.5, 0.1, 0.3, 0.7, 0.987654321])
def test_score_on_the_cut_and_one_bit_beside_it(threshold: float) -> None:
    """All leaves 0 and a bias on the cut: only the very last bit decides."""
    X, y = data(2)
    model = zoo.fit(iterations=1)(X, y)
    model.set_leaf_values(np.zeros(8))
    model.set_probability_threshold(threshold)
    cut = -math.log(1 / threshold - 1)
    for bias in (cut, math.nextafter(cut, math.inf), math.nextafter(cut, -math.inf)):
        model.set_scale_and_bias(1.0, [bias])
        np.testing.assert_array_equal(tp.from_model(model).predict(X[:3]), model.predict(X[:3]))


def test_labels_have_the_dtype_of_the_library() -> None:
    for labels in ((0, 1), (False, True), (0.0, 1.0), ("a", "b")):
        X, y = data(2, labels=labels)
        model = zoo.fit(iterations=2)(X, y)
        got, expected = tp.from_model(model).predict(X), model.predict(X)
        assert type(got.tolist()[0]) is type(expected.tolist()[0]), labels


def test_frame_columns_become_feature_names() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = data(2)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    ensemble = tp.from_model(zoo.fit(iterations=2)(frame, y))
    assert ensemble.feature_names == tuple("abcde")
    with pytest.raises(InvalidInput, match="not in the model's order"):
        ensemble.predict(frame[list("edcba")])


def test_source_of_a_plain_catboost_predicts_labels() -> None:
    X, y = data(2)
    ensemble = tp.from_model(zoo.fit(catboost.CatBoost, iterations=3, loss_function="Logloss")(X, y))
    np.testing.assert_array_equal(ensemble.source.predict(X), ensemble.predict(X))


def test_unknown_shapes_of_a_json_file_are_named(content: dict[str, Any]) -> None:
    def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
        result = copy.deepcopy(content)
        place = result
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return result

    tree = content["oblivious_trees"][0]
    split = ("oblivious_trees", 0, "splits", 0)
    with pytest.raises(InvalidInput, match="in features_info and"):
        read(changed((*split, "border"), tree["splits"][0]["border"] + 1))
    with pytest.raises(InvalidInput, match="split_index must be a whole number from 0 to 7, got 999"):
        read(changed((*split, "split_index"), 999))
    with pytest.raises(InvalidInput, match="must be a whole number"):
        read(changed((*split, "split_index"), "0"))
    with pytest.raises(InvalidInput, match="in features_info and {'split_type': 'OnlineCtr'"):
        read(changed((*split, "split_type"), "OnlineCtr"))
    with pytest.raises(InvalidInput, match="depth 60"):
        read(changed((*split[:-1],), tree["splits"] * 30))
    with pytest.raises(InvalidInput, match="leaf values, expected 4"):
        read(changed(("oblivious_trees", 0, "leaf_values"), tree["leaf_values"][:-1]))
    with pytest.raises(InvalidInput, match="are not 0 to 4"):
        read(changed(("features_info", "float_features", 0, "flat_feature_index"), 2**40))
    with pytest.raises(UnsupportedModel, match="treatment 'AsMaybe'"):
        read(changed(("features_info", "float_features", 0, "nan_value_treatment"), "AsMaybe"))
    with pytest.raises(InvalidInput, match="does not fit the 2 class names"):
        read(changed(("model_info", "class_params", "class_to_label"), [1, 0]))
    with pytest.raises(InvalidInput, match="decides between 2 classes"):
        read(changed(("model_info", "class_params", "class_to_label"), [0]))
    with pytest.raises(InvalidInput, match="are not of type String"):
        read(changed(("model_info", "class_params", "class_label_type"), "String"))
    with pytest.raises(UnsupportedModel, match="does not name its loss"):
        read(changed(("model_info",), {}))
    with pytest.raises(InvalidInput, match="has no trees"):
        read(changed(("oblivious_trees",), []))


def edited(content: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(content)
    place = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return result


FEATURE = ("features_info", "float_features", 4)
TREE = ("oblivious_trees", 0)
BACKWARDS = {"class_label_type": "Boolean", "class_names": [True, False], "class_to_label": [0, 1], "classes_count": 0}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("trees",), [], "both 'oblivious_trees' and 'trees'"),
        (("model_info", "multiclass_params"), {}, "both 'class_params' and 'multiclass_params'"),
        (("model_info", "loss_function"), {"type": "MultiClass"}, "names two losses: Logloss, MultiClass"),
        (("model_info", "params"), '{"loss_function": 1, "loss_function": 2}', "occurs twice"),
        (("model_info", "class_params", "classes_count"), 3, "does not fit the 2 class names"),
        (("model_info", "binclass_probability_threshold"), "0_1", "must be a number, got '0_1'"),
        (("model_info", "class_params", "class_names"), [None, 1], "must be a number or text, got None"),
        (("model_info", "class_params", "class_names"), [0, 2**53 + 2], "class name 9007199254740994: numbers beyond"),
        (("model_info", "class_params"), {"class_names": [0, 1.5], "class_to_label": [0, 1]}, "of several types"),
        (("model_info", "class_params"), BACKWARDS, "takes truth values as false and true"),
        (("model_info", "class_params", "class_label_type"), "Boolean", "are not of type Boolean"),
        (("scale_and_bias", 0), True, "the scale must be a number, got True"),
        (("scale_and_bias", 1), 0.5, "the bias must be a list of numbers, got 0.5"),
        (("scale_and_bias", 1), ["0.5"], "the bias must be a number, got '0.5'"),
        (("scale_and_bias", 1), [2**63 - 1], "the bias is 9223372036854775807; whole numbers beyond"),
        ((*TREE, "leaf_values", 0), "1", "a leaf value must be a number, got '1'"),
        ((*TREE, "leaf_values", 0), True, "a leaf value must be a number, got True"),
        ((*TREE, "splits", 0, "split_index"), 0.0, "split_index must be a whole number from 0 to 7, got 0.0"),
        ((*FEATURE, "borders"), [2.0, 1.0], "the borders of feature 4 are not in rising order"),
        ((*FEATURE, "borders"), [1.0, 1.0 + 1e-12], "the borders of feature 4 are not in rising order"),
        ((*FEATURE, "has_nans"), "true", "has_nans must be true or false"),
        ((*FEATURE, "feature_index"), True, "a feature index must be a whole number"),
    ],
)
def test_an_edited_field_is_refused_by_name(
    content: dict[str, Any], path: tuple[Any, ...], value: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read(edited(content, path, value))


@pytest.mark.parametrize("path", [(), FEATURE, TREE, (*TREE, "splits", 0), ("model_info", "class_params")])
def test_an_unknown_field_is_refused_by_name(content: dict[str, Any], path: tuple[Any, ...]) -> None:
    with pytest.raises(UnsupportedModel, match="has a field 'more', which treeproof does not know"):
        read(edited(content, (*path, "more"), 1))


def test_a_leaf_with_a_split_is_refused(tmp_path: Path) -> None:
    """CatBoost takes it for a leaf."""
    content = exported(zoo.fit(iterations=1, depth=2, grow_policy="Depthwise")(*data(2)), tmp_path)
    with pytest.raises(UnsupportedModel, match="a leaf has a field 'left'"):
        read(edited(content, ("trees", 0, "value"), 1.0))


def test_reading_a_cbm_file_takes_less_than_a_gigabyte(model: Any, tmp_path: Path) -> None:
    model.save_model(str(tmp_path / "model.cbm"))
    assert importer._MEMORY < 2**30
    assert tp.load_model(tmp_path / "model.cbm").n_trees == 4


NUMBERS: tuple[Any, ...] = (-1, 0, 1, 2**31, 2**63, 1e308, math.nan, math.inf, True)
JUNK: tuple[Any, ...] = (*NUMBERS, None, "", "x", "AsTrue", [], {}, [[]], [0] * 9)


@pytest.mark.slow
def test_mutated_json_is_refused_or_read_but_never_leaks(content: dict[str, Any], tmp_path: Path) -> None:
    rng = random.Random(0)
    relevant = {key: content[key] for key in content if key != "model_info"} | {
        "model_info": {
            "params": {"loss_function": content["model_info"]["params"]["loss_function"]},
            "class_params": content["model_info"]["class_params"],
        }
    }
    file = tmp_path / "model.json"
    for _ in range(1500):
        mutant = copy.deepcopy(relevant)
        place: Any = mutant
        while True:
            key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], (dict, list)) or not place[key] or rng.random() < 0.15:
                break
            place = place[key]
        if rng.random() < 0.2:
            del place[key]
        else:
            place[key] = rng.choice(JUNK)
        file.write_text(json.dumps(mutant))
        with contextlib.suppress(InvalidInput, UnsupportedModel):
            tp.load_model(file).predict(np.zeros((2, 5)))


@pytest.mark.slow
def test_damaged_cbm_is_refused_and_never_ends_the_process(model: Any, tmp_path: Path) -> None:
    """CatBoost itself segfaults on about one damaged file in 100; each is read in a process of its own."""
    file = tmp_path / "model.cbm"
    model.save_model(str(file))
    good = file.read_bytes()
    # A length of 4 billion where a table of the model starts makes CatBoost read far outside the file.
    damaged = [
        good[:4],
        good[: len(good) // 2],
        good[:8] + b"\xff\xff\xff\x7f" + good[12:],
        good[:4] + bytes(len(good)),
    ]
    for data_ in damaged:
        file.write_bytes(data_)
        with pytest.raises(InvalidInput, match="not a valid CatBoost model"):
            tp.load_model(file)


def test_crash_of_the_library_is_an_invalid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_EXPORT_CBM", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(InvalidInput, match="crashes on it"):
        importer.load_bytes(b"CBM1", voting=None)


def test_hang_of_the_library_is_an_invalid_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_EXPORT_CBM", "import signal; signal.pause()")
    monkeypatch.setattr(_child, "PATIENCE", 0.5)
    with pytest.raises(InvalidInput, match="within"):
        importer.load_bytes(b"CBM1", voting=None)
