"""Radii against every kind of attacker, and where rows keep relations.

Larger neighbourhoods hold more rows, and a larger reach more attacks. So whether a row holds changes once, and each
counterexample says from which multiple on it is one. A search of everything strictly below that proves it to be the
radius, or finds a nearer one; then the gap between what holds and what breaks is halved. It ends at the exact radius,
or where no double lies between.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from treeproof.errors import disbelieved
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import FloatArray, double_at_most, double_below, from_ordinal, ordinal
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.radii.lowest import Found
from treeproof.verification.radii.question import Answers, Broken, Level, answers_of
from treeproof.verification.valid_rows import search_for

MEANS = 8
"""After so many means of both ends, their ordinals are halved: so a radius of 1e-300 is found soon, too."""


class Within(NamedTuple):
    """What lies within a multiple of the unit, or below it; None: all that there is."""

    multiple: Fraction | None
    strictly: bool = False


@dataclass
class _Bracket:
    """What is known of a row: at the multiple `held` it holds, at the level of `found` it does not."""

    held: float = 0.0
    found: Broken | None = None
    is_halved: bool = False
    halvings: int = 0

    def next_question(self) -> Within:
        """Where to look next."""
        if self.found is None:
            return Within(None if self.held else Fraction(1))  # all that there is may take long, and 1 be enough
        if not self.is_halved:
            return Within(self.found.level, strictly=True)
        self.halvings += 1
        high = double_at_most(self.found.level)
        middle = self.held + (high - self.held) / 2
        if self.halvings > MEANS or not self.held < middle < high:
            middle = float(from_ordinal((int(ordinal(self.held)) + int(ordinal(high)) + 1) // 2))
        return Within(Fraction(middle))

    def learn(self, asked: Within, answer: Broken | Outcome) -> Level | None:
        """Takes the answer to a question; returns the level if it is known now, nan if it will not be."""
        if answer == Outcome.UNKNOWN:
            return math.nan
        if isinstance(answer, Broken):
            if self.found is not None and answer.level >= self.found.level:
                raise disbelieved(f"a search below {self.found.level} found {answer}")
            # Whatever else was found may be far away, so this one is tried before the gap is halved again.
            self.is_halved = self.found is not None and asked.strictly
            self.found = answer
        elif asked.multiple is None:
            return math.inf
        elif asked.strictly:
            return asked.multiple
        else:
            self.held = float(asked.multiple)
        if self.found is None:
            return None
        following = Fraction(math.nextafter(self.held, math.inf))
        if self.found.level < following:
            return self.found.level  # between two doubles: this one is rounded as the exact one is
        self.is_halved &= self.found.level > following
        return None


class Halving(ABC):
    """The multiples at which rows break; subclasses say of what."""

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        self.ensemble, self.threat, self.X, self.limits = ensemble, threat, X, limits
        self.used: FloatArray = np.zeros(len(X))
        """Seconds that each row has had."""
        self.steps = {f: moves for f, moves in threat.columns if moves.step is not None}

    @abstractmethod
    def answers(self, rows: list[int], asked: Sequence[Within]) -> Answers:
        """What a search of each row within its multiple finds."""

    def away(self, row: int, f: int, value: float) -> Fraction:
        """How far a value is from that of a row: in a column with a step in decimals, else in doubles."""
        x = float(self.X[row, f])
        moves = self.steps.get(f)
        if moves is None or moves.step is None:
            return abs(Fraction(value) - Fraction(x))
        return moves.steps_to(x, value) * moves.step

    def exact(self, f: int, size: float) -> Fraction:
        """A finite size in a column, exactly: a decimal if the column has a step."""
        return decimal_of(size) if f in self.steps else Fraction(size)

    def ends(self, row: int, f: int, below: Fraction, above: Fraction, strictly: bool) -> tuple[float, float]:
        """The lowest and the highest double that is so far below or above that of a row, or not quite so far."""
        x, moves = float(self.X[row, f]), self.steps.get(f)
        if moves is None or moves.step is None:
            last, own = double_below if strictly else double_at_most, Fraction(x)
            return (
                -last(below - own) if below else x,
                last(above + own) if above else x,
            )
        numbers = [math.ceil(far / moves.step) - 1 if strictly and far else far // moves.step for far in (below, above)]
        own_value = self.X[row, f : f + 1]
        low, high = moves.points_around(own_value, numbers[0])[0], moves.points_around(own_value, numbers[1])[1]
        return float(low[0]), float(high[0])

    def lowest_levels(self) -> Found:
        """The level at which each row breaks (inf: none; nan: not decided in time), with a counterexample.

        A level is exact, or lies between the same two doubles as the exact one.
        """
        levels: list[Level] = [math.nan] * len(self.X)
        neighbour, attacked = self.X.copy(), self.X.copy()
        brackets = {row: _Bracket() for row in range(len(self.X))}
        while brackets and not self.limits.is_over():
            asked = {row: bracket.next_question() for row, bracket in brackets.items()}
            answers = self.answers(list(asked), list(asked.values()))
            for (row, within), answer in zip(asked.items(), answers, strict=True):
                level = brackets[row].learn(within, answer)
                if level is not None:
                    levels[row], found = level, brackets.pop(row).found
                    if found is not None:
                        neighbour[row], attacked[row] = found.neighbour, found.attacked
        return levels, neighbour, attacked


class Neighbourhoods(Halving):
    """Multiples of the neighbourhood `unit`, one size per feature, at which rows that are stable break.

    Where a size is inf, values may stand for each other at every multiple.
    """

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits, unit: FloatArray) -> None:
        super().__init__(ensemble, threat, X, limits)
        self._search, self._unit = search_for(ensemble, threat, limits), unit
        self._sizes = {f: self.exact(f, size) for f, size in enumerate(unit.tolist()) if 0 < size < math.inf}
        self._fixed = np.where(np.isinf(unit), unit, 0.0)

    def answers(self, rows: list[int], asked: Sequence[Within]) -> Answers:
        """What a search of neighbours within these multiples finds."""
        boxes = [self._box(row, within) for row, within in zip(rows, asked, strict=True)]
        low, high = (np.stack([box[side] for box in boxes]) for side in (0, 1))
        decided = self._search.decide_boxes(self.X[rows], low, high, None, self.used[rows])
        self.used[rows] = self._search.used
        near, attacked = decided.neighbour, decided.attacked
        return answers_of(decided.outcome, lambda i: Broken(self._level(rows[i], near[i]), near[i], attacked[i]))

    def _box(self, row: int, within: Within) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest double of these neighbours."""
        x, threat = self.X[row], self.threat
        if within.multiple is None:
            low, high = threat.neighbourhood(x[None], np.where(self._unit > 0, np.inf, 0.0))
            return low[0], high[0]
        low, high = (ends[0] for ends in threat.neighbourhood(x[None], self._fixed))
        for f, size in self._sizes.items():
            if not math.isnan(x[f]):
                far = within.multiple * size
                low[f], high[f] = self.ends(row, f, far, far, within.strictly)
        return np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high)

    def _level(self, row: int, neighbour: FloatArray) -> Fraction:
        """The multiple from which on a row is a neighbour."""
        x = self.X[row]
        moved = [f for f in self._sizes if neighbour[f] != x[f] and not math.isnan(x[f])]
        if not moved:
            raise disbelieved("it is proved stable and was attacked", [row])
        return max(self.away(row, f, float(neighbour[f])) / self._sizes[f] for f in moved)


