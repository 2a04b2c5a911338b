"""Re-checks evidence in plain Python and exact rational arithmetic; imports no kernel and no engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from treeproof.ensemble import Decision, Ensemble
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.importers import as_ensemble
from treeproof.intervals import FloatArray
from treeproof.moves import some_move
from treeproof.threat import Attacker, Threat, bind_epsilon
from treeproof.verdicts import Outcome, Verification, Witness

Range: TypeAlias = tuple[float, float]
"""The doubles from the first to the second number, both included."""


def is_witness(model: Any, attacker: Attacker, epsilon: Any, witness: Witness) -> bool:
    """Whether the witness holds: the neighbour is in N(x), the attack is in A(neighbour), and the label changes.

    Membership is decided by the definitions, with rational numbers; labels by a plain walk of the trees.
    """
    ensemble = as_ensemble(model)
    return is_within_reach(ensemble, attacker, epsilon, witness) and (
        predict_row(ensemble, witness.neighbour) != predict_row(ensemble, witness.attacked)
    )


def is_within_reach(ensemble: Ensemble, attacker: Attacker, epsilon: Any, witness: Witness) -> bool:
    """Whether the neighbour is in N(x) and the attack in A(neighbour), whatever their labels."""
    threat = attacker.bind(ensemble)
    rows = [np.asarray(row, dtype=np.float64) for row in (witness.x, witness.neighbour, witness.attacked)]
    if not all(row.shape == (ensemble.n_features,) and _is_taken(ensemble, threat, row) for row in rows):
        return False
    x, near, attacked = rows
    reach = bind_epsilon(0.0 if epsilon is None else epsilon, ensemble)
    return _in_neighbourhood(reach, x, near) and _in_attack(ensemble, attacker, near, attacked)


def _is_taken(ensemble: Ensemble, threat: Threat, row: FloatArray) -> bool:
    """Whether the model takes every value, and the domain holds it."""
    missing = np.isnan(row)
    if missing.any() and not ensemble.handles_missing:
        return False
    return bool((missing | ((threat.domain_low <= row) & (row <= threat.domain_high))).all())


def _differing(a: FloatArray, b: FloatArray) -> list[int]:
    """The features whose values differ; a NaN equals a NaN."""
    return np.flatnonzero((a != b) & ~(np.isnan(a) & np.isnan(b))).tolist()


def _in_neighbourhood(reach: FloatArray, x: FloatArray, near: FloatArray) -> bool:
    for f in _differing(x, near):
        a, b = float(x[f]), float(near[f])
        if math.isnan(a) or math.isnan(b):
            return False
        if math.isfinite(reach[f]) and abs(Fraction(b) - Fraction(a)) > Fraction(float(reach[f])):
            return False
    return True


def _in_attack(ensemble: Ensemble, attacker: Attacker, near: FloatArray, attacked: FloatArray) -> bool:
    intervals = attacker.intervals.bind(ensemble, (0.0, 0.0))
    costs = attacker.costs.bind(ensemble, 1)
    spent = Fraction(0)
    for f in _differing(near, attacked):
        a, b = float(near[f]), float(attacked[f])
        if math.isnan(a) or math.isnan(b):
            return False
        moved = Fraction(b) - Fraction(a)
        low, high = intervals[f]
        if attacker.power is not None:
            if (low, high) == (0.0, 0.0):
                return False
            spent += abs(moved) ** attacker.power
        elif (math.isinf(low) or moved >= Fraction(low)) and (math.isinf(high) or moved <= Fraction(high)):
            spent += costs[f]
        else:
            return False
    if attacker.power is not None:
        return spent <= Fraction(attacker.radius) ** attacker.power
    return attacker.budget is None or spent <= attacker.budget


def predict_row(ensemble: Ensemble, x: FloatArray) -> Any:
    """The label of one row by a plain walk, adding scores in the library's order and precision."""
    rule = ensemble.rule
    number = np.dtype(rule.precision).type
    scores = [number(0) if rule.base_last else number(base) for base in ensemble.base]
    for root in ensemble.roots.tolist():
        node = root
        while ensemble.feature[node] >= 0:
            value = float(x[ensemble.feature[node]])
            left = bool(ensemble.nan_left[node]) if math.isnan(value) else value <= ensemble.threshold[node]
            node = int(ensemble.left[node] if left else ensemble.right[node])
        leaf = ensemble.leaf_scores[ensemble.leaf[node]]
        scores = [number(score + part) for score, part in zip(scores, leaf, strict=True)]
    scores = [number(float(score) / float(rule.divisor)) for score in scores]
    if rule.base_last:
        scores = [number(score + number(base)) for score, base in zip(scores, ensemble.base, strict=True)]
    return ensemble.classes[_class_of(rule, scores, number)].item()


