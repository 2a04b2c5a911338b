"""Every call ends with its limit: on inputs made to hurt, with a clock that goes on whenever somebody looks at it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.clock import Clock
from tests.support.commands import run
from treeproof.check.objects import Reach
from treeproof.explanations.questions import Questions
from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.patience import TimeIsUpError, in_time, look, until
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import FEW_SECONDS, Local
from treeproof.verification.radii.lowest import lowest_levels
from treeproof.verification.radii.question import Question
from treeproof.verification.radii.robustness import IntervalRobustness

U, R = Outcome.UNKNOWN, Outcome.REFUTED
MODEL = DecisionTreeClassifier().fit([[0.0], [9e8]], [0, 1])
ROWS = [[0.0], [1.0]]
LITTLE = tp.Attacker.rules([tp.Rule(0, change=by) for by in ("1e-3", "-1e-3")], budget=2**40, domain=(0, 1e9))
"""By chains of 10^12 rules, of which more are refused than can be followed, unless time is up before."""


@pytest.mark.parametrize("limit", ["max_seconds", "timeout"])
@pytest.mark.parametrize(
    "call",
    [
        lambda **limit: [one.minimal for one in tp.explain(MODEL, ROWS, attacker=LITTLE, **limit)],
        lambda **limit: [one.minimal for one in tp.explain(MODEL, ROWS, attacker=LITTLE, kind="smallest", **limit)],
        lambda **limit: [one.minimal for one in tp.explain(MODEL, ROWS, attacker=LITTLE, kind="contrastive", **limit)],
        lambda **limit: tp.counterfactual(MODEL, ROWS, to=1, attacker=LITTLE, **limit).exact.tolist(),
        lambda **limit: tp.counterfactual(MODEL, ROWS, to=1, attacker=LITTLE, epsilon=1.0, **limit).exact.tolist(),
        lambda **limit: tp.cheapest_attack(MODEL, ROWS, LITTLE, **limit).exact.tolist(),
        lambda **limit: np.isfinite(tp.resilience_radius(MODEL, ROWS, [0, 0], LITTLE, **limit)).tolist(),
    ],
    ids=["reason", "smallest", "contrastive", "counterfactual", "resilient", "cheapest", "radius"],
)
def test_chains_of_rules_end_with_the_time_of_any_call(call: Any, limit: str, clock: Clock) -> None:
    clock.per_look = 0.1
    assert call(**{limit: 5}) == [False, False]
    assert clock.looks < 1000


def test_a_guard_says_nothing_of_moves_in_vain_if_there_is_no_time(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {name: str(tmp_path / name) for name in ("model.json", "rows.csv", "attacker.json", "out.csv")}
    tp.save_model(MODEL, paths["model.json"])
    LITTLE.to_json(paths["attacker.json"])
    Path(paths["rows.csv"]).write_text("x\n0\n1\n")
    clock.per_look = 0.1
    told = [paths["model.json"], paths["rows.csv"], "--attacker", paths["attacker.json"], "--out", paths["out.csv"]]
    code, out, _ = run(capsys, "guard", *told, "--timeout", 2)
    assert code == 0
    assert Path(paths["out.csv"]).read_text().split() == ["x,prediction", "0,abstain", "1,abstain"]
    assert "answered   0 of 2 rows" in out and "in vain" not in out


@cache
def digits() -> tuple[tp.Ensemble, FloatArray, Any]:
    X, y = load_digits(return_X_y=True)
    return tp.from_model(ExtraTreesClassifier(100, random_state=0).fit(X[300:], y[300:])), X[:4], y[:4]


def test_boxes_of_one_row_share_its_time(clock: Clock) -> None:
    ensemble, X, _ = digits()
    clock.per_look = FEW_SECONDS
    local = Local(ensemble, tp.Attacker.lp(1, 12.0).bind(ensemble), Limits.of(timeout=0.5))
    rows, label = np.repeat(X[:1], 8, axis=0), np.repeat(ensemble.predict_index(X[:1]), 8)
    began = clock.seconds
    status, _ = local._search(rows, rows, rows, label, rows, np.zeros(1), np.zeros(8, dtype=np.int64))
    assert (status == U).all()
    assert clock.seconds - began < 2.0, "and not eight times half a second"
    status, _ = local._search(rows, rows, rows, label, rows, local.used, np.zeros(8, dtype=np.int64))
    assert (status == U).all() and local.looks > 0


def test_all_searches_for_a_radius_share_the_time_of_their_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try takes all that it may; a row is asked about until its time is used up, and no longer."""
    ensemble, X, _ = digits()
    asked: list[tuple[float, float]] = []

    def slow(local: Local, X: FloatArray, reach: Any, budget: Any = None, ties: Any = None, used: Any = None) -> Any:
        assert local.limits.timeout is not None
        asked.append((local.limits.timeout, float(used[0])))
        local.used = np.full(len(X), local.limits.timeout)
        return np.full(len(X), U), np.zeros(X.shape, dtype=np.int32)

    monkeypatch.setattr(Local, "search_within", slow)
    question: Question = IntervalRobustness(ensemble, tp.Attacker.linf(1.0).bind(ensemble), X[:1], Limits(timeout=3.0))
    levels, _, _ = lowest_levels(question)
    assert np.isnan(levels).all()
    assert sum(timeout - used for timeout, used in asked) <= 3.0 + 1e-9 and len(asked) > 3
    assert asked[-1][0] - asked[-1][1] >= 1.0, "the proof has time, too"


