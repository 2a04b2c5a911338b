"""ε that leads to no neighbour is refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp


def test_an_epsilon_below_the_step_of_its_column_is_refused() -> None:
    X = np.arange(8.0)[:, None]
    clf = DecisionTreeClassifier().fit(X, X[:, 0] > 3)
    attacker = tp.Attacker({0: tp.steps(-1, 1, 0.5)})
    with pytest.raises(tp.InvalidInput, match=r"ε is 0.4 in column 0, which moves in steps of 0.5: nothing is so near"):
        tp.verify(clf, X, X[:, 0] > 3, attacker, epsilon={0: 0.4})
    # One ε for all columns may be too small for some of them.
    assert tp.verify(clf, X, X[:, 0] > 3, attacker, epsilon=0.4).resilience == tp.Bounds(0.75, 0.75)
    assert tp.verify(clf, X, X[:, 0] > 3, attacker, epsilon={0: 0.5}).resilience.upper < 0.75
