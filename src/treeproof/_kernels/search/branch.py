"""Branch and bound over boxes of cells: is there an affordable cell vector where another class wins?

Of each open tree the leaves that a box leaves reachable are bits, the most valuable leaf lowest; a cut is a bitwise
`and`, and the tree's best leaf is its lowest bit. The bound of a box is the sum of best leaves over trees. At every
box each cut of each feature is tried on both sides in one sweep: a side that cannot win shrinks the box, and the cut
that lowers the bounds most is taken.
"""

from __future__ import annotations

import numpy as np

from treeproof._kernels.arrays import doubled
from treeproof._kernels.bits import lowest_bit
from treeproof._kernels.jit import borrowing, inner, merged, tiny
from treeproof._kernels.search.asked import BROKEN, HARD, SAFE, UNDECIDED, is_attack, is_unaffordable, take
from treeproof._kernels.search.climb import climb
from treeproof._kernels.search.exact import box_is_dear, leaf_is_dear
from treeproof._kernels.search.record import (
    CLOSED,
    DECIDED,
    KEEP_LEFT,
    KEEP_RIGHT,
    emit_cut,
    emit_end,
    emit_keep,
    emit_step,
    is_recorded,
)
from treeproof._kernels.search.region import cheapest_cell, groups_can_pay, least_price, price_ranges
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.sums import fit_sums
from treeproof._kernels.search.trial import IMPOSSIBLE, best_lead, keep_trial, start_trial, try_side

# More ways for a search to end.
TOO_CLOSE = 4

# What becomes of a box, if it does not end the search.
DONE = 5
CUT = 6

SEARCH = np.dtype(
    [
        # What is asked:
        ("label", "i8"),
        ("slack", "i8"),  # of the model
        ("other", "i8"),  # the class that may win instead
        ("turn", "i8"),  # how many classes had theirs
        ("constant", "i8"),  # the lead that does not depend on the open trees
        ("needed", "i8"),  # the least lead with which the label may be another one
        ("max_boxes", "i8"),
        ("climb", "?"),  # whether to climb first
        # Of a search that goes from region to region:
        ("waiting", "i8"),  # how many wait
        ("work", "i8"),  # regions and boxes so far
        # What is known:
        ("now", "i8"),  # the last stamp of a trial
        ("boxes", "i8"),  # so far
        ("depth", "i8"),  # decisions whose other side waits
        ("too_close", "?"),  # whether any box was left within the slack
        ("elsewhere", "f8"),  # what features that the race does not test cost at least
        # Of the box under way:
        ("total", "i8"),  # its bound
        ("spent", "f8"),  # what it costs at least
        ("test", "i8"),  # where to cut it
        ("shrunk", "i8"),  # where it was made smaller last
        ("decided", "?"),  # whether it has one vector of scores, and these give the label
        # Where the region was cut first, and which side is the more promising:
        ("cut_feature", "i4"),
        ("cut", "i4"),
        ("cut_right", "?"),
    ],
    align=True,
)
"""One search."""

STAYS = -1
"""In place of a step that makes a box smaller, where there is none."""

# The stack is a table of whole numbers with one row per decision: a cut whose other side waits, with the bound before
# it, then what features, trees and words of leaves were before it.
FEATURE_AT, CUT_AT, RIGHT_AT, TOTAL_AT, FIRST_KEPT = 0, 1, 2, 3, 4


@tiny
def _decides(race, feature, k, right):
    """Whether cells above the cut of a test with several (`right`), or up to it, are all on one side of the test."""
    return race.runs[k].after >= feature.high if right else race.runs[k].before < feature.low


@borrowing
def _sweep(search, race, feature, right):
    """Bounds of one side of the open cuts of a feature, from the weakest cut to the strongest.

    Ends at the first cut whose side cannot win and returns its nearest test, or where the tests end.
    """
    tests, run, needed, now = race.tests, search.total, search.needed, search.now + 1
    search.now = now
    first, end, mixed = np.int64(feature.first), np.int64(feature.end), feature.mixed
    k = first if right else end - 1
    step = 1 if right else -1
    stop = end if right else first - 1
    while k != stop:
        cut, group = tests[k].cut, k
        while k != stop and tests[k].cut == cut:
            if not mixed or _decides(race, feature, k, right):
                test = tests[k]
                tree = race.trees[test.tree]
                start_trial(race, tree, now)
                change = try_side(race, tree, test, right)
                if change == IMPOSSIBLE:
                    return group
                run += change
            k += step
        if run < needed:
            return group
        for j in range(min(group, k - step), max(group, k - step) + 1):
            if right:
                race.bounds[j].right = run
            else:
                race.bounds[j].left = run
    return stop


