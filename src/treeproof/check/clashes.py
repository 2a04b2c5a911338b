"""Why there is no neighbour and no row that an attack makes of it which are both valid: relations add up to nonsense.

A proof is a tree. Pairs of such rows are told apart by the value of a column, or by which of several things a relation
says is the one that holds; and in the end a relation is false for all, or a sum of relations is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from treeproof.check.claims import Grid
from treeproof.check.columns import ANY, Column
from treeproof.check.doubles import parted, printed
from treeproof.check.one_hot import View
from treeproof.check.proof_bytes import Reader
from treeproof.check.relation_texts import Said, Where, facts_in, total
from treeproof.check.rules import Rejected, held

RULED_OUT, CUT, CASES, SUM = range(4)
Ends: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True)
class Pairs:
    """Rows w that attacks make, and the neighbours z that they make them of: the two sides, 0 and 1."""

    view: View
    grid: Grid
    columns: Sequence[Column]
    """What attacks do to columns."""
    x: Sequence[float]
    paid: tuple[Fraction, ...]
    """What each column costs at least."""
    cells: tuple[Sequence[int], Sequence[int]]
    spans: tuple[tuple[Ends, ...], tuple[Ends, ...]]
    """Of each side and column ends between which numbers lie."""
    facts: tuple[tuple[int, Said] | None, ...]
    """Sides, and what is not false for them; None: nobody says that it is not."""

    def cut(self, side: int, f: int, at: float) -> list[Pairs]:
        """Pairs with a column up to a double on one side, and the others; where it is missing they are in both."""
        if side > 1 or f >= len(self.columns):
            raise Rejected(f"there is no column {f} of rows {side}")
        return [self._with_span(side, f, ends) for ends in parted(self.spans[side][f], at)]

    def _with_span(self, side: int, f: int, ends: Ends) -> Pairs:
        spans = list(self.spans)
        spans[side] = (*spans[side][:f], ends, *spans[side][f + 1 :])
        return replace(self, spans=(spans[0], spans[1]))

    def cases(self, number: int) -> list[Pairs]:
        """For each of the things of which a fact says that one is not false, the pairs where that is so."""
        side, (word, *parts) = self._fact(number)
        if word != "or":
            raise Rejected(f"fact {number} leaves no choice")
        return [replace(self, facts=(*self.facts, *((side, fact) for fact in facts_in(part)))) for part in parts[0]]

    def _fact(self, number: int) -> tuple[int, Said]:
        found = self.facts[number] if number < len(self.facts) else None
        if found is None:
            raise Rejected(f"there is no fact {number}")
        return found

    @cached_property
    def where(self) -> tuple[Where, Where]:
        """What the user's columns may be on both sides."""
        first, second = (
            self.view.where(self.grid, cells, spans, self.x)
            for cells, spans in zip(self.cells, self.spans, strict=True)
        )
        return first, second

    @cached_property
    def is_empty(self) -> bool:
        """Whether there are no such rows at all, or none that are as near to each other as changes leave them."""
        columns = self.view.relations.columns
        return not all(where[f][1] for where in self.where for f in columns) or any(map(self._are_apart, columns))

    def _are_apart(self, f: int) -> bool:
        """Whether nothing that a column may be is made of anything that it may have been."""
        (low, high), one = self.link(f), Fraction(1)
        least, most = (total([self._least_of(0, {f: sign}), self._least_of(1, {f: -sign})]) for sign in (one, -one))
        return bool(least > high or -most < low)

    @cached_property
    def is_ruled_out(self) -> bool:
        """Whether there are none, or a fact is false for all of them."""
        return self.is_empty or any(
            self.view.relations.is_false(fact, self.where[side]) for side, fact in filter(None, self.facts)
        )

    def is_refuted_by(self, multipliers: Mapping[int, int], rate: int = 0) -> bool:
        """Whether facts of the form `sum <= 0` add up, times these numbers, to a sum that is above 0 for all pairs.

        What pairs cost beyond the budget is not above 0 either, and is added `rate` times.
        """
        least, is_strict = [-rate * self.view.purses[0][0]], False
        sums: tuple[dict[int, Fraction], dict[int, Fraction]] = {}, {}
        for number, times in multipliers.items():
            side, fact = self._fact(number)
            if not _may_be_multiplied(fact, times):
                return False
            least[0] += times * fact[2]
            is_strict |= fact[3] in ("<", ">")
            for f, factor in self.view.relations.terms(fact):
                if None in self.where[side][f][1]:
                    return False
                sums[side][f] = sums[side].get(f, Fraction(0)) + times * factor
        places: dict[int, list[int]] = {}
        for f in {*sums[0], *sums[1]}:
            places.setdefault(self.view.members[f][0], []).append(f)
        for own in places.values():
            w, z = ({f: side.get(f, Fraction(0)) for f in own} for side in sums)
            least.append(self._least(w, z, rate))
        least += [rate * price for place, price in enumerate(self.paid) if place not in places]
        return self.is_empty or (bound := total(least)) > 0 or (is_strict and bound == 0)

    def _least(self, w: Mapping[int, Fraction], z: Mapping[int, Fraction], rate: int) -> Any:
        """The least that terms of a column, or of the members of a group, add up to with `rate` times what it costs."""
        if len(w) > 1:
            return total([self._least_of(0, w), self._least_of(1, z)])
        ((f, a),), (b,) = w.items(), z.values()
        fee, link = rate * self.fee(f), self.link(f)
        # a·w + b·z is t·(w - z) + (a - t)·w + (b + t)·z for every t, and w - z costs `fee` for each unit of distance.
        return max(
            total([_times(_beyond(t, fee), *link), self._least_of(0, {f: a - t}), self._least_of(1, {f: b + t})])
            for t in (fee, -fee, a, -b)
        )

    def _least_of(self, side: int, factors: Mapping[int, Fraction]) -> Any:
        terms = [(f, factor) for f, factor in factors.items() if factor]
        spans = zip(*(self.where[side][f][1] for f, _ in terms), strict=True)
        ends = [self.view.relations.ends(terms, each) for each in spans]
        return min([end[0] for end in ends if end is not None], default=Fraction(0))

    def link(self, f: int) -> tuple[Any, Any]:
        """How much a column is above what it was, at least and at most; anything where it may be missing."""
        place, codes = self.view.members[f]
        if codes or None in (*self.where[0][f][1], *self.where[1][f][1]):
            return ANY
        column, left = self.columns[place], self._left_for(place)
        low, high = min(column.reach[0], 0.0), max(column.reach[1], 0.0)
        if _cheapest(column) > left:
            return 0, 0
        if column.rules or column.matrix is not None or (column.ends is not None and (low or high)):
            return ANY
        points = column.points(self.x[place])
        if points is not None and not all(points.prints(*own[place]) for own in self.spans):
            return -math.inf if low else 0, math.inf if high else 0
        if column.power is not None:
            # What roots there are of what is left are at most 1, or at most that.
            away = (left if column.power == 1 else max(left, Fraction(1))) * column.unit
            return -away if low else 0, away if high else 0
        if column.step is None:
            return _exact(low), _exact(high)
        return -_steps(-low, column.step), _steps(high, column.step)

    def fee(self, f: int) -> Fraction:
        """What a change of a column costs for each unit of its distance, if it is paid by that."""
        column = self.columns[self.view.members[f][0]]
        is_known = column.power == 1 and not any(isinstance(end, float) for end in self.link(f))
        return 1 / column.unit if is_known else Fraction(0)

    def _left_for(self, f: int) -> Fraction:
        """What all other columns leave for a change of this one."""
        purses = [(budget, columns) for budget, columns in self.view.purses if f in columns]
        return min(budget - sum(self.paid[g] for g in columns if g != f) for budget, columns in purses)


