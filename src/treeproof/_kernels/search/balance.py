"""A tighter bound for a race: value is shifted between trees until their wishes agree.

The sum of best leaves lets every tree choose its own cell of a feature. Give each tree t and feature i a share
u(t, i, s) per segment s of the feature (between two neighbouring cuts), with shares that add up to at most what the
budget takes back there. A leaf's value plus the best shares within its ranges is then still a bound for the tree, and
the sum over trees a bound for the race, in any box. `balanced` lowers it: feature by feature, every tree's best value
with the feature in segment s is replaced by the mean over the trees. Budgets take part by a rate: a cell of price p
costs rate * p, and rate * budget is added once.

All numbers are whole, in units of their own; every rounding raises the bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treeproof._kernels.arrays import sort_down
from treeproof._kernels.bits import highest_bit
from treeproof._kernels.jit import borrowing, inner, tiny
from treeproof._kernels.model import LAST_CELL
from treeproof._kernels.search.race import fill_masks, leaves_of_test
from treeproof._kernels.search.record import is_recorded
from treeproof._kernels.search.region import least_price
from treeproof._kernels.search.stop import is_over
from treeproof._kernels.search.trial import FULL

# No leaf: below every sum of shares, since shares stay within FARTHEST of 0.
NONE = np.int64(-(2**61))
FARTHEST = np.int64(2**44)
UNITS = 2.0**38
MAX_GOAL = 2.0**56
MOST_ENTRIES = np.int64(2**31 - 1)
MOST_TOGETHER = np.int64(2**59)
SWEEPS = 60
# After sweeps 1, 2, 4, …, and at the end.
MOST_KEPT = 7
# Above it, as for budgets near the smallest double, products are not safe from overflow.
MAX_RATE = 2.0**900

SPAN = np.dtype(
    [
        ("pair", "i4"),
        ("end", "i4"),  # its pairs: [pair, end)
        ("segment", "i4"),  # where the segments begin into which all tests together cut it
        ("n_segments", "i4"),
        ("cheapest", "i4"),  # one of them
        ("mixed", "?"),  # whether leaves may allow pieces that are no range; see ENTRY
        ("least", "i8"),
        ("most", "i8"),  # that any tree reaches anywhere without its shares
    ],
    align=True,
)
"""A feature."""

SEGMENT = np.dtype(
    [
        ("left_over", "i8"),  # what is not shared out
        ("price", "f8"),  # the least of its cells
        ("level", "i8"),  # what every tree reached when it was shared out last; see PIECE
        ("together", "i8"),  # what all trees would reach
        ("closed", "?"),  # whether it cannot be paid for, or some tree has no leaf left there
    ],
    align=True,
)
"""What lies between two neighbouring cuts of a feature."""

PAIR = np.dtype(
    [
        ("leaf", "i4"),
        ("end", "i4"),  # the leaves of the tree: [leaf, end)
        ("entry", "i4"),  # where its entries begin, one per leaf
        ("piece", "i4"),  # where the pieces begin into which the tree's own tests cut the feature
        ("n_pieces", "i4"),
    ],
    align=True,
)
"""A tree with a feature that it tests."""

PIECE = np.dtype(
    [
        ("last", "i4"),  # its last segment
        ("closed", "?"),  # whether the tree has no leaf left there
        ("top", "i8"),  # the most that something reaches in it
        ("reached", "i8"),  # what the tree reached by itself when the feature was shared out last
        ("price", "f8"),  # about the least of its segments
    ],
    align=True,
)
"""A piece of a pair. The tree's share in a segment of it is the segment's `level` less what the tree `reached`."""

ENTRY = np.dtype([("low", "i4"), ("high", "i4"), ("share", "i8"), ("set", "u8")], align=True)
"""The pieces [low, high] that a leaf allows, and the best share there.

