"""All that can become of one row of a tiny model, for `tests/support/explained.py`: by enumeration, with exact doubles.

A column of numbers is cut into pieces at the thresholds of the model and where relations turn. Nothing tells two
doubles of a piece apart, so its ends stand for all of it; where columns are compared with each other, a few doubles at
each end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from tests.support import oracles
from tests.support.explained import Explained, Inflation, Made, Units
from tests.support.fast_oracle import TooManyPairs, labels_of_cells
from tests.support.oracles import OracleAttacker, Span
from tests.support.relation_questions import Question
from tests.support.stated_relations import If, Negated, OneHot, Several, Stated, Sums, is_valid, row_of
from tests.support.valid_pairs import Pairs
from treeproof.check.columns import Column
from treeproof.model.ensemble import Ensemble

MOST_ROWS = 60_000
"""More rows than that are not enumerated."""
MOST_CELLS = 400_000

Value = tuple[float, ...]


# --- labels and rows -------------------------------------------------------------------------------------------------


class Labels:
    """The labels of rows, out of a table of all cells."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self._cuts = [np.array(oracles.thresholds(ensemble, f)) for f in range(ensemble.n_features)]
        if math.prod(len(cuts) + 2 for cuts in self._cuts) > MOST_CELLS:
            raise TooManyPairs
        self._table = labels_of_cells(ensemble)
        self._names = np.array(ensemble.classes.tolist(), dtype=object)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """The label of each row."""
        cells = []
        for cuts, values in zip(self._cuts, rows.T, strict=True):
            below = np.searchsorted(cuts, values) if len(cuts) else np.zeros(len(values), dtype=np.int64)
            cells.append(np.where(np.isnan(values), len(cuts) + 1, below))
        return np.asarray(self._names[self._table[tuple(cells)]])

    def of_row(self, row: Iterable[float]) -> Any:
        """The label of one row."""
        return self.of(np.array([list(row)]))[0]


def product_rows(units: Sequence[Sequence[int]], values: Sequence[Sequence[Value]]) -> np.ndarray:
    """One row for each choice of a value per unit, the first choices first."""
    shape = [len(each) for each in values]
    if math.prod(shape) > MOST_ROWS:
        raise TooManyPairs
    places = np.indices(shape).reshape(len(shape), -1)
    rows = np.empty((places.shape[1], sum(map(len, units))))
    for unit, each, at in zip(units, values, places, strict=True):
        rows[:, list(unit)] = np.array(each)[at]
    return rows


def moved_units(units: Sequence[Sequence[int]], x: Sequence[float], row: Sequence[float]) -> Units:
    """The units where two rows differ; missing values do not differ."""
    differ = [not (a == b or (math.isnan(a) and math.isnan(b))) for a, b in zip(x, row, strict=True)]
    return frozenset(number for number, unit in enumerate(units) if any(differ[f] for f in unit))


def units_of(names: Sequence[str], relations: Iterable[Stated]) -> tuple[tuple[int, ...], ...]:
    """Columns, with those of a declared one-hot group as one, in the order of their first ones."""
    behind: dict[int, tuple[int, ...]] = {}
    for group in relations:
        if isinstance(group, OneHot):
            members = tuple(names.index(name) for name in group.names)
            behind |= dict.fromkeys(members, members)
    return tuple(dict.fromkeys(behind.get(f, (f,)) for f in range(len(names))))


# --- pieces of columns of numbers ------------------------------------------------------------------------------------


def sums_of(relation: Stated) -> Iterator[Sums]:
    """The comparisons of sums that a relation is made of."""
    match relation:
        case Sums():
            yield relation
        case Negated(part):
            yield from sums_of(part)
        case Several(parts):
            for part in parts:
                yield from sums_of(part)
        case If(condition, conclusion):
            yield from sums_of(condition)
            yield from sums_of(conclusion)


