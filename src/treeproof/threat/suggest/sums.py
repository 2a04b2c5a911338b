"""Linear equations: a column that is the sum of others, a copy or a multiple of another, or adds up with others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treeproof.numbers.doubles import FloatArray
from treeproof.threat.suggest import texts
from treeproof.threat.suggest.chance import is_no_accident
from treeproof.threat.suggest.columns import SeenColumn, SeenTable
from treeproof.threat.suggest.suggestions import Suggestion

TRIED_ROWS = 64
"""Rows on which sums are tried before they are checked on all rows."""
MOST_COLUMNS = 150
"""Columns of which all pairs are added up."""
SLACK = 1e-3
"""A sum may be off by this share of the least spread of its columns."""
MAX_FACTOR = 1000
"""The largest factor between two columns that is proposed."""


@dataclass(frozen=True, eq=False)
class Equation:
    """Columns times factors that add up to a constant in every row, up to a tolerance."""

    columns: tuple[SeenColumn, ...]
    factors: tuple[int, ...]
    constant: float
    tolerance: float
    rows: int
    likely: float

    def suggestion(self) -> Suggestion:
        """The equation as one relation, or as two if it holds up to a tolerance."""
        evidence = self.rows, self.rows * (1 - self.likely)
        terms = list(zip(self.columns, self.factors, strict=True))
        if self.tolerance == 0:
            left = [(column, factor) for column, factor in terms if factor > 0]
            right = [(column, -factor) for column, factor in terms if factor < 0]
            constant = _decimal(self.constant)
            return Suggestion("sum", (f"{_added(left)} == {_added(right, constant)}",), *evidence)
        text = _added(terms)
        low, high = self.constant - self.tolerance, self.constant + self.tolerance
        pair = (f"{text} >= {texts.decimal(low)}", f"{text} <= {texts.decimal(high)}")
        return Suggestion("sum", pair, *evidence)


def _decimal(number: float) -> Fraction:
    return Fraction(repr(float(number)))


def _added(terms: list[tuple[SeenColumn, int]], constant: Fraction = Fraction(0)) -> str:
    shown = [(factor < 0, (f"{abs(factor)}*" if abs(factor) != 1 else "") + texts.name(column)) for column, factor in terms]
    if constant or not shown:
        shown.append((constant < 0, texts.number_text(abs(constant))))
    first, *rest = shown
    return "-" * first[0] + first[1] + "".join(f" {'-' if minus else '+'} {text}" for minus, text in rest)


@dataclass(frozen=True)
class _Candidate:
    """Positions of columns and their factors, which add up to 0 or to another constant."""

    terms: tuple[tuple[int, int], ...]
    to_constant: bool = False


def equations(table: SeenTable, columns: list[SeenColumn]) -> list[Equation]:
    """The equations between these columns of numbers, none of which follows from those before."""
    search = _Search(table, columns)
    found: list[Equation] = []
    independent = np.empty((0, len(columns)))
    candidates = sorted(search.candidates(), key=lambda one: len(one.terms))
    for candidate in candidates:
        row = np.zeros((1, len(columns)))
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


class _Search:
    """Tries sums on a few rows, and checks what is left on all of them."""

    def __init__(self, table: SeenTable, columns: list[SeenColumn]) -> None:
        self.table, self.columns = table, columns[:MOST_COLUMNS]
        rows = table.sampled(self.columns)
        rows = rows[np.isfinite(rows).all(axis=1)]
        self.usable = len(rows) >= TRIED_ROWS // 2
        self.rows: FloatArray = rows[:TRIED_ROWS]
        self.slack: FloatArray = SLACK * rows.std(axis=0) if self.usable else np.empty(0)
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
        if not np.isfinite(numbers).all():
            return None
        terms = np.array(factors, dtype=np.float64)[:, None] * numbers
        off = terms.sum(axis=0)
        constant, exact = 0.0, False
        if all(column.step is not None for column in columns):
            constant, exact = _exact_sum(numbers, factors, max(column.places for column in columns))
        if candidate.to_constant and not exact:
            constant = float(f"{np.median(off):.6g}")
        if not candidate.to_constant and constant != 0:
            constant, exact = 0.0, False
        rounding = 8 * np.finfo(float).eps * float(np.abs(terms).sum(axis=0).max())
        largest = max(float(np.abs(off - constant).max()), rounding)
        tolerance = 0.0 if exact else texts.rounded_up(largest)
        if tolerance > SLACK * float(numbers.std(axis=1).min()):
            return None
        other = np.random.default_rng(2).permutation(off.size)
        by_chance = np.abs(off - terms[-1] + terms[-1][other] - constant) <= largest
        likely = max(float(by_chance.mean()), 1 / off.size)
        if not is_no_accident(rows, self.table.first_half, likely, len(self.columns) ** 3):
            return None
        return Equation(columns, factors, constant, tolerance, int(rows.sum()), likely)


def _exact_sum(numbers: FloatArray, factors: tuple[int, ...], places: int) -> tuple[float, bool]:
    """What decimals with so many places add up to in the first row, and whether that is so in all rows."""
    counted = np.rint(numbers * 10**places)
    if sum(abs(factor) for factor in factors) * float(np.abs(counted).max()) >= 2**62:
        return 0.0, False
    sums = np.array(factors, dtype=np.int64) @ counted.astype(np.int64)
    return int(sums[0]) / 10**places, bool((sums == sums[0]).all())
