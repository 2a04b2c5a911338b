"""LightGBM classifiers: objects, and the text files of `save_model`.

LightGBM adds float64 leaf values, tree after tree, and compares `x <= threshold` on doubles, after turning numbers of
magnitude up to 1e-35 into 0. It codes the category columns of data frames itself, with NaN for a value that training
never saw; rows hold these codes, and one more for such a value. An object that stopped early predicts with its best
iteration, and `save_model` writes no more than that; a file is used whole. Files are read without LightGBM; their
classes are 0, 1, 2…, since a file does not hold the labels of an LGBMClassifier.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._cuts import checked_cut
from treeproof.importers._lightgbm_categories import categories_of, found_in
from treeproof.importers._lightgbm_text import Section, check_fields, floats, imprecise, read, whole, wholes
from treeproof.importers._refusals import check_size, refuse_voting
from treeproof.importers._responses import BoostedLabels, logistic, same
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST, FloatArray, next_down

ZERO = float(np.float32(1e-35))
"""LightGBM treats numbers of at most this magnitude as 0."""
BELOW_ZERO = float(next_down(-ZERO))
ROWS_ARE_CSR: ContextVar[bool] = ContextVar("ROWS_ARE_CSR", default=False)
"""Of a CSR matrix, LightGBM compares tiny numbers as they are; of other matrices, it makes zeros of them."""

_CATEGORICAL, _DEFAULT_LEFT = 1, 2  # bits of decision_type; the two above them are the missing type
_MISSING_NONE, _MISSING_ZERO, _MISSING_NAN = 0, 1, 2
_VERSIONS = ("v2", "v3", "v4")
# Each objective with the settings that follow it.
_OBJECTIVES = {"binary": ("sigmoid",), "multiclass": ("num_class",), "multiclassova": ("num_class", "sigmoid")}

_SPLITS = ("split_feature", "left_child", "right_child", "decision_type", "threshold")
_SETS = ("cat_boundaries", "cat_threshold")
# LightGBM does not predict with these. The first have an entry per leaf, the others one per split.
_OF_LEAVES = ("leaf_weight", "leaf_count")
_OF_SPLITS = ("split_gain", "internal_value", "internal_weight", "internal_count")
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
        return _ensemble(_text_of(model), classes=None, origin=f"LightGBM {name}", source=BoosterLabels(model))
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
    return _ensemble(_text_of(model.booster_), classes=model.classes_, origin=f"LightGBM {name}", source=model)


def _text_of(booster: Any) -> str:
    try:
        return str(booster.model_to_string())
    except (TypeError, ValueError) as error:
        # Intervals and dates, which JSON lacks.
        raise UnsupportedModel(
            f"LightGBM cannot write this model: {error}; its categories must be text, numbers or truth values"
        ) from None


class BoosterLabels(BoostedLabels):
    """A Booster of LightGBM."""

    def predicted(self, X: Any) -> npt.NDArray[Any]:
        """Its probabilities."""
        # LightGBM would narrow an array of whole numbers to float32; of a data frame it codes the categories.
        return np.asarray(self.booster.predict(X if hasattr(X, "columns") else np.asarray(X, dtype=np.float64)))


def load_bytes(data: bytes, *, voting: str | None) -> Ensemble:
    """The exact ensemble of a text file; its classes are 0, 1, 2…"""
    refuse_voting(voting, "LightGBM")
    return _ensemble(data.decode("utf-8"), classes=None, origin="LightGBM file", source=None)


def _ensemble(text: str, *, classes: Any, origin: str, source: Any) -> Ensemble:
    file = read(text)
    header = file.header
    if header["version"] not in _VERSIONS:
        raise UnsupportedModel(f"file version {header['version']!r}; treeproof reads {', '.join(_VERSIONS)}")
    n_scores = whole(header["num_tree_per_iteration"], "num_tree_per_iteration", 1)
    if not file.trees:
        raise InvalidInput("the model has no trees; train it with at least one")
    if len(file.trees) % n_scores:
        raise InvalidInput(f"{len(file.trees)} trees cannot be shared equally among {n_scores} scores")
    names = _feature_names(header)
    n_rounds = len(file.trees) // n_scores
    rule = _rule(header, n_scores, divisor=float(n_rounds) if file.average_output else 1.0)
    check_size(sum(2 * whole(tree["num_leaves"], "num_leaves", 1) for tree in file.trees), n_scores)
    trees = [_read_tree(tree, f"tree {number}: ") for number, tree in enumerate(file.trees)]
    found = [found_in(info) for info in header["feature_infos"].split(" ")]
    categories = categories_of(found, _codes_in_sets(trees), file.category_lists, file.declared, names)
    builder = EnsembleBuilder(
        n_features=len(names),
        classes=np.arange(max(2, n_scores)) if classes is None else classes,
        rule=rule,
        # A data frame must not be asked for the names that LightGBM made up for an array.
        feature_names=None if names == [f"Column_{i}" for i in range(len(names))] else names,
        handles_missing=True,
        categories=categories,
        takes_frames=bool(file.category_lists),
        origin=origin,
        source=source,
    )
    n_values = {f: len(category.values) for f, category in categories.items() if category.coded}
    for number, tree in enumerate(trees):
        _add_tree(builder, tree, n_values, number % n_scores)
    responses = logistic(rule.steepness, same) if rule.decision == Decision.CUT else None
    return replace(builder.build(), blanks_underscored=True, responses=responses)


def _feature_names(header: Section) -> list[str]:
    """One name per feature; the header's other lists must have as many entries."""
    n_features = whole(header["max_feature_idx"], "max_feature_idx", 0) + 1
    names, infos = (header[key].split(" ") for key in ("feature_names", "feature_infos"))
    if len(names) != n_features or not all(names):
        raise InvalidInput(f"the file names {len(names)} features, but max_feature_idx is {n_features - 1}")
    if len(infos) != n_features or not all(infos):
        raise InvalidInput(f"feature_infos has {len(infos)} entries, but max_feature_idx is {n_features - 1}")
    if "monotone_constraints" in header:
        wholes(header["monotone_constraints"], "monotone_constraints", n_features)
    wholes(header["label_index"], "label_index", 1)
    return names