@dataclass(frozen=True)
class Pieces:
    """Where the columns of numbers of a model are cut."""

    ensemble: Ensemble
    relations: Sequence[Stated] = ()
    x: Sequence[float] = ()
    further: Mapping[int, Collection[float]] | None = None
    """Cuts that somebody else needs."""

    @cached_property
    def names(self) -> list[str]:
        return list(self.ensemble.feature_names or ())

    @cached_property
    def _bits(self) -> set[str]:
        return {name for one in self.relations if isinstance(one, OneHot) for name in one.names}

    @cached_property
    def _sums(self) -> list[Sums]:
        return [one for relation in self.relations for one in sums_of(relation)]

    def _free(self, one: Sums) -> list[str]:
        return [name for _, name in one.terms if name not in self._bits]

    @cached_property
    def linked(self) -> set[str]:
        """Columns that are compared with each other."""
        return {name for one in self._sums if len(self._free(one)) > 1 for name in self._free(one)}

    @cached_property
    def complete(self) -> bool:
        """Whether the ends of pieces stand for everything: no sums of several columns but plain comparisons."""
        return all(
            len(self._free(one)) < 2
            or (len(one.terms) == 2 and {factor for factor, _ in one.terms} == {1, -1} and Fraction(one.bound) == 0)
            for one in self._sums
        )

    def _turns(self, name: str) -> Iterator[float]:
        """Doubles at which a relation may turn that says something about one column, whatever the bits are."""
        for one in self._sums:
            if self._free(one) != [name]:
                continue
            factor = next(factor for factor, other in one.terms if other == name)
            others = [(0, other_factor) for other_factor, other in one.terms if other != name]
            for bits in itertools.product(*others):
                exact = (Fraction(one.bound) - sum(bits)) / factor
                yield from (oracles.double_at_most(exact), oracles.double_at_least(exact), float(exact))

    @cached_property
    def _cuts(self) -> list[list[float]]:
        found = []
        for f in range(self.ensemble.n_features):
            cuts = {*oracles.thresholds(self.ensemble, f), *(self.further or {}).get(f, ())}
            for turn in self._turns(self.names[f]) if self.names else ():
                cuts |= {turn, math.nextafter(turn, -math.inf)}
            found.append(cuts)
        links = [self.names.index(name) for name in self.linked]
        own = {self.x[f] for f in links if not math.isnan(self.x[f])}
        shared = set().union(*(found[f] for f in links), own, (math.nextafter(one, -math.inf) for one in own))
        return [sorted(shared | cuts if f in links else cuts) for f, cuts in enumerate(found)]

    def spans(self, f: int, span: Span) -> list[Span]:
        """A range of doubles in pieces."""
        span = span.meet(oracles.taken(self.ensemble, f))
        cuts = [cut for cut in self._cuts[f] if span.first <= cut < span.last]
        firsts = [span.first, *(math.nextafter(cut, math.inf) for cut in cuts)]
        return [Span(*ends) for ends in zip(firsts, [*cuts, span.last], strict=True)] if not span.empty else []

    def doubles(self, f: int, span: Span) -> list[float]:
        """Doubles of a range that stand for all of it, in order."""
        if self.names and self.names[f] in self._bits:
            return [bit for bit in (0.0, 1.0) if span.first <= bit <= span.last]
        depth = len(self.linked) if self.names and self.names[f] in self.linked else 1
        found: set[float] = set()
        for piece in self.spans(f, span):
            low, high = piece
            for _ in range(depth):
                found |= {each for each in (low, high) if piece.first <= each <= piece.last}
                low, high = math.nextafter(low, math.inf), math.nextafter(high, -math.inf)
        return sorted(found)


