"""What a library makes of the score that decides, beside a label: probabilities, and decision functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[Any]
Function = Callable[[Scores], Scores]


class Bends(NamedTuple):
    """Between two of its points a function of the score is a line."""

    of: Function
    """What it makes of scores before that, which rises with them."""
    points: Scores


@dataclass(frozen=True)
class Responses:
    """The library's own functions of the one score of each row, (n,) in the ensemble's precision.

    They can be pickled, as ensembles can.
    """

    probabilities: Function | None = None
    """The probabilities of both classes, (n, 2). None: the scores themselves are probabilities, one for each class."""
    decision: Function | None = None
    """The decision function, (n,), where the library has one."""
    name: str = "probability"
    """What people call a probability of this model."""
    votes: int = 0
    """If not 0, the scores are the classes' numbers of so many votes, and probabilities their shares."""
    bends: tuple[Bends, ...] = ()
    """Of the probabilities, if calibrators were fitted to points."""

    @property
    def additive(self) -> bool:
        """Whether the scores are probabilities: then those of several models add up."""
        return self.probabilities is None and not self.votes

    def after_negation(self) -> Responses:
        """The same of scores with the other sign."""
        assert self.probabilities is not None
        turned = partial(partial, _after_negation)
        bends = tuple(Bends(partial(negative_of, turned(bend.of)), -bend.points) for bend in self.bends)
        return Responses(turned(self.probabilities), name=self.name, bends=bends)


ADDITIVE = Responses()


def same(scores: Scores) -> Scores:
    """The scores themselves."""
    return scores


def share_of(votes: int, function: Function, scores: Scores) -> Scores:
    """What a function makes of votes, as a share of all."""
    return function(scores) / votes


def column_of(function: Function, column: int, scores: Scores) -> Scores:
    """One column of what a function returns."""
    return function(scores)[:, column]


def negative_of(function: Function, scores: Scores) -> Scores:
    """What a function makes of scores, with the other sign."""
    return -function(scores)


def _after_negation(function: Function, scores: Scores) -> Scores:
    return function(-scores)


def logistic(steepness: float, decision: Function | None = None) -> Responses:
    """LightGBM and CatBoost: `1 / (1 + exp(-steepness * score))` in double, and 1 minus that."""
    return Responses(partial(_logistic, steepness), decision)


def _logistic(steepness: float, scores: Scores) -> Scores:
    # NumPy's exp can round the last bit otherwise than the C library's, which they call.
    ones = np.array([1.0 / (1.0 + _exp(-steepness * score)) for score in scores.tolist()])
    return np.column_stack((1.0 - ones, ones))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


class BoostedLabels:
    """A Booster's predictions as labels: above 0.5 for two classes, the best class for more."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def predicted(self, X: Any) -> npt.NDArray[Any]:
        """What the Booster itself predicts."""
        raise NotImplementedError

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label of each row."""
        p = self.predicted(X)
        return np.argmax(p, axis=1) if p.ndim == 2 else (p > 0.5).astype(np.int64)

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The probabilities of both classes, as the library's own classifier gives them."""
        p = self.predicted(X)
        return np.column_stack((1.0 - p, p))


class ThresholdLabels:
    """A model's labels where another cut than its own decides: the second class iff its probability is at least that.

    The comparison is scikit-learn's in `FixedThresholdClassifier`, in the type of the model's probabilities.
    """

    def __init__(self, model: Any, classes: npt.NDArray[Any], threshold: float) -> None:
        self.model = model
        self.classes = classes
        self.threshold = threshold

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label of each row."""
        chosen = self.predict_proba(X)[:, 1] >= self.threshold
        return np.asarray(self.classes[chosen.astype(np.int64)])

    def predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """The model's own probabilities, which no threshold changes."""
        return np.asarray(self.model.predict_proba(X))
