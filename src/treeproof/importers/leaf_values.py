"""Writes other leaf scores into a copy of a library's own model.

Which leaf of the library is which leaf of the ensemble is found out by importing: a copy whose leaves hold their own
numbers shows where each of them comes from, whatever wrappers and steps are around the trees.
"""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers.registry import from_model
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray

MOST_LEAVES = 2**24
"""Numbers of leaves are written in float32 by some libraries."""
CLOSE = 1e-6
"""How far scores may be off, as a share of the largest, once a library has rounded them."""


class _Table(Protocol):
    """The leaf values of a library's model, (n_leaves, n_values)."""

    are_shares: bool
    """Whether the values of a leaf are probabilities."""

    def read(self) -> FloatArray: ...

    def write(self, values: FloatArray) -> None: ...


class _TreeTable:
    """Trees of scikit-learn: their values, (n_nodes, n_values), are memory of the trees themselves."""

    def __init__(self, trees: list[tuple[FloatArray, npt.NDArray[np.bool_]]], are_shares: bool = False) -> None:
        self.are_shares = are_shares
        self._trees = trees

    def read(self) -> FloatArray:
        return np.concatenate([values[is_leaf] for values, is_leaf in self._trees])

    def write(self, values: FloatArray) -> None:
        ends = np.cumsum([is_leaf.sum() for _, is_leaf in self._trees])[:-1]
        for (of_nodes, is_leaf), own in zip(self._trees, np.split(values, ends), strict=True):
            of_nodes[is_leaf] = own


def _of_tree(tree: Any) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    return tree.value[:, 0, :], tree.children_left == -1


class _XGBoostTable:
    """A Booster of XGBoost, by way of its JSON."""

    are_shares = False

    def __init__(self, booster: Any) -> None:
        self._booster = booster
        self._content = json.loads(bytes(booster.save_raw("json")))
        boosted = self._content["learner"]["gradient_booster"]
        self._trees = boosted.get("gbtree", boosted)["model"]["trees"]
        self._leaves = [np.flatnonzero(np.array(tree["left_children"]) == -1).tolist() for tree in self._trees]
        if any(int(tree["tree_param"].get("size_leaf_vector", "0")) > 1 for tree in self._trees):
            raise UnsupportedModel("leaves of XGBoost that hold several values are not written")

    def read(self) -> FloatArray:
        both = zip(self._trees, self._leaves, strict=True)
        return np.array([tree["split_conditions"][leaf] for tree, leaves in both for leaf in leaves])[:, None]

    def write(self, values: FloatArray) -> None:
        with np.errstate(over="ignore"):
            numbers = iter(values[:, 0].astype(np.float32).astype(np.float64).tolist())
        for tree, leaves in zip(self._trees, self._leaves, strict=True):
            for leaf in leaves:
                tree["split_conditions"][leaf] = tree["base_weights"][leaf] = next(numbers)
        self._booster.load_model(bytearray(json.dumps(self._content).encode()))


class _LightGBMTable:
    """A Booster of LightGBM."""

    are_shares = False

    def __init__(self, booster: Any) -> None:
        self._booster = booster
        trees = booster.dump_model()["tree_info"]
        self._places = [(tree["tree_index"], leaf) for tree in trees for leaf in range(tree["num_leaves"])]

    def read(self) -> FloatArray:
        return np.array([self._booster.get_leaf_output(*place) for place in self._places])[:, None]

    def write(self, values: FloatArray) -> None:
        for place, value in zip(self._places, values[:, 0].tolist(), strict=True):
            self._booster.set_leaf_output(*place, value)


class _CatBoostTable:
    """A model of CatBoost."""

    are_shares = False

    def __init__(self, model: Any) -> None:
        self._model = model
        self._n_leaves = int(np.sum(model.get_tree_leaf_counts()))
        # CatBoost does not change copies, but what it loads from a file.
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "model.cbm")
            model.save_model(file, format="cbm")
            model.load_model(file, format="cbm")

    def read(self) -> FloatArray:
        return np.asarray(self._model.get_leaf_values(), dtype=np.float64).reshape(self._n_leaves, -1)

    def write(self, values: FloatArray) -> None:
        self._model.set_leaf_values(values.reshape(-1))


def _tables(model: Any) -> Iterator[_Table]:
    """The tables of a model, and of those that it is made of; UnsupportedModel where nothing can be written."""
    library, name = type(model).__module__.partition(".")[0], type(model).__name__
    if library == "xgboost":
        yield _XGBoostTable(model.get_booster() if hasattr(model, "get_booster") else model)
    elif library == "lightgbm":
        yield _LightGBMTable(getattr(model, "booster_", model))
    elif library == "catboost":
        yield _CatBoostTable(model)
    elif library == "sklearn":
        yield from _sklearn_tables(model)
    else:
        raise UnsupportedModel(f"leaves of {name} are not written")