# --- anybody ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Anybody:
    """Everything in the domain that a row can become: all numbers, all values that the model knows.

    What is missing in the row may stay so; other values go missing only in the columns `missing`.
    """

    ensemble: Ensemble
    x: tuple[float, ...]
    domain: Mapping[int, tuple[float, float]]
    missing: Collection[int] = ()
    relations: Sequence[Stated] = ()

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self.ensemble, self.relations, self.x)

    @property
    def complete(self) -> bool:
        """Whether nothing is left out."""
        return self._pieces.complete

    @cached_property
    def names(self) -> list[str]:
        return list(self.ensemble.feature_names or map(str, range(self.ensemble.n_features)))

    @cached_property
    def units(self) -> tuple[tuple[int, ...], ...]:
        return units_of(self.names, self.relations)

    @cached_property
    def own(self) -> list[Value]:
        return [tuple(self.x[f] for f in unit) for unit in self.units]

    @cached_property
    def values(self) -> list[list[Value]]:
        """What each unit may be: numbers rising, categories in the order of known values; then the rest."""
        return [self._values(unit) for unit in self.units]

    def _values(self, unit: tuple[int, ...]) -> list[Value]:
        for group in self.relations:
            if isinstance(group, OneHot) and tuple(map(self.names.index, group.names)) == unit:
                return list(group.vectors)
        (f,) = unit
        category = dict(self.ensemble.categories).get(f)
        if category is None:
            low, high = self.domain.get(f, (-math.inf, math.inf))
            doubles = self._pieces.doubles(f, Span(max(low, -oracles.LARGEST), min(high, oracles.LARGEST)))
        else:
            doubles = [float(code) for code in range(len(category.values))] if category.coded else [*category.values]
        own = self.x[f]
        if math.isnan(own) or f in self.missing:
            doubles = [*doubles, math.nan]
        if not math.isnan(own) and own not in doubles:
            doubles = sorted([*doubles, own]) if category is None else [*doubles, own]
        return [(float(value),) for value in doubles]

    @cached_property
    def labels(self) -> Labels:
        return Labels(self.ensemble)

    @cached_property
    def label(self) -> Any:
        return self.labels.of_row(self.x)

    @cached_property
    def _texts(self) -> dict[str, tuple[Any, ...]]:
        return {self.names[f]: each.values for f, each in self.ensemble.categories if each.coded}

    def is_valid(self, row: Sequence[float]) -> bool:
        """Whether a row keeps the relations."""
        named = row_of(row, self.names, self._texts)
        return not self.relations or is_valid(self.relations, named, frozenset())

    def flips(self, values: Sequence[Sequence[Value]]) -> bool:
        """Whether some valid row with such values has another label."""
        rows = product_rows(self.units, values)
        others = rows[self.labels.of(rows) != self.label]
        return any(self.is_valid(row) for row in others.tolist())

    @cached_property
    def explained(self) -> Explained:
        rows = product_rows(self.units, self.values)
        labels = self.labels.of(rows).tolist()
        made: dict[Units, Made] = {}
        for row, label in zip(rows.tolist(), labels, strict=True):
            moved = moved_units(self.units, self.x, row)
            if label != self.label and moved not in made and self.is_valid(row):
                made[moved] = Made(moved, 0, label, tuple(row))
        return Explained(len(self.units), self.label, list(made.values()))

    @cached_property
    def inflation(self) -> Inflation:
        categories = dict(self.ensemble.categories)
        numbers = [n for n, unit in enumerate(self.units) if len(unit) == 1 and unit[0] not in categories]
        numbers = [n for n in numbers if self.units[n] not in self._groups]
        missing = [n for n, own in enumerate(self.own) if any(map(math.isnan, own))]
        return Inflation(self.own, self.values, numbers, self.flips, missing)

    @cached_property
    def _groups(self) -> set[tuple[int, ...]]:
        groups = [one for one in self.relations if isinstance(one, OneHot)]
        return {tuple(map(self.names.index, group.names)) for group in groups}


# --- attackers with intervals, costs and budgets, or a radius --------------------------------------------------------


def plain_rows(ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], labels: Labels) -> Explained:
    """What an attacker of `tests/support/oracles.py` makes of a row: one row for each vector of cells."""
    zero = [0.0] * ensemble.n_features
    options = [oracles.moves(ensemble, attacker, x, zero, f) for f in range(ensemble.n_features)]
    if math.prod(map(len, options)) > MOST_ROWS:
        raise TooManyPairs
    made = []
    for chosen in itertools.product(*options):
        price = sum((move.cost for move in chosen), 0)
        if price <= attacker.limit:
            moved = frozenset(f for f, move in enumerate(chosen) if move.w != move.z)
            made.append(Made(moved, price, _label(ensemble, labels, [move.w for move in chosen])))
    return Explained(ensemble.n_features, labels.of_row(x), made)


