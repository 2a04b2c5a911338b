"""Hypothesis strategies for tiny exact cases: models, attackers, points and neighbourhoods that meet at thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.support import oracles
from tests.support.oracles import OracleAttacker
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule

MAX_DEPTH = 3

THRESHOLDS = (
    0.0, 1.0, -1.0, 0.5, 0.1, 0.3, -0.7, 2.0, 7.0, 8.0, 10.0, 0.1, 0.3, 1.0,
    5e-324, -5e-324, 1e-300, -1e-16, 2.0**53, 1e16, -1e16, 1e300, oracles.LARGEST,
)  # fmt: skip
"""Where trees split: binade borders, decimals that are not doubles, both ends of the number range."""

REACHES = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 0.1, 0.2, 2.0**-52, 2.0**-53, 2.0**-54, 5e-324, 2.0, 1e16)
"""How far attackers reach and neighbourhoods extend: the differences of thresholds, and steps of one double."""

UNITS = (1.0, 1.0, 0.1, 3.0, 7e5, 2.0**-40, 1e300, 1e-300, 5e-324, 1.7976931348623157e308)
"""What distances are divided by."""

MARGINS = (-1.5, -0.5, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0)

ROUNDED_MARGINS = (0.0, 1e-9, 1e-17, -1e-9, 0.1, 0.5, -1.5, 20.0, 40.0, 50.0)
"""Scores that differ while their softmax or sigmoid rounds to the same probability."""

BASES = (0.0, 0.0, 0.1, -0.2)

VALUE_LIMITS = (oracles.LARGEST, oracles.LARGEST, oracles.LARGEST, 8.0)
"""The largest magnitude that a model takes; some thresholds lie beyond the last one, so some cells are empty."""

LABELS: tuple[tuple[Any, ...], ...] = ((0, 1, 2, 3), ("a", "b", "c", "d"), (-1, 1, 5, 7))


class Case(NamedTuple):
    """One question for the oracle: everything that the definitions of docs/theory.md mention."""

    ensemble: Ensemble
    attacker: OracleAttacker
    x: tuple[float, ...]
    y: Any
    eps: tuple[float, ...]


@lru_cache(maxsize=10_000, typed=True)
def pick(*values: Any) -> st.SearchStrategy[Any]:
    """One of these values. Cached: Hypothesis spends more time on checking new strategies than on drawing."""
    return st.sampled_from(values)


# --- models ------------------------------------------------------------------------------------------------------


class _Leaves(NamedTuple):
    """How one kind of model scores: its rule, its base and the score vectors its leaves may hold."""

    rule: ScoreRule
    base: tuple[float, ...]
    rows: list[tuple[float, ...]]


def _one_hot(n: int) -> list[tuple[float, ...]]:
    return [tuple(float(i == k) for k in range(n)) for i in range(n)]


def _hard_votes(n_classes: int, n_trees: int) -> st.SearchStrategy[_Leaves]:
    return st.just(_Leaves(ScoreRule(), (0.0,) * n_classes, _one_hot(n_classes)))


def _soft_votes(n_classes: int, n_trees: int) -> st.SearchStrategy[_Leaves]:
    rest = (0.0,) * (n_classes - 2)
    shares = [(a / 10, (10 - a) / 10, *rest) for a in (0, 1, 3, 4, 5, 7)]
    rows = shares + [row[::-1] for row in shares] + [(1 / n_classes,) * n_classes]
    return st.just(_Leaves(ScoreRule(divisor=float(n_trees)), (0.0,) * n_classes, rows))


@st.composite
def _margins(draw: st.DrawFn, n_classes: int, n_trees: int) -> _Leaves:
    decision = draw(pick(Decision.ARGMAX, Decision.SOFTMAX, Decision.SIGMOID))
    if n_classes == 2:
        decision = draw(pick(Decision.CUT, Decision.CUT, decision))
    n_scores = 1 if decision == Decision.CUT else n_classes
    rule = ScoreRule(
        decision=decision,
        precision=draw(pick("float64", "float32")),
        divisor=draw(pick(1.0, 1.0, float(n_trees))),
        base_last=draw(st.booleans()),
        cut=draw(pick(0.0, 0.0, 0.3, -0.1)),
        steepness=draw(pick(1.0, 2.5)),
    )
    number = np.dtype(rule.precision).type
    pool = ROUNDED_MARGINS if decision in (Decision.SOFTMAX, Decision.SIGMOID) else MARGINS
    margin = pick(*(float(number(value)) for value in pool))
    row, other = draw(st.tuples(*[st.tuples(*[margin] * n_scores)] * 2))
    # Rotated or negated, so that no class is ahead from the start; the other row keeps things uneven.
    turned = [row[k:] + row[:k] for k in range(n_scores)] if n_scores > 1 else [row, (-row[0],)]
    rows = list(dict.fromkeys([*turned, other]))
    base = pick(*(float(number(value)) for value in BASES))
    return _Leaves(rule, draw(st.tuples(*[base] * n_scores)), rows)


@st.composite
def _pools(draw: st.DrawFn, thresholds: Sequence[float]) -> tuple[float, ...]:
    """The few thresholds that all trees share in one feature; some one double apart."""
    pool: set[float] = set()
    for value in draw(st.lists(pick(*thresholds), min_size=1, max_size=3)):
        neighbour = draw(pick(None, None, math.inf, -math.inf))
        pool.add(value)
        if neighbour is not None and math.isfinite(math.nextafter(value, neighbour)):
            pool.add(math.nextafter(value, neighbour))
    return tuple(sorted(pool))


@st.composite
def _trees(draw: st.DrawFn, splits: Sequence[tuple[int, float]], rows: Sequence[tuple[float, ...]]) -> dict[str, Any]:
    """The arrays of one tree for EnsembleBuilder.add_tree; a single leaf at the least."""
    tree: dict[str, list[Any]] = {name: [] for name in ("feature", "threshold", "left", "right", "scores", "nan_left")}
    root, below = (st.integers(lowest, len(splits) - 1) for lowest in (-1, -1 - len(splits) // 3))

    def grow(depth: int, sibling: int | None = None) -> int:
        node = len(tree["feature"])
        choice = draw(root if depth == 0 else below) if depth < MAX_DEPTH else -1
        feature, threshold = splits[choice] if choice >= 0 else (LEAF, 0.0)
        # Two equal leaves side by side would make the split idle, and labels too often constant.
        others = [row for row in rows if sibling is None or row != tree["scores"][sibling]] or rows
        row = rows[0] if choice >= 0 else draw(pick(*others))
        entry = (feature, threshold, LEAF, LEAF, row, choice % 2 == 0)
        for name, value in zip(tree, entry, strict=True):
            tree[name].append(value)
        if choice >= 0:
            left = tree["left"][node] = grow(depth + 1)
            tree["right"][node] = grow(depth + 1, left if tree["feature"][left] == LEAF else None)
        return node

    grow(0)
    return tree


@st.composite
def _pieces(draw: st.DrawFn, tree: dict[str, Any], pools: Sequence[Sequence[float]]) -> dict[int, Pieces]:
    """Several cuts for some of a tree's tests, out of those of their feature."""
    pieces = {}
    for node, feature in enumerate(tree["feature"]):
        if feature != LEAF and len(pools[feature]) > 1 and draw(pick(True, True, False)):
            cuts = draw(st.lists(pick(*pools[feature]), min_size=2, max_size=4, unique=True))
            first = draw(st.booleans())
            pieces[node] = Pieces(tuple(sorted(cuts)), tuple(first ^ (i % 2 == 1) for i in range(len(cuts) + 1)))
    return pieces


