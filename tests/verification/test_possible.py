"""Relations that no row keeps are refused, by those that contradict each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
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


@pytest.mark.parametrize(
    ("relations", "kept"),
    [
        (["c >= 0.6"], True),
        (["a - 3*c <= 1.3", "a == 4"], True),
        (["a - 3*c <= 1.3", "a == 4", "c is present or c >= 0.1"], True),
        (["a + c >= 9", "a is present"], True),
        (["c >= 0.6", "c is present"], False),
        (["a - 3*c <= 1.3", "a == 4", "c is present", "a is present"], False),
    ],
)
def test_rows_with_missing_values_keep_relations_that_no_others_do(relations: list[str], kept: bool) -> None:
    rng = np.random.default_rng(0)
    c = np.where(rng.random(300) < 0.2, np.nan, rng.integers(0, 6, 300) / 10)
    frame = pd.DataFrame({"a": rng.integers(0, 5, 300) * 1.0, "c": c})
    label = np.where(frame.a + 4 * frame.c.fillna(0.8) > 3, "p", "n")
    clf = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=3).fit(frame, label)
    rows = pd.DataFrame({"a": [4.0, 3.0], "c": [np.nan, 0.5]})
    attacker = tp.Attacker(
        {"a": tp.steps(-2, 2, 1)}, blank={"c": 1}, step={"c": 0.1}, budget=2, domain={"a": (0, 4), "c": (0, 0.5)}
    )
    if not kept:
        with pytest.raises(tp.InvalidInput, match="no row that the model takes, in the domain, keeps"):
            tp.verify(clf, rows, clf.predict(rows), attacker, relations=relations)
        return
    result = tp.verify(clf, rows, clf.predict(rows), attacker, relations=relations)
    assert result.invalid_rows.tolist() == [False, True]
    # Whoever has no missing values and makes none has no valid row either, and is told so.
    still = tp.Attacker({"a": tp.steps(-2, 2, 1)}, step={"c": 0.1}, domain=attacker.domain)
    with pytest.raises(tp.InvalidInput, match="but with missing values, which neither the rows have nor the attacker"):
        tp.verify(clf, rows[1:], clf.predict(rows[1:]), still, relations=relations)
    tp.verify(clf, rows, clf.predict(rows), still, relations=relations)
    assert not tp.Verifier(clf, still, relations=relations).verdict(rows[:1]).breaks


def test_tables_may_have_their_missing_values_in_another_part(tmp_path: Path) -> None:
    rows = FRAME[:6].assign(label=LABEL[:6])
    rows.loc[5, "c"] = np.nan
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words: dict[str, Any] = {"out": tmp_path / "out", "chunk_rows": 2, "n_jobs": 1, "relations": ["c >= 10"]}
    attacker = tp.Attacker.linf(1, domain={"c": (0, 9)})
    assert tp.verify_table(CLF, tmp_path / "rows.csv", attacker, **words).rows_that_break == 5


@pytest.mark.parametrize("relations", [["a <= b", "b <= a"], ["a < b", "b < c"], ["a != b"]])
def test_others_are_not(relations: list[str]) -> None:
    tp.verify(CLF, FRAME[:3], LABEL[:3], tp.Attacker.linf(1), relations=relations)


def test_ends_of_a_domain_are_decimals_where_columns_have_steps() -> None:
    attacker = tp.Attacker((-0.1, 0.1), step=0.1, domain=(0.0, 0.6))
    rows = pd.DataFrame([[0.6, 0.4, 0.2], [0.5, 0.4, 0.6]], columns=["a", "b", "c"])
    # The double nearest to 0.6 is below it.
    result = tp.verify(CLF, rows, CLF.predict(rows), attacker, relations=["a >= 0.6", "a + b > 0.6"])
    assert result.invalid_rows.tolist() == [False, True]
