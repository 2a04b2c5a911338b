"""Relations in plain language."""

from __future__ import annotations

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