@st.composite
def tiny_ensembles(
    draw: st.DrawFn, max_features: int = 3, thresholds: Sequence[float] = THRESHOLDS, several: bool | None = None
) -> Ensemble:
    """Models of 1 to 5 trees, depth at most 3, 1 to 3 features and 2 to 4 classes, of every score rule.

    With `several`, most tests have several cuts; None: in some of the models.
    """
    several = draw(pick(False, False, True)) if several is None else several
    n_features = draw(st.integers(1, max_features))
    n_classes = draw(pick(2, 2, 3, 4))
    n_trees = draw(st.integers(1, 5))
    kind = draw(pick(_hard_votes, _soft_votes, _margins, _margins))
    leaves = draw(kind(n_classes, n_trees))
    builder = EnsembleBuilder(
        n_features=n_features,
        classes=draw(pick(*LABELS))[:n_classes],
        rule=leaves.rule,
        base=leaves.base,
        handles_missing=draw(pick(False, False, True)),
        value_limit=draw(pick(*VALUE_LIMITS)),
    )
    pools = [draw(_pools(thresholds)) for _ in range(n_features)]
    splits = [(f, e) for f, pool in enumerate(pools) for e in pool]
    for _ in range(n_trees):
        tree = draw(_trees(splits, leaves.rows))
        builder.add_tree(**tree, pieces=draw(_pieces(tree, pools)) if several else None)
    return builder.build()


