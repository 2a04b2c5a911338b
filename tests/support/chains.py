"""Random pipelines of every step that treeproof takes, and rows where such a step may surprise: poles, zeros, edges.

`random_chain` makes a fitted pipeline; `rows_beside` adds rows on the cuts of what treeproof made of it, and
`differences` compares the two, row by row where one of them refuses.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.points import beside

LIBRARIES = ("tree", "forest", "extra", "boosting", "ada", "histogram", "xgboost", "lightgbm", "catboost")
"""What may stand behind the steps; `histogram` takes no sparse matrix."""

FUNCTIONS = (
    *(np.abs, np.arcsinh, np.arctan, np.cbrt, np.ceil, np.exp, np.exp2, np.expm1, np.floor, np.log, np.log10),
    *(np.log1p, np.log2, np.negative, np.reciprocal, np.rint, np.sign, np.sqrt, np.square, np.tanh, np.trunc),
)
# SciPy's sparse matrices have these functions, which leave the zeros alone that are not stored.
SPARSE_FUNCTIONS = (np.abs, np.ceil, np.expm1, np.floor, np.log1p, np.rint, np.sign, np.sqrt, np.tanh, np.trunc)

_ZERO = float(np.float32(1e-35))  # LightGBM's
_EDGES = (
    *(0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-154, 1e-45, 1.1754943508222875e-38, 1e-40, 1e-16),
    *(_ZERO, 1e-36, 1e-34, 0.5, 1.0, 2.0, 3.0, 8.3, 36.7, 88.7, 104.0, 709.782712893384, 710.0, 745.2, 1024.0, 1e16),
    *(3.4028234663852886e38, 3.4028235677973366e38, 1e39, 1.3407807929942596e154, 1e155, 1e300, 1e308),
    *(float(np.finfo(np.float64).max), np.inf),
)


def random_chain(
    rng: np.random.Generator, library: str, sparse: bool, dtype: Any, wanted: str | None = None
) -> tuple[Any, Any, Any]:
    """(A fitted pipeline, the rows it was fitted on, special rows of the same kind).

    `sparse`: the model behind the steps is given a sparse matrix. Rows are a data frame or an array of this dtype,
    of doubles, floats or whole numbers. `wanted` is the class or the function of one of the steps.
    """
    while True:
        columns = [_column(rng, f) for f in range(int(rng.integers(1, 4)))]
        X: Any = _as(np.column_stack(columns), np.dtype(dtype))
        y = _labels(rng, X)
        as_frame = rng.random() < 0.5
        if as_frame:
            X = pd.DataFrame(X, columns=[f"c{f}" for f in range(X.shape[1])])
        steps = _steps(rng, X.shape[1], sparse)
        while wanted is not None and wanted not in names_of(Pipeline(steps)):
            steps = _steps(rng, X.shape[1], sparse)
        chain = Pipeline([*steps, ("model", _model(rng, library))])
        if as_frame and not sparse and rng.random() < 0.3:
            chain[:-1].set_output(transform="pandas")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                chain.fit(X, y)
                enough = len(np.unique(np.asarray(chain.predict(X)))) > 1
                if enough and hasattr(chain[:-1].transform(X), "tocsr") == sparse:
                    return chain, X, _special(rng, chain, X)
            except Exception:  # a library's own refusal of what the steps made: another chain
                continue


def names_of(step: Any) -> set[str]:
    """The classes and functions of all steps inside."""
    parts = [part for name in ("steps", "transformers", "transformer_list") for part in getattr(step, name, ())]
    if parts:
        return set().union(*(names_of(part[1]) for part in parts if not isinstance(part[1], str)))
    function = getattr(step, "func", None)
    return {type(step).__name__, *([function.__name__] if function is not None else [])}


def differences(ensemble: tp.Ensemble, chain: Any, rows: Any) -> list[tuple[Any, Any, Any]]:
    """(Row, treeproof's label, the pipeline's) where they differ; None is a refusal.

    treeproof may refuse what the pipeline takes, but answers nothing that the pipeline refuses. The exception: in an
    array of numbers, it takes any number where an encoder knows but a few.
    """
    closed = {f: each.values for f, each in ensemble.categories if not (each.coded or each.unseen)}
    known = np.all([np.isin(np.asarray(rows)[:, f], values) for f, values in closed.items()] or [[True] * len(rows)], 0)
    rows = rows[known] if known.any() else rows[:0]
    ours = _answers(ensemble.predict, rows) if len(rows) else []
    answered = [place for place, label in enumerate(ours) if label is not None]
    taken = rows.iloc[answered] if hasattr(rows, "iloc") else rows[answered]
    theirs = _answers(chain.predict, taken) if answered else []
    return [
        (row, ours[place], other)
        for row, place, other in zip(np.asarray(taken).tolist(), answered, theirs, strict=True)
        if ours[place] != other
    ]


def rows_beside(ensemble: tp.Ensemble, X: Any, rng: np.random.Generator, most: int = 400) -> Any:
    """Rows of X with one column on a cut of treeproof's, a step beside it, or at the ends of what it takes."""
    places, values = [], []
    for f in range(ensemble.n_features):
        ends = np.array([ensemble.value_low[f], ensemble.value_high[f]])
        with np.errstate(all="ignore"):
            beyond = [ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf), beside(ensemble, f)]
        own = np.unique(np.concatenate(beyond))
        own = own if len(own) <= most else rng.choice(own, most, replace=False)
        values.append(own)
        places.append(np.full(len(own), f))
    return _with_values(rng, X, np.concatenate(places), np.concatenate(values))


