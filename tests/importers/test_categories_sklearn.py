"""HistGradientBoostingClassifier with native categories: labels on everything that a row may hold, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.category_frames import NEW, credit, revealing
from tests.support.points import critical_rows
from treeproof.model.agreement import check_agreement, probe_rows
from treeproof.model.columns import CodedRows

FRAME, LABELS = credit()
WHOLE, _ = credit(missing=0.0)
TEXT = ["purpose", "job"]
BY_DTYPE = FRAME.astype(dict.fromkeys(TEXT, "category"))


def fit(X: Any, y: np.ndarray = LABELS, **settings: Any) -> HistGradientBoostingClassifier:
    chosen = {"max_iter": 8, "max_leaf_nodes": 9, "min_samples_leaf": 5, "random_state": 0, **settings}
    return HistGradientBoostingClassifier(**chosen).fit(X, y)


def n_nodes(model: HistGradientBoostingClassifier) -> int:
    return sum(len(tree.nodes) for trees in model._predictors for tree in trees)


def changed(frame: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    return frame.assign(**columns)


# What a frame may hold: how it is trained, and the values of its category columns.
CASES: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
    "from-dtype": (BY_DTYPE, {}),
    "names": (FRAME, {"categorical_features": TEXT}),
    "names-of-category-dtype": (BY_DTYPE, {"categorical_features": ["job", "purpose"]}),
    "mask": (FRAME, {"categorical_features": [False, True, False, True, False]}),
    "indices": (FRAME, {"categorical_features": [3, 1]}),
    "nothing-missing": (WHOLE, {"categorical_features": TEXT}),
    "string-dtype": (WHOLE.astype(dict.fromkeys(TEXT, "string")), {"categorical_features": TEXT}),
    "categories-only": (BY_DTYPE[TEXT], {}),
    "one-of-two": (FRAME.drop(columns="job"), {"categorical_features": ["purpose"]}),
    "truth-values": (changed(WHOLE, job=WHOLE["job"] == "boss"), {"categorical_features": TEXT}),
    "truth-category": (changed(BY_DTYPE, job=(FRAME["job"] == "boss").astype("category")), {}),
    "number-category": (changed(BY_DTYPE, job=(FRAME["months"] // 10 * 3 - 5).astype("category")), {}),
    "whole-numbers": (
        WHOLE.drop(columns=TEXT).assign(months=WHOLE["months"].astype(int) % 11 - 3),
        {"categorical_features": ["months"]},
    ),
    "fractions": (changed(FRAME, rate=FRAME["rate"].round() / 3), {"categorical_features": ["purpose", "job", "rate"]}),
    "float32": (
        changed(FRAME, rate=(FRAME["rate"].round() / 3).astype(np.float32)),
        {"categorical_features": ["purpose", "job", "rate"]},
    ),
    "numbers-are-columns": (FRAME.set_axis([10, 11, 12, 13, 14], axis=1), {"categorical_features": [1, 3]}),
    "many-values": (changed(FRAME, job="m" + WHOLE["months"].astype(str)), {"categorical_features": TEXT}),
    "intervals": (changed(BY_DTYPE, job=pd.cut(WHOLE["rate"], 3)), {}),
    "constant": (changed(FRAME, job="only"), {"categorical_features": TEXT}),
    "all-missing": (changed(FRAME, job=np.nan), {"categorical_features": TEXT}),
    "monotone": (BY_DTYPE, {"monotonic_cst": {"amount": 1}}),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_labels_equal_scikit_learns(case: str, n_classes: int) -> None:
    frame, settings = CASES[case]
    if "monotonic_cst" in settings and n_classes == 3:
        pytest.skip("scikit-learn has monotone constraints for two classes only")
    model = fit(frame, np.minimum(LABELS, n_classes - 1), **settings)
    ensemble = tp.from_model(model)
    assert ensemble.n_nodes == n_nodes(model)
    rows = revealing(ensemble, frame)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(ensemble.scores(rows), model.decision_function(rows).reshape(len(rows), -1))
    check_agreement(ensemble, probe_rows(ensemble, 1000))


def test_no_categories_is_as_before() -> None:
    numbers = FRAME.drop(columns=TEXT)
    ensemble = tp.from_model(fit(numbers, categorical_features=None))
    assert not ensemble.categories and not ensemble.takes_frames


def test_columns_are_the_users() -> None:
    ensemble = tp.from_model(fit(FRAME, categorical_features=TEXT))
    assert [column.kind for column in ensemble.columns] == ["number", "category", "number", "category", "number"]
    assert ensemble.columns[3].values == ("boss", "none", "skilled")
    assert ensemble.columns[3].name == "job"
    assert ensemble.takes_frames


@pytest.mark.parametrize("columns", [[2], [False, False, True, False]])
def test_numbers_in_arrays_are_compared_as_numbers(columns: list[Any]) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack(
        (rng.normal(size=(300, 2)), rng.choice([-4.0, -0.5, 0.0, 1.0, 7.0, 300.0], 300), rng.random(300))
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) + np.isin(X[:, 2], [-4.0, 0.0, 300.0]) > 0.5).astype(int)
    model = fit(X, y, categorical_features=columns)
    ensemble = tp.from_model(model)
    assert ensemble.columns[2].values == (-4.0, -0.5, 0.0, 1.0, 7.0, 300.0)
    assert not ensemble.takes_frames
    rows = critical_rows(ensemble, X)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    check_agreement(ensemble, probe_rows(ensemble, 1000))


def test_text_in_arrays() -> None:
    X = FRAME.to_numpy(dtype=object)
    model = fit(X, categorical_features=[1, 3])
    ensemble = tp.from_model(model)
    rows = revealing(ensemble, FRAME).to_numpy(dtype=object)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    check_agreement(ensemble, probe_rows(ensemble, 1000))


@pytest.mark.slow
def test_a_pickled_model_is_confirmed(tmp_path: Path) -> None:
    joblib.dump(fit(BY_DTYPE), tmp_path / "model.joblib")
    ensemble = tp.load_model(tmp_path / "model.joblib", allow_pickle=True, confirm=True)
    assert len(ensemble.categories) == 2


def test_a_skops_file_is_the_same_model(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    model = fit(FRAME, categorical_features=TEXT)
    skops.dump(model, tmp_path / "model.skops")
    ensemble = tp.load_model(tmp_path / "model.skops")
    rows = revealing(ensemble, FRAME)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))


def test_what_is_never_seen_is_a_value_of_its_own() -> None:
    model = fit(BY_DTYPE)
    ensemble = tp.from_model(model)
    coded = ensemble.check_rows(changed(FRAME, job=NEW))
    assert (coded[:, 3] == 3).all()
    assert not np.isnan(coded[:, 3]).any()
    np.testing.assert_array_equal(ensemble.predict(coded.view(CodedRows)), model.predict(changed(FRAME, job=NEW)))


def test_text_among_numbers_is_refused_in_one_line() -> None:
    ensemble = tp.from_model(fit(BY_DTYPE))
    with pytest.raises(tp.InvalidInput, match=r"row 0, column 'rate': 'high' is not a number"):
        ensemble.predict(changed(FRAME, rate="high"))


def test_none_as_a_category_is_refused() -> None:
    frame = changed(FRAME, job=FRAME["job"].astype(object).where(FRAME["job"].notna(), None))
    with pytest.raises(tp.UnsupportedModel, match="column 'job' of this .* was trained with None"):
        tp.from_model(fit(frame, categorical_features=TEXT))


def test_dates_as_categories_are_refused() -> None:
    days = pd.Series(pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(len(FRAME)) % 5, unit="D"))
    with pytest.raises(tp.UnsupportedModel, match="column 'job' of this .* has dates as categories"):
        tp.from_model(fit(changed(FRAME, job=days), categorical_features=TEXT))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("_preprocessor", None, "has category columns, but no _preprocessor"),
        ("_preprocessor", DecisionTreeClassifier(), "_preprocessor .* is not the one that scikit-learn makes"),
        ("is_categorical_", np.ones(5), "is not one truth value per column"),
        ("is_categorical_", np.array([True, True, False, False, False]), "the encoder .* is not the one"),
    ],
)
def test_changed_models_are_refused(field: str, value: Any, message: str) -> None:
    model = fit(BY_DTYPE)
    setattr(model, field, value)
    with pytest.raises(tp.InvalidInput, match=message):
        tp.from_model(model)


def test_an_encoder_that_does_something_else_is_refused() -> None:
    model = fit(BY_DTYPE)
    model._preprocessor.transformer_weights = {"numerical": 2.0}
    with pytest.raises(tp.InvalidInput, match="does not do what scikit-learn's does"):
        tp.from_model(model)


def test_changed_trees_are_refused() -> None:
    model = fit(BY_DTYPE)
    trees = [tree for trees in model._predictors for tree in trees if tree.nodes["is_categorical"].any()]
    trees[0].nodes["bitset_idx"] = 99
    with pytest.raises(tp.InvalidInput, match="a node tests set 99 of categories; its tree has"):
        tp.from_model(model)
    trees[0].nodes["is_categorical"] = 0
    with pytest.raises(tp.InvalidInput, match="tests numbers where the model has categories"):
        tp.from_model(model)


def test_codes_that_training_did_not_see_go_where_missing_ones_go() -> None:
    model = fit(BY_DTYPE)
    for place in (0, 1):
        model._bin_mapper.bin_thresholds_[place] = model._bin_mapper.bin_thresholds_[place][:-1]
    ensemble = tp.from_model(model)
    rows = revealing(ensemble, BY_DTYPE)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))


@pytest.mark.parametrize("field", ["categorical_features", "is_categorical_", "_categorical_encoder"])
@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier])
def test_trees_with_categories_of_their_own_are_refused(kind: type, field: str) -> None:
    X = WHOLE.drop(columns=TEXT)
    settings = {"n_estimators": 2} if kind is RandomForestClassifier else {}
    model = kind(**settings, random_state=0).fit(X, LABELS)
    setattr(model.estimators_[0] if kind is RandomForestClassifier else model, field, np.array([True, False, False]))
    with pytest.raises(tp.UnsupportedModel, match="DecisionTreeClassifier with categorical_features tests sets"):
        tp.from_model(model)
    setattr(model.estimators_[0] if kind is RandomForestClassifier else model, field, None)
    assert (tp.from_model(model).predict(X) == model.predict(X)).all()
