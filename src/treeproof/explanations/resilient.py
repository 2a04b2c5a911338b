"""The cheapest change to a wanted label that holds for every valid row within ε of the changed one.

A search proposes the cheapest change that nothing speaks against so far, and a second one looks for a neighbour of it
without a wanted label. If there is one, it lies in a box of rows that all miss the wanted labels, as large as can be
told; every row with a neighbour in that box is ruled out by a condition on its columns, and the first search goes on.
Columns are cut where boxes end, moved by ε: so there are finitely many of them, and both answers are exact.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, SoundnessError
from treeproof.explanations.finder import Change, Finder
from treeproof.model.ensemble import Ensemble
from treeproof.model.grid import Grid
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import LARGEST, FloatArray, add_down, add_up, next_down, next_up
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.relations import ColumnLiteral, Linear
from treeproof.threat.step_grid import StepGrid
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import NO_CELL, Local, price_of_attack
from treeproof.verification.row_question import FREE, outside
from treeproof.verification.space import Clause, Space
from treeproof.verification.valid_rows import Columns

EXACT_DIGITS = 15
"""A decimal of so many digits is what the double nearest to it prints as."""
WIDER = (0.02, 0.1, 0.3, 1.0, 4.0, 32.0)
"""By which shares of the least price searches go beyond it, one after the other."""
FARTHER = (1.05, 1.3, 2.0)
"""What may be paid, as multiples of a price, for rows that boxes should rule out first."""
BOLD_ROUND, BOLD = 6, (1.2, 1.5, 2.0, 3.0)
"""In every so many-th round, ε is multiplied by one of these, in turns."""
MOST_BOXES = 4096
"""How many boxes of other rows are kept."""


@dataclass(frozen=True, eq=False)
class WrongBox:
    """Rows from `low` to `high` (NaN: missing), of which the valid ones in the domain all miss the wanted labels."""

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class ResilientFinder(Finder):
    """Finds the cheapest changes to rows whose valid neighbours have wanted labels, too."""

    sizes: FloatArray
    """How far neighbours are away, per feature of the user."""
    known: list[WrongBox]
    """Boxes that were found so far, for this model, goal and ε."""

    def changes(self, X: FloatArray) -> list[Change]:
        """The cheapest change of each row."""
        return [_OneRow(self, x).change() for x in X]

    def holds_itself(self, row: FloatArray) -> bool:
        """Whether a row has a wanted label and is valid, whatever its neighbours are."""
        return super().holds(row)

    def holds(self, row: FloatArray) -> bool:
        """Whether a row has a wanted label, is valid, and all its valid neighbours have one."""
        return self.holds_itself(row) and self.around(row).wrong_neighbour(row, self.limits)[0] == Outcome.PROVED

    def around(self, x: FloatArray) -> Neighbours:
        """What is asked about neighbours, where columns are those of a row."""
        return Neighbours(self.ensemble, self.threat, self.sizes, x)


def refuse_sums(threat: Threat) -> None:
    """Refuses relations over sums of columns: boxes of rows cannot say where these hold."""
    for number, clause in zip(threat.relations.clause_origin, threat.relations.clauses, strict=True):
        if any(isinstance(one, Linear) for one in clause):
            raise InvalidInput(
                f"resilient changes know relations on single columns and one-hot groups, and "
                f"{str(threat.relations.given[number])!r} compares columns with each other",
                argument="epsilon",
                way_out="leave epsilon or the relation out",
            )


class Neighbours:
    """The valid rows within ε of rows, on the columns of a search: are there any without a wanted label?"""

    def __init__(self, ensemble: Ensemble, threat: Threat, sizes: FloatArray, x: FloatArray) -> None:
        self._own, self._sizes = threat, sizes
        self.columns = Columns.of(ensemble, threat, x[None])
        self.idle = self.columns.threat.idle(ensemble.n_classes)
        self.space = Space(self.columns.ensemble, self.columns.clauses, forbids=bool(self.columns.clauses))

    @cached_property
    def sizes(self) -> FloatArray:
        """ε for each column of the search; inf where values may stand for each other."""
        grouped = self.columns.grouped
        return self._sizes if grouped is None else self._sizes[[features[0] for features in grouped.columns]]

    def of(self, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The first and the last neighbour of a row of the search's columns, per column."""
        own = self.columns.own(row[None])
        low, high = self.columns.boxes(own, *self._own.neighbourhood(own, self._sizes))
        return low[0], high[0]

    def wrong_neighbour(self, row: FloatArray, limits: Limits) -> tuple[Outcome, FloatArray]:
        """Whether all valid neighbours of a row have wanted labels, and else one that has not; in own columns."""
        rows = self.columns.rows(row[None])
        outcome, z = self.wrong(rows[0], limits)
        return outcome, self.columns.own(z[None])[0]

    def wrong(self, row: FloatArray, limits: Limits) -> tuple[Outcome, FloatArray]:
        """The same for rows of the search's columns."""
        low, high = self.of(row)
        if int(self.columns.ensemble.predict_index(row[None])[0]) not in self.columns.threat.goal:
            return Outcome.REFUTED, row
        found = Local(self.columns.ensemble, self.idle, limits, self.space).one_label(row[None], low[None], high[None])
        return Outcome(int(found.outcome[0])), found.neighbour[0]

    @cached_property
    def _uses(self) -> npt.NDArray[np.bool_]:
        from treeproof._kernels.explanations.wrong_boxes import uses_of

        uses: npt.NDArray[np.bool_] = uses_of(self.space.compiled[0], self.columns.ensemble.n_features)
        return uses

    @cached_property
    def _order(self) -> npt.NDArray[np.int64]:
        """The columns that few trees test come first: they are likely not to matter at all."""
        return np.argsort(self._uses.sum(axis=1), kind="stable").astype(np.int64)

    def box(self, x: FloatArray, row: FloatArray, z: FloatArray, price: float) -> WrongBox:
        """A box of rows that all miss the wanted labels, with a neighbour of `row` in it; `z` is such a neighbour.

        It is made so wide first that x cannot leave those who have neighbours in it for little more than a price.
        """
        from treeproof._kernels.explanations.wrong_boxes import walls_for, widen

        model, space, threat = self.space.compiled[0], self.space, self.columns.threat
        label = int(self.columns.ensemble.predict_index(z[None])[0])
        near = space.cells(np.stack((*self.of(row), z))).astype(np.int64)
        still = [f for f, moves in threat.columns if moves.has_points]
        near[0][still] = near[1][still] = near[2][still]
        goals = [
            *(self._within_reach(x, z, price * factor) for factor in FARTHER),
            (threat.domain_low, threat.domain_high),
        ]
        first, last = (space.cells(np.stack(ends)).astype(np.int64) for ends in zip(*goals, strict=True))
        wanted = np.array(threat.goal, dtype=np.int64)
        walls = walls_for(model, self._uses, near[2], len(wanted))
        widen(model, walls, wanted, np.int64(label), near[0], near[1], first, last, self._order)
        start, (lowest, highest) = space.start[:-1], space.cell_ends
        missing = walls.low < 0
        low = np.where(missing, np.nan, lowest[start + np.maximum(walls.low, 0)])
        high = np.where(missing, np.nan, highest[start + np.maximum(walls.high, 0)])
        return WrongBox(low, high)

    def _within_reach(self, x: FloatArray, z: FloatArray, price: float) -> tuple[FloatArray, FloatArray]:
        """What a box must reach to, so that whatever x becomes for at most a price has a neighbour in it; z is in it.

        Where that is not easy to say, it is all of the domain.
        """
        threat = self.columns.threat
        if threat.power is None:
            low, high = threat.reach(x[None], x[None])
            far, moves = (low[0], high[0]), threat.movable & (threat.cost <= price)
        else:
            far = (
                x - np.where(threat.low < 0, price * threat.unit, 0),
                x + np.where(threat.high > 0, price * threat.unit, 0),
            )
            moves = threat.movable
        free = [f for f, _ in threat.columns if moves[f]]
        first, last = far[0] + self.sizes, far[1] - self.sizes
        first[free], last[free] = threat.domain_low[free], threat.domain_high[free]
        gone = ~moves | np.isnan(x) | np.isnan(first) | np.isnan(last)
        first, last = np.where(gone, z, np.fmin(first, z)), np.where(gone, z, np.fmax(last, z))
        return np.maximum(first, threat.domain_low), np.minimum(last, threat.domain_high)

    def condition(self, x: FloatArray, w: FloatArray, box: WrongBox) -> Clause | None:
        """What a row that x can become meets unless it has a neighbour in the box; None if w meets it, too."""
        literals = []
        for f in range(len(x)):
            literal = self._literal(f, float(x[f]), float(w[f]), float(box.low[f]), float(box.high[f]))
            if literal is not None:
                literals.append(literal)
        return None if any(one.contains(w[[one.feature]])[0] for one in literals) else tuple(literals)

    def _literal(self, f: int, x: float, w: float, low: float, high: float) -> ColumnLiteral | None:
        """Which values of a column have no neighbour from `low` to `high`; None: all that it can be have one."""
        threat = self.columns.threat
        may_be_missing = f in threat.blanks or math.isnan(x)
        if math.isnan(low):
            return outside(f, math.nan, math.nan) if f in threat.blanks or not math.isnan(x) else None
        first, last = float(threat.domain_low[f]), float(threat.domain_high[f])
        if low <= first and high >= last and dict(threat.columns).get(f, _PLAIN).step is None:
            return outside(f, *FREE) if may_be_missing else None
        moves = dict(threat.columns).get(f)
        if moves is not None and moves.step is not None:
            return outside(f, *_on_grid(moves, x, w, max(low, first), min(high, last), float(self.sizes[f])))
        if moves is not None and moves.alike:
            literal = outside(f, low, high)
            for values in moves.alike:
                if any(max(low, first) <= value <= min(high, last) for value in values) and self.sizes[f] > 0:
                    for value in values:
                        literal = literal.intersected(outside(f, value, value))
            return literal
        size = 0.0 if f in dict(self.columns.ensemble.categories) else float(self.sizes[f])
        # Neighbours stay in the domain: beyond its ends there is nothing that ε could add.
        begin = -math.inf if low <= first else float(add_up(low, -size))
        end = math.inf if high >= last else float(add_down(high, size))
        return outside(f, max(begin, -LARGEST), min(end, LARGEST))


