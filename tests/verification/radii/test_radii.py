"""Radii are exact: the oracle finds a row whole just below its radius, and broken at it."""

from __future__ import annotations

import math
import signal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker, exact_radius
from tests.support.clock import Clock, press_ctrl_c, until
from tests.support.oracles import OracleAttacker
from tests.support.radius_oracle import TINY, largest_root, least_cost, least_scale
from tests.support.strategies import Case, cases, points, tiny_ensembles
from treeproof.importers import EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.verification.local_search import Local
from treeproof.verification.radii.radii import (
    ResilienceCurve,
    _resilience,
    resilience_curve,
    resilience_radius,
    robustness_radius,
)


def stump(*thresholds: float, labels: str = "abababab") -> Ensemble:
    """One feature, one label per cell."""
    builder = EnsembleBuilder(n_features=1, classes=("a", "b"))
    n = len(thresholds)
    rows = [(1.0, 0.0) if label == "a" else (0.0, 1.0) for label in labels[: n + 1]]
    # A chain: inner nodes 0 .. n-1, leaves n .. 2n; node k goes left to leaf k.
    builder.add_tree(
        feature=[0] * n + [-1] * (n + 1),
        threshold=[*sorted(thresholds), *[0.0] * (n + 1)],
        left=[n + k for k in range(n)] + [-1] * (n + 1),
        right=[k + 1 for k in range(n - 1)] + [2 * n] + [-1] * (n + 1),
        scores=[rows[0]] * n + rows,
    )
    return builder.build()


# --- robustness: all cell vectors, one by one --------------------------------------------------------------------


def excludes_0(attacker: OracleAttacker) -> bool:
    return attacker.p is None and any(low > 0 or high < 0 for low, high in attacker.intervals)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(cases())
def test_robustness_radius_equals_brute_force_over_cells(case: Case) -> None:
    ensemble, attacker, x, y, _ = case
    assume(not excludes_0(attacker))
    assert_is_robustness_radius(float(robustness_radius(ensemble, [x], [y], as_attacker(attacker))[0]), case)


def assert_is_robustness_radius(got: float, case: Case) -> None:
    ensemble, attacker, x, y, _ = case
    if oracles.predict(ensemble, x) != y:
        assert got == -math.inf
    elif attacker.p is None:
        expected = least_scale(ensemble, attacker, x)
        assert got == (expected if isinstance(expected, float) else oracles.double_at_most(expected))
    elif attacker.radius == 0 or least_cost(ensemble, attacker, x) == math.inf:
        assert got == math.inf
    else:
        assert largest_root(got, attacker, least_cost(ensemble, attacker, x))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from([math.inf, 1, 2, 3]))
def test_for_unit_balls_it_is_the_minimal_adversarial_distance(data: st.DataObject, p: float) -> None:
    thresholds = (0.0, 0.1, 0.3, 0.5, 1.0, -0.7, 2.0, 3.0, 1.5)
    ensemble = data.draw(tiny_ensembles(3, thresholds))
    x = data.draw(points(ensemble))
    n = ensemble.n_features
    plain = OracleAttacker(((-1.0, 1.0),) * n, (1,) * n, p=None if p == math.inf else int(p), radius=1.0)
    got = float(robustness_radius(ensemble, [x], [oracles.predict(ensemble, x)], tp.Attacker.lp(p, 1.0))[0])
    expected = least_scale(ensemble, plain, x) if p == math.inf else least_cost(ensemble, plain, x)
    if expected == math.inf:
        assert got == math.inf
    elif p == math.inf:
        assert got == oracles.double_at_most(expected)
    else:
        assert largest_root(got, plain, expected)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Case, list[tuple[tuple[float, ...], Any]]]:
    """A case, and more labelled points for its model and attacker."""
    case = draw(cases(max_features=2))
    more = draw(st.lists(points(case.ensemble), min_size=1, max_size=4))
    labels = [oracles.predict(case.ensemble, x) for x in more]
    attacker = case.attacker
    inside = [
        all(math.isnan(v) or span.first <= v <= span.last for v, span in zip(x, domains(attacker, len(x)), strict=True))
        for x in more
    ]
    rows = [(x, y) for x, y, fits in zip(more, labels, inside, strict=True) if fits]
    return case, [(case.x, case.y), *rows]


