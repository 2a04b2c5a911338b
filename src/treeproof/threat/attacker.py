"""Attackers, as users describe them and as files store them."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.files import as_path, parse_json, read_text, write_whole
from treeproof.model.ensemble import Ensemble
from treeproof.model.per_feature import PerFeature, as_number, as_pair, as_size
from treeproof.numbers.doubles import FloatArray, next_up
from treeproof.threat.threat import Threat

MAX_POWER = 64
MAX_COST = 2**40
MAX_TOTAL = 2**52
"""Of the costs of all features: below it, sums of costs are exact as doubles, and so is half of 1 less."""
ANY = (-math.inf, math.inf)
"""What an attacker may do to a column that he can change to anything: any number, any value that the model knows."""
FORMAT = "treeproof-attacker"
VERSION = 1


@dataclass(frozen=True, init=False)
class Attacker:
    """Who may change the input, and how: an interval and a cost per feature, and a budget.

    `intervals` is one `(low, high)` for all features, one per feature, or `{feature: (low, high)}` by name
    or index, where features not named cannot be touched. Costs are whole numbers, 1 each by default; the
    attacker pays a feature's cost once to move it by any amount in its interval, and spends at most
    `budget` (None: no limit). With `domain`, neighbours and attacked values stay inside the given ranges.

    >>> Attacker((-0.03, 0.0), budget=1)
    Attacker((-0.03, 0.0), budget=1)
    >>> Attacker({"age": (0, 2), "income": (-math.inf, math.inf)}, costs={"income": 3}, budget=4)
    Attacker({'age': (0.0, 2.0), 'income': (-inf, inf)}, costs={'income': 3}, budget=4)
    """

    intervals: PerFeature[tuple[float, float]]
    costs: PerFeature[int]
    budget: int | None
    domain: PerFeature[tuple[float, float]] | None
    power: int | None
    """p of an Lp attacker; None for an attacker with costs and a budget."""
    radius: float
    """The Lp radius; 0 where `power` is None."""
    scale: PerFeature[float]
    """What distances of an Lp attacker are divided by, for each feature: its unit."""

    def __init__(
        self,
        intervals: Any,
        *,
        costs: Any = 1,
        budget: int | None = None,
        domain: Any = None,
    ) -> None:
        self._set(PerFeature.of_pairs(intervals, "interval", _as_interval), costs, budget, domain)

    def _set(
        self,
        intervals: PerFeature[tuple[float, float]],
        costs: Any,
        budget: Any,
        domain: Any,
        power: int | None = None,
        radius: float = 0.0,
        scale: Any = 1.0,
    ) -> None:
        values = {
            "intervals": intervals,
            "costs": PerFeature.of_numbers(costs, "cost", _as_cost),
            "budget": None if budget is None else _as_budget(budget),
            "domain": None if domain is None else PerFeature.of_pairs(domain, "domain", _as_interval),
            "power": power,
            "radius": radius,
            "scale": PerFeature.of_numbers(scale, "scale", _as_unit),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        # That two lists do not fit each other can be seen without a model.
        widths = {values.n_features for values in self._lists() if values.n_features}
        if len(widths) > 1:
            raise InvalidInput(f"the attacker's lists have different lengths: {', '.join(map(str, sorted(widths)))}")

    @classmethod
    def linf(cls, delta: Any, *, features: Any = None, domain: Any = None) -> Attacker:
        """Moves every feature (or those in `features`) by at most delta: one number, one per feature, or by name.

        >>> Attacker.linf(0.05)
        Attacker((-0.05, 0.05))
        """
        reach = PerFeature.of_numbers(delta, "delta", as_size)
        return cls(_only(reach.map(lambda d: (-d, d)), features), domain=domain)

    @classmethod
    def l0(cls, k: int, *, features: Any = None, domain: Any = None) -> Attacker:
        """Sets at most k features (of those in `features`) to any values.

        >>> Attacker.l0(2)
        Attacker((-inf, inf), budget=2)
        """
        if k is None:
            raise InvalidInput("k is None; give the number of features that the attacker may change")
        anything = PerFeature.of_pairs((-math.inf, math.inf), "interval", _as_interval)
        return cls(_only(anything, features), budget=k, domain=domain)

    @classmethod
    def lp(cls, p: float, radius: float, *, features: Any = None, domain: Any = None, scale: Any = None) -> Attacker:
        """Moves all features (or `features`) by at most `radius` in the Lp norm; p is a whole number or infinite.

        `scale` weighs the features: a feature's distance is divided by its unit before the norm is taken. It is one
        unit for all, one per feature, or `{feature: unit}`, where the unit of features not named is 1.

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
            return cls.linf(radius, features=features, domain=domain)
        if isinstance(p, bool) or not isinstance(p, (int, float, np.integer)) or not 1 <= p <= MAX_POWER or p != int(p):
            raise InvalidInput(
                f"p must be a whole number from 1 to {MAX_POWER}, or infinite, got {p!r}",
                argument="p",
                way_out="for L0 use Attacker.l0",
            )
        reach = as_size(radius, "radius")
        if math.isinf(reach):
            raise InvalidInput("an Lp radius must be finite; an attacker without limits is Attacker((-inf, inf))")
        attacker = cls.__new__(cls)
        box = PerFeature.of_pairs((-reach, reach), "interval", _as_interval)
        attacker._set(_only(box, features), 1, None, domain, int(p), reach, 1.0 if scale is None else scale)
        return attacker

    def with_radius(self, radius: float) -> Attacker:
        """The same Lp attacker with another radius."""
        assert self.power is not None
        return Attacker.lp(self.power, radius, features=self.intervals.keys, domain=self.domain, scale=self.scale)

    def _lists(self) -> list[PerFeature[Any]]:
        """All that is given per feature."""
        return [values for values in (self.intervals, self.costs, self.domain, self.scale) if values is not None]

    @property
    def n_features(self) -> int | None:
        """The number of features that the attacker's lists are made for; None if it fits any model."""
        return next((values.n_features for values in self._lists() if values.n_features is not None), None)

    def bind(self, ensemble: Ensemble) -> Threat:
        """The attacker as arrays over the features of one model."""
        if self.n_features not in (None, ensemble.n_features):
            raise InvalidInput(
                f"attacker has {self.n_features} features, model has {ensemble.n_features}; "
                "give one interval for all features, or one per feature"
            )
        reach = np.array(self.intervals.bind(ensemble, (0.0, 0.0)), dtype=np.float64)
        unit = np.array(self.scale.bind(ensemble, 1.0), dtype=np.float64)
        if self.power is not None:
            # The box around the ball may be too large by a rounding, never too small.
            with np.errstate(over="ignore", under="ignore"):
                size = np.where((unit != 1) & (reach[:, 1] > 0), next_up(reach[:, 1] * unit), reach[:, 1])
            reach = np.stack((-size, size), axis=1)
        still = self._leave_categories(ensemble, reach)
        # An untouchable feature costs nothing, so that it never counts against a budget.
        untouchable = (reach == 0).all(axis=1)
        cost = np.where(untouchable, 0, np.array(self.costs.bind(ensemble, 1), dtype=np.int64))
        total = sum(cost.tolist())
        if total >= MAX_TOTAL:
            raise InvalidInput(f"all costs together must stay below {MAX_TOTAL}, got {total}; scale them down")
        low, high = ensemble.value_low, ensemble.value_high
        if self.domain is not None:
            given = np.array(self.domain.bind(ensemble, (-math.inf, math.inf)), dtype=np.float64)
            self._domain_of_numbers(ensemble, given)
            low, high = np.maximum(low, given[:, 0]), np.minimum(high, given[:, 1])
            if not (low <= high).all():
                f = int(np.argmin(low <= high))
                raise InvalidInput(
                    f"the domain of feature {ensemble.feature_name(f)} contains no number that the model accepts"
                )
        return Threat(
            low=reach[:, 0].copy(),
            high=reach[:, 1].copy(),
            cost=cost,
            budget=total if self.budget is None else min(self.budget, total),
            domain_low=np.array(low),
            domain_high=np.array(high),
            power=self.power,
            radius=self.radius,
            unit=unit,
            ends=tuple(_ends(ensemble, f, low[f], high[f]) for f, _ in ensemble.categories if (reach[f] != 0).any()),
            still=still,
        )

    def _domain_of_numbers(self, ensemble: Ensemble, given: FloatArray) -> None:
        """Takes the domain off categories, which have values and no range; refuses one that is given by name."""
        assert self.domain is not None
        named = [] if self.domain.keys is None else [ensemble.feature_index(key) for key in self.domain.keys]
        for f, category in ensemble.categories:
            if f in named and category.coded:
                raise InvalidInput(
                    f"column {ensemble.feature_name(f)} is a category, which has no range; leave its domain out"
                )
            if category.coded:
                given[f] = ANY

    def _leave_categories(self, ensemble: Ensemble, reach: FloatArray) -> tuple[int, ...]:
        """Makes categories untouchable in `reach`, unless they may become anything, and returns those that it stops.

        Numbers given for a category by name are refused.
        """
        still = []
        named = [] if self.intervals.keys is None else [ensemble.feature_index(key) for key in self.intervals.keys]
        for f, _ in ensemble.categories:
            if self.power is None and tuple(reach[f]) == ANY:
                continue
            if f in named and (reach[f] != 0).any():
                raise InvalidInput(
                    f"column {ensemble.feature_name(f)} is a category, and nothing is a distance there",
                    argument="category",
                    way_out="tp.ANY lets the attacker change it to any value that the model knows",
                )
            still += [f] * bool((reach[f] != 0).any())
            reach[f] = 0.0
        return tuple(still)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The attacker as JSON text, also written to `path` if given; an infinite end is null."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "intervals": self.intervals.to_json(_pair_to_json),
            "costs": self.costs.to_json(),
            "budget": self.budget,
            "domain": None if self.domain is None else self.domain.to_json(_pair_to_json),
            "power": self.power,
            "radius": self.radius,
        }
        if self.scale != NO_SCALE:
            content["scale"] = self.scale.to_json()
        text = json.dumps(content, allow_nan=False)
        if path is not None:
            write_whole(as_path(path), text)
        return text

    @classmethod
    def from_json(cls, source: str | os.PathLike[str], *, budget: int | None = None) -> Attacker:
        """The attacker of a JSON file: treeproof's own, or the paper authors' list of features.

        The authors' file is `[[left, right, left_open, right_open, cost], …]`, one entry per feature, and says
        nothing about the budget: give it here. `source` is a path, or JSON text that begins with `{` or `[`.
        """
        text, where = _read_source(source)
        try:
            # The authors write open ends as Infinity.
            content = parse_json(text, constants=text.lstrip()[:1] == "[")
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} is not JSON: {error}") from None
        if isinstance(content, list):
            return cls._from_authors(content, budget, where)
        if budget is not None:
            raise InvalidInput(f"{where} states its own budget; leave budget out")
        return cls._from_own(content, where)

    @classmethod
    def _from_own(cls, content: Any, where: str) -> Attacker:
        fields = {"format", "version", "intervals", "costs", "budget", "domain", "power", "radius"}
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InvalidInput(f'{where} is not an attacker: it lacks "format": "{FORMAT}"')
        if type(content.get("version")) is not int or content["version"] != VERSION:
            raise InvalidInput(
                f"{where} has version {content.get('version')!r}; this treeproof reads version {VERSION}"
            )
        if content.keys() - {"scale"} != fields:
            wrong = (content.keys() - {"scale"}) ^ fields
            raise InvalidInput(f"{where} has unknown or missing fields: {', '.join(sorted(wrong))}")
        intervals = PerFeature.from_json(content["intervals"], "interval", _interval_from_json)
        domain = content["domain"]
        if domain is not None:
            domain = PerFeature.from_json(domain, "domain", _interval_from_json)
        costs = PerFeature.from_json(content["costs"], "cost", _as_cost)
        scale = PerFeature.from_json(content["scale"], "scale", _as_unit) if "scale" in content else None
        if scale is None and content["power"] is None and as_number(content["radius"], "radius") == 0:
            return cls(intervals, costs=costs, budget=content["budget"], domain=domain)
        attacker = cls.lp(content["power"], content["radius"], features=intervals.keys, domain=domain, scale=scale)
        if attacker.intervals != intervals or attacker.costs != costs or content["budget"] is not None:
            raise InvalidInput(
                f"{where} is an Lp attacker with intervals, costs or a budget that do not fit its radius"
            )
        return attacker

    @classmethod
    def _from_authors(cls, rows: list[Any], budget: int | None, where: str) -> Attacker:
        intervals, costs = [], []
        for number, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != 5:
                raise InvalidInput(
                    f"{where}, entry {number}: expected [left, right, left_open, right_open, cost], got {row!r}"
                )
            low, high, low_open, high_open, cost = row
            for end, is_open in ((low, low_open), (high, high_open)):
                if is_open not in (False, True):
                    raise InvalidInput(f"{where}, entry {number}: left_open and right_open are true or false")
                if is_open and not (isinstance(end, float) and math.isinf(end)):
                    raise InvalidInput(
                        f"{where}, entry {number}: the end {end!r} is open; treeproof's intervals are closed"
                    )
            intervals.append((low, high))
            costs.append(cost)
        if not rows:
            raise InvalidInput(f"{where} lists no features")
        return cls(intervals, costs=costs, budget=budget)

    def __repr__(self) -> str:
        parts = [repr(self.intervals)] if self.power is None else [str(self.power), repr(self.radius)]
        if self.power is not None and self.intervals.keys is not None:
            parts.append(f"features={list(self.intervals.keys)!r}")
        if self.costs != PerFeature.of_numbers(1, "cost", _as_cost):
            parts.append(f"costs={self.costs!r}")
        if self.budget is not None:
            parts.append(f"budget={self.budget}")
        if self.domain is not None:
            parts.append(f"domain={self.domain!r}")
        if self.scale != NO_SCALE:
            parts.append(f"scale={self.scale!r}")
        return f"Attacker{'' if self.power is None else '.lp'}({', '.join(parts)})"


