"""A tighter bound for a race: value is shifted between trees until their wishes agree.

The sum of best leaves lets every tree choose its own cell of a feature. Give each tree t and feature i a share
u(t, i, s) per segment s of the feature (between two neighbouring cuts), with shares that add up to at most what the
budget takes back there. A leaf's value plus the best shares within its ranges is then still a bound for the tree, and
the sum over trees a bound for the race, in any box. `balanced` lowers it: feature by feature, every tree's best value
with the feature in segment s is replaced by the mean over the trees. Budgets take part by a rate: a cell of price p
costs rate * p, and rate * budget is added once.

All numbers are whole, in units of their own; every rounding raises the bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import inner
from treeproof._kernels.search.race import Race, sort_down
from treeproof._kernels.search.region import least_price

# No leaf: below every sum of shares, since shares stay within FARTHEST of 0.
NONE = np.int64(-(2**61))
FARTHEST = np.int64(2**44)
UNITS = 2.0**38
MOST_GOAL = 2.0**56
RATES = 12
SWEEPS = 30
# Above it, as for budgets near the smallest double, products are not safe from overflow.
MOST_RATE = 2.0**900


class Layout(NamedTuple):
    """Where shares, wishes and ranges of a race are kept; built by `_layout`.

    Features are cut into segments by all their tests: feature i has the segments `segment_first[i]` to
    `segment_first[i + 1]`. A pair is a tree with a feature that it tests: tree t has the pairs `pair_first[t]` on,
    `pair_tree` is the way back, feature i has the pairs `by_feature[feature_pairs[i]:feature_pairs[i + 1]]`. A pair's
    shares, one per segment, start at `slot`; its tree's own tests cut the feature into pieces, `piece_end` is the last
    segment of each from `piece_first[p]` on. The pieces that leaf r of tree t allows in the tree's q-th feature are
    `low` to `high` at `entry_first[t] + r * (number of pairs of t) + q`.
    """

    segment_first: Any
    feature_pairs: Any
    by_feature: Any
    pair_tree: Any
    pair_first: Any
    slot: Any
    piece_first: Any
    piece_end: Any
    entry_first: Any
    low: Any
    high: Any


@inner
def _bit(head, more, at, r):
    """Bit r of a mask whose first word is `head` and whose others start at more[at]."""
    w = r >> 6
    bits = head if w == 0 else more[at + w - 1]
    return (bits >> np.uint64(r & 63)) & np.uint64(1) != 0


@inner
def _segments(test_cut, feature_first):
    """Per feature the first of its segments, and per test the last segment on its left."""
    n = feature_first.shape[0] - 1
    first = np.zeros(n + 1, np.int32)
    test_segment = np.empty(test_cut.shape[0], np.int32)
    for i in range(n):
        segment = -1
        for k in range(feature_first[i], feature_first[i + 1]):
            if k == feature_first[i] or test_cut[k] != test_cut[k - 1]:
                segment += 1
            test_segment[k] = segment
        first[i + 1] = first[i] + segment + 2
    return first, test_segment


@inner
def _pairs(tree_first, tree_test, test_feature, n_features):
    """The (tree, feature) pairs with a test, tree after tree: pair_first (n_trees + 1,), pair_feature."""
    n_trees = tree_first.shape[0] - 1
    pair_first = np.zeros(n_trees + 1, np.int32)
    pair_feature = np.empty(tree_test.shape[0], np.int32)
    seen = np.full(n_features, -1, np.int32)
    n = 0
    for t in range(n_trees):
        for j in range(tree_first[t], tree_first[t + 1]):
            i = test_feature[tree_test[j]]
            if seen[i] != t:
                seen[i] = t
                pair_feature[n] = i
                n += 1
        pair_first[t + 1] = n
    return pair_first, pair_feature[:n]


@inner
def _pieces(tree_first, tree_test, test_feature, test_segment, segment_first, pair_first, pair_feature):
    """Per pair the pieces into which the tree's own tests cut the feature: where they start, and their last segment."""
    n_trees = tree_first.shape[0] - 1
    piece_first = np.empty(pair_feature.shape[0] + 1, np.int32)
    piece_end = np.empty(tree_test.shape[0] + pair_feature.shape[0], np.int32)
    n = 0
    for t in range(n_trees):
        for p in range(pair_first[t], pair_first[t + 1]):
            i = pair_feature[p]
            piece_first[p] = n
            for j in range(tree_first[t], tree_first[t + 1]):
                k = tree_test[j]
                if test_feature[k] != i:
                    continue
                s = test_segment[k]
                at = n
                while at > piece_first[p] and piece_end[at - 1] > s:
                    at -= 1
                if at > piece_first[p] and piece_end[at - 1] == s:
                    continue
                for move in range(n, at, -1):
                    piece_end[move] = piece_end[move - 1]
                piece_end[at] = s
                n += 1
            piece_end[n] = segment_first[i + 1] - segment_first[i] - 1
            n += 1
    piece_first[pair_feature.shape[0]] = n
    return piece_first, piece_end[:n]


