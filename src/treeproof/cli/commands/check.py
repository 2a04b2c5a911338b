"""`treeproof check`: checks evidence from a file again, in plain Python."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import click

from treeproof.cli import screen
from treeproof.cli.options import jobs_option, load, model_options
from treeproof.errors import InvalidInput, SoundnessError

if TYPE_CHECKING:
    from treeproof import Ensemble, ProofCheck, Verification

MOST_REASONS = 20
"""Reasons why proofs do not hold, or are not there, which are listed, at most."""


@click.command()
@model_options
@click.argument("evidence")
@click.option("--sample", type=int, metavar="N", help="Only N rows or boxes, drawn at random; plain Python is slow.")
@click.option("--seed", type=int, metavar="N", help="Draws the same ones again; else nobody can tell which before.")
@click.option("--proofs", metavar="FILE", help="What `verify` or `map` wrote; without it, proofs are not checked.")
@click.option("--note", is_flag=True, help="With --proofs: write into the result how many of them were checked.")
@jobs_option
def check(
    evidence: str,
    sample: int | None,
    seed: int | None,
    proofs: str | None,
    note: bool,
    jobs: int,
    max_bytes: int,
    **model: Any,
) -> None:
    """Does the EVIDENCE, a result (--json), a map (.tpm) or cheapest attacks, hold for MODEL?

    It is checked by the definitions, without the engines.

    \b
    treeproof check model.json result.json
    treeproof check model.json result.json --proofs proofs.tpp
    treeproof check model.json model.tpm --proofs boxes.tpp
    """
    import treeproof as tp
    from treeproof import check as plain
    from treeproof.check.objects import drawn
    from treeproof.check.proofs import Asked, attacks_in

    if seed is not None and sample is None:
        raise InvalidInput("--seed needs --sample, the number of rows or boxes to draw")
    if note and (proofs is None or sample is not None):
        raise InvalidInput("--note needs --proofs, and no --sample: a result says how many of all its proofs hold")
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
    if attacks_in(evidence, max_bytes) is not None:
        if proofs is None or sample is not None or note:
            raise InvalidInput(f"{evidence} holds cheapest attacks; they take --proofs FILE, and no --sample or --note")
        _say_proofs(tp.check_proofs(ensemble, evidence, proofs, n_jobs=jobs))
        return
    result = _result(evidence, ensemble, max_bytes)
    if proofs is not None:
        Asked.of(ensemble, result, proofs)  # before anything is checked that takes long
    counts = plain.check_verification(ensemble, result, sample, seed)
    del counts["proofs"]
    without = counts.pop("proofs not checked")
    rows = len(result) if sample is None else min(sample, len(result))
    screen.say(f"holds      {rows} of {len(result)} rows: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    _say_drawn(sample, given, seed)
    if proofs is None and without:
        screen.say(f"unchecked  {without} proofs; --proofs FILE checks them, if `treeproof verify` wrote it")
    if proofs is not None:
        which = None if sample is None else drawn(len(result), sample, seed).tolist()
        found = tp.check_proofs(ensemble, result, proofs, rows=which, n_jobs=jobs)
        if note and not found.interrupted:
            found.noted_in(result).to_json(evidence)
        _say_proofs(found)


def _result(evidence: str, ensemble: Ensemble, max_bytes: int) -> Verification:
    """The result in a file, if it is one of this model."""
    import treeproof as tp

    result = tp.Verification.from_json(evidence, max_bytes=max_bytes)
    if result.X.shape[1] != ensemble.n_features:
        raise InvalidInput(
            f"{evidence} has rows of {result.X.shape[1]} features, but the model takes {ensemble.n_features}"
        )
    if result.fingerprint != ensemble.fingerprint.hex():
        raise InvalidInput(f"{evidence} was made for another model, or with other --voting, --threshold or --classes")
    return result


def _say_proofs(found: ProofCheck) -> None:
    """Says of how many rows the proofs hold, and which others there are and why; SoundnessError if some do not hold.

    Ends with 1 if some are missing.
    """
    from treeproof.check.proofs import by_reason

    counts = found.counts
    percent = 100 * counts.checked // counts.proved if counts.proved else 100
    screen.say(
        f"proofs     {counts.checked} of {counts.proved} proved rows ({percent}%) checked by treeproof {found.version}"
    )
    for word, reasons in (("rejected", found.rejected), ("unchecked", found.unchecked)):
        said = by_reason(reasons)
        for rows, why in said[:MOST_REASONS]:
            screen.say(f"{word:10} {rows}: {why}")
        if len(said) > MOST_REASONS:
            screen.say(f"{word:10} and rows with {len(said) - MOST_REASONS} other reasons")
    if found.rejected:
        row, why = next(iter(found.rejected.items()))
        raise SoundnessError(f"{len(found.rejected)} proofs do not hold; the first is that of row {row}: {why}")
    if found.interrupted:
        raise KeyboardInterrupt
    if found.unchecked:
        click.get_current_context().exit(1)


def _say_drawn(sample: int | None, given: int | None, seed: int) -> None:
    """Says whether somebody could have known what would be checked."""
    if sample is not None and given is None:
        screen.say(f"sample     drawn from the operating system's randomness; --seed {seed} draws it again")
    elif sample is not None:
        screen.say(f"sample     drawn with --seed {seed}: whoever knew that could tell what would be checked")
