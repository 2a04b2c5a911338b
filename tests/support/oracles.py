"""The slow truth: the definitions of docs/theory.md by brute force, in exact rational arithmetic.

Nothing here comes from treeproof's engines, prices, grid or kernels; only the plain arrays of an Ensemble are read.
Numbers are IEEE doubles and every comparison between them is one of real numbers:

- z in N(x): each z_f is a double the model takes, inside the domain, with |z_f - x_f| <= eps_f;
- w in A(z): w differs from z on a set F whose costs add up to at most the budget, and for f in F w_f is a double the
  model takes, inside the domain, with lo_f <= w_f - z_f <= hi_f; for Lp, sum of (|w_f - z_f| / unit_f)^p <= radius^p;
- a NaN of x is a constant that neither the neighbourhood nor the attacker moves.

The model sees a double only through its cell, and what z_f and w_f cost together depends on f alone. So "some z and
w with these cells exist within the budget" is: the least cost per feature and pair of cells, added up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision

NAN_CELL = -1
MAX_ENUMERATED = 200
LARGEST = math.nextafter(math.inf, 0.0)

Cost = Fraction | int
Cells = tuple[int, ...]


@dataclass(frozen=True)
class OracleAttacker:
    """Per feature an interval and a cost, and a budget (None: unlimited); or `p` and `radius` for an Lp ball.

    An Lp attacker ignores intervals, costs and budget, but does not touch a feature whose interval is (0, 0). Its
    `scale` has a unit for each feature, 1 if there is none.
    """

    intervals: tuple[tuple[float, float], ...]
    costs: tuple[int, ...]
    budget: int | None = None
    p: int | None = None
    radius: float = 0.0
    domain: tuple[tuple[float, float], ...] | None = None
    scale: tuple[float, ...] | None = None

    def power(self, f: int, distance: Fraction) -> Fraction:
        """What an Lp attacker pays for this distance."""
        assert self.p is not None
        unit = Fraction(1 if self.scale is None else self.scale[f])
        return abs(distance / unit) ** self.p

    @property
    def limit(self) -> Cost | float:
        """What the costs of one attack may add up to."""
        if self.p is not None:
            return math.inf if math.isinf(self.radius) else Fraction(self.radius) ** self.p
        return math.inf if self.budget is None else self.budget


class Span(NamedTuple):
    """The finite doubles from first to last, both included; none where first > last."""

    first: float
    last: float

    @property
    def empty(self) -> bool:
        return self.first > self.last

    def meet(self, other: Span) -> Span:
        return Span(max(self.first, other.first), min(self.last, other.last))

    def mirrored(self) -> Span:
        return Span(-self.last, -self.first)

    def doubles(self) -> Iterator[float]:
        """Every double of the span, in order."""
        x = self.first
        while x <= self.last:
            yield x
            x = math.nextafter(x, math.inf)

    def is_small(self) -> bool:
        return all(i < MAX_ENUMERATED for i, _ in enumerate(self.doubles()))


class Move(NamedTuple):
    """In one feature: some z in cell `z` can become some w in cell `w`, at this least cost."""

    z: int
    w: int
    cost: Cost


# --- exact steps between rationals and doubles -------------------------------------------------------------------


def double_at_least(q: Fraction) -> float:
    """The smallest double that is at least q; inf beyond the largest double."""
    if q > LARGEST:
        return math.inf
    if q < -LARGEST:
        return -LARGEST
    x = float(q)
    return math.nextafter(x, math.inf) if Fraction(x) < q else x


def double_at_most(q: Fraction) -> float:
    """The largest double that is at most q; -inf below the lowest double."""
    return -double_at_least(-q)


def shifted(span: Span, lo: float, hi: float) -> Span:
    """The doubles within [first + lo, last + hi] in real arithmetic; lo and hi may be infinite."""
    first = -LARGEST if math.isinf(lo) else double_at_least(Fraction(span.first) + Fraction(lo))
    last = LARGEST if math.isinf(hi) else double_at_most(Fraction(span.last) + Fraction(hi))
    return Span(first, last)


# --- what the model predicts -------------------------------------------------------------------------------------


def predict(ensemble: Ensemble, x: Sequence[float]) -> Any:
    """The label of x, by a plain walk and one rounded addition after another."""
    return ensemble.classes[_decide(ensemble, _scores(ensemble, x))].item()


def _scores(ensemble: Ensemble, x: Sequence[float]) -> list[Any]:
    rule = ensemble.rule
    number = np.dtype(rule.precision).type
    leaves = [ensemble.leaf_scores[ensemble.leaf[_leaf_node(ensemble, root, x)]] for root in ensemble.roots.tolist()]
    scores = []
    for k, base in enumerate(ensemble.base):
        total = number(0) if rule.base_last else number(base)
        for leaf in leaves:
            total = number(total + leaf[k])
        total = number(total / number(rule.divisor))
        scores.append(number(total + base) if rule.base_last else total)
    return scores


def _leaf_node(ensemble: Ensemble, node: int, x: Sequence[float]) -> int:
    while ensemble.feature[node] >= 0:
        value = x[ensemble.feature[node]]
        below = sum(cut < value for cut in cuts_of_test(ensemble, node))
        goes_left = ensemble.nan_left[node] if math.isnan(value) else below % 2 == 0
        node = int(ensemble.left[node] if goes_left else ensemble.right[node])
    return node


def cuts_of_test(ensemble: Ensemble, node: int) -> list[float]:
    """Where the side changes that a test sends a number to: left up to the first cut, right up to the second, …"""
    more = ensemble.more[ensemble.more_start[node] : ensemble.more_start[node + 1]]
    return [float(ensemble.threshold[node]), *more.tolist()]


def _decide(ensemble: Ensemble, scores: list[Any]) -> int:
    rule = ensemble.rule
    number = np.dtype(rule.precision).type
    if rule.decision == Decision.CUT:
        return 1 if float(scores[0]) > rule.cut else 0
    if rule.decision == Decision.SOFTMAX:
        powers = [number(_exp(score - max(scores))) for score in scores]
        total = number(sum(float(power) for power in powers))
        scores = [power / total for power in powers]
    elif rule.decision == Decision.SIGMOID:
        scores = [number(1.0 / (1.0 + _exp(-rule.steepness * float(score)))) for score in scores]
    return scores.index(max(scores))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


# --- cells -------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def thresholds(ensemble: Ensemble, f: int) -> tuple[float, ...]:
    """The distinct thresholds of feature f, sorted."""
    nodes = np.flatnonzero(ensemble.feature == f).tolist()
    return tuple(sorted({cut for node in nodes for cut in cuts_of_test(ensemble, node)}))


def taken(ensemble: Ensemble, f: int) -> Span:
    """The doubles that the model takes in feature f."""
    return Span(float(ensemble.value_low[f]), float(ensemble.value_high[f]))


@lru_cache(maxsize=1000)
def cells_of(ensemble: Ensemble, f: int) -> tuple[Span, ...]:
    """The doubles between consecutive thresholds, (lo, hi]; an outer cell may hold no double that the model takes."""
    cuts = thresholds(ensemble, f)
    firsts = [-math.inf, *(math.nextafter(e, math.inf) for e in cuts)]
    return tuple(
        Span(first, last).meet(taken(ensemble, f)) for first, last in zip(firsts, [*cuts, math.inf], strict=True)
    )


@lru_cache(maxsize=100_000)
def label_of_cells(ensemble: Ensemble, cells: Cells) -> Any:
    """The label of every point with these cells (-1: NaN); none of them is empty."""
    point = [math.nan if cell == NAN_CELL else cells_of(ensemble, f)[cell].last for f, cell in enumerate(cells)]
    return predict(ensemble, point)


# --- what the neighbourhood and the attacker can do in one feature -----------------------------------------------


def neighbours(attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float], f: int) -> Span:
    """N_f: the finite doubles within eps_f of x_f and inside the domain. x must lie inside it."""
    domain = _domain(attacker, f)
    if not domain.first <= x[f] <= domain.last:
        raise ValueError(f"feature {f}: {x[f]} is outside the domain {domain}")
    return shifted(Span(x[f], x[f]), -eps[f], eps[f]).meet(domain)


def _domain(attacker: OracleAttacker, f: int) -> Span:
    everything = Span(-LARGEST, LARGEST)
    return everything if attacker.domain is None else everything.meet(Span(*attacker.domain[f]))


def pair_exists(lo: float, hi: float, z: Span, w: Span) -> bool:
    """Whether doubles a in z and b in w have lo <= b - a <= hi. The two spans share no double.

    Say w lies above z. All differences b - a are positive and lie between that of the closest pair and that of the
    farthest. If one of these two is within [lo, hi], it is the pair we look for. So 0 in [lo, hi] is always settled
    by the extremes: lo <= 0 < closest, hence only closest <= hi is in question.
    What remains is 0 < lo and closest < lo <= hi < farthest: the doubles may jump over [lo, hi].
    """
    if z.empty or w.empty:
        return False
    if w.last < z.first:
        return pair_exists(-hi, -lo, z.mirrored(), w.mirrored())
    closest = Fraction(w.first) - Fraction(z.last)
    farthest = Fraction(w.last) - Fraction(z.first)
    if closest > hi or farthest < lo:
        return False
    if closest >= lo or farthest <= hi:
        return True
    return _pair_exists_within(lo, hi, z, w)


def _pair_exists_within(lo: float, hi: float, z: Span, w: Span) -> bool:
    """The case of `pair_exists` where the extremes do not decide; 0 < lo <= hi < inf, w above z."""
    z = z.meet(shifted(w, -hi, -lo))
    if z.is_small():
        return any(not shifted(Span(a, a), lo, hi).meet(w).empty for a in z.doubles())
    w = w.meet(shifted(z, lo, hi))
    # Walk from the closest pair to the farthest, one double at a time: the difference grows by one spacing per step,
    # so it cannot jump over an interval that is at least as wide as the widest spacing.
    widest = max(math.ulp(end) for end in (*z, *w))
    if not w.empty and Fraction(hi) - Fraction(lo) >= widest:
        return Fraction(w.first) - Fraction(z.last) <= hi and Fraction(w.last) - Fraction(z.first) >= lo
    raise NotImplementedError(f"[{lo}, {hi}] from {z} to {w}: too many doubles for an interval this narrow")


def move_cost(attacker: OracleAttacker, f: int, z: Span, w: Span) -> Cost | None:
    """The least the attacker pays to move feature f from some double of z to some double of w; None: it cannot.

    The two spans share no double.
    """
    w = w.meet(_domain(attacker, f))
    lo, hi = attacker.intervals[f]
    if z.empty or w.empty:
        return None
    if attacker.p is not None:
        untouchable = lo == hi == 0
        gap = max(Fraction(w.first) - Fraction(z.last), Fraction(z.first) - Fraction(w.last))
        price = attacker.power(f, gap)
        return None if untouchable or price > attacker.limit else price
    if attacker.costs[f] > attacker.limit or not pair_exists(lo, hi, z, w):
        return None
    return attacker.costs[f]


def moves(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float], f: int) -> list[Move]:
    """Every pair of cells that some z in N_f and its attacked value can have, w = z for free."""
    if math.isnan(x[f]):
        return [Move(NAN_CELL, NAN_CELL, 0)]
    cells = cells_of(ensemble, f)
    near = neighbours(attacker, x, eps, f)
    found = []
    for i, start in enumerate(cells):
        z = start.meet(near)
        if z.empty:
            continue
        for j, w in enumerate(cells):
            cost = 0 if i == j else move_cost(attacker, f, z, w)
            if cost is not None:
                found.append(Move(i, j, cost))
    return found


def attacks(
    ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float]
) -> list[tuple[Cells, Cells]]:
    """The cells of z and of w, for all z in N(x) and w in A(z)."""
    pairs: list[tuple[Cells, Cells, Cost]] = [((), (), 0)]
    for f in range(ensemble.n_features):
        options = moves(ensemble, attacker, x, eps, f)
        pairs = [
            ((*z, move.z), (*w, move.w), paid + move.cost)
            for z, w, paid in pairs
            for move in options
            if paid + move.cost <= attacker.limit
        ]
    return [(z, w) for z, w, _ in pairs]


def cheapest(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float]) -> Cost | float:
    """The least that another label than x's costs, whatever the budget or radius; infinite if none can be had."""
    rich = replace(attacker, budget=None, radius=math.inf)
    options = [moves(ensemble, rich, x, [0.0] * ensemble.n_features, f) for f in range(ensemble.n_features)]
    if math.prod(map(len, options)) > 10 * MAX_ENUMERATED:
        raise NotImplementedError
    label = predict(ensemble, x)
    return min(
        (
            sum(move.cost for move in chosen)
            for chosen in itertools.product(*options)
            if label_of_cells(ensemble, tuple(move.w for move in chosen)) != label
        ),
        default=math.inf,
    )


