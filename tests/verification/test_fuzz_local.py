"""The fuzzer of the exact engine: a small run, its oracle against the slow one, and that it sees what is wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.fuzz_local import check_numbers
from tests.support import oracles
from tests.support.fast_oracle import FastOracle
from tests.support.random_blocks import block
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.results.verdicts import Outcome
from treeproof.verification import verify as verify_module
from treeproof.verification.local_search import Decisions, Local


@pytest.mark.parametrize("part", range(2))
def test_a_few_thousand_random_cases_agree_with_brute_force(part: int) -> None:
    tally = check_numbers(20, range(35 * part, 35 * part + 35))
    assert tally.mismatch is None, tally.mismatch
    assert tally.counts["cases"] > 1500
    assert min(tally.counts["proved"], tally.counts["refuted"]) > 300
    assert tally.counts["given up by the oracle"] < 0.05 * tally.counts["cases"]


@pytest.mark.parametrize("number", range(60))
def test_the_fast_oracle_equals_the_slow_one(number: int) -> None:
    asked = block(21, number)
    oracle = FastOracle(asked.ensemble, asked.attacker)
    for x in asked.rows[:8]:
        assert asked.ensemble.classes[oracle.label(x)] == oracles.predict(asked.ensemble, x)
        for eps in ((0.0,) * len(x), asked.neighbourhoods[0]):
            try:
                size = math.prod(len(oracles.moves(asked.ensemble, asked.attacker, x, eps, f)) for f in range(len(x)))
            except NotImplementedError:
                continue
            if size <= 3000:  # beyond, the slow one is too slow
                truth = oracles.stable_around(asked.ensemble, asked.attacker, x, eps)
                assert oracle.stable_around(x, eps) == truth


@pytest.mark.parametrize("steps", [-2, -1, 0, 1, 2])
def test_costs_on_the_edge_of_the_budget_are_added_up_exactly(steps: int) -> None:
    """An L2 attacker must move both features, by 0.1 and 0.2, and its radius is a few doubles from what that takes."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1], rule=ScoreRule(decision=Decision.CUT, cut=1.5))
    for f, reach in enumerate((0.1, 0.2)):
        builder.add_tree(
            feature=[f, LEAF, LEAF], threshold=[math.nextafter(reach, 0.0), 0, 0], left=[1, LEAF, LEAF],
            right=[2, LEAF, LEAF], scores=[0.0, 0.0, 1.0],
        )  # fmt: skip
    radius = math.hypot(0.1, 0.2) + steps * math.ulp(0.2)
    attacker = oracles.OracleAttacker(((-math.inf, math.inf),) * 2, (1, 1), None, 2, radius)
    affordable = Fraction(0.1) ** 2 + Fraction(0.2) ** 2 <= Fraction(radius) ** 2
    assert affordable or steps < 2
    assert not affordable or steps > -2
    assert FastOracle(builder.build(), attacker).stable_around((0.0, 0.0), (0.0, 0.0)) != affordable


def test_blocks_reach_every_corner() -> None:
    blocks = [block(0, number) for number in range(400)]
    corners = {
        "a missing value": lambda b: any(math.isnan(v) for x in b.rows for v in x),
        "an empty cell": lambda b: (b.ensemble.value_high < oracles.LARGEST).any(),
        "float32 scores": lambda b: b.ensemble.rule.precision == "float32",
        "four classes": lambda b: b.ensemble.n_classes == 4,
        "an even number of votes": lambda b: b.ensemble.n_trees % 2 == 0 and (b.ensemble.leaf_scores % 1 == 0).all(),
        "more than 64 leaves in a tree": lambda b: np.diff([*b.ensemble.roots, b.ensemble.n_nodes]).max() > 130,
        "a tree of depth 15": lambda b: b.ensemble.depths.max() >= 15,
        "no budget": lambda b: b.attacker.budget == 0,
        "a cost above the budget": lambda b: b.attacker.p is None and max(b.attacker.costs) > b.attacker.limit,
        "an interval without 0": lambda b: b.attacker.p is None and any(lo > 0 for lo, _ in b.attacker.intervals),
        "an untouchable feature": lambda b: (0.0, 0.0) in b.attacker.intervals,
        "unlimited reach": lambda b: b.attacker.p is None and (-math.inf, math.inf) in b.attacker.intervals,
        "a domain": lambda b: b.attacker.domain is not None,
        "everything as neighbourhood": lambda b: any(math.inf in eps for eps in b.neighbourhoods),
        "a wrong label": lambda b: list(b.labels) != b.ensemble.predict(np.array(b.rows)).tolist(),
        **{f"L{p}": lambda b, p=p: b.attacker.p == p for p in (1, 2, 3)},
    }
    for name, holds in corners.items():
        assert sum(bool(holds(b)) for b in blocks) >= 5, name


def test_a_block_is_the_same_every_time() -> None:
    one, two = block(5, 6), block(5, 6)
    assert replace(one, ensemble=two.ensemble, rows=()) == replace(two, rows=())
    np.testing.assert_array_equal(one.rows, two.rows)
    np.testing.assert_array_equal(one.ensemble.threshold, two.ensemble.threshold)
    assert block(5, 7).rows != one.rows


def flipped(decided: Decisions) -> Decisions:
    outcome = decided.outcome.copy()
    outcome[-1] = Outcome.PROVED
    return replace(decided, outcome=outcome)


def unmoved(decided: Decisions) -> Decisions:
    return replace(decided, attacked=decided.neighbour)


@pytest.mark.parametrize(
    ("wrong", "said"), [(flipped, "PROVED, expected REFUTED"), (unmoved, "no witness")], ids=["verdict", "witness"]
)
def test_a_wrong_engine_is_caught_and_described(wrong, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Local.decide
    # All rows in one task, so that few are changed: a row that is wrong by itself may contradict itself first.
    monkeypatch.setattr(verify_module._Pace, "groups", lambda self, rows: iter([rows]))
    monkeypatch.setattr(Local, "decide", lambda self, *asked: wrong(right(self, *asked)))
    tally = check_numbers(20, range(35))
    assert tally.mismatch is not None
    assert said in tally.mismatch
    assert "attacker = OracleAttacker(" in tally.mismatch and "again: python -m tests.fuzz_local" in tally.mismatch


def test_an_engine_that_fails_is_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Local, *asked: np.ndarray) -> Decisions:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Local, "decide", fail)
    tally = check_numbers(20, range(1))
    assert tally.mismatch is not None and "out of order" in tally.mismatch
