"""The oracle judges every engine, so here it is judged itself: by hand, by enumeration of doubles, by the theorem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import oracles
from tests.support.columns import with_columns
from tests.support.oracles import OracleAttacker, Span
from tests.support.strategies import Case, cases, tiny_ensembles
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule

INF = math.inf
QUIET = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def checked(max_examples: int) -> settings:
    """The same cases in every run, however slow the machine."""
    return settings(
        max_examples=max_examples, deadline=None, derandomize=True, database=None, suppress_health_check=QUIET
    )


def up(x: float, steps: int = 1) -> float:
    """The double this many steps above x, or below it for a negative number of steps."""
    for _ in range(abs(steps)):
        x = math.nextafter(x, math.copysign(INF, steps))
    return x


def down(x: float, steps: int = 1) -> float:
    return up(x, -steps)


def staircase(cuts: Sequence[float], labels: Sequence[int]) -> Ensemble:
    """One tree on one feature: labels[i], 0 or 1, up to and including cuts[i], the last label beyond."""
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    n = len(cuts)
    leaves = [LEAF] * (n + 1)
    builder.add_tree(
        feature=[0] * n + leaves,
        threshold=[*cuts, *leaves],
        left=[*range(n, 2 * n), *leaves],
        right=[*range(1, n), 2 * n, *leaves],
        scores=np.concatenate((np.zeros((n, 2)), np.eye(2)[list(labels)])),
    )
    return builder.build()


def one_feature(lo: float, hi: float, cost: int = 1, budget: int | None = 1) -> OracleAttacker:
    return OracleAttacker(intervals=((lo, hi),), costs=(cost,), budget=budget)


# --- the paper's Figure 1 ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def figure_1() -> Ensemble:
    """x1 <= 10: x2 <= 5 gives +1, else -1; x1 > 10: x2 <= 8 gives +1, else -1."""
    builder = EnsembleBuilder(n_features=2, classes=[-1, 1])
    minus, plus, inner = (1, 0), (0, 1), (0, 0)
    builder.add_tree(
        feature=[0, 1, 1, LEAF, LEAF, LEAF, LEAF],
        threshold=[10, 5, 8, 0, 0, 0, 0],
        left=[1, 3, 5, LEAF, LEAF, LEAF, LEAF],
        right=[2, 4, 6, LEAF, LEAF, LEAF, LEAF],
        scores=[inner, inner, inner, plus, minus, plus, minus],
    )
    return builder.build()


UNIT_ATTACKER = OracleAttacker(intervals=((-1.0, 1.0), (-1.0, 1.0)), costs=(1, 1), budget=1)

UNSTABLE_REGIONS = (
    ((-INF, 10), (4, 5)),
    ((-INF, 10), (5, 6)),
    ((9, 10), (5, 8)),
    ((10, INF), (7, 8)),
    ((10, 11), (5, 8)),
    ((10, INF), (8, 9)),
)
"""The pre-images (lo, hi] that the paper lists for leaves 3, 4, 4, 6, 6, 7, over the real numbers."""


def unstable_in_the_paper(x: Sequence[float]) -> bool:
    return any(all(lo < value <= hi for value, (lo, hi) in zip(x, region, strict=True)) for region in UNSTABLE_REGIONS)


def test_figure_1_gives_the_labels_that_the_paper_names(figure_1: Ensemble) -> None:
    assert oracles.predict(figure_1, (12.0, 7.0)) == 1
    assert oracles.predict(figure_1, (8.0, 6.0)) == -1


def test_figure_1_is_unstable_exactly_where_the_paper_says(figure_1: Ensemble) -> None:
    first = [value for border in (9.0, 10.0, 11.0) for value in (down(border), border, up(border))]
    second = [value for border in (4.0, 5.0, 6.0, 7.0, 8.0, 9.0) for value in (down(border), border, up(border, 2))]
    checked_points = list(itertools.product([-50.0, *first, 50.0], [-50.0, *second, 50.0]))
    unstable = [x for x in checked_points if not oracles.stable(figure_1, UNIT_ATTACKER, x)]
    assert unstable == [x for x in checked_points if unstable_in_the_paper(x)]
    assert 0 < len(unstable) < len(checked_points)


def test_one_double_above_7_cannot_reach_past_8_though_the_real_number_can(figure_1: Ensemble) -> None:
    # Doubles are twice as far apart above 8: up(7) + 1 lies strictly between 8 and the next double.
    x = (12.0, up(7.0))
    assert unstable_in_the_paper(x)
    assert oracles.stable(figure_1, UNIT_ATTACKER, x)
    assert not oracles.stable(figure_1, UNIT_ATTACKER, (12.0, up(7.0, 2)))


def test_figure_1_resilience_turns_where_the_neighbourhood_meets_an_unstable_region(figure_1: Ensemble) -> None:
    assert oracles.robust(figure_1, UNIT_ATTACKER, (8.0, 3.0), 1)
    assert oracles.resilient(figure_1, UNIT_ATTACKER, (8.0, 3.0), 1, (0.0, 1.0))
    assert not oracles.resilient(figure_1, UNIT_ATTACKER, (8.0, 3.0), 1, (0.0, up(1.0, 4)))
    assert not oracles.resilient(figure_1, UNIT_ATTACKER, (8.0, 3.0), -1, (0.0, 0.0))


@pytest.mark.parametrize(("budget", "expected"), [(1, True), (2, False), (None, False)])
def test_two_features_must_both_be_paid_for(figure_1: Ensemble, budget: int | None, expected: bool) -> None:
    # (10.5, 4.5) is +1; x1 alone gives leaf 3 (+1), x2 alone stays in leaf 6 (+1), both give leaf 4 (-1).
    attacker = OracleAttacker(intervals=((-1.0, 0.0), (0.0, 1.0)), costs=(1, 1), budget=budget)
    assert oracles.stable(figure_1, attacker, (10.5, 4.5)) is expected


# --- Lp is exact -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corner() -> Ensemble:
    """Class 1 exactly where x1 >= 3 and x2 >= 4."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1])
    builder.add_tree(
        feature=[0, LEAF, 1, LEAF, LEAF],
        threshold=[down(3.0), 0, down(4.0), 0, 0],
        left=[1, LEAF, 3, LEAF, LEAF],
        right=[2, LEAF, 4, LEAF, LEAF],
        scores=[(0, 0), (1, 0), (0, 0), (1, 0), (0, 1)],
    )
    return builder.build()


