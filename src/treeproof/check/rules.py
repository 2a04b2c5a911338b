"""The rules by which a tree of boxes proves a claim: whole numbers, masks of cells, and sums.

A mask is a whole number whose bits are the cells of a column. A box holds one per column, and of each tree those leaves
live that a row of the box may come to and pay for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import compress
from math import ceil, floor
from operator import or_
from typing import Any, NamedTuple, Protocol


class Rejected(Exception):
    """A proof does not hold, and why."""


MOST_HELD = 2**26
"""No parts of a proof wait together that are made of more."""
MOST_AT_ONCE = 16
"""Prices that are looked through one by one."""


def held(waiting: list[Any], size: int) -> list[Any]:
    """Parts that wait, each of so many columns or trees; Rejected if they are too many, since a bomb is no proof."""
    if len(waiting) * size > MOST_HELD:
        raise Rejected("the proof keeps too many parts waiting")
    return waiting


class Leaf(NamedTuple):
    """What a leaf is for a claim: how far it puts the other class ahead, a number for its scores, and its cells."""

    lead: int
    kind: int
    cells: Mapping[int, int]
    """Masks of the columns that are tested on the way to it."""


class Purse(NamedTuple):
    """What may be spent on some columns together."""

    budget: int
    columns: frozenset[int]


@dataclass(frozen=True)
class Claim:
    """No row of the region that can be paid for puts the other class ahead by `needed` or more."""

    trees: Sequence[Sequence[Leaf]]
    region: Sequence[int]
    """Per column the cells within reach."""
    prices: Sequence[Sequence[tuple[int, int]]]
    """Per column what cells cost, rising, and which cost that much; those in no mask cannot be had."""
    purses: Sequence[Purse]
    """The first one is the budget of all columns, if there is any."""
    constant: int
    needed: int
    unit: int
    """A score of 1 is a lead of so much."""
    price_unit: Fraction
    """What costs 1 has this price."""
    keeps_label: Callable[[Sequence[Leaf]], bool]
    """Whether rows with these leaves, one per tree, keep the label in the library's own arithmetic."""
    is_too_dear: Callable[[Sequence[int]], bool]
    """Whether no row of a box of these cells can be paid for, if prices are not rounded."""
    about: Any = None
    """What people call all this; no rule asks for it."""
    can_pay: Sequence[Sequence[bool]] | None = None
    """Of each tree, leaf by leaf, whether a row of the region can come to it and pay for that, if somebody knows."""

    @cached_property
    def payable(self) -> Sequence[Sequence[Leaf]]:
        """Of each tree the leaves that can be paid for, as far as that is known."""
        if self.can_pay is None:
            return self.trees
        return [list(compress(leaves, live)) for leaves, live in zip(self.trees, self.can_pay, strict=True)]

    @cached_property
    def trees_with(self) -> list[dict[int, set[int]]]:
        """Per column and mask of a leaf the trees that have such a leaf."""
        found: list[dict[int, set[int]]] = [{} for _ in self.region]
        for t, leaves in enumerate(self.payable):
            for leaf in leaves:
                for f, mask in leaf.cells.items():
                    found[f].setdefault(mask, set()).add(t)
        return found

    @cached_property
    def trees_of(self) -> list[list[int]]:
        """Per column the trees that test it."""
        return [sorted(set().union(*trees.values())) for trees in self.trees_with]

    @cached_property
    def _by_price(self) -> list[list[tuple[int, Any]]]:
        """Per column masks of cells from the cheapest on, each with its price, or with the masks that it is made of."""
        found: list[list[tuple[int, Any]]] = []
        for prices in self.prices:
            level: list[tuple[int, Any]] = [(mask, price) for price, mask in prices]
            while len(level) > MOST_AT_ONCE:
                groups = [level[i : i + MOST_AT_ONCE] for i in range(0, len(level), MOST_AT_ONCE)]
                level = [(reduce(or_, [mask for mask, _ in group]), group) for group in groups]
            found.append(level)
        return found

    @cached_property
    def tight(self) -> list[Purse]:
        """The purses that do not pay for everything."""
        dearest = [prices[-1][0] if prices else 0 for prices in self.prices]
        return [purse for purse in self.purses if sum(dearest[f] for f in purse.columns) > purse.budget]

    @cached_property
    def too_much(self) -> int:
        """A price that no purse can pay."""
        return 1 + max([purse.budget for purse in self.purses], default=0)

    def least(self, f: int, mask: int) -> int | None:
        """The least price of some cells of a column; None if none of them can be had."""
        found: Any = self._by_price[f]
        while isinstance(found, list):
            found = next((below for cells, below in found if cells & mask), None)
        return None if found is None else int(found)


