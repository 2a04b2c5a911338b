"""How far an attacker's reach can be scaled before a row breaks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import (
    LARGEST,
    FloatArray,
    add_down,
    add_up,
    double_at_most,
    double_below,
    next_down,
    next_up,
    root_at_most,
)
from treeproof.results.verdicts import Outcome
from treeproof.run import clock
from treeproof.run.limits import Limits
from treeproof.threat.starts import nearest_one
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import LARGEST_PRICE, SMALLEST_PRICE, Local
from treeproof.verification.radii.lowest import Found
from treeproof.verification.radii.question import Answers, Broken, Level, Question, Rows, answers_of


class _Attacked(Rows):
    """Counterexamples as cells, and the attacked rows that they become."""

    def moved(self, row: int, cells: npt.NDArray[np.int32], attacked: FloatArray) -> list[tuple[int, Fraction]]:
        """The features whose cell changes, and how far; moves `attacked` to the nearest double of the new cells."""
        moves = []
        for f in np.flatnonzero(cells != self.cells[row]).tolist():
            first, last = self.ends(f, int(cells[f]))
            x = float(self.X[row, f])
            attacked[f] = first if first > x else last
            if self.is_category[f]:
                attacked[f] = nearest_one(dict(self.threat.ends)[f], *map(np.array, (x, first, last)))
            moves.append((f, abs(Fraction(float(attacked[f])) - Fraction(x))))
        return moves

    def pulled_back(self, row: int, cells: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The counterexample with every feature as close to x as the others allow: often a much cheaper one."""
        attacked = self.X[row].copy()
        label = self.ensemble.predict_index(self.X[[row]])[0]
        cells, before = cells.copy(), None
        while before is None or (cells != before).any():
            before = cells.copy()
            moves = self.moved(row, cells, attacked)
            for f, _ in sorted(moves, key=lambda move: move[1], reverse=True):
                if self.is_category[f]:  # no value of it is closer than another
                    continue
                own, step = int(self.cells[row, f]), 1 if cells[f] > self.cells[row, f] else -1
                closer = range(own, int(cells[f]), step)
                rows = np.repeat(attacked[None], len(closer), axis=0)
                ends = self.first if step > 0 else self.last
                rows[:, f] = ends[self.start[f] + np.array(closer)]
                rows[0, f] = self.X[row, f]
                after = self.ensemble.predict_index(rows)
                other = np.flatnonzero(np.isin(after, self.threat.goal) if self.threat.goal else after != label)
                if len(other):
                    cells[f], attacked[f] = closer[int(other[0])], rows[other[0], f]
        return cells


