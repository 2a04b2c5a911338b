"""Counterexamples on one-hot columns: valid rows only, and a group that the attacker names is paid for once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treeproof as tp
from tests.support.columns import with_columns
from treeproof.check import is_within_reach
from treeproof.model.builder import blank_ensemble
from treeproof.results.verdicts import Witness
from treeproof.threat.relations import bind_relations

NAMES = ["amount", "p_car", "p_radio", "p_other", "limit"]
MODEL = with_columns(blank_ensemble(5, ["a"], NAMES), missing=True)
RELATIONS = bind_relations([tp.one_of(*NAMES[1:4], name="purpose"), "amount <= limit"], MODEL)
X = [1, 1, 0, 0, 2]


def reaches(attacker: tp.Attacker, *rows: list[float], epsilon: Any = None) -> bool:
    x, near, attacked = (np.array(row, dtype=float) for row in (rows if len(rows) == 3 else (rows[0], *rows)))
    return is_within_reach(MODEL, attacker, epsilon, Witness(x, near, attacked, None, None), RELATIONS)


def test_a_named_group_is_paid_for_once() -> None:
    attacker = tp.Attacker({"purpose": tp.ANY, "amount": (-1, 9)}, costs={"purpose": 2}, budget=2)
    assert reaches(attacker, X, [1, 0, 1, 0, 2])
    assert reaches(attacker, X, [2, 1, 0, 0, 2])
    assert not reaches(attacker, X, [2, 0, 1, 0, 2])
    assert not reaches(tp.Attacker({"amount": (-1, 9)}), X, [1, 0, 1, 0, 2])
    everything = tp.Attacker(tp.ANY, costs={"purpose": 3}, budget=3)
    assert reaches(everything, X, [1, 0, 0, 1, 2]) and not reaches(everything, X, [0, 0, 0, 1, 2])


def test_values_and_matrices_of_a_group() -> None:
    attacker = tp.Attacker({"purpose": tp.values("p_car", "p_other")})
    assert reaches(attacker, X, [1, 0, 0, 1, 2]) and not reaches(attacker, X, [1, 0, 1, 0, 2])
    matrix = tp.Attacker({}, costs={"purpose": {("p_car", "p_radio"): 1, ("p_radio", "p_other"): 1}}, budget=1)
    assert reaches(matrix, X, [1, 0, 1, 0, 2]) and not reaches(matrix, X, [1, 0, 0, 1, 2])


@pytest.mark.parametrize("attacker", [tp.Attacker.l0(2), tp.Attacker({"purpose": tp.ANY}, budget=1)])
def test_only_valid_rows_are_reached(attacker: tp.Attacker) -> None:
    assert reaches(attacker, X, [1, 0, 1, 0, 2])
    for invalid in ([1, 1, 1, 0, 2], [1, 0, 0, 0, 2], [1, 0.5, 0, 0, 2], [1, np.nan, 0, 0, 2]):
        assert not reaches(attacker, X, invalid)
    assert not reaches(tp.Attacker.l0(1), X, [3, 1, 0, 0, 2]) and reaches(tp.Attacker.l0(1), X, [0, 1, 0, 0, 2])


def test_neighbours_are_valid_but_for_the_row_itself() -> None:
    attacker = tp.Attacker({"purpose": tp.ANY})
    end = [1.5, 0, 1, 0, 2]
    assert reaches(attacker, X, [1.5, 1, 0, 0, 2], end, epsilon={"amount": 2})
    assert not reaches(attacker, X, [2.5, 1, 0, 0, 2], [2.5, 0, 1, 0, 2], epsilon={"amount": 2})
    broken = [1, 1, 1, 0, 2]
    assert reaches(attacker, broken, [1, 0, 0, 1, 2])
    assert not reaches(attacker, broken, [1.5, 1, 1, 0, 2], end, epsilon={"amount": 2})
    assert not reaches(attacker, broken, [1, 1, 0, 1, 2])
    assert not reaches(tp.Attacker.l0(9, features=["amount"]), broken, [0, 1, 1, 0, 2])