Where tests have several cuts, `set` tells which of the first 64 pieces are allowed; later ones may be.
"""

WORTH = np.dtype([("plain", "i8"), ("total", "i8"), ("dead", "?")], align=True)
"""The value of a leaf, the same with its best shares, and whether all that it allows is closed."""

PLACE = np.dtype([("pair", "i4"), ("piece", "i4"), ("segment", "i4")], align=True)
"""The pair of a test, and the piece and the segment that end at it."""


class Layout(NamedTuple):
    """Where shares, wishes and ranges of a race are kept: records of the types above; built by `_layout`.

    Pairs stand feature after feature, and tree after tree within a feature. `change` (n_segments + 1,) and `table`
    (n_levels, most segments of a feature) are scratch: differences of neighbouring segments, and the highest levels of
    1, 2, 4, … open segments from each one on. Where proofs are written, the first `n_kept` (1,) rows of `kept` are
    weights: those of sweeps after which leaves were left out, and the last ones. These are the levels of all segments,
    then what was reached in all pieces.
    """

    spans: Any
    segments: Any
    pairs: Any
    pieces: Any
    entries: Any
    worth: Any
    change: Any
    table: Any
    kept: Any
    n_kept: Any


class Balance(NamedTuple):
    """Balanced leaf values of a race: WORTH records, in units of their own.

    The sum of the best of them and `rest` is the `bound`; below `goal` nothing can win. `work` is about how many steps
    it took. Leads become values by a `scale`, and money is worth `rate` in units of values.
    """

    worth: Any
    rest: Any
    goal: Any
    bound: Any
    work: Any
    layout: Any
    scale: Any
    rate: Any


@inner
def _count_pairs(race, spans, pairs, places):
    """Fills spans, finds the pairs and counts their pieces, and notes the place of every test; returns the counts."""
    pair_of, last = np.full(race.trees.shape[0], -1, np.int32), np.empty(race.trees.shape[0], np.int32)
    n_pairs, n_segments = 0, 0
    for i in range(spans.shape[0]):
        span, feature = spans[i], race.features[i]
        span.pair, span.segment = n_pairs, n_segments
        segment = -1
        for k in range(feature.first_test, feature.end_test):
            if segment < 0 or race.tests[k].cut != race.tests[k - 1].cut:
                segment += 1
            t = np.int64(race.tests[k].tree)
            if pair_of[t] < span.pair:
                pair_of[t], last[t] = n_pairs, -1
                pair = pairs[n_pairs]
                pair.leaf, pair.end, pair.n_pieces = race.trees[t].leaf, race.trees[t + 1].leaf, 1
                n_pairs += 1
            pair, place = pairs[pair_of[t]], places[k]
            if last[t] != segment:
                last[t] = segment
                pair.n_pieces += 1
            place.pair, place.piece, place.segment = pair_of[t], pair.n_pieces - 2, segment
        span.end, span.n_segments, span.mixed = n_pairs, segment + 2, feature.mixed
        n_segments += segment + 2
    return n_segments


@borrowing
def _fill_layout(watch, part, draft, layout, places, runs):
    """Fills pieces and entries: a test ends a piece, and leaves on one side of it allow the pieces there."""
    if is_over(watch):
        return
    for i in range(layout.spans.shape[0]):
        for p in range(layout.spans[i].pair, layout.spans[i].end):
            pair = layout.pairs[p]
            layout.pieces[pair.piece + pair.n_pieces - 1].last = layout.spans[i].n_segments - 1
            for e in range(pair.entry, pair.entry + pair.end - pair.leaf):
                layout.entries[e].low, layout.entries[e].high, layout.entries[e].set = 0, pair.n_pieces - 1, FULL
    for k in range(places.shape[0]):
        if is_over(watch):
            return
        place = places[k]
        pair = layout.pairs[place.pair]
        layout.pieces[pair.piece + place.piece].last = place.segment
        left, n_left, right, n_right = leaves_of_test(part, draft, k)
        # Of a test with several cuts, leaves may also be on that side further on.
        for j in range(left, left + n_left if runs[k].after == LAST_CELL else left):
            entry = layout.entries[pair.entry + draft.rank[j]]
            entry.high = min(entry.high, place.piece)
        for j in range(right, right + n_right if runs[k].before < 0 else right):
            entry = layout.entries[pair.entry + draft.rank[j]]
            entry.low = max(entry.low, place.piece + 1)


@tiny
def _pieces_between(low, high):
    """The bits of the pieces [low, high], as far as there are bits for them."""
    if low > 63 or low > high:
        return np.uint64(0)
    upper = FULL if high >= 63 else (np.uint64(1) << np.uint64(high + 1)) - np.uint64(1)
    return upper & ~((np.uint64(1) << np.uint64(low)) - np.uint64(1))


@borrowing
def _forbid(layout, draft, pair, first, n, pieces):
    """Notes that n leaves from `first` on do not allow these pieces."""
    for j in range(first, first + n):
        entry = layout.entries[pair.entry + draft.rank[j]]
        entry.set &= ~pieces


@borrowing
def _fill_sets(watch, race, part, draft, layout, places):
    """Notes which pieces leaves allow where tests have several cuts; those of a test are listed one after another."""
    for number in range(places.shape[0]):
        k = race.tree_tests[number]
        run, place = race.runs[k], places[k]
        if not race.features[race.tests[k].feature].mixed:
            continue
        if is_over(watch):
            return
        pair = layout.pairs[place.pair]
        left, n_left, right, n_right = leaves_of_test(part, draft, k)
        last = pair.n_pieces - 1
        if run.after != LAST_CELL:
            last = places[race.tree_tests[number + 1]].piece
        _forbid(layout, draft, pair, left, n_left, _pieces_between(place.piece + 1, last))
        if run.before < 0:
            _forbid(layout, draft, pair, right, n_right, _pieces_between(np.int64(0), place.piece))


@inner
def _layout(watch, race, part, draft, n_kept):
    """Where shares, wishes and ranges of a race are kept; prices of segments and values of leaves are still missing.

    So many weights can be kept. If told to stop, it is not fit for use.
    """
    spans = np.empty(race.features.shape[0], SPAN)
    pairs, places = np.empty(race.tests.shape[0], PAIR), np.empty(race.tests.shape[0], PLACE)
    n_segments = _count_pairs(race, spans, pairs, places)
    n_pieces, n_entries, most = 0, 0, 1
    for i in range(spans.shape[0]):
        for p in range(spans[i].pair, spans[i].end):
            pair = pairs[p]
            pair.piece, pair.entry = n_pieces, n_entries
            n_pieces += pair.n_pieces
            n_entries += pair.end - pair.leaf
        most = max(most, spans[i].n_segments)
    if n_entries > MOST_ENTRIES:
        watch.stop[0] = watch.progress[0]  # the row is given up
        n_entries = 0
    layout = Layout(
        spans,
        np.empty(n_segments, SEGMENT),
        pairs,
        np.empty(n_pieces, PIECE),
        np.empty(n_entries, ENTRY),
        np.empty(race.leaves.shape[0], WORTH),
        np.empty(n_segments + 1, np.int64),
        np.empty((highest_bit(np.uint64(most)) + 1, most), np.int64),
        np.empty((n_kept, n_segments + n_pieces), np.int64),
        np.zeros(1, np.int64),
    )
    _fill_layout(watch, part, draft, layout, places, race.runs)
    _fill_sets(watch, race, part, draft, layout, places)
    return layout


@borrowing
def _price_segments(race, region, layout):
    """Notes the least price of each segment; 0 where nothing is limited."""
    for s in range(layout.segments.shape[0]):
        layout.segments[s].price = 0.0
    for i in range(layout.spans.shape[0] if region.limited else 0):
        feature, s = race.features[i], np.int64(layout.spans[i].segment)
        cells = region.ranges[feature.feature]
        low = np.int64(cells.low)
        for k in range(feature.first_test, feature.end_test):
            cut = np.int64(race.tests[k].cut)
            if cut >= low:  # otherwise it is the cut of another tree again
                layout.segments[s].price = least_price(region, cells, low, cut)
                low = cut + 1
                s += 1
        layout.segments[s].price = least_price(region, cells, low, np.int64(cells.high))
        span = layout.spans[i]
        span.cheapest = 0
        for s in range(span.n_segments):
            if layout.segments[span.segment + s].price < layout.segments[span.segment + span.cheapest].price:
                span.cheapest = s
        for p in range(span.pair, span.end):
            first = 0
            for g in range(layout.pairs[p].piece, layout.pairs[p].piece + layout.pairs[p].n_pieces):
                piece = layout.pieces[g]
                nearest = min(max(span.cheapest, first), piece.last)
                piece.price = layout.segments[span.segment + nearest].price
                first = piece.last + 1


@borrowing
def _in_units(race, layout, needed):
    """Fills leaf values above the worst of their tree, in whole units; returns (`needed` likewise, the scale)."""
    trees, leaves = race.trees, race.leaves
    spread = 0.0
    for t in range(trees.shape[0] - 1):
        spread += float(leaves[trees[t].leaf].lead - leaves[trees[t + 1].leaf - 1].lead)
    # A power of two, so that small whole numbers stay what they are; larger ones lose a unit when they become floats.
    scale = 2.0 ** np.floor(np.log2(UNITS / max(spread, 1.0)))
    rounding = np.int64(0 if scale >= 1.0 else 1)
    for t in range(trees.shape[0] - 1):
        worst = leaves[trees[t + 1].leaf - 1].lead
        needed -= worst
        for j in range(trees[t].leaf, trees[t + 1].leaf):
            layout.worth[j].plain = np.int64(np.ceil((leaves[j].lead - worst) * scale)) + rounding
    # Far beyond what trees can give, but far from overflow.
    goal = min(max(np.floor(needed * scale), -MAX_GOAL), MAX_GOAL)
    return np.int64(goal) - rounding, scale


@tiny
def _allows(mixed, pair, entry, g):
    """Whether a leaf allows piece g, of those between the first and the last that it does."""
    place = g - pair.piece
    return not mixed or place > 63 or (entry.set >> np.uint64(place)) & np.uint64(1) != 0


@tiny
def _reach(layout, pair, mixed):
    """Notes what the tree of a pair reaches by itself in each piece, NONE where it has no leaf left."""
    pieces, everywhere, width = layout.pieces, NONE, pair.n_pieces - 1
    for g in range(pair.piece, pair.piece + pair.n_pieces):
        pieces[g].top = NONE
    for r in range(pair.end - pair.leaf):
        leaf, entry = layout.worth[pair.leaf + r], layout.entries[pair.entry + r]
        if not leaf.dead:
            others = leaf.total - entry.share
            if entry.high - entry.low == width and (entry.set == FULL or not mixed):  # as in most: they do not test it
                everywhere = max(everywhere, others)
                continue
            for g in range(pair.piece + entry.low, pair.piece + entry.high + 1):
                if _allows(mixed, pair, entry, g):
                    pieces[g].top = max(pieces[g].top, others)
    for g in range(pair.piece, pair.piece + pair.n_pieces):
        pieces[g].top = max(pieces[g].top, everywhere)


@tiny
def _wish(layout, span, pair):
    """Notes what the tree of a pair would reach more than last time; closes segments where it has no leaf left."""
    first = np.int64(span.segment)
    for g in range(pair.piece, pair.piece + pair.n_pieces):
        piece = layout.pieces[g]
        after = np.int64(span.segment) + piece.last + 1
        if piece.top != NONE:
            layout.change[first] += piece.top - piece.reached
            layout.change[after] -= piece.top - piece.reached
            span.least, span.most = min(span.least, piece.top), max(span.most, piece.top)
        elif not piece.closed:
            piece.closed = True
            for s in range(first, after):
                layout.segments[s].closed = True
        first = after


@tiny
def _ask_for_wishes(layout, span):
    """Adds up what the trees would reach in each segment of the feature; returns whether that can be shared out."""
    n = np.int64(span.end - span.pair)
    span.least, span.most = -NONE, NONE
    for s in range(span.segment, span.segment + span.n_segments + 1):
        layout.change[s] = 0
    for p in range(span.pair, span.end):
        _reach(layout, layout.pairs[p], span.mixed)
        _wish(layout, span, layout.pairs[p])
    # So that no sum below overflows, and no share is farther from 0 than FARTHEST.
    limit, run = MOST_TOGETHER // n, np.int64(0)
    if span.least <= -limit or span.most >= limit:
        return False
    fits = True
    for s in range(span.segment, span.segment + span.n_segments):
        segment = layout.segments[s]
        run += layout.change[s]
        if not segment.closed:
            segment.together = segment.left_over + n * segment.level + run
            mean = segment.together // n
            fits &= mean - span.least < FARTHEST and span.most - mean < FARTHEST
    return fits


@tiny
def _share_out(layout, span):
    """Gives every tree the same in each open segment of the feature: the mean of what the trees would reach."""
    n = np.int64(span.end - span.pair)
    for s in range(span.segment, span.segment + span.n_segments):
        segment = layout.segments[s]
        if not segment.closed:
            segment.level = segment.together // n
            segment.left_over = segment.together - n * segment.level
    for p in range(span.pair, span.end):
        for g in range(layout.pairs[p].piece, layout.pairs[p].piece + layout.pairs[p].n_pieces):
            if not layout.pieces[g].closed:
                layout.pieces[g].reached = layout.pieces[g].top


@borrowing
def _add_up_reached(layout, span):
    """Notes by how much what trees reached together is more in each segment of a feature than in the one before."""
    for s in range(span.segment, span.segment + span.n_segments + 1):
        layout.change[s] = 0
    for p in range(span.pair, span.end):
        first = np.int64(span.segment)
        for g in range(layout.pairs[p].piece, layout.pairs[p].piece + layout.pairs[p].n_pieces):
            layout.change[first] += layout.pieces[g].reached
            first = np.int64(span.segment) + layout.pieces[g].last + 1
            layout.change[first] -= layout.pieces[g].reached


@borrowing
def _highest(table, first, last):
    """The highest level of the open segments [first, last] of the feature in the table, NONE if none is open."""
    k = highest_bit(np.uint64(last - first + 1))
    return max(table[k, first], table[k, last + 1 - (1 << k)])


@tiny
def _collect(layout, pair, mixed):
    """Gives the leaves of a pair's tree the best share that they allow; one with closed segments only is dead."""
    pieces, everywhere, width = layout.pieces, NONE, pair.n_pieces - 1
    first = np.int64(0)
    for g in range(pair.piece, pair.piece + pair.n_pieces):
        piece = pieces[g]
        piece.top = NONE if piece.closed else _highest(layout.table, first, np.int64(piece.last))
        if piece.top != NONE:
            piece.top -= piece.reached
        everywhere = max(everywhere, piece.top)
        first = np.int64(piece.last) + 1
    for r in range(pair.end - pair.leaf):
        leaf, entry = layout.worth[pair.leaf + r], layout.entries[pair.entry + r]
        if leaf.dead:
            continue
        best = everywhere
        if entry.high - entry.low < width or (mixed and entry.set != FULL):
            best = NONE
            for g in range(pair.piece + entry.low, pair.piece + entry.high + 1):
                if _allows(mixed, pair, entry, g):
                    best = max(best, pieces[g].top)
        if best == NONE:
            leaf.dead = True
        else:
            leaf.total += best - entry.share
            entry.share = best


