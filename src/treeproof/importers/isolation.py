"""scikit-learn's IsolationForest: label -1 where the paths through its trees are short, added up."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.importers._refusals import check_methods
from treeproof.importers._responses import Scores
from treeproof.importers.decisions import cut_by
from treeproof.importers.registry import Voting
from treeproof.importers.sklearn import add_tree, allows_nan, builder_of, check_columns, tree_of
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule


def import_isolation_forest(model: Any, *, voting: Voting | None) -> Ensemble:
    """The exact ensemble of a fitted IsolationForest: the score is the sum of path lengths."""
    from sklearn.tree import ExtraTreeRegressor

    if voting is not None:
        raise InvalidInput(f"voting={voting!r} is for forests and bagging, not for IsolationForest")
    parts = (model.estimators_, model.estimators_features_, model._decision_path_lengths,
             model._average_path_length_per_tree)  # fmt: skip
    if len({len(part) for part in parts}) != 1:
        raise InvalidInput(f"this IsolationForest has lists of {[len(part) for part in parts]} entries for its trees")
    if not isinstance(model.offset_, float) or not np.isfinite(model.offset_):
        raise InvalidInput(f"the offset_ of this IsolationForest is {model.offset_!r}; it must be a finite number")
    rule = ScoreRule(decision=Decision.CUT)
    builder = builder_of(model, rule, classes=np.array([-1, 1]), handles_missing=allows_nan(model))
    # scikit-learn looks at a tree's own columns only if it was trained on some of them.
    some = model._max_features != model.n_features_in_
    for member, features, depths, rest in zip(*parts, strict=True):
        if type(member) is not ExtraTreeRegressor:
            raise InvalidInput(f"this IsolationForest has a member of type {type(member).__name__}")
        check_methods(member)
        if some:
            check_columns(features, model.n_features_in_)
        tree = tree_of(member, len(features) if some else model.n_features_in_, 1)
        for lengths in (depths, rest):
            if type(lengths) is not np.ndarray or lengths.shape != (tree.node_count,) or lengths.dtype.kind not in "if":
                raise InvalidInput("the path lengths of an isolation tree are not one number per node")
        add_tree(builder, tree, depths + rest - 1.0, features if some else None)
    ensemble = cut_by(builder.build(), _is_inlier(model), "IsolationForest")
    return dataclasses.replace(
        ensemble, decided=(0, f"where its anomaly score is above {-float(model.offset_)!r}"), source=model
    )


def _is_inlier(model: Any) -> Any:
    """For sums of path lengths, whether the label is 1: the operations of scikit-learn's decision function."""
    from sklearn.ensemble._iforest import _average_path_length

    denominator = len(model.estimators_) * _average_path_length([model._max_samples])

    def is_inlier(sums: Scores) -> npt.NDArray[np.bool_]:
        shares = np.divide(sums, denominator, out=np.ones_like(sums), where=denominator != 0)
        return np.asarray(~(-(2**-shares) - model.offset_ < 0))

    return is_inlier
