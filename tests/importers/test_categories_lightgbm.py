"""LightGBM on data frames with categories: labels on everything that a row may hold, files, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treeproof as tp
from tests.support.category_frames import NEW, credit, is_number, revealing
from tests.support.points import critical_rows
from treeproof.model.agreement import check_agreement, probe_rows

lgb = pytest.importorskip("lightgbm")

TEXT = ["purpose", "job"]
PLAIN, LABELS = credit()
FRAME = PLAIN.astype(dict.fromkeys(TEXT, "category"))
WHOLE = credit(missing=0.0)[0].astype(dict.fromkeys(TEXT, "category"))
RANKS = pd.CategoricalDtype(["none", "skilled", "boss"], ordered=True)
SMALL = {"num_leaves": 9, "min_child_samples": 5, "n_jobs": 1, "verbose": -1, "random_state": 0}
SETS = {"min_data_per_group": 2, "cat_smooth": 0.5, "max_cat_to_onehot": 2}


def fit(frame: Any, y: np.ndarray = LABELS, *, columns: Any = "auto", **settings: Any) -> Any:
    model = lgb.LGBMClassifier(**{"n_estimators": 8, **SMALL, **SETS, **settings})
    return model.fit(frame, y, categorical_feature=columns)


def n_nodes(booster: Any) -> int:
    return sum(2 * tree["num_leaves"] - 1 for tree in booster.dump_model()["tree_info"])


# What a frame may hold, and how it is trained.
CASES: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
    "plain": (FRAME, {}),
    "nothing-missing": (WHOLE, {}),
    "one-hot": (FRAME, {"max_cat_to_onehot": 20}),
    "ordered": (FRAME.assign(job=FRAME["job"].astype(RANKS)), {}),
    "ordered-nothing-missing": (WHOLE.assign(job=WHOLE["job"].astype(RANKS)), {}),
    "zero-as-missing": (FRAME.assign(job=FRAME["job"].astype(RANKS)), {"zero_as_missing": True}),
    "no-missing": (FRAME.assign(job=FRAME["job"].astype(RANKS)), {"use_missing": False}),
    "named-in-fit": (FRAME, {"columns": ["purpose"]}),
    "categories-only": (FRAME[TEXT], {}),
    "numbers": (FRAME.assign(job=(PLAIN["months"] // 10 * 3 - 5).astype("category")), {}),
    "whole-numbers": (FRAME.assign(job=(WHOLE["months"] // 10).astype(int).astype("category")), {}),
    "truth-values": (FRAME.assign(job=(PLAIN["job"] == "boss").astype("category")), {}),
    "truth-column": (FRAME.assign(job=PLAIN["job"] == "boss"), {}),
    "many-values": (FRAME.assign(job=("m" + WHOLE["months"].astype(str)).astype("category")), {}),
    "constant": (FRAME.assign(job=pd.Categorical(["only"] * len(FRAME))), {}),
    "all-missing": (FRAME.assign(job=pd.Categorical([None] * len(FRAME), categories=[])), {}),
    "never-used": (FRAME.assign(job=FRAME["job"].cat.set_categories(["a", "boss", "none", "skilled", "z"])), {}),
    "forest": (FRAME, {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}),
    "codes": (FRAME.drop(columns=TEXT), {"columns": ["months"]}),
    "names-with-blanks": (FRAME.rename(columns={"job": "kind of job", "rate": "the rate"}), {}),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_labels_equal_lightgbms(case: str, n_classes: int) -> None:
    frame, settings = CASES[case]
    model = fit(frame, np.minimum(LABELS, n_classes - 1), **settings)
    ensemble = tp.from_model(model)
    assert ensemble.n_nodes == n_nodes(model.booster_)
    rows = revealing(ensemble, frame)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    if case != "forest":  # there raw_score is the sum, which is not what decides
        scores = model.predict(rows, raw_score=True).reshape(len(rows), -1)
        np.testing.assert_array_equal(ensemble.scores(rows), scores)
    check_agreement(ensemble, probe_rows(ensemble, 1000))


@pytest.mark.parametrize("case", CASES)
def test_a_file_is_the_same_model(case: str, tmp_path: Path) -> None:
    frame, settings = CASES[case]
    model = fit(frame, **settings)
    model.booster_.save_model(tmp_path / "model.txt")
    ensemble = tp.load_model(tmp_path / "model.txt")
    assert ensemble.columns == tp.from_model(model).columns
    assert ensemble.fingerprint == tp.from_model(model).fingerprint
    rows = revealing(ensemble, frame)
    text = rows.astype({name: object for name in rows if not is_number(rows[name])})
    np.testing.assert_array_equal(ensemble.predict(text), model.predict(rows))
    tp.save_model(ensemble, tmp_path / "model.json")
    kept = tp.load_model(tmp_path / "model.json")
    assert kept.columns == ensemble.columns
    np.testing.assert_array_equal(kept.predict(text), model.predict(rows))


def test_a_booster_is_asked_with_frames() -> None:
    params = {"objective": "multiclass", "num_class": 3, "num_threads": 1, **SETS, "verbose": -1}
    booster = lgb.train(params, lgb.Dataset(FRAME, LABELS), 5)
    ensemble = tp.from_model(booster)
    rows = revealing(ensemble, FRAME)
    np.testing.assert_array_equal(ensemble.predict(rows), booster.predict(rows).argmax(axis=1))
    check_agreement(ensemble, probe_rows(ensemble, 1000))


@pytest.mark.slow
def test_a_file_is_confirmed(tmp_path: Path) -> None:
    fit(FRAME.assign(job=FRAME["job"].astype(RANKS))).booster_.save_model(tmp_path / "model.txt")
    assert len(tp.load_model(tmp_path / "model.txt", confirm=True).categories) == 2


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int8", "int16", "int32", "int64", "Int64", "Float32", "boolean"]
)
def test_narrow_frames_have_the_labels_that_lightgbm_gives_them(dtype: str) -> None:
    """LightGBM turns a frame of narrow numbers to float32, and compares these."""
    numbers = [name for name in WHOLE if is_number(WHOLE[name])]
    model = fit(WHOLE)
    ensemble = tp.from_model(model)
    rows = revealing(ensemble, WHOLE)
    values = rows[numbers].fillna(0).clip(-100, 100)
    values = values > 1 if dtype == "boolean" else values if dtype.lower().startswith("float") else values.round()
    narrow = rows.assign(**values.astype(dtype))
    np.testing.assert_array_equal(ensemble.predict(narrow), model.predict(narrow))
    np.testing.assert_array_equal(
        tp.from_model(fit(narrow[: len(WHOLE)])).predict(narrow), fit(narrow[: len(WHOLE)]).predict(narrow)
    )


def test_whole_numbers_in_arrays_are_categories_that_keep_their_numbers() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=300), rng.choice([0.0, 1.0, 2.0, 7.0, 300.0], 300), rng.random(300)))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) + np.isin(X[:, 1], [0.0, 7.0]) > 0.5).astype(int)
    model = fit(X, y, columns=[1])
    ensemble = tp.from_model(model)
    assert ensemble.columns[1].kind == "category" and ensemble.columns[1].values == (0.0, 1.0, 2.0, 7.0, 300.0)
    assert not ensemble.takes_frames
    rows = critical_rows(ensemble, X)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))


def test_a_category_of_a_frame_is_none_of_a_model_on_codes() -> None:
    """LightGBM would take the codes of the frame's own categories, and not their values."""
    model = fit(FRAME.drop(columns=TEXT), columns=["months"])
    with pytest.raises(tp.InvalidInput, match="column 'months' is categorical, but the model takes numbers there"):
        tp.from_model(model).predict(PLAIN.drop(columns=TEXT).astype({"months": "category"}))


