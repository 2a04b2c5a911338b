"""LightGBM classifiers: objects, and the text files of `save_model`.

LightGBM adds float64 leaf values, tree after tree, and compares `x <= threshold` on doubles, after
turning numbers of magnitude up to 1e-35 into 0. An object that stopped early predicts with its best iteration,
and `save_model` writes no more than that; a file is used whole. Files are read without LightGBM; their
classes are 0, 1, 2…, since a file does not hold the labels of an LGBMClassifier.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._refusals import check_size, refuse_voting
from treeproof.importers._set_splits import Pieces, TreeArrays, rewritten
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST, FloatArray, from_ordinal, next_down, ordinal

ZERO = float(np.float32(1e-35))
"""LightGBM treats numbers of at most this magnitude as 0."""
_BELOW_ZERO = float(next_down(-ZERO))

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type; the two above them are the missing type
_MISSING_NONE, _MISSING_ZERO, _MISSING_NAN = 0, 1, 2
_VERSIONS = ("v2", "v3", "v4")
_OBJECTIVES = ("binary", "multiclass", "multiclassova")
_PREDICTION_SETTINGS = (
    "pred_early_stop",
    "start_iteration_predict",
    "num_iteration_predict",
    "predict_raw_score",
    "is_predict_raw_score",
    "predict_rawscore",
    "raw_score",
)


def import_model(model: Any, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a trained LGBMClassifier or Booster, up to its best iteration as in `predict`."""
    refuse_voting(voting, "LightGBM")
    import lightgbm

    name = type(model).__qualname__
    if isinstance(model, lightgbm.Booster):
        return _ensemble(model.model_to_string(), classes=None, origin=f"LightGBM {name}", source=BoosterLabels(model))
    if not isinstance(model, lightgbm.LGBMClassifier):
        raise UnsupportedModel(f"LightGBM's {name} is not a classifier; treeproof reads LGBMClassifier and Booster")
    if not model.__sklearn_is_fitted__():
        raise InvalidInput(f"this {name} is not trained; call fit first")
    if callable(model.objective_):
        raise UnsupportedModel(f"with a custom objective, {name}.predict returns scores instead of labels")
    params = model.get_params()
    for setting in _PREDICTION_SETTINGS:
        if params.get(setting):
            raise UnsupportedModel(f"{name}({setting}={params[setting]!r}) changes what predict returns; leave it out")
    text = model.booster_.model_to_string()
    return _ensemble(text, classes=model.classes_, origin=f"LightGBM {name}", source=model)


class BoosterLabels:
    """A Booster's probabilities as labels: above 0.5 for two classes, the best class for more."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label of each row."""
        p = np.asarray(self.booster.predict(np.asarray(X, dtype=np.float64)))
        return np.argmax(p, axis=1) if p.ndim == 2 else (p > 0.5).astype(np.int64)


