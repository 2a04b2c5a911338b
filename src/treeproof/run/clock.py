"""The one clock that anything is decided by; tests put another in its place.

>>> from treeproof.run import clock
>>> clock.at_work() <= clock.now()
True
"""

from __future__ import annotations

import threading
import time

from treeproof._kernels import compiling


def now() -> float:
    """Seconds that never go back."""
    return time.monotonic()


def at_work() -> float:
    """The same, but it stands still while kernels are compiled or loaded: the time of a row is for searching."""
    return now() - _pauses.seconds()


def time_of_day() -> float:
    """Seconds since 1970, which other processes of the machine count alike."""
    return time.time()


class _Pauses:
    """How long kernels were compiled or loaded, in any thread."""

    def __init__(self) -> None:
        self._lock, self._open, self._since, self._ended = threading.Lock(), 0, 0.0, 0.0

    def __call__(self, change: int) -> None:
        with self._lock:
            if not self._open:
                self._since = now()
            self._open += change
            if not self._open:
                self._ended += now() - self._since

    def seconds(self) -> float:
        with self._lock:
            return self._ended + (now() - self._since if self._open else 0.0)


_pauses = _Pauses()
compiling.watchers.append(_pauses)
