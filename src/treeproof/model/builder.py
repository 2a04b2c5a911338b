"""The one place where trees are checked and packed into an Ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.columns import Category, Column, check_names_differ, is_missing, renamed
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST

LEAF = -1
_KINDS = ((str, "text"), ((bool, np.bool_), "truth"), ((int, float, np.integer, np.floating), "number"))
MAX_FEATURES = 2**24


class EnsembleBuilder:
    """Collects trees, refuses malformed ones, and builds the frozen Ensemble.

    >>> builder = EnsembleBuilder(n_features=1, classes=["no", "yes"])
    >>> builder.add_tree(
    ...     feature=[0, LEAF, LEAF], threshold=[2.5, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
    ...     scores=[[0, 0], [1, 0], [0, 1]])
    >>> builder.build().predict([[2.5], [2.6]]).tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        *,
        classes: npt.ArrayLike,
        rule: ScoreRule | None = None,
        base: npt.ArrayLike | None = None,
        columns: Sequence[Column] | None = None,
        n_features: int = 0,
        feature_names: Sequence[str] | None = None,
        handles_missing: bool = False,
        value_limit: float = LARGEST,
        no_missing: Sequence[int] = (),
        categories: Mapping[int, Category] | None = None,
        takes_frames: bool = False,
        takes_arrays: bool = True,
        origin: str = "treeproof",
        source: Any = None,
    ) -> None:
        """One parameter per property of a model; `columns`, or what is said of them from `n_features` on."""
        self._rule = rule or ScoreRule()
        labels = as_classes(classes)
        self.n_scores = 1 if self._rule.decision == Decision.CUT else len(labels)
        if self._rule.decision == Decision.CUT and len(labels) != 2:
            raise InvalidInput(f"one score decides between 2 classes, but the model names {len(labels)}")
        if columns is not None:
            n_features = len(columns)
        if isinstance(n_features, bool) or not isinstance(n_features, (int, np.integer)) or n_features < 1:
            raise InvalidInput(f"n_features must be a whole number of at least 1, got {n_features!r}")
        if n_features > MAX_FEATURES:
            raise InvalidInput(f"the model has {n_features} features; at most {MAX_FEATURES} are supported")
        self._n_features = int(n_features)
        for name in ("divisor", "cut", "steepness"):
            number = getattr(self._rule, name)
            if not np.isfinite(number) or (name != "cut" and number <= 0):
                positive = "" if name == "cut" else " and above 0"
                raise InvalidInput(f"the score rule's {name} is {number}; it must be finite{positive}")
        self._dtype = np.dtype(self._rule.precision)
        self._base = self._check_base(base)
        if columns is None:
            limit = float(value_limit)
            every = [Column(None, 0.0 - limit, limit, bool(handles_missing))] * self._n_features
            for f in self._check_features(no_missing, "must not be missing"):
                every[f] = replace(every[f], missing=False)
            for f in self._check_features(list(categories or {}), "is a category"):
                every[f] = replace(every[f], category=(categories or {})[f])
            columns = every if feature_names is None else renamed(every, _check_names(feature_names, self._n_features))
        self._about: dict[str, Any] = {
            "rule": self._rule,
            "classes": labels,
            "base": self._base,
            "columns": _check_columns(columns),
            "takes_frames": bool(takes_frames),
            "takes_arrays": bool(takes_arrays),
            "origin": origin,
            "source": source,
        }
        self._trees: list[dict[str, npt.NDArray[Any]]] = []
        self._more: list[dict[int, tuple[float, ...]]] = []

    def add_tree(
        self,
        *,
        feature: npt.ArrayLike,
        threshold: npt.ArrayLike,
        left: npt.ArrayLike,
        right: npt.ArrayLike,
        scores: npt.ArrayLike,
        nan_left: npt.ArrayLike | None = None,
        pieces: Mapping[int, Pieces] | None = None,
        score: int | None = None,
    ) -> None:
        """Adds the tree whose root is node 0; a node with a negative feature is a leaf.

        `threshold` holds effective thresholds (left iff `x <= threshold`). `scores` has one row per node,
        (n_nodes, n_scores), or one number per node, for the one score that it adds to; rows of inner nodes are ignored.
        Nodes whose test is more than a threshold have `pieces` instead.
        """
        number = len(self._trees)
        tree = {
            "feature": _as_numbers(feature, np.int64, f"tree {number}: feature"),
            "threshold": _as_numbers(threshold, np.float64, f"tree {number}: threshold"),
            "left": _as_numbers(left, np.int64, f"tree {number}: left"),
            "right": _as_numbers(right, np.int64, f"tree {number}: right"),
        }
        n = len(tree["feature"])
        tree["nan_left"] = np.zeros(n, dtype=bool) if nan_left is None else np.array(nan_left, dtype=bool)
        values = _as_numbers(scores, np.float64, f"tree {number}: scores", ndim=None)
        if score not in (None, *range(self.n_scores)):
            raise InvalidInput(f"tree {number}: score {score!r} is none of 0 to {self.n_scores - 1}")
        if values.ndim == 1 and (score is not None or self.n_scores == 1):
            values = np.where(np.arange(self.n_scores) == (score or 0), values[:, None], 0.0)
        tree["scores"] = values
        _check_lengths(tree, n, number)
        tree["threshold"][list(pieces or {})] = 0.0  # whatever stands there, pieces take its place
        self._check_nodes(tree, number)
        more = _settle_pieces(tree, pieces or {}, number)
        order = _breadth_first(tree, number)
        self._trees.append(_renumbered(tree, order))
        self._more.append({place: more[node] for place, node in enumerate(order.tolist()) if node in more})

    def build(self) -> Ensemble:
        """The ensemble of all trees added so far."""
        if not self._trees:
            raise InvalidInput("the model has no trees; train it with at least one")
        self._check_members()
        sizes = [len(tree["feature"]) for tree in self._trees]
        roots = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        if sum(sizes) > np.iinfo(np.int32).max:
            raise InvalidInput(f"the model has {sum(sizes)} nodes; at most {np.iinfo(np.int32).max} are supported")
        feature = np.concatenate([tree["feature"] for tree in self._trees])
        inner = feature >= 0
        left = np.where(inner, np.concatenate([tree["left"] for tree in self._trees]) + np.repeat(roots, sizes), LEAF)
        scores = np.concatenate([tree["scores"] for tree in self._trees])[~inner]
        # + 0.0 turns -0.0 into 0.0: they compare equal, and one spelling gives one cell.
        threshold = np.where(inner, np.concatenate([tree["threshold"] for tree in self._trees]), 0.0) + 0.0
        cuts = {
            int(root) + node: own for root, more in zip(roots, self._more, strict=True) for node, own in more.items()
        }
        n_more = np.zeros(len(feature) + 1, dtype=np.int64)
        n_more[[node + 1 for node in cuts]] = [len(own) for own in cuts.values()]
        return Ensemble(
            feature=feature,
            threshold=threshold,
            left=left,
            nan_left=np.concatenate([tree["nan_left"] for tree in self._trees]) & inner,
            more_start=np.cumsum(n_more),
            more=np.array([cut for own in cuts.values() for cut in own]) + 0.0,
            roots=roots,
            leaf_scores=scores,
            **self._about,
        )

    def _check_members(self) -> None:
        """Refuses members that are not the trees, one after the other, or that no library adds up."""
        members = self._rule.members
        counts = [member.n_trees for member in members]
        numbers = np.array([[member.divisor, member.weight] for member in members]).reshape(-1, 2)
        if members and (sum(counts) != len(self._trees) or min(counts) < 1):
            raise InvalidInput(f"the members have {counts} trees; the model has {len(self._trees)}")
        if not (np.isfinite(numbers).all() and (numbers[:, 0] > 0).all() and (numbers[:, 1] >= 0).all()):
            raise InvalidInput(f"the members' divisors and weights must be finite and not below 0: {numbers.tolist()}")
        plain = self._rule.precision == "float64" and not self._base.any()
        if members and not (plain and self._rule.decision in (Decision.ARGMAX, Decision.CUT)):
            raise InvalidInput("members add up probabilities in float64, without a base, for argmax or a cut")

    def _check_features(self, given: Sequence[Any], what: str) -> list[int]:
        for f in given:
            if isinstance(f, bool) or not isinstance(f, (int, np.integer)) or not 0 <= f < self._n_features:
                raise InvalidInput(f"feature {f!r} {what}, but the model has features 0 to {self._n_features - 1}")
        return sorted({int(f) for f in given})

    def _check_base(self, base: npt.ArrayLike | None) -> npt.NDArray[np.float64]:
        values = np.zeros(self.n_scores) if base is None else _as_numbers(base, np.float64, "base scores", ndim=None)
        values = values.reshape(-1)
        if len(values) != self.n_scores:
            raise InvalidInput(f"the model has {len(values)} base scores, expected {self.n_scores}")
        self._check_scores(values, "base scores")
        return values

    def _check_scores(self, values: npt.NDArray[np.float64], where: str) -> None:
        if not np.isfinite(values).all():
            raise InvalidInput(f"{where}: {values[~np.isfinite(values)][0]} is not a finite number")
        with np.errstate(over="ignore"):
            exact = values.astype(self._dtype).astype(np.float64) == values
        if not exact.all():
            raise InvalidInput(f"{where}: {values[~exact][0]!r} is not a {self._dtype} number")

    def _check_nodes(self, tree: dict[str, npt.NDArray[Any]], number: int) -> None:
        feature, threshold, scores = tree["feature"], tree["threshold"], tree["scores"]
        inner = feature >= 0
        if scores.shape[1] != self.n_scores:
            raise InvalidInput(f"tree {number}: leaves have {scores.shape[1]} scores, expected {self.n_scores}")
        for node in np.flatnonzero(feature >= self._n_features)[:1].tolist():
            raise InvalidInput(
                f"tree {number}, node {node}: feature {feature[node]} is out of range; "
                f"the model has features 0 to {self._n_features - 1}"
            )
        for node in np.flatnonzero(inner & ~np.isfinite(threshold))[:1].tolist():
            raise InvalidInput(f"tree {number}, node {node}: threshold {threshold[node]} is not a finite number")
        self._check_scores(scores[~inner].reshape(-1), f"tree {number}: leaf scores")
        n = len(feature)
        for side in ("left", "right"):
            for node in np.flatnonzero(inner & ((tree[side] < 1) | (tree[side] >= n)))[:1].tolist():
                raise InvalidInput(
                    f"tree {number}, node {node}: {side} child {tree[side][node]} is out of range; "
                    f"children are nodes 1 to {n - 1}"
                )


