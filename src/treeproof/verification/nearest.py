"""The cheapest valid row where prices are distances in L1: cells that a search finds, and the nearest row in them.

That no row in some cells is nearer than the best so far is proved for as many rows as the proof is true of, and these
are left out of the next search. Which side of x a value is on need not be known beforehand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treeproof.model.pieces import Pieces
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import LARGEST, FloatArray, double_at_least, next_down, next_up
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import RowTime
from treeproof.threat.relations import ColumnLiteral, Linear, Literal
from treeproof.threat.relations.bound import linear_holds
from treeproof.verification import joint
from treeproof.verification.joint import Feasibility
from treeproof.verification.local_search import LARGEST_PRICE, NO_CELL, SMALLEST_PRICE, Local, price_of_attack
from treeproof.verification.pair_clauses import features_of
from treeproof.verification.row_question import FREE, TRACE, Box, Question, outside
from treeproof.verification.row_search import RowSearch
from treeproof.verification.space import Clause, Space

if TYPE_CHECKING:
    from treeproof.threat.threat import Threat
    from treeproof.verification.valid_rows import Columns

NEGLIGIBLE = Fraction(1, 2**20)
"""A share of what the dearest column costs: columns that cost less are left out of proofs, if they can be."""
WIDER = (0.1, 0.3, 1.0, 4.0, 32.0)
"""By which shares of the least distance searches go beyond it, one after the other."""


class NearestSearch(RowSearch):
    """Finds the nearest attacks on rows of the columns of a search, in L1."""

    def _cheaper(
        self, x: FloatArray, within: bool, least: float, time: RowTime
    ) -> Iterator[tuple[int, FloatArray, float]]:
        """Whether the nearest attack is known, the row after it, and its distance, the last one; as `RowSearch`."""
        box, best, price, exact = Box(x, x, x, cuts=self._cuts_at(x)), x, math.inf, True
        while (limits := self._rest(time, box)) is not None:
            question = _NearQuestion(self._columns, x, box, self._finer)
            local = Local(self._local.ensemble, self._threat, limits, question.space, question.sums)
            found, w, its_least = self._nearest_cells(local, x, within, least, price)
            least = max(least, its_least)
            if found != Outcome.PROVED or not least < price:
                yield found if exact else Outcome.UNKNOWN, best, price
                return
            if exact and self.valid(w)[0] and (not within or self._threat.can_do(x, x, w[0])):
                yield Outcome.PROVED, w[0], its_least
                return
            cells = local.space.cells(w)
            near = question.nearest(local, cells, price)
            if near.w is not None and (not within or self._threat.can_do(x, x, near.w)):
                its_price = price_of_attack(self._threat, x, near.w, within)
                if its_price < price:
                    best, price = near.w, its_price
                    yield Outcome.UNKNOWN, best, price
            exact &= near.is_proved
            if near.conflict == () or price <= least * (1 + TRACE):
                yield Outcome.PROVED if exact else Outcome.UNKNOWN, best, price
                return
            conflict = question.around(local, cells) if near.conflict is None else near.conflict
            box = replace(box, conflicts=(*box.conflicts, conflict), cuts=(*box.cuts, *question.cuts_at(near.w)))

    @cached_property
    def _sums(self) -> set[Linear]:
        return {one for clause in self._columns.joint for one in clause if isinstance(one, Linear)}

    @cached_property
    def _finer(self) -> Space:
        """Cells that tell what a test on one of two columns in a sum means for the other: then prices say so, too."""
        grid, cuts = self._columns.space.grid, []
        for one in self._sums:
            for (f, mine), other in itertools.permutations(one.terms) if len(one.terms) == 2 else ():
                # The end of each cell of f that leaves more to the other.
                ends = next_up(grid.cuts_of(f)) if mine > 0 else grid.cuts_of(f)
                cuts += _cuts_left(one, mine, ends, *other)
        return _with_cuts(self._columns.space, cuts)

    def _cuts_at(self, x: FloatArray) -> tuple[tuple[int, float], ...]:
        """The same for the values of a row, which are cells of their own: to leave them costs something."""
        numbers = {f for one in self._sums for f, _ in one.terms if not math.isnan(x[f])}
        cuts = [(f, float(cut)) for f in sorted(numbers) for cut in (next_down(x[f]), x[f])]
        for one in self._sums:
            for (f, mine), other in itertools.permutations(one.terms) if len(one.terms) == 2 else ():
                cuts += _cuts_left(one, mine, x[[f]], *other)
        return tuple(cuts)

    def _nearest_cells(
        self, local: Local, x: FloatArray, within: bool, least: float, below: float
    ) -> tuple[int, FloatArray, float]:
        """Whether the nearest cells within some distance are known, the nearest row in them, and how far that is.

        None are nearer than `least`. What is close to that is searched first: searches in which little can be paid are
        short, and without them much is found that is far away.
        """
        row, label = x[None], self._predict(x[None])
        limit = min(double_at_least(self._threat.limit) if within else math.inf, below)
        for more in (*WIDER, math.inf):
            budget = min(least * (1 + more) if least > 0 else math.inf, limit)
            status, cells = local._run(row, row, row, label, row, (), None, None, budget, cheapest=True)
            if status[0] != Outcome.PROVED or cells[0, 0] != NO_CELL or budget == limit:
                break
        self._local.boxes += local.boxes
        if cells[0, 0] == NO_CELL:
            return int(status[0]), row, math.inf
        w = local._doubles(row, row, row, cells)[1]
        least = price_of_attack(self._threat, x, w[0], within=False)
        is_normal = SMALLEST_PRICE < least < LARGEST_PRICE
        return int(status[0]) if is_normal else Outcome.UNKNOWN, w, least


@dataclass(frozen=True, eq=False)
class _Near:
    """The nearest row in cells, if it is nearer than others; and a condition that all that are nearer still meet."""

    w: FloatArray | None
    conflict: Clause | None
    is_proved: bool = True


@dataclass(frozen=True, eq=False)
class _Cells:
    """The rows in cells: `variables` at `places`, the columns that must move and those that relations tie to them."""

    variables: list[joint.Variable]
    places: list[int]
    clauses: tuple[joint.Clause, ...]
    x: FloatArray
    w: FloatArray
    """A row in the cells, but for what relations say."""
    numbers: list[int]
    """The variables that are not categories, whose cells say enough."""

    def solve(self, nearer: _Nearer | None) -> joint.Answer:
        """Whether there is a row; `nearer` than some distance."""
        if nearer is None:
            return joint.solve(tuple(self.variables), self.clauses, self._fixed(0))
        variables, clauses = (*self.variables, *nearer.variables), (*self.clauses, *nearer.clauses, (nearer.price,))
        return joint.solve(variables, clauses, self._fixed(len(nearer.variables)))

    def least(self, nearer: _Nearer) -> Fraction:
        """A distance that no row is below."""
        variables, clauses = (*self.variables, *nearer.variables), (*self.clauses, *nearer.clauses)
        total = joint.least(variables, clauses, nearer.price.terms, self._fixed(len(nearer.variables)))
        return Fraction(0) if total is None else max(total - nearer.start, Fraction(0))

    def _fixed(self, n_more: int) -> tuple[float, ...]:
        return (*self.x[self.places].tolist(), *[0.0] * n_more)

    def row(self, answer: joint.Answer) -> FloatArray:
        """The row of an answer."""
        w: FloatArray = self.w.copy()
        w[[self.places[k] for k in self.numbers]] = [answer.w[k] for k in self.numbers]
        return w


@dataclass(frozen=True, eq=False)
class _Nearer:
    """What rows keep that cost at most so much: `price`, a sum that is `start` at x.

    Its `variables` are distances, behind those of the cells, and `clauses` say so.
    """

    variables: list[joint.Variable]
    clauses: list[joint.Clause]
    price: joint.Linear
    start: Fraction


class _Distance:
    """The distance of rows in cells from x: that of numbers, and what categories cost, the `rest`.

    Elsewhere the rest is not less but for rows that meet `elsewhere`. Only the numbers are counted that make a
    difference so far: the fewer they are, the more rows a proof is about.
    """

    def __init__(self, threat: Threat, cells: _Cells) -> None:
        self._threat, self._cells = threat, cells
        self._moving = [k for k in cells.numbers if cells.variables[k].link is not None]
        self._counted: frozenset[int] = frozenset()
        numbers = [cells.places[k] for k in cells.numbers]
        moved = np.where(np.isin(np.arange(len(cells.x)), numbers), cells.x, cells.w)
        prices = self.of(moved)
        self.rest = sum(prices.values(), Fraction(0))
        self.elsewhere = tuple(_cheaper(threat, cells.x, f, price) for f, price in prices.items())

    def of(self, w: FloatArray) -> dict[int, Fraction]:
        """What each column of a row costs."""
        prices = self._threat.attack_prices(self._cells.x, self._cells.x, w)
        assert prices is not None
        return prices

    def count(self, prices: dict[int, Fraction]) -> bool:
        """Counts the numbers from now on that cost something; whether there are new ones."""
        little = max(prices.values(), default=Fraction(0)) * NEGLIGIBLE
        before, places = self._counted, self._cells.places
        self._counted |= {k for k in self._moving if prices.get(places[k], 0) > little}
        if self._counted == before:
            self._counted = frozenset(self._moving)
        return self._counted != before

    def at_most(self, price: Fraction, count_all: bool = False) -> _Nearer:
        """What rows keep that cost at most so much."""
        variables: list[joint.Variable] = []
        clauses: list[joint.Clause] = []
        terms, start = [], Fraction(0)
        for k in self._moving if count_all else sorted(self._counted):
            one, f = self._cells.variables[k], self._cells.places[k]
            exactly, own = Fraction if one.step is None else decimal_of, float(self._cells.x[f])
            factor, x = 1 / exactly(float(self._threat.unit[f])), exactly(own)
            sign = (one.end[0] > own) - (one.end[1] < own)
            if sign:
                terms.append((k, sign * factor))
                start += sign * factor * x
                continue
            # The distance is at least what w is above x, and below.
            away = len(self._cells.variables) + len(variables)
            variables.append(joint.Variable((0.0, 0.0), (0.0, LARGEST), FREE))
            clauses += [(joint.Linear(((k, s), (away, Fraction(-1))), s * x),) for s in (Fraction(1), Fraction(-1))]
            terms.append((away, factor))
        return _Nearer(variables, clauses, joint.Linear(tuple(terms), price - self.rest + start), start)


class _NearQuestion(Question):
    """What is asked about distances from one row."""

    def __init__(self, columns: Columns, x: FloatArray, box: Box, coarse: Space) -> None:
        super().__init__(columns, x, box)
        self._coarse = coarse

    @cached_property
    def space(self) -> Any:
        """The cells, cut where it helps to tell what they cost."""
        return _with_cuts(self._coarse, self._box.cuts).refined(self._box.conflicts)

    def cuts_at(self, w: FloatArray | None) -> tuple[tuple[int, float], ...]:
        """Cuts where the values of columns in relations begin that are as far from x as those of w."""
        if w is None:
            return ()
        moved = [f for f in self._present if w[f] != self._x[f] and f not in self._categories]
        return tuple((f, float(next_down(w[f]) if w[f] > self._x[f] else w[f])) for f in moved)

    def nearest(self, local: Local, found: npt.NDArray[np.int32], below: float) -> _Near:
        """The row in the cells of a search that is nearest to x, up to a trace, if it is nearer than `below`."""
        cells = self._cells(local, found)
        distance = _Distance(self._threat, cells)
        best, high, low = None, None if math.isinf(below) else Fraction(below), None
        while True:
            answer = cells.solve(None if high is None else distance.at_most(high * (1 - Fraction(TRACE))))
            if answer.outcome == Feasibility.UNKNOWN:
                return _Near(best, None, is_proved=False)
            if answer.outcome == Feasibility.INFEASIBLE:
                return _Near(best, self._why(answer, cells, () if high is None else distance.elsewhere))
            w = cells.row(answer)
            prices = distance.of(w)
            is_nearer = high is None or sum(prices.values()) < high
            if is_nearer:
                # First nearly as near as fractions are, then half way there.
                if low is None:
                    low = cells.least(distance.at_most(Fraction(0), count_all=True)) + distance.rest
                    goal = low * (1 + Fraction(TRACE) / 4)
                else:
                    goal = (low + sum(prices.values())) / 2
                answer = cells.solve(distance.at_most(goal, count_all=True))
                if answer.outcome == Feasibility.FEASIBLE:
                    w = cells.row(answer)
                    prices = distance.of(w)
                else:
                    low = goal
                best, high = w, sum(prices.values(), Fraction(0))
            if not distance.count(prices) and not is_nearer:
                return _Near(best, None, is_proved=False)

    def _cells(self, local: Local, found: npt.NDArray[np.int32]) -> _Cells:
        """The question about rows in cells: of columns that must move, and what relations tie to these."""
        x, row = self._x, self._x[None]
        w = local._doubles(row, row, row, found)[1][0]
        variables = {}
        for f in self._present:
            end = self._end(f, local)
            assert end is not None  # no value becomes missing by a distance
            variables[f] = self._near_variable(f, end)
        lowest, highest = self.space.cell_ends
        for f in np.flatnonzero((w != x) & ~np.isnan(x)).tolist():
            if f not in variables:
                at = self.space.start[f] + int(found[0, f])
                first, last = max(lowest[at], self._reach[0][f]), min(highest[at], self._reach[1][f])
                variables[f] = self._near_variable(f, (float(first), float(last)))
        forced = {f for f, one in variables.items() if not one.end[0] <= x[f] <= one.end[1]}
        clauses = self._clauses_about(forced)
        about = {f for clause in clauses for f in _columns_of(clause)} | forced
        places = [f for f in variables if f in about]
        numbers = [k for k, f in enumerate(places) if f not in self._categories]
        stays = np.array([f not in forced for f in range(len(x))])
        number = {f: k for k, f in enumerate(places)}
        return _Cells(
            [variables[f] for f in places],
            places,
            self._over(number, clauses),
            x,
            np.where(stays, x, w),
            numbers,
        )

    def _near_variable(self, f: int, end: tuple[float, float]) -> joint.Variable:
        """A column of w, in a range; what cannot be moved stays."""
        own = float(self._x[f])
        if not self._threat.movable[f]:
            end = own, own
        link = None if end == (own, own) else FREE
        return self._variable(f, (own, own), end, link)

    def _clauses_about(self, forced: set[int]) -> tuple[tuple[Literal, ...], ...]:
        """The clauses that x breaks, those about columns that cannot stay at x, and those about columns of these."""
        found: list[tuple[Literal, ...]] = []
        features, left = set(forced), dict(self._kept_by_x)
        while some := [c for c, kept in left.items() if not kept or not features.isdisjoint(_columns_of(c))]:
            found += some
            for clause in some:
                del left[clause]
                features |= _columns_of(clause)
        return tuple(found)

    @cached_property
    def _kept_by_x(self) -> dict[tuple[Literal, ...], bool]:
        """Whether the row itself keeps each clause."""
        x, steps = self._x[None], self._columns.steps
        return {
            clause: any(
                linear_holds(one, x, steps)[0] if isinstance(one, Linear) else one.contains(x[:, one.feature])[0]
                for one in clause
            )
            for clause in self._clauses
        }

    def _why(self, answer: joint.Answer, cells: _Cells, elsewhere: Clause) -> Clause | None:
        """A condition that every valid row meets that is near enough; None if rows of the cells meet it, too."""
        limits = {k: [-math.inf, math.inf] for k in answer.links if k < len(cells.places)}
        for bound in answer.conflict:
            if bound.variable < len(cells.places):  # the others are distances, which are never below 0
                limits.setdefault(bound.variable, [-math.inf, math.inf])[bound.side == "end_high"] = bound.value
        literals = []
        for k, (low, high) in limits.items():
            end = cells.variables[k].end
            if cells.variables[k].link is None:
                low, high = max(low, end[0]), min(high, end[1])
            if not low <= end[0] <= end[1] <= high:
                return None
            literals.append(outside(cells.places[k], low, high))
        return (*literals, *elsewhere)


def _cuts_left(one: Linear, mine: Fraction, values: FloatArray, g: int, factor: Fraction) -> list[tuple[int, float]]:
    """Cuts of a column g at what a sum of two leaves for it, if the other column has one of some values."""
    left = (float(one.bound) - float(mine) * values) / float(factor)
    return [(g, cut) for cut in (next_down(left) if factor < 0 else left).tolist() if math.isfinite(cut)]


def _with_cuts(space: Space, cuts: Any) -> Space:
    """The same cells with further cuts, pairs of a column and a double."""
    features = sorted({f for f, _ in cuts} - dict(space.ensemble.categories).keys())
    if not features:
        return space
    return space.refined((), tuple((f, np.unique([cut for g, cut in cuts if g == f])) for f in features))


def _cheaper(threat: Threat, x: FloatArray, f: int, price: Fraction) -> ColumnLiteral:
    """A condition that values of a category meet that cost less than this."""
    own, moves = float(x[f]), threat.moves_of(f)
    codes = range(int(threat.domain_high[f]) + 1)
    prices = (moves.price(own, own, float(code)) for code in codes)
    return ColumnLiteral(f, Pieces.of_codes([one is not None and one < price for one in prices]))


def _columns_of(clause: tuple[Literal, ...]) -> set[int]:
    return {f for one in clause for f in features_of(one)}
