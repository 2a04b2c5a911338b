"""One row after another where rows must be valid: cells that a search finds, and the pairs of rows that they hold.

With relations prices of cells are lower bounds only, unless a cell tells whether its values are paid for: so the cells
of columns in relations are cut at the ends of N(x). Boxes of neighbours with several labels are split between them.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treeproof.model.pieces import Pieces
from treeproof.numbers.doubles import LARGEST, FloatArray, next_down, next_up
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.relations import ColumnLiteral, Linear
from treeproof.threat.relations.bound import linear_holds
from treeproof.verification import joint
from treeproof.verification.joint import Feasibility
from treeproof.verification.local_search import Decisions, Local, price_of_attack
from treeproof.verification.space import Clause, Space

if TYPE_CHECKING:
    from treeproof.verification.valid_rows import Columns

Bools = npt.NDArray[np.bool_]

TRACE = 2.0**-41
"""The share of a distance up to which the cheapest row is looked for."""


@dataclass(frozen=True, eq=False)
class _Box:
    """Neighbours from `low` to `high`; `here` is one of them, whose label is held against the others.

    `conflicts` are conditions without which no row of a pair (z, w) with z in the box is valid.
    """

    low: FloatArray
    high: FloatArray
    here: FloatArray
    conflicts: tuple[Clause, ...] = ()


@dataclass(frozen=True, eq=False)
class _Pair:
    """A neighbour and an attacked row, or why there are none in cells: `conflict`; None if that is not known."""

    z: FloatArray | None = None
    w: FloatArray | None = None
    conflict: Clause | None = None
    is_cheapest: bool = True
    """Whether no pair in these cells is cheaper, if that was asked for."""


class RowSearch:
    """Decides rows of the columns of a search."""

    def __init__(self, columns: Columns, local: Local) -> None:
        self._columns, self._local = columns, local
        self._predict = local.ensemble.predict_index
        self._threat = columns.threat

    # --- all rows at once --------------------------------------------------------------------------------------------

    def answer(
        self,
        which: npt.NDArray[np.int64],
        rows: FloatArray,
        low: FloatArray,
        high: FloatArray,
        labels: npt.NDArray[np.int64],
        answers: Decisions,
    ) -> None:
        """Notes in the answers of these rows what is known about neighbours from `low` to `high`."""
        wanted = np.isin(labels[which], self._threat.goal)
        if len(which) and (low[which] == rows[which]).all() and (high[which] == rows[which]).all():
            which = which[~wanted]  # nobody attacks a row that has a label he wants
            wanted = wanted[~wanted]
        status = np.full(len(rows), Outcome.REFUTED, dtype=np.int64)
        plain = which[~wanted]
        status[plain], cells = self._local._search(low[plain], high[plain], rows[plain], labels[plain])
        refuted = status[plain] == Outcome.REFUTED
        found = plain[refuted]
        z, w = self._local._doubles(rows[found], low[found], high[found], cells[refuted])
        shown = self._is_shown(rows[found], z, w)
        answers.neighbour[found[shown]], answers.attacked[found[shown]] = z[shown], w[shown]
        open_rows = np.concatenate((found[~shown], which[wanted]))
        for row in open_rows.tolist():
            one = slice(row, row + 1)
            outcome, neighbour, attacked = self._decide(rows[row], low[row], high[row])
            status[one], answers.neighbour[one], answers.attacked[one] = outcome, neighbour, attacked
        for outcome in (Outcome.UNKNOWN, Outcome.REFUTED):
            answers.outcome[which[status[which] == outcome]] = outcome

    def _is_shown(self, x: FloatArray, z: FloatArray, w: FloatArray) -> Bools:
        """Which pairs are counterexamples."""
        itself = ((z == x) | np.isnan(x)).all(axis=1)
        shown = self._local.shows(x, z, w)
        return np.asarray(shown & self.valid(w) & (itself | self.valid(z)))

    def valid(self, rows: FloatArray) -> Bools:
        """Which rows keep all relations."""
        kept = np.ones(len(rows), dtype=bool)
        for clause in (*self._columns.clauses, *self._columns.joint):
            some = np.zeros(len(rows), dtype=bool)
            for one in clause:
                if isinstance(one, Linear):
                    some |= linear_holds(one, rows, self._columns.steps)
                else:
                    some |= one.contains(rows[:, one.feature])
            kept &= some
        return kept

    # --- one row -----------------------------------------------------------------------------------------------------

    def _decide(self, x: FloatArray, low: FloatArray, high: FloatArray) -> tuple[int, FloatArray, FloatArray]:
        """The outcome for one row, and a counterexample if it is refuted."""
        todo, unknown, began = [_Box(low, high, x)], False, time.monotonic()
        while todo:
            limits = self._rest(began)
            if limits is None:
                return Outcome.UNKNOWN, x, x
            box = todo.pop()
            here = self._reference(x, box, limits)
            if here is None:
                continue
            status, pair = self._search(x, replace(box, here=here), limits)
            unknown |= status == Outcome.UNKNOWN or (status == Outcome.REFUTED and pair is None)
            if status != Outcome.REFUTED or pair is None:
                continue
            if pair.conflict is not None:
                if len(pair.conflict):
                    todo.append(replace(box, conflicts=(*box.conflicts, pair.conflict)))
                continue
            if pair.z is None or pair.w is None:
                continue
            if self._is_shown(x[None], pair.z[None], pair.w[None])[0]:
                return Outcome.REFUTED, pair.z, pair.w
            parts = self._split(box, here, pair.z)
            unknown |= not parts
            todo += parts
        return Outcome.UNKNOWN if unknown else Outcome.PROVED, x, x

    def cheapest(self, x: FloatArray, within: bool) -> tuple[int, FloatArray, float]:
        """Whether the cheapest attack on a row is known, the row after it, and its price; inf if there is none.

        What cells cost at least is known before it is asked what a valid row in them costs. So the cheapest cells are
        asked about and then left out, until all others cost more than the best row so far.
        """
        box, began, best, price, exact = _Box(x, x, x), time.monotonic(), x, math.inf, True
        while (limits := self._rest(began)) is not None:
            question = _Question(self._columns, x, box)
            local = Local(self._local.ensemble, self._threat, limits, question.space, question.sums)
            found = local.cheapest(x[None], within)
            self._local.boxes += local.boxes
            if found.outcome[0] != Outcome.PROVED or not found.price[0] < price:
                return int(found.outcome[0]) if exact else Outcome.UNKNOWN, best, price
            cells = local.space.cells(found.attacked)
            pair = question.cheapest(local, cells, float(found.price[0]))
            conflict = None if pair is None else pair.conflict
            if pair is not None and pair.w is not None:
                its_price = price_of_attack(self._threat, x, pair.w, within)
                if its_price < price:
                    best, price = pair.w, its_price
                exact &= pair.is_cheapest
            exact &= pair is not None
            if conflict is None:
                conflict = question.around(local, cells)
            if not len(conflict):
                return Outcome.PROVED if exact else Outcome.UNKNOWN, best, price
            box = replace(box, conflicts=(*box.conflicts, conflict))
        return Outcome.UNKNOWN, best, price

    def _rest(self, began: float) -> Limits | None:
        """The limits with what is left of the time for a row; None if nothing is."""
        limits = self._local.limits
        if limits.is_over():
            return None
        if limits.timeout is None:
            return limits
        left = limits.timeout - (time.monotonic() - began)
        return replace(limits, timeout=left) if left > 0 else None

    def _reference(self, x: FloatArray, box: _Box, limits: Limits) -> FloatArray | None:
        """A row of the box with a label that the attacker does not want, or None if there is none."""
        goal = self._threat.goal
        if not goal or self._predict(box.here[None])[0] not in goal:
            return box.here
        if bool(((box.low == box.high) | np.isnan(box.low)).all()):
            return None
        others = tuple(k for k in range(self._local.ensemble.n_classes) if k not in goal)
        idle = self._threat.idle(others)
        space = Space(self._local.ensemble, (*self._columns.clauses, *box.conflicts))
        search = Local(self._local.ensemble, idle, limits, space)
        low, high, here = box.low[None], box.high[None], box.here[None]
        status, cells = search._search(low, high, here, self._predict(here), x[None])
        if status[0] == Outcome.UNKNOWN:
            return box.here
        return search._doubles(x[None], low, high, cells)[0][0] if status[0] == Outcome.REFUTED else None

    def _search(self, x: FloatArray, box: _Box, limits: Limits) -> tuple[int, _Pair | None]:
        """What a search of the cells within reach of a box finds."""
        question = _Question(self._columns, x, box)
        local = Local(self._local.ensemble, self._threat, limits, question.space, question.sums)
        low, high, here = box.low[None], box.high[None], box.here[None]
        status, cells = local._search(low, high, here, self._predict(here), x[None])
        self._local.boxes += local.boxes
        if status[0] != Outcome.REFUTED:
            return int(status[0]), None
        return Outcome.REFUTED, question.pair(local, cells)

    def _split(self, box: _Box, here: FloatArray, there: FloatArray) -> list[_Box]:
        """Both sides of a test between two rows of the box with different labels."""
        grid = self._local.ensemble.grid
        features = np.flatnonzero((here != there) & ~np.isnan(here) & ~np.isnan(there)).tolist()
        way = np.repeat(here[None], len(features) + 1, axis=0)
        for k, f in enumerate(features):
            way[k + 1 :, f] = there[f]
        labels = self._predict(way)
        changes = np.flatnonzero(labels[1:] != labels[:-1])
        if not len(changes):
            return []
        f = features[int(changes[0])]
        cuts = grid.cuts_of(f)
        low, high = sorted((float(here[f]), float(there[f])))
        between = cuts[(cuts >= low) & (cuts < high)]
        rows = np.repeat(way[changes[0]][None], len(between) + 1, axis=0)
        rows[:-1, f], rows[-1, f] = between, high
        labels = self._predict(rows)
        cut = float(between[np.flatnonzero(labels[1:] != labels[:-1])[0]])
        below, above = box.high.copy(), box.low.copy()
        below[f], above[f] = cut, float(next_up(cut))
        first, second = (here, there) if here[f] <= cut else (there, here)
        return [replace(box, high=below, here=first), replace(box, low=above, here=second)]


@dataclass(frozen=True, eq=False)
class _CellPair:
    """Pairs of rows in cells: `variables` at `places`, those columns that relations are about."""

    variables: list[joint.Variable]
    places: list[int]
    clauses: tuple[joint.Clause, ...]
    fixed: tuple[float, ...] | None
    """What z is, if there is no choice."""
    z: FloatArray
    w: FloatArray
    """Rows in the cells, but for what relations say."""
    numbers: list[int]
    """The variables that are not categories, whose cells say enough."""

    def solve(self, variables: list[joint.Variable] | None = None, nearer: joint.Linear | None = None) -> joint.Answer:
        """Whether there is a pair; of other variables, or `nearer` than some bound says."""
        clauses = self.clauses if nearer is None else (*self.clauses, (nearer,))
        return joint.solve(tuple(self.variables if variables is None else variables), clauses, self.fixed)

    def rows(self, answer: joint.Answer) -> tuple[FloatArray, FloatArray]:
        """The pair of an answer."""
        z, w = self.z.copy(), self.w.copy()
        at = [self.places[k] for k in self.numbers]
        w[at] = [answer.w[k] for k in self.numbers]
        z[at] = [answer.z[k] for k in self.numbers] if self.fixed is None else [self.fixed[k] for k in self.numbers]
        return z, w


class _Question:
    """What is asked about one box of neighbours of a row."""

    def __init__(self, columns: Columns, x: FloatArray, box: _Box) -> None:
        self._columns, self._x, self._box = columns, x, box
        self._threat = columns.threat
        self._is_itself = bool(((box.low == x) & (box.high == x) | np.isnan(x)).all())
        clauses = columns.joint if self._is_itself else (*columns.joint, *columns.clauses)
        self._clauses = clauses
        found = {f for clause in clauses for one in clause for f in _features(one)}
        self._features = tuple(sorted(found))
        """Columns in relations."""
        self._present = tuple(f for f in self._features if not math.isnan(x[f]))

    @cached_property
    def space(self) -> Any:
        """The cells, with a cut at both ends of N(x) for columns in relations."""
        cuts = []
        for f in self._present:
            ends = np.array([next_down(self._box.low[f]), self._box.high[f]])
            ends = np.concatenate((ends, self._ends(f)))
            cuts.append((f, np.unique(ends[np.isfinite(ends)])))
        return self._columns.space.refined(self._box.conflicts, tuple(cuts), watched=True)

    def _ends(self, f: int) -> FloatArray:
        """Cuts on both sides of the doubles that moves of a number may end at."""
        moves = dict(self._threat.columns).get(f)
        if moves is None or moves.ends is None or f in dict(self._columns.ensemble.categories):
            return np.empty(0)
        ends = np.array(moves.ends)
        return np.concatenate((next_down(ends), ends))

    @cached_property
    def sums(self) -> Any:
        """The sums that w keeps for sure, with the values that each cell can have.

        The first is empty and says nothing: where there are sums, a search keeps the cells around what it finds.
        """
        from treeproof._kernels.search.region import CELLS
        from treeproof._kernels.search.sums import Sums

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
        for f, _ in threat.columns:
            least[f], greatest[f] = threat.domain_low[f], threat.domain_high[f]
        return np.maximum(least, threat.domain_low), np.minimum(greatest, threat.domain_high)

    def pair(self, local: Local, cells: npt.NDArray[np.int32]) -> _Pair | None:
        """A pair of rows in the cells that a search found; None if nobody knows whether there is one."""
        cell_pair = self._cell_pair(local, cells)
        # Values of N(x) may be paid for as well: w need not be z there.
        tight = cell_pair.variables
        loose = [self._loosened(f, one) for f, one in zip(cell_pair.places, tight, strict=True)]
        optional = [k for k, one in enumerate(loose) if one is not tight[k]]
        answer = cell_pair.solve(loose)
        if answer.outcome == Feasibility.INFEASIBLE:
            return _Pair(conflict=self._conflict(answer, cell_pair))
        is_known = True
        for paid in [optional, *_subsets(optional)] if optional else [[]]:
            if paid is not optional:
                answer = cell_pair.solve([loose[k] if k in paid else one for k, one in enumerate(tight)])
            is_known &= answer.outcome != Feasibility.UNKNOWN
            if answer.outcome == Feasibility.FEASIBLE:
                z, w = cell_pair.rows(answer)
                prices = self._threat.attack_prices(self._x, z, w)
                if prices is not None and self._threat.can_pay(prices):
                    return _Pair(z, w)
        if not is_known or not self._knows_prices(cell_pair):
            return None
        return _Pair(conflict=self.around(local, cells))

    def _knows_prices(self, cell_pair: _CellPair) -> bool:
        """Whether what a pair costs depends only on which columns are paid for."""
        moves = dict(self._threat.columns)
        numbers = [cell_pair.places[k] for k in cell_pair.numbers]
        return self._threat.power is None and not any(f in moves and moves[f].rules for f in numbers)

    def cheapest(self, local: Local, cells: npt.NDArray[np.int32], least: float) -> _Pair | None:
        """The cheapest row in the cells that a search found, which cost `least` at least; None if nobody knows."""
        cell_pair = self._cell_pair(local, cells)
        answer = cell_pair.solve()
        if answer.outcome == Feasibility.INFEASIBLE:
            return _Pair(conflict=self._conflict(answer, cell_pair))
        if answer.outcome == Feasibility.UNKNOWN:
            return None
        _, w = cell_pair.rows(answer)
        price = price_of_attack(self._threat, self._x, w, within=False)
        if self._threat.power == 1 and price > least * (1 + TRACE):
            w = self._shortest(cell_pair, w)
            return _Pair(self._x, w)
        return _Pair(self._x, w, is_cheapest=price <= least * (1 + TRACE))

    def _shortest(self, cell_pair: _CellPair, w: FloatArray) -> FloatArray:
        """The row in the cells that is nearest to x in L1, up to a trace: by halving what its distance may be."""
        threat = self._threat
        signs = [0 if one.link is None else (1 if one.end[0] > one.near[1] else -1) for one in cell_pair.variables]
        units = [Fraction(float(threat.unit[f])) for f in cell_pair.places]
        terms = tuple((k, sign / units[k]) for k, sign in enumerate(signs) if sign)

        def sum_at(row: FloatArray) -> Fraction:
            values = row[cell_pair.places].tolist()
            exact = [Fraction(repr(v) if one.step else v) for v, one in zip(values, cell_pair.variables, strict=True)]
            return sum((factor * exact[k] for k, factor in terms), Fraction(0))

        start = sum_at(self._x)
        low, high = Fraction(0), sum_at(w) - start
        while high - low > high * Fraction(TRACE):
            middle = (low + high) / 2
            answer = cell_pair.solve(nearer=joint.Linear(terms, middle + start))
            if answer.outcome == Feasibility.FEASIBLE:
                w = cell_pair.rows(answer)[1]
                high = sum_at(w) - start
            else:
                low = middle
        return w

    def _cell_pair(self, local: Local, cells: npt.NDArray[np.int32]) -> _CellPair:
        """The question about pairs of rows in cells."""
        box, x = self._box, self._x
        around = local.around[0]
        z, w = (one[0] for one in local._doubles(x[None], box.low[None], box.high[None], cells))
        variables, places = [], []
        gone = {f for f in self._features if math.isnan(x[f]) and cells[0, f] < 0}
        for f in self._features:
            if f in gone:
                continue
            variable = self._variable(f, int(around[f]["low"]), int(around[f]["high"]))
            if variable is None:
                gone.add(f)
            else:
                variables.append(variable)
                places.append(f)
        fixed = tuple(x[places].tolist()) if self._is_itself else None
        categories = dict(self._columns.ensemble.categories)
        numbers = [k for k, f in enumerate(places) if f not in categories]
        return _CellPair(variables, places, self._linear(places, gone), fixed, z, w, numbers)

    def _variable(self, f: int, first: int, last: int) -> joint.Variable | None:
        """A column of the pair, between two cells; None if it is missing in w."""
        start = self.space.start[f]
        lowest, highest = self.space.cell_ends
        low, high = float(lowest[start + first]), float(highest[start + last])
        if math.isnan(low) or math.isnan(high):
            return None
        near = float(self._box.low[f]), float(self._box.high[f])
        end = max(low, float(self._reach[0][f])), min(high, float(self._reach[1][f]))
        moves = dict(self._threat.columns).get(f)
        link: tuple[float, float] | None = None
        if not near[0] <= end[0] <= end[1] <= near[1]:
            interval = (float(self._threat.low[f]), float(self._threat.high[f])) if moves is None else moves.interval
            link = interval if interval is not None and (moves is None or moves.step) else (-math.inf, math.inf)
        step = self._columns.steps.get(f)
        if f in dict(self._columns.ensemble.categories):
            step = Fraction(1)
        origin = Fraction(0) if step is None or math.isnan(self._x[f]) else Fraction(repr(float(self._x[f])))
        return joint.Variable(near, end, link, step, origin)

    def _loosened(self, f: int, variable: joint.Variable) -> joint.Variable:
        """The same where the column may be paid for, too, if it need not be."""
        near, threat = variable.near, self._threat
        if variable.link is not None or near[0] == near[1] or not threat.movable[f]:
            return variable
        moves = dict(threat.columns).get(f)
        interval = (float(threat.low[f]), float(threat.high[f])) if moves is None else moves.interval
        low, high = (-math.inf, math.inf) if interval is None else interval
        return replace(variable, link=(min(low, 0.0), max(high, 0.0)))

    def around(self, local: Local, cells: npt.NDArray[np.int32]) -> Clause:
        """A condition that rows outside the cells that a search found meet, and rows that cost less."""
        lowest, highest = self.space.cell_ends
        near, around = self.space.cells(np.stack((self._box.low, self._box.high))), local.around[0]
        literals = []
        for f in np.flatnonzero(cells[0] >= 0).tolist():
            start, cell = self.space.start[f], cells[0, f]
            if f in self._features:
                literals.append(
                    _outside(f, float(lowest[start + around[f]["low"]]), float(highest[start + around[f]["high"]]))
                )
            elif not near[0, f] <= cell <= near[1, f]:
                literals.append(_outside(f, float(lowest[start + cell]), float(highest[start + cell])))
        return tuple(literals)

    def _linear(self, places: list[int], gone: set[int]) -> tuple[joint.Clause, ...]:
        """Clauses over the variables; those with a missing value say nothing."""
        number = {f: k for k, f in enumerate(places)}
        found = []
        for clause in self._clauses:
            if any(f in gone for one in clause for f in _features(one)):
                continue
            choices = []
            for one in clause:
                if isinstance(one, Linear):
                    terms = tuple((number[f], factor) for f, factor in one.terms)
                    choices.append([[joint.Linear(terms, one.bound, one.strict)]])
                else:
                    stepped = one.feature in self._columns.steps
                    choices.append(_outside_gaps(one, number[one.feature], stepped))
            found += [tuple(itertools.chain.from_iterable(parts)) for parts in itertools.product(*choices)]
        return tuple(found)

    def _conflict(self, answer: joint.Answer, cell_pair: _CellPair) -> Clause:
        """A condition that every valid w in reach of the box meets."""
        places, variables = cell_pair.places, cell_pair.variables
        limits = {k: [-math.inf, math.inf] for k in answer.links}
        for bound in answer.conflict:
            limits.setdefault(bound.variable, [-math.inf, math.inf])[bound.side == "end_high"] = bound.value
        literals = []
        for k, (low, high) in limits.items():
            near, end, is_paid = variables[k].near, variables[k].end, variables[k].link is not None
            # The proof is about values on this side of N(x), or in it.
            if not is_paid:
                low, high = max(low, near[0]), min(high, near[1])
            elif end[0] > near[1]:
                low = max(low, float(next_up(near[1])))
            elif end[1] < near[0]:
                high = min(high, float(next_down(near[0])))
            literals.append(_outside(places[k], low, high))
        return tuple(literals)


def _outside(f: int, low: float, high: float) -> ColumnLiteral:
    """A condition that values of a column outside [low, high] meet."""
    parts = [(float(next_down(low)), True)] if low > -LARGEST else []
    last = [(high, False)] if high < LARGEST else []
    return ColumnLiteral(f, Pieces.of([*parts, *last], last=bool(last)))


def _subsets(items: list[int]) -> Iterator[list[int]]:
    """All subsets, the small ones first."""
    for size in range(len(items) + 1):
        yield from map(list, itertools.combinations(items, size))


def _features(literal: ColumnLiteral | Linear) -> tuple[int, ...]:
    if isinstance(literal, ColumnLiteral):
        return (literal.feature,)
    return tuple(f for f, _ in literal.terms)


def _outside_gaps(literal: ColumnLiteral, k: int, stepped: bool) -> list[list[joint.Linear]]:
    """What one column's values are where a condition holds: of every gap between them they are on one side or other."""
    number = (lambda x: Fraction(repr(x))) if stepped else Fraction
    gaps = []
    cuts, lefts = literal.where.cuts, literal.where.lefts
    for i, holds in enumerate(lefts):
        if not holds:
            sides = []
            if i > 0:
                sides.append(joint.Linear(((k, Fraction(1)),), number(cuts[i - 1])))
            if i < len(cuts):
                sides.append(joint.Linear(((k, Fraction(-1)),), -number(float(next_up(cuts[i])))))
            gaps.append(sides)
    return gaps
