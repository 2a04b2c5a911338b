"""Exact margins of stumps: each is a function of one column, and what an attack does to a column is one choice."""

from __future__ import annotations

from treeproof._kernels.jit import door
from treeproof._kernels.training.reach import NEVER


@door
def least_scores(rows, f, scores, wants, free, paid):
    """Fills the least of wants * score over the places of column f that are free to each row, and over all it can pay.

    `scores` (n_places,) is what all stumps on the column give each place.
    """
    n, missing = rows.n_places[f], rows.n_places[f] - 1
    for i in range(wants.shape[0]):
        values, want = rows.ranges[f, i], wants[i]
        own = NEVER * 1.0
        other = own
        if rows.listed[f] >= 0:
            begin = rows.listed[f] + values.near_low * n
            for place in range(n):
                price = rows.prices[begin + place]
                if price == 0:
                    own = min(own, want * scores[place])
                elif price <= rows.budget and values.high == 1:
                    other = min(other, want * scores[place])
        elif values.near_low == missing:
            own = want * scores[missing]
        else:
            for place in range(values.near_low, values.near_high + 1):
                own = min(own, want * scores[place])
            if rows.cost[f] <= rows.budget:
                for place in range(values.low, values.high + 1):
                    other = min(other, want * scores[place])
        free[i], paid[i] = own, min(own, other)


@door
def best_bargains(gains, costs, budget, most, worst):
    """Fills `worst` (n,): the most that gains (n, n_columns) add up to, where the columns cost at most a budget.

    `most` (budget + 1,) is scratch: the most that can be had for each price.
    """
    for i in range(gains.shape[0]):
        for price in range(budget + 1):
            most[price] = 0.0
        for f in range(gains.shape[1]):
            if gains[i, f] <= 0.0:
                continue
            for price in range(budget, costs[f] - 1, -1):
                most[price] = max(most[price], most[price - costs[f]] + gains[i, f])
        worst[i] = most[budget]
