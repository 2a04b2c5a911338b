"""The cheapest attack on each row, proved cheapest."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, SoundnessError
from treeproof.model.columns import changed_frame, in_own_values
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.measures import missing_in_short
from treeproof.results.relation_words import broken_in_short
from treeproof.results.verdicts import Outcome, differ
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.watch import kept_after_ctrl_c
from treeproof.run.workers import in_groups, run_tasks
from treeproof.threat.attacker import COST_OF_1, Attacker, check_attacker
from treeproof.threat.reached import InVain
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Attacks
from treeproof.verification.request import Request
from treeproof.verification.rows import keeps_label
from treeproof.verification.valid_rows import search_for

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
    """(n,) how many values of the row are missing and stay so: the attacker cannot fill them in."""
    in_vain: InVain
    """The columns that no move brings to a threshold of the model, from any row."""
    broken_rows: npt.NDArray[np.bool_]
    """(n,) which rows break the relations themselves; their attacks end in rows that keep them, too."""

    def __repr__(self) -> str:
        n, found = len(self.price), int(np.isfinite(self.price).sum())
        text = f"{n} rows, {found} with an attack, {int(self.exact.sum())} proved"
        if found:
            text += f", median price {np.median(self.price[np.isfinite(self.price)]):.6g}"
        if self.missing.any():
            text += f"; {missing_in_short(int((self.missing > 0).sum()))}"
        if n and self.in_vain.unreached:
            text += f"; {len(self.in_vain.unreached)} movable columns reach no threshold"
        if self.broken_rows.any():
            text += f"; {broken_in_short(int(self.broken_rows.sum()))}"
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
    relations: Any = None,
) -> CheapestAttacks:
    """The cheapest way for the attacker to change each row's label, with a proof that there is no cheaper one.

    The attacker's intervals, domain and goal bind, and so do `relations`, as in `verify`; budgets and an Lp radius only
    with `within=True`. The price is the sum of costs, or the Lp norm, and inf where there is no attack: a row that has
    a label of the goal needs none. An attacker to whom every move is free (`Attacker.linf`) has no cheapest attack: ask
    for `robustness_radius`. `timeout` is for a row; `n_jobs` is as in `verify`.
    One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    >>> found = cheapest_attack(clf, [[0.0, 0.0], [0.75, 0.0]], tp.Attacker.lp(1, 0.25))
    >>> found.price.round(6).tolist(), found.exact.tolist(), found.label.tolist()
    ([0.5, 0.25], [True, True], [1, 0])
    """
    _refuse_free(check_attacker(attacker))
    if attacker.power is not None and not within and attacker.radius == 0:
        # The radius only matters within it, but 0 would mean that no feature can be touched.
        attacker = attacker.with_radius(1.0)
    asked = Request.unlabelled(model, X, attacker, voting, relations)
    check_jobs(n_jobs)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    groups = in_groups(len(asked.X), ROWS)
    threat = asked.threat if within else asked.threat.without_limits()
    tasks = [_Task(threat, asked.X[rows], within, limits) for rows in groups]
    n = len(asked.X)
    found = Attacks(np.full(n, Outcome.UNKNOWN, dtype=np.int8), asked.X.copy(), np.full(n, math.inf))
    with progress_bar(progress, len(asked.X)) as advance:

        def take(number: int, answer: Attacks) -> None:
            some = groups[number]
            found.outcome[some], found.attacked[some], found.price[some] = answer.outcome, answer.attacked, answer.price
            advance(len(some))

        # After Ctrl-C, what was found is kept. One task needs no workers.
        if len(tasks) == 1:
            take(0, kept_after_ctrl_c(lambda: _answer(asked.ensemble, tasks[0]), limits))
        else:
            run_tasks(_answer, asked.ensemble, tasks, limits, n_jobs, take)
    return _result(asked, threat, found)


def _refuse_free(attacker: Attacker) -> None:
    has_costs = attacker.costs != COST_OF_1 or attacker.blank or attacker.fill or attacker.rewrites or attacker.groups
    if attacker.power is None and attacker.budget is None and not has_costs:
        raise InvalidInput(
            "the attacker has no costs, budget or Lp radius: all its moves are free, and none is the cheapest",
            argument="attacker",
            way_out="ask for robustness_radius, or give it costs=, budget= or use Attacker.lp",
        )


def _answer(ensemble: Ensemble, task: _Task) -> Attacks:
    """The attacks on the rows of a task."""
    n = len(task.X)
    if task.limits.is_over() or task.limits.timeout == 0:
        return Attacks(np.full(n, Outcome.UNKNOWN, dtype=np.int8), task.X, np.full(n, math.inf))
    return search_for(ensemble, task.threat, task.limits).cheapest(task.X, task.within)


def _result(asked: Request, found_by: Threat, found: Attacks) -> CheapestAttacks:
    """The result, once every attack has been replayed on the source model."""
    rows = found.attacked
    moved = differ(rows, asked.X)
    attacked = np.flatnonzero(moved.any(axis=1))
    label = asked.ensemble.classes[asked.ensemble.predict_index(rows)]
    if len(attacked):
        same = attacked[keeps_label(asked.ensemble, asked.X[attacked], rows[attacked])]
        if len(same):
            raise SoundnessError(f"row {same[0]}: the attack that was found keeps the label; please report this")
    like_x = in_own_values(rows, asked.ensemble.categories)
    if asked.given is not None:
        like_x = changed_frame(asked.given, rows, moved, asked.ensemble.categories)
    missing = np.isnan(asked.X[:, ~found_by.fillable]).sum(axis=1)
    exact, in_vain = found.outcome == Outcome.PROVED, replace(asked, threat=found_by).moved_in_vain()
    broken = asked.threat.relations.broken(asked.X)
    return CheapestAttacks(found.price, like_x, exact, label, missing, in_vain, broken)
