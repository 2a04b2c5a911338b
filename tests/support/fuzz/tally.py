"""What a fuzzer of doors counts, and how it says that an answer is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

Cell = tuple[str, str]
"""A row and a column of a table of counts, such as a format and a command."""


class Difference(AssertionError):
    """A door that says something else than the library does, fails, or refuses what is harmless."""


@dataclass
class Tally:
    """Cases and refusals of one part of the fuzzer."""

    cases: Counter[Cell] = field(default_factory=Counter)
    refused: Counter[Cell] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def count(self, row: str, column: str, n: int = 1) -> None:
        self.cases[row, column] += n

    def refuse(self, kind: str, why: str, n: int = 1) -> None:
        self.refused[kind, why] += n


@dataclass(frozen=True)
class Part:
    """A kind of door: what is asked there, by number, and the cells of its table that want enough cases."""

    name: str
    cells: tuple[Cell, ...]
    check: Callable[[Random, int, Tally], None]
    """Asks question `number`, about `cells[number % len(cells)]`, the same each time; raises Difference."""


def ensure(holds: bool, what: str) -> None:
    """Raises Difference unless this holds."""
    if not holds:
        raise Difference(what)


@contextmanager
def told(what: str) -> Iterator[None]:
    """Inside `with`, a Difference says where it was found; any other exception is one."""
    try:
        yield
    except Difference as error:
        raise Difference(f"{what}: {error}") from error.__cause__
    except Exception as error:
        raise Difference(f"{what}: raised {type(error).__name__}: {error}") from error