class IntervalRobustness(_Attacked, Question):
    """Intervals times a scale: a cell comes within reach at its distance divided by the interval's end."""

    def hints(self) -> FloatArray:
        """The scales at which single cells come within reach."""
        away, above = self.distances()
        end = np.where(above, self.threat.high[self.feature], -self.threat.low[self.feature])
        with np.errstate(all="ignore"):
            return np.asarray(away / end)

    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        """Intervals of about these scales."""
        x, threat = self.X[rows], self.threat
        with np.errstate(all="ignore"):
            scale = np.array(values)[:, None] * (1 + 2.0**-50)
            low = np.where(threat.low < 0, next_down(x + scale * threat.low), x)
            high = np.where(threat.high > 0, next_up(x + scale * threat.high), x)
        return self._search(rows, low, high)

    def anywhere(self, rows: Sequence[int]) -> Answers:
        """Unbounded intervals, where they have any length."""
        x, threat = self.X[rows], self.threat
        fixed = np.isnan(x)
        low = np.where((threat.low < 0) & ~fixed, -LARGEST, x)
        return self._search(rows, low, np.where((threat.high > 0) & ~fixed, LARGEST, x))

    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        """What scales strictly below the levels can reach."""
        answers: Answers = [Outcome.PROVED] * len(rows)
        # Level 0 is that of infinite ends: the row is broken above it, and there is nothing below.
        above = [i for i, level in enumerate(levels) if level > 0]
        if above:
            some, known = [rows[i] for i in above], [levels[i] for i in above]
            low, high = -self._highest_within(some, known, -1), self._highest_within(some, known, 1)
            for i, answer in zip(above, self._search(some, low, high), strict=True):
                answers[i] = answer
        return answers

    def _highest_within(self, rows: Sequence[int], levels: Sequence[Fraction], sign: int) -> FloatArray:
        """A double in the farthest cell (up, or mirrored for sign -1) that some scale below the level reaches."""
        x = sign * self.X[rows]
        end = self.threat.high if sign > 0 else -self.threat.low
        scale = np.array([double_at_most(level) for level in levels])[:, None]
        with np.errstate(all="ignore"):
            moved = scale * end
            error = 2.0**-48 * (np.abs(x) + moved) + end * 2.0**-1060 + 1e-300
            reach = x + moved
            sure = self._cells(sign * (reach - error)) == self._cells(sign * (reach + error))
            sure &= np.isfinite(reach + error) & (x < reach - error)
        reach = np.where(np.isnan(x) | (end == 0), x, np.where(np.isinf(end), LARGEST, reach))
        for i, f in np.argwhere(~sure & np.isfinite(end) & (end > 0) & ~np.isnan(x)):
            reach[i, f] = max(double_below(Fraction(float(x[i, f])) + levels[i] * Fraction(float(end[f]))), x[i, f])
        return reach

    def _cells(self, X: FloatArray) -> npt.NDArray[np.int32]:
        return self.ensemble.grid.cells(X)

    def _search(self, rows: Sequence[int], low: FloatArray, high: FloatArray) -> Answers:
        threat = self.threat
        reach = np.maximum(low, threat.end_low), np.minimum(high, threat.end_high)
        status, cells = self.timed(rows, lambda used: self.local.search_within(self.X[rows], reach, used=used))
        return answers_of(status, lambda i: self._broken(rows[i], cells[i]))

    def _broken(self, row: int, cells: npt.NDArray[np.int32]) -> Broken:
        level, attacked = Fraction(0), self.X[row].copy()
        for f, away in self.moved(row, self.pulled_back(row, cells), attacked):
            end = float(self.threat.high[f] if attacked[f] > self.X[row, f] else -self.threat.low[f])
            if math.isfinite(end):
                level = max(level, away / Fraction(end))
        return Broken(level, self.X[row], attacked)


