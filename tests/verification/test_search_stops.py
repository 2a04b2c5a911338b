"""A search may be ended at any moment: it then says nothing, and never anything else than a search with time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.clock import Clock, press_ctrl_c
from treeproof.results.verdicts import Outcome
from treeproof.run import watch as run_watch
from treeproof.run.limits import Limits
from treeproof.verification import local_search
from treeproof.verification.local_search import Local

ATTACKERS = {
    "linf": tp.Attacker.linf(1.5),
    "l0": tp.Attacker.l0(3),
    "l1": tp.Attacker.lp(1, 4.0),
    "l2": tp.Attacker.lp(2, 2.0),
    "budget": tp.Attacker((-3, 3), budget=3),
}


@cache
def forest() -> tuple[tp.Ensemble, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return tp.from_model(ExtraTreesClassifier(30, random_state=0).fit(X[300:], y[300:])), X[:6]


def decide(name: str, epsilon: float, max_looks: int | None = None) -> tuple[list[int], int]:
    ensemble, rows = forest()
    local = Local(ensemble, ATTACKERS[name].bind(ensemble))
    local.patience = 12  # so that every stage is reached
    if max_looks is not None:
        local.max_looks = max_looks
    return local.decide(rows, np.full(rows.shape[1], epsilon)).outcome.tolist(), local.looks


@pytest.mark.parametrize(("patience", "budget"), [(30, 5), (60, 4)])
def test_regions_are_divided_into_smaller_ones_until_none_is_left(patience: int, budget: int) -> None:
    X, y = load_digits(return_X_y=True)
    ensemble = tp.from_model(ExtraTreesClassifier(10, random_state=0).fit(X[300:], y[300:]))
    local = Local(ensemble, tp.Attacker((-3, 3), budget=budget).bind(ensemble))
    # Straight to what divides regions after a few boxes each; without an end, looks end it, and rows stay open.
    local.patience, local.efforts, local.max_looks = patience, (), 2**22
    decided = local.decide(X[:12], np.zeros(64))
    assert Outcome.UNKNOWN not in decided.outcome.tolist() and local.looks < 2**18
    by_hunts = Local(ensemble, local.threat).decide(X[:12], np.zeros(64))
    assert decided.outcome.tolist() == by_hunts.outcome.tolist()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize("name", ATTACKERS)
def test_a_search_that_is_ended_anywhere_says_unknown_or_the_same(name: str, epsilon: float) -> None:
    whole, n_looks = decide(name, epsilon)
    assert Outcome.UNKNOWN not in whole
    rng = np.random.default_rng(0)
    for most in {1, 2, 3, 5, 8, *rng.integers(1, n_looks, 15).tolist(), n_looks - 1}:
        ended, _ = decide(name, epsilon, most)
        for one, expected in zip(ended, whole, strict=True):
            assert one in (Outcome.UNKNOWN, expected)
    # Rows that are under way when a thread takes over are begun again.
    assert decide(name, epsilon, n_looks + local_search.FEW_LOOKS)[0] == whole


def test_looks_are_frequent() -> None:
    """About one look per tree in the quickest stages: what lies between two looks does not grow with the forest."""
    ensemble, rows = forest()
    for name in ATTACKERS:
        _, n_looks = decide(name, 0.0)
        assert n_looks >= ensemble.n_trees * len(rows)


def test_a_short_search_of_few_rows_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, rows = forest()
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    local = Local(ensemble, tp.Attacker.linf(0.5).bind(ensemble))
    assert Outcome.UNKNOWN not in local.decide(rows, np.zeros(rows.shape[1])).outcome
    assert 0 < local.looks <= local_search.FEW_LOOKS


@pytest.mark.parametrize("name", ["linf", "l0"])
def test_a_longer_search_goes_on_in_a_thread_and_is_watched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, rows = forest()
    watched: list[Any] = []

    def watch(work: Any, limits: Limits, look: Any) -> Any:
        watched.append(look)
        return run_watch.watched(work, limits, look)

    monkeypatch.setattr(local_search, "watched", watch)
    monkeypatch.setattr(local_search, "FEW_NODES", 2**40)
    seen = []
    # Too many looks, too late, and alone to the end.
    for looks, seconds in ((200, 60.0), (2**40, 0.0), (2**40, 60.0)):
        monkeypatch.setattr(local_search, "FEW_LOOKS", looks)
        monkeypatch.setattr(local_search, "FEW_SECONDS", seconds)
        local = Local(ensemble, ATTACKERS[name].bind(ensemble))
        decided = local.decide(rows, np.zeros(rows.shape[1]))
        changed = ensemble.predict_index(decided.attacked) != ensemble.predict_index(rows)
        seen.append((decided.outcome.tolist(), changed.tolist(), len(watched)))
    assert [one[:-1] for one in seen[:2]] == [seen[2][:-1]] * 2
    assert [one[-1] for one in seen] == [1, 2, 2]


@cache
def hard_row() -> tuple[tp.Ensemble, np.ndarray]:
    """A model and a row whose search takes many seconds."""
    X, y = load_digits(return_X_y=True)
    return tp.from_model(ExtraTreesClassifier(100, random_state=0).fit(X[300:], y[300:])), X[:1]


HARD_ATTACKER = tp.Attacker.lp(1, 12.0)


def test_a_long_search_of_one_row_keeps_its_time(clock: Clock) -> None:
    """It is ended by the clock, not by the looks that it may take before anybody watches."""
    ensemble, rows = hard_row()
    assert ensemble.n_nodes <= local_search.FEW_NODES
    clock.per_look = local_search.FEW_SECONDS
    local = Local(ensemble, HARD_ATTACKER.bind(ensemble), Limits.of(timeout=0.2))
    outcome = local.decide(rows, np.zeros(rows.shape[1])).outcome.tolist()
    assert outcome == [Outcome.UNKNOWN] and local.looks > local_search.FEW_LOOKS
    assert clock.looks >= 0.2 / local_search.FEW_SECONDS


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_long_search_of_one_row() -> None:
    ensemble, rows = hard_row()
    verifier = tp.Verifier(ensemble, HARD_ATTACKER)
    threading.Thread(target=press_ctrl_c).start()
    with pytest.raises(KeyboardInterrupt):
        verifier.verdict(rows[0])


GIVE_UP = """
import numpy as np, treeproof as tp
from sklearn.datasets import load_digits
from sklearn.tree import DecisionTreeClassifier
from treeproof._kernels.search import race
race.MOST_MASKS = np.int64(100)  # before the kernels are compiled
X, y = load_digits(return_X_y=True)
tree = DecisionTreeClassifier(random_state=0).fit(X, y)
from treeproof.verification.local_search import Local
model = tp.from_model(tree)
for reach in (0.25, 16.0):
    local = Local(model, tp.Attacker.linf(reach).bind(model))
    print(np.bincount(local.decide(X[:20], np.zeros(64)).outcome, minlength=3))
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_row_that_needs_more_masks_than_can_be_numbered_is_given_up(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GIVE_UP], env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True,
        text=True, timeout=300, check=True,
    )  # fmt: skip
    near, far = ([int(n) for n in line.strip("[]").split()] for line in done.stdout.splitlines())
    assert near == [20, 0, 0]
    assert far[Outcome.PROVED] == 0 and far[Outcome.UNKNOWN] > 10


@pytest.mark.parametrize("limit", ["max_seconds", "timeout"])
def test_chains_of_rules_end_with_the_time_of_their_rows(limit: str, clock: Clock) -> None:
    model = DecisionTreeClassifier().fit([[0.0], [9e8]], [0, 1])
    little = tp.Attacker.rules([tp.Rule(0, change=by) for by in ("1e-3", "-1e-3")], budget=2**40, domain=(0, 1e9))
    clock.per_look = 0.1
    result = tp.verify(model, [[0.0], [1.0]], [0, 0], little, **{limit: 5})
    assert (result.stability == Outcome.UNKNOWN).all() and result.in_vain is None
    assert clock.looks < 1000
