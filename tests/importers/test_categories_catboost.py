"""Category columns of CatBoost models: zero differences with the library's own predictions for data frames."""

from __future__ import annotations

import copy
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.category_probes import assert_equal_to_library, category_rows
from tests.support.commands import run
from treeproof.importers._catboost_hash import hash_of
from treeproof.importers.registry import load_and_confirm
from treeproof.model.columns import Category, CodedRows

pd = pytest.importorskip("pandas")
catboost = pytest.importorskip("catboost")

N = 300
SMALL: dict[str, Any] = {
    "iterations": 12, "depth": 4, "learning_rate": 0.5, "thread_count": 1, "verbose": False,
    "allow_writing_files": False,
    "random_seed": 0,
    "max_ctr_complexity": 1, "cat_features": ["job", "size", "same"],
}  # fmt: skip


def frame() -> Any:
    """Text, whole numbers, numbers with missing values, and a column of one value."""
    rng = np.random.default_rng(0)
    job = rng.choice(["a", "b c", "", "dé", "nan", "a long name of more than sixteen letters"], N)
    X = pd.DataFrame({"job": job, "number": rng.normal(size=N).round(1), "size": rng.choice([5, -3, 90], N)})
    X.loc[::13, "number"] = np.nan
    return X.assign(same="only", other=rng.normal(size=N))


def labels(X: Any, n_classes: int = 2) -> np.ndarray:
    job, size, number = X["job"].isin(["a", "dé"]), X["size"] == -3, X["number"] > 0.3
    return np.asarray(np.where(job, size + 1, number + size * job) % n_classes)


def trained(n_classes: int = 2, **settings: Any) -> Any:
    X = frame()
    return catboost.CatBoostClassifier(**(SMALL | settings)).fit(X, labels(X, n_classes))


def raw(model: Any) -> Any:
    return lambda given: model.predict(given, prediction_type="RawFormulaVal", thread_count=1)


MODELS: dict[str, dict[str, Any]] = {
    "one-hot": {"one_hot_max_size": 99},
    "ctrs": {"one_hot_max_size": 1},
    "both": {"one_hot_max_size": 3},
    "three-classes": {"n_classes": 3, "one_hot_max_size": 1, "iterations": 20},
    "depthwise": {"grow_policy": "Depthwise", "one_hot_max_size": 3},
    "lossguide": {"grow_policy": "Lossguide", "one_hot_max_size": 1},
    "counters": {"simple_ctr": ["Counter:Prior=0.1", "Borders:Prior=0.3"], "one_hot_max_size": 1},
    "buckets": {"simple_ctr": ["Buckets:Prior=0.7"], "one_hot_max_size": 1},
    "means": {"simple_ctr": ["BinarizedTargetMeanValue:Prior=0.2"], "one_hot_max_size": 1},
    "borders-of-three": {"n_classes": 3, "simple_ctr": ["Borders:TargetBorderCount=2"], "one_hot_max_size": 1},
    "buckets-of-three": {"n_classes": 3, "simple_ctr": ["Buckets:TargetBorderCount=2"], "one_hot_max_size": 1},
    "means-of-three": {
        "n_classes": 3, "simple_ctr": ["BinarizedTargetMeanValue:TargetBorderCount=2"], "one_hot_max_size": 1,
    },
    "fine": {"simple_ctr": ["Borders:CtrBorderCount=200"], "one_hot_max_size": 1, "iterations": 40},
    "nan-right": {"nan_mode": "Max"},
}  # fmt: skip


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_categories_of_a_data_frame(settings: dict[str, Any], tmp_path: Path) -> None:
    X = frame()
    model = trained(**settings)
    ensemble = tp.from_model(model, categories=X)
    assert [column.kind for column in ensemble.columns] == ["category", "number", "category", "category", "number"]
    assert set(ensemble.columns[0].values) == set(X["job"])
    assert set(ensemble.columns[2].values) == {5, -3, 90}
    if "grow_policy" not in settings:
        assert ensemble.n_nodes == sum(2 * leaves - 1 for leaves in model.get_tree_leaf_counts())
    assert {0, 1, 2} <= set(ensemble.feature.tolist()), "a column is not tested"
    rows = category_rows(ensemble, ensemble.check_rows(X))
    assert_equal_to_library(ensemble, rows, raw(model))
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X).ravel())
    file = tmp_path / "model.json"
    model.save_model(str(file), format="json")
    loaded = tp.load_model(file, categories={name: X[name] for name in ("job", "size", "same")})
    assert loaded.fingerprint == ensemble.fingerprint
    assert loaded.columns == ensemble.columns


