"""Robustness radii by looking at all cell vectors, one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from tests.support import oracles
from tests.support.oracles import OracleAttacker
from treeproof.model.ensemble import Ensemble

TINY = Fraction(1, 2**2000)
"""Far less than the step between any two levels here: doubles are whole multiples of 2**-1074."""


def distances(ensemble: Ensemble, attacker: OracleAttacker, x: tuple[float, ...]) -> Iterator[list[Fraction | None]]:
    """Per cell vector with another label than x: the signed distance of every feature, None where it stays."""
    options: list[list[tuple[int, Fraction | None]]] = []
    for f, value in enumerate(x):
        if math.isnan(value):
            options.append([(oracles.NAN_CELL, None)])
            continue
        spans = [span.meet(oracles._domain(attacker, f)) for span in oracles.cells_of(ensemble, f)]
        options.append(
            [
                (c, None if span.first <= value <= span.last else nearest(span, value))
                for c, span in enumerate(spans)
                if not span.empty
            ]
        )
    label = oracles.predict(ensemble, x)
    for vector in itertools.product(*options):
        if oracles.label_of_cells(ensemble, tuple(c for c, _ in vector)) != label:
            yield [away for _, away in vector]


def nearest(span: oracles.Span, x: float) -> Fraction:
    """From x to the nearest double of the span, signed."""
    return Fraction(span.first if span.first > x else span.last) - Fraction(x)


def least_scale(ensemble: Ensemble, attacker: OracleAttacker, x: tuple[float, ...]) -> Fraction | float:
    """The least scale of an interval attacker that breaks x, over all cell vectors."""
    best: Fraction | float = math.inf
    for moves in distances(ensemble, attacker, x):
        moved = [(f, away) for f, away in enumerate(moves) if away is not None]
        ends = [attacker.intervals[f][away > 0] for f, away in moved]
        if any(end == 0 for end in ends) or sum(attacker.costs[f] for f, _ in moved) > attacker.limit:
            continue
        scales = [
            Fraction(0) if math.isinf(end) else away / Fraction(end) for (_, away), end in zip(moved, ends, strict=True)
        ]
        best = min(best, max(scales))
    return best


def least_cost(ensemble: Ensemble, attacker: OracleAttacker, x: tuple[float, ...]) -> Fraction | float:
    """The least sum of distance**p that breaks x, over all cell vectors."""
    best: Fraction | float = math.inf
    for moves in distances(ensemble, attacker, x):
        moved = {f: away for f, away in enumerate(moves) if away is not None}
        if all(attacker.intervals[f] != (0.0, 0.0) for f in moved):
            best = min(best, sum((attacker.power(f, away) for f, away in moved.items()), Fraction(0)))
    return best


def largest_root(got: float, attacker: OracleAttacker, cost: Fraction | float) -> bool:
    """Whether `got` is the largest double with (got * radius) ** p <= cost."""
    radius, p = Fraction(attacker.radius), attacker.p
    fits = (Fraction(got) * radius) ** p <= cost
    return fits and (got == oracles.LARGEST or (Fraction(math.nextafter(got, math.inf)) * radius) ** p > cost)
