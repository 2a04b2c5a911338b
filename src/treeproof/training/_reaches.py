"""What attacks make of rows, in the form in which pairs of rows are compared.

Most columns are ranges: what a value is, and what a move leads to. Where more is to be said (lists of values, matrices,
rules, values that stand for each other), the values that matter are listed, and for each two kinds of values it is
worked out beforehand how they meet, and at which prices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.numbers.decimals import decimal_of, nearest_double
from treeproof.numbers.doubles import LARGEST, FloatArray, add_down, add_up, ordinal
from treeproof.threat.column_moves import ColumnMoves
from treeproof.threat.step_grid import StepGrid
from treeproof.threat.threat import Threat

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

MOST_KINDS = 1024
"""Of values in a listed column."""
MOST_LISTED = 2048
"""Different values of a column whose chains of rules are followed one by one, or whose missing values are filled."""
MOST_PRICES = 2 * 10**7
"""Of a listed column, for all its values."""
MOST_BUDGET = 4096
"""Budgets are counted in units of which they hold no more."""


def connected(threat: Threat, sizes: FloatArray, X: FloatArray) -> FloatArray:
    """The sizes of neighbourhoods, 0 in columns where single moves do not connect all neighbours of a row.

    In what is left, a resilient model has one label on all that attacks reach (docs/theory.md).
    """
    low, high = threat.neighbourhood(X, sizes)
    kept = [sizes[f] if _connects(threat, f, low[:, f], high[:, f]) else 0.0 for f in range(len(sizes))]
    return np.array(kept)


def _connects(threat: Threat, f: int, low: FloatArray, high: FloatArray) -> bool:
    """Whether the attacker can always move feature f alone to the next neighbour, or back; with a goal, both."""
    several = low < high
    if not several.any():
        return True
    moves = threat.moves_of(f)
    if moves.alike:
        return all(_any_to_any(moves, np.array(values), _most(threat, f), bool(threat.goal)) for values in moves.alike)
    if moves.interval is None or moves.ends is not None or moves.costs is not None or moves.rules:
        return False
    least, most = moves.interval
    if threat.power is None and not (moves.cost <= _most(threat, f) and least <= 0 <= most):
        return False
    # The widest step between two neighbours.
    gap = np.spacing(max(np.abs(low[several]).max(), np.abs(high[several]).max()))
    step = Fraction(float(gap)) if moves.step is None else moves.step
    exactly = Fraction if moves.step is None else decimal_of
    if threat.power is not None:
        far = threat.exact_radius * exactly(moves.unit) >= step
        down, up = far and least < 0, far and most > 0
    else:
        down, up = (math.isinf(end) or abs(exactly(end)) >= step for end in (least, most))
    return down and up if threat.goal else down or up


def _any_to_any(moves: ColumnMoves, values: FloatArray, budget: int, both: bool) -> bool:
    """Whether each of these values can become each other one, or at least one of two the other."""
    can = moves.table(values, values, values, values, values, False) <= budget
    return bool((can & can.T if both else can | can.T).all())


def _most(threat: Threat, f: int) -> int:
    """What changing one feature may cost."""
    budgets = [most for group, most in zip(threat.groups, threat.group_budgets, strict=True) if f in group]
    return min([threat.budget, *budgets])


@dataclass(frozen=True, eq=False)
class Bound:
    """Rows with labels, and the attacker and the neighbourhoods they are seen with."""

    X: FloatArray
    label: IntArray
    threat: Threat
    sizes: FloatArray

    @property
    def still(self) -> BoolArray:
        """Rows that nobody attacks, since they have a label that the attacker wants."""
        return np.isin(self.label, self.threat.goal)


@dataclass(frozen=True, eq=False)
class _Column:
    """One column: COLUMN and VALUE of the kernels, and the ways to meet if it is listed."""

    column: npt.NDArray[Any]
    values: npt.NDArray[Any]
    exact: bool
    """Whether it is always known how two values meet; if not, some ways are left out."""
    tables: IntArray | None = None
    """(n_kinds, n_kinds): the number of the ways in which two kinds meet."""
    ways: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def least(self) -> int:
        """What two values that differ pay together at least; an Lp attacker pays no costs."""
        if self.tables is not None:
            return min((one + other for ways in self.ways for one, other in ways), default=_never())
        return int(min(self.column["cost"], self.column["blank"], self.column["fill"]))

    @property
    def span(self) -> tuple[FloatArray, FloatArray] | None:
        """From where to where values can be in rows that meet in this column; None: that tells nothing."""
        if self.tables is not None or min(self.column["blank"], self.column["fill"]) < _never():
            return None
        first = np.minimum(self.values["near_low"], self.values["low"])
        last = np.maximum(self.values["near_high"], self.values["high"])
        # Missing values meet each other.
        return np.where(np.isnan(first), np.inf, first), np.where(np.isnan(last), np.inf, last)


@dataclass(frozen=True, eq=False)
class Meeting:
    """All that the kernels need to know, and how rows were ordered for them."""

    reaches: Any
    order: npt.NDArray[np.int32]
    """The rows, as they were given, in the order of the kernels."""
    exact: bool
    """Whether every two rows that can meet are known to."""

    @classmethod
    def of(cls, bound: Bound, ensemble: Ensemble) -> Meeting:
        """What attacks make of rows."""
        from treeproof._kernels.training.meeting import Reaches

        threat = bound.threat
        near = threat.neighbourhood(bound.X, bound.sizes)
        columns = [_column_of(bound, f, near, ensemble) for f in range(bound.X.shape[1])]
        group = np.full(len(columns), -1)
        for number, features in enumerate(threat.groups):
            group[list(features)] = number
        for f, column in enumerate(columns):
            column.column["group"] = group[f]
        unit, budget, sure = _units(columns, threat)
        columns = _by_overlap(columns)
        span = next((column.span for column in columns if column.span is not None), None)
        first, last = (np.zeros(len(bound.X)),) * 2 if span is None else span
        order = np.argsort(first, kind="stable").astype(np.int32)
        side = bound.still.astype(np.int64) if threat.goal else bound.label
        reaches = Reaches(
            values=np.ascontiguousarray(np.stack([column.values for column in columns])[:, order]),
            first=first[order],
            last=last[order],
            label=bound.label[order],
            side=side[order],
            own=_own_numbers(bound.X)[order],
            still=bound.still[order],
            **_tables(columns, unit),
            budget=budget,
            group_budget=np.array([most // unit for most in threat.group_budgets], dtype=np.int64),
            power=threat.power or 0,
            error=(4 * (threat.power or 0) + len(columns) + 16) * 2.0**-52,
        )
        return cls(reaches, order, sure and all(column.exact for column in columns))


def _never() -> int:
    from treeproof._kernels.training.meeting import NEVER

    return NEVER


def _own_numbers(X: FloatArray) -> IntArray:
    """The same number for rows that are the same."""
    doubles = np.where(np.isnan(X), np.int64(-(2**63)), ordinal(np.where(np.isnan(X), 0.0, X)))
    return np.unique(doubles, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _column_of(bound: Bound, f: int, near: tuple[FloatArray, FloatArray], ensemble: Ensemble) -> _Column:
    moves, x, box = bound.threat.moves_of(f), bound.X[:, f], (near[0][:, f], near[1][:, f])
    if bound.threat.power is not None:
        if moves.step is not None:
            raise InvalidInput(
                f"column {ensemble.feature_name(f)} has steps, and the ceiling knows no Lp attacker with steps",
                argument="attacker",
                way_out="leave the steps out, or give costs and a budget",
            )
        return _of_balls(bound, moves, box)
    alike = bool(moves.alike) and bound.sizes[f] > 0
    if alike or moves.ends is not None or moves.costs is not None or moves.rules:
        return _listed(bound, f, moves, x, box)
    return _of_ranges(bound, f, moves, x, box)


def _blank_column(moves: ColumnMoves, budget: int, **more: Any) -> npt.NDArray[Any]:
    """COLUMN with the prices of a column; those that nobody can pay are none."""
    from treeproof._kernels.training.meeting import COLUMN, NEVER

    column = np.zeros((), dtype=COLUMN)
    moved = None if moves.interval is None else moves.cost
    prices = {"cost": moved, "blank": moves.blank, "fill": moves.fill}
    for name, price in prices.items():
        column[name] = NEVER if price is None or price > budget else price
    column["listed"], column["unit"] = -1, 1.0
    for name, value in more.items():
        column[name] = value
    return column


def _values_of(box: tuple[FloatArray, FloatArray], still: BoolArray) -> npt.NDArray[Any]:
    """VALUE without moves."""
    from treeproof._kernels.training.meeting import MISSING, STILL, VALUE

    values = np.zeros(len(box[0]), dtype=VALUE)
    values["near_low"], values["near_high"], values["low"], values["high"] = *box, np.inf, -np.inf
    values["kind"] = np.where(np.isnan(box[0]), MISSING, 0) + np.where(still, STILL, 0)
    return values


def _of_balls(bound: Bound, moves: ColumnMoves, box: tuple[FloatArray, FloatArray]) -> _Column:
    """A column of an Lp attacker; its ball is as wide as moves, which are rounded outwards, say."""
    unit = nearest_double(bound.threat.exact_radius * Fraction(moves.unit))
    usual = 1e-290 < unit < 1e290
    low, high = moves.interval if moves.interval is not None and usual else (0.0, 0.0)
    values = _values_of(box, bound.still)
    if low < 0 or high > 0:
        goes = ~np.isnan(box[0]) & ~bound.still
        values["low"][goes], values["high"][goes] = add_down(box[0], low)[goes], add_up(box[1], high)[goes]
    column = _blank_column(moves, -1, cost=0, unit=unit if usual else 1.0, up=high > 0, down=low < 0)
    return _Column(column, values, exact=usual or unit == 0)


def _of_ranges(bound: Bound, f: int, moves: ColumnMoves, x: FloatArray, box: tuple[FloatArray, FloatArray]) -> _Column:
    """A column of distances or steps."""
    budget = _most(bound.threat, f)
    values = _values_of(box, bound.still)
    exact = True
    if moves.interval is not None and moves.cost <= budget:
        if moves.step is None:
            first = np.maximum(add_up(box[0], moves.interval[0]), moves.domain[0])
            last = np.minimum(add_down(box[1], moves.interval[1]), moves.domain[1])
        else:
            first, last = _reached_points(moves, x, float(bound.sizes[f]))
        goes = (first <= last) & ~bound.still
        values["low"][goes], values["high"][goes] = first[goes], last[goes]
    if moves.step is not None:
        values["line"], exact = _lines(moves, x, values)
    return _Column(_blank_column(moves, budget), values, exact)


def _reached_points(moves: ColumnMoves, x: FloatArray, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """The first and the last point that moves of a column with steps lead to from neighbours."""
    assert moves.step is not None
    assert moves.interval is not None
    ends = []
    for end, sign in zip(moves.interval, (-1, 1), strict=True):
        if math.isinf(end) or math.isinf(epsilon):
            ends.append(np.full(len(x), sign * LARGEST))
        else:
            # Whole numbers of steps inside the interval, and inside the neighbourhood.
            number = math.floor(sign * decimal_of(end) / moves.step) + math.floor(decimal_of(epsilon) / moves.step)
            ends.append(StepGrid(moves.step).points_from(x, sign * number))
    return moves.points_between(x, ends[0], ends[1])


def _lines(moves: ColumnMoves, x: FloatArray, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], bool]:
    """The grid of each row, and whether points of different grids are surely different doubles."""
    assert moves.step is not None
    lines = StepGrid(moves.step).lines(x)
    line = lines.of_row.astype(np.int32)
    step, base = nearest_double(moves.step), np.sort(lines.base)
    if len(base) == 1:
        return line, not np.isnan(lines.number).any()
    ends = [np.abs(values[name][~np.isnan(values[name])]) for name in ("near_low", "near_high", "low", "high")]
    farthest = max([step, *(end.max() for end in ends if len(end))])
    with np.errstate(over="ignore"):
        nearest = min(np.diff(base).min(), base[0] + step - base[-1])
    return line, not np.isnan(lines.number).any() and nearest > 8 * np.spacing(farthest)


def _listed(bound: Bound, f: int, moves: ColumnMoves, x: FloatArray, box: tuple[FloatArray, FloatArray]) -> _Column:
    """A column where the values that matter are listed."""
    values = _values_of(box, bound.still)
    own, first, line = np.unique(x, return_index=True, return_inverse=True)
    values["line"] = line.reshape(-1)
    budget = _most(bound.threat, f)
    column = _blank_column(moves, -1, listed=0, n_kinds=1)
    targets = _targets(moves, own, bool(bound.sizes[f] > 0))
    # Where there are too many values or kinds, only values that are the same are known to meet.
    values["kind"] = 0
    unknown = _Column(column, values, False, np.zeros((1, 1), dtype=np.int64), ((),))
    if targets is None or len(own) * (len(targets) + 1) > MOST_PRICES:
        return unknown
    rows = own, box[0][first], box[1][first]
    idle = replace(moves, interval=None, ends=None, costs=None, rules=(), blank=None, fill=None)
    prices = np.stack([each.table(*rows, targets, targets, True) for each in (moves, idle)])
    whole = np.where(prices <= budget, prices, _never()).astype(np.int64)
    kinds, number = np.unique(whole.reshape(2 * len(own), -1), axis=0, return_inverse=True)
    if len(kinds) > MOST_KINDS:
        return unknown
    values["kind"] = number.reshape(2, -1)[bound.still.astype(np.int64), values["line"]]
    column["n_kinds"] = len(kinds)
    tables, ways = _ways_to_meet(kinds)
    exact = moves.step is None or not moves.rules or _lines(moves, x, values)[1]
    return _Column(column, values, exact, tables, ways)


def _targets(moves: ColumnMoves, own: FloatArray, has_neighbours: bool) -> FloatArray | None:
    """Values at which any two that can meet do so most cheaply, unless they are the same; None: there are too many.

    Values that stand for each other can also become each other, so all but one of them are ends of moves.
    """
    found: list[Iterable[float]] = [moves.ends or ()]
    if moves.costs is not None:
        found.append(end for _, end in moves.costs)
    anywhere = bool(moves.rules) or (moves.fill is not None and moves.ends is None)
    present = own[~np.isnan(own)]
    if anywhere:
        if len(present) > MOST_LISTED:
            return None
        found.append(present.tolist())
    if moves.rules:
        # Two ranges that share a value share the first value of one of them.
        starts = {(x, x) for x in present.tolist()}
        if has_neighbours:
            starts |= {(x, z) for values in moves.alike for x in values for z in values}
        found += [moves.reached(x, z)[0].tolist() for x, z in starts]
    every = np.unique(np.array([value for values in found for value in values], dtype=np.float64))
    return np.asarray(every[(every >= moves.domain[0]) & (every <= moves.domain[1])])


def _ways_to_meet(prices: IntArray) -> tuple[IntArray, tuple[tuple[tuple[int, int], ...], ...]]:
    """For each two kinds with these prices (n_kinds, n_values) the number of their ways to meet, and these.

    Ways are pairs of prices of which no other is cheaper for both.
    """
    never = _never()
    levels = np.unique([0, *prices[prices < never]])
    tables = np.zeros((len(prices), len(prices)), dtype=np.int64)
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    for kind, own in enumerate(prices):
        least = np.full((len(prices), len(levels)), never)
        for at, level in enumerate(levels):
            there = own == level
            if there.any():
                least[:, at] = prices[:, there].min(axis=1)
        least = np.minimum.accumulate(least, axis=1)
        each, which = np.unique(least, axis=0, return_inverse=True)
        of_each = [_cheapest(levels, others) for others in each.tolist()]
        found = np.array([numbers.setdefault(ways, len(numbers)) for ways in of_each])
        tables[kind] = found[which.reshape(-1)]
    return tables, tuple(numbers)


def _cheapest(levels: IntArray, others: list[int]) -> tuple[tuple[int, int], ...]:
    """The ways (level, least price of the other) that cost the other less than all with a lower level."""
    before = [_never(), *others[:-1]]
    return tuple(
        (level, other) for level, other, last in zip(levels.tolist(), others, before, strict=True) if other < last
    )


def _units(columns: list[_Column], threat: Threat) -> tuple[int, int, bool]:
    """What prices are counted in, the budget in these units, and whether all prices are whole numbers of them.

    If they are not, prices are rounded up and budgets down: then some rows that meet are not known to.
    """
    never = _never()
    dearest, prices = 0, {0}
    for column in columns:
        own = {int(column.column[name]) for name in ("cost", "blank", "fill")}
        own |= {price for ways in column.ways for way in ways for price in way}
        own = {price for price in own if price < never}
        prices |= own
        dearest += max(own, default=0)
    if not threat.groups and dearest <= threat.budget:
        # All that can be done can be paid for: each price is one unit at most.
        return max(dearest, 1), len(columns), True
    common = math.gcd(*prices) or 1
    budget = min(threat.budget, dearest)
    unit = common * max(1, math.ceil(budget / common / MOST_BUDGET))
    return unit, budget // unit, unit == common


def _tables(columns: list[_Column], unit: int) -> dict[str, Any]:
    """What the kernels know of columns, with all prices in units."""
    never = _never()
    heads, n_tables = np.stack([column.column for column in columns]), 0
    tables: list[IntArray] = []
    ways: list[tuple[tuple[int, int], ...]] = []
    for name in ("cost", "blank", "fill"):
        heads[name] = np.where(heads[name] < never, -(-heads[name] // unit), never)
    for head, column in zip(heads, columns, strict=True):
        if column.tables is not None:
            head["listed"] = n_tables
            tables.append(column.tables.reshape(-1) + len(ways))
            n_tables += column.tables.size
            ways += column.ways
    heads["least"] = [min(column.least, never) // unit for column in columns]
    begin = np.cumsum([0, *map(len, ways)])
    flat = [(-(-one // unit), -(-other // unit)) for each in ways for one, other in each]
    return {
        "columns": heads,
        "tables": np.concatenate([*tables, np.zeros(0, dtype=np.int64)]),
        "begin": begin.astype(np.int64),
        "ways": np.array(flat, dtype=np.int64).reshape(-1, 2),
    }


def _by_overlap(columns: list[_Column]) -> list[_Column]:
    """The columns, first those in which the fewest pairs of rows meet."""

    def overlapping(column: _Column) -> float:
        if column.span is None:
            return math.inf
        first, last = column.span
        apart = len(first) - np.searchsorted(np.sort(first), last, side="right")
        return -float(apart.sum())

    return sorted(columns, key=overlapping)
