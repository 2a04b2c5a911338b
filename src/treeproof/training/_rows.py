"""Training rows as an attacker sees them: in places between the thresholds that matter, with prices.

Every threshold between the ends of what attacks reach is a candidate; where there are too many, those in the widest
gaps are kept. Whether an attack can bring a row to a side of a threshold is exact for all that are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.model.columns import Category
from treeproof.numbers.doubles import LARGEST, FloatArray, next_up
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.threat import Threat

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MOST_LOOKED_AT = 20_000
"""Rows from which thresholds are chosen."""
MOST_BINS = 2**16 - 2
"""How many places a column of ranges may have, next to that of missing values."""
MOST_KINDS = 2**16 - 1
"""How many kinds of rows a listed column may have."""
MOST_BITS = 62
MOST_SETS = 64
"""How many sets of columns that are paid for together are told apart."""
MOST_SETS_OF_FEW = 512
"""How many of few rows."""
MOST_MARGINS = 2**22
"""Rows times sets up to which there may be more of them."""
MOST_STEPS = 20_000
"""How long they are looked for."""
CHUNK = 2**20
"""Prices that are made at once."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows that the attacker is bound to, feature by feature: what every tree of a model shares.

    `target` (n, heads) holds 0 and 1: with two classes one head, the second class; else one head per class.
    """

    rows: Any
    """Rows of the kernels."""
    thresholds: tuple[FloatArray, ...]
    """Per feature those of its places, in rising order; none of a category."""
    categories: dict[int, Category]
    label: IntArray
    target: npt.NDArray[np.uint8]
    own: IntArray
    """Per row the head that says where it is when rows are counted."""
    n_times: int
    """How often each row stands there, first with the neighbours that matter, all rows once before any stands again."""

    @classmethod
    def of(
        cls,
        X: FloatArray,
        label: IntArray,
        n_classes: int,
        threat: Threat,
        epsilons: Sequence[FloatArray],
        max_bins: int,
        categories: dict[int, Category],
        seen: BoolArray,
    ) -> TrainingSet:
        """The rows X (n, n_features) with class numbers `label`, once for each size of neighbourhoods (n_features,).

        Thresholds come from those that are `seen`. One parameter per thing that a training set is made from.
        """
        near = [np.concatenate(ends) for ends in zip(*(threat.neighbourhood(X, e) for e in epsilons), strict=True)]
        X, label, seen = (np.concatenate([some] * len(epsilons)) for some in (X, label, seen))
        # Who has a label that the attacker wants is left alone.
        attacked = ~np.isin(label, threat.goal)
        every = np.stack((X, *near, *threat.reach(*near)))
        columns = [
            _Column(f, threat, every[:, :, f], attacked, seen, categories.get(f), max_bins) for f in range(X.shape[1])
        ]
        if n_classes == 2:
            target, own = label.reshape(-1, 1), np.zeros(len(X), dtype=np.int64)
        else:
            target, own = (label[:, None] == np.arange(n_classes)).astype(np.int64), label
        return cls(
            rows=_rows_of(columns, threat),
            thresholds=tuple(column.thresholds for column in columns),
            categories=categories,
            label=label,
            target=np.ascontiguousarray(target, dtype=np.uint8),
            own=own,
            n_times=len(epsilons),
        )

    @property
    def n_rows(self) -> int:
        """How many different rows there are."""
        return len(self.label) // self.n_times

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.thresholds)

    @cached_property
    def masks(self) -> IntArray:
        """Where the open places of each listed column begin in a node, and at the end how many there are."""
        n_open = np.where(self.rows.listed >= 0, self.rows.n_places, 0)
        return np.concatenate(([0], np.cumsum(n_open))).astype(np.int64)

    @cached_property
    def _sets(self) -> tuple[IntArray, IntArray]:
        return sets_paid_for(self._movable, self.rows.cost, int(self.rows.budget), len(self.label))

    @property
    def paid_sets(self) -> IntArray:
        """The largest sets of columns that one attack can pay for, as bits."""
        return self._sets[1]

    @property
    def bits(self) -> IntArray:
        """The bit of each column in these sets."""
        return self._sets[0]

    @cached_property
    def _movable(self) -> BoolArray:
        """Which columns any row can be attacked in."""
        rows = self.rows
        movable = (rows.ranges["low"] <= rows.ranges["high"]).any(axis=1)
        for f in np.flatnonzero(rows.listed >= 0).tolist():
            prices = self.prices_of(f)
            movable[f] = ((prices > 0) & (prices < _never())).any()
        return np.asarray(movable)

    def prices_of(self, f: int) -> npt.NDArray[np.int64]:
        """(n_kinds, n_places): what each place of a listed column costs each kind of row."""
        size = int(self.rows.n_kinds[f]), int(self.rows.n_places[f])
        prices: npt.NDArray[np.int64] = self.rows.prices[self.rows.listed[f] :][: size[0] * size[1]]
        return prices.reshape(size)

    def with_sets(self, chosen: IntArray) -> TrainingSet:
        """The same where only the columns of one set can be attacked in each row, by the numbers of the sets (n,)."""
        ranges = self.rows.ranges.copy()
        for f in range(self.n_features):
            frozen = self.paid_sets[chosen] & self.bits[f] == 0
            ranges["high"][f][frozen] = 0
            if self.rows.listed[f] < 0:
                ranges["low"][f][frozen & (ranges["near_low"][f] < self.rows.n_places[f] - 1)] = 1
        return replace(self, rows=self.rows._replace(ranges=ranges))

    @cached_property
    def ordered(self) -> BoolArray:
        """Which features have places in rising order."""
        return np.array([f not in self.categories for f in range(self.n_features)])


class _Column:
    """One column: its thresholds, and what attacks make of each row's value."""

    def __init__(
        self,
        f: int,
        threat: Threat,
        values: FloatArray,
        attacked: BoolArray,
        seen: BoolArray,
        category: Category | None,
        max_bins: int,
    ) -> None:
        """`values` (5, n): of rows, the ends of their neighbours, and those of what moves lead to from there."""
        self._x, self._near, self._reach = values[0], values[1:3], values[3:]
        self.attacked = attacked
        self._moves = threat.moves_of(f)
        self._budget = threat.budget
        self.is_listed = category is not None or f in dict(threat.columns)
        if category is not None:
            codes = np.arange(float(category.n_codes))
            self.thresholds, self._cells = codes[:0], (codes, codes)
        else:
            self._cut(_chosen(self._ends(seen), max_bins))

    @property
    def may_miss(self) -> bool:
        """Whether there are missing values, or attacks make them."""
        return bool(np.isnan(self._x).any()) or self._moves.blank is not None

    def _cut(self, thresholds: FloatArray) -> None:
        self.thresholds = thresholds
        self._cells = np.concatenate(([-LARGEST], next_up(thresholds))), np.concatenate((thresholds, [LARGEST]))

    @property
    def n_places(self) -> int:
        """With one for missing values."""
        return len(self._cells[0]) + 1

    def _ends(self, seen: BoolArray) -> FloatArray:
        """Where thresholds may lie between: the ends of what rows are, and of what attacks make of them."""
        shown = np.flatnonzero(seen)[:: max(1, len(self._x) // MOST_LOOKED_AT)]
        ends = [self._near[0][shown], self._near[1][shown]]
        if not self.is_listed:
            possible = (self._reach[0] <= self._reach[1])[shown]
            ends += [self._reach[0][shown][possible], self._reach[1][shown][possible]]
        else:
            ends += _ends_of(self._moves, self._near[0][shown], self._near[1][shown])
        every = np.concatenate(ends)
        return np.asarray(every[~np.isnan(every)])

    def ranges(self, ranges: npt.NDArray[Any]) -> None:
        """Fills RANGE for a column of ranges."""
        missing = np.isnan(self._x)
        for name, values in zip(("near_low", "near_high", "low", "high"), (*self._near, *self._reach), strict=True):
            ranges[name] = np.where(missing, self.n_places - 1, np.searchsorted(self.thresholds, values))
        nowhere = ~missing & ((self._reach[0] > self._reach[1]) | ~self.attacked)
        ranges["low"][nowhere], ranges["high"][nowhere] = 1, 0

    def kinds(self) -> tuple[npt.NDArray[np.int64], IntArray]:
        """The prices (n_kinds, n_places) of a listed column, and the kind of each row."""
        values, first, inverse = np.unique(self._x, return_index=True, return_inverse=True)
        seen: dict[bytes, int] = {}
        number_of = np.empty(len(values), dtype=np.int64)
        size = max(1, CHUNK // self.n_places)
        for begin in range(0, len(values), size):
            some = slice(begin, begin + size)
            at = first[some]
            prices = self._prices(self._x[at], self._near[0][at], self._near[1][at])
            for k, row in enumerate(prices):
                number_of[begin + k] = seen.setdefault(row.tobytes(), len(seen))
        if len(seen) > MOST_KINDS:
            self._cut(self.thresholds[::2])
            return self.kinds()
        return np.array([np.frombuffer(key, dtype=np.int64) for key in seen]), number_of[inverse.reshape(-1)]

    def _prices(self, x: FloatArray, low: FloatArray, high: FloatArray) -> npt.NDArray[np.int64]:
        """The prices of all places, and of missing values, for rows with these values; what nobody pays is NEVER."""
        prices = self._moves.table(x, low, high, *self._cells, True)
        possible = prices <= self._budget
        return np.where(possible, np.where(possible, prices, 0), _never()).astype(np.int64)


def sets_paid_for(movable: BoolArray, cost: IntArray, budget: int, n_rows: int) -> tuple[IntArray, IntArray]:
    """The bit of each column, and the largest sets of columns that can be paid for together, as bits.

    Where there are more columns than bits, or too many sets, columns of like cost share a bit, and who pays for one of
    them has them all: what such attacks cannot do, the attacker cannot do either.
    """
    columns = np.flatnonzero(movable & (cost <= budget))
    columns = columns[np.argsort(cost[columns], kind="stable")]
    bits = np.zeros(len(cost), dtype=np.int64)
    most = min(max(MOST_MARGINS // max(n_rows, 1), MOST_SETS), MOST_SETS_OF_FEW)
    n_bits = 0 if cost[columns].sum() <= budget else min(len(columns), MOST_BITS)
    while n_bits > 1:
        group = np.arange(len(columns)) * n_bits // len(columns)
        cheapest = cost[columns][np.flatnonzero(np.diff(group, prepend=-1))]
        found = _largest_sets(cheapest.tolist(), budget, most)
        if found is not None and len(found) > 1:
            bits[columns] = np.int64(1) << group
            return bits, np.array(found, dtype=np.int64)
        n_bits = 0 if found else n_bits * 7 // 8
    return bits, np.array([-1], dtype=np.int64)


def _largest_sets(costs: list[int], budget: int, most: int) -> list[int] | None:
    """The sets of columns that a budget pays for and to which none can be added, as bits; None if more than `most`."""
    found: list[int] = []
    behind = np.cumsum([0, *costs[::-1]]).tolist()[::-1]
    # Columns are taken or left, one after the other; the cheapest that was left must not fit in the end.
    todo, n_steps = [(0, 0, 0, budget + 1)], 0
    while todo:
        column, taken, spent, cheapest = todo.pop()
        n_steps += 1
        if len(found) > most or n_steps > MOST_STEPS:
            return None
        if spent + behind[column] + cheapest <= budget:
            continue
        if column == len(costs):
            found.append(taken)
            continue
        cost = costs[column]
        todo.append((column + 1, taken, spent, min(cheapest, cost)))
        if spent + cost <= budget:
            todo.append((column + 1, taken | 1 << column, spent + cost, cheapest))
    return found if len(found) <= most else None


def _never() -> int:
    from treeproof._kernels.training.reach import NEVER

    return NEVER


def _ends_of(moves: ColumnMoves, low: FloatArray, high: FloatArray) -> list[FloatArray]:
    """Where moves of a listed column of numbers end, as far as that is easy to say."""
    ends = [] if moves.ends is None else [np.array(moves.ends)]
    if moves.interval is not None and moves.ends is None:
        first, last = (max(min(end, LARGEST), -LARGEST) for end in moves.interval)
        with np.errstate(over="ignore"):
            ends += [np.clip(low + first, *moves.domain), np.clip(high + last, *moves.domain)]
    return ends


def _chosen(ends: FloatArray, max_bins: int) -> FloatArray:
    """At most max_bins - 1 thresholds between ends: all, or those in the widest gaps among as many ends each."""
    values, counts = np.unique(ends, return_counts=True)
    if len(values) < 2:
        return np.empty(0)
    low, high = values[:-1], values[1:]
    middle = low * 0.5 + high * 0.5
    thresholds = np.where((middle >= low) & (middle < high), middle, low)
    most = max_bins - 1
    if len(thresholds) <= most:
        return thresholds
    part = np.cumsum(counts)[:-1] * most // (counts.sum() + 1)
    with np.errstate(over="ignore"):
        order = np.lexsort((-(high - low), part))
    first = np.concatenate(([True], np.diff(part[order]) > 0))
    return np.sort(thresholds[order[first]])


def _rows_of(columns: Sequence[_Column], threat: Threat) -> Any:
    """The rows as kernels see them."""
    from treeproof._kernels.training.reach import RANGE, Rows

    ranges = np.zeros((len(columns), len(columns[0]._x)), dtype=RANGE)
    listed, prices, begin = np.full(len(columns), -1), [np.empty(0, dtype=np.int64)], 0
    n_kinds = np.zeros(len(columns), dtype=np.int64)
    for f, column in enumerate(columns):
        if not column.is_listed:
            column.ranges(ranges[f])
            continue
        tables, numbers = column.kinds()
        listed[f], ranges[f]["near_low"], ranges[f]["high"] = begin, numbers, column.attacked
        n_kinds[f] = len(tables)
        prices.append(tables.reshape(-1))
        begin += tables.size
    n_places = np.array([column.n_places for column in columns], dtype=np.int64)
    may_miss = np.array([column.may_miss for column in columns])
    listed, cost, every = listed.astype(np.int64), threat.cost.astype(np.int64), np.concatenate(prices)
    return Rows(ranges, listed, n_places, n_kinds, every, cost, may_miss, threat.budget)
