"""`treeproof suggest`: an attacker and relations to begin with, from a table."""

from __future__ import annotations

import click
from click.core import ParameterSource

from treeproof.cli import screen
from treeproof.cli.options import Source, takes
from treeproof.cli.outputs import Outputs


@click.command()
@takes(Source)
@click.option("--out", metavar="FILE", help="Where attacker and relations go: JSON to edit, for verify --threat.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="The most relations of each kind.",
)
def suggest(source: Source, out: str | None, limit: int) -> None:
    """What DATA says about its columns: an attacker to begin with, and relations that hold in every row.

    \b
    treeproof suggest train.csv --label y --out threat.json
    \b
    Look at what is proposed, and remove from the file what is not so:
    only you know what an attacker can reach, and which relations must hold.
    """
    import treeproof as tp
    from treeproof.threat.threat_file import write_threat

    outputs = Outputs({"--out": out}, {"DATA": source.file}, {"--out": (".json",)})
    table = source.table()
    chosen = click.get_current_context().get_parameter_source("label") is not ParameterSource.DEFAULT
    left_out = (source.label, *source.dropped) if chosen or source.label in table.columns else source.dropped
    columns = table.own_columns(left_out)
    rows = columns if table.named else dict(enumerate(columns.values()))
    without = f", without {', '.join(left_out)}" if left_out else ""
    screen.say(f"data       {source.file}: {len(table):,} rows, {len(columns)} columns{without}")
    proposal = tp.suggest_attacker(rows)
    relations = tp.suggest_relations(rows, limit=limit)
    screen.say()
    screen.table("an attacker to begin with", proposal.HEAD, proposal.lines)
    screen.say(proposal.remark)
    screen.say()
    if relations:
        screen.table("relations to accept", relations.HEAD, relations.lines)
    for line in (relations.remark, *relations.notes):
        screen.say(line)
    remarks = [proposal.remark, relations.remark, *(f"{one.text}: {one.support}" for one in relations)]
    outputs.save(out, lambda file: write_threat(file, proposal.attacker, relations.relations, remarks))
    outputs.finish()
