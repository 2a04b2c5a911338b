"""Pipelines say bit for bit what scikit-learn says: many steps before several models, every value of every column."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import treeproof as tp
from tests.support.points import beside
from treeproof.model.agreement import check_agreement, probe_rows
from treeproof.model.columns import Column

TEXT = ["purpose", "housing", "job"]
NUMBERS = ["amount", "months", "rate", "age"]
NEVER = "never in the data"


def credit(n: int = 240, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table as people have it: text with missing cells, truth values, whole numbers, numbers with missing cells."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "purpose": rng.choice(["car", "radio", "house", "boat", "cow"], n, p=[0.4, 0.3, 0.2, 0.07, 0.03]),
            "amount": np.round(rng.lognormal(8, 1, n), 2),
            "housing": rng.choice(["own", "rent", "free"], n).astype(object),
            "months": rng.integers(4, 60, n),
            "rate": np.round(rng.normal(0, 1, n), 2),
            "job": rng.choice(["A171", "A172", "A173"], n),
            "phone": rng.random(n) < 0.5,
            "age": rng.integers(18, 80, n).astype(float),
            "loans": rng.integers(0, 4, n),
            "comment": [f"row {i}" for i in range(n)],
        }
    )
    frame.loc[rng.random(n) < 0.1, "housing"] = np.nan
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.2, "rate"] = 0.0
    score = (
        np.log(frame["amount"])
        - frame["months"] / 20
        + (frame["purpose"].isin(["car", "cow"])) * 2
        + frame["rate"]
        + frame["phone"] * (frame["loans"] % 2) * 2
        - frame["age"].fillna(90) / 30
        + (frame["housing"] == "own") * 1.5
    )
    return frame, np.where(score > score.median(), "good", "bad")


X, y = credit()


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Small models are quicker without threads that wait for each other."""
    with threadpool_limits(1):
        yield


def forest() -> Any:
    return RandomForestClassifier(6, max_depth=6, random_state=0)


def histogram() -> Any:
    return HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=12, min_samples_leaf=5, random_state=0)


def boosting() -> Any:
    return GradientBoostingClassifier(n_estimators=5, max_depth=4, random_state=0)


def xgboost() -> Any:
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=5, max_depth=5, n_jobs=1)


def lightgbm() -> Any:
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=5, min_child_samples=5, n_jobs=1, verbose=-1)


def catboost() -> Any:
    return pytest.importorskip("catboost").CatBoostClassifier(
        iterations=5, depth=4, thread_count=1, verbose=0, allow_writing_files=False
    )


MODELS = {
    "forest": forest,
    "boosting": boosting,
    "histogram": histogram,
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "catboost": catboost,
}

numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())


def columns(*parts: Any, **options: Any) -> ColumnTransformer:
    return make_column_transformer(*parts, **options)


def encoded(encoder: Any, *names: str) -> ColumnTransformer:
    """An encoder of the text columns, beside scaled numbers."""
    return columns((encoder, list(names or TEXT)), (numbers, NUMBERS))


