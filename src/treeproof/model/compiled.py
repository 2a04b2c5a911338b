"""An ensemble in the form that engines work on: integer cells, and scores in whole units with a stated slack."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import UnsupportedModel
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import frozen
from treeproof.model.score_rule import Decision
from treeproof.numbers.doubles import FloatArray

MOST_UNITS = 56
"""All leaves together give at most 2 to this power, in whole units."""
MOST_WITH_PENALTY = 45
"""The same where leaves may be forbidden: far below what these are behind by."""
MOST_TREES = 2**18
"""Nothing is said about what the sums of more trees round to."""


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
    return frozen(parts[0]), frozen(parts[1])


def _kinds(leaf_scores: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """A number for each leaf, shared by exactly the leaves with the same scores."""
    return np.unique(leaf_scores, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


class Sums(NamedTuple):
    """What an ensemble adds up before scores are divided, per class."""

    leaves: FloatArray
    base: list[Fraction]
    """Where one score decides, the cut is taken off."""
    largest: float
    """No sum of the library is farther from 0 at any time, but for rounding; nor is a sum of the largest scores."""
    largest_of_class: float
    """The same of single classes, each with what is added to its own sum."""
    n_added: int
    """How many trees add anything to the sum of one class, at most: adding 0 rounds nothing."""
    step: float
    """The share of a number by which it is rounded at most."""
    is_whole: bool
    """Whether no sum is ever rounded, so that equal scores are equal and others are not."""


def whole_units(ensemble: Ensemble, most: int = MOST_UNITS) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Leaf scores and offsets per class in whole units, and the slack within which only the exact scores decide.

    Whole numbers can be added and subtracted again without rounding. If the sums of two classes differ by more than
    the slack, the library's own rounded scores order them the same way: the slack covers every rounding of the library
    (its sums, division and probabilities) and of the units. Where all scores are whole numbers it is 0.
    """
    sums = _sums(ensemble)
    exponent = unit_exponent(ensemble, most)
    if exponent is None:
        return sums.leaves.astype(np.int64), np.array([int(b) for b in sums.base], dtype=np.int64), 0
    unit = 2.0**exponent
    slack = min(_rounding(ensemble, sums) * unit * 1.01, 2.0 ** (most + 1))
    value = np.rint(sums.leaves * unit).astype(np.int64)
    offset = np.array([round(b * Fraction(unit)) for b in sums.base], dtype=np.int64)
    return value, offset, math.ceil(slack) + ensemble.n_trees + 2


def unit_exponent(ensemble: Ensemble, most: int = MOST_UNITS) -> int | None:
    """Scores times 2 to this power are in whole units; None where scores are whole numbers, and no sum is rounded."""
    sums = _sums(ensemble)
    if sums.is_whole and sums.largest < 2.0**most:
        return None
    return most - math.ceil(math.log2(max(sums.largest, 2.0**-900)))


def _sums(ensemble: Ensemble) -> Sums:
    rule = ensemble.rule
    leaves, step = ensemble.leaf_shares, 2.0**-53 if rule.precision == "float64" else 2.0**-24
    base = [Fraction(float(b)) * (Fraction(rule.divisor) if rule.base_last else 1) for b in ensemble.base]
    # Sums begin at the base and end near the cut: each of them counts, however close they are to each other.
    cut = Fraction(rule.cut) * Fraction(rule.divisor) if rule.decision == Decision.CUT else Fraction(0)
    numbers = [*base, cut]
    farthest = max(abs(b) for b in base) + abs(cut)
    if rule.decision == Decision.CUT:
        # One score against a cut: class 0 has score 0, class 1 the score minus the cut.
        leaves = np.column_stack((np.zeros(len(leaves)), leaves))
        base = [Fraction(0), base[0] - cut]
    per_node = np.zeros((ensemble.n_nodes, leaves.shape[1]))
    per_node[ensemble.feature < 0] = np.abs(leaves)
    per_tree = np.maximum.reduceat(per_node, ensemble.roots)
    with np.errstate(over="ignore"):
        largest = float(per_tree.max(axis=1).sum()) + float(farthest)
        largest_of_class = float(per_tree.sum(axis=0).max()) + float(farthest)
    if math.isinf(largest):
        raise UnsupportedModel("the scores of all trees add up to more than a double holds; scale them down")
    plain = rule.decision in (Decision.ARGMAX, Decision.CUT) and not rule.members
    # A base that is added to a rounded quotient may round two equal scores apart.
    divided = rule.divisor != 1 and ((rule.base_last and ensemble.base.any()) or not 2.0**-60 < rule.divisor < 2.0**60)
    whole = bool((leaves == np.rint(leaves)).all()) and all(number.denominator == 1 for number in numbers)
    # A member's sum is divided and weighted, whether or not its trees add anything.
    n_added = ensemble.n_trees if rule.members else int((per_tree > 0).sum(axis=0).max())
    is_whole = plain and whole and not divided and largest < 0.01 / step
    return Sums(leaves, base, largest, largest_of_class, n_added, step, is_whole)


def _rounding(ensemble: Ensemble, sums: Sums) -> float:
    """How far apart two sums can be while the library may order them otherwise; infinite where they may overflow."""
    rule, step, largest = ensemble.rule, sums.step, sums.largest
    raw = float(np.abs(ensemble.leaf_scores).max()) * ensemble.n_trees
    parts = [raw / member.divisor for member in rule.members]
    single = rule.precision == "float32"
    if ensemble.n_trees > MOST_TREES or max(largest, largest / rule.divisor, raw, *parts) > 2.0 ** (
        120 if single else 1000
    ):
        return math.inf
    # Quotients and products below all normal numbers are rounded by the least of all numbers.
    least = 2.0 ** (-149 if single else -1074) * (rule.divisor + sum(1 + member.weight for member in rule.members))
    own = sums.largest_of_class
    return 2 * (sums.n_added + 8) * step * own + 2 * least + _probability_slack(ensemble, own, step)


def _probability_slack(ensemble: Ensemble, largest: float, step: float) -> float:
    """How far apart two sums can be while their probabilities still round to the same number, in units of the sums."""
    rule = ensemble.rule
    if rule.decision == Decision.SOFTMAX:
        # exp and the division are each off by a few steps, relative to probabilities.
        return 32 * step * rule.divisor
    if rule.decision == Decision.SIGMOID:
        # A sigmoid is flat far out: the slope of its logarithm at s is at least exp(-|steepness * s|) / 2.
        flat = rule.steepness * largest / rule.divisor
        too_flat = flat >= 600 or rule.steepness > 2.0**60
        return math.inf if too_flat else 64 * step * math.exp(flat) / rule.steepness * rule.divisor
    return 0.0