# --- the properties ----------------------------------------------------------------------------------------------


def stable(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float]) -> bool:
    """T(w) = T(x) for all w in A(x)."""
    return stable_around(ensemble, attacker, x, [0.0] * ensemble.n_features)


def stable_around(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float]) -> bool:
    """T(w) = T(z) for all z in N(x) and w in A(z): stable at every z in N(x)."""
    return all(
        label_of_cells(ensemble, z) == label_of_cells(ensemble, w) for z, w in attacks(ensemble, attacker, x, eps)
    )


def robust(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], y: Any) -> bool:
    """Correct and stable at x."""
    return bool(predict(ensemble, x) == y and stable(ensemble, attacker, x))


def resilient(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], y: Any, eps: Sequence[float]) -> bool:
    """Robust at x, and stable at every z in N(x); z and w are both searched, no theorem is used."""
    return robust(ensemble, attacker, x, y) and stable_around(ensemble, attacker, x, eps)


def constant_on_M(  # noqa: N802 (M as in docs/theory.md)
    ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float]
) -> bool:
    """T has one label on M(x), the union of A(z) over z in N(x)."""
    return len({label_of_cells(ensemble, w) for _, w in attacks(ensemble, attacker, x, eps)}) == 1


# --- the theorem's condition -------------------------------------------------------------------------------------


