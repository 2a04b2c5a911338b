"""Leads of one class over another on a box of cells, and what single attacks make of them."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.bits import highest_bit, lowest_bit
from treeproof._kernels.jit import inner

STABLE, UNSTABLE, OPEN = 0, 1, 2

# How the lead is read: class 1 over class 0, the other way round, or any class over another.
ONE, ZERO, ANY = 0, 1, 2

LOWEST = np.int64(-(2**61))


# Functions take plain arrays: numba counts references, with atomic operations, whenever a tuple of arrays or one of its
# fields changes hands, and that would cost several times the work itself.


@inner
def top_lead(word, first, lead, value, other, label, mode):
    """The largest lead of `other` over `label` among the live leaves of a tree."""
    if mode == ONE:
        return lead[first + lowest_bit(word)]
    if mode == ZERO:
        return -lead[first + highest_bit(word)]
    return _top_of_any(word, first, value, other, label)


@inner
def bottom_lead(word, first, lead, value, other, label, mode):
    """The smallest lead of `other` over `label` among the live leaves of a tree."""
    if mode == ONE:
        return lead[first + highest_bit(word)]
    if mode == ZERO:
        return -lead[first + lowest_bit(word)]
    return -_top_of_any(word, first, value, label, other)


@inner
def _top_of_any(word, first, value, other, label):
    best = LOWEST
    while word != 0:
        i = first + lowest_bit(word)
        best = max(best, value[i, other] - value[i, label])
        word &= word - np.uint64(1)
    return best


@inner
def best_score(word, first, value, c):
    best = LOWEST
    while word != 0:
        best = max(best, value[first + lowest_bit(word), c])
        word &= word - np.uint64(1)
    return best


@inner
def one_group(word, first, group):
    """Whether nothing tells the live leaves apart."""
    its = group[first + lowest_bit(word)]
    word &= word - np.uint64(1)
    while word != 0:
        if group[first + lowest_bit(word)] != its:
            return False
        word &= word - np.uint64(1)
    return True


@inner
def own_bounds(words, trees, n_trees, set_first, leaf_first, lead, value, other, label, mode, greatest, least):
    """Per tree the largest and the smallest lead without any attack; returns their sums."""
    top, bottom = np.int64(0), np.int64(0)
    for q in range(n_trees):
        t = trees[q]
        word = words[set_first[t]]
        greatest[q] = top_lead(word, leaf_first[t], lead, value, other, label, mode)
        least[q] = bottom_lead(word, leaf_first[t], lead, value, other, label, mode)
        top += greatest[q]
        bottom += least[q]
    return top, bottom


@inner
def reach_cut(f, cell, low, high, start, own, hull_low, hull_high):
    """The fine cell behind which feature f's reach of a coarse cell outside the box ends or begins; -1 if nowhere."""
    base = start[f]
    if cell < own[base + low[f]]:
        k = np.int64(high[f])
        while k >= low[f] and hull_low[base + k] > cell:
            k -= 1
        return k if low[f] <= k < high[f] else -1
    k = np.int64(low[f])
    while k <= high[f] and hull_high[base + k] < cell:
        k += 1
    return k - 1 if low[f] < k <= high[f] else -1