@pytest.mark.parametrize(("p", "radius"), [(1, 7.0), (2, 5.0)])
def test_a_corner_is_reached_at_its_distance_and_not_one_double_before(corner: Ensemble, p: int, radius: float) -> None:
    attacker = OracleAttacker(intervals=((-INF, INF),) * 2, costs=(1, 1), p=p, radius=radius)
    assert not oracles.stable(corner, attacker, (0.0, 0.0))
    assert oracles.stable(corner, replace(attacker, radius=down(radius)), (0.0, 0.0))


def test_an_untouchable_feature_keeps_an_lp_attacker_out(corner: Ensemble) -> None:
    attacker = OracleAttacker(intervals=((-INF, INF), (0.0, 0.0)), costs=(1, 1), p=2, radius=100.0)
    assert oracles.stable(corner, attacker, (0.0, 0.0))
    assert not oracles.stable(corner, attacker, (0.0, 4.0))


def test_neighbourhood_and_radius_of_an_lp_attacker_add_up(corner: Ensemble) -> None:
    attacker = OracleAttacker(intervals=((-INF, INF),) * 2, costs=(1, 1), p=2, radius=1.0)
    assert oracles.resilient(corner, attacker, (0.0, 4.0), 0, (down(2.0), 0.0))
    assert not oracles.resilient(corner, attacker, (0.0, 4.0), 0, (2.0, 0.0))


