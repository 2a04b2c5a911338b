"""When calculations of unknown length are to end: whoever begins one says so, and it looks now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class TimeIsUpError(Exception):
    """A calculation was ended early; nothing is known of its result."""


_is_over: ContextVar[Callable[[], bool]] = ContextVar("is_over", default=lambda: False)


@contextmanager
def until(is_over: Callable[[], bool]) -> Iterator[None]:
    """Ends the calculations inside, by a TimeIsUpError, once this is so.

    >>> with until(lambda: True):
    ...     look()
    Traceback (most recent call last):
    treeproof.numbers.patience.TimeIsUpError
    """
    before = _is_over.set(is_over)
    try:
        yield
    finally:
        _is_over.reset(before)


def look() -> None:
    """Goes on, if there is time."""
    if _is_over.get()():
        raise TimeIsUpError
