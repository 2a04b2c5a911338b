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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import parse_json
from treeproof.importers._cuts import checked_cut
from treeproof.importers._exact_thresholds import float32_below_threshold
from treeproof.importers._json_fields import fields_of
from treeproof.importers._refusals import check_size, refuse_voting
from treeproof.importers._responses import BoostedLabels, Responses
from treeproof.importers._xgboost_categories import CategorySets, category_columns, category_sets, set_pieces
from treeproof.importers._xgboost_fields import (
    Float32Array,
    base_scores,
    check_objective,
    check_tree,
    flags,
    floats,
    learner_of,
    name_of,
    names,
    whole,
    wholes,
)
from treeproof.model.builder import LEAF, MAX_FEATURES, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST_FLOAT32

_DELETED = 2**31 - 1  # with default_left, the split index of a node that pruning took out but left in the arrays
_NO_PARENT = 2**31 - 1
_BINARY = ("binary:logistic", "binary:logitraw", "binary:hinge")
_MULTICLASS = ("multi:softprob", "multi:softmax")


def import_model(model: Any, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a trained XGBClassifier, XGBRFClassifier or Booster."""
    refuse_voting(voting, "XGBoost")
    import xgboost

    name = type(model).__qualname__
    if isinstance(model, xgboost.Booster):
        return _ensemble(_saved(model), as_wrapper=False, origin=f"XGBoost {name}", source=BoosterLabels(model))
    if not isinstance(model, xgboost.XGBClassifier):
        raise UnsupportedModel(
            f"XGBoost's {name} is not a classifier; treeproof reads XGBClassifier, XGBRFClassifier, Booster"
        )
    if not model.__sklearn_is_fitted__():
        raise InvalidInput(f"this {name} is not trained; call fit first")
    if model.missing is not None and not np.isnan(model.missing):
        raise UnsupportedModel(f"{name}(missing={model.missing!r}): only NaN can stand for a missing value")
    return _ensemble(_saved(model.get_booster()), as_wrapper=True, origin=f"XGBoost {name}", source=model)


class BoosterLabels(BoostedLabels):
    """A Booster of XGBoost, some of which predict labels."""

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label of each row."""
        objective = json.loads(self.booster.save_config())["learner"]["objective"]["name"]
        return self.predicted(X).astype(np.int64) if objective == "multi:softmax" else super().predict(X)

    def predicted(self, X: Any) -> npt.NDArray[Any]:
        """Its probabilities, margins or labels."""
        import xgboost

        if hasattr(X, "columns"):
            rows = xgboost.DMatrix(X, enable_categorical=True)
        else:
            rows = xgboost.DMatrix(np.asarray(X, dtype=np.float64), feature_names=self.booster.feature_names)
        return np.asarray(self.booster.predict(rows))


def load_bytes(data: bytes, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a .json or .ubj file, as `XGBClassifier.load_model` would read it."""
    refuse_voting(voting, "XGBoost")
    return _ensemble(learner_of(data), as_wrapper=True, origin="XGBoost file", source=None)


def _saved(booster: Any) -> dict[str, Any]:
    from xgboost.core import XGBoostError

    try:
        return learner_of(bytes(booster.save_raw("ubj")))
    except XGBoostError as error:
        raise InvalidInput(f"XGBoost cannot save this model: {str(error).splitlines()[0]}; train it first") from None


def _ensemble(learner: dict[str, Any], *, as_wrapper: bool, origin: str, source: Any) -> Ensemble:
    objective = _objective_of(learner)
    model, weights = _model_of(learner)
    params = learner["learner_model_param"]
    n_classes = _class_count(objective, params)
    check_objective(learner["objective"], n_classes)
    if as_wrapper:
        _refuse_other_wrappers(learner, objective, n_classes)
    base = _base_margins(params, objective, n_scores=1 if objective in _BINARY else n_classes)
    forest = _Forest.of(model, n_groups=len(base), rounds=_rounds(learner) if as_wrapper else None)
    if weights is not None and len(weights) != forest.n_saved:
        raise InvalidInput(f"weight_drop has {len(weights)} entries for {forest.n_saved} trees")
    n_features = whole(params["num_feature"], "num_feature", 1, MAX_FEATURES)
    sets = [category_sets(tree, f"tree {number}: ") for number, tree in enumerate(forest.trees)]
    trees = list(zip(forest.trees, sets, strict=True))
    columns = category_columns(model, _feature_types(learner, n_features), n_features, trees)
    builder = EnsembleBuilder(
        n_features=n_features,
        classes=np.arange(n_classes),
        rule=_rule(objective),
        base=base,
        feature_names=names(learner.get("feature_names", []), "feature_names") or None,
        handles_missing=True,
        value_limit=LARGEST_FLOAT32,
        categories=columns,
        takes_frames=any(category.coded for category in columns.values()),
        origin=origin,
        source=source,
    )
    check_size(sum(len(tree.get("split_conditions", ())) for tree in forest.trees), len(base))
    for number, (tree, own_sets) in enumerate(trees):
        group = forest.groups[number]
        scale = None if weights is None else _dart_scale(weights[number], base[group], in_place=as_wrapper)
        _add_tree(builder, tree, number, group, scale, own_sets, columns)
    return replace(builder.build(), responses=Responses(_probabilities) if objective == "binary:logistic" else None)


def _model_of(learner: dict[str, Any]) -> tuple[dict[str, Any], Float32Array | None]:
    """The trees' part of the file, and DART's weights of the trees."""
    booster = learner["gradient_booster"]
    kind = name_of(booster, "gradient_booster")
    if kind not in ("gbtree", "dart"):
        raise UnsupportedModel(f"booster {kind!r} is not made of trees; treeproof reads gbtree and dart")
    weights = None
    if kind == "dart":
        fields_of(booster, "gradient_booster", ("name", "gbtree", "weight_drop"))
        weights = floats(booster["weight_drop"], "weight_drop")
        booster = booster["gbtree"]
        if name_of(booster, "gbtree") != "gbtree":
            raise InvalidInput(f"the trees of dart must be a gbtree, not {booster['name']!r}")
    fields_of(booster, "gradient_booster", ("name", "model"))
    needed = ("gbtree_model_param", "trees", "tree_info")
    return fields_of(booster["model"], "model", needed, ("iteration_indptr", "cats")), weights


def _objective_of(learner: dict[str, Any]) -> str:
    objective = name_of(learner["objective"], "objective")
    if objective not in _BINARY + _MULTICLASS:
        raise UnsupportedModel(
            f"objective {objective!r} does not predict classes; treeproof reads {', '.join(_BINARY + _MULTICLASS)}"
        )
    return objective


def _refuse_other_wrappers(learner: dict[str, Any], objective: str, n_classes: int) -> None:
    """Refuses what XGBClassifier cannot load, or does not give labels for."""
    saved = parse_json(learner["attributes"].get("scikit_learn", "{}"))
    if not isinstance(saved, dict) or saved.get("_estimator_type") not in (None, "classifier"):
        raise UnsupportedModel(f"it was saved by another estimator than a classifier: scikit_learn is {saved!r}")
    if objective == "multi:softprob" and n_classes == 2:
        raise UnsupportedModel(
            "with multi:softprob and 2 classes, XGBClassifier.predict returns two columns instead of labels; "
            "use binary:logistic"
        )


def _rule(objective: str) -> ScoreRule:
    if objective == "multi:softprob":
        return ScoreRule(decision=Decision.SOFTMAX, precision="float32")
    if objective == "multi:softmax":
        return ScoreRule(decision=Decision.ARGMAX, precision="float32")
    # XGBClassifier cuts whatever `predict` returns at 0.5: a probability, a margin, or hinge's 0 and 1.
    cut = {"binary:logistic": logistic_cut(), "binary:logitraw": 0.5, "binary:hinge": 0.0}[objective]
    return ScoreRule(decision=Decision.CUT, precision="float32", cut=cut)


def _class_count(objective: str, params: dict[str, Any]) -> int:
    if whole(params.get("num_target", "1"), "num_target", 1, 2**31 - 1) > 1:
        raise UnsupportedModel(
            f"num_target={params['num_target']}: models with several labels per row are not supported"
        )
    # Says how training found base_score; it decides nothing any more.
    whole(params.get("boost_from_average", "0"), "boost_from_average", 0, 1)
    count = whole(params["num_class"], "num_class", 0, 2**31 - 1)
    if objective in _BINARY:
        if count > 1:
            raise InvalidInput(f"objective {objective} does not fit num_class={count}")
        return 2
    if count < 2:
        raise InvalidInput(f"objective {objective} does not fit num_class={count}; a classifier has 2 or more")
    return count


def _rounds(learner: dict[str, Any]) -> int | None:
    """The number of boosting rounds that count, if early stopping recorded the best one."""
    best = learner["attributes"].get("best_iteration")
    return None if best is None else whole(best, "best_iteration", 0, 2**31 - 2) + 1


def _feature_types(learner: dict[str, Any], n_features: int) -> list[str]:
    types = names(learner.get("feature_types", []), "feature_types")
    if len(types) not in (0, n_features):
        raise InvalidInput(f"feature_types has {len(types)} entries for {n_features} features")
    return types


def _base_margins(params: dict[str, Any], objective: str, *, n_scores: int) -> Float32Array:
    """The scores before the first tree, from a number or a "[…]" list of them."""
    values = base_scores(params["base_score"])
    if len(values) == 1:
        if n_scores > 1_000_000:
            raise InvalidInput(f"num_class is {n_scores}; at most 1000000 are supported")
        values = np.repeat(values, n_scores)
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
        trees = model["trees"]
        if not isinstance(trees, list) or not all(isinstance(tree, dict) for tree in trees):
            raise InvalidInput("trees must be a list of objects")
        # All of them: also a tree of a round that does not count takes the place that its id names.
        for number, tree in enumerate(trees):
            _refuse_vector_leaves(_tree_param(tree))
            check_tree(tree, number, _node_count(tree, number))
        if len(trees) < n_groups:
            raise InvalidInput(f"the model has {len(trees)} trees and {n_groups} scores; each score needs a tree")
        shape = fields_of(
            model["gbtree_model_param"], "gbtree_model_param", ("num_trees",), ("num_parallel_tree", "size_leaf_vector")
        )
        announced = whole(shape["num_trees"], "num_trees", 0, 2**31 - 1)
        groups = wholes(model["tree_info"], "tree_info", ()).tolist()
        if announced != len(trees) or len(groups) != len(trees):
            raise InvalidInput(f"num_trees is {announced}, tree_info has {len(groups)} entries, trees has {len(trees)}")
        for group in groups:
            if not 0 <= group < n_groups:
                raise InvalidInput(f"tree_info names score {group}; there are scores 0 to {n_groups - 1}")
        if len(set(groups)) < n_groups:
            raise InvalidInput(f"tree_info names {len(set(groups))} of {n_groups} scores; each score needs a tree")
        _refuse_vector_leaves(shape)
        ends = _round_ends(model, shape, n_groups, len(trees))
        if rounds is not None and rounds >= len(ends):
            raise InvalidInput(
                f"best_iteration is {rounds - 1}, but the model has only {len(ends) - 1} boosting rounds"
            )
        end = int(ends[-1 if rounds is None else rounds])
        return cls(trees[:end], groups[:end], len(trees))


def _tree_param(tree: dict[str, Any]) -> dict[str, Any]:
    needed = ("num_feature", "num_nodes", "size_leaf_vector")
    param = fields_of(tree.get("tree_param"), "tree_param", needed, ("num_deleted",))
    whole(param["num_feature"], "a tree's num_feature", 0, 2**32 - 1)  # the learner's is the one that counts
    return param


def _node_count(tree: dict[str, Any], number: int) -> int:
    return whole(tree["tree_param"]["num_nodes"], f"tree {number}: num_nodes", 1, 2**31 - 1)


def _refuse_vector_leaves(shape: dict[str, Any]) -> None:
    # Files of XGBoost 1 have the entry once, later ones in each tree; 0 and 1 both mean one number per leaf.
    if whole(shape.get("size_leaf_vector", "0"), "size_leaf_vector", 0, 2**31 - 1) > 1:
        raise UnsupportedModel("multi_strategy=multi_output_tree: leaves with one value per class are not supported")


def _round_ends(model: dict[str, Any], shape: dict[str, Any], n_groups: int, n_trees: int) -> npt.NDArray[np.int64]:
    """The number of trees up to each boosting round; 0 comes first."""
    parallel = whole(shape.get("num_parallel_tree", "1"), "num_parallel_tree", 1, 2**31 - 1)
    if "iteration_indptr" in model:
        ends = wholes(model["iteration_indptr"], "iteration_indptr", ())
        if len(ends) < 1 or ends[0] != 0 or ends[-1] != n_trees or (np.diff(ends) < 0).any():
            raise InvalidInput(f"iteration_indptr must rise from 0 to the {n_trees} trees")
        return ends
    # Files of XGBoost 1 leave this to arithmetic.
    if n_trees % (parallel * n_groups):
        raise InvalidInput(f"{n_trees} trees are no whole rounds of {parallel} for each of {n_groups} scores")
    return np.arange(0, n_trees + 1, parallel * n_groups)


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
    scale: Callable[[Float32Array], Float32Array] | None,
    sets: CategorySets,
    columns: Mapping[int, Category],
) -> None:
    where = f"tree {number}: "
    param = _tree_param(tree)
    n_nodes = _node_count(tree, number)
    left = wholes(tree["left_children"], where + "left_children")
    right = wholes(tree["right_children"], where + "right_children")
    parents = wholes(tree["parents"], where + "parents")
    split = wholes(tree["split_indices"], where + "split_indices", ("int32", "int64"))
    nan_left = flags(tree["default_left"], where + "default_left", booleans=True)
    inner = left != LEAF
    values = floats(tree["split_conditions"], where + "split_conditions", unused=sets)
    lengths = {n_nodes, *(array.shape[0] for array in (values, left, right, parents, split, nan_left))}
    if len(lengths) != 1:
        raise InvalidInput(f"{where}its arrays have different lengths: {sorted(lengths)}")
    if (split < 0).any():
        raise InvalidInput(f"{where}a split index is negative")
    special = {node: set_pieces(columns, int(split[node]), codes, where) for node, codes in sets.items()}
    with np.errstate(over="ignore"):
        scores = np.where(inner, np.float32(0), values if scale is None else scale(values))
    arrays = {
        "feature": np.where(inner, split, LEAF),
        "threshold": np.where(inner, float32_below_threshold(values), 0.0),
        "left": left,
        "right": right,
        "nan_left": nan_left,
        "scores": scores,
    }
    deleted = (split == _DELETED) & nan_left
    arrays, special = _without_deleted(arrays, deleted, special, param, where)
    builder.add_tree(**arrays, pieces=special, score=group)
    _check_parents(parents, left, right, inner & ~deleted, where)


def _check_parents(
    parents: npt.NDArray[np.int64],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
    inner: npt.NDArray[np.bool_],
    where: str,
) -> None:
    """Refuses parents that contradict the children, of which the builder knows that they are a tree."""
    nodes = np.flatnonzero(inner)
    apart = right[nodes] != left[nodes] + 1
    if apart.any():
        # XGBoost writes them in pairs, and versions before 3 go right to the node after the left child.
        raise InvalidInput(f"{where}the right child of node {nodes[apart][0]} does not follow its left child")
    agrees = (parents[left[nodes]] == nodes) & (parents[right[nodes]] == nodes)
    if not agrees.all():
        raise InvalidInput(f"{where}parents contradicts the children of node {nodes[~agrees][0]}")
    if parents[0] not in (-1, _NO_PARENT) or ((parents[1:] < 0) | (parents[1:] >= len(parents))).any():
        raise InvalidInput(f"{where}parents must name a node for each but the first")


def _without_deleted(
    arrays: dict[str, Any],
    deleted: npt.NDArray[np.bool_],
    special: dict[int, Pieces],
    param: dict[str, Any],
    where: str,
) -> tuple[dict[str, Any], dict[int, Pieces]]:
    """The tree, and its special nodes, without the nodes that pruning left behind."""
    count = whole(param.get("num_deleted", "0"), where + "num_deleted", 0, 2**31 - 1)
    if deleted[0]:
        raise InvalidInput(f"{where}its first node is marked as deleted")
    if count != int(deleted.sum()):
        raise InvalidInput(f"{where}num_deleted is {count}, but {int(deleted.sum())} nodes are marked as deleted")
    if not count:
        return arrays, special
    position = np.where(deleted, -2, np.cumsum(~deleted) - 1)

    def moved(children: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        # A child out of range stays out of range, for the builder to refuse.
        inside = (children >= 0) & (children < len(position))
        return np.where(inside, position[np.where(inside, children, 0)], np.where(children < 0, children, 2**40))

    kept = {name: array[~deleted] for name, array in arrays.items()}
    special = {int(position[node]): pieces for node, pieces in special.items()}
    return kept | {side: moved(kept[side]) for side in ("left", "right")}, special


@functools.cache
def logistic_cut() -> float:
    """The largest float32 margin m whose float32 probability 1 / (1 + exp(-m)) is not above 0.5.

    It is a little above 0: exp(-m) has to fall far enough below 1 for the sum to round below 2.
    """
    half, reach = np.float32(0.5), LARGEST_FLOAT32
    return checked_cut(
        lambda margins: _probabilities(margins)[:, 1] > half, np.dtype(np.float32), reach, "XGBoost's sigmoid"
    ).value


def _probability(margin: np.float32) -> np.float32:
    """XGBoost's float32 probability of a margin; it caps the exponent and keeps the sum above 0."""
    one, epsilon, most = np.float32(1), np.float32(1e-16), np.float32(88.7)
    probability: np.float32 = one / (np.float32(_expf()(float(min(-margin, most)))) + one + epsilon)
    return probability


def _probabilities(margins: npt.NDArray[Any]) -> npt.NDArray[Any]:
    ones = np.array([_probability(margin) for margin in margins.astype(np.float32)], dtype=np.float32)
    return np.column_stack((np.float32(1) - ones, ones))


@functools.cache
def _expf() -> Callable[[float], float]:
    return _float32_function("expf", np.exp)


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
