"""What robust trees and forests share: checked input, and predictions through an exact Ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput
from treeproof.importers import EnsembleBuilder
from treeproof.intervals import FloatArray
from treeproof.threat import Threat
from treeproof.training._grow import GrownTree, TrainingSet
from treeproof.training._settings import blank_ensemble, bound_attacker


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators: `ensemble_` votes, and is what `from_model` hands out."""

    attacker: Any
    classes_: npt.NDArray[Any]
    n_features_in_: int
    ensemble_: Ensemble

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Per row the label with most votes; ties go to the lowest class."""
        rows = self._rows(X)
        return self.classes_[self.ensemble_.predict_index(rows)]

    def _rows(self, X: npt.ArrayLike) -> FloatArray:
        check_is_fitted(self)
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
        if not np.isfinite(weight.sum()):
            raise InvalidInput(f"sample_weight adds up to {weight.sum()}; scale the weights down")
        if not weight.sum() > 0:
            raise InvalidInput("sample_weight is 0 for every row; give at least one row a positive weight")
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(f"y has one class only, {classes.tolist()[0]!r}; training needs at least two classes")
        names = getattr(self, "feature_names_in_", None)
        threat = bound_attacker(self.attacker, blank_ensemble(rows.shape[1], classes, names), rows)
        self.classes_ = classes
        return TrainingSet.of(rows, numbers.reshape(-1).astype(np.int64), len(classes), threat), weight, threat

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
