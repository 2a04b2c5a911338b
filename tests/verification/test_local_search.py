"""Verdicts on single rows against the oracle, and every witness against the definitions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.oracles import OracleAttacker
from tests.support.strategies import Case, cases, points, tiny_ensembles
from treeproof.check.objects import is_witness
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.compiled import whole_units
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.results.verdicts import Outcome, Witness
from treeproof.verification.local_search import Local


def assert_decided_as_the_oracle(case: Case) -> None:
    ensemble, plain, x, _, eps = case
    attacker = as_attacker(plain)
    local = Local(ensemble, attacker.bind(ensemble))
    rows = np.array([x])
    for epsilon in ((0.0,) * ensemble.n_features, eps):
        decided = local.decide(rows, np.array(epsilon))
        truth = oracles.stable_around(ensemble, plain, x, epsilon)
        assert decided.outcome[0] == (Outcome.PROVED if truth else Outcome.REFUTED)
        if not truth:
            witness = Witness(rows[0], decided.neighbour[0], decided.attacked[0], None, None)
            assert is_witness(ensemble, attacker, list(epsilon), witness)


# `make fuzz` asks a million such questions. Without patience every row is searched as if it were hard
# (`_kernels/balance.py`).
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("patience", [0, 300])
def test_verdicts_equal_brute_force_over_cells(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Local, "patience", patience)

    @settings(max_examples=500, deadline=None, database=None)
    @given(cases())
    def check(case: Case) -> None:
        assert_decided_as_the_oracle(case)

    check()


def stumps_that_nearly_tie(draw: st.DrawFn) -> Ensemble:
    """Soft votes in which a tree often moves both classes by the same amount: only rounding tells cells apart."""
    n = draw(st.integers(2, 4))
    parts = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9]
    builder = EnsembleBuilder(
        n_features=n,
        classes=[0, 1],
        rule=ScoreRule(divisor=draw(st.sampled_from([1.0, float(n)])), precision="float64"),
        base=[draw(st.sampled_from([0.0, 0.1])), 0.0],
    )
    for f in range(n):
        a, b, c, d = (draw(st.sampled_from(parts)) for _ in range(4))
        leaves = draw(st.sampled_from([[[a, a], [b, b]], [[a, b], [b, a]], [[a, b], [c, d]]]))
        builder.add_tree(
            feature=[f, LEAF, LEAF],
            threshold=[0.0] * 3,
            left=[1, LEAF, LEAF],
            right=[2, LEAF, LEAF],
            scores=[[0, 0], *leaves],
        )
    return builder.build()


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=300, deadline=None, database=None)
@given(st.data())
def test_rounding_decides_ties_in_every_cell(data: st.DataObject) -> None:
    ensemble = data.draw(st.composite(stumps_that_nearly_tie)())
    n = ensemble.n_features
    budget = data.draw(st.sampled_from([None, 1, 2]))
    x = tuple(data.draw(st.sampled_from([-1.0, 1.0])) for _ in range(n))
    plain = OracleAttacker(((-3.0, 3.0),) * n, (1,) * n, budget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Local, "patience", data.draw(st.sampled_from([0, 300])))
        assert_decided_as_the_oracle(Case(ensemble, plain, x, 0, (0.0,) * n))


@pytest.mark.slow
@settings(max_examples=250, deadline=None, database=None)
@given(tiny_ensembles(), st.data())
def test_outside_the_slack_whole_units_order_classes_as_the_library_does(
    ensemble: Ensemble, data: st.DataObject
) -> None:
    value, offset, slack = whole_units(ensemble)
    x = data.draw(points(ensemble))
    sums = list(offset)
    for root in ensemble.roots.tolist():
        node = oracles._leaf_node(ensemble, root, x)
        sums = [a + b for a, b in zip(sums, value[ensemble.leaf[node]], strict=True)]
    label = int(ensemble.predict_index([x])[0])
    for k, total in enumerate(sums):
        assert total <= sums[label] + slack
        if slack == 0 and total == sums[label]:
            assert label <= k


def test_votes_have_no_slack() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(8, max_depth=3, random_state=0).fit(X, X[:, 0] > 0)
    assert whole_units(tp.from_model(forest, voting="hard"))[2] == 0
    assert whole_units(tp.from_model(forest))[2] > 0


def grid_forest() -> tuple[Ensemble, np.ndarray]:
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(3)
    X = rng.random((300, 4))
    y = (X.sum(axis=1) + rng.normal(size=300) * 0.3 > 2).astype(int) + (X[:, 0] > 0.8)
    return tp.from_model(RandomForestClassifier(30, max_depth=6, random_state=0).fit(X, y)), X


@pytest.mark.parametrize(
    "attacker",
    [
        tp.Attacker.linf(0.05),
        tp.Attacker((-0.1, 0.0), budget=1),
        tp.Attacker((-0.05, 0.2), costs=[1, 2, 3, 1], budget=3),
        tp.Attacker.l0(1, features=[3]),
        tp.Attacker.lp(1, 0.1),
        tp.Attacker.lp(2, 0.08),
        tp.Attacker((0.02, 0.1), budget=2),
        tp.Attacker({0: (-0.2, 0.2), 2: (-0.2, 0.2)}),
    ],
    ids=repr,
)
def test_a_real_forest_is_not_broken_where_it_was_proved(attacker: tp.Attacker) -> None:
    """Thousands of random attacks on proved rows change nothing; refuted rows have a witness that holds."""
    ensemble, X = grid_forest()
    threat = attacker.bind(ensemble)
    decided = Local(ensemble, threat).decide(X[:60], np.zeros(4))
    assert {Outcome.PROVED, Outcome.REFUTED} <= set(decided.outcome.tolist())
    rng = np.random.default_rng(0)
    labels = ensemble.predict_index(X[:60])
    for row in range(60):
        x = X[row]
        if decided.outcome[row] == Outcome.REFUTED:
            assert is_witness(ensemble, attacker, None, Witness(x, x, decided.attacked[row], None, None))
            continue
        tried = random_attacks(threat, x, rng)
        assert (ensemble.predict_index(tried) == labels[row]).all()


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.02])
@pytest.mark.parametrize(
    "attacker",
    [
        tp.Attacker.linf(0.1),
        tp.Attacker((-0.1, 0.2), budget=2),
        tp.Attacker((-0.3, 0.2), costs=[1, 2, 3, 1], budget=3),
        tp.Attacker((0.02, 0.1), budget=2),
        tp.Attacker.l0(2),
        tp.Attacker.lp(1, 0.3),
        tp.Attacker.lp(2, 0.2),
        tp.Attacker.lp(3, 0.15),
    ],
    ids=repr,
)
def test_rows_searched_as_hard_have_the_same_verdicts(
    attacker: tp.Attacker, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regions are cut in two again and again here, far more than in models that brute force can handle."""
    ensemble, X = grid_forest()
    threat = attacker.bind(ensemble)
    outcomes = []
    for patience in (10**9, 3, 0):
        monkeypatch.setattr(Local, "patience", patience)
        outcomes.append(Local(ensemble, threat).decide(X, np.full(4, epsilon)).outcome)
    np.testing.assert_array_equal(outcomes[1], outcomes[0])
    np.testing.assert_array_equal(outcomes[2], outcomes[0])


