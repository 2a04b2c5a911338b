"""A pair of rows under linear relations, written down in whole numbers.

A column with a step becomes a whole number k, its value is `origin + k * step`. Every other column becomes its value in
units of a power of two so small that all given ends are whole numbers. A relation becomes a bound on a sum of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

from treeproof.numbers.doubles import LARGEST
from treeproof.numbers.simplex import Bounds, Terms

SPARE_BITS = 60
"""Units are this much finer than the given ends, so that what follows from these can be said as well."""


@dataclass(frozen=True)
class Variable:
    """One column of a pair of rows (z, w) that appears in linear relations.

    `near` and `end` hold the least and the greatest double that z and w may have. `link` says how far w may be from z:
    `l <= w - z <= u` exactly, None: w = z. With a `step`, z and w are doubles nearest to `origin + k * step`, k whole,
    and stand for these numbers; the ends of `link` then stand for the decimals that they print as.
    """

    near: tuple[float, float]
    end: tuple[float, float]
    link: tuple[float, float] | None = None
    step: Fraction | None = None
    origin: Fraction = Fraction(0)


@dataclass(frozen=True)
class Linear:
    """A sum of terms (a variable's position, a factor) is at most the bound, or less than it."""

    terms: tuple[tuple[int, Fraction], ...]
    bound: Fraction
    strict: bool = False

    def __hash__(self) -> int:
        # What is known about a relation is looked up in every question; Python does not keep hashes of fractions.
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.terms, self.bound, self.strict))

    @cached_property
    def _whole(self) -> tuple[Terms, int]:
        """Terms and bound, times a number that makes them whole."""
        parts = math.lcm(self.bound.denominator, *[factor.denominator for _, factor in self.terms])
        return tuple([(f, int(factor * parts)) for f, factor in self.terms]), int(self.bound * parts)

    def holds(self, row: list[int], parts: int) -> bool:
        """Whether a row keeps it whose numbers are `row[f] / parts`."""
        terms, bound = self._whole
        total = sum([factor * row[f] for f, factor in terms])
        return total < bound * parts if self.strict else total <= bound * parts


Clause: TypeAlias = tuple[Linear, ...]
"""At least one of these holds."""

# What a proof may use of each column; reasons are sets of these bits.
END_LOW, END_HIGH, NEAR, LINK, GRID, OF_Z, OF_W, KINDS = range(8)


def bit(variable: int, kind: int) -> int:
    """The bit that stands for one kind of knowledge about a column."""
    return 1 << (KINDS * variable + kind)


class Entry(NamedTuple):
    """A bound that the question itself puts on an unknown."""

    unknown: int
    is_low: bool
    value: int
    why: int


class Literal(NamedTuple):
    """A bound on a row."""

    row: int
    is_upper: bool
    bound: int
    why: int


