"""The exact scale of an attack, or size of a neighbourhood, at which each row breaks.

Both grow with one number. Every counterexample breaks the row from an exact, rational level on: the distance at which
its cells come within reach. So a hunt keeps the lowest level found, and ends when a search through everything
strictly below that level finds nothing: that level is the radius, proved from both sides. Rounded distances
to the cells only say which levels to try first, so that few counterexamples are needed.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.importers import as_ensemble
from treeproof.intervals import LARGEST, FloatArray, add_down, add_up, from_ordinal, next_down, next_up, ordinal
from treeproof.local import Limits, Local, cell_ends
from treeproof.moves import some_move
from treeproof.threat import Attacker, Threat
from treeproof.verdicts import Outcome
from treeproof.verify import _bar, _seconds, labels_of

Level: TypeAlias = Fraction | float
"""An exact radius; as a float only inf, -inf, or nan for a row that was not decided."""

MOST_ENTRIES = 1_000_000
"""Rows times cells that one task looks at, to bound its memory."""

QUICK = 0.2
"""Seconds for a try that only helps to find a good level; proofs have all the time they are given."""

CLOSE = 1e-3
"""Where costs add up, levels between two tried ones are tried too, until they differ by less than this share."""


def robustness_radius(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    n_jobs: int | None = 1,
    timeout: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> FloatArray:
    """Per row the largest scale of the attacker's reach that it survives, exactly.

    Scale s multiplies the attacker's intervals, or its Lp radius; costs, budget and domain stay. For
    `Attacker.linf(1)`, `lp(1, 1)` and `lp(2, 1)` the radius is the minimal adversarial distance: the row is correct and
    stable at every scale below it, and broken at it (just above it, where an end is infinite and the radius 0).
    The exact radius is rarely a double; the result is the largest double that is not above it.

    -inf is a row with a wrong label, inf one that no scale breaks, and nan one where a single search took more than
    `timeout` seconds.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> robustness_radius(clf, [[0.0], [0.75], [0.9]], [0, 1, 0], tp.Attacker.linf(1.0)).round(6).tolist()
    [0.5, 0.25, -inf]
    """
    task = _Task.of(model, X, y, attacker, voting, timeout, _robustness)
    _refuse_away(task.threat, task.ensemble)
    levels = _all_radii(task, n_jobs, progress)
    power, radius = task.threat.power, Fraction(task.threat.radius)
    if power is None:
        return np.array([_at_most(level) for level in levels], dtype=np.float64)
    return np.array([_root_at_most(level, power, radius) for level in levels], dtype=np.float64)


def resilience_radius(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    n_jobs: int | None = 1,
    timeout: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> FloatArray:
    """Per row the supremum of the ε for which it is resilient, one ε for all features, exactly.

    The row is resilient in the neighbourhood of every ε below its radius, and not at it. The exact radius may not be a
    double; the result is the largest double that is not above it.

    -inf is a row that is not robust, inf one that is resilient in every neighbourhood, and nan one where a single
    search took more than `timeout` seconds.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> resilience_radius(clf, [[0.0], [0.75], [0.9]], [0, 1, 0], tp.Attacker.linf(0.125)).round(6).tolist()
    [0.375, 0.125, -inf]
    """
    levels = _all_radii(_Task.of(model, X, y, attacker, voting, timeout, _resilience), n_jobs, progress)
    return np.array([_at_most(level) for level in levels], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ResilienceCurve:
    """Certified resilience as an exact step function of ε: the share of rows that are resilient at each ε.

    `resilience[i]` holds for the doubles ε from `epsilons[i]` up to, not including, `epsilons[i + 1]`, the last entry
    for all above. A jump is at the first double at which a row is not resilient: its exact radius, rounded up.
    Rows that were not decided in time count as not resilient; `undecided` says how many there are.

    >>> curve = ResilienceCurve(np.array([0.0, 0.25]), np.array([0.75, 0.5]))
    >>> curve(0.1), curve([0.25, 3.0]).tolist()
    (0.75, [0.5, 0.5])
    """

    epsilons: FloatArray
    resilience: FloatArray
    undecided: int = 0

    def __call__(self, epsilon: npt.ArrayLike) -> Any:
        """The share of rows that are resilient at ε; one number, or an array for an array."""
        asked = np.asarray(epsilon, dtype=np.float64)
        if not (asked >= 0).all():
            raise InvalidInput(f"epsilon must be at least 0, got {epsilon!r}")
        shares = self.resilience[np.searchsorted(self.epsilons, asked, side="right") - 1]
        return float(shares) if asked.ndim == 0 else shares


def resilience_curve(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    n_jobs: int | None = 1,
    timeout: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> ResilienceCurve:
    """Certified resilience for every ε at once: what `verify(…, epsilon=ε)` finds, as a function of ε.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> curve = resilience_curve(clf, [[0.0], [0.75]], [0, 1], tp.Attacker.linf(0.125))
    >>> curve(0.1), curve(0.2), curve(0.5)
    (1.0, 0.5, 0.0)
    """
    levels = _all_radii(_Task.of(model, X, y, attacker, voting, timeout, _resilience), n_jobs, progress)
    if not levels:
        raise InvalidInput("X has no rows; a share of none is undefined")
    firsts = np.array([_at_least(level) for level in levels], dtype=np.float64)
    finite = firsts[np.isfinite(firsts)]
    epsilons = np.unique(np.concatenate(([0.0], finite)))
    survivors = [int((firsts > epsilon).sum()) for epsilon in epsilons]
    return ResilienceCurve(epsilons, np.array(survivors) / len(levels), int(np.isnan(firsts).sum()))


# --- from rationals to doubles -----------------------------------------------------------------------------------


def _at_most(level: Level) -> float:
    """The largest double that is at most this number; -inf below all of them."""
    if isinstance(level, float):
        return level
    try:
        near = level.numerator / level.denominator
    except OverflowError:
        return LARGEST if level > 0 else -math.inf
    return math.nextafter(near, -math.inf) if Fraction(near) > level else near


def _at_least(level: Level) -> float:
    """The smallest double that is at least this number; inf above all of them."""
    return -_at_most(-level)


def _below(level: Fraction) -> float:
    """The largest double that is less than this number."""
    return math.nextafter(_at_least(level), -math.inf)


def _last_double(holds: Callable[[float], bool]) -> float:
    """The largest double from 0 on that holds, where 0 does and all up to some double do."""
    low, high = 0, int(ordinal(LARGEST)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(float(from_ordinal(middle))) else (low, middle)
    return float(from_ordinal(low))


def _root_at_most(level: Level, power: int, radius: Fraction = Fraction(1)) -> float:
    """The largest double s with `(s * radius) ** power <= level`."""
    if isinstance(level, float):
        return level
    return _last_double(lambda s: (Fraction(s) * radius) ** power <= level)


# --- what is asked -----------------------------------------------------------------------------------------------


class _Broken(NamedTuple):
    """A counterexample: from this level on, some neighbour in the cells of one row is moved to those of another."""

    level: Fraction
    neighbour: FloatArray
    attacked: FloatArray


Answers: TypeAlias = list[_Broken | Outcome]
"""Per row a counterexample, PROVED or UNKNOWN."""


class _Question(ABC):
    """What grows with the level, for a few rows. Subclasses say how far each row is searched."""

    costs_add_up = False
    """Whether rows break between the distances of single cells, because the costs of several add up."""

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        self.ensemble, self.threat, self.X = ensemble, threat, X
        self.local = Local(ensemble, threat, limits)
        grid = ensemble.grid
        self.start = np.concatenate(([0], np.cumsum(grid.n_cells)))
        self.feature = np.repeat(np.arange(ensemble.n_features), grid.n_cells)
        # The lowest and highest double of every cell; a cell outside the domain has none.
        first, last = cell_ends(ensemble)
        self.first = np.maximum(first, threat.domain_low[self.feature])
        self.last = np.minimum(last, threat.domain_high[self.feature])
        self.cells = grid.cells(X)

    @abstractmethod
    def hints(self) -> FloatArray:
        """Per row rounded levels worth a try, in any order; nan and inf are none."""

    def key(self, level: Fraction) -> float:
        """The level on the scale of the hints, roughly."""
        return _at_most(level)

    @abstractmethod
    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        """Searches up to about this value of the hints' scale."""

    @abstractmethod
    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        """Searches everything strictly below the levels."""

    @abstractmethod
    def anywhere(self, rows: Sequence[int]) -> Answers:
        """Searches all levels."""

    def quickly(self, ask: Callable[..., Answers]) -> Callable[..., Answers]:
        """The same question with little time per row."""

        def asked(*args: Any) -> Answers:
            limits = self.local.limits
            self.local.limits = dataclasses.replace(limits, timeout=min(QUICK, limits.timeout or QUICK))
            try:
                return ask(*args)
            finally:
                self.local.limits = limits

        return asked

    def ends(self, f: int, cell: int) -> tuple[float, float]:
        """The lowest and highest double of a cell inside the domain."""
        at = self.start[f] + cell
        return float(self.first[at]), float(self.last[at])

    def distances(self) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Per row and cell, rounded: how far the cell is, and whether it is above; inf where it has no double."""
        x = self.X[:, self.feature]
        with np.errstate(over="ignore"):
            away = np.maximum(np.maximum(self.first - x, x - self.last), 0.0)
        return np.where(self.first <= self.last, away, np.inf), self.first > x


class _IntervalRobustness(_Question):
    """Intervals times a scale: a cell comes within reach at its distance divided by the interval's end."""

    def hints(self) -> FloatArray:
        away, above = self.distances()
        end = np.where(above, self.threat.high[self.feature], -self.threat.low[self.feature])
        with np.errstate(all="ignore"):
            return np.asarray(away / end)

    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        x, threat = self.X[rows], self.threat
        with np.errstate(all="ignore"):
            scale = np.array(values)[:, None] * (1 + 2.0**-50)
            low = np.where(threat.low < 0, next_down(x + scale * threat.low), x)
            high = np.where(threat.high > 0, next_up(x + scale * threat.high), x)
        return self._search(rows, low, high)

    def anywhere(self, rows: Sequence[int]) -> Answers:
        x, threat = self.X[rows], self.threat
        return self._search(rows, np.where(threat.low < 0, -LARGEST, x), np.where(threat.high > 0, LARGEST, x))

    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        low = -self._strictly_within(rows, levels, -1)
        high = self._strictly_within(rows, levels, 1)
        answers = self._search(rows, low, high)
        # Level 0 is that of infinite ends: it is broken above, and there is nothing below.
        return [answer if level > 0 else Outcome.PROVED for answer, level in zip(answers, levels, strict=True)]

    def _strictly_within(self, rows: Sequence[int], levels: Sequence[Fraction], sign: int) -> FloatArray:
        """A double in the farthest cell (up, or mirrored for sign -1) that some scale below the level reaches."""
        x = sign * self.X[rows]
        end = self.threat.high if sign > 0 else -self.threat.low
        scale = np.array([_at_most(level) for level in levels])[:, None]
        with np.errstate(all="ignore"):
            moved = scale * end
            error = 2.0**-48 * (np.abs(x) + moved) + end * 2.0**-1060 + 1e-300
            reach = x + moved
            sure = self._cells(sign * (reach - error)) == self._cells(sign * (reach + error))
            sure &= np.isfinite(reach + error) & (x < reach - error)
        reach = np.where(np.isinf(end), LARGEST, np.where(end == 0, x, reach))
        for i, f in np.argwhere(~sure & np.isfinite(end) & (end > 0) & ~np.isnan(x)):
            reach[i, f] = max(_below(Fraction(float(x[i, f])) + levels[i] * Fraction(float(end[f]))), x[i, f])
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

    def _broken(self, row: int, cells: npt.NDArray[np.int32]) -> _Broken:
        level, attacked = Fraction(0), self.X[row].copy()
        for f, away in self.moved(row, self._pulled_back(row, cells), attacked):
            end = float(self.threat.high[f] if attacked[f] > self.X[row, f] else -self.threat.low[f])
            if math.isfinite(end):
                level = max(level, away / Fraction(end))
        return _Broken(level, self.X[row], attacked)

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
        """The counterexample with every feature as close to x as the others allow: a much cheaper one, often."""
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


