"""The rows that the page's table and slices show: as many as fit, broken ones first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.results import sentences
from treeproof.results.verdicts import Outcome, differ
from treeproof.results.verification import Verification

MAX_INSTANCES = 20_000
MAX_CHARACTERS = 2_000_000
"""The most that the table's data may take in the page."""

KINDS = (
    ("broken", "Broken", sentences.ROW_BROKEN),
    ("fragile", "Fragile", sentences.ROW_FRAGILE),
    ("wrong", "Wrong", sentences.ROW_WRONG),
    ("open", "Undecided", sentences.ROW_OPEN),
    ("robust", "Robust", sentences.ROW_ROBUST),
    ("resilient", "Resilient", sentences.ROW_RESILIENT),
)
"""Verdicts in the order in which rows are shown: key, name, meaning."""


def kinds_of(result: Verification) -> npt.NDArray[np.int64]:
    """The index of each row's verdict in KINDS; resilience is that of the first neighbourhood."""
    names = [key for key, _, _ in KINDS]
    robust = result.robustness_outcomes
    kind = np.full(len(result), names.index("open"))
    kind[robust == Outcome.PROVED] = names.index("robust")
    if result.epsilons:
        resilience = result.resilience_by_epsilon[0]
        kind[resilience == Outcome.PROVED] = names.index("resilient")
        kind[(robust == Outcome.PROVED) & (resilience == Outcome.UNKNOWN)] = names.index("open")
        kind[(robust == Outcome.PROVED) & (resilience == Outcome.REFUTED)] = names.index("fragile")
        # Certainly not resilient, while robustness itself is open.
        kind[(robust == Outcome.UNKNOWN) & (resilience == Outcome.REFUTED)] = names.index("open")
    kind[robust == Outcome.REFUTED] = names.index("broken")
    kind[~result.correct] = names.index("wrong")
    return kind


@dataclass(frozen=True, eq=False)
class Instances:
    """Rows for the table, each `[row, label, predicted, kind, label after, steps, moves]`.

    Labels are indices into `labels`; steps to the neighbour and moves of the attack are `[feature, before, after]`.
    """

    entries: list[list[Any]]
    labels: list[str]
    counts: list[int]
    """The number of rows of each kind in all."""
    shown: list[int]
    """The number of each kind among the entries."""


def choose(result: Verification) -> Instances:
    """As many rows as fit in the page, by kind in the order of KINDS, then by number."""
    kind = kinds_of(result)
    counts = np.bincount(kind, minlength=len(KINDS))
    labels: dict[str, int] = {}
    entries: list[list[Any]] = []
    characters = 0
    for row in np.argsort(kind, kind="stable")[:MAX_INSTANCES]:
        entry = _entry(result, int(row), int(kind[row]), labels)
        characters += len(json.dumps(entry))
        if characters > MAX_CHARACTERS:
            break
        entries.append(entry)
    shown = np.bincount([entry[3] for entry in entries], minlength=len(KINDS))
    return Instances(entries, list(labels), counts.tolist(), shown.tolist())


def _as_json(value: Any) -> Any:
    """A number as it is, a missing value as null; values of categories as text."""
    return value if value is None or isinstance(value, float) else str(value)


def _entry(result: Verification, row: int, kind: int, labels: dict[str, int]) -> list[Any]:
    def code(label: Any) -> int:
        return labels.setdefault(str(label), len(labels))

    entry: list[Any] = [row, code(result.y[row]), code(result.predicted[row]), kind]
    witness = result.witness(row)
    if witness is None:
        return entry
    x, near = witness.x.tolist(), witness.neighbour.tolist()
    steps = [
        [f, _as_json(x[f]), _as_json(near[f])] for f in np.flatnonzero(differ(witness.x, witness.neighbour)).tolist()
    ]
    moves = [[f, _as_json(before), _as_json(after)] for f, (before, after) in witness.moved_by_position.items()]
    return [*entry, code(witness.attacked_label), steps, moves]
