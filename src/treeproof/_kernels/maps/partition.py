"""Branch and bound over boxes of fine cells: cuts a box until each part is stable or unstable.

For a box and each attack (a set of features that the attacker can pay for) the live leaves of each open tree are a
word: features that are not moved keep the box's own cells, moved ones have all cells that a move can reach. Cutting the
box only takes leaves away, so the words of a part are those of the box `and` a mask, for the trees that test the cut
feature. The lead of one class over another is bounded by the best and the worst live leaf of each tree.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import borrowing, entry, inner, merged, tiny
from treeproof._kernels.maps.attacks import (
    LOWEST,
    best_score,
    breaks,
    move_one,
    one_group,
    own_bounds,
    top_lead,
    use_sets,
)
from treeproof._kernels.maps.cuts import choose_cut
from treeproof._kernels.maps.masks import leaves_between
from treeproof._kernels.maps.status import CUT_AGAIN, OPEN, PENDING, STABLE, UNSTABLE
from treeproof._kernels.maps.tables import (
    ANY,
    CHANGE,
    FRAME,
    LEADS,
    MAX_LEAVES,
    NODE,
    ONE,
    RANGE,
    REST,
    VOTE,
    WAITING,
    WORK,
    ZERO,
    Found,
    Guide,
    Levels,
    Part,
    Race,
    Scratch,
    Target,
)

CHECK_EVERY = 64
"""Boxes after which the order to stop is looked for."""


@inner
def _first_level(space, boxed, box, n_points):
    """Levels that begin with the whole box."""
    n_trees, n_features, n_classes = boxed.trees.shape[0], box.shape[0], boxed.settled.shape[0]
    levels = Levels(
        np.empty(32, FRAME),
        np.empty((32, n_features), RANGE),
        np.empty((32, boxed.members.shape[0]), np.uint64),
        np.empty((32, n_trees), np.int32),
        np.empty((32, n_classes), np.int64),
    )
    for f in range(n_features):
        levels.boxes[0, f].low, levels.boxes[0, f].high = box[f].low, box[f].high
    for t in range(n_trees):
        levels.trees[0, t] = t
        _first_words(boxed.trees[t], space, boxed, box, levels.words[0])
    for c in range(n_classes):
        levels.settled[0, c] = boxed.settled[c]
    frame = levels.frames[0]
    frame.node, frame.stage, frame.begin, frame.end, frame.n_trees = 0, 0, 0, n_points, n_trees
    return levels


@borrowing
def _first_words(tree, space, boxed, box, words):
    """Fills the words of a tree in a whole box, for each attacked set."""
    for j in range(tree.set, tree.set_end):
        word = np.uint64(0xFFFFFFFFFFFFFFFF)
        for i in range(tree.pair, tree.pair_end):
            pair = boxed.pairs[i]
            f = pair.feature
            start = space.features[f].start
            low, high = space.cells[start + box[f].low], space.cells[start + box[f].high]
            if boxed.members[j] & (np.uint64(1) << np.uint64(i - tree.pair)):
                word &= leaves_between(boxed.masks, pair, low.hull_low, high.hull_high)
            else:
                word &= leaves_between(boxed.masks, pair, low.own, high.own)
        words[j] = word


@inner
def _twice_as_deep(levels):
    """The same levels with room for twice as many."""
    return Levels(
        doubled(levels.frames),
        doubled(levels.boxes),
        doubled(levels.words),
        doubled(levels.trees),
        doubled(levels.settled),
    )


@inner
def _scratch(space, boxed):
    """Room to work in."""
    n_trees, n_features = boxed.trees.shape[0], space.features.shape[0]
    n_cuts = max(space.cells.shape[0] - n_features, 1)
    scratch = Scratch(
        np.empty(n_trees, LEADS),
        np.empty(space.attacks.shape[0], np.int64),
        np.empty(space.max_cells, CHANGE),
        np.empty(n_features, RANGE),
        np.empty(n_cuts, VOTE),
        np.empty(MAX_LEAVES, WAITING),
    )
    for cut in range(n_cuts):
        scratch.votes[cut].stamp = -1
    return scratch


@merged
def _cut_off(level, right, space, boxed, levels):
    """Fills the next level with one side of the cut of this one: its box, words and open trees."""
    frame, next_frame = levels.frames[level], levels.frames[level + 1]
    f, k = frame.feature, frame.cell
    for g in range(levels.boxes.shape[1]):
        levels.boxes[level + 1, g] = levels.boxes[level, g]
    for c in range(levels.settled.shape[1]):
        levels.settled[level + 1, c] = levels.settled[level, c]
    its = levels.boxes[level + 1, f]
    if right:
        its.low = k + 1
    else:
        its.high = k
    start = space.features[f].start
    next_frame.n_trees = _narrow(
        f, space.cells[start + its.low], space.cells[start + its.high], frame.n_trees, level, boxed, levels
    )
    next_frame.stage = 0
    next_frame.begin = frame.middle if right else frame.begin
    next_frame.end = frame.end if right else frame.middle


@merged
def _narrow(f, first, last, n_trees, level, boxed, levels):
    """Fills words and open trees of the next level, where feature f has the cells `first` to `last`; how many trees."""
    trees, leaves, value = boxed.trees, boxed.leaves, boxed.value
    pairs, masks, place, members = boxed.pairs, boxed.masks, boxed.place, boxed.members
    words, part_words = levels.words[level], levels.words[level + 1]
    whole_trees, part_trees, settled = levels.trees[level], levels.trees[level + 1], levels.settled[level + 1]
    n = 0
    for q in range(n_trees):
        t = whole_trees[q]
        tree, p = trees[t], place[t, f]
        if p < 0:
            for j in range(tree.set, tree.set_end):
                part_words[j] = words[j]
        else:
            pair = pairs[tree.pair + p]
            plain = leaves_between(masks, pair, first.own, last.own)
            moved = leaves_between(masks, pair, first.hull_low, last.hull_high)
            bit = np.uint64(1) << np.uint64(p)
            for j in range(tree.set, tree.set_end):
                part_words[j] = words[j] & (moved if members[j] & bit else plain)
            live = part_words[tree.set + 1]
            if live != words[tree.set + 1] and one_group(live, tree.leaf, leaves):
                leaf = tree.leaf + lowest_bit(live)
                for c in range(settled.shape[0]):
                    settled[c] += value[leaf, c]
                continue
        part_trees[n] = t
        n += 1
    return n


@borrowing
def _race(other, label, mode, space, part):
    constant = space.offset[other] + part.settled[other] - space.offset[label] - part.settled[label]
    need = -space.slack if space.slack > 0 else np.int64(other > label)
    sure = space.slack + 1 if space.slack > 0 else need
    return Race(other, label, mode, constant, need, sure)


@borrowing
def _best_class(space, boxed, part):
    """The class with the best possible score: the label of the box, if it has one label."""
    best, label = LOWEST, np.int64(0)
    for c in range(space.offset.shape[0]):
        total = space.offset[c] + part.settled[c]
        for q in range(part.trees.shape[0]):
            tree = boxed.trees[part.trees[q]]
            total += best_score(part.words[tree.set], tree.leaf, boxed.value, c)
        if total > best:
            best, label = total, np.int64(c)
    return label


@merged
def _own_label(space, boxed, part, scratch):
    """(whether the box has one label, the closest race without any attack)."""
    n_classes = space.offset.shape[0]
    label, mode = np.int64(0), np.int64(ONE)
    if n_classes != 2:
        label, mode = _best_class(space, boxed, part), np.int64(ANY)
    decided, most = True, LOWEST
    closest = Target(
        _race(np.int64(0), label, mode, space, part), np.int64(-1), np.int64(-1), np.int64(-1), np.int64(0)
    )
    for c in range(n_classes):
        if c == label:
            continue
        race = _race(c, label, mode, space, part)
        lead = own_bounds(boxed, part, race, scratch.leads)
        if lead.top >= race.need:
            if n_classes == 2 and lead.bottom >= race.sure:
                race = _race(np.int64(0), np.int64(1), np.int64(ZERO), space, part)
                return True, Target(race, np.int64(-1), np.int64(-1), np.int64(-1), np.int64(0))
            decided = False
        if lead.top - race.need > most:
            most = lead.top - race.need
            closest = Target(race, np.int64(-1), np.int64(-1), np.int64(-1), lead.top - lead.bottom)
    return decided, closest


@merged
def _try_attacks(label, mode, space, boxed, part, scratch):
    """(status, what to cut for if it is OPEN) of a box that has one label."""
    leads, attack_top = scratch.leads, scratch.attack_top
    most, n_classes = LOWEST, space.offset.shape[0]
    closest = Target(
        _race(np.int64(0), label, mode, space, part), np.int64(-1), np.int64(-1), np.int64(-1), np.int64(0)
    )
    for c in range(n_classes):
        if c == label:
            continue
        race = _race(c, label, mode, space, part)
        own = own_bounds(boxed, part, race, leads)
        _attack_tops(own.top, race, boxed, part, leads, attack_top)
        for s in range(attack_top.shape[0]):
            if attack_top[s] < race.need:
                continue
            attack = space.attacks[s]
            if attack.end - attack.first == 1:
                f = np.int64(space.attacked[attack.first])
                status, cell, lead = move_one(f, race, own, space, boxed, part, scratch)
                if status == UNSTABLE:
                    return UNSTABLE, closest
                # One attack that breaks the box is enough, so go after the one that is closest to it.
                if status == OPEN and lead.bottom - race.sure > most:
                    most = lead.bottom - race.sure
                    closest = Target(race, np.int64(s), f, np.int64(cell), lead.top - lead.bottom)
                continue
            use_sets(s, boxed, part, leads)
            if breaks(attack, race, own.bottom, space, boxed, part, scratch):
                return UNSTABLE, closest
            if own.bottom - race.sure > most:
                most = own.bottom - race.sure
                closest = Target(race, np.int64(s), np.int64(-1), np.int64(-1), attack_top[s] - own.bottom)
    return (STABLE if closest.attack < 0 else OPEN), closest


@tiny
def _attack_tops(own_top, race, boxed, part, leads, attack_top):
    """Fills `attack_top` with the largest lead under each attack."""
    trees, leaves, value, uses, words = boxed.trees, boxed.leaves, boxed.value, boxed.uses, part.words
    for s in range(attack_top.shape[0]):
        attack_top[s] = own_top
    for q in range(part.trees.shape[0]):
        tree, greatest = trees[part.trees[q]], leads[q].greatest
        for u in range(tree.use, tree.use_end):
            use = uses[u]
            attack_top[use.attack] += top_lead(words[use.set], tree.leaf, leaves, value, race) - greatest


@merged
def _settle(level, now, space, boxed, levels, scratch):
    """The status of a level's box, or CUT_AGAIN and where: (status, feature, fine cell before the cut)."""
    n_trees = levels.frames[level].n_trees
    part = Part(levels.boxes[level], levels.words[level], levels.trees[level, :n_trees], levels.settled[level])
    decided, target = _own_label(space, boxed, part, scratch)
    if decided:
        status, target = _try_attacks(target.race.label, target.race.mode, space, boxed, part, scratch)
        if status != OPEN:
            return status, np.int64(-1), np.int64(-1)
    f, k = choose_cut(target, now, space, boxed, part, scratch)
    return (PENDING if f < 0 else CUT_AGAIN), f, k


