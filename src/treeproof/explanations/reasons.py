"""Reasons: columns that are enough for a label, none of which can be dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.explanations.questions import Found, Questions
from treeproof.model.ensemble import Ensemble
from treeproof.results.asked import Unit, unit_number
from treeproof.results.verdicts import Outcome


def dropping_order(ensemble: Ensemble, units: Sequence[Unit], wanted: Any = None) -> npt.NDArray[np.int64]:
    """The numbers of the units in the order in which they are dropped.

    Those that few tests use come first, of several the last. Units that are `wanted`, the most wanted one first, come
    after all others.
    """
    uses = np.bincount(ensemble.feature[ensemble.feature >= 0], minlength=ensemble.n_features)
    counts = [int(uses[list(unit.features)].sum()) for unit in units]
    first = [] if wanted is None else _wanted(ensemble, units, wanted)
    others = sorted(set(range(len(units))) - set(first), key=lambda number: (counts[number], -number))
    return np.array(others + first[::-1], dtype=np.int64)


def _wanted(ensemble: Ensemble, units: Sequence[Unit], given: Any) -> list[int]:
    """The numbers of the units that a user lists."""
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise InvalidInput(f"order is a list of columns, the most wanted in a reason first, got {given!r}")
    found: list[int] = []
    for one in given:
        number = unit_number(units, ensemble, one)
        if number in found:
            raise InvalidInput(f"order names {units[number].name!r} twice; list each column once")
        found.append(number)
    return found


def reason(questions: Questions, row: int, order: npt.NDArray[np.int64]) -> Found:
    """The reason of a row: goes through the units in this order, and drops each whose removal leaves enough.

    If time is up before that, what is left is still enough, but maybe not minimal.
    """
    free, minimal, place = np.zeros(len(questions.units), dtype=bool), True, 0
    while place < len(order):
        if not questions.has_time(row):
            return Found(~free, Outcome.PROVED, False)
        place = questions.drop(row, free, order, place)
        if place < len(order):
            free[order[place]] = True
            outcome = questions.ask_after(row, free).outcome
            free[order[place]] = outcome == Outcome.PROVED
            minimal &= outcome != Outcome.UNKNOWN
            place += 1
    return Found(~free, Outcome.PROVED, minimal)
