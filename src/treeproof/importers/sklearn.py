"""scikit-learn: trees, forests, bagging, AdaBoost, gradient boosting, and pipelines of scalers before them.

Trees of scikit-learn cast rows to float32 and go left where `float32(x) <= threshold`; histogram gradient
boosting compares doubles. Scores are summed tree after tree, as with `n_jobs=1`: with more jobs, scikit-learn
itself adds them in an order that can change from run to run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._exact_thresholds import float32_at_most_threshold
from treeproof.importers._histogram_trees import encoding_of, histogram_tree
from treeproof.importers._refusals import check_methods, feature_names_of
from treeproof.importers._responses import ADDITIVE, Responses, same
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
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.model_selection._search import BaseSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from treeproof.importers import decisions, pipelines

    check_methods(model)
    if isinstance(model, FrozenEstimator):
        return from_model(model.estimator, voting=voting)
    if isinstance(model, FixedThresholdClassifier):
        # It predicts with the model inside if that is fitted, whether it is fitted itself or not.
        return decisions.import_fixed(model, voting=voting)
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
        return pipelines.import_pipeline(model, voting=voting)
    wrapped = _reader_of_wrapper(model)
    if wrapped is not None:
        return wrapped(model, voting=voting)
    reader, can_vote = _reader_of(model)
    _check_classes(model)
    if reader is not _import_hist_gradient_boosting:
        _check_numbers_only(model)
    if voting is not None and not can_vote:
        raise InvalidInput(f"voting={voting!r} is for forests and bagging, not for {type(model).__name__}")
    ensemble = reader(model, voting == "hard")
    if voting == "hard":
        return dataclasses.replace(ensemble, source=MajorityVote(model))
    return dataclasses.replace(ensemble, responses=ADDITIVE if can_vote else _responses_of(model, ensemble))


def _reader_of_wrapper(model: Any) -> Callable[..., Ensemble] | None:
    """The function that reads models made of other models, and those that are no classifiers."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import IsolationForest, VotingClassifier
    from sklearn.model_selection import TunedThresholdClassifierCV
    from sklearn.multiclass import OneVsRestClassifier

    from treeproof.importers import decisions, isolation, votes

    readers: list[tuple[type, Callable[..., Ensemble]]] = [
        (TunedThresholdClassifierCV, decisions.import_tuned),
        (CalibratedClassifierCV, decisions.import_calibrated),
        (VotingClassifier, votes.import_voting),
        (OneVsRestClassifier, votes.import_one_against_rest),
        (IsolationForest, isolation.import_isolation_forest),
    ]
    return next((reader for kind, reader in readers if isinstance(model, kind)), None)


def _responses_of(model: Any, ensemble: Ensemble) -> Responses | None:
    """How scikit-learn makes probabilities of the score of a boosted model of two classes."""
    from sklearn.ensemble import AdaBoostClassifier

    if ensemble.rule.decision == Decision.ARGMAX:
        return None
    if isinstance(model, AdaBoostClassifier):
        return Responses(_adaboost_probabilities, _doubled)
    return Responses(partial(_loss_probabilities, model._loss), same)


def _doubled(scores: Scores) -> Scores:
    # AdaBoost adds the scores of both classes, of which one is the other with another sign.
    return scores + scores


def _adaboost_probabilities(scores: Scores) -> Scores:
    from sklearn.ensemble import AdaBoostClassifier

    return np.asarray(AdaBoostClassifier._compute_proba_from_decision(_doubled(scores), 2))


def _loss_probabilities(loss: Any, scores: Scores) -> Scores:
    return np.asarray(loss.predict_proba(scores))


def _check_classes(model: Any) -> None:
    """Refuses several outputs, and numbers of classes that do not agree: scikit-learn works with each of them."""
    name, classes = type(model).__name__, model.classes_
    if len(classes) and np.ndim(classes[0]) > 0:
        raise UnsupportedModel(f"{name} has {len(classes)} outputs; treeproof takes one label per row")
    if type(classes) is not np.ndarray or classes.ndim != 1:
        raise InvalidInput(f"the classes_ of this {name} are not an array of labels")
    for field, expected in (("n_classes_", len(classes)), ("n_outputs_", 1)):
        stated = getattr(model, field, None if name.endswith(_COUNTED[field]) else expected)
        if not _is_whole(stated) or stated != expected:
            raise InvalidInput(f"this {name} has {field} {stated}; its classes_ say {expected}")


def _check_numbers_only(model: Any) -> None:
    """Refuses trees that test sets of categories, as those of scikit-learn 1.10 can: a threshold does not say that."""
    marks = getattr(model, "is_categorical_", getattr(model, "categorical_features", None))
    if getattr(model, "_categorical_encoder", None) is not None or (marks is not None and np.size(marks)):
        raise UnsupportedModel(
            f"{type(model).__name__} with categorical_features tests sets of categories, which is not supported; "
            "train a HistGradientBoostingClassifier, or put an encoder before the trees"
        )


