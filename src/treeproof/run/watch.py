"""Runs work in a thread of its own, while the caller watches the clock and waits for Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from functools import partial
from typing import TypeVar

from treeproof.run import clock
from treeproof.run.limits import Limits

POLL = 0.02
"""Seconds between two looks at the clock."""


T = TypeVar("T")


class Door:
    """Lets results in until nobody is waiting for them any more."""

    def __init__(self) -> None:
        self._closed, self._lock = False, threading.Lock()

    def let_in(self, take: Callable[[], None]) -> bool:
        """Calls `take` if the door is open; returns whether it was."""
        with self._lock:
            if not self._closed:
                take()
            return not self._closed

    def close(self) -> None:
        """Waits for whatever is coming in, and lets nothing in afterwards."""
        with self._lock:
            self._closed = True


def run_watched(
    work: Callable[[Door], None],
    limits: Limits,
    look: Callable[[Door], None] | None = None,
    grace: float | None = None,
) -> bool:
    """Runs the work and ends it when the limits say so; returns whether Ctrl-C ended it.

    Compiled code cannot be interrupted, and joblib throws away unfinished tasks when it is; in a thread of our own,
    neither matters. `look` is called at every look at the clock; if it fails, the work ends as after Ctrl-C, and the
    failure is raised. After Ctrl-C, the wait for the work lasts at most `grace` seconds; a second Ctrl-C ends it.
    Whatever is still running then finds the door closed. What the work itself raises is raised, after Ctrl-C, too.
    """
    failure: list[BaseException] = []
    # An event, because an interrupted `Thread.join` takes a running thread for a finished one (seen on Python 3.11).
    done, door = threading.Event(), Door()

    def run() -> None:
        try:
            work(door)
        except BaseException as error:
            failure.append(error)
            limits.interrupt()  # nobody wants what other threads are about to find
        finally:
            done.set()

    limits.is_over()
    try:
        threading.Thread(target=run, daemon=True).start()
        interrupted = _wait(done, limits, None if look is None else partial(look, door), grace)
    except BaseException:
        limits.interrupt()
        door.close()
        done.wait(grace)
        _raise_first(failure, was_ended=True)
        raise
    door.close()
    _raise_first(failure, was_ended=interrupted)
    return interrupted or bool(failure)


def _raise_first(failure: list[BaseException], was_ended: bool) -> None:
    """Raises what the work failed with; but not that its workers are gone, if it was ended before."""
    # Worker processes receive Ctrl-C themselves, and die of it or pass it on.
    gone = (KeyboardInterrupt, BrokenExecutor, CancelledError) if was_ended else KeyboardInterrupt
    if failure and not isinstance(failure[0], gone):
        raise failure[0]


def watched(work: Callable[[], T], limits: Limits, look: Callable[[], None] | None = None) -> T:
    """What the work returns, ended early when the limits say so; raises KeyboardInterrupt after Ctrl-C."""
    result: list[T] = []
    if run_watched(lambda _: result.append(work()), limits, None if look is None else lambda _: look()):
        raise KeyboardInterrupt
    return result[0]


def kept_after_ctrl_c(work: Callable[[], T], limits: Limits) -> T:
    """What the work returns, even if Ctrl-C ends it early; a second Ctrl-C raises as usual."""
    result: list[T] = []
    run_watched(lambda _: result.append(work()), limits)
    if not result:
        raise KeyboardInterrupt
    return result[0]


def _wait(done: threading.Event, limits: Limits, look: Callable[[], None] | None, grace: float | None) -> bool:
    """Waits for the work to end; returns whether Ctrl-C came before that."""
    until: float | None = None
    while True:
        try:
            while not done.wait(POLL):
                limits.is_over()
                if look is not None:
                    look()
                if until is not None and clock.now() >= until:
                    return True
            return until is not None
        except KeyboardInterrupt:  # noqa: PERF203 (one turn per Ctrl-C)
            limits.interrupt()
            if until is not None:
                return True
            until = float("inf") if grace is None else clock.now() + grace
