"""The paper's analysis against the oracle: sound after every iteration, exact once it has converged."""

from __future__ import annotations

import math
import sys
import threading
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.category_models import is_stable, random_model, random_moves, random_row
from tests.support.clock import Clock, press_ctrl_c
from tests.support.oracles import OracleAttacker
from tests.support.points import critical_rows
from tests.support.strategies import Case, cases
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.symbolic import compiled, refinement
from treeproof.symbolic.unstable_region import UnstableRegion

COUNTS = (0, 1, 2, 4, None)
"""Iterations after which the analysis is asked; None: until it has converged."""


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane, so that tiny models take several iterations too."""
    monkeypatch.setattr(refinement, "N_LANES", 1)


def plain_cases(several: bool | None = None) -> st.SearchStrategy[Case]:
    """Cases whose attacker is made of intervals: an Lp attacker becomes the box around its ball."""

    def without_norm(case: Case) -> Case:
        plain = case.attacker
        if plain.p is None:
            return case
        reach = plain.radius
        intervals = tuple((0.0, 0.0) if i == (0.0, 0.0) else (-reach, reach) for i in plain.intervals)
        return case._replace(attacker=replace(plain, p=None, radius=0.0, scale=None, intervals=intervals))

    return cases(several=several).map(without_norm)


def is_coarse(ensemble: Ensemble, plain: OracleAttacker) -> bool:
    """Whether some interval excludes 0 and is narrower than the steps between the largest doubles it may meet."""
    for f, (low, high) in enumerate(plain.intervals):
        if low <= 0 <= high:
            continue
        ends = [*oracles.thresholds(ensemble, f), *(e for e in (low, high) if math.isfinite(e))]
        largest = 4 * max([abs(e) for e in ends] or [1.0])
        if not math.isfinite(largest) or high - low < math.ulp(largest):
            return True
    return False


def assert_sound(case: Case) -> None:
    ensemble, plain, x, _, eps = case
    attacker = as_attacker(plain)
    truth = [oracles.stable(ensemble, plain, x), oracles.stable_around(ensemble, plain, x, eps)]
    before = np.array([False, False])
    for count in COUNTS:
        analysis = tp.analyze(ensemble, attacker, max_iterations=count, n_jobs=1, missing=True)
        proved = np.array([analysis.is_stable([x])[0], analysis.covers([x], list(eps))[0]])
        assert (proved <= truth).all(), f"unstable, but proved stable after {analysis.iterations} iterations"
        assert (proved >= before).all(), "a region grew"
        before = proved
    assert analysis.complete
    if not is_coarse(ensemble, plain):
        assert proved.tolist() == truth


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_nothing_unstable_is_called_stable_after_any_number_of_iterations() -> None:
    @settings(max_examples=300, deadline=None, database=None)
    @given(plain_cases())
    def check(case: Case) -> None:
        assert_sound(case)

    check()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_the_same_holds_where_trees_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LARGEST_TABLE", 0)

    @settings(max_examples=120, deadline=None, database=None)
    @given(plain_cases())
    def check(case: Case) -> None:
        assert_sound(case)

    check()


@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_the_same_holds_where_every_interval_excludes_0() -> None:
    reach = st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0, 7.0])

    @settings(max_examples=100, deadline=None, database=None)
    @given(plain_cases(), st.lists(st.tuples(reach, reach, st.booleans()), min_size=3, max_size=3))
    def check(case: Case, ends: list[tuple[float, float, bool]]) -> None:
        intervals = [(min(a, b), max(a, b)) if up else (-max(a, b), -min(a, b)) for a, b, up in ends]
        attacker = replace(case.attacker, intervals=tuple(intervals[: case.ensemble.n_features]))
        try:
            assert_sound(case._replace(attacker=attacker))
        except NotImplementedError:
            reject()  # too narrow an interval for the oracle

    check()


@pytest.mark.usefixtures("small_steps")
def test_the_same_holds_where_tests_have_several_cuts() -> None:
    @settings(max_examples=40, deadline=None, database=None)
    @given(plain_cases(several=True))
    def check(case: Case) -> None:
        assert_sound(case)

    check()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("small_steps")
def test_the_same_holds_in_many_cases_where_tests_have_several_cuts() -> None:
    @settings(max_examples=250, deadline=None, database=None)
    @given(plain_cases(several=True))
    def check(case: Case) -> None:
        assert_sound(case)

    check()


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=150, deadline=None, database=None)
@given(plain_cases(several=False).filter(lambda case: case.ensemble.n_trees == 1))
def test_single_trees_are_exact_without_iterations(case: Case) -> None:
    ensemble, plain, x, _, eps = case
    analysis = tp.analyze(ensemble, as_attacker(plain), max_iterations=0, missing=True)
    assert analysis.complete and analysis.iterations == 0
    if not is_coarse(ensemble, plain):
        assert analysis.is_stable([x])[0] == oracles.stable(ensemble, plain, x)
        assert analysis.covers([x], list(eps))[0] == oracles.stable_around(ensemble, plain, x, eps)


def test_a_move_may_leap_over_the_place_it_would_need() -> None:
    """Label 1 iff x0 > 10 and x1 in (8, 9]. From 7 or 4.5 x1 cannot get there by 5 to 6; from 3.5 it can."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1], rule=ScoreRule(decision=Decision.CUT, cut=1.5), base=[0.0])
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[10.0, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
        scores=[[0], [0], [1]],
    )  # fmt: skip
    builder.add_tree(
        feature=[1, LEAF, 1, LEAF, LEAF], threshold=[8.0, 0, 9.0, 0, 0], left=[1, LEAF, 3, LEAF, LEAF],
        right=[2, LEAF, 4, LEAF, LEAF], scores=[[0], [0], [0], [1], [0]],
    )  # fmt: skip
    analysis = tp.analyze(builder.build(), tp.Attacker([(0.0, 1.0), (5.0, 6.0)]))
    rows = [[9.5, 8.5], [9.5, 7.0], [9.5, 4.5], [9.5, 3.5], [9.5, 2.5], [9.5, 9.5], [8.5, 2.5]]
    assert analysis.is_stable(rows).tolist() == [False, True, True, False, False, True, True]
    assert analysis.complete


