"""Attackers: what they mean, against the oracle; what they refuse, one line each."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.prices import price_table
from tests.support.strategies import Case, cases
from treeproof.importers import EnsembleBuilder
from treeproof.threat.epsilon import bind_epsilon
from treeproof.verification.local_search import Local

INF = math.inf


def cell_vectors(ensemble: tp.Ensemble, x: tuple[float, ...]) -> set[tuple[int, ...]]:
    return set(
        itertools.product(
            *(
                [-1] if math.isnan(value) else range(n)
                for value, n in zip(x, ensemble.grid.n_cells.tolist(), strict=True)
            )
        )
    )


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=350, deadline=None)
@given(cases())
def test_affordable_cells_are_the_attacked_neighbourhood(case: Case) -> None:
    ensemble, plain, x, _, eps = case
    prices = price_table(as_attacker(plain).bind(ensemble), ensemble, x, list(eps))
    affordable = {cells for cells in cell_vectors(ensemble, x) if prices.affordable(cells)}
    assert affordable == {w for _, w in oracles.attacks(ensemble, plain, x, eps)}


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(cases())
def test_price_bounds_enclose_the_exact_price(case: Case) -> None:
    ensemble, plain, x, _, eps = case
    prices = price_table(as_attacker(plain).bind(ensemble), ensemble, x, list(eps))
    reachable = 0
    for (feature, cell), exact in prices.exact.items():
        if cell < 0:
            assert math.isnan(x[feature]) and exact == 0
            continue
        low, high = (float(side[prices.offsets[feature] + cell]) for side in (prices.low, prices.high))
        assert Fraction(low) <= exact and (high == INF or exact <= Fraction(high))
        assert plain.p is not None or low == high
        reachable += 1
    assert np.isfinite(prices.low).sum() == reachable


def stump(n_features: int = 2, names: tuple[str, ...] | None = ("age", "income")) -> tp.Ensemble:
    builder = EnsembleBuilder(n_features=n_features, classes=[0, 1], feature_names=names, value_limit=1e9)
    builder.add_tree(
        feature=[0, -1, -1], threshold=[0.5, 0, 0], left=[1, -1, -1], right=[2, -1, -1], scores=[[0, 0], [1, 0], [0, 1]]
    )
    return builder.build()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tp.Attacker((0.1, -0.1)), r"interval \(0.1, -0.1\) is empty"),
        (lambda: tp.Attacker([(0, 1), (2, 1)]), r"interval of feature 1 \(2.0, 1.0\) is empty"),
        (lambda: tp.Attacker({"age": (2, 1)}), "interval of feature 'age'"),
        (lambda: tp.Attacker((math.nan, 1)), "interval is NaN"),
        (lambda: tp.Attacker((0, 1), costs=math.nan), "cost is NaN"),
        (lambda: tp.Attacker((0, 1), budget=math.nan), "budget is NaN"),
        (lambda: tp.Attacker((0, 1), domain=(math.nan, 1)), "domain is NaN"),
        (lambda: tp.Attacker((INF, INF)), "contains no finite move"),
        (lambda: tp.Attacker((0, 1, 2)), r"interval must be a pair \(low, high\), got \(0, 1, 2\)"),
        (lambda: tp.Attacker("big"), "interval: 'big' is text; tp.ANY lets the attacker change a category"),
        (lambda: tp.Attacker(("a", "b")), r"interval: \('a', 'b'\) is text"),
        (lambda: tp.Attacker([]), "interval"),
        (lambda: tp.Attacker({}), "no columns are named, so the attacker could do nothing"),
        (lambda: tp.Attacker({1.5: (0, 1)}), "features are given by name or index, got 1.5"),
        (lambda: tp.Attacker((0, 1), costs=-1), "cost must be a whole number from 0 to 1099511627776, got -1$"),
        (lambda: tp.Attacker({"age": 2}), r"must be a pair \(low, high\), got 2; write \(-2, 2\) for either way"),
        (lambda: tp.Attacker((0, 1), budget=1.5), "budget must be a whole number, got 1.5; scale costs and budget up"),
        (lambda: tp.Attacker.l0(1.5), "budget must be a whole number, got 1.5"),
        (lambda: tp.Attacker((0, 1), costs=[1, 0.5]), "cost of feature 1 must be a whole number .* scale fractions up"),
        (lambda: tp.Attacker((0, 1), costs=True), "cost must be a number, got True"),
        (lambda: tp.Attacker((0, 1), costs=INF), "cost must be a whole number"),
        (lambda: tp.Attacker((0, 1), budget=-2), "budget must be at least 0, got -2; None means no limit"),
        (lambda: tp.Attacker((0, 1), domain=(3, 2)), r"domain \(3.0, 2.0\) is empty"),
        (lambda: tp.Attacker([(0, 1)] * 3, costs=[1, 2]), "the attacker's lists have different lengths: 2, 3"),
        (lambda: tp.Attacker.linf(-0.1), "delta must be at least 0, got -0.1"),
        (lambda: tp.Attacker.linf(math.nan), "delta is NaN"),
        (lambda: tp.Attacker.linf(0.1, features=[]), "features= is empty"),
        (lambda: tp.Attacker.linf([0.1, 0.2], features=[0]), "features= restricts a single number"),
        (lambda: tp.Attacker.l0(-1), "budget must be at least 0"),
        (lambda: tp.Attacker.lp(2, -0.1), "radius must be at least 0"),
        (lambda: tp.Attacker.lp(2, INF), "an Lp radius must be finite"),
        (lambda: tp.Attacker.lp(1.5, 1), "p must be a whole number from 1 to 64, or infinite, got 1.5"),
        (lambda: tp.Attacker.lp(65, 1), "p must be a whole number from 1 to 64"),
        (lambda: tp.Attacker.l0(None), "k is None; give the number of features"),
        (lambda: tp.Attacker((0, 1), domain=(INF, INF)), "contains no finite move"),
        (
            lambda: tp.Attacker((0, 1), domain=(3e9, 4e9)).bind(stump()),
            "the domain of feature 'age' contains no number",
        ),
        (lambda: tp.Attacker.lp(2, 1, scale=0), "scale must be above 0 and finite, got 0"),
        (lambda: tp.Attacker.lp(2, 1, scale={"age": INF}), "scale of feature 'age' must be above 0 and finite"),
        (lambda: tp.Attacker.lp(2, 1, scale=[1, 2, 3]).bind(stump()), "attacker has 3 features, model has 2"),
        (lambda: tp.Attacker.lp(2, 1, scale={"size": 2}).bind(stump()), "the model has no feature 'size'"),
        (lambda: tp.Attacker.lp(INF, 1, scale=2), "scale= goes with a finite p; give Attacker.linf one delta"),
        (lambda: tp.Attacker.lp(0, 1), "for L0 use Attacker.l0"),
        (lambda: tp.Attacker.lp(math.nan, 1), "p must be a whole number"),
        (lambda: tp.Attacker([(0, 1)] * 3).bind(stump()), "attacker has 3 features, model has 2; give one interval"),
        (
            lambda: tp.Attacker({"size": (0, 1)}).bind(stump()),
            "the model has no feature 'size'; it has 'age', 'income'$",
        ),
        (lambda: tp.Attacker({7: (0, 1)}).bind(stump()), "feature 7 is out of range; the model has features 0 to 1"),
        (lambda: tp.Attacker({"age": (0, 1)}).bind(stump(names=None)), "the model has no feature names"),
        (
            lambda: tp.Attacker({"age": (0, 1), 0: (0, 2)}).bind(stump()),
            "features 'age' and 0 are the same; name it once",
        ),
        (lambda: bind_epsilon(-0.1, stump()), "epsilon must be at least 0, got -0.1"),
        (lambda: bind_epsilon([0.1, math.nan], stump()), "epsilon of feature 1 is NaN"),
        (lambda: bind_epsilon([0.1] * 3, stump()), "epsilon has 3 entries, but the model has 2 features"),
        (lambda: bind_epsilon("small", stump()), "epsilon must be a number, got 'small'"),
        (
            lambda: price_table(tp.Attacker((0, 1), domain=(0, 1)).bind(stump()), stump(), [0.5, 2.0]),
            r"row 0, column 'income': 2.0 lies outside the domain \(0.0, 1.0\); widen it there",
        ),
    ],
)
def test_bad_attackers_are_refused(make: object, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        make()


def test_mappings_leave_other_features_alone() -> None:
    threat = tp.Attacker({"income": (-1, 2)}, costs={"income": 3}, domain={1: (0, 10)}).bind(stump())
    assert threat.low.tolist() == [0, -1] and threat.high.tolist() == [0, 2]
    assert threat.cost.tolist() == [0, 3]
    assert threat.domain_low[1] == 0 and threat.domain_high[1] == 10
    assert bind_epsilon({"income": 0.5}, stump()).tolist() == [0, 0.5]


def test_arrays_are_taken_as_lists() -> None:
    assert tp.Attacker(np.array([[-1, 1], [0, 2]])) == tp.Attacker([(-1, 1), (0, 2)])
    assert tp.Attacker(np.array([-1.0, 1.0])) == tp.Attacker((-1, 1))
    assert bind_epsilon(np.array([0.1, 0.2]), stump()).tolist() == [0.1, 0.2]
    assert bind_epsilon(np.float64(0.1), stump()).tolist() == [0.1, 0.1]


def test_a_series_is_read_by_its_index() -> None:
    assert tp.Attacker.linf(pd.Series({"income": 500.0, "age": 1.0})) == tp.Attacker.linf({"income": 500, "age": 1})
    assert bind_epsilon(pd.Series({"income": 0.5}), stump()).tolist() == [0, 0.5]


def test_only_a_missing_value_has_the_nan_cell() -> None:
    prices = price_table(tp.Attacker((0, 0)).bind(stump()), stump(), [0.0, 0.0])
    assert prices.affordable([0, 0]) and not prices.affordable([-1, 0])
    with pytest.raises(tp.InvalidInput, match="1 cells for 2 features"):
        prices.affordable([0])


def test_special_norms_are_ordinary_attackers() -> None:
    assert tp.Attacker.lp(INF, 0.1) == tp.Attacker.linf(0.1) == tp.Attacker((-0.1, 0.1))
    assert tp.Attacker.l0(2) == tp.Attacker((-INF, INF), budget=2)
    assert tp.Attacker.linf([0.1, 0.2]) == tp.Attacker([(-0.1, 0.1), (-0.2, 0.2)])


@pytest.mark.parametrize(
    "attacker",
    [
        tp.Attacker((-0.03, 0.0), budget=1),
        tp.Attacker([(-0.1, 0.1), (0, INF)], costs=[1, 2], budget=3, domain=[(-INF, 3), (0, 1)]),
        tp.Attacker({"age": (0, 2), "income": (-INF, INF)}, costs={"income": 3}, budget=4, domain={"age": (0, 120)}),
        tp.Attacker.linf({"age": 0.1}),
        tp.Attacker.l0(2, features=["age", 3]),
        tp.Attacker.lp(2, 0.1),
        tp.Attacker.lp(1, 0.25, features=[1], domain=(0, 1)),
        tp.Attacker.lp(1, 0.25, scale={"age": 10, 3: 0.1}),
        tp.Attacker.lp(2, 0.25, scale=[1, 2]),
    ],
    ids=repr,
)
def test_attackers_survive_json_and_repr(attacker: tp.Attacker, tmp_path: Path) -> None:
    attacker.to_json(tmp_path / "attacker.json")
    assert tp.Attacker.from_json(tmp_path / "attacker.json") == attacker
    assert tp.Attacker.from_json(attacker.to_json()) == attacker
    assert eval(repr(attacker), {"Attacker": tp.Attacker, "inf": INF}) == attacker


def test_the_authors_file_is_read() -> None:
    text = json.dumps([[-0.03, 0.0, False, False, 1], [-INF, INF, True, True, 2]])
    assert tp.Attacker.from_json(text, budget=2) == tp.Attacker([(-0.03, 0), (-INF, INF)], costs=[1, 2], budget=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "is not an attacker"),
        ('{"format": "treeproof-attacker", "version": 9}', "has version 9; this treeproof reads version 2"),
        (
            '{"format": "treeproof-attacker", "version": 2, "x": 1}',
            "lacks budget, costs, .* and has the unknown fields x",
        ),
        ("[]", "lists no features"),
        ("[[1, 2]]", r"entry 0: expected \[left, right, left_open, right_open, cost\], got \[1, 2\]"),
        ("[[-1, 1, true, false, 1]]", "entry 0: the end -1 is open; treeproof's intervals are closed"),
        ("[[1, -1, false, false, 1]]", "interval of feature 0 .* is empty"),
        ('[[-1, 1, false, false, "a"]]', "cost of feature 0 must be a number, got 'a'"),
        ("[[true, 1, false, false, 1]]", "interval of feature 0 must be a number, got True"),
        ('[["1j", 1, false, false, 1]]', r"interval of feature 0: \('1j', 1\) is text"),
        (f"[[-{10**400}, 1, false, false, 1]]", "interval of feature 0 .* is too large for a double"),
        ('[[-1, 1, "no", false, 1]]', "entry 0: left_open and right_open are true or false"),
        ("[" * 900 + "]" * 900, "entry 0: expected"),
    ],
)
def test_bad_attacker_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        tp.Attacker.from_json(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": True}, "has version True"),
        ({"radius": False}, "radius must be a number, got False"),
        ({"radius": "0"}, "radius must be a number, got '0'"),
        ({"budget": True}, "budget must be a number, got True"),
        ({"budget": 10**400}, "budget .* is too large for a double"),
        ({"power": True, "radius": 1}, "p must be a whole number"),
    ],
)
def test_what_is_nearly_a_number_in_an_attacker_file_is_refused(change: dict[str, Any], message: str) -> None:
    content = json.loads(tp.Attacker((-1, 1)).to_json()) | change
    with pytest.raises(tp.InvalidInput, match=message):
        tp.Attacker.from_json(json.dumps(content))


@pytest.mark.parametrize("field", ["intervals", "costs", "domain"])
@pytest.mark.parametrize(
    "value", [3, {"all": 1, "each": 2}, {"each": []}, {"by_feature": [1]}, {"other": 1}, {"all": "a"}]
)
def test_bad_fields_of_attacker_files_are_refused(field: str, value: object) -> None:
    content = json.loads(tp.Attacker((-1, 1)).to_json()) | {field: value}
    with pytest.raises(tp.InvalidInput, match=field.removesuffix("s")):
        tp.Attacker.from_json(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        {"radius": 5.0},
        {"intervals": {"all": [-5, 0]}},
        {"budget": 1},
        {"power": None},
        {"costs": {"all": 2}},
        {"power": None, "radius": 0, "scale": {"all": 2}},
    ],
)
def test_lp_files_that_contradict_themselves_are_refused(change: dict) -> None:
    content = json.loads(tp.Attacker.lp(2, 0.1).to_json()) | change
    with pytest.raises(tp.InvalidInput, match="do not fit its radius|p must be a whole number"):
        tp.Attacker.from_json(json.dumps(content))


def test_missing_and_binary_attacker_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tp.InvalidInput, match="cannot read .*: No such file"):
        tp.Attacker.from_json(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(tp.InvalidInput, match="is not a text file"):
        tp.Attacker.from_json(tmp_path / "binary")
    with pytest.raises(tp.InvalidInput, match="states its own budget"):
        tp.Attacker.from_json(tp.Attacker((-1, 1)).to_json(), budget=2)


def test_an_older_file_of_an_lp_attacker_has_no_scale() -> None:
    assert "scale" not in json.loads(tp.Attacker.lp(2, 0.1).to_json())
    assert tp.Attacker.from_json(tp.Attacker.lp(2, 0.1).to_json()) == tp.Attacker.lp(2, 0.1, scale=1)


def test_distances_are_divided_by_their_unit() -> None:
    threat = tp.Attacker.lp(2, 1.0, scale={"age": 4.0}).bind(stump())
    assert threat.price(0, 0.0, 2.0) == Fraction(1, 4) and threat.price(1, 2.0, 0.0) == 4
    assert threat.high[0] >= 4 and threat.high[1] == 1 and (threat.low == -threat.high).all()
    # A unit so small or large that the reach is no double: nothing that is affordable is out of reach.
    tiny = tp.Attacker.lp(1, 5e-324, scale=[5e-324, 1e308]).bind(stump())
    assert tiny.high[0] > 0
    assert tp.Attacker.lp(1, 1e300, scale=1e300).bind(stump()).high[0] == INF


def test_costs_whose_sum_is_no_exact_double_are_refused() -> None:
    X = np.eye(4096)
    ensemble = tp.from_model(DecisionTreeClassifier(max_depth=1).fit(X, np.arange(4096) == 0))
    tp.Attacker((-1, 1), costs=2**39, budget=1).bind(ensemble)
    with pytest.raises(tp.InvalidInput, match="all costs together must stay below 4503599627370496"):
        tp.Attacker((-1, 1), costs=2**40, budget=1).bind(ensemble)


def test_frozen_columns_are_as_if_the_attacker_had_never_named_them() -> None:
    X = np.random.default_rng(0).integers(0, 6, (200, 3)).astype(float)
    model = tp.from_model(
        DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, (X[:, 0] > X[:, 1]) ^ (X[:, 2] > 3))
    )
    moves = {0: (-2, 2), 1: tp.steps(-2, 2, 1), 2: tp.values(0, 5)}
    for frozen in ([0], [1], [2], [0, 2]):
        threat = tp.Attacker(moves, budget=2).bind(model).freeze(frozen)
        fewer = tp.Attacker({f: move for f, move in moves.items() if f not in frozen}, budget=2).bind(model)
        one, other = (Local(model, each).decide(X, np.zeros(3)) for each in (threat, fewer))
        assert one.outcome.tolist() == other.outcome.tolist()
        assert (one.attacked[:, frozen] == X[:, frozen]).all()
        assert threat.frozen == tuple(frozen)
    assert (Local(model, threat).decide(X, np.zeros(3)).outcome == tp.Outcome.REFUTED).any()