@tiny
def _hand_out(layout, span):
    """Gives all leaves their best shares of a feature."""
    table, n = layout.table, np.int64(span.n_segments)
    for s in range(n):
        segment = layout.segments[span.segment + s]
        table[0, s] = NONE if segment.closed else segment.level
    for k in range(1, highest_bit(np.uint64(n)) + 1):
        for s in range(n + 1 - (1 << k)):
            table[k, s] = max(table[k - 1, s], table[k - 1, s + (1 << (k - 1))])
    for p in range(span.pair, span.end):
        _collect(layout, layout.pairs[p], span.mixed)


@borrowing
def _bound(race, layout):
    """(the sum of best leaves over trees, what is left over at most); their sum is a bound. NONE: nothing is left."""
    total, rest = np.int64(0), np.int64(0)
    for t in range(race.trees.shape[0] - 1):
        best = NONE
        for j in range(race.trees[t].leaf, race.trees[t + 1].leaf):
            if not layout.worth[j].dead:
                best = max(best, layout.worth[j].total)
        if best == NONE:
            return NONE, rest
        total += best
    for i in range(layout.spans.shape[0]):
        span, most = layout.spans[i], NONE
        for s in range(span.segment, span.segment + span.n_segments):
            if not layout.segments[s].closed:
                most = max(most, layout.segments[s].left_over)
        if most == NONE:
            return NONE, np.int64(0)
        rest += most
    return total, rest


