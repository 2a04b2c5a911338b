"""The search over many rows: regions and prices from numbers, then one race after another."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import entry, inner, merged
from treeproof._kernels.search.balance import balanced, promising, sorted_again
from treeproof._kernels.search.branch import (
    BROKEN,
    OUT_OF_BOXES,
    SAFE,
    TOO_CLOSE,
    UNDECIDED,
    all_leaves,
    doubled,
    price_elsewhere,
    run_race,
)
from treeproof._kernels.search.race import build_race, root_lead, sort_down
from treeproof._kernels.search.region import INFINITE, Part, Region, restrict

# Local never has a larger budget than 1e307: a hundred million of these.
MOST_PRICE = 1e299


class Boxes(NamedTuple):
    """Per row and feature, cells: those of N(x), those that a paid move can end in, and x's own (NaN: -1)."""

    near_low: Any
    near_high: Any
    reach_low: Any
    reach_high: Any
    own: Any


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


@inner
def _distance_price(distance, power):
    """distance ** power, rounded down for sure; `distance` carries one rounding of its own."""
    # Each of the 2 * power roundings takes off less than 2**-52 of the value.
    price = distance * (1.0 - 2.0**-51)
    result = price
    for _ in range(power - 1):
        result *= price
        result *= 1.0 - 2.0**-51
    # What is too large for a double is not out of reach, and sums of prices must not be either.
    return min(result, MOST_PRICE)


@inner
def _fill_region(boxes, prices, row, region):
    start, price, limited = prices.start, region.price, prices.limited
    has_table = prices.table.shape[0] > 0
    for f in range(region.low.shape[0]):
        near_low, near_high = boxes.near_low[row, f], boxes.near_high[row, f]
        reach_low, reach_high = boxes.reach_low[row, f], boxes.reach_high[row, f]
        region.own[f] = boxes.own[row, f]
        region.near_low[f] = near_low
        region.near_high[f] = near_high
        region.low[f] = min(near_low, reach_low) if reach_low <= reach_high else near_low
        region.high[f] = max(near_high, reach_high) if reach_low <= reach_high else near_high
        if not limited or region.own[f] < 0:  # a missing value has no cells, and stays what it is
            continue
        for c in range(region.low[f], region.high[f] + 1):
            at = start[f] + c
            if near_low <= c <= near_high:
                price[at] = 0.0
            elif has_table:
                price[at] = prices.table[0, at]
            elif not reach_low <= c <= reach_high:
                price[at] = INFINITE
            elif prices.power == 0:
                price[at] = prices.cost[f]
            elif c > near_high:
                price[at] = _distance_price(prices.lowest[at] - prices.near_high[row, f], prices.power)
            else:
                price[at] = _distance_price(prices.near_low[row, f] - prices.highest[at], prices.power)


@entry
def search_rows(model, exact, boxes, prices, labels, too_dear, patience, stop, progress, status, cells, n_boxes):
    """Per row: does the label hold on all its affordable cells? Fills status, counterexample cells and box counts.

    A row that is not decided after about `patience` boxes is searched with balanced bounds (`_divide`).
    `progress[0]` is the row under way plus 1; `stop[0]` set to that number abandons the row, negative all that is left.
    """
    n_rows, n_features = boxes.own.shape
    n_nodes = model.feature.shape[0]
    n_trees = model.roots.shape[0]
    n_classes = model.value.shape[1]
    region_price = np.empty(prices.start[n_features] if prices.limited else 1)
    ints = np.empty((5, n_features), np.int32)
    region = Region(
        ints[0], ints[1], ints[2], ints[3], ints[4], region_price, prices.start, prices.budget, prices.limited,
        prices.power == 0,
    )  # fmt: skip
    # A leaf has at most one price per test on its path.
    max_costs = n_nodes * (model.depth + 1) if prices.limited else 1
    part = Part(
        np.empty(n_nodes + 1, np.int32),
        np.empty(n_nodes + 1, np.int32),
        np.empty(n_nodes + 1, np.int32),
        np.empty(n_nodes + 1, np.int32),
        np.empty(n_nodes + 1, np.int32),
        np.empty(n_trees + 1, np.int32),
        np.empty(n_nodes + 2, np.int32),
        np.empty(max_costs, np.int32),
        np.empty(max_costs, np.float64),
    )
    scores = np.empty(exact.base.shape[0], exact.leaf_scores.dtype)
    for row in range(n_rows):
        if stop[0] < 0:
            return
        progress[0] = row + 1
        _fill_region(boxes, prices, row, region)
        n = restrict(model, region, part, model.depth + 1)
        status[row], n_boxes[row] = _search_row(
            model, exact, region, part, n, n_trees, n_classes, labels[row], too_dear, patience, scores, cells[row],
            stop, row + 1,
        )  # fmt: skip
    progress[0] = n_rows + 1


