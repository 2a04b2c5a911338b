"""Reasons with ranges: how far may each value of a reason go, with the others as wide as they already are?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.explanations.questions import Answer, Questions
from treeproof.numbers.doubles import FloatArray, from_ordinal, ordinal
from treeproof.results.verdicts import Outcome
from treeproof.threat.threat import Threat
from treeproof.verification.pair_clauses import features_of

Ends: TypeAlias = "tuple[float, float]"
Cells: TypeAlias = "npt.NDArray[np.int64]"

MOST_JUMPS = 3
"""After so many counterexamples in a row, what is left is halved."""


class Wide(NamedTuple):
    """What columns of a reason may be, on the columns of the search: ends of numbers, and values of categories."""

    ranges: dict[int, tuple[float | None, float | None]]
    """None: up to the end of the domain."""
    values: dict[int, list[float]]
    complete: bool
    """Whether each is as wide as can be; otherwise time was up."""


def inflate(questions: Questions, row: int, kept: npt.NDArray[np.bool_]) -> Wide:
    """Widens the columns of a reason one after another, in the model's order, while the reason stays sufficient.

    Numbers go up as far as they can, and then down. Of categories, each known value is added in its order. What is
    missing stays so.
    """
    inflation = _Inflation(questions, row, kept)
    for place in np.flatnonzero(kept).tolist():
        inflation.widen(place)
    low, high = questions.columns.threat.domain_low, questions.columns.threat.domain_high
    ranges = {
        place: (None if ends[0] == low[place] else ends[0], None if ends[1] == high[place] else ends[1])
        for place, ends in inflation.ranges.items()
    }
    return Wide(ranges, inflation.values, inflation.complete)


class _Inflation:
    """The columns of one row while they are widened."""

    def __init__(self, questions: Questions, row: int, kept: npt.NDArray[np.bool_]) -> None:
        self._questions, self._row, self._free = questions, row, ~kept
        columns = questions.columns
        self._x: FloatArray = columns.rows(questions.X[row : row + 1])[0]
        self._threat = columns.threat
        ends = dict(self._threat.ends)
        ends |= {f: np.array(moves.ends) for f, moves in self._threat.columns if moves.ends is not None}
        self._known = {f: ends.get(f, category.known()) for f, category in columns.ensemble.categories}
        bound = questions.bound
        assert bound is not None  # anybody pays for everything
        self._bound = bound
        self._joint = {f for clause in columns.joint for one in clause for f in features_of(one)}
        """The columns in relations over sums, where more than cells matters."""
        self._cells: dict[int, Cells] = {}
        self.ranges: dict[int, Ends] = {}
        self.values: dict[int, list[float]] = {}
        self.complete = True

    def widen(self, place: int) -> None:
        """Widens one column, and keeps to that from now on."""
        if np.isnan(self._x[place]):
            return
        if not self._questions.has_time(self._row):
            self.complete = False
        elif place in self._known:
            self._add_values(place)
        elif place in self._joint:
            self._go_far(place)
        else:
            self._go_through_cells(place)

    # --- questions -----------------------------------------------------------------------------------------------

    def _compiled(self, place: int, cells: Cells) -> Outcome:
        """Do all rows with a column in these cells, and the others as they are now, have the label?"""
        if not self._questions.has_time(self._row):
            return Outcome.UNKNOWN
        bound = self._bound
        bound.set_free(self._row, self._free)
        for other, its in self._cells.items():
            bound.set_cells(other, its)
        bound.set_cells(place, cells)
        outcome = bound.ask(self._row, partial(self._questions.has_time, self._row))
        if outcome == Outcome.REFUTED and self._questions.columns.joint:
            # Cells say too little about the columns in sums that were widened to parts of them.
            return Outcome.UNKNOWN
        return outcome

    def _settled(self, place: int, ends: Ends | Sequence[float]) -> Answer:
        """The same by all means, for a range of numbers or some values of a category."""
        threat = self._threat.freeze(
            f for f in np.flatnonzero(~self._free).tolist() if f not in {place, *self.ranges, *self.values}
        )
        for f, its in self.ranges.items():
            threat = _between(threat, f, its)
        for f, some in self.values.items():
            threat = _among(threat, f, some)
        threat = _among(threat, place, ends) if place in self._known else _between(threat, place, (ends[0], ends[1]))
        return self._questions.settle_against(self._row, threat)

    # --- categories ----------------------------------------------------------------------------------------------

    def _add_values(self, place: int) -> None:
        """Adds each known value of a category with which the reason is still sufficient."""
        own = float(self._x[place])
        cell_of = dict(zip(self._known[place].tolist(), self._space_cells(place, self._known[place]), strict=True))
        cell_of[own] = int(self._bound.own[self._row, place])
        told = {cell_of[own]: True}
        self.values[place] = [own]
        for value in self._known[place].tolist():
            cell = cell_of[value]
            if cell not in told:
                outcome = self._compiled(place, np.array([cell]))
                if outcome == Outcome.UNKNOWN:
                    outcome = self._settled(place, [*self.values[place], value]).outcome
                    self.complete &= outcome != Outcome.UNKNOWN
                told[cell] = outcome == Outcome.PROVED
            if told[cell] and value != own:
                self.values[place].append(value)
        self._cells[place] = np.array(sorted(cell for cell, holds in told.items() if holds))
        self.values[place].sort()

    def _space_cells(self, place: int, values: FloatArray) -> list[int]:
        return [int(cell) for cell in self._bound.space.grid.cells_of(place, values)]

    # --- numbers in cells ----------------------------------------------------------------------------------------

    def _go_through_cells(self, place: int) -> None:
        """Widens a number to whole cells: no test and no relation tells their values apart."""
        own = int(self._bound.own[self._row, place])
        domain = self._threat.domain_low[place], self._threat.domain_high[place]
        first, last = self._space_cells(place, np.array(domain))
        low = high = own
        for step, end in ((1, last), (-1, first)):
            reached = self._far(own, end, step, partial(self._cells_hold, place))
            low, high = min(low, reached), max(high, reached)
            self._cells[place], self.ranges[place] = np.arange(low, high + 1), self._ends(place, low, high)

    def _ends(self, place: int, low: int, high: int) -> Ends:
        """The lowest and the highest number of cells."""
        lowest, highest = self._bound.space.ends_of(place)
        domain = float(self._threat.domain_low[place]), float(self._threat.domain_high[place])
        return max(float(lowest[low]), domain[0]), min(float(highest[high]), domain[1])

    def _cells_hold(self, place: int, near: int, far: int) -> tuple[Outcome, int]:
        """Is the reason sufficient with a number in the cells from `near` to `far`? Else where it is not."""
        outcome = self._compiled(place, np.arange(min(near, far), max(near, far) + 1))
        if outcome == Outcome.REFUTED:
            return outcome, self._bound.draw_near(self._row, place, near)
        if outcome == Outcome.PROVED:
            return outcome, far
        own = int(self._bound.own[self._row, place])
        answer = self._settled(place, self._ends(place, min(own, near, far), max(own, near, far)))
        return answer.outcome, self._space_cells(place, self._other(answer, place))[0]

    def _other(self, answer: Answer, place: int) -> FloatArray:
        """What a column is in a counterexample, or in the row if there is none."""
        if answer.other is None:
            return self._x[place : place + 1]
        return self._questions.columns.rows(answer.other[None])[0, place : place + 1]

    def _far(self, own: int, end: int, step: int, holds: Callable[[int, int], tuple[Outcome, int]]) -> int:
        """How far from `own` toward `end`, by steps, everything holds; a counterexample says what is too far.

        `holds` asks about all from one place to another, and returns where a counterexample is.
        """
        good, jumps = own, 0
        while good != end:
            near, far = good + step, end
            if jumps >= MOST_JUMPS:
                far = near + step * (abs(end - near) // 2)
            outcome, place = holds(near, far)
            if outcome == Outcome.PROVED:
                good = far
            elif outcome == Outcome.REFUTED:
                end, jumps = place - step, jumps + 1
            else:
                self.complete = False
                return good
        return good

    # --- numbers in sums -----------------------------------------------------------------------------------------

    def _go_far(self, place: int) -> None:
        """Widens a number double by double, as relations over sums may end anywhere."""
        x = self._x[place]
        low, high = x, x
        for step, end in ((1, self._threat.domain_high[place]), (-1, self._threat.domain_low[place])):
            holds = partial(self._doubles_hold, place, (float(low), float(high)))
            reached = from_ordinal(self._far(int(ordinal(x)), int(ordinal(end)), step, holds))
            low, high = min(low, reached), max(high, reached)
        self.ranges[place] = float(low), float(high)
        cells = self._space_cells(place, np.array([low, high]))
        self._cells[place] = np.arange(cells[0], cells[1] + 1)

    def _doubles_hold(self, place: int, known: Ends, near: int, far: int) -> tuple[Outcome, int]:
        """Is the reason sufficient with a number from `near` to `far`, or between `known` ends? Else where not."""
        near_end, far_end = from_ordinal([near, far]).tolist()
        ends = min(known[0], near_end, far_end), max(known[1], near_end, far_end)
        answer = self._settled(place, ends)
        return answer.outcome, int(ordinal(self._other(answer, place))[0])


def _between(threat: Threat, f: int, ends: Ends) -> Threat:
    """The attacker who moves a number between two ends only, and leaves it there."""
    low, high = threat.domain_low.copy(), threat.domain_high.copy()
    low[f], high[f] = ends
    return replace(_kept_there(threat, f, domain=ends), domain_low=low, domain_high=high)


def _among(threat: Threat, f: int, values: Sequence[float]) -> Threat:
    """The attacker who changes a category to these values only."""
    some = tuple(sorted(values))
    ends = tuple((g, np.array(some) if g == f else known) for g, known in threat.ends)
    return replace(_kept_there(threat, f, ends=some), ends=ends)


def _kept_there(threat: Threat, f: int, **limits: Any) -> Threat:
    """The attacker with other limits for the moves of one column, who neither blanks it nor fills it in."""
    columns = ((g, replace(moves, blank=None, fill=None, **limits) if g == f else moves) for g, moves in threat.columns)
    return replace(threat, columns=tuple(columns))