def load_bytes(data: bytes, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a text file; its classes are 0, 1, 2…"""
    refuse_voting(voting, "LightGBM")
    return _ensemble(data.decode("utf-8"), classes=None, origin="LightGBM file", source=None)


class _Section(dict[str, str]):
    """The `key=value` lines of the header or of one tree; asking for a missing line raises InvalidInput."""

    def __missing__(self, key: str) -> str:
        raise InvalidInput(f"a line '{key}=…' is missing")


@dataclass
class _File:
    """The parts of a text file that decide what it predicts."""

    header: _Section = field(default_factory=_Section)
    flags: set[str] = field(default_factory=set)
    trees: list[_Section] = field(default_factory=list)
    pandas_categorical: str = "null"


def _read(text: str) -> _File:
    # Not splitlines(), which would also split at characters that a feature name may hold.
    lines = (line.rstrip("\r") for line in text.split("\n"))
    if next(lines, None) != "tree":
        raise InvalidInput("it does not start with the line 'tree'")
    file = _File()
    section = file.header
    for line in lines:
        # Files of LightGBM 2.3 and later say "end of trees"; in older ones the importances come next.
        if line in ("end of trees", "feature importances:", "feature_importances:"):
            break
        key, equals, value = line.partition("=")
        if key == "Tree" and equals:
            if value != str(len(file.trees)):
                raise InvalidInput(f"expected tree {len(file.trees)}, got 'Tree={value}'")
            section = _Section()
            file.trees.append(section)
        elif equals:
            if key in section:
                raise InvalidInput(f"{key!r} occurs twice in one section")
            section[key] = value
        elif line.strip() and not file.trees:
            file.flags.add(line.strip())
        elif line.strip():
            raise InvalidInput(f"tree {len(file.trees) - 1}: the line {line[:40]!r} has no '='")
    else:
        raise InvalidInput("the line 'end of trees' is missing; the file is cut short")
    _read_tail(lines, file)
    return file


def _read_tail(lines: Iterator[str], file: _File) -> None:
    for line in lines:
        if line.startswith("pandas_categorical:"):
            file.pandas_categorical = line.partition(":")[2].strip()


def _ensemble(text: str, *, classes: Any, origin: str, source: Any) -> Ensemble:
    file = _read(text)
    header = file.header
    if header["version"] not in _VERSIONS:
        raise UnsupportedModel(f"file version {header['version']!r}; treeproof reads {', '.join(_VERSIONS)}")
    if file.pandas_categorical not in ("null", "[]", ""):
        raise UnsupportedModel("the model recodes categorical columns of pandas; train it on category codes")
    n_scores = _whole(header["num_tree_per_iteration"], "num_tree_per_iteration", 1)
    if not file.trees:
        raise InvalidInput("the model has no trees; train it with at least one")
    if len(file.trees) % n_scores:
        raise InvalidInput(f"{len(file.trees)} trees cannot be shared equally among {n_scores} scores")
    if "tree_sizes" in header and len(header["tree_sizes"].split()) != len(file.trees):
        raise InvalidInput(f"tree_sizes lists {len(header['tree_sizes'].split())} trees, but {len(file.trees)} follow")
    n_features = _whole(header["max_feature_idx"], "max_feature_idx", 0) + 1
    names = header["feature_names"].split(" ")
    if len(names) != n_features:
        raise InvalidInput(f"the file names {len(names)} features, but max_feature_idx is {n_features - 1}")
    n_rounds = len(file.trees) // n_scores
    rule = _rule(header, n_scores, divisor=float(n_rounds) if "average_output" in file.flags else 1.0)
    check_size(sum(2 * _whole(tree["num_leaves"], "num_leaves", 1) for tree in file.trees), n_scores)
    builder = EnsembleBuilder(
        n_features=n_features,
        classes=np.arange(max(2, n_scores)) if classes is None else classes,
        rule=rule,
        # A data frame must not be asked for the names that LightGBM made up for an array.
        feature_names=None if names == [f"Column_{i}" for i in range(n_features)] else names,
        handles_missing=True,
        origin=origin,
        source=source,
    )
    for number, tree in enumerate(file.trees):
        _add_tree(builder, tree, number, number % n_scores, n_scores)
    return replace(builder.build(), blanks_underscored=True)


def _rule(header: _Section, n_scores: int, divisor: float) -> ScoreRule:
    words = header.get("objective", "none").split()
    objective = words[0] if words else "none"
    settings = _Section(word.partition(":")[::2] for word in words[1:])
    if objective not in _OBJECTIVES:
        raise UnsupportedModel(
            f"objective {objective!r} does not predict classes; treeproof reads {', '.join(_OBJECTIVES)}"
        )
    n_classes = _whole(header["num_class"], "num_class", 1)
    if objective != "binary" and _whole(settings["num_class"], "the objective's num_class", 2) != n_classes:
        raise InvalidInput(f"num_class is {n_classes}, but the objective says {settings['num_class']}")
    if n_classes != n_scores or (objective == "binary") != (n_scores == 1):
        raise InvalidInput(
            f"objective {objective} does not fit {n_scores} trees per iteration and num_class={n_classes}"
        )
    if objective == "multiclass":
        return ScoreRule(decision=Decision.SOFTMAX, divisor=divisor)
    steepness = float(settings["sigmoid"])
    if not 0 < steepness < math.inf:
        raise InvalidInput(f"sigmoid must be above 0, got {steepness}")
    if objective == "multiclassova":
        return ScoreRule(decision=Decision.SIGMOID, divisor=divisor, steepness=steepness)
    return ScoreRule(decision=Decision.CUT, divisor=divisor, cut=sigmoid_cut(steepness), steepness=steepness)


def sigmoid_cut(steepness: float) -> float:
    """The largest score whose probability 1 / (1 + exp(-steepness * score)), as doubles round it, is not above 0.5.

    LGBMClassifier picks the larger of 1 - p and p, class 0 where they are equal: class 1 iff p > 0.5.
    """
    low, high = 0, int(ordinal(LARGEST))
    while high - low > 1:
        middle = (low + high) // 2
        p = 1.0 / (1.0 + math.exp(-steepness * float(from_ordinal(middle))))
        low, high = (low, middle) if p > 0.5 else (middle, high)
    return float(from_ordinal(low))


def _add_tree(builder: EnsembleBuilder, tree: _Section, number: int, group: int, n_scores: int) -> None:
    where = f"tree {number}: "
    if tree.get("is_linear", "0") != "0":
        raise UnsupportedModel(f"{where}linear_tree: leaves that hold a linear model are not supported")
    n_leaves = _whole(tree["num_leaves"], where + "num_leaves", 1)
    values = _floats(tree["leaf_value"], where + "leaf_value", n_leaves)
    n_inner = n_leaves - 1
    # A tree that never split may leave out the entries of its splits.
    split, left, right, kind = (
        _wholes(tree.get(name, "") if n_inner == 0 else tree[name], where + name, n_inner)
        for name in ("split_feature", "left_child", "right_child", "decision_type")
    )
    raw = _floats(tree.get("threshold", "") if n_inner == 0 else tree["threshold"], where + "threshold", n_inner)
    if (split < 0).any():
        raise InvalidInput(f"{where}a split feature is negative")
    if ((kind < 0) | (kind >> 2 > _MISSING_NAN)).any():
        raise InvalidInput(f"{where}decision_type {kind[(kind < 0) | (kind >> 2 > _MISSING_NAN)][0]} is unknown")
    threshold, nan_left, special = _splits(tree, raw, kind, where)
    scores = np.zeros((n_inner + n_leaves, n_scores))
    scores[n_inner:, group] = values
    none = np.full(n_leaves, LEAF)
    arrays = TreeArrays(
        np.concatenate((split, none)),
        np.concatenate((threshold, np.zeros(n_leaves))),
        # Inner nodes come first; a negative child -1 - i is leaf i.
        np.concatenate((np.where(left < 0, n_inner - 1 - left, left), none)),
        np.concatenate((np.where(right < 0, n_inner - 1 - right, right), none)),
        np.concatenate((nan_left, np.zeros(n_leaves, dtype=bool))),
        scores,
    )
    what = "splits on categories or on zeros that count as missing"
    builder.add_tree(**rewritten(arrays, special, number=number, what=what)._asdict())


def _splits(
    tree: _Section, raw: FloatArray, kind: npt.NDArray[np.int64], where: str
) -> tuple[FloatArray, npt.NDArray[np.bool_], dict[int, Pieces]]:
    """Effective thresholds, directions of NaN, and the splits that are not a single threshold."""
    missing = kind >> 2
    default_left = (kind & _DEFAULT_LEFT) != 0
    # A split of all numbers from NaN is written as inf; no number that treeproof lets in is above LARGEST.
    raw = np.where(np.isposinf(raw), LARGEST, raw)
    # Numbers around 0 are 0 before they are compared, so a threshold there acts at the edge of that zone.
    threshold = np.where((raw >= -ZERO) & (raw < 0), _BELOW_ZERO, np.where((raw >= 0) & (raw < ZERO), ZERO, raw))
    # With no missing values in training, a NaN is read as 0.
    nan_left = np.where(missing == _MISSING_NONE, threshold >= 0, default_left)
    special: dict[int, Pieces] = {}
    for node in np.flatnonzero((kind & _CATEGORICAL != 0) | (missing == _MISSING_ZERO)).tolist():
        if kind[node] & _CATEGORICAL:
            pieces = _category_pieces(tree, raw[node], where)
            nan_left[node] = False
        else:
            pieces = _zero_pieces(float(threshold[node]), bool(default_left[node]))
        if pieces.threshold is None:
            threshold[node] = 0.0
            special[node] = pieces
        else:
            threshold[node] = pieces.threshold
    return threshold, nan_left, special


def _zero_pieces(threshold: float, default_left: bool) -> Pieces:
    """Left iff `x <= threshold`, except that zeros go in the default direction (zero_as_missing)."""
    if threshold < -ZERO:
        return Pieces.of([(threshold, True), (_BELOW_ZERO, False), (ZERO, default_left)], last=False)
    return Pieces.of([(_BELOW_ZERO, True), (ZERO, default_left), (threshold, True)], last=False)


def _category_pieces(tree: _Section, threshold: float, where: str) -> Pieces:
    """Left iff x, with its fraction cut off, is in the set; negative and unknown numbers go right."""
    starts = _wholes(tree["cat_boundaries"], where + "cat_boundaries", None)
    words = _wholes(tree["cat_threshold"], where + "cat_threshold", None)
    index = int(threshold) if math.isfinite(threshold) else -1
    if index != threshold or not 0 <= index < len(starts) - 1:
        raise InvalidInput(f"{where}category set {threshold} is out of range")
    start, stop = int(starts[index]), int(starts[index + 1])
    if not 0 <= start < stop <= len(words):
        raise InvalidInput(f"{where}category set {index} has words {start} to {stop} of {len(words)}")
    if (words < 0).any() or (words >= 2**32).any():
        raise InvalidInput(f"{where}cat_threshold must hold 32-bit words")
    bits = (words[start:stop, None] >> np.arange(32)) & 1
    parts: list[tuple[float, bool]] = []
    for category in np.flatnonzero(bits.reshape(-1)).tolist():
        # The fraction is cut off towards 0, so what lies between -1 and 0 is category 0.
        below = float(next_down(category)) if category else -1.0
        parts += [(below, False), (float(next_down(category + 1)), True)]
    return Pieces.of(parts, last=False)


def _whole(text: str, name: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {text[:40]!r}")
    return int(text)


def _parsed(text: str, name: str, kind: type[int] | type[float], dtype: type) -> npt.NDArray[Any]:
    try:
        if "_" in text:
            raise ValueError("'_' is not part of a number")  # to Python it is: 1_000
        return np.array([kind(word) for word in text.split()], dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{name}: {error}") from None


def _wholes(text: str, name: str, count: int | None) -> npt.NDArray[np.int64]:
    values = _parsed(text, name, int, np.int64)
    if count is not None and len(values) != count:
        raise InvalidInput(f"{name} has {len(values)} entries, expected {count}")
    return values


def _floats(text: str, name: str, count: int) -> FloatArray:
    values = _parsed(text, name, float, np.float64)
    if len(values) != count:
        raise InvalidInput(f"{name} has {len(values)} entries, expected {count}")
    return values