def domains(attacker: OracleAttacker, n: int) -> list[oracles.Span]:
    return [oracles._domain(attacker, f) for f in range(n)]


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(batches())
def test_rows_of_one_call_have_their_own_radius(batch: tuple[Case, list[tuple[tuple[float, ...], Any]]]) -> None:
    case, rows = batch
    assume(not excludes_0(case.attacker))
    X, y = [x for x, _ in rows], [label for _, label in rows]
    radii = robustness_radius(case.ensemble, X, y, as_attacker(case.attacker))
    for got, (x, label) in zip(radii.tolist(), rows, strict=True):
        assert_is_robustness_radius(got, case._replace(x=x, y=label))


# --- resilience: the oracle on both sides ------------------------------------------------------------------------


def exact_resilience_radius(case: Case, unit: list[float] | None = None) -> Fraction | float:
    work = partial(_resilience, unit=np.array(unit or [1.0] * len(case.x)))
    return exact_radius(case.ensemble, case.attacker, case.x, case.y, work)


def resilient(case: Case, epsilon: Any, unit: list[float] | None = None) -> bool:
    sizes = unit or [1.0] * len(case.x)
    eps = [0.0 if size == 0 else epsilon if math.inf == epsilon else epsilon * Fraction(size) for size in sizes]
    try:
        return oracles.resilient(case.ensemble, case.attacker, case.x, case.y, eps)
    except (NotImplementedError, OverflowError):
        assume(False)
        raise


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(cases(max_features=2))
def test_a_row_is_resilient_below_its_radius_and_not_at_it(case: Case) -> None:
    radius = exact_resilience_radius(case)
    if radius == -math.inf:
        assert not resilient(case, 0.0)
    elif radius == math.inf:
        assert resilient(case, math.inf)
    else:
        assert radius > 0
        assert not resilient(case, radius)
        assert resilient(case, radius - min(TINY, radius / 2))
        shown = float(resilience_radius(case.ensemble, [case.x], [case.y], as_attacker(case.attacker))[0])
        assert shown == oracles.double_at_most(Fraction(radius))


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cases(max_features=2), st.integers(1, 3), st.sampled_from([0.1, 0.3, 1.0, 2.0**-53]))
def test_the_same_for_lp_attackers(case: Case, p: int, radius: float) -> None:
    n = len(case.x)
    attacker = OracleAttacker(((-math.inf, math.inf),) * n, (1,) * n, p=p, radius=radius)
    test_a_row_is_resilient_below_its_radius_and_not_at_it.hypothesis.inner_test(case._replace(attacker=attacker))


def assert_is_resilience_radius(case: Case, unit: list[float]) -> None:
    radius = exact_resilience_radius(case, unit)
    if radius == -math.inf:
        assert not resilient(case, Fraction(0), unit)
    elif radius == math.inf:
        assert resilient(case, math.inf, unit)
    else:
        assert isinstance(radius, Fraction) and radius > 0
        assert not resilient(case, radius, unit)
        assert resilient(case, radius - min(TINY, radius / 2), unit)
        assert any(unit)
        shown = resilience_radius(case.ensemble, [case.x], [case.y], as_attacker(case.attacker), epsilon=unit)
        assert shown.tolist() == [oracles.double_at_most(radius)]


UNITS = st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.0, 100.0, 2.0**-40])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(cases(max_features=2), st.lists(UNITS, min_size=2, max_size=2))
def test_a_radius_is_a_multiple_of_the_unit_of_each_feature(case: Case, unit: list[float]) -> None:
    assert_is_resilience_radius(case, unit[: len(case.x)])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cases(max_features=2), st.lists(UNITS, min_size=2, max_size=2), st.integers(1, 3), st.sampled_from([0.1, 1.0]))
def test_units_of_neighbours_and_of_lp_attackers_are_apart(
    case: Case, unit: list[float], p: int, radius: float
) -> None:
    n = len(case.x)
    attacker = OracleAttacker(((-math.inf, math.inf),) * n, (1,) * n, p=p, radius=radius, scale=(0.3, 5.0)[:n])
    assert_is_resilience_radius(case._replace(attacker=attacker), unit[:n])