def can_nudge(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float]) -> bool:
    """At each threshold e inside N_f, f alone can be moved from e to the next double up, or back.

    This is all that the proof in docs/theory.md needs over doubles. Walk from x to z inside N(x), one feature at a
    time and one double at a time: labels change only between some e and its upper neighbour, and both lie between x_f
    and z_f, hence in N_f. Two points p, q of N(x) that differ there alone have different labels, and the attacker
    goes from one to the other: that one is unstable. "As close as we like" of the real proof becomes "one double
    apart", so the reach must cover the spacing of doubles at e: 0 in I and I != {0} alone is not enough.
    It is sufficient but not necessary: `connects` says what is.
    """
    for f in range(ensemble.n_features):
        if math.isnan(x[f]):
            continue
        near = neighbours(attacker, x, eps, f).meet(taken(ensemble, f))
        for e in thresholds(ensemble, f):
            below, above = Span(e, e), Span(math.nextafter(e, math.inf), math.nextafter(e, math.inf))
            if below.meet(near).empty or above.meet(near).empty:
                continue
            if move_cost(attacker, f, below, above) is None and move_cost(attacker, f, above, below) is None:
                return False
    return True


def connects(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float]) -> bool:
    """In each feature, attacks on that feature alone that start in N_f link all cells that meet N_f.

    Links count both ways, and may lead over cells outside N_f. This is the weakest condition on one feature at a time
    under which the theorem holds for every labelling of the cells. Sufficient: follow the links instead of the walk;
    where the label changes along one, its start is unstable. Necessary: if the cells of N_f fall into two parts, the
    labelling that tells these parts apart is stable everywhere in N(x), and not constant on N(x).
    """
    return all(len(linked_parts(moves(ensemble, attacker, x, eps, f))) == 1 for f in range(ensemble.n_features))


def linked_parts(options: Sequence[Move]) -> list[set[int]]:
    """The cells that the moves of one feature touch, in groups that no move leaves or enters."""
    parts: list[set[int]] = []
    for move in options:
        apart = [part for part in parts if move.z not in part and move.w not in part]
        joined = {move.z, move.w}.union(*(part for part in parts if part not in apart))
        parts = [*apart, joined]
    return parts
