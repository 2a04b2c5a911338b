"""Counterexamples for people: cut down to the moves that they need, and which features they move."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.importers import as_ensemble
from treeproof.intervals import FloatArray
from treeproof.verdicts import Verification
from treeproof.verify import labels_of


def shorten_witnesses(model: Any, result: Verification, *, voting: Any = None) -> Verification:
    """The same result with counterexamples that move no feature in vain.

    The search returns the first counterexample that it meets, which may move features that do not matter. Here moves
    are taken back one by one as long as the label still changes; what is left needs all of its moves. Taking back a
    move is always within the attacker's reach. The rest of the result is as it was.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, y)
    >>> result = tp.verify(clf, X, y, tp.Attacker.linf(0.4))
    >>> short = shorten_witnesses(clf, result)
    >>> sum(len(v.witness.moved) for v in short.verdicts if v.witness) < sum(
    ...     len(v.witness.moved) for v in result.verdicts if v.witness)
    True
    """
    ensemble = as_ensemble(model, voting=voting)
    rows = np.flatnonzero(result.has_witness)
    if not len(rows):
        return result
    pairs = _Pairs(ensemble, result.X[rows], result.neighbour[rows].copy(), result.attacked[rows].copy())
    if not pairs.have_labels(result.neighbour_label[rows], result.attacked_label[rows]):
        raise InvalidInput("the result is not of this model: it predicts other labels for the counterexamples")
    pairs.shorten()
    neighbour, attacked = result.neighbour.copy(), result.attacked.copy()
    neighbour[rows], attacked[rows] = pairs.neighbour, pairs.attacked
    labels = labels_of(ensemble, pairs.neighbour), labels_of(ensemble, pairs.attacked)
    if (labels[0] == labels[1]).any():
        row = int(rows[np.argmax(labels[0] == labels[1])])
        raise SoundnessError(f"row {row}: the shortened counterexample keeps the label; please report this")
    neighbour_label, attacked_label = result.neighbour_label.copy(), result.attacked_label.copy()
    neighbour_label[rows], attacked_label[rows] = (ensemble.predict(z) for z in (pairs.neighbour, pairs.attacked))
    return dataclasses.replace(
        result, neighbour=neighbour, attacked=attacked, neighbour_label=neighbour_label, attacked_label=attacked_label
    )


@dataclass(eq=False)
class _Pairs:
    """Counterexamples: rows x, their neighbours, and these after an attack, all (n, n_features)."""

    ensemble: Ensemble
    x: FloatArray
    neighbour: FloatArray
    attacked: FloatArray

    def have_labels(self, neighbour: npt.NDArray[Any], attacked: npt.NDArray[Any]) -> bool:
        if self.x.shape[1] != self.ensemble.n_features:
            return False
        predicted = self.ensemble.predict(self.neighbour), self.ensemble.predict(self.attacked)
        return bool((predicted[0] == neighbour).all() and (predicted[1] == attacked).all())

    def shorten(self) -> None:
        """Takes moves back until every one that is left is needed; the ones that few need go first."""
        moved = _differ(self.neighbour, self.attacked).sum(axis=0)
        order = np.argsort(moved, kind="stable")
        shorter = True
        while shorter:
            shorter = False
            for f in order:
                shorter |= self._take_back(int(f), attack=True)
            for f in order:
                shorter |= self._take_back(int(f), attack=False)

    def _take_back(self, f: int, attack: bool) -> bool:
        """Undoes the attack on feature f, or the step in it and any attack on it, wherever the label still changes."""
        # A step alone is not undone under an attack, which need not reach as far from x itself.
        ends = (self.neighbour, self.attacked) if attack else (self.x, self.neighbour)
        tried = np.flatnonzero(_differ(ends[0][:, f], ends[1][:, f]))
        if not len(tried):
            return False
        near, far = self.neighbour[tried], self.attacked[tried]
        if not attack:
            near[:, f] = self.x[tried, f]
        far[:, f] = near[:, f]
        works = self.ensemble.predict_index(near) != self.ensemble.predict_index(far)
        self.neighbour[tried[works]], self.attacked[tried[works]] = near[works], far[works]
        return bool(works.any())


@dataclass(frozen=True)
class MovedFeature:
    """How counterexamples move one feature."""

    feature: int
    count: int
    """How many counterexamples move it."""
    up: int
    """How many of these raise it."""
    median: float
    """Half of the moves are at most this far."""
    largest: float


def moved_features(result: Verification) -> list[MovedFeature]:
    """Which features the counterexamples of a result move, those that most of them move first.

    Of the attack only, not of the step to a neighbour; `shorten_witnesses` first leaves out moves that do nothing.
    """
    near, far = result.neighbour[result.has_witness], result.attacked[result.has_witness]
    found = []
    for f in range(result.X.shape[1]):
        moves = (far[:, f] - near[:, f])[_differ(near[:, f], far[:, f])]
        if len(moves):
            far_moved = np.abs(moves)
            found.append(
                MovedFeature(f, len(moves), int((moves > 0).sum()), float(np.median(far_moved)), float(far_moved.max()))
            )
    return sorted(found, key=lambda moved: -moved.count)


def _differ(a: FloatArray, b: FloatArray) -> npt.NDArray[np.bool_]:
    """Where two values are not the same; two missing ones are."""
    return np.asarray((a != b) & ~(np.isnan(a) & np.isnan(b)))