@borrowing
def _shrink(search, race, feature, cut, right):
    """Limits a feature of the box to cells above the cut (`right`) or up to it, and the bound to what is left."""
    tests = race.tests
    start = stop = np.int64(feature.first if right else feature.end)
    if right:
        while stop < feature.end and tests[stop].cut <= cut:
            stop += 1
        feature.first = stop
        feature.low = max(feature.low, cut + 1)
    else:
        while start > feature.first and tests[start - 1].cut >= cut:
            start -= 1
        feature.end = start
        feature.high = min(feature.high, cut)
    search.now += 1
    for k in range(start, stop):
        if feature.mixed and not _decides(race, feature, k, right):
            continue
        tree = race.trees[tests[k].tree]
        start_trial(race, tree, search.now)
        change = try_side(race, tree, tests[k], right)
        if change == IMPOSSIBLE:
            search.total = IMPOSSIBLE
            return
        search.total += change
        keep_trial(race, tree)


@borrowing
def _tighten(search, race, feature):
    """Sweeps a feature from both ends; if a side cannot win, shrinks the box and notes where.

    Returns KEEP_LEFT or KEEP_RIGHT, for there may be more; STAYS if there is not.
    """
    if feature.first >= feature.end or search.total < search.needed:
        return STAYS
    k = _sweep(search, race, feature, True)
    right = k == feature.end
    if right:
        k = _sweep(search, race, feature, False)
        if k < feature.first:
            return STAYS
    search.shrunk = race.tests[k].cut
    _shrink(search, race, feature, np.int64(search.shrunk), right)
    return KEEP_RIGHT if right else KEEP_LEFT


@borrowing
def _gates(race, feature, cells):
    """The open tests whose far side leaves N(x) altogether, nearest to it on either side; -1 if there is none.

    Behind such a test the feature must be paid for, which limits all others.
    """
    below, above = -1, -1
    if feature.high < cells.near_low or feature.low > cells.near_high:
        return below, above
    for k in range(feature.first, feature.end):
        if race.tests[k].cut < cells.near_low:
            below = k
        elif race.tests[k].cut >= cells.near_high:
            above = k
            break
    return below, above


@borrowing
def _best_cut(race, feature, total, gate_below, gate_above):
    """(score, test, whether it is a gate) of the best open cut of a feature: what lowers both bounds most."""
    best_score, best_test, best_is_gate = -1.0, -1, False
    for k in range(feature.first, feature.end):
        is_gate = k in (gate_below, gate_above)
        if best_is_gate and not is_gate:
            continue
        bound = race.bounds[k]
        score = (np.float64(total - bound.left) + 1.0) * (np.float64(total - bound.right) + 1.0)
        if score > best_score or (is_gate and not best_is_gate):
            best_score, best_test, best_is_gate = score, k, is_gate
    return best_score, best_test, best_is_gate


@merged
def _choose_cut(search, question, race, region):
    """Tightens the box feature by feature and notes the test to cut it at; -1 if none is open, or nothing can win.

    Where a feature costs the same wherever it goes, the edges of N(x) come first.
    """
    gated = region.limited and region.flat
    score, is_gate = -1.0, False
    search.test = -1
    for i in range(race.features.shape[0]):
        feature = race.features[i]
        step = _tighten(search, race, feature)
        while step != STAYS:
            if is_recorded(question.proof):
                emit_step(question.proof, step, feature.feature, search.shrunk)
            step = _tighten(search, race, feature)
        if search.total < search.needed or is_over(question.watch):
            search.test = -1
            return
        below, above = _gates(race, feature, region.ranges[feature.feature]) if gated else (-1, -1)
        its_score, its_test, its_gate = _best_cut(race, feature, search.total, below, above)
        if its_test >= 0 and ((its_gate and not is_gate) or (its_gate == is_gate and its_score > score)):
            score, search.test, is_gate = its_score, its_test, its_gate


