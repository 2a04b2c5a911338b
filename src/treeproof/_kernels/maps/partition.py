"""Branch and bound over boxes of fine cells: cuts a box until each part is stable or unstable.

For a box and each attack (a set of features that the attacker can pay for) the live leaves of each open tree are a
word: features that are not moved keep the box's own cells, moved ones have all cells that a move can reach. Cutting the
box only takes leaves away, so the words of a part are those of the box `and` a mask, for the trees that test the cut
feature. The lead of one class over another is bounded by the best and the worst live leaf of each tree.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import entry, inner
from treeproof._kernels.maps.attacks import (
    ANY,
    LOWEST,
    ONE,
    OPEN,
    STABLE,
    UNSTABLE,
    ZERO,
    best_score,
    bottom_lead,
    breaks,
    move_one,
    one_group,
    own_bounds,
    reach_cut,
    top_lead,
)

PENDING = 3
"""Every point of the box has the same reach, but bounds do not tell; the local search must."""
CUT_AGAIN = -1

HALF = 0.5
"""What a test counts for the choice of a cut, relative to the test above it."""
REACH = 0.1
"""What the end of a cell's reach counts, relative to how far apart the leads of its box are."""
CHECK_EVERY = 64


@inner
def _part_of_box(
    f, k, right, start, own, hull_low, hull_high, low, high, words, trees, n_trees, settled, part_low, part_high,
    part_words, part_trees, part_settled, leaf_first, local_first, set_first, value, group, table, at_least, at_most,
    place, members,
):  # fmt: skip
    """One side of the cut behind fine cell k of feature f: its box, words, open trees; returns their number."""
    for g in range(low.shape[0]):
        part_low[g], part_high[g] = low[g], high[g]
    for c in range(settled.shape[0]):
        part_settled[c] = settled[c]
    if right:
        part_low[f] = k + 1
    else:
        part_high[f] = k
    at_low, at_high = start[f] + part_low[f], start[f] + part_high[f]
    a, b, reach_a, reach_b = own[at_low], own[at_high], hull_low[at_low], hull_high[at_high]
    n = 0
    for q in range(n_trees):
        t = trees[q]
        first, end = set_first[t], set_first[t + 1]
        p = place[t, f]
        if p < 0:
            for j in range(first, end):
                part_words[j] = words[j]
        else:
            at = table[local_first[t] + p]
            plain = at_least[at + a] & at_most[at + b]
            moved = at_least[at + reach_a] & at_most[at + reach_b]
            bit = np.uint64(1) << np.uint64(p)
            for j in range(first, end):
                part_words[j] = words[j] & (moved if members[j] & bit else plain)
            live = part_words[first + 1]
            if live != words[first + 1] and one_group(live, leaf_first[t], group):
                leaf = leaf_first[t] + lowest_bit(live)
                for c in range(settled.shape[0]):
                    part_settled[c] += value[leaf, c]
                continue
        part_trees[n] = t
        n += 1
    return n


