"""What several commands need: a model, data, an attacker and neighbourhoods, as options and as objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from treeproof.cli import screen
from treeproof.errors import InvalidInput
from treeproof.files import MAX_BYTES
from treeproof.visible import shortened

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import Attacker, Ensemble
    from treeproof.tables.chunks import RowFiles
    from treeproof.tables.csv_files import CsvStyle
    from treeproof.tables.table import Matched, Table

MAX_JOBS = 10_000
"""More workers than any machine runs."""

F = TypeVar("F", bound=Callable[..., Any])


def _chain(*options: Callable[[F], F]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def model_options(command: F) -> F:
    """Adds MODEL, and how to read it."""
    return _chain(
        click.argument("model"),
        click.option(
            "--voting", type=click.Choice(["soft", "hard"]), help="How a forest votes; soft is scikit-learn's."
        ),
        click.option(
            "--threshold", type=float, metavar="P", help="Of two classes, the second from this probability on."
        ),
        click.option("--classes", metavar="A,B,…", help="Names for the model's classes, in its order."),
        click.option(
            "--allow-pickle", is_flag=True, help="Read a pickle; it can run any code, so only if you trust it."
        ),
        click.option(
            "--confirm", is_flag=True, help="Load the model with its own library too, and compare labels first."
        ),
        max_bytes_option,
    )(command)


def data_options(command: F) -> F:
    """Adds DATA, and which of its columns are what."""
    return _chain(
        click.argument("data", metavar="DATA"),
        click.option("--label", default="label", show_default=True, metavar="COL", help="The column with the labels."),
        click.option("--drop", default="", metavar="COL,…", help="Columns that are neither features nor the label."),
        csv_options,
    )(command)


def csv_options(command: F) -> F:
    """Adds how CSV files are written."""
    return _chain(
        click.option(
            "--separator",
            metavar="C",
            help="What separates values in CSV files, such as ';' or tab; a comma or, with --decimal ',', a semicolon.",
        ),
        click.option(
            "--decimal", type=click.Choice([".", ","]), default=".", help="What stands before decimals in CSV files."
        ),
    )(command)


def max_bytes_option(command: F) -> F:
    """Adds how large files may be."""
    return click.option(
        "--max-bytes",
        type=click.IntRange(min=1),
        default=MAX_BYTES,
        show_default=True,
        metavar="N",
        help="The most memory that the content of a file may take.",
    )(command)


def jobs_option(command: F) -> F:
    """Adds how many workers there are."""
    return click.option(
        "--jobs",
        type=click.IntRange(max=MAX_JOBS),
        default=-1,
        show_default="all cores",
        metavar="N",
        help="How many workers.",
    )(command)


def chunk_rows_option(command: F) -> F:
    """Adds how many rows are in memory at a time, where results are written in parts."""
    return click.option(
        "--chunk-rows",
        type=click.IntRange(min=1),
        metavar="N",
        help="With a folder as --out: rows in memory at a time, for each worker (10,000).",
    )(command)


def raw_csv_option(command: F) -> F:
    """Adds that CSV output is written as it is."""
    return click.option(
        "--raw-csv", is_flag=True, help="Do not put an apostrophe before text that a spreadsheet takes for a formula."
    )(command)


def attacker_options(command: F) -> F:
    """Adds who may change the input: one of --delta, --attacker, --l0 or --norm."""
    return _chain(
        click.option(
            "--delta", metavar="D", help="Moves features by up to D: one number, or name=D,name=D,… or name=any."
        ),
        click.option("--one-sided", is_flag=True, help="With --delta: may only lower values, as in the paper."),
        click.option("--budget", type=int, metavar="N", help="With --delta: moves at most N features at a time."),
        click.option("--attacker", "attacker_file", metavar="FILE", help="An attacker as JSON (Attacker.to_json)."),
        click.option("--l0", type=int, metavar="K", help="Sets at most K features to any values."),
        click.option("--norm", type=float, metavar="P", help="Moves within --radius in the Lp norm: 1, 2, … or inf."),
        click.option("--radius", type=float, metavar="R", help="The radius of --norm."),
        click.option("--scale", metavar="U", help="With --norm: divides distances by units: one, or name=U,name=U,…"),
        click.option("--only", default="", metavar="COL,…", help="The only features that the attacker can touch."),
        click.option("--relative", is_flag=True, help="D and ε are fractions of each feature's range in the data."),
        click.option("--ranges", metavar="FILE", help="With --relative: the data to take ranges from, if not DATA."),
    )(command)


def listed(text: str) -> tuple[str, ...]:
    """The entries of a comma-separated list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def load(
    model: str,
    voting: Any,
    threshold: float | None,
    classes: str | None,
    allow_pickle: bool,
    confirm: bool,
    max_bytes: int,
) -> Ensemble:
    """The model in a file, with its classes renamed if wanted; says what was confirmed, if that was."""
    from treeproof.importers.registry import load_and_confirm

    names = None if classes is None else listed(classes)
    ensemble, confirmation = load_and_confirm(
        model,
        voting=voting,
        threshold=threshold,
        classes=names,
        allow_pickle=allow_pickle,
        confirm=confirm,
        max_bytes=max_bytes,
    )
    if confirmation is not None:
        screen.say(f"confirmed  {confirmation}")
    return ensemble


