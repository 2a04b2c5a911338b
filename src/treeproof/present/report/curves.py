"""How robustness falls with the attacker's reach, and resilience with ε: exact steps, or the band they lie in.

Two levels are known for each row: it holds below `holds`, and is broken from `breaks` on. Halving the gap with `verify`
is cheap; where time allows, the exact radius closes it. Under an Lp attacker the radius is one search, and comes first.
What stays between the two is drawn as a band.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.results.verification import Verification, names_of
from treeproof.run import clock
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import as_epsilon
from treeproof.threat.one_hot import bind_valid, bind_valid_epsilon
from treeproof.threat.threat import Threat
from treeproof.verification.radii.radii import moves_away, refused_by_robustness, resilience_radius, robustness_radius
from treeproof.verification.verify import verify

FARTHEST = 4.0
"""How far curves go, as a multiple of what was verified."""

STEPS = 256
"""The number of parts that halving divides this into before exact radii are sought: a power of 2."""

MAX_ROWS = 1000
"""If there are more rows, this many are sampled."""

ROW_TIMEOUT = (0.02, 0.5)
"""Seconds for one question about one row, at least and at most; in between, it depends on the number of rows."""

RADII_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class Curve:
    """A share of rows over a level: `lower[i]` to `upper[i]` from `levels[i]` to below `levels[i + 1]`."""

    levels: FloatArray
    lower: FloatArray
    upper: FloatArray
    end: float
    """Where the picture ends; nothing is claimed beyond it."""
    asked: float
    """The level of the verification."""
    axis: str
    rows: int
    of_rows: int
    exact_rows: int
    """The number of rows whose exact level is known, or that hold to the end; the others' is known to within `gap`."""
    open_rows: int
    """The number of rows whose level is not even known to within `gap`: time ran out."""
    gap: float

    def at(self, level: float) -> tuple[float, float]:
        """The lower and upper share there."""
        i = int(np.searchsorted(self.levels, level, side="right")) - 1
        return float(self.lower[i]), float(self.upper[i])


Ask: TypeAlias = Callable[[npt.NDArray[np.int64], float], npt.NDArray[np.int8]]
"""The outcomes of some rows at a level."""


