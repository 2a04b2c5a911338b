"""CatBoost: classifiers with numbers and categories, as objects, `.cbm` files and `.json` files.

CatBoost casts each value to float32 and goes right where it is above a border. It adds the leaf values in
double, tree after tree, and the bias last. One score is cut at the logit of the probability threshold; of
several, the largest wins, or the first on a tie. A NaN goes left, unless the feature saw NaN in training
under `nan_mode="Max"`.

Every model is read through CatBoost's JSON export, which holds each number to the last bit. A `.json` file
therefore means the model that was saved. (CatBoost's own JSON reader rounds some leaf values one bit off, so
a model it loads back from the file can differ from the one that was saved.)
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import parse_json
from treeproof.importers._catboost_categories import Split, category_columns
from treeproof.importers._child import run_child
from treeproof.importers._exact_thresholds import float32_at_most_threshold
from treeproof.importers._json_fields import fields_of, flag_of, number_of, numbers_of, whole_of
from treeproof.importers._refusals import library, refuse_voting
from treeproof.importers._responses import logistic
from treeproof.model.builder import LEAF, EnsembleBuilder, check_text
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST_FLOAT32, FloatArray

_ONE_SCORE = ("Logloss", "CrossEntropy", "Focal")
_SCORE_PER_CLASS = ("MultiClass", "MultiClassOneVsAll")

# Bytes of address space for reading a .cbm file, plus 64 for each of its own: 450 MB suffice for a small one.
_MEMORY = 900 * 2**20

# CatBoost trains no deeper trees; a damaged file must not ask for 2**60 leaves.
_DEEPEST = 16

# Every field of each part of the file that CatBoost writes; what else stands there has no meaning that is known.
_FIELDS = {
    "the model": ("features_info", "model_info", "oblivious_trees", "trees", "scale_and_bias", "ctr_data"),
    "features_info": ("float_features", "categorical_features", "ctrs", "text_features", "embedding_features"),
    "a feature": ("borders", "feature_id", "feature_index", "flat_feature_index", "has_nans", "nan_value_treatment"),
    "a category column": ("feature_id", "feature_index", "feature_name", "flat_feature_index", "values"),
    "a split": (
        "border",
        "cat_feature_index",
        "ctr_target_border_idx",
        "float_feature_index",
        "split_index",
        "split_type",
        "value",
    ),
    "a tree": ("leaf_values", "leaf_weights", "splits"),
    "a leaf": ("value", "weight"),
    "a node": ("left", "right", "split"),
    "class_params": ("class_label_type", "class_names", "class_to_label", "classes_count"),
}
_PLAIN_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")

EXACT = 2**53
"""Up to here, every whole number is a double."""

_DTYPES: dict[str, Any] = {"Integer": np.int64, "Float": np.float64, "Boolean": np.bool_, "String": np.str_}
# What JSON holds for each type of label; it does not tell 1.0 from 1.
_SPELLINGS = {"Integer": (int,), "Float": (int, float), "Boolean": (bool,), "String": (str,)}

# Runs in a process of its own: CatBoost crashes on some damaged .cbm files instead of raising.
_EXPORT_CBM = """
import catboost
model = catboost.CatBoost()
model.load_model(sys.argv[1], format="cbm")
model.save_model(sys.argv[2], format="json")
"""


class _Features(NamedTuple):
    """The columns of a row: names, where NaN goes in each, and which are categories; and every test of the model."""

    names: list[str] | None
    nan_right: npt.NDArray[np.bool_]
    categories: dict[int, Category]
    splits: list[Split]


def import_model(model: Any, *, voting: object, categories: Any = None) -> Ensemble:
    """The exact ensemble of a trained CatBoostClassifier, or of a CatBoost object trained on a class loss.

    A plain CatBoost object predicts raw scores unless asked; the ensemble predicts its `prediction_type="Class"`.
    `categories` has the values of category columns, by column.
    """
    refuse_voting(voting, "CatBoost")
    catboost = library("catboost")
    if not isinstance(model, catboost.CatBoost):
        raise UnsupportedModel(
            f"a catboost {type(model).__qualname__} is not a model; pass a trained CatBoostClassifier"
        )
    if not model.is_fitted():
        raise InvalidInput(f"the {type(model).__qualname__} is not trained; call fit first")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.json")
        try:
            model.save_model(str(file), format="json")
        except catboost.CatBoostError as error:
            raise UnsupportedModel(f"CatBoost cannot export the model as JSON: {error}") from None
        content = json.loads(file.read_bytes())
    _check_loss(_loss(content["model_info"]))
    source = model if isinstance(model, catboost.CatBoostClassifier) else catboost.to_classifier(model)
    return _ensemble(content, categories, origin=f"CatBoost {type(model).__qualname__}", source=source)


def load_bytes(data: bytes, *, voting: object, categories: Any = None) -> Ensemble:
    """The exact ensemble of a `.cbm` file (needs catboost) or a `.json` file (does not)."""
    refuse_voting(voting, "CatBoost")
    is_cbm = data[:4] == b"CBM1"
    content = parse_json(_json_of_cbm(data) if is_cbm else data, constants=True)
    return _ensemble(content, categories, origin="CatBoost model file", source=None)


def _json_of_cbm(data: bytes) -> bytes:
    """CatBoost's own JSON export of a `.cbm` file, made where a crash or a hang does no harm."""
    library("catboost")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.cbm"), Path(folder, "model.json")
        source.write_bytes(data)
        files = [str(source), str(target)]
        run_child(_EXPORT_CBM, files, folder=Path(folder), library="CatBoost", size=len(data), memory=_MEMORY)
        if not target.exists():
            raise InvalidInput("CatBoost read it, but wrote nothing")
        return target.read_bytes()


