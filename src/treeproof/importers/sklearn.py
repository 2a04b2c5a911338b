"""scikit-learn: trees, forests, bagging, AdaBoost, gradient boosting, and pipelines of scalers before them.

Trees of scikit-learn cast rows to float32 and go left where `float32(x) <= threshold`; histogram gradient
boosting compares doubles. Scores are summed tree after tree, as with `n_jobs=1`: with more jobs, scikit-learn
itself adds them in an order that can change from run to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._exact_thresholds import float32_at_most_threshold
from treeproof.importers.registry import Voting, from_model
from treeproof.model.builder import EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import LARGEST, LARGEST_FLOAT32

Scores = npt.NDArray[np.float64]


def import_model(model: Any, *, voting: Voting | None) -> Ensemble:
    """The exact ensemble of a fitted scikit-learn classifier, search or pipeline."""
    from sklearn.exceptions import NotFittedError
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from treeproof.importers import pipeline

    if isinstance(model, FrozenEstimator):
        return from_model(model.estimator, voting=voting)
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise InvalidInput(f"this {type(model).__name__} is not fitted; call fit first") from None
    except TypeError as error:
        raise UnsupportedModel(f"{type(model).__name__} is not an estimator: {error}") from None
    if isinstance(model, BaseSearchCV):
        if not hasattr(model, "best_estimator_"):
            raise InvalidInput(f"this {type(model).__name__} kept no model; fit it with refit=True")
        return from_model(model.best_estimator_, voting=voting)
    if isinstance(model, Pipeline):
        return pipeline.import_pipeline(model, voting=voting)
    reader, can_vote = _reader_of(model)
    if np.ndim(model.classes_[0]) > 0:
        raise UnsupportedModel(
            f"{type(model).__name__} has {len(model.classes_)} outputs; treeproof takes one label per row"
        )
    if voting is not None and not can_vote:
        raise InvalidInput(f"voting={voting!r} is for forests and bagging, not for {type(model).__name__}")
    ensemble = reader(model, voting == "hard")
    return dataclasses.replace(ensemble, source=MajorityVote(model)) if voting == "hard" else ensemble


class MajorityVote:
    """Asks each tree of a forest or bagging for its label and counts votes; ties go to the lowest class."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label with the most votes for each row."""
        rows = np.asarray(X, dtype=np.float64)
        model = self.model
        if not hasattr(model, "estimators_"):
            return np.asarray(model.predict(rows))
        votes = np.zeros((len(rows), len(model.classes_)))
        every = [slice(None)] * len(model.estimators_)
        for tree, features in zip(model.estimators_, getattr(model, "estimators_features_", every), strict=True):
            # Members are trained on class numbers.
            votes[np.arange(len(rows)), tree.predict(rows[:, features]).astype(np.int64)] += 1
        return np.asarray(model.classes_[np.argmax(votes, axis=1)])


def _reader_of(model: Any) -> tuple[Callable[[Any, bool], Ensemble], bool]:
    """The function that reads this kind of model, and whether its trees vote."""
    from sklearn import ensemble, tree

    readers: list[tuple[type, Callable[[Any, bool], Ensemble], bool]] = [
        (tree.DecisionTreeClassifier, _import_tree, True),
        (ensemble.RandomForestClassifier, _import_forest, True),
        (ensemble.ExtraTreesClassifier, _import_forest, True),
        (ensemble.BaggingClassifier, _import_bagging, True),
        (ensemble.AdaBoostClassifier, _import_adaboost, False),
        (ensemble.GradientBoostingClassifier, _import_gradient_boosting, False),
        (ensemble.HistGradientBoostingClassifier, _import_hist_gradient_boosting, False),
    ]
    for kind, reader, can_vote in readers:
        if isinstance(model, kind):
            return reader, can_vote
    known = ", ".join(kind.__name__ for kind, _, _ in readers)
    raise UnsupportedModel(f"no importer for scikit-learn's {type(model).__name__}; known: {known}")


def _builder(model: Any, rule: ScoreRule, **options: Any) -> EnsembleBuilder:
    names = getattr(model, "feature_names_in_", None)
    settings: dict[str, Any] = {
        "n_features": int(model.n_features_in_),
        "classes": model.classes_,
        "feature_names": None if names is None else [str(name) for name in names],
        "value_limit": LARGEST_FLOAT32,
        "origin": f"scikit-learn {type(model).__name__}",
        "source": model,
    }
    return EnsembleBuilder(rule=rule, **(settings | options))


def _add_tree(
    builder: EnsembleBuilder, tree: Any, scores: Scores, features: npt.NDArray[np.integer] | None = None
) -> None:
    """Adds scikit-learn's `tree_`; `features` maps its columns to the model's if it saw only some."""
    inner = tree.children_left >= 0
    feature = np.where(inner, tree.feature, 0)
    if features is not None:
        feature = np.asarray(features)[feature]
    builder.add_tree(
        feature=np.where(inner, feature, -1),
        # A split of missing values from all others has threshold +inf: every number goes left.
        threshold=np.where(inner, float32_at_most_threshold(np.minimum(tree.threshold, LARGEST_FLOAT32)), 0.0),
        left=tree.children_left,
        right=tree.children_right,
        scores=scores,
        nan_left=np.asarray(tree.missing_go_to_left, dtype=bool),
    )


def _allows_nan(model: Any) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(model).input_tags.allow_nan)


