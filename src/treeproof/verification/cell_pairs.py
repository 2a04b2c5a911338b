"""Pairs of rows in cells as questions about linear relations; and how near to x they are, where prices are distances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treeproof.model.pieces import Pieces
from treeproof.numbers.decimals import decimal_of
from treeproof.numbers.doubles import LARGEST, FloatArray
from treeproof.threat.relations import ColumnLiteral
from treeproof.verification import joint

if TYPE_CHECKING:
    from treeproof.threat.threat import Threat

NEGLIGIBLE = Fraction(1, 2**20)
"""A share of what the dearest column costs: columns that cost less are left out of proofs, if they can be."""


@dataclass(frozen=True, eq=False)
class CellPair:
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

    def solve(self, variables: list[joint.Variable] | None = None, nearer: Nearer | None = None) -> joint.Answer:
        """Whether there is a pair; of other variables, or `nearer` than some price."""
        own = self.variables if variables is None else variables
        if nearer is None:
            return joint.solve(tuple(own), self.clauses, self.fixed)
        assert self.fixed is not None
        more, fixed = nearer.variables, (*self.fixed, *[0.0] * len(nearer.variables))
        return joint.solve((*own, *more), (*self.clauses, *nearer.clauses, (nearer.price,)), fixed)

    def least(self, nearer: Nearer) -> Fraction:
        """A sum of prices that no pair is below."""
        assert self.fixed is not None
        fixed = (*self.fixed, *[0.0] * len(nearer.variables))
        variables, clauses = (*self.variables, *nearer.variables), (*self.clauses, *nearer.clauses)
        total = joint.least(variables, clauses, nearer.price.terms, fixed)
        return Fraction(0) if total is None else max(total - nearer.start, Fraction(0))

    def rows(self, answer: joint.Answer) -> tuple[FloatArray, FloatArray]:
        """The pair of an answer."""
        z, w = self.z.copy(), self.w.copy()
        at = [self.places[k] for k in self.numbers]
        w[at] = [answer.w[k] for k in self.numbers]
        z[at] = [answer.z[k] for k in self.numbers] if self.fixed is None else [self.fixed[k] for k in self.numbers]
        return z, w


@dataclass(frozen=True, eq=False)
class Nearer:
    """What rows keep that cost at most so much: `price`, a sum that is `start` at x.

    Its `variables` are distances, behind those of the cells, and `clauses` say so.
    """

    variables: list[joint.Variable]
    clauses: list[joint.Clause]
    price: joint.Linear
    start: Fraction


class Distance:
    """The L1 distance of rows in cells from x: that of numbers, and what categories cost, the `rest`.

    Elsewhere the rest is not less but for rows that meet `elsewhere`. Only the numbers are counted that make a
    difference so far: the fewer they are, the more rows a proof is about.
    """

    def __init__(self, threat: Threat, x: FloatArray, cell_pair: CellPair) -> None:
        self._threat, self._x, self._cell_pair = threat, x, cell_pair
        self._moving = [k for k in cell_pair.numbers if cell_pair.variables[k].link is not None]
        self._counted: frozenset[int] = frozenset()
        numbers = [cell_pair.places[k] for k in cell_pair.numbers]
        moved = np.where(np.isin(np.arange(len(x)), numbers), x, cell_pair.w)
        prices = threat.attack_prices(x, x, moved) or {}
        self.rest = sum(prices.values(), Fraction(0))
        self.elsewhere = tuple(_cheaper(threat, x, f, price) for f, price in prices.items())

    def of(self, w: FloatArray) -> dict[int, Fraction]:
        """What each column of a row costs."""
        prices = self._threat.attack_prices(self._x, self._x, w)
        assert prices is not None
        return prices

    def count(self, prices: dict[int, Fraction]) -> bool:
        """Counts the numbers from now on that cost something; whether there are new ones."""
        little = max(prices.values(), default=Fraction(0)) * NEGLIGIBLE
        before, places = self._counted, self._cell_pair.places
        self._counted |= {k for k in self._moving if prices.get(places[k], 0) > little}
        if self._counted == before:
            self._counted = frozenset(self._moving)
        return self._counted != before

    def at_most(self, price: Fraction, count_all: bool = False) -> Nearer:
        """What rows keep that cost at most so much."""
        variables: list[joint.Variable] = []
        clauses: list[joint.Clause] = []
        terms, start = [], Fraction(0)
        for k in self._moving if count_all else sorted(self._counted):
            one, f = self._cell_pair.variables[k], self._cell_pair.places[k]
            exactly = Fraction if one.step is None else decimal_of
            factor, x = 1 / exactly(float(self._threat.unit[f])), exactly(float(self._x[f]))
            sign = (one.end[0] > one.near[1]) - (one.end[1] < one.near[0])
            if sign:
                terms.append((k, sign * factor))
                start += sign * factor * x
                continue
            # The distance is at least what w is above x, and below.
            away = len(self._cell_pair.variables) + len(variables)
            variables.append(joint.Variable((0.0, 0.0), (0.0, LARGEST), (-math.inf, math.inf)))
            clauses += [(joint.Linear(((k, s), (away, Fraction(-1))), s * x),) for s in (Fraction(1), Fraction(-1))]
            terms.append((away, factor))
        return Nearer(variables, clauses, joint.Linear(tuple(terms), price - self.rest + start), start)


def _cheaper(threat: Threat, x: FloatArray, f: int, price: Fraction) -> ColumnLiteral:
    """A condition that values of a category meet that cost less than this."""
    own, moves = float(x[f]), threat.moves_of(f)
    codes = range(int(threat.domain_high[f]) + 1)
    prices = (moves.price(own, own, float(code)) for code in codes)
    return ColumnLiteral(f, Pieces.of_codes([one is not None and one < price for one in prices]))
