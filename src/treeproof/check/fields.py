"""What may stand in files, field by field, and what the checker does with it; docs/proof_format.md shows these tables.

A form is a word of SCALARS, with "?" where it may be null; a set of values; a list of one form, for lists of any length,
or of several, for lists as long; a tuple of forms of which one must fit; or a table of the fields of an object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from treeproof.check.rules import Rejected

USED = "used: it says what is asked, and hashes bind proofs to it"
GIVEN = "used, and taken as given: compare it with your own"
CHECKED = "checked"
AGAIN = "found again, and compared"
BOUND = "its form; a hash binds proofs to it"
FORM = "its form; nothing is claimed from it"

LARGEST, LARGEST_MAP = 2**30, 2**32
"""No file has more bytes."""
MOST_DIGITS = 1100
"""Of a number: as many as a double has at most, if it is written exactly."""
MOST_POWER = 64
"""Of distances."""
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,5}))?", re.ASCII)
_PERHAPS_LARGE = re.compile(r"\d{300}|[eE]\+?\d{3}|NaN|Infinity")


class Field(NamedTuple):
    """What a field may be, and what is done with it."""

    form: Any
    use: str = ""
    is_needed: bool = True


def is_decimal(text: str) -> bool:
    """Whether a text is a number of which exact arithmetic is over soon."""
    found = _DECIMAL.fullmatch(text) if len(text) <= MOST_DIGITS else None
    return found is not None and abs(int(found[1] or 0)) <= MOST_DIGITS


def _is_double(number: float) -> bool:
    return isinstance(number, (str, bool)) or abs(number) <= 1.7976931348623157e308


SCALARS: dict[str, tuple[frozenset[type], Callable[[Any], bool]]] = {
    "text": (frozenset({str}), lambda _: True),
    "flag": (frozenset({bool}), lambda _: True),
    "count": (frozenset({int}), lambda n: 0 <= n <= 1.7976931348623157e308),
    "place": (frozenset({int}), lambda n: -1 <= n < 2**31),
    "outcome": (frozenset({int}), lambda n: 0 <= n <= 2),
    "amount": (frozenset({int, float}), lambda n: 0 <= n <= 1.7976931348623157e308),
    "power": (frozenset({int}), lambda n: 1 <= n <= MOST_POWER),
    "number": (frozenset({int, float}), _is_double),
    "label": (frozenset({str, bool, int, float}), _is_double),
    "decimal": (frozenset({int, float, str}), lambda n: is_decimal(n) if isinstance(n, str) else _is_double(n)),
    "hash": (frozenset({str}), re.compile("[0-9a-f]{64}").fullmatch),  # type: ignore[dict-item]
}


def check(value: Any, form: Any, where: str) -> None:
    """Rejects a value of another form, and objects with fields that nobody knows, or that lack one."""
    if isinstance(form, Mapping):
        _check_object(value, form, where)
    elif isinstance(form, list) and type(value) is list and len(form) in (1, len(value)):
        if isinstance(form[0], str) and len(form) == 1:
            _check_scalars(value, form[0], where)
            return
        for number, one in enumerate(value):
            check(one, form[number if len(form) > 1 else 0], f"{where}, entry {number}")
    elif isinstance(form, str):
        _check_scalars((value,), form, where)
    elif isinstance(form, tuple):
        if not any(_fits(value, one) for one in form):
            raise _odd(value, where)
    elif not isinstance(form, frozenset) or not any(type(one) is type(value) and one == value for one in form):
        raise _odd(value, where)


def _check_object(value: Any, table: Mapping[str, Any], where: str) -> None:
    if type(value) is not dict:
        raise Rejected(f"{where} is no JSON object")
    needed = {name for name, one in table.items() if not isinstance(one, Field) or one.is_needed}
    for names, what in ((value.keys() - table.keys(), "has the unknown field"), (needed - value.keys(), "lacks")):
        if names:
            raise Rejected(f"{where} {what} {min(names)[:40]!r}")
    for name, one in value.items():
        form = table[name].form if isinstance(table[name], Field) else table[name]
        check(one, form, f"{name} of {where}")


def _check_scalars(values: Any, form: str, where: str) -> None:
    """Many at once, since files have millions of them."""
    kinds, holds = SCALARS[form.rstrip("?")]
    found = set(map(type, values)) - ({type(None)} if form.endswith("?") else set())
    if not found <= kinds or (found and not all(value is None or holds(value) for value in values)):
        raise _odd(next(one for one in values if not (one is None and form[-1] == "?") and not (type(one) in kinds and holds(one))), where)


def _fits(value: Any, form: Any) -> bool:
    try:
        check(value, form, "")
    except (Rejected, TypeError):
        return False
    return True


def _odd(value: Any, where: str) -> Rejected:
    if isinstance(value, int) and abs(value) > 2**64:
        value = "a number that large"
    return Rejected(f"{where} must not be {repr(value)[:60]}")


# --- JSON ------------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    if path.stat().st_size > LARGEST:
        raise Rejected(f"{path} has more than {LARGEST:,} bytes")
    return parse(path.read_bytes(), str(path))


def parse(data: bytes, where: str) -> Any:
    """What JSON holds, in which no name stands twice and no number is too large for a double."""
    try:
        text, hooks = data.decode("utf-8"), {}
        if _PERHAPS_LARGE.search(text):
            hooks = {"parse_int": _whole, "parse_float": _finite, "parse_constant": _finite}
        return json.loads(text, object_pairs_hook=_without_repeats, **hooks)
    except (ValueError, RecursionError, MemoryError) as error:
        raise Rejected(f"{where} is not JSON: {str(error)[:200]}") from None


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text[:40]}… has too many digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text) if len(text) <= MOST_DIGITS else math.inf
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number, or too large for a double")
    return number


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError(f"a name stands twice among {[name for name, _ in pairs][:9]}")
    return dict(pairs)


# --- tables ----------------------------------------------------------------------------------------------------------


def _all(form: Any, use: str, *names: str, is_needed: bool = True) -> dict[str, Field]:
    return {name: Field(form, use, is_needed) for name in names}


def _each(form: Any, null: bool = False) -> tuple[Any, ...]:
    """What is given once for all columns, for each, or for some by name or position."""
    found = ({"all": form}, {"each": [form]}, {"by_feature": [[_KEY, form]]})
    return (*found, _NULL) if null else found


_NULL, _KEY = frozenset({None}), ("text", "count")
_ENDS, _VALUES = ["number?", "number?"], {"values": ["label"]}
_WHOLE_LABELS = frozenset({"bool", "int64", "float64", "str"})

RULE = {
    "decision": Field(frozenset({"argmax", "cut", "softmax", "sigmoid"}), USED),
    "precision": Field(frozenset({"float64", "float32"}), USED),
    "base_last": Field("flag", USED),
    **_all("number", USED, "divisor", "cut", "steepness"),
    "members": Field([{"n_trees": "count", "divisor": "number", "weight": "number"}], USED, False),
}
TREE = {
    **_all(["place"], USED, "feature", "left", "right"),
    **_all(["number"], USED, "threshold"),
    "nan_left": Field(["flag"], USED),
    "scores": Field([["number"]], USED),
    "more": Field([["count", ["number"]]], USED, False),
}
CATEGORY = {
    "feature": Field("count", USED),
    "values": Field(["label"], USED),
    **_all("flag", USED, "coded", "unseen", "by_text"),
    "dtype": Field("text", BOUND),
    "missing": Field([frozenset({"none", "nan", "na"})], BOUND),
}
MODEL = {
    "format": Field(frozenset({"treeproof-ensemble"}), CHECKED),
    "version": Field(frozenset({1, 2}), CHECKED),
    "origin": Field("text", FORM),
    "n_features": Field("count", USED),
    "feature_names": Field((["text"], _NULL), GIVEN),
    "classes": Field(["label"], USED),
    "class_dtype": Field(_WHOLE_LABELS, CHECKED),
    "handles_missing": Field("flag", USED),
    **_all(["number"], USED, "value_low", "value_high"),
    "rule": Field(RULE, USED),
    "base": Field(["number"], USED),
    "trees": Field([TREE], USED),
    "decided": Field({"class": "count", "where": "text"}, FORM, False),
    "no_missing": Field(["count"], USED, False),
    "categories": Field([CATEGORY], USED, False),
    "takes_frames": Field("flag", BOUND, False),
    "blanks_underscored": Field("flag", USED, False),
}
REWRITING = {
    "column": Field(_KEY, USED),
    "when": Field((_ENDS, _VALUES), USED, False),
    "change": Field(("decimal", ["decimal", "decimal"]), USED, False),
    "to": Field("label", USED, False),
    "cost": Field("count", USED),
}
ATTACKER = {
    "format": Field(frozenset({"treeproof-attacker"}), CHECKED),
    "version": Field(frozenset({1, 2}), CHECKED),
    "intervals": Field(_each((_ENDS, _VALUES, {"steps": _ENDS, "step": "decimal"})), USED),
    "costs": Field(_each(("count", {"matrix": [["label", "label", "count"]]})), USED),
    "budget": Field("count?", USED),
    "domain": Field(_each((_ENDS, _NULL), True), USED),
    "power": Field("power?", USED),
    "radius": Field("number", USED),
    "scale": Field(_each("number", True), USED, False),
    "step": Field(_each("decimal?", True), USED, False),
    **_all(_each("count?", True), USED, "blank", "fill", is_needed=False),
    **_all([_KEY], USED, "up", "down", is_needed=False),
    "unseen": Field("flag", USED, False),
    "groups": Field([{"name": "text", "columns": [_KEY], "budget": "count"}], USED, False),
    "rules": Field([REWRITING], USED, False),
    "goal": Field(["label"], USED, False),
}
EPSILON = _each(("number?", frozenset({"any"}), {"values": [["label"]]}))
MEASURES = {
    "class": Field("label", AGAIN),
    **_all("count", AGAIN, "rows", "open_rows", "rows_with_missing"),
    "accuracy": Field("number", AGAIN),
    "robustness": Field(["number", "number"], AGAIN),
    "resilience": Field([["number", "number"]], AGAIN),
}
PROOFS = {**_all("count", CHECKED, "checked", "rejected", "unchecked"), "version": Field("text", FORM)}
_QUESTION = {
    "model": Field("text", FORM),
    "fingerprint": Field("hash", AGAIN),
    "n_features": Field("count", CHECKED),
    "feature_names": Field((["text"], _NULL), CHECKED),
    "attacker": Field(ATTACKER, USED),
    "relations": Field(["text"], USED),
    "X": Field([["number?"]], GIVEN),
    "predicted": Field(["label"], AGAIN),
    "attacked": Field([["number?"]], CHECKED),
}
RESULT = {
    "format": Field(frozenset({"treeproof-verification"}), CHECKED),
    "version": Field(frozenset({4}), CHECKED),
    **_QUESTION,
    "decision": Field("text", AGAIN),
    "seconds": Field("amount", FORM),
    "interrupted": Field("flag", FORM),
    "boxes": Field("count", FORM),
    "epsilons": Field([EPSILON], USED),
    "epsilon_names": Field((["text"], _NULL), FORM),
    "label_dtype": Field("text", CHECKED),
    "y": Field(["label"], GIVEN),
    "stability": Field(["outcome"], CHECKED),
    "resilience": Field([["outcome"]], CHECKED),
    "refuted": Field([(frozenset({None, "stability"}), "place")], CHECKED),
    "neighbour": Field([["number?"]], CHECKED),
    **_all(["label"], AGAIN, "neighbour_label", "attacked_label"),
    "categories": Field([CATEGORY], CHECKED),
    **_all((["count"], _NULL), AGAIN, "movable", "unreached", "untested"),
    "actors": Field((["label"], _NULL), GIVEN),
    "broken": Field([["count"]], AGAIN),
    "rows_with_missing": Field("count", AGAIN),
    "by_class": Field([MEASURES], AGAIN),
    "proofs": Field(PROOFS, CHECKED, False),
}
ATTACKS = {
    "format": Field(frozenset({"treeproof-attacks"}), CHECKED),
    "version": Field(frozenset({1}), CHECKED),
    **_QUESTION,
    "price": Field(["number?"], CHECKED),
    "exact": Field(["flag"], CHECKED),
}
HEADER = {
    "version": Field(frozenset({1}), CHECKED),
    "treeproof": Field("text", FORM),
    **_all("hash", AGAIN, "model", "attacker"),
    **_all("hash", AGAIN, "relations", "epsilons", "rows", "map", is_needed=False),
    "claim": Field(frozenset({"no attack is cheaper"}), CHECKED, False),
}
TABLES = {
    "model": MODEL, "rule of a model": RULE, "tree": TREE, "category": CATEGORY, "attacker": ATTACKER,
    "rule of an attacker": REWRITING, "result": RESULT, "by_class": MEASURES, "proofs of a result": PROOFS,
    "cheapest attacks": ATTACKS, "header of proofs": HEADER,
}  # fmt: skip
"""What files hold, by the names that the page gives to it."""
