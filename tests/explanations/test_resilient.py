"""Resilient counterfactuals, against all changes and all their neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

import treeproof as tp
from tests.support.changes import least_price
from tests.support.random_changes import Asked, with_categories, with_groups


@pytest.mark.parametrize("question", [with_categories, with_groups])
def test_prices_are_those_of_the_cheapest_change_that_holds_around(question: Callable[[Random, bool], Asked]) -> None:
    counts = {"none": 0, "some": 0, "dearer": 0}
    for seed in range(60):
        asked = question(Random(seed), True)
        ask = {"to": asked.to, "attacker": asked.attacker, "relations": asked.relations}
        plain = tp.counterfactual(asked.model, asked.X, **ask)[0]
        found = tp.counterfactual(asked.model, asked.X, epsilon=asked.epsilon, **ask)[0]
        least = asked.price(least_price(asked.truth()))
        assert found.outcome == tp.Outcome.PROVED
        assert found.price == (pytest.approx(least, rel=1e-9) if math.isfinite(least) else least), seed
        counts["none"] += math.isinf(found.price)
        counts["some"] += 0 < found.price < math.inf
        counts["dearer"] += plain.price < found.price < math.inf
    assert counts["none"] >= 3 and counts["some"] >= 10 and counts["dearer"] >= 3