def test_a_gap_in_the_middle_is_seen() -> None:
    """Label 1 for (1, 2] and above 5, in one tree: what lies in the gap can be moved out, and what is around in."""
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[0.0, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
        scores=[[0, 0], [1, 0], [0, 1]], pieces={0: Pieces((1.0, 2.0, 5.0), (True, False, True, False))},
    )  # fmt: skip
    analysis = tp.analyze(builder.build(), tp.Attacker.linf(0.25))
    rows = [[0.5], [0.75], [0.8], [1.2], [1.25], [1.5], [1.75], [1.8], [2.2], [2.25], [2.3], [4.8], [5.2], [5.3]]
    stable = [True, True, False, False, False, True, True, False, False, False, True, False, False, True]
    assert analysis.complete and analysis.is_stable(rows).tolist() == stable


@pytest.mark.parametrize("seed", range(4))
def test_categories_become_what_the_model_knows_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    for _ in range(4):
        model, moves, budget = random_model(random), random_moves(random), random.choice((None, 1, 2))
        analysis = tp.analyze(model, tp.Attacker(moves, budget=budget), max_iterations=None, n_jobs=1)
        rows = [random_row(random) for _ in range(20)]
        stable = [is_stable(model, row, moves, budget, oracles.predict(model, row)) for row in rows]
        assert analysis.complete and analysis.is_stable(np.array(rows)).tolist() == stable


# --- real models -------------------------------------------------------------------------------------------------


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.random((300, 4))
    return X, (X.sum(axis=1) + rng.normal(size=300) * 0.3 > 2).astype(int) + (X[:, 0] > 0.8)


def forest(n_trees: int = 4, **kwargs: Any) -> Ensemble:
    from sklearn.ensemble import RandomForestClassifier

    X, y = data()
    return tp.from_model(RandomForestClassifier(n_trees, max_depth=3, random_state=0).fit(X, y), **kwargs)


def boosted() -> Ensemble:
    from sklearn.ensemble import GradientBoostingClassifier

    X, y = data()
    return tp.from_model(GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0).fit(X, y))


def with_missing() -> Ensemble:
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = data()
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = HistGradientBoostingClassifier(max_iter=4, max_depth=2, min_samples_leaf=5, random_state=0)
    return tp.from_model(model.fit(X, (y > 0).astype(int)))


