"""Rows whose attacker must pay: divided by what is paid for which feature, and raced where no more need be paid."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import door, inner
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED
from treeproof._kernels.search.branch import run_race
from treeproof._kernels.search.race import build_race
from treeproof._kernels.search.region import piece_of, restrict
from treeproof._kernels.search.rows import enter, next_class, note_class
from treeproof._kernels.search.spending import (
    CELLS,
    copy_cells,
    divide_by_price,
    is_divided_by_price,
    is_too_dear,
    spending,
)
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import revive


@inner
def _spend(question, room, purse, max_boxes):
    """One class: (what is known, boxes). HARD if `max_boxes` regions and boxes of races were not enough."""
    search, model, watch, part = room.search[0], question.model, question.watch, room.part
    piece = piece_of(room.region)
    todo = np.empty((16, piece.ranges.shape[0]), CELLS)
    copy_cells(piece.ranges, todo[0])
    n_todo, boxes, found = 1, 0, SAFE
    while n_todo > 0 and found == SAFE:
        n_todo -= 1
        boxes += 1
        copy_cells(todo[n_todo], piece.ranges)
        restrict(watch, model, piece, part)
        if is_over(watch):
            return UNDECIDED, boxes
        spent = spending(watch, model, piece, part, purse, search)
        if is_over(watch):
            return UNDECIDED, boxes
        if is_too_dear(spent, search.needed):
            continue
        if boxes >= max_boxes:
            return HARD, boxes
        if is_divided_by_price(piece, spent, search.needed):
            if n_todo + 3 > todo.shape[0]:
                todo = doubled(todo)
            n_todo = divide_by_price(piece, spent, todo, n_todo)
            continue
        # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
        race = build_race(search, watch, model, part, piece, room.draft, model.slack > 0)
        if is_over(watch):
            return UNDECIDED, boxes
        revive(race)
        search.max_boxes, search.climb = max_boxes - boxes, False
        found = run_race(search, question, piece, part, race)
        boxes += search.boxes
        if found not in (BROKEN, UNDECIDED, HARD):
            found = SAFE
    return found, boxes


@door
def spend_rows(question, asked, found, room, purse, rows, max_boxes):
    """Decides rows by what can be bought, with up to `max_boxes` regions and boxes per class; what is left is HARD."""
    for row in rows:
        if question.watch.stop[0] < 0:
            return
        enter(question.watch, question.model, asked, found, room, row)
        while next_class(found, room.search[0], room.leads, room.order, row):
            result, boxes = _spend(question, room, purse, max_boxes)
            note_class(found, room.search[0], row, result, boxes)
    question.watch.progress[0] = 0
