"""Relations, and every kind of attacker with them, against brute force over pairs of valid rows."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.fuzz_relations import check
from treeproof.model.builder import LEAF, EnsembleBuilder
from treeproof.model.columns import Category
from treeproof.model.pieces import Pieces
from treeproof.results.verdicts import Outcome

COLOURS = Category(("red", "green", "blue"))


@pytest.mark.parametrize("number", [10446, *range(3000, 3012)])
def test_small_questions_are_answered_as_brute_force_does(number: int) -> None:
    counts = check(number)
    assert not counts["UNEXPLAINED UNKNOWN"]
    assert not counts["CHEAPEST NOT KNOWN"]


@pytest.mark.long
@pytest.mark.slow
def test_many_questions_are_answered_as_brute_force_does() -> None:
    counts: Counter[str] = Counter()
    for number in range(4000, 4050):
        counts += check(number)
    assert not counts["UNEXPLAINED UNKNOWN"]
    assert not counts["CHEAPEST NOT KNOWN"]
    assert counts["unknown with continuous columns"] < 0.02 * counts["cases"]
    for each in ("stability: proved", "stability: refuted", "resilience: refuted", "only in the neighbourhood"):
        assert counts[each] > 8, counts
    assert counts["stability of rows that break relations: refuted"], counts


def stump() -> tp.Ensemble:
    """1 where the first of two columns is above 1.5; a missing value is 0."""
    builder = EnsembleBuilder(n_features=2, classes=[0, 1], handles_missing=True)
    votes = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[1.5, 0.0, 0.0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF], scores=votes,
        nan_left=[True, True, True],
    )  # fmt: skip
    return builder.build()


def stable(x: list[float], attacker: tp.Attacker, relations: Any, **words: Any) -> tuple[bool, bool]:
    """Whether the row is stable, and resilient."""
    result = tp.verify(stump(), [x], stump().predict(np.array([x])), attacker, relations=relations, **words)
    outcomes = result.stability[0], (result.resilience_by_epsilon or (result.stability,))[0][0]
    assert Outcome.UNKNOWN not in outcomes
    return outcomes[0] == Outcome.PROVED, outcomes[1] == Outcome.PROVED


def test_matrices_start_where_they_say() -> None:
    attacker = tp.Attacker({}, costs={0: {(0.0, 2.0): 1, (0.0, 3.0): 1}}, budget=1)
    for b, resilient in ((1.75, True), (2.0, False), (3.5, False)):
        assert stable([0.5, b], attacker, "[0] <= [1]", epsilon={0: 0.5}) == (True, resilient)
    assert stable([0.5, 9.0], attacker, "[0] <= [1]", epsilon={0: 0.25}) == (True, True)
    attacker = tp.Attacker({0: tp.values(2, 3)}, costs={1: {(3.0, 2.0): 1, (2.0, 1.0): 1}})
    found = tp.cheapest_attack(stump(), [[1.0, 3.0], [1.0, 2.0], [1.0, 4.0]], attacker, relations="[0] + [1] == 4")
    assert found.price.tolist() == [2.0, 1.0, math.inf]
    assert found.rows.tolist() == [[2.0, 2.0], [2.0, 2.0], [1.0, 4.0]]


def test_listed_values_need_not_be_on_the_grid() -> None:
    attacker = tp.Attacker({0: tp.ANY, 1: tp.values(0.5, 1)}, budget=2, step=1, domain={0: (0, 3)})
    found = tp.cheapest_attack(stump(), [[1.0, 5.0]], attacker, relations="[0] - [1] == 1")
    assert (found.price.tolist(), found.rows.tolist()) == ([2.0], [[2.0, 1.0]])


def test_chains_of_rules_end_in_valid_rows() -> None:
    attacker = tp.Attacker.rules(
        [tp.Rule(0, when=(0, 1), change=2), tp.Rule(0, change=-0.5)], budget=2, domain={0: (0, 5)}
    )
    found = tp.cheapest_attack(stump(), [[1.0, 3.0], [1.0, 2.75], [1.0, 2.4]], attacker, relations="[0] <= [1]")
    assert found.price.tolist() == [1.0, 2.0, 3.0]
    assert found.exact.all()
    within = tp.cheapest_attack(stump(), [[1.0, 2.4]], attacker, relations="[0] <= [1]", within=True)
    assert (within.price.tolist(), within.exact.tolist()) == ([math.inf], [True])


def test_rules_in_steps_keep_sums_of_decimals() -> None:
    frame = pd.DataFrame({"net": [1.1, 2.2, 3.3, 4.4], "tax": [0.2] * 4, "gross": [1.3, 2.4, 3.5, 4.6]})
    labels = ["n", "n", "y", "y"]
    clf = DecisionTreeClassifier(random_state=0).fit(frame, labels)
    rules = [tp.Rule("net", change=0.1), tp.Rule("gross", change=0.1)]
    sums = ["net + tax == gross"]
    words: dict[str, Any] = {"budget": 20, "domain": (0, 10)}
    for step, broken, robust in ((None, 4, 1.0), (0.1, 0, 0.75)):
        result = tp.verify(clf, frame, labels, tp.Attacker.rules(rules, step=step, **words), relations=sums)
        assert result.invalid_rows.sum() == broken
        assert result.robustness == tp.Bounds(robust, robust)
    # 2.8 is the first point above the threshold: both columns go there in six steps each.
    found = tp.cheapest_attack(clf, frame, tp.Attacker.rules(rules, step=0.1, **words), relations=sums)
    assert (found.price[:2].tolist(), found.exact.all()) == ([34.0, 12.0], True)
    assert found.rows.iloc[1].tolist() == [2.8, 0.2, 3.0]


def test_filled_values_keep_relations_and_missing_ones_break_none() -> None:
    filling = tp.Attacker({}, fill=[0])
    for b, outcomes in ((1.0, (True, True)), (1.4, (True, False)), (2.0, (False, False))):
        assert stable([math.nan, b], filling, "[0] <= [1]", epsilon={1: 0.2}) == outcomes
    blanking = tp.Attacker({1: (-1, 1)}, blank=[0], costs={1: 0}, budget=1)
    needs = tp.implies("[0] is missing", "[0] + [1] <= 9 and [1] >= 5")
    for b, outcomes in ((3.0, (True, True)), (3.9, (True, False)), (4.5, (False, False))):
        assert stable([2.0, b], blanking, ["[0] + [1] <= 20", needs], epsilon={1: 0.2}) == outcomes


def test_distances_on_grids_are_paid_for_in_all_columns_of_a_relation() -> None:
    for p, radius, held in ((2, 1.4, True), (2, 1.5, False), (1, 1.9, True), (1, 2.0, False)):
        attacker = tp.Attacker.lp(p, radius, step=1)
        assert stable([1.0, 1.0], attacker, "[0] <= [1]") == (held, held)
        assert stable([0.0, 1.0], attacker, "[0] <= [1]", epsilon={0: 1}) == (True, held)
    found = tp.cheapest_attack(stump(), [[1.0, 1.0]], tp.Attacker.lp(2, 1, step=1), relations="[0] <= [1]")
    assert (found.price.round(9).tolist(), found.exact.tolist()) == ([1.414213562], [True])


def test_values_of_a_category_that_only_a_relation_tells_apart() -> None:
    builder = EnsembleBuilder(n_features=2, classes=[0, 1], feature_names=["a", "b"], categories={0: COLOURS})
    votes = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    builder.add_tree(
        feature=[0, LEAF, LEAF], threshold=[0.5, 0.0, 0.0], left=[1, LEAF, LEAF], right=[2, LEAF, LEAF], scores=votes,
        pieces={0: Pieces.of_codes([True, False, False])},
    )  # fmt: skip
    relations = [tp.implies("a == 'green'", "a == 'red' or b + b >= 2"), tp.implies("a == 'blue'", "b <= -2")]
    attacker = tp.Attacker({"a": tp.ANY, "b": tp.ANY}, costs={"b": 3}, domain={"b": (-1, 9)})
    found = tp.cheapest_attack(builder.build(), [["red", 0.0], ["red", 1.0]], attacker, relations=relations)
    assert found.price.tolist() == [4.0, 1.0]
    assert found.rows[:, 0].tolist() == ["green", "green"]


def test_distances_in_l1_need_no_grid() -> None:
    for radius, held in ((0.9, True), (1.1, False)):
        assert stable([1.0, 1.0], tp.Attacker.lp(1, radius), "[0] <= [1]") == (held, held)


def test_rows_may_keep_relations_by_missing_values() -> None:
    nobody = tp.Attacker({1: (-1, 1)}, fill=[0])
    assert stable([math.nan, 3.0], nobody, "[0] is missing") == (True, True)
    assert stable([math.nan, 3.0], nobody, [tp.implies("[0] is present", "[0] + [1] <= -1"), "[0] >= 0", "[1] >= 0"])[0]
    with pytest.raises(tp.InvalidInput, match="no row that the model takes, in the domain, keeps"):
        stable([math.nan, 3.0], nobody, ["[0] is missing", "[1] <= 3", "[1] >= 4 or [0] is present"])