def _cheapest(column: Column) -> Fraction | int:
    """What a change of a number costs at least."""
    if column.power is not None:
        return Fraction(0) if column.step is None else (column.step / column.unit) ** column.power
    costs = [column.cost] if column.matrix is None else column.matrix.values()
    return min([rule.cost for rule in column.rules] or costs, default=0)


def _exact(end: float) -> Any:
    return end if math.isinf(end) else Fraction(end)


def _steps(end: float, step: Fraction) -> Any:
    """How far steps lead that lead no farther than that."""
    return end if math.isinf(end) else printed(end) // step * step


def _beyond(number: Fraction, size: Fraction) -> Fraction:
    """How far a number is above `size`, or below minus that."""
    return min(number + size, Fraction(0)) if number < 0 else max(number - size, Fraction(0))


def _times(factor: Fraction, low: Any, high: Any) -> Any:
    """The least that something from low to high is, times a factor."""
    end = low if factor > 0 else high
    return Fraction(0) if not factor or not end else -math.inf if isinstance(end, float) else factor * end


def _may_be_multiplied(fact: Said, times: int) -> bool:
    """Whether times a sum of columns is at most 0."""
    if fact[0] != "compare" or len(fact[1]) < 2:
        return False
    signs = {"==": True, "<=": times > 0, "<": times > 0, ">=": times < 0, ">": times < 0}
    return signs.get(fact[3], False)


def check_clash(pairs: Pairs, steps: Reader) -> None:
    """Walks a tree that says why there are no such pairs; Rejected if it does not."""
    waiting = [pairs]
    while waiting:
        here, op = held(waiting, len(pairs.columns) + len(waiting[-1].facts)).pop(), steps.number()
        if op == CUT:
            waiting += reversed(here.cut(steps.number(), steps.number(), steps.double()))
        elif op == CASES:
            waiting += reversed(here.cases(steps.number()))
        elif op == RULED_OUT:
            if not here.is_ruled_out:
                raise Rejected("a relation that is called false may hold")
        else:
            rate, n = steps.number(), steps.number()
            multipliers = {steps.number(): steps.signed() for _ in range(min(n, len(here.facts)))}
            if n > len(here.facts) or op != SUM or not here.is_refuted_by(multipliers, rate):
                raise Rejected("relations do not add up to what is false")
    if not steps.is_done:
        raise Rejected("something follows the reason for a condition")