def _sklearn_tables(model: Any) -> Iterator[_Table]:
    name = type(model).__name__
    if name == "HistGradientBoostingClassifier":
        every = [predictor.nodes for stage in model._predictors for predictor in stage]
        yield _TreeTable([(nodes["value"][:, None], nodes["is_leaf"] != 0) for nodes in every])
    elif name == "GradientBoostingClassifier":
        yield _TreeTable([_of_tree(tree.tree_) for tree in model.estimators_.ravel()])
    elif name in ("DecisionTreeClassifier", "ExtraTreeClassifier"):
        yield _TreeTable([_of_tree(model.tree_)], are_shares=True)
    elif name in ("RandomForestClassifier", "ExtraTreesClassifier", "BaggingClassifier", "VotingClassifier"):
        for member in model.estimators_:
            yield from _tables(member)
    elif name == "Pipeline":
        yield from _tables(model.steps[-1][1])
    elif name == "FrozenEstimator":
        yield from _tables(model.estimator)
    elif name in ("FixedThresholdClassifier", "TunedThresholdClassifierCV"):
        yield from _tables(getattr(model, "estimator_", model.estimator))
    elif hasattr(model, "best_estimator_"):
        yield from _tables(model.best_estimator_)
    else:
        raise UnsupportedModel(f"leaves of {name} are not written")


@dataclass(frozen=True, eq=False)
class LeafWriter:
    """Makes copies of a library's model with other scores in its leaves."""

    model: Any
    ensemble: Ensemble
    place: npt.NDArray[np.int64]
    """For each leaf of the ensemble its place among those of all tables."""
    factor: FloatArray
    """(n_leaves, n_scores): scores are values times this; 0 where no value of the leaf gives that score."""
    are_shares: bool
    """Whether the values of a leaf must stay probabilities."""

    @classmethod
    def of(cls, model: Any, ensemble: Ensemble) -> LeafWriter:
        """What writes scores of the ensemble into the model; UnsupportedModel, with the reason, if nothing can."""
        with _as_unsupported():
            other = copy.deepcopy(model)
            tables = list(_tables(other))
            n = sum(len(table.read()) for table in tables)
            if n > MOST_LEAVES:
                raise UnsupportedModel(f"{n} leaves are too many to be told apart")
            _write(tables, np.ones(n))
            factor = _same_trees(from_model(other), ensemble).leaf_scores.astype(np.float64)
            _write(tables, np.arange(1.0, n + 1.0))
            scores = _same_trees(from_model(other), ensemble).leaf_scores.astype(np.float64)
        widest = np.arange(len(factor)), np.abs(factor).argmax(axis=1)
        if (factor[widest] == 0).any():
            raise UnsupportedModel("some leaves hold no score of their own")
        place = np.rint(scores[widest] / factor[widest]).astype(np.int64) - 1
        if len(np.unique(place)) != len(place) or place.min() < 0 or place.max() >= n:
            raise UnsupportedModel("several leaves share a value")
        return cls(model, ensemble, place, factor, any(table.are_shares for table in tables))

    def written(self, scores: FloatArray) -> Any:
        """A copy of the model with these scores (n_leaves, n_scores); UnsupportedModel if they do not arrive there."""
        with _as_unsupported():
            other = copy.deepcopy(self.model)
            tables = list(_tables(other))
            start = 0
            for table in tables:
                values = table.read()
                own = np.flatnonzero((self.place >= start) & (self.place < start + len(values)))
                values[self.place[own] - start] = self._values(scores[own], self.factor[own], values.shape[1])
                table.write(values)
                start += len(values)
            arrived = _same_trees(from_model(other), self.ensemble)
        off = float(np.abs(arrived.leaf_scores - scores).max())
        if arrived.rule != self.ensemble.rule or off > CLOSE * float(np.abs(scores).max()):
            raise UnsupportedModel("the library changes what is written into its leaves")
        return other

    def _values(self, scores: FloatArray, factor: FloatArray, width: int) -> FloatArray:
        """The values (n, width) of leaves with these scores."""
        values = np.divide(scores, factor, out=np.zeros_like(scores), where=factor != 0)
        if width == values.shape[1]:
            return values
        if width == 2 and values.shape[1] == 1 and self.are_shares:
            return np.hstack((1.0 - values, values))
        # One value, for one of several classes, or several, for those classes that a member knows.
        known = factor != 0
        if (known.sum(axis=1) != width).any():
            raise UnsupportedModel(f"leaves hold {width} values for {values.shape[1]} scores")
        return np.asarray(values[known].reshape(-1, width))


def _write(tables: list[_Table], numbers: FloatArray) -> None:
    """Writes one number per leaf, in place of all its values."""
    start = 0
    for table in tables:
        values = table.read()
        table.write(np.repeat(numbers[start : start + len(values), None], values.shape[1], axis=1))
        start += len(values)


def _same_trees(other: Ensemble, ensemble: Ensemble) -> Ensemble:
    """The first ensemble, if its tests are those of the second."""
    for name in ("feature", "threshold", "left", "nan_left", "more"):
        if not np.array_equal(getattr(other, name), getattr(ensemble, name)):
            raise UnsupportedModel("the library changes tests when leaves are written")
    return other


@contextlib.contextmanager
def _as_unsupported() -> Iterator[None]:
    """Whatever a library says about values that it does not expect, nothing can be written then."""
    try:
        yield
    except UnsupportedModel:
        raise
    except (InvalidInput, TypeError, ValueError, KeyError, AttributeError, RuntimeError, NotImplementedError) as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise UnsupportedModel(f"its leaves cannot be written ({words})") from None
    except Exception as error:  # libraries have errors of their own
        if type(error).__module__.partition(".")[0] not in ("xgboost", "lightgbm", "catboost", "_catboost"):
            raise
        raise UnsupportedModel(f"its leaves cannot be written ({type(error).__name__})") from None