@borrowing
def _bury(race, layout, bound, goal):
    """Leaves with which nothing can win are dead from now on: bounds are for what can win. Whether there were any."""
    some = False
    for t in range(race.trees.shape[0] - 1):
        best = NONE
        for j in range(race.trees[t].leaf, race.trees[t + 1].leaf):
            if not layout.worth[j].dead:
                best = max(best, layout.worth[j].total)
        for j in range(race.trees[t].leaf, race.trees[t + 1].leaf):
            leaf = layout.worth[j]
            if not leaf.dead and bound - best + leaf.total < goal:
                leaf.dead = some = True
    return some


@borrowing
def _keep(layout):
    """Keeps the weights as they are now; in segments that are closed, trees have what they reached in the mean."""
    if layout.kept.shape[0] == 0:
        return
    kept, n_segments = layout.kept[layout.n_kept[0]], np.int64(layout.segments.shape[0])
    layout.n_kept[0] += 1
    for i in range(layout.spans.shape[0]):
        span = layout.spans[i]
        _add_up_reached(layout, span)
        n, run = np.int64(span.end - span.pair), np.int64(0)
        for s in range(span.segment, span.segment + span.n_segments):
            run += layout.change[s]
            kept[s] = run // n if layout.segments[s].closed else layout.segments[s].level
    for g in range(layout.pieces.shape[0]):
        kept[n_segments + g] = layout.pieces[g].reached


