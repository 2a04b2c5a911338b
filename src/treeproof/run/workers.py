"""Tasks on threads, processes or a cluster, and what Ctrl-C leaves behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.model.ensemble import Ensemble
from treeproof.run.limits import Limits
from treeproof.run.transport import Carried

GRACE = 2.0
"""Seconds to wait after Ctrl-C for workers that cannot be told to stop, those of other processes."""
Task = TypeVar("Task")
Answer = TypeVar("Answer")


def in_groups(n: int, size: int) -> list[npt.NDArray[np.int64]]:
    """The numbers from 0 to n - 1 in groups of this size, the last one perhaps smaller."""
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def run_tasks(
    work: Callable[[Ensemble, Task], Answer],
    ensemble: Ensemble,
    tasks: Sequence[Task],
    limits: Limits,
    n_jobs: int | None,
    take: Callable[[Answer], None],
) -> bool:
    """Hands the answer to every task to `take`, in order; returns whether Ctrl-C ended it early.

    After Ctrl-C the tasks under way stop early and still deliver what they decided. `take` is not called any more
    afterwards.
    """
    from joblib import Parallel, delayed

    # Made here, because `joblib.parallel_config` holds for the thread that it was called in.
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator", batch_size=1)
    carried = Carried(ensemble)

    def run(door: Door) -> None:
        left = (delayed(_work)(work, carried, task) for task in tasks if not limits.cancelled.is_set())
        for answer in parallel(left):
            door.let_in(partial(take, answer))

    return run_aside(run, limits.cancelled.set)


class Door:
    """Lets results in until nobody waits for them any more."""

    def __init__(self) -> None:
        self._closed, self._lock = False, threading.Lock()

    def let_in(self, take: Callable[[], None]) -> bool:
        """Calls `take` if the door is open; whether it was."""
        with self._lock:
            if not self._closed:
                take()
            return not self._closed

    def close(self) -> None:
        """Waits for what is coming in, and lets nothing in afterwards."""
        with self._lock:
            self._closed = True


def run_aside(work: Callable[[Door], None], cancel: Callable[[], Any]) -> bool:
    """Runs work that uses joblib in a thread of ours; returns whether Ctrl-C, which cancels it, ended it early.

    joblib throws away the tasks under way when it is interrupted; in a thread of ours it is not.
    """
    failure: list[BaseException] = []
    done, door = threading.Event(), Door()

    def run() -> None:
        try:
            work(door)
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    interrupted = _wait_for(done, cancel)
    door.close()
    # Worker processes get a Ctrl-C of their own, and die of it or hand it on.
    if failure and not interrupted and not isinstance(failure[0], KeyboardInterrupt):
        raise failure[0]
    return interrupted or bool(failure)


def _work(work: Callable[[Ensemble, Any], Any], carried: Carried, task: Any) -> Any:
    return work(carried.ensemble, task)


def _wait_for(done: threading.Event, cancel: Callable[[], Any]) -> bool:
    """Waits for work to end; returns whether Ctrl-C came before that, which cancels it. A second one is not waited for.

    An event, because an interrupted `Thread.join` takes a running thread for ended (seen on Python 3.11).
    """
    since: float | None = None
    while True:
        try:
            while not done.wait(0.1) and (since is None or time.monotonic() < since + GRACE):
                pass
            return since is not None
        except KeyboardInterrupt:  # noqa: PERF203 (one turn per Ctrl-C)
            cancel()
            if since is not None:
                return True
            since = time.monotonic()
