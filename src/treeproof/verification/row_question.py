"""What is asked about one box of neighbours of a row, where rows must be valid.

The cells of columns in relations are cut so that each tells what its values cost; and when a search has found cells,
the question is whether they hold a pair of valid rows, which the attacker can pay for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treeproof.model.pieces import Pieces
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import LARGEST, FloatArray, next_down, next_up
from treeproof.threat.relations import ColumnLiteral, Linear, Literal
from treeproof.threat.step_grid import StepGrid
from treeproof.verification import joint
from treeproof.verification.joint import Feasibility
from treeproof.verification.local_search import Local, price_of_attack
from treeproof.verification.pair_clauses import clauses_over, features_of
from treeproof.verification.space import Clause

if TYPE_CHECKING:
    from treeproof.verification.valid_rows import Columns

TRACE = 2.0**-41
"""The share of a distance up to which the cheapest row is looked for."""
FREE = (-math.inf, math.inf)
"""Any distance."""


@dataclass(frozen=True, eq=False)
class Box:
    """Neighbours from `low` to `high`; `here` is one of them, whose label is held against the others.

    `conflicts` are conditions without which no row of a pair (z, w) with z in the box is valid.
    """

    low: FloatArray
    high: FloatArray
    here: FloatArray
    conflicts: tuple[Clause, ...] = ()
    cuts: tuple[tuple[int, float], ...] = ()
    """Where else columns are cut, so that cells say what their values cost."""
    part_number: int = 0
    """The number of the part of N(x) that it is, in a proof."""
    reasons: tuple[bytes | None, ...] = ()
    """For each conflict what proves it; None: that is not known."""

    def with_conflict(self, conflict: Clause, reason: bytes | None = None) -> Box:
        """The same with one more conflict, and what proves it."""
        return replace(self, conflicts=(*self.conflicts, conflict), reasons=(*self.reasons, reason))

    def part(self, f: int, low: float, high: float) -> Box:
        """The neighbours with a column in this range."""
        lows, highs, here = self.low.copy(), self.high.copy(), self.here.copy()
        lows[f], highs[f], here[f] = low, high, min(max(float(here[f]), low), high)
        return replace(self, low=lows, high=highs, here=here)


@dataclass(frozen=True, eq=False)
class Pair:
    """A neighbour and an attacked row, or why there are none in cells: `conflict`; all None if that is not known."""

    z: FloatArray | None = None
    w: FloatArray | None = None
    conflict: Clause | None = None
    is_cheapest: bool = True
    """Whether no pair in these cells is cheaper, if that was asked for."""
    finer: tuple[Box, ...] = ()
    """Boxes to ask about instead, whose cells say more."""


@dataclass(frozen=True, eq=False)
class CellPair:
    """Pairs of rows in cells: `variables`, each a column of z, of w, or of both, that relations are about."""

    variables: list[joint.Variable]
    z_of: dict[int, int]
    """The variable of each column of z, where it is not missing."""
    w_of: dict[int, int]
    clauses: tuple[joint.Clause, ...]
    """What w keeps."""
    z_clauses: tuple[joint.Clause, ...]
    fixed: tuple[float, ...] | None
    """What z is, if there is no choice."""
    z: FloatArray
    w: FloatArray
    """Rows in the cells, but for what relations say."""
    numbers: frozenset[int]
    """The columns that are not categories, whose cells say enough."""

    def solve(self, nearer: joint.Linear | None = None) -> joint.Answer:
        """Whether there is a pair; `nearer` than some bound says."""
        clauses = self.clauses if nearer is None else (*self.clauses, (nearer,))
        return joint.solve(tuple(self.variables), clauses, self.fixed, self.z_clauses)

    def rows(self, answer: joint.Answer) -> tuple[FloatArray, FloatArray]:
        """The pair of an answer."""
        z, w = self.z.copy(), self.w.copy()
        for f in self.numbers & self.w_of.keys():
            w[f] = answer.w[self.w_of[f]]
        if self.fixed is None:
            for f in self.numbers & self.z_of.keys():
                z[f] = answer.z[self.z_of[f]]
        return z, w


class Question:
    """What is asked about one box of neighbours of a row."""

    def __init__(self, columns: Columns, x: FloatArray, box: Box) -> None:
        self._columns, self._x, self._box = columns, x, box
        self._threat = columns.threat
        self._moves = dict(columns.threat.columns)
        self._categories = dict(columns.ensemble.categories)
        self._is_itself = bool(((box.low == x) & (box.high == x) | np.isnan(x)).all())
        clauses = columns.joint if self._is_itself else (*columns.joint, *columns.clauses)
        self._clauses = clauses
        found = {f for clause in clauses for one in clause for f in features_of(one)}
        self._features = tuple(sorted(found))
        """Columns in relations."""
        self._present = tuple(f for f in self._features if not math.isnan(x[f]))

    @cached_property
    def space(self) -> Any:
        """The cells, with a cut at both ends of N(x) for columns in relations."""
        cuts = []
        for f in self._features:
            more = [cut for g, cut in self._box.cuts if g == f]
            ends = np.concatenate((self._near_ends(f), self._ends(f), more))
            cuts.append((f, np.unique(ends[np.isfinite(ends)])))
        reasons = tuple(reason or b"" for reason in self._box.reasons)
        return self._columns.space.refined(self._box.conflicts, tuple(cuts), watched=True, reasons=reasons)

    def _near_ends(self, f: int) -> FloatArray:
        return np.array([next_down(self._box.low[f]), self._box.high[f]])

    def _ends(self, f: int) -> FloatArray:
        """Cuts on both sides of the doubles that moves of a number may end at, and of ranges that rules lead to."""
        moves = self._moves.get(f)
        if f in self._categories:
            return self._told_apart(f)
        if moves is None:
            return np.empty(0)
        first = np.array([end for _, end in moves.costs or ()] + list(moves.ends or ()))
        last = first
        if moves.rules and self._start_is_known(f) and not math.isnan(self._x[f]):
            first, last = moves.reached(float(self._x[f]), float(self._box.low[f]))
        return np.concatenate((next_down(first), last))

    def _told_apart(self, f: int) -> FloatArray:
        """Cuts between the values of a category that relations tell apart; its cells then say enough."""
        literals = [one for clause in self._clauses for one in clause if f in features_of(one)]
        if any(isinstance(one, Linear) for one in literals):
            return self._categories[f].known()
        return np.array([cut for one in literals if isinstance(one, ColumnLiteral) for cut in one.where.cuts])

    def _start_is_known(self, f: int) -> bool:
        """Whether all neighbours share the value of a column."""
        return bool(self._box.low[f] == self._box.high[f] or math.isnan(self._x[f]))

    @cached_property
    def sums(self) -> Any:
        """The sums that w keeps for sure, with the values that each cell can have.

        The first is empty and says nothing: where there are sums, a search keeps the cells around what it finds.
        """
        from treeproof._kernels.search.region import CELLS
        from treeproof._kernels.search.sums import ROUNDING, Sums

        certain = [clause[0] for clause in self._columns.joint if len(clause) == 1 and isinstance(clause[0], Linear)]
        terms = [(), *(one.terms for one in certain)]
        lowest, highest = self.space.cell_ends
        low, high = lowest.copy(), highest.copy()
        reach = self._reach
        for f in self._present:
            cells = slice(self.space.start[f], self.space.start[f + 1])
            low[cells], high[cells] = np.maximum(low[cells], reach[0][f]), np.minimum(high[cells], reach[1][f])
        missing = np.full(self._columns.ensemble.n_features, -1)
        blanks = list(self.space.blanks)
        missing[blanks] = np.diff(self.space.start)[blanks] - 1
        return Sums(
            np.concatenate(([0], np.cumsum([len(one) for one in terms]))).astype(np.int64),
            np.array([f for one in terms for f, _ in one], dtype=np.int64),
            np.array([float(factor) for one in terms for _, factor in one]),
            np.array([0.0, *(float(one.bound) for one in certain)]),
            np.array([0.0, *(0.0 if _is_order(one) else ROUNDING for one in certain)]),
            low,
            high,
            missing,
            np.zeros(self._columns.ensemble.n_features, CELLS),
        )

    @cached_property
    def _reach(self) -> tuple[FloatArray, FloatArray]:
        """The least and the greatest double that each column can have in w."""
        low, high, threat = self._box.low, self._box.high, self._threat
        reach = threat.reach(low[None], high[None])
        least, greatest = np.fmin(low, reach[0][0]), np.fmax(high, reach[1][0])
        for f, moves in threat.columns:
            # An Lp attacker may be able to go only up, or only down.
            ends = moves.interval if threat.power is not None and moves.interval is not None else FREE
            least[f] = threat.domain_low[f] if ends[0] < 0 else low[f]
            greatest[f] = threat.domain_high[f] if ends[1] > 0 else high[f]
        return np.maximum(least, threat.domain_low), np.minimum(greatest, threat.domain_high)

    def pair(self, local: Local, cells: npt.NDArray[np.int32]) -> Pair:
        """A pair of rows in the cells that a search found."""
        # Values of N(x) may be paid for as well: w need not be z there.
        optional = [f for f in self._features if self._may_be_paid(f, local)]
        cell_pair = self._cell_pair(local, cells, optional, loose=True)
        answer = cell_pair.solve()
        if answer.outcome == Feasibility.INFEASIBLE:
            return Pair(conflict=self._conflict(answer, cell_pair, local, cells))
        is_known, is_sum = True, self._is_itself and self._threat.power == 1
        for paid in _subsets(optional):
            cell_pair = self._cell_pair(local, cells, paid)
            answer = cell_pair.solve(self._within_radius(cell_pair) if is_sum else None)
            is_known &= answer.outcome != Feasibility.UNKNOWN
            if answer.outcome == Feasibility.FEASIBLE:
                z, w = cell_pair.rows(answer)
                if self._threat.can_do(self._x, z, w):
                    return Pair(z, w)
        unclear = [] if is_sum else [f for f in self._numbers if not self._is_clear(f, local, f in optional)]
        if unclear:
            return Pair(finer=self._finer(unclear, local))
        return Pair(conflict=self.around(local, cells)) if is_known else Pair()

    @property
    def _numbers(self) -> list[int]:
        return [f for f in self._features if f not in self._categories]

    def _may_be_paid(self, f: int, local: Local) -> bool:
        """Whether cells in N(x) can be paid for, too."""
        end = self._end(f, local)
        if end is None or f in self._categories or self._start_is_known(f) or not self._threat.movable[f]:
            return False
        moves = self._moves.get(f)
        listed = None if moves is None or moves.costs is None else {to for _, to in moves.costs}
        listed = set(moves.ends) if moves is not None and listed is None and moves.ends is not None else listed
        return self._is_near(f, end) and (listed is None or end[0] in listed)

    def _is_near(self, f: int, end: tuple[float, float]) -> bool:
        """Whether all of a cell belongs to N(x)."""
        return bool(self._box.low[f] <= end[0] <= end[1] <= self._box.high[f])

    def _is_clear(self, f: int, local: Local, may_be_paid: bool) -> bool:
        """Whether the box and the cell say what a column costs, if it is paid for."""
        end, moves = self._end(f, local), self._moves.get(f)
        if end is None or math.isnan(self._x[f]) or (self._is_near(f, end) and not may_be_paid):
            return True
        if self._threat.power is not None:
            return self._start_is_known(f) and self._n_points(f, end) == 1
        if moves is None or (moves.costs is None and not moves.rules):
            return True
        if moves.rules or self._start_is_known(f):
            return self._start_is_known(f)
        return not self._starts(f)

    def _starts(self, f: int) -> list[float]:
        """The neighbours at which moves of a matrix start."""
        starts = {start for start, _ in self._moves[f].costs or ()}
        return sorted(start for start in starts if self._box.low[f] <= start <= self._box.high[f])

    def _n_points(self, f: int, ends: tuple[float, float]) -> float:
        """How many values a column may have in a range."""
        if ends[0] == ends[1]:
            return 1
        if f not in self._columns.steps:
            return math.inf
        first, last = StepGrid(self._columns.steps[f]).numbers(float(self._x[f]), *ends)
        return last - first + 1

    def _finer(self, unclear: list[int], local: Local) -> tuple[Box, ...]:
        """The box in parts, or with one more cut, so that a column costs less than one thing or another."""
        box = self._box
        for f in unclear:
            near, moves = (float(box.low[f]), float(box.high[f])), self._moves.get(f)
            if moves is not None and moves.costs is not None:
                start = self._starts(f)[0]
                ends = (near[0], float(next_down(start))), (start, start), (float(next_up(start)), near[1])
                return tuple(box.part(f, *each) for each in ends if each[0] <= each[1])
            if not self._start_is_known(f) and f in self._columns.steps:
                grid, own = StepGrid(self._columns.steps[f]), float(self._x[f])
                first, last = grid.numbers(own, *near)
                halves = (first, (first + last) // 2), ((first + last) // 2 + 1, last)
                return tuple(box.part(f, grid.point(own, a), grid.point(own, b)) for a, b in halves if a <= b)
        cell = self._cut_cell(unclear, local)
        return () if cell is None else (replace(box, cuts=(*box.cuts, cell)),)

    def _cut_cell(self, unclear: list[int], local: Local) -> tuple[int, float] | None:
        """A column and a point of its grid in the middle of its cell; None if there are none."""
        for f in unclear:
            end = self._end(f, local)
            if end is None or math.isnan(self._x[f]) or self._is_near(f, end) or f not in self._columns.steps:
                continue
            grid, own = StepGrid(self._columns.steps[f]), float(self._x[f])
            first, last = grid.numbers(own, *end)
            if first < last:
                return f, grid.point(own, (first + last) // 2)
        return None

    def cheapest(self, local: Local, cells: npt.NDArray[np.int32], least: float) -> Pair:
        """The cheapest row in the cells that a search found, which cost `least` at least."""
        cell_pair = self._cell_pair(local, cells)
        answer = cell_pair.solve()
        if answer.outcome == Feasibility.INFEASIBLE:
            return Pair(conflict=self._conflict(answer, cell_pair, local, cells))
        if answer.outcome == Feasibility.UNKNOWN:
            return Pair(is_cheapest=False)
        _, w = cell_pair.rows(answer)
        price = price_of_attack(self._threat, self._x, w, within=False)
        if price <= least * (1 + TRACE):
            return Pair(self._x, w)
        cut = self._cut_cell(self._numbers, local)
        finer = () if cut is None else (replace(self._box, cuts=(*self._box.cuts, cut)),)
        return Pair(self._x, w, is_cheapest=False, finer=finer)

    def _distance(self, cell_pair: CellPair) -> tuple[tuple[tuple[int, Fraction], ...], Fraction]:
        """The distance from x in L1 in the columns of relations: terms, and what their sum is at x."""
        terms, start = [], Fraction(0)
        for f, k in cell_pair.w_of.items():
            one = cell_pair.variables[k]
            if one.link is not None:
                number = Fraction if one.step is None else decimal_of
                sign = 1 if one.end[0] > self._x[f] else -1
                terms.append((k, sign / number(float(self._threat.unit[f]))))
                start += terms[-1][1] * number(float(self._x[f]))
        return tuple(terms), start

    def _within_radius(self, cell_pair: CellPair) -> joint.Linear | None:
        """What the radius of an L1 attacker leaves for the columns of relations, the others being what they are."""
        w = cell_pair.w.copy()
        places = list(cell_pair.w_of)
        w[places] = self._x[places]
        spent = self._threat.attack_prices(self._x, self._x, w)
        assert spent is not None
        terms, start = self._distance(cell_pair)
        return joint.Linear(terms, self._threat.limit - sum(spent.values()) + start) if terms else None

    def _end(self, f: int, local: Local) -> tuple[float, float] | None:
        """What w may be in the cells around what a search found; None: missing."""
        around, start = local.around[0], self.space.start[f]
        lowest, highest = self.space.cell_ends
        first, last = int(around[f]["low"]), int(around[f]["high"])
        if first < 0 or math.isnan(lowest[start + first]) or math.isnan(highest[start + last]):
            return None
        low, high = float(lowest[start + first]), float(highest[start + last])
        return max(low, float(self._reach[0][f])), min(high, float(self._reach[1][f]))

    def _cell_pair(
        self, local: Local, cells: npt.NDArray[np.int32], paid: Collection[int] = (), loose: bool = False
    ) -> CellPair:
        """The question about pairs of rows in cells; `paid` columns are paid for, or if `loose` may be."""
        box, x = self._box, self._x
        z, w = (one[0] for one in local._doubles(x[None], box.low[None], box.high[None], cells))
        variables: list[joint.Variable] = []
        z_of: dict[int, int] = {}
        w_of: dict[int, int] = {}
        for f in self._features:
            end = None if math.isnan(x[f]) and cells[0, f] < 0 else self._end(f, local)
            near = None if math.isnan(x[f]) else (float(box.low[f]), float(box.high[f]))
            link = None if end is None or near is None else self._link(f, end, f in paid, loose)
            is_pair = end is not None and near is not None and link != FREE
            if end is not None:
                w_of[f] = len(variables)
                variables.append(self._variable(f, (near if is_pair and near else end), end, link if is_pair else FREE))
            if is_pair:
                z_of[f] = w_of[f]
            elif near is not None and not self._is_itself:
                z_of[f] = len(variables)
                variables.append(self._variable(f, near, near, None))
        places = {k: f for f, k in w_of.items()}
        fixed = tuple(float(x[f]) if not math.isnan(x[f]) else 0.0 for _, f in sorted(places.items()))
        return CellPair(
            variables,
            z_of,
            w_of,
            self._over(w_of),
            () if self._is_itself else self._over(z_of),
            fixed if self._is_itself else None,
            z,
            w,
            frozenset(self._numbers),
        )

    def _link(self, f: int, end: tuple[float, float], is_paid: bool, loose: bool) -> tuple[float, float] | None:
        """How far w may be from z; None: they are the same, FREE: that is another matter."""
        if self._is_near(f, end) and not is_paid:
            return None
        moves = self._moves.get(f)
        if f in self._categories:
            return FREE
        if moves is None:
            low, high = float(self._threat.low[f]), float(self._threat.high[f])
        elif moves.interval is None or moves.rules or moves.ends is not None or moves.costs is not None:
            return FREE
        else:
            low, high = moves.interval
        return (min(low, 0.0), max(high, 0.0)) if loose and is_paid else (low, high)

    def _variable(
        self, f: int, near: tuple[float, float], end: tuple[float, float], link: tuple[float, float] | None
    ) -> joint.Variable:
        """A column of the pair."""
        step = Fraction(1) if f in self._categories else self._columns.steps.get(f)
        origin = Fraction(0) if step is None or math.isnan(self._x[f]) else decimal_of(float(self._x[f]))
        variable = joint.Variable(near, end, link, step, origin)
        return replace(variable, origin=decimal_of(end[0])) if step is not None and _is_single(variable) else variable

    def around(self, local: Local, cells: npt.NDArray[np.int32]) -> Clause:
        """A condition that rows outside the cells that a search found meet, and rows that cost less."""
        lowest, highest = self.space.cell_ends
        near, around = self.space.cells(np.stack((self._box.low, self._box.high))), local.around[0]
        literals = []
        for f in np.flatnonzero(cells[0] >= 0).tolist():
            start, cell = self.space.start[f], cells[0, f]
            if f in self._features:
                literals.append(
                    outside(f, float(lowest[start + around[f]["low"]]), float(highest[start + around[f]["high"]]))
                )
            elif not near[0, f] <= cell <= near[1, f]:
                literals.append(outside(f, float(lowest[start + cell]), float(highest[start + cell])))
        return tuple(literals)

    def _over(
        self, number: dict[int, int], clauses: Collection[tuple[Literal, ...]] | None = None
    ) -> tuple[joint.Clause, ...]:
        """Clauses over the variables of a row, whose other columns are missing."""
        return clauses_over(self._clauses if clauses is None else clauses, number, self._columns.steps)

    def _needed_gone(self, number: dict[int, int]) -> list[int]:
        """The columns that are missing in a row where a relation wants them to be there, or something else."""
        literals = [one for clause in self._clauses for one in clause if isinstance(one, ColumnLiteral)]
        return sorted({one.feature for one in literals if not one.missing and one.feature not in number})

    def _conflict(
        self, answer: joint.Answer, cell_pair: CellPair, local: Local, cells: npt.NDArray[np.int32]
    ) -> Clause:
        """A condition that every valid w in reach of the box meets, and no row of the cells that a search found."""
        places = {k: f for f, k in cell_pair.w_of.items()}
        # A listed value need not be on the grid of others.
        listed = {k for k in places if _is_single(cell_pair.variables[k])}
        limits = {k: [-math.inf, math.inf] for k in {*answer.links, *(listed & set(answer.grids))} if k in places}
        for bound in answer.conflict:
            if bound.variable in places:
                limits.setdefault(bound.variable, [-math.inf, math.inf])[bound.side == "end_high"] = bound.value
        literals = [outside(f, math.nan, math.nan) for f in self._needed_gone(cell_pair.w_of)]
        # Whatever it needs of these, the proof needs them to be there.
        literals += [outside(f, *FREE) for f, k in cell_pair.w_of.items() if f in self.space.blanks and k not in limits]
        for k, (low, high) in limits.items():
            f, end = places[k], cell_pair.variables[k].end
            near, is_paid = (float(self._box.low[f]), float(self._box.high[f])), cell_pair.variables[k].link is not None
            # The proof is about values on this side of N(x), or in it.
            if not is_paid:
                low, high = max(low, near[0]), min(high, near[1])
            elif k in listed:
                low, high = end
            elif end[0] > near[1]:
                low = max(low, float(next_up(near[1])))
            elif end[1] < near[0]:
                high = min(high, float(next_down(near[0])))
            if not low <= end[0] <= end[1] <= high:
                return self.around(local, cells)  # so that the search goes on in any case
            literals.append(outside(f, low, high))
        return tuple(literals)


def _is_order(one: Linear) -> bool:
    """Whether a sum says no more than that one column is at most another."""
    return one.bound == 0 and sorted(factor for _, factor in one.terms) == [-1, 1]


def _is_single(variable: joint.Variable) -> bool:
    """Whether a column is brought to one value, from anywhere."""
    return variable.link == FREE and variable.end[0] == variable.end[1]


def outside(f: int, low: float, high: float) -> ColumnLiteral:
    """A condition that values of a column outside [low, high] meet; NaN: that are not missing."""
    if math.isnan(low):
        return ColumnLiteral(f, Pieces.of([], last=True), missing=False)
    parts = [(float(next_down(low)), True)] if low > -LARGEST else []
    last = [(high, False)] if high < LARGEST else []
    return ColumnLiteral(f, Pieces.of([*parts, *last], last=bool(last)))


def _subsets(items: list[int]) -> Iterator[list[int]]:
    """All subsets, the small ones first."""
    for size in range(len(items) + 1):
        yield from map(list, itertools.combinations(items, size))