# The classes that count their classes and outputs; the others have no such field.
_COUNTED = {
    "n_classes_": ("TreeClassifier", "ForestClassifier", "TreesClassifier", "BaggingClassifier", "AdaBoostClassifier"),
    "n_outputs_": ("TreeClassifier", "ForestClassifier", "TreesClassifier"),
}


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


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
        every = np.arange(len(rows))
        votes = np.zeros((len(rows), len(model.classes_)))
        # Members are trained on class numbers. Those of bagging may see some features only.
        features = getattr(model, "estimators_features_", None)
        if features is not None:
            for tree, own in zip(model.estimators_, features, strict=True):
                votes[every, tree.predict(rows[:, own]).astype(np.int64)] += 1
        else:
            # What one tree of a forest has checked need not be checked by the others: that takes longer than the trees.
            model.estimators_[0].predict(rows)
            narrow = rows.astype(np.float32)
            for tree in model.estimators_:
                votes[every, tree.predict(narrow, check_input=False).astype(np.int64)] += 1
        return np.asarray(model.classes_[np.argmax(votes, axis=1)])


def _reader_of(model: Any) -> tuple[Callable[[Any, bool], Ensemble], bool]:
    """The function that reads this kind of model, and whether its trees vote."""
    from sklearn import ensemble, tree

    readers: list[tuple[type, Callable[[Any, bool], Ensemble], bool]] = [
        (tree.DecisionTreeClassifier, _import_votes, True),
        (ensemble.RandomForestClassifier, _import_votes, True),
        (ensemble.ExtraTreesClassifier, _import_votes, True),
        (ensemble.BaggingClassifier, _import_votes, True),
        (ensemble.AdaBoostClassifier, _import_adaboost, False),
        (ensemble.GradientBoostingClassifier, _import_gradient_boosting, False),
        (ensemble.HistGradientBoostingClassifier, _import_hist_gradient_boosting, False),
    ]
    for kind, reader, can_vote in readers:
        if isinstance(model, kind):
            return reader, can_vote
    known = ", ".join(kind.__name__ for kind, _, _ in readers)
    raise UnsupportedModel(f"no importer for scikit-learn's {type(model).__name__}; known: {known}")


def builder_of(model: Any, rule: ScoreRule, **options: Any) -> EnsembleBuilder:
    """A builder with what scikit-learn's models say about themselves."""
    settings: dict[str, Any] = {
        "n_features": int(model.n_features_in_),
        "classes": getattr(model, "classes_", None),
        "feature_names": feature_names_of(model),
        "value_limit": LARGEST_FLOAT32,
        "origin": f"scikit-learn {type(model).__name__}",
        "source": model,
    }
    return EnsembleBuilder(rule=rule, **(settings | options))


def add_tree(
    builder: EnsembleBuilder,
    tree: Any,
    scores: Scores,
    features: npt.NDArray[np.integer] | None = None,
    score: int | None = None,
) -> None:
    """Adds scikit-learn's `tree_`; `features` maps its columns to the model's if it saw only some."""
    # scikit-learn goes on from every node whose left child is not -1, whatever its other fields say.
    inner = tree.children_left != -1
    feature = np.where(inner, tree.feature, 0)
    if (feature < 0).any():
        raise InvalidInput(f"a node of a tree tests feature {feature.min()}")
    if features is not None:
        feature = features[feature]
    builder.add_tree(
        feature=np.where(inner, feature, -1),
        # A split of missing values from all others has threshold +inf: every number goes left.
        threshold=np.where(inner, float32_at_most_threshold(np.minimum(tree.threshold, LARGEST_FLOAT32)), 0.0),
        left=tree.children_left,
        right=tree.children_right,
        scores=scores,
        nan_left=np.asarray(tree.missing_go_to_left, dtype=bool),
        score=score,
    )


def tree_of(member: Any, n_features: int, n_values: int) -> Any:
    """The `tree_` of a tree model, once its arrays are known to be as long as it says."""
    from sklearn.tree._tree import Tree

    _check_numbers_only(member)
    tree, name = member.tree_, type(member).__name__
    if type(tree) is not Tree:
        raise InvalidInput(f"the tree_ of a {name} is a {type(tree).__name__}")
    # Reading the arrays of a tree that claims more nodes than it has would read outside them.
    if not 0 < tree.node_count <= tree.capacity:
        raise InvalidInput(f"a {name} claims {tree.node_count} nodes and holds {tree.capacity}")
    if tree.value.shape[1:] != (1, n_values):
        raise InvalidInput(f"a {name} has values of shape {tree.value.shape[1:]}, expected {(1, n_values)}")
    if not _is_whole(member.n_features_in_) or member.n_features_in_ != n_features:
        raise InvalidInput(f"a {name} takes {member.n_features_in_} features where {n_features} are given")
    inner = tree.children_left != -1
    if (tree.feature[inner] >= n_features).any():
        raise InvalidInput(f"a {name} tests feature {tree.feature[inner].max()}; it is given {n_features}")
    return tree