def _rule(header: Section, n_scores: int, divisor: float) -> ScoreRule:
    objective, *words = header.get("objective", "none").split(" ")
    if objective not in _OBJECTIVES:
        raise UnsupportedModel(
            f"objective {objective!r} does not predict classes; treeproof reads {', '.join(_OBJECTIVES)}"
        )
    settings = Section(word.partition(":")[::2] for word in words)
    if tuple(word.partition(":")[0] for word in words) != _OBJECTIVES[objective]:
        raise InvalidInput(f"objective {objective} must have {' and '.join(_OBJECTIVES[objective])}, got {words}")
    n_classes = whole(header["num_class"], "num_class", 1)
    if objective != "binary" and whole(settings["num_class"], "the objective's num_class", 2) != n_classes:
        raise InvalidInput(f"num_class is {n_classes}, but the objective says {settings['num_class']}")
    if n_classes != n_scores or (objective == "binary") != (n_scores == 1):
        raise InvalidInput(
            f"objective {objective} does not fit {n_scores} trees per iteration and num_class={n_classes}"
        )
    if objective == "multiclass":
        return ScoreRule(decision=Decision.SOFTMAX, divisor=divisor)
    steepness = imprecise(settings["sigmoid"], "sigmoid")
    if steepness == 0:
        raise InvalidInput("sigmoid must be above 0")
    if objective == "multiclassova":
        return ScoreRule(decision=Decision.SIGMOID, divisor=divisor, steepness=steepness)
    return ScoreRule(decision=Decision.CUT, divisor=divisor, cut=sigmoid_cut(steepness), steepness=steepness)


@functools.cache
def sigmoid_cut(steepness: float) -> float:
    """The largest score whose probability 1 / (1 + exp(-steepness * score)), as doubles round it, is not above 0.5.

    LGBMClassifier picks the larger of 1 - p and p, class 0 where they are equal: class 1 iff p > 0.5.
    """
    probabilities = logistic(steepness).probabilities
    assert probabilities is not None
    return checked_cut(lambda s: probabilities(s)[:, 1] > 0.5, np.dtype(float), LARGEST, "LightGBM's sigmoid").value


@dataclass(frozen=True)
class _Tree:
    """The numbers of a tree: an entry per split, and the values of its leaves."""

    split: npt.NDArray[np.int64]
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]
    threshold: FloatArray
    leaves: FloatArray
    sets: list[npt.NDArray[np.bool_]]
    """Which codes go left; the threshold of a split on categories is the number of its set."""


