"""The cheapest change to a wanted label that holds for every valid row within ε of the changed one.

A search proposes the cheapest change that nothing speaks against so far, and a second one looks for a neighbour of it
without a wanted label. If there is one, it lies in a box of rows that all miss the wanted labels, as large as can be
told; every row with a neighbour in that box is ruled out by a condition on its columns, and the first search goes on.
Columns are cut where boxes end, moved by ε: so there are finitely many of them, and both answers are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput, disbelieved
from treeproof.explanations.finder import Change, Finder, Nearer
from treeproof.explanations.neighbours import Neighbours, WrongBox
from treeproof.explanations.secured import Secured
from treeproof.model.grid import Grid
from treeproof.numbers.doubles import FloatArray, add_down, add_up, next_down, next_up
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.relations import Linear
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import NO_CELL, Local, price_of_attack
from treeproof.verification.row_question import TRACE
from treeproof.verification.space import Clause, Space
from treeproof.verification.valid_rows import Columns

WIDER = (0.02, 0.1, 0.3, 1.0, 4.0, 32.0)
"""By which shares of the least price searches go beyond it, one after the other."""
EASY_ROUNDS = 5
"""Most rows need fewer."""
MOST_BOXES = 4096
"""How many boxes of other rows are kept."""


@dataclass(frozen=True, eq=False)
class ResilientFinder(Finder):
    """Finds the cheapest changes to rows whose valid neighbours have wanted labels, too."""

    sizes: FloatArray
    """How far neighbours are away, per feature of the user."""
    known: list[WrongBox] = field(default_factory=list)
    """Boxes that were found so far, for this model, goal and ε."""

    def changes(self, X: FloatArray) -> list[Change]:
        """The cheapest change of each row."""
        return [self._tidied(x, _OneRow(self, x).change()) for x in X]

    def _tidied(self, x: FloatArray, change: Change) -> Change:
        """The same change, with numbers as near to x as they can be at its price."""
        if change.price == 0 or math.isinf(change.price):
            return change
        columns = Columns.of(self.ensemble, self.threat, x[None])
        return change._replace(row=Nearer(self, columns).row(x, change.row))

    def space_of(self, columns: Columns, x: FloatArray) -> Space:
        """The cells in which a row that x becomes is as good as any other: their neighbours are in the same ones."""
        sizes, grid, cuts = self.around(x).sizes, columns.space.grid, []
        for f in np.flatnonzero((sizes > 0) & np.isfinite(sizes)).tolist():
            own, size = grid.cuts_of(f), float(sizes[f])
            moved = np.concatenate((add_down(own, size), next_down(add_up(next_up(own), -size))))
            cuts.append((f, np.unique(moved[np.isfinite(moved)])))
        return columns.space.refined((), tuple(cuts))

    def holds(self, row: FloatArray) -> bool:
        """Whether a row has a wanted label, is valid, and all its valid neighbours have one."""
        return super().holds(row) and self.around(row).wrong_neighbour(row, self.limits)[0] == Outcome.PROVED

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
        # A neighbour that breaks a relation needs no wanted label, so what relations name stays where it is.
        self._numbers[[one.feature for clause in columns.clauses for one in clause]] = 0.0
        self._pulled_to = self._row
        self._rounds, self._least = 0, 0.0
        self._best = Change(x, math.inf, Outcome.UNKNOWN, 0.0)

    def change(self) -> Change:
        """The cheapest change."""
        time = self._finder.limits.for_row()
        if self._finder.hold_themselves(self._x[None])[0]:
            outcome, z = self._around.wrong(self._row, self._finder.limits)
            if outcome == Outcome.PROVED:
                return Change(self._x, 0.0, Outcome.PROVED, 0.0)
            if outcome == Outcome.REFUTED:
                self._rule_out(self._row, z, 0.0)
        while (rest := time.rest()) is not None:
            self._rounds += 1
            # What is not quickly found is worth an upper bound.
            if self._rounds == EASY_ROUNDS:
                self._best = self._secured(rest)
            outcome, w, price = self._cheapest(rest)
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

    def _secured(self, limits: Limits) -> Change:
        """A change that is resilient, though there may be cheaper ones; its price is inf if none is found."""
        best = self._best
        for label in self._threat.goal:
            w = Secured(self._around, self._threat, self._row, label, limits).row()
            if w is None or (self._finder.within and not self._threat.can_do(self._row, self._row, w)):
                continue
            price = price_of_attack(self._threat, self._row, w, within=False)
            if price < best.price:
                best = Change(self._columns.own(w[None])[0], price, Outcome.UNKNOWN, 0.0)
        return best

    def _check(self, w: FloatArray, price: float, limits: Limits) -> Outcome:
        """Whether a row is resilient; if not, it is ruled out together with others."""
        if self._speaks_against(w):
            return Outcome.REFUTED
        outcome, z = self._around.wrong(w, limits)
        if outcome == Outcome.REFUTED:
            self._rule_out(w, z, price)
        return outcome

    def _cheapest(self, limits: Limits) -> tuple[Outcome, FloatArray, float]:
        """The cheapest change that nothing speaks against so far, if it is cheaper than the best one that is known.

        What costs little more than the least price is searched first: searches in which little can be paid are short.
        """
        model, power, least, best = self._columns.ensemble, self._threat.power, self._least, self._best.price
        moved = _moved_away(model.grid, self._pulled_to, self._numbers)
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
            self._least = budget + 1.0 if power is None else max(least, price * (1 - TRACE))
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
            raise disbelieved(f"a wrong neighbour of {w!r} rules nothing out")
        self._clauses.append(clause)
        if len(self._finder.known) < MOST_BOXES:
            self._finder.known.append(box)
        # Next, columns are pulled to where they were wrong.
        toward_x = (w != self._row) & ((z - w) * (self._row - w) > 0)
        self._pulled_to = np.where(toward_x, self._row, np.where(z != w, z, self._pulled_to))


def _meeting(boxes: Sequence[WrongBox], low: FloatArray, high: FloatArray) -> list[WrongBox]:
    """The boxes that reach into [low, high] in every column; those with points of a grid may still hold none."""
    if not boxes:
        return []
    lows, highs = np.array([box.low for box in boxes]), np.array([box.high for box in boxes])
    both_missing = np.isnan(lows) & np.isnan(low)
    return [boxes[k] for k in np.flatnonzero((((lows <= high) & (highs >= low)) | both_missing).all(axis=1)).tolist()]
