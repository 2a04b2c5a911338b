"""What a search writes down so that others can check it: per class a tree of boxes in preorder; docs/proof_format.md.

A race is depth first and regions wait in a stack, so that steps are written as they are taken. What turns out to be in
vain, since a race was given up, is taken back. Nothing is written where `Proof.code` is empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.jit import borrowing, tiny

# Steps.
CLOSED, CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT, WEIGH, DROP, SPEND, DECIDED = range(9)

# What `Proof.count` counts: bytes, of those written and of those that there was no room for; rows of a call that are
# done; and cuts that are to be written later.
LENGTH, DONE, LATER = 0, 1, 2
N_COUNTS = 3

ROUNDS = 4
"""How often leaves are left out with the same weights, and then segments where a tree has none."""

LOST = np.int64(-1)
"""In place of the end of a tree that there was no room for."""


class Proof(NamedTuple):
    """What is written. `code` are bytes, and `count` how many there are, and more: see LENGTH.

    `places` (n_rows, n_classes, 2) tells where the tree of a class begins and ends, both 0 if nothing was written: the
    bound of the whole region is enough. `later` (n, 3) are cuts to be written when the region of a place in the stack
    is taken up: the place, the feature, the cell. Whoever takes bytes out does so between two rows: a call ends when
    there is less than `room` for the next. Scores times 2 to the power of `exponent` are whole units.
    """

    code: Any
    count: Any
    places: Any
    later: Any
    room: Any
    exponent: Any


def proof_for(size, n_rows, n_classes, room, exponent):
    """Room for so many bytes, 0: nothing is written; made in Python."""
    some = size > 0
    return Proof(
        np.empty(size, np.uint8),
        np.zeros(N_COUNTS, np.int64),
        np.zeros((n_rows if some else 0, n_classes, 2), np.int64),
        np.empty((4096 if some else 0, 3), np.int64),
        np.int64(room),
        np.int64(exponent),
    )


@tiny
def is_recorded(proof):
    """Whether anything is written at all."""
    return proof.code.shape[0] > 0


@borrowing
def begin_row(proof):
    """Whether there is room for one more row."""
    if is_recorded(proof) and proof.count[LENGTH] > proof.code.shape[0] - proof.room:
        return False
    proof.count[DONE] += 1
    return True


@borrowing
def mark(proof):
    """Where the next step goes; `take_back` ends there again."""
    return proof.count[LENGTH]


@borrowing
def take_back(proof, mark):
    """Everything that was written since then was in vain."""
    proof.count[LENGTH] = mark


@borrowing
def end_class(proof, row, other, mark, is_proved):
    """Keeps the tree of a class that was written since then, if that proves it."""
    if not is_recorded(proof):
        return
    proof.count[LATER] = 0
    if not is_proved:
        take_back(proof, mark)
        return
    proof.places[row, other, 0], proof.places[row, other, 1] = mark, proof.count[LENGTH]
    if proof.count[LENGTH] > proof.code.shape[0]:
        proof.places[row, other, 1] = LOST
        take_back(proof, mark)


# --- numbers ----------------------------------------------------------------------------------------------------------


@borrowing
def emit(proof, number):
    """Writes a whole number from 0 on, in groups of seven bits."""
    code, at = proof.code, proof.count[LENGTH]
    more = True
    while more:
        low = number & 127
        number >>= 7
        more = number != 0
        if at < code.shape[0]:
            code[at] = low | 128 if more else low
        at += 1
    proof.count[LENGTH] = at


@borrowing
def emit_signed(proof, number):
    """Writes a whole number of either sign."""
    emit(proof, (number << 1) ^ (number >> 63))


@borrowing
def emit_double(proof, number):
    """Writes the eight bytes of a double."""
    code, at, bits = proof.code, proof.count[LENGTH], np.float64(number).view(np.int64)
    for k in range(8):
        if at + k < code.shape[0]:
            code[at + k] = (bits >> (8 * k)) & 255
    proof.count[LENGTH] = at + 8


# --- steps ------------------------------------------------------------------------------------------------------------


@borrowing
def emit_end(proof, step):
    """A box is CLOSED or DECIDED."""
    if is_recorded(proof):
        emit(proof, np.int64(step))


@borrowing
def emit_step(proof, step, feature, cell):
    """A step at the cut above a cell of a feature."""
    if is_recorded(proof):
        emit(proof, np.int64(step))
        emit(proof, np.int64(feature))
        emit(proof, np.int64(cell))


@borrowing
def emit_cut(proof, feature, cell, right):
    """A box is cut, and the cells above the cut come first (`right`), or those up to it."""
    emit_step(proof, CUT_RIGHT if right else CUT_LEFT, feature, cell)


@borrowing
def emit_keep(proof, feature, cell, right):
    """A box is limited to cells above the cut (`right`), or up to it: nothing can win in the others."""
    emit_step(proof, KEEP_RIGHT if right else KEEP_LEFT, feature, cell)


@borrowing
def emit_spent(proof, spent, needed):
    """A region is closed by what money can buy, or, if each tree with all the money is not enough, just closed."""
    if not is_recorded(proof):
        return
    if spent.free + np.float64(spent.most) < needed:
        emit(proof, np.int64(CLOSED))
    else:
        emit(proof, np.int64(SPEND))
        emit_double(proof, spent.rate * 2.0 ** np.float64(-proof.exponent))


@borrowing
def emit_parts(proof, spent, region, first, last, waiting):
    """A region is cut by price into the cells [first, last] of a feature, those below and those above.

    So they stand in the stack, from the place `waiting` on: what is above comes first, then what is below.
    """
    if not is_recorded(proof):
        return
    span = region.ranges[spent.feature]
    below, above = span.low < first, last < span.high
    if above:
        emit_cut(proof, spent.feature, last, True)
    if below and not above:
        emit_cut(proof, spent.feature, first - 1, False)
    elif below and proof.count[LATER] < proof.later.shape[0]:
        cut = proof.later[proof.count[LATER]]
        cut[0], cut[1], cut[2] = waiting + 1, spent.feature, first - 1
        proof.count[LATER] += 1
    elif below:
        proof.count[LENGTH] += proof.code.shape[0]  # too many wait: as if there were no room


@borrowing
def emit_later(proof, waiting):
    """Writes the cut that belongs to a place in the stack, now that its region is taken up, if there is any."""
    n = proof.count[LATER]
    if n > 0 and proof.later[n - 1, 0] == waiting:
        proof.count[LATER] = n - 1
        emit_cut(proof, proof.later[n - 1, 1], proof.later[n - 1, 2], False)


# --- weights ----------------------------------------------------------------------------------------------------------


@borrowing
def emit_balance(proof, race, region, part, draft, balance, budget):
    """Writes the weights of a balance, after those that leaves were left out with on the way there.

    Where a feature costs the same wherever it goes, a race uses them only to leave out leaves.
    """
    if not is_recorded(proof):
        return
    if region.limited:
        _leave_dear_ends(proof, race, balance.layout, budget)
    n = balance.layout.n_kept[0]
    for k in range(n):
        is_last = k == n - 1
        in_force = is_last and (balance.bound < balance.goal or not (region.limited and region.flat))
        emit(proof, np.int64(WEIGH if in_force else DROP))
        emit_signed(proof, np.int64(np.log2(balance.scale)) + proof.exponent)
        emit_double(proof, balance.rate)
        emit(proof, np.int64(ROUNDS))
        _emit_weights(proof, race, part, draft, balance.layout, balance.layout.kept[k])
    if balance.bound < balance.goal:
        emit(proof, np.int64(CLOSED))


@borrowing
def _leave_dear_ends(proof, race, layout, budget):
    """Leaves out the segments at the ends of features that cannot be paid for."""
    for i in range(layout.spans.shape[0]):
        span, feature = layout.spans[i], race.features[i]
        first, last = np.int64(span.segment), np.int64(span.segment + span.n_segments - 1)
        low, high = first, last
        while low < high and layout.segments[low].price > budget:
            low += 1
        while high > low and layout.segments[high].price > budget:
            high -= 1
        s = first
        for k in range(feature.first_test, feature.end_test):
            if k > feature.first_test and race.tests[k].cut == race.tests[k - 1].cut:
                continue
            if s == low - 1:
                emit_keep(proof, feature.feature, race.tests[k].cut, True)
            if s == high and high < last:
                emit_keep(proof, feature.feature, race.tests[k].cut, False)
            s += 1


@borrowing
def _emit_weights(proof, race, part, draft, layout, weights):
    """Writes weights feature by feature; see `Layout.kept`."""
    for t in range(race.trees.shape[0] - 1):
        draft.order[race.trees[t].leaf] = t
    emit(proof, np.int64(layout.spans.shape[0]))
    last = np.int64(-1)
    for i in range(layout.spans.shape[0]):
        span, feature = layout.spans[i], race.features[i]
        emit(proof, feature.feature - last - 1)
        last = np.int64(feature.feature)
        emit(proof, np.int64(span.n_segments - 1))
        before = np.int64(-1)
        for k in range(feature.first_test, feature.end_test):
            cut = np.int64(race.tests[k].cut)
            if cut != before:
                emit(proof, cut - before - 1)
                before = cut
        level = np.int64(0)
        for s in range(span.segment, span.segment + span.n_segments):
            emit_signed(proof, weights[s] - level)
            level = weights[s]
        _emit_pairs(proof, race, part, draft, layout, span, weights)


@borrowing
def _emit_pairs(proof, race, part, draft, layout, span, weights):
    """Writes what trees reach in the pieces of a feature, tree by tree."""
    pair_of, tree_of = draft.nodes, draft.order
    for t in range(race.trees.shape[0] - 1):
        pair_of[t] = -1
    for p in range(span.pair, span.end):
        pair_of[tree_of[layout.pairs[p].leaf]] = p
    emit(proof, np.int64(span.end - span.pair))
    t, last = 0, np.int64(-1)
    for number in range(part.roots.shape[0] - 1):
        if draft.subtrees[part.roots[number]].kind >= 0:  # it leaves no choice, and is not in the race
            continue
        p = np.int64(pair_of[t])
        t += 1
        if p < 0:
            continue
        emit(proof, number - last - 1)
        last = np.int64(number)
        pair, before, reached = layout.pairs[p], np.int64(-1), np.int64(0)
        emit(proof, np.int64(pair.n_pieces - 1))
        for g in range(pair.piece, pair.piece + pair.n_pieces - 1):
            emit(proof, layout.pieces[g].last - before - 1)
            before = np.int64(layout.pieces[g].last)
        for g in range(pair.piece, pair.piece + pair.n_pieces):
            now = weights[layout.segments.shape[0] + g]
            emit_signed(proof, now - reached)
            reached = now
