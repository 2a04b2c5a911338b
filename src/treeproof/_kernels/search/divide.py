"""Hard rows: regions are balanced, searched for a while, and cut in two where that was not enough."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import borrowing, door, inner
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED
from treeproof._kernels.search.balance import balanced, promising, sort_again
from treeproof._kernels.search.branch import price_elsewhere, run_race
from treeproof._kernels.search.race import build_race
from treeproof._kernels.search.record import begin_row, emit_balance, emit_cut, emit_later, emit_spent, mark, take_back
from treeproof._kernels.search.region import CELLS, copy_cells, restrict
from treeproof._kernels.search.rows import begin_with_all, enter, next_class, note_class
from treeproof._kernels.search.spending import (
    Spending,
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
def _divide_next(question, room, purse, todo, needed, patience):
    """Searches the region that waits last for a while, or divides it; BROKEN and UNDECIDED end the search."""
    search, model, watch, part, piece = room.search[0], question.model, question.watch, room.part, room.piece
    search.waiting -= 1
    emit_later(question.proof, search.waiting)
    began = mark(question.proof)
    copy_cells(todo[search.waiting], piece.ranges)
    restrict(watch, model, piece, part)
    if is_over(watch):
        return UNDECIDED
    search.needed, search.climb = needed, False
    spent = Spending(np.int64(0), 0.0, np.int64(0), np.int64(-1), 0.0, 0.0)
    if piece.limited:
        spent = spending(watch, model, piece, part, purse, search)
        if is_over(watch):
            return UNDECIDED
        if is_too_dear(spent, needed):
            emit_spent(question.proof, spent, needed)
            return SAFE
    # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
    race = build_race(search, watch, model, part, piece, room.draft, question.close)
    if is_over(watch):
        return UNDECIDED
    budget = piece.budget[0]
    if piece.limited:
        # Where prices are not whole numbers, the difference may be rounded down; twice that is added back.
        budget += budget * 2.0**-50 - price_elsewhere(piece, race)
    balance = balanced(question, race, piece, part, room.draft, budget, needed - search.constant, spent.rate)
    if is_over(watch):
        return UNDECIDED
    emit_balance(question.proof, race, piece, part, room.draft, balance, budget)
    if balance.bound < balance.goal:
        return SAFE
    if piece.limited:
        search.max_boxes = max(1, patience // 10)
    else:
        # About as much work as the bound took, but a box at least.
        boxes = patience // 3 + balance.work // (4 * max(1, race.tests.shape[0]))
        search.max_boxes = max(1, min(16 * patience, boxes))
    if piece.limited and piece.flat:
        promising(race, balance)
    else:
        search.constant, search.needed = balance.rest, balance.goal
        sort_again(watch, race, part, room.draft, balance.worth)
        revive(race)
    found = run_race(search, question, piece, part, race)
    search.work += search.boxes
    if found == HARD:
        take_back(question.proof, began)
    if found == HARD and piece.limited and piece.flat and is_divided_by_price(piece, spent, needed):
        search.waiting = divide_by_price(piece, spent, todo, search.waiting, question.proof)
    elif found == HARD:
        emit_cut(question.proof, search.cut_feature, search.cut, search.cut_right)
        search.waiting = _halve(piece, search, todo, search.waiting)
    return found


@inner
def _divide(question, room, purse, patience, max_regions):
    """A hard class: what is known. HARD if so many regions were not enough."""
    todo, regions, needed = np.empty((16, room.region.ranges.shape[0]), CELLS), 0, room.search[0].needed
    begin_with_all(room, todo)
    while room.search[0].waiting > 0:
        if regions == max_regions:
            return HARD
        regions += 1
        if room.search[0].waiting + 2 > todo.shape[0]:
            todo = doubled(todo)
        found = _divide_next(question, room, purse, todo, needed, patience)
        if found in (BROKEN, UNDECIDED):
            return found
    return SAFE


@door
def divide_rows(question, asked, found, room, purse, rows, patience, max_regions):
    """Decides rows that are HARD, class by class, with up to `max_regions` regions each; the rest stays HARD."""
    for row in rows:
        if question.watch.stop[0] < 0 or not begin_row(question.proof):
            return
        enter(question.watch, question.model, asked, found, room, row)
        while next_class(found, room.search[0], room.leads, room.order, row):
            began = mark(question.proof)
            result = _divide(question, room, purse, patience, max_regions)
            note_class(question.proof, began, found, room.search[0], row, result, room.search[0].work)
    question.watch.progress[0] = 0