@inner
def move_one(
    f, low, high, words, trees, n_trees, start, own, hull_low, hull_high, must_low, must_high, irregular, top, bottom,
    need, sure, leaf_first, local_first, set_first, members, lead, value, table, at_least, at_most, place, other, label,
    mode, greatest, least, change_top, change_bottom,
):  # fmt: skip
    """An attack that moves feature f alone, coarse cell by coarse cell: (status, most dangerous cell, its leads).

    STABLE if no cell lets `other` win, UNSTABLE if one surely does that all of the box can reach, else OPEN.
    """
    base = start[f]
    first_cell, last_cell = hull_low[base + low[f]], hull_high[base + high[f]]
    own_low, own_high = own[base + low[f]], own[base + high[f]]
    for c in range(first_cell, last_cell + 1):
        change_top[c - first_cell] = 0
        change_bottom[c - first_cell] = 0
    for q in range(n_trees):
        t = trees[q]
        p = place[t, f]
        if p < 0:
            continue
        bit = np.uint64(1) << np.uint64(p)
        j = set_first[t] + 1
        while members[j] != bit:
            j += 1
        word, at, first = words[j], table[local_first[t] + p], leaf_first[t]
        for c in range(first_cell, last_cell + 1):
            if own_low <= c <= own_high:
                continue
            live = word & at_least[at + c] & at_most[at + c]
            change_top[c - first_cell] += top_lead(live, first, lead, value, other, label, mode) - greatest[q]
            change_bottom[c - first_cell] += bottom_lead(live, first, lead, value, other, label, mode) - least[q]
    sure_low, sure_high = must_low[base + high[f]], must_high[base + low[f]]
    if irregular[f] and low[f] < high[f]:
        sure_low, sure_high = 1, 0
    cell, its_top, its_bottom = -1, LOWEST, LOWEST
    for c in range(first_cell, last_cell + 1):
        if own_low <= c <= own_high:
            continue
        cell_top, cell_bottom = top + change_top[c - first_cell], bottom + change_bottom[c - first_cell]
        if cell_top < need:
            continue
        if sure_low <= c <= sure_high and cell_bottom >= sure:
            return UNSTABLE, c, cell_top, cell_bottom
        if cell_bottom > its_bottom:
            cell, its_top, its_bottom = c, cell_top, cell_bottom
    return (STABLE if cell < 0 else OPEN), cell, its_top, its_bottom


@inner
def breaks(
    features, n_moved, low, high, words, trees, n_trees, set_of, start, own, must_low, must_high, irregular, total,
    sure, leaf_first, local_first, lead, value, local_feature, table, at_least, at_most, place, members, other, label,
    mode, now_low, now_high, own_least, change,
):  # fmt: skip
    """Whether moves of `features[:n_moved]` to certain cells, possible from all of the box, surely break `label`.

    Coordinate ascent: each feature in turn goes to the cell where the lead of `other` is largest in the worst case.
    `total` is that lead, and `own_least` its part from each tree, before any move.
    """
    for i in range(n_moved):
        f = features[i]
        now_low[f], now_high[f] = own[start[f] + low[f]], own[start[f] + high[f]]
    least = own_least[:n_trees].copy()
    for i in range(n_moved):
        f = features[i]
        if irregular[f] and low[f] < high[f]:
            continue
        first_cell, last_cell = must_low[start[f] + high[f]], must_high[start[f] + low[f]]
        own_low, own_high = own[start[f] + low[f]], own[start[f] + high[f]]
        if first_cell > last_cell or (first_cell >= own_low and last_cell <= own_high):
            continue
        for c in range(first_cell, last_cell + 1):
            change[c - first_cell] = 0
        for q in range(n_trees):
            t = trees[q]
            p = place[t, f]
            if p < 0:
                continue
            rest = words[set_of[t]]
            moved = members[set_of[t]] & ~(np.uint64(1) << np.uint64(p))
            while moved != 0:
                j = local_first[t] + lowest_bit(moved)
                g = local_feature[j]
                rest &= at_least[table[j] + now_low[g]] & at_most[table[j] + now_high[g]]
                moved &= moved - np.uint64(1)
            at = table[local_first[t] + p]
            for c in range(first_cell, last_cell + 1):
                word = rest & at_least[at + c] & at_most[at + c]
                change[c - first_cell] += bottom_lead(word, leaf_first[t], lead, value, other, label, mode) - least[q]
        best, cell = np.int64(0), -1
        for c in range(first_cell, last_cell + 1):
            if not own_low <= c <= own_high and (cell < 0 or change[c - first_cell] > best):
                best, cell = change[c - first_cell], c
        if total + best >= sure:
            return True
        if best <= 0 or i == n_moved - 1:
            continue
        total += best
        now_low[f], now_high[f] = cell, cell
        for q in range(n_trees):
            t = trees[q]
            if place[t, f] < 0:
                continue
            word = words[set_of[t]]
            moved = members[set_of[t]]
            while moved != 0:
                j = local_first[t] + lowest_bit(moved)
                g = local_feature[j]
                word &= at_least[table[j] + now_low[g]] & at_most[table[j] + now_high[g]]
                moved &= moved - np.uint64(1)
            least[q] = bottom_lead(word, leaf_first[t], lead, value, other, label, mode)
    return False