def random_attacks(threat: object, x: np.ndarray, rng: np.random.Generator, n: int = 400) -> np.ndarray:
    """Points of A(x), as far out as they go on the features that are moved."""
    rows = np.repeat(x[None], n, axis=0)
    for r in range(n):
        order = rng.permutation(len(x))
        if threat.power is not None:
            direction = rng.normal(size=len(x)) * rng.integers(0, 2, size=len(x))
            size = (np.abs(direction) ** threat.power).sum() ** (1 / threat.power)
            rows[r] += 0.999999 * threat.radius * direction / max(size, 1e-9)
            continue
        left = threat.budget
        for f in order:
            if threat.cost[f] <= left and rng.random() < 0.8:
                left -= threat.cost[f]
                low, high = max(threat.low[f], -2.0), min(threat.high[f], 2.0)
                rows[r, f] += low + (high - low) * rng.choice([0.001, 0.999, rng.random()])
    return rows


def test_multiclass_forests_agree_with_trying_all_cells_of_two_features() -> None:
    ensemble, X = grid_forest()
    attacker = tp.Attacker({0: (-0.15, 0.15), 1: (-0.15, 0.15)})
    decided = Local(ensemble, attacker.bind(ensemble)).decide(X[:40], np.zeros(4))
    labels = ensemble.predict_index(X[:40])
    for row in range(40):
        values = []
        for f in (0, 1):
            cuts = ensemble.grid.cuts_of(f)
            near = cuts[(cuts >= X[row, f] - 0.15) & (cuts <= X[row, f] + 0.15)]
            steps = np.concatenate(([X[row, f]], near, np.nextafter(near, np.inf)))
            reach = [v for v in steps if abs(Fraction(float(v)) - Fraction(float(X[row, f]))) <= Fraction(0.15)]
            values.append(reach)
        pairs = np.array(list(itertools.product(*values)))
        rows = np.repeat(X[row][None], len(pairs), axis=0)
        rows[:, :2] = pairs
        constant = bool((ensemble.predict_index(rows) == labels[row]).all())
        assert (decided.outcome[row] == Outcome.PROVED) == constant


