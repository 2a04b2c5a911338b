"""Random models with category columns, and all that an attacker can make of a row."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

from tests.support import oracles
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.ensemble import Ensemble
from treeproof.model.pieces import Pieces

CODED = Category(("red", "green", "blue", "grey", "black"), unseen=True)
NUMBERS = Category((0, 1, 2, 4, 7), coded=False, unseen=True)


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


def is_stable(
    model: Ensemble, row: list[float], moves: dict[str, tuple[float, float]], budget: int | None, label: Any
) -> bool:
    """Whether no row that the attacker can make of this one, with costs of 1, has another label."""
    return all(
        oracles.predict(model, each) == label
        for each in itertools.product(*values_of(row, moves))
        if budget is None or sum(a != b and a == a for a, b in zip(each, row, strict=True)) <= budget
    )


def random_moves(random: Random) -> dict[str, tuple[float, float]]:
    """What an attacker may do, to one column at the least: categories to anything, numbers by a little."""
    moves = {name: (-math.inf, math.inf) for name in "ac" if random.random() < 0.7}
    moves |= {name: (-0.25, 0.5) for name in "bd" if random.random() < 0.5}
    return moves or random_moves(random)


def random_row(random: Random) -> list[float]:
    """Values of categories, known or not, and numbers on and beside thresholds; none is missing."""
    return [
        float(random.randrange(6)),
        random.choice((0.0, 0.25, 0.5, 0.7, 1.0)),
        random.choice((0.0, 1.0, 2.0, 3.0, 4.0, 7.0, 9.0)),
        random.choice((0.0, 0.3, 0.5, 0.75)),
    ]
