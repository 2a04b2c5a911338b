"""The checker takes true witnesses and nothing beside them, down to the last double."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.strategies import Case, cases, points, tiny_ensembles
from treeproof.check.objects import is_within_reach, is_witness, predict_row
from treeproof.importers import EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.pieces import Pieces

INF = math.inf


def up(x: float) -> float:
    return math.nextafter(x, INF)


def down(x: float) -> float:
    return math.nextafter(x, -INF)


def model(**options: Any) -> tp.Ensemble:
    """Two stumps that vote: feature 0 at 0.5, feature 1 at 0.5; label 1 where both, or the first alone, are above."""
    builder = EnsembleBuilder(**{"n_features": 3, "classes": [0, 1], "value_limit": 4.0} | options)
    for feature, weight in ((0, 2.0), (1, 1.0)):
        builder.add_tree(
            feature=[feature, -1, -1],
            threshold=[0.5, 0, 0],
            left=[1, -1, -1],
            right=[2, -1, -1],
            scores=[[0, 0], [weight, 0], [0, weight]],
            nan_left=[True, True, True],
        )
    return builder.build()


def witness(x: list[float], near: list[float], attacked: list[float]) -> tp.Witness:
    return tp.Witness(np.array(x), np.array(near), np.array(attacked), None, None)


@pytest.mark.parametrize(
    ("attacker", "epsilon", "true", "false"),
    [
        pytest.param(
            tp.Attacker.linf(0.25),
            None,
            witness([0.375, 0, 0], [0.375, 0, 0], [0.625, 0, 0]),
            {
                "one double beyond the reach": {"attacked": [up(0.625), 0, 0]},
                "the neighbour moved without a neighbourhood": {"neighbour": [up(0.375), 0, 0]},
                "the same label": {"attacked": [0.5, 0, 0]},
                "the same row": {"attacked": [0.375, 0, 0]},
                "a row too short": {"attacked": [0.625, 0]},
                "rows in a list": {"attacked": [[0.625, 0, 0]]},
                "a value that became NaN": {"attacked": [0.625, math.nan, 0]},
                "an infinite value": {"attacked": [INF, 0, 0]},
            },
            id="linf",
        ),
        pytest.param(
            tp.Attacker((-0.25, 0.125), budget=1),
            0.125,
            witness([0.375, 0, 0], [0.5, 0, 0], [0.625, 0, 0]),
            {
                "a neighbour one double outside": {"neighbour": [up(0.5), 0, 0], "attacked": [0.25, 0, 0]},
                "a neighbour one double below": {"neighbour": [down(0.25), 0, 0], "attacked": [up(0.5), 0, 0]},
                "another feature outside": {"neighbour": [0.5, up(0.125), 0], "attacked": [0.625, up(0.125), 0]},
                "one double beyond the reach": {"attacked": [up(0.625), 0, 0]},
                "two features moved on a budget of one": {"attacked": [0.625, 0, 5e-324]},
            },
            id="budget and neighbourhood",
        ),
        pytest.param(
            tp.Attacker({0: (-1, 1), 1: (-1, 1)}, costs={0: 2, 1: 3}, budget=4),
            {1: 0.5},
            witness([0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [1.0, 0.5, 0.0]),
            {
                "both moved, 5 of 4 spent": {"attacked": [1.0, 0.25, 0.0]},
                "an untouchable feature": {"attacked": [1.0, 0.5, 5e-324]},
                "a neighbour in a feature without neighbourhood": {"neighbour": [-5e-324, 0.5, 0.0]},
            },
            id="costs",
        ),
        pytest.param(
            tp.Attacker((0.25, 0.5), budget=1),
            None,
            witness([0.5, 0, 0], [0.5, 0, 0], [0.75, 0, 0]),
            {
                "less than the least move": {"attacked": [down(0.75), 0, 0]},
                "more than the largest": {"attacked": [up(1.0), 0, 0]},
            },
            id="an interval without 0",
        ),
        pytest.param(
            tp.Attacker.l0(1, domain=(-1, 1)),
            INF,
            witness([0.0, 0, 0], [-1.0, 1.0, 0], [1.0, 1.0, 0]),
            {
                "an attack out of the domain": {"attacked": [up(1.0), 1.0, 0]},
                "a neighbour out of the domain": {"neighbour": [down(-1.0), 1.0, 0]},
                "a row out of the domain": {"x": [0, 0, 2], "neighbour": [0, 0, 2], "attacked": [1, 0, 2]},
            },
            id="domain",
        ),
        pytest.param(
            tp.Attacker.l0(1),
            INF,
            witness([0.0, 0, 0], [-4.0, 4.0, 0], [4.0, 4.0, 0]),
            {
                "more than the model takes": {"attacked": [up(4.0), 4.0, 0]},
                "a neighbour the model does not take": {"neighbour": [-4.0, up(4.0), 0], "attacked": [4, up(4.0), 0]},
                "an infinite row": {"x": [INF, 0, 0]},
                "a missing value in a model that takes none": {
                    "x": [0, 0, math.nan],
                    "neighbour": [0, 0, math.nan],
                    "attacked": [4.0, 0, math.nan],
                },
            },
            id="the model's range",
        ),
        pytest.param(
            tp.Attacker.lp(2, 0.625),
            None,
            witness([0.25, 0.0, 0.0], [0.25, 0.0, 0.0], [0.625, 0.5, 0.0]),  # 3, 4, 5
            {
                "one double over the radius": {"attacked": [up(0.625), 0.5, 0.0]},
                "the smallest double over it": {"attacked": [0.625, 0.5, 5e-324]},
            },
            id="l2",
        ),
        pytest.param(
            tp.Attacker.lp(1, 0.625, features=[0, 1]),
            0.125,
            witness([0.25, 0.0, 0.0], [0.375, 0.0, 0.125], [0.75, -0.25, 0.125]),
            {
                "one double over the radius": {"attacked": [0.75, down(-0.25), 0.125]},
                "an untouchable feature": {"attacked": [0.75, 0.0, up(0.125)]},
                "a neighbour one double outside": {"neighbour": [0.375, 0.0, up(0.125)], "attacked": [0.75, 0, 0.125]},
            },
            id="l1",
        ),
    ],
)
def test_mutated_witnesses_are_rejected(attacker: tp.Attacker, epsilon: Any, true: tp.Witness, false: dict) -> None:
    assert is_witness(model(), attacker, epsilon, true)
    for why, change in false.items():
        mutated = replace(true, **{name: np.array(row, dtype=float) for name, row in change.items()})
        assert not is_witness(model(), attacker, epsilon, mutated), why


def test_missing_values_stay_where_they_are() -> None:
    takes_nan = model(handles_missing=True)
    nan, attacker = math.nan, tp.Attacker.l0(2)
    assert is_witness(takes_nan, attacker, INF, witness([0, nan, 0], [0, nan, 0], [1, nan, 0]))
    assert not is_witness(takes_nan, attacker, INF, witness([0, nan, 0], [0, nan, 0], [1, 0, 0]))
    assert not is_witness(takes_nan, attacker, INF, witness([0, 0, 0], [0, 0, 0], [1, nan, 0]))
    assert not is_witness(takes_nan, attacker, INF, witness([0, nan, 0], [0, 0, 0], [1, 0, 0]))
    assert not is_witness(takes_nan, attacker, INF, witness([0, 0, 0], [0, nan, 0], [1, nan, 0]))


def test_real_numbers_decide_not_rounded_ones() -> None:
    # 0.1 + 0.2 rounds to 0.30000000000000004, which is more than the doubles 0.1 and 0.2 add up to.
    assert Fraction(0.1) + Fraction(0.2) < Fraction(0.1 + 0.2)
    builder = EnsembleBuilder(n_features=1, classes=["a", "b"])
    builder.add_tree(
        feature=[0, -1, -1], threshold=[0.3, 0, 0], left=[1, -1, -1], right=[2, -1, -1], scores=[[0, 0], [1, 0], [0, 1]]
    )
    crossing = witness([0.1], [0.1], [0.1 + 0.2])
    assert predict_row(builder.build(), crossing.attacked) == "b"
    assert not is_witness(builder.build(), tp.Attacker.linf(0.2), None, crossing)
    assert is_witness(builder.build(), tp.Attacker.linf(up(0.2)), None, crossing)


def test_an_attacker_of_another_width_is_refused() -> None:
    true = witness([0.375, 0, 0], [0.375, 0, 0], [0.625, 0, 0])
    with pytest.raises(tp.InvalidInput, match="attacker has 4 features, model has 3"):
        is_witness(model(), tp.Attacker([(-1, 1)] * 4), None, true)
    with pytest.raises(tp.InvalidInput, match="epsilon has 2 entries, but the model has 3 features"):
        is_witness(model(), tp.Attacker.linf(1), [0.1, 0.1], true)


def _candidates(ensemble: tp.Ensemble, case: Case, f: int) -> list[float]:
    """Values of one feature around x: itself, and the thresholds and ends of reach with a double on either side."""
    x = case.x[f]
    if math.isnan(x):
        return [x]
    low, high = case.attacker.intervals[f]
    ends = [x, *oracles.thresholds(ensemble, f), *(x + d for d in (case.eps[f], -case.eps[f], low, high))]
    reach = case.attacker.radius * (1.0 if case.attacker.scale is None else case.attacker.scale[f])
    ends += [x + reach, x - reach]
    values = {v for end in ends if math.isfinite(end) for v in (end, up(end), down(end)) if math.isfinite(v)}
    return sorted(values)


@st.composite
def claims(draw: st.DrawFn) -> tuple[Case, list[float], list[float]]:
    case = draw(cases())
    pools = [_candidates(case.ensemble, case, f) for f in range(case.ensemble.n_features)]
    near, attacked = list(case.x), list(case.x)
    # Few features move, or next to nothing would be within reach.
    for f in draw(st.lists(st.integers(0, len(pools) - 1), max_size=2)):
        near[f] = attacked[f] = draw(st.sampled_from(pools[f]))
    for f in draw(st.lists(st.integers(0, len(pools) - 1), min_size=1, max_size=2)):
        attacked[f] = draw(st.sampled_from(pools[f]))
    return case, near, attacked


def _meant(case: Case, near: list[float], attacked: list[float]) -> bool:
    """The definitions of docs/theory.md, word by word: z in N(x) and w in A(z)."""
    ensemble, attacker, x, _, eps = case
    spent = Fraction(0)
    for f, (a, z, w) in enumerate(zip(x, near, attacked, strict=True)):
        if math.isnan(a):
            continue
        low, high = (-INF, INF) if attacker.domain is None else attacker.domain[f]
        low, high = max(low, float(ensemble.value_low[f])), min(high, float(ensemble.value_high[f]))
        if not (low <= z <= high and low <= w <= high):
            return False
        if eps[f] != INF and abs(Fraction(z) - Fraction(a)) > Fraction(eps[f]):
            return False
        if w == z:
            continue
        move, (least, most) = Fraction(w) - Fraction(z), attacker.intervals[f]
        if (math.isfinite(least) and move < Fraction(least)) or (math.isfinite(most) and move > Fraction(most)):
            return False
        spent += attacker.costs[f] if attacker.p is None else attacker.power(f, move)
    if attacker.p is not None:
        return spent <= Fraction(attacker.radius) ** attacker.p
    return attacker.budget is None or spent <= attacker.budget


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(claims())
def test_what_is_within_reach_is_what_the_definitions_say(claim: tuple[Case, list[float], list[float]]) -> None:
    case, near, attacked = claim
    attacker = as_attacker(case.attacker)
    meant = _meant(case, near, attacked)
    claimed = witness(list(case.x), near, attacked)
    assert is_within_reach(case.ensemble, attacker, list(case.eps), claimed) == meant
    flips = oracles.predict(case.ensemble, near) != oracles.predict(case.ensemble, attacked)
    assert is_witness(case.ensemble, attacker, list(case.eps), claimed) == (meant and flips)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_plain_walk_predicts_what_the_ensemble_predicts(data: st.DataObject) -> None:
    ensemble = data.draw(tiny_ensembles())
    rows = np.array(data.draw(st.lists(points(ensemble), min_size=1, max_size=3)))
    assert [predict_row(ensemble, row) for row in rows] == ensemble.predict(rows).tolist()


def test_a_category_is_a_whole_code_and_missing_only_where_the_model_takes_it() -> None:
    colour = Category(values=("blue", "green", "red"))
    builder = EnsembleBuilder(
        n_features=2, classes=[0, 1], categories={0: colour, 1: colour}, no_missing=[1], handles_missing=True
    )
    builder.add_tree(
        feature=[0, -1, -1],
        threshold=[0, 0, 0],
        left=[1, -1, -1],
        right=[2, -1, -1],
        scores=[[0, 0], [1, 0], [0, 1]],
        pieces={0: Pieces.of_codes([True, False, True])},
    )
    ensemble, attacker = builder.build(), tp.Attacker({0: (-INF, INF)})
    assert is_witness(ensemble, attacker, None, witness([0, 0], [0, 0], [1, 0]))
    assert not is_witness(ensemble, attacker, None, witness([0, 0], [0, 0], [2, 0]))
    assert not is_witness(ensemble, attacker, None, witness([0, 0], [0, 0], [0.5, 0]))
    nan = math.nan
    assert is_within_reach(ensemble, attacker, None, witness([nan, 0], [nan, 0], [nan, 0]))
    assert not is_within_reach(ensemble, attacker, None, witness([0, nan], [0, nan], [1, nan]))
