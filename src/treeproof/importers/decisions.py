"""Decisions at another cut than the library's own: thresholds and calibration, as exact cuts on the score.

For two classes, whatever a library does to the score of a row before it compares (a sigmoid, a calibrator that
was fitted, a threshold) is monotone. So the label is the second class iff the score is above one number, which is found
and checked with the library's own functions (`_cuts`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, UnsupportedModel
from treeproof.importers._cuts import exact_cut
from treeproof.importers._refusals import check_methods
from treeproof.importers._responses import (
    Bends,
    Function,
    Responses,
    Scores,
    ThresholdLabels,
    column_of,
    negative_of,
    same,
    share_of,
)
from treeproof.importers.registry import Voting, from_model
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision


def check_threshold(threshold: object) -> None:
    """Refuses what is neither a probability nor None."""
    if threshold is None:
        return
    number = isinstance(threshold, (int, float, np.integer, np.floating)) and not isinstance(threshold, bool)
    if not number or not 0 <= threshold <= 1:  # type: ignore[operator]
        raise InvalidInput(f"threshold must be a probability from 0 to 1, got {threshold!r}", argument="threshold")


def with_threshold(ensemble: Ensemble, threshold: float) -> Ensemble:
    """The same model, with the second class as label iff the library's probability of it is at least `threshold`."""
    if ensemble.n_classes != 2:
        raise InvalidInput(
            f"threshold={threshold} decides between 2 classes, but the model has {ensemble.n_classes}; leave it out",
            argument="threshold",
        )
    if ensemble.responses is None:
        raise InvalidInput(f"threshold={threshold}: {_why_none(ensemble)}", argument="threshold")
    cut = at_least(ensemble, "predict_proba", 1, float(threshold))
    source = ensemble.source
    return dataclasses.replace(
        cut, source=None if source is None else ThresholdLabels(source, ensemble.classes, float(threshold))
    )


def _why_none(ensemble: Ensemble) -> str:
    if ensemble.decided is not None:
        return f"the model already decides in its own way ({ensemble.decision_text}); set the threshold there"
    return f"{ensemble.origin} gives no probabilities that treeproof can follow exactly; leave it out"


def at_least(ensemble: Ensemble, method: str, column: int, threshold: Any) -> Ensemble:
    """The ensemble whose label is class `column` iff the response of that class is at least the threshold."""
    reduced, respond = response(ensemble, method, column)
    name = ensemble.responses.name if method == "predict_proba" else "decision function"

    def is_second(scores: Scores) -> npt.NDArray[np.bool_]:
        return np.asarray((respond(scores) >= threshold) == bool(column))

    cut = cut_by(reduced, is_second, f"threshold {threshold}")
    decided = (column, f"where its {name} is at least {float(threshold)!r}")
    return dataclasses.replace(cut, decided=decided, responses=None)


def response(ensemble: Ensemble, method: str, column: int) -> tuple[Ensemble, Function]:
    """The ensemble with one score, and the function that makes the library's response for a class of that score."""
    responses: Responses | None = ensemble.responses
    if ensemble.n_classes != 2 or responses is None:
        two = "" if ensemble.n_classes == 2 else f"it has {ensemble.n_classes} classes instead of 2; "
        raise UnsupportedModel(
            f"{ensemble.origin} has no {method} that treeproof can follow exactly: {two}"
            "train a binary classifier with probabilities"
        )
    if method == "decision_function":
        if responses.decision is None:
            raise UnsupportedModel(f"{ensemble.origin} has no decision_function; use response_method='predict_proba'")
        return ensemble, responses.decision if column else partial(negative_of, responses.decision)
    if responses.probabilities is not None:
        return ensemble, partial(column_of, responses.probabilities, column)
    # One of the two sums decides. Of the first class's, the one with the other sign: it rises with the second class.
    leaf_scores, base = ensemble.leaf_scores[:, [column]], ensemble.base[[column]]
    one = _with_scores(ensemble, leaf_scores if column else -leaf_scores, base if column else -base)
    own = same if column else partial(negative_of, same)
    return one, partial(share_of, responses.votes, own) if responses.votes else own


def cut_by(ensemble: Ensemble, is_second: Callable[[Scores], npt.NDArray[np.bool_]], what: str) -> Ensemble:
    """The ensemble, of one score, whose label is the second class iff `is_second` of the score."""
    cut = exact_cut(is_second, ensemble, what)
    if cut.falling:
        ensemble = _with_scores(ensemble, -ensemble.leaf_scores, -ensemble.base)
        responses: Responses | None = ensemble.responses
        if responses is not None and responses.probabilities is not None:
            ensemble = dataclasses.replace(ensemble, responses=responses.after_negation())
    return dataclasses.replace(ensemble, rule=dataclasses.replace(ensemble.rule, cut=cut.value))


def _with_scores(ensemble: Ensemble, leaf_scores: Scores, base: Scores) -> Ensemble:
    """The same trees with one score, which is compared with a cut."""
    rule = dataclasses.replace(ensemble.rule, decision=Decision.CUT)
    return dataclasses.replace(ensemble, leaf_scores=leaf_scores, base=base, rule=rule)


# --- scikit-learn's wrappers ---


def import_fixed(model: Any, *, voting: Voting | None) -> Ensemble:
    """The ensemble of a FixedThresholdClassifier."""
    estimator = getattr(model, "estimator_", model.estimator)
    inner = from_model(estimator, voting=voting)
    method = _method_of(model, estimator)
    threshold = model.threshold
    if isinstance(threshold, str):
        threshold = 0.5 if method == "predict_proba" else 0.0
    return _thresholded(model, inner, method, model.pos_label, threshold)