def _read_tree(tree: Section, where: str) -> _Tree:
    if tree.get("is_linear", "0") != "0":
        raise UnsupportedModel(f"{where}linear_tree: leaves that hold a linear model are not supported")
    n_leaves = whole(tree["num_leaves"], where + "num_leaves", 1)
    n_inner = n_leaves - 1
    _check_lines(tree, n_leaves, where)
    values = floats(tree["leaf_value"], where + "leaf_value", n_leaves)
    # A tree that never split may leave out the entries of its splits.
    split, left, right, kind = (wholes(tree.get(name, ""), where + name, n_inner) for name in _SPLITS[:4])
    raw = floats(tree.get("threshold", ""), where + "threshold", n_inner)
    if (split < 0).any():
        raise InvalidInput(f"{where}a split feature is negative")
    if ((kind < 0) | (kind >> 2 > _MISSING_NAN)).any():
        raise InvalidInput(f"{where}decision_type {kind[(kind < 0) | (kind >> 2 > _MISSING_NAN)][0]} is unknown")
    by_set = kind & _CATEGORICAL != 0
    endless = ~by_set & (np.isnan(raw) | np.isneginf(raw))
    if endless.any():
        raise InvalidInput(f"{where}threshold {raw[endless][0]} is not a finite number")
    sets = _category_sets(tree, kind, where)
    for number in raw[by_set].tolist():
        if number not in range(len(sets)):
            raise InvalidInput(f"{where}category set {number} is out of range")
    return _Tree(split, left, right, kind, raw, values, sets)


def _codes_in_sets(trees: Sequence[_Tree]) -> dict[int, list[int]]:
    """The codes that splits on categories name, by column."""
    named: dict[int, set[int]] = {}
    for tree in trees:
        for node in np.flatnonzero(tree.kind & _CATEGORICAL).tolist():
            codes = np.flatnonzero(tree.sets[int(tree.threshold[node])])
            named.setdefault(int(tree.split[node]), set()).update(codes.tolist())
    return {f: sorted(codes) for f, codes in named.items()}


def _add_tree(builder: EnsembleBuilder, tree: _Tree, n_values: Mapping[int, int], group: int) -> None:
    threshold, nan_left, special = _splits(tree, n_values)
    n_inner, n_leaves = len(tree.split), len(tree.leaves)
    none = np.full(n_leaves, LEAF)
    builder.add_tree(
        feature=np.concatenate((tree.split, none)),
        threshold=np.concatenate((threshold, np.zeros(n_leaves))),
        # Inner nodes come first; a negative child -1 - i is leaf i.
        left=np.concatenate((np.where(tree.left < 0, n_inner - 1 - tree.left, tree.left), none)),
        right=np.concatenate((np.where(tree.right < 0, n_inner - 1 - tree.right, tree.right), none)),
        nan_left=np.concatenate((nan_left, np.zeros(n_leaves, dtype=bool))),
        scores=np.concatenate((np.zeros(n_inner), tree.leaves)),
        pieces=special,
        score=group,
    )


def _check_lines(tree: Section, n_leaves: int, where: str) -> None:
    """Refuses a tree with other lines than LightGBM writes, or with other counts; of a lone leaf it writes any."""
    by_sets = _SETS if whole(tree["num_cat"], where + "num_cat", 0) else ()
    splits, optional = (_SPLITS, ()) if n_leaves > 1 else ((), _SPLITS)
    check_fields(
        tree,
        where,
        ("num_leaves", "num_cat", "leaf_value", *splits, *by_sets),
        ("is_linear", "shrinkage", *optional, *_OF_LEAVES, *_OF_SPLITS),
    )
    for names, count in ((_OF_LEAVES, n_leaves), (_OF_SPLITS, n_leaves - 1), (("shrinkage",), 1)):
        for name in names:
            if name in tree:
                floats(tree[name], where + name, count if n_leaves > 1 else None)


