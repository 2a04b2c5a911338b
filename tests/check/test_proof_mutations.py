"""Proofs that are changed, or given to other questions: the checker accepts none for what brute force refutes.

A false claim gets proofs that nearly fit: of the same row against a poorer attacker, with a smaller ε, with another
model, or of another row with the same label. Then each is changed at random, in one of the ways of `proof_steps.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from tests.support.adapters import as_attacker
from tests.support.fast_oracle import FastOracle, TooManyPairs
from tests.support.oracles import LARGEST, OracleAttacker
from tests.support.proof_claims import NO_LIMIT, Claims
from tests.support.proof_steps import BROKEN, CHANGES, changed
from tests.support.random_blocks import Block, Point, block
from treeproof.importers.native import as_text, load_bytes
from treeproof.model.ensemble import Ensemble
from treeproof.results.verdicts import Outcome
from treeproof.verification.local_search import Local


@dataclass
class Case:
    """A claim about a row (0), or its k-th neighbourhood, with a proof; of something else unless it is true."""

    claims: Claims
    row: int
    which: int
    proof: bytes
    what: str


def proofs_of(asked: Block) -> dict[tuple[int, int], bytes]:
    """What proves rows and neighbourhoods of a block, all as if they were hard."""
    threat, found = as_attacker(asked.attacker).bind(asked.ensemble), {}
    local = Local(asked.ensemble, threat, proof_limit=NO_LIMIT)
    local.patience = 0
    for which, eps in enumerate(((0.0,) * asked.ensemble.n_features, *asked.neighbourhoods)):
        decided = local.decide(np.array(asked.rows), np.array(eps))
        for row in np.flatnonzero(decided.outcome == Outcome.PROVED).tolist():
            proof = decided.proofs[row]
            if isinstance(proof, bytes):
                found[row, which] = proof
    return found


def _claims(asked: Block) -> Claims:
    return Claims(asked.ensemble, as_attacker(asked.attacker), asked.rows, asked.neighbourhoods)


def true_cases(asked: Block) -> Iterator[Case]:
    """Every proof with its own claim."""
    claims = _claims(asked)
    for (row, which), proof in proofs_of(asked).items():
        yield Case(claims, row, which, proof, "true")


def false_cases(random: Random, asked: Block) -> Iterator[Case]:
    """Claims that brute force refutes, with proofs that nearly fit."""
    proofs, labels = proofs_of(asked), asked.ensemble.predict_index(np.array(asked.rows)).tolist()
    for what, other in (("another row", asked), *_others(random, asked)):
        claims, oracle = _claims(other), FastOracle(other.ensemble, other.attacker)
        for which, eps in enumerate(((0.0,) * other.ensemble.n_features, *other.neighbourhoods)):
            for row, x in enumerate(other.rows):
                try:
                    if oracle.stable_around(x, eps):
                        continue
                except (NotImplementedError, TooManyPairs):
                    continue
                nearest = [(row, which), (row, 0), *random.sample(sorted(proofs), min(4, len(proofs)))]
                for place in nearest:
                    if place in proofs and labels[place[0]] == labels[row]:
                        yield Case(claims, row, which, proofs[place], what)


def _others(random: Random, asked: Block) -> Iterator[tuple[str, Block]]:
    """The same rows with a richer attacker, a larger ε, another model."""
    plain = asked.attacker
    yield "a richer attacker", replace(asked, attacker=_richer(random, plain))
    yield "a larger ε", replace(asked, neighbourhoods=tuple(_larger(random, eps) for eps in asked.neighbourhoods))
    for _ in range(3):
        other = _other_model(random, asked.ensemble)
        if other is not None:
            yield "another model", replace(asked, ensemble=other)


def _richer(random: Random, plain: OracleAttacker) -> OracleAttacker:
    if plain.p is not None:
        return replace(plain, radius=min(plain.radius * random.choice((1.01, 1.5, 3.0)), LARGEST))
    if plain.budget is not None and random.random() < 0.6:
        return replace(plain, budget=plain.budget + 1)
    return replace(plain, intervals=tuple((min(2 * low, low), max(2 * high, high)) for low, high in plain.intervals))


def _larger(random: Random, eps: Point) -> Point:
    return tuple(2 * size + random.choice((0.0, 0.1, 1.0)) for size in eps)


def _other_model(random: Random, ensemble: Ensemble) -> Ensemble | None:
    """One with a leaf or a threshold changed, if it is a model and gives all columns the same numbers of cells."""
    content = json.loads(as_text(ensemble))
    tree = random.choice(content["trees"])
    if random.random() < 0.5 or len(tree["scores"]) < 2:
        random.shuffle(tree["scores"])
    else:
        tests = [i for i, f in enumerate(tree["feature"]) if f >= 0 and str(i) not in dict(tree.get("more", ()))]
        node, other = random.choice(tests), random.choice(tests)
        tree["threshold"][node] = tree["threshold"][other]
    try:
        return load_bytes(json.dumps(content).encode(), voting=None)
    except Exception:
        return None


def accepted(case: Case, proof: bytes) -> bool:
    """Whether the checker accepts a proof of a claim; anything but Rejected is a failure of the checker itself."""
    return case.claims.accepts(case.row, case.which, proof)


def mutate(random: Random, cases: list[Case], n: int) -> Counter[tuple[str, bool]]:
    """Changes proofs of cases n times at random; returns how often each change was accepted, and was not."""
    counts: Counter[tuple[str, bool]] = Counter()
    names = list(CHANGES)
    for i in range(n):
        case, name = random.choice(cases), names[i % len(names)]
        proof = changed(random, case.proof, name)
        counts[name, accepted(case, proof)] += 1
    return counts


def sample(cases: Iterator[Case]) -> list[Case]:
    """Cases with proofs of several steps, most of all, and each once."""
    kept = {(id(case.claims), case.row, case.which, case.proof): case for case in cases if len(case.proof) > 6}
    return list(kept.values())


def run(seed: int, blocks: range, n: int) -> tuple[Counter[tuple[str, bool]], Counter[str]]:
    """About n changed proofs of false claims of these blocks: what became of them, and what they were about."""
    random, counts, about = Random(seed), Counter[tuple[str, bool]](), Counter[str]()
    for number in blocks:
        cases = sample(false_cases(random, block(seed, number)))
        if cases:
            counts += mutate(random, cases, n // len(blocks))
            about.update(case.what for case in cases)
    return counts, about


@pytest.mark.parametrize(("seed", "number"), [(20, 1), (1800, 198), (1800, 788)])
def test_proofs_hold_that_were_rejected_once(seed: int, number: int) -> None:
    """One cuts beyond its region, one leaves out all leaves, and in one a leaf loses the cells that were cheap."""
    cases = list(true_cases(block(seed, number)))
    assert len(cases) > 5
    assert all(accepted(case, case.proof) for case in cases)


def check_false(seed: int, blocks: range, n: int) -> Counter[tuple[str, bool]]:
    counts, about = run(seed, blocks, n)
    assert not {name for name, is_accepted in counts if is_accepted}
    assert about.keys() == {"another row", "a richer attacker", "a larger ε", "another model"}
    return counts


def test_a_few_changed_proofs_of_what_is_false_are_rejected() -> None:
    assert check_false(180, range(4, 7), 150).total() > 50


@pytest.mark.long
@pytest.mark.slow
def test_no_changed_proof_of_what_is_false_is_accepted() -> None:
    assert check_false(180, range(100), 30_000).total() >= 10_000


def check_true(seed: int, blocks: range, n: int) -> Counter[tuple[str, bool]]:
    random, counts = Random(seed), Counter[tuple[str, bool]]()
    for number in blocks:
        cases = sample(true_cases(block(seed, number)))
        if cases:
            counts += mutate(random, cases, n // len(blocks))
    assert not any(counts[name, True] for name in BROKEN)
    assert not counts["nothing is changed", False]
    return counts


@pytest.mark.long
@pytest.mark.slow
def test_changed_proofs_of_what_is_true_are_accepted_or_rejected_in_words() -> None:
    counts = check_true(181, range(60), 6_000)
    for name in CHANGES.keys() - {"nothing is changed"}:
        assert counts[name, False] > 0, name
