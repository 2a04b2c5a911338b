"""When to give up, and the one stop token that tells everyone: threads, compiled loops, and tasks elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.per_feature import as_number
from treeproof.run import clock

GO_ON, LATE, INTERRUPTED = 0, -1, -2
"""What `Limits.stop` holds."""


@dataclass
class Limits:
    """Seconds per row, a deadline (`clock.now`) for everything, and `stop` (1,), the token that compiled loops read.

    In another process the deadline is the same moment, however long a task waits in its queue; Ctrl-C stays here.
    """

    timeout: float | None = None
    deadline: float | None = None
    stop: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    @classmethod
    def of(cls, *, timeout: Any = None, max_seconds: Any = None) -> Limits:
        """The limits as the user gives them, with the deadline counted from now."""
        in_all = as_seconds(max_seconds, "max_seconds")
        return cls(as_seconds(timeout, "timeout"), None if in_all is None else clock.now() + in_all)

    def __getstate__(self) -> dict[str, Any]:
        left = None if self.deadline is None else self.deadline - clock.now()
        return {"timeout": self.timeout, "left": left, "now": clock.time_of_day()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.timeout = state["timeout"]
        # If this machine's clock is behind, the wait counts as 0: it never adds time.
        waited = max(0.0, clock.time_of_day() - state["now"])
        self.deadline = None if state["left"] is None else clock.now() + state["left"] - waited
        self.stop = np.zeros(1, dtype=np.int64)

    def is_over(self) -> bool:
        """Whether nothing more should be started; checks the clock, and tells everyone who reads `stop`."""
        if self.stop[0] == GO_ON and self.deadline is not None and clock.now() >= self.deadline:
            self.stop[0] = LATE
        return bool(self.stop[0] != GO_ON)

    def for_rows(self, n: int, used: float = 0.0) -> Callable[[], bool]:
        """Whether all is over, or the time of n rows, which they share; so many seconds of it are used by now."""
        timeout, began = self.timeout, clock.at_work() - used
        if timeout is None:
            return self.is_over
        return lambda: self.is_over() or clock.at_work() - began > timeout * n

    def for_row(self, used: float = 0.0) -> RowTime:
        """The time of a row, of which so many seconds are used by now."""
        return RowTime(self, used)

    def interrupt(self) -> None:
        """Ends everything: Ctrl-C was pressed."""
        self.stop[0] = INTERRUPTED

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended everything."""
        return bool(self.stop[0] == INTERRUPTED)

    @property
    def late(self) -> bool:
        """Whether the deadline ended everything."""
        return bool(self.stop[0] == LATE)


class RowTime:
    """What is left of the time of one row; none of it goes by while kernels are compiled."""

    def __init__(self, limits: Limits, used: float = 0.0) -> None:
        self._limits, self._began = limits, clock.at_work() - used

    @property
    def used(self) -> float:
        """The seconds that are used."""
        return clock.at_work() - self._began

    def rest(self) -> Limits | None:
        """The limits with what is left of the time for the row; None if nothing is."""
        limits = self._limits
        if limits.is_over():
            return None
        if limits.timeout is None:
            return limits
        left = limits.timeout - self.used
        return replace(limits, timeout=left) if left > 0 else None

    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.rest() is None


def as_seconds(value: Any, name: str) -> float | None:
    """A time limit in seconds; None and infinity mean no limit."""
    if value is None:
        return None
    seconds = as_number(value, name)
    if seconds < 0:
        raise InvalidInput(f"{name} must be at least 0, got {value!r}", argument=name, way_out="None means no limit")
    return None if math.isinf(seconds) else seconds


def as_count(value: Any, name: str, least: int = 1) -> int | None:
    """A limit that is a whole number; None and infinity mean no limit."""
    if value is None or (isinstance(value, float) and value == math.inf):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InvalidInput(
            f"{name} must be a whole number of at least {least}, got {value!r}",
            argument=name,
            way_out="None means no limit",
        )
    return int(value)


def check_jobs(n_jobs: Any) -> None:
    """Refuses what joblib cannot use as a number of workers."""
    whole = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if n_jobs is not None and (not whole or n_jobs == 0):
        raise InvalidInput(
            f"n_jobs must be a number of workers, or -1 for all, got {n_jobs!r}",
            argument="n_jobs",
            way_out="None leaves it to joblib",
        )
