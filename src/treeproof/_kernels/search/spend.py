"""Rows whose attacker must pay: divided by what is paid for which feature, and raced where no more need be paid."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.jit import entry, merged
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED, needed_lead, question_about
from treeproof._kernels.search.branch import run_race
from treeproof._kernels.search.race import build_race
from treeproof._kernels.search.region import Region, restrict
from treeproof._kernels.search.rows import enter, room_for
from treeproof._kernels.search.spending import (
    CELLS,
    copy_cells,
    divide_by_price,
    is_divided_by_price,
    is_too_dear,
    purse_for,
    spending,
)
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import revive


@merged
def _spend(search, question, region, part, purse, other, label, max_boxes):
    """One class: (what is known, boxes). HARD if `max_boxes` regions and boxes of races were not enough."""
    model, needed = question.model, needed_lead(question.model, other, label)
    piece = Region(region.ranges.copy(), region.price, region.budget, region.limited, region.flat, region.n_cells)
    todo = np.empty((16, region.ranges.shape[0]), CELLS)
    copy_cells(piece.ranges, todo[0])
    n_todo, boxes, found = 1, 0, SAFE
    while n_todo > 0 and found == SAFE:
        n_todo -= 1
        boxes += 1
        copy_cells(todo[n_todo], piece.ranges)
        restrict(question, piece, part)
        if is_over(question):
            return UNDECIDED, boxes
        spent = spending(question, piece, part, purse, other, label, needed)
        if is_over(question):
            return UNDECIDED, boxes
        if is_too_dear(spent, needed):
            continue
        if boxes >= max_boxes:
            return HARD, boxes
        if is_divided_by_price(piece, spent, needed):
            if n_todo + 3 > todo.shape[0]:
                todo = doubled(todo)
            n_todo = divide_by_price(piece, spent, todo, n_todo)
            continue
        # Within the slack leaves must not be merged: a region that is closed has one vector of scores.
        race, search.constant = build_race(question, part, piece, other, label, model.slack > 0)
        if is_over(question):
            return UNDECIDED, boxes
        revive(race)
        search.needed, search.max_boxes, search.climb = needed, max_boxes - boxes, False
        found = run_race(search, question, piece, part, race)
        boxes += search.boxes
        if found not in (BROKEN, UNDECIDED, HARD):
            found = SAFE
    return found, boxes


@entry
def spend_rows(model, exact, asked, found, watch, rows, max_boxes):
    """Decides rows by what can be bought, with up to `max_boxes` regions and boxes per class; what is left is HARD."""
    room = room_for(model, exact, asked)
    purse = purse_for(asked.reach.shape[1])
    for row in rows:
        if watch.stop[0] < 0:
            return
        watch.progress[0] = row + 1
        question = question_about(model, exact, asked, found, watch, row, room.scores, room.cells)
        label, is_open, status = asked.labels[row], found.open[row], UNDECIDED
        if enter(question, asked, found, room, row):
            status = SAFE
            for other in room.order:
                is_open[other] &= other != label and room.leads[other] >= needed_lead(model, other, label)
                if is_open[other] and status in (SAFE, HARD):
                    result, boxes = _spend(
                        room.search[0], question, room.region, room.part, purse, other, label, max_boxes
                    )  # fmt: skip
                    found.boxes[row] += boxes
                    is_open[other] = result == HARD
                    status = status if result == SAFE else result
        found.status[row] = status
    watch.progress[0] = 0
