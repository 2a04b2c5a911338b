"""What users ask about a test set, checked: model, rows, labels, attacker, time limits and workers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput
from treeproof.importers import as_ensemble
from treeproof.intervals import FloatArray
from treeproof.per_feature import as_number
from treeproof.threat import Attacker, Threat


@dataclass(frozen=True, eq=False)
class TestSet:
    """A model, an attacker bound to it, and labelled rows that both of them take."""

    __test__ = False  # pytest takes the name for one of its own

    ensemble: Ensemble
    attacker: Attacker
    threat: Threat
    X: FloatArray
    y: npt.NDArray[np.int64]
    """Per row the index of its label in `ensemble.classes`."""

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, attacker: Any, voting: Any = None) -> TestSet:
        """As the user states it, or InvalidInput; the rows are a copy that outlives the caller's array."""
        ensemble = as_ensemble(model, voting=voting)
        check_attacker(attacker)
        rows, labels = ensemble.check_rows(X).copy(), ensemble.class_index(y)
        if len(labels) != len(rows):
            raise InvalidInput(f"X has {len(rows)} rows and y has {len(labels)} labels; one per row each")
        threat = attacker.bind(ensemble)
        threat.check_domain(rows, ensemble)
        return cls(ensemble, attacker, threat, rows, labels)


def check_attacker(attacker: Any) -> Attacker:
    """The attacker, or InvalidInput for anything else."""
    if not isinstance(attacker, Attacker):
        raise InvalidInput(f"attacker must be a treeproof.Attacker, got {type(attacker).__name__}")
    return attacker


def as_seconds(value: Any, name: str) -> float | None:
    """A time limit; None and infinity are none."""
    if value is None:
        return None
    seconds = as_number(value, name)
    if seconds < 0:
        raise InvalidInput(f"{name} must be at least 0, got {value!r}; None means no limit")
    return None if math.isinf(seconds) else seconds


def check_jobs(n_jobs: Any) -> None:
    """Refuses what joblib cannot take as a number of workers."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise InvalidInput(f"n_jobs must be a number of workers, -1 for all, or None, got {n_jobs!r}")
