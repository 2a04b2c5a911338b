"""Decides rows: stability, resilience in every neighbourhood, and counterexamples that are short and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from treeproof.check.objects import Reach
from treeproof.errors import disbelieved
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.row_table import Refuted, RowTable
from treeproof.results.verdicts import Outcome, Witness
from treeproof.run import clock
from treeproof.threat.attacker import Attacker
from treeproof.threat.one_hot import ValidAround
from treeproof.verification.local_search import Decisions, Local
from treeproof.verification.proofs import RELATIONS, RowProofs
from treeproof.verification.request import RowTask
from treeproof.verification.valid_rows import ValidSearch, search_for
from treeproof.verification.witnesses import shorten

CHECKS = 1.0
"""Seconds after a deadline in which counterexamples are still checked. Most take no time at all."""


@dataclass(frozen=True, eq=False)
class Rows(RowTask):
    """A few rows to decide."""

    attacker: Attacker
    predicted: npt.NDArray[np.int64]
    """The index of the class that the model predicts for each row."""
    epsilons: tuple[ValidAround, ...]
    proof_limit: int = 0
    """The most bytes of a proof; 0: none are recorded."""


def decide_rows(ensemble: Ensemble, asked: Rows, proofs: RowProofs | None = None) -> RowTable:
    """All that the limits leave time to find out about the rows; proofs go to `proofs`, by the callers' numbers."""
    proofs = RowProofs() if proofs is None else proofs
    table = RowTable.unknown(asked.X, asked.predicted == asked.y, len(asked.epsilons))
    if asked.limits.is_over() or asked.limits.timeout == 0:
        return table
    local = search_for(ensemble, asked.threat, asked.limits, asked.proof_limit)
    decided = local.decide(asked.X, np.zeros(ensemble.n_features), asked.predicted)
    table.stability[:] = decided.outcome
    _note_proofs(proofs, 0, asked, np.arange(len(asked.X)), decided)
    refuted = np.flatnonzero(decided.outcome == Outcome.REFUTED)
    if len(refuted):
        table.refute_stability(refuted, decided.attacked[refuted])
    # A proof for a larger neighbourhood settles those inside it, and none lies inside a later one.
    order = sorted(
        range(len(asked.epsilons)), key=lambda k: sorted(asked.epsilons[k].sizes, reverse=True), reverse=True
    )
    for k in order:
        if local.limits.is_over():
            break
        _decide_resilience(table, local, asked, k, proofs)
    table.boxes = local.boxes
    found = np.flatnonzero(table.has_witness)
    if len(found):
        table.neighbour[found], table.attacked[found] = shorten(
            ensemble,
            local.shows,
            asked.X[found],
            table.neighbour[found],
            table.attacked[found],
            [group.features for group in asked.threat.relations.groups],
        )
        _attack_rows_themselves(table, asked)
        _check_reach(ensemble, asked, table)
    return table


def _note_proofs(proofs: RowProofs, which: int, asked: Rows, rows: npt.NDArray[np.int64], decided: Decisions) -> None:
    """Notes what proves these rows, or their neighbourhoods."""
    if asked.proof_limit:
        proved = np.flatnonzero(decided.outcome == Outcome.PROVED)
        found = [decided.proofs[i] for i in proved] if decided.proofs else [RELATIONS] * len(proved)
        proofs.add(which, asked.numbers[rows[proved]].tolist(), found)


def _decide_resilience(table: RowTable, local: Local | ValidSearch, asked: Rows, k: int, proofs: RowProofs) -> None:
    """Decides what is open in the k-th neighbourhood, and what follows for the others."""
    # An unstable row is settled; one whose stability is open cannot be resilient for sure, but can be refuted.
    open_rows = np.flatnonzero(table.resilience[k] == Outcome.UNKNOWN)
    if not len(open_rows):
        return
    decided = local.decide(asked.X[open_rows], asked.epsilons[k].sizes, asked.predicted[open_rows])
    table.resilience[k, open_rows] = decided.outcome
    _note_proofs(proofs, k + 1, asked, open_rows, decided)
    broken = decided.outcome == Outcome.REFUTED
    found, proved = open_rows[broken], open_rows[decided.outcome == Outcome.PROVED]
    table.refute_resilience(found, k, decided.neighbour[broken], decided.attacked[broken])
    table.stability[proved] = Outcome.PROVED
    for j, other in enumerate(asked.epsilons):
        if (other.sizes <= asked.epsilons[k].sizes).all():
            table.resilience[j, proved] = Outcome.PROVED
        if (other.sizes >= asked.epsilons[k].sizes).all():
            table.resilience[j, found] = Outcome.REFUTED


def _attack_rows_themselves(table: RowTable, asked: Rows) -> None:
    """Where no neighbour was needed, the row itself can be attacked, which its own search had no time to find."""
    unmoved = ((table.neighbour == asked.X) | np.isnan(asked.X)).all(axis=1)
    itself = np.flatnonzero((table.refuted == Refuted.RESILIENCE) & unmoved)
    both = itself[table.stability[itself] == Outcome.PROVED]
    if len(both):
        raise disbelieved("the search proved it stable and then found an attack on it", both)
    table.refute_stability(itself, table.attacked[itself])


def _check_reach(ensemble: Ensemble, asked: Rows, table: RowTable) -> None:
    """Decides with rational numbers whether the attacker can reach every counterexample; in tasks, as it takes time."""
    if not table.has_witness.any():
        return
    reach, found = Reach(ensemble, asked.attacker, asked.threat.relations), np.flatnonzero(table.has_witness)
    timeout, deadline = asked.limits.timeout, asked.limits.deadline
    most = math.inf if timeout is None else clock.now() + max(CHECKS, timeout * len(found) / 2)
    for i in found:
        if clock.now() > min(most, math.inf if deadline is None else deadline + CHECKS):
            table.forget_refuted(int(i), bool(asked.predicted[i] == asked.y[i]))
            continue
        epsilon = asked.epsilons[table.epsilon_index[i]].given if table.refuted[i] == Refuted.RESILIENCE else None
        witness = Witness(asked.X[i], table.neighbour[i], table.attacked[i], None, None)
        if not reach.holds(epsilon, witness):
            pair = f"{table.neighbour[i]!r} to {table.attacked[i]!r}"
            raise disbelieved(f"the search found a counterexample that the attacker cannot reach: {pair}", [i])


def keeps_label(ensemble: Ensemble, before: FloatArray, after: FloatArray) -> npt.NDArray[np.bool_]:
    """For which pairs of rows the source model has the same label before and after."""
    # In one call: that a library is asked at all takes it longer than a row.
    labels = ensemble.source_labels(np.concatenate((before, after)))
    return np.asarray(labels[: len(before)] == labels[len(before) :])


def replay_witnesses(ensemble: Ensemble, table: RowTable) -> None:
    """Replays every counterexample on the source model; one that does not flip it is a bug in treeproof."""
    rows = np.flatnonzero(table.has_witness)
    if not len(rows):
        return
    failed = rows[keeps_label(ensemble, table.neighbour[rows], table.attacked[rows])]
    if len(failed):
        found = f"{table.neighbour[failed[0]]!r} to {table.attacked[failed[0]]!r}"
        raise disbelieved(f"the search found a counterexample that does not change the label: {found}", failed)
