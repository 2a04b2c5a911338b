"""Hard rows: regions are balanced, searched for a while, and cut in two where that was not enough."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import borrowing, entry, merged
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED, needed_lead, question_about
from treeproof._kernels.search.balance import balanced, promising, sort_again
from treeproof._kernels.search.branch import price_elsewhere, run_race
from treeproof._kernels.search.race import build_race
from treeproof._kernels.search.region import Region, restrict
from treeproof._kernels.search.rows import enter, room_for
from treeproof._kernels.search.spending import (
    CELLS,
    Spending,
    copy_cells,
    divide_by_price,
    is_divided_by_price,
    is_too_dear,
    purse_for,
    spending,
)
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import revive


@borrowing
def _halve(region, search, todo, n):
    """Adds both sides of the cut where a race began to the n regions that wait, the more promising one last."""
    for side in range(2):
        right = (side == 1) == search.cut_right
        copy_cells(region.ranges, todo[n])
        if right:
            todo[n, search.cut_feature].low = search.cut + 1
        else:
            todo[n, search.cut_feature].high = search.cut
        n += 1
    return n


@merged
def _divide(search, question, region, part, purse, other, label, patience, max_regions):
    """A hard race: (what is known, boxes). HARD if so many regions were not enough."""
    model, needed = question.model, needed_lead(question.model, other, label)
    piece = Region(region.ranges.copy(), region.price, region.budget, region.limited, region.flat, region.n_cells)
    todo = np.empty((16, region.ranges.shape[0]), CELLS)
    copy_cells(piece.ranges, todo[0])
    n_todo, boxes, regions, found = 1, 0, 0, SAFE
    spent = Spending(np.int64(0), 0.0, np.int64(0), np.int64(-1), 0.0, 0.0)
    while n_todo > 0 and found not in (BROKEN, UNDECIDED):
        if regions == max_regions:
            return HARD, boxes
        n_todo -= 1
        regions += 1
        copy_cells(todo[n_todo], piece.ranges)
        restrict(question, piece, part)
        if is_over(question):
            return UNDECIDED, boxes
        if region.limited:
            spent = spending(question, piece, part, purse, other, label, needed)
            if is_over(question):
                return UNDECIDED, boxes
            if is_too_dear(spent, needed):
                continue
        # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
        race, constant = build_race(question, part, piece, other, label, model.slack > 0)
        if is_over(question):
            return UNDECIDED, boxes
        budget = region.budget[0]
        if region.limited:
            # Where prices are not whole numbers, the difference may be rounded down; twice that is added back.
            budget += budget * 2.0**-50 - price_elsewhere(piece, race)
        balance = balanced(question, race, piece, part, budget, needed - constant, spent.rate)
        if is_over(question):
            return UNDECIDED, boxes
        if balance.bound < balance.goal:
            continue
        # About as much work as the bound took, but a box at least.
        search.max_boxes = max(1, min(16 * patience, patience // 3 + balance.work // (4 * max(1, race.tests.shape[0]))))
        search.climb = False
        if region.limited:
            search.max_boxes = max(1, patience // 10)
        if region.limited and region.flat:
            search.constant, search.needed = constant, needed
            promising(race, balance)
        else:
            search.constant, search.needed = balance.rest, balance.goal
            sort_again(question, race, balance.worth)
            revive(race)
        found = run_race(search, question, piece, part, race)
        boxes += search.boxes
        if found == HARD:
            if n_todo + 3 > todo.shape[0]:
                todo = doubled(todo)
            if region.limited and region.flat and is_divided_by_price(piece, spent, needed):
                n_todo = divide_by_price(piece, spent, todo, n_todo)
            else:
                n_todo = _halve(piece, search, todo, n_todo)
    return (found if found in (BROKEN, UNDECIDED) else SAFE), boxes


@entry
def divide_rows(model, exact, asked, found, watch, rows, patience, max_regions):
    """Decides rows that are HARD, class by class, with up to `max_regions` regions each; the rest stays HARD."""
    room = room_for(model, exact, asked)
    purse = purse_for(asked.reach.shape[1] if asked.prices.limited else 0)
    for row in rows:
        if watch.stop[0] < 0:
            return
        watch.progress[0] = row + 1
        question = question_about(model, exact, asked, found, watch, row, room.scores, room.cells)
        label, is_open, status = asked.labels[row], found.open[row], UNDECIDED
        if enter(question, asked, found, room, row):
            status = SAFE
            for other in room.order:
                if is_open[other] and status in (SAFE, HARD):
                    result, boxes = _divide(
                        room.search[0], question, room.region, room.part, purse, other, label, patience, max_regions
                    )
                    found.boxes[row] += boxes
                    is_open[other] = result == HARD
                    status = status if result == SAFE else result
        found.status[row] = status
    watch.progress[0] = 0
