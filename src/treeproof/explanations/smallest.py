"""Smallest sets of columns: those that are enough for a label, and those whose change is enough for another one.

A set is enough for the label (sufficient) iff it hits every set of columns whose change can flip it (contrastive), and
the other way round. So candidates for the one are the smallest sets that hit all known ones of the other kind. A
candidate that fails yields another set to hit; the first that does not is proved to be a smallest one.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.errors import disbelieved
from treeproof.explanations.hitting import HittingSets
from treeproof.explanations.questions import Found, Questions
from treeproof.explanations.reasons import reason
from treeproof.results.verdicts import Outcome, differ
from treeproof.threat.threat import Threat
from treeproof.verification.valid_rows import search_for

Order: TypeAlias = npt.NDArray[np.int64]
"""The numbers of all units, in some order."""


def smallest(questions: Questions, row: int, order: Order) -> Found:
    """As few units as are enough for the label of a row; units are dropped in this order to begin with.

    If time is up before that is proved, what comes back is enough, but there may be less that is.
    """
    is_over = questions.limits.for_row().is_over
    best = reason(questions, row, order).units
    hitting = HittingSets(np.ones(len(best), dtype=np.int64))
    while (candidate := hitting.propose(is_over, below=int(best.sum()))) is not None:
        # What is in many sets already is changed last, so that the next set has others.
        answer = questions.ask(row, ~candidate, pull=np.argsort(-hitting.sums, kind="stable"))
        if answer.outcome == Outcome.UNKNOWN:
            break
        if answer.changed is None:
            best = candidate
        else:
            hitting.add(answer.changed)
    least = min(hitting.least, int(best.sum()))
    return Found(best, Outcome.PROVED, bool(least == best.sum()), least=least)


def contrastive(questions: Questions, order: Order) -> list[Found]:
    """For each row as few units as can give it another label if only they change, and such a row; none if nothing can.

    UNKNOWN if time was up before any were found.
    """
    if _counts_columns(questions.columns.threat):
        return _cheapest(questions)
    return [_hits_reasons(questions, row, order) for row in range(len(questions.X))]


def _counts_columns(threat: Threat) -> bool:
    """Whether the price of an attack is the number of columns that it changes."""
    if threat.power is not None or not threat.is_flat:
        return False
    movable = threat.movable | threat.fillable
    own = [moves.cost for f, moves in threat.columns if movable[f]]
    return bool((threat.cost[movable] == 1).all() and all(cost == 1 for cost in own))


def _cheapest(questions: Questions) -> list[Found]:
    """Contrastive sets by the search for cheapest attacks on all rows, where each column costs 1."""
    X = questions.X
    attacks = search_for(questions.ensemble, questions.threat, questions.limits).cheapest(X, within=True)
    moved = differ(attacks.attacked, X)
    changed = np.stack([moved[:, list(unit)].any(axis=1) for unit in questions.units], axis=1)
    found = []
    for row, (units, outcome, price) in enumerate(zip(changed, attacks.outcome, attacks.price, strict=True)):
        is_proved = bool(outcome == Outcome.PROVED)
        if np.isinf(price):
            found.append(Found(units, Outcome.PROVED if is_proved else Outcome.UNKNOWN, is_proved))
            continue
        if units.sum() != price:
            raise disbelieved(f"a change of {units.sum()} columns was found at a price of {price:g}", [row])
        found.append(Found(units, Outcome.PROVED, is_proved, attacks.attacked[row], int(price) if is_proved else 1))
    return found


def _hits_reasons(questions: Questions, row: int, order: Order) -> Found:
    """A contrastive set as a smallest one that hits all reasons."""
    n, is_over = len(questions.units), questions.limits.for_row().is_over
    hitting, best = HittingSets(np.ones(n, dtype=np.int64)), Found(np.zeros(n, dtype=bool), Outcome.UNKNOWN, False)
    while (candidate := hitting.propose(is_over)) is not None:
        answer = questions.ask(row, candidate)
        if answer.changed is not None:
            return Found(answer.changed, Outcome.PROVED, True, answer.other, int(answer.changed.sum()))
        if answer.outcome == Outcome.UNKNOWN:
            break
        free = candidate.copy()
        # What is in many reasons is freed first, so that the next one has others.
        for unit in sorted(order.tolist(), key=lambda unit: -int(hitting.sums[unit])):
            if not free[unit]:
                free[unit] = True
                answer = questions.ask(row, free)
                free[unit] = answer.outcome == Outcome.PROVED
                if answer.changed is not None and (best.other is None or answer.changed.sum() < best.units.sum()):
                    best = Found(answer.changed, Outcome.PROVED, False, answer.other)
        if free.all():
            return Found(np.zeros(n, dtype=bool), Outcome.PROVED, True)
        hitting.add(~free)
    return best._replace(least=hitting.least)
