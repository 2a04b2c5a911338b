"""The loss of a tree under attack, leaf by leaf: the most that each row can be made to lose."""

from __future__ import annotations

import numpy as np

from treeproof.importers import LEAF
from treeproof.numbers.doubles import FloatArray, next_up
from treeproof.threat.threat import Threat
from treeproof.training._grow import GrownTree, TrainingSet


def loss_under_attack(tree: GrownTree, data: TrainingSet, weight: FloatArray, threat: Threat) -> float:
    """The weighted sum over rows of the largest loss at a leaf that the attacker can bring the row to."""
    worst = np.zeros(len(weight))
    # Every leaf reads all of it, and from records NumPy reads a field several times slower than from an array.
    reach = {name: np.ascontiguousarray(data.reach[name]) for name in data.reach.dtype.names or ()}
    todo = [(0, threat.domain_low, threat.domain_high)]
    while todo:
        node, low, high = todo.pop()
        f = int(tree.feature[node])
        if f == LEAF:
            loss = ((data.target - tree.scores[node]) ** 2).sum(axis=1)
            worst = np.where(_reaches(data, reach, low, high), np.maximum(worst, loss), worst)
            continue
        left_high, right_low = high.copy(), low.copy()
        left_high[f], right_low[f] = tree.threshold[node], next_up(tree.threshold[node])
        todo += [(int(tree.left[node]), low, left_high), (int(tree.right[node]), right_low, high)]
    return float(weight @ worst)


def _reaches(data: TrainingSet, reach: dict[str, FloatArray], low: FloatArray, high: FloatArray) -> np.ndarray:
    """Which rows an attack within the budget brings into the box."""
    price = np.zeros(len(data.label), dtype=np.int64)
    possible = np.ones(len(price), dtype=bool)
    for f in range(data.n_features):
        free = np.maximum(reach["near_low"][f], low[f]) <= np.minimum(reach["near_high"][f], high[f])
        paid = np.maximum(reach["low"][f], low[f]) <= np.minimum(reach["high"][f], high[f])
        price += np.where(free, 0, data.cost[f])
        possible &= free | paid
    return possible & (price <= data.budget)
