"""Where training thinks attacks bring rows, and what it makes of that, against lists of all attacks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

import treeproof as tp
from tests.support.training_attacks import ALIKE, Attacks, Small, cuts_of, random_small, walk
from treeproof.model.builder import blank_ensemble
from treeproof.training import RobustTreeClassifier, _rows
from treeproof.training._columns import coded_frame
from treeproof.training._grow import Grower, GrownTree, GrowthLimits
from treeproof.training._leaves import Leaves
from treeproof.training._rows import TrainingSet, _largest_sets
from treeproof.training._stumps import StumpMargins

CAP = 4.0


class Bound(NamedTuple):
    """Small data as training sees it, and what the book needs of it."""

    data: TrainingSet
    rows: np.ndarray
    sizes: list[Any]
    blank: Any
    attacker: tp.Attacker
    y: np.ndarray

    def attacks(self, cuts: list[list[float]]) -> Attacks:
        return Attacks(self.blank, self.attacker, self.sizes, cuts)


def bound(small: Small) -> Bound:
    data, _, _ = RobustTreeClassifier(small.attacker, epsilon=small.epsilon)._training_set(small.X, small.y, None)
    coded, categories = coded_frame(small.X)
    names = list(small.X.columns)
    blank = blank_ensemble(len(names), np.unique(small.y), names, categories=categories, handles_missing=True)
    given = small.epsilon if isinstance(small.epsilon, dict) else dict.fromkeys("nm", small.epsilon or 0.0)
    alike = tuple(map(float, range(len(ALIKE))))
    sizes = [given.get("n", 0.0), (alike,) if "c" in given else 0.0, given.get("m", 0.0)]
    return Bound(data, coded.to_numpy(dtype=float), sizes, blank, small.attacker, small.y)


def limits(**words: Any) -> GrowthLimits:
    known = {"max_depth": 3, "min_samples_split": 2, "min_samples_leaf": 1, "min_weight": 0.0, "max_features": 3}
    return GrowthLimits(**{**known, "cap": CAP, **words})


def grown(data: TrainingSet, weight: np.ndarray, seed: int = 0, **words: Any) -> GrownTree:
    return Grower(data, weight, limits(**words), np.random.RandomState(seed)).grow()


def unaware(data: TrainingSet) -> TrainingSet:
    """The same as if the attacker had no budget: trees that are grown on it do not mind where attacks lead."""
    return replace(data, rows=data.rows._replace(budget=0))


def random_weight(random: Random, y: np.ndarray) -> np.ndarray:
    """Of rows, some of them 0, but not all rows of a class."""
    return np.array([random.choice([1.0, 2.0, 0.3, 0.0]) if k > 1 else 1.0 for k in range(len(y))])


# --- the first split ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.02])
@pytest.mark.parametrize("seeds", [range(k, k + 4) for k in range(0, 20, 4)], ids=lambda seeds: f"from {seeds[0]}")
def test_the_first_split_of_powers_is_the_best_of_all(seeds: range, smoothing: float) -> None:
    n_splits = 0
    for seed in seeds:
        random = Random(seed)
        has_goal = seed % 3 == 0
        case = bound(random_small(random, goal=has_goal, never_free=has_goal))
        weight = random_weight(random, case.y)
        tree = grown(case.data, weight, max_depth=1, powers=True, smoothing=smoothing)
        more = smoothing * weight.sum()
        numbers, ordered, every = _losses_of_all_splits(case, weight, more)
        best = min(numbers + ordered + [_loss_of_one_leaf(case, weight, more)])
        assert tree.loss <= best + 1e-9
        # In which order a category is cut is a rule of thumb; no set of its values does better than the best of all.
        assert tree.loss >= min(numbers + every + [best]) - 1e-9
        n_splits += tree.feature[0] >= 0
    assert n_splits >= len(seeds) / 3


def _loss_of_one_leaf(case: Bound, weight: np.ndarray, more: float) -> float:
    ones, zeros = float(weight[case.y == 1].sum()) + more, float(weight[case.y == 0].sum()) + more
    score = np.linspace(-CAP, CAP, 80_001)
    return float((ones * np.exp(-score) + zeros * np.exp(score)).min()) - 2 * more


def _losses_of_all_splits(case: Bound, weight: np.ndarray, more: float) -> tuple[list[float], ...]:
    """The least losses: of splits of numbers, of categories in the order of their labels, and of all their sets."""
    cuts = [list(thresholds) for thresholds in case.data.thresholds]
    attacks = case.attacks(cuts)
    sums: dict[str, list[tuple[float, ...]]] = {"number": [], "ordered": [], "any": []}
    for f in range(3):
        # What each row can be: the column alone is attacked.
        limit = math.inf if case.attacker.budget is None else case.attacker.budget
        reached = [
            [value for value, price in attacks.options(f, x) if price <= limit] for x in case.rows[:, f].tolist()
        ]
        for kind, goes_left in _tests(case, f, cuts[f], weight):
            sides = [{goes_left(value) for value in values} for values in reached]
            sums[kind].append(_sums(sides, case.y, weight, more))
    least = {kind: _least_losses(np.array(some).reshape(-1, 6)) - 4 * more for kind, some in sums.items()}
    return tuple(least[kind].tolist() for kind in ("number", "ordered", "any"))


def _tests(case: Bound, f: int, cuts: list[float], weight: np.ndarray) -> list[tuple[str, Any]]:
    if f not in dict(case.blank.categories):
        with_all = [*cuts, math.inf]
        return [
            ("number", lambda value, cut=cut, nan=nan: nan if math.isnan(value) else value <= cut)
            for cut in with_all
            for nan in (False, True)
        ]
    names: list[Any] = [*map(float, range(dict(case.blank.categories)[f].n_codes)), None]
    own = [None if math.isnan(x) else x for x in case.rows[:, f]]

    def mean(name: Any) -> float:
        rows = [i for i, x in enumerate(own) if x == name and weight[i]] or list(range(len(own)))
        return float(np.average(case.y[rows], weights=weight[rows]))

    def test_of(some: Any) -> Any:
        return lambda value: (None if math.isnan(value) else value) in some

    order = sorted(names, key=mean)
    found = [("any", test_of(some)) for n in range(1, 5) for some in itertools.combinations(names, n)]
    options = [case.attacks([[]] * 3).options(f, x) for x in case.rows[:, f].tolist()]
    if all([price for _, price in some].count(0) == 1 for some in options):
        found += [("ordered", test_of(order[:n])) for n in range(1, 5)]
    return found


def _sums(sides: list[set[bool]], y: np.ndarray, weight: np.ndarray, more: float) -> tuple[float, ...]:
    """The weights of labels 1 and 0 that go left, right, and where the attacker wants."""
    parts = [{True}, {False}, {True, False}]
    return tuple(
        sum(w for side, label, w in zip(sides, y, weight, strict=True) if side == part and label == target)
        + (more if len(part) == 1 else 0.0)
        for part in parts
        for target in (1, 0)
    )


def _least_losses(sums: np.ndarray) -> np.ndarray:
    """The least loss of two scores for each row of sums: convex, so the first is found by thirds."""

    def best_other(a: np.ndarray) -> np.ndarray:
        left1, left0, right1, right0, both1, both0 = sums.T
        found = []
        for ones, zeros in ((right1, right0 + both0), (right1 + both1, right0)):
            with np.errstate(divide="ignore", invalid="ignore"):
                best = np.nan_to_num(0.5 * (np.log(ones) - np.log(zeros)), nan=0.0, posinf=CAP, neginf=-CAP)
            found.append(np.clip(best, -CAP, CAP))
        losses = [
            left1 * np.exp(-a)
            + left0 * np.exp(a)
            + right1 * np.exp(-b)
            + right0 * np.exp(b)
            + both1 * np.exp(-np.minimum(a, b))
            + both0 * np.exp(np.maximum(a, b))
            for b in (*found, a)
        ]
        return np.minimum.reduce(losses)

    low, high = np.full(len(sums), -CAP), np.full(len(sums), CAP)
    for _ in range(90):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        is_left = best_other(one) <= best_other(two)
        low, high = np.where(is_left, low, one), np.where(is_left, two, high)
    return np.minimum(best_other((low + high) / 2), np.minimum(best_other(low), best_other(high)))


# --- leaves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["treant", "groot", "powers"])
@pytest.mark.parametrize("first", range(0, 40, 8))
def test_leaves_of_rows_are_those_that_attacks_lead_to(first: int, criterion: str) -> None:
    several = 0
    for seed in range(first, first + 8):
        random = Random(1000 + seed)
        has_goal = seed % 3 == 0
        case = bound(random_small(random, goal=has_goal, never_free=has_goal))
        weight = np.array([random.choice([1.0, 2.0, 0.3]) for _ in case.y])
        data = unaware(case.data) if seed % 4 else case.data
        tree = grown(data, weight, powers=criterion == "powers", invariants=criterion == "treant")
        leaves = Leaves(tree, case.data)
        reached = leaves._reached
        for i, listed in enumerate(_by_leaf(case, tree)):
            here = slice(reached.start[i], reached.start[i + 1])
            own = leaves.nodes[reached.leaves[here]].tolist()
            assert sorted(own) == sorted(listed)
            several += len(own) > 1
            for leaf, paid in zip(own, reached.paid[here].tolist(), strict=True):
                assert paid == sum(int(case.data.bits[f]) for f in listed[leaf])
    assert several >= 8


def _by_leaf(case: Bound, tree: GrownTree) -> list[dict[int, set[int]]]:
    """For each row the leaves that attacks lead to, and the columns that all these attacks pay for."""
    attacks = case.attacks(cuts_of([tree], 3))
    found = []
    for x, label in zip(case.rows.tolist(), case.y.tolist(), strict=True):
        leaves: dict[int, set[int]] = {}
        for attack in attacks.of(x, label):
            paid = {f for f, price in enumerate(attack.prices) if price > 0}
            leaf = walk(tree, attack.row)
            leaves[leaf] = leaves.get(leaf, paid) & paid
        found.append(leaves)
    return found


@pytest.mark.parametrize("moves", [(-1.0, 1.0), tp.values(0.0, 1.0, 2.0)], ids=["range", "list"])
def test_leaves_do_not_depend_on_the_unit_of_costs(moves: Any) -> None:
    """The largest cost that there is, is a cost like others."""
    X, y = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0]] * 2), np.array([0, 1, 0, 1, 0, 1])
    found = []
    for unit in (1, 2**40):
        attacker = tp.Attacker({0: moves, 1: moves}, costs=unit, budget=unit)
        data, _, _ = RobustTreeClassifier(attacker)._training_set(X, y, None)
        tree = grown(unaware(data), np.arange(1.0, 7.0), max_features=2)
        assert tree.feature[0] >= 0
        found.append(Leaves(tree, data)._reached)
    np.testing.assert_array_equal(found[0].start, found[1].start)
    np.testing.assert_array_equal(found[0].leaves, found[1].leaves)
    assert len(found[0].leaves) > len(X)


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("first", range(0, 24, 8))
def test_refitted_scores_lose_no_more_and_no_leaf_can_be_bettered(first: int, powers: bool) -> None:
    gained = 0
    for seed in range(first, first + 8):
        random = Random(2000 + seed)
        case = bound(random_small(random, n_rows=12))
        weight = np.array([random.choice([1.0, 2.0, 0.3]) for _ in case.y])
        smoothing = random.choice([0.0, 0.01]) if powers else 0.0
        tree = grown(unaware(case.data), weight, powers=powers, smoothing=smoothing, max_depth=4)
        leaves, of_rows = Leaves(tree, case.data), _by_leaf(case, tree)
        terms = limits(powers=powers, smoothing=smoothing).terms(float(weight.sum()))
        number = {int(node): k for k, node in enumerate(leaves.nodes)}
        lists = [[number[leaf] for leaf in listed] for listed in of_rows]

        def loss(
            scores: np.ndarray, lists: Any = lists, y: Any = case.y, weight: Any = weight, more: float = terms.smoothing
        ) -> float:
            total = 0.0
            for mine, label, w in zip(lists, y, weight, strict=True):
                own = scores[mine]
                total += w * float((np.exp(own * (1 - 2 * label)) if powers else (label - own) ** 2).max())
            return total + more * float((np.exp(scores) + np.exp(-scores) - 2).sum() if powers else 0.0)

        wants = np.where(case.y == 1, 1.0, -1.0)
        before = now = tree.scores[leaves.nodes, 0]
        losses = [loss(now)]
        for _ in range(30):
            now = leaves.refitted(now, wants, weight, terms)
            losses.append(loss(now))
            assert losses[-1] <= losses[-2] + 1e-12
        gained += losses[-1] < losses[0] - 1e-9
        assert terms.low <= now.min() and now.max() <= terms.high
        assert len(now) == len(before)
        for leaf, score in itertools.product(range(len(now)), np.linspace(terms.low, terms.high, 81)):
            other = now.copy()
            other[leaf] = score
            assert loss(other) >= losses[-1] - 1e-6
    assert gained >= 3


# --- sets of columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_sets_that_are_paid_for_together_are_the_largest(seed: int) -> None:
    random = Random(seed)
    costs, budget = [random.randint(0, 4) for _ in range(random.randint(1, 7))], random.randint(0, 9)
    every = [set(some) for n in range(len(costs) + 1) for some in itertools.combinations(range(len(costs)), n)]
    paid = [some for some in every if sum(costs[f] for f in some) <= budget]
    largest = [some for some in paid if not any(some < other for other in paid)]
    found = _largest_sets(costs, budget, 64)
    assert found is not None
    assert sorted(found) == sorted(sum(1 << f for f in some) for some in largest)


def test_sets_are_found_in_no_time_or_given_up() -> None:
    assert set(_largest_sets([1] * 50, 49, 64) or ()) == {2**50 - 1 - 2**k for k in range(50)}
    assert _largest_sets([1] * 60, 30, 64) is None
    assert _largest_sets(list(range(1, 63)), 900, 64) is None


@pytest.mark.parametrize(("n_columns", "budget", "n_bits"), [(9, 2, 9), (30, 2, 10), (30, 2, 30), (80, 1, 62)])
def test_columns_share_bits_where_sets_would_be_many(n_columns: int, budget: int, n_bits: int) -> None:
    n_rows = 100_000 if n_bits == 10 else 12
    X, y = np.random.default_rng(0).uniform(size=(n_rows, n_columns)), np.arange(n_rows) % 2
    attacker = tp.Attacker((-0.1, 0.0), budget=budget)
    data, _, _ = RobustTreeClassifier(attacker, max_bins=4)._training_set(X, y, None)
    assert len(set(data.bits.tolist())) == n_bits
    assert len(data.paid_sets) == math.comb(n_bits, budget)
    every = np.flatnonzero(data.bits)
    assert len(every) == n_columns


# --- stumps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("first", range(0, 40, 8))
def test_margins_of_stumps_are_those_of_all_attacks(first: int, flat: bool) -> None:
    """Where a column has one cost; else they are bounds."""
    several_sets = 0
    for seed in range(first, first + 8):
        random = Random(3000 + seed)
        case = bound(random_small(random, flat=flat))
        stumps, wants, trees = _random_stumps(random, case.data, case.y)
        margins, exact = stumps.margins(), stumps.least()
        several_sets += margins.shape[1] > 1
        attacks = case.attacks(cuts_of(trees, 3))
        for i, x in enumerate(case.rows.tolist()):
            least = min(
                wants[i] * sum(tree.scores[walk(tree, attack.row), 0] for tree in trees)
                for attack in attacks.of(x, int(case.y[i]))
            )
            assert max(margins[i].min(), exact[i]) <= least + 1e-12
            if flat:
                assert exact[i] == pytest.approx(least, abs=1e-12)
    assert several_sets or first


def _random_stumps(random: Random, data: TrainingSet, y: np.ndarray) -> tuple[StumpMargins, np.ndarray, list[Any]]:
    """Stumps on random columns with random scores, and their margins."""
    wants = np.where(y == 1, 1.0, -1.0)
    stumps, trees = StumpMargins(data, wants), []
    for k in range(6):
        weight = np.array([random.choice([0.1, 1.0, 3.0]) for _ in y])
        tree = grown(unaware(data), weight, seed=k, max_depth=1, powers=True, max_features=1)
        tree.scores[:, 0] = [random.uniform(-1, 1) for _ in range(len(tree.scores))]
        stumps.add(tree)
        trees.append(tree)
    return stumps, wants, trees


@pytest.mark.parametrize(("costs", "budget"), [(1, 4), ([1, 2, 3, 1, 2, 3, 1, 2, 3], 9), (2, 9)])
def test_margins_of_stumps_with_many_sets_are_a_knapsack(
    costs: Any, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where columns share bits, which makes margins of sets bounds."""
    monkeypatch.setattr(_rows, "MOST_BITS", 6)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, size=(12, 9)) / 8
    y = np.arange(12) % 2
    attacker = tp.Attacker((-0.125, 0.125), costs=costs, budget=budget)
    data, _, _ = RobustTreeClassifier(attacker)._training_set(X, y, None)
    assert len(set(data.bits.tolist())) == 6
    stumps, wants, trees = StumpMargins(data, np.where(y == 1, 1.0, -1.0)), np.where(y == 1, 1.0, -1.0), []
    for k in range(30):
        tree = grown(unaware(data), rng.uniform(0.1, 1, size=12), seed=k, max_depth=1, powers=True, max_features=1)
        tree.scores[:, 0] = rng.uniform(-1, 1, size=len(tree.scores))
        stumps.add(tree)
        trees.append(tree)
    assert len({int(tree.feature[0]) for tree in trees}) >= 8

    def on_column(f: int, value: float, want: float) -> float:
        row = [math.nan] * f + [value] + [math.nan] * (8 - f)
        return want * sum(tree.scores[walk(tree, row), 0] for tree in trees if max(tree.feature[0], 0) == f)

    prices = np.broadcast_to(costs, 9)
    sets = [bits for bits in itertools.product((False, True), repeat=9) if prices @ np.array(bits) <= budget]
    for i, x in enumerate(X.tolist()):
        free = np.array([on_column(f, value, wants[i]) for f, value in enumerate(x)])
        ends = [np.linspace(value - 0.125, value + 0.125, 17) for value in x]
        paid = np.array([min(on_column(f, v, wants[i]) for v in ends[f]) for f in range(9)])
        least = min(float(np.where(bits, paid, free).sum()) for bits in sets)
        assert stumps.least()[i] == pytest.approx(least, abs=1e-12)
        assert stumps.margins()[i].min() <= least + 1e-12
