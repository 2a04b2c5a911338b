"""How far an attacker's reach can be scaled before a row breaks."""

from __future__ import annotations

import dataclasses
import math
import time
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
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local
from treeproof.verification.radii.question import Answers, Broken, Question


class IntervalRobustness(Question):
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
        low = -self._highest_within(rows, levels, -1)
        high = self._highest_within(rows, levels, 1)
        answers = self._search(rows, low, high)
        # Level 0 is that of infinite ends: the row is broken above it, and there is nothing below.
        return [answer if level > 0 else Outcome.PROVED for answer, level in zip(answers, levels, strict=True)]

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
        reach = np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high)
        status, cells = self.local.search_within(self.X[rows], reach)
        return [
            self._broken(row, cells[i]) if status[i] == Outcome.REFUTED else Outcome(int(status[i]))
            for i, row in enumerate(rows)
        ]

    def _broken(self, row: int, cells: npt.NDArray[np.int32]) -> Broken:
        level, attacked = Fraction(0), self.X[row].copy()
        for f, away in self.moved(row, self._pulled_back(row, cells), attacked):
            end = float(self.threat.high[f] if attacked[f] > self.X[row, f] else -self.threat.low[f])
            if math.isfinite(end):
                level = max(level, away / Fraction(end))
        return Broken(level, self.X[row], attacked)

    def moved(self, row: int, cells: npt.NDArray[np.int32], attacked: FloatArray) -> list[tuple[int, Fraction]]:
        """The features whose cell changes, and how far; moves `attacked` to the nearest double of the new cells."""
        moves = []
        for f in np.flatnonzero(cells != self.cells[row]).tolist():
            first, last = self.ends(f, int(cells[f]))
            x = float(self.X[row, f])
            attacked[f] = first if first > x else last
            moves.append((f, abs(Fraction(float(attacked[f])) - Fraction(x))))
        return moves

    def _pulled_back(self, row: int, cells: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The counterexample with every feature as close to x as the others allow: often a much cheaper one."""
        attacked = self.X[row].copy()
        label = self.ensemble.predict_index(self.X[[row]])[0]
        cells, before = cells.copy(), None
        while before is None or (cells != before).any():
            before = cells.copy()
            moves = self.moved(row, cells, attacked)
            for f, _ in sorted(moves, key=lambda move: move[1], reverse=True):
                own, step = int(self.cells[row, f]), 1 if cells[f] > self.cells[row, f] else -1
                closer = range(own, int(cells[f]), step)
                rows = np.repeat(attacked[None], len(closer), axis=0)
                ends = self.first if step > 0 else self.last
                rows[:, f] = ends[self.start[f] + np.array(closer)]
                rows[0, f] = self.X[row, f]
                other = np.flatnonzero(self.ensemble.predict_index(rows) != label)
                if len(other):
                    cells[f], attacked[f] = closer[int(other[0])], rows[other[0], f]
        return cells


class LpRobustness(IntervalRobustness):
    """An Lp radius times a scale; levels are exact costs, the sums of distance**p; hints are their roots."""

    costs_add_up = True

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        super().__init__(ensemble, threat, X, limits)
        self.touchable = threat.high > 0
        reach = np.where(self.touchable, np.inf, 0.0)
        cost = self.touchable.astype(np.int64)
        free = dataclasses.replace(threat, low=-reach, high=reach, cost=cost, budget=int(cost.sum()), power=None)
        self.unpriced = Local(ensemble, free, limits)

    def hints(self) -> FloatArray:
        """No values: a search in the whole space finds something at once, and pulled back it is close to the best."""
        return np.empty((len(self.X), 0))

    def key(self, level: Fraction) -> float:
        """The distance whose power is the level."""
        assert self.threat.power is not None
        return root_at_most(level, self.threat.power)

    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        """Balls of about these radii."""
        answers: Answers = []
        for row, value in zip(rows, values, strict=True):
            with np.errstate(all="ignore"):
                budget = float(np.float64(value) ** (self.threat.power or 1) * (1 + 2.0**-40))
            status, cells = self.local.search_within(
                self.X[[row]], self._ball(row, value * (1 + 2.0**-50)), min(budget, LARGEST)
            )
            answers.append(self._answer(row, status, cells))
        return answers

    def anywhere(self, rows: Sequence[int]) -> Answers:
        """The whole space, at no cost."""
        answers: Answers = []
        for row in rows:
            status, cells = self.unpriced.search_within(self.X[[row]], self._ball(row, math.inf))
            answers.append(self._answer(row, status, cells))
        return answers

    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        """What costs strictly less than the levels."""
        return [self._below(row, level) for row, level in zip(rows, levels, strict=True)]

    def _below(self, row: int, level: Fraction) -> Broken | Outcome:
        ball = self._ball(row, math.nextafter(self.key(level), math.inf))
        # Rounded prices can be a little too high or low in sum; the slack lets all cheaper ones pass.
        n = self.ensemble.n_features
        local, budget = self.local, double_at_most(level) * (1 + 2.0**-50)
        if not 2.0**-900 < budget < 2.0**900:
            # Powers of such distances are not normal doubles: take any counterexample, and price it here.
            local, budget = self.unpriced, float(n)
        unaffordable = np.empty((0, n), dtype=np.int32)
        timeout = self.local.limits.timeout
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            status, cells = local.search_within(self.X[[row]], ball, budget, unaffordable)
            answer = self._answer(row, status, cells)
            if not isinstance(answer, Broken) or answer.level < level:
                return answer
            # It costs as much as the level: one of its ties, of which there can be very many.
            if time.monotonic() >= end or local.limits.is_over():
                return Outcome.UNKNOWN
            unaffordable = np.concatenate((unaffordable, cells))

    def _ball(self, row: int, radius: float) -> tuple[FloatArray, FloatArray]:
        """The box around the ball, inside the domain."""
        x, threat = self.X[[row]], self.threat
        reach = np.where(self.touchable, radius, 0.0)
        low, high = add_up(x, -reach), add_down(x, reach)
        return np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high)

    def _answer(self, row: int, status: npt.NDArray[np.int64], cells: npt.NDArray[np.int32]) -> Broken | Outcome:
        return self._broken(row, cells[0]) if status[0] == Outcome.REFUTED else Outcome(int(status[0]))

    def _broken(self, row: int, cells: npt.NDArray[np.int32]) -> Broken:
        attacked = self.X[row].copy()
        cells = self._pulled_back(row, cells)
        moves = self.moved(row, cells, attacked)
        level = sum((away**self.threat.power for _, away in moves), Fraction(0))  # type: ignore[operator]
        return Broken(level, self.X[row], attacked)
