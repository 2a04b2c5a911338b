"""`treeproof explain`: why rows of a data file have their labels, and what would change them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, say_attacker
from treeproof.cli.options import (
    ModelFile,
    ModelRows,
    Source,
    jobs_option,
    listed,
    named_classes,
    option,
    place,
    raw_csv_option,
    relations_option,
    say_assumed,
    say_cut,
    seconds_option,
    takes,
)
from treeproof.cli.outputs import Outputs
from treeproof.errors import InvalidInput
from treeproof.files import write_whole

if TYPE_CHECKING:
    from treeproof import Attacker, Counterfactuals, Ensemble, Explanations
    from treeproof.results.asked import Kind

ENDINGS = {"--json": (".json",), "--csv": (".csv",), "--report": (".html", ".htm"), "--changes": (".json",)}
"""What the names of files that are written end in."""

KINDS = ("reason", "smallest", "contrastive")
ROWS, COLUMNS = 20, 12
"""How many rows and columns are printed."""


@dataclass(frozen=True)
class ExplanationKind:
    """Which explanations are wanted."""

    kind: Kind = option(
        type=click.Choice(KINDS),
        default="reason",
        show_default=True,
        help="Columns that are enough for the label, the fewest of them, or the fewest whose change can flip it.",
    )
    inflate: bool = option(is_flag=True, help="Widen values of a reason to the largest ranges and sets.")
    order: str = option(default="", metavar="COL,…", help="Columns wanted in reasons, the most wanted first.")
    missing: str = option(default="", metavar="COL,…", help="Values of these columns may become missing.")
    counterfactual: str | None = option(
        metavar="CLASS,…",
        help="Also find the cheapest change to one of these classes. The attacker is then whoever asks for it, and "
        "explanations are not against him; without --cost, every change of a column costs 1.",
    )


@dataclass(frozen=True)
class ExplainOptions:
    """Within which limits explanations are found, and where they go."""

    relations_file: str | None = relations_option()
    timeout: float | None = seconds_option(help="Seconds per row before it is left as it is.")
    max_seconds: float | None = seconds_option()
    jobs: int = jobs_option()
    report: str | None = option(metavar="FILE", help="Write a report, one HTML file that needs nothing else.")
    json_file: str | None = option("--json", metavar="FILE", help="Write every explanation, exactly.")
    changes: str | None = option(metavar="FILE", help="With --counterfactual: write every change as JSON, exactly.")
    csv_file: str | None = option("--csv", metavar="FILE", help="Write one line per row.")
    raw_csv: bool = raw_csv_option()


@click.command()
@takes(ModelFile, Source, ExplanationKind, AttackerChoice, ExplainOptions)
def explain(
    model: ModelFile, source: Source, wanted: ExplanationKind, choice: AttackerChoice, asked: ExplainOptions
) -> None:
    """Why does MODEL give the rows of DATA their labels, and what would change them? A label column is not needed.

    \b
    treeproof explain model.json applicants.csv --domain age=18:75
    treeproof explain model.json applicants.csv --kind smallest --inflate --json reasons.json
    treeproof explain model.json applicants.csv --counterfactual good --any purpose --delta amount=5000
    """
    import treeproof as tp

    if asked.changes is not None and wanted.counterfactual is None:
        raise InvalidInput("--changes goes with --counterfactual, the class that rows should have")
    if wanted.inflate and wanted.kind == "contrastive":
        raise InvalidInput("--inflate is for reasons; a contrastive set has no ranges")
    if wanted.inflate and choice.is_given and wanted.counterfactual is None:
        raise InvalidInput("--inflate goes without an attacker, who says how far values go")
    relations = choice.relations(asked.relations_file)
    written = {"--json": asked.json_file, "--csv": asked.csv_file, "--report": asked.report, "--changes": asked.changes}
    read = {"MODEL": model.path, "DATA": source.file, "--relations": asked.relations_file, **choice.files}
    outputs = Outputs(written, read, ENDINGS)
    rows = source.rows(model.load())
    limits: dict[str, Any] = {"timeout": asked.timeout, "max_seconds": asked.max_seconds, "n_jobs": asked.jobs}
    limits["progress"] = True
    attacker = _attacker(choice, source, rows, relations)
    _say_question(rows, source.file, attacker, choice, relations, wanted.counterfactual is not None)
    ensemble = rows.matched.ensemble
    to = named_classes(wanted.counterfactual, "--counterfactual", ensemble)
    against = attacker if wanted.counterfactual is None else None
    found = tp.explain(
        ensemble,
        rows.X,
        kind=wanted.kind,
        inflate=wanted.inflate,
        order=[place(name, ensemble) for name in listed(wanted.order)] or None,
        attacker=against,
        domain=None if against is not None else choice.domain_on(ensemble),
        missing=[place(name, ensemble) for name in listed(wanted.missing)] or None,
        relations=relations or None,
        **limits,
    )
    changed = None
    if to is not None and not found.interrupted:
        whoever = _with_prices(attacker or tp.Attacker(tp.ANY, domain=choice.domain_on(ensemble)), ensemble)
        changed = tp.counterfactual(ensemble, rows.X, to=to, attacker=whoever, relations=relations or None, **limits)
    # Files come first: whoever reads the output may be gone.
    outputs.save(asked.json_file, found.to_json)
    outputs.save(asked.csv_file, lambda file: found.to_csv(file, raw=asked.raw_csv))
    if changed is not None:
        outputs.save(asked.changes, changed.to_json)
    if asked.report:
        page = tp.report_html(ensemble, found, counterfactuals=changed)
        outputs.save(asked.report, lambda file: write_whole(file, page))
    show(found, changed)
    outputs.finish()
    if found.interrupted or (changed is not None and changed.interrupted):
        screen.say("stopped    before everything was found")
        raise KeyboardInterrupt


def _attacker(choice: AttackerChoice, source: Source, rows: ModelRows, relations: list[Any]) -> Attacker | None:
    """The attacker, if options describe one."""
    if not choice.is_given:
        if choice.goal is not None:
            raise InvalidInput("--goal is an attacker's; say what he may do, with --delta or --any")
        return None
    ensemble = rows.matched.ensemble
    return choice.attacker(ensemble, choice.reference(source, ensemble, rows.X), relations)


def _with_prices(attacker: Attacker, ensemble: Ensemble) -> Attacker:
    """The same who pays 1 for each column, unless he has costs: a budget that never binds says so."""
    from treeproof.verification.cheapest import moves_for_free

    return attacker.with_budget(ensemble.n_features) if moves_for_free(attacker) else attacker


def _say_question(
    rows: ModelRows,
    data: str,
    attacker: Attacker | None,
    choice: AttackerChoice,
    relations: list[Any],
    is_asking: bool,
) -> None:
    """Says what is asked, and of whom."""
    ensemble = rows.matched.ensemble
    screen.say(f"model      {ensemble}")
    screen.say(f"data       {data}: {len(rows.X)} rows")
    say_assumed(rows.matched)
    say_cut(ensemble)
    if attacker is not None:
        say_attacker(attacker, ensemble, choice, relations)
        if is_asking:
            screen.say("           this is whoever asks for another label; explanations are not against him")
    screen.announce_compilation()


def show(found: Explanations, changed: Counterfactuals | None) -> None:
    """Prints the first sentences, how often each column occurs, and what is assumed."""
    from treeproof.results.explanation_words import column_in_words
    from treeproof.results.markup import percent

    screen.say()
    for at, one in enumerate(found[:ROWS]):
        screen.say(f"{f'row {one.index}':<10} {one}")
        if changed is not None and (changed[at].changes or not changed[at].found):
            screen.say(f"{screen.INDENT}{changed[at]}")
    if len(found) > ROWS:
        screen.say(f"           and {len(found) - ROWS:,} more rows")
    screen.say()
    if len(found) > 1 and found.counts:
        counts = list(found.counts.items())[:COLUMNS]
        lines = [(column_in_words(name), n, percent(n / len(found))) for name, n in counts]
        screen.table(f"{found.in_short}, {found.seconds:.2f} s", ("column", "rows", "share"), lines)
    for sentence in found.assumptions:
        screen.say(f"assumed    {sentence}")
    for sentence in () if changed is None else changed.assumptions:
        screen.say(f"changes    {sentence}")