@merged
def _begin_cut(f, k, frame, guide):
    """Notes a box's cut, brings its points into order, and says which side comes first."""
    frame.feature, frame.cell, frame.middle = f, k, frame.begin
    for i in range(frame.begin, frame.end):
        if guide.points[guide.order[i], f] <= k:
            guide.order[i], guide.order[frame.middle] = guide.order[frame.middle], guide.order[i]
            frame.middle += 1
    frame.right_first = frame.end - frame.middle > frame.middle - frame.begin


@merged
def _leave(status, frame, box, work, found):
    """Makes a box a leaf of the tree of cuts, and puts it to the rest if it is open."""
    found.nodes[frame.node].cut, found.nodes[frame.node].child = -1, -1 - status
    if status >= OPEN:
        rest = found.rest[work.n_rest]
        rest.node, rest.points = frame.node, frame.end - frame.begin
        for f in range(box.shape[0]):
            found.rest_box[work.n_rest, f] = box[f]
        work.n_rest += 1


@merged
def _join(node, nodes, work):
    """Takes back a cut between parts of the same known status."""
    at = nodes[node].child
    status = nodes[at].child
    if status == nodes[at + 1].child and -1 - UNSTABLE <= status <= -1 - STABLE:
        nodes[node].cut, nodes[node].child = -1, status
        work.n_nodes = at  # whatever was below the cut is gone by now, so its nodes are the last ones