def _ensemble(content: Mapping[str, Any], categories: Any, *, origin: str, source: Any) -> Ensemble:
    fields_of(content, "the model", (), _FIELDS["the model"])
    info = content["model_info"]
    loss = _loss(info)
    _check_loss(loss)
    features = _features(content["features_info"], content.get("ctr_data") or {}, categories)
    one_score = loss in _ONE_SCORE
    classes = _classes(info, one_score)
    if one_score and len(classes) != 2:
        raise InvalidInput(f"a {loss} model decides between 2 classes, but this one names {len(classes)}")
    n_scores = 1 if one_score else len(classes)
    if one_score:
        rule = ScoreRule(decision=Decision.CUT, base_last=True, cut=_cut(info))
    else:
        rule = ScoreRule(decision=Decision.ARGMAX, base_last=True)
    builder = EnsembleBuilder(
        n_features=len(features.nan_right),
        classes=classes,
        rule=rule,
        base=_bias(content["scale_and_bias"]),
        feature_names=features.names,
        handles_missing=True,
        value_limit=LARGEST_FLOAT32,
        # CatBoost takes no missing values in category columns.
        no_missing=list(features.categories),
        categories=features.categories,
        takes_frames=bool(features.categories),
        origin=origin,
        source=source,
    )
    if "oblivious_trees" in content and "trees" in content:
        raise InvalidInput("it has both 'oblivious_trees' and 'trees', of which CatBoost uses only the first")
    for tree in content.get("oblivious_trees") or ():
        builder.add_tree(**_oblivious_tree(tree, features, n_scores))
    for tree in content.get("trees") or ():
        builder.add_tree(**_plain_tree(tree, features, n_scores))
    ensemble = builder.build()
    return replace(ensemble, responses=logistic(1.0), decided=_stated(info)) if one_score else ensemble


