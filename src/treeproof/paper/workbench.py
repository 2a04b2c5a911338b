"""What all experiments share: cells that are stored as they finish, tables, pictures and progress."""

from __future__ import annotations

import csv
import hashlib
import importlib.metadata
import io
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import treeproof as tp
from treeproof.files import obstacle, write_parts, write_whole

Cell = dict[str, Any]
"""The settings of one measurement, and later its results: a row of a table."""


@cache
def code_version() -> str:
    """Changes with the version of treeproof, its sources, and the libraries that results depend on."""
    digest = hashlib.sha256(tp.__version__.encode())
    folder = Path(tp.__file__).parent
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    for library in ("numpy", "scikit-learn"):
        digest.update(importlib.metadata.version(library).encode())
    return digest.hexdigest()[:16]


Measure = Callable[["Workbench", Cell], Cell]


@dataclass
class Workbench:
    """Where an experiment runs: its folder, its resources, and where it reports progress."""

    out: Path
    quick: bool = False
    data: Path | None = None
    """The folder with the data sets."""
    models: Path | None = None
    """The folder with the authors' TREANT forests, if there is one."""
    jobs: int = 2
    terminal: bool = False
    """Whether to draw a bar instead of printing lines."""
    say: Callable[[str], None] = field(default=lambda _: None)
    _under_way: tuple[Path, Cell] = field(init=False, default=(Path(), {}))
    """The file and the settings of the cell that is being measured."""

    def __post_init__(self) -> None:
        self._make(self.out)
        problem = obstacle(self.out / "cells.json")
        if problem:
            raise tp.InvalidInput(f"cannot write to {self.out}: {problem}")

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise tp.InvalidInput(f"cannot use the folder {folder}: {error.strerror}") from None

    def _store(self, file: Path, cell: Cell, found: Cell) -> None:
        self._make(file.parent)
        write_whole(file, json.dumps({"cell": cell, "found": found}, indent=1))

    # --- cells -------------------------------------------------------------------------------------------------------

    def rows(self, experiment: str, cells: Sequence[Cell], measure: Measure) -> list[Cell]:
        """Every cell with its results; those that an earlier run finished with this code are not measured again."""
        done: list[Cell] = []
        with self._progress(experiment, len(cells)) as advance:
            for cell in cells:
                file = self._file(experiment, cell)
                found, began = _stored(file, cell), time.perf_counter()
                if found is None:
                    self._under_way = file, cell
                    found = measure(self, cell)
                    self._store(file, cell, found)
                    for step in file.parent.glob(f"{file.stem}.*.json"):
                        step.unlink()  # part of the cell now
                    took = f"{time.perf_counter() - began:.1f} s"
                else:
                    took = "stored"
                done.append(cell | found)
                advance(f"{' '.join(str(value) for name, value in cell.items() if name != 'file')}: {took}")
        return done

    def step(self, name: str, measure: Callable[[], Cell]) -> Cell:
        """A part of the cell that is being measured, stored by itself, so that a killed run loses no more than that."""
        whole, cell = self._under_way
        file = whole.with_suffix(f".{name}.json")
        found = _stored(file, cell)
        if found is None:
            found = measure()
            self._store(file, cell, found)
        return found

    def _file(self, experiment: str, cell: Cell) -> Path:
        """The file of a cell; its name stands for everything that the results depend on."""
        settings = [code_version(), experiment, self.quick, self.jobs, cell]
        name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:24]
        return self.out / "cells" / experiment / f"{name}.json"

    @contextmanager
    def _progress(self, experiment: str, total: int) -> Iterator[Callable[[str], None]]:
        if not self.terminal:
            numbers = iter(range(1, total + 1))
            yield lambda text: self.say(f"{experiment} {next(numbers)}/{total}  {text}")
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn(f"{experiment:18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=total)
            yield lambda text: bar.update(task, advance=1, description=text)

    # --- tables and pictures -----------------------------------------------------------------------------------------

    def publish(
        self, name: str, title: str, rows: Sequence[Cell], draw: Callable[[Any], Any], parts: Sequence[str]
    ) -> None:
        """Writes the rows as a table, the picture of them, and a page that shows it below its paragraphs and tables."""
        self.table(name, rows)
        self.picture(name, draw)
        self.page(name, title, parts)

    def table(self, name: str, rows: Sequence[Cell]) -> None:
        """Writes the rows as CSV, with every column that any of them has."""
        columns = list(dict.fromkeys(column for row in rows for column in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.write(f"{name}.csv", text.getvalue())

    def page(self, name: str, title: str, parts: Sequence[str]) -> None:
        """Writes paragraphs and tables as Markdown, with the picture of the same name if there is one."""
        picture = [f"![{title}]({name}.svg)"] if (self.out / f"{name}.svg").exists() else []
        quick = ["Made with `--quick`: fewer models and samples than in the paper."] if self.quick else []
        self.write(f"{name}.md", "\n\n".join([f"# {title}", *quick, *parts, *picture]) + "\n")

    def picture(self, name: str, draw: Callable[[Any], Any]) -> None:
        """Writes the figure that `draw(pyplot)` returns as SVG and PNG; without matplotlib, it says so instead."""
        try:
            import matplotlib
        except ImportError:
            self.say(f"{name}: no picture, as matplotlib is missing; pip install 'treeproof[plots]'")
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        from treeproof.paper.style import STYLE

        with pyplot.rc_context(rc=STYLE):
            figure = draw(pyplot)
            for kind, settings in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 200})):
                content = io.BytesIO()
                figure.savefig(content, format=kind, **settings)
                write_parts(self.out / f"{name}.{kind}", [content.getvalue()])
            pyplot.close(figure)

    def write(self, name: str, text: str) -> None:
        """Writes a text file into the folder, whole or not at all."""
        write_whole(self.out / name, text)


def _stored(file: Path, cell: Cell) -> Cell | None:
    """What an earlier run found; None if there is no such file, or if it is not a whole one for this cell."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return content["found"] if content["cell"] == cell and isinstance(content["found"], dict) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def markdown(columns: Mapping[str, Callable[[Cell], str]], rows: Sequence[Cell]) -> str:
    """A Markdown table; `columns` maps the head of each column to what it shows of a row.

    >>> print(markdown({"ε": lambda row: str(row["epsilon"])}, [{"epsilon": 0.1}]))
    | ε |
    |---|
    | 0.1 |
    """
    lines = [list(columns), ["---"] * len(columns), *([show(row) for show in columns.values()] for row in rows)]
    return "\n".join(f"|{'|'.join(line)}|" if line[0] == "---" else f"| {' | '.join(line)} |" for line in lines)


def share(value: Any) -> str:
    """A share with three decimals, as in the paper; a dash if there is none."""
    return "–" if value is None or value == "" else f"{value:.3f}"


def between(low: Any, high: Any) -> str:
    """A range of shares; a dash if there is none."""
    return "–" if low is None else f"{low:.3f} – {high:.3f}"


def finished(result: Any) -> Any:
    """A result of treeproof, or KeyboardInterrupt if Ctrl-C ended it early, so that the cell is not stored."""
    if getattr(result, "interrupted", False) or getattr(result, "stopped", "") == "interrupted":
        raise KeyboardInterrupt
    return result