@pytest.mark.parametrize("kind", ["reason", "smallest"])
def test_nothing_is_asked_about_rows_after_the_time(kind: Any, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    ensemble, X, _ = digits()
    asked: list[int] = []

    def drop(questions: Questions, row: int, *more: Any) -> int:
        asked.append(row)
        clock.add(10.0)
        return dropped(questions, row, *more)

    dropped = Questions.drop
    monkeypatch.setattr(Questions, "drop", drop)
    monkeypatch.setattr(Threat, "freeze", lambda *_: pytest.fail("an attacker was made for a range"))
    found = tp.explain(ensemble, X, kind=kind, inflate=True, max_seconds=5)
    assert asked == [0] and [one.minimal for one in found] == [False] * 4


def test_counterexamples_that_there_is_no_time_to_check_are_not_told(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    X, y = load_digits(return_X_y=True)
    ensemble = tp.from_model(RandomForestClassifier(5, random_state=0).fit(X, y))
    far = tp.Attacker.linf(8.0)
    assert (tp.verify(ensemble, X[:6], y[:6], far).stability == R).all()
    holds = Reach.holds

    def slow(reach: Reach, *asked: Any) -> bool:
        clock.add(2.0)
        return holds(reach, *asked)

    monkeypatch.setattr(Reach, "holds", slow)
    result = tp.verify(ensemble, X[:6], y[:6], far, epsilon=0.5, max_seconds=3)
    told = result.stability == R
    assert 0 < told.sum() < 4 and (told == result.has_witness).all()
    assert (result.stability[~told] == U).all() and (result.resilience_by_epsilon[0][~told] == U).all()


def test_what_ends_calculations_ends_those_inside_of_them() -> None:
    with until(lambda: True), pytest.raises(TimeIsUpError), until(lambda: False):
        look()
    with until(lambda: True):
        assert in_time(lambda: False, look, 1) == 1  # type: ignore[arg-type]
    look()


def test_a_row_that_had_time_before_has_less_of_it(clock: Clock) -> None:
    limits = Limits.of(timeout=2)
    row, rows = limits.for_row(1.5), limits.for_rows(3, 5.5)
    clock.add(0.5)
    assert row.is_over() and row.used == 2.0 and not rows()
    clock.add(0.25)
    assert rows()
