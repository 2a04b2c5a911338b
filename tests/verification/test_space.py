"""The cells of a question: made from those of the model, which is compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.errors import InvalidInput
from treeproof.model import compiled
from treeproof.model.pieces import Pieces
from treeproof.results.verdicts import Outcome
from treeproof.threat.relations import ColumnLiteral
from treeproof.verification.local_search import Local
from treeproof.verification.space import MOST_CLAUSES, Space


def test_many_questions_with_relations_compile_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forest of 1.7 million nodes was compiled for every few rows: 40 times what is asked without relations took."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
    y = X.a > X.b
    ensemble = tp.from_model(RandomForestClassifier(5, random_state=0).fit(X, y))
    calls: list[Any] = []
    compile_it = compiled.compile_ensemble

    def counted(*given: Any, **words: Any) -> Any:
        calls.append(words)
        return compile_it(*given, **words)

    monkeypatch.setattr(compiled, "compile_ensemble", counted)
    for row in range(0, 60, 20):
        rows = slice(row, row + 20)
        tp.verify(
            ensemble, X[rows], y[rows], tp.Attacker((-0.3, 0.3), budget=1), relations=["a <= 1", "a + b <= 2 * c + 3"]
        )
    assert calls == [{"forbids": True}]


def test_what_was_compiled_for_the_same_relations_is_kept() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    ensemble = tp.from_model(RandomForestClassifier(2, random_state=0).fit(X, X[:, 0] > X[:, 1]))
    low = (ColumnLiteral(0, Pieces((1.0,), (True, False))),)
    high = (ColumnLiteral(0, Pieces((1.0,), (False, True))),)
    spaces = [Space(ensemble, clauses, forbids=True) for clauses in ((low,), (low,), (high,), (low, high), (low,))]
    nodes = [space.compiled[0].nodes for space in spaces]
    assert nodes[0] is nodes[1]
    assert all((len(space.compiled[0].roots) == 2 + len(space.clauses)) for space in spaces)
    np.testing.assert_array_equal(nodes[0], nodes[4])
    assert (nodes[0][-3:] != nodes[2][-3:]).any()
    assert Space(ensemble).compiled is ensemble.compiled


@pytest.mark.parametrize("n", [4096, MOST_CLAUSES])
def test_thousands_of_conditions_that_are_broken_at_once_leave_no_valid_row(n: int) -> None:
    # The penalties of 4,096 of them are as much as a sum that stands for an empty tree.
    ensemble = tp.from_model(DecisionTreeClassifier().fit([[0.0], [2.0]], [0, 1]))
    high = (ColumnLiteral(0, Pieces((1.5,), (False, True))),)
    low = (ColumnLiteral(0, Pieces((0.5,), (True, False))),)
    for attacker in (tp.Attacker.linf(9.0), tp.Attacker((-9, 9), budget=1)):
        threat, row = attacker.bind(ensemble), np.zeros((1, 1))
        for clauses, expected in (((low,) + (high,) * (n - 1), Outcome.PROVED), ((high,) * n, Outcome.REFUTED)):
            found = Local(ensemble, threat, space=Space(ensemble, clauses)).decide(row, np.zeros(1))
            assert found.outcome.tolist() == [expected]


def test_more_conditions_than_penalties_add_up_to_are_refused() -> None:
    ensemble = tp.from_model(DecisionTreeClassifier().fit([[0.0], [2.0]], [0, 1]))
    clauses = ((ColumnLiteral(0, Pieces((1.5,), (False, True))),),) * (MOST_CLAUSES + 1)
    with pytest.raises(InvalidInput, match="more than 16,384 conditions"):
        _ = Space(ensemble, clauses).compiled
    space = Space(ensemble, clauses[:-1]).refined(clauses[:1])
    with pytest.raises(InvalidInput, match="more than 16,384 conditions"):
        _ = space.compiled
