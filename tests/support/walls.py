"""Questions with walls: neighbours differ in what the attacker cannot move, or not by a little."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from tests.support.random_blocks import Block, block
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule


def walled_block(seed: int, number: int) -> Block:
    """A random question where neighbours differ in features that the attacker cannot move, or not by a little."""
    asked, random = block(seed, number), Random(f"walls {seed}:{number}")
    attacker, n = asked.attacker, asked.ensemble.n_features
    fixed = [random.random() < 0.6 for _ in range(n)]
    intervals = tuple((0.0, 0.0) if fixed[f] else attacker.intervals[f] for f in range(n))
    reaches = (0.3, 1.0, 2.5, 6.0, math.inf)
    eps = tuple(
        random.choice(reaches) if fixed[f] or random.random() < 0.3 else asked.neighbourhoods[0][f] for f in range(n)
    )
    return replace(asked, attacker=replace(attacker, intervals=intervals), neighbourhoods=(eps,))


def stairs(n_steps: int, effect: float) -> Ensemble:
    """The label changes at 0.5, 1.5, 2.5, … of column 0; column 1 adds `effect`, where column 2 is above 0."""
    rule = ScoreRule(decision=Decision.CUT, cut=0.5)
    builder = EnsembleBuilder(n_features=3, classes=[0, 1], rule=rule)
    for k in range(n_steps):
        builder.add_tree(
            feature=[0, LEAF, LEAF], threshold=[k + 0.5, 0, 0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF],
            scores=[0.0, 0.0, (-1.0) ** k],
        )  # fmt: skip
    builder.add_tree(
        feature=[2, LEAF, 1, LEAF, LEAF], threshold=[0.0, 0, 0.0, 0, 0], left=[1, LEAF, 3, LEAF, LEAF],
        right=[2, LEAF, 4, LEAF, LEAF], scores=[0.0, 0.0, 0.0, 0.0, effect],
    )  # fmt: skip
    return builder.build()