@merged
def _visit(work, space, boxed, levels, scratch, found, guide, stop):
    """Looks at a new box: makes it a leaf, or cuts it; returns whether it is cut."""
    frame = levels.frames[work.level]
    status, f, k = OPEN, np.int64(-1), np.int64(-1)
    if not work.full and (guide.points.shape[0] == 0 or frame.begin < frame.end):
        status, f, k = _settle(work.level, work.visited, space, boxed, levels, scratch)
        work.visited += 1
        work.full = work.visited >= work.limit or (work.visited % CHECK_EVERY == 0 and stop[0] != 0)
    if status != CUT_AGAIN:
        _leave(status, frame, levels.boxes[work.level], work, found)
        return False
    node = found.nodes[frame.node]
    node.cut, node.child = space.features[f].start - f + k, work.n_nodes
    work.n_nodes += 2
    _begin_cut(f, k, frame, guide)
    return True


@borrowing
def _cut_on(work, space, boxed, levels, scratch, found, guide, stop):
    """Goes on with the work until it is done or needs more room."""
    while work.level >= 0:
        if (
            work.level + 1 == levels.frames.shape[0]
            or work.n_nodes + 2 > found.nodes.shape[0]
            or work.n_rest == found.rest.shape[0]
        ):
            return
        frame = levels.frames[work.level]
        if frame.stage == 2:
            _join(frame.node, found.nodes, work)
            work.level -= 1
        elif frame.stage == 0 and not _visit(work, space, boxed, levels, scratch, found, guide, stop):
            work.level -= 1
        else:
            right = frame.right_first != frame.stage
            _cut_off(work.level, right, space, boxed, levels)
            levels.frames[work.level + 1].node = found.nodes[frame.node].child + right
            frame.stage += 1
            work.level += 1