_PLAIN = ColumnMoves((-LARGEST, LARGEST))
"""A column of which nothing is known."""


def _on_grid(moves: ColumnMoves, x: float, w: float, low: float, high: float, size: float) -> tuple[float, float]:
    """A range around w, all points of x's grid in which have a neighbour from `low` to `high`."""
    assert moves.step is not None
    grid = StepGrid(moves.step)
    first, last = grid.numbers(x, low, high)
    own = grid.numbers(x, w, w)
    # Listed values need not be on the grid, and what prints with too many digits has another one.
    if first > last or own[0] != own[1] or moves.ends is not None or moves.costs is not None:
        return w, w
    origin = Fraction(0) if math.isnan(x) else decimal_of(x)
    unit = math.lcm(origin.denominator, moves.step.denominator)
    most = Fraction(10**EXACT_DIGITS, unit * 10)
    if not -most <= decimal_of(w) <= most:
        return w, w
    if math.isinf(size):
        return float(-most), float(most)
    number = math.floor(decimal_of(size) / moves.step)
    ends = origin + (first - number) * moves.step, origin + (last + number) * moves.step
    return float(max(ends[0], -most)), float(min(ends[1], most))


@dataclass(frozen=True, eq=False)
class _PulledBack(Space):
    """A model on cells that say what it predicts where a row is pulled back by ε toward another one, in each column."""

    moved: Grid | None = None

    @cached_property
    def grid(self) -> Grid:
        """The cuts of all tests, moved away from that row."""
        assert self.moved is not None
        return self.moved

    @cached_property
    def compiled(self) -> tuple[Any, Any]:
        """The model on the same numbers of cells."""
        return Space(self.ensemble, (), self.blanks, forbids=True).compiled


