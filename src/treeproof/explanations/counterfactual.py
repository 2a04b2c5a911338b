"""The cheapest change that gives a row a wanted label, proved cheapest; several that differ; and resilient ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput, disbelieved
from treeproof.explanations.finder import Change, Finder, changed_units, prices_of_change, total_price
from treeproof.explanations.resilient import ResilientFinder, refuse_sums
from treeproof.importers import as_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.patience import in_time
from treeproof.results.asked import units_of
from treeproof.results.counterfactuals import Counterfactual, Counterfactuals, Wanted
from treeproof.results.verdicts import Outcome
from treeproof.run import clock
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.progress import progress_bar
from treeproof.run.workers import in_groups, run_groups
from treeproof.threat.attacker import Attacker, check_attacker
from treeproof.threat.reached import InVain
from treeproof.threat.threat import Threat
from treeproof.verification.cheapest import who_pays
from treeproof.verification.request import Request, RowTask
from treeproof.verification.valid_rows import Columns

ROWS = 64
"""Rows per task: their searches are compiled code, and what Python adds is shared by all of them."""


@dataclass(frozen=True, eq=False)
class _Task(RowTask):
    """A few rows to change."""

    within: bool
    k: int
    sizes: FloatArray | None
    """ε for each feature; None: changes need not be resilient."""


def counterfactual(
    model: Any,
    X: Any,
    *,
    to: Any,
    attacker: Attacker,
    k: int = 1,
    epsilon: Any = None,
    within: bool = False,
    relations: Any = None,
    n_jobs: int | None = None,
    timeout: float | None = None,
    max_seconds: float | None = None,
    progress: bool = False,
    voting: Any = None,
) -> Counterfactuals:
    """The cheapest change of each row that gives it a wanted label, with a proof that there is no cheaper one.

    `to` is one label or several. For a wanted probability, give a model with that `threshold`: it has the label where
    the probability reaches it. What may change, in which steps and at what price is said by the `attacker`, who is the
    person asking here: intervals such as `(0, inf)` only go up, columns that are not named stay. Its intervals and
    domain bind, and so do `relations`; budgets and an Lp radius only with `within=True`. The price is the sum of costs,
    or the Lp norm; it is inf where no change gives a wanted label, which is proved then, too, and 0 for a row that has
    one already.

    With `k`, there are up to k - 1 `others` for each row: the next is the cheapest change that does not change all
    columns that one before it changes. With `epsilon`, changes are resilient: every valid row within ε of the changed
    one has a wanted label, too, with neighbours as in `verify`. `timeout` is for each change of a row; `n_jobs` is as
    in `verify`. One parameter per choice that users have.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], ["no", "yes"])
    >>> found = counterfactual(clf, [[0.0, 0.0], [0.75, 0.0]], to="yes", attacker=tp.Attacker.lp(1, 1))
    >>> found.price.round(6).tolist(), found[0].label, list(found[0].changes), found.exact.tolist()
    ([0.5, 0.0], 'yes', [0], [True, True])
    """
    began = clock.now()
    number = _number(k)
    check_jobs(n_jobs)
    limits = Limits.of(timeout=timeout, max_seconds=max_seconds)
    ensemble = as_ensemble(model, voting=voting)
    asked = _request(ensemble, X, to, attacker, within, relations)
    sizes = None
    if epsilon is not None:
        asked, (around,) = asked.with_neighbours([epsilon])
        refuse_sums(asked.threat)
        sizes = around.sizes
    threat = asked.threat if within else asked.threat.without_limits()
    groups = in_groups(len(asked.X), ROWS)
    tasks = [_Task(threat, limits, rows, asked.X[rows], asked.y[rows], within, number, sizes) for rows in groups]
    found: dict[int, list[Change]] = {}
    with progress_bar(progress, len(asked.X)) as advance, asked.told():

        def take(number: int, changes: list[list[Change]]) -> None:
            found.update(zip(groups[number].tolist(), changes, strict=True))
            advance(len(groups[number]))

        run_groups(_answer, asked.ensemble, tasks, limits, n_jobs, take)
    left = [row for row in range(len(asked.X)) if row not in found]
    found.update(zip(left, _unsearched(asked.ensemble, threat, asked.X[left], sizes) if left else [], strict=True))
    about = Wanted(
        *asked.about_model,
        tuple(asked.ensemble.classes[list(threat.goal)].tolist()),
        attacker,
        within,
        epsilon,
        threat.relations.given,
        number,
        replace(asked, attacker=attacker if within else attacker.without_limits).attacker_words,
    )
    with asked.told():
        result = _Result(asked, threat, [found[row] for row in range(len(asked.X))], holds=sizes is not None)
    return result.all(about, began, limits)


def _number(k: Any) -> int:
    """How many changes of a row are wanted."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise InvalidInput(
            f"k is how many changes of a row are wanted, a whole number of at least 1, got {k!r}",
            argument="k",
            way_out="k=1 asks for the cheapest alone",
        )
    return int(k)