# --- borders of the number line ----------------------------------------------------------------------------------


def test_a_cell_without_a_double_is_never_reached() -> None:
    beyond_all = staircase([oracles.LARGEST], [0, 1])
    assert oracles.stable(beyond_all, one_feature(-INF, INF), (0.0,))
    assert not oracles.stable(staircase([down(oracles.LARGEST)], [0, 1]), one_feature(-INF, INF), (0.0,))


def test_values_beyond_the_limit_of_the_model_are_never_reached() -> None:
    ensemble = with_columns(staircase([1e30], [0, 1]), high=1e30)
    assert oracles.stable(ensemble, one_feature(-INF, INF), (0.0,))
    higher = with_columns(ensemble, high=up(1e30))
    assert not oracles.stable(higher, one_feature(-INF, INF), (0.0,))


def test_the_domain_holds_back_neighbours_and_attackers() -> None:
    ensemble = staircase([1.0], [0, 1])
    free, held = one_feature(0.0, 5.0), replace(one_feature(0.0, 5.0), domain=((0.0, 1.0),))
    assert not oracles.stable(ensemble, free, (0.5,))
    assert oracles.resilient(ensemble, held, (0.5,), 0, (INF,))
    assert not oracles.stable(ensemble, replace(held, domain=((0.0, up(1.0)),)), (0.5,))
    with pytest.raises(ValueError, match="outside the domain"):
        oracles.stable(ensemble, held, (2.0,))


def test_nobody_moves_a_missing_value() -> None:
    ensemble = with_columns(staircase([1.0], [0, 1]), missing=True)
    assert oracles.predict(ensemble, (math.nan,)) == 1
    assert oracles.resilient(ensemble, one_feature(-INF, INF), (math.nan,), 1, (INF,))


def test_a_sum_of_decimals_is_judged_as_real_numbers_not_rounded() -> None:
    # Floats round 0.1 + 0.2 to the double after 0.3; the real sum of the two doubles lies just before that one.
    assert Fraction(0.1) + Fraction(0.2) < Fraction(0.1 + 0.2) == Fraction(up(0.3))
    assert oracles.stable(staircase([0.3], [0, 1]), one_feature(0.0, 0.2), (0.1,))


# --- predict -----------------------------------------------------------------------------------------------------


def rows_beside_thresholds(ensemble: Ensemble, n: int) -> np.ndarray:
    rng = np.random.default_rng(ensemble.n_nodes)
    rows = rng.normal(size=(n, ensemble.n_features))
    for f in range(ensemble.n_features):
        cuts = np.array(oracles.thresholds(ensemble, f) or (0.0,))
        steps = rng.choice([-INF, 0.0, INF], size=n)
        anchors = rng.choice(cuts, size=n)
        with np.errstate(over="ignore"):
            beside = np.where(steps == 0, anchors, np.nextafter(anchors, steps))
        rows[:, f] = np.where(np.isfinite(beside) & (rng.random(n) < 0.9), beside, rows[:, f])
    if ensemble.may_be_missing.any():
        rows[rng.random(rows.shape) < 0.2] = np.nan
    return np.clip(rows, ensemble.value_low, ensemble.value_high)


@checked(300)
@given(tiny_ensembles())
def test_predict_says_what_the_ensemble_says(ensemble: Ensemble) -> None:
    rows = rows_beside_thresholds(ensemble, 20)
    assert [oracles.predict(ensemble, row) for row in rows.tolist()] == ensemble.predict(rows).tolist()


