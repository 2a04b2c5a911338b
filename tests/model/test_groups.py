"""Groups of one-hot columns as category columns: the same trees, the same labels, rows there and back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import treeproof as tp
from treeproof.errors import InvalidInput
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.columns import Category, Column
from treeproof.model.groups import Group, group_columns
from treeproof.model.pieces import Pieces

PURPOSE, HOUSING = Group((1, 2, 4), "purpose"), Group((6, 3), "housing", exactly=False)
N_FEATURES = 7
LEVELS = (-0.7, 0.1, 0.4, 0.9, 2.0)


def valid_rows() -> np.ndarray:
    """Every valid choice of both groups, with all pairs of some numbers in columns 0 and 5."""
    purposes, housings = np.eye(3), np.vstack((np.eye(2), np.zeros(2)))
    choices = list(itertools.product(LEVELS, LEVELS, purposes, housings))
    rows = np.empty((len(choices), N_FEATURES))
    for row, (first, fifth, purpose, housing) in zip(rows, choices, strict=True):
        row[0], row[5] = first, fifth
        row[list(PURPOSE.features)], row[list(HOUSING.features)] = purpose, housing
    return rows


def train(kind: str, seed: int) -> Any:
    """A model of training rows that break the groups as well, so that its tests lie anywhere."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((300, N_FEATURES)) < 0.7, rng.integers(0, 2, (300, N_FEATURES)), rng.normal(size=(300, 7)))
    y = rng.integers(0, 3, 300)
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(12, random_state=seed).fit(X, y)
    if kind == "boosted":
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(n_estimators=10, random_state=seed).fit(X, y > 0)
    X[rng.random(X.shape) < 0.1] = np.nan
    if kind == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=8, max_depth=5, n_jobs=1).fit(X, y)
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(
        n_estimators=8, min_child_samples=3, n_jobs=1, verbose=-1, zero_as_missing=kind == "zero as missing"
    ).fit(X, y)


