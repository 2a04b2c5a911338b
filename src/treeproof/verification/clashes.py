"""Why pairs of rows in some cells are not both valid, written down for the checker.

It is searched for on the checker's own terms (`check/clashes.py`): the simplex method looks for a sum of relations that
is false. If it finds none, cells are cut off where one relation is; what is left open is told apart by cases, or cut.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from treeproof.check.attackers import Names
from treeproof.check.claims import Grid, chain_leaves
from treeproof.check.clashes import CASES, CUT, RULED_OUT, SUM, Pairs
from treeproof.check.columns import ANY
from treeproof.check.doubles import cells_between, nearest, printed
from treeproof.check.objects import attacker_content, model_of
from treeproof.check.one_hot import Views
from treeproof.check.relation_texts import Said, facts_in
from treeproof.check.rows import Asked, Valid, region_of
from treeproof.check.rules import Rejected
from treeproof.model.ensemble import Ensemble
from treeproof.model.kept import Kept
from treeproof.numbers.doubles import FloatArray
from treeproof.numbers.simplex import Bounds, Simplex
from treeproof.threat.relations import ColumnLiteral
from treeproof.threat.threat import Threat
from treeproof.verification.proofs import number, signed

MOST_STATES = 200
"""Parts of a question about pairs that are looked at."""
FINER = 1 << 40
"""Sums that must be below a bound are so by a unit that is so much smaller than all numbers given."""

PRICE = 2
"""Beside the two sides of a pair: what a column costs."""

_VIEWS: Kept[Views] = Kept()


class TooManyParts(Exception):
    """A reason was not found in time."""


class Clashes:
    """Reasons why conditions follow from all relations of a question together."""

    def __init__(self, ensemble: Ensemble, threat: Threat) -> None:
        """The user's own columns."""
        self._ensemble, self._threat = ensemble, threat

    def reason(
        self, own: FloatArray, near: Sequence[tuple[float, float, Sequence[float]]], clause: Sequence[ColumnLiteral]
    ) -> bytes | None:
        """Why every valid row that attacks make of neighbours of a row meets a condition; None if that is not found.

        Of each column `near` has the ends of neighbours, and their values if it is a category.
        """
        try:
            pairs = self._pairs(own, near, clause)
            return None if pairs is None else _Search().reason(pairs)
        except (Rejected, TooManyParts):
            return None

    def _views(self) -> Views:
        attacker, texts = self._threat.attacker, tuple(map(str, self._threat.relations.given))
        assert attacker is not None
        asked = {"relations": texts, "epsilons": ()}
        model = model_of(self._ensemble)
        key = attacker, repr(attacker), texts
        return _VIEWS.get(self._ensemble, key, lambda: Views(model.content, model, attacker_content(attacker), asked))

    def _pairs(
        self, own: FloatArray, near: Sequence[tuple[float, float, Sequence[float]]], clause: Sequence[ColumnLiteral]
    ) -> Pairs | None:
        """The pairs whose second row does not meet the condition; None if there are no neighbours."""
        view, x = self._views().of(own.tolist())
        extra: dict[int, list[float]] = {}
        for one in clause:
            extra.setdefault(one.feature, []).extend(one.where.cuts)
        grid = Grid(view.model, extra)
        parts = tuple(None if math.isnan(low) else (low, high) for low, high, _ in near)
        alike = [frozenset({value, *values}) for value, (_, _, values) in zip(x, near, strict=True)]
        sizes = [(own,) if values else math.inf for own, (_, _, values) in zip(alike, near, strict=True)]
        is_itself = all(part in (None, (value, value)) for value, part in zip(x, parts, strict=True))
        asked = Asked(view, x, sizes, frozenset(), is_itself)
        region = region_of(asked, view.columns, grid, parts)
        if region is None:
            return None
        _, left = chain_leaves([_test(one, grid) for one in clause], region.cells)
        cells = None if left is None else [left.get(f, mask) for f, mask in enumerate(region.cells)]
        return None if cells is None else Valid(asked, grid, view.columns, parts, region).pairs(cells)


def _test(one: ColumnLiteral, grid: Grid) -> tuple[int, int, bool]:
    """A condition as the checker reads it: a column, the cells that pass, and whether a missing value does."""
    cuts, passes = grid.cuts[one.feature], 0
    ends = [-math.inf, *one.where.cuts, math.inf]
    for low, high, holds in zip(ends, ends[1:], one.where.lefts, strict=False):
        if holds:
            passes |= cells_between(cuts, math.nextafter(low, math.inf), high)
    missing = 2 << len(cuts)
    return one.feature, passes | missing if one.missing else passes & ~missing, one.missing


