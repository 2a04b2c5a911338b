"""Chains of steps at the points where steps surprise: poles, both zeros, sparse and dense rows, types of numbers."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_matrix, csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import treeproof as tp
from tests.support.chains import LIBRARIES, differences, random_chain, rows_beside

ZERO = float(np.float32(1e-35))
SPARSE = [library for library in LIBRARIES if library != "histogram"]


def imported(chain: Any) -> tp.Ensemble:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return tp.from_model(chain)


def check_chain(library: str, sparse: bool, dtype: str, seed: int) -> None:
    """No label of treeproof's differs from the pipeline's; rows in doubles as well where others are refused."""
    rng = np.random.default_rng(seed)
    chain, X, special = random_chain(rng, library, sparse, dtype)
    try:
        ensemble = imported(chain)
    except (tp.UnsupportedModel, tp.InvalidInput):
        return
    for rows in (special, special.astype(float), rows_beside(ensemble, X.astype(float), rng, 60)):
        assert differences(ensemble, chain, rows)[:3] == [], (seed, chain)


CASES = [
    *((library, False, dtype) for library in LIBRARIES for dtype in ("float64", "float32", "int64")),
    *((library, True, dtype) for library in SPARSE for dtype in ("float64", "float32")),
]


@pytest.mark.parametrize(("library", "sparse", "dtype"), CASES)
def test_random_chains_say_what_the_pipeline_says(library: str, sparse: bool, dtype: str) -> None:
    for name in {"xgboost", "lightgbm", "catboost"} & {library}:
        pytest.importorskip(name)
    with threadpool_limits(1):
        for seed in range(4):
            check_chain(library, sparse, dtype, 1000 * CASES.index((library, sparse, dtype)) + seed)


def histogram() -> Any:
    return HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=1, early_stopping=False)


SIGNS = np.array([[-2.0], [-1.0], [-0.5], [0.5], [1.0], [2.0]] * 6)
POSITIVE = (SIGNS[:, 0] > 0).astype(int)


def behind_a_pole(*steps: Any) -> Any:
    return make_pipeline(*steps, histogram()).fit(SIGNS, POSITIVE)


def test_a_point_with_two_images_is_outside() -> None:
    """1 / 0 is inf and 1 / -0.0 is -inf, which the model sends different ways: a row at 0 has no one label."""
    model = behind_a_pole(FunctionTransformer(np.reciprocal))
    with np.errstate(divide="ignore"):
        assert model.predict([[0.0], [-0.0]]).tolist() == [1, 0]
    ensemble = imported(model)
    assert ensemble.value_low.tolist() == [5e-324]
    assert ensemble.predict([[5e-324], [2.0]]).tolist() == [1, 1]
    for row in ([[0.0]], [[-0.0]], [[-0.5]]):
        with pytest.raises(tp.InvalidInput, match="is outside the range that the model accepts"):
            tp.verify(ensemble, row, [0], tp.Attacker((0, 0.5)))
    result = tp.verify(ensemble, [[0.5]], [1], tp.Attacker((-0.5, 0)))
    assert result.robustness.lower == 1, "beyond the pole is beyond the domain"


@pytest.mark.parametrize("steps", [(np.reciprocal, np.abs), (np.reciprocal, np.square), (np.reciprocal, np.reciprocal)])
def test_two_images_that_are_one_to_the_model_are_inside(steps: Any) -> None:
    model = behind_a_pole(*map(FunctionTransformer, steps))
    ensemble = imported(model)
    rows = np.array([[-5e-324], [-0.0], [0.0], [5e-324], [-2.0], [2.0], [-1e-308], [1e-308], [-1e308]])
    with np.errstate(all="ignore"):
        assert (ensemble.predict(rows) == model.predict(rows)).all()


def test_a_category_that_is_zero_may_have_two_images() -> None:
    X = np.repeat([[-1.0], [0.0], [1.0], [2.0]], 8, axis=0)
    step = FeatureUnion([("code", OneHotEncoder()), ("pole", FunctionTransformer(np.reciprocal))])
    with np.errstate(divide="ignore"):
        for sparse_output in (False,):
            step.transformer_list[0][1].set_params(sparse_output=sparse_output)
            model = make_pipeline(step, histogram()).fit(X, X[:, 0] >= 0)
        both = model.predict([[0.0], [-0.0]])
    ensemble = imported(model)
    assert both[0] == both[1] or 0.0 not in ensemble.columns[0].values


def lightgbm(**options: Any) -> Any:
    lgb = pytest.importorskip("lightgbm")
    return lgb.LGBMClassifier(
        n_estimators=2, min_child_samples=1, min_data_in_bin=1, n_jobs=1, verbose=-1, min_child_weight=0, **options
    )


TINY = np.array([-1.0, -1e-34, -ZERO, -1e-36, -5e-324, 0.0, 5e-324, 1e-36, ZERO, 1e-34, 1.0])
TINY = np.unique(np.concatenate((TINY, np.nextafter(TINY, -1), np.nextafter(TINY, 1))))


@pytest.mark.parametrize("options", [{}, {"zero_as_missing": True}, {"use_missing": False}])
@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
def test_lightgbm_gets_tiny_numbers_as_the_steps_pass_them_on(kind: str, options: Any) -> None:
    """Of a CSR matrix it compares the numbers themselves; of others, zero in their place."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.integers(0, 3, 400), "x": rng.choice([-1.0, -1e-33, 0.0, 1e-33, 1.0], 400)})
    steps = make_column_transformer(
        (OneHotEncoder(), ["code"]), ("passthrough", ["x"]), sparse_threshold=0 if kind == "dense" else 1
    )
    # An imputer makes CSC of CSR, and a scaler leaves it that.
    more = [SimpleImputer(strategy="most_frequent"), MaxAbsScaler()] if kind == "csc" else []
    model = make_pipeline(steps, *more, lightgbm(**options)).fit(X, (X["x"] < 0) ^ (X["code"] == 1))
    passed_on = model[:-1].transform(X)
    assert isinstance(passed_on, {"dense": np.ndarray, "csr": csr_matrix, "csc": csc_matrix}[kind])
    rows = pd.DataFrame({"code": np.repeat([0, 1, 2], len(TINY)), "x": np.tile(TINY, 3)})
    assert (imported(model).predict(rows) == model.predict(rows)).all()