@borrowing
def _is_too_dear_for_a_group(region, part, node):
    """Whether a leaf costs the features of a group more than its budget."""
    for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
        g = region.ranges[part.costs[c].feature].group
        if g >= 0:
            spent = region.groups[g].spent
            for k in range(part.nodes[node].cost, part.nodes[node + 1].cost):
                cells = region.ranges[part.costs[k].feature]
                if cells.group == g:
                    spent += max(0.0, part.costs[k].price - cells.paid)
            if spent > region.groups[g].budget:
                return True
    return False


@borrowing
def _affordable(search, race, region, part, bits, leaf):
    """Of the leaves that are bits, from `leaf` on, those that what is left of the budget can pay for."""
    unseen = bits
    while unseen != 0:
        place = lowest_bit(unseen)
        bit = np.uint64(1) << np.uint64(place)
        unseen &= ~bit
        node = race.leaves[leaf + place].node
        cost = search.spent
        for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
            # What the box pays for the feature anyway is in `spent` already.
            cost += max(0.0, part.costs[c].price - region.ranges[part.costs[c].feature].paid)
        is_dear = cost > region.budget[0] or leaf_is_dear(region, part, node, cost)
        if is_dear or (region.groups.shape[0] > 0 and _is_too_dear_for_a_group(region, part, node)):
            bits &= ~bit
    return bits


@borrowing
def _drop_unaffordable_leaves(search, race, region, part):
    """Kills the leaves that what is left of the budget cannot pay for, and lowers the bound to what the others give."""
    search.now += 1
    for t in range(race.trees.shape[0] - 1):
        tree = race.trees[t]
        start_trial(race, tree, search.now)
        tree.trial = _affordable(search, race, region, part, tree.live, np.int64(tree.leaf))
        changed = tree.trial != tree.live
        for w in range(tree.extra):
            word = race.words[tree.words + w]
            word.trial = _affordable(search, race, region, part, word.live, tree.leaf + 64 * (w + 1))
            changed |= word.trial != word.live
        if changed:
            tree.trial_best = best_lead(race, tree)
            if tree.trial_best == IMPOSSIBLE:
                search.total = IMPOSSIBLE
                return
            search.total += tree.trial_best - tree.best
            keep_trial(race, tree)


@merged
def _pay(search, race, region, part):
    """Notes what the box costs on each feature and in all, and lowers the bound to what can be paid for."""
    search.spent, changed = 0.0, False
    for i in range(race.features.shape[0]):
        feature = race.features[i]
        cells = region.ranges[feature.feature]
        least = least_price(region, cells, feature.low, feature.high)
        if least != cells.paid:
            cells.paid = least
            changed = True
        search.spent += least
    search.spent += search.elsewhere
    if search.spent > region.budget[0] or not groups_can_pay(region) or box_is_dear(region, search.spent):
        search.total = IMPOSSIBLE
    elif changed:
        _drop_unaffordable_leaves(search, race, region, part)


@borrowing
def price_elsewhere(region, race):
    """What the region costs at least on features that the race does not test, having noted what it costs on each.

    Leaves can have a price there too: that of tests with only one side that can be paid for.
    """
    elsewhere = 0.0
    if region.limited:
        price_ranges(region)
        i = 0
        for f in range(region.ranges.shape[0]):
            if i < race.features.shape[0] and race.features[i].feature == f:
                i += 1
            else:
                elsewhere += region.ranges[f].paid
    return elsewhere


@borrowing
def _fill_point(region, features, sums, point):
    """Fills the cells of a point: those of the features that are tested, and elsewhere the cheapest that sums leave."""
    is_drawn_in = region.limited and sums.bound.shape[0] > 0
    for f in range(point.shape[0]):
        cells = region.ranges[f]
        point[f] = cells.own
        if cells.own >= 0 and is_drawn_in:
            point[f] = cheapest_cell(region, cells, np.int64(sums.box[f].low), np.int64(sums.box[f].high))
        elif cells.own >= 0:
            point[f] = cheapest_cell(region, cells, np.int64(cells.low), np.int64(cells.high))
    for i in range(features.shape[0]):
        point[features[i].feature] = features[i].cell


@borrowing
def _judge(search, question, region, features):
    """(Whether the features' cells have a label that the attacker wants, whether that is kept and ends the search)."""
    _fill_point(region, features, question.sums, question.cells)
    if not is_attack(question, search.label):
        return False, False
    row = question.watch.progress[0] - 1
    return True, not is_unaffordable(question.unaffordable, row, question.cells) and take(question, region)


