"""Which leaves of a tree an attack brings each row to, and the leaf scores of least loss under attack."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from treeproof._kernels.jit import borrowing, door
from treeproof._kernels.training.reach import NEVER, price_at
from treeproof._kernels.training.scores import best_score, clip

LEAF = -1


class Tree(NamedTuple):
    """A tree whose nodes know what is left of the column that is tested before them."""

    feature: Any  # (n_nodes,): LEAF for a leaf
    left: Any
    right: Any
    edges: Any  # (n_nodes,) of EDGE; that of the root is not used
    prices: Any  # of all kinds of rows, where edges test listed columns


class Reached(NamedTuple):
    """The leaves that rows can be brought to, row by row, and the rows of each leaf."""

    start: Any  # (n + 1,): those of row i are from start[i] to start[i + 1]
    leaves: Any
    paid: Any  # with each of these, the columns that the cheapest attack that leads there pays for, as bits
    row_start: Any  # (n_leaves + 1,)
    rows: Any


@borrowing
def _prices(rows, tree, i, node):
    """What the column that is tested before a node costs row i there, and what it cost before that test."""
    edge = tree.edges[node]
    f = edge.feature
    here = price_at(rows, f, i, edge.extent, tree.prices, edge.priced)
    return here, price_at(rows, f, i, edge.before, tree.prices, edge.priced_before)


@door
def reached_leaves(rows, bits, tree, numbers, i_first, i_last, start, found, paid, stack, spent, bought):
    """Fills `found` with the leaves, by their `numbers`, that each row from i_first to i_last can be brought to.

    Those of row i are from start[i] to start[i + 1]; `paid` are the `bits` (n_features,) of columns that are paid for
    then. Returns how many there are, or the row at which there is no more room, as a negative number less one. `stack`,
    `spent` and `bought` are scratch.
    """
    n = start[i_first]
    for i in range(i_first, i_last):
        begin = n
        stack[0], spent[0], bought[0], height = 0, 0, 0, 1
        while height > 0:
            height -= 1
            node, price, mask = stack[height], spent[height], bought[height]
            if tree.feature[node] == LEAF:
                if n == found.shape[0]:
                    start[i] = begin
                    return -i - 1
                found[n], paid[n] = numbers[node], mask
                n += 1
                continue
            for child in (tree.right[node], tree.left[node]):
                here, before = _prices(rows, tree, i, child)
                if here != NEVER and price + here - before <= rows.budget:
                    bit = bits[tree.edges[child].feature]
                    stack[height], spent[height] = child, price + here - before
                    bought[height] = mask | bit if here > 0 else mask
                    height += 1
        start[i + 1] = n
    return n


@door
def worst_scores(reached, sets, scores, wants, worst):
    """Fills `worst` (n, n_sets): the least of wants[i] * score over the leaves that each set of columns pays for."""
    for i in range(wants.shape[0]):
        for s in range(sets.shape[0]):
            worst[i, s] = math.inf
        for k in range(reached.start[i], reached.start[i + 1]):
            score = wants[i] * scores[reached.leaves[k]]
            for s in range(sets.shape[0]):
                if reached.paid[k] & ~sets[s] == 0 and score < worst[i, s]:
                    worst[i, s] = score


@borrowing
def _bucket(reached, rank, group, scores, wants, weight, mine, totals):
    """Adds up the weights of rows that reach the group `mine`, by target and by the worst of their other leaves.

    `totals` (2, n_leaves + 1): by the rank of that leaf's score; the last entry is for rows that have no others.
    """
    n = scores.shape[0]
    for side in range(2):
        for r in range(n + 1):
            totals[side, r] = 0.0
    for leaf in range(n):
        if group[leaf] != mine:
            continue
        for at in range(reached.row_start[leaf], reached.row_start[leaf + 1]):
            i = reached.rows[at]
            first, other = -1, -1
            for k in range(reached.start[i], reached.start[i + 1]):
                its = reached.leaves[k]
                if group[its] == mine:
                    first = its if first < 0 else first
                elif other < 0 or wants[i] * scores[its] < wants[i] * scores[other]:
                    other = its
            # A row that reaches several leaves of the group counts once.
            if first == leaf:
                totals[1 if wants[i] > 0.0 else 0, n if other < 0 else rank[other]] += weight[i]


@borrowing
def _best_of_group(totals, order, scores, terms, smoothing):
    """The score of least loss of a group, where rows also have other leaves; the loss is convex in it.

    A row of target 1 counts while the score is below that of its worst other leaf, one of target 0 while it is above.
    Between two scores of other leaves it is the same rows that count.
    """
    n = scores.shape[0]
    ones, zeros = smoothing, smoothing + totals[0, n]
    for r in range(n + 1):
        ones += totals[1, r]
    # From the lowest score upward: at each interval, where would the minimum be?
    low = terms.low
    for r in range(n + 1):
        high = terms.high if r == n else clip(scores[order[r]], terms.low, terms.high)
        if high > low or r == n:
            best = low if ones + zeros <= 0.0 else best_score(terms.loss, ones, zeros)
            if best <= high:
                return max(best, low)
            low = high
        if r < n:
            ones -= totals[1, r]
            zeros += totals[0, r]
    return terms.high


@door
def refit_leaves(reached, scores, wants, weight, terms, rounds, group, rank, order, totals):
    """Improves the scores of leaves, one after the other, then of leaves with equal scores together.

    A row loses what it does at the worst of its leaves, where `wants` times the score is least, and every leaf what
    smoothing adds; each step finds the minimum in one score. `group`, `rank`, `order` and `totals` are scratch.
    """
    n = scores.shape[0]
    for step in range(2 * rounds):
        for leaf in range(n):
            group[leaf] = leaf
            if step % 2 == 1:
                for other in range(leaf):
                    if scores[other] == scores[leaf]:
                        group[leaf] = group[other]
                        break
        for mine in range(n):
            if group[mine] != mine:
                continue
            size = 0
            for leaf in range(n):
                size += group[leaf] == mine
            if step % 2 == 1 and size == 1:
                continue
            for leaf in range(n):
                place = 0
                for other in range(n):
                    if scores[other] < scores[leaf] or (scores[other] == scores[leaf] and other < leaf):
                        place += 1
                rank[leaf], order[place] = place, leaf
            _bucket(reached, rank, group, scores, wants, weight, mine, totals)
            best = _best_of_group(totals, order, scores, terms, terms.smoothing * size)
            for leaf in range(n):
                if group[leaf] == mine:
                    scores[leaf] = best