@dataclass(eq=False)
class _Brackets:
    """Each row holds at every level below its `holds` and is broken from its `breaks` on."""

    holds: FloatArray
    breaks: FloatArray

    def halve(self, ask: Ask) -> None:
        """Asks how far rows hold, in doubling steps, and then halves the range in which each of them breaks."""
        rows, low = np.flatnonzero(self.holds < self.breaks), 0
        todo = []
        for high in (STEPS // 4, STEPS // 2, STEPS):
            outcomes = self._ask(ask, rows, high)
            todo.append((rows[outcomes != Outcome.PROVED], low, high))
            rows, low = rows[outcomes == Outcome.PROVED], high
        while todo:
            rows, low, high = todo.pop()
            if not len(rows) or high - low < 2:
                continue
            middle = (low + high) // 2
            outcomes = self._ask(ask, rows, middle)
            todo.append((rows[outcomes == Outcome.PROVED], middle, high))
            # A row that was not decided may still break lower down.
            todo.append((rows[outcomes != Outcome.PROVED], low, middle))

    def _ask(self, ask: Ask, rows: npt.NDArray[np.int64], step: int) -> npt.NDArray[np.int8]:
        level = FARTHEST * step / STEPS
        unknown = rows[(self.holds[rows] <= level) & (self.breaks[rows] > level)]
        if len(unknown):
            self.learn(unknown, level, ask(unknown, level))
        known = np.where(self.holds[rows] > level, Outcome.PROVED, Outcome.UNKNOWN)
        return np.where(self.breaks[rows] <= level, Outcome.REFUTED, known).astype(np.int8)

    def learn(self, rows: npt.NDArray[np.int64], level: float, outcomes: npt.NDArray[np.int8]) -> None:
        """Records what is known about rows at a level."""
        proved, refuted = rows[outcomes == Outcome.PROVED], rows[outcomes == Outcome.REFUTED]
        self.holds[proved] = np.maximum(self.holds[proved], np.nextafter(level, np.inf))
        self.breaks[refuted] = np.minimum(self.breaks[refuted], level)

    def close(
        self, radius: Callable[[npt.NDArray[np.int64], float], FloatArray], deadline: float, known: bool = True
    ) -> None:
        """Looks for the exact levels of rows, only those `known` to break, a few at a time, until the deadline."""
        rows = np.flatnonzero((self.holds < self.breaks) & (np.isfinite(self.breaks) | (not known)))
        for start in range(0, len(rows), RADII_AT_ONCE):
            left = deadline - clock.now()
            if left <= 0:
                return
            some = rows[start : start + RADII_AT_ONCE]
            found = radius(some, left)
            some, found = some[~np.isnan(found)], found[~np.isnan(found)]
            self.holds[some] = self.breaks[some] = found


@dataclass(frozen=True, eq=False)
class _Sample:
    """Some rows of a result, asked about again with other words, and the time for that."""

    ensemble: Ensemble
    result: Verification
    numbers: npt.NDArray[np.int64]
    end: float
    """When all time is up, by the clock."""
    seconds: float
    n_jobs: int | None

    @classmethod
    def of(cls, ensemble: Ensemble, result: Verification, seconds: float, n_jobs: int | None) -> _Sample:
        """All rows, or a random sample, the same each time."""
        numbers = np.arange(len(result))
        if len(result) > MAX_ROWS:
            numbers = np.sort(np.random.default_rng(0).choice(len(result), MAX_ROWS, replace=False))
        return cls(ensemble, result, numbers, clock.now() + seconds, seconds, n_jobs)

    def ask(
        self, question: Callable[..., Any], rows: npt.NDArray[np.int64], left: float, *words: Any, **more: Any
    ) -> Any:
        """What `verify` or a radius says of some of the rows within the seconds that are left."""
        result, some = self.result, self.numbers[rows]
        return question(
            self.ensemble, result.X[some], result.y[some], *words, actors=result.actors, relations=result.relations,
            timeout=float(np.clip(4 * self.seconds / max(len(self.numbers), 1), *ROW_TIMEOUT)), max_seconds=left,
            n_jobs=self.n_jobs, **more,
        )  # fmt: skip

    def verify(self, rows: npt.NDArray[np.int64], *words: Any, **more: Any) -> Verification:
        """What is verified of some of the rows, while there is time for that."""
        left = max(0.0, self.end - self.seconds * 0.4 - clock.now())
        found: Verification = self.ask(verify, rows, left, *words, **more)
        return found


def measured_robustness(
    ensemble: Ensemble, attacker: Attacker, result: Verification, seconds: float, n_jobs: int | None
) -> Curve | str:
    """Robustness against the scale of the attacker's reach, or why there is no such curve."""
    threat = bind_valid(attacker, ensemble, result.relations)
    if moves_away(threat):
        return (
            "An interval of this attacker excludes 0: scaled up, it moves away, so more reach need not break more rows."
        )
    if not _has_scale(threat):
        return "The reach of this attacker is infinite, or 0, so there is no scale to vary."
    sample = _Sample.of(ensemble, result, seconds, n_jobs)
    correct = result.correct[sample.numbers]

    def ask(rows: npt.NDArray[np.int64], level: float) -> npt.NDArray[np.int8]:
        return sample.verify(rows, attacker.scaled(level)).stability

    def radius(rows: npt.NDArray[np.int64], left: float) -> FloatArray:
        return np.asarray(sample.ask(robustness_radius, rows, left, attacker))

    brackets = _Brackets(np.zeros(len(correct)), np.where(correct, np.inf, 0.0))
    brackets.learn(np.flatnonzero(correct), 1.0, result.stability[sample.numbers][correct])
    if refused_by_robustness(threat) is not None:
        brackets.halve(ask)
    elif attacker.power is None:
        brackets.halve(ask)
        brackets.close(radius, sample.end)
    else:
        brackets.close(radius, sample.end - seconds * 0.7, known=False)
        brackets.halve(ask)
    axis, unit = _reach_axis(attacker)
    return _curve(brackets, unit, axis, len(result))


def measured_resilience(
    ensemble: Ensemble, attacker: Attacker, result: Verification, seconds: float, n_jobs: int | None
) -> Curve | str:
    """Resilience against the scale of the neighbourhood asked for, or why there is no such curve."""
    if not result.epsilons:
        return "No neighbourhood (ε) was asked for, so resilience was not examined."
    numbers = [epsilon for epsilon in result.epsilons if isinstance(epsilon, float) and 0 < epsilon < np.inf]
    unit = max(numbers) if numbers else result.epsilons[0]
    spec = as_epsilon(unit)
    if not all(isinstance(value, float) for value in spec.values):
        return "The neighbourhood asked for names values of categories, which do not scale, so there is no curve."
    if not any(0 < value < np.inf for value in spec.values):
        return "The neighbourhood asked for is a single point, or everything, so there is no scale to vary."
    sizes = bind_valid_epsilon(unit, ensemble, bind_valid(attacker, ensemble, result.relations).relations).sizes
    sample = _Sample.of(ensemble, result, seconds, n_jobs)

    def ask(rows: npt.NDArray[np.int64], level: float) -> npt.NDArray[np.int8]:
        return sample.verify(rows, attacker, epsilon=(sizes * level).tolist()).resilience_by_epsilon[0]

    def radius(rows: npt.NDArray[np.int64], left: float) -> FloatArray:
        return np.asarray(sample.ask(resilience_radius, rows, left, attacker, epsilon=unit))

    # A row that is not robust is not resilient at any ε; one whose robustness is open may be either.
    robust = result.robustness_outcomes[sample.numbers]
    brackets = _Brackets(np.zeros(len(robust)), np.where(robust == Outcome.REFUTED, 0.0, np.inf))
    for epsilon, outcomes in zip(result.epsilons, result.resilience_by_epsilon, strict=True):
        level = 1.0 if epsilon == unit else epsilon / unit if numbers and isinstance(epsilon, float) else 0.0
        if level > 0:
            open_rows = np.flatnonzero(robust != Outcome.REFUTED)
            brackets.learn(open_rows, level, outcomes[sample.numbers][open_rows])
    brackets.halve(ask)
    if all(value < np.inf for value in spec.values):
        brackets.close(radius, sample.end)
    axis = "ε" if spec.shared else f"multiple of {names_of((unit,), None, result.feature_names)[0]}"
    return _curve(brackets, unit if spec.shared else 1.0, axis, len(result))


def _reach_axis(attacker: Attacker) -> tuple[str, float]:
    """What to call the axis, and what scale 1 means on it."""
    if attacker.power is not None:
        return f"radius of the attack (L{attacker.power} distance)", attacker.radius
    first = attacker.intervals.values[0]
    if isinstance(first, tuple) and len(set(attacker.intervals.values)) == 1 and np.isfinite(first[1] - first[0]):
        low, high = first
        if -low in (0.0, high) or high == 0:
            return "δ: how far a feature can be moved", max(high, -low)
    return "multiple of the attacker's reach", 1.0


def _has_scale(threat: Threat) -> bool:
    """Whether some feature moves by distances that can be multiplied."""
    intervals = [threat.moves_of(int(f)).interval for f in np.flatnonzero(threat.movable)]
    return any(ends is not None and ends[0] != ends[1] and np.isfinite(ends).all() for ends in intervals)


def _curve(brackets: _Brackets, unit: float, axis: str, of_rows: int) -> Curve:
    # Nothing is claimed from the far end on.
    holds, breaks = np.minimum(brackets.holds, FARTHEST), np.minimum(brackets.breaks, FARTHEST)
    levels = np.unique(np.concatenate(([0.0], holds, breaks)))
    levels = levels[levels < FARTHEST]
    gap = FARTHEST / STEPS
    exact = breaks <= np.nextafter(holds, np.inf)
    return Curve(
        levels=levels * unit,
        lower=(holds[None] > levels[:, None]).mean(axis=1),
        upper=(breaks[None] > levels[:, None]).mean(axis=1),
        end=FARTHEST * unit,
        asked=unit,
        axis=axis,
        rows=len(holds),
        of_rows=of_rows,
        exact_rows=int(exact.sum()),
        open_rows=int((~exact & (breaks - holds > gap * 1.001)).sum()),
        gap=gap * unit,
    )
