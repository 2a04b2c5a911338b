"""Verdicts on models with category columns, against all rows that an attacker can make of one."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import treeproof as tp
from tests.support.category_models import CODED, NUMBERS, is_stable, random_model, random_moves, random_row
from treeproof.results.verdicts import Outcome


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_are_those_of_brute_force(seed: int) -> None:
    random = Random(seed)
    for _ in range(6):
        model = random_model(random)
        moves = random_moves(random)
        budget = random.choice((None, 1, 2))
        attacker = tp.Attacker(moves, budget=budget)
        rows = [
            [
                random.choice((0.0, 1.0, 2.0, 3.0, 4.0, 5.0, math.nan)), random.choice((0.2, 0.5, 0.7)),
                random.choice((0.0, 1.0, 2.0, 4.0, 7.0, 3.0, math.nan)), random.choice((0.0, 0.5, math.nan)),
            ]
            for _ in range(12)
        ]  # fmt: skip
        labels = model.predict(np.array(rows))
        result = tp.verify(model, np.array(rows), labels, attacker)
        for row, label, outcome in zip(rows, labels.tolist(), result.stability.tolist(), strict=True):
            stable = is_stable(model, row, moves, budget, label)
            assert outcome == (Outcome.PROVED if stable else Outcome.REFUTED), (row, moves, budget)


def test_witnesses_name_values_that_the_model_knows() -> None:
    random = Random(1)
    seen = set()
    for _ in range(20):
        model = random_model(random)
        rows = np.array(
            [[random.randrange(6), 0.5, random.choice(NUMBERS.values), 0.5] for _ in range(10)], dtype=float
        )
        result = tp.verify(model, rows, model.predict(rows), tp.Attacker.l0(2))
        for i in np.flatnonzero(result.has_witness).tolist():
            moved = result.witness(i).moved  # type: ignore[union-attr]
            for name, (before, after) in moved.items():
                seen.add(name)
                if name == "a":
                    assert after in CODED.values
                    assert before in (*CODED.values, "(never seen)")
                if name == "c":
                    assert after in NUMBERS.values
    assert seen == set("abcd")


def test_no_distance_moves_a_category() -> None:
    model = random_model(Random(3))
    rows = np.array([[0.0, 0.5, 1.0, 0.5]])
    for attacker in (tp.Attacker.linf(1e6), tp.Attacker((-2, 2)), tp.Attacker.lp(2, 1e6)):
        threat = attacker.bind(model)
        assert (threat.low[[0, 2]] == 0).all()
        assert (threat.high[[0, 2]] == 0).all()
        assert (threat.high[[1, 3]] > 0).all()
    with pytest.raises(tp.InvalidInput, match="column 'a' is a category.*tp.ANY"):
        tp.verify(model, rows, ["no"], tp.Attacker({"a": (-1, 1)}))
    with pytest.raises(tp.InvalidInput, match="column 'c' is a category"):
        tp.verify(model, rows, ["no"], tp.Attacker.lp(1, 2, features=["c"]))
    with pytest.raises(tp.InvalidInput, match="column 'a' is a category, and nothing is a distance there; tp.ANY"):
        tp.verify(model, rows, ["no"], tp.Attacker.linf(1), epsilon={"a": 1})


def test_a_domain_is_one_of_numbers() -> None:
    model = random_model(Random(3))
    threat = tp.Attacker({"a": tp.ANY, "b": (0, 1)}, domain=(0, 1)).bind(model)
    assert [(f, ends.tolist()) for f, ends in threat.ends] == [(0, [0.0, 1.0, 2.0, 3.0, 4.0])]
    with pytest.raises(tp.InvalidInput, match="column 'a' is a category, which has no range; leave its domain out"):
        tp.Attacker({"a": tp.ANY}, domain={"a": (0, 2)}).bind(model)
    # Where rows hold the numbers of a category, a domain of numbers is one of values, too.
    threat = tp.Attacker({"c": tp.ANY}, domain={"c": (1, 4.5)}).bind(model)
    assert [(f, ends.tolist()) for f, ends in threat.ends] == [(2, [1.0, 2.0, 4.0])]
    with pytest.raises(tp.InvalidInput, match="domain of column 'c', a category, contains none of its values"):
        tp.Attacker({"c": tp.ANY}, domain={"c": (2.2, 2.8)}).bind(model)


@pytest.mark.parametrize("seed", range(6))
def test_radii_are_where_verdicts_turn(seed: int) -> None:
    random = Random(seed)
    for _ in range(3):
        model, moves = random_model(random), random_moves(random)
        rows = np.array([random_row(random) for _ in range(6)])
        labels = model.predict(rows)
        scales = tp.robustness_radius(model, rows, labels, tp.Attacker(moves))
        for row, label, scale in zip(rows.tolist(), labels.tolist(), scales.tolist(), strict=True):
            for factor in (1 - 1e-9, 1 + 1e-9):
                # An infinite interval is infinite at every scale but 0.
                size = min(max(scale, 1e-9), 1e9) * factor
                scaled = {name: (low * size, high * size) for name, (low, high) in moves.items()}
                assert is_stable(model, row, scaled, None, label) == (scale > 0 and size <= scale), (row, moves, scale)
        attacker = tp.Attacker(moves, budget=random.choice((None, 1)))
        sizes = tp.resilience_radius(model, rows, labels, attacker)
        for row, label, size in zip(rows, labels, sizes.tolist(), strict=True):
            for epsilon in [size * (1 - 1e-9), size * (1 + 1e-9)] if 0 < size < math.inf else [0.0, 1e9]:
                verdict = tp.verify(model, row[None], [label], attacker, epsilon=epsilon).resilience_by_epsilon[0][0]
                assert verdict == (Outcome.PROVED if epsilon < size else Outcome.REFUTED), (row, moves, size)