def test_sigmoid_saturation_is_not_mistaken_for_a_lead() -> None:
    """Both classes saturate at probability 1 in some cells; the lower class wins there, whatever the margins."""
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=ScoreRule(decision=Decision.SIGMOID))
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[0.0] * 3, left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
        scores=[[0, 0], [1.0, 0.5], [40.0, 50.0]],
    )  # fmt: skip
    ensemble = builder.build()
    assert ensemble.predict([[-1.0], [1.0]]).tolist() == [0, 0]
    decided = Local(ensemble, tp.Attacker.linf(5.0).bind(ensemble)).decide(np.array([[-1.0]]), np.zeros(1))
    assert decided.outcome[0] == Outcome.PROVED


@pytest.mark.parametrize(
    ("p", "radius", "x"), [(2, 1e300, 1e300), (2, 1e200, 1e190), (2, 1e160, 1e155), (3, 1e110, 1e105)]
)
def test_a_distance_whose_power_overflows_is_still_within_reach(p: int, radius: float, x: float) -> None:
    builder = EnsembleBuilder(n_features=1, classes=[0, 1])
    builder.add_tree(
        feature=[0, 0, LEAF, LEAF, LEAF], threshold=[2.0, 1.0, 0, 0, 0], left=[1, 3, LEAF, LEAF, LEAF],
        right=[2, 4, LEAF, LEAF, LEAF], scores=[[0, 0], [0, 0], [0, 1], [1, 0], [0, 1]],
    )  # fmt: skip
    ensemble = builder.build()
    decided = Local(ensemble, tp.Attacker.lp(p, radius).bind(ensemble)).decide(np.array([[x]]), np.zeros(1))
    assert decided.outcome[0] == Outcome.REFUTED


@pytest.mark.parametrize("patience", [0, 300])
def test_a_rate_is_not_carried_over_to_a_region_where_it_overflows(patience: int) -> None:
    """A price per unit of score means nothing where all leads are equal and rounding alone decides."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1])
    stump = {"left": [1, LEAF, LEAF], "right": [2, LEAF, LEAF], "threshold": [0.0] * 3}
    builder.add_tree(feature=[0, LEAF, LEAF], scores=[[0, 0], [0.6, 0.6], [0.7, 0.7]], **stump)
    builder.add_tree(
        feature=[1, LEAF, 0, LEAF, LEAF], threshold=[0.0, 0, 0.02, 0, 0], left=[1, LEAF, 3, LEAF, LEAF],
        right=[2, LEAF, 4, LEAF, LEAF], scores=[[0, 0], [0.6, 0.6], [0, 0], [0.7, 0.7], [0.7, 0.6]],
    )  # fmt: skip
    for scores in ([0.7, 0.6], [0.6, 0.7]):
        builder.add_tree(feature=[LEAF], threshold=[0.0], left=[LEAF], right=[LEAF], scores=[scores])
    ensemble = builder.build()
    x, attacker = np.array([[0.0, 1.0]]), tp.Attacker([(0.0, 0.2), (-1.0, 1.0)], costs=[1, 3], budget=1)
    assert ensemble.predict(x)[0] == 0 and ensemble.predict([[0.01, 1.0]])[0] == 1
    local = Local(ensemble, attacker.bind(ensemble))
    local.patience = patience
    assert local.decide(x, np.array([0.05, 2.0])).outcome[0] == Outcome.REFUTED