def _class_of(rule: Any, scores: list[Any], number: Any) -> int:
    if rule.decision == Decision.CUT:
        return int(float(scores[0]) > rule.cut)
    if rule.decision == Decision.SOFTMAX:
        powers = [number(math.exp(float(number(score - max(scores))))) for score in scores]
        total = number(sum(float(power) for power in powers))
        scores = [number(power / total) for power in powers]
    elif rule.decision == Decision.SIGMOID:
        scores = [number(_sigmoid(rule.steepness * float(score))) for score in scores]
    return scores.index(max(scores))


def _sigmoid(x: float) -> float:
    try:
        return 1.0 / (1.0 + math.exp(-x))
    except OverflowError:
        return 0.0


def check_verification(
    model: Any, result: Verification, sample: int | None = None, seed: int = 0, most_boxes: int = 500
) -> dict[str, int]:
    """Checks every row of a result (or `sample` of them, at random) again: labels, counterexamples and proofs.

    Raises SoundnessError with the first row that does not hold. Returns how many labels, counterexamples and proofs
    were checked, and how many proofs were not: those that take more than `most_boxes` boxes, those for Lp attackers,
    and those for rows with missing values.
    """
    ensemble, attacker = as_ensemble(model), result.attacker
    if attacker is None:
        raise InvalidInput("the result does not say which attacker it is about")
    rows = np.arange(len(result))
    if sample is not None and sample < len(rows):
        rows = np.sort(np.random.default_rng(seed).choice(rows, size=sample, replace=False))
    prover = _Prover(ensemble, attacker, most_boxes) if attacker.power is None else None
    threat = attacker.bind(ensemble)
    counts = {"labels": 0, "counterexamples": 0, "proofs": 0, "proofs not checked": 0}
    for row in rows.tolist():
        x = result.X[row]
        _hold(predict_row(ensemble, x) == result.predicted[row], row, "is predicted otherwise")
        counts["labels"] += 1
        refuted, proved = _claims(result, row)
        if result.has_witness[row] or refuted:
            witness = result.witness(row)
            holds = witness is not None and any(is_witness(ensemble, attacker, one, witness) for one in refuted)
            _hold(holds, row, "has no counterexample that holds")
            counts["counterexamples"] += 1
        for epsilon in proved:
            if prover is None or np.isnan(x).any():
                counts["proofs not checked"] += 1
                continue
            near = threat.neighbourhood(x[None], bind_epsilon(epsilon, ensemble))
            box = list(zip(near[0][0].tolist(), near[1][0].tolist(), strict=True))
            try:
                holds = prover.is_stable(box)
            except _TooManyBoxes:
                counts["proofs not checked"] += 1
                continue
            _hold(holds, row, f"is not stable within ε = {epsilon}")
            counts["proofs"] += 1
    return counts


def _claims(result: Verification, row: int) -> tuple[list[Any], list[Any]]:
    """The neighbourhoods of a row, 0 for itself, in which a result says that it is unstable, and stable."""
    refuted, proved = [], []
    if result.stability[row] == Outcome.REFUTED:
        refuted.append(0.0)
    elif result.stability[row] == Outcome.PROVED:
        proved.append(0.0)
    for epsilon, outcomes in zip(result.epsilons, result.resilience_by_epsilon, strict=True):
        if outcomes[row] == Outcome.PROVED:
            _hold(bool(result.correct[row]), row, "is resilient and wrong at once")
            proved.append(epsilon)
        elif outcomes[row] == Outcome.REFUTED and result.correct[row]:
            refuted.append(epsilon)
    return refuted, proved


def _hold(holds: bool, row: int, what: str) -> None:
    if not holds:
        raise SoundnessError(f"row {row} {what}")