@borrowing
def _clear(region, layout, budget, rate):
    """Nothing is shared yet; segments cost what they cost at this rate, or are closed. Returns what the rate adds."""
    for e in range(layout.entries.shape[0]):
        layout.entries[e].share = 0
    for g in range(layout.pieces.shape[0]):
        layout.pieces[g].reached, layout.pieces[g].closed = 0, False
    for j in range(layout.worth.shape[0]):
        layout.worth[j].total, layout.worth[j].dead = layout.worth[j].plain, False
    for s in range(layout.segments.shape[0]):
        segment = layout.segments[s]
        segment.closed = region.limited and segment.price > budget
        segment.left_over = segment.level = 0
        if region.limited and rate != 0 and not segment.closed:
            segment.left_over = -np.int64(np.floor(rate * segment.price))
    return np.int64(np.ceil(rate * budget * (1 + 2.0**-40))) + 1 if region.limited and rate > 0 else np.int64(0)


@borrowing
def _paid_in_pairs(race, region, part, pair_of, place, t, j):
    """(what leaf j of tree t costs beyond the region on features that the tree tests, the most of it for one)."""
    node, extra, most = np.int64(race.leaves[j].node), 0.0, 0.0
    for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
        f = part.costs[c].feature
        price = part.costs[c].price - region.ranges[f].paid
        if price > 0 and place[f] >= 0 and pair_of[t, place[f]] >= 0:
            extra += price
            most = max(most, price)
    return extra, most


