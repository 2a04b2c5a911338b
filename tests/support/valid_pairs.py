"""Brute force where rows must be valid: every neighbour, everything that an attacker makes of it, by definition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

import treeproof as tp
from tests.support.relation_questions import Question
from tests.support.stated_relations import OneHot, is_valid, row_of
from treeproof.check.columns import Column
from treeproof.threat.moves import Values

MOST_POINTS = 14
"""Of a column that is not a list of values or a grid."""
MOST_NEIGHBOURS = 150


@dataclass(frozen=True)
class Slot:
    """A column, or the columns of a group that the attacker names: what is there, and what may be."""

    features: tuple[int, ...]
    keys: frozenset[str]
    near: list[tuple[float, ...]]
    """What neighbours have there; the row's own first."""
    points: list[tuple[float, ...]]
    prices: list[list[Fraction | None]]
    """Per value of a neighbour and point what the change costs."""
    complete: bool
    """Whether there are no other values."""


class Pairs:
    """All pairs (z, w) of a neighbour of a row and what becomes of it."""

    def __init__(self, asked: Question, x: list[float], random: Random) -> None:
        self.asked, self.x, self._random = asked, x, random
        # What is too dear is left out where budgets are looked at.
        self._columns = [replace(column, budget=None) for column in asked.columns]
        self.slots = [*self._slots()]
        self.complete = all(slot.complete for slot in self.slots)
        self._validity: dict[int, bool] = {}

    def _slots(self) -> Iterator[Slot]:
        asked = self.asked
        members = set(asked.named.names) if asked.named is not None else set()
        for f, name in enumerate(asked.names):
            if name not in members:
                yield self._of_column(f, name)
        if asked.named is not None:
            column, vectors = self._columns[len(asked.names)], asked.named.vectors
            own = self._own(asked.named)
            code = float(vectors.index(own)) if own in vectors else float(len(vectors))
            near = self._alike
            starts = [code, *(float(vectors.index(vector)) for vector in near[1:])]
            prices = [[column.price(code, start, float(end)) for end in range(len(vectors))] for start in starts]
            if own not in vectors:
                vectors, prices = [*vectors, own], [[*prices[0], Fraction(0)]]
            assert asked.named.group is not None
            features = tuple(asked.names.index(name) for name in asked.named.names)
            yield Slot(features, frozenset([asked.named.group]), near, vectors, prices, complete=True)

    @property
    def _group(self) -> OneHot | None:
        return next((one for one in self.asked.relations if isinstance(one, OneHot)), None)

    def _own(self, group: OneHot) -> tuple[float, ...]:
        return tuple(self.x[self.asked.names.index(name)] for name in group.names)

    @cached_property
    def _alike(self) -> list[tuple[float, ...]]:
        """What the columns of the group are in neighbours: as in the row, or what ε lets stand for that."""
        group = self._group
        if group is None:
            return []
        own, given = self._own(group), self.asked.epsilon.get(group.group or "")
        sets = [group.values] if given == tp.ANY else [one.values for one in given] if isinstance(given, list) else []
        sets += [given.values] if isinstance(given, Values) else []
        vector_of = dict(zip(group.values, group.vectors, strict=True))
        found = [[vector_of[value] for value in one] for one in sets]
        return [own, *(vector for one in found if own in one for vector in one if vector != own)]

    def _of_column(self, f: int, name: str) -> Slot:
        column, x, size = self._columns[f], self.x[f], self.asked.sizes[f]
        points, complete = self._points(column, f, x, size)
        near = [x, *(each for each in points if each != x and not math.isnan(each) and column.is_near(x, each, size))]
        if self._group is not None and name in self._group.names:
            near = list(dict.fromkeys(vector[self._group.names.index(name)] for vector in self._alike))
        points = list(dict.fromkeys([*near, *points]))
        prices = [[column.price(x, start, end) for end in points] for start in near]
        used = [k for k in range(len(points)) if any(row[k] is not None for row in prices)]
        prices = [[row[k] for k in used] for row in prices]
        return Slot((f,), frozenset([name]), [(z,) for z in near], [(points[k],) for k in used], prices, complete)

    def _points(self, column: Column, f: int, x: float, size: float) -> tuple[list[float], bool]:
        """Values that matter, and whether they are all."""
        found = set(self._listed(column))
        gone = [math.nan] if column.blank is not None or math.isnan(x) else []
        low, high = column.domain
        if column.is_category:
            category = dict(self.asked.ensemble.categories)[f]
            known = category.known().tolist()
            found |= {*known, *([float(len(known))] if category.coded else [])}
            return [*(found - {x}), *gone], True
        moves = column.reach != (0.0, 0.0) or bool(column.rules)
        low, high = max(low, self.asked.low), min(high, self.asked.high)
        fills = math.isnan(x) and column.fill is not None and column.ends is None
        is_list = column.ends is not None or column.matrix is not None
        if column.step is not None:
            origin = Fraction(0) if math.isnan(x) else Fraction(repr(x))
            first, last = (math.floor((Fraction(end) - origin) / column.step) for end in (low, high))
            grid = (float(origin + k * column.step) for k in range(first, last + 2))
            found |= {value for value in grid if low <= value <= high}
            return [*sorted(found - {x}), *gone], True
        if math.isnan(x):
            complete = not fills
        else:
            points_only = all(rule.least == rule.most for rule in column.rules)
            complete = size == 0 and (is_list or not moves or (bool(column.rules) and points_only))
        if math.isnan(x) and not fills:
            return [*found, *gone], complete
        if column.rules and not math.isnan(x):
            half = self.asked.unit / 2
            some = {float(Fraction(repr(x)) + k * half) for k in range(-40, 41)}
            found |= {value for value in some if low <= value <= high}
        if not complete:
            found |= set(self._continuous(column, f, x, size, low, high))
        return [*sorted(found - {x}), *gone], complete

    def _listed(self, column: Column) -> list[float]:
        return [*(column.ends or ()), *(end for _, end in column.matrix or ())]

    def _continuous(self, column: Column, f: int, x: float, size: float, low: float, high: float) -> list[float]:
        """Thresholds and what is next to them, ends of intervals, and points of a lattice on which relations end."""
        half, cuts = self.asked.unit / 2, self.asked.ensemble.grid.cuts_of(f).tolist()
        lattice = [float(k * half) for k in range(math.floor(low / float(half)), math.ceil(high / float(half)) + 1)]
        found = [*cuts, *(math.nextafter(cut, math.inf) for cut in cuts), *lattice]
        if not math.isnan(x):
            found += [x + way for way in (size, -size, *column.reach) if math.isfinite(way)]
        found = [value for value in dict.fromkeys(found) if low <= value <= high]
        return self._random.sample(found, min(len(found), MOST_POINTS))

    # --- what all slots make together --------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(slot.points) for slot in self.slots)

    @property
    def n_points(self) -> int:
        return math.prod(self.shape)

    def _rows(self, picked: np.ndarray) -> np.ndarray:
        """Rows by their numbers among all combinations of points."""
        rows = np.empty((len(picked), len(self.x)))
        for slot, places in zip(self.slots, np.unravel_index(picked, self.shape), strict=True):
            rows[:, slot.features] = np.array(slot.points)[places]
        return rows

    @cached_property
    def _labels(self) -> np.ndarray:
        return self.asked.ensemble.predict_index(self._rows(np.arange(self.n_points)))

    def is_valid(self, row: Any) -> bool:
        return is_valid(self.asked.relations, row_of(row, self.asked.names, self.asked.texts), self.asked.stepped)

    def _is_valid_point(self, number: int) -> bool:
        if number not in self._validity:
            self._validity[number] = self.is_valid(self._rows(np.array([number]))[0])
        return self._validity[number]

    def neighbours(self) -> tuple[list[tuple[int, ...]], bool]:
        """Which value each slot of a neighbour has, the row itself first; and whether these are all neighbours."""
        sizes = [len(slot.near) for slot in self.slots]
        total = math.prod(sizes)
        numbers = (
            range(total) if total <= MOST_NEIGHBOURS else [0, *self._random.sample(range(1, total), MOST_NEIGHBOURS)]
        )
        found = []
        for number in numbers:
            places = tuple(int(place) for place in np.unravel_index(number, sizes))
            row = self.neighbour(places)
            if number == 0 or (self.is_valid(row) and self._is_alike(row)):
                found.append(places)
        return found, total <= MOST_NEIGHBOURS

    def _is_alike(self, row: list[float]) -> bool:
        names = () if self._group is None else self._group.names
        return not names or tuple(row[self.asked.names.index(name)] for name in names) in self._alike

    def neighbour(self, places: tuple[int, ...]) -> list[float]:
        row = list(self.x)
        for slot, place in zip(self.slots, places, strict=True):
            for f, value in zip(slot.features, slot.near[place], strict=True):
                row[f] = value
        return row

    def _totals(self, places: tuple[int, ...], limited: bool) -> tuple[np.ndarray, int]:
        """What every point costs from a neighbour, -1 where there is no way; and the denominator of these numbers."""
        attacker = self.asked.attacker
        prices = [slot.prices[place] for slot, place in zip(self.slots, places, strict=True)]
        limit = self._limit if limited else None
        known = [price for each in prices for price in each if price is not None] + ([] if limit is None else [limit])
        scale = math.lcm(*(price.denominator for price in known))
        kind: Any = np.int64 if sum(map(abs, known), Fraction(0)) * scale < 2**60 else object
        total, possible = np.zeros((), dtype=kind), np.ones((), dtype=bool)
        groups = [np.zeros((), dtype=kind) for _ in attacker.groups]
        for slot, own in zip(self.slots, prices, strict=True):
            whole = np.array([0 if price is None else int(price * scale) for price in own], dtype=kind)
            total = np.add.outer(total, whole)
            possible = np.logical_and.outer(possible, np.array([price is not None for price in own]))
            for k, group in enumerate(attacker.groups):
                groups[k] = np.add.outer(groups[k], whole if slot.keys & set(group.columns) else whole * 0)
        if limit is not None:
            possible &= (total <= int(limit * scale)).astype(bool)
        if limited:
            for spent, group in zip(groups, attacker.groups, strict=True):
                possible &= (spent <= group.budget * scale).astype(bool)
        return np.where(possible, total, -1).ravel(), scale

    @property
    def _limit(self) -> Fraction | None:
        attacker = self.asked.attacker
        if attacker.power is not None:
            in_decimals = any(column.step is not None for column in self._columns)
            return Fraction(repr(attacker.radius) if in_decimals else attacker.radius) ** attacker.power
        return None if attacker.budget is None else Fraction(attacker.budget)

    def _wanted(self, label: int) -> np.ndarray:
        goal = [self.asked.ensemble.classes.tolist().index(each) for each in self.asked.attacker.goal]
        if not goal:
            return np.asarray(self._labels != label)
        return np.isin(self._labels, goal) & (label not in goal)

    def reached(self, places: tuple[int, ...]) -> Iterator[list[float]]:
        """All valid rows that the attacker makes of a neighbour."""
        totals, _ = self._totals(places, limited=True)
        for number in np.flatnonzero(totals >= 0).tolist():
            if self._is_valid_point(number):
                yield self._rows(np.array([number]))[0].tolist()

    def attack(self, places: tuple[int, ...]) -> list[float] | None:
        """A valid row with another label that the attacker makes of a neighbour."""
        z = self.neighbour(places)
        label = int(self.asked.ensemble.predict_index(np.array([z]))[0])
        totals, _ = self._totals(places, limited=True)
        for number in np.flatnonzero((totals >= 0) & self._wanted(label)).tolist():
            if self._is_valid_point(number):
                return list(self._rows(np.array([number]))[0])
        return None

    def cheapest(self, within: bool) -> Fraction | None:
        """The price of the cheapest attack on the row itself, distances to the power of p; None if there is none."""
        itself = (0,) * len(self.slots)
        label = int(self.asked.ensemble.predict_index(np.array([self.x]))[0])
        totals, scale = self._totals(itself, limited=within)
        numbers = np.flatnonzero((totals >= 0) & self._wanted(label))
        for number in numbers[np.argsort(totals[numbers], kind="stable")].tolist():
            if self._is_valid_point(number):
                return Fraction(int(totals[number]), scale)
        return None

    def price_of(self, w: list[float]) -> Fraction | None:
        """What it costs to make this row of x; None if it cannot be done."""
        total = Fraction(0)
        for slot in self.slots:
            if len(slot.features) > 1:
                end = tuple(w[f] for f in slot.features)
                price = slot.prices[0][slot.points.index(end)] if end in slot.points else None
            else:
                f = slot.features[0]
                price = self._columns[f].price(self.x[f], self.x[f], w[f])
            if price is None:
                return None
            total += price
        return total
