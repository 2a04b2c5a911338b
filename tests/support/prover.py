"""Proves or refutes stability of a box by plain recursion over thresholds."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from treeproof.check.objects import predict_row
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision
from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.moves import some_move
from treeproof.threat.attacker import Attacker

Range: TypeAlias = tuple[float, float]
"""The doubles from the first to the second number, both included."""


def cuts_of(ensemble: Ensemble, node: int) -> list[float]:
    """The doubles after which the side of a test changes, in rising order."""
    more = ensemble.more[ensemble.more_start[node] : ensemble.more_start[node + 1]]
    return [float(ensemble.threshold[node]), *more.tolist()]


def goes_left(cuts: list[float], value: float) -> bool:
    """Whether a test with these cuts sends a number to the left: up to the first it does, then by turns."""
    return bisect_left(cuts, value) % 2 == 0


class _TooManyBoxes(Exception):
    """A proof would take more boxes than allowed."""


class _Prover:
    """Proofs about boxes of doubles, by walking trees and splitting boxes at thresholds."""

    def __init__(self, ensemble: Ensemble, attacker: Attacker, most_boxes: float = math.inf) -> None:
        self.ensemble = ensemble
        self.most_boxes = most_boxes
        threat = attacker.bind(ensemble)
        self.domain = [(float(a), float(b)) for a, b in zip(threat.domain_low, threat.domain_high, strict=True)]
        self.intervals = [(float(a), float(b)) for a, b in zip(threat.low, threat.high, strict=True)]
        self.known = {f: ends.tolist() for f, ends in threat.ends}
        self.costs, self.budget = threat.cost.tolist(), int(threat.budget)
        self.cuts = [ensemble.grid.cuts_of(f).tolist() for f in range(ensemble.n_features)]
        self.feature = ensemble.feature.tolist()
        self.tests = [cuts_of(ensemble, node) for node in range(ensemble.n_nodes)]
        self.left, self.right = ensemble.left.tolist(), ensemble.right.tolist()
        rows = ensemble.leaf_shares
        if ensemble.rule.decision == Decision.CUT:
            rows = np.column_stack((np.zeros(len(rows)), rows))
        self.scores: list[list[float]] = [
            rows[i].tolist() if f < 0 else [] for i, f in zip(ensemble.leaf, ensemble.feature, strict=True)
        ]
        self.base = self._base()
        self.margin = self._margin(rows)

    def _base(self) -> list[float]:
        rule = self.ensemble.rule
        base = [float(b) * (rule.divisor if rule.base_last else 1.0) for b in self.ensemble.base]
        return [0.0, base[0] - rule.cut * rule.divisor] if rule.decision == Decision.CUT else base

    def _margin(self, rows: FloatArray) -> float:
        """A lead that no rounding can undo; 0 where scores are whole numbers, infinite where only exact scores can."""
        rule = self.ensemble.rule
        largest = float(np.abs(rows).max()) * self.ensemble.n_trees + max(map(abs, self.base))
        plain = rule.decision in (Decision.ARGMAX, Decision.CUT)
        if (
            plain
            and not rule.members
            and largest < 2**20
            and (rows == np.rint(rows)).all()
            and all(b == int(b) for b in self.base)
        ):
            return 0.0
        margin = 1e-3 * largest
        if rule.decision == Decision.SOFTMAX:
            return margin + 1e-2 * rule.divisor
        if rule.decision == Decision.SIGMOID:
            return math.inf if rule.steepness * largest / rule.divisor > 8 else margin + rule.divisor / rule.steepness
        return margin

    # --- labels on a box ---------------------------------------------------------------------------------------------

    def two_labels(self, box: list[Range]) -> tuple[list[float], list[float]] | None:
        """Two rows of the box with different labels; None if it has one label."""
        start = [low for low, _ in box]
        label = predict_row(self.ensemble, np.array(start))
        other = self.another_label(box, label)
        return None if other is None else (start, other)

    def another_label(self, box: list[Range], label: Any) -> list[float] | None:
        """A row of the box with a label other than this one; None if there is none."""
        own = self.ensemble.classes.tolist().index(label)
        waiting = [box]
        for n_boxes in itertools.count():
            if not waiting:
                break
            if n_boxes >= self.most_boxes:
                raise _TooManyBoxes
            box = waiting.pop()
            if self._surely(box, own):
                continue
            split = self._undecided(box)
            if split is None:
                row = [low for low, _ in box]
                if predict_row(self.ensemble, np.array(row)) != label:
                    return row
                continue
            waiting += self._halves(box, *split)
        return None

    def _surely(self, box: list[Range], own: int) -> bool:
        """Whether the best that each tree can do for any other class is not enough."""
        if math.isinf(self.margin):
            return False
        leads = [b - self.base[own] for b in self.base]
        for root in self.ensemble.roots.tolist():
            best = [-math.inf] * len(leads)
            for leaf in self._leaves(root, box):
                row = self.scores[leaf]
                best = [max(b, s - row[own]) for b, s in zip(best, row, strict=True)]
            leads = [a + b for a, b in zip(leads, best, strict=True)]
        if self.margin > 0:
            return all(lead < -self.margin for k, lead in enumerate(leads) if k != own)
        return all(lead < 0 or (lead == 0 and own < k) for k, lead in enumerate(leads) if k != own)

    def _leaves(self, node: int, box: list[Range]) -> Iterator[int]:
        waiting = [node]
        while waiting:
            node = waiting.pop()
            f = self.feature[node]
            if f < 0:
                yield node
                continue
            low, _ = box[f]
            undecided = self._cut_inside(node, box) is not None
            if undecided or goes_left(self.tests[node], low):
                waiting.append(self.left[node])
            if undecided or not goes_left(self.tests[node], low):
                waiting.append(self.right[node])

    def _cut_inside(self, node: int, box: list[Range]) -> float | None:
        """The first cut of a test that tells numbers of the box apart."""
        low, high = box[self.feature[node]]
        cuts = self.tests[node]
        first = bisect_left(cuts, low)
        return cuts[first] if first < len(cuts) and cuts[first] < high else None

    def _undecided(self, box: list[Range]) -> tuple[int, float] | None:
        """The first test that the box does not settle."""
        for root in self.ensemble.roots.tolist():
            node = root
            while self.feature[node] >= 0:
                cut = self._cut_inside(node, box)
                if cut is not None:
                    return self.feature[node], cut
                low, _ = box[self.feature[node]]
                node = self.left[node] if goes_left(self.tests[node], low) else self.right[node]
        return None

    @staticmethod
    def _halves(box: list[Range], f: int, cut: float) -> list[list[Range]]:
        left, right = box.copy(), box.copy()
        left[f], right[f] = (box[f][0], cut), (math.nextafter(cut, math.inf), box[f][1])
        return [left, right]

    # --- attacks on a box --------------------------------------------------------------------------------------------

    def _attacks(self) -> Iterator[tuple[int, ...]]:
        """Affordable sets of features: any of those whose moves exclude 0, with each maximal choice of the others."""
        movable = [f for f, i in enumerate(self.intervals) if i != (0.0, 0.0) and self.costs[f] <= self.budget]
        near = [f for f in movable if self.intervals[f][0] <= 0 <= self.intervals[f][1]]
        far = [f for f in movable if f not in near]
        for n_far in range(len(far) + 1):
            for some_far in itertools.combinations(far, n_far):
                left = self.budget - sum(self.costs[f] for f in some_far)
                if left < 0:
                    continue
                # No more features are affordable than if they were the cheapest; and to fewer than are affordable
                # even as the costliest, another can always be added.
                cheapest = list(itertools.accumulate(sorted(self.costs[f] for f in near)))
                costliest = list(itertools.accumulate(sorted((self.costs[f] for f in near), reverse=True)))
                most, least = (sum(cost <= left for cost in costs) for costs in (cheapest, costliest))
                for n_near in range(most, least - 1, -1):
                    for some in itertools.combinations(near, n_near):
                        spare = left - sum(self.costs[f] for f in some)
                        if spare >= 0 and all(self.costs[f] > spare for f in near if f not in some):
                            yield (*some_far, *some)

    def _targets(self, f: int, box: Range) -> list[Range]:
        """The doubles that a move of feature f from somewhere in the range can end at, as ranges."""
        if f in self.known:
            return self._known_ranges(f)
        (low, high), (first, last) = self.intervals[f], self.domain[f]
        start = first if math.isinf(low) else max(first, _at_least(Fraction(box[0]) + Fraction(low)))
        end = last if math.isinf(high) else min(last, -_at_least(-(Fraction(box[1]) + Fraction(high))))
        if low <= 0 <= high:
            return [(start, end)]
        ranges, below = [], start
        # So far out that doubles are more than twice the largest move apart, no move leads to another double.
        far = 2.0**55 * max(abs(low), abs(high))
        box = (max(box[0], -far), min(box[1], far))
        if box[0] > box[1]:
            return []
        # Counted back from any target, an interval as wide as the steps between the box's doubles contains one of them.
        wide = math.isinf(high - low) or Fraction(high) - Fraction(low) >= math.ulp(max(abs(box[0]), abs(box[1])))
        for cut in [*[c for c in self.cuts[f] if start <= c < end], end]:
            if below <= cut and (wide or some_move(box, (below, cut), (low, high)) is not None):
                ranges.append((below, cut))
            below = math.nextafter(cut, math.inf)
        return ranges

    def _known_ranges(self, f: int) -> list[Range]:
        """Ranges of doubles that no test tells from the values that a category can become."""
        ranges, begin = [], self.known[f][0]
        for value, following in itertools.pairwise(self.known[f]):
            between = [cut for cut in self.cuts[f] if value <= cut < following]
            if len(between) > 1:  # what lies between two cuts is no such value
                ranges.append((begin, between[0]))
                begin = math.nextafter(between[-1], math.inf)
        return [*ranges, (begin, self.known[f][-1])]

    def is_stable(self, box: list[Range]) -> bool:
        """Whether no attack on any row of the box changes its label."""
        waiting = [box]
        while waiting:
            box = waiting.pop()
            if self.two_labels(box) is not None:
                split = self._undecided(box)
                assert split is not None
                waiting += self._halves(box, *split)
                continue
            label = predict_row(self.ensemble, np.array([low for low, _ in box]))
            for moved in self._attacks():
                for targets in itertools.product(*(self._targets(f, box[f]) for f in moved)):
                    region = box.copy()
                    for f, target in zip(moved, targets, strict=True):
                        region[f] = target
                    if self.another_label(region, label) is not None:
                        return False
        return True

    def is_unstable(self, box: list[Range]) -> bool:
        """Whether some attack on each row of the box changes its label."""
        waiting = [box]
        while waiting:
            box = waiting.pop()
            if self.two_labels(box) is not None:
                split = self._undecided(box)
                assert split is not None
                waiting += self._halves(box, *split)
                continue
            row = [high for _, high in box]
            found = self._break(row, predict_row(self.ensemble, np.array(row)))
            if found is None:
                return False
            waiting += self._beyond(box, row, *found)
        return True

    def _break(self, row: list[float], label: Any) -> tuple[tuple[int, ...], list[float]] | None:
        """Features to move and where they lead, such that the label of this row changes; None if it is stable."""
        for moved in self._attacks():
            for targets in itertools.product(*(self._targets(f, (row[f], row[f])) for f in moved)):
                region = [(x, x) for x in row]
                for f, target in zip(moved, targets, strict=True):
                    region[f] = target
                attacked = self.another_label(region, label)
                if attacked is None:
                    continue
                for f in moved:
                    # What need not move is left alone: the same move then breaks a larger part of the box.
                    without = [*attacked[:f], row[f], *attacked[f + 1 :]]
                    if predict_row(self.ensemble, np.array(without)) != label:
                        attacked = without
                return tuple(f for f in moved if attacked[f] != row[f]), attacked
        return None

    def _beyond(
        self, box: list[Range], row: list[float], moved: tuple[int, ...], attacked: list[float]
    ) -> list[list[Range]]:
        """What is left of a box of one label without the part around `row` that the same move breaks."""
        left_over = []
        here = box.copy()
        for f in moved:
            # Keep the doubles of the box from which a move leads to the same value.
            high = self.intervals[f][1]
            first = here[f][0] if math.isinf(high) else _at_least(Fraction(attacked[f]) - Fraction(high))
            if first > here[f][0]:
                below = here.copy()
                below[f] = (here[f][0], math.nextafter(first, -math.inf))
                left_over.append(below)
                here[f] = (first, here[f][1])
        region = [(attacked[f], attacked[f]) if f in moved else here[f] for f in range(len(box))]
        while True:
            # Cut away until every row of the rest changes its label by this move: until the rest has one label.
            if self.two_labels(region) is None:
                return left_over
            split = self._undecided(region)
            assert split is not None
            f, cut = split
            region_left, region_right = self._halves(region, f, cut)
            here_left, here_right = self._halves(here, f, cut)
            if row[f] <= cut:
                region, here = region_left, here_left
                left_over.append(here_right)
            else:
                region, here = region_right, here_right
                left_over.append(here_left)


def _at_least(number: Fraction) -> float:
    """The smallest double that is at least this number; infinite beyond the largest."""
    try:
        near = number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.nextafter(math.inf, 0.0)
    return math.nextafter(near, math.inf) if Fraction(near) < number else near
