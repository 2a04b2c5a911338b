"""Histogram gradient boosting: nodes of its trees, and the encoder that it keeps for category columns.

An OrdinalEncoder turns the values of category columns into codes, and puts these columns first. Values that it never
saw and missing ones become NaN. A node on such a column sends left the codes of a set, right the other codes that
training saw, and all else as it sends NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._refusals import check_methods
from treeproof.model.columns import Category, as_frame, in_own_values, is_missing
from treeproof.model.pieces import Pieces
from treeproof.numbers.doubles import LARGEST, FloatArray, next_down

_NAME = "HistGradientBoostingClassifier"
_MOST_CODES = 255  # scikit-learn looks codes up as bytes; it trains with no more than 255

# The fields of a node that decide; scikit-learn takes no other dtypes.
_FIELDS = {
    "value": np.float64,
    "feature_idx": np.intp,
    "num_threshold": np.float64,
    "missing_go_to_left": np.uint8,
    "left": np.uint32,
    "right": np.uint32,
    "is_leaf": np.uint8,
    "is_categorical": np.uint8,
    "bitset_idx": np.uint32,
}


@dataclass(frozen=True)
class Encoding:
    """What happens to a row before the trees see it."""

    order: npt.NDArray[np.int64]
    """The user's column behind each column of the trees."""
    categories: dict[int, Category]
    """By the user's column."""
    seen: dict[int, npt.NDArray[np.bool_]]
    """Of each of these columns, which codes training saw."""


def encoding_of(model: Any) -> Encoding:
    """The encoding of a fitted model, or a refusal that names the column."""
    n_features, encoder_of = int(model.n_features_in_), model._preprocessor
    mask = model.is_categorical_
    if encoder_of is None:
        if mask is not None:
            raise InvalidInput(f"this {_NAME} has category columns, but no _preprocessor that encodes them")
        return Encoding(np.arange(n_features), {}, {})
    if type(mask) is not np.ndarray or mask.dtype != bool or mask.shape != (n_features,):
        raise InvalidInput(f"is_categorical_ of this {_NAME} is not one truth value per column")
    columns, encoder = np.flatnonzero(mask), _encoder(model, mask)
    lists = encoder.categories_
    if len(lists) != len(columns):
        raise InvalidInput(f"this {_NAME} encodes {len(lists)} columns, but {len(columns)} are categories")
    mapper = model._bin_mapper
    if not np.array_equal(mapper.is_categorical_, np.arange(n_features) < len(columns)):
        raise InvalidInput(f"the trees of this {_NAME} do not have its category columns first")
    categories, seen = {}, {}
    for place, (f, values) in enumerate(zip(columns.tolist(), lists, strict=True)):
        categories[f] = _category(values, model, f)
        known = np.isin(np.arange(len(categories[f].values)), mapper.bin_thresholds_[place])
        seen[f] = np.asarray(known, dtype=bool)
    encoding = Encoding(np.concatenate((columns, np.flatnonzero(~mask))), categories, seen)
    _try_out(model, encoding)
    return encoding


def _try_out(model: Any, encoding: Encoding) -> None:
    """Refuses an encoder that does not turn each value into its code, or that does anything to numbers."""
    n = 2 + max(len(category.values) for category in encoding.categories.values())
    rows = np.arange(float(n * len(encoding.order))).reshape(n, -1) / 3
    codes = rows.copy()
    for f, category in encoding.categories.items():
        known = category.known()
        # One more that training never saw, and below a row of missing values.
        rows[:, f] = np.resize(np.append(known, len(known) if category.coded else 2 * np.abs(known).sum() + 1), n)
        codes[:, f] = np.resize(np.append(np.arange(float(len(known))), np.nan), n)
    rows[-1] = codes[-1] = np.nan
    names, categories = getattr(model, "feature_names_in_", None), list(encoding.categories.items())
    given = in_own_values(rows, categories) if names is None else as_frame(rows, list(names), categories)
    if not np.array_equal(model._preprocessor.transform(given), codes[:, encoding.order], equal_nan=True):
        raise InvalidInput(f"the encoder of this {_NAME} does not do what scikit-learn's does")


