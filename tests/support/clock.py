"""Time in tests: a clock that stands where it is put, waits for things to happen, and signals at known moments.

No other file of the tests may sleep or look at the machine's clock (ruff's TID251): a test that does depends on how
fast the machine is.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from treeproof.run.limits import Limits

now = time.monotonic
"""For programs that say how long they took."""
PATIENCE = 600.0
"""What never happens in so many seconds will not happen: the test fails instead of going on for ever."""


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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that treeproof asks in this process: it stands still, but for what the test adds."""
    made = Clock()
    monkeypatch.setattr("treeproof.run.clock.now", made)
    return made


@pytest.fixture
def interrupts(monkeypatch: pytest.MonkeyPatch) -> list[Limits]:
    """The limits that Ctrl-C has ended, as soon as it has."""
    ended, interrupt = list[Limits](), Limits.interrupt
    monkeypatch.setattr(Limits, "interrupt", lambda self: (interrupt(self), ended.append(self)))
    return ended


def until(happened: Callable[[], object], what: str = "what the test waits for") -> None:
    """Waits for something to happen."""
    last = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < last, f"{what} never happened"
        time.sleep(0.002)


def main_thread_waits() -> bool:
    """Whether the main thread waits for watched work, so that a signal finds it there."""
    ident = threading.main_thread().ident
    frame = sys._current_frames().get(ident) if ident is not None else None
    if frame is None or frame.f_code.co_filename != threading.__file__:
        return False
    while frame is not None and frame.f_code.co_name != "_wait":
        frame = frame.f_back
    return frame is not None


def press_ctrl_c(number: int = signal.SIGINT) -> None:
    """Ctrl-C, or another signal, as soon as the main thread waits for watched work."""
    until(main_thread_waits, "that the main thread waits")
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, number)


@contextmanager
def ending(what: str) -> Iterator[None]:
    """What goes on for ever inside `with` fails, instead of holding up all other tests."""

    def stop(signum: int, frame: object) -> None:
        raise AssertionError(f"hangs: {what}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(PATIENCE))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
