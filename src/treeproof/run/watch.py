"""Compiled work in a thread of its own, stopped when time is over or on Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from treeproof.run.limits import Limits

POLL = 0.02
"""Seconds between two looks at the clock while compiled code runs."""


def _watched(work: Callable[[npt.NDArray[np.int64], npt.NDArray[np.int64]], None], limits: Limits) -> None:
    """Runs compiled work in a thread of its own and stops it when time is over, or on Ctrl-C.

    `work` gets two cells of shared memory: it writes the row under way into the second, and gives that row up when
    the first holds its number, or everything when that is negative.
    """
    if limits.is_over():
        return
    stop, progress = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    failure: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            work(stop, progress)
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    row, since = 0, time.monotonic()
    try:
        while not done.wait(POLL):
            now = time.monotonic()
            if progress[0] != row:
                row, since = int(progress[0]), now
            if limits.is_over():
                stop[0] = -1
            elif limits.timeout is not None and now - since > limits.timeout:
                stop[0] = row
    except KeyboardInterrupt:
        stop[0] = -1
        done.wait()
        raise
    if failure:
        raise failure[0]
