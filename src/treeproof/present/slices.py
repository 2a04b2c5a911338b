"""Two-dimensional slices of the feature space: where the model is stable, square by square, proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.importers import as_ensemble
from treeproof.model.columns import CodedRows
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker
from treeproof.verification.verify import verify

OVERLAP = 1e-9
"""The share by which squares are proved beyond their edges, so that rounding leaves no gap between two of them."""

MAX_SQUARES = 512
"""The largest number of squares per side."""


@dataclass(frozen=True, eq=False)
class Slice:
    """The plane through a row in which two features vary, cut into squares; arrays are indexed [second, first].

    `status` is about all points of a square: PROVED says that the model is stable at each of them, REFUTED that at some
    point it is not. `labels` holds the index of the class that the model predicts at the centre.
    """

    low: tuple[float, float]
    high: tuple[float, float]
    labels: npt.NDArray[np.int64]
    status: npt.NDArray[np.int8]

    @property
    def resolution(self) -> int:
        """The number of squares per side."""
        return len(self.status)


def cut_slice(
    model: Any,
    attacker: Attacker,
    row: npt.ArrayLike,
    features: tuple[int | str, int | str],
    low: tuple[float, float],
    high: tuple[float, float],
    *,
    resolution: int = 64,
    timeout: float | None = None,
    max_seconds: float | None = None,
    n_jobs: int | None = None,
    voting: Any = None,
) -> Slice:
    """Decides the stability of every square of the plane through `row` in which two features go from `low` to `high`.

    The other features stay as in `row`, except for what the attacker does to them. Squares that are not decided in
    time (`timeout` each, `max_seconds` in all) are UNKNOWN. One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> cut = cut_slice(clf, tp.Attacker.linf(0.2), [0.0, 0.0], (0, 1), (0.0, 0.0), (1.0, 1.0), resolution=4)
    >>> cut.labels[0].tolist(), cut.status[0].tolist()
    ([0, 0, 1, 1], [0, 1, 1, 0])
    """
    ensemble = as_ensemble(model, voting=voting)
    first, second = plane_of(ensemble, features)
    if not isinstance(resolution, (int, np.integer)) or not 1 <= resolution <= MAX_SQUARES:
        raise InvalidInput(f"resolution must be a whole number of squares from 1 to {MAX_SQUARES}, got {resolution!r}")
    pitch = np.array([(high[k] - low[k]) / resolution for k in (0, 1)])
    if not (np.isfinite(pitch).all() and (pitch > 0).all()):
        raise InvalidInput(f"a slice from {low} to {high} has no area")
    steps = np.arange(resolution) + 0.5
    through = ensemble.check_rows(np.asarray(row)[None], coded=True)
    rows = np.repeat(through, resolution**2, axis=0)
    rows[:, first] = np.tile(low[0] + steps * pitch[0], resolution)
    rows[:, second] = np.repeat(low[1] + steps * pitch[1], resolution)
    labels = ensemble.predict_index(rows)
    # A square is the neighbourhood of its centre, and "resilient" means stable in all of it.
    epsilon = {first: pitch[0] / 2 * (1 + OVERLAP), second: pitch[1] / 2 * (1 + OVERLAP)}
    if ensemble.source is not None:
        # Thousands of squares need not be replayed on the library that the model came from.
        ensemble = ensemble.without_source()
    decided = verify(
        ensemble,
        rows.view(CodedRows),
        ensemble.classes[labels],
        attacker,
        epsilon=epsilon,
        timeout=timeout,
        max_seconds=max_seconds,
        n_jobs=n_jobs,
    )
    shape = (resolution, resolution)
    return Slice(
        (float(low[0]), float(low[1])),
        (float(high[0]), float(high[1])),
        labels.reshape(shape),
        decided.resilience_by_epsilon[0].reshape(shape),
    )


def plane_of(ensemble: Ensemble, features: tuple[int | str, int | str]) -> tuple[int, int]:
    """The positions of the two columns of numbers that a slice goes along, or InvalidInput."""
    first, second = (ensemble.feature_index(feature) for feature in features)
    if first == second:
        raise InvalidInput(f"a slice needs two features, got {ensemble.feature_name(first)} twice")
    for feature in (first, second):
        if ensemble.columns[feature].kind == "category":
            raise InvalidInput(
                f"column {ensemble.feature_name(feature)} is a category, and a slice goes along two columns of numbers"
            )
    return first, second


def frame_of(ensemble: Ensemble, attacker: Attacker, X: FloatArray, feature: int) -> tuple[float, float] | None:
    """The range of a feature that a picture of these rows should show; None for a category, or if there is no room.

    It is a little wider than that of the rows, but inside the attacker's domain. A feature with a step has none: what
    is said of a square is about its points on the grid of its centre only.
    """
    threat = attacker.bind(ensemble)
    if ensemble.columns[feature].kind == "category" or threat.moves_of(feature).step is not None:
        return None
    values = X[:, feature][~np.isnan(X[:, feature])]
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    margin = 0.04 * (high - low) if high > low else max(abs(low) / 2, 0.5)
    low, high = (
        max(low - margin, float(threat.domain_low[feature])),
        min(high + margin, float(threat.domain_high[feature])),
    )
    return (low, high) if low < high and np.isfinite(high - low) else None