@inner
def _ranges(race, test_segment, n_features, pair_first, pair_feature, piece_first, piece_end, entry_first):
    """Per tree, leaf and feature of the tree the pieces [low, high] that the leaf allows."""
    n_trees = race.word.shape[0] - 1
    low = np.zeros(entry_first[n_trees], np.int32)
    high = np.empty(entry_first[n_trees], np.int32)
    place = np.empty(n_features, np.int32)
    for t in range(n_trees):
        n_leaves = np.int64(race.first[t + 1]) - np.int64(race.first[t])
        extra = np.int64(race.word[t + 1]) - np.int64(race.word[t]) - 1
        n = pair_first[t + 1] - pair_first[t]
        for q in range(n):
            p = pair_first[t] + q
            place[pair_feature[p]] = q
            for r in range(n_leaves):
                high[entry_first[t] + r * n + q] = piece_first[p + 1] - piece_first[p] - 1
        for j in range(race.tree_first[t], race.tree_first[t + 1]):
            k = race.tree_test[j]
            q = place[race.test_feature[k]]
            g = 0
            while piece_end[piece_first[pair_first[t] + q] + g] != test_segment[k]:
                g += 1
            for r in range(n_leaves):
                e = entry_first[t] + r * n + q
                if not _bit(race.keep_left[k], race.more, np.int64(race.test_more[k]), r):
                    low[e] = max(low[e], g + 1)
                if not _bit(race.keep_right[k], race.more, race.test_more[k] + extra, r):
                    high[e] = min(high[e], g)
    return low, high


@inner
def _balance_feature(
    by_feature, pair_tree, pair_first, slot, piece_first, piece_end, first, entry_first, low, high, best_share, total,
    dead, share, left_over, closed, segment_start, n_segments, wish, top,
):  # fmt: skip
    """Replaces, per segment of a feature, the best value of each tree by the mean over the trees that test it.

    A segment in which some tree has no leaf left is `closed`; a leaf with closed segments only is `dead`.
    """
    n = by_feature.shape[0]
    for j in range(n):
        p = by_feature[j]
        t = pair_tree[p]
        n_pairs = pair_first[t + 1] - pair_first[t]
        start, n_pieces = piece_first[p], piece_first[p + 1] - piece_first[p]
        top[:n_pieces] = NONE
        e = entry_first[t] + p - pair_first[t]
        for leaf in range(np.int64(first[t]), np.int64(first[t + 1])):
            if not dead[leaf]:
                others = total[leaf] - best_share[e]
                for g in range(low[e], high[e] + 1):
                    top[g] = max(top[g], others)
            e += n_pairs
        s = 0
        for g in range(n_pieces):
            while s <= piece_end[start + g]:
                if top[g] == NONE:
                    closed[segment_start + s] = True
                wish[j, s] = top[g] + share[slot[p] + s]
                s += 1
    for s in range(n_segments):
        if closed[segment_start + s]:
            continue
        together = left_over[segment_start + s]
        for j in range(n):
            together += wish[j, s]
        mean = together // n
        fits = True
        for j in range(n):
            fits &= abs(share[slot[by_feature[j]] + s] + mean - wish[j, s]) < FARTHEST
        if fits:
            left_over[segment_start + s] = together - n * mean
            for j in range(n):
                share[slot[by_feature[j]] + s] += mean - wish[j, s]
    for j in range(n):
        p = by_feature[j]
        t = pair_tree[p]
        n_pairs = pair_first[t + 1] - pair_first[t]
        start, n_pieces = piece_first[p], piece_first[p + 1] - piece_first[p]
        s = 0
        for g in range(n_pieces):
            top[g] = NONE
            while s <= piece_end[start + g]:
                if not closed[segment_start + s]:
                    top[g] = max(top[g], share[slot[p] + s])
                s += 1
        e = entry_first[t] + p - pair_first[t]
        for leaf in range(np.int64(first[t]), np.int64(first[t + 1])):
            if not dead[leaf]:
                best = NONE
                for g in range(low[e], high[e] + 1):
                    best = max(best, top[g])
                if best == NONE:
                    dead[leaf] = True
                else:
                    total[leaf] += best - best_share[e]
                    best_share[e] = best
            e += n_pairs


