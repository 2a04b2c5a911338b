"""When calculations of unknown length are to end: whoever begins one says so, and it looks now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


class TimeIsUpError(Exception):
    """A calculation was ended early; nothing is known of its result."""


_is_over: ContextVar[Callable[[], bool]] = ContextVar("is_over", default=lambda: False)


@contextmanager
def until(is_over: Callable[[], bool]) -> Iterator[None]:
    """Ends the calculations inside, by a TimeIsUpError, once this is so, or what ends those around it.

    >>> with until(lambda: True):
    ...     look()
    Traceback (most recent call last):
    treeproof.numbers.patience.TimeIsUpError
    """
    outer = _is_over.get()
    before = _is_over.set(lambda: outer() or is_over())
    try:
        yield
    finally:
        _is_over.reset(before)


def in_time(is_over: Callable[[], bool], work: Callable[[], T], late: T) -> T:
    """What the work returns, or `late` if it was ended early.

    >>> in_time(lambda: True, look, "late")
    'late'
    """
    try:
        with until(is_over):
            return work()
    except TimeIsUpError:
        return late


def look() -> None:
    """Goes on, if there is time."""
    if _is_over.get()():
        raise TimeIsUpError