class _Search:
    """One search for a reason."""

    def __init__(self) -> None:
        self._left = MOST_STATES

    def reason(self, pairs: Pairs) -> bytes:
        """Why there are no such pairs; TooManyParts if that is not found."""
        if pairs.is_ruled_out:
            return number(RULED_OUT)
        self._left -= 1
        if self._left < 0:
            raise TooManyParts
        program = _Program(pairs)
        if program.multipliers is not None and pairs.is_refuted_by(program.multipliers, program.rate):
            found = [number(k) + signed(times) for k, times in program.multipliers.items()]
            return number(SUM) + number(program.rate) + number(len(found)) + b"".join(found)
        for cut in _ends(pairs):
            below, above = pairs.cut(*cut)
            if below.is_ruled_out or above.is_ruled_out:
                return _cut(cut) + self.reason(below) + self.reason(above)
        choice = program.choice()
        if choice is not None:
            return number(CASES) + number(choice) + b"".join(map(self.reason, pairs.cases(choice)))
        for cut in (*program.between_points(), *_ends(pairs)):
            return _cut(cut) + b"".join(map(self.reason, pairs.cut(*cut)))
        raise TooManyParts


def _cut(cut: tuple[int, int, float]) -> bytes:
    side, f, at = cut
    return number(CUT) + number(side) + number(f) + struct.pack("<d", at)


def _ends(pairs: Pairs) -> Iterator[tuple[int, int, float]]:
    """Where conditions on a single column may begin or end to hold, within what is left of the column."""
    members, found = pairs.view.members, set()
    for side, fact in filter(None, pairs.facts):
        for f, value in _constants(pairs.view.relations.names, fact):
            place, codes = members[f]
            low, high = pairs.spans[side][place]
            ends = map(float, range(len(codes))) if codes else (math.nextafter(value, -math.inf), value)
            for cut in ((side, place, at) for at in ends if low <= at < high):
                if cut not in found:
                    found.add(cut)
                    yield cut


def _constants(names: Names, fact: Said) -> Iterator[tuple[int, float]]:
    """Columns, and numbers that they are compared with."""
    match fact:
        case ("or", parts):
            for part in parts:
                yield from _constants(names, part)
        case ("not", inner):
            yield from _constants(names, inner)
        case ("compare", factors, constant, _) if len(factors) == 1:
            ((column, factor),) = factors.items()
            yield from _doubles(names, column, [-constant / factor])
        case ("in", column, values):
            yield from _doubles(names, column, values)


def _doubles(names: Names, column: Any, values: Sequence[Any]) -> Iterator[tuple[int, float]]:
    f = names.position(column)
    for value in values:
        plain = nearest(value) if isinstance(value, Fraction) else value
        double = names.double(f, int(plain) if isinstance(plain, float) and plain.is_integer() else plain)
        if double is not None:
            yield f, double


BUDGET = -1
"""In place of a fact: that changes are paid for."""


class _Row(NamedTuple):
    """A sum of unknowns, and what it is at least and at most; infinite: anything."""

    terms: Mapping[int, Fraction]
    low: Any
    high: Any
    is_strict: bool = False
    fact: int | None = None
    """The number of the fact that says so, or BUDGET."""