@dataclass(frozen=True)
class AttackerChoice:
    """The options that describe an attacker, as given."""

    delta: str | None
    one_sided: bool
    budget: int | None
    attacker_file: str | None
    l0: int | None
    norm: float | None
    radius: float | None
    scale: str | None
    only: str
    relative: bool
    ranges: str | None

    @property
    def files(self) -> dict[str, str | None]:
        """The files that the options name."""
        return {"--attacker": self.attacker_file, "--ranges": self.ranges}

    @property
    def fraction(self) -> str:
        """What --relative applies to, as it was given."""
        return f"--delta {self.delta}" if self.delta is not None else str(self.attacker_file)

    def reference(
        self, source: Source, ensemble: Ensemble, X: npt.NDArray[np.float64] | None
    ) -> npt.NDArray[np.float64] | None:
        """The rows whose ranges --relative refers to: those of --ranges, read like the data, else X."""
        if self.ranges is not None and not self.relative:
            raise InvalidInput("--ranges needs --relative")
        return X if self.ranges is None else replace(source, file=self.ranges).rows(ensemble).X

    def attacker(self, ensemble: Ensemble, X: npt.NDArray[np.float64] | None) -> Attacker:
        """The attacker on this model; with --relative, scaled by the ranges of these rows."""
        import treeproof as tp

        ways = {
            "--delta": self.delta,
            "--attacker": self.attacker_file,
            "--l0": self.l0,
            "--norm": self.norm,
        }
        given = [name for name, value in ways.items() if value is not None]
        if len(given) != 1:
            said = f"got {' and '.join(given)}" if given else "got none"
            raise InvalidInput(f"give exactly one of {', '.join(ways)} to say what the attacker can do; {said}")
        if self.delta is None and (self.one_sided or self.budget is not None):
            raise InvalidInput(f"--one-sided and --budget go with --delta, not with {given[0]}")
        if (self.norm is None) != (self.radius is None):
            raise InvalidInput("--norm and --radius go together, as in --norm 2 --radius 0.1")
        if self.norm is None and self.scale is not None:
            raise InvalidInput(f"--scale goes with --norm, not with {given[0]}")
        features = tuple(place(name, ensemble) for name in listed(self.only)) or None
        if self.attacker_file is not None:
            if features is not None:
                raise InvalidInput("--only goes with --delta, --l0 and --norm; an attacker file names its own features")
            attacker = tp.Attacker.from_json(self.attacker_file)
        elif self.l0 is not None:
            return tp.Attacker.l0(self.l0, features=features)
        elif self.norm is not None and self.radius is not None:
            if self.relative:
                raise InvalidInput("--relative needs a reach per feature: use --delta, or a radius in the data's units")
            units = None if self.scale is None else number_or_by_name(self.scale, "--scale", ensemble)
            return tp.Attacker.lp(self.norm, self.radius, features=features, scale=units)
        else:
            attacker = self._interval_attacker(features, ensemble)
        return _scaled(attacker, ensemble, ranges(X)) if self.relative else attacker

    def by_position(self, names: list[str], X: npt.NDArray[np.float64]) -> Attacker:
        """The attacker on columns with these names, before there is a model: features by position, not by name."""
        import numpy as np

        from treeproof.model.builder import blank_ensemble

        blank = blank_ensemble(len(names), [0, 1], names)
        attacker = self.attacker(blank, X)
        return attacker if attacker.power is not None else _scaled(attacker, blank, np.ones(len(names)))

    def _interval_attacker(self, features: tuple[int | str, ...] | None, ensemble: Ensemble) -> Attacker:
        import treeproof as tp

        assert self.delta is not None
        reach = number_or_by_name(self.delta, "--delta", ensemble)
        if features is not None:
            if isinstance(reach, dict):
                raise InvalidInput("--delta by name already says which features can be touched; leave --only out")
            reach = dict.fromkeys(features, reach)

        def interval(size: float) -> tuple[float, float]:
            if not size >= 0:
                raise InvalidInput(f"--delta must be at least 0, got {size}")
            return (-size, 0.0 if self.one_sided else size)

        if isinstance(reach, dict):
            categories = dict(ensemble.categories)
            sizes = {
                # There is no up and down between values of a category.
                name: tp.ANY if size == math.inf and ensemble.feature_index(name) in categories else interval(size)
                for name, size in reach.items()
            }
            return tp.Attacker(sizes, budget=self.budget)
        return tp.Attacker(interval(reach), budget=self.budget)


