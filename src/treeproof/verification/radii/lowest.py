"""The hunt for the lowest level at which each row breaks.

Every counterexample breaks the row from an exact, rational level on. The hunt keeps the lowest level found, and ends
when a search through everything strictly below that level finds nothing: that level is the radius, proved from
both sides. Rounded distances to the cells only say which levels to try first, so that few counterexamples are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import numpy as np

from treeproof.errors import disbelieved
from treeproof.numbers.doubles import FloatArray, double_at_most
from treeproof.results.verdicts import Outcome
from treeproof.verification.radii.question import Answers, Broken, Level, Question

QUICK = 0.2
"""Seconds for the first tries, which only help to find a good level; proofs have all the time that is allowed."""

PATIENT = 8
"""How many times longer tries last whenever those before them left a gap below the level found."""

CLOSE = 1e-3
"""Where costs add up, levels between two that were tried are tried too, until those differ by less than this share."""

CLOSE_TO_HARD = 0.25
"""The same below a level where a try took too long."""

Found: TypeAlias = tuple[list[Level], FloatArray, FloatArray]
"""The level of each row, and the neighbour and the attacked row of the counterexample there."""


@dataclass
class _Hunt:
    """The hunt for one row: the hints still worth a try are those from `first` up to, but not including, `last`."""

    hints: FloatArray
    costs_add_up: bool
    first: int = 0
    last: int = 0
    proved: float = 0.0
    hard: float = math.inf
    """The lowest value whose try took too long."""
    found: Broken | None = None
    found_key: float = math.inf
    tried: int | None = None
    patience: float = QUICK

    @classmethod
    def along(cls, hints: FloatArray, costs_add_up: bool) -> _Hunt:
        """A hunt that tries those of these values that are finite and above 0."""
        useful = np.unique(hints[np.isfinite(hints) & (hints > 0)])
        return cls(useful, costs_add_up, last=len(useful))

    def next_value(self, timeout: float | None) -> float | None:
        """The value to try next; None if only a search through everything (below the level found) is left."""
        value = self._next_value()
        while value is None and self.found is not None and self.hard < self.found_key and self._more_patient(timeout):
            value = self._next_value()
        return value

    def _next_value(self) -> float | None:
        self.tried = None
        if self.first < self.last:
            # Small steps before the first counterexample, since large neighbourhoods can be hard to search.
            ahead = 4 * self.first + 3 if self.found is None else self.last
            middle = (self.first + self.last) // 2
            self.tried = min(ahead, middle if self.hard < math.inf or self.found is not None else self.last - 1)
            return float(self.hints[self.tried])
        if not self.costs_add_up or self.found is None:
            return None
        top, close = (self.hard, CLOSE_TO_HARD) if self.hard < self.found_key else (self.found_key, CLOSE)
        middle_value = self.proved + (top - self.proved) / 2
        return middle_value if top - self.proved > close * top and self.proved < middle_value < top else None

    def _more_patient(self, timeout: float | None) -> bool:
        """Whether there is time to try the gap below the level found again, for longer."""
        if timeout is not None and self.patience * PATIENT >= timeout:
            return False
        self.patience *= PATIENT
        self.hard, self.last = math.inf, int(np.searchsorted(self.hints, self.found_key))
        return True

    def took_too_long(self, value: float) -> None:
        """Records a try that says nothing: look lower."""
        self.hard = min(self.hard, value)
        if self.tried is not None:
            self.last = self.tried

    def survived(self, value: float) -> None:
        self.proved = value
        if self.tried is not None:
            self.first = self.tried + 1

    def broke(self, broken: Broken, key: float, value: float) -> None:
        if self.tried is not None:
            self.last = min(self.last, self.tried)
        if key > value:
            # Rounding let one pass that is farther away; do not ask the same again.
            self.proved = max(self.proved, value)
        if self.found is None or broken.level < self.found.level:
            self.found, self.found_key = broken, key
            self.last = min(self.last, int(np.searchsorted(self.hints, key)))


def lowest_levels(question: Question) -> Found:
    """The exact level at which each row breaks (inf: none; nan: not decided in time), with a counterexample."""
    levels: list[Level] = [math.nan] * len(question.X)
    neighbour, attacked = question.X.copy(), question.X.copy()
    hunts = {row: _Hunt.along(hints, question.costs_add_up) for row, hints in enumerate(question.hints())}
    timeout = question.local.limits.timeout
    while hunts and not question.local.limits.is_over():
        for row in [row for row in hunts if question.local.is_used_up(question.used[[row]])]:
            del hunts[row]
        # The proof has half of the time at least.
        late = set() if timeout is None else set(np.flatnonzero(question.used > timeout / 2).tolist())
        values = {row: None if row in late else hunt.next_value(timeout) for row, hunt in hunts.items()}
        _try(question, hunts, {row: value for row, value in values.items() if value is not None})
        for row, answer in _decide(question, hunts, [row for row, value in values.items() if value is None]):
            found = hunts[row].found
            if isinstance(answer, Broken):
                hunts[row].broke(answer, double_at_most(answer.level), math.inf)
                continue
            if answer == Outcome.PROVED:
                levels[row] = math.inf if found is None else found.level
                if found is not None:
                    neighbour[row], attacked[row] = found.neighbour, found.attacked
            del hunts[row]
    return levels, neighbour, attacked


def _try(question: Question, hunts: dict[int, _Hunt], values: dict[int, float]) -> None:
    """Tries one value for each row, with the patience of its hunt."""
    by_patience = sorted(values, key=lambda row: hunts[row].patience)
    for patience, group in groupby(by_patience, key=lambda row: hunts[row].patience):
        rows = list(group)
        with question.patience(patience):
            answers = question.around(rows, [values[row] for row in rows])
        for row, answer in zip(rows, answers, strict=True):
            hunt = hunts[row]
            if isinstance(answer, Broken):
                hunt.broke(answer, double_at_most(answer.level), values[row])
            elif answer == Outcome.PROVED:
                hunt.survived(values[row])
            else:
                hunt.took_too_long(values[row])


def _decide(question: Question, hunts: dict[int, _Hunt], rows: Iterable[int]) -> Iterator[tuple[int, Broken | Outcome]]:
    """Searches everything below the levels found, or everything where none was found."""
    found = {row: hunts[row].found for row in rows}
    unbroken = [row for row, broken in found.items() if broken is None]
    levels = {row: broken.level for row, broken in found.items() if broken is not None}
    answers: Answers = question.anywhere(unbroken) if unbroken else []
    yield from zip(unbroken, answers, strict=True)
    answers = question.below(list(levels), list(levels.values())) if levels else []
    for row, answer in zip(levels, answers, strict=True):
        if isinstance(answer, Broken) and answer.level >= levels[row]:
            raise disbelieved(f"a search below {levels[row]} found {answer}", [row])
        yield row, answer