def check_map(model: Any, attacker: Attacker, smap: Any, sample: int | None = None, seed: int = 0) -> int:
    """Proves every box of a stability map again (or `sample` of them, at random), and that boxes tile the space.

    Works on doubles and plain walks of the trees alone. Raises SoundnessError with the first box that does not hold;
    returns how many boxes were proved. Nothing is claimed of OPEN boxes, so nothing is checked.
    """
    ensemble = as_ensemble(model)
    prover = _Prover(ensemble, attacker)
    decided = [(box, status) for box, status in _tiles(smap) if status in (0, 1)]
    if sample is not None and sample < len(decided):
        chosen = np.random.default_rng(seed).choice(len(decided), size=sample, replace=False)
        decided = [decided[i] for i in sorted(chosen.tolist())]
    for box, status in decided:
        holds = prover.is_stable(box) if status == 0 else prover.is_unstable(box)
        if not holds:
            raise SoundnessError(f"the map calls this box {('stable', 'unstable')[status]}, which it is not: {box!r}")
    return len(decided)


def _tiles(smap: Any) -> Iterator[tuple[list[Range], int]]:
    """Every box of the map with its status; refuses a tree whose boxes overlap, are empty or do not fill the space."""
    grid = smap.grid
    counts = np.diff(grid.bounds.offsets)
    feature = np.repeat(np.arange(len(counts)), counts).tolist()
    value, nodes = grid.bounds.cuts.tolist(), np.asarray(smap.nodes).tolist()
    space = [(float(low), float(high)) for low, high in zip(grid.low, grid.high, strict=True)]
    seen = np.zeros(len(nodes), dtype=bool)
    waiting: list[tuple[int, list[Range]]] = [(0, space)]
    while waiting:
        node, box = waiting.pop()
        if not 0 <= node < len(nodes) or seen[node]:
            raise SoundnessError(f"the map is not a tree: node {node} is missing or has two parents")
        seen[node] = True
        cut, child = nodes[node]
        if cut < 0:
            yield box, -1 - child
            continue
        f = feature[cut]
        low, high = box[f]
        if not low <= value[cut] < high:
            raise SoundnessError(f"the map cuts feature {f} at {value[cut]}, outside its box from {low} to {high}")
        left, right = box.copy(), box.copy()
        left[f], right[f] = (low, value[cut]), (math.nextafter(value[cut], math.inf), high)
        waiting += [(child, left), (child + 1, right)]
    if not seen.all():
        raise SoundnessError(f"the map is not a tree: node {int(np.argmin(seen))} cannot be reached")


class _TooManyBoxes(Exception):
    """A proof would take longer than it may."""


