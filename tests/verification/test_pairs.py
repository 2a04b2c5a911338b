"""The search over pairs: neighbourhoods with several labels, and walls that no attack leads across."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.fuzz_local import check_block
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.oracles import LARGEST, Span
from tests.support.walls import stairs, walled_block
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import LATE, Limits
from treeproof.verification import forks, pairs
from treeproof.verification.local_search import Local
from treeproof.verification.pairs import Pairs, find_walls


class Count:
    """How many rows the search over pairs was asked about, and what it said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        self.by_outcome = np.zeros(3, dtype=np.int64)
        settle = Pairs.settle

        def counted(search: Pairs) -> None:
            settle(search)
            self.rows += len(search.outcome)
            self.by_outcome += np.bincount(search.outcome, minlength=3)

        monkeypatch.setattr(Pairs, "settle", counted)


@pytest.mark.parametrize(
    "limits",
    [{}, {"MOST_BOXES": 1}, {"FEW_FORKS": 0}, {"FEW_LEAVES": 2, "FEW_NODES": 1, "FEW_MEETINGS": 1}],
    ids=["as it is", "one box at a time", "no forks", "one fork at a time"],
)
def test_random_walls_agree_with_pairs_by_definition(limits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(pairs if name == "MOST_BOXES" else forks, name, value)
    met = Count(monkeypatch)
    cases = sum(check_block(walled_block(31, number), through_verify=False)["cases"] for number in range(25))
    assert cases > 900
    assert met.rows > 80
    assert min(met.by_outcome[:2]) > 15
    assert met.by_outcome[Outcome.UNKNOWN] == 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_random_walls_agree_with_pairs_by_definition(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    met = Count(monkeypatch)
    for number in range(30 * part, 30 * part + 30):
        check_block(walled_block(32, number), through_verify=False)
    assert met.rows > 150


@pytest.mark.parametrize("number", range(60))
def test_walls_are_the_cuts_that_no_move_crosses(number: int) -> None:
    asked = walled_block(33, number)
    ensemble, attacker = asked.ensemble, replace(asked.attacker, domain=None)
    found = find_walls(as_attacker(attacker).bind(ensemble), ensemble.grid)
    cuts = [(f, e) for f in range(ensemble.n_features) for e in oracles.thresholds(ensemble, f)]
    for is_wall, (f, e) in zip(found.tolist(), cuts, strict=True):
        if e == LARGEST:
            continue  # nothing is above
        below, above = Span(e, e), Span(math.nextafter(e, math.inf), math.nextafter(e, math.inf))
        crossed = [oracles.move_cost(attacker, f, *ends) for ends in ((below, above), (above, below))]
        assert is_wall == (crossed == [None, None])


@pytest.mark.parametrize(
    ("x", "effect", "expected"),
    [
        ([50.0, 0.0, -2.0], 1.0, Outcome.PROVED),
        ([50.0, 0.0, -0.5], 1.0, Outcome.REFUTED),
        ([50.0, 0.0, -0.5], 0.25, Outcome.PROVED),
        ([50.0, -2.0, -0.5], 1.0, Outcome.PROVED),
    ],
    ids=["out of effect", "in effect", "without consequence", "out of reach"],
)
def test_labels_that_change_only_with_what_nobody_moves_are_stable(
    x: list[float], effect: float, expected: Outcome
) -> None:
    ensemble = stairs(100, effect)
    local = Local(ensemble, tp.Attacker([(0, 0), (-1, 1), (0, 0)]).bind(ensemble))
    assert local.decide(np.array([x]), np.array([30.0, 0.0, 1.0])).outcome.tolist() == [expected]


def test_what_attacks_do_not_change_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    search = Local._search

    def counted(local: Local, low: Any, *rest: Any) -> Any:
        asked.append(len(low))
        return search(local, low, *rest)

    monkeypatch.setattr(Local, "_search", counted)
    ensemble = stairs(100, 1.0)
    local = Local(ensemble, tp.Attacker([(0, 0), (-1, 1), (0, 0)]).bind(ensemble))
    assert local.decide(np.array([[50.0, 0.0, -2.0]]), np.array([30.0, 0.0, 1.0])).outcome[0] == Outcome.PROVED
    assert sum(asked) <= 5


def test_rows_do_not_depend_on_who_else_is_asked_about() -> None:
    asked = walled_block(34, 3)
    local = Local(asked.ensemble, as_attacker(asked.attacker).bind(asked.ensemble))
    rows, eps = np.array(asked.rows), np.array(asked.neighbourhoods[0])
    together = local.decide(rows, eps).outcome.tolist()
    assert together == [local.decide(rows[[i]], eps).outcome[0] for i in range(len(rows))]


def test_no_time_means_unknown_and_never_a_wrong_answer() -> None:
    ensemble = stairs(100, 0.25)
    threat = tp.Attacker([(0, 0), (-1, 1), (0, 0)]).bind(ensemble)
    x, eps = np.array([[50.0, 0.0, -0.5]]), np.array([30.0, 0.0, 1.0])
    for limits in (Limits(timeout=0.0), Limits(deadline=0.0)):
        assert Local(ensemble, threat, limits).decide(x, eps).outcome.tolist() == [Outcome.UNKNOWN]
    for looks in (1, 10, 100, 1000, 2000, 4000):
        local = Local(ensemble, threat)
        local.max_looks = looks
        assert local.decide(x, eps).outcome[0] in (Outcome.UNKNOWN, Outcome.PROVED)


@pytest.mark.parametrize("how", ["out of time", "open"])
def test_a_row_with_an_open_part_is_not_proved(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = stairs(20, 0.25)
    threat = tp.Attacker([(0, 0), (-1, 1), (0, 0)]).bind(ensemble)
    x, eps = np.array([[10.0, 0.0, -0.5]]), np.array([5.0, 0.0, 1.0])
    search, calls, last = Local._search, 0, 0

    def ended(local: Local, *asked: Any) -> Any:
        nonlocal calls
        calls += 1
        outcome, cells = search(local, *asked)
        if calls == last and how == "open":
            outcome[0] = Outcome.UNKNOWN
        elif calls == last:
            local.limits.stop[0] = LATE
        return outcome, cells

    monkeypatch.setattr(Local, "_search", ended)
    assert Local(ensemble, threat).decide(x, eps).outcome[0] == Outcome.PROVED
    n, got = calls, []
    assert n > 6
    for number in range(1, n):
        calls, last = 0, number
        got.append(Local(ensemble, threat).decide(x, eps).outcome[0])
    # Of three searches, the first two only look for attacks beside a wall.
    needed = got if how == "out of time" else got[::3]
    assert set(needed) == {Outcome.UNKNOWN}


@pytest.mark.parametrize("cut", [0.5, 1.5, 2.5])
def test_categories_beside_numbers_that_nobody_moves(cut: float) -> None:
    """Tests with several cuts; every neighbour and every category is tried."""
    names = ("a", "b", "c", "d")
    for left in itertools.product([True, False], repeat=4):
        builder = EnsembleBuilder(
            n_features=2, classes=[0, 1], rule=ScoreRule(decision=Decision.CUT, cut=cut),
            categories={0: Category(names, coded=True, unseen=False, dtype="str")},
        )  # fmt: skip
        if len(set(left)) > 1:
            builder.add_tree(
                feature=[0, LEAF, LEAF], threshold=[0.0, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
                scores=[0.0, 0.0, 1.0], pieces={0: Pieces.of_codes(list(left))},
            )  # fmt: skip
        for threshold in (0.0, 1.0):
            builder.add_tree(
                feature=[1, LEAF, LEAF], threshold=[threshold, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
                scores=[0.0, 0.0, 1.0],
            )  # fmt: skip
        ensemble = builder.build()
        local = Local(ensemble, tp.Attacker({0: tp.ANY}).bind(ensemble))
        rows = np.array([[c, v] for c in range(4) for v in (-1.0, 0.5, 2.0)])
        for eps in (0.75, 2.0):
            outcome = local.decide(rows, np.array([0.0, eps])).outcome
            for row, got in zip(rows, outcome, strict=True):
                near = [v for v in (-1.0, 0.5, 2.0, row[1] - eps, row[1] + eps) if abs(v - row[1]) <= eps]
                labels = [set(ensemble.predict_index(np.array([[c, v] for c in range(4)])).tolist()) for v in near]
                assert got == (Outcome.PROVED if max(map(len, labels)) == 1 else Outcome.REFUTED)