STEPS: dict[str, Any] = {
    "one-hot, unknown ignored": encoded(OneHotEncoder(handle_unknown="ignore")),
    "one-hot, unknown refused": encoded(OneHotEncoder()),
    "one-hot, dense float32": encoded(OneHotEncoder(sparse_output=False, dtype=np.float32)),
    "one-hot, first dropped": encoded(OneHotEncoder(drop="first", handle_unknown="ignore")),
    "one-hot, binary dropped": encoded(OneHotEncoder(drop="if_binary")),
    "one-hot, infrequent": encoded(OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist")),
    "one-hot, at most three": encoded(OneHotEncoder(max_categories=3, handle_unknown="ignore")),
    "one-hot, infrequent and refused": encoded(OneHotEncoder(min_frequency=0.1)),
    "one-hot of truth values": encoded(OneHotEncoder(handle_unknown="ignore"), "purpose", "phone"),
    "one-hot of truth values, refused": encoded(OneHotEncoder(), "phone", "housing"),
    "one-hot, categories given": encoded(
        OneHotEncoder(categories=[["radio", "car", "house", "boat", "cow", "plane"]], handle_unknown="ignore"),
        "purpose",
    ),
    "ordinal": encoded(OrdinalEncoder()),
    "ordinal, unknown values": encoded(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)),
    "ordinal, missing as -2": encoded(
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    ),
    "ordinal, infrequent": encoded(OrdinalEncoder(min_frequency=30)),
    "target": encoded(TargetEncoder(random_state=0)),
    "imputed text, one-hot": encoded(
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    ),
    "constant text, one-hot": encoded(
        make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder())
    ),
    "text with an indicator": encoded(
        make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder()), "job", "purpose"
    ),
    "whole numbers, one-hot": columns((OneHotEncoder(handle_unknown="ignore"), ["loans"]), (numbers, NUMBERS)),
    "whole numbers, one-hot, refused": columns((OneHotEncoder(), ["loans"]), (numbers, NUMBERS)),
    "whole numbers, ordinal": columns((OrdinalEncoder(), ["loans"]), (numbers, NUMBERS)),
    "whole numbers twice": columns(
        (OneHotEncoder(handle_unknown="ignore"), ["loans"]), (StandardScaler(), ["loans"]), (numbers, NUMBERS)
    ),
    "selectors by type": columns(
        (OneHotEncoder(handle_unknown="ignore", max_categories=9), make_column_selector(dtype_include=object)),
        (numbers, make_column_selector(dtype_include="number")),
    ),
    "the remainder passes": columns(
        (OneHotEncoder(), ["purpose", "job"]),
        ("drop", ["housing", "comment"]),
        (SimpleImputer(), ["age"]),
        remainder="passthrough",
    ),
    "the remainder is scaled": columns(
        (OrdinalEncoder(), TEXT), ("drop", ["comment", "age"]), remainder=MinMaxScaler()
    ),
    "as data frames": Pipeline([("c", encoded(OneHotEncoder(sparse_output=False)))]).set_output(transform="pandas"),
    "nested": columns(
        (
            make_column_transformer(
                (OneHotEncoder(handle_unknown="ignore"), [1]), ("passthrough", slice(0, 1)), remainder=OrdinalEncoder()
            ),
            ["amount", "purpose", "job"],
        ),
        (numbers, ["age", "rate"]),
    ),
    "text to one, numbers to another": columns(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["purpose", "loans"]),
        ("passthrough", ["loans", "amount"]),
    ),
    "by position and mask": columns(
        (OneHotEncoder(), [0]), (numbers, [name in ("amount", "age") for name in X]), ("passthrough", slice(3, 5))
    ),
    "dense however sparse": columns((OneHotEncoder(), TEXT), (MaxAbsScaler(), ["amount"]), sparse_threshold=0),
    "sparse however dense": columns((OneHotEncoder(), TEXT), (numbers, NUMBERS), sparse_threshold=1),
    "a scaler behind a sparse matrix": make_pipeline(
        columns((OneHotEncoder(), TEXT), ("passthrough", ["amount", "months"]), sparse_threshold=1),
        StandardScaler(with_mean=False),
    ),
    "a union": make_pipeline(
        columns(("passthrough", ["amount", "months", "age"])),
        FeatureUnion([("as it is", SimpleImputer()), ("is missing", MissingIndicator(features="all"))]),
    ),
    "selection behind encoders": make_pipeline(
        encoded(OneHotEncoder(handle_unknown="ignore")), SelectKBest(k=6), VarianceThreshold()
    ),
    "selection by a model": make_pipeline(
        encoded(OneHotEncoder(handle_unknown="ignore")), SelectFromModel(DecisionTreeClassifier(random_state=0))
    ),
}


def on_numbers(*steps: Any) -> Any:
    """Steps for the columns of numbers."""
    return columns((make_pipeline(*steps), NUMBERS))