@merged
def _search_row(
    model, exact, region, part, n, n_trees, n_classes, label, too_dear, patience, scores, cells, stop, ticket
):
    """One row: every other class in turn, the one with the largest lead first."""
    boxes = 0
    leads = np.empty(n_classes, np.int64)
    needs = np.empty(n_classes, np.int64)
    for other in range(n_classes):
        needs[other] = -model.slack if model.slack > 0 else (0 if other < label else 1)
        leads[other] = np.int64(-(2**62))
        if other != label:
            leads[other] = (
                model.offset[other] - model.offset[label] + root_lead(part, n_trees, model.value, other, label)
            )
    first_cut = np.empty(3, np.int64)
    # Where a feature costs the same wherever it goes, paying for features one by one settles most rows.
    quick = 16 * patience if region.limited and region.flat else patience
    # Not a literal: numba would compile the search once for each.
    climb = patience >= 0
    whole = True
    for other in sort_down(leads, n_classes, np.empty(n_classes, np.int32)):
        if other == label or leads[other] < needs[other]:
            continue
        if not whole:
            n = restrict(model, region, part, model.depth + 1)
            whole = True
        for close in (False, True):
            race, constant = build_race(
                part, n, n_trees, model.value, model.kind, other, label, region.limited, close, region.price_start
            )
            constant += model.offset[other] - model.offset[label]
            found, used = run_race(
                race, part, constant, needs[other], model, exact, region, label, too_dear, scores, cells, stop, ticket,
                quick, climb, first_cut, all_leaves(race.word, race.first),
            )  # fmt: skip
            boxes += used
            if found != TOO_CLOSE:
                break
        if found == OUT_OF_BOXES:
            found, used = _divide(
                model, exact, region, part, n_trees, other, label, needs[other], too_dear, patience, scores, cells,
                stop, ticket,
            )  # fmt: skip
            boxes += used
            whole = False
        if found in (BROKEN, UNDECIDED):
            return found, boxes
    return SAFE, boxes


@merged
def _put(todo, at, low, high):
    for f in range(low.shape[0]):
        todo[at, 0, f], todo[at, 1, f] = low[f], high[f]


@merged
def _divide(model, exact, region, part, n_trees, other, label, needed, too_dear, patience, scores, cells, stop, ticket):
    """A hard race: regions are balanced, searched for a while, and cut in two where that was not enough."""
    n_features = region.low.shape[0]
    todo = np.empty((16, 2, n_features), np.int32)
    low, high = region.low.copy(), region.high.copy()
    _put(todo, 0, low, high)
    first_cut = np.empty(3, np.int64)
    n_todo, boxes, found = 1, 0, SAFE
    rates = np.full(16, -1.0 if region.limited else 0.0)
    offset = model.offset[other] - model.offset[label]
    while n_todo > 0 and found not in (BROKEN, UNDECIDED):
        n_todo -= 1
        for f in range(n_features):
            low[f], high[f] = todo[n_todo, 0, f], todo[n_todo, 1, f]
        part_region = Region(
            low, high, region.near_low, region.near_high, region.own, region.price, region.price_start, region.budget,
            region.limited, region.flat,
        )  # fmt: skip
        if stop[0] == ticket or stop[0] < 0:
            return UNDECIDED, boxes
        n = restrict(model, part_region, part, model.depth + 1)
        # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
        race, constant = build_race(
            part, n, n_trees, model.value, model.kind, other, label, region.limited, model.slack > 0,
            region.price_start,
        )  # fmt: skip
        constant += offset
        budget = region.budget
        if region.limited:
            # Where prices are not whole numbers, the difference may be rounded down; twice that is added back.
            budget += region.budget * 2.0**-50 - price_elsewhere(part_region, race.feature)
        total, rest, goal, bound, rate, work = balanced(race, part_region, budget, needed - constant, rates[n_todo])
        if bound < goal:
            continue
        # About as much work as the bound took, but a box at least.
        max_boxes = max(1, min(16 * patience, patience // 3 + work // (4 * max(1, race.test_cut.shape[0]))))
        live = promising(race, total, bound, goal)
        if region.limited and region.flat:
            goal = needed
        else:
            race = sorted_again(race, total)
            constant = rest
            live = all_leaves(race.word, race.first)
        found, used = run_race(
            race, part, constant, goal, model, exact, part_region, label, too_dear, scores, cells, stop, ticket,
            max_boxes, patience < 0, first_cut, live,
        )  # fmt: skip
        boxes += used
        if found == OUT_OF_BOXES:
            if n_todo + 2 > todo.shape[0]:
                todo, rates = doubled(todo), doubled(rates)
            f, cut = first_cut[0], first_cut[1]
            for side in range(2):
                # The more promising side is taken next.
                right = (side == 1) == (first_cut[2] == 1)
                _put(todo, n_todo, low, high)
                if right:
                    todo[n_todo, 0, f] = cut + 1
                else:
                    todo[n_todo, 1, f] = cut
                rates[n_todo] = rate
                n_todo += 1
    return (found if found in (BROKEN, UNDECIDED) else SAFE), boxes
