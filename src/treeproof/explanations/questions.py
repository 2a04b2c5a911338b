"""The one question behind all explanations: does a row keep its label if only some columns may change?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.explanations.bound import Bound
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.patience import in_time
from treeproof.results.verdicts import Outcome, differ
from treeproof.run import clock
from treeproof.run.limits import Limits, RowTime
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local
from treeproof.verification.valid_rows import Columns, ValidSearch


@dataclass(frozen=True, eq=False)
class Answer:
    """PROVED: the label holds; REFUTED: a row has another one; UNKNOWN: time is up."""

    outcome: Outcome
    changed: npt.NDArray[np.bool_] | None = None
    """The units that this row changes."""
    make: Callable[[], FloatArray] | None = None

    @cached_property
    def other(self) -> FloatArray | None:
        """The row with another label."""
        return None if self.make is None else self.make()


class Found(NamedTuple):
    """An explanation of a row: which units are in it, and what is known of it; see `results/explanations.py`."""

    units: npt.NDArray[np.bool_]
    outcome: Outcome
    minimal: bool
    other: FloatArray | None = None
    """Of a contrastive set, a row with another label that differs in these units only."""
    least: int = 0
    """Of a smallest set, and of a contrastive one: none has fewer units than this."""


class Questions:
    """Questions about the rows X of one model, against one attacker.

    >>> import treeproof as tp
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> model = tp.from_model(DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1]))
    >>> questions = Questions(model, tp.Attacker(tp.ANY).bind(model), np.zeros((1, 2)))
    >>> questions.ask(0, np.array([False, True])).outcome.name, questions.ask(0, np.array([True, False])).outcome.name
    ('PROVED', 'REFUTED')
    """

    def __init__(self, ensemble: Ensemble, threat: Threat, X: FloatArray, limits: Limits | None = None) -> None:
        self.ensemble, self.threat, self.X, self.limits = ensemble, threat, X, limits or Limits()
        self._labels = ensemble.predict_index(X)
        self.columns = Columns.of(ensemble, threat, X)
        """What the search works on: each unit is one of its columns."""
        grouped = self.columns.grouped
        self.units = tuple((f,) for f in range(ensemble.n_features)) if grouped is None else grouped.columns
        """What is free or frozen as one: the features of a column, or of a one-hot group."""
        self.is_content = np.isin(self._labels, threat.goal)
        """Which rows have a label that the attacker wants: nobody attacks them."""
        self._time: dict[int, RowTime] = {}
        self._share = 0.0
        """Of what it took to bind all rows, the seconds of each."""

    @cached_property
    def bound(self) -> Bound | None:
        """The same questions compiled; None where prices are only known to be at least so much, or bind."""
        if self.threat.power is not None:
            return None
        began, n = clock.at_work(), len(self.X)
        bind = partial(Bound, self.columns, self.columns.rows(self.X), self._labels, self.limits)
        bound = in_time(self.limits.for_rows(n), bind, None)
        self._share = (clock.at_work() - began) / n
        return None if bound is None or bound.is_poor else bound

    def ask(self, row: int, free: npt.NDArray[np.bool_], pull: npt.NDArray[np.int64] | None = None) -> Answer:
        """Does a row keep its label if the attacker may change no units but the `free` ones?

        If not, units of the counterexample are put back to what they were, in the order `pull`, while it stays one.
        """
        if self.is_content[row]:
            return Answer(Outcome.PROVED)  # nobody attacks a row that has a label he wants
        if not self.has_time(row):
            return Answer(Outcome.UNKNOWN)
        bound = self.bound
        if bound is not None:
            bound.set_free(row, free)
            outcome = bound.ask(row, partial(self.has_time, row))
            if outcome == Outcome.PROVED:
                return Answer(outcome)
            if outcome == Outcome.REFUTED and self._is_shown(row):
                if pull is not None and not self.columns.joint:
                    bound.pull_back(row, pull)
                return Answer(outcome, bound.changed(row), bound.other(row))
        return self.settle(row, free)

    def _is_shown(self, row: int) -> bool:
        """Whether the last compiled counterexample of a row is one: in reach, and valid, of which no cell may tell."""
        assert self.bound is not None
        valid = self.bound.is_possible(row)
        return valid and (not self.columns.joint or self.threat.relations.holds(self.bound.other(row)()))

    def drop(self, row: int, free: npt.NDArray[np.bool_], order: npt.NDArray[np.int64], first: int) -> int:
        """Frees units one after another, from a place of the order on, each if the row keeps its label without it.

        Returns the place of the first one that must be asked about by itself, if there is one.
        """
        if self.is_content[row]:
            free[order[first:]] = True
            return len(order)
        place = first
        while self.bound is not None and place < len(order) and self.has_time(row):
            trusted = not self.columns.joint
            place, outcome = self.bound.drop(row, free, order, place, trusted, partial(self.has_time, row))
            if place < len(order) and outcome == Outcome.REFUTED and self._is_shown(row):
                place += 1
            elif outcome != Outcome.PROVED:
                break
        return place

    def ask_after(self, row: int, free: npt.NDArray[np.bool_]) -> Answer:
        """The same as `ask` where `drop` has ended: what its loop could not tell, it would not tell again."""
        is_the_same = self.bound is not None and not self.bound.has_gaps
        return self.settle(row, free) if is_the_same and self.has_time(row) else self.ask(row, free)

    def settle(self, row: int, free: npt.NDArray[np.bool_]) -> Answer:
        """The same by all means of the search for one row."""
        return self.settle_against(row, self.columns.threat.freeze(np.flatnonzero(~free).tolist()))

    def settle_against(self, row: int, threat: Threat) -> Answer:
        """Does a row keep its label against another attacker on the columns of the search?"""
        limits = self._rest(row)
        if limits is None:
            return Answer(Outcome.UNKNOWN)
        one, columns = slice(row, row + 1), replace(self.columns, threat=threat)
        nowhere, labels = np.zeros(self.ensemble.n_features), self._labels[one]
        search = (
            ValidSearch(self.ensemble, self.threat, limits, columns=columns)
            if self.threat.relations
            else Local(self.ensemble, threat, limits)
        )
        found = search.decide(self.X[one], nowhere, labels)
        outcome = Outcome(int(found.outcome[0]))
        if outcome != Outcome.REFUTED:
            return Answer(outcome)
        other = found.attacked[0]
        moved = differ(other, self.X[row])
        return Answer(outcome, np.array([moved[list(unit)].any() for unit in self.units]), lambda: other)

    def has_time(self, row: int) -> bool:
        """Whether anything is left of the time for a row."""
        return self._rest(row) is not None

    def _rest(self, row: int) -> Limits | None:
        """The limits with what is left of the time for a row, from its first question on; None: nothing is."""
        if row not in self._time:
            _ = self.bound
            self._time[row] = self.limits.for_row(self._share)
        return self._time[row].rest()
