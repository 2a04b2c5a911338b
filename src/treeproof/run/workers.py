"""Tasks on threads, processes or a cluster, through joblib."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.errors import counted
from treeproof.run.checkpoints import Checkpoint
from treeproof.run.limits import Limits, check_jobs
from treeproof.run.transport import Carried
from treeproof.run.watch import Door, kept_after_ctrl_c, run_watched

GRACE = 2.0
"""Seconds to wait after Ctrl-C for workers that cannot be told to stop: those in other processes."""
MAX_DEATHS = 3
"""How often in a row worker processes may be killed before they have answered a task."""

Content = TypeVar("Content")
Task = TypeVar("Task")
Answer = TypeVar("Answer")


def in_groups(n: int, size: int) -> list[npt.NDArray[np.int64]]:
    """The numbers from 0 to n - 1 in groups of this size; the last may be smaller."""
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def n_workers(n_jobs: Any) -> int:
    """The number of workers that joblib would use in the calling thread."""
    from joblib import effective_n_jobs

    check_jobs(n_jobs)
    return int(effective_n_jobs(n_jobs))


class Crew(Generic[Content]):
    """joblib's workers, and what all their tasks share; inside `with`, they are kept from one call to the next.

    Make it in the thread that called treeproof: `joblib.parallel_config` applies to that thread only.
    """

    def __init__(self, content: Content, n_jobs: int | None, prefer: str = "threads") -> None:
        from joblib import Parallel

        self._carried = Carried(content)
        self._parallel = Parallel(n_jobs=n_jobs, prefer=prefer, return_as="generator_unordered", batch_size=1)
        self.size = n_workers(n_jobs)

    def __enter__(self) -> Crew[Content]:
        self._parallel.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._parallel.__exit__(*problem)

    def answers(
        self, work: Callable[[Content, Task], Answer], tasks: Iterable[Task], limits: Limits
    ) -> Iterator[tuple[int, Answer]]:
        """The answers to the tasks as they arrive, each with the number of its task; after Ctrl-C no task is begun.

        If a worker process is killed, joblib ends all of them; tasks that were not answered by then are begun again.
        """
        from joblib import delayed

        given = _Given(tasks)
        deaths = 0
        while not given.all_answered and not limits.interrupted:
            calls = (
                delayed(_work)(work, self._carried, number, task)
                for number, task in given.batch()
                if not limits.interrupted
            )
            try:
                for number, answer in self._parallel(calls):
                    # After a death, joblib may hand out an answer from before it that is being asked for again.
                    if given.answered(number):
                        deaths = 0
                        yield number, answer
            except BrokenExecutor as error:
                deaths += 1
                if deaths > MAX_DEATHS:
                    raise RuntimeError(
                        f"worker processes were killed {deaths} times without answering any more task; "
                        "is there enough memory for them? Fewer of them (n_jobs) or threads need less"
                    ) from error


class _Given(Generic[Task]):
    """Tasks that were handed out, and those that were lost on the way.

    joblib asks for tasks in threads of its own, and perhaps once more after it has failed.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._new, self._lock = enumerate(tasks), threading.Lock()
        self._lost: dict[int, Task] = {}
        self._open: dict[int, Task] = {}
        self._batch, self._all_given = 0, False

    @property
    def all_answered(self) -> bool:
        """Whether there is nothing left to ask or to wait for."""
        return self._all_given and not self._open and not self._lost

    def batch(self) -> Iterator[tuple[int, Task]]:
        """What was handed out before and not answered, then the rest; ends the iterator given out before."""
        with self._lock:
            self._lost.update(self._open)
            self._open.clear()
            self._batch += 1
            mine = self._batch
        while True:
            with self._lock:
                one = self._next() if mine == self._batch else None
                if one is None:
                    return
                self._open[one[0]] = one[1]
            yield one

    def _next(self) -> tuple[int, Task] | None:
        if self._lost:
            number = next(iter(self._lost))
            return number, self._lost.pop(number)
        one = next(self._new, None)
        self._all_given = one is None
        return one

    def answered(self, number: int) -> bool:
        """Notes that a task is done; returns whether it was not before."""
        with self._lock:
            waiting = self._open if number in self._open else self._lost
            return waiting.pop(number, self) is not self


def _work(work: Callable[[Any, Any], Any], carried: Carried[Any], number: int, task: Any) -> tuple[int, Any]:
    return number, do_task(work, carried.content, task)


def do_task(work: Callable[[Content, Task], Answer], content: Content, task: Task) -> Answer:
    """The answer to a task; if it is about rows, its `numbers` are those that the caller counts them by."""
    with counted(getattr(task, "numbers", None)):
        return work(content, task)


def run_tasks(
    work: Callable[[Content, Task], Answer],
    content: Content,
    tasks: Iterable[Task],
    limits: Limits,
    n_jobs: int | None,
    take: Callable[[int, Answer], None],
    checkpoint: Checkpoint[Any] | None = None,
    prefer: str = "threads",
) -> bool:
    """Hands the number and the answer of every task to `take`, as they arrive; returns whether Ctrl-C ended it early.

    After Ctrl-C, running tasks stop early and still deliver what they have decided. Once this has returned, `take` is
    not called again. Tasks are asked for when workers are free for them. Work in plain Python prefers "processes".
    """
    crew = Crew(content, n_jobs, prefer)

    def run(door: Door) -> None:
        for number, answer in crew.answers(work, tasks, limits):
            door.let_in(partial(take, number, answer))
            if checkpoint is not None:
                checkpoint.note()

    return run_watched(run, limits, None if checkpoint is None else partial(checkpoint.look, limits), GRACE)


def run_groups(
    work: Callable[[Content, Task], Answer],
    content: Content,
    tasks: Sequence[Task],
    limits: Limits,
    n_jobs: int | None,
    take: Callable[[int, Answer], None],
) -> None:
    """Does the same for groups of rows; a single task is done here, and what it found by Ctrl-C is kept, too."""
    if len(tasks) == 1:
        take(0, kept_after_ctrl_c(lambda: do_task(work, content, tasks[0]), limits))
    else:
        run_tasks(work, content, tasks, limits, n_jobs, take)
