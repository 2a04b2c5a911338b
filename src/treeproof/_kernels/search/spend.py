"""Rows whose attacker must pay: divided by what is paid for which feature, and raced where no more need be paid."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import borrowing, door, inner
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED
from treeproof._kernels.search.record import begin_row, emit_later, emit_spent, mark
from treeproof._kernels.search.region import CELLS, copy_cells, restrict
from treeproof._kernels.search.rows import begin_with_all, enter, next_class, note_class, race_in
from treeproof._kernels.search.spending import divide_by_price, is_divided_by_price, is_too_dear, spending
from treeproof._kernels.search.stop import is_over


@borrowing
def _spend_next(question, room, purse, todo, max_boxes):
    """Searches or divides the region that waits last; SAFE unless that ends the search."""
    search, model, watch, piece = room.search[0], question.model, question.watch, room.piece
    search.waiting -= 1
    search.work += 1
    emit_later(question.proof, search.waiting)
    copy_cells(todo[search.waiting], piece.ranges)
    restrict(watch, model, piece, room.part)
    if is_over(watch):
        return UNDECIDED
    spent = spending(watch, model, piece, room.part, purse, search)
    if is_over(watch):
        return UNDECIDED
    if is_too_dear(spent, search.needed):
        emit_spent(question.proof, spent, search.needed)
        return SAFE
    if search.work >= max_boxes:
        return HARD
    if is_divided_by_price(piece, spent, search.needed):
        search.waiting = divide_by_price(piece, spent, todo, search.waiting, question.proof)
        return SAFE
    # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
    found = race_in(piece, question, room, question.close, max_boxes - search.work)
    search.work += search.boxes
    return found if found in (BROKEN, UNDECIDED, HARD) else SAFE


@inner
def _spend(question, room, purse, max_boxes):
    """One class: what is known. HARD if `max_boxes` regions and boxes of races were not enough."""
    todo, found = np.empty((16, room.region.ranges.shape[0]), CELLS), SAFE
    begin_with_all(room, todo)
    while room.search[0].waiting > 0 and found == SAFE:
        if room.search[0].waiting + 2 > todo.shape[0]:
            todo = doubled(todo)
        found = _spend_next(question, room, purse, todo, max_boxes)
    return found


@door
def spend_rows(question, asked, found, room, purse, rows, max_boxes):
    """Decides rows by what can be bought, with up to `max_boxes` regions and boxes per class; what is left is HARD."""
    for row in rows:
        if question.watch.stop[0] < 0 or not begin_row(question.proof):
            return
        enter(question.watch, question.model, asked, found, room, row)
        while next_class(found, room.search[0], room.leads, room.order, row):
            began = mark(question.proof)
            result = _spend(question, room, purse, max_boxes)
            note_class(question.proof, began, found, room.search[0], row, result, room.search[0].work)
    question.watch.progress[0] = 0
