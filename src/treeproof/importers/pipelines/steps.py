"""What is known about each kind of step: which column an output comes from, and where it is monotone in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel

# Types of columns, by the names that NumPy, pandas and Arrow have for them.
_NARROW = ("float16", "float32", "halffloat[pyarrow]", "float[pyarrow]")

Cuts = list[float]
"""Doubles between which a step is monotone: from one of them, excluded, to the next."""


def _nowhere(_: Any, __: int) -> Cuts:
    return []


def _unchecked(_: Any) -> None:
    pass


@dataclass(frozen=True)
class Kind:
    """What is known about one class of steps."""

    sources: Callable[[Any], npt.NDArray[np.intp]]
    """The input column that each output column depends on."""
    cuts: Callable[[Any, int], Cuts] = _nowhere
    """Where a step stops being monotone in one of its input columns."""
    check: Callable[[Any], None] = _unchecked
    """Refuses a step that this description does not hold for."""
    rounds: bool = False
    """Whether rounding may make it fall where it should rise, so that cuts are looked at from close by."""
    keeps: bool = False
    """Whether a value leaves it as it came, unless it stands for a missing one."""
    encodes: bool = False
    """Whether it takes categories, `categories_`."""
    by_column: bool = False
    """Whether missing and unseen values that it refuses differ between its columns."""
    dtypes: tuple[str, ...] = _NARROW
    """The types of columns for which it computes otherwise than for doubles."""


def around(value: float) -> Cuts:
    """The two cuts that leave a value by itself."""
    return [math.nextafter(value, -math.inf), float(value)]


def _one_to_one(step: Any) -> npt.NDArray[np.intp]:
    return np.arange(step.n_features_in_)


def _selected(step: Any) -> npt.NDArray[np.intp]:
    return np.asarray(step.get_support(indices=True), dtype=np.intp)


def _of_one_hot(step: Any) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(step.n_features_in_), step._n_features_outs)


def _of_target(step: Any) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(step.n_features_in_), len(step.classes_) if step.target_type_ == "multiclass" else 1)


def _of_bins(step: Any) -> npt.NDArray[np.intp]:
    return np.repeat(np.arange(step.n_features_in_), 1 if step.encode == "ordinal" else step.n_bins_)


def _of_imputer(step: Any) -> npt.NDArray[np.intp]:
    kept = np.arange(step.n_features_in_)
    if not step.keep_empty_features:
        kept = np.array([f for f in kept if not is_nan(step.statistics_[f])], dtype=np.intp)
    return kept if step.indicator_ is None else np.concatenate((kept, step.indicator_.features_)).astype(np.intp)


def _of_indicator(step: Any) -> npt.NDArray[np.intp]:
    return np.asarray(step.features_, dtype=np.intp)


def is_nan(value: Any) -> bool:
    """Whether a value is a NaN, which text never is."""
    return isinstance(value, (float, np.floating)) and math.isnan(value)


def _category_cuts(step: Any, column: int) -> Cuts:
    categories = step.categories_[column]
    if categories.dtype.kind not in "iuf":
        return []
    return [cut for value in categories.tolist() if math.isfinite(value) for cut in around(value)]


def _stand_in_cuts(step: Any, _: int) -> Cuts:
    value = step.missing_values
    is_number = isinstance(value, (int, float, np.number)) and math.isfinite(value)
    return around(value) if is_number else []


def _bin_cuts(step: Any, column: int) -> Cuts:
    if step.encode == "ordinal":
        return []
    # In the middle of a bin: on the way to the next middle, one bin ends and one begins.
    edges = np.asarray(step.bin_edges_[column], dtype=np.float64)
    return [float(middle) for middle in edges[:-1] / 2 + edges[1:] / 2]


# NumPy's functions of one number that can be pulled back: where they stop being monotone, and whether they may fall
# where they should rise. IEEE 754 asks for the nearest double of some; the others may be off in the last places.
_LOGARITHM = (around(0.0), True)
_EXACT: tuple[Cuts, bool] = ([], False)
_FUNCTIONS: dict[str, tuple[Cuts, bool]] = {
    "abs": (around(0.0), False),
    "absolute": (around(0.0), False),
    "arcsinh": ([], True),
    "arctan": ([], True),
    "cbrt": ([], True),
    "ceil": _EXACT,
    "exp": ([], True),
    "exp2": ([], True),
    "expm1": ([], True),
    "floor": _EXACT,
    "log": _LOGARITHM,
    "log10": _LOGARITHM,
    "log1p": (around(-1.0), True),
    "log2": _LOGARITHM,
    "negative": _EXACT,
    "reciprocal": (around(0.0), False),
    "rint": _EXACT,
    "sign": _EXACT,
    "sqrt": (around(0.0), False),
    "square": (around(0.0), False),
    "tanh": ([], True),
    "trunc": _EXACT,
}


def _function(step: Any) -> tuple[Cuts, bool]:
    for name, known in _FUNCTIONS.items():
        if step.func is getattr(np, name):
            return known
    name = getattr(step.func, "__name__", repr(step.func))
    raise UnsupportedModel(
        f"the pipeline has a FunctionTransformer of {name}, which treeproof does not know; it knows None and NumPy's "
        f"{', '.join(_FUNCTIONS)}"
    )


def _check_function(step: Any) -> None:
    if step.func is not None:
        _function(step)
        if step.kw_args:
            raise UnsupportedModel(
                f"the pipeline has a FunctionTransformer with kw_args={step.kw_args!r}; leave them out"
            )


# What each scaler shifts and scales by.
_SCALERS = {
    "MaxAbsScaler": (None, "scale_"),
    "MinMaxScaler": ("min_", "scale_"),
    "RobustScaler": ("center_", "scale_"),
    "StandardScaler": ("mean_", "scale_"),
}


def _check_scaler(scaler: Any) -> None:
    """Refuses a scaler that is not monotone in each feature by itself."""
    name = type(scaler).__name__
    shift, scale = (None if field is None else getattr(scaler, field, None) for field in _SCALERS[name])
    for values in (shift, scale):
        if values is None:
            continue
        if type(values) is not np.ndarray or values.shape != (scaler.n_features_in_,) or values.dtype.kind != "f":
            raise InvalidInput(f"the pipeline's {name} does not have one number per feature: {values!r}")
    if scale is not None and not ((scale > 0) & (scale < np.inf)).all():
        raise UnsupportedModel(f"the pipeline's {name} has a scale that is not positive: {scale}")
    if shift is not None and not np.isfinite(shift).all():
        raise UnsupportedModel(f"the pipeline's {name} shifts by a number that is not finite: {shift}")
    if getattr(scaler, "clip", False) and name == "MinMaxScaler":
        low, high = scaler.feature_range
        if not -np.inf < low < high < np.inf:
            raise InvalidInput(f"the pipeline's {name} clips to {scaler.feature_range}")


_SCALER = Kind(_one_to_one, check=_check_scaler)
_SELECTOR = Kind(_selected, keeps=True, dtypes=())
# In NumPy's functions, a whole number of few bits becomes a float of few bits…
_FEW = ("int8", "int16", "uint8", "uint16")
_FEW_BITS = (*_NARROW, *_FEW, *(f"{name}[pyarrow]" for name in _FEW))
_FUNCTION = (*_FEW_BITS, "bool", "bool[pyarrow]", "boolean", "float128", "object")
# … and a whole number may stay one: a square is taken modulo 2**64, and the reciprocal of 2 is 0.
_MANY = ("int32", "int64", "uint32", "uint64")
_WHOLE = (*_MANY, *(f"{name}[pyarrow]" for name in _MANY))
_STAY_WHOLE = (np.abs, np.negative, np.reciprocal, np.square)

_NO_TRUTH = (*_NARROW, "bool")
# What a frame holds apart, scikit-learn makes doubles of that KBinsDiscretizer cannot write to.
_READ_ONLY = ("bool", "boolean", *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)))

# Where scikit-learn has each class, and what is known about it.
KINDS: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(_SCALERS, ("preprocessing", _SCALER)),
    "Binarizer": ("preprocessing", Kind(_one_to_one)),
    "KBinsDiscretizer": ("preprocessing", Kind(_of_bins, _bin_cuts, dtypes=_READ_ONLY)),
    "OneHotEncoder": ("preprocessing", Kind(_of_one_hot, _category_cuts, encodes=True, by_column=True, dtypes=())),
    "OrdinalEncoder": ("preprocessing", Kind(_one_to_one, _category_cuts, encodes=True, by_column=True, dtypes=())),
    "PowerTransformer": ("preprocessing", Kind(_one_to_one, lambda *_: around(0.0), rounds=True)),
    "QuantileTransformer": ("preprocessing", Kind(_one_to_one, rounds=True)),
    "TargetEncoder": ("preprocessing", Kind(_of_target, _category_cuts, encodes=True, by_column=True, dtypes=())),
    "SimpleImputer": ("impute", Kind(_of_imputer, _stand_in_cuts, keeps=True, dtypes=_NO_TRUTH)),
    "MissingIndicator": ("impute", Kind(_of_indicator, _stand_in_cuts, by_column=True, dtypes=_NO_TRUTH)),
    **dict.fromkeys(
        (
            "GenericUnivariateSelect",
            "RFE",
            "RFECV",
            "SelectFdr",
            "SelectFpr",
            "SelectFromModel",
            "SelectFwe",
            "SelectKBest",
            "SelectPercentile",
            "SequentialFeatureSelector",
            "VarianceThreshold",
        ),
        ("feature_selection", _SELECTOR),
    ),
}

_IDENTITY = Kind(_one_to_one, keeps=True, dtypes=())


def kind_of(step: Any) -> Kind:
    """What is known about a step, or UnsupportedModel that names it."""
    name = type(step).__name__
    if name == "FunctionTransformer" and type(step) is _class("preprocessing", name):
        _check_function(step)
        if step.func is None:
            return _IDENTITY
        cuts, rounds = _function(step)
        dtypes = _FUNCTION + _WHOLE if step.func in _STAY_WHOLE else _FUNCTION
        return Kind(_one_to_one, lambda *_: list(cuts), rounds=rounds, dtypes=dtypes)
    module, kind = KINDS.get(name, ("", None))
    if kind is None or type(step) is not _class(module, name):
        raise UnsupportedModel(
            f"the pipeline has a {name} before the model; treeproof takes only steps that make each column from one "
            f"column: {', '.join(sorted([*KINDS, 'ColumnTransformer', 'FeatureUnion', 'FunctionTransformer']))}; "
            "do it before the pipeline, and import the rest"
        )
    kind.check(step)
    if name == "SimpleImputer" and _stand_in_cuts(step, 0) and step.strategy in ("most_frequent", "constant"):
        # What it fills in is cut off to the type of the column.
        whole = all(isinstance(value, str) or float(value).is_integer() for value in step.statistics_)
        kind = replace(kind, dtypes=(*kind.dtypes, *(_FEW_BITS if whole else _FEW_BITS + _WHOLE)))
    if name == "SimpleImputer" and step.strategy in ("most_frequent", "constant"):
        kind = replace(kind, dtypes=(*kind.dtypes, "object"))  # there None is another value than NaN
    return kind


def _class(module: str, name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(f"sklearn.{module}"), name, None)


def categories_of(step: Any, column: int) -> Sequence[Any]:
    """The categories of one column that an encoder knows, without missing ones."""
    return [value for value in step.categories_[column].tolist() if value is not None and not is_nan(value)]
