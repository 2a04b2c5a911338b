"""The fields of XGBoost's files: which there are, of which type, and how their numbers are read.

XGBoost's reader casts, wraps and ignores; what it would not read as it is written is refused here. The lists of
fields are those that XGBoost 1.0 to 3.2 writes.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.files import parse_json
from treeproof.importers import _ubjson
from treeproof.importers._json_fields import fields_of
from treeproof.importers.registry import is_ubjson

Float32Array = npt.NDArray[np.float32]

CATEGORY_FIELDS = ("split_type", "categories", "categories_nodes", "categories_segments", "categories_sizes")
_TREE_FIELDS = (
    "id", "tree_param", "left_children", "right_children", "parents", "split_indices", "split_conditions",
    "default_left", "base_weights", "loss_changes", "sum_hessian",
)  # fmt: skip
_STATISTICS = ("base_weights", "loss_changes", "sum_hessian")  # XGBoost needs them, but does not predict with them

# XGBoost's reader leaves such escapes as they stand. Backslashes before it come in pairs, each one a backslash.
_UNICODE_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u")
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_BASE_SCORE = re.compile(rf"{_NUMBER}|\[{_NUMBER}(?:,{_NUMBER})*\]")


def learner_of(data: bytes) -> dict[str, Any]:
    """The learner of a .json or .ubj file, with the fields that XGBoost writes; what is below them is not checked."""
    if is_ubjson(data):
        return _checked(_ubjson.parse(data))
    text = data.decode("utf-8")
    if "\\u" in text:
        text = _UNICODE_ESCAPE.sub(r"\1\\\\u", text)
    return _checked(parse_json(text, constants=True))


def _checked(document: Any) -> dict[str, Any]:
    fields_of(document, "the file", ("learner", "version"))
    version = document["version"]
    if not isinstance(version, list) or len(version) != 3 or set(map(type, version)) != {int}:
        raise InvalidInput(f"version must be three whole numbers, got {version!r}")
    if not 1 <= version[0] <= 3:
        raise UnsupportedModel(f"written by XGBoost {version[0]}; treeproof reads files of XGBoost 1 to 3")
    learner = fields_of(
        document["learner"],
        "learner",
        ("attributes", "gradient_booster", "learner_model_param", "objective"),
        ("feature_names", "feature_types"),
    )
    fields_of(
        learner["learner_model_param"],
        "learner_model_param",
        ("base_score", "num_class", "num_feature"),
        ("num_target", "boost_from_average"),
    )
    strings(learner["attributes"], "attributes")
    return learner


def check_objective(objective: dict[str, Any], n_classes: int) -> None:
    """Refuses settings of an objective that it does not have, or that contradict the model's."""
    if objective["name"].startswith("binary:"):
        fields_of(objective, "objective", ("name",), ("reg_loss_param",))
        # scale_pos_weight weighs rows in training; it decides nothing any more.
        param = fields_of(objective.get("reg_loss_param", {}), "reg_loss_param", (), ("scale_pos_weight",))
        strings(param, "objective")
    else:
        fields_of(objective, "objective", ("name", "softmax_multiclass_param"))
        param = fields_of(objective["softmax_multiclass_param"], "softmax_multiclass_param", ("num_class",))
        if whole(param["num_class"], "the objective's num_class", 0, 2**31 - 1) != n_classes:
            raise InvalidInput(f"num_class is {n_classes}, but the objective says {param['num_class']}")


def check_tree(tree: dict[str, Any], number: int, n_nodes: int) -> None:
    """Refuses a tree with other fields than XGBoost writes, or in another place than its `id`."""
    where = f"tree {number}: "
    categories = CATEGORY_FIELDS if any(name in tree for name in CATEGORY_FIELDS) else ()
    fields_of(tree, f"tree {number}", _TREE_FIELDS + categories, ("leaf_child_counts",))
    # XGBoost puts a tree where its id says.
    if type(tree["id"]) is not int or tree["id"] != number:
        raise InvalidInput(f"{where}its id is {tree['id']!r}; the trees must be in the order of their ids")
    for name in _STATISTICS:
        if len(_doubles(tree[name], where + name)) != n_nodes:
            raise InvalidInput(f"{where}{name} has {len(tree[name])} entries for {n_nodes} nodes")