def test_columns_are_the_users() -> None:
    ensemble = tp.from_model(fit(FRAME.assign(job=FRAME["job"].astype(RANKS))))
    assert [column.kind for column in ensemble.columns] == ["number", "category", "number", "category", "number"]
    assert ensemble.columns[3].values == ("none", "skilled", "boss")
    coded = ensemble.check_rows(PLAIN.assign(job=NEW))
    assert (coded[:, 3] == 3).all()


def test_text_among_numbers_is_refused_in_one_line() -> None:
    with pytest.raises(tp.InvalidInput, match=r"^row 0, column 'rate': 'high' is not a number"):
        tp.from_model(fit(FRAME)).predict(PLAIN.assign(rate="high"))


# ---- which column has which list ------------------------------------------------------------------------------


def test_an_ordered_category_beside_whole_numbers_like_its_codes_is_refused() -> None:
    frame = FRAME.assign(job=FRAME["job"].astype(RANKS), rate=np.arange(len(FRAME)) % 3)
    message = (
        "does not say which column has the categories 'none', 'skilled', 'boss': it may be 'job' or 'rate'; "
        "train it on categories that are not ordered"
    )
    with pytest.raises(tp.UnsupportedModel, match=message):
        tp.from_model(fit(frame))


def test_columns_of_codes_beside_categories() -> None:
    # Seven purposes cannot be three jobs, so it is clear which column the one list belongs to.
    frame = FRAME.assign(job=FRAME["job"].cat.codes.replace(-1, 2) + 20)
    model = fit(frame, columns=["purpose", "job"])
    ensemble = tp.from_model(model)
    assert [column.values[0] for column in ensemble.columns if column.kind == "category"] == ["boat", 20.0]
    rows = revealing(ensemble, frame)
    np.testing.assert_array_equal(ensemble.predict(rows), model.predict(rows))
    with pytest.raises(tp.UnsupportedModel, match="it may be 'purpose' or 'job'"):
        tp.from_model(fit(FRAME.assign(job=FRAME["job"].cat.codes.replace(-1, 2)), columns=["purpose", "job"]))


