"""Branch and bound over boxes of cells: is there an affordable cell vector where another class wins?

Of each open tree the leaves that a box leaves reachable are bits, the most valuable leaf lowest; a cut is a bitwise
`and`, and the tree's best leaf is its lowest bit. The bound of a box is the sum of best leaves over trees. At every
box each cut of each feature is tried on both sides in one sweep: a side that cannot win shrinks the box, and the cut
that lowers the bounds most is taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import inner, merged
from treeproof._kernels.search.region import LEAF, cheapest_cell, least_of_region, least_price
from treeproof._kernels.walk import decide

SAFE = 0
BROKEN = 1
UNDECIDED = 2
TOO_CLOSE = 3
OUT_OF_BOXES = 4

CHECK_EVERY = 64


class Exact(NamedTuple):
    """What is needed to score a cell vector as the library does."""

    leaf_scores: Any
    base: Any
    base_last: Any
    divisor: Any
    decision: Any
    cut: Any
    steepness: Any


@inner
def label_of_cells(model, exact, cells, scores):
    """The class index of every row with these cells (NaN: -1); `scores` (n_scores,) is scratch in the right dtype."""
    n_scores = scores.shape[0]
    for k in range(n_scores):
        scores[k] = 0 if exact.base_last else exact.base[k]
    for t in range(model.roots.shape[0]):
        node = model.roots[t]
        while model.feature[node] != LEAF:
            c = cells[model.feature[node]]
            goes_left = model.nan_left[node] if c < 0 else c <= model.cut[node]
            node = model.left[node] if goes_left else model.right[node]
        row = model.leaf[node]
        for k in range(n_scores):
            scores[k] += exact.leaf_scores[row, k]
    for k in range(n_scores):
        scores[k] = scores[k] / exact.divisor
        if exact.base_last:
            scores[k] += exact.base[k]
    return decide(scores, exact.decision, exact.cut, exact.steepness)


# The value of a tree without live leaves; leads stay below 2**58, and sums stop at the first such tree.
IMPOSSIBLE = np.int64(-(2**60))

# Rows of a box: its cells from LOW to HIGH, and its open tests from FIRST up to END.
LOW, HIGH, FIRST, END = 0, 1, 2, 3


# From here on functions take plain arrays: numba counts references, with atomic operations, whenever a tuple of arrays
# or one of its fields changes hands, and that would cost several times the work itself.


@inner
def _best_value(live, start, n_words, value, first):
    """The value of the best live leaf of a tree."""
    for w in range(n_words):
        bits = live[start + np.uint32(w)]
        if bits != 0:
            return value[first + np.uint32(64 * w + lowest_bit(bits))]
    return IMPOSSIBLE


@inner
def _keep_leaves(live, start, n_words, head, more, at, right):
    """Clears the bits that a test does not keep; whether any was set."""
    before = live[start]
    live[start] = before & head
    changed = live[start] != before
    extra = np.int64(n_words) - 1
    if right:
        at += extra
    for w in range(extra):
        before = live[start + np.uint32(w + 1)]
        live[start + np.uint32(w + 1)] = before & more[at + w]
        changed |= live[start + np.uint32(w + 1)] != before
    return changed


@inner
def _apply(start, stop, right, test_tree, keep, test_more, more, word, first, value, live, best):
    """Puts the box on one side of the tests [start, stop); returns the change of the bound."""
    change = np.int64(0)
    for k in range(start, stop):
        tree = test_tree[k]
        at = word[tree]
        n_words = word[tree + np.uint32(1)] - at
        if _keep_leaves(live, at, n_words, keep[k], more, test_more[k], right):
            lead = _best_value(live, at, n_words, value, first[tree])
            if lead == IMPOSSIBLE:
                return IMPOSSIBLE
            change += lead - best[tree]
            best[tree] = lead
    return change


@inner
def _sweep(
    start, stop, right, total, needed, now, test_cut, test_tree, keep, test_more, more, word, first, value, live, best,
    trial_live, trial_best, stamp, bound,
):  # fmt: skip
    """Bounds of one side of the cuts of the tests [start, stop) of a feature, from the weakest cut to the strongest.

    Trials work on copies of trees, fresh where `stamp` is not `now`. Ends at the first cut whose side cannot win and
    returns its nearest test, or where the tests end (`stop`, or `start - 1`).
    """
    run = total
    k = start if right else stop - 1
    step = 1 if right else -1
    end = stop if right else start - 1
    while k != end:
        cut = test_cut[k]
        group = k
        while k != end and test_cut[k] == cut:
            tree = test_tree[k]
            at = word[tree]
            n_words = word[tree + np.uint32(1)] - at
            if stamp[tree] != now:
                stamp[tree] = now
                trial_best[tree] = best[tree]
                for w in range(n_words):
                    trial_live[at + np.uint32(w)] = live[at + np.uint32(w)]
            if n_words == 1:
                before = trial_live[at]
                after = before & keep[k]
                if after != before:
                    if after == 0:
                        return group
                    trial_live[at] = after
                    lead = value[first[tree] + np.uint32(lowest_bit(after))]
                    run += lead - trial_best[tree]
                    trial_best[tree] = lead
            elif _keep_leaves(trial_live, at, n_words, keep[k], more, test_more[k], right):
                lead = _best_value(trial_live, at, n_words, value, first[tree])
                if lead == IMPOSSIBLE:
                    return group
                run += lead - trial_best[tree]
                trial_best[tree] = lead
            k += step
        if run < needed:
            return group
        for j in range(min(group, k - step), max(group, k - step) + 1):
            bound[j] = run
    return end


@inner
def _shrink(
    box, i, cut, right, test_cut, test_tree, keep_left, keep_right, test_more, more, word, first, value, live, best
):
    """Limits feature i of the box to cells above the cut (`right`) or up to it; returns the change of the bound."""
    k, end = np.int64(box[FIRST, i]), np.int64(box[END, i])
    if right:
        stop = k
        while stop < end and test_cut[stop] <= cut:
            stop += 1
        box[FIRST, i] = stop
        box[LOW, i] = max(box[LOW, i], cut + 1)
        start, keep = k, keep_right
    else:
        start, stop = end, end
        while start > k and test_cut[start - 1] >= cut:
            start -= 1
        box[END, i] = start
        box[HIGH, i] = min(box[HIGH, i], cut)
        keep = keep_left
    return _apply(start, stop, right, test_tree, keep, test_more, more, word, first, value, live, best)


@inner
def _tighten(
    box, i, total, needed, now, test_cut, test_tree, keep_left, keep_right, test_more, more, word, first, value, live,
    best, trial_live, trial_best, stamp, bound_left, bound_right,
):  # fmt: skip
    """Sweeps feature i from both ends and shrinks the box while a side cannot win; returns the bound and `now`."""
    while box[FIRST, i] < box[END, i]:
        start, stop = np.int64(box[FIRST, i]), np.int64(box[END, i])
        now += 2
        k = _sweep(
            start, stop, True, total, needed, now, test_cut, test_tree, keep_right, test_more, more, word, first, value,
            live, best, trial_live, trial_best, stamp, bound_right,
        )  # fmt: skip
        if k < stop:
            total += _shrink(
                box, i, np.int64(test_cut[k]), np.bool_(False), test_cut, test_tree, keep_left, keep_right, test_more,
                more, word, first, value, live, best,
            )  # fmt: skip
            if total < needed:
                return total, now
            continue
        k = _sweep(
            start, stop, False, total, needed, now + 1, test_cut, test_tree, keep_left, test_more, more, word, first,
            value, live, best, trial_live, trial_best, stamp, bound_left,
        )  # fmt: skip
        if k < start:
            break
        total += _shrink(
            box, i, np.int64(test_cut[k]), np.bool_(True), test_cut, test_tree, keep_left, keep_right, test_more, more,
            word, first, value, live, best,
        )  # fmt: skip
        if total < needed:
            return total, now
    return total, now


@inner
def _best_cut(box, i, total, bound_left, bound_right, gate_below, gate_above):
    """(score, test, whether it is a gate) of the best open cut of feature i: what lowers both bounds most."""
    best_score, test, best_is_gate = -1.0, -1, False
    for k in range(box[FIRST, i], box[END, i]):
        is_gate = k in (gate_below, gate_above)
        if best_is_gate and not is_gate:
            continue
        score = (np.float64(total - bound_left[k]) + 1.0) * (np.float64(total - bound_right[k]) + 1.0)
        if score > best_score or (is_gate and not best_is_gate):
            best_score, test, best_is_gate = score, k, is_gate
    return best_score, test, best_is_gate


@inner
def _gates(box, i, test_cut, near_low, near_high):
    """The open tests whose far side leaves N(x) altogether, nearest to it on either side; -1 if there is none.

    Behind such a test the feature must be paid for, which limits all others.
    """
    below, above = -1, -1
    if box[HIGH, i] < near_low or box[LOW, i] > near_high:
        return below, above
    for k in range(box[FIRST, i], box[END, i]):
        if test_cut[k] < near_low:
            below = k
        elif test_cut[k] >= near_high:
            above = k
            break
    return below, above


@inner
def _drop_dear_leaves(
    word, first, value, leaf_node, cost_start, cost_feature, cost_price, box_price, spent, budget, live, best
):
    """Kills the leaves that what is left of the budget cannot pay for; returns the change of the bound."""
    change = np.int64(0)
    for tree in range(word.shape[0] - 1):
        changed = False
        start, leaf = np.int64(word[tree]), np.int64(first[tree])
        for r in range(np.int64(first[tree + 1]) - leaf):
            bit = np.uint64(1) << np.uint64(r & 63)
            if live[start + (r >> 6)] & bit == 0:
                continue
            node = leaf_node[leaf + r]
            cost = spent
            for c in range(cost_start[node], cost_start[node + 1]):
                # What the box pays for the feature anyway is in `spent` already.
                cost += max(0.0, cost_price[c] - box_price[cost_feature[c]])
            if cost > budget:
                live[start + (r >> 6)] &= ~bit
                changed = True
        if changed:
            lead = _best_value(live, word[tree], word[tree + 1] - word[tree], value, first[tree])
            if lead == IMPOSSIBLE:
                return IMPOSSIBLE
            change += lead - best[tree]
            best[tree] = lead
    return change


@inner
def all_leaves(word, first):
    """The live-leaf bits of a race with every leaf alive."""
    live = np.empty(np.int64(word[word.shape[0] - 1]), np.uint64)
    for tree in range(word.shape[0] - 1):
        n = np.int64(first[tree + 1]) - np.int64(first[tree])
        start = np.int64(word[tree])
        for w in range(start, np.int64(word[tree + 1])):
            bits = min(64, n - 64 * (w - start))
            full = np.uint64(0xFFFFFFFFFFFFFFFF)
            live[w] = full if bits == 64 else (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    return live


@inner
def _start(race_feature, feature_first, word, first, value, region_low, region_high, box, live, best):
    """The whole region as a box; returns the sum of best leaves."""
    total = np.int64(0)
    for i in range(race_feature.shape[0]):
        box[LOW, i] = region_low[race_feature[i]]
        box[HIGH, i] = region_high[race_feature[i]]
        box[FIRST, i] = feature_first[i]
        box[END, i] = feature_first[i + 1]
    for tree in range(word.shape[0] - 1):
        best[tree] = _best_value(live, word[tree], word[tree + 1] - word[tree], value, first[tree])
        if best[tree] == IMPOSSIBLE:
            return IMPOSSIBLE
        total += best[tree]
    return total


@inner
def doubled(array):
    """The same rows in an array with room for twice as many."""
    bigger = np.empty((2 * array.shape[0], *array.shape[1:]), array.dtype)
    for at, value in np.ndenumerate(array):
        bigger[at] = value
    return bigger


@merged
def _copy_level(depth, boxes, lives, bests):
    """The next level of the search starts as a copy of this one."""
    for k in range(4):
        for i in range(boxes.shape[2]):
            boxes[depth + 1, k, i] = boxes[depth, k, i]
    for w in range(lives.shape[1]):
        lives[depth + 1, w] = lives[depth, w]
    for tree in range(bests.shape[1]):
        bests[depth + 1, tree] = bests[depth, tree]


@inner
def _point_value(
    tree, i, cut, cells, test_cut, test_feature, keep_left, keep_right, test_more, more, word, first, value, tree_first,
    tree_test, scratch,
):  # fmt: skip
    """The lead that a tree gives the point `cells` (per tested feature) if feature i is just above `cut` instead."""
    at = word[tree]
    n_words = word[tree + np.uint32(1)] - at
    for w in range(n_words):
        scratch[w] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for j in range(tree_first[tree], tree_first[tree + np.uint32(1)]):
        k = tree_test[j]
        f = test_feature[k]
        right = cut >= test_cut[k] if f == i else cells[f] > test_cut[k]
        _keep_leaves(
            scratch, np.uint32(0), n_words, keep_right[k] if right else keep_left[k], more, test_more[k], right
        )
    return _best_value(scratch, np.uint32(0), n_words, value, first[tree])


@inner
def _climb(
    box, cells, lead, needed, feature, feature_first, test_cut, test_tree, test_feature, keep_left, keep_right,
    test_more, more, word, first, value, tree_first, tree_test, current, trial, stamp, scratch, near_low, near_high,
    own, price, price_start, limited, budget, now,
):  # fmt: skip
    """Coordinate ascent from the cheapest point of the box: moves one feature at a time to where the lead is largest.

    Fills `cells` (per tested feature); returns the lead there, `needed` or more if a counterexample is likely, and the
    largest stamp that was used.
    """
    n_features = feature.shape[0]
    nowhere = np.int64(-1)
    spent = 0.0
    for i in range(n_features):
        f = feature[i]
        cells[i] = cheapest_cell(
            price, price_start[f], near_low[f], near_high[f], own[f], box[LOW, i], box[HIGH, i], limited
        )
        if limited:
            spent += least_price(price, price_start[f], near_low[f], near_high[f], cells[i], cells[i])
    if spent > budget and limited:  # the box needs moves that cannot all be paid for
        return IMPOSSIBLE, now
    for tree in range(word.shape[0] - 1):
        current[tree] = _point_value(
            np.uint32(tree), nowhere, nowhere, cells, test_cut, test_feature, keep_left, keep_right, test_more, more,
            word, first, value, tree_first, tree_test, scratch,
        )  # fmt: skip
        lead += current[tree]
    quiet = 0
    i = np.int64(0)
    while quiet < n_features and lead < needed:
        f = feature[i]
        own_price = 0.0
        if limited:
            own_price = least_price(price, price_start[f], near_low[f], near_high[f], cells[i], cells[i])
        start, end = feature_first[i], feature_first[i + 1]
        now += 1
        run = lead
        # All tests of the feature on their left, then one after the other on their right.
        for k in range(start, end):
            tree = test_tree[k]
            if stamp[tree] != now:
                stamp[tree] = now
                trial[tree] = _point_value(
                    tree, i, nowhere, cells, test_cut, test_feature, keep_left, keep_right, test_more, more, word,
                    first, value, tree_first, tree_test, scratch,
                )  # fmt: skip
                run += trial[tree] - current[tree]
        best_lead, best_cell = lead, cells[i]
        k = start
        low = box[LOW, i]
        while True:
            high = min(test_cut[k], box[HIGH, i]) if k < end else box[HIGH, i]
            if run > best_lead and max(low, box[LOW, i]) <= high:
                a = max(low, box[LOW, i])
                cell = cheapest_cell(price, price_start[f], near_low[f], near_high[f], own[f], a, high, limited)
                fits = True
                if limited:
                    its = least_price(price, price_start[f], near_low[f], near_high[f], cell, cell)
                    fits = spent - own_price + its <= budget
                if fits:
                    best_lead, best_cell = run, cell
            if k >= end:
                break
            cut = test_cut[k]
            while k < end and test_cut[k] == cut:
                tree = test_tree[k]
                lead_after = _point_value(
                    tree, i, np.int64(cut), cells, test_cut, test_feature, keep_left, keep_right, test_more, more, word,
                    first, value, tree_first, tree_test, scratch,
                )  # fmt: skip
                run += lead_after - trial[tree]
                trial[tree] = lead_after
                k += 1
            low = np.int32(cut + 1)
        if best_cell != cells[i]:
            if limited:
                its = least_price(price, price_start[f], near_low[f], near_high[f], best_cell, best_cell)
                spent += its - own_price
            cells[i] = best_cell
            lead = best_lead
            now += 1
            for k in range(start, end):
                tree = test_tree[k]
                if stamp[tree] != now:
                    stamp[tree] = now
                    current[tree] = _point_value(
                        tree, nowhere, nowhere, cells, test_cut, test_feature, keep_left, keep_right, test_more, more,
                        word, first, value, tree_first, tree_test, scratch,
                    )  # fmt: skip
            quiet = 0
        else:
            quiet += 1
        i = i + 1 if i + 1 < n_features else 0
    return lead, now


@inner
def run_race(
    race, part, constant, needed, model, exact, region, label, too_dear, scores, cells, stop, ticket, max_boxes, climb,
    first_cut, start_live,
):  # fmt: skip
    """Searches the region; returns (SAFE, BROKEN with `cells` filled, or one of the following; number of boxes).

    TOO_CLOSE: no counterexample was found, but a box was left within the slack, where leaves that give the same lead
    can round differently; the race must be run again with `close`. UNDECIDED: `stop[0]` became `ticket` or negative.
    OUT_OF_BOXES: `max_boxes` were not enough; `first_cut` holds the feature and cell where the region was cut first,
    and whether the right side is more promising.
    `needed` is the least lead, `constant` included, with which a box can hold another label. `too_dear` (n,
    n_features) are cell vectors that cost more than the rounded prices say. `climb` tries coordinate ascent first.
    """
    word, first, value, leaf_node = race.word, race.first, race.value, race.leaf_node
    test_cut, test_tree, keep_left, keep_right = race.test_cut, race.test_tree, race.keep_left, race.keep_right
    test_more, more, feature = race.test_more, race.more, race.feature
    cost_start, cost_feature, cost_price = part.cost_start, part.cost_feature, part.cost_price
    near_low, near_high, own, price, price_start = (
        region.near_low, region.near_high, region.own, region.price, region.price_start
    )  # fmt: skip
    limited, budget, gated = region.limited, region.budget, region.limited and region.flat
    n_features, n_trees, n_tests = feature.shape[0], word.shape[0] - 1, test_cut.shape[0]
    n_words = np.int64(word[n_trees])
    # One level per open decision: the box before it, and the side that waits.
    boxes = np.empty((8, 4, n_features), np.int32)
    lives = np.empty((8, n_words), np.uint64)
    bests = np.empty((8, n_trees), np.int64)
    waiting = np.empty((8, 4), np.int64)
    box_price, elsewhere = _region_prices(region, feature)
    trial_live, trial_best = np.empty(n_words, np.uint64), np.empty(n_trees, np.int64)
    stamp = np.zeros(n_trees, np.int64)
    point = np.empty(n_features, np.int32)
    climbed = np.empty(n_trees, np.int64)
    scratch = np.empty(n_words, np.uint64)
    bound_left, bound_right = np.empty(n_tests, np.int64), np.empty(n_tests, np.int64)
    now, depth, n_boxes, too_close = np.int64(0), 0, 0, False
    for w in range(n_words):
        lives[0, w] = start_live[w]
    box, live, best = boxes[0], lives[0], bests[0]
    total = constant + _start(feature, race.feature_first, word, first, value, region.low, region.high, box, live, best)
    while True:
        n_boxes += 1
        if n_boxes % CHECK_EVERY == 0 and (stop[0] == ticket or stop[0] < 0):
            return UNDECIDED, n_boxes
        if n_boxes > max_boxes:
            return OUT_OF_BOXES, n_boxes
        chosen, test = -1, -1
        if total >= needed and limited:
            spent, changed = _box_prices(feature, box, near_low, near_high, price, price_start, box_price)
            spent += elsewhere
            if spent > budget:
                total = IMPOSSIBLE
            elif changed:
                total += _drop_dear_leaves(
                    word, first, value, leaf_node, cost_start, cost_feature, cost_price, box_price, spent, budget, live,
                    best,
                )  # fmt: skip
        if total >= needed:
            score, is_gate = -1.0, False
            for i in range(n_features):
                total, now = _tighten(
                    box, i, total, needed, now, test_cut, test_tree, keep_left, keep_right, test_more, more, word,
                    first, value, live, best, trial_live, trial_best, stamp, bound_left, bound_right,
                )  # fmt: skip
                if total < needed:
                    break
                f = feature[i]
                below, above = _gates(box, i, test_cut, near_low[f], near_high[f]) if gated else (-1, -1)
                its_score, its_test, its_gate = _best_cut(box, i, total, bound_left, bound_right, below, above)
                if its_test >= 0 and ((its_gate and not is_gate) or (its_gate == is_gate and its_score > score)):
                    score, test, is_gate, chosen = its_score, its_test, its_gate, i
            if (
                total >= needed
                and chosen < 0
                and _can_pay(feature, box, near_low, near_high, price, price_start, limited, budget - elsewhere)
            ):
                _cells_elsewhere(region, cells)
                for i in range(n_features):
                    f = feature[i]
                    cells[f] = cheapest_cell(
                        price, price_start[f], near_low[f], near_high[f], own[f], box[LOW, i], box[HIGH, i], limited
                    )
                if label_of_cells(model, exact, cells, scores) == label:
                    too_close = True
                elif not _is_row_of(too_dear, cells):
                    return BROKEN, n_boxes
        if total >= needed and chosen >= 0 and n_boxes == 1 and climb:
            # Falsify first: most rows that can be broken are broken by climbing.
            reached, now = _climb(
                box, point, constant, max(needed, 1), feature, race.feature_first, test_cut, test_tree,
                race.test_feature, keep_left, keep_right, test_more, more, word, first, value, race.tree_first,
                race.tree_test, trial_best, climbed, stamp, scratch, near_low, near_high, own, price, price_start,
                limited, budget - elsewhere, now + 1,
            )  # fmt: skip
            if reached >= needed:
                _cells_elsewhere(region, cells)
                for i in range(n_features):
                    cells[feature[i]] = point[i]
                if label_of_cells(model, exact, cells, scores) != label and not _is_row_of(too_dear, cells):
                    return BROKEN, n_boxes
        if total >= needed and chosen >= 0:
            # The more promising side first; the other one waits with the box as it is now.
            right = bound_right[test] > bound_left[test]
            if depth + 1 == waiting.shape[0]:
                boxes, lives, bests, waiting = doubled(boxes), doubled(lives), doubled(bests), doubled(waiting)
            waiting[depth, 0] = chosen
            waiting[depth, 1] = test_cut[test]
            waiting[depth, 2] = not right
            waiting[depth, 3] = total
            if n_boxes == 1:
                first_cut[0], first_cut[1], first_cut[2] = feature[chosen], test_cut[test], right
            _copy_level(depth, boxes, lives, bests)
            depth += 1
            i, cut = chosen, np.int64(test_cut[test])
        else:
            if depth == 0:
                return (TOO_CLOSE if too_close else SAFE), n_boxes
            depth -= 1
            i, cut, right, total = waiting[depth, 0], waiting[depth, 1], waiting[depth, 2] == 1, waiting[depth, 3]
            # Prices were those of a deeper box; leaves that it could not pay for may live again here.
            for j in range(n_features if limited else 0):
                box_price[feature[j]] = -1.0
        box, live, best = boxes[depth], lives[depth], bests[depth]
        total += _shrink(
            box, i, cut, right, test_cut, test_tree, keep_left, keep_right, test_more, more, word, first, value, live,
            best,
        )  # fmt: skip


@inner
def _cells_elsewhere(region, cells):
    """The cheapest cells of the region, whatever the race tests."""
    for f in range(cells.shape[0]):
        cells[f] = region.own[f]
        if region.own[f] >= 0:
            cells[f] = cheapest_cell(
                region.price, region.price_start[f], region.near_low[f], region.near_high[f], region.own[f],
                region.low[f], region.high[f], region.limited,
            )  # fmt: skip


@inner
def price_elsewhere(region, tested):
    """What the region costs at least on features that the race does not test."""
    return _region_prices(region, tested)[1]


@inner
def _region_prices(region, tested):
    """(what the region costs at least per feature, the sum over features that the race does not test).

    Leaves can have a price there too: that of tests with only one side that can be paid for.
    """
    price, elsewhere = np.zeros(region.own.shape[0]), 0.0
    if region.limited:
        for f in range(price.shape[0]):
            price[f] = least_of_region(region, f)
        is_tested = np.zeros(price.shape[0], np.bool_)
        for f in tested:
            is_tested[f] = True
        for f in range(price.shape[0]):
            elsewhere += 0.0 if is_tested[f] else price[f]
    return price, elsewhere


@inner
def _is_row_of(rows, cells):
    for r in range(rows.shape[0]):
        same = True
        for f in range(cells.shape[0]):
            same &= rows[r, f] == cells[f]
        if same:
            return True
    return False


@inner
def _box_prices(feature, box, near_low, near_high, price, price_start, box_price):
    """Updates what the box pays per feature; returns (the sum, whether anything changed)."""
    spent, changed = 0.0, False
    for i in range(feature.shape[0]):
        f = feature[i]
        least = least_price(price, price_start[f], near_low[f], near_high[f], box[LOW, i], box[HIGH, i])
        if least != box_price[f]:
            box_price[f] = least
            changed = True
        spent += least
    return spent, changed


@inner
def _can_pay(feature, box, near_low, near_high, price, price_start, limited, budget):
    """Whether the cheapest cells of the box can be paid for."""
    if not limited:
        return True
    spent = 0.0
    for i in range(feature.shape[0]):
        f = feature[i]
        spent += least_price(price, price_start[f], near_low[f], near_high[f], box[LOW, i], box[HIGH, i])
    return spent <= budget