def _members(model: Any) -> list[Any]:
    """The trees of a forest, bagging or AdaBoost, each known to predict as scikit-learn's own trees do."""
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

    for member in model.estimators_:
        if type(member) not in (DecisionTreeClassifier, ExtraTreeClassifier):
            raise UnsupportedModel(
                f"{type(model).__name__} has a member of type {type(member).__name__}; all must be trees"
            )
        check_methods(member)
        _check_classes(member)
    return list(model.estimators_)


def _check_numbered(member: Any, n_classes: int) -> None:
    """Forests and bagging train their members on class numbers and add up probabilities by position."""
    classes = member.classes_
    if (
        classes.dtype.kind not in "iuf"
        or not np.isin(classes, np.arange(n_classes)).all()
        or (np.diff(classes) <= 0).any()
    ):
        raise InvalidInput(f"a member has classes_ {classes.tolist()}, which do not number the {n_classes} classes")


def allows_nan(model: Any) -> bool:
    """Whether scikit-learn says that the model accepts missing values."""
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


def _import_votes(model: Any, hard: bool) -> Ensemble:
    """A tree, or the members of a forest or of bagging, whose probabilities are averaged."""
    is_tree, n_classes = not hasattr(model, "estimators_"), len(model.classes_)
    members = [model] if is_tree else _members(model)
    # BaggingClassifier asks the first n_estimators members and divides by that number.
    own_features = getattr(model, "estimators_features_", None)
    if own_features is not None and (not _is_whole(model.n_estimators) or model.n_estimators != len(members)):
        raise InvalidInput(
            f"this BaggingClassifier has n_estimators={model.n_estimators} and {len(members)} trees; fit it again"
        )
    rule = ScoreRule() if hard or is_tree else ScoreRule(divisor=float(len(members)))
    asked = members[:1] if own_features is None else members  # those of a forest are all of one kind
    builder = builder_of(model, rule, handles_missing=all(allows_nan(member) for member in asked))
    for member, features in zip(members, own_features or [None] * len(members), strict=True):
        if not is_tree:
            _check_numbered(member, n_classes)
        columns, n_values = None, n_classes
        if features is not None:
            check_columns(features, model.n_features_in_)
            n_values = len(member.classes_)
            columns = None if n_values == n_classes else np.asarray(member.classes_, dtype=np.int64)
        tree = tree_of(member, model.n_features_in_ if features is None else len(features), n_values)
        add_tree(builder, tree, _leaf_scores(tree, n_classes, hard, columns), features)
    return builder.build()


def check_columns(features: Any, n_features: int) -> None:
    """Refuses what does not number the columns that a member was trained on."""
    # A mask or a negative number would also select columns, others than it seems.
    plain = type(features) is np.ndarray and features.ndim == 1 and features.dtype.kind in "iu"
    if not plain or ((features < 0) | (features >= n_features)).any():
        raise InvalidInput(f"the features of a member are not column numbers from 0 to {n_features - 1}")


def _import_adaboost(model: Any, _: bool) -> Ensemble:
    members = _members(model)
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModel("AdaBoost with algorithm='SAMME.R' sums logarithms; train with algorithm='SAMME'")
    n_classes = len(model.classes_)
    if n_classes < 2:
        raise UnsupportedModel("AdaBoost was trained on only one class; it always predicts that")
    weights = _doubles(model.estimator_weights_, (len(model.estimator_weights_),), "estimator_weights_")
    total = float(np.sum(weights))
    if not total > 0:
        raise UnsupportedModel(f"the weights of this AdaBoostClassifier add up to {total}, so its trees decide nothing")
    decision = Decision.CUT if n_classes == 2 else Decision.ARGMAX
    builder = builder_of(model, ScoreRule(decision=decision, divisor=total))
    for member, weight in zip(members, weights, strict=False):
        tree = tree_of(member, model.n_features_in_, len(member.classes_))
        label = _positions_of(member.classes_, model.classes_)[np.argmax(tree.value[:, 0, :], axis=1)]
        scores = np.full((len(label), n_classes), -1 / (n_classes - 1) * weight)
        scores[np.arange(len(label)), label] = weight
        add_tree(builder, tree, scores[:, 1:] if n_classes == 2 else scores)
    return builder.build()


