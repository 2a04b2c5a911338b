"""Tasks on threads, processes or a cluster: how models travel, what Ctrl-C leaves behind, and a progress bar."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.ensemble import Ensemble
from treeproof.local import Limits

GRACE = 2.0
"""Seconds to wait after Ctrl-C for workers that cannot be told to stop, those of other processes."""

LINE_EVERY = 5.0
"""Seconds between two lines of progress."""

MOST_ARRIVED = 4
"""How many models a worker process keeps for the tasks to come."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Carried:
    """A model on its way to workers. Threads share it; each process gets and unpacks it once, without its source.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from treeproof import from_model
    >>> here = Carried(from_model(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])))
    >>> there, again = (pickle.loads(pickle.dumps(here)) for _ in range(2))
    >>> there is again, there.ensemble.source is None
    (True, True)
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble

    @cached_property
    def _packed(self) -> tuple[bytes, npt.NDArray[np.uint8]]:
        # One large array: joblib maps it into the memory of its processes instead of copying it.
        content = pickle.dumps(self.ensemble.without_source(), protocol=5)
        return hashlib.sha256(content).digest(), np.frombuffer(content, dtype=np.uint8)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, self._packed

    def __sizeof__(self) -> int:
        # Dask sends an argument to its workers once, instead of with every task, if it says that it is large.
        values = [getattr(self.ensemble, field.name) for field in dataclasses.fields(self.ensemble)]
        return object.__sizeof__(self) + sum(value.nbytes for value in values if isinstance(value, np.ndarray))


_arrived: OrderedDict[bytes, Carried] = OrderedDict()
_arriving = threading.Lock()


def _arrive(digest: bytes, content: npt.NDArray[np.uint8]) -> Carried:
    """The model in a worker process: the one that is here already, so that its search tables are made only once."""
    with _arriving:
        if digest not in _arrived:
            _arrived[digest] = Carried(pickle.loads(content.data))
        _arrived.move_to_end(digest)
        while len(_arrived) > MOST_ARRIVED:
            _arrived.popitem(last=False)
        return _arrived[digest]


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


@contextmanager
def progress_bar(wanted: bool, total: int, doing: str = "verifying") -> Iterator[Callable[[int], None]]:
    """Progress on stderr, if wanted: a bar on a terminal, else a line now and then; hands out what moves it on."""
    if not wanted:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines(doing, total).advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda n: bar.advance(task, n)


@contextmanager
def progress_line(wanted: bool, doing: str) -> Iterator[Callable[[str], None]]:
    """The same for work whose end is not known; hands out the function that says how far it is."""
    if not wanted:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines(doing).say
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(doing + ": {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text: bar.update(task, description=text)


class _Lines:
    """Progress where nobody can see a bar move: a line now and then."""

    def __init__(self, doing: str, total: int = 0) -> None:
        self.doing, self.total, self.done = doing, total, 0
        self.said = time.monotonic() - LINE_EVERY

    def advance(self, n: int) -> None:
        """So many more are done."""
        self.done += n
        self.say(f"{self.done:,} of {self.total:,}", at_once=self.done >= self.total)

    def say(self, text: str, at_once: bool = False) -> None:
        """This is how far it is."""
        if at_once or time.monotonic() - self.said >= LINE_EVERY:
            self.said = time.monotonic()
            print(f"{self.doing} {text}", file=sys.stderr, flush=True)  # noqa: T201
