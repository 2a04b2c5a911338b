"""A hunt for counterexamples where moves have prices: a beam over single moves, then exchanges of moves.

What the lead becomes at every point that differs in one feature comes from one walk through each tree: from the first
test of a feature on the way of the point, all cells of that feature are followed down, and everything else stays.
What a leaf found that way gives more than the point's own leaf is gained in a range of cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import sort_down
from treeproof._kernels.jit import borrowing, door
from treeproof._kernels.model import LEAF, goes_left, lead_of_leaf, leaf_of_cells, same_until
from treeproof._kernels.search.asked import (
    BROKEN,
    can_pay,
    fill_region,
    group_can_pay,
    is_attack,
    is_unaffordable,
    needed_lead,
    price_of_cells,
    take,
)
from treeproof._kernels.search.region import INFINITE, cheapest_cell
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.sums import point_fits_sums

SMALLEST = 2.0**-900
"""What a move counts as costing at least, when gains are weighed by prices."""

PENDING = np.dtype([("node", "i4"), ("low", "i4"), ("high", "i4")], align=True)
"""A node that is still to be visited, and the cells of the moved feature that lead there."""

MOVE = np.dtype(
    [
        ("lead", "i8"),  # where it leads to
        ("spent", "f8"),  # and what that costs
        ("score", "f8"),
        ("point", "i4"),  # from where
        ("feature", "i4"),
        ("cell", "i4"),
    ],
    align=True,
)
"""A point of the beam with one feature moved."""


class Hunt(NamedTuple):
    """Scratch of a hunt. `points` (2, width + 1, n_features) are two generations of the beam, with one point to spare.

    `states` (2, width + 1) are the MOVE records that led to them, `moves` (width,) those that are considered.
    `gain` (n_cells + n_features,) is the table of differences; `seen` (n_features,) and `pending` belong to one walk.
    """

    points: Any
    states: Any
    moves: Any
    gain: Any
    seen: Any
    pending: Any


def scratch_for(question, room, width):
    """Scratch of a hunt; made in Python."""
    n_features, n_cells = len(question.cells), len(room.region.price)
    return Hunt(
        np.empty((2, width + 1, n_features), np.int32),
        np.zeros((2, width + 1), MOVE),
        np.zeros(width, MOVE),
        np.zeros(n_cells + n_features + 1, np.int64),
        np.empty(n_features, np.int32),
        np.empty(question.model.depth + 2, PENDING),
    )


class Aim(NamedTuple):
    """The class that is to win by a lead that is `needed`, and how: the beam is `width` points wide."""

    other: Any
    label: Any
    needed: Any
    width: Any
    by_price: Any


@borrowing
def _lead(model, leaf, aim):
    return lead_of_leaf(model, leaf, aim.other, aim.label)


@borrowing
def _note_feature(model, hunt, cells, aim, f, span, own, at):
    """Notes what the tree gives wherever feature f alone is moved; `at` is the first test of it on the way."""
    start = span.start + f
    first = hunt.pending[0]
    first.node, first.low, first.high = at, span.low, span.high
    n = 1
    while n > 0:
        n -= 1
        todo = hunt.pending[n]
        at, low, high = np.int64(todo.node), np.int64(todo.low), np.int64(todo.high)
        while model.nodes[at].feature != LEAF:
            node = model.nodes[at]
            cell = np.int64(cells[node.feature])
            if node.feature == f:
                cell, last = low, same_until(model, node, low)
                if last < high:
                    rest = hunt.pending[n]
                    rest.node, rest.low, rest.high = at, last + 1, high
                    n += 1
                    high = last
            at = np.int64(node.left if goes_left(model, node, cell) else node.right)
        change = _lead(model, model.nodes[at].leaf, aim) - own
        if change != 0:
            hunt.gain[start + low] += change
            hunt.gain[start + high + 1] -= change


@borrowing
def _note_tree(model, region, hunt, cells, aim, t):
    """Adds to the table what tree t gives more or less at every point that differs in one feature."""
    root = model.roots[t]
    own = _lead(model, leaf_of_cells(model, root, cells), aim)
    at = np.int64(root)
    while model.nodes[at].feature != LEAF:
        node = model.nodes[at]
        f = np.int64(node.feature)
        if hunt.seen[f] != t:
            hunt.seen[f] = t
            span = region.ranges[f]
            if span.own >= 0 and span.low < span.high:
                _note_feature(model, hunt, cells, aim, f, span, own, at)
        at = np.int64(node.left if goes_left(model, node, cells[f]) else node.right)


@borrowing
def _note_trees(model, region, hunt, cells, aim):
    """Fills the table for a point."""
    for f in range(cells.shape[0]):
        hunt.seen[f] = -1
    for t in range(model.roots.shape[0]):
        _note_tree(model, region, hunt, cells, aim, t)


@borrowing
def _keep(moves, n, width, state, lead, spent, score, feature, cell):
    """Puts a move from a point among the best `width` so far, the best first; returns their number."""
    if n == width and score <= moves[n - 1].score:
        return n
    for k in range(n):
        if moves[k].lead == lead and moves[k].spent == spent and moves[k].point != state.point:
            return n  # most likely the same moves in another order
    k = n if n < width else width - 1
    while k > 0 and moves[k - 1].score < score:
        moves[k] = moves[k - 1]
        k -= 1
    move = moves[k]
    move.lead, move.spent, move.score, move.point, move.feature, move.cell = (
        lead, spent, score, state.point, feature, cell,
    )  # fmt: skip
    return min(n + 1, width)


@borrowing
def _note_moves_of(region, hunt, cells, state, n, f, width, by_price):
    """Keeps the best affordable moves of one feature that gain anything, and clears its table; as `_note_moves`."""
    span = region.ranges[f]
    here = region.price[span.start + cells[f]]
    at, run, c = span.start + f, np.int64(0), np.int64(span.low)
    while c <= span.high:
        run += hunt.gain[at + c]
        hunt.gain[at + c] = 0
        # Up to the next change of the table, all cells gain the same: the cheapest is enough.
        cell, price = c, region.price[span.start + c]
        c += 1
        while c <= span.high and hunt.gain[at + c] == 0:
            if region.price[span.start + c] < price:
                cell, price = c, region.price[span.start + c]
            c += 1
        spent = state.spent - here + price
        if run > 0 and spent <= region.budget[0] and group_can_pay(region, cells, f, price):
            score = run / max(price - here, SMALLEST) if by_price else np.float64(state.lead + run)
            n = _keep(hunt.moves, n, width, state, state.lead + run, spent, score, f, cell)
    hunt.gain[at + span.high + 1] = 0
    return n


@borrowing
def _note_moves(region, hunt, cells, state, n, width, by_price):
    """Keeps the best affordable moves of a point among the n of others; returns the number of moves kept."""
    for f in range(cells.shape[0]):
        if region.ranges[f].own >= 0:
            n = _note_moves_of(region, hunt, cells, state, n, np.int64(f), width, by_price)
    return n


@borrowing
def _is_counterexample(question, region, cells, label):
    """Whether the label is another one at these cells, and they can be paid for; they become those of the question."""
    if not can_pay(region, cells):
        return False
    for f in range(cells.shape[0]):
        question.cells[f] = cells[f]
    if not is_attack(question, label) or not point_fits_sums(question.sums, region, cells, question.proof):
        return False
    return not is_unaffordable(question.unaffordable, question.watch.progress[0] - 1, question.cells)


@borrowing
def _cheapest_point(region, point):
    """Fills the cells of the cheapest point; returns its price."""
    for f in range(point.shape[0]):
        span = region.ranges[f]
        point[f] = span.own
        if span.own >= 0:
            point[f] = cheapest_cell(region, span, np.int64(span.low), np.int64(span.high))
    return price_of_cells(region, point)


@borrowing
def _measure(model, cells, state, aim):
    """Notes the lead at a point."""
    state.lead = model.offset[aim.other] - model.offset[aim.label]
    for t in range(model.roots.shape[0]):
        state.lead += _lead(model, leaf_of_cells(model, model.roots[t], cells), aim)


@borrowing
def _copy_point(hunt, now, s, then, k):
    for f in range(hunt.points.shape[2]):
        hunt.points[then, k, f] = hunt.points[now, s, f]
    hunt.states[then, k].lead, hunt.states[then, k].spent = hunt.states[now, s].lead, hunt.states[now, s].spent


@borrowing
def _next_points(region, hunt, now, n):
    """Makes the n moves; the new points are the other generation."""
    then = 1 - now
    for k in range(n):
        move = hunt.moves[k]
        _copy_point(hunt, now, np.int64(move.point), then, k)
        hunt.points[then, k, move.feature] = move.cell
        state = hunt.states[then, k]
        state.lead, state.spent, state.point = move.lead, price_of_cells(region, hunt.points[then, k]), k


@borrowing
def _pull_back(question, region, hunt, aim, cells, state):
    """Moves single features of a counterexample to cheaper cells, what saves most first, while it stays one."""
    while not is_over(question.watch):
        _note_trees(question.model, region, hunt, cells, aim)
        saved, feature, cell, lead = 0.0, np.int64(-1), np.int64(-1), np.int64(0)
        for f in range(cells.shape[0]):
            span = region.ranges[f]
            if span.own < 0:
                continue
            here = region.price[span.start + cells[f]]
            run, at = state.lead, span.start + f
            for c in range(span.low, span.high + 1):
                run += hunt.gain[at + c]
                hunt.gain[at + c] = 0
                if run >= aim.needed and here - region.price[span.start + c] > saved:
                    saved, feature, cell, lead = here - region.price[span.start + c], np.int64(f), np.int64(c), run
            hunt.gain[at + span.high + 1] = 0
        if feature < 0:
            return
        before = cells[feature]
        cells[feature] = cell
        if not _is_counterexample(question, region, cells, aim.label):
            cells[feature] = before
            return
        state.lead = lead


@borrowing
def _end(question, region, hunt, aim, cells, state):
    """A counterexample ends the hunt; the cheapest one is first made cheaper."""
    if question.cheapest:
        _pull_back(question, region, hunt, aim, cells, state)
        _is_counterexample(question, region, cells, aim.label)
    take(question, region)
    return True


@borrowing
def _is_known(question):
    """Whether the cheapest counterexample is wanted, and one is known."""
    return question.cheapest and question.price[question.watch.progress[0] - 1] < INFINITE


@borrowing
def hunt_for(question, region, hunt, aim):
    """Whether the beam, or exchanges at its best point, find a counterexample; its cells are those of the question."""
    model, spare = question.model, hunt.points.shape[1] - 1
    state = hunt.states[0, 0]
    state.spent, state.point = _cheapest_point(region, hunt.points[0, 0]), 0
    if state.spent > region.budget[0]:
        return False
    _measure(model, hunt.points[0, 0], state, aim)
    now, n = 0, 1
    hunt.states[0, spare].lead = hunt.states[0, 0].lead - 1
    for _ in range(2 * region.ranges.shape[0]):
        kept = 0
        for s in range(n):
            state, cells = hunt.states[now, s], hunt.points[now, s]
            if state.lead >= aim.needed and _is_counterexample(question, region, cells, aim.label):
                return _end(question, region, hunt, aim, cells, state)
            if is_over(question.watch):
                return False
            _note_trees(model, region, hunt, cells, aim)
            kept = _note_moves(region, hunt, cells, state, kept, aim.width, aim.by_price)
            if state.lead > hunt.states[0, spare].lead:
                _copy_point(hunt, now, s, 0, spare)
        if kept == 0:
            break
        _next_points(region, hunt, now, kept)
        now, n = 1 - now, kept
    # Where something is known already, a proof that nothing is cheaper takes less time than exchanges.
    return not (aim.width == 1 and _is_known(question)) and _exchange(question, region, hunt, aim)


@borrowing
def _exchange(question, region, hunt, aim):
    """Undoes single moves of the best point, each for one or two others, as long as that raises the lead."""
    spare = hunt.points.shape[1] - 1
    best_point, best = hunt.points[0, spare], hunt.states[0, spare]
    point, state = hunt.points[1, spare], hunt.states[1, spare]
    f, quiet, n_features = 0, 0, best_point.shape[0]
    while quiet < n_features:
        span = region.ranges[f]
        if span.own >= 0 and region.price[span.start + best_point[f]] > 0:
            _copy_point(hunt, 0, spare, 1, spare)
            state.point = 0
            point[f] = cheapest_cell(region, span, np.int64(span.low), np.int64(span.high))
            state.spent = price_of_cells(region, point)
            _measure(question.model, point, state, aim)
            for _ in range(2):
                if is_over(question.watch):
                    return False
                _note_trees(question.model, region, hunt, point, aim)
                if _note_moves(region, hunt, point, state, 0, np.int64(1), False) == 0:
                    break
                move = hunt.moves[0]
                point[move.feature], state.lead = move.cell, move.lead
                state.spent = price_of_cells(region, point)
                if state.lead >= aim.needed and _is_counterexample(question, region, point, aim.label):
                    return _end(question, region, hunt, aim, point, state)
            if state.lead > best.lead:
                _copy_point(hunt, 1, spare, 0, spare)
                quiet = 0
        quiet += 1
        f = f + 1 if f + 1 < n_features else 0
    return False


@borrowing
def _try_known(question, region, hunt, known, label):
    """Whether moves that broke another row break this one, too; `known` (n, n_features) are their cells, else -1."""
    point = hunt.points[0, 0]
    for k in range(known.shape[0]):
        _cheapest_point(region, point)
        for f in range(point.shape[0]):
            span = region.ranges[f]
            if point[f] >= 0 and span.low <= known[k, f] <= span.high:
                point[f] = known[k, f]
        if _is_counterexample(question, region, point, label) and take(question, region):
            return True
    return False


@borrowing
def _leads_at_start(model, region, start, label, leads):
    """The lead of every class at the cheapest point; its own is the lowest."""
    _cheapest_point(region, start)
    for c in range(leads.shape[0]):
        leads[c] = model.offset[c] - model.offset[label]
    for t in range(model.roots.shape[0]):
        leaf = leaf_of_cells(model, model.roots[t], start)
        for c in range(leads.shape[0]):
            leads[c] += lead_of_leaf(model, leaf, c, label)


@borrowing
def _hunt_row(question, region, hunt, order, is_open, leads, label, width, most):
    """Whether any class beats the label of a row: at most `most` of those that are open, in this order."""
    tried = 0
    for k in range(order.shape[0]):
        other = np.int64(order[k])
        if other == label or not is_open[other] or tried == most:
            continue
        tried += 1
        needed = needed_lead(question.model.slack, other, label)
        for turn in range(1 if region.flat else 2):
            # What is cheap comes first where the cheapest is wanted.
            aim = Aim(other, label, needed, width, not region.flat and (turn == 0) == question.cheapest)
            while hunt_for(question, region, hunt, aim):
                if not question.cheapest:
                    return True
            leads[other] = max(leads[other], hunt.states[0, hunt.points.shape[1] - 1].lead)
            if is_over(question.watch):
                return False
    return False


@door
def hunt_rows(question, asked, found, room, hunt, rows, known, width, most):
    """Hunts for counterexamples to the given rows, toward at most `most` classes each, with a beam of this width."""
    for row in rows:
        if question.watch.stop[0] < 0:
            return
        question.watch.progress[0] = row + 1
        label, region = asked.labels[row], room.region
        fill_region(asked, found.price, row, region)
        _leads_at_start(question.model, region, hunt.points[0, 0], label, room.leads)
        for c in range(room.leads.shape[0]):
            room.leads[c] = max(room.leads[c], found.lead[row, c])
        sort_down(room.leads, room.leads.shape[0], room.order)
        if _try_known(question, region, hunt, known, label) or _hunt_row(
            question, region, hunt, room.order, found.open[row], found.lead[row], label, width, most
        ):
            found.status[row] = BROKEN
    question.watch.progress[0] = 0