@inner
def _bound(first, total, dead, segment_first, left_over, closed):
    """(the sum of best leaves over trees, what is left over at most); their sum is a bound. NONE: nothing is left."""
    trees, rest = np.int64(0), np.int64(0)
    for t in range(first.shape[0] - 1):
        best = NONE
        for leaf in range(np.int64(first[t]), np.int64(first[t + 1])):
            if not dead[leaf]:
                best = max(best, total[leaf])
        if best == NONE:
            return NONE, rest
        trees += best
    for i in range(segment_first.shape[0] - 1):
        most = NONE
        for s in range(segment_first[i], segment_first[i + 1]):
            if not closed[s]:
                most = max(most, left_over[s])
        if most == NONE:
            return NONE, np.int64(0)
        rest += most
    return trees, rest


@inner
def _segment_prices(race, region, segment_first):
    """The least price of each segment; 0 where nothing is limited."""
    price = np.zeros(segment_first[segment_first.shape[0] - 1])
    for i in range(race.feature.shape[0] if region.limited else 0):
        f = race.feature[i]
        s = segment_first[i]
        low = region.low[f]
        k, end = race.feature_first[i], race.feature_first[i + 1]
        while True:
            while k + 1 < end and race.test_cut[k + 1] == race.test_cut[k]:
                k += 1
            high = race.test_cut[k] if k < end else region.high[f]
            price[s] = least_price(
                region.price, region.price_start[f], region.near_low[f], region.near_high[f], low, high
            )
            if k >= end:
                break
            low = np.int32(high + 1)
            s += 1
            k += 1
    return price


@inner
def _layout(race):
    """Where shares, wishes and ranges of a race are kept."""
    n_trees, n_features = race.word.shape[0] - 1, race.feature.shape[0]
    segment_first, test_segment = _segments(race.test_cut, race.feature_first)
    pair_first, pair_feature = _pairs(race.tree_first, race.tree_test, race.test_feature, n_features)
    n_pairs = pair_feature.shape[0]
    pair_tree, by_feature = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.int32)
    slot = np.zeros(n_pairs + 1, np.int32)
    entry_first = np.zeros(n_trees + 1, np.int32)
    feature_pairs = np.zeros(n_features + 1, np.int32)
    for t in range(n_trees):
        n_leaves = np.int64(race.first[t + 1]) - np.int64(race.first[t])
        entry_first[t + 1] = entry_first[t] + n_leaves * (pair_first[t + 1] - pair_first[t])
        for p in range(pair_first[t], pair_first[t + 1]):
            i = pair_feature[p]
            pair_tree[p] = t
            slot[p + 1] = slot[p] + segment_first[i + 1] - segment_first[i]
            feature_pairs[i + 1] += 1
    for i in range(n_features):
        feature_pairs[i + 1] += feature_pairs[i]
    place = feature_pairs.copy()
    for p in range(n_pairs):
        by_feature[place[pair_feature[p]]] = p
        place[pair_feature[p]] += 1
    piece_first, piece_end = _pieces(
        race.tree_first, race.tree_test, race.test_feature, test_segment, segment_first, pair_first, pair_feature
    )
    low, high = _ranges(race, test_segment, n_features, pair_first, pair_feature, piece_first, piece_end, entry_first)
    return Layout(
        segment_first, feature_pairs, by_feature, pair_tree, pair_first, slot, piece_first, piece_end, entry_first, low,
        high,
    )  # fmt: skip


