"""RobustTreeClassifier: one decision tree with little loss under attack."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from treeproof.importers import LEAF
from treeproof.numbers.doubles import FloatArray
from treeproof.training._base import RobustClassifier
from treeproof.training._grow import Grower, GrownTree, GrowthLimits
from treeproof.training._leaves import Leaves
from treeproof.training._rows import TrainingSet
from treeproof.training._settings import limits_of


@dataclass(eq=False, repr=False, kw_only=True)
class RobustTreeClassifier(RobustClassifier):
    """A decision tree trained against an attacker; every split minimises the loss under attack.

    `criterion="treant"` keeps attack invariants, so that `loss_under_attack_`, the mean squared loss of the training
    rows when each is attacked in the worst way, is what training minimised step by step. `criterion="groot"` only lets
    each row follow the attacker's choice at every split. With `epsilon` (one number, one per feature, or by feature),
    training is for resilience: a row's loss is the worst over attacks on everything within epsilon of it.
    `max_features` limits the features that a split considers. Any attacker with intervals, costs and a budget will do.

    >>> import treeproof as tp
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, attacker = minmax_scale(X), tp.Attacker.linf(0.05)
    >>> tree = RobustTreeClassifier(attacker, max_depth=4).fit(X, y)
    >>> float(tp.verify(tree, X, y, attacker).robustness) > 0.85
    True
    """

    criterion: str = "treant"

    tree_: GrownTree = field(init=False)
    loss_under_attack_: float = field(init=False)
    """The weighted mean, over the training rows, of the largest loss that an attack can cause."""

    def fit(
        self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> RobustTreeClassifier:
        """Trains on rows X with labels y; a row counts as often as its weight says."""
        data, weight, _ = self._training_set(X, y, sample_weight)
        limits = limits_of(self, len(weight), self.n_features_in_)
        return self._grow(data, weight, limits, check_random_state(self.random_state))

    def _grow(
        self,
        data: TrainingSet,
        weight: FloatArray,
        limits: GrowthLimits,
        random: np.random.RandomState,
    ) -> RobustTreeClassifier:
        self.tree_ = Grower(data, weight, limits, random).grow()
        loss = self.tree_.loss
        if not limits.invariants:
            leaves = Leaves(self.tree_, data)
            scores = self.tree_.scores[leaves.nodes]
            for head, wants in enumerate(np.where(data.target.T == 1, 1.0, -1.0)):
                scores[:, head] = leaves.refitted(scores[:, head], wants, weight, limits.terms(float(weight.sum())))
            self.tree_.scores[leaves.nodes] = scores
            loss = leaves.loss_under_attack(scores, weight)
        self.loss_under_attack_ = loss / float(weight.sum())
        self.ensemble_ = self._voting_ensemble([self.tree_])
        return self

    def predict_proba(self, X: npt.ArrayLike) -> FloatArray:
        """The share of each class, for each row, that training under attack gave the row's leaf."""
        leaf = self.apply(X)
        return self.tree_.probabilities[leaf]

    def apply(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The node number of each row's leaf in `tree_`."""
        rows = self._rows(X)
        return self.tree_.apply(rows)

    def get_depth(self) -> int:
        """The longest path, in edges."""
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """The number of leaves."""
        return int((self.tree_.feature == LEAF).sum())
