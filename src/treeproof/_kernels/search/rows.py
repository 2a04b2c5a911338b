"""The search over many rows: regions and prices from numbers, then one race after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import doubled, sort_down
from treeproof._kernels.jit import borrowing, entry, merged
from treeproof._kernels.search.balance import balanced, promising, sort_again
from treeproof._kernels.search.branch import (
    BROKEN,
    OUT_OF_BOXES,
    SAFE,
    SEARCH,
    TOO_CLOSE,
    UNDECIDED,
    Question,
    price_elsewhere,
    run_race,
)
from treeproof._kernels.search.race import build_race, root_lead
from treeproof._kernels.search.region import COST, FRAME, INFINITE, OPEN_NODE, RANGE, Part, Region, restrict
from treeproof._kernels.search.trial import revive

# Local never has a larger budget than 1e307: a hundred million of these.
MAX_PRICE = 1e299

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

CELLS = np.dtype([("low", "i4"), ("high", "i4")], align=True)
"""The cells of a feature in a region that waits to be searched."""


class Prices(NamedTuple):
    """What moves cost. `start` (n_features + 1,) are the features' first entries in a table over all cells.

    `cost` (n_features,) is the price of any cell that is reached. With `power` above 0 prices are distances to that
    power instead, rounded down, from `near_low` and `near_high` (n_rows, n_features) to the `lowest` and `highest`
    (n_cells,) double of a cell. A `table` (1, n_cells) replaces both.
    """

    start: Any
    cost: Any
    power: Any
    near_low: Any
    near_high: Any
    lowest: Any
    highest: Any
    table: Any
    budget: Any
    limited: Any


@borrowing
def _distance_price(distance, power):
    """distance ** power, rounded down for sure; `distance` carries one rounding of its own."""
    # Each of the 2 * power roundings takes off less than 2**-52 of the value.
    price = distance * (1.0 - 2.0**-51)
    result = price
    for _ in range(power - 1):
        result *= price
        result *= 1.0 - 2.0**-51
    # What is too large for a double is not out of reach, and sums of prices must not be either.
    return min(result, MAX_PRICE)


@borrowing
def _fill_region(reach, prices, row, region):
    price = region.price
    has_table = prices.table.shape[0] > 0
    for f in range(region.ranges.shape[0]):
        cells, at = region.ranges[f], reach[row, f]
        cells.own, cells.start = at.own, prices.start[f]
        cells.near_low, cells.near_high = cells.low, cells.high = at.near_low, at.near_high
        if at.reach_low <= at.reach_high:
            cells.low, cells.high = min(at.near_low, at.reach_low), max(at.near_high, at.reach_high)
        if not region.limited or at.own < 0:  # a missing value has no cells, and stays what it is
            continue
        for c in range(cells.low, cells.high + 1):
            k = cells.start + c
            if at.near_low <= c <= at.near_high:
                price[k] = 0.0
            elif has_table:
                price[k] = prices.table[0, k]
            elif not at.reach_low <= c <= at.reach_high:
                price[k] = INFINITE
            elif prices.power == 0:
                price[k] = prices.cost[f]
            elif c > at.near_high:
                price[k] = _distance_price(prices.lowest[k] - prices.near_high[row, f], prices.power)
            else:
                price[k] = _distance_price(prices.near_low[row, f] - prices.highest[k], prices.power)


@entry
def search_rows(model, exact, reach, prices, labels, unaffordable, patience, stop, progress, status, cells, n_boxes):
    """Per row: does the label hold on all its affordable cells? Fills status, counterexample cells and box counts.

    `reach` (n_rows, n_features) are REACH records. A row that is not decided after about `patience` boxes is searched
    with balanced bounds (`_divide`). `progress[0]` is the row under way plus 1; `stop[0]` set to that number abandons
    the row, negative all that is left.
    """
    n_rows, n_features = reach.shape
    n_nodes, n_cells = model.nodes.shape[0], prices.start[n_features]
    region = Region(
        np.empty(n_features, RANGE), np.empty(n_cells if prices.limited else 1), prices.budget, prices.limited,
        prices.power == 0, n_cells,
    )  # fmt: skip
    # A leaf has at most one price per test on its path.
    max_costs = n_nodes * (model.depth + 1) if prices.limited else 1
    part = Part(
        np.empty(n_nodes + 2, OPEN_NODE),
        np.empty(model.roots.shape[0] + 1, np.int32),
        np.empty(max_costs, COST),
        np.empty(model.depth + 1, FRAME),
    )
    scores = np.empty(exact.base.shape[0], exact.leaf_scores.dtype)
    search = np.zeros(1, SEARCH)
    for row in range(n_rows):
        if stop[0] < 0:
            return
        progress[0] = row + 1
        _fill_region(reach, prices, row, region)
        restrict(model, region, part)
        question = Question(model, exact, scores, unaffordable, cells[row], stop)
        search[0].label, search[0].ticket = labels[row], row + 1
        status[row], n_boxes[row] = _search_row(search[0], question, region, part, patience)
    progress[0] = n_rows + 1


@merged
def _search_row(search, question, region, part, patience):
    """One row: every other class in turn, the one with the largest lead first."""
    model, label = question.model, search.label
    n_classes = model.value.shape[1]
    boxes = 0
    leads, needs = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for other in range(n_classes):
        needs[other] = -model.slack if model.slack > 0 else (0 if other < label else 1)
        leads[other] = np.int64(-(2**62))
        if other != label:
            leads[other] = model.offset[other] - model.offset[label] + root_lead(part, model.value, other, label)
    # Where a feature costs the same wherever it goes, paying for features one by one settles most rows.
    quick = 16 * patience if region.limited and region.flat else patience
    whole = True
    order = np.empty(n_classes, np.int32)
    sort_down(leads, n_classes, order)
    for other in order:
        if other == label or leads[other] < needs[other]:
            continue
        if not whole:
            restrict(model, region, part)
            whole = True
        for close in (False, True):
            race, search.constant = build_race(part, model, region, other, label, close)
            revive(race)
            search.needed, search.max_boxes, search.climb = needs[other], quick, True
            found = run_race(search, question, region, part, race)
            boxes += search.boxes
            if found != TOO_CLOSE:
                break
        if found == OUT_OF_BOXES:
            found, used = _divide(search, question, region, part, other, needs[other], patience)
            boxes += used
            whole = False
        if found in (BROKEN, UNDECIDED):
            return found, boxes
    return SAFE, boxes


@borrowing
def _copy_cells(source, target):
    for f in range(source.shape[0]):
        target[f].low, target[f].high = source[f].low, source[f].high


@merged
def _divide(search, question, region, part, other, needed, patience):
    """A hard race: regions are balanced, searched for a while, and cut in two where that was not enough."""
    model, label = question.model, search.label
    piece = Region(region.ranges.copy(), region.price, region.budget, region.limited, region.flat, region.n_cells)
    todo = np.empty((16, region.ranges.shape[0]), CELLS)
    rates = np.full(16, -1.0 if region.limited else 0.0)
    _copy_cells(piece.ranges, todo[0])
    n_todo, boxes, found = 1, 0, SAFE
    while n_todo > 0 and found not in (BROKEN, UNDECIDED):
        n_todo -= 1
        _copy_cells(todo[n_todo], piece.ranges)
        if question.stop[0] == search.ticket or question.stop[0] < 0:
            return UNDECIDED, boxes
        restrict(model, piece, part)
        # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
        race, constant = build_race(part, model, piece, other, label, model.slack > 0)
        budget = region.budget
        if region.limited:
            # Where prices are not whole numbers, the difference may be rounded down; twice that is added back.
            budget += region.budget * 2.0**-50 - price_elsewhere(piece, race)
        balance = balanced(race, piece, budget, needed - constant, rates[n_todo])
        if balance.bound < balance.goal:
            continue
        # About as much work as the bound took, but a box at least.
        search.max_boxes = max(1, min(16 * patience, patience // 3 + balance.work // (4 * max(1, race.tests.shape[0]))))
        search.climb = False
        if region.limited and region.flat:
            search.constant, search.needed = constant, needed
            promising(race, balance)
        else:
            search.constant, search.needed = balance.rest, balance.goal
            sort_again(race, balance.worth)
            revive(race)
        found = run_race(search, question, piece, part, race)
        boxes += search.boxes
        if found == OUT_OF_BOXES:
            if n_todo + 2 > todo.shape[0]:
                todo, rates = doubled(todo), doubled(rates)
            for side in range(2):
                # The more promising side is taken next.
                right = (side == 1) == search.cut_right
                _copy_cells(piece.ranges, todo[n_todo])
                if right:
                    todo[n_todo, search.cut_feature].low = search.cut + 1
                else:
                    todo[n_todo, search.cut_feature].high = search.cut
                rates[n_todo] = balance.rate
                n_todo += 1
    return (found if found in (BROKEN, UNDECIDED) else SAFE), boxes