ATTACKERS = [
    tp.Attacker((-0.05, 0.0), budget=1),
    tp.Attacker.linf(0.03),
    tp.Attacker.l0(1),
    tp.Attacker((-0.05, 0.1), costs=[1, 2, 3, 0], budget=3),
    tp.Attacker((0.02, 0.1), budget=2),
    tp.Attacker({0: (-0.2, 0.2), 2: (-0.1, 0.0)}, budget=1, domain=(0.0, 1.0)),
    tp.Attacker((-0.1, 0.1), budget=0),
]
MODELS = {
    "votes": lambda: forest(voting="hard"),
    "three classes": forest,
    "boosted": boosted,
    "missing": with_missing,
}


@pytest.mark.slow
@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
@pytest.mark.parametrize("name", MODELS)
def test_regions_shrink_towards_what_exact_verification_says(name: str, attacker: tp.Attacker) -> None:
    ensemble = MODELS[name]()
    rows = np.clip(critical_rows(ensemble, data()[0][:60]), 0.0, 1.0)[::7]
    if ensemble.may_be_missing.any():
        rows[::3, 1] = np.nan
        rows[::5, 3] = np.nan
    exact = tp.verify(ensemble, rows, ensemble.predict(rows), attacker, epsilon=0.01)
    stable, resilient = exact.stability == tp.Outcome.PROVED, exact.resilience_by_epsilon[0] == tp.Outcome.PROVED
    before = 0
    for count in (0, 1, 3, 8, 20, None):
        analysis = tp.analyze(ensemble, attacker, max_iterations=count, missing=True)
        proved, around = analysis.is_stable(rows), analysis.covers(rows, 0.01)
        assert not (proved & ~stable).any()
        assert not (around & ~resilient).any()
        assert proved.sum() >= before
        before = proved.sum()
    assert analysis.complete
    assert (proved == stable).all()
    assert (around == resilient).all()


def test_estimates_are_the_shares_of_proved_rows() -> None:
    X, y = data()
    ensemble = forest()
    attacker = tp.Attacker((-0.05, 0.0), budget=1)
    analysis = tp.analyze(ensemble, attacker)
    exact = tp.verify(ensemble, X, y, attacker, epsilons=[0.01, 0.02])
    assert analysis.robustness(X, y) == float(exact.robustness)
    assert analysis.resilience(X, y, 0.01) == float(exact.resilience_at[0.01])
    assert analysis.resilience_at(X, y, [0.01, 0.02]) == {e: float(exact.resilience_at[e]) for e in (0.01, 0.02)}
    assert analysis.resilience(X, y, {0: 0.02}) >= analysis.resilience(X, y, 0.02)
    assert math.isnan(analysis.robustness(X[:0], y[:0]))


def test_the_number_of_threads_changes_nothing() -> None:
    ensemble, attacker = forest(7), tp.Attacker((-0.05, 0.05), budget=1)
    for count in (3, None):
        one, three = (tp.analyze(ensemble, attacker, count, n_jobs=n) for n in (1, 3))
        assert one.iterations == three.iterations and one.splits == three.splits > 0
        assert (one._boxes == three._boxes).all()


def test_missing_values_are_left_out_unless_asked_for() -> None:
    ensemble, attacker = with_missing(), tp.Attacker((-0.05, 0.0), budget=1)
    rows = data()[0][:80].copy()
    rows[::2, 1] = np.nan
    without, including = (
        tp.analyze(ensemble, attacker, missing=m, track=(rows, ensemble.predict(rows), 0.0)) for m in (False, True)
    )
    assert not without.is_stable(rows)[::2].any()
    assert including.is_stable(rows)[::2].any()
    assert (without.is_stable(rows) == including.is_stable(rows))[1::2].all()
    assert not without.covers(rows, 0.0)[::2].any()
    for analysis in (without, including):
        assert (
            analysis.history.robustness[-1] == analysis.is_stable(rows).mean() == analysis.history.resilience[0.0][-1]
        )


def test_no_attack_is_listed_twice() -> None:
    analysis = tp.analyze(forest(7), tp.Attacker((-0.05, 0.05), budget=1), 10)
    rows = {box.tobytes() for box in analysis._boxes}
    assert len(rows) == len(analysis) > 1000