@inner
def _in_units(race, needed):
    """(leaf values above the worst of their tree, `needed` above the sum of the worst, the scale) in whole units."""
    n_trees = race.word.shape[0] - 1
    spread = 0.0
    for t in range(n_trees):
        spread += float(race.value[race.first[t]] - race.value[race.first[t + 1] - np.uint32(1)])
    # A power of two, so that small whole numbers stay what they are; larger ones lose a unit when they become floats.
    scale = 2.0 ** np.floor(np.log2(UNITS / max(spread, 1.0)))
    rounding = np.int64(0 if scale >= 1.0 else 1)
    total = np.empty(race.value.shape[0], np.int64)
    for t in range(n_trees):
        worst = race.value[race.first[t + 1] - np.uint32(1)]
        needed -= worst
        for j in range(np.int64(race.first[t]), np.int64(race.first[t + 1])):
            total[j] = np.int64(np.ceil((race.value[j] - worst) * scale)) + rounding
    # Far beyond what trees can give, but far from overflow.
    goal = min(max(np.floor(needed * scale), -MOST_GOAL), MOST_GOAL)
    return total, np.int64(goal) - rounding, scale


@inner
def _balance(race, layout, price, limited, budget, rate, total, goal, sweeps, balanced_total):
    """Sweeps over all features until the bound is below the goal or hardly moves.

    `total` (n_leaves,) are plain leaf values. Fills `balanced_total`; returns (the bound, what must be added to the
    sum of best leaves to get it, the number of sweeps).
    """
    segment_first, feature_pairs, by_feature = layout.segment_first, layout.feature_pairs, layout.by_feature
    n_features, n_segments = feature_pairs.shape[0] - 1, price.shape[0]
    share = np.zeros(layout.slot[layout.slot.shape[0] - 1], np.int64)
    best_share = np.zeros(layout.low.shape[0], np.int64)
    total = total.copy()
    dead, closed = np.zeros(total.shape[0], np.bool_), np.zeros(n_segments, np.bool_)
    left_over = np.zeros(n_segments, np.int64)
    most, widest = 1, 1
    for i in range(n_features):
        most = max(most, feature_pairs[i + 1] - feature_pairs[i])
        widest = max(widest, segment_first[i + 1] - segment_first[i])
    wish, top = np.empty((most, widest), np.int64), np.empty(widest, np.int64)
    fixed = np.int64(0)
    if limited:
        fixed = np.int64(np.ceil(rate * budget * (1 + 2.0**-40))) + 1 if rate > 0 else np.int64(0)
        for s in range(n_segments):
            closed[s] = price[s] > budget
            left_over[s] = 0 if closed[s] or rate == 0 else -np.int64(np.floor(rate * price[s]))
    bound = before = rest = np.int64(0)
    for sweep in range(sweeps):
        for step in range(n_features):
            i = step if sweep % 2 == 0 else n_features - 1 - step
            _balance_feature(
                by_feature[feature_pairs[i] : feature_pairs[i + 1]], layout.pair_tree, layout.pair_first, layout.slot,
                layout.piece_first, layout.piece_end, race.first, layout.entry_first, layout.low, layout.high,
                best_share, total, dead, share, left_over, closed, segment_first[i],
                segment_first[i + 1] - segment_first[i], wish, top,
            )  # fmt: skip
        trees, rest = _bound(race.first, total, dead, segment_first, left_over, closed)
        bound = NONE if trees == NONE else trees + rest + fixed
        if bound < goal or (sweep > 0 and (before - bound) * 50 < bound - goal):
            break
        before = bound
    for leaf in range(total.shape[0]):
        balanced_total[leaf] = -FARTHEST if dead[leaf] else total[leaf]
    return bound, rest + fixed, sweep + 1