@pytest.mark.parametrize(
    ("decision", "precision", "scores", "expected"),
    [
        (Decision.ARGMAX, "float64", (0.0, 1e-17), 1),
        (Decision.SOFTMAX, "float64", (0.0, 1e-17), 0),
        (Decision.SOFTMAX, "float64", (0.0, 1e-9), 1),
        (Decision.SOFTMAX, "float32", (0.0, float(np.float32(1e-9))), 0),
        (Decision.SIGMOID, "float64", (40.0, 50.0), 0),
        (Decision.SIGMOID, "float64", (20.0, 30.0), 1),
        (Decision.SIGMOID, "float32", (20.0, 30.0), 0),
    ],
)
def test_probabilities_that_round_alike_are_a_tie(
    decision: Decision, precision: Literal["float64", "float32"], scores: tuple[float, ...], expected: int
) -> None:
    rule = ScoreRule(decision=decision, precision=precision)
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=rule)
    builder.add_tree(feature=[LEAF], threshold=[0.0], left=[LEAF], right=[LEAF], scores=[scores])
    ensemble = builder.build()
    assert oracles.predict(ensemble, (0.0,)) == expected
    assert ensemble.predict([[0.0]]).tolist() == [expected]


def test_a_float32_sum_is_rounded_after_every_tree() -> None:
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=ScoreRule(precision="float32"))
    for scores in ([2.0**24, 2.0**24], [0.0, 1.0], [0.0, 1.0]):
        builder.add_tree(feature=[LEAF], threshold=[0.0], left=[LEAF], right=[LEAF], scores=[scores])
    assert oracles.predict(builder.build(), (0.0,)) == 0  # 2**24 + 1 rounds back to 2**24, twice


# --- pairs of doubles --------------------------------------------------------------------------------------------


@st.composite
def few_doubles(draw: st.DrawFn) -> Span:
    """Up to 12 doubles around a place where their spacing changes, or where it is coarse."""
    start = draw(st.sampled_from([0.0, 0.5, 1.0, 8.0, -1.0, 10.0, 2.0**53]))
    offset, length = draw(st.integers(-10, 10)), draw(st.integers(0, 11))
    first = up(start, offset)
    return Span(first, up(first, length))


@st.composite
def small_pairs(draw: st.DrawFn) -> tuple[float, float, Span, Span]:
    """An interval whose ends are differences of the spans' doubles, or a hair off; and two disjoint spans."""
    z, w = draw(few_doubles()), draw(few_doubles())
    if not z.meet(w).empty:
        w = Span(up(z.last), up(z.last, draw(st.integers(1, 6))))
    unit = max(math.ulp(z.last), math.ulp(w.last)) / 4
    ends = []
    for _ in range(2):
        difference = draw(st.sampled_from(list(w.doubles()))) - draw(st.sampled_from(list(z.doubles())))
        ends.append(difference + draw(st.integers(-3, 3)) * unit)
    return min(ends), max(ends), z, w


def literally_exists(lo: float, hi: float, z: Span, w: Span) -> bool:
    return any(lo <= Fraction(b) - Fraction(a) <= hi for a in z.doubles() for b in w.doubles())


@pytest.mark.slow
@checked(400)
@given(small_pairs())
def test_a_pair_of_doubles_exists_iff_enumeration_finds_one(pair: tuple[float, float, Span, Span]) -> None:
    assert oracles.pair_exists(*pair) == literally_exists(*pair)


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 3])
def test_the_walk_over_many_doubles_agrees_with_enumeration(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "MAX_ENUMERATED", most)
    walked = [0, 0]

    @checked(500)
    @given(small_pairs())
    def agree(pair: tuple[float, float, Span, Span]) -> None:
        try:
            answer = oracles._pair_exists_within(*pair) if _needs_the_walk(*pair) else None
        except NotImplementedError:
            return
        if answer is not None:
            assert answer == literally_exists(*pair)
            walked[answer] += 1

    agree()
    assert walked[True] > 20


def _needs_the_walk(lo: float, hi: float, z: Span, w: Span) -> bool:
    return lo > 0 and w.first > z.last


