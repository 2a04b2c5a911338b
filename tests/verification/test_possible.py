"""Relations that no row keeps are refused, by those that contradict each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp

FRAME = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (40, 3)).astype(float), columns=["a", "b", "c"])
LABEL = (FRAME.a > FRAME.b).astype(int)
CLF = DecisionTreeClassifier(max_depth=3, random_state=0).fit(FRAME, LABEL)


@pytest.mark.parametrize(
    ("relations", "domain", "to_blame"),
    [
        (["a <= b", "c >= 0", "b < a"], None, "'a <= b' and 'b < a'"),
        (["a <= b", "b < c", "c < a"], None, "'a <= b' and 'b < c' and 'c < a'"),
        (["a + b <= 1", "c >= 0"], {"a": (2, 9)}, "'a + b <= 1'"),
        ([tp.implies("a > 1", "b > 3"), "a >= 2", "a + b <= 4"], None, "implies(a > 1, b > 3)"),
    ],
)
def test_relations_that_no_row_keeps_are_refused(relations: Any, domain: Any, to_blame: str) -> None:
    attacker = tp.Attacker.linf(1, domain=None if domain is None else {"b": (0, 9), **domain})
    rows = FRAME[FRAME.a.between(2, 9) & FRAME.b.between(0, 9)]
    with pytest.raises(tp.InvalidInput, match="no row that the model takes, in the domain, keeps") as refused:
        tp.verify(CLF, rows, LABEL[rows.index], attacker, relations=relations)
    assert to_blame in str(refused.value)
    with pytest.raises(tp.InvalidInput, match="no row that the model takes"):
        tp.cheapest_attack(CLF, rows, tp.Attacker.lp(1, 1.0, domain=attacker.domain), relations=relations)


@pytest.mark.parametrize("relations", [["a <= b", "b <= a"], ["a < b", "b < c"], ["a != b"]])
def test_others_are_not(relations: list[str]) -> None:
    tp.verify(CLF, FRAME[:3], LABEL[:3], tp.Attacker.linf(1), relations=relations)


def test_ends_of_a_domain_are_decimals_where_columns_have_steps() -> None:
    attacker = tp.Attacker((-0.1, 0.1), step=0.1, domain=(0.0, 0.6))
    rows = pd.DataFrame([[0.6, 0.4, 0.2], [0.5, 0.4, 0.6]], columns=["a", "b", "c"])
    # The double nearest to 0.6 is below it.
    result = tp.verify(CLF, rows, CLF.predict(rows), attacker, relations=["a >= 0.6", "a + b > 0.6"])
    assert result.broken_rows.tolist() == [False, True]
