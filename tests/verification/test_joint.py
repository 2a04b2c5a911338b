"""The joint question: against enumeration on grids, and against Fourier-Motzkin elimination on real numbers."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.support.elimination import Rows, add_row, has_real_solution
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
            clauses.append(tuple(linear() for _ in range(1 if kind < 0.7 else 2)))
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
        step = one.step if one.step is None or f in answer.grids else one.step / 2
        changed.append(replace(one, near=near, end=end, link=link, step=step))
    return tuple(changed)


@pytest.mark.parametrize("seed", [*range(12), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 24)]])
def test_grids_as_enumerated(seed: int) -> None:
    rng, seen = random.Random(seed), set()
    for _ in range(60):
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


def test_equations_that_need_splitting() -> None:
    """Whole numbers under an equation with large factors, and a choice; all points from -15 to 15 are looked at."""
    rng, seen = random.Random(3), {FEASIBLE: 0, INFEASIBLE: 0}
    grid = np.stack(np.meshgrid(*[np.arange(-15, 16)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    for _ in range(120):
        factors = rng.choices([-15, -10, -6, 6, 7, 10, 11, 15], k=3)
        total, choice = rng.randint(-60, 60), rng.randint(-3, 3)
        clauses = (*equal(total, *factors), (at_most(choice, 1, 1), at_most(-choice - 4, -1, -1)))
        sums = grid[:, 0] + grid[:, 1]
        valid = grid[(grid @ factors == total) & ((sums <= choice) | (sums >= choice + 4))]
        lows = [rng.randint(-15, 8) for _ in range(3)]
        ends = [(float(low), float(low + rng.randint(1, 7))) for low in lows]
        answer = solve(tuple(Variable((-15.0, 15.0), end, None, ONE) for end in ends), clauses)
        low, high = np.array(ends).T
        assert (answer.outcome == FEASIBLE) == bool(((valid >= low) & (valid <= high)).all(axis=1).any())
        seen[answer.outcome] += 1
        if answer.outcome == INFEASIBLE:
            kept = np.ones(len(valid), dtype=bool)
            for bound in answer.conflict:
                column = valid[:, bound.variable]
                kept &= column >= bound.value if bound.side == "end_low" else column <= bound.value
            assert not kept.any()
    assert min(seen.values()) > 10


# Real numbers, by elimination.


def is_real_feasible(
    variables: tuple[Variable, ...], clauses: tuple[Clause, ...], z_fixed: tuple[float, ...] | None
) -> bool:
    """Unknowns are w, then z where that is something else."""
    n = len(variables)
    free = [f for f, one in enumerate(variables) if one.link is not None and z_fixed is None]
    size = n + len(free)
    z_of = [n + free.index(f) if f in free else f for f in range(n)]
    rows: Rows = {}

    def add(rows: Rows, terms: dict[int, Fraction | int], bound: float | Fraction, strict: bool = False) -> None:
        if not isinstance(bound, float) or math.isfinite(bound):
            add_row(rows, tuple(Fraction(terms.get(j, 0)) for j in range(size)), Fraction(bound), not strict)

    for f, one in enumerate(variables):
        low, high = one.link or (0.0, 0.0)
        z, start = ({}, Fraction(z_fixed[f])) if z_fixed is not None else ({z_of[f]: 1}, Fraction(0))
        for j, ends in ((f, one.end), (z_of[f], one.near if z_fixed is None else (-math.inf, math.inf))):
            add(rows, {j: 1}, ends[1])
            add(rows, {j: -1}, -ends[0])
        if z_fixed is not None or f in free:
            if math.isfinite(high):
                add(rows, {f: 1} | dict.fromkeys(z, -1), start + Fraction(high))
            if math.isfinite(low):
                add(rows, {f: -1} | z, -start - Fraction(low))
    both = [(clause, list(range(n))) for clause in clauses] + ([(clause, z_of) for clause in clauses] if free else [])
    for chosen in itertools.product(*[[(linear, of) for linear in clause] for clause, of in both]):
        demanded = dict(rows)
        for linear, of in chosen:
            add(demanded, {of[f]: factor for f, factor in linear.terms}, linear.bound, linear.strict)
        if has_real_solution(demanded, size):
            return True
    return False


def is_mixed_feasible(
    variables: tuple[Variable, ...], clauses: tuple[Clause, ...], z_fixed: tuple[float, ...] | None
) -> bool:
    """Every pair of points of the grids, whose numbers must be doubles here, and real numbers elsewhere."""

    def choices(f: int) -> list[Variable]:
        one = variables[f]
        if one.step is None:
            return [one]
        starts = points(one, one.near) if z_fixed is None else [Fraction(z_fixed[f])]
        pairs = itertools.product(starts, points(one, one.end))
        return [replace(one, near=(float(z),) * 2, end=(float(w),) * 2) for z, w in pairs if linked(one, z, w)]

    return any(
        is_real_feasible(chosen, clauses, z_fixed) for chosen in itertools.product(*map(choices, range(len(variables))))
    )


def random_mixed_variable(rng: random.Random) -> Variable:
    def ends() -> tuple[float, float]:
        low = rng.choice([rng.randint(-3, 1), rng.randint(-24, 8) / 8, rng.uniform(-3, 1)])
        high = low + rng.choice([0, 0.1, 1, 2.5, 4, 4])
        return rng.choice([low, low, low, -math.inf]), rng.choice([high, high, high, math.inf])

    links = [None, None, (-1.0, 1.0), (0.0, 0.1), (-math.inf, 0.0), (-0.5, 0.75)]
    one = Variable(ends(), ends(), rng.choice(links))
    if rng.random() < 0.7:
        return one
    low = rng.randint(-2, 1)
    return replace(
        one,
        near=(low, low + 2.0),
        end=(low - 0.9, low + rng.randint(1, 2) + 0.3),
        step=Fraction(rng.choice(["1", "1/2"])),
    )


def random_mixed_fixed(rng: random.Random, variables: tuple[Variable, ...]) -> tuple[float, ...]:
    numbers = [rng.choice([float(rng.randint(-2, 2)), rng.uniform(-2, 2)]) for _ in variables]
    return tuple(x if one.step is None else float(round(x)) for x, one in zip(numbers, variables, strict=True))


@pytest.mark.parametrize("seed", [*range(10), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 20)]])
def test_real_numbers_as_eliminated(seed: int) -> None:
    rng = random.Random(seed)
    seen = {FEASIBLE: 0, INFEASIBLE: 0, UNKNOWN: 0}
    for _ in range(30):
        n = rng.randint(1, 3)
        variables = tuple(random_mixed_variable(rng) for _ in range(n))
        clauses = random_clauses(rng, variables, n)
        z_fixed = random_mixed_fixed(rng, variables) if rng.random() < 0.5 else None
        if n == 3 and z_fixed is None:
            variables = tuple(replace(one, link=None) if f else one for f, one in enumerate(variables))
        answer = solve(variables, clauses, z_fixed)
        seen[answer.outcome] += 1
        assert (answer.outcome == INFEASIBLE) != is_mixed_feasible(variables, clauses, z_fixed)
        if answer.outcome == INFEASIBLE:
            others = beyond_conflict(rng, variables, answer)
            fixed = z_fixed if answer.uses_row or z_fixed is None else random_mixed_fixed(rng, variables)
            cases = math.prod(map(len, clauses)) * 20 ** sum(one.step is not None for one in others)
            if n < 3 and cases < 50:
                assert not is_mixed_feasible(others, clauses, fixed)
            assert solve(others, clauses, fixed).outcome == INFEASIBLE
        elif answer.outcome == FEASIBLE:
            z, w = (tuple(map(Fraction, row)) for row in (answer.z, answer.w))
            assert holds(clauses, w) and (z_fixed is not None or holds(clauses, z))
            assert all(map(linked, variables, z, w))
    assert min(seen[FEASIBLE], seen[INFEASIBLE]) > 2
    assert seen[UNKNOWN] < 2


def test_cents_add_up() -> None:
    """As doubles most of these sums are broken; as decimals they hold."""
    rng, cent = random.Random(1), Fraction(1, 100)
    clauses = equal(0, 1, 1, -1)
    for _ in range(200):
        a, b = rng.randint(0, 99999), rng.randint(0, 99999)
        rows = tuple(float(x * cent) for x in (a, b, a + b))
        free = Variable((0.0, 5000.0), (0.0, 5000.0), None, cent)
        here = tuple(replace(free, near=(x - 0.02, x + 0.02), end=(x, x), link=(-0.03, 0.03)) for x in rows)
        answer = solve(here, clauses)
        assert answer.outcome == FEASIBLE and answer.w == rows
        assert sum(Fraction(repr(x)) for x in answer.z[:2]) == Fraction(repr(answer.z[2]))
        total = replace(here[2], end=(float((a + b + 1) * cent),) * 2)
        answer = solve((*here[:2], total), clauses, rows)
        assert answer.outcome == INFEASIBLE
        assert {(bound.variable, bound.side) for bound in answer.conflict} == {
            (0, "end_high"),
            (1, "end_high"),
            (2, "end_low"),
        }
        # A cent more is the first total that is too much.
        assert next(bound.value for bound in answer.conflict if bound.variable == 2) > rows[2]


def test_sums_of_doubles() -> None:
    """a + b == c for doubles, near numbers with many digits."""
    rng = random.Random(2)
    for _ in range(200):
        a, b = rng.uniform(0, 1), rng.uniform(0, 100)
        around = tuple(Variable((x - 1e-3, x + 1e-3), (x + 1e-4, x + 1e-3), (0.0, 1e-3)) for x in (a, b, a + b))
        answer = solve(around, equal(0, 1, 1, -1))
        assert answer.outcome == FEASIBLE
        for x, y, z in (answer.z, answer.w):
            assert Fraction(x) + Fraction(y) == Fraction(z)


def test_factors_that_no_double_divides() -> None:
    wide = Variable((-10.0, 10.0), (1.1, 3.0), (-5.0, 5.0))
    for clauses in (equal(7, 3, 5), equal(0, Fraction(1, 100), 1), equal(Fraction(7, 100), Fraction(1, 100), 1, -1)):
        n = max(f for clause in clauses for linear in clause for f, _ in linear.terms) + 1
        variables = (wide, replace(wide, end=(-10.0, 10.0)), replace(wide, end=(-10.0, 10.0)))[:n]
        assert solve(variables, clauses).outcome == FEASIBLE


def test_no_double_is_a_third() -> None:
    answer = solve((Variable((0.0, 1.0), (0.0, 1.0)),), equal(1, 3))
    assert answer.outcome == UNKNOWN
    assert "no doubles" in answer.reason


def test_strict_is_not_equal() -> None:
    one = Variable((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))
    below, not_above = (at_most(0, 1, -1, strict=True),), (at_most(0, -1, 1),)
    assert solve((one, one), (below, not_above)).outcome == INFEASIBLE
    answer = solve((one, one), (below,))
    assert answer.outcome == FEASIBLE
    assert answer.z[0] < answer.z[1] and answer.w[0] < answer.w[1]
    touching = replace(one, end=(1.0, 2.0))
    answer = solve((touching, one), (below,))
    assert answer.outcome == INFEASIBLE
    assert [(bound.variable, bound.side) for bound in answer.conflict] == [(0, "end_low"), (1, "end_high")]
    assert not answer.uses_row and not answer.links


def test_circle_of_strict_relations_on_endless_grids() -> None:
    """Passing bounds on would take 10**308 steps."""
    endless = Variable((-math.inf, math.inf), (-math.inf, math.inf), None, ONE)
    rising = (
        (at_most(0, 1, -1, strict=True),),
        (at_most(0, 0, 1, -1, strict=True),),
        (at_most(0, -1, 0, 1, strict=True),),
    )
    answer = solve((endless,) * 3, rising)
    assert answer.outcome == INFEASIBLE
    assert answer.conflict == () and not answer.uses_row
    assert solve((endless,) * 3, rising[:2]).outcome == FEASIBLE


def test_odd_and_even_on_endless_grids() -> None:
    endless = Variable((-math.inf, math.inf), (-math.inf, math.inf), None, ONE)
    assert solve((endless,) * 2, equal(1, 4, 6)).outcome == INFEASIBLE
    assert solve((endless,) * 3, (*equal(0, 1, 1, -1), *equal(1, 1, -1, -1))).outcome == INFEASIBLE
    assert solve((endless,) * 3, (*equal(0, 1, 1, -1), *equal(2, 1, -1, -1))).outcome == FEASIBLE
    answer = solve((endless,) * 3, (*equal(0, 1, 1, -2), *equal(1, 1, -1, 0)))
    assert answer.outcome == INFEASIBLE
    assert answer.grids


def test_doubles_have_an_end() -> None:
    large = Variable((0.0, math.inf), (1e308, math.inf), (0.0, math.inf))
    answer = solve((large, large), ((at_most(0, 2, -1),),))
    assert answer.outcome == INFEASIBLE
    assert [(bound.variable, bound.side) for bound in answer.conflict] == [(0, "end_low")]
    assert answer.conflict[0].value <= LARGEST / 2 * (1 + 2**-50)
    answer = solve((replace(large, end=(8e307, math.inf)), large), ((at_most(0, 2, -1),),))
    assert answer.outcome == FEASIBLE and answer.w[0] >= 8e307


@pytest.mark.parametrize("step", [None, ONE])
def test_ranges_without_doubles(step: Fraction | None) -> None:
    for ends in ((-math.inf, -math.inf), (math.inf, math.inf), (2.0, 1.0)):
        whole = Variable((-math.inf, math.inf), ends, (-1.0, 1.0), step)
        answer = solve((whole,), ())
        assert answer.outcome == INFEASIBLE and not answer.uses_row
        assert {bound.value for bound in answer.conflict} <= {*ends, math.nextafter(1.0, 2.0), math.nextafter(2.0, 1.0)}
        assert solve((replace(whole, near=ends, end=whole.near),), ()).outcome == INFEASIBLE


def test_what_a_conflict_uses() -> None:
    """A bound on w alone needs neither row nor links; a link from near needs both."""
    one = Variable((0.0, 1.0), (3.0, 4.0), (-9.0, 9.0))
    answer = solve((one, one), ((at_most(5, 1, 1),),))
    assert answer.outcome == INFEASIBLE
    assert (answer.uses_row, answer.links) == (False, ())
    assert [(bound.variable, bound.side) for bound in answer.conflict] == [(0, "end_low"), (1, "end_low")]
    # The first is loosened as far as the second allows.
    assert sum(bound.value for bound in answer.conflict) == math.nextafter(2.0, 3.0) + 3.0
    answer = solve((replace(one, link=(0.0, 1.5)), one), ((at_most(9, 1, 1),),))
    assert answer.outcome == INFEASIBLE
    assert (answer.uses_row, answer.links) == (True, (0,))
    assert [(bound.variable, bound.side, bound.value) for bound in answer.conflict] == [
        (0, "end_low", math.nextafter(2.5, 3.0))
    ]


def test_steps_that_doubles_cannot_print() -> None:
    """A row off its grid by less than doubles can say: what is found must hold for what is printed."""
    odd = Variable((0.3, 0.31), (0.35, 0.45), (0.0, 0.1), Fraction(1, 10), Fraction(repr(0.1 + 0.2)))
    answer = solve((odd,), ((at_most(1, 1),),))
    assert answer.outcome == FEASIBLE and answer.w[0] == float(Fraction(repr(0.1 + 0.2)) + Fraction(1, 10))
    exactly = at_most(odd.origin + Fraction(1, 10), 1), at_most(-odd.origin - Fraction(1, 10), -1)
    answer = solve((odd,), ((exactly[0],), (exactly[1],)), (0.1 + 0.2,))
    assert answer.outcome in (FEASIBLE, UNKNOWN)


def test_a_row_that_breaks_the_relations_may_move_into_them() -> None:
    low, high = Variable((0.0, 0.0), (0.0, 9.0), (-2.0, 2.0), ONE), Variable((0.0, 0.0), (0.0, 9.0), None, ONE)
    below = ((at_most(0, 1, -1),),)
    answer = solve((low, high), below, (5.0, 3.0))
    assert answer.outcome == FEASIBLE and answer.z == (5.0, 3.0) and answer.w == (3.0, 3.0)
    assert solve((low, high), below, (6.0, 3.0)).outcome == INFEASIBLE