@pytest.mark.parametrize("kind", ["forest", "boosted", "xgboost", "lightgbm", "zero as missing"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_the_grouped_model_scores_every_valid_row_as_the_model_does(kind: str, seed: int) -> None:
    model = tp.from_model(train(kind, seed))
    grouped = group_columns(model, [PURPOSE, HOUSING])
    X = valid_rows()
    rows = grouped.rows(X)
    assert not grouped.broken(X).any()
    assert np.array_equal(grouped.ensemble.scores(rows), model.scores(X))
    assert np.array_equal(grouped.ensemble.predict(rows), model.source_labels(X))
    assert np.array_equal(grouped.ungroup(rows), X)
    assert len(np.unique(rows, axis=0)) == len(X)


@pytest.mark.parametrize("kind", ["forest", "xgboost", "zero as missing"])
def test_broken_rows_have_codes_of_their_own_and_keep_their_labels(kind: str) -> None:
    model = tp.from_model(train(kind, 3))
    rng = np.random.default_rng(4)
    X = np.vstack((valid_rows()[::11], rng.choice([0.0, 1.0, 0.4, -1.0], (60, N_FEATURES))))
    if model.may_be_missing.any():
        X[rng.random(X.shape) < 0.05] = np.nan
    grouped = group_columns(model, [PURPOSE, HOUSING], X)
    members = X[:, PURPOSE.features], X[:, HOUSING.features]
    sums = [np.where(np.isin(own, (0, 1)), own, 9).sum(axis=1) for own in members]
    assert np.array_equal(grouped.broken(X), (sums[0] != 1) | (sums[1] > 1))
    rows = grouped.rows(X)
    assert np.array_equal(grouped.ensemble.scores(rows), model.scores(X))
    assert np.array_equal(grouped.ungroup(rows), X, equal_nan=True)


def test_the_columns_of_a_grouped_model() -> None:
    names = ["amount", "p_car", "p_radio", "h_own", "p_other", "age", "h_rent"]
    model = tp.from_model(train("xgboost", 0)).named(names)
    grouped = group_columns(model, [PURPOSE, HOUSING])
    assert [column.name for column in grouped.ensemble.columns] == ["amount", "purpose", "housing", "age"]
    assert grouped.ensemble.columns[1].values == ("p_car", "p_radio", "p_other")
    assert grouped.ensemble.columns[2].values == ("h_rent", "h_own", "(none)")
    assert grouped.columns == ((0,), (1, 2, 4), (6, 3), (5,)) and grouped.places == (1, 2)
    assert grouped.ensemble.n_nodes == model.n_nodes
    assert np.flatnonzero(~grouped.ensemble.may_be_missing).tolist() == [1, 2]
    assert grouped.ensemble.classes is model.classes and grouped.ensemble.rule is model.rule


def test_no_value_of_the_category_is_a_broken_one() -> None:
    model = tp.from_model(train("forest", 0))
    X = valid_rows()[:2]
    X[0, 1] = X[0, 2] = 1.0
    grouped = group_columns(model, [PURPOSE], X)
    assert grouped.rows(X)[:, 1].tolist() == [3.0, 0.0]
    ((_, ends),) = tp.Attacker({"purpose": tp.ANY}).bind(grouped.ensemble).ends
    assert ends.tolist() == [0.0, 1.0, 2.0]


def test_a_broken_row_that_was_not_given_is_refused() -> None:
    grouped = group_columns(tp.from_model(train("forest", 0)), [PURPOSE])
    with pytest.raises(InvalidInput, match=r"row 1 breaks the group 'purpose': its members are \[1.0, 0.5, 0.0\]"):
        grouped.rows(np.array([[0, 1, 0, 0, 0, 0, 0], [0, 1, 0.5, 0, 0, 0, 0]]))


def random_model(rng: np.random.Generator) -> tp.Ensemble:
    """Full trees of tests with several cuts, on numbers, a category in column 0, and members of groups."""
    words = Category(("x", "y", "z"), unseen=True)
    builder = EnsembleBuilder(n_features=N_FEATURES, classes=["a", "b"], handles_missing=True, categories={0: words})
    for _ in range(4):
        feature = [*rng.integers(0, N_FEATURES, 7).tolist(), *[LEAF] * 8]
        pieces = {}
        for node in range(7):
            n_cuts = int(rng.integers(1, 4))
            cuts = np.sort(rng.choice([-0.5, 0.0, 0.3, 0.5, 0.9, 1.0, 1.5, 2.0], n_cuts, replace=False))
            starts = bool(rng.random() < 0.5)
            pieces[node] = Pieces(tuple(cuts.tolist()), tuple(starts != (i % 2 == 1) for i in range(n_cuts + 1)))
        builder.add_tree(
            feature=feature,
            threshold=[0.0] * 15,
            left=[2 * node + 1 if node < 7 else LEAF for node in range(15)],
            right=[2 * node + 2 if node < 7 else LEAF for node in range(15)],
            scores=rng.integers(0, 99, (15, 2)),
            nan_left=rng.random(15) < 0.5,
            pieces=pieces,
        )
    return builder.build()


@pytest.mark.parametrize("seed", range(20))
def test_tests_with_several_cuts_categories_and_missing_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    X = np.vstack((valid_rows(), rng.choice([0.0, 1.0, 0.4, np.nan], (200, N_FEATURES))))
    X[:, 0] = rng.choice([0.0, 1.0, 2.0, 3.0, np.nan], len(X))
    X[:, 5] = rng.choice([-1.0, 0.0, 0.3, 0.4, 1.7, np.nan], len(X))
    grouped = group_columns(model, [PURPOSE, HOUSING], X)
    assert np.array_equal(grouped.ensemble.scores(grouped.rows(X)), model.scores(X))
    assert np.array_equal(grouped.ungroup(grouped.rows(X)), X, equal_nan=True)
    assert grouped.ensemble.n_nodes == model.n_nodes
    assert (grouped.ensemble.columns[0].name, grouped.ensemble.columns[0].values) == ("0", ("x", "y", "z"))


def single_test(test: Pieces | float, category: Category | None = None) -> tp.Ensemble:
    builder = EnsembleBuilder(n_features=2, classes=["left", "right"], categories={0: category} if category else None)
    builder.add_tree(
        feature=[0, LEAF, LEAF],
        threshold=[0.0 if isinstance(test, Pieces) else test, 0, 0],
        left=[1, LEAF, LEAF],
        right=[2, LEAF, LEAF],
        scores=[[0, 0], [1, 0], [0, 1]],
        pieces={0: test} if isinstance(test, Pieces) else None,
    )
    return builder.build()


@pytest.mark.parametrize(
    ("test", "labels"),
    [
        (0.5, ["right", "left", "left"]),
        (1.0, ["left", "left", "left"]),
        (-0.5, ["right", "right", "right"]),
        (Pieces((0.0, 0.5), (True, False, True)), ["left", "left", "left"]),
        (Pieces((-1.0, 0.0), (True, False, True)), ["left", "right", "right"]),
    ],
)
def test_every_kind_of_test_on_a_member(test: Pieces | float, labels: list[str]) -> None:
    grouped = group_columns(single_test(test), [Group((0, 1), "both", exactly=False)])
    assert grouped.ensemble.predict(np.array([[0.0], [1.0], [2.0]])).tolist() == labels
    assert grouped.ensemble.n_nodes == 3
    # What the tests do not tell apart shares a cell.
    assert len(set(grouped.ensemble.grid.cells_of(0, [0.0, 1.0, 2.0]).tolist())) == len(set(labels))


def test_truth_values_are_zeros_and_ones() -> None:
    model = single_test(Pieces.of_codes([True, False]), Category((False, True), dtype="bool"))
    grouped = group_columns(model, [Group((0, 1), "both")])
    assert grouped.ensemble.predict(grouped.rows(np.eye(2))).tolist() == ["right", "left"]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([Group((1, 2), "a"), Group((2, 3), "b")], "column 2 is in the groups 'a' and 'b'"),
        ([Group((1, 2), "0")], "the name '0' is taken"),
        ([Group((1, 2), "a"), Group((3, 4), "a")], "the name 'a' is taken"),
        ([Group((), "a")], "the group 'a' has no columns"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: list[Group], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        group_columns(tp.from_model(train("forest", 0)), groups)


def test_columns_that_cannot_be_zero_and_one_are_refused() -> None:
    with pytest.raises(InvalidInput, match="column 0 of the group 'both' is a category"):
        group_columns(single_test(0.5, Category(("no", "yes"))), [Group((0, 1), "both")])
    builder = EnsembleBuilder(classes=["a"], columns=[Column(None, 0.0, 1.0), Column(None, 0.0, 0.5)])
    builder.add_tree(feature=[LEAF], threshold=[0], left=[LEAF], right=[LEAF], scores=[[1]])
    with pytest.raises(InvalidInput, match="column 1 of the group 'both' must take 0 and 1; the model takes 0 to 0.5"):
        group_columns(builder.build(), [Group((0, 1), "both")])