@inner
def balanced(race, region, budget, needed, rate):
    """Balanced leaf values of a race, in units of their own.

    `needed` is what the open trees must give together, `budget` what is left for the features they test, `rate` that of
    a region around this one, negative if there is none. Returns (leaf values, what must be added to the sum of the best
    of them, `needed` in the new units, the bound, the best rate, the work that was done). A bound below the new
    `needed` settles the region.
    """
    layout = _layout(race)
    price = _segment_prices(race, region, layout.segment_first)
    total, goal, scale = _in_units(race, needed)
    values = np.empty_like(total)
    steps, work = 3 * np.int64(layout.slot[layout.slot.shape[0] - 1]), np.int64(0)
    for e in range(layout.low.shape[0]):
        steps += 2 * (layout.high[e] - layout.low[e] + 1)
    best_rate = 0.0
    if region.limited and 0 < budget < np.inf:
        # A few sweeps at each rate, then the best one to the end.
        best_bound = np.int64(2**62)
        for trial in range(RATES if rate < 0 else 3):
            this = UNITS / budget * 2.0 ** -(trial + 1) if rate < 0 else rate * scale * 1.5 ** (trial - 1)
            # What cells may cost stays within all that trees can give, also where they give less than around here.
            this = min(this, UNITS / budget)
            if not this < MOST_RATE:
                continue
            bound, rest, sweeps = _balance(
                race, layout, price, region.limited, budget, this, total, goal, np.int64(3), values
            )
            work += steps * sweeps
            if bound < goal:
                return values, rest, goal, bound, this / scale, work
            if bound < best_bound:
                best_bound, best_rate = bound, this
    most_sweeps = np.int64(SWEEPS)
    bound, rest, sweeps = _balance(
        race, layout, price, region.limited, budget, best_rate, total, goal, most_sweeps, values
    )
    return values, rest, goal, bound, best_rate / scale, work + steps * sweeps


@inner
def sorted_again(race, value):
    """The race with other leaf values: leaves sorted by them, and the bits of all masks with them."""
    n_trees = race.word.shape[0] - 1
    new_value, new_node = np.empty_like(value), np.empty_like(race.leaf_node)
    keep_left, keep_right = np.zeros_like(race.keep_left), np.zeros_like(race.keep_right)
    more = np.zeros_like(race.more)
    order = np.empty(value.shape[0], np.int32)
    for t in range(n_trees):
        start, end = np.int64(race.first[t]), np.int64(race.first[t + 1])
        extra = np.int64(race.word[t + 1]) - np.int64(race.word[t]) - 1
        sort_down(value[start:end], end - start, order)
        for r in range(end - start):
            new_value[start + r] = value[start + order[r]]
            new_node[start + r] = race.leaf_node[start + order[r]]
        for j in range(race.tree_first[t], race.tree_first[t + 1]):
            k = race.tree_test[j]
            at = np.int64(race.test_more[k])
            for r in range(end - start):
                bit = np.uint64(1) << np.uint64(r & 63)
                w = r >> 6
                if _bit(race.keep_left[k], race.more, at, np.int64(order[r])):
                    if w == 0:
                        keep_left[k] |= bit
                    else:
                        more[at + w - 1] |= bit
                if _bit(race.keep_right[k], race.more, at + extra, np.int64(order[r])):
                    if w == 0:
                        keep_right[k] |= bit
                    else:
                        more[at + extra + w - 1] |= bit
    return Race(
        race.word, race.first, new_value, new_node, race.test_cut, race.test_tree, keep_left, keep_right,
        race.test_more, more, race.feature, race.feature_first, race.test_feature, race.tree_first, race.tree_test,
    )  # fmt: skip


@inner
def promising(race, total, bound, goal):
    """The live-leaf bits of a race whose leaves have the balanced values `total`, without those that cannot win."""
    n_trees = race.word.shape[0] - 1
    live = np.zeros(np.int64(race.word[n_trees]), np.uint64)
    for t in range(n_trees):
        start, end = np.int64(race.first[t]), np.int64(race.first[t + 1])
        best = NONE
        for leaf in range(start, end):
            best = max(best, total[leaf])
        for leaf in range(start, end):
            if bound - best + total[leaf] >= goal:
                r = leaf - start
                live[np.int64(race.word[t]) + (r >> 6)] |= np.uint64(1) << np.uint64(r & 63)
    return live