def _encoder(model: Any, mask: npt.NDArray[np.bool_]) -> Any:
    """The OrdinalEncoder inside, once everything around it is known to be as scikit-learn makes it."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
    from sklearn.utils import check_array

    outer = model._preprocessor
    if type(outer) is not ColumnTransformer or _parts(outer) != ["encoder", "numerical"]:
        raise InvalidInput(f"the _preprocessor of this {_NAME} is not the one that scikit-learn makes")
    (_, encoder, coded), (_, numbers, rest) = outer.transformers_[:2]
    made = type(encoder) is OrdinalEncoder and np.array_equal(coded, mask) and np.array_equal(rest, ~mask)
    func = getattr(numbers, "func", None)
    made &= type(numbers) is FunctionTransformer and isinstance(func, partial) and func.func is check_array
    for part in (outer, encoder, numbers):
        check_methods(part)
    if not made:
        raise InvalidInput(f"the encoder of this {_NAME} is not the one that scikit-learn makes")
    return encoder


def _parts(outer: Any) -> list[str]:
    """The names of what a ColumnTransformer does, in its order; it also notes that it drops nothing else."""
    return [name for name, _, columns in outer.transformers_ if name != "remainder" or np.any(columns)]


def _category(values: npt.NDArray[Any], model: Any, f: int) -> Category:
    """A category column; rows hold its numbers if it has numbers, and else codes."""
    names = getattr(model, "feature_names_in_", None)
    name = f"column {f if names is None else repr(str(names[f]))} of this {_NAME}"
    known = [value for value in values.tolist() if not (isinstance(value, float) and np.isnan(value))]
    for value in known:
        if is_missing(value):
            raise UnsupportedModel(
                f"{name} was trained with {value}, which scikit-learn tells apart from NaN; train it with NaN instead"
            )
    if values.dtype.kind in "mM":
        raise UnsupportedModel(f"{name} has dates as categories; train it on text in their place")
    if len(known) > _MOST_CODES:
        raise InvalidInput(f"{name} has {len(known)} categories; at most {_MOST_CODES} are possible")
    if values.dtype.kind in "iuf":
        numbers = np.array(known, dtype=np.float64)
        if numbers.tolist() != known or not np.isfinite(numbers).all() or (np.diff(numbers) <= 0).any():
            raise UnsupportedModel(f"the categories of {name} are numbers that are no doubles; encode them as text")
        return Category(tuple(numbers.tolist()), coded=False, unseen=True, dtype="float64")
    by_dtype = isinstance(model.categorical_features, str) and model.categorical_features == "from_dtype"
    category = Category(tuple(known), unseen=True, dtype="category" if by_dtype else "object", numbers="refused")
    return category if all(isinstance(value, str) for value in known) else replace(category, numbers="values")


def histogram_tree(predictor: Any, encoding: Encoding) -> dict[str, Any]:
    """The tests of one tree, on the user's columns, as `EnsembleBuilder.add_tree` takes them."""
    nodes = _nodes(predictor, len(encoding.order))
    inner = nodes["is_leaf"] == 0
    by_set = inner & (nodes["is_categorical"] != 0)
    nan_left = nodes["missing_go_to_left"] != 0
    feature = np.where(inner, encoding.order[np.where(inner, nodes["feature_idx"], 0)], -1)
    if (np.isin(feature, list(encoding.categories)) != by_set).any():
        raise InvalidInput("a node tests numbers where the model has categories, or the other way round")
    pieces = {}
    if by_set.any():
        lefts = _left_sets(predictor, nodes["bitset_idx"][by_set])
        for node, left in zip(np.flatnonzero(by_set).tolist(), lefts, strict=True):
            f = int(feature[node])
            pieces[node] = _test(encoding.categories[f], left, encoding.seen[f], bool(nan_left[node]))
    return {
        "feature": feature,
        # Infinite for a split of missing values from all others.
        "threshold": np.where(inner & ~by_set, np.minimum(nodes["num_threshold"], LARGEST), 0.0),
        "left": nodes["left"].astype(np.int64),
        "right": nodes["right"].astype(np.int64),
        "nan_left": nan_left,
        "pieces": pieces,
    }


def _test(category: Category, left: npt.NDArray[np.bool_], seen: npt.NDArray[np.bool_], nan_left: bool) -> Pieces:
    left = left[: len(seen)]
    sides = np.where(left | seen, left, nan_left)
    if category.coded:
        return Pieces.of_codes(np.append(sides, nan_left))
    # Every number that is none of the values is one that training never saw.
    values = np.array(category.values)
    cuts: FloatArray = np.column_stack((next_down(values), values)).reshape(-1)
    around = np.column_stack((np.full(len(sides), nan_left), sides)).reshape(-1)
    return Pieces.between(cuts, np.append(around, nan_left))


def _left_sets(predictor: Any, index: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """Which of the codes 0 to 255 go left, for each of these sets."""
    words = predictor.raw_left_cat_bitsets
    if type(words) is not np.ndarray or words.dtype != np.uint32 or words.ndim != 2 or words.shape[1] != 8:
        raise InvalidInput("the sets of categories of a tree are not arrays of 8 words")
    if (index >= len(words)).any():
        raise InvalidInput(f"a node tests set {index.max()} of categories; its tree has {len(words)}")
    bits = (words[index][:, :, None] >> np.arange(32, dtype=np.uint32)) & np.uint32(1)
    return np.asarray(bits.reshape(len(index), 256) != 0)


def _nodes(predictor: Any, n_features: int) -> npt.NDArray[Any]:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    if type(predictor) is not TreePredictor:
        raise InvalidInput(f"a tree of histogram gradient boosting is a {type(predictor).__name__}")
    check_methods(predictor)
    nodes = predictor.nodes
    kinds = {} if type(nodes) is not np.ndarray else {name: nodes.dtype[name] for name in nodes.dtype.names or ()}
    for name, kind in _FIELDS.items():
        if kinds.get(name) != kind or nodes.ndim != 1:
            raise InvalidInput(f"the nodes of a tree have no field {name} of {np.dtype(kind)}")
    features = nodes["feature_idx"][nodes["is_leaf"] == 0]
    if ((features < 0) | (features >= n_features)).any():
        raise InvalidInput(f"a node tests a feature outside 0 to {n_features - 1}")
    return np.asarray(nodes)
