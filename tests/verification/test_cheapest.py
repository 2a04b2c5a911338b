"""The cheapest attack, against all attacks there are, and as users ask for it."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.fuzz_local import check_block
from tests.support.applicants import applicants
from tests.support.random_blocks import block
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.numbers.doubles import root_at_most


@pytest.mark.long
@pytest.mark.slow
def test_prices_are_those_of_the_cheapest_of_all_attacks() -> None:
    counts = sum(
        (check_block(block(15, number), through_verify=False) for number in range(40)), start=check_block(block(15, 40))
    )
    assert counts["cheapest attacks"] >= 60


def iris() -> tuple[RandomForestClassifier, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return RandomForestClassifier(15, random_state=0).fit(X, y), X[::15]


@pytest.mark.parametrize(
    "attacker",
    [tp.Attacker.lp(1, 1.0), tp.Attacker.lp(2, 1.0), tp.Attacker.lp(3, 1.0, features=[1, 2], domain=[(-9, 9)] * 4)],
)
def test_lp_prices_are_robustness_radii(attacker: tp.Attacker) -> None:
    model, rows = iris()
    found = tp.cheapest_attack(model, rows, attacker)
    radii = tp.robustness_radius(model, rows, model.predict(rows), attacker)
    assert found.exact.all()
    np.testing.assert_allclose(found.price, radii, rtol=1e-12)
    flipped = np.isfinite(found.price)
    assert (model.predict(found.rows[flipped]) != model.predict(rows[flipped])).all()
    assert (found.label[flipped] == model.predict(found.rows[flipped])).all()


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("step", [None, "0.1"])
def test_one_way_attackers_only_raise_or_lower(p: int, step: str | None) -> None:
    model, rows = iris()
    ensemble = tp.from_model(model)
    attacker = tp.Attacker.lp(p, 0.6, features=[0, 2, 3], up=[2], down=[3], step=step)
    found = tp.cheapest_attack(model, rows, attacker)
    at_once = tp.cheapest_attack(model, rows, attacker, within=True)
    verified = tp.verify(model, rows, model.predict(rows), attacker)
    for i, x in enumerate(rows):
        ends = [x[:1], x[1:2], x[2:3], x[3:4]]
        for f, sign in ((0, 0), (2, 1), (3, -1)):
            cuts = ensemble.grid.cuts_of(f)
            there = np.concatenate((cuts[cuts < x[f]], np.nextafter(cuts, np.inf)[cuts >= x[f]]))
            if step is not None:
                tenths = np.round(10 * there)
                up, down = (tenths + (tenths / 10 < there)) / 10, (tenths - (tenths / 10 > there)) / 10
                there = np.where(there > x[f], up, down)
            ends[f] = np.append(there[(there - x[f]) * sign >= 0], x[f])
        candidates = np.array(list(itertools.product(*ends)))
        away = (np.abs(candidates - x) ** p).sum(axis=1) ** (1 / p)
        least = away[model.predict(candidates) != model.predict(x[None])[0]].min(initial=np.inf)
        assert found.exact[i] and found.price[i] == pytest.approx(least, rel=1e-9)
        assert at_once.price[i] == pytest.approx(least if least <= 0.6 else np.inf, rel=1e-9)
        assert verified.stability[i] == (least <= 0.6)
    if step is None:
        np.testing.assert_allclose(tp.robustness_radius(model, rows, model.predict(rows), attacker) * 0.6, found.price)


def test_budgets_bind_only_within() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [0, 0, 0, 1])
    attacker = tp.Attacker({0: (-2, 2), 1: (-2, 2)}, costs={0: 3, 1: 4}, budget=5)
    beyond = tp.cheapest_attack(clf, [[0.0, 0.0], [0.0, 1.0]], attacker)
    assert beyond.price.tolist() == [7.0, 3.0] and beyond.exact.all()
    within = tp.cheapest_attack(clf, [[0.0, 0.0], [0.0, 1.0]], attacker, within=True)
    assert within.price.tolist() == [math.inf, 3.0] and within.exact.all()
    assert within.rows[0].tolist() == [0.0, 0.0]
    near = tp.cheapest_attack(clf, [[0.0, 1.0]], tp.Attacker.lp(1, 0.4), within=True)
    assert near.price.tolist() == [math.inf] and near.exact.all()


def at_a_corner(*thresholds: float) -> tp.Ensemble:
    """Class 1 where every feature is at least its threshold."""
    n = len(thresholds)
    builder = EnsembleBuilder(n_features=n, classes=[0, 1], rule=ScoreRule(decision=Decision.CUT, cut=n - 0.5))
    for f, threshold in enumerate(thresholds):
        builder.add_tree(
            feature=[f, LEAF, LEAF], threshold=[math.nextafter(threshold, -math.inf), 0, 0], left=[1, LEAF, LEAF],
            right=[2, LEAF, LEAF], scores=[0.0, 0.0, 1.0],
        )  # fmt: skip
    return builder.build()


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("scale", [None, [3.0, 0.1, 7.0]])
def test_a_radius_one_double_too_small_is_settled_exactly(p: int, scale: list[float] | None) -> None:
    needed = (0.1, 0.2, 0.7)
    units = scale or [1.0] * 3
    total = sum((Fraction(d) / Fraction(unit)) ** p for d, unit in zip(needed, units, strict=True))
    radius = root_at_most(total, p)  # the attack costs this, or less than the next double
    if Fraction(radius) ** p < total:
        radius = math.nextafter(radius, math.inf)
    model = at_a_corner(*needed)
    reached = tp.cheapest_attack(model, [[0.0] * 3], tp.Attacker.lp(p, radius, scale=scale), within=True)
    assert reached.rows.tolist() == [list(needed)] and reached.exact.all() and reached.price[0] <= radius
    poor = tp.Attacker.lp(p, math.nextafter(radius, 0.0), scale=scale)
    missed = tp.cheapest_attack(model, [[0.0] * 3], poor, within=True)
    assert missed.price.tolist() == [math.inf] and missed.exact.all() and missed.rows.tolist() == [[0.0] * 3]
    assert tp.verify(model, [[0.0] * 3], [0], poor).stability.tolist() == [tp.Outcome.PROVED]


def test_units_weigh_the_features() -> None:
    model = at_a_corner(4.0)
    assert tp.cheapest_attack(model, [[0.0]], tp.Attacker.lp(1, 1.0, scale=8)).price.tolist() == [0.5]
    assert tp.robustness_radius(model, [[0.0]], [0], tp.Attacker.lp(2, 0.25, scale={0: 8})).tolist() == [2.0]
    robust = tp.verify(model, [[0.0]], [0], tp.Attacker.lp(2, math.nextafter(0.5, 0.0), scale=8))
    assert robust.stability.tolist() == [tp.Outcome.PROVED]
    assert tp.verify(model, [[0.0]], [0], tp.Attacker.lp(2, 0.5, scale=8)).stability.tolist() == [tp.Outcome.REFUTED]


def test_distances_too_short_to_be_priced_end_the_search() -> None:
    found = tp.cheapest_attack(at_a_corner(1e-170, 1e-170), [[0.0, 0.0]], tp.Attacker.lp(2, 1.0))
    assert found.rows.tolist() == [[1e-170, 1e-170]] and not found.exact.any()


def test_missing_values_stay_missing_and_that_is_said() -> None:
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)
    X, y = load_iris(return_X_y=True)
    X[::3, 2] = math.nan
    found = tp.cheapest_attack(model.fit(X, y), X[:4], tp.Attacker.lp(1, 1.0))
    assert found.missing.tolist() == [1, 0, 0, 1] and np.isnan(found.rows[[0, 3], 2]).all()
    assert "missing cells in 2 rows stay missing" in repr(found)
    assert "missing" not in repr(tp.cheapest_attack(model, X[1:3], tp.Attacker.lp(1, 1.0)))


def test_frames_come_back_as_frames() -> None:
    data = load_breast_cancer(as_frame=True)
    model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(data.data, data.target)
    rows = data.data.iloc[[3, 30, 300]]
    found = tp.cheapest_attack(model, rows, tp.Attacker.l0(1))
    assert isinstance(found.rows, pd.DataFrame) and found.rows.index.equals(rows.index)
    changed = (found.rows != rows).sum(axis=1).to_numpy()
    assert (changed == found.price).all() and (model.predict(found.rows) != model.predict(rows)).all()
    assert "3 rows, 3 with an attack, 3 proved, median price" in repr(found)


def test_what_is_refused() -> None:
    model, rows = iris()
    with pytest.raises(tp.InvalidInput, match="all its moves are free.*robustness_radius"):
        tp.cheapest_attack(model, rows, tp.Attacker.linf(0.1))
    with pytest.raises(tp.InvalidInput, match="must be a treeproof.Attacker"):
        tp.cheapest_attack(model, rows, "l1")


def test_without_time_nothing_is_claimed() -> None:
    model, rows = iris()
    found = tp.cheapest_attack(model, rows, tp.Attacker.lp(1, 1.0), timeout=0)
    assert not found.exact.any() and np.isinf(found.price).all() and (found.rows == rows).all()


@pytest.mark.parametrize(
    "words",
    [{"costs": {"income": 1}}, {"costs": {"income": 1}, "blank": {"income": 2}}, {"fill": ["income"]}],
)
def test_costs_of_1_are_costs_where_somebody_gives_them(words: dict[str, Any]) -> None:
    row = [[3.0, 1.0, "tv", 1.0, 1.0]]
    found = tp.cheapest_attack(applicants(), row, tp.Attacker({"income": (-1, 0)}, **words))
    assert found.price.tolist() == [1.0] and found.exact.all()


def test_rules_have_costs_of_their_own() -> None:
    attacker = tp.Attacker.rules([tp.Rule("income", when=(0, 5), change=(-1, 0), cost=3)], domain={"income": (0, 9)})
    assert tp.cheapest_attack(applicants(), [[3.0, 1.0, "tv", 1.0, 1.0]], attacker).price.tolist() == [3.0]


def test_the_largest_double_can_be_made_missing() -> None:
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], handles_missing=True)
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[0.0, 0.0, 0.0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
        scores=[[0, 0], [1, 0], [0, 1]], nan_left=[True] * 3,
    )  # fmt: skip
    attacker = tp.Attacker((0, 1), blank=[0], budget=1)
    found = tp.cheapest_attack(builder.build(), [[np.finfo(np.float64).max]], attacker)
    assert found.price.tolist() == [1.0] and np.isnan(found.rows).all()