def _only(intervals: PerFeature[tuple[float, float]], features: Any) -> PerFeature[tuple[float, float]]:
    """The intervals on the given features only; every other feature is untouchable."""
    if features is None:
        return intervals
    if intervals.keys is not None or intervals.n_features is not None:
        raise InvalidInput(
            "features= restricts a single number to some features; leave it out if each feature has its own"
        )
    names = [features] if np.ndim(features) == 0 else list(features)
    if not names:
        raise InvalidInput("features= is empty: the attacker could do nothing; leave it out for all features")
    return PerFeature.of_pairs(dict.fromkeys(names, intervals.values[0]), "interval", _as_interval)


def _as_interval(value: Any, where: str) -> tuple[float, float]:
    if isinstance(value, str) or (isinstance(value, (list, tuple, set)) and any(isinstance(one, str) for one in value)):
        raise InvalidInput(
            f"{where}: {value!r} is text; tp.ANY lets the attacker change a category to any value that the model "
            "knows, and (low, high) moves a number"
        )
    low, high = as_pair(value, where)
    if low == math.inf or high == -math.inf:
        raise InvalidInput(f"{where} {value!r} contains no finite move")
    return low, high


def _interval_from_json(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput(f"{where} must be [low, high], got {value!r}")
    low, high = value
    return _as_interval((-math.inf if low is None else low, math.inf if high is None else high), where)


def _pair_to_json(pair: tuple[float, float]) -> list[float | None]:
    return [None if math.isinf(end) else end for end in pair]


def _ends(ensemble: Ensemble, f: int, low: float, high: float) -> tuple[int, FloatArray]:
    """A category and what it can become: the values that the model knows, inside the domain."""
    known = dict(ensemble.categories)[f].known()
    inside: FloatArray = known[(known >= low) & (known <= high)]
    if not len(inside):
        raise InvalidInput(
            f"the domain of column {ensemble.feature_name(f)}, a category, contains none of its values; "
            "leave categories out of the domain"
        )
    return f, inside


def _as_cost(value: Any, where: str) -> int:
    number = as_number(value, where)
    if not 0 <= number <= MAX_COST or number != int(number):
        raise InvalidInput(f"{where} must be a whole number from 0 to {MAX_COST}, got {value!r}; scale fractions up")
    return int(number)


def _as_unit(value: Any, where: str) -> float:
    number = as_number(value, where)
    if not 0 < number < math.inf:
        raise InvalidInput(f"{where} must be above 0 and finite, got {value!r}")
    return number


NO_SCALE = PerFeature.of_numbers(1.0, "scale", _as_unit)
"""Every feature's distance as it is."""


def _as_budget(value: Any) -> int:
    number = as_number(value, "budget")
    if number < 0:
        raise InvalidInput(
            f"budget must be at least 0, got {value!r}", argument="budget", way_out="None means no limit"
        )
    return 2**62 if math.isinf(number) else math.floor(number)


def _read_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    if isinstance(source, str) and source.lstrip()[:1] in ("{", "["):
        return source, "the attacker"
    return read_text(as_path(source)), str(source)


def check_attacker(attacker: Any) -> Attacker:
    """The attacker, or InvalidInput for anything else."""
    if not isinstance(attacker, Attacker):
        raise InvalidInput(f"attacker must be a treeproof.Attacker, got {type(attacker).__name__}")
    return attacker
