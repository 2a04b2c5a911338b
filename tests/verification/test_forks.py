"""Where attacks make a difference, against all cells, tree by tree."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

from tests.support import oracles
from tests.support.adapters import as_attacker
from tests.support.oracles import OracleAttacker
from tests.support.random_blocks import block
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule
from treeproof.threat.threat import Threat
from treeproof.verification import forks
from treeproof.verification.forks import Forks
from treeproof.verification.local_search import Local

Row = tuple[float, ...]


def leaf_scores(ensemble: Ensemble, root: int, x: Row) -> tuple[float, ...]:
    """What one tree adds for a row."""
    node = root
    while ensemble.feature[node] >= 0:
        value = x[ensemble.feature[node]]
        cuts_below = sum(value > cut for cut in oracles.cuts_of_test(ensemble, node))
        left = ensemble.nan_left[node] if math.isnan(value) else cuts_below % 2 == 0
        node = int((ensemble.left if left else ensemble.right)[node])
    return tuple(ensemble.leaf_scores[ensemble.leaf[node]].tolist())


def values_between(ensemble: Ensemble, f: int, low: float, high: float) -> list[float]:
    """One value of each cell from low to high."""
    if math.isnan(low):
        return [math.nan]
    return [low, *(up for e in oracles.thresholds(ensemble, f) if low < (up := math.nextafter(e, math.inf)) <= high)]


def points_where_attacks_matter(ensemble: Ensemble, threat: Threat, low: Row, high: Row) -> dict[Row, bool]:
    """For all values of what nobody moves: can moving the rest, within the hull of what is reached, change a tree?"""
    reach_low, reach_high = (end[0] for end in threat.reach(np.array([low]), np.array([high])))
    shared, moved = [], []
    for f in range(ensemble.n_features):
        if not threat.movable[f] or not reach_low[f] <= reach_high[f]:
            shared.append(values_between(ensemble, f, low[f], high[f]))
            moved.append([math.nan])
        else:
            shared.append([math.nan])
            moved.append(values_between(ensemble, f, min(low[f], reach_low[f]), max(high[f], reach_high[f])))
    found = {}
    for fixed in itertools.product(*shared):
        rows = [
            tuple(b if math.isnan(a) else a for a, b in zip(fixed, m, strict=True)) for m in itertools.product(*moved)
        ]
        trees = [{leaf_scores(ensemble, int(root), row) for row in rows} for root in ensemble.roots]
        found[fixed] = any(len(scores) > 1 for scores in trees)
    return found


@pytest.mark.parametrize("few_leaves", [0, 3, 2**20])
@pytest.mark.parametrize("part", range(4))
def test_boxes_keep_all_points_where_attacks_change_a_tree(
    part: int, few_leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forks, "FEW_LEAVES", few_leaves)
    left_out = kept = too_many = 0
    for number in range(25 * part, 25 * part + 25):
        asked, random = block(41, number), Random(number)
        ensemble, n = asked.ensemble, asked.ensemble.n_features
        fixed = [random.random() < 0.6 for _ in range(n)]
        intervals = tuple((0.0, 0.0) if is_fixed else (-1.0, 0.5) for is_fixed in fixed)
        threat = as_attacker(OracleAttacker(intervals, (1,) * n)).bind(ensemble)
        eps = np.where(fixed, random.choice((1.0, 3.0)), 0.2)
        rows = np.array(asked.rows[:3])
        low, high = threat.neighbourhood(rows, eps)
        found = Forks(Local(ensemble, threat), low, high, np.ones(len(rows), dtype=bool))
        box_low, box_high, some = found.shrink(np.arange(len(rows)), low, high)
        for row in range(len(rows)):
            expected = points_where_attacks_matter(ensemble, threat, tuple(low[row]), tuple(high[row]))
            if len(expected) > 200:
                continue
            points = np.array(list(expected))
            free = np.isnan(points) & ~np.isnan(low[row])
            ends = np.where(free, low[row], points), np.where(free, high[row], points)
            matters = found.shrink(np.full(len(points), row), *ends)[2]
            truth = np.array(list(expected.values()))
            assert (matters >= truth).all()
            too_many += int((matters > truth).sum())
            assert some[row] >= truth.any()
            inside = free | np.isnan(points) | ((box_low[row] <= points) & (points <= box_high[row]))
            assert inside[truth].all()
            left_out, kept = left_out + int((~truth).sum()), kept + int(truth.sum())
    assert min(left_out, kept) > 20
    # Some random trees have leaves that no row comes to, or tests with several cuts whose sides are no ranges.
    assert few_leaves < 1000 or too_many < 0.2 * left_out


def test_rows_with_a_missing_value_keep_their_forks() -> None:
    builder = EnsembleBuilder(
        n_features=2, classes=[0, 1], rule=ScoreRule(decision=Decision.CUT, cut=0.5), handles_missing=True
    )
    builder.add_tree(
        feature=[0, 1, LEAF, LEAF, LEAF], threshold=[0.0, 0.0, 0, 0, 0], left=[1, 3, LEAF, LEAF, LEAF],
        right=[2, 4, LEAF, LEAF, LEAF], scores=[0.0, 0.0, 0.0, 0.0, 1.0], nan_left=[True] * 5,
    )  # fmt: skip
    ensemble = builder.build()
    threat = as_attacker(OracleAttacker(((0.0, 0.0), (-1.0, 1.0)), (1, 1))).bind(ensemble)
    low, high = threat.neighbourhood(np.array([[math.nan, 0.0], [0.0, 0.0], [2.0, 0.0]]), np.array([1.0, 0.0]))
    found = Forks(Local(ensemble, threat), low, high, np.ones(3, dtype=bool))
    box_low, box_high, some = found.shrink(np.arange(3), low, high)
    assert some.tolist() == [True, True, False]
    assert np.array_equal(box_low[:2], low[:2], equal_nan=True)
    assert np.array_equal(box_high[:2], [[math.nan, 0.0], [0.0, 0.0]], equal_nan=True)


def test_missing_values_come_where_no_number_does() -> None:
    """Numbers above 0 are not below -1, but a missing value goes right at the one test and left at the other."""
    builder = EnsembleBuilder(
        n_features=2, classes=[0, 1], rule=ScoreRule(decision=Decision.CUT, cut=0.5), handles_missing=True
    )
    builder.add_tree(
        feature=[1, LEAF, 1, 0, LEAF, LEAF, LEAF], threshold=[0.0, 0, -1.0, 0.0, 0, 0, 0],
        left=[1, LEAF, 3, 5, LEAF, LEAF, LEAF], right=[2, LEAF, 4, 6, LEAF, LEAF, LEAF],
        scores=[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], nan_left=[False, False, True, True, False, False, False],
    )  # fmt: skip
    ensemble = builder.build()
    threat = as_attacker(OracleAttacker(((-1.0, 1.0), (0.0, 0.0)), (1, 1))).bind(ensemble)
    low, high = threat.neighbourhood(np.array([[0.0, math.nan], [0.0, 0.5]]), np.array([0.0, 1.0]))
    found = Forks(Local(ensemble, threat), low, high, np.ones(2, dtype=bool))
    assert found.shrink(np.arange(2), low, high)[2].tolist() == [True, False]
