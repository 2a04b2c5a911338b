"""Splits that minimise the loss under attack: all thresholds of a feature in one pass over sorted values.

A node holds the rows that some attack can bring there. Per row: `spent`, the cost of the cheapest such attack; per row
and head: whether the attacker sends the row here for good (`assigned`), and the scores `bound_low` to `bound_high` that
the leaves it reaches may have (attack invariants). A head is one score with targets 0 and 1: the second class of two,
or one head per class. See docs/training.md for the mathematics.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.jit import entry, inner, merged


@inner
def clip(value, low, high):
    """The number of [low, high] closest to `value`."""
    return min(max(value, low), high)


@inner
def squares(ones, zeros, score):
    """The loss of a score on targets 1 and 0 with these weights."""
    return ones * (1.0 - score) ** 2 + zeros * score**2


@inner
def separate_scores(left1, left0, right1, right0, left_low, left_high, right_low, right_high):
    """The best score of each side on its own, within its bounds; a side without weight copies the other."""
    left, right = left1 + left0, right1 + right0
    a = clip(left1 / left, left_low, left_high) if left > 0.0 else 0.0
    b = clip(right1 / right, right_low, right_high) if right > 0.0 else clip(a, right_low, right_high)
    if left <= 0.0:
        a = clip(b, left_low, left_high)
    return a, b


@entry
def solve_scores(left1, left0, right1, right0, both1, both0, left_low, left_high, right_low, right_high):
    """The scores (a, b) within their bounds of least loss, where the attacker picks the side of `both`; and that loss.

    Where a <= b, the attacker sends target 1 left and target 0 right, and the loss falls apart into one quadratic per
    score. That quadratic is nowhere above the loss, so its minimum, if it has a <= b, is the minimum. Likewise for
    a >= b. If neither lies on its own side, the minimum of the convex loss lies between them, on a = b.
    """
    a, b = separate_scores(
        left1 + both1, left0, right1, right0 + both0, left_low, left_high, right_low, right_high
    )  # fmt: skip
    if a <= b:
        return a, b, squares(left1 + both1, left0, a) + squares(right1, right0 + both0, b)
    a, b = separate_scores(
        left1, left0 + both0, right1 + both1, right0, left_low, left_high, right_low, right_high
    )  # fmt: skip
    if a >= b:
        return a, b, squares(left1, left0 + both0, a) + squares(right1 + both1, right0, b)
    ones, zeros = left1 + right1 + both1, left0 + right0 + both0
    score = clip(ones / (ones + zeros), max(left_low, right_low), min(left_high, right_high))
    return score, score, squares(ones, zeros, score)


@inner
def reach_in_node(near, reach, rows, spent, cost, budget, box_low, box_high, first, last):
    """Per row the lowest and highest value of one feature that an attack within the budget can have in the node.

    near and reach (2, n) belong to the feature: the lowest and highest value that costs nothing, the row's own or those
    of its neighbourhood, and that costs `cost`. rows, spent, first, last (m,) belong to the node, whose values of the
    feature are box_low to box_high. A feature is paid for once: where none of its free values lies in the node, it
    already is, and moving it elsewhere inside its reach costs nothing more.
    """
    for i in range(len(rows)):
        row = rows[i]
        low, high = max(near[0, row], box_low), min(near[1, row], box_high)
        paid_for_others = spent[i]
        if low > high:
            low, high = np.inf, -np.inf
            paid_for_others -= cost
        if paid_for_others + cost <= budget:
            reached_low, reached_high = max(reach[0, row], box_low), min(reach[1, row], box_high)
            if reached_low <= reached_high:
                low, high = min(low, reached_low), max(high, reached_high)
        first[i], last[i] = low, high


@inner
def between(low, high):
    """A double t with low <= t < high, about in the middle; low < high."""
    middle = low * 0.5 + high * 0.5
    return middle if low <= middle < high else low


@merged  # a call with this many arrays takes longer than its work
def add_row(i, rows, weight, target, own, assigned, sums, counts):
    """Adds the weight of row i of the node to `sums` (heads, 2), by target; its own head counts it, too."""
    row = rows[i]
    for h in range(assigned.shape[1]):
        if assigned[i, h]:
            sums[h, target[row, h]] += weight[row]
            if own[row] == h:
                counts[h, target[row, h]] += 1


@inner
def suffix_bounds(order, bound_low, bound_high):
    """Bounds on a score that hold for all rows from each position of `order` on: (m + 1, heads), twice."""
    m, n_heads = bound_low.shape
    low, high = np.zeros((m + 1, n_heads)), np.ones((m + 1, n_heads))
    for position in range(m - 1, -1, -1):
        i = order[position]
        for h in range(n_heads):
            low[position, h] = max(low[position + 1, h], bound_low[i, h])
            high[position, h] = min(high[position + 1, h], bound_high[i, h])
    return low, high


@merged
def best_scores_of(total, reached, sure, n_reached, n_sure, left_low, left_high, right_low, right_high, q, scores):
    """The loss of a split and how many rows are assigned to its left side; `scores` (2, heads) gets the scores.

    Sums and counts (heads, 2) by target: of all rows, of those that can go left, and of those that surely do. The
    bounds of the right side are line q of theirs.
    """
    loss, n_left = 0.0, 0
    for h in range(len(total)):
        both1, both0 = max(reached[h, 1] - sure[h, 1], 0.0), max(reached[h, 0] - sure[h, 0], 0.0)
        right1, right0 = max(total[h, 1] - reached[h, 1], 0.0), max(total[h, 0] - reached[h, 0], 0.0)
        a, b, part = solve_scores(
            sure[h, 1], sure[h, 0], right1, right0, both1, both0,
            left_low[h], left_high[h], right_low[q, h], right_high[q, h],
        )  # fmt: skip
        scores[0, h], scores[1, h] = a, b
        loss += part
        # Of the attacker's choice, one target joins the left side: see `partition`.
        joins = 1 if a <= b else 0
        n_left += n_sure[h, 1 - joins] + n_reached[h, joins]
    return loss, n_left


@inner
def scan_feature(
    first, last, rows, weight, target, own, assigned, bound_low, bound_high, min_leaf, to_beat, best_scores, scores
):  # fmt: skip
    """The best threshold of one feature: (loss, low, high), where every t with low <= t < high splits alike.

    A row is surely left where `last <= t`, surely right where `first > t`, else the attacker's choice; so all sums and
    bounds of a threshold are prefixes and suffixes of the rows sorted by `first` and by `last`. `best_scores`
    (2, heads) gets the scores. Returns the loss `to_beat` where no threshold is better. `own` (n,) is the head whose
    side counts for `min_leaf`; `scores` (2, heads) is scratch.
    """
    m, n_heads = assigned.shape
    by_first, by_last = np.argsort(first), np.argsort(last)
    right_low, right_high = suffix_bounds(by_last, bound_low, bound_high)
    left_low, left_high = np.zeros(n_heads), np.ones(n_heads)
    total, reached, sure = np.zeros((n_heads, 2)), np.zeros((n_heads, 2)), np.zeros((n_heads, 2))
    n_total, n_reached, n_sure = (
        np.zeros((n_heads, 2), np.int64), np.zeros((n_heads, 2), np.int64), np.zeros((n_heads, 2), np.int64)
    )  # fmt: skip
    for i in range(m):
        add_row(i, rows, weight, target, own, assigned, total, n_total)
    n_all = n_total.sum()
    found_low, found_high = 0.0, 0.0
    p, q = 0, 0
    here = min(first[by_first[0]], last[by_last[0]])
    while True:
        while p < m and first[by_first[p]] == here:
            i = by_first[p]
            add_row(i, rows, weight, target, own, assigned, reached, n_reached)
            for h in range(n_heads):
                left_low[h], left_high[h] = max(left_low[h], bound_low[i, h]), min(left_high[h], bound_high[i, h])
            p += 1
        while q < m and last[by_last[q]] == here:
            add_row(by_last[q], rows, weight, target, own, assigned, sure, n_sure)
            q += 1
        if q == m:
            return to_beat, found_low, found_high
        after = last[by_last[q]] if p == m else min(last[by_last[q]], first[by_first[p]])
        loss, n_left = best_scores_of(
            total, reached, sure, n_reached, n_sure, left_low, left_high, right_low, right_high, q, scores
        )  # fmt: skip
        if loss < to_beat and n_left >= min_leaf and n_all - n_left >= min_leaf:
            to_beat, found_low, found_high = loss, here, after
            for h in range(n_heads):
                best_scores[0, h], best_scores[1, h] = scores[0, h], scores[1, h]
        here = after


@entry
def best_split(
    features, most_features, near, reach, cost, budget, box_low, box_high, weight, target, own,
    rows, spent, assigned, bound_low, bound_high, min_leaf, to_beat, best_scores,
):  # fmt: skip
    """The split (feature, threshold, loss) of least loss under attack that is below `to_beat`; feature -1 if none is.

    near, reach (n_features, 2, n) are those of `reach_in_node`; features are tried in the order of `features`, at least
    `most_features` of them and on until one gains.
    """
    first, last = np.empty(len(rows)), np.empty(len(rows))
    scores = np.empty_like(best_scores)
    found, low, high = -1, 0.0, 0.0
    for position in range(len(features)):
        if position >= most_features and found >= 0:
            break
        f = features[position]
        reach_in_node(
            near[f], reach[f], rows, spent, cost[f], budget, box_low[f], box_high[f], first, last
        )  # fmt: skip
        loss, from_low, to_high = scan_feature(
            first, last, rows, weight, target, own, assigned, bound_low, bound_high, min_leaf, to_beat, best_scores,
            scores,
        )  # fmt: skip
        if loss < to_beat:
            to_beat, found, low, high = loss, f, from_low, to_high
    return found, between(low, high) if found >= 0 else 0.0, to_beat


@entry
def partition(
    near, reach, cost, budget, box_low, box_high, threshold, scores, target, rows, spent, assigned,
    bound_low, bound_high, side, keep_visitors,
):  # fmt: skip
    """The rows of one child (`side` 0 left, 1 right) with their spent cost, assignment and bounds.

    Where the attacker can choose, a row is assigned to the side of larger loss. The loss at the other side's score then
    parts the two: on the side it joined its loss stays at least that, on the other at most that, so whatever grows
    below, the choice stays the attacker's best. A row that is assigned elsewhere visits: its bounds matter, its loss is
    counted there. Without `keep_visitors` neither bounds nor visitors are kept.
    """
    m, n_heads = assigned.shape
    first, last = np.empty(m), np.empty(m)
    reach_in_node(near, reach, rows, spent, cost, budget, box_low, box_high, first, last)
    kept = np.empty(m, np.int64)
    new_spent = np.empty(m, np.int64)
    new_assigned = np.empty((m, n_heads), np.bool_)
    low, high = np.empty((m, n_heads)), np.empty((m, n_heads))
    n = 0
    for i in range(m):
        goes_left, goes_right = first[i] <= threshold, last[i] > threshold
        if not (goes_right if side else goes_left):
            continue
        # The cheapest attack that ends on this side pays for the feature unless a free value does, too.
        low_free, high_free = max(near[0, rows[i]], box_low), min(near[1, rows[i]], box_high)
        inside = low_free <= high_free
        stays = inside and (high_free > threshold if side else low_free <= threshold)
        new_spent[n] = (spent[i] if inside else spent[i] - cost) + (0 if stays else cost)
        kept[n] = i
        any_assigned = False
        for h in range(n_heads):
            low[n, h], high[n, h] = bound_low[i, h], bound_high[i, h]
            here = assigned[i, h]
            if here and goes_left and goes_right:
                is_one = target[rows[i], h] == 1
                # Target 1 loses more at the lower score, target 0 at the higher one.
                joined = int(is_one != (scores[0, h] <= scores[1, h]))
                here = joined == side
                if keep_visitors:
                    parting = scores[1 - joined, h]
                    # More loss than at `parting`, on the side joined, is a lower score for target 1.
                    if is_one == here:
                        high[n, h] = min(high[n, h], parting)
                    else:
                        low[n, h] = max(low[n, h], parting)
            new_assigned[n, h] = here
            any_assigned |= here
        if any_assigned or keep_visitors:
            n += 1
    return (
        rows[kept[:n]], new_spent[:n].copy(), new_assigned[:n].copy(), low[:n].copy(), high[:n].copy()
    )  # fmt: skip
