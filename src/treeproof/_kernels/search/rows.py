"""The search over many rows: a race against every other class, given up where it takes many boxes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import sort_down
from treeproof._kernels.jit import borrowing, entry, inner, merged
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED, fill_region, needed_lead, question_about
from treeproof._kernels.search.branch import SEARCH, TOO_CLOSE, run_race
from treeproof._kernels.search.race import build_race, root_lead
from treeproof._kernels.search.region import COST, FRAME, OPEN_NODE, RANGE, Part, Region, restrict
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import revive


class Room(NamedTuple):
    """What the search of one row after another needs: its region, the part of the model there, and scratch."""

    region: Any
    part: Any
    scores: Any
    cells: Any
    leads: Any
    order: Any
    search: Any


@inner
def room_for(model, exact, asked):
    """Room for the rows that are asked about."""
    prices, n_features = asked.prices, asked.reach.shape[1]
    n_nodes, n_classes, n_cells = model.nodes.shape[0], model.value.shape[1], prices.start[n_features]
    region = Region(
        np.empty(n_features, RANGE), np.empty(n_cells if prices.limited else 1), np.empty(1), prices.limited,
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
    return Room(
        region, part, np.empty(exact.base.shape[0], exact.leaf_scores.dtype), np.empty(n_features, np.int32),
        np.empty(n_classes, np.int64), np.empty(n_classes, np.int32), np.zeros(1, SEARCH),
    )  # fmt: skip


@borrowing
def enter(question, asked, found, room, row):
    """Fills the room for one row, with the classes in the order of their leads; whether there was time for it."""
    model, label = question.model, asked.labels[row]
    fill_region(asked, found, row, room.region)
    restrict(question, room.region, room.part)
    for other in range(room.leads.shape[0]):
        if is_over(question):
            return False
        room.leads[other] = np.int64(-(2**62))
        if other != label:
            offset = model.offset[other] - model.offset[label]
            room.leads[other] = offset + root_lead(room.part, model.value, other, label)
    sort_down(room.leads, room.leads.shape[0], room.order)
    room.search[0].label = label
    return True


@merged
def _race_row(question, room, label, is_open, max_boxes):
    """One row: every other class in turn, the one with the largest lead first; (what is known, boxes)."""
    model, region, part, search = question.model, room.region, room.part, room.search[0]
    boxes, result = 0, SAFE
    for other in room.order:
        needed = needed_lead(model, other, label)
        is_open[other] &= other != label and room.leads[other] >= needed
        if not is_open[other]:
            continue
        found = TOO_CLOSE
        for close in (False, True):
            if found == TOO_CLOSE:
                race, search.constant = build_race(question, part, region, other, label, close)
                if is_over(question):
                    return UNDECIDED, boxes
                revive(race)
                search.needed, search.max_boxes, search.climb = needed, max_boxes, not region.limited
                found = run_race(search, question, region, part, race)
                boxes += search.boxes
        if found in (BROKEN, UNDECIDED):
            return found, boxes
        is_open[other] = found == HARD
        if found == HARD:
            result = HARD
    return result, boxes


@entry
def race_rows(model, exact, asked, found, watch, rows, max_boxes):
    """Decides rows by races of up to `max_boxes` boxes each; what is left is HARD, with the classes that are open."""
    room = room_for(model, exact, asked)
    for row in rows:
        if watch.stop[0] < 0:
            return
        watch.progress[0] = row + 1
        question = question_about(model, exact, asked, found, watch, row, room.scores, room.cells)
        status, boxes = UNDECIDED, 0
        if enter(question, asked, found, room, row):
            status, boxes = _race_row(question, room, asked.labels[row], found.open[row], max_boxes)
        found.status[row] = status
        found.boxes[row] += boxes
    watch.progress[0] = 0
