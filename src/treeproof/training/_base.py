"""What robust trees and forests share: checked input, and predictions through an exact Ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from treeproof.errors import InvalidInput
from treeproof.importers import EnsembleBuilder
from treeproof.model.builder import blank_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.epsilon import bind_epsilon
from treeproof.threat.threat import Threat
from treeproof.training._grow import GrownTree, TrainingSet
from treeproof.training._settings import bound_attacker


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The base of the estimators: `ensemble_` votes, and is what `from_model` returns."""

    attacker: Any
    epsilon: Any
    classes_: npt.NDArray[Any]
    n_features_in_: int
    ensemble_: Ensemble

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """The label with the most votes for each row; ties go to the lowest class."""
        rows = self._rows(X)
        return self.classes_[self.ensemble_.predict_index(rows)]

    def _rows(self, X: npt.ArrayLike) -> FloatArray:
        check_is_fitted(self, "ensemble_")
        rows: FloatArray = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return rows

    def _training_set(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None
    ) -> tuple[TrainingSet, FloatArray, Threat]:
        """Checks what `fit` was given, sets `classes_`, and binds the attacker to the columns."""
        rows, labels = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(labels)
        weight: FloatArray = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        if (weight < 0).any():
            row = int(np.argmax(weight < 0))
            raise InvalidInput(f"sample_weight of row {row} is {weight[row]}; weights must be at least 0")
        with np.errstate(over="ignore"):
            total = float(weight.sum())
        if not np.isfinite(total):
            raise InvalidInput(f"sample_weight adds up to {total}; scale the weights down")
        if total == 0:
            raise InvalidInput("sample_weight is 0 for every row; give at least one row a positive weight")
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(f"y has only one class, {classes.tolist()[0]!r}; training needs at least two")
        names = getattr(self, "feature_names_in_", None)
        blank = blank_ensemble(rows.shape[1], classes, names)
        threat = bound_attacker(self.attacker, blank, rows)
        epsilon = bind_epsilon(0.0 if self.epsilon is None else self.epsilon, blank)
        self.classes_ = classes
        return TrainingSet.of(rows, numbers.reshape(-1), len(classes), threat, epsilon), weight, threat

    def _ensemble(self, trees: list[GrownTree]) -> Ensemble:
        """The trees as a model in which each casts one vote."""
        builder = EnsembleBuilder(
            n_features=self.n_features_in_,
            classes=self.classes_,
            feature_names=getattr(self, "feature_names_in_", None),
            origin=f"treeproof {type(self).__name__}",
        )
        for tree in trees:
            builder.add_tree(
                feature=tree.feature, threshold=tree.threshold, left=tree.left, right=tree.right, scores=tree.votes
            )
        return builder.build()
