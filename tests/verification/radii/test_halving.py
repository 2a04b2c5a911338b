"""Resilience radii by halving: against every kind of attacker, with goals and with relations."""

from __future__ import annotations

import itertools
import math
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import treeproof as tp
from tests.support.adapters import as_attacker
from tests.support.any_attacker import random_attacker, random_row
from tests.support.category_models import random_model
from tests.support.loans import RELATIONS, loans
from tests.support.strategies import Case, cases
from treeproof.numbers.doubles import double_at_most
from treeproof.results.verdicts import Outcome
from treeproof.run.limits import Limits
from treeproof.threat.epsilon import bind_epsilon
from treeproof.verification.local_search import Local
from treeproof.verification.radii.halving import Neighbourhoods
from treeproof.verification.radii.radii import _as_doubles, resilience_curve, resilience_radius, robustness_radius

WHOLE = tp.Attacker({0: tp.steps(-1, 1, 1)}, step=1, domain=(-3, 9))
STATED: dict[str, Any] = {
    "": lambda z: True,
    "[0] <= [1]": lambda z: z[0] <= z[1],
    "[0] + [1] <= 7": lambda z: z[0] + z[1] <= 7,
    "2 * [0] != [1]": lambda z: 2 * z[0] != z[1],
}


def whole_model(seed: int, n_classes: int = 2) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 6, (40, 2)).astype(float), rng.integers(0, n_classes, 40)
    return RandomForestClassifier(3, max_depth=3, random_state=seed).fit(X, y), X


def brute_radius(model: Any, x: tuple[int, ...], is_valid: Any) -> float:
    """The least multiple of (1, 2) at which a neighbour of x on the grid is attacked by a step of its first column."""
    points = list(itertools.product(range(-3, 10), repeat=2))
    label = dict(zip(points, model.predict(np.array(points, dtype=float)).tolist(), strict=True))

    def is_unstable(z: tuple[int, ...]) -> bool:
        ends = [(z[0] + k, z[1]) for k in (-1, 1)]
        return any(w in label and is_valid(w) and label[w] != label[z] for w in ends)

    if is_unstable(x):
        return -math.inf
    near = [z for z in points if is_valid(z) and is_unstable(z)]
    return min((max(abs(z[0] - x[0]), abs(z[1] - x[1]) / 2) for z in near), default=math.inf)


def check_grid(seeds: range, stated: str, n_rows: int) -> None:
    for seed in seeds:
        model, X = whole_model(seed)
        rows = X[:n_rows]
        radii = resilience_radius(
            model, rows, model.predict(rows), WHOLE, epsilon={0: 1.0, 1: 2.0}, relations=[stated] if stated else None
        )
        for x, radius in zip(rows.tolist(), radii.tolist(), strict=True):
            assert radius == brute_radius(model, (int(x[0]), int(x[1])), STATED[stated]), (seed, x)


@pytest.mark.parametrize("stated", STATED)
def test_radii_on_grids_are_those_of_brute_force_in_one_case(stated: str) -> None:
    check_grid(range(1), stated, 1)


@pytest.mark.slow
@pytest.mark.parametrize("stated", STATED)
def test_radii_on_grids_are_those_of_brute_force(stated: str) -> None:
    check_grid(range(1, 5), stated, 3)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(cases())
def test_halving_finds_the_radii_of_plain_attackers(case: Case) -> None:
    ensemble, plain, x, y, _ = case
    attacker = as_attacker(plain)
    X, unit = np.array([x]), np.where([math.isnan(one) for one in x], 0.0, 1.0)
    threat = attacker.bind(ensemble)
    unit = unit * bind_epsilon(1.0, ensemble)
    radius = float(resilience_radius(ensemble, X, [y], attacker)[0])
    stable = Local(ensemble, threat).decide(X, np.zeros(len(x))).outcome[0] == Outcome.PROVED
    if stable and ensemble.predict(X)[0] == y:
        levels, _, _ = Neighbourhoods(ensemble, threat, X, Limits(), unit).lowest_levels()
        assert _as_doubles(levels, double_at_most)[0] == radius


