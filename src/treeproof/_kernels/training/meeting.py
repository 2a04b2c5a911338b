"""Pairs of rows of different classes that attacks can make alike: is there a row that both can become?

Rows are sorted by one column, so that those out of each other's reach there are never compared. In each column, two
rows have a few ways to meet, each with what it costs one and the other; ways are chosen column by column so that
neither spends more than its budgets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing, door

NEVER = 2**40
"""The price of what no attack does."""

# What can be done to a column. Values that differ pay `least` together, or more, to meet. A listed column has a table
# of ways to meet, by the kinds of two values; else -1. The rest is for an Lp attacker.
COLUMN = np.dtype(
    [
        *[(name, "i8") for name in ("cost", "blank", "fill", "least", "group", "listed", "n_kinds")],
        *[("unit", "f8"), ("up", "?"), ("down", "?")],
    ],
    align=True,
)

# A row's value of a column: near_low to near_high, its own or those of its neighbours, cost nothing; low to high cost
# what the column does (inf to -inf: nothing). Values on different lines never meet. In a listed column, values on the
# same line are the same. The kind is MISSING or STILL, or both; in a listed column it is a row of the table.
VALUE = np.dtype(
    [("near_low", "f8"), ("near_high", "f8"), ("low", "f8"), ("high", "f8"), ("line", "i4"), ("kind", "i4")]
)
MISSING, STILL = 1, 2

APART, ALIKE, DOUBTFUL = 0, 1, 2


class Reaches(NamedTuple):
    """Rows in the order of one column, and what attacks make of each."""

    columns: Any  # (n_columns,) of COLUMN
    values: Any  # (n_columns, n) of VALUE
    first: Any  # (n,): where the row begins in the column that all are sorted by
    last: Any  # (n,): where it ends there
    label: Any  # (n,)
    side: Any  # (n,): rows on the same side meet only if they are the same
    own: Any  # (n,): the same number for rows that are the same
    still: Any  # (n,): whether nobody attacks the row
    tables: Any  # of listed columns: for two kinds the number of their ways
    begin: Any  # where these begin in `ways`
    ways: Any  # (n_ways, 2): what the one and the other row pays
    budget: Any
    group_budget: Any  # (n_groups,)
    power: Any  # of an Lp attacker, or 0
    error: Any  # a bound of the relative error of prices that are computed for one


class Scratch(NamedTuple):
    """Room to work in."""

    ways: Any  # (n_columns, most, 2)
    n_ways: Any  # (n_columns,)
    spent: Any  # (4, budget + 1)


@borrowing
def _overlap(a_low, a_high, b_low, b_high):
    return max(a_low, b_low) <= min(a_high, b_high)


@borrowing
def _is_hopeless(reaches, i, j):
    """A quick look: whether some column keeps two rows apart, or so many do that no budget pays for all."""
    least = 0
    for c in range(reaches.columns.shape[0]):
        column, a, b = reaches.columns[c], reaches.values[c, i], reaches.values[c, j]
        if column.listed >= 0:
            if a.line == b.line:
                continue
        else:
            if a.line == b.line and a.near_low <= b.near_high and b.near_low <= a.near_high:
                continue
            if (a.kind & b.kind & MISSING) != 0:
                continue
            if column.blank == NEVER and column.fill == NEVER:
                # Without missing values, all that a value can be lies between two ends.
                below = min(a.near_low, a.low) <= max(b.near_high, b.high)
                if not (below and min(b.near_low, b.low) <= max(a.near_high, a.high) and a.line == b.line):
                    return True
        least += column.least
        if least > 2 * reaches.budget:
            return True
    return False


@borrowing
def _add_way(ways, n, one, other):
    ways[n, 0], ways[n, 1] = one, other
    return n + 1


@borrowing
def _ways_of_ranges(column, a, b, ways):
    """Fills `ways` with what two values pay to meet, and returns how many ways there are; (0, 0) is the only one."""
    a_missing, b_missing = (a.kind & MISSING) != 0, (b.kind & MISSING) != 0
    a_still, b_still = (a.kind & STILL) != 0, (b.kind & STILL) != 0
    n = 0
    if a_missing and b_missing:
        return _add_way(ways, n, 0, 0)
    if a_missing or b_missing:
        if column.blank != NEVER and not (b_still if a_missing else a_still):
            n = _add_way(ways, n, 0 if a_missing else column.blank, column.blank if a_missing else 0)
        if column.fill != NEVER and a.line == b.line and not (a_still if a_missing else b_still):
            n = _add_way(ways, n, column.fill if a_missing else 0, 0 if a_missing else column.fill)
        return n
    if a.line == b.line:
        if _overlap(a.near_low, a.near_high, b.near_low, b.near_high):
            return _add_way(ways, n, 0, 0)
        if _overlap(a.near_low, a.near_high, b.low, b.high):
            n = _add_way(ways, n, 0, column.cost)
        if _overlap(a.low, a.high, b.near_low, b.near_high):
            n = _add_way(ways, n, column.cost, 0)
        if n == 0 and _overlap(a.low, a.high, b.low, b.high):
            n = _add_way(ways, n, column.cost, column.cost)
    if column.blank != NEVER and not a_still and not b_still:
        n = _add_way(ways, n, column.blank, column.blank)
    return n


@borrowing
def _ways_of_kinds(reaches, column, a, b, ways):
    """The same for values of a listed column."""
    if a.line == b.line:
        return _add_way(ways, 0, 0, 0)
    number = reaches.tables[column.listed + a.kind * column.n_kinds + b.kind]
    n = 0
    for k in range(reaches.begin[number], reaches.begin[number + 1]):
        n = _add_way(ways, n, reaches.ways[k, 0], reaches.ways[k, 1])
    return n


@borrowing
def _can_meet(reaches, i, j, scratch):
    """Whether attacks make rows i and j alike, where each column is met in one of its ways, within all budgets."""
    budget, least_one, least_other, least_both = reaches.budget, 0, 0, 0
    greedy_one, greedy_other = 0, 0
    for c in range(reaches.columns.shape[0]):
        column, a, b, ways = reaches.columns[c], reaches.values[c, i], reaches.values[c, j], scratch.ways[c]
        n = _ways_of_ranges(column, a, b, ways) if column.listed < 0 else _ways_of_kinds(reaches, column, a, b, ways)
        if n == 0:
            return False
        scratch.n_ways[c] = n
        one, other, both, chosen = ways[0, 0], ways[0, 1], ways[0, 0] + ways[0, 1], 0
        for k in range(1, n):
            one, other = min(one, ways[k, 0]), min(other, ways[k, 1])
            both = min(both, ways[k, 0] + ways[k, 1])
            if max(greedy_one + ways[k, 0], greedy_other + ways[k, 1]) < max(
                greedy_one + ways[chosen, 0], greedy_other + ways[chosen, 1]
            ):
                chosen = k
        least_one, least_other, least_both = least_one + one, least_other + other, least_both + both
        if least_one > budget or least_other > budget or least_both > 2 * budget:
            return False
        greedy_one, greedy_other = greedy_one + ways[chosen, 0], greedy_other + ways[chosen, 1]
    if greedy_one == 0 and greedy_other == 0:
        return True
    if reaches.group_budget.shape[0] == 0 and greedy_one <= budget and greedy_other <= budget:
        return True
    return _fits_budgets(reaches, scratch)


@borrowing
def _fits_budgets(reaches, scratch):
    """Whether some choice of the ways found keeps all budgets: the least that the other spends, for each of the one."""
    _start(scratch.spent[0], reaches.budget)
    for c in range(reaches.columns.shape[0]):
        if reaches.columns[c].group < 0:
            _add_column(scratch, c, 0, reaches.budget)
    for group in range(reaches.group_budget.shape[0]):
        budget = min(reaches.group_budget[group], reaches.budget)
        _start(scratch.spent[2], budget)
        for c in range(reaches.columns.shape[0]):
            if reaches.columns[c].group == group:
                _add_column(scratch, c, 2, budget)
        _add_group(scratch, budget, reaches.budget)
    least = NEVER
    for one in range(reaches.budget + 1):
        least = min(least, scratch.spent[0, one])
    return least <= reaches.budget


@borrowing
def _start(spent, budget):
    """Nothing is spent."""
    for one in range(budget + 1):
        spent[one] = 0 if one == 0 else NEVER


@borrowing
def _add_column(scratch, c, place, budget):
    """Adds a column to what is spent in `place`; the place after it is scratch."""
    spent, after = scratch.spent[place], scratch.spent[place + 1]
    if scratch.n_ways[c] == 1 and scratch.ways[c, 0, 0] == 0 and scratch.ways[c, 0, 1] == 0:
        return
    for one in range(budget + 1):
        after[one] = NEVER
    for k in range(scratch.n_ways[c]):
        pays, other_pays = scratch.ways[c, k, 0], scratch.ways[c, k, 1]
        for one in range(budget + 1 - pays):
            other = spent[one] + other_pays
            if other <= budget:
                after[one + pays] = min(after[one + pays], other)
    for one in range(budget + 1):
        spent[one] = after[one]


@borrowing
def _add_group(scratch, group_budget, budget):
    """Adds what a group spends to what all others do."""
    spent, after, group = scratch.spent[0], scratch.spent[1], scratch.spent[2]
    for one in range(budget + 1):
        after[one] = NEVER
    for pays in range(group_budget + 1):
        if group[pays] <= group_budget:
            for one in range(budget + 1 - pays):
                other = spent[one] + group[pays]
                if other <= budget:
                    after[one + pays] = min(after[one + pays], other)
    for one in range(budget + 1):
        spent[one] = after[one]


@borrowing
def _power(number, power):
    result = number
    for _ in range(power - 1):
        result *= number
    return result


@borrowing
def _gaps(reaches, i, j, owed):
    """What rows i and j owe for gaps that only one of them can close, and for the others together; False: they cannot.

    `owed` (3,): of i, of j, and of gaps that both can close. Distances are in units of the radius, so the limit is 1.
    """
    owed[0], owed[1], owed[2] = 0.0, 0.0, 0.0
    for c in range(reaches.columns.shape[0]):
        column, a, b = reaches.columns[c], reaches.values[c, i], reaches.values[c, j]
        a_missing, b_missing = (a.kind & MISSING) != 0, (b.kind & MISSING) != 0
        if a_missing or b_missing:
            if a_missing and b_missing:
                continue
            return False
        if _overlap(a.near_low, a.near_high, b.near_low, b.near_high):
            continue
        below = a.near_high < b.near_low
        gap = b.near_low - a.near_high if below else a.near_low - b.near_high
        a_goes = (column.up if below else column.down) and not reaches.still[i]
        b_goes = (column.down if below else column.up) and not reaches.still[j]
        if not a_goes and not b_goes:
            return False
        owed[2 if a_goes and b_goes else 0 if a_goes else 1] += _power(gap / column.unit, reaches.power)
        if owed[0] * (1.0 - reaches.error) > 1.0 or owed[1] * (1.0 - reaches.error) > 1.0:
            return False
    return True


@borrowing
def _share(reaches, owed, i, j, error):
    """The part that row i has in what both can still pay, and that in all; `error` is added to what is left."""
    root = 1.0 / reaches.power
    left = 0.0 if reaches.still[i] else max(1.0 + error - owed[0] * (1.0 - error), 0.0) ** root
    other = 0.0 if reaches.still[j] else max(1.0 + error - owed[1] * (1.0 - error), 0.0) ** root
    return (left / (left + other) if left + other > 0.0 else 0.0), left + other


@borrowing
def _meet_in_balls(reaches, i, j, owed):
    """Whether the balls of an Lp attacker around rows i and j meet: APART and ALIKE are certain."""
    if not _gaps(reaches, i, j, owed):
        return APART
    error = reaches.error
    part, most = _share(reaches, owed, i, j, error)
    if (owed[2] * (1.0 - error)) ** (1.0 / reaches.power) * (1.0 - error) > most * (1.0 + error):
        return APART
    # A row between them, rounded to doubles, and what it really costs both.
    one, other = 0.0, 0.0
    for c in range(reaches.columns.shape[0]):
        column, a, b = reaches.columns[c], reaches.values[c, i], reaches.values[c, j]
        if (a.kind & MISSING) != 0 or _overlap(a.near_low, a.near_high, b.near_low, b.near_high):
            continue
        below = a.near_high < b.near_low
        start, end = (a.near_high, b.near_low) if below else (a.near_low, b.near_high)
        a_goes = (column.up if below else column.down) and not reaches.still[i]
        b_goes = (column.down if below else column.up) and not reaches.still[j]
        here = start + part * (end - start) if a_goes and b_goes else end if a_goes else start
        here = min(max(here, min(start, end)), max(start, end))
        one += _power(abs(here - start) / column.unit, reaches.power)
        other += _power(abs(end - here) / column.unit, reaches.power)
    if one * (1.0 + error) <= 1.0 and other * (1.0 + error) <= 1.0:
        return ALIKE
    return DOUBTFUL


@door
def meeting_pairs(reaches, begin, most, most_compared, scratch, owed, pairs, counts):
    """Fills `pairs` (m, 2) with rows that attacks make alike, from row `begin` on, at most `most` later ones per row.

    Returns the row to go on from: where there is no more room, or enough rows were compared. counts: of pairs that are
    listed, of those that are alike, and of all, with doubtful ones. Such a pair has its first row as a negative number
    less one.
    """
    n = reaches.label.shape[0]
    counts[0], counts[1], counts[2], compared = 0, 0, 0, 0
    for i in range(begin, n):
        if counts[0] + min(most, n - i) > pairs.shape[0] or compared > most_compared:
            return i
        kept = 0
        for j in range(i + 1, n):
            compared += 1
            if reaches.first[j] > reaches.last[i]:
                break
            if reaches.label[i] == reaches.label[j]:
                continue
            if reaches.side[i] == reaches.side[j]:
                outcome = ALIKE if reaches.own[i] == reaches.own[j] else APART
            elif _is_hopeless(reaches, i, j):
                continue
            elif reaches.power > 0:
                outcome = _meet_in_balls(reaches, i, j, owed)
            else:
                outcome = ALIKE if _can_meet(reaches, i, j, scratch) else APART
            if outcome == APART:
                continue
            counts[1] += outcome == ALIKE
            counts[2] += 1
            if kept < most:
                pairs[counts[0], 0], pairs[counts[0], 1] = (i if outcome == ALIKE else -i - 1), j
                counts[0] += 1
                kept += 1
    return n