def _answers(predict: Any, rows: Any) -> list[Any]:
    """The label of each row, None where it is refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(predict(rows)).reshape(-1).tolist()
        except Exception as error:
            if isinstance(error, tp.SoundnessError):
                raise
            if len(rows) == 1:
                return [None]
    half = len(rows) // 2
    return _answers(predict, rows[:half]) + _answers(predict, rows[half:])


def _with_values(rng: np.random.Generator, X: Any, places: np.ndarray, values: np.ndarray) -> Any:
    """Rows of X, in its container and type, with one value replaced in each."""
    base = np.asarray(X)[rng.integers(len(X), size=len(places))].copy()
    base[np.arange(len(places)), places] = _as(values, base.dtype)
    return pd.DataFrame(base, columns=X.columns) if hasattr(X, "columns") else base


def _as(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers of this type; whole ones are as large as doubles can tell apart."""
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            most = min(2**53, np.iinfo(dtype).max)
            values = np.clip(np.nan_to_num(values), max(-(2**53), np.iinfo(dtype).min), most)
        return values.astype(dtype)


def _special(rng: np.random.Generator, chain: Any, X: Any) -> Any:
    """Rows with edges of numbers, and what the steps have learned, a step beside it as well, in one or all columns."""
    known = np.concatenate([np.array(_EDGES), _learned(chain)])
    with np.errstate(all="ignore"):
        values = np.concatenate([known, np.nextafter(known, np.inf), np.nextafter(known, -np.inf)])
    values = np.concatenate([values, -values, [np.nan]])
    n = np.asarray(X).shape[1]
    rows = _with_values(rng, X, np.repeat(np.arange(n), len(values)), np.tile(values, n))
    every = _as(rng.choice(values, size=(60, n)), np.asarray(X).dtype)
    if hasattr(X, "columns"):
        return pd.concat([rows, pd.DataFrame(every, columns=X.columns)], ignore_index=True)
    return np.concatenate([rows, every])


