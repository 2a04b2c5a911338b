"""The exact scale of an attack, or size of a neighbourhood, at which each row breaks, and the curve of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, counted, disbelieved
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray, double_at_least, double_at_most, root_at_most
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, run_tasks
from treeproof.threat.attacker import Attacker
from treeproof.threat.epsilon import as_epsilon, plain_epsilon
from treeproof.threat.one_hot import bind_valid_epsilon, with_neighbours
from treeproof.threat.threat import Threat
from treeproof.verification.radii.halving import Neighbourhoods, Reach
from treeproof.verification.radii.lowest import Found, lowest_levels
from treeproof.verification.radii.question import Level
from treeproof.verification.radii.resilience import Resilience
from treeproof.verification.radii.robustness import IntervalRobustness, LpRobustness
from treeproof.verification.request import Request, RowTask
from treeproof.verification.valid_rows import search_for

MAX_ENTRIES = 1_000_000
"""The largest number of rows times cells in one task, to bound its memory."""


def robustness_radius(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    actors: Any = None,
    relations: Any = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> FloatArray:
    """The largest scale of the attacker's reach that each row survives, exactly.

    Scale s multiplies the attacker's intervals, or its Lp radius; costs, budget and domain stay. So the intervals are
    the units: with `{"amount": (-100, 100), "age": (0, 1)}`, s means 100 s of amount either way and s of age up. For
    `Attacker.linf(1)`, `lp(1, 1)` and `lp(2, 1)` the radius is the minimal adversarial distance: the row is correct and
    stable at every scale below the exact radius, and broken at every scale above it. That is rarely a double; the
    result is the largest double that is not above it, at which the row may still be stable: with x = 0, a threshold of
    0.1 and moves of ± 0.1, the result is 1.0, and x is stable at 1.

    -inf marks a row with a wrong label, inf one that no scale breaks (or that nobody attacks, with `actors` as in
    `verify`, or since its label is the attacker's goal), and nan one that was not decided within `timeout` seconds, or
    after `max_seconds` in all. `n_jobs` and `relations` are as in `verify`. With
    relations, and with steps, values, rules or missing values, the radius is found by halving, which takes more
    searches; what has no interval is not scaled. An Lp attacker with any of these is refused. One parameter per choice
    that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> robustness_radius(clf, [[0.0], [0.75], [0.9]], [0, 1, 0], tp.Attacker.linf(1.0)).round(6).tolist()
    [0.5, 0.25, -inf]
    """
    asked = Request.of(model, X, y, attacker, voting, relations, actors)
    refused = refused_by_robustness(asked.threat)
    if refused is not None:
        raise InvalidInput(
            f"robustness_radius scales intervals or a radius, and this attacker has {refused}",
            argument="attacker",
            way_out="verify with attacker.scaled(s) decides one scale s, and cheapest_attack finds least prices",
        )
    _refuse_away(asked.threat, asked.ensemble)
    levels = exact_radii(asked, _robustness, n_jobs=n_jobs, timeout=timeout, max_seconds=max_seconds, progress=progress)
    power, radius = asked.threat.power, Fraction(asked.threat.radius)
    if power is None:
        return _as_doubles(levels, double_at_most)
    return _as_doubles(levels, lambda level: root_at_most(level, power, radius))


def resilience_radius(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    epsilon: Any = 1.0,
    actors: Any = None,
    relations: Any = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> FloatArray:
    """The supremum of the multiples of ε at which each row is resilient, exactly.

    `epsilon` is the unit, by default 1 for all features, so that the radius is an ε itself. It may be one number, one
    per feature, or `{"amount": 100, "age": 1}`: then r means neighbours within 100 r of amount and r of age, with all
    other values alike. Values of categories, as in `{"amount": 100, "purpose": tp.ANY}`, do not scale: at every
    multiple, and at 0, they may stand for each other. The row is resilient at every multiple below its exact radius,
    and at none above it. That may not be a double; the result is the largest double that is not above it.

    Attackers of every kind are taken, and `relations` as in `verify`. With these, and for attackers with steps, values,
    rules or missing values, the radius is found by halving, which takes more searches.

    -inf marks a row that is not robust (or not resilient with all distances 0, where ε names values), inf one that is
    resilient in every neighbourhood (or that nobody attacks, with `actors` as in `verify`), and nan one that was not
    decided within `timeout` seconds, or after `max_seconds` in all. `n_jobs` is as in
    `verify`. One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> resilience_radius(clf, [[0.0], [0.75], [0.9]], [0, 1, 0], tp.Attacker.linf(0.125)).round(6).tolist()
    [0.375, 0.125, -inf]
    >>> resilience_radius(clf, [[0.0]], [0], tp.Attacker.linf(0.125), epsilon={0: 0.25}).round(6).tolist()
    [1.5]
    """
    asked = Request.of(model, X, y, attacker, voting, relations, actors)
    asked, unit = _bind_unit(epsilon, asked)
    work = partial(_resilience, unit=unit)
    levels = exact_radii(asked, work, n_jobs=n_jobs, timeout=timeout, max_seconds=max_seconds, progress=progress)
    return _as_doubles(levels, double_at_most)


@dataclass(frozen=True, eq=False)
class ResilienceCurve:
    """Certified resilience as an exact step function of ε: the share of rows that are resilient at each ε.

    `resilience[i]` holds for the doubles ε from `epsilons[i]` up to, but not including, `epsilons[i + 1]`, the last
    entry for all above; where there is a `unit`, these are its multiples. A jump is at the first double at which a row
    is not resilient: its exact radius, rounded up. Rows that were not decided in time count as not resilient;
    `undecided` says how many there are.

    >>> curve = ResilienceCurve(np.array([0.0, 0.25]), np.array([0.75, 0.5]))
    >>> curve(0.1), curve([0.25, 3.0]).tolist()
    (0.75, [0.5, 0.5])
    """

    epsilons: FloatArray
    resilience: FloatArray
    undecided: int = 0
    unit: Any = 1.0
    """The neighbourhood whose multiples these are, as it was given."""

    def __call__(self, epsilon: npt.ArrayLike) -> Any:
        """The share of rows that are resilient at ε (times the unit); one number, or an array for an array."""
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
    epsilon: Any = 1.0,
    actors: Any = None,
    relations: Any = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> ResilienceCurve:
    """Certified resilience for every ε at once: what `verify(…, epsilon=ε)` finds, as a function of ε.

    With `epsilon`, as in `resilience_radius`, it is a function of the multiples of that neighbourhood. `actors` and
    `relations` are those of `verify`.
    One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> curve = resilience_curve(clf, [[0.0], [0.75]], [0, 1], tp.Attacker.linf(0.125))
    >>> curve(0.1), curve(0.2), curve(0.5)
    (1.0, 0.5, 0.0)
    """
    asked = Request.of(model, X, y, attacker, voting, relations, actors)
    if not len(asked.X):
        raise InvalidInput("X has no rows; a share of no rows is undefined")
    asked, unit = _bind_unit(epsilon, asked)
    work = partial(_resilience, unit=unit)
    levels = exact_radii(asked, work, n_jobs=n_jobs, timeout=timeout, max_seconds=max_seconds, progress=progress)
    firsts = _as_doubles(levels, double_at_least)
    finite = firsts[np.isfinite(firsts)]
    epsilons = np.unique(np.concatenate(([0.0], finite)))
    survivors = [int((firsts > epsilon).sum()) for epsilon in epsilons]
    shares, undecided = np.array(survivors) / len(levels), int(np.isnan(firsts).sum())
    return ResilienceCurve(epsilons, shares, undecided, plain_epsilon(epsilon))


def _bind_unit(epsilon: Any, asked: Request) -> tuple[Request, FloatArray]:
    """The request about neighbours, and the size for each feature of the unit; inf where it names values."""
    sizes = [size for size in as_epsilon(epsilon).values if isinstance(size, float)]
    around = bind_valid_epsilon(epsilon, asked.ensemble, asked.threat.relations)
    if not any(sizes) or math.inf in sizes:
        fixed = ", as values of categories do not scale" * bool(around.alike or around.groups)
        raise InvalidInput(
            f"epsilon is the unit of the radius: it must be finite, and not 0 everywhere{fixed}; got {epsilon!r}"
        )
    return replace(asked, threat=with_neighbours(asked.threat, [around], asked.ensemble)), around.sizes


def refused_by_robustness(threat: Threat) -> str | None:
    """What is about an attacker that `robustness_radius` does not take; None: it takes it."""
    if threat.power is not None:
        kind = threat.columns[0][1].kind if threat.columns else "relations" if threat.relations else None
        return None if kind is None else f"a radius and {kind}"
    for _, moves in threat.columns:
        ends = moves.interval
        if ends is not None and np.isfinite(ends).any() and (moves.rules or moves.costs is not None):
            return f"an interval and {moves.kind} in one column"
    members = [f for group in threat.relations.groups for f in group.features if threat.movable[f]]
    if np.isfinite(threat.low[members]).any() or np.isfinite(threat.high[members]).any():
        return "intervals for members of a one-hot group, which changes as a whole"
    return None


def moves_away(threat: Threat) -> dict[int, tuple[float, float]]:
    """The intervals that exclude 0, by feature: scaled up, they leave out what they held."""
    found = {f: threat.moves_of(f).interval for f in np.flatnonzero(threat.movable).tolist()}
    return {f: ends for f, ends in found.items() if ends is not None and (ends[0] > 0 or ends[1] < 0)}


def _refuse_away(threat: Threat, ensemble: Ensemble) -> None:
    for f, (low, high) in moves_away(threat).items():
        raise InvalidInput(
            f"the interval ({low}, {high}) of feature {ensemble.feature_name(f)} excludes 0: scaled"
            " up it moves away, so a row can break at one scale and survive a larger one; give intervals that contain 0"
        )


def _correct(ensemble: Ensemble, task: RowTask) -> npt.NDArray[np.int64]:
    """The rows with the right label; the others have radius -inf."""
    return np.flatnonzero(ensemble.predict_index(task.X) == task.y)


def _robustness(ensemble: Ensemble, task: RowTask) -> Found:
    correct = _correct(ensemble, task)
    # Nobody attacks a row that has a label he wants.
    content = np.isin(task.y[correct], task.threat.goal)
    rows = correct[~content]
    X = task.X[rows]
    with counted(rows):
        if task.limits.is_over():
            found = _undecided(X)
        elif task.threat.relations or task.threat.columns:
            found = Reach(ensemble, task.threat, X, task.limits).lowest_levels()
        elif task.threat.power is None:
            found = lowest_levels(IntervalRobustness(ensemble, task.threat, X, task.limits))
        else:
            found = LpRobustness(ensemble, task.threat, X, task.limits).lowest_levels()
    found = _spread(task, rows, found)
    for row in correct[content].tolist():
        found[0][row] = math.inf
    return found


def _resilience(ensemble: Ensemble, task: RowTask, unit: FloatArray) -> Found:
    rows = _correct(ensemble, task)
    threat, limits = task.threat, task.limits
    if limits.is_over():
        return _spread(task, rows, _undecided(task.X[rows]))
    # What does not scale belongs to every multiple, and to 0.
    fixed = np.where(np.isinf(unit), unit, 0.0)
    search = search_for(ensemble, threat, limits)
    stability = search.decide(task.X[rows], fixed).outcome
    stable, used = rows[stability == Outcome.PROVED], search.used[stability == Outcome.PROVED]
    X = task.X[stable]
    with counted(stable):
        if threat.relations or threat.columns:
            halving = Neighbourhoods(ensemble, threat, X, limits, unit)
            halving.used = used
            levels = halving.lowest_levels()
        else:
            question = Resilience(ensemble, threat, X, limits, unit)
            question.used = used
            levels = lowest_levels(question)
    found = _spread(task, stable, levels)
    for row in rows[stability == Outcome.UNKNOWN]:
        found[0][row] = math.nan
    return found


def _undecided(X: FloatArray) -> Found:
    """What is known of rows before any search."""
    return [math.nan] * len(X), X, X


def _spread(task: RowTask, rows: npt.NDArray[np.int64], found: Found) -> Found:
    """The answers for some rows, put in their positions among all; the others have radius -inf."""
    levels: list[Level] = [-math.inf] * len(task.X)
    neighbour, attacked = task.X.copy(), task.X.copy()
    neighbour[rows], attacked[rows] = found[1], found[2]
    for row, level in zip(rows, found[0], strict=True):
        levels[row] = level
    return levels, neighbour, attacked


def exact_radii(
    asked: Request,
    work: Callable[[Ensemble, RowTask], Found],
    *,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
) -> list[Level]:
    """The exact radius of every row, of the kind that `work` finds; replays counterexamples on the source model."""
    check_jobs(n_jobs)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    attacked = np.flatnonzero(asked.is_attacked)
    chunk = _chunk(len(attacked), int(asked.ensemble.grid.n_cells.sum()))
    groups = [attacked[rows] for rows in in_groups(len(attacked), chunk)]
    tasks = [RowTask(asked.threat, limits, rows, asked.X[rows], asked.y[rows]) for rows in groups]
    answers: dict[int, Found] = {}
    with progress_bar(progress, len(attacked)) as advance, asked.told():

        def take(number: int, answer: Found) -> None:
            answers[number] = answer
            advance(len(answer[0]))

        if run_tasks(work, asked.ensemble, tasks, limits, n_jobs, take):
            raise KeyboardInterrupt
    found = [answers[number] for number in range(len(tasks))]
    levels = [level for one in found for level in one[0]]
    with asked.told(), counted(attacked):
        _replay(asked.ensemble, levels, found)
    return levels if len(attacked) == len(asked.X) else _with_others(asked, attacked, levels)


def _with_others(asked: Request, attacked: npt.NDArray[np.int64], levels: list[Level]) -> list[Level]:
    """The radii of the attacked rows among those of all: nothing breaks the others, unless their label is wrong."""
    right = asked.ensemble.predict_index(asked.X) == asked.y
    everyone: list[Level] = np.where(right, math.inf, -math.inf).tolist()
    for row, level in zip(attacked.tolist(), levels, strict=True):
        everyone[row] = level
    return everyone


def _chunk(n: int, n_cells: int) -> int:
    """Rows per task: enough to search many at once, few enough to fit in memory and to give all workers some."""
    return int(np.clip(MAX_ENTRIES // n_cells, 1, np.clip(n // 8, 16, 256)))


def _replay(ensemble: Ensemble, levels: list[Level], found: list[Found]) -> None:
    """Replays every counterexample on the source model; one that does not flip it is a bug in treeproof."""
    finite = np.array([isinstance(level, Fraction) for level in levels], dtype=bool)
    if not finite.any():
        return
    neighbour, attacked = (np.concatenate([one[k] for one in found])[finite] for k in (1, 2))
    same = ensemble.source_labels(neighbour) == ensemble.source_labels(attacked)
    if same.any():
        raise disbelieved("the counterexample at its radius keeps the label", np.flatnonzero(finite)[same])


def _as_doubles(levels: list[Level], rounded: Callable[[Fraction], float]) -> FloatArray:
    return np.array([rounded(level) if isinstance(level, Fraction) else level for level in levels], dtype=np.float64)