def test_an_interval_narrower_than_the_doubles_is_refused_not_guessed() -> None:
    with pytest.raises(NotImplementedError, match="too many doubles"):
        oracles.pair_exists(1.0, 1.0, Span(0.0, 0.4), Span(0.5, 2.0))
    assert oracles.pair_exists(1.0, 1.5, Span(0.0, 0.4), Span(0.5, 2.0))


@pytest.mark.parametrize("q", [Fraction(1, 10), Fraction(-1, 3), Fraction(1), Fraction(1, 2**1080), Fraction(10**400)])
def test_rationals_are_rounded_outwards_to_the_very_next_double(q: Fraction) -> None:
    above, below = oracles.double_at_least(q), oracles.double_at_most(q)
    assert below <= q <= above
    assert above in (below, up(below))


# --- the whole oracle against literal enumeration of doubles ----------------------------------------------------

UNIT = 2.0**-53
WINDOW = 14
AROUND_ONE = tuple(up(1.0, k) for k in range(-3, 3))


@st.composite
def cases_of_few_doubles(draw: st.DrawFn) -> Case:
    """Everything happens within a dozen doubles around 1, where their spacing doubles."""
    ensemble = draw(tiny_ensembles(max_features=2, thresholds=AROUND_ONE))
    n = ensemble.n_features
    step = st.integers(-4, 4).map(lambda k: k * UNIT)
    ends = [draw(st.tuples(step, step)) for _ in range(n)]
    intervals = tuple((min(pair), max(pair)) for pair in ends)
    costs = draw(st.tuples(*[st.integers(0, 2)] * n))
    p, radius = draw(st.sampled_from([None, None, 1, 2])), abs(draw(step))
    domain = None
    x = draw(st.tuples(*[st.sampled_from(AROUND_ONE)] * n))
    if draw(st.booleans()):
        domain = tuple((value - abs(draw(step)), value + abs(draw(step))) for value in x)
    attacker = OracleAttacker(intervals, costs, draw(st.sampled_from([None, 0, 1, 2])), p, radius, domain)
    eps = tuple(abs(draw(step)) for _ in range(n))
    return Case(ensemble, attacker, x, oracles.predict(ensemble, x), eps)


def literal_attacks(case: Case) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Every z in N(x) and w in A(z), double by double, straight from the definitions."""
    attacker = case.attacker
    per_feature = []
    for f, center in enumerate(case.x):
        window = [Fraction(v) for v in Span(down(center, WINDOW), up(center, WINDOW)).doubles()]
        lo, hi = attacker.domain[f] if attacker.domain else (-INF, INF)
        inside = [v for v in window if lo <= v <= hi]
        near = [z for z in inside if abs(z - Fraction(center)) <= case.eps[f]]
        per_feature.append([(z, w) for z in near for w in inside if z == w or literal_move(attacker, f, w - z)])
    for choice in itertools.product(*per_feature):
        moved = [(f, abs(w - z)) for f, (z, w) in enumerate(choice) if z != w]
        if literal_bill(attacker, moved):
            yield tuple(float(z) for z, _ in choice), tuple(float(w) for _, w in choice)


def literal_move(attacker: OracleAttacker, f: int, difference: Fraction) -> bool:
    lo, hi = attacker.intervals[f]
    if attacker.p is not None:
        return (lo, hi) != (0, 0) and abs(difference) <= attacker.radius
    return lo <= difference <= hi


def literal_bill(attacker: OracleAttacker, moved: Sequence[tuple[int, Fraction]]) -> bool:
    if attacker.p is not None:
        return sum(d**attacker.p for _, d in moved) <= Fraction(attacker.radius) ** attacker.p
    return attacker.budget is None or sum(attacker.costs[f] for f, _ in moved) <= attacker.budget


@pytest.mark.long
@pytest.mark.slow
@checked(200)
@given(cases_of_few_doubles())
def test_every_answer_equals_enumeration_of_all_doubles(case: Case) -> None:
    labels: dict[tuple[float, ...], object] = {}
    changes = at_x = False
    for z, w in literal_attacks(case):
        for point in (z, w):
            if point not in labels:
                labels[point] = oracles.predict(case.ensemble, point)
        if labels[z] != labels[w]:
            changes = True
            at_x = at_x or z == case.x
    model, attacker, x, y, eps = case
    assert oracles.stable(model, attacker, x) == (not at_x)
    assert oracles.resilient(model, attacker, x, y, eps) == (not changes)
    assert oracles.constant_on_M(model, attacker, x, eps) == (len(set(labels.values())) == 1)


# --- the theorem -------------------------------------------------------------------------------------------------


def sides(case: Case) -> tuple[bool, bool]:
    """The theorem's two sides: resilient by search over both copies; correct and constant on M."""
    model, attacker, x, y, eps = case
    correct = bool(oracles.predict(model, x) == y)
    return oracles.resilient(model, attacker, x, y, eps), correct and oracles.constant_on_M(model, attacker, x, eps)


