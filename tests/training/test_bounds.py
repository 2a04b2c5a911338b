"""What training says about its rows holds: no attack does more, and exact verification never finds less."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeproof as tp
from tests.support.toys import blobs
from tests.support.training_attacks import ALIKE, Attacks, Small, cuts_of, random_small, walk
from treeproof.training import RobustBoostingClassifier, RobustForestClassifier, RobustTreeClassifier, _rows, boosting
from treeproof.training._columns import coded_frame

CRITERIA = ("treant", "groot")


# --- two scores of powers ----------------------------------------------------------------------------------------

CAP = 4.0
GRID = np.linspace(-CAP, CAP, 161)
A, B = np.meshgrid(GRID, GRID, indexing="ij")
WEIGHT = st.integers(0, 6).map(float) | st.floats(0, 1e3)
SIDE_BOUNDS = st.tuples(st.floats(-CAP, CAP), st.floats(-CAP, CAP)).map(sorted)


@settings(max_examples=200, deadline=None)
@given(st.tuples(*[WEIGHT] * 6), SIDE_BOUNDS, SIDE_BOUNDS, st.booleans())
def test_two_scores_of_least_loss_of_powers(weights: tuple[float, ...], left: list, right: list, free: bool) -> None:
    from treeproof._kernels.training.scores import POWERS, Side, solve_scores

    if free:
        left, right = [-CAP, CAP], [-CAP, CAP]
    if max(left[0], right[0]) > min(left[1], right[1]):
        right = left  # the node's own score always fits both sides
    a, b, loss = solve_scores(POWERS, Side(*weights[:2], *left), Side(*weights[2:4], *right), *weights[4:])
    assert left[0] <= a <= left[1] and right[0] <= b <= right[1]

    def loss_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left1, left0, right1, right0, both1, both0 = weights
        total = left1 * np.exp(-a) + left0 * np.exp(a) + right1 * np.exp(-b) + right0 * np.exp(b)
        return total + both1 * np.maximum(np.exp(-a), np.exp(-b)) + both0 * np.maximum(np.exp(a), np.exp(b))

    slack = 1e-11 * (1 + sum(weights))
    assert abs(loss - float(loss_of(np.array(a), np.array(b)))) <= slack
    assert loss <= loss_of(np.clip(A, *left), np.clip(B, *right)).min() + slack
    # Nor is there anything better a small step away.
    for da in (-1e-4, 0.0, 1e-4):
        for db in (-1e-4, 0.0, 1e-4):
            assert loss <= float(loss_of(np.clip(a + da, *left), np.clip(b + db, *right))) + slack


# --- one tree ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("first", [0, 6, 12])
def test_the_loss_of_a_tree_is_that_of_all_attacks(first: int, criterion: str, n_classes: int) -> None:
    """With more than two classes, invariants of different heads make it a bound."""
    for seed in range(first, first + 6):
        random = Random(4000 + seed)
        small = random_small(random, n_rows=10, n_classes=n_classes)
        weight = np.array([random.choice([1.0, 2.0, 0.3]) for _ in small.y])
        model = RobustTreeClassifier(small.attacker, epsilon=small.epsilon, criterion=criterion, max_depth=3)
        model.fit(small.X, small.y, weight)
        measured = _loss_under_attack(model, small, weight)
        assert measured <= model.loss_under_attack_ + 1e-9
        if n_classes == 2 or criterion == "groot":
            assert measured == pytest.approx(model.loss_under_attack_, abs=1e-9)


def _loss_under_attack(model: RobustTreeClassifier, small: Small, weight: np.ndarray) -> float:
    coded, _ = coded_frame(small.X)
    given = small.epsilon if isinstance(small.epsilon, dict) else dict.fromkeys("nm", small.epsilon or 0.0)
    alike = tuple(map(float, range(len(ALIKE))))
    sizes = [given.get("n", 0.0), (alike,) if "c" in given else 0.0, given.get("m", 0.0)]
    # A model that was trained without missing values does not take any, so nobody can make them either.
    attacks = Attacks(tp.from_model(model), small.attacker, sizes, cuts_of([model.tree_], 3))
    scores, losses = model.tree_.scores, []
    for x, label in zip(coded.to_numpy(dtype=float).tolist(), small.y.tolist(), strict=True):
        target = np.array([label]) if scores.shape[1] == 1 else np.eye(scores.shape[1])[label]
        leaves = {walk(model.tree_, attack.row) for attack in attacks.of(x, label)}
        losses.append(max(float(((target - scores[leaf]) ** 2).sum()) for leaf in leaves))
    return float(np.average(losses, weights=weight))


# --- what exact verification finds -------------------------------------------------------------------------------


def proved_by_verify(model: Any, small: Small) -> np.ndarray:
    result = tp.verify(model, small.X, small.y, small.attacker, epsilon=small.epsilon)
    outcomes = result.robustness_outcomes if small.epsilon is None else result.resilience_by_epsilon[0]
    assert (outcomes != tp.Outcome.UNKNOWN).all()
    return np.asarray(outcomes == tp.Outcome.PROVED)


@pytest.fixture
def leads(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """By how much rows are ahead under every attack, of every model that is fitted."""
    kept: list[np.ndarray] = []
    find = boosting._leads

    def keep(*given: Any) -> np.ndarray:
        kept.append(find(*given))
        return kept[-1]

    monkeypatch.setattr(boosting, "_leads", keep)
    return kept


@pytest.mark.parametrize("max_depth", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 8, 16])
def test_boosting_proves_nothing_that_verify_refutes(first: int, max_depth: int, leads: list[np.ndarray]) -> None:
    n_proved = 0
    for seed in range(first, first + 8):
        random = Random(5000 + seed)
        n_classes = random.choice([2, 2, 3])
        small = random_small(random, 14, n_classes, goal=True, groups=True, flat=random.random() < 0.5)
        weight = np.array([random.choice([1.0, 2.0, 0.3]) for _ in small.y])
        model = RobustBoostingClassifier(
            small.attacker,
            epsilon=small.epsilon,
            n_estimators=6,
            max_depth=max_depth,
            learning_rate=random.choice([0.3, 1.0]),
            loss=random.choice(["bounded", "logistic", "exponential"]),
            smoothing=random.choice([0.0, 0.01]),
            subsample=random.choice([1.0, 0.7]),
            max_bins=random.choice([1024, 4]),
            random_state=0,
        ).fit(small.X, small.y, weight)
        proved = proved_by_verify(model, small)
        claimed = leads[-1] > boosting.TIE
        assert not (claimed & ~proved).any()
        assert model.proved_robust_ == pytest.approx(np.average(claimed, weights=weight))
        n_proved += int(claimed.sum())
    assert n_proved >= 8


@pytest.mark.parametrize("max_depth", [1, 3])
def test_boosting_proves_nothing_that_verify_refutes_where_columns_share_bits(
    max_depth: int, leads: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    n_proved = 0
    for seed in range(12):
        monkeypatch.setattr(_rows, "MOST_BITS", 2 + seed % 4)
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 5, size=(40, 7)) / 4
        y = (X[:, 0] + X[:, 1] + X[:, 2] > 1.5).astype(int)
        costs, budget = ((1, 2), ([1, 1, 2, 2, 3, 3, 4], 4))[seed % 2]
        attacker = tp.Attacker((-0.3, 0.3), costs=costs, budget=budget)
        model = RobustBoostingClassifier(attacker, n_estimators=20, max_depth=max_depth, random_state=seed).fit(X, y)
        proved = tp.verify(model, X, y, attacker).robustness_outcomes == tp.Outcome.PROVED
        claimed = leads[-1] > boosting.TIE
        assert not (claimed & ~proved).any()
        n_proved += int(claimed.sum())
    assert n_proved >= 100


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_boosting_proves_nothing_that_verify_refutes_at_length(first: int, leads: list[np.ndarray]) -> None:
    for start in range(first, first + 100, 8):
        for max_depth in (1, 2, 4):
            test_boosting_proves_nothing_that_verify_refutes(1000 + start, max_depth, leads)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_of_a_tree_on_a_frame_proves_rows(criterion: str, n_classes: int) -> None:
    """A row that can be turned wrong loses 1/4 at least, with more than two classes 1/2."""
    for seed in range(8):
        small = random_small(Random(6000 + seed), 12, n_classes, goal=True, groups=True)
        model = RobustTreeClassifier(small.attacker, epsilon=small.epsilon, criterion=criterion, max_depth=3)
        proved = proved_by_verify(model.fit(small.X, small.y), small)
        assert proved.mean() >= 1 - (4 if n_classes == 2 else 2) * model.loss_under_attack_ - 1e-9


@pytest.mark.parametrize("max_depth", [1, 3])
@pytest.mark.parametrize(
    "attacker",
    [
        tp.Attacker.linf(0.3),
        tp.Attacker.l0(1),
        tp.Attacker((-0.5, 0.0), costs=[1, 2, 2, 3], budget=3),
        tp.Attacker((-1.0, 1.0), budget=0),
    ],
    ids=["linf", "l0", "budget", "nobody"],
)
def test_the_bound_of_boosting_is_near_the_truth(attacker: tp.Attacker, max_depth: int, leads: list) -> None:
    """It is never above, and exact for stumps with two classes."""
    X, y = blobs(2)
    model = RobustBoostingClassifier(attacker, n_estimators=15, max_depth=max_depth, learning_rate=0.3).fit(X, y)
    exact = tp.verify(model, X, y, attacker).robustness_outcomes == tp.Outcome.PROVED
    assert not ((leads[-1] > boosting.TIE) & ~exact).any()
    if max_depth == 1 or attacker.budget == 0:
        np.testing.assert_array_equal(leads[-1] > 0, exact)


def test_boosting_against_an_attacker_pays() -> None:
    X, y = blobs(2)
    attacker = tp.Attacker((-0.5, 0.5), budget=1)
    models = [
        RobustBoostingClassifier(trained, n_estimators=20, max_depth=2, learning_rate=0.3).fit(X, y)
        for trained in (attacker, tp.Attacker((0.0, 0.0)))
    ]
    robust = [float(tp.verify(model, X, y, attacker).robustness) for model in models]
    assert robust[0] > robust[1]
    assert models[0].proved_robust_ <= robust[0]


def test_rows_that_cannot_be_resilient_are_kept_robust() -> None:
    X, y = blobs(2)
    attacker, wide = tp.Attacker.linf(0.2), 2.0
    model = RobustBoostingClassifier(attacker, epsilon=wide, n_estimators=20, random_state=0).fit(X, y)
    assert model.proved_robust_ <= np.bincount(y).max() / len(y)
    alone = RobustBoostingClassifier(attacker, n_estimators=20, random_state=0).fit(X, y)
    robust = [float(tp.verify(one, X, y, attacker).robustness) for one in (model, alone)]
    assert robust[0] > 0.9 * robust[1] > np.bincount(y).max() / len(y)


def test_the_loss_of_boosting_is_that_of_its_margins(leads: list[np.ndarray]) -> None:
    X, y = blobs(2)
    weight = np.arange(1.0, len(y) + 1)
    for loss in ("bounded", "logistic", "exponential"):
        model = RobustBoostingClassifier(tp.Attacker.linf(0.2), n_estimators=5, loss=loss).fit(X, y, weight)
        over = np.exp(-leads[-1])
        lost = {"bounded": 2 - 2 / np.sqrt(1 + over), "logistic": np.log1p(over), "exponential": over}[loss]
        assert model.loss_under_attack_ == pytest.approx(np.average(lost, weights=weight))
        # Without attacks, scores are at least as good.
        plain = np.where(y == 1, 1, -1) * model.decision_function(X)
        assert (plain >= leads[-1] - 1e-9).all()


@pytest.mark.parametrize("select", ["robustness", "resilience"])
def test_a_forest_with_chosen_votes_reports_what_verify_says(select: str) -> None:
    X, y = blobs(2)
    attacker = tp.Attacker.linf(0.2)
    forest = RobustForestClassifier(
        attacker,
        n_estimators=5,
        max_depth=2,
        epsilon=0.05,
        select=select,
        max_features=1,
        voting="hard",
        random_state=0,
    ).fit(X, y)
    assert len(forest.votes_) == len(forest.estimators_) == 5
    assert forest.votes_.min() >= 0 and 1 <= forest.votes_.sum() <= 15
    counts = np.array([[np.sum(forest.votes_[p == label]) for label in (0, 1)] for p in _predictions(forest, X)])
    np.testing.assert_allclose(forest.predict_proba(X), counts / forest.votes_.sum())
    np.testing.assert_array_equal(forest.predict(X), forest.classes_[counts.argmax(axis=1)])
    assert 0 <= forest.validation_score_ <= 1


def _predictions(forest: RobustForestClassifier, X: np.ndarray) -> np.ndarray:
    return np.array([member.predict(X) for member in forest.estimators_]).T