class _LpRobustness(_IntervalRobustness):
    """An Lp radius times a scale; levels are exact costs, the sums of distance**p, hints are their roots."""

    costs_add_up = True

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        super().__init__(ensemble, threat, X, limits)
        self.touchable = threat.high > 0
        reach = np.where(self.touchable, np.inf, 0.0)
        cost = self.touchable.astype(np.int64)
        free = dataclasses.replace(threat, low=-reach, high=reach, cost=cost, budget=int(cost.sum()), power=None)
        self.unpriced = Local(ensemble, free, limits)

    def hints(self) -> FloatArray:
        # None: a search in all space finds something at once, and pulled back it is close to the best.
        return np.empty((len(self.X), 0))

    def key(self, level: Fraction) -> float:
        assert self.threat.power is not None
        return _root_at_most(level, self.threat.power)

    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
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
        answers: Answers = []
        for row in rows:
            status, cells = self.unpriced.search_within(self.X[[row]], self._ball(row, math.inf))
            answers.append(self._answer(row, status, cells))
        return answers

    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        return [self._below(row, level) for row, level in zip(rows, levels, strict=True)]

    def _below(self, row: int, level: Fraction) -> _Broken | Outcome:
        ball = self._ball(row, math.nextafter(self.key(level), math.inf))
        # Rounded prices can be a little too high or low in sum; the slack lets all cheaper ones pass.
        n = self.ensemble.n_features
        local, budget = self.local, _at_most(level) * (1 + (n + 8) * 2.0**-50)
        if not 2.0**-900 < budget < 2.0**900:
            # Powers of such distances are no normal doubles: take any counterexample, and weigh it here.
            local, budget = self.unpriced, float(n)
        too_dear = np.empty((0, n), dtype=np.int32)
        while True:
            status, cells = local.search_within(self.X[[row]], ball, budget, too_dear)
            answer = self._answer(row, status, cells)
            if not isinstance(answer, _Broken) or answer.level < level:
                return answer
            too_dear = np.concatenate((too_dear, cells))

    def _ball(self, row: int, radius: float) -> tuple[FloatArray, FloatArray]:
        """The box around the ball, inside the domain."""
        x, threat = self.X[[row]], self.threat
        reach = np.where(self.touchable, radius, 0.0)
        low, high = add_up(x, -reach), add_down(x, reach)
        return np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high)

    def _answer(self, row: int, status: npt.NDArray[np.int64], cells: npt.NDArray[np.int32]) -> _Broken | Outcome:
        return self._broken(row, cells[0]) if status[0] == Outcome.REFUTED else Outcome(int(status[0]))

    def _broken(self, row: int, cells: npt.NDArray[np.int32]) -> _Broken:
        attacked = self.X[row].copy()
        cells = self._pulled_back(row, cells)
        moves = self.moved(row, cells, attacked)
        level = sum((away**self.threat.power for _, away in moves), Fraction(0))  # type: ignore[operator]
        return _Broken(level, self.X[row], attacked)