@borrowing
def _seed_leaf(race, region, part, layout, pair_of, place, t, j, gain, most):
    """Takes what a leaf gains by paying from its tree wherever that is paid for; see `spending.py`."""
    node, squares = np.int64(race.leaves[j].node), 0.0
    for turn in range(2):
        for c in range(part.nodes[node].cost, part.nodes[node + 1].cost):
            f = part.costs[c].feature
            price = part.costs[c].price - region.ranges[f].paid
            if not price > 0 or place[f] < 0 or pair_of[t, place[f]] < 0:
                continue
            part_of_price = (price / most) * (price / most)
            if turn == 0:
                squares += part_of_price
                continue
            pair, share = layout.pairs[pair_of[t, place[f]]], np.int64(np.ceil(gain * (part_of_price / squares)))
            for g in range(pair.piece, pair.piece + pair.n_pieces):
                if layout.pieces[g].price >= part.costs[c].price:
                    layout.pieces[g].reached = max(layout.pieces[g].reached, share)


@inner
def _seed(race, region, part, layout):
    """First shares: those of the bound by spending, which balancing only lowers."""
    n_trees, n_features = race.trees.shape[0] - 1, layout.spans.shape[0]
    place = np.full(region.ranges.shape[0], -1, np.int32)
    tree_of, pair_of = np.empty(race.leaves.shape[0], np.int32), np.full((n_trees, n_features), -1, np.int32)
    for t in range(n_trees):
        tree_of[race.trees[t].leaf] = t
    for i in range(n_features):
        place[race.features[i].feature] = i
        for p in range(layout.spans[i].pair, layout.spans[i].end):
            pair_of[tree_of[layout.pairs[p].leaf], i] = p
    for t in range(n_trees):
        free = NONE
        for j in range(race.trees[t].leaf, race.trees[t + 1].leaf):
            if _paid_in_pairs(race, region, part, pair_of, place, t, j)[0] == 0:
                free = max(free, layout.worth[j].plain)
        for j in range(race.trees[t].leaf, race.trees[t + 1].leaf):
            if layout.worth[j].plain > free > NONE:
                most = _paid_in_pairs(race, region, part, pair_of, place, t, j)[1]
                gain = np.float64(layout.worth[j].plain - free)
                _seed_leaf(race, region, part, layout, pair_of, place, t, j, gain, most)
    for i in range(n_features):
        span = layout.spans[i]
        _add_up_reached(layout, span)
        run = np.int64(0)
        for s in range(span.segment, span.segment + span.n_segments):
            run += layout.change[s]
            layout.segments[s].left_over += run
        _hand_out(layout, span)


