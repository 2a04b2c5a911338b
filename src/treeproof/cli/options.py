"""What several commands need: a model, data and neighbourhoods, as options and as objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from treeproof.cli import screen
from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import Ensemble
    from treeproof.tables.chunks import RowFiles
    from treeproof.tables.csv_files import CsvStyle
    from treeproof.tables.table import Matched, Table

MAX_JOBS = 10_000
"""More workers than any machine runs."""

T = TypeVar("T")
Command = Callable[..., Any]


def option(name: str = "", **settings: Any) -> Any:
    """A field of a record that is an option, named after it unless told; `settings` are those of click.option."""

    def add(own: str) -> Callable[[Command], Command]:
        return click.option(name or f"--{own.replace('_', '-')}", own, **settings)

    return field(metadata={"add": add})


def argument(**settings: Any) -> Any:
    """A field of a record that is an argument; `settings` are those of click.argument."""
    return field(metadata={"add": lambda own: click.argument(own, **settings)})


def takes(*records: type[Any]) -> Callable[[Command], Command]:
    """Adds the options of these records, in this order; the command gets one of each before its other options.

    What two records have in common is one option.
    """

    def add(command: Command) -> Command:
        @wraps(command)
        def called(**given: Any) -> Any:
            made = [record(**{one.name: given[one.name] for one in fields(record)}) for record in records]
            return command(*made, **{name: value for name, value in given.items() if name not in own})

        own = {one.name: one.metadata["add"] for record in records for one in fields(record)}
        for name in reversed(own):
            called = own[name](name)(called)
        return called

    return add


max_bytes_option = partial(
    option,
    type=click.IntRange(min=1),
    default=MAX_BYTES,
    show_default=True,
    metavar="N",
    help="The most memory that the content of a file may take.",
)
relations_option = partial(option, "--relations", metavar="FILE", help="Relations that valid rows keep, one per line.")
jobs_option = partial(
    option,
    type=click.IntRange(max=MAX_JOBS),
    default=-1,
    show_default="all cores",
    metavar="N",
    help="How many workers.",
)
chunk_rows_option = partial(
    option,
    type=click.IntRange(min=1),
    metavar="N",
    help="With a folder as --out: rows in memory at a time, for each worker (10,000).",
)
raw_csv_option = partial(
    option, is_flag=True, help="Do not put an apostrophe before text that a spreadsheet takes for a formula."
)
seconds_option = partial(option, type=float, metavar="S", help="Seconds for everything.")


def listed(text: str) -> tuple[str, ...]:
    """The entries of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class ModelFile:
    """MODEL, and how to read it."""

    path: str = argument(metavar="MODEL")
    voting: Any = option(type=click.Choice(["soft", "hard"]), help="How a forest votes; soft is scikit-learn's.")
    threshold: float | None = option(
        type=float, metavar="P", help="Of two classes, the second from this probability on."
    )
    classes: str | None = option(metavar="A,B,…", help="Names for the model's classes, in its order.")
    allow_pickle: bool = option(is_flag=True, help="Read a pickle; it can run any code, so only if you trust it.")
    confirm: bool = option(is_flag=True, help="Load the model with its own library too, and compare labels first.")
    max_bytes: int = max_bytes_option()

    def load(self) -> Ensemble:
        """The model, with its classes renamed if wanted; says what was confirmed, if that was."""
        from treeproof.importers.registry import load_and_confirm

        names = None if self.classes is None else listed(self.classes)
        ensemble, confirmation = load_and_confirm(**{**vars(self), "classes": names})
        if confirmation is not None:
            screen.say(f"confirmed  {confirmation}")
        return ensemble


def place(name: str, ensemble: Ensemble) -> int | str:
    """A feature as users write it: by its name or, unless that is a name, by its position, from 0 on."""
    return int(name) if name.isdecimal() and name not in (ensemble.feature_names or ()) else name


def number_or_by_name(text: str, option: str, ensemble: Ensemble) -> float | dict[int | str, float]:
    """`0.03`, or `age=2,income=500`, or `0=2,4=500` by position."""
    return one_or_by_name(text, option, ensemble, lambda number: as_number(number, option))


def one_or_by_name(text: str, option: str, ensemble: Ensemble, parse: Callable[[str], T]) -> T | dict[int | str, T]:
    """What `parse` makes of the text or, where it has names, of what stands behind each of them."""
    if "=" not in text:
        try:
            return parse(text)
        except InvalidInput as error:
            name, _, value = text.partition(":")
            meant = f"; did you mean {name}={value}?" if name in (ensemble.feature_names or ()) and value else ""
            raise InvalidInput(f"{error}{meant}") from None
    found: dict[int | str, T] = {}
    for feature, (value, *others) in by_name(text, option, ensemble).items():
        if others:
            raise beside_names(others[0], option)
        try:
            found[feature] = parse(value)
        except InvalidInput as error:
            raise InvalidInput(f"{error}, in {f'{feature}={value}'!r}") from None
    return found