def test_euros_and_years_have_their_own_units() -> None:
    builder = EnsembleBuilder(n_features=2, classes=("a", "b"), feature_names=("amount", "age"))
    # Class b above 1,000 of amount or above 30 of age.
    builder.add_tree(
        feature=[0, 1, -1, -1, -1],
        threshold=[1000.0, 30.0, 0, 0, 0],
        left=[1, 2, -1, -1, -1],
        right=[3, 4, -1, -1, -1],
        scores=[(1, 0), (1, 0), (1, 0), (0, 1), (0, 1)],
    )
    ensemble, X = builder.build(), [[500.0, 20.0], [990.0, 20.0], [500.0, 29.0]]
    down = tp.Attacker({"amount": (-50, 0), "age": (-1, 0)})  # from above the thresholds, which neighbours can pass
    unit = {"amount": 100.0, "age": 1.0}
    assert resilience_radius(ensemble, X, ["a"] * 3, down, epsilon=unit).round(6).tolist() == [5.0, 0.1, 1.0]
    assert resilience_radius(ensemble, X, ["a"] * 3, down, epsilon={"age": 2.0}).round(6).tolist() == [5.0, 5.0, 0.5]
    curve = resilience_curve(ensemble, X, ["a"] * 3, down, epsilon=unit)
    assert curve.unit == unit
    assert [curve(0.05), curve(0.5), curve(2.0), curve(6.0)] == [1.0, 2 / 3, 1 / 3, 0.0]
    # The attacker's own intervals are the unit of robustness, one-sided ones too.
    up = tp.Attacker({"amount": (0, 100), "age": (0, 1)})
    assert robustness_radius(ensemble, X, ["a"] * 3, up).round(6).tolist() == [5.0, 0.1, 1.0]
    assert robustness_radius(ensemble, X, ["a"] * 3, down).tolist() == [math.inf] * 3


@pytest.mark.parametrize("bad", [0.0, {0: 0.0}, math.inf, [1.0, 1.0]])
def test_a_unit_must_have_a_size(bad: Any) -> None:
    for function in (resilience_radius, resilience_curve):
        with pytest.raises(tp.InvalidInput, match="^epsilon "):
            function(stump(0.5), [[0.0]], ["a"], tp.Attacker.linf(0.1), epsilon=bad)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(batches(), st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0, 1e16, math.inf]), max_size=2))
def test_the_curve_equals_the_share_that_the_oracle_counts(
    batch: tuple[Case, list[tuple[tuple[float, ...], Any]]], epsilons: list[float]
) -> None:
    case, rows = batch
    X, y = [x for x, _ in rows], [label for _, label in rows]
    curve = resilience_curve(case.ensemble, X, y, as_attacker(case.attacker))
    assert curve.undecided == 0 and curve.epsilons[0] == 0.0
    jumps = curve.epsilons.tolist()
    beside = [math.nextafter(jump, 0.0) for jump in jumps[1:]] + [math.nextafter(jump, 1e308) for jump in jumps]
    for epsilon in [*jumps, *beside, *epsilons]:
        share = sum(resilient(case._replace(x=x, y=label), epsilon) for x, label in rows) / len(rows)
        assert curve(epsilon) == share


def test_narrow_intervals_that_exclude_0_skip_doubles() -> None:
    # Doubles above 2**53 are 2 apart, those below 1: a move by exactly 3 from an even number ends between doubles.
    big = 2.0**53
    ensemble = stump(big)
    attacker = OracleAttacker(((3.0, 3.0),), (1,))
    for x in (big - 10, big - 9, big - 8):
        case = Case(ensemble, attacker, (x,), "a", (0.0,))
        radius = exact_resilience_radius(case)
        # The nearest z with z + 3 a double above 2**53 is 2**53 - 1.
        assert radius == big - 1 - x
        assert not resilient(case, radius) and resilient(case, radius - 1)


def test_a_wall_that_nobody_crosses_does_not_break_resilience() -> None:
    ensemble = stump(1.0, 4.0, labels="aba")
    # Feature 0 is untouchable: each neighbour keeps its own label.
    assert resilience_radius(ensemble, [[0.0]], ["a"], tp.Attacker((0.0, 0.0))).tolist() == [math.inf]
    # Moves by 2 to 2.5 lead from (1, 4] to above 4 and from below 1 into (1, 4], but x = -8 is far from both.
    radius = resilience_radius(ensemble, [[-8.0]], ["a"], tp.Attacker((2.0, 2.5)))
    assert radius.tolist() == [math.nextafter(1.0, 2.0) - 2.5 + 8.0]


# --- ends of the scale -------------------------------------------------------------------------------------------