def check_by_verdicts(verdict_at: Any, radii: np.ndarray) -> None:
    """Rows hold just below their radius, and not just above it."""
    some = np.flatnonzero(np.isfinite(radii) & (radii > 0))
    assert len(some)
    for row in some.tolist():
        below, above = math.nextafter(radii[row], 0), math.nextafter(radii[row], math.inf)
        assert verdict_at(row, below) == Outcome.PROVED, row
        assert verdict_at(row, above) == Outcome.REFUTED, row


@pytest.mark.slow
def test_radii_with_relations_between_doubles_are_exact() -> None:
    given = loans()
    attacker = tp.Attacker({"purpose": tp.ANY, "max_30d": (-0.7, 0.4)}, budget=1)
    X, y = given.X[:25], given.y[:25]
    unit = {"max_12m": 1.0, "max_30d": 1.0}
    ask = partial(tp.verify, given.forest, attacker=attacker, relations=RELATIONS)
    radii = resilience_radius(given.forest, X, y, attacker, epsilon=unit, relations=RELATIONS)

    def verdict_at(row: int, multiple: float) -> Any:
        found = ask(X[row : row + 1], y[row : row + 1], epsilon=dict.fromkeys(unit, multiple))
        return found.resilience_by_epsilon[0][0]

    check_by_verdicts(verdict_at, radii)
    curve = resilience_curve(given.forest, X, y, attacker, epsilon=unit, relations=RELATIONS)
    for multiple in (0.0, 0.25, 1.0, 3.0):
        assert curve(multiple) == float((radii > multiple).mean())


@pytest.mark.slow
@pytest.mark.parametrize("goal", [(0,), (1, 2)])
def test_radii_with_goals_are_exact(goal: tuple[int, ...]) -> None:
    model, X = whole_model(3, n_classes=3)
    y = model.predict(X)
    attacker = tp.Attacker((-1.0, 1.0), budget=1, goal=goal)
    robust = robustness_radius(model, X, y, attacker)
    assert (np.isinf(robust) & (robust > 0)).tolist() == [
        bool(label in goal or not math.isfinite(radius)) for label, radius in zip(y, robust, strict=True)
    ]
    check_by_verdicts(lambda i, s: tp.verify(model, X[[i]], y[[i]], attacker.scaled(s)).stability[0], robust)
    resilient = resilience_radius(model, X, y, attacker.scaled(0.25))

    def verdict_at(row: int, epsilon: float) -> Any:
        found = tp.verify(model, X[[row]], y[[row]], attacker.scaled(0.25), epsilon=epsilon)
        return found.resilience_by_epsilon[0][0]

    check_by_verdicts(verdict_at, resilient)


def check_roughly(verdict_at: Any, radius: float) -> None:
    """A row holds below its radius and not above it; multiples of arbitrary ends are rounded."""
    if radius == math.inf:
        assert verdict_at(1000.0) == Outcome.PROVED
    elif radius <= 0:
        assert verdict_at(1e-9) == Outcome.REFUTED
    else:
        assert verdict_at(radius * (1 - 1e-9)) == Outcome.PROVED
        assert verdict_at(radius * (1 + 1e-9)) == Outcome.REFUTED


@pytest.mark.slow
def test_radii_of_random_attackers_fit_their_verdicts() -> None:
    sizes = np.array([0.0, 0.1, 0.0, 0.05])
    for seed in range(15):
        random = Random(seed)
        model, attacker = random_model(random), random_attacker(random)
        X = np.array([random_row(random) for _ in range(2)])
        y = model.predict(X)
        for row, radius in enumerate(robustness_radius(model, X, y, attacker).tolist()):
            ask = partial(tp.verify, model, X[[row]], y[[row]])
            check_roughly(lambda scale, ask=ask: ask(attacker.scaled(scale)).stability[0], radius)  # noqa: B023
        for row, radius in enumerate(resilience_radius(model, X, y, attacker, epsilon=sizes).tolist()):
            ask = partial(tp.verify, model, X[[row]], y[[row]], attacker)
            check_roughly(lambda multiple, ask=ask: ask(epsilon=sizes * multiple).resilience_by_epsilon[0][0], radius)


