"""Neighbourhoods that hold several labels: is there a neighbour z, and w within reach of z, with different labels?

Where the attacker can cross every threshold inside N(x), two labels are enough (docs/theory.md). A threshold that he
cannot cross is a wall: a box of neighbours is split there, and the parts are decided on their own, those of all rows
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treeproof.model.grid import Grid
from treeproof.numbers.doubles import FloatArray, add_down, add_up, double_at_most, next_down, next_up
from treeproof.results.verdicts import Outcome
from treeproof.run import clock
from treeproof.threat.threat import Threat
from treeproof.verification.forks import Forks
from treeproof.verification.part_proofs import PartProofs, content

if TYPE_CHECKING:
    from treeproof.verification.local_search import Local

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

MOST_BOXES = 1024
"""How many boxes are split at once. The newest come first, so that the list of those that wait stays short."""


@dataclass(eq=False)
class Boxes:
    """Boxes [low, high] of neighbours of the rows `row`; each is a part of its neighbourhood.

    `here` and `there` are neighbours with different labels; where they are not, it is not known whether there are any.
    """

    row: Ints
    part: Ints
    low: FloatArray
    high: FloatArray
    here: FloatArray
    there: FloatArray

    def at(self, which: Any) -> Boxes:
        """Some of the boxes."""
        return Boxes(*(one[which] for one in self._arrays()))

    def __add__(self, other: Boxes) -> Boxes:
        return Boxes(*map(np.concatenate, zip(self._arrays(), other._arrays(), strict=True)))

    def __len__(self) -> int:
        return len(self.row)

    def _arrays(self) -> tuple[Any, ...]:
        return self.row, self.part, self.low, self.high, self.here, self.there


@dataclass(eq=False)
class Changes:
    """Neighbouring rows `before` and `after` with different labels: they differ in `feature`, by one double."""

    before: FloatArray
    after: FloatArray
    feature: Ints

    @property
    def values(self) -> tuple[FloatArray, FloatArray]:
        """What the feature is before and after."""
        one_each = np.arange(len(self.feature)), self.feature
        return self.before[one_each], self.after[one_each]

    def at(self, which: Any) -> Changes:
        """Some of the changes."""
        return Changes(self.before[which], self.after[which], self.feature[which])


class Pairs:
    """The search over pairs for boxes that hold two labels, one for each of n rows.

    `settle` says what it found: outcomes, for rows that are refuted `neighbour` and `attacked`, and for those that are
    proved `proofs`; and how many seconds of each row's time are `used`.
    """

    def __init__(self, local: Local, boxes: Boxes, used: FloatArray) -> None:
        """Box i is all of the neighbourhood of row i, of whose time so many seconds are used."""
        self._local, self._start, self._x = local, boxes, boxes.here
        self._grid = local.ensemble.grid
        self._idle: Local | None = None
        self._special = np.zeros(boxes.low.shape[1], dtype=bool)
        self._special[[f for f, _ in local.threat.columns]] = True
        self._walls_below = np.concatenate(([0], np.cumsum(find_walls(local.threat, self._grid))))
        self._forks: Forks | None = None
        n = len(boxes)
        self.proofs = PartProofs(n, local._proof_limit)
        self.outcome = np.full(n, Outcome.PROVED, dtype=np.int64)
        self.neighbour, self.attacked = boxes.here.copy(), boxes.here.copy()
        self.used, self._begun, self._split = used.copy(), used, np.zeros(n, dtype=np.int64)
        self._is_over = local.limits.for_rows(n, used.sum())

    def settle(self) -> None:
        """Splits boxes until none is left, or time is up."""
        limits = self._local.limits
        alike = self._predict(self._start.here) == self._predict(self._start.there)
        boxes = self._start.at(~alike) + self._decide(self._start.at(alike), needed=True)
        boxes = boxes.at(self._open(boxes.row))
        while len(boxes):
            if limits.is_over():
                self._give_up(boxes.row)
                return
            began, before = clock.at_work(), self.used.sum()
            now = self._chosen(boxes.row)
            taken = boxes.at(now)
            boxes = boxes.at(~now) + self._round(taken)
            split = np.bincount(taken.row, minlength=len(self._split))
            self._split += split
            # Searches count what they take, and the rest is shared.
            self.used += (clock.at_work() - began - (self.used.sum() - before)) * split / len(taken)
            if limits.timeout is not None:
                late = self.used[boxes.row] > limits.timeout
                self._give_up(boxes.row[late])
                boxes = boxes.at(~late)
            boxes = boxes.at(self._open(boxes.row))

    def _chosen(self, row: Ints) -> Bools:
        """Which boxes are split next: the newest, equally many of each row, but no more than it has time for."""
        n, timeout = len(self.outcome), self._local.limits.timeout
        count = np.bincount(row, minlength=n)
        most = np.full(n, MOST_BOXES // np.count_nonzero(count), dtype=np.float64)
        if timeout is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                most = np.fmin(most, (timeout - self.used) / (self.used - self._begun) * self._split)
        from_the_end = np.empty(len(row), dtype=np.int64)
        order = np.argsort(row, kind="stable")
        from_the_end[order] = np.cumsum(count)[row[order]] - 1 - np.arange(len(row))
        return np.asarray(from_the_end < np.maximum(most, 1)[row])

    def _round(self, boxes: Boxes) -> Boxes:
        """Splits these boxes, if nothing refutes their rows; returns the parts that still hold two labels."""
        changes = self._changes(boxes.here, boxes.there)
        ends = self._grid.cells(changes.before), self._grid.cells(changes.after)
        wall = self._has_walls(*ends).any(axis=1)
        self._cross(boxes.row[~wall], changes.at(~wall))
        boxes, changes = boxes.at(wall), changes.at(wall)
        for side in (0, 1):
            left = self._open(boxes.row)
            boxes, changes = boxes.at(left), changes.at(left)
            self._probe(boxes, (changes.before, changes.after)[side])
        left = self._open(boxes.row)
        return self._decide(self._without_idle(self._halves(boxes.at(left), changes.at(left))), needed=True)

    def _halves(self, boxes: Boxes, changes: Changes) -> Boxes:
        """Both sides of a wall in each box: first those with the lower values."""
        k, f = np.arange(len(boxes)), changes.feature
        start, end = changes.values
        high, low = boxes.high.copy(), boxes.low.copy()
        high[k, f], low[k, f] = np.minimum(start, end), np.maximum(start, end)
        up = (start < end)[:, None]
        here = np.concatenate((np.where(up, boxes.here, boxes.there), np.where(up, boxes.there, boxes.here)))
        return Boxes(
            np.tile(boxes.row, 2),
            np.concatenate(self.proofs.split(boxes.part, f, high[k, f])),
            np.concatenate((boxes.low, low)),
            np.concatenate((high, boxes.high)),
            here,
            here,
        )

    def _probe(self, boxes: Boxes, point: FloatArray) -> None:
        """Looks for attacks on neighbours that share with the point what has walls; there, two labels are enough."""
        if not len(boxes):
            return
        fixed = self._has_walls(self._grid.cells(boxes.low), self._grid.cells(boxes.high))
        # The point need not be on a grid, but others in its cell may be.
        lowest, highest = self._grid.cell_ends
        at = self._grid.start[:-1] + np.maximum(self._grid.cells(point), 0)
        first, last = (np.where(self._special, ends[at], point) for ends in (lowest, highest))
        low = np.where(fixed, np.maximum(first, boxes.low), boxes.low)
        high = np.where(fixed, np.minimum(last, boxes.high), boxes.high)
        mixed = self._decide(self._drawn_in(Boxes(boxes.row, boxes.part, low, high, point, point)), needed=False)
        if len(mixed):
            self._cross(mixed.row, self._changes(mixed.here, mixed.there))

    def _drawn_in(self, boxes: Boxes) -> Boxes:
        """Boxes between points of grids, in columns with a step, without those that hold none; `here` is in the box."""
        if not self._special.any():
            return boxes
        low, high = self._local.threat.inside(self._x[boxes.row], boxes.low, boxes.high)
        some = ~(low > high).any(axis=1)
        here = np.where(np.isnan(boxes.here), boxes.here, np.clip(boxes.here, low, high))
        return Boxes(boxes.row, boxes.part, low, high, here, here).at(some)

    def _predict(self, rows: FloatArray) -> Ints:
        """The label of each row; with a goal, whether the attacker wants it."""
        labels = self._local.ensemble.class_of_doubles(rows)
        return np.isin(labels, self._local.threat.goal).astype(np.int64) if self._local.threat.goal else labels

    def _ask(self, boxes: Boxes, needed: bool) -> tuple[Ints, Ints, FloatArray, FloatArray]:
        """Which boxes hold another label than `here` has, or reach one that is wanted: outcomes, boxes, pairs.

        What proves that others do not is noted where it is `needed`.
        """
        local = self._local
        outcome, x = np.full(len(boxes), Outcome.PROVED, dtype=np.int64), self._x[boxes.row]
        wanted = self._predict(boxes.here) == 1 if local.threat.goal else np.zeros(len(boxes), dtype=bool)
        z, w = boxes.here.copy(), boxes.here.copy()
        for some, search in ((~wanted, local), (wanted, self._idle_search() if wanted.any() else local)):
            if some.any():
                these, labels = boxes.at(some), local.ensemble.predict_index(boxes.here[some])
                own = x[some]
                status, cells = search._search(these.low, these.high, these.here, labels, own, self.used, these.row)
                self.used = search.used
                if needed:
                    proofs = search._claims if search is local else [content(claim) for claim in search._claims]
                    self.proofs.prove(these.part, proofs)
                ends = own, these.low, these.high
                z[some], w[some], late = search._in_time(status == Outcome.REFUTED, ends, cells, self._is_over)
                status[late] = Outcome.UNKNOWN
                outcome[some] = status
        mixed = np.flatnonzero(outcome == Outcome.REFUTED)
        return outcome, mixed, z[mixed], w[mixed]

    def _idle_search(self) -> Local:
        """A search for neighbours with labels that the attacker does not want."""
        if self._idle is None:
            ensemble, threat = self._local.ensemble, self._local.threat
            idle, limits = threat.idle(ensemble.n_classes), self._local.limits
            self._idle = type(self._local)(ensemble, idle, limits, proof_limit=self._local._proof_limit)
        return self._idle

    def _decide(self, boxes: Boxes, needed: bool) -> Boxes:
        """Which boxes hold another label than `here` has, and where; an unstable neighbour there refutes its row.

        Where `needed`, no row is proved without all its boxes.
        """
        if not len(boxes):
            return boxes
        outcome, mixed, near, attacked = self._ask(boxes, needed)
        if needed:
            self._give_up(boxes.row[outcome == Outcome.UNKNOWN])
        boxes = boxes.at(mixed)
        boxes.there = near
        unstable = self._local.shows(self._x[boxes.row], boxes.there, attacked)
        self._refute(boxes.row[unstable], boxes.there[unstable], attacked[unstable])
        return boxes.at(~unstable)

    def _without_idle(self, parts: Boxes) -> Boxes:
        """What is left of boxes after leaving out where attacks change nothing."""
        if not len(parts):
            return parts
        # What is blanked or filled in may go anywhere.
        parts = parts if self._local.threat.blanks else self._at_forks(parts)
        left = self._drawn_in(parts)
        self.proofs.leave_idle(np.setdiff1d(parts.part, left.part))
        return left

    def _at_forks(self, parts: Boxes) -> Boxes:
        """What is left of boxes where attacks may lead to other leaves."""
        if self._forks is None:
            self._forks = Forks(
                self._local, self._start.low, self._start.high, self._open(np.arange(len(self.outcome)))
            )
        low, high, some = self._forks.shrink(parts.row, parts.low, parts.high)
        here = np.where(np.isnan(parts.here), parts.here, np.clip(parts.here, low, high))
        self.proofs.leave_idle(parts.part[~some])
        part = self.proofs.shrink(parts.part, (parts.low, parts.high), (low, high))
        return Boxes(parts.row, part, low, high, here, here).at(some)

    def _changes(self, here: FloatArray, there: FloatArray) -> Changes:
        """A change of label between `here` and `there`; where there are no walls, if one is seen there."""
        cells = self._grid.cells(here), self._grid.cells(there)
        walled = self._has_walls(*cells)
        # In the same cell, `there` is a neighbour for sure.
        here = np.where(self._special & (cells[0] == cells[1]), there, here)
        # One way begins with the features that have no walls, and the other ends with them.
        along, across = np.where(walled, here, there), np.where(walled, there, here)
        early = (self._predict(along) != self._predict(here))[:, None]
        late = ~early & (self._predict(across) != self._predict(there))[:, None]
        begin = np.where(late, across, here)
        end = np.where(early, along, np.where(late, there, across))
        return self._bisect(begin, end)

    def _bisect(self, begin: FloatArray, end: FloatArray) -> Changes:
        """Halves the way from `begin` to `end`, feature by feature, until a step of one cell changes the label."""
        grid = self._grid
        first, last = grid.cells(begin).astype(np.int64), grid.cells(end).astype(np.int64)
        steps, up = np.abs(last - first), last > first
        earlier = np.cumsum(steps, axis=1) - steps
        lowest, highest = grid.cell_ends

        def rows_at(position: Ints) -> FloatArray:
            """Where one is after so many steps: at the nearest double of each cell that was entered."""
            done = np.clip(position[:, None] - earlier, 0, steps)
            at = grid.start[:-1] + np.maximum(np.where(up, first + done, first - done), 0)
            return np.where(done == 0, begin, np.where(up, lowest[at], highest[at]))

        label = self._predict(begin)
        same, other = np.zeros(len(begin), dtype=np.int64), steps.sum(axis=1)
        while (other - same > 1).any():
            middle = (same + other) // 2
            is_same = self._predict(rows_at(middle)) == label
            same, other = np.where(is_same, middle, same), np.where(is_same, other, middle)
        before, after = rows_at(same), rows_at(other)
        feature = np.argmax((earlier <= same[:, None]) & (same[:, None] < earlier + steps), axis=1)
        k = np.arange(len(begin))
        # The last double before the step.
        entered = after[k, feature]
        before[k, feature] = np.where(up[k, feature], next_down(entered), next_up(entered))
        return Changes(before, after, feature)

    def _has_walls(self, first: npt.NDArray[np.int32], last: npt.NDArray[np.int32]) -> Bools:
        """Whether there are walls between two cells (n, n_features) of each feature."""
        at = self._grid.offsets[:-1] + np.maximum((first, last), 0)
        return np.asarray(self._walls_below[at[0]] != self._walls_below[at[1]])

    def _cross(self, rows: Ints, changes: Changes) -> None:
        """Refutes rows by changes of label that the attacker can cross, in one direction or the other."""
        threat, f = self._local.threat, changes.feature
        start, end = changes.values
        onward = can_move(threat, f, start, end)
        if threat.goal:
            # Both ways can be gone, and only one of them leads to the goal.
            onward = self._predict(changes.before) == 0
        z, w = (changes.before, changes.after), (changes.after, changes.before)
        self._refute(rows, np.where(onward[:, None], *z), np.where(onward[:, None], *w))

    def _refute(self, rows: Ints, z: FloatArray, w: FloatArray) -> None:
        self.outcome[rows] = Outcome.REFUTED
        self.neighbour[rows], self.attacked[rows] = z, w

    def _give_up(self, rows: Ints) -> None:
        """Nothing proves these rows any more; what is left of them may still refute them."""
        self.outcome[rows[self._open(rows)]] = Outcome.UNKNOWN

    def _open(self, rows: Ints) -> Bools:
        return np.asarray(self.outcome[rows] != Outcome.REFUTED)


def can_move(threat: Threat, feature: Ints, start: FloatArray, end: FloatArray) -> Bools:
    """Whether the attacker can move a feature alone from `start` to `end`, entry by entry; the two differ.

    Of columns with prices of their own nothing is known here: they count as if they could not be moved.
    """
    budget = np.full(len(threat.cost), threat.budget)
    for group, most in zip(threat.groups, threat.group_budgets, strict=True):
        budget[list(group)] = np.minimum(budget[list(group)], most)
    plain = np.ones(len(threat.cost), dtype=bool)
    plain[[f for f, _ in threat.columns]] = False
    if threat.power is not None:
        radius = Fraction(threat.radius)
        farthest = np.array([double_at_most(radius * Fraction(unit)) for unit in threat.unit.tolist()])
        goes = np.where(end > start, threat.high[feature] > 0, threat.low[feature] < 0)
        return np.asarray(plain[feature] & goes & (np.abs(end - start) <= farthest[feature]))
    lowest, highest = add_up(start, threat.low[feature]), add_down(start, threat.high[feature])
    payable = plain & (threat.cost <= budget)
    return np.asarray(payable[feature] & (lowest <= end) & (end <= highest))


def find_walls(threat: Threat, grid: Grid) -> Bools:
    """Which cuts the attacker can cross in neither direction, from one double to the next; with a goal, not in both."""
    feature = np.repeat(np.arange(grid.n_features), np.diff(grid.offsets))
    below, above = grid.cuts, next_up(grid.cuts)
    up, down = can_move(threat, feature, below, above), can_move(threat, feature, above, below)
    return ~(up & down if threat.goal else up | down)
