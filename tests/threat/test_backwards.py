"""Attackers the other way round, against what brute force says of where a row may have come from."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support import loans
from tests.support.any_attacker import VALUES, labels_for_prices, labels_in_reach, random_attacker, random_row
from tests.support.category_models import random_model
from treeproof.guard import GuardedClassifier
from treeproof.model.ensemble import Ensemble
from treeproof.threat.moves import Steps, Values

pytestmark = pytest.mark.filterwarnings("ignore:.*missing cells")


def starts(f: int, w: float, reach: tuple[float, float]) -> list[float]:
    """Values that a column may have had before it was w: on all sides of every threshold, and as far away as can be."""
    if f == 0:
        return [*map(float, range(6)), math.nan]
    found = {*VALUES["b"], *(float(np.nextafter(cut, 9)) for cut in (0.25, 0.5, 0.75)), w}
    if f == 2:
        return [*map(float, VALUES["c"]), math.nan]
    if not math.isnan(w):
        found |= {w - reach[0], w - reach[1]} | {float(Fraction(repr(w)) + Fraction(k, 100)) for k in range(-100, 101)}
    else:
        found |= {k / 100 for k in range(101)}
    return [*(value for value in found if 0 <= value <= 1), math.nan]


def origins(model: Ensemble, attacker: tp.Attacker, w: list[float]) -> set[Any]:
    """The labels of all rows that the attacker can make w of; prices are the checker's, from there to w."""
    return labels_for_prices(
        model,
        attacker,
        lambda column, f: starts(f, w[f], column.reach),
        lambda column, f, value: column.price(value, value, w[f]),
    )


def is_enclosed(attacker: tp.Attacker) -> bool:
    """Whether it is only known up to a superset where some moves began."""
    listed = any(key == "c" or (isinstance(move, Values) and key in "bd") for key, move in moves_of(attacker).items())
    ranged = any(rule.change is not None and rule.change[0] != rule.change[1] for rule in attacker.rewrites)
    stepped = any(isinstance(move, Steps) for move in moves_of(attacker).values()) or attacker.step is not None
    return listed or ranged or attacker.fill is not None or (stepped and attacker.blank is not None)


def moves_of(attacker: tp.Attacker) -> dict[Any, Any]:
    return dict(zip(attacker.intervals.keys or (), attacker.intervals.values, strict=False))


def check_origins(seeds: range) -> tuple[int, int]:
    """How often a row is answered and not, as far as it matters."""
    answered = abstained = 0
    for seed in seeds:
        random = Random(seed)
        model, attacker = random_model(random), random_attacker(random)
        guard = GuardedClassifier(model, attacker, promise="genuine").fit()
        W = [random_row(random) for _ in range(4)]
        proved, labels = guard.is_proved(np.array(W)).tolist(), model.predict(np.array(W)).tolist()
        for w, is_proved, label in zip(W, proved, labels, strict=True):
            bad = origins(model, attacker, w) - {label} - set(attacker.goal)
            matters = label in attacker.goal or not attacker.goal
            assert not (is_proved and matters and bad), (seed, w, attacker)
            assert is_proved or matters, (seed, w, attacker)
            assert is_proved or bad or is_enclosed(attacker), (seed, w, attacker)
            answered, abstained = answered + (is_proved and matters), abstained + (not is_proved)
    return answered, abstained


def test_a_row_is_answered_where_no_other_label_can_have_been_there() -> None:
    answered, abstained = check_origins(range(40))
    assert answered > 20 and abstained > 20


@pytest.mark.long
@pytest.mark.slow
def test_a_thousand_rows_are_answered_where_no_other_label_can_have_been_there() -> None:
    answered, abstained = check_origins(range(100, 400))
    assert answered > 200 and abstained > 200


@pytest.mark.slow
def test_no_manipulated_row_gets_the_label_that_it_was_manipulated_for() -> None:
    """The same from the other end: rows that attacks make are never answered with what the attacker wants."""
    made = 0
    for seed in range(1000, 1040):
        random = Random(seed)
        model, attacker = random_model(random), random_attacker(random)
        X = [random_row(random) for _ in range(3)]
        own = model.predict(np.array(X))
        guard = GuardedClassifier(model, attacker, promise="genuine").fit()
        result = tp.verify(model, np.array(X), own, attacker)
        for row in np.flatnonzero(result.stability == tp.Outcome.REFUTED):
            assert labels_in_reach(model, attacker, X[row], X[row]) - {own[row]}
            attacked = model.check_rows([result.witness(row).attacked])
            assert not guard.is_proved(attacked).any(), (seed, X[row], attacker)
            made += 1
    assert made > 20