def _params(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """The training parameters, which some versions of CatBoost write as JSON inside a string."""
    params: Mapping[str, Any] = _unwrapped(info.get("params", {}))
    return params


def _unwrapped(value: Any) -> Any:
    return parse_json(value, constants=True) if isinstance(value, str) else value


def _loss(info: Mapping[str, Any]) -> str:
    stated = [_params(info).get("loss_function"), _unwrapped(info.get("loss_function"))]
    losses = {str(loss["type"]) for loss in stated if loss}
    if not losses:
        raise UnsupportedModel("the model does not name its loss, so its scores cannot be read as labels")
    if len(losses) > 1:
        raise InvalidInput(f"the model names two losses: {', '.join(sorted(losses))}")
    return losses.pop()


def _check_loss(loss: str) -> None:
    if loss in ("MultiLogloss", "MultiCrossEntropy"):
        raise UnsupportedModel(f"a {loss} model gives a row several labels at once; treeproof verifies one per row")
    if loss not in _ONE_SCORE + _SCORE_PER_CLASS:
        raise UnsupportedModel(
            f"a model trained on {loss} does not predict classes; "
            f"known losses: {', '.join(_ONE_SCORE + _SCORE_PER_CLASS)}"
        )


def _classes(info: Mapping[str, Any], one_score: bool) -> npt.NDArray[Any]:
    """The labels that scores stand for, in the order of the scores and in the dtype `predict` returns."""
    if "class_params" in info and "multiclass_params" in info:
        raise InvalidInput("it has both 'class_params' and 'multiclass_params', of which CatBoost uses only the first")
    params = _unwrapped(info.get("class_params") or info.get("multiclass_params"))
    if not params:
        names = _params(info).get("data_processing_options", {}).get("class_names") or [0, 1]
        params = {"class_names": names, "class_to_label": range(len(names))}
    fields_of(params, "class_params", (), _FIELDS["class_params"])
    # A class that was declared but never seen in training has a name but no score.
    seen = [_label(label) for label in params["class_to_label"]]
    names = params.get("class_names") or []
    count = whole_of(params.get("classes_count", 0), "classes_count")
    known = len(names) or count
    if known:
        in_order = seen == sorted(set(seen)) and (not seen or 0 <= seen[0] <= seen[-1] < known)
        # With one score, CatBoost takes the first two names whatever class_to_label says.
        if not in_order or count not in (0, known) or (one_score and len(seen) == 2 and seen != [0, 1]):
            raise InvalidInput(f"class_to_label {seen} does not fit the {known} class names")
    names = [names[label] for label in seen] if names else seen
    kind = params.get("class_label_type")
    for name in names:
        if not isinstance(name, (bool, int, float, str)):
            raise InvalidInput(f"a class name must be a number or text, got {name!r}")
        check_text(name, "a class name")
        if not isinstance(name, str) and not abs(name) <= EXACT:
            raise InvalidInput(f"class name {name}: numbers beyond 2**53 are not read alike everywhere")
    if any(isinstance(name, bool) for name in names) and names != [False, True]:
        raise InvalidInput(f"class names {names}: CatBoost takes truth values as false and true, in this order")
    if kind is None:
        if len(set(map(type, names))) > 1:
            raise InvalidInput(f"class names {names} are of several types, and no class_label_type says of which")
        return np.asarray(names)
    if kind not in _DTYPES:
        raise UnsupportedModel(f"class label type {kind!r} is unknown; known: {', '.join(_DTYPES)}")
    if any(type(name) not in _SPELLINGS[kind] for name in names):
        raise InvalidInput(f"class names {names} are not of type {kind}")
    return np.asarray(names, dtype=_DTYPES[kind])


def _label(value: Any) -> int:
    """A class number, which old versions write as 1.0."""
    return (
        int(value)
        if isinstance(value, float) and value.is_integer()
        else whole_of(value, "class_to_label", -EXACT, EXACT)
    )


def _threshold(info: Mapping[str, Any]) -> float:
    threshold = info.get("binclass_probability_threshold", 0.5)
    if isinstance(threshold, str) and _PLAIN_NUMBER.fullmatch(threshold):
        threshold = float(threshold)
    return _number(threshold, "binclass_probability_threshold")


def _stated(info: Mapping[str, Any]) -> tuple[int, str] | None:
    """The model's own threshold in words, if it is not the usual one."""
    threshold = _threshold(info)
    return None if threshold == 0.5 else (1, f"where its probability is above {threshold!r}")


def _cut(info: Mapping[str, Any]) -> float:
    """The raw score above which the second class is predicted: the logit of the probability threshold."""
    threshold = _threshold(info)
    if not 0 < threshold < 1:
        raise UnsupportedModel(
            f"with a probability threshold of {threshold} the model always predicts the same class; "
            "set one between 0 and 1"
        )
    # This formula and no other gives CatBoost's own cut to the last bit.
    return -math.log(1 / threshold - 1)


def _bias(scale_and_bias: Any) -> FloatArray:
    scale, bias = scale_and_bias
    if _number(scale, "the scale") != 1:
        raise UnsupportedModel(f"the model scales its scores by {scale}; undo it with set_scale_and_bias(1, bias)")
    return _numbers(bias, "the bias")


def _number(value: Any, what: str) -> float:
    if type(value) is int and abs(value) > EXACT:
        # CatBoost's reader takes some of these for other numbers; it writes large ones with an exponent.
        raise InvalidInput(f"{what} is {value}; whole numbers beyond 2**53 are not read alike everywhere")
    return number_of(value, what)


def _numbers(values: Any, what: str) -> FloatArray:
    return np.array(numbers_of(values, what, _number), dtype=np.float64)


def _features(info: Mapping[str, Any], tables: Mapping[str, Any], categories: Any) -> _Features:
    fields_of(info, "features_info", (), _FIELDS["features_info"])
    for kind in ("text", "embedding"):
        if info.get(f"{kind}_features"):
            raise UnsupportedModel(f"the model has {kind} features; treeproof verifies numbers and categories only")
    numbers, texts = (info.get(kind) or [] for kind in ("float_features", "categorical_features"))
    for feature in numbers:
        fields_of(feature, "a feature", (), _FIELDS["a feature"])
    for column in texts:
        fields_of(column, "a category column", (), _FIELDS["a category column"])
    _check_positions(numbers, texts)
    n_features = len(numbers) + len(texts)
    names = {each["flat_feature_index"]: str(each.get("feature_id", "")) for each in (*numbers, *texts)}
    named = names if all(names.values()) else None
    splits = [split for number, feature in enumerate(numbers) for split in _number_splits(feature, number)]
    found = category_columns(info, tables, categories, named)
    nan_right = np.zeros(n_features, dtype=bool)
    nan_right[[feature["flat_feature_index"] for feature in numbers]] = [_nan_right(feature) for feature in numbers]
    in_order = None if named is None else [named[position] for position in range(n_features)]
    return _Features(in_order, nan_right, found.categories, splits + found.splits)


def _check_positions(numbers: Sequence[Mapping[str, Any]], texts: Sequence[Mapping[str, Any]]) -> None:
    """Refuses features that are not numbered in their order, and together from 0 on."""
    positions = []
    for features in (numbers, texts):
        in_row = [whole_of(feature["flat_feature_index"], "a feature index", most=EXACT) for feature in features]
        counted = [whole_of(feature["feature_index"], "a feature index", most=EXACT) for feature in features]
        if counted != list(range(len(features))) or in_row != sorted(in_row):
            raise InvalidInput(f"the indices of the {len(features)} features are not 0 to {len(features) - 1}")
        positions += in_row
    if sorted(positions) != list(range(len(positions))):
        raise InvalidInput(f"the indices of the {len(positions)} features are not 0 to {len(positions) - 1}")


def _number_splits(feature: Mapping[str, Any], number: int) -> list[Split]:
    # CatBoost counts how many borders a value is above, so each border decides only in its order.
    borders = _numbers(feature["borders"], f"a border of feature {number}")
    with np.errstate(over="ignore"):
        narrow = borders.astype(np.float32)
    if np.isnan(narrow).any() or (narrow[1:] <= narrow[:-1]).any():
        raise InvalidInput(f"the borders of feature {number} are not in rising order")
    return [
        Split(
            feature["flat_feature_index"],
            border,
            None,
            {"split_type": "FloatFeature", "float_feature_index": number, "border": border},
        )
        for border in borders.tolist()
    ]


def _nan_right(feature: Mapping[str, Any]) -> bool:
    treatment = feature["nan_value_treatment"]
    if treatment not in ("AsIs", "AsFalse", "AsTrue"):
        raise UnsupportedModel(f"missing value treatment {treatment!r} is unknown; known: AsIs, AsFalse, AsTrue")
    # CatBoost replaces NaN only where training saw one; otherwise `NaN > border` is false.
    return flag_of(feature["has_nans"], "has_nans") and treatment == "AsTrue"


def _split(split: Mapping[str, Any], features: _Features) -> Split:
    """One test of a tree; the file states it twice, and both must agree."""
    fields_of(split, "a split", (), _FIELDS["a split"])
    index = whole_of(split["split_index"], "split_index", most=len(features.splits) - 1)
    found = features.splits[index]
    stated = {"split_type": "FloatFeature"} | {name: split[name] for name in split if name != "split_index"}
    if stated != found.stated:
        raise InvalidInput(f"split {index} is {found.stated} in features_info and {stated} in a tree")
    return found


def _thresholds(borders: npt.ArrayLike) -> FloatArray:
    with np.errstate(over="ignore"):
        narrow = np.asarray(borders, dtype=np.float64).astype(np.float32)
    # Above an infinite border there is no number.
    return float32_at_most_threshold(np.minimum(narrow, np.float32(LARGEST_FLOAT32)))


def _oblivious_tree(tree: Mapping[str, Any], features: _Features, n_scores: int) -> dict[str, Any]:
    """A complete binary tree that tests one split per level, last split first, so that leaves keep their order."""
    fields_of(tree, "a tree", (), _FIELDS["a tree"])
    splits = [_split(split, features) for split in tree["splits"] or ()]
    depth = len(splits)
    if depth > _DEEPEST:
        raise InvalidInput(f"a tree has depth {depth}; CatBoost trains at most {_DEEPEST}")
    values = _numbers(tree["leaf_values"], "a leaf value")
    n_inner = 2**depth - 1
    if values.shape != ((n_inner + 1) * n_scores,):
        raise InvalidInput(
            f"a tree of depth {depth} has {values.size} leaf values, expected {(n_inner + 1) * n_scores}"
        )
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth))
    by_level = splits[::-1]
    leaves = np.full(n_inner + 1, LEAF)
    feature = np.array([split.feature for split in by_level], dtype=np.int64)[level]
    threshold = _thresholds([split.border for split in by_level])[level]
    scores = np.zeros((2 * n_inner + 1, n_scores))
    scores[n_inner:] = values.reshape(-1, n_scores)
    children = 2 * np.arange(n_inner) + 1
    return {
        "feature": np.concatenate((feature, leaves)),
        "threshold": np.concatenate((threshold, np.zeros(n_inner + 1))),
        "left": np.concatenate((children, leaves)),
        "right": np.concatenate((children + 1, leaves)),
        "nan_left": np.concatenate((~features.nan_right[feature], np.zeros(n_inner + 1, dtype=bool))),
        "scores": scores,
        "pieces": _pieces([by_level[each] for each in level.tolist()]),
    }


