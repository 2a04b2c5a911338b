"""The cheapest attack on each row, proved cheapest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, SoundnessError
from treeproof.model.columns import changed_frame, in_own_values
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray, root_at_most
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.watch import kept_after_ctrl_c
from treeproof.run.workers import in_groups, run_tasks
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.reached import InVain
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local
from treeproof.verification.request import Request
from treeproof.verification.rows import keeps_label

ROWS = 64
"""Rows per task: their searches are compiled code, and what Python adds is shared by all of them."""


@dataclass(frozen=True, eq=False)
class CheapestAttacks:
    """Per row the cheapest attack that changes its label."""

    price: FloatArray
    """(n,) the Lp norm, or the sum of costs; inf: none was found."""
    rows: Any
    """The attacked rows, like X; a row without an attack is unchanged."""
    exact: npt.NDArray[np.bool_]
    """(n,) whether it is proved that nothing is cheaper, or that there is no attack; False: time was up before.

    Sums of costs are exact. Of Lp norms it is proved that none is smaller by more than one part in 10**12.
    """
    label: npt.NDArray[Any]
    """(n,) what the model predicts for the attacked rows."""
    missing: npt.NDArray[np.int64]
    """(n,) how many values of the row are missing: no attack moves them, and the proof is about the others."""
    in_vain: InVain
    """The columns that no move brings to a threshold of the model, from any row."""

    def __repr__(self) -> str:
        n, found = len(self.price), int(np.isfinite(self.price).sum())
        text = f"{n} rows, {found} with an attack, {int(self.exact.sum())} proved"
        if found:
            text += f", median price {np.median(self.price[np.isfinite(self.price)]):.6g}"
        if self.missing.any():
            text += f"; missing values in {int((self.missing > 0).sum())} rows stay missing"
        if n and self.in_vain.unreached:
            text += f"; {len(self.in_vain.unreached)} movable columns reach no threshold"
        return f"CheapestAttacks({text})"


@dataclass(frozen=True, eq=False)
class _Task:
    """A few rows; it travels to other processes, so it carries no model."""

    threat: Threat
    X: FloatArray
    within: bool
    limits: Limits


def cheapest_attack(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    *,
    within: bool = False,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> CheapestAttacks:
    """The cheapest way for the attacker to change each row's label, with a proof that there is no cheaper one.

    The attacker's intervals and domain bind; its budget or Lp radius only with `within=True`. The price is the sum of
    costs, or the Lp norm. Missing values are never moved. An attacker to whom every move is free (`Attacker.linf`) has
    no cheapest attack: ask for `robustness_radius`. `timeout` is for a row; `n_jobs` is as in `verify`.
    One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> found = cheapest_attack(clf, [[0.0, 0.0], [0.75, 0.0]], tp.Attacker.lp(1, 0.25))
    >>> found.price.round(6).tolist(), found.exact.tolist(), found.label.tolist()
    ([0.5, 0.25], [True, True], [1, 0])
    """
    _refuse_free(check_attacker(attacker))
    if attacker.power is not None and not within:
        # The radius only matters within it; 0 would mean that no feature can be touched.
        attacker = attacker.with_radius(1.0)
    asked = Request.unlabelled(model, X, attacker, voting)
    check_jobs(n_jobs)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    groups = in_groups(len(asked.X), ROWS)
    tasks = [_Task(asked.threat, asked.X[rows], within, limits) for rows in groups]
    outcome, rows = np.full(len(asked.X), Outcome.UNKNOWN, dtype=np.int8), asked.X.copy()
    with progress_bar(progress, len(asked.X)) as advance:

        def take(number: int, answer: tuple[npt.NDArray[np.int8], FloatArray]) -> None:
            outcome[groups[number]], rows[groups[number]] = answer
            advance(len(answer[0]))

        # After Ctrl-C, what was found is kept. One task needs no workers.
        if len(tasks) == 1:
            take(0, kept_after_ctrl_c(lambda: _answer(asked.ensemble, tasks[0]), limits))
        else:
            run_tasks(_answer, asked.ensemble, tasks, limits, n_jobs, take)
    return _result(asked, within, outcome, rows)


def _refuse_free(attacker: Attacker) -> None:
    if attacker.power is None and attacker.budget is None and set(attacker.costs.values) == {1}:
        raise InvalidInput(
            "the attacker has no costs, budget or Lp radius: all its moves are free, and none is the cheapest",
            argument="attacker",
            way_out="ask for robustness_radius, or give it costs=, budget= or use Attacker.lp",
        )


def _answer(ensemble: Ensemble, task: _Task) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Outcomes and attacked rows of a task."""
    local = Local(ensemble, task.threat, task.limits)
    if task.limits.is_over() or task.limits.timeout == 0:
        return np.full(len(task.X), Outcome.UNKNOWN, dtype=np.int8), task.X
    return local.cheapest(task.X, task.within)


def _result(asked: Request, within: bool, outcome: npt.NDArray[np.int8], rows: FloatArray) -> CheapestAttacks:
    """The result, once every attack has been priced with rational numbers and replayed on the source model."""
    moved = (rows != asked.X) & ~np.isnan(asked.X)
    attacked = np.flatnonzero(moved.any(axis=1))
    price = np.full(len(rows), math.inf)
    for row in attacked.tolist():
        features = np.flatnonzero(moved[row]).tolist()
        start, end = (X[row, features].tolist() for X in (asked.X, rows))
        price[row] = _price(asked.threat, within, row, list(zip(features, start, end, strict=True)))
    label = asked.ensemble.classes[asked.ensemble.predict_index(rows)]
    if len(attacked):
        same = attacked[keeps_label(asked.ensemble, asked.X[attacked], rows[attacked])]
        if len(same):
            raise SoundnessError(f"row {same[0]}: the attack that was found keeps the label; please report this")
    like_x = in_own_values(rows, asked.ensemble.categories)
    if asked.given is not None:
        like_x = changed_frame(asked.given, rows, moved, asked.ensemble.categories)
    missing = np.isnan(asked.X).sum(axis=1)
    return CheapestAttacks(price, like_x, outcome == Outcome.PROVED, label, missing, _in_vain(asked, within))


def _in_vain(asked: Request, within: bool) -> InVain:
    """The columns that the attacker moves in vain; without a radius, an Lp attacker brings columns anywhere."""
    if asked.threat.power is None or within:
        return asked.moved_in_vain()
    reach = np.where(asked.threat.movable, np.inf, 0.0)
    return replace(asked, threat=replace(asked.threat, low=-reach, high=reach)).moved_in_vain()


def _price(threat: Threat, within: bool, row: int, moves: list[tuple[int, float, float]]) -> float:
    """What moving features from one double to another costs; SoundnessError if the attacker cannot do it at all."""
    total = Fraction(0)
    fits = True
    for f, start, end in moves:
        fits &= bool(threat.domain_low[f] <= end <= threat.domain_high[f])
        if threat.power is None:
            fits &= threat.low[f] <= Fraction(end) - Fraction(start) <= threat.high[f]
            total += int(threat.cost[f])
        else:
            fits &= bool(threat.high[f] > 0)
            total += threat.price(f, start, end)
    if not fits or (within and total > threat.limit):
        raise SoundnessError(
            f"row {row}: an attack was found that the attacker cannot do: {moves!r}; please report this"
        )
    return float(total) if threat.power is None else root_at_most(total, threat.power)
