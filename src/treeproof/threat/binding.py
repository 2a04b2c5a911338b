"""Attackers bound to a model: arrays over its features, and what can be done to single columns."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.per_feature import PerFeature, as_number
from treeproof.numbers.decimals import decimal_of, plain_decimal
from treeproof.numbers.doubles import FloatArray, next_up
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.moves import ANY, CostMatrix, Move, Rule, Steps, Values
from treeproof.threat.rule_chains import BoundRule
from treeproof.threat.threat import Threat

if TYPE_CHECKING:
    from treeproof.threat.attacker import Attacker

MAX_TOTAL = 2**52
"""Of the costs of all features: below it, sums of costs are exact as doubles, and so is half of 1 less."""


def bind_attacker(attacker: Attacker, ensemble: Ensemble) -> Threat:
    """The attacker as arrays over the features of one model."""
    if attacker.n_features not in (None, ensemble.n_features):
        raise InvalidInput(
            f"attacker has {attacker.n_features} features, model has {ensemble.n_features}; "
            "give one interval for all features, or one per feature"
        )
    bound = _Binding(attacker, ensemble)
    low, high = bound.domain
    columns = tuple((f, moves) for f in range(ensemble.n_features) if (moves := bound.column(f)) is not None)
    reach, cost = bound.reach.copy(), bound.flat_cost
    dearest: list[int | None] = cost.tolist()
    for f, moves in columns:
        reach[f] = directions(moves)
        cost[f], dearest[f] = price_range(moves)
    total = sum(most for most in dearest if most is not None)
    if total >= MAX_TOTAL:
        raise InvalidInput(f"all costs together must stay below {MAX_TOTAL}, got {total}; scale them down")
    most = MAX_TOTAL - 1 if None in dearest else total
    listed = {f for f, _ in columns}
    return Threat(
        low=reach[:, 0].copy(),
        high=reach[:, 1].copy(),
        cost=cost,
        budget=most if attacker.budget is None else min(attacker.budget, most),
        domain_low=np.array(low),
        domain_high=np.array(high),
        power=attacker.power,
        radius=attacker.radius,
        unit=bound.unit,
        ends=tuple(
            (f, bound.known(f, attacker.unseen)) for f in bound.categories if (reach[f] != 0).any() and f not in listed
        ),
        still=bound.still,
        columns=columns,
        groups=bound.groups(),
        group_budgets=tuple(group.budget for group in attacker.groups),
        goal=_goal(attacker, ensemble),
    )


def with_own_goal(attacker: Attacker, ensemble: Ensemble) -> Attacker:
    """The same attacker, whose goal names classes as the model does: 1 where he says True, which Python calls equal."""
    return attacker.with_goal(ensemble.classes[list(_goal(attacker, ensemble))]) if attacker.goal else attacker


def directions(moves: ColumnMoves) -> tuple[float, float]:
    """An interval that tells in which directions a column can be changed; (0, 0) if it cannot."""
    has_prices = moves.blank is not None or moves.fill is not None
    if moves.ends is not None or moves.costs is not None or has_prices:
        return ANY if moves.interval is not None or moves.rules or has_prices else (0.0, 0.0)
    low, high = moves.interval or (0.0, 0.0)
    for rule in moves.rules:
        if rule.change is None:
            return ANY
        low = -math.inf if rule.change[0] < 0 else low
        high = math.inf if rule.change[1] > 0 else high
    return low, high


def price_range(moves: ColumnMoves) -> tuple[int, int | None]:
    """The least and the most that changing a column can cost; None: rules can be applied again and again."""
    prices = [price for price in (moves.blank, moves.fill) if price is not None]
    if moves.costs is not None:
        prices += map(int, moves.costs.values())
    elif moves.interval is not None:
        prices.append(moves.cost)
    prices += [rule.cost for rule in moves.rules]
    return min(prices, default=0), None if moves.rules else max(prices, default=0)


def _goal(attacker: Attacker, ensemble: Ensemble) -> tuple[int, ...]:
    """The classes that the attacker wants."""
    classes = ensemble.classes.tolist()
    for label in attacker.goal:
        if label not in classes:
            raise InvalidInput(
                f"goal names {label!r}, which is no label of the model; it has {', '.join(map(repr, classes))}"
            )
    if len(attacker.goal) == len(classes):
        raise InvalidInput("goal names every label of the model, so that no change would be an attack; leave some out")
    return tuple(sorted(classes.index(label) for label in attacker.goal))


class _Binding:
    """An attacker and a model while one is bound to the other."""

    def __init__(self, attacker: Attacker, ensemble: Ensemble) -> None:
        self.attacker, self.ensemble = attacker, ensemble
        self.categories = dict(ensemble.categories)
        self.moves: list[Move] = attacker.intervals.bind(ensemble, (0.0, 0.0))
        self.costs = attacker.costs.bind(ensemble, 1)
        self.steps = self._bind_more(attacker.step)
        self.blank, self.fill = self._bind_more(attacker.blank), self._bind_more(attacker.fill)
        self.unit = np.array(attacker.scale.bind(ensemble, 1.0), dtype=np.float64)
        self.named = self._features(attacker.intervals)
        self._codes: dict[Any, tuple[float, ...]] = {}
        self._numbers: dict[Any, float | None] = {}
        self.rules: dict[int, list[Rule]] = defaultdict(list)
        for rule in attacker.rewrites:
            self.rules[ensemble.feature_index(rule.column)].append(rule)
        if attacker.unseen and not any(each.coded and each.unseen for each in self.categories.values()):
            raise InvalidInput("unseen=True, but no column of the model takes values that it never saw; leave it out")
        self.reach, self.still = self._reach()

    def _bind_more(self, given: PerFeature[Any] | None) -> list[Any]:
        return [None] * self.ensemble.n_features if given is None else given.bind(self.ensemble, None)

    def _features(self, given: PerFeature[Any] | None) -> set[int]:
        """The features that were given by name or position."""
        keys = None if given is None else given.keys
        return set() if keys is None else {self.ensemble.feature_index(key) for key in keys}

    def _name(self, f: int) -> str:
        return self.ensemble.feature_name(f)

    def _reach(self) -> tuple[FloatArray, tuple[int, ...]]:
        """(How far each feature moves (n_features, 2), the categories that a distance leaves alone)."""
        reach = np.array([self._distances(f) for f in range(self.ensemble.n_features)], dtype=np.float64)
        if self.attacker.power is not None:
            # The box around the ball may be too large by a rounding, never too small.
            with np.errstate(over="ignore", under="ignore"):
                size = np.where((self.unit != 1) & (reach[:, 1] > 0), next_up(reach[:, 1] * self.unit), reach[:, 1])
            reach = np.stack((-size, size), axis=1)
            reach[self._one_way("up"), 0] = 0.0
            reach[self._one_way("down"), 1] = 0.0
        still = []
        for f in self.categories:
            if self.attacker.power is None and tuple(reach[f]) == ANY:
                continue
            if f in self.named and (reach[f] != 0).any():
                raise InvalidInput(
                    f"column {self._name(f)} is a category, and nothing is a distance there",
                    argument="category",
                    way_out="tp.ANY lets the attacker change it to any value that the model knows",
                )
            still += [f] * bool((reach[f] != 0).any())
            reach[f] = 0.0
        return reach, tuple(still)

    def _one_way(self, name: str) -> list[int]:
        """The features that only rise (`up`), or only fall (`down`)."""
        features = [self.ensemble.feature_index(key) for key in getattr(self.attacker, name)]
        for f in features:
            if f in self.categories:
                raise InvalidInput(
                    f"{name} names column {self._name(f)}, a category, which neither rises nor falls; leave it out"
                )
        return features

    def _distances(self, f: int) -> tuple[float, float]:
        """How far a feature moves, in the attacker's own words."""
        move = self.moves[f]
        if isinstance(move, Values):
            # Values that are given for all columns are for those that can have them.
            return ANY if f in self.named or self._ends(f, move) else (0.0, 0.0)
        return (move.low, move.high) if isinstance(move, Steps) else move

    @property
    def flat_cost(self) -> Any:
        """The cost of moving each feature; an untouchable one costs nothing, so that it never counts."""
        cost = [0 if isinstance(each, CostMatrix) else each for each in self.costs]
        return np.where((self.reach == 0).all(axis=1), 0, np.array(cost, dtype=np.int64))

    @cached_property
    def domain(self) -> tuple[FloatArray, FloatArray]:
        """What the values of each feature stay inside of."""
        low, high = self.ensemble.value_low, self.ensemble.value_high
        domain = self.attacker.domain
        if domain is None:
            return low, high
        given = np.array(domain.bind(self.ensemble, ANY), dtype=np.float64)
        named = self._features(domain)
        for f, category in self.categories.items():
            if f in named and category.coded:
                raise InvalidInput(f"column {self._name(f)} is a category, which has no range; leave its domain out")
            if category.coded:
                given[f] = ANY
        low, high = np.maximum(low, given[:, 0]), np.minimum(high, given[:, 1])
        if not (low <= high).all():
            f = int(np.argmin(low <= high))
            raise InvalidInput(f"the domain of feature {self._name(f)} contains no number that the model accepts")
        return low, high

    def known(self, f: int, unseen: bool) -> FloatArray:
        """What rows hold for the values of a category that the model knows, inside the domain, and for unseen ones."""
        category = self.categories[f]
        known = category.known()
        low, high = self.domain
        inside: FloatArray = known[(known >= low[f]) & (known <= high[f])]
        if not len(inside):
            raise InvalidInput(
                f"the domain of column {self._name(f)}, a category, contains none of its values; "
                "leave categories out of the domain"
            )
        return np.append(inside, len(category.values)) if unseen and category.coded and category.unseen else inside

    def column(self, f: int) -> ColumnMoves | None:
        """What can be done to a feature; None where it is no more than an interval and a cost, or any category."""
        move, matrix, step = self.moves[f], self.costs[f], self._step(f)
        rules = tuple(self._rule(f, rule) for rule in self.rules[f])
        listed = isinstance(move, Values) or isinstance(matrix, CostMatrix) or step is not None
        if not (listed or rules or self.blank[f] is not None or self.fill[f] is not None):
            return None
        self._check_missing(f)
        low, high = self.reach[f].tolist()
        interval = None if low == high == 0 else (low, high)
        costs = self._matrix(f, matrix) if isinstance(matrix, CostMatrix) else None
        if costs is not None:
            if f in self.named and interval not in (None, ANY):
                raise InvalidInput(
                    f"column {self._name(f)} has an interval and a matrix of costs; leave the interval out, since the "
                    "matrix says which changes are possible"
                )
            interval = ANY
        return ColumnMoves(
            domain=(float(self.domain[0][f]), float(self.domain[1][f])),
            interval=interval,
            step=step,
            ends=self._ends(f, move),
            costs=costs,
            cost=0 if isinstance(matrix, CostMatrix) else matrix,
            rules=rules,
            blank=self.blank[f],
            fill=self.fill[f],
            power=self.attacker.power,
            unit=float(self.unit[f]),
            budget=self.attacker.budget,
        )

    def _step(self, f: int) -> Any:
        """The step of a column of numbers."""
        move, given = self.moves[f], self.steps[f]
        if f in self.categories:
            if given is not None and f in self._features(self.attacker.step):
                raise InvalidInput(f"column {self._name(f)} is a category, which has no steps; leave its step out")
            return None
        own = move.step if isinstance(move, Steps) else None
        if own is not None and given not in (None, own):
            raise InvalidInput(
                f"column {self._name(f)} has steps of {plain_decimal(own)} and step={plain_decimal(given)}; give one"
            )
        return given if own is None else own

    def _check_missing(self, f: int) -> None:
        takes = self.ensemble.may_be_missing[f]
        for what, given in (("cannot become missing", self.blank[f]), ("has nothing to fill in", self.fill[f])):
            if given is not None and not takes:
                raise InvalidInput(
                    f"column {self._name(f)} {what}: the model takes no missing values there; leave it out"
                )

    def _ends(self, f: int, move: Move) -> tuple[float, ...] | None:
        """The only doubles that moves of a feature may end at, in rising order."""
        if isinstance(move, Values):
            low, high = self.domain[0][f], self.domain[1][f]
            inside = [end for end in self._doubles(f, move, strict=f in self.named) if low <= end <= high]
            if not inside and f in self.named:
                raise InvalidInput(f"column {self._name(f)}: none of {move!r} is inside the domain")
            return tuple(sorted(set(inside)))
        if f not in self.categories:
            return None
        may_be_any = bool((self.reach[f] != 0).any())
        return tuple(self.known(f, self.attacker.unseen and may_be_any).tolist())

    def _doubles(self, f: int, listed: Values, *, strict: bool) -> list[float]:
        """What rows hold for these values; those that the column cannot have are refused, or left out."""
        found = [self._double(f, value, strict) for value in listed.values]
        return [number for number in found if number is not None]

    def _double(self, f: int, value: Any, strict: bool = True) -> float | None:
        """What rows hold for a value; InvalidInput, or None, if the column cannot have it."""
        category = self.categories.get(f)
        if category is not None:
            key = f, type(value), value
            if key not in self._numbers:
                self._numbers[key] = category.known_double(value)
            number = self._numbers[key]
            return category.double_of(value, self._name(f)) if strict and number is None else number
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            if strict:
                way_out = f"; write {int(value)}" if isinstance(value, bool) else ""
                raise InvalidInput(f"column {self._name(f)} holds numbers, and {value!r} is none{way_out}")
            return None
        return as_number(value, f"column {self._name(f)}: value")

    def _matrix(self, f: int, matrix: CostMatrix) -> dict[tuple[float, float], int]:
        pairs = {}
        for start, end, cost in matrix.entries:
            ends = self._double(f, start), self._double(f, end)
            pairs[ends] = cost
        return pairs  # type: ignore[return-value]  # a strict _double is never None

    def _rule(self, f: int, rule: Rule) -> BoundRule:
        """A rule on the values that rows hold. It cannot apply to values that the model does not know."""
        if (rule.change is None) != (f in self.categories):
            holds = "categories, so a rule needs to=" if f in self.categories else "numbers, so a rule needs change="
            raise InvalidInput(f"column {self._name(f)} holds {holds}, got {rule!r}")
        if rule.change is not None:
            low, high = rule.when if isinstance(rule.when, tuple) else ANY
            ends = [None if math.isinf(end) else decimal_of(end) for end in (low, high)]
            return BoundRule(rule.cost, low=ends[0], high=ends[1], change=self._change(f, rule.change))
        return BoundRule(rule.cost, codes=self._codes_of(f, rule.when), to=self._double(f, rule.to))

    def _codes_of(self, f: int, when: Any) -> tuple[float, ...]:
        """What rows hold for the values that a rule of categories is for; many rules are for the same."""
        listed = when.values if isinstance(when, Values) else ()
        key = f, listed, tuple(map(type, listed))  # True is 1, but may not be in a model
        if key not in self._codes:
            codes = self._doubles(f, when, strict=False) if listed else self.categories[f].known().tolist()
            self._codes[key] = tuple(sorted(codes))
        return self._codes[key]

    def _change(self, f: int, change: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
        """What a rule may add to a number; with a step, from whole numbers of steps to whole numbers of steps."""
        step, (low, high) = self._step(f), change
        if step is None:
            return change
        first, last = math.ceil(low / step), math.floor(high / step)
        if first > last or first == last == 0:
            by = plain_decimal(low) if low == high else f"{plain_decimal(low)} to {plain_decimal(high)}"
            raise InvalidInput(
                f"column {self._name(f)}: a rule adds {by}, which holds no whole number of steps of "
                f"{plain_decimal(step)} but 0",
                argument="step",
                way_out="give a smaller step, or leave the rule out",
            )
        return first * step, last * step

    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The features of each group."""
        if self.attacker.groups and self.attacker.power is not None:
            raise InvalidInput("groups have budgets of costs, and an Lp attacker has none; leave them out")
        found, owner = [], {}
        for group in self.attacker.groups:
            features = [self.ensemble.feature_index(key) for key in group.columns]
            for f in features:
                if f in owner:
                    raise InvalidInput(f"column {self._name(f)} is named twice in groups; it can be in one")
                owner[f] = group.name
            found.append(tuple(sorted(features)))
        return tuple(found)
