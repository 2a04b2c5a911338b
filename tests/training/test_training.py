"""Robust training against the book: the best split, the best scores, and a loss under attack that holds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.oracles import OracleAttacker
from tests.support.strategies import attackers, pick
from tests.support.toys import blobs
from tests.support.training_oracle import A, B, Book, worst_loss
from treeproof.training import RobustBoostingClassifier, RobustForestClassifier, RobustTreeClassifier
from treeproof.training._grow import Grower
from treeproof.training._settings import limits_of

VALUES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, -0.7, 1e16, 5e-324)
DISTANCES = (0.1, 0.2, 0.3, 0.15, 0.5)
MILD = ((-0.1, 0.0), (0.0, 0.1), (-0.1, 0.1), (-0.2, 0.0), (-0.15, 0.15), (0.0, 0.0), (0.1, 0.2), (-0.3, -0.2))
"""Intervals that leave something to learn from rows 0.1 apart."""
CRITERIA = ("treant", "groot")

SLOW = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


class Sample(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    attacker: OracleAttacker
    n_classes: int
    weight: np.ndarray
    eps: float = 0.0


@st.composite
def samples(draw: st.DrawFn, max_rows: int, max_features: int = 2) -> Sample:
    """A few rows with many equal values and labels 0, 1, …, all present; an attacker with costs and a budget."""
    n_features = draw(st.integers(1, max_features))
    n_classes = draw(pick(2, 2, 2, 3))
    n = draw(st.integers(n_classes + 1, max_rows))
    X = np.array(draw(st.lists(st.tuples(*[pick(*VALUES)] * n_features), min_size=n, max_size=n)))
    y = np.array([*range(n_classes), *draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))][:n])
    if draw(pick(True, True, True, False)):
        intervals, costs = ([draw(pick(*pool)) for _ in range(n_features)] for pool in (MILD, (1, 1, 2, 0)))
        attacker = OracleAttacker(tuple(intervals), tuple(costs), draw(pick(1, 1, 2, None)))
    else:
        attacker = draw(attackers(n_features, distances=[DISTANCES] * n_features).filter(lambda a: a.p is None))
    weight = np.array(draw(st.lists(pick(1.0, 1.0, 2.0, 0.3, 1e-3, 1e6), min_size=n, max_size=n)))
    return Sample(X, y, attacker, n_classes, weight, draw(pick(0.0, 0.0, 0.05, 0.1, 5e-324)))


def fitted(sample: Sample, weight: np.ndarray | None = None, **settings: object) -> RobustTreeClassifier:
    return RobustTreeClassifier(as_attacker(sample.attacker), epsilon=sample.eps, **settings).fit(
        sample.X, sample.y, weight
    )


# --- splits and scores -------------------------------------------------------------------------------------------


@SLOW
@given(samples(6), pick(1, 2, 3, 3), pick(1, 1, 2), pick(*CRITERIA, "treant"))
def test_every_split_is_the_best_of_all_thresholds_and_scores(
    sample: Sample, max_depth: int, min_leaf: int, criterion: str
) -> None:
    held_against_the_book(sample, max_depth, min_leaf, criterion)


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "criterion"), [(2, "treant"), (2, "groot"), (3, "treant"), (3, "groot")])
def test_deep_trees_on_six_rows_go_by_the_book(n_classes: int, criterion: str) -> None:
    """Seeded, so that it is certain how many splits and invariants were looked at."""
    rng = np.random.default_rng(0)
    splits = invariants = 0
    for _ in range(200):
        X = rng.permutation(11)[:6].reshape(-1, 1) / 10 if rng.random() < 0.3 else rng.integers(0, 11, (6, 2)) / 10
        width = X.shape[1]
        attacker = OracleAttacker(
            tuple(MILD[i] for i in rng.integers(len(MILD), size=width)),
            tuple(int(c) for c in rng.integers(1, 3, size=width)),
            int(rng.integers(1, 4)),
        )
        y = rng.permutation(np.arange(6) % n_classes)
        sample = Sample(X, y, attacker, n_classes, np.ones(6), float(rng.choice([0.0, 0.0, 0.04])))
        book = held_against_the_book(sample, 4, 1, criterion)
        splits, invariants = splits + book.splits, invariants + book.invariants_met
    assert splits >= 400
    assert invariants >= (700 if criterion == "treant" else 0)


def held_against_the_book(sample: Sample, max_depth: int, min_leaf: int, criterion: str) -> Book:
    """The tree as it is grown, before leaves without invariants are scored again."""
    model = RobustTreeClassifier(
        as_attacker(sample.attacker),
        epsilon=sample.eps,
        max_depth=max_depth,
        min_samples_leaf=min_leaf,
        criterion=criterion,
    )
    data, weight, _ = model._training_set(sample.X, sample.y, None)
    limits = limits_of(model, len(sample.y), data.n_features)
    tree = Grower(data, weight, limits, np.random.RandomState(0)).grow()
    book = Book(tree, sample.n_classes, max_depth, min_leaf, criterion == "treant")
    book.check(book.start(sample.X, sample.y.tolist(), sample.attacker, sample.eps))
    return book


WEIGHT = st.integers(0, 6).map(float) | st.floats(0, 1e3)
SIDE_BOUNDS = st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted)


@settings(max_examples=400, deadline=None)
@given(st.tuples(*[WEIGHT] * 6), SIDE_BOUNDS, SIDE_BOUNDS, st.booleans())
def test_two_scores_of_least_loss(weights: tuple[float, ...], left: list, right: list, free: bool) -> None:
    from treeproof._kernels.training.scores import SQUARES, Side, solve_scores

    if free:
        left, right = [0.0, 1.0], [0.0, 1.0]
    if max(left[0], right[0]) > min(left[1], right[1]):
        right = left  # the node's own score always fits both sides
    a, b, loss = solve_scores(SQUARES, Side(*weights[:2], *left), Side(*weights[2:4], *right), *weights[4:])
    assert left[0] <= a <= left[1] and right[0] <= b <= right[1]

    def loss_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left1, left0, right1, right0, both1, both0 = weights
        total = left1 * (1 - a) ** 2 + left0 * a**2 + right1 * (1 - b) ** 2 + right0 * b**2
        return total + both1 * np.maximum((1 - a) ** 2, (1 - b) ** 2) + both0 * np.maximum(a**2, b**2)

    slack = 1e-12 * (1 + sum(weights))
    assert abs(loss - float(loss_of(np.array(a), np.array(b)))) <= slack
    everywhere = loss_of(np.clip(A, *left), np.clip(B, *right))
    assert loss <= everywhere.min() + slack
    # Nor is there anything better a small step away.
    for da in (-1e-4, 0.0, 1e-4):
        for db in (-1e-4, 0.0, 1e-4):
            assert loss <= float(loss_of(np.clip(a + da, *left), np.clip(b + db, *right))) + slack


def test_a_threshold_lies_in_the_middle_of_what_splits_alike() -> None:
    # Row 1 reaches down to 0.7, row 0 stays at 0.1: everything from 0.1 to just below 0.7 parts them.
    tree = RobustTreeClassifier(tp.Attacker((-0.2, 0.0)), max_depth=1).fit([[0.1], [0.9]], [0, 1])
    assert tree.tree_.threshold[0] == pytest.approx((0.1 + 0.7) / 2)
    assert tree.loss_under_attack_ == 0


# --- the loss under attack ---------------------------------------------------------------------------------------


@SLOW
@given(samples(12, 3), pick(1, 2, 3, None), pick(*CRITERIA), st.booleans())
def test_reported_loss_is_never_exceeded(sample: Sample, max_depth: int | None, criterion: str, weighted: bool) -> None:
    weight = sample.weight if weighted else np.ones(len(sample.X))
    model = fitted(sample, weight, max_depth=max_depth, criterion=criterion)
    losses = [
        worst_loss(model.tree_, sample.n_classes, sample.attacker, tuple(x), int(label), sample.eps)
        for x, label in zip(sample.X.tolist(), sample.y, strict=True)
    ]
    measured = float(np.average(losses, weights=weight))
    assert measured <= model.loss_under_attack_ + 1e-9
    if sample.n_classes == 2 or criterion == "groot":
        assert measured == pytest.approx(model.loss_under_attack_, abs=1e-9)


@SLOW
@given(samples(12, 3), pick(1, 3, None), pick(*CRITERIA))
def test_the_loss_proves_rows_robust_and_resilient(sample: Sample, max_depth: int | None, criterion: str) -> None:
    """A row that can be turned wrong loses 1/4 at least, with more than two classes 1/2."""
    model = fitted(sample, max_depth=max_depth, criterion=criterion)
    result = tp.verify(model, sample.X, sample.y, as_attacker(sample.attacker), epsilon=sample.eps)
    assert result.resilience is not None and result.resilience.exact
    factor = 4 if sample.n_classes == 2 else 2
    assert float(result.resilience) >= 1 - factor * model.loss_under_attack_ - 1e-9


@settings(SLOW, max_examples=50)
@given(samples(10, 3), pick(1, 2, 3), pick("bounded", "logistic", "exponential"))
def test_boosting_proves_no_more_than_verify(sample: Sample, max_depth: int, loss: str) -> None:
    attacker = as_attacker(sample.attacker)
    model = RobustBoostingClassifier(
        attacker, epsilon=sample.eps, n_estimators=4, learning_rate=0.7, max_depth=max_depth, loss=loss, random_state=0
    ).fit(sample.X, sample.y)
    result = tp.verify(model, sample.X, sample.y, attacker, epsilon=sample.eps)
    assert result.resilience is not None and result.resilience.exact
    assert float(result.resilience) >= model.proved_robust_ - 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("attacker", [tp.Attacker.linf(0.3), tp.Attacker((-0.4, 0.0), budget=1), tp.Attacker.l0(1)])
def test_training_against_an_attacker_pays(attacker: tp.Attacker, n_classes: int) -> None:
    """More rows hold under attack than with a tree that was trained without one, and the bound holds."""
    X, y = blobs(n_classes)
    robust = RobustTreeClassifier(attacker, max_depth=4).fit(X, y)
    plain = RobustTreeClassifier(tp.Attacker((0.0, 0.0)), max_depth=4).fit(X, y)
    r = [float(tp.verify(model, X, y, attacker).robustness) for model in (robust, plain)]
    assert r[0] >= r[1]
    assert r[0] >= 1 - (4 if n_classes == 2 else 2) * robust.loss_under_attack_


def test_without_an_attacker_it_is_plain_regression_of_classes() -> None:
    """Gini impurity and squared loss order splits alike, so scikit-learn's tree is the same up to ties."""
    from sklearn.tree import DecisionTreeClassifier

    X, y = blobs(2)
    ours = RobustTreeClassifier(tp.Attacker((0.0, 0.0)), max_depth=4).fit(X, y)
    theirs = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)