@inner
def _vote(
    now, low, high, words, trees, n_trees, set_of, start, own, hull_low, hull_high, cut_of, coarse_start, leaf_first,
    local_first, lead, value, table, at_least, at_most, place, test_cut, test_mask, other, label, mode, pin, cell,
    stamp, votes, waiting_word, waiting_test, waiting_weight,
):  # fmt: skip
    """(votes, feature, fine cell before the cut) of the cut that most trees ask for; feature -1 if none asks.

    A tree asks for its topmost test that is still undecided, because that one matters everywhere in the box, and
    with weights halved at each step for the undecided tests below it. `set_of` (trees,) is each tree's attacked
    set; feature `pin`, unless -1, is moved to `cell`.
    """
    best, best_f, best_k = 0.0, -1, -1
    for q in range(n_trees):
        t = trees[q]
        word = words[set_of[t]]
        if pin >= 0 and place[t, pin] >= 0:
            at = table[local_first[t] + place[t, pin]] + cell
            word &= at_least[at] & at_most[at]
        first = leaf_first[t]
        waiting_word[0], waiting_test[0], waiting_weight[0] = word, first - t, 1.0
        n = 1
        while n > 0:
            n -= 1
            word, k, weight = waiting_word[n], waiting_test[n], waiting_weight[n]
            if word & (word - np.uint64(1)) == 0:
                continue
            spread = top_lead(word, first, lead, value, other, label, mode) - bottom_lead(
                word, first, lead, value, other, label, mode
            )
            if spread == 0:
                continue
            left, right = word & test_mask[k, 0], word & test_mask[k, 1]
            while left == 0 or right == 0:
                k = test_cut[k, 2] if right == 0 else test_cut[k, 3]
                left, right = word & test_mask[k, 0], word & test_mask[k, 1]
            f = np.int64(test_cut[k, 0])
            c = np.int64(test_cut[k, 1])
            if c < own[start[f] + low[f]]:
                # The feature is moved, and the test lies outside the box: cut where the reach of it ends.
                at_cut = reach_cut(f, c, low, high, start, own, hull_low, hull_high)
            elif c >= own[start[f] + high[f]]:
                at_cut = reach_cut(f, c + 1, low, high, start, own, hull_low, hull_high)
            else:
                at_cut = np.int64(cut_of[coarse_start[f] + c])
            if at_cut >= 0:
                cut = start[f] - f + at_cut
                if stamp[cut] != now:
                    stamp[cut] = now
                    votes[cut] = 0.0
                votes[cut] += weight * spread
                if votes[cut] > best:
                    best, best_f, best_k = votes[cut], f, at_cut
            if weight > 0.1:
                waiting_word[n], waiting_test[n], waiting_weight[n] = left, test_cut[k, 2], weight * HALF
                n += 1
                waiting_word[n], waiting_test[n], waiting_weight[n] = right, test_cut[k, 3], weight * HALF
                n += 1
    return best, best_f, best_k


@inner
def _any_cut(
    low, high, words, trees, n_trees, set_first, start, own, hull_low, hull_high, away, local_first, local_feature,
    table, at_least, at_most,
):  # fmt: skip
    """A cut that makes any difference to any attack, or feature -1: then all points of the box are alike."""
    for q in range(n_trees):
        t = trees[q]
        word = words[set_first[t] + 1]
        for i in range(local_first[t], local_first[t + 1]):
            f, at = local_feature[i], table[i]
            if low[f] == high[f]:
                continue
            base = start[f]
            a, b = base + low[f], base + high[f]
            plain = word & at_least[at + own[a]] & at_most[at + own[b]]
            middle = (low[f] + high[f]) // 2
            if away[f]:
                return f, middle
            for step in range(high[f] - low[f]):
                k = low[f] + (middle - low[f] + step) % (high[f] - low[f])
                left, right = base + k, base + k + 1
                if (
                    word & at_least[at + hull_low[a]] & at_most[at + hull_high[left]] != word
                    or word & at_least[at + hull_low[right]] & at_most[at + hull_high[b]] != word
                    or plain & at_most[at + own[left]] != plain
                    or plain & at_least[at + own[right]] != plain
                ):
                    return f, k
    return -1, -1


@inner
def _doubled(array):
    """The same rows in an array with room for twice as many."""
    bigger = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    for i in range(array.shape[0]):
        for j in range(array.shape[1]):
            bigger[i, j] = array[i, j]
    return bigger


@inner
def _use_sets(attack, trees, n_trees, set_first, use_first, use_attack, use_set, set_of):
    """Fills `set_of` with each tree's set of features that the attack moves; attack -1 moves none."""
    for q in range(n_trees):
        t = trees[q]
        set_of[t] = set_first[t]
        for u in range(use_first[t], use_first[t + 1]):
            if use_attack[u] == attack:
                set_of[t] = use_set[u]


