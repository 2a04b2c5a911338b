"""Is there a pair of rows (z, w) in given ranges that keeps linear relations? Answered exactly.

"Feasible" comes with doubles, checked in rational arithmetic. "Infeasible" is proved in whole numbers, for all real
numbers (with a step: all points of the grid); its conflict says which ends of the box of w the proof needs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

from treeproof.errors import SoundnessError
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

__all__ = ["Answer", "Bound", "Clause", "Feasibility", "Linear", "Variable", "solve"]


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
    the row shifts), `links` names the variables whose links were, and `grids` those whose steps were. So where `uses_row`
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
    variables: tuple[Variable, ...], clauses: tuple[Clause, ...], z_fixed: tuple[float, ...] | None = None
) -> Answer:
    """Find rows z and w that keep every range, link and clause, or prove that there are none.

    With `z_fixed`, z is that row, whether it keeps ranges and clauses or not.

    >>> whole = Variable(near=(0.0, 9.0), end=(5.0, 9.0), link=(0.0, 2.0), step=Fraction(1))
    >>> below = (Linear(((0, Fraction(1)), (1, Fraction(-1))), Fraction(0), strict=True),)
    >>> answer = solve((whole, replace(whole, end=(0.0, 9.0), link=None)), (below,), (4.0, 5.0))
    >>> answer.outcome.value, answer.conflict
    ('infeasible', (Bound(variable=0, side='end_low', value=4.000000000000001),))
    """
    question = Question(variables, clauses, z_fixed)
    search = Search(question)
    why = search.run(question.bounds(question.entries))
    if search.point is not None:
        return _checked(question, clauses, search.point)
    if why is None:
        return Answer(Feasibility.UNKNOWN, reason=search.gave_up)
    return _explained(search, why)


def _checked(question: Question, clauses: tuple[Clause, ...], point: list[int]) -> Answer:
    """The pair of rows at a point of the search, if it keeps everything in rational arithmetic."""
    w, w_exact = _row_at(question, question.w_of, point)
    if question.z_fixed is None:
        z, z_exact = _row_at(question, question.z_of, point)
    else:
        z = question.z_fixed
        z_exact = [Fraction(x) if grid is None else decimal(x) for x, grid in zip(z, question.grids, strict=True)]
    for f, one in enumerate(question.variables):
        low, high = one.link or (0.0, 0.0)
        number = Fraction if one.step is None else decimal
        moved = w_exact[f] - z_exact[f]
        kept = one.end[0] <= w[f] <= one.end[1] and (question.z_fixed is not None or one.near[0] <= z[f] <= one.near[1])
        kept = kept and (math.isinf(low) or number(low) <= moved) and (math.isinf(high) or moved <= number(high))
        if not kept:
            raise SoundnessError(f"the search found {z[f]!r} and {w[f]!r} for {one!r}")
    rows = [w_exact] if question.z_fixed is not None else [w_exact, z_exact]
    for row in rows:
        if not all(any(_keeps(linear, row) for linear in clause) for clause in clauses):
            raise SoundnessError(f"the search found {z!r} and {w!r}, which do not keep {clauses!r}")
    printed = [_as_printed(question, row, exact) for row, exact in ((z, z_exact), (w, w_exact))]
    if printed[-len(rows) :] != [z_exact, w_exact][-len(rows) :]:
        for row in printed[-len(rows) :]:
            if not all(any(_keeps(linear, row) for linear in clause) for clause in clauses):
                reason = "doubles do not print as the numbers of a grid: its step is too fine, or the row is off it"
                return Answer(Feasibility.UNKNOWN, reason=reason)
    return Answer(Feasibility.FEASIBLE, z=z, w=w)


def _row_at(question: Question, unknowns: list[int], point: list[int]) -> tuple[tuple[float, ...], list[Fraction]]:
    """Doubles of a row, and the numbers that they stand for."""
    row = [question.double(j, point[j]) for j in unknowns]
    return tuple([math.nan if x is None else x for x in row]), [question.exact(j, point[j]) for j in unknowns]


def _as_printed(question: Question, row: tuple[float, ...], exact: list[Fraction]) -> list[Fraction]:
    """The numbers of a row, where columns with a step are the decimals that they print as."""
    return [number if grid is None else decimal(x) for x, number, grid in zip(row, exact, question.grids, strict=True)]


def _keeps(linear: Linear, row: list[Fraction]) -> bool:
    total = sum([factor * row[f] for f, factor in linear.terms], start=Fraction(0))
    return total < linear.bound if linear.strict else total <= linear.bound


def _explained(search: Search, why: int) -> Answer:
    """A proof's reasons as a conflict; ends are dropped or loosened as far as passing bounds on still proves it."""
    question = search.question
    ends: dict[Entry, float] = {}
    kept = [entry for entry in question.entries if not entry.why & ~why]
    for entry in [entry for entry in kept if _end_of(question, entry) is not None]:
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
        if last < entry.value if entry.is_low else last > entry.value:
            loose, end = _beyond(question, entry, last)
            ends[loose] = end
            kept = [*rest, loose]
    proof = search.propagate(question.bounds(kept))
    why = why if proof is None else proof
    conflict = []
    for entry in kept:
        value = ends.get(entry, _end_of(question, entry))
        if value is not None and not entry.why & ~why:
            conflict.append(Bound(question.column[entry.unknown], "end_low" if entry.is_low else "end_high", value))
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
        return replace(entry, value=last + (1 if entry.is_low else -1)), math.nextafter(grid.double(last), away)
    end = question.nearest(last)
    if question.units(end) <= last if entry.is_low else question.units(end) >= last:
        end = math.nextafter(end, away)
    return replace(entry, value=question.units(end)), end
