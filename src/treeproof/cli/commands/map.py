"""`treeproof map`: the stable part of the whole feature space, as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.attackers import AttackerChoice, attacker_options, say_attacker
from treeproof.cli.options import (
    Source,
    csv_options,
    jobs_option,
    load,
    model_options,
    say_assumed,
    say_cut,
)
from treeproof.cli.outputs import Outputs
from treeproof.cli.stopping import Checkpoints

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from treeproof import StabilityMap


@click.command(name="map")
@model_options
@attacker_options
@click.option("--out", required=True, metavar="FILE", help="Where the map goes (.tpm).")
@click.option("--proofs", metavar="FILE", help="Where what proves its boxes goes (.tpp), for `treeproof check`.")
@click.option("--data", metavar="FILE", help="Rows whose surroundings are mapped first; also for --relative.")
@click.option("--label", default="label", show_default=True, metavar="COL", help="A column of --data to leave out.")
@click.option("--drop", default="", metavar="COL,…", help="More columns of --data that are not features.")
@csv_options
@click.option("--max-seconds", type=float, metavar="S", help="Stop after this time; the map is still sound.")
@click.option("--max-boxes", type=int, metavar="N", help="Stop at this many boxes.")
@jobs_option
@click.option("--resume", is_flag=True, help="Go on from the map in --out.")
def map_command(
    model: str,
    voting: str | None,
    threshold: float | None,
    classes: str | None,
    allow_pickle: bool,
    confirm: bool,
    out: str,
    proofs: str | None,
    data: str | None,
    label: str,
    drop: str,
    separator: str | None,
    decimal: str,
    max_bytes: int,
    max_seconds: float | None,
    max_boxes: int | None,
    jobs: int,
    resume: bool,
    **attack: Any,
) -> None:
    """Where is MODEL stable, whatever the attacker does and whatever the data? For small forests.

    \b
    treeproof map model.json --delta 0.03 --one-sided --budget 1 --out model.tpm --max-seconds 60
    \f
    One parameter per option. Long because of them: they take a third of the lines.
    """
    import treeproof as tp

    choice = AttackerChoice(**attack)
    choice.refuse_relations("map")
    inputs = {"MODEL": model, "--data": data, **choice.files}
    outputs = Outputs({"--out": out, "--proofs": proofs}, inputs, {"--out": (".tpm",), "--proofs": (".tpp",)})
    ensemble = load(model, voting, threshold, classes, allow_pickle, confirm, max_bytes)
    say_cut(ensemble)
    source = Source(data or "", label, drop, separator, decimal, max_bytes)
    read = None if data is None else source.rows(ensemble)
    rows = None if read is None else read.X
    if read is not None:
        ensemble = read.matched.ensemble
        say_assumed(read.matched)
    attacker = choice.attacker(ensemble, choice.reference(source, ensemble, rows))
    say_attacker(attacker, ensemble, choice)
    checkpoints = Checkpoints(Path(out))
    smap = tp.StabilityMap.build(
        ensemble,
        attacker,
        order="volume" if rows is None else rows,
        max_seconds=max_seconds,
        max_boxes=max_boxes,
        n_jobs=jobs,
        progress=True,
        resume=tp.StabilityMap.load(out, ensemble, attacker) if resume and Path(out).exists() else None,
        checkpoint=lambda now: checkpoints.save(now.save),
    )
    outputs.save(out, smap.save)
    outputs.save(proofs, smap.prove)
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