class _Program:
    """The linear program of some pairs: sums of columns, what columns may be, and how far the two sides are apart."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        facts = {k: fact for k, fact in enumerate(pairs.facts) if fact is not None and _is_usable(pairs, *fact)}
        terms = {k: pairs.view.relations.terms(fact) for k, (_, fact) in facts.items()}
        columns = {(facts[k][0], f) for k, own in terms.items() for f, _ in own}
        linked = {f for _, f in columns if pairs.link(f) != ANY}
        priced = {(PRICE, f) for f in linked if pairs.fee(f)}
        self._columns = sorted(columns | {(side, f) for side in (0, 1) for f in linked} | priced)
        """The unknowns: a side, and a column."""
        at = self._at = {column: j for j, column in enumerate(self._columns)}
        self._rows = [_Row({j: Fraction(1)}, *self._span(*column)) for column, j in at.items()]
        for k, (side, fact) in facts.items():
            sums: dict[int, Fraction] = {}
            for f, factor in terms[k]:
                sums[at[side, f]] = sums.get(at[side, f], Fraction(0)) + factor
            self._rows.append(_row_of(sums, fact, k))
        for f in sorted(linked):
            self._rows.append(_Row({at[0, f]: Fraction(1), at[1, f]: Fraction(-1)}, *pairs.link(f)))
        self._rows += self._budget([f for side, f in at if side == PRICE])
        self._solve()

    def _budget(self, priced: Sequence[int]) -> Iterator[_Row]:
        """What columns cost at least by their distance, and what all of them may cost."""
        at, members = self._at, self._pairs.view.members
        for f in priced:
            for sign in (Fraction(1), Fraction(-1)):
                terms = {at[PRICE, f]: 1 / self._pairs.fee(f), at[0, f]: sign, at[1, f]: -sign}
                yield _Row(terms, Fraction(0), math.inf)
        if priced:
            places = {members[f][0] for side, f in at if side != PRICE}
            others = sum(price for place, price in enumerate(self._pairs.paid) if place not in places)
            terms = {at[PRICE, f]: Fraction(1) for f in priced}
            yield _Row(terms, -math.inf, self._pairs.view.purses[0][0] - others, fact=BUDGET)

    def _span(self, side: int, f: int) -> tuple[Any, Any]:
        """The least and the largest number that a column may be, or cost."""
        if side == PRICE:
            return Fraction(0), math.inf
        spans = [self._pairs.view.relations.ends([(f, Fraction(1))], [one]) for one in self._pairs.where[side][f][1]]
        ends = [one for one in spans if one is not None]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _solve(self) -> None:
        """Finds values of the unknowns, or what multipliers of facts add up to nonsense."""
        rows, n = self._rows, len(self._columns)
        parts = [math.lcm(*(factor.denominator for factor in row.terms.values())) for row in rows]
        ends = [
            Fraction(end) * own for row, own in zip(rows, parts, strict=True) for end in row[1:3] if _is_finite(end)
        ]
        self._unit = FINER * math.lcm(*(end.denominator for end in ends))
        bounds = Bounds.none(len(rows))
        for k, (row, own) in enumerate(zip(rows, parts, strict=True)):
            if _is_finite(row.low):
                bounds.low[k] = int(row.low * own * self._unit) + row.is_strict
            if _is_finite(row.high):
                bounds.high[k] = int(row.high * own * self._unit) - row.is_strict
        whole = [
            tuple((j, int(factor * own)) for j, factor in row.terms.items())
            for row, own in zip(rows[n:], parts[n:], strict=True)
        ]
        simplex = Simplex([0] * n, whole)
        self.multipliers: dict[int, int] | None = None
        self.rate = 0
        self._values: list[Fraction] = []
        if simplex.conflict(bounds) is None:
            self._values = [value / self._unit for value in simplex.values()]
        else:
            factors = {rows[j].fact: factor * parts[j] for j, factor in simplex.clash.items()}
            known = {k: factor for k, factor in factors.items() if k is not None}
            common = math.gcd(*known.values()) or 1
            self.multipliers = {k: known[k] // common for k in sorted(known)}
            self.rate = self.multipliers.pop(BUDGET, 0)

    def choice(self) -> int | None:
        """The number of a fact that leaves a choice between sums, if the values found keep none of it."""
        pairs = self._pairs
        for k, one in enumerate(pairs.facts):
            if one is None or one[1][0] != "or" or any(case in pairs.facts for case in _cases(*one)):
                continue
            side, (_, parts) = one
            open_parts = [part for part in parts if not pairs.view.relations.is_false(part, pairs.where[side])]
            if any(_is_sum(part) for part in open_parts) and not any(self._keeps(side, part) for part in open_parts):
                return k
        return None

    def _keeps(self, side: int, part: Said) -> bool:
        """Whether the values found keep a sum."""
        if not _is_usable(self._pairs, side, part) or not self._values:
            return False
        terms = self._pairs.view.relations.terms(part)
        if not all((side, f) in self._at for f, _ in terms):
            return False
        value = part[2] + sum(factor * self._values[self._at[side, f]] for f, factor in terms)
        return bool({"<=": value <= 0, "<": value < 0, ">=": value >= 0, ">": value > 0, "==": value == 0}[part[3]])

    def between_points(self) -> Iterator[tuple[int, int, float]]:
        """Where columns with a step can be cut since the values found are no points."""
        for (side, f), value in zip(self._columns, self._values, strict=False):
            place, codes = self._pairs.view.members[f]
            points = None if codes or side == PRICE else self._pairs.columns[place].points(self._pairs.x[place])
            if points is not None:
                at = points.point(points.last(nearest(value)))
                low, high = self._pairs.spans[side][place]
                if printed(at) != value and low <= at < high:
                    yield side, place, at


def _row_of(terms: Mapping[int, Fraction], fact: Said, k: int) -> _Row:
    """A comparison of a sum with 0."""
    _, _, constant, order = fact
    low = -constant if order in (">=", ">", "==") else -math.inf
    high = -constant if order in ("<=", "<", "==") else math.inf
    return _Row(terms, low, high, order in ("<", ">"), k)


def _is_finite(end: Any) -> bool:
    return not (isinstance(end, float) and math.isinf(end))


def _is_sum(fact: Said) -> bool:
    """Whether it is about a sum of columns, or says something about such sums."""
    return (fact[0] == "compare" and len(fact[1]) > 1) or (fact[0] in ("and", "or") and any(map(_is_sum, fact[1])))


def _is_usable(pairs: Pairs, side: int, fact: Said) -> bool:
    """Whether it is a comparison of a sum whose columns are there."""
    if fact[0] != "compare" or len(fact[1]) < 2:
        return False
    return not any(None in pairs.where[side][f][1] for f, _ in pairs.view.relations.terms(fact))


def _cases(side: int, choice: Said) -> Iterator[tuple[int, Said]]:
    """The facts that one or the other case of a choice adds."""
    return ((side, fact) for part in choice[1] for fact in facts_in(part))