def _request(ensemble: Ensemble, X: Any, to: Any, attacker: Any, within: bool, relations: Any) -> Request:
    """What the user asks, checked; the wanted labels are the attacker's goal."""
    if check_attacker(attacker).goal:
        raise InvalidInput(
            f"to={to!r} is what is wanted, and the attacker has a goal of its own, {list(attacker.goal)!r}",
            argument="to",
            way_out="leave goal= out",
        )
    attacker = who_pays(attacker, within, "give it costs= or a budget=, or use Attacker.lp")
    attacker = attacker.with_goal(_labels(to, ensemble))
    asked = Request.unlabelled(ensemble, X, attacker, None, relations)
    broken = asked.threat.relations.which_broken(asked.X) if asked.threat.relations else []
    if broken:
        row, relation = broken[0]
        raise InvalidInput(
            f"row {row} breaks the relation {str(relation)!r} itself; leave such rows, or the relation, out",
            argument="relations",
        )
    return asked


def _labels(to: Any, ensemble: Ensemble) -> tuple[Any, ...]:
    """The wanted labels, some of those that the model has."""
    known = ensemble.classes.tolist()
    given = to.tolist() if hasattr(to, "tolist") else to
    wanted = list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]
    names = ", ".join(map(repr, known))
    for label in wanted:
        if label not in known:
            raise InvalidInput(f"to names {label!r}, which is no label of the model; it has {names}", argument="to")
    if not wanted or set(wanted) == set(known):
        what = "every label of the model" if wanted else "no label"
        raise InvalidInput(f"to names {what}; it has {names}, so name some of them", argument="to")
    return tuple(label for label in known if label in wanted)


def _unsearched(ensemble: Ensemble, threat: Threat, X: FloatArray, sizes: FloatArray | None) -> list[list[Change]]:
    """What is known without a search: a row that has a wanted label needs no change, unless it must hold within ε."""
    needs_none = np.isin(ensemble.predict_index(X), threat.goal) & (sizes is None)
    none, unknown = (0.0, Outcome.PROVED, 0.0), (math.inf, Outcome.UNKNOWN, 0.0)
    return [[Change(x, *(none if has else unknown))] for x, has in zip(X, needs_none.tolist(), strict=True)]


def _answer(ensemble: Ensemble, task: _Task) -> list[list[Change]]:
    """The changes of the rows of a task: per row the cheapest, and the next ones."""
    if task.limits.is_over() or task.limits.timeout == 0:
        return _unsearched(ensemble, task.threat, task.X, task.sizes)
    asked = ensemble, task.threat, task.within, task.limits
    finder = Finder(*asked) if task.sizes is None else ResilientFinder(*asked, task.sizes)
    is_over = task.limits.for_rows(len(task.X) * task.k)
    changes, columns = finder.changes(task.X), Columns.of(ensemble, task.threat, task.X)
    found = [[first, *finder.others(x, first, task.k - 1)] for x, first in zip(task.X, changes, strict=True)]
    for row, some in enumerate(found):
        if not in_time(is_over, partial(_check_prices, task, columns, row, some), False):
            found[row] = _unsearched(ensemble, task.threat, task.X[[row]], task.sizes)[0]
    return found


