"""Smallest sets of columns: those that are enough for a label, and those whose change is enough for another one.

A set is enough for the label (sufficient) iff it hits every set of columns whose change can flip it (contrastive), and
the other way round. So candidates for the one are the smallest sets that hit all known ones of the other kind. A
candidate that fails yields another set to hit; the first that does not is proved to be a smallest one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.errors import SoundnessError
from treeproof.explanations.hitting import HittingSets
from treeproof.explanations.questions import Found, Questions
from treeproof.explanations.reasons import reason
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome, differ
from treeproof.threat.threat import Threat
from treeproof.verification.valid_rows import Columns, search_for

Units: TypeAlias = npt.NDArray[np.bool_]
"""(n_units,): which are in a set."""

Order: TypeAlias = npt.NDArray[np.int64]
"""The numbers of all units, in some order."""


def smallest(questions: Questions, row: int, order: Order) -> Found:
    """As few units as are enough for the label of a row; units are dropped in this order to begin with.

    If time is up before that is proved, what comes back is enough, but there may be less that is.
    """
    is_over = _clock(questions)
    best = reason(questions, row, order).units
    hitting = HittingSets(np.ones(len(best), dtype=np.int64))
    while (candidate := hitting.propose(is_over, below=int(best.sum()))) is not None:
        answer = questions.ask(row, ~candidate)
        if answer.outcome == Outcome.PROVED:
            best = candidate
        elif answer.other is not None:
            for changed in _contrastive_sets(questions, row, answer.other, hitting.sums):
                hitting.add(changed)
        else:
            break
    return Found(best, Outcome.PROVED, hitting.least >= best.sum(), least=min(hitting.least, int(best.sum())))


def contrastive(questions: Questions, row: int, order: Order) -> Found:
    """As few units as can give a row another label if only they change, and such a row; none if nothing can.

    UNKNOWN if time was up before any were found.
    """
    threat = Columns.of(questions.ensemble, questions.threat, questions.X[row : row + 1]).threat
    return _cheapest(questions, row) if _counts_columns(threat) else _hits_reasons(questions, row, order)


def _clock(questions: Questions) -> Callable[[], bool]:
    """Whether the time for a row is up that begins now."""
    limits, began = questions.limits, time.monotonic()
    late = np.inf if limits.timeout is None else began + limits.timeout
    return lambda: limits.is_over() or time.monotonic() >= late


def changed_units(questions: Questions, row: int, other: FloatArray) -> Units:
    """The units where another row differs from one of the rows."""
    changed = differ(questions.X[row], other)
    return np.array([changed[list(features)].any() for features in questions.units])


def _contrastive_sets(
    questions: Questions, row: int, other: FloatArray, sums: npt.NDArray[np.int64]
) -> Iterator[Units]:
    """Units whose change is shown to flip by a counterexample after needless changes are undone: one or two sets.

    Changes of units that are in many sets already (`sums`) are undone first, and for a second set those of the first.
    """
    first = changed_units(questions, row, _undone(questions, row, other, np.argsort(-sums, kind="stable")))
    yield first
    order = np.lexsort((-sums, ~first))
    second = changed_units(questions, row, _undone(questions, row, other, order))
    if not np.array_equal(first, second):
        yield second


def _undone(questions: Questions, row: int, other: FloatArray, order: Order) -> FloatArray:
    """A counterexample after changes of units, in this order, are undone wherever it is one without them, too."""
    x, changed = questions.X[row], changed_units(questions, row, other)
    left = [list(questions.units[unit]) for unit in order if changed[unit]]
    while left:
        # Row j has the changes of the first j + 1 units undone.
        tried = np.repeat(other[None], len(left), axis=0)
        for j, features in enumerate(left):
            tried[j:, features] = x[features]
        works = np.flatnonzero(flips(questions, row, tried))
        n = 0
        if len(works):
            n = int(works[-1]) + 1
            other = tried[n - 1]
        left = left[n + 1 :]
    return other


def flips(questions: Questions, row: int, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Which rows have another label than one of the rows, one that is wanted, and are valid."""
    threat = questions.threat
    labels = questions.ensemble.class_of_doubles(others)
    flipped = np.isin(labels, threat.goal) if threat.goal else labels != questions.labels[row]
    return np.asarray(flipped & ~threat.relations.broken(others) if threat.relations else flipped)


def _counts_columns(threat: Threat) -> bool:
    """Whether the price of an attack is the number of columns that it changes."""
    if threat.power is not None or not threat.is_flat:
        return False
    movable = threat.movable | threat.fillable
    own = [moves.cost for f, moves in threat.columns if movable[f]]
    return bool((threat.cost[movable] == 1).all() and all(cost == 1 for cost in own))


def _cheapest(questions: Questions, row: int) -> Found:
    """A contrastive set by the search for a cheapest attack, where each column costs 1."""
    one = questions.X[row : row + 1]
    found = search_for(questions.ensemble, questions.threat, questions.limits).cheapest(one, within=True)
    is_proved, other = found.outcome[0] == Outcome.PROVED, found.attacked[0]
    if np.isinf(found.price[0]):
        nothing = np.zeros(len(questions.units), dtype=bool)
        return Found(nothing, Outcome.PROVED if is_proved else Outcome.UNKNOWN, bool(is_proved))
    changed = changed_units(questions, row, other)
    if changed.sum() != found.price[0] or not flips(questions, row, found.attacked)[0]:
        raise SoundnessError(
            f"row {row}: a change of {int(changed.sum())} columns was found at a price of {found.price[0]:g}; "
            "please report this"
        )
    least = int(changed.sum()) if is_proved else 1
    return Found(changed, Outcome.PROVED, bool(is_proved), other, least)


def _hits_reasons(questions: Questions, row: int, order: Order) -> Found:
    """A contrastive set as a smallest one that hits all reasons."""
    n, is_over = len(questions.units), _clock(questions)
    hitting, nothing = HittingSets(np.ones(n, dtype=np.int64)), np.zeros(n, dtype=bool)
    best, other = np.ones(n, dtype=bool), None
    while (candidate := hitting.propose(is_over, below=n + 1)) is not None:
        answer = questions.ask(row, candidate)
        if answer.other is not None:
            changed = changed_units(questions, row, answer.other)
            return Found(changed, Outcome.PROVED, True, answer.other, int(changed.sum()))
        if answer.outcome == Outcome.UNKNOWN:
            break
        # Units that are in many reasons are freed first, so that the next one has others.
        free = candidate.copy()
        for unit in sorted(order.tolist(), key=lambda unit: -hitting.sums[unit]):
            if not free[unit]:
                free[unit] = True
                answer = questions.ask(row, free)
                free[unit] = answer.outcome == Outcome.PROVED
                if answer.other is not None and (changed := changed_units(questions, row, answer.other)).sum() < best.sum():
                    best, other = changed, answer.other
        if free.all():
            return Found(nothing, Outcome.PROVED, True)
        hitting.add(~free)
    if other is None:
        return Found(nothing, Outcome.UNKNOWN, False)
    return Found(best, Outcome.PROVED, False, other, hitting.least)
