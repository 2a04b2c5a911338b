"""Leads of one class over another on a box of cells, and what single attacks make of them."""

from __future__ import annotations

import numpy as np

from treeproof._kernels.bits import highest_bit, lowest_bit
from treeproof._kernels.jit import borrowing, merged, tiny
from treeproof._kernels.maps.masks import leaves_between
from treeproof._kernels.maps.status import OPEN, STABLE, UNSTABLE
from treeproof._kernels.maps.tables import ONE, ZERO, Bounds

LOWEST = np.int64(-(2**61))


@borrowing
def top_lead(word, first, leaves, value, race):
    """The largest lead among the live leaves of a tree, whose leaves begin at `first`."""
    if race.mode == ONE:
        return leaves[first + lowest_bit(word)].lead
    if race.mode == ZERO:
        return -leaves[first + highest_bit(word)].lead
    return _top_of_any(word, first, value, race.other, race.label)


@borrowing
def bottom_lead(word, first, leaves, value, race):
    """The smallest lead among the live leaves of a tree, whose leaves begin at `first`."""
    if race.mode == ONE:
        return leaves[first + highest_bit(word)].lead
    if race.mode == ZERO:
        return -leaves[first + lowest_bit(word)].lead
    return -_top_of_any(word, first, value, race.label, race.other)


@borrowing
def _top_of_any(word, first, value, other, label):
    best = LOWEST
    while word != 0:
        i = first + lowest_bit(word)
        best = max(best, value[i, other] - value[i, label])
        word &= word - np.uint64(1)
    return best


@borrowing
def best_score(word, first, value, c):
    """The largest score of class c among the live leaves of a tree."""
    best = LOWEST
    while word != 0:
        best = max(best, value[first + lowest_bit(word), c])
        word &= word - np.uint64(1)
    return best


@borrowing
def one_group(word, first, leaves):
    """Whether nothing tells the live leaves apart."""
    its = leaves[first + lowest_bit(word)].group
    word &= word - np.uint64(1)
    while word != 0:
        if leaves[first + lowest_bit(word)].group != its:
            return False
        word &= word - np.uint64(1)
    return True


@tiny
def own_bounds(boxed, part, race, leads):
    """The lead without any attack; fills what each tree has of it into `leads`."""
    trees, leaves, value, words = boxed.trees, boxed.leaves, boxed.value, part.words
    top, bottom = race.constant, race.constant
    for q in range(part.trees.shape[0]):
        tree = trees[part.trees[q]]
        word = words[tree.set]
        leads[q].greatest = top_lead(word, tree.leaf, leaves, value, race)
        leads[q].least = bottom_lead(word, tree.leaf, leaves, value, race)
        top += leads[q].greatest
        bottom += leads[q].least
    return Bounds(top, bottom)


@tiny
def move_one(f, race, own, space, boxed, part, scratch):
    """An attack that moves feature f alone, coarse cell by coarse cell: (status, most dangerous cell, its lead).

    STABLE if no cell lets the other class win, UNSTABLE if one surely does that all of the box can reach, else OPEN.
    `own` is the lead without any attack.
    """
    feature, its = space.features[f], part.box[f]
    low, high = space.cells[feature.start + its.low], space.cells[feature.start + its.high]
    first_cell, last_cell = low.hull_low, high.hull_high
    changes = scratch.changes
    _change_by_cell(f, first_cell, last_cell, low.own, high.own, race, boxed, part, scratch.leads, changes)
    sure_low, sure_high = high.must_low, low.must_high
    if feature.irregular and its.low < its.high:
        sure_low, sure_high = 1, 0
    cell, worst = np.int64(-1), Bounds(LOWEST, LOWEST)
    for c in range(first_cell, last_cell + 1):
        if low.own <= c <= high.own:
            continue
        change = changes[c - first_cell]
        lead = Bounds(own.top + change.top, own.bottom + change.bottom)
        if lead.top < race.need:
            continue
        if sure_low <= c <= sure_high and lead.bottom >= race.sure:
            return UNSTABLE, c, lead
        if lead.bottom > worst.bottom:
            cell, worst = c, lead
    return (STABLE if cell < 0 else OPEN), cell, worst


@merged
def _change_by_cell(f, first_cell, last_cell, own_low, own_high, race, boxed, part, leads, changes):
    """Fills `changes` with what moving feature f to each cell, the box's own ones aside, does to the lead."""
    trees, leaves, value = boxed.trees, boxed.leaves, boxed.value
    pairs, masks, place, members = boxed.pairs, boxed.masks, boxed.place, boxed.members
    words = part.words
    for i in range(last_cell + 1 - first_cell):
        changes[i].top = 0
        changes[i].bottom = 0
    for q in range(part.trees.shape[0]):
        t = part.trees[q]
        p = place[t, f]
        if p < 0:
            continue
        tree, its = trees[t], leads[q]
        bit = np.uint64(1) << np.uint64(p)
        j = tree.set + 1
        while members[j] != bit:
            j += 1
        word, table = words[j], pairs[tree.pair + p].table
        for c in range(first_cell, last_cell + 1):
            if own_low <= c <= own_high:
                continue
            mask, change = masks[table + c], changes[c - first_cell]
            live = word & mask.at_least & mask.at_most
            change.top += top_lead(live, tree.leaf, leaves, value, race) - its.greatest
            change.bottom += bottom_lead(live, tree.leaf, leaves, value, race) - its.least


