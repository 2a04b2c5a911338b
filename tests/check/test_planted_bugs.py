"""Searches with a mistake: they call rows proved that brute force refutes, and the checker rejects their proofs.

The search is asked about a model or an attacker that is changed as the mistake would have it; its proofs are put to the
checker for what was really asked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tests.support.adapters import as_attacker
from tests.support.fast_oracle import FastOracle, TooManyPairs
from tests.support.proof_claims import NO_LIMIT, Claims
from tests.support.random_blocks import Block, block
from treeproof.importers.native import as_text, load_bytes
from treeproof.model.ensemble import Ensemble
from treeproof.results.verdicts import Outcome
from treeproof.verification.local_search import Local
from treeproof.verification.proofs import Proof, Recorder


def with_trees(ensemble: Ensemble, change: Callable[[dict[str, Any]], None]) -> Ensemble:
    """The same model with all trees changed."""
    content = json.loads(as_text(ensemble))
    for tree in content["trees"]:
        change(tree)
    return load_bytes(json.dumps(content).encode(), voting=None)


def wrapped(tree: dict[str, Any]) -> None:
    """Sums that overflow come back from the other side."""
    tree["scores"] = [[float(np.float32((score + 0.3) % 0.6 - 0.3)) for score in scores] for scores in tree["scores"]]


def shifted(tree: dict[str, Any]) -> None:
    """Numbers that are equal to a threshold go to the other side of it."""
    tree["threshold"] = [
        math.nextafter(cut, -math.inf) if f >= 0 else cut
        for f, cut in zip(tree["feature"], tree["threshold"], strict=True)
    ]
    tree["more"] = [[node, [math.nextafter(cut, -math.inf) for cut in cuts]] for node, cuts in tree.get("more", ())]


def overflow(asked: Block, _label: int) -> Local:
    return Local(with_trees(asked.ensemble, wrapped), _threat(asked), proof_limit=NO_LIMIT)


def wrong_side(asked: Block, _label: int) -> Local:
    return Local(with_trees(asked.ensemble, shifted), _threat(asked), proof_limit=NO_LIMIT)


def wrong_ties(asked: Block, label: int) -> Local:
    """Ties leave the label as it is."""
    content = json.loads(as_text(asked.ensemble))
    if content["rule"]["decision"] == "cut":
        content["base"][0] += 2.0**-20 if label else -(2.0**-20)
    else:
        content["base"][label] += 2.0**-20
    return Local(load_bytes(json.dumps(content).encode(), voting=None), _threat(asked), proof_limit=NO_LIMIT)


def forgotten_class(asked: Block, label: int) -> Local:
    local = Local(asked.ensemble, _threat(asked), proof_limit=NO_LIMIT)
    local._goal[(label + 1) % asked.ensemble.n_classes] = False
    return local


def forgotten_budget(asked: Block, _label: int) -> Local:
    """What costs one more than that, or is a little farther away, is forgotten."""
    local = Local(asked.ensemble, _threat(asked), proof_limit=NO_LIMIT)
    threat = local.threat
    object.__setattr__(threat, "budget", max(threat.budget - 1, 0))
    object.__setattr__(threat, "limit", threat.limit / 2 if threat.power is not None else max(threat.limit - 1, 0))
    return local


def _threat(asked: Block) -> Any:
    return as_attacker(asked.attacker).bind(asked.ensemble)


def wrong_proofs(asked: Block, bugged: Callable[[Block, int], Local]) -> Iterable[tuple[int, int, bytes]]:
    """Rows and neighbourhoods that a search with a mistake calls proved, though brute force refutes them."""
    rows, oracle = np.array(asked.rows), FastOracle(asked.ensemble, asked.attacker)
    labels = asked.ensemble.predict_index(rows)
    for label in set(labels.tolist()):
        own = np.flatnonzero(labels == label)
        local = bugged(asked, label)
        local.patience = 0
        for which, eps in enumerate(((0.0,) * rows.shape[1], *asked.neighbourhoods)):
            decided = local.decide(rows[own], np.array(eps), labels[own])
            for i, row in enumerate(own.tolist()):
                proof = decided.proofs[i]
                if decided.outcome[i] == Outcome.PROVED and isinstance(proof, bytes):
                    try:
                        if not oracle.stable_around(asked.rows[row], eps):
                            yield row, which, proof
                    except (NotImplementedError, TooManyPairs):
                        continue


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("bugged", [overflow, wrong_ties, forgotten_class, forgotten_budget, wrong_side])
def test_wrong_proofs_of_a_search_with_a_mistake_are_rejected(
    bugged: Callable[[Block, int], Local], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Recorder.claim

    def claim(self: Recorder, row: int, label: int, _wanted: Iterable[int]) -> Proof:
        return right(self, row, label, range(self.proof.places.shape[1]))

    # Whatever the search forgot, its proof is one against all classes.
    monkeypatch.setattr(Recorder, "claim", claim)
    n = 0
    for number in range(60):
        asked = block(182, number)
        claims = Claims(asked.ensemble, as_attacker(asked.attacker), asked.rows, asked.neighbourhoods)
        for row, which, proof in wrong_proofs(asked, bugged):
            found = claims.check(row, which, proof)
            assert found.rejected, f"block {number}, row {row}, neighbourhood {which}: {found}"
            n += 1
    assert n > 20
