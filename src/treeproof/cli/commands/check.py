"""`treeproof check`: checks evidence from a file again, in plain Python."""

from __future__ import annotations

import secrets
from typing import Any

import click

from treeproof.cli import screen
from treeproof.cli.options import load, model_options
from treeproof.errors import InvalidInput


@click.command()
@model_options
@click.argument("evidence")
@click.option("--sample", type=int, metavar="N", help="Only N rows or boxes, drawn at random; plain Python is slow.")
@click.option("--proofs", metavar="FILE", help="What `verify` or `map` wrote; without it, proofs are not checked.")
@click.option("--seed", type=int, metavar="N", help="Draws the same ones again; else nobody can tell which before.")
def check(
    evidence: str, sample: int | None, proofs: str | None, seed: int | None, max_bytes: int, **model: Any
) -> None:
    """Does the EVIDENCE, a result (--json) or a map (.tpm), hold for MODEL? By the definitions, without the engines.

    \b
    treeproof check model.json result.json --proofs proofs.tpp
    treeproof check model.json model.tpm --proofs boxes.tpp
    """
    import treeproof as tp
    from treeproof import check as plain

    if seed is not None and sample is None:
        raise InvalidInput("--seed needs --sample, the number of rows or boxes to draw")
    given, seed = seed, secrets.randbits(64) if seed is None else seed
    ensemble = load(max_bytes=max_bytes, **model)
    if evidence.endswith(".tpm"):
        smap = tp.StabilityMap.load(evidence, ensemble)
        proved = plain.check_map(ensemble, smap.attacker, smap, sample, seed, proofs)
        screen.say(f"holds      all boxes tile the space, and the proofs of {proved} of {smap.n_boxes} were checked")
        if proofs is None:
            screen.say("proofs     are checked with --proofs FILE, if `treeproof map` wrote one")
        _say_drawn(sample, given, seed)
        return
    result = tp.Verification.from_json(evidence, max_bytes=max_bytes)
    if result.X.shape[1] != ensemble.n_features:
        raise InvalidInput(
            f"{evidence} has rows of {result.X.shape[1]} features, but the model takes {ensemble.n_features}"
        )
    if result.fingerprint != ensemble.fingerprint.hex():
        raise InvalidInput(f"{evidence} was made for another model, or with other --voting, --threshold or --classes")
    counts = plain.check_verification(ensemble, result, sample, seed, proofs)
    rows = len(result) if sample is None else min(sample, len(result))
    screen.say(f"holds      {rows} of {len(result)} rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    if proofs is None and counts["proofs not checked"]:
        screen.say("proofs     are checked with --proofs FILE, if `treeproof verify` wrote one")
    _say_drawn(sample, given, seed)


def _say_drawn(sample: int | None, given: int | None, seed: int) -> None:
    """Says whether somebody could have known what would be checked."""
    if sample is not None and given is None:
        screen.say(f"sample     drawn from the operating system's randomness; --seed {seed} draws it again")
    elif sample is not None:
        screen.say(f"sample     drawn with --seed {seed}: whoever knew that could tell what would be checked")