log1p = FunctionTransformer(np.log1p)
NUMBER_STEPS: dict[str, Any] = {
    "mean": on_numbers(SimpleImputer()),
    "most frequent, indicator": on_numbers(SimpleImputer(strategy="most_frequent", add_indicator=True)),
    "constant, indicator": on_numbers(SimpleImputer(strategy="constant", fill_value=-1, add_indicator=True)),
    "zeros are missing": columns(
        (SimpleImputer(missing_values=0.0, add_indicator=True), ["rate", "months"]), (SimpleImputer(), ["age"])
    ),
    "indicator alone": columns((MissingIndicator(), ["age"]), (SimpleImputer(), NUMBERS)),
    "indicator that refuses": columns((MissingIndicator(), ["age", "rate"]), (SimpleImputer(), NUMBERS)),
    "scalers": on_numbers(SimpleImputer(), MaxAbsScaler(), RobustScaler(), MinMaxScaler()),
    "clipped": on_numbers(SimpleImputer(), MinMaxScaler(clip=True)),
    "bins, one-hot": on_numbers(SimpleImputer(), StandardScaler(), KBinsDiscretizer(6, encode="onehot")),
    "bins, one-hot, dense, float32": on_numbers(
        SimpleImputer(), KBinsDiscretizer(9, encode="onehot-dense", strategy="uniform", dtype=np.float32)
    ),
    "bins, ordinal": on_numbers(
        SimpleImputer(), KBinsDiscretizer(7, encode="ordinal", strategy="kmeans", random_state=0)
    ),
    "bins behind bins": on_numbers(SimpleImputer(), KBinsDiscretizer(7, encode="ordinal"), OneHotEncoder()),
    "quantiles": on_numbers(SimpleImputer(), QuantileTransformer(n_quantiles=50)),
    "normal quantiles": on_numbers(SimpleImputer(), QuantileTransformer(n_quantiles=50, output_distribution="normal")),
    "power": on_numbers(SimpleImputer(), PowerTransformer()),
    "box-cox": columns((PowerTransformer(method="box-cox"), ["amount", "months"]), (SimpleImputer(), ["age"])),
    "power and scaler": on_numbers(SimpleImputer(), PowerTransformer(standardize=False), StandardScaler()),
    "binarizer": on_numbers(SimpleImputer(), Binarizer(threshold=0.3)),
    "log1p": columns(
        (make_pipeline(log1p, StandardScaler()), ["amount", "months"]), (SimpleImputer(), ["rate", "age"])
    ),
    "log1p, then imputed": columns((make_pipeline(log1p, SimpleImputer()), ["amount", "months", "age"])),
    "log, then a histogram": columns((FunctionTransformer(np.log), ["amount", "months"]), (SimpleImputer(), ["age"])),
    "roots": columns((FunctionTransformer(np.sqrt), ["amount"]), (FunctionTransformer(np.cbrt), ["rate"])),
    "exp": columns((FunctionTransformer(np.exp), ["rate"]), (FunctionTransformer(np.expm1), ["months"])),
    "square and its kin": columns(
        (FunctionTransformer(np.square), ["rate"]),
        (FunctionTransformer(np.abs), ["rate"]),
        (FunctionTransformer(np.sign), ["months"]),
        (FunctionTransformer(np.negative), ["amount"]),
        (FunctionTransformer(np.reciprocal), ["amount"]),
        (FunctionTransformer(np.rint), ["rate"]),
    ),
    "identity": on_numbers(FunctionTransformer(), SimpleImputer()),
}


# Behind these steps values are still missing, which gradient boosting refuses in training.
KEEP_MISSING = ("ordinal", "ordinal, unknown values", "ordinal, infrequent", "the remainder is scaled")


# These make a sparse matrix, which histogram gradient boosting refuses.
SPARSE = ("sparse however dense", "a scaler behind a sparse matrix", "bins, one-hot", "bins behind bins")