def check_text(text: Any, what: str) -> None:
    """Refuses text that cannot be kept or written as it is: a NUL, which arrays drop, and half a character."""
    if not isinstance(text, str):
        return
    try:
        whole = b"\0" not in text.encode("utf-8")
    except UnicodeEncodeError:
        whole = False
    if not whole:
        raise InvalidInput(f"{what} has a character that is not text: {text!r}")


def as_classes(classes: npt.ArrayLike) -> npt.NDArray[Any]:
    """The labels of a model as an array: all text, all numbers or all truth values, so that no two can look alike."""
    labels = list(classes) if isinstance(classes, (list, tuple)) else np.asarray(classes).reshape(-1).tolist()
    for label in labels:
        check_text(label, "a class label")
    kinds = {next((name for kind, name in _KINDS if isinstance(label, kind)), "") for label in labels}
    if len(kinds) > 1:
        raise InvalidInput(f"class labels must be all numbers, all text, or all true or false, got {labels!r}")
    values = np.array(classes)
    if values.ndim != 1 or len(values) < 1:
        raise InvalidInput(f"classes must be a list of labels, got shape {values.shape}")
    if values.dtype == object and all(isinstance(label, str) for label in values.tolist()):
        values = values.astype(str)
    if values.dtype.kind not in "biufUO":
        raise InvalidInput(f"class labels must be numbers or strings, got dtype {values.dtype}")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidInput(f"class labels must be finite, got {values.tolist()}")
    if any(is_missing(label) for label in labels):
        raise InvalidInput(f"class labels must not be missing, got {labels!r}")
    if values.tolist() != labels:
        raise InvalidInput(f"no type holds all class labels exactly: {labels!r}")
    if len(set(values.tolist())) != len(values):
        raise InvalidInput(f"class labels must be distinct, got {values.tolist()}")
    return values


