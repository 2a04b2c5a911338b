"""The cheapest columns that hit sets of columns: branch and bound within a limit, to be gone on with as sets come in.

A set is hit if one of its columns is chosen. Either all sets must be hit; or sets belong to rows, a row is held if all
of its sets are hit, and some rows may be missed. All numbers are whole, so that no bound is ever rounded.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.bits import count_bits, lowest_bit
from treeproof._kernels.jit import borrowing, door, tiny

NEVER = np.int64(2**62)
"""More than all columns cost together."""

EXHAUSTED, CANDIDATE, PAUSED = 0, 1, 2
"""How a search ends: nothing more within the limit, columns that hit enough, or enough nodes for now."""

STATE = np.dtype(
    [
        ("depth", "i8"),  # of the node that is next; -1: there is none
        ("n_sets", "i8"),
        ("limit", "i8"),  # what columns may cost
        ("beyond", "i8"),  # no columns beyond the limit that hit enough cost less
        ("may_miss", "i8"),  # how many rows need not be held; 0: all sets must be hit
        ("nodes", "i8"),
    ],
    align=True,
)
"""Where a search stands."""

ROW = np.dtype(
    [
        ("lost", "?"),
        ("sets", "i8"),  # how many of its sets are not hit
        ("least", "i8"),  # what it costs at least to hit these
        ("size", "i8"),  # of the smallest of them
        ("set", "i8"),  # which one that is
    ],
    align=True,
)
"""What is left to do for a row."""


class Sets(NamedTuple):
    """The sets `words` (n_sets, n_words), bits of columns; `owner` (n_sets,) are their rows; `size` (n_sets,) scratch.

    `cost` (n_columns,) is what a column costs, at least 1.
    """

    words: Any
    owner: Any
    size: Any
    cost: Any


class Path(NamedTuple):
    """The nodes from the root on: `chosen` and `excluded` (n_columns + 2, n_words), and what the chosen ones cost.

    `missed` (n_columns + 2, n_sets) are the sets that the chosen ones of a node do not hit, so many as `n_missed` says.
    """

    chosen: Any
    excluded: Any
    spent: Any
    missed: Any
    n_missed: Any


class Scratch(NamedTuple):
    """`rows` ROW records; `packed` and `common` (n_rows, n_words); `count` (n_columns,); `used` (n_columns,) flags."""

    rows: Any
    packed: Any
    common: Any
    count: Any
    used: Any


@tiny
def _meets(some, others):
    """Whether two sets have a column in common."""
    both = np.uint64(0)
    for w in range(some.shape[0]):
        both |= some[w] & others[w]
    return both != 0


@tiny
def _rest_size(words, excluded):
    """How many columns of a set are not excluded."""
    size = 0
    for w in range(words.shape[0]):
        size += count_bits(words[w] & ~excluded[w])
    return size


@borrowing
def _least_cost(cost, words, excluded):
    """What the cheapest column of a set costs that is not excluded."""
    least = NEVER
    for w in range(words.shape[0]):
        rest = words[w] & ~excluded[w]
        while rest:
            least = min(least, cost[64 * w + lowest_bit(rest)])
            rest &= rest - np.uint64(1)
    return least


@borrowing
def _count_columns(count, words, excluded):
    """Counts each column of a set that is not excluded once more."""
    for w in range(words.shape[0]):
        rest = words[w] & ~excluded[w]
        while rest:
            count[64 * w + lowest_bit(rest)] += 1
            rest &= rest - np.uint64(1)


@borrowing
def _add_up(count, used, cost, needed):
    """What columns cost at least that count `needed` together: as if parts of columns could be had."""
    total = np.int64(0)
    for e in range(count.shape[0]):
        used[e] = False
    while needed > 0:
        best = -1
        for e in range(count.shape[0]):
            if not used[e] and count[e] > 0 and (best < 0 or count[e] * cost[best] > count[best] * cost[e]):
                best = e
        if best < 0:
            return NEVER
        used[best] = True
        if count[best] < needed:
            total += cost[best]
        else:
            total += (cost[best] * needed + count[best] - 1) // count[best]
        needed -= count[best]
    return total


@borrowing
def _bound_of_all(sets, missed, excluded, scratch, left):
    """What it costs at least to hit all sets, given what is chosen and excluded; 0: they are all hit.

    More than is `left` to spend is enough to know. Fills in `count`, and which set is the smallest.
    """
    count, row = scratch.count, scratch.rows[0]
    packed, largest = scratch.packed[0], 0
    row.size = NEVER
    if missed.shape[0] == 0:
        return np.int64(0)
    for e in range(count.shape[0]):
        count[e] = 0
    for w in range(packed.shape[0]):
        packed[w] = 0
    for i in missed:
        size = _rest_size(sets.words[i], excluded)
        if size == 0:
            return NEVER
        sets.size[i] = size
        largest = max(largest, size)
        _count_columns(count, sets.words[i], excluded)
        if size < row.size:
            row.size, row.set = size, i
    # Sets that have nothing in common are hit by different columns; small ones leave more room for others.
    total, size = np.int64(0), row.size
    while size <= largest and total <= left:
        for i in missed:
            if sets.size[i] == size:
                apart = True
                for w in range(packed.shape[0]):
                    apart &= not (packed[w] & sets.words[i, w] & ~excluded[w])
                if apart:
                    total += _least_cost(sets.cost, sets.words[i], excluded)
                    for w in range(packed.shape[0]):
                        packed[w] |= sets.words[i, w] & ~excluded[w]
        size += 1
    return total if total > left else max(total, _add_up(count, scratch.used, sets.cost, missed.shape[0]))


@borrowing
def _see_sets(sets, missed, excluded, scratch):
    """Finds out what is left to do for each row, and returns how many are lost."""
    rows, lost = scratch.rows, 0
    for r in range(rows.shape[0]):
        rows[r].lost, rows[r].sets, rows[r].least, rows[r].size = False, 0, 0, NEVER
    for i in missed:
        words, r = sets.words[i], sets.owner[i]
        row = rows[r]
        if row.lost:
            continue
        size = _rest_size(words, excluded)
        if size == 0:
            row.lost = True
            lost += 1
            continue
        if row.sets == 0:
            for w in range(words.shape[0]):
                scratch.packed[r, w], scratch.common[r, w] = 0, ~excluded[w]
        row.sets += 1
        apart = True
        for w in range(words.shape[0]):
            apart &= not (scratch.packed[r, w] & words[w] & ~excluded[w])
            scratch.common[r, w] &= words[w]
        if apart:
            row.least += _least_cost(sets.cost, words, excluded)
            for w in range(words.shape[0]):
                scratch.packed[r, w] |= words[w] & ~excluded[w]
        if size < row.size:
            row.size, row.set = size, i
    return lost


@borrowing
def _bound_of_rows(sets, missed, chosen, excluded, scratch, left, may_miss):
    """What it costs at least to hold all rows but so many; 0: they are held. More than is `left` is enough to know."""
    rows, count = scratch.rows, scratch.count
    needed = _see_sets(sets, missed, excluded, scratch) - may_miss
    if needed > 0:
        return NEVER
    for r in range(rows.shape[0]):
        needed += not rows[r].lost and rows[r].sets > 0
    if needed <= 0:
        return np.int64(0)
    cheapest = NEVER
    for e in range(count.shape[0]):
        count[e] = 0
        if not (chosen[e >> 6] | excluded[e >> 6]) >> np.uint64(e & 63) & np.uint64(1):
            cheapest = min(cheapest, sets.cost[e])
    if cheapest > left:
        return cheapest
    is_last = 2 * cheapest > left
    beyond = 2 * cheapest if is_last else NEVER
    for r in range(rows.shape[0]):
        if rows[r].lost or rows[r].sets == 0:
            continue
        if rows[r].least > left:
            beyond = min(beyond, rows[r].least)
        elif is_last:
            _count_columns(count, scratch.common[r], excluded)
        else:
            _count_columns(count, sets.words[rows[r].set], excluded)
    total = _add_up(count, scratch.used, sets.cost, needed)
    return total if total <= left else min(total, beyond)


@borrowing
def _choose(sets, excluded, scratch, of_one_set):
    """The column to branch on: the one that hits most for its cost, of the smallest set or of all that is left."""
    best, count, cost = -1, scratch.count, sets.cost
    words = sets.words[scratch.rows[0].set if of_one_set else 0]
    for e in range(count.shape[0]):
        is_in = not of_one_set or (words[e >> 6] & ~excluded[e >> 6]) >> np.uint64(e & 63) & np.uint64(1)
        if is_in and count[e] > 0 and (best < 0 or count[e] * cost[best] > count[best] * cost[e]):
            best = e
    return best


@door
def take_in(state, sets, path, i):
    """Takes another set in, wherever on the path it is not hit."""
    for d in range(state[0].depth + 1):
        if not _meets(sets.words[i], path.chosen[d]):
            path.missed[d, path.n_missed[d]] = i
            path.n_missed[d] += 1


@door
def go_on(state, sets, path, scratch, max_nodes):
    """Goes on until columns are found that hit enough within the limit, at the node that is next, or there are none.

    The node is looked at again when the search goes on: with more sets, its columns hit less.
    """
    now = state[0]
    for _ in range(max_nodes):
        if now.depth < 0:
            return EXHAUSTED
        now.nodes += 1
        d = now.depth
        chosen, excluded, spent = path.chosen[d], path.excluded[d], path.spent[d]
        left, missed = now.limit - spent, path.missed[d, : path.n_missed[d]]
        if now.may_miss:
            bound = _bound_of_rows(sets, missed, chosen, excluded, scratch, left, now.may_miss)
        else:
            bound = _bound_of_all(sets, missed, excluded, scratch, left)
        if bound > left:
            now.beyond = min(now.beyond, spent + bound)
            now.depth -= 1
            continue
        if bound == 0:
            return CANDIDATE
        e = _choose(sets, excluded, scratch, now.may_miss == 0)
        bit = np.uint64(1) << np.uint64(e & 63)
        for w in range(chosen.shape[0]):
            path.chosen[d + 1, w], path.excluded[d + 1, w] = chosen[w], excluded[w]
        path.chosen[d + 1, e >> 6] |= bit
        path.spent[d + 1] = spent + sets.cost[e]
        n = 0
        for i in missed:
            if not sets.words[i, e >> 6] & bit:
                path.missed[d + 1, n] = i
                n += 1
        path.n_missed[d + 1] = n
        excluded[e >> 6] |= bit
        now.depth += 1
    return PAUSED
