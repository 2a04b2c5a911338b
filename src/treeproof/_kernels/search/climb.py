"""Coordinate ascent: a point of a box that may be a counterexample, found without cutting the box."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.search.region import cheapest_cell, price_of
from treeproof._kernels.search.trial import FULL, IMPOSSIBLE, best_lead, clear_bits

NOWHERE = np.int64(-1)


@borrowing
def _lead_at(race, t, i, cut):
    """The lead that tree t gives the point of the features' cells if feature i is just above `cut` instead."""
    tree = race.trees[t]
    tree.trial = FULL
    for w in range(tree.words, tree.words + tree.extra):
        race.words[w].trial = FULL
    for j in range(tree.test, race.trees[t + 1].test):
        test = race.tests[race.tree_tests[j]]
        right = cut >= test.cut if test.feature == i else race.features[test.feature].cell > test.cut
        if tree.extra == 0:
            tree.trial &= test.right if right else test.left
        else:
            clear_bits(race, tree, test, right)
    return best_lead(race, tree)


@borrowing
def _best_move(search, race, region, i, lead, others):
    """(the largest lead that moving feature i alone leads to, its cell); `others` is what the other features cost."""
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
            cell = cheapest_cell(region, cells, low, high)
            if not region.limited or others + price_of(region, cells, cell) <= region.budget - search.elsewhere:
                best_lead, best_cell = run, cell
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
def climb(search, race, region):
    """Coordinate ascent from the cheapest point of the box: moves one feature at a time to where the lead is largest.

    The features' cells become those of the point; returns the lead there. If it is what was needed, the point is likely
    to be a counterexample.
    """
    n_features, spent = race.features.shape[0], 0.0
    for i in range(n_features):
        feature = race.features[i]
        cells = region.ranges[feature.feature]
        feature.cell = cheapest_cell(region, cells, np.int64(feature.low), np.int64(feature.high))
        if region.limited:
            spent += price_of(region, cells, feature.cell)
    if region.limited and spent > region.budget - search.elsewhere:  # moves that cannot all be paid for
        return IMPOSSIBLE
    lead = search.constant
    for t in range(race.trees.shape[0] - 1):
        race.trees[t].point = _lead_at(race, t, NOWHERE, NOWHERE)
        lead += race.trees[t].point
    quiet, i = 0, 0
    while quiet < n_features and lead < max(search.needed, 1):
        feature = race.features[i]
        cells = region.ranges[feature.feature]
        own_price = price_of(region, cells, feature.cell) if region.limited else 0.0
        lead, cell = _best_move(search, race, region, i, lead, spent - own_price)
        quiet += 1
        if cell != feature.cell:
            if region.limited:
                spent += price_of(region, cells, cell) - own_price
            _move(search, race, feature, cell)
            quiet = 0
        i = i + 1 if i + 1 < n_features else 0
    return lead