def name_of(value: Any, where: str) -> str:
    """The `name` of an object."""
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        raise InvalidInput(f"{where!r} is of the wrong type: it has no name")
    return name


def strings(value: Any, where: str) -> dict[str, str]:
    """The object, if all its values are strings."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where!r} is of the wrong type: {type(value).__name__}")
    for name, item in value.items():
        if not isinstance(item, str):
            raise InvalidInput(f"{where}: {name} must be a string, got {item!r}")
    return value


def names(value: Any, where: str) -> list[str]:
    """A list of strings."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise InvalidInput(f"{where} must be a list of strings")
    return value


def whole(value: Any, name: str, least: int, most: int) -> int:
    """A whole number within bounds, which XGBoost writes as a string."""
    if not isinstance(value, str) or not re.fullmatch("[0-9]{1,19}", value) or not least <= int(value) <= most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, as a string; got {value!r}")
    return int(value)


def wholes(values: Any, name: str, dtypes: Collection[str] = ("int32",)) -> npt.NDArray[np.int64]:
    """A list of whole numbers, or a typed array of UBJSON of the given types."""
    if isinstance(values, np.ndarray) and values.dtype.name in dtypes:
        return values.astype(np.int64)
    if not isinstance(values, list) or not set(map(type, values)) <= {int}:
        raise InvalidInput(f"{name} must be a list of whole numbers")
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        raise InvalidInput(f"{name}: a number does not fit in 64 bits") from None


def flags(values: Any, name: str, *, booleans: bool) -> npt.NDArray[np.bool_]:
    """One 0 or 1 per node; true and false are for XGBoost 1."""
    if booleans and isinstance(values, list):
        values = [int(value) if isinstance(value, bool) else value for value in values]
    numbers = wholes(values, name, ("uint8",))
    if ((numbers != 0) & (numbers != 1)).any():
        raise InvalidInput(f"{name} must hold 0 or 1 per node")
    return numbers.astype(np.bool_)


def floats(values: Any, name: str, unused: Collection[int] = ()) -> Float32Array:
    """Numbers as float32, each rounded once from what is written; entries that are not used become 0."""
    array = _doubles(values, name)
    array[list(unused)] = 0.0
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise InvalidInput(f"{name}: {array[~np.isfinite(narrow)][0]} is not a finite float32 number")
    # Text was rounded to a double first. That gives another float32 than XGBoost's only if the double is half way.
    gap = array - narrow
    with np.errstate(over="ignore"):
        beyond = np.nextafter(narrow, np.where(gap > 0, np.float32(np.inf), np.float32(-np.inf))).astype(np.float64)
    half_way = (gap != 0) & (gap == beyond - array)
    if half_way.any():
        raise InvalidInput(f"{name}: {array[half_way][0]!r} is half way between two float32 numbers; write one of them")
    return narrow


def base_scores(text: Any) -> Float32Array:
    """The numbers of `base_score`: one, or a list of them, as a string."""
    if not isinstance(text, str) or not _BASE_SCORE.fullmatch(text):
        raise InvalidInput(f"base_score must be a number or a list of numbers, as a string; got {str(text)[:40]!r}")
    numbers = text.strip("[]").split(",")
    for number in numbers:
        digits = re.sub("[^0-9]", "", re.split("[eE]", number)[0]).lstrip("0")
        if len(digits) > 9:
            # XGBoost writes up to 9 of them. XGBoost 2 takes 0.5 in place of a longer number, and says nothing.
            raise InvalidInput(f"base_score {number} has more than 9 digits, which XGBoost 2 does not read")
    return floats([float(number) for number in numbers], "base_score")


def _doubles(values: Any, name: str) -> npt.NDArray[np.float64]:
    if isinstance(values, np.ndarray) and values.dtype == np.float32:
        return values.astype(np.float64)
    # XGBoost writes a point or an exponent, and does not take 1 for 1.0.
    if not isinstance(values, list) or not set(map(type, values)) <= {float}:
        raise InvalidInput(f"{name} must be a list of numbers with a point or an exponent")
    return np.array(values, dtype=np.float64)
