"""Linear equations: a column that is the sum of others, a copy or a multiple of another, or adds up with others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import FloatArray
from treeproof.threat.relations.expressions import Comparison, Key, Sum
from treeproof.threat.suggest import phrases
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion

TRIED_ROWS = 64
"""Rows on which sums are tried before they are checked on all rows."""
MOST_COLUMNS = 150
"""Columns of which all pairs are added up."""
FEW_COLUMNS = 80
"""Columns of which all pairs are compared with each other."""
MOST_MATCHES = 20
"""Pairs that a pair is compared with."""
SLACK = 1e-3
"""A sum may be off by this share of the least spread of its columns."""
ROUNDING = 1e-9
"""Sums of numbers that are no decimals may always be off by this share of the largest one."""
LARGEST = 1e100
"""Of the numbers that are added up."""
MAX_FACTOR = 1000
"""The largest factor between two columns that is proposed."""


@dataclass(frozen=True, eq=False)
class Equation:
    """Columns times factors that add up to a constant in every row, up to a tolerance."""

    columns: tuple[SeenColumn, ...]
    factors: tuple[int, ...]
    constant: Fraction
    tolerance: Fraction
    rows: int
    likely: float

    def orders(self) -> Iterator[tuple[Key, Key]]:
        """Columns that are at most another one by the equation and the ranges of the others."""
        terms = list(zip(self.columns, self.factors, strict=True))
        for lower, factor in terms:
            # Upper minus lower, divided by the factor, is what the others add up to minus the constant.
            least = {
                one.key: min(each / factor * one.low, each / factor * one.high)
                for one, each in terms
                if one is not lower
            }
            for upper, opposite in terms:
                others = sum(least[one.key] for one, _ in terms if one is not lower and one is not upper)
                if opposite == -factor and others - float(self.constant) / factor >= 0:
                    yield lower.key, upper.key

    def suggestion(self) -> Suggestion:
        """The equation as one relation, or as two if it holds up to a tolerance."""
        terms = dict(zip(self.columns, self.factors, strict=True))
        if self.tolerance == 0:
            left = {column: factor for column, factor in terms.items() if factor > 0}
            right = {column: -factor for column, factor in terms.items() if factor < 0}
            relations = [Comparison(phrases.total(left), "==", phrases.total(right, self.constant))]
        else:
            low, high = (Sum((), self.constant + off) for off in (-self.tolerance, self.tolerance))
            relations = [
                Comparison(phrases.total(terms), ">=", low),
                Comparison(phrases.total(terms), "<=", high),
            ]
        return Suggestion.of("sum", relations, self.rows, self.likely)


@dataclass(frozen=True)
class _Candidate:
    """Positions of columns and their factors, which add up to 0 or to another constant."""

    terms: tuple[tuple[int, int], ...]
    to_constant: bool = False


def equations(table: SeenTable, columns: list[SeenColumn]) -> list[Equation]:
    """The equations between these columns of numbers, none of which follows from those before."""
    search = _Search(table, columns)
    found: list[Equation] = []
    independent = np.empty((0, len(search.columns)))
    candidates = sorted(search.candidates(), key=lambda one: len(one.terms))
    for candidate in candidates:
        row = np.zeros((1, len(search.columns)))
        for f, factor in candidate.terms:
            row[0, f] = factor
        extended = np.concatenate((independent, row))
        if np.linalg.matrix_rank(extended) < len(extended):
            continue
        equation = search.checked(candidate)
        if equation is not None:
            found.append(equation)
            independent = extended
    return found


def _complete(table: SeenTable, columns: list[SeenColumn]) -> tuple[list[SeenColumn], FloatArray]:
    """Columns that are present together in enough rows of the sample, and these rows; those with gaps give way."""
    present = np.ones(len(table.sample), dtype=bool)
    kept = []
    for column in sorted(columns, key=lambda column: column.n_missing):
        both = present & column.present[table.sample]
        if int(both.sum()) >= TRIED_ROWS // 2 and max(-column.low, column.high) <= LARGEST:
            present = both
            kept.append(column)
    kept = [column for column in columns if column in kept]
    return kept, table.sampled(kept)[present]


class _Search:
    """Tries sums on a few rows, and checks what is left on all of them."""

    def __init__(self, table: SeenTable, columns: list[SeenColumn]) -> None:
        self.table = table
        self.columns, rows = _complete(table, columns[:MOST_COLUMNS])
        self.rows: FloatArray = rows[:TRIED_ROWS]
        self.slack: FloatArray = SLACK * rows.std(axis=0) if self.columns else np.empty(0)
        """How far each column lets a sum be off; 0 for one that does not vary here, which is left out."""

    def candidates(self) -> Iterator[_Candidate]:
        """What holds on the rows that are tried."""
        moving = np.flatnonzero(self.slack > 0).tolist()
        for i, a in enumerate(moving):
            yield from self._multiples(a)
            for b in moving[i + 1 :]:
                yield from self._adding_up([a, b])
                slack = min(self.slack[a], self.slack[b])
                if np.ptp(self.rows[:, a] - self.rows[:, b]) <= 2 * slack:
                    yield _Candidate(((a, 1), (b, -1)), to_constant=True)
        for i in range(len(moving)):
            for end in range(i + 3, len(moving) + 1):
                yield from self._adding_up(moving[i:end])
        if 4 <= len(moving) <= FEW_COLUMNS:
            yield from self._balances(np.array(moving))

    def _balances(self, moving: npt.NDArray[np.intp]) -> Iterator[_Candidate]:
        """Four columns, two or three of which add up to the others: a + b == c + d, a + b + c == d."""
        # One number for each column, a random sum of its rows; sums of columns have the sums of these.
        weights = np.random.default_rng(3).uniform(0.5, 1, len(self.rows))
        number = weights @ self.rows
        one, other = (moving[ends] for ends in np.triu_indices(len(moving), 1))
        # Pairs on the right: their sum, and both differences.
        right = np.concatenate((number[one] + number[other], number[one] - number[other], number[other] - number[one]))
        order = np.argsort(right)
        off = weights.sum() * np.minimum(self.slack[one], self.slack[other])
        first = np.searchsorted(right[order], number[one] + number[other] - off, side="left")
        last = np.searchsorted(right[order], number[one] + number[other] + off, side="right")
        for pair in np.flatnonzero(last > first).tolist():
            for at in order[first[pair] : last[pair]][:MOST_MATCHES].tolist():
                kind, twin = divmod(at, len(one))
                plus, minus = (-1, -1) if kind == 0 else (-1, 1) if kind == 1 else (1, -1)
                terms = [(one[pair], 1), (other[pair], 1), (one[twin], plus), (other[twin], minus)]
                positions = [int(f) for f, _ in terms]
                sums = self.rows[:, positions] @ np.array([factor for _, factor in terms], dtype=np.float64)
                if len(set(positions)) == 4 and (np.abs(sums) <= self.slack[positions].min()).all():
                    yield _Candidate(tuple((int(f), factor) for f, factor in terms))

    def _adding_up(self, terms: list[int]) -> Iterator[_Candidate]:
        """These columns, if they add up to a constant, or to another column."""
        sums = self.rows[:, terms].sum(axis=1)
        slack = np.minimum(self.slack, self.slack[terms].min())
        plus = tuple((f, 1) for f in terms)
        if np.ptp(sums) <= 2 * slack[terms[0]]:
            yield _Candidate(plus, to_constant=True)
        for c in np.flatnonzero(np.abs(self.rows[0] - sums[0]) <= slack).tolist():
            if c not in terms and slack[c] > 0 and (np.abs(self.rows[:, c] - sums) <= slack[c]).all():
                yield _Candidate((*plus, (c, -1)))

    def _multiples(self, a: int) -> Iterator[_Candidate]:
        """Columns that are a whole number of times this one."""
        at = int(np.argmax(np.abs(self.rows[:, a])))
        if self.rows[at, a] == 0:
            return
        factors = np.rint(self.rows[at] / self.rows[at, a])
        for c in np.flatnonzero((np.abs(factors) > 1) & (np.abs(factors) <= MAX_FACTOR)).tolist():
            factor = int(factors[c])
            if c != a and (np.abs(self.rows[:, c] - factor * self.rows[:, a]) <= self.slack[a]).all():
                yield _Candidate(((c, 1), (a, -factor)))

    def checked(self, candidate: _Candidate) -> Equation | None:
        """The equation, if it holds on all rows and is no accident."""
        columns = tuple(self.columns[f] for f, _ in candidate.terms)
        factors = tuple(factor for _, factor in candidate.terms)
        rows = np.logical_and.reduce([column.present for column in columns])
        numbers = np.stack([column.numbers[rows] for column in columns])
        terms = np.array(factors, dtype=np.float64)[:, None] * numbers
        off = terms.sum(axis=0)
        rounding = ROUNDING * float(np.abs(terms).max())
        exact = _exact_sum(columns, numbers, factors)
        if exact is not None and (candidate.to_constant or exact == 0):
            constant = exact
        else:
            middle = float(f"{np.median(off):.6g}") if candidate.to_constant else 0.0
            constant = decimal_of(middle) if abs(middle) > rounding + float(np.ptp(off)) else Fraction(0)
        largest = max(float(np.abs(off - float(constant)).max()), rounding)
        tolerance = Fraction(0) if constant == exact else phrases.rounded_up(largest)
        if tolerance > SLACK * float(numbers.std(axis=1).min()):
            return None
        other = np.random.default_rng(2).permutation(off.size)
        by_chance = np.abs(off - terms[-1] + terms[-1][other] - float(constant)) <= largest
        likely = max(float(by_chance.mean()), 1 / off.size)
        if not is_no_accident(rows, self.table.first_half, likely, len(self.columns) ** min(len(columns), 4)):
            return None
        return Equation(columns, factors, constant, tolerance, int(rows.sum()), likely)


def _exact_sum(columns: tuple[SeenColumn, ...], numbers: FloatArray, factors: tuple[int, ...]) -> Fraction | None:
    """What the decimals of columns on grids add up to, if that is the same in all rows."""
    unit = 10 ** max(column.places for column in columns)
    counted = np.rint(numbers * unit)
    largest = sum(map(abs, factors)) * float(np.abs(counted).max())
    if largest >= 2**62 or any(column.step is None for column in columns):
        return None
    sums = np.array(factors, dtype=np.int64) @ counted.astype(np.int64)
    return Fraction(int(sums[0]), unit) if (sums == sums[0]).all() else None
