"""What was proved, in plain language."""

from __future__ import annotations

from treeproof.results.markup import percent
from treeproof.results.verdicts import Bounds, Outcome
from treeproof.results.verification import Verification


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