def _check_prices(task: _Task, columns: Columns, row: int, changes: Sequence[Change]) -> bool:
    """SoundnessError unless the attacker can make these changes of a row at their prices, to valid rows; else True."""
    relations = task.threat.relations
    for change in changes:
        if math.isfinite(change.price):
            price = total_price(task.threat, prices_of_change(columns, task.X[row], change.row).values())
            if price != change.price or (relations and relations.broken(change.row[None])[0]):
                raise disbelieved(f"the change that was found costs {price!r}", [row])
    return True


class _Result:
    """The result, in the user's own values, once every change has been replayed on the source model."""

    def __init__(self, asked: Request, threat: Threat, found: Sequence[Sequence[Change]], holds: bool) -> None:
        self._asked, self._threat, self._found, self._holds = asked, threat, found, holds
        self._ensemble = asked.ensemble
        self._units = units_of(asked.ensemble, threat.relations)
        self._labels, self._own = self._replayed(), asked.like_given(asked.X)
        deepest = max(map(len, found), default=1)
        self._like_x = [self._in_own_values(rank) for rank in range(deepest)]

    def _replayed(self) -> dict[tuple[int, int], Any]:
        """The label of each changed row, by its number and rank, as the source model has it."""
        every = [(row, rank) for row, some in enumerate(self._found) for rank in range(len(some))]
        if not every:
            return {}
        labels = self._ensemble.source_labels(np.array([self._found[row][rank].row for row, rank in every]))
        wanted = set(self._ensemble.classes[list(self._threat.goal)].tolist())
        for (row, rank), label in zip(every, labels.tolist(), strict=True):
            change = self._found[row][rank]
            if math.isfinite(change.price) and label not in wanted:
                raise disbelieved(f"the change that was found gives it {label!r}", [row])
        return dict(zip(every, labels.tolist(), strict=True))

    def _in_own_values(self, rank: int) -> Any:
        """All rows after their changes of this rank, like X."""
        rows: FloatArray = self._asked.X.copy()
        for row, some in enumerate(self._found):
            if rank < len(some):
                rows[row] = some[rank].row
        return self._asked.like_given(rows)

    def all(self, about: Wanted, began: float, limits: Limits) -> Counterfactuals:
        """The counterfactuals of all rows."""
        X = self._asked.X
        missing: npt.NDArray[np.int64] = np.isnan(X[:, ~self._threat.fillable]).sum(axis=1)
        each = tuple(self._one(row, 0) for row in range(len(X)))
        in_vain = replace(self._asked, threat=self._threat).moved_in_vain(limits) or InVain()
        return Counterfactuals(each, self._like_x[0], about, missing, in_vain, clock.now() - began, limits.interrupted)

    def _one(self, row: int, rank: int) -> Counterfactual:
        """The counterfactual of a row with this rank; the first one has all others."""
        change, like_x = self._found[row][rank], self._like_x[rank]
        others = tuple(self._one(row, other) for other in range(1, len(self._found[row]))) if rank == 0 else ()
        return Counterfactual(
            row,
            like_x.iloc[[row]] if self._asked.given is not None else like_x[row],
            change.price,
            change.outcome,
            change.least,
            self._labels[row, rank],
            self._changes(row, rank),
            others,
            self._holds,
        )

    def _changes(self, row: int, rank: int) -> dict[str | int, tuple[Any, Any]]:
        """What changes in a row, by columns and groups."""
        before, after = self._asked.X[row], self._found[row][rank].row
        found: dict[str | int, tuple[Any, Any]] = {}
        for unit in [self._units[number] for number in changed_units(self._units, before, after)]:
            if unit.is_group:
                found[unit.name] = unit.value_in(before), unit.value_in(after)
            else:
                old, new = (self._value(rows, row, unit.features[0]) for rows in (self._own, self._like_x[rank]))
                found[unit.name] = old, new
        return found

    def _value(self, rows: Any, row: int, f: int) -> Any:
        """One value of rows like X, as Python has it."""
        value = rows[row, f] if self._asked.given is None else rows.iloc[row, f]
        return value.item() if isinstance(value, np.generic) else value