def _moved_away(grid: Grid, x: FloatArray, sizes: FloatArray) -> Grid:
    """The cuts, each moved away from x by ε, so far that a row is on its far side iff it is when pulled back.

    A double w above x is pulled back to the least one that is at most ε below it, or to x if that is nearer to w.
    """
    cuts = grid.cuts.copy()
    for f in np.flatnonzero((sizes > 0) & np.isfinite(sizes) & ~np.isnan(x)).tolist():
        own, size = grid.cuts_of(f), float(sizes[f])
        moved = np.where(own >= x[f], add_down(own, size), next_down(add_up(next_up(own), -size)))
        if np.isfinite(moved).all() and (np.diff(moved) > 0).all():
            cuts[grid.offsets[f] : grid.offsets[f + 1]] = moved
    cuts.flags.writeable = False
    return Grid(cuts, grid.offsets)


class _OneRow:
    """The search for one row."""

    def __init__(self, finder: ResilientFinder, x: FloatArray) -> None:
        self._finder, self._x = finder, x
        self._around = finder.around(x)
        columns = self._around.columns
        threat = columns.threat if finder.within else columns.threat.without_limits()
        self._columns, self._threat = columns, threat
        self._row = columns.rows(x[None])[0]
        label = int(finder.ensemble.predict_index(x[None])[0])
        # Nobody looks for the label that a row has, but here it may have it and need another place.
        others = [k for k in range(finder.ensemble.n_classes) if k not in threat.goal]
        self._label = np.array([others[0] if label in threat.goal else label])
        self._clauses: list[Clause] = []
        self._numbers: FloatArray = self._around.sizes.copy()
        self._numbers[[f for f, moves in threat.columns if moves.has_points]] = 0.0
        self._numbers[[f for f, _ in columns.ensemble.categories]] = 0.0
        self._pulled_to = self._row
        self._rounds, self._least, self._farther = 0, 0.0, BOLD[-1]
        self._best = Change(x, math.inf, Outcome.UNKNOWN, 0.0)

    def change(self) -> Change:
        """The cheapest change."""
        began = time.monotonic()
        if self._finder.holds_itself(self._x):
            outcome, z = self._around.wrong(self._row, self._finder.limits)
            if outcome == Outcome.PROVED:
                return Change(self._x, 0.0, Outcome.PROVED, 0.0)
            if outcome == Outcome.REFUTED:
                self._rule_out(self._row, z, 0.0)
        while (rest := _rest(self._finder.limits, began)) is not None:
            self._rounds += 1
            # Now and then a change is looked for that holds a little farther: it may hold here, and bounds the price.
            if self._rounds % BOLD_ROUND == 0:
                self._look_farther(rest)
                continue
            outcome, w, price = self._cheapest(rest, 1.0)
            if outcome != Outcome.PROVED:
                break
            if price >= self._best.price:
                return self._best._replace(outcome=Outcome.PROVED, least=self._best.price)
            self._least = max(self._least, price)
            outcome = self._check(w, price, rest)
            if outcome == Outcome.PROVED:
                return Change(self._columns.own(w[None])[0], price, Outcome.PROVED, price)
            if outcome == Outcome.UNKNOWN:
                break
        return self._best._replace(least=self._least)

    def _look_farther(self, limits: Limits) -> None:
        """Looks for a change that is resilient, though there may be cheaper ones."""
        self._farther = BOLD[(BOLD.index(self._farther) + 1) % len(BOLD)]
        if limits.timeout is not None:
            limits = replace(limits, timeout=limits.timeout / 4)
        outcome, w, price = self._cheapest(limits, self._farther)
        is_better = outcome == Outcome.PROVED and price < self._best.price
        if is_better and self._check(w, price, limits) == Outcome.PROVED:
            self._best = Change(self._columns.own(w[None])[0], price, Outcome.UNKNOWN, 0.0)

    def _check(self, w: FloatArray, price: float, limits: Limits) -> Outcome:
        """Whether a row is resilient; if not, it is ruled out together with others."""
        if self._speaks_against(w):
            return Outcome.REFUTED
        outcome, z = self._around.wrong(w, limits)
        if outcome == Outcome.REFUTED:
            self._rule_out(w, z, price)
        return outcome

    def _cheapest(self, limits: Limits, farther: float) -> tuple[Outcome, FloatArray, float]:
        """The cheapest change that nothing speaks against so far, if it is cheaper than the best one that is known.

        What costs little more than the least price is searched first: searches in which little can be paid are short.
        """
        model, power, least, best = self._columns.ensemble, self._threat.power, self._least, self._best.price
        moved = _moved_away(model.grid, self._pulled_to, self._numbers * farther)
        coarse = _PulledBack(model, blanks=self._threat.blanks, forbids=True, moved=moved)
        space = coarse.refined((*self._columns.clauses, *self._clauses))
        local, row = Local(model, self._threat, limits, space), self._row[None]
        for more in WIDER if least > 0 and not self._finder.within else ():
            price = min(least * (1 + more), best)
            budget = math.floor(price) if power is None else price**power
            status, cells = local._run(row, row, row, self._label, row, (), None, None, float(budget), cheapest=True)
            if status[0] != Outcome.PROVED:
                return Outcome.UNKNOWN, self._row, math.inf
            if cells[0, 0] != NO_CELL:
                w = local._doubles(row, row, row, cells)[1][0]
                return Outcome.PROVED, w, price_of_attack(self._threat, self._row, w, within=False)
            if price == best:
                return Outcome.PROVED, self._row, math.inf
        found = local.cheapest(row, self._finder.within, self._label)
        return Outcome(int(found.outcome[0])), found.attacked[0], float(found.price[0])

    def _speaks_against(self, w: FloatArray) -> bool:
        """Whether a neighbour of w is in a box that is known; the conditions that say so are added."""
        low, high = self._around.of(w)
        found = False
        for box in _meeting(self._finder.known, low, high):
            clause = self._around.condition(self._row, w, box)
            if clause is not None:
                self._clauses.append(clause)
                found = True
        return found

    def _rule_out(self, w: FloatArray, z: FloatArray, price: float) -> None:
        """Adds a condition that w does not meet, nor others with a wrong neighbour such as z."""
        box = self._around.box(self._row, w, z, price)
        clause = self._around.condition(self._row, w, box)
        if clause is None:
            raise SoundnessError(f"a wrong neighbour of {w!r} rules nothing out; please report this")
        self._clauses.append(clause)
        if len(self._finder.known) < MOST_BOXES:
            self._finder.known.append(box)
        # Next, columns that are not moved are pulled to where they were wrong.
        self._pulled_to = np.where(w == self._row, z, self._row)


def _meeting(boxes: Sequence[WrongBox], low: FloatArray, high: FloatArray) -> list[WrongBox]:
    """The boxes that reach into [low, high] in every column; those with points of a grid may still hold none."""
    if not boxes:
        return []
    lows, highs = np.array([box.low for box in boxes]), np.array([box.high for box in boxes])
    both_missing = np.isnan(lows) & np.isnan(low)
    return [boxes[k] for k in np.flatnonzero((((lows <= high) & (highs >= low)) | both_missing).all(axis=1)).tolist()]


def _rest(limits: Limits, began: float) -> Limits | None:
    """The limits with what is left of the time for a row; None if nothing is."""
    if limits.is_over():
        return None
    if limits.timeout is None:
        return limits
    left = limits.timeout - (time.monotonic() - began)
    return replace(limits, timeout=left) if left > 0 else None


def resilient_finder(finder: Finder, sizes: FloatArray) -> ResilientFinder:
    """The same finder for changes that hold within ε."""
    refuse_sums(finder.threat)
    known: list[Any] = []
    return ResilientFinder(finder.ensemble, finder.threat, finder.within, finder.limits, sizes, known)
