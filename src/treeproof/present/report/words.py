"""The attacker, and what was proved, in plain language."""

from __future__ import annotations

import math

import numpy as np

from treeproof.results.markup import number, percent
from treeproof.results.verdicts import Bounds, Outcome
from treeproof.results.verification import Verification
from treeproof.threat.attacker import Attacker
from treeproof.threat.threat import Threat

NORMS = {1: "L1 (sum of moves)", 2: "Euclidean (L2)"}


def attacker_in_words(attacker: Attacker, threat: Threat) -> str:
    """One or two sentences about what the attacker may do."""
    touchable = (threat.low != 0) | (threat.high != 0)
    n, of = int(touchable.sum()), len(touchable)
    if n == 0 or (threat.power is None and threat.budget == 0):
        return "The attacker cannot change anything."
    who = "any feature" if n == of else f"{n} of the {of} features" if n > 1 else "one feature"
    if threat.power is not None:
        norm = NORMS.get(threat.power, f"L{threat.power}")
        sentence = (
            f"The attacker may move {who}; all moves together cover at most {number(threat.radius)} in {norm} distance."
        )
        if (threat.unit != 1).any():
            sentence = f"{sentence[:-1]}, each feature in its own unit."
    else:
        sentence = f"The attacker may move {who} {_how_far(threat, touchable)}{_how_many(threat, touchable)}."
    if attacker.domain is not None:
        sentence += " Values stay inside their given domain."
    return sentence


def _how_far(threat: Threat, touchable: np.ndarray) -> str:
    ends = {(float(low), float(high)) for low, high in zip(threat.low[touchable], threat.high[touchable], strict=True)}
    if len(ends) > 1:
        return "within its own interval" if touchable.all() else "within their own intervals"
    ((low, high),) = ends
    if math.isinf(low) and math.isinf(high):
        return "to any value"
    if low == -high:
        return f"by up to {number(high)} either way"
    if low == 0:
        return "up to any value above" if math.isinf(high) else f"up by at most {number(high)}"
    if high == 0:
        return "down to any value below" if math.isinf(low) else f"down by at most {number(-low)}"
    return f"by {number(low)} to {number(high)}"


def _how_many(threat: Threat, touchable: np.ndarray) -> str:
    costs = threat.cost[touchable]
    if threat.budget >= int(costs.sum()):
        return ", any number of them at once" if touchable.sum() > 1 else ""
    if (costs == 1).all():
        return f", at most {threat.budget} of them at once" if threat.budget > 1 else ", one of them at a time"
    return f", at a cost of {costs.min()} to {costs.max()} each, within a budget of {threat.budget}"


def summary(result: Verification) -> str:
    """The first sentences of the report."""
    n, correct = len(result), int(result.correct.sum())
    robust = result.robustness_outcomes
    broken = int(((robust == Outcome.REFUTED) & result.correct).sum())
    parts = [f"The model labels {correct:,} of {n:,} rows correctly."]
    if broken:
        parts.append(
            f"The attacker can flip {broken:,} of these to a wrong label; the report shows how, for each of them."
        )
    elif not (robust == Outcome.UNKNOWN).any():
        parts.append("The attacker can flip none of these: that is proved.")
    if result.epsilons:
        fragile = int(((robust == Outcome.PROVED) & (result.resilience_by_epsilon[0] == Outcome.REFUTED)).sum())
        if fragile:
            are = (
                "is robust only by the luck of the sample: it"
                if fragile == 1
                else "are robust only by the luck of the sample: each"
            )
            parts.append(f"{fragile:,} more {are} has a neighbour that the attacker can flip.")
    undecided = int((robust == Outcome.UNKNOWN).sum())
    if undecided:
        parts.append(f"{undecided:,} rows were not decided in time.")
    return " ".join(parts)


def decided(bounds: Bounds) -> str:
    """Whether a measure is exact and, if not, how much is open."""
    if bounds.exact:
        return "Exact: every row was decided."
    return f"Bounds: {percent(bounds.upper - bounds.lower)} of the rows were not decided in time."


def share(bounds: Bounds) -> str:
    """A measure in percent."""
    return percent(bounds.lower) if bounds.exact else f"{percent(bounds.lower)} to {percent(bounds.upper)}"