def place(name: str, ensemble: Ensemble) -> int | str:
    """A feature as users write it: by its name or, unless that is a name, by its position, from 0 on."""
    return int(name) if name.isdecimal() and name not in (ensemble.feature_names or ()) else name


def number_or_by_name(text: str, option: str, ensemble: Ensemble) -> float | dict[int | str, float]:
    """`0.03`, or `age=2,income=500`, or `0=2,4=500` by position."""
    if "=" not in text:
        return _number(text, option)
    found: dict[int | str, float] = {}
    for part in listed(text):
        name, is_pair, value = part.rpartition("=")
        if not is_pair:
            raise InvalidInput(f"{option} has {part!r} beside names; give one number for all, or name=number,…")
        feature = place(name.strip(), ensemble)
        if feature in found:
            raise InvalidInput(f"{option} names {name.strip()} twice; name it once")
        found[feature] = _number(value, option)
    return found


def _number(text: str, option: str) -> float:
    if option == "--delta" and text.strip().lower() == "any":
        return math.inf
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{option} must be a number, or name=number,…; got {text!r}") from None


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


def _scaled(attacker: Attacker, ensemble: Ensemble, by: npt.NDArray[np.float64]) -> Attacker:
    """The attacker by position, with every interval multiplied by its feature's factor."""
    import treeproof as tp

    if attacker.power is not None:
        raise InvalidInput("--relative needs a reach per feature, but the attacker in the file has a radius")
    threat = attacker.bind(ensemble)
    threat.require_plain("a reach in parts of the columns' ranges")
    ends = zip(threat.low.tolist(), threat.high.tolist(), by.tolist(), strict=True)
    intervals = [(low * r, high * r) for low, high, r in ends]
    domain = list(zip(threat.domain_low.tolist(), threat.domain_high.tolist(), strict=True))
    return tp.Attacker(
        intervals,
        costs=threat.cost.tolist() if len(set(threat.cost.tolist())) > 1 else int(threat.cost[0]),
        budget=attacker.budget,
        domain=None if attacker.domain is None else domain,
    )


@dataclass(frozen=True)
class Neighbourhood:
    """One ε as it is called, and as `verify` accepts it."""

    text: str
    value: Any