def test_infinite_reach_breaks_at_every_scale_or_at_none() -> None:
    ensemble = stump(0.5)
    assert robustness_radius(ensemble, [[0.0], [0.0]], ["a", "b"], tp.Attacker.l0(1)).tolist() == [0.0, -math.inf]
    assert robustness_radius(ensemble, [[0.0]], ["a"], tp.Attacker.l0(0)).tolist() == [math.inf]
    up = tp.Attacker((0.0, math.inf))
    assert robustness_radius(ensemble, [[0.0], [1.0]], ["a", "b"], up).tolist() == [0.0, math.inf]


def test_a_domain_can_make_a_row_unbreakable() -> None:
    ensemble = stump(0.5)
    attacker = tp.Attacker.linf(1.0, domain=(-1.0, 0.5))
    assert robustness_radius(ensemble, [[0.0]], ["a"], attacker).tolist() == [math.inf]
    assert resilience_radius(ensemble, [[0.0]], ["a"], attacker).tolist() == [math.inf]


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("unit", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_lp_distances_are_exact_where_their_powers_are_no_doubles(p: int, unit: float) -> None:
    builder = EnsembleBuilder(n_features=2, classes=(0, 1), value_limit=oracles.LARGEST)
    # Class 1 needs both features above their thresholds.
    builder.add_tree(
        feature=[0, 1, -1, -1, -1],
        threshold=[3 * unit, 4 * unit, 0, 0, 0],
        left=[2, 3, -1, -1, -1],
        right=[1, 4, -1, -1, -1],
        scores=[(1, 0)] * 4 + [(0, 1)],
    )
    ensemble = builder.build()
    plain = OracleAttacker(((-1.0, 1.0),) * 2, (1, 1), p=p, radius=1.0)
    got = float(robustness_radius(ensemble, [[0.0, 0.0]], [0], tp.Attacker.lp(p, 1.0))[0])
    assert got == pytest.approx(unit * (3**p + 4**p) ** (1 / p))
    assert largest_root(got, plain, least_cost(ensemble, plain, (0.0, 0.0)))


# --- a real forest -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forest() -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    clf = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X[100:], y[100:])
    return clf, X[:40], y[:40]


ATTACKERS = [
    tp.Attacker.linf(0.02),
    tp.Attacker((-0.03, 0.0), budget=1),
    tp.Attacker((-0.03, 0.01), costs=2, budget=5),
    tp.Attacker.linf(0.05, features=[0, 7, 20, 21, 22, 23, 27]),
    tp.Attacker.lp(1, 0.05),
    tp.Attacker.lp(2, 0.05),
]


def scaled(attacker: tp.Attacker, scale: float) -> tp.Attacker:
    """The attacker times a power of two, without rounding."""
    if attacker.power is not None:
        return tp.Attacker.lp(attacker.power, attacker.radius * scale)
    return tp.Attacker(
        attacker.intervals.map(lambda pair: (pair[0] * scale, pair[1] * scale)),
        costs=attacker.costs,
        budget=attacker.budget,
    )


@pytest.mark.slow
@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
def test_robustness_radii_agree_with_verify_at_scales(forest: Any, attacker: tp.Attacker) -> None:
    clf, X, y = forest
    radius = robustness_radius(clf, X, y, attacker)
    assert np.isfinite(radius).sum() > 5
    for scale in (0.25, 0.5, 1.0, 2.0, 4.0):
        verdicts = tp.verify(clf, X, y, scaled(attacker, scale))
        assert ((verdicts.robustness_outcomes == tp.Outcome.PROVED) == (radius > scale)).all()
    larger = robustness_radius(clf, X, y, scaled(attacker, 4.0), n_jobs=2)
    assert (larger == radius / 4).all()


@pytest.mark.slow
@pytest.mark.parametrize("attacker", ATTACKERS, ids=repr)
def test_the_curve_equals_verify_everywhere(forest: Any, attacker: tp.Attacker) -> None:
    clf, X, y = forest
    curve = resilience_curve(clf, X, y, attacker)
    radius = resilience_radius(clf, X, y, attacker, n_jobs=2)
    assert curve.undecided == 0 and curve.epsilons[0] == 0.0 and len(curve.epsilons) > 5
    assert (np.diff(curve.epsilons) > 0).all() and (np.diff(curve.resilience) < 0).all()
    jumps = curve.epsilons[1::6].tolist()
    epsilons = [0.0, 0.001, 0.01, 0.05, 1.0, *jumps]
    epsilons += [math.nextafter(jump, 0.0) for jump in jumps] + [math.nextafter(jump, 1.0) for jump in jumps]
    sweep = tp.verify(clf, X, y, attacker, epsilons=epsilons)
    for epsilon in epsilons:
        share = sweep.resilience_at[epsilon]
        assert share.exact and share.lower == curve(epsilon)
        assert (radius > epsilon).mean() <= share.lower <= (radius >= epsilon).mean()
    assert curve(epsilons).tolist() == [curve(epsilon) for epsilon in epsilons]


def test_the_curve_counts_open_rows_as_not_resilient_and_refuses_bad_epsilon() -> None:
    curve = ResilienceCurve(np.array([0.0, 0.5]), np.array([1.0, 0.5]))
    assert (curve(math.nextafter(0.5, 0.0)), curve(0.5), curve(math.inf)) == (1.0, 0.5, 0.5)
    for bad in (-0.1, math.nan, [0.1, -1.0]):
        with pytest.raises(tp.InvalidInput, match="epsilon must be at least 0"):
            curve(bad)


# --- bad input ---------------------------------------------------------------------------------------------------


def test_bad_input_is_refused_in_one_line() -> None:
    clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(tp.InvalidInput, match=r"interval \(0.1, 0.2\) of feature 0 excludes 0"):
        robustness_radius(clf, [[0.0]], [0], tp.Attacker((0.1, 0.2)))
    for function in (robustness_radius, resilience_radius, resilience_curve):
        with pytest.raises(tp.InvalidInput, match="attacker must be a treeproof.Attacker, got float"):
            function(clf, [[0.0]], [0], 0.1)
        with pytest.raises(tp.InvalidInput, match="X has 1 rows and y has 2 labels"):
            function(clf, [[0.0]], [0, 1], tp.Attacker.linf(0.1))
        with pytest.raises(tp.InvalidInput, match="timeout must be at least 0"):
            function(clf, [[0.0]], [0], tp.Attacker.linf(0.1), timeout=-1)
        with pytest.raises(tp.InvalidInput, match="outside the domain"):
            function(clf, [[0.0]], [0], tp.Attacker.linf(0.1, domain=(0.5, 1.0)))
    empty = np.empty((0, 1))
    assert resilience_radius(clf, empty, [], tp.Attacker.linf(0.1)).shape == (0,)
    with pytest.raises(tp.InvalidInput, match="no rows"):
        resilience_curve(clf, empty, [], tp.Attacker.linf(0.1))


def test_ctrl_c_ends_the_search_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[bool] = []

    def stuck(self: Any, *asked: Any) -> Any:
        press_ctrl_c()
        until(self.limits.is_over)
        ends.append(True)
        return decide(self, *asked)

    decide = Local.decide_boxes
    monkeypatch.setattr(Local, "decide_boxes", stuck)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            resilience_radius(stump(0.5), [[0.0]], ["a"], tp.Attacker.linf(0.1))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ends


@pytest.mark.parametrize("function", [robustness_radius, resilience_radius])
def test_a_limit_for_all_rows_leaves_the_rest_open_and_the_others_exact(
    function: Any, forest: Any, clock: Clock
) -> None:
    clf, X, y = forest
    X, y = X[:40], y[:40]
    none = function(clf, X, y, tp.Attacker.linf(0.05), max_seconds=0)
    assert np.array_equal(np.isnan(none), none != -math.inf)
    clock.per_look = 0.01
    some = function(clf, X, y, tp.Attacker.linf(0.05), max_seconds=1.5)
    known = ~np.isnan(some)
    assert (function(clf, X[known], y[known], tp.Attacker.linf(0.05)) == some[known]).all()
    with pytest.raises(tp.InvalidInput, match="max_seconds must be at least 0"):
        function(clf, X, y, tp.Attacker.linf(0.05), max_seconds=-1)


def test_a_curve_counts_what_a_limit_left_open(forest: Any) -> None:
    clf, X, y = forest
    curve = resilience_curve(clf, X[:10], y[:10], tp.Attacker.linf(0.05), max_seconds=0)
    assert curve.undecided == int((clf.predict(X[:10]) == y[:10]).sum()) and curve(0.0) == 0.0
