"""XGBoost classifiers: objects, and their .json and .ubj files.

XGBoost adds float32 leaf values to a float32 base, tree after tree, and compares `float32(x) < threshold`.
Which trees count, and how a DART tree is weighted, depends on what predicts:

- `XGBClassifier` stops after `best_iteration`, if early stopping recorded one;
- `Booster.predict` on a DMatrix uses every tree. Its labels are those of XGBClassifier: for two classes the
  prediction is cut at 0.5 (with `binary:logitraw` the prediction is the margin itself), else the best class wins;
- a file is read as `XGBClassifier.load_model` would: `best_iteration` counts.

Files are read without XGBoost, as XGBoost 3 reads them, whichever version wrote them.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import parse_json
from treeproof.importers import _ubjson
from treeproof.importers._exact_thresholds import float32_below_threshold
from treeproof.importers._refusals import check_size, refuse_voting
from treeproof.importers._set_splits import Pieces, TreeArrays, rewritten
from treeproof.importers.registry import is_ubjson
from treeproof.model.builder import LEAF, MAX_FEATURES, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST_FLOAT32

Float32Array = npt.NDArray[np.float32]

_DELETED = 2**31 - 1  # the split index of a node that pruning took out but left in the arrays
_MAX_CATEGORY = 2**24  # from here on float32 cannot tell whole numbers apart
_BINARY = ("binary:logistic", "binary:logitraw", "binary:hinge")
_MULTICLASS = ("multi:softprob", "multi:softmax")


def import_model(model: Any, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a trained XGBClassifier, XGBRFClassifier or Booster."""
    refuse_voting(voting, "XGBoost")
    import xgboost

    name = type(model).__qualname__
    if isinstance(model, xgboost.Booster):
        return _ensemble(_document_of(model), as_wrapper=False, origin=f"XGBoost {name}", source=BoosterLabels(model))
    if not isinstance(model, xgboost.XGBClassifier):
        raise UnsupportedModel(
            f"XGBoost's {name} is not a classifier; treeproof reads XGBClassifier, XGBRFClassifier, Booster"
        )
    if not model.__sklearn_is_fitted__():
        raise InvalidInput(f"this {name} is not trained; call fit first")
    if model.missing is not None and not np.isnan(model.missing):
        raise UnsupportedModel(f"{name}(missing={model.missing!r}): only NaN can stand for a missing value")
    document = _document_of(model.get_booster())
    learner = _entry(document, "learner", dict)
    if _objective_of(learner) == "multi:softprob" and model.n_classes_ == 2:
        raise UnsupportedModel(
            f"with multi:softprob and 2 classes, {name}.predict returns two columns instead of labels; "
            "use binary:logistic"
        )
    return _ensemble(document, as_wrapper=True, origin=f"XGBoost {name}", source=model)


class BoosterLabels:
    """A Booster's predictions as labels: above 0.5 for two classes, the best class for more."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label of each row."""
        import xgboost

        rows = xgboost.DMatrix(np.asarray(X, dtype=np.float64), feature_names=self.booster.feature_names)
        predicted = np.asarray(self.booster.predict(rows))
        if predicted.ndim == 2:
            return np.asarray(np.argmax(predicted, axis=1))
        objective = json.loads(self.booster.save_config())["learner"]["objective"]["name"]
        return predicted.astype(np.int64) if objective == "multi:softmax" else (predicted > 0.5).astype(np.int64)


