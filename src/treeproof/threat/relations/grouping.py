"""Relations on a model whose one-hot columns are groups: the same clauses, with codes in place of zeros and ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treeproof.model.ensemble import Ensemble
from treeproof.model.groups import Group, Grouped, names_of
from treeproof.model.pieces import Pieces
from treeproof.numbers.doubles import LARGEST
from treeproof.threat.relations.binding import EVERYWHERE, NOWHERE, either
from treeproof.threat.relations.bound import Clause, ColumnLiteral, Linear, Literal, Relations, exact


def groups_of(relations: Relations, ensemble: Ensemble) -> tuple[Group, ...]:
    """The groups of one-hot columns that relations declare; those without a name are called by their members."""
    names = names_of(ensemble)
    return tuple(
        Group(one.features, one.name or " or ".join(names[f] for f in one.features), one.exactly)
        for one in relations.groups
    )


def group_relations(relations: Relations, grouped: Grouped) -> Relations:
    """The relations on the columns of `grouped.ensemble`, which are broken by the same rows.

    Its groups are columns now. What is left of them are clauses that no row keeps which broke a group.
    """
    translator = _Translator(relations, grouped)
    clauses: list[tuple[int, Clause]] = []
    for number, clause in zip(relations.clause_origin, relations.clauses, strict=True):
        clauses += ((number, tuple(made)) for made in either([translator.clauses(literal) for literal in clause]))
    number_of = {one.features: n for one, n in zip(relations.groups, relations.group_origin, strict=True)}
    for group, place, vectors in zip(grouped.groups, grouped.places, grouped.vectors, strict=True):
        if len(vectors) > len(group.vectors):
            valid = np.arange(len(vectors)) < len(group.vectors)
            clauses.append((number_of[group.features], (ColumnLiteral(place, Pieces.of_codes(valid)),)))
    return Relations(
        relations.given,
        tuple(clause for _, clause in clauses),
        clause_origin=tuple(number for number, _ in clauses),
        steps=tuple(sorted((translator.place[f], step) for f, step in relations.steps if f in translator.place)),
    )


@dataclass(frozen=True)
class _Member:
    """A column of a group: the place of the group, and what the column is for each code."""

    place: int
    values: tuple[float, ...]


class _Translator:
    """Literals on the user's columns as clauses on those of the grouped model."""

    def __init__(self, relations: Relations, grouped: Grouped) -> None:
        self._steps = dict(relations.steps)
        self._members = {
            f: _Member(place, tuple(vectors[:, at].tolist()))
            for group, place, vectors in zip(grouped.groups, grouped.places, grouped.vectors, strict=True)
            for at, f in enumerate(group.features)
        }
        self.place: Mapping[int, int] = {
            columns[0]: place for place, columns in enumerate(grouped.columns) if columns[0] not in self._members
        }
        """Of each column that belongs to no group."""

    def clauses(self, literal: Literal) -> list[list[Literal]]:
        """What is true where a literal is, in conjunctive normal form."""
        if isinstance(literal, Linear):
            return self._linear(literal)
        member = self._members.get(literal.feature)
        if member is None:
            return [[ColumnLiteral(self.place[literal.feature], literal.where, literal.missing)]]
        return [[ColumnLiteral(member.place, Pieces.of_codes(literal.contains(np.array(member.values))))]]

    def _linear(self, literal: Linear) -> list[list[Literal]]:
        """For each sum that members can add: they add another one, or the other columns keep to what is left."""
        rest = {self.place[f]: factor for f, factor in literal.terms if f in self.place}
        sums = self._sums(literal)
        found: list[list[Literal]] = []
        for choice in itertools.product(*(sums[place].items() for place in sums)):
            left = literal.bound - sum(value for (value, _) in choice)
            others: list[Literal] = [
                ColumnLiteral(place, Pieces.of_codes(~codes)) for place, (_, codes) in zip(sums, choice, strict=True)
            ]
            if len(rest) > 1:
                found.append([*others, Linear.of(rest, left, strict=literal.strict)])
            elif rest:
                ((place, factor),) = rest.items()
                f = next(f for f, own in self.place.items() if own == place)
                found.append(
                    [*others, _one_column(place, factor, left, strict=literal.strict, stepped=f in self._steps)]
                )
            elif not (left > 0 if literal.strict else left >= 0):
                found.append(others)
        return found

    def _sums(self, literal: Linear) -> dict[int, dict[Fraction, np.ndarray]]:
        """For each group in a comparison, what its members add to the sum, and for which codes.

        Codes of rows where a member is missing are left out: there, the comparison is not false.
        """
        sums: dict[int, dict[Fraction, np.ndarray]] = {}
        for place in sorted({self._members[f].place for f, _ in literal.terms if f in self._members}):
            terms = [
                (self._members[f], factor, f in self._steps)
                for f, factor in literal.terms
                if f in self._members and self._members[f].place == place
            ]
            n_codes = len(terms[0][0].values)
            sums[place] = {}
            for code in range(n_codes):
                own = [(member.values[code], factor, stepped) for member, factor, stepped in terms]
                if any(math.isnan(value) for value, _, _ in own):
                    continue
                total = sum((factor * exact(value, stepped) for value, factor, stepped in own), Fraction(0))
                sums[place].setdefault(total, np.zeros(n_codes, dtype=bool))[code] = True
        return sums


def _one_column(place: int, factor: Fraction, bound: Fraction, *, strict: bool, stepped: bool) -> ColumnLiteral:
    """`factor * column <= bound`, exactly."""
    constant = bound / factor
    if abs(constant) > LARGEST:
        return ColumnLiteral(place, EVERYWHERE if bound > 0 else NOWHERE)
    last = float(constant)
    while exact(last, stepped) > constant:
        last = math.nextafter(last, -math.inf)
    while exact(math.nextafter(last, math.inf), stepped) <= constant:
        last = math.nextafter(last, math.inf)
    # Now `last` is the last double that is not above the constant. Is the constant itself on the side of those below?
    if exact(last, stepped) == constant and strict == (factor > 0):
        last = math.nextafter(last, -math.inf)
    return ColumnLiteral(place, Pieces((last,), (factor > 0, factor < 0)))
