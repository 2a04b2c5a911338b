"""Resilience radii against every kind of attacker, and where rows keep relations.

Larger neighbourhoods hold more rows, so whether a row holds changes once, and each counterexample says from which
multiple on it is one. A search of everything strictly below that proves it to be the radius, or finds a nearer one;
then the gap between what holds and what breaks is halved. It ends at the exact radius, or where no double lies between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from treeproof.errors import SoundnessError
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import FloatArray, double_at_most, double_below, from_ordinal, ordinal
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.radii.lowest import Found
from treeproof.verification.radii.question import Broken, Level
from treeproof.verification.valid_rows import search_for

MEANS = 8
"""After so many means of both ends, their ordinals are halved: so a radius of 1e-300 is found soon, too."""


class _Around(NamedTuple):
    """The neighbours up to a multiple of the unit, or all below it; None: all that there are."""

    multiple: Fraction | None
    strictly: bool = False


@dataclass
class _Bracket:
    """What is known of a row: at the multiple `held` it holds, at the level of `found` it does not."""

    held: float = 0.0
    found: Broken | None = None
    is_halved: bool = False
    halvings: int = 0

    def next_question(self) -> _Around:
        """Where to look next."""
        if self.found is None:
            return _Around(None)
        if not self.is_halved:
            return _Around(self.found.level, strictly=True)
        self.halvings += 1
        high = double_at_most(self.found.level)
        middle = self.held + (high - self.held) / 2
        if self.halvings > MEANS or not self.held < middle < high:
            middle = float(from_ordinal((int(ordinal(self.held)) + int(ordinal(high)) + 1) // 2))
        return _Around(Fraction(middle))

    def learn(self, asked: _Around, answer: Broken | Outcome) -> Level | None:
        """Takes the answer to a question; returns the level if it is known now, nan if it will not be."""
        if answer == Outcome.UNKNOWN:
            return math.nan
        if isinstance(answer, Broken):
            if self.found is not None and answer.level >= self.found.level:
                raise SoundnessError(f"a search below {self.found.level} found {answer}; please report this")
            # Whatever else was found may be far away, so this one is tried before the gap is halved again.
            self.is_halved = self.found is not None and asked.strictly
            self.found = answer
        elif self.found is None:
            return math.inf
        elif asked.strictly:
            return self.found.level
        else:
            assert asked.multiple is not None
            self.held = float(asked.multiple)
        following = Fraction(math.nextafter(self.held, math.inf))
        if self.found.level < following:
            return self.found.level  # between two doubles: this one is rounded as the exact one is
        self.is_halved &= self.found.level > following
        return None


class Halving:
    """Multiples of the neighbourhood `unit`, one finite size per feature, at which rows that are stable break."""

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits, unit: FloatArray) -> None:
        self._threat, self._X, self._unit = threat, X, unit
        self._search = search_for(ensemble, threat, limits)
        self._steps = {f: moves for f, moves in threat.columns if moves.step is not None}
        self._sizes = {
            f: decimal_of(size) if f in self._steps else Fraction(size) for f, size in enumerate(unit.tolist()) if size
        }

    def lowest_levels(self) -> Found:
        """The level at which each row breaks (inf: none; nan: not decided in time), with a counterexample.

        A level is exact, or lies between the same two doubles as the exact one.
        """
        levels: list[Level] = [math.nan] * len(self._X)
        neighbour, attacked = self._X.copy(), self._X.copy()
        brackets = {row: _Bracket() for row in range(len(self._X))}
        while brackets and not self._search.limits.is_over():
            asked = {row: bracket.next_question() for row, bracket in brackets.items()}
            answers = self._answers(list(asked), list(asked.values()))
            for (row, around), answer in zip(asked.items(), answers, strict=True):
                level = brackets[row].learn(around, answer)
                if level is not None:
                    levels[row], found = level, brackets.pop(row).found
                    if found is not None:
                        neighbour[row], attacked[row] = found.neighbour, found.attacked
        return levels, neighbour, attacked

    def _answers(self, rows: list[int], asked: Sequence[_Around]) -> list[Broken | Outcome]:
        boxes = [self._box(row, around) for row, around in zip(rows, asked, strict=True)]
        low, high = (np.stack([box[side] for box in boxes]) for side in (0, 1))
        decided = self._search.decide_boxes(self._X[rows], low, high)
        outcomes = [Outcome(int(outcome)) for outcome in decided.outcome]
        return [
            Broken(self._level(row, z), z, w) if outcome == Outcome.REFUTED else outcome
            for row, outcome, z, w in zip(rows, outcomes, decided.neighbour, decided.attacked, strict=True)
        ]

    def _box(self, row: int, around: _Around) -> tuple[FloatArray, FloatArray]:
        """The lowest and the highest double of these neighbours."""
        x, threat = self._X[row], self._threat
        if around.multiple is None:
            low, high = threat.neighbourhood(x[None], np.where(self._unit > 0, np.inf, 0.0))
            return low[0], high[0]
        low, high = x.copy(), x.copy()
        for f, size in self._sizes.items():
            if math.isnan(x[f]):
                continue
            reach = around.multiple * size
            if f in self._steps:
                step = self._steps[f].step
                assert step is not None
                number = math.ceil(reach / step) - 1 if around.strictly else math.floor(reach / step)
                ends = self._steps[f].points_around(x[f : f + 1], number)
                low[f], high[f] = ends[0][0], ends[1][0]
            else:
                last, own = double_below if around.strictly else double_at_most, Fraction(float(x[f]))
                low[f], high[f] = -last(reach - own), last(reach + own)
        return np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high)

    def _level(self, row: int, neighbour: FloatArray) -> Fraction:
        """The multiple from which on a row is a neighbour."""
        x, level = self._X[row].tolist(), Fraction(0)
        for f, size in self._sizes.items():
            if neighbour[f] != x[f] and not math.isnan(x[f]):
                z = float(neighbour[f])
                moves = self._steps.get(f)
                if moves is None:
                    away = abs(Fraction(z) - Fraction(x[f]))
                else:
                    assert moves.step is not None
                    away = moves.steps_to(x[f], z) * moves.step
                level = max(level, away / size)
        if not level:
            raise SoundnessError("a row that is proved stable was attacked; please report this")
        return level
