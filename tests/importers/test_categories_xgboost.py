"""Category columns of XGBoost models: zero differences with the library's own predictions for data frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.category_probes import assert_equal_to_library, category_rows
from treeproof.importers.registry import load_and_confirm

pd = pytest.importorskip("pandas")
xgb = pytest.importorskip("xgboost")

STORES = tuple(map(int, xgb.__version__.split(".")[:2])) >= (3, 1)
stored = pytest.mark.skipif(not STORES, reason="XGBoost stores categories since 3.1")
N = 240
SMALL: dict[str, Any] = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1, "enable_categorical": True}


def frame(index: Any = np.int64) -> Any:
    """Text, whole numbers in an order of their own, numbers, and a column of one value, with missing values."""
    rng = np.random.default_rng(0)
    job = pd.Categorical(rng.choice(["a", "b c", "", "dd", "e"], N), categories=["dd", "a", "", "e", "b c", "unused"])
    size = pd.Categorical(rng.choice([5, 3, 90], N), categories=np.array([90, 3, 5], dtype=index))
    number = rng.normal(size=N).round(1)
    X = pd.DataFrame({"job": job, "number": number, "size": size, "same": pd.Categorical(["only"] * N)})
    X.loc[::7, "job"] = None
    X.loc[::11, "size"] = None
    X.loc[::13, "number"] = np.nan
    return X


def labels(X: Any, n_classes: int = 2) -> np.ndarray:
    score = X["job"].isin(["a", "e"]).to_numpy() * 2 + (X["size"] == 3).to_numpy() + (X["number"] > 0).to_numpy()
    return np.asarray(score % n_classes)


def codes(X: Any) -> np.ndarray:
    columns = [X[name].cat.codes.where(X[name].notna()) if name != "number" else X[name] for name in X]
    return np.column_stack(columns).astype(np.float64)


MODELS = {
    "one-hot": {"max_cat_to_onehot": 99},
    "sets": {"max_cat_to_onehot": 1},
    "three-classes": {"objective": "multi:softprob"},
    "dart": {"booster": "dart", "rate_drop": 0.3},
    "deep": {"max_depth": 8, "n_estimators": 20, "min_child_weight": 0},
}


@stored
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_categories_of_a_data_frame(settings: dict[str, Any], tmp_path: Path) -> None:
    X = frame()
    y = labels(X, 3 if "objective" in settings else 2)
    model = xgb.XGBClassifier(**(SMALL | settings)).fit(X, y)
    ensemble = tp.from_model(model)
    assert [(column.kind, column.values) for column in ensemble.columns] == [
        ("category", ("dd", "a", "", "e", "b c", "unused")),
        ("number", ()),
        ("category", (90, 3, 5)),
        ("category", ("only",)),
    ]
    assert ensemble.n_nodes == sum(tree.count("\n") for tree in model.get_booster().get_dump())
    rows = category_rows(ensemble, ensemble.check_rows(X))
    assert_equal_to_library(ensemble, rows, lambda given: model.predict(given, output_margin=True))
    np.testing.assert_array_equal(ensemble.predict(X), model.predict(X))
    for ending in (".json", ".ubj"):
        file = tmp_path / f"model{ending}"
        model.save_model(file)
        loaded = tp.load_model(file)
        assert loaded.fingerprint == ensemble.fingerprint
        assert loaded.columns == ensemble.columns


@stored
def test_a_booster_takes_frames() -> None:
    X = frame()
    booster = xgb.train(
        {"max_depth": 3, "nthread": 1, "objective": "binary:logistic"},
        xgb.DMatrix(X, labels(X), enable_categorical=True),
        6,
    )
    ensemble = tp.from_model(booster)
    rows = category_rows(ensemble, ensemble.check_rows(X))

    def margins(given: Any) -> Any:
        return booster.predict(xgb.DMatrix(given, enable_categorical=True), output_margin=True)

    assert_equal_to_library(ensemble, rows, margins)


@stored
@pytest.mark.parametrize("index", ["int8", "uint8", "int16", "int32"])
def test_the_type_of_whole_numbers_is_kept_since_xgboost_insists_on_it(index: str) -> None:
    X = frame(index)
    ensemble = tp.from_model(xgb.XGBClassifier(**SMALL).fit(X, labels(X)))
    rows = ensemble.check_rows(X)
    assert str(ensemble.as_given(rows)["size"].cat.categories.dtype) == index
    np.testing.assert_array_equal(ensemble.source_labels(rows), ensemble.predict(X))


@stored
def test_a_value_that_xgboost_does_not_know_is_refused_in_one_line() -> None:
    X = frame()
    ensemble = tp.from_model(xgb.XGBClassifier(**SMALL).fit(X, labels(X)))
    with pytest.raises(
        tp.InvalidInput, match="row 0, column 'job': the model does not know the value 'q'; it knows 'dd'"
    ):
        ensemble.predict(X.assign(job="q"))
    with pytest.raises(tp.InvalidInput, match=r"row 0, column 'job': 1.5 is no code of a category"):
        ensemble.predict(np.array([[1.5, 0.0, 0.0, 0.0]]))


@stored
def test_other_letters_than_ascii_are_refused_since_xgboost_mixes_them_up() -> None:
    X = frame().assign(job=pd.Categorical(["é", "b"] * (N // 2)))
    model = xgb.XGBClassifier(**SMALL).fit(X, np.arange(N) % 2)
    with pytest.raises(tp.UnsupportedModel, match="feature 0 has categories with other letters than ASCII"):
        tp.from_model(model)


def test_codes_are_categories_too() -> None:
    X = codes(frame())
    y = labels(frame())
    model = xgb.XGBClassifier(**SMALL, feature_types=["c", "q", "c", "c"], max_cat_to_onehot=1).fit(X, y)
    ensemble = tp.from_model(model)
    assert [column.kind for column in ensemble.columns] == ["category", "number", "category", "category"]
    assert ensemble.columns[3].values == (0,)
    assert not ensemble.takes_frames
    rows = category_rows(ensemble, ensemble.check_rows(X))
    assert_equal_to_library(ensemble, rows, lambda given: model.predict(given, output_margin=True))
    with pytest.raises(
        tp.InvalidInput, match="column 'job' is categorical, but the model takes numbers there; pass codes"
    ):
        ensemble.predict(frame())


def test_known_codes_are_those_that_tests_name_and_one_for_all_others() -> None:
    X = np.repeat([[0.0], [1.0], [2.0], [3.0]], 20, axis=0)
    model = xgb.XGBClassifier(n_estimators=1, n_jobs=1, max_depth=1, feature_types=["c"], max_cat_to_onehot=9)
    ensemble = tp.from_model(model.fit(X, X[:, 0] == 2))
    assert ensemble.columns[0].values == (0, 2)
    ensemble = tp.from_model(model.fit(X, X[:, 0] == 0))
    assert ensemble.columns[0].values == (0, 1)


@stored
def test_a_column_of_codes_beside_stored_ones() -> None:
    X = pd.DataFrame({"code": np.tile([0, 1, 2, 3], N // 4), "job": frame()["job"]})
    model = xgb.XGBClassifier(**SMALL, feature_types=["c", "c"]).fit(X, (X["code"] == 2) ^ (X["job"] == "a"))
    ensemble = tp.from_model(model)
    assert [category.coded for _, category in ensemble.categories] == [False, True]
    rows = category_rows(ensemble, ensemble.check_rows(X))
    assert_equal_to_library(ensemble, rows, lambda given: model.predict(given, output_margin=True))


@stored
@pytest.mark.slow
@pytest.mark.parametrize("index", ["int64", "int8"])
def test_a_file_is_confirmed_with_data_frames(index: str, tmp_path: Path) -> None:
    X = frame(index)
    file = tmp_path / "model.ubj"
    xgb.XGBClassifier(**SMALL).fit(X, labels(X)).save_model(file)
    _, confirmation = load_and_confirm(file)
    assert confirmation is not None
    assert confirmation.n_rows >= 200


@stored
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cats: cats["enc"].pop(), "an entry for each of the 4 features"),
        (lambda cats: cats["feature_segments"].pop(), "feature_segments does not say"),
        (lambda cats: cats["sorted_idx"].reverse(), "sorted_idx does not put"),
        (lambda cats: cats["enc"][0]["offsets"].pop(), "offsets must rise"),
        (lambda cats: cats["enc"][2].update(type=8), "neither text nor whole numbers"),
        (lambda cats: cats["enc"][2].update(type=9, values=[90, 3, 500]), "a category is no int8"),
        (lambda cats: cats["enc"][2].update(values=[90, 3, 3]), "twice"),
        (lambda cats: cats["enc"][0].update(more=1), "does not know"),
        (lambda cats: cats["enc"].__setitem__(0, 5), "not a valid XGBoost JSON model"),
    ],
)
def test_damaged_categories_end_in_one_clear_refusal(change: Any, message: str, tmp_path: Path) -> None:
    X = frame()
    model = xgb.XGBClassifier(**SMALL).fit(X, labels(X))
    document = json.loads(bytes(model.get_booster().save_raw("json")))
    change(document["learner"]["gradient_booster"]["model"]["cats"])
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps(document))
    with pytest.raises((tp.InvalidInput, tp.UnsupportedModel), match=message):
        tp.load_model(file)
