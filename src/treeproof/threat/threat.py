"""An attacker bound to a model: arrays over its features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.fields_only import FieldsOnly
from treeproof.model.groups import Group
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import FloatArray, add_down, add_up
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.epsilon import Classes
from treeproof.threat.relations import Relations

if TYPE_CHECKING:
    from treeproof.threat.attacker import Attacker


NO_RELATIONS = Relations()


@dataclass(frozen=True, eq=False)
class Threat(FieldsOnly):
    """An attacker bound to a model: arrays over its features. Values stay inside [domain_low, domain_high].

    Moves of a category end at values that the model knows, the rising `ends`.
    """

    low: FloatArray
    high: FloatArray
    cost: npt.NDArray[np.int64]
    budget: int
    domain_low: FloatArray
    domain_high: FloatArray
    power: int | None
    radius: float
    unit: FloatArray
    """What distances are divided by, where `power` is given."""
    ends: tuple[tuple[int, FloatArray], ...] = ()
    """The features that can only be moved to certain doubles, and these."""
    still: tuple[int, ...] = ()
    """Categories that an attacker of all features leaves alone, since no distance moves them."""
    columns: tuple[tuple[int, ColumnMoves], ...] = ()
    """The features that are more than an interval and a cost (or ends), in order, and what can be done to them.

    Their `low` and `high` only tell whether and in which directions anything moves, their `cost` is the least one.
    """
    groups: tuple[tuple[int, ...], ...] = ()
    """Features that share a budget of their own, on top of the overall one; no feature is in two of them."""
    group_budgets: tuple[int, ...] = ()
    alike_groups: tuple[tuple[Group, Classes], ...] = ()
    """One-hot groups whose values may stand for each other in neighbours, and sets of their codes."""
    relations: Relations = NO_RELATIONS
    """What valid rows keep; neighbours and attacked rows are valid."""
    attacker: Attacker | None = None
    """As the user describes it, where there are relations."""
    goal: tuple[int, ...] = ()
    """The classes that the attacker wants to get, in order; none: any other than the row's own."""
    frozen: tuple[int, ...] = ()
    """The features that he could change and must not, in order."""
    backwards: bool = False
    """Whether this leads from attacked rows to those that the attacker may have made them of."""

    @cached_property
    def end_low(self) -> FloatArray:
        """The lowest double that moves of each feature can end at."""
        return self._limits(self.domain_low, 0)

    @cached_property
    def end_high(self) -> FloatArray:
        """The highest double that moves of each feature can end at."""
        return self._limits(self.domain_high, -1)

    def _limits(self, domain: FloatArray, at: int) -> FloatArray:
        """The first (`at` 0) or last (-1) double that moves of each feature can end at."""
        limits: FloatArray = domain.copy()
        for f, ends in self.ends:
            limits[f] = ends[at]
        return limits

    @cached_property
    def away(self) -> npt.NDArray[np.bool_]:
        """Features whose interval excludes 0: they can be moved, but not by a little; `columns` are left out."""
        away = (self.low > 0) | (self.high < 0)
        away[[f for f, _ in self.columns]] = False
        return np.asarray(away)

    @cached_property
    def blanks(self) -> tuple[int, ...]:
        """The features whose values can become missing, or whose missing values can be filled in."""
        return tuple(f for f, moves in self.columns if moves.blank is not None or moves.fill is not None)

    @cached_property
    def is_flat(self) -> bool:
        """Whether a feature costs the same wherever it goes."""
        return self.power is None and all(
            moves.costs is None and not moves.rules and {moves.blank, moves.fill} <= {None, moves.cost}
            for _, moves in self.columns
        )

    @cached_property
    def movable(self) -> npt.NDArray[np.bool_]:
        """Features that the attacker can move at all: there is somewhere to go, and the budget pays for it."""
        affordable = True if self.power is not None else self.cost <= self.budget
        return np.asarray(((self.low != 0) | (self.high != 0)) & affordable)

    @cached_property
    def fillable(self) -> npt.NDArray[np.bool_]:
        """Features whose missing values the attacker can fill in."""
        fillable = np.zeros(len(self.low), dtype=bool)
        fillable[[f for f, moves in self.columns if moves.fill is not None and moves.fill <= self.budget]] = True
        return fillable

    def has_missing(self, X: FloatArray) -> npt.NDArray[np.bool_]:
        """Which rows have missing values that stay missing, in features that the attacker can move."""
        return np.asarray(np.isnan(X[:, self.movable & ~self.fillable]).any(axis=1))

    @cached_property
    def limit(self) -> Fraction:
        """What the prices of one attack may add up to: whole numbers, or powers of distances."""
        return Fraction(self.budget) if self.power is None else self.exact_radius**self.power

    @cached_property
    def exact_radius(self) -> Fraction:
        """The radius of an Lp attacker; if columns have steps, which are decimals, the one that it prints as."""
        has_steps = any(moves.step is not None for _, moves in self.columns)
        return decimal_of(self.radius) if has_steps else Fraction(self.radius)

    @property
    def beyond_plain(self) -> str | None:
        """What is more about the attacker than intervals, costs, a budget and `ANY`, or a radius; None: nothing."""
        if self.columns:
            return self.columns[0][1].kind
        return "groups with budgets" if self.groups else "a goal" if self.goal else None

    def require_plain(self, what: str) -> None:
        """Refuses attackers that are more than that, in the name of something that does not know them."""
        if self.beyond_plain is not None:
            raise InvalidInput(
                f"{what} knows attackers with intervals, costs, a budget and tp.ANY, and this one has "
                f"{self.beyond_plain}",
                argument="attacker",
                way_out="treeproof.verify takes it",
            )

    @cached_property
    def _units(self) -> list[Fraction]:
        return [Fraction(unit) for unit in self.unit.tolist()]

    def price(self, f: int, start: float, end: float) -> Fraction:
        """What moving feature f from one double to another costs an Lp attacker, exactly."""
        assert self.power is not None
        return abs((Fraction(end) - Fraction(start)) / self._units[f]) ** self.power

    def attack_prices(self, x: FloatArray, z: FloatArray, w: FloatArray) -> dict[int, Fraction] | None:
        """What changing each feature that differs from z to w costs, z a neighbour of x; None: he cannot do it."""
        prices = {}
        for f in np.flatnonzero((z != w) & ~(np.isnan(z) & np.isnan(w))).tolist():
            price = self.moves_of(f).price(float(x[f]), float(z[f]), float(w[f]))
            if price is None:
                return None
            prices[f] = price
        return prices

    def can_pay(self, prices: dict[int, Fraction]) -> bool:
        """Whether all budgets allow for prices of features."""
        of_groups = zip(self.groups, self.group_budgets, strict=True)
        return sum(prices.values()) <= self.limit and all(
            sum(prices.get(f, Fraction(0)) for f in group) <= budget for group, budget in of_groups
        )

    def can_do(self, x: FloatArray, z: FloatArray, w: FloatArray) -> bool:
        """Whether the attacker can change z, a neighbour of x, to w and pay for that."""
        prices = self.attack_prices(x, z, w)
        return prices is not None and self.can_pay(prices)

    def idle(self, n_classes: int) -> Threat:
        """An attacker with the same neighbours who changes nothing, and wants the labels that this one does not."""
        goal = tuple(k for k in range(n_classes) if k not in self.goal)
        still = replace(self.freeze(range(len(self.low))), frozen=self.frozen)
        return replace(still, groups=(), group_budgets=(), goal=goal)

    def freeze(self, features: Iterable[int]) -> Threat:
        """The same attacker who must not change some features; neighbours may still differ there.

        Of a one-hot group all columns are frozen, or none.
        """
        frozen = {*self.frozen, *features}
        low, high = self.low.copy(), self.high.copy()
        low[list(frozen)] = high[list(frozen)] = 0.0
        columns = tuple(
            (f, replace(moves, interval=None, ends=None, costs=None, rules=(), blank=None, fill=None))
            if f in frozen
            else (f, moves)
            for f, moves in self.columns
        )
        ends = tuple((f, some) for f, some in self.ends if f not in frozen)
        return replace(self, low=low, high=high, ends=ends, columns=columns, frozen=tuple(sorted(frozen)))

    def inside(self, X: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Boxes of neighbours of X, drawn in to points in columns that have such; low > high: none are."""
        low, high = low.copy(), high.copy()
        for f, moves in self.columns:
            if moves.has_points:
                low[:, f], high[:, f] = moves.points_between(X[:, f], low[:, f], high[:, f])
        return low, high

    def without_limits(self) -> Threat:
        """The same attacker with any budget or radius."""
        if self.power is None:
            endless = tuple((f, replace(moves, budget=None)) for f, moves in self.columns)
            return replace(self, budget=2**52 - 1, groups=(), group_budgets=(), columns=endless)

        def free(moves: ColumnMoves) -> ColumnMoves:
            low, high = moves.interval or (0.0, 0.0)
            ends = (-math.inf if low < 0 else 0.0), (math.inf if high > 0 else 0.0)
            return moves if moves.interval in (None, ends) else replace(moves, interval=ends)

        low, high = np.where(self.low < 0, -np.inf, 0.0), np.where(self.high > 0, np.inf, 0.0)
        return replace(self, low=low, high=high, columns=tuple((f, free(moves)) for f, moves in self.columns))

    def moves_of(self, f: int) -> ColumnMoves:
        """All that can be done to feature f."""
        known = self._moves
        found = known.get(f)
        return known.setdefault(f, self._plain_moves(f)) if found is None else found

    @cached_property
    def _moves(self) -> dict[int, ColumnMoves]:
        """What was asked about so far: the same few features are asked about for each row."""
        return dict(self.columns)

    def _plain_moves(self, f: int) -> ColumnMoves:
        """What can be done to a feature that has no more than an interval and a cost."""
        interval = float(self.low[f]), float(self.high[f])
        ends = dict(self.ends).get(f)
        return ColumnMoves(
            (float(self.domain_low[f]), float(self.domain_high[f])),
            None if interval == (0.0, 0.0) else interval,
            ends=None if ends is None else tuple(ends.tolist()),
            cost=int(self.cost[f]),
            power=self.power,
            unit=float(self.unit[f]),
        )

    def equals(self, other: Threat) -> bool:
        """Whether both can do the same to every feature."""
        mine, others = dict(self.ends), dict(other.ends)
        pairs = [(getattr(self, one.name), getattr(other, one.name)) for one in fields(self) if one.name != "ends"]
        return all(
            np.array_equal(one, another) if isinstance(one, np.ndarray) else one == another for one, another in pairs
        ) and (mine.keys() == others.keys() and all(np.array_equal(mine[f], others[f]) for f in mine))

    def neighbourhood(self, X: FloatArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest double of N(x) for each entry of X (n, n_features); NaN stays NaN."""
        low, high = (add_up(X, -epsilon), add_down(X, epsilon)) if epsilon.any() else (X, X)
        low, high = np.maximum(low, self.domain_low), np.minimum(high, self.domain_high)
        for f, moves in self.columns:
            if moves.has_points:
                low[:, f], high[:, f] = moves.neighbours(X[:, f], float(epsilon[f]))
        for group, classes in self.alike_groups:
            members = list(group.features)
            low[:, members], high[:, members] = X[:, members], X[:, members]
            for codes in classes if epsilon[members].any() else ():
                values = group.vectors[np.array(codes, dtype=np.intp)]
                rows = (X[:, None, members] == values).all(axis=2).any(axis=1)
                low[np.ix_(rows, members)], high[np.ix_(rows, members)] = values.min(axis=0), values.max(axis=0)
        return low, high

    def with_alike(self, alike: Mapping[int, Classes]) -> Threat:
        """The same attacker where values of some categories may stand for each other in neighbours."""
        if not alike:
            return self
        columns = dict(self.columns) | {f: replace(self.moves_of(f), alike=classes) for f, classes in alike.items()}
        ends = tuple((f, some) for f, some in self.ends if f not in alike)
        return replace(self, ends=ends, columns=tuple(sorted(columns.items())))

    def reach(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest double that a move from [low, high] can end at, for each entry."""
        below = np.maximum(add_up(low, self.low), self.end_low)
        return below, np.minimum(add_down(high, self.high), self.end_high)

    def check_domain(self, X: FloatArray, ensemble: Ensemble) -> None:
        """Refuses rows that themselves lie outside the domain."""
        outside = (self.domain_low > X) | (self.domain_high < X)
        if outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            domain = f"({self.domain_low[column]}, {self.domain_high[column]})"
            raise InvalidInput(
                f"row {row}, column {ensemble.feature_name(column)}: {X[row, column]} lies outside the domain "
                f"{domain}; widen it there, in domain= or in the file"
            )
