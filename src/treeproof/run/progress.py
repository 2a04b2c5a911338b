"""Progress on stderr: a bar in a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from treeproof.run import clock

LINE_EVERY = 5.0
"""Seconds between two lines of progress."""


@contextmanager
def progress_bar(wanted: bool, total: int, doing: str = "verifying") -> Iterator[Callable[[int], None]]:
    """Shows progress on stderr, if wanted; yields the function that advances it by a number of steps."""
    if not wanted:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        lines = _Lines(doing, total)
        with _while_compiling(lambda n: lines.say(f"waits: part {n} of the search is compiled, once")):
            yield lines.advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(doing, total=total)
        with _while_compiling(lambda n: bar.update(task, description=f"compiling the search, once: part {n}")):
            yield lambda n: bar.update(task, advance=n, description=doing)


@contextmanager
def _while_compiling(say: Callable[[int], None]) -> Iterator[None]:
    """Has it said how many kernels were or are being compiled, each time that there is one more."""
    from treeproof._kernels.cache import watchers

    compiled = 0

    def one_more() -> None:
        nonlocal compiled
        compiled += 1
        say(compiled)

    watchers.append(one_more)
    try:
        yield
    finally:
        watchers.remove(one_more)


@contextmanager
def progress_line(wanted: bool, doing: str) -> Iterator[Callable[[str], None]]:
    """Does the same for work whose end is not known; yields the function that says how far it is."""
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
        self.said = clock.now() - LINE_EVERY

    def advance(self, n: int) -> None:
        """Counts n more as done."""
        self.done += n
        self.say(f"{self.done:,} of {self.total:,}", at_once=self.done >= self.total)

    def say(self, text: str, at_once: bool = False) -> None:
        """Says how far it is, unless the last line is too recent."""
        if at_once or clock.now() - self.said >= LINE_EVERY:
            self.said = clock.now()
            print(f"{self.doing} {text}", file=sys.stderr, flush=True)  # noqa: T201