@tiny
def use_sets(attack, boxed, part, leads):
    """Gives each tree in `leads` the set of its features that the attack moves; attack -1 moves none."""
    trees, uses = boxed.trees, boxed.uses
    for q in range(part.trees.shape[0]):
        tree = trees[part.trees[q]]
        leads[q].set = tree.set
        for u in range(tree.use, tree.use_end):
            if uses[u].attack == attack:
                leads[q].set = uses[u].set


@borrowing
def breaks(attack, race, total, space, boxed, part, scratch):
    """Whether moves of an attack's features to certain cells, possible from all of the box, surely break the label.

    Coordinate ascent: each feature in turn goes to the cell where the lead is largest in the worst case. `total` is
    that lead before any move.
    """
    features, cells, attacked = space.features, space.cells, space.attacked
    box, leads, moved = part.box, scratch.leads, scratch.moved
    for i in range(attack.first, attack.end):
        f = attacked[i]
        start = features[f].start
        moved[f].low, moved[f].high = cells[start + box[f].low].own, cells[start + box[f].high].own
    for q in range(part.trees.shape[0]):
        leads[q].moved = leads[q].least
    for i in range(attack.first, attack.end):
        f = attacked[i]
        feature = features[f]
        if feature.irregular and box[f].low < box[f].high:
            continue
        low, high = cells[feature.start + box[f].low], cells[feature.start + box[f].high]
        first_cell, last_cell = high.must_low, low.must_high
        if first_cell > last_cell or (first_cell >= low.own and last_cell <= high.own):
            continue
        _worst_by_cell(f, first_cell, last_cell, race, boxed, part, scratch)
        best, cell = np.int64(0), np.int64(-1)
        for c in range(first_cell, last_cell + 1):
            change = scratch.changes[c - first_cell].bottom
            if not low.own <= c <= high.own and (cell < 0 or change > best):
                best, cell = change, c
        if total + best >= race.sure:
            return True
        if best <= 0 or i == attack.end - 1:
            continue
        total += best
        moved[f].low, moved[f].high = cell, cell
        _follow(f, race, boxed, part, scratch)
    return False


@borrowing
def _live_after_moves(word, bits, tree, pairs, masks, moved):
    """The leaves of `word` that are left where the features of a tree whose `bits` are set have been moved."""
    while bits != 0:
        pair = pairs[tree.pair + lowest_bit(bits)]
        its = moved[pair.feature]
        word &= leaves_between(masks, pair, its.low, its.high)
        bits &= bits - np.uint64(1)
    return word


@borrowing
def _worst_by_cell(f, first_cell, last_cell, race, boxed, part, scratch):
    """Fills `changes` with what moving feature f to each cell, after the moves so far, does to the smallest lead."""
    trees, leaves, value = boxed.trees, boxed.leaves, boxed.value
    pairs, masks, place, members = boxed.pairs, boxed.masks, boxed.place, boxed.members
    words, changes = part.words, scratch.changes
    for i in range(last_cell + 1 - first_cell):
        changes[i].bottom = 0
    for q in range(part.trees.shape[0]):
        t = part.trees[q]
        p = place[t, f]
        if p < 0:
            continue
        tree, its = trees[t], scratch.leads[q]
        others = members[its.set] & ~(np.uint64(1) << np.uint64(p))
        rest = _live_after_moves(words[its.set], others, tree, pairs, masks, scratch.moved)
        table = pairs[tree.pair + p].table
        for c in range(first_cell, last_cell + 1):
            mask = masks[table + c]
            word = rest & mask.at_least & mask.at_most
            changes[c - first_cell].bottom += bottom_lead(word, tree.leaf, leaves, value, race) - its.moved


@borrowing
def _follow(f, race, boxed, part, scratch):
    """Brings the smallest leads of the trees that test feature f up to the moves so far."""
    for q in range(part.trees.shape[0]):
        t = part.trees[q]
        if boxed.place[t, f] < 0:
            continue
        tree, its = boxed.trees[t], scratch.leads[q]
        word = _live_after_moves(
            part.words[its.set], boxed.members[its.set], tree, boxed.pairs, boxed.masks, scratch.moved
        )
        its.moved = bottom_lead(word, tree.leaf, boxed.leaves, boxed.value, race)