def _leaf_scores(tree: Any, n_classes: int, hard: bool, columns: npt.NDArray[np.integer] | None = None) -> Scores:
    """The class probabilities of each node, or with `hard` one vote for the likeliest class."""
    values = tree.value[:, 0, :]
    if hard:
        votes = np.zeros_like(values)
        votes[np.arange(len(values)), np.argmax(values, axis=1)] = 1.0
        values = votes
    if columns is None:
        return np.asarray(values[:, :n_classes], dtype=np.float64)
    scores = np.zeros((len(values), n_classes))
    scores[:, columns] = values[:, : len(columns)]
    return scores


def _import_tree(model: Any, hard: bool) -> Ensemble:
    builder = _builder(model, ScoreRule(), handles_missing=_allows_nan(model))
    _add_tree(builder, model.tree_, _leaf_scores(model.tree_, len(model.classes_), hard))
    return builder.build()


def _import_forest(model: Any, hard: bool) -> Ensemble:
    rule = ScoreRule() if hard else ScoreRule(divisor=len(model.estimators_))
    builder = _builder(model, rule, handles_missing=_allows_nan(model))
    for estimator in model.estimators_:
        _add_tree(builder, estimator.tree_, _leaf_scores(estimator.tree_, len(model.classes_), hard))
    return builder.build()


def _import_bagging(model: Any, hard: bool) -> Ensemble:
    _check_members(model)
    # BaggingClassifier divides by the parameter n_estimators, not by the number of fitted trees.
    rule = ScoreRule() if hard else ScoreRule(divisor=model.n_estimators)
    builder = _builder(model, rule, handles_missing=all(_allows_nan(member) for member in model.estimators_))
    n_classes = len(model.classes_)
    for estimator, features in zip(model.estimators_, model.estimators_features_, strict=True):
        columns = None if len(estimator.classes_) == n_classes else np.asarray(estimator.classes_, dtype=np.int64)
        _add_tree(builder, estimator.tree_, _leaf_scores(estimator.tree_, n_classes, hard, columns), features)
    return builder.build()


def _import_adaboost(model: Any, _: bool) -> Ensemble:
    _check_members(model)
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModel("AdaBoost with algorithm='SAMME.R' sums logarithms; train with algorithm='SAMME'")
    n_classes = len(model.classes_)
    if n_classes < 2:
        raise UnsupportedModel("AdaBoost was trained on only one class; it always predicts that")
    total = float(np.sum(model.estimator_weights_))
    if total <= 0:
        raise UnsupportedModel(f"the weights of this AdaBoostClassifier add up to {total}, so its trees decide nothing")
    decision = Decision.CUT if n_classes == 2 else Decision.ARGMAX
    builder = _builder(model, ScoreRule(decision=decision, divisor=total), handles_missing=_allows_nan(model))
    for estimator, weight in zip(model.estimators_, model.estimator_weights_, strict=False):
        likeliest = np.argmax(estimator.tree_.value[:, 0, :], axis=1)
        label = np.searchsorted(model.classes_, estimator.classes_)[likeliest]
        scores = np.full((len(label), n_classes), -1 / (n_classes - 1) * weight)
        scores[np.arange(len(label)), label] = weight
        _add_tree(builder, estimator.tree_, scores[:, 1:] if n_classes == 2 else scores)
    return builder.build()


def _check_members(model: Any) -> None:
    from sklearn.tree import DecisionTreeClassifier

    for estimator in model.estimators_:
        if not isinstance(estimator, DecisionTreeClassifier):
            raise UnsupportedModel(
                f"{type(model).__name__} has a member of type {type(estimator).__name__}; all must be trees"
            )


def _import_gradient_boosting(model: Any, _: bool) -> Ensemble:
    from sklearn.dummy import DummyClassifier

    constant = type(model.init_) is DummyClassifier and model.init_.strategy != "stratified"
    if not (isinstance(model.init_, str) or constant):
        raise UnsupportedModel(
            f"GradientBoostingClassifier starts from init={model.init_}, whose scores vary from row to row; "
            "train with the default init or init='zero'"
        )
    base = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32)))[0]
    if len(base) == 1:
        # predict() chooses class 1 where `raw >= 0`, zero included.
        rule = ScoreRule(decision=Decision.CUT, cut=float(np.nextafter(0.0, -1.0)))
    else:
        rule = ScoreRule()
    builder = _builder(model, rule, base=base)
    for stage in model.estimators_:
        for k, estimator in enumerate(stage):
            scores = np.zeros((estimator.tree_.node_count, len(base)))
            scores[:, k] = model.learning_rate * estimator.tree_.value[:, 0, 0]
            _add_tree(builder, estimator.tree_, scores)
    return builder.build()


def _import_hist_gradient_boosting(model: Any, _: bool) -> Ensemble:
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        raise UnsupportedModel(
            "HistGradientBoostingClassifier with categorical_features re-encodes its input; "
            "encode the categories as numbers before training"
        )
    base = np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1)
    rule = ScoreRule(decision=Decision.CUT) if len(base) == 1 else ScoreRule()
    builder = _builder(model, rule, base=base, handles_missing=True, value_limit=LARGEST)
    for iteration in model._predictors:
        for k, predictor in enumerate(iteration):
            nodes = predictor.nodes
            inner = ~nodes["is_leaf"].astype(bool)
            scores = np.zeros((len(nodes), len(base)))
            scores[:, k] = nodes["value"]
            builder.add_tree(
                feature=np.where(inner, nodes["feature_idx"].astype(np.int64), -1),
                # Infinite for a split of missing values from all others, as above.
                threshold=np.where(inner, np.minimum(nodes["num_threshold"], LARGEST), 0.0),
                left=nodes["left"].astype(np.int64),
                right=nodes["right"].astype(np.int64),
                scores=scores,
                nan_left=nodes["missing_go_to_left"].astype(bool),
            )
    return builder.build()
