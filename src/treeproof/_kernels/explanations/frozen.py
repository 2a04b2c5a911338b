"""Questions about one row whose columns may be anything, stay what they are, or lie in some cells."""

from __future__ import annotations

from treeproof._kernels.jit import borrowing, door, inner
from treeproof._kernels.search.asked import BROKEN, SAFE, fill_region, is_attack
from treeproof._kernels.search.region import INFINITE
from treeproof._kernels.search.rows import open_up, race_classes


@borrowing
def _narrow(region, box):
    """Draws a region in to the cells of a box; a missing value that cannot be filled in stays so."""
    for f in range(region.ranges.shape[0]):
        cells = region.ranges[f]
        # Where no price matters there are none to look at.
        cells.growing = True
        if box[f].low <= box[f].high and cells.own >= 0:
            cells.low, cells.high = box[f].low, box[f].high
            cells.near_low, cells.near_high = box[f].low, box[f].high


@inner
def _ask(question, asked, found, room, box, row, max_boxes):
    """Does the row keep its label? What is known after up to `max_boxes` boxes per class.

    `box` (n_features,) are CELLS that each feature lies in; low > high: wherever it can be. No price matters.
    """
    question.watch.progress[0] = row + 1
    found.price[row] = INFINITE
    for k in range(question.goal.shape[0]):
        found.open[row, k] = question.goal[k]
    fill_region(asked, found.price, row, room.region)
    _narrow(room.region, box)
    open_up(question.watch, question.model, asked.labels[row], found, room, row)
    race_classes(question, found, room, row, max_boxes)
    return found.status[row]


@door
def ask(question, asked, found, room, box, row, max_boxes):
    """The same from Python."""
    return _ask(question, asked, found, room, box, row, max_boxes)


@borrowing
def _stay_near(near, box, cells, f):
    """Makes `near` the part of the box with these cells, wherever its features are free, but for the feature f."""
    for g in range(box.shape[0]):
        near[g].low, near[g].high = box[g].low, box[g].high
        if box[g].low > box[g].high and g != f:
            near[g].low, near[g].high = cells[g], cells[g]


@door
def drop(question, asked, found, room, box, near, row, order, first, max_boxes, trusted):
    """Frees features of the box in an order, from its place `first` on, each if the row keeps its label without it.

    Returns the place of the first one of which that is not known or, unless these are trusted, of the first one with a
    counterexample. The row is SAFE where the loop ended because it is time to look at the clock. Where the last
    counterexample is, another feature often is enough for the next one: that is a question with one free feature, asked
    first. `near` (n_features,) CELLS are scratch.
    """
    stop, is_warm = question.watch.stop, False
    for place in range(first, order.shape[0]):
        if 2 * stop[1] > stop[2]:
            found.status[row] = SAFE
            return place
        f, status = order[place], SAFE
        cells, own = box[f], asked.reach[row, f].own
        cells.low, cells.high = 1, 0
        if is_warm:
            _stay_near(near, box, found.cells[row], f)
            status = _ask(question, asked, found, room, near, row, max_boxes)
        if status != BROKEN:
            status = _ask(question, asked, found, room, box, row, max_boxes)
        if status != SAFE:
            cells.low, cells.high = own, own
            if status != BROKEN or not trusted:
                return place
            is_warm = True
    return order.shape[0]


@door
def pull_back(question, asked, found, row, order):
    """Puts features of a row's counterexample back to where they were, one after another, while it stays one."""
    label, cells, kept = asked.labels[row], question.cells, found.cells[row]
    for f in range(cells.shape[0]):
        cells[f] = kept[f]
    for place in range(order.shape[0]):
        f = order[place]
        own = asked.reach[row, f].own
        if kept[f] != own:
            cells[f] = own
            if is_attack(question, label):
                kept[f] = own
            else:
                cells[f] = kept[f]


@door
def draw_near(question, asked, found, row, f, first, step):
    """Puts a feature of a row's counterexample to the first cell, from `first` on by steps, where it stays one."""
    label, cells, kept = asked.labels[row], question.cells, found.cells[row]
    for g in range(cells.shape[0]):
        cells[g] = kept[g]
    cells[f] = first
    while cells[f] != kept[f] and not is_attack(question, label):
        cells[f] += step
    kept[f] = cells[f]
    return kept[f]
