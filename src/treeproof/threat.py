"""Attackers, neighbourhoods, and what it costs to bring a value into a cell.

`A(x)` is every z that differs from x on features whose costs add up to at most the budget, each moved by a
number of its interval; nothing moved is always allowed. `N(x)` is the box of doubles within ε of x. Both are
meant in real arithmetic over doubles: z is reached from x iff `x + low <= z <= x + high` holds exactly.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.ensemble import Ensemble
from treeproof.errors import InvalidInput
from treeproof.files import as_path, write_whole
from treeproof.grid import NAN_CELL
from treeproof.intervals import FloatArray, add_down, add_up, double_at_least, double_at_most, next_up
from treeproof.moves import some_move
from treeproof.per_feature import PerFeature, as_number, as_pair

MOST_POWER = 64
FORMAT = "treeproof-attacker"
VERSION = 1


@dataclass(frozen=True, init=False)
class Attacker:
    """Who may change the input, and how: an interval and a cost per feature, and a budget.

    `intervals` is one `(low, high)` for all features, one per feature, or `{feature: (low, high)}` by name
    or index, where features not named cannot be touched. Costs are whole numbers, 1 each by default; the
    attacker pays a feature's cost once to move it by any number of its interval, and spends at most
    `budget` (None: no limit). With `domain`, neighbours and attacked values stay inside given ranges.

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

    def __init__(
        self,
        intervals: Any,
        *,
        costs: Any = 1,
        budget: int | None = None,
        domain: Any = None,
    ) -> None:
        self._set(PerFeature.of_pairs(intervals, "interval", _as_interval), costs, budget, domain, None, 0.0)

    def _set(
        self,
        intervals: PerFeature[tuple[float, float]],
        costs: Any,
        budget: Any,
        domain: Any,
        power: int | None,
        radius: float,
    ) -> None:
        values = {
            "intervals": intervals,
            "costs": PerFeature.of_numbers(costs, "cost", _as_cost),
            "budget": None if budget is None else _as_budget(budget),
            "domain": None if domain is None else PerFeature.of_pairs(domain, "domain", _as_interval),
            "power": power,
            "radius": radius,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        # Two lists that do not fit each other can be told without a model.
        widths = {v.n_features for v in (self.intervals, self.costs, self.domain) if v is not None and v.n_features}
        if len(widths) > 1:
            raise InvalidInput(f"the attacker's lists have different lengths: {', '.join(map(str, sorted(widths)))}")

    @classmethod
    def linf(cls, delta: Any, *, features: Any = None, domain: Any = None) -> Attacker:
        """Moves every feature (or those of `features`) by at most delta: one number, one per feature or by name.

        >>> Attacker.linf(0.05)
        Attacker((-0.05, 0.05))
        """
        reach = PerFeature.of_numbers(delta, "delta", _as_reach)
        return cls(_only(reach.map(lambda d: (-d, d)), features), domain=domain)

    @classmethod
    def l0(cls, k: int, *, features: Any = None, domain: Any = None) -> Attacker:
        """Rewrites at most k features (of `features`) to anything.

        >>> Attacker.l0(2)
        Attacker((-inf, inf), budget=2)
        """
        if k is None:
            raise InvalidInput("k is None; say how many features the attacker may rewrite")
        anything = PerFeature.of_pairs((-math.inf, math.inf), "interval", _as_interval)
        return cls(_only(anything, features), budget=k, domain=domain)

    @classmethod
    def lp(cls, p: float, radius: float, *, features: Any = None, domain: Any = None) -> Attacker:
        """Moves (those of) the features by at most `radius` in the Lp norm; p is a whole number or infinite.

        >>> Attacker.lp(2, 0.1)
        Attacker.lp(2, 0.1)
        """
        if isinstance(p, float) and p == math.inf:
            return cls.linf(radius, features=features, domain=domain)
        if (
            isinstance(p, bool)
            or not isinstance(p, (int, float, np.integer))
            or not 1 <= p <= MOST_POWER
            or p != int(p)
        ):
            raise InvalidInput(
                f"p must be a whole number from 1 to {MOST_POWER}, or infinite, got {p!r}; for L0 use Attacker.l0"
            )
        reach = _as_reach(radius)
        if math.isinf(reach):
            raise InvalidInput("an Lp radius must be finite; an attacker without limits is Attacker((-inf, inf))")
        attacker = cls.__new__(cls)
        box = PerFeature.of_pairs((-reach, reach), "interval", _as_interval)
        attacker._set(_only(box, features), 1, None, domain, int(p), reach)
        return attacker

    @property
    def n_features(self) -> int | None:
        """The width that lists in the attacker ask for; None where it fits any model."""
        for values in (self.intervals, self.costs, self.domain):
            if values is not None and values.n_features is not None:
                return values.n_features
        return None

    def bind(self, ensemble: Ensemble) -> Threat:
        """The attacker as arrays over the features of one model."""
        if self.n_features not in (None, ensemble.n_features):
            raise InvalidInput(
                f"attacker has {self.n_features} features, model has {ensemble.n_features}; "
                "give one interval for all features, or one per feature"
            )
        reach = np.array(self.intervals.bind(ensemble, (0.0, 0.0)), dtype=np.float64)
        # An untouchable feature costs nothing, so that it never counts against a budget.
        untouchable = (reach == 0).all(axis=1)
        cost = np.where(untouchable, 0, np.array(self.costs.bind(ensemble, 1), dtype=np.int64))
        total = int(cost.sum())
        low, high = ensemble.value_low, ensemble.value_high
        if self.domain is not None:
            given = np.array(self.domain.bind(ensemble, (-math.inf, math.inf)), dtype=np.float64)
            low, high = np.maximum(low, given[:, 0]), np.minimum(high, given[:, 1])
            if not (low <= high).all():
                f = int(np.argmin(low <= high))
                raise InvalidInput(
                    f"the domain of feature {ensemble.feature_name(f)} has no number that the model takes"
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
        )

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
        text = json.dumps(content, allow_nan=False)
        if path is not None:
            write_whole(as_path(path), text)
        return text

    @classmethod
    def from_json(cls, source: str | os.PathLike[str], *, budget: int | None = None) -> Attacker:
        """The attacker of a JSON file: treeproof's own, or the paper authors' list of features.

        The authors' file is `[[left, right, left_open, right_open, cost], …]`, one entry per feature, and says
        nothing of the budget: give it here. `source` is a path, or JSON text that begins with `{` or `[`.
        """
        text, where = _read_source(source)
        try:
            content = json.loads(text)
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
        if content.get("version") != VERSION:
            raise InvalidInput(
                f"{where} has version {content.get('version')!r}; this treeproof reads version {VERSION}"
            )
        if content.keys() != fields:
            raise InvalidInput(f"{where} has unknown or missing fields: {', '.join(sorted(content.keys() ^ fields))}")
        intervals = PerFeature.from_json(content["intervals"], "interval", _interval_from_json)
        domain = content["domain"]
        if domain is not None:
            domain = PerFeature.from_json(domain, "domain", _interval_from_json)
        costs = PerFeature.from_json(content["costs"], "cost", _as_cost)
        if content["power"] is None and content["radius"] == 0:
            return cls(intervals, costs=costs, budget=content["budget"], domain=domain)
        attacker = cls.lp(content["power"], content["radius"], features=intervals.keys, domain=domain)
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
                if is_open and not (isinstance(end, float) and math.isinf(end)):
                    raise InvalidInput(
                        f"{where}, entry {number}: the end {end!r} is open; treeproof's intervals are closed"
                    )
            intervals.append((low, high))
            costs.append(cost)
        if not rows:
            raise InvalidInput(f"{where} lists no feature")
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
        return f"Attacker{'' if self.power is None else '.lp'}({', '.join(parts)})"


@dataclass(frozen=True, eq=False)
class Threat:
    """An attacker bound to a model: arrays over its features. Values stay inside [domain_low, domain_high]."""

    low: FloatArray
    high: FloatArray
    cost: npt.NDArray[np.int64]
    budget: int
    domain_low: FloatArray
    domain_high: FloatArray
    power: int | None
    radius: float

    def equals(self, other: Threat) -> bool:
        """Whether both can do the same to every feature."""
        return all(np.array_equal(getattr(self, one.name), getattr(other, one.name)) for one in fields(self))

    def neighbourhood(self, X: FloatArray, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest double of N(x) per entry of X (n, n_features); NaN stays NaN."""
        low = np.maximum(add_up(X, -epsilon), self.domain_low)
        return low, np.minimum(add_down(X, epsilon), self.domain_high)

    def reach(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lowest and highest double that a move out of [low, high] can end at, per entry."""
        below = np.maximum(add_up(low, self.low), self.domain_low)
        return below, np.minimum(add_down(high, self.high), self.domain_high)

    def check_domain(self, X: FloatArray, ensemble: Ensemble) -> None:
        """Refuses rows that lie outside the domain themselves."""
        outside = (self.domain_low > X) | (self.domain_high < X)
        if outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            raise InvalidInput(
                f"row {row}, column {ensemble.feature_name(column)}: {X[row, column]} lies outside the attacker's "
                f"domain ({self.domain_low[column]}, {self.domain_high[column]})"
            )


@dataclass(frozen=True, eq=False)
class Prices:
    """Per feature and cell the least the attacker must pay to bring the feature from N(x) into the cell.

    `M(x)`, the union of A(z) over z in N(x), is exactly the set of cell vectors whose prices add up to at most
    the budget. Prices of a cost-and-budget attacker are exact whole numbers. Those of an Lp attacker are
    `distance**p`; `low` and `high` enclose them, and `exact` has the rational number. A NaN feature has no price:
    it stays NaN.
    """

    low: FloatArray
    high: FloatArray
    offsets: npt.NDArray[np.int64]
    budget: Fraction
    exact: dict[tuple[int, int], Fraction]
    """Only cells the attacker can reach at all; a NaN feature has the one cell -1."""

    def of(self, feature: int) -> FloatArray:
        """The lower prices of one feature's cells."""
        return self.low[self.offsets[feature] : self.offsets[feature + 1]]

    def affordable(self, cells: npt.ArrayLike) -> bool:
        """Whether this cell vector (NaN features: -1) is in M(x); exact."""
        vector = np.asarray(cells).tolist()
        if len(vector) != len(self.offsets) - 1:
            raise InvalidInput(f"{len(vector)} cells for {len(self.offsets) - 1} features")
        prices = [self.exact.get((feature, cell)) for feature, cell in enumerate(vector)]
        return None not in prices and sum(prices) <= self.budget  # type: ignore[arg-type]


def bind_epsilon(epsilon: Any, ensemble: Ensemble) -> FloatArray:
    """ε per feature: one number, one per feature, or {feature: number}, where features not named have 0."""
    spec = PerFeature.of_numbers(epsilon, "epsilon", _as_reach)
    if spec.n_features not in (None, ensemble.n_features):
        raise InvalidInput(f"epsilon has {spec.n_features} entries, the model has {ensemble.n_features} features")
    return np.array(spec.bind(ensemble, 0.0), dtype=np.float64)


def price_table(threat: Threat, ensemble: Ensemble, x: npt.ArrayLike, epsilon: Any = 0.0) -> Prices:
    """The price table of one row: section "prices" of docs/theory.md, cell by cell.

    >>> from treeproof import from_model
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> clf = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    >>> threat = Attacker((-0.2, 0.2), costs=3).bind(from_model(clf))
    >>> price_table(threat, from_model(clf), [0.6]).of(0).tolist()
    [3.0, 0.0]
    """
    rows = ensemble.check_rows([x])  # type: ignore[arg-type]
    threat.check_domain(rows, ensemble)
    low, high = threat.neighbourhood(rows, bind_epsilon(epsilon, ensemble))
    return price_table_of_box(threat, ensemble, low[0], high[0])


def price_table_of_box(threat: Threat, ensemble: Ensemble, low: FloatArray, high: FloatArray) -> Prices:
    """The price table of the neighbours from `low` to `high`; NaN on both sides is a missing value."""
    grid = ensemble.grid
    offsets = np.concatenate(([0], np.cumsum(grid.n_cells)))
    lower, upper = np.full(offsets[-1], np.inf), np.full(offsets[-1], np.inf)
    exact: dict[tuple[int, int], Fraction] = {}
    for f in range(ensemble.n_features):
        box = (float(low[f]), float(high[f]))
        if math.isnan(box[0]):
            exact[f, NAN_CELL] = Fraction(0)
            continue
        for cell in range(int(grid.n_cells[f])):
            interval = grid.interval(f, cell)
            inside = (
                max(float(next_up(interval.lo)), float(threat.domain_low[f])),
                min(interval.hi, float(threat.domain_high[f])),
            )
            price = _price(threat, f, box, inside)
            if price is not None:
                exact[f, cell] = price
                at = offsets[f] + cell
                lower[at], upper[at] = double_at_most(price), double_at_least(price)
    budget = Fraction(threat.budget) if threat.power is None else Fraction(threat.radius) ** threat.power
    return Prices(lower, upper, offsets.astype(np.int64), budget, exact)


def _price(threat: Threat, f: int, box: tuple[float, float], cell: tuple[float, float]) -> Fraction | None:
    """The least price of a move of feature f from a double of `box` to one of `cell`; None if there is none."""
    if cell[0] > cell[1]:
        return None
    if cell[0] <= box[1] and box[0] <= cell[1]:
        return Fraction(0)
    if threat.power is not None:
        distance = Fraction(cell[0]) - Fraction(box[1]) if cell[0] > box[1] else Fraction(box[0]) - Fraction(cell[1])
        return distance**threat.power if threat.high[f] > 0 else None
    moved = some_move(box, cell, (float(threat.low[f]), float(threat.high[f])))
    return None if moved is None else Fraction(int(threat.cost[f]))


def _only(intervals: PerFeature[tuple[float, float]], features: Any) -> PerFeature[tuple[float, float]]:
    """Those intervals on the given features only, every other feature untouchable."""
    if features is None:
        return intervals
    if intervals.keys is not None or intervals.n_features is not None:
        raise InvalidInput(
            "features= restricts one number that is meant for all; leave it out where features are named"
        )
    names = [features] if np.ndim(features) == 0 else list(features)
    if not names:
        raise InvalidInput("features= is empty: the attacker could do nothing; leave it out for all features")
    return PerFeature.of_pairs(dict.fromkeys(names, intervals.values[0]), "interval", _as_interval)


def _as_interval(value: Any, where: str) -> tuple[float, float]:
    low, high = as_pair(value, where)
    if low == math.inf or high == -math.inf:
        raise InvalidInput(f"{where} {value!r} holds no finite move")
    return low, high


def _interval_from_json(value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput(f"{where} must be [low, high], got {value!r}")
    low, high = value
    return _as_interval((-math.inf if low is None else low, math.inf if high is None else high), where)


def _pair_to_json(pair: tuple[float, float]) -> list[float | None]:
    return [None if math.isinf(end) else end for end in pair]


def _as_cost(value: Any, where: str) -> int:
    number = as_number(value, where)
    if not 0 <= number <= 2**40 or number != int(number):
        raise InvalidInput(f"{where} must be a whole number of at least 0, got {value!r}; scale fractions up")
    return int(number)


def _as_budget(value: Any) -> int:
    number = as_number(value, "budget")
    if number < 0:
        raise InvalidInput(f"budget must be at least 0, got {value!r}; None means no limit")
    return 2**62 if math.isinf(number) else math.floor(number)


def _as_reach(value: Any, where: str = "radius") -> float:
    number = as_number(value, where)
    if number < 0:
        raise InvalidInput(f"{where} must be at least 0, got {value!r}")
    return number


def _read_source(source: str | os.PathLike[str]) -> tuple[str, str]:
    if isinstance(source, str) and source.lstrip()[:1] in ("{", "["):
        return source, "the attacker"
    try:
        return as_path(source).read_text(encoding="utf-8"), str(source)
    except OSError as error:
        raise InvalidInput(f"cannot read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{source} is not a text file") from None
