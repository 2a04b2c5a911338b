"""The exact engine against brute force, as many random cases as there is time for, on all cores.

    python -m tests.fuzz_local --cases 1000000 --seed 0     # make fuzz
    python -m tests.fuzz_local --seed 0 --block 123         # one block again, in this process

A case is one row of one model under one attacker with one ε, decided and compared with the oracle; refuted ones
have a witness that must hold, and proved ones a proof that must check, but not of a refuted row of the same label.
Rows that the oracle cannot enumerate are counted apart, not as cases, and so are proofs that are not written.
Ends with exit code 1 at the first mismatch, which it describes in full.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

import treeproof as tp
from tests.support import clock, oracles
from tests.support.adapters import as_attacker
from tests.support.fast_oracle import FastOracle, TooManyPairs
from tests.support.proof_claims import NO_LIMIT, Claims
from tests.support.random_blocks import Block, Point, block
from treeproof.check.objects import is_witness
from treeproof.results.verdicts import Outcome, Witness
from treeproof.run.limits import Limits
from treeproof.verification.local_search import Decisions, Local

SECONDS = 60.0
"""More than any of these rows needs by a factor of thousands: an open row is a mismatch."""

MAX_LOOKS = 2**22
"""Looks at the stop token, hundreds of times more than any call of these needs: they end a search that divides a region
into itself, whose row is a mismatch then."""
PATIENCES = (0, 30, 60)
"""Boxes after which a row counts as hard: at once, so that all of it is divided, or after a few boxes of each part."""

BLOCKS_PER_TASK = 8
MAX_SECONDS = 900
"""For a task, compilation included."""


@dataclass
class Tally:
    """What was compared."""

    counts: Counter[str] = field(default_factory=Counter)
    """cases, proved and refuted ones, those with ε > 0, verdicts of verify(), and rows the oracle gave up on."""
    mismatch: str | None = None


def check_block(asked: Block, through_verify: bool = True) -> Counter[str]:
    """Compares every row of a block; AssertionError says which one differs."""
    counts: Counter[str] = Counter()
    ensemble = asked.ensemble
    attacker = as_attacker(asked.attacker)
    oracle = FastOracle(ensemble, asked.attacker)
    threat, limits = attacker.bind(ensemble), Limits(timeout=SECONDS)
    local, writing = Local(ensemble, threat, limits), Local(ensemble, threat, limits, proof_limit=NO_LIMIT)
    # Every row as if it were hard; verify() below searches as users do.
    local.patience = writing.patience = PATIENCES[ensemble.n_nodes % len(PATIENCES)]
    if local.patience:
        local.efforts = writing.efforts = ()
    local.max_looks = writing.max_looks = MAX_LOOKS
    zero = (0.0,) * ensemble.n_features
    rows = np.array(asked.rows)
    predicted = ensemble.predict_index(rows)
    for row, x in enumerate(asked.rows):
        assert predicted[row] == oracle.label(x), f"label of {x!r}: {predicted[row]}, expected {oracle.label(x)}"
    stable = {eps: [_truth(oracle, x, eps) for x in asked.rows] for eps in (zero, *asked.neighbourhoods)}
    claims = Claims(ensemble, attacker, asked.rows, list(stable)[1:])
    for which, (eps, truths) in enumerate(stable.items()):
        known = [row for row, truth in enumerate(truths) if truth is not None]
        counts["given up by the oracle"] += len(truths) - len(known)
        decided, written = (each.decide(rows[known], np.array(eps)) for each in (local, writing))
        assert decided.outcome.tolist() == written.outcome.tolist(), f"eps={eps!r}: proofs change outcomes"
        for i, row in enumerate(known):
            expected = Outcome.PROVED if truths[row] else Outcome.REFUTED
            assert decided.outcome[i] == expected, (
                f"x={asked.rows[row]!r} eps={eps!r}: {Outcome(decided.outcome[i]).name}, expected {expected.name}"
            )
            if expected == Outcome.REFUTED:
                witness = Witness(rows[row], decided.neighbour[i], decided.attacked[i], None, None)
                assert is_witness(ensemble, attacker, list(eps), witness), (
                    f"x={asked.rows[row]!r} eps={eps!r}: no witness: {witness!r}"
                )
            counts["cases"] += 1
            counts[expected.name.lower()] += 1
            counts["with a neighbourhood"] += any(e > 0 for e in eps)
        counts += _check_proofs(claims, which, known, written, predicted)
    counts["cheapest attacks"] += _check_cheapest(asked, attacker, local)
    if through_verify:
        counts["rows of verify()"] += _check_verify(asked, attacker, stable[zero], stable)
    return counts


def _check_proofs(
    claims: Claims, which: int, rows: list[int], decided: Decisions, predicted: np.ndarray
) -> Counter[str]:
    """Every proof checks, and none is one of a refuted row of the same label."""
    counts: Counter[str] = Counter()
    proofs: dict[int, bytes] = {}
    for row, outcome, proof in zip(rows, decided.outcome, decided.proofs, strict=True):
        if outcome != Outcome.PROVED:
            continue
        if isinstance(proof, str):
            counts[f"without a proof: {proof}"] += 1
            continue
        found = claims.check(row, which, proof)
        assert found.checked, f"row {row}, neighbourhood {which}: {found.rejected} {found.unchecked}"
        counts["proofs"] += 1
        proofs[int(predicted[row])] = max(proof, proofs.get(int(predicted[row]), b""), key=len)
    for row, outcome in zip(rows, decided.outcome, strict=True):
        proof = proofs.get(int(predicted[row]))
        if outcome == Outcome.REFUTED and proof is not None:
            assert not claims.accepts(row, which, proof), f"row {row}, neighbourhood {which}: {proof!r} is accepted"
            counts["proofs of others"] += 1
    return counts


def _check_cheapest(asked: Block, attacker: tp.Attacker, local: Local) -> int:
    """The price of the cheapest attack on a few rows, by all attacks that there are; within the limit, and without."""
    ensemble, plain, done = asked.ensemble, asked.attacker, 0
    if plain.p is not None and plain.radius == 0:
        return 0  # it may not touch anything
    rows = np.array(asked.rows[:4])
    free = Local(ensemble, local.threat.without_limits())
    answers = {True: local.cheapest(rows, True), False: free.cheapest(rows, False)}
    for row, x in enumerate(asked.rows[:4]):
        try:
            expected = oracles.cheapest(ensemble, plain, x)
        except NotImplementedError:
            continue
        if plain.p is not None and not Fraction(2) ** -899 < expected < Fraction(2) ** 899:
            assert answers[False].outcome[row] == Outcome.UNKNOWN or expected == math.inf
            continue
        for within, found in answers.items():
            outcome, attacked = found.outcome, found.attacked
            where = f"cheapest, within={within}, x={x!r}: {attacked[row]!r}"
            assert outcome[row] == Outcome.PROVED, f"{where} not decided"
            if expected == math.inf or (within and expected > plain.limit):
                assert np.array_equal(attacked[row], x, equal_nan=True), f"{where}, expected none"
                continue
            price = _price(plain, x, attacked[row])
            dearest = expected if plain.p is None else expected * (1 + Fraction(1, 10**12))
            assert expected <= price <= dearest, f"{where} costs {float(price)}, expected {float(expected)}"
            assert not within or price <= plain.limit, f"{where} costs {float(price)}, too much"
            assert ensemble.predict_index(attacked[[row]])[0] != ensemble.predict_index([x])[0], f"{where}: same label"
        done += 1
    return done


def _price(attacker: oracles.OracleAttacker, x: Point, attacked: np.ndarray) -> Fraction | int:
    """What the way from x costs."""
    moved = [f for f in range(len(x)) if attacked[f] != x[f] and not math.isnan(x[f])]
    if attacker.p is None:
        return sum(attacker.costs[f] for f in moved)
    return sum((attacker.power(f, Fraction(float(attacked[f])) - Fraction(x[f])) for f in moved), Fraction(0))


def _truth(oracle: FastOracle, x: Point, eps: Point) -> bool | None:
    """Whether the model is stable at every neighbour of x; None if there are too many to try."""
    try:
        return oracle.stable_around(x, eps)
    except (NotImplementedError, TooManyPairs):
        return None


def _check_verify(
    asked: Block, attacker: tp.Attacker, stable: list[bool | None], around: dict[Point, list[bool | None]]
) -> int:
    """The same rows through the public door, with labels: robust and resilient by definition."""
    known = [row for row in range(len(asked.rows)) if all(truths[row] is not None for truths in around.values())]
    if not known or not asked.neighbourhoods:
        return 0
    result = tp.verify(
        asked.ensemble,
        [asked.rows[row] for row in known],
        [asked.labels[row] for row in known],
        attacker,
        epsilons=[list(eps) for eps in asked.neighbourhoods],
        timeout=SECONDS,
    )
    predicted = asked.ensemble.predict(np.array([asked.rows[row] for row in known])).tolist()
    for i, row in enumerate(known):
        robust = predicted[i] == asked.labels[row] and bool(stable[row])
        got = result.verdicts[i]
        expected = [_outcome(bool(stable[row])), _outcome(robust)]
        assert [got.stability, got.robustness] == expected, (
            f"verify, x={asked.rows[row]!r} y={asked.labels[row]!r}: "
            f"{got.stability.name}, {got.robustness.name}, expected {expected}"
        )
        for k, eps in enumerate(asked.neighbourhoods):
            resilient = _outcome(robust and bool(around[eps][row]))
            assert result.resilience_by_epsilon[k][i] == resilient, (
                f"verify, x={asked.rows[row]!r} y={asked.labels[row]!r} eps={eps!r}: "
                f"{Outcome(result.resilience_by_epsilon[k][i]).name}, expected {resilient.name}"
            )
    return len(known)


def _outcome(holds: bool) -> Outcome:
    return Outcome.PROVED if holds else Outcome.REFUTED


def describe(asked: Block) -> str:
    """The model and the attacker in full, so that a mismatch can be rebuilt by hand."""
    ensemble = asked.ensemble
    lines = [f"attacker = {asked.attacker!r}", f"rule = {ensemble.rule!r}"]
    names = ("feature", "threshold", "left", "right", "nan_left", "leaf", "roots", "leaf_scores", "base", "classes")
    lines += [f"{name} = {getattr(ensemble, name).tolist()!r}" for name in names]
    lines.append(f"value_high = {ensemble.value_high.tolist()!r}  handles_missing = {ensemble.may_be_missing.any()}")
    return "\n".join(lines)


def check_numbers(seed: int, numbers: range) -> Tally:
    """The blocks of these numbers; stops at the first that differs."""
    tally = Tally()
    for number in numbers:
        asked = block(seed, number)
        try:
            # verify() asks the same engine again; a third of the blocks is enough for what it adds.
            tally.counts += check_block(asked, through_verify=number % 3 == 0)
        except Exception as error:  # an engine that fails is as wrong as one that lies
            what = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            again = f"python -m tests.fuzz_local --seed {seed} --block {number}"
            tally.mismatch = f"block {number} of seed {seed}: {what}\n{describe(asked)}\nagain: {again}"
            break
    return tally


def _awaited(seed: int, numbers: range, answer: Any) -> Tally:
    """The tally of a task; one that never comes is a mismatch too."""
    try:
        tally: Tally = answer.get(MAX_SECONDS)
    except multiprocessing.TimeoutError:
        return Tally(mismatch=f"blocks {numbers[0]} to {numbers[-1]} of seed {seed}: no answer after {MAX_SECONDS} s")
    return tally


def _tasks() -> Iterator[range]:
    first = 0
    while True:
        yield range(first, first + BLOCKS_PER_TASK)
        first += BLOCKS_PER_TASK


def run(cases: int, seed: int, n_jobs: int) -> Tally:
    """Blocks 0, 1, 2, … of the seed until there are enough cases, or one differs."""
    total = Tally()
    began = said = clock.now()
    # A fresh interpreter per worker: compiled code and threads do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(n_jobs) as pool:
        todo = _tasks()

        def start() -> tuple[range, Any]:
            numbers = next(todo)
            return numbers, pool.apply_async(check_numbers, (seed, numbers))

        running = [start() for _ in range(2 * n_jobs)]
        while running and total.mismatch is None and total.counts["cases"] < cases:
            numbers, answer = running.pop(0)
            running.append(start())
            tally = _awaited(seed, numbers, answer)
            total.counts += tally.counts
            total.mismatch = tally.mismatch
            if clock.now() - said > 10:
                said = clock.now()
                rate = total.counts["cases"] / (said - began)
                print(f"{total.counts['cases']:,} cases, {rate:,.0f} a second", flush=True)
        pool.terminate()
    seconds = clock.now() - began
    print(f"{total.counts['cases'] / seconds:,.0f} cases a second on {n_jobs} cores, {seconds:.0f} s in all")
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--block", type=int, help="only this one")
    options = parser.parse_args()
    if options.block is None:
        total = run(options.cases, options.seed, options.jobs)
    else:
        total = check_numbers(options.seed, range(options.block, options.block + 1))
    if total.mismatch is not None:
        print(f"MISMATCH\n{total.mismatch}", file=sys.stderr)
    print(", ".join(f"{count:,} {name}" for name, count in total.counts.items()))
    return total.mismatch is not None


if __name__ == "__main__":
    sys.exit(main())