@inner
def _balance(watch, race, region, part, layout, budget, rate, goal, sweeps):
    """Sweeps over all features until the bound is below the goal or hardly moves.

    Leaves the balanced values in the layout; returns (the bound, what must be added to the sum of best leaves to get
    it, the number of sweeps).
    """
    n_features, layout.n_kept[0] = layout.spans.shape[0], 0
    fixed = _clear(region, layout, budget, rate)
    if region.limited and rate > 0:
        _seed(race, region, part, layout)
    # Where prices matter, it pays to divide sooner.
    slowest = 12 if region.limited else 50
    bound = before = rest = np.int64(0)
    for sweep in range(sweeps):
        for step in range(n_features):
            span = layout.spans[step if sweep % 2 == 0 else n_features - 1 - step]
            if is_over(watch):
                return np.int64(0), np.int64(0), np.int64(0)
            if _ask_for_wishes(layout, span):
                _share_out(layout, span)
            _hand_out(layout, span)
        total, rest = _bound(race, layout)
        bound = NONE if total == NONE else total + rest + fixed
        if bound < goal or (sweep > 0 and (before - bound) * slowest < bound - goal):
            break
        before = bound
        # Whoever checks a proof must leave out the same leaves by the same weights: seldom, if these are written.
        if (layout.kept.shape[0] == 0 or sweep & (sweep + 1) == 0) and _bury(race, layout, bound, goal):
            _keep(layout)
    _keep(layout)
    for j in range(layout.worth.shape[0]):
        if layout.worth[j].dead:
            layout.worth[j].total = -FARTHEST
    return bound, rest + fixed, np.int64(sweep + 1)


