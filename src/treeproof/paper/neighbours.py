"""Test sets that could have been sampled instead: some at random, and the extremes over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import treeproof as tp
from treeproof.paper.workbench import finished

Rows = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def box(X: Rows, epsilon: float) -> tuple[Rows, Rows]:
    """The lowest and the highest doubles of N(x) for each row: those within ε of x, in exact arithmetic."""
    low, high = X - epsilon, X + epsilon
    low = np.where(_error(X, -epsilon, low) > 0, np.nextafter(low, np.inf), low)
    return low, np.where(_error(X, epsilon, high) < 0, np.nextafter(high, -np.inf), high)


def _error(a: Rows, b: float, rounded: Rows) -> Rows:
    """What rounding took from a + b, exactly (Knuth's TwoSum)."""
    part = rounded - a
    return np.asarray((a - (rounded - part)) + (b - part))


def sampled(X: Rows, epsilon: float, n: int, seed: int = 0) -> Rows:
    """n test sets (n, rows, features), each row replaced by a neighbour drawn uniformly from N(x)."""
    low, high = box(X, epsilon)
    drawn = np.random.default_rng(seed).uniform(-epsilon, epsilon, (n, *X.shape))
    return np.asarray(np.clip(X + drawn, low, high))


@dataclass(frozen=True, eq=False)
class Sampled:
    """Which rows of sampled test sets are labelled correctly, and which are robust; (sets, rows)."""

    correct: Flags
    robust: Flags

    @classmethod
    def of(cls, smap: tp.StabilityMap, X: Rows, y: npt.NDArray[np.int64], epsilon: float, n: int) -> Sampled:
        """Judges n sampled test sets with a complete map of the model, which decides every point exactly."""
        sets = sampled(X, epsilon, n)
        flat = sets.reshape(-1, X.shape[1])
        correct = smap.ensemble.predict(flat).reshape(n, -1) == y
        return cls(correct, correct & smap.is_stable(flat).reshape(n, -1))

    @property
    def unluckiest(self) -> float:
        """r̄: the robustness of the test set that takes the worst of the sampled neighbours for each row."""
        return float(self.robust.all(axis=0).mean())


@dataclass(frozen=True)
class Extremes:
    """The lowest and highest accuracy and robustness over all test sets whose rows are neighbours of the given ones."""

    a_min: float
    a_max: float
    r_min: float
    r_max: tp.Bounds


def extremes(
    model: tp.Ensemble,
    attacker: tp.Attacker,
    X: Rows,
    y: npt.NDArray[np.int64],
    epsilon: float,
    robust_seen: Flags,
    jobs: int,
) -> Extremes:
    """The exact range over all neighbouring test sets, for a model with two classes.

    Rows are replaced independently, so the extremes are shares of rows. All of N(x) is right if x is correct and stable
    under an attacker who moves every feature by up to ε; some of it is right if x is correct, or unstable under that
    attacker. All of N(x) is robust if x is resilient (the attacker can nudge every feature, so a label that changed
    within N(x) would show as an unstable neighbour). Whether some of it is robust is searched for in a stability map of
    N(x) alone, unless x is robust or `robust_seen` says that a robust neighbour was drawn.
    """
    if len(model.classes) != 2:
        raise tp.InvalidInput(f"the model has {len(model.classes)} classes; extremes are known for two only")
    shaken = finished(tp.verify(model, X, y, tp.Attacker.linf(epsilon), n_jobs=jobs))
    attacked = finished(tp.verify(model, X, y, attacker, epsilon=epsilon, n_jobs=jobs))
    robust = attacked.robustness_outcomes == tp.Outcome.PROVED
    low, high = box(X, epsilon)
    found = np.where(robust | robust_seen, tp.Outcome.PROVED, tp.Outcome.UNKNOWN)
    for i in np.flatnonzero(found == tp.Outcome.UNKNOWN):
        found[i] = _robust_point(model, attacker, low[i], high[i], y[i])
    return Extremes(
        a_min=float(shaken.robustness),
        a_max=float((shaken.correct | (shaken.stability == tp.Outcome.REFUTED)).mean()),
        r_min=float(attacked.resilience),
        r_max=tp.Bounds.of(found.astype(np.int8)),
    )


def _robust_point(model: tp.Ensemble, attacker: tp.Attacker, low: Rows, high: Rows, label: int) -> tp.Outcome:
    """Whether some point of the box [low, high] has the label and keeps it under attack."""
    # Boxes of a map are `low < x <= high`, and only those with a volume are rules. One more double below each end gives
    # every part of the box a volume; the part of the map that is outside the box then has none.
    domain = np.column_stack((np.nextafter(low, -np.inf), high)).tolist()
    smap = finished(tp.StabilityMap.build(model, attacker, domain=domain, n_jobs=1))
    n_stable = smap.counts[tp.Status.STABLE]
    rules = smap.rules(top=n_stable) if n_stable else []
    if any(rule.label == label for rule in rules):
        return tp.Outcome.PROVED
    return tp.Outcome.REFUTED if smap.complete and len(rules) == n_stable else tp.Outcome.UNKNOWN