def test_a_distance_leads_back_exactly() -> None:
    """The last double that 0.1 can be moved to by 0.7 is one that subtracting 0.7 does not lead back from."""
    x, size = 0.1, 0.7
    farthest = max(w for w in (0.8, *np.nextafter(0.8, [0, 1])) if Fraction(w) <= Fraction(x) + Fraction(size))
    beyond = float(np.nextafter(farthest, 1))
    builder = tp.importers.EnsembleBuilder(n_features=1, classes=[0, 1])
    leaf = tp.importers.LEAF
    builder.add_tree(
        feature=[0, leaf, leaf], threshold=[x, 0, 0], left=[1, leaf, leaf], right=[2, leaf, leaf],
        scores=[[0, 0], [1, 0], [0, 1]],
    )  # fmt: skip
    guard = GuardedClassifier(builder.build(), tp.Attacker((0, size), goal=1)).fit()
    assert guard.promise_ == "genuine"
    assert guard.predict([[x], [farthest], [beyond]]).tolist() == [0, -1, 1]


def test_under_relations_rows_come_from_valid_rows() -> None:
    given = loans.loans()
    attacker = loans.ATTACKER.with_goal("good")
    guard = GuardedClassifier(FrozenEstimator(given.forest), attacker, relations=loans.RELATIONS).fit()

    def labels(rows: list[Any]) -> list[str]:
        return given.forest.predict(pd.DataFrame(rows, columns=given.X.columns)).tolist()

    made: set[Any] = set()
    mesh = itertools.product(np.eye(3).tolist(), range(-3, 13), range(-3, 13), range(4))
    rows = [(*purpose, float(year), float(month), float(n)) for purpose, year, month, n in mesh]
    valid = [row for row in rows if loans.is_valid(row)]
    for row, label in zip(valid, labels(valid), strict=True):
        if label == "bad":
            made |= set(loans.attacks(row))
    asked = [row for row in valid if all(0 <= value <= 8 for value in row[3:5])]
    own, answers = labels(asked), guard.predict(pd.DataFrame(asked, columns=given.X.columns)).tolist()
    expected = ["abstain" if label == "good" and row in made else label for row, label in zip(asked, own, strict=True)]
    assert answers == expected and {"good", "bad", "abstain"} <= set(answers)


def test_a_rule_leads_back_where_its_result_may_have_begun() -> None:
    X = np.arange(10.0).reshape(-1, 1)
    rule = tp.Rule(0, when=(2, 3), change=3)
    guard = GuardedClassifier(
        FrozenEstimator(DecisionTreeClassifier().fit(X, (X[:, 0] >= 5).astype(int))),
        tp.Attacker.rules([rule], goal=1),
    ).fit()
    assert guard.predict(X).tolist() == [0] * 5 + [-1, -1] + [1] * 3


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_ball_leads_back(power: int) -> None:
    rng = np.random.default_rng(power)
    X = rng.integers(0, 40, (300, 3)) / 10
    labels = (X.sum(axis=1) + rng.normal(0, 0.5, 300) > 6).astype(int)
    model = tp.from_model(RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, labels))
    step = {0: "0.1"} if power == 2 else None
    attacker = tp.Attacker.lp(power, 0.5, up=[0], down=[1], scale={2: 2}, step=step, goal=1)
    guard = GuardedClassifier(model, attacker).fit()
    result = tp.verify(model, X, model.predict(X), attacker)
    made = [result.witness(int(row)).attacked for row in np.flatnonzero(result.stability == tp.Outcome.REFUTED)]
    assert len(made) > 5 and not guard.is_proved(np.array(made)).any()
    mirrored = tp.Attacker.lp(power, 0.5, up=[1], down=[0], scale={2: 2}, step=step, goal=0)
    assert (guard.is_proved(X) == GuardedClassifier(model, mirrored, promise="stable").fit().is_proved(X)).all()