def neighbourhoods(
    text: str | None, relative: bool, X: npt.NDArray[np.float64] | None, ensemble: Ensemble
) -> list[Neighbourhood]:
    """The ε of --epsilon: comma-separated numbers, or one neighbourhood as name=number,…, called `name number, …`."""
    if text is None:
        return []
    parts = [text] if "=" in text else list(listed(text))
    if not parts:
        raise InvalidInput(f"--epsilon must be a number, or several separated by commas; got {text!r}")
    if len(set(parts)) != len(parts):
        raise InvalidInput(f"--epsilon has a number twice: {text}")
    return [Neighbourhood(_called(part, ensemble), _neighbourhood(part, relative, X, ensemble)) for part in parts]


def _called(text: str, ensemble: Ensemble) -> str:
    """What a neighbourhood is called: the number, or the names of columns with theirs."""
    size = number_or_by_name(text, "--epsilon", ensemble)
    if not isinstance(size, dict):
        return text
    names = screen.feature_names(ensemble.feature_names, ensemble.n_features)
    values = [part.rpartition("=")[2].strip() for part in listed(text)]
    return ", ".join(f"{names[ensemble.feature_index(f)]} {value}" for f, value in zip(size, values, strict=True))


def _neighbourhood(text: str, relative: bool, X: npt.NDArray[np.float64] | None, ensemble: Ensemble) -> Any:
    size = number_or_by_name(text, "--epsilon", ensemble)
    for one in size.values() if isinstance(size, dict) else [size]:
        if not one >= 0:
            raise InvalidInput(f"--epsilon must be at least 0, got {text}")
    if not relative:
        return size
    if not isinstance(size, dict):
        return tuple((size * ranges(X)).tolist())
    wide = ranges(X)
    return {name: one * float(wide[ensemble.feature_index(name)]) for name, one in size.items()}


class ModelRows(NamedTuple):
    """Rows of a file as a model takes them."""

    table: Table
    X: npt.NDArray[np.float64]
    matched: Matched


@dataclass(frozen=True)
class Source:
    """A data file, and how it is to be read."""

    file: str
    label: str
    drop: str
    separator: str | None
    decimal: str
    max_bytes: int

    @property
    def style(self) -> CsvStyle:
        """How the file is written, if it is a CSV file."""
        from treeproof.tables.csv_files import CsvStyle

        return CsvStyle.of(self.separator, self.decimal)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that are neither features nor the label."""
        return listed(self.drop)

    def files(self, chunk_rows: int | None) -> RowFiles:
        """The files that the name stands for, which may be a pattern, to be read in chunks."""
        from treeproof.tables.chunks import CHUNK_ROWS, RowFiles

        return RowFiles(self.file, chunk_rows or CHUNK_ROWS, self.max_bytes, self.style)

    def table(self) -> Table:
        """The whole table of the file."""
        from treeproof.tables.readers import read_table

        return read_table(self.file, self.max_bytes, self.style)

    def rows(self, ensemble: Ensemble) -> ModelRows:
        """The rows of the file, in the order of the model's features."""
        table = self.table()
        matched = table.matched(ensemble, self.label, self.dropped)
        return ModelRows(table, table.model_rows(matched.ensemble, matched.columns), matched)


def say_attacker(attacker: Attacker, ensemble: Ensemble, choice: AttackerChoice | None = None) -> None:
    """Says what the attacker may do to the columns of the model."""
    from treeproof.results.attacker_words import attacker_in_words

    names = screen.feature_names(ensemble.feature_names, ensemble.n_features)
    said = attacker_in_words(attacker, attacker.bind(ensemble), names, ensemble.categories)
    said = said.removeprefix("The attacker ").removesuffix(".")
    what = "" if choice is None or not choice.relative else f" ({choice.fraction} of each feature's range)"
    screen.say(f"attacker   {shortened(said, screen.MAX_CHARACTERS)}{what}")


def attacked_classes(text: str | None, ensemble: Ensemble) -> tuple[Any, ...] | None:
    """The classes of --actors, as the model has them."""
    if text is None:
        return None
    by_name = {str(label): label for label in ensemble.classes.tolist()}
    for name in listed(text):
        if name not in by_name:
            raise InvalidInput(f"--actors: the model has no class {name!r}; it has {', '.join(by_name)}")
    if not listed(text):
        raise InvalidInput(f"--actors must name classes, separated by commas; got {text!r}")
    return tuple(label for name, label in by_name.items() if name in listed(text))


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
