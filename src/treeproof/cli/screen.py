"""What commands print: plain lines that read well with and without colours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treeproof.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from treeproof import Verification


WIDE = 160
"""Columns of output to a file or another program."""

MAX_CHARACTERS = 2000
"""The most that is printed of an error, or of anything else that somebody can make long."""

MOST_MOVES = 40
"""The most moves that are printed of one attack, which is one to try only if it is whole."""

INDENT = " " * 11
"""What stands before a line that goes on from the one before, so that none of its text can pass for a new line."""

_lost: list[OSError] = []
"""Why standard output takes no more, if so."""


@cache
def console() -> Console:
    """How results look; in a pipe or a file, lines are not wrapped."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, soft_wrap=True, width=WIDE)


def begin() -> None:
    """Makes standard output and error take whatever is printed, even if they are closed or know few letters."""
    _lost.clear()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the end)
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def put(text: str) -> None:
    """Prints text as it is. If that fails, no more is printed, but the work goes on: there may be files to write."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        lose(error)


def lose(error: OSError) -> None:
    """Gives up standard output, for this reason."""
    _lost.append(error)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def lost() -> str:
    """Why output was lost, if somebody would miss it: whoever closes a pipe has seen enough."""
    put("")
    return next((str(one.strerror or one) for one in _lost if not isinstance(one, BrokenPipeError)), "")


def say(text: str = "") -> None:
    """Prints one line, without markup; on a terminal, what does not fit goes on below, indented."""
    from rich.text import Text

    line = Text(visible(text), end="")
    if console().soft_wrap or line.cell_len <= console().width:
        put(f"{line.plain}\n")
    else:
        lines = line.wrap(console(), max(console().width - len(INDENT), len(INDENT)))
        put("".join(f"{INDENT if i else ''}{part.plain}\n" for i, part in enumerate(lines)))


def announce_compilation() -> None:
    """Says that the first use takes longer, if there is no compiled code where numba keeps it."""
    from treeproof import _kernels

    folders = [Path(folder, "search", "__pycache__") for folder in _kernels.__path__]
    if os.environ.get("NUMBA_CACHE_DIR") is None and not any(
        any(folder.glob("rows.race_rows*.nbc")) for folder in folders
    ):
        print("compiling the search, once: 10 to 20 seconds", file=sys.stderr, flush=True)  # noqa: T201


def table(title: str, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Prints a table with numbers aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(
        title=Text(visible(title)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )
    body = [tuple(line) for line in lines]
    for i, name in enumerate(head):
        numbers = bool(body) and all(str(line[i])[:1].isdigit() for line in body)
        out.add_column(Text(visible(name)), justify="right" if numbers else "left", overflow="fold")
    for line in body:
        out.add_row(*(Text(visible(cell)) for cell in line))
    with console().capture() as printed:
        console().print(out)
    put(printed.get())


def feature_names(given: Sequence[str] | None, n_features: int) -> list[str]:
    """The names of the features, or their numbers."""
    return list(given or (f"feature {f}" for f in range(n_features)))


def in_words(result: Verification, row: int) -> str:
    """The counterexample of a row: what changes, and into what."""
    witness = result.witness(row)
    assert witness is not None
    where = "near row" if witness.is_nearby else "row"
    return f"{where} {row}: {witness.in_words(MOST_MOVES)} turns {witness.label} into {witness.attacked_label}"
