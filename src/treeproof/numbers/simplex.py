"""Bounds on variables and on sums of them, decided by a simplex method in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from treeproof.numbers.patience import look

Terms: TypeAlias = tuple[tuple[int, int], ...]
"""A sum: pairs of a variable and its factor."""


@dataclass(slots=True)
class Bounds:
    """The least and the greatest whole number of each variable and, behind them, of each row; None: no bound.

    Each bound has a reason, a set of bits; whatever follows from bounds has the union of their reasons.
    """

    low: list[Any]
    high: list[Any]
    low_why: list[int]
    high_why: list[int]

    @classmethod
    def none(cls, size: int) -> Bounds:
        """No bounds at all."""
        return cls([None] * size, [None] * size, [0] * size, [0] * size)

    def copy(self) -> Bounds:
        """The same bounds, to be changed without changing these."""
        return Bounds(self.low.copy(), self.high.copy(), self.low_why.copy(), self.high_why.copy())

    def raise_low(self, j: int, value: int, why: int) -> bool:
        """Make `value` the lower bound, if that says more than the one there is."""
        now = self.low[j]
        if now is not None and value <= now:
            return False
        self.low[j], self.low_why[j] = value, why
        return True

    def lower_high(self, j: int, value: int, why: int) -> bool:
        """Make `value` the upper bound, if that says more than the one there is."""
        now = self.high[j]
        if now is not None and value >= now:
            return False
        self.high[j], self.high_why[j] = value, why
        return True


class Simplex:
    """Rational values of n variables that keep bounds on the variables and on rows, sums of them with whole factors.

    Row r is the variable n + r. As in the method of Dutertre and de Moura (2006), the table says of each basic variable
    `d * x = sum of a_j * x_j` over the others, and these stand at whole numbers: all sums are of whole numbers. Other
    bounds on the same rows start from where the last ones ended. Bland's rule (smallest index first) makes loops end.

    >>> simplex = Simplex([0, 0], [((0, 2), (1, -2))])
    >>> bounds = Bounds([0, 0, 1], [5, 5, 1], [1, 2, 4], [8, 16, 32])
    >>> simplex.conflict(bounds), simplex.values()
    (None, [Fraction(1, 2), Fraction(0, 1)])
    >>> bounds.high[0], simplex.conflict(bounds)
    (5, None)
    >>> bounds.high[0] = 0
    >>> bin(simplex.conflict(bounds)), simplex.clash
    ('0b1110', {0: 2, 1: -2, 2: -1})
    """

    def __init__(self, start: Sequence[int], rows: Sequence[Terms]) -> None:
        self.n = len(start)
        self._at = dict(enumerate(start))
        self._table = {self.n + r: (1, dict(terms)) for r, terms in enumerate(rows)}
        self.clash: dict[int, int] = {}
        """After a conflict between rows: factors with which variables and rows add up to 0, which bounds keep below."""

    def values(self) -> list[Fraction]:
        """The value of each variable."""
        return [Fraction(*self._ratio(j)) for j in range(self.n)]

    def conflict(self, bounds: Bounds) -> int | None:
        """Find values that keep the bounds, and return None; or the union of reasons why there are none."""
        at, table = self._at, self._table
        for j, (low, high) in enumerate(zip(bounds.low, bounds.high, strict=True)):
            if low is not None and high is not None and low > high:
                return bounds.low_why[j] | bounds.high_why[j]
        for j, value in at.items():
            low, high = bounds.low[j], bounds.high[j]
            if low is not None and value < low:
                at[j] = low
            elif high is not None and value > high:
                at[j] = high
        while True:
            for i in sorted(table):
                d, row = table[i]
                total = sum([a * at[j] for j, a in row.items()])
                least, most = bounds.low[i], bounds.high[i]
                if least is not None and total < d * least:
                    goal, up, why = least, True, bounds.low_why[i]
                    break
                if most is not None and total > d * most:
                    goal, up, why = most, False, bounds.high_why[i]
                    break
            else:
                return None
            look()
            helper = self._helper(row, up, bounds)
            if helper is None:
                sign = -1 if up else 1
                self.clash = {i: sign * d, **{j: -sign * a for j, a in row.items()}}
                return why | self._stuck(row, up, bounds)
            self._pivot(i, helper)
            at[i] = goal

    def extreme(self, j: int, up: bool, bounds: Bounds) -> tuple[Fraction, int]:
        """The greatest (or least) value of a variable, after `conflict` found values; and the reasons for that."""
        while True:
            look()
            if j in self._at:
                if not self._has_room(j, up, bounds):
                    return Fraction(self._at[j]), bounds.high_why[j] if up else bounds.low_why[j]
                self._move(j, up, bounds)
                continue
            _, row = self._table[j]
            k = self._helper(row, up, bounds)
            if k is None:
                return Fraction(*self._ratio(j)), self._stuck(row, up, bounds)
            self._move(k, (row[k] > 0) == up, bounds)

    def parity_conflict(self, bounds: Bounds, is_whole: Sequence[bool], whole_why: Sequence[int]) -> int | None:
        """Reasons why a row of the table has no solution in whole numbers, or None if no row says so."""
        for i, (d, row) in self._table.items():
            if not is_whole[i]:
                continue
            fixed = [j for j in row if bounds.low[j] is not None and bounds.low[j] == bounds.high[j]]
            free = [j for j in row if bounds.low[j] is None or bounds.low[j] != bounds.high[j]]
            if not all(is_whole[j] for j in free):
                continue
            if sum([row[j] * (bounds.low[j] or 0) for j in fixed]) % math.gcd(d, *[row[j] for j in free]):
                why = whole_why[i]
                for j in free:
                    why |= whole_why[j]
                for j in fixed:
                    why |= bounds.low_why[j] | bounds.high_why[j]
                return why
        return None

    def _ratio(self, j: int) -> tuple[int, int]:
        if j in self._at:
            return self._at[j], 1
        d, row = self._table[j]
        return sum([a * self._at[k] for k, a in row.items()]), d

    def _has_room(self, j: int, up: bool, bounds: Bounds) -> bool:
        end = bounds.high[j] if up else bounds.low[j]
        return end is None or self._at[j] != end

    def _helper(self, row: dict[int, int], up: bool, bounds: Bounds) -> int | None:
        """The first variable of a row that can move the row's sum up (or down)."""
        helpers = [j for j, a in row.items() if self._has_room(j, (a > 0) == up, bounds)]
        return min(helpers) if helpers else None

    @staticmethod
    def _stuck(row: dict[int, int], up: bool, bounds: Bounds) -> int:
        """Why no variable of the row can move its sum up (or down)."""
        why = 0
        for j, a in row.items():
            why |= bounds.high_why[j] if (a > 0) == up else bounds.low_why[j]
        return why

    def _move(self, k: int, up: bool, bounds: Bounds) -> None:
        """Move a variable of the right-hand sides as far as it and all others allow; one of them must have a bound."""
        end = bounds.high[k] if up else bounds.low[k]
        least = None if end is None else Fraction(abs(end - self._at[k]))
        leaves, goal = k, end
        for i in sorted(self._table):
            d, row = self._table[i]
            a = row.get(k, 0)
            if a == 0:
                continue
            bound = bounds.high[i] if (a > 0) == up else bounds.low[i]
            if bound is None:
                continue
            room = Fraction(abs(bound * d - self._ratio(i)[0]), abs(a))
            if least is None or room < least:
                least, leaves, goal = room, i, bound
        if goal is None:
            raise ValueError(f"variable {k} has no end")
        if leaves != k:
            self._pivot(leaves, k)
        self._at[leaves] = goal

    def _pivot(self, i: int, k: int) -> None:
        """Solve the row of basic variable i for k, and put that into all other rows."""
        d, row = self._table.pop(i)
        a = row.pop(k)
        sign = 1 if a > 0 else -1
        solved = {j: -sign * b for j, b in row.items()}
        solved[i] = sign * d
        a = abs(a)
        del self._at[k]
        for b, (e, other) in self._table.items():
            factor = other.pop(k, 0)
            if factor == 0:
                continue
            if a != 1:
                other = {j: a * c for j, c in other.items()}
            for j, c in solved.items():
                total = other.get(j, 0) + factor * c
                if total:
                    other[j] = total
                else:
                    other.pop(j, None)
            e *= a
            common = math.gcd(e, *other.values())
            if common != 1:
                e, other = e // common, {j: c // common for j, c in other.items()}
            self._table[b] = e, other
        self._table[k] = a, solved