@inner
def _settle(
    now, low, high, words, trees, n_trees, settled, attack_features, attack_size, start, own, hull_low, hull_high,
    must_low, must_high, irregular, away, cut_of, coarse_start, offset, slack, leaf_first, local_first, set_first,
    use_first, lead, value, local_feature, table, at_least, at_most, place, members, use_attack, use_set, test_cut,
    test_mask, set_of, attack_top, stamp, votes, waiting_word, waiting_test, waiting_weight, now_low, now_high,
    greatest, least, change, other_change,
):  # fmt: skip
    """The status of a box, or CUT_AGAIN and where: (status, feature, fine cell before the cut)."""
    n_classes, n_attacks = offset.shape[0], attack_size.shape[0]
    two = n_classes == 2
    other, label, mode = np.int64(1), np.int64(0), np.int64(ONE)
    if not two:
        # If the box has one label, it is the class with the best possible score.
        mode, best = np.int64(ANY), LOWEST
        for c in range(n_classes):
            total = offset[c] + settled[c]
            for q in range(n_trees):
                total += best_score(words[set_first[trees[q]]], leaf_first[trees[q]], value, c)
            if total > best:
                best, label = total, c
    decided, most, its_top, its_bottom = True, LOWEST, np.int64(0), np.int64(0)
    for c in range(n_classes):
        if c == label:
            continue
        constant = offset[c] + settled[c] - offset[label] - settled[label]
        top, bottom = own_bounds(
            words, trees, n_trees, set_first, leaf_first, lead, value, c, label, mode, greatest, least
        )
        top, bottom = top + constant, bottom + constant
        need = -slack if slack > 0 else (0 if c < label else 1)
        if top >= need:
            if two and bottom >= (slack + 1 if slack > 0 else 1):
                other, label, mode = np.int64(0), np.int64(1), np.int64(ZERO)
                break
            decided = False
        if top - need > most:
            most, other, its_top, its_bottom = top - need, c, top, bottom
    attack, pin, cell = np.int64(-1), np.int64(-1), np.int64(-1)
    if decided:
        # One label so far. Every class and every attack that may still change it.
        most = LOWEST
        for c in range(n_classes):
            if c == label:
                continue
            constant = offset[c] + settled[c] - offset[label] - settled[label]
            need = -slack if slack > 0 else (0 if c < label else 1)
            sure = slack + 1 if slack > 0 else need
            top, bottom = own_bounds(
                words, trees, n_trees, set_first, leaf_first, lead, value, c, label, mode, greatest, least
            )
            top, bottom = top + constant, bottom + constant
            for s in range(n_attacks):
                attack_top[s] = top
            for q in range(n_trees):
                t = trees[q]
                for u in range(use_first[t], use_first[t + 1]):
                    attack_top[use_attack[u]] += (
                        top_lead(words[use_set[u]], leaf_first[t], lead, value, c, label, mode) - greatest[q]
                    )
            for s in range(n_attacks):
                if attack_top[s] < need:
                    continue
                if attack_size[s] == 1:
                    status, k, cell_top, cell_bottom = move_one(
                        attack_features[s, 0], low, high, words, trees, n_trees, start, own, hull_low, hull_high,
                        must_low, must_high, irregular, top, bottom, need, sure, leaf_first, local_first, set_first,
                        members, lead, value, table, at_least, at_most, place, c, label, mode, greatest, least, change,
                        other_change,
                    )  # fmt: skip
                    if status == UNSTABLE:
                        return UNSTABLE, -1, -1
                    # One attack that breaks the box is enough, so go after the one that is closest to it.
                    if status == OPEN and cell_bottom - sure > most:
                        most, other, attack, its_top, its_bottom = cell_bottom - sure, c, s, cell_top, cell_bottom
                        pin, cell = np.int64(attack_features[s, 0]), np.int64(k)
                    continue
                _use_sets(s, trees, n_trees, set_first, use_first, use_attack, use_set, set_of)
                if breaks(
                    attack_features[s], attack_size[s], low, high, words, trees, n_trees, set_of, start, own, must_low,
                    must_high, irregular, bottom, sure, leaf_first, local_first, lead, value, local_feature, table,
                    at_least, at_most, place, members, c, label, mode, now_low, now_high, least, change,
                ):  # fmt: skip
                    return UNSTABLE, -1, -1
                if bottom - sure > most:
                    most, other, attack, its_top, its_bottom = bottom - sure, c, s, attack_top[s], bottom
                    pin = -1
        if attack < 0:
            return STABLE, -1, -1
    _use_sets(attack, trees, n_trees, set_first, use_first, use_attack, use_set, set_of)
    best, f, k = _vote(
        now, low, high, words, trees, n_trees, set_of, start, own, hull_low, hull_high, cut_of, coarse_start,
        leaf_first, local_first, lead, value, table, at_least, at_most, place, test_cut, test_mask, other, label, mode,
        pin, cell, stamp, votes, waiting_word, waiting_test, waiting_weight,
    )  # fmt: skip
    if pin >= 0:
        at = reach_cut(pin, cell, low, high, start, own, hull_low, hull_high)
        # One side cannot reach the cell; on the other one all can.
        if at >= 0 and REACH * (its_top - its_bottom) >= best:
            f, k = pin, at
    if f < 0:
        f, k = _any_cut(
            low, high, words, trees, n_trees, set_first, start, own, hull_low, hull_high, away, local_first,
            local_feature, table, at_least, at_most,
        )  # fmt: skip
    return (PENDING if f < 0 else CUT_AGAIN), f, k