def _learned(step: Any, depth: int = 0) -> np.ndarray:
    """The numbers that steps have learned: means, edges of bins, categories, quantiles."""
    found: list[Any] = []
    for value in vars(step).values() if hasattr(step, "__dict__") else ():
        parts = value if isinstance(value, (list, tuple)) else [value]
        for part in parts:
            inner = part[1] if isinstance(part, tuple) and len(part) > 1 else part
            if isinstance(inner, np.ndarray) and inner.dtype.kind == "f":
                found.append(inner.reshape(-1)[:20].astype(float))
            elif depth < 5 and hasattr(inner, "get_params"):
                found.append(_learned(inner, depth + 1))
    return np.unique(np.concatenate(found))[:60] if found else np.zeros(0)


def _column(rng: np.random.Generator, f: int, n: int = 80) -> np.ndarray:
    """A column of one of the kinds of numbers that make steps surprise."""
    kind = int(rng.integers(0, 9))
    column = [
        lambda: rng.normal(size=n),
        lambda: rng.lognormal(0, 2, size=n),
        lambda: rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], size=n),
        lambda: rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], size=n),
        lambda: rng.integers(0, 4, size=n).astype(float),
        lambda: rng.choice([-1.0, 1.0], size=n) * 10.0 ** rng.integers(-37, -30, size=n),
        lambda: rng.choice([-1.0, 1.0], size=n) * 10.0 ** rng.integers(-40, 36, size=n),
        lambda: rng.normal(size=n) * 10.0 ** rng.integers(0, 37),
        lambda: np.round(rng.uniform(-3, 9, size=n), 1),
    ][kind]()
    if rng.random() < 0.15:
        column = np.abs(column)
    if rng.random() < 0.2:
        column[rng.random(n) < 0.2] = 0.0
    if rng.random() < 0.2:
        column[rng.random(n) < 0.2] = np.nan
    if f and rng.random() < 0.1:
        column[:] = 1.5  # no scaler has a scale here
    return np.asarray(column)


def _labels(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """Labels that hang on signs, sizes and missing values of columns."""
    own = np.nan_to_num(X[:, int(rng.integers(X.shape[1]))].astype(float))
    truth = [own > 0, np.abs(own) > np.median(np.abs(own)), own >= 0, own > np.median(own)][int(rng.integers(4))]
    truth = truth ^ (rng.random(len(X)) < 0.08) ^ (np.isnan(X).any(axis=1) & (rng.random() < 0.5))
    return truth.astype(int)


def _model(rng: np.random.Generator, library: str) -> Any:
    seed = int(rng.integers(1000))
    if library == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1, min_child_weight=0)
    if library == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=3,
            min_child_samples=1,
            min_data_in_bin=1,
            n_jobs=1,
            verbose=-1,
            zero_as_missing=bool(rng.random() < 0.2),
            use_missing=bool(rng.random() < 0.8),
        )
    if library == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(iterations=3, depth=3, thread_count=1, verbose=0, allow_writing_files=False)
    return {
        "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=seed),
        "forest": lambda: RandomForestClassifier(3, max_depth=5, random_state=seed),
        "extra": lambda: ExtraTreesClassifier(3, max_depth=5, random_state=seed),
        "boosting": lambda: GradientBoostingClassifier(n_estimators=3, random_state=seed),
        "ada": lambda: AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=seed),
        "histogram": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=1, random_state=seed),
    }[library]()