class Grid(NamedTuple):
    """The numbers `(first + k * step) / parts`, k whole."""

    first: int
    step: int
    parts: int

    @staticmethod
    def of(origin: Fraction, step: Fraction) -> Grid:
        """The grid through `origin`."""
        parts = math.lcm(origin.denominator, step.denominator)
        width = step.numerator * (parts // step.denominator)
        return Grid(origin.numerator * (parts // origin.denominator) % width, width, parts)

    def exact(self, k: int) -> Fraction:
        """The k-th number."""
        return Fraction(self.first + k * self.step, self.parts)

    def double(self, k: int) -> float:
        """The double nearest to the k-th number; infinite beyond all doubles.

        >>> Grid.of(Fraction(0), Fraction(1, 10)).double(3)
        0.3
        """
        number = self.first + k * self.step
        try:
            return number / self.parts
        except OverflowError:
            return math.inf if number > 0 else -math.inf

    def prints(self, k: int) -> bool:
        """Whether it is clear that the double of the k-th number prints as that number: 15 digits are enough for it."""
        return 10**18 % self.parts == 0 and abs(self.first + k * self.step) * self.parts**3 < 10**15

    def index_at_least(self, up: int, down: int) -> int:
        """The least k whose number is at least up / down."""
        return -((self.first * down - up * self.parts) // (down * self.step))

    @lru_cache(1 << 14)  # noqa: B019 - grids are few and small
    def index_from(self, end: float) -> int:
        """The least k whose double is at least `end`.

        >>> Grid.of(Fraction(0), Fraction(1, 10)).index_from(0.1)
        1
        """
        k = self.index_at_least(*end.as_integer_ratio())
        if self.double(k - 1) < end:
            return k
        if self.double(k - 2) < end:
            return k - 1
        # A step finer than doubles are: what is above the middle between two of them is rounded up.
        below = math.nextafter(end, -math.inf)
        middle = (Fraction(below) + Fraction(end)) / 2 if math.isfinite(below) else Fraction(-(2**1024) + 2**970)
        k = self.index_at_least(*middle.as_integer_ratio())
        return k if self.double(k) >= end else k + 1

    @lru_cache(1 << 14)  # noqa: B019
    def index_to(self, end: float) -> int:
        """The greatest k whose double is at most `end`."""
        return -Grid(-self.first, self.step, self.parts).index_from(-end)

    @lru_cache(1 << 12)  # noqa: B019
    def index_moved(self, start: float, by: float, is_low: bool) -> int | None:
        """The least k whose number is at least `start + by` in decimals, or the greatest below; None: no end."""
        if math.isinf(by):
            return None
        up, down = (decimal(start) + decimal(by)).as_integer_ratio()
        if is_low:
            return self.index_at_least(up, down)
        return (up * self.parts - self.first * down) // (down * self.step)


class Scaled(NamedTuple):
    """A sum of columns, in units of these, is at most (or below) a bound; rounded: because it is a whole number."""

    terms: Terms
    bound: int
    is_rounded: bool
    is_strict: bool


@lru_cache(1 << 12)
def decimal(x: float) -> Fraction:
    """The decimal that a double prints as."""
    return Fraction(repr(x))


@lru_cache(1 << 10)
def scale(linear: Linear, grids: tuple[Grid | None, ...]) -> Scaled:
    """A bound on a sum of columns, with the grid of each term, in whole numbers as small as can be."""
    factors: dict[int, Fraction] = {}
    bound = linear.bound
    for (f, factor), grid in zip(linear.terms, grids, strict=True):
        if grid is not None:
            bound -= factor * Fraction(grid.first, grid.parts)
            factor *= Fraction(grid.step, grid.parts)
        factors[f] = factors.get(f, Fraction(0)) + factor
    parts = math.lcm(bound.denominator, *[factor.denominator for factor in factors.values()])
    whole = {f: factor.numerator * (parts // factor.denominator) for f, factor in factors.items() if factor}
    limit = bound.numerator * (parts // bound.denominator)
    if None in grids:
        common = math.gcd(limit, *whole.values()) or 1
        return Scaled(
            tuple([(f, factor // common) for f, factor in whole.items()]), limit // common, False, linear.strict
        )
    common = math.gcd(*whole.values()) or 1
    terms = tuple([(f, factor // common) for f, factor in whole.items()])
    if linear.strict:
        return Scaled(terms, -(-limit // common) - 1, True, False)
    return Scaled(terms, limit // common, limit % common != 0, False)


def union(reasons: Iterable[int]) -> int:
    """All bits of some reasons."""
    every = 0
    for why in reasons:
        every |= why
    return every


def _middle(ends: tuple[float, float]) -> float:
    """The middle of a range; the number nearest to 0 in a range without an end."""
    low, high = [min(max(end, -LARGEST), LARGEST) for end in ends]
    return low / 2 + high / 2 if -LARGEST < low and high < LARGEST else min(max(0.0, low), high)


class Question:
    """Unknowns, the bounds that ranges and links put on them, rows, and clauses of bounds on rows."""

    def __init__(
        self,
        variables: tuple[Variable, ...],
        clauses: tuple[Clause, ...],
        z_fixed: tuple[float, ...] | None,
        z_clauses: tuple[Clause, ...] | None = None,
    ) -> None:
        self.variables, self.z_fixed = variables, z_fixed
        self.grids = [self._grid(f) for f in range(len(variables))]
        self.shift = self._shift()
        self.column: list[int] = []
        """The column of each unknown; -1: of none."""
        self.wish: list[int] = []
        """Where each unknown would be put first: z in the middle of its range, w at z."""
        self.z_of: list[int] = []
        self.w_of: list[int] = []
        self.entries: list[Entry] = []
        self.rows: list[Terms] = []
        self.clauses: list[list[Literal]] = []
        self.slack: int | None = None
        """The unknown by which all strict bounds are kept; it must be positive."""
        self._row_at: dict[Terms, int] = {}
        for f in range(len(variables)):
            self._add_column(f)
        for clause in clauses:
            self._add_clause(clause, self.w_of, OF_W)
        if z_fixed is None:
            for clause in clauses if z_clauses is None else z_clauses:
                is_new = clause not in clauses or any(
                    self.w_of[f] != self.z_of[f] for one in clause for f, _ in one.terms
                )
                if is_new:
                    self._add_clause(clause, self.z_of, OF_Z)
        self.n = len(self.column)
        far = [
            1 << (1024 + self.shift) if grid is None else (grid.parts << 1025) // grid.step + 1 for grid in self.grids
        ]
        self._far = [far[f] for f in self.column]
        """A number for each unknown that is beyond all doubles."""
        self.is_whole = [f >= 0 and self.grids[f] is not None for f in self.column]
        self.is_strict = [terms[-1][0] == self.slack for terms in self.rows]
        self.plain = [terms[:-1] if strict else terms for terms, strict in zip(self.rows, self.is_strict, strict=True)]
        self.rows_of: list[list[int]] = [[] for _ in self.column]
        for r, terms in enumerate(self.plain):
            for j, _ in terms:
                self.rows_of[j].append(r)

    def bounds(self, entries: Iterable[Entry]) -> Bounds:
        """Bounds on unknowns and rows: these entries, and every clause that is a single bound."""
        bounds = Bounds.none(self.n + len(self.rows))
        bounds.low[: self.n], bounds.high[: self.n] = [-far for far in self._far], self._far
        if self.slack is not None:
            bounds.low[self.slack], bounds.high[self.slack] = 0, 1 << self.shift
        for entry in entries:
            (bounds.raise_low if entry.is_low else bounds.lower_high)(entry.unknown, entry.value, entry.why)
        for clause in self.clauses:
            if len(clause) == 1:
                self.put(bounds, clause[0], 0)
        return bounds

    def put(self, bounds: Bounds, literal: Literal, why: int) -> bool:
        """Demand a bound on a row, for its own reasons and others."""
        put = bounds.lower_high if literal.is_upper else bounds.raise_low
        return put(self.n + literal.row, literal.bound, literal.why | why)

    def sum_of_w(self, terms: Iterable[tuple[int, Fraction]]) -> tuple[Terms, int, Fraction]:
        """A sum of values of w: a sum of unknowns in whole numbers, over a number of parts, and what is added to it."""
        factors, start = [], Fraction(0)
        for f, factor in terms:
            grid = self.grids[f]
            width = Fraction(1, 1 << self.shift) if grid is None else Fraction(grid.step, grid.parts)
            factors.append((self.w_of[f], factor * width))
            start += Fraction(0) if grid is None else factor * Fraction(grid.first, grid.parts)
        parts = math.lcm(*[factor.denominator for _, factor in factors])
        return tuple([(j, int(factor * parts)) for j, factor in factors]), parts, start

    def whole_reasons(self) -> tuple[list[bool], list[int]]:
        """Whether each unknown and each row can only be a whole number, and the reasons."""
        is_whole = self.is_whole.copy()
        why = [bit(f, GRID) if whole else 0 for f, whole in zip(self.column, is_whole, strict=True)]
        for terms in self.rows:
            is_whole.append(all(self.is_whole[j] for j, _ in terms))
            why.append(union([why[j] for j, _ in terms]))
        return is_whole, why

    def double(self, j: int, value: int) -> float | None:
        """The double that an unknown with this value is, or None if it is none."""
        grid = self.grids[self.column[j]]
        if grid is not None:
            return grid.double(value)
        near = self.nearest(value)
        return near if self.units(near) == value else None

    def nearest(self, value: int) -> float:
        """The double nearest to a number of units."""
        try:
            return value / (1 << self.shift)
        except OverflowError:
            return LARGEST if value > 0 else -LARGEST

    def exact(self, j: int, value: int) -> Fraction:
        """The number that an unknown with this value stands for."""
        grid = self.grids[self.column[j]]
        return Fraction(value, 1 << self.shift) if grid is None else grid.exact(value)

    def _grid(self, f: int) -> Grid | None:
        one = self.variables[f]
        if one.step is None:
            return None
        # A column that stays as it is need not be on the grid.
        stays = self.z_fixed if one.link is None else None
        return Grid.of(one.origin if stays is None else decimal(stays[f]), one.step)

    def _shift(self) -> int:
        """How many bits behind the point the ends of columns without a step have, and some to spare."""
        parts = [1]
        for f, one in enumerate(self.variables):
            if one.step is None:
                ends = (*one.near, *one.end, *(one.link or ()), *((self.z_fixed[f],) if self.z_fixed else ()))
                parts += [end.as_integer_ratio()[1] for end in ends if math.isfinite(end)]
        return max(parts).bit_length() + SPARE_BITS

    def units(self, end: float) -> int:
        """A double in units of columns without a step."""
        number, parts = end.as_integer_ratio()
        spare = self.shift - parts.bit_length() + 1
        return number << spare if spare >= 0 else number >> -spare

    def _add_unknown(self, f: int, wish: int) -> int:
        self.column.append(f)
        self.wish.append(wish)
        return len(self.column) - 1

    def _add_range(self, j: int, ends: tuple[float, float], why: tuple[int, int]) -> None:
        """The ends of a range of doubles; that doubles end somewhere needs no other reason than the grid."""
        f = self.column[j]
        grid = self.grids[f]
        on_grid = 0 if grid is None else bit(f, GRID)
        for given, is_low, reason in zip(ends, (True, False), why, strict=True):
            end = min(max(given, -LARGEST), LARGEST)
            no_double = given == (math.inf if is_low else -math.inf)
            if grid is None:
                value = self.units(end)
            else:
                value = grid.index_from(end) if is_low != no_double else grid.index_to(end)
            if no_double:
                value += 1 if is_low else -1
            elif end == (-LARGEST if is_low else LARGEST):
                reason = 0
            self.entries.append(Entry(j, is_low, value, on_grid | reason))

    def _add_column(self, f: int) -> None:
        """Add the unknowns of a column, with all that is known about them."""
        one, grid = self.variables[f], self.grids[f]
        start = _middle(one.near) if self.z_fixed is None else self.z_fixed[f]
        wish = self.units(start) if grid is None else grid.index_from(start)
        z = w = self._add_unknown(f, wish)
        of_z = of_w = 0
        if self.z_fixed is None and one.link is None:
            of_z, of_w = bit(f, OF_Z), bit(f, OF_W)
        elif self.z_fixed is None:
            w = self._add_unknown(f, wish)
        self.z_of.append(z)
        self.w_of.append(w)
        self._add_range(w, one.end, (bit(f, END_LOW) | of_w, bit(f, END_HIGH) | of_w))
        if self.z_fixed is None:
            self._add_range(z, one.near, (bit(f, NEAR) | of_z,) * 2)
        if self.z_fixed is not None or one.link is not None:
            self._add_link(f)

    def _add_link(self, f: int) -> None:
        """A bound on w - z, or on w if z is known."""
        grid, (low, high) = self.grids[f], self.variables[f].link or (0.0, 0.0)
        z, w = self.z_of[f], self.w_of[f]
        why = bit(f, LINK) | (0 if grid is None else bit(f, GRID))
        start = 0.0 if self.z_fixed is None else self.z_fixed[f]
        if grid is None:
            base = self.units(start)
            ends = [None if math.isinf(end) else base + self.units(end) for end in (low, high)]
        else:
            grid = Grid(0, grid.step, grid.parts) if self.z_fixed is None else grid
            ends = [grid.index_moved(start, low, True), grid.index_moved(start, high, False)]
        row = self._row(((w, 1), (z, -1))) if self.z_fixed is None else -1
        for end, is_low in zip(ends, (True, False), strict=True):
            if end is not None and row >= 0:
                self.clauses.append([Literal(row, not is_low, end, why)])
            elif end is not None:
                self.entries.append(Entry(w, is_low, end, why | bit(f, NEAR)))

    def _row(self, terms: Terms) -> int:
        if terms not in self._row_at:
            self._row_at[terms] = len(self.rows)
            self.rows.append(terms)
        return self._row_at[terms]

    def _add_clause(self, clause: Clause, unknown_of: list[int], side: int) -> None:
        """Demand a clause of w or of z."""
        scaled = [scale(linear, tuple([self.grids[f] for f, _ in linear.terms])) for linear in clause]
        if any(not one.terms and one.bound >= one.is_strict for one in scaled):
            return
        scaled = [one for one in scaled if one.terms]
        self.clauses.append([self._literal(one, unknown_of, side) for one in scaled])

    def _literal(self, scaled: Scaled, unknown_of: list[int], side: int) -> Literal:
        """The bound on the unknowns of z or of w."""
        mixed = not all(self.grids[f] is not None for f, _ in scaled.terms)
        terms, bound, why = [], scaled.bound, 0
        for f, factor in scaled.terms:
            grid = self.grids[f]
            terms.append((unknown_of[f], factor << self.shift if mixed and grid is not None else factor))
            if scaled.is_rounded:
                why |= bit(f, GRID)
            if self.z_fixed is None and self.variables[f].link is None:
                why |= bit(f, side)
        if mixed:
            bound <<= self.shift
        terms.sort()
        if scaled.is_strict:
            if self.slack is None:
                self.slack = self._add_unknown(-1, 0)
            return Literal(self._row((*terms, (self.slack, 1))), True, bound, why)
        if terms[0][1] < 0:
            return Literal(self._row(tuple([(j, -factor) for j, factor in terms])), False, -bound, why)
        return Literal(self._row(tuple(terms)), True, bound, why)
