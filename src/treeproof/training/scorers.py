"""Scorers for scikit-learn's searches: the share of rows that are proved robust, or resilient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.importers import as_ensemble
from treeproof.model.columns import CodedRows
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.verification.verify import verify


@dataclass(frozen=True)
class ExactScorer:
    """`scorer(estimator, X, y)`: the share of rows with a proof; a row left open by `timeout` has none."""

    attacker: Attacker
    epsilon: Any
    timeout: float | None
    voting: str | None
    relations: Any = None

    def __call__(
        self, estimator: Any, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> float:
        """The weighted share of rows that are proved."""
        weight = np.ones(len(np.asarray(y))) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average(self.proved(estimator, X, y, weight), weights=weight))

    def proved(self, estimator: Any, X: npt.ArrayLike, y: npt.ArrayLike, weight: FloatArray) -> npt.NDArray[np.bool_]:
        """Which rows are proved; there is a weight for each."""
        ensemble = as_ensemble(estimator, voting=self.voting)  # type: ignore[arg-type]
        rows, labels = ensemble.check_rows(X), np.asarray(y)
        if len(rows) != len(labels) or len(rows) != len(weight):
            raise InvalidInput(
                f"X has {len(rows)} rows, y has {len(labels)} labels and there are {len(weight)} weights; "
                "give one label and one weight per row"
            )
        if not len(labels):
            raise InvalidInput("X has no rows to score")
        # If a class was missing from a small training fold, no row can be proved to have it.
        known = np.isin(labels, ensemble.classes)
        proved = np.zeros(len(labels), dtype=bool)
        if known.any():
            result = verify(
                ensemble,
                rows[known].view(CodedRows),
                labels[known],
                self.attacker,
                epsilon=self.epsilon,
                relations=self.relations,
                timeout=self.timeout,
            )
            outcomes = result.robustness_outcomes if self.epsilon is None else result.resilience_by_epsilon[0]
            proved[known] = outcomes == Outcome.PROVED
        return proved


def robust_accuracy_scorer(
    attacker: Attacker, *, relations: Any = None, timeout: float | None = None, voting: str | None = None
) -> ExactScorer:
    """A scorer for `GridSearchCV(scoring=…)` and the like: the share of rows that are right under every attack.

    It works with every model that `from_model` accepts. Rows not decided within `timeout` seconds count as not robust;
    `relations` are those of `verify`.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> attacker = tp.Attacker.linf(0.2)
    >>> tree = tp.RobustTreeClassifier(attacker)
    >>> search = GridSearchCV(tree, {"max_depth": [1, 3]}, scoring=robust_accuracy_scorer(attacker)).fit(X, y)
    >>> search.best_params_
    {'max_depth': 3}
    """
    return ExactScorer(check_attacker(attacker), None, timeout, voting, relations)


def resilience_scorer(
    attacker: Attacker, epsilon: Any, *, relations: Any = None, timeout: float | None = None, voting: str | None = None
) -> ExactScorer:
    """A scorer like `robust_accuracy_scorer` for resilience: robust, and stable everywhere within `epsilon`."""
    if epsilon is None:
        raise InvalidInput("epsilon is None; give the size of the neighbourhood, or use robust_accuracy_scorer")
    return ExactScorer(check_attacker(attacker), epsilon, timeout, voting, relations)
