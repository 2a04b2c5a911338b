"""What a row loses at its margin, for boosting: losses that are concave in exp(-margin).

For such a loss, a tree that adds d to a margin m changes what the row loses by at most `pull(m) * (exp(-d) - 1)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from treeproof.errors import InvalidInput
from treeproof.numbers.doubles import FloatArray

MOST_PULL = 1e100
"""Of one row: sums must be finite."""


@dataclass(frozen=True)
class Loss:
    """A loss of margins (an array of any shape)."""

    of: Callable[[FloatArray], FloatArray]
    pull: Callable[[FloatArray], FloatArray]
    """Its slope, downward: how much a row counts when the next tree is grown."""
    steepness: float
    """Of the logistic curve that turns the best score of rows that are alike into the share of the second class."""


def _bounded(margin: FloatArray) -> FloatArray:
    return np.asarray(2.0 * expit(-margin) / (1.0 + np.sqrt(expit(margin))))


def _exponential(margin: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(-margin))


LOSSES = {
    "bounded": Loss(_bounded, lambda margin: np.asarray(expit(-margin) * np.sqrt(expit(margin))), 0.5),
    "logistic": Loss(lambda margin: np.asarray(np.logaddexp(0.0, -margin)), lambda margin: expit(-margin), 1.0),
    "exponential": Loss(_exponential, lambda margin: np.minimum(_exponential(margin), MOST_PULL), 2.0),
}


def loss_of(name: Any) -> Loss:
    """The loss of that name, or InvalidInput."""
    if not isinstance(name, str) or name not in LOSSES:
        raise InvalidInput(f"loss must be one of {', '.join(map(repr, LOSSES))}, got {name!r}", argument="loss")
    return LOSSES[name]