@pytest.mark.parametrize("policy", ["Depthwise", "Lossguide"])
def test_as_many_nodes_as_the_library_has(policy: str, tmp_path: Path) -> None:
    model = trained(grow_policy=policy, one_hot_max_size=3)
    model.save_model(str(tmp_path / "model.json"), format="json")

    def size(node: Any) -> int:
        return 1 + size(node["left"]) + size(node["right"]) if "split" in node else 1

    trees = json.loads((tmp_path / "model.json").read_bytes())["trees"]
    assert tp.from_model(model, categories=frame()).n_nodes == sum(map(size, trees))


def test_a_model_without_names_goes_by_position() -> None:
    X = frame()
    model = catboost.CatBoostClassifier(**(SMALL | {"cat_features": [0, 2, 3]})).fit(X.to_numpy(), labels(X))
    by_position = {0: X["job"], 2: [5, -3, 90], 3: ["only"]}
    for categories in (by_position, X):
        ensemble = tp.from_model(model, categories=categories)
        np.testing.assert_array_equal(ensemble.predict(X.to_numpy()), model.predict(X.to_numpy()))
        np.testing.assert_array_equal(ensemble.source_labels(ensemble.check_rows(X)), ensemble.predict(X))


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_columns_of_every_type_that_catboost_takes(dtype: str) -> None:
    X = frame().astype({"job": dtype, "size": dtype})
    model = catboost.CatBoostClassifier(**SMALL).fit(X, labels(frame()))
    ensemble = tp.from_model(model, categories=X)
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X))
    np.testing.assert_array_equal(ensemble.predict(frame()), model.predict(X))


def test_a_value_goes_by_its_text() -> None:
    X = frame()
    model = trained()
    ensemble = tp.from_model(model, categories=X)
    for values in (X["size"].astype(str), X["size"].astype(object), X["size"].astype("Int64")):
        given = X.assign(size=values)
        np.testing.assert_array_equal(ensemble.check_rows(given), ensemble.check_rows(X))
        np.testing.assert_array_equal(ensemble.predict(given), model.predict(given))
    for value in (5.0, 5.5):
        with pytest.raises(catboost.CatBoostError, match="must be integer or string"):
            model.predict(X.assign(size=value))
        with pytest.raises(tp.InvalidInput, match=rf"row 0, column 'size': the model does not know the value {value}"):
            ensemble.predict(X.assign(size=value))
    unseen = X.assign(size="6", job="other")
    np.testing.assert_array_equal(ensemble.predict(unseen), model.predict(unseen))
    with pytest.raises(tp.InvalidInput, match="row 0, column 'job' is NaN, but the model does not accept missing"):
        ensemble.predict(X.assign(job=None))


def test_truth_values_are_1_and_0() -> None:
    X = frame().assign(same=np.arange(N) % 3 == 0)
    model = catboost.CatBoostClassifier(**SMALL).fit(X, X["same"] ^ (X["number"] > 0))
    ensemble = tp.from_model(model, categories=X)
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X))
    assert Category((True, False), by_text=True).code_of("0") == 1.0


