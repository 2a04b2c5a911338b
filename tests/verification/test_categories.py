"""Verdicts on models with category columns, against all rows that an attacker can make of one."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

import treeproof as tp
from tests.support import oracles
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces
from treeproof.results.verdicts import Outcome

CODED = Category(("red", "green", "blue", "grey", "black"), unseen=True)
NUMBERS = Category((0, 1, 2, 4, 7), coded=False)


def random_model(random: Random) -> Ensemble:
    """Trees on a coded category, a category whose numbers the model compares itself, and two numbers."""
    builder = EnsembleBuilder(
        n_features=4, classes=["no", "yes", "maybe"][: random.choice((2, 3))], feature_names=["a", "b", "c", "d"],
        handles_missing=True, categories={0: CODED, 2: NUMBERS},
    )  # fmt: skip

    def grow(arrays: dict[str, list], pieces: dict[int, Pieces], depth: int) -> int:  # type: ignore[type-arg]
        node = len(arrays["feature"])
        f = random.randrange(4) if depth else LEAF
        votes = [0.0] * builder.n_scores
        votes[random.randrange(builder.n_scores)] = 1.0
        entry = (f, random.choice((0.25, 0.5, 0.75)), LEAF, LEAF, votes, random.random() < 0.5)
        for name, value in zip(arrays, entry, strict=True):
            arrays[name].append(value)
        if f == 0:
            pieces[node] = Pieces.of_codes([random.random() < 0.5 for _ in range(CODED.n_codes)])
        if f == 2:
            lefts = [(number, random.random() < 0.5) for number in (-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 6.5, 7.5)]
            pieces[node] = Pieces.of(lefts, last=random.random() < 0.5)
        if depth:
            arrays["left"][node] = grow(arrays, pieces, depth - 1)
            arrays["right"][node] = grow(arrays, pieces, depth - 1)
        return node

    for _ in range(random.randint(1, 9)):
        arrays: dict[str, list] = {  # type: ignore[type-arg]
            name: [] for name in ("feature", "threshold", "left", "right", "scores", "nan_left")
        }
        pieces: dict[int, Pieces] = {}
        grow(arrays, pieces, random.randint(1, 3))
        builder.add_tree(**arrays, pieces=pieces)
    return builder.build()


def values_of(row: list[float], moves: dict[str, tuple[float, float]]) -> list[list[float]]:
    """Per column, every value that matters and that the attacker can give it, its own first."""
    found = []
    for f, name in enumerate("abcd"):
        own = row[f]
        if math.isnan(own) or name not in moves:
            found.append([own])
        elif f == 0:
            found.append([own, *(float(code) for code in range(len(CODED.values)) if code != own)])
        elif f == 2:
            found.append([own, *(float(number) for number in NUMBERS.values if number != own)])
        else:
            low, high = moves[name]
            ends = [own, own + low, own + high, 0.25, 0.5, 0.75, *(math.nextafter(e, 9) for e in (0.25, 0.5, 0.75))]
            found.append([value for value in dict.fromkeys(ends) if own + low <= value <= own + high])
    return found


@pytest.mark.parametrize("seed", range(12))
def test_verdicts_are_those_of_brute_force(seed: int) -> None:
    random = Random(seed)
    for _ in range(6):
        model = random_model(random)
        moves = {name: tp.ANY for name in "ac" if random.random() < 0.7}
        moves |= {name: (-0.25, 0.5) for name in "bd" if random.random() < 0.5}
        if not moves:
            continue
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
            reached = [
                each
                for each in itertools.product(*values_of(row, moves))
                if budget is None or sum(a != b and a == a for a, b in zip(each, row, strict=True)) <= budget
            ]
            stable = all(oracles.predict(model, each) == label for each in reached)
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
    with pytest.raises(tp.InvalidInput, match="column 'a' is a category; neighbours share its value"):
        tp.verify(model, rows, ["no"], tp.Attacker.linf(1), epsilon={"a": 1})