def test_attackers_are_scaled_by_doubles_of_numpy_too() -> None:
    scaled = tp.Attacker({"max_30d": tp.steps(-2, 1, 1)}).scaled(np.float64(0.5))
    assert scaled == tp.Attacker({"max_30d": tp.steps(-2, 1, 1)}).scaled(0.5)
    assert "float64" not in repr(scaled)


SCALED: dict[str, tuple[tp.Attacker, list[Any]]] = {
    "an order": (tp.Attacker({"max_30d": (-1, 1), "max_12m": (-2, 0)}), ["max_30d <= max_12m"]),
    "a sum": (tp.Attacker({"max_30d": (-1, 1), "max_12m": (-2, 2)}), ["max_30d + max_12m + loans <= 9.5"]),
    "steps": (tp.Attacker({"max_30d": tp.steps(-2, 1, 1), "max_12m": (-1, 1)}, budget=1), []),
    "a group": (tp.Attacker({"purpose": tp.ANY, "max_30d": (-1, 1)}, budget=1), RELATIONS),
    "values": (tp.Attacker({"loans": tp.values(0, 2), "max_30d": (-1, 1), "max_12m": (-1, 0)}, goal="good"), []),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALED)
def test_scales_of_every_kind_of_attacker_are_exact(name: str) -> None:
    given, (attacker, relations) = loans(), SCALED[name]
    X, y = given.X[:20], given.forest.predict(given.X[:20])
    radii = robustness_radius(given.forest, X, y, attacker, relations=relations)

    def verdict_at(row: int, scale: float) -> Any:
        one = slice(row, row + 1)
        return tp.verify(given.forest, X[one], y[one], attacker.scaled(scale), relations=relations).stability[0]

    check_by_verdicts(verdict_at, radii)
    for row in np.flatnonzero(np.isinf(radii)).tolist():
        assert verdict_at(row, 64.0) == Outcome.PROVED
    for row in np.flatnonzero(radii == 0).tolist():
        assert verdict_at(row, 2.0**-20) == Outcome.REFUTED


@pytest.mark.parametrize(
    ("attacker", "relations", "why"),
    [
        (tp.Attacker.lp(1, 1.0), ["max_30d <= max_12m"], "a radius and relations; verify with attacker.scaled"),
        (tp.Attacker.lp(2, 1.0, step={"max_30d": 1}), [], "a radius and steps"),
        (tp.Attacker({"max_30d": tp.steps(1, 2, 1)}), [], "of feature 'max_30d' excludes 0"),
        (tp.Attacker.linf(1.0), RELATIONS[:1], "intervals for members of a one-hot group"),
    ],
)
def test_what_cannot_be_scaled_is_refused_by_name(attacker: tp.Attacker, relations: list[Any], why: str) -> None:
    given = loans()
    with pytest.raises(tp.InvalidInput, match=why):
        robustness_radius(given.forest, given.X, given.y, attacker, relations=relations)


@pytest.mark.slow
def test_grids_have_no_infinite_points_where_the_model_takes_them() -> None:
    X = np.array([[1.0, 9.0], [5.0, 9.0], [2.0, 3.0], [7.0, 8.0]])
    y = np.array([0, 1, 0, 1])
    clf = HistGradientBoostingClassifier(min_samples_leaf=1, max_iter=3).fit(np.tile(X, (8, 1)), np.tile(y, 8))
    steps = tp.Attacker({0: (-1, 1)}, step=1)
    found = resilience_radius(clf, X, y, steps, relations=["[0] <= [1]"], epsilon={0: 1, 1: 1})
    for radius, row, label in zip(found.tolist(), X, y, strict=True):
        outcomes = [
            tp.verify(clf, row[None], [label], steps, relations=["[0] <= [1]"], epsilon=size).resilience_by_epsilon[0][
                0
            ]
            for size in (max(radius - 1, 1), radius)
        ]
        assert outcomes[-1] == Outcome.REFUTED and (radius <= 1 or outcomes[0] == Outcome.PROVED)