@borrowing
def _can_pay_cheapest_point(search, race, region):
    """Puts the features' cells at the cheapest point of the box, and notes its price; whether it can be paid for."""
    spent = 0.0
    for i in range(race.features.shape[0]):
        feature = race.features[i]
        cells = region.ranges[feature.feature]
        low, high = np.int64(feature.low), np.int64(feature.high)
        if region.limited:
            cells.paid = least_price(region, cells, low, high)
            spent += cells.paid
        feature.cell = cheapest_cell(region, cells, low, high)
    search.spent = spent + search.elsewhere
    can_pay = not region.limited or (search.spent <= region.budget[0] and groups_can_pay(region))
    return can_pay and not box_is_dear(region, search.spent)


@borrowing
def _leave_dear_ends(region, f, box, spent, proof):
    """Draws a feature in to the cells that what is left of the budget can pay for; no test asks about the others."""
    cells, low, high = region.ranges[f], box.low, box.high
    most = region.budget[0] - spent + cells.paid
    while box.low < box.high and region.price[cells.start + box.high] > most:
        box.high -= 1
    if box.high < high:
        emit_keep(proof, f, box.high, False)
    while box.low < box.high and region.price[cells.start + box.low] > most:
        box.low += 1
    if box.low > low:
        emit_keep(proof, f, box.low - 1, True)


@borrowing
def _is_dear(sums, region):
    """Whether all of the box of the sums costs more than can be paid; features that nothing tests cost something, too.

    What sums leave of these may be away from N(x).
    """
    spent = 0.0
    for f in range(region.ranges.shape[0] if region.limited else 0):
        cells, box = region.ranges[f], sums.box[f]
        if cells.own >= 0:
            spent += least_price(region, cells, np.int64(box.low), np.int64(box.high))
    return region.limited and spent > region.budget[0]


@merged
def _keep_sums(search, sums, race, region, proof):
    """Draws the box in to where rows may be valid; whether that changed it. What it costs must be known."""
    for f in range(region.ranges.shape[0]):
        sums.box[f].low, sums.box[f].high = region.ranges[f].low, region.ranges[f].high
    for i in range(race.features.shape[0]):
        box = sums.box[race.features[i].feature]
        box.low, box.high = race.features[i].low, race.features[i].high
    for f in range(region.ranges.shape[0] if region.limited else 0):
        if region.ranges[f].own >= 0:
            _leave_dear_ends(region, f, sums.box[f], search.spent, proof)
    changed = False
    if not fit_sums(sums, region, proof) or _is_dear(sums, region):
        search.total = IMPOSSIBLE
        return changed
    for i in range(race.features.shape[0]):
        feature = race.features[i]
        box = sums.box[feature.feature]
        if box.low > feature.low and search.total != IMPOSSIBLE:
            _shrink(search, race, feature, np.int64(box.low) - 1, True)
            changed = True
        if box.high < feature.high and search.total != IMPOSSIBLE:
            _shrink(search, race, feature, np.int64(box.high), False)
            changed = True
    return changed


@borrowing
def _examine(search, question, region, part, race):
    """Looks at the next box: CUT it at `search.test`, it is DONE, or the search ends with what is returned."""
    search.boxes += 1
    search.decided = False
    if is_over(question.watch):
        return UNDECIDED
    if search.boxes > search.max_boxes:
        return HARD
    if region.limited and search.total >= search.needed:
        _pay(search, race, region, part)
    if question.sums.bound.shape[0] > 0 and search.total >= search.needed:
        _keep_sums(search, question.sums, race, region, question.proof)
    if search.total < search.needed:
        return DONE
    _choose_cut(search, question, race, region)
    if is_over(question.watch):
        return UNDECIDED
    if search.total < search.needed:
        return DONE
    if search.test < 0:
        has_sums = question.sums.bound.shape[0] > 0
        drawn = True
        while drawn:
            if not _can_pay_cheapest_point(search, race, region):
                return DONE
            drawn = has_sums and _keep_sums(search, question.sums, race, region, question.proof)
            if search.total < search.needed:
                return DONE
        differs, ends = _judge(search, question, region, race.features)
        search.too_close |= not differs
        search.decided = not differs
        return BROKEN if ends else DONE
    # Falsify first: most rows that can be broken are broken by climbing.
    promising = search.boxes == 1 and search.climb and climb(search, question.watch, race, region) >= search.needed
    return BROKEN if promising and _judge(search, question, region, race.features)[1] else CUT