def _label(ensemble: Ensemble, labels: Labels, cells: Sequence[int]) -> Any:
    return labels.of_row(
        math.nan if cell == oracles.NAN_CELL else oracles.cells_of(ensemble, f)[cell].last
        for f, cell in enumerate(cells)
    )


def plain_flips(
    ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float], labels: Labels
) -> set[Units]:
    """What the attacker changes where he changes the label of a neighbour of x."""
    options = [oracles.moves(ensemble, attacker, x, eps, f) for f in range(ensemble.n_features)]
    if math.prod(map(len, options)) > MOST_ROWS:
        raise TooManyPairs
    flips = set()
    for z, w in oracles.attacks(ensemble, attacker, x, eps):
        if _label(ensemble, labels, z) != _label(ensemble, labels, w):
            flips.add(frozenset(f for f in range(len(z)) if z[f] != w[f]))
    return flips


def plain_resilient(
    ensemble: Ensemble,
    attacker: OracleAttacker,
    x: Sequence[float],
    eps: Sequence[float],
    labels: Labels,
) -> list[tuple[Made, list[Any]]]:
    """What the attacker makes of x, each with the labels of all its neighbours.

    Which cells the neighbours of a double are in changes where it is ε away from the end of a cell. Between these, and
    within a cell, nothing differs but the distance, and for that the ends of a piece are enough.
    """
    options = [_resilient_options(ensemble, attacker, x, eps, f) for f in range(ensemble.n_features)]
    if math.prod(map(len, options)) > MOST_ROWS // 10:
        raise TooManyPairs
    found, around = [], {}
    for chosen in itertools.product(*options):
        price = sum((price for price, _, _, _ in chosen), 0)
        if price > attacker.limit:
            continue
        near = tuple(cells for _, _, _, cells in chosen)
        if near not in around:
            around[near] = list({_label(ensemble, labels, cells) for cells in itertools.product(*near)})
        moved = frozenset(f for f, (_, moves, _, _) in enumerate(chosen) if moves)
        label = labels.of_row(value for _, _, value, _ in chosen)
        found.append((Made(moved, price, label, tuple(value for _, _, value, _ in chosen)), around[near]))
    return found


def _resilient_options(
    ensemble: Ensemble, attacker: OracleAttacker, x: Sequence[float], eps: Sequence[float], f: int
) -> list[tuple[Any, bool, float, tuple[int, ...]]]:
    """What a column may become: the price, whether it moves, the double, and the cells of its neighbours."""
    if math.isnan(x[f]):
        return [(0, False, math.nan, (oracles.NAN_CELL,))]
    size, cells = eps[f], oracles.cells_of(ensemble, f)
    domain = oracles._domain(attacker, f)
    turns: list[float] = []
    for cell in cells:
        cell = cell.meet(domain)
        if cell.empty or math.isinf(size):
            continue
        first = oracles.double_at_least(Fraction(cell.first) - Fraction(size))
        last = oracles.double_at_most(Fraction(cell.last) + Fraction(size))
        turns += [math.nextafter(first, -math.inf), last]
    pieces = Pieces(ensemble, further={f: [turn for turn in turns if math.isfinite(turn)]})
    lo, hi = attacker.intervals[f]
    ends: set[float] = {x[f]}
    if (lo, hi) != (0.0, 0.0):
        reach = (-math.inf, math.inf) if attacker.p is not None else (lo, hi)
        ends |= set(pieces.doubles(f, oracles.shifted(Span(x[f], x[f]), *reach).meet(domain)))
    options = []
    for value in sorted(ends):
        moves = value != x[f]
        near = oracles.neighbours(attacker, [value] * len(x), eps, f)
        met = tuple(number for number, cell in enumerate(cells) if not cell.meet(near).empty)
        price: Any = 0
        if moves and attacker.p is not None:
            price = attacker.power(f, Fraction(value) - Fraction(x[f]))
        elif moves:
            price = attacker.costs[f]
        options.append((price, moves, value, met))
    return options