def test_hashes_are_those_of_the_library(tmp_path: Path) -> None:
    """For texts of every length, in bytes, at which the rule for them changes."""
    rng = random.Random(0)
    texts = ["".join(rng.choices("abc XYZ019_-é日", k=length)) for length in range(150)]
    X = pd.DataFrame({"text": texts * 2})
    settings = SMALL | {"iterations": 1, "cat_features": ["text"]}
    model = catboost.CatBoostClassifier(**settings).fit(X, np.arange(len(X)) % 2)
    file = tmp_path / "model.py"
    model.save_model(str(file), format="python", pool=catboost.Pool(X, cat_features=["text"]))
    table = re.search(r"cat_features_hashes = \{(.*?)\n\}", file.read_text(encoding="utf-8"), re.DOTALL)
    assert table is not None
    theirs = sorted(int(number) for number in re.findall(r'": (-?\d+),', table[1]))
    assert theirs == sorted({hash_of(text) for text in texts})


def test_combinations_of_columns_are_refused_by_name() -> None:
    model = trained(max_ctr_complexity=3, one_hot_max_size=1, iterations=30)
    with pytest.raises(tp.UnsupportedModel, match=r"combines columns in one CTR \('.*\).*max_ctr_complexity=1"):
        tp.from_model(model, categories=frame())


REFUSED: dict[str, tuple[Any, str]] = {
    "none": (None, "^categories are needed for column 'job': CatBoost keeps hashes .* categories=X_train"),
    "a column": ({"job": ["a"]}, r"categories\['job'\] lacks 5 of the 6 values that the model knows"),
    "another": ({"number": [1]}, "categories names 'number', which is no category column"),
    "a list": (["a"], "categories must be a data frame or a dict of lists, got list"),
    "text": ({"job": "abc"}, r"categories\['job'\] must be a list of values, got 'abc'"),
    "fractions": ({"job": [0.5]}, r"categories\['job'\] has 0.5, but CatBoost takes text and whole numbers"),
}


@pytest.mark.parametrize(("categories", "message"), REFUSED.values(), ids=REFUSED)
def test_values_are_needed_and_none_may_be_left_out(categories: Any, message: str, tmp_path: Path) -> None:
    model = trained(one_hot_max_size=1)
    with pytest.raises(tp.InvalidInput, match=message) as error:
        tp.from_model(model, categories=categories)
    assert error.value.argument == "categories"
    file = tmp_path / "model.json"
    model.save_model(str(file), format="json")
    with pytest.raises(tp.InvalidInput, match=message.strip("^")) as error:
        tp.load_model(file, categories=categories)
    assert "not a valid" not in str(error.value)


def test_a_column_that_no_tree_tests_needs_no_values() -> None:
    X = frame()
    model = trained()
    ensemble = tp.from_model(model, categories={"job": X["job"], "size": X["size"]})
    assert ensemble.columns[3].values == ()
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X))


def test_categories_are_refused_where_the_model_has_them_itself() -> None:
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    for model in (tree, tp.from_model(tree)):
        with pytest.raises(tp.InvalidInput, match="categories are for CatBoost models"):
            tp.from_model(model, categories={"job": ["a"]})


def test_own_files_keep_how_values_are_spelled(tmp_path: Path) -> None:
    ensemble = tp.from_model(trained(), categories=frame())
    tp.save_model(ensemble, tmp_path / "own.json")
    loaded = tp.load_model(tmp_path / "own.json")
    assert loaded.categories == ensemble.categories
    assert loaded.fingerprint == ensemble.fingerprint
    X = frame()
    np.testing.assert_array_equal(loaded.predict(X.assign(size=X["size"].astype(str))), ensemble.predict(X))


def test_values_that_no_test_tells_apart_share_a_cell() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 40, 1000)
    X = pd.DataFrame({"shop": np.array([f"shop {number}" for number in range(40)])[numbers]})
    settings = SMALL | {"iterations": 1, "depth": 1, "cat_features": ["shop"]}
    model = catboost.CatBoostClassifier(**settings).fit(X, numbers % 2)
    ensemble = tp.from_model(model, categories=X)
    assert ensemble.grid.n_cells.tolist() <= [3]
    rows = np.arange(41.0)[:, None].view(CodedRows)
    assert_equal_to_library(ensemble, rows, raw(model))
    assert len(set(ensemble.scores(rows)[:, 0])) == 2


