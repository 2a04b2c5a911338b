"""JSON that every reader understands alike."""

from __future__ import annotations

import math

import pytest

import treeproof as tp
from treeproof.files import parse_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "'a' occurs twice in one object"),
        ('[{"x": {"a": 1, "a": 2}}]', "'a' occurs twice in one object"),
        ("[1e999]", "1e999 is too large for a double"),
        ("[-1E+0400]", r"-1E\+0400 is too large"),
        ("[" + "9" * 400 + ".0]", "is too large for a double"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
    ],
)
def test_what_readers_could_take_differently_is_refused(text: str, message: str) -> None:
    with pytest.raises(tp.InvalidInput, match=message):
        parse_json(text)
    with pytest.raises(tp.InvalidInput, match=message):
        parse_json(text.encode())


def test_everything_else_is_read_as_python_reads_it() -> None:
    assert parse_json('{"a": [1, 2.5, -1e308, 1e-999, true, null, "x"]}') == {
        "a": [1, 2.5, -1e308, 0.0, True, None, "x"]
    }
    low, nan = parse_json("[-Infinity, NaN]", constants=True)
    assert low == -math.inf and math.isnan(nan)


@pytest.mark.parametrize("twice", ["budget", "intervals"])
def test_attackers_with_two_meanings_are_refused(twice: str) -> None:
    text = tp.Attacker.linf(0.1).to_json()
    doubled = text.replace(f'"{twice}":', f'"{twice}": null, "{twice}":')
    assert doubled != text
    with pytest.raises(tp.InvalidInput, match=f"'{twice}' occurs twice"):
        tp.Attacker.from_json(doubled)