@inner
def _gather(cells, order, begin, end, f, k):
    """Puts the points of order[begin:end] up to fine cell k of feature f first; returns where the others begin."""
    middle = begin
    for i in range(begin, end):
        if cells[order[i], f] <= k:
            order[i], order[middle] = order[middle], order[i]
            middle += 1
    return middle


@entry
def cut_box(boxed, fine, first_low, first_high, constant, offset, slack, attack_features, attack_size, points, limit,
            stop):  # fmt: skip
    """Cuts a box into parts, at most `limit` of them visited; returns a tree of cuts and the parts left over.

    The tree, `nodes` (n, 2): the cut, numbered over all features, and the node of the left part, its sibling right
    behind it; for a leaf -1 and -1 - status. Left over, OPEN or PENDING, are `rest` (m, 2): node and number of points,
    and `rest_box` (m, 2 * n_features). Also returns the number of boxes visited. With `points` (n, n_features) fine
    cells, parts that hold some come first, and those that hold none are left over.
    """
    start, own, hull_low, hull_high = fine.start, fine.own, fine.hull_low, fine.hull_high
    must_low, must_high, irregular, away = fine.must_low, fine.must_high, fine.irregular, fine.away
    cut_of, coarse_start = fine.cut_of, fine.coarse_start
    leaf_first, local_first, set_first, use_first = (
        boxed.leaf_first, boxed.local_first, boxed.set_first, boxed.use_first
    )  # fmt: skip
    lead, value, group, local_feature, table = (
        boxed.lead, boxed.value, boxed.group, boxed.local_feature, boxed.table
    )  # fmt: skip
    at_least, at_most, place, members = boxed.at_least, boxed.at_most, boxed.place, boxed.members
    use_attack, use_set, test_cut, test_mask = boxed.use_attack, boxed.use_set, boxed.test_cut, boxed.test_mask
    n_trees, n_features, n_classes = leaf_first.shape[0] - 1, first_low.shape[0], offset.shape[0]
    n_cuts = start[n_features] - n_features
    guided = points.shape[0] > 0
    order = np.arange(points.shape[0])

    # Per level: the box's low and high cells and open trees; words; in `frame` the node, the stage (0 new, 1 one side
    # is done, 2 both), feature and cell of the cut, whether the right side came first, where its points begin, where
    # those of the right side do, and where they end; the number of open trees, and what settled trees give each class.
    boxes = np.empty((32, 2 * n_features + n_trees), np.int32)
    words = np.empty((32, members.shape[0]), np.uint64)
    frame = np.empty((32, 9 + n_classes), np.int64)
    nodes = np.empty((1024, 2), np.int32)
    rest, rest_box = np.empty((64, 2), np.int64), np.empty((64, 2 * n_features), np.int32)
    n_rest = 0

    stamp, votes = np.full(max(n_cuts, 1), -1, np.int64), np.empty(max(n_cuts, 1))
    waiting_word, waiting_test, waiting_weight = np.empty(64, np.uint64), np.empty(64, np.int64), np.empty(64)
    set_of = np.empty(n_trees, np.int32)
    attack_top = np.empty(attack_size.shape[0], np.int64)
    now_low, now_high = np.empty(n_features, np.int32), np.empty(n_features, np.int32)
    greatest, least = np.empty(n_trees, np.int64), np.empty(n_trees, np.int64)
    change, other_change = np.empty(fine.most_cells, np.int64), np.empty(fine.most_cells, np.int64)

    _first_words(
        first_low, first_high, start, own, hull_low, hull_high, local_first, set_first, local_feature, table, at_least,
        at_most, members, words[0],
    )  # fmt: skip
    for f in range(n_features):
        boxes[0, f], boxes[0, n_features + f] = first_low[f], first_high[f]
    for t in range(n_trees):
        boxes[0, 2 * n_features + t] = t
    for c in range(n_classes):
        frame[0, 9 + c] = constant[c]
    frame[0, 0], frame[0, 1], frame[0, 5], frame[0, 7], frame[0, 8] = 0, 0, 0, points.shape[0], n_trees
    level, n_nodes, visited, full = 0, 1, np.int64(0), False
    while level >= 0:
        node, stage = frame[level, 0], frame[level, 1]
        box = boxes[level]
        if stage == 0:
            n_points = frame[level, 7] - frame[level, 5]
            status, f, k = OPEN, -1, -1
            if not full and (not guided or n_points > 0):
                status, f, k = _settle(
                    visited, box[:n_features], box[n_features : 2 * n_features], words[level], box[2 * n_features :],
                    frame[level, 8], frame[level, 9:], attack_features, attack_size, start, own, hull_low, hull_high,
                    must_low, must_high, irregular, away, cut_of, coarse_start, offset, slack, leaf_first, local_first,
                    set_first, use_first, lead, value, local_feature, table, at_least, at_most, place, members,
                    use_attack, use_set, test_cut, test_mask, set_of, attack_top, stamp, votes, waiting_word,
                    waiting_test, waiting_weight, now_low, now_high, greatest, least, change, other_change,
                )  # fmt: skip
                visited += 1
                full = visited >= limit or (visited % CHECK_EVERY == 0 and stop[0] != 0)
            if status != CUT_AGAIN:
                nodes[node, 0], nodes[node, 1] = -1, -1 - status
                if status >= OPEN:
                    if n_rest == rest.shape[0]:
                        rest, rest_box = _doubled(rest), _doubled(rest_box)
                    rest[n_rest, 0], rest[n_rest, 1] = node, n_points
                    for f in range(2 * n_features):
                        rest_box[n_rest, f] = box[f]
                    n_rest += 1
                level -= 1
                continue
            if n_nodes + 2 > nodes.shape[0]:
                nodes = _doubled(nodes)
            nodes[node, 0], nodes[node, 1] = start[f] - f + k, n_nodes
            n_nodes += 2
            begin, end = frame[level, 5], frame[level, 7]
            middle = _gather(points, order, begin, end, f, k) if guided else begin
            frame[level, 2], frame[level, 3] = f, k
            frame[level, 4] = end - middle > middle - begin
            frame[level, 6] = middle
        elif stage == 2:
            at = nodes[node, 1]
            if nodes[at, 1] == nodes[at + 1, 1] and -1 - UNSTABLE <= nodes[at, 1] <= -1 - STABLE:
                # The cut tells nothing apart. Whatever was below it is gone by now, so its nodes are the last ones.
                nodes[node, 0], nodes[node, 1] = -1, nodes[at, 1]
                n_nodes = at
            level -= 1
            continue
        if level + 1 == boxes.shape[0]:
            boxes, words, frame = _doubled(boxes), _doubled(words), _doubled(frame)
            box = boxes[level]
        right = frame[level, 4] != stage
        part = boxes[level + 1]
        frame[level + 1, 8] = _part_of_box(
            frame[level, 2], frame[level, 3], right, start, own, hull_low, hull_high, box[:n_features],
            box[n_features : 2 * n_features], words[level], box[2 * n_features :], frame[level, 8], frame[level, 9:],
            part[:n_features], part[n_features : 2 * n_features], words[level + 1], part[2 * n_features :],
            frame[level + 1, 9:], leaf_first, local_first, set_first, value, group, table, at_least, at_most, place,
            members,
        )  # fmt: skip
        frame[level, 1] += 1
        frame[level + 1, 0] = nodes[node, 1] + right
        frame[level + 1, 1] = 0
        frame[level + 1, 5] = frame[level, 6] if right else frame[level, 5]
        frame[level + 1, 7] = frame[level, 7] if right else frame[level, 6]
        level += 1
    return nodes[:n_nodes].copy(), rest[:n_rest].copy(), rest_box[:n_rest].copy(), visited


@inner
def _first_words(
    low, high, start, own, hull_low, hull_high, local_first, set_first, local_feature, table, at_least, at_most,
    members, words,
):  # fmt: skip
    """Fills the words of a whole box, for each tree and attacked set."""
    for t in range(set_first.shape[0] - 1):
        for j in range(set_first[t], set_first[t + 1]):
            word = np.uint64(0xFFFFFFFFFFFFFFFF)
            for i in range(local_first[t], local_first[t + 1]):
                f, at = local_feature[i], table[i]
                a, b = start[f] + low[f], start[f] + high[f]
                if members[j] & (np.uint64(1) << np.uint64(i - local_first[t])):
                    word &= at_least[at + hull_low[a]] & at_most[at + hull_high[b]]
                else:
                    word &= at_least[at + own[a]] & at_most[at + own[b]]
            words[j] = word
