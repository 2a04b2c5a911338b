"""What robust models share: checked rows with numbers and categories, and predictions through an exact Ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from treeproof.errors import InvalidInput
from treeproof.importers import EnsembleBuilder
from treeproof.model.builder import blank_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.attacker import Attacker
from treeproof.threat.one_hot import bind_neighbours
from treeproof.training._columns import coded_frame
from treeproof.training._grow import GrownTree
from treeproof.training._rows import MOST_BINS, IntArray, TrainingSet
from treeproof.training._settings import bound_attacker, check_fraction, check_whole


@dataclass(eq=False, repr=False, kw_only=True)
class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The base of the estimators, with the settings of all: `ensemble_` decides, and is what `from_model` returns."""

    attacker: Attacker = field(kw_only=False)
    epsilon: Any = None
    max_depth: int | None = None
    min_samples_split: float = 2
    min_samples_leaf: float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: Any = None
    max_bins: int = 1024
    class_weight: Any = None
    random_state: Any = None

    classes_: npt.NDArray[Any] = field(init=False)
    n_features_in_: int = field(init=False)
    ensemble_: Ensemble = field(init=False)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label of each row; ties go to the lowest class."""
        rows = self._rows(X)
        return self.classes_[self.ensemble_.predict_index(rows)]

    def __sklearn_tags__(self) -> Any:
        """Missing values are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _rows(self, X: Any) -> FloatArray:
        """Rows as doubles, as the ensemble takes them."""
        check_is_fitted(self, "ensemble_")
        if self.ensemble_.categories and hasattr(X, "dtypes"):
            return self.ensemble_.check_rows(X)
        allowed = "allow-nan" if self.ensemble_.may_be_missing.any() else True
        rows: FloatArray = validate_data(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=allowed)
        return rows

    def _training_set(
        self,
        X: Any,
        y: npt.ArrayLike,
        sample_weight: npt.ArrayLike | None,
        held_by: np.random.RandomState | None = None,
        alone_too: bool = False,
    ) -> tuple[TrainingSet, FloatArray, tuple[Any, ...]]:
        """Checks what `fit` was given, sets `classes_`, and binds the attacker to the columns.

        Returns training rows, their weights, and (X, y, weights) of rows that are held out, none without `held_by`.
        With `alone_too`, rows that have neighbours stand there twice: with these, then without, for half their weight.
        """
        given, categories = coded_frame(X)
        rows, labels = validate_data(self, given, y, dtype=np.float64, order="C", ensure_all_finite="allow-nan")
        check_classification_targets(labels)
        weight = self._weights(sample_weight, rows, labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(f"y has only one class, {classes.tolist()[0]!r}; training needs at least two")
        names = getattr(self, "feature_names_in_", None)
        blank = blank_ensemble(rows.shape[1], classes, names, categories=categories, handles_missing=True)
        threat = bound_attacker(self.attacker, blank, rows)
        threat, (around,) = bind_neighbours([0.0 if self.epsilon is None else self.epsilon], blank, threat)
        self.classes_ = classes
        self._categories = categories
        self._takes_missing = bool(np.isnan(rows).any() or threat.blanks)
        bins = check_whole(self.max_bins, "max_bins", least=2)
        if bins > MOST_BINS:
            raise InvalidInput(f"max_bins must be at most {MOST_BINS}, got {bins}", argument="max_bins")
        label = numbers.reshape(-1).astype(np.int64)
        held_out: tuple[Any, ...] = ()
        if held_by is not None:
            kept, held = self._split(label, weight, held_by)
            held_out = (_safe_indexing(X, held), labels[held], weight[held])
            rows, label, weight = rows[kept], label[kept], weight[kept]
        epsilons = [around.sizes, np.zeros_like(around.sizes)][: 1 + (alone_too and bool(around.sizes.any()))]
        data = TrainingSet.of(rows, label, len(classes), threat, epsilons, bins, categories, weight > 0)
        return data, np.concatenate([weight / len(epsilons)] * len(epsilons)), held_out

    def _weights(self, sample_weight: npt.ArrayLike | None, rows: FloatArray, labels: npt.NDArray[Any]) -> FloatArray:
        """Weights of rows, times those of their classes."""
        weight: FloatArray = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        if (weight < 0).any():
            row = int(np.argmax(weight < 0))
            raise InvalidInput(f"sample_weight of row {row} is {weight[row]}; weights must be at least 0")
        if self.class_weight is not None:
            if not isinstance(self.class_weight, (str, Mapping)):
                raise InvalidInput(
                    f"class_weight must be None, 'balanced' or a dict of weights by class, got {self.class_weight!r}",
                    argument="class_weight",
                )
            of_classes = compute_sample_weight(self.class_weight, labels)
            if not (of_classes >= 0).all():
                worst = of_classes[np.argmin(of_classes >= 0)]
                raise InvalidInput(
                    f"class_weight has a weight of {worst}; weights must be at least 0", argument="class_weight"
                )
            weight = weight * of_classes
        with np.errstate(over="ignore"):
            total = float(weight.sum())
        if not np.isfinite(total):
            raise InvalidInput(f"the weights of rows and classes add up to {total}; scale them down")
        if total == 0:
            raise InvalidInput("every row has a weight of 0; let sample_weight and class_weight leave some more")
        if total < np.finfo(np.float64).tiny:
            raise InvalidInput(f"the weights of rows and classes add up to {total}; scale them up")
        return weight

    def _split(self, label: IntArray, weight: FloatArray, random: np.random.RandomState) -> list[IntArray]:
        """The numbers of training rows and of validation rows, a share of every class; rows have weight."""
        share = check_fraction(self.validation_fraction, "validation_fraction")
        some = np.flatnonzero(weight > 0)
        try:
            return list(train_test_split(some, test_size=share, stratify=label[some], random_state=random))
        except ValueError:
            fewest = int(np.unique(label[some], return_counts=True)[1].min())
            raise InvalidInput(
                f"validation_fraction={share:g} cannot hold out rows of every class: there are {len(some)} rows, and "
                f"{fewest} of the rarest class",
                argument="validation_fraction",
                way_out="give more rows or another share, or hold none out",
            ) from None

    def _builder(self, **more: Any) -> EnsembleBuilder:
        """What the trees of this model are put into."""
        return EnsembleBuilder(
            n_features=self.n_features_in_,
            classes=self.classes_,
            feature_names=getattr(self, "feature_names_in_", None),
            handles_missing=self._takes_missing,
            categories=self._categories,
            takes_frames=bool(self._categories),
            origin=f"treeproof {type(self).__name__}",
            **more,
        )

    def _voting_ensemble(
        self, trees: Sequence[GrownTree], votes: Sequence[int] | None = None, soft: bool = False
    ) -> Ensemble:
        """The trees as a model in which each casts one vote, or as many as are given; soft ones go to all classes."""
        builder = self._builder()
        for tree, number in zip(trees, votes or [1] * len(trees), strict=True):
            if number:
                add_tree(builder, tree, number * (tree.probabilities if soft else tree.votes))
        return builder.build()


def add_tree(builder: EnsembleBuilder, tree: GrownTree, scores: FloatArray) -> None:
    """Adds a tree with these scores (n_nodes, n_scores)."""
    builder.add_tree(
        feature=tree.feature,
        threshold=tree.threshold,
        left=tree.left,
        right=tree.right,
        nan_left=tree.nan_left,
        pieces=tree.pieces,
        scores=scores,
    )