@dataclass(frozen=True)
class Weights:
    """What trees give each other: whole numbers per tree, column and segment; and what money is worth."""

    scale: Fraction
    """A score of 1 is so much in their units."""
    rate: Fraction
    """What they take back for a cost of 1."""
    segments: Mapping[int, Sequence[int]]
    """Per column masks of cells that do not overlap."""
    shares: Mapping[int, Mapping[int, Sequence[int]]]
    """Per tree and column a number for each segment."""
    rounds: int = 0
    """How often leaves are left out with which nothing can win."""

    words: int = 0
    """The memory that masks of segments take."""


# --- boxes -----------------------------------------------------------------------------------------------------------


class _Extras(dict[int, int]):
    """What masks of a column cost on top of what a box costs there: too much if none of the cells is to be had."""

    def __init__(self, claim: Claim, f: int, here: int, paid: int) -> None:
        super().__init__()
        self._claim, self._f, self._here, self._paid = claim, f, here, paid

    def __missing__(self, mask: int) -> int:
        least = self._claim.least(self._f, mask & self._here)
        self[mask] = extra = self._claim.too_much if least is None else least - self._paid
        return extra


class Box:
    """The cells of each column, the leaves of each tree that live, and what the box costs at least."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.cells = list(claim.region)
        self.trees = [list(leaves) for leaves in claim.payable]
        self.best = [_best(leaves) for leaves in self.trees]
        self.paid = [0] * len(self.cells)
        self.extras: list[Mapping[int, int]] = [{}] * len(self.cells)
        """Per column and mask of a leaf what that costs on top of what the box costs there."""
        self.is_empty = any(not leaves for leaves in self.trees)
        for f in range(len(self.cells)):
            self._pay(f)
        self.costs = [
            [[sum(_extras(self, leaf, purse).values()) for leaf in leaves] for leaves in self.trees]
            for purse in claim.tight
        ]
        """Per purse that does not pay for everything, and tree, what leaves cost on top of what the box costs."""
        self._leave_dear_leaves(range(len(self.trees)))

    def copy(self) -> Box:
        """The same, to be made smaller."""
        twin = object.__new__(Box)
        twin.claim, twin.is_empty = self.claim, self.is_empty
        twin.cells, twin.trees, twin.paid = self.cells.copy(), self.trees.copy(), self.paid.copy()
        twin.best, twin.extras = self.best.copy(), self.extras.copy()
        twin.costs = [costs.copy() for costs in self.costs]
        return twin

    def keep(self, f: int, mask: int) -> None:
        """Only these cells of a column from now on."""
        gone = self.cells[f] & ~mask
        if self.is_empty or not gone:
            return
        self.cells[f] = here = self.cells[f] & mask
        before, paid = self.extras[f], self.paid[f]
        self._pay(f)
        for t in {t for own, some in self.claim.trees_with[f].items() if own & gone and not own & here for t in some}:
            self.drop(t, [leaf.cells.get(f, here) & here for leaf in self.trees[t]])
        now = self.extras[f]
        for purse, costs in zip(self.claim.tight, self.costs, strict=True):
            if f in purse.columns and len(self.claim.prices[f]) > 1:
                for t in self.claim.trees_of[f]:
                    costs[t] = [
                        cost if (own := leaf.cells.get(f)) is None else cost + now[own] - before[own]
                        for leaf, cost in zip(self.trees[t], costs[t], strict=True)
                    ]
        # What is left of a leaf may cost more.
        self._leave_dear_leaves(range(len(self.trees)) if self.paid[f] != paid else self.claim.trees_of[f])

    def drop(self, t: int, live: Sequence[int]) -> None:
        """Only those leaves of a tree from now on whose entry is not 0."""
        self.trees[t] = list(compress(self.trees[t], live))
        self.best[t] = _best(self.trees[t])
        self.is_empty |= not self.trees[t]
        for costs in self.costs:
            costs[t] = list(compress(costs[t], live))

    def draw_in(self) -> None:
        """Leaves out cells that no leaf of some tree has, which may make the box dearer."""
        some = True
        while some and not self.is_empty:
            some = False
            for leaves in list(self.trees):
                for f in leaves[0].cells:
                    if all(f in leaf.cells for leaf in leaves):
                        mask = 0
                        for leaf in leaves:
                            mask |= leaf.cells[f]
                        some |= bool(self.cells[f] & ~mask)
                        self.keep(f, mask)

    def pay_exactly(self) -> None:
        """Leaves out what nobody can pay for, or what holds no valid row, by prices that are not rounded."""
        is_too_dear = self.claim.is_too_dear
        self.is_empty |= is_too_dear(self.cells)
        for t, leaves in enumerate(self.trees if not self.is_empty else ()):
            own = [[cells & leaf.cells.get(f, cells) for f, cells in enumerate(self.cells)] for leaf in leaves]
            self.drop(t, [not is_too_dear(cells) for cells in own])

    @property
    def bound(self) -> int:
        """What leaves can give at most, if each tree has its best one."""
        return self.claim.constant + sum(self.best)

    @property
    def is_closed(self) -> bool:
        """Whether that is not what the other class needs."""
        return self.is_empty or self.bound < self.claim.needed

    def spent(self, purse: Purse) -> int:
        """What the box costs a purse at least."""
        return sum(self.paid[f] for f in purse.columns)

    def _pay(self, f: int) -> None:
        """Notes what a column costs at least; one that is missing in the row, and stays so, has no cells."""
        least = self.claim.least(f, self.cells[f]) if self.claim.region[f] else 0
        self.is_empty |= least is None
        self.paid[f] = least or 0
        self.extras[f] = _Extras(self.claim, f, self.cells[f], self.paid[f])

    def _leave_dear_leaves(self, trees: Sequence[int]) -> None:
        """Leaves out what no purse can pay for on top of what the box costs anyway."""
        for purse, costs in zip(self.claim.tight, self.costs, strict=True):
            left = purse.budget - self.spent(purse)
            self.is_empty |= left < 0
            for t in () if self.is_empty else trees:
                if max(costs[t], default=0) > left:
                    self.drop(t, [cost <= left for cost in costs[t]])


def _best(leaves: Sequence[Leaf]) -> int:
    return max([leaf.lead for leaf in leaves], default=0)


# --- the bound by weights --------------------------------------------------------------------------------------------


class Weighed:
    """What a box can give at most by some weights, in units of these."""

    def __init__(self, box: Box, weights: Weights) -> None:
        self.box, self.weights, claim = box, weights, box.claim
        self._scale = weights.scale / claim.unit
        self.needed, self.bound = floor(claim.needed * self._scale), 0
        self.values: list[list[int]] = []
        self.best: list[int] = []
        if not box.is_empty:
            self.values = [self._values(t, leaves) for t, leaves in enumerate(box.trees)]
            self.best = list(map(max, self.values))
            self.bound = ceil(claim.constant * self._scale) + sum(self.best) + self._taken_back()

    @property
    def is_closed(self) -> bool:
        """Whether no row of the box puts the other class ahead by what it needs."""
        return self.box.is_empty or self.bound < self.needed

    def _values(self, t: int, leaves: Sequence[Leaf]) -> list[int]:
        """Leads of leaves with the best shares that they may have."""
        up, down = self._scale.numerator, self._scale.denominator
        values = [-(-leaf.lead * up // down) for leaf in leaves]
        for f, shares in self.weights.shares.get(t, {}).items():
            here = self.box.cells[f]
            ordered = sorted(zip(shares, self.weights.segments[f], strict=True), reverse=True)
            for i, leaf in enumerate(leaves):
                cells = leaf.cells.get(f, here) & here
                values[i] += next(share for share, segment in ordered if segment & cells)
        return values

    def _taken_back(self) -> int:
        """The most that shares and money can be short of on all columns together."""
        weights, box, claim = self.weights, self.box, self.box.claim
        rate, total = weights.rate / claim.price_unit, Fraction(0)
        for f, segments in weights.segments.items():
            trees = [shares[f] for shares in weights.shares.values() if f in shares]
            total += max(
                -sum(shares[s] for shares in trees) - rate * price
                for s, segment in enumerate(segments)
                if (price := claim.least(f, segment & box.cells[f])) is not None
            )
        if rate and claim.purses:
            budget, columns = claim.purses[0]
            total += rate * (budget - sum(box.paid[f] for f in columns if f not in weights.segments))
        return ceil(total)

    def leave_out(self) -> bool:
        """Leaves out leaves with which nothing can win, and segments where a tree has none; whether there were any."""
        box, some = self.box, False
        for t, values in enumerate(self.values):
            most = self.bound - self.best[t]
            live = [most + value >= self.needed for value in values]
            if not all(live):
                box.drop(t, live)
                some = True
        for f, segments in self.weights.segments.items():
            trees = [t for t, shares in self.weights.shares.items() if f in shares]
            for segment in segments:
                met = box.cells[f] & segment
                if met and not all(_meets(box.trees[t], f, met) for t in trees):
                    box.keep(f, ~segment)
                    some = True
        return some


def _meets(leaves: Sequence[Leaf], f: int, cells: int) -> bool:
    return any(leaf.cells.get(f, cells) & cells for leaf in leaves)


def _weigh(box: Box, weights: Weights) -> None:
    """Leaves out leaves with which nothing can win by some weights; all of them, if they close the box."""
    for _ in range(weights.rounds):
        weighed = Weighed(box, weights)
        box.is_empty = weighed.is_closed
        if box.is_empty or not weighed.leave_out():
            return


# --- the bound by spending -------------------------------------------------------------------------------------------


def _closes_by_spending(box: Box, rate: Fraction) -> bool:
    """Whether nothing that money can buy is enough, if it is worth `rate`.

    What a leaf gives more than the best leaf that costs nothing on top of the box is shared out over the columns that
    it must pay for, in proportion to the squares of these prices. What a tree gains by an amount spent on a column is
    at most the largest share that costs no more.
    """
    claim = box.claim
    box.draw_in()
    # Whoever can pay for everything needs not choose.
    if box.is_empty or not _is_for_all(claim) or claim.purses[0] not in claim.tight:
        return box.is_empty
    rate = rate * claim.unit / claim.price_unit
    # Where every leaf costs something, what is to be had for nothing may be put as low as one likes.
    return any(_bought(box, rate, less) < claim.needed for less in (0, ceil(rate * claim.purses[0].budget)))


def _bought(box: Box, rate: Fraction, less: int) -> Fraction:
    """The most that money can buy; of trees whose leaves all cost something, `less` than the best is free."""
    claim, purse = box.claim, box.claim.purses[0]
    total, gains = Fraction(claim.constant), _Gains()
    for leaves, costs in zip(box.trees, box.costs[claim.tight.index(purse)], strict=True):
        unpaid = [leaf.lead for leaf, cost in zip(leaves, costs, strict=True) if not cost]
        free = max(unpaid, default=_best(leaves) - less)
        total += free
        gains.add([(leaf.lead - free, _extras(box, leaf, purse)) for leaf in leaves if leaf.lead > free])
    return total + rate * (purse.budget - box.spent(purse)) + gains.most(rate)


def _extras(box: Box, leaf: Leaf, purse: Purse) -> dict[int, int]:
    """What a leaf costs on columns, where that is more than the box costs anyway."""
    return {f: extra for f, mask in leaf.cells.items() if f in purse.columns and (extra := box.extras[f][mask])}


FINE = 2**40
"""Shares are rounded up to parts of a lead, so many of them."""


class _Gains:
    """Per column and price what trees gain more from there on."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[int, int]] = {}

    def add(self, gains: list[tuple[int, dict[int, int]]]) -> None:
        """Shares out the gains of the leaves of one tree, each with what it costs on columns."""
        shares: dict[int, dict[int, int]] = {}
        for gain, extras in gains:
            squares = sum(price * price for price in extras.values())
            for f, price in extras.items():
                own = shares.setdefault(f, {})
                own[price] = max(own.get(price, 0), -(-gain * FINE * price * price // squares))
        for f, own in shares.items():
            steps, most = self._steps.setdefault(f, {}), 0
            for price in sorted(own):
                if own[price] > most:
                    steps[price] = steps.get(price, 0) + own[price] - most
                    most = own[price]

    def most(self, rate: Fraction) -> Fraction:
        """The most that can be gained beyond what money is worth."""
        total = Fraction(0)
        for steps in self._steps.values():
            worth, best = 0, Fraction(0)
            for price in sorted(steps):
                worth += steps[price]
                best = max(best, worth - rate * FINE * price)
            total += best
        return total / FINE


# --- trees of boxes --------------------------------------------------------------------------------------------------

MOST_CELLS = 2**20
"""No column has more."""
CLOSED, CUT_LEFT, CUT_RIGHT, KEEP_LEFT, KEEP_RIGHT, WEIGH, DROP, SPEND, DECIDED = range(9)


class Steps(Protocol):
    """A tree of boxes in preorder, step by step."""

    def op(self) -> int:
        """What is done with the next box."""

    def cut(self) -> tuple[int, int]:
        """A column, and the last cell on the left of a cut."""

    def weights(self) -> Weights:
        """Weights."""

    def rate(self) -> Fraction:
        """What money is worth."""

    def at(self, box: Box, weights: Weights | None) -> None:
        """Is told which box comes next, and with which weights."""


def check_tree(claim: Claim, steps: Steps) -> int:
    """Walks a tree of boxes; returns how many were closed, or raises Rejected."""
    waiting: list[tuple[Box, Weights | None]] = [(Box(claim), None)]
    closed, size = 0, len(claim.region) + len(claim.trees)
    size += sum(mask.bit_length() for mask in claim.region) // 64
    while waiting:
        box, weights = held(waiting, size).pop()
        steps.at(box, weights)
        op = steps.op()
        if op in (CUT_LEFT, CUT_RIGHT):
            left, right = halves(box, *steps.cut())
            waiting += [(right, weights), (left, weights)] if op == CUT_LEFT else [(left, weights), (right, weights)]
        elif op in (KEEP_LEFT, KEEP_RIGHT):
            left, right = halves(box, *steps.cut())
            kept, other = (left, right) if op == KEEP_LEFT else (right, left)
            _close(other, weights)
            closed += 1
            waiting.append((kept, weights))
        elif op in (WEIGH, DROP):
            other_weights = _about(claim, steps.weights())
            _weigh(box, other_weights)
            waiting.append((box, other_weights if op == WEIGH else weights))
            held([None], sum({id(one): one.words for _, one in waiting if one is not None}.values()))
        else:
            _end(box, weights, op, steps)
            closed += 1
    return closed


def _is_for_all(claim: Claim) -> bool:
    """Whether the first purse pays for every column."""
    return bool(claim.purses) and claim.purses[0].columns >= set(range(len(claim.region)))


def _about(claim: Claim, weights: Weights) -> Weights:
    """Weights that speak of columns with cells and of trees that there are, and not of money where none is counted."""
    columns, trees = range(len(claim.region)), range(len(claim.trees))
    if not all(f in columns and claim.region[f] for f in weights.segments) or not all(
        t in trees for t in weights.shares
    ):
        raise Rejected("weights are given to a column without cells, or to no tree")
    if weights.scale <= 0 or weights.rate < 0 or (weights.rate and not _is_for_all(claim)):
        raise Rejected("weights have no scale, or money is counted that nobody spends")
    return weights


def _end(box: Box, weights: Weights | None, op: int, steps: Steps) -> None:
    """A box without parts."""
    if op == CLOSED:
        _close(box, weights)
    elif op == SPEND:
        rate = steps.rate()
        if not (rate >= 0 and _closes_by_spending(box, rate)):
            _close(box, weights)
    elif op == DECIDED:
        _settle(box, lambda: _is_decided(box))
    else:
        raise Rejected(f"there is no step {op}")


def _close(box: Box, weights: Weights | None) -> None:
    _settle(box, lambda: box.is_closed or (weights is not None and Weighed(box, weights).is_closed))


def _settle(box: Box, is_settled: Callable[[], bool]) -> None:
    """Rejects a box of which that is not true, also where prices are not rounded."""
    if not is_settled():
        box.pay_exactly()
    if not (box.is_empty or is_settled()):
        raise Rejected(f"a box may give {box.bound}, which is not below {box.claim.needed}, or has a choice of leaves")


def _is_decided(box: Box) -> bool:
    """Whether a box leaves one leaf of each tree, and these keep the label."""
    is_one = all(len({leaf.kind for leaf in leaves}) == 1 for leaves in box.trees)
    return is_one and box.claim.keeps_label([leaves[0] for leaves in box.trees])


def halves(box: Box, f: int, cell: int) -> tuple[Box, Box]:
    """The parts of a box with cells up to a cut of a column, and above it; the box itself becomes the latter."""
    # Beyond the cells that can be had nothing is cut off, and that is as good as any cut.
    if not (0 <= f < len(box.cells) and 0 <= cell <= MOST_CELLS):
        raise Rejected(f"there is no cell {cell} of column {f}")
    below = (2 << min(cell, box.claim.region[f].bit_length())) - 1
    left, right = box.copy(), box
    left.keep(f, below)
    right.keep(f, ~below)
    return left, right
