"""Keeps what is known while long work goes on: a process that is killed loses a few seconds, not everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from treeproof.run import clock
from treeproof.run.limits import Limits
from treeproof.run.watch import Door

EVERY = 8.0
"""Seconds from one checkpoint to the next. With those that a task keeps to itself what it knows, that makes 10."""
SHARE = 0.1
"""The share of all time that checkpoints may take; large ones are written less often."""

Known = TypeVar("Known")


class Checkpoint(Generic[Known]):
    """Saves what is known every now and then, if there is anything new.

    `copy` takes what is known while nothing else comes in, so it must be quick; `save` gets the copy and may take its
    time, as the work goes on meanwhile. Both are called in the thread that waits for the work.
    """

    def __init__(self, copy: Callable[[], Known], save: Callable[[Known], object]) -> None:
        self._copy, self._save = copy, save
        self._new = False
        self._due = clock.now() + EVERY

    def note(self) -> None:
        """Says that something new is known."""
        self._new = True

    def look(self, limits: Limits, door: Door) -> None:
        """Saves, if it is time to; not once the work is about to end anyway."""
        if not self._new or clock.now() < self._due or limits.is_over():
            return
        known: list[Known] = []

        def copy() -> None:
            self._new = False
            known.append(self._copy())

        if door.let_in(copy):
            began = clock.now()
            self._save(known[0])
            ended = clock.now()
            self._due = ended + max(EVERY, (ended - began) / SHARE)
