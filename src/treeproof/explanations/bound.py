"""Rows that are bound once to compiled questions: does a row keep its label if its columns lie in some cells?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.run.watch import watched
from treeproof.verification.local_search import Local
from treeproof.verification.proofs import Recorder
from treeproof.verification.valid_rows import Columns

Cells: TypeAlias = "npt.NDArray[np.int64]"
T = TypeVar("T")

MOST_PARTS = 64
"""In more parts, a question is left to others."""
LOOKS = 2**16
"""How many looks at the clock a compiled loop may leave out, beside those of one walk through the model per class."""
MANY_NODES = 2**14
"""In models with more nodes than this, much happens between two looks, so loops run in a thread that is watched."""


class Bound:
    """The rows of one model and attacker, on the columns of the search, where one-hot groups are columns.

    For attackers who can pay for everything in their reach. Every question is answered by races of a few boxes; what
    is hard stays UNKNOWN and is for others to settle.
    """

    def __init__(self, columns: Columns, rows: FloatArray, labels: npt.NDArray[np.int64], limits: Limits) -> None:
        from treeproof._kernels.search.asked import Watch, question_about
        from treeproof._kernels.search.region import CELLS
        from treeproof._kernels.search.rows import room_for

        self.columns, self.rows, self._limits = columns, rows, limits
        self.local = Local(columns.ensemble, columns.threat, limits, columns.space)
        self.space = self.local.space
        asked = self.local.asked_about(rows, rows, rows, labels, rows)
        self._gaps, self.is_poor = _limits_of(asked, self.space.start)
        """Per feature with cells that some row cannot be in though it can be on both sides: where each can be."""
        asked = asked._replace(prices=asked.prices._replace(limited=False))
        self.found, self.own = self.local._nothing_found(asked), asked.reach["own"]
        model = self.space.compiled[0]
        self._is_large = len(model.nodes) + len(model.more) > MANY_NODES
        looks = LOOKS + 4 * (len(model.nodes) + len(model.more) + len(model.roots) * columns.ensemble.n_classes)
        self._watch = Watch(np.array([0, 0, looks], dtype=np.int64), np.zeros(1, dtype=np.int64))
        proof = Recorder(0, columns.ensemble, len(rows)).proof
        question = question_about(*self.space.compiled, asked, self.found, self._watch, proof)
        self._kernel = question, asked, self.found, room_for(question.model, asked.prices)
        self._box, self._near = np.empty((2, rows.shape[1]), dtype=CELLS)
        self._sets: dict[int, Cells] = {}
        """The cells of features that are asked about, where others lie in between."""

    @property
    def has_gaps(self) -> bool:
        """Whether some row cannot be in cells that lie between others where it can be."""
        return bool(self._gaps)

    def set_free(self, row: int, free: npt.NDArray[np.bool_]) -> None:
        """Asks about a row whose features may be anything where they are free, and stay what they are elsewhere."""
        self._box["low"], self._box["high"] = np.where(free, 1, self.own[row]), np.where(free, 0, self.own[row])
        self._sets = {
            f: np.flatnonzero(possible[row]) for f, possible in self._gaps.items() if free[f] and self.own[row, f] >= 0
        }

    def set_cells(self, f: int, cells: Cells) -> None:
        """Asks about rows that have a feature in some cells, in rising order."""
        self._box[f] = cells[0], cells[-1]
        self._sets.pop(f, None)
        if cells[-1] - cells[0] >= len(cells):
            self._sets[f] = cells

    def ask(self, row: int, has_time: Callable[[], bool] = lambda: True) -> Outcome:
        """Does the row keep its label, with its features as they were set? UNKNOWN: hard to tell, or too late.

        Where cells in between are left out, they are asked about as well at first. A counterexample that needs one of
        them tells where to divide the question.
        """
        waiting = [self._sets]
        for _ in range(MOST_PARTS):
            sets = waiting.pop()
            for f, cells in sets.items():
                self._box[f] = cells[0], cells[-1]
            outcome = self._ask(row, has_time)
            if outcome == Outcome.REFUTED and (outside := self._outside(row, sets)):
                self.pull_back(row, np.array(outside))
                outside = self._outside(row, sets)
                if outside:
                    f, cells = outside[0], sets[outside[0]]
                    here = np.searchsorted(cells, self.found.cells[row, f])
                    waiting += [{**sets, f: cells[:here]}, {**sets, f: cells[here:]}]
                    outcome = Outcome.PROVED
            if outcome != Outcome.PROVED or not waiting:
                return outcome
        return Outcome.UNKNOWN

    def _ask(self, row: int, has_time: Callable[[], bool]) -> Outcome:
        from treeproof._kernels.explanations.frozen import ask

        status = self._in_time(lambda: ask(*self._kernel, self._box, row, self.local.patience), has_time)
        return _outcome(int(status))

    def _in_time(self, loop: Callable[[], T], has_time: Callable[[], bool]) -> T:
        """What a compiled loop returns, which ends early when there is no time left for its row."""
        stop = self._watch.stop
        stop[:2] = 0
        if not self._is_large:
            return loop()

        def look() -> None:
            if not has_time():
                stop[0] = -1

        return watched(loop, self._limits, look)

    def _outside(self, row: int, sets: dict[int, Cells]) -> list[int]:
        """The features in which the last counterexample is in a cell that was left out."""
        return [f for f, cells in sets.items() if self.found.cells[row, f] not in cells]

    def drop(
        self,
        row: int,
        free: npt.NDArray[np.bool_],
        order: npt.NDArray[np.int64],
        first: int,
        trusted: bool,
        has_time: Callable[[], bool],
    ) -> tuple[int, Outcome]:
        """Frees features one after another, from a place of the order on, each if the row keeps its label without it.

        Returns where that ends, and what is known there: a counterexample that is not trusted, or nothing. PROVED:
        nothing was asked there, but it is time to look at the clock.
        """
        from treeproof._kernels.explanations.frozen import drop

        self.set_free(row, free)
        trusted &= not self._gaps
        loop = partial(drop, *self._kernel, self._box, self._near, row, order, first, self.local.patience, trusted)
        place = int(self._in_time(loop, has_time))
        free[:] = self._box["low"] > self._box["high"]
        return place, _outcome(int(self.found.status[row]))

    def is_possible(self, row: int) -> bool:
        """Whether the row can be where its last counterexample is."""
        return all(
            possible[row, self.found.cells[row, f]] for f, possible in self._gaps.items() if self.own[row, f] >= 0
        )

    def pull_back(self, row: int, order: npt.NDArray[np.int64]) -> None:
        """Puts features of the last counterexample of a row back to where they were, while it stays one."""
        from treeproof._kernels.explanations.frozen import pull_back

        pull_back(*self._kernel[:3], row, order)

    def draw_near(self, row: int, f: int, first: int) -> int:
        """Puts a feature of the last counterexample of a row to the cell nearest to `first` where it stays one."""
        from treeproof._kernels.explanations.frozen import draw_near

        step = 1 if first <= self.found.cells[row, f] else -1
        return int(draw_near(*self._kernel[:3], row, f, first, step))

    def changed(self, row: int) -> npt.NDArray[np.bool_]:
        """Which features the last counterexample of a row changes."""
        return np.asarray(self.found.cells[row] != self.own[row])

    def other(self, row: int) -> Callable[[], FloatArray]:
        """What makes doubles of the user's columns from the last counterexample of a row."""
        x, cells = self.rows[row : row + 1], self.found.cells[row : row + 1].copy()
        return lambda: np.asarray(self.columns.own(self.local._doubles(x, x, x, cells)[1])[0])