def _check_names(names: Sequence[str], n_features: int) -> list[str]:
    if len(names) != n_features:
        raise InvalidInput(f"the model names {len(names)} features but takes {n_features}")
    return [str(name) for name in names]


def _check_columns(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns, of which the ranges of coded categories are their codes; refuses what is none."""
    names = [column.name for column in columns if column.name is not None]
    for name in names:
        check_text(name, "a feature name")
    if names and len(names) < len(columns):
        raise InvalidInput(f"the model names {len(names)} features but takes {len(columns)}")
    check_names_differ(names)
    checked: dict[int, Column] = {}  # those that are one object are checked once
    for f, column in enumerate(columns):
        if id(column) not in checked:
            checked[id(column)] = _check_column(f, column)
    return tuple(checked[id(column)] for column in columns)


def _check_column(f: int, column: Column) -> Column:
    category = column.category
    if category is not None:
        if len(set(category.values)) != len(category.values):
            raise InvalidInput(f"feature {f} has a value twice: {category.values!r}")
        for value in category.values:
            check_text(value, f"a value of feature {f}")
        if category.coded:
            return replace(column, low=0.0, high=float(category.n_codes - 1))
    if not -np.inf < column.low < column.high < np.inf:
        raise InvalidInput(f"feature {f} takes no values: its range is {column.low} to {column.high}")
    return column


def _as_numbers(values: npt.ArrayLike, dtype: type, where: str, ndim: int | None = 1) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"holds {array.dtype}, not numbers")
        with np.errstate(invalid="ignore"):
            result: npt.NDArray[Any] = array.astype(dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{where}: {error}") from None
    if np.issubdtype(dtype, np.integer) and not (result == array).all():
        raise InvalidInput(f"{where}: {array[result != array][0]} is not a whole number in range")
    if ndim is not None and array.ndim != ndim:
        raise InvalidInput(f"{where} must be a list of numbers, got shape {array.shape}")
    return result


def _check_lengths(tree: dict[str, npt.NDArray[Any]], n: int, number: int) -> None:
    if n == 0:
        raise InvalidInput(f"tree {number} has no nodes")
    for name, values in tree.items():
        if len(values) != n:
            raise InvalidInput(f"tree {number}: {name} has {len(values)} entries, feature has {n}; give one per node")
    if tree["scores"].ndim != 2:
        raise InvalidInput(f"tree {number}: scores must be (n_nodes, n_scores), got shape {tree['scores'].shape}")


def _settle_pieces(
    tree: dict[str, npt.NDArray[Any]], pieces: Mapping[int, Pieces], number: int
) -> dict[int, tuple[float, ...]]:
    """Puts the first cut of every test in pieces into the tree, whose lowest doubles go left; returns further cuts."""
    more = {}
    for node, test in pieces.items():
        if not all(low < high < np.inf for low, high in pairwise((-np.inf, *test.cuts))):
            raise InvalidInput(
                f"tree {number}, node {node}: the cuts {test.cuts} are not finite numbers in rising order"
            )
        if not test.lefts[0]:
            tree["left"][node], tree["right"][node] = tree["right"][node], tree["left"][node]
            tree["nan_left"][node] = not tree["nan_left"][node]
        tree["threshold"][node] = test.cuts[0] if test.cuts else LARGEST
        if len(test.cuts) > 1:
            more[node] = test.cuts[1:]
    return more


def _breadth_first(tree: dict[str, npt.NDArray[Any]], number: int) -> npt.NDArray[np.int64]:
    """Node numbers level by level, siblings side by side; refuses anything but one tree rooted at node 0."""
    inner = tree["feature"] >= 0
    parents = np.bincount(np.concatenate((tree["left"][inner], tree["right"][inner])), minlength=len(tree["feature"]))
    for node in np.flatnonzero(parents > 1)[:1].tolist():
        raise InvalidInput(f"tree {number}, node {node} has two parents; in a tree it has one")
    for node in np.flatnonzero(parents[1:] == 0)[:1].tolist():
        raise InvalidInput(f"tree {number}, node {node + 1} is an orphan: no node leads to it")
    levels = [np.zeros(1, dtype=np.int64)]
    while len(levels[-1]):
        split = levels[-1][inner[levels[-1]]]
        levels.append(np.column_stack((tree["left"][split], tree["right"][split])).reshape(-1))
    order = np.concatenate(levels)
    if len(order) != len(parents):
        lost = np.setdiff1d(np.arange(len(parents)), order)
        raise InvalidInput(f"tree {number}, node {int(lost[0])} is part of a cycle that the root does not reach")
    return order


def _renumbered(tree: dict[str, npt.NDArray[Any]], order: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    moved = {name: values[order] for name, values in tree.items()}
    inner = moved["feature"] >= 0
    moved["feature"] = np.where(inner, moved["feature"], LEAF)
    moved["left"] = np.where(inner, position[np.where(inner, moved["left"], 0)], LEAF)
    return moved


def blank_ensemble(n_features: int, classes: Any, feature_names: Any, **more: Any) -> Ensemble:
    """A model with these features that always predicts the first class: something to bind an attacker to.

    `more` is what else EnsembleBuilder takes.
    """
    builder = EnsembleBuilder(n_features=n_features, classes=classes, feature_names=feature_names, **more)
    votes = np.eye(len(classes))[:1]
    builder.add_tree(feature=[LEAF], threshold=[0.0], left=[LEAF], right=[LEAF], scores=votes)
    return builder.build()
