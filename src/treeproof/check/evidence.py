"""Checks counterexamples: membership by the definitions, with rational numbers; labels by a plain walk."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.check.membership import Column, columns_of, is_affordable, may_stand_for
from treeproof.check.model_file import class_of
from treeproof.check.named_groups import Seen
from treeproof.check.relations import satisfies
from treeproof.importers import as_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.model.groups import Group
from treeproof.model.per_feature import PerFeature
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Witness
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import as_epsilon, bind_around
from treeproof.threat.relations import Relations
from treeproof.threat.relations.grouping import groups_of


def is_witness(
    model: Any, attacker: Attacker, epsilon: Any, witness: Witness, relations: Relations | None = None
) -> bool:
    """Whether the witness holds: the neighbour is in N(x), the attack is in A(neighbour), and the label changes.

    With relations, both are valid rows, but for a neighbour that is the row itself. If the attacker has a goal, the
    label must change from one outside of it to one inside.

    Membership is decided by the definitions, with rational numbers; labels by a plain walk of the trees.
    """
    ensemble = as_ensemble(model)
    if not is_within_reach(ensemble, attacker, epsilon, witness, relations):
        return False
    before, after = (predict_row(ensemble, _doubles(ensemble, row)) for row in (witness.neighbour, witness.attacked))
    return before not in attacker.goal and after in attacker.goal if attacker.goal else bool(before != after)


def _doubles(ensemble: Ensemble, row: npt.NDArray[Any]) -> FloatArray:
    """A row as the model sees it: doubles, with codes for categories."""
    return ensemble.check_rows(row[None])[0] if np.asarray(row).dtype == object else np.asarray(row, dtype=np.float64)


def is_within_reach(
    ensemble: Ensemble, attacker: Attacker, epsilon: Any, witness: Witness, relations: Relations | None = None
) -> bool:
    """Whether the neighbour is in N(x) and the attack in A(neighbour), whatever their labels.

    With relations, both must be valid rows, but for a neighbour that is the row itself.
    """
    return Reach(ensemble, attacker, relations).holds(epsilon, witness)


class Reach:
    """Which rows are neighbours and what an attacker can make of them, on one model, by the definitions."""

    def __init__(self, ensemble: Ensemble, attacker: Attacker, relations: Relations | None = None) -> None:
        self._ensemble, self._attacker, self._relations = ensemble, attacker, relations
        self._groups = () if relations is None else groups_of(relations, ensemble)
        self._seen = Seen.by(attacker.named, ensemble, self._groups)
        attacker.bind(self._seen.ensemble)  # an attacker that does not fit the model is refused
        self._columns = columns_of(self._seen.ensemble, attacker)
        self._near: dict[Any, _Near] = {}

    def holds(self, epsilon: Any, witness: Witness) -> bool:
        """Whether a witness is within reach, as `is_within_reach` says."""
        ensemble, columns = self._ensemble, self._columns
        rows = [_doubles(ensemble, row) for row in (witness.x, witness.neighbour, witness.attacked)]
        if not all(row.shape == (ensemble.n_features,) for row in rows):
            return False
        if self._relations is not None and not _are_valid(ensemble, self._relations, columns, rows):
            return False
        spec = as_epsilon(0.0 if epsilon is None else epsilon)
        if spec not in self._near:
            self._near[spec] = _Near(spec, ensemble, self._groups)
        if not self._near[spec].holds(columns, rows[0], rows[1]):
            return False
        rows = self._seen.rows(rows)
        if not all(_is_accepted(self._seen.ensemble, columns, row) for row in rows):
            return False
        prices = {
            f: column.price(x, near, attacked)
            for f, (column, x, near, attacked) in enumerate(zip(columns, *(row.tolist() for row in rows), strict=True))
            if near != attacked and f not in self._seen.members
        }
        paid = {f: price for f, price in prices.items() if price is not None}
        return len(paid) == len(prices) and is_affordable(self._seen.ensemble, self._attacker, columns, paid)


class _Near:
    """Which rows are neighbours for one ε."""

    def __init__(self, epsilon: PerFeature[Any], ensemble: Ensemble, groups: Sequence[Group]) -> None:
        self._seen = Seen.by(epsilon.keys or (), ensemble, groups)
        bind_around(epsilon, self._seen.ensemble)  # an ε that does not fit the model is refused
        self._sizes, self._n = epsilon.bind(self._seen.ensemble, 0.0), ensemble.n_features
        self._categories = dict(self._seen.ensemble.categories)

    def holds(self, columns: list[Column], x: FloatArray, near: FloatArray) -> bool:
        """Whether a row is a neighbour of x."""
        pairs = zip(self._sizes, *(row.tolist() for row in self._seen.rows([x, near])), strict=True)
        for f, (size, a, b) in enumerate(pairs):
            if a == b or f in self._seen.members:
                continue
            if f >= self._n:
                is_near = may_stand_for(self._categories[f], size, a, b)
            else:
                is_near = columns[f].is_near(a, b, size)
            if not is_near:
                return False
        return True


def _are_valid(ensemble: Ensemble, relations: Relations, columns: list[Column], rows: list[FloatArray]) -> bool:
    """Whether the neighbour, unless it is the row itself, and the attacked row keep all relations."""
    x, near, attacked = rows
    stepped = {f for f, column in enumerate(columns[: ensemble.n_features]) if column.step is not None}
    asked = [attacked] if np.array_equal(x, near, equal_nan=True) else [near, attacked]
    return all(satisfies(ensemble, relations.given, row, stepped) for row in asked)


def _is_accepted(ensemble: Ensemble, columns: list[Column], row: FloatArray) -> bool:
    """Whether the model accepts every value and the domain contains it."""
    missing = np.isnan(row)
    if missing.any() and (not ensemble.handles_missing or missing[list(ensemble.no_missing)].any()):
        return False
    values = zip(row.tolist(), columns, strict=True)
    return all(math.isnan(value) or column.domain[0] <= value <= column.domain[1] for value, column in values)


def cuts_of(ensemble: Ensemble, node: int) -> list[float]:
    """The doubles after which the side of a test changes, in rising order."""
    more = ensemble.more[ensemble.more_start[node] : ensemble.more_start[node + 1]]
    return [float(ensemble.threshold[node]), *more.tolist()]


def goes_left(cuts: list[float], value: float) -> bool:
    """Whether a test with these cuts sends a number to the left: up to the first it does, then by turns."""
    return bisect_left(cuts, value) % 2 == 0


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
    said = {name: getattr(rule, name) for name in ("precision", "cut", "steepness")}
    label = class_of({**said, "decision": rule.decision.name.lower()}, [float(score) for score in scores])
    return ensemble.classes[label].item()
