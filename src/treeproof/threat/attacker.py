"""Attackers, as users describe them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.files import as_json
from treeproof.model.ensemble import Ensemble
from treeproof.model.per_feature import PerFeature, as_size
from treeproof.numbers.decimals import plain_decimal
from treeproof.threat import attacker_file
from treeproof.threat.binding import bind_attacker
from treeproof.threat.moves import (
    ANY,
    CostMatrix,
    Move,
    Rule,
    Steps,
    Values,
    as_column_cost,
    as_interval,
    as_step,
    reaches_step,
)
from treeproof.threat.settings import (
    Group,
    as_budget,
    as_goal,
    as_groups,
    as_moves,
    as_one_way,
    as_prices,
    as_rules,
    as_unit,
)
from treeproof.threat.threat import Threat

MAX_POWER = 64
NOTHING: PerFeature[Move] = PerFeature(((0.0, 0.0),), shared=True)
"""No distances to move by."""
NO_SCALE = PerFeature.of_numbers(1.0, "scale", as_unit)
"""Every feature's distance as it is."""
COST_OF_1: PerFeature[int | CostMatrix] = PerFeature((1,), shared=True)


@dataclass(frozen=True, init=False)
class Attacker:
    """Who may change the input, and how: what may happen to each column, what it costs, and a budget.

    `intervals` says what the attacker may do to a column: move it by a distance in `(low, high)`, make it anything
    (`tp.ANY`) or one of some values (`tp.values(…)` or a list), or move it by whole numbers of steps (`tp.steps(…)`).
    It is one entry for all columns, one per column, or `{column: …}` by name or index, where columns not named cannot
    be touched.

    Costs are whole numbers, 1 each by default, or matrices `{(from, to): cost}` of the only changes that are possible;
    the attacker pays a column's cost once and spends at most `budget` (None: no limit). Columns of one of the `groups`,
    `{name: columns}`, cost at most what `budgets` says for it, too. With `domain`, neighbours and attacked values stay
    inside the given ranges. With `step`, neighbours and moves of numbers are whole numbers of steps. `blank` and `fill`
    are columns, or `{column: cost}`, where a value may be made missing and a missing one may be filled in. `unseen`
    lets columns with `tp.ANY` become values that the model never saw. With a `goal`, one label or several, only a
    change to these labels is an attack.

    >>> Attacker((-0.03, 0.0), budget=1)
    Attacker((-0.03, 0.0), budget=1)
    >>> Attacker({"age": (0, 2), "income": (-math.inf, math.inf)}, costs={"income": 3}, budget=4)
    Attacker({'age': (0.0, 2.0), 'income': (-inf, inf)}, costs={'income': 3}, budget=4)
    """

    intervals: PerFeature[Move]
    costs: PerFeature[int | CostMatrix]
    budget: int | None
    domain: PerFeature[tuple[float, float]] | None
    power: int | None
    """p of an Lp attacker; None for an attacker with costs and a budget."""
    radius: float
    """The Lp radius; 0 where `power` is None."""
    scale: PerFeature[float]
    """What distances of an Lp attacker are divided by, for each feature: its unit."""
    up: tuple[int | str, ...]
    """Features that an Lp attacker can only raise, by name or position."""
    down: tuple[int | str, ...]
    """Those that it can only lower."""
    step: PerFeature[Fraction] | None
    blank: PerFeature[int] | None
    fill: PerFeature[int] | None
    unseen: bool
    groups: tuple[Group, ...]
    rewrites: tuple[Rule, ...]
    """The rules of an attacker that has some."""
    goal: tuple[Any, ...]
    """The labels that the attacker wants; none: any other than the row's own."""

    def __init__(
        self,
        intervals: Any,
        *,
        costs: Any = 1,
        budget: int | None = None,
        domain: Any = None,
        step: Any = None,
        blank: Any = None,
        fill: Any = None,
        unseen: bool = False,
        groups: Any = None,
        budgets: Any = None,
        goal: Any = None,
    ) -> None:
        """One parameter per way to limit an attacker."""
        nothing = intervals is None or (isinstance(intervals, Mapping) and not intervals)
        self._set(
            intervals=NOTHING if nothing else as_moves(intervals),
            costs=PerFeature.of_numbers(costs, "cost", as_column_cost),
            budget=budget,
            domain=domain,
            step=step,
            blank=blank,
            fill=fill,
            unseen=unseen,
            groups=as_groups(groups, budgets),
            goal=goal,
        )
        if nothing and not self._has_more:
            raise InvalidInput("interval: no columns are named, so the attacker could do nothing; name some")
        self._check_steps()

    @property
    def _has_more(self) -> bool:
        """Whether columns can be changed without distances: by matrices, blanks and fills."""
        prices = self.blank is not None or self.fill is not None
        return prices or any(isinstance(cost, CostMatrix) for cost in self.costs.values)

    def _check_steps(self) -> None:
        """Refuses steps that are longer than the moves they are for, as far as that can be seen without a model."""
        if self.step is None:
            return
        for at, move in enumerate(self.intervals.values):
            alike = self.step.keys == self.intervals.keys and self.step.n_features == self.intervals.n_features
            step = self.step.values[0 if self.step.shared else at] if self.step.shared or alike else None
            if step is None or not isinstance(move, tuple) or move == (0.0, 0.0) or reaches_step(*move, step):
                continue
            column = "" if self.intervals.keys is None else f"column {self.intervals.keys[at]!r}: "
            raise InvalidInput(
                f"{column}no whole number of steps of {plain_decimal(step)} but 0 lies between {move[0]!r} and "
                f"{move[1]!r}; give a wider range or a smaller step",
                argument="step",
            )

    def _set(self, **given: Any) -> None:
        """Sets all fields; those that are not given say that there is nothing of the kind."""
        step, domain, scale = given.get("step"), given.get("domain"), given.get("scale")
        unseen = given.get("unseen", False)
        if not isinstance(unseen, (bool, np.bool_)):
            raise InvalidInput(f"unseen is True or False, got {unseen!r}")
        values = {
            "intervals": given.get("intervals", NOTHING),
            "costs": given.get("costs", COST_OF_1),
            "budget": as_budget(given.get("budget")),
            "domain": None if domain is None else PerFeature.of_pairs(domain, "domain", as_interval),
            "power": given.get("power"),
            "radius": given.get("radius", 0.0),
            "scale": NO_SCALE if scale is None else PerFeature.of_numbers(scale, "scale", as_unit),
            "up": tuple(given.get("up") or ()),
            "down": tuple(given.get("down") or ()),
            "step": None if step is None else PerFeature.of_numbers(step, "step", as_step),
            "blank": as_prices(given.get("blank"), "blank"),
            "fill": as_prices(given.get("fill"), "fill"),
            "unseen": bool(unseen),
            "groups": given.get("groups", ()),
            "rewrites": given.get("rewrites", ()),
            "goal": as_goal(given.get("goal")),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        # That two lists do not fit each other can be seen without a model.
        widths = {values.n_features for values in self._lists() if values.n_features}
        if len(widths) > 1:
            raise InvalidInput(f"the attacker's lists have different lengths: {', '.join(map(str, sorted(widths)))}")

    @classmethod
    def _of(cls, **given: Any) -> Attacker:
        attacker = cls.__new__(cls)
        attacker._set(**given)
        return attacker

    @classmethod
    def linf(
        cls, delta: Any, *, features: Any = None, domain: Any = None, step: Any = None, goal: Any = None
    ) -> Attacker:
        """Moves every feature (or those in `features`) by at most delta: one number, one per feature, or by name.

        >>> Attacker.linf(0.05)
        Attacker((-0.05, 0.05))
        """
        reach = PerFeature.of_numbers(delta, "delta", as_size)
        return cls(_only(reach.map(lambda d: (-d, d)), features), domain=domain, step=step, goal=goal)

    @classmethod
    def l0(
        cls,
        k: int,
        *,
        features: Any = None,
        domain: Any = None,
        step: Any = None,
        groups: Any = None,
        budgets: Any = None,
        goal: Any = None,
    ) -> Attacker:
        """Sets at most k features (of those in `features`) to any values.

        >>> Attacker.l0(2)
        Attacker((-inf, inf), budget=2)
        """
        if k is None:
            raise InvalidInput("k is None; give the number of features that the attacker may change")
        anything = PerFeature.of_pairs(ANY, "interval", as_interval)
        intervals = _only(anything, features)
        return cls(intervals, budget=k, domain=domain, step=step, groups=groups, budgets=budgets, goal=goal)

    @classmethod
    def lp(
        cls,
        p: float,
        radius: float,
        *,
        features: Any = None,
        domain: Any = None,
        scale: Any = None,
        up: Any = None,
        down: Any = None,
        step: Any = None,
        goal: Any = None,
    ) -> Attacker:
        """Moves all features (or `features`) by at most `radius` in the Lp norm; p is a whole number or infinite.

        `scale` weighs the features: a feature's distance is divided by its unit before the norm is taken. It is one
        unit for all, one per feature, or `{feature: unit}`, where the unit of features not named is 1. The features in
        `up` can only be raised, and those in `down` only lowered. One parameter per way to limit an attacker.

        >>> Attacker.lp(2, 0.1)
        Attacker.lp(2, 0.1)
        >>> Attacker.lp(1, 2, scale={"age": 10, "income": 5000})
        Attacker.lp(1, 2.0, scale={'age': 10.0, 'income': 5000.0})
        """
        if isinstance(p, float) and p == math.inf:
            if scale is not None:
                raise InvalidInput(
                    "scale= goes with a finite p; give Attacker.linf one delta per feature instead", argument="scale"
                )
            if up is not None or down is not None:
                raise InvalidInput(
                    'up= and down= go with a finite p; give intervals instead, Attacker({"age": (0, 2)})'
                )
            return cls.linf(radius, features=features, domain=domain, step=step, goal=goal)
        if isinstance(p, bool) or not isinstance(p, (int, float, np.integer)) or not 1 <= p <= MAX_POWER or p != int(p):
            raise InvalidInput(
                f"p must be a whole number from 1 to {MAX_POWER}, or infinite, got {p!r}",
                argument="p",
                way_out="for L0 use Attacker.l0",
            )
        reach = as_size(radius, "radius")
        if math.isinf(reach):
            raise InvalidInput("an Lp radius must be finite; an attacker without limits is Attacker((-inf, inf))")
        box = PerFeature.of_pairs((-reach, reach), "interval", as_interval)
        intervals = _only(box, features)
        words = {"domain": domain, "scale": scale, "step": step, "goal": goal}
        words |= {"up": as_one_way(up, "up", intervals.keys), "down": as_one_way(down, "down", intervals.keys)}
        for name in words["up"]:
            if name in words["down"]:
                raise InvalidInput(
                    f"{name!r} is in up and in down, and could not move at all; leave it out of features"
                )
        return cls._of(intervals=intervals, power=int(p), radius=reach, **words)

    @classmethod
    def rules(
        cls,
        rules: Iterable[Rule],
        *,
        budget: int | None = None,
        domain: Any = None,
        step: Any = None,
        blank: Any = None,
        fill: Any = None,
        groups: Any = None,
        budgets: Any = None,
        goal: Any = None,
    ) -> Attacker:
        """Rewrites values by rules, each as often as it fits and the budget pays for it.

        What a change costs is the cheapest chain of rules that leads there; all values on the way stay in the domain
        and, in a column with a `step`, on the row's grid: a rule adds whole numbers of steps there. One parameter per
        way to limit an attacker.

        >>> Attacker.rules([Rule("hours", when=(0, 40), change=(0, 5))], budget=3)
        Attacker.rules([Rule('hours', when=(0.0, 40.0), change=(0, 5), cost=1)], budget=3)
        """
        words = {"budget": budget, "domain": domain, "step": step, "blank": blank, "fill": fill, "goal": goal}
        return cls._of(rewrites=as_rules(rules), groups=as_groups(groups, budgets), **words)

    def with_radius(self, radius: float) -> Attacker:
        """The same Lp attacker with another radius."""
        assert self.power is not None
        words = {"domain": self.domain, "scale": self.scale, "step": self.step, "goal": self.goal or None}
        words |= {"up": self.up or None, "down": self.down or None}
        return Attacker.lp(self.power, radius, features=self.intervals.keys, **words)

    def with_budget(self, budget: int | None) -> Attacker:
        """The same attacker with another budget."""
        return Attacker._of(**vars(self) | {"budget": budget, "goal": self.goal or None})

    def with_goal(self, goal: Any) -> Attacker:
        """The same attacker who wants these labels."""
        return Attacker._of(**vars(self) | {"goal": goal})

    @property
    def without_limits(self) -> Attacker:
        """The same attacker with any budget, or with the largest radius there is."""
        if self.power is not None:
            return self.with_radius(sys.float_info.max)
        return Attacker._of(**vars(self) | {"budget": None, "groups": (), "goal": self.goal or None})

    def scaled(self, factor: float) -> Attacker:
        """The same attacker with all distances multiplied, those of an Lp attacker by way of its radius."""
        factor = float(factor)  # a double of NumPy prints as more than its number
        if self.power is not None:
            return self.with_radius(self.radius * factor)

        def scale(move: Move) -> Move:
            if isinstance(move, Steps):
                return replace(move, low=move.low * factor, high=move.high * factor)
            return move if isinstance(move, Values) else (move[0] * factor, move[1] * factor)

        return Attacker._of(**vars(self) | {"intervals": self.intervals.map(scale), "goal": self.goal or None})

    def _lists(self) -> list[PerFeature[Any]]:
        """All that is given per feature."""
        given = (self.intervals, self.costs, self.domain, self.scale, self.step, self.blank, self.fill)
        return [values for values in given if values is not None]

    @property
    def n_features(self) -> int | None:
        """The number of features that the attacker's lists are made for; None if it fits any model."""
        return next((values.n_features for values in self._lists() if values.n_features is not None), None)

    @property
    def is_for_all(self) -> bool:
        """Whether distances are given for all columns, by one interval or a list, and for none by name."""
        return self.intervals.keys is None and self.intervals != NOTHING

    @property
    def fillable(self) -> set[int | str]:
        """The columns whose missing values the attacker can fill in, by name or position."""
        if self.fill is None:
            return set()
        prices = zip(self.fill.keys or (), self.fill.values, strict=True)
        return {key for key, price in prices if self.budget is None or price <= self.budget}

    @property
    def named(self) -> set[int | str]:
        """Every column that the attacker calls by its name or position."""
        keys = {key for values in self._lists() for key in values.keys or ()}
        keys |= {key for group in self.groups for key in group.columns} | {*self.up, *self.down}
        return keys | {rule.column for rule in self.rewrites}

    def bind(self, ensemble: Ensemble) -> Threat:
        """The attacker as arrays over the features of one model."""
        return bind_attacker(self, ensemble)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The attacker as JSON text, also written to `path` if given; an infinite end is null."""
        return as_json(attacker_file.content_of(self), path)

    @classmethod
    def from_json(cls, source: str | os.PathLike[str], *, budget: int | None = None, step: Any = None) -> Attacker:
        """The attacker of a JSON file: treeproof's own, the paper authors' list of features, or TREANT's rules.

        The paper authors' file is `[[left, right, left_open, right_open, cost], …]`, one entry per feature, TREANT's
        is `{"attacks": [{column: [rule, …]}, …]}`. Both say nothing about the budget, or steps: give them here.
        `source` is a path, or JSON text that begins with `{` or `[`.
        """
        content, where = attacker_file.read(source)
        if isinstance(content, list):
            return cls(**attacker_file.intervals_of_authors(content, where), budget=budget, step=step)
        if isinstance(content, dict) and content.keys() == {"attacks"}:
            return cls.rules(attacker_file.rules_of_treant(content["attacks"], where), budget=budget, step=step)
        for name, more in (("budget", budget), ("step", step)):
            if more is not None:
                raise InvalidInput(f"{where} states its own {name}; leave {name} out")
        given = {"power": None} | attacker_file.fields_of(content, where)
        attacker = cls._of(**given)
        if given["power"] is not None or any(given.get(name) for name in ("radius", "scale", "up", "down")):
            words = {name: given.get(name) for name in ("domain", "scale", "up", "down", "step", "goal")}
            attacker = cls.lp(given["power"], given["radius"], features=given["intervals"].keys, **words)
            if attacker != cls._of(**given):
                raise InvalidInput(
                    f"{where} is an Lp attacker with intervals, costs or a budget that do not fit its radius"
                )
        if attacker.rewrites and (attacker.intervals, attacker.costs) != (NOTHING, COST_OF_1):
            raise InvalidInput(f"{where} has rules beside intervals or costs; an attacker has one or the other")
        return attacker

    def __repr__(self) -> str:
        kind = "" if self.power is None else ".lp"
        parts = ["{}" if self._has_more and self.intervals == NOTHING else repr(self.intervals)]
        if self.power is not None:
            parts = [str(self.power), repr(self.radius)]
        if self.rewrites:
            kind, parts = ".rules", [repr(list(self.rewrites))]
        words: dict[str, Any] = {}
        if self.power is not None and self.intervals.keys is not None:
            words["features"] = list(self.intervals.keys)
        words |= {
            "costs": self.costs if self.costs != COST_OF_1 else None,
            "budget": self.budget,
            "domain": self.domain,
            "scale": self.scale if self.scale != NO_SCALE else None,
            "up": list(self.up) or None,
            "down": list(self.down) or None,
            "step": None if self.step is None else self.step.map(plain_decimal),
            "blank": self.blank,
            "fill": self.fill,
            "unseen": self.unseen or None,
            "groups": {group.name: list(group.columns) for group in self.groups} or None,
            "budgets": {group.name: group.budget for group in self.groups} or None,
            "goal": list(self.goal) or None,
        }
        parts += [f"{name}={value!r}" for name, value in words.items() if value is not None]
        return f"Attacker{kind}({', '.join(parts)})"


def _only(intervals: PerFeature[tuple[float, float]], features: Any) -> PerFeature[tuple[float, float]]:
    """The intervals on the given features only; every other feature is untouchable."""
    if features is None:
        return intervals
    if intervals.keys is not None or intervals.n_features is not None:
        raise InvalidInput(
            "features= restricts a single number to some features; leave it out if each feature has its own"
        )
    if isinstance(features, Mapping):
        raise InvalidInput(f"features= lists columns, got {features!r}; sizes by column go where the one number is")
    names = [features] if np.ndim(features) == 0 else list(features)
    if not names:
        raise InvalidInput("features= is empty: the attacker could do nothing; leave it out for all features")
    return PerFeature.of_pairs(dict.fromkeys(names, intervals.values[0]), "interval", as_interval)


def check_attacker(attacker: Any) -> Attacker:
    """The attacker, or InvalidInput for anything else."""
    if not isinstance(attacker, Attacker):
        raise InvalidInput(f"attacker must be a treeproof.Attacker, got {type(attacker).__name__}")
    return attacker
