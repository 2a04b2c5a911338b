"""Tasks on threads, processes or a cluster, through joblib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from treeproof.run.limits import Limits, check_jobs
from treeproof.run.transport import Carried
from treeproof.run.watch import Door, run_watched

GRACE = 2.0
"""Seconds to wait after Ctrl-C for workers that cannot be told to stop: those in other processes."""

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

    def __init__(self, content: Content, n_jobs: int | None) -> None:
        from joblib import Parallel

        self._carried = Carried(content)
        self._parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator", batch_size=1)
        self.size = n_workers(n_jobs)

    def __enter__(self) -> Crew[Content]:
        self._parallel.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._parallel.__exit__(*problem)

    def answers(self, work: Callable[[Content, Task], Answer], tasks: Iterable[Task]) -> Iterator[Answer]:
        """The answers to the tasks, in order, as they arrive."""
        from joblib import delayed

        answers: Iterator[Answer] = self._parallel(delayed(_work)(work, self._carried, task) for task in tasks)
        return answers


def _work(work: Callable[[Any, Any], Any], carried: Carried[Any], task: Any) -> Any:
    return work(carried.content, task)


def run_tasks(
    work: Callable[[Content, Task], Answer],
    content: Content,
    tasks: Sequence[Task],
    limits: Limits,
    n_jobs: int | None,
    take: Callable[[Answer], None],
) -> bool:
    """Hands the answer to every task to `take`, in order; returns whether Ctrl-C ended it early.

    After Ctrl-C, running tasks stop early and still deliver what they have decided. Once this has returned, `take` is
    not called again.
    """
    crew = Crew(content, n_jobs)

    def run(door: Door) -> None:
        left = (task for task in tasks if not limits.interrupted)
        for answer in crew.answers(work, left):
            door.let_in(partial(take, answer))

    return run_watched(run, limits, grace=GRACE)