def _outcome(status: int) -> Outcome:
    return Outcome(status) if status in (Outcome.PROVED, Outcome.REFUTED) else Outcome.UNKNOWN


def _limits_of(asked: Any, start: npt.NDArray[np.int64]) -> tuple[dict[int, npt.NDArray[np.bool_]], bool]:
    """Where rows can be (n_rows, n_cells) in features with gaps; whether it may be too dear to be there."""
    reach, prices = asked.reach, asked.prices
    gaps: dict[int, npt.NDArray[np.bool_]] = {}
    dearest = np.zeros(len(reach))
    for f in range(reach.shape[1]):
        own, at, cells = reach[:, f], int(prices.at[f]), np.arange(int(start[f + 1] - start[f]))
        table = np.full((len(reach), len(cells)), np.inf)
        if at >= 0:
            table = prices.table[:, at : at + len(cells)]
        else:
            inside = (cells >= own["reach_low"][:, None]) & (cells <= own["reach_high"][:, None])
            if len(prices.blocked):
                inside &= ~prices.blocked[start[f] : start[f + 1]]
            table[inside] = prices.cost[f]
            table[(cells >= own["near_low"][:, None]) & (cells <= own["near_high"][:, None])] = 0.0
        possible = np.isfinite(table)
        first, last = possible.argmax(axis=1), len(cells) - 1 - possible[:, ::-1].argmax(axis=1)
        known = own["own"] >= 0
        if (possible.sum(axis=1) <= last - first)[known].any():
            gaps[f] = possible
        dearest[known] += np.where(possible, table, 0.0).max(axis=1)[known]
    return gaps, bool(len(prices.group_budget) or (dearest > prices.budget).any())