# --- points ------------------------------------------------------------------------------------------------------


@st.composite
def _values(draw: st.DrawFn, cuts: Sequence[float]) -> float:
    """One feature's value: on a threshold, one double beside it, a reach away from it, or elsewhere."""
    anchor: float = draw(pick(*cuts, *cuts, *cuts, 0.0, 0.25, -3.0))
    match draw(pick("on", "above", "below", "reach", "reach")):
        case "above":
            return min(math.nextafter(anchor, math.inf), oracles.LARGEST)
        case "below":
            return max(math.nextafter(anchor, -math.inf), -oracles.LARGEST)
        case "reach":
            moved: float = anchor + draw(pick(*REACHES)) * draw(pick(1.0, -1.0))
            return moved if math.isfinite(moved) else anchor
    return anchor


@st.composite
def points(draw: st.DrawFn, ensemble: Ensemble) -> tuple[float, ...]:
    """Points that stand where attacks are decided; some with NaN if the model takes it."""
    x = [draw(_values(oracles.thresholds(ensemble, f))) for f in range(ensemble.n_features)]
    x = [float(value) for value in np.clip(x, ensemble.value_low, ensemble.value_high)]
    if ensemble.may_be_missing.any():
        missing = draw(st.integers(-1, ensemble.n_features - 1))
        if missing >= 0:
            x[missing] = math.nan
    return tuple(x)


# --- attackers and neighbourhoods --------------------------------------------------------------------------------


def _reaches(distances: Sequence[float]) -> st.SearchStrategy[float]:
    return pick(*REACHES, *distances, *distances)


@st.composite
def _intervals(draw: st.DrawFn, distances: Sequence[float]) -> tuple[float, float]:
    """One feature's interval of perturbations: every shape there is."""
    reach = draw(_reaches(distances))
    match draw(pick("both", "down", "up", "uneven", "away", "away down", "none", "all")):
        case "both":
            return (-reach, reach)
        case "down":
            return (-reach, 0.0)
        case "up":
            return (0.0, reach)
        case "uneven":
            return (-draw(_reaches(distances)), reach)
        case "away":
            other = draw(_reaches(distances))
            return (min(reach, other), max(reach, other))
        case "away down":
            other = draw(_reaches(distances))
            return (-max(reach, other), -min(reach, other))
        case "none":
            return (0.0, 0.0)
    unlimited: tuple[float, float] = draw(pick((-math.inf, math.inf), (0.0, math.inf), (-math.inf, -reach)))
    return unlimited


