"""An ensemble in the form that engines work on: integer cells, and scores in whole units with a stated slack."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision
from treeproof.numbers.doubles import FloatArray

MOST_UNITS = 56
"""All leaves together give at most 2 to this power, in whole units."""
MOST_WITH_PENALTY = 45
"""The same where leaves may be forbidden: far below what these are behind by."""


def compile_ensemble(ensemble: Ensemble, *, forbids: bool = False) -> tuple[Any, Any]:
    """The ensemble in the form that kernels work on, and what they need to score exactly.

    If it `forbids`, there are two more leaves, for trees that are added: one that gives nothing, and one that is
    forbidden.
    """
    from treeproof._kernels.model import NODE, Exact, Model

    grid, inner = ensemble.grid, ensemble.feature >= 0
    nodes = np.zeros(ensemble.n_nodes, dtype=NODE)
    for name in ("feature", "left", "right", "leaf", "nan_left"):
        nodes[name] = getattr(ensemble, name)
    nodes["cut"] = -1
    nodes["cut"][inner] = grid.cell_of_cut(ensemble.feature[inner], ensemble.threshold[inner])
    nodes["more"], nodes["end"] = ensemble.more_start[:-1], ensemble.more_start[1:]
    more = grid.cell_of_cut(ensemble.feature[ensemble.more_node], ensemble.more)
    value, offset, slack = whole_units(ensemble, MOST_WITH_PENALTY if forbids else MOST_UNITS)
    kind = _kinds(ensemble.leaf_scores)
    if forbids:
        value = np.concatenate((value, np.zeros((2, value.shape[1]), dtype=value.dtype)))
        kind = np.append(kind, [kind.max() + 1, kind.max() + 2]).astype(kind.dtype)
    rule = ensemble.rule
    model = Model(
        nodes,
        more,
        ensemble.roots,
        value,
        offset,
        slack,
        kind,
        int(ensemble.depths.max()),
        ensemble.n_trees,
        len(value) - 1 if forbids else -1,
    )
    exact = Exact(
        ensemble.leaf_scores,
        ensemble.base,
        rule.base_last,
        float(rule.divisor),
        int(rule.decision),
        float(rule.cut),
        float(rule.steepness),
        *_parts(ensemble),
    )
    return model, exact


def _parts(ensemble: Ensemble) -> tuple[FloatArray, FloatArray]:
    """At the last tree of each member its divisor and weight, elsewhere 0; empty where there are no members."""
    members = ensemble.rule.members
    parts = np.zeros((2, ensemble.n_trees if members else 0))
    ends = np.cumsum([member.n_trees for member in members], dtype=np.int64) - 1
    parts[:, ends] = np.array([[member.divisor, member.weight] for member in members]).reshape(-1, 2).T
    divisor, weight = parts.copy()
    for array in (divisor, weight):
        array.flags.writeable = False
    return divisor, weight


def _kinds(leaf_scores: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """A number for each leaf, shared by exactly the leaves with the same scores."""
    return np.unique(leaf_scores, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


def whole_units(ensemble: Ensemble, most: int = MOST_UNITS) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Leaf scores and offsets per class in whole units, and the slack within which only the exact scores decide.

    Whole numbers can be added and subtracted again without rounding. If the sums of two classes differ by more than
    the slack, the library's own rounded scores order them the same way: the slack covers every rounding of the library
    (its sums, division and probabilities) and of the units. Where all scores are whole numbers it is 0.
    """
    leaves, base, largest, step = _scores(ensemble)
    exponent = unit_exponent(ensemble, most)
    if exponent is None:
        return leaves.astype(np.int64), np.array([int(b) for b in base], dtype=np.int64), 0
    unit = 2.0**exponent
    rounding = 2 * (ensemble.n_trees + 8) * step * largest + _probability_slack(ensemble, largest, step)
    slack = min(rounding * unit * 1.01, 2.0 ** (most + 1))
    value = np.rint(leaves * unit).astype(np.int64)
    offset = np.array([round(b * Fraction(unit)) for b in base], dtype=np.int64)
    return value, offset, math.ceil(slack) + ensemble.n_trees + 2


def unit_exponent(ensemble: Ensemble, most: int = MOST_UNITS) -> int | None:
    """Scores times 2 to this power are in whole units; None where scores are whole numbers, and no sum is rounded."""
    rule = ensemble.rule
    leaves, base, largest, step = _scores(ensemble)
    plain = rule.decision in (Decision.ARGMAX, Decision.CUT)
    whole = not rule.members and (leaves == np.rint(leaves)).all() and all(b.denominator == 1 for b in base)
    if plain and whole and largest < min(0.01 / step, 2.0**most):
        return None
    return most - math.ceil(math.log2(max(largest, 2.0**-900)))


def _scores(ensemble: Ensemble) -> tuple[FloatArray, list[Fraction], float, float]:
    """Leaf scores and offsets per class, what no sum of them exceeds, and the share by which sums are rounded."""
    rule = ensemble.rule
    leaves = ensemble.leaf_shares
    base = [Fraction(float(b)) * (Fraction(rule.divisor) if rule.base_last else 1) for b in ensemble.base]
    if rule.decision == Decision.CUT:
        # One score against a cut: class 0 has score 0, class 1 the score minus the cut.
        leaves = np.column_stack((np.zeros(len(leaves)), leaves))
        base = [Fraction(0), base[0] - Fraction(rule.cut) * Fraction(rule.divisor)]
    per_node = np.zeros(ensemble.n_nodes)
    per_node[ensemble.feature < 0] = np.abs(leaves).max(axis=1)
    largest = float(np.maximum.reduceat(per_node, ensemble.roots).sum()) + float(max(abs(b) for b in base))
    return leaves, base, largest, 2.0**-53 if rule.precision == "float64" else 2.0**-24


def _probability_slack(ensemble: Ensemble, largest: float, step: float) -> float:
    """How far apart two sums can be while their probabilities still round to the same number, in units of the sums."""
    rule = ensemble.rule
    if rule.decision == Decision.SOFTMAX:
        # exp and the division are each off by a few steps, relative to probabilities.
        return 32 * step * rule.divisor
    if rule.decision == Decision.SIGMOID:
        # A sigmoid is flat far out: its slope at s is at least exp(-|steepness * s|) / 4.
        flat = min(rule.steepness * largest / rule.divisor, 600.0)
        return 64 * step * math.exp(flat) / rule.steepness * rule.divisor
    return 0.0