# --- attackers of every kind, with relations -------------------------------------------------------------------------


class AllPairs(Pairs):
    """Everything that the attacker of a question makes of a row; columns of numbers by the ends of pieces."""

    def __init__(self, asked: Question, x: list[float]) -> None:
        self._pieces = Pieces(asked.ensemble, asked.relations, x)
        super().__init__(replace(asked, epsilon={}), x, Random(0))
        self.units = units_of(asked.names, asked.relations)
        self.labels = Labels(asked.ensemble)
        by_distance = asked.attacker.power is not None and bool(self._pieces.linked)
        steps = set(self._pieces.linked) <= asked.stepped
        self.complete = self.complete and (steps or (self._pieces.complete and not by_distance))

    def _points(self, column: Column, f: int, x: float, size: Any) -> tuple[list[float], bool]:
        is_list = column.ends is not None or column.matrix is not None or column.step is not None
        if column.is_category or is_list or column.rules:
            return super()._points(column, f, x, size)
        found = [math.nan] if column.blank is not None or math.isnan(x) else []
        domain = Span(*column.domain)
        if math.isnan(x):
            found += self._pieces.doubles(f, domain) if column.fill is not None else []
        elif column.reach != (0.0, 0.0):
            low, high = column.reach
            if column.power is not None:
                low, high = (-math.inf if low < 0 else 0.0), (math.inf if high > 0 else 0.0)
            reach = oracles.shifted(Span(x, x), low, high).meet(domain)
            found += [value for value in self._pieces.doubles(f, reach) if value != x]
        return found, True

    def explained(self, limited: bool = True, every: bool = False) -> Explained:
        """Valid rows, within the budgets or not: all of them, or a cheapest for each label and set of moved units."""
        if self.n_points > MOST_ROWS:
            raise TooManyPairs
        totals, scale = self._totals((0,) * len(self.slots), limited)
        numbers = np.flatnonzero(totals >= 0)
        rows = self._rows(numbers)
        labels = self.labels.of(rows).tolist()
        own = self.labels.of_row(self.x)
        made = []
        known: set[tuple[Units, Any]] = set()
        for at in np.argsort(totals[numbers], kind="stable").tolist():
            row, number = rows[at].tolist(), int(numbers[at])
            key = moved_units(self.units, self.x, row), labels[at]
            if (every or key not in known) and self._is_valid_point(number):
                known.add(key)
                made.append(Made(key[0], Fraction(int(totals[number]), scale), labels[at], tuple(row)))
        return Explained(len(self.units), own, made, frozenset(self.asked.attacker.goal))


class Around(Pairs):
    """The neighbours of a row of a question, each piece of them by its ends."""

    def __init__(self, asked: Question, row: Sequence[float], labels: Labels) -> None:
        self._pieces = Pieces(asked.ensemble, asked.relations, row)
        self._known_labels = labels
        super().__init__(asked, list(row), Random(0))

    @property
    def complete_near(self) -> bool:
        """Whether no neighbour is left out."""
        return set(self._pieces.linked) <= self.asked.stepped or self._pieces.complete

    def _continuous(self, column: Column, f: int, x: float, size: Any, low: float, high: float) -> list[float]:
        if math.isnan(x) or not size:
            return []
        return self._pieces.doubles(f, oracles.shifted(Span(x, x), -size, size).meet(Span(*column.domain)))

    def labels_near(self) -> set[Any]:
        """The labels of all valid neighbours."""
        rows = product_rows([slot.features for slot in self.slots], [slot.near for slot in self.slots])
        labels = self._known_labels.of(rows)
        found = set()
        for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
            if label not in found and self._is_alike(row) and self.is_valid(row):
                found.add(label)
        return found
