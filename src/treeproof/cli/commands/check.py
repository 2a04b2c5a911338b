"""`treeproof check`: checks evidence from a file again, in plain Python."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from treeproof.cli import screen
from treeproof.cli.options import ModelFile, argument, jobs_option, option, takes
from treeproof.errors import InvalidInput, SoundnessError

if TYPE_CHECKING:
    from treeproof import Ensemble, ProofCheck, Verification

MOST_REASONS = 20
"""Reasons why proofs do not hold, or are not there, which are listed, at most."""


@dataclass(frozen=True)
class CheckOptions:
    """What is checked, and how much of it."""

    evidence: str = argument()
    sample: int | None = option(
        type=int, metavar="N", help="Only N rows or boxes, drawn at random; plain Python is slow."
    )
    seed: int | None = option(
        type=int, metavar="N", help="Draws the same ones again; else nobody can tell which before."
    )
    proofs: str | None = option(
        metavar="FILE", help="What `verify` or `map` wrote, which proves what is called proved."
    )
    no_proofs: bool = option(is_flag=True, help="Exit with 0 although nothing that is called proved was checked.")
    note: bool = option(is_flag=True, help="With --proofs: write into the result how many of them were checked.")
    jobs: int = jobs_option()


@click.command()
@takes(ModelFile, CheckOptions)
def check(model: ModelFile, asked: CheckOptions) -> None:
    """Does the EVIDENCE, a result (--json), a map (.tpm) or cheapest attacks, hold for MODEL?

    It is checked by the definitions, without the engines.

    \b
    treeproof check model.json result.json
    treeproof check model.json result.json --proofs proofs.tpp
    treeproof check model.json model.tpm --proofs boxes.tpp
    """
    import treeproof as tp
    from treeproof.check.objects import checked_rows
    from treeproof.check.proofs import Asked, attacks_in, by_reason
    from treeproof.check.results import NO_PROOFS, in_words

    sample, note = asked.sample, asked.note
    if asked.seed is not None and sample is None:
        raise InvalidInput("--seed needs --sample, the number of rows or boxes to draw")
    if note and (asked.proofs is None or sample is not None):
        raise InvalidInput("--note needs --proofs, and no --sample: a result says how many of all its proofs hold")
    if asked.no_proofs and asked.proofs is not None:
        raise InvalidInput("--no-proofs and --proofs FILE are opposites; give one of them")
    seed = secrets.randbits(64) if asked.seed is None else asked.seed
    ensemble = model.load()
    if asked.evidence.endswith(".tpm"):
        _say_drawn(asked, seed)
        _check_map(asked, ensemble, seed)
        return
    if attacks_in(asked.evidence, model.max_bytes) is not None:
        if asked.proofs is None or sample is not None or note:
            raise InvalidInput(
                f"{asked.evidence} holds cheapest attacks; they take --proofs FILE, and no --sample or --note"
            )
        _say_proofs(tp.check_proofs(ensemble, asked.evidence, asked.proofs, n_jobs=asked.jobs))
        return
    result = _result(asked.evidence, ensemble, model.max_bytes)
    if asked.proofs is not None:
        Asked.of(ensemble, result, asked.proofs)  # before anything is checked that takes long
    question, found, rows = checked_rows(ensemble, result, sample, seed)
    labels = f"{len(rows)} labels and {found.counterexamples} counterexamples"
    screen.say(f"holds      {labels}, of {len(rows)} of {len(result)} rows")
    _say_drawn(asked, seed)
    checked = None
    if asked.proofs is not None:
        checked = tp.check_proofs(ensemble, result, asked.proofs, rows=rows, n_jobs=asked.jobs)
        if note and not checked.interrupted:
            checked.noted_in(result).to_json(asked.evidence)
        found.checked += checked.checked
    for line in in_words(question, found, rows):
        screen.say(f"follows    {line}")
    bare = {row: why for row, why in found.unchecked.items() if why != NO_PROOFS}
    for each in by_reason(bare):
        screen.say("unchecked  {}: {}".format(*each))
    if checked is not None:
        _say_proofs(checked)
    else:
        _say_unproved(int(result.is_proved[rows].sum()), "rows that are called proved", asked.no_proofs)
    if bare:
        click.get_current_context().exit(1)


def _check_map(asked: CheckOptions, ensemble: Ensemble, seed: int) -> None:
    """Checks a map, and says how many of its boxes have proofs that hold."""
    import treeproof as tp

    smap = tp.StabilityMap.load(asked.evidence, ensemble)
    proved = tp.check.check_map(ensemble, smap.attacker, smap, asked.sample, seed, asked.proofs)
    decided = smap.n_boxes - smap.counts[tp.Status.OPEN]
    screen.say("holds      all boxes tile the space")
    screen.say(f"proofs     {proved} of {decided} boxes that are called stable or unstable were checked")
    left = min(decided, asked.sample or decided) - proved
    _say_unproved(left, "boxes that are called stable or unstable", asked.no_proofs)


def _say_unproved(left: int, what: str, is_meant: bool) -> None:
    """Says that nothing was checked of what is called proved; ends with 1, unless that was asked for."""
    if left:
        screen.say(f"unchecked  {left} {what}: they may be wrong; --proofs FILE checks them, if it has their proofs")
    if left and not is_meant:
        screen.say("FAILED     not everything that is called proved was checked (--no-proofs: that is meant)")
        click.get_current_context().exit(1)


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


def _say_drawn(asked: CheckOptions, seed: int) -> None:
    """Says whether somebody could have known what would be checked."""
    if asked.sample is not None and asked.seed is None:
        screen.say(f"sample     drawn from the operating system's randomness; --seed {seed} draws it again")
    elif asked.sample is not None:
        screen.say(f"sample     drawn with --seed {seed}: whoever knew that could tell what would be checked")
