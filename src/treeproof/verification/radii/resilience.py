"""How large a neighbourhood can grow before an attack breaks one of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import (
    FloatArray,
    add_down,
    add_up,
    double_at_least,
    double_at_most,
    double_below,
    from_ordinal,
    next_down,
    next_up,
    ordinal,
)
from treeproof.numbers.moves import some_move
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.radii.question import Answers, Broken, Question, answers_of


class Resilience(Question):
    """Multiples of a neighbourhood: a pair of cells counts from the least multiple whose neighbours allow that move.

    `unit` is that neighbourhood, one finite size per feature; a feature of size 0 stays as it is at every multiple.
    """

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits, unit: FloatArray) -> None:
        super().__init__(ensemble, threat, X, limits)
        self.costs_add_up = threat.power is not None
        self.unit = unit
        self.sizes = [Fraction(size) for size in unit.tolist()]

    def hints(self) -> FloatArray:
        """The distances of cells, and of the places from which a move leads into them, as multiples of the unit."""
        away, _ = self.distances()
        x, low, high = self.X[:, self.feature], self.threat.low[self.feature], self.threat.high[self.feature]
        away[:, self.unit[self.feature] == 0] = np.inf
        with np.errstate(all="ignore"):
            from_afar = np.maximum(self.first - high - x, x - (self.last - low))
            both = np.concatenate((away, np.where(np.isinf(away), np.inf, from_afar)), axis=1)
            return np.asarray(both / np.tile(self.unit[self.feature], 2))

    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        """Neighbourhoods of about these multiples."""
        with np.errstate(over="ignore"):
            epsilon = next_up(np.array(values)[:, None] * self.unit * (1 + 2.0**-50))
        return self._decide(rows, np.where(self.unit > 0, epsilon, 0.0))

    def anywhere(self, rows: Sequence[int]) -> Answers:
        """The neighbourhood that contains everything, along the features that it has a size for."""
        return self._decide(rows, np.where(self.unit > 0, np.inf, 0.0))

    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        """All neighbours that are strictly nearer than the levels."""
        x, threat = self.X[rows], self.threat
        low, high = -self._highest_below(-x, levels), self._highest_below(x, levels)
        return self._decide_boxes(rows, np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high))

    def _highest_below(self, x: FloatArray, levels: Sequence[Fraction]) -> FloatArray:
        """The highest double of each entry that is nearer than its level times the unit."""
        highest: FloatArray = x.copy()
        for size in np.unique(self.unit[self.unit > 0]):
            alike, exact = self.unit == size, Fraction(float(size))
            highest[:, alike] = highest_below(x[:, alike], [level * exact for level in levels])
        return highest

    def _decide(self, rows: Sequence[int], epsilon: FloatArray) -> Answers:
        return self._decide_boxes(rows, *self.threat.neighbourhood(self.X[rows], epsilon))

    def _decide_boxes(self, rows: Sequence[int], low: FloatArray, high: FloatArray) -> Answers:
        decided = self.timed(rows, lambda used: self.local.decide_boxes(self.X[rows], low, high, None, used))
        return answers_of(decided.outcome, lambda i: self._broken(rows[i], decided.neighbour[i], decided.attacked[i]))

    def _broken(self, row: int, neighbour: FloatArray, attacked: FloatArray) -> Broken:
        pair = self.ensemble.grid.cells(np.stack((neighbour, attacked)))
        changed = np.flatnonzero((pair != self.cells[row]).any(axis=0)).tolist()
        cells = {f: (int(pair[0, f]), int(pair[1, f])) for f in changed}
        if self.threat.power is None:
            nearest = {f: self._nearest(row, f, *cells[f], float(neighbour[f])) for f in changed}
            level = max((self._multiple(f, away) for f, away in nearest.items()), default=Fraction(0))
        else:
            level = self._nearest_in_all(row, cells, neighbour)
        return Broken(level, neighbour, attacked)

    def _multiple(self, f: int, away: Fraction) -> Fraction:
        """The least multiple of the unit that holds neighbours this far away."""
        return away / self.sizes[f] if away else away

    def _nearest(self, row: int, f: int, start: int, end: int, known: float) -> Fraction:
        """How far from x_f the nearest double of cell `start` is that the attacker can move to cell `end`."""
        x, box = float(self.X[row, f]), self.ends(f, start)
        if start != end:
            goal, interval = self.ends(f, end), (float(self.threat.low[f]), float(self.threat.high[f]))
            # A move out of the box must start here; inside, an interval with 0 leads to the goal from anywhere.
            box = (
                max(box[0], float(add_up(goal[0], -interval[1]))),
                min(box[1], float(add_down(goal[1], -interval[0]))),
            )
            z = min(max(x, box[0]), box[1])
            if some_move((z, z), goal, interval) is None:
                return self._nearest_by_halving(x, box, goal, interval, known)
        return abs(Fraction(min(max(x, box[0]), box[1])) - Fraction(x))

    def _nearest_by_halving(
        self,
        x: float,
        box: tuple[float, float],
        goal: tuple[float, float],
        interval: tuple[float, float],
        known: float,
    ) -> Fraction:
        """The same for an interval so narrow that it misses the goal from some doubles of the box."""
        best = abs(Fraction(known) - Fraction(x))
        nearest = min(max(x, box[0]), box[1])
        for far in box:
            if far == nearest or some_move((min(nearest, far), max(nearest, far)), goal, interval) is None:
                continue
            # The doubles from `nearest` to the one with ordinal `out` hold a start, those up to `into` do not.
            into, out = int(ordinal(nearest)), int(ordinal(far))
            while abs(out - into) > 1:
                middle = (into + out) // 2
                z = float(from_ordinal(middle))
                found = some_move((min(nearest, z), max(nearest, z)), goal, interval) is not None
                into, out = (into, middle) if found else (middle, out)
            best = min(best, abs(Fraction(float(from_ordinal(out))) - Fraction(x)))
        return best

    def _nearest_in_all(self, row: int, cells: dict[int, tuple[int, int]], neighbour: FloatArray) -> Fraction:
        """The least multiple at which an Lp attacker can afford to move from these cells to those, one by one."""
        x, threat = self.X[row], self.threat
        power = threat.power
        assert power is not None
        least = known = Fraction(0)
        paid: list[_Approach] = []
        for f, (start, end) in cells.items():
            at, box, unit = float(x[f]), self.ends(f, start), Fraction(float(threat.unit[f]))
            least = max(least, self._multiple(f, abs(Fraction(min(max(at, box[0]), box[1])) - Fraction(at))))
            known = max(known, self._multiple(f, abs(Fraction(float(neighbour[f])) - Fraction(at))))
            if end > start:
                paid.append(_Approach(at, box[1], self.ends(f, end)[0], unit, self.sizes[f]))
            elif end < start:
                paid.append(_Approach(-at, -box[0], -self.ends(f, end)[1], unit, self.sizes[f]))

        def affordable(multiple: Fraction) -> bool:
            return sum(approach.gap(multiple) ** power for approach in paid) <= threat.limit

        if affordable(least):
            return least
        # Costs change where one more double of some feature becomes a neighbour.
        while True:
            between = [(approach.between(least, known), approach) for approach in paid]
            (first, last), approach = max(between, key=lambda entry: entry[0][1] - entry[0][0])
            if first > last:
                return known
            middle = (Fraction(float(from_ordinal((first + last) // 2))) - Fraction(approach.x)) / approach.size
            least, known = (least, middle) if affordable(middle) else (middle, known)


@dataclass(frozen=True)
class _Approach:
    """One feature of a move upwards: neighbours z of x, at most `last`, are moved to `goal` above."""

    x: float
    last: float
    goal: float
    unit: Fraction
    """What the attacker's distances are divided by."""
    size: Fraction
    """How far away neighbours are at the multiple 1."""

    def gap(self, multiple: Fraction) -> Fraction:
        """How far the highest neighbour is from the goal, in the feature's unit."""
        highest = Fraction(min(self.last, double_at_most(Fraction(self.x) + multiple * self.size)))
        return (Fraction(self.goal) - highest) / self.unit

    def between(self, least: Fraction, known: Fraction) -> tuple[int, int]:
        """The ordinals of the first and the last double that is a neighbour for some multiple strictly between."""
        first = int(ordinal(double_at_most(Fraction(self.x) + least * self.size))) + 1
        return first, int(ordinal(min(self.last, double_below(Fraction(self.x) + known * self.size))))


def highest_below(X: FloatArray, levels: Sequence[Fraction]) -> FloatArray:
    """The highest double that is less than X + level, for every entry of X; one level per row."""
    down = np.array([double_at_most(level) for level in levels])[:, None]
    up = np.array([double_at_least(level) for level in levels])[:, None]
    most = next_down(add_up(X, up))
    least = np.where(down == up, most, add_down(X, down))
    for i, f in np.argwhere((most != least) & ~np.isnan(X)):
        most[i, f] = double_below(Fraction(float(X[i, f])) + levels[i])
    return most
