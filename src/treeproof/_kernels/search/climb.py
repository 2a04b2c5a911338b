"""Coordinate ascent: a point of a box that may be a counterexample, found without cutting the box."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.search.region import cheapest_cell
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import FULL, best_lead, clear_bits

NOWHERE = np.int64(-1)


@borrowing
def _lead_at(race, t, i, cut):
    """The lead that tree t gives the point of the features' cells if feature i is just above `cut` instead."""
    tree = race.trees[t]
    tree.trial = FULL
    for w in range(tree.words, tree.words + tree.extra):
        race.words[w].trial = FULL
    for j in range(tree.test, race.trees[t + 1].test):
        k = race.tree_tests[j]
        test, feature = race.tests[k], race.features[race.tests[k].feature]
        cell = cut + 1 if test.feature == i else np.int64(feature.cell)
        right = cell > test.cut
        if feature.mixed and (race.runs[k].after < cell if right else race.runs[k].before >= cell):
            continue  # another cut of the same test tells
        if tree.extra == 0:
            tree.trial &= test.right if right else test.left
        else:
            clear_bits(race, tree, test, right)
    return best_lead(race, tree)


@borrowing
def _best_move(search, race, region, i, lead):
    """(the largest lead that moving feature i alone leads to, its cell)."""
    feature = race.features[i]
    cells = region.ranges[feature.feature]
    search.now += 1
    run = lead
    # All tests of the feature on their left, then one after the other on their right.
    for k in range(feature.first_test, feature.end_test):
        t = np.int64(race.tests[k].tree)
        tree = race.trees[t]
        if tree.stamp != search.now:
            tree.stamp = search.now
            tree.trial_best = _lead_at(race, t, i, NOWHERE)
            run += tree.trial_best - tree.point
    best_lead, best_cell = lead, feature.cell
    k, end = np.int64(feature.first_test), np.int64(feature.end_test)
    low, last = np.int64(feature.low), np.int64(feature.high)
    while True:
        high = min(np.int64(race.tests[k].cut), last) if k < end else last
        if run > best_lead and low <= high:
            best_lead, best_cell = run, cheapest_cell(region, cells, low, high)
        if k >= end:
            return best_lead, best_cell
        cut = np.int64(race.tests[k].cut)
        while k < end and race.tests[k].cut == cut:
            t = np.int64(race.tests[k].tree)
            tree = race.trees[t]
            after = _lead_at(race, t, i, cut)
            run += after - tree.trial_best
            tree.trial_best = after
            k += 1
        low = max(np.int64(feature.low), cut + 1)


@borrowing
def _move(search, race, feature, cell):
    """Puts a feature of the point into another cell."""
    feature.cell = cell
    search.now += 1
    for k in range(feature.first_test, feature.end_test):
        t = np.int64(race.tests[k].tree)
        tree = race.trees[t]
        if tree.stamp != search.now:
            tree.stamp = search.now
            tree.point = _lead_at(race, t, NOWHERE, NOWHERE)


@borrowing
def climb(search, watch, race, region):
    """Coordinate ascent from the cheapest point of the box: moves one feature at a time to where the lead is largest.

    Where no price matters. The features' cells become those of the point; returns the lead there. If it is what was
    needed, the point is likely to be a counterexample.
    """
    n_features = race.features.shape[0]
    for i in range(n_features):
        feature = race.features[i]
        cells = region.ranges[feature.feature]
        feature.cell = cheapest_cell(region, cells, np.int64(feature.low), np.int64(feature.high))
    lead = search.constant
    for t in range(race.trees.shape[0] - 1):
        race.trees[t].point = _lead_at(race, t, NOWHERE, NOWHERE)
        lead += race.trees[t].point
    quiet, i = 0, 0
    while quiet < n_features and lead < max(search.needed, 1) and not is_over(watch):
        feature = race.features[i]
        lead, cell = _best_move(search, race, region, i, lead)
        quiet += 1
        if cell != feature.cell:
            _move(search, race, feature, cell)
            quiet = 0
        i = i + 1 if i + 1 < n_features else 0
    return lead