class Reach(Halving):
    """Multiples of the attacker's intervals at which rows break; what is no interval is there at every multiple."""

    def answers(self, rows: list[int], asked: Sequence[Within]) -> Answers:
        """What a search of attacks within these multiples finds."""
        return [self._answer(row, within) for row, within in zip(rows, asked, strict=True)]

    def _answer(self, row: int, within: Within) -> Broken | Outcome:
        time = self.limits.for_row(self.used[row])
        if (limits := time.rest()) is None:
            return Outcome.UNKNOWN
        search = search_for(self.ensemble, self._reaching(row, within), limits)
        decided = search.decide(self.X[[row]], np.zeros(self.ensemble.n_features))
        self.used[row] = time.used
        outcome, attacked = Outcome(int(decided.outcome[0])), decided.attacked[0]
        return Broken(self._level(row, attacked), self.X[row], attacked) if outcome == Outcome.REFUTED else outcome

    @cached_property
    def _intervals(self) -> dict[int, tuple[float, float]]:
        """The features that move by distances of which one is finite, and how far."""
        found = {f: self.threat.moves_of(f).interval for f in range(self.ensemble.n_features)}
        return {f: ends for f, ends in found.items() if ends is not None and any(map(_is_scaled, ends))}

    def _reaching(self, row: int, within: Within) -> Threat:
        """The attacker with intervals of this multiple: around one row, as limits of what it can become."""
        threat, columns = self.threat, dict(self.threat.columns)
        low, high = threat.low.copy(), threat.high.copy()
        domain_low, domain_high = threat.domain_low.copy(), threat.domain_high.copy()
        for f, (below, above) in self._intervals.items():
            if math.isnan(self.X[row, f]):
                continue
            first, last = float(domain_low[f]), float(domain_high[f])
            if within.multiple is not None:
                far = [
                    within.multiple * abs(self.exact(f, end)) if _is_scaled(end) else Fraction(0)
                    for end in (below, above)
                ]
                ends = self.ends(row, f, far[0], far[1], within.strictly)
                first = first if below == -math.inf else max(first, ends[0])
                last = last if above == math.inf else min(last, ends[1])
            domain_low[f], domain_high[f] = first, last
            free = (-math.inf if below else 0.0, math.inf if above else 0.0)
            if f in columns:
                columns[f] = replace(columns[f], interval=free, domain=(first, last))
            else:
                low[f], high[f] = free
        return replace(
            threat,
            low=low,
            high=high,
            domain_low=domain_low,
            domain_high=domain_high,
            columns=tuple(sorted(columns.items())),
        )

    def _level(self, row: int, attacked: FloatArray) -> Fraction:
        """The multiple from which on a row is within reach."""
        level, x = Fraction(0), self.X[row]
        for f, ends in self._intervals.items():
            end = ends[1] if attacked[f] > x[f] else ends[0]
            if attacked[f] != x[f] and not math.isnan(attacked[f]) and not math.isnan(x[f]) and _is_scaled(end):
                level = max(level, self.away(row, f, float(attacked[f])) / abs(self.exact(f, end)))
        return level


def _is_scaled(end: float) -> bool:
    return end != 0 and math.isfinite(end)
