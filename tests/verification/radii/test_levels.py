"""The hunt: levels one double apart, ties, and time that runs out."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker, exact_radius
from tests.support.clock import Clock
from tests.support.oracles import OracleAttacker
from tests.support.radius_oracle import TINY, largest_root, least_cost, least_scale
from tests.support.strategies import pick
from treeproof.importers import EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import from_ordinal, ordinal
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.verification.local_search import NO_CELL, Local
from treeproof.verification.radii.lowest import PATIENT, QUICK, lowest_levels
from treeproof.verification.radii.question import Broken
from treeproof.verification.radii.radii import _resilience, resilience_radius, robustness_radius
from treeproof.verification.radii.resilience import Resilience, highest_below
from treeproof.verification.radii.robustness import IntervalRobustness, LpRobustness

# --- levels one double apart -------------------------------------------------------------------------------------

ORDINARY = st.floats(-1e6, 1e6)
ANY = st.floats(allow_nan=False, allow_infinity=False)
LEVELS = st.one_of(
    st.fractions(min_value=0, max_value=10**6).filter(bool),
    ANY.filter(bool).map(lambda value: abs(Fraction(value))),
    st.tuples(ANY, ANY).map(lambda pair: abs(Fraction(pair[0]) - Fraction(pair[1]))).filter(bool),
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(ORDINARY, ANY), min_size=1, max_size=3), LEVELS)
def test_highest_below_is_the_last_double_before_the_sum(x: list[float], level: Fraction) -> None:
    got = highest_below(np.array([[*x, math.nan]]), [level])[0]
    for value, double in zip(x, got, strict=False):
        total = Fraction(value) + level
        assert Fraction(float(double)) < total
        assert double == oracles.LARGEST or Fraction(math.nextafter(double, math.inf)) >= total
    assert math.isnan(got[-1])


def any_of(thresholds: list[float], labels: tuple[int, ...]) -> Ensemble:
    """Label 0 where every feature is at most its threshold, else that of the first feature above."""
    n = len(thresholds)
    builder = EnsembleBuilder(n_features=n, classes=(0, 1, 2), value_limit=oracles.LARGEST)
    scores = [tuple(float(label == k) for k in range(3)) for label in (0, *labels)]
    # A chain: node f goes right to the leaf of feature f, left to the next node, at the end to the leaf of label 0.
    builder.add_tree(
        feature=[*range(n), *[-1] * (n + 1)],
        threshold=[*thresholds, *[0.0] * (n + 1)],
        left=[*range(1, n + 1), *[-1] * (n + 1)],
        right=[n + 1 + f for f in range(n)] + [-1] * (n + 1),
        scores=[scores[0]] * n + scores,
    )
    return builder.build()


@st.composite
def nearly_equal_levels(draw: st.DrawFn) -> tuple[Ensemble, OracleAttacker, tuple[float, ...]]:
    """Every feature breaks the row alone, each at nearly the same level: thresholds a few doubles apart."""
    n = draw(st.integers(2, 3))
    level = draw(pick(1.0, 0.1, 0.3, 2.0**-52, 7.0, 1e16, 1e-300))
    reach = draw(pick(0.1, 0.3, 1.0, 2.0**-53, 3.0))
    x, thresholds, intervals = [], [], []
    for _ in range(n):
        value, end = draw(pick(0.0, 0.1, 0.7, -0.3, 1.0, -1.0, 1e15)), draw(pick(reach, reach, 3 * reach))
        near = value + level * draw(pick(1.0, end))
        for _ in range(draw(st.integers(0, 3))):
            near = math.nextafter(near, draw(pick(math.inf, -math.inf)))
        assume(value <= near)
        x.append(value)
        thresholds.append(near)
        intervals.append((-draw(pick(0.0, end)), end))
    labels = draw(st.tuples(*[pick(1, 2)] * n))
    return any_of(thresholds, labels), OracleAttacker(tuple(intervals), (1,) * n, draw(pick(None, 1))), tuple(x)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(nearly_equal_levels())
def test_robustness_tells_levels_a_double_apart(drawn: tuple[Ensemble, OracleAttacker, tuple[float, ...]]) -> None:
    ensemble, attacker, x = drawn
    threat = as_attacker(attacker).bind(ensemble)
    question = IntervalRobustness(ensemble, threat, np.array([x]), Limits())
    expected = least_scale(ensemble, attacker, x)
    assert lowest_levels(question)[0] == [expected]
    # Also from each feature's own level down, however the hunt came by it.
    for f, value in enumerate(x):
        first = Fraction(math.nextafter(float(ensemble.grid.cuts_of(f)[0]), math.inf))
        level = (first - Fraction(value)) / Fraction(attacker.intervals[f][1])
        (answer,) = question.below([0], [level])
        assert (answer == Outcome.PROVED) == (level == expected)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(nearly_equal_levels(), st.sampled_from([1, 2, 3]))
def test_lp_radii_tell_levels_a_double_apart(drawn: tuple[Ensemble, OracleAttacker, tuple[float, ...]], p: int) -> None:
    ensemble, _, x = drawn
    n = len(x)
    ball = OracleAttacker(((-1.0, 1.0),) * n, (1,) * n, p=p, radius=1.0)
    question = LpRobustness(ensemble, as_attacker(ball).bind(ensemble), np.array([x]), Limits())
    expected = least_cost(ensemble, ball, x)
    assert question.lowest_levels()[0] == [expected]
    for f, value in enumerate(x):
        level = (Fraction(math.nextafter(float(ensemble.grid.cuts_of(f)[0]), math.inf)) - Fraction(value)) ** p
        (answer,) = question.below([0], [level])
        assert (answer == Outcome.PROVED) == (level == expected)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(nearly_equal_levels())
def test_resilience_tells_levels_a_double_apart(drawn: tuple[Ensemble, OracleAttacker, tuple[float, ...]]) -> None:
    ensemble, attacker, x = drawn
    n = len(x)
    radius = exact_radius(ensemble, attacker, x, 0, partial(_resilience, unit=np.ones(n)))
    if radius == -math.inf:
        assert not oracles.stable(ensemble, attacker, x)
        return
    if radius == math.inf:
        assert oracles.resilient(ensemble, attacker, x, 0, [math.inf] * n)
        return
    assert isinstance(radius, Fraction) and radius > 0
    assert not oracles.resilient(ensemble, attacker, x, 0, [radius] * n)
    assert oracles.resilient(ensemble, attacker, x, 0, [radius - min(TINY, radius / 2)] * n)


# --- the level of one counterexample -----------------------------------------------------------------------------
# The hunt would correct a level that is too high, one search at a time; these are the levels it starts from.


@pytest.mark.parametrize("move", [3.0, 7.0, 9.0, 63.0, -3.0, -64.0])
@pytest.mark.parametrize("away", [0, 1, 2, 5, 40, 150])
@pytest.mark.parametrize("below", [False, True])
def test_the_nearest_start_of_a_move_that_skips_doubles(move: float, away: int, below: bool) -> None:
    # Doubles above 2**53 are 2 apart, those below it 1; x is `away` doubles from it, and the move is exact.
    edge = 2.0**53
    ensemble = any_of([edge], (1,))
    x = edge
    for _ in range(away):
        x = math.nextafter(x, 0.0 if below else math.inf)
    question = Resilience(ensemble, tp.Attacker((move, move)).bind(ensemble), np.array([[x]]), Limits(), np.ones(1))
    near = [from_edge(edge, k) for k in range(-300, 300)]
    start, goal = (0, 1) if move > 0 else (1, 0)
    starts = [z for z in near if (z > edge) == bool(start) and is_double(Fraction(z) + Fraction(move))]
    starts = [z for z in starts if (z + move > edge) == bool(goal)]
    assert starts
    expected = min(abs(Fraction(z) - Fraction(x)) for z in starts)
    for known in (starts[0], starts[-1]):
        assert question._nearest(0, 0, start, goal, known) == expected
    # The same in the mirror.
    ensemble = any_of([math.nextafter(-edge, -math.inf)], (1,))
    question = Resilience(ensemble, tp.Attacker((-move, -move)).bind(ensemble), np.array([[-x]]), Limits(), np.ones(1))
    for known in (-starts[0], -starts[-1]):
        assert question._nearest(0, 0, goal, start, known) == expected


def from_edge(edge: float, steps: int) -> float:
    return float(from_ordinal(int(ordinal(edge)) + steps))


def is_double(number: Fraction) -> bool:
    return Fraction(float(number)) == number


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25), st.booleans()), min_size=1, max_size=3),
    st.integers(1, 30),
    st.integers(1, 3),
)
def test_the_level_of_an_lp_pair_is_the_least_that_can_be_paid(
    features: list[tuple[int, int, bool]], radius: int, p: int
) -> None:
    # Everything in steps of one double around 1.5: x, then the threshold, some steps up or down.
    step = Fraction(1, 2**52)
    x = [1.5 + float(step * offset) for offset, _, _ in features]
    far = [(distance + 1) * (1 if up else -1) for _, distance, up in features]
    cuts = [value + float(step * (away - 1 if away > 0 else away)) for value, away in zip(x, far, strict=True)]
    ensemble = any_of(cuts, (1,) * len(x))
    attacker = tp.Attacker.lp(p, float(step * radius))
    question = Resilience(ensemble, attacker.bind(ensemble), np.array([x]), Limits(), np.ones(len(x)))
    cells = {f: (0, 1) if away > 0 else (1, 0) for f, away in enumerate(far)}

    def can_pay(steps: int) -> bool:
        return sum(max(abs(away) - min(steps, abs(away) - 1), 0) ** p for away in far) <= radius**p

    farthest = max(abs(away) - 1 for away in far)
    assume(can_pay(farthest))
    least = min(steps for steps in range(farthest + 1) if can_pay(steps))
    neighbour = [value + float(step * (away - int(math.copysign(1, away)))) for value, away in zip(x, far, strict=True)]
    assert question._nearest_in_all(0, cells, np.array(neighbour)) == least * step


@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("share", [0.3, 0.8, 0.9, 1.1, 1.7, 2.3])
def test_costs_that_no_double_can_hold_are_told_apart(p: int, share: float) -> None:
    # Distances whose power is about the smallest double there is: rounded, the cheaper one can look dearer.
    dear = share * 2.0 ** (-1074 / p)
    cheap = dear * (1 - 2.0**-20)
    for cuts in ([cheap, dear], [dear, cheap]):
        ensemble = any_of(cuts, (1, 1))
        question = LpRobustness(ensemble, tp.Attacker.lp(p, 1.0).bind(ensemble), np.zeros((1, 2)), Limits())
        level = Fraction(math.nextafter(dear, 1.0)) ** p
        (answer,) = question.below([0], [level])
        assert answer != Outcome.PROVED
        assert question.lowest_levels()[0] == [Fraction(math.nextafter(cheap, 1.0)) ** p]


# --- ties --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2])
def test_many_counterexamples_of_equal_cost_are_told_from_a_cheaper_one(p: int) -> None:
    # Any three of six features up by 1 flip the label, at the same cost; features 0, 1, 2 together are a double nearer.
    n = 6
    builder = EnsembleBuilder(n_features=n, classes=(0, 1), base=(2.5, 0.0))
    thresholds = [math.nextafter(1.0, 0.0)] * 3 + [1.0] * 3
    for f in range(n):
        builder.add_tree(
            feature=[f, -1, -1],
            threshold=[thresholds[f], 0, 0],
            left=[1, -1, -1],
            right=[2, -1, -1],
            scores=[(0, 0), (0, 0), (0, 1)],
        )
    ensemble = builder.build()
    ball = OracleAttacker(((-1.0, 1.0),) * n, (1,) * n, p=p, radius=1.0)
    x = (0.0,) * n
    assert least_cost(ensemble, ball, x) == 3
    for level in (Fraction(3), Fraction(3) + Fraction(1, 2**60)):
        question = LpRobustness(ensemble, as_attacker(ball).bind(ensemble), np.array([x]), Limits())
        (answer,) = question.below([0], [level])
        assert (answer == Outcome.PROVED) == (level == 3)
    got = float(robustness_radius(ensemble, [x], [0], tp.Attacker.lp(p, 1.0))[0])
    assert largest_root(got, ball, Fraction(3))


def test_budgets_and_what_is_too_dear_are_those_of_each_row() -> None:
    ensemble = any_of([1.0, 1.5], (1, 1))
    local = Local(ensemble, tp.Attacker.lp(1, 9.0).bind(ensemble))
    rows = np.zeros((3, 2))
    dear = np.array([[[1, 0]], [[0, 1]], [[0, 1]]], dtype=np.int32)
    status, cells = local.search_within(rows, (rows - 9.0, rows + 9.0), np.array([1.2, 1.2, 0.9]), dear)
    assert status.tolist() == [Outcome.PROVED, Outcome.REFUTED, Outcome.PROVED] and cells[1].tolist() == [1, 0]


# --- time that runs out ------------------------------------------------------------------------------------------


def two_thresholds() -> Ensemble:
    return any_of([1.0, 1.5], (1, 1))


RADII = [
    (robustness_radius, tp.Attacker.linf(1.0)),
    (robustness_radius, tp.Attacker.lp(2, 1.0)),
    (resilience_radius, tp.Attacker.linf(0.25)),
    (resilience_radius, tp.Attacker.lp(2, 0.25)),
]


def run_out_of_time(monkeypatch: pytest.MonkeyPatch, is_too_long: Any) -> list[float]:
    """Makes searches end undecided where `is_too_long(timeout, whether one broke before)`; returns the timeouts."""
    asked: list[float] = []
    run = Local._run
    broken = [False]

    def hurried(self: Local, low: np.ndarray, *args: Any, **options: Any) -> Any:
        asked.append(self.limits.timeout)
        status, cells = run(self, low, *args, **options)
        found = (cells != NO_CELL).any()
        if is_too_long(self.limits.timeout, broken[0]):
            status[:] = Outcome.UNKNOWN
        broken[0] |= bool(found)
        return status, cells

    monkeypatch.setattr(Local, "_run", hurried)
    return asked


@pytest.mark.parametrize(("radius", "attacker"), RADII)
def test_a_level_that_was_found_but_not_proved_is_nan(
    radius: Any, attacker: tp.Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = [[0.0, 0.0], [2.0, 0.0]], [0, 0]
    expected = radius(two_thresholds(), X, y, attacker, timeout=100.0)
    assert np.isfinite(expected[0]) and expected[1] == -math.inf
    # Tries succeed, and searches until a level is found; then time runs out.
    asked = run_out_of_time(monkeypatch, lambda timeout, broken: timeout == 100.0 and broken)
    got = radius(two_thresholds(), X, y, attacker, timeout=100.0)
    assert math.isnan(got[0]) and got[1] == -math.inf
    assert asked[-1] == 100.0 and (QUICK in asked or attacker_is_priced(radius, attacker))


def attacker_is_priced(radius: Any, attacker: tp.Attacker) -> bool:
    """Whether the radius is the price of the cheapest attack, for which nothing is tried first."""
    return bool(radius is robustness_radius and attacker.power is not None)


@pytest.mark.slow
@pytest.mark.parametrize(("radius", "attacker"), [case for case in RADII if not attacker_is_priced(*case)])
def test_tries_that_take_too_long_change_nothing_but_the_way(
    radius: Any, attacker: tp.Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = [[0.0, 0.0], [0.5, -1.0]], [0, 0]
    expected = radius(two_thresholds(), X, y, attacker)
    assert np.isfinite(expected).all()
    asked = run_out_of_time(monkeypatch, lambda timeout, _: timeout is not None and timeout < QUICK * PATIENT)
    assert radius(two_thresholds(), X, y, attacker).tolist() == expected.tolist()
    assert QUICK in asked
    asked = run_out_of_time(monkeypatch, lambda timeout, _: timeout is not None and timeout < 5.0)
    assert radius(two_thresholds(), X, y, attacker, timeout=5.0).tolist() == expected.tolist()
    assert None not in asked[len(asked) // 2 :] and 5.0 in asked


@pytest.mark.parametrize(("radius", "attacker"), RADII)
def test_no_time_at_all_decides_no_row(radius: Any, attacker: tp.Attacker, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = run_out_of_time(monkeypatch, lambda *_: True)
    got = radius(two_thresholds(), [[0.0, 0.0], [2.0, 0.0]], [0, 0], attacker, timeout=0.0)
    assert math.isnan(got[0]) and got[1] == -math.inf
    assert set(asked) <= {0.0}


def test_endless_ties_end_with_the_timeout(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    ensemble = two_thresholds()
    clock.per_look = 0.01
    question = LpRobustness(ensemble, tp.Attacker.lp(1, 1.0).bind(ensemble), np.zeros((1, 2)), Limits(0.3))
    tie = np.array([[0, 1]], dtype=np.int32)
    monkeypatch.setattr(Local, "search_within", lambda *_: (np.array([Outcome.REFUTED]), tie))
    assert question.below([0], [Fraction(1)]) == [Outcome.UNKNOWN]
    assert clock.looks >= 30


@pytest.mark.slow
def test_hard_rows_are_nan_in_about_the_time_given(clock: Clock) -> None:
    X, y = load_digits(return_X_y=True)
    clf = RandomForestClassifier(300, max_depth=10, random_state=0, n_jobs=2).fit(X[::2] / 16, y[::2])
    X = X[1:6:2] / 16
    labels = clf.predict(X)
    clock.per_look = 0.01
    got = robustness_radius(clf, X, labels, tp.Attacker.lp(2, 1.0), timeout=0.05)
    assert np.isnan(got).any() and not np.isinf(got).any()
    assert clock.looks < 5000


def test_a_deadline_ends_a_hunt_that_would_try_again_for_ever(clock: Clock) -> None:
    """Below a level that was found, tries that say nothing are repeated with more patience, without end."""

    class Foggy(IntervalRobustness):
        tries = 0

        def hints(self) -> Any:
            return np.array([[1.0, 2.0, 3.0]])

        def around(self, rows: Any, values: Any) -> Any:
            self.tries += 1
            assert self.tries < 1000, "the hunt goes on after its deadline"
            if values == [3.0]:
                return [Broken(Fraction(3), self.X[0], self.X[0])]
            clock.add(0.01)
            return [Outcome.UNKNOWN]

    ensemble = two_thresholds()
    limits = Limits(deadline=clock.seconds + 0.2)
    question = Foggy(ensemble, tp.Attacker.linf(1.0).bind(ensemble), np.zeros((1, 2)), limits)
    assert math.isnan(lowest_levels(question)[0][0])
    assert question.tries > 3