@inner
def balanced(question, race, region, part, draft, budget, needed, rate):
    """Balanced leaf values of a race, of no use if told to stop.

    `needed` is what the open trees must give together, `budget` what is left for the features they test, `rate` what
    money is worth. A bound below the goal settles the region.
    """
    watch = question.watch
    layout = _layout(watch, race, part, draft, np.int64(MOST_KEPT if is_recorded(question.proof) else 0))
    if is_over(watch):
        return Balance(layout.worth, np.int64(0), np.int64(0), np.int64(0), np.int64(0), layout, 1.0, 0.0)
    _price_segments(race, region, layout)
    goal, scale = _in_units(race, layout, needed)
    steps = np.int64(2 * layout.table.shape[0] * layout.segments.shape[0])
    for e in range(layout.entries.shape[0]):
        steps += 2 * (layout.entries[e].high - layout.entries[e].low + 1)
    this, work = 0.0, np.int64(0)
    if region.limited and 0 < budget < np.inf and rate * scale < MAX_RATE:
        # What cells may cost stays within all that trees can give.
        this = min(rate * scale, UNITS / budget)
        bound, rest, sweeps = _balance(watch, race, region, part, layout, budget, this, goal, np.int64(2))
        work += steps * sweeps
        if bound < goal or is_over(watch):
            return Balance(layout.worth, rest, goal, bound, work, layout, scale, this)
        # Once trees agree, money is worth less; half as much turned out well wherever it was tried.
        this *= 0.5
    bound, rest, sweeps = _balance(watch, race, region, part, layout, budget, this, goal, np.int64(SWEEPS))
    return Balance(layout.worth, rest, goal, bound, work + steps * sweeps, layout, scale, this)


@borrowing
def sort_again(watch, race, part, draft, worth):
    """Gives the leaves of the race their balanced values: sorts them, and the bits of all masks with them.

    If told to stop, the race is not fit for use.
    """
    trees, leaves = race.trees, race.leaves
    for t in range(trees.shape[0] - 1):
        first, n = np.int64(trees[t].leaf), np.int64(trees[t + 1].leaf - trees[t].leaf)
        for r in range(n):
            draft.leads[r], draft.nodes[r] = worth[first + r].total, leaves[first + r].node
        sort_down(draft.leads, n, draft.order)
        for r in range(n):
            before = draft.order[r]
            leaves[first + r].lead, leaves[first + r].node = draft.leads[before], draft.nodes[before]
        for r in range(n):
            draft.nodes[draft.order[r]] = r
        for j in range(first, first + n):
            draft.rank[j] = draft.nodes[draft.rank[j]]
    fill_masks(watch, race, part, draft)


@borrowing
def promising(race, balance):
    """Makes those leaves of a race live that can win by their balanced values."""
    trees, words, worth = race.trees, race.words, balance.worth
    for t in range(trees.shape[0] - 1):
        tree = trees[t]
        first, end = np.int64(tree.leaf), np.int64(trees[t + 1].leaf)
        best = NONE
        for leaf in range(first, end):
            best = max(best, worth[leaf].total)
        tree.live = 0
        for w in range(tree.words, tree.words + tree.extra):
            words[w].live = 0
        for leaf in range(first, end):
            if balance.bound - best + worth[leaf].total >= balance.goal:
                r = leaf - first
                bit = np.uint64(1) << np.uint64(r & 63)
                if r < 64:
                    tree.live |= bit
                else:
                    words[tree.words + (r >> 6) - 1].live |= bit
