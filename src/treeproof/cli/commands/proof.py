"""`treeproof proof`: what is in a file of proofs, one proof for a person to read, and one for another checker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from treeproof.cli import screen
from treeproof.errors import InvalidInput

if TYPE_CHECKING:
    from treeproof.check.proofs import Asked


@click.group()
def proof() -> None:
    """Which rows have proofs, and how does one go? `treeproof check --proofs` checks them."""


@proof.command("list")
@click.argument("proofs")
def list_proofs(proofs: str) -> None:
    """Lists the rows, or boxes of a map, in PROOFS (.tpp), how many bytes each proof takes, and rows without one."""
    from treeproof.check.proofs import open_proofs

    file = open_proofs(proofs)
    one, several = ("box", "boxes") if "map" in file.header else ("row", "rows")
    sizes = [length for _, length in file.rows.values()]
    made = file.header.get("treeproof", "?")
    screen.say(f"proofs     {len(sizes)} of {sum(sizes):,} bytes, written by treeproof {made}")
    if sizes:
        lines = [(row, f"{length:,}") for row, (_, length) in sorted(file.rows.items())]
        screen.table(f"{several} with a proof", (one, "bytes"), lines)
    for row, why in sorted(file.without.items()):
        screen.say(f"without    {one} {row}: {why}")


@proof.command("show")
@click.argument("model")
@click.argument("result")
@click.argument("proofs")
@click.argument("row", type=int)
@click.option("--depth", type=click.IntRange(min=1), metavar="N", help="Only so many cuts deep.")
def show(model: str, result: str, proofs: str, row: int, depth: int | None) -> None:
    """Prints how PROOFS (.tpp) prove ROW, counted from 0: cuts, bounds, sums, and what closes each box.

    \b
    treeproof proof show model.json result.json proofs.tpp 17 --depth 3
    """
    from treeproof.check.shown import show_proof

    asked = _asked(model, result, proofs, row)
    label = asked.result["predicted"][row]
    screen.say(f"row {row}, {label}, in {asked.proofs.rows[row][1]:,} bytes")
    for line in show_proof(asked.question, asked.proofs, row, depth):
        screen.say(line)


def _asked(model: str, result: str, proofs: str, row: int) -> Asked:
    """What is asked in files about a row that has a proof; InvalidInput if it has none."""
    from treeproof.check.proofs import Asked, open_proofs

    if "map" in open_proofs(proofs).header:
        raise InvalidInput(f"{proofs} proves boxes of a map; `proof list` lists them, and `check --proofs` checks them")
    asked = Asked.of(model, result, proofs)
    if row not in asked.proofs.rows:
        last = len(asked.result["X"]) - 1
        unknown = "it is not proved" if 0 <= row <= last else f"the result has rows 0 to {last}"
        raise InvalidInput(
            f"{asked.proofs.path.name} has no proof of row {row}: {asked.proofs.without.get(row, unknown)}"
        )
    return asked


@proof.command("export")
@click.argument("model")
@click.argument("result")
@click.argument("proofs")
@click.argument("row", type=int)
@click.option("--out", required=True, metavar="PREFIX", help="How the names of files begin.")
@click.option(
    "--neighbourhood",
    type=click.IntRange(min=0),
    metavar="K",
    help="The K-th ε of the result, from 1 on, or 0 for the row itself; else the first that has a proof.",
)
def export(model: str, result: str, proofs: str, row: int, out: str, neighbourhood: int | None) -> None:
    """Writes the proof of ROW, counted from 0, as VeriPB reads it: problems (.opb) and proofs (.pbp).

    There is one of each for every class that the attacker wants: PREFIX.CLASS.opb says that an attack gets it, and
    PREFIX.CLASS.pbp why none does. Only small proofs can be exported, without relations.

    \b
    treeproof proof export model.json result.json proofs.tpp 17 --out row_17
    """
    from treeproof.verification.pseudo_boolean import export_row

    asked = _asked(model, result, proofs, row)
    paths = export_row(asked.question, asked.proofs, row, neighbourhood, out)
    for problem, steps in zip(paths[::2], paths[1::2], strict=True):
        screen.say(f"wrote      {problem} and {steps}")
    screen.say(f"check      veripb {paths[0]} {paths[1]}")
    screen.say("           PyPI does not have VeriPB; docs/proofs.md says how exported proofs were checked")
