"""The one question behind all explanations: does a row keep its label if only some columns may change?"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.relations.grouping import groups_of
from treeproof.threat.threat import Threat
from treeproof.verification.valid_rows import search_for


class Answer(NamedTuple):
    """PROVED: the label holds; REFUTED: the row `other` has another one; UNKNOWN: time is up."""

    outcome: Outcome
    other: FloatArray | None = None


class Found(NamedTuple):
    """An explanation of a row: which units are in it, and what is known of it; see `results/explanations.py`."""

    units: npt.NDArray[np.bool_]
    outcome: Outcome
    minimal: bool
    other: FloatArray | None = None
    """Of a contrastive set, a row with another label that differs in these units only."""


class Questions:
    """Questions about the rows X of one model, against one attacker.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = tp.from_model(DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1]))
    >>> questions = Questions(model, tp.Attacker(tp.ANY).bind(model), np.zeros((1, 2)))
    >>> questions.ask(0, np.array([False, True])).outcome.name, questions.ask(0, np.array([True, False])).outcome.name
    ('PROVED', 'REFUTED')
    """

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits | None = None) -> None:
        self.ensemble, self.threat, self.X, self.limits = ensemble, threat, X, limits or Limits()
        groups = groups_of(threat.relations, ensemble) if threat.relations else ()
        behind = {f: group.features for group in groups for f in group.features}
        self.units = tuple(dict.fromkeys(behind.get(f, (f,)) for f in range(ensemble.n_features)))
        """What is free or frozen as one: the features of a column, or of a one-hot group."""
        self._labels = ensemble.predict_index(X)
        self._began: dict[int, float] = {}

    def ask(self, row: int, free: npt.NDArray[np.bool_]) -> Answer:
        """Does a row keep its label if the attacker may change no units but the `free` ones?"""
        frozen = [f for unit, is_free in zip(self.units, free.tolist(), strict=True) if not is_free for f in unit]
        limits = self._rest(row)
        if limits is None:
            return Answer(Outcome.UNKNOWN)
        one = slice(row, row + 1)
        search = search_for(self.ensemble, self.threat.freeze(frozen), limits)
        found = search.decide(self.X[one], np.zeros(self.ensemble.n_features), self._labels[one])
        outcome = Outcome(int(found.outcome[0]))
        return Answer(outcome, found.attacked[0] if outcome == Outcome.REFUTED else None)

    def _rest(self, row: int) -> Limits | None:
        """The limits with what is left of the time for a row, from its first question on; None: nothing is."""
        if self.limits.is_over():
            return None
        if self.limits.timeout is None:
            return self.limits
        now = time.monotonic()
        left = self.limits.timeout - (now - self._began.setdefault(row, now))
        return replace(self.limits, timeout=left) if left > 0 else None
