"""Checks every row of a verification again."""

from __future__ import annotations

import itertools
import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from treeproof.check.evidence import is_witness, predict_row
from treeproof.check.prover import _Prover, _TooManyBoxes
from treeproof.check.relations import truth_of
from treeproof.errors import InvalidInput, SoundnessError
from treeproof.importers import as_ensemble
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray
from treeproof.results.verdicts import Outcome
from treeproof.results.verification import Verification
from treeproof.threat.epsilon import bind_around
from treeproof.threat.one_hot import bind_neighbours, bind_valid
from treeproof.threat.reached import moved_in_vain
from treeproof.threat.threat import Threat

Pair: TypeAlias = tuple[float, float]


def check_verification(
    model: Any, result: Verification, sample: int | None = None, seed: int | None = None, most_boxes: int = 500
) -> dict[str, int]:
    """Checks every row of a result (or a random `sample` of them) again: labels, counterexamples and proofs.

    The sample is drawn from the operating system's randomness, so that nobody can tell before which rows it will be,
    unless a `seed` repeats one. Raises SoundnessError with the first row that does not hold. Returns how many labels,
    counterexamples and proofs were checked, and how many proofs were not: those that take more than `most_boxes` boxes,
    those for Lp attackers and others that are more than intervals, costs and a budget, those under relations, and those
    for rows with missing values. Counterexamples keep the result's relations, and the rows that break them are those
    that the result names.
    """
    ensemble, attacker = as_ensemble(model), result.attacker
    if attacker is None:
        raise InvalidInput("the result does not name its attacker")
    rows = np.arange(len(result)) if sample is None else drawn(len(result), sample, seed)
    threat = bind_valid(attacker, ensemble, result.relations)
    provable = attacker.power is None and threat.beyond_plain is None and not threat.relations
    prover = _Prover(ensemble, attacker, most_boxes) if provable else None
    if result.movable not in (None, tuple(np.flatnonzero(threat.movable).tolist())):
        raise SoundnessError("the result names other columns than those that its attacker can move")
    told, around = bind_neighbours(result.epsilons, ensemble, threat)
    sizes = [one.sizes for one in around]
    if result.in_vain not in (None, moved_in_vain(told, ensemble, result.X[result.is_attacked], sizes)):
        raise SoundnessError("the result names other columns than those that its attacker moves in vain")
    counts = {"labels": 0, "counterexamples": 0, "proofs": 0, "proofs not checked": 0}
    for row in rows.tolist():
        x = result.X[row]
        _check_row_itself(ensemble, threat, result, row)
        counts["labels"] += 1
        if not result.is_attacked[row]:
            _hold(_counts_by_accuracy(result, row), row, "is not attacked, but does not count by its label alone")
            continue
        refuted, proved = _claims(result, row)
        if result.has_witness[row] or refuted:
            witness = result.witness(row)
            holds = witness is not None and any(
                is_witness(ensemble, attacker, one, witness, threat.relations) for one in refuted
            )
            _hold(holds, row, "has no counterexample that holds")
            counts["counterexamples"] += 1
        for epsilon in proved:
            if prover is None or np.isnan(x).any():
                counts["proofs not checked"] += 1
                continue
            try:
                holds = all(map(prover.is_stable, _boxes(ensemble, threat, x, epsilon, most_boxes)))
            except _TooManyBoxes:
                counts["proofs not checked"] += 1
                continue
            _hold(holds, row, f"is not stable within ε = {epsilon}")
            counts["proofs"] += 1
    return counts


def _boxes(ensemble: Ensemble, threat: Threat, x: FloatArray, epsilon: Any, most: int) -> list[list[Pair]]:
    """Boxes that hold all neighbours of a row: one for each choice of values that may stand for its own."""
    around = bind_around(epsilon, ensemble)
    named = [f for f, _ in around.alike]
    choices = [next((one for one in classes if x[f] in one), (x[f],)) for f, classes in around.alike]
    if math.prod(map(len, choices)) > most:
        raise _TooManyBoxes
    sizes = around.sizes.copy()
    sizes[named] = 0.0
    rows = np.tile(x, (math.prod(map(len, choices)), 1))
    rows[:, named] = list(itertools.product(*choices))
    low, high = threat.neighbourhood(rows, sizes)
    inside = (rows >= threat.domain_low) & (rows <= threat.domain_high)
    boxes = zip(low[inside.all(axis=1)].tolist(), high[inside.all(axis=1)].tolist(), strict=True)
    return [list(zip(*ends, strict=True)) for ends in boxes]


def _check_row_itself(ensemble: Ensemble, threat: Threat, result: Verification, row: int) -> None:
    """Its label, and the relations that it breaks, by their definition."""
    x = result.X[row]
    labelled = predict_row(ensemble, x) == result.predicted[row]
    _hold(labelled, row, "gets another label from the model than the result says")
    stepped = [f for f, moves in threat.columns if moves.step is not None]
    broken = tuple(one for one in threat.relations.given if truth_of(ensemble, one, x, stepped) is False)
    _hold(broken == result.broken_by(row), row, "breaks other relations than the result says")


def drawn(n: int, sample: int, seed: int | None) -> npt.NDArray[np.int64]:
    """The places, in order, of a random sample out of n; without a seed, the operating system's randomness decides."""
    for name, value, least in (("sample", sample, 1), ("seed", seed, 0)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least):
            raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}", argument=name)
    return np.sort(np.random.default_rng(seed).choice(n, size=min(n, sample), replace=False))


def _counts_by_accuracy(result: Verification, row: int) -> bool:
    """Whether a row that nobody attacks is called robust and resilient exactly if its label is right."""
    outcome = Outcome.PROVED if result.correct[row] else Outcome.REFUTED
    outcomes = [result.robustness_outcomes[row], *(one[row] for one in result.resilience_by_epsilon)]
    return all(one == outcome for one in outcomes) and not result.has_witness[row]


def _claims(result: Verification, row: int) -> tuple[list[Any], list[Any]]:
    """The neighbourhoods (0 for the row alone) in which a result calls a row unstable, and those in which stable."""
    refuted, proved = [], []
    if result.stability[row] == Outcome.REFUTED:
        refuted.append(0.0)
    elif result.stability[row] == Outcome.PROVED:
        proved.append(0.0)
    for epsilon, outcomes in zip(result.epsilons, result.resilience_by_epsilon, strict=True):
        if outcomes[row] == Outcome.PROVED:
            _hold(bool(result.correct[row]), row, "is called resilient, but its label is wrong")
            proved.append(epsilon)
        elif outcomes[row] == Outcome.REFUTED and result.correct[row]:
            refuted.append(epsilon)
    return refuted, proved


def _hold(holds: bool, row: int, what: str) -> None:
    if not holds:
        raise SoundnessError(f"row {row} {what}")
