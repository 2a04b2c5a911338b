"""The joint question: against enumeration on grids, and against Fourier-Motzkin elimination on real numbers."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import pytest

from treeproof.numbers.doubles import LARGEST
from treeproof.verification.joint import Answer, Clause, Feasibility, Linear, Variable, solve

FEASIBLE, INFEASIBLE, UNKNOWN = Feasibility
ONE = Fraction(1)


def at_most(bound: Fraction | int, *factors: Fraction | int, strict: bool = False) -> Linear:
    """factors times variables 0, 1, … is at most (below) the bound."""
    terms = tuple((f, Fraction(factor)) for f, factor in enumerate(factors) if factor)
    return Linear(terms, Fraction(bound), strict)


def equal(bound: Fraction | int, *factors: Fraction | int) -> tuple[Clause, Clause]:
    return (at_most(bound, *factors),), (at_most(-bound, *[-factor for factor in factors]),)


def holds(clauses: tuple[Clause, ...], row: tuple[Fraction, ...]) -> bool:
    def one(linear: Linear) -> bool:
        total = sum((factor * row[f] for f, factor in linear.terms), start=Fraction(0))
        return total < linear.bound or (total == linear.bound and not linear.strict)

    return all(any(one(linear) for linear in clause) for clause in clauses)


def linked(variable: Variable, z: Fraction, w: Fraction) -> bool:
    if variable.link is None:
        return z == w
    low, high = variable.link
    read = Fraction if variable.step is None else lambda x: Fraction(repr(x))
    return (math.isinf(low) or read(low) <= w - z) and (math.isinf(high) or w - z <= read(high))


# Grids, enumerated.


def points(variable: Variable, ends: tuple[float, float]) -> list[Fraction]:
    """All numbers of a grid between two doubles that are not far from the origin."""
    assert variable.step is not None
    numbers = [variable.origin + k * variable.step for k in range(-16, 17)]
    return [number for number in numbers if ends[0] <= float(number) <= ends[1]]


def some_pair(
    variables: tuple[Variable, ...], clauses: tuple[Clause, ...], z_fixed: tuple[float, ...] | None
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]] | None:
    if z_fixed is None:
        starts = [z for z in itertools.product(*[points(one, one.near) for one in variables]) if holds(clauses, z)]
    else:
        starts = [tuple(Fraction(repr(x)) for x in z_fixed)]
    ends = [w for w in itertools.product(*[points(one, one.end) for one in variables]) if holds(clauses, w)]
    for z, w in itertools.product(starts, ends):
        if all(map(linked, variables, z, w)):
            return z, w
    return None


def random_grid_variable(rng: random.Random) -> Variable:
    step = rng.choice([ONE, Fraction(1, 10), Fraction(1, 4), Fraction(1, 100), Fraction(5)])
    origin = step * rng.randint(-3, 3) + (step * Fraction(1, 2) if rng.random() < 0.2 else 0)

    def ends() -> tuple[float, float]:
        low = origin + step * rng.randint(-3, 3)
        high = low + step * rng.randint(0, 3)
        if rng.random() < 0.3:
            low, high = low - step * Fraction(1, 3), high + step * Fraction(1, 3)
        return float(low), float(high)

    links = [None, None, (float(-step), float(2 * step)), (0.0, float(3 * step)), (-math.inf, 0.0), (-0.3, 0.3)]
    return Variable(ends(), ends(), rng.choice(links), step, origin)


def random_clauses(rng: random.Random, variables: tuple[Variable, ...], n: int) -> tuple[Clause, ...]:
    def linear() -> Linear:
        terms = [(f, Fraction(rng.choice([-3, -2, -1, -1, 1, 1, 2, 3]))) for f in range(n) if rng.random() < 0.7]
        bound = Fraction(0)
        for f, factor in terms:
            one = variables[f]
            bound += factor * (one.origin + (one.step or 1) * rng.randint(-2, 2))
        return Linear(tuple(terms), bound, rng.random() < 0.3)

    clauses: list[Clause] = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        if kind < 0.3:
            one = replace(linear(), strict=False)
            clauses += [(one,), (Linear(tuple((f, -factor) for f, factor in one.terms), -one.bound),)]
        else:
            clauses.append(tuple(linear() for _ in range(1 if kind < 0.7 else rng.randint(2, 3))))
    return tuple(clauses)


def random_fixed(rng: random.Random, variables: tuple[Variable, ...]) -> tuple[float, ...]:
    return tuple(float(one.origin + (one.step or 1) * rng.randint(-3, 3)) for one in variables)


def beyond_conflict(rng: random.Random, variables: tuple[Variable, ...], answer: Answer) -> tuple[Variable, ...]:
    """Other ranges and links, for which the conflict says there is no pair either."""
    changed = []
    for f, one in enumerate(variables):
        far = 4 * float(one.step or 1)
        low, high = float(one.origin) - far, float(one.origin) + far
        named = {bound.side: bound.value for bound in answer.conflict if bound.variable == f}
        end = named.get("end_low", low), named.get("end_high", high)
        near = one.near if answer.uses_row else (low, high)
        link = one.link if f in answer.links else rng.choice([None, (-math.inf, math.inf), (0.0, far)])
        changed.append(replace(one, near=near, end=end, link=link))
    return tuple(changed)


@pytest.mark.parametrize("seed", range(12))
def test_grids_as_enumerated(seed: int) -> None:
    rng, seen = random.Random(seed), set()
    for _ in range(100):
        n = rng.randint(1, 3)
        variables = tuple(random_grid_variable(rng) for _ in range(n))
        clauses = random_clauses(rng, variables, n)
        z_fixed = random_fixed(rng, variables) if rng.random() < 0.4 else None
        answer = solve(variables, clauses, z_fixed)
        found = some_pair(variables, clauses, z_fixed)
        assert answer.outcome == (INFEASIBLE if found is None else FEASIBLE), (variables, clauses, z_fixed)
        seen.add(answer.outcome)
        if answer.outcome == FEASIBLE:
            z, w = ([Fraction(repr(x)) for x in row] for row in (answer.z, answer.w))
            assert holds(clauses, tuple(w)) and all(map(linked, variables, z, w))
            assert all(one.end[0] <= x <= one.end[1] for one, x in zip(variables, answer.w, strict=True))
            if z_fixed is None:
                assert holds(clauses, tuple(z))
                assert all(one.near[0] <= x <= one.near[1] for one, x in zip(variables, answer.z, strict=True))
            else:
                assert answer.z == z_fixed
        elif n < 3:
            others = beyond_conflict(rng, variables, answer)
            fixed = z_fixed if answer.uses_row or z_fixed is None else random_fixed(rng, variables)
            assert some_pair(others, clauses, fixed) is None, (variables, clauses, z_fixed, answer)
            assert solve(others, clauses, fixed).outcome == INFEASIBLE
    assert seen == {FEASIBLE, INFEASIBLE}


# Real numbers, by elimination.

Row = tuple[tuple[Fraction, ...], Fraction, bool]
"""factors · x <= bound, or < if strict."""


def has_real_solution(rows: set[Row], n: int) -> bool:
    """Fourier-Motzkin: combine every upper bound of a variable with every lower one, and forget the variable."""
    for j in range(n):
        above = [row for row in rows if row[0][j] > 0]
        below = [row for row in rows if row[0][j] < 0]
        rows = {row for row in rows if row[0][j] == 0}
        for (a, a_bound, a_strict), (b, b_bound, b_strict) in itertools.product(above, below):
            p, q = -b[j], a[j]
            factors = tuple(p * x + q * y for x, y in zip(a, b, strict=True))
            size = max(map(abs, factors)) or ONE
            bound = (p * a_bound + q * b_bound) / size
            if any(factors) or bound < 0 or (bound == 0 and (a_strict or b_strict)):
                rows.add((tuple(x / size for x in factors), bound, a_strict or b_strict))
    return not any(bound < 0 or (bound == 0 and strict) for _, bound, strict in rows)


def is_real_feasible(
    variables: tuple[Variable, ...], clauses: tuple[Clause, ...], z_fixed: tuple[float, ...] | None
) -> bool:
    """Unknowns are w, then z."""
    n = len(variables)
    rows: set[Row] = set()

    def add(terms: dict[int, Fraction | int], bound: float | Fraction, strict: bool = False) -> None:
        if not isinstance(bound, float) or math.isfinite(bound):
            rows.add((tuple(Fraction(terms.get(j, 0)) for j in range(2 * n)), Fraction(bound), strict))

    for f, one in enumerate(variables):
        near = one.near if z_fixed is None else (z_fixed[f],) * 2
        low, high = one.link or (0.0, 0.0)
        for j, ends in ((f, one.end), (n + f, near)):
            add({j: 1}, ends[1])
            add({j: -1}, -ends[0])
        add({f: 1, n + f: -1}, high)
        add({f: -1, n + f: 1}, -low)
    both = [(clause, 0) for clause in clauses] + ([(clause, n) for clause in clauses] if z_fixed is None else [])
    for chosen in itertools.product(*[[(linear, first) for linear in clause] for clause, first in both]):
        given = set(rows)
        for linear, first in chosen:
            add({first + f: factor for f, factor in linear.terms}, linear.bound, linear.strict)
        if has_real_solution(rows, 2 * n):
            return True
        rows = given
    return False


def random_real_variable(rng: random.Random) -> Variable:
    def ends() -> tuple[float, float]:
        low = rng.choice([rng.randint(-3, 3), rng.randint(-30, 30) / 8, rng.uniform(-3, 3)])
        return rng.choice([low, low, -math.inf]), rng.choice([low, low + 1, low + 2.5, low + 0.1, math.inf])

    links = [None, None, (-1.0, 1.0), (0.0, 0.1), (-math.inf, 0.0), (-0.3, 0.7)]
    return Variable(ends(), ends(), rng.choice(links))


@pytest.mark.parametrize("seed", range(8))
def test_real_numbers_as_eliminated(seed: int) -> None:
    rng = random.Random(seed)
    seen = {FEASIBLE: 0, INFEASIBLE: 0, UNKNOWN: 0}
    for _ in range(50):
        n = rng.randint(1, 3)
        variables = tuple(random_real_variable(rng) for _ in range(n))
        clauses = random_clauses(rng, variables, n)
        z_fixed = tuple(rng.uniform(-3, 3) for _ in range(n)) if rng.random() < 0.5 else None
        if n == 3 and z_fixed is None:
            variables = tuple(replace(one, link=None) for one in variables)
        answer = solve(variables, clauses, z_fixed)
        seen[answer.outcome] += 1
        assert (answer.outcome == INFEASIBLE) != is_real_feasible(variables, clauses, z_fixed), (variables, clauses, z_fixed)
        if answer.outcome == INFEASIBLE:
            others = beyond_conflict(rng, variables, answer)
            fixed = z_fixed if answer.uses_row or z_fixed is None else tuple(rng.uniform(-3, 3) for _ in range(n))
            assert not is_real_feasible(others, clauses, fixed), (variables, clauses, z_fixed, answer)
            assert solve(others, clauses, fixed).outcome == INFEASIBLE
        elif answer.outcome == FEASIBLE:
            z, w = (tuple(map(Fraction, row)) for row in (answer.z, answer.w))
            assert holds(clauses, w) and (z_fixed is not None or holds(clauses, z))
            assert all(map(linked, variables, z, w))
    assert min(seen[FEASIBLE], seen[INFEASIBLE]) > 5
    print(seen)
