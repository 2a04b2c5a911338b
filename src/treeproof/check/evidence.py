"""Checks counterexamples: membership by the definitions, with rational numbers; labels by a plain walk."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.importers import as_ensemble
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Witness
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import bind_epsilon
from treeproof.threat.threat import Threat


def is_witness(model: Any, attacker: Attacker, epsilon: Any, witness: Witness) -> bool:
    """Whether the witness holds: the neighbour is in N(x), the attack is in A(neighbour), and the label changes.

    Membership is decided by the definitions, with rational numbers; labels by a plain walk of the trees.
    """
    ensemble = as_ensemble(model)
    return is_within_reach(ensemble, attacker, epsilon, witness) and (
        predict_row(ensemble, _doubles(ensemble, witness.neighbour))
        != predict_row(ensemble, _doubles(ensemble, witness.attacked))
    )


def _doubles(ensemble: Ensemble, row: npt.NDArray[Any]) -> FloatArray:
    """A row as the model sees it: doubles, with codes for categories."""
    return ensemble.check_rows(row[None])[0] if np.asarray(row).dtype == object else np.asarray(row, dtype=np.float64)


def is_within_reach(ensemble: Ensemble, attacker: Attacker, epsilon: Any, witness: Witness) -> bool:
    """Whether the neighbour is in N(x) and the attack in A(neighbour), whatever their labels."""
    threat = attacker.bind(ensemble)
    rows = [_doubles(ensemble, row) for row in (witness.x, witness.neighbour, witness.attacked)]
    if not all(row.shape == (ensemble.n_features,) and _is_accepted(ensemble, threat, row) for row in rows):
        return False
    x, near, attacked = rows
    reach = bind_epsilon(0.0 if epsilon is None else epsilon, ensemble)
    return _in_neighbourhood(reach, x, near) and _in_attack(ensemble, attacker, near, attacked)


def _is_accepted(ensemble: Ensemble, threat: Threat, row: FloatArray) -> bool:
    """Whether the model accepts every value and the domain contains it."""
    missing = np.isnan(row)
    if missing.any() and (not ensemble.handles_missing or missing[list(ensemble.no_missing)].any()):
        return False
    return bool((missing | ((threat.domain_low <= row) & (row <= threat.domain_high))).all())


def _differing(a: FloatArray, b: FloatArray) -> list[int]:
    """The features whose values differ; a NaN equals a NaN."""
    features: list[int] = np.flatnonzero((a != b) & ~(np.isnan(a) & np.isnan(b))).tolist()
    return features


def _in_neighbourhood(reach: FloatArray, x: FloatArray, near: FloatArray) -> bool:
    for f in _differing(x, near):
        a, b = float(x[f]), float(near[f])
        if math.isnan(a) or math.isnan(b):
            return False
        if math.isfinite(reach[f]) and abs(Fraction(b) - Fraction(a)) > Fraction(float(reach[f])):
            return False
    return True


def _in_attack(ensemble: Ensemble, attacker: Attacker, near: FloatArray, attacked: FloatArray) -> bool:
    intervals = attacker.intervals.bind(ensemble, (0.0, 0.0))
    costs = attacker.costs.bind(ensemble, 1)
    units = attacker.scale.bind(ensemble, 1.0)
    categories = dict(ensemble.categories)
    spent = Fraction(0)
    for f in _differing(near, attacked):
        a, b = float(near[f]), float(attacked[f])
        if math.isnan(a) or math.isnan(b):
            return False
        moved = Fraction(b) - Fraction(a)
        low, high = intervals[f]
        category = categories.get(f)
        if category is not None and ((low, high) != (-math.inf, math.inf) or not _is_known(category, b)):
            return False  # a category becomes anything that the model knows, or stays what it is
        if attacker.power is not None:
            if (low, high) == (0.0, 0.0):
                return False
            spent += abs(moved / Fraction(units[f])) ** attacker.power
        elif (math.isinf(low) or moved >= Fraction(low)) and (math.isinf(high) or moved <= Fraction(high)):
            spent += costs[f]
        else:
            return False
    if attacker.power is not None:
        return spent <= Fraction(attacker.radius) ** attacker.power
    return attacker.budget is None or spent <= attacker.budget


def cuts_of(ensemble: Ensemble, node: int) -> list[float]:
    """The doubles after which the side of a test changes, in rising order."""
    more = ensemble.more[ensemble.more_start[node] : ensemble.more_start[node + 1]]
    return [float(ensemble.threshold[node]), *more.tolist()]


def goes_left(cuts: list[float], value: float) -> bool:
    """Whether a test with these cuts sends a number to the left: up to the first it does, then by turns."""
    return bisect_left(cuts, value) % 2 == 0


def _is_known(category: Category, number: float) -> bool:
    """Whether a double of a row is one that stands for a value of the category that the model knows."""
    if category.coded:
        return number.is_integer() and 0 <= number < len(category.values)
    return number in category.values


def predict_row(ensemble: Ensemble, x: FloatArray) -> Any:
    """The label of one row by a plain walk, adding scores in the library's order and precision."""
    rule = ensemble.rule
    number = np.dtype(rule.precision).type
    parts = iter(rule.members)
    left_of_part, divisor, weight = next(parts, (0, 1.0, 1.0))
    total = [0.0] * ensemble.n_scores
    scores = [number(0) if rule.base_last else number(base) for base in ensemble.base]
    for root in ensemble.roots.tolist():
        node = root
        while ensemble.feature[node] >= 0:
            value = float(x[ensemble.feature[node]])
            left = bool(ensemble.nan_left[node]) if math.isnan(value) else goes_left(cuts_of(ensemble, node), value)
            node = int(ensemble.left[node] if left else ensemble.right[node])
        leaf = ensemble.leaf_scores[ensemble.leaf[node]]
        scores = [number(score + part) for score, part in zip(scores, leaf, strict=True)]
        left_of_part -= 1
        if left_of_part == 0:
            total = [one + score / divisor * weight for one, score in zip(total, map(float, scores), strict=True)]
            left_of_part, divisor, weight = next(parts, (0, 1.0, 1.0))
            scores = [0.0] * ensemble.n_scores
    if rule.members:
        scores = [number(score) for score in total]
    scores = [number(float(score) / float(rule.divisor)) for score in scores]
    if rule.base_last:
        scores = [number(score + number(base)) for score, base in zip(scores, ensemble.base, strict=True)]
    return ensemble.classes[_class_of(rule, scores, number)].item()


def _class_of(rule: Any, scores: list[Any], number: Any) -> int:
    if rule.decision == Decision.CUT:
        return int(float(scores[0]) > rule.cut)
    if rule.decision == Decision.SOFTMAX:
        powers = [number(math.exp(float(number(score - max(scores))))) for score in scores]
        total = number(sum(float(power) for power in powers))
        scores = [number(power / total) for power in powers]
    elif rule.decision == Decision.SIGMOID:
        scores = [number(_sigmoid(rule.steepness * float(score))) for score in scores]
    return scores.index(max(scores))


def _sigmoid(x: float) -> float:
    try:
        return 1.0 / (1.0 + math.exp(-x))
    except OverflowError:
        return 0.0