def by_name(text: str, option: str, ensemble: Ensemble) -> dict[int | str, list[str]]:
    """What `age=2,job=car,radio` says of each feature: what has no name of its own belongs to the one before."""
    found: dict[int | str, list[str]] = {}
    for part in listed(text):
        name, is_pair, value = (each.strip() for each in part.rpartition("="))
        feature = place(name, ensemble)
        if is_pair and feature in found:
            raise InvalidInput(f"{option} names {name} twice; name it once")
        if is_pair:
            found[feature] = [value]
        elif found:
            found[next(reversed(found))].append(part)
        else:
            raise beside_names(part, option)
    return found


def beside_names(part: str, option: str) -> InvalidInput:
    """The error for what has no name where others have one."""
    return InvalidInput(f"{option} has {part!r} beside names; give one number for all, or name=number,…")


def as_number(text: str, option: str, form: str = "a number, or name=number,…") -> float:
    """The number that the text is; `form` says what the option looks like."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option} must be {form}; got {text!r}") from None


def ranges(X: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64]:
    """The highest value minus the lowest, for each feature."""
    import numpy as np

    if X is None:
        raise InvalidInput("--relative needs data to take the ranges from; name them with --ranges")
    known = np.where(np.isnan(X), -np.inf, X).max(axis=0), np.where(np.isnan(X), np.inf, X).min(axis=0)
    with np.errstate(over="ignore"):  # such a range is infinite
        size = np.where(known[0] >= known[1], known[0] - known[1], 0.0)
    if not (size > 0).any():
        raise InvalidInput(
            "no feature varies in the data, so fractions of its ranges are 0; give more rows with --ranges"
        )
    return size


class ModelRows(NamedTuple):
    """Rows of a file as a model takes them."""

    table: Table
    X: npt.NDArray[np.float64]
    matched: Matched


@dataclass(frozen=True)
class Source:
    """DATA, and which of its columns are what."""

    file: str = argument(metavar="DATA")
    label: str = option(default="label", show_default=True, metavar="COL", help="The column with the labels.")
    drop: str = option(default="", metavar="COL,…", help="Columns that are neither features nor the label.")
    separator: str | None = option(
        metavar="C",
        help="What separates values in CSV files, such as ';' or tab; a comma or, with --decimal ',', a semicolon.",
    )
    decimal: str = option(type=click.Choice([".", ","]), default=".", help="What stands before decimals in CSV files.")
    max_bytes: int = max_bytes_option()

    @property
    def style(self) -> CsvStyle:
        """How the file is written, if it is a CSV file."""
        from treeproof.tables.csv_files import CsvStyle

        return CsvStyle.of(self.separator, self.decimal)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that are neither features nor the label."""
        return listed(self.drop)

    def files(self, chunk_rows: int | None, keep: bool = False) -> RowFiles:
        """The files that the name stands for, which may be a pattern, to be read in chunks; `keep` keeps lines, too."""
        from treeproof.tables.chunks import CHUNK_ROWS, RowFiles

        return RowFiles(self.file, chunk_rows or CHUNK_ROWS, self.max_bytes, self.style, keep)

    def table(self, keep: bool = False) -> Table:
        """The whole table of the file."""
        from treeproof.tables.readers import read_table

        return read_table(self.file, self.max_bytes, self.style, keep)

    def rows(self, ensemble: Ensemble) -> ModelRows:
        """The rows of the file, in the order of the model's features."""
        table = self.table()
        matched = table.matched(ensemble, self.label, self.dropped)
        return ModelRows(table, table.model_rows(matched.ensemble, matched.columns), matched)


def named_classes(text: str | None, option: str, ensemble: Ensemble) -> tuple[Any, ...] | None:
    """The classes that an option names, as the model has them."""
    if text is None:
        return None
    from treeproof.model.written import Known

    classes = ensemble.classes.tolist()
    meant = {name: Known(classes).place(name) for name in listed(text)}
    for name, place in meant.items():
        if place is None:
            raise InvalidInput(f"{option}: the model has no class {name!r}; it has {', '.join(map(str, classes))}")
    if not meant:
        raise InvalidInput(f"{option} must name classes, separated by commas; got {text!r}")
    return tuple(label for place, label in enumerate(classes) if place in meant.values())


def say_actors(actors: tuple[Any, ...] | None) -> None:
    """Says whose rows are attacked, if not all are."""
    from treeproof.results.attacker_words import actors_in_words

    if actors is not None:
        said = actors_in_words(actors)
        screen.say(f"actors     {said[0].lower()}{said[1:].removesuffix('.')}")


def say_cut(ensemble: Ensemble) -> None:
    """Says where labels are cut, if not where the library cuts them."""
    if ensemble.decided:
        screen.say(f"cut        {ensemble.decision_text}")


def say_assumed(matched: Matched) -> None:
    """Says what the answer rests on besides the model and the data."""
    if not matched.by_position:
        return
    how = "by their numbers" if matched.by_number else "by position"
    first, last = matched.columns[0], matched.columns[-1]
    screen.say(f"columns    {how}: the model does not name its features; the first is {first!r}, the last {last!r}")
