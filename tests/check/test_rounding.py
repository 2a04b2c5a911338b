"""The lemma on rounding: a class that is behind by more than the margin never becomes the library's label."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treeproof import Attacker, verify
from treeproof.check.fields import RULE as TABLE
from treeproof.check.fields import check
from treeproof.check.model_file import Model
from treeproof.check.rules import Rejected
from treeproof.importers import EnsembleBuilder
from treeproof.importers.native import as_text
from treeproof.model.compiled import unit_exponent, whole_units
from treeproof.model.ensemble import Ensemble
from treeproof.model.score_rule import Decision, ScoreRule

STUMP = {"feature": [0, -1, -1], "threshold": [0.5, 0.0, 0.0], "left": [1, -1, -1], "right": [2, -1, -1]}


def content_of(rule: dict[str, Any], base: list[float], trees: Sequence[Sequence[list[float]]]) -> dict[str, Any]:
    """The object of a model file with one stump per tree, given the scores of its two leaves."""
    rule = {"divisor": 1.0, "base_last": False, "cut": 0.0, "steepness": 1.0, "precision": "float64", **rule}
    return {
        "format": "treeproof-ensemble",
        "columns": [{}] * 1,
        "classes": list(range(2 if rule["decision"] == "cut" else len(base))),
        "rule": rule,
        "base": base,
        "trees": [{**STUMP, "nan_left": [False] * 3, "scores": list(leaves)} for leaves in trees],
    }


def wrong_closings(model: Model) -> int:
    """How often the label is a class that no leaf of each tree, taken together, gives what it needs."""
    found = 0
    for leaves in itertools.product((1, 2), repeat=len(model.trees)):
        nodes = [tree[leaf] for tree, leaf in zip(model.trees, leaves, strict=True)]
        winner = model.label_of([node.scores for node in nodes])
        for label in set(range(model.n_classes)) - {winner}:
            lead = model.constant(winner, label) + sum(
                model.lead(t, node.scores, winner, label) for t, node in enumerate(nodes)
            )
            found += lead < model.needed(winner, label)
    return found


def stumps(rule: ScoreRule, base: float, leaves: Sequence[tuple[float, float]]) -> Ensemble:
    """The same as an ensemble."""
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=rule, base=[base])
    for pair in leaves:
        builder.add_tree(**STUMP, scores=[0.0, *pair])
    return builder.build()


SMALL, LARGE = float(np.float32(2e-8)), float(np.float32(4e-8))
CLOSE_TO_THE_CUT = [
    # Sums begin at the base, where float32 numbers are farther apart than what trees add.
    ("float32", 0.5, [(-SMALL, LARGE), *[(-SMALL, -SMALL)] * 9]),
    # Leaves are whole numbers and so is base - cut, but not the sums: 0.1 + 1 - 1 is more than 0.1.
    ("float64", 0.1, [(-1.0, 1.0), (-1.0, -1.0)]),
]


@pytest.mark.parametrize(("precision", "base", "leaves"), CLOSE_TO_THE_CUT)
def test_a_base_near_the_cut_does_not_make_roundings_smaller(
    precision: Any, base: float, leaves: list[tuple[float, float]]
) -> None:
    ensemble = stumps(ScoreRule(decision=Decision.CUT, precision=precision, cut=base), base, leaves)
    assert ensemble.predict([[0.0], [1.0]]).tolist() == [0, 1]
    result = verify(ensemble, [[0.0]], [0], Attacker({0: (0, 1)}, budget=1), n_jobs=1, progress=False)
    assert result.stability.tolist() == [1]
    rule = {"decision": "cut", "precision": precision, "cut": base}
    trees = [[[score] for score in pair] for pair in leaves]
    assert wrong_closings(Model.of(content_of(rule, [base], trees))) == 0


def test_a_base_that_is_added_to_a_rounded_quotient_is_not_whole() -> None:
    bases, found = [1.0, 0.0], 0
    for s in range(60):
        quotients = s / 7.0 + 1.0, (s + 7) / 7.0
        if quotients[0] < quotients[1]:
            # Both sums are s + 7, and class 1 wins by rounding.
            trees = [[[float(s), float(s + 7)]] * 2]
            model = Model.of(content_of({"decision": "argmax", "divisor": 7.0, "base_last": True}, bases, trees))
            found += model.label_of([trees[0][0]]) == 1
            assert wrong_closings(model) == 0
    assert found


def random_content(rng: random.Random) -> dict[str, Any]:
    """A model whose scores are close to ties: few values that nearly cancel, on all kinds of scales."""
    decision = rng.choice(["argmax", "cut", "softmax", "sigmoid"])
    single = rng.random() < 0.5
    rounded = np.float32 if single else np.float64
    n_scores = 1 if decision == "cut" else rng.randint(2, 3)
    step = 2.0**-24 if single else 2.0**-53
    scale = 2.0 ** rng.choice([0, 0, 3, -20, -140 if single else -1060])
    values = [
        0.1,
        -0.1,
        0.3,
        1.0,
        -1.0,
        *(rng.choice([1, 2, 3, 9, 33, 70]) * step * rng.choice([1, -1]) for _ in range(4)),
    ]

    def number() -> float:
        return float(rounded(rng.choice(values) * scale))

    n_trees = rng.randint(1, 6)
    rule: dict[str, Any] = {
        "decision": decision,
        "precision": "float32" if single else "float64",
        "divisor": rng.choice([1.0, 1.0, 3.0, 0.7, 100.0]),
        "base_last": rng.random() < 0.3,
        "steepness": rng.choice([1.0, 0.3, 5.0]),
    }
    base = [rng.choice([0.0, number(), float(rounded(rng.choice([0.5, 3.7])))]) for _ in range(n_scores)]
    if decision == "cut":
        rule["cut"] = rng.choice([0.0, base[0], base[0] / rule["divisor"], math.nextafter(base[0], 9)])
    if not single and decision in ("argmax", "cut") and rng.random() < 0.3:
        base, first = [0.0] * n_scores, rng.randint(1, n_trees)
        counts = [count for count in (first, n_trees - first) if count]
        rule["members"] = [
            {"n_trees": count, "divisor": rng.choice([1.0, 3.0]), "weight": rng.choice([1.0, 0.1])} for count in counts
        ]
    # Scores of classes are mostly the same, so that sums differ by roundings only; or each tree adds to one class.
    trees, alone = [], rng.random() < 0.4
    for tree in range(n_trees):
        leaves = []
        for _ in range(2):
            same = number()
            scores = [same if rng.random() < 0.6 else number() for _ in range(n_scores)]
            leaves.append([score if not alone or k == tree % n_scores else 0.0 for k, score in enumerate(scores)])
        trees.append(leaves)
    return content_of(rule, base, trees)


@pytest.mark.parametrize("seed", range(8))
def test_no_class_wins_from_behind_the_margin(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        content = random_content(rng)
        assert wrong_closings(Model.of(content)) == 0, content


def test_where_sums_may_overflow_nothing_is_closed() -> None:
    huge = float(np.float32(3e38))
    model = Model.of(
        content_of({"decision": "argmax", "precision": "float32"}, [0.0, 0.0], [[[huge, huge / 2]] * 2] * 4)
    )
    assert model.label_of([(huge / 2, huge), (huge, huge), (huge, huge)]) == 0  # both are infinite
    assert model.needed(0, 1) < -2 * 4 * huge * model.unit
    flat = Model.of(content_of({"decision": "sigmoid"}, [0.0, 0.0], [[[1e3, 5e2]] * 2]))
    assert flat.label_of([(5e2, 1e3)]) == 0  # both are 1.0
    assert flat.needed(0, 1) < -1e3 * flat.unit


@pytest.mark.parametrize("decision", [Decision.CUT, Decision.ARGMAX, Decision.SOFTMAX, Decision.SIGMOID])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_slack_of_engines_is_no_less_than_the_margin(decision: Decision, precision: Any) -> None:
    rule = ScoreRule(decision=decision, precision=precision, cut=0.5, divisor=3.0, base_last=True, steepness=2.0)
    n = 1 if decision == Decision.CUT else 2
    builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=rule, base=[0.25] * n)
    for leaf in (0.5, 1.25, -3.0):
        builder.add_tree(**STUMP, scores=[[0.0] * n, [leaf] * n, [-leaf] * n])
    ensemble = builder.build()
    model, exponent = Model.of(json.loads(as_text(ensemble))), unit_exponent(ensemble)
    assert exponent is not None
    assert whole_units(ensemble)[2] >= Fraction(-model.needed(0, 1), model.unit) * Fraction(2) ** exponent


def boosted(n_classes: int) -> Ensemble:
    """Three trees for each class, which add nothing to the others."""
    rule = ScoreRule(decision=Decision.SOFTMAX, precision="float32")
    builder = EnsembleBuilder(n_features=1, classes=list(range(n_classes)), rule=rule, base=[0.0] * n_classes)
    for leaf in map(float, np.array([0.1, 0.7, -3.3], dtype=np.float32)):
        for k in range(n_classes):
            scores = [[value * (other == k) for other in range(n_classes)] for value in (0.0, leaf, -leaf)]
            builder.add_tree(**STUMP, scores=scores)
    return builder.build()


def test_trees_of_other_classes_round_nothing() -> None:
    margins, slacks = [], []
    for n_classes in (2, 12):
        ensemble = boosted(n_classes)
        model, exponent = Model.of(json.loads(as_text(ensemble))), unit_exponent(ensemble)
        assert exponent is not None
        margins.append(Fraction(-model.needed(0, 1), model.unit))
        slacks.append(whole_units(ensemble)[2] / 2.0**exponent)
        assert slacks[-1] >= margins[-1] > 0
    assert margins[0] == margins[1] and slacks[1] < 1.001 * slacks[0]


RULE = {"decision": "argmax", "precision": "float32"}
BROKEN = {
    "divisor": lambda content: content["rule"].update(divisor=-1.0),
    "steepness": lambda content: content["rule"].update(steepness=0.0),
    "cut": lambda content: content["rule"].update(cut=math.nan),
    "decision": lambda content: content["rule"].update(decision="median"),
    "precision": lambda content: content["rule"].update(precision="float16"),
    "no float32": lambda content: content["trees"][0].update(scores=[[0.1, 0.0], [0.0, 0.0]]),
    "no number": lambda content: content["trees"][0].update(scores=[[math.inf, 0.0], [0.0, 0.0]]),
    "scores": lambda content: content["trees"][0].update(scores=[[0.0], [0.0]]),
    "classes": lambda content: content.update(classes=[0, 1, 2]),
    "fewer classes": lambda content: content.update(classes=[0]),
    "column": lambda content: content["trees"][0].update(feature=[1, -1, -1]),
    "threshold": lambda content: content["trees"][0].update(threshold=[math.nan, 0.0, 0.0]),
    "cuts": lambda content: content["trees"][0].update(more=[[0, [0.25]]]),
    "members": lambda content: content["rule"].update(members=[{"n_trees": 1, "divisor": 1.0, "weight": 1.0}]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_models_that_the_lemma_does_not_cover_are_rejected(name: str) -> None:
    content = content_of(RULE, [0.0, 0.0], [[[0.5, 0.0], [0.0, 0.5]]])
    checked(copy.deepcopy(content))
    BROKEN[name](content)
    with pytest.raises(Rejected):
        checked(content)


def checked(content: dict[str, Any]) -> Model:
    check(content["rule"], TABLE, "the rule")
    return Model.of(content)
