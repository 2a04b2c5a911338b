"""Proofs of what is false, made up by hand: none is accepted, whatever the files say."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import treeproof as tp
from tests.support.made_up import Proofs, attacker_content, model_content, result_content, stump
from tests.support.naive_proofs import double, number
from treeproof.check.clashes import SUM
from treeproof.check.evidence import Reach
from treeproof.check.proof_bytes import Reader
from treeproof.check.rows import CLAIM, VALID, Question, check_header, check_rows
from treeproof.check.rules import CLOSED, CUT_LEFT, WEIGH, Rejected
from treeproof.importers.native import load_bytes


def _holds(model: dict[str, Any], result: dict[str, Any], label: int = 0, part: int = CLAIM) -> bool:
    """Whether a proof is accepted that says nothing but that no other class can win."""
    return _is_accepted(model, result, [part, label, 0, *([0] if part == VALID else []), CLOSED])


def _is_accepted(model: dict[str, Any], result: dict[str, Any], steps: list[int]) -> bool:
    """Whether a part is accepted as proof that the row is stable."""
    try:
        question = Question.of(model, result)
    except Rejected:
        return False
    payload = b"".join(map(number, [1, 0, *steps]))
    ((_, found),) = check_rows(question, Proofs(payload), [0])  # type: ignore[arg-type]
    return found.checked == [0]


NO, YES = [1.0, 0.0], [0.0, 1.0]
MOVES = {"intervals": {"all": [-9, 9]}}


def test_what_is_true_is_accepted() -> None:
    assert _holds(model_content([stump(0, NO, YES)], ["no", "yes"]), result_content([0.0], "no", attacker_content()))
    assert not _holds(
        model_content([stump(0, NO, YES)], ["no", "yes"]), result_content([0.0], "no", attacker_content(**MOVES))
    )


@pytest.mark.parametrize("steps", [10, 60_000])
def test_members_of_a_group_may_be_rewritten_in_many_steps(steps: int) -> None:
    """Nobody follows so many steps, so they may cost no more than nothing."""
    rules = [{"column": "a", "change": -1 / steps, "cost": 1}, {"column": "b", "change": 1 / steps, "cost": 1}]
    model, group = model_content([stump(1, NO, YES)], ["no", "yes"], 2), {"relations": ["one_of(a, b)"], "broken": [[]]}
    attacker = attacker_content(rules=rules, domain={"all": [0, 1]})
    assert not _holds(model, result_content([1.0, 0.0], "no", attacker, **group), part=VALID)
    assert _holds(model, result_content([1.0, 0.0], "no", {**attacker, "rules": rules[:1]}, **group), part=VALID)


@pytest.mark.parametrize("classes", [[1, True, "a"], [0, False, "a"], ["b", "b", "a"], [1, 1.0, "a"]])
def test_labels_that_are_equal_are_not_the_same(classes: list[Any]) -> None:
    model = model_content([stump(0, [-1.0, 0.0, 1.0], [-1.0, 1.0, 0.0])], classes)
    assert not _holds(model, result_content([0.0], "a", attacker_content(**MOVES, goal=[classes[1]])), 2)


LP = {"power": 2, "radius": 0.5, "intervals": {"all": [-0.5, 0.5]}}


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        (
            LP,
            [{"budget": 0}, {"budget": 9}, {"costs": {"all": 2}}, {"intervals": {"all": [-0.1, 0.1]}}, {"radius": 9.0}],
        ),
        (LP, [{name: {"all": 1}} for name in ("blank", "fill")] + [{"unseen": True}]),
        (LP, [{"groups": [{"name": "g", "columns": ["a"], "budget": 1}]}, {"intervals": {"each": [[-0.5, 0.4]]}}]),
        (MOVES, [{"radius": 0.5}, {"scale": {"all": 2.0}}, {"up": ["a"]}, {"down": ["a"]}]),
        ({"rules": [{"column": "a", "change": 1, "cost": 1}]}, [MOVES, {"costs": {"all": 2}}, {"power": 1}, LP]),
    ],
)
def test_fields_that_an_attacker_does_not_obey_are_refused(
    fields: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """As who reads attackers refuses them: one who only goes up would be believed to go down."""
    model = model_content([stump(0, NO, YES)], ["no", "yes"])
    Question.of(model, result_content([0.0], "no", attacker_content(**fields)))
    for other in others:
        attacker = attacker_content(**{**fields, **other})
        with pytest.raises(Rejected, match="do not go with each other"):
            Question.of(model, result_content([0.0], "no", attacker))
        with pytest.raises(tp.InvalidInput):
            tp.Attacker.from_json(json.dumps(attacker)).bind(load_bytes(json.dumps(model).encode(), voting=None))


def test_names_of_columns_mean_one_column() -> None:
    named = attacker_content(intervals={"by_feature": [["b", [-9, 9]]]})
    model = model_content([stump(0, NO, YES)], ["no", "yes"], 2)
    assert _holds(model, result_content([0.0, 0.0], "no", named))
    assert not _holds(model, result_content([0.0, 0.0], "no", named, feature_names=["b", "a"]))
    twice = model_content([stump(1, NO, YES)], ["no", "yes"], 2, feature_names=["b", "b"])
    assert not _holds(twice, result_content([0.0, 0.0], "no", named))


@pytest.mark.parametrize(
    "fields",
    [
        {"intervals": {"all": [0, 0], "by_feature": [["a", [-9, 9]]]}},
        {"intervals": {"by_feature": [["a", [0, 0]], ["a", [-9, 9]]]}},
        {"intervals": {"by_feature": [["a", [0, 0]], [0, [-9, 9]]]}},
        {**MOVES, "budget": -1},
        {**MOVES, "groups": [{"name": "g", "columns": ["b"], "budget": -1}]},
        {**MOVES, "costs": {"by_feature": [["b", -5]]}, "budget": 0},
        {**MOVES, "power": 1, "radius": -1.0},
        {**MOVES, "power": 1, "radius": math.nan},
        {"intervals": {"all": [math.nan, math.nan]}},
        {**MOVES, "domain": {"all": [math.nan, math.nan]}},
        {**MOVES, "step": {"all": -1}},
        {**MOVES, "more": 1},
    ],
)
def test_attackers_that_are_none_are_refused(fields: dict[str, Any]) -> None:
    model = model_content([stump(0, NO, YES)], ["no", "yes"], 2)
    assert not _holds(model, result_content([0.0, 0.0], "no", attacker_content(**fields)))


@pytest.mark.parametrize("score", [math.inf, math.nan, -math.inf, 10**400, None])
def test_scores_that_are_none_are_refused(score: Any) -> None:
    assert not _holds(
        model_content([stump(0, NO, [score, 1.0])], ["no", "yes"]), result_content([0.0], "no", attacker_content())
    )


@pytest.mark.parametrize("cut", [math.inf, math.nan, -math.inf, 10**400, None])
def test_tests_that_are_none_are_refused(cut: Any) -> None:
    assert not _holds(
        model_content([stump(0, NO, YES, cut)], ["no", "yes"]), result_content([0.0], "no", attacker_content())
    )


def test_zero_has_one_cell_whatever_its_sign() -> None:
    for cut, x in [(0.0, -0.0), (-0.0, 0.0), (5e-324, 0.0), (-5e-324, -5e-324)]:
        model = model_content([stump(0, NO, YES, cut)], ["no", "yes"])
        above = math.nextafter(cut, math.inf) - x
        assert _holds(model, result_content([x], "no", attacker_content(intervals={"all": [0, cut - x]})))
        assert not _holds(model, result_content([x], "no", attacker_content(intervals={"all": [0, above]})))


@pytest.mark.parametrize("score", [2**53 + 1, 2**1000, 1e308, 5e-324])
def test_sums_may_be_rounded_or_too_large(score: Any) -> None:
    """A lead of one unit of a huge sum is no lead."""
    base = {"base": [float(score), float(score)]}
    model = model_content([stump(0, NO, [0.5, 1.0])], ["no", "yes"], **base)
    assert not _holds(model, result_content([0.0], "no", attacker_content(**MOVES)))


@pytest.mark.parametrize(
    "fields",
    [
        {"X": [["0"]]},
        {"X": [[math.inf]]},
        {"stability": ["proved"]},
        {"stability": [3]},
        {"epsilons": [math.nan], "resilience": [[0]]},
    ],
)
def test_files_that_nothing_can_be_about_are_refused(fields: dict[str, Any]) -> None:
    """Nothing is raised but that."""
    result = result_content([0.0], "no", attacker_content()) | fields
    with pytest.raises(Rejected):
        check_header(Question.of(model_content([stump(0, NO, YES)], ["no", "yes"]), result), Proofs(b""))  # type: ignore[arg-type]


@pytest.mark.parametrize("b", [1.0, -1.0])
def test_what_was_missing_is_no_distance_away_from_what_it_is_filled_with(b: float) -> None:
    """Relations do not rule out what is filled in because nobody moves the column by a distance."""
    model = model_content([stump(0, YES, NO, -0.5)], ["no", "yes"], 2)
    attacker = attacker_content(fill={"by_feature": [["a", 1]]})
    result = result_content([None, b], "no", attacker, relations=["a + b <= 0"], broken=[[]])
    reason = [SUM, 0, 1, 0, 2]  # one fact, the first one, times 1
    chain = [1, 2, 1, *(0, 2, 0), len(reason), *reason]  # only rows pass that lack a
    assert not _is_accepted(model, result, [VALID, 0, 0, *chain, CUT_LEFT, 0, 1, CLOSED, CLOSED])
    ruled_out = result | {"relations": ["a + b >= 0", "b <= -1"]} | {"broken": [[], []]}
    ends = {"columns": [{**column, "high": high} for column, high in zip(model["columns"], (0.5, 1e300), strict=True)]}
    assert _is_accepted(
        model | ends, ruled_out, [VALID, 0, 0, 1, 2, 1, *(0, 2, 0), 5, SUM, 0, 1, 0, 1, CUT_LEFT, 0, 1, CLOSED, CLOSED]
    ) == (b < 0)


def test_neighbours_share_the_values_of_groups_also_of_a_row_that_breaks_them() -> None:
    model = model_content([stump(0, NO, YES)], ["no", "yes"], 2)
    reach = Reach(model, attacker_content(**MOVES), ["one_of(a, b)"])
    around = reach.around({"all": 0.7})
    assert around.holds([0.4, 0.0], [0.4, 0.0])
    assert not around.holds([0.4, 0.0], [1.0, 0.0])


@pytest.mark.parametrize(
    ("model_fields", "fields", "x"),
    [
        ({}, {"domain": {"all": [2, 3]}}, 0.0),
        ({"columns": [{"low": 1.0, "high": 1e300, "missing": True}]}, {}, 0.0),
        ({"columns": [{"low": -1e300, "high": 1e300, "missing": False}]}, {}, None),
    ],
)
def test_rows_that_nobody_may_ask_about_are_not_proved(
    model_fields: dict[str, Any], fields: dict[str, Any], x: float | None
) -> None:
    """No attack leads anywhere from a row outside of the domain, which says nothing."""
    model = model_content([stump(0, NO, YES)], ["no", "yes"], **model_fields)
    result = result_content([x], "yes" if x is None else "no", attacker_content(**MOVES, **fields))
    assert not _holds(model, result)


@pytest.mark.parametrize("fields", [{"y": ["maybe"]}, {"actors": ["maybe"]}, {"actors": [True]}])
def test_labels_are_those_of_the_model(fields: dict[str, Any]) -> None:
    model = model_content([stump(0, NO, YES)], ["no", "yes"])
    assert not _holds(model, result_content([0.0], "no", attacker_content(), **fields))


# --- proofs that are bombs -------------------------------------------------------------------------------------------


def test_further_cuts_are_no_more_than_cells() -> None:
    model, result = model_content([stump(0, NO, YES)], ["no", "yes"]), result_content([0.0], "no", attacker_content())
    question, payload = Question.of(model, result), b"".join(map(number, [1, 0, CLAIM, 0, 2**20 + 1]))
    ((_, found),) = check_rows(question, Proofs(payload + bytes(99)), [0])  # type: ignore[arg-type]
    assert found.rejected == {0: "there are 1,048,577 further cuts"}


def far_up(cuts: int, cells: int) -> bytes:
    """Weights of one column that is cut right below so many cells."""
    column = number(0) + number(cuts) + number(cells - cuts) + bytes(cuts - 1) + bytes(cuts + 1) + number(0)
    return number(0) + bytes(8) + number(0) + number(1) + column


def test_few_bytes_make_no_large_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cut is one byte, and a mask of as many bits as there are cells below it."""
    monkeypatch.setattr("treeproof.check.proof_bytes.MOST_OF_MASKS", 2**20)
    assert len(Reader(far_up(14, 2**16)).weights().segments[0]) == 15
    with pytest.raises(Rejected, match="too many sets of cells"):
        Reader(far_up(16, 2**16)).weights()
    chain = number(0) + number(2) + 2 * (number(0) + number(0) + far_up(8, 2**16)[12:23])
    with pytest.raises(Rejected, match="too many sets of cells"):
        Reader(chain + bytes(9)).chain()


@pytest.mark.parametrize("weighed", [False, True])
def test_parts_that_wait_are_counted_with_their_cells(weighed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A box of 6,400 cells is as much as one of 100 columns, and so is each mask of weights."""
    model = model_content([stump(0, NO, YES)], ["no", "yes"])
    result = result_content([9000.0], "yes", attacker_content(intervals={"all": [-9e9, 9e9]}))
    extra = b"".join(number(0) + double(float(cut)) for cut in range(6400))
    weights = bytes([WEIGH]) + far_up(9, 6400) if weighed else b""
    steps = b"".join(weights + bytes([CUT_LEFT, 0]) + number(cell) for cell in range(6339, 6300, -1))
    payload = bytes([1, 0, CLAIM, 1]) + number(6400) + extra + steps + bytes(99)
    for most in (2**26, 30 * 1000 if weighed else 30 * 100):
        monkeypatch.setattr("treeproof.check.rules.MOST_HELD", most)
        ((_, found),) = check_rows(Question.of(model, result), Proofs(payload), [0])  # type: ignore[arg-type]
        assert ("a box may give" if most == 2**26 else "keeps too many parts waiting") in found.rejected[0]
