"""What may stand in files, field by field, and what the checker does with it; docs/proof_format.md shows these tables.

A form is a word of SCALARS, with "?" where it may be null; a set of values; a list of one form, for lists however long,
or of several, for lists as long; a tuple of forms of which one must fit; or a table of the fields of an object.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
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


def _is_double(number: Any) -> bool:
    return type(number) in (str, bool) or abs(number) <= MOST


MOST = 1.7976931348623157e308
SCALARS: dict[str, tuple[set[type], Callable[[Any], Any]]] = {
    "text": ({str}, lambda _: True),
    "flag": ({bool}, lambda _: True),
    "count": ({int}, lambda n: 0 <= n <= MOST),
    "place": ({int}, lambda n: -1 <= n < 2**31),
    "outcome": ({int}, lambda n: 0 <= n <= 2),
    "amount": ({int, float}, lambda n: 0 <= n <= MOST),
    "power": ({int}, lambda n: 1 <= n <= MOST_POWER),
    "number": ({int, float}, _is_double),
    "label": ({str, bool, int, float}, _is_double),
    "decimal": ({int, float, str}, lambda n: is_decimal(n) if isinstance(n, str) else _is_double(n)),
    "hash": ({str}, re.compile("[0-9a-f]{64}").fullmatch),
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
    elif not isinstance(form, set) or not any(type(one) is type(value) and one == value for one in form):
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
    some = [value for value in values if value is not None] if form[-1] == "?" else values
    if not set(map(type, some)) <= kinds or not all(map(holds, some)):
        raise _odd(next(one for one in some if type(one) not in kinds or not holds(one)), where)


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
        text = data.decode("utf-8")
        hooks: dict[str, Any] = {}
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


def _of(use: str, is_needed: bool = True, **forms: Any) -> dict[str, Field]:
    return {name: Field(form, use, is_needed) for name, form in forms.items()}


def _each(form: Any, *null: Any) -> tuple[Any, ...]:
    """What is given once for all columns, for each, or for some by name or position."""
    return ({"all": form}, {"each": [form]}, {"by_feature": [[_KEY, form]]}, *null)


_NULL, _KEY, _ENDS, _VALUES = {None}, ("text", "count"), ["number?", "number?"], {"values": ["label"]}
_COST, _ROWS = ("count", {"matrix": [["label", "label", "count"]]}), [["number?"]]
_MEMBER = {"n_trees": "count", "divisor": "number", "weight": "number"}
_GROUP = {"name": "text", "columns": [_KEY], "budget": "count"}

RULE = {
    **_of(USED, decision={"argmax", "cut", "softmax", "sigmoid"}, precision={"float64", "float32"}, base_last="flag"),
    **_of(USED, divisor="number", cut="number", steepness="number"),
    **_of(USED, False, members=[_MEMBER]),
}
TREE = {
    **_of(USED, feature=["place"], left=["place"], right=["place"], threshold=["number"], nan_left=["flag"]),
    **_of(USED, scores=[["number"]]),
    **_of(USED, False, more=[["count", ["number"]]]),
}
CATEGORY = {
    **_of(USED, values=["label"], coded="flag", unseen="flag", by_text="flag"),
    **_of(BOUND, dtype="text", missing=[{"none", "nan", "na"}]),
    **_of(BOUND, False, numbers={"codes", "values", "refused"}),
}
COLUMN = {
    **_of(USED, low="number", high="number", missing="flag"),
    **{"category": Field(CATEGORY, USED, False), "name": Field("text", GIVEN, False)},
    **_of(BOUND, False, refused=["text"]),
}
MODEL = {
    **_of(CHECKED, format={"treeproof-ensemble"}, version={3}, class_dtype={"bool", "int64", "float64", "str"}),
    **_of(USED, columns=[COLUMN], classes=["label"], rule=RULE, base=["number"], trees=[TREE]),
    **_of(USED, False, blanks_underscored="flag"),
    **_of(BOUND, False, takes_frames="flag", refuses_arrays="flag"),
    **_of(FORM, origin="text"),
    **_of(FORM, False, decided={"class": "count", "where": "text"}),
}
REWRITING = {
    **_of(USED, column=_KEY, cost="count"),
    **_of(USED, False, when=(_ENDS, _VALUES), change=("decimal", ["decimal", "decimal"]), to="label"),
}
ATTACKER = {
    **_of(CHECKED, format={"treeproof-attacker"}, version={2}),
    **_of(USED, intervals=_each((_ENDS, _VALUES, {"steps": _ENDS, "step": "decimal"})), costs=_each(_COST)),
    **_of(USED, budget="count?", domain=_each((_ENDS, _NULL), _NULL), power="power?", radius="number"),
    **_of(USED, False, scale=_each("number", _NULL), step=_each("decimal?", _NULL), up=[_KEY], down=[_KEY]),
    **_of(USED, False, blank=_each("count?", _NULL), fill=_each("count?", _NULL), unseen="flag", groups=[_GROUP]),
    **_of(USED, False, rules=[REWRITING], goal=["label"]),
}
EPSILON = _each(("number?", {"any"}, {"values": [["label"]]}))
MEASURES = {
    "class": Field("label", AGAIN),
    **_of(AGAIN, rows="count", open_rows="count", rows_with_missing="count", accuracy="number"),
    **_of(AGAIN, robustness=["number", "number"], resilience=[["number", "number"]]),
}
PROOFS = {**_of(CHECKED, checked="count", rejected="count", unchecked="count"), **_of(FORM, version="text")}
_QUESTION = {
    **_of(USED, attacker=ATTACKER, relations=["text"]),
    **_of(CHECKED, n_features="count", feature_names=(["text"], _NULL), attacked=_ROWS),
    **_of(AGAIN, fingerprint="hash", predicted=["label"]),
    **_of(GIVEN, X=_ROWS),
    **_of(FORM, model="text"),
}
RESULT = {
    **_QUESTION,
    **_of(USED, epsilons=[EPSILON]),
    **_of(CHECKED, format={"treeproof-verification"}, version={4}, stability=["outcome"], resilience=[["outcome"]]),
    **_of(CHECKED, refuted=[({None, "stability"}, "place")], neighbour=_ROWS, label_dtype="text"),
    **_of(CHECKED, epsilon_names=(["text"], _NULL), categories=[{"feature": "count", **CATEGORY}]),
    **_of(CHECKED, False, proofs=PROOFS),
    **_of(AGAIN, neighbour_label=["label"], attacked_label=["label"], decision="text", broken=[["count"]]),
    **_of(AGAIN, movable=(["count"], _NULL), unreached=(["count"], _NULL), untested=(["count"], _NULL)),
    **_of(AGAIN, rows_with_missing="count", by_class=[MEASURES]),
    **_of(GIVEN, y=["label"], actors=(["label"], _NULL)),
    **_of(FORM, treeproof="text", seconds="amount", interrupted="flag", boxes="count"),
}
ATTACKS = {
    **_QUESTION,
    **_of(CHECKED, format={"treeproof-attacks"}, version={1}, price=["number?"], exact=["flag"]),
}
HEADER = {
    **_of(CHECKED, version={1}),
    **_of(CHECKED, False, claim={"no attack is cheaper"}),
    **_of(AGAIN, model="hash", attacker="hash"),
    **_of(AGAIN, False, relations="hash", epsilons="hash", rows="hash", map="hash"),
    **_of(FORM, treeproof="text"),
}
TABLES = {
    **{"model": MODEL, "rule of a model": RULE, "tree": TREE, "column": COLUMN, "category": CATEGORY},
    **{"attacker": ATTACKER, "rule of an attacker": REWRITING, "result": RESULT, "by_class": MEASURES},
    **{"proofs of a result": PROOFS, "cheapest attacks": ATTACKS, "header of proofs": HEADER},
}
"""What files hold, by the names that the page gives to it."""