def test_a_frame_shows_that_a_list_was_given_to_the_wrong_column() -> None:
    """Only the codes are split by category, so the list of the other column is taken for theirs."""
    frame = FRAME.assign(job=FRAME["job"].cat.codes.replace(-1, 2))
    ensemble = tp.from_model(fit(frame, columns=["job"]))
    with pytest.raises(tp.InvalidInput, match="column 'purpose' is categorical, but the model takes numbers there"):
        ensemble.predict(frame)
    with pytest.raises(tp.InvalidInput, match="column 'purpose': '.*' is not a number, and the model takes numbers"):
        ensemble.predict(frame.astype({"purpose": object}))


def test_without_parameters_what_training_found_tells_the_columns() -> None:
    text = fit(FRAME).booster_.model_to_string()
    start, end = text.index("parameters:"), text.index("end of parameters")
    shorter = tp.importers.lightgbm.load_bytes((text[:start] + text[end:]).encode(), voting=None)
    assert shorter.columns == tp.from_model(fit(FRAME)).columns


def test_a_column_that_is_declared_but_was_split_as_numbers_is_not_believed() -> None:
    text = fit(FRAME).booster_.model_to_string()
    changed = text.replace("[categorical_feature: 1,3]", "[categorical_feature: 0,1]")
    assert changed != text
    assert tp.importers.lightgbm.load_bytes(changed.encode(), voting=None).columns == tp.from_model(fit(FRAME)).columns


def test_categories_that_a_file_cannot_hold_are_refused() -> None:
    frame = FRAME.assign(job=pd.cut(WHOLE["rate"], 3))
    data = lgb.Dataset(frame, np.minimum(LABELS, 1))
    booster = lgb.train({"objective": "binary", "verbose": -1}, data, 2, keep_training_booster=True)
    with pytest.raises(tp.UnsupportedModel, match="its categories must be text, numbers or truth values"):
        tp.from_model(booster)
