"""How commands end early: SIGTERM and SIGHUP save like Ctrl-C; after kill -9, `--resume` finds a checkpoint."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from treeproof.errors import InvalidInput

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What ends a command like Ctrl-C; Windows has no SIGHUP."""


class LikeCtrlC:
    """Inside `with`, SIGTERM and SIGHUP raise KeyboardInterrupt; one that is ignored (nohup) stays ignored."""

    def __init__(self) -> None:
        self.received = int(signal.SIGINT)
        self._before: dict[int, Any] = {}
        self._terminals: list[int] = []

    @property
    def exit_code(self) -> int:
        """128 and the number of the signal, as shells count: 130 after Ctrl-C."""
        return 128 + self.received

    def __enter__(self) -> LikeCtrlC:
        # Python lets only the main thread set handlers; elsewhere, signals are not this program's to handle.
        if threading.current_thread() is threading.main_thread():
            self._terminals = [file for file in (1, 2) if os.isatty(file)]
            for number in SIGNALS:
                if signal.getsignal(number) == signal.SIG_DFL:
                    self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *problem: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.received = number
        if number != signal.SIGTERM:
            # The terminal is gone, and writing to it would fail.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            for file in self._terminals:
                os.dup2(nowhere, file)
        raise KeyboardInterrupt


@contextmanager
def postponed() -> Iterator[None]:
    """Inside `with`, whatever would end the command waits: a result that is being written is whole soon."""
    received: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *SIGNALS):
            if callable(signal.getsignal(number)):
                before[number] = signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in received[:1]:
        before[number](number, None)


class Checkpoints:
    """The file that keeps what is known while a command works."""

    def __init__(self, file: Path) -> None:
        self.file, self.written = file, False
        self._failed = False

    def save(self, write: Callable[[Path], object]) -> None:
        """Writes the file; if that fails, says so once, as the work itself is not lost yet."""
        try:
            write(self.file)
            self.written = True
        except InvalidInput as error:
            if not self._failed:
                click.echo(f"treeproof: no checkpoint: {error}", err=True)
            self._failed = True

    def remove(self) -> None:
        """Removes the file: all is known, and nobody asked for it."""
        self.file.unlink(missing_ok=True)
