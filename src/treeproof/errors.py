"""The three errors that treeproof raises, and its warning about a renamed public name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

MOST_NAMED = 4
"""So many more rows are named in a message."""


class InvalidInput(ValueError):
    """What was passed in is malformed; the message names the value and the way out.

    `argument` names the argument at fault, if there is one; a message about it begins with that name. `way_out` says
    what to do instead in Python. The command line can put its own words in place of both.

    >>> error = InvalidInput("timeout must be at least 0, got -1", argument="timeout", way_out="None means no limit")
    >>> str(error), error.of("--timeout", "")
    ('timeout must be at least 0, got -1; None means no limit', '--timeout must be at least 0, got -1')
    """

    def __init__(self, message: str, *, argument: str = "", way_out: str = "") -> None:
        super().__init__(f"{message}; {way_out}" if way_out else message)
        self.message, self.argument, self.way_out = message, argument, way_out

    def of(self, name: str, way_out: str) -> str:
        """The same message with another name for the argument and another way out."""
        begins = self.argument and self.message.startswith(self.argument)
        message = name + self.message[len(self.argument) :] if begins else self.message
        return f"{message}; {way_out}" if way_out else message


class UnsupportedModel(TypeError):
    """The model is well formed, but treeproof cannot say exactly what it predicts."""


class SoundnessError(RuntimeError):
    """Evidence of an engine does not hold, or the model's own library predicts something else; no verdict is given.

    A bug in treeproof, unless the message says otherwise; please report it. `rows` are those that it is about, as the
    caller counts them, from 0; `index` are their names in a data frame that has its own.

    >>> print(SoundnessError("no attack is possible, and one was found", rows=(7, 9)))
    row 7: no attack is possible, and one was found (also rows 9)
    """

    def __init__(self, what: str, *, rows: Iterable[int] = (), report: str = "") -> None:
        super().__init__(what)
        self.rows, self.report, self.where = tuple(map(int, rows)), report, ""
        self.index: tuple[Any, ...] = ()
        self.among = False
        """Whether it is about one of the rows, and not known about which."""

    def __str__(self) -> str:
        names = [f"{row} (index {name!r})" for row, name in zip(self.rows, self.index, strict=False)]
        first, *others = names or map(str, self.rows) if self.rows else [""]
        some = ", ".join(others[:MOST_NAMED]) + f" and {len(others) - MOST_NAMED:,} more" * (len(others) > MOST_NAMED)
        also = f" ({'or one of' if self.among else 'also'} rows {some})" * bool(others)
        place = ", ".join(([self.where] if self.where else []) + [f"row {first}"] * bool(first))
        return f"{place}{': ' * bool(place)}{self.args[0]}{also}{self.report}"


def disbelieved(what: str, rows: Iterable[Any] = ()) -> SoundnessError:
    """The error about something that treeproof found and does not believe, with what to send to its makers."""
    libraries = ("treeproof", "numpy", "numba", "sklearn", "xgboost", "lightgbm", "catboost", "onnxruntime")
    versions = ", ".join(f"{name} {sys.modules[name].__version__}" for name in libraries if name in sys.modules)
    send = "please report this, with the model file, these rows and the attacker"
    report = f"; nothing is said about any row; {send} ({versions}, Python {sys.version.split()[0]})"
    return SoundnessError(what, rows=rows, report=report)


@contextmanager
def counted(numbers: Any = None, *, index: Any = None, where: str = "") -> Iterator[None]:
    """Inside `with`, the rows of a SoundnessError are places among `numbers`, and become these; all, if it has none.

    `index` are the names of all rows in a data frame, and `where` is the file that they stand in.
    """
    try:
        yield
    except SoundnessError as error:
        if numbers is not None:
            error.among |= not error.rows
            error.rows = tuple(int(numbers[row]) for row in error.rows or range(len(numbers)))
        if index is not None and list(index) != list(range(len(index))):
            error.index = tuple(index[row] for row in error.rows)
        error.where = error.where or where
        raise


def warn_renamed(old: str, new: str) -> None:
    """Warns, at the line that used it, that a public name has changed and that the old one is about to go."""
    warnings.warn(f"{old} is now {new}; the next version removes the old spelling", FutureWarning, stacklevel=3)