@borrowing
def _start(search, race, region):
    """The whole region as a box, with the leaves that are live, and the sum of the best of them as its bound."""
    for i in range(race.features.shape[0]):
        feature = race.features[i]
        cells = region.ranges[feature.feature]
        feature.low, feature.high = cells.low, cells.high
        feature.first, feature.end = feature.first_test, feature.end_test
    search.boxes, search.depth, search.now, search.too_close = 0, 0, 1, False
    search.elsewhere = price_elsewhere(region, race)
    search.total = search.constant
    for t in range(race.trees.shape[0] - 1):
        tree = race.trees[t]
        tree.stamp = 0
        start_trial(race, tree, 1)
        tree.best = best_lead(race, tree)
        if tree.best == IMPOSSIBLE:
            search.total = IMPOSSIBLE
            return
        search.total += tree.best


@borrowing
def _descend(search, race, stack, proof):
    """Cuts the box: the more promising side first, and the other one waits with the box as it is now."""
    test, bound, depth = race.tests[search.test], race.bounds[search.test], search.depth
    feature, right = race.features[test.feature], bound.right > bound.left
    if search.boxes == 1:
        search.cut_feature, search.cut, search.cut_right = feature.feature, test.cut, right
    kept = stack[depth]
    kept[FEATURE_AT], kept[CUT_AT], kept[RIGHT_AT], kept[TOTAL_AT] = test.feature, test.cut, not right, search.total
    k = FIRST_KEPT
    for i in range(race.features.shape[0]):
        now = race.features[i]
        kept[k], kept[k + 1], kept[k + 2], kept[k + 3] = now.low, now.high, now.first, now.end
        k += 4
    for t in range(race.trees.shape[0] - 1):
        kept[k], kept[k + 1] = np.int64(race.trees[t].live), race.trees[t].best
        k += 2
    for w in range(race.words.shape[0]):
        kept[k + w] = np.int64(race.words[w].live)
    search.depth += 1
    emit_cut(proof, feature.feature, test.cut, right)
    _shrink(search, race, feature, np.int64(test.cut), right)


@borrowing
def _go_back(search, race, region, stack):
    """The side that was left waiting last."""
    search.depth -= 1
    kept, k = stack[search.depth], FIRST_KEPT
    for i in range(race.features.shape[0]):
        now = race.features[i]
        now.low, now.high, now.first, now.end = kept[k], kept[k + 1], kept[k + 2], kept[k + 3]
        # Prices were those of a deeper box; leaves that it could not pay for may live again here.
        region.ranges[now.feature].paid = -1.0
        k += 4
    for t in range(race.trees.shape[0] - 1):
        race.trees[t].live, race.trees[t].best = np.uint64(kept[k]), kept[k + 1]
        k += 2
    for w in range(race.words.shape[0]):
        race.words[w].live = np.uint64(kept[k + w])
    search.total = kept[TOTAL_AT]
    _shrink(search, race, race.features[kept[FEATURE_AT]], kept[CUT_AT], kept[RIGHT_AT] != 0)


@inner
def run_race(search, question, region, part, race):
    """Searches the region; returns SAFE, BROKEN with the cells of the question filled, or one of the following.

    TOO_CLOSE: no counterexample was found, but a box was left within the slack, where leaves that give the same lead
    can round differently; the race must be run again with `close`. UNDECIDED: the search was told to stop.
    HARD: `max_boxes` were not enough.
    """
    width = FIRST_KEPT + 4 * race.features.shape[0] + 2 * race.trees.shape[0] + race.words.shape[0]
    stack = np.empty((8, width), np.int64)
    _start(search, race, region)
    while True:
        found = _examine(search, question, region, part, race)
        if found == CUT:
            if search.depth == stack.shape[0]:
                stack = doubled(stack)
            _descend(search, race, stack, question.proof)
            continue
        if found != DONE:
            return found
        emit_end(question.proof, DECIDED if search.decided else CLOSED)
        if search.depth == 0:
            return TOO_CLOSE if search.too_close else SAFE
        _go_back(search, race, region, stack)
