"""Relations on groups of one-hot columns are broken by exactly the rows that break them on the user's columns."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import treeproof as tp
from tests.support.columns import with_columns
from tests.support.judged_relations import satisfies
from treeproof.model.builder import blank_ensemble
from treeproof.model.groups import group_columns
from treeproof.threat.relations import bind_relations
from treeproof.threat.relations.grouping import group_relations, groups_of

NAMES = ["amount", "p_car", "h_rent", "p_radio", "h_own", "p_other"]
MODEL = with_columns(blank_ensemble(len(NAMES), ["a"], NAMES), missing=True)
PURPOSE = tp.one_of("p_car", "p_radio", "p_other", name="purpose")
HOUSING = tp.at_most_one("h_rent", "h_own")
RELATIONS = [
    "p_car == 0",
    "p_car <= 0.5 or amount >= 3",
    "not (p_car == 1 and h_own == 1)",
    "p_car <= h_own",
    "p_car + p_radio + h_own <= 1",
    "3*p_car - 2*h_rent + amount <= 3.5",
    "amount > 3*p_car + 0.1",
    "amount - 0.1*p_radio < 0.2",
    "amount != 0.5*p_radio + 3*h_own",
    "p_car + h_own < 1 or amount + p_other >= 4",
    "implies(p_radio == 1, amount <= 0.1 + h_rent)",
    "p_car - 3*p_radio >= -2 and h_own + p_other <= 7",
    "1e308*p_car + 1e-3*amount <= 1e308",
]


def rows() -> np.ndarray:
    """Valid rows and some broken ones, with amounts on and beside what relations compare with."""
    amounts = sorted(
        {
            float(x)
            for a in (0.1, 0.2, 0.3, 0.5, 3.0, 3.1, 3.5, 4.0)
            for x in (np.nextafter(a, 0), a, np.nextafter(a, 9))
        }
    )
    found = []
    vectors = [*np.eye(3), np.zeros(3), np.array([1.0, 1.0, 0.0]), np.array([0.5, 0.0, 0.0])]
    vectors += [np.array([np.nan, 0.0, 0.0]), np.array([np.nan, 1.0, 0.0])]
    for amount, purpose, housing in itertools.product(amounts, vectors, itertools.product((0.0, 1.0), repeat=2)):
        row = np.zeros(6)
        row[0], row[[1, 3, 5]], row[[2, 4]] = amount, purpose, housing
        found.append(row)
    return np.array(found)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("steps", [{}, {0: Fraction("0.1"), 1: Fraction(1)}], ids=["doubles", "decimals"])
def test_the_same_rows_break_relations_on_groups(relation: str, steps: dict[int, Fraction]) -> None:
    X = rows()
    bound = bind_relations([PURPOSE, relation, HOUSING], MODEL, steps)
    grouped = group_columns(MODEL, groups_of(bound, MODEL), X)
    ours = group_relations(bound, grouped)
    broken = bound.broken(X)
    assert np.array_equal(broken, [not satisfies(MODEL, bound.given, row, steps) for row in X])
    assert np.array_equal(ours.broken(grouped.rows(X)), broken)
    assert np.array_equal(grouped.broken(X), bind_relations([PURPOSE, HOUSING], MODEL).broken(X))
    assert ours.which_broken(grouped.rows(X)) == bound.which_broken(X)
    assert not ours.groups and [f for f, _ in ours.steps] == [f for f in steps if f == 0]
    alone = bind_relations(relation, MODEL, steps).broken(X)
    assert 0 < alone.sum() < len(X)


def test_groups_without_a_name_are_called_by_their_members() -> None:
    bound = bind_relations([PURPOSE, HOUSING], MODEL)
    assert [group.name for group in groups_of(bound, MODEL)] == ["purpose", "h_rent or h_own"]
    grouped = group_columns(MODEL, groups_of(bound, MODEL))
    assert not group_relations(bound, grouped).clauses
    assert [column.name for column in grouped.ensemble.columns] == [NAMES[0], "purpose", "h_rent or h_own"]