def _positions_of(some: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Where each of a member's classes stands among the model's."""
    place = {label: k for k, label in enumerate(classes.tolist())}
    if some.dtype.kind != classes.dtype.kind or not place.keys() >= set(some.tolist()):
        raise InvalidInput(f"a member predicts {some.tolist()}, the model {classes.tolist()}")
    return np.array([place[label] for label in some.tolist()], dtype=np.int64)


def _doubles(values: Any, shape: tuple[int, ...], name: str) -> Scores:
    """The array itself, if it is one of doubles with this shape: others are added up in other ways."""
    if type(values) is not np.ndarray or values.dtype != np.float64 or values.shape != shape:
        raise InvalidInput(f"{name} is not an array of {shape} doubles")
    return values


def _import_gradient_boosting(model: Any, _: bool) -> Ensemble:
    base = _first_scores(model)
    # Of two classes, predict() chooses class 1 where `raw >= 0`, zero included.
    rule = ScoreRule(decision=Decision.CUT, cut=float(np.nextafter(0.0, -1.0))) if len(base) == 1 else ScoreRule()
    rate = model.learning_rate
    if isinstance(rate, bool) or not isinstance(rate, (int, float, np.number)):
        raise InvalidInput(f"learning_rate must be a number, got {rate!r}")
    builder = builder_of(model, rule, base=base)
    for stage in _stages(model, len(base)):
        for k, member in enumerate(stage):
            tree = tree_of(member, model.n_features_in_, 1)
            add_tree(builder, tree, float(rate) * tree.value[:, 0, 0], score=k)
    return builder.build()


def _first_scores(model: Any) -> Scores:
    """The scores that gradient boosting starts from, which must be the same for every row."""
    from sklearn.dummy import DummyClassifier

    first = model.init_
    if type(first) is DummyClassifier:
        check_methods(first)
        constant = first.strategy != "stratified" and first._strategy == first.strategy
    else:
        constant = isinstance(first, str) and first == "zero"
    if not constant:
        raise UnsupportedModel(
            f"GradientBoostingClassifier starts from init={first}, whose scores vary from row to row; "
            "train with the default init or init='zero'"
        )
    _stages(model, None)
    for part in (model._loss, model._loss.link):
        check_methods(part)
    n_scores = 1 if len(model.classes_) == 2 else len(model.classes_)
    rows = np.zeros((3, model.n_features_in_), dtype=np.float32)
    scores = _doubles(model._raw_predict_init(rows), (3, n_scores), "the initial score")
    if (scores != scores[0]).any():
        raise InvalidInput(f"the initial scores are not the same for every row: {scores.tolist()}")
    first_row: Scores = scores[0]
    return first_row


def _stages(model: Any, n_scores: int | None) -> npt.NDArray[np.object_]:
    """The regression trees of gradient boosting, (n_stages, n_scores)."""
    from sklearn.tree import DecisionTreeRegressor

    stages = model.estimators_
    if type(stages) is not np.ndarray or stages.ndim != 2 or n_scores not in (None, stages.shape[1]):
        raise InvalidInput(
            f"the estimators_ of gradient boosting are not an array with {n_scores or 'the'} trees per stage"
        )
    for member in stages.flat:
        if type(member) is not DecisionTreeRegressor:
            raise InvalidInput(f"gradient boosting has a member of type {type(member).__name__}; all must be trees")
        check_methods(member)
    return stages


def _import_hist_gradient_boosting(model: Any, _: bool) -> Ensemble:
    encoding = encoding_of(model)
    if getattr(model, "_in_fit", False):
        raise InvalidInput("this HistGradientBoostingClassifier is in the middle of its training (_in_fit)")
    n_scores = 1 if len(model.classes_) <= 2 else len(model.classes_)
    if model.n_trees_per_iteration_ != n_scores:
        raise InvalidInput(f"n_trees_per_iteration_ is {model.n_trees_per_iteration_}, expected {n_scores}")
    base = _doubles(model._baseline_prediction, (1, n_scores), "_baseline_prediction")[0]
    check_methods(model._bin_mapper)
    builder = builder_of(
        model,
        ScoreRule(decision=Decision.CUT) if n_scores == 1 else ScoreRule(),
        base=base,
        handles_missing=True,
        value_limit=LARGEST,
        categories=encoding.categories,
        takes_frames=bool(encoding.categories) and hasattr(model, "feature_names_in_"),
    )
    for iteration in model._predictors:
        if len(iteration) != n_scores:
            raise InvalidInput(f"an iteration has {len(iteration)} trees, expected {n_scores}")
        for k, predictor in enumerate(iteration):
            builder.add_tree(**histogram_tree(predictor, encoding), scores=predictor.nodes["value"], score=k)
    return builder.build()