def test_training_with_a_neighbourhood_pays_in_resilience() -> None:
    """Whole numbers, moves by 0.7, noise of 0.3: no threshold between two neighbours withstands both."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 10, size=(300, 3)).astype(float)
    y = (X[:, 0] + 3 * rng.normal(size=300) > 5).astype(int)
    attacker = tp.Attacker((-0.7, 0.0), budget=1)
    plain, near = (RobustTreeClassifier(attacker, max_depth=4, epsilon=eps).fit(X, y) for eps in (None, 0.3))
    resilience = [float(tp.verify(model, X, y, attacker, epsilon=0.3).resilience) for model in (plain, near)]
    assert resilience[1] > resilience[0]
    assert resilience[1] >= 1 - 4 * near.loss_under_attack_


# --- costs and budget --------------------------------------------------------------------------------------------


def test_a_feature_is_paid_for_once() -> None:
    """Two splits on one feature cost one payment: the second move of the same feature is free."""
    attacker = OracleAttacker(((-1.0, 1.0),), (1,), 1)
    X = np.array([[0.0], [0.5], [1.0], [1.5], [2.0], [2.5]])
    y = np.array([0, 1, 0, 1, 0, 1])
    model = RobustTreeClassifier(as_attacker(attacker)).fit(X, y)
    losses = [worst_loss(model.tree_, 2, attacker, tuple(x), int(label)) for x, label in zip(X, y, strict=True)]
    assert np.mean(losses) == pytest.approx(model.loss_under_attack_)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_larger_budget_never_helps_the_first_split(criterion: str) -> None:
    X, y = blobs(2)
    losses = [
        RobustTreeClassifier(
            tp.Attacker((-0.5, 0.5), costs=[1, 2, 1, 2], budget=budget), max_depth=1, criterion=criterion
        )
        .fit(X, y)
        .loss_under_attack_
        for budget in (0, 1, 2, None)
    ]
    assert losses == sorted(losses)
    assert losses[0] < losses[-1]


def test_a_domain_limits_the_attacker() -> None:
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    free = RobustTreeClassifier(tp.Attacker((-2.0, 2.0))).fit(X, y)
    kept = RobustTreeClassifier(tp.Attacker((-2.0, 2.0), domain=(1.0, 3.0))).fit([[1.0], [3.0]], y)
    assert free.loss_under_attack_ == kept.loss_under_attack_ == 0.25
    split = RobustTreeClassifier(tp.Attacker({0: (-2.0, 0.0)}, domain={0: (0.0, 1.0)}, budget=0)).fit(X, y)
    assert split.loss_under_attack_ == 0
    with pytest.raises(tp.InvalidInput, match="row 0, column 0: 0.0 lies outside the domain"):
        RobustTreeClassifier(tp.Attacker((-2.0, 2.0), domain=(1.0, 3.0))).fit(X, y)


# --- forests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
def test_forests_are_the_same_for_every_number_of_jobs(criterion: str) -> None:
    X, y = blobs(3)
    attacker = tp.Attacker.linf(0.2)
    forests = [
        RobustForestClassifier(
            attacker, n_estimators=7, max_depth=3, max_features=2, n_jobs=jobs, random_state=5, criterion=criterion
        ).fit(X, y)
        for jobs in (1, 2, 4)
    ]
    for other in forests[1:]:
        for a, b in zip(forests[0].estimators_, other.estimators_, strict=True):
            np.testing.assert_array_equal(a.tree_.threshold, b.tree_.threshold)
            np.testing.assert_array_equal(a.tree_.scores, b.tree_.scores)
    again = RobustForestClassifier(attacker, n_estimators=7, max_depth=3, max_features=2, random_state=6).fit(X, y)
    assert any(
        len(a.tree_.threshold) != len(b.tree_.threshold) or (a.tree_.threshold != b.tree_.threshold).any()
        for a, b in zip(forests[0].estimators_, again.estimators_, strict=True)
    )


@pytest.mark.parametrize("voting", ["soft", "hard"])
def test_a_forest_votes_as_it_was_trained_to(voting: str) -> None:
    X, y = blobs(3)
    labels = np.array(["a", "b", "c"])[y]
    settings = {"n_estimators": 4, "max_depth": 2, "random_state": 0, "voting": voting}
    forest = RobustForestClassifier(tp.Attacker.linf(0.1), **settings).fit(X, labels)
    if voting == "hard":
        votes = np.array([member.predict(X) for member in forest.estimators_])
        counts = np.array([(votes == label).sum(axis=0) for label in forest.classes_]).T
    else:
        counts = np.sum([member.predict_proba(X) for member in forest.estimators_], axis=0)
    np.testing.assert_array_equal(forest.predict(X), forest.classes_[counts.argmax(axis=1)])
    np.testing.assert_allclose(forest.predict_proba(X), counts / 4, rtol=1e-12)
    other = {"soft": "hard", "hard": "soft"}[voting]
    with pytest.raises(tp.InvalidInput, match=f"was trained with voting='{voting}', which is how it votes"):
        tp.from_model(forest, voting=other)
    assert tp.from_model(forest, voting=voting).n_trees == 4
    with pytest.raises(tp.InvalidInput, match="voting must be 'soft' or 'hard', got 'loud'"):
        RobustForestClassifier(tp.Attacker.linf(0.1), voting="loud").fit(X, y)


def test_a_shared_budget_lets_each_tree_fear_some_columns_of_each_row() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 12)) + np.where(y, 0.8, -0.8)[:, None]
    attacker = tp.Attacker((-3.0, 3.0), budget=1)
    settings = {"n_estimators": 30, "max_depth": 4, "random_state": 0}
    forests = [RobustForestClassifier(attacker, shared_budget=share, **settings).fit(X, y) for share in (True, False)]
    shared, each = (float(tp.verify(forest, X, y, attacker).robustness) for forest in forests)
    assert shared > each + 0.2
    with pytest.raises(tp.InvalidInput, match="shared_budget must be True or False, got 1"):
        RobustForestClassifier(attacker, shared_budget=1).fit(X, y)
    # Without a budget there is nothing to share.
    alike = [
        RobustForestClassifier(tp.Attacker.linf(0.1), shared_budget=b, **settings).fit(X, y) for b in (True, False)
    ]
    np.testing.assert_array_equal(*(forest.predict_proba(X) for forest in alike))


def test_without_bootstrap_and_with_all_features_every_tree_is_the_tree() -> None:
    X, y = blobs(2)
    attacker = tp.Attacker((-0.3, 0.0), budget=1)
    settings = {"max_depth": 3, "criterion": "treant"}
    forest = RobustForestClassifier(
        attacker, n_estimators=3, bootstrap=False, max_features=None, shared_budget=False, **settings
    ).fit(X, y)
    tree = RobustTreeClassifier(attacker, **settings).fit(X, y)
    for member in forest.estimators_:
        np.testing.assert_array_equal(member.tree_.threshold, tree.tree_.threshold)
        assert member.loss_under_attack_ == tree.loss_under_attack_


def test_a_forest_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = blobs(2)
    RobustForestClassifier(tp.Attacker.linf(0.1), n_estimators=3, max_depth=1, progress=True).fit(X, y)
    shown = capsys.readouterr()
    assert "growing trees" in shown.err and "3 of 3" in shown.err
    assert shown.out == ""


def test_max_features_goes_on_until_a_split_gains() -> None:
    """Three columns of noise that never vary: with one feature a split, the only useful one is still found."""
    y = np.arange(40) % 2
    X = np.zeros((40, 4))
    X[:, 2] = y
    for seed in range(5):
        tree = RobustTreeClassifier(tp.Attacker.linf(0.1), max_features=1, random_state=seed).fit(X, y)
        assert tree.tree_.feature[0] == 2 and tree.loss_under_attack_ == 0


def test_infinite_reach_leaves_nothing_to_split() -> None:
    X, y = blobs(2)
    tree = RobustTreeClassifier(tp.Attacker((-math.inf, math.inf))).fit(X, y)
    assert tree.get_n_leaves() == 1 and tree.get_depth() == 0
    assert tree.loss_under_attack_ == pytest.approx(0.25)