def import_tuned(model: Any, *, voting: Voting | None) -> Ensemble:
    """The ensemble of a TunedThresholdClassifierCV."""
    inner = from_model(model.estimator_, voting=voting)
    method = _method_of(model, model.estimator_)
    return _thresholded(model, inner, method, model._curve_scorer._get_pos_label(), model.best_threshold_)


def _method_of(model: Any, estimator: Any) -> str:
    """Which response of its estimator scikit-learn compares with the threshold."""
    if model.response_method != "auto":
        return str(model.response_method)
    return "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"


def _thresholded(model: Any, inner: Ensemble, method: str, positive: Any, threshold: Any) -> Ensemble:
    name = type(model).__name__
    if isinstance(threshold, (str, bool)) or not math.isfinite(threshold):
        raise InvalidInput(f"the threshold of this {name} is {threshold!r}; it must be a finite number")
    column = 1
    if positive is not None:
        places = np.flatnonzero(inner.classes == positive)
        if len(places) != 1:
            raise InvalidInput(f"pos_label={positive!r} of this {name} is none of {inner.classes.tolist()}")
        column = int(places[0])
    ensemble = at_least(inner, method, column, threshold)
    return dataclasses.replace(ensemble, origin=f"{inner.origin} in {name}", source=model)


def import_calibrated(model: Any, *, voting: Voting | None) -> Ensemble:
    """The ensemble of a CalibratedClassifierCV with one calibrator for two classes."""
    part, calibrator = _calibrator_of(model)
    inner = from_model(part.estimator, voting=voting)
    if inner.classes.tolist() != model.classes_.tolist() or part.classes.tolist() != model.classes_.tolist():
        raise InvalidInput(f"the calibrated model predicts {inner.classes.tolist()}, not {model.classes_.tolist()}")
    method = "decision_function" if hasattr(part.estimator, "decision_function") else "predict_proba"
    reduced, respond = response(inner, method, 1)
    probabilities = partial(_calibrated, calibrator, respond)

    def is_second(scores: Scores) -> npt.NDArray[np.bool_]:
        return np.asarray(np.argmax(probabilities(scores), axis=1) == 1)

    name = "calibrated probability"
    own = (Bends(respond, calibrator.X_thresholds_),) if part.method == "isotonic" else ()
    before: Responses | None = reduced.responses
    bends = own if before is None else (*before.bends, *own)
    reduced = dataclasses.replace(reduced, responses=Responses(probabilities, name=name, bends=bends))
    return dataclasses.replace(
        cut_by(reduced, is_second, "CalibratedClassifierCV"),
        decided=(1, f"where its {name} is above 0.5"),
        origin=f"{inner.origin} in CalibratedClassifierCV ({part.method})",
        source=model,
    )


def _calibrator_of(model: Any) -> tuple[Any, Any]:
    """The one calibrated model of a CalibratedClassifierCV, and its one calibrator."""
    from sklearn.calibration import _CalibratedClassifier, _SigmoidCalibration
    from sklearn.isotonic import IsotonicRegression

    parts = model.calibrated_classifiers_
    if len(parts) != 1:
        raise UnsupportedModel(
            f"CalibratedClassifierCV averages {len(parts)} models, each with a calibrator of its own, and that is not "
            "decided by one sum of scores; fit it with ensemble=False, or on FrozenEstimator(model)"
        )
    part = parts[0]
    kinds = {"sigmoid": _SigmoidCalibration, "isotonic": IsotonicRegression}
    if type(part) is not _CalibratedClassifier or part.method not in kinds:
        raise UnsupportedModel(
            f"CalibratedClassifierCV(method={getattr(part, 'method', None)!r}) is not supported; "
            "calibrate with method='sigmoid' or 'isotonic'"
        )
    if len(model.classes_) != 2 or len(part.calibrators) != 1:
        raise UnsupportedModel(
            f"CalibratedClassifierCV of {len(model.classes_)} classes mixes their probabilities; treeproof takes two"
        )
    calibrator = part.calibrators[0]
    for one in (part, calibrator):
        check_methods(one)
    rising = _is_isotonic if part.method == "isotonic" else _is_sigmoid
    if type(calibrator) is not kinds[part.method] or not rising(calibrator):
        raise InvalidInput(f"the calibrator of this CalibratedClassifierCV is no {part.method} function")
    return part, calibrator


def _is_sigmoid(calibrator: Any) -> bool:
    return all(isinstance(number, float) and math.isfinite(number) for number in (calibrator.a_, calibrator.b_))


def _is_isotonic(calibrator: Any) -> bool:
    """Whether it goes through points in rising order, up or down, and stays within them."""
    x, y = calibrator.X_thresholds_, calibrator.y_thresholds_
    if any(type(array) is not np.ndarray or array.ndim != 1 or array.dtype.kind != "f" for array in (x, y)):
        return False
    monotone = (np.diff(y) >= 0).all() or (np.diff(y) <= 0).all()
    return bool(len(x) == len(y) and (np.diff(x) > 0).all() and monotone and calibrator.out_of_bounds == "clip")


def _calibrated(calibrator: Any, respond: Function, scores: Scores) -> Scores:
    """The probabilities of both classes, operation by operation as scikit-learn computes them."""
    probabilities = np.zeros((len(scores), 2))
    probabilities[:, 1] = calibrator.predict(respond(scores))
    probabilities[:, 0] = 1.0 - probabilities[:, 1]
    probabilities[(1.0 < probabilities) & (probabilities <= 1.0 + 1e-5)] = 1.0
    return probabilities
