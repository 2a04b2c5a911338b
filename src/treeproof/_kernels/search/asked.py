"""What is asked about rows, where each of them can be and at what price, and who may end the search."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing
from treeproof._kernels.model import is_valid, label_of_cells
from treeproof._kernels.search.exact import point_is_dear
from treeproof._kernels.search.region import INFINITE, copy_cells

# What is known about a row. HARD: a race took too long, and costlier bounds are worth a try.
SAFE = 0
BROKEN = 1
UNDECIDED = 2
HARD = 3

# Local never has a larger budget than 1e307: a hundred million of these.
MAX_PRICE = 1e299

# Below it, products of doubles may be rounded by more than a share of themselves.
TINY_PRICE = 2.0**-1000

TRACE = 2.0**-42
"""The share of a price that two sums of the same prices, rounded in different orders, surely differ by less than."""

REACH = np.dtype(
    [
        ("near_low", "i4"),
        ("near_high", "i4"),  # the cells of N(x)
        ("reach_low", "i4"),
        ("reach_high", "i4"),  # those that a paid move can end in, if any: else low > high
        ("own", "i4"),  # x's own, -1 for NaN
    ],
    align=True,
)
"""Where one feature of one row can be."""


class Prices(NamedTuple):
    """What moves cost. `start` (n_features + 1,) are the features' first entries in a table over all cells.

    `cost` (n_features,) is the price of any cell that is reached and not `blocked` (n_cells,; empty: none is). With
    `power` above 0 prices are distances in the feature's `unit` (n_features,) to that power instead, rounded down, from
    `near_low` and `near_high` (n_rows, n_features) to the `lowest` and `highest` (n_cells,) double of a cell. Features
    with a place in `at` (n_features,; -1: none) have prices of their own instead, any, in `table` (n_rows, n) from
    there on. `budget` (n_rows,) is what each row's attacker can spend, and `group_budget` (n_groups,) what he can spend
    on the features of a `group` (n_features,; -1: none). Where `flat`, a feature costs the same wherever it goes. The
    `exact` prices are those of the only row, if they are known at all.
    """

    start: Any
    cost: Any
    blocked: Any
    power: Any
    unit: Any
    near_low: Any
    near_high: Any
    lowest: Any
    highest: Any
    at: Any
    table: Any
    budget: Any
    group: Any
    group_budget: Any
    limited: Any
    flat: Any
    exact: Any


class Asked(NamedTuple):
    """Does the label of a row hold on all its affordable cells? `reach` (n_rows, n_features) are REACH records.

    `unaffordable` (n_rows, n, n_features) are cells that cost more than the rounded prices say. If the `cheapest`
    counterexample is asked for, a search goes on until there is none at a lower price; a row is SAFE when it is done.
    Only labels of the `goal` (n_classes,) are what the attacker wants. What valid rows keep are `sums`.
    """

    reach: Any
    prices: Any
    labels: Any
    unaffordable: Any
    cheapest: Any
    goal: Any
    sums: Any


class Found(NamedTuple):
    """Per row its `status`, the `cells` and the `price` of a counterexample (infinite if there is none yet), the number
    of `boxes`, which classes are `open`, and the greatest `lead` of each that a hunt came to. Where valid rows keep
    sums, any row of `around` (n_rows, n_features), CELLS records, that does so is a counterexample.
    """

    status: Any
    cells: Any
    around: Any
    price: Any
    boxes: Any
    open: Any
    lead: Any


class Watch(NamedTuple):
    """`progress[0]` is the row under way plus 1; `stop[0]` set to that abandons the row, negative all that is left.

    `stop[1]` counts the looks at it, and after `stop[2]` of them the search ends by itself.
    """

    stop: Any
    progress: Any


class Question(NamedTuple):
    """What a counterexample is held against, and where it goes; the row under way is `watch.progress[0] - 1`.

    `cells` (n_features,) and `scores` are scratch: a point that may be a counterexample, and what it is given.
    `unaffordable` (n_rows, n, n_features) are points that are none. `kept` (n_rows, n_features) and `price` (n_rows,)
    are what is found, and `around` what else would be. `close`: that a class is ahead of the label does not yet tell
    which one wins. What shows that there is none is written to `proof`.
    """

    model: Any
    exact: Any
    watch: Any
    unaffordable: Any
    cheapest: Any
    goal: Any
    close: Any
    sums: Any
    kept: Any
    around: Any
    price: Any
    scores: Any
    cells: Any
    proof: Any


def question_about(model, exact, asked, found, watch, proof):
    """The question with its scratch. Such things are made in Python: numba would compile for each type of array."""
    scores = np.empty(len(exact.base), exact.leaf_scores.dtype)
    has_sums = len(asked.sums.bound) > 0
    close = model.slack > 0 or (len(asked.goal) > 2 and not asked.goal.all())
    return Question(
        model, exact, watch, asked.unaffordable, asked.cheapest, asked.goal, close or has_sums, asked.sums,
        found.cells, found.around, found.price, scores, np.empty(asked.reach.shape[1], np.int32), proof,
    )  # fmt: skip


@borrowing
def is_unaffordable(unaffordable, row, cells):
    """Whether these cells are known to cost too much for the row."""
    for k in range(unaffordable.shape[1]):
        same = True
        for f in range(cells.shape[0]):
            same &= unaffordable[row, k, f] == cells[f]
        if same:
            return True
    return False


@borrowing
def _only_below(region, price):
    """From now on, only what costs less than this can be paid for: whole numbers, or all but a trace; 0 is least."""
    whole = region.whole or price == 0.0
    region.budget[0] = min(region.budget[0], price - 0.5 if whole else price * (1.0 - TRACE))


@borrowing
def price_of_cells(region, cells):
    """What a point costs, where prices matter: a sum of its own, since differences of prices would add up errors."""
    price = 0.0
    for f in range(cells.shape[0]):
        if cells[f] >= 0:
            price += region.price[region.ranges[f].start + cells[f]]
    return price


@borrowing
def can_pay(region, cells):
    """Whether a point can be paid for, where prices matter."""
    for g in range(region.groups.shape[0]):
        if _group_price(region, cells, g) > region.groups[g].budget:
            return False
    spent = price_of_cells(region, cells)
    return spent <= region.budget[0] and not point_is_dear(region, cells, spent)


@borrowing
def _group_price(region, cells, g):
    """What a point costs on the features of a group."""
    price = 0.0
    for f in range(cells.shape[0]):
        if region.ranges[f].group == g and cells[f] >= 0:
            price += region.price[region.ranges[f].start + cells[f]]
    return price


@borrowing
def group_can_pay(region, cells, f, price):
    """Whether the group of a feature, if any, could still pay if the feature cost this much."""
    g = np.int64(region.ranges[f].group)
    if g < 0:
        return True
    here = region.price[region.ranges[f].start + cells[f]]
    return _group_price(region, cells, g) - here + price <= region.groups[g].budget


@borrowing
def is_attack(question, label):
    """Whether the cells of the question are a valid row with another label, one that the attacker wants."""
    now = label_of_cells(question.model, question.exact, question.cells, question.scores)
    return now != label and question.goal[now] and is_valid(question.model, question.cells)


@borrowing
def take(question, region):
    """Keeps the cells of the question as a counterexample; returns whether that ends the search."""
    row = question.watch.progress[0] - 1
    for f in range(question.cells.shape[0]):
        question.kept[row, f] = question.cells[f]
    if question.sums.bound.shape[0] > 0:
        copy_cells(question.sums.box, question.around[row])
    if question.cheapest:
        price = price_of_cells(region, question.cells)
        question.price[row] = price
        _only_below(region, price)
    return not question.cheapest


@borrowing
def needed_lead(slack, other, label):
    """The least lead of a class with which the label may be another one."""
    return -slack if slack > 0 else np.int64(0 if other < label else 1)


@borrowing
def _distance_price(low, high, unit, power):
    """((high - low) / unit) ** power, rounded down for sure."""
    distance = high - low
    # A distance may be too large for a double, and not so in its unit.
    distance = distance / unit if distance < INFINITE else high / unit - low / unit
    # Each factor carries at most three roundings, of at most 2**-53 of the value.
    price = distance * (1.0 - 2.0**-51)
    result = price
    for _ in range(power - 1):
        result *= price
        result *= 1.0 - 2.0**-51
    if result < TINY_PRICE:
        return 0.0
    # What is too large for a double is not out of reach, and sums of prices must not be either.
    return min(result, MAX_PRICE)


@borrowing
def fill_region(asked, price_found, row, region):
    """Where the row can be, and at what price; below that of what was found."""
    reach, prices, price = asked.reach, asked.prices, region.price
    region.budget[0] = prices.budget[row]
    if price_found[row] < INFINITE:
        _only_below(region, price_found[row])
    for f in range(region.ranges.shape[0]):
        cells, at = region.ranges[f], reach[row, f]
        cells.own, cells.start, cells.group, cells.growing = at.own, prices.start[f], prices.group[f], prices.at[f] < 0
        cells.near_low, cells.near_high = cells.low, cells.high = at.near_low, at.near_high
        if at.reach_low <= at.reach_high:
            cells.low, cells.high = min(at.near_low, at.reach_low), max(at.near_high, at.reach_high)
        if not region.limited or at.own < 0:  # a missing value has no cells, and stays what it is
            continue
        for c in range(cells.low, cells.high + 1):
            k = cells.start + c
            if prices.at[f] >= 0:
                price[k] = prices.table[row, prices.at[f] + c]
            elif at.near_low <= c <= at.near_high:
                price[k] = 0.0
            elif not at.reach_low <= c <= at.reach_high or (prices.blocked.shape[0] > 0 and prices.blocked[k]):
                price[k] = INFINITE
            elif prices.power == 0:
                price[k] = prices.cost[f]
            elif c > at.near_high:
                price[k] = _distance_price(prices.near_high[row, f], prices.lowest[k], prices.unit[f], prices.power)
            else:
                price[k] = _distance_price(prices.highest[k], prices.near_low[row, f], prices.unit[f], prices.power)
