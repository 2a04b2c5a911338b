"""The search for a pair of rows: pass bounds on along rows, try points, ask the simplex method, split the rest.

A part is split into the bounds of a clause, or below and above a value of a column with a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from treeproof.numbers.patience import look
from treeproof.numbers.simplex import Bounds, Simplex
from treeproof.verification.joint_question import GRID, KINDS, Literal, Question, bit

MAX_NODES = 1000
"""Parts that are looked at before the search gives up."""
MAX_DEPTH = 150
"""How often a part is split again."""
MAX_TRIES = 40
"""Doubles that are tried in one part, where columns without a step must meet an equation."""
MAX_UNROUNDED = 40
"""Parts with real numbers that keep all relations, but no doubles that were found, before the search gives up."""
PASSES = 4
"""How often bounds are passed on along each row, on average; the simplex method does the rest at once."""


class Search:
    """One search; `point` is what it found, `gave_up` says why an answer without point and proof has neither."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.point: list[int] | None = None
        self.gave_up = ""
        self.choices = [clause for clause in question.clauses if len(clause) != 1]
        self._simplex: Simplex | None = None
        self._nodes = self._unrounded = 0

    def run(self, bounds: Bounds, depth: int = 0) -> int | None:
        """Reasons why no point keeps the bounds; None: there is a point, or nobody knows."""
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            self.gave_up = f"gave up after {self._nodes} parts of the question"
            return None
        why = self.propagate(bounds)
        if why is not None:
            return why
        if depth == 0 and self._dive(bounds, self._near_the_row):
            return None
        if self._simplex is None:
            self._simplex = Simplex(self.question.wish, self.question.rows)
        why = self._refute(self._simplex, bounds)
        if why is not None:
            return why
        values = self._simplex.values()
        if self._dive(bounds, lambda j, _: values[j]):
            return None
        return self._split(bounds, values, depth)

    def _refute(self, simplex: Simplex, bounds: Bounds) -> int | None:
        """Reasons why not even fractions keep the bounds."""
        why = simplex.conflict(bounds)
        slack = self.question.slack
        if why is None and slack is not None:
            greatest, why_not_more = simplex.extreme(slack, True, bounds)
            why = None if greatest else why_not_more
        return why

    # Bounds that follow from bounds.

    def propagate(self, bounds: Bounds, rows: Sequence[int] | None = None) -> int | None:
        """Pass bounds on along these rows (None: all) and where that leads; returns reasons if nothing is left."""
        question, low, high = self.question, bounds.low, bounds.high
        if rows is None:
            for j in range(question.n):
                if low[j] > high[j]:
                    return bounds.low_why[j] | bounds.high_why[j]
            rows = range(len(question.rows))
        waiting = dict.fromkeys(rows)
        left = PASSES * len(question.rows) + len(waiting)
        while True:
            while waiting and left:
                left -= 1
                look()
                row = next(iter(waiting))
                del waiting[row]
                why = self._tighten(bounds, row, waiting)
                if why is not None:
                    return why
            for clause in self.choices:
                why = self._last_choice(bounds, clause, waiting)
                if why is not None:
                    return why
            if not waiting or not left:
                return None

    def _tighten(self, bounds: Bounds, row: int, waiting: dict[int, None]) -> int | None:
        """Pass on the bounds of a row to its unknowns, and note the rows of those that changed."""
        question, index = self.question, self.question.n + row
        low, high = bounds.low, bounds.high
        terms = question.plain[row]
        if None not in (low[index], high[index]) and low[index] > high[index]:
            return bounds.low_why[index] | bounds.high_why[index]
        # A lower bound is an upper bound on the negative sum.
        for sign, limit, limit_why in (
            (1, high[index], bounds.high_why[index]),
            (-1, low[index], bounds.low_why[index]),
        ):
            if limit is None:
                continue
            room = sign * limit - self._least(bounds, row, sign)
            if room < 0 or (room == 0 and question.is_strict[row]):
                return limit_why | self._why_least(bounds, row, sign)
            for j, factor in terms:
                factor *= sign
                if room >= abs(factor) * (high[j] - low[j]):
                    continue
                # The bound of j itself cancels out: it is no reason for the new one.
                why = limit_why | self._why_least(bounds, row, sign, without=j)
                step, rest = divmod(room, abs(factor))
                if rest and question.is_whole[j]:
                    why |= bit(question.column[j], GRID)
                elif rest:
                    step += 1
                if factor > 0:
                    changed = bounds.lower_high(j, low[j] + step, why)
                else:
                    changed = bounds.raise_low(j, high[j] - step, why)
                if changed and low[j] > high[j]:
                    return bounds.low_why[j] | bounds.high_why[j]
                if changed:
                    waiting.update(dict.fromkeys(question.rows_of[j]))
            waiting.pop(row, None)
        return None

    def _least(self, bounds: Bounds, row: int, sign: int) -> int:
        """The least value of the sum of a row (sign 1), or of its negative."""
        low, high = bounds.low, bounds.high
        total: int
        if sign > 0:
            total = sum([a * (low[j] if a > 0 else high[j]) for j, a in self.question.plain[row]])
        else:
            total = -sum([a * (high[j] if a > 0 else low[j]) for j, a in self.question.plain[row]])
        return total

    def _why_least(self, bounds: Bounds, row: int, sign: int, without: int = -1) -> int:
        """Why the sum of a row (sign 1), or its negative, is not less."""
        why = 0
        for j, a in self.question.plain[row]:
            if j != without:
                why |= bounds.low_why[j] if a * sign > 0 else bounds.high_why[j]
        return why

    def _is_ruled_out(self, bounds: Bounds, literal: Literal) -> bool:
        sign = 1 if literal.is_upper else -1
        room = sign * literal.bound - self._least(bounds, literal.row, sign)
        return room < 0 or (room == 0 and self.question.is_strict[literal.row])

    def _is_sure(self, bounds: Bounds, literal: Literal) -> bool:
        sign = 1 if literal.is_upper else -1
        room = sign * literal.bound + self._least(bounds, literal.row, -sign)
        return room > 0 or (room == 0 and not self.question.is_strict[literal.row])

    def _last_choice(self, bounds: Bounds, clause: list[Literal], waiting: dict[int, None]) -> int | None:
        """Demand the bound of a clause that all others leave to it; returns reasons if none is left."""
        why, last = 0, None
        for literal in clause:
            if self._is_ruled_out(bounds, literal):
                why |= literal.why | self._why_least(bounds, literal.row, 1 if literal.is_upper else -1)
            elif last is not None:
                return None
            else:
                last = literal
        if last is None:
            return why
        if self.question.put(bounds, last, why):
            waiting[last.row] = None
        return None

    # Points.

    def _near_the_row(self, j: int, bounds: Bounds) -> int:
        """Where an unknown is put first: z in the middle of its range, and w at z."""
        column = self.question.column[j]
        z = self.question.z_of[column]
        low, high = bounds.low[z], bounds.high[z]
        return low if j != z and low is not None and low == high else self.question.wish[j]

    def _dive(self, bounds: Bounds, wish: Callable[[int, Bounds], int | Fraction]) -> bool:
        """Look for a point near to where each unknown is wished; sums of doubles are doubles if these are short."""
        return self._dive_to(bounds.copy(), wish, self._put) or (
            not all(self.question.is_whole) and self._dive_to(bounds.copy(), wish, self._put_short)
        )

    def _dive_to(
        self,
        bounds: Bounds,
        wish: Callable[[int, Bounds], int | Fraction],
        put: Callable[[int, int | Fraction, int, int], int],
    ) -> bool:
        """Put one unknown after the other and pass on what follows; whether that gives a point."""
        low, high = bounds.low, bounds.high
        for j in range(self.question.n):
            if j == self.question.slack or low[j] == high[j]:
                continue
            low[j] = high[j] = put(j, wish(j, bounds), low[j], high[j])
            if self.propagate(bounds, self.question.rows_of[j]) is not None:
                return False
        point = low[: self.question.n]
        if any(self.question.double(j, point[j]) is None for j in range(self.question.n) if j != self.question.slack):
            return False
        if not all(any(self._is_sure(bounds, literal) for literal in clause) for clause in self.question.clauses):
            return False
        self.point = point
        return True

    def _put(self, j: int, wish: int | Fraction, low: int, high: int) -> int:
        """The value nearest to a wish; a double, if one is there."""
        value = min(max(round(wish), low), high)
        if low < value < high and not self.question.is_whole[j]:
            return min(max(self.question.units(self.question.nearest(value)), low), high)
        return value

    def _put_short(self, j: int, wish: int | Fraction, low: int, high: int) -> int:
        """A value near to a wish, with few digits in binary if that is possible."""
        value = min(max(round(wish), low), high)
        unit = 1 if self.question.is_whole[j] else 1 << max((high - low).bit_length() - 12, 0)
        near = round(Fraction(value, unit)) * unit
        near += unit if near < low else -unit if near > high else 0
        return near if low <= near <= high else value

    # Parts.

    def _split(self, bounds: Bounds, values: list[Fraction], depth: int) -> int | None:
        """Decide a part in which fractions keep all bounds, at these values."""
        question = self.question
        for clause in self.choices:
            if not any(self._holds(literal, values) for literal in clause):
                return self._choose(bounds, clause, depth)
        for j in range(question.n):
            if question.is_whole[j] and values[j].denominator != 1:
                why = self._parity(bounds)
                return self._cut(bounds, j, math.floor(values[j]), depth) if why is None else why
        inner = bounds.copy()
        for clause in self.choices:
            question.put(inner, next(literal for literal in clause if self._holds(literal, values)), 0)
        for j in range(question.n):
            if question.is_whole[j]:
                inner.low[j] = inner.high[j] = int(values[j])
        if self._round(inner, [MAX_TRIES]):
            return None
        self._unrounded += 1
        self.gave_up = "no doubles were found that keep the relations, though there are real numbers that do"
        if self._unrounded < MAX_UNROUNDED:
            # Other points of the grids may leave doubles to the other columns.
            for j in range(question.n):
                if question.is_whole[j] and bounds.low[j] != bounds.high[j]:
                    at = int(values[j])
                    return self._cut(bounds, j, at if at != bounds.high[j] else at - 1, depth)
        return None

    def _holds(self, literal: Literal, values: list[Fraction]) -> bool:
        total = sum([a * values[j] for j, a in self.question.plain[literal.row]])
        if self.question.is_strict[literal.row]:
            return total < literal.bound
        return total <= literal.bound if literal.is_upper else total >= literal.bound

    def _parity(self, bounds: Bounds) -> int | None:
        assert self._simplex is not None
        return self._simplex.parity_conflict(bounds, *self.question.whole_reasons())

    def _choose(self, bounds: Bounds, clause: list[Literal], depth: int) -> int | None:
        """Demand each bound of a clause in turn."""
        why, decided = 0, 1 << (KINDS * len(self.question.variables) + depth)

        def part(literal: Literal) -> Bounds:
            inner = bounds.copy()
            self.question.put(inner, literal, decided)
            return inner

        for literal in clause:
            if self._is_ruled_out(bounds, literal):
                why |= literal.why | self._why_least(bounds, literal.row, 1 if literal.is_upper else -1)
        rest = [part(literal) for literal in clause if not self._is_ruled_out(bounds, literal)]
        return self._all_parts(rest, decided, why, depth)

    def _cut(self, bounds: Bounds, j: int, value: int, depth: int) -> int | None:
        """An unknown on a grid is at most this value, or greater."""
        decided = 1 << (KINDS * len(self.question.variables) + depth)
        below, above = bounds.copy(), bounds.copy()
        below.lower_high(j, value, decided)
        above.raise_low(j, value + 1, decided)
        return self._all_parts([below, above], decided, bit(self.question.column[j], GRID), depth)

    def _all_parts(self, parts: list[Bounds], decided: int, why: int, depth: int) -> int | None:
        """Reasons why there is no point in any part; a part that did not need the decision stands for all."""
        open_parts = False
        for part in parts:
            reasons = self.run(part, depth + 1)
            if self.point is not None or self._nodes > MAX_NODES or self._unrounded >= MAX_UNROUNDED:
                return None
            if reasons is None:
                open_parts = True
            elif not reasons & decided:
                return reasons
            else:
                why |= reasons & ~decided
        return None if open_parts else why

    # Doubles.

    def _round(self, bounds: Bounds, tries: list[int]) -> bool:
        """Look for doubles that keep the bounds: put one unknown into the middle of its exact range, then the next."""
        assert self._simplex is not None
        question, simplex = self.question, self._simplex
        if self.propagate(bounds) is not None or self._refute(simplex, bounds) is not None:
            return False
        order = sorted(
            range(question.n),
            key=lambda j: -max([abs(dict(question.rows[r])[j]) for r in question.rows_of[j]], default=0),
        )
        for j in order:
            if j == question.slack or bounds.low[j] == bounds.high[j]:
                continue
            least, _ = simplex.extreme(j, False, bounds)
            greatest, _ = simplex.extreme(j, True, bounds)
            if least == greatest:
                if least.denominator != 1 or question.double(j, int(least)) is None:
                    return False
                bounds.low[j] = bounds.high[j] = int(least)
                continue
            for value in _short_numbers(least, greatest):
                tries[0] -= 1
                if tries[0] < 0:
                    return False
                inner = bounds.copy()
                inner.low[j] = inner.high[j] = value
                if question.double(j, value) is not None and self._round(inner, tries):
                    return True
            return False
        return self._dive(bounds, self._near_the_row)


def _short_numbers(least: Fraction, greatest: Fraction) -> Iterator[int]:
    """A few whole numbers with many zeros in binary, from the middle of a range outwards; then its ends."""
    width = math.floor(greatest) - math.ceil(least)
    unit = 1 << max(width.bit_length() - 4, 0)
    middle = round((least + greatest) / 2 / unit)
    for k in range(10):
        value = (middle + (k + 1) // 2 * (1 if k % 2 else -1)) * unit
        if least <= value <= greatest:
            yield value
    if width >= 0:
        yield from {math.ceil(least), math.floor(greatest)}