@pytest.mark.long
@pytest.mark.slow
def test_resilience_is_being_constant_on_m_where_the_attacker_can_nudge() -> None:
    seen = {"cases": 0, "nudge": 0, "resilient": 0, "lost": 0, "differ": 0, "connects only": 0}

    @checked(1000)
    @given(cases())
    def theorem(case: Case) -> None:
        model, attacker, x, y, eps = case
        resilient, constant = sides(case)
        nudge = oracles.can_nudge(model, attacker, x, eps)
        connects = oracles.connects(model, attacker, x, eps)
        assert resilient or not constant, "constant on M must suffice for every attacker"
        assert connects or not nudge, "to nudge is one way to connect"
        if connects:
            assert resilient == constant
        seen["cases"] += 1
        seen["nudge"] += nudge
        seen["resilient"] += resilient
        seen["lost"] += nudge and not resilient and oracles.robust(model, attacker, x, y)
        seen["differ"] += resilient != constant
        seen["connects only"] += connects and not nudge

    theorem()
    # The promise is empty unless every kind of case came up, also those that the condition keeps out.
    assert seen["cases"] >= 900
    assert seen["nudge"] > 450
    assert seen["resilient"] > 300
    assert seen["lost"] > 6
    assert seen["differ"] > 15
    assert seen["connects only"] > 1


@pytest.mark.slow
@checked(150)
@given(cases(max_features=1))
def test_where_cells_do_not_connect_some_model_tells_the_two_sides_apart(case: Case) -> None:
    model, attacker, x, _, eps = case
    parts = oracles.linked_parts(oracles.moves(model, attacker, x, eps, 0))
    if len(parts) == 1:
        return
    cuts = oracles.thresholds(model, 0)
    labels = [int(cell in parts[0]) for cell in range(len(cuts) + 1)]
    adversary = staircase(cuts, labels)
    resilient, constant = sides(Case(adversary, attacker, x, oracles.predict(adversary, x), eps))
    assert resilient
    assert not constant


# --- where the condition fails, the two sides differ -------------------------------------------------------------

STEP = staircase([1.0], [0, 1])
"""Class 0 up to and including 1, class 1 beyond."""


