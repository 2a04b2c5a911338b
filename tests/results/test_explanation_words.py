"""Sentences about explanations say what is proved, no more, and what they assume."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import treeproof as tp
from tests.support.hand_made import PURPOSES, ROW, asked, explanation
from treeproof.model.columns import UNSEEN
from treeproof.results.asked import Range, Unit
from treeproof.results.explanation_words import (
    assumptions_in_words,
    changes_in_words,
    exactly,
    explanation_in_words,
    range_in_words,
)
from treeproof.results.sentences import ENOUGH, NO_OTHERS
from treeproof.results.verdicts import Outcome
from treeproof.threat.relations import as_relations

ABOVE = math.nextafter(33.5, math.inf)


def test_a_reason_is_one_sentence() -> None:
    one = explanation({"duration": (36.0, 36.0), "purpose": ["car"]})
    assert (
        str(one) == "bad because duration is 36 and purpose is car; this is enough, and no part of it can be left out"
    )


def test_ranges_and_sets_are_said_as_such() -> None:
    one = explanation({"duration": (ABOVE, math.inf), "amount": (1000.0, 5000.0), "purpose": ["car", "radio"]})
    said = f"bad because duration is above 33.5, amount is 1,000 to 5,000 and purpose is car or radio; {ENOUGH}"
    assert str(one) == said


def test_a_set_with_most_values_is_said_by_the_others() -> None:
    assert "purpose is any known value except car;" in str(explanation({"purpose": list(PURPOSES[1:])}))
    assert "purpose is any known value;" in str(explanation({"purpose": list(PURPOSES)}))


def test_groups_are_called_by_their_names_and_members() -> None:
    assert (
        str(explanation({"home": ["flat"]}))
        == "bad because home is flat; this is enough, and no part of it can be left out"
    )


def test_missing_values_are_said() -> None:
    one = explanation({"rate": (math.nan, math.nan), "purpose": [None]})
    assert "rate is missing and purpose is missing" in str(one)
    assert "rate is not missing" in str(explanation({"rate": (-math.inf, math.inf)}))


def test_what_is_not_proved_minimal_says_so() -> None:
    one = explanation({"duration": (36.0, 36.0)}, minimal=False)
    assert str(one) == "bad because duration is 36; enough, maybe without some of it, too"
    assert "no part of it can be left out" not in str(one)
    wide = explanation({"duration": (33.0, 40.0)}, asked(inflate=True), minimal=False)
    assert str(wide).endswith("; enough, maybe without some of it, too, or ranges could be wider")


def test_smallest_reasons_say_whether_there_are_smaller_ones() -> None:
    about = asked(kind="smallest")
    ranges = {"duration": (36.0, 36.0)}
    assert str(explanation(ranges, about)).endswith("this is enough, and no fewer columns are")
    assert str(explanation(ranges, about, minimal=False)).endswith("; enough, maybe fewer columns are")


def test_empty_reasons_say_where_they_hold() -> None:
    assert str(explanation()) == "always bad"
    domain = asked(attacker=tp.Attacker(tp.ANY, domain={"duration": (4, 72)}))
    assert str(explanation({}, domain)) == "always bad within the domain"


def test_against_an_attacker_a_reason_is_about_what_he_cannot_change() -> None:
    about = asked(attacker=tp.Attacker({"duration": (-6, 6)}), against=True)
    one = explanation({"duration": (36.0, 36.0)}, about)
    assert str(one) == (
        "bad, and stays bad while duration is 36, whatever else the attacker does; no part of this can be left out"
    )
    assert str(explanation({}, about)) == "bad, and stays bad whatever the attacker does"


def test_a_goal_limits_what_is_promised() -> None:
    about = asked(attacker=tp.Attacker({"duration": (-6, 6)}, goal="good"), against=True)
    assert str(explanation({}, about)) == "bad, and cannot be made good whatever the attacker does"
    assert "nothing to defend" in str(explanation({}, about, label="good"))


def test_contrastive_sets_show_the_change() -> None:
    about = asked(kind="contrastive")
    other = ROW.copy()
    other[1] = 3100.0
    one = explanation({}, about, columns=("amount",), other=other, changed_label="good")
    assert str(one) == "bad as it is; a change of amount alone can flip it: 4,200 → 3,100 gives good"
    other[[3, 4, 5]] = 1.0, 0.0, 1.0
    one = explanation({}, about, columns=("amount", "purpose", "home"), other=other, changed_label="good")
    assert str(one) == (
        "bad as it is; changes of amount, purpose and home together can flip it, no fewer columns can: "
        "amount 4,200 → 3,100, purpose car → radio and home flat → farm give good"
    )
    assert "maybe fewer columns can" in str(
        explanation({}, about, columns=("amount", "purpose"), other=other, changed_label="good", minimal=False)
    )


def test_contrastive_sets_say_if_nothing_flips() -> None:
    assert str(explanation({}, asked(kind="contrastive"))) == "bad in any case: nothing can flip it"


def test_rows_without_an_explanation_say_so() -> None:
    assert str(explanation(outcome=Outcome.UNKNOWN, minimal=False)) == "bad; not explained in time"


def test_columns_without_names_are_called_by_position() -> None:
    units = tuple(Unit(f, (f,)) for f in range(6))
    about = asked(feature_names=None, units=units)
    assert (
        str(explanation({1: (4200.0, 4200.0)}, about))
        == "bad because feature 1 is 4,200; this is enough, and no part of it can be left out"
    )
    assert assumptions_in_words(about)[-1] == "Columns have no names: they are called by position, from 0 on."


def test_text_of_others_cannot_pass_for_ours() -> None:
    one = explanation({"purpose": ["car\nrow 1: good"]}, label="bad\n")
    assert "\n" not in str(one)
    assert "<script>" not in explanation({"purpose": ["<script>"]})._repr_html_()


doubles = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(doubles, doubles, doubles, st.booleans())
@example(a=1e15, b=1e15 + 1, c=1e15 + 1, whole=True)
def test_said_ranges_are_within_the_proved_ones_and_hold_the_row(a: float, b: float, c: float, whole: bool) -> None:
    """Reads the sentence back: every number that it admits is in the range, and the row's own is admitted."""
    low, own, high = sorted((a, b, c))
    if whole:
        own = float(round(own))
        low, high = min(low, own), max(high, own)
    if low == high:
        return
    said = range_in_words("x", Range(low, high), own, whole=whole)
    admits = _reader(said)
    assert admits(own)
    for end, beyond in ((low, -math.inf), (high, math.inf)):
        outside = math.nextafter(end, beyond)
        if not math.isinf(outside):
            assert not admits(outside)


