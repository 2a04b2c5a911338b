"""Counterfactuals, against all changes there are, and as users ask for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

import treeproof as tp
from tests.support.changes import least_price
from tests.support.random_changes import Asked, with_categories, with_groups


def check(asked: Asked, k: int) -> list[float]:
    """Holds the k first changes of the row against all there are; their prices."""
    found = tp.counterfactual(
        asked.model,
        asked.X,
        to=asked.to,
        attacker=asked.attacker,
        relations=asked.relations,
        epsilon=asked.epsilon,
        k=k,
    )[0]
    truth, earlier = asked.truth(), []
    names = [column.features for column in asked.columns]
    known = ["purpose", "rate", "years"] if len(names) == 3 else ["a", "b", "c", "d"]
    for one in (found, *found.others):
        least = asked.price(least_price(truth, earlier))
        assert one.outcome == tp.Outcome.PROVED
        assert one.price == (pytest.approx(least, rel=1e-9) if math.isfinite(least) else least)
        if one.found:
            assert one.label in asked.to and one.label == asked.model.predict(one.row)[0]
        earlier.append(frozenset(known.index(str(column)) for column in one.changes))
    if found.found and found.price > 0 and len(found.others) < k - 1:
        assert math.isinf(found.others[-1].price)
    return [one.price for one in (found, *found.others)]


@pytest.mark.parametrize("question", [with_categories, with_groups])
def test_prices_are_those_of_the_cheapest_of_all_changes(question: Callable[[Random, bool], Asked]) -> None:
    prices = [check(question(Random(seed), False), k=1 + 2 * (seed % 2)) for seed in range(60)]
    firsts = [one[0] for one in prices]
    assert sum(math.isinf(price) for price in firsts) >= 3
    assert sum(0 < price < math.inf for price in firsts) >= 15
    assert sum(len(one) > 1 and math.isfinite(one[1]) for one in prices) >= 3