@st.composite
def _domains(draw: st.DrawFn, x: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """One interval per feature that contains x."""
    room = pick(0.0, 0.1, 0.3, 1.0, 1e16, math.inf, math.inf)
    anchors = [0.0 if math.isnan(value) else value for value in x]
    return tuple((value - draw(room), value + draw(room)) for value in anchors)


@st.composite
def attackers(
    draw: st.DrawFn,
    n_features: int,
    x: Sequence[float] | None = None,
    distances: Sequence[Sequence[float]] | None = None,
) -> OracleAttacker:
    """Attackers of every kind. With x, some have a domain that contains it; `distances` are reaches worth trying."""
    far = distances or [()] * n_features
    costs, budget, p, radius = (1,) * n_features, None, None, 0.0
    kind = draw(pick("costs", "costs", "costs", "l0", "linf", "lp", "lp"))
    if kind == "costs":
        intervals = tuple(draw(_intervals(far[f])) for f in range(n_features))
        costs = tuple(draw(st.integers(0, 3)) for _ in range(n_features))
        budget = draw(pick(None, 0, 1, 2, 3, 4, 1, 2))
    elif kind == "l0":
        intervals = ((-math.inf, math.inf),) * n_features
        budget = draw(st.integers(0, 2))
    elif kind == "linf":
        reach = draw(_reaches([d for row in far for d in row]))
        intervals = ((-reach, reach),) * n_features
    else:
        p, radius = draw(st.integers(1, 3)), draw(_reaches([d for row in far for d in row]))
        touch = pick(*[(-math.inf, math.inf)] * 3, (0.0, 0.0))
        intervals = tuple(draw(touch) for _ in range(n_features))
    scale = draw(st.none() | st.tuples(*[pick(*UNITS)] * n_features)) if p is not None else None
    attacker = OracleAttacker(intervals, costs, budget, p, radius, scale=scale)
    if x is not None and draw(pick(False, False, True)):
        return replace(attacker, domain=draw(_domains(x)))
    return attacker


@st.composite
def neighbourhoods(
    draw: st.DrawFn, n_features: int, distances: Sequence[Sequence[float]] | None = None
) -> tuple[float, ...]:
    """eps per feature: nothing, a step of one double, the distance to a threshold, or everything."""
    far = distances or [()] * n_features
    return tuple(draw(pick(0.0, 0.0, *REACHES, *far[f], *far[f], math.inf)) for f in range(n_features))


def threshold_distances(ensemble: Ensemble, x: Sequence[float]) -> list[list[float]]:
    """Per feature how far x is from each threshold, rounded: the reaches at which verdicts turn."""
    far = []
    for f, value in enumerate(x):
        rounded = [abs(value - e) for e in oracles.thresholds(ensemble, f)]
        far.append([d for d in rounded if math.isfinite(d)])
    return far


def _beyond_reach(attacker: OracleAttacker, far: Sequence[Sequence[float]]) -> list[list[float]]:
    """Per feature the distances, and what is left of them beyond the attacker's reach: there resilience turns."""
    rows = []
    for distances, (lo, hi) in zip(far, attacker.intervals, strict=True):
        reaches = [abs(r) for r in (lo, hi) if math.isfinite(r)] if attacker.p is None else [attacker.radius]
        left = [abs(d - r) for d in distances for r in reaches]
        rows.append([*distances, *left, *(math.nextafter(d, math.inf) for d in left if d < oracles.LARGEST)])
    return rows


@st.composite
def cases(draw: st.DrawFn, max_features: int = 3, several: bool | None = None) -> Case:
    """A model, an attacker, a labelled point and a neighbourhood, such that the oracle can answer."""
    ensemble = draw(tiny_ensembles(max_features, several=several))
    x = draw(points(ensemble))
    far = threshold_distances(ensemble, x)
    attacker = draw(attackers(ensemble.n_features, x, far))
    eps = draw(neighbourhoods(ensemble.n_features, _beyond_reach(attacker, far)))
    assume(answerable(ensemble, attacker, x, eps))
    predicted = oracles.predict(ensemble, x)
    y = draw(pick(predicted, predicted, predicted, *ensemble.classes.tolist()))
    return Case(ensemble, attacker, x, y, eps)


def answerable(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float]) -> bool:
    """Whether the oracle can decide every pair of cells: no interval is too narrow for its neighbourhood."""
    try:
        for f in range(ensemble.n_features):
            oracles.moves(ensemble, attacker, x, eps, f)
    except NotImplementedError:
        return False
    return True
