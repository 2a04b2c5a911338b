"""`treeproof guard`: the label of a row where it is proved, "abstain" elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.options import (
    AttackerChoice,
    Source,
    attacker_options,
    data_options,
    jobs_option,
    load,
    model_options,
    raw_csv_option,
    say_assumed,
)
from treeproof.cli.outputs import Outputs
from treeproof.errors import InvalidInput
from treeproof.files import write_whole
from treeproof.results.csv_text import as_csv

if TYPE_CHECKING:
    from treeproof import Attacker, Ensemble
    from treeproof.tables.table import Table

ABSTAIN = "abstain"


@click.command()
@model_options
@data_options
@attacker_options
@click.option("--map", "map_file", metavar="FILE", help="A map of the model; it comes with its attacker.")
@click.option("--out", required=True, metavar="FILE", help="Where DATA goes as CSV, with one more column.")
@click.option("--column", default="prediction", show_default=True, metavar="NAME", help="The name of that column.")
@raw_csv_option
@click.option("--timeout", type=float, metavar="S", help="Seconds per row before abstaining.")
@jobs_option
def guard(
    model: str,
    voting: str | None,
    classes: str | None,
    allow_pickle: bool,
    confirm: bool,
    data: str,
    label: str,
    drop: str,
    max_bytes: int,
    map_file: str | None,
    out: str,
    column: str,
    raw_csv: bool,
    timeout: float | None,
    jobs: int,
    **attack: Any,
) -> None:
    """Predict the rows of DATA, but abstain wherever the attacker could change the answer.

    \b
    treeproof guard model.json new.csv --delta 0.05 --relative --ranges train.csv --out labelled.csv
    treeproof guard model.json new.csv --map model.tpm --out labelled.csv
    \f
    One parameter per option.
    """
    import treeproof as tp

    choice = AttackerChoice(**attack)
    outputs = Outputs({"--out": out}, {"MODEL": model, "DATA": data, "--map": map_file, **choice.files})
    ensemble = load(model, voting, classes, allow_pickle, confirm, max_bytes)
    source = Source(data, label, drop, max_bytes)
    rows = source.rows(ensemble)
    table, X, ensemble = rows.table, rows.X, rows.matched.ensemble
    if column in table.columns:
        raise InvalidInput(f"{data} already has a column {column!r}; choose another name with --column")
    smap = None if map_file is None else tp.StabilityMap.load(map_file, ensemble)
    if smap is not None and any(attack.values()):
        raise InvalidInput("a map comes with its attacker; leave out --map, or --delta and the like")
    attacker = _attacker(choice, source, ensemble) if smap is None else smap.attacker
    screen.announce_compilation()
    guarded = tp.GuardedClassifier(
        ensemble,
        attacker,
        mode="online" if smap is None else "map",
        stability_map=smap,
        timeout=timeout,
        n_jobs=jobs,
    ).fit()
    proved = guarded.is_proved(X)
    predicted = ensemble.predict(X)
    answers = [str(name) if known else ABSTAIN for name, known in zip(predicted.tolist(), proved, strict=True)]
    say_assumed(rows.matched)
    screen.say(f"attacker   {screen.cut(attacker)}")
    screen.say(f"answered   {int(proved.sum())} of {len(X)} rows, {proved.mean():.1%}; the others are {ABSTAIN!r}")
    if label in table.columns:
        right = predicted == table.labels(label, ensemble)
        screen.say(f"accuracy   {right.mean():.3f} without the guard")
        if proved.any():
            screen.say(f"           {right[proved].mean():.3f} of the answers; no attack can turn one into another")
    text = as_csv(_with_column(table, column, answers), raw_csv)
    outputs.save(out, lambda file: write_whole(file, text))
    outputs.finish()


def _attacker(choice: AttackerChoice, source: Source, ensemble: Ensemble) -> Attacker:
    """The attacker, but never scaled by the rows to label: a promise must not depend on which rows come together."""
    if choice.relative and choice.ranges is None:
        raise InvalidInput(
            "--relative needs --ranges FILE here: the data, such as training data, to take the ranges from"
        )
    return choice.attacker(ensemble, choice.reference(source, ensemble, None))


def _with_column(table: Table, name: str, values: list[str]) -> Iterator[Sequence[Any]]:
    """The lines of the table with one more column."""
    yield [*table.columns, name]
    columns = [[_plain(value) for value in column.tolist()] for column in table.columns.values()]
    yield from zip(*columns, values, strict=True)


def _plain(value: Any) -> Any:
    """Whole numbers without a decimal point; other values as they are."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
