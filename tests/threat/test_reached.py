"""Columns that an attacker moves in vain: exactly those that no move takes from one cell to another."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.prices import price_table_of_box
from tests.support.strategies import Case, cases, points
from treeproof.importers import EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.threat.reached import InVain, moved_in_vain


def stumps(*cuts: float | None, **more: object) -> Ensemble:
    """One tree per cut, each on a feature of its own; None: a feature that no tree tests."""
    builder = EnsembleBuilder(n_features=len(cuts), classes=("a", "b"), handles_missing=True, **more)  # type: ignore[arg-type]
    for f, cut in enumerate(cuts):
        if cut is not None:
            builder.add_tree(
                feature=[f, -1, -1],
                threshold=[cut, 0, 0],
                left=[1, -1, -1],
                right=[2, -1, -1],
                scores=[(0, 0), (1, 0), (0, 1)],
                nan_left=[True] * 3,
            )
    return builder.build()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(cases(), st.data())
def test_a_column_is_in_vain_where_the_price_tables_have_one_cell(case: Case, data: st.DataObject) -> None:
    ensemble, plain, x, _, eps = case
    threat = as_attacker(plain).bind(ensemble)
    rows = np.array([x, *data.draw(st.lists(points(ensemble), max_size=2))])
    rows = rows[((rows >= threat.domain_low) & (rows <= threat.domain_high) | np.isnan(rows)).all(axis=1)]
    low, high = threat.neighbourhood(rows, np.array(eps))
    tables = [price_table_of_box(threat, ensemble, *ends) for ends in zip(low, high, strict=True)]
    payable = [[f for (f, _), price in one.exact.items() if price <= one.budget] for one in tables]
    cells = [max(one.count(f) for one in payable) for f in range(ensemble.n_features)]
    found = moved_in_vain(threat, ensemble, rows, [np.array(eps)])
    for f in range(ensemble.n_features):
        tested = ensemble.grid.n_cells[f] > 1
        assert (f in found.untested) == (threat.movable[f] and not tested)
        # An Lp ball is looked at from outside: its box may be too large by a rounding.
        if plain.p is None:
            assert (f in found.unreached) == (threat.movable[f] and tested and cells[f] < 2)
        elif f in found.unreached:
            assert cells[f] < 2


def test_one_hot_columns_that_stay_below_one_half_are_named() -> None:
    ensemble = stumps(0.5, 0.5, 100.0, None, 0.5)
    rows = np.array([[0.0, 1.0, 95.0, 1.0, math.nan], [1.0, 0.0, 300.0, 0.0, math.nan]])
    assert moved_in_vain(tp.Attacker.linf(0.4).bind(ensemble), ensemble, rows) == InVain((0, 1, 2, 4), (3,))
    assert moved_in_vain(tp.Attacker.linf(0.5).bind(ensemble), ensemble, rows) == InVain((2, 4), (3,))
    assert moved_in_vain(tp.Attacker((0.0, 5.1)).bind(ensemble), ensemble, rows) == InVain((4,), (3,))
    near = [np.array([0.0, 0.2, 0.0, 0.0, 0.2])]
    assert moved_in_vain(tp.Attacker.linf(0.4).bind(ensemble), ensemble, rows, near) == InVain((0, 2, 4), (3,))
    # Columns that cannot be moved, or not for this budget, are not meant.
    dear = tp.Attacker({0: (-0.1, 0.1), 1: (-0.1, 0.1)}, costs={1: 3}, budget=2)
    assert moved_in_vain(dear.bind(ensemble), ensemble, rows) == InVain((0,))


def test_categories_that_may_become_anything_are_not_in_vain() -> None:
    builder = EnsembleBuilder(n_features=1, classes=(0, 1), categories={0: Category(("a", "b", "c"), unseen=True)})
    builder.add_tree(
        feature=[0, -1, -1], threshold=[0.0, 0, 0], left=[1, -1, -1], right=[2, -1, -1],
        scores=[(0, 0), (1, 0), (0, 1)], pieces={0: Pieces.of_codes([True, False, True, False])},
    )  # fmt: skip
    ensemble = builder.build()
    assert moved_in_vain(tp.Attacker({0: tp.ANY}).bind(ensemble), ensemble, np.array([[1.0]])) == InVain()


@pytest.mark.parametrize(
    ("attacker", "unreached"),
    [
        (tp.Attacker({0: tp.values(0.2, 0.3), 1: tp.values(0.7)}), (0,)),
        (tp.Attacker({0: tp.steps(-0.6, 0.6, "0.25"), 1: tp.steps(-0.6, 0.6, "0.3")}), (0,)),
        (tp.Attacker({1: (-0.1, 0.1)}, blank=[0]), (1,)),
        (tp.Attacker({1: (-0.1, 0.1)}, fill=[0, 2]), (0, 1)),
        (tp.Attacker({0: (-0.1, 0.1), 1: (-0.1, 0.1)}, blank={0: 3, 1: 2}, budget=2), (0,)),
        (tp.Attacker.rules([tp.Rule(0, change="0.2"), tp.Rule(1, when=(0, 0.1), change="0.2")], budget=9), (1,)),
        (tp.Attacker.rules([tp.Rule(0, change="0.2")], budget=2), (0,)),
        (tp.Attacker.lp(1, 0.6, features=[0, 1], step={0: "0.25"}), (0,)),
    ],
    ids=repr,
)
def test_columns_that_are_more_than_an_interval(attacker: tp.Attacker, unreached: tuple[int, ...]) -> None:
    ensemble = stumps(0.5, 0.5, 0.5)
    for rows in (np.array([[0.0, 0.0, np.nan]]), np.array([[0.0, 0.0, np.nan]] * 70)):
        found = moved_in_vain(attacker.bind(ensemble), ensemble, rows)
        assert found == InVain(unreached)
    # One row that starts near the threshold is enough, wherever it stands.
    near = np.array([[0.0, 0.0, np.nan]] * 70 + [[0.45, 0.45, np.nan]])
    assert len(moved_in_vain(attacker.bind(ensemble), ensemble, near).unreached) <= len(unreached)


def test_sums_of_counts_say_what_is_in_vain_everywhere() -> None:
    first, second = InVain((1, 2), (5,)), InVain((2, 3), (5,))
    counts = first.counts(10)
    for name, n in second.counts(4).items():
        counts[name] = counts.get(name, 0) + n
    assert InVain.of_counts(counts, 14, range(6)) == InVain((2,), (5,))
    assert InVain.of_counts({}, 0, range(6)) == InVain()


@pytest.mark.slow
def test_wide_tables_are_looked_at_as_a_whole() -> None:
    ensemble = stumps(*[0.5] * 800)
    threat, X = tp.Attacker.linf(0.4).bind(ensemble), np.zeros((20_000, 800))
    X[::7] = 1.0
    assert len(moved_in_vain(threat, ensemble, X).unreached) == 800
    many = np.concatenate((X, np.full((1, 800), 0.3)))  # one row is enough
    assert moved_in_vain(threat, ensemble, many) == InVain()


def test_the_cheapest_attack_says_so_and_has_no_radius() -> None:
    ensemble, rows = stumps(0.5, 0.5, 0.5), np.array([[0.0, 0.0, 0.0]])
    far = tp.Attacker({0: (-0.1, 0.1), 1: (-0.9, 0.9), 2: (-0.9, 0.9)}, costs=2)
    found = tp.cheapest_attack(ensemble, rows, far)
    assert found.in_vain == InVain((0,)) and "1 movable columns reach no threshold" in repr(found)
    for step in (None, "0.2"):
        ball = tp.Attacker.lp(1, 0.1, step=step)
        assert tp.cheapest_attack(ensemble, rows, ball).in_vain == InVain()
        assert tp.cheapest_attack(ensemble, rows, ball, within=True).in_vain == InVain((0, 1, 2))
