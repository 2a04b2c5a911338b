"""Several models that vote: each member's sum is divided and weighted before it is added, for every engine alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

import treeproof as tp
from treeproof.errors import InvalidInput
from treeproof.importers import LEAF, EnsembleBuilder
from treeproof.model.score_rule import Decision, Member, ScoreRule


def counting(members: Sequence[Member], divisor: float, cut: float | None = None) -> tp.Ensemble:
    """Of member m, as many trees vote for the second class as feature m says."""
    decision = Decision.ARGMAX if cut is None else Decision.CUT
    rule = ScoreRule(decision, divisor=divisor, cut=cut or 0.0, members=tuple(members))
    builder = EnsembleBuilder(n_features=len(members), classes=[0, 1], rule=rule)
    for feature, member in enumerate(members):
        for t in range(member.n_trees):
            votes = np.array([[0, 0], [1, 0], [0, 1]])
            builder.add_tree(
                feature=[feature, LEAF, LEAF],
                threshold=[t + 0.5, 0, 0],
                left=[1, LEAF, LEAF],
                right=[2, LEAF, LEAF],
                scores=votes if cut is None else votes[:, 1],
            )
    return builder.build()


def average(members: Sequence[Member], divisor: float, counts: np.ndarray) -> np.ndarray:
    """np.average of the members' probabilities of the second class."""
    parts = [count / member.divisor * member.weight for member, count in zip(members, counts.T, strict=True)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total / divisor


CASES = {
    "equal": ((Member(10, 10.0, 1.0), Member(4, 4.0, 1.0), Member(3, 3.0, 1.0)), 3.0),
    "weighted": ((Member(10, 10.0, 0.3), Member(4, 4.0, 0.2), Member(5, 5.0, 0.1)), 0.3 + 0.2 + 0.1),
    "weightless": ((Member(6, 6.0, 0.7), Member(5, 5.0, 0.0), Member(10, 10.0, 0.1)), 0.7 + 0.1),
}


def rows_of(members: Sequence[Member]) -> np.ndarray:
    return np.array(list(itertools.product(*(range(m.n_trees + 1) for m in members))), dtype=float)


@pytest.mark.parametrize(
    "name", ["weighted", *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != "weighted")]
)
def test_every_engine_rounds_each_member_by_itself(name: str) -> None:
    members, divisor = CASES[name]
    rows = rows_of(members)
    second = average(members, divisor, rows)
    first = average(members, divisor, np.array([m.n_trees for m in members]) - rows)
    cut = float(np.sort(second)[len(rows) // 2])
    for ensemble, expected in (
        (counting(members, divisor), second > first),
        (counting(members, divisor, cut), second > cut),
    ):
        assert (ensemble.predict(rows) == expected).all()
        near = np.abs(second - (0.5 if ensemble.n_scores == 2 else cut)) < 1e-9
        assert near.any()
        # In its own cell no row can change its label, unless an engine adds up in another way.
        result = tp.verify(ensemble, rows[near], expected[near].astype(int), tp.Attacker.linf(0.25))
        assert (result.stability == tp.Outcome.PROVED).all()
        result = tp.verify(ensemble, rows, expected.astype(int), tp.Attacker({0: (-1.0, 1.0)}))
        beside = [rows + step * np.eye(len(members))[0] for step in (-1, 1)]
        same = np.all([ensemble.predict(other) == expected for other in beside], axis=0)
        assert ((result.stability == tp.Outcome.PROVED) == same).all()
        assert sum(tp.check.check_verification(ensemble, result).values()) > 0
        analysis = tp.analyze(ensemble, tp.Attacker({0: (-1.0, 1.0)}))
        assert analysis.complete and (analysis.is_stable(rows) <= same).all()
        smap = tp.StabilityMap.build(ensemble, tp.Attacker({0: (-1.0, 1.0)}))
        assert ((smap.status(rows) == tp.Status.STABLE) == same).all()


def test_members_differ_from_one_sum_somewhere() -> None:
    """Otherwise the test above would prove nothing."""
    differ = 0
    for members, divisor in CASES.values():
        rows = rows_of(members)
        cut = float(np.sort(average(members, divisor, rows))[len(rows) // 2])
        flat = np.zeros(len(rows))
        for member, count in zip(members, rows.T, strict=True):
            for t in range(member.n_trees):
                flat = flat + np.where(count > t, member.weight / member.divisor, 0.0)
        differ += int(((flat / divisor > cut) != (average(members, divisor, rows) > cut)).sum())
    assert differ > 0


def test_members_that_are_not_the_trees_are_refused() -> None:
    for members, message in (
        ((Member(3, 1.0, 1.0),), "the members have .3. trees; the model has 2"),
        ((Member(0, 1.0, 1.0), Member(2, 1.0, 1.0)), "the members have .0, 2. trees"),
        ((Member(2, 0.0, 1.0),), "divisors and weights"),
        ((Member(2, 1.0, -1.0),), "divisors and weights"),
        ((Member(2, 1.0, float("nan")),), "divisors and weights"),
    ):
        builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=ScoreRule(members=members))
        for _ in range(2):
            builder.add_tree(feature=[LEAF], threshold=[0], left=[LEAF], right=[LEAF], scores=[[1, 0]])
        with pytest.raises(InvalidInput, match=message):
            builder.build()
    for rule, base in (
        (ScoreRule(precision="float32", members=(Member(1, 1.0, 1.0),)), None),
        (ScoreRule(Decision.SOFTMAX, members=(Member(1, 1.0, 1.0),)), None),
        (ScoreRule(members=(Member(1, 1.0, 1.0),)), [0.5, 0.5]),
    ):
        builder = EnsembleBuilder(n_features=1, classes=[0, 1], rule=rule, base=base)
        builder.add_tree(feature=[LEAF], threshold=[0], left=[LEAF], right=[LEAF], scores=[[1, 0]])
        with pytest.raises(InvalidInput, match="without a base, for argmax or a cut"):
            builder.build()
