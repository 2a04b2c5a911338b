"""`treeproof map`: the stable part of the whole feature space, as a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, say_attacker
from treeproof.cli.options import ModelFile, Source, jobs_option, option, say_assumed, say_cut, seconds_option, takes
from treeproof.cli.outputs import Outputs
from treeproof.cli.stopping import Checkpoints

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import StabilityMap


ENDINGS = {"--out": (".tpm",), "--proofs": (".tpp",)}
"""What the names of files that are written end in."""


@dataclass(frozen=True)
class MapFiles:
    """Where a map and its proofs go."""

    out: str = option(required=True, metavar="FILE", help="Where the map goes (.tpm).")
    proofs: str | None = option(metavar="FILE", help="Where what proves its boxes goes (.tpp), for `treeproof check`.")


@dataclass(frozen=True)
class MappedRows(Source):
    """Rows whose surroundings are mapped first, if there are any."""

    file: Any = option("--data", metavar="FILE", help="Rows whose surroundings are mapped first; also for --relative.")
    label: str = option(default="label", show_default=True, metavar="COL", help="A column of --data to leave out.")
    drop: str = option(default="", metavar="COL,…", help="More columns of --data that are not features.")


@dataclass(frozen=True)
class MapOptions:
    """How long a map is made."""

    max_seconds: float | None = seconds_option(help="Stop after this time; the map is still sound.")
    max_boxes: int | None = option(type=int, metavar="N", help="Stop at this many boxes.")
    jobs: int = jobs_option()
    resume: bool = option(is_flag=True, help="Go on from the map in --out.")


@click.command(name="map")
@takes(ModelFile, AttackerChoice, MapFiles, MappedRows, MapOptions)
def map_command(
    model: ModelFile, choice: AttackerChoice, files: MapFiles, source: MappedRows, asked: MapOptions
) -> None:
    """Where is MODEL stable, whatever the attacker does and whatever the data? For small forests.

    \b
    treeproof map model.json --delta 0.03 --one-sided --budget 1 --out model.tpm --max-seconds 60
    """
    import treeproof as tp

    choice.refuse_relations("map")
    inputs = {"MODEL": model.path, "--data": source.file, **choice.files}
    outputs = Outputs({f"--{name}": file for name, file in vars(files).items()}, inputs, ENDINGS)
    ensemble = model.load()
    say_cut(ensemble)
    read = None if source.file is None else source.rows(ensemble)
    rows = None if read is None else read.X
    if read is not None:
        ensemble = read.matched.ensemble
        say_assumed(read.matched)
    attacker = choice.attacker(ensemble, choice.reference(source, ensemble, rows))
    say_attacker(attacker, ensemble, choice)
    checkpoints = Checkpoints(Path(files.out))
    smap = tp.StabilityMap.build(
        ensemble,
        attacker,
        order="volume" if rows is None else rows,
        max_seconds=asked.max_seconds,
        max_boxes=asked.max_boxes,
        n_jobs=asked.jobs,
        progress=True,
        resume=tp.StabilityMap.load(files.out, ensemble, attacker)
        if asked.resume and Path(files.out).exists()
        else None,
        checkpoint=lambda now: checkpoints.save(now.save),
    )
    outputs.save(files.out, smap.save)
    outputs.save(files.proofs, smap.prove)
    screen.say(f"map        {smap}")
    counts = smap.counts
    share = None if rows is None else smap.shares(rows)
    lines = [
        (str(status), counts[status], *(() if share is None else (f"{share[status]:.3f}",))) for status in tp.Status
    ]
    screen.table("boxes", ("", "boxes") if share is None else ("", "boxes", "share of the rows"), lines)
    if rows is not None:
        _say_about_rows(smap, rows)
    if not smap.complete:
        screen.say("stopped    some boxes are open; go on with the same command and --resume")
    outputs.finish()
    if smap.interrupted:
        raise KeyboardInterrupt


def _say_about_rows(smap: StabilityMap, rows: npt.NDArray[np.float64]) -> None:
    """Says where most of the rows are stable, and how many of them a map has no answer for."""
    import numpy as np

    missing = np.isnan(rows)
    n = int(missing.any(axis=1).sum())
    if n:
        screen.say(
            f"missing    {n} of {len(rows)} rows have missing cells; a map has no answer for them, they are open"
        )
    low = np.where(missing, np.inf, rows).min(axis=0)
    high = np.where(missing, -np.inf, rows).max(axis=0)
    flat = np.flatnonzero(~(low < high))
    if len(flat):
        name = screen.feature_names(smap.ensemble.feature_names, len(low))[flat[0]]
        screen.say(f"stable     no rules: {name} has no range in the data, and a box of it no volume")
        return
    for rule in smap.rules(top=3, domain=list(zip(low.tolist(), high.tolist(), strict=True))):
        screen.say(f"stable     {rule}")
