"""Relations that no row keeps are refused, since everything would be proved about none."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from treeproof.errors import InvalidInput
from treeproof.model.ensemble import Ensemble
from treeproof.model.kept import Kept
from treeproof.numbers.doubles import LARGEST, FloatArray, next_down, next_up
from treeproof.threat.attacker import Attacker
from treeproof.threat.one_hot import bind_valid
from treeproof.threat.relations import ColumnLiteral, Literal
from treeproof.threat.relations.bound import Clause
from treeproof.threat.threat import Threat
from treeproof.verification import joint
from treeproof.verification.joint import Feasibility
from treeproof.verification.pair_clauses import clauses_over, features_of

_IS_POSSIBLE: Kept[bool] = Kept()

MOST_RELATIONS = 64
"""With more, it is not looked for those that are to blame."""
MOST_MISSING = 6
"""With more columns that may be missing, but not everywhere, not all choices are tried, and nothing is refused."""


def bind_possible(attacker: Attacker, ensemble: Ensemble, relations: Any, X: FloatArray | None = None) -> Threat:
    """The attacker and relations on the columns of a model; InvalidInput if no row of the domain keeps them all.

    What one-hot groups say is left out. A missing value keeps most relations: there may be some where the model takes
    them or, if the rows X are all that is asked about, where one of them has some or the attacker can blank them.
    """
    threat = bind_valid(attacker, ensemble, relations)
    numbers, bound = list(range(len(threat.relations.given))), threat.relations
    gaps = _takes_missing(ensemble)
    if X is not None:
        blanks = {f for f, moves in threat.columns if moves.blank is not None}
        gaps &= blanks | set(np.flatnonzero(np.isnan(X).any(axis=0)).tolist())
    key = bound.clauses, bound.steps, threat.domain_low.tobytes(), threat.domain_high.tobytes(), frozenset(gaps)
    if bound.clauses and not _IS_POSSIBLE.get(ensemble, key, lambda: _is_possible(ensemble, threat, numbers, gaps)):
        if len(numbers) <= MOST_RELATIONS:
            for one in list(numbers):
                without = [number for number in numbers if number != one]
                if not _is_possible(ensemble, threat, without, gaps):
                    numbers = without
        stated = " and ".join(repr(str(threat.relations.given[number])) for number in numbers)
        if gaps != _takes_missing(ensemble) and _is_possible(ensemble, threat, numbers, _takes_missing(ensemble)):
            stated += ", but with missing values, which neither the rows have nor the attacker makes"
        raise InvalidInput(f"no row that the model takes, in the domain, keeps {stated}", argument="relations")
    return threat


def _takes_missing(ensemble: Ensemble) -> set[int]:
    """The columns that may be missing."""
    return set(np.flatnonzero(ensemble.may_be_missing).tolist())


def _is_possible(ensemble: Ensemble, threat: Threat, numbers: list[int], gaps: set[int]) -> bool:
    """Whether there may be a row that keeps the relations with these numbers, whose values may be missing in `gaps`.

    And where a relation wants them to be missing, which is no mistake.
    """
    relations = threat.relations
    clauses = [
        clause for number, clause in zip(relations.clause_origin, relations.clauses, strict=True) if number in numbers
    ]
    literals = [one for clause in clauses for one in clause]
    needed = {one.feature for one in literals if isinstance(one, ColumnLiteral) and not one.missing}
    # Where nothing wants a value to be there, a missing one keeps all that is said of it.
    always = gaps - needed
    wanted = {f for one in literals if _wants_missing(one) for f in features_of(one)}
    sometimes = (gaps & needed) | (wanted - always)
    choices = itertools.chain.from_iterable(itertools.combinations(sometimes, n) for n in range(len(sometimes) + 1))
    return len(sometimes) > MOST_MISSING or any(
        _can_be_kept(ensemble, threat, clauses, always | set(gone)) for gone in choices
    )


def _wants_missing(literal: Literal) -> bool:
    return isinstance(literal, ColumnLiteral) and literal.missing and not any(literal.where.lefts)


def _can_be_kept(ensemble: Ensemble, threat: Threat, clauses: list[Clause], gone: set[int]) -> bool:
    """Whether there may be a row that keeps clauses, with these columns missing and no others."""
    relations = threat.relations
    features = sorted({f for clause in clauses for one in clause for f in features_of(one)} - gone)
    steps, categories = dict(relations.steps), dict(ensemble.categories)
    variables = []
    for f in features:
        end = float(threat.domain_low[f]), float(threat.domain_high[f])
        step = steps.get(f)
        if f in categories and categories[f].coded:
            end, step = (0.0, categories[f].n_codes - 1.0), Fraction(1)
        if f in steps and f not in categories:
            # Which points of a grid there are depends on the row; as decimals they may be a little beyond the domain.
            end, step = (max(float(next_down(end[0])), -LARGEST), min(float(next_up(end[1])), LARGEST)), None
        variables.append(joint.Variable(end, end, (-math.inf, math.inf), step))
    somewhere = tuple(min(max(0.0, one.end[0]), one.end[1]) for one in variables)
    over = clauses_over(clauses, {f: k for k, f in enumerate(features)}, steps)
    return joint.solve(tuple(variables), over, somewhere).outcome != Feasibility.INFEASIBLE