def _splits(tree: _Tree, n_values: Mapping[int, int]) -> tuple[FloatArray, npt.NDArray[np.bool_], dict[int, Pieces]]:
    """Effective thresholds, directions of NaN, and the splits that are not a single threshold.

    `n_values` has the columns whose rows hold codes.
    """
    missing, by_set = tree.kind >> 2, tree.kind & _CATEGORICAL != 0
    default_left = (tree.kind & _DEFAULT_LEFT) != 0
    # A split of all numbers from NaN is written as inf; no number that treeproof lets in is above LARGEST.
    raw = np.where(np.isposinf(tree.threshold), LARGEST, tree.threshold)
    # Numbers around 0 are 0 before they are compared, so a threshold there acts at the edge of that zone.
    threshold = np.where((raw >= -ZERO) & (raw < 0), BELOW_ZERO, np.where((raw >= 0) & (raw < ZERO), ZERO, raw))
    if ROWS_ARE_CSR.get():
        threshold = raw
    # With no missing values in training, a NaN is read as 0. Among categories it goes right.
    nan_left = ~by_set & np.where(missing == _MISSING_NONE, threshold >= 0, default_left)
    coded = np.isin(tree.split, list(n_values))
    special: dict[int, Pieces] = {}
    for node in np.flatnonzero(by_set | coded | (missing == _MISSING_ZERO)).tolist():
        zeros_left = bool(default_left[node]) if missing[node] == _MISSING_ZERO else bool(threshold[node] >= 0)
        if coded[node]:
            codes = np.arange(n_values[int(tree.split[node])])
            if by_set[node]:
                sides = _members(tree.sets[int(raw[node])], len(codes))
            else:
                sides = np.where(codes == 0, zeros_left, codes <= threshold[node])
            # A value that training never saw is NaN to LightGBM.
            special[node] = Pieces.of_codes(np.append(sides, nan_left[node]))
        elif by_set[node]:
            special[node] = _category_pieces(tree.sets[int(raw[node])])
        else:
            special[node] = _zero_pieces(float(threshold[node]), zeros_left)
    return threshold, nan_left, special


def _members(lefts: npt.NDArray[np.bool_], n_codes: int) -> npt.NDArray[np.bool_]:
    """Which of the codes 0 to n_codes - 1 are in a set."""
    return np.pad(lefts[:n_codes], (0, max(0, n_codes - len(lefts))))


def _zero_pieces(threshold: float, default_left: bool) -> Pieces:
    """Left iff `x <= threshold`, except that zeros go in the default direction (zero_as_missing)."""
    if threshold < -ZERO:
        return Pieces.of([(threshold, True), (BELOW_ZERO, False), (ZERO, default_left)], last=False)
    return Pieces.of([(BELOW_ZERO, True), (ZERO, default_left), (threshold, True)], last=False)


def _category_sets(tree: Section, kind: npt.NDArray[np.int64], where: str) -> list[npt.NDArray[np.bool_]]:
    """Which codes each set of categories has; a code is a bit of its words."""
    count = whole(tree["num_cat"], where + "num_cat", 0)
    by_category = (kind & _CATEGORICAL != 0).any()
    # Without sets, LightGBM takes every split for one on numbers, whatever decision_type says.
    if by_category != (count > 0):
        raise InvalidInput(f"{where}num_cat is {count}, but {'some' if by_category else 'no'} splits are on categories")
    if not count:
        return []
    starts = wholes(tree["cat_boundaries"], where + "cat_boundaries", count + 1)
    words = wholes(tree["cat_threshold"], where + "cat_threshold")
    if starts[0] != 0 or starts[-1] != len(words) or (np.diff(starts) < 1).any():
        raise InvalidInput(f"{where}cat_boundaries must rise from 0 to the {len(words)} words of cat_threshold")
    if (words < 0).any() or (words >= 2**32).any():
        raise InvalidInput(f"{where}cat_threshold must hold 32-bit words")
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool)
    return [bits[32 * start : 32 * stop] for start, stop in itertools.pairwise(starts.tolist())]


def _category_pieces(lefts: npt.NDArray[np.bool_]) -> Pieces:
    """Left iff x, with its fraction cut off, is in the set; negative and unknown numbers go right."""
    # The fraction is cut off towards 0, so what lies between -1 and 0 is category 0.
    ends = next_down(np.arange(1.0, len(lefts) + 1))
    return Pieces.between(np.concatenate(([-1.0], ends)), np.concatenate(([False], lefts, [False])))
