"""Where the cheapest changes of rows to wanted labels are found: one per row, and the next ones that differ from it."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from treeproof.errors import disbelieved
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.doubles import FloatArray, root_at_most
from treeproof.numbers.patience import in_time
from treeproof.results.asked import Unit, units_of
from treeproof.results.verdicts import Outcome, differ
from treeproof.run.limits import Limits
from treeproof.threat.threat import Threat
from treeproof.verification.local_search import Local, price_of_attack
from treeproof.verification.space import Space
from treeproof.verification.valid_rows import Columns, search_for

MOST_NEARER = 64
"""How many nearer places of a number are tried."""


class Change(NamedTuple):
    """A row after a change, its price (inf: there is none), whether that is proved, and what it costs at least."""

    row: FloatArray
    price: float
    outcome: Outcome
    least: float


@dataclass(frozen=True, eq=False)
class Finder:
    """Finds the cheapest changes of rows that the attacker can make, to labels of his goal."""

    ensemble: Ensemble
    threat: Threat
    """With any budget or radius, unless his own bind."""
    within: bool
    limits: Limits

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """What changes as one: the columns, and one-hot groups."""
        return units_of(self.ensemble, self.threat.relations)

    def changes(self, X: FloatArray) -> list[Change]:
        """The cheapest change of each row."""
        is_over = self.limits.for_rows(len(X))
        labels, columns = self.ensemble.predict_index(X), Columns.of(self.ensemble, self.threat, X)
        nearer = Nearer(self, columns)
        found = search_for(self.ensemble, self.threat, self.limits).cheapest(X, self.within)
        changes = []
        for x, w, price, outcome, label in zip(
            X, found.attacked, found.price.tolist(), found.outcome.tolist(), labels.tolist(), strict=True
        ):
            if label in self.threat.goal:
                changes.append(Change(x, 0.0, Outcome.PROVED, 0.0))
            else:
                w = in_time(is_over, partial(self._plainer, columns, nearer, x, w), w) if math.isfinite(price) else x
                proved = outcome == Outcome.PROVED
                changes.append(Change(w, price, Outcome(outcome), price if proved else 0.0))
        return changes

    def _plainer(self, columns: Columns, nearer: Nearer, x: FloatArray, w: FloatArray) -> FloatArray:
        """The row after a change of the same price that is nearer, and has nothing needless."""
        return nearer.row(x, self._without_needless(columns, x, w))

    def hold_themselves(self, rows: FloatArray) -> npt.NDArray[np.bool_]:
        """Which rows have a wanted label and are valid."""
        wanted = np.isin(self.ensemble.predict_index(rows), self.threat.goal)
        return wanted & ~self.threat.relations.broken(rows) if self.threat.relations else wanted

    def holds(self, row: FloatArray) -> bool:
        """Whether a row that the attacker can reach is what is looked for."""
        return bool(self.hold_themselves(row[None])[0])

    def space_of(self, columns: Columns, _x: FloatArray) -> Space:
        """The cells in which a row that x becomes is as good as any other."""
        return columns.space

    def _without_needless(self, columns: Columns, x: FloatArray, w: FloatArray) -> FloatArray:
        """The row after a change without what is free of charge and not needed."""
        if self.threat.power is not None:
            return w
        prices = prices_of_change(columns, x, w)
        for features in [list(self.units[number].features) for number, price in prices.items() if price == 0]:
            shorter = w.copy()
            shorter[features] = x[features]
            if self.holds(shorter):
                w = shorter
        return w

    def frozen(self, features: Iterable[int], limits: Limits) -> Finder:
        """The same if some features must not change."""
        return replace(self, threat=self.threat.freeze(features), limits=limits)

    def others(self, x: FloatArray, first: Change, n: int) -> list[Change]:
        """The n next changes of a row: each the cheapest that does not change all columns that one before it changes.

        If there are fewer, the last one has the price inf.
        """
        found: list[Change] = []
        if n == 0 or first.price == 0 or math.isinf(first.price):
            return found
        search = _Diverse(self, x, first)
        while len(found) < n and (not found or found[-1].price < math.inf):
            found.append(search.next())
        return found


def changed_units(units: Sequence[Unit], x: FloatArray, w: FloatArray) -> list[int]:
    """The numbers of the units in which two rows differ."""
    changed = set(np.flatnonzero(differ(x, w)).tolist())
    return [number for number, unit in enumerate(units) if not changed.isdisjoint(unit.features)]


def prices_of_change(columns: Columns, x: FloatArray, w: FloatArray) -> dict[int, Fraction]:
    """What each unit costs that changes from x to w, by its number; SoundnessError if the attacker cannot do that."""
    before, after = columns.rows(np.stack((x, w)))
    prices = columns.threat.attack_prices(before, before, after)
    if prices is None:
        raise disbelieved(f"a change was found that the attacker cannot make: {x!r} to {w!r}")
    return prices


class Nearer:
    """Where prices are the same wherever a number goes: the nearest place that is as good as the one that was found."""

    def __init__(self, finder: Finder, columns: Columns) -> None:
        self._finder, self._columns = finder, columns

    def row(self, x: FloatArray, w: FloatArray) -> FloatArray:
        """The changed row with one number after another as near to x as can be, at the same price."""
        if self._finder.threat.power is not None:
            return w  # farther is dearer
        columns = self._columns
        local = Local(columns.ensemble, columns.threat, space=self._finder.space_of(columns, x))
        own, best = columns.rows(np.stack((x, w)))
        is_number = ~np.isin(np.arange(len(own)), [f for f, _ in columns.ensemble.categories])
        for f in np.flatnonzero(is_number & differ(own, best) & ~np.isnan(own + best)).tolist():
            best = self._first_as_good(own, best, self._places(local, own, best, f))
        row: FloatArray = columns.own(best[None])[0]
        return row

    @staticmethod
    def _places(local: Local, own: FloatArray, best: FloatArray, f: int) -> FloatArray:
        """Rows with the nearest double of each cell in one column, from x on."""
        before, after = local.space.cells(np.stack((own, best)))
        step = 1 if own[f] < best[f] else -1
        cells = np.arange(before[f], after[f], step) + step
        to, rows, many = (np.repeat(one[None], len(cells), axis=0) for one in (after, best, own))
        to[:, f] = cells
        rows[:, f] = local._doubles(many, many, many, to)[1][:, f]
        between = (rows[:, f] > min(own[f], best[f])) & (rows[:, f] < max(own[f], best[f]))
        return np.asarray(rows[between])

    def _first_as_good(self, own: FloatArray, best: FloatArray, rows: FloatArray) -> FloatArray:
        """The first of the rows that is looked for and costs the same; else the best one that is known."""
        finder, columns = self._finder, self._columns
        price = price_of_attack(columns.threat, own, best, within=False)
        for row in rows[finder.hold_themselves(columns.own(rows))][:MOST_NEARER]:
            prices = columns.threat.attack_prices(own, own, row)
            is_same = prices is not None and sum(prices.values()) == price
            if is_same and finder.holds(columns.own(row[None])[0]):
                return np.asarray(row)
        return best


def total_price(threat: Threat, prices: Iterable[Fraction]) -> float:
    """The Lp norm or the sum of costs."""
    total = sum(prices, Fraction(0))
    return float(total) if threat.power is None else root_at_most(total, threat.power)


class _Diverse:
    """The changes of one row from the cheapest on, each free of all that one before it needs.

    A queue of questions with frozen columns, the cheapest answer first. An answer that changes all columns of an
    earlier change is asked for again, once with each of these columns frozen: one of them stays in every change that is
    still wanted. So the first answer that does not is the cheapest one.
    """

    def __init__(self, finder: Finder, x: FloatArray, first: Change) -> None:
        self._finder, self._x = finder, x
        self._earlier: list[frozenset[int]] = [self._columns(first)]
        self._number: Iterator[int] = itertools.count()
        self._queue = [(first.price, next(self._number), frozenset[int](), first)]
        self._asked: set[frozenset[int]] = {frozenset()}
        self._exact = first.outcome == Outcome.PROVED

    def _columns(self, change: Change) -> frozenset[int]:
        """The numbers of the units that change."""
        return frozenset(changed_units(self._finder.units, self._x, change.row))

    def next(self) -> Change:
        """The next change; its price is inf if there is none."""
        time = self._finder.limits.for_row()
        while self._queue:
            price, _, frozen, change = self._queue[0]
            columns = self._columns(change)
            known = next((some for some in self._earlier if some <= columns), None)
            if known is None:
                self._earlier.append(columns)
                outcome = Outcome.PROVED if self._exact else Outcome.UNKNOWN
                return change._replace(outcome=outcome, least=price if self._exact else 0.0)
            if (limits := time.rest()) is None:
                self._exact = False
                break
            heapq.heappop(self._queue)
            for unit in sorted(known):
                self._ask(frozen | {unit}, limits)
        outcome = Outcome.PROVED if self._exact else Outcome.UNKNOWN
        return Change(self._x, math.inf, outcome, math.inf if self._exact else 0.0)

    def _ask(self, frozen: frozenset[int], limits: Limits) -> None:
        """Asks for the cheapest change with frozen columns, unless that was asked before."""
        if frozen in self._asked:
            return
        self._asked.add(frozen)
        features = itertools.chain.from_iterable(self._finder.units[number].features for number in frozen)
        change = self._finder.frozen(features, limits).changes(self._x[None])[0]
        self._exact &= change.outcome == Outcome.PROVED
        if math.isfinite(change.price):
            heapq.heappush(self._queue, (change.price, next(self._number), frozen, change))
