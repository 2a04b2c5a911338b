"""Hard rows: regions are balanced, searched for a while, and cut in two where that was not enough."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import borrowing, door, inner
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED
from treeproof._kernels.search.balance import balanced, promising, sort_again
from treeproof._kernels.search.branch import price_elsewhere, run_race
from treeproof._kernels.search.race import build_race
from treeproof._kernels.search.region import piece_of, restrict
from treeproof._kernels.search.rows import enter, next_class, note_class
from treeproof._kernels.search.spending import (
    CELLS,
    Spending,
    copy_cells,
    divide_by_price,
    is_divided_by_price,
    is_too_dear,
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


@inner
def _divide(question, room, purse, patience, max_regions):
    """A hard race: (what is known, boxes). HARD if so many regions were not enough."""
    search, model, watch, part = room.search[0], question.model, question.watch, room.part
    piece, needed = piece_of(room.region), search.needed
    todo = np.empty((16, piece.ranges.shape[0]), CELLS)
    copy_cells(piece.ranges, todo[0])
    n_todo, boxes, regions, found = 1, 0, 0, SAFE
    spent = Spending(np.int64(0), 0.0, np.int64(0), np.int64(-1), 0.0, 0.0)
    while n_todo > 0 and found not in (BROKEN, UNDECIDED):
        if regions == max_regions:
            return HARD, boxes
        n_todo -= 1
        regions += 1
        copy_cells(todo[n_todo], piece.ranges)
        restrict(watch, model, piece, part)
        if is_over(watch):
            return UNDECIDED, boxes
        search.needed = needed
        if piece.limited:
            spent = spending(watch, model, piece, part, purse, search)
            if is_over(watch):
                return UNDECIDED, boxes
            if is_too_dear(spent, needed):
                continue
        # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
        race = build_race(search, watch, model, part, piece, room.draft, model.slack > 0)
        if is_over(watch):
            return UNDECIDED, boxes
        budget = piece.budget[0]
        if piece.limited:
            # Where prices are not whole numbers, the difference may be rounded down; twice that is added back.
            budget += budget * 2.0**-50 - price_elsewhere(piece, race)
        balance = balanced(watch, race, piece, part, budget, needed - search.constant, spent.rate)
        if is_over(watch):
            return UNDECIDED, boxes
        if balance.bound < balance.goal:
            continue
        search.climb = False
        if piece.limited:
            search.max_boxes = max(1, patience // 10)
        else:
            # About as much work as the bound took, but a box at least.
            boxes_for_it = patience // 3 + balance.work // (4 * max(1, race.tests.shape[0]))
            search.max_boxes = max(1, min(16 * patience, boxes_for_it))
        if piece.limited and piece.flat:
            promising(race, balance)
        else:
            search.constant, search.needed = balance.rest, balance.goal
            sort_again(watch, race, balance.worth)
            revive(race)
        found = run_race(search, question, piece, part, race)
        boxes += search.boxes
        if found == HARD:
            if n_todo + 3 > todo.shape[0]:
                todo = doubled(todo)
            if piece.limited and piece.flat and is_divided_by_price(piece, spent, needed):
                n_todo = divide_by_price(piece, spent, todo, n_todo)
            else:
                n_todo = _halve(piece, search, todo, n_todo)
    return (found if found in (BROKEN, UNDECIDED) else SAFE), boxes


@door
def divide_rows(question, asked, found, room, purse, rows, patience, max_regions):
    """Decides rows that are HARD, class by class, with up to `max_regions` regions each; the rest stays HARD."""
    for row in rows:
        if question.watch.stop[0] < 0:
            return
        enter(question.watch, question.model, asked, found, room, row)
        while next_class(found, room.search[0], room.leads, room.order, row):
            result, boxes = _divide(question, room, purse, patience, max_regions)
            note_class(found, room.search[0], row, result, boxes)
    question.watch.progress[0] = 0