class _Resilience(_Question):
    """Neighbourhoods of size ε: a pair of cells counts from the nearest neighbour on that can be moved so."""

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits) -> None:
        super().__init__(ensemble, threat, X, limits)
        self.costs_add_up = threat.power is not None

    def hints(self) -> FloatArray:
        away, _ = self.distances()
        x, low, high = self.X[:, self.feature], self.threat.low[self.feature], self.threat.high[self.feature]
        with np.errstate(all="ignore"):
            from_afar = np.maximum(self.first - high - x, x - (self.last - low))
        return np.concatenate((away, np.where(np.isinf(away), np.inf, from_afar)), axis=1)

    def around(self, rows: Sequence[int], values: Sequence[float]) -> Answers:
        with np.errstate(over="ignore"):
            epsilon = next_up(np.array(values)[:, None] * (1 + 2.0**-50))
        return self._decide(rows, *self.threat.neighbourhood(self.X[rows], epsilon))

    def anywhere(self, rows: Sequence[int]) -> Answers:
        return self._decide(rows, *self.threat.neighbourhood(self.X[rows], np.array([np.inf])))

    def below(self, rows: Sequence[int], levels: Sequence[Fraction]) -> Answers:
        x, threat = self.X[rows], self.threat
        low, high = -_strictly_above(-x, levels), _strictly_above(x, levels)
        return self._decide(rows, np.maximum(low, threat.domain_low), np.minimum(high, threat.domain_high))

    def _decide(self, rows: Sequence[int], low: FloatArray, high: FloatArray) -> Answers:
        decided = self.local.decide_boxes(self.X[rows], low, high)
        return [
            self._broken(row, decided.neighbour[i], decided.attacked[i])
            if decided.outcome[i] == Outcome.REFUTED
            else Outcome(int(decided.outcome[i]))
            for i, row in enumerate(rows)
        ]

    def _broken(self, row: int, neighbour: FloatArray, attacked: FloatArray) -> _Broken:
        pair = self.ensemble.grid.cells(np.stack((neighbour, attacked)))
        changed = np.flatnonzero((pair != self.cells[row]).any(axis=0)).tolist()
        cells = {f: (int(pair[0, f]), int(pair[1, f])) for f in changed}
        if self.threat.power is None:
            nearest = [self._nearest(row, f, *cells[f], float(neighbour[f])) for f in changed]
            level = max(nearest, default=Fraction(0))
        else:
            level = self._nearest_in_all(row, cells, neighbour)
        return _Broken(level, neighbour, attacked)

    def _nearest(self, row: int, f: int, start: int, end: int, known: float) -> Fraction:
        """How far from x_f the nearest double of cell `start` is that the attacker can move to cell `end`."""
        x, box = float(self.X[row, f]), self.ends(f, start)
        if start != end:
            goal, interval = self.ends(f, end), (float(self.threat.low[f]), float(self.threat.high[f]))
            # A move out of the box must start here; inside, an interval with 0 leads to the goal from anywhere.
            box = (
                max(box[0], float(add_up(goal[0], -interval[1]))),
                min(box[1], float(add_down(goal[1], -interval[0]))),
            )
            z = min(max(x, box[0]), box[1])
            if some_move((z, z), goal, interval) is None:
                return self._nearest_by_halving(x, box, goal, interval, known)
        return abs(Fraction(min(max(x, box[0]), box[1])) - Fraction(x))

    def _nearest_by_halving(
        self,
        x: float,
        box: tuple[float, float],
        goal: tuple[float, float],
        interval: tuple[float, float],
        known: float,
    ) -> Fraction:
        """The same for an interval so narrow that it misses the goal from some doubles of the box."""
        best = abs(Fraction(known) - Fraction(x))
        nearest = min(max(x, box[0]), box[1])
        for far in box:
            if far == nearest or some_move((min(nearest, far), max(nearest, far)), goal, interval) is None:
                continue
            # The doubles from `nearest` to the one with ordinal `out` hold a start, those up to `into` do not.
            into, out = int(ordinal(nearest)), int(ordinal(far))
            while abs(out - into) > 1:
                middle = (into + out) // 2
                z = float(from_ordinal(middle))
                found = some_move((min(nearest, z), max(nearest, z)), goal, interval) is not None
                into, out = (into, middle) if found else (middle, out)
            best = min(best, abs(Fraction(float(from_ordinal(out))) - Fraction(x)))
        return best

    def _nearest_in_all(self, row: int, cells: dict[int, tuple[int, int]], neighbour: FloatArray) -> Fraction:
        """The least ε at which an Lp attacker can afford to move from these cells to those, feature by feature."""
        x = self.X[row]
        power = self.threat.power
        assert power is not None
        least = known = Fraction(0)
        paid: list[_Approach] = []
        for f, (start, end) in cells.items():
            at, box = float(x[f]), self.ends(f, start)
            least = max(least, abs(Fraction(min(max(at, box[0]), box[1])) - Fraction(at)))
            known = max(known, abs(Fraction(float(neighbour[f])) - Fraction(at)))
            if end > start:
                paid.append(_Approach(at, box[1], self.ends(f, end)[0]))
            elif end < start:
                paid.append(_Approach(-at, -box[0], -self.ends(f, end)[1]))
        budget = Fraction(self.threat.radius) ** power

        def affordable(epsilon: Fraction) -> bool:
            return sum(approach.gap(epsilon) ** power for approach in paid) <= budget

        if affordable(least):
            return least
        # Costs change where one more double of some feature becomes a neighbour.
        while True:
            between = [(approach.between(least, known), approach) for approach in paid]
            (first, last), approach = max(between, key=lambda entry: entry[0][1] - entry[0][0])
            if first > last:
                return known
            middle = Fraction(float(from_ordinal((first + last) // 2))) - Fraction(approach.x)
            least, known = (least, middle) if affordable(middle) else (middle, known)


@dataclass(frozen=True)
class _Approach:
    """One feature of a move upwards: neighbours z of x, at most `last`, are moved to `goal` above."""

    x: float
    last: float
    goal: float

    def gap(self, epsilon: Fraction) -> Fraction:
        """How far the highest neighbour is from the goal."""
        return Fraction(self.goal) - Fraction(min(self.last, _at_most(Fraction(self.x) + epsilon)))

    def between(self, least: Fraction, known: Fraction) -> tuple[int, int]:
        """The ordinals of the first and the last double that is a neighbour for some ε strictly between."""
        first = int(ordinal(_at_most(Fraction(self.x) + least))) + 1
        return first, int(ordinal(min(self.last, _below(Fraction(self.x) + known))))


def _strictly_above(X: FloatArray, levels: Sequence[Fraction]) -> FloatArray:
    """Per row the highest double that is less than X + level, in every entry."""
    down = np.array([_at_most(level) for level in levels])[:, None]
    up = np.array([_at_least(level) for level in levels])[:, None]
    most = next_down(add_up(X, up))
    least = np.where(down == up, most, add_down(X, down))
    for i, f in np.argwhere((most != least) & ~np.isnan(X)):
        most[i, f] = _below(Fraction(float(X[i, f])) + levels[i])
    return most


# --- the hunt for the lowest level -------------------------------------------------------------------------------


@dataclass
class _Hunt:
    """One row: the hints still worth a try are those from `first` up to, not including, `last`."""

    hints: FloatArray
    first: int
    last: int
    proved: float = 0.0
    found: _Broken | None = None
    found_key: float = math.inf
    tried: int | None = None

    def next_value(self, costs_add_up: bool) -> float | None:
        """What to try next; None if only a search through everything (below the level found) is left."""
        self.tried = None
        if self.first < self.last:
            # Before the first counterexample small steps, since large neighbourhoods can be hard to search.
            ahead = 4 * self.first + 3 if self.found is None else (self.first + self.last) // 2
            self.tried = min(ahead, self.last - 1)
            return float(self.hints[self.tried])
        if costs_add_up and self.found is not None and self.found_key - self.proved > CLOSE * self.found_key:
            middle = self.proved + (self.found_key - self.proved) / 2
            return middle if self.proved < middle < self.found_key else None
        return None

    def unsure(self) -> None:
        """A try that took too long says nothing; look lower, or else for any counterexample first."""
        self.last = self.first if self.found is None or self.tried is None else self.tried
        if self.tried is None:
            self.proved = self.found_key

    def survived(self, value: float) -> None:
        self.proved = value
        if self.tried is not None:
            self.first = self.tried + 1

    def broke(self, broken: _Broken, key: float, value: float) -> None:
        if self.tried is not None:
            self.last = min(self.last, self.tried)
        if key > value:
            # Rounding let a farther one pass; do not ask the same again.
            self.proved = max(self.proved, value)
        if self.found is None or broken.level < self.found.level:
            self.found, self.found_key = broken, key
            self.last = min(self.last, int(np.searchsorted(self.hints, key)))


def _hunt(question: _Question) -> tuple[list[Level], FloatArray, FloatArray]:
    """Per row the exact level at which it breaks, and the counterexample there."""
    n = len(question.X)
    levels: list[Level] = [math.nan] * n
    neighbour, attacked = question.X.copy(), question.X.copy()
    hunts: dict[int, _Hunt] = {}
    for row, hints in enumerate(question.hints()):
        useful = np.unique(hints[np.isfinite(hints) & (hints > 0)])
        hunts[row] = _Hunt(useful, 0, len(useful))
    while hunts:
        values = {row: hunt.next_value(question.costs_add_up) for row, hunt in hunts.items()}
        some = [row for row, value in values.items() if value is not None]
        for row, answer in _asked(question.quickly(question.around), some, [values[row] for row in some]):
            if isinstance(answer, _Broken):
                hunts[row].broke(answer, question.key(answer.level), values[row])  # type: ignore[arg-type]
            elif answer == Outcome.PROVED:
                hunts[row].survived(values[row])  # type: ignore[arg-type]
            else:
                hunts[row].unsure()
        last = {row: hunts[row].found for row, value in values.items() if value is None}
        unbroken = [row for row, found in last.items() if found is None]
        broken = {row: found for row, found in last.items() if found is not None}
        answers = _asked(question.anywhere, unbroken)
        answers += _asked(question.below, list(broken), [found.level for found in broken.values()])
        for row, answer in answers:
            found = last[row]
            if isinstance(answer, _Broken):
                if found is not None and answer.level >= found.level:
                    raise SoundnessError(f"a search below {found.level} found {answer}; please report this")
                hunts[row].broke(answer, question.key(answer.level), math.inf)
                continue
            if answer == Outcome.PROVED:
                levels[row] = math.inf if found is None else found.level
                if found is not None:
                    neighbour[row], attacked[row] = found.neighbour, found.attacked
            del hunts[row]
    return levels, neighbour, attacked


def _asked(ask: Callable[..., Answers], rows: list[int], *more: Any) -> list[tuple[int, _Broken | Outcome]]:
    return list(zip(rows, ask(rows, *more), strict=True)) if rows else []


# --- test sets ---------------------------------------------------------------------------------------------------


Found: TypeAlias = tuple[list[Level], FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class _Task:
    """Rows to find the radii of; its parts travel to other processes."""

    ensemble: Ensemble
    threat: Threat
    X: FloatArray
    y: npt.NDArray[np.int64]
    limits: Limits
    solve: Callable[[_Task], Found]

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any, attacker: Any, voting: Any, timeout: Any, solve: Callable[[_Task], Found]
    ) -> _Task:
        """The task as the user states it, checked."""
        ensemble = as_ensemble(model, voting=voting)
        if not isinstance(attacker, Attacker):
            raise InvalidInput(f"attacker must be a treeproof.Attacker, got {type(attacker).__name__}")
        rows, labels = ensemble.check_rows(X), ensemble.class_index(y)
        if len(labels) != len(rows):
            raise InvalidInput(f"X has {len(rows)} rows and y has {len(labels)} labels; one per row each")
        threat = attacker.bind(ensemble)
        threat.check_domain(rows, ensemble)
        return cls(ensemble, threat, rows, labels, Limits(_seconds(timeout, "timeout")), solve)

    def parts(self) -> list[_Task]:
        """The rows in groups, without the source model."""
        light = dataclasses.replace(self.ensemble, source=None)
        n_cells = int(self.ensemble.grid.n_cells.sum())
        size = int(np.clip(MOST_ENTRIES // n_cells, 1, np.clip(len(self.X) // 8, 16, 256)))
        groups = np.split(np.arange(len(self.X)), np.arange(size, len(self.X), size))
        return [
            dataclasses.replace(self, ensemble=light, X=self.X[rows], y=self.y[rows]) for rows in groups if len(rows)
        ]

    def run(self) -> Found:
        return self.solve(self)

    def correct(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.ensemble.predict_index(self.X) == self.y)


def _refuse_away(threat: Threat, ensemble: Ensemble) -> None:
    away = (threat.low > 0) | (threat.high < 0)
    if away.any():
        f = int(np.argmax(away))
        raise InvalidInput(
            f"the interval ({threat.low[f]}, {threat.high[f]}) of feature {ensemble.feature_name(f)} excludes 0: scaled"
            " up it moves away, so a row can break at one scale and survive a larger one; give intervals that hold 0"
        )


def _robustness(task: _Task) -> Found:
    rows = task.correct()
    kind = _IntervalRobustness if task.threat.power is None else _LpRobustness
    return _spread(task, rows, _hunt(kind(task.ensemble, task.threat, task.X[rows], task.limits)))


def _resilience(task: _Task) -> Found:
    rows = task.correct()
    local = Local(task.ensemble, task.threat, task.limits)
    stability = local.decide(task.X[rows], np.zeros(task.ensemble.n_features)).outcome
    stable = rows[stability == Outcome.PROVED]
    found = _spread(task, stable, _hunt(_Resilience(task.ensemble, task.threat, task.X[stable], task.limits)))
    for row in rows[stability == Outcome.UNKNOWN]:
        found[0][row] = math.nan
    return found


def _spread(task: _Task, rows: npt.NDArray[np.int64], found: Found) -> Found:
    """The answers for some rows put in their places among all; the others have radius -inf."""
    levels: list[Level] = [-math.inf] * len(task.X)
    neighbour, attacked = task.X.copy(), task.X.copy()
    neighbour[rows], attacked[rows] = found[1], found[2]
    for row, level in zip(rows, found[0], strict=True):
        levels[row] = level
    return levels, neighbour, attacked


def _all_radii(task: _Task, n_jobs: int | None, progress: bool) -> list[Level]:
    """The exact radius of every row; counterexamples are replayed on the source model."""
    from joblib import Parallel, delayed

    parts = task.parts()
    found: list[Found] = []
    try:
        with _bar(progress, len(task.X)) as advance:
            parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator", batch_size=1)
            for one in parallel(delayed(part.run)() for part in parts) if parts else ():
                found.append(one)
                advance(len(one[0]))
    except KeyboardInterrupt:
        task.limits.cancelled.set()
        raise
    levels = [level for one in found for level in one[0]]
    finite = np.array([isinstance(level, Fraction) for level in levels], dtype=bool)
    if finite.any():
        neighbour, attacked = (np.concatenate([one[k] for one in found])[finite] for k in (1, 2))
        same = labels_of(task.ensemble, neighbour) == labels_of(task.ensemble, attacked)
        if same.any():
            row = int(np.flatnonzero(finite)[np.argmax(same)])
            raise SoundnessError(f"row {row}: the counterexample at its radius keeps the label; please report this")
    return levels