def _reader(said: str) -> Any:
    """The test that a sentence about x states."""
    stated = said.removeprefix("x is ").replace(",", "")
    if stated == "not missing":
        return lambda _: True
    if " to " in stated:
        low, high = map(float, stated.split(" to "))
        return lambda x: low <= x <= high
    tests = [end.rpartition(" ") for end in stated.split(" and ")]
    return lambda x: all(SIGNS[sign](x, float(number)) for sign, _, number in tests)


SIGNS = {"": operator.eq, "at least": operator.ge, "at most": operator.le, "above": operator.gt, "below": operator.lt}


def test_ends_that_need_few_digits_are_exact() -> None:
    assert range_in_words("x", Range(ABOVE, math.inf), 40.0) == "x is above 33.5"
    assert range_in_words("x", Range(33.5, math.inf), 40.0) == "x is at least 33.5"
    assert range_in_words("x", Range(-math.inf, math.nextafter(0.25, 0)), 0.1) == "x is below 0.25"
    assert range_in_words("x", Range(math.nextafter(2.0, 3), 2.5), 2.25) == "x is above 2 and at most 2.5"
    assert range_in_words("x", Range(math.nextafter(18, 99), 75.0), 30.0, (0.0, 75.0)) == "x is above 18"


def test_ends_are_exact_where_the_row_leaves_no_room() -> None:
    low = 0.123456789
    assert range_in_words("x", Range(low, math.inf), low) == "x is at least 0.123456789"
    assert range_in_words("x", Range(low, math.inf), 0.2) == "x is at least 0.123457"


@given(doubles)
def test_exact_numbers_read_back(value: float) -> None:
    assert float(exactly(value).replace(",", "")) == value


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (asked(), "since no domain was given"),
        (asked(), "any category that the model knows"),
        (asked(domain=((4.0, 72.0), *((-math.inf, math.inf),) * 5)), "duration (4 to 72), and any number elsewhere"),
        (asked(domain=((4.0, math.inf), *((-math.inf, math.inf),) * 5)), "duration (at least 4)"),
        (asked(), "Values that are there do not become missing."),
        (asked(missing=("rate",)), "Values may become missing in rate."),
        (asked(missing=(2, "amount")), "Values may become missing in rate and amount."),
        (asked(relations=as_relations("duration <= amount")), "Only rows that keep 1 relation count"),
        (asked(decision="good from 0.2"), "good from 0.2"),
        (asked(against=True, attacker_words="He lies."), "He lies."),
        (asked(kind="contrastive"), "Columns of a set may become"),
        (asked(X=np.where(ROW == 0.4, np.nan, ROW)[np.newaxis]), "1 row has missing values"),
        (asked(inflate=True, X=np.stack((ROW, ROW + 1))), "Ranges of duration and amount are said in whole numbers"),
    ],
)
def test_every_assumption_is_said(about: Any, said: str) -> None:
    assert said in " ".join(assumptions_in_words(about))


