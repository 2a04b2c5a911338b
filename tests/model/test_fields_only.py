"""What travels to other processes, or into files of pickle, weighs the same after it was used as before."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.applicants import applicants
from tests.support.toys import forest, sample
from treeproof.model.fields_only import FieldsOnly
from treeproof.threat.threat import Threat
from treeproof.verification.possible import bind_possible

MODEL = applicants()
ROWS = np.array([[2.0, 12.0, 0.0, 40.0, 1.0], [3.1, 5.0, 1.0, 30.0, 2.0], [2.4, 5.0, 2.0, 33.0, 5.0]])
ATTACKERS = {
    "steps": tp.Attacker({"income": tp.steps(-1, 2, 0.5)}, costs=2, domain={"income": (0, 4)}),
    "values": tp.Attacker({"income": tp.values(1, 3.5), "purpose": tp.ANY}, blank={"income": 2}, fill=["income"]),
    "rules": tp.Attacker.rules([tp.Rule("income", when=(0, 3), change=(0.1, 0.25))], budget=9, step={"income": 0.05}),
    "lp": tp.Attacker.lp(2, 1.5, features=["income"], step={"income": 0.1}),
}


@pytest.mark.parametrize("attacker", ATTACKERS.values(), ids=ATTACKERS)
@pytest.mark.parametrize("relations", [None, ["income <= months"]], ids=["", "relations"])
def test_what_was_used_is_sent_without_what_it_keeps(attacker: tp.Attacker, relations: list[str] | None) -> None:
    """A threat has been through the whole search of rows when it is sent with the next ones."""
    used: list[Threat] = []

    def remember(*asked: Any) -> Threat:
        used.append(bind_possible(*asked))
        return used[-1]

    fresh = len(pickle.dumps(bind_possible(attacker, MODEL, relations)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeproof.verification.request.bind_possible", remember)
        tp.verify(MODEL, ROWS, MODEL.predict(ROWS), attacker, epsilon={"months": 1}, relations=relations)
        tp.cheapest_attack(MODEL, ROWS, attacker, relations=relations)
    assert len(used) == 2
    for threat in used:
        assert len(pickle.dumps(threat)) == fresh
    assert pickle.loads(pickle.dumps(used[0])).equals(used[0])


def result() -> tp.Verification:
    X, y = sample()
    return tp.verify(forest().fit(X, y), X, y, tp.Attacker.linf(0.05))


def smap() -> tp.StabilityMap:
    return tp.StabilityMap.build(forest(n_estimators=2).fit(*sample()), tp.Attacker.linf(0.1))


USES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "ensemble": (applicants, lambda model: (model.predict(ROWS), model.grid, model.columns, model.fingerprint)),
    "result": (result, lambda found: (found.correct, found.verdicts, found.by_class, found.to_columns())),
    "map": (smap, lambda found: (found.counts, found.status(np.full((1, 4), 0.5)), found.explain(np.full(4, 0.5)))),
}


@pytest.mark.parametrize(("make", "use"), USES.values(), ids=USES)
def test_what_was_made_weighs_the_same_after_use(make: Any, use: Any) -> None:
    made = make()
    before = len(pickle.dumps(made))
    use(made)
    assert isinstance(made, FieldsOnly)
    assert len(pickle.dumps(made)) <= before + 64  # a counter may have grown by some digits