def _dense_step(rng: np.random.Generator) -> Any:
    """One step of those that make numbers of numbers."""
    if rng.random() < 0.4:
        return FunctionTransformer(FUNCTIONS[int(rng.integers(len(FUNCTIONS)))])
    yes = bool(rng.random() < 0.5)
    strategy = str(rng.choice(["mean", "median", "most_frequent"]))
    makers = [
        lambda: StandardScaler(with_mean=yes),
        lambda: MinMaxScaler(clip=yes),
        lambda: MinMaxScaler(feature_range=(-1, 1)),
        lambda: RobustScaler(with_centering=yes),
        MaxAbsScaler,
        lambda: Binarizer(threshold=float(rng.choice([0.0, 0.3, -1.0, 1.0]))),
        lambda: KBinsDiscretizer(4, encode="ordinal", strategy=str(rng.choice(["uniform", "quantile"]))),
        lambda: KBinsDiscretizer(3, encode="onehot-dense", dtype=np.float32 if yes else None),
        lambda: PowerTransformer(standardize=yes),
        lambda: PowerTransformer(method="box-cox", standardize=yes),
        lambda: QuantileTransformer(n_quantiles=9, output_distribution="normal" if yes else "uniform"),
        lambda: SimpleImputer(strategy=strategy, add_indicator=yes, keep_empty_features=True),
        lambda: SimpleImputer(strategy="constant", fill_value=float(rng.choice([0.0, -1.0, 7.0]))),
        lambda: SimpleImputer(missing_values=0.0, add_indicator=yes),
        lambda: SimpleImputer(missing_values=1.0),
        VarianceThreshold,
        lambda: SelectKBest(k=1),
        lambda: FeatureUnion([("own", FunctionTransformer()), ("blank", MissingIndicator(features="all"))]),
        lambda: FeatureUnion([("zero", MissingIndicator(missing_values=0.0, features="all")), ("own", MaxAbsScaler())]),
    ]
    return makers[int(rng.integers(len(makers)))]()


def _encoder(rng: np.random.Generator, sparse: bool) -> Any:
    """A step that takes numbers for categories; with `sparse` it makes a sparse matrix."""
    ignore = {"handle_unknown": "ignore"} if rng.random() < 0.7 else {}
    makers = [
        lambda: OneHotEncoder(**ignore),
        lambda: make_pipeline(SimpleImputer(strategy="most_frequent"), KBinsDiscretizer(3, encode="onehot")),
        lambda: OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=-1,
            encoded_missing_value=float(rng.choice([np.nan, -2, 9])),
        ),
        lambda: OneHotEncoder(sparse_output=False, dtype=np.float32, **ignore),
        lambda: TargetEncoder(random_state=0),
    ]
    return makers[int(rng.integers(2 if sparse else len(makers)))]()


def _sparse_step(rng: np.random.Generator) -> Any:
    """One step of those that take sparse matrices."""
    function = SPARSE_FUNCTIONS[int(rng.integers(len(SPARSE_FUNCTIONS)))]
    makers = [
        lambda: StandardScaler(with_mean=False),
        MaxAbsScaler,
        lambda: RobustScaler(with_centering=False),
        lambda: Binarizer(threshold=float(rng.choice([0.0, 0.3]))),
        lambda: SimpleImputer(strategy="most_frequent"),
        VarianceThreshold,
        lambda: QuantileTransformer(n_quantiles=9),
        lambda: FunctionTransformer(function, accept_sparse=True),
        lambda: FunctionTransformer(function, accept_sparse=True),
    ]
    return makers[int(rng.integers(len(makers)))]()


def _steps(rng: np.random.Generator, n: int, sparse: bool) -> list[tuple[str, Any]]:
    """The steps before a model, with names."""

    def some(step: Any) -> Any:
        own = [step(rng) for _ in range(int(rng.integers(0, 4)))]
        return make_pipeline(*own) if own else "passthrough"

    if not sparse and rng.random() < 0.4:
        return [(f"s{i}", _dense_step(rng)) for i in range(int(rng.integers(1, 4)))]
    cut = int(rng.integers(0, n)) if n > 1 else 0
    parts = [("coded", _encoder(rng, sparse), [cut])] if sparse or rng.random() < 0.5 else []
    parts += [("rest", some(_dense_step), [f for f in range(n) if not parts or f != cut or rng.random() < 0.3])]
    parts = [part for part in parts if part[2]]
    steps: list[tuple[str, Any]] = [("columns", ColumnTransformer(parts, sparse_threshold=1.0 if sparse else 0.0))]
    later = int(rng.integers(0, 3)) if rng.random() < 0.5 else 0
    return steps + [(f"s{i}", (_sparse_step if sparse else _dense_step)(rng)) for i in range(later)]