def test_counterfactual_changes_are_said_with_the_old_values() -> None:
    changes = {"duration": (36.0, 24.0), "purpose": ("car", "radio"), 3: (math.nan, 2.0)}
    assert changes_in_words(changes) == (
        "duration 24 instead of 36, purpose radio instead of car and feature 3: 2 instead of missing"
    )
    assert changes_in_words(changes, most=1) == "duration 24 instead of 36 and 2 more"


def test_sentences_do_not_depend_on_how_they_are_asked_for() -> None:
    one = explanation({"duration": (36.0, 36.0)})
    assert str(one) == explanation_in_words(one) and repr(one) == f"Explanation({one})"


def _change(price: float, changes: dict[Any, Any], **more: Any) -> tp.Counterfactual:
    fields: dict[str, Any] = {"outcome": Outcome.PROVED, "least": price, "label": "good", "others": ()}
    return tp.Counterfactual(0, None, price, changes=changes, **{**fields, **more})


def test_counterfactuals_are_sentences() -> None:
    first = {"duration": (36.0, 24.0)}
    assert str(_change(3.0, first)) == "would be good with duration 24 instead of 36 (price 3, nothing is cheaper)"
    unsure = _change(5.0, first, outcome=Outcome.UNKNOWN, least=2.0)
    assert str(unsure).endswith("(price 5, at least 2 is needed)")
    assert str(_change(5.0, first, outcome=Outcome.UNKNOWN, least=0.0)).endswith("5, something cheaper may exist)")
    assert str(_change(0.0, {})) == "is good already"
    none = _change(math.inf, {}, label="bad")
    assert str(none) == "bad: no change that is allowed gives a wanted label"
    assert str(_change(math.inf, {}, label="bad", outcome=Outcome.UNKNOWN)) == ("bad; no change was found in time")


def test_sentences_say_what_must_hold_within_epsilon() -> None:
    held = _change(3.0, {"duration": (36.0, 24.0)}, holds=True)
    assert str(held).endswith("(price 3, nothing that holds within epsilon is cheaper)")
    assert str(_change(0.0, {}, holds=True)) == "is good already, and that holds within epsilon"
    none = _change(math.inf, {}, label="bad", holds=True)
    assert str(none) == "bad: no change that is allowed gives a wanted label that holds within epsilon"


def test_next_changes_follow_the_cheapest() -> None:
    others = (_change(7.0, {"purpose": ("car", "radio")}), _change(math.inf, {}))
    assert str(_change(3.0, {"duration": (36.0, 24.0)}, others=others)).endswith(
        f"; or with purpose radio instead of car (price 7); {NO_OTHERS}"
    )


def test_values_that_could_be_words_of_ours_stand_in_quotes() -> None:
    one = explanation({"purpose": ["new car", "radio"], "home": ["a flat"]})
    assert 'purpose is "new car" or "radio" and home is "a flat";' in str(one)
    assert 'purpose is "missing" and home is flat;' in str(explanation({"purpose": ["missing"], "home": ["flat"]}))
    assert 'purpose is "?";' in str(explanation({"purpose": ["?"]}))
    assert "purpose is a value that the model never saw;" in str(explanation({"purpose": [UNSEEN]}))
    assert changes_in_words({"purpose": ("car", "used car")}) == 'purpose "used car" instead of "car"'


def test_what_changes_cost_is_said() -> None:
    clf = DecisionTreeClassifier().fit([[0.0, 0.0], [1.0, 0.0]], [0, 1])
    asker = tp.Attacker({0: (-2, 2), 1: (-2, 2)}, costs={0: 3})
    found = tp.counterfactual(clf, [[0.25, 0.0]], to=1, attacker=asker)
    assert (
        "The price is the sum of what changed columns cost: 3 for feature 0 and 1 for any other." in found.assumptions
    )
