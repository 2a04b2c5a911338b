"""What commands print: plain lines that read well with and without colours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from treeproof import Verification


WIDE = 160
"""Columns of output to a file or another program."""


@cache
def console() -> Console:
    """Where results go; in a pipe or a file, lines are not wrapped."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, soft_wrap=True, width=WIDE)


def say(text: str = "") -> None:
    """Prints one line, without markup."""
    console().print(text, markup=False)


def announce_compilation() -> None:
    """Says that the first use takes longer, if there is no compiled code where numba keeps it."""
    from treeproof import _kernels

    folders = [Path(folder, "__pycache__") for folder in _kernels.__path__]
    if os.environ.get("NUMBA_CACHE_DIR") is None and not any(
        any(folder.glob("rows.search_rows*.nbc")) for folder in folders
    ):
        print("compiling the search, once: about half a minute", file=sys.stderr, flush=True)  # noqa: T201


def table(title: str, head: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Prints a table with numbers aligned to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = Table(title=Text(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    body = [tuple(line) for line in lines]
    for i, name in enumerate(head):
        numbers = bool(body) and all(str(line[i])[:1].isdigit() for line in body)
        out.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for line in body:
        out.add_row(*(Text(str(cell)) for cell in line))
    console().print(out)


def feature_names(result: Verification) -> list[str]:
    """The names of the features, or their numbers."""
    return list(result.feature_names or (f"feature {f}" for f in range(result.X.shape[1])))


def in_words(result: Verification, row: int) -> str:
    """The counterexample of a row: what changes, and into what."""
    witness = result.witness(row)
    assert witness is not None
    where = "near row" if witness.is_nearby else "row"
    return f"{where} {row}: {witness.in_words()} turns {witness.label} into {witness.attacked_label}"
