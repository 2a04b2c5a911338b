"""When to give up: seconds per row, a moment for everything, or a cancelled call."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.per_feature import as_number


@dataclass
class Limits:
    """When to give up: seconds per row, a moment (time.monotonic) for everything, or `cancelled`.

    In another process they end at the same moment, however long a task waits in its queue; it cannot be cancelled.
    """

    timeout: float | None = None
    deadline: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def __getstate__(self) -> dict[str, Any]:
        left = None if self.deadline is None else self.deadline - time.monotonic()
        return {"timeout": self.timeout, "left": left, "now": time.time()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.timeout = state["timeout"]
        # Never later than that, should the clock of this machine be behind.
        waited = max(0.0, time.time() - state["now"])
        self.deadline = None if state["left"] is None else time.monotonic() + state["left"] - waited
        self.cancelled = threading.Event()

    def is_over(self) -> bool:
        """Whether nothing more should be started."""
        return self.cancelled.is_set() or (self.deadline is not None and time.monotonic() >= self.deadline)


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
