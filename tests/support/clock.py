"""A clock that goes as tests say, and no faster on a slower machine."""

from __future__ import annotations

import threading


class Clock:
    """Stands still, but for what is added, and for `per_look` seconds each time that somebody looks at it."""

    def __init__(self, per_look: float = 0.0) -> None:
        self.seconds, self.per_look, self.looks = 1000.0, per_look, 0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        with self._lock:
            self.looks += 1
            self.seconds += self.per_look
            return self.seconds

    def add(self, seconds: float) -> None:
        with self._lock:
            self.seconds += seconds