def ruler(depth: int) -> Ensemble:
    """One balanced tree on one feature that says whether the nearest whole number is odd."""
    n_inner = 2**depth - 1
    nodes = np.arange(2 * n_inner + 1)
    level = np.floor(np.log2(nodes + 1)).astype(int)
    place = nodes + 1 - 2**level
    inner = nodes < n_inner
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=np.where(inner, 0, LEAF),
        threshold=np.where(inner, (2.0 * place + 1) * 2.0 ** (depth - 1 - level) - 0.5, 0.0),
        left=np.where(inner, 2 * nodes + 1, LEAF),
        right=np.where(inner, 2 * nodes + 2, LEAF),
        scores=np.column_stack((place % 2 == 0, place % 2 == 1)).astype(float),
    )
    return builder.build()


def test_models_with_more_cells_than_fit_two_bytes() -> None:
    ensemble = ruler(14)
    assert ensemble.predict([[0.0], [1.2], [7000.0], [7001.4]]).tolist() == [0, 1, 0, 1]
    analysis = tp.analyze(ensemble, tp.Attacker.linf(0.25))
    assert analysis._boxes.dtype == np.int32
    assert analysis.is_stable([[7000.0], [7000.4], [99_999.0]]).tolist() == [True, False, True]


# --- limits ------------------------------------------------------------------------------------------------------


def hard_question() -> tuple[Ensemble, tp.Attacker]:
    """Would take minutes."""
    return forest(40), tp.Attacker.linf(0.1)


def assert_sound_on_data(analysis: tp.Analysis, attacker: tp.Attacker) -> None:
    X, _ = data()
    exact = tp.verify(analysis.ensemble, X[:50], analysis.ensemble.predict(X[:50]), attacker)
    assert not (analysis.is_stable(X[:50]) & (exact.stability != tp.Outcome.PROVED)).any()


@pytest.mark.parametrize("seconds", [0, 1.5])
def test_a_time_limit_is_kept(seconds: float, clock: Clock) -> None:
    ensemble, attacker = hard_question()
    clock.per_look = 0.05
    analysis = tp.analyze(ensemble, attacker, None, max_seconds=seconds)
    assert analysis.stopped == "time" and not analysis.complete
    assert_sound_on_data(analysis, attacker)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0, 100_000, 30_000_000])
def test_a_memory_cap_is_kept(memory: int) -> None:
    ensemble, attacker = hard_question()
    analysis = tp.analyze(ensemble, attacker, None, max_bytes=memory)
    assert analysis.stopped == "memory"
    assert analysis._boxes.nbytes <= max(memory, 1000)
    assert_sound_on_data(analysis, attacker)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_returns_what_is_known() -> None:
    ensemble, attacker = hard_question()
    threading.Thread(target=press_ctrl_c).start()
    analysis = tp.analyze(ensemble, attacker, None)
    assert analysis.stopped == "interrupted"
    assert_sound_on_data(analysis, attacker)


def test_no_iterations_is_an_answer_too() -> None:
    analysis = tp.analyze(forest(9), tp.Attacker.linf(0.1), max_iterations=0)
    assert analysis.stopped == "iterations" and analysis.iterations == 0
    assert_sound_on_data(analysis, tp.Attacker.linf(0.1))


# --- the table, the history, the index ---------------------------------------------------------------------------


def test_history_is_what_each_number_of_iterations_would_have_answered() -> None:
    X, y = data()
    ensemble, attacker = forest(5), tp.Attacker((-0.05, 0.0), budget=1)
    history = tp.analyze(ensemble, attacker, track=(X, y, [0.01, 0.03])).history
    assert len(history) > 5
    for count in [*range(0, len(history), 3), len(history) - 1]:
        analysis = tp.analyze(ensemble, attacker, count)
        assert history.robustness[count] == analysis.robustness(X, y)
        for epsilon in (0.01, 0.03):
            assert history.resilience[epsilon][count] == analysis.resilience(X, y, epsilon)
        assert history.candidates[count] == (~analysis.attacks["ended"]).sum()
    assert history.robustness[0] < history.robustness[-1]
    assert (np.diff(history.robustness) >= 0).all()


def test_attacks_are_a_table() -> None:
    analysis = tp.analyze(forest(), tp.Attacker((-0.05, 0.0), budget=1), 5)
    table = analysis.attacks
    assert len(table) == len(analysis)
    row = table.iloc[3]
    shown = analysis[3]
    assert [row[f"pre x{f} low"] for f in range(4)] == [part.low for part in shown.pre]
    assert [row[f"post x{f} high"] for f in range(4)] == [part.high for part in shown.post]
    assert row["cost"] == shown.cost == 1
    with pytest.raises(IndexError):
        analysis[len(analysis)]


