"""A share of the fuzzer of doors, and that it notices what it is there for."""

from __future__ import annotations

import math
from random import Random

import pytest

from tests import fuzz_doors
from tests.support.fuzz import doors, related, spellings
from tests.support.fuzz.subjects import Subject, Told
from tests.support.fuzz.tally import Difference, Part, Tally, ensure

SHARES = {
    "tables": (16, 13),
    "training": (12, 5),
    "frames": (20, 9),
    "decisions": (20, 7),
    "saved": (12, 9),
    "steps": (10, 11),
}
"""For each part, how many questions are asked, and how far apart their numbers are: other formats, other commands."""


@pytest.mark.parametrize("name", doors.PARTS)
def test_what_comes_in_is_what_the_library_says_or_refused(name: str) -> None:
    part, tally, (n, apart) = doors.PARTS[name], Tally(), SHARES[name]
    found = [fuzz_doors.ask(part, 0, number * apart, tally) for number in range(n)]
    assert [one for one in found if one] == []
    assert sum(tally.cases.values()) > 10 * n


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", doors.PARTS)
def test_what_comes_in_is_what_the_library_says_or_refused_at_length(name: str, seed: int) -> None:
    found = [fuzz_doors.ask(doors.PARTS[name], seed, number, Tally()) for number in range(100)]
    assert [one for one in found if one] == []


def test_the_first_difference_ends_the_run_and_is_asked_again_by_its_number() -> None:
    def check(random: Random, number: int, tally: Tally) -> None:
        tally.count("row", "column")
        ensure(number != 3, f"wrong at {random.random()}")

    part = Part("made up", (("row", "column"),), check)
    first = fuzz_doors.run([part], 10, 7)["made up"]
    assert first.cases["row", "column"] == 4
    (said,) = first.found
    assert said == fuzz_doors.ask(part, 7, 3, Tally())
    assert "--seed 7 --one made up:3" in said
    going_on = fuzz_doors.run([part], 10, 7, keep_going=True)["made up"]
    assert (going_on.cases["row", "column"], len(going_on.found)) == (10, 1)


def test_a_cell_that_never_fills_ends_the_run() -> None:
    part = Part("empty", (("row", "column"),), lambda random, number, tally: None)
    tally = fuzz_doors.run([part], 1, 0)["empty"]
    assert tally.cases["row", "column"] == 0
    assert "column" in fuzz_doors.table(part, tally)


def test_ensure_says_what_is_wrong() -> None:
    with pytest.raises(Difference, match="^no such label$"):
        ensure(False, "no such label")


@pytest.mark.parametrize(("command", "what"), [("verify", "breaks relations"), ("guard", "stable")])
def test_another_meaning_of_relations_is_noticed(command: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, found = doors.PARTS["tables"], list[str | None]()
    for number in range(part.cells.index(("csv", command)), 8 * len(part.cells), len(part.cells)):
        assert fuzz_doors.ask(part, 0, number, Tally()) is None
        with monkeypatch.context() as changed:
            changed.setattr(Subject, "breaks", lambda self, row: False)
            found.append(fuzz_doors.ask(part, 0, number, Tally()))
    assert any(said and what in said for said in found)


@pytest.mark.parametrize(
    ("text", "row", "wanted"),
    [
        ("a <= 0.1", {"a": 0.1}, True),
        ("a <= 0.1", {"a": math.nextafter(0.1, 1)}, False),
        ("a <= 0.1", {"a": math.nan}, None),
        ("a <= 1*b + 0.1", {"a": 0.3, "b": 0.2}, True),
        ("a < 1*b + 0.1", {"a": 0.3, "b": 0.2}, True),
        ("a <= 1*b + 0.1", {"a": 0.1, "b": 0.0}, False),
    ],
)
def test_what_relations_say(text: str, row: dict[str, float], wanted: bool | None) -> None:
    columns = [Told("a", "number"), Told("b", "number")]
    one = next(one for k in range(9999) if (one := related.relation(columns, Random(k))).text == text)
    assert one.holds(row) is wanted


@pytest.mark.parametrize("text", ["12_34", "１２３４", "0x10", "1 234", "b'a'", "1\u00a0", "-0\n", "a"])
def test_text_that_is_no_number_means_none(text: str) -> None:
    assert spellings.number(text).values == ()


@pytest.mark.parametrize("text", ["1", "-0.5", "1e5", "1234.0", "5e-324"])
def test_plain_numbers_must_be_taken(text: str) -> None:
    assert spellings.number(text) == spellings.Meant((float(text),), True)


@pytest.mark.parametrize("text", [" 1234", "1234.0", "01234", "1.234e3"])
def test_text_is_no_category_that_looks_like_it(text: str) -> None:
    assert spellings.word(text, ("1234",)).values == (text,)
