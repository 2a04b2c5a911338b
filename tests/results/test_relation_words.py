"""Relations in plain language."""

from __future__ import annotations

import pandas as pd
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from treeproof.results.relation_words import (
    MOST_CHARACTERS,
    broken_in_short,
    broken_in_words,
    kept_in_words,
    relation_in_short,
)
from treeproof.threat.relations import as_relations


def test_many_relations_are_counted_and_some_are_stated() -> None:
    said = kept_in_words(as_relations([f"a{k} <= b" for k in range(6)]))
    assert said == "Neighbours and attacked rows keep 6 relations: a0 <= b; a1 <= b; a2 <= b; a3 <= b; and 2 more."


def test_a_long_relation_is_cut() -> None:
    (relation,) = as_relations(" + ".join(f"column_{k}" for k in range(40)) + " <= 1")
    assert len(relation_in_short(relation)) == MOST_CHARACTERS + 1


def test_one_row_breaks_and_more_break() -> None:
    assert broken_in_short(1) == "1 row breaks the relations"
    assert broken_in_short(2) == "2 rows break the relations"
    assert broken_in_words(1, 9, "row 7: a <= b").startswith("1 of 9 rows breaks the relations itself (row 7")
    assert broken_in_words(2, 9, "row 7: a <= b").startswith("2 of 9 rows break the relations themselves (row 7")


def test_a_result_says_why_rows_may_stay_open_under_relations() -> None:
    frame = pd.DataFrame({"a": [0.3, 0.3, 0.8, 0.8], "b": [0.1, 0.7, 0.1, 0.7]})
    clf = DecisionTreeClassifier(random_state=0).fit(frame, [0, 0, 0, 1])
    row = pd.DataFrame({"a": [0.3], "b": [0.3]})
    # No doubles in the right cells add up to 1.2 exactly.
    result = tp.verify(clf, row, [0], tp.Attacker.lp(1, 9), relations=["a + b == 1.2"])
    assert result.stability.tolist() == [tp.Outcome.UNKNOWN]
    assert any("give these columns a step" in said for said in result.assumptions)
    known = tp.verify(clf, row, [0], tp.Attacker.lp(1, 9, step=0.1), relations=["a + b == 1.2"])
    assert known.stability.tolist() == [tp.Outcome.REFUTED]
    assert not any("give these columns a step" in said for said in known.assumptions)
