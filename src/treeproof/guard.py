"""GuardedClassifier: the model's label where no attack can change it, and no label elsewhere.

This is the globally robust classifier of the paper's Section III-C. See docs/guard.md.
"""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from treeproof.errors import InvalidInput
from treeproof.importers import as_ensemble
from treeproof.maps.stability_map import StabilityMap
from treeproof.model.agreement import SpotCheck, check_on_probes
from treeproof.model.columns import CodedRows
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision
from treeproof.numbers.doubles import FloatArray
from treeproof.results.measures import missing_in_words
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.workers import do_task, in_groups, n_workers, run_tasks
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.backwards import backwards
from treeproof.threat.threat import Threat
from treeproof.verification.possible import bind_possible
from treeproof.verification.request import RowTask
from treeproof.verification.valid_rows import search_for

BoolArray = npt.NDArray[np.bool_]

MODES = ("online", "map")
PROMISES = ("genuine", "stable")
MIN_ROWS, MAX_ROWS = 16, 4096
"""The number of rows in one task."""


def _offers_probabilities(guard: Any) -> bool:
    """Whether the guarded model has probabilities; without them, `predict_proba` is not an attribute here either."""
    model = _plain(guard.estimator)
    if not isinstance(model, Ensemble):
        return hasattr(getattr(guard, "estimator_", model), "predict_proba")
    return _casts_votes(model) or hasattr(model.source, "predict_proba")