@entry
def cut_box(space, boxed, box, points, limit, stop):
    """Cuts a box (n_features,) into parts, at most `limit` of them visited; (the fields of a Found, how many it saw).

    With `points` (n, n_features) fine cells, parts that hold some come first, and those that hold none are left over.
    """
    guide = Guide(points, np.arange(points.shape[0]))
    levels, scratch = _first_level(space, boxed, box, points.shape[0]), _scratch(space, boxed)
    found = Found(np.empty(1024, NODE), np.empty(64, REST), np.empty((64, box.shape[0]), RANGE))
    work = np.zeros(1, WORK)
    work[0].n_nodes, work[0].limit = 1, limit
    while work[0].level >= 0:
        _cut_on(work[0], space, boxed, levels, scratch, found, guide, stop)
        if work[0].level + 1 == levels.frames.shape[0]:
            levels = _twice_as_deep(levels)
        if work[0].n_nodes + 2 > found.nodes.shape[0]:
            found = Found(doubled(found.nodes), found.rest, found.rest_box)
        if work[0].n_rest == found.rest.shape[0]:
            found = Found(found.nodes, doubled(found.rest), doubled(found.rest_box))
    n_nodes, n_rest = work[0].n_nodes, work[0].n_rest
    parts = (found.nodes[:n_nodes].copy(), found.rest[:n_rest].copy(), found.rest_box[:n_rest].copy())
    return parts, work[0].visited
