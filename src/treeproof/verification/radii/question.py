"""Questions about rows whose attack, or neighbourhood, grows with one number: the level."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local

T = TypeVar("T")

Level: TypeAlias = Fraction | float
"""An exact radius; as a float only inf, -inf, or nan for a row that was not decided."""


class Broken(NamedTuple):
    """A counterexample: from this level on, some neighbour in the cells of one row is moved to those of another."""

    level: Fraction
    neighbour: FloatArray
    attacked: FloatArray


Answers: TypeAlias = list[Broken | Outcome]
"""For each row a counterexample, PROVED or UNKNOWN."""


def answers_of(outcomes: Iterable[int], broken: Callable[[int], Broken]) -> Answers:
    """Outcomes of a search as answers, with the counterexample of each row, by its place, that is refuted."""
    return [broken(i) if outcome == Outcome.REFUTED else Outcome(int(outcome)) for i, outcome in enumerate(outcomes)]


class Rows:
    """A few rows, the search for what breaks them, and the cells around them."""

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        self.ensemble, self.threat, self.X = ensemble, threat, X
        self.local, self._limits = Local(ensemble, threat, limits), limits
        self.used: FloatArray = np.zeros(len(X))
        """Seconds that each row has had, in whatever search."""
        grid = ensemble.grid
        self.start = grid.start
        self.feature = np.repeat(np.arange(ensemble.n_features), grid.n_cells)
        # The lowest and highest double of every cell; a cell outside the domain has none.
        first, last = grid.cell_ends
        self.first = np.maximum(first, threat.domain_low[self.feature])
        self.last = np.minimum(last, threat.domain_high[self.feature])
        self.cells = grid.cells(X)
        self.is_category = np.zeros(ensemble.n_features, dtype=bool)
        self.is_category[[f for f, _ in ensemble.categories]] = True

    def ends(self, f: int, cell: int) -> tuple[float, float]:
        """The lowest and highest double of a cell inside the domain."""
        at = self.start[f] + cell
        return float(self.first[at]), float(self.last[at])


class Question(Rows, ABC):
    """What grows with the level, for a few rows; subclasses say how far each row is searched."""

    costs_add_up = False
    """Whether rows break between the distances of single cells, because the costs of several add up."""

    @abstractmethod
    def hints(self) -> FloatArray:
        """Rounded levels worth a try for each row, in any order; nan and inf are ignored."""

    @abstractmethod
    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        """Searches up to about these levels."""

    @abstractmethod
    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        """Searches everything strictly below the levels."""

    @abstractmethod
    def anywhere(self, rows: Sequence[int]) -> Answers:
        """Searches all levels."""

    @contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """Allows at most these seconds per row inside `with`."""
        limits = self.local.limits
        timeout = seconds if limits.timeout is None else min(seconds, limits.timeout)
        self.local.limits = dataclasses.replace(limits, timeout=timeout)
        try:
            yield
        finally:
            self.local.limits = limits

    def timed(self, rows: Sequence[int], ask: Callable[[FloatArray], T]) -> T:
        """What a search finds that knows how many seconds of each row's time are used; notes how many are after it."""
        most, now = self._limits.timeout, self.local.limits.timeout
        used = np.maximum(self.used[rows] - (math.inf if most is None or now is None else most - now), 0.0)
        found = ask(used)
        self.used[rows] += self.local.used - used
        return found

    def distances(self) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """How far each cell is from each row, rounded, and whether it is above; inf where it has no double."""
        x = self.X[:, self.feature]
        with np.errstate(over="ignore"):
            away = np.maximum(np.maximum(self.first - x, x - self.last), 0.0)
        return np.where(self.first <= self.last, away, np.inf), self.first > x