def cases() -> Iterator[Any]:
    """Every kind of step with two kinds of models, all kinds of models in turn."""
    names = list(MODELS)
    for number, (name, step) in enumerate((STEPS | NUMBER_STEPS).items()):
        quick, other = names[number % len(names)], names[(number + 1 + number // len(names) % 5) % len(names)]
        for model in (quick, other):
            refused = (model == "boosting" and name in KEEP_MISSING) or (model == "histogram" and name in SPARSE)
            if not refused:
                marks = [] if model == quick else [pytest.mark.slow]
                yield pytest.param(step, model, id=f"{name}, {model}", marks=marks)
    for name in ("sparse however dense", "a scaler behind a sparse matrix", "dense however sparse"):
        yield pytest.param(STEPS[name], "xgboost", id=f"{name}, zeros for xgboost")


def fitted(step: Any, model: str, X: Any = X, y: Any = y) -> Any:
    labels = np.unique(y, return_inverse=True)[1] if model == "xgboost" else y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(clone(step), MODELS[model]()).fit(X, labels)


def labels_of(predict: Callable[[Any], Any], rows: Any) -> Any:
    """The labels of rows, or None where they are refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(predict(rows)).reshape(-1)
        except (ValueError, tp.InvalidInput):
            return None


def same_labels(ensemble: tp.Ensemble, pipeline: Any, rows: Any) -> bool:
    """Both refuse these rows, or both give them the same labels."""
    ours, theirs = labels_of(ensemble.predict, rows), labels_of(pipeline.predict, rows)
    if ours is None or theirs is None:
        return ours is None and theirs is None
    return bool((ours == theirs).all())


def replaced(rows: pd.DataFrame, column: str, values: Any) -> pd.DataFrame:
    return rows.drop(columns=column).assign(**{column: values})[list(rows)]


def some_rows(n: int, seed: int = 0) -> pd.DataFrame:
    return X.sample(n, replace=True, random_state=seed).reset_index(drop=True)


def values_taken(ensemble: tp.Ensemble, pipeline: Any, column: Column, values: list[Any]) -> list[Any]:
    """The values of a column that scikit-learn takes; with each of them alone, both sides say the same."""
    dtype = None if column.name == "loans" else object

    def with_values(some: list[Any]) -> pd.DataFrame:
        return replaced(some_rows(8 * len(some)), column.name, pd.Series(some * 8, dtype=dtype))

    if labels_of(pipeline.predict, with_values(values)) is not None:
        assert same_labels(ensemble, pipeline, with_values(values)), column
        return values
    for value in values:
        assert same_labels(ensemble, pipeline, with_values([value])), (column, value)
    return [value for value in values if labels_of(pipeline.predict, with_values([value])) is not None]


def check_values(ensemble: tp.Ensemble, pipeline: Any) -> None:
    """Every value of every category column, missing and unseen ones: alone, and in random mixtures."""
    rng = np.random.default_rng(1)
    mixed = some_rows(300, 1)
    for column in ensemble.columns:
        if column.kind == "number" or column.name == "comment":
            continue
        known = list(column.values)
        if column.name != "loans" or not column.values:
            # A column of truth values with text in it is text to scikit-learn, and refused here.
            known += [np.nan, None] + [NEVER] * (column.name != "phone")
        taken = values_taken(ensemble, pipeline, column, known)
        assert taken
        picked = rng.integers(len(taken), size=len(mixed))
        mixed = replaced(mixed, column.name, pd.Series([taken[i] for i in picked]))
    assert labels_of(pipeline.predict, mixed) is not None
    assert same_labels(ensemble, pipeline, mixed)


def check_numbers(ensemble: tp.Ensemble, pipeline: Any) -> None:
    """Numbers on every pulled-back threshold and one step beside it, at the ends of the range, and missing ones."""
    for f, column in enumerate(ensemble.columns):
        category = dict(ensemble.categories).get(f)
        if category is not None and (category.coded or not category.unseen):
            continue
        values = np.concatenate((beside(ensemble, f), ensemble.value_low[[f]], ensemble.value_high[[f]]))
        rows = replaced(some_rows(len(values)), column.name, values)
        theirs = labels_of(pipeline.predict, rows)
        ours = labels_of(ensemble.predict, rows)
        assert theirs is not None and ours is not None, column
        differ = np.flatnonzero(ours != theirs)
        assert len(differ) == 0, (column.name, len(differ), values[differ[0]])
        assert same_labels(ensemble, pipeline, replaced(some_rows(9), column.name, np.full(9, np.nan))), column
        high = ensemble.value_high[f]
        if high < 1e300 and isinstance(pipeline[-1], (RandomForestClassifier, GradientBoostingClassifier)):
            assert labels_of(pipeline.predict, replaced(some_rows(1), column.name, [high * 2])) is None, column


@pytest.mark.parametrize(("step", "model"), list(cases()))
def test_a_pipeline_predicts_what_scikit_learn_predicts(step: Any, model: str) -> None:
    pipeline = fitted(step, model)
    ensemble = tp.from_model(pipeline)
    assert ensemble.source is pipeline
    assert ensemble.n_nodes == tp.from_model(pipeline[-1]).n_nodes
    assert len(np.unique(ensemble.predict(X))) == 2
    assert same_labels(ensemble, pipeline, X)
    check_values(ensemble, pipeline)
    check_numbers(ensemble, pipeline)
    check_agreement(ensemble, probe_rows(ensemble, 300))


def test_columns_are_those_of_the_user() -> None:
    ensemble = tp.from_model(fitted(STEPS["one-hot of truth values"], "forest"))
    kinds = {column.name: (column.kind, column.values) for column in ensemble.columns}
    assert list(kinds) == list(X)
    assert kinds["purpose"] == ("category", ("boat", "car", "cow", "house", "radio"))
    assert kinds["phone"] == ("category", (False, True))
    assert kinds["amount"] == ("number", ())
    # Nothing looks at this column, so it may hold anything.
    assert kinds["comment"] == ("category", ())
    assert ensemble.takes_frames
    given = ensemble.as_given(ensemble.check_rows(X[:9]))
    assert given["purpose"].tolist() == X["purpose"][:9].tolist()


def test_a_step_that_refuses_missing_values_in_one_column_only() -> None:
    pipeline = fitted(NUMBER_STEPS["indicator that refuses"], "forest")
    ensemble = tp.from_model(pipeline)
    assert ensemble.may_be_missing.any()
    assert {X.columns[f] for f in np.flatnonzero(~ensemble.may_be_missing)} == {"rate"}


def array_of(*names: str) -> np.ndarray:
    return X[list(names)].to_numpy()


ARRAYS: dict[str, tuple[Any, np.ndarray]] = {
    "text and numbers": (
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), [0, 2]), (SimpleImputer(), slice(3, 5))),
        array_of("purpose", "comment", "housing", "age", "amount"),
    ),
    "text alone": (OrdinalEncoder(), array_of("purpose", "job", "housing").astype(str)),
    "imputed text": (
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
        array_of("purpose", "job", "housing"),
    ),
    "numbers one-hot": (OneHotEncoder(handle_unknown="ignore"), array_of("loans", "months").astype(float)),
    "numbers one-hot, refused": (OneHotEncoder(), array_of("loans", "months")),
    "numbers binned": (
        make_pipeline(SimpleImputer(add_indicator=True), KBinsDiscretizer(5)),
        array_of("age", "amount", "rate").astype(float),
    ),
    "target": (TargetEncoder(), array_of("purpose", "job", "housing")),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_pipelines_of_arrays(name: str) -> None:
    step, rows = ARRAYS[name]
    pipeline = fitted(step, "forest", rows)
    ensemble = tp.from_model(pipeline)
    assert not ensemble.takes_frames
    assert same_labels(ensemble, pipeline, rows) and labels_of(ensemble.predict, rows) is not None
    rng = np.random.default_rng(0)
    mixed = np.column_stack([rng.permutation(column) for column in rows.T]).astype(rows.dtype)
    assert same_labels(ensemble, pipeline, mixed)
    check_agreement(ensemble, probe_rows(ensemble, 500))


def with_categories() -> pd.DataFrame:
    return X.astype(dict.fromkeys(TEXT, "category"))


def passing() -> Any:
    return columns((numbers, NUMBERS), ("passthrough", [*TEXT, "loans"])).set_output(transform="pandas")


OWN_CATEGORIES: dict[str, tuple[Any, Callable[[], Any], pd.DataFrame]] = {
    "codes for a histogram": (
        columns((OrdinalEncoder(), ["purpose", "job"]), (numbers, NUMBERS)),
        lambda: histogram().set_params(categorical_features=[0, 1]),
        X,
    ),
    "text for a histogram": (passing(), histogram, with_categories()),
    "text for LightGBM": (passing(), lightgbm, with_categories()),
    "text for XGBoost": (passing(), lambda: xgboost().set_params(enable_categorical=True), with_categories()),
    "text for LightGBM, and counted": (
        columns(
            (numbers, NUMBERS), ("passthrough", TEXT), (OneHotEncoder(sparse_output=False), ["purpose"])
        ).set_output(transform="pandas"),
        lightgbm,
        with_categories(),
    ),
}


@pytest.mark.parametrize("name", OWN_CATEGORIES)
def test_models_that_take_categories_themselves(name: str) -> None:
    step, model, rows = OWN_CATEGORIES[name]
    pipeline = make_pipeline(clone(step), model()).fit(rows, y == "good")
    ensemble = tp.from_model(pipeline)
    assert ensemble.n_nodes == tp.from_model(pipeline[-1]).n_nodes
    values = ensemble.columns[0].values
    assert set(values) == {"boat", "car", "cow", "house", "radio"}
    assert same_labels(ensemble, pipeline, rows) and labels_of(ensemble.predict, rows) is not None
    for value in (*values, np.nan, NEVER):
        changed = replaced(rows, "purpose", pd.Categorical([value] * len(rows), categories=[*values, NEVER]))
        # XGBoost answers for a value it never saw where treeproof does not.
        refused = value == NEVER and labels_of(ensemble.predict, changed) is None
        assert refused or same_labels(ensemble, pipeline, changed), value
    check_agreement(ensemble, probe_rows(ensemble, 500))


def test_numbers_that_an_encoder_refuses() -> None:
    ensemble = tp.from_model(fitted(STEPS["whole numbers, one-hot, refused"], "forest"))
    loans = ensemble.columns[list(X).index("loans")]
    assert (loans.name, loans.kind, loans.values) == ("loans", "category", (0, 1, 2, 3))
    with pytest.raises(tp.InvalidInput, match="column 'loans': the model does not know the value 7"):
        ensemble.predict(X.assign(loans=7))
    assert (ensemble.predict(X.astype({"loans": float})) == ensemble.predict(X)).all()


def test_none_and_nan_are_different_to_encoders() -> None:
    frame = X.assign(housing=X["housing"].astype(object).where(X["housing"].notna(), None))
    pipeline = fitted(STEPS["one-hot, unknown refused"], "forest", frame)
    ensemble = tp.from_model(pipeline)
    assert same_labels(ensemble, pipeline, frame) and labels_of(ensemble.predict, frame) is not None
    assert ensemble.as_given(ensemble.check_rows(frame))["housing"].tolist() == frame["housing"].tolist()
    for rows in (X, X.astype({"housing": "category"})):
        assert labels_of(pipeline.predict, rows) is None
        with pytest.raises(tp.InvalidInput, match="column 'housing': the model does not know the value nan"):
            ensemble.predict(rows)
    both = frame.copy()
    both.loc[both.index[both["housing"].isna()][:5], "housing"] = np.nan
    with pytest.raises(tp.UnsupportedModel, match="tells None from NaN"):
        tp.from_model(fitted(STEPS["one-hot, unknown refused"], "forest", both))


def test_a_category_keeps_its_kind_of_missing_values_in_a_file(tmp_path: Any) -> None:
    ensemble = tp.from_model(fitted(STEPS["one-hot, unknown refused"], "forest"))
    tp.save_model(ensemble, tmp_path / "model.json")
    again = tp.load_model(tmp_path / "model.json")
    assert again.categories == ensemble.categories
    assert again.fingerprint == ensemble.fingerprint
    assert (again.predict(X) == ensemble.predict(X)).all()


@pytest.mark.parametrize("kind", [np.float32, np.float16, "Float32"])
def test_narrow_columns_are_refused_where_steps_compute_with_them(kind: Any) -> None:
    pipeline = fitted(STEPS["one-hot, unknown ignored"], "forest")
    narrow = X.astype({"amount": kind})
    with pytest.raises(tp.InvalidInput, match=r"column 'amount' is of type \w+, and the steps .* pass doubles"):
        tp.from_model(pipeline).predict(narrow)
    selected = fitted(make_pipeline(columns(("passthrough", ["amount", "months"])), SelectKBest(k=1)), "forest")
    assert same_labels(tp.from_model(selected), selected, narrow)


def test_narrow_whole_numbers_are_refused_by_functions_of_numpy() -> None:
    pipeline = fitted(columns((log1p, ["loans", "months"]), (StandardScaler(), ["amount", "phone"])), "forest")
    ensemble = tp.from_model(pipeline)
    assert same_labels(ensemble, pipeline, X)
    with pytest.raises(tp.InvalidInput, match="column 'loans' is of type int8"):
        ensemble.predict(X.astype({"loans": np.int8}))
    rows = X.astype({"amount": np.int16}, errors="ignore")
    assert same_labels(ensemble, pipeline, rows)


def test_zeros_that_a_sparse_matrix_leaves_out_are_missing_for_xgboost() -> None:
    sparse, dense = (
        fitted(columns((OneHotEncoder(), TEXT), ("passthrough", ["rate", "months"]), sparse_threshold=t), "xgboost")
        for t in (1, 0)
    )
    rows = replaced(X, "rate", np.zeros(len(X)))
    for pipeline in (sparse, dense):
        assert same_labels(tp.from_model(pipeline), pipeline, rows)
    tests = tp.from_model(sparse)
    assert (np.diff(tests.more_start)[tests.feature == list(X).index("rate")] > 0).any()


def test_doubles_that_rounding_sends_the_other_way() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(3000, 2)) * [1.0, 1e-4]
    target = (rows[:, 0] + rows[:, 1] * 1e4 > 0).astype(int)
    step = QuantileTransformer(n_quantiles=1000, output_distribution="normal", random_state=0)
    pipeline = make_pipeline(step, RandomForestClassifier(5, random_state=0)).fit(rows, target)
    ensemble = tp.from_model(pipeline)
    assert len(ensemble.more), "no test has more than one cut, so nothing was looked at"
    cuts = ensemble.grid.cuts_of(0)
    near = (cuts[::7, None].view(np.int64) + np.arange(-40, 41)).view(np.float64).reshape(-1)
    near = np.column_stack((near, np.full(len(near), 0.0)))
    assert (ensemble.predict(near) == pipeline.predict(near)).all()


def test_logarithms_of_what_has_none_are_outside() -> None:
    pipeline = fitted(NUMBER_STEPS["log, then a histogram"], "boosting")
    ensemble = tp.from_model(pipeline)
    f = list(X).index("amount")
    assert ensemble.value_low[f] == 5e-324
    for value in (0.0, -1.0):
        assert labels_of(pipeline.predict, replaced(X[:1], "amount", [value])) is None
        with pytest.raises(tp.InvalidInput, match="is outside the range"):
            ensemble.predict(replaced(X[:1], "amount", [value]))


def test_votes_are_asked_for_behind_the_steps() -> None:
    pipeline = fitted(STEPS["one-hot, unknown ignored"], "forest")
    ensemble = tp.from_model(pipeline, voting="hard")
    assert (ensemble.predict(X) == ensemble.source_labels(ensemble.check_rows(X))).all()
    assert (ensemble.predict(X) != pipeline.predict(X)).any()


def test_searches_around_and_inside_a_pipeline() -> None:
    step = STEPS["one-hot, unknown ignored"]
    around = GridSearchCV(make_pipeline(clone(step), forest()), {"randomforestclassifier__max_depth": [2, 3]}, cv=2)
    inside = make_pipeline(clone(step), GridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2))
    for model in (around.fit(X, y), inside.fit(X, y), FrozenEstimator(fitted(step, "forest"))):
        assert same_labels(tp.from_model(model), model, X)


class Doubled(StandardScaler):
    """A scaler of somebody's own."""


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (PCA(2), "has a PCA before the model; treeproof takes only steps that make each column from one column"),
        (PolynomialFeatures(), "has a PolynomialFeatures before"),
        (Normalizer(), "has a Normalizer before"),
        (KNNImputer(), "has a KNNImputer before"),
        (SplineTransformer(), "has a SplineTransformer before"),
        (Doubled(), "has a Doubled before"),
        (FunctionTransformer(np.sin), "FunctionTransformer of sin, which treeproof does not know; .* NumPy's abs"),
        (FunctionTransformer(lambda rows: rows * 2), "FunctionTransformer of <lambda>"),
        (FunctionTransformer(np.clip, kw_args={"a_min": 0, "a_max": 1}), "FunctionTransformer of clip"),
        (FunctionTransformer(np.log1p, kw_args={"dtype": np.float32}), "FunctionTransformer with kw_args"),
        (FeatureUnion([("a", StandardScaler())], transformer_weights={"a": 2}), "with transformer_weights"),
        (
            make_pipeline(PowerTransformer(), SimpleImputer(missing_values=0.0)),
            "SimpleImputer looks for single numbers behind a step that rounds",
        ),
        (columns((PCA(1), [0, 1]), remainder="passthrough"), "has a PCA before"),
    ],
)
def test_what_cannot_be_folded_is_refused_by_name(step: Any, message: str) -> None:
    pipeline = make_pipeline(step, forest()).fit(X[["amount", "rate", "loans"]].to_numpy() + 5, y)
    with pytest.raises(tp.UnsupportedModel, match=message):
        tp.from_model(pipeline)