class LpRobustness(_Attacked):
    """An Lp radius times a scale; levels are exact prices, sums of powers of distances.

    The cheapest attack is a search of its own, and its price is the level but for roundings of prices: a second search
    proves that nothing is cheaper, or finds it.
    """

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        super().__init__(ensemble, threat, X, limits)
        endless, cost = threat.without_limits(), threat.movable.astype(np.int64)
        free = dataclasses.replace(endless, cost=cost, budget=int(cost.sum()), power=None)
        self.unpriced = Local(ensemble, free, limits)

    def lowest_levels(self) -> Found:
        """The exact level at which each row breaks (inf: none; nan: not decided in time), with a counterexample."""
        levels: list[Level] = [math.nan] * len(self.X)
        free = Local(self.ensemble, self.threat.without_limits(), self.local.limits)
        cheapest = free.cheapest(self.X, within=False)
        outcome, attacked, self.used = cheapest.outcome, cheapest.attacked, free.used
        open_rows = {}
        for row in range(len(self.X)):
            level = self._level(row, attacked[row])
            if level == 0:
                levels[row] = math.inf if outcome[row] == Outcome.PROVED else math.nan
            elif outcome[row] == Outcome.PROVED or not _is_normal(level):
                open_rows[row] = Broken(level, self.X[row], attacked[row])
        while open_rows and not self.local.limits.is_over():
            found = list(open_rows.values())
            ties = self.ensemble.grid.cells(np.stack([broken.attacked for broken in found]))[:, None]
            answers = self.below(list(open_rows), [broken.level for broken in found], ties)
            for row, broken, answer in zip(list(open_rows), found, answers, strict=True):
                if isinstance(answer, Broken):
                    open_rows[row] = answer
                    continue
                if answer == Outcome.PROVED:
                    levels[row], attacked[row] = broken.level, broken.attacked
                del open_rows[row]
        return levels, self.X.copy(), attacked

    def below(
        self, rows: Sequence[int], levels: Sequence[Fraction], ties: npt.NDArray[np.int32] | None = None
    ) -> Answers:
        """What costs strictly less than the levels; `ties` (n, k, n_features) are k cells for each row that do not."""
        if ties is None:
            ties = np.empty((len(rows), 0, self.ensemble.n_features), dtype=np.int32)
        answers: Answers = [Outcome.UNKNOWN] * len(rows)
        for normal in (True, False):
            some = [i for i, level in enumerate(levels) if _is_normal(level) == normal]
            found = self._below([rows[i] for i in some], [levels[i] for i in some], ties[some], normal)
            for i, answer in zip(some, found, strict=True):
                answers[i] = answer
        return answers

    def _below(
        self, rows: Sequence[int], levels: Sequence[Fraction], ties: npt.NDArray[np.int32], normal: bool
    ) -> Answers:
        """The same for rows with levels that are normal doubles, or that are not."""
        n = self.ensemble.n_features
        # What cannot be compared as doubles is not priced by the search: take any counterexample, and price it here.
        local = self.local if normal else self.unpriced
        low, high = self._balls(rows, levels)
        # Rounded prices can be a little too high or low in sum; the slack lets all cheaper ones pass.
        budget = np.array([double_at_most(level) * (1 + 2.0**-50) if normal else float(n) for level in levels])
        answers: Answers = []
        status, cells = local.search_within(self.X[rows], (low, high), budget, ties, self.used[rows])
        self.used[rows] = local.used
        for i, row in enumerate(rows):
            answer, known = self._answer(row, status[i], cells[i]), ties[[i]]
            # It costs as much as the level: one of its ties, of which there can be very many.
            while isinstance(answer, Broken) and answer.level >= levels[i]:
                if local.is_used_up(self.used[[row]]):
                    answer = Outcome.UNKNOWN
                    break
                began, known = clock.at_work(), np.concatenate((known, cells[i][None, None]), axis=1)
                asked = self.X[[row]], (low[[i]], high[[i]]), budget[[i]], known, self.used[[row]]
                status[[i]], cells[[i]] = local.search_within(*asked, levels[i] if normal else None)
                answer = self._answer(row, status[i], cells[i])
                self.used[row] += clock.at_work() - began
            answers.append(answer)
        return answers

    def _answer(self, row: int, status: int, cells: npt.NDArray[np.int32]) -> Broken | Outcome:
        return self._broken(row, cells) if status == Outcome.REFUTED else Outcome(int(status))

    def _balls(self, rows: Sequence[int], levels: Sequence[Fraction]) -> tuple[FloatArray, FloatArray]:
        """The boxes around balls in which attacks cost at most these levels, inside the domain."""
        x, threat = self.X[rows], self.threat
        assert threat.power is not None
        radii = next_up([root_at_most(level, threat.power) for level in levels])[:, None]
        with np.errstate(over="ignore", under="ignore"):
            reach = next_up(radii * threat.unit)
        low = add_up(x, np.where(threat.low < 0, -reach, 0.0))
        high = add_down(x, np.where(threat.high > 0, reach, 0.0))
        return np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high)

    def _broken(self, row: int, cells: npt.NDArray[np.int32]) -> Broken:
        attacked = self.X[row].copy()
        self.moved(row, self.pulled_back(row, cells), attacked)
        return Broken(self._level(row, attacked), self.X[row], attacked)

    def _level(self, row: int, attacked: FloatArray) -> Fraction:
        """What the attack on a row costs."""
        prices = self.threat.attack_prices(self.X[row], self.X[row], attacked)
        assert prices is not None
        return sum(prices.values(), Fraction(0))


def _is_normal(level: Fraction) -> bool:
    """Whether sums of prices near the level are normal doubles, which a search can compare."""
    return 2 * SMALLEST_PRICE < level < LARGEST_PRICE / 2
