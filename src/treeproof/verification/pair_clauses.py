"""Relations as bounds on sums over some columns of a row, as the question about pairs of rows takes them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from treeproof.numbers.doubles import next_up
from treeproof.threat.relations import Clause, ColumnLiteral, Linear, Literal
from treeproof.verification import joint


def features_of(literal: Literal) -> tuple[int, ...]:
    """The columns that a condition is about."""
    return (literal.feature,) if isinstance(literal, ColumnLiteral) else tuple(f for f, _ in literal.terms)


def clauses_over(
    clauses: Iterable[Clause], number: Mapping[int, int], steps: Collection[int]
) -> tuple[joint.Clause, ...]:
    """Clauses over variables, by the `number` of each column; in a row whose other columns are missing.

    Columns with a step stand for the decimals that they print as.
    """
    found: list[joint.Clause] = []
    for clause in clauses:
        gone = [one for one in clause if any(f not in number for f in features_of(one))]
        # Only what is false breaks a relation, and sums with a missing value are not.
        if any(isinstance(one, Linear) or one.missing for one in gone):
            continue
        choices: list[list[list[joint.Linear]]] = []
        for one in clause:
            if isinstance(one, Linear) and one not in gone:
                terms = tuple((number[f], factor) for f, factor in one.terms)
                choices.append([[joint.Linear(terms, one.bound, one.strict)]])
            elif isinstance(one, ColumnLiteral) and one not in gone:
                choices.append(_outside_gaps(one, number[one.feature], one.feature in steps))
        found += [tuple(itertools.chain.from_iterable(parts)) for parts in itertools.product(*choices)]
    return tuple(found)


def _outside_gaps(literal: ColumnLiteral, k: int, stepped: bool) -> list[list[joint.Linear]]:
    """What one column's values are where a condition holds: of every gap between them they are on one side or other."""
    number = (lambda x: Fraction(repr(x))) if stepped else Fraction
    gaps = []
    cuts, lefts = literal.where.cuts, literal.where.lefts
    for i, holds in enumerate(lefts):
        if not holds:
            sides = []
            if i > 0:
                sides.append(joint.Linear(((k, Fraction(1)),), number(cuts[i - 1])))
            if i < len(cuts):
                sides.append(joint.Linear(((k, Fraction(-1)),), -number(float(next_up(cuts[i])))))
            gaps.append(sides)
    return gaps
