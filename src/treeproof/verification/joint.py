"""Is there a pair of rows (z, w) in given ranges that keeps linear relations? Answered exactly.

"Feasible" comes with doubles, checked in rational arithmetic. "Infeasible" is proved in whole numbers, for all real
numbers (with a step: all points of the grid); its conflict says which ends of the box of w the proof needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from treeproof.errors import disbelieved
from treeproof.numbers.simplex import Simplex
from treeproof.verification.joint_question import (
    END_HIGH,
    END_LOW,
    GRID,
    LINK,
    NEAR,
    OF_W,
    OF_Z,
    Clause,
    Entry,
    Linear,
    Question,
    Variable,
    bit,
    decimal,
)
from treeproof.verification.joint_search import Search

__all__ = ["Answer", "Bound", "Clause", "Feasibility", "Linear", "Variable", "least", "solve"]


class Feasibility(Enum):
    """Whether there is a pair of rows."""

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Bound:
    """An end of the box of w: a variable, "end_low" (w is at least `value`) or "end_high" (at most)."""

    variable: int
    side: str
    value: float


@dataclass(frozen=True)
class Answer:
    """What is known about pairs of rows.

    If feasible, `z` and `w` are a pair. If infeasible, there is none in any box that keeps the bounds of `conflict`,
    with the same near, links and grids. Of these, `uses_row` says whether near or the fixed z was used (or a grid that
    the row shifts), `links` names the variables whose links were, and `grids` those whose steps were. So if `uses_row`
    is False, the conflict holds for every other row on the same grids, too. If unknown, `reason` says why.
    """

    outcome: Feasibility
    z: tuple[float, ...] = ()
    w: tuple[float, ...] = ()
    conflict: tuple[Bound, ...] = ()
    uses_row: bool = False
    links: tuple[int, ...] = ()
    grids: tuple[int, ...] = ()
    reason: str = ""


def solve(
    variables: tuple[Variable, ...],
    clauses: tuple[Clause, ...],
    z_fixed: tuple[float, ...] | None = None,
    z_clauses: tuple[Clause, ...] | None = None,
) -> Answer:
    """Find rows z and w that keep every range, link and clause, or prove that there are none.

    With `z_fixed`, z is that row, whether it keeps ranges and clauses or not. `z_clauses` are those of z, if they are
    others than those of w.

    >>> moved = Variable(near=(0.0, 9.0), end=(5.0, 9.0), link=(0.0, 2.0), step=Fraction(1))
    >>> same = Variable(near=(0.0, 9.0), end=(0.0, 9.0), step=Fraction(1))
    >>> below = Linear(((0, Fraction(1)), (1, Fraction(-1))), Fraction(0), strict=True)
    >>> answer = solve((moved, same), ((below,),), (4.0, 5.0))
    >>> answer.outcome.value, answer.conflict
    ('infeasible', (Bound(variable=0, side='end_low', value=4.000000000000001),))
    """
    question = Question(variables, clauses, z_fixed, z_clauses)
    search = Search(question)
    why = search.run(question.bounds(question.entries))
    if search.point is not None:
        return _checked(question, (clauses, clauses if z_clauses is None else z_clauses), search.point)
    if why is None:
        return Answer(Feasibility.UNKNOWN, reason=search.gave_up)
    return _explained(search, why)


def least(
    variables: tuple[Variable, ...],
    clauses: tuple[Clause, ...],
    terms: tuple[tuple[int, Fraction], ...],
    z_fixed: tuple[float, ...] | None = None,
) -> Fraction | None:
    """A number that a sum of values of w is never below, nearly the least; None if it is seen that there is no pair.

    The least value over real numbers that keep the ranges, links and those clauses that have one part.

    >>> moved = Variable(near=(0.0, 9.0), end=(5.0, 9.0), link=(0.0, 9.0))
    >>> above = Linear(((0, Fraction(1)), (1, Fraction(-1))), Fraction(-1))
    >>> least((moved, moved), ((above,),), ((0, Fraction(1)), (1, Fraction(2))), (4.0, 5.0))
    Fraction(17, 1)
    """
    question = Question(variables, clauses, z_fixed)
    bounds = question.bounds(question.entries)
    if Search(question).propagate(bounds) is not None:
        return None
    goal, parts, start = question.sum_of_w(terms)
    bounds.low.append(None)
    bounds.high.append(None)
    bounds.low_why.append(0)
    bounds.high_why.append(0)
    simplex = Simplex(question.wish, [*question.rows, goal])
    if simplex.conflict(bounds) is not None:
        return None
    return simplex.extreme(question.n + len(question.rows), False, bounds)[0] / parts + start


def _checked(question: Question, each: tuple[tuple[Clause, ...], ...], point: list[int]) -> Answer:
    """The pair of rows at a point of the search, if it keeps everything in rational arithmetic.

    `each` are the clauses of w and of z.
    """
    rows = [_row_at(question, question.w_of, point)]
    if question.z_fixed is None:
        rows.append(_row_at(question, question.z_of, point))
    for clauses, (_, exact, printed) in zip(each, rows, strict=False):
        if not _all_hold(clauses, printed):
            if exact == printed:
                raise disbelieved(f"the search found {exact!r}, which does not keep {clauses!r}")
            reason = "doubles do not print as the numbers of a grid: its step is too fine, or the row is off it"
            return Answer(Feasibility.UNKNOWN, reason=reason)
    w, w_exact, _ = rows[0]
    if question.z_fixed is None:
        z, z_exact, _ = rows[1]
    else:
        z = question.z_fixed
        z_exact = [
            Fraction(x) if one.step is None else decimal(x) for x, one in zip(z, question.variables, strict=True)
        ]
    for f, one in enumerate(question.variables):
        kept = one.end[0] <= w[f] <= one.end[1] and _is_linked(one, z_exact[f], w_exact[f])
        if not kept or (question.z_fixed is None and not one.near[0] <= z[f] <= one.near[1]):
            raise disbelieved(f"the search found {z[f]!r} and {w[f]!r} for {one!r}")
    return Answer(Feasibility.FEASIBLE, z=z, w=w)


def _row_at(
    question: Question, unknowns: list[int], point: list[int]
) -> tuple[tuple[float, ...], list[Fraction], list[Fraction]]:
    """Doubles of a row, the numbers that they stand for, and these as they are printed where there is a step."""
    row, exact, printed = [], [], []
    for j in unknowns:
        x, grid = question.double(j, point[j]), question.grids[question.column[j]]
        assert x is not None
        row.append(x)
        exact.append(question.exact(j, point[j]))
        printed.append(exact[-1] if grid is None or grid.prints(point[j]) else decimal(x))
    return tuple(row), exact, printed


def _is_linked(variable: Variable, z: Fraction, w: Fraction) -> bool:
    if variable.link is None:
        return z == w
    (low, high), number = variable.link, Fraction if variable.step is None else decimal
    return (math.isinf(low) or number(low) <= w - z) and (math.isinf(high) or w - z <= number(high))


def _all_hold(clauses: tuple[Clause, ...], row: list[Fraction]) -> bool:
    parts = math.lcm(*[number.denominator for number in row])
    whole = [number.numerator * (parts // number.denominator) for number in row]
    return all(any(linear.holds(whole, parts) for linear in clause) for clause in clauses)


def _explained(search: Search, why: int) -> Answer:
    """A proof's reasons as a conflict; ends are dropped or loosened as far as passing bounds on still proves it."""
    question = search.question
    kept = [entry for entry in question.entries if not entry.why & ~why]
    end_of = {entry: end for entry in kept if (end := _end_of(question, entry)) is not None}
    for entry in list(end_of):
        if entry not in kept:
            continue
        rest = [other for other in kept if other is not entry]
        bounds = question.bounds(rest)
        still = search.propagate(bounds)
        if still is not None:
            kept = [other for other in rest if not other.why & ~still]
            continue
        last = bounds.high[entry.unknown] if entry.is_low else bounds.low[entry.unknown]
        assert last is not None
        if math.isfinite(end_of[entry]) and (last < entry.value if entry.is_low else last > entry.value):
            loose, end = _beyond(question, entry, last)
            end_of[loose] = end
            kept = [*rest, loose]
    proof = search.propagate(question.bounds(kept))
    why = why if proof is None else proof
    conflict = []
    for entry in kept:
        if entry in end_of and not entry.why & ~why:
            side = "end_low" if entry.is_low else "end_high"
            conflict.append(Bound(question.column[entry.unknown], side, end_of[entry]))
    columns = range(len(question.variables))
    grids = [f for f in columns if why & bit(f, GRID)]
    shifted = [f for f in grids if (grid := question.grids[f]) is not None and grid.first]
    return Answer(
        Feasibility.INFEASIBLE,
        conflict=tuple(conflict),
        uses_row=bool(shifted) or any(why & bit(f, NEAR) for f in columns),
        links=tuple([f for f in columns if why & bit(f, LINK) or (why & bit(f, OF_Z) and why & bit(f, OF_W))]),
        grids=tuple(grids),
    )


def _end_of(question: Question, entry: Entry) -> float | None:
    """The end of the box that an entry is, or None if it is none."""
    f = question.column[entry.unknown]
    if not entry.why & (bit(f, END_LOW) | bit(f, END_HIGH)):
        return None
    return question.variables[f].end[0 if entry.is_low else 1]


def _beyond(question: Question, entry: Entry, last: int) -> tuple[Entry, float]:
    """The end of the box next to the last value that is allowed by everything else, and its entry."""
    grid, away = question.grids[question.column[entry.unknown]], math.inf if entry.is_low else -math.inf
    if grid is not None:
        return entry._replace(value=last + (1 if entry.is_low else -1)), math.nextafter(grid.double(last), away)
    end = question.nearest(last)
    if question.units(end) <= last if entry.is_low else question.units(end) >= last:
        end = math.nextafter(end, away)
    return entry._replace(value=question.units(end)), end
