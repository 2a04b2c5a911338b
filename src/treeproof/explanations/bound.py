"""Rows that are bound once to compiled questions: does a row keep its label if its columns lie in some cells?"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Local
from treeproof.verification.proofs import Recorder
from treeproof.verification.valid_rows import Columns

LOOKS = 2**16
"""How many looks at the clock a compiled loop may leave out, beside those of one walk through the model per class."""


class Bound:
    """The rows of one model and attacker, on the columns of the search, where one-hot groups are columns.

    Every question is answered by races of a few boxes; what is hard stays UNKNOWN and is for others to settle.
    """

    def __init__(self, columns: Columns, rows: FloatArray, labels: npt.NDArray[np.int64], limits: Limits) -> None:
        from treeproof._kernels.explanations.frozen import Bounds
        from treeproof._kernels.search.asked import Watch
        from treeproof._kernels.search.region import CELLS

        self.columns, self.rows = columns, rows
        self.local = Local(columns.ensemble, columns.threat, limits, columns.space)
        self.space = self.local.space
        self._asked = self.local.asked_about(rows, rows, rows, labels, rows)
        self.found = self.local._nothing_found(self._asked)
        self._has_gaps, self.is_poor = _limits_of(self._asked, self.space.start)
        model = self.space.compiled[0]
        looks = LOOKS + 4 * (len(model.nodes) + len(model.more) + len(model.roots) * columns.ensemble.n_classes)
        self._watch = Watch(np.array([0, 0, looks], dtype=np.int64), np.zeros(1, dtype=np.int64))
        self.own = self._asked.reach["own"]
        self._holes = False
        """Whether cells between those that are asked about are left out."""
        self._bounds = Bounds(np.empty(rows.shape[1], dtype=CELLS), np.ones(int(self.space.start[-1]), dtype=bool))

    @cached_property
    def _plain(self) -> tuple[Any, ...]:
        """What kernels take where everything between two cells in reach is in reach, and can be paid for."""
        return self._kernel(limited=False)

    @cached_property
    def _priced(self) -> tuple[Any, ...]:
        """The same where some cells in between are out of reach: these have no price."""
        return self._kernel(limited=True)

    def _kernel(self, limited: bool) -> tuple[Any, ...]:
        from treeproof._kernels.search.asked import question_about
        from treeproof._kernels.search.rows import room_for

        asked = self._asked._replace(prices=self._asked.prices._replace(limited=limited))
        proof = Recorder(0, self.columns.ensemble, len(self.rows)).proof
        question = question_about(*self.space.compiled, asked, self.found, self._watch, proof)
        return question, asked, self.found, room_for(question.model, asked.prices)

    @property
    def _current(self) -> tuple[Any, ...]:
        """What kernels take for the cells that are asked about."""
        return self._priced if self._has_gaps or self._holes else self._plain

    def set_free(self, row: int, free: npt.NDArray[np.bool_]) -> None:
        """Asks about a row whose features may be anything where they are free, and stay what they are elsewhere."""
        if self._holes:
            self._bounds.allowed[:], self._holes = True, False
        box = self._bounds.box
        box["low"], box["high"] = np.where(free, 1, self.own[row]), np.where(free, 0, self.own[row])

    def set_cells(self, f: int, cells: npt.NDArray[np.int64]) -> None:
        """Asks about rows that have a feature in some cells, in rising order."""
        low, high = int(cells[0]), int(cells[-1])
        self._bounds.box[f] = low, high
        if high - low >= len(cells):
            self._holes, start = True, int(self.space.start[f])
            self._bounds.allowed[start + low : start + high + 1] = False
            self._bounds.allowed[start + cells] = True

    def ask(self, row: int) -> Outcome:
        """Does the row keep its label, with its features as they were set? UNKNOWN if that is hard to tell."""
        from treeproof._kernels.explanations.frozen import ask

        self._watch.stop[1] = 0
        return _outcome(int(ask(*self._current, self._bounds, row, self.local.patience)))

    def drop(
        self, row: int, free: npt.NDArray[np.bool_], order: npt.NDArray[np.int64], first: int, trusted: bool
    ) -> tuple[int, Outcome]:
        """Frees features one after another, from a place of the order on, each if the row keeps its label without it.

        Returns where that ends, and what is known there: a counterexample that is not trusted, or nothing. PROVED:
        nothing was asked there, but it is time to look at the clock.
        """
        from treeproof._kernels.explanations.frozen import drop

        self._watch.stop[1] = 0
        self.set_free(row, free)
        place = int(drop(*self._current, self._bounds, row, order, first, self.local.patience, trusted))
        free[:] = self._bounds.box["low"] > self._bounds.box["high"]
        return place, _outcome(int(self.found.status[row]))

    def pull_back(self, row: int, order: npt.NDArray[np.int64]) -> None:
        """Puts features of the last counterexample of a row back to where they were, while it stays one."""
        from treeproof._kernels.explanations.frozen import pull_back

        pull_back(*self._current[:3], row, order)

    def draw_near(self, row: int, f: int, first: int) -> int:
        """Puts a feature of the last counterexample of a row to the cell nearest to `first` where it stays one."""
        from treeproof._kernels.explanations.frozen import draw_near

        step = 1 if first <= self.found.cells[row, f] else -1
        return int(draw_near(*self._current[:3], row, f, first, step))

    def changed(self, row: int) -> npt.NDArray[np.bool_]:
        """Which features the last counterexample of a row changes."""
        return np.asarray(self.found.cells[row] != self.own[row])

    def other(self, row: int) -> Callable[[], FloatArray]:
        """What makes doubles of the user's columns from the last counterexample of a row."""
        x, cells = self.rows[row : row + 1], self.found.cells[row : row + 1].copy()
        return lambda: np.asarray(self.columns.own(self.local._doubles(x, x, x, cells)[1])[0])


def _outcome(status: int) -> Outcome:
    return Outcome(status) if status in (Outcome.PROVED, Outcome.REFUTED) else Outcome.UNKNOWN


def _limits_of(asked: Any, start: npt.NDArray[np.int64]) -> tuple[bool, bool]:
    """Whether any cell between two that a row can be in is out of its reach; whether it may be too dear to be there."""
    reach, prices, has_gaps = asked.reach, asked.prices, False
    dearest = np.zeros(len(reach))
    for f in range(reach.shape[1]):
        own, at, cells = reach[:, f], int(prices.at[f]), np.arange(int(start[f + 1] - start[f]))
        moves = (own["own"] >= 0) & (own["reach_low"] <= own["reach_high"])
        table = np.full((len(reach), len(cells)), np.inf)
        if at >= 0:
            table = prices.table[:, at : at + len(cells)]
        elif moves.any():
            inside = (cells >= own["reach_low"][:, None]) & (cells <= own["reach_high"][:, None])
            if len(prices.blocked):
                inside &= ~prices.blocked[start[f] : start[f + 1]]
            table[inside] = prices.cost[f]
            table[(cells >= own["near_low"][:, None]) & (cells <= own["near_high"][:, None])] = 0.0
        possible = np.isfinite(table[moves])
        first, last = possible.argmax(axis=1), len(cells) - 1 - possible[:, ::-1].argmax(axis=1)
        has_gaps |= bool((possible.sum(axis=1) <= last - first).any())
        dearest[moves] += np.where(possible, table[moves], 0.0).max(axis=1, initial=0.0)
    return has_gaps, bool(len(prices.group_budget) or (dearest > prices.budget).any())