def test_the_command_line_has_another_way_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.json"
    model = trained()
    model.save_model(str(file), format="json")
    code, _, said = run(capsys, "inspect", file)
    assert code == 2
    assert "categories are needed for column 'job'" in said
    assert said.strip().endswith("with tp.load_model(path, categories=X_train) and give the file of tp.save_model")
    tp.save_model(tp.load_model(file, categories=frame()), tmp_path / "own.json")
    assert run(capsys, "inspect", tmp_path / "own.json")[0] == 0


@pytest.mark.slow
def test_a_file_is_confirmed_with_data_frames(tmp_path: Path) -> None:
    for ending in ("cbm", "json"):
        file = tmp_path / f"model.{ending}"
        trained(one_hot_max_size=3).save_model(str(file), format=ending)
        _, confirmation = load_and_confirm(file, categories=frame())
        assert confirmation is not None
        assert confirmation.n_rows >= 200


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("catboost") / "model.json"
    trained(one_hot_max_size=3).save_model(str(file), format="json")
    result: dict[str, Any] = json.loads(file.read_bytes())
    return result


def _table(document: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = document["ctr_data"][_ctr(document)["identifier"]]
    return result


def _ctr(document: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = document["features_info"]["ctrs"][0]
    return result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["features_info"]["categorical_features"][1].update(values=[0.5]), "not whole numbers of 32 bits"),
        (lambda d: d["features_info"]["categorical_features"][0].update(flat_feature_index=1), "are not 0 to 4"),
        (lambda d: d["features_info"]["categorical_features"][0].update(more=1), "does not know"),
        (lambda d: d["features_info"]["categorical_features"].pop(), "are not 0 to 3"),
        (lambda d: _ctr(d).update(ctr_type="FeatureFreq"), "CTRs of type 'FeatureFreq'"),
        (lambda d: _ctr(d).update(ctr_type="Counter"), "contradicts its other fields"),
        (lambda d: _ctr(d).update(target_border_idx=7), "target_border_idx is 7"),
        (lambda d: _ctr(d).update(target_border_idx=-1), "must be a whole number from 0"),
        (lambda d: _ctr(d).update(scale="15"), "scale must be a number"),
        (lambda d: _ctr(d).update(borders=[3.0, 2.0]), "borders of a CTR are not in rising order"),
        (lambda d: _ctr(d).update(shift=1e300), "shift must be a finite float32 number"),
        (lambda d: _ctr(d).update(prior_denomerator=0), "prior_denomerator must be above 0"),
        (lambda d: _ctr(d).update(more=1), "does not know"),
        (lambda d: d.pop("ctr_data"), "lacks the tables of its CTRs"),
        (lambda d: _table(d).update(hash_stride=5), "hash_stride 5 does not fit"),
        (lambda d: _table(d).update(counter_denominator=0.5), "counter_denominator must be a whole number"),
        (lambda d: _table(d)["hash_map"].__setitem__(0, "x"), "has the key 'x'"),
        (lambda d: _table(d)["hash_map"].__setitem__(1, -1), "a table of CTRs has the counts"),
        (lambda d: _table(d)["hash_map"].__setitem__(1, "1"), "a count of a CTR must be a number"),
    ],
)
def test_an_edited_field_is_refused_by_name(content: dict[str, Any], change: Any, message: str, tmp_path: Path) -> None:
    document = copy.deepcopy(content)
    change(document)
    file = tmp_path / "edited.json"
    file.write_text(json.dumps(document))
    with pytest.raises((tp.InvalidInput, tp.UnsupportedModel), match=message):
        tp.load_model(file, categories=frame())
