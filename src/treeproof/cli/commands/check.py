"""`treeproof check`: checks evidence from a file again, in plain Python."""

from __future__ import annotations

from typing import Any

import click

from treeproof.cli import screen
from treeproof.cli.options import load, model_options
from treeproof.errors import InvalidInput


@click.command()
@model_options
@click.argument("evidence")
@click.option("--sample", type=int, metavar="N", help="Only N rows or boxes, drawn at random; plain Python is slow.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which ones are drawn.")
def check(evidence: str, sample: int | None, seed: int, **model: Any) -> None:
    """Does the EVIDENCE, a result (--json) or a map (.tpm), hold for MODEL? By the definitions, without the engines.

    \b
    treeproof check model.json result.json
    treeproof check model.json model.tpm --sample 1000
    """
    import treeproof as tp
    from treeproof import check as plain

    if sample is not None and sample < 1:
        raise InvalidInput(f"--sample must be at least 1, got {sample}")
    ensemble = load(**model)
    if evidence.endswith(".tpm"):
        smap = tp.StabilityMap.load(evidence, ensemble)
        proved = plain.check_map(ensemble, smap.attacker, smap, sample, seed)
        screen.say(f"holds      {proved} of {smap.n_boxes} boxes proved again, and all boxes tile the space")
        return
    result = tp.Verification.from_json(evidence)
    if result.X.shape[1] != ensemble.n_features:
        raise InvalidInput(
            f"{evidence} has rows of {result.X.shape[1]} features, but the model takes {ensemble.n_features}"
        )
    if result.fingerprint != ensemble.fingerprint.hex():
        raise InvalidInput(f"{evidence} was made for another model, or with other --voting or --classes")
    counts = plain.check_verification(ensemble, result, sample, seed)
    rows = len(result) if sample is None else min(sample, len(result))
    screen.say(f"holds      {rows} of {len(result)} rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
