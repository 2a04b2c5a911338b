"""The search over many rows: a race against every other class, given up where it takes many boxes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import sort_down
from treeproof._kernels.jit import borrowing, door, inner
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED, fill_region, needed_lead
from treeproof._kernels.search.branch import SEARCH, TOO_CLOSE, run_race
from treeproof._kernels.search.race import build_race, draft_for, root_lead
from treeproof._kernels.search.record import begin_row, end_class, mark, take_back
from treeproof._kernels.search.region import COST, FRAME, GROUP, OPEN_NODE, RANGE, Part, Region, copy_cells, restrict
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import revive


class Room(NamedTuple):
    """What the search of one row after another needs: its region, the part of the model there, and scratch.

    `piece` is a region with the same prices and budget, and cells of its own.
    """

    region: Any
    piece: Any
    part: Any
    draft: Any
    leads: Any
    order: Any
    search: Any


def room_for(model, prices):
    """Room for the rows that are asked about; made in Python."""
    n_nodes, n_classes, n_cells = len(model.nodes), model.value.shape[1], int(prices.start[-1])
    region = Region(
        np.empty(len(prices.cost), RANGE), np.empty(n_cells if prices.limited else 1), np.empty(1), prices.limited,
        prices.flat, prices.power == 0, np.zeros(len(prices.group_budget), GROUP), prices.exact,
    )  # fmt: skip
    region.groups["budget"] = prices.group_budget
    # A leaf has at most one price per test on its path.
    max_costs = n_nodes * (model.depth + 1) if prices.limited else 1
    part = Part(
        np.empty(n_nodes + 2, OPEN_NODE),
        np.empty(len(model.roots) + 1, np.int32),
        np.empty(max_costs, COST),
        np.empty(model.depth + 1, FRAME),
    )
    piece = region._replace(ranges=region.ranges.copy())
    return Room(
        region, piece, part, draft_for(model, n_cells), np.empty(n_classes, np.int64), np.empty(n_classes, np.int32),
        np.zeros(1, SEARCH),
    )  # fmt: skip


@borrowing
def _sort_classes(watch, model, part, label, leads, order):
    """Puts the classes in the order of their leads in the part; what is known after that."""
    for other in range(leads.shape[0]):
        if is_over(watch):
            return UNDECIDED
        leads[other] = np.int64(-(2**62))
        if other != label:
            leads[other] = model.offset[other] - model.offset[label] + root_lead(part, model, other, label)
    sort_down(leads, leads.shape[0], order)
    return SAFE


@borrowing
def enter(watch, model, asked, found, room, row):
    """Fills the room for one row, with the classes in the order of their leads."""
    watch.progress[0] = row + 1
    fill_region(asked, found.price, row, room.region)
    open_up(watch, model, asked.labels[row], found, room, row)


@borrowing
def open_up(watch, model, label, found, room, row):
    """Fills the part of the room's region, with the classes in the order of their leads."""
    search = room.search[0]
    search.label, search.slack, search.turn = label, model.slack, 0
    restrict(watch, model, room.region, room.part)
    found.status[row] = _sort_classes(watch, model, room.part, search.label, room.leads, room.order)


@borrowing
def next_class(found, search, leads, order, row):
    """Whether there is another class to search for, the one with the largest lead first; it is noted in the search."""
    if found.status[row] in (BROKEN, UNDECIDED):
        return False
    while search.turn < order.shape[0]:
        other = np.int64(order[search.turn])
        search.turn += 1
        search.other, search.needed = other, needed_lead(search.slack, other, search.label)
        found.open[row, other] &= other != search.label and leads[other] >= search.needed
        if found.open[row, other]:
            return True
    return False


@borrowing
def note_class(proof, began, found, search, row, result, boxes):
    """Notes what is known of the class after so many boxes, and what was written since it `began`."""
    end_class(proof, row, search.other, began, result == SAFE)
    found.boxes[row] += boxes
    found.open[row, search.other] = result == HARD
    if result != SAFE:
        found.status[row] = result


@inner
def race_in(region, question, room, close, max_boxes):
    """A race against one class, in a region that the part of the room belongs to."""
    search = room.search[0]
    race = build_race(search, question.watch, question.model, room.part, region, room.draft, close)
    search.max_boxes, search.boxes = max_boxes, 0
    search.climb = not region.limited and question.model.more.shape[0] == 0 and question.model.forbidden < 0
    if is_over(question.watch):
        return UNDECIDED
    revive(race)
    return run_race(search, question, region, room.part, race)


@borrowing
def begin_with_all(room, todo):
    """Puts the whole region first among those that wait, and makes the piece that is searched ready."""
    for f in range(room.region.ranges.shape[0]):
        room.piece.ranges[f] = room.region.ranges[f]
    copy_cells(room.region.ranges, todo[0])
    room.search[0].waiting, room.search[0].work = 1, 0


@inner
def race_classes(question, found, room, row, max_boxes):
    """Decides the row that was entered by races against classes, of up to `max_boxes` boxes each."""
    while next_class(found, room.search[0], room.leads, room.order, row):
        result, boxes, began = TOO_CLOSE, 0, mark(question.proof)
        for close in (False, True):
            if result == TOO_CLOSE and (close or question.sums.bound.shape[0] == 0):
                take_back(question.proof, began)
                result = race_in(room.region, question, room, close, max_boxes)
                boxes += room.search[0].boxes
        known = np.int64(SAFE if result == TOO_CLOSE else result)
        note_class(question.proof, began, found, room.search[0], row, known, boxes)


@door
def race_rows(question, asked, found, room, rows, max_boxes):
    """Decides rows by races of up to `max_boxes` boxes each; what is left is HARD, with the classes that are open."""
    for row in rows:
        if question.watch.stop[0] < 0 or not begin_row(question.proof):
            return
        enter(question.watch, question.model, asked, found, room, row)
        race_classes(question, found, room, row, max_boxes)
    question.watch.progress[0] = 0