@dataclass(eq=False, repr=False)
class GuardedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that answers only where its label is proved to withstand the attacker, and abstains elsewhere.

    With `promise="stable"`, the default for attackers without a goal, rows are taken as they are before an attack: if
    it answers for x, then no attack on x makes it give another class; it gives the same one, or abstains. With
    `promise="genuine"`, the default for a goal, rows are taken as they may be after one: if it answers w with a label
    that the attacker wants (any, without a goal), then he cannot have made w out of a row with another label that he
    does not want. What he does not want is always answered.

    `fit` trains a clone of `estimator`. To keep a fitted model as it is, wrap it in `sklearn.frozen.FrozenEstimator`;
    an `Ensemble`, or anything else without `fit`, is kept anyway. `fit()` then needs no data. `mode="online"` decides
    each row on demand, by the exact local search; `mode="map"` builds a `StabilityMap` in `fit` (or takes the one given
    as `stability_map`) and looks rows up in it. A row counts as not proved if it is still open after `timeout` seconds
    for the row or `max_seconds` for one call (online), or if a build limited by `max_seconds` or `max_boxes` left it
    open (map). `fit` compares the labels of the model's own library with those that are proved, on rows at thresholds,
    and later calls do so on a few of their rows; a difference is a SoundnessError. A missing value is taken to stay
    missing, unless the attacker may fill it in (see `has_missing`). `abstain_label` must be of the same
    kind as the labels but not one of them; for None, one is chosen (see `abstain_label_`).

    A stable promise, asked for with a goal, is about the labels that the attacker wants: where the guard answers with
    another one, no attack gets one of these, and rows that have one anyway are always answered. With `relations`, as in
    `verify`, the rows that attacks lead to (stable) or come from (genuine) keep them (online only). A row that breaks
    them itself is answered like any other.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> guard = GuardedClassifier(DecisionTreeClassifier(max_depth=2), tp.Attacker.linf(0.2)).fit(X, y)
    >>> guard.predict([[5.0, 3.4, 1.5, 0.2], [6.0, 2.9, 4.5, 1.7]]).tolist()
    [0, -1]
    >>> guard.coverage(X) < 1 and guard.score(X, y) > guard.estimator_.score(X, y)
    True
    """

    estimator: Any
    attacker: Attacker
    _: KW_ONLY
    mode: str = "online"
    promise: str | None = None
    abstain_label: Any = None
    stability_map: StabilityMap | None = None
    relations: Any = None
    voting: str | None = None
    timeout: float | None = None
    max_seconds: float | None = None
    max_boxes: int | None = None
    n_jobs: int | None = None
    progress: bool = False

    estimator_: Any = field(init=False)
    """The fitted model that is guarded."""
    ensemble_: Ensemble = field(init=False)
    classes_: npt.NDArray[Any] = field(init=False)
    """The model's classes; `abstain_label_` is not one of them."""
    abstain_label_: Any = field(init=False)
    """`abstain_label`, or the choice for None: "abstain" for strings; for numbers -1, or one below all classes if some
    are negative, or one above all classes if they are unsigned."""
    promise_: str = field(init=False)
    """`promise`, or the choice for None."""
    map_: StabilityMap = field(init=False)
    """Only with mode="map"."""
    n_features_in_: int = field(init=False)
    feature_names_in_: npt.NDArray[Any] = field(init=False)

    def fit(self, X: Any = None, y: Any = None, **fit_params: Any) -> GuardedClassifier:
        """Trains the model on rows X with labels y, unless it is already fitted; with mode="map", also maps it.

        `fit_params`, such as sample_weight, go to the model. If limits may stop the map early, X guides it.
        """
        self._check_settings()
        trained = not _is_fitted_already(self.estimator)
        model = self._train(X, y, fit_params) if trained else _plain(self.estimator)
        ensemble = as_ensemble(model, voting=self.voting).named_after(X)  # type: ignore[arg-type]
        check_on_probes(ensemble)
        if not trained:
            self._take_columns(ensemble)
        classes = _classes_of(model, ensemble)
        labels = np.concatenate((classes, _as_label(self.abstain_label, classes)))
        threat = bind_possible(self.attacker, ensemble, self.relations)
        promise = self.promise or ("genuine" if self.attacker.goal else "stable")
        if promise == "genuine":
            threat = backwards(threat, ensemble)
        smap = self._map(ensemble, X) if self.mode == "map" else None
        self._forget("map_")
        if smap is not None:
            self.map_ = smap
        self._trained, self.estimator_, self.ensemble_, self.classes_ = trained, model, ensemble, classes
        self._labels, self._threat, self.abstain_label_ = labels, threat, labels.tolist()[-1]
        self.promise_ = promise
        self._spot_check, self._warned = SpotCheck(), False
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The model's label for each row where it is proved, `abstain_label_` elsewhere."""
        rows = self._rows(X)
        index = self.ensemble_.predict_index(rows)
        # The abstention label comes after the classes.
        return self._labels[np.where(self._proved(rows, index), index, len(self.classes_))]

    def is_proved(self, X: Any) -> BoolArray:
        """Whether what is promised of an answer is proved of the model's label of each row."""
        return self._proved(self._rows(X))

    @property
    def promised(self) -> str:
        """What an answer promises, in words."""
        check_is_fitted(self, "ensemble_")
        wanted = " or ".join(map(repr, self.attacker.goal))
        if self.promise_ == "stable":
            return f"no attack on a row that is answered turns the answer into {wanted or 'another'}"
        if wanted:
            return f"no row that is answered {wanted} can have been made, by an attack, of one with another label"
        return "no row that is answered can have been made, by an attack, of one with another label"

    def breaks_relations(self, X: Any) -> BoolArray:
        """Which rows break the relations themselves; they are answered all the same, where that is proved."""
        return self._threat.relations.broken(self._rows(X))

    def has_missing(self, X: Any) -> BoolArray:
        """Which rows have missing values that stay missing, in columns that the attacker can move.

        The first call that meets such rows warns about them. With mode="map", they get no answer.
        """
        return self._threat.has_missing(self._rows(X))

    def coverage(self, X: Any) -> float:
        """The share of rows that get an answer; NaN if there are no rows."""
        proved = self.is_proved(X)
        return float(proved.mean()) if len(proved) else math.nan

    @available_if(_offers_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """The model's own probability of each class for each row, even where the guard abstains.

        Nothing is promised about it: an attack can move probabilities even where it cannot change the label. With
        voting="hard" it is the share of trees that vote for the class.
        """
        rows = self._rows(X)
        model = self.estimator_
        if _casts_votes(self.ensemble_) and (self.voting == "hard" or isinstance(model, Ensemble)):
            votes = self.ensemble_.scores(rows, coded=True)
            return np.asarray(votes / votes.sum(axis=1, keepdims=True))
        return np.asarray((model.source if isinstance(model, Ensemble) else model).predict_proba(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy on the rows that get an answer; NaN if none does.

        `sklearn.metrics.accuracy_score(y, guard.predict(X))` counts abstentions as wrong.
        """
        rows = self._rows(X)
        labels = column_or_1d(y)
        weight = np.ones(len(rows)) if sample_weight is None else column_or_1d(sample_weight).astype(np.float64)
        if not len(rows) == len(labels) == len(weight):
            raise InvalidInput(
                f"X has {len(rows)} rows, y has {len(labels)} labels and there are {len(weight)} weights; "
                "give one label and one weight per row"
            )
        index = self.ensemble_.predict_index(rows)
        weight = np.where(self._proved(rows, index), weight, 0.0)
        right = self.classes_[index] == labels
        return float(np.average(right, weights=weight)) if weight.sum() > 0 else math.nan

    def get_metadata_routing(self) -> MetadataRouter:
        """Where scikit-learn's metadata routing sends what `fit` is given: to the estimator's fit."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=to_fit)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        model = _plain(self.estimator)
        if isinstance(model, Ensemble):
            tags.input_tags.allow_nan = bool(model.may_be_missing.any())
        elif hasattr(model, "__sklearn_tags__"):
            tags.input_tags.allow_nan = get_tags(model).input_tags.allow_nan
        return tags

    # --- inside ------------------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        check_attacker(self.attacker)
        if not isinstance(self.mode, str) or self.mode not in MODES:
            raise InvalidInput(f"mode must be one of {', '.join(map(repr, MODES))}, got {self.mode!r}")
        if self.promise is not None and self.promise not in PROMISES:
            raise InvalidInput(f"promise must be one of {', '.join(map(repr, PROMISES))}, got {self.promise!r}")
        if self.promise == "genuine" and self.mode == "map":
            raise InvalidInput("a map knows where attacks lead, not where they come from; use mode='online'")
        ready: Any = self.stability_map
        if ready is not None and self.mode != "map":
            raise InvalidInput(f"stability_map needs mode='map', but mode is {self.mode!r}")
        if self.relations is not None and self.mode == "map":
            raise InvalidInput("a map knows no relations between columns; use mode='online', or leave relations out")
        if ready is not None and not isinstance(ready, StabilityMap):
            given = type(ready).__name__
            raise InvalidInput(f"stability_map must be a StabilityMap, got {given}; StabilityMap.load reads files")
        Limits.of(timeout=self.timeout, max_seconds=self.max_seconds)
        check_jobs(self.n_jobs)

    def _train(self, X: Any, y: Any, fit_params: dict[str, Any]) -> Any:
        """A trained clone of the estimator."""
        if isinstance(self.estimator, type):
            raise InvalidInput(f"estimator is the class {self.estimator.__qualname__}; pass an instance of it")
        if X is None:
            name = type(self.estimator).__name__
            raise InvalidInput(f"fit needs X and y to train {name}; if it is fitted, wrap it in FrozenEstimator")
        finite = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        if _holds_values(X):
            validate_data(self, X, skip_check_array=True)
            labels = column_or_1d(y, warn=True)
            check_consistent_length(X, labels)
        else:
            _, labels = validate_data(self, X, y, ensure_all_finite=finite)
        check_classification_targets(labels)
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        return clone(self.estimator).fit(X, labels, **fit_params)

    def _forget(self, name: str) -> None:
        """Removes what an earlier fit may have learned."""
        if hasattr(self, name):
            delattr(self, name)

    def _take_columns(self, ensemble: Ensemble) -> None:
        """Sets what training would have learned about the columns."""
        self.n_features_in_ = ensemble.n_features
        self._forget("feature_names_in_")
        if ensemble.feature_names is not None:
            self.feature_names_in_ = np.array(ensemble.feature_names, dtype=object)

    def _map(self, ensemble: Ensemble, X: Any) -> StabilityMap:
        if self.stability_map is not None:
            self.stability_map.check_made_for(ensemble, self.attacker, "stability_map")
            return self.stability_map
        limited = self.max_seconds is not None or self.max_boxes is not None
        return StabilityMap.build(
            ensemble,
            self.attacker,
            max_seconds=self.max_seconds,
            max_boxes=self.max_boxes,
            order=X if limited and X is not None else "volume",
            n_jobs=self.n_jobs,
            progress=self.progress,
        )

    def _rows(self, X: Any) -> FloatArray:
        """X as doubles, checked by the model's own rules and, if it was trained here, by scikit-learn's."""
        check_is_fitted(self, "ensemble_")
        if self._trained and (self.ensemble_.categories or self.ensemble_.takes_frames):
            validate_data(self, X, reset=False, skip_check_array=True)
        elif self._trained:
            finite = "allow-nan" if self.ensemble_.may_be_missing.any() else True
            validate_data(self, X, reset=False, ensure_all_finite=finite)
        return self.ensemble_.check_rows(X)

    def _proved(self, rows: FloatArray, index: npt.NDArray[np.int64] | None = None) -> BoolArray:
        """Whether each row is proved; one outside the attacker's domain is not: nothing is said of attacks on it.

        `index` are the indices of the classes that the model predicts, if they are known already.
        """
        self._spot_check.check(self.ensemble_, rows)
        threat: Threat = self._threat
        inside = np.flatnonzero(~((rows < threat.domain_low) | (rows > threat.domain_high)).any(axis=1))
        proved = np.zeros(len(rows), dtype=bool)
        if hasattr(self, "map_"):
            proved[inside] = self.map_.is_stable(rows[inside].view(CodedRows))
        else:
            self._warn_of_missing(rows)
            index = self.ensemble_.predict_index(rows) if index is None else index
            proved[inside] = self._search(rows[inside], index[inside])
        return proved

    def _warn_of_missing(self, rows: FloatArray) -> None:
        """Says, once, what is assumed about missing values."""
        n = int(self._threat.has_missing(rows).sum()) if not self._warned and np.isnan(rows).any() else 0
        if n:
            self._warned = True
            warnings.warn(missing_in_words(n, len(rows)), stacklevel=4)

    def _search(self, rows: FloatArray, index: npt.NDArray[np.int64]) -> BoolArray:
        """Whether the local search proves each row stable within the limits."""
        limits = Limits.of(timeout=self.timeout, max_seconds=self.max_seconds)
        proved = np.zeros(len(rows), dtype=bool)
        if limits.timeout == 0:
            return proved
        workers = n_workers(self.n_jobs) if len(rows) > MIN_ROWS else 1
        size = int(np.clip(len(rows) // (4 * workers), MIN_ROWS, MAX_ROWS)) if workers > 1 else MAX_ROWS
        groups = in_groups(len(rows), size)
        tasks = [RowTask(self._threat, limits, group, rows[group], index[group]) for group in groups]

        def take(_: int, answer: tuple[npt.NDArray[np.int64], BoolArray]) -> None:
            proved[answer[0]] = answer[1]

        if workers == 1:
            for number, task in enumerate(tasks):
                take(number, do_task(_answer, self.ensemble_, task))
        elif run_tasks(_answer, self.ensemble_, tasks, limits, self.n_jobs, take):
            raise KeyboardInterrupt
        return proved


def _answer(ensemble: Ensemble, task: RowTask) -> tuple[npt.NDArray[np.int64], BoolArray]:
    """The numbers of a task's rows, and whether each is proved stable; runs in whichever worker joblib chose."""
    search = search_for(ensemble, task.threat, task.limits)
    decided = search.decide(task.X, np.zeros(ensemble.n_features), task.y)
    return task.numbers, decided.outcome == Outcome.PROVED


def _plain(estimator: Any) -> Any:
    """The model inside a FrozenEstimator, or the estimator itself."""
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


def _is_fitted_already(estimator: Any) -> bool:
    """Whether there is nothing to train: a frozen estimator, or a model without fit, such as an Ensemble."""
    return isinstance(estimator, FrozenEstimator) or not hasattr(estimator, "fit")


def _casts_votes(ensemble: Ensemble) -> bool:
    """Whether every leaf casts one vote for one class, so that shares of votes say how sure the model is."""
    scores = ensemble.leaf_scores
    one_hot = np.isin(scores, (0, 1)).all() and (scores.sum(axis=1) == 1).all()
    return bool(one_hot and ensemble.rule.decision == Decision.ARGMAX and not ensemble.base.any())


def _classes_of(model: Any, ensemble: Ensemble) -> npt.NDArray[Any]:
    """The classes as the library has them: the same labels, perhaps in another dtype."""
    own = np.asarray(getattr(model, "classes_", ensemble.classes))
    return own if own.tolist() == ensemble.classes.tolist() else ensemble.classes


def _as_label(label: Any, classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The abstention label as an array of one entry that can join the classes without changing their type."""
    known = classes.tolist()
    kind, name = _kind_of(known)
    if label is None:
        label = _chosen_label(known, kind, classes.dtype)
    truth = isinstance(label, bool)  # a whole number to Python, but not to users
    if truth or not isinstance(label, kind):
        raise InvalidInput(f"abstain_label must be {name}, like the labels {known}, got {label!r}")
    if label in known:
        raise InvalidInput(f"abstain_label {label!r} is one of the model's labels {known}; choose another")
    if classes.dtype.kind == "U":
        return np.array([str(label)])  # in its own length: it must not be cut to that of the classes
    try:
        with np.errstate(over="ignore"):
            entry = np.array([label]).astype(classes.dtype)
        fits = bool(entry.tolist()[0] == label or label != label)
    except (OverflowError, ValueError, TypeError):
        fits = False
    if not fits:
        raise InvalidInput(f"abstain_label {label!r} does not fit the labels' dtype {classes.dtype}")
    return entry


def _kind_of(known: list[Any]) -> tuple[type, str]:
    """The type of the labels, and what messages call it."""
    if any(isinstance(one, bool) for one in known):
        raise InvalidInput("the labels are True and False, and there is no third value to abstain with; use 0 and 1")
    for kind, name in ((str, "a string"), (numbers.Integral, "a whole number"), (numbers.Real, "a number")):
        if all(isinstance(one, kind) for one in known):
            return kind, name
    return type(known[0]), f"of type {type(known[0]).__name__}"


def _chosen_label(known: list[Any], kind: type, dtype: np.dtype[Any]) -> Any:
    if kind is str:
        return "abstain"
    if kind not in (numbers.Integral, numbers.Real):
        raise InvalidInput(f"no abstain_label can be chosen for labels like {known[0]!r}; give one")
    return max(known) + 1 if dtype.kind == "u" else min(-1, min(known) - 1)


def _holds_values(X: Any) -> bool:
    """Whether some columns of a data frame hold anything but numbers: only the model knows what to make of these."""
    return any(getattr(dtype, "kind", "O") not in "biuf" for dtype in getattr(X, "dtypes", ()))