def load_bytes(data: bytes, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a .json or .ubj file, as `XGBClassifier.load_model` would read it."""
    refuse_voting(voting, "XGBoost")
    document = _ubjson.parse(data) if is_ubjson(data) else parse_json(data, constants=True)
    return _ensemble(document, as_wrapper=True, origin="XGBoost file", source=None)


def _document_of(booster: Any) -> Any:
    from xgboost.core import XGBoostError

    try:
        return _ubjson.parse(bytes(booster.save_raw("ubj")))
    except XGBoostError as error:
        raise InvalidInput(f"XGBoost cannot save this model: {str(error).splitlines()[0]}; train it first") from None


def _ensemble(document: Any, *, as_wrapper: bool, origin: str, source: Any) -> Ensemble:
    learner = _entry(document, "learner", dict)
    booster = _entry(learner, "gradient_booster", dict)
    kind = booster.get("name")
    if kind not in ("gbtree", "dart"):
        raise UnsupportedModel(f"booster {kind!r} is not made of trees; treeproof reads gbtree and dart")
    objective = _objective_of(learner)
    params = _entry(learner, "learner_model_param", dict)
    n_classes = _class_count(objective, params)
    model = _entry(_entry(booster, "gbtree", dict) if kind == "dart" else booster, "model", dict)
    base = _base_margins(params, objective, n_scores=1 if objective in _BINARY else n_classes)
    forest = _Forest.of(model, n_groups=len(base), rounds=_rounds(learner) if as_wrapper else None)
    weights = _floats(_need(booster, "weight_drop"), "weight_drop") if kind == "dart" else None
    if weights is not None and len(weights) != forest.n_saved:
        raise InvalidInput(f"weight_drop has {len(weights)} entries for {forest.n_saved} trees")
    n_features = _whole(_need(params, "num_feature"), "num_feature", 1, MAX_FEATURES)
    builder = EnsembleBuilder(
        n_features=n_features,
        classes=np.arange(n_classes),
        rule=_rule(objective),
        base=base,
        feature_names=_feature_names(learner),
        handles_missing=True,
        value_limit=LARGEST_FLOAT32,
        origin=origin,
        source=source,
    )
    check_size(sum(len(_entry(tree, "split_conditions", (list, np.ndarray))) for tree in forest.trees), len(base))
    for number, (tree, group) in enumerate(zip(forest.trees, forest.groups, strict=True)):
        scale = _identity if weights is None else _dart_scale(weights[number], base[group], in_place=as_wrapper)
        _add_tree(builder, tree, number, group, len(base), scale)
    return builder.build()


def _objective_of(learner: dict[str, Any]) -> str:
    objective = _entry(learner, "objective", dict).get("name")
    if objective not in _BINARY + _MULTICLASS:
        raise UnsupportedModel(
            f"objective {objective!r} does not predict classes; treeproof reads {', '.join(_BINARY + _MULTICLASS)}"
        )
    return str(objective)


def _rule(objective: str) -> ScoreRule:
    if objective == "multi:softprob":
        return ScoreRule(decision=Decision.SOFTMAX, precision="float32")
    if objective == "multi:softmax":
        return ScoreRule(decision=Decision.ARGMAX, precision="float32")
    # XGBClassifier cuts whatever `predict` returns at 0.5: a probability, a margin, or hinge's 0 and 1.
    cut = {"binary:logistic": logistic_cut(), "binary:logitraw": 0.5, "binary:hinge": 0.0}[objective]
    return ScoreRule(decision=Decision.CUT, precision="float32", cut=cut)


def _class_count(objective: str, params: dict[str, Any]) -> int:
    if _whole(params.get("num_target", 1), "num_target", 0, 2**31) > 1:
        raise UnsupportedModel(
            f"num_target={params['num_target']}: models with several labels per row are not supported"
        )
    count = _whole(_need(params, "num_class"), "num_class", 0, 2**31)
    if objective in _BINARY:
        if count > 1:
            raise InvalidInput(f"objective {objective} does not fit num_class={count}")
        return 2
    if count < 2:
        raise InvalidInput(f"objective {objective} does not fit num_class={count}; a classifier has 2 or more")
    return count


def _rounds(learner: dict[str, Any]) -> int | None:
    """The number of boosting rounds that count, if early stopping recorded the best one."""
    best = _as_dict(learner.get("attributes", {}), "attributes").get("best_iteration")
    return None if best is None else _whole(best, "best_iteration", 0, 2**31) + 1


def _feature_names(learner: dict[str, Any]) -> list[str] | None:
    names = learner.get("feature_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInput("feature_names must be a list of strings")
    return names or None


def _base_margins(params: dict[str, Any], objective: str, *, n_scores: int) -> Float32Array:
    """The scores before the first tree, from a number or a "[…]" list of them."""
    text = _need(params, "base_score")
    parsed = json.loads(text) if isinstance(text, str) else text
    values = _floats(parsed if isinstance(parsed, list) else [parsed], "base_score")
    if len(values) == 1:
        values = np.repeat(values, _at_most(n_scores, 1_000_000, "num_class"))
    if len(values) != n_scores:
        raise InvalidInput(f"base_score has {len(values)} entries for {n_scores} scores")
    if objective != "binary:logistic":
        return values
    if not 0 <= values[0] <= 1:
        raise InvalidInput(f"base_score {values[0]} is not a probability")
    one, edge = np.float32(1), np.float32(1e-6)
    p = np.clip(values[0], edge, one - edge)
    return np.array([-_float32_function("logf", np.log)(float(one / p - one))], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _Forest:
    """The trees that count, and the score that each adds to."""

    trees: list[Any]
    groups: list[int]
    n_saved: int

    @classmethod
    def of(cls, model: dict[str, Any], *, n_groups: int, rounds: int | None) -> _Forest:
        trees = _entry(model, "trees", list)
        if len(trees) < n_groups:
            raise InvalidInput(f"the model has {len(trees)} trees and {n_groups} scores; each score needs a tree")
        shape = _entry(model, "gbtree_model_param", dict)
        announced = _whole(shape.get("num_trees", len(trees)), "num_trees", 0, 2**31)
        groups = _wholes(_need(model, "tree_info"), "tree_info").tolist()
        if announced != len(trees) or len(groups) != len(trees):
            raise InvalidInput(f"num_trees is {announced}, tree_info has {len(groups)} entries, trees has {len(trees)}")
        for group in groups:
            if not 0 <= group < n_groups:
                raise InvalidInput(f"tree_info names score {group}; there are scores 0 to {n_groups - 1}")
        _refuse_vector_leaves(shape)
        if "cats" in model and len(_entry(_entry(model, "cats", dict), "enc", (list, np.ndarray))):
            raise UnsupportedModel("the model recodes the categories of a data frame; train it on category codes")
        end = len(trees) if rounds is None else _end_of_round(model, shape, rounds, n_groups, len(trees))
        return cls(trees[:end], groups[:end], len(trees))


def _refuse_vector_leaves(shape: dict[str, Any]) -> None:
    # Files of XGBoost 1 have the entry once, later ones in each tree; 0 and 1 both mean one number per leaf.
    if _whole(shape.get("size_leaf_vector", 0), "size_leaf_vector", 0, 2**31) > 1:
        raise UnsupportedModel("multi_strategy=multi_output_tree: leaves with one value per class are not supported")


def _end_of_round(model: dict[str, Any], shape: dict[str, Any], rounds: int, n_groups: int, n_trees: int) -> int:
    """The number of trees in the first `rounds` boosting rounds."""
    if "iteration_indptr" in model:
        ends = _wholes(model["iteration_indptr"], "iteration_indptr")
        if len(ends) < 1 or ends[0] != 0 or ends[-1] != n_trees or (np.diff(ends) < 0).any():
            raise InvalidInput(f"iteration_indptr must rise from 0 to the {n_trees} trees")
    else:
        # Files of XGBoost 1 leave this to arithmetic.
        per_round = _whole(shape.get("num_parallel_tree", 1), "num_parallel_tree", 1, n_trees) * n_groups
        ends = np.arange(0, n_trees + 1, per_round)
    if rounds >= len(ends):
        raise InvalidInput(f"best_iteration is {rounds - 1}, but the model has only {len(ends) - 1} boosting rounds")
    return int(ends[rounds])


def _identity(leaves: Float32Array) -> Float32Array:
    return leaves


def _dart_scale(weight: np.float32, base: np.float32, *, in_place: bool) -> Callable[[Float32Array], Float32Array]:
    """What a weighted DART tree adds, from its leaves.

    `Booster.predict` multiplies; `inplace_predict` (XGBClassifier) first adds the base to the leaf and subtracts it
    again, which rounds.
    """
    if in_place:
        return lambda leaves: ((leaves + base) - base) * weight
    return lambda leaves: leaves * weight


def _add_tree(
    builder: EnsembleBuilder,
    tree: dict[str, Any],
    number: int,
    group: int,
    n_scores: int,
    scale: Callable[[Float32Array], Float32Array],
) -> None:
    where = f"tree {number}: "
    param = _entry(tree, "tree_param", dict)
    _refuse_vector_leaves(param)
    left = _wholes(_need(tree, "left_children"), where + "left_children")
    right = _wholes(_need(tree, "right_children"), where + "right_children")
    split = _wholes(_need(tree, "split_indices"), where + "split_indices")
    nan_left = _flags(_need(tree, "default_left"), where + "default_left")
    inner = left != LEAF
    special = _category_splits(tree, inner, where)
    values = _conditions(tree, special, where)
    lengths = {
        _whole(_need(param, "num_nodes"), where + "num_nodes", 1, 2**31),
        *(array.shape[0] for array in (values, left, right, split, nan_left)),
    }
    if len(lengths) != 1:
        raise InvalidInput(f"{where}its arrays have different lengths: {sorted(lengths)}")
    if (split < 0).any():
        raise InvalidInput(f"{where}a split index is negative")
    scores = np.zeros((len(values), n_scores), dtype=np.float32)
    with np.errstate(over="ignore"):
        scores[:, group] = np.where(inner, np.float32(0), scale(values))
    arrays = TreeArrays(
        np.where(inner, split, LEAF),
        np.where(inner, float32_below_threshold(values), 0.0),
        left,
        right,
        nan_left,
        scores,
    )
    arrays, special = _without_deleted(arrays, (split == _DELETED) & ~inner, special, param, where)
    arrays = rewritten(arrays, special, number=number, what="splits on categories")
    builder.add_tree(**arrays._asdict())


def _conditions(tree: dict[str, Any], special: dict[int, Pieces], where: str) -> Float32Array:
    """Each node's threshold or leaf value; at a split on categories the entry means nothing (XGBoost 2 writes NaN)."""
    values = np.array(_need(tree, "split_conditions"))
    if values.dtype.kind == "f":
        values[list(special)] = 0.0
    return _floats(values, where + "split_conditions")


def _without_deleted(
    arrays: TreeArrays, deleted: npt.NDArray[np.bool_], special: dict[int, Pieces], param: dict[str, Any], where: str
) -> tuple[TreeArrays, dict[int, Pieces]]:
    """The tree, and its special nodes, without the nodes that pruning left behind."""
    count = _whole(param.get("num_deleted", 0), where + "num_deleted", 0, 2**31)
    if count != int(deleted.sum()):
        raise InvalidInput(f"{where}num_deleted is {count}, but {int(deleted.sum())} nodes are marked as deleted")
    if not count:
        return arrays, special
    position = np.where(deleted, -2, np.cumsum(~deleted) - 1)

    def moved(children: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        # A child out of range stays out of range, for the builder to refuse.
        inside = (children >= 0) & (children < len(position))
        return np.where(inside, position[np.where(inside, children, 0)], np.where(children < 0, children, 2**40))

    kept = TreeArrays._make(array[~deleted] for array in arrays)
    special = {int(position[node]): pieces for node, pieces in special.items()}
    return kept._replace(left=moved(kept.left), right=moved(kept.right)), special


def _category_splits(tree: dict[str, Any], inner: npt.NDArray[np.bool_], where: str) -> dict[int, Pieces]:
    """The nodes that send a set of whole numbers to the right, as pieces of the number line."""
    by_category = _flags(tree.get("split_type", np.zeros(len(inner), dtype=np.int64)), where + "split_type")
    if len(by_category) != len(inner):
        raise InvalidInput(f"{where}split_type has {len(by_category)} entries for {len(inner)} nodes")
    marked = np.flatnonzero(inner & by_category)
    if not len(marked):
        return {}
    categories, nodes, starts, sizes = (
        _wholes(_need(tree, name), where + name)
        for name in ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    )
    special: dict[int, Pieces] = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        if start < 0 or size < 1 or start + size > len(categories):
            raise InvalidInput(f"{where}the categories of node {node} are out of range")
        special[node] = _category_pieces(categories[start : start + size], where)
    if sorted(special) != marked.tolist() or len(nodes) != len(special):
        raise InvalidInput(f"{where}categories_nodes does not list the nodes of split_type 1")
    return special


def _category_pieces(categories: npt.NDArray[np.int64], where: str) -> Pieces:
    """Right iff float32(x), with its fraction cut off, is in the set; negative and unknown numbers go left."""
    if categories.min() < 0 or categories.max() >= _MAX_CATEGORY:
        raise InvalidInput(f"{where}categories must be from 0 to {_MAX_CATEGORY - 1}")
    below = float32_below_threshold(categories)
    end = float32_below_threshold(categories + 1)
    order = np.argsort(categories)
    parts = [part for i in order for part in ((float(below[i]), True), (float(end[i]), False))]
    return Pieces.of(parts, last=True)


@functools.cache
def logistic_cut() -> float:
    """The largest float32 margin m whose float32 probability 1 / (1 + exp(-m)) is not above 0.5.

    It is a little above 0: exp(-m) has to fall far enough below 1 for the sum to round below 2.
    """
    expf = _float32_function("expf", np.exp)
    one, epsilon, half = np.float32(1), np.float32(1e-16), np.float32(0.5)

    def above_half(bits: int) -> bool:
        margin = float(np.int32(bits).view(np.float32))
        return bool(one / (np.float32(expf(-margin)) + one + epsilon) > half)

    low, high = 0, int(one.view(np.int32))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if above_half(middle) else (middle, high)
    return float(np.int32(low).view(np.float32))


def _float32_function(name: str, fallback: Callable[[np.float64], Any]) -> Callable[[float], float]:
    """The C library's float32 function, which XGBoost calls; NumPy's own rounds the last bit differently."""
    for library in ("m", "ucrtbase"):
        path = ctypes.util.find_library(library)
        if path is None:
            continue
        function = getattr(ctypes.CDLL(path), name)
        function.restype = ctypes.c_float
        function.argtypes = [ctypes.c_float]
        return lambda x: float(function(x))
    return lambda x: float(np.float32(fallback(np.float64(x))))


def _as_dict(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object, got {type(value).__name__}")
    return value


def _need(parent: Any, key: str) -> Any:
    if not isinstance(parent, dict) or key not in parent:
        raise InvalidInput(f"it has no {key!r}")
    return parent[key]


def _entry(parent: Any, key: str, kind: type | tuple[type, ...]) -> Any:
    value = _need(parent, key)
    if not isinstance(value, kind):
        raise InvalidInput(f"{key!r} is of the wrong type: {type(value).__name__}")
    return value


def _whole(value: Any, name: str, least: int, most: int) -> int:
    """A whole number within bounds, given as one or as a string."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    return value


def _at_most(value: int, most: int, name: str) -> int:
    if value > most:
        raise InvalidInput(f"{name} is {value}; at most {most} are supported")
    return value


def _wholes(values: Any, name: str) -> npt.NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in ("biu" if array.size else "biuf"):
        raise InvalidInput(f"{name} must be a list of whole numbers")
    return array.astype(np.int64)


def _flags(values: Any, name: str) -> npt.NDArray[np.bool_]:
    numbers = _wholes(values, name)
    if ((numbers != 0) & (numbers != 1)).any():
        raise InvalidInput(f"{name} must hold 0 or 1 per node")
    return numbers.astype(np.bool_)


def _floats(values: Any, name: str) -> Float32Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InvalidInput(f"{name} must be a list of numbers")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise InvalidInput(f"{name}: {array[~np.isfinite(narrow)][0]} is not a finite float32 number")
    return narrow