def _pieces(splits: Sequence[Split | None]) -> dict[int, Pieces]:
    """By node, the tests on categories; a leaf has no test."""
    return {node: split.pieces for node, split in enumerate(splits) if split is not None and split.pieces is not None}


def _plain_tree(tree: Mapping[str, Any], features: _Features, n_scores: int) -> dict[str, Any]:
    """A tree of Lossguide or Depthwise growth: nested nodes, numbered here in the order they are met."""
    nodes = [tree]
    splits: list[Split | None] = []
    left, scores = [], []
    for node in nodes:  # grows as children are met
        kind = "a leaf" if "value" in node else "a node"
        fields_of(node, kind, (), _FIELDS[kind])
        if "split" in node:
            splits.append(_split(node["split"], features))
            left.append(len(nodes))
            nodes += [node["left"], node["right"]]
            scores.append(np.zeros(n_scores))
        else:
            splits.append(None)
            left.append(LEAF)
            value = node["value"] if isinstance(node["value"], list) else [node["value"]]
            scores.append(_numbers(value, "a leaf value"))
    feature = np.array([LEAF if split is None else split.feature for split in splits])
    inner = feature >= 0
    children = np.asarray(left)
    return {
        "feature": feature,
        "threshold": _thresholds([0.0 if split is None else split.border for split in splits]),
        "left": children,
        "right": np.where(inner, children + 1, LEAF),
        "nan_left": inner & ~features.nan_right[np.where(inner, feature, 0)],
        "scores": np.stack(scores),
        "pieces": _pieces(splits),
    }