@pytest.mark.parametrize(
    ("attacker", "eps"),
    [
        pytest.param(one_feature(0.0, 0.0), 0.1, id="untouchable feature"),
        pytest.param(one_feature(-INF, INF, cost=2, budget=1), 0.1, id="cost above the budget"),
        pytest.param(one_feature(-(2.0**-54), 2.0**-54), 0.1, id="reach below the spacing of doubles"),
        pytest.param(one_feature(0.0, down(2.0**-52)), 0.1, id="reach a hair below the spacing of doubles"),
        pytest.param(replace(one_feature(3.0, 4.0), domain=((0.0, 2.0),)), 0.1, id="0 not in I, no room to move"),
        pytest.param(
            OracleAttacker(((-INF, INF),), (1,), p=2, radius=2.0**-54), 0.1, id="radius below the spacing of doubles"
        ),
        pytest.param(OracleAttacker(((0.0, 0.0),), (1,), p=2, radius=9.0), 0.1, id="untouchable for Lp"),
    ],
)
def test_a_model_can_be_resilient_and_not_constant_on_m(attacker: OracleAttacker, eps: float) -> None:
    case = Case(STEP, attacker, (1.0,), 0, (eps,))
    assert sides(case) == (True, False)
    assert not oracles.can_nudge(STEP, attacker, (1.0,), (eps,))
    assert not oracles.connects(STEP, attacker, (1.0,), (eps,))


@pytest.mark.parametrize(
    "attacker",
    [
        one_feature(0.0, 2.0**-52),
        one_feature(-(2.0**-52), 0.0),
        one_feature(-INF, INF, cost=1, budget=1),
        OracleAttacker(((-INF, INF),), (1,), p=2, radius=2.0**-52),
    ],
)
def test_a_reach_of_one_spacing_is_enough_to_nudge(attacker: OracleAttacker) -> None:
    assert oracles.can_nudge(STEP, attacker, (1.0,), (0.1,))
    assert sides(Case(STEP, attacker, (1.0,), 0, (0.1,))) == (False, False)


def test_a_shift_by_exactly_one_never_meets_the_other_label() -> None:
    # N(1) holds four doubles; of these only 1 and 1 - 2**-52 have a double exactly 1 above, beyond 1.5: class 0.
    model, attacker, eps = staircase([1.0, 1.5], [0, 1, 0]), one_feature(1.0, 1.0), (2.0**-52,)
    assert sides(Case(model, attacker, (1.0,), 0, eps)) == (True, False)
    assert not oracles.can_nudge(model, attacker, (1.0,), eps)


def test_zero_outside_the_interval_does_no_harm_if_the_interval_has_width() -> None:
    # Whatever the label at 1.35: both 1 and the next double can be moved there, and they differ from one another.
    model, attacker, eps = staircase([1.0, 1.2], [0, 1, 0]), one_feature(0.3, 0.4), (0.1,)
    assert not oracles.can_nudge(model, attacker, (1.0,), eps)
    assert oracles.connects(model, attacker, (1.0,), eps)
    assert sides(Case(model, attacker, (1.0,), 0, eps)) == (False, False)


def test_a_threshold_on_the_rim_of_the_neighbourhood_needs_no_nudge() -> None:
    # N(x) ends at the threshold itself, so the next double is no neighbour and labels in N(x) do not change.
    untouchable = one_feature(0.0, 0.0)
    assert oracles.can_nudge(STEP, untouchable, (0.5,), (0.5,))
    assert sides(Case(STEP, untouchable, (0.5,), 0, (0.5,))) == (True, True)
    assert not oracles.can_nudge(STEP, untouchable, (0.5,), (up(0.5, 2),))


# --- implications ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@checked(150)
@given(cases())
def test_resilient_implies_robust_implies_correct(case: Case) -> None:
    model, attacker, x, y, eps = case
    correct = oracles.predict(model, x) == y
    robust = oracles.robust(model, attacker, x, y)
    resilient = oracles.resilient(model, attacker, x, y, eps)
    assert resilient <= robust <= correct
    assert oracles.resilient(model, attacker, x, y, (0.0,) * len(x)) == robust
    assert robust == (correct and oracles.constant_on_M(model, attacker, x, (0.0,) * len(x)))
    assert resilient <= oracles.resilient(model, attacker, x, y, tuple(e / 2 for e in eps))
    idle = replace(attacker, intervals=((0.0, 0.0),) * len(x))
    assert oracles.resilient(model, idle, x, y, eps) == correct