STEP = STEPS["one-hot, unknown ignored"]


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(STEP, FixedThresholdClassifier(forest(), threshold=0.3, pos_label="good")),
        FixedThresholdClassifier(make_pipeline(STEP, forest()), threshold=0.3, pos_label="good"),
        make_pipeline(STEP, VotingClassifier([("a", forest()), ("b", forest())], voting="soft")),
        VotingClassifier([("a", make_pipeline(STEP, forest())), ("b", make_pipeline(STEP, forest()))], voting="soft"),
        make_pipeline(STEP, IsolationForest(n_estimators=5, random_state=0)),
    ],
    ids=["cut behind steps", "cut around steps", "votes behind steps", "votes around steps", "isolation"],
)
def test_decisions_behind_and_around_steps(model: Any) -> None:
    model = clone(model).fit(X, y)
    ensemble = tp.from_model(model)
    assert same_labels(ensemble, model, X) and labels_of(ensemble.predict, X) is not None
    check_agreement(ensemble, probe_rows(ensemble, 300))
    with pytest.raises(tp.InvalidInput, match="column 'amount' is of type float32"):
        ensemble.predict(X.astype({"amount": np.float32}))


@pytest.mark.parametrize("largest", [3e38, 1e300, 2.0**63, 2.0**53 + 2], ids=str)
@pytest.mark.parametrize("as_frame", [True, False], ids=["frame", "array"])
@pytest.mark.parametrize("step", [OneHotEncoder(sparse_output=False), OrdinalEncoder()], ids=["one-hot", "ordinal"])
def test_an_encoder_takes_the_numbers_that_it_knows_however_large(step: Any, as_frame: bool, largest: float) -> None:
    """Beyond whole numbers of 64 bits and beyond float32, which encoders do not care about."""
    rows: Any = np.array([[1.0], [2.0], [largest]] * 4)
    rows = pd.DataFrame(rows, columns=["code"]) if as_frame else rows
    labels = np.array([0, 1, 0] * 4)
    pipeline = make_pipeline(clone(step), DecisionTreeClassifier(random_state=0)).fit(rows, labels)
    ensemble = tp.from_model(pipeline)
    assert (ensemble.predict(rows) == pipeline.predict(rows)).all()
    result = tp.verify(pipeline, rows, labels, tp.Attacker({0: tp.values(1.0, largest)}))
    assert float(result.robustness) == 2 / 3, "1 and the largest have one label, and 2 can become either"


def test_a_threshold_for_a_pipeline() -> None:
    pipeline = fitted(STEP, "forest")
    ensemble = tp.from_model(pipeline, threshold=0.3)
    assert ((ensemble.predict(X) == "good") == (pipeline.predict_proba(X)[:, 1] >= 0.3)).all()
    check_agreement(ensemble, probe_rows(ensemble, 300))