def test_attacks_without_pandas_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (tp.analyze(forest(), tp.Attacker((-0.05, 0.0), budget=1), 5) for _ in range(2))
    expected = first.attacks.to_dict("records")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert again.attacks == expected


@settings(max_examples=200, deadline=None, database=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 300), st.integers(1, 4), st.integers(2, 40))
def test_the_index_finds_exactly_the_boxes_that_a_query_meets(seed: int, n: int, n_features: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = np.sort(rng.integers(1, size, size=(n, n_features, 2)), axis=2).astype(np.int16)
    low, high = np.sort(rng.integers(0, size + 1, size=(2, 50, n_features)), axis=0)
    high[:25] = low[:25]
    expected = [
        bool(((boxes[..., 0] <= b) & (boxes[..., 1] >= a)).all(axis=1).any()) for a, b in zip(low, high, strict=True)
    ]
    assert UnstableRegion(boxes).meets(low, high).tolist() == expected


def test_many_rows_are_shared_among_threads() -> None:
    analysis = tp.analyze(forest(), tp.Attacker((-0.05, 0.0), budget=1), n_jobs=2)
    X = np.random.default_rng(0).random((120_000, 4))
    parts = np.concatenate([analysis.is_stable(part) for part in np.array_split(X, 7)])
    assert (analysis.is_stable(X) == parts).all()
    assert 0.1 < parts.mean() < 0.9


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"attacker": tp.Attacker.lp(2, 0.1)},
            r"attacks are boxes, and Attacker\.lp\(2, 0\.1\) reaches a ball",
        ),
        ({"attacker": 3}, "attacker must be a treeproof.Attacker, got int"),
        ({"max_iterations": -1}, "max_iterations must be a whole number of at least 0, got -1"),
        ({"max_iterations": 1.5}, "max_iterations must be a whole number"),
        ({"max_seconds": -1}, "max_seconds must be at least 0, got -1"),
        ({"max_bytes": "much"}, "max_bytes must be a whole number"),
        ({"n_jobs": 0}, "n_jobs must be a number of workers, or -1 for all, got 0"),
        ({"track": 3}, r"track must be \(X, y\) or \(X, y, epsilons\)"),
        ({"track": ([[0.0] * 4], [0, 1])}, "track has 1 rows and 2 labels"),
    ],
    ids=repr,
)
def test_bad_questions_are_refused_in_one_line(arguments: dict, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message) as refusal:
        tp.analyze(forest(), **{"attacker": tp.Attacker.linf(0.1), **arguments})
    assert "\n" not in str(refusal.value)


def test_bad_data_is_refused() -> None:
    analysis = tp.analyze(forest(), tp.Attacker((-0.05, 0.0), budget=1, domain=(0, 1)))
    with pytest.raises(tp.InvalidInput, match="outside the domain"):
        analysis.is_stable([[0.5, 0.5, 0.5, 2.0]])
    with pytest.raises(tp.InvalidInput, match="X has 1 rows and y has 2 labels"):
        analysis.robustness([[0.5] * 4], [0, 1])
    with pytest.raises(tp.InvalidInput, match="epsilon is None; give the size of the neighbourhood"):
        analysis.resilience([[0.5] * 4], [0])


# --- old spellings ---------------------------------------------------------------------------------------------------


def test_old_spellings_still_work_and_say_so() -> None:
    X, y = data()
    with pytest.warns(FutureWarning, match="max_memory is now max_bytes"):
        analysis = tp.analyze(forest(3), tp.Attacker((-0.05, 0.0), budget=1), max_memory=2**30)
    with pytest.warns(FutureWarning, match=r"Analysis\.converged is now Analysis\.complete"):
        assert analysis.converged == analysis.complete
    with pytest.warns(FutureWarning, match=r"Analysis\.is_stable_around is now Analysis\.covers"):
        assert (analysis.is_stable_around(X, 0.01) == analysis.covers(X, 0.01)).all()
    with pytest.warns(FutureWarning, match=r"is now Analysis\.resilience_at"):
        assert analysis.resilience(X, y, epsilons=[0.01]) == {0.01: analysis.resilience(X, y, 0.01)}