def test_lightgbm_thresholds_close_to_zero_are_compared_as_they_are_in_sparse_rows() -> None:
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    for t in (-ZERO, -ZERO / 2, 0.0, ZERO / 2, ZERO, float(np.nextafter(-ZERO, -1))):
        model = lightgbm().fit(X, X[:, 0] > 0)
        text = re.sub(r"(?<=\nthreshold=)[^ \n]+", repr(t), model.booster_.model_to_string())
        model._Booster = lgb.Booster(model_str=re.sub(r"tree_sizes=.*\n", "", text))
        for sparse in (0, 1):
            step = make_column_transformer(
                (OneHotEncoder(handle_unknown="ignore", max_categories=1), [1]), ("passthrough", [0]),
                sparse_threshold=sparse,
            ).fit(X)  # fmt: skip
            turned = make_column_transformer(("passthrough", [1, 0]), sparse_threshold=sparse)
            pipeline = make_pipeline(step, turned.fit(step.transform(X)), model)
            rows = np.column_stack((TINY, np.zeros(len(TINY))))
            assert (imported(pipeline).predict(rows) == pipeline.predict(rows)).all(), (t, sparse)


def test_trees_take_no_missing_values_in_sparse_rows() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.integers(0, 3, 90), "x": rng.normal(size=90)})
    blank = pd.DataFrame({"code": [0], "x": [np.nan]})
    for sparse in (0, 1):
        step = make_column_transformer((OneHotEncoder(), ["code"]), ("passthrough", ["x"]), sparse_threshold=sparse)
        model = make_pipeline(step, RandomForestClassifier(3, random_state=0)).fit(X, X["x"] > 0)
        ensemble = imported(model)
        if sparse:
            for predict in (model.predict, ensemble.predict):
                with pytest.raises(ValueError, match="NaN"):
                    predict(blank)
        else:
            assert ensemble.predict(blank).tolist() == model.predict(blank).tolist()