class _Prover:
    """Proofs about boxes of doubles, by walking trees and splitting boxes at thresholds."""

    def __init__(self, ensemble: Ensemble, attacker: Attacker, most_boxes: float = math.inf) -> None:
        self.ensemble = ensemble
        self.most_boxes = most_boxes
        threat = attacker.bind(ensemble)
        self.domain = [(float(a), float(b)) for a, b in zip(threat.domain_low, threat.domain_high, strict=True)]
        self.intervals = [(float(a), float(b)) for a, b in zip(threat.low, threat.high, strict=True)]
        self.costs, self.budget = threat.cost.tolist(), int(threat.budget)
        self.cuts = [ensemble.grid.cuts_of(f).tolist() for f in range(ensemble.n_features)]
        self.feature, self.threshold = ensemble.feature.tolist(), ensemble.threshold.tolist()
        self.left, self.right = ensemble.left.tolist(), ensemble.right.tolist()
        rows = ensemble.leaf_scores.astype(np.float64)
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
        """A lead that no rounding can undo; 0 where scores are whole numbers, infinite where only exact scores tell."""
        rule = self.ensemble.rule
        largest = float(np.abs(rows).max()) * self.ensemble.n_trees + max(map(abs, self.base))
        plain = rule.decision in (Decision.ARGMAX, Decision.CUT)
        if plain and largest < 2**20 and (rows == np.rint(rows)).all() and all(b == int(b) for b in self.base):
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
        """A row of the box with another label than this one; None if there is none."""
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
        """Whether the best that each tree could do for any other class is not enough."""
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
            if box[f][0] <= self.threshold[node]:
                waiting.append(self.left[node])
            if box[f][1] > self.threshold[node]:
                waiting.append(self.right[node])

    def _undecided(self, box: list[Range]) -> tuple[int, float] | None:
        """The first test that the box does not settle."""
        for root in self.ensemble.roots.tolist():
            node = root
            while self.feature[node] >= 0:
                (low, high), cut = box[self.feature[node]], self.threshold[node]
                if low <= cut < high:
                    return self.feature[node], cut
                node = self.left[node] if high <= cut else self.right[node]
        return None

    @staticmethod
    def _halves(box: list[Range], f: int, cut: float) -> list[list[Range]]:
        left, right = box.copy(), box.copy()
        left[f], right[f] = (box[f][0], cut), (math.nextafter(cut, math.inf), box[f][1])
        return [left, right]

    # --- attacks on a box --------------------------------------------------------------------------------------------

    def _attacks(self) -> Iterator[tuple[int, ...]]:
        """The sets of features that can be paid for and are as large as that allows; with moves that exclude 0, all."""
        movable = [f for f, i in enumerate(self.intervals) if i != (0.0, 0.0) and self.costs[f] <= self.budget]
        near = [f for f in movable if self.intervals[f][0] <= 0 <= self.intervals[f][1]]
        far = [f for f in movable if f not in near]
        for n_far in range(len(far) + 1):
            for some_far in itertools.combinations(far, n_far):
                left = self.budget - sum(self.costs[f] for f in some_far)
                if left < 0:
                    continue
                # No set of more features than the cheapest ones can be paid for, and to one of fewer than the dearest
                # ones, if those can, another feature can be added.
                cheapest = list(itertools.accumulate(sorted(self.costs[f] for f in near)))
                dearest = list(itertools.accumulate(sorted((self.costs[f] for f in near), reverse=True)))
                most, least = (sum(cost <= left for cost in costs) for costs in (cheapest, dearest))
                for n_near in range(most, least - 1, -1):
                    for some in itertools.combinations(near, n_near):
                        spare = left - sum(self.costs[f] for f in some)
                        if spare >= 0 and all(self.costs[f] > spare for f in near if f not in some):
                            yield (*some_far, *some)

    def _targets(self, f: int, box: Range) -> list[Range]:
        """The doubles that a move of feature f from somewhere in the range can end at, as ranges."""
        (low, high), (first, last) = self.intervals[f], self.domain[f]
        start = first if math.isinf(low) else max(first, _at_least(Fraction(box[0]) + Fraction(low)))
        end = last if math.isinf(high) else min(last, -_at_least(-(Fraction(box[1]) + Fraction(high))))
        if low <= 0 <= high:
            return [(start, end)]
        ranges, below = [], start
        # From so far out that doubles are more than twice the largest move apart, no move leads to another double.
        far = 2.0**55 * max(abs(low), abs(high))
        box = (max(box[0], -far), min(box[1], far))
        if box[0] > box[1]:
            return []
        # An interval as wide as the steps between the box's doubles holds one of them, counted back from any target.
        wide = math.isinf(high - low) or Fraction(high) - Fraction(low) >= math.ulp(max(abs(box[0]), abs(box[1])))
        for cut in [*[c for c in self.cuts[f] if start <= c < end], end]:
            if below <= cut and (wide or some_move(box, (below, cut), (low, high)) is not None):
                ranges.append((below, cut))
            below = math.nextafter(cut, math.inf)
        return ranges

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
                    # What need not be moved is not: the same move then breaks a larger part of the box.
                    without = [*attacked[:f], row[f], *attacked[f + 1 :]]
                    if predict_row(self.ensemble, np.array(without)) != label:
                        attacked = without
                return tuple(f for f in moved if attacked[f] != row[f]), attacked
        return None

    def _beyond(
        self, box: list[Range], row: list[float], moved: tuple[int, ...], attacked: list[float]
    ) -> list[list[Range]]:
        """What is left of a box of one label without the part that the same move breaks, which holds `row`."""
        left_over = []
        here = box.copy()
        for f in moved:
            # Those doubles of the box from which the move leads to the same value.
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
