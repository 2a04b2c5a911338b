"""Sums of prices at the limit, where rounded ones do not tell: decided within the search, by exact prices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.fast_oracle import FastOracle
from tests.support.oracles import OracleAttacker
from tests.support.proof_claims import NO_LIMIT, Claims
from treeproof._kernels.search.exact import BITS
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.results.verdicts import Outcome
from treeproof.verification.exact_prices import MOST_BITS, exact_prices
from treeproof.verification.local_search import Local
from treeproof.verification.space import Space


def some_of(needed: int, reached: Sequence[float]) -> Ensemble:
    """Class 1 where so many features are at least at their double of those to be reached."""
    builder = EnsembleBuilder(n_features=len(reached), classes=(0, 1), base=(needed - 0.5, 0.0))
    for f, least in enumerate(reached):
        builder.add_tree(
            feature=[f, LEAF, LEAF], threshold=[math.nextafter(least, 0.0), 0, 0], left=[1, LEAF, LEAF],
            right=[2, LEAF, LEAF], scores=[(0, 0), (0, 0), (0, 1)],
        )  # fmt: skip
    return builder.build()


UP = math.nextafter(1.0, 2.0)
HALVES = [math.nextafter(0.5, 1.0)] * 12

TIES = {
    "1 + a double, L1": (6, [UP] * 12, 1, 6.0),
    "1 + a double, L2": (4, [UP] * 14, 2, 2.0),
    "1 + a double, L3": (8, [UP] * 12, 3, 2.0),
    "half of it, L1": (6, HALVES, 1, 3.0),
    "exactly 1, L1": (6, [1.0] * 12, 1, 6.0),
    "0.1 and 0.2 and 0.3": (6, [0.1] * 8 + [0.2] * 4, 1, math.fsum([0.1] * 6)),
    "many of 0.1": (7, [0.1] * 13, 1, 0.7),
    "3, 4 and 5": (4, [3.0, 4.0] * 6, 2, math.nextafter(6.0, 0.0)),
    "3, 4 and 5 in tenths": (6, [0.3] * 6 + [0.4] * 6, 2, math.sqrt(6) * 0.3),
}


def decided(ensemble: Ensemble, power: int, radius: float) -> tuple[Outcome, int]:
    local = Local(ensemble, tp.Attacker.lp(power, radius).bind(ensemble))
    n = ensemble.n_features
    return Outcome(int(local.decide(np.zeros((1, n)), np.zeros(n)).outcome[0])), local.looks


@pytest.mark.parametrize("name", TIES)
def test_a_tie_is_decided_exactly_and_takes_about_as_long_as_a_radius_beside_it(name: str) -> None:
    needed, reached, power, radius = TIES[name]
    ensemble = some_of(needed, reached)
    least = sum(sorted(Fraction(end) ** power for end in reached)[:needed])
    outcome, looks = decided(ensemble, power, radius)
    assert outcome == (Outcome.REFUTED if least <= Fraction(radius) ** power else Outcome.PROVED)
    below, above = (decided(ensemble, power, radius * share) for share in (1 - 1e-4, 1 + 1e-4))
    assert looks <= 10 * max(below[1], above[1])


@pytest.mark.parametrize("power", [1, 2])
def test_the_cheapest_attack_within_a_tie_takes_about_as_long_as_beside_it(power: int) -> None:
    ensemble, looks = some_of(4, [UP] * 12), []
    for radius in (2.0 ** (3 - power) * 0.9999, 2.0 ** (3 - power)):
        local = Local(ensemble, tp.Attacker.lp(power, radius).bind(ensemble))
        found = local.cheapest(np.zeros((1, 12)), within=True)
        assert found.outcome[0] == Outcome.PROVED and found.price[0] == math.inf
        looks.append(local.looks)
    assert looks[1] <= 10 * looks[0]


@pytest.mark.parametrize("power", [1, 2])
def test_a_radius_with_very_many_ties_is_found(power: int) -> None:
    # 3,432 attacks cost the same, and nothing else tells that nothing is cheaper.
    got = tp.robustness_radius(some_of(7, [UP] * 14), np.zeros((1, 14)), [0], tp.Attacker.lp(power, 1.0))
    least = 7 * Fraction(UP) ** power
    assert Fraction(float(got[0])) ** power <= least < Fraction(math.nextafter(float(got[0]), 9.0)) ** power


def test_ties_are_decided_where_rows_keep_relations() -> None:
    ensemble = some_of(5, [UP] * 10)
    for radius, robust in ((5.0, True), (5.0 + 2.0**-49, False)):
        found = tp.verify(
            ensemble, np.zeros((1, 10)), [0], tp.Attacker.lp(1, radius), relations=["[0] + [1] <= 2.5"], timeout=60.0
        )
        expected = Outcome.PROVED if robust else Outcome.REFUTED
        assert found.verdicts[0].robustness == expected


@pytest.mark.parametrize("seed", range(40))
def test_lattices_agree_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, power = 4, int(rng.integers(1, 4))
    values = np.array([0.1, 0.2, 0.3, 0.5, 1.0, UP, 1.5])
    ensemble = some_of(int(rng.integers(2, n + 1)), rng.choice(values, n).tolist())
    some = rng.choice(values, int(rng.integers(1, n + 1)))
    radius = float(np.sum(some**power)) ** (1 / power)
    radius = float(np.nextafter(radius, rng.choice([0.0, radius, 9.0])))
    units = tuple(rng.choice([1.0, 0.1, 3.0], n).tolist()) if seed % 2 else None
    plain = OracleAttacker(((-math.inf, math.inf),) * n, (1,) * n, None, power, radius, scale=units)
    x = tuple(rng.choice([0.0, 0.1, -0.2], n).tolist())
    attacker = as_attacker(plain)
    local = Local(ensemble, attacker.bind(ensemble))
    oracle = FastOracle(ensemble, plain)
    for eps in ((0.0,) * n, (0.1, 0.0, 0.0, 0.0)):
        found = local.decide(np.array([x]), np.array(eps))
        assert (found.outcome[0] == Outcome.PROVED) == oracle.stable_around(x, eps)


TINY = -5e-324, 1e-30, 1e-30
"""Beside a move by 1e16 that ends above the first, moves above the others cost less than any sum of doubles tells."""


@pytest.mark.parametrize("seed", range(60))
def test_proofs_of_ties_hold_where_only_a_leaf_is_too_dear(seed: int) -> None:
    rng = np.random.default_rng(seed)
    builder = EnsembleBuilder(n_features=3, classes=[0, 1])
    for _ in range(rng.integers(2, 6)):
        first, second = rng.permutation(3)[:2]
        votes = np.eye(2)[[0, rng.integers(2), 0, rng.integers(2), 1]]
        builder.add_tree(
            feature=[first, LEAF, second, LEAF, LEAF], threshold=[TINY[first], 0, TINY[second], 0, 0],
            left=[1, LEAF, 3, LEAF, LEAF], right=[2, LEAF, 4, LEAF, LEAF], scores=votes,
        )  # fmt: skip
    ensemble, x = builder.build(), (-1e16, 1e-30, 1e-30)
    plain = OracleAttacker(((-math.inf, math.inf),) * 3, (1,) * 3, None, int(rng.integers(1, 4)), 1e16)
    oracle, attacker = FastOracle(ensemble, plain), as_attacker(plain)
    local = Local(ensemble, attacker.bind(ensemble), proof_limit=NO_LIMIT)
    found = local.decide(np.array([x]), np.zeros(3))
    assert (found.outcome[0] == Outcome.PROVED) == oracle.stable_around(x, (0.0,) * 3)
    if found.outcome[0] == Outcome.PROVED:
        checked = Claims(ensemble, attacker, [x], []).check(0, 0, found.proofs[0])
        assert checked.checked == [0], checked.rejected


@pytest.mark.parametrize("limit", [Fraction(7), Fraction(1, 3), Fraction(2) ** -400, Fraction(1, 3**700)])
@pytest.mark.parametrize("strictly", [False, True])
def test_digits_are_the_exact_prices(limit: Fraction, strictly: bool) -> None:
    ensemble = some_of(2, [UP, 0.1, 0.3])
    threat = tp.Attacker.lp(2, 2.0).bind(ensemble)
    space, x = Space(ensemble), np.array([0.0, 0.05, 0.0])
    exact = exact_prices(threat, space, x, (x, x), limit, strictly)

    def number(digits: np.ndarray) -> int:
        return sum(int(digit) << BITS * k for k, digit in enumerate(reversed(digits)))

    most = number(exact.limit)
    prices = [Fraction(UP) ** 2, (Fraction(0.1) - Fraction(0.05)) ** 2, Fraction(0.3) ** 2]
    for f, price in enumerate(prices):
        own, other = (number(exact.price[space.start[f] + c]) for c in (0, 1))
        assert own == 0
        if price > limit or (strictly and price == limit):
            assert other > most
        else:
            assert other <= most and (most > 2 ** (MOST_BITS - 2) or Fraction(other, most + strictly) == price / limit)