def test_tests_with_several_cuts_are_followed_through_steps() -> None:
    """With zero_as_missing zeros may go right where the numbers on both sides of them go left."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 1))
    X[::3] = 0.0
    model = make_pipeline(FunctionTransformer(np.arctan), lightgbm(zero_as_missing=True))
    model.fit(X, (X[:, 0] == 0) | (X[:, 0] > 0.3))
    rows = np.concatenate((TINY, TINY * 3, np.linspace(-2, 2, 99)))[:, None]
    assert (imported(model).predict(rows) == model.predict(rows)).all()


def test_steps_of_data_frames_are_given_data_frames() -> None:
    """Of a frame NumPy takes the exponential of truth values in float16, of an array with other columns in float64."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80)})
    X.loc[::5, "a"] = np.nan
    union = FeatureUnion([("own", FunctionTransformer()), ("blank", MissingIndicator(features="all"))])
    for steps in ((union, FunctionTransformer(np.exp)), (SelectKBest(k=1), StandardScaler())):
        model = make_pipeline(*steps, histogram())
        model[:-1].set_output(transform="pandas")
        whole = X.fillna(0.0) if len(steps) and isinstance(steps[0], SelectKBest) else X
        model.fit(whole, X["a"].isna() ^ (X["b"] > 0))
        assert (imported(model).predict(X) == model.predict(X)).all()


@pytest.mark.parametrize(
    ("step", "values"),
    [
        (FunctionTransformer(np.reciprocal), np.array([1, 2, 3, 4])),
        (FunctionTransformer(np.square), np.array([1, 2**31, 2**32, 7])),
        (FunctionTransformer(np.negative), np.array([0, 1, 2, 3], dtype=np.uint32)),
        (FunctionTransformer(np.abs), np.array([-(2**31), 1, 2, 3], dtype=np.int32)),
        (SimpleImputer(missing_values=0, strategy="most_frequent"), np.array([0, 1, 2, 3])),
    ],
    ids=["reciprocal", "square", "negative", "abs", "imputer"],
)
def test_whole_numbers_are_refused_where_steps_keep_them_whole(step: Any, values: np.ndarray) -> None:
    X = np.array([[2.5], [2.5], [2.5], [1.0], [4.0], [9e9], [0.3]])
    model = make_pipeline(step, DecisionTreeClassifier(random_state=0)).fit(X, X[:, 0] > 2)
    ensemble = imported(model)
    rows = values[:, None]
    assert (model[:-1].transform(rows) != model[:-1].transform(rows.astype(float))).any(), "nothing is to be refused"
    with pytest.raises(tp.InvalidInput, match=f"column 0 is of type {values.dtype}, and the steps .* pass doubles"):
        ensemble.predict(rows)
    assert (ensemble.predict(rows.astype(float)) == model.predict(rows.astype(float))).all()


@pytest.mark.parametrize("dtype", ["float[pyarrow]", "halffloat[pyarrow]", "Float32"])
def test_narrow_columns_of_other_kinds_are_refused(dtype: str) -> None:
    X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=40)})
    ensemble = imported(make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, X["a"] > 0.1))
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    with pytest.raises(tp.InvalidInput, match="column 'a' is of type .*, and the steps"):
        ensemble.predict(X.astype(np.float16).astype(dtype) if "half" in dtype else X.astype(dtype))


def test_categories_that_are_no_doubles_are_refused_by_name() -> None:
    X = pd.DataFrame({"a": [2**53, 2**53 + 1] * 20})
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), DecisionTreeClassifier()).fit(X, X["a"] % 2)
    with pytest.raises(tp.UnsupportedModel, match="has the category 9007199254740993, which is no double"):
        tp.from_model(model)


def test_large_categories_that_are_doubles_are_taken() -> None:
    X = pd.DataFrame({"a": [1e17, 3e300, -4e18] * 20})
    model = make_pipeline(OneHotEncoder(), DecisionTreeClassifier()).fit(X, X["a"] > 0)
    assert (imported(model).predict(X) == model.predict(X)).all()


def test_marks_are_found_where_numbers_at_the_end_of_a_line_overflow_into_a_step_that_refuses_them() -> None:
    X = np.abs(np.random.default_rng(0).normal(2.0, 3.0, (60, 1))) + 0.5
    turned = make_pipeline(
        FunctionTransformer(np.square),
        QuantileTransformer(n_quantiles=9, output_distribution="normal"),
        FunctionTransformer(np.square),
    )
    tree = DecisionTreeClassifier(random_state=0)
    chain = make_pipeline(turned, tree).fit(X, turned.fit_transform(X)[:, 0] > 1.0)
    asked = np.concatenate((X, -X, np.linspace(-9.0, 9.0, 500)[:, None], [[1e154], [1e100]]))
    assert tp.from_model(chain).predict(asked).tolist() == chain.predict(asked).tolist()
    assert len(set(chain.predict(asked).tolist())) == 2
